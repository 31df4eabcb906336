//! The matrix product in AMX tiles, f32 numbers split into bf16 terms.
//!
//! The blocking is that of the vector version: B is split and packed once and shared, each task packs the rows of A
//! that it needs, a depth block at a time. Which product goes this way depends on its columns and depth alone, never on
//! its rows, so a row's result does not depend on how many others there are.

use super::{MatMut, MatRef, Start};
use crate::isa::amx::split::{Lay, Source, step_bytes};
use crate::isa::amx::{Amx, Block, SIDE, STEP, TILE, Tiles};
use crate::memory::Aligned;
use crate::threads::{SharedMut, for_each};
use std::cell::RefCell;

/// Rows of A that a task packs at a time.
const ROWS: usize = 128;
/// Columns of C in a task.
const COLS: usize = 512;
/// Below this many columns or this depth the padding of tiles costs more than they save.
const LEAST: usize = 16;

thread_local! {
    static PACKED_A: RefCell<Aligned> = const { RefCell::new(Aligned::new()) };
    static PACKED_B: RefCell<Aligned> = const { RefCell::new(Aligned::new()) };
}

/// Whether a product of so many columns and such a depth is worth tiles.
pub(super) fn suits(cols: usize, depth: usize) -> bool {
    cols >= LEAST && depth >= LEAST
}

/// Steps in a depth block: panels of both operands stay in the first-level cache.
const fn block_steps(terms: usize) -> usize {
    16 / terms.next_power_of_two()
}

/// What a panel is cut from.
#[derive(Clone, Copy)]
struct Strip<'a> {
    data: &'a [f32],
    /// Distance of rows (of A) or columns (of B).
    outer: usize,
    /// Distance of the depth.
    inner: usize,
    /// The strip's rows or columns.
    first: usize,
    end: usize,
}

/// Packs up to 32 rows (or columns) of a strip, depth `from..to`.
fn pack<const TERMS: usize>(amx: Amx, strip: Strip<'_>, from: usize, to: usize, lay: Lay, out: &mut [u8]) {
    for (step, out) in out.chunks_exact_mut(step_bytes(TERMS)).take((to - from).div_ceil(STEP)).enumerate() {
        let depth = from + step * STEP;
        for half in 0..2 {
            let first = strip.first + 16 * half;
            let count = strip.end.saturating_sub(first).min(16);
            if count == 0 {
                (0..TERMS).for_each(|term| out[(2 * term + half) * TILE..][..TILE].fill(0));
                continue;
            }
            let part = &strip.data[first * strip.outer + depth * strip.inner..];
            let depth = STEP.min(to - depth);
            assert!((count - 1) * strip.outer + (depth - 1) * strip.inner < part.len());
            let source = Source { data: part.as_ptr(), outer: strip.outer, inner: strip.inner, count, depth };
            let tiles = &mut out[half * TILE..][..(2 * TERMS - 1) * TILE];
            // SAFETY: the last element was just found inside; tiles of a term lie two apart and start at multiples of
            // TILE in memory that is aligned to 64 bytes.
            unsafe { amx.split::<TERMS>(source, lay, tiles.as_mut_ptr(), 2 * TILE) };
        }
    }
}

/// The product; shapes have been checked, none is 0.
pub(super) fn gemm_tiles<const TERMS: usize>(
    amx: Amx,
    a: MatRef<f32>,
    b: MatRef<f32>,
    start: Start<f32>,
    c: MatMut<f32>,
) {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    let (steps, panels) = (k.div_ceil(STEP), n.div_ceil(SIDE));
    let mut packed = PACKED_B.take();
    let size = steps * step_bytes(TERMS);
    let out = SharedMut::new(packed.bytes(panels * size));
    for_each(panels, n * k, |panel| {
        let strip = Strip { data: b.data, outer: b.col_stride, inner: b.row_stride, first: panel * SIDE, end: n };
        // SAFETY: each panel has its own range.
        let out = unsafe { out.slice(panel * size, size) };
        pack::<TERMS>(amx, strip, 0, k, Lay::Pairs, out);
    });
    let (blocks_down, blocks_across) = (m.div_ceil(ROWS), n.div_ceil(COLS));
    let c_stride = c.row_stride;
    let shared = SharedMut::new(c.data);
    let packed_b = packed.filled();
    for_each(blocks_down * blocks_across, m * n * k / 4, |block| {
        let (down, across) = (block / blocks_across, block % blocks_across);
        let rows = down * ROWS..m.min((down + 1) * ROWS);
        let cols = across * COLS..n.min((across + 1) * COLS);
        Task::<TERMS> { amx, a, packed_b, start, c: shared, c_stride, rows, cols }.run();
    });
    PACKED_B.set(packed);
}

struct Task<'a, const TERMS: usize> {
    amx: Amx,
    a: MatRef<'a, f32>,
    packed_b: &'a [u8],
    start: Start<'a, f32>,
    c: SharedMut<f32>,
    c_stride: usize,
    rows: std::ops::Range<usize>,
    cols: std::ops::Range<usize>,
}

impl<const TERMS: usize> Task<'_, TERMS> {
    /// This task's columns of row `i`, from `from` on.
    ///
    /// # Safety
    /// As [`SharedMut::slice`]; the block of C is this task's alone.
    #[allow(clippy::mut_from_ref)]
    unsafe fn row(&self, i: usize, from: usize, count: usize) -> &mut [f32] {
        // SAFETY: passed on to the caller.
        unsafe { self.c.slice(i * self.c_stride + from, count) }
    }

    fn run(self) {
        let (step, k) = (step_bytes(TERMS), self.a.cols);
        let panels_down = self.rows.len().div_ceil(SIDE);
        let mut packed = PACKED_A.take();
        let packed_a = packed.bytes(panels_down * block_steps(TERMS) * step);
        let tiles = self.amx.tiles();
        let mut edge = [0.0f32; SIDE * SIDE];
        for from in (0..k).step_by(block_steps(TERMS) * STEP) {
            let to = k.min(from + block_steps(TERMS) * STEP);
            let steps = (to - from).div_ceil(STEP);
            for (panel, out) in packed_a.chunks_exact_mut(steps * step).take(panels_down).enumerate() {
                let (data, outer, inner) = (self.a.data, self.a.row_stride, self.a.col_stride);
                let strip = Strip { data, outer, inner, first: self.rows.start + panel * SIDE, end: self.rows.end };
                pack::<TERMS>(self.amx, strip, from, to, Lay::Rows, out);
            }
            for j in self.cols.clone().step_by(SIDE) {
                let all_steps = k.div_ceil(STEP);
                let b = &self.packed_b[(j / SIDE * all_steps + from / STEP) * step..][..steps * step];
                let columns = SIDE.min(self.cols.end - j);
                for (panel, a) in packed_a.chunks_exact(steps * step).take(panels_down).enumerate() {
                    let i = self.rows.start + panel * SIDE;
                    let count = SIDE.min(self.rows.end - i);
                    self.block(&tiles, (i, count), (j, columns), from == 0, a, b, steps, &mut edge);
                }
            }
        }
        drop(tiles);
        PACKED_A.set(packed);
    }

    /// One block of C, directly if it is whole, else by way of `edge`.
    #[allow(clippy::too_many_arguments)]
    fn block(
        &self,
        tiles: &Tiles,
        (i, count): (usize, usize),
        (j, columns): (usize, usize),
        is_first: bool,
        a: &[u8],
        b: &[u8],
        steps: usize,
        edge: &mut [f32; SIDE * SIDE],
    ) {
        let accumulate = !is_first || !matches!(self.start, Start::Zero);
        if is_first && let Start::Bias(bias) = self.start {
            // SAFETY: see `row`; so below.
            (i..i + count).for_each(|i| unsafe { self.row(i, j, columns) }.copy_from_slice(&bias[j..j + columns]));
        }
        let [a, b] = [a, b].map(<[u8]>::as_ptr);
        if count == SIDE && columns == SIDE {
            // SAFETY: the whole block lies inside this task's part of C.
            let c = unsafe { self.c.pointer(i * self.c_stride + j) };
            let block = Block { steps, a, b, c, c_stride: self.c_stride, accumulate };
            // SAFETY: the panels hold `steps` steps, and c is a whole block.
            unsafe { tiles.block::<TERMS>(block) };
            return;
        }
        // By way of the buffer, with the same operations in the same order as a whole block.
        if accumulate {
            for (i, edge) in (i..i + count).zip(edge.chunks_exact_mut(SIDE)) {
                // SAFETY: as above.
                edge[..columns].copy_from_slice(unsafe { self.row(i, j, columns) });
            }
        }
        let block = Block { steps, a, b, c: edge.as_mut_ptr(), c_stride: SIDE, accumulate };
        // SAFETY: the panels hold `steps` steps, and the buffer is a whole block.
        unsafe { tiles.block::<TERMS>(block) };
        for (i, edge) in (i..i + count).zip(edge.chunks_exact(SIDE)) {
            // SAFETY: as above.
            unsafe { self.row(i, j, columns) }.copy_from_slice(&edge[..columns]);
        }
    }
}
