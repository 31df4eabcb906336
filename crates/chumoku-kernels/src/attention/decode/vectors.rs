//! Products in vectors.

use crate::attention::engine::{KEY_BLOCK, SCORE_STRIDE};
use crate::isa::{Simd, SimdOp, prefetch};
use crate::low_precision::{DtypeSlice, F32Compute};
use std::marker::PhantomData;
use std::ops::Range;

/// Whether sixteen sums fit the registers with their factors: as many as a register tile has, or more. Else eight do.
pub(super) const fn fits_16_sums<S: Simd>() -> bool {
    S::TILE_ROWS * S::TILE_COLS / S::LANES >= 16
}

/// Rows of keys or of values among their numbers: row `j` is `width` numbers from `first + j · stride` on.
#[derive(Clone, Debug)]
pub(super) struct KeyValueRows {
    pub(super) first: usize,
    pub(super) stride: usize,
    pub(super) width: usize,
    /// Those that count.
    pub(super) range: Range<usize>,
}

impl KeyValueRows {
    /// The rows that count in these numbers.
    ///
    /// # Panics
    /// If they are not inside.
    #[inline(always)]
    fn pointers<'a, T>(&self, data: &'a [T]) -> RowPointers<'a, T> {
        let &KeyValueRows { first, stride, width, ref range } = self;
        assert!(range.is_empty() || first + (range.end - 1) * stride + width <= data.len());
        RowPointers { start: data.as_ptr().wrapping_add(first), stride, marker: PhantomData }
    }
}

/// Rows of a slice, those that count of which may be read.
#[derive(Clone, Copy)]
struct RowPointers<'a, T> {
    start: *const T,
    stride: usize,
    marker: PhantomData<&'a [T]>,
}

impl<T> RowPointers<'_, T> {
    /// Where row `j` starts.
    #[inline(always)]
    fn row_ptr(self, j: usize) -> *const T {
        self.start.wrapping_add(j.wrapping_mul(self.stride))
    }
}

/// Rows that are asked for while others are multiplied, in bytes: a whole block at once would keep the products waiting.
#[derive(Clone, Copy)]
pub(super) struct Prefetch {
    start: *const u8,
    stride: usize,
    width: usize,
    /// Whether they are asked for at all.
    is_enabled: bool,
}

impl Prefetch {
    /// The rows from `skip` on, which need not be there.
    pub(super) fn new(numbers: DtypeSlice<'_>, rows: &KeyValueRows, skip: usize, is_far: bool) -> Self {
        let start: *const u8 = match numbers {
            DtypeSlice::F32(data) => data.as_ptr().cast(),
            DtypeSlice::Bf16(data) => data.as_ptr().cast(),
            DtypeSlice::F16(data) => data.as_ptr().cast(),
        };
        let size = numbers.size();
        // A single row may have any distance from the next.
        let stride = rows.stride.wrapping_mul(size);
        let start = start.wrapping_add((rows.first * size).wrapping_add(stride.wrapping_mul(skip)));
        Prefetch { start, stride, width: rows.width * size, is_enabled: is_far }
    }

    /// Asks for the cache lines of some rows.
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

/// Products of `group` queries with the keys of `rows`: scores in rows of [`STRIDE`].
pub(super) struct QkVectors<'a, T> {
    /// (group, width), widths in whole vectors of 16.
    pub(super) queries: &'a [f32],
    pub(super) group: usize,
    pub(super) data: &'a [T],
    pub(super) rows: KeyValueRows,
    pub(super) scores: &'a mut [f32],
    /// What the first queries ask for.
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
            // SAFETY: the rows that count were found to be inside.
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

/// Adds the weighted values of `rows`, at most [`KEYS`], to the sums of `group` queries.
pub(super) struct PvVectors<'a, T> {
    /// Rows of [`STRIDE`].
    pub(super) weights: &'a [f32],
    pub(super) group: usize,
    pub(super) data: &'a [T],
    pub(super) rows: KeyValueRows,
    /// (group, width)
    pub(super) sums: &'a mut [f32],
    /// What the first queries ask for.
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
            // SAFETY: the rows that count were found to be inside, and are at most KEYS.
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

/// The vector at `from`, of which `count` numbers are there; 0 in the lanes after them.
///
/// # Safety
/// `from` must be valid for reading so many, up to a vector.
#[inline(always)]
unsafe fn load<T: F32Compute, S: Simd>(simd: S, from: *const T, count: usize) -> S::V {
    if count >= S::LANES {
        // SAFETY: the caller promises `count` numbers up to a vector, and there are as many as that.
        return unsafe { T::load(simd, from) };
    }
    let mut numbers = [0.0; 16];
    // SAFETY: the caller promises `count` numbers, fewer than a vector.
    T::widen(unsafe { std::slice::from_raw_parts(from, count) }, &mut numbers[..count]);
    simd.load(&numbers)
}

/// Products of `QUERIES` queries with the keys of `range`, `KEYS_AT_ONCE` at a time, of which the sums of `IN_REGISTERS` are
/// made together. Returns `QUERIES`.
///
/// # Safety
/// The rows of `keys` in `range` must be readable for `dim` numbers.
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
        // Keys after the last one are the last one again.
        let rows: [*const T; KEYS_AT_ONCE] = std::array::from_fn(|j| keys.row_ptr((first + j).min(range.end - 1)));
        ahead.fetch(first..first + KEYS_AT_ONCE);
        let mut all = [simd.splat(0.0); 16];
        for (part, rows) in rows.as_chunks::<IN_REGISTERS>().0.iter().enumerate() {
            let mut products = [[simd.splat(0.0); IN_REGISTERS]; QUERIES];
            let whole = dim - dim % S::LANES;
            for col in (0..whole).step_by(S::LANES) {
                // SAFETY: the caller promises rows of `dim`, of which a vector is left; the queries are as wide, in whole vectors.
                unsafe { add_products(simd, rows, (queries, width), col, S::LANES, &mut products) };
            }
            if whole < dim {
                // SAFETY: as above, where `dim − whole` numbers are left.
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

/// Adds the products of a vector of columns from `col` on, of which the keys have `count`.
///
/// # Safety
/// `rows` must be readable for `count` numbers from `col` on, and `QUERIES` rows of `queries`, `width` apart, for a vector.
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
/// The rows of `values` in `range` must be readable for `dim` numbers, and below [`KEYS`].
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
    // So few keys at a time that their rows are still in the nearest cache for the next columns.
    const AT_ONCE: usize = 32;
    for first in range.clone().step_by(AT_ONCE) {
        let keys = first..range.end.min(first + AT_ONCE);
        ahead.fetch(first..first + AT_ONCE);
        let mut col = 0;
        while col < dim {
            // SAFETY: the caller promises the rows of `dim`; `keys` are some of those, below KEYS, and the columns
            // from `col` on are inside, as is a whole number of vectors where several of them are taken.
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

/// As [`weigh`], of `VECTORS` vectors of columns. Returns the number of columns.
///
/// # Safety
/// * The rows of `values` for `keys`, which must be below [`KEYS`], must be readable for `dim` numbers.
/// * `weights` must hold `QUERIES − 1` rows of [`STRIDE`] and [`KEYS`] more.
/// * `col` must be below `dim`, and `VECTORS` vectors from there on end within `dim` or `VECTORS` be 1.
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
    // Several vectors are whole, which need not be asked at every key.
    let left = if VECTORS > 1 { S::LANES } else { count };
    for j in keys {
        let row = values.row_ptr(j);
        let mut value = [simd.splat(0.0); VECTORS];
        // SAFETY: the caller promises the row of key `j`, of which `left` numbers are left at each vector, and weights up to
        // `(QUERIES − 1) · STRIDE + KEYS`, below which `i · STRIDE + j` stays.
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
