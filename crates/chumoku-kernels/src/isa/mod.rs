//! Instruction sets: which this machine has, and the vectors they offer.
//!
//! This folder is the seam. A kernel is written once against [`Simd`], a token that stands for an instruction set and
//! that only detection can make, so holding one is the proof that its instructions exist. [`dispatch`] picks the best
//! token once per operation and compiles the kernel's body for it. Nothing outside this folder names an intrinsic.
//!
//! `CHUMOKU_ISA=scalar|avx2|avx512|amx` caps the choice.

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
mod portable;

use std::fmt;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU8, Ordering};

use portable::Portable;

/// An instruction set that the kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Isa {
    /// Plain Rust that the compiler vectorises for the target's base set (SSE2 on x86-64, NEON on aarch64).
    Scalar = 1,
    /// AVX2 with fused multiply–add: 8 lanes of f32.
    Avx2 = 2,
    /// AVX-512 (F, BW, DQ, VL): 16 lanes of f32.
    Avx512 = 3,
    /// AVX-512 with BF16, and AMX tiles of bf16 for matrix products.
    Amx = 4,
}

impl Isa {
    /// Every instruction set the crate knows, weakest first.
    pub const ALL: [Isa; 4] = [Isa::Scalar, Isa::Avx2, Isa::Avx512, Isa::Amx];

    /// The name that `CHUMOKU_ISA` takes.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
            Isa::Amx => "amx",
        }
    }

    /// Whether this machine (processor and operating system) runs it.
    pub fn is_available(self) -> bool {
        match self {
            Isa::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2::Avx2::new().is_some(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512::Avx512::new().is_some(),
            #[cfg(target_arch = "x86_64")]
            Isa::Amx => amx::Amx::new().is_some(),
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// The best instruction set of this machine, whatever `CHUMOKU_ISA` says.
    pub fn best() -> Isa {
        *Isa::ALL.iter().rev().find(|isa| isa.is_available()).unwrap_or(&Isa::Scalar)
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// 0 until the first use, then the discriminant of the instruction set in force.
static ACTIVE: AtomicU8 = AtomicU8::new(0);

/// The instruction set that operations use: the machine's best, capped by `CHUMOKU_ISA` or by [`cap`].
pub fn active() -> Isa {
    match ACTIVE.load(Ordering::Relaxed) {
        1 => Isa::Scalar,
        2 => Isa::Avx2,
        3 => Isa::Avx512,
        4 => Isa::Amx,
        _ => {
            let wish = std::env::var("CHUMOKU_ISA").unwrap_or_default();
            cap(named(&wish).unwrap_or(Isa::Amx))
        }
    }
}

/// The instruction set of a name that `CHUMOKU_ISA` takes; nothing stands for the highest.
pub fn named(name: &str) -> Option<Isa> {
    match name {
        "" => Some(Isa::Amx),
        _ => Isa::ALL.into_iter().find(|isa| isa.name() == name),
    }
}

/// Uses no instruction set above `highest` from now on, in the whole process; returns the one in force.
///
/// For tests and for comparing instruction sets in one run. Results agree between sets to rounding only.
pub fn cap(highest: Isa) -> Isa {
    let isa = Isa::best().min(highest);
    ACTIVE.store(isa as u8, Ordering::Relaxed);
    isa
}

/// A vector instruction set, as a token: a value of it proves that the instructions are there.
///
/// Methods are `inline(always)` so that they are compiled inside the `target_feature` function that [`dispatch`]
/// enters; without inlining each would be a call.
///
/// # Safety
///
/// An implementor may only be constructible after detecting the features its methods use, and `LANES` must be the
/// number of f32 that `load_ptr` reads and `store_ptr` writes.
pub(crate) unsafe trait Simd: Copy + Send + Sync + 'static {
    /// A vector of `LANES` f32.
    type V: Copy;
    /// f32 values in a vector.
    const LANES: usize;
    /// Rows of the matrix product's register tile.
    const TILE_ROWS: usize;
    /// Columns of the matrix product's register tile.
    const TILE_COLS: usize;

    /// All lanes `x`.
    fn splat(self, x: f32) -> Self::V;
    /// Reads `LANES` values.
    ///
    /// # Safety
    /// `p` must be valid for reading `LANES` f32.
    unsafe fn load_ptr(self, p: *const f32) -> Self::V;
    /// Writes `LANES` values.
    ///
    /// # Safety
    /// `p` must be valid for writing `LANES` f32.
    unsafe fn store_ptr(self, p: *mut f32, v: Self::V);
    /// As [`Simd::store_ptr`], past the cache where the machine can and `p` is aligned to the vector. Other threads see
    /// it after [`Simd::fence`].
    ///
    /// # Safety
    /// As for [`Simd::store_ptr`]; `p` must be aligned to the vector.
    #[inline(always)]
    unsafe fn stream_ptr(self, p: *mut f32, v: Self::V) {
        // SAFETY: the caller promises room for LANES values, which is all that `store_ptr` asks for.
        unsafe { self.store_ptr(p, v) }
    }
    /// Orders what was streamed before what follows.
    #[inline(always)]
    fn fence(self) {}
    /// `a + b`
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a − b`
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a · b`
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a / b`
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a · b + c` (rounded once where the machine fuses it)
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The larger; where either is NaN, `b`.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// The smaller; where either is NaN, `b`.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    /// `yes` where `a < b`, else (also for NaN) `no`.
    fn select_lt(self, a: Self::V, b: Self::V, yes: Self::V, no: Self::V) -> Self::V;
    /// `2^n` for integral n in −126..=127.
    fn pow2(self, n: Self::V) -> Self::V;
    /// `a · 2^n` where `n + 1.5 · 2^23` is given as `shifted`: the exponent is added as an integer, so that neither `a`
    /// nor the result may be below the normal numbers, except that a = 1/2 … √2 and n = −126 give something tiny.
    fn ldexp(self, a: Self::V, shifted: Self::V) -> Self::V;
    /// The lanes whose bits are set, 0 in the others.
    fn select_bits(self, bits: u16, a: Self::V) -> Self::V;
    /// The nearest integers, ties to even.
    fn round(self, a: Self::V) -> Self::V;
    /// Lanes written out.
    fn to_array(self, a: Self::V) -> [f32; 16];

    /// Runs `op` compiled for this instruction set.
    fn run<O: Op>(self, op: O) -> O::Output;

    /// The register tile of the matrix product: see [`crate::gemm::Tile`].
    ///
    /// # Safety
    /// As for [`crate::gemm::tile`].
    unsafe fn tile(self, tile: crate::gemm::Tile);
    /// As [`Simd::tile`], with the rows of `a` [`crate::gemm::ACROSS`] apart.
    ///
    /// # Safety
    /// As for [`crate::gemm::tile`].
    unsafe fn tile_across(self, tile: crate::gemm::Tile);

    /// Reads `LANES` bf16 numbers, given by their bits.
    ///
    /// # Safety
    /// `p` must be valid for reading `LANES` of them.
    #[inline(always)]
    unsafe fn load_bf16(self, p: *const u16) -> Self::V {
        let mut numbers = [0.0f32; 16];
        for (i, number) in numbers.iter_mut().enumerate().take(Self::LANES) {
            // SAFETY: the caller promises LANES of them.
            *number = f32::from_bits(u32::from(unsafe { *p.add(i) }) << 16);
        }
        self.load(&numbers)
    }

    /// Writes `LANES` bf16 numbers by their bits: the nearest, ties to even. NaN may become any other.
    ///
    /// # Safety
    /// `p` must be valid for writing `LANES` of them.
    #[inline(always)]
    unsafe fn store_bf16(self, p: *mut u16, v: Self::V) {
        for (i, lane) in self.to_array(v).into_iter().enumerate().take(Self::LANES) {
            let bits = lane.to_bits();
            let nearest = if lane.is_nan() { bits | 0x40_0000 } else { bits + 0x7FFF + (bits >> 16 & 1) };
            // SAFETY: the caller promises LANES of them.
            unsafe { *p.add(i) = (nearest >> 16) as u16 };
        }
    }

    /// The sums of the lanes of sixteen vectors, each as [`Simd::sum`] or in another fixed order.
    #[inline(always)]
    fn sums(self, rows: &[Self::V; 16]) -> [f32; 16] {
        rows.map(|row| self.sum(row))
    }

    /// Adds `factor` times the transpose of 16 × 16 numbers to `to`, whose rows lie `to_stride` apart.
    ///
    /// # Safety
    /// 16 rows of 16 must be readable at `from` and readable and writable at `to`.
    #[inline(always)]
    unsafe fn add_transposed(self, from: *const f32, stride: usize, factor: f32, to: *mut f32, to_stride: usize) {
        for i in 0..16 {
            for j in 0..16 {
                // SAFETY: row `i` and column `j` are below 16, and the caller promises 16 rows of 16 at both.
                unsafe { *to.add(i * to_stride + j) += factor * *from.add(j * stride + i) };
            }
        }
    }

    /// Reads the first `LANES` values of `s`.
    #[inline(always)]
    fn load(self, s: &[f32]) -> Self::V {
        assert!(s.len() >= Self::LANES);
        // SAFETY: the slice holds at least LANES values.
        unsafe { self.load_ptr(s.as_ptr()) }
    }

    /// Writes to the first `LANES` values of `s`.
    #[inline(always)]
    fn store(self, s: &mut [f32], v: Self::V) {
        assert!(s.len() >= Self::LANES);
        // SAFETY: the slice holds at least LANES values.
        unsafe { self.store_ptr(s.as_mut_ptr(), v) }
    }

    /// As [`Simd::store`], where there may be no values yet.
    #[inline(always)]
    fn write(self, s: &mut [MaybeUninit<f32>], v: Self::V) {
        assert!(s.len() >= Self::LANES);
        // SAFETY: the slice has room for at least LANES values.
        unsafe { self.store_ptr(s.as_mut_ptr().cast(), v) }
    }

    /// Reads a slice shorter than a vector, filling up with `fill`.
    #[inline(always)]
    fn load_partial(self, s: &[f32], fill: f32) -> Self::V {
        let mut buffer = [fill; 16];
        let n = s.len().min(Self::LANES);
        buffer[..n].copy_from_slice(&s[..n]);
        self.load(&buffer)
    }

    /// Writes the first `s.len()` lanes.
    #[inline(always)]
    fn store_partial(self, s: &mut [f32], v: Self::V) {
        let lanes = self.to_array(v);
        let n = s.len().min(Self::LANES);
        s[..n].copy_from_slice(&lanes[..n]);
    }

    /// Reads a vector from the start of `s`, filling up with `fill` where it is shorter.
    #[inline(always)]
    fn load_up_to(self, s: &[f32], fill: f32) -> Self::V {
        if s.len() >= Self::LANES { self.load(s) } else { self.load_partial(s, fill) }
    }

    /// Writes a vector to the start of `s`, as far as it goes.
    #[inline(always)]
    fn store_up_to(self, s: &mut [f32], v: Self::V) {
        if s.len() >= Self::LANES { self.store(s, v) } else { self.store_partial(s, v) }
    }

    /// As [`Simd::store_up_to`], where there may be no values yet.
    #[inline(always)]
    fn write_up_to(self, s: &mut [MaybeUninit<f32>], v: Self::V) {
        if s.len() >= Self::LANES {
            self.write(s, v);
        } else {
            s.iter_mut().zip(self.to_array(v)).for_each(|(s, lane)| {
                s.write(lane);
            });
        }
    }

    /// The factors of dropout for the blocks `index..index + 16` of a stream: see [`crate::dropout::factors`].
    #[inline(always)]
    fn dropout_factors(self, random: crate::Philox, index: u64, threshold: u32, factor: f32) -> [[f32; 16]; 8] {
        crate::dropout::factors(random.fill_lanes(index), threshold, factor)
    }

    /// The sum of the lanes, added pairwise in a fixed order.
    #[inline(always)]
    fn sum(self, a: Self::V) -> f32 {
        let mut lanes = self.to_array(a);
        let mut width = Self::LANES / 2;
        while width > 0 {
            for i in 0..width {
                lanes[i] += lanes[i + width];
            }
            width /= 2;
        }
        lanes[0]
    }

    /// The largest lane; NaN lanes may be passed over.
    #[inline(always)]
    fn largest(self, a: Self::V) -> f32 {
        let lanes = self.to_array(a);
        let mut largest = f32::NEG_INFINITY;
        for &lane in &lanes[..Self::LANES] {
            largest = largest.max(lane);
        }
        largest
    }
}

/// Asks for the cache line of `p`, into the second-level cache, ahead of its use, where the machine can. Any address will
/// do: none is read.
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

/// A kernel's body, written once for every instruction set.
pub(crate) trait Op {
    /// What it returns.
    type Output;
    /// The body. Implementations are `#[inline(always)]`, so that they are compiled with the set's instructions.
    fn eval<S: Simd>(self, simd: S) -> Self::Output;
}

/// Runs `op` on the active instruction set.
pub(crate) fn dispatch<O: Op>(op: O) -> O::Output {
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
