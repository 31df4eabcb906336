//! Softmax over rows: `y_j = exp(x_j − max x) / Σ exp(x_k − max x)`.

use crate::isa::{self, Simd, SimdOp};
use crate::math::exp;
use crate::number::{Real, implementations};
use crate::profile;
use crate::{Error, Result};

fn check<T>(x: &[T], cols: usize, y: &[T]) -> Result<()> {
    if cols == 0 || !x.len().is_multiple_of(cols) {
        let problem = format!("expected rows of {cols} values, got {} values", x.len());
        return Err(Error::value("softmax: x", problem));
    }
    Error::check_length("softmax: y", x.len(), y.len())
}

/// Computes the softmax of each row.
///
/// A row that contains only −∞ gives 0, like a query with nothing to attend to.
///
/// # Shapes
/// `x`, `y` (rows, cols).
///
/// # Errors
/// If the lengths do not match.
pub fn softmax_forward<T: Real>(x: &[T], cols: usize, y: &mut [T]) -> Result<()> {
    check(x, cols, y)?;
    let _timed = profile::memory_bound::<T>("softmax", 2 * x.len());
    T::run::<SoftmaxForward>((x, cols, y));
    Ok(())
}

/// Computes `dx = y ∘ (dy − Σ_j dy_j y_j)`, where y is the result of the forward pass.
///
/// # Shapes
/// All (rows, cols).
///
/// # Errors
/// If the lengths do not match.
pub fn softmax_backward<T: Real>(y: &[T], cols: usize, dy: &[T], dx: &mut [T]) -> Result<()> {
    check(y, cols, dx)?;
    Error::check_length("softmax: dy", y.len(), dy.len())?;
    let _timed = profile::memory_bound::<T>("softmax, backward", 3 * y.len());
    for ((y, dy), dx) in y.chunks_exact(cols).zip(dy.chunks_exact(cols)).zip(dx.chunks_exact_mut(cols)) {
        let dot: T = y.iter().zip(dy).map(|(&y, &dy)| y * dy).sum();
        for ((&y, &dy), dx) in y.iter().zip(dy).zip(dx) {
            *dx = y * (dy - dot);
        }
    }
    Ok(())
}

implementations! {
    /// Both implementations of [`softmax_forward`].
    SoftmaxForward<'a, T>(x: &'a [T], cols: usize, y: &'a mut [T]) -> () {
        fast: |x, cols, y| isa::dispatch(SoftmaxRows(x, cols, y)),
        reference: reference::softmax_forward,
    }
}

struct SoftmaxRows<'a>(&'a [f32], usize, &'a mut [f32]);

impl SimdOp for SoftmaxRows<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let SoftmaxRows(x, cols, y) = self;
        for (x, y) in x.chunks_exact(cols).zip(y.chunks_exact_mut(cols)) {
            let mut largest = simd.splat(f32::NEG_INFINITY);
            for x in x.chunks(S::LANES) {
                largest = simd.max(simd.load_partial(x, f32::NEG_INFINITY), largest);
            }
            let largest = simd.max_lane(largest);
            let shift = simd.splat(if largest == f32::NEG_INFINITY { 0.0 } else { largest });
            let mut total = simd.splat(0.0);
            for (x, y) in x.chunks(S::LANES).zip(y.chunks_mut(S::LANES)) {
                let value = exp(simd, simd.sub(simd.load_partial(x, f32::NEG_INFINITY), shift));
                total = simd.add(total, value);
                simd.store_partial(y, value);
            }
            let total = simd.sum(total);
            let factor = if total == 0.0 { 0.0 } else { 1.0 / total };
            y.iter_mut().for_each(|y| *y *= factor);
        }
    }
}

/// The reference implementation.
pub(crate) mod reference {
    use crate::number::Real;

    /// Computes `y_j = exp(x_j − max) / Σ exp(x_k − max)` over rows of `cols`; 0 for a row of −∞.
    pub(crate) fn softmax_forward<T: Real>(x: &[T], cols: usize, y: &mut [T]) {
        y.copy_from_slice(x);
        y.chunks_exact_mut(cols).for_each(softmax_in_place);
    }

    /// Computes `softmax_forward` of a single row in place.
    pub fn softmax_in_place<T: Real>(x: &mut [T]) {
        let largest = x.iter().copied().fold(T::NEG_INFINITY, T::max);
        let shift = if largest == T::NEG_INFINITY { T::ZERO } else { largest };
        x.iter_mut().for_each(|x| *x = (*x - shift).exp());
        let total: T = x.iter().copied().sum();
        x.iter_mut().for_each(|x| *x = if total == T::ZERO { T::ZERO } else { *x / total });
    }
}
