//! AVX-512: 16 lanes of f32, 32 registers.

use super::{Op, Simd};
use crate::gemm::{ACROSS, Tile, tile};
use crate::philox::{self, Philox};
use std::arch::x86_64::*;

/// The token of AVX-512 F, BW, DQ and VL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// The token, if the processor and the operating system have it.
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

/// # Safety
/// The processor must have the features named.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn entry<O: Op>(simd: Avx512, op: O) -> O::Output {
    op.eval(simd)
}

/// Upper and lower halves of the products of sixteen words with a word, given in each 64 bits.
///
/// # Safety
/// The processor must have AVX-512F.
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

// SAFETY: `new` is the only constructor and detects what `entry` enables; loads and stores move exactly 16 values.
unsafe impl Simd for Avx512 {
    type V = __m512;
    const LANES: usize = 16;
    const TILE_ROWS: usize = 12;
    const TILE_COLS: usize = 32;

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        // SAFETY: the token proves AVX-512F; so for every block below.
        unsafe { _mm512_set1_ps(x) }
    }
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
        // SAFETY: belongs to SSE, which every x86-64 has.
        unsafe { _mm_sfence() };
    }
    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: see `splat`.
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: see `splat`.
        unsafe { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: see `splat`.
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: see `splat`.
        unsafe { _mm512_div_ps(a, b) }
    }
    #[inline(always)]
    fn mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: see `splat`.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: see `splat`.
        unsafe { _mm512_max_ps(a, b) }
    }
    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: see `splat`.
        unsafe { _mm512_min_ps(a, b) }
    }
    #[inline(always)]
    fn select_lt(self, a: __m512, b: __m512, yes: __m512, no: __m512) -> __m512 {
        // SAFETY: see `splat`.
        unsafe { _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b), no, yes) }
    }
    #[inline(always)]
    fn pow2(self, n: __m512) -> __m512 {
        // SAFETY: see `splat`.
        unsafe {
            let exponent = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(exponent))
        }
    }
    #[inline(always)]
    fn round(self, a: __m512) -> __m512 {
        // SAFETY: see `splat`.
        unsafe { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
    }
    #[inline(always)]
    fn to_array(self, a: __m512) -> [f32; 16] {
        let mut out = [0.0; 16];
        self.store(&mut out, a);
        out
    }
    #[inline(always)]
    fn dropout_factors(self, random: Philox, index: u64, threshold: u32, factor: f32) -> [[f32; 16]; 8] {
        // SAFETY: see `splat`; the arrays hold sixteen words each.
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
                // 0x96: the exclusive or of three.
                c = [
                    _mm512_ternarylogic_epi32::<0x96>(high1, c[1], _mm512_set1_epi32(k0 as i32)),
                    low1,
                    _mm512_ternarylogic_epi32::<0x96>(high0, c[3], _mm512_set1_epi32(k1 as i32)),
                    low0,
                ];
            }
            let (threshold, factor) = (_mm512_set1_epi32(threshold as i32), _mm512_set1_ps(factor));
            let mut factors = [[0.0; 16]; 8];
            for (factors, words) in factors.chunks_exact_mut(2).zip(c) {
                let low = _mm512_and_si512(words, _mm512_set1_epi32(0xFFFF));
                let high = _mm512_srli_epi32::<16>(words);
                for (factors, half) in factors.iter_mut().zip([low, high]) {
                    let kept = _mm512_cmpge_epu32_mask(half, threshold);
                    _mm512_storeu_ps(factors.as_mut_ptr(), _mm512_maskz_mov_ps(kept, factor));
                }
            }
            factors
        }
    }
    #[inline(always)]
    fn run<O: Op>(self, op: O) -> O::Output {
        // SAFETY: the token proves the features that `entry` enables.
        unsafe { entry(self, op) }
    }
    #[inline(always)]
    unsafe fn tile(self, t: Tile) {
        // SAFETY: passed on from the caller.
        unsafe { tile::<Self, 12, 2, 1>(self, t) }
    }
    #[inline(always)]
    unsafe fn tile_across(self, t: Tile) {
        // SAFETY: passed on from the caller.
        unsafe { tile::<Self, 12, 2, ACROSS>(self, t) }
    }
}
