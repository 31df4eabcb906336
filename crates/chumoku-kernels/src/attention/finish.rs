//! The last stage: sums of weighted values become output and log-sum-exp. [`ForwardResults::try_finish_block`] is the
//! fast path for ordinary rows. [`ForwardResults::finish_query`] handles all other rows, and decoding.

use super::heads::{HeadsLayout, QueryIndex};
use super::params::ForwardOutputs;
use super::reference::{AttentionRow, rounded_score};
use super::softmax::OnlineSoftmaxState;
use super::transform::ScoreUnit;
use super::type_erased::AnyAttention;
use crate::isa::Simd;
use crate::low_precision::{F32Compute, SharedDtypeSlice};
use crate::threads::SharedMut;

/// Destination of the results of the forward pass, shared by all tasks.
pub(super) struct ForwardResults<'a> {
    pub(super) args: &'a AnyAttention<'a>,
    layout: HeadsLayout<'a>,
    output: SharedDtypeSlice,
    log_sum_exp: Option<SharedMut<f32>>,
    /// The unit of scores.
    unit: ScoreUnit,
    /// The reference implementation of one row, given sequence, head and query.
    reference: &'a (dyn Fn(usize, usize, usize) -> AttentionRow + Sync),
}

impl<'a> ForwardResults<'a> {
    pub(super) fn new<T: F32Compute>(
        args: &'a AnyAttention<'a>,
        results: ForwardOutputs<'a, T>,
        plain: &'a (dyn Fn(usize, usize, usize) -> AttentionRow + Sync),
    ) -> Self {
        let layout = results.output.layout;
        let output = T::erase_shared(SharedMut::new(results.output.data));
        let log_sum_exp = results.log_sum_exp.map(SharedMut::new);
        ForwardResults { args, layout, output, log_sum_exp, unit: ScoreUnit::new(args), reference: plain }
    }

    /// Finishes up to sixteen queries from this one on like [`ForwardResults::finish_query`], if none of
    /// them needs special handling. Returns whether it did.
    ///
    /// # Shapes
    /// `states` and the first of `totals` (queries,); `sums` (queries, value dim), rows `cols` apart.
    ///
    /// # Safety
    /// No other code may access the results of these queries.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    pub(super) unsafe fn try_finish_block<S: Simd>(
        &self,
        simd: S,
        QueryIndex { sequence: s, head: h, query: i }: QueryIndex,
        states: &[OnlineSoftmaxState],
        totals: &[f32; 16],
        dropout_factor: f32,
        sums: &[f32],
        cols: usize,
    ) -> bool {
        let width = self.args.value.dim();
        if self.args.sinks.is_some() || !width.is_multiple_of(S::LANES) {
            return false;
        }
        let totals = &totals[..states.len()];
        if totals.iter().any(|total| !(*total > 0.0 && total.is_finite())) {
            return false;
        }
        let first = self.layout.row_offset(s, h, i);
        let rows = OutputRows { first, stride: self.layout.row_stride, width, totals, dropout_factor, sums, cols };
        // SAFETY: the caller promises exclusive access to the queries. Rows of the output do not overlap, and all of it
        // is borrowed as long as `self`.
        let is_finite = unsafe {
            match self.output {
                SharedDtypeSlice::F32(output) => rows.write(simd, output),
                SharedDtypeSlice::Bf16(output) => rows.write(simd, output),
                SharedDtypeSlice::F16(output) => rows.write(simd, output),
            }
        };
        if !is_finite {
            return false;
        }
        if let Some(log_sum_exp) = self.log_sum_exp {
            for (row, (&total, state)) in totals.iter().zip(states).enumerate() {
                // SAFETY: each query has its own entry, and the caller promises exclusive access to it. The log-sum-exp
                // is borrowed as long as `self` and initialized.
                let one = unsafe { log_sum_exp.slice(self.args.query.layout.row_index(s, h, i + row), 1) };
                one[0] = self.unit.to_nats(state.shift + f64::from(total).log2()) as f32;
            }
        }
        true
    }

    /// Divides the sums of a query by the total of its weights, and writes the result.
    ///
    /// # Safety
    /// No other code may access the results of this query.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    pub(super) unsafe fn finish_query<S: Simd>(
        &self,
        simd: S,
        QueryIndex { sequence: s, head: h, query: i }: QueryIndex,
        state: &OnlineSoftmaxState,
        total: f32,
        is_nonfinite: bool,
        dropout_factor: f32,
        sums: &mut [f32],
    ) {
        let (args, at) = (self.args, self.layout.row_offset(s, h, i));
        let log_sum_exp = self.log_sum_exp.map(|all| {
            // SAFETY: each query has its own entry, and the caller promises exclusive access to it. The log-sum-exp is
            // borrowed as long as `self` and initialized.
            let one = unsafe { all.slice(args.query.layout.row_index(s, h, i), 1) };
            &mut one[0]
        });
        let sink = args.sinks.map(|sinks| f64::from(sinks[h]));
        // Scores around −1e29 and below, as with masks of f32::MIN: the reference implementation distinguishes them
        // from −∞.
        let is_nonfinite = is_nonfinite || (total == 0.0 && state.has_low_scores);
        if total == 0.0 && !is_nonfinite {
            // SAFETY: rows of the output do not overlap, and the caller promises exclusive access to this one. The
            // output is borrowed as long as `self`.
            unsafe { self.output.fill_zero(at, sums.len()) };
            if let Some(log_sum_exp) = log_sum_exp {
                *log_sum_exp = sink.map_or(f32::NEG_INFINITY, |sink| sink as f32);
            }
            return;
        }
        // Relative to the sink if it is larger: 2^(sink − shift) might overflow.
        let shift = state.shift;
        let sink = sink.map(|sink| self.unit.to_log2(sink));
        let top = sink.map_or(shift, |sink| shift.max(sink));
        let rescale = if top == shift { 1.0 } else { (shift - top).exp2() };
        let whole = f64::from(total) * rescale + sink.map_or(0.0, |sink| (sink - top).exp2());
        let is_finite = scale_in_place(simd, (f64::from(dropout_factor) * rescale / whole) as f32, sums);
        if is_nonfinite || !total.is_finite() || !is_finite {
            let row = (self.reference)(s, h, i);
            // SAFETY: rows of the output do not overlap, and the caller promises exclusive access to this one. The
            // output is borrowed as long as `self`.
            unsafe { self.output.write_f64(at, &row.output) };
            if let Some(log_sum_exp) = log_sum_exp {
                *log_sum_exp = rounded_score(row.log_sum_exp);
            }
            return;
        }
        // SAFETY: rows of the output do not overlap, and the caller promises exclusive access to this one. The output
        // is borrowed as long as `self`.
        unsafe { self.output.write_f32(at, sums) };
        if let Some(log_sum_exp) = log_sum_exp {
            *log_sum_exp = self.unit.to_nats(top + whole.log2()) as f32;
        }
    }
}

/// Rows of sums to divide by their totals and write: see [`ForwardResults::try_finish_block`].
struct OutputRows<'a> {
    /// Offset of the first output row, and the stride of the rows.
    first: usize,
    stride: usize,
    width: usize,
    totals: &'a [f32],
    dropout_factor: f32,
    sums: &'a [f32],
    cols: usize,
}

impl OutputRows<'_> {
    /// Writes the rows to `output`. Returns whether all results are finite.
    ///
    /// # Safety
    /// * No other code may access these rows of the output.
    /// * The memory of the output must still be valid.
    #[inline(always)]
    unsafe fn write<T: F32Compute, S: Simd>(self, simd: S, output: SharedMut<T>) -> bool {
        let OutputRows { first, stride, width, totals, dropout_factor, sums, cols } = self;
        let zero = simd.splat(0.0);
        // x·0 is 0 for finite x and NaN otherwise, and NaN survives the additions.
        let mut zeros = zero;
        for (row, &total) in totals.iter().enumerate() {
            let factor = simd.splat(dropout_factor / total);
            // SAFETY: valid and exclusive, as the caller promises. The shared memory comes from slices, so it is
            // initialized.
            let output = unsafe { output.slice(first + row * stride, width) };
            let sums = sums[row * cols..][..width].chunks_exact(S::LANES);
            for (output, sum) in output.chunks_exact_mut(S::LANES).zip(sums) {
                let y = simd.mul(simd.load(sum), factor);
                zeros = simd.mul_add(y, zero, zeros);
                // SAFETY: the chunk has LANES values, which may be written.
                unsafe { T::store(simd, output.as_mut_ptr(), y) };
            }
        }
        simd.sum(zeros) == 0.0
    }
}

/// Computes `x · factor` in place. Returns whether every result is finite.
#[inline(always)]
pub(super) fn scale_in_place<S: Simd>(simd: S, factor: f32, x: &mut [f32]) -> bool {
    let (factors, zero) = (simd.splat(factor), simd.splat(0.0));
    // x·0 is 0 for finite x and NaN otherwise, and NaN survives the additions.
    let mut zeros = zero;
    let mut vectors = x.chunks_exact_mut(S::LANES);
    for x in vectors.by_ref() {
        let y = simd.mul(simd.load(x), factors);
        zeros = simd.mul_add(y, zero, zeros);
        simd.store(x, y);
    }
    let mut is_finite = simd.sum(zeros) == 0.0;
    for x in vectors.into_remainder() {
        *x *= factor;
        is_finite &= x.is_finite();
    }
    is_finite
}
