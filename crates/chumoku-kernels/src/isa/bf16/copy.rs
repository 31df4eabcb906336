//! bf16 numbers, laid out as tiles.

use super::split::TileLayout;
use super::{Bf16, STEP_DEPTH};
use crate::isa::avx512::transpose;
use std::arch::x86_64::*;

/// A part of a matrix of bf16, as [`super::split::Source`]; i or p must lie one after another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bf16Source {
    /// Element (0, 0).
    pub(crate) data: *const u16,
    /// Distance of consecutive i.
    pub(crate) outer: usize,
    /// Distance of consecutive p.
    pub(crate) inner: usize,
    /// How many i there are; the tile is filled up with zeros.
    pub(crate) count: usize,
    /// How many p there are; the tile is filled up with zeros.
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
        // SAFETY: the caller promises the elements; masks leave out those that are not there.
        unsafe {
            // Whole tiles in loops of fixed length, which leave the rows in registers.
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

/// Pairs of numbers: one of `even`, then one of `odd`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn interleave(even: __m256i, odd: __m256i) -> __m512i {
    let (even, odd) = (_mm512_cvtepu16_epi32(even), _mm512_cvtepu16_epi32(odd));
    _mm512_or_si512(even, _mm512_slli_epi32::<16>(odd))
}
