//! The engine of vector registers: products of f32.

use super::engine::{
    Engine, EngineOp, EngineTask, GRAIN, KEY_BLOCK, MatmulAtB, PvMatmul, QkMatmul, SCORE_STRIDE, SourceMatrix,
};
use crate::isa::{Simd, SimdOp};
use crate::low_precision::StorageDtype;
use crate::register_tile::{ATTENTION_ROW_STRIDE, GEMM_ROW_STRIDE, Tile, attention_tile, gemm_row_tile, tile};

/// An [`EngineOp`] on f32 registers as a [`SimdOp`].
pub(crate) struct RegisterEngineOp<T>(pub(crate) T);

impl<T: EngineOp> SimdOp for RegisterEngineOp<T> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        self.0.eval(RegisterEngine(simd));
    }
}

/// An [`EngineTask`] as a [`SimdOp`].
struct RegisterEngineTask<S, T>(RegisterEngine<S>, T);

impl<S: Simd, T: EngineTask<RegisterEngine<S>>> SimdOp for RegisterEngineTask<S, T> {
    type Output = ();
    #[inline(always)]
    fn eval<S2: Simd>(self, _: S2) {
        // The instruction set is the same: [`RegisterEngine::run`] is the only constructor.
        self.1.eval(self.0);
    }
}

/// Engine that multiplies f32 in vector registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegisterEngine<S>(pub(super) S);

/// Bytes of an f32.
const F32: usize = size_of::<f32>();

// SAFETY: sizes count whole panels of TILE_ROWS or TILE_COLS values, which is the memory that is written and read. Each
// is a multiple of 16 values, since QUERY_BLOCK, KEY_BLOCK, QUERY_GROUP and SCORE_STRIDE are. Weights have the layout
// of scores.
unsafe impl<S: Simd> Engine for RegisterEngine<S> {
    type S = S;
    const QUERY_BLOCK: usize = 48;
    const TERMS: usize = 0;
    const EXP_DEGREE: usize = 6;
    const PACKS_WEIGHTS: bool = false;
    const QUERY_GROUP: usize = 96;
    const ROW_GRANULARITY: usize = 2;
    const READS_BF16: bool = false;
    const INTERLEAVES: bool = false;
    // Its tiles accumulate in registers anyway.
    const SEPARATE_BLOCK_SUMS: bool = false;

    #[inline(always)]
    fn simd(self) -> S {
        self.0
    }

    #[inline(always)]
    fn run<T: EngineTask<Self>>(self, task: T) {
        self.0.run(RegisterEngineTask(self, task));
    }

    fn lhs_bytes(depth: usize) -> usize {
        Self::QUERY_BLOCK * lhs_row_stride::<S>(depth).unwrap_or(depth) * F32
    }
    fn reuses_lhs(depth: usize) -> bool {
        lhs_row_stride::<S>(depth).is_some()
    }
    fn rhs_transposed_bytes(depth: usize) -> usize {
        KEY_BLOCK * depth * F32
    }
    fn rhs_bytes(cols: usize) -> usize {
        cols.next_multiple_of(GRAIN) * KEY_BLOCK * F32
    }

    /// Rows with a constant stride, or panels of `TILE_ROWS` rows, as `[column][row]`, if the rows are too long.
    #[inline(always)]
    unsafe fn pack_lhs(self, from: SourceMatrix<'_>, to: *mut u8) {
        let Some(stride) = lhs_row_stride::<S>(from.cols()) else {
            // SAFETY: QUERY_BLOCK is a whole number of panels, and the caller promises lhs_bytes, which is QUERY_BLOCK
            // rows of values.
            return unsafe { pack_panels(self.0, from, S::TILE_ROWS, Self::QUERY_BLOCK, to.cast()) };
        };
        // Products cover whole tiles.
        let rows = from.rows().next_multiple_of(S::TILE_ROWS).min(Self::QUERY_BLOCK);
        // SAFETY: the caller promises lhs_bytes, which is QUERY_BLOCK rows of `stride` values. Scratch memory is
        // initialized.
        let out = unsafe { std::slice::from_raw_parts_mut(to.cast::<f32>(), rows * stride) };
        let mut lines = from.rows_f32();
        for out in out.chunks_exact_mut(stride) {
            match lines.next() {
                Some(line) => out[..line.len()].copy_from_slice(line),
                None => out[..from.cols()].fill(0.0),
            }
        }
    }

    /// Panels of `TILE_COLS` keys, as `[column][key]`.
    #[inline(always)]
    unsafe fn pack_rhs_transposed(self, from: SourceMatrix<'_>, to: *mut u8) {
        // SAFETY: GRAIN is a whole number of panels, and the caller promises rhs_transposed_bytes for at most KEY_BLOCK
        // rows, which is the size of KEY_BLOCK rows of values.
        unsafe { pack_panels(self.0, from, S::TILE_COLS, from.rows().next_multiple_of(GRAIN), to.cast()) };
    }

    /// Panels of `TILE_COLS` columns, as `[row][column]`, with [`KEY_BLOCK`] rows each.
    #[inline(always)]
    unsafe fn pack_rhs(self, from: SourceMatrix<'_>, to: *mut u8) {
        let width = S::TILE_COLS;
        let rows = from.rows().next_multiple_of(GRAIN);
        for panel in 0..from.cols().next_multiple_of(GRAIN) / width {
            // SAFETY: the caller promises rhs_bytes, which counts KEY_BLOCK rows for every panel, and at most KEY_BLOCK
            // rows. Scratch memory is initialized.
            let out = unsafe {
                let start = to.cast::<f32>().add(panel * KEY_BLOCK * width);
                std::slice::from_raw_parts_mut(start, rows * width)
            };
            let first = panel * width;
            let count = from.cols().saturating_sub(first).min(width);
            let mut lines = from.rows_f32();
            for out in out.chunks_exact_mut(width) {
                if let Some(line) = lines.next()
                    && count > 0
                {
                    out[..count].copy_from_slice(&line[first..first + count]);
                    out[count..].fill(0.0);
                } else {
                    out.fill(0.0);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn qk_matmul(self, product: QkMatmul) {
        self.0.run(product);
    }

    #[inline(always)]
    unsafe fn store_weights(self, weights: *mut u8, row: usize, col: usize, pair: [S::V; 2]) {
        // SAFETY: the caller promises a block of rows of SCORE_STRIDE values, one of its rows, and a pair of vectors
        // within KEY_BLOCK columns, which is less than SCORE_STRIDE.
        unsafe {
            let at = weights.cast::<f32>().add(row * SCORE_STRIDE + col);
            self.0.store_ptr(at, pair[0]);
            self.0.store_ptr(at.add(S::LANES), pair[1]);
        }
    }

    #[inline(always)]
    unsafe fn pv_matmul(self, product: PvMatmul) {
        self.0.run(product);
    }

    fn lhs_transposed_bytes(cols: usize) -> usize {
        Self::QUERY_GROUP * padded_cols::<S>(cols) * F32
    }
    fn weight_group_bytes() -> usize {
        Self::QUERY_GROUP * SCORE_STRIDE * F32
    }

    /// `[row][column]`, which a tile reads column by column.
    #[inline(always)]
    unsafe fn pack_lhs_transposed(self, from: SourceMatrix<'_>, to: *mut u8) {
        let cols = padded_cols::<S>(from.cols());
        let rows = from.rows().next_multiple_of(Self::ROW_GRANULARITY);
        // SAFETY: the caller promises lhs_transposed_bytes, QUERY_GROUP rows of `cols` columns, and at most QUERY_GROUP
        // rows, a multiple of ROW_GRANULARITY. Scratch memory is initialized.
        let out = unsafe { std::slice::from_raw_parts_mut(to.cast::<f32>(), rows * cols) };
        let mut lines = from.rows_f32();
        for out in out.chunks_exact_mut(cols) {
            let mut count = 0;
            if let Some(line) = lines.next() {
                out[..from.cols()].copy_from_slice(line);
                count = from.cols();
            }
            out[count..].fill(0.0);
        }
    }

    #[inline(always)]
    unsafe fn store_weight_rows(self, weights: *mut u8, row: usize, col: usize, pairs: [[S::V; 2]; 2]) {
        for (i, pair) in pairs.into_iter().enumerate() {
            // SAFETY: the caller promises QUERY_GROUP rows of SCORE_STRIDE values. `row` is one of them, and since it
            // is even it is not the last.
            unsafe { self.store_weights(weights, row + i, col, pair) };
        }
    }

    #[inline(always)]
    unsafe fn matmul_at_b(self, product: MatmulAtB) {
        self.0.run(product);
    }
}

/// [`Engine::qk_matmul`] on registers, as a separate function that all passes share. Only the engine runs it, and its
/// caller guarantees the operands.
impl SimdOp for QkMatmul {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let QkMatmul { left, rows, keys, depth, columns, out } = self;
        let (height, width) = (S::TILE_ROWS, S::TILE_COLS);
        let (left, keys) = (left.cast::<f32>(), keys.cast::<f32>());
        let stride = lhs_row_stride::<S>(depth);
        let (a_row, a_step) = if let Some(stride) = stride { (stride, 1) } else { (depth, height) };
        // A panel of keys stays in the first-level cache while all queries, which fit there too, stream past it.
        for across in columns.from() / width..columns.to() / width {
            for down in 0..rows.div_ceil(height) {
                // SAFETY: the caller promises QUERY_BLOCK rows, in whole tiles, and KEY_BLOCK columns of `depth` steps,
                // in rows or panels that include these. It also promises a score block that contains the tile's rows
                // and columns.
                unsafe {
                    let tile_at = Tile {
                        depth,
                        a: left.add(down * height * a_row),
                        a_step,
                        b: keys.add(across * width * depth),
                        b_step: width,
                        c: out.add(down * height * SCORE_STRIDE + across * width),
                        c_stride: SCORE_STRIDE,
                        accumulate: false,
                    };
                    match stride {
                        Some(ATTENTION_ROW_STRIDE) => attention_tile(simd, tile_at),
                        Some(_) => gemm_row_tile(simd, tile_at, StorageDtype::F32),
                        None => tile(simd, tile_at),
                    }
                }
            }
        }
    }
}

/// [`Engine::pv_matmul`] on registers, with the same guarantees as [`QkMatmul`].
impl SimdOp for PvMatmul {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let PvMatmul { weights, rows, columns, values, panels, out, cols, accumulate } = self;
        let (height, width) = (S::TILE_ROWS, S::TILE_COLS);
        let (weights, values) = (weights.cast::<f32>(), values.cast::<f32>());
        for panel in panels.start * GRAIN / width..panels.end * GRAIN / width {
            for down in 0..rows.div_ceil(height) {
                // SAFETY: the caller promises a block of weights, rows of SCORE_STRIDE values; values in panels of
                // KEY_BLOCK rows that include the columns; and QUERY_BLOCK rows of sums that contain these panels'
                // columns.
                unsafe {
                    attention_tile(
                        simd,
                        Tile {
                            depth: columns.to() - columns.from(),
                            a: weights.add(down * height * SCORE_STRIDE + columns.from()),
                            a_step: 1,
                            b: values.add((panel * KEY_BLOCK + columns.from()) * width),
                            b_step: width,
                            c: out.add(down * height * cols + panel * width),
                            c_stride: cols,
                            accumulate,
                        },
                    );
                }
            }
        }
    }
}

/// [`Engine::matmul_at_b`] on registers, with the same guarantees as [`QkMatmul`].
impl SimdOp for MatmulAtB {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let MatmulAtB { gathered, cols, rows, weights, columns, out, accumulate } = self;
        let (height, width) = (S::TILE_ROWS, S::TILE_COLS);
        let (gathered, weights) = (gathered.cast::<f32>(), weights.cast::<f32>());
        let a_step = lhs_row_stride::<S>(cols).unwrap_or(padded_cols::<S>(cols));
        for down in 0..padded_cols::<S>(cols) / height {
            for across in columns.from() / width..columns.to() / width {
                // SAFETY: the caller promises `rows` rows of both operands, with the stride of packed LHS blocks or of
                // transposed ones, within which whole tiles of columns lie. TILE_ROWS is at most GRAIN, so the rows of
                // the last tile end within the GRAIN rows beyond `cols` that the caller promises for `out`.
                unsafe {
                    tile(
                        simd,
                        Tile {
                            depth: rows,
                            a: gathered.add(down * height),
                            a_step,
                            b: weights.add(across * width),
                            b_step: SCORE_STRIDE,
                            c: out.add(down * height * KEY_BLOCK + across * width),
                            c_stride: KEY_BLOCK,
                            accumulate,
                        },
                    );
                }
            }
        }
    }
}

/// Returns the columns of [`Engine::matmul_at_b`] rows, padded to whole tiles.
fn padded_cols<S: Simd>(cols: usize) -> usize {
    cols.next_multiple_of(S::TILE_ROWS)
}

/// Returns the stride at which rows of this depth are stored unpacked. It is one of the strides of the register tile,
/// such that whole tiles of columns end before the next row.
fn lhs_row_stride<S: Simd>(depth: usize) -> Option<usize> {
    [ATTENTION_ROW_STRIDE, GEMM_ROW_STRIDE].into_iter().find(|&stride| padded_cols::<S>(depth) <= stride)
}

/// Packs rows into panels of `height` rows, as `[column][row]`, `total` rows in all; missing rows are 0.
///
/// # Safety
/// `to` must be writable for `total` rows with the columns of `from`, and initialized.
#[inline(always)]
unsafe fn pack_panels<S: Simd>(simd: S, from: SourceMatrix<'_>, height: usize, total: usize, to: *mut f32) {
    /// Rows and columns that are transposed at a time.
    const SIDE: usize = 16;
    for panel in 0..total / height {
        // SAFETY: the caller promises `total` rows, which include the `height` rows of this panel.
        let out = unsafe { std::slice::from_raw_parts_mut(to.add(panel * height * from.cols()), height * from.cols()) };
        let first = from.rows().min(panel * height);
        let count = height.min(from.rows() - first);
        if count < height {
            out.fill(0.0);
        }
        // `rows_f32` checks that the elements are f32.
        let lines = from.row_range(first, count).rows_f32();
        let (squares, cols) = (count / SIDE * SIDE, from.cols() / SIDE * SIDE);
        for row in (0..squares).step_by(SIDE) {
            for col in (0..cols).step_by(SIDE) {
                // SAFETY: these rows and columns are inside of `from`, whose elements are f32, as was just checked. The
                // panel has a row of `height` values for each column, which includes `row` and the 15 after it.
                unsafe {
                    let from_square = from.element_ptr(first + row, col).cast();
                    simd.transpose(from_square, from.stride(), out.as_mut_ptr().add(col * height + row), height);
                }
            }
        }
        for (i, line) in lines.enumerate() {
            let done = if i < squares { cols } else { 0 };
            for (step, &x) in out.chunks_exact_mut(height).zip(line).skip(done) {
                step[i] = x;
            }
        }
    }
}
