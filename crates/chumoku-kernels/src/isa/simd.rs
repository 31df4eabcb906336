//! What an instruction set offers, and what is written against it.

use crate::philox::Philox;
use std::mem::MaybeUninit;

/// What is done lane by lane, with the token of an instruction set: functions of single numbers are written against this.
pub(crate) trait VectorMath: Copy {
    /// A vector of f32.
    type V: Copy;

    /// All lanes `x`.
    fn splat(self, x: f32) -> Self::V;
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
    /// `a · b` rounded, and what rounding took from it: together they are the product, for sizes from 1e-10 to 1e15.
    /// Source: Dekker, "A floating-point technique for extending the available precision" (1971).
    #[inline(always)]
    fn exact_product(self, a: Self::V, b: Self::V) -> (Self::V, Self::V) {
        let product = self.mul(a, b);
        let ((a, a_rest), (b, b_rest)) = (self.split_halves(a), self.split_halves(b));
        let rest = self.add(self.sub(self.mul(a, b), product), self.mul(a, b_rest));
        (product, self.add(self.add(rest, self.mul(a_rest, b)), self.mul(a_rest, b_rest)))
    }
    /// `a` as the sum of two numbers of half its digits, whose products are exact (Veltkamp's splitting).
    #[inline(always)]
    fn split_halves(self, a: Self::V) -> (Self::V, Self::V) {
        let scaled = self.mul(a, self.splat(4097.0));
        let high = self.sub(scaled, self.sub(scaled, a));
        (high, self.sub(a, high))
    }
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
    /// The nearest integers, ties to even.
    fn round(self, a: Self::V) -> Self::V;
}

/// A vector instruction set, as a token: a value of it proves that the instructions are there.
///
/// Methods are `inline(always)` so that they are compiled inside the `target_feature` function that [`super::dispatch`]
/// enters; without inlining each would be a call.
///
/// # Safety
///
/// * An implementor may only be constructible after detecting the features that its methods use.
/// * `LANES` must be the number of f32 that `load_ptr` reads and `store_ptr` writes, and a divisor of 16.
/// * `on_tile` must run the operation with this token, `TILE_ROWS`, and `TILE_COLS / LANES`.
pub(crate) unsafe trait Simd: VectorMath + Send + Sync + 'static {
    /// f32 values in a vector.
    const LANES: usize;
    /// Rows of a register tile: so many sums of whole vectors as fill the registers, with room for their factors.
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
    /// The lanes whose bits are set, 0 in the others.
    fn select_bits(self, bits: u16, a: Self::V) -> Self::V;
    /// Lanes written out.
    fn to_array(self, a: Self::V) -> [f32; 16];

    /// Runs `op` compiled for this instruction set, as a function of its own.
    fn run<O: SimdOp>(self, op: O) -> O::Output;

    /// Runs `op` with the size of this set's register tile, as constants: `TILE_ROWS` rows of as many vectors as make
    /// `TILE_COLS`.
    fn on_tile<O: TileOp>(self, op: O);

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

    /// Reads `LANES` f16 numbers, given by their bits.
    ///
    /// # Safety
    /// `p` must be valid for reading `LANES` of them.
    #[inline(always)]
    unsafe fn load_f16(self, p: *const u16) -> Self::V {
        let mut numbers = [0.0f32; 16];
        for (i, number) in numbers.iter_mut().enumerate().take(Self::LANES) {
            // SAFETY: the caller promises LANES of them.
            let bits = u32::from(unsafe { *p.add(i) });
            // The exponents of f16 are 112 less. A product with a power of 2 is exact, and raises numbers below the normal
            // ones too. Those of infinity and NaN are the largest of their form.
            let raised = f32::from_bits((bits & 0x7FFF) << 13) * f32::from_bits((127 + 112) << 23);
            let is_finite = bits & 0x7C00 != 0x7C00;
            let magnitude = if is_finite { raised } else { f32::from_bits(0x7F80_0000 | (bits & 0x3FF) << 13) };
            *number = f32::from_bits(magnitude.to_bits() | (bits & 0x8000) << 16);
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

    /// Writes `LANES` f16 numbers by their bits: the nearest, ties to even. NaN may become any other.
    ///
    /// # Safety
    /// `p` must be valid for writing `LANES` of them.
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut u16, v: Self::V) {
        for (i, lane) in self.to_array(v).into_iter().enumerate().take(Self::LANES) {
            // SAFETY: the caller promises LANES of them.
            unsafe { *p.add(i) = half::f16::from_f32(lane).to_bits() };
        }
    }

    /// The sums of the lanes of sixteen vectors, each as [`Simd::sum`] or in another fixed order.
    #[inline(always)]
    fn sums(self, rows: &[Self::V; 16]) -> [f32; 16] {
        rows.map(|row| self.sum(row))
    }

    /// Transposes 16 × 16 numbers; rows lie `stride` and `to_stride` apart.
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

    /// As [`Philox::bits`].
    #[inline(always)]
    fn random_bits(self, random: Philox, index: u64, threshold: u32) -> [u16; 8] {
        random.bits(index, threshold)
    }

    /// As [`Philox::factors`].
    #[inline(always)]
    fn random_factors(self, random: Philox, index: u64, threshold: u32, factor: f32) -> [[f32; 16]; 8] {
        random.factors(index, threshold, factor)
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
    fn max_lane(self, a: Self::V) -> f32 {
        let lanes = self.to_array(a);
        let mut largest = f32::NEG_INFINITY;
        for &lane in &lanes[..Self::LANES] {
            largest = largest.max(lane);
        }
        largest
    }
}

/// Two vectors as one, for what takes long: while one waits for a result the other goes on, and constants are loaded once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VectorPair<S>(pub(crate) S);

// No closures: they would be compiled without the instruction set.
impl<S: VectorMath> VectorMath for VectorPair<S> {
    type V = [S::V; 2];

    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        [self.0.splat(x); 2]
    }
    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        [self.0.add(a[0], b[0]), self.0.add(a[1], b[1])]
    }
    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        [self.0.sub(a[0], b[0]), self.0.sub(a[1], b[1])]
    }
    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        [self.0.mul(a[0], b[0]), self.0.mul(a[1], b[1])]
    }
    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        [self.0.div(a[0], b[0]), self.0.div(a[1], b[1])]
    }
    #[inline(always)]
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        [self.0.mul_add(a[0], b[0], c[0]), self.0.mul_add(a[1], b[1], c[1])]
    }
    #[inline(always)]
    fn exact_product(self, a: Self::V, b: Self::V) -> (Self::V, Self::V) {
        let (first, second) = (self.0.exact_product(a[0], b[0]), self.0.exact_product(a[1], b[1]));
        ([first.0, second.0], [first.1, second.1])
    }
    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        [self.0.max(a[0], b[0]), self.0.max(a[1], b[1])]
    }
    #[inline(always)]
    fn min(self, a: Self::V, b: Self::V) -> Self::V {
        [self.0.min(a[0], b[0]), self.0.min(a[1], b[1])]
    }
    #[inline(always)]
    fn select_lt(self, a: Self::V, b: Self::V, yes: Self::V, no: Self::V) -> Self::V {
        [self.0.select_lt(a[0], b[0], yes[0], no[0]), self.0.select_lt(a[1], b[1], yes[1], no[1])]
    }
    #[inline(always)]
    fn pow2(self, n: Self::V) -> Self::V {
        [self.0.pow2(n[0]), self.0.pow2(n[1])]
    }
    #[inline(always)]
    fn ldexp(self, a: Self::V, shifted: Self::V) -> Self::V {
        [self.0.ldexp(a[0], shifted[0]), self.0.ldexp(a[1], shifted[1])]
    }
    #[inline(always)]
    fn round(self, a: Self::V) -> Self::V {
        [self.0.round(a[0]), self.0.round(a[1])]
    }
}

/// A kernel's body, written once for every instruction set.
pub(crate) trait SimdOp {
    /// What it returns.
    type Output;
    /// The body. Implementations are `#[inline(always)]`, so that they are compiled with the set's instructions.
    fn eval<S: Simd>(self, simd: S) -> Self::Output;
}

/// What is done with a register tile, written once for every size of it.
pub(crate) trait TileOp {
    /// The body, for tiles of `ROWS` rows of `VECTORS` vectors. Implementations are `#[inline(always)]`.
    fn eval<S: Simd, const ROWS: usize, const VECTORS: usize>(self, simd: S);
}
