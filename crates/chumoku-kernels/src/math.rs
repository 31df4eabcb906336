//! Vectorised elementary functions of f32, with their largest errors.

use crate::isa::Simd;

/// eˣ for x ≤ 88.3, by 2ⁿ·e^r with |r| ≤ ln 2 / 2 and a polynomial of degree 6 for e^r.
///
/// Largest error 2 ulp for −87.3 ≤ x ≤ 88.3; below, 0 (where the true value is under the smallest normal number);
/// above, e^88.3. NaN gives NaN.
/// Source: Cody and Waite, "Software Manual for the Elementary Functions" (1980); coefficients of Cephes' `expf`.
#[inline(always)]
pub(crate) fn exp<S: Simd>(simd: S, x: S::V) -> S::V {
    // `max(bound, x)` hands NaN on: where either is NaN the second operand is the result.
    let clamped = simd.min(simd.splat(88.3), simd.max(simd.splat(-87.336_54), x));
    let n = simd.round(simd.mul(clamped, simd.splat(std::f32::consts::LOG2_E)));
    let r = simd.mul_add(n, simd.splat(-0.693_359_4), clamped);
    let r = simd.mul_add(n, simd.splat(2.121_944_4e-4), r);
    let mut p = simd.splat(1.987_569_1e-4);
    for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = simd.mul_add(p, r, simd.splat(coefficient));
    }
    let p = simd.add(simd.mul_add(simd.mul(p, r), r, r), simd.splat(1.0));
    simd.select_lt(x, simd.splat(-87.336_54), simd.splat(0.0), simd.mul(p, simd.pow2(n)))
}

/// The error function, by a ratio of polynomials in x² on |x| ≤ 4.
///
/// Largest absolute error 5e-7. NaN gives NaN. Source: the rational approximation used in Eigen (`perf_f32`).
#[inline(always)]
pub(crate) fn erf<S: Simd>(simd: S, x: S::V) -> S::V {
    let x = simd.min(simd.splat(4.0), simd.max(simd.splat(-4.0), x));
    let square = simd.mul(x, x);
    let mut p = simd.splat(-2.726_142_3e-10);
    for coefficient in [2.770_681_4e-8, -2.101_024e-6, -5.692_506_4e-5, -7.349_906_3e-4, -2.954_6e-3, -1.609_603_3e-2] {
        p = simd.mul_add(p, square, simd.splat(coefficient));
    }
    let mut q = simd.splat(-1.456_607_2e-5);
    for coefficient in [-2.133_740_6e-4, -1.682_827e-3, -7.373_329e-3, -1.426_473_9e-2] {
        q = simd.mul_add(q, square, simd.splat(coefficient));
    }
    simd.div(simd.mul(x, p), q)
}

/// The error function in double precision: a series near 0, a continued fraction away from it. Error below 1e-14.
pub(crate) fn erf_f64(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let a = x.abs();
    let value = if a < 2.5 {
        // erf x = 2/√π · Σ (−1)ⁿ x^(2n+1) / (n! (2n+1)), Abramowitz and Stegun 7.1.5.
        let (mut term, mut sum, mut n) = (a, a, 0.0);
        while term.abs() > 1e-18 * sum.abs() && n < 200.0 {
            n += 1.0;
            term *= -a * a / n;
            sum += term / (2.0 * n + 1.0);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    } else if a < 6.0 {
        // erfc x = e^(−x²)/√π · 1/(x + (1/2)/(x + 1/(x + (3/2)/(x + …)))), Abramowitz and Stegun 7.1.14.
        let tail = (1..=120).rev().fold(a, |tail, k| a + f64::from(k) / 2.0 / tail);
        1.0 - (-a * a).exp() / tail * std::f64::consts::FRAC_2_SQRT_PI / 2.0
    } else {
        1.0
    };
    value.copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{Op, dispatch, map};

    struct Map<'a>(&'a [f32], &'a mut [f32], bool);
    impl Op for Map<'_> {
        type Output = ();
        #[inline(always)]
        fn eval<S: Simd>(self, simd: S) {
            if self.2 {
                map!(simd, self.0, self.1, |x| exp(simd, x));
            } else {
                map!(simd, self.0, self.1, |x| erf(simd, x));
            }
        }
    }

    fn run(x: &[f32], is_exp: bool) -> Vec<f32> {
        let mut y = vec![f32::NAN; x.len()];
        dispatch(Map(x, &mut y, is_exp));
        y
    }

    #[test]
    fn exp_is_within_two_ulp() {
        let x: Vec<f32> = (0..2_000_001).map(|i| -87.33 + i as f32 * (175.6 / 2e6)).collect();
        for (&x, &y) in x.iter().zip(&run(&x, true)) {
            let truth = f64::from(x).exp();
            let ulp = f64::from(f32::EPSILON) * 2f64.powi(truth.log2().floor() as i32);
            assert!((f64::from(y) - truth).abs() <= 2.0 * ulp, "exp({x}) = {y}, want {truth}");
        }
        let odd = run(&[f32::NEG_INFINITY, -1e30, -88.0, 0.0, f32::NAN], true);
        assert_eq!(odd[..4], [0.0, 0.0, 0.0, 1.0]);
        assert!(odd[4].is_nan());
    }

    #[test]
    fn erf_is_within_its_error() {
        let x: Vec<f32> = (0..200_001).map(|i| -5.0 + i as f32 * 5e-5).collect();
        for (&x, &y) in x.iter().zip(&run(&x, false)) {
            let truth = erf_f64(f64::from(x));
            assert!((f64::from(y) - truth).abs() <= 5e-7, "erf({x}) = {y}, want {truth}");
        }
        assert!(run(&[f32::NAN], false)[0].is_nan());
    }

    #[test]
    fn erf_in_double_precision_has_known_values() {
        // Abramowitz and Stegun, table 7.1.
        for (x, y) in [(0.0, 0.0), (0.5, 0.520_499_877_813), (1.0, 0.842_700_792_950), (2.0, 0.995_322_265_019)] {
            assert!((erf_f64(x) - y).abs() < 1e-12);
            assert!((erf_f64(-x) + y).abs() < 1e-12);
        }
        assert!((erf_f64(2.4999999) - erf_f64(2.5000001)).abs() < 1e-9);
    }
}
