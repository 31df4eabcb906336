//! The forward pass: `O = softmax(scale · Q Kᵀ) V`, in blocks, so that no array of all scores exists.
//!
//! # Stages
//!
//! A unit of work is a run of query blocks that share a head of keys. It goes through the stages in the paper's order, the
//! middle ones for each block of keys anew:
//!
//! | stage | what is computed | where |
//! |---|---|---|
//! | pack | Q, once; K and V, a block at a time, as the engine reads them | [`UnitForward::pack_queries`], [`UnitForward::pack_keys`] |
//! | scores | `S = Q Kᵀ` | [`Scores::multiply`](super::operands::Scores::multiply) |
//! | softmax | `P = 2^(scale · log₂ e · S − shift)`, and the sum of each row | [`Softmax`], with [`super::softmax`] |
//! | weigh | `O += P V` | [`ValueProduct::run`], with [`QuerySums::add`] |
//! | finish | `O / rowsum(P)`, and log-sum-exp | [`UnitForward::finish`], with [`super::finish`] |
//!
//! # Schedule
//!
//! In tiles, products and softmax run on different parts of the processor. For one block of keys, while the rows of one query
//! block are in the softmax, the products of its neighbours are computed between them ([`Between`]): the block before is
//! weighed, then the scores of the next are made. Two rooms hold scores and weights, by turns; a room that is weighed takes
//! the next scores at once.
//!
//! ```text
//! time →          ┌───────────────┬───────────────┬───────────────┬───────────────┐
//! softmax         │    block 0    │    block 1    │    block 2    │    block 3    │
//! products  S 0   │      S 1      │  PV 0    S 2  │  PV 1    S 3  │  PV 2         │  PV 3
//!                 └───────────────┴───────────────┴───────────────┴───────────────┘
//! room A    ← S 0 │  S 0  →  P 0  │  P 0 │ ← S 2  │  S 2  →  P 2  │  P 2          │
//! room B          │        ← S 1  │  S 1  →  P 1  │  P 1 │ ← S 3  │  S 3  →  P 3  │  P 3
//! ```
//!
//! This is so for blocks whose scores are known to be small and whose queries see the same keys. The rows of another block
//! are softened one by one, with no product between them: what waits is weighed before, and the block itself right after.
//! Nothing that a row of the result depends on depends on this, nor on which unit or block the row falls into.

use super::any::AnyAttention;
use super::blocks::{QueryBlock, Unit, units};
use super::decode::decode;
use super::engine::{BlockTask, Columns, Engine, EngineOp, KEYS, Span};
use super::engines::on_engine;
use super::finish::{Results, scale};
use super::operands::{Left, QuerySums, Right, RightTransposed, Room};
use super::problem::{Attention, Forward};
use super::reference;
use super::rows::SourceRows;
use super::softmax::{BOUND, Meanwhile, Running, SAFE_BOUND, SoftmaxRow, bounded_block, is_bounded};
use super::transform::{ScoreUnit, Transform};
use crate::dropout::Keep;
use crate::isa::{Lanes, Simd};
use crate::memory::{Buffer, Scratch};
use crate::narrow::Narrow;
use crate::threads::for_each;
use std::ops::Range;

/// Attention of f32, forward; arguments have been checked.
pub(super) fn f32(args: &Attention<f32>, results: Forward<f32>) {
    forward(args, results);
}

/// As [`f32()`], of bf16.
pub(super) fn bf16(args: &Attention<half::bf16>, results: Forward<half::bf16>) {
    forward(args, results);
}

/// As [`f32()`], of f16.
pub(super) fn f16(args: &Attention<half::f16>, results: Forward<half::f16>) {
    forward(args, results);
}

fn forward<T: Narrow>(args: &Attention<T>, results: Forward<T>) {
    let plain = |s, h, i| reference::attention_row(args, s, h, i);
    pass(&Results::new(&AnyAttention::new(args), results, &plain));
}

/// The pass over numbers of any type.
fn pass(results: &Results) {
    let args = results.args;
    let (units, per_piece) = units(args);
    for_each(units.len().div_ceil(per_piece), args.work(), |piece| {
        let units = &units[piece * per_piece..units.len().min((piece + 1) * per_piece)];
        on_engine(args, Piece { args, units, results });
    });
    decode(results);
}

/// Blocks of a unit, and the width of its rows, up to which [`SourceRows::stage`] without checks is faster. (Checking also
/// brings wider rows into the cache in order.)
const FEW: usize = 4;
const NARROW: usize = 64;

struct Piece<'a> {
    args: &'a AnyAttention<'a>,
    units: &'a [Unit],
    results: &'a Results<'a>,
}

impl EngineOp for Piece<'_> {
    #[inline(always)]
    fn eval<E: Engine>(self, engine: E) {
        let mut work = Workspace::default();
        for unit in self.units {
            unit.blocks_into(self.args, E::QUERIES, &mut work.blocks);
            let mut scratch = Scratch::take();
            let mut pass = UnitForward::new(engine, self.args, unit, &mut work, &mut scratch);
            pass.pack_queries();
            for keys in pass.seen() {
                let longest = pass.pack_keys(&keys);
                pass.attend(&keys, longest);
            }
            pass.finish(self.results);
        }
    }
}

/// What one unit after another uses.
#[derive(Default)]
struct Workspace {
    blocks: Vec<QueryBlock>,
    states: Vec<Running>,
    is_bad: Vec<bool>,
    bad_keys: Vec<usize>,
    kept: Vec<u16>,
}

/// A unit on its way through the stages.
struct UnitForward<'a, E> {
    engine: E,
    args: &'a AnyAttention<'a>,
    unit: &'a Unit,
    blocks: &'a [QueryBlock],
    softmax: Softmax<'a>,
    /// All query blocks.
    queries: Left<'a, E>,
    /// The block of keys at hand.
    keys: RightTransposed<'a, E>,
    /// Its values.
    values: Right<'a, E>,
    /// Scores and weights of two query blocks with these keys.
    rooms: [Room<'a, E>; 2],
    /// `Σ P V` of all queries.
    sums: QuerySums<'a, E>,
    /// Rows that the engine cannot read where they lie.
    staged: &'a mut [f32],
    /// Sums of squares of the block of rows at hand, of [`KEYS`] at most.
    squares: &'a mut [f32],
    bad_keys: &'a mut Vec<usize>,
}

impl<'a, E: Engine> UnitForward<'a, E> {
    /// Takes working memory for a unit, whose blocks are in `work`.
    #[inline(always)]
    fn new(
        engine: E,
        args: &'a AnyAttention<'a>,
        unit: &'a Unit,
        work: &'a mut Workspace,
        scratch: &'a mut Scratch,
    ) -> Self {
        let Workspace { blocks, states, is_bad, bad_keys, kept } = work;
        let (dim, value_dim) = (args.query.dim(), args.value.dim());
        let rows = blocks.len() * E::QUERIES;
        let [scores_size, weights_size] = Room::<E>::sizes();
        let [queries, keys, values, scores, weights, next_scores, next_weights, sums, part, staged, squares, bounds] =
            scratch.split([
                Left::<E>::size(blocks.len(), dim),
                RightTransposed::<E>::size(dim),
                Right::<E>::size(value_dim),
                scores_size,
                weights_size,
                scores_size,
                weights_size,
                QuerySums::<E>::size(blocks.len(), value_dim),
                QuerySums::<E>::size(1, value_dim),
                KEYS * dim.max(value_dim) * 4,
                KEYS * 4,
                rows * 4,
            ]);
        states.clear();
        states.resize(rows, Running::NEW);
        is_bad.clear();
        is_bad.resize(rows, false);
        let keep = args.dropout.map(|dropout| Keep::new(dropout.rate, dropout.random));
        kept.resize(if keep.is_some() { E::QUERIES * KEYS / 16 } else { 0 }, 0);
        let transform = Transform::new(args);
        let seen = unit.keys(blocks);
        // Where every query sees every key, what is not finite reaches all results and shows there; and for a few blocks
        // bounds cost more than looking at the scores.
        let is_open = E::PACKS_WEIGHTS
            && blocks.len() <= FEW
            && dim.max(value_dim) <= NARROW
            && transform.is_none()
            && keep.is_none()
            && blocks.iter().all(|block| block.range(0) == seen && block.range(block.count - 1) == seen);
        let scale_log2 = ScoreUnit::new(args).scale_log2;
        let [staged, squares, bounds] = [staged, squares, bounds].map(Buffer::into_f32);
        UnitForward {
            engine,
            args,
            unit,
            blocks,
            softmax: Softmax { args, unit, transform, keep, scale_log2, is_open, states, is_bad, bounds, kept },
            queries: Left::new(queries, dim),
            keys: RightTransposed::new(keys, dim),
            values: Right::new(values, value_dim),
            rooms: [Room::new([scores, weights]), Room::new([next_scores, next_weights])],
            sums: QuerySums::by_parts(sums, part, value_dim),
            staged,
            squares,
            bad_keys,
        }
    }

    /// The blocks of keys that some query sees.
    #[inline(always)]
    fn seen(&self) -> impl Iterator<Item = Range<usize>> + use<E> {
        let seen = self.unit.keys(self.blocks);
        (seen.start / KEYS * KEYS..seen.end).step_by(KEYS).map(move |first| first..seen.end.min(first + KEYS))
    }

    /// Packs all queries, and finds a bound on the scores of each: `|scale · log₂ e| · |q|`, to be multiplied with `|k|`.
    ///
    /// # Shapes
    /// Rows of a head, (queries of the block, dim), into (blocks, [`Engine::QUERIES`], dim).
    #[inline(always)]
    fn pack_queries(&mut self) {
        let Softmax { is_open, scale_log2, is_bad, bounds, .. } = &mut self.softmax;
        for (b, block) in self.blocks.iter().enumerate() {
            let at = b * E::QUERIES;
            let source = SourceRows {
                from: self.args.query,
                sequence: self.unit.sequence,
                head: block.head,
                first: block.first,
                count: block.count,
            };
            let squares = &mut self.squares[..block.count];
            let rows = source.stage(self.engine, !*is_open, self.staged, squares, &mut |i| is_bad[at + i] = true);
            self.queries.pack(self.engine, b, rows);
            for (bound, square) in bounds[at..].iter_mut().zip(squares) {
                *bound = length(*square, self.args.query.dim()) * scale_log2.abs();
            }
        }
    }

    /// Packs a block of keys and their values, and marks the queries that see one that is not finite. Returns the length
    /// `|k|` of the longest key, or 0 where scores are looked at instead.
    ///
    /// # Shapes
    /// Rows of the head of keys, (keys, dim) and (keys, value dim), into ([`KEYS`], dim) and ([`KEYS`], value dim).
    #[inline(always)]
    fn pack_keys(&mut self, keys: &Range<usize>) -> f32 {
        let (engine, args, checks) = (self.engine, self.args, !self.softmax.is_open);
        let (sequence, head) = (self.unit.sequence, self.unit.key_head);
        let bad_keys = &mut *self.bad_keys;
        bad_keys.clear();
        let squares = &mut self.squares[..keys.len()];
        let source = SourceRows { from: args.value, sequence, head, first: keys.start, count: keys.len() };
        let rows = source.stage(engine, checks, self.staged, squares, &mut |j| bad_keys.push(keys.start + j));
        self.values.pack(engine, rows);
        let source = SourceRows { from: args.key, ..source };
        let rows = source.stage(engine, checks, self.staged, squares, &mut |j| bad_keys.push(keys.start + j));
        self.keys.pack(engine, rows);
        if !checks {
            return 0.0;
        }
        squares.iter_mut().for_each(|square| *square = length(*square, args.key.dim()));
        self.squares[keys.len()..].fill(0.0);
        for (b, block) in self.blocks.iter().enumerate() {
            block.find_bad(args, sequence, bad_keys, &mut self.softmax.is_bad[b * E::QUERIES..]);
        }
        largest(engine.simd(), self.squares)
    }

    /// All queries against the block of keys that is packed: scores, softmax and weighing, as the schedule above has it.
    #[inline(always)]
    fn attend(&mut self, keys: &Range<usize>, longest: f32) {
        let UnitForward { engine, blocks, softmax, queries, keys: packed_keys, values, rooms: [a, b], sums, .. } = self;
        let (engine, packed_keys, values, queries) = (*engine, &*packed_keys, &*values, &*queries);
        // The room of the block at hand, and that of the one before and the next.
        let (mut room, mut other) = (a, b);
        // What is to be done with the weights in the other room, and whether there are scores in this one already.
        let mut waiting: Option<ValueProduct> = None;
        let mut is_ready = false;
        for (b, block) in blocks.iter().enumerate() {
            let Some(columns) = block.columns(keys) else {
                is_ready = false;
                continue;
            };
            if !is_ready {
                room.scores.multiply(engine, queries, (b, block.count), packed_keys, columns);
            }
            softmax.draw(engine.simd(), block, keys.start, columns);
            let weigh = ValueProduct { block: (b, block.count), columns, accumulate: !block.starts(keys.start) };
            if let Some(span) = softmax.plain_span(engine, b, block, room, keys.start, columns, longest) {
                let next = blocks.get(b + 1).and_then(|block| Some((block.count, block.columns(keys)?)));
                is_ready = next.is_some();
                let scores = next.map(|(rows, columns)| ScoreProduct { block: (b + 1, rows), columns });
                let between =
                    Between::new(engine, waiting.take(), scores, queries, packed_keys, values, &mut *other, &mut *sums);
                let states = &mut softmax.states[b * E::QUERIES..][..block.count];
                bounded_block(engine, room, span, softmax.scale_log2, states, between);
                waiting = Some(weigh);
            } else {
                is_ready = false;
                if let Some(before) = waiting.take() {
                    before.run(engine, other, values, sums);
                }
                let first_key = keys.start;
                engine.run(Rows { softmax, b, block, room, first_key, columns, longest, sums, weigh });
                weigh.run(engine, room, values, sums);
            }
            std::mem::swap(&mut room, &mut other);
        }
        if let Some(last) = waiting {
            last.run(engine, other, values, sums);
        }
    }

    /// Divides the sums of all queries by the totals of their weights, and writes outputs and log-sum-exp.
    ///
    /// # Shapes
    /// Sums (blocks · [`Engine::QUERIES`], value dim) into rows of a head, (queries of the block, value dim).
    #[inline(always)]
    fn finish(&mut self, results: &Results) {
        let (simd, value_dim, cols) = (self.engine.simd(), self.args.value.dim(), self.sums.cols());
        let Softmax { states, is_bad, keep, .. } = &self.softmax;
        let dropout_factor = keep.map_or(1.0, |keep| keep.factor());
        for (b, block) in self.blocks.iter().enumerate() {
            for first in (0..block.count).step_by(16) {
                let at = b * E::QUERIES + first;
                // No closure: it would be compiled without the instruction set.
                let mut totals = [simd.splat(0.0); 16];
                for (total, state) in totals.iter_mut().zip(&states[at..at + 16]) {
                    *total = simd.load(&state.totals);
                }
                let totals = simd.sums(&totals);
                let count = 16.min(block.count - first);
                let of_these = at..at + count;
                let place = (self.unit.sequence, block.head, block.first + first);
                // SAFETY: these queries are in this unit alone, and the unit in this task.
                let is_done = !is_bad[of_these.clone()].contains(&true)
                    && unsafe {
                        let (states, sums) = (&states[of_these.clone()], self.sums.rows(at));
                        results.finish_plain(simd, place, states, &totals, dropout_factor, sums, cols)
                    };
                if is_done {
                    continue;
                }
                for (i, (row, total)) in of_these.zip(totals).enumerate() {
                    let place = (self.unit.sequence, block.head, block.first + first + i);
                    let sums = &mut self.sums.row_mut(row)[..value_dim];
                    // SAFETY: this query is in this unit alone, and the unit in this task.
                    unsafe { results.finish(simd, place, &states[row], total, is_bad[row], dropout_factor, sums) };
                }
            }
        }
    }
}

/// What the softmax of a unit's queries knows and gathers. Rows are those of all blocks, [`Engine::QUERIES`] of each.
struct Softmax<'a> {
    args: &'a AnyAttention<'a>,
    unit: &'a Unit,
    transform: Option<Transform>,
    keep: Option<Keep>,
    /// The factor that takes scores to units of log 2.
    scale_log2: f32,
    /// Whether scores are looked at instead of bounded, and nothing is checked.
    is_open: bool,
    /// (rows,)
    states: &'a mut [Running],
    /// Queries whose result the plain version computes: what they see is not finite. (rows,)
    is_bad: &'a mut [bool],
    /// What times the length of a key bounds the query's score with it. (rows,)
    bounds: &'a mut [f32],
    /// Which weights dropout keeps in the block of queries and keys at hand. ([`Engine::QUERIES`], [`KEYS`] bits)
    kept: &'a mut [u16],
}

impl Softmax<'_> {
    /// Draws which weights dropout keeps in a block.
    #[inline(always)]
    fn draw<S: Simd>(&mut self, simd: S, block: &QueryBlock, first_key: usize, columns: Columns) {
        if let Some(keep) = &self.keep {
            block.kept((simd, keep), self.args, self.unit.sequence, first_key, columns, self.kept);
        }
    }

    /// What all queries of a block see, if its weights are plain: relative to 0, with nothing between product and softmax, and
    /// all see the same, from the first column on.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn plain_span<E: Engine>(
        &self,
        engine: E,
        b: usize,
        block: &QueryBlock,
        room: &Room<'_, E>,
        first_key: usize,
        columns: Columns,
        longest: f32,
    ) -> Option<Span> {
        let of_block = b * E::QUERIES..b * E::QUERIES + block.count;
        let is_plain = self.transform.is_none()
            && self.keep.is_none()
            && self.bounds[of_block.clone()].iter().all(|bound| bound * longest <= SAFE_BOUND)
            && self.states[of_block].iter().all(|state| !state.follows);
        let span = if is_plain { block.common_span(first_key, columns)? } else { return None };
        let is_plain = span.first_seen() <= columns.from()
            && (!self.is_open || is_bounded(engine, &room.scores, block.count, span, self.scale_log2));
        is_plain.then_some(span)
    }

    /// Turns the scores of query `i` of a block into weights; returns what to multiply its earlier sums with.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn row<E: Engine>(
        &mut self,
        engine: E,
        b: usize,
        block: &QueryBlock,
        i: usize,
        room: &mut Room<'_, E>,
        first_key: usize,
        columns: Columns,
        longest: f32,
    ) -> f32 {
        let at = b * E::QUERIES + i;
        let span = block.span(i, first_key, columns);
        let state = &mut self.states[at];
        let kept = self.keep.map(|_| &self.kept[i * (KEYS / 16)..][..KEYS / 16]);
        let scale_log2 = self.scale_log2;
        if let Some(transform) = &self.transform
            && !span.is_empty()
        {
            let place = (self.unit.sequence, block.head, block.first + i);
            transform.apply(engine.simd(), self.args, place, first_key, span, room.scores.row_mut(i));
        }
        let mut row = SoftmaxRow { engine, line: room.line(i), span, scale_log2, kept };
        if span.is_empty() {
            row.nothing();
            return 1.0;
        }
        let rescale = if self.transform.is_some() {
            row.following::<true>(state)
        } else {
            let mut is_small = !self.is_open && self.bounds[at] * longest <= SAFE_BOUND;
            if !is_small && (self.is_open || !state.follows) {
                let extreme = row.extreme() * scale_log2.abs();
                self.is_bad[at] |= extreme.is_nan();
                is_small = extreme <= BOUND;
            }
            if is_small && !state.follows {
                row.bounded(state);
                return 1.0;
            }
            row.following::<false>(state)
        };
        self.is_bad[at] |= rescale.is_none();
        rescale.unwrap_or(1.0)
    }
}

/// The rows of a block, one by one, and what becomes of their earlier sums: a function of its own.
struct Rows<'a, 'b, E> {
    softmax: &'a mut Softmax<'b>,
    b: usize,
    block: &'a QueryBlock,
    room: &'a mut Room<'b, E>,
    first_key: usize,
    columns: Columns,
    longest: f32,
    sums: &'a mut QuerySums<'b, E>,
    /// What follows.
    weigh: ValueProduct,
}

impl<E: Engine> BlockTask<E> for Rows<'_, '_, E> {
    #[inline(always)]
    fn eval(self, engine: E) {
        let Rows { softmax, b, block, room, first_key, columns, longest, sums, weigh } = self;
        for i in 0..block.count {
            let rescale = softmax.row(engine, b, block, i, room, first_key, columns, longest);
            if rescale != 1.0 && weigh.accumulate {
                scale(engine.simd(), rescale, sums.row_mut(b * E::QUERIES + i));
            }
        }
    }
}

/// `O += P V` for a block whose weights are there, the product that is called weighing: it may wait.
#[derive(Clone, Copy, Debug)]
struct ValueProduct {
    /// And how many of its rows.
    block: (usize, usize),
    columns: Columns,
    accumulate: bool,
}

impl ValueProduct {
    /// All of it.
    #[inline(always)]
    fn run<E: Engine>(self, engine: E, room: &Room<'_, E>, values: &Right<'_, E>, sums: &mut QuerySums<'_, E>) {
        let panels = 0..sums.panels();
        sums.add(engine, self.block, room.weights(), self.columns, values, panels, self.accumulate);
    }
}

/// `S = Q Kᵀ` for a block: a product that may come early.
#[derive(Clone, Copy, Debug)]
struct ScoreProduct {
    /// And how many of its rows.
    block: (usize, usize),
    columns: Columns,
}

/// Products that are computed between rows of the softmax, panel by panel: the room of the block before is weighed, then
/// takes the scores of the next block.
struct Between<'a, 'b, E: Engine> {
    engine: E,
    weigh: Option<ValueProduct>,
    scores: Option<ScoreProduct>,
    queries: &'a Left<'b, E>,
    keys: &'a RightTransposed<'b, E>,
    values: &'a Right<'b, E>,
    room: &'a mut Room<'b, E>,
    sums: &'a mut QuerySums<'b, E>,
    /// Panels that are done, and all.
    done: usize,
    all: usize,
}

impl<'a, 'b, E: Engine> Between<'a, 'b, E> {
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn new(
        engine: E,
        weigh: Option<ValueProduct>,
        scores: Option<ScoreProduct>,
        queries: &'a Left<'b, E>,
        keys: &'a RightTransposed<'b, E>,
        values: &'a Right<'b, E>,
        room: &'a mut Room<'b, E>,
        sums: &'a mut QuerySums<'b, E>,
    ) -> Self {
        let all = weigh.map_or(0, |_| sums.panels()) + scores.map_or(0, |scores| scores.columns.grains());
        Between { engine, weigh, scores, queries, keys, values, room, sums, done: 0, all }
    }
}

impl<E: Engine> Meanwhile for Between<'_, '_, E> {
    #[inline(always)]
    fn advance(&mut self, row: usize, rows: usize) {
        while self.done * rows < self.all * row {
            let mut panel = self.done;
            self.done += 1;
            if let Some(ValueProduct { block, columns, accumulate }) = self.weigh {
                if panel < self.sums.panels() {
                    let (weights, panels) = (self.room.weights(), panel..panel + 1);
                    self.sums.add(self.engine, block, weights, columns, self.values, panels, accumulate);
                    continue;
                }
                panel -= self.sums.panels();
            }
            if let Some(ScoreProduct { block, columns }) = self.scores {
                let columns = columns.part(panel..panel + 1);
                self.room.scores.multiply(self.engine, self.queries, block, self.keys, columns);
            }
        }
    }
}

/// An upper bound on the length of a row, given the sum of its squares. Squares below the normal numbers may be missing.
#[inline(always)]
fn length(square: f32, dim: usize) -> f32 {
    (square + dim as f32 * f32::MIN_POSITIVE).sqrt()
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
