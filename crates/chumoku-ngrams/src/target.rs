//! Prediction targets: a class or a set of labels.

use super::loss::{negative_log_likelihood, softmax};
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

/// Returns −ln p of a target. For multi-label targets, it is the sum over all labels, including absent ones.
pub fn log_loss(scores: &[f32], numbers: &[u32], is_set: bool) -> f64 {
    if !is_set {
        return numbers.first().map_or(0.0, |&label| negative_log_likelihood(scores, label));
    }
    // Add −ln(1 − p) for all labels, then replace it by −ln p for the present ones.
    let absent: f64 = scores.iter().map(|&z| softplus(f64::from(z))).sum();
    absent - numbers.iter().map(|&label| f64::from(scores[label as usize])).sum::<f64>()
}

/// Returns ln(1 + eᶻ).
fn softplus(z: f64) -> f64 {
    z.max(0.0) + (-z.abs()).exp().ln_1p()
}

/// Converts scores into probabilities: softmax over classes, or a sigmoid per label.
pub(crate) fn probabilities(scores: &mut [f32], is_multi_label: bool) {
    if !is_multi_label {
        return softmax(scores);
    }
    scores.iter_mut().for_each(|z| *z = 1.0 / (1.0 + (-*z).exp()));
}
