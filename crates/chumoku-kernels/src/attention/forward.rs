//! The forward pass: blocks of queries against blocks of keys.
//!
//! A unit of work is a run of query blocks that share a head of keys. It goes through the keys block by block: each is
//! packed once, and every query block that sees it multiplies (scores = Q Kᵀ), turns its rows of scores into weights
//! ([`super::softmax`]), and adds weights · V to its sums. Nothing that a row of the result depends on depends on which
//! unit or block it falls into.

use super::blocks::{Block, Unit, units};
use super::engine::{Engine, GRAIN, KEYS, STRIDE, Task};
use super::rows::Rows;
use super::softmax::{BOUND, Between, Job, Row, Running, bounded_block};
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
        let mut work = Workspace::default();
        for unit in self.units {
            self.unit(engine, unit, &mut work);
        }
    }
}

/// What one unit after another uses.
#[derive(Default)]
struct Workspace {
    blocks: Vec<Block>,
    states: Vec<Running>,
    /// Queries whose result the plain version computes: what they see is not finite.
    is_bad: Vec<bool>,
    bad_keys: Vec<usize>,
    kept: Vec<u16>,
}

impl<T: Narrow> Piece<'_, T> {
    #[inline(always)]
    fn unit<E: Engine>(&self, engine: E, unit: &Unit, work: &mut Workspace) {
        let Workspace { blocks, states, is_bad, bad_keys, kept } = work;
        let (args, simd) = (self.args, engine.simd());
        let (dim, value_dim) = (args.query.dim(), args.value.dim());
        let cols = value_dim.next_multiple_of(GRAIN);
        unit.blocks_into(args, E::QUERIES, blocks);
        let rows = blocks.len() * E::QUERIES;
        let weights_size = if E::PACKS_WEIGHTS { E::left_size(KEYS) } else { 0 };
        let mut scratch = Scratch::take();
        let [queries, keys, values, weights, scores, sums, part, staged, squares, bounds] = scratch.split([
            blocks.len() * E::left_size(dim),
            E::keys_size(dim),
            E::values_size(value_dim),
            2 * weights_size,
            2 * E::QUERIES * STRIDE * 4,
            rows * cols * 4,
            E::QUERIES * cols * 4,
            KEYS * dim.max(value_dim) * 4,
            KEYS * 4,
            rows * 4,
        ]);
        let [staged, squares, bounds] = [staged, squares, bounds].map(Buffer::into_f32);
        let [sums, part] = [sums, part].map(|buffer| buffer.pointer().cast::<f32>());
        let [queries, keys, values, scores] = [queries, keys, values, scores].map(|buffer| buffer.pointer());
        // An engine that does not pack weights has them written over the scores.
        let weights = if E::PACKS_WEIGHTS { weights.pointer() } else { scores };
        // Two of each: while one block is in the softmax, products of its neighbours are computed.
        let weights =
            [weights, weights.wrapping_add(if E::PACKS_WEIGHTS { weights_size } else { E::QUERIES * STRIDE * 4 })];
        let scores = [scores.cast::<f32>(), scores.cast::<f32>().wrapping_add(E::QUERIES * STRIDE)];
        states.clear();
        states.resize(rows, Running::NEW);
        is_bad.clear();
        is_bad.resize(rows, false);

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
            let matrix = source.stage(engine, staged, &mut squares[..block.count], |i| is_bad[at + i] = true);
            // SAFETY: the matrix lives in `staged` or in the query; `queries` has room for every block.
            unsafe { engine.pack_left(matrix, queries.add(b * E::left_size(dim))) };
            for (bound, square) in bounds[at..].iter_mut().zip(&squares[..block.count]) {
                *bound = square.sqrt() * factor.abs();
            }
        }
        let transform = Transform::new(args);
        let keep = args.dropout.map(|dropout| Keep::new(dropout.rate, dropout.random));
        kept.resize(if keep.is_some() { E::QUERIES * KEYS / 16 } else { 0 }, 0);
        let seen = unit.keys(blocks);
        for first_key in (seen.start / KEYS * KEYS..seen.end).step_by(KEYS) {
            let count = KEYS.min(seen.end - first_key);
            let source =
                Rows { from: args.value, sequence: unit.sequence, head: unit.key_head, first: first_key, count };
            bad_keys.clear();
            let matrix = source.stage(engine, staged, &mut squares[..count], |j| bad_keys.push(first_key + j));
            // SAFETY: as above; there are no more than KEYS rows.
            unsafe { engine.pack_values(matrix, values) };
            let source = Rows { from: args.key, ..source };
            let matrix = source.stage(engine, staged, &mut squares[..count], |j| bad_keys.push(first_key + j));
            // SAFETY: as above.
            unsafe { engine.pack_keys(matrix, keys) };
            squares[..count].iter_mut().for_each(|square| *square = square.sqrt());
            squares[count..].fill(0.0);
            for (b, block) in blocks.iter().enumerate() {
                block.find_bad(args, unit.sequence, bad_keys, &mut is_bad[b * E::QUERIES..]);
            }
            let longest = largest(simd, squares);
            let products = |b: usize, (from, to): (usize, usize), out| Job::Scores {
                left: queries.wrapping_add(b * E::left_size(dim)),
                keys,
                depth: dim,
                from,
                to,
                out,
            };
            // The product with V of the block before this one, and whether this block's scores are there already.
            let mut pending: Option<Job> = None;
            let mut is_ready = false;
            let mut turn = 0;
            for (b, block) in blocks.iter().enumerate() {
                let Some((from, to)) = block.columns(first_key, count) else {
                    is_ready = false;
                    continue;
                };
                let ([scores, next_scores], weights) = ([scores[turn], scores[1 - turn]], weights[turn]);
                turn = 1 - turn;
                if !is_ready {
                    // SAFETY: all were packed; the columns are inside the block.
                    unsafe { engine.scores(queries.add(b * E::left_size(dim)), keys, dim, from, to, scores) };
                }
                if let Some(keep) = &keep {
                    block.kept(args, unit.sequence, keep, first_key, from, to, kept);
                }
                let at = b * E::QUERIES;
                let of_block = at..at + block.count;
                let starts = block.starts(first_key);
                let out = sums.wrapping_add(at * cols);
                let weigh = Job::Weigh { weights, from, to, values, part, out, cols, accumulate: !starts };
                let is_plain = transform.is_none()
                    && keep.is_none()
                    && bounds[of_block.clone()].iter().all(|bound| bound * longest <= BOUND)
                    && states[of_block.clone()].iter().all(|state| !state.follows);
                if is_plain
                    && let Some(span) = block.common_span(first_key, from, to)
                    && span.first_seen <= from
                {
                    let next = blocks.get(b + 1).and_then(|block| block.columns(first_key, count));
                    is_ready = next.is_some();
                    // First the product of the block before, whose weights may lie where the next scores go.
                    let jobs = [pending.take(), next.map(|next| products(b + 1, next, next_scores))];
                    // SAFETY: the scores were computed up to `to`; the jobs read what was packed, and write to the
                    // scores of the next block and the sums of the one before.
                    unsafe {
                        let between = Between::new(engine, jobs);
                        bounded_block(engine, scores, span, factor, &mut states[of_block], weights, between);
                    }
                    pending = Some(weigh);
                    continue;
                }
                is_ready = false;
                if let Some(weigh) = pending.take() {
                    // SAFETY: weights and values were packed up to `to`; the sums have QUERIES rows; so below.
                    unsafe { weigh.run(engine, 0..cols / GRAIN) };
                }
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
                        Some(factor) if factor != 1.0 && !starts => {
                            // SAFETY: the row of the sums is inside them, and no other reference to it.
                            scale(simd, factor, unsafe { std::slice::from_raw_parts_mut(out.add(i * cols), cols) });
                        }
                        _ => {}
                    }
                }
                // SAFETY: as above.
                unsafe { weigh.run(engine, 0..cols / GRAIN) };
            }
            if let Some(weigh) = pending {
                // SAFETY: as above.
                unsafe { weigh.run(engine, 0..cols / GRAIN) };
            }
        }
        let dropped = keep.map_or(1.0, |keep| keep.factor());
        for (b, block) in blocks.iter().enumerate() {
            for first in (0..block.count).step_by(16) {
                let at = b * E::QUERIES + first;
                let totals: [_; 16] = std::array::from_fn(|i| simd.load(&states[at + i].totals));
                let totals = simd.sums(&totals);
                for (i, &total) in totals.iter().enumerate().take(block.count - first) {
                    let place = (unit.sequence, block.head, block.first + first + i);
                    // SAFETY: the row of the sums is inside them, and no other reference to it.
                    let sums = unsafe { std::slice::from_raw_parts_mut(sums.add((at + i) * cols), value_dim) };
                    self.finish(simd, place, &states[at + i], total, is_bad[at + i], dropped, sums);
                }
            }
        }
    }

    /// Divides the sums of a query by the total of its weights, and writes the result.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn finish<S: Simd>(
        &self,
        simd: S,
        (s, h, i): (usize, usize, usize),
        state: &Running,
        total: f32,
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
        let is_finite = scale(simd, (f64::from(dropped) * rescale / whole) as f32, sums);
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
fn scale<S: Simd>(simd: S, factor: f32, x: &mut [f32]) -> bool {
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

/// The largest of some whole vectors of numbers, at least 0.
#[inline(always)]
fn largest<S: Simd>(simd: S, x: &[f32]) -> f32 {
    let mut largest = simd.splat(0.0);
    for x in x.chunks_exact(S::LANES) {
        largest = simd.max(simd.load(x), largest);
    }
    simd.largest(largest)
}
