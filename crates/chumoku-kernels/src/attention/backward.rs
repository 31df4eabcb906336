//! The backward pass: the gradients of queries, keys and values, from the gradient of the output.
//!
//! # Stages
//!
//! Weights are recomputed from the log-sum-exp, block by block. Each stage recomputes or differentiates one line of the
//! forward pass:
//!
//! | forward | backward | where |
//! |---|---|---|
//! | `S = Q Kᵀ` | recomputed | [`ChunkBackward::scores`] |
//! | `P = softmax(scale · S)` | recomputed, `2^(scale · log₂ e · S − log-sum-exp)` | [`ChunkBackward::softmax`], with [`super::softmax_backward`] |
//! | `O = P V` | `dP = dO Vᵀ` | [`ChunkBackward::scores`] |
//! | | `dV += Pᵀ dO` | [`ChunkBackward::add_d_key_and_d_value`] |
//! | `P = softmax(scale · S)` | `dS = P ∘ (dP − rowsum(dO ∘ O) + d log-sum-exp)` | [`ChunkBackward::softmax`] |
//! | `S = Q Kᵀ` | `dQ += dS K` | [`ChunkBackward::add_d_query`] |
//! | | `dK += dSᵀ Q` | [`ChunkBackward::add_d_key_and_d_value`] |
//!
//! Constant factors are applied where the fewest values are multiplied. The dropout factor goes to dP in
//! [`RowPairBackward`] and to dV in [`ChunkBackward::add_to_gradients`]. The stored P holds the kept weights without
//! the factor. dK gets `scale` in [`ChunkBackward::add_to_gradients`], and dQ in [`BackwardContext::write_d_query`].
//!
//! # Algorithm
//!
//! For each head of keys and each span of queries:
//!
//! ```text
//! pack Q, dO                                     row by row and transposed
//! for each block of keys j:
//!     pack K_j, V_j;  dK_j = dV_j = 0
//!     for each group of query blocks:
//!         for each query block i of the group that sees a key of block j:
//!             S  = Q_i K_jᵀ
//!             dP = dO_i V_jᵀ
//!             P  = 2^(scale · log₂ e · S − log-sum-exp_i)        0 where masked
//!             dS = P ∘ (dP − delta_i)                            delta = rowsum(dO ∘ O) − d log-sum-exp
//!             dQ_i += dS K_j
//!         dV_j += Pᵀ dO                          over all rows of the group
//!         dK_j += dSᵀ Q
//!     add scale · dK_j and dV_j to the sums of the head
//! write scale · dQ
//! ```
//!
//! # Schedule
//!
//! The queries of each head of keys are processed in spans of a fixed number of rows. Within a span, the loop goes over
//! blocks of keys, and for each of them over groups of a few query blocks. No stage has to wait for another thread:
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
//! The gradients of keys and values are summed within a span first, then over spans. Those of queries are summed within
//! a chunk of keys first, then over chunks. Both orders depend only on the sequence lengths. With few heads, threads
//! share the chunks; with many, they share the heads.

use super::blocks::{QueryBlock, QueryGroup, QueryUnit};
use super::engine::{Engine, EngineOp, EngineTask, GRAIN, KEY_BLOCK, KeyColumns, SCORE_STRIDE};
use super::engine_choice::run_on_engine;
use super::heads::{HeadsLayout, HeadsMut, QueryIndex};
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

/// Rows of a query span: its packed operands stay in the second-level cache.
const QUERY_SPAN: usize = 1152;
/// Minimum number of keys in a chunk.
const MIN_KEY_CHUNK: usize = 1024;
/// Maximum number of chunks per sequence.
const MAX_KEY_CHUNKS: usize = 8;
/// With at least this many heads, threads share the heads instead of the chunks of one head.
const MIN_HEADS_TO_SHARE: usize = 8;

/// Minimum number of multiply–adds in a task.
const MIN_TASK_WORK: usize = 1 << 21;

/// Backward pass of f32 attention. The caller has checked the arguments.
pub(super) fn f32(args: &Attention<f32>, saved: BackwardInputs<f32>, gradients: Gradients<f32>) {
    backward(args, saved, gradients);
}

/// [`f32()`] for bf16.
pub(super) fn bf16(args: &Attention<half::bf16>, saved: BackwardInputs<half::bf16>, gradients: Gradients<half::bf16>) {
    backward(args, saved, gradients);
}

/// [`f32()`] for f16.
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

/// Computes the gradients of queries, keys and values for any dtype.
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

/// Computes `d sink = −p_sink · rowsum(dO ∘ O)`, summed over sequences and queries: the sink is a key whose value is 0.
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

/// Buffers that are reused from one head to the next.
#[derive(Default)]
struct BackwardWorkspace {
    f32_gradients: Vec<f32>,
    partial_d_query: Vec<f32>,
}

/// Inputs of the backward pass, and where the gradients of query, key and value go.
struct BackwardContext<'a> {
    saved: &'a AnyBackwardInputs<'a>,
    layouts: [HeadsLayout<'a>; 3],
    grads: [SharedDtypeSlice; 3],
}

impl BackwardContext<'_> {
    /// Computes all gradients of one sequence and head of keys. `work` is the amount of work that threads can share.
    fn run_head(&self, sequence: usize, key_head: usize, work: usize, memory: &mut BackwardWorkspace) {
        let args = self.saved.args;
        let (dim, value_dim) = (args.key.dim(), args.value.dim());
        let (keys, all_keys) = (args.key_count(sequence), args.key.layout.length(sequence));
        // dK and dV are accumulated in place if they are f32, otherwise in a separate f32 buffer.
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
                // SAFETY: rows of gradients do not overlap, and only this task accesses the rows of this head. They
                // stay borrowed until all tasks are done, and they are initialized.
                unsafe { sums.row(j) }.fill(0.0);
            }
        }
        let nonfinite_keys = nonfinite_keys(args, sequence, key_head);
        let mut bad_rows = Vec::new();
        let size = keys.div_ceil(MAX_KEY_CHUNKS).max(MIN_KEY_CHUNK).next_multiple_of(KEY_BLOCK);
        let chunks: Vec<Range<usize>> = (0..keys).step_by(size).map(|first| first..keys.min(first + size)).collect();
        for unit in QueryUnit::spans(args, sequence, key_head, QUERY_SPAN) {
            let rows = unit.backward_span(self.saved, &nonfinite_keys);
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
            let query = QueryIndex { sequence, head: h, query: i };
            for j in (0..keys).filter(|&j| row.d_scores[j].is_some()) {
                // SAFETY: the chunks are done, so no other code accesses the sums of this head. They are initialized.
                let [d_key, d_value] = sums.each_ref().map(|sums| unsafe { sums.row(j) });
                self.saved.reference.add_to_key(&row, query, j, d_key, d_value);
            }
            // SAFETY: rows of gradients do not overlap, and only this task accesses queries that read this head of
            // keys.
            unsafe { self.grads[0].write_f64(self.layouts[0].row_offset(sequence, h, i), &row.d_query) };
        }
        for (which, sums) in (1..3).zip(&sums) {
            for j in 0..all_keys {
                // SAFETY: rows of gradients do not overlap, and only this task accesses those of this head. If the
                // gradients are not f32, the sums are in a separate buffer, so no two slices overlap.
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

    /// Adds up the query gradients of all chunks in order, and writes them.
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
            // SAFETY: rows of gradients do not overlap, and only this task accesses those of this head.
            unsafe { self.grads[0].write_f32(self.layouts[0].row_offset(rows.sequence, h, i), &sum) };
        }
    }
}

/// Accumulator rows of dK or dV for one head, one row per key; spans of queries add to them.
#[derive(Clone, Copy)]
struct GradientRows {
    shared: SharedMut<f32>,
    first: usize,
    stride: usize,
    width: usize,
}

impl GradientRows {
    /// Returns the row of key `j`.
    ///
    /// # Safety
    /// * No other code may access the row while the result is alive.
    /// * The memory of the sums must still be valid.
    #[allow(clippy::mut_from_ref)]
    unsafe fn row(&self, j: usize) -> &mut [f32] {
        // SAFETY: valid and exclusive as the caller promises. The sums come from slices, so they are initialized.
        unsafe { self.shared.slice(self.first + j * self.stride, self.width) }
    }

    /// Adds `factor` times the transpose of `from`, (width, [`KEY_BLOCK`]), to the rows of the key block `keys`.
    ///
    /// # Safety
    /// * No other code may access these rows during the call.
    /// * The memory of the sums must still be valid.
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

/// The operation of [`GradientRows::add_transposed`], its only constructor, whose caller guarantees the rows.
struct AddTransposed<'a> {
    to: &'a GradientRows,
    /// (width, [`KEY_BLOCK`])
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
                    // SAFETY: `from` holds 16 rows of 16 values, KEY_BLOCK apart, as was just checked. `first` points
                    // to 16 columns of the rows of 16 keys, `stride` apart. The caller promises that they are valid and
                    // exclusive.
                    unsafe { simd.add_transposed(from.as_ptr(), KEY_BLOCK, factor, to.shared.ptr(first), to.stride) };
                    continue;
                }
                for i in 0..rows {
                    // SAFETY: the caller promises that the row of this key is valid and exclusive.
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
    /// Query gradients of this chunk: (rows, dim).
    d_query: &'a mut [f32],
    /// Accumulators of dK and dV.
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

/// [`ChunkBackward::softmax`] as a separate function.
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

/// State of one chunk of keys as it goes through the stages.
struct ChunkBackward<'a, E> {
    engine: E,
    args: &'a AnyAttention<'a>,
    d_output: AnyHeads<'a>,
    span: &'a QuerySpan,
    groups: &'a [QueryGroup],
    transform: Option<ScoreTransform>,
    dropout_mask: Option<DropoutMask>,
    /// Q, packed by block.
    queries: PackedLhs<'a, E>,
    /// dO, packed by block.
    d_outputs: PackedLhs<'a, E>,
    /// Q, packed by group and transposed.
    queries_transposed: PackedLhsTransposed<'a, E>,
    /// dO, packed by group and transposed.
    d_outputs_transposed: PackedLhsTransposed<'a, E>,
    /// The current block of keys, as the columns of S = Q Kᵀ.
    keys: PackedRhsTransposed<'a, E>,
    /// Its values, as the columns of dP = dO Vᵀ.
    values: PackedRhsTransposed<'a, E>,
    /// The same keys as the rows of dQ = dS K.
    keys_by_row: PackedRhs<'a, E>,
    /// S and dP of the current group of queries, which become P and dS.
    tiles: ScoreTileGroup<'a, E>,
    /// `Σ dS K` of all queries.
    d_query: QueryAccumulator<'a, E>,
    has_d_query: Vec<bool>,
    /// `Σ dSᵀ Q` and `Σ Pᵀ dO` of the current keys.
    d_key: KeyAccumulator<'a, E>,
    d_value: KeyAccumulator<'a, E>,
    /// The derivative of the softcap for two rows; 1 without a softcap.
    slopes: &'a mut [f32],
    /// Bits of the weights that dropout keeps in the current block. ([`Engine::QUERY_BLOCK`], [`KEY_BLOCK`] bits)
    dropout_bits: Vec<u16>,
    /// Converted rows, for rows that the engine cannot read in place.
    staged: &'a mut [f32],
}

impl<'a, E: Engine> ChunkBackward<'a, E> {
    /// Query blocks in a group.
    const BLOCKS_PER_GROUP: usize = E::QUERY_GROUP / E::QUERY_BLOCK;

    /// Allocates the scratch memory for a chunk.
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
        let dropout_mask = args.dropout.map(|dropout| DropoutMask::new(dropout.rate, dropout.random));
        ChunkBackward {
            engine,
            args,
            d_output: back.saved.d_output,
            span: rows,
            groups,
            transform: ScoreTransform::new(args),
            dropout_mask,
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
            dropout_bits: vec![0u16; if dropout_mask.is_some() { E::QUERY_BLOCK * KEY_BLOCK / 16 } else { 0 }],
            staged,
        }
    }

    /// Returns the factor that dropout applies to kept weights.
    #[inline(always)]
    fn dropout_factor(&self) -> f32 {
        self.dropout_mask.map_or(1.0, |keep| keep.factor())
    }

    /// Packs the queries and output gradients of the whole span, row by row and transposed.
    ///
    /// # Shapes
    /// Rows of a head, (queries of the group, dim) and (…, value dim), into blocks of [`Engine::QUERY_BLOCK`] and
    /// groups of [`Engine::QUERY_GROUP`] rows.
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

    /// Packs a block of keys in both layouts, and their values.
    ///
    /// # Shapes
    /// Rows of the head of keys, (keys, dim) and (keys, value dim), into ([`KEY_BLOCK`], dim) and ([`KEY_BLOCK`], value
    /// dim).
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

    /// Recomputes the forward product `S = Q Kᵀ`, and computes `dP = dO Vᵀ`, the backward of `O = P V`.
    ///
    /// # Shapes
    /// Block `b` of group `g`, ([`Engine::QUERY_BLOCK`], [`KEY_BLOCK`]) each.
    #[inline(always)]
    fn scores(&mut self, g: usize, b: usize, rows: usize, columns: KeyColumns) {
        // Rows up to the row granularity must be initialized even if there is no query.
        let (engine, at) = (self.engine, (g * Self::BLOCKS_PER_GROUP + b, rows.next_multiple_of(E::ROW_GRANULARITY)));
        self.tiles.scores(b).qk_matmul(engine, &self.queries, at, &self.keys, columns);
        self.tiles.d_weights(b).qk_matmul(engine, &self.d_outputs, at, &self.values, columns);
    }

    /// Recomputes `P = 2^(scale · log₂ e · S − log-sum-exp)`, and computes the backward of `P = softmax(scale · S)`:
    /// `dS = P ∘ (dP − rowsum(dO ∘ O) + d log-sum-exp)`, without the factor `scale`.
    ///
    /// # Shapes
    /// Block `b` of the current group, ([`Engine::QUERY_BLOCK`], [`KEY_BLOCK`]) each.
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
                // Its own shift and delta may be NaN, and 0 times NaN is NaN.
                if row.is_inactive() { (none, span.hidden()) } else { (row, span) }
            });
            if let Some(transform) = &self.transform {
                for (half, (_, span)) in rows.iter().enumerate().filter(|(_, (_, span))| !span.is_empty()) {
                    let mut scores = self.tiles.scores(b);
                    let line = scores.row_mut(i + half);
                    let query = QueryIndex { sequence, head: block.head, query: block.first + i + half };
                    transform.softcap_slopes(
                        engine.simd(),
                        *span,
                        line,
                        &mut self.slopes[half * SCORE_STRIDE..][..SCORE_STRIDE],
                    );
                    transform.apply(engine.simd(), args, query, first_key, *span, line);
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
    /// Block `b` of group `g`: ([`Engine::QUERY_BLOCK`], [`KEY_BLOCK`]) and ([`KEY_BLOCK`], dim) to
    /// ([`Engine::QUERY_BLOCK`], dim).
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
    /// Group `g`: ([`Engine::QUERY_GROUP`], [`KEY_BLOCK`]) and ([`Engine::QUERY_GROUP`], dim) to (dim, [`KEY_BLOCK`]),
    /// likewise for values.
    #[inline(always)]
    fn add_d_key_and_d_value(
        &mut self,
        g: usize,
        group: &QueryGroup,
        columns: KeyColumns,
        keys: &Range<usize>,
        has_sums: &mut bool,
    ) {
        // The first group overwrites its columns, so the columns that it skips must be cleared.
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

    /// Adds the key gradients of all groups to the sums of the head: `dK` times `scale`, and `dV`.
    #[inline(always)]
    fn add_to_gradients(&self, sums: [GradientRows; 2], keys: &Range<usize>) {
        let simd = self.engine.simd();
        let [of_keys, of_values] = sums;
        // SAFETY: only this task accesses the keys of this chunk, and the sums of the head are valid until all chunks
        // are done.
        unsafe {
            of_keys.add_transposed(simd, &self.d_key, self.args.scale as f32, keys);
            of_values.add_transposed(simd, &self.d_value, self.dropout_factor(), keys);
        }
    }

    /// Writes the query gradients of this chunk.
    ///
    /// # Shapes
    /// (blocks · [`Engine::QUERY_BLOCK`], dim) to (rows, dim).
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
