//! AVX-512: 16 lanes of f32, 32 registers.

use super::simd::{Simd, SimdOp, TileOp, VectorMath, single_instructions};
use crate::philox::{self, Philox};
use std::arch::x86_64::*;

/// Token that proves AVX-512 F, BW, DQ and VL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// Returns the token, if the processor and the operating system support these features.
    pub(crate) fn new() -> Option<Self> {
        // The same list as on `entry` below.
        (is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma"))
        .then_some(Avx512(()))
    }
}

/// Runs `op` as a separate function, so that operations with several callers are compiled once.
///
/// # Safety
/// The processor must support the enabled features.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn entry<O: SimdOp>(simd: Avx512, op: O) -> O::Output {
    op.eval(simd)
}

/// Returns the upper and lower halves of the products of sixteen words with a word that is given in each 64 bits.
///
/// # Safety
/// The processor must support AVX-512F.
#[inline(always)]
unsafe fn wide_product(x: __m512i, word: __m512i) -> (__m512i, __m512i) {
    const ODD: __mmask16 = 0xAAAA;
    // SAFETY: the caller promises AVX-512F.
    unsafe {
        let even = _mm512_mul_epu32(x, word);
        let odd = _mm512_mul_epu32(_mm512_srli_epi64::<32>(x), word);
        let high = _mm512_mask_blend_epi32(ODD, _mm512_srli_epi64::<32>(even), odd);
        (high, _mm512_mask_blend_epi32(ODD, even, _mm512_slli_epi64::<32>(odd)))
    }
}

/// Returns the halves of the words of the blocks `index..index + 16`, the lower half first, with one lane per block.
///
/// # Safety
/// The processor must support AVX-512F.
#[inline(always)]
unsafe fn random_halves(random: Philox, index: u64) -> [__m512i; 8] {
    // SAFETY: the caller promises AVX-512F. The arrays hold sixteen words each.
    unsafe {
        let counters = random.counters(index);
        let mut c = [_mm512_setzero_si512(); 4];
        for (c, words) in c.iter_mut().zip(&counters) {
            *c = _mm512_loadu_si512(words.as_ptr().cast());
        }
        let m0 = _mm512_set1_epi64(i64::from(philox::MULTIPLIERS[0]));
        let m1 = _mm512_set1_epi64(i64::from(philox::MULTIPLIERS[1]));
        for [k0, k1] in random.keys() {
            let (high0, low0) = wide_product(c[0], m0);
            let (high1, low1) = wide_product(c[2], m1);
            // 0x96: exclusive or of three values.
            c = [
                _mm512_ternarylogic_epi32::<0x96>(high1, c[1], _mm512_set1_epi32(k0 as i32)),
                low1,
                _mm512_ternarylogic_epi32::<0x96>(high0, c[3], _mm512_set1_epi32(k1 as i32)),
                low0,
            ];
        }
        let low = _mm512_set1_epi32(0xFFFF);
        let mut halves = [low; 8];
        for (halves, words) in halves.chunks_exact_mut(2).zip(c) {
            halves[0] = _mm512_and_si512(words, low);
            halves[1] = _mm512_srli_epi32::<16>(words);
        }
        halves
    }
}

impl VectorMath for Avx512 {
    type V = __m512;

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        // SAFETY: the token proves AVX-512F.
        unsafe { _mm512_set1_ps(x) }
    }
    single_instructions! { __m512:
        add(a, b) => _mm512_add_ps;
        sub(a, b) => _mm512_sub_ps;
        mul(a, b) => _mm512_mul_ps;
        div(a, b) => _mm512_div_ps;
        mul_add(a, b, c) => _mm512_fmadd_ps;
        max(a, b) => _mm512_max_ps;
        min(a, b) => _mm512_min_ps;
    }
    #[inline(always)]
    fn exact_product(self, a: __m512, b: __m512) -> (__m512, __m512) {
        let product = self.mul(a, b);
        // SAFETY: the token proves AVX-512F.
        (product, unsafe { _mm512_fmsub_ps(a, b, product) })
    }
    #[inline(always)]
    fn select_lt(self, a: __m512, b: __m512, yes: __m512, no: __m512) -> __m512 {
        // SAFETY: the token proves AVX-512F.
        unsafe { _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b), no, yes) }
    }
    #[inline(always)]
    fn pow2(self, n: __m512) -> __m512 {
        // SAFETY: the token proves AVX-512F.
        unsafe {
            let exponent = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(exponent))
        }
    }
    #[inline(always)]
    fn ldexp(self, a: __m512, shifted: __m512) -> __m512 {
        // SAFETY: the token proves AVX-512F.
        unsafe {
            let exponent = _mm512_slli_epi32::<23>(_mm512_castps_si512(shifted));
            _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), exponent))
        }
    }
    #[inline(always)]
    fn round(self, a: __m512) -> __m512 {
        // SAFETY: the token proves AVX-512F.
        unsafe { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
    }
}

// SAFETY: `new` is the only constructor and detects the features that `entry` enables. Loads and stores move exactly 16
// values. Tile sizes are as stated.
unsafe impl Simd for Avx512 {
    const LANES: usize = 16;
    const TILE_ROWS: usize = 12;
    const TILE_COLS: usize = 32;
    #[inline(always)]
    unsafe fn load_ptr(self, p: *const f32) -> __m512 {
        // SAFETY: the token proves AVX-512F; the caller promises 16 readable values.
        unsafe { _mm512_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn store_ptr(self, p: *mut f32, v: __m512) {
        // SAFETY: the token proves AVX-512F; the caller promises 16 writable values.
        unsafe { _mm512_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn stream_ptr(self, p: *mut f32, v: __m512) {
        // SAFETY: the token proves AVX-512F; the caller promises 16 writable values, aligned.
        unsafe { _mm512_stream_ps(p, v) }
    }
    #[inline(always)]
    fn fence(self) {
        // SAFETY: the instruction belongs to SSE, which every x86-64 has.
        unsafe { _mm_sfence() };
    }
    #[inline(always)]
    fn select_bits(self, bits: u16, a: __m512) -> __m512 {
        // SAFETY: the token proves AVX-512F.
        unsafe { _mm512_maskz_mov_ps(bits, a) }
    }
    #[inline(always)]
    fn sum(self, a: __m512) -> f32 {
        // SAFETY: the token proves AVX-512F.
        unsafe {
            // Add the halves first, as on the other instruction sets.
            let a = _mm512_add_ps(a, _mm512_shuffle_f32x4::<0b01_00_11_10>(a, a));
            let a = _mm512_castps512_ps256(a);
            let a = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_add_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_add_ss(a, _mm_shuffle_ps::<1>(a, a)))
        }
    }
    #[inline(always)]
    fn max_lane(self, a: __m512) -> f32 {
        // SAFETY: the token proves AVX-512F.
        unsafe { _mm512_reduce_max_ps(a) }
    }
    #[inline(always)]
    unsafe fn load_bf16(self, p: *const u16) -> __m512 {
        // SAFETY: the token proves AVX-512F; the caller promises 16 values.
        unsafe {
            let bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits))
        }
    }
    #[inline(always)]
    unsafe fn load_f16(self, p: *const u16) -> __m512 {
        // SAFETY: the token proves AVX-512F; the caller promises 16 values.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast())) }
    }
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut u16, v: __m512) {
        // SAFETY: the token proves AVX-512F; the caller promises 16 values.
        unsafe { _mm256_storeu_si256(p.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v)) };
    }
    #[inline(always)]
    unsafe fn store_bf16(self, p: *mut u16, v: __m512) {
        // SAFETY: the token proves AVX-512F; the caller promises 16 values.
        unsafe {
            let bits = _mm512_castps_si512(v);
            let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
            let nearest = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), odd);
            let is_nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(v, v);
            let nearest = _mm512_mask_or_epi32(nearest, is_nan, bits, _mm512_set1_epi32(0x40_0000));
            _mm256_storeu_si256(p.cast(), _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(nearest)));
        }
    }
    #[inline(always)]
    fn sums(self, rows: &[__m512; 16]) -> [f32; 16] {
        // SAFETY: the token proves AVX-512F.
        unsafe {
            let mut quarters = [_mm512_setzero_ps(); 4];
            for (quarter, rows) in quarters.iter_mut().zip(rows.chunks_exact(4)) {
                *quarter = fold_four(rows[0], rows[1], rows[2], rows[3]);
            }
            let [a, b, c, d] = quarters;
            self.to_array(fold_quarters(fold_quarters(a, b), fold_quarters(c, d)))
        }
    }
    #[inline(always)]
    unsafe fn transpose(self, from: *const f32, stride: usize, to: *mut f32, to_stride: usize) {
        // SAFETY: the token proves AVX-512F; the caller promises the values.
        unsafe {
            let mut rows = [_mm512_setzero_si512(); 16];
            for (i, row) in rows.iter_mut().enumerate() {
                *row = _mm512_loadu_si512(from.add(i * stride).cast());
            }
            transpose(&mut rows);
            for (i, row) in rows.into_iter().enumerate() {
                _mm512_storeu_si512(to.add(i * to_stride).cast(), row);
            }
        }
    }
    #[inline(always)]
    unsafe fn add_transposed(self, from: *const f32, stride: usize, factor: f32, to: *mut f32, to_stride: usize) {
        // SAFETY: the token proves AVX-512F; the caller promises the values.
        unsafe {
            let factor = _mm512_set1_ps(factor);
            let mut rows = [_mm512_setzero_si512(); 16];
            for (i, row) in rows.iter_mut().enumerate() {
                *row = _mm512_castps_si512(_mm512_loadu_ps(from.add(i * stride)));
            }
            transpose(&mut rows);
            for (i, row) in rows.iter().enumerate() {
                let to = to.add(i * to_stride);
                _mm512_storeu_ps(to, _mm512_fmadd_ps(_mm512_castsi512_ps(*row), factor, _mm512_loadu_ps(to)));
            }
        }
    }
    #[inline(always)]
    fn to_array(self, a: __m512) -> [f32; 16] {
        let mut out = [0.0; 16];
        self.store(&mut out, a);
        out
    }
    #[inline(always)]
    fn random_bits(self, random: Philox, index: u64, threshold: u32) -> [u16; 8] {
        let mut bits = [0; 8];
        // SAFETY: the token proves AVX-512F.
        unsafe {
            let threshold = _mm512_set1_epi32(threshold as i32);
            for (bits, half) in bits.iter_mut().zip(random_halves(random, index)) {
                *bits = _mm512_cmpge_epu32_mask(half, threshold);
            }
        }
        bits
    }
    #[inline(always)]
    fn random_factors(self, random: Philox, index: u64, threshold: u32, factor: f32) -> [[f32; 16]; 8] {
        let mut factors = [[0.0; 16]; 8];
        // SAFETY: the token proves AVX-512F; the arrays have space for sixteen values each.
        unsafe {
            let (threshold, factor) = (_mm512_set1_epi32(threshold as i32), _mm512_set1_ps(factor));
            for (factors, half) in factors.iter_mut().zip(random_halves(random, index)) {
                let kept = _mm512_cmpge_epu32_mask(half, threshold);
                _mm512_storeu_ps(factors.as_mut_ptr(), _mm512_maskz_mov_ps(kept, factor));
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

/// Adds up the four values in each quarter of four vectors, and interleaves the results.
#[inline]
#[target_feature(enable = "avx512f")]
fn fold_four(a: __m512, b: __m512, c: __m512, d: __m512) -> __m512 {
    // Each step interleaves two vectors and adds the halves, which leaves half as many vectors.
    let ab = _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)));
    let cd = _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d)));
    let (low, high) = (_mm512_unpacklo_pd(ab, cd), _mm512_unpackhi_pd(ab, cd));
    _mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high))
}

/// Adds up neighboring quarters: two of `a`, then two of `b`.
#[inline]
#[target_feature(enable = "avx512f")]
fn fold_quarters(a: __m512, b: __m512) -> __m512 {
    let even = _mm512_shuffle_f32x4::<0b10_00_10_00>(a, b);
    _mm512_add_ps(even, _mm512_shuffle_f32x4::<0b11_01_11_01>(a, b))
}

/// Transposes 16 × 16 values of 32 bits.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn transpose(rows: &mut [__m512i; 16]) {
    let r = *rows;
    let mut t = r;
    for i in 0..8 {
        t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    let mut u = t;
    for i in 0..4 {
        u[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        u[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        u[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        u[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
    // u[4g + c]: lane block k holds column 4k + c of rows 4g..4g+4. Gather the four groups g.
    for c in 0..4 {
        let [a, b, d, e] = [u[c], u[4 + c], u[8 + c], u[12 + c]];
        let ab_even = _mm512_shuffle_i32x4::<0b10_00_10_00>(a, b);
        let ab_odd = _mm512_shuffle_i32x4::<0b11_01_11_01>(a, b);
        let de_even = _mm512_shuffle_i32x4::<0b10_00_10_00>(d, e);
        let de_odd = _mm512_shuffle_i32x4::<0b11_01_11_01>(d, e);
        rows[c] = _mm512_shuffle_i32x4::<0b10_00_10_00>(ab_even, de_even);
        rows[4 + c] = _mm512_shuffle_i32x4::<0b10_00_10_00>(ab_odd, de_odd);
        rows[8 + c] = _mm512_shuffle_i32x4::<0b11_01_11_01>(ab_even, de_even);
        rows[12 + c] = _mm512_shuffle_i32x4::<0b11_01_11_01>(ab_odd, de_odd);
    }
}
