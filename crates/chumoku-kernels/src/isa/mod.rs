//! Instruction sets: detection and vector types.
//!
//! This folder is the boundary to the hardware. A kernel is written once against [`Simd`], a token that stands for an
//! instruction set. Only detection can create a token, so holding one proves that the instructions exist. [`dispatch`]
//! picks the best token once per operation and compiles the kernel's body for it. Nothing outside this folder names an
//! intrinsic.
//!
//! `CHUMOKU_ISA=scalar|avx2|avx512|avx512bf16|amx` caps the choice.
//!
//! # Files
//!
//! - `avx2`: AVX2 with FMA and F16C
//! - `avx512`: AVX-512
//! - `bf16`: bf16 products with f32 sums
//! - `portable`: vectors as arrays, for any machine
//! - `simd`: the `VectorMath` and `Simd` traits

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
#[cfg(target_arch = "x86_64")]
pub(crate) mod bf16;
mod portable;
mod simd;

pub(crate) use simd::{Simd, SimdOp, TileOp, VectorMath, VectorPair};

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

pub(crate) use portable::Portable;

/// An instruction set that the kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum Isa {
    /// Plain Rust that the compiler vectorizes for the target's base instruction set (SSE2 on x86-64, NEON on aarch64).
    Scalar = 1,
    /// AVX2 with fused multiply–add: 8 lanes of f32.
    Avx2 = 2,
    /// AVX-512 (F, BW, DQ, VL): 16 lanes of f32.
    Avx512 = 3,
    /// AVX-512 with BF16: like AVX-512, with bf16 dot products for matrix products of low precision.
    Avx512Bf16 = 4,
    /// AVX-512 with BF16, and AMX tiles of bf16 for matrix products.
    Amx = 5,
}

impl Isa {
    /// All instruction sets that the crate supports, weakest first.
    pub const ALL: [Isa; 5] = [Isa::Scalar, Isa::Avx2, Isa::Avx512, Isa::Avx512Bf16, Isa::Amx];

    /// Returns the name that `CHUMOKU_ISA` accepts.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
            Isa::Avx512Bf16 => "avx512bf16",
            Isa::Amx => "amx",
        }
    }

    /// Returns whether this machine supports it (processor and operating system).
    pub fn is_available(self) -> bool {
        match self {
            Isa::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2::Avx2::new().is_some(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512::Avx512::new().is_some(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Bf16 | Isa::Amx => bf16::Bf16::new(self).is_some(),
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// Returns the best instruction set of this machine, regardless of `CHUMOKU_ISA`.
    pub fn best() -> Isa {
        *Isa::ALL.iter().rev().find(|isa| isa.is_available()).unwrap_or(&Isa::Scalar)
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// 0 until the first use, then the discriminant of the active instruction set.
static ACTIVE: AtomicU8 = AtomicU8::new(0);

/// Returns the active instruction set: the machine's best, capped by `CHUMOKU_ISA` or by [`cap`].
pub fn active() -> Isa {
    match ACTIVE.load(Ordering::Relaxed) {
        1 => Isa::Scalar,
        2 => Isa::Avx2,
        3 => Isa::Avx512,
        4 => Isa::Avx512Bf16,
        5 => Isa::Amx,
        _ => {
            let wish = std::env::var("CHUMOKU_ISA").unwrap_or_default();
            cap(from_name(&wish).unwrap_or(Isa::Amx))
        }
    }
}

/// Returns the instruction set with a name that `CHUMOKU_ISA` accepts. The empty name stands for the highest.
pub fn from_name(name: &str) -> Option<Isa> {
    match name {
        "" => Some(Isa::Amx),
        _ => Isa::ALL.into_iter().find(|isa| isa.name() == name),
    }
}

/// Caps the instruction set of the whole process at `highest`. Returns the active one.
///
/// For tests and for comparing instruction sets in one run. Results of different instruction sets agree only up to
/// rounding.
pub fn cap(highest: Isa) -> Isa {
    let isa = Isa::best().min(highest);
    ACTIVE.store(isa as u8, Ordering::Relaxed);
    isa
}

/// Prefetches the cache line of `p` into the second-level cache, if the machine supports it. Any address is allowed,
/// because nothing is read.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
#[inline(always)]
pub(crate) fn prefetch<T>(p: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: prefetching belongs to SSE, which every x86-64 has, and cannot fault.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(p.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// Runs `op` on the active instruction set.
pub(crate) fn dispatch<O: SimdOp>(op: O) -> O::Output {
    #[cfg(target_arch = "x86_64")]
    {
        let isa = active();
        if isa >= Isa::Avx512
            && let Some(simd) = avx512::Avx512::new()
        {
            return simd.run(op);
        }
        if isa >= Isa::Avx2
            && let Some(simd) = avx2::Avx2::new()
        {
            return simd.run(op);
        }
    }
    Portable.run(op)
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    /// Runs a check with the token of every instruction set of this machine.
    fn run_on_each_isa<O: SimdOp<Output = ()> + Copy>(op: O) {
        Portable.run(op);
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(simd) = avx2::Avx2::new() {
                simd.run(op);
            }
            if let Some(simd) = avx512::Avx512::new() {
                simd.run(op);
            }
        }
    }

    /// Returns distinct values that use every digit.
    fn numbers<const N: usize>() -> [f32; N] {
        std::array::from_fn(|i| (i as f32 * 0.7).sin() * 3.0 - 0.3)
    }

    #[test]
    fn transposes_16_by_16_blocks() {
        #[derive(Clone, Copy)]
        struct CheckTranspose;
        impl SimdOp for CheckTranspose {
            type Output = ();
            #[inline(always)]
            fn eval<S: Simd>(self, simd: S) {
                const FROM: usize = 19;
                const TO: usize = 17;
                let from = numbers::<{ 16 * FROM }>();
                let (mut moved, mut added) = ([9.0f32; 16 * TO], [9.0f32; 16 * TO]);
                // SAFETY: 16 rows of 16 fit both arrays at these strides.
                unsafe {
                    simd.transpose(from.as_ptr(), FROM, moved.as_mut_ptr(), TO);
                    simd.add_transposed(from.as_ptr(), FROM, 0.5, added.as_mut_ptr(), TO);
                }
                for i in 0..16 {
                    for j in 0..TO {
                        let expected = if j < 16 { from[j * FROM + i] } else { 9.0 };
                        assert_eq!(moved[i * TO + j], expected, "{i}, {j}");
                        let expected = if j < 16 { 9.0 + 0.5 * from[j * FROM + i] } else { 9.0 };
                        assert!((added[i * TO + j] - expected).abs() < 1e-6, "{i}, {j}");
                    }
                }
            }
        }
        run_on_each_isa(CheckTranspose);
    }

    #[test]
    fn sums_and_compares_lanes() {
        #[derive(Clone, Copy)]
        struct CheckLaneSums;
        impl SimdOp for CheckLaneSums {
            type Output = ();
            #[inline(always)]
            fn eval<S: Simd>(self, simd: S) {
                let all = numbers::<256>();
                let rows: [S::V; 16] = std::array::from_fn(|i| simd.load(&all[i * S::LANES..]));
                let sums = simd.sums(&rows);
                for (i, lanes) in all.chunks(S::LANES).take(16).enumerate() {
                    let exact: f64 = lanes.iter().map(|&x| f64::from(x)).sum();
                    assert!((f64::from(sums[i]) - exact).abs() < 1e-5);
                    assert!((f64::from(simd.sum(rows[i])) - exact).abs() < 1e-5);
                    assert_eq!(simd.max_lane(rows[i]), lanes.iter().copied().fold(f32::NEG_INFINITY, f32::max));
                }
            }
        }
        run_on_each_isa(CheckLaneSums);
    }

    #[test]
    fn loads_and_stores_16_bit_floats() {
        #[derive(Clone, Copy)]
        struct CheckHalfFloats;
        impl SimdOp for CheckHalfFloats {
            type Output = ();
            #[inline(always)]
            fn eval<S: Simd>(self, simd: S) {
                let all: Vec<u16> = (0..=u16::MAX).collect();
                for bits in all.chunks_exact(S::LANES) {
                    // SAFETY: a chunk has LANES values.
                    let (halves, brains) = unsafe { (simd.load_f16(bits.as_ptr()), simd.load_bf16(bits.as_ptr())) };
                    for (lane, &bits) in bits.iter().enumerate() {
                        let (half, brain) = (simd.to_array(halves)[lane], simd.to_array(brains)[lane]);
                        let expected = [f16::from_bits(bits).to_f32(), bf16::from_bits(bits).to_f32()];
                        for (found, expected) in [half, brain].into_iter().zip(expected) {
                            assert!(
                                found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(),
                                "{bits:x}"
                            );
                        }
                    }
                }
                // Ties, overflow, subnormal values and NaN.
                let hard =
                    [1.0 + 2f32.powi(-11), 1.0 + 3.0 * 2f32.powi(-11), 65519.0, 65520.0, -1e-7, 3e-8, f32::NAN, -0.0];
                for x in hard.into_iter().chain(numbers::<64>()) {
                    let (mut halves, mut brains) = ([0u16; 16], [0u16; 16]);
                    // SAFETY: both have space for 16 values, which no vector exceeds.
                    unsafe {
                        simd.store_f16(halves.as_mut_ptr(), simd.splat(x));
                        simd.store_bf16(brains.as_mut_ptr(), simd.splat(x));
                    }
                    let (half, brain) = (f16::from_bits(halves[S::LANES - 1]), bf16::from_bits(brains[S::LANES - 1]));
                    if x.is_nan() {
                        assert!(half.is_nan() && brain.is_nan());
                    } else {
                        assert_eq!((half, brain), (f16::from_f32(x), bf16::from_f32(x)), "{x}");
                    }
                    assert!(halves[S::LANES..].iter().chain(&brains[S::LANES..]).all(|&bits| bits == 0));
                }
            }
        }
        run_on_each_isa(CheckHalfFloats);
    }

    #[test]
    fn dropout_factors_match_philox() {
        #[derive(Clone, Copy)]
        struct CheckDropoutFactors;
        impl SimdOp for CheckDropoutFactors {
            type Output = ();
            #[inline(always)]
            fn eval<S: Simd>(self, simd: S) {
                let random = crate::philox::Philox::new(7, 1 << 40);
                for (index, threshold) in [(0, 0), (5, 6554), (u64::from(u32::MAX) - 3, 32768), (1 << 50, 65535)] {
                    let found = simd.random_factors(random, index, threshold, 1.25);
                    assert_eq!(found, random.factors(index, threshold, 1.25), "{index}, {threshold}");
                    let bits = simd.random_bits(random, index, threshold);
                    assert_eq!(bits, random.bits(index, threshold), "{index}, {threshold}");
                    for (bits, factors) in bits.iter().zip(found) {
                        assert!(factors.iter().enumerate().all(|(lane, &x)| (x > 0.0) == (bits >> lane & 1 == 1)));
                    }
                }
            }
        }
        run_on_each_isa(CheckDropoutFactors);
    }
}
