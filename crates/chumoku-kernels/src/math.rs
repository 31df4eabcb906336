//! Vectorized elementary functions of f32, with their maximum errors.

use crate::isa::{self, Simd, SimdOp, VectorMath};
use crate::{Error, Result};

/// Polynomial of `erf(x)/x − 1` in x², |x| ≤ 0.9.
const ERF_NEAR: [f32; 7] =
    [8.454_664e-5, -8.162_372_4e-4, 5.202_737e-3, -2.686_007_5e-2, 1.128_370_8e-1, -3.761_263_5e-1, 1.283_791_7e-1];
/// Polynomial of `ln erfc(x)`, 0.9 ≤ x ≤ 4.
const ERF_FAR: [f32; 7] =
    [2.004_482_4e-4, -3.087_028_2e-3, 2.239_970_4e-2, -1.042_859_7e-1, -6.367_833_6e-1, -1.127_909_5, -1.398_353_2e-4];
/// Polynomial of `(tanh(x)/x − 1)/x²` in x², |x| ≤ 0.6.
const TANH: [f32; 5] = [-5.704_987e-3, 2.063_908_8e-2, -5.373_971_5e-2, 1.333_144_2e-1, -3.333_328e-1];
/// Polynomial of `(x + 3)·Φ(−x)·e^(x²/2)` in (x − 3)/(x + 3), 0 ≤ x ≤ 14.
const MILLS: [f32; 9] = [
    -2.629_89e-4,
    -8.977_541_6e-4,
    1.074_731_7e-3,
    6.920_006_6e-3,
    -1.048_009_3e-2,
    -4.725_528_5e-2,
    2.300_194e-1,
    -5.093_323e-1,
    7.290_836_6e-1,
];

/// Polynomial of `eˣ`, |x| ≤ ln 2 / 2, to 1e-7.
const EXP: [f32; 6] = [8.290_229e-3, 4.189_839e-2, 1.666_764e-1, 4.999_914_5e-1, 9.999_997e-1, 1.0];
/// Limit beyond which Φ(−x) is barely representable in f32: the density is still above 2^−126.
pub(crate) const NORMAL_END: f32 = 13.2;

/// Computes eˣ for x ≤ 88.3, as 2ⁿ·e^r with |r| ≤ ln 2 / 2 and a polynomial of degree 6 for e^r.
///
/// Maximum error 2 ulp for −87.3 ≤ x ≤ 88.3. Below, the result is 0 (the true value is subnormal). Above, it is e^88.3.
/// NaN gives NaN.
/// Source: Cody and Waite, "Software Manual for the Elementary Functions" (1980); coefficients of Cephes' `expf`.
#[inline(always)]
pub(crate) fn exp<S: VectorMath>(simd: S, x: S::V) -> S::V {
    exp_compensated(simd, x, simd.splat(0.0))
}

/// Computes e^(x + rest) like [`exp`], for a rest that is small relative to x and below 0.05.
#[inline(always)]
fn exp_compensated<S: VectorMath>(simd: S, x: S::V, rest: S::V) -> S::V {
    // `max(bound, x)` propagates NaN: if either operand is NaN, the result is the second one.
    let clamped = simd.min(simd.splat(88.3), simd.max(simd.splat(-87.336_54), x));
    let (p, n) = exp_parts(simd, clamped, rest);
    simd.select_lt(x, simd.splat(-87.336_54), simd.splat(0.0), simd.mul(p, simd.pow2(n)))
}

/// Computes e^(x + rest) for −150 ≤ x ≤ 0, like [`exp`], as two factors, because the product may be subnormal.
/// Multiplying by one factor and then the other loses no digit before the final result does.
///
/// The second factor is 1 for x > −83; otherwise the first factor alone is below 2e-36. Below −110 the second factor is
/// 0, because underflowing results are very slow on some processors. NaN gives NaN in the first factor.
#[inline(always)]
pub(crate) fn exp_factors<S: VectorMath>(simd: S, x: S::V, rest: S::V) -> (S::V, S::V) {
    let (p, n) = exp_parts(simd, x, rest);
    let first = simd.max(simd.splat(-120.0), n);
    let second = simd.pow2(simd.sub(n, first));
    (simd.mul(p, simd.pow2(first)), simd.select_lt(x, simd.splat(-110.0), simd.splat(0.0), second))
}

/// Returns (p, n) with e^(x + rest) = p·2ⁿ and p from 0.7 to 1.42, for −150 ≤ x ≤ 88.3.
#[inline(always)]
fn exp_parts<S: VectorMath>(simd: S, x: S::V, rest: S::V) -> (S::V, S::V) {
    let n = simd.round(simd.mul(x, simd.splat(std::f32::consts::LOG2_E)));
    let r = simd.mul_add(n, simd.splat(-0.693_359_4), x);
    let r = simd.add(simd.mul_add(n, simd.splat(2.121_944_4e-4), r), rest);
    let p = polynomial(simd, r, [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5]);
    (simd.add(simd.mul_add(simd.mul(p, r), r, r), simd.splat(1.0)), n)
}

/// Evaluates `c₀ xⁿ + … + cₙ` (Horner).
#[inline(always)]
fn polynomial<S: VectorMath, const N: usize>(simd: S, x: S::V, coefficients: [f32; N]) -> S::V {
    let mut p = simd.splat(coefficients[0]);
    for &coefficient in &coefficients[1..] {
        p = simd.mul_add(p, x, simd.splat(coefficient));
    }
    p
}

/// Returns |x|. NaN propagates.
#[inline(always)]
fn magnitude<S: VectorMath>(simd: S, x: S::V) -> S::V {
    simd.max(simd.sub(simd.splat(0.0), x), x)
}

/// Computes the error function: x + x·p(x²) up to 0.9, beyond it 1 − e^p(|x|).
///
/// Maximum error 2 ulp everywhere. NaN gives NaN. Coefficients: minimax fits of `erf(x)/x − 1` and of `ln erfc(x)`.
#[inline(always)]
pub(crate) fn erf<S: VectorMath>(simd: S, x: S::V) -> S::V {
    // At 4 the function is 1 to the last bit.
    let size = simd.min(simd.splat(4.0), magnitude(simd, x));
    let near = polynomial(simd, simd.mul(size, size), ERF_NEAR);
    let near = simd.mul_add(x, near, x);
    let far = simd.sub(simd.splat(1.0), exp(simd, polynomial(simd, size, ERF_FAR)));
    let far = simd.select_lt(x, simd.splat(0.0), simd.sub(simd.splat(0.0), far), far);
    simd.select_lt(simd.splat(0.9), size, far, near)
}

/// Computes the hyperbolic tangent: x + x³·p(x²) up to 0.6, beyond it 1 − 2/(e^2x + 1).
///
/// Maximum error 2 ulp everywhere. NaN gives NaN. Coefficients: a minimax fit of `(tanh(x)/x − 1)/x²`.
#[inline(always)]
pub(crate) fn tanh<S: VectorMath>(simd: S, x: S::V) -> S::V {
    let (zero, one) = (simd.splat(0.0), simd.splat(1.0));
    let size = simd.min(simd.splat(10.0), magnitude(simd, x));
    let square = simd.mul(size, size);
    let near = polynomial(simd, square, TANH);
    let near = simd.mul_add(simd.mul(x, square), near, x);
    let power = exp(simd, simd.add(size, size));
    let far = simd.sub(one, simd.div(simd.splat(2.0), simd.add(power, one)));
    let far = simd.select_lt(x, zero, simd.sub(zero, far), far);
    simd.select_lt(simd.splat(0.6), size, far, near)
}

/// Computes the sigmoid function `1 / (1 + e⁻ˣ)`.
///
/// Maximum error 3 ulp for x ≥ −87.3; below, at most 2e-38. NaN gives NaN.
#[inline(always)]
pub(crate) fn sigmoid<S: VectorMath>(simd: S, x: S::V) -> S::V {
    let one = simd.splat(1.0);
    simd.div(one, simd.add(one, exp(simd, simd.sub(simd.splat(0.0), x))))
}

/// The normal distribution at t: the tail Φ(−t), and the density φ(t) = e^(−t²/2)/√2π.
pub(crate) struct NormalTail<V> {
    pub(crate) t: V,
    pub(crate) tail: V,
    pub(crate) density: V,
}

/// Computes the normal distribution at t = |x|, clamped to [`NORMAL_END`].
///
/// Φ(−t) = e^(−t²/2)·m(t) for a smooth function m, and `(t + 3)·m(t)` is a polynomial in `(t − 3)/(t + 3)`. The
/// relative error is below 5e-7 even far out in the tail, because t² is computed with twice the digits. From the end
/// on, the result is 0. NaN gives NaN as t. Source of the form: Shepherd and Laframboise, "Chebyshev Approximation of
/// (1 + 2x) exp(x²) erfc x" (1981).
#[inline(always)]
pub(crate) fn normal_tail<A: VectorMath>(simd: A, x: A::V) -> NormalTail<A::V> {
    /// 1.5 · 2^23: adding it to a number leaves the nearest whole number in the low bits of the sum.
    const MAGIC: f32 = 12_582_912.0;
    let (one, zero, end) = (simd.splat(1.0), simd.splat(0.0), simd.splat(NORMAL_END));
    let t = simd.min(end, magnitude(simd, x));
    let (square, rest) = simd.exact_product(t, t);
    // e^(−t²/2) = 2ⁿ·eʳ, as in `exp_parts`.
    let (half, magic) = (simd.splat(-0.5), simd.splat(MAGIC));
    let whole = simd.mul_add(square, simd.splat(-0.5 * std::f32::consts::LOG2_E), magic);
    let n = simd.sub(whole, magic);
    let r = simd.mul_add(n, simd.splat(-0.693_359_4), simd.mul(square, half));
    let r = simd.mul_add(rest, half, simd.mul_add(n, simd.splat(2.121_944_4e-4), r));
    let bell = simd.ldexp(polynomial(simd, r, EXP), whole);
    let bell = simd.select_lt(t, end, bell, zero);
    let inverse = simd.div(one, simd.add(t, simd.splat(3.0)));
    // (t − 3)/(t + 3)
    let p = polynomial(simd, simd.mul_add(inverse, simd.splat(-6.0), one), MILLS);
    let tail = simd.mul(bell, simd.mul(inverse, p));
    NormalTail { t, tail, density: simd.mul(bell, simd.splat(0.398_942_3)) }
}

/// Computes the error function in double precision: a series near 0, a continued fraction away from it.
///
/// Error below 1e-14.
pub fn erf_f64(x: f64) -> f64 {
    let a = x.abs();
    if a < 2.5 {
        // erf x = 2/√π · Σ (−1)ⁿ x^(2n+1) / (n! (2n+1)), Abramowitz and Stegun 7.1.5.
        let (mut term, mut sum, mut n) = (x, x, 0.0);
        while term.abs() > 1e-18 * sum.abs() && n < 200.0 {
            n += 1.0;
            term *= -a * a / n;
            sum += term / (2.0 * n + 1.0);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    } else {
        (1.0 - erfc_tail_f64(a)).copysign(x)
    }
}

/// Computes `erfc x = 1 − erf x` in double precision, also for large x.
///
/// Relative error below 1e-13.
pub fn erfc_f64(x: f64) -> f64 {
    if x < 2.5 { 1.0 - erf_f64(x) } else { erfc_tail_f64(x) }
}

/// Computes erfc x for x ≥ 2.5, as `e^(−x²)/√π · 1/(x + (1/2)/(x + 1/(x + (3/2)/(x + …))))`, Abramowitz and Stegun
/// 7.1.14.
fn erfc_tail_f64(x: f64) -> f64 {
    let fraction = (1..=120).rev().fold(x, |fraction, k| x + f64::from(k) / 2.0 / fraction);
    (-x * x).exp() / fraction * std::f64::consts::FRAC_2_SQRT_PI / 2.0
}

macro_rules! each {
    ($(#[$doc:meta])* $name:ident, $function:ident) => {
        $(#[$doc])*
        ///
        /// # Errors
        /// If `x` and `y` differ in length.
        pub fn $name(x: &[f32], y: &mut [f32]) -> Result<()> {
            struct Each<'a>(&'a [f32], &'a mut [f32]);
            impl SimdOp for Each<'_> {
                type Output = ();
                #[inline(always)]
                fn eval<S: Simd>(self, simd: S) {
                    for (x, y) in self.0.chunks(S::LANES).zip(self.1.chunks_mut(S::LANES)) {
                        simd.store_up_to(y, $function(simd, simd.load_up_to(x, 0.0)));
                    }
                }
            }
            Error::check_length(stringify!($name), x.len(), y.len())?;
            isa::dispatch(Each(x, y));
            Ok(())
        }
    };
}

each! {
    /// Computes `y = eˣ` to 2 ulp for −87.3 ≤ x ≤ 88.3; 0 below, e^88.3 above.
    exp_each, exp
}
each! {
    /// Computes `y = erf x` to 2 ulp.
    erf_each, erf
}
each! {
    /// Computes `y = 1 / (1 + e⁻ˣ)` to 3 ulp for x ≥ −87.3; between 0 and 2e-38 below.
    sigmoid_each, sigmoid
}
each! {
    /// Computes `y = tanh x` to 2 ulp.
    tanh_each, tanh
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_f64_matches_known_values() {
        // Abramowitz and Stegun, table 7.1.
        for (x, y) in [(0.0, 0.0), (0.5, 0.520_499_877_813), (1.0, 0.842_700_792_950), (2.0, 0.995_322_265_019)] {
            assert!((erf_f64(x) - y).abs() < 1e-12);
            assert!((erf_f64(-x) + y).abs() < 1e-12);
        }
        assert!((erf_f64(2.4999999) - erf_f64(2.5000001)).abs() < 1e-9);
    }
}
