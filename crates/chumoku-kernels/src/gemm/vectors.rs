//! The matrix product in vectors, for any instruction set.
//!
//! A register tile of C streams through a panel of A and one of B, with a broadcast and a fused multiply–add for each
//! product. It processes one depth block at a time, so that panels stay in the first-level cache.

use super::epilogue::{BlockEpilogue, SEGMENT};
use super::matrix::{MatRef, OutputInit};
use super::packed::{Kernel, Rhs};
use crate::isa::{self, Simd, SimdOp};
use crate::low_precision::StorageDtype;
use crate::memory::AlignedBuffer;
use crate::register_tile::{self, GEMM_ROW_STRIDE, Tile};
use crate::threads::{SharedMut, for_each, num_threads};
use std::cell::RefCell;

/// Depth of a block: a panel of B with this depth and the tile's columns fits the first-level cache.
const DEPTH: usize = 256;
// Rows of A with this depth fit the row stride of the register tile.
const _: () = assert!(DEPTH <= GEMM_ROW_STRIDE);
/// Approximate number of rows of A that a task packs at a time; rounded to whole tiles.
const ROWS: usize = 96;
/// Approximate number of columns of C in a task; rounded to whole tiles. Each task copies its rows of A, so few columns
/// are expensive.
const COLS: usize = 2048;
/// Columns in a task of a product with few rows, so that every core has work.
const SMALL_COLS: usize = 128;

/// Bytes of a cache line.
const LINE: usize = 64;

thread_local! {
    /// Packed rows of A, or a panel of B before it is narrowed. Reused, so that products allocate nothing once warm.
    static PACKED_A: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    /// Packed B of the product that this thread has called.
    static PACKED_B: RefCell<AlignedBuffer> = const { RefCell::new(AlignedBuffer::new()) };
}

/// Copies `count` values of each step to a panel with `width` values per step, and pads with zeros. `step(p)` returns
/// the values from step p on.
#[inline(always)]
fn copy_steps<'a>(panel: &mut [f32], width: usize, count: usize, step: impl Fn(usize) -> &'a [f32]) {
    for (p, out) in panel.chunks_exact_mut(width).enumerate() {
        let from = step(p);
        if count == width {
            // The constant length lets the compiler avoid a call for a few values.
            out.iter_mut().zip(&from[..width]).for_each(|(out, &x)| *out = x);
        } else {
            out[..count].iter_mut().zip(from).for_each(|(out, &x)| *out = x);
            out[count..].fill(0.0);
        }
    }
}

/// Packs `count` rows from row `first`, depth `from..from+depth`, into one panel with `width` values per step. Element
/// (i, p) of the matrix is `data[i·outer + p·inner]`. Missing rows become zeros.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn pack_panel(
    data: &[f32],
    outer: usize,
    inner: usize,
    first: usize,
    count: usize,
    from: usize,
    depth: usize,
    width: usize,
    panel: &mut [f32],
) {
    let panel = &mut panel[..depth * width];
    if outer == 1 {
        copy_steps(panel, width, count, |p| &data[first + (from + p) * inner..]);
        return;
    }
    if count < width {
        panel.fill(0.0);
    }
    if inner == 1 {
        for i in 0..count {
            let start = (first + i) * outer + from;
            for (step, &x) in panel.chunks_exact_mut(width).zip(&data[start..start + depth]) {
                step[i] = x;
            }
        }
    } else {
        for (p, step) in panel.chunks_exact_mut(width).enumerate() {
            for (i, x) in step[..count].iter_mut().enumerate() {
                *x = data[(first + i) * outer + (from + p) * inner];
            }
        }
    }
}

struct PackB<'a> {
    b: MatRef<'a, f32>,
    panel: usize,
    out: &'a mut [f32],
}

impl SimdOp for PackB<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        /// Columns and depth that are transposed at a time.
        const SIDE: usize = 16;
        let (b, width) = (self.b, S::TILE_COLS);
        let first = self.panel * width;
        let count = width.min(b.cols - first);
        let squares = b.rows / SIDE * SIDE;
        if b.row_stride != 1 || count < width || !width.is_multiple_of(SIDE) {
            // A panel holds the whole depth, so depth blocks are plain ranges of it.
            pack_panel(b.data, b.col_stride, b.row_stride, first, count, 0, b.rows, width, self.out);
            return;
        }
        // The depth is contiguous in memory.
        for col in (0..width).step_by(SIDE) {
            for depth in (0..squares).step_by(SIDE) {
                let (from, to) =
                    (&b.data[(first + col) * b.col_stride + depth..], &mut self.out[depth * width + col..]);
                assert!((SIDE - 1) * b.col_stride + SIDE <= from.len() && (SIDE - 1) * width + SIDE <= to.len());
                // SAFETY: 16 rows of 16 are inside of both, as was just checked, and `out` is exclusively borrowed.
                unsafe { simd.transpose(from.as_ptr(), b.col_stride, to.as_mut_ptr(), width) };
            }
        }
        let rest = &mut self.out[squares * width..];
        pack_panel(b.data, b.col_stride, b.row_stride, first, count, squares, b.rows - squares, width, rest);
    }
}

struct RegisterTileSize;

impl SimdOp for RegisterTileSize {
    type Output = (usize, usize);
    #[inline(always)]
    fn eval<S: Simd>(self, _: S) -> (usize, usize) {
        (S::TILE_ROWS, S::TILE_COLS)
    }
}

/// Returns the rows and columns of the register tile of the active instruction set.
pub(super) fn tile_size() -> (usize, usize) {
    isa::dispatch(RegisterTileSize)
}

/// Packs all of B in panels as wide as the register tile.
pub(super) fn pack_b(b: MatRef<f32>, out: &mut AlignedBuffer) {
    pack_b_with_dtype(StorageDtype::F32, b, out);
}

/// Packs all of B like [`pack_b`], in a dtype that holds its values exactly. Products with few rows are limited by
/// reading B, which takes half the time if its values have half the size.
pub(super) fn pack_b_with_dtype(form: StorageDtype, b: MatRef<f32>, out: &mut AlignedBuffer) {
    let (k, width) = (b.rows, tile_size().1);
    let panels = b.cols.div_ceil(width);
    if form == StorageDtype::F32 {
        let out = SharedMut::new(out.floats(panels * width * k));
        for_each(panels, panels * width * k, |panel| {
            // SAFETY: each panel is its own range.
            let out = unsafe { out.slice(panel * width * k, width * k) };
            isa::dispatch(PackB { b, panel, out });
        });
        return;
    }
    let out = SharedMut::new(out.bytes(panels * width * k * form.size()));
    for_each(panels, panels * width * k, |panel| {
        let mut wide = PACKED_A.take();
        wide.resize(width * k, 0.0);
        isa::dispatch(PackB { b, panel, out: &mut wide[..width * k] });
        // SAFETY: each panel is its own range.
        let out = unsafe { out.slice(panel * width * k * form.size(), width * k * form.size()) };
        for (bytes, &x) in out.as_chunks_mut::<2>().0.iter_mut().zip(&wide) {
            *bytes = form.encode(x).to_ne_bytes();
        }
        PACKED_A.set(wide);
    });
}

/// Computes the product. There are rows and columns.
///
/// # Safety
/// The same as for `run` of the parent module: `c` must hold the rows of C, `c_stride` apart, initialized if the
/// previous contents are kept. No other code may access them or the memory that `epilogue` writes.
pub(super) unsafe fn run(a: MatRef<f32>, b: Rhs<f32>, c: SharedMut<f32>, c_stride: usize, epilogue: &BlockEpilogue) {
    let (m, n, k) = (a.rows, b.matrix.cols, a.cols);
    let (height, width) = tile_size();
    let mut scratch = PACKED_B.take();
    let (packed_b, form) = b.panels(Kernel::Vectors { width }, &mut scratch, pack_b);
    let packed_b = packed_b.as_bytes();
    let block_rows = ROWS.div_ceil(height) * height;
    let blocks_down = m.div_ceil(block_rows);
    // Few rows: split the columns more finely, so that there is work to share. (No result depends on the partition of
    // C.)
    let threads = num_threads();
    let cols = if threads == 1 || blocks_down >= 4 * threads { COLS } else { SMALL_COLS };
    let block_cols = cols.div_ceil(width) * width;
    let blocks_across = n.div_ceil(block_cols);
    for_each(blocks_down * blocks_across, 2 * m * n * k.max(1), |block| {
        let (down, across) = (block / blocks_across, block % blocks_across);
        let rows = down * block_rows..m.min((down + 1) * block_rows);
        let cols = across * block_cols..n.min((across + 1) * block_cols);
        isa::dispatch(GemmBlock { a, packed_b, dtype: form, epilogue, c, c_stride, rows, cols });
    });
    PACKED_B.set(scratch);
}

/// A block of C that belongs to one task. [`run`] is the only constructor, and its caller guarantees C.
struct GemmBlock<'a> {
    a: MatRef<'a, f32>,
    packed_b: &'a [u8],
    dtype: StorageDtype,
    epilogue: &'a BlockEpilogue<'a>,
    c: SharedMut<f32>,
    c_stride: usize,
    rows: std::ops::Range<usize>,
    cols: std::ops::Range<usize>,
}

impl GemmBlock<'_> {
    /// Packs `depth` columns of the rows of A, from column `from`, in panels of `height` rows. Contiguous rows are
    /// copied whole, [`GEMM_ROW_STRIDE`] apart. Otherwise the values of each step of the depth are packed side by side.
    #[inline(always)]
    fn pack_a(&self, (from, depth): (usize, usize), height: usize, panels: &mut [f32]) {
        let a = self.a;
        let size = if a.col_stride == 1 { height * GEMM_ROW_STRIDE } else { height * depth };
        let mut packed = 0;
        if a.row_stride == 1 && a.col_stride != 1 {
            // The rows are contiguous at each step of the depth. Copy a few steps of all rows at a time, so that each
            // cache line is read once.
            const STEPS: usize = 8;
            packed = self.rows.len() / height;
            for step in (0..depth).step_by(STEPS) {
                let steps = STEPS.min(depth - step);
                for t in 0..packed {
                    let first = self.rows.start + t * height;
                    let panel = &mut panels[t * size + step * height..][..steps * height];
                    copy_steps(panel, height, height, |p| &a.data[first + (from + step + p) * a.col_stride..]);
                }
            }
        }
        for (t, panel) in panels.chunks_mut(size.max(1)).enumerate().skip(packed) {
            let first = self.rows.start + t * height;
            if first >= self.rows.end {
                break;
            }
            let count = height.min(self.rows.end - first);
            if a.col_stride != 1 {
                pack_panel(a.data, a.row_stride, a.col_stride, first, count, from, depth, height, panel);
                continue;
            }
            for (i, row) in panel.chunks_exact_mut(GEMM_ROW_STRIDE).enumerate() {
                let row = &mut row[..depth];
                if i < count {
                    let start = (first + i) * a.row_stride + from;
                    row.copy_from_slice(&a.data[start..start + depth]);
                } else {
                    row.fill(0.0);
                }
            }
        }
    }
}

impl SimdOp for GemmBlock<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        // Taken out instead of borrowed in a closure: a closure is compiled without the instruction set's features.
        let mut packed_a = PACKED_A.take();
        let (height, width) = (S::TILE_ROWS, S::TILE_COLS);
        let k = self.a.cols;
        let tiles_down = self.rows.len().div_ceil(height);
        // One row needs no packing, and no sums for missing rows.
        let is_row = self.rows.len() == 1 && self.a.col_stride == 1;
        // Contiguous rows are copied unchanged, which takes a fraction of the time of panels of columns.
        let in_rows = self.a.col_stride == 1;
        packed_a.resize(tiles_down * height * if in_rows { GEMM_ROW_STRIDE } else { DEPTH.min(k.max(1)) }, 0.0);
        let mut edge = [0.0f32; 16 * 64];
        let keep = matches!(self.epilogue.init, OutputInit::Keep);
        let mut from = 0;
        // At least one iteration, even if the depth is 0, so that C is written.
        while from < k || from == 0 {
            let depth = DEPTH.min(k - from);
            let accumulate = from > 0 || keep;
            let panel_size = if in_rows { height * GEMM_ROW_STRIDE } else { height * depth };
            if !is_row {
                self.pack_a((from, depth), height, &mut packed_a);
            }
            let mut j = self.cols.start;
            while j < self.cols.end {
                let size = self.dtype.size();
                let b = &self.packed_b[(j / width * width * k + from * width) * size..][..depth * width * size];
                let columns = width.min(self.cols.end - j);
                // Prefetch the panel of the next columns during this one, unless there are few rows.
                let next = self.packed_b.as_ptr().wrapping_add(((j / width + 1) * width * k + from * width) * size);
                let lines = if tiles_down < 4 { 0 } else { (depth * width * size).div_ceil(LINE * tiles_down) };
                for t in 0..tiles_down {
                    (t * lines..(t + 1) * lines).for_each(|line| isa::prefetch(next.wrapping_add(line * LINE)));
                    let (panel, a_step) = match is_row {
                        true => (&self.a.data[self.rows.start * self.a.row_stride + from..][..depth], 1),
                        false => (&packed_a[t * panel_size..][..panel_size], if in_rows { 1 } else { height }),
                    };
                    let i = self.rows.start + t * height;
                    let count = height.min(self.rows.end - i);
                    let whole = count == height && columns == width;
                    let (c, c_stride) = if whole {
                        // SAFETY: C is valid until all tasks are done, and the whole tile is inside of this task's
                        // block.
                        (unsafe { self.c.ptr(i * self.c_stride + j) }, self.c_stride)
                    } else {
                        (edge.as_mut_ptr(), width)
                    };
                    let tile = Tile {
                        depth,
                        a: panel.as_ptr(),
                        a_step,
                        b: b.as_ptr().cast(),
                        b_step: width,
                        c,
                        c_stride,
                        accumulate: accumulate && whole,
                    };
                    // SAFETY: the panels hold `depth` steps, of rows GEMM_ROW_STRIDE apart or of columns; a single row
                    // has one value of `a` per step. c is a whole tile of C, which is valid, accessed only by this
                    // task, and initialized if it is added to. Or it is the edge buffer, which holds the largest tile
                    // of any instruction set.
                    unsafe {
                        match in_rows && !is_row {
                            true => register_tile::gemm_row_tile(simd, tile, self.dtype),
                            false => register_tile::packed_tile(simd, tile, self.dtype, is_row),
                        }
                    }
                    if !whole {
                        for r in 0..count {
                            let (at, part) = ((i + r) * self.c_stride + j, &mut edge[r * width..][..columns]);
                            // SAFETY: C is valid until all tasks are done, and only this task accesses these columns of
                            // the row. If they are added to, they were initialized by earlier depth blocks or hold the
                            // kept contents.
                            unsafe {
                                if accumulate {
                                    let row = self.c.slice(at, columns);
                                    part.iter_mut().zip(row).for_each(|(x, c)| *x += *c);
                                }
                                self.c.copy_from(at, part);
                            }
                        }
                    }
                }
                j += width;
            }
            from += DEPTH;
        }
        PACKED_A.set(packed_a);
        if !self.epilogue.is_identity() {
            let mut sums = [0.0; SEGMENT];
            for i in self.rows.clone() {
                for j in self.cols.clone().step_by(SEGMENT) {
                    let sums = &mut sums[..SEGMENT.min(self.cols.end - j)];
                    // SAFETY: C is valid until all tasks are done. Only this task accesses this block of it, which has
                    // been written by now.
                    sums.copy_from_slice(unsafe { self.c.slice(i * self.c_stride + j, sums.len()) });
                    // SAFETY: C and the slope of the epilogue are valid until all tasks are done, and only this task
                    // accesses these elements. They are initialized by now.
                    unsafe { self.epilogue.apply(simd, (i, j), sums, self.c, self.c_stride) };
                }
            }
            self.epilogue.fence(simd);
        }
    }
}
