//! The softmax of a block, differentiated: scores and the gradients of weights become weights and the gradients of
//! scores, two rows at a time.

use super::blocks::Unit;
use super::engine::{Engine, KEYS, STRIDE};
use super::problem::{Attention, Saved};
use super::softmax::{FORBIDDEN_BELOW, LANES, Span, V, exp2_clamped};
use crate::element::Narrow;
use crate::isa::Simd;
use std::f32::consts::LOG2_E;

/// What takes the scores of a query to its weights, and its gradients of weights to gradients of scores.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowBack {
    /// log-sum-exp in units of log 2; +∞ where there is nothing to attend to.
    pub(super) shift: f32,
    /// rowsum(dO ∘ O) − d log-sum-exp
    pub(super) delta: f32,
    /// Whether something that the query sees is not finite, so that the plain version computes it.
    pub(super) is_bad: bool,
}

impl RowBack {
    /// A row that gives nothing.
    pub(super) const NOTHING: RowBack = RowBack { shift: f32::INFINITY, delta: 0.0, is_bad: false };

    pub(super) fn new<T: Narrow>(
        args: &Attention<T>,
        saved: &Saved<T>,
        (s, h, i): (usize, usize, usize),
        mut is_bad: bool,
    ) -> Self {
        let at = args.query.layout.row(s, h, i);
        let log_sum_exp = saved.log_sum_exp[at];
        if log_sum_exp == f32::NEG_INFINITY && !is_bad {
            return RowBack::NOTHING;
        }
        let (output, d_output) = (saved.output.row(s, h, i), saved.d_output.row(s, h, i));
        let delta = dot(output, d_output) - saved.d_log_sum_exp.map_or(0.0, |d| f64::from(d[at]));
        // Beyond 2^16, rounding log-sum-exp to f32 would change weights by more than 1/256.
        let is_fine = log_sum_exp.abs() <= 65536.0 && delta.abs() < 1e37 && dot(d_output, d_output) < 1e37;
        let query = args.query.row(s, h, i);
        let is_fine = is_fine && dot(query, query) < 1e37;
        is_bad |= !is_fine;
        RowBack { shift: log_sum_exp * LOG2_E, delta: delta as f32, is_bad }
    }

    /// Whether its weights are 0.
    pub(super) fn is_nothing(&self) -> bool {
        self.is_bad || self.shift == f32::INFINITY
    }
}

/// Σ x y, in double precision, in eight sums side by side.
fn dot<T: Narrow>(x: &[T], y: &[T]) -> f64 {
    const LANES: usize = 8;
    let mut sums = [0.0; LANES];
    let (x, y) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
    let rest = x.remainder().iter().zip(y.remainder()).map(|(x, y)| x.to_f64() * y.to_f64()).sum::<f64>();
    for (x, y) in x.zip(y) {
        let (mut wide_x, mut wide_y) = ([0.0f32; LANES], [0.0f32; LANES]);
        T::widen(&x[..LANES], &mut wide_x);
        T::widen(&y[..LANES], &mut wide_y);
        for (sum, (x, y)) in sums.iter_mut().zip(wide_x.into_iter().zip(wide_y)) {
            *sum += f64::from(x) * f64::from(y);
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// What the softmax of each query of a span is differentiated with.
#[derive(Debug)]
pub(super) struct SpanRows {
    pub(super) unit: Unit,
    pub(super) sequence: usize,
    /// Query heads and positions, in the order of the blocks.
    places: Vec<(usize, usize)>,
    /// For each query what takes its scores, in units of log 2, to its weights.
    pub(super) softmax: Vec<RowBack>,
}

impl SpanRows {
    /// Number of queries.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Query head and position of each.
    pub(super) fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        self.places.iter().copied()
    }

    /// The queries that the plain version computes.
    pub(super) fn bad(&self) -> impl Iterator<Item = (usize, usize)> {
        self.places.iter().zip(&self.softmax).filter(|(_, row)| row.is_bad).map(|(place, _)| *place)
    }
}

impl Unit {
    /// What the backward pass needs to know of the unit's queries.
    pub(super) fn rows_of<T: Narrow>(&self, args: &Attention<T>, saved: &Saved<T>, bad_keys: &[usize]) -> SpanRows {
        let mut rows = SpanRows { unit: self.clone(), sequence: self.sequence, places: vec![], softmax: vec![] };
        for block in self.blocks(args, usize::MAX) {
            let mut is_bad = vec![false; block.count];
            block.find_bad(args, self.sequence, bad_keys, &mut is_bad);
            for (i, is_bad) in (block.first..block.first + block.count).zip(is_bad) {
                rows.places.push((block.head, i));
                rows.softmax.push(RowBack::new(args, saved, (self.sequence, block.head, i), is_bad));
            }
        }
        rows
    }
}

/// Two rows of a block, to be differentiated: see [`Pair::differentiate`].
pub(super) struct Pair<'a, E: Engine> {
    pub(super) engine: E,
    pub(super) scores: [*const f32; 2],
    pub(super) d_weights: [*const f32; 2],
    /// For transformed scores: the derivative of the softcap, two rows of [`STRIDE`].
    pub(super) slopes: Option<&'a [f32]>,
    pub(super) rows: [RowBack; 2],
    pub(super) spans: [Span; 2],
    /// `scale · log₂ e`, or 1 for transformed scores.
    pub(super) factor: f32,
    /// What dropout multiplies kept weights with.
    pub(super) dropped: f32,
    /// Which weights dropout keeps: two rows of a bit for each key.
    pub(super) kept: Option<&'a [u16]>,
    /// Where gradients of scores go as the left operand of dS K, and the row there.
    pub(super) left: *mut u8,
    pub(super) row: usize,
    /// Where weights and gradients of scores go to be gathered, and the row there.
    pub(super) weights: *mut u8,
    pub(super) d_scores: *mut u8,
    pub(super) group_row: usize,
}

impl<E: Engine> Pair<'_, E> {
    /// Writes the weights and the gradients of scores of both rows.
    ///
    /// # Safety
    /// * Both `spans` must have the same columns, in whole grains, `to` at most [`KEYS`].
    /// * Each of `scores` and `d_weights` must be readable for [`STRIDE`] numbers.
    /// * `left` must be writable for a block, and `row` and `row + 1` be rows of it: see [`Engine::put`].
    /// * `weights` must be writable for a group, with rows `group_row` (even) and the next, and so must `d_scores` where
    ///   `E::PACKS_WEIGHTS`: see [`Engine::put_pair`].
    /// * Nobody else may reach these rows meanwhile. Where an engine writes over scores, the rows may be the same ones.
    #[inline(always)]
    pub(super) unsafe fn differentiate(&self) {
        // SAFETY: `each` asks for what the caller promises here.
        unsafe {
            match (self.slopes.is_some() || self.kept.is_some(), self.spans.iter().all(Span::sees_all)) {
                (false, true) => self.each::<false, false>(),
                (false, false) => self.each::<true, false>(),
                (true, _) => self.each::<true, true>(),
            }
        }
    }

    /// `P = 2^(score − shift)`, `dS = P ∘ (dP − delta)`; with `PARTLY` 0 outside the spans, with `ALL` transformed scores
    /// and dropout.
    ///
    /// # Safety
    /// As for [`Pair::differentiate`].
    #[inline(always)]
    unsafe fn each<const PARTLY: bool, const ALL: bool>(&self) {
        let simd = self.engine.simd();
        let lanes = E::S::LANES;
        let zero = simd.splat(0.0);
        let factor = simd.splat(self.factor);
        let shift = self.rows.map(|row| simd.splat(row.shift));
        let delta = self.rows.map(|row| simd.splat(row.delta));
        let Span { from, to, .. } = self.spans[0];
        let mut col = from;
        while col < to {
            let mut weights = [[zero; 2]; 2];
            let mut d_scores = [[zero; 2]; 2];
            for half in 0..2 {
                let col = col + half * lanes;
                for i in 0..2 {
                    // SAFETY: two vectors are at most a grain, so that the pair from the first column ends at `to` at
                    // the latest; the caller promises STRIDE numbers in each row, which are more.
                    let (score, mut d_weight) =
                        unsafe { (simd.load_ptr(self.scores[i].add(col)), simd.load_ptr(self.d_weights[i].add(col))) };
                    let mut weight = exp2_clamped::<E>(simd, score, factor, shift[i]);
                    if ALL && self.slopes.is_some() {
                        weight = simd.select_lt(score, simd.splat(FORBIDDEN_BELOW), zero, weight);
                    }
                    if PARTLY {
                        weight = self.seen(i, col, weight);
                    }
                    let mut kept = weight;
                    if ALL && let Some(bits) = self.kept {
                        let bits = bits[i * (KEYS / 16) + col / 16] >> (col % 16);
                        kept = simd.select_bits(bits, weight);
                        d_weight = simd.select_bits(bits, simd.mul(d_weight, simd.splat(self.dropped)));
                    }
                    let mut d_score = simd.mul(weight, simd.sub(d_weight, delta[i]));
                    if ALL && let Some(slopes) = self.slopes {
                        d_score = simd.mul(d_score, simd.load(&slopes[i * STRIDE + col..]));
                    }
                    weights[i][half] = kept;
                    d_scores[i][half] = d_score;
                }
            }
            // SAFETY: the caller promises the block, the group and their rows; the columns end at `to`, inside both.
            unsafe {
                self.engine.put(self.left, self.row, col, d_scores[0]);
                self.engine.put(self.left, self.row + 1, col, d_scores[1]);
                self.engine.put_pair(self.weights, self.group_row, col, weights);
                if E::PACKS_WEIGHTS {
                    self.engine.put_pair(self.d_scores, self.group_row, col, d_scores);
                }
            }
            col += 2 * lanes;
        }
    }

    /// `x` where query `i` of the pair sees the keys from `col` on, else 0.
    #[inline(always)]
    fn seen(&self, i: usize, col: usize, x: V<E>) -> V<E> {
        let simd = self.engine.simd();
        let zero = simd.splat(0.0);
        let index = simd.add(simd.load(&LANES), simd.splat(col as f32));
        let x = simd.select_lt(index, simd.splat(self.spans[i].first_seen as f32), zero, x);
        simd.select_lt(index, simd.splat(self.spans[i].end_seen as f32), x, zero)
    }
}
