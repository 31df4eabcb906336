//! The shape of each step in a batch of texts: `(batch, heads, tokens, width)`.

use crate::program::operation::StepId;
use crate::program::quantity::{MatrixAxis, Quantity};
use crate::program::step_kind::StepKind;
use crate::program::steps::{Program, ProgramStep};

/// An axis of a step in a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchAxis {
    /// Letter of its length.
    pub letter: String,
    /// Length for a single text.
    pub length: usize,
}

/// Returns the axes of a step in a batch: those of its matrix, after the batch and the heads. Parameters and positions
/// are the same for all texts, and vectors have one axis. `axes` and `letters` are those of the matrix.
pub(crate) fn batch_axes(
    program: &Program,
    id: StepId,
    axes: [MatrixAxis; 2],
    letters: &[String; 2],
    num_heads: usize,
) -> Vec<BatchAxis> {
    let ProgramStep { quantity, kind, head, value, .. } = program.step(id);
    let is_parameter = quantity.is_parameter();
    let is_shared = is_parameter
        || *kind == StepKind::Jacobian
        || matches!(quantity, Quantity::Positions | Quantity::RotarySpeeds | Quantity::Loss);
    let mut found = Vec::new();
    let mut push = |letter: &str, length| found.push(BatchAxis { letter: letter.into(), length });
    if !is_shared {
        push("B", 1);
    }
    if head.is_some() && *kind != StepKind::Jacobian {
        let is_same = |step: &&ProgramStep| step.quantity == *quantity && step.kind == *kind;
        let mut heads: Vec<_> = program.steps().iter().filter(is_same).filter_map(|step| step.head).collect();
        heads.sort_unstable();
        heads.dedup();
        push(if heads.len() == num_heads { "h" } else { "h_kv" }, heads.len());
    }
    for (k, axis) in axes.into_iter().enumerate() {
        let (letter, length) = (&letters[k], value.dim());
        let length = if k == 0 { length.0 } else { length.1 };
        match axis {
            MatrixAxis::QueryKeyPairs => {
                let keys = program.find(Quantity::Scores, *head).map_or(1, |scores| program.value(scores).ncols());
                let (of_queries, of_keys) = letter.split_once('·').unwrap_or((letter, ""));
                push(of_queries, length / keys);
                push(of_keys, keys);
            }
            // A row for the whole text, and the single column of a vector, are no axes; that of a sum over keys is kept.
            MatrixAxis::One
                if k == 0
                    || is_parameter
                    || matches!(quantity, Quantity::Loss | Quantity::TokenIds | Quantity::TypeIds)
                    || axes[0] == MatrixAxis::QueryKeyPairs => {}
            _ => push(letter, length),
        }
    }
    found
}
