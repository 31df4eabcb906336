//! Softmax of one row of a block: scores become weights `2^(score · scale_log2 − shift)`. The kernel subtracts the
//! largest score before it multiplies by the scale. If it multiplied first, rounding the products of large scores would
//! add an error larger than the score differences.
//!
//! Weights may be relative to any shift, as long as none overflows and the largest does not underflow. Most rows need
//! no maximum: if no score is large, the shift is 0. By the Cauchy–Schwarz inequality no score exceeds
//! `|scale| |q| |k|`, which proves this for many rows at once. The other rows keep a running maximum (online softmax:
//! Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). The maximum is rounded up to a whole
//! number, so that rescaling to a new maximum multiplies by a power of two, exactly.

use super::engine::{Engine, VisibleSpan};
use super::operands::{ScoreBlock, ScoreTile, ScoreTileRow};
use crate::isa::{Simd, VectorMath};
use std::f32::consts::LN_2;

/// Scores in units of log 2 up to this need no maximum: weights stay within 2^±44, far from the limits of f32.
pub(super) const SCORE_BOUND: f32 = 44.0;
/// If a bound on scores is at most this, the scores stay below [`SCORE_BOUND`] with any rounding. The decision to keep
/// a maximum therefore depends only on the scores of a row, not on the way they were bounded.
pub(super) const SAFE_SCORE_BOUND: f32 = 43.0;

/// Replaces −∞ in transformed scores: finite, so that no arithmetic turns it into NaN. Masks do not normally contain
/// this number.
pub(super) const MASKED_SCORE: f32 = -1.234_567_8e30;
/// Transformed scores below this are masked.
pub(super) const MASKED_BELOW: f32 = -1e29;

/// 1.5 · 2^23: adding it to a number leaves the nearest whole number in the low bits of the sum.
const ROUNDING_MAGIC: f32 = 12_582_912.0;

/// Computes `2^f` for |f| ≤ 1/2, exactly 1 at 0. Maximum relative errors are 1.0e-4, 2.8e-6 and 2.0e-9 for degrees 3, 4
/// and 6.
#[inline(always)]
fn exp2_fraction<S: Simd, const DEGREE: usize>(simd: S, f: S::V) -> S::V {
    let coefficients: &[f32] = match DEGREE {
        3 => &[5.500_893_3e-2, 0.242_210_97, 0.693_282_9],
        4 => &[9.582_853e-3, 5.590_642_6e-2, 0.240_240_99, 0.693_124_2],
        _ => &[1.535_336_2e-4, 1.339_887_5e-3, 9.618_437e-3, 5.550_332_4e-2, 0.240_226_48, LN_2],
    };
    let mut p = simd.splat(coefficients[0]);
    for &coefficient in &coefficients[1..] {
        p = simd.mul_add(p, f, simd.splat(coefficient));
    }
    simd.mul_add(p, f, simd.splat(1.0))
}

/// Computes `2^(score · scale_log2)` for results within 2^±126.
#[inline(always)]
pub(super) fn exp2_bounded<E: Engine>(simd: E::S, score: V<E>, scale_log2: V<E>) -> V<E> {
    let magic = simd.splat(ROUNDING_MAGIC);
    let whole = simd.mul_add(score, scale_log2, magic);
    let fraction = simd.mul_add(score, scale_log2, simd.sub(magic, whole));
    simd.ldexp(exp2_fraction_for::<E>(simd, fraction), whole)
}

/// Computes `2^x` for x below 127, and about 2^−126 for x below −126.
#[inline(always)]
pub(super) fn exp2_clamped<E: Engine>(simd: E::S, x: V<E>) -> V<E> {
    let magic = simd.splat(ROUNDING_MAGIC);
    let x = simd.max(x, simd.splat(-126.0));
    let whole = simd.add(x, magic);
    simd.ldexp(exp2_fraction_for::<E>(simd, simd.sub(x, simd.sub(whole, magic))), whole)
}

pub(super) type V<E> = <<E as Engine>::S as VectorMath>::V;

#[inline(always)]
fn exp2_fraction_for<E: Engine>(simd: E::S, f: V<E>) -> V<E> {
    match E::EXP_DEGREE {
        3 => exp2_fraction::<E::S, 3>(simd, f),
        4 => exp2_fraction::<E::S, 4>(simd, f),
        _ => exp2_fraction::<E::S, 6>(simd, f),
    }
}

/// Online-softmax state of a query after the blocks so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnlineSoftmaxState {
    /// The shift of the weights `2^(score · scale_log2 − shift)`: a whole number, or −∞ before the first maximum.
    /// Double precision holds the product of any score and factor exactly.
    pub(super) shift: f64,
    /// True if `shift` tracks the maximum. Otherwise it is 0.
    pub(super) tracks_max: bool,
    /// True if a score that is not masked was so low that it counts as masked.
    pub(super) has_low_scores: bool,
    /// Sums of weights, lane by lane.
    pub(super) totals: [f32; 16],
}

impl OnlineSoftmaxState {
    pub(super) const INITIAL: OnlineSoftmaxState =
        OnlineSoftmaxState { shift: 0.0, tracks_max: false, has_low_scores: false, totals: [0.0; 16] };
}

/// Work that is interleaved with the rows of a block, because the multiplier and the vector unit run in parallel.
pub(super) trait InterleavedWork {
    /// Does its share of the work after `row` of `rows` rows. Implementations are `#[inline(always)]`.
    fn advance(&mut self, row: usize, rows: usize);
}

/// Returns whether all scores of the first `rows` rows are finite and, times `scale_log2`, at most [`SCORE_BOUND`].
#[inline(always)]
pub(super) fn is_bounded<E: Engine>(
    engine: E,
    scores: &ScoreBlock<'_, E>,
    rows: usize,
    span: VisibleSpan,
    scale_log2: f32,
) -> bool {
    let simd = engine.simd();
    let columns = span.columns().from()..span.columns().to();
    let zero = simd.splat(0.0);
    let (mut largest, mut smallest, mut zeros) = (zero, zero, zero);
    for i in 0..rows {
        for score in scores.row(i)[columns.clone()].chunks_exact(E::S::LANES) {
            let score = simd.load(score);
            largest = simd.max(score, largest);
            smallest = simd.min(score, smallest);
            // The product with 0 is NaN for NaN and ∞, and NaN survives the additions.
            zeros = simd.mul_add(score, zero, zeros);
        }
    }
    let extreme = simd.max(largest, simd.sub(zero, smallest));
    (simd.max_lane(extreme) + simd.sum(zeros)) * scale_log2.abs() <= SCORE_BOUND
}

/// Turns all rows of a block into weights relative to shift 0. No score may exceed [`SCORE_BOUND`], and every query
/// must see the same keys, from the first column on. The results equal those of [`SoftmaxRow::apply_bounded`], without
/// its checks for each row.
///
/// # Shapes
/// `tile` ([`Engine::QUERY_BLOCK`], [`super::engine::KEY_BLOCK`]), in which `states.len()` rows are queries.
#[inline(always)]
pub(super) fn softmax_bounded_block<E: Engine>(
    engine: E,
    tile: &mut ScoreTile<'_, E>,
    span: VisibleSpan,
    scale_log2: f32,
    states: &mut [OnlineSoftmaxState],
    mut between: impl InterleavedWork,
) {
    let rows = states.len();
    let simd = engine.simd();
    let lanes = E::S::LANES;
    let (from, to) = (span.columns().from(), span.columns().to());
    let to_weight = BoundedWeight::<E> { scale_log2: simd.splat(scale_log2) };
    // Either all the work at once, or a share after each row.
    if !E::INTERLEAVES {
        between.advance(rows, rows);
    }
    // Pairs of vectors up to here are fully visible.
    let whole = from + (span.end_visible() - from) / (2 * lanes) * (2 * lanes);
    for (i, state) in states.iter_mut().enumerate() {
        let mut line = tile.row(i);
        let mut total = simd.load(&state.totals);
        let mut col = from;
        while col < whole {
            // SAFETY: `col` is a multiple of two vectors, since `from` is a multiple of GRAIN. The pair ends by
            // `whole`, which is at most `to`, at most KEY_BLOCK and less than SCORE_STRIDE.
            unsafe {
                let pair = [line.load(simd, col), line.load(simd, col + lanes)];
                let pair = [to_weight.weight(simd, pair[0]), to_weight.weight(simd, pair[1])];
                total = simd.add(simd.add(total, pair[0]), pair[1]);
                line.store_weights(engine, col, pair);
            }
            col += 2 * lanes;
        }
        simd.store(&mut state.totals, total);
        if whole < to {
            let mut row = SoftmaxRow { engine, scores: line, span, scale_log2: 0.0, dropout_bits: None };
            row.apply::<true, false>(whole, state, &to_weight);
        }
        if E::INTERLEAVES {
            between.advance(i + 1, rows);
        }
    }
}

/// Bits of the weights of a row that dropout keeps: one per key of the block.
pub(super) type DropoutBits<'a> = Option<&'a [u16]>;

/// Maps a score to its weight. A trait instead of a closure, which might be compiled without the engine's instructions.
trait ScoreToWeight<E: Engine> {
    fn weight(&self, simd: E::S, score: V<E>) -> V<E>;
}

/// Maps every score to 0.
struct ZeroWeight;
impl<E: Engine> ScoreToWeight<E> for ZeroWeight {
    #[inline(always)]
    fn weight(&self, simd: E::S, _: V<E>) -> V<E> {
        simd.splat(0.0)
    }
}

/// Maps scores with [`exp2_bounded`].
struct BoundedWeight<E: Engine> {
    scale_log2: V<E>,
}
impl<E: Engine> ScoreToWeight<E> for BoundedWeight<E> {
    #[inline(always)]
    fn weight(&self, simd: E::S, score: V<E>) -> V<E> {
        exp2_bounded::<E>(simd, score, self.scale_log2)
    }
}

/// Maps scores to `2^((±score − largest) · scale_log2 + rest)`. With `MASKED`, masked scores become 0.
struct OnlineWeight<E: Engine, const MASKED: bool> {
    /// The sign of the factor, ±1. It is 1 with `MASKED`.
    sign: V<E>,
    /// The largest of `±score`, negated.
    minus_largest: V<E>,
    /// The magnitude of the factor.
    scale_log2: V<E>,
    /// The largest score relative to the shift: at most 0.
    rest: V<E>,
}
impl<E: Engine, const MASKED: bool> ScoreToWeight<E> for OnlineWeight<E, MASKED> {
    #[inline(always)]
    fn weight(&self, simd: E::S, score: V<E>) -> V<E> {
        // The difference of two scores is exact if neither is more than twice the other.
        let below = if MASKED {
            simd.add(score, self.minus_largest)
        } else {
            simd.mul_add(score, self.sign, self.minus_largest)
        };
        let weight = exp2_clamped::<E>(simd, simd.mul_add(below, self.scale_log2, self.rest));
        if MASKED { simd.select_lt(score, simd.splat(MASKED_BELOW), simd.splat(0.0), weight) } else { weight }
    }
}

/// One row of a block to turn into weights: see [`SoftmaxRow::apply_bounded`] and [`SoftmaxRow::apply_online`].
pub(super) struct SoftmaxRow<'a, E: Engine> {
    pub(super) engine: E,
    /// The scores of the row, and the destination of its weights.
    pub(super) scores: ScoreTileRow<'a, E>,
    pub(super) span: VisibleSpan,
    /// The factor that converts scores to units of log 2.
    pub(super) scale_log2: f32,
    pub(super) dropout_bits: DropoutBits<'a>,
}

impl<E: Engine> SoftmaxRow<'_, E> {
    /// Computes weights relative to shift 0, if no score exceeds [`SCORE_BOUND`].
    #[inline(always)]
    pub(super) fn apply_bounded(&mut self, state: &mut OnlineSoftmaxState) {
        let to_weight = BoundedWeight::<E> { scale_log2: self.engine.simd().splat(self.scale_log2) };
        let from = self.span.columns().from();
        match (self.span.is_fully_visible(), self.dropout_bits) {
            (true, None) => self.apply::<false, false>(from, state, &to_weight),
            (false, None) => self.apply::<true, false>(from, state, &to_weight),
            _ => self.apply::<true, true>(from, state, &to_weight),
        }
    }

    /// Returns the largest absolute value of the visible scores, or NaN if one of them is not finite.
    #[inline(always)]
    pub(super) fn max_abs_score(&self) -> f32 {
        let simd = self.engine.simd();
        let zero = simd.splat(0.0);
        let (mut largest, mut zeros) = (zero, zero);
        let (mut col, to) = (self.span.columns().from(), self.span.columns().to());
        for score in self.scores.scores(col..to).chunks_exact(E::S::LANES) {
            let score = self.select_visible(col, simd.load(score), zero);
            largest = simd.max(simd.max(score, simd.sub(zero, score)), largest);
            // x·0 is 0 for finite x and NaN otherwise, and NaN survives the additions.
            zeros = simd.mul_add(score, zero, zeros);
            col += E::S::LANES;
        }
        simd.max_lane(largest) + simd.sum(zeros)
    }

    /// Computes weights relative to the running maximum. Returns the factor that rescales earlier sums, or `None` if a
    /// score is not finite. With `MASKED`, scores have been transformed, and some may be [`MASKED_SCORE`]. Otherwise
    /// the caller checks that all scores are finite.
    #[inline(always)]
    pub(super) fn apply_online<const MASKED: bool>(&mut self, state: &mut OnlineSoftmaxState) -> Option<f32> {
        let simd = self.engine.simd();
        let zero = simd.splat(0.0);
        let sign = simd.splat(if self.scale_log2 < 0.0 { -1.0 } else { 1.0 });
        let scale_log2 = self.scale_log2.abs();
        let nothing = simd.splat(if MASKED { MASKED_SCORE } else { f32::NEG_INFINITY });
        let (mut largest, mut zeros) = (nothing, zero);
        let (from, to) = (self.span.columns().from(), self.span.columns().to());
        let mut col = from;
        for score in self.scores.scores(from..to).chunks_exact(E::S::LANES) {
            let score = simd.load(score);
            let score = self.select_visible(col, if MASKED { score } else { simd.mul(score, sign) }, nothing);
            largest = simd.max(score, largest);
            if MASKED {
                // The product with 0 is NaN for NaN and ∞, and NaN survives the additions.
                zeros = simd.mul_add(score, zero, zeros);
            }
            col += E::S::LANES;
        }
        let largest = simd.max_lane(largest);
        let before = if state.tracks_max || state.totals != [0.0; 16] { state.shift } else { f64::NEG_INFINITY };
        state.tracks_max = true;
        state.shift = before;
        if !(largest.is_finite() && simd.sum(zeros) == 0.0 && scale_log2.is_finite()) {
            self.clear();
            return None;
        }
        if MASKED && largest < MASKED_BELOW {
            state.has_low_scores |= self.scores.scores(self.span.visible()).iter().any(|&score| score != MASKED_SCORE);
            self.clear();
            return Some(1.0);
        }
        // The product of two f32 is exact in double precision.
        let product = f64::from(largest) * f64::from(scale_log2);
        state.shift = before.max(product.ceil());
        let rescale = if before == f64::NEG_INFINITY { 0.0 } else { (before - state.shift).exp2() as f32 };
        if rescale != 1.0 {
            state.totals.iter_mut().for_each(|total| *total *= rescale);
        }
        let to_weight = OnlineWeight::<E, MASKED> {
            sign,
            minus_largest: simd.splat(-largest),
            scale_log2: simd.splat(scale_log2),
            rest: simd.splat((product - state.shift) as f32),
        };
        match self.dropout_bits {
            None => self.apply::<true, false>(from, state, &to_weight),
            _ => self.apply::<true, true>(from, state, &to_weight),
        }
        Some(rescale)
    }

    /// Sets all weights of the row to 0.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        let mut unused = OnlineSoftmaxState::INITIAL;
        self.apply::<false, false>(self.span.columns().from(), &mut unused, &ZeroWeight);
    }

    /// Returns `x` for keys from `col` that the query sees, and `other` for the rest.
    #[inline(always)]
    fn select_visible(&self, col: usize, x: V<E>, other: V<E>) -> V<E> {
        let simd = self.engine.simd();
        let index = simd.add(simd.load(&LANE_INDEX[..]), simd.splat(col as f32));
        let x = simd.select_lt(index, simd.splat(self.span.first_visible() as f32), other, x);
        simd.select_lt(index, simd.splat(self.span.end_visible() as f32), x, other)
    }

    /// Replaces every score from column `from` on by its weight, and adds the weights to the total. With `PARTLY`,
    /// weights of invisible keys are 0. With `DROPS`, weights that dropout removes are 0, but they count in the total.
    #[inline(always)]
    fn apply<const PARTLY: bool, const DROPS: bool>(
        &mut self,
        from: usize,
        state: &mut OnlineSoftmaxState,
        to_weight: &impl ScoreToWeight<E>,
    ) {
        let simd = self.engine.simd();
        let lanes = E::S::LANES;
        let mut total = simd.load(&state.totals);
        let to = self.span.columns().to();
        assert!(from.is_multiple_of(2 * lanes));
        let mut col = from;
        while col < to {
            let mut pair = [simd.splat(0.0); 2];
            for (half, p) in pair.iter_mut().enumerate() {
                let col = col + half * lanes;
                // SAFETY: `to` and the first column of the pair are multiples of two vectors, since GRAIN is one. The
                // pair therefore ends by `to`, which is at most KEY_BLOCK and less than SCORE_STRIDE.
                *p = to_weight.weight(simd, unsafe { self.scores.load(simd, col) });
                if PARTLY {
                    *p = self.select_visible(col, *p, simd.splat(0.0));
                }
                total = simd.add(total, *p);
                if DROPS && let Some(kept) = self.dropout_bits {
                    *p = simd.select_bits(kept[col / 16] >> (col % 16), *p);
                }
            }
            // SAFETY: `col` is a multiple of two vectors below `to`, which is at most KEY_BLOCK.
            unsafe { self.scores.store_weights(self.engine, col, pair) };
            col += 2 * lanes;
        }
        simd.store(&mut state.totals, total);
    }
}

/// Lane numbers 0, 1, 2, …
pub(super) const LANE_INDEX: [f32; 16] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];
