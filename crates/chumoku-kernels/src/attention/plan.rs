//! What a call of attention runs on, as a result.

use crate::isa::{self, Isa};
use std::fmt;

/// What [`super::Attention::forward`] runs on: no slow path is silent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttentionPlan {
    /// The kernel.
    pub kernel: &'static str,
    /// The instruction set in force.
    pub isa: Isa,
    /// Queries and keys of a block.
    pub tile: (usize, usize),
    /// bf16 terms for each number; 0 where products are of f32 (or f64).
    pub terms: usize,
    /// Tasks that threads can share.
    pub tasks: usize,
    /// Bytes of working memory of each thread, about.
    pub scratch_bytes: usize,
    /// Why this kernel.
    pub reason: &'static str,
}

impl fmt::Display for AttentionPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (queries, keys) = self.tile;
        write!(f, "{} on {}, {queries} queries x {keys} keys a block", self.kernel, self.isa)?;
        write!(f, ", {} tasks, {} KiB of scratch a thread: {}", self.tasks, self.scratch_bytes / 1024, self.reason)
    }
}

impl AttentionPlan {
    /// Of the plain version.
    pub(crate) fn reference() -> Self {
        AttentionPlan {
            kernel: "plain",
            isa: isa::active(),
            tile: (1, 1),
            terms: 0,
            tasks: 1,
            scratch_bytes: 0,
            reason: "double precision is computed by the reference, one query at a time",
        }
    }
}
