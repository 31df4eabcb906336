//! Sums in a fixed order.

use crate::isa::{self, Simd, SimdOp};
use crate::number::{Real, implementations};
use crate::profile;
use crate::threads::{SharedMut, for_each};
use crate::{Error, Result};

/// Rows in a piece of work. They are added up before the partial sum joins the total.
const ROWS: usize = 128;

/// Values in a piece of elementwise work.
const PIECE: usize = 1 << 14;

/// Computes `sums[j] += Σ_i x[i][j]`: the gradient of a bias.
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
    let _timed = profile::memory_bound::<T>("column sums", x.len());
    T::run::<ColumnSums>((x, cols, sums));
    Ok(())
}

implementations! {
    /// Both implementations of [`add_column_sums`].
    ColumnSums<'a, T>(x: &'a [T], cols: usize, sums: &'a mut [T]) -> () {
        fast: add_column_sums_f32,
        reference: reference::add_column_sums,
    }
}

/// Adds the rows of `x` to `sums`.
struct AddRows<'a> {
    x: &'a [f32],
    sums: &'a mut [f32],
}

impl SimdOp for AddRows<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, _: S) {
        for row in self.x.chunks_exact(self.sums.len()) {
            self.sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += x);
        }
    }
}

pub(crate) fn add_column_sums_f32(x: &[f32], cols: usize, sums: &mut [f32]) {
    // Pieces are whole rows, which memory delivers fastest. The partial sums are then added in order.
    let size = ROWS * cols;
    let pieces = x.len().div_ceil(size);
    let mut partial = vec![0.0f32; pieces * cols];
    let shared = SharedMut::new(&mut partial);
    for_each(pieces, x.len(), |piece| {
        // SAFETY: each piece has its own partial sum.
        let sums = unsafe { shared.slice(piece * cols, cols) };
        isa::dispatch(AddRows { x: &x[piece * size..x.len().min((piece + 1) * size)], sums });
    });
    isa::dispatch(AddRows { x: &partial, sums });
}

struct SumOfSquares<'a, T>(&'a [T]);

impl<T: Real> SimdOp for SumOfSquares<'_, T> {
    type Output = f64;
    #[inline(always)]
    fn eval<S: Simd>(self, _: S) -> f64 {
        let mut sums = [0.0f64; 16];
        let (lines, rest) = self.0.as_chunks::<16>();
        for x in lines {
            for (sum, &x) in sums.iter_mut().zip(x) {
                *sum += x.to_f64() * x.to_f64();
            }
        }
        for (sum, &x) in sums.iter_mut().zip(rest) {
            *sum += x.to_f64() * x.to_f64();
        }
        sums.iter().sum()
    }
}

/// Computes `Σ x²` in double precision.
pub fn sum_of_squares<T: Real>(x: &[T]) -> f64 {
    let _timed = profile::memory_bound::<T>("sum of squares", x.len());
    let mut partial = vec![0.0f64; x.len().div_ceil(PIECE)];
    let sums = SharedMut::new(&mut partial);
    for_each(x.len().div_ceil(PIECE), x.len(), |piece| {
        let sum = isa::dispatch(SumOfSquares(&x[piece * PIECE..x.len().min((piece + 1) * PIECE)]));
        // SAFETY: each piece has its own sum.
        unsafe { sums.copy_from(piece, &[sum]) };
    });
    partial.iter().sum()
}

/// Sets all of `x` to 0.
pub fn fill_zero<T: Real>(x: &mut [T]) {
    let _timed = profile::memory_bound::<T>("clearing", x.len());
    let len = x.len();
    let x = SharedMut::new(x);
    for_each(len.div_ceil(PIECE), len, |piece| {
        // SAFETY: each piece is its own range.
        unsafe { x.slice(piece * PIECE, PIECE.min(len - piece * PIECE)) }.fill(T::ZERO);
    });
}

/// Computes `sum = share · sum + Σ_i share_i · x_i`, in the order of the arrays.
///
/// # Shapes
/// All arrays have the same length.
///
/// # Errors
/// If the lengths differ.
pub fn weighted_sum<T: Real>((share, sum): (T, &mut [T]), others: &[(T, &[T])]) -> Result<()> {
    let len = sum.len();
    others.iter().try_for_each(|(_, other)| Error::check_length("weighted sum: array", len, other.len()))?;
    let _timed = profile::memory_bound::<T>("weighted sum", (2 + others.len()) * len);
    let sum = SharedMut::new(sum);
    for_each(len.div_ceil(PIECE), len, |piece| {
        let start = piece * PIECE;
        // SAFETY: each piece is its own range.
        let sum = unsafe { sum.slice(start, PIECE.min(len - start)) };
        isa::dispatch(WeightedSum { share, sum, others, start });
    });
    Ok(())
}

struct WeightedSum<'a, T> {
    share: T,
    sum: &'a mut [T],
    others: &'a [(T, &'a [T])],
    start: usize,
}

impl<T: Real> SimdOp for WeightedSum<'_, T> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, _: S) {
        let len = self.sum.len();
        self.sum.iter_mut().for_each(|x| *x *= self.share);
        for (share, other) in self.others {
            self.sum.iter_mut().zip(&other[self.start..][..len]).for_each(|(sum, &x)| *sum += *share * x);
        }
    }
}

/// Updates a moving average: `average += rate · (x − average)`.
///
/// # Shapes
/// Both have the same length.
///
/// # Errors
/// If the lengths differ.
pub fn update_moving_average<T: Real>(average: &mut [T], x: &[T], rate: T) -> Result<()> {
    let len = x.len();
    Error::check_length("moving average: x", average.len(), len)?;
    let _timed = profile::memory_bound::<T>("moving average", 3 * len);
    let average = SharedMut::new(average);
    for_each(len.div_ceil(PIECE), len, |piece| {
        let start = piece * PIECE;
        // SAFETY: each piece is its own range.
        let average = unsafe { average.slice(start, PIECE.min(len - start)) };
        isa::dispatch(MoveAverage { average, x: &x[start..], rate });
    });
    Ok(())
}

struct MoveAverage<'a, T> {
    average: &'a mut [T],
    x: &'a [T],
    rate: T,
}

impl<T: Real> SimdOp for MoveAverage<'_, T> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, _: S) {
        self.average.iter_mut().zip(self.x).for_each(|(average, &x)| *average += self.rate * (x - *average));
    }
}

/// The reference implementation.
pub(crate) mod reference {
    use crate::number::Real;

    /// Adds the sum of each column, `sums[j] += Σ_i x[i][j]`.
    pub(crate) fn add_column_sums<T: Real>(x: &[T], cols: usize, sums: &mut [T]) {
        for row in x.chunks_exact(cols) {
            sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += x);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elementwise_updates_cover_whole_arrays() {
        for len in [0, 1, 17, PIECE - 1, PIECE, 3 * PIECE + 5] {
            let [a, b, c] = [1, 2, 3].map(|n| (0..len).map(|i| ((i * n) as f32 * 0.37).sin()).collect::<Vec<f32>>());
            let mut sum = a.clone();
            weighted_sum((0.25, &mut sum), &[(0.5, &b), (2.0, &c)]).unwrap();
            let mut average = a.clone();
            update_moving_average(&mut average, &b, 0.1).unwrap();
            for i in 0..len {
                assert!((sum[i] - (0.25 * a[i] + 0.5 * b[i] + 2.0 * c[i])).abs() < 1e-6, "{i}");
                assert!((average[i] - (a[i] + 0.1 * (b[i] - a[i]))).abs() < 1e-6, "{i}");
            }
            fill_zero(&mut sum);
            assert!(sum.len() == len && sum.iter().all(|&x| x == 0.0));
            let exact: f64 = a.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
            assert!((sum_of_squares(&a) - exact).abs() <= 1e-12 * exact);
        }
        assert!(weighted_sum((1.0, &mut [0.0f32; 3]), &[(1.0, &[0.0; 2])]).is_err());
        assert!(update_moving_average(&mut [0.0f32; 3], &[0.0; 4], 0.5).is_err());
    }
}
