//! Low precision: the number types that the fast attention reads and writes, one vector at a time.

use crate::isa::Simd;
use crate::number::Element;
use crate::threads::SharedMut;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use rayon::prelude::*;

/// An element type whose kernels compute in f32: f32, bf16 and f16.
pub(crate) trait F32Compute: Element<Sum = f32> {
    /// Converts values to f32, exactly.
    fn widen(from: &[Self], to: &mut [f32]);
    /// Rounds values to the nearest of this type.
    fn narrow(from: &[f32], to: &mut [Self]);
    /// Loads a vector.
    ///
    /// # Safety
    /// `from` must be valid for reading `LANES` values.
    unsafe fn load<S: Simd>(simd: S, from: *const Self) -> S::V;
    /// Stores a vector, rounded to the nearest values.
    ///
    /// # Safety
    /// `to` must be valid for writing `LANES` values.
    unsafe fn store<S: Simd>(simd: S, to: *mut Self, v: S::V);
    /// True if the type is f32.
    const IS_F32: bool = false;
    /// Erases the type of a slice.
    fn erase(of: &[Self]) -> DtypeSlice<'_>;
    /// Erases the type of a slice that tasks write.
    fn erase_shared(of: SharedMut<Self>) -> SharedDtypeSlice;
}

/// Implements the methods of [`F32Compute`] that differ only in the dtype: its variant, and how the instruction sets load
/// and store it.
macro_rules! dtype_methods {
    ($type:ident, $variant:ident, $load:ident, $store:ident) => {
        fn erase(of: &[$type]) -> DtypeSlice<'_> {
            DtypeSlice::$variant(of)
        }
        fn erase_shared(of: SharedMut<$type>) -> SharedDtypeSlice {
            SharedDtypeSlice::$variant(of)
        }
        #[inline(always)]
        unsafe fn load<S: Simd>(simd: S, from: *const $type) -> S::V {
            // SAFETY: the caller promises LANES values; bf16 and f16 have the layout of their u16 bits.
            unsafe { simd.$load(from.cast()) }
        }
        #[inline(always)]
        unsafe fn store<S: Simd>(simd: S, to: *mut $type, v: S::V) {
            // SAFETY: the caller promises space for LANES values; bf16 and f16 have the layout of their u16 bits.
            unsafe { simd.$store(to.cast(), v) }
        }
    };
}

impl F32Compute for f32 {
    const IS_F32: bool = true;
    dtype_methods!(f32, F32, load_ptr, store_ptr);
    #[inline(always)]
    fn widen(from: &[f32], to: &mut [f32]) {
        to.copy_from_slice(from);
    }
    #[inline(always)]
    fn narrow(from: &[f32], to: &mut [f32]) {
        to.copy_from_slice(from);
    }
}

impl F32Compute for bf16 {
    dtype_methods!(bf16, Bf16, load_bf16, store_bf16);
    #[inline(always)]
    fn widen(from: &[bf16], to: &mut [f32]) {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = f32::from_bits(u32::from(from.to_bits()) << 16));
    }
    #[inline(always)]
    fn narrow(from: &[f32], to: &mut [bf16]) {
        for (to, from) in to.iter_mut().zip(from) {
            let bits = from.to_bits();
            // Round to nearest, ties to even. A NaN, whose bits may wrap around here, stays a NaN by setting its quiet
            // bit.
            let rounded = bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16;
            let nan = (bits >> 16) | 0x40;
            *to = bf16::from_bits(if from.is_nan() { nan as u16 } else { rounded as u16 });
        }
    }
}

impl F32Compute for f16 {
    dtype_methods!(f16, F16, load_f16, store_f16);
    #[inline(always)]
    fn widen(from: &[f16], to: &mut [f32]) {
        from.convert_to_f32_slice(to);
    }
    #[inline(always)]
    fn narrow(from: &[f32], to: &mut [f16]) {
        to.convert_from_f32_slice(from);
    }
}

/// A read-only slice whose dtype is known only at run time, so that code that takes it is compiled once. It is matched
/// only where values are read and written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DtypeSlice<'a> {
    F32(&'a [f32]),
    Bf16(&'a [bf16]),
    F16(&'a [f16]),
}

impl DtypeSlice<'_> {
    /// Returns the number of bf16 terms that hold any of these values exactly.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(crate) fn bf16_terms(&self) -> usize {
        match self {
            DtypeSlice::F32(_) => 3,
            DtypeSlice::Bf16(_) => 1,
            DtypeSlice::F16(_) => 2,
        }
    }

    /// Returns the bytes per value.
    pub(crate) fn size(&self) -> usize {
        if matches!(self, DtypeSlice::F32(_)) { 4 } else { 2 }
    }
}

/// A [`DtypeSlice`] that tasks write, each a part of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SharedDtypeSlice {
    F32(SharedMut<f32>),
    Bf16(SharedMut<bf16>),
    F16(SharedMut<f16>),
}

impl SharedDtypeSlice {
    /// Returns the slice, if it is f32.
    pub(crate) fn as_f32(self) -> Option<SharedMut<f32>> {
        if let SharedDtypeSlice::F32(numbers) = self { Some(numbers) } else { None }
    }

    /// Writes the values of `from`, rounded to nearest, from index `at` on.
    ///
    /// # Safety
    /// * The memory must still be valid.
    /// * The caller must have exclusive access to these elements.
    #[inline(always)]
    pub(crate) unsafe fn write_f32(self, at: usize, from: &[f32]) {
        // SAFETY: valid and exclusive, as the caller promises. The shared memory comes from slices, so it is
        // initialized.
        unsafe {
            match self {
                SharedDtypeSlice::F32(to) => f32::narrow(from, to.slice(at, from.len())),
                SharedDtypeSlice::Bf16(to) => bf16::narrow(from, to.slice(at, from.len())),
                SharedDtypeSlice::F16(to) => f16::narrow(from, to.slice(at, from.len())),
            }
        }
    }

    /// Writes f64 values like [`SharedDtypeSlice::write_f32`], rounded once.
    ///
    /// # Safety
    /// Same as for [`SharedDtypeSlice::write_f32`].
    pub(crate) unsafe fn write_f64(self, at: usize, from: &[f64]) {
        fn round<T: Element>(from: &[f64], to: &mut [T]) {
            to.iter_mut().zip(from).for_each(|(to, &x)| *to = T::round_from(x));
        }
        // SAFETY: valid and exclusive, as the caller promises. The shared memory comes from slices, so it is
        // initialized.
        unsafe {
            match self {
                SharedDtypeSlice::F32(to) => round(from, to.slice(at, from.len())),
                SharedDtypeSlice::Bf16(to) => round(from, to.slice(at, from.len())),
                SharedDtypeSlice::F16(to) => round(from, to.slice(at, from.len())),
            }
        }
    }

    /// Sets `count` values from index `at` on to 0.
    ///
    /// # Safety
    /// Same as for [`SharedDtypeSlice::write_f32`].
    pub(crate) unsafe fn fill_zero(self, at: usize, count: usize) {
        // SAFETY: valid and exclusive, as the caller promises. The shared memory comes from slices, so it is
        // initialized.
        unsafe {
            match self {
                SharedDtypeSlice::F32(to) => to.slice(at, count).fill(0.0),
                SharedDtypeSlice::Bf16(to) => to.slice(at, count).fill(bf16::ZERO),
                SharedDtypeSlice::F16(to) => to.slice(at, count).fill(f16::ZERO),
            }
        }
    }
}

/// The dtype in which packed values are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum StorageDtype {
    F32,
    Bf16,
    F16,
}

impl StorageDtype {
    /// Returns the smallest dtype that represents all of these values exactly.
    pub(crate) fn smallest_exact(numbers: &[f32]) -> StorageDtype {
        /// The first values usually decide.
        const FIRST: usize = 256;
        let (first, rest) = numbers.split_at(FIRST.min(numbers.len()));
        let fits = |is_one: fn(f32) -> bool| {
            let all = |part: &[f32]| part.iter().all(|&x| is_one(x));
            all(first) && rest.par_chunks(1 << 16).all(all)
        };
        if fits(is_bf16) {
            StorageDtype::Bf16
        } else if fits(is_f16) {
            StorageDtype::F16
        } else {
            StorageDtype::F32
        }
    }

    /// Returns the bytes per value.
    pub(crate) fn size(self) -> usize {
        if self == StorageDtype::F32 { 4 } else { 2 }
    }

    /// Returns the bits of a value in a 16-bit dtype that represents it exactly.
    pub(crate) fn encode(self, x: f32) -> u16 {
        match self {
            StorageDtype::F16 => f16::from_f32(x).to_bits(),
            _ => (x.to_bits() >> 16) as u16,
        }
    }
}

fn is_bf16(x: f32) -> bool {
    x.to_bits() & 0xFFFF == 0
}

/// Returns whether a value is finite and exactly representable in f16.
fn is_f16(x: f32) -> bool {
    let bits = x.to_bits();
    // f16 has 10 fraction bits from 2^-14 to 2^15, and fewer down to 2^-24.
    let lost = match bits >> 23 & 0xFF {
        113..=142 => 13,
        exponent @ 103..=112 => 13 + 113 - exponent,
        _ => 31,
    };
    bits & ((1 << lost) - 1) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_dtype_is_the_smallest_exact_one() {
        for bits in 0..=u16::MAX {
            let (half, brain) = (f16::from_bits(bits).to_f32(), bf16::from_bits(bits).to_f32());
            assert_eq!(is_f16(half), half.is_finite(), "{half}");
            assert!(is_bf16(brain));
            if half.is_finite() {
                assert_eq!(StorageDtype::F16.encode(half), bits);
                // The next f32 is not representable in f16.
                assert!(!is_f16(f32::from_bits(half.to_bits() + 1)), "{half}");
            }
            assert!(brain.is_nan() || StorageDtype::Bf16.encode(brain) == bits);
        }
        assert!(!is_f16(65536.0) && !is_f16(2f32.powi(-25)));
        let mut numbers = vec![1.0, -0.5, 0.0];
        assert_eq!(StorageDtype::smallest_exact(&numbers), StorageDtype::Bf16);
        numbers.extend([1.0 + 2f32.powi(-10); 1000]);
        assert_eq!(StorageDtype::smallest_exact(&numbers), StorageDtype::F16);
        numbers.push(1e-9);
        assert_eq!(StorageDtype::smallest_exact(&numbers), StorageDtype::F32);
        assert_eq!(
            StorageDtype::smallest_exact(&[f32::NAN]),
            if is_bf16(f32::NAN) { StorageDtype::Bf16 } else { StorageDtype::F32 }
        );
    }

    #[test]
    fn nan_stays_nan() {
        let all = [0x7F80_0001, 0x7FC0_0000, 0x7FFF_FFFF, 0xFF80_0001, 0xFFFF_8000, u32::MAX].map(f32::from_bits);
        let (mut narrow, mut half) = ([bf16::ZERO; 6], [f16::ZERO; 6]);
        bf16::narrow(&all, &mut narrow);
        f16::narrow(&all, &mut half);
        assert!(narrow.iter().all(|x| x.is_nan()) && half.iter().all(|x| x.is_nan()));
    }
}
