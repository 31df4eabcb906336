//! Sums in a fixed order.

use crate::isa::{self, Op, Simd};
use crate::threads::{SharedMut, for_each};
use crate::{Error, Real, Result};
use rayon::prelude::*;

/// Rows added up before the partial sum joins the total.
const ROWS: usize = 128;
/// Columns in a piece of work.
const COLS: usize = 128;

/// `sums[j] += Σ_i x[i][j]`: the gradient of a bias.
///
/// # Shapes
/// `x` (rows, cols), `sums` (cols,).
///
/// # Errors
/// If the length of `x` is not a multiple of that of `sums`.
pub fn add_column_sums<T: Real>(x: &[T], sums: &mut [T]) -> Result<()> {
    let cols = sums.len();
    if cols == 0 || !x.len().is_multiple_of(cols) {
        let problem = format!("expected rows of {cols} values, got {} values", x.len());
        return Err(Error::value("column sums: x", problem));
    }
    T::add_column_sums(x, cols, sums);
    Ok(())
}

struct Columns<'a> {
    x: &'a [f32],
    cols: usize,
    first: usize,
    sums: &'a mut [f32],
}

impl Op for Columns<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, _: S) {
        let count = self.sums.len();
        for rows in self.x.chunks(ROWS * self.cols) {
            let mut partial = [0.0f32; COLS];
            for row in rows.chunks_exact(self.cols) {
                for (sum, &x) in partial[..count].iter_mut().zip(&row[self.first..self.first + count]) {
                    *sum += x;
                }
            }
            for (sum, &x) in self.sums.iter_mut().zip(&partial) {
                *sum += x;
            }
        }
    }
}

pub(crate) fn add_column_sums_f32(x: &[f32], cols: usize, sums: &mut [f32]) {
    let shared = SharedMut::new(sums);
    for_each(cols.div_ceil(COLS), x.len(), |piece| {
        let first = piece * COLS;
        // SAFETY: each piece is its own range of columns.
        let sums = unsafe { shared.slice(first, COLS.min(cols - first)) };
        isa::dispatch(Columns { x, cols, first, sums });
    });
}

struct Squares<'a, T>(&'a [T]);

impl<T: Real> Op for Squares<'_, T> {
    type Output = f64;
    #[inline(always)]
    fn eval<S: Simd>(self, _: S) -> f64 {
        let mut sums = [0.0f64; 16];
        for x in self.0.chunks(16) {
            for (sum, &x) in sums.iter_mut().zip(x) {
                *sum += x.to_f64() * x.to_f64();
            }
        }
        sums.iter().sum()
    }
}

/// `Σ x²` in double precision.
pub fn sum_of_squares<T: Real>(x: &[T]) -> f64 {
    const PIECE: usize = 1 << 14;
    let partial: Vec<f64> = x.par_chunks(PIECE).map(|x| isa::dispatch(Squares(x))).collect();
    partial.iter().sum()
}
