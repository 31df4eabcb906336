//! The steps between the product and the softmax: softcap, ALiBi and masks. Also the unit of scores.

use super::engine::VisibleSpan;
use super::heads::QueryIndex;
use super::mask::Mask;
use super::params::AttentionParams;
use super::softmax::MASKED_SCORE;
use crate::isa::{Simd, SimdOp};
use crate::math::{self, exp};
use std::f64::consts::LOG2_E;

/// Converts between the scores of a row, units of log 2 and natural units.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScoreUnit {
    /// The factor that converts scores to units of log 2: `scale · log₂ e`, or `log₂ e` for transformed scores.
    pub(super) scale_log2: f32,
    /// The factors that convert a score to units of log 2 and to natural units: `[scale_log2, scale]`.
    factors: [f64; 2],
}

impl ScoreUnit {
    pub(super) fn new(args: &AttentionParams<f32>) -> Self {
        let scale = if ScoreTransform::new(args).is_some() { 1.0 } else { args.scale };
        let scale_log2 = (scale * LOG2_E) as f32;
        let factors = [f64::from(scale_log2), scale];
        // A factor that is too small or too large for f32 has lost digits.
        let is_exact = (factors[0] / factors[1] / LOG2_E - 1.0).abs() < 1e-7;
        ScoreUnit { scale_log2, factors: if is_exact { factors } else { [LOG2_E, 1.0] } }
    }

    /// Converts natural units to units of log 2, with the rounding of `scale_log2`: equal scores stay equal at any
    /// magnitude.
    pub(super) fn to_log2(self, x: f64) -> f64 {
        x * self.factors[0] / self.factors[1]
    }

    /// Converts units of log 2 to natural units.
    pub(super) fn to_nats(self, x: f64) -> f64 {
        x * self.factors[1] / self.factors[0]
    }
}

/// The largest softcap for which [`tanh`] is accurate enough: the error of the score is the cap times that of tanh.
const MAX_FAST_CAP: f32 = 64.0;

/// The transformations of scores that the arguments require.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScoreTransform {
    scale: f32,
    softcap: Option<f32>,
}

impl ScoreTransform {
    pub(super) fn new(args: &AttentionParams<f32>) -> Option<Self> {
        let needed = args.softcap.is_some() || args.alibi.is_some() || args.mask.is_some();
        needed.then(|| ScoreTransform { scale: args.scale as f32, softcap: args.softcap.map(|cap| cap as f32) })
    }

    /// Computes the derivative of the softcap, `1 − tanh²(score / cap)`, at each score of a row, before
    /// [`ScoreTransform::apply`].
    #[inline(always)]
    pub(super) fn softcap_slopes<S: Simd>(&self, simd: S, span: VisibleSpan, scores: &[f32], slopes: &mut [f32]) {
        let Some(cap) = self.softcap else { return };
        let inner = simd.splat(self.scale / cap);
        for col in (span.columns().from()..span.columns().to()).step_by(S::LANES) {
            simd.store(&mut slopes[col..], tanh_slope(simd, simd.mul(simd.load(&scores[col..]), inner)));
        }
    }

    /// Scales, caps and masks the scores of a query for the keys from `first_key`. Masked keys
    /// get [`MASKED_SCORE`].
    #[inline(always)]
    pub(super) fn apply<S: Simd>(
        &self,
        simd: S,
        args: &AttentionParams<f32>,
        query: QueryIndex,
        first_key: usize,
        span: VisibleSpan,
        scores: &mut [f32],
    ) {
        simd.run(ApplyTransform { transform: self, args, query, first_key, span, scores });
    }

    /// Inlined body of [`ScoreTransform::apply`].
    #[inline(always)]
    fn apply_to<S: Simd>(
        &self,
        simd: S,
        args: &AttentionParams<f32>,
        QueryIndex { sequence: s, head: h, query: i }: QueryIndex,
        first_key: usize,
        span: VisibleSpan,
        scores: &mut [f32],
    ) {
        let columns = span.columns().from()..span.columns().to();
        if let Some(cap) = self.softcap {
            let (inner, outer) = (simd.splat(self.scale / cap), simd.splat(cap));
            for x in scores[columns].chunks_exact_mut(S::LANES) {
                let inside = simd.mul(simd.load(x), inner);
                let capped = if cap <= MAX_FAST_CAP { tanh(simd, inside) } else { math::tanh(simd, inside) };
                simd.store(x, simd.mul(capped, outer));
            }
        } else {
            let factor = simd.splat(self.scale);
            for x in scores[columns].chunks_exact_mut(S::LANES) {
                simd.store(x, simd.mul(simd.load(x), factor));
            }
        }
        let seen = &mut scores[span.visible()];
        let first = first_key + span.first_visible();
        if let Some(slopes) = args.alibi {
            let slope = -slopes[h];
            let distance = (i128::from(args.diagonal_offset(s)) + i as i128 - first as i128) as f32;
            for (j, x) in seen.iter_mut().enumerate() {
                *x += slope * (distance - j as f32).abs();
            }
        }
        match args.mask {
            None => {}
            Some(Mask::Boolean(view)) => {
                let allowed = &view.data[view.entry_index(s, h, i, first)..];
                if view.strides[3] == 1 {
                    seen.iter_mut().zip(allowed).for_each(|(x, &allowed)| *x = if allowed { *x } else { MASKED_SCORE });
                } else {
                    for (j, x) in seen.iter_mut().enumerate() {
                        *x = if allowed[j * view.strides[3]] { *x } else { MASKED_SCORE };
                    }
                }
            }
            Some(Mask::Additive(view)) => {
                let bias = &view.data[view.entry_index(s, h, i, first)..];
                let add = |x: &mut f32, bias: f32| {
                    *x = if bias == f32::NEG_INFINITY { MASKED_SCORE } else { *x + bias };
                };
                if view.strides[3] == 1 {
                    seen.iter_mut().zip(bias).for_each(|(x, &bias)| add(x, bias));
                } else {
                    seen.iter_mut().enumerate().for_each(|(j, x)| add(x, bias[j * view.strides[3]]));
                }
            }
        }
    }
}

/// The operation of [`ScoreTransform::apply`], a separate function that all passes share.
struct ApplyTransform<'a, 'b> {
    transform: &'a ScoreTransform,
    args: &'a AttentionParams<'b, f32>,
    query: QueryIndex,
    first_key: usize,
    span: VisibleSpan,
    scores: &'a mut [f32],
}

impl SimdOp for ApplyTransform<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let ApplyTransform { transform, args, query, first_key, span, scores } = self;
        transform.apply_to(simd, args, query, first_key, span, scores);
    }
}

/// Computes `tanh x = 1 − 2/(e²ˣ + 1)`. Maximum absolute error 2e-7.
#[inline(always)]
pub(super) fn tanh<S: Simd>(simd: S, x: S::V) -> S::V {
    let one = simd.splat(1.0);
    let e = exp(simd, simd.add(x, x));
    simd.sub(one, simd.div(simd.splat(2.0), simd.add(e, one)))
}

/// Computes the derivative of tanh, `1 − tanh² x = 4 e²ˣ / (e²ˣ + 1)²`, at −|x| so that nothing overflows. This form
/// avoids the difference, which loses all digits from |x| = 9. Maximum error 8 ulp for |x| ≤ 43; beyond that it returns
/// 0.
#[inline(always)]
fn tanh_slope<S: Simd>(simd: S, x: S::V) -> S::V {
    let below = simd.min(x, simd.sub(simd.splat(0.0), x));
    let e = exp(simd, simd.add(below, below));
    let sum = simd.add(e, simd.splat(1.0));
    simd.div(simd.mul(simd.splat(4.0), e), simd.mul(sum, sum))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{Portable, VectorMath};

    #[test]
    fn softcap_slope_is_accurate_when_tanh_is_close_to_one() {
        for n in -430..=430 {
            let x = n as f32 / 10.0;
            let expected = f64::from(x).cosh().powi(-2);
            let found = f64::from(Portable.to_array(tanh_slope(Portable, Portable.splat(x)))[0]);
            assert!(
                (found - expected).abs() <= 8.0 * f64::from(f32::EPSILON) * expected,
                "{x}: {found:e}, {expected:e}"
            );
        }
        for (x, expected) in [(50.0, 0.0), (-1e30, 0.0), (f32::INFINITY, 0.0), (f32::NEG_INFINITY, 0.0)] {
            assert_eq!(Portable.to_array(tanh_slope(Portable, Portable.splat(x)))[0], expected, "{x}");
        }
        assert!(Portable.to_array(tanh_slope(Portable, Portable.splat(f32::NAN)))[0].is_nan());
    }
}
