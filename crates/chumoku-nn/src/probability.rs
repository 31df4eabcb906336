//! Log-probabilities from scores (logits), without overflow or underflow.
//!
//! With m = max x and z = Σ exp(x − m), `ln softmax(x) = x − m − ln z` and `ln Σ eˣ = m + ln z`. No exponent is above 0,
//! and z is at least 1. A NaN or an infinite m makes every result NaN.
//!
//! These functions process single rows of model outputs. Layers use the kernels' softmax and cross-entropy, which are
//! vectorized and have gradients.

use chumoku_kernels::Real;

/// Returns `m = max x` and `z = Σ exp(x − m)`, the terms of softmax and log-sum-exp. For an empty row they are −∞ and
/// 0.
pub fn max_and_sum_exp<T: Real>(x: &[T]) -> (T, T) {
    let largest = x.iter().copied().fold(T::NEG_INFINITY, T::max);
    (largest, x.iter().map(|&x| (x - largest).exp()).sum())
}

/// Returns `ln Σ eˣ = m + ln z`.
///
/// ```
/// use chumoku_nn::probability::log_sum_exp;
///
/// assert_eq!(log_sum_exp(&[1000.0, 1000.0]), 1000.0 + 2f64.ln());
/// ```
pub fn log_sum_exp<T: Real>(x: &[T]) -> T {
    let (largest, sum) = max_and_sum_exp(x);
    largest + sum.ln()
}

/// Returns `x − ln Σ eˣ`, the logarithms of `softmax(x)`, summed in f32.
///
/// ```
/// let log_p = chumoku_nn::probability::log_softmax(&[0.0, 3f32.ln()]);
/// assert!((log_p[1].exp() - 0.75).abs() < 1e-6);
/// ```
pub fn log_softmax(x: &[f32]) -> Vec<f32> {
    let log_total = log_sum_exp(x);
    x.iter().map(|&x| x - log_total).collect()
}

/// Returns `−ln p[class] = ln z + m − x[class]` with `p = softmax(x)`. Differences are in f32; z is summed in f64.
///
/// # Panics
/// If the class does not exist.
pub fn negative_log_likelihood(x: &[f32], class: usize) -> f64 {
    let largest = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = x.iter().map(|&x| f64::from(x - largest).exp()).sum();
    sum.ln() + f64::from(largest - x[class])
}

#[cfg(test)]
mod tests {
    use super::*;
    use chumoku_kernels::reference::softmax_in_place;

    #[test]
    fn log_softmax_log_sum_exp_and_the_kernels_softmax_agree() {
        for shift in [-1e4, 0.0, 1e4] {
            let x = [1.0, 3.0, 2.0, -1.0].map(|x: f32| x + shift);
            let wide = x.map(f64::from);
            let total = log_sum_exp(&wide);
            let p = wide.map(|x| (x - total).exp());
            let mut p_wide = wide;
            softmax_in_place(&mut p_wide);
            let log_p = log_softmax(&x);
            for i in 0..x.len() {
                assert!((p[i] - p_wide[i]).abs() < 1e-12, "{p:?} {p_wide:?}");
                // One unit in the last place of 10,000 is 0.001.
                assert!((f64::from(log_p[i]) - p[i].ln()).abs() < 1e-3, "{p:?} {log_p:?}");
                assert!((negative_log_likelihood(&x, i) + p[i].ln()).abs() < 1e-6, "{p:?}");
            }
        }
    }

    #[test]
    fn non_finite_logits_make_non_finite_results() {
        assert!(log_softmax(&[0.0, f32::NAN]).iter().all(|x| x.is_nan()));
        assert!(log_sum_exp(&[0.0, f64::INFINITY]).is_nan());
        assert!(negative_log_likelihood(&[f32::NAN, 0.0], 1).is_nan());
        assert_eq!(log_sum_exp::<f64>(&[]), f64::NEG_INFINITY);
    }
}
