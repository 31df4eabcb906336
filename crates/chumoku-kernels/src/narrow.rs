//! The numbers that the fast attention reads and writes, a vector at a time.

use crate::isa::Simd;
use crate::number::Element;
use crate::threads::SharedMut;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

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

    #[test]
    fn any_nan_stays_one() {
        let all = [0x7F80_0001, 0x7FC0_0000, 0x7FFF_FFFF, 0xFF80_0001, 0xFFFF_8000, u32::MAX].map(f32::from_bits);
        let (mut narrow, mut half) = ([bf16::ZERO; 6], [f16::ZERO; 6]);
        bf16::narrow(&all, &mut narrow);
        f16::narrow(&all, &mut half);
        assert!(narrow.iter().all(|x| x.is_nan()) && half.iter().all(|x| x.is_nan()));
    }
}
