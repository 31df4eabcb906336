//! The blocks that attention multiplies: packed queries, keys and values, scores, weights and accumulators. Each type
//! owns its memory and knows its size.
//!
//! An [`Engine`] works on raw pointers. The types here take them from buffers of the required size, so callers cannot
//! access memory beyond the buffers. All of it is scratch memory ([`crate::memory::Scratch`]): aligned, and always
//! initialized, possibly with old values. Reading a value that was not packed gives a wrong result but is not unsound.

use super::engine::{
    Engine, EngineTask, GRAIN, KEY_BLOCK, KeyColumns, MatmulAtB, PvMatmul, QkMatmul, SCORE_STRIDE, SourceMatrix,
};
use crate::isa::{Simd, VectorMath};
use crate::memory::ScratchBuffer;
use std::marker::PhantomData;
use std::ops::Range;

/// Bytes of an f32.
const F32: usize = size_of::<f32>();

/// Defines an operation that packs rows by a function of the engine.
macro_rules! pack_task {
    ($(#[$docs:meta])* $name:ident: $pack:ident) => {
        $(#[$docs])*
        struct $name<'a> {
            rows: SourceMatrix<'a>,
            to: *mut u8,
        }

        impl<E: Engine> EngineTask<E> for $name<'_> {
            #[inline(always)]
            fn eval(self, engine: E) {
                // SAFETY: `pack`, the only constructor, has checked the number of rows and the size of the buffer.
                unsafe { engine.$pack(self.rows, self.to) };
            }
        }
    };
}

/// The packed LHS A of `A B` and `A Bᵀ`, block by block: queries or output gradients. (blocks, [`Engine::QUERY_BLOCK`],
/// depth)
#[derive(Debug)]
pub(super) struct PackedLhs<'a, E> {
    bytes: ScratchBuffer<'a>,
    depth: usize,
    engine: PhantomData<E>,
}

impl<'a, E: Engine> PackedLhs<'a, E> {
    /// Returns the size of `blocks` blocks in bytes.
    pub(super) fn size(blocks: usize, depth: usize) -> usize {
        blocks * E::lhs_bytes(depth)
    }

    pub(super) fn new(bytes: ScratchBuffer<'a>, depth: usize) -> Self {
        PackedLhs { bytes, depth, engine: PhantomData }
    }

    /// Packs up to [`Engine::QUERY_BLOCK`] rows as block `block`.
    #[inline(always)]
    pub(super) fn pack(&mut self, engine: E, block: usize, rows: SourceMatrix<'_>) {
        assert!(rows.rows() <= E::QUERY_BLOCK && rows.cols() == self.depth);
        let size = E::lhs_bytes(self.depth);
        let to = self.bytes.range_mut_ptr(block * size, size);
        engine.run(PackLhs { rows, to });
    }

    /// Returns block `block`, readable for [`Engine::lhs_bytes`].
    #[inline(always)]
    fn block(&self, block: usize) -> *const u8 {
        let size = E::lhs_bytes(self.depth);
        self.bytes.range_ptr(block * size, size)
    }
}

pack_task! {
    /// The operation of [`PackedLhs::pack`]. The caller has checked that there are at most QUERY_BLOCK rows. `to` has
    /// lhs_bytes of their depth and is a multiple of 64 bytes from the start of a buffer with that alignment.
    PackLhs: pack_lhs
}

/// The packed operand B of `A Bᵀ`: keys (`Q Kᵀ`) or values (`dO Vᵀ`). (depth, [`KEY_BLOCK`])
#[derive(Debug)]
pub(super) struct PackedRhsTransposed<'a, E> {
    bytes: ScratchBuffer<'a>,
    depth: usize,
    engine: PhantomData<E>,
}

impl<'a, E: Engine> PackedRhsTransposed<'a, E> {
    pub(super) fn size(depth: usize) -> usize {
        E::rhs_transposed_bytes(depth)
    }

    pub(super) fn new(bytes: ScratchBuffer<'a>, depth: usize) -> Self {
        assert!(bytes.len() >= Self::size(depth));
        PackedRhsTransposed { bytes, depth, engine: PhantomData }
    }

    /// Packs up to [`KEY_BLOCK`] rows.
    #[inline(always)]
    pub(super) fn pack(&mut self, engine: E, rows: SourceMatrix<'_>) {
        assert!(rows.rows() <= KEY_BLOCK && rows.cols() == self.depth);
        engine.run(PackRhsTransposed { rows, to: self.bytes.as_mut_ptr() });
    }
}

pack_task! {
    /// The operation of [`PackedRhsTransposed::pack`]. The caller has checked that there are at most KEY_BLOCK rows.
    /// `to` has rhs_transposed_bytes of their depth, which `new` has checked.
    PackRhsTransposed: pack_rhs_transposed
}

/// The packed operand B of `A B`: values (`P V`) or keys (`dS K`). ([`KEY_BLOCK`], width)
#[derive(Debug)]
pub(super) struct PackedRhs<'a, E> {
    bytes: ScratchBuffer<'a>,
    width: usize,
    engine: PhantomData<E>,
}

impl<'a, E: Engine> PackedRhs<'a, E> {
    pub(super) fn size(width: usize) -> usize {
        E::rhs_bytes(width)
    }

    pub(super) fn new(bytes: ScratchBuffer<'a>, width: usize) -> Self {
        assert!(bytes.len() >= Self::size(width));
        PackedRhs { bytes, width, engine: PhantomData }
    }

    /// Packs up to [`KEY_BLOCK`] rows.
    #[inline(always)]
    pub(super) fn pack(&mut self, engine: E, rows: SourceMatrix<'_>) {
        assert!(rows.rows() <= KEY_BLOCK && rows.cols() == self.width);
        engine.run(PackRhs { rows, to: self.bytes.as_mut_ptr() });
    }
}

pack_task! {
    /// The operation of [`PackedRhs::pack`]. The caller has checked that there are at most KEY_BLOCK rows. `to` has
    /// rhs_bytes of their width, which `new` has checked.
    PackRhs: pack_rhs
}

/// The scores of a block of queries with a block of keys. ([`Engine::QUERY_BLOCK`], [`KEY_BLOCK`]), rows
/// [`SCORE_STRIDE`] apart.
#[derive(Debug)]
pub(super) struct ScoreBlock<'a, E> {
    data: &'a mut [f32],
    engine: PhantomData<E>,
}

impl<'a, E: Engine> ScoreBlock<'a, E> {
    /// Number of values in a block.
    const LEN: usize = E::QUERY_BLOCK * SCORE_STRIDE;

    pub(super) fn size() -> usize {
        Self::LEN * F32
    }

    #[inline(always)]
    pub(super) fn new(numbers: &'a mut [f32]) -> Self {
        ScoreBlock { data: &mut numbers[..Self::LEN], engine: PhantomData }
    }

    /// Computes `S = Q Kᵀ` for the first `rows` rows of block `block` of the queries and these keys.
    #[inline(always)]
    pub(super) fn qk_matmul(
        &mut self,
        engine: E,
        queries: &PackedLhs<'_, E>,
        (block, rows): (usize, usize),
        keys: &PackedRhsTransposed<'_, E>,
        columns: KeyColumns,
    ) {
        assert!(queries.depth == keys.depth && rows <= E::QUERY_BLOCK);
        let (left, right, out) = (queries.block(block), keys.bytes.as_ptr(), self.data.as_mut_ptr());
        // SAFETY: `left` is readable for lhs_bytes and `right` for rhs_transposed_bytes of the same depth. `out` is LEN
        // values that are exclusively borrowed, so it overlaps neither operand.
        unsafe { engine.qk_matmul(QkMatmul { left, rows, keys: right, depth: keys.depth, columns, out }) };
    }

    /// Returns row `i`: [`SCORE_STRIDE`] values, the first [`KEY_BLOCK`] of which are scores.
    #[inline(always)]
    pub(super) fn row(&self, i: usize) -> &[f32] {
        &self.data[i * SCORE_STRIDE..][..SCORE_STRIDE]
    }

    /// Returns row `i` mutably.
    #[inline(always)]
    pub(super) fn row_mut(&mut self, i: usize) -> &mut [f32] {
        &mut self.data[i * SCORE_STRIDE..][..SCORE_STRIDE]
    }
}

/// Score tile: memory for the scores of a block and the weights that they become. Some engines pack weights into a
/// separate buffer, others overwrite the scores.
#[derive(Debug)]
pub(super) struct ScoreTile<'a, E> {
    pub(super) scores: ScoreBlock<'a, E>,
    /// Empty if weights overwrite the scores.
    packed: ScratchBuffer<'a>,
}

impl<'a, E: Engine> ScoreTile<'a, E> {
    /// Returns the sizes of scores and weights in bytes.
    pub(super) fn sizes() -> [usize; 2] {
        [ScoreBlock::<E>::size(), if E::PACKS_WEIGHTS { E::lhs_bytes(KEY_BLOCK) } else { 0 }]
    }

    pub(super) fn new([scores, weights]: [ScratchBuffer<'a>; 2]) -> Self {
        assert!(weights.len() >= Self::sizes()[1]);
        ScoreTile { scores: ScoreBlock::new(scores.into_f32()), packed: weights }
    }

    /// Returns row `i` of the scores, which the softmax turns into weights.
    #[inline(always)]
    pub(super) fn row(&mut self, i: usize) -> ScoreTileRow<'_, E> {
        assert!(i < E::QUERY_BLOCK);
        let all = self.scores.data.as_mut_ptr();
        let weights = if E::PACKS_WEIGHTS { self.packed.as_mut_ptr() } else { all.cast() };
        // Row i of QUERY_BLOCK rows of SCORE_STRIDE values.
        ScoreTileRow { scores: all.wrapping_add(i * SCORE_STRIDE), weights, row: i, marker: PhantomData }
    }

    /// Returns the weights.
    #[inline(always)]
    pub(super) fn weights(&self) -> WeightBlock<'_, E> {
        let at = if E::PACKS_WEIGHTS { self.packed.as_ptr() } else { self.scores.data.as_ptr().cast() };
        WeightBlock { ptr: at, block: PhantomData }
    }
}

/// One row of a score tile and the destination of its weights, exclusively borrowed. Both may be the same memory.
///
/// `scores` may be read for [`SCORE_STRIDE`] values, and [`Engine::store_weights`] may write row `row` of `weights`.
#[derive(Debug)]
pub(super) struct ScoreTileRow<'a, E> {
    scores: *const f32,
    weights: *mut u8,
    row: usize,
    marker: PhantomData<&'a mut E>,
}

impl<'a, E: Engine> ScoreTileRow<'a, E> {
    /// Creates a row of [`SCORE_STRIDE`] scores that its weights overwrite, for an engine that does not pack weights.
    pub(super) fn from_scores(scores: &'a mut [f32]) -> Self {
        assert!(scores.len() >= SCORE_STRIDE && !E::PACKS_WEIGHTS);
        let scores = scores.as_mut_ptr();
        // An engine that does not pack weights writes row 0 there as f32, and no other row.
        ScoreTileRow { scores, weights: scores.cast(), row: 0, marker: PhantomData }
    }

    /// Loads the vector of scores from column `col`.
    ///
    /// # Safety
    /// The vector must end within [`SCORE_STRIDE`] columns.
    #[inline(always)]
    pub(super) unsafe fn load(&self, simd: E::S, col: usize) -> <E::S as VectorMath>::V {
        // SAFETY: the row may be read for SCORE_STRIDE values, and the caller keeps the vector within them.
        unsafe { simd.load_ptr(self.scores.add(col)) }
    }

    /// Writes two vectors of weights from column `col`.
    ///
    /// # Safety
    /// `col` must be a multiple of two vectors below [`KEY_BLOCK`].
    #[inline(always)]
    pub(super) unsafe fn store_weights(&mut self, engine: E, col: usize, pair: [<E::S as VectorMath>::V; 2]) {
        // SAFETY: this value has exclusive access to a row of weights, and the caller promises that the pair of vectors
        // is inside of it.
        unsafe { engine.store_weights(self.weights, self.row, col, pair) };
    }

    /// Returns the scores of some columns. They may be read until weights are stored.
    #[inline(always)]
    pub(super) fn scores(&self, columns: Range<usize>) -> &[f32] {
        assert!(columns.start <= columns.end && columns.end <= SCORE_STRIDE);
        // SAFETY: the row may be read for SCORE_STRIDE values, which include these columns. `store_weights`, which may
        // overwrite them, borrows the row exclusively.
        unsafe { std::slice::from_raw_parts(self.scores.add(columns.start), columns.len()) }
    }
}

/// The LHS of a product over keys: a block of weights or score gradients. ([`Engine::QUERY_BLOCK`], [`KEY_BLOCK`]),
/// readable for the area that [`Engine::store_weights`] may write.
#[derive(Clone, Copy, Debug)]
pub(super) struct WeightBlock<'a, E> {
    ptr: *const u8,
    block: PhantomData<&'a E>,
}

/// Sums of weighted rows for each query of some blocks. (blocks · [`Engine::QUERY_BLOCK`], width rounded up to
/// [`GRAIN`])
#[derive(Debug)]
pub(super) struct QueryAccumulator<'a, E> {
    data: &'a mut [f32],
    /// Buffer for the sums of one block, if the engine computes the sums of a key block separately; otherwise empty.
    block_sums: &'a mut [f32],
    cols: usize,
    engine: PhantomData<E>,
}

impl<'a, E: Engine> QueryAccumulator<'a, E> {
    /// Returns the size of the sums of `blocks` blocks in bytes.
    pub(super) fn size(blocks: usize, width: usize) -> usize {
        blocks * E::QUERY_BLOCK * width.next_multiple_of(GRAIN) * F32
    }

    /// Creates an accumulator to which key blocks are added directly.
    pub(super) fn new(numbers: ScratchBuffer<'a>, width: usize) -> Self {
        QueryAccumulator {
            data: numbers.into_f32(),
            block_sums: &mut [],
            cols: width.next_multiple_of(GRAIN),
            engine: PhantomData,
        }
    }

    /// Creates an accumulator that adds each key block's sums when they are complete, if the engine requires it. `part`
    /// has the size of a block.
    pub(super) fn with_block_sums(numbers: ScratchBuffer<'a>, part: ScratchBuffer<'a>, width: usize) -> Self {
        QueryAccumulator { block_sums: part.into_f32(), ..QueryAccumulator::new(numbers, width) }
    }

    /// Returns the width in grains.
    #[inline(always)]
    pub(super) fn panels(&self) -> usize {
        self.cols / GRAIN
    }

    /// Returns the stride of the rows.
    #[inline(always)]
    pub(super) fn cols(&self) -> usize {
        self.cols
    }

    /// Returns the sums of row `row` of all blocks, including the padding up to the next row.
    #[inline(always)]
    pub(super) fn row_mut(&mut self, row: usize) -> &mut [f32] {
        &mut self.data[row * self.cols..][..self.cols]
    }

    /// Returns the rows from `row` on.
    #[inline(always)]
    pub(super) fn rows(&self, row: usize) -> &[f32] {
        &self.data[row * self.cols..]
    }

    /// Computes `O (+)= P V` for the first `rows` rows of block `block`, over these keys, for the columns of `panels`.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    pub(super) fn pv_matmul(
        &mut self,
        engine: E,
        (block, rows): (usize, usize),
        weights: WeightBlock<'_, E>,
        columns: KeyColumns,
        values: &PackedRhs<'_, E>,
        panels: Range<usize>,
        accumulate: bool,
    ) {
        let cols = self.cols;
        assert!(values.width.next_multiple_of(GRAIN) == cols && panels.end <= cols / GRAIN && rows <= E::QUERY_BLOCK);
        let len = E::QUERY_BLOCK * cols;
        let out = &mut self.data[block * len..][..len];
        let product = |out: &mut [f32], panels, accumulate| PvMatmul {
            weights: weights.ptr,
            rows,
            columns,
            values: values.bytes.as_ptr(),
            panels,
            out: out.as_mut_ptr(),
            cols,
            accumulate,
        };
        if !E::SEPARATE_BLOCK_SUMS || !accumulate || self.block_sums.is_empty() {
            // SAFETY: the weights are readable for a block. The values are readable for rhs_bytes of a width that
            // rounds up to `cols`, for which it is the same. `out` is QUERY_BLOCK rows of `cols`, exclusively borrowed,
            // and the panels are inside of it.
            unsafe { engine.pv_matmul(product(out, panels, accumulate)) };
            return;
        }
        let part = &mut self.block_sums[..len];
        // SAFETY: the weights and values are readable as above. `part` is QUERY_BLOCK rows of `cols` as well,
        // exclusively borrowed.
        unsafe { engine.pv_matmul(product(part, panels.clone(), false)) };
        let (simd, panels) = (engine.simd(), panels.start * GRAIN..panels.end * GRAIN);
        for (out, part) in out.chunks_exact_mut(cols).zip(part.chunks_exact(cols)) {
            let lines =
                out[panels.clone()].chunks_exact_mut(E::S::LANES).zip(part[panels.clone()].chunks_exact(E::S::LANES));
            for (out, part) in lines {
                simd.store(out, simd.add(simd.load(out), simd.load(part)));
            }
        }
    }
}

/// Queries or output gradients, packed as the transposed LHS of products over them, group by group. (groups,
/// [`Engine::QUERY_GROUP`], width)
#[derive(Debug)]
pub(super) struct PackedLhsTransposed<'a, E> {
    bytes: ScratchBuffer<'a>,
    width: usize,
    engine: PhantomData<E>,
}

impl<'a, E: Engine> PackedLhsTransposed<'a, E> {
    /// Returns the size of `groups` groups in bytes: 0 if the packed LHS blocks are reused.
    pub(super) fn size(groups: usize, width: usize) -> usize {
        if E::reuses_lhs(width) { 0 } else { groups * E::lhs_transposed_bytes(width) }
    }

    pub(super) fn new(bytes: ScratchBuffer<'a>, width: usize) -> Self {
        PackedLhsTransposed { bytes, width, engine: PhantomData }
    }

    /// Packs up to [`Engine::QUERY_GROUP`] rows as group `group`, unless the packed LHS blocks are reused.
    #[inline(always)]
    pub(super) fn pack(&mut self, engine: E, group: usize, rows: SourceMatrix<'_>) {
        assert!(rows.rows() <= E::QUERY_GROUP && rows.cols() == self.width);
        if E::reuses_lhs(self.width) {
            return;
        }
        let size = E::lhs_transposed_bytes(self.width);
        let to = self.bytes.range_mut_ptr(group * size, size);
        engine.run(PackLhsTransposed { rows, to });
    }

    /// Returns group `group`, which is part of `left` if that is reused. It is readable as [`Engine::matmul_at_b`]
    /// requires.
    #[inline(always)]
    fn group(&self, left: &PackedLhs<'_, E>, group: usize) -> *const u8 {
        assert!(left.depth == self.width);
        if E::reuses_lhs(self.width) {
            let size = E::QUERY_GROUP / E::QUERY_BLOCK * E::lhs_bytes(self.width);
            left.bytes.range_ptr(group * size, size)
        } else {
            let size = E::lhs_transposed_bytes(self.width);
            self.bytes.range_ptr(group * size, size)
        }
    }
}

pack_task! {
    /// The operation of [`PackedLhsTransposed::pack`]. The caller has checked that there are at most QUERY_GROUP rows. `to`
    /// has lhs_transposed_bytes of their width and is a multiple of 64 bytes from the start of a buffer with that
    /// alignment.
    PackLhsTransposed: pack_lhs_transposed
}

/// Weights and score gradients of a group of queries and a block of keys, as operands of
/// [`KeyAccumulator::matmul_at_b`]. It also holds the scores, weight gradients and packed score gradients of the
/// current query block. If the engine does not pack weights, these use the memory of the block within the group.
#[derive(Debug)]
pub(super) struct ScoreTileGroup<'a, E> {
    weights: ScratchBuffer<'a>,
    d_scores: ScratchBuffer<'a>,
    /// Scores of one block; empty if they use the memory of the group.
    scores: &'a mut [f32],
    d_weights: &'a mut [f32],
    d_scores_lhs: ScratchBuffer<'a>,
    engine: PhantomData<E>,
}

impl<'a, E: Engine> ScoreTileGroup<'a, E> {
    /// Returns the sizes of all parts in bytes.
    pub(super) fn sizes() -> [usize; 5] {
        let apart = |size: usize| if E::PACKS_WEIGHTS { size } else { 0 };
        let of_block = apart(ScoreBlock::<E>::size());
        [E::weight_group_bytes(), E::weight_group_bytes(), of_block, of_block, apart(E::lhs_bytes(KEY_BLOCK))]
    }

    pub(super) fn new(parts: [ScratchBuffer<'a>; 5]) -> Self {
        assert!(parts.iter().zip(Self::sizes()).all(|(part, size)| part.len() >= size));
        let [weights, d_scores, scores, d_weights, left] = parts;
        let [scores, d_weights] = [scores, d_weights].map(ScratchBuffer::into_f32);
        ScoreTileGroup { weights, d_scores, scores, d_weights, d_scores_lhs: left, engine: PhantomData }
    }

    /// Returns the offset of block `block` of the group among rows of [`SCORE_STRIDE`] values.
    fn block_offset(block: usize) -> usize {
        assert!(block < E::QUERY_GROUP / E::QUERY_BLOCK);
        block * ScoreBlock::<E>::LEN
    }

    /// Returns the scores of block `block` of the group.
    #[inline(always)]
    pub(super) fn scores(&mut self, block: usize) -> ScoreBlock<'_, E> {
        let first = Self::block_offset(block);
        ScoreBlock::new(if E::PACKS_WEIGHTS { self.scores } else { &mut self.weights.as_f32_mut()[first..] })
    }

    /// Returns the weight gradients of block `block` of the group.
    #[inline(always)]
    pub(super) fn d_weights(&mut self, block: usize) -> ScoreBlock<'_, E> {
        let first = Self::block_offset(block);
        ScoreBlock::new(if E::PACKS_WEIGHTS { self.d_weights } else { &mut self.d_scores.as_f32_mut()[first..] })
    }

    /// Returns rows `i` (even) and `i + 1` of block `block` of the group, for the backward pass of the softmax.
    #[inline(always)]
    pub(super) fn row_pair(&mut self, block: usize, i: usize) -> ScoreRowPair<'_, E> {
        assert!(i.is_multiple_of(2) && i < E::QUERY_BLOCK);
        let first = Self::block_offset(block);
        let (weights, d_scores) = (self.weights.as_mut_ptr(), self.d_scores.as_mut_ptr());
        let (scores, d_weights, left) = if E::PACKS_WEIGHTS {
            (self.scores.as_ptr(), self.d_weights.as_ptr(), self.d_scores_lhs.as_mut_ptr())
        } else {
            // The rows of the block within the group; `block_offset` has checked that they are in range.
            let (scores, d_weights): (*mut f32, *mut f32) = (weights.cast(), d_scores.cast());
            let d_weights = d_weights.wrapping_add(first);
            (scores.wrapping_add(first).cast_const(), d_weights.cast_const(), d_weights.cast())
        };
        let two = |rows: *const f32| [rows.wrapping_add(i * SCORE_STRIDE), rows.wrapping_add((i + 1) * SCORE_STRIDE)];
        ScoreRowPair {
            scores: two(scores),
            d_weights: two(d_weights),
            d_scores_lhs: left,
            row: i,
            weights,
            d_scores,
            group_row: block * E::QUERY_BLOCK + i,
            marker: PhantomData,
        }
    }

    /// Returns the score gradients of block `block` of the group, as the LHS of a product over keys.
    #[inline(always)]
    pub(super) fn d_scores_lhs(&self, block: usize) -> WeightBlock<'_, E> {
        let first = Self::block_offset(block);
        let at = if E::PACKS_WEIGHTS {
            self.d_scores_lhs.as_ptr()
        } else {
            self.d_scores.as_ptr().cast::<f32>().wrapping_add(first).cast()
        };
        WeightBlock { ptr: at, block: PhantomData }
    }

    /// Returns the weights of the group.
    #[inline(always)]
    pub(super) fn weights(&self) -> WeightGroup<'_, E> {
        WeightGroup { ptr: self.weights.as_ptr(), group: PhantomData }
    }

    /// Returns the score gradients of the group.
    #[inline(always)]
    pub(super) fn d_scores(&self) -> WeightGroup<'_, E> {
        WeightGroup { ptr: self.d_scores.as_ptr(), group: PhantomData }
    }
}

/// Two consecutive rows of a block and the destinations of their results, exclusively borrowed. Some of them may be the
/// same memory.
///
/// `scores` and `d_weights` may be read for [`SCORE_STRIDE`] values each. [`Engine::store_weights`] may write rows
/// `row` and `row + 1` of `d_scores_lhs`. [`Engine::store_weight_rows`] may write the rows from `group_row` of
/// `weights` and `d_scores`.
#[derive(Debug)]
pub(super) struct ScoreRowPair<'a, E> {
    scores: [*const f32; 2],
    d_weights: [*const f32; 2],
    d_scores_lhs: *mut u8,
    row: usize,
    weights: *mut u8,
    d_scores: *mut u8,
    group_row: usize,
    marker: PhantomData<&'a mut E>,
}

impl<E: Engine> ScoreRowPair<'_, E> {
    /// Loads the vectors of scores and weight gradients of row `i` (0 or 1) from column `col`.
    ///
    /// # Safety
    /// The vectors must end within [`SCORE_STRIDE`] columns.
    #[inline(always)]
    pub(super) unsafe fn load(&self, simd: E::S, i: usize, col: usize) -> [<E::S as VectorMath>::V; 2] {
        // No closure: it would be compiled without the instruction set.
        // SAFETY: both rows may be read for SCORE_STRIDE values, and the caller keeps the vectors within them.
        unsafe { [simd.load_ptr(self.scores[i].add(col)), simd.load_ptr(self.d_weights[i].add(col))] }
    }

    /// Writes two vectors of weights and two of score gradients for both rows, from column `col`.
    ///
    /// # Safety
    /// `col` must be a multiple of two vectors below [`KEY_BLOCK`].
    #[inline(always)]
    pub(super) unsafe fn store(
        &mut self,
        engine: E,
        col: usize,
        weights: [[<E::S as VectorMath>::V; 2]; 2],
        d_scores: [[<E::S as VectorMath>::V; 2]; 2],
    ) {
        // SAFETY: this pair has exclusive access to the rows of the block and of the group. `group_row` is even, since
        // QUERY_BLOCK and `row` are. The caller promises that the pair of vectors is inside of the rows.
        unsafe {
            engine.store_weights(self.d_scores_lhs, self.row, col, d_scores[0]);
            engine.store_weights(self.d_scores_lhs, self.row + 1, col, d_scores[1]);
            engine.store_weight_rows(self.weights, self.group_row, col, weights);
            if E::PACKS_WEIGHTS {
                engine.store_weight_rows(self.d_scores, self.group_row, col, d_scores);
            }
        }
    }
}

/// The weights of a group: the RHS of a product over queries. ([`Engine::QUERY_GROUP`], [`KEY_BLOCK`]), readable for
/// [`Engine::weight_group_bytes`].
#[derive(Clone, Copy, Debug)]
pub(super) struct WeightGroup<'a, E> {
    ptr: *const u8,
    group: PhantomData<&'a E>,
}

/// Transposed sums for each key of a block. (width, [`KEY_BLOCK`]), padded to whole tiles.
#[derive(Debug)]
pub(super) struct KeyAccumulator<'a, E> {
    data: &'a mut [f32],
    engine: PhantomData<E>,
}

impl<'a, E: Engine> KeyAccumulator<'a, E> {
    /// Returns the number of values that a product may write.
    fn len(width: usize) -> usize {
        (width.next_multiple_of(GRAIN) + GRAIN) * KEY_BLOCK
    }

    pub(super) fn size(width: usize) -> usize {
        Self::len(width) * F32
    }

    pub(super) fn new(bytes: ScratchBuffer<'a>) -> Self {
        KeyAccumulator { data: bytes.into_f32(), engine: PhantomData }
    }

    /// Sets all sums to 0.
    pub(super) fn clear(&mut self) {
        self.data.fill(0.0);
    }

    /// Returns the sums from row `c` on, with rows of [`KEY_BLOCK`] values.
    #[inline(always)]
    pub(super) fn rows(&self, c: usize) -> &[f32] {
        &self.data[c * KEY_BLOCK..]
    }

    /// Computes `(+)= Rᵀ W` for the first `rows` rows R of a group and its weights W, for these keys. `rows` is a
    /// multiple of [`Engine::ROW_GRANULARITY`]. `left` holds the same rows.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    pub(super) fn matmul_at_b(
        &mut self,
        engine: E,
        (gathered, left): (&PackedLhsTransposed<'_, E>, &PackedLhs<'_, E>),
        group: usize,
        rows: usize,
        weights: WeightGroup<'_, E>,
        columns: KeyColumns,
        accumulate: bool,
    ) {
        let width = gathered.width;
        assert!(
            self.data.len() >= Self::len(width) && rows.is_multiple_of(E::ROW_GRANULARITY) && rows <= E::QUERY_GROUP
        );
        let (gathered, out) = (gathered.group(left, group), self.data.as_mut_ptr());
        let product = MatmulAtB { gathered, cols: width, rows, weights: weights.ptr, columns, out, accumulate };
        // SAFETY: `gathered` is readable for a group of this width, and the weights for weight_group_bytes. `rows` is
        // within the group and a multiple of the granularity that the engine requires. `out` has `width + GRAIN` rows
        // of KEY_BLOCK, as was just checked, and is exclusively borrowed.
        unsafe { engine.matmul_at_b(product) };
    }
}
