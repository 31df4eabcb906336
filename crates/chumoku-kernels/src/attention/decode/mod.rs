//! Decoding: attention of one query over many keys.
//!
//! Decoding should take no longer than one pass over keys and values in memory. A few query rows would leave blocks
//! nearly empty, and packing would cost more than the products. Rows of keys and values are therefore read in place, by
//! all query heads that share them. Tasks are chunks of keys, so threads can share the work of a single head. The chunk
//! results are merged in order.
//!
//! # Files
//!
//! - `amx`: scores of bf16 keys in AMX tiles
//! - `vectors`: scores and value sums in vector registers

#[cfg(target_arch = "x86_64")]
mod amx;
mod vectors;

use super::engine::{GRAIN, KEY_BLOCK, KeyColumns, SCORE_STRIDE, SourceMatrix, VisibleSpan};
use super::finish::{ForwardResults, scale_in_place};
use super::heads::QueryIndex;
use super::operands::ScoreTileRow;
use super::params::AttentionParams;
use super::plan::AttentionPlan;
use super::register_engine::RegisterEngine;
use super::softmax::{OnlineSoftmaxState, SoftmaxRow};
use super::transform::{ScoreTransform, ScoreUnit};
use super::type_erased::AnyAttention;
use crate::isa::{self, Isa, Simd, SimdOp, dispatch};
use crate::low_precision::DtypeSlice;
use crate::memory::{Scratch, ScratchBuffer};
use crate::threads::{SharedMut, for_each};
use std::ops::Range;
use vectors::{KeyValueRows, Prefetch, PvVectors, QkVectors};

/// Keys in a chunk. Results depend on it.
const CHUNK: usize = 4 * KEY_BLOCK;

/// Keys and values of more than this many bytes are prefetched: they exceed the private caches of the cores.
const PREFETCH_BYTES: usize = 1 << 20;

/// Splits the keys that the query of sequence `s` sees into chunks.
fn key_chunks(args: &AttentionParams<f32>, s: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    let visible = args.visible_keys(s, 0);
    let first = if visible.is_empty() { visible.end } else { visible.start / CHUNK * CHUNK };
    (first..visible.end).step_by(CHUNK).map(move |start| visible.start.max(start)..visible.end.min(start + CHUNK))
}

/// Returns whether scores are computed in tiles, which needs bf16 keys whose rows are whole steps.
fn has_tiles(args: &AnyAttention) -> bool {
    const STEP: usize = 32;
    matches!(args.key.data, DtypeSlice::Bf16(_)) && args.query.dim().is_multiple_of(STEP) && isa::active() == Isa::Amx
}

/// Describes the kernel for `args`, if every sequence has one query.
pub(super) fn explain(args: &AnyAttention) -> Option<AttentionPlan> {
    let sequences = args.query.layout.sequence_count();
    if sequences == 0 || !(0..sequences).all(|s| args.is_decode_step(s)) {
        return None;
    }
    let chunks = (0..sequences).map(|s| key_chunks(args, s).count());
    let has_tiles = has_tiles(args);
    Some(AttentionPlan {
        kernel: if has_tiles { "decoding, keys in bf16 tiles" } else { "decoding, f32 registers" },
        isa: isa::active(),
        tile: (args.group_size(), CHUNK),
        terms: usize::from(has_tiles),
        tasks: chunks.sum::<usize>() * args.key.layout.heads,
        scratch_bytes: args.group_size() * (args.query.dim() + 16 + SCORE_STRIDE) * 4,
        reason: "each sequence has one query: tasks share the keys, and keys and values are read in place",
    })
}

/// A range of keys of one sequence and head.
struct KeyChunk {
    sequence: usize,
    key_head: usize,
    keys: Range<usize>,
}

/// The chunks of one sequence and head of keys.
struct DecodeHead {
    sequence: usize,
    key_head: usize,
    chunks: Range<usize>,
}

/// The softmax state of a query after one chunk, without its value sums.
#[derive(Clone, Copy)]
struct ChunkState {
    state: OnlineSoftmaxState,
    /// True if a score was not finite.
    is_nonfinite: bool,
}

/// Computes attention for the sequences with one query.
pub(super) fn decode(results: &ForwardResults) {
    let args = results.args;
    let (group, value_dim) = (args.group_size(), args.value.dim());
    let mut chunks = Vec::new();
    let mut heads = Vec::new();
    for sequence in (0..args.query.layout.sequence_count()).filter(|&s| args.is_decode_step(s)) {
        for key_head in 0..args.key.layout.heads {
            let first = chunks.len();
            chunks.extend(key_chunks(args, sequence).map(|keys| KeyChunk { sequence, key_head, keys }));
            heads.push(DecodeHead { sequence, key_head, chunks: first..chunks.len() });
        }
    }
    let rows = chunks.len() * group;
    let mut states = vec![ChunkState { state: OnlineSoftmaxState::INITIAL, is_nonfinite: false }; rows];
    let mut sums = vec![0.0; rows * value_dim];
    let (all_states, all_sums) = (SharedMut::new(&mut states), SharedMut::new(&mut sums));
    let keys: usize = chunks.iter().map(|chunk| chunk.keys.len()).sum();
    let is_far = keys * (args.query.dim() + value_dim) * args.key.data.size() > PREFETCH_BYTES;
    for_each(chunks.len(), keys * group * (args.query.dim() + value_dim), |c| {
        // SAFETY: each chunk has its own states and sums.
        let (states, sums) =
            unsafe { (all_states.slice(c * group, group), all_sums.slice(c * group * value_dim, group * value_dim)) };
        let gather = DecodeChunk { args, chunk: &chunks[c], states, sums, prefetches: is_far };
        gather.dispatch();
    });
    for_each(heads.len(), rows * value_dim, |h| {
        dispatch(MergeChunks { results, head: &heads[h], states: &states, sums: &sums });
    });
}

/// One chunk: its scores, their weights and the weighted values.
struct DecodeChunk<'a> {
    args: &'a AnyAttention<'a>,
    chunk: &'a KeyChunk,
    states: &'a mut [ChunkState],
    sums: &'a mut [f32],
    /// True if keys and values come from main memory and are prefetched.
    prefetches: bool,
}

/// Optional products with keys that are faster than vectors.
trait TileProducts: Copy {
    /// Returns the size of the packed queries in bytes.
    fn size(self, rows: usize, dim: usize) -> usize;
    /// Packs the query rows.
    ///
    /// # Safety
    /// `to` must be writable for [`TileProducts::size`] bytes, and aligned to 64 bytes.
    unsafe fn pack(self, queries: SourceMatrix<'_>, to: *mut u8);
    /// Adds products to the rows of `scores`, [`SCORE_STRIDE`] apart, for all blocks of 16 queries. Returns the number
    /// of keys that it processed, from the first.
    ///
    /// # Safety
    /// * `queries` must be the output of [`TileProducts::pack`] for `rows` rows of the same width as the keys.
    /// * There must be at most [`KEY_BLOCK`] keys.
    unsafe fn add(self, queries: *const u8, rows: usize, keys: SourceMatrix<'_>, scores: &mut [f32]) -> usize;
}

/// No tile products: everything runs in vectors.
impl TileProducts for () {
    fn size(self, _: usize, _: usize) -> usize {
        0
    }
    unsafe fn pack(self, _: SourceMatrix<'_>, _: *mut u8) {}
    unsafe fn add(self, _: *const u8, _: usize, _: SourceMatrix<'_>, _: &mut [f32]) -> usize {
        0
    }
}

impl SimdOp for DecodeChunk<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        self.run(simd, ());
    }
}

impl DecodeChunk<'_> {
    fn dispatch(self) {
        #[cfg(target_arch = "x86_64")]
        if has_tiles(self.args)
            && let Some(bf16) = isa::bf16::Bf16::new(isa::active())
        {
            return bf16.run(self);
        }
        dispatch(self);
    }

    #[inline(always)]
    fn run<S: Simd>(self, simd: S, products: impl TileProducts) {
        let (args, sequence, key_head) = (self.args, self.chunk.sequence, self.chunk.key_head);
        let blocks = self.blocks();
        let DecodeChunk { states, sums, prefetches, .. } = self;
        let (dim, value_dim, group) = (args.query.dim(), args.value.dim(), states.len());
        let first_head = key_head * group;
        // Rows are padded with zeros to whole vectors, and scores to whole tiles.
        let (width, lines) = (dim.next_multiple_of(16), group.next_multiple_of(16));
        let mut scratch = Scratch::take();
        let [queries, packed, scores] =
            scratch.split([group * width * 4, products.size(group, dim), lines * SCORE_STRIDE * 4]);
        let ([queries, scores], packed) = ([queries, scores].map(ScratchBuffer::into_f32), packed.into_ptr());
        for (i, to) in queries.chunks_exact_mut(width).enumerate() {
            let (row, rest) = to.split_at_mut(dim);
            args.query.read_row(QueryIndex { sequence, head: first_head + i, query: 0 }, row);
            rest.fill(0.0);
        }
        // Tile products exist only for bf16.
        if let DtypeSlice::Bf16(data) = args.query.data {
            let at = |head: usize| args.query.layout.row_offset(sequence, head, 0);
            let stride = if group > 1 { at(first_head + 1) - at(first_head) } else { 0 };
            let matrix = SourceMatrix::from_slice(&data[at(first_head)..], group, dim, stride);
            // SAFETY: `packed` has the requested size, and scratch memory is aligned.
            unsafe { products.pack(matrix, packed) };
        }
        for block in blocks {
            let count = block.len();
            let [key_rows, value_rows] = [args.key, args.value].map(|from| KeyValueRows {
                first: from.layout.row_offset(sequence, key_head, block.start),
                stride: from.layout.row_stride,
                width: from.dim(),
                range: 0..count,
            });
            scores.fill(0.0);
            // The values are prefetched while the keys are multiplied, and the next keys while the values are added.
            // Only the first queries prefetch, because all queries pass over the same rows.
            let values_ahead = Prefetch::new(args.value.data, &value_rows, 0, prefetches);
            let keys_ahead = Prefetch::new(args.key.data, &key_rows, KEY_BLOCK, prefetches);
            let mut done = 0;
            if let DtypeSlice::Bf16(data) = args.key.data {
                let matrix = SourceMatrix::from_slice(&data[key_rows.first..], count, dim, key_rows.stride);
                // SAFETY: `packed` holds `group` packed rows as wide as the keys, since queries and keys share one
                // dtype. There are at most KEY_BLOCK keys.
                done = unsafe { products.add(packed, group, matrix, scores) };
            }
            if done < count {
                let rows = KeyValueRows { range: done..count, ..key_rows };
                let (queries, scores, ahead) = (&*queries, &mut *scores, values_ahead);
                match args.key.data {
                    DtypeSlice::F32(data) => {
                        simd.run(QkVectors { queries, group, data, rows, scores, prefetch: ahead })
                    }
                    DtypeSlice::Bf16(data) => {
                        simd.run(QkVectors { queries, group, data, rows, scores, prefetch: ahead })
                    }
                    DtypeSlice::F16(data) => {
                        simd.run(QkVectors { queries, group, data, rows, scores, prefetch: ahead })
                    }
                }
            }
            for (i, (state, line)) in states.iter_mut().zip(scores.chunks_exact_mut(SCORE_STRIDE)).enumerate() {
                let rescale: f32 = state.softmax(simd, args, (sequence, first_head + i), &block, line);
                if rescale != 1.0 {
                    scale_in_place(simd, rescale, &mut sums[i * value_dim..][..value_dim]);
                }
            }
            let (weights, rows, sums, ahead) = (&*scores, value_rows, &mut *sums, keys_ahead);
            match args.value.data {
                DtypeSlice::F32(data) => simd.run(PvVectors { weights, group, data, rows, sums, prefetch: ahead }),
                DtypeSlice::Bf16(data) => simd.run(PvVectors { weights, group, data, rows, sums, prefetch: ahead }),
                DtypeSlice::F16(data) => simd.run(PvVectors { weights, group, data, rows, sums, prefetch: ahead }),
            }
        }
    }

    /// Splits the keys into blocks of at most [`KEY_BLOCK`].
    fn blocks(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let keys = self.chunk.keys.clone();
        (keys.start / KEY_BLOCK * KEY_BLOCK..keys.end)
            .step_by(KEY_BLOCK)
            .map(move |first| keys.start.max(first)..keys.end.min(first + KEY_BLOCK))
    }
}

impl ChunkState {
    /// Turns a row of scores into weights in place. Returns the factor that rescales the earlier sums.
    #[inline(always)]
    fn softmax<S: Simd>(
        &mut self,
        simd: S,
        args: &AttentionParams<f32>,
        (sequence, head): (usize, usize),
        keys: &Range<usize>,
        line: &mut [f32],
    ) -> f32 {
        let span = VisibleSpan::new(KeyColumns::new(0, keys.len().next_multiple_of(GRAIN)), 0..keys.len());
        self.is_nonfinite |= !all_finite(simd, &line[..span.columns().to()]);
        let transform = ScoreTransform::new(args);
        let scale_log2 = ScoreUnit::new(args).scale_log2;
        if let Some(transform) = &transform {
            transform.apply(simd, args, QueryIndex { sequence, head, query: 0 }, keys.start, span, line);
        }
        let mut row = SoftmaxRow {
            engine: RegisterEngine(simd),
            scores: ScoreTileRow::from_scores(line),
            span,
            scale_log2,
            dropout_bits: None,
        };
        let rescale = match &transform {
            Some(_) => row.apply_online::<true>(&mut self.state),
            None => row.apply_online::<false>(&mut self.state),
        };
        self.is_nonfinite |= rescale.is_none();
        rescale.unwrap_or(1.0)
    }
}

/// Returns whether all values of whole vectors and their differences are finite.
#[inline(always)]
fn all_finite<S: Simd>(simd: S, x: &[f32]) -> bool {
    let zero = simd.splat(0.0);
    // x·0 is 0 for finite x and NaN otherwise, and NaN survives the additions.
    let mut zeros = zero;
    for x in x.chunks_exact(S::LANES) {
        let x = simd.load(x);
        zeros = simd.mul_add(simd.add(x, x), zero, zeros);
    }
    simd.sum(zeros) == 0.0
}

/// The operation that merges the chunks of one sequence and head of keys.
struct MergeChunks<'a> {
    results: &'a ForwardResults<'a>,
    head: &'a DecodeHead,
    states: &'a [ChunkState],
    sums: &'a [f32],
}

impl SimdOp for MergeChunks<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let MergeChunks { results, head: DecodeHead { sequence, key_head, chunks }, states, sums } = self;
        let args = results.args;
        let (group, dim) = (args.group_size(), args.value.dim());
        let mut whole = vec![0.0; dim];
        for i in 0..group {
            let mut state = OnlineSoftmaxState { shift: f64::NEG_INFINITY, ..OnlineSoftmaxState::INITIAL };
            let (mut total, mut is_bad) = (0.0, false);
            whole.fill(0.0);
            for row in chunks.clone().map(|chunk| chunk * group + i) {
                let ChunkState { state: part, is_nonfinite: of_part } = states[row];
                let of_chunk = simd.sum(simd.load(&part.totals));
                is_bad |= of_part;
                state.has_low_scores |= part.has_low_scores;
                // If all weights are 0, there is no shift. Not `> 0`: NaN must propagate.
                if of_chunk == 0.0 {
                    continue;
                }
                let shift = state.shift.max(part.shift);
                let (before, share) = ((state.shift - shift).exp2() as f32, (part.shift - shift).exp2() as f32);
                state.shift = shift;
                total = total * before + of_chunk * share;
                let from = &sums[row * dim..][..dim];
                whole.iter_mut().zip(from).for_each(|(to, from)| *to = *to * before + share * from);
            }
            let query = QueryIndex { sequence: *sequence, head: key_head * group + i, query: 0 };
            // SAFETY: this is the only query of the sequence and head. Only this task accesses it, because a task is a
            // head of keys and each query head reads one of them.
            unsafe { results.finish_query(simd, query, &state, total, is_bad, 1.0, &mut whole) };
        }
    }
}
