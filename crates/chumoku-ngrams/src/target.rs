//! Prediction targets: a class or a set of labels.

use chumoku_kernels::reference::{softmax_in_place, softplus};
use chumoku_nn::probability::negative_log_likelihood;
use std::slice;

/// The target of a text as ids: one of several exclusive classes (`u32`), or any number of non-exclusive labels
/// (`Vec<u32>`, ascending).
pub trait NgramTarget: Clone + Send + Sync {
    /// True for multi-label targets: each label has its own probability, `1 / (1 + e⁻ᶻ)`.
    const IS_SET: bool;
    /// Returns the class or label ids.
    fn label_ids(&self) -> &[u32];
    /// Returns the numeric target if labels are thresholds that a number exceeds.
    fn regression_value(&self) -> Option<f64> {
        None
    }
}

impl NgramTarget for u32 {
    const IS_SET: bool = false;

    fn label_ids(&self) -> &[u32] {
        slice::from_ref(self)
    }
}

impl NgramTarget for Vec<u32> {
    const IS_SET: bool = true;

    fn label_ids(&self) -> &[u32] {
        self
    }
}

/// Returns the ids of each target. Code that takes ids is compiled once for all target types.
pub fn label_ids_of<A: NgramTarget>(answers: &[A]) -> Vec<&[u32]> {
    answers.iter().map(A::label_ids).collect()
}

/// Returns the number of outputs of a linear model. Two classes share a single output.
pub(crate) fn num_outputs(classes: usize, is_set: bool) -> usize {
    if classes == 2 && !is_set { 1 } else { classes }
}

/// Returns −ln p of a target. For multi-label targets, it is the sum over all labels, including absent ones. A single
/// score represents two classes: 0 for the first, the score for the second.
pub fn log_loss(scores: &[f32], numbers: &[u32], is_set: bool) -> f64 {
    if is_set {
        // Add −ln(1 − p) for all labels, then replace it by −ln p for the present ones.
        let absent: f64 = scores.iter().map(|&z| softplus(f64::from(z))).sum();
        return absent - numbers.iter().map(|&label| f64::from(scores[label as usize])).sum::<f64>();
    }
    match (scores, numbers) {
        (_, []) => 0.0,
        (&[score], [1, ..]) => softplus(f64::from(-score)),
        (&[score], _) => softplus(f64::from(score)),
        (scores, [label, ..]) => negative_log_likelihood(scores, *label as usize),
    }
}

/// Converts scores into probabilities: softmax over classes, or a sigmoid per label. A single score becomes the
/// probability of the second class.
///
/// This is the reference softmax: the result does not depend on the instruction set.
pub(crate) fn probabilities(scores: &mut [f32], is_multi_label: bool) {
    if is_multi_label || scores.len() == 1 {
        scores.iter_mut().for_each(|z| *z = 1.0 / (1.0 + (-*z).exp()));
    } else {
        softmax_in_place(scores);
    }
}
