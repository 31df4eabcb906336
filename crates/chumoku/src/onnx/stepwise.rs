//! Computes the operator `Attention` in f16 and bf16 as its definition does: one operator after another, each with a
//! result of that type.

use super::compute::{AttentionOperands, OutputAndScores};
use super::float::{FloatElement, FloatType, tensor, values, zero_vec};
use super::operator_params::OperatorParams;
use crate::Result;
use chumoku_kernels::{Attention, Heads, HeadsMut, Real, ScoreStage, bf16, f16, parallel};

/// Longest row whose softmax is summed in bf16. Adding n numbers of 8 bits one after another has an error of up to
/// n/512 of their sum, and after some hundreds the sum no longer grows. Longer rows are summed in f32.
const MAX_BF16_SUM_LENGTH: usize = 16;

impl AttentionOperands<'_> {
    /// Sums products in f32 and rounds them at the end. Every other operation is rounded number by number.
    pub(super) fn run_stepwise<T: FloatElement>(&self, wants_scores: bool) -> Result<OutputAndScores> {
        let problem = self.params;
        let root = T::round_from(problem.scale.sqrt()).to_f64() as f32;
        let rooted = |tensor| values::<f32>(tensor).iter().map(|&x| round_to::<T>(x * root)).collect::<Vec<f32>>();
        let (query, key) = (rooted(self.inputs.query), rooted(self.inputs.key));
        let value = values::<f32>(self.inputs.value);
        let value = self.value.heads(&value)?;
        let products = Attention::new(problem.query.heads(&query)?, self.key.heads(&key)?, value).scale(1.0);
        // With zero queries and keys, the scores are what the masks add.
        let zero = |heads, length| Heads::strided(&[0.0f32], [problem.query.batch, heads, length, 1], [0; 3]);
        let zero_key = zero(problem.key.heads, problem.mask_keys)?;
        let entries = self.mask_entries();
        let zeros = Attention::new(zero(problem.query.heads, problem.query.length)?, zero_key, zero_key);
        let steps =
            StepwiseAttention { params: problem, scores: products, masks: self.with_masks(zeros, &entries)?, value };

        let shape = problem.scores_shape();
        let [batch, heads, queries, total] = shape;
        let mut scores: Vec<T> = if wants_scores { zero_vec("qk_matmul_output", &shape)? } else { Vec::new() };
        let mut parts: Vec<&mut [T]> = scores.chunks_mut((queries * total).max(1)).collect();
        parts.resize_with(batch * heads, Default::default);
        let outputs = parallel::map_chunks(&mut parts, 1, |pair, part| steps.head(pair / heads, pair % heads, part[0]));
        let outputs: Vec<Vec<T>> = outputs.into_iter().collect::<Result<_>>()?;

        let place = problem.query.with_dim(problem.value.dim);
        let mut output: Vec<T> = zero_vec("Y", &place.shape())?;
        let mut rows = HeadsMut::strided(&mut output, place.bhld(), place.strides())?;
        for (pair, head) in outputs.iter().enumerate() {
            for (i, row) in head.chunks_exact(place.dim).enumerate() {
                rows.row_mut(pair / heads, pair % heads, i).copy_from_slice(row);
            }
        }
        let scores = wants_scores.then(|| tensor(scores, &shape, T::FLOAT));
        Ok((tensor(output, &place.shape(), T::FLOAT), scores))
    }
}

/// Rounds x to `T`.
fn round_to<T: FloatElement>(x: f32) -> f32 {
    T::round_from(f64::from(x)).to_f64() as f32
}

struct StepwiseAttention<'a> {
    params: &'a OperatorParams,
    /// √scale Q · (√scale K)ᵀ
    scores: Attention<'a, f32>,
    /// The bias that masks add to scores.
    masks: Attention<'a, f32>,
    value: Heads<'a, f32>,
}

impl StepwiseAttention<'_> {
    /// Returns the outputs of one sequence and head, (L, value dim). Writes its scores, (L, P + S), unless `scores` is
    /// empty.
    fn head<T: FloatElement>(&self, s: usize, h: usize, scores: &mut [T]) -> Result<Vec<T>> {
        let problem = self.params;
        let [_, heads, queries, total] = problem.scores_shape();
        let (keys, key_head) = (problem.visible_keys(s), h / (heads / problem.key.heads));
        let mut output: Vec<T> = zero_vec("Y", &[queries, problem.value.dim])?;
        // Rows at a time, so that their scores stay small.
        let at_a_time = ((1 << 20) / total.max(1)).clamp(8, 64);
        for first in (0..queries).step_by(at_a_time) {
            let block = first..queries.min(first + at_a_time);
            let (mut rows, mut biases) = (vec![0.0; block.len() * total], vec![0.0; block.len() * keys]);
            self.scores.query_scores(ScoreStage::Scaled, s, h, block.clone(), &mut rows)?;
            self.masks.query_scores(ScoreStage::Masked, s, h, block.clone(), &mut biases)?;
            for (n, i) in block.enumerate() {
                let (row, bias) = (&mut rows[n * total..][..total], &biases[n * keys..][..keys]);
                let out = if scores.is_empty() { &mut [] } else { &mut scores[i * total..][..total] };
                self.row_weights(row, bias, out);
                let output = &mut output[i * problem.value.dim..][..problem.value.dim];
                let mut sums = vec![0.0; output.len()];
                // Hidden keys are skipped, not multiplied by 0.
                for (j, &weight) in row[..keys].iter().enumerate().filter(|&(j, _)| bias[j] != f32::NEG_INFINITY) {
                    let value = self.value.row(s, key_head, j);
                    sums.iter_mut().zip(value).for_each(|(sum, v)| *sum += weight * v);
                }
                output.iter_mut().zip(&sums).for_each(|(y, &sum)| *y = T::round_from(f64::from(sum)));
            }
        }
        Ok(output)
    }

    /// Turns a row of products into weights. Writes the requested stage to `out`.
    fn row_weights<T: FloatElement>(&self, row: &mut [f32], bias: &[f32], out: &mut [T]) {
        let problem = self.params;
        let mut show = |stage, row: &[f32]| {
            if stage == problem.stage && !out.is_empty() {
                out.fill(T::round_from(problem.hidden_value()));
                out.iter_mut().zip(row).for_each(|(out, &x)| *out = T::round_from(f64::from(x)));
            }
        };
        row.iter_mut().for_each(|x| *x = round_to::<T>(*x));
        show(ScoreStage::Scaled, row);
        if let Some(cap) = problem.softcap {
            let cap = round_to::<T>(cap as f32);
            row.iter_mut().for_each(|x| *x = round_to::<T>(round_to::<T>(round_to::<T>(*x / cap).tanh()) * cap));
        }
        show(ScoreStage::Capped, row);
        let row = &mut row[..bias.len()];
        for (x, &bias) in row.iter_mut().zip(bias) {
            *x = if bias == f32::NEG_INFINITY { bias } else { round_to::<T>(*x + round_to::<T>(bias)) };
        }
        show(ScoreStage::Masked, row);
        match problem.softmax_type {
            FloatType::F16 => softmax(row, round_to::<f16>, false),
            FloatType::Bf16 => softmax(row, round_to::<bf16>, row.len() <= MAX_BF16_SUM_LENGTH),
            FloatType::F32 | FloatType::F64 => softmax(row, |x| x, false),
        }
        row.iter_mut().for_each(|weight| *weight = round_to::<T>(*weight));
        show(ScoreStage::Weights, row);
    }
}

/// Applies softmax in place and rounds every number. The sum is rounded once at the end, or after each addition. Scores
/// of −∞ give 0.
///
/// It differs from the kernels' softmax: the operator's definition rounds after every step.
fn softmax(row: &mut [f32], round: impl Fn(f32) -> f32, rounds_additions: bool) {
    row.iter_mut().for_each(|x| *x = round(*x));
    let largest = row.iter().copied().fold(f32::NEG_INFINITY, Real::max);
    let mut sum = 0.0;
    for x in row.iter_mut() {
        *x = if *x == f32::NEG_INFINITY { 0.0 } else { round(round(*x - largest).exp()) };
        sum = if rounds_additions { round(sum + *x) } else { sum + *x };
    }
    let sum = round(sum);
    row.iter_mut().filter(|x| **x != 0.0).for_each(|x| *x = round(*x / sum));
}
