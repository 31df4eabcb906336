//! The forward pass: blocks of queries against blocks of keys.
//!
//! A unit of work is a run of query blocks that share a head of keys. It goes through the keys block by block: each is
//! packed once, and every query block that sees it multiplies (scores = Q Kᵀ), turns its rows of scores into weights
//! ([`super::softmax`]), and adds weights · V to its sums. Nothing that a row of the result depends on depends on which
//! unit or block it falls into.

use super::blocks::{Unit, units};
use super::engine::{Engine, GRAIN, KEYS, STRIDE, Task};
use super::rows::Rows;
use super::softmax::{BOUND, Row, Running};
use super::transform::Transform;
use super::{Attention, Forward, on_engine};
use crate::dropout::Keep;
use crate::element::Narrow;
use crate::isa::Simd;
use crate::memory::{Buffer, Scratch};
use crate::threads::{SharedMut, for_each};
use crate::{Element, reference};
use std::f64::consts::LN_2;

/// Attention, forward; arguments have been checked.
pub(crate) fn forward<T: Narrow>(args: &Attention<T>, results: Forward<T>) {
    let layout = results.output.layout;
    let output = SharedMut::new(results.output.data);
    let log_sum_exp = results.log_sum_exp.map(SharedMut::new);
    let (units, per_piece) = units(args);
    for_each(units.len().div_ceil(per_piece), args.work(), |piece| {
        let units = &units[piece * per_piece..units.len().min((piece + 1) * per_piece)];
        on_engine(args, Piece { args, units, layout, output, log_sum_exp });
    });
}

struct Piece<'a, T: Element> {
    args: &'a Attention<'a, T>,
    units: &'a [Unit],
    layout: super::heads::Layout<'a>,
    output: SharedMut<T>,
    log_sum_exp: Option<SharedMut<f32>>,
}

impl<T: Narrow> Task for Piece<'_, T> {
    #[inline(always)]
    fn eval<E: Engine>(self, engine: E) {
        for unit in self.units {
            self.unit(engine, unit);
        }
    }
}

impl<T: Narrow> Piece<'_, T> {
    #[inline(always)]
    fn unit<E: Engine>(&self, engine: E, unit: &Unit) {
        let (args, simd) = (self.args, engine.simd());
        let (dim, value_dim) = (args.query.dim(), args.value.dim());
        let cols = value_dim.next_multiple_of(GRAIN);
        let blocks = unit.blocks::<T>(args, E::QUERIES);
        let rows = blocks.len() * E::QUERIES;
        let weights_size = if E::PACKS_WEIGHTS { E::left_size(KEYS) } else { 0 };
        let mut scratch = Scratch::take();
        let [queries, keys, values, weights, scores, sums, staged, squares, bounds] = scratch.split([
            blocks.len() * E::left_size(dim),
            E::keys_size(dim),
            E::values_size(value_dim),
            weights_size,
            E::QUERIES * STRIDE * 4,
            rows * cols * 4,
            KEYS * dim.max(value_dim) * 4,
            KEYS * 4,
            rows * 4,
        ]);
        let [sums, staged, squares, bounds] = [sums, staged, squares, bounds].map(Buffer::into_f32);
        let [queries, keys, values, scores] = [queries, keys, values, scores].map(|buffer| buffer.pointer());
        // An engine that does not pack weights has them written over the scores.
        let weights = if E::PACKS_WEIGHTS { weights.pointer() } else { scores };
        let scores = scores.cast::<f32>();
        let mut states = vec![Running::NEW; rows];
        // Queries whose result the plain version computes: what they see is not finite.
        let mut is_bad = vec![false; rows];

        let factor = (args.scale * std::f64::consts::LOG2_E) as f32;
        for (b, block) in blocks.iter().enumerate() {
            let at = b * E::QUERIES;
            let source = Rows {
                from: args.query,
                sequence: unit.sequence,
                head: block.head,
                first: block.first,
                count: block.count,
            };
            let matrix = source.stage(simd, staged, &mut squares[..block.count], |i| is_bad[at + i] = true);
            // SAFETY: the matrix lives in `staged` or in the query; `queries` has room for every block.
            unsafe { engine.pack_left(matrix, queries.add(b * E::left_size(dim))) };
            for (bound, square) in bounds[at..].iter_mut().zip(&squares[..block.count]) {
                *bound = square.sqrt() * factor.abs();
            }
        }
        let transform = Transform::new(args);
        let keep = args.dropout.map(|dropout| Keep::new(dropout.rate, dropout.random));
        let mut kept = vec![0u16; if keep.is_some() { E::QUERIES * KEYS / 16 } else { 0 }];
        let seen = unit.keys(&blocks);
        for first_key in (seen.start / KEYS * KEYS..seen.end).step_by(KEYS) {
            let count = KEYS.min(seen.end - first_key);
            let source =
                Rows { from: args.value, sequence: unit.sequence, head: unit.key_head, first: first_key, count };
            let mut bad_keys = Vec::new();
            let matrix = source.stage(simd, staged, &mut squares[..count], |j| bad_keys.push(first_key + j));
            // SAFETY: as above; there are no more than KEYS rows.
            unsafe { engine.pack_values(matrix, values) };
            let source = Rows { from: args.key, ..source };
            let matrix = source.stage(simd, staged, &mut squares[..count], |j| bad_keys.push(first_key + j));
            // SAFETY: as above.
            unsafe { engine.pack_keys(matrix, keys) };
            squares[..count].iter_mut().for_each(|square| *square = square.sqrt());
            squares[count..].fill(0.0);
            for (b, block) in blocks.iter().enumerate() {
                block.find_bad(args, unit.sequence, &bad_keys, &mut is_bad[b * E::QUERIES..]);
            }
            let longest = squares.iter().copied().fold(0.0, f32::max);
            for (b, block) in blocks.iter().enumerate() {
                let Some((from, to)) = block.columns(first_key, count) else { continue };
                // SAFETY: all were packed; the columns are inside the block.
                unsafe {
                    let left = queries.add(b * E::left_size(dim));
                    engine.scores(left, keys, dim, from, to, scores);
                }
                if let Some(keep) = &keep {
                    block.kept(args, unit.sequence, keep, first_key, from, to, &mut kept);
                }
                let sums = &mut sums[b * E::QUERIES * cols..][..E::QUERIES * cols];
                let starts = block.starts(first_key);
                for i in 0..block.count {
                    let at = b * E::QUERIES + i;
                    let span = block.span(i, first_key, from, to);
                    let state = &mut states[at];
                    let line = scores.wrapping_add(i * STRIDE);
                    let mut row = Row {
                        engine,
                        scores: line,
                        span,
                        factor,
                        kept: keep.map(|_| &kept[i * (KEYS / 16)..][..KEYS / 16]),
                        weights,
                        row: i,
                    };
                    if span.first_seen >= span.end_seen {
                        row.nothing();
                        continue;
                    }
                    let rescale = if let Some(transform) = &transform {
                        let place = (unit.sequence, block.head, block.first + i);
                        // SAFETY: the row has STRIDE scores, and no other reference to them.
                        let line = unsafe { std::slice::from_raw_parts_mut(line, STRIDE) };
                        transform.apply(simd, args, place, first_key, span, line);
                        row.factor = 1.0;
                        row.following::<true>(state)
                    } else {
                        if !state.follows
                            && (bounds[at] * longest <= BOUND || bounds[at] * span.largest(squares) <= BOUND)
                        {
                            row.bounded(state);
                            continue;
                        }
                        row.following::<false>(state)
                    };
                    match rescale {
                        None => is_bad[at] = true,
                        Some(factor) if factor != 1.0 && !starts => scale(simd, factor, &mut sums[i * cols..][..cols]),
                        _ => {}
                    }
                }
                // SAFETY: weights and values were packed up to `to`; the sums have QUERIES rows.
                unsafe { engine.weigh(weights, from, to, values, sums.as_mut_ptr(), cols, !starts) };
            }
        }
        let dropped = keep.map_or(1.0, |keep| keep.factor());
        for (b, block) in blocks.iter().enumerate() {
            for i in 0..block.count {
                let at = b * E::QUERIES + i;
                let place = (unit.sequence, block.head, block.first + i);
                let sums = &mut sums[at * cols..][..value_dim];
                self.finish(simd, place, &states[at], is_bad[at], dropped, sums);
            }
        }
    }

    /// Divides the sums of a query by its total and writes the result.
    #[inline(always)]
    fn finish<S: Simd>(
        &self,
        simd: S,
        (s, h, i): (usize, usize, usize),
        state: &Running,
        is_bad: bool,
        dropped: f32,
        sums: &mut [f32],
    ) {
        let args = self.args;
        // SAFETY: rows of the output do not overlap, and this query is this unit's alone; so is its log-sum-exp.
        let output = unsafe { self.output.slice(self.layout.at(s, h, i), sums.len()) };
        let log_sum_exp = self.log_sum_exp.map(|all| {
            // SAFETY: as above.
            let one = unsafe { all.slice(args.query.layout.row(s, h, i), 1) };
            &mut one[0]
        });
        let total = simd.sum(simd.load(&state.totals));
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
        let top = sink.map_or(shift, |sink| shift.max(sink / LN_2));
        let rescale = (shift - top).exp2();
        let whole = f64::from(total) * rescale + sink.map_or(0.0, |sink| (sink / LN_2 - top).exp2());
        scale(simd, (f64::from(dropped) * rescale / whole) as f32, sums);
        if is_bad || !total.is_finite() || !is_finite(simd, sums) {
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

/// `x · factor`
#[inline(always)]
pub(super) fn scale<S: Simd>(simd: S, factor: f32, x: &mut [f32]) {
    let factor_all = simd.splat(factor);
    let mut vectors = x.chunks_exact_mut(S::LANES);
    for x in vectors.by_ref() {
        simd.store(x, simd.mul(simd.load(x), factor_all));
    }
    vectors.into_remainder().iter_mut().for_each(|x| *x *= factor);
}

/// Whether every number is finite.
#[inline(always)]
pub(super) fn is_finite<S: Simd>(simd: S, x: &[f32]) -> bool {
    // x·0 is 0 for finite x and NaN otherwise, and NaN survives adding.
    let zero = simd.splat(0.0);
    let mut sum = zero;
    let mut vectors = x.chunks_exact(S::LANES);
    for x in vectors.by_ref() {
        sum = simd.mul_add(simd.load(x), zero, sum);
    }
    simd.sum(sum) == 0.0 && vectors.remainder().iter().all(|x| x.is_finite())
}
