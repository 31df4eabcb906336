//! Attention, one query at a time. Pairs that the mask forbids are never touched, so nothing in them can matter.

use crate::attention::{Grads, PackedAttention, RowsMut, Saved};
use crate::dropout::Keep;
use crate::real::Real;

/// What one query of one head gives.
#[derive(Clone, Debug)]
pub struct Row<T> {
    /// The weight of each key of the sequence, before dropout: (keys,).
    pub weights: Vec<T>,
    /// What dropout multiplies each weight with, 1 without dropout: (keys,).
    pub keep: Vec<T>,
    /// The weighted mean of the values: (value_dim,).
    pub output: Vec<T>,
    /// ln Σ exp(score), −∞ where there is nothing to attend to.
    pub log_sum_exp: T,
}

/// Query `i` of `head` in `sequence`: scores, softmax, dropout, weighted mean.
pub fn attention_row<T: Real>(args: &PackedAttention<T>, sequence: usize, head: usize, i: usize) -> Row<T> {
    let ((first_query, _), (first_key, keys)) = args.spans(sequence);
    let (dim, value_dim) = (args.head_dim, args.value_dim);
    let query = args.query.part(first_query + i, head * dim, dim);
    // score_j = scale · q·k_j + mask
    let scores: Vec<Option<T>> = (0..keys)
        .map(|j| {
            let bias = args.bias(i, j)?;
            let key = args.key.part(first_key + j, head * dim, dim);
            let dot: T = query.iter().zip(key).map(|(&q, &k)| q * k).sum();
            Some(dot * args.scale + bias)
        })
        .collect();
    let largest = scores.iter().flatten().copied().fold(T::NEG_INFINITY, T::max);
    let weight = |score: &Option<T>| score.map_or(T::ZERO, |score| (score - largest).exp());
    let mut weights: Vec<T> = scores.iter().map(weight).collect();
    let total: T = weights.iter().copied().sum();
    let (log_sum_exp, nothing) = if total == T::ZERO { (T::NEG_INFINITY, true) } else { (largest + total.ln(), false) };
    if !nothing {
        weights.iter_mut().for_each(|weight| *weight /= total);
    }
    let keep = keep_row(args, sequence, head, i, keys);
    let mut output = vec![T::ZERO; value_dim];
    for j in (0..keys).filter(|&j| scores[j].is_some()) {
        let value = args.value.part(first_key + j, head * value_dim, value_dim);
        output.iter_mut().zip(value).for_each(|(y, &v)| *y += weights[j] * keep[j] * v);
    }
    Row { weights, keep, output, log_sum_exp }
}

/// The factors of dropout for query `i`: drawn in groups of eight keys by sixteen queries.
fn keep_row<T: Real>(args: &PackedAttention<T>, sequence: usize, head: usize, i: usize, keys: usize) -> Vec<T> {
    let Some(dropout) = args.dropout else { return vec![T::ONE; keys] };
    let keep = Keep::new(dropout.rate, dropout.random);
    let pair = (sequence * args.heads + head) as u64;
    let rows = (0..keys.div_ceil(8)).flat_map(|group| {
        let factors = keep.group(pair << 36 | (group as u64) << 18 | (i / 16) as u64);
        factors.map(|row| T::of(f64::from(row[i % 16])))
    });
    rows.take(keys).collect()
}

/// All sequences, heads and queries.
pub fn attention_forward<T: Real>(args: &PackedAttention<T>, output: RowsMut<T>, log_sum_exp: &mut [T]) {
    let tokens = args.query_tokens();
    for sequence in 0..args.sequences() {
        let ((first, queries), _) = args.spans(sequence);
        for head in 0..args.heads {
            for i in 0..queries {
                let row = attention_row(args, sequence, head, i);
                let start = (first + i) * output.stride + head * args.value_dim;
                output.data[start..start + args.value_dim].copy_from_slice(&row.output);
                log_sum_exp[head * tokens + first + i] = row.log_sum_exp;
            }
        }
    }
}

/// The gradients of one head of one sequence: dQ (queries, head_dim), dK (keys, head_dim), dV (keys, value_dim).
#[doc(hidden)]
pub fn attention_head_backward<T: Real>(
    args: &PackedAttention<T>,
    saved: Saved<T>,
    sequence: usize,
    head: usize,
) -> [Vec<T>; 3] {
    let ((first_query, queries), (first_key, keys)) = args.spans(sequence);
    let (dim, value_dim) = (args.head_dim, args.value_dim);
    let mut dq = vec![T::ZERO; queries * dim];
    let mut dk = vec![T::ZERO; keys * dim];
    let mut dv = vec![T::ZERO; keys * value_dim];
    for i in 0..queries {
        let row = attention_row(args, sequence, head, i);
        let query = args.query.part(first_query + i, head * dim, dim);
        let d_output = saved.d_output.part(first_query + i, head * value_dim, value_dim);
        let seen = || (0..keys).filter(|&j| args.bias(i, j).is_some());
        // output = Σ_j weight_j keep_j v_j  →  d_weight_j = keep_j (d_output · v_j)
        let mut d_weight = vec![T::ZERO; keys];
        for j in seen() {
            let value = args.value.part(first_key + j, head * value_dim, value_dim);
            let dot: T = d_output.iter().zip(value).map(|(&d, &v)| d * v).sum();
            d_weight[j] = dot * row.keep[j];
        }
        // weight = softmax(score)  →  d_score_j = weight_j (d_weight_j − Σ_k weight_k d_weight_k)
        let dot: T = seen().map(|j| row.weights[j] * d_weight[j]).sum();
        for j in seen() {
            let d_score = row.weights[j] * (d_weight[j] - dot) * args.scale;
            let key = args.key.part(first_key + j, head * dim, dim);
            for c in 0..dim {
                // score = scale · q·k
                dq[i * dim + c] += d_score * key[c];
                dk[j * dim + c] += d_score * query[c];
            }
            for c in 0..value_dim {
                dv[j * value_dim + c] += row.weights[j] * row.keep[j] * d_output[c];
            }
        }
    }
    [dq, dk, dv]
}

/// All sequences and heads.
#[doc(hidden)]
pub fn attention_backward<T: Real>(args: &PackedAttention<T>, saved: Saved<T>, grads: Grads<T>) {
    let mut outs = [grads.query, grads.key, grads.value];
    for sequence in 0..args.sequences() {
        let ((first_query, _), (first_key, _)) = args.spans(sequence);
        for head in 0..args.heads {
            let parts = attention_head_backward(args, saved, sequence, head);
            let firsts = [first_query, first_key, first_key];
            let widths = [args.head_dim, args.head_dim, args.value_dim];
            for (((out, part), first), width) in outs.iter_mut().zip(&parts).zip(firsts).zip(widths) {
                for (i, row) in part.chunks_exact(width).enumerate() {
                    let start = (first + i) * out.stride + head * width;
                    out.data[start..start + width].copy_from_slice(row);
                }
            }
        }
    }
}
