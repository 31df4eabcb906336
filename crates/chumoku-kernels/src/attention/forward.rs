//! The forward pass in f32: for each sequence and head, blocks of queries against blocks of keys.
//!
//! Scores are kept transposed, `[key][query]`: maximum, exponential and sum of the softmax then run down whole
//! vectors of queries, and the block is already in the order in which the product with V reads it.

use super::packed::{BLOCK, Part, Place, Scratch, round_up, with_scratch};
use super::{PackedAttention, RowsMut};
use crate::dropout::Keep;
use crate::gemm::Tile;
use crate::isa::{self, Op, Simd};
use crate::math::exp;
use crate::reference;
use crate::threads::{SharedMut, for_each};

/// Attention, forward, on all sequences and heads; arguments have been checked.
pub(crate) fn forward_f32(args: &PackedAttention<f32>, output: RowsMut<f32>, log_sum_exp: &mut [f32]) {
    let stride = output.stride;
    let output = SharedMut::new(output.data);
    let log_sum_exp = SharedMut::new(log_sum_exp);
    for_each(args.sequences() * args.heads, args.work(), |pair| {
        let (sequence, head) = (pair / args.heads, pair % args.heads);
        with_scratch(|scratch| {
            isa::dispatch(Head { args, sequence, head, output, stride, log_sum_exp, scratch });
        });
    });
}

struct Head<'a, 'b> {
    args: &'a PackedAttention<'a, f32>,
    sequence: usize,
    head: usize,
    output: SharedMut<f32>,
    stride: usize,
    log_sum_exp: SharedMut<f32>,
    scratch: &'b mut Scratch,
}

impl Head<'_, '_> {
    /// The output of query `i` and its log-sum-exp, to be written.
    ///
    /// # Safety
    /// As [`SharedMut::slice`]; this head's columns and this sequence's rows are this task's alone.
    #[allow(clippy::mut_from_ref)]
    unsafe fn result(&self, i: usize) -> (&mut [f32], &mut f32) {
        let token = self.args.query_offsets[self.sequence] + i;
        let width = self.args.value_dim;
        // SAFETY: passed on to the caller.
        unsafe {
            let output = self.output.slice(token * self.stride + self.head * width, width);
            let lse = self.log_sum_exp.slice(self.head * self.args.query_tokens() + token, 1);
            (output, &mut lse[0])
        }
    }
}

impl Op for Head<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let args = self.args;
        let ((first_query, queries), (first_key, keys)) = args.spans(self.sequence);
        let (dim, value_dim) = (args.head_dim, args.value_dim);
        let (height, width) = (S::TILE_ROWS, S::TILE_COLS);
        let query = Part { rows: args.query, first: first_query, count: queries, col: self.head * dim, width: dim };
        let key = Part { rows: args.key, first: first_key, count: keys, col: self.head * dim, width: dim };
        let value =
            Part { rows: args.value, first: first_key, count: keys, col: self.head * value_dim, width: value_dim };

        if args.is_masked() && !value.is_finite(simd) {
            // A weight of 0 times NaN is NaN: the plain version leaves masked pairs out altogether.
            for i in 0..queries {
                let row = reference::attention_row(args, self.sequence, self.head, i);
                // SAFETY: rows and columns of this sequence and head belong to this task.
                let (output, lse) = unsafe { self.result(i) };
                output.copy_from_slice(&row.output);
                *lse = row.log_sum_exp;
            }
            return;
        }

        let columns = round_up(value_dim, width);
        let mut own = std::mem::take(self.scratch);
        let [keys_packed, values_packed, queries_packed, scores, sums] = own.buffers([
            round_up(keys, height) * dim,
            columns * keys,
            BLOCK * dim,
            round_up(BLOCK, height) * BLOCK,
            BLOCK * columns,
        ]);
        key.pack_rows(height, keys_packed);
        value.pack_columns(width, values_packed);
        let keep = args.dropout.map(|dropout| Keep::new(dropout.rate, dropout.random));
        let pair = self.sequence * args.heads + self.head;

        for first in (0..queries).step_by(BLOCK) {
            let count = BLOCK.min(queries - first);
            let block = Part { first: first_query + first, count, ..query };
            block.pack_rows(width, &mut queries_packed[..round_up(count, width) * dim]);
            let mut state = Running { largest: [f32::NEG_INFINITY; BLOCK], total: [0.0; BLOCK] };
            sums.fill(0.0);
            for first_key in (0..keys).step_by(BLOCK) {
                let place = Place { first_query: first, queries: count, first_key, keys: BLOCK.min(keys - first_key) };
                if place.is_beyond(args.causal) {
                    break;
                }
                let panels = &keys_packed[first_key * dim..];
                score(simd, panels, queries_packed, dim, place, scores);
                scale_block(simd, args.scale, place, scores);
                place.mask(args, scores);
                state.softmax(simd, place, scores, sums, columns);
                if let Some(keep) = &keep {
                    drop_weights(simd, keep, pair, place, scores);
                }
                for tile_row in 0..count.div_ceil(height) {
                    for panel in 0..columns / width {
                        let tile = Tile {
                            depth: place.keys,
                            a: scores[tile_row * height..].as_ptr(),
                            a_step: BLOCK,
                            b: values_packed[(panel * keys + first_key) * width..].as_ptr(),
                            b_step: width,
                            c: sums[tile_row * height * columns + panel * width..].as_mut_ptr(),
                            c_stride: columns,
                            accumulate: true,
                        };
                        // SAFETY: BLOCK is a whole number of tiles, so rows of scores and sums hold every tile row;
                        // the panel holds `keys` steps from first_key.
                        unsafe { simd.tile(tile) };
                    }
                }
            }
            for i in 0..count {
                let total = state.total[i];
                // SAFETY: rows and columns of this sequence and head belong to this task.
                let (output, lse) = unsafe { self.result(first + i) };
                if total == 0.0 {
                    output.fill(0.0);
                    *lse = f32::NEG_INFINITY;
                } else {
                    let factor = 1.0 / total;
                    output.iter_mut().zip(&sums[i * columns..]).for_each(|(y, &sum)| *y = sum * factor);
                    *lse = state.largest[i] + total.ln();
                }
            }
        }
        *self.scratch = own;
    }
}

/// Scores of a block, `[key][query]`: K·Qᵀ.
#[inline(always)]
pub(super) fn score<S: Simd>(
    simd: S,
    keys_packed: &[f32],
    queries_packed: &[f32],
    dim: usize,
    place: Place,
    scores: &mut [f32],
) {
    let (height, width) = (S::TILE_ROWS, S::TILE_COLS);
    for down in 0..place.keys.div_ceil(height) {
        for across in 0..place.queries.div_ceil(width) {
            let tile = Tile {
                depth: dim,
                a: keys_packed[down * height * dim..][..height * dim].as_ptr(),
                a_step: height,
                b: queries_packed[across * width * dim..][..width * dim].as_ptr(),
                b_step: width,
                c: scores[down * height * BLOCK + across * width..][..(height - 1) * BLOCK + width].as_mut_ptr(),
                c_stride: BLOCK,
                accumulate: false,
            };
            // SAFETY: the three slices hold what the tile reads and writes.
            unsafe { simd.tile(tile) };
        }
    }
}

#[inline(always)]
fn scale_block<S: Simd>(simd: S, scale: f32, place: Place, scores: &mut [f32]) {
    let scale = simd.splat(scale);
    for row in scores.chunks_exact_mut(BLOCK).take(place.keys) {
        for x in row.chunks_exact_mut(S::LANES).take(place.queries.div_ceil(S::LANES)) {
            simd.store(x, simd.mul(simd.load(x), scale));
        }
    }
}

/// Multiplies a block of weights by the factors of dropout.
#[inline(always)]
fn drop_weights<S: Simd>(simd: S, keep: &Keep, pair: usize, place: Place, weights: &mut [f32]) {
    let mut factors = [[0.0; BLOCK]; 8];
    for key in (0..place.keys).step_by(8) {
        place.keep(keep, pair, key, &mut factors);
        for (row, factors) in weights[key * BLOCK..].chunks_exact_mut(BLOCK).zip(&factors).take(place.keys - key) {
            for (x, factor) in row.chunks_exact_mut(S::LANES).zip(factors.chunks_exact(S::LANES)) {
                simd.store(x, simd.mul(simd.load(x), simd.load(factor)));
            }
        }
    }
}

/// The running maximum and sum of each query of a block.
struct Running {
    largest: [f32; BLOCK],
    total: [f32; BLOCK],
}

impl Running {
    /// Turns a block of scores into `exp(score − largest so far)`, brings what was summed before to the new maximum.
    #[inline(always)]
    fn softmax<S: Simd>(&mut self, simd: S, place: Place, scores: &mut [f32], sums: &mut [f32], columns: usize) {
        let mut factors = [1.0f32; BLOCK];
        let nothing = simd.splat(f32::NEG_INFINITY);
        for at in (0..place.queries).step_by(S::LANES) {
            let before = simd.load(&self.largest[at..]);
            let mut largest = before;
            for row in scores.chunks_exact(BLOCK).take(place.keys) {
                largest = simd.max(simd.load(&row[at..]), largest);
            }
            // A query that has seen nothing yet: exp(−∞ − 0) = 0, where −∞ − (−∞) would be NaN.
            let shift = simd.select_lt(nothing, largest, largest, simd.splat(0.0));
            let mut total = simd.splat(0.0);
            for row in scores.chunks_exact_mut(BLOCK).take(place.keys) {
                let weight = exp(simd, simd.sub(simd.load(&row[at..]), shift));
                simd.store(&mut row[at..], weight);
                total = simd.add(total, weight);
            }
            let factor = exp(simd, simd.sub(before, shift));
            let total = simd.mul_add(simd.load(&self.total[at..]), factor, total);
            simd.store(&mut self.total[at..], total);
            simd.store(&mut self.largest[at..], largest);
            simd.store(&mut factors[at..], factor);
        }
        if place.first_key > 0 {
            for (row, &factor) in sums.chunks_exact_mut(columns).zip(&factors[..place.queries]) {
                if factor != 1.0 {
                    let factor = simd.splat(factor);
                    for x in row.chunks_exact_mut(S::LANES) {
                        simd.store(x, simd.mul(simd.load(x), factor));
                    }
                }
            }
        }
    }
}
