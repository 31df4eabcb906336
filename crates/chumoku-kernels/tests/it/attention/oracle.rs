//! Attention by its definition, one pair of query and key at a time, in double precision. It shares only the random
//! numbers of dropout with the crate.

use crate::attention::case::{Case, Data, Results, dropout_random};
use chumoku_kernels::Causal;

/// Expected results, and for each value the magnitude of the terms in its sum, which bounds its rounding error.
pub(crate) struct Truth {
    pub(crate) results: Results,
    pub(crate) terms: Results,
    /// The largest score in absolute value.
    pub(crate) largest_score: f64,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    for (a, b) in a.chunks(8).zip(b.chunks(8)) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
    }
    sums.iter().sum()
}

fn add(to: &mut [f64], factor: f64, from: &[f64]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += factor * from);
}

fn add_sizes(to: &mut [f64], factor: f64, from: &[f64]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += (factor * from).abs());
}

impl Case {
    /// Returns the key position of query `i` of sequence `s`.
    fn diagonal(&self, s: usize, i: usize) -> i128 {
        let form = self.window.map(|window| window.2).or(self.causal).unwrap_or_default();
        let offset = match form {
            Causal::TopLeft => 0,
            Causal::BottomRight => self.keys(s) as i128 - self.lengths[s].0 as i128,
            Causal::Offset(offset) => i128::from(offset),
        };
        i as i128 + offset
    }

    /// Returns whether query `i` attends to key `j`.
    pub(crate) fn sees(&self, data: &Data, (s, h, i): (usize, usize, usize), j: usize) -> bool {
        let (at, key) = (self.diagonal(s, i), j as i128);
        let causal = self.causal.is_none() || key <= at;
        let window = self.window.is_none_or(|(left, right, _)| {
            left.is_none_or(|left| key >= at - left as i128) && right.is_none_or(|right| key <= at + right as i128)
        });
        let entry = self.mask.is_none_or(|form| {
            let (at, _) = self.mask_entry(s, h, i, j);
            if form.is_additive { data.bias[at] != f32::NEG_INFINITY } else { data.allowed[at] }
        });
        j < self.keys(s) && causal && window && entry
    }

    fn bias(&self, data: &Data, (s, h, i): (usize, usize, usize), j: usize) -> f64 {
        let distance = (self.diagonal(s, i) - j as i128).abs() as f64;
        let linear = if self.alibi { -f64::from(data.slopes[h]) * distance } else { 0.0 };
        let entry = match self.mask {
            Some(form) if form.is_additive => f64::from(data.bias[self.mask_entry(s, h, i, j).0]),
            _ => 0.0,
        };
        linear + entry
    }

    /// Returns the dropout factor of the weight of a pair.
    fn dropout_factor(&self, (s, h, i): (usize, usize, usize), j: usize) -> f64 {
        if self.dropout == 0.0 {
            return 1.0;
        }
        // Groups of eight queries and sixteen keys: sixteen bits of a word for each pair.
        let group = ((s * self.heads + h) as u64) << 36 | (j as u64 / 16) << 18 | (i as u64 / 8);
        let word = dropout_random().block(group * 16 + j as u64 % 16)[i % 8 / 2];
        let threshold = (f64::from(self.dropout) * 65536.0).round();
        let factor = f64::from((65536.0 / (65536.0 - threshold)) as f32);
        if f64::from(word >> (16 * (i % 2)) & 0xFFFF) < threshold { 0.0 } else { factor }
    }

    /// Computes all results.
    pub(crate) fn truth(&self, data: &Data) -> Truth {
        let (dim, value_dim) = (self.dim, self.value_dim);
        let (queries, keys) = (self.query(), self.key());
        let scale = self.scale.unwrap_or(1.0 / (dim as f64).sqrt());
        let d_mask_size = match (self.mask, self.mask_axes()) {
            (Some(form), Some((shape, _))) if form.is_additive => shape.iter().product(),
            _ => 0,
        };
        let zeros = Results {
            output: vec![0.0; data.d_output.len()],
            log_sum_exp: vec![f64::NEG_INFINITY; queries.rows()],
            d_query: vec![0.0; data.query.len()],
            d_key: vec![0.0; data.key.len()],
            d_value: vec![0.0; data.value.len()],
            d_mask: vec![0.0; d_mask_size],
            d_sinks: vec![0.0; if self.sinks { self.heads } else { 0 }],
        };
        let (mut results, mut terms) = (zeros.clone(), zeros);
        let mut largest_score = 0.0f64;
        for (row, (s, h, i)) in queries.places().enumerate() {
            let query = &data.query[row * dim..][..dim];
            let d_output = &data.d_output[row * value_dim..][..value_dim];
            let kv = h * self.key_heads / self.heads;
            let visible: Vec<usize> = (0..self.keys(s)).filter(|&j| self.sees(data, (s, h, i), j)).collect();
            let key_row = |j: usize| keys.row(s, kv, j);
            let key = |j: usize| &data.key[key_row(j) * dim..][..dim];
            let value = |j: usize| &data.value[key_row(j) * value_dim..][..value_dim];

            // Scores, weights and the derivative of the softcap.
            let (mut scores, mut slopes) = (vec![], vec![]);
            for &j in &visible {
                let product = scale * dot(query, key(j));
                let capped = self.softcap.map_or(product, |cap| cap * (product / cap).tanh());
                slopes.push(self.softcap.map_or(1.0, |cap| (product / cap).cosh().powi(-2)));
                scores.push(capped + self.bias(data, (s, h, i), j));
                largest_score = largest_score.max(product.abs()).max(scores[scores.len() - 1].abs());
            }
            let sink = self.sinks.then(|| f64::from(data.sinks[h]));
            let largest = scores.iter().copied().chain(sink).fold(f64::NEG_INFINITY, f64::max);
            if largest == f64::NEG_INFINITY {
                continue;
            }
            let total = scores.iter().copied().chain(sink).map(|score| (score - largest).exp()).sum::<f64>();
            let log_sum_exp = largest + total.ln();
            let weight = |score: f64| (score - largest).exp() / total;
            let weights: Vec<f64> = scores.iter().copied().map(weight).collect();
            results.log_sum_exp[row] = log_sum_exp;

            let output = &mut results.output[row * value_dim..][..value_dim];
            let kept: Vec<f64> = visible.iter().map(|&j| self.dropout_factor((s, h, i), j)).collect();
            for ((&j, weight), keep) in visible.iter().zip(&weights).zip(&kept) {
                add(output, weight * keep, value(j));
                add_sizes(&mut terms.output[row * value_dim..][..value_dim], weight * keep, value(j));
            }

            // Gradients: of the weights, the scores, the products.
            let d_lse = if self.d_log_sum_exp { data.d_log_sum_exp[row] } else { 0.0 };
            let d_weights: Vec<f64> =
                visible.iter().zip(&kept).map(|(&j, keep)| keep * dot(d_output, value(j))).collect();
            let mean: f64 = weights.iter().zip(&d_weights).map(|(weight, d)| weight * d).sum();
            // Rounding errors of d score: those of its terms, and that of the weight, which grows with its score.
            let mean_size = dot(
                &output.iter().map(|x| x.abs()).collect::<Vec<_>>(),
                &d_output.iter().map(|x| x.abs()).collect::<Vec<_>>(),
            ) + d_lse.abs();
            for (at, &j) in visible.iter().enumerate() {
                let d_score = weights[at] * (d_weights[at] - mean + d_lse);
                let size = weights[at] * (d_weights[at].abs() + mean_size);
                let d_product = scale * d_score * slopes[at];
                let product_size = scale.abs() * size * slopes[at].abs();
                let (d_key, d_value) = (key_row(j) * dim, key_row(j) * value_dim);
                add(&mut results.d_query[row * dim..][..dim], d_product, key(j));
                add_sizes(&mut terms.d_query[row * dim..][..dim], product_size, key(j));
                add(&mut results.d_key[d_key..][..dim], d_product, query);
                add_sizes(&mut terms.d_key[d_key..][..dim], product_size, query);
                add(&mut results.d_value[d_value..][..value_dim], weights[at] * kept[at], d_output);
                add_sizes(&mut terms.d_value[d_value..][..value_dim], weights[at] * kept[at], d_output);
                if d_mask_size > 0 {
                    let (_, place) = self.mask_entry(s, h, i, j);
                    results.d_mask[place] += d_score;
                    terms.d_mask[place] += size;
                }
            }
            if let Some(sink) = sink {
                let weight = weight(sink);
                results.d_sinks[h] += weight * (d_lse - mean);
                terms.d_sinks[h] += weight * mean_size;
            }
        }
        terms.log_sum_exp = results.log_sum_exp.iter().map(|x| x.abs() + 1.0).collect();
        Truth { results, terms, largest_score }
    }
}
