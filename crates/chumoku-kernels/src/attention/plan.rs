//! The description of the kernel that a call of attention uses.

use crate::isa::{self, Isa};
use std::fmt;

/// The kernel that [`super::Attention::forward`] uses, so that no slow path is silent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttentionPlan {
    /// Name of the kernel.
    pub kernel: &'static str,
    /// The active instruction set.
    pub isa: Isa,
    /// Queries and keys in a block.
    pub tile: (usize, usize),
    /// bf16 terms per value; 0 if products are computed in f32 or f64.
    pub terms: usize,
    /// Number of tasks that threads can share.
    pub tasks: usize,
    /// Approximate scratch memory per thread, in bytes.
    pub scratch_bytes: usize,
    /// Reason for the choice of the kernel.
    pub reason: &'static str,
}

impl fmt::Display for AttentionPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (queries, keys) = self.tile;
        write!(f, "{} on {}, {queries} queries x {keys} keys per block", self.kernel, self.isa)?;
        write!(f, ", {} tasks, {} KiB of scratch per thread: {}", self.tasks, self.scratch_bytes / 1024, self.reason)
    }
}

impl AttentionPlan {
    /// Returns the plan of the reference implementation.
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
