//! The forward pass `O = softmax(scale · Q Kᵀ) V` in blocks, so that the full score matrix never exists.
//!
//! # Stages
//!
//! A unit of work is a series of query blocks that share a head of keys. It goes through the stages in the order of the
//! paper. The middle stages are repeated for each block of keys:
//!
//! | stage | computes | where |
//! |---|---|---|
//! | pack | Q, once; K and V, one block at a time, in the layout of the engine | [`UnitForward::pack_queries`], [`UnitForward::pack_keys`] |
//! | scores | `S = Q Kᵀ` | [`ScoreBlock::qk_matmul`](super::operands::ScoreBlock::qk_matmul) |
//! | softmax | `P = 2^(scale · log₂ e · S − shift)`, and the sum of each row | [`UnitSoftmax`], with [`super::softmax`] |
//! | value product | `O += P V` | [`ValueProduct::run`], with [`QueryAccumulator::pv_matmul`] |
//! | finish | `O / rowsum(P)`, and log-sum-exp | [`UnitForward::finish`], with [`super::finish`] |
//!
//! # Algorithm
//!
//! ```text
//! pack Q;  O = 0, total = 0, shift = 0                   per query
//! for each block of keys j that some query sees:
//!     pack K_j, V_j
//!     for each query block i that sees a key of block j:
//!         S = Q_i K_jᵀ
//!         for each row of S:
//!             if |scale| · |q| · max |k| is small, keep shift = 0
//!             else raise shift to the running maximum of scale · log₂ e · S, rounded up,
//!                  and rescale O and total by 2^(old shift − new shift)
//!             P = 2^(scale · log₂ e · S − shift)            0 where masked
//!             total += rowsum(P)
//!         O_i += P V_j
//! O = O / total;  log-sum-exp = ln 2 · (shift + log₂ total)
//! ```
//!
//! # Schedule
//!
//! In tiles, products and softmax run on different parts of the processor. Within one block of keys, the products of
//! neighboring query blocks are therefore computed between the softmax rows of the current one
//! ([`InterleavedProducts`]). First the previous block is multiplied with V, then the scores of the next block are
//! computed. Two score tiles alternate: a tile that has been multiplied with V takes the next scores at once.
//!
//! ```text
//! time →          ┌───────────────┬───────────────┬───────────────┬───────────────┐
//! softmax         │    block 0    │    block 1    │    block 2    │    block 3    │
//! products  S 0   │      S 1      │  PV 0    S 2  │  PV 1    S 3  │  PV 2         │  PV 3
//!                 └───────────────┴───────────────┴───────────────┴───────────────┘
//! tile A    ← S 0 │  S 0  →  P 0  │  P 0 │ ← S 2  │  S 2  →  P 2  │  P 2          │
//! tile B          │        ← S 1  │  S 1  →  P 1  │  P 1 │ ← S 3  │  S 3  →  P 3  │  P 3
//! ```
//!
//! This schedule applies to blocks with small scores whose queries all see the same keys. The rows of any other block
//! go through softmax one at a time, without interleaved products. A pending value product runs before such a block,
//! and its own value product right after it. No result depends on the schedule, or on the unit or block that a row
//! belongs to.

use super::blocks::{QueryBlock, QueryUnit, units};
use super::decode::decode;
use super::engine::{Engine, EngineOp, EngineTask, KEY_BLOCK, KeyColumns, VisibleSpan};
use super::engine_choice::run_on_engine;
use super::finish::{ForwardResults, scale_in_place};
use super::heads::QueryIndex;
use super::operands::{PackedLhs, PackedRhs, PackedRhsTransposed, QueryAccumulator, ScoreTile};
use super::params::{Attention, ForwardOutputs};
use super::reference;
use super::softmax::{
    InterleavedWork, OnlineSoftmaxState, SAFE_SCORE_BOUND, SCORE_BOUND, SoftmaxRow, is_bounded, softmax_bounded_block,
};
use super::staging::SourceRows;
use super::transform::{ScoreTransform, ScoreUnit};
use super::type_erased::AnyAttention;
use crate::dropout::DropoutMask;
use crate::isa::{Simd, VectorMath};
use crate::low_precision::F32Compute;
use crate::memory::{Scratch, ScratchBuffer};
use crate::threads::for_each;
use std::ops::Range;

/// Forward pass of f32 attention. The caller has checked the arguments.
pub(super) fn f32(args: &Attention<f32>, results: ForwardOutputs<f32>) {
    forward(args, results);
}

/// [`f32()`] for bf16.
pub(super) fn bf16(args: &Attention<half::bf16>, results: ForwardOutputs<half::bf16>) {
    forward(args, results);
}

/// [`f32()`] for f16.
pub(super) fn f16(args: &Attention<half::f16>, results: ForwardOutputs<half::f16>) {
    forward(args, results);
}

fn forward<T: F32Compute>(args: &Attention<T>, results: ForwardOutputs<T>) {
    let plain = |s, h, i| reference::attention_row(args, s, h, i);
    run(&ForwardResults::new(&AnyAttention::new(args), results, &plain));
}

/// Runs the pass for any dtype.
fn run(results: &ForwardResults) {
    let args = results.args;
    let (units, per_piece) = units(args);
    for_each(units.len().div_ceil(per_piece), args.multiply_adds(), |piece| {
        let units = &units[piece * per_piece..units.len().min((piece + 1) * per_piece)];
        run_on_engine(args, ForwardTask { args, units, results });
    });
    decode(results);
}

/// Up to this many blocks per unit, and this row width, [`SourceRows::stage`] is faster without checks. For wider rows,
/// checking also brings them into the cache in order.
const MAX_UNCHECKED_BLOCKS: usize = 4;
const MAX_UNCHECKED_WIDTH: usize = 64;

struct ForwardTask<'a> {
    args: &'a AnyAttention<'a>,
    units: &'a [QueryUnit],
    results: &'a ForwardResults<'a>,
}

impl EngineOp for ForwardTask<'_> {
    #[inline(always)]
    fn eval<E: Engine>(self, engine: E) {
        let mut work = Workspace::default();
        for unit in self.units {
            unit.blocks_into(self.args, E::QUERY_BLOCK, &mut work.blocks);
            let mut scratch = Scratch::take();
            let mut pass = UnitForward::new(engine, self.args, unit, &mut work, &mut scratch);
            pass.pack_queries();
            for keys in pass.key_blocks() {
                let max_key_norm = pass.pack_keys(&keys);
                pass.attend(&keys, max_key_norm);
            }
            pass.finish(self.results);
        }
    }
}

/// Buffers that are reused from one unit to the next.
#[derive(Default)]
struct Workspace {
    blocks: Vec<QueryBlock>,
    states: Vec<OnlineSoftmaxState>,
    is_nonfinite: Vec<bool>,
    nonfinite_keys: Vec<usize>,
    dropout_bits: Vec<u16>,
}

/// State of one unit as it goes through the stages.
struct UnitForward<'a, E> {
    engine: E,
    args: &'a AnyAttention<'a>,
    unit: &'a QueryUnit,
    blocks: &'a [QueryBlock],
    softmax: UnitSoftmax<'a>,
    /// All query blocks.
    queries: PackedLhs<'a, E>,
    /// The current block of keys.
    keys: PackedRhsTransposed<'a, E>,
    /// Its values.
    values: PackedRhs<'a, E>,
    /// Scores and weights of two query blocks with these keys.
    tiles: [ScoreTile<'a, E>; 2],
    /// `Σ P V` of all queries.
    output: QueryAccumulator<'a, E>,
    /// Converted rows, for rows that the engine cannot read in place.
    staged: &'a mut [f32],
    /// Sums of squares of the current rows, at most [`KEY_BLOCK`].
    squares: &'a mut [f32],
    nonfinite_keys: &'a mut Vec<usize>,
}

impl<'a, E: Engine> UnitForward<'a, E> {
    /// Allocates the scratch memory for a unit, whose blocks are in `work`.
    #[inline(always)]
    fn new(
        engine: E,
        args: &'a AnyAttention<'a>,
        unit: &'a QueryUnit,
        work: &'a mut Workspace,
        scratch: &'a mut Scratch,
    ) -> Self {
        let Workspace { blocks, states, is_nonfinite, nonfinite_keys, dropout_bits } = work;
        let (dim, value_dim) = (args.query.dim(), args.value.dim());
        let rows = blocks.len() * E::QUERY_BLOCK;
        let [scores_size, weights_size] = ScoreTile::<E>::sizes();
        let [queries, keys, values, scores, weights, next_scores, next_weights, sums, part, staged, squares, bounds] =
            scratch.split([
                PackedLhs::<E>::size(blocks.len(), dim),
                PackedRhsTransposed::<E>::size(dim),
                PackedRhs::<E>::size(value_dim),
                scores_size,
                weights_size,
                scores_size,
                weights_size,
                QueryAccumulator::<E>::size(blocks.len(), value_dim),
                QueryAccumulator::<E>::size(1, value_dim),
                KEY_BLOCK * dim.max(value_dim) * 4,
                KEY_BLOCK * 4,
                rows * 4,
            ]);
        states.clear();
        states.resize(rows, OnlineSoftmaxState::INITIAL);
        is_nonfinite.clear();
        is_nonfinite.resize(rows, false);
        let dropout_mask = args.dropout.map(|dropout| DropoutMask::new(dropout.rate, dropout.random));
        dropout_bits.resize(if dropout_mask.is_some() { E::QUERY_BLOCK * KEY_BLOCK / 16 } else { 0 }, 0);
        let transform = ScoreTransform::new(args);
        let visible = unit.visible_keys(blocks);
        // If every query sees every key, a non-finite value affects all results and is visible there. For a few blocks,
        // bounds cost more than checking the scores.
        let is_unchecked = E::PACKS_WEIGHTS
            && blocks.len() <= MAX_UNCHECKED_BLOCKS
            && dim.max(value_dim) <= MAX_UNCHECKED_WIDTH
            && transform.is_none()
            && dropout_mask.is_none()
            && blocks
                .iter()
                .all(|block| block.visible_keys_of(0) == visible && block.visible_keys_of(block.count - 1) == visible);
        let scale_log2 = ScoreUnit::new(args).scale_log2;
        let [staged, squares, bounds] = [staged, squares, bounds].map(ScratchBuffer::into_f32);
        UnitForward {
            engine,
            args,
            unit,
            blocks,
            softmax: UnitSoftmax {
                args,
                unit,
                transform,
                dropout_mask,
                scale_log2,
                is_unchecked,
                states,
                is_nonfinite,
                bounds,
                dropout_bits,
            },
            queries: PackedLhs::new(queries, dim),
            keys: PackedRhsTransposed::new(keys, dim),
            values: PackedRhs::new(values, value_dim),
            tiles: [ScoreTile::new([scores, weights]), ScoreTile::new([next_scores, next_weights])],
            output: QueryAccumulator::with_block_sums(sums, part, value_dim),
            staged,
            squares,
            nonfinite_keys,
        }
    }

    /// Iterates over the blocks of keys that some query sees.
    #[inline(always)]
    fn key_blocks(&self) -> impl Iterator<Item = Range<usize>> + use<E> {
        let visible = self.unit.visible_keys(self.blocks);
        (visible.start / KEY_BLOCK * KEY_BLOCK..visible.end)
            .step_by(KEY_BLOCK)
            .map(move |first| first..visible.end.min(first + KEY_BLOCK))
    }

    /// Packs all queries, and computes the factor `|scale · log₂ e| · |q|` of each. Times `|k|`, it bounds the score.
    ///
    /// # Shapes
    /// Rows of a head, (queries of the block, dim), into (blocks, [`Engine::QUERY_BLOCK`], dim).
    #[inline(always)]
    fn pack_queries(&mut self) {
        let UnitSoftmax { is_unchecked, scale_log2, is_nonfinite, bounds, .. } = &mut self.softmax;
        for (b, block) in self.blocks.iter().enumerate() {
            let at = b * E::QUERY_BLOCK;
            let source = SourceRows {
                from: self.args.query,
                sequence: self.unit.sequence,
                head: block.head,
                first: block.first,
                count: block.count,
            };
            let squares = &mut self.squares[..block.count];
            let rows =
                source.stage(self.engine, !*is_unchecked, self.staged, squares, &mut |i| is_nonfinite[at + i] = true);
            self.queries.pack(self.engine, b, rows);
            for (bound, square) in bounds[at..].iter_mut().zip(squares) {
                *bound = norm_bound(*square, self.args.query.dim()) * scale_log2.abs();
            }
        }
    }

    /// Packs a block of keys and their values, and marks the queries that see a non-finite row. Returns the largest key
    /// norm `|k|`, or 0 if scores are checked instead.
    ///
    /// # Shapes
    /// Rows of the head of keys, (keys, dim) and (keys, value dim), into ([`KEY_BLOCK`], dim) and ([`KEY_BLOCK`], value
    /// dim).
    #[inline(always)]
    fn pack_keys(&mut self, keys: &Range<usize>) -> f32 {
        let (engine, args, checks) = (self.engine, self.args, !self.softmax.is_unchecked);
        let (sequence, head) = (self.unit.sequence, self.unit.key_head);
        let nonfinite_keys = &mut *self.nonfinite_keys;
        nonfinite_keys.clear();
        let squares = &mut self.squares[..keys.len()];
        let source = SourceRows { from: args.value, sequence, head, first: keys.start, count: keys.len() };
        let rows = source.stage(engine, checks, self.staged, squares, &mut |j| nonfinite_keys.push(keys.start + j));
        self.values.pack(engine, rows);
        let source = SourceRows { from: args.key, ..source };
        let rows = source.stage(engine, checks, self.staged, squares, &mut |j| nonfinite_keys.push(keys.start + j));
        self.keys.pack(engine, rows);
        if !checks {
            return 0.0;
        }
        squares.iter_mut().for_each(|square| *square = norm_bound(*square, args.key.dim()));
        self.squares[keys.len()..].fill(0.0);
        for (b, block) in self.blocks.iter().enumerate() {
            block.mark_nonfinite(args, sequence, nonfinite_keys, &mut self.softmax.is_nonfinite[b * E::QUERY_BLOCK..]);
        }
        max_of(engine.simd(), self.squares)
    }

    /// Attends from all queries to the packed block of keys: scores, softmax and value product, in the schedule above.
    #[inline(always)]
    fn attend(&mut self, keys: &Range<usize>, max_key_norm: f32) {
        let UnitForward { engine, blocks, softmax, queries, keys: packed_keys, values, tiles: [a, b], output, .. } =
            self;
        let (engine, packed_keys, values, queries) = (*engine, &*packed_keys, &*values, &*queries);
        // The tile of the current block, and the tile of the previous and the next block.
        let (mut tile, mut other_tile) = (a, b);
        // The pending value product of the other tile, and whether this tile already holds scores.
        let mut pending: Option<ValueProduct> = None;
        let mut is_ready = false;
        for (b, block) in blocks.iter().enumerate() {
            let Some(columns) = block.columns(keys) else {
                is_ready = false;
                continue;
            };
            if !is_ready {
                tile.scores.qk_matmul(engine, queries, (b, block.count), packed_keys, columns);
            }
            softmax.draw_dropout(engine.simd(), block, keys.start, columns);
            let value_product =
                ValueProduct { block: (b, block.count), columns, accumulate: !block.is_first_key_block(keys.start) };
            if let Some(span) = softmax.bounded_span(engine, b, block, tile, keys.start, columns, max_key_norm) {
                let next = blocks.get(b + 1).and_then(|block| Some((block.count, block.columns(keys)?)));
                is_ready = next.is_some();
                let scores = next.map(|(rows, columns)| ScoreProduct { block: (b + 1, rows), columns });
                let interleaved = InterleavedProducts::new(
                    engine,
                    pending.take(),
                    scores,
                    queries,
                    packed_keys,
                    values,
                    &mut *other_tile,
                    &mut *output,
                );
                let states = &mut softmax.states[b * E::QUERY_BLOCK..][..block.count];
                softmax_bounded_block(engine, tile, span, softmax.scale_log2, states, interleaved);
                pending = Some(value_product);
            } else {
                is_ready = false;
                if let Some(previous) = pending.take() {
                    previous.run(engine, other_tile, values, output);
                }
                let first_key = keys.start;
                engine.run(SoftmaxRowsTask {
                    softmax,
                    b,
                    block,
                    tile,
                    first_key,
                    columns,
                    max_key_norm,
                    output,
                    value_product,
                });
                value_product.run(engine, tile, values, output);
            }
            std::mem::swap(&mut tile, &mut other_tile);
        }
        if let Some(last) = pending {
            last.run(engine, other_tile, values, output);
        }
    }

    /// Divides the sums of all queries by the totals of their weights, and writes outputs and log-sum-exp.
    ///
    /// # Shapes
    /// Sums (blocks · [`Engine::QUERY_BLOCK`], value dim) into rows of a head, (queries of the block, value dim).
    #[inline(always)]
    fn finish(&mut self, results: &ForwardResults) {
        let (simd, value_dim, cols) = (self.engine.simd(), self.args.value.dim(), self.output.cols());
        let UnitSoftmax { states, is_nonfinite, dropout_mask, .. } = &self.softmax;
        let dropout_factor = dropout_mask.map_or(1.0, |keep| keep.factor());
        for (b, block) in self.blocks.iter().enumerate() {
            for first in (0..block.count).step_by(16) {
                let at = b * E::QUERY_BLOCK + first;
                // No closure: it would be compiled without the instruction set.
                let mut totals = [simd.splat(0.0); 16];
                for (total, state) in totals.iter_mut().zip(&states[at..at + 16]) {
                    *total = simd.load(&state.totals);
                }
                let totals = simd.sums(&totals);
                let count = 16.min(block.count - first);
                let of_these = at..at + count;
                let query = QueryIndex { sequence: self.unit.sequence, head: block.head, query: block.first + first };
                // SAFETY: these queries belong only to this unit, and the unit only to this task.
                let is_done = !is_nonfinite[of_these.clone()].contains(&true)
                    && unsafe {
                        let (states, sums) = (&states[of_these.clone()], self.output.rows(at));
                        results.try_finish_block(simd, query, states, &totals, dropout_factor, sums, cols)
                    };
                if is_done {
                    continue;
                }
                for (i, (row, total)) in of_these.zip(totals).enumerate() {
                    let query = QueryIndex { query: query.query + i, ..query };
                    let sums = &mut self.output.row_mut(row)[..value_dim];
                    // SAFETY: this query belongs only to this unit, and the unit only to this task.
                    unsafe {
                        results.finish_query(simd, query, &states[row], total, is_nonfinite[row], dropout_factor, sums)
                    };
                }
            }
        }
    }
}

/// Parameters and state of the softmax of a unit. Rows are those of all blocks, [`Engine::QUERY_BLOCK`] of each.
struct UnitSoftmax<'a> {
    args: &'a AnyAttention<'a>,
    unit: &'a QueryUnit,
    transform: Option<ScoreTransform>,
    dropout_mask: Option<DropoutMask>,
    /// The factor that converts scores to units of log 2.
    scale_log2: f32,
    /// True if rows are not checked, and scores are tested instead of bounded.
    is_unchecked: bool,
    /// (rows,)
    states: &'a mut [OnlineSoftmaxState],
    /// True for queries that see a non-finite value, which the reference implementation computes. (rows,)
    is_nonfinite: &'a mut [bool],
    /// The factor that bounds the query's score with a key, times the norm of the key. (rows,)
    bounds: &'a mut [f32],
    /// Bits of the weights that dropout keeps in the current block. ([`Engine::QUERY_BLOCK`], [`KEY_BLOCK`] bits)
    dropout_bits: &'a mut [u16],
}

impl UnitSoftmax<'_> {
    /// Draws the dropout bits of a block.
    #[inline(always)]
    fn draw_dropout<S: Simd>(&mut self, simd: S, block: &QueryBlock, first_key: usize, columns: KeyColumns) {
        if let Some(keep) = &self.dropout_mask {
            block.draw_dropout_bits((simd, keep), self.args, self.unit.sequence, first_key, columns, self.dropout_bits);
        }
    }

    /// Returns the span that all queries of a block see, if its weights need no running maximum, transform or dropout.
    /// All queries must see the same keys, from the first column on.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn bounded_span<E: Engine>(
        &self,
        engine: E,
        b: usize,
        block: &QueryBlock,
        tile: &ScoreTile<'_, E>,
        first_key: usize,
        columns: KeyColumns,
        max_key_norm: f32,
    ) -> Option<VisibleSpan> {
        let of_block = b * E::QUERY_BLOCK..b * E::QUERY_BLOCK + block.count;
        let is_plain = self.transform.is_none()
            && self.dropout_mask.is_none()
            && self.bounds[of_block.clone()].iter().all(|bound| bound * max_key_norm <= SAFE_SCORE_BOUND)
            && self.states[of_block].iter().all(|state| !state.tracks_max);
        let span = if is_plain { block.common_span(first_key, columns)? } else { return None };
        let is_plain = span.first_visible() <= columns.from()
            && (!self.is_unchecked || is_bounded(engine, &tile.scores, block.count, span, self.scale_log2));
        is_plain.then_some(span)
    }

    /// Turns the scores of query `i` of a block into weights. Returns the factor that rescales its earlier sums.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn row<E: Engine>(
        &mut self,
        engine: E,
        b: usize,
        block: &QueryBlock,
        i: usize,
        tile: &mut ScoreTile<'_, E>,
        first_key: usize,
        columns: KeyColumns,
        max_key_norm: f32,
    ) -> f32 {
        let at = b * E::QUERY_BLOCK + i;
        let span = block.span(i, first_key, columns);
        let state = &mut self.states[at];
        let dropout_bits = self.dropout_mask.map(|_| &self.dropout_bits[i * (KEY_BLOCK / 16)..][..KEY_BLOCK / 16]);
        let scale_log2 = self.scale_log2;
        if let Some(transform) = &self.transform
            && !span.is_empty()
        {
            let query = QueryIndex { sequence: self.unit.sequence, head: block.head, query: block.first + i };
            transform.apply(engine.simd(), self.args, query, first_key, span, tile.scores.row_mut(i));
        }
        let mut row = SoftmaxRow { engine, scores: tile.row(i), span, scale_log2, dropout_bits };
        if span.is_empty() {
            row.clear();
            return 1.0;
        }
        let rescale = if self.transform.is_some() {
            row.apply_online::<true>(state)
        } else {
            let mut is_small = !self.is_unchecked && self.bounds[at] * max_key_norm <= SAFE_SCORE_BOUND;
            if !is_small && (self.is_unchecked || !state.tracks_max) {
                let extreme = row.max_abs_score() * scale_log2.abs();
                self.is_nonfinite[at] |= extreme.is_nan();
                is_small = extreme <= SCORE_BOUND;
            }
            if is_small && !state.tracks_max {
                row.apply_bounded(state);
                return 1.0;
            }
            row.apply_online::<false>(state)
        };
        self.is_nonfinite[at] |= rescale.is_none();
        rescale.unwrap_or(1.0)
    }
}

/// Softmax of the rows of a block one at a time, with rescaling of their earlier sums, as a separate function.
struct SoftmaxRowsTask<'a, 'b, E> {
    softmax: &'a mut UnitSoftmax<'b>,
    b: usize,
    block: &'a QueryBlock,
    tile: &'a mut ScoreTile<'b, E>,
    first_key: usize,
    columns: KeyColumns,
    max_key_norm: f32,
    output: &'a mut QueryAccumulator<'b, E>,
    /// The product that follows.
    value_product: ValueProduct,
}

impl<E: Engine> EngineTask<E> for SoftmaxRowsTask<'_, '_, E> {
    #[inline(always)]
    fn eval(self, engine: E) {
        let SoftmaxRowsTask { softmax, b, block, tile, first_key, columns, max_key_norm, output, value_product } = self;
        for i in 0..block.count {
            let rescale = softmax.row(engine, b, block, i, tile, first_key, columns, max_key_norm);
            if rescale != 1.0 && value_product.accumulate {
                scale_in_place(engine.simd(), rescale, output.row_mut(b * E::QUERY_BLOCK + i));
            }
        }
    }
}

/// `O += P V` for a block whose weights are ready. It may run later.
#[derive(Clone, Copy, Debug)]
struct ValueProduct {
    /// The block and the number of its rows.
    block: (usize, usize),
    columns: KeyColumns,
    accumulate: bool,
}

impl ValueProduct {
    /// Computes the whole product.
    #[inline(always)]
    fn run<E: Engine>(
        self,
        engine: E,
        tile: &ScoreTile<'_, E>,
        values: &PackedRhs<'_, E>,
        sums: &mut QueryAccumulator<'_, E>,
    ) {
        let panels = 0..sums.panels();
        sums.pv_matmul(engine, self.block, tile.weights(), self.columns, values, panels, self.accumulate);
    }
}

/// `S = Q Kᵀ` for a block. It may run early.
#[derive(Clone, Copy, Debug)]
struct ScoreProduct {
    /// The block and the number of its rows.
    block: (usize, usize),
    columns: KeyColumns,
}

/// Products that are computed between softmax rows, panel by panel: the tile of the previous block is multiplied with
/// V, then receives the scores of the next block.
struct InterleavedProducts<'a, 'b, E: Engine> {
    engine: E,
    value_product: Option<ValueProduct>,
    score_product: Option<ScoreProduct>,
    queries: &'a PackedLhs<'b, E>,
    keys: &'a PackedRhsTransposed<'b, E>,
    values: &'a PackedRhs<'b, E>,
    tile: &'a mut ScoreTile<'b, E>,
    output: &'a mut QueryAccumulator<'b, E>,
    /// Number of panels that are done, and in total.
    done: usize,
    total: usize,
}

impl<'a, 'b, E: Engine> InterleavedProducts<'a, 'b, E> {
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn new(
        engine: E,
        value_product: Option<ValueProduct>,
        scores: Option<ScoreProduct>,
        queries: &'a PackedLhs<'b, E>,
        keys: &'a PackedRhsTransposed<'b, E>,
        values: &'a PackedRhs<'b, E>,
        tile: &'a mut ScoreTile<'b, E>,
        sums: &'a mut QueryAccumulator<'b, E>,
    ) -> Self {
        let all = value_product.map_or(0, |_| sums.panels()) + scores.map_or(0, |scores| scores.columns.grains());
        InterleavedProducts {
            engine,
            value_product,
            score_product: scores,
            queries,
            keys,
            values,
            tile,
            output: sums,
            done: 0,
            total: all,
        }
    }
}

impl<E: Engine> InterleavedWork for InterleavedProducts<'_, '_, E> {
    #[inline(always)]
    fn advance(&mut self, row: usize, rows: usize) {
        while self.done * rows < self.total * row {
            let mut panel = self.done;
            self.done += 1;
            if let Some(ValueProduct { block, columns, accumulate }) = self.value_product {
                if panel < self.output.panels() {
                    let (weights, panels) = (self.tile.weights(), panel..panel + 1);
                    self.output.pv_matmul(self.engine, block, weights, columns, self.values, panels, accumulate);
                    continue;
                }
                panel -= self.output.panels();
            }
            if let Some(ScoreProduct { block, columns }) = self.score_product {
                let columns = columns.grain_range(panel..panel + 1);
                self.tile.scores.qk_matmul(self.engine, self.queries, block, self.keys, columns);
            }
        }
    }
}

/// Returns an upper bound on the norm of a row, given the sum of its squares. Squares below the normal range may be
/// missing from the sum.
#[inline(always)]
fn norm_bound(square: f32, dim: usize) -> f32 {
    (square + dim as f32 * f32::MIN_POSITIVE).sqrt()
}

/// Returns the largest of some whole vectors of values, at least 0.
#[inline(always)]
fn max_of<S: Simd>(simd: S, x: &[f32]) -> f32 {
    let mut largest = simd.splat(0.0);
    for x in x.chunks_exact(S::LANES) {
        largest = simd.max(simd.load(x), largest);
    }
    simd.max_lane(largest)
}
