//! f32 values as sums of bf16 terms in the layout of tiles.
//!
//! Each term is the remainder of the previous ones, rounded to bf16. Two terms keep 16 of the 24 bits, three keep all.

use super::{Bf16, STEP_DEPTH, TILE_BYTES};
use crate::isa::avx512::transpose;
use std::arch::x86_64::*;

/// A part of a matrix whose element `(i, p)` is `data[i · outer + p · inner]`, with at most 16 values of i and 32 of p.
#[derive(Clone, Copy, Debug)]
pub(crate) struct F32Source {
    /// Element (0, 0).
    pub(crate) data: *const f32,
    /// Stride of i.
    pub(crate) outer: usize,
    /// Stride of p.
    pub(crate) inner: usize,
    /// Number of values of i; the rest of the tile is zero.
    pub(crate) count: usize,
    /// Number of values of p; the rest of the tile is zero.
    pub(crate) depth: usize,
}

/// The layout of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TileLayout {
    /// LHS layout: a row for each i, with its 32 values of p.
    Rows,
    /// RHS layout: a row for each two p, with one pair for each i.
    Pairs,
}

impl Bf16 {
    /// Writes the `TERMS` tiles of a part, `term_stride` bytes apart.
    ///
    /// NaN gives NaN in the first term. An infinite value, or one that rounds to infinity as bf16 (from 3.39e38), gives
    /// infinity in the first term and NaN or infinity in the others. It therefore propagates to every product.
    ///
    /// # Safety
    /// All elements of `from` must be readable, and each tile at `to` writable and aligned to 64 bytes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
    pub(crate) unsafe fn split<const TERMS: usize>(
        self,
        from: F32Source,
        lay: TileLayout,
        to: *mut u8,
        term_stride: usize,
    ) {
        debug_assert!(from.count <= 16 && from.depth <= STEP_DEPTH);
        // SAFETY: the caller promises the elements and the tiles. Masks exclude elements that do not exist.
        unsafe {
            if from.inner == 1 || from.outer != 1 {
                let (low, high) = (lane_mask(from.depth.min(16)), lane_mask(from.depth.saturating_sub(16)));
                for i in 0..from.count {
                    let row = from.data.add(i * from.outer);
                    let (a, b) = if from.inner == 1 {
                        (_mm512_maskz_loadu_ps(low, row), _mm512_maskz_loadu_ps(high, row.wrapping_add(16)))
                    } else {
                        (load_strided(row, from.inner, 0, from.depth), load_strided(row, from.inner, 16, from.depth))
                    };
                    store_terms::<TERMS, false>(a, b, to.add(64 * i), term_stride);
                }
                clear::<TERMS>(to, from.count, term_stride);
                if lay == TileLayout::Pairs {
                    transpose_tiles::<TERMS>(to, term_stride);
                }
            } else {
                let there = lane_mask(from.count);
                let pairs = from.depth.div_ceil(2);
                for pair in 0..pairs {
                    let row = from.data.add(2 * pair * from.inner);
                    let odd = if 2 * pair + 1 < from.depth { there } else { 0 };
                    let a = _mm512_maskz_loadu_ps(there, row);
                    let b = _mm512_maskz_loadu_ps(odd, row.wrapping_add(from.inner));
                    store_terms::<TERMS, true>(a, b, to.add(64 * pair), term_stride);
                }
                clear::<TERMS>(to, pairs, term_stride);
                if lay == TileLayout::Rows {
                    transpose_tiles::<TERMS>(to, term_stride);
                }
            }
        }
    }
}

impl Bf16 {
    /// Splits two consecutive p of `count` values of i into row `pair` of the tiles. The panels of 32 i are `panel`
    /// bytes apart, in the layout [`TileLayout::Pairs`]. Missing rows are 0.
    ///
    /// # Safety
    /// The rows must hold `count` values. The panels' tiles from `to` on must be writable and aligned to 64 bytes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
    pub(crate) unsafe fn split_pair<const TERMS: usize>(
        self,
        rows: [Option<*const f32>; 2],
        count: usize,
        pair: usize,
        to: *mut u8,
        panel: usize,
    ) {
        for first in (0..count.next_multiple_of(2 * 16)).step_by(16) {
            let there = lane_mask(count.saturating_sub(first));
            // SAFETY: masks exclude elements beyond the rows. The caller promises the tiles.
            unsafe {
                let (mut a, mut b) = (_mm512_setzero_ps(), _mm512_setzero_ps());
                if let Some(row) = rows[0] {
                    a = _mm512_maskz_loadu_ps(there, row.wrapping_add(first));
                }
                if let Some(row) = rows[1] {
                    b = _mm512_maskz_loadu_ps(there, row.wrapping_add(first));
                }
                let tile = to.add(first / 32 * panel + first / 16 % 2 * TILE_BYTES);
                store_terms::<TERMS, true>(a, b, tile.add(64 * pair), 2 * TILE_BYTES);
            }
        }
    }

    /// Transposes a tile of 16 × 16 pairs, from [`TileLayout::Pairs`] to [`TileLayout::Rows`] or back.
    ///
    /// # Safety
    /// The tile must be initialized, writable, and aligned to 64 bytes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) unsafe fn transpose(self, tile: *mut u8) {
        // SAFETY: the caller promises an initialized tile, and with one term there is only this tile.
        unsafe { transpose_tiles::<1>(tile, 0) };
    }
}

/// Writes a row of each term's tile: `a` then `b`, or with `PAIRS` the values of both interleaved.
///
/// # Safety
/// The rows must be writable and aligned to 64 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn store_terms<const TERMS: usize, const PAIRS: bool>(a: __m512, b: __m512, to: *mut u8, term_stride: usize) {
    let (mut a, mut b) = (a, b);
    for term in 0..TERMS {
        // SAFETY: both are 512 plain bits.
        let packed = unsafe { std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(b, a)) };
        let (a1, b1) = (low_half(packed), high_half(packed));
        // Interleaved: the values of a in the lower halves, those of b in the upper ones.
        let by_turns = _mm512_or_si512(_mm512_srli_epi32::<16>(_mm512_castps_si512(a1)), _mm512_castps_si512(b1));
        // SAFETY: the caller promises the rows.
        unsafe { _mm512_store_si512(to.add(term * term_stride).cast(), if PAIRS { by_turns } else { packed }) };
        (a, b) = (_mm512_sub_ps(a, a1), _mm512_sub_ps(b, b1));
    }
}

/// Sets the rows of each term's tile from `first` on to 0.
///
/// # Safety
/// The tiles must be writable.
#[inline]
unsafe fn clear<const TERMS: usize>(to: *mut u8, first: usize, term_stride: usize) {
    for term in 0..TERMS {
        // SAFETY: a tile has sixteen rows.
        unsafe { to.add(term * term_stride + 64 * first).write_bytes(0, 64 * (16 - first)) };
    }
}

/// Transposes each term's tile as 16 × 16 values of 32 bits.
///
/// # Safety
/// The tiles must be initialized, writable and aligned to 64 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn transpose_tiles<const TERMS: usize>(to: *mut u8, term_stride: usize) {
    for term in 0..TERMS {
        let tile = to.wrapping_add(term * term_stride);
        let mut rows = [_mm512_setzero_si512(); 16];
        // SAFETY: the caller promises the tile.
        unsafe {
            for (i, row) in rows.iter_mut().enumerate() {
                *row = _mm512_load_si512(tile.add(64 * i).cast());
            }
            transpose(&mut rows);
            for (i, row) in rows.iter().enumerate() {
                _mm512_store_si512(tile.add(64 * i).cast(), *row);
            }
        }
    }
}

impl Bf16 {
    /// Writes 32 values as `TERMS` rows of bf16 terms, `term_stride` bytes apart.
    ///
    /// # Safety
    /// Each row at `to` must be writable for 64 bytes and aligned to them.
    #[inline(always)]
    pub(crate) unsafe fn write_terms<const TERMS: usize>(self, [mut a, mut b]: [__m512; 2], to: *mut u8, apart: usize) {
        // SAFETY: the token proves AVX-512 with BF16; the caller promises the rows.
        unsafe {
            for term in 0..TERMS {
                let packed = std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(b, a));
                _mm512_store_si512(to.add(term * apart).cast(), packed);
                if term + 1 < TERMS {
                    (a, b) = (_mm512_sub_ps(a, low_half(packed)), _mm512_sub_ps(b, high_half(packed)));
                }
            }
        }
    }
}

impl Bf16 {
    /// Writes 16 pairs with one value of each vector as `TERMS` rows of bf16 terms, `term_stride` bytes apart.
    ///
    /// # Safety
    /// Each row at `to` must be writable for 64 bytes and aligned to them.
    #[inline(always)]
    pub(crate) unsafe fn write_paired_terms<const TERMS: usize>(
        self,
        [mut a, mut b]: [__m512; 2],
        to: *mut u8,
        apart: usize,
    ) {
        // SAFETY: the token proves AVX-512 with BF16; the caller promises the rows.
        unsafe {
            let interleave = _mm512_loadu_si512(INTERLEAVE.as_ptr().cast());
            for term in 0..TERMS {
                let packed = std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(b, a));
                _mm512_store_si512(to.add(term * apart).cast(), _mm512_permutexvar_epi16(interleave, packed));
                if term + 1 < TERMS {
                    (a, b) = (_mm512_sub_ps(a, low_half(packed)), _mm512_sub_ps(b, high_half(packed)));
                }
            }
        }
    }
}

/// 0, 16, 1, 17, …: interleaves the halves of a vector of 32.
const INTERLEAVE: [u16; 32] = {
    let mut order = [0; 32];
    let mut i = 0;
    while i < 32 {
        order[i] = (i / 2 + i % 2 * 16) as u16;
        i += 1;
    }
    order
};

/// Returns the mask of the first `n` of sixteen lanes.
fn lane_mask(n: usize) -> __mmask16 {
    ((1u32 << n.min(16)) - 1) as __mmask16
}

/// Converts the lower sixteen bf16 values to f32.
#[inline]
#[target_feature(enable = "avx512f")]
fn low_half(x: __m512i) -> __m512 {
    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(x))))
}

/// Converts the upper sixteen bf16 values to f32.
#[inline]
#[target_feature(enable = "avx512f")]
fn high_half(x: __m512i) -> __m512 {
    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64::<1>(x))))
}

/// Loads elements `first..first + 16` of a strided row, and 0 beyond its end.
///
/// # Safety
/// The first `depth` elements must be readable.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load_strided(row: *const f32, inner: usize, first: usize, depth: usize) -> __m512 {
    let mut lanes = [0.0f32; 16];
    for (p, lane) in lanes.iter_mut().enumerate().take(depth.saturating_sub(first)) {
        // SAFETY: first + p < depth.
        *lane = unsafe { *row.add((first + p) * inner) };
    }
    // SAFETY: the array has sixteen values.
    unsafe { _mm512_loadu_ps(lanes.as_ptr()) }
}

/// Returns the size of the tiles of one step of a panel: two halves of each term.
pub(crate) const fn step_bytes(terms: usize) -> usize {
    2 * terms * TILE_BYTES
}
