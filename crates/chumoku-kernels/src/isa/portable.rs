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

/// Implements methods of [`VectorMath`] by what they compute for one lane.
macro_rules! lanewise {
    ($($method:ident($($x:ident),*) => $lane:expr;)*) => {$(
        #[inline(always)]
        fn $method(self, $($x: Self::V),*) -> Self::V {
            each(|i| {
                $(let $x = $x[i];)*
                $lane
            })
        }
    )*};
}

impl VectorMath for Portable {
    type V = [f32; LANES];

    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        [x; LANES]
    }
    lanewise! {
        add(a, b) => a + b;
        sub(a, b) => a - b;
        mul(a, b) => a * b;
        div(a, b) => a / b;
        // Not f32::mul_add: without the instruction it calls into the C library for every lane.
        mul_add(a, b, c) => a * b + c;
        max(a, b) => if a > b { a } else { b };
        min(a, b) => if a < b { a } else { b };
        select_lt(a, b, yes, no) => if a < b { yes } else { no };
        pow2(n) => f32::from_bits(((n as i32 + 127) as u32) << 23);
        ldexp(a, shifted) => f32::from_bits(a.to_bits().wrapping_add(shifted.to_bits() << 23));
        // Adding 1.5·2^23 pushes the fraction out of the significand, rounding to even on the way.
        round(a) => (a + 12_582_912.0) - 12_582_912.0;
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
