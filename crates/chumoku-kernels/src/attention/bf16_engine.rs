//! The engine of bf16 terms, whose blocks are multiplied by AMX tiles or by pairwise dot products.

use super::engine::{
    Engine, EngineOp, EngineTask, GRAIN, KEY_BLOCK, MatmulAtB, PvMatmul, QkMatmul, SCORE_STRIDE, SourceMatrix,
};
use crate::isa::VectorMath;
use crate::isa::avx512::Avx512;
use crate::isa::bf16::split::{self, TileLayout, step_bytes};
use crate::isa::bf16::{
    BLOCK_SIDE, Bf16, BlockMultiplier, BlockMultiplierOp, BlockProduct, STEP_DEPTH, TILE_BYTES, copy,
};

/// Runs `task` on blocks with `TERMS` terms per value.
pub(crate) fn run<const TERMS: usize>(bf16: Bf16, task: impl EngineOp) {
    struct Bf16EngineOp<const TERMS: usize, T>(T);
    impl<const TERMS: usize, T: EngineOp> BlockMultiplierOp for Bf16EngineOp<TERMS, T> {
        #[inline(always)]
        fn eval(self, bf16: Bf16, simd: Avx512, blocks: &BlockMultiplier) {
            self.0.eval(Bf16Engine::<TERMS> { bf16, simd, multiplier: blocks });
        }
    }
    bf16.run(Bf16EngineOp::<TERMS, _>(task));
}

/// Engine that multiplies blocks of bf16 terms, with its multiplier set up.
#[derive(Clone, Copy, Debug)]
struct Bf16Engine<'a, const TERMS: usize> {
    bf16: Bf16,
    simd: Avx512,
    multiplier: &'a BlockMultiplier,
}

// SAFETY: sizes count whole steps of whole panels, which is the memory that is written and read. A step is a number of
// tiles of 1,024 bytes.
unsafe impl<const TERMS: usize> Engine for Bf16Engine<'_, TERMS> {
    type S = Avx512;
    const QUERY_BLOCK: usize = 32;
    const TERMS: usize = TERMS;
    const EXP_DEGREE: usize = [3, 4, 6][TERMS - 1];
    const PACKS_WEIGHTS: bool = true;
    const QUERY_GROUP: usize = 128;
    const ROW_GRANULARITY: usize = STEP_DEPTH;
    const READS_BF16: bool = TERMS == 1;
    const INTERLEAVES: bool = TERMS > 1;
    const SEPARATE_BLOCK_SUMS: bool = TERMS > 2;

    #[inline(always)]
    fn simd(self) -> Avx512 {
        self.simd
    }

    #[inline(always)]
    fn run<T: EngineTask<Self>>(self, task: T) {
        struct Bf16EngineTask<E, T>(E, T);
        impl<E, T: EngineTask<E>> BlockMultiplierOp for Bf16EngineTask<E, T> {
            #[inline(always)]
            fn eval(self, _: Bf16, _: Avx512, _: &BlockMultiplier) {
                self.1.eval(self.0);
            }
        }
        self.bf16.run_with(self.multiplier, Bf16EngineTask(self, task));
    }

    fn lhs_bytes(depth: usize) -> usize {
        depth.div_ceil(STEP_DEPTH) * step_bytes(TERMS)
    }
    fn reuses_lhs(_: usize) -> bool {
        false
    }
    fn rhs_transposed_bytes(depth: usize) -> usize {
        KEY_BLOCK / GRAIN * depth.div_ceil(STEP_DEPTH) * step_bytes(TERMS)
    }
    fn rhs_bytes(cols: usize) -> usize {
        cols.div_ceil(GRAIN) * (KEY_BLOCK / STEP_DEPTH) * step_bytes(TERMS)
    }

    #[inline(always)]
    unsafe fn pack_lhs(self, from: SourceMatrix<'_>, to: *mut u8) {
        for step in 0..from.cols().div_ceil(STEP_DEPTH) {
            // SAFETY: the caller promises lhs_bytes: a step of both halves for each 32 columns.
            unsafe { self.pack_rows(from, 0, step, TileLayout::Rows, to.add(step * step_bytes(TERMS))) };
        }
    }

    #[inline(always)]
    unsafe fn pack_rhs_transposed(self, from: SourceMatrix<'_>, to: *mut u8) {
        let steps = from.cols().div_ceil(STEP_DEPTH);
        for panel in 0..from.rows().div_ceil(GRAIN) {
            for step in 0..steps {
                // SAFETY: the caller promises rhs_transposed_bytes, and rows for no more panels than that includes.
                // Each panel has `steps` steps.
                unsafe {
                    let to = to.add((panel * steps + step) * step_bytes(TERMS));
                    self.pack_rows(from, panel * GRAIN, step, TileLayout::Pairs, to);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn pack_rhs(self, from: SourceMatrix<'_>, to: *mut u8) {
        // SAFETY: the caller promises rhs_bytes, and rows for no more steps per panel than that includes.
        unsafe { self.pack_columns(from, KEY_BLOCK, TileLayout::Pairs, to) };
    }

    #[inline(always)]
    unsafe fn qk_matmul(self, product: QkMatmul) {
        let QkMatmul { left, rows, keys, depth, columns, out } = product;
        let steps = depth.div_ceil(STEP_DEPTH);
        for panel in columns.from() / GRAIN..columns.to() / GRAIN {
            // SAFETY: the caller promises a packed LHS and KEY_BLOCK columns of `steps` steps, and a score block that
            // contains these 32 columns of 32 rows. The tile registers are configured.
            unsafe {
                self.multiplier.block::<TERMS>(BlockProduct {
                    steps,
                    a: left,
                    b: keys.add(panel * steps * step_bytes(TERMS)),
                    c: out.add(panel * GRAIN),
                    c_stride: SCORE_STRIDE,
                    rows,
                    accumulate: false,
                });
            }
        }
    }

    #[inline(always)]
    unsafe fn store_weights(self, weights: *mut u8, row: usize, col: usize, pair: [<Avx512 as VectorMath>::V; 2]) {
        // SAFETY: the caller promises a block of QUERY_BLOCK rows and KEY_BLOCK columns, and a row and a pair of
        // vectors of it: 32 columns, which is a step. Rows are 64 bytes of aligned tiles.
        unsafe {
            let step = weights.add(col / STEP_DEPTH * step_bytes(TERMS) + row / 16 * TILE_BYTES + row % 16 * 64);
            self.bf16.write_terms::<TERMS>(pair, step, 2 * TILE_BYTES);
        }
    }

    #[inline(always)]
    unsafe fn pv_matmul(self, product: PvMatmul) {
        let PvMatmul { weights, rows, columns, values, panels, out, cols, accumulate } = product;
        let first = columns.from() / STEP_DEPTH * step_bytes(TERMS);
        for panel in panels {
            // SAFETY: the caller promises weights for KEY_BLOCK keys and values in panels of KEY_BLOCK rows, and the
            // columns select some of their steps. It also promises QUERY_BLOCK rows of sums that contain this panel's
            // columns.
            unsafe {
                self.multiplier.block::<TERMS>(BlockProduct {
                    steps: (columns.to() - columns.from()) / STEP_DEPTH,
                    a: weights.add(first),
                    b: values.add(panel * (KEY_BLOCK / STEP_DEPTH) * step_bytes(TERMS) + first),
                    c: out.add(panel * GRAIN),
                    c_stride: cols,
                    rows,
                    accumulate,
                });
            }
        }
    }

    fn lhs_transposed_bytes(cols: usize) -> usize {
        cols.div_ceil(GRAIN) * (Self::QUERY_GROUP / STEP_DEPTH) * step_bytes(TERMS)
    }
    fn weight_group_bytes() -> usize {
        KEY_BLOCK / GRAIN * (Self::QUERY_GROUP / STEP_DEPTH) * step_bytes(TERMS)
    }

    #[inline(always)]
    unsafe fn pack_lhs_transposed(self, from: SourceMatrix<'_>, to: *mut u8) {
        // SAFETY: the caller promises lhs_transposed_bytes, and rows for no more steps per panel than that includes.
        unsafe { self.pack_columns(from, Self::QUERY_GROUP, TileLayout::Rows, to) };
    }

    #[inline(always)]
    unsafe fn store_weight_rows(
        self,
        weights: *mut u8,
        row: usize,
        col: usize,
        pairs: [[<Avx512 as VectorMath>::V; 2]; 2],
    ) {
        let [first, second] = pairs;
        for half in 0..2 {
            // SAFETY: the caller promises a group of QUERY_GROUP rows and KEY_BLOCK columns, an even row and a pair of
            // vectors of it. Rows are 64 bytes of aligned tiles.
            unsafe {
                let step = col / GRAIN * (Self::QUERY_GROUP / STEP_DEPTH) + row / STEP_DEPTH;
                let to = weights.add(step * step_bytes(TERMS) + half * TILE_BYTES + row % STEP_DEPTH / 2 * 64);
                self.bf16.write_paired_terms::<TERMS>([first[half], second[half]], to, 2 * TILE_BYTES);
            }
        }
    }

    #[inline(always)]
    unsafe fn matmul_at_b(self, product: MatmulAtB) {
        let MatmulAtB { gathered, cols, rows, weights, columns, out, accumulate } = product;
        let panel_bytes = (Self::QUERY_GROUP / STEP_DEPTH) * step_bytes(TERMS);
        for down in 0..cols.div_ceil(GRAIN) {
            for across in columns.from() / GRAIN..columns.to() / GRAIN {
                // SAFETY: the caller promises `rows` rows of both operands, in panels of QUERY_GROUP rows, and GRAIN
                // rows beyond `cols` of `out`, so that the rows of the last panel are inside of it.
                unsafe {
                    self.multiplier.block::<TERMS>(BlockProduct {
                        steps: rows / STEP_DEPTH,
                        a: gathered.add(down * panel_bytes),
                        b: weights.add(across * panel_bytes),
                        c: out.add(down * GRAIN * KEY_BLOCK + across * GRAIN),
                        c_stride: KEY_BLOCK,
                        rows: BLOCK_SIDE,
                        accumulate,
                    });
                }
            }
        }
    }
}

/// The part of a [`SourceMatrix`] that fills a tile: see [`split::F32Source`].
#[derive(Clone, Copy, Debug)]
struct TilePart {
    data: *const u8,
    is_bf16: bool,
    outer: usize,
    inner: usize,
    count: usize,
    depth: usize,
}

impl<const TERMS: usize> Bf16Engine<'_, TERMS> {
    /// Writes the tiles of all terms of a part, two tiles apart.
    ///
    /// # Safety
    /// * All elements must be readable: bf16 if the part says so, which only an engine of one term may receive,
    ///   otherwise f32.
    /// * Each of the `TERMS` tiles from `to` on, two tiles apart, must be writable and aligned to 64 bytes.
    #[inline(always)]
    unsafe fn pack_tile(self, part: TilePart, lay: TileLayout, to: *mut u8) {
        let TilePart { data, is_bf16, outer, inner, count, depth } = part;
        // SAFETY: the caller promises elements of the type that the part states, and writable, aligned tiles at `to`.
        // There are TERMS of them, two tiles apart, as `split` requires; `copy_tile` writes only the first.
        unsafe {
            if is_bf16 {
                self.bf16.copy_tile(copy::Bf16Source { data: data.cast(), outer, inner, count, depth }, lay, to);
            } else {
                let source = split::F32Source { data: data.cast(), outer, inner, count, depth };
                self.bf16.split::<TERMS>(source, lay, to, 2 * TILE_BYTES);
            }
        }
    }

    /// Packs panels of [`GRAIN`] columns, each with the steps of `panel_rows` rows.
    ///
    /// # Safety
    /// * `from` must have at most `panel_rows` rows.
    /// * `to` must be writable for all steps of all panels ([`step_bytes`]) and aligned to 64 bytes.
    #[inline(always)]
    unsafe fn pack_columns(self, from: SourceMatrix<'_>, panel_rows: usize, lay: TileLayout, to: *mut u8) {
        for panel in 0..from.cols().div_ceil(GRAIN) {
            for step in 0..from.rows().div_ceil(STEP_DEPTH) {
                for half in 0..2 {
                    let (row, col) = (step * STEP_DEPTH, panel * GRAIN + half * 16);
                    let part = TilePart {
                        data: from.element_ptr(row, col),
                        is_bf16: from.is_bf16(),
                        outer: 1,
                        inner: from.stride(),
                        count: from.cols().saturating_sub(col).min(16),
                        depth: (from.rows() - row).min(STEP_DEPTH),
                    };
                    let at = (panel * (panel_rows / STEP_DEPTH) + step) * step_bytes(TERMS) + half * TILE_BYTES;
                    // SAFETY: the part is clipped to the rows and columns. The caller promises steps for no fewer rows
                    // per panel than `from` has.
                    unsafe { self.pack_tile(part, lay, to.add(at)) };
                }
            }
        }
    }

    /// Packs the columns of step `step` for up to 32 rows from `first`.
    ///
    /// # Safety
    /// `to` must be writable for a step ([`step_bytes`]) and aligned to 64 bytes.
    #[inline(always)]
    unsafe fn pack_rows(self, from: SourceMatrix<'_>, first: usize, step: usize, lay: TileLayout, to: *mut u8) {
        for half in 0..2 {
            let (row, col) = (first + half * 16, step * STEP_DEPTH);
            let part = TilePart {
                data: from.element_ptr(row, col),
                is_bf16: from.is_bf16(),
                outer: from.stride(),
                inner: 1,
                count: from.rows().saturating_sub(row).min(16),
                depth: (from.cols() - col).min(STEP_DEPTH),
            };
            // SAFETY: the part is clipped to the rows and columns of `from`. The caller promises a step at `to`, and
            // this half contains a tile of each term, two tiles apart.
            unsafe { self.pack_tile(part, lay, to.add(half * TILE_BYTES)) };
        }
    }
}
