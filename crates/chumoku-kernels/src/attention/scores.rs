//! Inspection of attention: scores and weights of one head, and statistics that never store all of them.
//!
//! The crate's matrix product computes the products of a block of queries at a time. The later steps work on their
//! rows. For f64 everything is in double precision. Rows with a score beyond f32 come from the reference
//! implementation, as does their output.

use super::heads::QueryIndex;
use super::mask::Mask;
use super::params::Attention;
use super::reference::{attention_row, dot, rounded_score};
use crate::error::{Error, Result};
use crate::gemm::{MatMut, MatRef, OutputInit, gemm};
use crate::number::{Element, Real};
use crate::softmax::softmax_forward;
use rayon::prelude::*;
use std::ops::Range;

/// Approximate number of scores that a task holds at a time; it determines the rows of a block.
const BLOCK_SCORES: usize = 1 << 20;

/// A stage in the computation of weights from products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScoreStage {
    /// `scale · Q Kᵀ`, for all pairs.
    Scaled,
    /// After softcap, for all pairs.
    Capped,
    /// The input of softmax: with ALiBi and additive masks, and −∞ for masked keys.
    Masked,
    /// After softmax: each row sums to 1, or less with a sink, or 0 if the query has nothing to attend to.
    Weights,
}

/// Statistics of the weights before dropout that need no query × key array. Only those with an output buffer are
/// computed. The previous contents are overwritten.
#[derive(Debug)]
pub struct AttentionStatistics<'a, S> {
    /// The total weight that each key receives over all queries: (batch, heads, S), packed (heads, key tokens). 0
    /// beyond a key length.
    pub mass: Option<&'a mut [S]>,
    /// The entropy of each query's weights, `−Σ w ln w`, in nats: (batch, heads, L), packed (heads, tokens). It is 0
    /// for a query with nothing to attend to, and ln n for n keys of equal weight.
    pub entropy: Option<&'a mut [S]>,
    /// The keys with the largest weights.
    pub top: Option<TopKeys<'a, S>>,
}

impl<S> Default for AttentionStatistics<'_, S> {
    fn default() -> Self {
        AttentionStatistics { mass: None, entropy: None, top: None }
    }
}

/// The `count` largest weights of each query in descending order. Among equal weights, the first key comes first.
#[derive(Debug)]
pub struct TopKeys<'a, S> {
    /// Number of keys per query.
    pub count: usize,
    /// Positions of the keys in their sequence: (batch, heads, L, count), packed (heads, tokens, count). `None` if the
    /// query sees fewer keys.
    pub keys: &'a mut [Option<usize>],
    /// Their weights, in the same shape; 0 for missing keys.
    pub weights: &'a mut [S],
}

impl<T: Element> Attention<'_, T> {
    /// Writes the scores of one sequence and head at a stage.
    ///
    /// The scores of masked pairs are always −∞ (or weight 0), whatever their query and key hold. Before
    /// [`ScoreStage::Masked`] they are ordinary products.
    ///
    /// A score beyond the largest number is ±∞. From [`ScoreStage::Masked`] on, −∞ means masked, and the lowest finite
    /// number replaces any other −∞. Weights are computed before this rounding, and agree with the output.
    ///
    /// # Shapes
    /// `scores` (L, keys), where keys is the key length of the sequence.
    ///
    /// # Errors
    /// Same as [`Attention::forward`]. Also if the sequence or head does not exist, or `scores` has the wrong length.
    pub fn scores(&self, stage: ScoreStage, sequence: usize, head: usize, scores: &mut [T::Sum]) -> Result<()> {
        self.check_head(sequence, head)?;
        self.query_scores(stage, sequence, head, 0..self.query.length(sequence), scores)
    }

    /// Writes the scores of a range of queries, like [`Attention::scores`].
    ///
    /// # Errors
    /// Same as [`Attention::scores`], and if the queries do not exist.
    pub fn query_scores(
        &self,
        stage: ScoreStage,
        sequence: usize,
        head: usize,
        queries: Range<usize>,
        scores: &mut [T::Sum],
    ) -> Result<()> {
        self.check()?;
        self.check_head(sequence, head)?;
        let length = self.query.length(sequence);
        if queries.start > queries.end || queries.end > length {
            let problem = format!("expected a range within 0..{length}, got {queries:?}");
            return Err(Error::value("attention: queries", problem));
        }
        let keys = self.params.key_count(sequence);
        let size = queries.len().saturating_mul(keys);
        Error::check_length("attention: scores", size, scores.len())?;
        if size == 0 {
            return Ok(());
        }
        let head = HeadScores::new(self, sequence, head);
        let rows = head.rows_at_a_time();
        scores.par_chunks_mut(rows * keys).enumerate().for_each(|(block, scores)| {
            let first = queries.start + block * rows;
            head.for_each_row(stage, first..first + scores.len() / keys, |row| {
                let out = &mut scores[(row.query - first) * keys..][..keys];
                let (rest, values) = match stage {
                    ScoreStage::Weights => (T::Sum::ZERO, row.weights),
                    _ => (T::Sum::NEG_INFINITY, row.scores),
                };
                out.fill(rest);
                out[row.keys].copy_from_slice(values);
            });
        });
        Ok(())
    }

    /// Returns the weights of one sequence and head: [`Attention::scores`] at [`ScoreStage::Weights`], before dropout.
    ///
    /// # Errors
    /// Same as [`Attention::forward`], and if the sequence or head does not exist.
    pub fn weights(&self, sequence: usize, head: usize) -> Result<Vec<T::Sum>> {
        self.check()?;
        self.check_head(sequence, head)?;
        let pairs = self.query.length(sequence).checked_mul(self.params.key_count(sequence));
        let pairs = pairs.ok_or_else(|| Error::value("attention: weights", "queries · keys overflows"))?;
        let mut weights = vec![T::Sum::ZERO; pairs];
        self.scores(ScoreStage::Weights, sequence, head, &mut weights)?;
        Ok(weights)
    }

    /// Computes statistics of the weights. Scratch memory is one block of queries per thread instead of all L × S
    /// weights.
    ///
    /// Sums run over queries and keys in order, in double precision: the bytes are the same for any number of threads.
    ///
    /// # Errors
    /// Same as [`Attention::forward`], and if a buffer has the wrong length for its shape.
    pub fn statistics(&self, mut results: AttentionStatistics<'_, T::Sum>) -> Result<()> {
        self.check()?;
        let mut received = self.key.layout;
        received.heads = self.query.heads();
        let total = received.row_count().unwrap_or(usize::MAX);
        if let Some(mass) = &mut results.mass {
            Error::check_length("attention: mass", total, mass.len())?;
            mass.fill(T::Sum::ZERO);
        }
        if let Some(entropy) = &results.entropy {
            self.check_rows("attention: entropy", entropy.len())?;
        }
        let count = results.top.as_ref().map_or(0, |top| top.count);
        if let Some(top) = &results.top {
            let size = self.rows().saturating_mul(count);
            Error::check_length("attention: top keys", size, top.keys.len())?;
            Error::check_length("attention: top weights", size, top.weights.len())?;
        }
        let heads = self.query.heads();
        let summaries: Vec<WeightStatistics> = (0..self.query.sequences() * heads)
            .into_par_iter()
            .map(|pair| HeadScores::new(self, pair / heads, pair % heads).statistics(results.mass.is_some(), count))
            .collect();
        for (pair, summary) in summaries.iter().enumerate() {
            let (s, h) = (pair / heads, pair % heads);
            if let Some(mass) = &mut results.mass {
                for (j, &sum) in summary.mass.iter().enumerate() {
                    mass[received.row_index(s, h, j)] = T::Sum::round_from(sum);
                }
            }
            for i in 0..self.query.length(s) {
                let at = self.query.layout.row_index(s, h, i);
                if let Some(entropy) = &mut results.entropy {
                    entropy[at] = T::Sum::round_from(summary.entropy[i]);
                }
                if let Some(top) = &mut results.top {
                    for (n, &best) in summary.top[i * count..][..count].iter().enumerate() {
                        top.keys[at * count + n] = best.map(|(key, _)| key);
                        top.weights[at * count + n] =
                            best.map_or(T::Sum::ZERO, |(_, weight)| T::Sum::round_from(weight));
                    }
                }
            }
        }
        Ok(())
    }

    fn check_head(&self, sequence: usize, head: usize) -> Result<()> {
        let (sequences, heads) = (self.query.sequences(), self.query.heads());
        if sequence < sequences && head < heads {
            return Ok(());
        }
        let problem = format!("expected below {sequences} and {heads}, got {sequence} and {head}");
        Err(Error::value("attention: sequence and head", problem))
    }

    /// Adds the biases of query `i` to the scores of the keys from `first` on, and sets masked scores to −∞. Returns
    /// whether all other scores are finite.
    fn mask_row(
        &self,
        QueryIndex { sequence: s, head: h, query: i }: QueryIndex,
        first: usize,
        scores: &mut [T::Sum],
    ) -> bool {
        let visible = self.params.visible_keys(s, i);
        let within = |j: usize| j.clamp(first, first + scores.len()) - first;
        let (start, end) = (within(visible.start), within(visible.end));
        scores[..start].fill(T::Sum::NEG_INFINITY);
        scores[end.max(start)..].fill(T::Sum::NEG_INFINITY);
        let keys = || (first + start..).zip(start..end);
        if let Some(slopes) = self.params.alibi {
            let (slope, at) = (f64::from(slopes[h]), i128::from(self.params.diagonal_offset(s)) + i as i128);
            for (j, column) in keys() {
                scores[column] += T::Sum::round_from(-slope * at.abs_diff(j as i128) as f64);
            }
        }
        let mut are_finite = true;
        match self.params.mask {
            None => return keys().all(|(_, column)| scores[column].is_finite()),
            Some(Mask::Boolean(view)) => {
                for (j, column) in keys() {
                    if view.data[view.entry_index(s, h, i, j)] {
                        are_finite &= scores[column].is_finite();
                    } else {
                        scores[column] = T::Sum::NEG_INFINITY;
                    }
                }
            }
            Some(Mask::Additive(view)) => {
                for (j, column) in keys() {
                    let bias = view.data[view.entry_index(s, h, i, j)];
                    // Selected, not added: NaN + −∞ would be NaN.
                    let score = scores[column] + bias;
                    let is_forbidden = bias == T::Sum::NEG_INFINITY;
                    scores[column] = if is_forbidden { bias } else { score };
                    are_finite &= is_forbidden || score.is_finite();
                }
            }
        }
        are_finite
    }
}

/// The scores of one query with the keys that any query of its block may see.
struct ScoreRow<'a, S> {
    query: usize,
    keys: Range<usize>,
    scores: &'a [S],
    /// Empty before [`ScoreStage::Weights`].
    weights: &'a [S],
}

/// The contents of [`AttentionStatistics`] for one sequence and head.
struct WeightStatistics {
    mass: Vec<f64>,
    entropy: Vec<f64>,
    top: Vec<Option<(usize, f64)>>,
}

/// Computes the scores of one sequence and head.
struct HeadScores<'a, T: Element> {
    args: &'a Attention<'a, T>,
    s: usize,
    h: usize,
    /// (keys, dim)
    key: Vec<T::Sum>,
}

impl<'a, T: Element> HeadScores<'a, T> {
    fn new(args: &'a Attention<'a, T>, s: usize, h: usize) -> Self {
        let rows = (0..args.params.key_count(s)).flat_map(|j| args.key.row(s, args.params.key_head(h), j));
        HeadScores { args, s, h, key: rows.map(|x| T::Sum::round_from(x.to_f64())).collect() }
    }

    fn rows_at_a_time(&self) -> usize {
        (BLOCK_SCORES / self.args.params.key_count(self.s).max(1)).clamp(8, 64)
    }

    /// Calls `f` with each row of scores and, at [`ScoreStage::Weights`], of weights.
    fn for_each_row(&self, stage: ScoreStage, queries: Range<usize>, mut f: impl FnMut(ScoreRow<T::Sum>)) {
        let &HeadScores { args, s, h, .. } = self;
        let dim = args.query.dim();
        let mut keys = 0..args.params.key_count(s);
        if stage >= ScoreStage::Masked {
            let visible = || queries.clone().map(|i| args.params.visible_keys(s, i)).filter(|range| !range.is_empty());
            let start = visible().map(|range| range.start).min().unwrap_or(0);
            keys = start..visible().map(|range| range.end).max().unwrap_or(start);
        }
        // A sink is one more score, in an additional column.
        let sink = args
            .params
            .sinks
            .filter(|_| stage == ScoreStage::Weights)
            .map(|sinks| T::Sum::round_from(f64::from(sinks[h])));
        let width = keys.len() + usize::from(sink.is_some());
        let query: Vec<T::Sum> = queries
            .clone()
            .flat_map(|i| args.query.row(s, h, i))
            .map(|x| T::Sum::round_from(args.params.scale * x.to_f64()))
            .collect();
        let mut block = vec![T::Sum::ZERO; queries.len() * width];
        let mut product = || {
            let query = MatRef::new(&query, queries.len(), dim)?;
            let key = MatRef::new(&self.key[keys.start * dim..keys.end * dim], keys.len(), dim)?;
            let scores = MatMut::strided(&mut block, queries.len(), keys.len(), width)?;
            gemm(query, key.t(), OutputInit::Zero, scores, args.params.precision)
        };
        product().expect("made to these shapes just above");
        let mut weights = vec![T::Sum::ZERO; if stage == ScoreStage::Weights { width } else { 0 }];
        for (n, query) in queries.enumerate() {
            let row = &mut block[n * width..][..width];
            let scores = &mut row[..keys.len()];
            self.recompute_nonfinite(stage, query, keys.start, scores);
            if let Some(cap) = args.params.softcap.filter(|_| stage >= ScoreStage::Capped) {
                scores.iter_mut().for_each(|x| *x = T::Sum::round_from(cap * (x.to_f64() / cap).tanh()));
            }
            let are_finite = stage < ScoreStage::Masked
                || args.mask_row(QueryIndex { sequence: s, head: h, query }, keys.start, scores);
            if !are_finite {
                self.fill_from_reference(query, keys.start, scores, &mut weights);
            } else if stage == ScoreStage::Weights && width > 0 {
                row[keys.len()..].iter_mut().zip(sink).for_each(|(x, sink)| *x = sink);
                softmax_forward(row, width, &mut weights).expect("one row, and room for it");
            }
            let weights = weights.get(..keys.len()).unwrap_or_default();
            f(ScoreRow { query, keys: keys.clone(), scores: &row[..keys.len()], weights });
        }
    }

    /// Recomputes non-finite products in double precision, because their partial sums may have overflowed. From
    /// [`ScoreStage::Masked`] on, it skips keys outside the query's range.
    fn recompute_nonfinite(&self, stage: ScoreStage, query: usize, first: usize, scores: &mut [T::Sum]) {
        let &HeadScores { args, s, h, .. } = self;
        let visible = if stage >= ScoreStage::Masked { args.params.visible_keys(s, query) } else { 0..usize::MAX };
        for (j, score) in (first..).zip(scores).filter(|(j, score)| visible.contains(j) && !score.is_finite()) {
            let key = args.key.row(s, args.params.key_head(h), j);
            *score = T::Sum::round_from(args.params.scale * dot(args.query.row(s, h, query), key));
        }
    }

    /// Takes the weights of a query, and its non-finite scores, from the reference implementation. `weights` may be
    /// empty.
    fn fill_from_reference(&self, query: usize, first: usize, scores: &mut [T::Sum], weights: &mut [T::Sum]) {
        let plain = attention_row(self.args, self.s, self.h, query);
        weights.fill(T::Sum::ZERO);
        for (column, score) in scores.iter_mut().enumerate() {
            let (exact, weight) = (plain.scores[first + column], plain.weights[first + column]);
            let Some(exact) = exact else { continue };
            if !score.is_finite() {
                *score = rounded_score(exact);
            }
            if let Some(to) = weights.get_mut(column) {
                *to = T::Sum::round_from(weight);
            }
        }
    }

    fn statistics(&self, wants_mass: bool, count: usize) -> WeightStatistics {
        let (length, keys) = (self.args.query.length(self.s), self.args.params.key_count(self.s));
        let mass = vec![0.0; if wants_mass { keys } else { 0 }];
        let mut summary = WeightStatistics { mass, entropy: vec![0.0; length], top: vec![None; length * count] };
        let rows = self.rows_at_a_time();
        for first in (0..length).step_by(rows) {
            self.for_each_row(ScoreStage::Weights, first..length.min(first + rows), |row| {
                if wants_mass {
                    let mass = &mut summary.mass[row.keys.clone()];
                    mass.iter_mut().zip(row.weights).for_each(|(sum, weight)| *sum += weight.to_f64());
                }
                summary.entropy[row.query] = entropy(&row);
                insert_top(&row, &mut summary.top[row.query * count..][..count]);
            });
        }
        summary
    }
}

/// Computes `−Σ w ln w` with one logarithm: `ln w = score − largest score + ln(largest weight)`.
fn entropy<S: Real>(row: &ScoreRow<S>) -> f64 {
    let pairs = || row.scores.iter().zip(row.weights).filter(|(score, _)| **score != S::NEG_INFINITY);
    let largest = pairs().max_by(|a, b| a.1.to_f64().total_cmp(&b.1.to_f64()));
    let Some((largest, weight)) = largest else { return 0.0 };
    if *weight == S::ZERO {
        // A sink has all the weight.
        return 0.0;
    }
    if !largest.is_finite() {
        // The differences to an infinite score are unknown.
        let weights = pairs().map(|(_, weight)| weight.to_f64()).filter(|weight| *weight != 0.0);
        return -weights.map(|weight| weight * weight.ln()).sum::<f64>();
    }
    let ln_weight = weight.to_f64().ln();
    pairs().map(|(score, weight)| weight.to_f64() * (largest.to_f64() - score.to_f64() - ln_weight)).sum()
}

/// Inserts the largest weights into `top`, in descending order.
fn insert_top<S: Real>(row: &ScoreRow<S>, top: &mut [Option<(usize, f64)>]) {
    for (key, (score, weight)) in row.keys.clone().zip(row.scores.iter().zip(row.weights)) {
        let weight = weight.to_f64();
        let precedes = |other: &Option<(usize, f64)>| other.is_none_or(|(_, other)| weight.total_cmp(&other).is_gt());
        if *score != S::NEG_INFINITY && top.last().is_some_and(precedes) {
            let place = top.partition_point(|other| !precedes(other));
            top[place..].rotate_right(1);
            top[place] = Some((key, weight));
        }
    }
}
