//! bf16 values copied into the layout of tiles.

use super::split::TileLayout;
use super::{Bf16, STEP_DEPTH};
use crate::isa::avx512::transpose;
use std::arch::x86_64::*;

/// A part of a bf16 matrix, like [`super::split::F32Source`]. Either i or p must be contiguous.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bf16Source {
    /// Element (0, 0).
    pub(crate) data: *const u16,
    /// Stride of i.
    pub(crate) outer: usize,
    /// Stride of p.
    pub(crate) inner: usize,
    /// Number of values of i; the rest of the tile is zero.
    pub(crate) count: usize,
    /// Number of values of p; the rest of the tile is zero.
    pub(crate) depth: usize,
}

impl Bf16 {
    /// Writes the tile of a part.
    ///
    /// # Safety
    /// All elements of `from` must be readable, and the tile at `to` writable and aligned to 64 bytes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
    pub(crate) unsafe fn copy_tile(self, from: Bf16Source, lay: TileLayout, to: *mut u8) {
        debug_assert!(from.count <= 16 && from.depth <= STEP_DEPTH);
        let mut rows = [_mm512_setzero_si512(); 16];
        let by_i = from.inner == 1;
        // SAFETY: the caller promises the elements. Masks exclude elements that do not exist.
        unsafe {
            // Loops of fixed length for whole tiles keep the rows in registers.
            if by_i && from.count == 16 && from.depth == STEP_DEPTH {
                for (i, row) in rows.iter_mut().enumerate() {
                    *row = _mm512_loadu_si512(from.data.add(i * from.outer).cast());
                }
            } else if by_i {
                let there = ((1u64 << from.depth) - 1) as __mmask32;
                for (i, row) in rows.iter_mut().enumerate().take(from.count) {
                    *row = _mm512_maskz_loadu_epi16(there, from.data.add(i * from.outer).cast());
                }
            } else if from.count == 16 && from.depth == STEP_DEPTH {
                debug_assert!(from.outer == 1);
                for (pair, row) in rows.iter_mut().enumerate() {
                    let even = from.data.add(2 * pair * from.inner);
                    *row = interleave(_mm256_loadu_si256(even.cast()), _mm256_loadu_si256(even.add(from.inner).cast()));
                }
            } else {
                debug_assert!(from.outer == 1);
                let there = ((1u32 << from.count) - 1) as __mmask16;
                for (pair, row) in rows.iter_mut().enumerate().take(from.depth.div_ceil(2)) {
                    let even = from.data.add(2 * pair * from.inner);
                    let odd_there = if 2 * pair + 1 < from.depth { there } else { 0 };
                    let odd = _mm256_maskz_loadu_epi16(odd_there, even.wrapping_add(from.inner).cast());
                    *row = interleave(_mm256_maskz_loadu_epi16(there, even.cast()), odd);
                }
            }
            if by_i != (lay == TileLayout::Rows) {
                transpose(&mut rows);
            }
            for (i, row) in rows.iter().enumerate() {
                _mm512_store_si512(to.add(64 * i).cast(), *row);
            }
        }
    }
}

/// Interleaves pairs of values: one of `even`, then one of `odd`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn interleave(even: __m256i, odd: __m256i) -> __m512i {
    let (even, odd) = (_mm512_cvtepu16_epi32(even), _mm512_cvtepu16_epi32(odd));
    _mm512_or_si512(even, _mm512_slli_epi32::<16>(odd))
}
