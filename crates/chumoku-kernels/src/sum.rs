//! Sums in a fixed order.

use crate::isa::{self, Op, Simd};
use crate::number::{Real, Versions};
use crate::threads::{SharedMut, for_each};
use crate::{Error, Result};
use rayon::prelude::*;

/// Rows in a piece of work: added up before the partial sum joins the total.
const ROWS: usize = 128;

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
    T::run::<ColumnSums>((x, cols, sums));
    Ok(())
}

/// Both versions of [`add_column_sums`].
struct ColumnSums;

impl Versions for ColumnSums {
    type Args<'a, T: Real> = (&'a [T], usize, &'a mut [T]);
    type Output<T: Real> = ();
    fn fast((x, cols, sums): Self::Args<'_, f32>) {
        add_column_sums_f32(x, cols, sums);
    }
    fn plain((x, cols, sums): Self::Args<'_, f64>) {
        reference::add_column_sums(x, cols, sums);
    }
}

/// Adds the rows of `x` to `sums`.
struct Columns<'a> {
    x: &'a [f32],
    sums: &'a mut [f32],
}

impl Op for Columns<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, _: S) {
        for row in self.x.chunks_exact(self.sums.len()) {
            self.sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += x);
        }
    }
}

pub(crate) fn add_column_sums_f32(x: &[f32], cols: usize, sums: &mut [f32]) {
    // Pieces of whole rows, which memory delivers fastest; the partial sums are then added in their order.
    let size = ROWS * cols;
    let pieces = x.len().div_ceil(size);
    let mut partial = vec![0.0f32; pieces * cols];
    let shared = SharedMut::new(&mut partial);
    for_each(pieces, x.len(), |piece| {
        // SAFETY: each piece has its own partial sum.
        let sums = unsafe { shared.slice(piece * cols, cols) };
        isa::dispatch(Columns { x: &x[piece * size..x.len().min((piece + 1) * size)], sums });
    });
    isa::dispatch(Columns { x: &partial, sums });
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

/// The plain version.
pub(crate) mod reference {
    use crate::number::Real;

    /// Adds the sum of each column, `sums[j] += Σ_i x[i][j]`.
    pub fn add_column_sums<T: Real>(x: &[T], cols: usize, sums: &mut [T]) {
        for row in x.chunks_exact(cols) {
            sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += x);
        }
    }
}
