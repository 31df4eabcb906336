//! The reference implementation: one query at a time, in double precision. It never reads masked pairs, so their values
//! cannot affect a result.

use super::heads::QueryIndex;
use super::mask::Mask;
use super::params::{Attention, AttentionParams, BackwardInputs, ForwardOutputs, Gradients};
use crate::dropout::DropoutMask;
use crate::number::{Element, Real};
use std::ops::Range;

/// Rounds a score or log-sum-exp. A finite number never becomes −∞, which stands for nothing to attend to.
pub(super) fn rounded_score<S: Real>(x: f64) -> S {
    let lowest = S::round_from(f64::from(f32::MIN));
    let rounded = S::round_from(x);
    if rounded == S::NEG_INFINITY && x.is_finite() { lowest } else { rounded }
}

/// The intermediate values and results of one query of one head.
#[derive(Clone, Debug)]
pub struct AttentionRow {
    /// The score of each key, after scale, softcap and masks: (keys,). `None` for masked keys.
    pub scores: Vec<Option<f64>>,
    /// The weight of each key, before dropout: (keys,).
    pub weights: Vec<f64>,
    /// The weight of the sink; 0 without one.
    pub(crate) sink: f64,
    /// The dropout factor of each weight, 1 without dropout: (keys,).
    pub(crate) dropout_factors: Vec<f64>,
    /// The weighted sum of the values: (value dim,).
    pub output: Vec<f64>,
    /// ln Σ exp(score); −∞ if there is nothing to attend to.
    pub log_sum_exp: f64,
}

/// Returns the keys that query `i` of sequence `s` sees under causality and windows.
pub fn attention_keys<T: Element>(args: &Attention<T>, s: usize, i: usize) -> Range<usize> {
    args.params.visible_keys(s, i)
}

/// Computes scores, softmax, dropout and weighted sum of query `i` of head `h` in sequence `s`.
pub fn attention_row<T: Element>(args: &Attention<T>, s: usize, h: usize, i: usize) -> AttentionRow {
    let keys = args.params.key_count(s);
    let query = args.query.row(s, h, i);
    let range = args.params.visible_keys(s, i);
    // score_j = softcap(scale · q·k_j) + bias_j
    let scores: Vec<Option<f64>> = (0..keys)
        .map(|j| {
            let bias = bias(&args.params, s, h, i, j).filter(|_| range.contains(&j))?;
            Some(
                apply_softcap(
                    &args.params,
                    args.params.scale * dot(query, args.key.row(s, args.params.key_head(h), j)),
                ) + bias,
            )
        })
        .collect();
    let sink = args.params.sinks.map(|sinks| f64::from(sinks[h]));
    let largest = scores.iter().flatten().copied().chain(sink).fold(f64::NEG_INFINITY, Real::max);
    let weight = |score: f64| if largest == f64::NEG_INFINITY { 0.0 } else { (score - largest).exp() };
    let mut weights: Vec<f64> = scores.iter().map(|score| score.map_or(0.0, weight)).collect();
    let sink = sink.map_or(0.0, weight);
    let total = weights.iter().sum::<f64>() + sink;
    let log_sum_exp = if total == 0.0 { f64::NEG_INFINITY } else { largest + total.ln() };
    let share = |weight: f64| if total == 0.0 { 0.0 } else { weight / total };
    weights.iter_mut().for_each(|weight| *weight = share(*weight));
    let dropout_factors = dropout_factors(&args.params, s, h, i, keys);
    let mut output = vec![0.0; args.value.dim()];
    for j in (0..keys).filter(|&j| scores[j].is_some()) {
        let value = args.value.row(s, args.params.key_head(h), j);
        output.iter_mut().zip(value).for_each(|(y, &v)| *y += weights[j] * dropout_factors[j] * v.to_f64());
    }
    AttentionRow { scores, weights, sink: share(sink), dropout_factors, output, log_sum_exp }
}

/// Computes Σ q·k.
pub(super) fn dot<T: Element>(a: &[T], b: &[T]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a.to_f64() * b.to_f64()).sum()
}

/// Computes cap · tanh(score / cap).
fn apply_softcap<S>(problem: &AttentionParams<S>, score: f64) -> f64 {
    problem.softcap.map_or(score, |cap| cap * (score / cap).tanh())
}

/// Returns the bias of a score from ALiBi and an additive mask, or `None` if a mask by entries masks the pair.
pub(super) fn bias<S: Real>(problem: &AttentionParams<S>, s: usize, h: usize, i: usize, j: usize) -> Option<f64> {
    let distance = (i128::from(problem.diagonal_offset(s)) + i as i128 - j as i128).unsigned_abs();
    let linear = problem.alibi.map_or(0.0, |slopes| -f64::from(slopes[h]) * distance as f64);
    match problem.mask {
        None => Some(linear),
        Some(Mask::Boolean(view)) => view.data[view.entry_index(s, h, i, j)].then_some(linear),
        Some(Mask::Additive(view)) => {
            let bias = view.data[view.entry_index(s, h, i, j)];
            (bias != S::NEG_INFINITY).then(|| linear + bias.to_f64())
        }
    }
}

/// Returns the dropout factors of query `i`, drawn in groups of eight queries by sixteen keys.
fn dropout_factors<S>(problem: &AttentionParams<S>, s: usize, h: usize, i: usize, keys: usize) -> Vec<f64> {
    let Some(dropout) = problem.dropout else { return vec![1.0; keys] };
    let keep = DropoutMask::new(dropout.rate, dropout.random);
    let pair = (s * problem.query.heads + h) as u64;
    let rows = (0..keys.div_ceil(16)).flat_map(|group| {
        let factors = keep.factors(pair << 36 | (group as u64) << 18 | (i / 8) as u64);
        factors[i % 8].map(f64::from)
    });
    rows.take(keys).collect()
}

/// Computes output and log-sum-exp of every query.
pub(crate) fn attention_forward<T: Element>(args: &Attention<T>, mut results: ForwardOutputs<T>) {
    for s in 0..args.query.sequences() {
        for h in 0..args.query.heads() {
            for i in 0..args.query.length(s) {
                let row = attention_row(args, s, h, i);
                let output = results.output.row_mut(s, h, i);
                output.iter_mut().zip(&row.output).for_each(|(y, &x)| *y = T::round_from(x));
                if let Some(log_sum_exp) = &mut results.log_sum_exp {
                    log_sum_exp[args.query.layout.row_index(s, h, i)] = rounded_score(row.log_sum_exp);
                }
            }
        }
    }
}

/// The gradients from one query of one head.
#[derive(Clone, Debug)]
pub struct RowGradients {
    /// d score of each key: (keys,). `None` for masked keys.
    pub(crate) d_scores: Vec<Option<f64>>,
    /// d (scale · q·k) of each key, 0 for masked keys: (keys,).
    pub(crate) d_products: Vec<f64>,
    /// The weights after dropout: (keys,).
    pub(crate) dropped_weights: Vec<f64>,
    /// Gradient of the query: (dim,).
    pub d_query: Vec<f64>,
    /// Gradient of the sink.
    pub(crate) d_sink: f64,
}

/// Computes the gradients from query `i` of head `h` in sequence `s` with respect to itself, its scores and its sink.
pub fn attention_row_backward<T: Element>(
    args: &Attention<T>,
    saved: BackwardInputs<T>,
    s: usize,
    h: usize,
    i: usize,
) -> RowGradients {
    let AttentionRow { scores, weights, sink, dropout_factors, output, .. } = attention_row(args, s, h, i);
    let (query, d_output) = (args.query.row(s, h, i), saved.d_output.row(s, h, i));
    let kv_head = args.params.key_head(h);
    // o = Σ_j p_j keep_j v_j, lse = ln Σ exp(score)  →  d score_j = p_j (keep_j dO·v_j − dO·o + d lse)
    let delta: f64 = output.iter().zip(d_output).map(|(y, d)| y * d.to_f64()).sum();
    let d_lse = saved.d_log_sum_exp.map_or(0.0, |d| d[args.query.layout.row_index(s, h, i)].to_f64());
    let d_scores: Vec<Option<f64>> = (0..weights.len())
        .map(|j| {
            scores[j]?;
            Some(weights[j] * (dropout_factors[j] * dot(d_output, args.value.row(s, kv_head, j)) - delta + d_lse))
        })
        .collect();
    let mut d_query = vec![0.0; query.len()];
    let mut d_products = vec![0.0; weights.len()];
    for (j, d_score) in d_scores.iter().enumerate() {
        let Some(d_score) = d_score else { continue };
        let key = args.key.row(s, kv_head, j);
        // score = cap · tanh(product / cap)
        let slope = args.params.softcap.map_or(1.0, |cap| (args.params.scale * dot(query, key) / cap).cosh().powi(-2));
        d_products[j] = d_score * slope;
        d_query.iter_mut().zip(key).for_each(|(d, k)| *d += args.params.scale * d_products[j] * k.to_f64());
    }
    // The sink is a key whose value is 0.
    let d_sink = if args.params.sinks.is_some() { sink * (d_lse - delta) } else { 0.0 };
    let dropped = weights.iter().zip(&dropout_factors).map(|(p, keep)| p * keep).collect();
    RowGradients { d_scores, d_products, dropped_weights: dropped, d_query, d_sink }
}

/// Computes the gradients of attention.
pub(crate) fn attention_backward<T: Element>(
    args: &Attention<T>,
    saved: BackwardInputs<T>,
    mut gradients: Gradients<T>,
) {
    let (dim, value_dim) = (args.key.dim(), args.value.dim());
    let mut d_mask = gradients.mask.as_ref().map(|d| vec![0.0; d.len()]);
    let mut d_sinks = vec![0.0; args.query.heads()];
    for s in 0..args.query.sequences() {
        for kv_head in 0..args.key.heads() {
            let keys = args.key.length(s);
            let (mut d_key, mut d_value) = (vec![0.0; keys * dim], vec![0.0; keys * value_dim]);
            let heads = kv_head * args.params.group_size()..(kv_head + 1) * args.params.group_size();
            for (h, d_sink) in heads.clone().zip(&mut d_sinks[heads]) {
                for i in 0..args.query.length(s) {
                    let query = QueryIndex { sequence: s, head: h, query: i };
                    let row = attention_row_backward(args, saved, s, h, i);
                    let d_query = gradients.query.row_mut(s, h, i);
                    d_query.iter_mut().zip(&row.d_query).for_each(|(d, &x)| *d = T::round_from(x));
                    for j in (0..args.params.key_count(s)).filter(|&j| row.d_scores[j].is_some()) {
                        let (d_key, d_value) =
                            (&mut d_key[j * dim..][..dim], &mut d_value[j * value_dim..][..value_dim]);
                        row.add_to_key(args, saved, query, j, d_key, d_value);
                    }
                    if let Some(d_mask) = &mut d_mask {
                        row.add_to_mask(args, query, d_mask);
                    }
                    *d_sink += row.d_sink;
                }
            }
            for j in 0..keys {
                let write =
                    |to: &mut [T], from: &[f64]| to.iter_mut().zip(from).for_each(|(d, &x)| *d = T::round_from(x));
                write(gradients.key.row_mut(s, kv_head, j), &d_key[j * dim..]);
                write(gradients.value.row_mut(s, kv_head, j), &d_value[j * value_dim..]);
            }
        }
    }
    let write =
        |to: &mut [T::Sum], from: &[f64]| to.iter_mut().zip(from).for_each(|(d, &x)| *d = T::Sum::round_from(x));
    if let (Some(to), Some(from)) = (gradients.mask, &d_mask) {
        write(to, from);
    }
    if let Some(to) = gradients.sinks {
        write(to, &d_sinks);
    }
}

impl RowGradients {
    /// Adds the query's contribution to the gradients of key `j`, which it sees: (dim,), and of its value: (value
    /// dim,).
    pub(super) fn add_to_key<T: Element, D: Real>(
        &self,
        args: &Attention<T>,
        saved: BackwardInputs<T>,
        QueryIndex { sequence: s, head: h, query: i }: QueryIndex,
        j: usize,
        d_key: &mut [D],
        d_value: &mut [D],
    ) {
        let (query, d_output) = (args.query.row(s, h, i), saved.d_output.row(s, h, i));
        d_key
            .iter_mut()
            .zip(query)
            .for_each(|(d, q)| *d += D::round_from(args.params.scale * self.d_products[j] * q.to_f64()));
        d_value.iter_mut().zip(d_output).for_each(|(d, y)| *d += D::round_from(self.dropped_weights[j] * y.to_f64()));
    }

    /// Adds the query's contribution to the gradient of an additive mask.
    pub(super) fn add_to_mask<T: Element, D: Real>(
        &self,
        args: &Attention<T>,
        QueryIndex { sequence: s, head: h, query: i }: QueryIndex,
        d_mask: &mut [D],
    ) {
        let Some(Mask::Additive(view)) = args.params.mask else { return };
        let place = view.contiguous();
        for (j, d_score) in self.d_scores.iter().enumerate() {
            if let Some(d_score) = d_score {
                d_mask[place.entry_index(s, h, i, j)] += D::round_from(*d_score);
            }
        }
    }
}
