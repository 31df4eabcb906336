//! What forward and backward share: block sizes, packing into panels, scratch memory, masks on a block.

use super::{PackedAttention, Rows};
use crate::dropout::Keep;
use crate::isa::Simd;
use std::cell::RefCell;

/// Queries, and keys, in a block: a whole number of tiles and vectors for every instruction set, and of the groups
/// that dropout draws at once; two blocks of scores fit the second-level cache with room to spare.
pub(super) const BLOCK: usize = crate::gemm::ACROSS;

/// Several growing buffers, kept by each thread so that attention allocates nothing once warm.
#[derive(Default)]
pub(super) struct Scratch(Vec<Vec<f32>>);

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Runs `f` with this thread's scratch memory.
pub(super) fn with_scratch<R>(f: impl FnOnce(&mut Scratch) -> R) -> R {
    SCRATCH.with_borrow_mut(f)
}

impl Scratch {
    /// Buffers of the given lengths; contents are whatever was there (finite or not).
    pub(super) fn buffers<const N: usize>(&mut self, lengths: [usize; N]) -> [&mut [f32]; N] {
        if self.0.len() < N {
            self.0.resize(N, Vec::new());
        }
        for (buffer, &length) in self.0.iter_mut().zip(&lengths) {
            if buffer.len() < length {
                buffer.resize(length, 0.0);
            }
        }
        let mut buffers = self.0.iter_mut();
        std::array::from_fn(|n| &mut buffers.next().expect("N buffers were made")[..lengths[n]])
    }
}

/// `n` rounded up to a multiple of `unit`.
#[inline(always)]
pub(super) fn round_up(n: usize, unit: usize) -> usize {
    n.div_ceil(unit) * unit
}

/// Part of some [`Rows`]: `count` rows from `first`, `width` columns from `col`.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) rows: Rows<'a, f32>,
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) col: usize,
    pub(super) width: usize,
}

impl Part<'_> {
    /// Rows side by side: panel r holds the rows `r·height..`, as `[column][row]`. Missing rows become 0.
    /// Length needed: `round_up(count, height) · width`.
    #[inline(always)]
    pub(super) fn pack_rows(&self, height: usize, out: &mut [f32]) {
        for (panel, out) in out.chunks_exact_mut(height * self.width).enumerate() {
            let first = panel * height;
            let count = height.min(self.count.saturating_sub(first));
            if count < height {
                out.fill(0.0);
            }
            for i in 0..count {
                let row = self.rows.part(self.first + first + i, self.col, self.width);
                for (step, &x) in out.chunks_exact_mut(height).zip(row) {
                    step[i] = x;
                }
            }
        }
    }

    /// Columns side by side: panel c holds the columns `c·height..`, as `[row][column]`. Missing columns become 0.
    /// Length needed: `round_up(width, height) · count`.
    #[inline(always)]
    pub(super) fn pack_columns(&self, height: usize, out: &mut [f32]) {
        if self.count == 0 {
            return;
        }
        for (panel, out) in out.chunks_exact_mut(height * self.count).enumerate() {
            let first = panel * height;
            let count = height.min(self.width - first);
            for (i, step) in out.chunks_exact_mut(height).enumerate() {
                let row = self.rows.part(self.first + i, self.col + first, count);
                step[..count].copy_from_slice(row);
                step[count..].fill(0.0);
            }
        }
    }

    /// Whether every number is finite.
    #[inline(always)]
    pub(super) fn is_finite<S: Simd>(&self, simd: S) -> bool {
        // x·0 is 0 for finite x and NaN otherwise, and NaN survives adding.
        let zero = simd.splat(0.0);
        let mut sum = zero;
        for i in 0..self.count {
            let row = self.rows.part(self.first + i, self.col, self.width);
            let mut vectors = row.chunks_exact(S::LANES);
            for x in vectors.by_ref() {
                sum = simd.mul_add(simd.load(x), zero, sum);
            }
            sum = simd.mul_add(simd.load_partial(vectors.remainder(), 0.0), zero, sum);
        }
        simd.sum(sum) == 0.0
    }
}

/// Where a block of scores lies: queries and keys, counted within the sequence.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) first_query: usize,
    pub(super) queries: usize,
    pub(super) first_key: usize,
    pub(super) keys: usize,
}

impl Place {
    /// The number of keys that any query of the block may see, where causality alone decides.
    pub(super) fn is_beyond(&self, causal: bool) -> bool {
        causal && self.first_key > self.first_query + self.queries - 1
    }

    /// Adds the mask to a block of scaled scores, laid out `[key][query]` with rows of [`BLOCK`]; −∞ where a query
    /// must not see a key.
    #[inline(always)]
    pub(super) fn mask(&self, args: &PackedAttention<f32>, scores: &mut [f32]) {
        let crosses = args.causal && self.first_key + self.keys > self.first_query + 1;
        if args.mask.is_none() && !crosses {
            return;
        }
        for (j, row) in scores.chunks_exact_mut(BLOCK).take(self.keys).enumerate() {
            for (i, score) in row[..self.queries].iter_mut().enumerate() {
                // Selected, never multiplied: a masked score may be NaN.
                *score = match args.bias(self.first_query + i, self.first_key + j) {
                    Some(bias) => *score + bias,
                    None => f32::NEG_INFINITY,
                };
            }
        }
    }

    /// For eight keys from `key` (within the block): which of the block's weights dropout keeps, as factors
    /// `[8][BLOCK]`. `pair` tells sequences and heads apart.
    #[inline(always)]
    pub(super) fn keep(&self, keep: &Keep, pair: usize, key: usize, factors: &mut [[f32; BLOCK]; 8]) {
        for group in 0..self.queries.div_ceil(16) {
            let index = ((pair as u64) << 36)
                | (((self.first_key + key) / 8) as u64) << 18
                | (self.first_query / 16 + group) as u64;
            let drawn = keep.group(index);
            for (row, drawn) in factors.iter_mut().zip(&drawn) {
                row[group * 16..group * 16 + 16].copy_from_slice(drawn);
            }
        }
    }
}
