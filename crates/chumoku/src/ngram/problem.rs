//! Multinomial logistic regression: objective, gradient and products with the Hessian.
//!
//! f(W, b) = ½ ‖W‖² + ½ ρ ‖b − b₀‖² + C Σᵢ cᵢ · (−ln pᵢ,yᵢ),   pᵢ = softmax(xᵢ W + b)
//!
//! for weights W (features, outputs) and bias b (outputs), where cᵢ is the weight of row i, b₀ the logarithm of the
//! classes' shares and ρ small (so that a class without rows keeps a finite bias). Two classes have one output z with
//! p = 1 / (1 + e⁻ᶻ). With rᵢ = cᵢ (pᵢ − onehot(yᵢ)),
//!
//! ∇f = (W, ρ (b − b₀)) + C (Xᵀ r, Σᵢ rᵢ),   H v = (v_W, ρ v_b) + C (Xᵀ s, Σᵢ sᵢ),
//! sᵢ = cᵢ (pᵢ ∘ uᵢ − pᵢ ⟨pᵢ, uᵢ⟩),   u = X v_W + v_b.
//!
//! Source: Lin, Weng & Keerthi, "Trust region Newton method for large-scale logistic regression", JMLR 9, 2008.

use super::loss::{negative_log_likelihood, softmax};
use super::sparse::Sparse;
use super::vector::{BLOCK, dot};
use rayon::prelude::*;

/// ρ above.
const BIAS_RIDGE: f32 = 0.01;
/// Rows whose parts of a bias's sum are added by one task.
const ROW_BLOCK: usize = 1 << 10;

/// What is to be fitted.
pub(crate) struct Problem<'a> {
    /// (rows, features)
    pub(crate) x: &'a Sparse,
    /// (features, rows)
    pub(crate) xt: &'a Sparse,
    /// Class of each row.
    pub(crate) labels: &'a [u32],
    /// Weight of each row.
    pub(crate) row_weights: &'a [f32],
    /// Numbers per row: 1 for two classes, else as many as classes.
    pub(crate) outputs: usize,
    /// b₀, the bias to which a class without evidence keeps.
    pub(crate) prior: &'a [f32],
}

impl Problem<'_> {
    fn bias_start(&self) -> usize {
        self.x.columns * self.outputs
    }

    /// Length of the vector of all weights: W by rows, then b.
    pub(crate) fn parameters(&self) -> usize {
        self.bias_start() + self.outputs
    }

    /// W = 0, b = b₀.
    pub(crate) fn start(&self) -> Vec<f32> {
        let mut weights = vec![0.0; self.parameters()];
        weights[self.bias_start()..].copy_from_slice(self.prior);
        weights
    }

    /// The scores of other rows, (rows, outputs).
    pub(crate) fn scores_of(&self, rows: &Sparse, weights: &[f32]) -> Vec<f32> {
        let (weights, bias) = weights.split_at(self.bias_start());
        let mut scores = bias.repeat(rows.rows());
        rows.multiply_add(|value| value, weights, self.outputs, &mut scores);
        scores
    }

    /// X W + b.
    pub(super) fn scores(&self, weights: &[f32], scores: &mut [f32]) {
        let (weights, bias) = weights.split_at(self.bias_start());
        scores.chunks_exact_mut(self.outputs).for_each(|row| row.copy_from_slice(bias));
        self.x.multiply_add(|value| value, weights, self.outputs, scores);
    }

    /// Σᵢ cᵢ · (−ln pᵢ,yᵢ).
    pub(super) fn loss(&self, scores: &[f32]) -> f64 {
        let rows = scores.par_chunks(ROW_BLOCK * self.outputs).enumerate().map(|(block, scores)| {
            let first = block * ROW_BLOCK;
            let rows = scores.chunks_exact(self.outputs).enumerate();
            rows.map(|(i, row)| {
                f64::from(self.row_weights[first + i]) * negative_log_likelihood(row, self.labels[first + i])
            })
            .sum::<f64>()
        });
        rows.collect::<Vec<_>>().iter().sum()
    }

    pub(super) fn penalty(&self, weights: &[f32]) -> f64 {
        let (weights, bias) = weights.split_at(self.bias_start());
        let bias = bias.iter().zip(self.prior).map(|(b, prior)| f64::from((b - prior) * (b - prior)));
        0.5 * dot(weights, weights) + 0.5 * f64::from(BIAS_RIDGE) * bias.sum::<f64>()
    }

    /// f(W, b).
    #[cfg(test)]
    pub(crate) fn objective(&self, weights: &[f32], c: f32) -> f64 {
        let mut scores = vec![0.0; self.x.rows() * self.outputs];
        self.scores(weights, &mut scores);
        self.penalty(weights) + f64::from(c) * self.loss(&scores)
    }

    /// The gradient of f at `weights`.
    #[cfg(test)]
    pub(crate) fn gradient(&self, weights: &[f32], c: f32) -> Vec<f32> {
        let mut scores = vec![0.0; self.x.rows() * self.outputs];
        self.scores(weights, &mut scores);
        self.probabilities(&mut scores);
        let mut gradient = vec![0.0; self.parameters()];
        self.gradient_at(weights, c, &scores, &mut gradient);
        gradient
    }

    /// Scores become probabilities, in place.
    pub(super) fn probabilities(&self, scores: &mut [f32]) {
        scores.par_chunks_mut(ROW_BLOCK * self.outputs).for_each(|scores| {
            scores.chunks_exact_mut(self.outputs).for_each(softmax);
        });
    }

    pub(super) fn gradient_at(&self, weights: &[f32], c: f32, probabilities: &[f32], gradient: &mut [f32]) {
        let mut residuals = probabilities.to_vec();
        for (row, residual) in residuals.chunks_exact_mut(self.outputs).enumerate() {
            let label = self.labels[row] as usize;
            match &mut *residual {
                [one] => *one -= label as f32,
                many => many[label] -= 1.0,
            }
            residual.iter_mut().for_each(|r| *r *= self.row_weights[row]);
        }
        self.pull_back(&residuals, c, weights, gradient);
        let bias = &mut gradient[self.bias_start()..];
        bias.iter_mut().zip(self.prior).for_each(|(g, prior)| *g -= BIAS_RIDGE * prior);
    }

    /// `out` = R v + C · (Xᵀ r, Σᵢ rᵢ), R = (1, …, 1, ρ, …, ρ).
    fn pull_back(&self, residuals: &[f32], c: f32, v: &[f32], out: &mut [f32]) {
        let (out, out_bias) = out.split_at_mut(self.bias_start());
        let (v, v_bias) = v.split_at(self.bias_start());
        out.fill(0.0);
        self.xt.multiply_add(|value| value, residuals, self.outputs, out);
        let parts = out.par_chunks_mut(BLOCK).zip(v.par_chunks(BLOCK));
        parts.for_each(|(out, v)| out.iter_mut().zip(v).for_each(|(out, v)| *out = c * *out + v));
        let mut sums = vec![0.0_f64; self.outputs];
        let blocks = residuals.par_chunks(ROW_BLOCK * self.outputs).map(|block| {
            let mut sums = vec![0.0_f64; self.outputs];
            for row in block.chunks_exact(self.outputs) {
                sums.iter_mut().zip(row).for_each(|(sum, &r)| *sum += f64::from(r));
            }
            sums
        });
        for block in blocks.collect::<Vec<_>>() {
            sums.iter_mut().zip(block).for_each(|(sum, part)| *sum += part);
        }
        for ((out, sum), v) in out_bias.iter_mut().zip(sums).zip(v_bias) {
            *out = (f64::from(c) * sum) as f32 + BIAS_RIDGE * v;
        }
    }

    /// H v at the given probabilities.
    pub(super) fn hessian_times(&self, probabilities: &[f32], c: f32, v: &[f32], buffer: &mut [f32], out: &mut [f32]) {
        self.scores(v, buffer);
        let width = self.outputs;
        let blocks = buffer.par_chunks_mut(ROW_BLOCK * width).zip(probabilities.par_chunks(ROW_BLOCK * width));
        blocks.enumerate().for_each(|(block, (buffer, probabilities))| {
            let rows = buffer.chunks_exact_mut(width).zip(probabilities.chunks_exact(width));
            for ((u, p), &weight) in rows.zip(&self.row_weights[block * ROW_BLOCK..]) {
                if let ([u], [p]) = (&mut *u, p) {
                    *u *= weight * p * (1.0 - p);
                } else {
                    let mean: f32 = u.iter().zip(p).map(|(u, p)| u * p).sum();
                    u.iter_mut().zip(p).for_each(|(u, p)| *u = weight * p * (*u - mean));
                }
            }
        });
        self.pull_back(buffer, c, v, out);
    }

    /// 1 / the diagonal of H.
    pub(super) fn preconditioner(&self, probabilities: &[f32], c: f32, out: &mut [f32]) {
        let width = self.outputs;
        let mut curvature = vec![0.0; probabilities.len()];
        for (row, (out, p)) in curvature.chunks_exact_mut(width).zip(probabilities.chunks_exact(width)).enumerate() {
            let weight = self.row_weights[row];
            out.iter_mut().zip(p).for_each(|(out, p)| *out = weight * p * (1.0 - p));
        }
        let (out, out_bias) = out.split_at_mut(self.bias_start());
        out.fill(0.0);
        self.xt.multiply_add(|value| value * value, &curvature, width, out);
        out.par_iter_mut().with_min_len(BLOCK).for_each(|out| *out = 1.0 / (1.0 + c * *out));
        for (output, out) in out_bias.iter_mut().enumerate() {
            let sum: f64 = curvature.iter().skip(output).step_by(width).map(|&x| f64::from(x)).sum();
            *out = 1.0 / (BIAS_RIDGE + (f64::from(c) * sum) as f32);
        }
    }
}
