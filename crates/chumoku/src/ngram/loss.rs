//! Softmax and its log-loss, one row at a time.

/// −ln p of the label, one score standing for two classes (0 and it).
pub(crate) fn negative_log_likelihood(scores: &[f32], label: u32) -> f64 {
    if let [score] = scores {
        let margin = f64::from(if label == 1 { *score } else { -score });
        return (-margin.abs()).exp().ln_1p() + (-margin).max(0.0);
    }
    let largest = scores.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
    let sum: f64 = scores.iter().map(|&score| f64::from(score - largest).exp()).sum();
    sum.ln() + f64::from(largest - scores[label as usize])
}

/// Scores become probabilities; one score becomes the probability of class 1.
pub(crate) fn softmax(scores: &mut [f32]) {
    if let [score] = scores {
        *score = 1.0 / (1.0 + (-*score).exp());
        return;
    }
    let largest = scores.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = (*score - largest).exp();
        sum += *score;
    }
    scores.iter_mut().for_each(|score| *score /= sum);
}
