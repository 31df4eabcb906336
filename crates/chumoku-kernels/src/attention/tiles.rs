//! The engine of bf16 terms, in blocks that AMX tiles or dot products of pairs multiply.

use super::engine::{BlockTask, Columns, Engine, EngineOp, GRAIN, KEYS, Matrix, STRIDE};
use crate::isa::Lanes;
use crate::isa::avx512::Avx512;
use crate::isa::bf16::split::{self, Lay, step_bytes};
use crate::isa::bf16::{Bf16, BlockProduct, Blocks, BlocksOp, SIDE, STEP, TILE, take};
use std::ops::Range;

/// Runs `task` on blocks with `TERMS` terms for each number.
pub(crate) fn run<const TERMS: usize>(bf16: Bf16, task: impl EngineOp) {
    struct OnBlocks<const TERMS: usize, T>(T);
    impl<const TERMS: usize, T: EngineOp> BlocksOp for OnBlocks<TERMS, T> {
        #[inline(always)]
        fn eval(self, bf16: Bf16, simd: Avx512, blocks: &Blocks) {
            self.0.eval(Engine32::<TERMS> { bf16, simd, blocks });
        }
    }
    bf16.run(OnBlocks::<TERMS, _>(task));
}

/// Products in blocks, with what multiplies them ready.
#[derive(Clone, Copy, Debug)]
struct Engine32<'a, const TERMS: usize> {
    bf16: Bf16,
    simd: Avx512,
    blocks: &'a Blocks,
}

// SAFETY: sizes count whole steps of whole panels, which is what is written and read, and a step is a number of tiles of
// 1,024 bytes.
unsafe impl<const TERMS: usize> Engine for Engine32<'_, TERMS> {
    type S = Avx512;
    const QUERIES: usize = 32;
    const TERMS: usize = TERMS;
    const DEGREE: usize = [3, 4, 6][TERMS - 1];
    const PACKS_WEIGHTS: bool = true;
    const GROUP: usize = 128;
    const GATHERED: usize = STEP;
    const READS_BF16: bool = TERMS == 1;
    const OVERLAPS: bool = TERMS > 1;
    const SUMS_APART: bool = TERMS > 2;

    #[inline(always)]
    fn simd(self) -> Avx512 {
        self.simd
    }

    #[inline(always)]
    fn run<T: BlockTask<Self>>(self, task: T) {
        struct OnBlock<E, T>(E, T);
        impl<E, T: BlockTask<E>> BlocksOp for OnBlock<E, T> {
            #[inline(always)]
            fn eval(self, _: Bf16, _: Avx512, _: &Blocks) {
                self.1.eval(self.0);
            }
        }
        self.bf16.run_on(self.blocks, OnBlock(self, task));
    }

    fn left_size(depth: usize) -> usize {
        depth.div_ceil(STEP) * step_bytes(TERMS)
    }
    fn gathers_left(_: usize) -> bool {
        false
    }
    fn right_transposed_size(depth: usize) -> usize {
        KEYS / GRAIN * depth.div_ceil(STEP) * step_bytes(TERMS)
    }
    fn right_size(cols: usize) -> usize {
        cols.div_ceil(GRAIN) * (KEYS / STEP) * step_bytes(TERMS)
    }

    #[inline(always)]
    unsafe fn pack_left(self, from: Matrix<'_>, to: *mut u8) {
        for step in 0..from.cols().div_ceil(STEP) {
            // SAFETY: the caller promises left_size: a step of both halves for each 32 columns.
            unsafe { self.pack_rows(from, 0, step, Lay::Rows, to.add(step * step_bytes(TERMS))) };
        }
    }

    #[inline(always)]
    unsafe fn pack_right_transposed(self, from: Matrix<'_>, to: *mut u8) {
        let steps = from.cols().div_ceil(STEP);
        for panel in 0..from.rows().div_ceil(GRAIN) {
            for step in 0..steps {
                // SAFETY: the caller promises right_transposed_size, and rows for no more panels than that counts; each has
                // `steps` steps.
                unsafe {
                    let to = to.add((panel * steps + step) * step_bytes(TERMS));
                    self.pack_rows(from, panel * GRAIN, step, Lay::Pairs, to);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn pack_right(self, from: Matrix<'_>, to: *mut u8) {
        for panel in 0..from.cols().div_ceil(GRAIN) {
            for step in 0..from.rows().div_ceil(STEP) {
                for half in 0..2 {
                    let (row, col) = (step * STEP, panel * GRAIN + half * 16);
                    let part = TilePart {
                        data: from.at(row, col),
                        is_bf16: from.is_bf16(),
                        outer: 1,
                        inner: from.stride(),
                        count: from.cols().saturating_sub(col).min(16),
                        depth: (from.rows() - row).min(STEP),
                    };
                    // SAFETY: the part is cut off where rows and columns end. The caller promises right_size, and rows for
                    // no more steps than that counts for every panel.
                    unsafe {
                        let to = to.add((panel * (KEYS / STEP) + step) * step_bytes(TERMS) + half * TILE);
                        self.pack(part, Lay::Pairs, to);
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn scores(
        self,
        left: *const u8,
        rows: usize,
        keys: *const u8,
        depth: usize,
        columns: Columns,
        out: *mut f32,
    ) {
        let steps = depth.div_ceil(STEP);
        for panel in columns.from() / GRAIN..columns.to() / GRAIN {
            // SAFETY: the caller promises a left operand and KEYS columns of `steps` steps, and a block of scores, in which
            // these 32 columns of 32 rows lie. The registers are set up.
            unsafe {
                self.blocks.block::<TERMS>(BlockProduct {
                    steps,
                    a: left,
                    b: keys.add(panel * steps * step_bytes(TERMS)),
                    c: out.add(panel * GRAIN),
                    c_stride: STRIDE,
                    rows,
                    accumulate: false,
                });
            }
        }
    }

    #[inline(always)]
    unsafe fn put(self, weights: *mut u8, row: usize, col: usize, pair: [<Avx512 as Lanes>::V; 2]) {
        // SAFETY: the caller promises a block of QUERIES rows and KEYS columns, and a row and a pair of vectors of it: 32 columns,
        // a step. Rows are 64 bytes of tiles that are aligned.
        unsafe {
            let step = weights.add(col / STEP * step_bytes(TERMS) + row / 16 * TILE + row % 16 * 64);
            self.bf16.put::<TERMS>(pair, step, 2 * TILE);
        }
    }

    #[inline(always)]
    unsafe fn weigh(
        self,
        weights: *const u8,
        rows: usize,
        columns: Columns,
        values: *const u8,
        panels: Range<usize>,
        out: *mut f32,
        cols: usize,
        accumulate: bool,
    ) {
        let first = columns.from() / STEP * step_bytes(TERMS);
        for panel in panels {
            // SAFETY: the caller promises weights for KEYS keys, values in panels of KEYS rows, of both of which the columns
            // leave some steps, and QUERIES rows of sums, in which this panel's columns lie.
            unsafe {
                self.blocks.block::<TERMS>(BlockProduct {
                    steps: (columns.to() - columns.from()) / STEP,
                    a: weights.add(first),
                    b: values.add(panel * (KEYS / STEP) * step_bytes(TERMS) + first),
                    c: out.add(panel * GRAIN),
                    c_stride: cols,
                    rows,
                    accumulate,
                });
            }
        }
    }

    fn gathered_size(cols: usize) -> usize {
        cols.div_ceil(GRAIN) * (Self::GROUP / STEP) * step_bytes(TERMS)
    }
    fn group_size() -> usize {
        KEYS / GRAIN * (Self::GROUP / STEP) * step_bytes(TERMS)
    }

    #[inline(always)]
    unsafe fn pack_gathered(self, from: Matrix<'_>, to: *mut u8) {
        for panel in 0..from.cols().div_ceil(GRAIN) {
            for step in 0..from.rows().div_ceil(STEP) {
                for half in 0..2 {
                    let (row, col) = (step * STEP, panel * GRAIN + half * 16);
                    let part = TilePart {
                        data: from.at(row, col),
                        is_bf16: from.is_bf16(),
                        outer: 1,
                        inner: from.stride(),
                        count: from.cols().saturating_sub(col).min(16),
                        depth: (from.rows() - row).min(STEP),
                    };
                    // SAFETY: the part is cut off where rows and columns end. The caller promises gathered_size, and rows
                    // for no more steps than that counts for every panel.
                    unsafe {
                        let to = to.add((panel * (Self::GROUP / STEP) + step) * step_bytes(TERMS) + half * TILE);
                        self.pack(part, Lay::Rows, to);
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn put_pair(self, weights: *mut u8, row: usize, col: usize, pairs: [[<Avx512 as Lanes>::V; 2]; 2]) {
        let [first, second] = pairs;
        for half in 0..2 {
            // SAFETY: the caller promises a group of GROUP rows and KEYS columns, an even row and a pair of vectors of it.
            // Rows are 64 bytes of tiles that are aligned.
            unsafe {
                let step = col / GRAIN * (Self::GROUP / STEP) + row / STEP;
                let to = weights.add(step * step_bytes(TERMS) + half * TILE + row % STEP / 2 * 64);
                self.bf16.put_pair::<TERMS>([first[half], second[half]], to, 2 * TILE);
            }
        }
    }

    #[inline(always)]
    unsafe fn gather(
        self,
        gathered: *const u8,
        cols: usize,
        rows: usize,
        weights: *const u8,
        columns: Columns,
        out: *mut f32,
        accumulate: bool,
    ) {
        let panel_bytes = (Self::GROUP / STEP) * step_bytes(TERMS);
        for down in 0..cols.div_ceil(GRAIN) {
            for across in columns.from() / GRAIN..columns.to() / GRAIN {
                // SAFETY: the caller promises `rows` rows of both operands, in panels of GROUP rows, and GRAIN rows beyond
                // `cols` of `out`, in which the last panel's rows end.
                unsafe {
                    self.blocks.block::<TERMS>(BlockProduct {
                        steps: rows / STEP,
                        a: gathered.add(down * panel_bytes),
                        b: weights.add(across * panel_bytes),
                        c: out.add(down * GRAIN * KEYS + across * GRAIN),
                        c_stride: KEYS,
                        rows: SIDE,
                        accumulate,
                    });
                }
            }
        }
    }
}

/// The part of a [`Matrix`] that makes a tile: see [`split::Source`].
#[derive(Clone, Copy, Debug)]
struct TilePart {
    data: *const u8,
    is_bf16: bool,
    outer: usize,
    inner: usize,
    count: usize,
    depth: usize,
}

impl<const TERMS: usize> Engine32<'_, TERMS> {
    /// Writes the tiles of the terms of a part, two tiles from one another.
    ///
    /// # Safety
    /// * All elements must be readable: bf16 where the part says so (which an engine of one term alone may be given), else
    ///   f32.
    /// * Each of the `TERMS` tiles from `to` on, two tiles apart, must be writable and aligned to 64 bytes.
    #[inline(always)]
    unsafe fn pack(self, part: TilePart, lay: Lay, to: *mut u8) {
        let TilePart { data, is_bf16, outer, inner, count, depth } = part;
        // SAFETY: the caller promises the elements, of the kind that the part names, and tiles at `to` that are writable
        // and aligned: TERMS of them two tiles apart, as `split` asks, the first of which is all that `take` writes.
        unsafe {
            if is_bf16 {
                self.bf16.take(take::Source { data: data.cast(), outer, inner, count, depth }, lay, to);
            } else {
                let source = split::Source { data: data.cast(), outer, inner, count, depth };
                self.bf16.split::<TERMS>(source, lay, to, 2 * TILE);
            }
        }
    }

    /// Packs the columns of step `step` of up to 32 rows from `first`.
    ///
    /// # Safety
    /// `to` must be writable for a step ([`step_bytes`]) and aligned to 64 bytes.
    #[inline(always)]
    unsafe fn pack_rows(self, from: Matrix<'_>, first: usize, step: usize, lay: Lay, to: *mut u8) {
        for half in 0..2 {
            let (row, col) = (first + half * 16, step * STEP);
            let part = TilePart {
                data: from.at(row, col),
                is_bf16: from.is_bf16(),
                outer: from.stride(),
                inner: 1,
                count: from.rows().saturating_sub(row).min(16),
                depth: (from.cols() - col).min(STEP),
            };
            // SAFETY: the part is cut off where the rows and columns of `from` end. The caller promises a step at `to`, of which
            // this half holds a tile of each term, two tiles apart.
            unsafe { self.pack(part, lay, to.add(half * TILE)) };
        }
    }
}
