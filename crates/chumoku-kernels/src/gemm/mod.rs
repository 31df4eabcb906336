//! The matrix product `C = A·B (+ C or a bias)`, and what layers do with it before it leaves the cache.
//!
//! Two kernels compute it: `vectors` on any machine, `tiles` on AMX. Both pack their operands into panels in which what
//! one step of the depth needs lies side by side. B is packed once and shared, or comes packed ([`PackedMatrix`]); each
//! task packs the rows of A that it needs. `finish` then adds the bias, applies activation and dropout or adds the
//! residual, while the block is in the cache.
//!
//! Every element of C is one sum over the depth in one fixed order, whatever block or task it falls into. Results
//! therefore do not depend on the number of threads nor on the other rows of the product.
//!
//! Source of the blocking: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008).

mod finish;
mod packed;
#[cfg(target_arch = "x86_64")]
mod tiles;
mod vectors;

pub use finish::Then;
pub use packed::{Operand, PackedMatrix};

use crate::isa::Simd;
use crate::threads::SharedMut;
use crate::{Error, Real, Result};
use finish::Finish;
use packed::Kernel;

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

    /// Whether the numbers of a row lie side by side.
    pub(crate) fn has_contiguous_rows(&self) -> bool {
        self.col_stride == 1 || self.cols <= 1
    }

    /// The row `row`, whose numbers lie side by side.
    #[inline(always)]
    pub(crate) fn row(&self, row: usize) -> &'a [T] {
        assert!(row < self.rows && self.has_contiguous_rows());
        &self.data[row * self.row_stride..][..self.cols]
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

    /// All numbers from the first to the last, and the distance of rows.
    pub(crate) fn into_parts(self) -> (&'a mut [T], usize) {
        (self.data, self.row_stride)
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
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
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
    check("gemm: b", &a, &b, start)?;
    if (c.rows, c.cols) != (a.rows, b.cols) {
        return Err(Error::shape("gemm: c", (a.rows, b.cols), (c.rows, c.cols)));
    }
    crate::work::count(&[a.rows, a.cols, b.cols]);
    T::gemm(a, b, start, c, precision);
    Ok(())
}

fn check<T>(what: &'static str, a: &MatRef<T>, b: &MatRef<T>, start: Start<T>) -> Result<()> {
    if a.cols != b.rows {
        return Err(Error::shape(what, (a.cols, b.cols), (b.rows, b.cols)));
    }
    match start {
        Start::Bias(bias) => Error::check_length("gemm: bias", b.cols, bias.len()),
        _ => Ok(()),
    }
}

/// A product into memory of its own: `C = then(bias + A·B)`.
#[derive(Debug)]
pub struct Product<'a, T> {
    /// (m, k)
    pub a: MatRef<'a, T>,
    /// (k, n)
    pub b: Operand<'a, T>,
    /// (n,)
    pub bias: Option<&'a [T]>,
    /// What is done with the sums.
    pub then: Then<'a, T>,
    /// How exact the products are.
    pub precision: Precision,
}

impl<T: Real> Product<'_, T> {
    /// C, (m, n) row by row.
    ///
    /// # Errors
    /// If the shapes do not fit, or a dropout rate is out of range.
    pub fn compute(self) -> Result<Vec<T>> {
        check("product: b", &self.a, &self.b.matrix, self.start())?;
        self.then.check(self.a.rows, self.b.matrix.cols)?;
        crate::work::count(&[self.a.rows, self.a.cols, self.b.matrix.cols]);
        Ok(T::product(self))
    }
}

impl<'a, T> Product<'a, T> {
    pub(crate) fn start(&self) -> Start<'a, T> {
        self.bias.map_or(Start::Zero, Start::Bias)
    }
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

/// The fast product for f32; shapes have been checked.
pub(crate) fn gemm_f32(a: MatRef<f32>, b: MatRef<f32>, start: Start<f32>, c: MatMut<f32>, precision: Precision) {
    let (c, c_stride) = (SharedMut::new(c.data), c.row_stride);
    // SAFETY: `c` is borrowed exclusively for longer than this, of the shape of the product as was checked, and holds
    // numbers; nothing else is written.
    unsafe { run(a, b.into(), c, c_stride, &Finish::new(start, b.cols), precision) };
}

/// As [`gemm_f32`], with a second operand that may be packed.
pub(crate) fn gemm_packed(a: MatRef<f32>, b: Operand<f32>, start: Start<f32>, c: MatMut<f32>, precision: Precision) {
    let (c, c_stride, finish) = (SharedMut::new(c.data), c.row_stride, Finish::new(start, b.matrix.cols));
    // SAFETY: `c` is borrowed exclusively for longer than this, of the shape of the product as was checked, and holds
    // numbers; nothing else is written.
    unsafe { run(a, b, c, c_stride, &finish, precision) };
}

/// The fast product into new memory; shapes have been checked.
pub(crate) fn product_f32(p: Product<f32>) -> Vec<f32> {
    let (m, n) = (p.a.rows, p.b.matrix.cols);
    let mut finish = Finish::new(p.start(), n);
    let mut slope = finish.then(p.then, m * n);
    let mut c = Vec::new();
    // SAFETY: the spare memory of both is there for the product alone and holds m rows of n; the start is not kept.
    unsafe { run(p.a, p.b, SharedMut::spare(&mut c, m * n), n, &finish, p.precision) };
    // SAFETY: both have room for m rows of n, and the product has written every element.
    unsafe {
        c.set_len(m * n);
        if let Some(slope) = &mut slope {
            slope.set_len(m * n);
        }
    }
    c
}

/// The product into `c`, of which it reads nothing unless the start is [`Start::Keep`] and writes everything.
///
/// # Safety
/// * `c` must hold a row of C for each row of `a`, `c_stride` apart, and `finish` be made for such a result.
/// * Nobody else may reach these rows, nor the memory of the slope in `finish`, until this returns.
/// * With [`Start::Keep`] the rows must hold numbers.
unsafe fn run(
    a: MatRef<f32>,
    b: Operand<f32>,
    c: SharedMut<f32>,
    c_stride: usize,
    finish: &Finish,
    precision: Precision,
) {
    if a.rows == 0 || b.matrix.cols == 0 {
        return;
    }
    // SAFETY: both kernels ask for what the caller promises here; that there are rows and columns was just seen.
    unsafe {
        match Kernel::of(b.matrix.cols, a.cols, precision) {
            #[cfg(target_arch = "x86_64")]
            Kernel::Tiles(amx, precision) => match precision {
                Precision::Medium => tiles::run::<1>(amx, a, b, c, c_stride, finish),
                Precision::High => tiles::run::<2>(amx, a, b, c, c_stride, finish),
                Precision::Highest => tiles::run::<3>(amx, a, b, c, c_stride, finish),
            },
            Kernel::Vectors { .. } => vectors::run(a, b, c, c_stride, finish),
        }
    }
}
