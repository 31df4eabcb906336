//! What multiplies blocks of queries, keys and values: registers of f32, or tiles of bf16 terms.
//!
//! Attention is written once ([`super::forward`], [`super::backward`]), over blocks of [`Engine::QUERIES`] queries and
//! [`KEYS`] keys; an engine packs operands as its multiplier reads them. Scores and weights are rows of f32,
//! [`STRIDE`] apart, a row for each query.

use crate::gemm::{ACROSS, Tile};
use crate::isa::{Op, Simd};
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
    unsafe fn row<'a>(&self, i: usize) -> &'a [f32] {
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

/// A task on f32 registers, as an operation of vectors.
pub(crate) struct OnRegisters<T>(pub(crate) T);

impl<T: Task> Op for OnRegisters<T> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        self.0.eval(Registers(simd));
    }
}

/// Products of f32 in vector registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers<S>(pub(super) S);

/// Bytes of a number.
const F32: usize = size_of::<f32>();

// SAFETY: sizes count whole panels of TILE_ROWS or TILE_COLS numbers, which is what is written and read.
unsafe impl<S: Simd> Engine for Registers<S> {
    type S = S;
    const QUERIES: usize = 48;
    const TERMS: usize = 0;
    const DEGREE: usize = 6;
    const PACKS_WEIGHTS: bool = false;
    const GROUP: usize = 96;
    const READS_BF16: bool = false;
    const OVERLAPS: bool = false;
    // Its tiles add up in registers anyway.
    const SUMS_APART: bool = false;

    #[inline(always)]
    fn simd(self) -> S {
        self.0
    }

    fn left_size(depth: usize) -> usize {
        Self::QUERIES * depth * F32
    }
    fn keys_size(depth: usize) -> usize {
        KEYS * depth * F32
    }
    fn values_size(cols: usize) -> usize {
        cols.next_multiple_of(GRAIN) * KEYS * F32
    }

    /// Panels of `TILE_ROWS` rows, as `[column][row]`.
    #[inline(always)]
    unsafe fn pack_left(self, from: Matrix, to: *mut u8) {
        // SAFETY: as promised by the caller: QUERIES is a whole number of panels.
        unsafe { pack_across(from, S::TILE_ROWS, Self::QUERIES, to.cast()) };
    }

    /// Panels of `TILE_COLS` keys, as `[column][key]`.
    #[inline(always)]
    unsafe fn pack_keys(self, from: Matrix, to: *mut u8) {
        // SAFETY: as promised by the caller: GRAIN is a whole number of panels.
        unsafe { pack_across(from, S::TILE_COLS, from.rows.next_multiple_of(GRAIN), to.cast()) };
    }

    /// Panels of `TILE_COLS` columns, as `[row][column]`, each of [`KEYS`] rows.
    #[inline(always)]
    unsafe fn pack_values(self, from: Matrix, to: *mut u8) {
        let width = S::TILE_COLS;
        let rows = from.rows.next_multiple_of(GRAIN);
        for panel in 0..from.cols.next_multiple_of(GRAIN) / width {
            // SAFETY: the caller promises values_size, which counts KEYS rows for every panel.
            let out = unsafe {
                let start = to.cast::<f32>().add(panel * KEYS * width);
                std::slice::from_raw_parts_mut(start, rows * width)
            };
            let first = panel * width;
            let count = from.cols.saturating_sub(first).min(width);
            for (i, out) in out.chunks_exact_mut(width).enumerate() {
                if i < from.rows && count > 0 {
                    // SAFETY: the caller promises the rows.
                    out[..count].copy_from_slice(unsafe { &from.row(i)[first..first + count] });
                    out[count..].fill(0.0);
                } else {
                    out.fill(0.0);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn scores(self, left: *const u8, keys: *const u8, depth: usize, from: usize, to: usize, out: *mut f32) {
        let (height, width) = (S::TILE_ROWS, S::TILE_COLS);
        let (left, keys) = (left.cast::<f32>(), keys.cast::<f32>());
        for down in 0..Self::QUERIES / height {
            for across in from / width..to / width {
                // SAFETY: panels were packed with `depth` steps; rows and columns are inside the block.
                unsafe {
                    self.0.tile(Tile {
                        depth,
                        a: left.add(down * height * depth),
                        a_step: height,
                        b: keys.add(across * width * depth),
                        b_step: width,
                        c: out.add(down * height * STRIDE + across * width),
                        c_stride: STRIDE,
                        accumulate: false,
                    });
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn put(self, weights: *mut u8, row: usize, col: usize, pair: [S::V; 2]) {
        // SAFETY: the row has STRIDE numbers.
        unsafe {
            let at = weights.cast::<f32>().add(row * STRIDE + col);
            self.0.store_ptr(at, pair[0]);
            self.0.store_ptr(at.add(S::LANES), pair[1]);
        }
    }

    #[inline(always)]
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
    ) {
        let (height, width) = (S::TILE_ROWS, S::TILE_COLS);
        let (weights, values) = (weights.cast::<f32>(), values.cast::<f32>());
        for panel in panels.start * GRAIN / width..panels.end * GRAIN / width {
            for down in 0..Self::QUERIES / height {
                // SAFETY: the panel holds KEYS rows; rows and columns are inside the block.
                unsafe {
                    self.0.tile_across(Tile {
                        depth: to - from,
                        a: weights.add(down * height * STRIDE + from),
                        a_step: 1,
                        b: values.add((panel * KEYS + from) * width),
                        b_step: width,
                        c: out.add(down * height * cols + panel * width),
                        c_stride: cols,
                        accumulate,
                    });
                }
            }
        }
    }

    fn gathered_size(cols: usize) -> usize {
        Self::GROUP * gathered_cols::<S>(cols) * F32
    }
    fn group_size() -> usize {
        Self::GROUP * STRIDE * F32
    }

    /// `[row][column]`, which a tile reads down its columns.
    #[inline(always)]
    unsafe fn pack_gathered(self, from: Matrix, to: *mut u8) {
        let cols = gathered_cols::<S>(from.cols);
        let rows = from.rows.next_multiple_of(Self::QUERIES);
        // SAFETY: the caller promises gathered_size.
        let out = unsafe { std::slice::from_raw_parts_mut(to.cast::<f32>(), rows * cols) };
        for (i, out) in out.chunks_exact_mut(cols).enumerate() {
            let mut count = 0;
            if i < from.rows {
                // SAFETY: the caller promises the rows.
                out[..from.cols].copy_from_slice(unsafe { from.row(i) });
                count = from.cols;
            }
            out[count..].fill(0.0);
        }
    }

    #[inline(always)]
    unsafe fn put_pair(self, weights: *mut u8, row: usize, col: usize, pairs: [[S::V; 2]; 2]) {
        for (i, pair) in pairs.into_iter().enumerate() {
            // SAFETY: the group has GROUP rows.
            unsafe { self.put(weights, row + i, col, pair) };
        }
    }

    #[inline(always)]
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
    ) {
        let (height, width) = (S::TILE_ROWS, S::TILE_COLS);
        let (gathered, weights) = (gathered.cast::<f32>(), weights.cast::<f32>());
        let a_step = gathered_cols::<S>(cols);
        for down in 0..a_step / height {
            for across in from / width..to / width {
                // SAFETY: the rows were packed; TILE_ROWS is at most GRAIN, so the tile's rows are inside `out`.
                unsafe {
                    self.0.tile(Tile {
                        depth: rows,
                        a: gathered.add(down * height),
                        a_step,
                        b: weights.add(across * width),
                        b_step: STRIDE,
                        c: out.add(down * height * KEYS + across * width),
                        c_stride: KEYS,
                        accumulate,
                    });
                }
            }
        }
    }
}

/// Columns of the rows that [`Registers`] gathers: whole tiles.
fn gathered_cols<S: Simd>(cols: usize) -> usize {
    cols.next_multiple_of(S::TILE_ROWS)
}

/// Packs rows into panels of `height` of them, as `[column][row]`, `total` rows in all; missing rows are 0.
///
/// # Safety
/// `from` must be readable, `to` writable for `total` rows.
#[inline(always)]
unsafe fn pack_across(from: Matrix, height: usize, total: usize, to: *mut f32) {
    for panel in 0..total / height {
        // SAFETY: the caller promises `total` rows.
        let out = unsafe { std::slice::from_raw_parts_mut(to.add(panel * height * from.cols), height * from.cols) };
        let first = panel * height;
        let count = from.rows.saturating_sub(first).min(height);
        if count < height {
            out.fill(0.0);
        }
        for i in 0..count {
            // SAFETY: the caller promises the rows.
            let row = unsafe { from.row(first + i) };
            for (step, &x) in out.chunks_exact_mut(height).zip(row) {
                step[i] = x;
            }
        }
    }
}
