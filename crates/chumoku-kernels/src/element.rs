//! The number types of attention's inputs and outputs.

// `Element::sort` is for this crate alone, whatever the trait is for.
#![allow(private_bounds, private_interfaces)]

use crate::isa::Simd;
use crate::real::Real;
use crate::threads::SharedMut;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use std::fmt::Debug;

/// A floating-point type that attention reads and writes: `f32`, `bf16`, `f16`, or `f64` for checking.
///
/// Sums are kept in [`Element::Sum`]: f32, or f64 for f64.
pub trait Element: sealed::Sealed + Copy + Debug + Default + PartialEq + Send + Sync + 'static {
    /// The type of sums: of log-sum-exp, of additive masks and of their gradient.
    type Sum: Real;
    /// Its name.
    const NAME: &'static str;

    /// The nearest value to `x`.
    fn of(x: f64) -> Self;
    /// The value in double precision.
    fn to_f64(self) -> f64;

    /// Arguments as what they are: of numbers of this type. (Nobody outside the crate can name a family.)
    #[doc(hidden)]
    fn sort<F: Family>(args: F::Of<Self>) -> Sorted<F>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for half::bf16 {}
    impl Sealed for half::f16 {}
}

impl Element for f64 {
    type Sum = f64;
    const NAME: &'static str = "f64";
    fn sort<F: Family>(args: F::Of<f64>) -> Sorted<F> {
        Sorted::F64(args)
    }
    fn of(x: f64) -> f64 {
        x
    }
    fn to_f64(self) -> f64 {
        self
    }
}

impl Element for f32 {
    type Sum = f32;
    const NAME: &'static str = "f32";
    fn sort<F: Family>(args: F::Of<f32>) -> Sorted<F> {
        Sorted::F32(args)
    }
    fn of(x: f64) -> f32 {
        x as f32
    }
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

impl Element for bf16 {
    type Sum = f32;
    const NAME: &'static str = "bf16";
    fn sort<F: Family>(args: F::Of<bf16>) -> Sorted<F> {
        Sorted::Bf16(args)
    }
    fn of(x: f64) -> bf16 {
        bf16::from_f32(to_odd(x))
    }
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

impl Element for f16 {
    type Sum = f32;
    const NAME: &'static str = "f16";
    fn sort<F: Family>(args: F::Of<f16>) -> Sorted<F> {
        Sorted::F16(args)
    }
    fn of(x: f64) -> f16 {
        f16::from_f32(to_odd(x))
    }
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

/// `x` as f32, rounded to an odd last bit where it is not exact, so that rounding once more gives what rounding once would.
/// (`from_f64` of the `half` crate looks at the upper half of an f64 alone, and takes what is just above a tie for one.)
/// Source: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums" (2008).
fn to_odd(x: f64) -> f32 {
    let nearest = x as f32;
    let bits = nearest.to_bits();
    if !nearest.is_finite() || f64::from(nearest) == x || bits & 1 == 1 {
        return nearest;
    }
    f32::from_bits(if f64::from(nearest).abs() < x.abs() { bits + 1 } else { bits - 1 })
}

/// Arguments of any number type, to be sorted by it: so that what is generic over [`Element`] can call functions that are
/// not. Those are compiled with this crate, where the kernels are one unit, and not with whoever calls.
pub(crate) trait Family {
    /// The arguments.
    type Of<T: Element>;
}

/// Arguments whose number type is known.
pub(crate) enum Sorted<F: Family> {
    F32(F::Of<f32>),
    F64(F::Of<f64>),
    Bf16(F::Of<bf16>),
    F16(F::Of<f16>),
}

/// An element whose sums are f32: what the fast kernels read and write.
pub(crate) trait Narrow: Element<Sum = f32> {
    /// bf16 terms that hold any of its numbers.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    const TERMS: usize;
    /// The numbers as f32, exactly.
    fn widen(from: &[Self], to: &mut [f32]);
    /// The nearest numbers.
    fn narrow(from: &[f32], to: &mut [Self]);
    /// A vector of them.
    ///
    /// # Safety
    /// `from` must be valid for reading `LANES` of them.
    unsafe fn load<S: Simd>(simd: S, from: *const Self) -> S::V;
    /// Writes the nearest numbers of a vector.
    ///
    /// # Safety
    /// `to` must be valid for writing `LANES` of them, and hold numbers.
    #[inline(always)]
    unsafe fn store<S: Simd>(simd: S, to: *mut Self, v: S::V) {
        let mut lanes = [0.0; 16];
        simd.store(&mut lanes, v);
        // SAFETY: the caller promises LANES numbers that may be written, and every one is; being numbers already, they
        // may be looked at as a slice.
        Self::narrow(&lanes[..S::LANES], unsafe { std::slice::from_raw_parts_mut(to, S::LANES) });
    }
    /// Whether the numbers are bf16.
    const IS_BF16: bool = false;
    /// Whether the numbers are f32.
    const IS_F32: bool = false;
    /// The numbers themselves, to be written, if they are f32.
    fn shared_f32(_: SharedMut<Self>) -> Option<SharedMut<f32>> {
        None
    }
}

impl Narrow for f32 {
    const TERMS: usize = 3;
    const IS_F32: bool = true;
    #[inline(always)]
    fn widen(from: &[f32], to: &mut [f32]) {
        to.copy_from_slice(from);
    }
    #[inline(always)]
    fn narrow(from: &[f32], to: &mut [f32]) {
        to.copy_from_slice(from);
    }
    #[inline(always)]
    unsafe fn load<S: Simd>(simd: S, from: *const f32) -> S::V {
        // SAFETY: the caller promises LANES numbers, f32.
        unsafe { simd.load_ptr(from) }
    }
    #[inline(always)]
    unsafe fn store<S: Simd>(simd: S, to: *mut f32, v: S::V) {
        // SAFETY: the caller promises room for LANES numbers, f32.
        unsafe { simd.store_ptr(to, v) }
    }
    fn shared_f32(numbers: SharedMut<f32>) -> Option<SharedMut<f32>> {
        Some(numbers)
    }
}

impl Narrow for bf16 {
    const TERMS: usize = 1;
    const IS_BF16: bool = true;
    #[inline(always)]
    unsafe fn load<S: Simd>(simd: S, from: *const bf16) -> S::V {
        // SAFETY: the caller promises LANES numbers; bf16 is a u16, its bits.
        unsafe { simd.load_bf16(from.cast()) }
    }
    #[inline(always)]
    unsafe fn store<S: Simd>(simd: S, to: *mut bf16, v: S::V) {
        // SAFETY: the caller promises room for LANES numbers; bf16 is a u16, its bits.
        unsafe { simd.store_bf16(to.cast(), v) }
    }
    #[inline(always)]
    fn widen(from: &[bf16], to: &mut [f32]) {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = f32::from_bits(u32::from(from.to_bits()) << 16));
    }
    #[inline(always)]
    fn narrow(from: &[f32], to: &mut [bf16]) {
        for (to, from) in to.iter_mut().zip(from) {
            let bits = from.to_bits();
            // To the nearest, ties to even; a NaN (whose bits may wrap around here) stays one by keeping its quiet bit.
            let rounded = bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16;
            let nan = (bits >> 16) | 0x40;
            *to = bf16::from_bits(if from.is_nan() { nan as u16 } else { rounded as u16 });
        }
    }
}

impl Narrow for f16 {
    const TERMS: usize = 2;
    #[inline(always)]
    unsafe fn load<S: Simd>(simd: S, from: *const f16) -> S::V {
        let mut numbers = [0.0; 16];
        // SAFETY: the caller promises LANES numbers.
        f16::widen(unsafe { std::slice::from_raw_parts(from, S::LANES) }, &mut numbers[..S::LANES]);
        simd.load(&numbers)
    }
    #[inline(always)]
    fn widen(from: &[f16], to: &mut [f32]) {
        from.convert_to_f32_slice(to);
    }
    #[inline(always)]
    fn narrow(from: &[f32], to: &mut [f16]) {
        to.convert_from_f32_slice(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The one of the numbers next to `x as T` that is nearest to `x`, the even one at a tie.
    fn check<T: Element>(next: impl Fn(u16) -> T, bits: impl Fn(T) -> u16, x: f64) {
        let found = bits(T::of(x));
        for other in [found.wrapping_sub(1), found.wrapping_add(1)] {
            let (near, far) = ((next(found).to_f64() - x).abs(), (next(other).to_f64() - x).abs());
            let is_nearest = near < far || (near == far && found & 1 == 0) || far.is_nan();
            assert!(is_nearest, "{} {x:e} became {:e}, not {:e}", T::NAME, next(found).to_f64(), next(other).to_f64());
        }
    }

    #[test]
    fn any_nan_stays_one() {
        let all = [0x7F80_0001, 0x7FC0_0000, 0x7FFF_FFFF, 0xFF80_0001, 0xFFFF_8000, u32::MAX].map(f32::from_bits);
        let (mut narrow, mut half) = ([bf16::ZERO; 6], [f16::ZERO; 6]);
        bf16::narrow(&all, &mut narrow);
        f16::narrow(&all, &mut half);
        assert!(narrow.iter().all(|x| x.is_nan()) && half.iter().all(|x| x.is_nan()));
    }

    #[test]
    fn numbers_become_the_nearest_of_half_the_width() {
        let steps = (0..2000).map(|n| 1.0 + f64::from(n) / 4096.0);
        for tie in steps.flat_map(|x| [x, -x, x * 1e-3, x * 1e-7, x * 900.0]) {
            for scale in [0.0, 1e-16, -1e-16, 1e-9, -1e-9, 1e-6, -1e-6] {
                let x = tie * (1.0 + scale);
                check(bf16::from_bits, bf16::to_bits, x);
                check(f16::from_bits, f16::to_bits, x);
            }
        }
        for x in [0.0, -0.0, f64::INFINITY, 1e300, -1e300, 1e-300] {
            assert_eq!(bf16::of(x).to_f64(), f64::from(x as f32));
            assert_eq!(f16::of(x).to_f64(), f64::from(x as f32));
        }
        assert!(bf16::of(f64::NAN).is_nan() && f16::of(f64::NAN).is_nan());
    }
}
