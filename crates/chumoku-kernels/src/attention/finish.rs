//! From the sums of weighted values to the output and log-sum-exp. Two ways out: [`Results::finish_plain`] for usual rows,
//! [`Results::finish`] for all others and for decoding.

use super::heads::Layout;
use super::problem::{Attention, Forward};
use super::reference;
use super::softmax::Running;
use crate::isa::Simd;
use crate::narrow::Narrow;
use crate::number::Element;
use crate::threads::SharedMut;
use std::f64::consts::LN_2;

/// Where tasks write the results of the forward pass.
pub(super) struct Results<'a, T: Element> {
    pub(super) args: &'a Attention<'a, T>,
    layout: Layout<'a>,
    output: SharedMut<T>,
    log_sum_exp: Option<SharedMut<f32>>,
}

impl<'a, T: Narrow> Results<'a, T> {
    pub(super) fn new(args: &'a Attention<'a, T>, results: Forward<'a, T>) -> Self {
        let layout = results.output.layout;
        let output = SharedMut::new(results.output.data);
        Results { args, layout, output, log_sum_exp: results.log_sum_exp.map(SharedMut::new) }
    }

    /// Finishes up to sixteen queries from (sequence, head, query) on, one as [`Results::finish`] does, if there is nothing
    /// special about them; returns whether there was not.
    ///
    /// # Shapes
    /// `states` and the first of `totals` (queries,); `sums` (queries, value dim), rows `cols` apart.
    ///
    /// # Safety
    /// The queries must be the caller's alone.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    pub(super) unsafe fn finish_plain<S: Simd>(
        &self,
        simd: S,
        (s, h, i): (usize, usize, usize),
        states: &[Running],
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
        let zero = simd.splat(0.0);
        // x·0 is 0 for finite x and NaN otherwise, and NaN survives adding.
        let mut zeros = zero;
        for (row, &total) in totals.iter().enumerate() {
            let factor = simd.splat(dropout_factor / total);
            // SAFETY: rows of the output do not overlap, and a query is the caller's alone. The output is borrowed as long as
            // `self`, and holds numbers.
            let output = unsafe { self.output.slice(self.layout.at(s, h, i + row), width) };
            let sums = sums[row * cols..][..width].chunks_exact(S::LANES);
            for (output, sum) in output.chunks_exact_mut(S::LANES).zip(sums) {
                let y = simd.mul(simd.load(sum), factor);
                zeros = simd.mul_add(y, zero, zeros);
                // SAFETY: the chunk has LANES numbers, which may be written.
                unsafe { T::store(simd, output.as_mut_ptr(), y) };
            }
        }
        if simd.sum(zeros) != 0.0 {
            return false;
        }
        if let Some(log_sum_exp) = self.log_sum_exp {
            for (row, (&total, state)) in totals.iter().zip(states).enumerate() {
                // SAFETY: each query has a place of its own, and the query is the caller's alone. All of log-sum-exp is
                // borrowed as long as `self`, and holds numbers.
                let one = unsafe { log_sum_exp.slice(self.args.query.layout.row(s, h, i + row), 1) };
                one[0] = ((f64::from(state.shift) + f64::from(total).log2()) * LN_2) as f32;
            }
        }
        true
    }

    /// Divides the sums of a query by the total of its weights, and writes the result.
    ///
    /// # Safety
    /// The query must be the caller's alone.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    pub(super) unsafe fn finish<S: Simd>(
        &self,
        simd: S,
        (s, h, i): (usize, usize, usize),
        state: &Running,
        total: f32,
        is_bad: bool,
        dropout_factor: f32,
        sums: &mut [f32],
    ) {
        let args = self.args;
        // SAFETY: rows of the output do not overlap, and the query is the caller's alone. The output is borrowed as long as
        // `self`, and holds numbers.
        let output = unsafe { self.output.slice(self.layout.at(s, h, i), sums.len()) };
        let log_sum_exp = self.log_sum_exp.map(|all| {
            // SAFETY: each query has a place of its own, and the query is the caller's alone. All of log-sum-exp is borrowed
            // as long as `self`, and holds numbers.
            let one = unsafe { all.slice(args.query.layout.row(s, h, i), 1) };
            &mut one[0]
        });
        let sink = args.sinks.map(|sinks| f64::from(sinks[h]));
        // Scores about −1e29 and below, as with masks of f32::MIN: the plain version knows them from −∞.
        let is_bad = is_bad || (total == 0.0 && state.is_low);
        if total == 0.0 && !is_bad {
            output.fill(T::of(0.0));
            if let Some(log_sum_exp) = log_sum_exp {
                *log_sum_exp = sink.map_or(f32::NEG_INFINITY, |sink| sink as f32);
            }
            return;
        }
        // Relative to the sink where that is the larger: 2^(sink − shift) might overflow.
        let shift = f64::from(state.shift);
        let sink = sink.map(|sink| sink / LN_2);
        let top = sink.map_or(shift, |sink| shift.max(sink));
        let rescale = if top == shift { 1.0 } else { (shift - top).exp2() };
        let whole = f64::from(total) * rescale + sink.map_or(0.0, |sink| (sink - top).exp2());
        let is_finite = scale(simd, (f64::from(dropout_factor) * rescale / whole) as f32, sums);
        if is_bad || !total.is_finite() || !is_finite {
            let row = reference::attention_row(args, s, h, i);
            output.iter_mut().zip(&row.output).for_each(|(y, &x)| *y = T::of(x));
            if let Some(log_sum_exp) = log_sum_exp {
                *log_sum_exp = row.log_sum_exp as f32;
            }
            return;
        }
        T::narrow(sums, output);
        if let Some(log_sum_exp) = log_sum_exp {
            *log_sum_exp = ((top + whole.log2()) * LN_2) as f32;
        }
    }
}

/// `x · factor`; returns whether every result is finite.
#[inline(always)]
pub(super) fn scale<S: Simd>(simd: S, factor: f32, x: &mut [f32]) -> bool {
    let (factors, zero) = (simd.splat(factor), simd.splat(0.0));
    // x·0 is 0 for finite x and NaN otherwise, and NaN survives adding.
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
