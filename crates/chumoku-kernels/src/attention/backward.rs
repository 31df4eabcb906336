//! The backward pass in f32: one task for each sequence and head, which owns its rows and columns of every gradient.
//!
//! Weights are computed again from log-sum-exp, block by block, transposed as in the forward pass.

use super::forward::score;
use super::packed::{BLOCK, Part, Place, Scratch, round_up, with_scratch};
use super::{Grads, PackedAttention, RowsMut, Saved};
use crate::dropout::Keep;
use crate::gemm::Tile;
use crate::isa::{self, Op, Simd};
use crate::math::exp;
use crate::reference;
use crate::threads::{SharedMut, for_each};

/// Attention, backward, on all sequences and heads; arguments have been checked.
pub(crate) fn backward_f32(args: &PackedAttention<f32>, saved: Saved<f32>, grads: Grads<f32>) {
    let share = |rows: RowsMut<f32>| (rows.stride, SharedMut::new(rows.data));
    let grads = [share(grads.query), share(grads.key), share(grads.value)];
    for_each(args.sequences() * args.heads, args.work() * 3, |pair| {
        let (sequence, head) = (pair / args.heads, pair % args.heads);
        with_scratch(|scratch| isa::dispatch(Head { args, saved, sequence, head, grads, scratch }));
    });
}

struct Head<'a, 'b> {
    args: &'a PackedAttention<'a, f32>,
    saved: Saved<'a, f32>,
    sequence: usize,
    head: usize,
    /// Row stride and data of dQ, dK, dV.
    grads: [(usize, SharedMut<f32>); 3],
    scratch: &'b mut Scratch,
}

impl Head<'_, '_> {
    /// Writes rows of `width` numbers, `columns` apart in `from`, to this head's columns of gradient `which`.
    #[inline(always)]
    fn write(&self, which: usize, first: usize, count: usize, width: usize, from: &[f32], columns: usize) {
        let (stride, data) = self.grads[which];
        for (i, row) in from.chunks_exact(columns).take(count).enumerate() {
            // SAFETY: rows of this sequence and columns of this head belong to this task alone.
            let out = unsafe { data.slice((first + i) * stride + self.head * width, width) };
            out.copy_from_slice(&row[..width]);
        }
    }
}

impl Op for Head<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let (args, saved) = (self.args, self.saved);
        let ((first_query, queries), (first_key, keys)) = args.spans(self.sequence);
        let (dim, value_dim) = (args.head_dim, args.value_dim);
        let (height, width) = (S::TILE_ROWS, S::TILE_COLS);
        let query = Part { rows: args.query, first: first_query, count: queries, col: self.head * dim, width: dim };
        let key = Part { rows: args.key, first: first_key, count: keys, col: self.head * dim, width: dim };
        let value =
            Part { rows: args.value, first: first_key, count: keys, col: self.head * value_dim, width: value_dim };
        let output = Part { rows: saved.output, first: first_query, count: queries, ..value };
        let d_output = Part { rows: saved.d_output, ..output };

        let parts = [query, key, value, output, d_output];
        if args.is_masked() && parts.iter().any(|part| !part.is_finite(simd)) {
            // A weight of 0 times NaN is NaN: the plain version leaves masked pairs out altogether.
            let [dq, dk, dv] = reference::attention_head_backward(args, saved, self.sequence, self.head);
            self.write(0, first_query, queries, dim, &dq, dim);
            self.write(1, first_key, keys, dim, &dk, dim);
            self.write(2, first_key, keys, value_dim, &dv, value_dim);
            return;
        }

        let mut own = std::mem::take(self.scratch);
        let (columns, value_columns) = (round_up(dim, width), round_up(value_dim, width));
        let key_rows = round_up(keys, height);
        let [
            key_panels,
            value_panels,
            key_columns,
            query_panels,
            d_output_panels,
            query_columns,
            d_output_columns,
            weights,
            d_scores,
            d_query,
            d_key,
            d_value,
        ] = own.buffers([
            key_rows * dim,
            key_rows * value_dim,
            columns * keys,
            BLOCK * dim,
            BLOCK * value_dim,
            columns * BLOCK,
            value_columns * BLOCK,
            round_up(BLOCK, height) * BLOCK,
            round_up(BLOCK, height) * BLOCK,
            BLOCK * columns,
            (key_rows + height) * columns,
            (key_rows + height) * value_columns,
        ]);
        key.pack_rows(height, key_panels);
        value.pack_rows(height, value_panels);
        key.pack_columns(width, key_columns);
        d_key.fill(0.0);
        d_value.fill(0.0);
        let keep = args.dropout.map(|dropout| Keep::new(dropout.rate, dropout.random));
        let pair = self.sequence * args.heads + self.head;

        for first in (0..queries).step_by(BLOCK) {
            let count = BLOCK.min(queries - first);
            let [query, d_output, output] =
                [query, d_output, output].map(|part| Part { first: first_query + first, count, ..part });
            query.pack_rows(width, &mut query_panels[..round_up(count, width) * dim]);
            d_output.pack_rows(width, &mut d_output_panels[..round_up(count, width) * value_dim]);
            query.pack_columns(width, &mut query_columns[..columns * count]);
            d_output.pack_columns(width, &mut d_output_columns[..value_columns * count]);
            // rowsum(dO ∘ O), and log-sum-exp with +∞ for a query that sees nothing, so that its weights become 0.
            let mut delta = [0.0f32; BLOCK];
            let mut log_sum_exp = [f32::INFINITY; BLOCK];
            for i in 0..count {
                let token = first_query + first + i;
                let d = d_output.rows.part(token, d_output.col, value_dim);
                let y = output.rows.part(token, output.col, value_dim);
                delta[i] = dot(simd, d, y);
                let lse = saved.log_sum_exp[self.head * args.query_tokens() + token];
                log_sum_exp[i] = if lse == f32::NEG_INFINITY { f32::INFINITY } else { lse };
            }
            d_query.fill(0.0);
            for first_key in (0..keys).step_by(BLOCK) {
                let place = Place { first_query: first, queries: count, first_key, keys: BLOCK.min(keys - first_key) };
                if place.is_beyond(args.causal) {
                    break;
                }
                // scores = K Qᵀ; d_scores = V dOᵀ (so far the gradient of the weights)
                score(simd, &key_panels[first_key * dim..], query_panels, dim, place, weights);
                score(simd, &value_panels[first_key * value_dim..], d_output_panels, value_dim, place, d_scores);
                let soft = Soft { args, keep: keep.as_ref(), pair, place, delta: &delta, log_sum_exp: &log_sum_exp };
                soft.differentiate(simd, weights, d_scores);
                let product = |depth, a: &[f32], a_step, b: &[f32], c: &mut [f32], c_stride| Tile {
                    depth,
                    a: a.as_ptr(),
                    a_step,
                    b: b.as_ptr(),
                    b_step: width,
                    c: c.as_mut_ptr(),
                    c_stride,
                    accumulate: true,
                };
                for down in 0..place.keys.div_ceil(height) {
                    let at = down * height * BLOCK;
                    // dV += Pᵀ dO
                    for panel in 0..value_columns / width {
                        let b = &d_output_columns[panel * count * width..][..count * width];
                        let c = &mut d_value[(first_key + down * height) * value_columns + panel * width..];
                        let tile = product(count, &weights[at..], 1, b, c, value_columns);
                        // SAFETY: the block has whole tile rows of keys, each of BLOCK ≥ count queries; the
                        // accumulator has a spare tile row at its end.
                        unsafe { simd.tile_across(tile) };
                    }
                    // dK += dSᵀ Q
                    for panel in 0..columns / width {
                        let b = &query_columns[panel * count * width..][..count * width];
                        let c = &mut d_key[(first_key + down * height) * columns + panel * width..];
                        let tile = product(count, &d_scores[at..], 1, b, c, columns);
                        // SAFETY: as above.
                        unsafe { simd.tile_across(tile) };
                    }
                }
                // dQ += dS K
                for down in 0..count.div_ceil(height) {
                    for panel in 0..columns / width {
                        let b = &key_columns[(panel * keys + first_key) * width..][..place.keys * width];
                        let c = &mut d_query[down * height * columns + panel * width..];
                        let tile = product(place.keys, &d_scores[down * height..], BLOCK, b, c, columns);
                        // SAFETY: BLOCK is a whole number of tiles, so every tile row is inside d_scores and d_query.
                        unsafe { simd.tile(tile) };
                    }
                }
            }
            self.write(0, first_query + first, count, dim, d_query, columns);
        }
        self.write(1, first_key, keys, dim, d_key, columns);
        self.write(2, first_key, keys, value_dim, d_value, value_columns);
        *self.scratch = own;
    }
}

/// Σ a·b
#[inline(always)]
fn dot<S: Simd>(simd: S, a: &[f32], b: &[f32]) -> f32 {
    let mut sum = simd.splat(0.0);
    let whole = a.len().min(b.len()) / S::LANES * S::LANES;
    for at in (0..whole).step_by(S::LANES) {
        sum = simd.mul_add(simd.load(&a[at..]), simd.load(&b[at..]), sum);
    }
    let mut total = simd.sum(sum);
    for i in whole..a.len() {
        total += a[i] * b[i];
    }
    total
}

/// The softmax of a block, differentiated.
struct Soft<'a> {
    args: &'a PackedAttention<'a, f32>,
    keep: Option<&'a Keep>,
    pair: usize,
    place: Place,
    delta: &'a [f32; BLOCK],
    log_sum_exp: &'a [f32; BLOCK],
}

impl Soft<'_> {
    /// Scores become weights (after dropout), gradients of weights become gradients of scores (times the scale).
    #[inline(always)]
    fn differentiate<S: Simd>(&self, simd: S, weights: &mut [f32], d_weights: &mut [f32]) {
        let (args, place) = (self.args, self.place);
        let scale = simd.splat(args.scale);
        if args.is_masked() {
            // Masks are added to scaled scores.
            for row in weights.chunks_exact_mut(BLOCK).take(place.keys) {
                for x in row.chunks_exact_mut(S::LANES) {
                    simd.store(x, simd.mul(simd.load(x), scale));
                }
            }
            place.mask(args, weights);
        }
        let factor = if args.is_masked() { simd.splat(1.0) } else { scale };
        let mut keep_factors = [[1.0f32; BLOCK]; 8];
        for key in (0..place.keys).step_by(8) {
            if let Some(keep) = self.keep {
                place.keep(keep, self.pair, key, &mut keep_factors);
            }
            let rows = key * BLOCK..(key + 8).min(place.keys) * BLOCK;
            let pairs = weights[rows.clone()].chunks_exact_mut(BLOCK).zip(d_weights[rows].chunks_exact_mut(BLOCK));
            for ((row, d_row), keep) in pairs.zip(&keep_factors) {
                for at in (0..place.queries).step_by(S::LANES) {
                    let lse = simd.load(&self.log_sum_exp[at..]);
                    let delta = simd.load(&self.delta[at..]);
                    let keep = simd.load(&keep[at..]);
                    // y = exp(score · scale − lse), the weight
                    let scaled = simd.mul(simd.load(&row[at..]), factor);
                    let weight = exp(simd, simd.sub(scaled, lse));
                    let d_weight = simd.mul(simd.load(&d_row[at..]), keep);
                    let d_score = simd.mul(simd.mul(weight, simd.sub(d_weight, delta)), scale);
                    simd.store(&mut row[at..], simd.mul(weight, keep));
                    simd.store(&mut d_row[at..], d_score);
                }
            }
        }
    }
}
