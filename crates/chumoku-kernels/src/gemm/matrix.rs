//! Operands and results of a product: views of matrices, what a result starts from, how exact it is.

use crate::error::{Error, Result};

/// A matrix that is read: `(rows, cols)` with any strides.
#[derive(Clone, Copy, Debug)]
pub struct MatRef<'a, T> {
    pub(super) data: &'a [T],
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) row_stride: usize,
    pub(super) col_stride: usize,
}

/// A matrix that is written: `(rows, cols)`, each row contiguous.
#[derive(Debug)]
pub struct MatMut<'a, T> {
    pub(super) data: &'a mut [T],
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) row_stride: usize,
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
pub enum OutputInit<'a, T> {
    /// Nothing: whatever C held is never read.
    Zero,
    /// What C holds.
    Keep,
    /// This row in every row, shape `(cols,)`.
    Bias(&'a [T]),
}

/// How exact products of f32 numbers are; sums are f32 at every level. Named as in PyTorch and JAX.
///
/// With AMX, numbers are split into bf16 terms and the terms multiplied, many times faster than f32 is. Where AVX-512 knows
/// bf16, `Medium` is computed so, twice as fast as f32. Whatever else there is computes in plain f32. The tests allow these
/// errors:
///
/// | level | terms | one product of two numbers | matrix product, of the largest number | output of attention |
/// |---|---|---|---|---|
/// | `Medium` | 1 | 7 bits | 1.2e-2 | 5e-3 |
/// | `High` | 2 | 15 bits | 3e-5 | 1e-5 |
/// | `Highest` | 3 | 22 bits | 2e-6 | 6e-7 |
///
/// Products of great depth, of matrices with gaps, and with something done to their results may be off by three times
/// as much. The last column is the relative error in the 2-norm with 512 queries and keys of width 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precision {
    /// At least bf16: one term of 8 bits.
    Medium,
    /// At least two bf16 terms, 16 bits: three products.
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
    pub(crate) fn bf16_terms(self) -> usize {
        match self {
            Precision::Medium => 1,
            Precision::High => 2,
            Precision::Highest => 3,
        }
    }

    /// The level of a name.
    pub fn from_name(name: &str) -> Option<Precision> {
        Precision::ALL.into_iter().find(|precision| precision.name() == name)
    }
}
