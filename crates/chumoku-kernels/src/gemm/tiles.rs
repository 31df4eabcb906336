//! The matrix product of f32 values split into bf16 terms, multiplied by AMX tiles or by pairwise dot products.
//!
//! B is split and packed once and shared. Each task packs the rows of A that it needs. It computes its part of C cell
//! by cell: a cell is a sub-block of C in the task's own memory that stays in the cache, where the epilogue is applied.
//! Weight gradients have few elements and a great depth, so their depth is split instead (see [`split_k`]).
//!
//! The kernel of a product depends only on its columns, depth and layout, never on its rows. A row's result therefore
//! does not depend on the number of other rows.

use super::epilogue::{BlockEpilogue, LINE, SEGMENT};
use super::matrix::{MatRef, Precision};
use super::packed::{Kernel, Rhs};
use crate::isa::bf16::split::{F32Source, TileLayout, step_bytes};
use crate::isa::bf16::{BLOCK_SIDE, Bf16, BlockMultiplier, BlockProduct, STEP_DEPTH, TILE_BYTES};
use crate::isa::{self, Simd, SimdOp};
use crate::memory::AlignedBuffer;
use crate::threads::{SharedMut, for_each, num_threads};
use std::cell::RefCell;
use std::ops::Range;

/// Rows of C in a task.
const ROWS: usize = 128;
/// Columns of C in a task, for products with few rows.
const COLS: usize = 256;
/// Columns of a cell.
const CELL: usize = SEGMENT;
/// Row stride of a cell: one cache line more than its columns, so that rows do not all start in the same cache sets.
const CELL_STRIDE: usize = CELL + 16;
/// Below this number of columns or this depth, padding to tiles costs more than tiles save.
const MIN_SIZE: usize = 16;
/// Depth from which a weight gradient is split along the depth, and the minimum depth of a part.
const SPLIT_K_DEPTH: usize = 1024;
/// Maximum number of parts of the depth: each is a partial result in memory.
const MAX_SPLITS: usize = 8;
/// Rows that are prefetched before they are packed, because the hardware does not predict the jump from row to row.
const PREFETCH_ROWS: usize = 8;
/// Rows and columns of C in a task of a split product.
const REGION: usize = 512;

thread_local! {
    // Reused from one product to the next.
    static PACKED_A: RefCell<AlignedBuffer> = const { RefCell::new(AlignedBuffer::new()) };
    static PACKED_B: RefCell<AlignedBuffer> = const { RefCell::new(AlignedBuffer::new()) };
    static SUMS: RefCell<AlignedBuffer> = const { RefCell::new(AlignedBuffer::new()) };
}

/// Returns whether tiles are worthwhile for a product with this number of columns and depth.
pub(super) fn is_worthwhile(cols: usize, depth: usize) -> bool {
    cols >= MIN_SIZE && depth >= MIN_SIZE
}

/// Returns the steps in a depth block: a panel of B stays in the first-level cache while the panels of A stream past
/// it.
const fn block_steps(terms: usize) -> usize {
    [8, 4, 2][terms - 1]
}

/// The rows of A or columns of B that a panel is packed from.
#[derive(Clone, Copy)]
struct PanelSource<'a> {
    data: &'a [f32],
    /// Stride of rows (of A) or columns (of B).
    outer: usize,
    /// Stride along the depth.
    inner: usize,
    /// The range of rows or columns.
    first: usize,
    end: usize,
}

impl<'a> PanelSource<'a> {
    fn of_a(a: MatRef<'a, f32>, first: usize, end: usize) -> Self {
        PanelSource { data: a.data, outer: a.row_stride, inner: a.col_stride, first, end }
    }

    fn of_b(b: MatRef<'a, f32>, first: usize, end: usize) -> Self {
        PanelSource { data: b.data, outer: b.col_stride, inner: b.row_stride, first, end }
    }
}

/// Packs up to 32 rows or columns of a source, depth `from..to`.
fn pack<const TERMS: usize>(
    bf16: Bf16,
    strip: PanelSource<'_>,
    from: usize,
    to: usize,
    lay: TileLayout,
    out: &mut [u8],
) {
    for (step, out) in out.chunks_exact_mut(step_bytes(TERMS)).take((to - from).div_ceil(STEP_DEPTH)).enumerate() {
        pack_step::<TERMS>(bf16, strip, from + step * STEP_DEPTH, to, lay, out);
    }
}

/// Packs the step of a source that starts at `depth`.
fn pack_step<const TERMS: usize>(
    bf16: Bf16,
    strip: PanelSource<'_>,
    depth: usize,
    to: usize,
    lay: TileLayout,
    out: &mut [u8],
) {
    for half in 0..2 {
        let first = strip.first + 16 * half;
        let count = strip.end.saturating_sub(first).min(16);
        if count == 0 {
            (0..TERMS).for_each(|term| out[(2 * term + half) * TILE_BYTES..][..TILE_BYTES].fill(0));
            continue;
        }
        let part = &strip.data[first * strip.outer + depth * strip.inner..];
        let depth = STEP_DEPTH.min(to - depth);
        assert!((count - 1) * strip.outer + (depth - 1) * strip.inner < part.len());
        let source = F32Source { data: part.as_ptr(), outer: strip.outer, inner: strip.inner, count, depth };
        if strip.inner == 1 {
            // Prefetch the rows of the next panel.
            for i in BLOCK_SIDE..BLOCK_SIDE + count {
                let ahead = part.as_ptr().wrapping_add(i * strip.outer);
                isa::prefetch(ahead);
                isa::prefetch(ahead.wrapping_add(LINE));
            }
        }
        let tiles = &mut out[half * TILE_BYTES..][..(2 * TERMS - 1) * TILE_BYTES];
        // SAFETY: the last element was just checked to be in range. Tiles of a term are two tiles apart and start at
        // multiples of TILE_BYTES in memory that is aligned to 64 bytes.
        unsafe { bf16.split::<TERMS>(source, lay, tiles.as_mut_ptr(), 2 * TILE_BYTES) };
    }
}

/// Packs panels of all rows or columns of a source, depth `from..to`, which is at most one depth block.
///
/// If the depth is contiguous across rows in memory, it is read row by row: the hardware prefetches along rows, not
/// across them.
fn pack_depth_block<const TERMS: usize>(
    bf16: Bf16,
    strip: PanelSource<'_>,
    from: usize,
    to: usize,
    lay: TileLayout,
    out: &mut [u8],
) {
    let size = block_steps(TERMS) * step_bytes(TERMS);
    if strip.outer != 1 {
        for (panel, out) in out.chunks_exact_mut(size).enumerate() {
            pack::<TERMS>(bf16, PanelSource { first: strip.first + panel * BLOCK_SIDE, ..strip }, from, to, lay, out);
        }
        return;
    }
    let count = strip.end - strip.first;
    let row = |p: usize| (p < to).then(|| strip.data[p * strip.inner + strip.first..][..count].as_ptr());
    for (step, depth) in (from..to).step_by(STEP_DEPTH).enumerate() {
        for pair in 0..STEP_DEPTH / 2 {
            for p in [depth + 2 * pair + PREFETCH_ROWS, depth + 2 * pair + PREFETCH_ROWS + 1] {
                let ahead = strip.data.as_ptr().wrapping_add(p * strip.inner + strip.first);
                (0..count).step_by(LINE).for_each(|at| isa::prefetch(ahead.wrapping_add(at)));
            }
            let rows = [row(depth + 2 * pair), row(depth + 2 * pair + 1)];
            let start = step * step_bytes(TERMS);
            assert!((count.div_ceil(BLOCK_SIDE) - 1) * size + start + step_bytes(TERMS) <= out.len());
            // SAFETY: the rows have `count` values. The tiles of this step of all panels are inside of `out`, as just
            // checked, at multiples of TILE_BYTES in memory that is aligned to 64 bytes.
            unsafe { bf16.split_pair::<TERMS>(rows, count, pair, out[start..].as_mut_ptr(), size) };
        }
    }
    if lay == TileLayout::Rows {
        for tile in out.chunks_exact_mut(TILE_BYTES) {
            // SAFETY: the chunk is a tile that has just been written. It starts at a multiple of TILE_BYTES in memory
            // that is aligned to 64 bytes.
            unsafe { bf16.transpose(tile.as_mut_ptr()) };
        }
    }
}

/// Packs all of B, in panels of 32 columns.
pub(super) fn pack_b(bf16: Bf16, b: MatRef<f32>, precision: Precision, out: &mut AlignedBuffer) {
    match precision {
        Precision::Medium => pack_panels::<1>(bf16, b, out),
        Precision::High => pack_panels::<2>(bf16, b, out),
        Precision::Highest => pack_panels::<3>(bf16, b, out),
    }
}

fn pack_panels<const TERMS: usize>(bf16: Bf16, b: MatRef<f32>, out: &mut AlignedBuffer) {
    let (panels, size) = (b.cols.div_ceil(BLOCK_SIDE), b.rows.div_ceil(STEP_DEPTH) * step_bytes(TERMS));
    let out = SharedMut::new(out.bytes(panels * size));
    for_each(panels, b.cols * b.rows, |panel| {
        // SAFETY: each panel has its own range.
        let out = unsafe { out.slice(panel * size, size) };
        pack::<TERMS>(bf16, PanelSource::of_b(b, panel * BLOCK_SIDE, b.cols), 0, b.rows, TileLayout::Pairs, out);
    });
}

/// Computes the product. The caller has checked the shapes; no size is 0.
///
/// # Safety
/// The same as for `run` of the parent module: `c` must hold the rows of C, `c_stride` apart, initialized if the
/// previous contents are kept. No other code may access them or the memory that `epilogue` writes.
pub(super) unsafe fn run<const TERMS: usize>(
    bf16: Bf16,
    a: MatRef<f32>,
    b: Rhs<f32>,
    c: SharedMut<f32>,
    c_stride: usize,
    epilogue: &BlockEpilogue,
) {
    if a.row_stride == 1 && a.col_stride > 1 && a.cols > SPLIT_K_DEPTH {
        // SAFETY: it requires what the caller promises here.
        return unsafe { split_k::<TERMS>(bf16, a, b.matrix, c, c_stride, epilogue) };
    }
    let (m, n, k) = (a.rows, b.matrix.cols, a.cols);
    let precision = [Precision::Medium, Precision::High, Precision::Highest][TERMS - 1];
    let mut scratch = PACKED_B.take();
    let pack = |b: MatRef<f32>, out: &mut AlignedBuffer| pack_panels::<TERMS>(bf16, b, out);
    let (packed_b, _) = b.panels(Kernel::Bf16Blocks(bf16, precision), &mut scratch, pack);
    let packed_b = packed_b.as_bytes();
    let down = m.div_ceil(ROWS);
    // Few rows: split the columns too, so that there is work to share. (No result depends on the partition of C.)
    let cols = if down >= num_threads() { n } else { COLS };
    let across = n.div_ceil(cols);
    for_each(down * across, m * n * k / 4, |task| {
        let (down, across) = (task / across, task % across);
        let rows = down * ROWS..m.min((down + 1) * ROWS);
        let cols = across * cols..n.min((across + 1) * cols);
        // SAFETY: the caller promises C and the memory that `epilogue` writes, and only this task accesses this part of
        // them.
        unsafe { CellTask::<TERMS> { bf16, a, packed_b, c, c_stride, epilogue }.run(rows, cols) };
    });
    PACKED_B.set(scratch);
}

struct CellTask<'a, const TERMS: usize> {
    bf16: Bf16,
    a: MatRef<'a, f32>,
    packed_b: &'a [u8],
    c: SharedMut<f32>,
    c_stride: usize,
    epilogue: &'a BlockEpilogue<'a>,
}

impl<const TERMS: usize> CellTask<'_, TERMS> {
    /// Computes a part of C.
    ///
    /// # Safety
    /// Same as for [`run`], for these rows and columns.
    unsafe fn run(self, rows: Range<usize>, cols: Range<usize>) {
        let (step, k) = (step_bytes(TERMS), self.a.cols);
        let (panels, steps) = (rows.len().div_ceil(BLOCK_SIDE), k.div_ceil(STEP_DEPTH));
        let (mut packed, mut sums) = (PACKED_A.take(), SUMS.take());
        let packed_a = packed.bytes(panels * steps * step);
        for (panel, out) in packed_a.chunks_exact_mut(steps * step).enumerate() {
            let strip = PanelSource::of_a(self.a, rows.start + panel * BLOCK_SIDE, rows.end);
            pack::<TERMS>(self.bf16, strip, 0, k, TileLayout::Rows, out);
        }
        let cell = sums.floats(ROWS * CELL_STRIDE);
        let blocks = self.bf16.block_multiplier();
        for left in cols.clone().step_by(CELL) {
            let right = cols.end.min(left + CELL);
            for from in (0..steps).step_by(block_steps(TERMS)) {
                let count = block_steps(TERMS).min(steps - from);
                for j in (left..right).step_by(BLOCK_SIDE) {
                    let b = &self.packed_b[(j / BLOCK_SIDE * steps + from) * step..][..count * step];
                    for panel in 0..panels {
                        let a = &packed_a[(panel * steps + from) * step..][..count * step];
                        let c = &mut cell[panel * BLOCK_SIDE * CELL_STRIDE + j - left..]
                            [..(BLOCK_SIDE - 1) * CELL_STRIDE + BLOCK_SIDE];
                        let first = rows.start + panel * BLOCK_SIDE;
                        let part = first..rows.end.min(first + BLOCK_SIDE);
                        // SAFETY: c is a whole block.
                        unsafe {
                            multiply_block::<TERMS>(&blocks, a, b, c.as_mut_ptr(), CELL_STRIDE, part.len(), from > 0)
                        };
                        if from == 0 {
                            self.epilogue.prefetch(part, &(j..right.min(j + BLOCK_SIDE)));
                        }
                    }
                }
            }
            let (finish, rows, cols) = (self.epilogue, rows.clone(), left..right);
            isa::dispatch(FinishCell { epilogue: finish, rows, cols, cell, c: self.c, c_stride: self.c_stride });
        }
        drop(blocks);
        PACKED_A.set(packed);
        SUMS.set(sums);
    }
}

/// Computes one block of sums, from panels of equal length.
///
/// # Safety
/// `c` must be writable for 32 rows of 32, and initialized if products are added to it.
unsafe fn multiply_block<const TERMS: usize>(
    blocks: &BlockMultiplier,
    a: &[u8],
    b: &[u8],
    c: *mut f32,
    c_stride: usize,
    rows: usize,
    accumulate: bool,
) {
    assert!(a.len() == b.len());
    let steps = a.len() / step_bytes(TERMS);
    // SAFETY: the panels hold `steps` steps. The caller promises c.
    unsafe {
        blocks.block::<TERMS>(BlockProduct { steps, a: a.as_ptr(), b: b.as_ptr(), c, c_stride, rows, accumulate })
    };
}

/// Applies the epilogue to a cell.
struct FinishCell<'a> {
    epilogue: &'a BlockEpilogue<'a>,
    rows: Range<usize>,
    cols: Range<usize>,
    cell: &'a mut [f32],
    c: SharedMut<f32>,
    c_stride: usize,
}

impl SimdOp for FinishCell<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let cols = self.cols.len();
        for (i, sums) in self.rows.zip(self.cell.chunks_mut(CELL_STRIDE)) {
            // SAFETY: C and the slope are valid until all tasks are done, as the caller of `run` promises, and only
            // this task accesses this cell of them. If the previous contents are kept, C is initialized.
            unsafe { self.epilogue.apply(simd, (i, self.cols.start), &mut sums[..cols], self.c, self.c_stride) };
        }
        self.epilogue.fence(simd);
    }
}

/// Computes a product with few elements and great depth (split-K): the gradient of a weight, `dyᵀ·x` over all tokens.
///
/// The depth is split into parts whose partial results are added in order. A task packs both of its operands one depth
/// block at a time, so that values are read from memory once and everything else stays in the cache.
///
/// # Safety
/// Same as for [`run`].
unsafe fn split_k<const TERMS: usize>(
    bf16: Bf16,
    a: MatRef<f32>,
    b: MatRef<f32>,
    c: SharedMut<f32>,
    c_stride: usize,
    finish: &BlockEpilogue,
) {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    let block = block_steps(TERMS) * STEP_DEPTH;
    let piece = SPLIT_K_DEPTH.max(k.div_ceil(MAX_SPLITS).next_multiple_of(block));
    let pieces = k.div_ceil(piece);
    // Rows of a partial result are padded to whole panels plus one cache line, as in a cell.
    let stride = n.next_multiple_of(BLOCK_SIDE) + 16;
    let size = m.next_multiple_of(BLOCK_SIDE) * stride;
    let (down, across) = (m.div_ceil(REGION), n.div_ceil(REGION));
    let mut sums = SUMS.take();
    let partial = SharedMut::new(sums.floats(pieces * size));
    for_each(pieces * down * across, m * n * k / 4, |task| {
        let (piece_index, region) = (task / (down * across), task % (down * across));
        let (i, j) = (region / across * REGION, region % across * REGION);
        let (rows, cols) = (i..m.min(i + REGION), j..n.min(j + REGION));
        let depth = piece_index * piece..k.min((piece_index + 1) * piece);
        let sums = PartialSums { partial, start: piece_index * size, stride };
        // SAFETY: the partial results have space for `pieces` of `size` and live until all tasks are done. Only this
        // task accesses this region of this part.
        unsafe { split_k_part::<TERMS>(bf16, a, b, rows, cols, depth, sums) };
    });
    let all = SharedMut::new(sums.floats(pieces * size));
    for_each(m.div_ceil(BLOCK_SIDE), m * n * (pieces + 1), |panel| {
        for i in panel * BLOCK_SIDE..m.min((panel + 1) * BLOCK_SIDE) {
            // SAFETY: a row belongs to only one panel, and each part has one such row. The sums live until all panels
            // are done, and they are initialized.
            let rows = |piece: usize| unsafe { all.slice(piece * size + i * stride, n) };
            isa::dispatch(ReduceRow {
                epilogue: finish,
                row: i,
                first: rows(0),
                others: (1..pieces).map(rows),
                c,
                c_stride,
            });
        }
    });
    SUMS.set(sums);
}

/// The destination of the sums of a part: rows of all of C, `stride` apart.
#[derive(Clone, Copy)]
struct PartialSums {
    partial: SharedMut<f32>,
    start: usize,
    stride: usize,
}

/// Computes the sums of a region of C over one part of the depth.
///
/// # Safety
/// * The memory of `sums` must hold the rows of the part, `stride` apart, padded to whole blocks in both directions.
/// * No other code may access this region of them during the call.
unsafe fn split_k_part<const TERMS: usize>(
    bf16: Bf16,
    a: MatRef<f32>,
    b: MatRef<f32>,
    rows: Range<usize>,
    cols: Range<usize>,
    depth: Range<usize>,
    sums: PartialSums,
) {
    let size = block_steps(TERMS) * step_bytes(TERMS);
    let (down, across) = (rows.len().div_ceil(BLOCK_SIDE), cols.len().div_ceil(BLOCK_SIDE));
    let mut packed = PACKED_A.take();
    let (packed_a, packed_b) = packed.bytes((down + across) * size).split_at_mut(down * size);
    let blocks = bf16.block_multiplier();
    for from in depth.clone().step_by(block_steps(TERMS) * STEP_DEPTH) {
        let to = depth.end.min(from + block_steps(TERMS) * STEP_DEPTH);
        let used = (to - from).div_ceil(STEP_DEPTH) * step_bytes(TERMS);
        pack_depth_block::<TERMS>(
            bf16,
            PanelSource::of_a(a, rows.start, rows.end),
            from,
            to,
            TileLayout::Rows,
            packed_a,
        );
        pack_depth_block::<TERMS>(
            bf16,
            PanelSource::of_b(b, cols.start, cols.end),
            from,
            to,
            TileLayout::Pairs,
            packed_b,
        );
        for (j, b) in packed_b.chunks_exact(size).enumerate() {
            for (i, a) in packed_a.chunks_exact(size).enumerate() {
                let at = (rows.start + i * BLOCK_SIDE) * sums.stride + cols.start + j * BLOCK_SIDE;
                // SAFETY: the caller promises the partial results with space for whole blocks, and exclusive access to
                // this region. Blocks that are added to were written by earlier depth blocks.
                unsafe {
                    let c = sums.partial.ptr(sums.start + at);
                    let height = (rows.len() - i * BLOCK_SIDE).min(BLOCK_SIDE);
                    multiply_block::<TERMS>(
                        &blocks,
                        &a[..used],
                        &b[..used],
                        c,
                        sums.stride,
                        height,
                        from > depth.start,
                    );
                }
            }
        }
    }
    drop(blocks);
    PACKED_A.set(packed);
}

/// Adds up the partial sums of a row and applies the epilogue.
struct ReduceRow<'a, I> {
    epilogue: &'a BlockEpilogue<'a>,
    row: usize,
    first: &'a mut [f32],
    others: I,
    c: SharedMut<f32>,
    c_stride: usize,
}

impl<'a, I: Iterator<Item = &'a mut [f32]>> SimdOp for ReduceRow<'a, I> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        for other in self.others {
            self.first.iter_mut().zip(other).for_each(|(sum, x)| *sum += *x);
        }
        for (segment, sums) in self.first.chunks_mut(SEGMENT).enumerate() {
            // SAFETY: C and the slope are valid until all tasks are done, as the caller of `split_k` promises, and only
            // this task accesses this row of them. If the previous contents are kept, C is initialized.
            unsafe { self.epilogue.apply(simd, (self.row, segment * SEGMENT), sums, self.c, self.c_stride) };
        }
        self.epilogue.fence(simd);
    }
}
