//! AVX2 with FMA and F16C, which all processors with AVX2 support: 8 lanes of f32, 16 registers.

use super::simd::{Simd, SimdOp, TileOp, VectorMath, single_instructions};
use crate::philox::{self, Philox};
use std::arch::x86_64::*;

/// Token that proves AVX2, FMA and F16C.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// Returns the token, if the processor and the operating system support these features.
    pub(crate) fn new() -> Option<Self> {
        // The same list as on `entry` below.
        let is_there =
            is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
        is_there.then_some(Avx2(()))
    }
}

/// Runs `op` as a separate function, so that operations with several callers are compiled once.
///
/// # Safety
/// The processor must have AVX2, FMA and F16C.
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn entry<O: SimdOp>(simd: Avx2, op: O) -> O::Output {
    op.eval(simd)
}

/// Returns the high and low words of the products of eight values with `word`, which is given in every even word.
#[inline(always)]
fn wide_product(x: __m256i, word: __m256i) -> (__m256i, __m256i) {
    const ODD: i32 = 0xAA;
    // SAFETY: a value of an AVX vector type proves AVX; the callers have the token of AVX2.
    unsafe {
        let even = _mm256_mul_epu32(x, word);
        let odd = _mm256_mul_epu32(_mm256_srli_epi64::<32>(x), word);
        let high = _mm256_blend_epi32::<ODD>(_mm256_srli_epi64::<32>(even), odd);
        (high, _mm256_blend_epi32::<ODD>(even, _mm256_slli_epi64::<32>(odd)))
    }
}

/// Returns the halves of the words of sixteen blocks with these counters: for each half, eight of the blocks, then the
/// other eight.
#[inline(always)]
fn random_halves(random: Philox, counters: &[[u32; 16]; 4]) -> [[__m256i; 2]; 8] {
    // SAFETY: a value of an AVX vector type proves AVX; the callers have the token of AVX2. Each array holds sixteen
    // words, eight for each vector.
    unsafe {
        let mut blocks = [[_mm256_setzero_si256(); 4]; 2];
        for (word, words) in counters.iter().enumerate() {
            for (c, words) in blocks.iter_mut().zip(words.as_chunks::<8>().0) {
                c[word] = _mm256_loadu_si256(words.as_ptr().cast());
            }
        }
        let m0 = _mm256_set1_epi64x(i64::from(philox::MULTIPLIERS[0]));
        let m1 = _mm256_set1_epi64x(i64::from(philox::MULTIPLIERS[1]));
        for [k0, k1] in random.keys() {
            let (k0, k1) = (_mm256_set1_epi32(k0 as i32), _mm256_set1_epi32(k1 as i32));
            for c in &mut blocks {
                let (high0, low0) = wide_product(c[0], m0);
                let (high1, low1) = wide_product(c[2], m1);
                *c = [
                    _mm256_xor_si256(_mm256_xor_si256(high1, c[1]), k0),
                    low1,
                    _mm256_xor_si256(_mm256_xor_si256(high0, c[3]), k1),
                    low0,
                ];
            }
        }
        let low = _mm256_set1_epi32(0xFFFF);
        let mut halves = [[low; 2]; 8];
        for (i, c) in blocks.into_iter().enumerate() {
            for (halves, words) in halves.chunks_exact_mut(2).zip(c) {
                halves[0][i] = _mm256_and_si256(words, low);
                halves[1][i] = _mm256_srli_epi32::<16>(words);
            }
        }
        halves
    }
}

/// Transposes eight rows into their columns.
#[inline(always)]
fn transposed(rows: [__m256; 8]) -> [__m256; 8] {
    // SAFETY: a value of an AVX vector type proves AVX; the callers have the token of AVX2.
    unsafe {
        // Pairs of rows, each on its own line: instructions in a closure would be calls.
        let (a, b) = (_mm256_unpacklo_ps(rows[0], rows[1]), _mm256_unpackhi_ps(rows[0], rows[1]));
        let (c, d) = (_mm256_unpacklo_ps(rows[2], rows[3]), _mm256_unpackhi_ps(rows[2], rows[3]));
        let (e, f) = (_mm256_unpacklo_ps(rows[4], rows[5]), _mm256_unpackhi_ps(rows[4], rows[5]));
        let (g, h) = (_mm256_unpacklo_ps(rows[6], rows[7]), _mm256_unpackhi_ps(rows[6], rows[7]));
        // Columns 0 to 3 (and 4 to 7 in the upper half) of rows 0 to 3, and of rows 4 to 7.
        let upper = [
            _mm256_shuffle_ps::<0x44>(a, c),
            _mm256_shuffle_ps::<0xEE>(a, c),
            _mm256_shuffle_ps::<0x44>(b, d),
            _mm256_shuffle_ps::<0xEE>(b, d),
        ];
        let lower = [
            _mm256_shuffle_ps::<0x44>(e, g),
            _mm256_shuffle_ps::<0xEE>(e, g),
            _mm256_shuffle_ps::<0x44>(f, h),
            _mm256_shuffle_ps::<0xEE>(f, h),
        ];
        [
            _mm256_permute2f128_ps::<0x20>(upper[0], lower[0]),
            _mm256_permute2f128_ps::<0x20>(upper[1], lower[1]),
            _mm256_permute2f128_ps::<0x20>(upper[2], lower[2]),
            _mm256_permute2f128_ps::<0x20>(upper[3], lower[3]),
            _mm256_permute2f128_ps::<0x31>(upper[0], lower[0]),
            _mm256_permute2f128_ps::<0x31>(upper[1], lower[1]),
            _mm256_permute2f128_ps::<0x31>(upper[2], lower[2]),
            _mm256_permute2f128_ps::<0x31>(upper[3], lower[3]),
        ]
    }
}

impl VectorMath for Avx2 {
    type V = __m256;

    #[inline(always)]
    fn splat(self, x: f32) -> __m256 {
        // SAFETY: the token proves AVX2.
        unsafe { _mm256_set1_ps(x) }
    }
    single_instructions! { __m256:
        add(a, b) => _mm256_add_ps;
        sub(a, b) => _mm256_sub_ps;
        mul(a, b) => _mm256_mul_ps;
        div(a, b) => _mm256_div_ps;
        mul_add(a, b, c) => _mm256_fmadd_ps;
        max(a, b) => _mm256_max_ps;
        min(a, b) => _mm256_min_ps;
    }
    #[inline(always)]
    fn exact_product(self, a: __m256, b: __m256) -> (__m256, __m256) {
        let product = self.mul(a, b);
        // SAFETY: the token proves FMA.
        (product, unsafe { _mm256_fmsub_ps(a, b, product) })
    }
    #[inline(always)]
    fn select_lt(self, a: __m256, b: __m256, yes: __m256, no: __m256) -> __m256 {
        // SAFETY: the token proves AVX2.
        unsafe { _mm256_blendv_ps(no, yes, _mm256_cmp_ps::<_CMP_LT_OQ>(a, b)) }
    }
    #[inline(always)]
    fn pow2(self, n: __m256) -> __m256 {
        // SAFETY: the token proves AVX2.
        unsafe {
            let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent))
        }
    }
    #[inline(always)]
    fn ldexp(self, a: __m256, shifted: __m256) -> __m256 {
        // SAFETY: the token proves AVX2.
        unsafe {
            let exponent = _mm256_slli_epi32::<23>(_mm256_castps_si256(shifted));
            _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), exponent))
        }
    }
    #[inline(always)]
    fn round(self, a: __m256) -> __m256 {
        // SAFETY: the token proves AVX2.
        unsafe { _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
    }
}

// SAFETY: `new` is the only constructor and detects AVX2, FMA and F16C. Loads and stores move exactly 8 values. Tile
// sizes are as stated.
unsafe impl Simd for Avx2 {
    const LANES: usize = 8;
    const TILE_ROWS: usize = 6;
    const TILE_COLS: usize = 16;
    #[inline(always)]
    unsafe fn load_ptr(self, p: *const f32) -> __m256 {
        // SAFETY: the token proves AVX2; the caller promises 8 readable values.
        unsafe { _mm256_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn store_ptr(self, p: *mut f32, v: __m256) {
        // SAFETY: the token proves AVX2; the caller promises 8 writable values.
        unsafe { _mm256_storeu_ps(p, v) }
    }
    #[inline(always)]
    fn select_bits(self, bits: u16, a: __m256) -> __m256 {
        // SAFETY: the token proves AVX2.
        unsafe {
            let lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            let set = _mm256_and_si256(_mm256_set1_epi32(i32::from(bits)), lane);
            _mm256_and_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(set, lane)), a)
        }
    }
    #[inline(always)]
    unsafe fn load_bf16(self, p: *const u16) -> __m256 {
        // SAFETY: the token proves AVX2; the caller promises 8 values.
        unsafe {
            let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits))
        }
    }
    #[inline(always)]
    unsafe fn load_f16(self, p: *const u16) -> __m256 {
        // SAFETY: the token proves F16C; the caller promises 8 values.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(p.cast())) }
    }
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut u16, v: __m256) {
        // SAFETY: the token proves F16C; the caller promises 8 values.
        unsafe { _mm_storeu_si128(p.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v)) };
    }
    #[inline(always)]
    fn sums(self, rows: &[__m256; 16]) -> [f32; 16] {
        let mut sums = [0.0; 16];
        for (rows, sums) in rows.as_chunks::<8>().0.iter().zip(sums.as_chunks_mut::<8>().0) {
            // SAFETY: the token proves AVX2.
            unsafe {
                // Within each half, horizontal sums of four rows each: first pairs of lanes, then fours.
                let first = _mm256_hadd_ps(_mm256_hadd_ps(rows[0], rows[1]), _mm256_hadd_ps(rows[2], rows[3]));
                let second = _mm256_hadd_ps(_mm256_hadd_ps(rows[4], rows[5]), _mm256_hadd_ps(rows[6], rows[7]));
                let low = _mm256_permute2f128_ps::<0x20>(first, second);
                let high = _mm256_permute2f128_ps::<0x31>(first, second);
                self.store(sums, _mm256_add_ps(low, high));
            }
        }
        sums
    }
    #[inline(always)]
    unsafe fn transpose(self, from: *const f32, stride: usize, to: *mut f32, to_stride: usize) {
        for (i, j) in [(0, 0), (0, 8), (8, 0), (8, 8)] {
            // SAFETY: the caller promises 16 rows of 16 at both; these are 8 of 8 of them.
            unsafe {
                let mut rows = [self.splat(0.0); 8];
                for (k, row) in rows.iter_mut().enumerate() {
                    *row = self.load_ptr(from.add((j + k) * stride + i));
                }
                for (k, column) in transposed(rows).into_iter().enumerate() {
                    self.store_ptr(to.add((i + k) * to_stride + j), column);
                }
            }
        }
    }
    #[inline(always)]
    unsafe fn add_transposed(self, from: *const f32, stride: usize, factor: f32, to: *mut f32, to_stride: usize) {
        let factor = self.splat(factor);
        for (i, j) in [(0, 0), (0, 8), (8, 0), (8, 8)] {
            // SAFETY: the caller promises 16 rows of 16 at both; these are 8 of 8 of them.
            unsafe {
                let mut rows = [self.splat(0.0); 8];
                for (k, row) in rows.iter_mut().enumerate() {
                    *row = self.load_ptr(from.add((j + k) * stride + i));
                }
                for (k, column) in transposed(rows).into_iter().enumerate() {
                    let to = to.add((i + k) * to_stride + j);
                    self.store_ptr(to, self.mul_add(factor, column, self.load_ptr(to)));
                }
            }
        }
    }
    #[inline(always)]
    fn sum(self, a: __m256) -> f32 {
        // Same order as the default implementation of the trait.
        // SAFETY: the token proves AVX2.
        unsafe {
            let fours = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let twos = _mm_add_ps(fours, _mm_movehl_ps(fours, fours));
            _mm_cvtss_f32(_mm_add_ss(twos, _mm_shuffle_ps::<1>(twos, twos)))
        }
    }
    #[inline(always)]
    fn max_lane(self, a: __m256) -> f32 {
        // SAFETY: the token proves AVX2.
        unsafe {
            let fours = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let twos = _mm_max_ps(fours, _mm_movehl_ps(fours, fours));
            _mm_cvtss_f32(_mm_max_ss(twos, _mm_shuffle_ps::<1>(twos, twos)))
        }
    }
    #[inline(always)]
    unsafe fn store_bf16(self, p: *mut u16, v: __m256) {
        // SAFETY: the token proves AVX2; the caller promises 8 values.
        unsafe {
            let bits = _mm256_castps_si256(v);
            let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            let nearest = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd);
            let is_nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(v, v));
            let quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x40_0000));
            let nearest = _mm256_srli_epi32::<16>(_mm256_blendv_epi8(nearest, quiet, is_nan));
            // Halves of four in the first and third quarter.
            let packed = _mm256_permute4x64_epi64::<0b10_00>(_mm256_packus_epi32(nearest, nearest));
            _mm_storeu_si128(p.cast(), _mm256_castsi256_si128(packed));
        }
    }
    #[inline(always)]
    fn to_array(self, a: __m256) -> [f32; 16] {
        let mut out = [0.0; 16];
        self.store(&mut out, a);
        out
    }
    #[inline(always)]
    fn random_bits(self, random: Philox, index: u64, threshold: u32) -> [u16; 8] {
        let halves = random_halves(random, &random.counters(index));
        let mut bits = [0; 8];
        // SAFETY: the token proves AVX2.
        unsafe {
            // Halves of words are below 2¹⁶, so the signed comparison equals the unsigned one.
            let below = _mm256_set1_epi32(threshold as i32 - 1);
            for (bits, half) in bits.iter_mut().zip(halves) {
                let low = _mm256_castsi256_ps(_mm256_cmpgt_epi32(half[0], below));
                let high = _mm256_castsi256_ps(_mm256_cmpgt_epi32(half[1], below));
                *bits = _mm256_movemask_ps(low) as u16 | (_mm256_movemask_ps(high) as u16) << 8;
            }
        }
        bits
    }
    #[inline(always)]
    fn random_factors(self, random: Philox, index: u64, threshold: u32, factor: f32) -> [[f32; 16]; 8] {
        let halves = random_halves(random, &random.counters(index));
        let mut factors = [[0.0; 16]; 8];
        // SAFETY: the token proves AVX2.
        unsafe {
            let (below, factor) = (_mm256_set1_epi32(threshold as i32 - 1), _mm256_set1_ps(factor));
            for (factors, half) in factors.iter_mut().zip(halves) {
                for (factors, half) in factors.as_chunks_mut::<8>().0.iter_mut().zip(half) {
                    let kept = _mm256_castsi256_ps(_mm256_cmpgt_epi32(half, below));
                    self.store(factors, _mm256_and_ps(kept, factor));
                }
            }
        }
        factors
    }
    #[inline(always)]
    fn run<O: SimdOp>(self, op: O) -> O::Output {
        // SAFETY: the token proves the features that `entry` enables.
        unsafe { entry(self, op) }
    }
    #[inline(always)]
    fn on_tile<O: TileOp>(self, op: O) {
        op.eval::<Self, { Self::TILE_ROWS }, { Self::TILE_COLS / Self::LANES }>(self);
    }
}
