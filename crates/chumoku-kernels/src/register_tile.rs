//! The register tile: the innermost loop of the matrix product, and of attention in vectors.
//!
//! The sums of a few rows and columns stay in registers while the depth streams past. Each step loads a row of the
//! second operand, and multiplies it by every value of the first operand's column, broadcast. The instruction set
//! determines the number of rows and vectors that fit ([`Simd::TILE_ROWS`], [`Simd::TILE_COLS`]). This file contains
//! the loop for all of them.

use crate::isa::{Simd, TileOp};
use crate::low_precision::StorageDtype;

/// One register tile: `C[i][j] (+)= Σ_p a[p·a_step + i·APART] · b[p·b_step + j]`. `APART` is a compile-time constant,
/// so that every address is a constant distance from one pointer. It is 1 in [`tile`], [`ATTENTION_ROW_STRIDE`] in
/// [`attention_tile`] and [`GEMM_ROW_STRIDE`] in [`gemm_row_tile`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    /// Number of products in each sum.
    pub(crate) depth: usize,
    /// First operand: `TILE_ROWS` values at each step.
    pub(crate) a: *const f32,
    /// Stride of the steps of `a`.
    pub(crate) a_step: usize,
    /// Second operand: `TILE_COLS` values at each step, of type f32 unless a dtype is given.
    pub(crate) b: *const f32,
    /// Stride of the steps of `b`.
    pub(crate) b_step: usize,
    /// The result: `TILE_ROWS` rows of `TILE_COLS`.
    pub(crate) c: *mut f32,
    /// Stride of the rows of `c`.
    pub(crate) c_stride: usize,
    /// True if products are added to `c` instead of overwriting it.
    pub(crate) accumulate: bool,
}

/// [`StorageDtype`] as a const generic argument.
const F32: u8 = StorageDtype::F32 as u8;
const BF16: u8 = StorageDtype::Bf16 as u8;
const F16: u8 = StorageDtype::F16 as u8;

/// Row stride of `a` in [`attention_tile`]: that of the score blocks of attention.
pub(crate) const ATTENTION_ROW_STRIDE: usize = 144;

/// Row stride of `a` in [`gemm_row_tile`]: that of copied rows of a product, one depth block at a time.
pub(crate) const GEMM_ROW_STRIDE: usize = 272;

/// Computes a tile in which the values of `a` are contiguous at each step.
///
/// # Safety
/// * `a` must be readable for `depth` steps of `TILE_ROWS` values, `a_step` apart.
/// * `b` must be readable for `depth` steps of `TILE_COLS` values, `b_step` apart.
/// * `c` must be writable for `TILE_ROWS` rows of `TILE_COLS` values, `c_stride` apart, initialized if it is added to,
///   and overlap neither `a` nor `b`.
#[inline(always)]
pub(crate) unsafe fn tile<S: Simd>(simd: S, tile: Tile) {
    simd.on_tile(StridedTile::<1, F32>(tile));
}

/// Computes a tile like [`tile`], with `b` in the given dtype. With `is_row` it computes only the first row, with the
/// same sums.
///
/// # Safety
/// Same as for [`tile`], except that `b` must be readable for values of the given dtype. With `is_row`, `a` needs only
/// one value at each step and `c` only one row.
#[inline(always)]
pub(crate) unsafe fn packed_tile<S: Simd>(simd: S, tile: Tile, form: StorageDtype, is_row: bool) {
    match (form, is_row) {
        (StorageDtype::F32, false) => simd.on_tile(StridedTile::<1, F32>(tile)),
        (StorageDtype::Bf16, false) => simd.on_tile(StridedTile::<1, BF16>(tile)),
        (StorageDtype::F16, false) => simd.on_tile(StridedTile::<1, F16>(tile)),
        (StorageDtype::F32, true) => simd.on_tile(FirstRowTile::<F32>(tile)),
        (StorageDtype::Bf16, true) => simd.on_tile(FirstRowTile::<BF16>(tile)),
        (StorageDtype::F16, true) => simd.on_tile(FirstRowTile::<F16>(tile)),
    }
}

/// Computes a tile like [`packed_tile`], with the values of `a` [`GEMM_ROW_STRIDE`] apart at each step.
///
/// # Safety
/// Same as for [`packed_tile`], except that `a` must be readable for `depth` steps of `TILE_ROWS` values that are
/// [`GEMM_ROW_STRIDE`] apart.
#[inline(always)]
pub(crate) unsafe fn gemm_row_tile<S: Simd>(simd: S, tile: Tile, form: StorageDtype) {
    match form {
        StorageDtype::F32 => simd.on_tile(StridedTile::<GEMM_ROW_STRIDE, F32>(tile)),
        StorageDtype::Bf16 => simd.on_tile(StridedTile::<GEMM_ROW_STRIDE, BF16>(tile)),
        StorageDtype::F16 => simd.on_tile(StridedTile::<GEMM_ROW_STRIDE, F16>(tile)),
    }
}

/// Computes a tile in which the values of `a` are [`ATTENTION_ROW_STRIDE`] apart at each step.
///
/// # Safety
/// Same as for [`tile`], except that `a` must be readable for `depth` steps of `TILE_ROWS` values that are
/// [`ATTENTION_ROW_STRIDE`] apart.
#[inline(always)]
pub(crate) unsafe fn attention_tile<S: Simd>(simd: S, tile: Tile) {
    simd.on_tile(StridedTile::<ATTENTION_ROW_STRIDE, F32>(tile));
}

/// A tile whose rows of `a` are `APART` apart, and whose `b` has dtype `FORM`. Only [`tile`], [`packed_tile`],
/// [`gemm_row_tile`] and [`attention_tile`] construct it, and their callers guarantee the operands.
struct StridedTile<const APART: usize, const FORM: u8>(Tile);

/// The first row of such a tile.
struct FirstRowTile<const FORM: u8>(Tile);

impl<const FORM: u8> TileOp for FirstRowTile<FORM> {
    #[inline(always)]
    fn eval<S: Simd, const ROWS: usize, const VECTORS: usize>(self, simd: S) {
        StridedTile::<1, FORM>(self.0).eval::<S, 1, VECTORS>(simd);
    }
}

/// Loads a vector of values of a dtype from `b`.
///
/// # Safety
/// `b` must be valid for reading `LANES` values.
#[inline(always)]
unsafe fn load_vector<S: Simd, const FORM: u8>(simd: S, b: *const u8) -> S::V {
    // SAFETY: as the caller promises.
    unsafe {
        match FORM {
            BF16 => simd.load_bf16(b.cast()),
            F16 => simd.load_f16(b.cast()),
            _ => simd.load_ptr(b.cast()),
        }
    }
}

impl<const APART: usize, const FORM: u8> TileOp for StridedTile<APART, FORM> {
    #[inline(always)]
    fn eval<S: Simd, const ROWS: usize, const VECTORS: usize>(self, simd: S) {
        let StridedTile(Tile { depth, mut a, a_step, b, b_step, c, c_stride, accumulate }) = self;
        let (mut b, size) = (b.cast::<u8>(), if FORM == F32 { 4 } else { 2 });
        let mut sums = [[simd.splat(0.0); VECTORS]; ROWS];
        for _ in 0..depth {
            // SAFETY: the caller promised `depth` steps, and this is one of them: ROWS values of `a`, APART apart, and
            // VECTORS vectors of `b`. The token guarantees that VECTORS is TILE_COLS / LANES, and that ROWS is
            // TILE_ROWS, or 1 for the first row.
            unsafe {
                let mut columns = [simd.splat(0.0); VECTORS];
                for (v, column) in columns.iter_mut().enumerate() {
                    *column = load_vector::<S, FORM>(simd, b.add(v * S::LANES * size));
                }
                for (i, row) in sums.iter_mut().enumerate() {
                    let factor = simd.splat(*a.add(i * APART));
                    for (sum, &column) in row.iter_mut().zip(&columns) {
                        *sum = simd.mul_add(factor, column, *sum);
                    }
                }
            }
            // Not `add`: after the last step the pointers may be beyond one past the end.
            a = a.wrapping_add(a_step);
            b = b.wrapping_add(b_step * size);
        }
        for (i, row) in sums.iter().enumerate() {
            for (v, &sum) in row.iter().enumerate() {
                // SAFETY: the caller promised `c` for ROWS rows of VECTORS vectors, initialized if it is added to.
                unsafe {
                    let c = c.add(i * c_stride + v * S::LANES);
                    simd.store_ptr(c, if accumulate { simd.add(simd.load_ptr(c), sum) } else { sum });
                }
            }
        }
    }
}
