//! The blocks that attention multiplies, each of which owns its memory and knows its size: packed queries, keys and values
//! their depth; scores, weights and sums their rows.
//!
//! An [`Engine`] works on pointers. Here they are taken from buffers that are as large as it asks for, so that whoever
//! multiplies these blocks cannot reach beyond them. All memory is working memory ([`crate::memory::Scratch`]): it is aligned,
//! and it always holds some numbers, if only old ones, so that reading what was not packed is wrong but not unsound.

use super::engine::{Engine, EngineTask, GRAIN, KEY_BLOCK, KeyColumns, SCORE_STRIDE, SourceMatrix};
use crate::isa::{Simd, VectorMath};
use crate::memory::ScratchBuffer;
use std::marker::PhantomData;
use std::ops::Range;

/// Bytes of a number.
const F32: usize = size_of::<f32>();

/// Rows packed as the left operand A of `A B` and `A Bᵀ`, block by block: queries, or gradients of outputs.
/// (blocks, [`Engine::QUERIES`], depth)
#[derive(Debug)]
pub(super) struct PackedLhs<'a, E> {
    bytes: ScratchBuffer<'a>,
    depth: usize,
    engine: PhantomData<E>,
}

impl<'a, E: Engine> PackedLhs<'a, E> {
    /// Bytes of so many blocks.
    pub(super) fn size(blocks: usize, depth: usize) -> usize {
        blocks * E::lhs_bytes(depth)
    }

    pub(super) fn new(bytes: ScratchBuffer<'a>, depth: usize) -> Self {
        PackedLhs { bytes, depth, engine: PhantomData }
    }

    /// Packs up to [`Engine::QUERIES`] rows as block `block`.
    #[inline(always)]
    pub(super) fn pack(&mut self, engine: E, block: usize, rows: SourceMatrix<'_>) {
        assert!(rows.rows() <= E::QUERY_BLOCK && rows.cols() == self.depth);
        let size = E::lhs_bytes(self.depth);
        let to = self.bytes.range_mut_ptr(block * size, size);
        engine.run(PackLhs { rows, to });
    }

    /// Block `block`, readable for [`Engine::left_size`].
    #[inline(always)]
    fn block(&self, block: usize) -> *const u8 {
        let size = E::lhs_bytes(self.depth);
        self.bytes.range_ptr(block * size, size)
    }
}

/// [`Left::pack`], which has found that there are at most QUERIES rows, and that `to` is left_size of their depth, a
/// multiple of 64 bytes from the start of a buffer that is aligned to them.
struct PackLhs<'a> {
    rows: SourceMatrix<'a>,
    to: *mut u8,
}

impl<E: Engine> EngineTask<E> for PackLhs<'_> {
    #[inline(always)]
    fn eval(self, engine: E) {
        // SAFETY: `pack` has found as many rows and as much room as the engine asks for.
        unsafe { engine.pack_lhs(self.rows, self.to) };
    }
}

/// Rows packed as the operand B of `A Bᵀ`: keys (`Q Kᵀ`), or values (`dO Vᵀ`). (depth, [`KEYS`])
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

    /// Packs up to [`KEYS`] rows.
    #[inline(always)]
    pub(super) fn pack(&mut self, engine: E, rows: SourceMatrix<'_>) {
        assert!(rows.rows() <= KEY_BLOCK && rows.cols() == self.depth);
        engine.run(PackRhsTransposed { rows, to: self.bytes.as_mut_ptr() });
    }
}

/// [`RightTransposed::pack`], which has found that there are at most KEYS rows; `to` is right_transposed_size of their
/// depth, as `new` has checked.
struct PackRhsTransposed<'a> {
    rows: SourceMatrix<'a>,
    to: *mut u8,
}

impl<E: Engine> EngineTask<E> for PackRhsTransposed<'_> {
    #[inline(always)]
    fn eval(self, engine: E) {
        // SAFETY: `pack` and `new` have found as many rows and as much room as the engine asks for.
        unsafe { engine.pack_rhs_transposed(self.rows, self.to) };
    }
}

/// Rows packed as the operand B of `A B`: values (`P V`), or keys (`dS K`). ([`KEYS`], width)
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

    /// Packs up to [`KEYS`] rows.
    #[inline(always)]
    pub(super) fn pack(&mut self, engine: E, rows: SourceMatrix<'_>) {
        assert!(rows.rows() <= KEY_BLOCK && rows.cols() == self.width);
        engine.run(PackRhs { rows, to: self.bytes.as_mut_ptr() });
    }
}

/// [`Right::pack`], which has found that there are at most KEYS rows; `to` is right_size of their width, as `new` has checked.
struct PackRhs<'a> {
    rows: SourceMatrix<'a>,
    to: *mut u8,
}

impl<E: Engine> EngineTask<E> for PackRhs<'_> {
    #[inline(always)]
    fn eval(self, engine: E) {
        // SAFETY: `pack` and `new` have found as many rows and as much room as the engine asks for.
        unsafe { engine.pack_rhs(self.rows, self.to) };
    }
}

/// The scores of a block of queries with a block of keys. ([`Engine::QUERIES`], [`KEYS`]), rows [`STRIDE`] apart.
#[derive(Debug)]
pub(super) struct ScoreBlock<'a, E> {
    data: &'a mut [f32],
    engine: PhantomData<E>,
}

impl<'a, E: Engine> ScoreBlock<'a, E> {
    /// Numbers of a block.
    const LEN: usize = E::QUERY_BLOCK * SCORE_STRIDE;

    pub(super) fn size() -> usize {
        Self::LEN * F32
    }

    #[inline(always)]
    pub(super) fn new(numbers: &'a mut [f32]) -> Self {
        ScoreBlock { data: &mut numbers[..Self::LEN], engine: PhantomData }
    }

    /// `S = Q Kᵀ` for the first `rows` rows of block `block` of the queries and these keys.
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
        // SAFETY: `left` is readable for left_size and `right` for right_transposed_size of one depth; `out` is LEN numbers,
        // which are borrowed exclusively and so overlap neither.
        unsafe { engine.qk_matmul(left, rows, right, keys.depth, columns, out) };
    }

    /// Row `i`: [`STRIDE`] numbers, of which [`KEYS`] are scores.
    #[inline(always)]
    pub(super) fn row(&self, i: usize) -> &[f32] {
        &self.data[i * SCORE_STRIDE..][..SCORE_STRIDE]
    }

    /// Row `i`, to be changed.
    #[inline(always)]
    pub(super) fn row_mut(&mut self, i: usize) -> &mut [f32] {
        &mut self.data[i * SCORE_STRIDE..][..SCORE_STRIDE]
    }
}

/// Room for the scores of a block, and for the weights that they become: where the engine packs weights beside the
/// scores, else over them.
#[derive(Debug)]
pub(super) struct ScoreTile<'a, E> {
    pub(super) scores: ScoreBlock<'a, E>,
    /// Nothing where weights go over the scores.
    packed: ScratchBuffer<'a>,
}

impl<'a, E: Engine> ScoreTile<'a, E> {
    /// Bytes of scores and of weights.
    pub(super) fn sizes() -> [usize; 2] {
        [ScoreBlock::<E>::size(), if E::PACKS_WEIGHTS { E::lhs_bytes(KEY_BLOCK) } else { 0 }]
    }

    pub(super) fn new([scores, weights]: [ScratchBuffer<'a>; 2]) -> Self {
        assert!(weights.len() >= Self::sizes()[1]);
        ScoreTile { scores: ScoreBlock::new(scores.into_f32()), packed: weights }
    }

    /// Row `i` of the scores, to be turned into weights.
    #[inline(always)]
    pub(super) fn row(&mut self, i: usize) -> ScoreTileRow<'_, E> {
        assert!(i < E::QUERY_BLOCK);
        let all = self.scores.data.as_mut_ptr();
        let weights = if E::PACKS_WEIGHTS { self.packed.as_mut_ptr() } else { all.cast() };
        // Row i of QUERIES rows of STRIDE numbers.
        ScoreTileRow { scores: all.wrapping_add(i * SCORE_STRIDE), weights, row: i, marker: PhantomData }
    }

    /// The weights.
    #[inline(always)]
    pub(super) fn weights(&self) -> WeightBlock<'_, E> {
        let at = if E::PACKS_WEIGHTS { self.packed.as_ptr() } else { self.scores.data.as_ptr().cast() };
        WeightBlock { ptr: at, block: PhantomData }
    }
}

/// One row of a block of scores, and the place of its weights: borrowed exclusively, though they may be the same.
///
/// `scores` may be read for [`STRIDE`] numbers, and [`Engine::put`] may write row `row` of `weights`.
#[derive(Debug)]
pub(super) struct ScoreTileRow<'a, E> {
    scores: *const f32,
    weights: *mut u8,
    row: usize,
    marker: PhantomData<&'a mut E>,
}

impl<'a, E: Engine> ScoreTileRow<'a, E> {
    /// A row of [`STRIDE`] scores over which its weights are written, for an engine that does not pack them.
    pub(super) fn from_scores(scores: &'a mut [f32]) -> Self {
        assert!(scores.len() >= SCORE_STRIDE && !E::PACKS_WEIGHTS);
        let scores = scores.as_mut_ptr();
        // An engine that does not pack weights writes row 0 from there on, as f32, and no other.
        ScoreTileRow { scores, weights: scores.cast(), row: 0, marker: PhantomData }
    }

    /// The vector of scores from column `col`.
    ///
    /// # Safety
    /// The vector must end within [`STRIDE`] columns.
    #[inline(always)]
    pub(super) unsafe fn load(&self, simd: E::S, col: usize) -> <E::S as VectorMath>::V {
        // SAFETY: a line may be read for STRIDE numbers, within which the caller keeps the vector.
        unsafe { simd.load_ptr(self.scores.add(col)) }
    }

    /// Writes two vectors of weights from column `col`.
    ///
    /// # Safety
    /// `col` must be a multiple of two vectors below [`KEYS`].
    #[inline(always)]
    pub(super) unsafe fn store_weights(&mut self, engine: E, col: usize, pair: [<E::S as VectorMath>::V; 2]) {
        // SAFETY: a line has a row of a block of weights for itself; the caller promises a pair of vectors of it.
        unsafe { engine.store_weights(self.weights, self.row, col, pair) };
    }

    /// The scores of some columns. They may be read until weights are put.
    #[inline(always)]
    pub(super) fn scores(&self, columns: Range<usize>) -> &[f32] {
        assert!(columns.start <= columns.end && columns.end <= SCORE_STRIDE);
        // SAFETY: a line may be read for STRIDE numbers, of which these are some; `put`, which may write them, borrows the
        // line exclusively.
        unsafe { std::slice::from_raw_parts(self.scores.add(columns.start), columns.len()) }
    }
}

/// The left operand of a product over keys: a block of weights, or of gradients of scores.
/// ([`Engine::QUERIES`], [`KEYS`]), readable for as much as [`Engine::put`] may write.
#[derive(Clone, Copy, Debug)]
pub(super) struct WeightBlock<'a, E> {
    ptr: *const u8,
    block: PhantomData<&'a E>,
}

/// Sums of weighted rows, for each query of some blocks. (blocks · [`Engine::QUERIES`], width rounded up to [`GRAIN`])
#[derive(Debug)]
pub(super) struct QueryAccumulator<'a, E> {
    data: &'a mut [f32],
    /// Room for the sums of one block, where those of a block of keys are made apart; else nothing.
    block_sums: &'a mut [f32],
    cols: usize,
    engine: PhantomData<E>,
}

impl<'a, E: Engine> QueryAccumulator<'a, E> {
    /// Bytes of the sums of so many blocks.
    pub(super) fn size(blocks: usize, width: usize) -> usize {
        blocks * E::QUERY_BLOCK * width.next_multiple_of(GRAIN) * F32
    }

    /// Sums to which blocks of keys are added as they come.
    pub(super) fn new(numbers: ScratchBuffer<'a>, width: usize) -> Self {
        QueryAccumulator {
            data: numbers.into_f32(),
            block_sums: &mut [],
            cols: width.next_multiple_of(GRAIN),
            engine: PhantomData,
        }
    }

    /// Sums to which those of a block of keys are added when they are whole, if the engine asks for it: `part` is as large
    /// as a block.
    pub(super) fn with_block_sums(numbers: ScratchBuffer<'a>, part: ScratchBuffer<'a>, width: usize) -> Self {
        QueryAccumulator { block_sums: part.into_f32(), ..QueryAccumulator::new(numbers, width) }
    }

    /// How many grains wide they are.
    #[inline(always)]
    pub(super) fn panels(&self) -> usize {
        self.cols / GRAIN
    }

    /// Distance of the rows.
    #[inline(always)]
    pub(super) fn cols(&self) -> usize {
        self.cols
    }

    /// The sums of row `row` of all blocks, and what follows them up to the next row.
    #[inline(always)]
    pub(super) fn row_mut(&mut self, row: usize) -> &mut [f32] {
        &mut self.data[row * self.cols..][..self.cols]
    }

    /// The rows from `row` on.
    #[inline(always)]
    pub(super) fn rows(&self, row: usize) -> &[f32] {
        &self.data[row * self.cols..]
    }

    /// `O (+)= P V` for the first `rows` rows of block `block`, over these keys, for the columns of `panels`.
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
        let right = values.bytes.as_ptr();
        if !E::SEPARATE_BLOCK_SUMS || !accumulate || self.block_sums.is_empty() {
            // SAFETY: the weights are readable for a block, the values for right_size of a width that rounds up to `cols`,
            // for which it is the same; `out` is QUERIES rows of `cols`, exclusively borrowed; the panels are inside.
            unsafe { engine.pv_matmul(weights.ptr, rows, columns, right, panels, out.as_mut_ptr(), cols, accumulate) };
            return;
        }
        let part = &mut self.block_sums[..len];
        // SAFETY: the weights and values are readable as they are for `out`; `part` is QUERIES rows of `cols` as well,
        // exclusively borrowed.
        unsafe { engine.pv_matmul(weights.ptr, rows, columns, right, panels.clone(), part.as_mut_ptr(), cols, false) };
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

/// Queries, or gradients of outputs: rows packed as the left operands, transposed, of products over them, group by group.
/// (groups, [`Engine::GROUP`], width)
#[derive(Debug)]
pub(super) struct PackedLhsTransposed<'a, E> {
    bytes: ScratchBuffer<'a>,
    width: usize,
    engine: PhantomData<E>,
}

impl<'a, E: Engine> PackedLhsTransposed<'a, E> {
    /// Bytes of so many groups: none where the left operands are gathered as they are.
    pub(super) fn size(groups: usize, width: usize) -> usize {
        if E::reuses_lhs(width) { 0 } else { groups * E::lhs_transposed_bytes(width) }
    }

    pub(super) fn new(bytes: ScratchBuffer<'a>, width: usize) -> Self {
        PackedLhsTransposed { bytes, width, engine: PhantomData }
    }

    /// Packs up to [`Engine::GROUP`] rows as group `group`, if they are not gathered as the left operands that they are.
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

    /// Group `group`, which is in `left` where that is gathered as it is. Readable as [`Engine::gather`] asks.
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

/// [`Gathered::pack`], which has found that there are at most GROUP rows, and that `to` is gathered_size of their width, a
/// multiple of 64 bytes from the start of a buffer that is aligned to them.
struct PackLhsTransposed<'a> {
    rows: SourceMatrix<'a>,
    to: *mut u8,
}

impl<E: Engine> EngineTask<E> for PackLhsTransposed<'_> {
    #[inline(always)]
    fn eval(self, engine: E) {
        // SAFETY: `pack` has found as many rows and as much room as the engine asks for.
        unsafe { engine.pack_lhs_transposed(self.rows, self.to) };
    }
}

/// Weights, and gradients of scores, of a group of queries and a block of keys, as they are gathered; with room for the
/// scores, the gradients of weights and the packed gradients of scores of the block of queries at hand. Where the engine does
/// not pack weights, that room is the block's place in the group.
#[derive(Debug)]
pub(super) struct ScoreTileGroup<'a, E> {
    weights: ScratchBuffer<'a>,
    d_scores: ScratchBuffer<'a>,
    /// Of one block; nothing where a block lies in its group.
    scores: &'a mut [f32],
    d_weights: &'a mut [f32],
    d_scores_lhs: ScratchBuffer<'a>,
    engine: PhantomData<E>,
}

impl<'a, E: Engine> ScoreTileGroup<'a, E> {
    /// Bytes of all parts.
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

    /// Where block `block` of the group starts among rows of [`STRIDE`] numbers.
    fn block_offset(block: usize) -> usize {
        assert!(block < E::QUERY_GROUP / E::QUERY_BLOCK);
        block * ScoreBlock::<E>::LEN
    }

    /// The scores of block `block` of the group.
    #[inline(always)]
    pub(super) fn scores(&mut self, block: usize) -> ScoreBlock<'_, E> {
        let first = Self::block_offset(block);
        ScoreBlock::new(if E::PACKS_WEIGHTS { self.scores } else { &mut self.weights.as_f32_mut()[first..] })
    }

    /// The gradients of the weights of block `block` of the group.
    #[inline(always)]
    pub(super) fn d_weights(&mut self, block: usize) -> ScoreBlock<'_, E> {
        let first = Self::block_offset(block);
        ScoreBlock::new(if E::PACKS_WEIGHTS { self.d_weights } else { &mut self.d_scores.as_f32_mut()[first..] })
    }

    /// Rows `i` (even) and `i + 1` of block `block` of the group, to be differentiated.
    #[inline(always)]
    pub(super) fn row_pair(&mut self, block: usize, i: usize) -> ScoreRowPair<'_, E> {
        assert!(i.is_multiple_of(2) && i < E::QUERY_BLOCK);
        let first = Self::block_offset(block);
        let (weights, d_scores) = (self.weights.as_mut_ptr(), self.d_scores.as_mut_ptr());
        let (scores, d_weights, left) = if E::PACKS_WEIGHTS {
            (self.scores.as_ptr(), self.d_weights.as_ptr(), self.d_scores_lhs.as_mut_ptr())
        } else {
            // The block's rows among those of the group, which `first` has found inside.
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

    /// The gradients of scores of block `block` of the group, as the left operand of a product over keys.
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

    /// The weights of the group.
    #[inline(always)]
    pub(super) fn weights(&self) -> WeightGroup<'_, E> {
        WeightGroup { ptr: self.weights.as_ptr(), group: PhantomData }
    }

    /// The gradients of scores of the group.
    #[inline(always)]
    pub(super) fn d_scores(&self) -> WeightGroup<'_, E> {
        WeightGroup { ptr: self.d_scores.as_ptr(), group: PhantomData }
    }
}

/// Two rows of a block, one below the other, and the places of what they become: borrowed exclusively, though some may be the
/// same.
///
/// `scores` and `d_weights` may be read for [`STRIDE`] numbers each. [`Engine::put`] may write rows `row` and `row + 1` of
/// `left`, and [`Engine::put_pair`] the rows from `group_row` of `weights` and `d_scores`.
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
    /// The vectors of scores and of gradients of weights of row `i` (0 or 1) from column `col`.
    ///
    /// # Safety
    /// The vectors must end within [`STRIDE`] columns.
    #[inline(always)]
    pub(super) unsafe fn load(&self, simd: E::S, i: usize, col: usize) -> [<E::S as VectorMath>::V; 2] {
        // No closure: it would be compiled without the instruction set.
        // SAFETY: both rows may be read for STRIDE numbers, within which the caller keeps the vectors.
        unsafe { [simd.load_ptr(self.scores[i].add(col)), simd.load_ptr(self.d_weights[i].add(col))] }
    }

    /// Writes two vectors of the weights, and of the gradients of scores, of both rows from column `col`.
    ///
    /// # Safety
    /// `col` must be a multiple of two vectors below [`KEYS`].
    #[inline(always)]
    pub(super) unsafe fn store(
        &mut self,
        engine: E,
        col: usize,
        weights: [[<E::S as VectorMath>::V; 2]; 2],
        d_scores: [[<E::S as VectorMath>::V; 2]; 2],
    ) {
        // SAFETY: the rows of the block and of the group are this pair's alone, and `group_row` is even, since QUERIES and
        // `row` are; the caller promises a pair of vectors of them.
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

/// The weights of a group: the right operand of a product over queries. ([`Engine::GROUP`], [`KEYS`]), readable for
/// [`Engine::group_size`].
#[derive(Clone, Copy, Debug)]
pub(super) struct WeightGroup<'a, E> {
    ptr: *const u8,
    group: PhantomData<&'a E>,
}

/// Sums for each key of a block, transposed. (width, [`KEYS`]), with room for whole tiles.
#[derive(Debug)]
pub(super) struct KeyAccumulator<'a, E> {
    data: &'a mut [f32],
    engine: PhantomData<E>,
}

impl<'a, E: Engine> KeyAccumulator<'a, E> {
    /// Numbers that a product may write.
    fn len(width: usize) -> usize {
        (width.next_multiple_of(GRAIN) + GRAIN) * KEY_BLOCK
    }

    pub(super) fn size(width: usize) -> usize {
        Self::len(width) * F32
    }

    pub(super) fn new(bytes: ScratchBuffer<'a>) -> Self {
        KeyAccumulator { data: bytes.into_f32(), engine: PhantomData }
    }

    /// Sets all of them to 0.
    pub(super) fn clear(&mut self) {
        self.data.fill(0.0);
    }

    /// Row `c` of the sums, of [`KEYS`] numbers, and those after it.
    #[inline(always)]
    pub(super) fn rows(&self, c: usize) -> &[f32] {
        &self.data[c * KEY_BLOCK..]
    }

    /// `(+)= Rᵀ W` for the first `rows` rows R of a group (a multiple of [`Engine::GATHERED`]) and its weights W, for these
    /// keys. The rows are also those of `left`.
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
        // SAFETY: `gathered` is readable for a group of this width, the weights for group_size; `rows` are some of a group, as
        // many as the engine asks for; `out` has `width + GRAIN` rows of KEYS, as was just checked, and is borrowed exclusively.
        unsafe { engine.matmul_at_b(gathered, width, rows, weights.ptr, columns, out, accumulate) };
    }
}
