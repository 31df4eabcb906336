//! The reference implementation: one row at a time.

use super::types::{LayerNormBackward, LayerNormForward, LayerNormOutput, RmsNormBackward, RmsNormOutput};
use crate::number::Real;

/// Computes `y = γ (x − mean)/√(variance + ε) + β` over rows with the length of γ; β is optional.
#[doc(hidden)]
pub(crate) fn layer_norm_forward<T: Real>(f: LayerNormForward<T>) -> LayerNormOutput<T> {
    let n = f.gamma.len();
    let (mut y, mut means, mut inverse_deviation) = (Vec::new(), Vec::new(), Vec::new());
    for x in f.x.chunks_exact(n) {
        let mean = x.iter().copied().sum::<T>() / T::round_from(n as f64);
        let variance = x.iter().map(|&x| (x - mean) * (x - mean)).sum::<T>() / T::round_from(n as f64);
        let inverse = T::ONE / (variance + f.epsilon).sqrt();
        let beta = |i: usize| f.beta.map_or(T::ZERO, |beta| beta[i]);
        y.extend((0..n).map(|i| f.gamma[i] * (x[i] - mean) * inverse + beta(i)));
        means.push(mean);
        inverse_deviation.push(inverse);
    }
    LayerNormOutput { y, mean: means, inverse_deviation }
}

/// Returns `dx = residual + inverse (g − mean(g) − x̂ mean(g x̂))` with g = dy γ. Adds `dy x̂` to dγ, and dy to dβ if
/// it exists.
#[doc(hidden)]
pub(crate) fn layer_norm_backward<T: Real>(
    b: LayerNormBackward<T>,
    d_gamma: &mut [T],
    mut d_beta: Option<&mut [T]>,
) -> Vec<T> {
    let n = b.gamma.len();
    let mut dx = Vec::with_capacity(b.x.len());
    for (row, (x, dy)) in b.x.chunks_exact(n).zip(b.dy.chunks_exact(n)).enumerate() {
        let inverse = b.inverse_deviation[row];
        let normal = |i: usize| (x[i] - b.mean[row]) * inverse;
        let mean_g = (0..n).map(|i| dy[i] * b.gamma[i]).sum::<T>() / T::round_from(n as f64);
        let mean_gx = (0..n).map(|i| dy[i] * b.gamma[i] * normal(i)).sum::<T>() / T::round_from(n as f64);
        for i in 0..n {
            let residual = b.residual.map_or(T::ZERO, |residual| residual[row * n + i]);
            dx.push(residual + inverse * (dy[i] * b.gamma[i] - mean_g - normal(i) * mean_gx));
            d_gamma[i] += dy[i] * normal(i);
            if let Some(d_beta) = &mut d_beta {
                d_beta[i] += dy[i];
            }
        }
    }
    dx
}

/// Computes `y = γ x / √(mean(x²) + ε)` over rows with the length of γ.
pub(crate) fn rms_norm_forward<T: Real>(x: &[T], gamma: &[T], epsilon: T) -> RmsNormOutput<T> {
    let n = gamma.len();
    let (mut y, mut inverse_rms) = (Vec::with_capacity(x.len()), Vec::new());
    for x in x.chunks_exact(n) {
        let inverse = T::ONE / (x.iter().map(|&x| x * x).sum::<T>() / T::round_from(n as f64) + epsilon).sqrt();
        y.extend((0..n).map(|i| gamma[i] * x[i] * inverse));
        inverse_rms.push(inverse);
    }
    RmsNormOutput { y, inverse_rms }
}

/// Returns `dx = residual + inverse (g − x̂ mean(g x̂))` with g = dy γ and x̂ = x inverse. Adds `dy x̂` to dγ.
pub(crate) fn rms_norm_backward<T: Real>(b: RmsNormBackward<T>, d_gamma: &mut [T]) -> Vec<T> {
    let n = b.gamma.len();
    let mut dx = Vec::with_capacity(b.x.len());
    for (row, (x, dy)) in b.x.chunks_exact(n).zip(b.dy.chunks_exact(n)).enumerate() {
        let inverse = b.inverse_rms[row];
        let mean_gx = (0..n).map(|i| dy[i] * b.gamma[i] * x[i] * inverse).sum::<T>() / T::round_from(n as f64);
        for i in 0..n {
            let residual = b.residual.map_or(T::ZERO, |residual| residual[row * n + i]);
            dx.push(residual + inverse * (dy[i] * b.gamma[i] - x[i] * inverse * mean_gx));
            d_gamma[i] += dy[i] * x[i] * inverse;
        }
    }
    dx
}
