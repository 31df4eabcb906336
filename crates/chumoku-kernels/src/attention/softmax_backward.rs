//! Backward pass of the softmax of a block: scores and weight gradients become weights and score gradients, two rows at
//! a time.

use super::blocks::{QueryBlock, QueryUnit};
use super::engine::{Engine, KEY_BLOCK, SCORE_STRIDE, VisibleSpan};
use super::heads::{Heads, QueryIndex};
use super::operands::ScoreRowPair;
use super::softmax::{LANE_INDEX, MASKED_BELOW, V, exp2_clamped};
use super::staging::{MAX_SUM_OF_SQUARES, sum_of_squares};
use super::transform::ScoreUnit;
use super::type_erased::AnyBackwardInputs;
use crate::isa::{Simd, SimdOp, VectorMath, dispatch};
use crate::low_precision::{DtypeSlice, F32Compute};

/// The largest absolute log-sum-exp that the kernel uses. Beyond 2^16, its rounding to f32 would change weights by more
/// than 1/256.
pub(super) const LARGEST_LOG_SUM_EXP: f32 = 65536.0;

/// Values of one query that turn its scores into weights, and its weight gradients into score gradients.
#[derive(Clone, Copy, Debug)]
pub(super) struct SoftmaxBackwardRow {
    /// Log-sum-exp in units of log 2; +∞ if there is nothing to attend to.
    pub(super) shift: f32,
    /// rowsum(dO ∘ O) − d log-sum-exp
    pub(super) delta: f32,
    /// True if the query sees a non-finite value, so that the reference implementation computes it.
    pub(super) is_nonfinite: bool,
}

impl SoftmaxBackwardRow {
    /// A row without any contribution.
    pub(super) const INACTIVE: SoftmaxBackwardRow =
        SoftmaxBackwardRow { shift: f32::INFINITY, delta: 0.0, is_nonfinite: false };

    #[inline(always)]
    fn new<T: F32Compute, S: Simd>(
        simd: S,
        saved: &AnyBackwardInputs,
        [query, output, d_output]: [Heads<'_, T>; 3],
        QueryIndex { sequence: s, head: h, query: i }: QueryIndex,
        mut is_nonfinite: bool,
    ) -> Self {
        let at = query.layout.row_index(s, h, i);
        let log_sum_exp = saved.log_sum_exp[at];
        if log_sum_exp == f32::NEG_INFINITY && !is_nonfinite {
            return SoftmaxBackwardRow::INACTIVE;
        }
        let (output, d_output) = (output.row(s, h, i), d_output.row(s, h, i));
        let delta = dot(output, d_output) - saved.d_log_sum_exp.map_or(0.0, |d| f64::from(d[at]));
        // The other limits prevent overflow of any product: 0 · ∞ would be NaN in columns that are not visible. No
        // closures: they would be compiled without the instruction set.
        let of_query = simd.sum(sum_of_squares(simd, query.row(s, h, i)));
        let of_d_output = simd.sum(sum_of_squares(simd, d_output));
        let is_fine = log_sum_exp.abs() <= LARGEST_LOG_SUM_EXP && delta.abs() < 1e37;
        let is_fine = is_fine && of_query < MAX_SUM_OF_SQUARES && of_d_output < MAX_SUM_OF_SQUARES;
        is_nonfinite |= !is_fine;
        let shift = ScoreUnit::new(saved.args).to_log2(f64::from(log_sum_exp));
        SoftmaxBackwardRow { shift: shift as f32, delta: delta as f32, is_nonfinite }
    }

    /// Returns whether its weights are 0.
    pub(super) fn is_inactive(&self) -> bool {
        self.is_nonfinite || self.shift == f32::INFINITY
    }
}

/// Computes Σ x y in double precision, in eight parallel sums.
#[inline(always)]
fn dot<T: F32Compute>(x: &[T], y: &[T]) -> f64 {
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

/// Per-query values that the backward pass of the softmax needs, for a span of queries.
#[derive(Debug)]
pub(super) struct QuerySpan {
    pub(super) unit: QueryUnit,
    pub(super) sequence: usize,
    /// Query heads and positions, in the order of the blocks.
    queries: Vec<(usize, usize)>,
    /// Per query, the values that turn its scores into weights.
    pub(super) softmax: Vec<SoftmaxBackwardRow>,
    /// True if all keys and values are finite and not too large.
    pub(super) all_keys_finite: bool,
}

impl QuerySpan {
    /// Returns the number of queries.
    pub(super) fn len(&self) -> usize {
        self.queries.len()
    }

    /// Returns the query head and position of each query.
    pub(super) fn queries(&self) -> impl Iterator<Item = (usize, usize)> {
        self.queries.iter().copied()
    }

    /// Returns whether all queries and output gradients are known to be finite and not too large.
    pub(super) fn all_queries_finite(&self) -> bool {
        self.softmax.iter().all(|row| !row.is_inactive())
    }

    /// Returns the queries that the reference implementation computes.
    pub(super) fn nonfinite_queries(&self) -> impl Iterator<Item = (usize, usize)> {
        self.queries.iter().zip(&self.softmax).filter(|(_, row)| row.is_nonfinite).map(|(place, _)| *place)
    }
}

impl QueryUnit {
    /// Computes what the backward pass needs to know about the unit's queries.
    pub(super) fn backward_span(&self, saved: &AnyBackwardInputs, nonfinite_keys: &[usize]) -> QuerySpan {
        let args = saved.args;
        let mut rows = QuerySpan {
            unit: self.clone(),
            sequence: self.sequence,
            queries: vec![],
            softmax: vec![],
            all_keys_finite: nonfinite_keys.is_empty(),
        };
        for block in &self.blocks(args, usize::MAX) {
            let mut is_nonfinite = vec![false; block.count];
            block.mark_nonfinite(args, self.sequence, nonfinite_keys, &mut is_nonfinite);
            rows.queries.extend((block.first..block.first + block.count).map(|i| (block.head, i)));
            let block = BlockRows {
                saved,
                sequence: self.sequence,
                block,
                is_nonfinite: &is_nonfinite,
                rows: &mut rows.softmax,
            };
            match (args.query.data, saved.output.data, saved.d_output.data) {
                (DtypeSlice::F32(q), DtypeSlice::F32(o), DtypeSlice::F32(d)) => {
                    dispatch(ComputeBlockRows { block, data: [q, o, d] })
                }
                (DtypeSlice::Bf16(q), DtypeSlice::Bf16(o), DtypeSlice::Bf16(d)) => {
                    dispatch(ComputeBlockRows { block, data: [q, o, d] })
                }
                (DtypeSlice::F16(q), DtypeSlice::F16(o), DtypeSlice::F16(d)) => {
                    dispatch(ComputeBlockRows { block, data: [q, o, d] })
                }
                _ => unreachable!("queries and outputs of one call are of one type"),
            }
        }
        rows
    }
}

/// The queries of a block, and the destination of their [`SoftmaxBackwardRow`]s.
struct BlockRows<'a> {
    saved: &'a AnyBackwardInputs<'a>,
    sequence: usize,
    block: &'a QueryBlock,
    is_nonfinite: &'a [bool],
    rows: &'a mut Vec<SoftmaxBackwardRow>,
}

/// The operation of [`QueryUnit::backward_span`] for one block. Its sums are long enough to vectorize.
struct ComputeBlockRows<'a, T> {
    block: BlockRows<'a>,
    data: [&'a [T]; 3],
}

impl<T: F32Compute> SimdOp for ComputeBlockRows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let ComputeBlockRows {
            block: BlockRows { saved, sequence, block, is_nonfinite, rows },
            data: [query, output, d_output],
        } = self;
        let heads = [
            Heads { data: query, layout: saved.args.query.layout },
            Heads { data: output, layout: saved.output.layout },
            Heads { data: d_output, layout: saved.d_output.layout },
        ];
        for (i, &is_nonfinite) in is_nonfinite.iter().enumerate() {
            let query = QueryIndex { sequence, head: block.head, query: block.first + i };
            rows.push(SoftmaxBackwardRow::new(simd, saved, heads, query, is_nonfinite));
        }
    }
}

/// Two rows of a block in the backward pass of the softmax: see [`RowPairBackward::differentiate`].
pub(super) struct RowPairBackward<'a, E: Engine> {
    pub(super) engine: E,
    /// Their scores and weight gradients, and the destination of weights and score gradients.
    pub(super) scores: ScoreRowPair<'a, E>,
    /// The derivative of the softcap, two rows of [`SCORE_STRIDE`], if scores are transformed.
    pub(super) slopes: Option<&'a [f32]>,
    pub(super) rows: [SoftmaxBackwardRow; 2],
    /// The visible part of the columns, for each row.
    pub(super) spans: [VisibleSpan; 2],
    /// The factor that converts scores to units of log 2.
    pub(super) scale_log2: f32,
    /// The factor that dropout applies to kept weights.
    pub(super) dropout_factor: f32,
    /// Weights that dropout keeps: two rows of one bit per key.
    pub(super) dropout_bits: Option<&'a [u16]>,
}

impl<E: Engine> RowPairBackward<'_, E> {
    /// Writes the weights `P = 2^(score − shift)` and the score gradients `dS = P ∘ (dP − delta)` of both rows.
    #[inline(always)]
    pub(super) fn differentiate(&mut self) {
        match (
            self.slopes.is_some() || self.dropout_bits.is_some(),
            self.spans.iter().all(VisibleSpan::is_fully_visible),
        ) {
            (false, true) => self.differentiate_as::<false, false>(),
            (false, false) => self.differentiate_as::<true, false>(),
            (true, true) => self.differentiate_as::<false, true>(),
            (true, false) => self.differentiate_as::<true, true>(),
        }
    }

    /// With `PARTLY`, results outside of the spans are 0. With `ALL`, scores may be transformed and dropout applies.
    #[inline(always)]
    fn differentiate_as<const PARTLY: bool, const ALL: bool>(&mut self) {
        let simd = self.engine.simd();
        let lanes = E::S::LANES;
        let zero = simd.splat(0.0);
        let scale_log2 = simd.splat(self.scale_log2);
        // No closures: they would be compiled without the instruction set.
        let [first, second] = self.rows;
        let minus_shift = [simd.splat(-first.shift), simd.splat(-second.shift)];
        let delta = [simd.splat(first.delta), simd.splat(second.delta)];
        let columns = self.spans[0].columns();
        let mut col = columns.from();
        while col < columns.to() {
            let mut weights = [[zero; 2]; 2];
            let mut d_scores = [[zero; 2]; 2];
            for half in 0..2 {
                let col = col + half * lanes;
                for i in 0..2 {
                    // SAFETY: the columns are whole grains, and each grain is a whole number of vector pairs. This pair
                    // therefore ends by the end of the columns, which is at most KEY_BLOCK and less than SCORE_STRIDE.
                    let [score, mut d_weight] = unsafe { self.scores.load(simd, i, col) };
                    // P = 2^(score − shift)
                    let mut weight = exp2_clamped::<E>(simd, simd.mul_add(score, scale_log2, minus_shift[i]));
                    if ALL && self.slopes.is_some() {
                        weight = simd.select_lt(score, simd.splat(MASKED_BELOW), zero, weight);
                    }
                    if PARTLY {
                        weight = self.select_visible(i, col, weight);
                    }
                    let mut kept = weight;
                    if ALL && let Some(bits) = self.dropout_bits {
                        let bits = bits[i * (KEY_BLOCK / 16) + col / 16] >> (col % 16);
                        kept = simd.select_bits(bits, weight);
                        d_weight = simd.select_bits(bits, simd.mul(d_weight, simd.splat(self.dropout_factor)));
                    }
                    // dS = P ∘ (dP − delta)
                    let mut d_score = simd.mul(weight, simd.sub(d_weight, delta[i]));
                    if ALL && let Some(slopes) = self.slopes {
                        d_score = simd.mul(d_score, simd.load(&slopes[i * SCORE_STRIDE + col..]));
                    }
                    weights[i][half] = kept;
                    d_scores[i][half] = d_score;
                }
            }
            // SAFETY: `col` is a multiple of two vectors below the end of the columns, which is at most KEY_BLOCK.
            unsafe { self.scores.store(self.engine, col, weights, d_scores) };
            col += 2 * lanes;
        }
    }

    /// Returns `x` for keys from `col` that row `i` of the pair sees, and 0 for the others.
    #[inline(always)]
    fn select_visible(&self, i: usize, col: usize, x: V<E>) -> V<E> {
        let simd = self.engine.simd();
        let zero = simd.splat(0.0);
        let index = simd.add(simd.load(&LANE_INDEX), simd.splat(col as f32));
        let x = simd.select_lt(index, simd.splat(self.spans[i].first_visible() as f32), zero, x);
        simd.select_lt(index, simd.splat(self.spans[i].end_visible() as f32), x, zero)
    }
}
