//! Layer normalisation: `y = γ · (x − mean) / √(variance + ε) + β`, over each row.
//!
//! Source: Ba, Kiros and Hinton, "Layer Normalization" (2016).

use crate::isa::{self, Op, Simd};
use crate::sum;
use crate::threads::{SharedMut, for_each};
use crate::{Error, Real, Result};

#[doc(hidden)]
#[derive(Debug)]
pub struct Forward<'a, T> {
    pub x: &'a [T],
    pub gamma: &'a [T],
    pub beta: &'a [T],
    pub epsilon: T,
    pub y: &'a mut [T],
    pub mean: &'a mut [T],
    pub inverse_deviation: &'a mut [T],
}

#[doc(hidden)]
#[derive(Debug)]
pub struct Backward<'a, T> {
    pub x: &'a [T],
    pub gamma: &'a [T],
    pub mean: &'a [T],
    pub inverse_deviation: &'a [T],
    pub dy: &'a [T],
    pub dx: &'a mut [T],
    pub d_gamma: &'a mut [T],
    pub d_beta: &'a mut [T],
}

/// Normalises rows; writes `y`, and each row's `mean` and `1/√(variance + ε)` for the backward pass.
///
/// # Shapes
/// `x`, `y` (rows, width); `gamma`, `beta` (width,); `mean`, `inverse_deviation` (rows,).
///
/// # Errors
/// If the lengths do not fit, or `epsilon` is not positive.
pub fn layer_norm_forward<T: Real>(
    x: &[T],
    [gamma, beta]: [&[T]; 2],
    epsilon: T,
    y: &mut [T],
    [mean, inverse_deviation]: [&mut [T]; 2],
) -> Result<()> {
    check(x.len(), gamma.len(), mean.len())?;
    Error::check_length("layer norm: beta", gamma.len(), beta.len())?;
    Error::check_length("layer norm: y", x.len(), y.len())?;
    Error::check_length("layer norm: inverse_deviation", mean.len(), inverse_deviation.len())?;
    if epsilon.partial_cmp(&T::ZERO) != Some(std::cmp::Ordering::Greater) {
        return Err(Error::value("layer norm: epsilon", format!("expected more than 0, got {epsilon}")));
    }
    T::layer_norm_forward(Forward { x, gamma, beta, epsilon, y, mean, inverse_deviation });
    Ok(())
}

/// The gradients: writes `dx`, adds to `d_gamma` and `d_beta`.
///
/// With x̂ = (x − mean)·inverse_deviation and g = dy·γ, over a row of n:
/// `dx = inverse_deviation · (g − Σg/n − x̂ · Σ(g·x̂)/n)`, `dγ = Σ_rows dy·x̂`, `dβ = Σ_rows dy`.
///
/// # Shapes
/// As in [`layer_norm_forward`].
///
/// # Errors
/// If the lengths do not fit.
pub fn layer_norm_backward<T: Real>(
    x: &[T],
    gamma: &[T],
    [mean, inverse_deviation]: [&[T]; 2],
    dy: &[T],
    dx: &mut [T],
    [d_gamma, d_beta]: [&mut [T]; 2],
) -> Result<()> {
    check(x.len(), gamma.len(), mean.len())?;
    Error::check_length("layer norm: inverse_deviation", mean.len(), inverse_deviation.len())?;
    Error::check_length("layer norm: dy", x.len(), dy.len())?;
    Error::check_length("layer norm: dx", x.len(), dx.len())?;
    Error::check_length("layer norm: d_gamma", gamma.len(), d_gamma.len())?;
    Error::check_length("layer norm: d_beta", gamma.len(), d_beta.len())?;
    T::layer_norm_backward(Backward { x, gamma, mean, inverse_deviation, dy, dx, d_gamma, d_beta });
    Ok(())
}

fn check(len: usize, width: usize, rows: usize) -> Result<()> {
    if width == 0 {
        return Err(Error::value("layer norm: gamma", "expected at least 1 value, got 0"));
    }
    Error::check_length("layer norm: x", rows.saturating_mul(width), len)
}

/// Rows in a piece of work.
const PIECE: usize = 64;

struct ForwardRows<'a>(Forward<'a, f32>);

impl Op for ForwardRows<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let f = self.0;
        let width = f.gamma.len();
        let scale = 1.0 / width as f32;
        let rows = f.x.chunks_exact(width).zip(f.y.chunks_exact_mut(width));
        let stats = f.mean.iter_mut().zip(f.inverse_deviation);
        for ((x, y), (mean, inverse)) in rows.zip(stats) {
            *mean = sum_row(simd, x) * scale;
            let m = simd.splat(*mean);
            let variance = sum_squares(simd, x, *mean) * scale;
            *inverse = 1.0 / (variance + f.epsilon).sqrt();
            let r = simd.splat(*inverse);
            let mut at = 0;
            while at + S::LANES <= width {
                let normal = simd.mul(simd.sub(simd.load(&x[at..]), m), r);
                let out = simd.mul_add(normal, simd.load(&f.gamma[at..]), simd.load(&f.beta[at..]));
                simd.store(&mut y[at..], out);
                at += S::LANES;
            }
            for i in at..width {
                y[i] = (x[i] - *mean) * *inverse * f.gamma[i] + f.beta[i];
            }
        }
    }
}

/// Σ x
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

/// Σ (x − mean)²
#[inline(always)]
fn sum_squares<S: Simd>(simd: S, x: &[f32], mean: f32) -> f32 {
    let (mut sum, m) = (simd.splat(0.0), simd.splat(mean));
    let mut vectors = x.chunks_exact(S::LANES);
    for x in vectors.by_ref() {
        let d = simd.sub(simd.load(x), m);
        sum = simd.mul_add(d, d, sum);
    }
    let tail = vectors.remainder();
    if !tail.is_empty() {
        // Filled up with the mean, whose deviation is 0.
        let d = simd.sub(simd.load_partial(tail, mean), m);
        sum = simd.mul_add(d, d, sum);
    }
    simd.sum(sum)
}

pub(crate) fn forward_f32(f: Forward<f32>) {
    let (width, rows, len) = (f.gamma.len(), f.mean.len(), f.x.len());
    let (y, mean, inverse) = (SharedMut::new(f.y), SharedMut::new(f.mean), SharedMut::new(f.inverse_deviation));
    for_each(rows.div_ceil(PIECE), len * 8, |piece| {
        let (first, count) = (piece * PIECE, PIECE.min(rows - piece * PIECE));
        // SAFETY: each piece is its own range of rows.
        let (y, mean, inverse_deviation) =
            unsafe { (y.slice(first * width, count * width), mean.slice(first, count), inverse.slice(first, count)) };
        let x = &f.x[first * width..][..count * width];
        let (gamma, beta, epsilon) = (f.gamma, f.beta, f.epsilon);
        isa::dispatch(ForwardRows(Forward { x, gamma, beta, epsilon, y, mean, inverse_deviation }));
    });
}

struct BackwardRows<'a> {
    x: &'a [f32],
    gamma: &'a [f32],
    mean: &'a [f32],
    inverse_deviation: &'a [f32],
    dy: &'a [f32],
    dx: &'a mut [f32],
    /// dγ then dβ of this piece, (2, width).
    sums: &'a mut [f32],
}

impl Op for BackwardRows<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let width = self.gamma.len();
        let scale = 1.0 / width as f32;
        let (d_gamma, d_beta) = self.sums.split_at_mut(width);
        let rows = self.x.chunks_exact(width).zip(self.dy.chunks_exact(width)).zip(self.dx.chunks_exact_mut(width));
        let stats = self.mean.iter().zip(self.inverse_deviation);
        for (((x, dy), dx), (&mean, &inverse)) in rows.zip(stats) {
            let (m, r) = (simd.splat(mean), simd.splat(inverse));
            let whole = width / S::LANES * S::LANES;
            let (mut sum_g, mut sum_gx) = (simd.splat(0.0), simd.splat(0.0));
            for at in (0..whole).step_by(S::LANES) {
                let d = simd.load(&dy[at..]);
                let g = simd.mul(d, simd.load(&self.gamma[at..]));
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
                sum_g += dy[i] * self.gamma[i];
                sum_gx += dy[i] * self.gamma[i] * normal;
                d_gamma[i] += dy[i] * normal;
                d_beta[i] += dy[i];
            }
            let (mean_g, mean_gx) = (sum_g * scale, sum_gx * scale);
            let (vg, vgx) = (simd.splat(mean_g), simd.splat(mean_gx));
            // y = γ·x̂ + β  →  dx = inverse·(dy·γ − mean(dy·γ) − x̂·mean(dy·γ·x̂))
            for at in (0..whole).step_by(S::LANES) {
                let g = simd.mul(simd.load(&dy[at..]), simd.load(&self.gamma[at..]));
                let normal = simd.mul(simd.sub(simd.load(&x[at..]), m), r);
                let inner = simd.sub(simd.sub(g, vg), simd.mul(normal, vgx));
                simd.store(&mut dx[at..], simd.mul(r, inner));
            }
            for i in whole..width {
                let normal = (x[i] - mean) * inverse;
                dx[i] = inverse * (dy[i] * self.gamma[i] - mean_g - normal * mean_gx);
            }
        }
    }
}

pub(crate) fn backward_f32(b: Backward<f32>) {
    let (width, rows, len) = (b.gamma.len(), b.mean.len(), b.x.len());
    let pieces = rows.div_ceil(PIECE);
    // Each piece sums its own rows; the partial sums are then added in the order of the pieces.
    let mut partial = vec![0.0f32; pieces * 2 * width];
    let (dx, sums) = (SharedMut::new(b.dx), SharedMut::new(&mut partial));
    for_each(pieces, len * 12, |piece| {
        let (first, count) = (piece * PIECE, PIECE.min(rows - piece * PIECE));
        // SAFETY: each piece is its own range of rows, and of partial sums.
        let (dx, sums) = unsafe { (dx.slice(first * width, count * width), sums.slice(piece * 2 * width, 2 * width)) };
        let part = first * width..(first + count) * width;
        isa::dispatch(BackwardRows {
            x: &b.x[part.clone()],
            gamma: b.gamma,
            mean: &b.mean[first..first + count],
            inverse_deviation: &b.inverse_deviation[first..first + count],
            dy: &b.dy[part],
            dx,
            sums,
        });
    });
    let mut total = vec![0.0f32; 2 * width];
    sum::add_column_sums_f32(&partial, 2 * width, &mut total);
    b.d_gamma.iter_mut().zip(&total[..width]).for_each(|(d, &s)| *d += s);
    b.d_beta.iter_mut().zip(&total[width..]).for_each(|(d, &s)| *d += s);
}
