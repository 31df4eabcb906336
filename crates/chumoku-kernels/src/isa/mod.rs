//! Instruction sets: which this machine has, and the vectors they offer.
//!
//! This folder is the seam. A kernel is written once against [`Simd`], a token that stands for an instruction set and
//! that only detection can make, so holding one is the proof that its instructions exist. [`dispatch`] picks the best
//! token once per operation and compiles the kernel's body for it. Nothing outside this folder names an intrinsic.
//!
//! `CHUMOKU_ISA=scalar|avx2|avx512|avx512bf16|amx` caps the choice.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
#[cfg(target_arch = "x86_64")]
pub(crate) mod bf16;
mod portable;
mod simd;

pub(crate) use simd::{Op, Simd, TileOp};

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

pub(crate) use portable::Portable;

/// An instruction set that the kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum Isa {
    /// Plain Rust that the compiler vectorises for the target's base set (SSE2 on x86-64, NEON on aarch64).
    Scalar = 1,
    /// AVX2 with fused multiply–add: 8 lanes of f32.
    Avx2 = 2,
    /// AVX-512 (F, BW, DQ, VL): 16 lanes of f32.
    Avx512 = 3,
    /// AVX-512 with BF16: as AVX-512, and dot products of bf16 for matrix products that need be no more exact.
    Avx512Bf16 = 4,
    /// AVX-512 with BF16, and AMX tiles of bf16 for matrix products.
    Amx = 5,
}

impl Isa {
    /// Every instruction set the crate knows, weakest first.
    pub const ALL: [Isa; 5] = [Isa::Scalar, Isa::Avx2, Isa::Avx512, Isa::Avx512Bf16, Isa::Amx];

    /// The name that `CHUMOKU_ISA` takes.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
            Isa::Avx512Bf16 => "avx512bf16",
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
            Isa::Avx512Bf16 | Isa::Amx => bf16::Bf16::new(self).is_some(),
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
        4 => Isa::Avx512Bf16,
        5 => Isa::Amx,
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
