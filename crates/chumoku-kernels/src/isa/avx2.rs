//! AVX2 with FMA: 8 lanes of f32, 16 registers.

use super::simd::{Op, Simd, TileOp};
use std::arch::x86_64::*;

/// The token of AVX2 and FMA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// The token, if the processor and the operating system have it.
    pub(crate) fn new() -> Option<Self> {
        // The same list as on `entry` below.
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(Avx2(()))
    }
}

/// # Safety
/// The processor must have AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
unsafe fn entry<O: Op>(simd: Avx2, op: O) -> O::Output {
    op.eval(simd)
}

// SAFETY: `new` is the only constructor and detects AVX2 and FMA; loads and stores move exactly 8 values; tiles are as
// named.
unsafe impl Simd for Avx2 {
    type V = __m256;
    const LANES: usize = 8;
    const TILE_ROWS: usize = 6;
    const TILE_COLS: usize = 16;

    #[inline(always)]
    fn splat(self, x: f32) -> __m256 {
        // SAFETY: the token proves AVX2.
        unsafe { _mm256_set1_ps(x) }
    }
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
    fn add(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the token proves AVX2.
        unsafe { _mm256_add_ps(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the token proves AVX2.
        unsafe { _mm256_sub_ps(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the token proves AVX2.
        unsafe { _mm256_mul_ps(a, b) }
    }
    #[inline(always)]
    fn div(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the token proves AVX2.
        unsafe { _mm256_div_ps(a, b) }
    }
    #[inline(always)]
    fn mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: the token proves FMA.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn exact_product(self, a: __m256, b: __m256) -> (__m256, __m256) {
        let product = self.mul(a, b);
        // SAFETY: the token proves FMA.
        (product, unsafe { _mm256_fmsub_ps(a, b, product) })
    }
    #[inline(always)]
    fn max(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the token proves AVX2.
        unsafe { _mm256_max_ps(a, b) }
    }
    #[inline(always)]
    fn min(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the token proves AVX2.
        unsafe { _mm256_min_ps(a, b) }
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
    fn select_bits(self, bits: u16, a: __m256) -> __m256 {
        // SAFETY: the token proves AVX2.
        unsafe {
            let lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            let set = _mm256_and_si256(_mm256_set1_epi32(i32::from(bits)), lane);
            _mm256_and_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(set, lane)), a)
        }
    }
    #[inline(always)]
    fn round(self, a: __m256) -> __m256 {
        // SAFETY: the token proves AVX2.
        unsafe { _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
    }
    #[inline(always)]
    unsafe fn load_f16(self, p: *const u16) -> __m256 {
        // SAFETY: the token proves AVX2; the caller promises 8 numbers.
        unsafe {
            let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()));
            let magnitude = _mm256_slli_epi32::<13>(_mm256_and_si256(bits, _mm256_set1_epi32(0x7FFF)));
            let sign = _mm256_slli_epi32::<16>(_mm256_and_si256(bits, _mm256_set1_epi32(0x8000)));
            // As in the trait: exponents are raised by a product, which is exact.
            let raised =
                _mm256_mul_ps(_mm256_castsi256_ps(magnitude), _mm256_set1_ps(f32::from_bits((127 + 112) << 23)));
            _mm256_or_ps(raised, _mm256_castsi256_ps(sign))
        }
    }
    #[inline(always)]
    unsafe fn store_bf16(self, p: *mut u16, v: __m256) {
        // SAFETY: the token proves AVX2; the caller promises 8 numbers.
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
    fn run<O: Op>(self, op: O) -> O::Output {
        // SAFETY: the token proves the features that `entry` enables.
        unsafe { entry(self, op) }
    }
    #[inline(always)]
    fn on_tile<O: TileOp>(self, op: O) {
        op.eval::<Self, { Self::TILE_ROWS }, { Self::TILE_COLS / Self::LANES }>(self);
    }
}
