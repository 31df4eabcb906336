//! The activations of the feed-forward network.

use crate::isa::{self, Op, Simd, map};
use crate::math::{erf, exp};
use crate::threads::{SharedMut, for_each};
use crate::{Error, Real, Result};

/// A function applied to each number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `max(0, x)`, as in the transformer's paper.
    Relu,
    /// `x · Φ(x)` with the normal distribution function Φ. Source: Hendrycks and Gimpel, "Gaussian Error Linear
    /// Units" (2016).
    Gelu,
}

/// `y = f(x)`. Largest absolute error of GELU in f32: 5e-7 · |x|.
///
/// # Errors
/// If `x` and `y` differ in length.
pub fn activation_forward<T: Real>(kind: Activation, x: &[T], y: &mut [T]) -> Result<()> {
    Error::check_length("activation: y", x.len(), y.len())?;
    T::activation_forward(kind, x, y);
    Ok(())
}

/// `dx = dy · f′(x)`, where x is what the forward pass was given.
///
/// # Errors
/// If the lengths differ.
pub fn activation_backward<T: Real>(kind: Activation, x: &[T], dy: &[T], dx: &mut [T]) -> Result<()> {
    Error::check_length("activation: dy", x.len(), dy.len())?;
    Error::check_length("activation: dx", x.len(), dx.len())?;
    T::activation_backward(kind, x, dy, dx);
    Ok(())
}

/// Numbers in a piece of work.
const PIECE: usize = 1 << 13;

struct Forward<'a>(Activation, &'a [f32], &'a mut [f32]);

impl Op for Forward<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let Forward(kind, x, y) = self;
        let zero = simd.splat(0.0);
        match kind {
            // NaN stays: it is not below 0.
            Activation::Relu => map!(simd, x, y, |v| simd.select_lt(v, zero, zero, v)),
            Activation::Gelu => map!(simd, x, y, |v| simd.mul(v, normal_distribution(simd, v))),
        }
    }
}

/// Φ(x) = (1 + erf(x/√2)) / 2
#[inline(always)]
fn normal_distribution<S: Simd>(simd: S, x: S::V) -> S::V {
    let half = simd.splat(0.5);
    simd.mul_add(half, erf(simd, simd.mul(x, simd.splat(std::f32::consts::FRAC_1_SQRT_2))), half)
}

/// (x Φ(x))′ = Φ(x) + x φ(x), φ(x) = exp(−x²/2)/√(2π)
#[inline(always)]
fn gelu_slope<S: Simd>(simd: S, x: S::V) -> S::V {
    let bell = exp(simd, simd.mul(simd.mul(x, x), simd.splat(-0.5)));
    simd.mul_add(x, simd.mul(bell, simd.splat(0.398_942_3)), normal_distribution(simd, x))
}

struct Backward<'a>(Activation, &'a [f32], &'a [f32], &'a mut [f32]);

impl Op for Backward<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let Backward(kind, x, dy, dx) = self;
        // The derivative first, then times dy.
        match kind {
            Activation::Relu => {
                let (zero, one) = (simd.splat(0.0), simd.splat(1.0));
                map!(simd, x, dx, |v| simd.select_lt(zero, v, one, simd.mul(v, zero)));
            }
            Activation::Gelu => map!(simd, x, dx, |v| gelu_slope(simd, v)),
        }
        dx.iter_mut().zip(dy).for_each(|(dx, &dy)| *dx *= dy);
    }
}

pub(crate) fn forward_f32(kind: Activation, x: &[f32], y: &mut [f32]) {
    let len = x.len();
    let y = SharedMut::new(y);
    for_each(len.div_ceil(PIECE), len * 4, |piece| {
        let (start, count) = (piece * PIECE, PIECE.min(len - piece * PIECE));
        // SAFETY: each piece is its own range.
        let y = unsafe { y.slice(start, count) };
        isa::dispatch(Forward(kind, &x[start..start + count], y));
    });
}

pub(crate) fn backward_f32(kind: Activation, x: &[f32], dy: &[f32], dx: &mut [f32]) {
    let len = x.len();
    let dx = SharedMut::new(dx);
    for_each(len.div_ceil(PIECE), len * 6, |piece| {
        let (start, count) = (piece * PIECE, PIECE.min(len - piece * PIECE));
        // SAFETY: each piece is its own range.
        let dx = unsafe { dx.slice(start, count) };
        isa::dispatch(Backward(kind, &x[start..start + count], &dy[start..start + count], dx));
    });
}
