//! The matrix product `C = A·B (+ C or a bias)`.
//!
//! Both operands are packed into panels in which the `TILE_ROWS` (or `TILE_COLS`) numbers that one step of the depth
//! needs lie side by side; the register tile then streams through two panels with one broadcast and a fused
//! multiply–add for each product. B is packed once and shared; each task packs the rows of A that it needs, a depth
//! block at a time, so that they stay in its core's cache.
//!
//! Every element of C is one sum over the depth in one fixed order (blocks of [`DEPTH`], in sequence within a block),
//! whatever tile or task it falls into. Results therefore do not depend on the number of threads nor on the other
//! rows of the product.
//!
//! Source of the blocking: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008).

#[cfg(target_arch = "x86_64")]
mod tiles;

use crate::isa::{self, Isa, Op, Simd};
use crate::threads::{SharedMut, for_each};
use crate::{Error, Real, Result};
use std::cell::RefCell;

/// Depth of a block: a B panel of this depth (times the tile's columns) fits the first-level cache.
pub(crate) const DEPTH: usize = 256;
/// Rows of A that a task packs at a time, about; rounded to whole tiles.
const ROWS: usize = 96;
/// Columns of C in a task, about; rounded to whole tiles. Small products split here so that every core has work.
const COLS: usize = 1024;

/// A matrix that is read: `(rows, cols)` with any strides.
#[derive(Clone, Copy, Debug)]
pub struct MatRef<'a, T> {
    data: &'a [T],
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

/// A matrix that is written: `(rows, cols)`, each row contiguous.
#[derive(Debug)]
pub struct MatMut<'a, T> {
    data: &'a mut [T],
    rows: usize,
    cols: usize,
    row_stride: usize,
}

fn last_index(rows: usize, cols: usize, row_stride: usize, col_stride: usize) -> Option<usize> {
    if rows == 0 || cols == 0 {
        return Some(0);
    }
    let row = (rows - 1).checked_mul(row_stride)?;
    let col = (cols - 1).checked_mul(col_stride)?;
    row.checked_add(col)?.checked_add(1)
}

impl<'a, T: Copy> MatRef<'a, T> {
    /// A row-major matrix over the whole of `data`.
    ///
    /// # Errors
    /// If `data` does not hold exactly `rows · cols` values.
    pub fn new(data: &'a [T], rows: usize, cols: usize) -> Result<Self> {
        if rows.checked_mul(cols) != Some(data.len()) {
            return Err(Error::length("matrix", rows.saturating_mul(cols), data.len()));
        }
        Ok(MatRef { data, rows, cols, row_stride: cols, col_stride: 1 })
    }

    /// A matrix with given strides, in elements.
    ///
    /// # Errors
    /// If the last element lies beyond `data`.
    pub fn strided(data: &'a [T], rows: usize, cols: usize, row_stride: usize, col_stride: usize) -> Result<Self> {
        match last_index(rows, cols, row_stride, col_stride) {
            Some(end) if end <= data.len() => Ok(MatRef { data, rows, cols, row_stride, col_stride }),
            end => Err(Error::length("strided matrix", end.unwrap_or(usize::MAX), data.len())),
        }
    }

    /// The transpose, without moving anything.
    pub fn t(self) -> Self {
        MatRef { rows: self.cols, cols: self.rows, row_stride: self.col_stride, col_stride: self.row_stride, ..self }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The element at `(row, col)`.
    #[inline(always)]
    pub fn at(&self, row: usize, col: usize) -> T {
        assert!(row < self.rows && col < self.cols);
        self.data[row * self.row_stride + col * self.col_stride]
    }
}

impl<'a, T: Copy> MatMut<'a, T> {
    /// A row-major matrix over the whole of `data`.
    ///
    /// # Errors
    /// If `data` does not hold exactly `rows · cols` values.
    pub fn new(data: &'a mut [T], rows: usize, cols: usize) -> Result<Self> {
        if rows.checked_mul(cols) != Some(data.len()) {
            return Err(Error::length("matrix", rows.saturating_mul(cols), data.len()));
        }
        Ok(MatMut { data, rows, cols, row_stride: cols })
    }

    /// A matrix whose rows start `row_stride` elements apart.
    ///
    /// # Errors
    /// If rows overlap, or the last element lies beyond `data`.
    pub fn strided(data: &'a mut [T], rows: usize, cols: usize, row_stride: usize) -> Result<Self> {
        if row_stride < cols {
            return Err(Error::length("row stride", cols, row_stride));
        }
        match last_index(rows, cols, row_stride, 1) {
            Some(end) if end <= data.len() => Ok(MatMut { data, rows, cols, row_stride }),
            end => Err(Error::length("strided matrix", end.unwrap_or(usize::MAX), data.len())),
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The row `row`.
    #[inline(always)]
    pub fn row_mut(&mut self, row: usize) -> &mut [T] {
        assert!(row < self.rows);
        let start = row * self.row_stride;
        &mut self.data[start..start + self.cols]
    }
}

/// What C holds before the products are added.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a, T> {
    /// Nothing: whatever C held is never read.
    Zero,
    /// What C holds.
    Keep,
    /// This row in every row, shape `(cols,)`.
    Bias(&'a [T]),
}

/// How exact products of f32 numbers are; sums are f32 at every level. Named as in PyTorch and JAX.
///
/// With AMX, numbers are split into bf16 terms and the terms multiplied, many times faster than f32 is; without it every
/// level computes in plain f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precision {
    /// At least bf16: one term of 8 bits.
    Medium,
    /// At least two bf16 terms, 16 bits: three products. Error about 6e-6 relative.
    High,
    /// As f32: three bf16 terms hold all 24 bits, six products.
    #[default]
    Highest,
}

impl Precision {
    /// Every level, the least exact first.
    pub const ALL: [Precision; 3] = [Precision::Medium, Precision::High, Precision::Highest];

    /// Its name on command lines and in files.
    pub fn name(self) -> &'static str {
        match self {
            Precision::Medium => "medium",
            Precision::High => "high",
            Precision::Highest => "highest",
        }
    }

    /// bf16 terms that hold a number.
    pub(crate) fn terms(self) -> usize {
        match self {
            Precision::Medium => 1,
            Precision::High => 2,
            Precision::Highest => 3,
        }
    }

    /// The level of a name.
    pub fn named(name: &str) -> Option<Precision> {
        Precision::ALL.into_iter().find(|precision| precision.name() == name)
    }
}

/// `C = start + A·B`.
///
/// A number that is not finite shows in its row (of A) or column (of B) and nowhere else; with AMX an infinite one may
/// show as NaN.
///
/// # Shapes
/// `a` (m, k), `b` (k, n), `c` (m, n). Any of them may be 0.
///
/// # Errors
/// If the shapes do not fit.
pub fn gemm<T: Real>(a: MatRef<T>, b: MatRef<T>, start: Start<T>, c: MatMut<T>, precision: Precision) -> Result<()> {
    if a.cols != b.rows {
        return Err(Error::shape("gemm: b", (a.cols, b.cols), (b.rows, b.cols)));
    }
    if (c.rows, c.cols) != (a.rows, b.cols) {
        return Err(Error::shape("gemm: c", (a.rows, b.cols), (c.rows, c.cols)));
    }
    if let Start::Bias(bias) = start
        && bias.len() != c.cols
    {
        return Err(Error::length("gemm: bias", c.cols, bias.len()));
    }
    T::gemm(a, b, start, c, precision);
    Ok(())
}

/// One register tile: `C[i][j] (+)= Σ_p a[p·a_step + i·ROW] · b[p·b_step + j]`, where `ROW`, fixed when compiling so
/// that every address is a constant away from one pointer, is 1 or [`ACROSS`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    /// Number of products in each sum.
    pub(crate) depth: usize,
    /// First operand: `TILE_ROWS` numbers at each step.
    pub(crate) a: *const f32,
    /// Distance of the steps of `a`.
    pub(crate) a_step: usize,
    /// Second operand: `TILE_COLS` numbers at each step.
    pub(crate) b: *const f32,
    /// Distance of the steps of `b`.
    pub(crate) b_step: usize,
    /// The result: `TILE_ROWS` rows of `TILE_COLS`.
    pub(crate) c: *mut f32,
    /// Distance of the rows of `c`.
    pub(crate) c_stride: usize,
    /// Whether `c` is added to rather than overwritten.
    pub(crate) accumulate: bool,
}

/// Distance of the rows of `a` in [`Simd::tile_across`]: that of the blocks of attention.
pub(crate) const ACROSS: usize = 144;

/// Computes a [`Tile`] of `R` rows and `V` vectors; rows of `a` lie `ROW` apart.
///
/// # Safety
/// `a` must be readable for `depth` steps of `R` numbers `ROW` apart, `b` for `depth` steps of `V · LANES` numbers; `c` writable (and readable when
/// accumulating) for `R` rows of `V · LANES`, and not overlapping `a` or `b`.
#[inline(always)]
pub(crate) unsafe fn tile<S: Simd, const R: usize, const V: usize, const ROW: usize>(simd: S, t: Tile) {
    let mut sums = [[simd.splat(0.0); V]; R];
    let (mut a, mut b) = (t.a, t.b);
    for _ in 0..t.depth {
        // SAFETY: the caller promises `depth` steps of both operands.
        unsafe {
            let mut columns = [simd.splat(0.0); V];
            for (v, column) in columns.iter_mut().enumerate() {
                *column = simd.load_ptr(b.add(v * S::LANES));
            }
            for (i, row) in sums.iter_mut().enumerate() {
                let factor = simd.splat(*a.add(i * ROW));
                for (sum, &column) in row.iter_mut().zip(&columns) {
                    *sum = simd.mul_add(factor, column, *sum);
                }
            }
            // Not `add`: after the last step the pointers may lie beyond one past the end.
            a = a.wrapping_add(t.a_step);
            b = b.wrapping_add(t.b_step);
        }
    }
    for (i, row) in sums.iter().enumerate() {
        for (v, &sum) in row.iter().enumerate() {
            // SAFETY: the caller promises R rows of V vectors.
            unsafe {
                let c = t.c.add(i * t.c_stride + v * S::LANES);
                simd.store_ptr(c, if t.accumulate { simd.add(simd.load_ptr(c), sum) } else { sum });
            }
        }
    }
}

thread_local! {
    /// Packed rows of A: reused, so that a product allocates nothing once warm.
    static PACKED_A: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    /// Packed B of the product that this thread has called.
    static PACKED_B: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Packs `count` rows (of the matrix whose element (i, p) is `data[i·outer + p·inner]`) from row `first`, depth
/// `from..from+depth`, into one panel of `width` numbers a step; missing rows become zeros.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn pack_panel(
    data: &[f32],
    outer: usize,
    inner: usize,
    first: usize,
    count: usize,
    from: usize,
    depth: usize,
    width: usize,
    panel: &mut [f32],
) {
    let panel = &mut panel[..depth * width];
    if count < width {
        panel.fill(0.0);
    }
    if outer == 1 {
        for (p, step) in panel.chunks_exact_mut(width).enumerate() {
            let start = first + (from + p) * inner;
            step[..count].copy_from_slice(&data[start..start + count]);
        }
    } else if inner == 1 {
        for i in 0..count {
            let start = (first + i) * outer + from;
            for (step, &x) in panel.chunks_exact_mut(width).zip(&data[start..start + depth]) {
                step[i] = x;
            }
        }
    } else {
        for (p, step) in panel.chunks_exact_mut(width).enumerate() {
            for (i, x) in step[..count].iter_mut().enumerate() {
                *x = data[(first + i) * outer + (from + p) * inner];
            }
        }
    }
}

struct PackB<'a> {
    b: MatRef<'a, f32>,
    panel: usize,
    out: &'a mut [f32],
}

impl Op for PackB<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, _: S) {
        let (b, width) = (self.b, S::TILE_COLS);
        let first = self.panel * width;
        let count = width.min(b.cols - first);
        // A panel holds the whole depth, so depth blocks are plain ranges of it.
        pack_panel(b.data, b.col_stride, b.row_stride, first, count, 0, b.rows, width, self.out);
    }
}

struct Block<'a> {
    a: MatRef<'a, f32>,
    packed_b: &'a [f32],
    start: Start<'a, f32>,
    c: SharedMut<f32>,
    c_stride: usize,
    rows: std::ops::Range<usize>,
    cols: std::ops::Range<usize>,
}

impl Op for Block<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        // Taken out rather than borrowed in a closure: a closure is compiled without the instruction set's features.
        let mut packed_a = PACKED_A.take();
        let (height, width) = (S::TILE_ROWS, S::TILE_COLS);
        let k = self.a.cols;
        let tiles_down = self.rows.len().div_ceil(height);
        packed_a.resize(tiles_down * height * DEPTH.min(k.max(1)), 0.0);
        let mut edge = [0.0f32; 16 * 64];
        // The start: written first, so that the tiles only ever add. With `Zero` the first depth block overwrites.
        if let Start::Bias(bias) = self.start {
            for i in self.rows.clone() {
                // SAFETY: rows × cols of this block belong to this task alone.
                let row = unsafe { self.c.slice(i * self.c_stride + self.cols.start, self.cols.len()) };
                row.copy_from_slice(&bias[self.cols.clone()]);
            }
        }
        let mut from = 0;
        while from < k {
            let depth = DEPTH.min(k - from);
            let accumulate = from > 0 || !matches!(self.start, Start::Zero);
            for (t, panel) in packed_a.chunks_exact_mut(height * depth).take(tiles_down).enumerate() {
                let first = self.rows.start + t * height;
                let count = height.min(self.rows.end - first);
                let a = self.a;
                pack_panel(a.data, a.row_stride, a.col_stride, first, count, from, depth, height, panel);
            }
            let mut j = self.cols.start;
            while j < self.cols.end {
                let b = &self.packed_b[j / width * width * k + from * width..][..depth * width];
                let columns = width.min(self.cols.end - j);
                for (t, panel) in packed_a.chunks_exact(height * depth).take(tiles_down).enumerate() {
                    let i = self.rows.start + t * height;
                    let count = height.min(self.rows.end - i);
                    let whole = count == height && columns == width;
                    let (c, c_stride) = if whole {
                        // SAFETY: the whole tile lies inside this task's block of C.
                        (unsafe { self.c.pointer(i * self.c_stride + j) }, self.c_stride)
                    } else {
                        (edge.as_mut_ptr(), width)
                    };
                    let tile = Tile {
                        depth,
                        a: panel.as_ptr(),
                        a_step: height,
                        b: b.as_ptr(),
                        b_step: width,
                        c,
                        c_stride,
                        accumulate: accumulate && whole,
                    };
                    // SAFETY: the panels hold `depth` steps; c is a whole tile of C, or the edge buffer, which holds
                    // the largest tile of any instruction set.
                    unsafe { simd.tile(tile) };
                    if !whole {
                        for r in 0..count {
                            // SAFETY: these columns of the row belong to this task alone.
                            let row = unsafe { self.c.slice((i + r) * self.c_stride + j, columns) };
                            let part = &edge[r * width..r * width + columns];
                            if accumulate {
                                row.iter_mut().zip(part).for_each(|(c, &x)| *c += x);
                            } else {
                                row.copy_from_slice(part);
                            }
                        }
                    }
                }
                j += width;
            }
            from += depth;
        }
        PACKED_A.set(packed_a);
    }
}

struct Widths;

impl Op for Widths {
    type Output = (usize, usize);
    #[inline(always)]
    fn eval<S: Simd>(self, _: S) -> (usize, usize) {
        (S::TILE_ROWS, S::TILE_COLS)
    }
}

/// The fast product for f32; shapes have been checked.
pub(crate) fn gemm_f32(a: MatRef<f32>, b: MatRef<f32>, start: Start<f32>, c: MatMut<f32>, precision: Precision) {
    if a.rows == 0 || b.cols == 0 {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if isa::active() >= Isa::Amx
        && tiles::suits(b.cols, a.cols)
        && let Some(amx) = isa::amx::Amx::new()
    {
        return match precision {
            Precision::Medium => tiles::gemm_tiles::<1>(amx, a, b, start, c),
            Precision::High => tiles::gemm_tiles::<2>(amx, a, b, start, c),
            Precision::Highest => tiles::gemm_tiles::<3>(amx, a, b, start, c),
        };
    }
    let _ = precision;
    gemm_vectors(a, b, start, c);
}

/// The product in vectors; there are rows and columns.
fn gemm_vectors(a: MatRef<f32>, b: MatRef<f32>, start: Start<f32>, mut c: MatMut<f32>) {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    if k == 0 {
        for i in 0..m {
            match start {
                Start::Zero => c.row_mut(i).fill(0.0),
                Start::Keep => {}
                Start::Bias(bias) => c.row_mut(i).copy_from_slice(bias),
            }
        }
        return;
    }
    let (height, width) = isa::dispatch(Widths);
    let panels = n.div_ceil(width);
    let mut packed = PACKED_B.take();
    packed.resize(panels * width * k, 0.0);
    {
        let out = SharedMut::new(&mut packed);
        for_each(panels, panels * width * k, |panel| {
            // SAFETY: each panel is its own range.
            let out = unsafe { out.slice(panel * width * k, width * k) };
            isa::dispatch(PackB { b, panel, out });
        });
    }
    let block_rows = ROWS.div_ceil(height) * height;
    let blocks_down = m.div_ceil(block_rows);
    // Few rows: cut the columns finer, so that there is work to share.
    let cols = if blocks_down >= 8 { COLS } else { COLS / 8 };
    let block_cols = cols.div_ceil(width) * width;
    let blocks_across = n.div_ceil(block_cols);
    let c_stride = c.row_stride;
    let shared = SharedMut::new(c.data);
    for_each(blocks_down * blocks_across, 2 * m * n * k, |block| {
        let (down, across) = (block / blocks_across, block % blocks_across);
        let rows = down * block_rows..m.min((down + 1) * block_rows);
        let cols = across * block_cols..n.min((across + 1) * block_cols);
        let packed_b = &packed;
        isa::dispatch(Block { a, packed_b, start, c: shared, c_stride, rows, cols });
    });
    PACKED_B.set(packed);
}
