//! What multiplies blocks of queries, keys and values: registers of f32 ([`super::registers`]), or tiles of bf16 terms.
//!
//! Attention is written once ([`super::forward`], [`super::backward`]), over blocks of [`Engine::QUERIES`] queries and
//! [`KEYS`] keys; an engine packs operands as its multiplier reads them. Scores and weights are rows of f32,
//! [`STRIDE`] apart, a row for each query.

use crate::isa::{Simd, VectorMath};
use crate::low_precision::F32Compute;
use crate::register_tile::ATTENTION_ROW_STRIDE;
use std::marker::PhantomData;
use std::ops::Range;

/// Keys of a block.
pub(crate) const KEY_BLOCK: usize = 128;
/// Key ranges within a block start and end at multiples of this.
pub(crate) const GRAIN: usize = 32;
/// Distance of the rows of a block of scores: not a multiple of 4096 bytes, so that rows fall into different cache sets.
pub(crate) const SCORE_STRIDE: usize = ATTENTION_ROW_STRIDE;

/// Some of the columns of a block of keys, in whole grains: `from..to`, at most [`KEYS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyColumns {
    from: usize,
    to: usize,
}

impl KeyColumns {
    /// # Panics
    /// If the columns are not whole grains of a block.
    #[inline(always)]
    pub(super) fn new(from: usize, to: usize) -> Self {
        assert!(from <= to && to <= KEY_BLOCK && from.is_multiple_of(GRAIN) && to.is_multiple_of(GRAIN));
        KeyColumns { from, to }
    }

    /// The first.
    #[inline(always)]
    pub(super) fn from(self) -> usize {
        self.from
    }

    /// One beyond the last.
    #[inline(always)]
    pub(super) fn to(self) -> usize {
        self.to
    }

    /// How many grains they are.
    #[inline(always)]
    pub(super) fn grains(self) -> usize {
        (self.to - self.from) / GRAIN
    }

    /// Some of the grains.
    #[inline(always)]
    pub(super) fn grain_range(self, grains: Range<usize>) -> Self {
        assert!(grains.end <= self.grains());
        KeyColumns::new(self.from + grains.start * GRAIN, self.from + grains.end * GRAIN)
    }
}

/// The columns of a block's row that are computed, and those of them whose keys the query sees.
#[derive(Clone, Copy, Debug)]
pub(super) struct VisibleSpan {
    columns: KeyColumns,
    first_visible: usize,
    end_visible: usize,
}

impl VisibleSpan {
    /// Those of `columns` that are in `seen`.
    #[inline(always)]
    pub(super) fn new(columns: KeyColumns, seen: Range<usize>) -> Self {
        let clamp = |col: usize| col.clamp(columns.from, columns.to);
        VisibleSpan { columns, first_visible: clamp(seen.start), end_visible: clamp(seen.end) }
    }

    /// The same columns, of which none is seen.
    #[inline(always)]
    pub(super) fn hidden(self) -> Self {
        VisibleSpan { end_visible: self.first_visible, ..self }
    }

    /// What is computed.
    #[inline(always)]
    pub(super) fn columns(&self) -> KeyColumns {
        self.columns
    }

    /// The first column that is seen, if any is.
    #[inline(always)]
    pub(super) fn first_visible(&self) -> usize {
        self.first_visible
    }

    /// One beyond the last column that is seen.
    #[inline(always)]
    pub(super) fn end_visible(&self) -> usize {
        self.end_visible
    }

    /// What is seen.
    #[inline(always)]
    pub(super) fn visible(&self) -> Range<usize> {
        self.first_visible..self.end_visible
    }

    /// Whether all that is computed is seen.
    #[inline(always)]
    pub(super) fn is_fully_visible(&self) -> bool {
        self.first_visible <= self.columns.from && self.columns.to <= self.end_visible
    }

    /// Whether nothing is seen.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.first_visible >= self.end_visible
    }
}

/// Rows to be packed, of f32 or (for an engine that reads it) bf16. All of them are inside the slice that it was made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct SourceMatrix<'a> {
    data: *const u8,
    is_bf16: bool,
    stride: usize,
    rows: usize,
    cols: usize,
    marker: PhantomData<&'a [u8]>,
}

impl<'a> SourceMatrix<'a> {
    /// `rows` rows of `cols` numbers, `stride` apart. Numbers of 16 bits are taken for bf16.
    ///
    /// # Panics
    /// If the rows are not inside `data`.
    #[inline(always)]
    pub(super) fn from_slice<T: F32Compute>(data: &'a [T], rows: usize, cols: usize, stride: usize) -> Self {
        assert!(rows == 0 || (rows - 1) * stride + cols <= data.len());
        let data = data.as_ptr().cast();
        SourceMatrix { data, is_bf16: !T::IS_F32, stride, rows, cols, marker: PhantomData }
    }

    /// `rows` rows from `first`.
    ///
    /// # Panics
    /// If there are not so many.
    #[inline(always)]
    pub(super) fn row_range(self, first: usize, rows: usize) -> Self {
        assert!(first + rows <= self.rows);
        SourceMatrix { data: self.element_ptr(first, 0), rows, ..self }
    }

    /// Whether the elements are bf16.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    #[inline(always)]
    pub(super) fn is_bf16(&self) -> bool {
        self.is_bf16
    }

    /// Distance of the rows.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    #[inline(always)]
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// Number of rows.
    #[inline(always)]
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    #[inline(always)]
    pub(super) fn cols(&self) -> usize {
        self.cols
    }

    /// Where the element of row `row` and column `col` lies. What lies in the matrix may be read.
    #[inline(always)]
    pub(super) fn element_ptr(&self, row: usize, col: usize) -> *const u8 {
        self.data.wrapping_add((row * self.stride + col) * if self.is_bf16 { 2 } else { 4 })
    }

    /// The rows, of f32.
    ///
    /// # Panics
    /// If the elements are bf16.
    #[inline(always)]
    pub(super) fn rows_f32(self) -> SourceMatrixRows<'a> {
        assert!(!self.is_bf16);
        SourceMatrixRows { matrix: self, next: 0 }
    }
}

/// The rows of a [`Matrix`] of f32, one after another.
#[derive(Clone, Debug)]
pub(super) struct SourceMatrixRows<'a> {
    matrix: SourceMatrix<'a>,
    next: usize,
}

impl<'a> Iterator for SourceMatrixRows<'a> {
    type Item = &'a [f32];

    #[inline(always)]
    fn next(&mut self) -> Option<&'a [f32]> {
        let i = self.next;
        if i == self.matrix.rows {
            return None;
        }
        self.next += 1;
        // SAFETY: row `i` exists, and all rows were found to be inside the slice that the matrix was made of, which is of f32
        // and borrowed for 'a.
        Some(unsafe { std::slice::from_raw_parts(self.matrix.element_ptr(i, 0).cast(), self.matrix.cols) })
    }
}

/// A multiplier of blocks. Sizes are in bytes. Pointers to packed operands must be aligned to 64 bytes, and whatever is read
/// must hold numbers, of which any will do: no bits are wrong.
///
/// [`super::operands`] holds what its functions read and write, and makes them safe.
///
/// # Safety
/// An implementor promises that
///
/// * its functions write no more than the sizes that they name, and read no more than that;
/// * sizes are whole numbers of 64 bytes, so that what comes after an operand is aligned as well;
/// * where it does not pack weights, [`Engine::put`] and [`Engine::put_pair`] write f32 at `row · STRIDE + col`, and
///   [`Engine::weigh`] and [`Engine::gather`] read no more than rows of [`STRIDE`] numbers from there.
pub(crate) unsafe trait Engine: Copy {
    /// Its vectors.
    type S: Simd;
    /// Queries of a block: a multiple of 16.
    const QUERY_BLOCK: usize;
    /// bf16 terms for each number; 0 where products are of f32.
    const TERMS: usize;
    /// Degree of the polynomial in exp: as exact as the products are.
    const EXP_DEGREE: usize;
    /// Whether weights are packed apart from the scores, by [`Engine::put`]; else they are written over the scores.
    const PACKS_WEIGHTS: bool;

    /// Whether it packs rows of bf16 as they are.
    const READS_BF16: bool;
    /// Whether the sums of a block of keys are made apart and then added to the others: longer sums lose digits.
    const SEPARATE_BLOCK_SUMS: bool;
    /// Whether products between rows of the softmax are faster than before it: where there are many of them.
    const INTERLEAVES: bool;
    /// Queries whose weights are gathered at a time in the backward pass: a multiple of [`Engine::QUERIES`] and of
    /// [`GRAIN`].
    const QUERY_GROUP: usize;
    /// Rows that are gathered are a multiple of this, which is even and divides [`Engine::QUERIES`].
    const ROW_GRANULARITY: usize;

    /// The vectors.
    fn simd(self) -> Self::S;

    /// Runs a task as a function of its own, with the engine's instructions: it is compiled once, not for every caller.
    fn run<T: EngineTask<Self>>(self, task: T);

    /// Size of a left operand of [`Engine::QUERIES`] rows and this depth.
    fn lhs_bytes(depth: usize) -> usize;
    /// Whether left operands of this depth that lie one after another can also be gathered, as they are.
    fn reuses_lhs(depth: usize) -> bool;
    /// Size of the operand B of `A Bᵀ`: [`KEYS`] rows of this depth.
    fn rhs_transposed_bytes(depth: usize) -> usize;
    /// Size of the operand B of `A B`: [`KEYS`] rows of so many columns.
    fn rhs_bytes(cols: usize) -> usize;

    /// Packs rows as the left operand of a product over their columns; missing rows up to [`Engine::QUERIES`] are 0.
    ///
    /// # Safety
    /// * `from` must have at most [`Engine::QUERIES`] rows.
    /// * `to` must be writable for [`Engine::left_size`] of its columns.
    unsafe fn pack_lhs(self, from: SourceMatrix<'_>, to: *mut u8);
    /// Packs up to [`KEYS`] rows as the operand B of `A Bᵀ`; missing rows up to the next [`GRAIN`] are 0.
    ///
    /// # Safety
    /// * `from` must have at most [`KEYS`] rows.
    /// * `to` must be writable for [`Engine::right_transposed_size`] of its columns.
    unsafe fn pack_rhs_transposed(self, from: SourceMatrix<'_>, to: *mut u8);
    /// Packs up to [`KEYS`] rows as the operand B of `A B`; missing rows up to the next [`GRAIN`] are 0.
    ///
    /// # Safety
    /// * `from` must have at most [`KEYS`] rows.
    /// * `to` must be writable for [`Engine::right_size`] of its columns.
    unsafe fn pack_rhs(self, from: SourceMatrix<'_>, to: *mut u8);

    /// `out = left · keys` for some columns of the block, `depth` deep. The first `rows` rows are wanted; the others may be
    /// computed or left as they are.
    ///
    /// # Shapes
    /// `left` ([`Engine::QUERIES`], depth), `keys` (depth, [`KEYS`]), `out` ([`Engine::QUERIES`], [`KEYS`]), rows [`STRIDE`]
    /// apart.
    ///
    /// # Safety
    /// * `rows` must be at most [`Engine::QUERIES`].
    /// * `left` must be readable for [`Engine::left_size`], `keys` for [`Engine::right_transposed_size`] of this depth.
    /// * `out` must be writable for [`Engine::QUERIES`] rows of [`STRIDE`], and overlap neither.
    #[allow(clippy::too_many_arguments)]
    unsafe fn qk_matmul(
        self,
        left: *const u8,
        rows: usize,
        keys: *const u8,
        depth: usize,
        columns: KeyColumns,
        out: *mut f32,
    );

    /// Writes the weights of row `row` from column `col`: two vectors.
    ///
    /// # Safety
    /// * `weights` must be writable for [`Engine::left_size`] of [`KEYS`], or a block of scores where it does not pack.
    /// * `row` must be below [`Engine::QUERIES`].
    /// * `col` must be a multiple of two vectors below [`KEYS`].
    unsafe fn store_weights(self, weights: *mut u8, row: usize, col: usize, pair: [<Self::S as VectorMath>::V; 2]);

    /// `out (+)= weights · values` over the keys `columns` of the block, for the columns of `panels`, [`GRAIN`] each. The
    /// first `rows` rows are wanted, as in [`Engine::scores`].
    ///
    /// # Shapes
    /// `weights` ([`Engine::QUERIES`], [`KEYS`]), `values` ([`KEYS`], cols), `out` ([`Engine::QUERIES`], cols).
    ///
    /// # Safety
    /// * `rows` must be at most [`Engine::QUERIES`].
    /// * `weights` must be readable for what [`Engine::put`] writes to, `values` for [`Engine::right_size`] of `cols`.
    /// * `out` must be readable and writable for [`Engine::QUERIES`] rows of `cols`, a multiple of [`GRAIN`], and overlap
    ///   neither.
    /// * `panels` must end at `cols / GRAIN` at the latest.
    #[allow(clippy::too_many_arguments)]
    unsafe fn pv_matmul(
        self,
        weights: *const u8,
        rows: usize,
        columns: KeyColumns,
        values: *const u8,
        panels: Range<usize>,
        out: *mut f32,
        cols: usize,
        accumulate: bool,
    );

    /// Size of up to [`Engine::GROUP`] rows of so many columns, packed by [`Engine::pack_gathered`].
    fn lhs_transposed_bytes(cols: usize) -> usize;
    /// Size of the weights of a group, for [`Engine::put_pair`].
    fn weight_group_bytes() -> usize;

    /// Packs up to [`Engine::GROUP`] rows as the left operand, transposed, of a product over the rows; missing rows up
    /// to a multiple of [`Engine::GATHERED`] are 0.
    ///
    /// # Safety
    /// * `from` must have at most [`Engine::GROUP`] rows.
    /// * `to` must be writable for [`Engine::gathered_size`] of its columns.
    unsafe fn pack_lhs_transposed(self, from: SourceMatrix<'_>, to: *mut u8);

    /// Writes the weights of rows `row` (even) and `row + 1` of a group from column `col`: two vectors of each.
    ///
    /// # Safety
    /// * `weights` must be writable for [`Engine::group_size`].
    /// * `row` must be even and below [`Engine::GROUP`].
    /// * `col` must be a multiple of two vectors below [`KEYS`].
    unsafe fn store_weight_rows(
        self,
        weights: *mut u8,
        row: usize,
        col: usize,
        pairs: [[<Self::S as VectorMath>::V; 2]; 2],
    );

    /// `out[c][k] (+)= Σ_rows gathered[row][c] · weights[row][k]` over `rows` rows (a multiple of [`Engine::GATHERED`]), for the
    /// keys `columns` of the block.
    ///
    /// # Shapes
    /// `gathered` ([`Engine::GROUP`], cols), `weights` ([`Engine::GROUP`], [`KEYS`]), `out` (cols, [`KEYS`]) and room for
    /// [`GRAIN`] rows more.
    ///
    /// # Safety
    /// * `gathered` must be readable for [`Engine::gathered_size`] of `cols`, or, if [`Engine::gathers_left`] says so, for a
    ///   group of left operands of this depth; `weights` for [`Engine::group_size`].
    /// * `rows` must be a multiple of [`Engine::GATHERED`], at most [`Engine::GROUP`].
    /// * `out` must be readable and writable for `cols + GRAIN` rows of [`KEYS`], and overlap neither.
    #[allow(clippy::too_many_arguments)]
    unsafe fn matmul_at_b(
        self,
        gathered: *const u8,
        cols: usize,
        rows: usize,
        weights: *const u8,
        columns: KeyColumns,
        out: *mut f32,
        accumulate: bool,
    );
}

/// What is done with a block by an engine that is known, in a function of its own: see [`Engine::run`].
pub(super) trait EngineTask<E> {
    /// The body; implementations are `#[inline(always)]`.
    fn eval(self, engine: E);
}

/// Code that multiplies blocks, written once for every engine, as [`Op`](crate::isa::Op) is for every instruction set.
pub(crate) trait EngineOp {
    /// The body; implementations are `#[inline(always)]`.
    fn eval<E: Engine>(self, engine: E);
}
