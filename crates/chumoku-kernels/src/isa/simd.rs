//! The vector traits of instruction sets, and the traits of operations written against them.

use crate::philox::Philox;
use std::mem::MaybeUninit;

/// Lanewise arithmetic with the token of an instruction set. Elementwise functions are written against this trait.
pub(crate) trait VectorMath: Copy {
    /// A vector of f32.
    type V: Copy;

    /// Returns a vector with all lanes `x`.
    fn splat(self, x: f32) -> Self::V;
    /// Computes `a + b`.
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// Computes `a − b`.
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// Computes `a · b`.
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// Computes `a / b`.
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// Computes `a · b + c`, rounded once if the machine supports fused operations.
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// Returns `a · b` rounded, and its rounding error. Their sum is the exact product, for magnitudes from 1e-10 to
    /// 1e15. Source: Dekker, "A floating-point technique for extending the available precision" (1971).
    #[inline(always)]
    fn exact_product(self, a: Self::V, b: Self::V) -> (Self::V, Self::V) {
        let product = self.mul(a, b);
        let ((a, a_rest), (b, b_rest)) = (self.split_halves(a), self.split_halves(b));
        let rest = self.add(self.sub(self.mul(a, b), product), self.mul(a, b_rest));
        (product, self.add(self.add(rest, self.mul(a_rest, b)), self.mul(a_rest, b_rest)))
    }
    /// Splits `a` into the sum of two values with half its digits, whose products are exact (Veltkamp's splitting).
    #[inline(always)]
    fn split_halves(self, a: Self::V) -> (Self::V, Self::V) {
        let scaled = self.mul(a, self.splat(4097.0));
        let high = self.sub(scaled, self.sub(scaled, a));
        (high, self.sub(a, high))
    }
    /// Returns the larger value; `b` if either is NaN.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// Returns the smaller value; `b` if either is NaN.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    /// Returns `yes` where `a < b`, otherwise (also for NaN) `no`.
    fn select_lt(self, a: Self::V, b: Self::V, yes: Self::V, no: Self::V) -> Self::V;
    /// Computes `2^n` for integral n in −126..=127.
    fn pow2(self, n: Self::V) -> Self::V;
    /// Computes `a · 2^n`, where `shifted` is `n + 1.5 · 2^23`. The exponent is added as an integer, so neither `a` nor
    /// the result may be subnormal. An exception is a = 1/2 … √2 with n = −126, which gives a tiny value.
    fn ldexp(self, a: Self::V, shifted: Self::V) -> Self::V;
    /// Rounds to the nearest integers, ties to even.
    fn round(self, a: Self::V) -> Self::V;
}

/// A vector instruction set, represented by a token: a value of it proves that the instructions exist.
///
/// Methods are `inline(always)`, so that they are compiled inside of the `target_feature` function that
/// [`super::dispatch`] enters. Without inlining each would be a call.
///
/// # Safety
///
/// * An implementor may only be constructible after detecting the features that its methods use.
/// * `LANES` must be the number of f32 that `load_ptr` reads and `store_ptr` writes, and a divisor of 16.
/// * `on_tile` must run the operation with this token, `TILE_ROWS`, and `TILE_COLS / LANES`.
pub(crate) unsafe trait Simd: VectorMath + Send + Sync + 'static {
    /// Number of f32 values in a vector.
    const LANES: usize;
    /// Rows of a register tile: as many sums of whole vectors as fit the registers together with their factors.
    const TILE_ROWS: usize;
    /// Columns of a register tile.
    const TILE_COLS: usize;
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
    /// Writes `LANES` values past the cache, if the machine supports it. Other threads see them after [`Simd::fence`].
    ///
    /// # Safety
    /// Same as for [`Simd::store_ptr`]; `p` must be aligned to the vector.
    #[inline(always)]
    unsafe fn stream_ptr(self, p: *mut f32, v: Self::V) {
        // SAFETY: the caller promises space for LANES values, which is all that `store_ptr` requires.
        unsafe { self.store_ptr(p, v) }
    }
    /// Orders streamed values before subsequent writes.
    #[inline(always)]
    fn fence(self) {}
    /// Returns the lanes whose bits are set, and 0 in the others.
    fn select_bits(self, bits: u16, a: Self::V) -> Self::V;
    /// Returns the lanes as an array.
    fn to_array(self, a: Self::V) -> [f32; 16];

    /// Runs `op` compiled for this instruction set, as a separate function.
    fn run<O: SimdOp>(self, op: O) -> O::Output;

    /// Runs `op` with the size of the register tile as constants: `TILE_ROWS` rows, with `TILE_COLS` columns as a
    /// number of vectors.
    fn on_tile<O: TileOp>(self, op: O);

    /// Loads `LANES` bf16 values, given by their bits.
    ///
    /// # Safety
    /// `p` must be valid for reading `LANES` values.
    #[inline(always)]
    unsafe fn load_bf16(self, p: *const u16) -> Self::V {
        let mut numbers = [0.0f32; 16];
        for (i, number) in numbers.iter_mut().enumerate().take(Self::LANES) {
            // SAFETY: the caller promises LANES values.
            *number = f32::from_bits(u32::from(unsafe { *p.add(i) }) << 16);
        }
        self.load(&numbers)
    }

    /// Loads `LANES` f16 values, given by their bits.
    ///
    /// # Safety
    /// `p` must be valid for reading `LANES` values.
    #[inline(always)]
    unsafe fn load_f16(self, p: *const u16) -> Self::V {
        let mut numbers = [0.0f32; 16];
        for (i, number) in numbers.iter_mut().enumerate().take(Self::LANES) {
            // SAFETY: the caller promises LANES values.
            let bits = u32::from(unsafe { *p.add(i) });
            // The exponents of f16 are 112 lower. The product with a power of 2 is exact, and also normalizes subnormal
            // values. Infinity and NaN have the largest exponent of both formats.
            let raised = f32::from_bits((bits & 0x7FFF) << 13) * f32::from_bits((127 + 112) << 23);
            let is_finite = bits & 0x7C00 != 0x7C00;
            let magnitude = if is_finite { raised } else { f32::from_bits(0x7F80_0000 | (bits & 0x3FF) << 13) };
            *number = f32::from_bits(magnitude.to_bits() | (bits & 0x8000) << 16);
        }
        self.load(&numbers)
    }

    /// Stores `LANES` values as the bits of the nearest bf16, ties to even. NaN may change its payload.
    ///
    /// # Safety
    /// `p` must be valid for writing `LANES` values.
    #[inline(always)]
    unsafe fn store_bf16(self, p: *mut u16, v: Self::V) {
        for (i, lane) in self.to_array(v).into_iter().enumerate().take(Self::LANES) {
            let bits = lane.to_bits();
            let nearest = if lane.is_nan() { bits | 0x40_0000 } else { bits + 0x7FFF + (bits >> 16 & 1) };
            // SAFETY: the caller promises LANES values.
            unsafe { *p.add(i) = (nearest >> 16) as u16 };
        }
    }

    /// Stores `LANES` values as the bits of the nearest f16, ties to even. NaN may change its payload.
    ///
    /// # Safety
    /// `p` must be valid for writing `LANES` values.
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut u16, v: Self::V) {
        for (i, lane) in self.to_array(v).into_iter().enumerate().take(Self::LANES) {
            // SAFETY: the caller promises LANES values.
            unsafe { *p.add(i) = half::f16::from_f32(lane).to_bits() };
        }
    }

    /// Returns the sums of the lanes of sixteen vectors, each in the order of [`Simd::sum`] or another fixed order.
    #[inline(always)]
    fn sums(self, rows: &[Self::V; 16]) -> [f32; 16] {
        rows.map(|row| self.sum(row))
    }

    /// Transposes 16 × 16 values. Rows are `stride` and `to_stride` apart.
    ///
    /// # Safety
    /// 16 rows of 16 must be readable at `from` and writable at `to`, and not overlap.
    #[inline(always)]
    unsafe fn transpose(self, from: *const f32, stride: usize, to: *mut f32, to_stride: usize) {
        for i in 0..16 {
            for j in 0..16 {
                // SAFETY: row `i` and column `j` are below 16, and the caller promises 16 rows of 16 at both.
                unsafe { *to.add(i * to_stride + j) = *from.add(j * stride + i) };
            }
        }
    }

    /// Adds `factor` times the transpose of 16 × 16 values to `to`, whose rows are `to_stride` apart.
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

    /// Writes the first `LANES` values of `s`.
    #[inline(always)]
    fn store(self, s: &mut [f32], v: Self::V) {
        assert!(s.len() >= Self::LANES);
        // SAFETY: the slice holds at least LANES values.
        unsafe { self.store_ptr(s.as_mut_ptr(), v) }
    }

    /// Writes like [`Simd::store`], to memory that may be uninitialized.
    #[inline(always)]
    fn write(self, s: &mut [MaybeUninit<f32>], v: Self::V) {
        assert!(s.len() >= Self::LANES);
        // SAFETY: the slice has space for at least LANES values.
        unsafe { self.store_ptr(s.as_mut_ptr().cast(), v) }
    }

    /// Reads a slice that is shorter than a vector, and pads with `fill`.
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

    /// Reads a vector from the start of `s`, and pads with `fill` if it is shorter.
    #[inline(always)]
    fn load_up_to(self, s: &[f32], fill: f32) -> Self::V {
        if s.len() >= Self::LANES { self.load(s) } else { self.load_partial(s, fill) }
    }

    /// Writes as much of a vector as fits to the start of `s`.
    #[inline(always)]
    fn store_up_to(self, s: &mut [f32], v: Self::V) {
        if s.len() >= Self::LANES { self.store(s, v) } else { self.store_partial(s, v) }
    }

    /// Writes like [`Simd::store_up_to`], to memory that may be uninitialized.
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

    /// Computes [`Philox::bits`].
    #[inline(always)]
    fn random_bits(self, random: Philox, index: u64, threshold: u32) -> [u16; 8] {
        random.bits(index, threshold)
    }

    /// Computes [`Philox::factors`].
    #[inline(always)]
    fn random_factors(self, random: Philox, index: u64, threshold: u32, factor: f32) -> [[f32; 16]; 8] {
        random.factors(index, threshold, factor)
    }

    /// Returns the sum of the lanes, added pairwise in a fixed order.
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

    /// Returns the largest lane; NaN lanes may be ignored.
    #[inline(always)]
    fn max_lane(self, a: Self::V) -> f32 {
        let lanes = self.to_array(a);
        let mut largest = f32::NEG_INFINITY;
        for &lane in &lanes[..Self::LANES] {
            largest = largest.max(lane);
        }
        largest
    }
}

/// Implements methods of [`VectorMath`] that are one instruction each.
#[cfg(target_arch = "x86_64")]
macro_rules! single_instructions {
    ($vector:ty: $($method:ident($($x:ident),*) => $instruction:ident;)*) => {$(
        #[inline(always)]
        fn $method(self, $($x: $vector),*) -> $vector {
            // SAFETY: the token proves the instruction set.
            unsafe { $instruction($($x),*) }
        }
    )*};
}
#[cfg(target_arch = "x86_64")]
pub(super) use single_instructions;

/// Two vectors as one, for long computations: the two chains of operations overlap, and constants are loaded only once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VectorPair<S>(pub(crate) S);

/// Implements methods of [`VectorMath`] on each of two vectors. No closures: they would be compiled without the
/// instruction set.
macro_rules! on_both {
    ($($method:ident($($x:ident),*);)*) => {$(
        #[inline(always)]
        fn $method(self, $($x: Self::V),*) -> Self::V {
            [self.0.$method($($x[0]),*), self.0.$method($($x[1]),*)]
        }
    )*};
}

impl<S: VectorMath> VectorMath for VectorPair<S> {
    type V = [S::V; 2];

    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        [self.0.splat(x); 2]
    }
    #[inline(always)]
    fn exact_product(self, a: Self::V, b: Self::V) -> (Self::V, Self::V) {
        let (first, second) = (self.0.exact_product(a[0], b[0]), self.0.exact_product(a[1], b[1]));
        ([first.0, second.0], [first.1, second.1])
    }
    on_both! {
        add(a, b);
        sub(a, b);
        mul(a, b);
        div(a, b);
        mul_add(a, b, c);
        max(a, b);
        min(a, b);
        select_lt(a, b, yes, no);
        pow2(n);
        ldexp(a, shifted);
        round(a);
    }
}

/// The body of a kernel, written once for every instruction set.
pub(crate) trait SimdOp {
    /// The result type.
    type Output;
    /// Runs the body. Implementations are `#[inline(always)]`, so that they are compiled with the instructions of the
    /// set.
    fn eval<S: Simd>(self, simd: S) -> Self::Output;
}

/// An operation on a register tile, written once for every tile size.
pub(crate) trait TileOp {
    /// Runs the body for tiles of `ROWS` rows of `VECTORS` vectors. Implementations are `#[inline(always)]`.
    fn eval<S: Simd, const ROWS: usize, const VECTORS: usize>(self, simd: S);
}
