//! What a text is to be told: its class, or its labels.

use super::loss::{negative_log_likelihood, softmax};
use std::slice;

/// The right answer for a text, as numbers of classes or labels: one class of several that exclude each other (`u32`), or any
/// number of labels that do not (`Vec<u32>`, ascending).
pub trait NgramTarget: Clone + Send + Sync {
    /// Whether labels do not exclude each other: each has a probability of its own, `1 / (1 + e⁻ᶻ)`.
    const IS_SET: bool;
    /// The numbers.
    fn numbers(&self) -> &[u32];
    /// What the labels stand for, where they are the thresholds that a number lies above.
    fn regression_value(&self) -> Option<f64> {
        None
    }
}

impl NgramTarget for u32 {
    const IS_SET: bool = false;

    fn numbers(&self) -> &[u32] {
        slice::from_ref(self)
    }
}

impl NgramTarget for Vec<u32> {
    const IS_SET: bool = true;

    fn numbers(&self) -> &[u32] {
        self
    }
}

/// The numbers of each answer. Code that takes these is compiled once for all types of answers.
pub fn label_ids_of<A: NgramTarget>(answers: &[A]) -> Vec<&[u32]> {
    answers.iter().map(A::numbers).collect()
}

/// Outputs of a linear model: for two classes one, which stands for both.
pub(crate) fn num_outputs(classes: usize, is_set: bool) -> usize {
    if classes == 2 && !is_set { 1 } else { classes }
}

/// −ln p of a right answer; of labels the sum over all, those that are not there among them.
pub fn log_loss(scores: &[f32], numbers: &[u32], is_set: bool) -> f64 {
    if !is_set {
        return numbers.first().map_or(0.0, |&label| negative_log_likelihood(scores, label));
    }
    // −ln(1 − p) of all, and −ln p in place of it for those that are there.
    let absent: f64 = scores.iter().map(|&z| softplus(f64::from(z))).sum();
    absent - numbers.iter().map(|&label| f64::from(scores[label as usize])).sum::<f64>()
}

/// ln(1 + eᶻ)
fn softplus(z: f64) -> f64 {
    z.max(0.0) + (-z.abs()).exp().ln_1p()
}

/// Scores become probabilities: of classes together, of labels one by one.
pub(crate) fn probabilities(scores: &mut [f32], is_set: bool) {
    if !is_set {
        return softmax(scores);
    }
    scores.iter_mut().for_each(|z| *z = 1.0 / (1.0 + (-*z).exp()));
}
