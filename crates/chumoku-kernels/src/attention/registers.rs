//! The engine of vector registers: products of f32.

use super::engine::{BlockTask, Columns, Engine, EngineOp, GRAIN, KEYS, Matrix, STRIDE};
use crate::isa::{Op, Simd};
use crate::narrow::Form;
use crate::register_tile::{ACROSS, ROW, Tile, row_tile, tile, tile_across};
use std::ops::Range;

/// A task on f32 registers, as an operation of vectors.
pub(crate) struct OnRegisters<T>(pub(crate) T);

impl<T: EngineOp> Op for OnRegisters<T> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        self.0.eval(Registers(simd));
    }
}

/// A task on a block, as an operation of vectors.
struct OnBlock<S, T>(Registers<S>, T);

impl<S: Simd, T: BlockTask<Registers<S>>> Op for OnBlock<S, T> {
    type Output = ();
    #[inline(always)]
    fn eval<S2: Simd>(self, _: S2) {
        // Of the same instruction set: [`Registers::run`] alone makes it.
        self.1.eval(self.0);
    }
}

/// Products of f32 in vector registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers<S>(pub(super) S);

/// Bytes of a number.
const F32: usize = size_of::<f32>();

// SAFETY: sizes count whole panels of TILE_ROWS or TILE_COLS numbers, which is what is written and read. Each is a multiple
// of 16 numbers, since QUERIES, KEYS, GROUP and STRIDE are. Weights lie as scores do.
unsafe impl<S: Simd> Engine for Registers<S> {
    type S = S;
    const QUERIES: usize = 48;
    const TERMS: usize = 0;
    const DEGREE: usize = 6;
    const PACKS_WEIGHTS: bool = false;
    const GROUP: usize = 96;
    const GATHERED: usize = 2;
    const READS_BF16: bool = false;
    const OVERLAPS: bool = false;
    // Its tiles add up in registers anyway.
    const SUMS_APART: bool = false;

    #[inline(always)]
    fn simd(self) -> S {
        self.0
    }

    #[inline(always)]
    fn run<T: BlockTask<Self>>(self, task: T) {
        self.0.run(OnBlock(self, task));
    }

    fn left_size(depth: usize) -> usize {
        Self::QUERIES * row_stride::<S>(depth).unwrap_or(depth) * F32
    }
    fn gathers_left(depth: usize) -> bool {
        row_stride::<S>(depth).is_some()
    }
    fn right_transposed_size(depth: usize) -> usize {
        KEYS * depth * F32
    }
    fn right_size(cols: usize) -> usize {
        cols.next_multiple_of(GRAIN) * KEYS * F32
    }

    /// Rows as they are, a constant distance apart; panels of `TILE_ROWS` rows, as `[column][row]`, where they are too long.
    #[inline(always)]
    unsafe fn pack_left(self, from: Matrix<'_>, to: *mut u8) {
        let Some(stride) = row_stride::<S>(from.cols()) else {
            // SAFETY: QUERIES is a whole number of panels, and the caller promises left_size, which is QUERIES rows of numbers.
            return unsafe { pack_across(self.0, from, S::TILE_ROWS, Self::QUERIES, to.cast()) };
        };
        // Whole tiles are multiplied.
        let rows = from.rows().next_multiple_of(S::TILE_ROWS).min(Self::QUERIES);
        // SAFETY: the caller promises left_size, which is QUERIES rows of `stride` numbers. Working memory holds numbers.
        let out = unsafe { std::slice::from_raw_parts_mut(to.cast::<f32>(), rows * stride) };
        let mut lines = from.lines();
        for out in out.chunks_exact_mut(stride) {
            match lines.next() {
                Some(line) => out[..line.len()].copy_from_slice(line),
                None => out[..from.cols()].fill(0.0),
            }
        }
    }

    /// Panels of `TILE_COLS` keys, as `[column][key]`.
    #[inline(always)]
    unsafe fn pack_right_transposed(self, from: Matrix<'_>, to: *mut u8) {
        // SAFETY: GRAIN is a whole number of panels, and the caller promises right_transposed_size for at most KEYS rows,
        // which KEYS rows of numbers are.
        unsafe { pack_across(self.0, from, S::TILE_COLS, from.rows().next_multiple_of(GRAIN), to.cast()) };
    }

    /// Panels of `TILE_COLS` columns, as `[row][column]`, each of [`KEYS`] rows.
    #[inline(always)]
    unsafe fn pack_right(self, from: Matrix<'_>, to: *mut u8) {
        let width = S::TILE_COLS;
        let rows = from.rows().next_multiple_of(GRAIN);
        for panel in 0..from.cols().next_multiple_of(GRAIN) / width {
            // SAFETY: the caller promises right_size, which counts KEYS rows for every panel, and at most KEYS rows. Working
            // memory holds numbers.
            let out = unsafe {
                let start = to.cast::<f32>().add(panel * KEYS * width);
                std::slice::from_raw_parts_mut(start, rows * width)
            };
            let first = panel * width;
            let count = from.cols().saturating_sub(first).min(width);
            let mut lines = from.lines();
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
    unsafe fn scores(
        self,
        left: *const u8,
        rows: usize,
        keys: *const u8,
        depth: usize,
        columns: Columns,
        out: *mut f32,
    ) {
        self.0.run(Scores { left, rows, keys, depth, columns, out });
    }

    #[inline(always)]
    unsafe fn put(self, weights: *mut u8, row: usize, col: usize, pair: [S::V; 2]) {
        // SAFETY: the caller promises a block of rows of STRIDE numbers, a row of it, and a pair of vectors inside of KEYS
        // columns, which are fewer.
        unsafe {
            let at = weights.cast::<f32>().add(row * STRIDE + col);
            self.0.store_ptr(at, pair[0]);
            self.0.store_ptr(at.add(S::LANES), pair[1]);
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
        self.0.run(Weigh { weights, rows, columns, values, panels, out, cols, accumulate });
    }

    fn gathered_size(cols: usize) -> usize {
        Self::GROUP * gathered_cols::<S>(cols) * F32
    }
    fn group_size() -> usize {
        Self::GROUP * STRIDE * F32
    }

    /// `[row][column]`, which a tile reads down its columns.
    #[inline(always)]
    unsafe fn pack_gathered(self, from: Matrix<'_>, to: *mut u8) {
        let cols = gathered_cols::<S>(from.cols());
        let rows = from.rows().next_multiple_of(Self::GATHERED);
        // SAFETY: the caller promises gathered_size, GROUP rows of so many columns, and at most GROUP rows, of which GATHERED
        // is a divisor. Working memory holds numbers.
        let out = unsafe { std::slice::from_raw_parts_mut(to.cast::<f32>(), rows * cols) };
        let mut lines = from.lines();
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
    unsafe fn put_pair(self, weights: *mut u8, row: usize, col: usize, pairs: [[S::V; 2]; 2]) {
        for (i, pair) in pairs.into_iter().enumerate() {
            // SAFETY: the caller promises GROUP rows of STRIDE numbers, of which `row`, even and so not the last, is one.
            unsafe { self.put(weights, row + i, col, pair) };
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
        self.0.run(Gather { gathered, cols, rows, weights, columns, out, accumulate });
    }
}

/// [`Engine::scores`] of registers, which alone makes it and has been promised the operands: a function of its own for all passes.
struct Scores {
    left: *const u8,
    rows: usize,
    keys: *const u8,
    depth: usize,
    columns: Columns,
    out: *mut f32,
}

impl Op for Scores {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let Scores { left, rows, keys, depth, columns, out } = self;
        let (height, width) = (S::TILE_ROWS, S::TILE_COLS);
        let (left, keys) = (left.cast::<f32>(), keys.cast::<f32>());
        let stride = row_stride::<S>(depth);
        let (a_row, a_step) = if let Some(stride) = stride { (stride, 1) } else { (depth, height) };
        // A panel of keys stays in the first cache while all queries, which fit beside it, pass.
        for across in columns.from() / width..columns.to() / width {
            for down in 0..rows.div_ceil(height) {
                // SAFETY: the caller promises QUERIES rows, whole tiles of them, and KEYS columns of `depth` steps, in rows or
                // panels of which these are some, and a block of scores, in which the tile's rows and columns lie.
                unsafe {
                    let tile_at = Tile {
                        depth,
                        a: left.add(down * height * a_row),
                        a_step,
                        b: keys.add(across * width * depth),
                        b_step: width,
                        c: out.add(down * height * STRIDE + across * width),
                        c_stride: STRIDE,
                        accumulate: false,
                    };
                    match stride {
                        Some(ACROSS) => tile_across(simd, tile_at),
                        Some(_) => row_tile(simd, tile_at, Form::F32),
                        None => tile(simd, tile_at),
                    }
                }
            }
        }
    }
}

/// [`Engine::weigh`], likewise.
struct Weigh {
    weights: *const u8,
    rows: usize,
    columns: Columns,
    values: *const u8,
    panels: Range<usize>,
    out: *mut f32,
    cols: usize,
    accumulate: bool,
}

impl Op for Weigh {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let Weigh { weights, rows, columns, values, panels, out, cols, accumulate } = self;
        let (height, width) = (S::TILE_ROWS, S::TILE_COLS);
        let (weights, values) = (weights.cast::<f32>(), values.cast::<f32>());
        for panel in panels.start * GRAIN / width..panels.end * GRAIN / width {
            for down in 0..rows.div_ceil(height) {
                // SAFETY: the caller promises a block of weights, rows of STRIDE numbers; values in panels of KEYS rows, of
                // which the columns leave some; and QUERIES rows of sums, in which these panels' columns lie.
                unsafe {
                    tile_across(
                        simd,
                        Tile {
                            depth: columns.to() - columns.from(),
                            a: weights.add(down * height * STRIDE + columns.from()),
                            a_step: 1,
                            b: values.add((panel * KEYS + columns.from()) * width),
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

/// [`Engine::gather`], likewise.
struct Gather {
    gathered: *const u8,
    cols: usize,
    rows: usize,
    weights: *const u8,
    columns: Columns,
    out: *mut f32,
    accumulate: bool,
}

impl Op for Gather {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let Gather { gathered, cols, rows, weights, columns, out, accumulate } = self;
        let (height, width) = (S::TILE_ROWS, S::TILE_COLS);
        let (gathered, weights) = (gathered.cast::<f32>(), weights.cast::<f32>());
        let a_step = row_stride::<S>(cols).unwrap_or(gathered_cols::<S>(cols));
        for down in 0..gathered_cols::<S>(cols) / height {
            for across in columns.from() / width..columns.to() / width {
                // SAFETY: the caller promises `rows` rows of both operands, at the distance of left operands or of gathered rows,
                // within which whole tiles of columns lie. TILE_ROWS is at most GRAIN, so that the last
                // tile's rows end within the GRAIN rows beyond `cols` that it promises of `out`.
                unsafe {
                    tile(
                        simd,
                        Tile {
                            depth: rows,
                            a: gathered.add(down * height),
                            a_step,
                            b: weights.add(across * width),
                            b_step: STRIDE,
                            c: out.add(down * height * KEYS + across * width),
                            c_stride: KEYS,
                            accumulate,
                        },
                    );
                }
            }
        }
    }
}

/// Columns of the rows that [`Registers`] gathers: whole tiles.
fn gathered_cols<S: Simd>(cols: usize) -> usize {
    cols.next_multiple_of(S::TILE_ROWS)
}

/// The distance at which rows of this depth are kept as they are: one of those that the register tile knows, such that
/// whole tiles of their columns end before the next row.
fn row_stride<S: Simd>(depth: usize) -> Option<usize> {
    [ACROSS, ROW].into_iter().find(|&stride| gathered_cols::<S>(depth) <= stride)
}

/// Packs rows into panels of `height` of them, as `[column][row]`, `total` rows in all; missing rows are 0.
///
/// # Safety
/// `to` must be writable for `total` rows of as many numbers as `from` has columns, and hold numbers.
#[inline(always)]
unsafe fn pack_across<S: Simd>(simd: S, from: Matrix<'_>, height: usize, total: usize, to: *mut f32) {
    /// Rows and columns that are transposed at a time.
    const SIDE: usize = 16;
    for panel in 0..total / height {
        // SAFETY: the caller promises `total` rows, of which this panel is `height`.
        let out = unsafe { std::slice::from_raw_parts_mut(to.add(panel * height * from.cols()), height * from.cols()) };
        let first = from.rows().min(panel * height);
        let count = height.min(from.rows() - first);
        if count < height {
            out.fill(0.0);
        }
        // Which finds that the elements are f32.
        let lines = from.part(first, count).lines();
        let (squares, cols) = (count / SIDE * SIDE, from.cols() / SIDE * SIDE);
        for row in (0..squares).step_by(SIDE) {
            for col in (0..cols).step_by(SIDE) {
                // SAFETY: these rows and columns are inside of `from`, whose elements are f32, as was just found. The panel
                // has a line of `height` numbers for each column, of which `row` and the 15 after it are some.
                unsafe {
                    let from_square = from.at(first + row, col).cast();
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
