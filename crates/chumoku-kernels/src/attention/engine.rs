//! What multiplies blocks of queries, keys and values: registers of f32 ([`super::registers`]), or tiles of bf16 terms.
//!
//! Attention is written once ([`super::forward`], [`super::backward`]), over blocks of [`Engine::QUERIES`] queries and
//! [`KEYS`] keys; an engine packs operands as its multiplier reads them. Scores and weights are rows of f32,
//! [`STRIDE`] apart, a row for each query.

use crate::isa::Simd;
use crate::register_tile::ACROSS;
use std::ops::Range;

/// Keys of a block.
pub(crate) const KEYS: usize = 128;
/// Key ranges within a block start and end at multiples of this.
pub(crate) const GRAIN: usize = 32;
/// Distance of the rows of a block of scores: not a multiple of 4096 bytes, so that rows fall into different cache sets.
pub(crate) const STRIDE: usize = ACROSS;

/// Rows to be packed, of f32 or (for an engine that reads it) bf16.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix {
    /// The first element.
    pub(crate) data: *const u8,
    /// Whether the elements are bf16.
    pub(crate) is_bf16: bool,
    /// Distance of the rows.
    pub(crate) stride: usize,
    /// Number of rows.
    pub(crate) rows: usize,
    /// Number of columns.
    pub(crate) cols: usize,
}

impl Matrix {
    /// `rows` rows from `first`.
    pub(crate) fn rows(self, first: usize, rows: usize) -> Matrix {
        Matrix { data: self.at(first, 0), rows, ..self }
    }

    /// Where the element of row `row` and column `col` lies.
    pub(crate) fn at(&self, row: usize, col: usize) -> *const u8 {
        self.data.wrapping_add((row * self.stride + col) * if self.is_bf16 { 2 } else { 4 })
    }

    /// Row `i`.
    ///
    /// # Safety
    /// The row must be readable and f32, and `i` below `rows`.
    pub(super) unsafe fn row<'a>(&self, i: usize) -> &'a [f32] {
        debug_assert!(i < self.rows && !self.is_bf16);
        // SAFETY: the caller promises the row.
        unsafe { std::slice::from_raw_parts(self.at(i, 0).cast(), self.cols) }
    }
}

/// A multiplier of blocks. Sizes are in bytes; buffers are aligned to 64.
///
/// # Safety
/// Functions write no more than the sizes that they name, and read no more than what was packed.
pub(crate) unsafe trait Engine: Copy {
    /// Its vectors.
    type S: Simd;
    /// Queries of a block: a multiple of 16.
    const QUERIES: usize;
    /// bf16 terms for each number; 0 where products are of f32.
    const TERMS: usize;
    /// Degree of the polynomial in exp: as exact as the products are.
    const DEGREE: usize;
    /// Whether weights are packed apart from the scores, by [`Engine::put`]; else they are written over the scores.
    const PACKS_WEIGHTS: bool;

    /// Whether it packs rows of bf16 as they are.
    const READS_BF16: bool;
    /// Whether the sums of a block of keys are made apart and then added to the others: longer sums lose digits.
    const SUMS_APART: bool;
    /// Whether products between rows of the softmax are faster than before it: where there are many of them.
    const OVERLAPS: bool;
    /// Queries whose weights are gathered at a time in the backward pass: a multiple of [`Engine::QUERIES`] and of
    /// [`GRAIN`].
    const GROUP: usize;

    /// The vectors.
    fn simd(self) -> Self::S;

    /// Size of a left operand of [`Engine::QUERIES`] rows and this depth.
    fn left_size(depth: usize) -> usize;
    /// Size of a right operand of [`KEYS`] columns and this depth.
    fn keys_size(depth: usize) -> usize;
    /// Size of a right operand of so many columns and depth [`KEYS`].
    fn values_size(cols: usize) -> usize;

    /// Packs rows as the left operand of a product over their columns; missing rows up to [`Engine::QUERIES`] are 0.
    ///
    /// # Safety
    /// `from` must be readable, `to` writable for [`Engine::left_size`] of its columns.
    unsafe fn pack_left(self, from: Matrix, to: *mut u8);
    /// Packs up to [`KEYS`] rows as columns of the right operand of a product over their columns; missing rows up to
    /// the next [`GRAIN`] are 0.
    ///
    /// # Safety
    /// `from` must be readable, `to` writable for [`Engine::keys_size`] of its columns.
    unsafe fn pack_keys(self, from: Matrix, to: *mut u8);
    /// Packs up to [`KEYS`] rows as the right operand of a product over the rows; missing rows up to the next
    /// [`GRAIN`] are 0.
    ///
    /// # Safety
    /// `from` must be readable, `to` writable for [`Engine::values_size`] of its columns.
    unsafe fn pack_values(self, from: Matrix, to: *mut u8);

    /// `out = left · keys` for the columns `from..to` of the block (multiples of [`GRAIN`]), `depth` deep.
    ///
    /// # Safety
    /// The operands must be packed; `out` writable for [`Engine::QUERIES`] rows, [`STRIDE`] apart, up to column `to`.
    unsafe fn scores(self, left: *const u8, keys: *const u8, depth: usize, from: usize, to: usize, out: *mut f32);

    /// Writes the weights of row `row` from column `col`: two vectors.
    ///
    /// # Safety
    /// `weights` must be writable for a block.
    unsafe fn put(self, weights: *mut u8, row: usize, col: usize, pair: [<Self::S as Simd>::V; 2]);

    /// `out (+)= weights · values` over the keys `from..to` of the block (multiples of [`GRAIN`]), for the columns of
    /// `panels`, [`GRAIN`] each.
    ///
    /// # Safety
    /// The operands must be packed; `out` readable and writable for [`Engine::QUERIES`] rows of `cols`, a multiple of
    /// [`GRAIN`].
    #[allow(clippy::too_many_arguments)]
    unsafe fn weigh(
        self,
        weights: *const u8,
        from: usize,
        to: usize,
        values: *const u8,
        panels: Range<usize>,
        out: *mut f32,
        cols: usize,
        accumulate: bool,
    );

    /// Size of up to [`Engine::GROUP`] rows of so many columns, packed by [`Engine::pack_gathered`].
    fn gathered_size(cols: usize) -> usize;
    /// Size of the weights of a group, for [`Engine::put_pair`].
    fn group_size() -> usize;

    /// Packs up to [`Engine::GROUP`] rows as the left operand, transposed, of a product over the rows; missing rows up
    /// to a multiple of [`Engine::QUERIES`] are 0.
    ///
    /// # Safety
    /// `from` must be readable, `to` writable for [`Engine::gathered_size`] of its columns.
    unsafe fn pack_gathered(self, from: Matrix, to: *mut u8);

    /// Writes the weights of rows `row` (even) and `row + 1` of a group from column `col`: two vectors of each.
    ///
    /// # Safety
    /// `weights` must be writable for [`Engine::group_size`].
    unsafe fn put_pair(self, weights: *mut u8, row: usize, col: usize, pairs: [[<Self::S as Simd>::V; 2]; 2]);

    /// `out[c][k] (+)= Σ_rows gathered[row][c] · weights[row][k]` over `rows` rows (a multiple of [`Engine::QUERIES`]), for the
    /// keys `from..to` of the block (multiples of [`GRAIN`]).
    ///
    /// # Safety
    /// The operands must be packed; `out` readable and writable for `cols + GRAIN` rows of [`KEYS`].
    #[allow(clippy::too_many_arguments)]
    unsafe fn gather(
        self,
        gathered: *const u8,
        cols: usize,
        rows: usize,
        weights: *const u8,
        from: usize,
        to: usize,
        out: *mut f32,
        accumulate: bool,
    );
}

/// What runs on an engine.
pub(crate) trait Task {
    /// The body; implementations are `#[inline(always)]`.
    fn eval<E: Engine>(self, engine: E);
}
