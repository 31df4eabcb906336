//! Scores in AMX tiles: rows of bf16 keys are the left-hand operand in place, and the queries are the right-hand
//! operand.

use super::{DecodeChunk, TileProducts};
use crate::attention::engine::{SCORE_STRIDE, SourceMatrix};
use crate::isa::Simd;
use crate::isa::avx512::Avx512;
use crate::isa::bf16::amx::IN_PLACE_ROWS;
use crate::isa::bf16::split::TileLayout;
use crate::isa::bf16::{Bf16, BlockMultiplier, BlockMultiplierOp, STEP_DEPTH, TILE_BYTES, copy};

impl BlockMultiplierOp for DecodeChunk<'_> {
    #[inline(always)]
    fn eval(self, bf16: Bf16, simd: Avx512, blocks: &BlockMultiplier) {
        self.run(simd, AmxProducts { bf16, simd, blocks });
    }
}

/// Tile products for widths that are whole steps.
#[derive(Clone, Copy)]
struct AmxProducts<'a> {
    bf16: Bf16,
    simd: Avx512,
    blocks: &'a BlockMultiplier,
}

impl TileProducts for AmxProducts<'_> {
    /// One tile per step for each 16 rows.
    fn size(self, rows: usize, dim: usize) -> usize {
        rows.div_ceil(16) * (dim / STEP_DEPTH) * TILE_BYTES
    }

    #[inline(always)]
    unsafe fn pack(self, queries: SourceMatrix<'_>, to: *mut u8) {
        let steps = queries.cols() / STEP_DEPTH;
        for (tile, first) in (0..queries.rows()).step_by(16).enumerate() {
            for step in 0..steps {
                let data = queries.element_ptr(first, step * STEP_DEPTH).cast();
                let count = (queries.rows() - first).min(16);
                let source = copy::Bf16Source { data, outer: queries.stride(), inner: 1, count, depth: STEP_DEPTH };
                // SAFETY: the source is `count` rows and one step of columns of the queries. The caller promises space
                // for their tiles, and this is one of them.
                unsafe { self.bf16.copy_tile(source, TileLayout::Pairs, to.add((tile * steps + step) * TILE_BYTES)) };
            }
        }
    }

    #[inline(always)]
    unsafe fn add(self, queries: *const u8, rows: usize, keys: SourceMatrix<'_>, scores: &mut [f32]) -> usize {
        let Some(tiles) = self.blocks.tiles() else { return 0 };
        #[repr(align(64))]
        struct Transposed([f32; IN_PLACE_ROWS * 16]);
        let mut sums = Transposed([0.0; IN_PLACE_ROWS * 16]);
        let steps = keys.cols() / STEP_DEPTH;
        let done = keys.rows() / IN_PLACE_ROWS * IN_PLACE_ROWS;
        for first in (0..done).step_by(IN_PLACE_ROWS) {
            for (tile, scores) in scores.chunks_exact_mut(16 * SCORE_STRIDE).enumerate().take(rows.div_ceil(16)) {
                // SAFETY: the caller promises packed queries, and this tile's steps are part of them. The key rows
                // `first..first + IN_PLACE_ROWS` exist because `done` is rounded down. The sums have space for
                // IN_PLACE_ROWS rows of 16. The chunk is 16 rows of SCORE_STRIDE scores, and `first + 16 · part + 16`
                // is at most KEY_BLOCK.
                unsafe {
                    let b = queries.add(tile * steps * TILE_BYTES);
                    tiles.multiply_in_place(
                        keys.element_ptr(first, 0),
                        2 * keys.stride(),
                        steps,
                        b,
                        sums.0.as_mut_ptr(),
                    );
                    for (part, sums) in sums.0.chunks_exact(256).enumerate() {
                        let to = scores.as_mut_ptr().add(first + 16 * part);
                        self.simd.add_transposed(sums.as_ptr(), 16, 1.0, to, SCORE_STRIDE);
                    }
                }
            }
        }
        done
    }
}
