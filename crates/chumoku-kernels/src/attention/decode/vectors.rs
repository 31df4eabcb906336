//! Products in vectors.

use crate::attention::engine::{KEYS, STRIDE};
use crate::isa::{Simd, prefetch};
use crate::narrow::Narrow;
use std::ops::Range;

/// Whether sixteen sums fit the registers with their factors: as many as a register tile has, or more. Else eight do.
pub(super) const fn has_room<S: Simd>() -> bool {
    S::TILE_ROWS * S::TILE_COLS / S::LANES >= 16
}

/// Rows of so many numbers that are asked for while others are multiplied: a whole block at once would keep the products
/// waiting.
pub(super) struct Ahead<R> {
    pub(super) row: R,
    pub(super) width: usize,
    /// Whether they are asked for at all.
    pub(super) is_far: bool,
}

impl<R> Ahead<R> {
    /// Asks for the cache lines of some rows, which need not be there.
    #[inline(always)]
    fn ask_for<T>(&self, rows: Range<usize>)
    where
        R: Fn(usize) -> *const T,
    {
        if self.is_far {
            for j in rows {
                for col in (0..self.width).step_by(64 / size_of::<T>()) {
                    prefetch((self.row)(j).wrapping_add(col));
                }
            }
        }
    }
}

/// The vector at `from`, of which `count` numbers are there; 0 in the lanes after them.
///
/// # Safety
/// `from` must be valid for reading so many, up to a vector.
#[inline(always)]
unsafe fn load<T: Narrow, S: Simd>(simd: S, from: *const T, count: usize) -> S::V {
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
/// `keys` must give readable rows of `dim` for so many keys.
#[inline(always)]
pub(super) unsafe fn dots<
    T: Narrow,
    S: Simd,
    const QUERIES: usize,
    const KEYS_AT_ONCE: usize,
    const IN_REGISTERS: usize,
>(
    simd: S,
    queries: &[f32],
    dim: usize,
    keys: impl Fn(usize) -> *const T,
    range: Range<usize>,
    scores: &mut [f32],
    ahead: &Ahead<impl Fn(usize) -> *const T>,
) -> usize {
    let width = dim.next_multiple_of(16);
    let queries = &queries[..QUERIES * width];
    for first in range.clone().step_by(KEYS_AT_ONCE) {
        // Keys after the last one are the last one again.
        let rows: [*const T; KEYS_AT_ONCE] = std::array::from_fn(|j| keys((first + j).min(range.end - 1)));
        ahead.ask_for(first..first + KEYS_AT_ONCE);
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
            scores[i * STRIDE + first..][..count].copy_from_slice(&sums[..count]);
        }
    }
    QUERIES
}

/// Adds the products of a vector of columns from `col` on, of which the keys have `count`.
///
/// # Safety
/// `rows` must be readable for `count` numbers from `col` on, and `QUERIES` rows of `queries`, `width` apart, for a vector.
#[inline(always)]
unsafe fn add_products<T: Narrow, S: Simd, const QUERIES: usize, const IN_REGISTERS: usize>(
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

/// Adds the weighted values of `count` keys to the sums of `QUERIES` queries. Returns `QUERIES`.
///
/// # Safety
/// `values` must give readable rows of `dim` for so many keys.
#[inline(always)]
pub(super) unsafe fn weigh<T: Narrow, S: Simd, const QUERIES: usize>(
    simd: S,
    weights: &[f32],
    values: impl Fn(usize) -> *const T,
    count: usize,
    (sums, dim): (&mut [f32], usize),
    ahead: &Ahead<impl Fn(usize) -> *const T>,
) -> usize {
    let weights = &weights[..(QUERIES - 1) * STRIDE + KEYS];
    // So few keys at a time that their rows are still in the nearest cache for the next columns.
    const AT_ONCE: usize = 32;
    for first in (0..count).step_by(AT_ONCE) {
        let keys = first..count.min(first + AT_ONCE);
        ahead.ask_for(first..first + AT_ONCE);
        let mut col = 0;
        while col < dim {
            // SAFETY: `values` gives the rows of `dim` that the caller promises; `keys` are some of those, and the columns
            // from `col` on are inside, as is a whole number of vectors where several of them are taken.
            col += unsafe {
                if has_room::<S>() && col + 4 * S::LANES <= dim {
                    weigh_columns::<T, S, QUERIES, 4>(simd, weights, &values, keys.clone(), sums, dim, col)
                } else if !has_room::<S>() && col + 2 * S::LANES <= dim {
                    weigh_columns::<T, S, QUERIES, 2>(simd, weights, &values, keys.clone(), sums, dim, col)
                } else {
                    weigh_columns::<T, S, QUERIES, 1>(simd, weights, &values, keys.clone(), sums, dim, col)
                }
            };
        }
    }
    QUERIES
}

/// As [`weigh`], of `VECTORS` vectors of columns. Returns the number of columns.
///
/// # Safety
/// * `values` must give readable rows of `dim` for the keys `keys`, which must be below [`KEYS`].
/// * `weights` must hold `QUERIES − 1` rows of [`STRIDE`] and [`KEYS`] more.
/// * `col` must be below `dim`, and `VECTORS` vectors from there on end within `dim` or `VECTORS` be 1.
#[inline(always)]
unsafe fn weigh_columns<T: Narrow, S: Simd, const QUERIES: usize, const VECTORS: usize>(
    simd: S,
    weights: &[f32],
    values: &impl Fn(usize) -> *const T,
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
        let row = values(j);
        let mut value = [simd.splat(0.0); VECTORS];
        // SAFETY: the caller promises the row of key `j`, of which `left` numbers are left at each vector, and weights up to
        // `(QUERIES − 1) · STRIDE + KEYS`, below which `i · STRIDE + j` stays.
        unsafe {
            for (v, value) in value.iter_mut().enumerate() {
                *value = load(simd, row.add(col + v * S::LANES), left);
            }
            for (i, all) in all.iter_mut().enumerate() {
                let weight = simd.splat(*weights.get_unchecked(i * STRIDE + j));
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
