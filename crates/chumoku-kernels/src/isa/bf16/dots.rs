//! Blocks in vectors: a pairwise dot product (VDPBF16PS) computes two multiply–adds per lane, a fused multiply–add only
//! one.
//!
//! A panel of B holds pairs along the depth, in the layout of tiles. Each pair of a row of A is broadcast. Eight rows
//! of two vectors of sums leave registers for both operands, and hide the latency of the instruction on two execution
//! units.

use super::{Bf16, BlockProduct, TILE_BYTES};
use std::arch::x86_64::*;

/// Rows whose sums stay in registers.
const ROWS: usize = 8;
/// Pairs in a step.
const PAIRS: usize = 16;

impl Bf16 {
    /// Computes [`super::BlockMultiplier::block`] for panels of one term.
    ///
    /// # Safety
    /// Same as for [`super::BlockMultiplier::block`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bf16")]
    pub(super) unsafe fn dots(self, block: BlockProduct) {
        let rows = block.rows.min(super::BLOCK_SIDE);
        for first in (0..rows).step_by(ROWS) {
            // SAFETY: the caller promises the block, and these are some of its rows: at least the required ones and at
            // most 8, which end within 32.
            unsafe {
                match rows - first {
                    1 => sums::<1>(block, first),
                    2 => sums::<2>(block, first),
                    3..=4 => sums::<4>(block, first),
                    _ => sums::<ROWS>(block, first),
                }
            }
        }
    }
}

/// Computes the sums of `COUNT` rows from `first`, a multiple of [`ROWS`]. Each sum is the same for any `COUNT`.
///
/// # Safety
/// Same as for [`Bf16::dots`], and `first + COUNT` must be at most 32.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn sums<const COUNT: usize>(block: BlockProduct, first: usize) {
    let BlockProduct { steps, a, b, c, c_stride, accumulate, .. } = block;
    let mut sums = [[_mm512_setzero_ps(); 2]; COUNT];
    // Rows of both halves are contiguous.
    let (mut a, mut b) = (a.wrapping_add(first * 64), b);
    for _ in 0..steps {
        for pair in 0..PAIRS {
            // SAFETY: the caller promises steps of two tiles: 32 rows of 16 pairs of A, and 16 pairs of 16 columns in
            // each half of B.
            unsafe {
                let columns = b.add(pair * 64);
                let columns = [load(columns), load(columns.add(TILE_BYTES))];
                for (i, sums) in sums.iter_mut().enumerate() {
                    let factor = broadcast(a.add(i * 64 + pair * 4));
                    for (sum, column) in sums.iter_mut().zip(columns) {
                        *sum = _mm512_dpbf16_ps(*sum, factor, column);
                    }
                }
            }
        }
        // Not `add`: after the last step the pointers may be beyond one past the end.
        (a, b) = (a.wrapping_add(2 * TILE_BYTES), b.wrapping_add(2 * TILE_BYTES));
    }
    for (i, sums) in sums.into_iter().enumerate() {
        for (half, sum) in sums.into_iter().enumerate() {
            // SAFETY: the caller promises 32 rows of 32, initialized if they are added to.
            unsafe {
                let c = c.add((first + i) * c_stride + 16 * half);
                _mm512_storeu_ps(c, if accumulate { _mm512_add_ps(_mm512_loadu_ps(c), sum) } else { sum });
            }
        }
    }
}

/// Loads 32 values.
///
/// # Safety
/// `from` must be readable for 64 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load(from: *const u8) -> __m512bh {
    // SAFETY: the caller promises the bytes. Both types are 512 plain bits.
    unsafe { std::mem::transmute::<__m512i, __m512bh>(_mm512_loadu_si512(from.cast())) }
}

/// Broadcasts a pair of values to sixteen lanes.
///
/// # Safety
/// `from` must be readable for 4 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn broadcast(from: *const u8) -> __m512bh {
    // SAFETY: the caller promises the bytes. Both types are 512 plain bits.
    unsafe { std::mem::transmute::<__m512i, __m512bh>(_mm512_set1_epi32(from.cast::<i32>().read_unaligned())) }
}
