//! Views of the operands and results of a product, the initial value of a result, and the levels of precision.

use crate::error::{Error, Result};

/// A read-only matrix `(rows, cols)` with arbitrary strides.
#[derive(Clone, Copy, Debug)]
pub struct MatRef<'a, T> {
    pub(super) data: &'a [T],
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) row_stride: usize,
    pub(super) col_stride: usize,
}

/// A writable matrix `(rows, cols)` with contiguous rows.
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
    /// Creates a row-major matrix over all of `data`.
    ///
    /// # Errors
    /// If `data` does not hold exactly `rows · cols` values.
    pub fn new(data: &'a [T], rows: usize, cols: usize) -> Result<Self> {
        if rows.checked_mul(cols) != Some(data.len()) {
            return Err(Error::length("matrix", rows.saturating_mul(cols), data.len()));
        }
        Ok(MatRef { data, rows, cols, row_stride: cols, col_stride: 1 })
    }

    /// Creates a matrix with the given strides, in elements.
    ///
    /// # Errors
    /// If the last element is beyond `data`.
    pub fn strided(data: &'a [T], rows: usize, cols: usize, row_stride: usize, col_stride: usize) -> Result<Self> {
        match last_index(rows, cols, row_stride, col_stride) {
            Some(end) if end <= data.len() => Ok(MatRef { data, rows, cols, row_stride, col_stride }),
            end => Err(Error::length("strided matrix", end.unwrap_or(usize::MAX), data.len())),
        }
    }

    /// Returns the transpose without moving data.
    pub fn t(self) -> Self {
        MatRef { rows: self.cols, cols: self.rows, row_stride: self.col_stride, col_stride: self.row_stride, ..self }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Returns whether the values of a row are contiguous.
    pub(crate) fn has_contiguous_rows(&self) -> bool {
        self.col_stride == 1 || self.cols <= 1
    }

    /// Returns row `row`, whose values are contiguous.
    #[inline(always)]
    pub(crate) fn row(&self, row: usize) -> &'a [T] {
        assert!(row < self.rows && self.has_contiguous_rows());
        &self.data[row * self.row_stride..][..self.cols]
    }

    /// Returns the element at `(row, col)`.
    #[inline(always)]
    pub fn at(&self, row: usize, col: usize) -> T {
        assert!(row < self.rows && col < self.cols);
        self.data[row * self.row_stride + col * self.col_stride]
    }
}

impl<'a, T: Copy> MatMut<'a, T> {
    /// Creates a row-major matrix over all of `data`.
    ///
    /// # Errors
    /// If `data` does not hold exactly `rows · cols` values.
    pub fn new(data: &'a mut [T], rows: usize, cols: usize) -> Result<Self> {
        if rows.checked_mul(cols) != Some(data.len()) {
            return Err(Error::length("matrix", rows.saturating_mul(cols), data.len()));
        }
        Ok(MatMut { data, rows, cols, row_stride: cols })
    }

    /// Creates a matrix whose rows start `row_stride` elements apart.
    ///
    /// # Errors
    /// If rows overlap, or the last element is beyond `data`.
    pub fn strided(data: &'a mut [T], rows: usize, cols: usize, row_stride: usize) -> Result<Self> {
        if row_stride < cols {
            return Err(Error::length("row stride", cols, row_stride));
        }
        match last_index(rows, cols, row_stride, 1) {
            Some(end) if end <= data.len() => Ok(MatMut { data, rows, cols, row_stride }),
            end => Err(Error::length("strided matrix", end.unwrap_or(usize::MAX), data.len())),
        }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns.
    pub(crate) fn cols(&self) -> usize {
        self.cols
    }

    /// Returns all values from the first to the last, and the row stride.
    pub(crate) fn into_parts(self) -> (&'a mut [T], usize) {
        (self.data, self.row_stride)
    }

    /// Returns row `row`.
    #[inline(always)]
    pub(crate) fn row_mut(&mut self, row: usize) -> &mut [T] {
        assert!(row < self.rows);
        let start = row * self.row_stride;
        &mut self.data[start..start + self.cols]
    }
}

/// The initial value of C, to which the products are added.
#[derive(Clone, Copy, Debug)]
pub enum OutputInit<'a, T> {
    /// Zero: the previous contents of C are never read.
    Zero,
    /// The previous contents of C.
    Keep,
    /// This row, of shape `(cols,)`, in every row of C.
    Bias(&'a [T]),
}

/// The precision of f32 products. Sums are f32 at every level. The names are those of PyTorch and JAX.
///
/// With AMX, values are split into bf16 terms and the terms multiplied, many times faster than f32. On AVX-512 with
/// BF16, `Medium` uses one term, twice as fast as f32. All other cases compute in plain f32. The tests allow these
/// errors:
///
/// | level | terms | one product of two numbers | matrix product, of the largest number | output of attention |
/// |---|---|---|---|---|
/// | `Medium` | 1 | 7 bits | 1.2e-2 | 5e-3 |
/// | `High` | 2 | 15 bits | 3e-5 | 1e-5 |
/// | `Highest` | 3 | 22 bits | 2e-6 | 6e-7 |
///
/// The limits are three times as large for products of great depth, for matrices with gaps, and with an epilogue. The
/// last column is the relative error in the 2-norm with 512 queries and keys of width 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precision {
    /// At least bf16: one term with 8 bits.
    Medium,
    /// At least two bf16 terms with 16 bits: three products.
    High,
    /// Like f32: three bf16 terms hold all 24 bits, in six products.
    #[default]
    Highest,
}

impl Precision {
    /// All levels, the least precise first.
    pub const ALL: [Precision; 3] = [Precision::Medium, Precision::High, Precision::Highest];

    /// Returns its name on command lines and in files.
    pub fn name(self) -> &'static str {
        match self {
            Precision::Medium => "medium",
            Precision::High => "high",
            Precision::Highest => "highest",
        }
    }

    /// Returns the number of bf16 terms per value.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(crate) fn bf16_terms(self) -> usize {
        match self {
            Precision::Medium => 1,
            Precision::High => 2,
            Precision::Highest => 3,
        }
    }

    /// Returns the level with this name.
    pub fn from_name(name: &str) -> Option<Precision> {
        Precision::ALL.into_iter().find(|precision| precision.name() == name)
    }
}
