//! Dropout: values are set to 0 at random and the others scaled up, so that the expectation stays the same.
//!
//! Source: Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting" (2014). The kept
//! values follow from a [`Philox`] stream and the index, so the backward pass regenerates the same mask.

use crate::isa::{self, Simd, SimdOp};
use crate::memory::fill_uninit;
use crate::number::{Real, implementations};
use crate::philox::{LANES, Philox};
use crate::profile;
use crate::threads::{SharedMut, for_each};
use crate::{Error, Result};

/// Values whose bits come from sixteen Philox blocks, sixteen bits each.
pub(crate) const GROUP: usize = 8 * LANES;

pub(crate) fn check_rate(what: &'static str, rate: f32) -> Result<()> {
    if (0.0..1.0).contains(&rate) {
        Ok(())
    } else {
        Err(Error::value(what, format!("expected at least 0 and below 1, got {rate}")))
    }
}

/// The dropout mask: threshold and factor for a rate, and the stream of random numbers.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct DropoutMask {
    random: Philox,
    threshold: u32,
    factor: f32,
}

impl DropoutMask {
    /// Creates the mask of a rate. The rate is rounded to 1/65536, and the factor is that of the rounded rate, so the
    /// expectation is exact.
    pub(crate) fn new(rate: f32, random: Philox) -> Self {
        let threshold = ((f64::from(rate) * 65536.0).round() as u32).min(65535);
        DropoutMask { random, threshold, factor: (65536.0 / (65536.0 - f64::from(threshold))) as f32 }
    }

    /// Returns 1/(1 − rate).
    pub(crate) fn factor(&self) -> f32 {
        self.factor
    }

    /// Returns the bits of the kept values of group `index`: eight rows of sixteen.
    #[inline(always)]
    pub(crate) fn bits<S: Simd>(&self, simd: S, index: u64) -> [u16; 8] {
        simd.random_bits(self.random, index.wrapping_mul(LANES as u64), self.threshold)
    }

    /// Returns the mask of a [`Dropout`], or `None` if it drops nothing.
    pub(crate) fn from_dropout(dropout: Dropout) -> Option<Self> {
        (dropout.rate > 0.0).then(|| DropoutMask::new(dropout.rate, dropout.random))
    }

    /// Returns the factors (0 or 1/(1 − rate)) of group `index`, as eight rows of sixteen.
    #[inline(always)]
    pub(crate) fn factors(&self, index: u64) -> [[f32; LANES]; 8] {
        self.random.factors(index.wrapping_mul(LANES as u64), self.threshold, self.factor)
    }

    /// Computes [`DropoutMask::factors`] with the instructions of `simd`.
    #[inline(always)]
    pub(crate) fn factors_simd<S: Simd>(&self, simd: S, index: u64) -> [[f32; LANES]; 8] {
        simd.random_factors(self.random, index.wrapping_mul(LANES as u64), self.threshold, self.factor)
    }

    /// Drops the same values from each `x` in place. Their first value is number `first` of the stream.
    #[inline(always)]
    pub(crate) fn apply<S: Simd, const N: usize>(&self, simd: S, first: usize, mut x: [&mut [f32]; N]) {
        let zero = simd.splat(0.0);
        let len = x.iter().map(|x| x.len()).min().unwrap_or(0);
        let mut at = 0;
        while at < len {
            let (group, skip) = ((first + at) / GROUP, (first + at) % GROUP);
            let count = (GROUP - skip).min(len - at);
            let factors = self.factors_simd(simd, group as u64);
            // Selected instead of multiplied: dropped values are 0 even if they were not finite.
            for x in &mut x {
                let x = &mut x[at..at + count];
                if count == GROUP {
                    for (x, factor) in x.chunks_exact_mut(S::LANES).zip(factors.as_flattened().chunks_exact(S::LANES)) {
                        let (value, factor) = (simd.load(x), simd.load(factor));
                        simd.store(x, simd.select_lt(zero, factor, simd.mul(value, factor), zero));
                    }
                } else {
                    let factors = &factors.as_flattened()[skip..skip + count];
                    for (x, factor) in x.chunks_mut(S::LANES).zip(factors.chunks(S::LANES)) {
                        let (value, factor) = (simd.load_up_to(x, 0.0), simd.load_up_to(factor, 0.0));
                        simd.store_up_to(x, simd.select_lt(zero, factor, simd.mul(value, factor), zero));
                    }
                }
            }
            at += count;
        }
    }
}

/// Dropout as an argument: the rate, and the stream of random numbers.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    /// The fraction of values set to 0, in 0..1.
    pub rate: f32,
    /// The stream of random numbers, indexed by element.
    pub random: Philox,
}

/// Groups in a piece of work.
const PIECE: usize = 64;

struct DropoutChunk<'a> {
    mask: DropoutMask,
    first: usize,
    x: &'a mut [f32],
}

impl SimdOp for DropoutChunk<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        self.mask.apply(simd, self.first, [self.x]);
    }
}

fn dropout_f32(x: &mut [f32], keep: DropoutMask) {
    let (len, size) = (x.len(), PIECE * GROUP);
    let shared = SharedMut::new(x);
    for_each(len.div_ceil(size), len * 4, |piece| {
        let start = piece * size;
        // SAFETY: each piece is its own range.
        let x = unsafe { shared.slice(start, size.min(len - start)) };
        isa::dispatch(DropoutChunk { mask: keep, first: start, x });
    });
}

fn dropout_copy_f32(x: &[f32], keep: DropoutMask) -> Vec<f32> {
    let (len, size) = (x.len(), PIECE * GROUP);
    let fill = |y: SharedMut<f32>| {
        for_each(len.div_ceil(size), len * 4, |piece| {
            let start = piece * size;
            let part = &x[start..len.min(start + size)];
            // SAFETY: each piece is its own range, and is written before it is read.
            let y = unsafe {
                y.copy_from(start, part);
                y.slice(start, part.len())
            };
            isa::dispatch(DropoutChunk { mask: keep, first: start, x: y });
        });
    };
    // SAFETY: the pieces cover all of it.
    unsafe { fill_uninit(len, fill) }
}

/// Sets a fraction `rate` of `x` to 0 and multiplies the rest by 1/(1 − rate), in place.
///
/// The backward pass is the same call on the gradient: the dropped elements depend only on `random` and the index.
///
/// # Errors
/// If `rate` is not in 0..1.
pub fn dropout<T: Real>(x: &mut [T], rate: f32, random: Philox) -> Result<()> {
    check_rate("dropout: rate", rate)?;
    if rate == 0.0 {
        return Ok(());
    }
    let _timed = profile::memory_bound::<T>("dropout", 2 * x.len());
    T::run::<DropoutInPlace>((x, DropoutMask::new(rate, random)));
    Ok(())
}

/// Applies [`dropout`] and returns the result in new memory.
///
/// # Errors
/// If the rate is not in 0..1.
pub fn dropout_copy<T: Real>(x: &[T], dropout: Dropout) -> Result<Vec<T>> {
    check_rate("dropout: rate", dropout.rate)?;
    let _timed = profile::memory_bound::<T>("dropout", 2 * x.len());
    Ok(T::run::<DropoutCopy>((x, DropoutMask::new(dropout.rate, dropout.random))))
}

implementations! {
    /// Both implementations of [`dropout`].
    DropoutInPlace<'a, T>(x: &'a mut [T], keep: DropoutMask) -> () {
        fast: dropout_f32,
        reference: reference::dropout,
    }
}

implementations! {
    /// Both implementations of [`dropout_copy`].
    DropoutCopy<'a, T>(x: &'a [T], keep: DropoutMask) -> Vec<T> {
        fast: dropout_copy_f32,
        reference: |x: &[f64], keep| {
            let mut y = x.to_vec();
            reference::dropout(&mut y, keep);
            y
        },
    }
}

/// The reference implementation.
pub(crate) mod reference {
    use super::{DropoutMask, GROUP};
    use crate::number::Real;

    /// Applies dropout in place, one value at a time.
    #[doc(hidden)]
    pub fn dropout<T: Real>(x: &mut [T], keep: DropoutMask) {
        for (group, x) in x.chunks_mut(GROUP).enumerate() {
            for (x, &factor) in x.iter_mut().zip(keep.factors(group as u64).as_flattened()) {
                // Selected instead of multiplied: dropped values are 0 even if they were not finite.
                *x = if factor == 0.0 { T::ZERO } else { *x * T::round_from(f64::from(factor)) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_rate_and_expectation_are_correct() {
        let mut x = vec![1.0f32; 1_000_003];
        dropout(&mut x, 0.3, Philox::new(1, 1)).unwrap();
        let dropped = x.iter().filter(|&&x| x == 0.0).count() as f64 / x.len() as f64;
        let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / x.len() as f64;
        assert!((dropped - 0.3).abs() < 0.003, "{dropped}");
        assert!((mean - 1.0).abs() < 0.005, "{mean}");
    }

    #[test]
    fn same_elements_drop_in_f32_and_f64_for_any_length() {
        let mut a = vec![1.0f32; 1000];
        let mut b = vec![1.0f64; 777];
        dropout(&mut a, 0.5, Philox::new(5, 9)).unwrap();
        dropout(&mut b, 0.5, Philox::new(5, 9)).unwrap();
        assert!(a.iter().zip(&b).all(|(a, b)| f64::from(*a) == *b));
        let mut c = vec![1.0f32; 1000];
        dropout(&mut c, 0.5, Philox::new(5, 10)).unwrap();
        assert_ne!(a, c);
    }

    #[test]
    fn dropped_nan_becomes_zero() {
        let mut x = vec![f32::NAN; 1000];
        dropout(&mut x, 0.5, Philox::new(5, 9)).unwrap();
        assert!(x.contains(&0.0) && x.iter().any(|x| x.is_nan()));
    }

    #[test]
    fn rates_out_of_range_are_rejected() {
        for rate in [-0.1, 1.0, f32::NAN] {
            assert!(dropout(&mut [1.0f32], rate, Philox::new(0, 0)).is_err());
        }
    }
}
