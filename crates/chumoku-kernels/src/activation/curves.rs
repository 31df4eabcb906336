//! Each activation and its slope, on a vector.

use super::Activation;
use crate::isa::VectorMath;
use crate::math::{NormalTail, exp_factors, normal_tail};
use std::f64::consts::{FRAC_2_SQRT_PI, SQRT_2};

/// In f32, x·σ(u) is 0 below −this value, and its slope is 1 above this value.
const GELU_TANH_END: f32 = 12.0;
/// The same limit for SiLU.
const SILU_END: f32 = 120.0;

/// √(8/π), and this times 0.044715: `u = GELU_LINEAR·x + GELU_CUBIC·x³`.
const GELU_LINEAR: f64 = SQRT_2 * FRAC_2_SQRT_PI;
const GELU_CUBIC: f64 = GELU_LINEAR * 0.044_715;

/// Returns f(x) and f′(x). If the caller uses only one of them, the compiler removes the other.
#[inline(always)]
pub(super) fn value_and_slope<S: VectorMath>(simd: S, kind: Activation, x: S::V) -> (S::V, S::V) {
    let (zero, one) = (simd.splat(0.0), simd.splat(1.0));
    match kind {
        Activation::Relu => {
            // NaN propagates: it is neither below 0 nor below 1.
            let slope = simd.select_lt(zero, x, one, simd.select_lt(x, one, zero, x));
            (simd.select_lt(x, zero, zero, x), slope)
        }
        Activation::Gelu => {
            let NormalTail { t, tail, density } = normal_tail(simd, x);
            // x Φ(x) = max(x, 0) − |x| Φ(−|x|)
            let y = simd.sub(simd.max(zero, x), simd.mul(t, tail));
            // (x Φ(x))′ = Φ(x) + x φ(x), whose values at x and −x add up to 1.
            let low = simd.sub(tail, simd.mul(t, density));
            (y, simd.select_lt(x, zero, low, simd.sub(one, low)))
        }
        Activation::GeluTanh => {
            let size = negative_abs(simd, x, GELU_TANH_END);
            let CubicTerm { u, rest, slope } = gelu_cubic(simd, size);
            times_logistic(simd, clamp(simd, x, GELU_TANH_END), (u, rest), slope)
        }
        Activation::Silu => {
            let size = negative_abs(simd, x, SILU_END);
            times_logistic(simd, clamp(simd, x, SILU_END), (size, zero), one)
        }
    }
}

/// Returns x clamped below at −end, and clamped on both sides: both are finite, unless x is NaN.
#[inline(always)]
fn clamp<S: VectorMath>(simd: S, x: S::V, end: f32) -> (S::V, S::V) {
    // If either operand of `max` and `min` is NaN, the result is the second one.
    let x = simd.max(simd.splat(-end), x);
    (x, simd.min(simd.splat(end), x))
}

/// Returns −|x|, clamped below at −end. NaN propagates.
#[inline(always)]
fn negative_abs<S: VectorMath>(simd: S, x: S::V, end: f32) -> S::V {
    simd.max(simd.splat(-end), simd.min(x, simd.sub(simd.splat(0.0), x)))
}

/// The result of [`gelu_cubic`]: u rounded, its rounding error, and u′.
struct CubicTerm<V> {
    u: V,
    rest: V,
    slope: V,
}

/// Computes `u = GELU_LINEAR·x + GELU_CUBIC·x³`. Rounding alone would change e^u by |u| units in the last place.
#[inline(always)]
fn gelu_cubic<S: VectorMath>(simd: S, x: S::V) -> CubicTerm<S::V> {
    let (linear, linear_rest) =
        (simd.splat(GELU_LINEAR as f32), simd.splat((GELU_LINEAR - GELU_LINEAR as f32 as f64) as f32));
    let (cubic, cubic_rest) =
        (simd.splat(GELU_CUBIC as f32), simd.splat((GELU_CUBIC - GELU_CUBIC as f32 as f64) as f32));
    // GELU_CUBIC·x²
    let (square, square_rest) = simd.exact_product(x, x);
    let (term, term_rest) = simd.exact_product(cubic, square);
    let term_rest = simd.mul_add(cubic, square_rest, simd.mul_add(cubic_rest, square, term_rest));
    // GELU_LINEAR + GELU_CUBIC·x²; the rounding error of a sum is by Knuth, "The Art of Computer Programming" 2,
    // theorem 4.2.2B.
    let sum = simd.add(linear, term);
    let added = simd.sub(sum, linear);
    let sum_rest = simd.add(simd.sub(linear, simd.sub(sum, added)), simd.sub(term, added));
    let sum_rest = simd.add(sum_rest, simd.add(linear_rest, term_rest));
    let (u, u_rest) = simd.exact_product(x, sum);
    let rest = simd.mul_add(x, sum_rest, u_rest);
    CubicTerm { u, rest, slope: simd.mul_add(simd.splat(3.0), term, linear) }
}

/// Computes `x·σ(u(x))` and its slope `σ(u) + x·u′·σ(u)·σ(−u)`, for an odd function u that increases with x.
///
/// The arguments are x, clamped below where the result is 0; x clamped on both sides, for the slope; u(−|x|) as a sum;
/// and u′(x).
#[inline(always)]
fn times_logistic<S: VectorMath>(
    simd: S,
    (x, inside): (S::V, S::V),
    (u, rest): (S::V, S::V),
    du: S::V,
) -> (S::V, S::V) {
    let (zero, one) = (simd.splat(0.0), simd.splat(1.0));
    // e^−|u| = power·scale. Next to 1, `power` alone is exact enough. For x < 0 both are multiplied last, because the
    // result may be tiny.
    let (power, scale) = exp_factors(simd, u, rest);
    // σ(|u|); σ(−|u|) is this times e^−|u|.
    let large = simd.div(one, simd.add(one, power));
    let y = simd.mul(x, large);
    let y = simd.select_lt(x, zero, simd.mul(simd.mul(y, power), scale), y);
    // σ(u)·(1 + x·u′·σ(−u))
    let other = simd.select_lt(x, zero, large, simd.mul(large, power));
    let slope = simd.mul(large, simd.mul_add(simd.mul(inside, du), other, one));
    (y, simd.select_lt(x, zero, simd.mul(simd.mul(slope, power), scale), slope))
}
