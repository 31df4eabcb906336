//! Layer normalization: `y = γ · (x − mean) / √(variance + ε) + β`, over each row.
//!
//! Source: Ba, Kiros and Hinton, "Layer Normalization" (2016).

use super::types::{LayerNormBackward, LayerNormForward, LayerNormOutput};
use super::{PIECE, reference, sum_row, sum_squared_deviations};
use crate::isa::{self, Simd, SimdOp};
use crate::memory::fill_uninit;
use crate::number::{Real, implementations};
use crate::profile;
use crate::sum;
use crate::threads::{SharedMut, for_each};
use crate::{Error, Result};
use std::mem::MaybeUninit;

/// Normalizes rows, and stores each row's mean and `1/√(variance + ε)` for the backward pass.
///
/// # Shapes
/// `x` (rows, width); `gamma`, `beta` (width,).
///
/// # Errors
/// If the lengths do not match, or `epsilon` is not positive.
pub fn layer_norm_forward<T: Real>(x: &[T], [gamma, beta]: [&[T]; 2], epsilon: T) -> Result<LayerNormOutput<T>> {
    Error::check_length("layer norm: beta", gamma.len(), beta.len())?;
    LayerNormForward { x, gamma, beta: Some(beta), epsilon }.compute()
}

/// Normalizes rows like [`layer_norm_forward`] without β: `y = γ · (x − mean) / √(variance + ε)`.
///
/// # Shapes
/// `x` (rows, width); `gamma` (width,).
///
/// # Errors
/// If the lengths do not match, or `epsilon` is not positive.
pub fn layer_norm_forward_without_bias<T: Real>(x: &[T], gamma: &[T], epsilon: T) -> Result<LayerNormOutput<T>> {
    LayerNormForward { x, gamma, beta: None, epsilon }.compute()
}

impl<T: Real> LayerNormForward<'_, T> {
    fn compute(self) -> Result<LayerNormOutput<T>> {
        let (len, width) = (self.x.len(), self.gamma.len());
        check(len, width, len / width.max(1))?;
        super::check_epsilon("layer norm: epsilon", self.epsilon)?;
        // The input and the normalized rows.
        let _timed = profile::memory_bound::<T>("layer norm", 2 * len);
        Ok(T::run::<ComputeLayerNorm>((self,)))
    }
}

impl<T: Real> LayerNormBackward<'_, T> {
    /// Returns dx, and adds to `d_gamma` and `d_beta`.
    ///
    /// # Errors
    /// If the lengths do not match.
    pub fn compute(self, [d_gamma, d_beta]: [&mut [T]; 2]) -> Result<Vec<T>> {
        self.run(d_gamma, Some(d_beta))
    }

    /// Computes the backward pass of [`layer_norm_forward_without_bias`]: returns dx, and adds to `d_gamma`.
    ///
    /// # Errors
    /// If the lengths do not match.
    pub fn compute_without_bias(self, d_gamma: &mut [T]) -> Result<Vec<T>> {
        self.run(d_gamma, None)
    }

    fn run(self, d_gamma: &mut [T], d_beta: Option<&mut [T]>) -> Result<Vec<T>> {
        check(self.x.len(), self.gamma.len(), self.mean.len())?;
        Error::check_length("layer norm: inverse_deviation", self.mean.len(), self.inverse_deviation.len())?;
        Error::check_length("layer norm: dy", self.x.len(), self.dy.len())?;
        Error::check_length("layer norm: residual", self.x.len(), self.residual.map_or(self.x.len(), <[T]>::len))?;
        Error::check_length("layer norm: d_gamma", self.gamma.len(), d_gamma.len())?;
        if let Some(d_beta) = &d_beta {
            Error::check_length("layer norm: d_beta", self.gamma.len(), d_beta.len())?;
        }
        let arrays = if self.residual.is_some() { 4 } else { 3 };
        let _timed = profile::memory_bound::<T>("layer norm, backward", arrays * self.x.len());
        Ok(T::run::<ComputeLayerNormBackward>((self, d_gamma, d_beta)))
    }
}

fn check(len: usize, width: usize, rows: usize) -> Result<()> {
    if width == 0 {
        return Err(Error::value("layer norm: gamma", "expected at least 1 value, got 0"));
    }
    Error::check_length("layer norm: x", rows.saturating_mul(width), len)
}

implementations! {
    /// Both implementations of [`layer_norm_forward`] and [`layer_norm_forward_without_bias`].
    ComputeLayerNorm<'a, T>(args: LayerNormForward<'a, T>) -> LayerNormOutput<T> {
        fast: forward_f32,
        reference: reference::layer_norm_forward,
    }
}

implementations! {
    /// Both implementations of [`LayerNormBackward::compute`] and [`LayerNormBackward::compute_without_bias`].
    ComputeLayerNormBackward<'a, T>(
        args: LayerNormBackward<'a, T>, d_gamma: &'a mut [T], d_beta: Option<&'a mut [T]>
    ) -> Vec<T> { fast: backward_f32, reference: reference::layer_norm_backward }
}

struct LayerNormForwardRows<'a> {
    args: LayerNormForward<'a, f32>,
    /// Completely overwritten.
    y: &'a mut [MaybeUninit<f32>],
    mean: &'a mut [f32],
    inverse_deviation: &'a mut [f32],
}

impl SimdOp for LayerNormForwardRows<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let f = self.args;
        let width = f.gamma.len();
        let scale = 1.0 / width as f32;
        let rows = f.x.chunks_exact(width).zip(self.y.chunks_exact_mut(width));
        let stats = self.mean.iter_mut().zip(self.inverse_deviation);
        for ((x, y), (mean, inverse)) in rows.zip(stats) {
            *mean = sum_row(simd, x) * scale;
            let m = simd.splat(*mean);
            let variance = sum_squared_deviations(simd, x, *mean) * scale;
            *inverse = 1.0 / (variance + f.epsilon).sqrt();
            let r = simd.splat(*inverse);
            let mut at = 0;
            while at + S::LANES <= width {
                let normal = simd.mul(simd.sub(simd.load(&x[at..]), m), r);
                let gamma = simd.load(&f.gamma[at..]);
                let out = match f.beta {
                    Some(beta) => simd.mul_add(normal, gamma, simd.load(&beta[at..])),
                    None => simd.mul(normal, gamma),
                };
                simd.write(&mut y[at..], out);
                at += S::LANES;
            }
            for i in at..width {
                y[i].write((x[i] - *mean) * *inverse * f.gamma[i] + f.beta.map_or(0.0, |beta| beta[i]));
            }
        }
    }
}

fn forward_f32(f: LayerNormForward<f32>) -> LayerNormOutput<f32> {
    let (width, len) = (f.gamma.len(), f.x.len());
    let rows = len / width;
    let (mut mean, mut inverse_deviation) = (vec![0.0; rows], vec![0.0; rows]);
    let (shared_mean, shared_inverse) = (SharedMut::new(&mut mean), SharedMut::new(&mut inverse_deviation));
    let fill = |y: SharedMut<f32>| {
        for_each(rows.div_ceil(PIECE), len * 8, |piece| {
            let (first, count) = (piece * PIECE, PIECE.min(rows - piece * PIECE));
            // SAFETY: each piece is its own range of rows.
            let (mean, inverse_deviation) =
                unsafe { (shared_mean.slice(first, count), shared_inverse.slice(first, count)) };
            // SAFETY: each piece is its own range of rows of y, which lives until all pieces are done.
            let y = unsafe { y.slice_uninit(first * width, count * width) };
            let args = LayerNormForward { x: &f.x[first * width..][..count * width], ..f };
            isa::dispatch(LayerNormForwardRows { args, y, mean, inverse_deviation });
        });
    };
    // SAFETY: the pieces cover all rows. Each writes all values of its rows and reads none.
    let y = unsafe { fill_uninit(len, fill) };
    LayerNormOutput { y, mean, inverse_deviation }
}

struct LayerNormBackwardRows<'a> {
    args: LayerNormBackward<'a, f32>,
    /// Completely overwritten.
    dx: &'a mut [MaybeUninit<f32>],
    /// dγ then dβ of this piece, (2, width).
    sums: &'a mut [f32],
}

impl SimdOp for LayerNormBackwardRows<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let b = self.args;
        let width = b.gamma.len();
        let scale = 1.0 / width as f32;
        let (d_gamma, d_beta) = self.sums.split_at_mut(width);
        let rows = b.x.chunks_exact(width).zip(b.dy.chunks_exact(width)).zip(self.dx.chunks_exact_mut(width));
        let stats = b.mean.iter().zip(b.inverse_deviation);
        for (row, (((x, dy), dx), (&mean, &inverse))) in rows.zip(stats).enumerate() {
            let residual = b.residual.map(|residual| &residual[row * width..][..width]);
            let (m, r) = (simd.splat(mean), simd.splat(inverse));
            let whole = width / S::LANES * S::LANES;
            let (mut sum_g, mut sum_gx) = (simd.splat(0.0), simd.splat(0.0));
            for at in (0..whole).step_by(S::LANES) {
                let d = simd.load(&dy[at..]);
                let g = simd.mul(d, simd.load(&b.gamma[at..]));
                let normal = simd.mul(simd.sub(simd.load(&x[at..]), m), r);
                sum_g = simd.add(sum_g, g);
                sum_gx = simd.mul_add(g, normal, sum_gx);
                // dγ += dy·x̂, dβ += dy
                let (gamma_sum, beta_sum) = (simd.load(&d_gamma[at..]), simd.load(&d_beta[at..]));
                simd.store(&mut d_gamma[at..], simd.mul_add(d, normal, gamma_sum));
                simd.store(&mut d_beta[at..], simd.add(d, beta_sum));
            }
            let (mut sum_g, mut sum_gx) = (simd.sum(sum_g), simd.sum(sum_gx));
            for i in whole..width {
                let normal = (x[i] - mean) * inverse;
                sum_g += dy[i] * b.gamma[i];
                sum_gx += dy[i] * b.gamma[i] * normal;
                d_gamma[i] += dy[i] * normal;
                d_beta[i] += dy[i];
            }
            let (mean_g, mean_gx) = (sum_g * scale, sum_gx * scale);
            let (vg, vgx) = (simd.splat(mean_g), simd.splat(mean_gx));
            // y = γ·x̂ + β  →  dx = inverse·(dy·γ − mean(dy·γ) − x̂·mean(dy·γ·x̂))
            for at in (0..whole).step_by(S::LANES) {
                let g = simd.mul(simd.load(&dy[at..]), simd.load(&b.gamma[at..]));
                let normal = simd.mul(simd.sub(simd.load(&x[at..]), m), r);
                let inner = simd.sub(simd.sub(g, vg), simd.mul(normal, vgx));
                simd.write(
                    &mut dx[at..],
                    match residual {
                        Some(residual) => simd.mul_add(r, inner, simd.load(&residual[at..])),
                        None => simd.mul(r, inner),
                    },
                );
            }
            for i in whole..width {
                let normal = (x[i] - mean) * inverse;
                let inner = dy[i] * b.gamma[i] - mean_g - normal * mean_gx;
                dx[i].write(inverse * inner + residual.map_or(0.0, |residual| residual[i]));
            }
        }
    }
}

fn backward_f32(b: LayerNormBackward<f32>, d_gamma: &mut [f32], d_beta: Option<&mut [f32]>) -> Vec<f32> {
    let (width, rows, len) = (b.gamma.len(), b.mean.len(), b.x.len());
    let pieces = rows.div_ceil(PIECE);
    // Each piece sums its own rows. The partial sums are then added in the order of the pieces.
    let mut partial = vec![0.0f32; pieces * 2 * width];
    let sums = SharedMut::new(&mut partial);
    let fill = |dx: SharedMut<f32>| {
        for_each(pieces, len * 12, |piece| {
            let (first, count) = (piece * PIECE, PIECE.min(rows - piece * PIECE));
            // SAFETY: each piece is its own range of rows of dx and of partial sums. Both live until all pieces are
            // done, and the sums are initialized.
            let (dx, sums) =
                unsafe { (dx.slice_uninit(first * width, count * width), sums.slice(piece * 2 * width, 2 * width)) };
            let part = first * width..(first + count) * width;
            let args = LayerNormBackward {
                x: &b.x[part.clone()],
                mean: &b.mean[first..first + count],
                inverse_deviation: &b.inverse_deviation[first..first + count],
                dy: &b.dy[part.clone()],
                residual: b.residual.map(|residual| &residual[part]),
                ..b
            };
            isa::dispatch(LayerNormBackwardRows { args, dx, sums });
        });
    };
    // SAFETY: the pieces cover all rows. Each writes all values of its rows and reads none.
    let dx = unsafe { fill_uninit(len, fill) };
    let mut total = vec![0.0f32; 2 * width];
    sum::add_column_sums_f32(&partial, 2 * width, &mut total);
    d_gamma.iter_mut().zip(&total[..width]).for_each(|(d, &s)| *d += s);
    if let Some(d_beta) = d_beta {
        d_beta.iter_mut().zip(&total[width..]).for_each(|(d, &s)| *d += s);
    }
    dx
}
