//! The register tile: the innermost loop of the matrix product, and of attention where it runs in vectors.
//!
//! Sums of a few rows and columns stay in registers while the depth streams by: each step loads a row of the second
//! operand, and multiplies it with every number of the first's column, broadcast. How many rows and vectors fit is the
//! instruction set's to say ([`Simd::TILE_ROWS`], [`Simd::TILE_COLS`]); what is done with them stands here once.

use crate::isa::{Simd, TileOp};
use crate::low_precision::StorageDtype;

/// One register tile: `C[i][j] (+)= Σ_p a[p·a_step + i·APART] · b[p·b_step + j]`. `APART` is fixed when compiling, so that every
/// address is a constant away from one pointer: 1 in [`tile`], [`ACROSS`] in [`tile_across`], [`ROW`] in [`row_tile`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    /// Number of products in each sum.
    pub(crate) depth: usize,
    /// First operand: `TILE_ROWS` numbers at each step.
    pub(crate) a: *const f32,
    /// Distance of the steps of `a`.
    pub(crate) a_step: usize,
    /// Second operand: `TILE_COLS` numbers at each step, f32 unless a form is named.
    pub(crate) b: *const f32,
    /// Distance of the steps of `b`.
    pub(crate) b_step: usize,
    /// The result: `TILE_ROWS` rows of `TILE_COLS`.
    pub(crate) c: *mut f32,
    /// Distance of the rows of `c`.
    pub(crate) c_stride: usize,
    /// Whether `c` is added to rather than overwritten.
    pub(crate) accumulate: bool,
}

/// [`Form`] as a constant of what is compiled.
const F32: u8 = StorageDtype::F32 as u8;
const BF16: u8 = StorageDtype::Bf16 as u8;
const F16: u8 = StorageDtype::F16 as u8;

/// Distance of the rows of `a` in [`tile_across`]: that of the blocks of attention.
pub(crate) const ATTENTION_ROW_STRIDE: usize = 144;

/// Distance of the rows of `a` in [`row_tile`]: that of a product's rows, copied a depth block at a time.
pub(crate) const GEMM_ROW_STRIDE: usize = 272;

/// Computes a tile whose numbers of `a` lie side by side at each step.
///
/// # Safety
/// * `a` must be readable for `depth` steps of `TILE_ROWS` numbers, `a_step` apart.
/// * `b` must be readable for `depth` steps of `TILE_COLS` numbers, `b_step` apart.
/// * `c` must be writable for `TILE_ROWS` rows of `TILE_COLS` numbers, `c_stride` apart, hold numbers if it is added to, and
///   overlap neither `a` nor `b`.
#[inline(always)]
pub(crate) unsafe fn tile<S: Simd>(simd: S, tile: Tile) {
    simd.on_tile(StridedTile::<1, F32>(tile));
}

/// As [`tile`], where `b` holds numbers of a form; with `is_row`, of the first row alone. Its sums are the same.
///
/// # Safety
/// As for [`tile`], where `b` must be readable for so many numbers of the form, and, with `is_row`, `a` for one number at each
/// step and `c` for one row.
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

/// As [`packed_tile`], where the numbers of `a` lie [`ROW`] apart at each step.
///
/// # Safety
/// As for [`packed_tile`], but for `a`, which must be readable for `depth` steps of `TILE_ROWS` numbers that lie [`ROW`] apart.
#[inline(always)]
pub(crate) unsafe fn gemm_row_tile<S: Simd>(simd: S, tile: Tile, form: StorageDtype) {
    match form {
        StorageDtype::F32 => simd.on_tile(StridedTile::<GEMM_ROW_STRIDE, F32>(tile)),
        StorageDtype::Bf16 => simd.on_tile(StridedTile::<GEMM_ROW_STRIDE, BF16>(tile)),
        StorageDtype::F16 => simd.on_tile(StridedTile::<GEMM_ROW_STRIDE, F16>(tile)),
    }
}

/// Computes a tile whose numbers of `a` lie [`ACROSS`] apart at each step.
///
/// # Safety
/// As for [`tile`], but for `a`, which must be readable for `depth` steps of `TILE_ROWS` numbers that lie [`ACROSS`] apart.
#[inline(always)]
pub(crate) unsafe fn attention_tile<S: Simd>(simd: S, tile: Tile) {
    simd.on_tile(StridedTile::<ATTENTION_ROW_STRIDE, F32>(tile));
}

/// A tile whose rows of `a` lie `APART` apart, and whose `b` has a form. [`tile`], [`packed_tile`], [`row_tile`] and [`tile_across`] make it,
/// whose callers promise its operands.
struct StridedTile<const APART: usize, const FORM: u8>(Tile);

/// The first row of such a tile.
struct FirstRowTile<const FORM: u8>(Tile);

impl<const FORM: u8> TileOp for FirstRowTile<FORM> {
    #[inline(always)]
    fn eval<S: Simd, const ROWS: usize, const VECTORS: usize>(self, simd: S) {
        StridedTile::<1, FORM>(self.0).eval::<S, 1, VECTORS>(simd);
    }
}

/// The vector of numbers of a form from `b` on.
///
/// # Safety
/// `b` must be valid for reading `LANES` of them.
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
            // SAFETY: this is one of the `depth` steps that were promised: ROWS numbers of `a`, APART apart, and VECTORS
            // vectors of `b`. The token says that VECTORS is TILE_COLS / LANES, and ROWS is TILE_ROWS, or 1 of a first row.
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
            // Not `add`: after the last step the pointers may lie beyond one past the end.
            a = a.wrapping_add(a_step);
            b = b.wrapping_add(b_step * size);
        }
        for (i, row) in sums.iter().enumerate() {
            for (v, &sum) in row.iter().enumerate() {
                // SAFETY: `c` was promised for ROWS rows of VECTORS vectors, with numbers where it is added to.
                unsafe {
                    let c = c.add(i * c_stride + v * S::LANES);
                    simd.store_ptr(c, if accumulate { simd.add(simd.load_ptr(c), sum) } else { sum });
                }
            }
        }
    }
}
