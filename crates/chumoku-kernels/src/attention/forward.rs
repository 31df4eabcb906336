//! The forward pass: blocks of queries against blocks of keys.
//!
//! A unit of work is a run of query blocks that share a head of keys. It goes through the keys block by block: each is
//! packed once, and every query block that sees it multiplies (scores = Q Kᵀ), turns its rows of scores into weights
//! ([`super::softmax`]), and adds weights · V to its sums. Nothing that a row of the result depends on depends on which
//! unit or block it falls into.

use super::blocks::{Block, Unit, units};
use super::decode::decode;
use super::engine::{Engine, GRAIN, KEYS, STRIDE, Task};
use super::engines::on_engine;
use super::finish::{Results, scale};
use super::problem::{Attention, Forward};
use super::rows::Rows;
use super::softmax::{BOUND, Between, Job, Row, Running, SAFE_BOUND, bounded_block, is_bounded};
use super::transform::Transform;
use crate::dropout::Keep;
use crate::element::{Element, Narrow};
use crate::isa::Simd;
use crate::memory::{Buffer, Scratch};
use crate::threads::for_each;

/// Attention of f32, forward; arguments have been checked.
pub(super) fn f32(args: &Attention<f32>, results: Forward<f32>) {
    forward(args, results);
}

/// As [`f32`], of bf16.
pub(super) fn bf16(args: &Attention<half::bf16>, results: Forward<half::bf16>) {
    forward(args, results);
}

/// As [`f32`], of f16.
pub(super) fn f16(args: &Attention<half::f16>, results: Forward<half::f16>) {
    forward(args, results);
}

fn forward<T: Narrow>(args: &Attention<T>, results: Forward<T>) {
    let results = &Results::new(args, results);
    let (units, per_piece) = units(args);
    for_each(units.len().div_ceil(per_piece), args.work(), |piece| {
        let units = &units[piece * per_piece..units.len().min((piece + 1) * per_piece)];
        on_engine(args, Piece { args, units, results });
    });
    decode(results);
}

/// Blocks of a unit, and the width of its rows, up to which [`Rows::stage`] without checks is faster. (Checking also
/// brings wider rows into the cache in order.)
const FEW: usize = 4;
const NARROW: usize = 64;

struct Piece<'a, T: Element> {
    args: &'a Attention<'a, T>,
    units: &'a [Unit],
    results: &'a Results<'a, T>,
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

        let transform = Transform::new(args);
        let keep = args.dropout.map(|dropout| Keep::new(dropout.rate, dropout.random));
        kept.resize(if keep.is_some() { E::QUERIES * KEYS / 16 } else { 0 }, 0);
        let seen = unit.keys(blocks);
        // Where every query sees every key, what is not finite reaches all results and shows there; and for a few blocks
        // bounds cost more than looking at the scores.
        let is_open = E::PACKS_WEIGHTS
            && blocks.len() <= FEW
            && dim.max(value_dim) <= NARROW
            && transform.is_none()
            && keep.is_none()
            && blocks.iter().all(|block| block.range(0) == seen && block.range(block.count - 1) == seen);
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
            let squares = &mut squares[..block.count];
            let matrix = source.stage(engine, !is_open, staged, squares, |i| is_bad[at + i] = true);
            // SAFETY: the matrix lives in `staged` or in the query; `queries` has room for every block.
            unsafe { engine.pack_left(matrix, queries.add(b * E::left_size(dim))) };
            for (bound, square) in bounds[at..].iter_mut().zip(squares) {
                *bound = square.sqrt() * factor.abs();
            }
        }
        for first_key in (seen.start / KEYS * KEYS..seen.end).step_by(KEYS) {
            let count = KEYS.min(seen.end - first_key);
            let source =
                Rows { from: args.value, sequence: unit.sequence, head: unit.key_head, first: first_key, count };
            bad_keys.clear();
            let first = &mut squares[..count];
            let matrix = source.stage(engine, !is_open, staged, first, |j| bad_keys.push(first_key + j));
            // SAFETY: the matrix lives in `staged` or in the values and has at most KEYS rows; `values` has room for them.
            unsafe { engine.pack_values(matrix, values) };
            let source = Rows { from: args.key, ..source };
            let matrix = source.stage(engine, !is_open, staged, first, |j| bad_keys.push(first_key + j));
            // SAFETY: the matrix lives in `staged` or in the keys and has at most KEYS rows; `keys` has room for them.
            unsafe { engine.pack_keys(matrix, keys) };
            let mut longest = 0.0;
            if !is_open {
                squares[..count].iter_mut().for_each(|square| *square = square.sqrt());
                squares[count..].fill(0.0);
                longest = largest(simd, squares);
                for (b, block) in blocks.iter().enumerate() {
                    block.find_bad(args, unit.sequence, bad_keys, &mut is_bad[b * E::QUERIES..]);
                }
            }
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
                    && bounds[of_block.clone()].iter().all(|bound| bound * longest <= SAFE_BOUND)
                    && states[of_block.clone()].iter().all(|state| !state.follows);
                if is_plain
                    && let Some(span) = block.common_span(first_key, from, to)
                    && span.first_seen <= from
                    // SAFETY: the scores of the block were computed in these columns.
                    && (!is_open || unsafe { is_bounded(simd, scores, block.count, span, factor) })
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
                    // SAFETY: weights and values of the block before were packed up to its `to`; its sums, and `part`, have
                    // QUERIES rows of `cols`.
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
                    // SAFETY, for each call of `row` below: the scores are row `i` of a block of QUERIES rows, the weights
                    // a block of this engine, and no job is under way; the columns are grains of the block.
                    if span.first_seen >= span.end_seen {
                        // SAFETY: see above: the row is as `Row` asks.
                        unsafe { row.nothing() };
                        continue;
                    }
                    let rescale = if let Some(transform) = &transform {
                        let place = (unit.sequence, block.head, block.first + i);
                        // SAFETY: the row has STRIDE scores, and no other reference to them.
                        let line = unsafe { std::slice::from_raw_parts_mut(line, STRIDE) };
                        transform.apply(simd, args, place, first_key, span, line);
                        row.factor = 1.0;
                        // SAFETY: see above: the row is as `Row` asks, and `line` is used no more.
                        unsafe { row.following::<true>(state) }
                    } else {
                        let mut is_small = !is_open && bounds[at] * longest <= SAFE_BOUND;
                        if !is_small && (is_open || !state.follows) {
                            // Not so where a score is not finite.
                            // SAFETY: see above: the row is as `Row` asks.
                            is_small = unsafe { row.extreme() } * factor.abs() <= BOUND;
                        }
                        if is_small && !state.follows {
                            // SAFETY: see above: the row is as `Row` asks.
                            unsafe { row.bounded(state) };
                            continue;
                        }
                        // SAFETY: see above: the row is as `Row` asks.
                        unsafe { row.following::<false>(state) }
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
                // SAFETY: every row of weights was just written up to `to`, and the values were packed; the sums of the
                // block, and `part`, have QUERIES rows of `cols`.
                unsafe { weigh.run(engine, 0..cols / GRAIN) };
            }
            if let Some(weigh) = pending {
                // SAFETY: weights and values of the last block were packed up to its `to`; its sums, and `part`, have
                // QUERIES rows of `cols`.
                unsafe { weigh.run(engine, 0..cols / GRAIN) };
            }
        }
        let dropped = keep.map_or(1.0, |keep| keep.factor());
        for (b, block) in blocks.iter().enumerate() {
            for first in (0..block.count).step_by(16) {
                let at = b * E::QUERIES + first;
                let totals: [_; 16] = std::array::from_fn(|i| simd.load(&states[at + i].totals));
                let totals = simd.sums(&totals);
                let count = 16.min(block.count - first);
                let place = (unit.sequence, block.head, block.first + first);
                // SAFETY: the rows of the sums are inside them, `cols` apart; the queries are in this unit alone.
                let is_done = !is_bad[at..at + count].contains(&true)
                    && unsafe {
                        let (states, sums) = (&states[at..at + count], sums.add(at * cols));
                        self.results.finish_plain(simd, place, states, &totals, dropped, sums, cols)
                    };
                if is_done {
                    continue;
                }
                for (i, &total) in totals.iter().enumerate().take(count) {
                    let place = (unit.sequence, block.head, block.first + first + i);
                    // SAFETY: the row of the sums is inside them, and no other reference to it.
                    let sums = unsafe { std::slice::from_raw_parts_mut(sums.add((at + i) * cols), value_dim) };
                    // SAFETY: the query is in this unit alone, and the unit in this task.
                    unsafe { self.results.finish(simd, place, &states[at + i], total, is_bad[at + i], dropped, sums) };
                }
            }
        }
    }
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
