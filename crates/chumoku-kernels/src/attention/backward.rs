//! The backward pass: the gradients of queries, keys and values, from the gradient of the output.
//!
//! # Stages
//!
//! Weights are computed again from log-sum-exp, block by block. Each stage differentiates a line of the forward pass, or
//! computes it again:
//!
//! | forward | backward | where |
//! |---|---|---|
//! | `S = Q Kᵀ` | again | [`ChunkBackward::scores`] |
//! | `P = softmax(scale · S)` | again, `2^(scale · log₂ e · S − log-sum-exp)` | [`ChunkBackward::softmax`], with [`super::differentiate`] |
//! | `O = P V` | `dP = dO Vᵀ` | [`ChunkBackward::scores`] |
//! | | `dV += Pᵀ dO` | [`ChunkBackward::gather`] |
//! | `P = softmax(scale · S)` | `dS = P ∘ (dP − rowsum(dO ∘ O) + d log-sum-exp)` | [`ChunkBackward::softmax`] |
//! | `S = Q Kᵀ` | `dQ += dS K` | [`ChunkBackward::add_d_query`] |
//! | | `dK += dSᵀ Q` | [`ChunkBackward::gather`] |
//!
//! Factors are applied where there is least to multiply. Dropout's factor goes to dP in [`Pair`], and to dV in
//! [`ChunkBackward::add_to`], where dK gets `scale`; the P that is stored holds the kept weights without it. dQ gets `scale`
//! in [`Back::write_queries`].
//!
//! # Schedule
//!
//! For each head of keys, its queries are taken in spans of a fixed number of rows; for each span the keys block by block,
//! and for each block of keys the span's queries in groups of a few blocks. Nothing waits for anything:
//!
//! ```text
//! span of queries: pack Q, dO
//! └─ block of keys: pack K, V
//!    ├─ group 0 ─┬─ block 0:  S, dP → P, dS → dQ
//!    │           ├─ block 1:  S, dP → P, dS → dQ
//!    │           └─ dV += Pᵀ dO, dK += dSᵀ Q         over the rows of the group, while its P and dS are in the cache
//!    ├─ group 1 ─┬─ …
//!    └─ dV and dK of the block, transposed, to the sums of the head
//! ```
//!
//! The gradients of keys and values are summed over a span first and then over spans; those of queries over a chunk of keys
//! first and then over chunks. Both orders follow from the lengths of the sequence alone: with few heads the chunks are shared
//! among threads, with many the heads.

use super::blocks::{QueryBlock, QueryGroup, QueryUnit};
use super::engine::{Engine, EngineOp, EngineTask, GRAIN, KEY_BLOCK, KeyColumns, SCORE_STRIDE};
use super::engine_choice::run_on_engine;
use super::heads::{HeadsLayout, HeadsMut};
use super::mask_gradient;
use super::operands::{
    KeyAccumulator, PackedLhs, PackedLhsTransposed, PackedRhs, PackedRhsTransposed, QueryAccumulator, ScoreTileGroup,
};
use super::params::{Attention, BackwardInputs, Gradients};
use super::reference::attention_row_backward;
use super::softmax_backward::{LARGEST_LOG_SUM_EXP, QuerySpan, RowPairBackward, SoftmaxBackwardRow};
use super::staging::{SourceRows, nonfinite_keys};
use super::transform::{ScoreTransform, ScoreUnit};
use super::type_erased::{AnyAttention, AnyBackwardInputs, AnyHeads};
use crate::dropout::DropoutMask;
use crate::isa::{Simd, SimdOp};
use crate::low_precision::{F32Compute, SharedDtypeSlice};
use crate::memory::Scratch;
use crate::threads::{SharedMut, for_each};
use std::ops::Range;

/// Rows of a span: what is packed of it stays in the second-level cache.
const QUERY_SPAN: usize = 1152;
/// Keys of a chunk, at least.
const MIN_KEY_CHUNK: usize = 1024;
/// Chunks of a sequence, at most.
const MAX_KEY_CHUNKS: usize = 8;
/// Heads from which on they are shared among threads, not the chunks of one.
const MIN_HEADS_TO_SHARE: usize = 8;

/// Multiply–adds that are worth a task of their own.
const MIN_TASK_WORK: usize = 1 << 21;

/// Attention of f32, backward; arguments have been checked.
pub(super) fn f32(args: &Attention<f32>, saved: BackwardInputs<f32>, gradients: Gradients<f32>) {
    backward(args, saved, gradients);
}

/// As [`f32()`], of bf16.
pub(super) fn bf16(args: &Attention<half::bf16>, saved: BackwardInputs<half::bf16>, gradients: Gradients<half::bf16>) {
    backward(args, saved, gradients);
}

/// As [`f32()`], of f16.
pub(super) fn f16(args: &Attention<half::f16>, saved: BackwardInputs<half::f16>, gradients: Gradients<half::f16>) {
    backward(args, saved, gradients);
}

fn backward<T: F32Compute>(args: &Attention<T>, saved: BackwardInputs<T>, gradients: Gradients<T>) {
    let share = |view: HeadsMut<'_, T>| T::erase_shared(SharedMut::new(view.data));
    let layouts = [gradients.query.layout, gradients.key.layout, gradients.value.layout];
    let grads = [share(gradients.query), share(gradients.key), share(gradients.value)];
    let (any, plain) = (AnyAttention::new(args), (args, saved));
    let any = &AnyBackwardInputs::new(&any, saved, &plain);
    run(&BackwardContext { saved: any, layouts, grads });
    if let Some(d_mask) = gradients.mask {
        mask_gradient::mask_gradient(any, d_mask);
    }
    if let Some(d_sinks) = gradients.sinks {
        sink_gradient(args, saved, d_sinks);
    }
}

/// The gradients of queries, keys and values of any type.
fn run(back: &BackwardContext) {
    let args = back.saved.args;
    let all_heads = args.key.layout.heads;
    let heads = args.key.layout.sequence_count() * all_heads;
    let work = args.multiply_adds() * 3;
    let few = heads < MIN_HEADS_TO_SHARE;
    let per_task = (MIN_TASK_WORK / (work / heads.max(1)).max(1)).clamp(1, (heads / MIN_HEADS_TO_SHARE).max(1));
    for_each(heads.div_ceil(per_task), if few { 0 } else { work }, |task| {
        let mut memory = BackwardWorkspace::default();
        for pair in task * per_task..heads.min((task + 1) * per_task) {
            let work = if few { work / heads } else { 0 };
            back.run_head(pair / all_heads, pair % all_heads, work, &mut memory);
        }
    });
}

/// `d sink = −p_sink · rowsum(dO ∘ O)`, summed over sequences and queries: the sink is a key whose value is 0.
fn sink_gradient<T: F32Compute>(args: &Attention<T>, saved: BackwardInputs<T>, d_sinks: &mut [f32]) {
    for (h, d_sink) in d_sinks.iter_mut().enumerate() {
        let mut sum = 0.0;
        for s in 0..args.query.sequences() {
            for i in 0..args.query.length(s) {
                let row = args.query.layout.row_index(s, h, i);
                if saved.log_sum_exp[row].abs() > LARGEST_LOG_SUM_EXP {
                    sum += attention_row_backward(args, saved, s, h, i).d_sink;
                    continue;
                }
                let products = saved.output.row(s, h, i).iter().zip(saved.d_output.row(s, h, i));
                let delta: f64 = products.map(|(y, d)| y.to_f64() * d.to_f64()).sum();
                let d_lse = saved.d_log_sum_exp.map_or(0.0, |d| f64::from(d[row]));
                let sink = args.params.sinks.map_or(f64::NEG_INFINITY, |sinks| f64::from(sinks[h]));
                sum += (sink - f64::from(saved.log_sum_exp[row])).exp() * (d_lse - delta);
            }
        }
        *d_sink = sum as f32;
    }
}

/// What one head after another uses.
#[derive(Default)]
struct BackwardWorkspace {
    f32_gradients: Vec<f32>,
    partial_d_query: Vec<f32>,
}

/// Arguments and where the gradients of query, key and value go.
struct BackwardContext<'a> {
    saved: &'a AnyBackwardInputs<'a>,
    layouts: [HeadsLayout<'a>; 3],
    grads: [SharedDtypeSlice; 3],
}

impl BackwardContext<'_> {
    /// All gradients of one sequence and head of keys; `work` is what there is to share among threads.
    fn run_head(&self, sequence: usize, key_head: usize, work: usize, memory: &mut BackwardWorkspace) {
        let args = self.saved.args;
        let (dim, value_dim) = (args.key.dim(), args.value.dim());
        let (keys, all_keys) = (args.key_count(sequence), args.key.layout.length(sequence));
        // The rows of dK and dV that are added to: the gradients themselves if they are f32, else sums beside them.
        let is_f32 = self.grads[1].as_f32().is_some();
        let rows = if is_f32 { 0 } else { keys };
        let BackwardWorkspace { f32_gradients: beside, partial_d_query: partial } = memory;
        beside.clear();
        beside.resize(rows * (dim + value_dim), 0.0);
        let (d_key, d_value) = beside.split_at_mut(rows * dim);
        let sums = [(1, d_key, dim), (2, d_value, value_dim)].map(|(which, beside, width)| {
            let (layout, shared) = (self.layouts[which], self.grads[which]);
            match shared.as_f32() {
                Some(shared) => GradientRows {
                    shared,
                    first: layout.row_offset(sequence, key_head, 0),
                    stride: layout.row_stride,
                    width,
                },
                None => GradientRows { shared: SharedMut::new(beside), first: 0, stride: width, width },
            }
        });
        if is_f32 {
            for (j, sums) in (0..keys).flat_map(|j| sums.iter().map(move |sums| (j, sums))) {
                // SAFETY: rows of gradients do not overlap, and these are this head's alone, which one task computes. They
                // are borrowed until all tasks are done, and hold numbers.
                unsafe { sums.row(j) }.fill(0.0);
            }
        }
        let bad_keys = nonfinite_keys(args, sequence, key_head);
        let mut bad_rows = Vec::new();
        let size = keys.div_ceil(MAX_KEY_CHUNKS).max(MIN_KEY_CHUNK).next_multiple_of(KEY_BLOCK);
        let chunks: Vec<Range<usize>> = (0..keys).step_by(size).map(|first| first..keys.min(first + size)).collect();
        for unit in QueryUnit::spans(args, sequence, key_head, QUERY_SPAN) {
            let rows = unit.backward_span(self.saved, &bad_keys);
            bad_rows.extend(rows.nonfinite_queries());
            let size = chunks.len() * rows.len() * dim;
            partial.resize(size.max(partial.len()), 0.0);
            // Every chunk writes all of its part.
            let partial = &mut partial[..size];
            let partials = SharedMut::new(partial);
            for_each(chunks.len(), work, |chunk| {
                // SAFETY: each chunk has its own part.
                let d_query = unsafe { partials.slice(chunk * rows.len() * dim, rows.len() * dim) };
                run_on_engine(
                    args,
                    KeyChunkTask { context: self, span: &rows, keys: chunks[chunk].clone(), d_query, sums },
                );
            });
            self.write_d_query(&rows, partial);
        }
        for &(h, i) in &bad_rows {
            let row = self.saved.reference.row(sequence, h, i);
            for j in (0..keys).filter(|&j| row.d_scores[j].is_some()) {
                // SAFETY: the chunks are done, so that this head's sums are reached by nobody else; they hold numbers.
                let [d_key, d_value] = sums.each_ref().map(|sums| unsafe { sums.row(j) });
                self.saved.reference.add_to_key(&row, (sequence, h, i), j, d_key, d_value);
            }
            // SAFETY: rows of gradients do not overlap, and queries that read this head of keys are this task's alone.
            unsafe { self.grads[0].write_f64(self.layouts[0].row_offset(sequence, h, i), &row.d_query) };
        }
        for (which, sums) in (1..3).zip(&sums) {
            for j in 0..all_keys {
                // SAFETY: rows of gradients do not overlap, and this head's are this task's alone. Where the gradients are
                // not f32 the sums lie beside them, so that no two slices overlap.
                unsafe {
                    let at = self.layouts[which].row_offset(sequence, key_head, j);
                    if j >= keys {
                        self.grads[which].fill_zero(at, sums.width);
                    } else if !is_f32 {
                        self.grads[which].write_f32(at, sums.row(j));
                    }
                }
            }
        }
    }

    /// Adds up what the chunks give to the queries, in their order, and writes it.
    fn write_d_query(&self, rows: &QuerySpan, partial: &[f32]) {
        let args = self.saved.args;
        let dim = args.query.dim();
        let (first, others) = partial.split_at(partial.len().min(rows.len() * dim));
        let mut sum = vec![0.0f32; dim];
        for (at, (h, i)) in rows.queries().enumerate() {
            let range = at * dim..(at + 1) * dim;
            match first.get(range.clone()) {
                Some(first) => sum.copy_from_slice(first),
                None => sum.fill(0.0),
            }
            for other in others.chunks_exact((rows.len() * dim).max(1)) {
                sum.iter_mut().zip(&other[range.clone()]).for_each(|(sum, x)| *sum += x);
            }
            sum.iter_mut().for_each(|x| *x *= args.scale as f32);
            // SAFETY: rows of gradients do not overlap, and these are this head's alone.
            unsafe { self.grads[0].write_f32(self.layouts[0].row_offset(rows.sequence, h, i), &sum) };
        }
    }
}

/// Rows of the gradients of a head's keys or values, to which spans of queries add: dK or dV, one row for each key.
#[derive(Clone, Copy)]
struct GradientRows {
    shared: SharedMut<f32>,
    first: usize,
    stride: usize,
    width: usize,
}

impl GradientRows {
    /// The row of key `j`.
    ///
    /// # Safety
    /// * Nobody else may reach the row while the result lives.
    /// * The memory of the sums must still be there.
    #[allow(clippy::mut_from_ref)]
    unsafe fn row(&self, j: usize) -> &mut [f32] {
        // SAFETY: there and exclusive as the caller promises; sums are made of slices, which hold numbers.
        unsafe { self.shared.slice(self.first + j * self.stride, self.width) }
    }

    /// Adds `factor` times the transpose of `from`, (width, [`KEYS`]), to the rows of `keys`, a block of them.
    ///
    /// # Safety
    /// * Nobody else may reach these rows meanwhile.
    /// * The memory of the sums must still be there.
    unsafe fn add_transposed<S: Simd, E: Engine>(
        &self,
        simd: S,
        from: &KeyAccumulator<'_, E>,
        factor: f32,
        keys: &Range<usize>,
    ) {
        simd.run(AddTransposed { to: self, from: from.rows(0), factor, keys });
    }
}

/// What [`GradientRows::add_transposed`] does, which alone makes it: its caller promises the rows.
struct AddTransposed<'a> {
    to: &'a GradientRows,
    /// (width, [`KEYS`])
    from: &'a [f32],
    factor: f32,
    keys: &'a Range<usize>,
}

impl SimdOp for AddTransposed<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let AddTransposed { to, from, factor, keys } = self;
        let count = keys.len();
        for k in (0..count).step_by(16) {
            for c in (0..to.width).step_by(16) {
                let (rows, columns) = ((count - k).min(16), (to.width - c).min(16));
                let from = &from[c * KEY_BLOCK + k..];
                if rows == 16 && columns == 16 {
                    assert!(from.len() >= 15 * KEY_BLOCK + 16);
                    let first = to.first + (keys.start + k) * to.stride + c;
                    // SAFETY: `from` holds 16 rows of 16, KEYS apart, as was just checked. At `first` are 16 columns of the
                    // rows of 16 keys, `stride` apart, which the caller promises: there, and no one else's.
                    unsafe { simd.add_transposed(from.as_ptr(), KEY_BLOCK, factor, to.shared.ptr(first), to.stride) };
                    continue;
                }
                for i in 0..rows {
                    // SAFETY: the caller promises the row of this key: there, and no one else's.
                    let row = unsafe { to.row(keys.start + k + i) };
                    for (j, to) in row[c..c + columns].iter_mut().enumerate() {
                        *to += factor * from[j * KEY_BLOCK + i];
                    }
                }
            }
        }
    }
}

/// A chunk of keys against a span of queries.
struct KeyChunkTask<'a> {
    context: &'a BackwardContext<'a>,
    span: &'a QuerySpan,
    keys: Range<usize>,
    /// Where what the chunk gives to the queries goes: (rows, dim).
    d_query: &'a mut [f32],
    /// Sums of dK and dV, to be added to.
    sums: [GradientRows; 2],
}

impl EngineOp for KeyChunkTask<'_> {
    #[inline(always)]
    fn eval<E: Engine>(self, engine: E) {
        let KeyChunkTask { context: back, span: rows, keys, d_query, sums } = self;
        let groups = rows.unit.groups(back.saved.args, E::QUERY_BLOCK, E::QUERY_GROUP);
        let mut scratch = Scratch::take();
        let mut pass = ChunkBackward::new(engine, back, rows, &groups, &mut scratch);
        pass.pack_queries();
        for first in keys.clone().step_by(KEY_BLOCK) {
            let keys = first..keys.end.min(first + KEY_BLOCK);
            if !groups.iter().any(|group| group.columns(&keys).is_some()) {
                continue;
            }
            pass.pack_keys(&keys);
            let mut has_sums = false;
            for (g, group) in groups.iter().enumerate() {
                let Some(columns) = group.columns(&keys) else { continue };
                for (b, block) in group.blocks.iter().enumerate() {
                    pass.scores(g, b, block.count, columns);
                    engine.run(SoftmaxBackwardTask { chunk: &mut pass, b, block, first_key: keys.start, columns });
                    pass.add_d_query(g, b, block.count, columns);
                }
                pass.add_d_key_and_d_value(g, group, columns, &keys, &mut has_sums);
            }
            if has_sums {
                pass.add_to_gradients(sums, &keys);
            }
        }
        pass.write_d_query(d_query);
    }
}

/// [`ChunkBackward::softmax`] as a function of its own.
struct SoftmaxBackwardTask<'a, 'b, E: Engine> {
    chunk: &'a mut ChunkBackward<'b, E>,
    b: usize,
    block: &'a QueryBlock,
    first_key: usize,
    columns: KeyColumns,
}

impl<E: Engine> EngineTask<E> for SoftmaxBackwardTask<'_, '_, E> {
    #[inline(always)]
    fn eval(self, _: E) {
        self.chunk.softmax(self.b, self.block, self.first_key, self.columns);
    }
}

/// A chunk on its way through the stages.
struct ChunkBackward<'a, E> {
    engine: E,
    args: &'a AnyAttention<'a>,
    d_output: AnyHeads<'a>,
    span: &'a QuerySpan,
    groups: &'a [QueryGroup],
    transform: Option<ScoreTransform>,
    dropout_mask: Option<DropoutMask>,
    /// Q, block by block.
    queries: PackedLhs<'a, E>,
    /// dO, block by block.
    d_outputs: PackedLhs<'a, E>,
    /// Q, group by group, transposed.
    queries_transposed: PackedLhsTransposed<'a, E>,
    /// dO, group by group, transposed.
    d_outputs_transposed: PackedLhsTransposed<'a, E>,
    /// The block of keys at hand, as the columns of S = Q Kᵀ.
    keys: PackedRhsTransposed<'a, E>,
    /// Its values, as the columns of dP = dO Vᵀ.
    values: PackedRhsTransposed<'a, E>,
    /// The keys again, as the rows of dQ = dS K.
    keys_by_row: PackedRhs<'a, E>,
    /// S and dP, which become P and dS, of the group of queries at hand.
    tiles: ScoreTileGroup<'a, E>,
    /// `Σ dS K` of all queries, and of which blocks there is any.
    d_query: QueryAccumulator<'a, E>,
    has_d_query: Vec<bool>,
    /// `Σ dSᵀ Q` and `Σ Pᵀ dO` of the keys at hand.
    d_key: KeyAccumulator<'a, E>,
    d_value: KeyAccumulator<'a, E>,
    /// The derivative of the softcap in two rows: 1 without one.
    slopes: &'a mut [f32],
    /// Which weights dropout keeps in the block at hand. ([`Engine::QUERIES`], [`KEYS`] bits)
    dropout_bits: Vec<u16>,
    /// Rows that the engine cannot read where they lie.
    staged: &'a mut [f32],
}

impl<'a, E: Engine> ChunkBackward<'a, E> {
    /// Blocks of a group.
    const BLOCKS_PER_GROUP: usize = E::QUERY_GROUP / E::QUERY_BLOCK;

    /// Takes working memory for a chunk.
    #[inline(always)]
    fn new(
        engine: E,
        back: &'a BackwardContext<'a>,
        rows: &'a QuerySpan,
        groups: &'a [QueryGroup],
        scratch: &'a mut Scratch,
    ) -> Self {
        let args = back.saved.args;
        let (dim, value_dim) = (args.query.dim(), args.value.dim());
        let blocks = groups.len() * Self::BLOCKS_PER_GROUP;
        let [weights_size, d_scores_size, of_scores, of_d_weights, left_size] = ScoreTileGroup::<E>::sizes();
        let [
            queries,
            d_outputs,
            queries_gathered,
            d_outputs_gathered,
            d_query,
            keys,
            values,
            keys_by_row,
            weights,
            d_scores,
            scores,
            d_weights,
            left,
            d_key,
            d_value,
            slopes,
            staged,
        ] = scratch.split([
            PackedLhs::<E>::size(blocks, dim),
            PackedLhs::<E>::size(blocks, value_dim),
            PackedLhsTransposed::<E>::size(groups.len(), dim),
            PackedLhsTransposed::<E>::size(groups.len(), value_dim),
            QueryAccumulator::<E>::size(blocks, dim),
            PackedRhsTransposed::<E>::size(dim),
            PackedRhsTransposed::<E>::size(value_dim),
            PackedRhs::<E>::size(dim),
            weights_size,
            d_scores_size,
            of_scores,
            of_d_weights,
            left_size,
            KeyAccumulator::<E>::size(dim),
            KeyAccumulator::<E>::size(value_dim),
            2 * SCORE_STRIDE * 4,
            KEY_BLOCK.max(E::QUERY_GROUP) * dim.max(value_dim) * 4,
        ]);
        let (slopes, staged) = (slopes.into_f32(), staged.into_f32());
        slopes.fill(1.0);
        let keep = args.dropout.map(|dropout| DropoutMask::new(dropout.rate, dropout.random));
        ChunkBackward {
            engine,
            args,
            d_output: back.saved.d_output,
            span: rows,
            groups,
            transform: ScoreTransform::new(args),
            dropout_mask: keep,
            queries: PackedLhs::new(queries, dim),
            d_outputs: PackedLhs::new(d_outputs, value_dim),
            queries_transposed: PackedLhsTransposed::new(queries_gathered, dim),
            d_outputs_transposed: PackedLhsTransposed::new(d_outputs_gathered, value_dim),
            keys: PackedRhsTransposed::new(keys, dim),
            values: PackedRhsTransposed::new(values, value_dim),
            keys_by_row: PackedRhs::new(keys_by_row, dim),
            tiles: ScoreTileGroup::new([weights, d_scores, scores, d_weights, left]),
            d_query: QueryAccumulator::new(d_query, dim),
            has_d_query: vec![false; blocks],
            d_key: KeyAccumulator::new(d_key),
            d_value: KeyAccumulator::new(d_value),
            slopes,
            dropout_bits: vec![0u16; if keep.is_some() { E::QUERY_BLOCK * KEY_BLOCK / 16 } else { 0 }],
            staged,
        }
    }

    /// What dropout multiplies kept weights with.
    #[inline(always)]
    fn dropout_factor(&self) -> f32 {
        self.dropout_mask.map_or(1.0, |keep| keep.factor())
    }

    /// Packs queries and gradients of outputs both ways, for the whole span.
    ///
    /// # Shapes
    /// Rows of a head, (queries of the group, dim) and (…, value dim), into blocks of [`Engine::QUERIES`] and groups of
    /// [`Engine::GROUP`] rows.
    #[inline(always)]
    fn pack_queries(&mut self) {
        let mut squares = [0.0f32; KEY_BLOCK];
        let checks = !self.span.all_queries_finite();
        for (g, group) in self.groups.iter().enumerate() {
            for (from, blocks, gathered) in [
                (self.args.query, &mut self.queries, &mut self.queries_transposed),
                (self.d_output, &mut self.d_outputs, &mut self.d_outputs_transposed),
            ] {
                let (sequence, head) = (self.span.sequence, group.head);
                let source = SourceRows { from, sequence, head, first: group.first, count: group.count };
                let rows = source.stage(self.engine, checks, self.staged, &mut squares[..group.count], &mut |_| {});
                for b in 0..Self::BLOCKS_PER_GROUP {
                    let first = (b * E::QUERY_BLOCK).min(group.count);
                    let part = rows.row_range(first, (group.count - first).min(E::QUERY_BLOCK));
                    blocks.pack(self.engine, g * Self::BLOCKS_PER_GROUP + b, part);
                }
                gathered.pack(self.engine, g, rows);
            }
        }
    }

    /// Packs a block of keys both ways, and their values.
    ///
    /// # Shapes
    /// Rows of the head of keys, (keys, dim) and (keys, value dim), into ([`KEYS`], dim) and ([`KEYS`], value dim).
    #[inline(always)]
    fn pack_keys(&mut self, keys: &Range<usize>) {
        let mut squares = [0.0f32; KEY_BLOCK];
        let checks = !self.span.all_keys_finite;
        let (sequence, head) = (self.span.sequence, self.span.unit.key_head);
        let source = SourceRows { from: self.args.key, sequence, head, first: keys.start, count: keys.len() };
        let rows = source.stage(self.engine, checks, self.staged, &mut squares[..keys.len()], &mut |_| {});
        self.keys.pack(self.engine, rows);
        self.keys_by_row.pack(self.engine, rows);
        let source = SourceRows { from: self.args.value, ..source };
        let rows = source.stage(self.engine, checks, self.staged, &mut squares[..keys.len()], &mut |_| {});
        self.values.pack(self.engine, rows);
    }

    /// Forward: `S = Q Kᵀ`, computed again. Backward of `O = P V`: `dP = dO Vᵀ`.
    ///
    /// # Shapes
    /// Block `b` of group `g`, ([`Engine::QUERIES`], [`KEYS`]) each.
    #[inline(always)]
    fn scores(&mut self, g: usize, b: usize, rows: usize, columns: KeyColumns) {
        // Those of rows that are gathered must be numbers, also where there is no query.
        let (engine, at) = (self.engine, (g * Self::BLOCKS_PER_GROUP + b, rows.next_multiple_of(E::ROW_GRANULARITY)));
        self.tiles.scores(b).qk_matmul(engine, &self.queries, at, &self.keys, columns);
        self.tiles.d_weights(b).qk_matmul(engine, &self.d_outputs, at, &self.values, columns);
    }

    /// Forward: `P = 2^(scale · log₂ e · S − log-sum-exp)`, computed again. Backward of `P = softmax(scale · S)`:
    /// `dS = P ∘ (dP − rowsum(dO ∘ O) + d log-sum-exp)`, but for the factor `scale`.
    ///
    /// # Shapes
    /// Block `b` of the group at hand, ([`Engine::QUERIES`], [`KEYS`]) each.
    #[inline(always)]
    fn softmax(&mut self, b: usize, block: &QueryBlock, first_key: usize, columns: KeyColumns) {
        let (engine, args, sequence) = (self.engine, self.args, self.span.sequence);
        let scale_log2 = ScoreUnit::new(args).scale_log2;
        let dropout_factor = self.dropout_factor();
        if let Some(keep) = &self.dropout_mask {
            block.draw_dropout_bits((engine.simd(), keep), args, sequence, first_key, columns, &mut self.dropout_bits);
        }
        for i in (0..block.count.next_multiple_of(E::ROW_GRANULARITY)).step_by(2) {
            let rows = [i, i + 1].map(|i| {
                let none = SoftmaxBackwardRow::INACTIVE;
                let row = if i < block.count { self.span.softmax[block.row + i] } else { none };
                let span = block.span(i, first_key, columns);
                // Its own shift and delta may be NaN, which 0 times them would be too.
                if row.is_inactive() { (none, span.hidden()) } else { (row, span) }
            });
            if let Some(transform) = &self.transform {
                for (half, (_, span)) in rows.iter().enumerate().filter(|(_, (_, span))| !span.is_empty()) {
                    let mut scores = self.tiles.scores(b);
                    let line = scores.row_mut(i + half);
                    let place = (sequence, block.head, block.first + i + half);
                    transform.softcap_slopes(
                        engine.simd(),
                        *span,
                        line,
                        &mut self.slopes[half * SCORE_STRIDE..][..SCORE_STRIDE],
                    );
                    transform.apply(engine.simd(), args, place, first_key, *span, line);
                }
            }
            let mut pair = RowPairBackward {
                engine,
                scores: self.tiles.row_pair(b, i),
                slopes: self.transform.is_some().then_some(&*self.slopes),
                rows: rows.map(|(row, _)| row),
                spans: rows.map(|(_, span)| span),
                scale_log2,
                dropout_factor,
                dropout_bits: self
                    .dropout_mask
                    .map(|_| &self.dropout_bits[i * (KEY_BLOCK / 16)..][..2 * (KEY_BLOCK / 16)]),
            };
            pair.differentiate();
        }
    }

    /// Backward of `S = Q Kᵀ` for the queries: `dQ += dS K`.
    ///
    /// # Shapes
    /// Block `b` of group `g`: ([`Engine::QUERIES`], [`KEYS`]) and ([`KEYS`], dim) to ([`Engine::QUERIES`], dim).
    #[inline(always)]
    fn add_d_query(&mut self, g: usize, b: usize, rows: usize, columns: KeyColumns) {
        let at = g * Self::BLOCKS_PER_GROUP + b;
        let (d_scores, panels) = (self.tiles.d_scores_lhs(b), 0..self.d_query.panels());
        self.d_query.pv_matmul(
            self.engine,
            (at, rows),
            d_scores,
            columns,
            &self.keys_by_row,
            panels,
            self.has_d_query[at],
        );
        self.has_d_query[at] = true;
    }

    /// Backward of `O = P V` for the values, and of `S = Q Kᵀ` for the keys: `dV += Pᵀ dO`, `dK += dSᵀ Q`.
    ///
    /// # Shapes
    /// Group `g`: ([`Engine::GROUP`], [`KEYS`]) and ([`Engine::GROUP`], dim) to (dim, [`KEYS`]), likewise for values.
    #[inline(always)]
    fn add_d_key_and_d_value(
        &mut self,
        g: usize,
        group: &QueryGroup,
        columns: KeyColumns,
        keys: &Range<usize>,
        has_sums: &mut bool,
    ) {
        // The first group writes its columns; what it leaves out is cleared.
        let is_whole = columns == KeyColumns::new(0, keys.len().next_multiple_of(GRAIN));
        if !*has_sums && !is_whole {
            self.d_key.clear();
            self.d_value.clear();
            *has_sums = true;
        }
        let adds = std::mem::replace(has_sums, true);
        let (engine, rows) = (self.engine, group.count.next_multiple_of(E::ROW_GRANULARITY));
        let [d_outputs, queries] =
            [(&self.d_outputs_transposed, &self.d_outputs), (&self.queries_transposed, &self.queries)];
        self.d_value.matmul_at_b(engine, d_outputs, g, rows, self.tiles.weights(), columns, adds);
        self.d_key.matmul_at_b(engine, queries, g, rows, self.tiles.d_scores(), columns, adds);
    }

    /// Adds what all groups give to the block of keys to the sums of the head: `dK`, with `scale`, and `dV`.
    #[inline(always)]
    fn add_to_gradients(&self, sums: [GradientRows; 2], keys: &Range<usize>) {
        let simd = self.engine.simd();
        let [of_keys, of_values] = sums;
        // SAFETY: the keys of this chunk are this task's alone, and the sums of the head are there until all chunks are done.
        unsafe {
            of_keys.add_transposed(simd, &self.d_key, self.args.scale as f32, keys);
            of_values.add_transposed(simd, &self.d_value, self.dropout_factor(), keys);
        }
    }

    /// Writes what the chunk gives to the queries.
    ///
    /// # Shapes
    /// (blocks · [`Engine::QUERIES`], dim) to (rows, dim).
    #[inline(always)]
    fn write_d_query(&mut self, d_query: &mut [f32]) {
        let dim = self.args.query.dim();
        let mut out = d_query.chunks_exact_mut(dim);
        for (g, group) in self.groups.iter().enumerate() {
            for (b, block) in group.blocks.iter().enumerate() {
                let at = g * Self::BLOCKS_PER_GROUP + b;
                for (i, out) in out.by_ref().take(block.count).enumerate() {
                    if self.has_d_query[at] {
                        out.copy_from_slice(&self.d_query.rows(at * E::QUERY_BLOCK + i)[..dim]);
                    } else {
                        out.fill(0.0);
                    }
                }
            }
        }
    }
}
