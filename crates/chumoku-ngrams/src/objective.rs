//! Multinomial logistic regression: objective, gradient and Hessian products.
//!
//! f(W, b) = ½ ‖W‖² + ½ ρ ‖b − b₀‖² + C Σᵢ cᵢ · (−ln pᵢ,yᵢ),   pᵢ = softmax(xᵢ W + b)
//!
//! for weights W (features, outputs) and bias b (outputs). cᵢ is the weight of row i, and b₀ is the logarithm of the
//! class shares. ρ is small; it keeps the bias of a class without rows finite. Two classes have one output z with p = 1
//! / (1 + e⁻ᶻ). With rᵢ = cᵢ (pᵢ − onehot(yᵢ)),
//!
//! ∇f = (W, ρ (b − b₀)) + C (Xᵀ r, Σᵢ rᵢ),   H v = (v_W, ρ v_b) + C (Xᵀ s, Σᵢ sᵢ),
//! sᵢ = cᵢ (pᵢ ∘ uᵢ − pᵢ ⟨pᵢ, uᵢ⟩),   u = X v_W + v_b.
//!
//! Source: Lin, Weng & Keerthi, "Trust region Newton method for large-scale logistic regression", JMLR 9, 2008.
//!
//! Multi-label targets have one output per label, with p = 1 / (1 + e⁻ᶻ): one binary problem per label, all solved
//! together. Then −ln pᵢ is the sum over the labels, rᵢ = cᵢ (pᵢ − yᵢ) and sᵢ = cᵢ pᵢ ∘ (1 − pᵢ) ∘ uᵢ.
//!
//! # Row space instead of feature space
//!
//! If W = Xᵀ A for some A (rows, outputs), the gradient is Xᵀ (A + C r), and H v is Xᵀ (V + C s) for v = Xᵀ V. All
//! iterates therefore keep this form, and so does the optimum (the representer theorem). Every vector is stored as its
//! A, because there are far fewer texts than n-grams. Scores are G A with G = X Xᵀ, and inner products are ⟨Xᵀ A, Xᵀ B⟩
//! = ⟨A, G B⟩.

use super::column_matrix::{ColumnMatrix, padded_width};
use super::target::{log_loss, probabilities};
use super::vector::{ROW_BLOCK, dot, scale_and_add};
use chumoku_kernels::parallel;

/// ρ in the formulas above.
const BIAS_RIDGE: f32 = 0.01;

/// The objective of logistic regression.
pub(crate) struct LogisticObjective<'a> {
    /// (rows, features)
    pub x: &'a ColumnMatrix,
    /// The target ids of each row.
    pub labels: &'a [&'a [u32]],
    /// True for multi-label targets.
    pub(crate) is_multi_label: bool,
    /// Weight of each row.
    pub(crate) row_weights: &'a [f32],
    /// Number of outputs: 1 for two classes, else the number of classes or labels.
    pub outputs: usize,
    /// b₀, the bias of a class without evidence.
    pub(crate) prior: &'a [f32],
}

/// A point (weights and bias) or a direction.
#[derive(Debug, Clone)]
pub(crate) struct DualVector {
    /// A, which represents the weights Xᵀ A, (rows, [`LogisticObjective::width`]).
    pub(crate) dual: Vec<f32>,
    /// G A, the scores without the bias, (rows, [`LogisticObjective::width`]).
    pub scores: Vec<f32>,
    /// (outputs)
    pub bias: Vec<f32>,
}

impl DualVector {
    /// Returns the inner product ⟨self, other⟩ of weights and biases.
    pub(super) fn dot(&self, other: &DualVector) -> f64 {
        dot(&self.dual, &other.scores) + dot(&self.bias, &other.bias)
    }
}

/// Returns the block with this index.
fn nth_block(numbers: &[f32], size: usize, block: usize) -> &[f32] {
    &numbers[block * size..numbers.len().min((block + 1) * size)]
}

impl LogisticObjective<'_> {
    /// Returns the row length of all matrices: outputs, followed by zeros.
    pub(super) fn width(&self) -> usize {
        padded_width(self.outputs)
    }

    pub(super) fn zero(&self) -> DualVector {
        let cells = vec![0.0; self.x.num_rows() * self.width()];
        DualVector { dual: cells.clone(), scores: cells, bias: vec![0.0; self.outputs] }
    }

    /// Returns the start point: W = 0, b = b₀.
    pub(crate) fn start(&self) -> DualVector {
        DualVector { bias: self.prior.to_vec(), ..self.zero() }
    }

    /// Sets `at` to an A (rows, outputs) and a bias, without its scores.
    pub(crate) fn set_point(&self, dual: &[f32], bias: &[f32], at: &mut DualVector) {
        let rows = at.dual.chunks_exact_mut(self.width()).zip(dual.chunks_exact(self.outputs));
        rows.for_each(|(row, given)| row[..self.outputs].copy_from_slice(given));
        at.bias.copy_from_slice(bias);
    }

    /// Converts a matrix (rows, width) into (rows, outputs).
    pub(crate) fn unpadded(&self, of: &[f32]) -> Vec<f32> {
        of.chunks_exact(self.width()).flat_map(|row| &row[..self.outputs]).copied().collect()
    }

    /// Returns W by row (features, outputs), followed by b.
    pub(crate) fn weights(&self, at: &DualVector) -> Vec<f32> {
        let mut weights = self.x.weights(&at.dual, self.width(), self.outputs);
        weights.extend_from_slice(&at.bias);
        weights
    }

    /// Returns Σᵢ cᵢ · (−ln pᵢ,yᵢ) at the scores of `at` plus `length` times those of `step`.
    pub(super) fn loss(&self, at: &DualVector, length: f32, step: &DualVector) -> f64 {
        let rows = ROW_BLOCK * self.width();
        let losses = parallel::map_indices(at.scores.len().div_ceil(rows), |block| {
            let (scores, steps) = (nth_block(&at.scores, rows, block), nth_block(&step.scores, rows, block));
            let mut sum = 0.0_f64;
            let mut moved = vec![0.0; self.outputs];
            let rows = scores.chunks_exact(self.width()).zip(steps.chunks_exact(self.width()));
            for (row, (scores, steps)) in (block * ROW_BLOCK..).zip(rows) {
                for (output, moved) in moved.iter_mut().enumerate() {
                    *moved = scores[output] + at.bias[output] + length * (steps[output] + step.bias[output]);
                }
                sum += f64::from(self.row_weights[row]) * log_loss(&moved, self.labels[row], self.is_multi_label);
            }
            sum
        });
        losses.iter().sum()
    }

    /// Returns the increase of ½ ρ ‖b − b₀‖² from `at` to `at` plus `length` times `step`.
    pub(super) fn bias_penalty_added(&self, at: &DualVector, length: f32, step: &DualVector) -> f64 {
        let biases = at.bias.iter().zip(&step.bias).zip(self.prior);
        let grown = biases.map(|((b, step), prior)| {
            let (from, change) = (f64::from(b - prior), f64::from(length * step));
            change * (from + 0.5 * change)
        });
        f64::from(BIAS_RIDGE) * grown.sum::<f64>()
    }

    /// Returns f(W, b).
    #[cfg(test)]
    pub(crate) fn value(&self, at: &DualVector, c: f32) -> f64 {
        let biases = at.bias.iter().zip(self.prior).map(|(b, prior)| f64::from((b - prior) * (b - prior)));
        let penalty = 0.5 * dot(&at.dual, &at.scores) + 0.5 * f64::from(BIAS_RIDGE) * biases.sum::<f64>();
        penalty + f64::from(c) * self.loss(at, 0.0, &self.zero())
    }

    /// Computes pᵢ of every row.
    pub(super) fn probabilities(&self, at: &DualVector, out: &mut [f32]) {
        let block = ROW_BLOCK * self.width();
        parallel::for_each_chunk(out, block, |i, out| {
            let scores = nth_block(&at.scores, block, i);
            let rows = out.chunks_exact_mut(self.width()).zip(scores.chunks_exact(self.width()));
            for (row, scores) in rows {
                let row = &mut row[..self.outputs];
                row.iter_mut().zip(scores).zip(&at.bias).for_each(|((p, score), bias)| *p = score + bias);
                probabilities(row, self.is_multi_label);
            }
        });
    }

    /// Computes the gradient of f, without its scores.
    pub(super) fn gradient(&self, at: &DualVector, c: f32, probabilities: &[f32], gradient: &mut DualVector) {
        let block = ROW_BLOCK * self.width();
        parallel::for_each_chunk(&mut gradient.dual, block, |i, residuals| {
            residuals.copy_from_slice(nth_block(probabilities, block, i));
            for (row, residual) in (i * ROW_BLOCK..).zip(residuals.chunks_exact_mut(self.width())) {
                match (&mut residual[..self.outputs], self.labels[row]) {
                    ([one], &[label]) if !self.is_multi_label => *one -= label as f32,
                    (many, labels) => labels.iter().for_each(|&label| many[label as usize] -= 1.0),
                }
                residual.iter_mut().for_each(|r| *r *= self.row_weights[row]);
            }
        });
        for (output, sum) in self.column_sums(&gradient.dual).into_iter().enumerate() {
            let pull = BIAS_RIDGE * (at.bias[output] - self.prior[output]);
            gradient.bias[output] = (f64::from(c) * sum) as f32 + pull;
        }
        scale_and_add(&mut gradient.dual, c, &at.dual);
    }

    /// Computes the scores of a vector from its A. `work` is reused by later calls.
    pub(crate) fn fill_scores(&self, of: &mut DualVector, work: &mut Vec<Vec<f32>>) {
        self.x.gram_times(&of.dual, self.width(), &mut of.scores, work);
    }

    /// Returns Σᵢ of each output for a matrix (rows, width).
    fn column_sums(&self, of: &[f32]) -> Vec<f64> {
        let block = ROW_BLOCK * self.width();
        let blocks = parallel::map_indices(of.len().div_ceil(block), |i| {
            let mut sums = vec![0.0_f64; self.outputs];
            for row in nth_block(of, block, i).chunks_exact(self.width()) {
                sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x));
            }
            sums
        });
        let mut sums = vec![0.0_f64; self.outputs];
        for block in blocks {
            sums.iter_mut().zip(block).for_each(|(sum, part)| *sum += part);
        }
        sums
    }

    /// Computes `out` = H `v` without its scores, at the given probabilities.
    pub(super) fn hessian_times(&self, probabilities: &[f32], c: f32, v: &DualVector, out: &mut DualVector) {
        let (width, outputs) = (self.width(), self.outputs);
        let block = ROW_BLOCK * width;
        parallel::for_each_chunk(&mut out.dual, block, |i, out| {
            let (probabilities, scores) = (nth_block(probabilities, block, i), nth_block(&v.scores, block, i));
            let rows = out.chunks_exact_mut(width).zip(probabilities.chunks_exact(width));
            let weights = &self.row_weights[i * ROW_BLOCK..];
            for (((out, p), u), &weight) in rows.zip(scores.chunks_exact(width)).zip(weights) {
                if outputs == 1 || self.is_multi_label {
                    for (((out, p), u), bias) in out.iter_mut().zip(p).zip(u).zip(&v.bias) {
                        *out = weight * p * (1.0 - p) * (u + bias);
                    }
                    continue;
                }
                let mut mean = 0.0;
                for (((out, p), u), bias) in out.iter_mut().zip(p).zip(u).zip(&v.bias) {
                    *out = u + bias;
                    mean += p * *out;
                }
                out[..outputs].iter_mut().zip(p).for_each(|(out, p)| *out = weight * p * (*out - mean));
            }
        });
        for (output, sum) in self.column_sums(&out.dual).into_iter().enumerate() {
            out.bias[output] = (f64::from(c) * sum) as f32 + BIAS_RIDGE * v.bias[output];
        }
        scale_and_add(&mut out.dual, c, &v.dual);
    }

    /// Returns the inverse diagonal of H for the bias. The weights use only the penalty's 1: no A can represent their
    /// diagonal, and it saves no product on most data sets of `bench/record`.
    pub(super) fn preconditioner(&self, probabilities: &[f32], c: f32) -> Vec<f32> {
        let mut curvature = vec![0.0_f64; self.outputs];
        for (row, &weight) in probabilities.chunks_exact(self.width()).zip(self.row_weights) {
            curvature.iter_mut().zip(row).for_each(|(sum, &p)| *sum += f64::from(weight * p * (1.0 - p)));
        }
        curvature.iter().map(|&sum| 1.0 / (BIAS_RIDGE + (f64::from(c) * sum) as f32)).collect()
    }
}
