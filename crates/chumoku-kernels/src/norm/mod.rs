//! Normalization of rows: layer norm, and RMS norm, which does not subtract the mean.
//!
//! # Files
//!
//! - `layer`: layer norm, with and without a bias
//! - `reference`: the reference implementation
//! - `rms`: RMS norm
//! - `types`: arguments and results of both

mod layer;
pub(crate) mod reference;
mod rms;
mod types;

pub use layer::{layer_norm_forward, layer_norm_forward_without_bias};
pub use rms::rms_norm_forward;
pub use types::{LayerNormBackward, LayerNormOutput, RmsNormBackward, RmsNormOutput};

use crate::isa::Simd;
use crate::number::Real;
use crate::{Error, Result};

/// Rows in a piece of work.
const PIECE: usize = 64;

fn check_epsilon<T: Real>(what: &'static str, epsilon: T) -> Result<()> {
    if epsilon > T::ZERO {
        return Ok(());
    }
    Err(Error::value(what, format!("expected more than 0, got {epsilon}")))
}

/// Computes Σ x.
#[inline(always)]
fn sum_row<S: Simd>(simd: S, x: &[f32]) -> f32 {
    let mut sum = simd.splat(0.0);
    let mut vectors = x.chunks_exact(S::LANES);
    for x in vectors.by_ref() {
        sum = simd.add(sum, simd.load(x));
    }
    let tail = vectors.remainder();
    if !tail.is_empty() {
        sum = simd.add(sum, simd.load_partial(tail, 0.0));
    }
    simd.sum(sum)
}

/// Computes Σ (x − mean)².
#[inline(always)]
fn sum_squared_deviations<S: Simd>(simd: S, x: &[f32], mean: f32) -> f32 {
    let (mut sum, m) = (simd.splat(0.0), simd.splat(mean));
    let mut vectors = x.chunks_exact(S::LANES);
    for x in vectors.by_ref() {
        let d = simd.sub(simd.load(x), m);
        sum = simd.mul_add(d, d, sum);
    }
    let tail = vectors.remainder();
    if !tail.is_empty() {
        // Padded with the mean, whose deviation is 0.
        let d = simd.sub(simd.load_partial(tail, mean), m);
        sum = simd.mul_add(d, d, sum);
    }
    simd.sum(sum)
}
