//! Vectors as plain arrays: this runs everywhere, and the compiler turns the loops into the target's base instruction
//! set.

use super::simd::{Simd, SimdOp, TileOp, VectorMath};

const LANES: usize = 8;

/// Token of plain Rust; always available.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

/// Applies `f` to each lane. (Written out because `array::from_fn` takes several times as long to compile, for the same
/// code.)
#[inline(always)]
fn each(f: impl Fn(usize) -> f32) -> [f32; LANES] {
    [f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7)]
}

impl VectorMath for Portable {
    type V = [f32; LANES];

    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        [x; LANES]
    }
    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        each(|i| a[i] + b[i])
    }
    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        each(|i| a[i] - b[i])
    }
    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        each(|i| a[i] * b[i])
    }
    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        each(|i| a[i] / b[i])
    }
    #[inline(always)]
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // Not f32::mul_add: without the instruction it calls into the C library for every lane.
        each(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        each(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn min(self, a: Self::V, b: Self::V) -> Self::V {
        each(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn select_lt(self, a: Self::V, b: Self::V, yes: Self::V, no: Self::V) -> Self::V {
        each(|i| if a[i] < b[i] { yes[i] } else { no[i] })
    }
    #[inline(always)]
    fn pow2(self, n: Self::V) -> Self::V {
        each(|i| f32::from_bits(((n[i] as i32 + 127) as u32) << 23))
    }
    #[inline(always)]
    fn ldexp(self, a: Self::V, shifted: Self::V) -> Self::V {
        each(|i| f32::from_bits(a[i].to_bits().wrapping_add(shifted[i].to_bits() << 23)))
    }
    #[inline(always)]
    fn round(self, a: Self::V) -> Self::V {
        // Adding 1.5·2^23 pushes the fraction out of the significand, rounding to even on the way.
        const MAGIC: f32 = 12_582_912.0;
        each(|i| (a[i] + MAGIC) - MAGIC)
    }
}

// SAFETY: needs no feature beyond the target's base instruction set. Loads and stores move exactly LANES values. Tile
// sizes are as stated.
unsafe impl Simd for Portable {
    const LANES: usize = LANES;
    const TILE_ROWS: usize = 4;
    const TILE_COLS: usize = LANES;
    #[inline(always)]
    unsafe fn load_ptr(self, p: *const f32) -> Self::V {
        // SAFETY: the caller promises LANES readable values.
        unsafe { p.cast::<Self::V>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store_ptr(self, p: *mut f32, v: Self::V) {
        // SAFETY: the caller promises LANES writable values.
        unsafe { p.cast::<Self::V>().write_unaligned(v) }
    }
    #[inline(always)]
    fn select_bits(self, bits: u16, a: Self::V) -> Self::V {
        each(|i| if bits >> i & 1 == 1 { a[i] } else { 0.0 })
    }
    #[inline(always)]
    fn to_array(self, a: Self::V) -> [f32; 16] {
        let mut out = [0.0; 16];
        out[..LANES].copy_from_slice(&a);
        out
    }
    #[inline(always)]
    fn run<O: SimdOp>(self, op: O) -> O::Output {
        entry(self, op)
    }
    #[inline(always)]
    fn on_tile<O: TileOp>(self, op: O) {
        on_tile(self, op);
    }
}

/// Runs `op` as a separate function, so that operations with several callers are compiled once.
#[inline(never)]
fn entry<O: SimdOp>(simd: Portable, op: O) -> O::Output {
    op.eval(simd)
}

/// Body of [`Simd::on_tile`]: compiled once for all callers if this is the fallback, and inlined if it is the fastest
/// instruction set.
#[cfg_attr(target_arch = "x86_64", inline(never))]
#[cfg_attr(not(target_arch = "x86_64"), inline(always))]
fn on_tile<O: TileOp>(simd: Portable, op: O) {
    op.eval::<Portable, { Portable::TILE_ROWS }, { Portable::TILE_COLS / LANES }>(simd);
}
