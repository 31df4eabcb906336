//! Activation functions of the feed-forward network.
//!
//! # Files
//!
//! - `curves`: each activation with its slope, on a vector
//! - `gated`: GEGLU, SwiGLU and ReGLU
//! - `reference`: the reference implementation

mod curves;
mod gated;
pub(crate) mod reference;

pub use gated::{gated_backward, gated_forward};

use crate::isa::{self, Simd, SimdOp, VectorPair};
use crate::number::{Real, implementations};
use crate::profile;
use crate::threads::{SharedMut, for_each};
use crate::{Error, Result};
use curves::value_and_slope;

/// An elementwise activation function.
///
/// Each variant states the maximum relative error of f in f32, and that of f′ relative to the magnitudes of its two
/// terms. Subnormal results have fewer digits. NaN gives NaN. −∞ and ∞ give the limits of f and f′: 0 and 0, ∞ and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Activation {
    /// `max(0, x)`, as in the transformer paper. The slope at 0 is 0. Exact.
    Relu,
    /// `x · Φ(x)` with the normal distribution function Φ. Maximum error 6e-7, of the slope 1e-6; 0 below −13.2.
    /// Source: Hendrycks and Gimpel, "Gaussian Error Linear Units (GELUs)" (2016).
    Gelu,
    /// `x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³)))`, which equals `x · σ(√(8/π) (x + 0.044715 x³))`. It differs from
    /// [`Activation::Gelu`] by up to 5e-4. Maximum error 3e-7, of the slope 4e-7. Source: section 2 of the same paper.
    GeluTanh,
    /// `x · σ(x)` with the sigmoid function σ, also called Swish. Maximum error 3e-7, of the slope 4e-7. Sources:
    /// Elfwing, Uchibe and Doya, "Sigmoid-weighted linear units for neural network function approximation in
    /// reinforcement learning" (2018), for the definition; Ramachandran, Zoph and Le, "Searching for Activation
    /// Functions" (2017), with β = 1.
    Silu,
}

/// Computes the activation of every value, `y = f(x)`. [`Activation`] states the errors.
///
/// # Shapes
/// `x` and `y` have the same length.
///
/// # Errors
/// If `x` and `y` differ in length.
pub fn activation_forward<T: Real>(kind: Activation, x: &[T], y: &mut [T]) -> Result<()> {
    Error::check_length("activation: y", x.len(), y.len())?;
    let _timed = profile::memory_bound::<T>("activation", 2 * x.len());
    T::run::<ActivationForward>((kind, x, y));
    Ok(())
}

/// Computes `dx = dy · f′(x)`, where x is the input of the forward pass. [`Activation`] states the errors.
///
/// # Shapes
/// All have the same length.
///
/// # Errors
/// If the lengths differ.
pub fn activation_backward<T: Real>(kind: Activation, x: &[T], dy: &[T], dx: &mut [T]) -> Result<()> {
    Error::check_length("activation: dy", x.len(), dy.len())?;
    Error::check_length("activation: dx", x.len(), dx.len())?;
    let _timed = profile::memory_bound::<T>("activation, backward", 3 * x.len());
    T::run::<ActivationBackward>((kind, x, dy, dx));
    Ok(())
}

implementations! {
    /// Both implementations of [`activation_forward`].
    ActivationForward<'a, T>(kind: Activation, x: &'a [T], y: &'a mut [T]) -> () {
        fast: forward_f32,
        reference: reference::activation_forward,
    }
}

implementations! {
    /// Both implementations of [`activation_backward`].
    ActivationBackward<'a, T>(kind: Activation, x: &'a [T], dy: &'a [T], dx: &'a mut [T]) -> () {
        fast: backward_f32,
        reference: reference::activation_backward,
    }
}

/// Values in a piece of work.
const PIECE: usize = 1 << 13;

/// Computes `x = f(x)`.
#[inline(always)]
pub(crate) fn activate<S: Simd>(simd: S, kind: Activation, x: &mut [f32]) {
    simd.run(ApplyActivation(kind, x));
}

/// Computes `x = f(x)` and `slope = f′(x)`.
#[inline(always)]
pub(crate) fn activate_with_slope<S: Simd>(simd: S, kind: Activation, x: &mut [f32], slope: &mut [f32]) {
    simd.run(ApplyActivationWithSlope(kind, x, slope));
}

/// The operation of [`activate`], one function for all callers.
struct ApplyActivation<'a>(Activation, &'a mut [f32]);

impl SimdOp for ApplyActivation<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let ApplyActivation(kind, x) = self;
        let mut pairs = x.chunks_exact_mut(2 * S::LANES);
        for x in &mut pairs {
            let (first, second) = x.split_at_mut(S::LANES);
            let (y, _) = value_and_slope(VectorPair(simd), kind, [simd.load(first), simd.load(second)]);
            simd.store(first, y[0]);
            simd.store(second, y[1]);
        }
        for x in pairs.into_remainder().chunks_mut(S::LANES) {
            let (y, _) = value_and_slope(simd, kind, simd.load_up_to(x, 0.0));
            simd.store_up_to(x, y);
        }
    }
}

/// The operation of [`activate_with_slope`].
struct ApplyActivationWithSlope<'a>(Activation, &'a mut [f32], &'a mut [f32]);

impl SimdOp for ApplyActivationWithSlope<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let ApplyActivationWithSlope(kind, x, slope) = self;
        let (mut pairs, mut slopes) = (x.chunks_exact_mut(2 * S::LANES), slope.chunks_exact_mut(2 * S::LANES));
        for (x, slope) in (&mut pairs).zip(&mut slopes) {
            let (first, second) = x.split_at_mut(S::LANES);
            let (y, s) = value_and_slope(VectorPair(simd), kind, [simd.load(first), simd.load(second)]);
            simd.store(first, y[0]);
            simd.store(second, y[1]);
            let (first, second) = slope.split_at_mut(S::LANES);
            simd.store(first, s[0]);
            simd.store(second, s[1]);
        }
        let rest = pairs.into_remainder().chunks_mut(S::LANES);
        for (x, slope) in rest.zip(slopes.into_remainder().chunks_mut(S::LANES)) {
            let (y, s) = value_and_slope(simd, kind, simd.load_up_to(x, 0.0));
            simd.store_up_to(x, y);
            simd.store_up_to(slope, s);
        }
    }
}

/// Computes `d = d · f′(x)`.
#[inline(always)]
fn multiply_slope<S: Simd>(simd: S, kind: Activation, x: &[f32], d: &mut [f32]) {
    for (x, d) in x.chunks(S::LANES).zip(d.chunks_mut(S::LANES)) {
        let (_, slope) = value_and_slope(simd, kind, simd.load_up_to(x, 0.0));
        simd.store_up_to(d, simd.mul(slope, simd.load_up_to(d, 0.0)));
    }
}

struct MultiplyBySlope<'a>(Activation, &'a [f32], &'a mut [f32]);

impl SimdOp for MultiplyBySlope<'_> {
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
        isa::dispatch(ApplyActivation(kind, y));
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
        isa::dispatch(MultiplyBySlope(kind, &x[start..start + count], dx));
    });
}
