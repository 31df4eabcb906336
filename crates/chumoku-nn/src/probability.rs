//! From scores to probabilities, in logarithms, where they neither overflow nor vanish.

/// `x − ln Σ exp x`, the logarithms of `softmax(x)`.
///
/// ```
/// let log_p = chumoku_nn::probability::log_softmax(&[0.0, 3f32.ln()]);
/// assert!((log_p[1].exp() - 0.75).abs() < 1e-6);
/// ```
pub fn log_softmax(x: &[f32]) -> Vec<f32> {
    let largest = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let log_total = x.iter().map(|&x| (x - largest).exp()).sum::<f32>().ln() + largest;
    x.iter().map(|&x| x - log_total).collect()
}
