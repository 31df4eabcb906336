//! The activations of the feed-forward network.

use crate::isa::{self, Op, Simd};
use crate::math::normal;
use crate::number::{Real, Versions};
use crate::threads::{SharedMut, for_each};
use crate::{Error, Result};

/// A function applied to each number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Activation {
    /// `max(0, x)`, as in the transformer's paper.
    Relu,
    /// `x · Φ(x)` with the normal distribution function Φ. Source: Hendrycks and Gimpel, "Gaussian Error Linear
    /// Units" (2016).
    Gelu,
}

/// The activation of every number, `y = f(x)`.
///
/// Largest relative error of GELU in f32: 6e-7, also far out in the negative tail (0 below −13.2).
///
/// # Errors
/// If `x` and `y` differ in length.
pub fn activation_forward<T: Real>(kind: Activation, x: &[T], y: &mut [T]) -> Result<()> {
    Error::check_length("activation: y", x.len(), y.len())?;
    T::run::<ActivationForward>((kind, x, y));
    Ok(())
}

/// `dx = dy · f′(x)`, where x is what the forward pass was given.
///
/// # Errors
/// If the lengths differ.
pub fn activation_backward<T: Real>(kind: Activation, x: &[T], dy: &[T], dx: &mut [T]) -> Result<()> {
    Error::check_length("activation: dy", x.len(), dy.len())?;
    Error::check_length("activation: dx", x.len(), dx.len())?;
    T::run::<ActivationBackward>((kind, x, dy, dx));
    Ok(())
}

/// Both versions of [`activation_forward`].
struct ActivationForward;

impl Versions for ActivationForward {
    type Args<'a, T: Real> = (Activation, &'a [T], &'a mut [T]);
    type Output<T: Real> = ();
    fn fast((kind, x, y): Self::Args<'_, f32>) {
        forward_f32(kind, x, y);
    }
    fn plain((kind, x, y): Self::Args<'_, f64>) {
        reference::activation_forward(kind, x, y);
    }
}

/// Both versions of [`activation_backward`].
struct ActivationBackward;

impl Versions for ActivationBackward {
    type Args<'a, T: Real> = (Activation, &'a [T], &'a [T], &'a mut [T]);
    type Output<T: Real> = ();
    fn fast((kind, x, dy, dx): Self::Args<'_, f32>) {
        backward_f32(kind, x, dy, dx);
    }
    fn plain((kind, x, dy, dx): Self::Args<'_, f64>) {
        reference::activation_backward(kind, x, dy, dx);
    }
}

/// Numbers in a piece of work.
const PIECE: usize = 1 << 13;

struct Forward<'a>(Activation, &'a mut [f32]);

impl Op for Forward<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        activate(simd, self.0, self.1);
    }
}

/// `x = f(x)`
#[inline(always)]
pub(crate) fn activate<S: Simd>(simd: S, kind: Activation, x: &mut [f32]) {
    let zero = simd.splat(0.0);
    for x in x.chunks_mut(S::LANES) {
        let v = simd.load_up_to(x, 0.0);
        let y = match kind {
            // NaN stays: it is not below 0.
            Activation::Relu => simd.select_lt(v, zero, zero, v),
            Activation::Gelu => simd.mul(v, normal(simd, v).0),
        };
        simd.store_up_to(x, y);
    }
}

/// `x = f(x)` and `slope = f′(x)`
#[inline(always)]
pub(crate) fn activate_with_slope<S: Simd>(simd: S, kind: Activation, x: &mut [f32], slope: &mut [f32]) {
    let (zero, one) = (simd.splat(0.0), simd.splat(1.0));
    for (x, slope) in x.chunks_mut(S::LANES).zip(slope.chunks_mut(S::LANES)) {
        let v = simd.load_up_to(x, 0.0);
        let (y, s) = match kind {
            // As in `activate` and `multiply_slope`.
            Activation::Relu => (simd.select_lt(v, zero, zero, v), simd.select_lt(zero, v, one, simd.mul(v, zero))),
            Activation::Gelu => {
                let (function, density) = normal(simd, v);
                (simd.mul(v, function), simd.mul_add(v, density, function))
            }
        };
        simd.store_up_to(x, y);
        simd.store_up_to(slope, s);
    }
}

/// `d = d · f′(x)`
#[inline(always)]
fn multiply_slope<S: Simd>(simd: S, kind: Activation, x: &[f32], d: &mut [f32]) {
    let (zero, one) = (simd.splat(0.0), simd.splat(1.0));
    for (x, d) in x.chunks(S::LANES).zip(d.chunks_mut(S::LANES)) {
        let v = simd.load_up_to(x, 0.0);
        let slope = match kind {
            Activation::Relu => simd.select_lt(zero, v, one, simd.mul(v, zero)),
            // (x Φ(x))′ = Φ(x) + x φ(x)
            Activation::Gelu => {
                let (function, density) = normal(simd, v);
                simd.mul_add(v, density, function)
            }
        };
        simd.store_up_to(d, simd.mul(slope, simd.load_up_to(d, 0.0)));
    }
}

struct Backward<'a>(Activation, &'a [f32], &'a mut [f32]);

impl Op for Backward<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        multiply_slope(simd, self.0, self.1, self.2);
    }
}

fn forward_f32(kind: Activation, x: &[f32], y: &mut [f32]) {
    let len = x.len();
    let y = SharedMut::new(y);
    for_each(len.div_ceil(PIECE), len * 4, |piece| {
        let (start, count) = (piece * PIECE, PIECE.min(len - piece * PIECE));
        // SAFETY: each piece is its own range.
        let y = unsafe { y.slice(start, count) };
        y.copy_from_slice(&x[start..start + count]);
        isa::dispatch(Forward(kind, y));
    });
}

fn backward_f32(kind: Activation, x: &[f32], dy: &[f32], dx: &mut [f32]) {
    let len = x.len();
    let dx = SharedMut::new(dx);
    for_each(len.div_ceil(PIECE), len * 6, |piece| {
        let (start, count) = (piece * PIECE, PIECE.min(len - piece * PIECE));
        // SAFETY: each piece is its own range.
        let dx = unsafe { dx.slice(start, count) };
        dx.copy_from_slice(&dy[start..start + count]);
        isa::dispatch(Backward(kind, &x[start..start + count], dx));
    });
}

/// The plain version.
pub(crate) mod reference {
    use super::Activation;
    use crate::math::erfc_f64;
    use crate::number::Real;

    /// Φ(x), the normal distribution function.
    fn normal_distribution(x: f64) -> f64 {
        0.5 * erfc_f64(-x / std::f64::consts::SQRT_2)
    }

    /// ReLU, `y = max(0, x)`, or GELU, `y = x Φ(x)`.
    pub fn activation_forward<T: Real>(kind: Activation, x: &[T], y: &mut [T]) {
        for (&x, y) in x.iter().zip(y) {
            *y = match kind {
                Activation::Relu if x < T::ZERO => T::ZERO,
                Activation::Relu => x,
                Activation::Gelu => T::of(x.to_f64() * normal_distribution(x.to_f64())),
            };
        }
    }

    /// The gradient of ReLU, `dx = dy [x > 0]`, or of GELU, `dx = dy (Φ(x) + x φ(x))`.
    pub fn activation_backward<T: Real>(kind: Activation, x: &[T], dy: &[T], dx: &mut [T]) {
        for ((&x, &dy), dx) in x.iter().zip(dy).zip(dx) {
            let x = x.to_f64();
            let slope = match kind {
                Activation::Relu => f64::from(x > 0.0) + if x.is_nan() { x } else { 0.0 },
                Activation::Gelu => {
                    let bell = (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
                    normal_distribution(x) + x * bell
                }
            };
            *dx = dy * T::of(slope);
        }
    }
}
