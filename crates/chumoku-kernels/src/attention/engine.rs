//! The interface to the hardware multipliers of attention: f32 registers ([`super::register_engine`]) or tiles of bf16
//! terms.
//!
//! Attention is written once ([`super::forward`], [`super::backward`]), over blocks of [`Engine::QUERY_BLOCK`] queries
//! and [`KEY_BLOCK`] keys. An engine packs operands in the layout that its multiplier reads. Scores and weights are
//! rows of f32, one row per query, [`SCORE_STRIDE`] apart.

use crate::isa::{Simd, VectorMath};
use crate::low_precision::F32Compute;
use crate::register_tile::ATTENTION_ROW_STRIDE;
use std::marker::PhantomData;
use std::ops::Range;

/// Keys in a block.
pub(crate) const KEY_BLOCK: usize = 128;
/// Key ranges within a block start and end at multiples of this.
pub(crate) const GRAIN: usize = 32;
/// Stride of the rows of a score block: not a multiple of 4096 bytes, so that rows fall into different cache sets.
pub(crate) const SCORE_STRIDE: usize = ATTENTION_ROW_STRIDE;

/// A range of the columns of a key block, in whole grains: `from..to`, at most [`KEY_BLOCK`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyColumns {
    from: usize,
    to: usize,
}

impl KeyColumns {
    /// Creates the range `from..to`.
    ///
    /// # Panics
    /// If the columns are not whole grains of a block.
    #[inline(always)]
    pub(super) fn new(from: usize, to: usize) -> Self {
        assert!(from <= to && to <= KEY_BLOCK && from.is_multiple_of(GRAIN) && to.is_multiple_of(GRAIN));
        KeyColumns { from, to }
    }

    /// Returns the first column.
    #[inline(always)]
    pub(super) fn from(self) -> usize {
        self.from
    }

    /// Returns the end of the range, exclusive.
    #[inline(always)]
    pub(super) fn to(self) -> usize {
        self.to
    }

    /// Returns the number of grains.
    #[inline(always)]
    pub(super) fn grains(self) -> usize {
        (self.to - self.from) / GRAIN
    }

    /// Returns a range of the grains.
    #[inline(always)]
    pub(super) fn grain_range(self, grains: Range<usize>) -> Self {
        assert!(grains.end <= self.grains());
        KeyColumns::new(self.from + grains.start * GRAIN, self.from + grains.end * GRAIN)
    }
}

/// The columns of a block's row to compute, and the range of those that the query sees.
#[derive(Clone, Copy, Debug)]
pub(super) struct VisibleSpan {
    columns: KeyColumns,
    first_visible: usize,
    end_visible: usize,
}

impl VisibleSpan {
    /// Restricts the visible range to `columns`.
    #[inline(always)]
    pub(super) fn new(columns: KeyColumns, visible: Range<usize>) -> Self {
        let clamp = |col: usize| col.clamp(columns.from, columns.to);
        VisibleSpan { columns, first_visible: clamp(visible.start), end_visible: clamp(visible.end) }
    }

    /// Returns the same columns with none of them visible.
    #[inline(always)]
    pub(super) fn hidden(self) -> Self {
        VisibleSpan { end_visible: self.first_visible, ..self }
    }

    /// Returns the columns to compute.
    #[inline(always)]
    pub(super) fn columns(&self) -> KeyColumns {
        self.columns
    }

    /// Returns the first visible column, if any is visible.
    #[inline(always)]
    pub(super) fn first_visible(&self) -> usize {
        self.first_visible
    }

    /// Returns the end of the visible columns, exclusive.
    #[inline(always)]
    pub(super) fn end_visible(&self) -> usize {
        self.end_visible
    }

    /// Returns the visible columns.
    #[inline(always)]
    pub(super) fn visible(&self) -> Range<usize> {
        self.first_visible..self.end_visible
    }

    /// Returns whether all computed columns are visible.
    #[inline(always)]
    pub(super) fn is_fully_visible(&self) -> bool {
        self.first_visible <= self.columns.from && self.columns.to <= self.end_visible
    }

    /// Returns whether no column is visible.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.first_visible >= self.end_visible
    }
}

/// Rows to pack, of f32 or, for an engine that reads it, bf16. All rows are inside of the slice that they were created
/// from.
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
    /// Returns `rows` rows of `cols` values, `stride` apart. 16-bit values are treated as bf16.
    ///
    /// # Panics
    /// If the rows are outside `data`.
    #[inline(always)]
    pub(super) fn from_slice<T: F32Compute>(data: &'a [T], rows: usize, cols: usize, stride: usize) -> Self {
        assert!(rows == 0 || (rows - 1) * stride + cols <= data.len());
        let data = data.as_ptr().cast();
        SourceMatrix { data, is_bf16: !T::IS_F32, stride, rows, cols, marker: PhantomData }
    }

    /// Returns `rows` rows from `first`.
    ///
    /// # Panics
    /// If there are fewer rows.
    #[inline(always)]
    pub(super) fn row_range(self, first: usize, rows: usize) -> Self {
        assert!(first + rows <= self.rows);
        SourceMatrix { data: self.element_ptr(first, 0), rows, ..self }
    }

    /// Returns whether the elements are bf16.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    #[inline(always)]
    pub(super) fn is_bf16(&self) -> bool {
        self.is_bf16
    }

    /// Stride of the rows.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    #[inline(always)]
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// Returns the number of rows.
    #[inline(always)]
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns.
    #[inline(always)]
    pub(super) fn cols(&self) -> usize {
        self.cols
    }

    /// Returns a pointer to the element of row `row` and column `col`. Elements of the matrix may be read.
    #[inline(always)]
    pub(super) fn element_ptr(&self, row: usize, col: usize) -> *const u8 {
        self.data.wrapping_add((row * self.stride + col) * if self.is_bf16 { 2 } else { 4 })
    }

    /// Iterates over the rows of an f32 matrix.
    ///
    /// # Panics
    /// If the elements are bf16.
    #[inline(always)]
    pub(super) fn rows_f32(self) -> SourceMatrixRows<'a> {
        assert!(!self.is_bf16);
        SourceMatrixRows { matrix: self, next: 0 }
    }
}

/// Iterator over the rows of an f32 [`SourceMatrix`].
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
        // SAFETY: row `i` exists. The constructor has checked that all rows are inside of the slice, which holds f32
        // and is borrowed for 'a.
        Some(unsafe { std::slice::from_raw_parts(self.matrix.element_ptr(i, 0).cast(), self.matrix.cols) })
    }
}

/// A multiplier of blocks. Sizes are in bytes. Pointers to packed operands must be aligned to 64 bytes. Memory that is
/// read must be initialized; any bit pattern is valid.
///
/// [`super::operands`] wraps its functions in safe types that own their buffers.
///
/// # Safety
/// An implementor promises that
///
/// * its functions stay within the sizes that they name, for reads and writes;
/// * sizes are multiples of 64 bytes, so that the next operand is aligned as well;
/// * if it does not pack weights, [`Engine::store_weights`] and [`Engine::store_weight_rows`] write f32 at
///   `row · SCORE_STRIDE + col`, and [`Engine::pv_matmul`] and [`Engine::matmul_at_b`] read no more than rows of
///   [`SCORE_STRIDE`] values from there.
pub(crate) unsafe trait Engine: Copy {
    /// Its vector instruction set.
    type S: Simd;
    /// Queries in a block: a multiple of 16.
    const QUERY_BLOCK: usize;
    /// bf16 terms per value; 0 if products are f32.
    const TERMS: usize;
    /// Degree of the polynomial in exp, chosen to match the accuracy of the products.
    const EXP_DEGREE: usize;
    /// True if weights are packed separately from the scores, by [`Engine::store_weights`]. Otherwise they overwrite
    /// the scores.
    const PACKS_WEIGHTS: bool;

    /// True if the engine packs rows of bf16 as they are.
    const READS_BF16: bool;
    /// True if the sums of a key block are computed separately and then added to the total, because longer sums lose
    /// digits.
    const SEPARATE_BLOCK_SUMS: bool;
    /// True if products run faster between the rows of the softmax than before it, which pays off for many products.
    const INTERLEAVES: bool;
    /// Queries whose weights the backward pass multiplies at a time: a multiple of [`Engine::QUERY_BLOCK`] and of
    /// [`GRAIN`].
    const QUERY_GROUP: usize;
    /// Row counts of [`Engine::matmul_at_b`] are multiples of this. It is even and divides [`Engine::QUERY_BLOCK`].
    const ROW_GRANULARITY: usize;

    /// Returns the vector instruction set.
    fn simd(self) -> Self::S;

    /// Runs a task as a separate function with the engine's instructions, so that it is compiled once instead of per
    /// caller.
    fn run<T: EngineTask<Self>>(self, task: T);

    /// Size of a packed LHS with [`Engine::QUERY_BLOCK`] rows of this depth.
    fn lhs_bytes(depth: usize) -> usize;
    /// Returns whether consecutive packed LHS blocks of this depth can also serve as the transposed LHS.
    fn reuses_lhs(depth: usize) -> bool;
    /// Size of the operand B of `A Bᵀ`: [`KEY_BLOCK`] rows of this depth.
    fn rhs_transposed_bytes(depth: usize) -> usize;
    /// Size of the operand B of `A B`: [`KEY_BLOCK`] rows of `cols` columns.
    fn rhs_bytes(cols: usize) -> usize;

    /// Packs rows as the LHS of a product over their columns; missing rows up to [`Engine::QUERY_BLOCK`] are 0.
    ///
    /// # Safety
    /// * `from` must have at most [`Engine::QUERY_BLOCK`] rows.
    /// * `to` must be writable for [`Engine::lhs_bytes`] of its columns.
    unsafe fn pack_lhs(self, from: SourceMatrix<'_>, to: *mut u8);
    /// Packs up to [`KEY_BLOCK`] rows as the operand B of `A Bᵀ`; missing rows up to the next [`GRAIN`] are 0.
    ///
    /// # Safety
    /// * `from` must have at most [`KEY_BLOCK`] rows.
    /// * `to` must be writable for [`Engine::rhs_transposed_bytes`] of its columns.
    unsafe fn pack_rhs_transposed(self, from: SourceMatrix<'_>, to: *mut u8);
    /// Packs up to [`KEY_BLOCK`] rows as the operand B of `A B`; missing rows up to the next [`GRAIN`] are 0.
    ///
    /// # Safety
    /// * `from` must have at most [`KEY_BLOCK`] rows.
    /// * `to` must be writable for [`Engine::rhs_bytes`] of its columns.
    unsafe fn pack_rhs(self, from: SourceMatrix<'_>, to: *mut u8);

    /// Computes `out = left · keys` for some columns of the block, `depth` deep. Only the first `rows` rows are
    /// required; the others may be computed or left unchanged.
    ///
    /// # Shapes
    /// `left` ([`Engine::QUERY_BLOCK`], depth), `keys` (depth, [`KEY_BLOCK`]), `out` ([`Engine::QUERY_BLOCK`],
    /// [`KEY_BLOCK`]), rows [`SCORE_STRIDE`] apart.
    ///
    /// # Safety
    /// * `rows` must be at most [`Engine::QUERY_BLOCK`].
    /// * `left` must be readable for [`Engine::lhs_bytes`], `keys` for [`Engine::rhs_transposed_bytes`] of this depth.
    /// * `out` must be writable for [`Engine::QUERY_BLOCK`] rows of [`SCORE_STRIDE`], and overlap neither operand.
    unsafe fn qk_matmul(self, product: QkMatmul);

    /// Writes two vectors of weights to row `row`, from column `col`.
    ///
    /// # Safety
    /// * `weights` must be writable for [`Engine::lhs_bytes`] of [`KEY_BLOCK`], or be a score block if the engine does
    ///   not pack weights.
    /// * `row` must be below [`Engine::QUERY_BLOCK`].
    /// * `col` must be a multiple of two vectors below [`KEY_BLOCK`].
    unsafe fn store_weights(self, weights: *mut u8, row: usize, col: usize, pair: [<Self::S as VectorMath>::V; 2]);

    /// Computes `out (+)= weights · values` over the key range `columns` of the block, for the columns of `panels`,
    /// [`GRAIN`] each. Only the first `rows` rows are required, as in [`Engine::qk_matmul`].
    ///
    /// # Shapes
    /// `weights` ([`Engine::QUERY_BLOCK`], [`KEY_BLOCK`]), `values` ([`KEY_BLOCK`], cols), `out`
    /// ([`Engine::QUERY_BLOCK`], cols).
    ///
    /// # Safety
    /// * `rows` must be at most [`Engine::QUERY_BLOCK`].
    /// * `weights` must be readable for the area that [`Engine::store_weights`] writes, `values` for
    ///   [`Engine::rhs_bytes`] of `cols`.
    /// * `out` must be readable and writable for [`Engine::QUERY_BLOCK`] rows of `cols`, a multiple of [`GRAIN`], and
    ///   overlap neither operand.
    /// * `panels` must end at `cols / GRAIN` or before.
    unsafe fn pv_matmul(self, product: PvMatmul);

    /// Size of up to [`Engine::QUERY_GROUP`] rows of `cols` columns, packed by [`Engine::pack_lhs_transposed`].
    fn lhs_transposed_bytes(cols: usize) -> usize;
    /// Size of the weights of a group, for [`Engine::store_weight_rows`].
    fn weight_group_bytes() -> usize;

    /// Packs up to [`Engine::QUERY_GROUP`] rows as the transposed LHS of a product over the rows; missing rows up to a
    /// multiple of [`Engine::ROW_GRANULARITY`] are 0.
    ///
    /// # Safety
    /// * `from` must have at most [`Engine::QUERY_GROUP`] rows.
    /// * `to` must be writable for [`Engine::lhs_transposed_bytes`] of its columns.
    unsafe fn pack_lhs_transposed(self, from: SourceMatrix<'_>, to: *mut u8);

    /// Writes two vectors of weights to each of rows `row` (even) and `row + 1` of a group, from column `col`.
    ///
    /// # Safety
    /// * `weights` must be writable for [`Engine::weight_group_bytes`].
    /// * `row` must be even and below [`Engine::QUERY_GROUP`].
    /// * `col` must be a multiple of two vectors below [`KEY_BLOCK`].
    unsafe fn store_weight_rows(
        self,
        weights: *mut u8,
        row: usize,
        col: usize,
        pairs: [[<Self::S as VectorMath>::V; 2]; 2],
    );

    /// Computes `out[c][k] (+)= Σ_rows gathered[row][c] · weights[row][k]` over `rows` rows, a multiple of
    /// [`Engine::ROW_GRANULARITY`], for the key range `columns` of the block.
    ///
    /// # Shapes
    /// `gathered` ([`Engine::QUERY_GROUP`], cols), `weights` ([`Engine::QUERY_GROUP`], [`KEY_BLOCK`]), `out` (cols,
    /// [`KEY_BLOCK`]) and space for [`GRAIN`] more rows.
    ///
    /// # Safety
    /// * `gathered` must be readable for [`Engine::lhs_transposed_bytes`] of `cols`, or, if [`Engine::reuses_lhs`]
    ///   returns true, for a group of packed LHS blocks of this depth. `weights` must be readable for
    ///   [`Engine::weight_group_bytes`].
    /// * `rows` must be a multiple of [`Engine::ROW_GRANULARITY`], at most [`Engine::QUERY_GROUP`].
    /// * `out` must be readable and writable for `cols + GRAIN` rows of [`KEY_BLOCK`], and overlap neither operand.
    unsafe fn matmul_at_b(self, product: MatmulAtB);
}

/// The operands of [`Engine::qk_matmul`].
pub(crate) struct QkMatmul {
    pub(super) left: *const u8,
    pub(super) rows: usize,
    pub(super) keys: *const u8,
    pub(super) depth: usize,
    pub(super) columns: KeyColumns,
    pub(super) out: *mut f32,
}

/// The operands of [`Engine::pv_matmul`].
pub(crate) struct PvMatmul {
    pub(super) weights: *const u8,
    pub(super) rows: usize,
    pub(super) columns: KeyColumns,
    pub(super) values: *const u8,
    pub(super) panels: Range<usize>,
    pub(super) out: *mut f32,
    pub(super) cols: usize,
    pub(super) accumulate: bool,
}

/// The operands of [`Engine::matmul_at_b`].
pub(crate) struct MatmulAtB {
    pub(super) gathered: *const u8,
    pub(super) cols: usize,
    pub(super) rows: usize,
    pub(super) weights: *const u8,
    pub(super) columns: KeyColumns,
    pub(super) out: *mut f32,
    pub(super) accumulate: bool,
}

/// An operation on a block with a known engine, compiled as a separate function: see [`Engine::run`].
pub(super) trait EngineTask<E> {
    /// Runs the body. Implementations are `#[inline(always)]`.
    fn eval(self, engine: E);
}

/// An operation that is written once for every engine, like [`SimdOp`](crate::isa::SimdOp) for every instruction set.
pub(crate) trait EngineOp {
    /// Runs the body. Implementations are `#[inline(always)]`.
    fn eval<E: Engine>(self, engine: E);
}
