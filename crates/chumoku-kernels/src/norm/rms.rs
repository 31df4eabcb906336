//! RMS normalization: `y = γ · x / √(mean(x²) + ε)`, over each row.

use super::types::{RmsNormBackward, RmsNormOutput};
use super::{PIECE, check_epsilon, reference, sum_squared_deviations};
use crate::isa::{self, Simd, SimdOp};
use crate::memory::fill_uninit;
use crate::number::{Real, implementations};
use crate::profile;
use crate::sum;
use crate::threads::{SharedMut, for_each};
use crate::{Error, Result};
use std::mem::MaybeUninit;

/// Divides rows by their root mean square, `y = γ · x / √(mean(x²) + ε)`, and stores each row's `1/√(mean(x²) + ε)` for
/// the backward pass.
///
/// Maximum relative error in f32: 5e-7 for rows of up to 4,096 finite values and an ε of at least 1e-37. (If the
/// squares of a row overflow f32, they are added up in double precision.)
///
/// # Shapes
/// `x` (rows, width); `gamma` (width,).
///
/// # Errors
/// If the lengths do not match, or `epsilon` is not positive.
///
/// Source: Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019), equation 4. Later models added ε.
pub fn rms_norm_forward<T: Real>(x: &[T], gamma: &[T], epsilon: T) -> Result<RmsNormOutput<T>> {
    check(x.len(), gamma.len(), x.len() / gamma.len().max(1))?;
    check_epsilon("RMS norm: epsilon", epsilon)?;
    let _timed = profile::memory_bound::<T>("RMS norm", 2 * x.len());
    Ok(T::run::<ComputeRmsNorm>((x, gamma, epsilon)))
}

impl<T: Real> RmsNormBackward<'_, T> {
    /// Returns dx, and adds to `d_gamma`.
    ///
    /// # Errors
    /// If the lengths do not match.
    pub fn compute(self, d_gamma: &mut [T]) -> Result<Vec<T>> {
        check(self.x.len(), self.gamma.len(), self.inverse_rms.len())?;
        Error::check_length("RMS norm: dy", self.x.len(), self.dy.len())?;
        Error::check_length("RMS norm: residual", self.x.len(), self.residual.map_or(self.x.len(), <[T]>::len))?;
        Error::check_length("RMS norm: d_gamma", self.gamma.len(), d_gamma.len())?;
        let arrays = if self.residual.is_some() { 4 } else { 3 };
        let _timed = profile::memory_bound::<T>("RMS norm, backward", arrays * self.x.len());
        Ok(T::run::<ComputeRmsNormBackward>((self, d_gamma)))
    }
}

fn check(len: usize, width: usize, rows: usize) -> Result<()> {
    if width == 0 {
        return Err(Error::value("RMS norm: gamma", "expected at least 1 value, got 0"));
    }
    Error::check_length("RMS norm: x", rows.saturating_mul(width), len)
}

implementations! {
    /// Both implementations of [`rms_norm_forward`].
    ComputeRmsNorm<'a, T>(x: &'a [T], gamma: &'a [T], epsilon: T) -> RmsNormOutput<T> {
        fast: forward_f32,
        reference: reference::rms_norm_forward,
    }
}

implementations! {
    /// Both implementations of [`RmsNormBackward::compute`].
    ComputeRmsNormBackward<'a, T>(args: RmsNormBackward<'a, T>, d_gamma: &'a mut [T]) -> Vec<T> {
        fast: backward_f32,
        reference: reference::rms_norm_backward,
    }
}

struct RmsNormForwardRows<'a> {
    x: &'a [f32],
    gamma: &'a [f32],
    epsilon: f32,
    /// Completely overwritten.
    y: &'a mut [MaybeUninit<f32>],
    inverse_rms: &'a mut [f32],
}

impl SimdOp for RmsNormForwardRows<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let width = self.gamma.len();
        let rows = self.x.chunks_exact(width).zip(self.y.chunks_exact_mut(width));
        for ((x, y), inverse) in rows.zip(self.inverse_rms) {
            let squares = sum_squared_deviations(simd, x, 0.0);
            *inverse = if squares.is_finite() {
                1.0 / (squares / width as f32 + self.epsilon).sqrt()
            } else {
                inverse_rms_f64(x, self.epsilon)
            };
            let r = simd.splat(*inverse);
            let vectors = x.chunks(S::LANES).zip(self.gamma.chunks(S::LANES)).zip(y.chunks_mut(S::LANES));
            for ((x, gamma), y) in vectors {
                let normal = simd.mul(simd.load_up_to(x, 0.0), r);
                simd.write_up_to(y, simd.mul(normal, simd.load_up_to(gamma, 0.0)));
            }
        }
    }
}

/// Computes `1/√(mean(x²) + ε)` in double precision, if the squares overflow f32.
#[cold]
fn inverse_rms_f64(x: &[f32], epsilon: f32) -> f32 {
    let squares: f64 = x.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    (1.0 / (squares / x.len() as f64 + f64::from(epsilon)).sqrt()) as f32
}

fn forward_f32(x: &[f32], gamma: &[f32], epsilon: f32) -> RmsNormOutput<f32> {
    let (width, len) = (gamma.len(), x.len());
    let rows = len / width;
    let mut inverse_rms = vec![0.0; rows];
    let shared = SharedMut::new(&mut inverse_rms);
    let fill = |y: SharedMut<f32>| {
        for_each(rows.div_ceil(PIECE), len * 5, |piece| {
            let (first, count) = (piece * PIECE, PIECE.min(rows - piece * PIECE));
            // SAFETY: each piece is its own range of rows.
            let inverse_rms = unsafe { shared.slice(first, count) };
            // SAFETY: each piece is its own range of rows of y, which lives until all pieces are done.
            let y = unsafe { y.slice_uninit(first * width, count * width) };
            let x = &x[first * width..][..count * width];
            isa::dispatch(RmsNormForwardRows { x, gamma, epsilon, y, inverse_rms });
        });
    };
    // SAFETY: the pieces cover all rows. Each writes all values of its rows and reads none.
    let y = unsafe { fill_uninit(len, fill) };
    RmsNormOutput { y, inverse_rms }
}

struct RmsNormBackwardRows<'a> {
    args: RmsNormBackward<'a, f32>,
    /// Completely overwritten.
    dx: &'a mut [MaybeUninit<f32>],
    /// dγ of this piece, (width,).
    d_gamma: &'a mut [f32],
}

impl SimdOp for RmsNormBackwardRows<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let b = self.args;
        let width = b.gamma.len();
        let rows = b.x.chunks_exact(width).zip(b.dy.chunks_exact(width)).zip(self.dx.chunks_exact_mut(width));
        for (row, (((x, dy), dx), &inverse)) in rows.zip(b.inverse_rms).enumerate() {
            let r = simd.splat(inverse);
            let mut sum_gx = simd.splat(0.0);
            for at in (0..width).step_by(S::LANES) {
                let d = simd.load_up_to(&dy[at..], 0.0);
                let g = simd.mul(d, simd.load_up_to(&b.gamma[at..], 0.0));
                let normal = simd.mul(simd.load_up_to(&x[at..], 0.0), r);
                sum_gx = simd.mul_add(g, normal, sum_gx);
                // dγ += dy·x̂
                let sum = simd.mul_add(d, normal, simd.load_up_to(&self.d_gamma[at..], 0.0));
                simd.store_up_to(&mut self.d_gamma[at..], sum);
            }
            let mean_gx = simd.splat(simd.sum(sum_gx) / width as f32);
            let residual = b.residual.map(|residual| &residual[row * width..][..width]);
            // y = γ·x̂  →  dx = inverse·(dy·γ − x̂·mean(dy·γ·x̂))
            for at in (0..width).step_by(S::LANES) {
                let g = simd.mul(simd.load_up_to(&dy[at..], 0.0), simd.load_up_to(&b.gamma[at..], 0.0));
                let normal = simd.mul(simd.load_up_to(&x[at..], 0.0), r);
                let inner = simd.sub(g, simd.mul(normal, mean_gx));
                let out = match residual {
                    Some(residual) => simd.mul_add(r, inner, simd.load_up_to(&residual[at..], 0.0)),
                    None => simd.mul(r, inner),
                };
                simd.write_up_to(&mut dx[at..], out);
            }
        }
    }
}

fn backward_f32(b: RmsNormBackward<f32>, d_gamma: &mut [f32]) -> Vec<f32> {
    let (width, rows, len) = (b.gamma.len(), b.inverse_rms.len(), b.x.len());
    let pieces = rows.div_ceil(PIECE);
    // Each piece sums its own rows. The partial sums are then added in the order of the pieces.
    let mut partial = vec![0.0f32; pieces * width];
    let sums = SharedMut::new(&mut partial);
    let fill = |dx: SharedMut<f32>| {
        for_each(pieces, len * 9, |piece| {
            let (first, count) = (piece * PIECE, PIECE.min(rows - piece * PIECE));
            // SAFETY: each piece is its own range of rows of dx and of partial sums. Both live until all pieces are
            // done, and the sums are initialized.
            let (dx, d_gamma) =
                unsafe { (dx.slice_uninit(first * width, count * width), sums.slice(piece * width, width)) };
            let part = first * width..(first + count) * width;
            let args = RmsNormBackward {
                x: &b.x[part.clone()],
                inverse_rms: &b.inverse_rms[first..first + count],
                dy: &b.dy[part.clone()],
                residual: b.residual.map(|residual| &residual[part]),
                ..b
            };
            isa::dispatch(RmsNormBackwardRows { args, dx, d_gamma });
        });
    };
    // SAFETY: the pieces cover all rows. Each writes all values of its rows and reads none.
    let dx = unsafe { fill_uninit(len, fill) };
    let mut total = vec![0.0f32; width];
    sum::add_column_sums_f32(&partial, width, &mut total);
    d_gamma.iter_mut().zip(&total).for_each(|(d, &s)| *d += s);
    dx
}
