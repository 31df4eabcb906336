//! Decoding products in vector registers.

use crate::attention::engine::{KEY_BLOCK, SCORE_STRIDE};
use crate::isa::{Simd, SimdOp, prefetch};
use crate::low_precision::{DtypeSlice, F32Compute};
use std::marker::PhantomData;
use std::ops::Range;

/// Returns whether sixteen sums and their factors fit the registers, as many as a register tile has. Otherwise eight
/// fit.
pub(super) const fn fits_16_sums<S: Simd>() -> bool {
    S::TILE_ROWS * S::TILE_COLS / S::LANES >= 16
}

/// Rows of keys or values in a slice: row `j` holds `width` values from `first + j · stride`.
#[derive(Clone, Debug)]
pub(super) struct KeyValueRows {
    pub(super) first: usize,
    pub(super) stride: usize,
    pub(super) width: usize,
    /// The rows to read.
    pub(super) range: Range<usize>,
}

impl KeyValueRows {
    /// Returns pointers to the rows to read in `data`.
    ///
    /// # Panics
    /// If the rows are outside of `data`.
    #[inline(always)]
    fn pointers<'a, T>(&self, data: &'a [T]) -> RowPointers<'a, T> {
        let &KeyValueRows { first, stride, width, ref range } = self;
        assert!(range.is_empty() || first + (range.end - 1) * stride + width <= data.len());
        RowPointers { start: data.as_ptr().wrapping_add(first), stride, marker: PhantomData }
    }
}

/// Pointers to rows of a slice. The rows in the range may be read.
#[derive(Clone, Copy)]
struct RowPointers<'a, T> {
    start: *const T,
    stride: usize,
    marker: PhantomData<&'a [T]>,
}

impl<T> RowPointers<'_, T> {
    /// Returns the start of row `j`.
    #[inline(always)]
    fn row_ptr(self, j: usize) -> *const T {
        self.start.wrapping_add(j.wrapping_mul(self.stride))
    }
}

/// Rows to prefetch while other rows are multiplied. Prefetching a whole block at once would stall the products. Sizes
/// are in bytes.
#[derive(Clone, Copy)]
pub(super) struct Prefetch {
    start: *const u8,
    stride: usize,
    width: usize,
    /// True if the rows are prefetched at all.
    is_enabled: bool,
}

impl Prefetch {
    /// The rows from `skip` on, which need not exist.
    pub(super) fn new(numbers: DtypeSlice<'_>, rows: &KeyValueRows, skip: usize, is_far: bool) -> Self {
        let start: *const u8 = match numbers {
            DtypeSlice::F32(data) => data.as_ptr().cast(),
            DtypeSlice::Bf16(data) => data.as_ptr().cast(),
            DtypeSlice::F16(data) => data.as_ptr().cast(),
        };
        let size = numbers.size();
        // The stride of a single row may be arbitrary.
        let stride = rows.stride.wrapping_mul(size);
        let start = start.wrapping_add((rows.first * size).wrapping_add(stride.wrapping_mul(skip)));
        Prefetch { start, stride, width: rows.width * size, is_enabled: is_far }
    }

    /// Prefetches the cache lines of the rows.
    #[inline(always)]
    fn fetch(&self, rows: Range<usize>) {
        if self.is_enabled {
            for j in rows {
                for at in (0..self.width).step_by(64) {
                    prefetch(self.start.wrapping_add(j.wrapping_mul(self.stride).wrapping_add(at)));
                }
            }
        }
    }
}

/// Products of `group` queries with the keys of `rows`: scores in rows of [`SCORE_STRIDE`].
pub(super) struct QkVectors<'a, T> {
    /// (group, width), padded to whole vectors of 16.
    pub(super) queries: &'a [f32],
    pub(super) group: usize,
    pub(super) data: &'a [T],
    pub(super) rows: KeyValueRows,
    pub(super) scores: &'a mut [f32],
    /// Rows that the first queries prefetch.
    pub(super) prefetch: Prefetch,
}

impl<T: F32Compute> SimdOp for QkVectors<'_, T> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let QkVectors { queries, group, data, rows, scores, prefetch: mut ahead } = self;
        let (keys, dim) = (rows.pointers(data), rows.width);
        let width = dim.next_multiple_of(16);
        let mut i = 0;
        while i < group {
            let (queries, scores) = (&queries[i * width..], &mut scores[i * SCORE_STRIDE..]);
            // SAFETY: `pointers` has checked that the rows of the range are inside of `data`.
            i += unsafe {
                let range = rows.range.clone();
                match (group - i, const { fits_16_sums::<S>() }) {
                    (1, true) => qk_dots::<T, S, 1, 16, 16>(simd, queries, dim, keys, range, scores, ahead),
                    (1, false) => qk_dots::<T, S, 1, 16, 8>(simd, queries, dim, keys, range, scores, ahead),
                    (2 | 3, true) => qk_dots::<T, S, 2, 8, 8>(simd, queries, dim, keys, range, scores, ahead),
                    (2 | 3, false) => qk_dots::<T, S, 2, 8, 4>(simd, queries, dim, keys, range, scores, ahead),
                    (_, true) => qk_dots::<T, S, 4, 4, 4>(simd, queries, dim, keys, range, scores, ahead),
                    (_, false) => qk_dots::<T, S, 4, 4, 2>(simd, queries, dim, keys, range, scores, ahead),
                }
            };
            ahead.is_enabled = false;
        }
    }
}

/// Adds the weighted values of `rows`, at most [`KEY_BLOCK`], to the sums of `group` queries.
pub(super) struct PvVectors<'a, T> {
    /// Rows of [`SCORE_STRIDE`].
    pub(super) weights: &'a [f32],
    pub(super) group: usize,
    pub(super) data: &'a [T],
    pub(super) rows: KeyValueRows,
    /// (group, width)
    pub(super) sums: &'a mut [f32],
    /// Rows that the first queries prefetch.
    pub(super) prefetch: Prefetch,
}

impl<T: F32Compute> SimdOp for PvVectors<'_, T> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let PvVectors { weights, group, data, rows, sums, prefetch: mut ahead } = self;
        let (values, dim) = (rows.pointers(data), rows.width);
        assert!(rows.range.end <= KEY_BLOCK);
        let mut i = 0;
        while i < group {
            let (weights, sums) = (&weights[i * SCORE_STRIDE..], (&mut sums[i * dim..], dim));
            // SAFETY: `pointers` has checked that the rows of the range are inside of `data`, and there are at most
            // KEY_BLOCK.
            i += unsafe {
                let range = rows.range.clone();
                match group - i {
                    1 => pv_accumulate::<T, S, 1>(simd, weights, values, range, sums, ahead),
                    2 | 3 => pv_accumulate::<T, S, 2>(simd, weights, values, range, sums, ahead),
                    _ => pv_accumulate::<T, S, 4>(simd, weights, values, range, sums, ahead),
                }
            };
            ahead.is_enabled = false;
        }
    }
}

/// Loads the first `count` values of a vector from `from`; the other lanes are 0.
///
/// # Safety
/// `from` must be valid for reading `count` values, or a full vector if `count` is larger.
#[inline(always)]
unsafe fn load<T: F32Compute, S: Simd>(simd: S, from: *const T, count: usize) -> S::V {
    if count >= S::LANES {
        // SAFETY: the caller promises at least a full vector, because `count` is at least LANES.
        return unsafe { T::load(simd, from) };
    }
    let mut numbers = [0.0; 16];
    // SAFETY: the caller promises `count` values, fewer than a vector.
    T::widen(unsafe { std::slice::from_raw_parts(from, count) }, &mut numbers[..count]);
    simd.load(&numbers)
}

/// Computes the products of `QUERIES` queries with the keys of `range`, `KEYS_AT_ONCE` at a time. The sums of
/// `IN_REGISTERS` keys are kept in registers together. Returns `QUERIES`.
///
/// # Safety
/// The rows of `keys` in `range` must be readable for `dim` values.
#[inline(always)]
unsafe fn qk_dots<
    T: F32Compute,
    S: Simd,
    const QUERIES: usize,
    const KEYS_AT_ONCE: usize,
    const IN_REGISTERS: usize,
>(
    simd: S,
    queries: &[f32],
    dim: usize,
    keys: RowPointers<'_, T>,
    range: Range<usize>,
    scores: &mut [f32],
    ahead: Prefetch,
) -> usize {
    let width = dim.next_multiple_of(16);
    let queries = &queries[..QUERIES * width];
    for first in range.clone().step_by(KEYS_AT_ONCE) {
        // The last key is repeated to fill the group.
        let rows: [*const T; KEYS_AT_ONCE] = std::array::from_fn(|j| keys.row_ptr((first + j).min(range.end - 1)));
        ahead.fetch(first..first + KEYS_AT_ONCE);
        let mut all = [simd.splat(0.0); 16];
        for (part, rows) in rows.as_chunks::<IN_REGISTERS>().0.iter().enumerate() {
            let mut products = [[simd.splat(0.0); IN_REGISTERS]; QUERIES];
            let whole = dim - dim % S::LANES;
            for col in (0..whole).step_by(S::LANES) {
                // SAFETY: the caller promises rows of `dim` values, and a full vector remains. The queries have the
                // same width, padded to whole vectors.
                unsafe { add_products(simd, rows, (queries, width), col, S::LANES, &mut products) };
            }
            if whole < dim {
                // SAFETY: as above, with `dim − whole` values left.
                unsafe { add_products(simd, rows, (queries, width), whole, dim - whole, &mut products) };
            }
            for (i, products) in products.iter().enumerate() {
                all[i * KEYS_AT_ONCE + part * IN_REGISTERS..][..IN_REGISTERS].copy_from_slice(products);
            }
        }
        let sums = simd.sums(&all);
        let count = KEYS_AT_ONCE.min(range.end - first);
        for (i, sums) in sums.chunks_exact(KEYS_AT_ONCE).enumerate().take(QUERIES) {
            scores[i * SCORE_STRIDE + first..][..count].copy_from_slice(&sums[..count]);
        }
    }
    QUERIES
}

/// Adds the products of one vector of columns from `col`, in which the keys have `count` values.
///
/// # Safety
/// `rows` must be readable for `count` values from `col`, and `QUERIES` rows of `queries`, `width` apart, for a vector.
#[inline(always)]
unsafe fn add_products<T: F32Compute, S: Simd, const QUERIES: usize, const IN_REGISTERS: usize>(
    simd: S,
    rows: &[*const T; IN_REGISTERS],
    (queries, width): (&[f32], usize),
    col: usize,
    count: usize,
    products: &mut [[S::V; IN_REGISTERS]; QUERIES],
) {
    let mut keys = [simd.splat(0.0); IN_REGISTERS];
    // SAFETY: as the caller promises.
    unsafe {
        for (key, row) in keys.iter_mut().zip(rows) {
            *key = load(simd, row.add(col), count);
        }
        for (i, products) in products.iter_mut().enumerate() {
            let query = simd.load_ptr(queries.as_ptr().add(i * width + col));
            for (product, key) in products.iter_mut().zip(keys) {
                *product = simd.mul_add(query, key, *product);
            }
        }
    }
}

/// Adds the weighted values of the keys of `range` to the sums of `QUERIES` queries. Returns `QUERIES`.
///
/// # Safety
/// The rows of `values` in `range` must be readable for `dim` values, and below [`KEY_BLOCK`].
#[inline(always)]
unsafe fn pv_accumulate<T: F32Compute, S: Simd, const QUERIES: usize>(
    simd: S,
    weights: &[f32],
    values: RowPointers<'_, T>,
    range: Range<usize>,
    (sums, dim): (&mut [f32], usize),
    ahead: Prefetch,
) -> usize {
    let weights = &weights[..(QUERIES - 1) * SCORE_STRIDE + KEY_BLOCK];
    // Few enough keys that their rows are still in the first-level cache for the next columns.
    const AT_ONCE: usize = 32;
    for first in range.clone().step_by(AT_ONCE) {
        let keys = first..range.end.min(first + AT_ONCE);
        ahead.fetch(first..first + AT_ONCE);
        let mut col = 0;
        while col < dim {
            // SAFETY: the caller promises rows of `dim` values. `keys` are some of these rows, below KEY_BLOCK. The
            // columns from `col` are in range, and several vectors are taken only if they are whole.
            col += unsafe {
                if fits_16_sums::<S>() && col + 4 * S::LANES <= dim {
                    pv_columns::<T, S, QUERIES, 4>(simd, weights, values, keys.clone(), sums, dim, col)
                } else if !fits_16_sums::<S>() && col + 2 * S::LANES <= dim {
                    pv_columns::<T, S, QUERIES, 2>(simd, weights, values, keys.clone(), sums, dim, col)
                } else {
                    pv_columns::<T, S, QUERIES, 1>(simd, weights, values, keys.clone(), sums, dim, col)
                }
            };
        }
    }
    QUERIES
}

/// [`pv_accumulate`] for `VECTORS` vectors of columns. Returns the number of columns.
///
/// # Safety
/// * The rows of `values` for `keys`, which must be below [`KEY_BLOCK`], must be readable for `dim` values.
/// * `weights` must hold `QUERIES − 1` rows of [`SCORE_STRIDE`] and [`KEY_BLOCK`] more.
/// * `col` must be below `dim`. Either `VECTORS` vectors from there must end within `dim`, or `VECTORS` must be 1.
#[inline(always)]
unsafe fn pv_columns<T: F32Compute, S: Simd, const QUERIES: usize, const VECTORS: usize>(
    simd: S,
    weights: &[f32],
    values: RowPointers<'_, T>,
    keys: Range<usize>,
    sums: &mut [f32],
    dim: usize,
    col: usize,
) -> usize {
    let count = (dim - col).min(VECTORS * S::LANES);
    let mut all = [[simd.splat(0.0); VECTORS]; QUERIES];
    for (i, all) in all.iter_mut().enumerate() {
        for (v, sum) in all.iter_mut().enumerate() {
            *sum = simd.load_up_to(&sums[i * dim + col..][v * S::LANES..count], 0.0);
        }
    }
    // Several vectors are always whole, so only a single vector needs the check for each key.
    let left = if VECTORS > 1 { S::LANES } else { count };
    for j in keys {
        let row = values.row_ptr(j);
        let mut value = [simd.splat(0.0); VECTORS];
        // SAFETY: the caller promises the row of key `j`, with `left` values at each vector. It also promises weights
        // up to `(QUERIES − 1) · SCORE_STRIDE + KEY_BLOCK`, and `i · SCORE_STRIDE + j` stays below that.
        unsafe {
            for (v, value) in value.iter_mut().enumerate() {
                *value = load(simd, row.add(col + v * S::LANES), left);
            }
            for (i, all) in all.iter_mut().enumerate() {
                let weight = simd.splat(*weights.get_unchecked(i * SCORE_STRIDE + j));
                for (sum, value) in all.iter_mut().zip(value) {
                    *sum = simd.mul_add(weight, value, *sum);
                }
            }
        }
    }
    for (i, all) in all.iter().enumerate() {
        for (v, &sum) in all.iter().enumerate() {
            simd.store_up_to(&mut sums[i * dim + col..][v * S::LANES..count], sum);
        }
    }
    count
}
