//! Probabilities and log-loss of a row. A single score represents two classes: 0 for the first, the score for the
//! second.

use chumoku_nn::probability;

/// Returns −ln p of the label.
pub(crate) fn negative_log_likelihood(scores: &[f32], label: u32) -> f64 {
    if let [score] = scores {
        let margin = f64::from(if label == 1 { *score } else { -score });
        return (-margin.abs()).exp().ln_1p() + (-margin).max(0.0);
    }
    probability::negative_log_likelihood(scores, label as usize)
}

/// Converts scores into probabilities; a single score becomes the probability of class 1.
pub(crate) fn softmax(scores: &mut [f32]) {
    if let [score] = scores {
        *score = 1.0 / (1.0 + (-*score).exp());
        return;
    }
    probability::softmax(scores);
}
