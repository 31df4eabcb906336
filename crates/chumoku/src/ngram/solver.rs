//! Multinomial logistic regression by a truncated Newton method.
//!
//! Minimises, over weights W (features, outputs) and bias b (outputs),
//!
//! f(W, b) = ½ ‖W‖² + ½ ρ ‖b − b₀‖² + C Σᵢ cᵢ · (−ln pᵢ,yᵢ),   pᵢ = softmax(xᵢ W + b),
//!
//! where cᵢ is the weight of row i, b₀ the logarithm of the classes' shares and ρ small (so that a class without rows
//! keeps a finite bias). Two classes have one output z with p = 1 / (1 + e⁻ᶻ).
//!
//! Each step solves H d = −g roughly by conjugate gradients, preconditioned by the diagonal of H, without ever forming
//! H: H v = v + C Xᵀ [cᵢ (pᵢ ∘ uᵢ − pᵢ ⟨pᵢ, uᵢ⟩)]ᵢ with u = X v. It then goes along d as far as f falls enough (Armijo);
//! X d is known, so trying a step costs no product. Sources: Lin, Weng & Keerthi, "Trust region Newton method for
//! large-scale logistic regression", JMLR 9, 2008; Hsia, Chiang & Lin, "Preconditioned conjugate gradient methods in
//! truncated Newton frameworks for large-scale linear classification", ACML 2018; Galli & Lin, "A study on truncated
//! Newton methods for linear classification", IEEE TNNLS 2021 (line search).

use super::sparse::Sparse;
use rayon::prelude::*;

/// ρ above.
const BIAS_RIDGE: f32 = 0.01;
/// Numbers whose products are summed by one task.
const DOT_BLOCK: usize = 1 << 14;
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

/// When to stop.
pub(crate) struct Stop<'a> {
    /// Norm of the gradient, relative to that of the loss's gradient where W = 0 and b = b₀.
    pub(crate) tolerance: f64,
    pub(crate) newton_steps: usize,
    pub(crate) is_cancelled: &'a (dyn Fn() -> bool + Sync),
}

/// What a fit ended with.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outcome {
    pub newton_steps: usize,
    pub products: usize,
    pub objective: f64,
    pub relative_gradient: f64,
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

    /// X W + b.
    fn scores(&self, weights: &[f32], scores: &mut [f32]) {
        let (weights, bias) = weights.split_at(self.bias_start());
        scores.chunks_exact_mut(self.outputs).for_each(|row| row.copy_from_slice(bias));
        self.x.multiply_add(weights, self.outputs, scores);
    }

    /// Σᵢ cᵢ · (−ln pᵢ,yᵢ).
    fn loss(&self, scores: &[f32]) -> f64 {
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

    fn penalty(&self, weights: &[f32]) -> f64 {
        let (weights, bias) = weights.split_at(self.bias_start());
        let bias = bias.iter().zip(self.prior).map(|(b, prior)| f64::from((b - prior) * (b - prior)));
        0.5 * dot(weights, weights) + 0.5 * f64::from(BIAS_RIDGE) * bias.sum::<f64>()
    }

    /// f(W, b).
    pub(crate) fn objective(&self, weights: &[f32], c: f32) -> f64 {
        let mut scores = vec![0.0; self.x.rows() * self.outputs];
        self.scores(weights, &mut scores);
        self.penalty(weights) + f64::from(c) * self.loss(&scores)
    }

    /// The gradient of f at `weights`.
    pub(crate) fn gradient(&self, weights: &[f32], c: f32) -> Vec<f32> {
        let mut scores = vec![0.0; self.x.rows() * self.outputs];
        self.scores(weights, &mut scores);
        self.probabilities(&mut scores);
        let mut gradient = vec![0.0; self.parameters()];
        self.gradient_at(weights, c, &scores, &mut gradient);
        gradient
    }

    /// Scores become probabilities, in place.
    fn probabilities(&self, scores: &mut [f32]) {
        scores.par_chunks_mut(ROW_BLOCK * self.outputs).for_each(|scores| {
            scores.chunks_exact_mut(self.outputs).for_each(softmax);
        });
    }

    fn gradient_at(&self, weights: &[f32], c: f32, probabilities: &[f32], gradient: &mut [f32]) {
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
        self.xt.each_row(self.outputs, out, |column, out| {
            let (rows, values) = self.xt.row(column);
            out.fill(0.0);
            super::sparse::multiply_row(rows, values, residuals, out);
            let v = &v[column * self.outputs..][..self.outputs];
            out.iter_mut().zip(v).for_each(|(out, v)| *out = c * *out + v);
        });
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
    fn hessian_times(&self, probabilities: &[f32], c: f32, v: &[f32], buffer: &mut [f32], out: &mut [f32]) {
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
    fn preconditioner(&self, probabilities: &[f32], c: f32, out: &mut [f32]) {
        let width = self.outputs;
        let mut curvature = vec![0.0; probabilities.len()];
        for (row, (out, p)) in curvature.chunks_exact_mut(width).zip(probabilities.chunks_exact(width)).enumerate() {
            let weight = self.row_weights[row];
            out.iter_mut().zip(p).for_each(|(out, p)| *out = weight * p * (1.0 - p));
        }
        let (out, out_bias) = out.split_at_mut(self.bias_start());
        self.xt.each_row(width, out, |column, out| {
            let (rows, values) = self.xt.row(column);
            out.fill(0.0);
            for (&row, value) in rows.iter().zip(values) {
                let square = value * value;
                let curvature = &curvature[row as usize * width..][..width];
                out.iter_mut().zip(curvature).for_each(|(out, curvature)| *out += square * curvature);
            }
            out.iter_mut().for_each(|out| *out = 1.0 / (1.0 + c * *out));
        });
        for (output, out) in out_bias.iter_mut().enumerate() {
            let sum: f64 = curvature.iter().skip(output).step_by(width).map(|&x| f64::from(x)).sum();
            *out = 1.0 / (BIAS_RIDGE + (f64::from(c) * sum) as f32);
        }
    }

    /// Minimises f from `weights` on, which end as the solution.
    pub(crate) fn fit(&self, weights: &mut [f32], c: f32, stop: &Stop) -> Outcome {
        let (size, cells) = (self.parameters(), self.x.rows() * self.outputs);
        let mut outcome = Outcome::default();
        let (mut scores, mut buffer) = (vec![0.0; cells], vec![0.0; cells]);
        let mut gradient = vec![0.0; size];
        let start = self.start();
        self.scores(&start, &mut scores);
        self.probabilities(&mut scores);
        self.gradient_at(&start, c, &scores, &mut gradient);
        drop(start);
        let first_norm = norm(&gradient).max(1e-12);

        self.scores(weights, &mut scores);
        let mut loss = self.loss(&scores);
        let mut penalty = self.penalty(weights);
        let mut probabilities = scores.clone();
        let (mut step, mut residual) = (vec![0.0; size], vec![0.0; size]);
        let (mut direction, mut product) = (vec![0.0; size], vec![0.0; size]);
        let mut preconditioner = vec![0.0; size];
        loop {
            outcome.objective = penalty + f64::from(c) * loss;
            probabilities.copy_from_slice(&scores);
            self.probabilities(&mut probabilities);
            self.gradient_at(weights, c, &probabilities, &mut gradient);
            outcome.relative_gradient = norm(&gradient) / first_norm;
            let done = outcome.relative_gradient <= stop.tolerance || outcome.newton_steps == stop.newton_steps;
            if done || (stop.is_cancelled)() {
                return outcome;
            }
            outcome.newton_steps += 1;
            self.preconditioner(&probabilities, c, &mut preconditioner);

            // Conjugate gradients on H d = −g, until the residual is a part of the gradient that shrinks with it.
            step.fill(0.0);
            residual.iter_mut().zip(&gradient).for_each(|(r, g)| *r = -g);
            direction.iter_mut().zip(&residual).zip(&preconditioner).for_each(|((d, r), m)| *d = m * r);
            let mut along = dot(&residual, &direction);
            let enough = along.sqrt() * outcome.relative_gradient.sqrt().clamp(0.01, 0.3);
            for _ in 0..CONJUGATE_STEPS {
                self.hessian_times(&probabilities, c, &direction, &mut buffer, &mut product);
                outcome.products += 1;
                let rate = (along / dot(&direction, &product)) as f32;
                add_scaled(&mut step, rate, &direction);
                add_scaled(&mut residual, -rate, &product);
                let before = along;
                along = dot_scaled(&residual, &preconditioner);
                if along.sqrt() <= enough || (stop.is_cancelled)() {
                    break;
                }
                let keep = (along / before) as f32;
                let next = direction.par_chunks_mut(DOT_BLOCK).zip(residual.par_chunks(DOT_BLOCK));
                next.zip(preconditioner.par_chunks(DOT_BLOCK)).for_each(|((d, r), m)| {
                    d.iter_mut().zip(r).zip(m).for_each(|((d, r), m)| *d = keep * *d + m * r);
                });
            }

            // As far along the step as the objective falls by a hundredth of what its slope promises.
            self.scores(&step, &mut buffer);
            let slope = dot(&gradient, &step);
            let mut length = 1.0_f32;
            loop {
                add_scaled(&mut scores, length, &buffer);
                let tried: Vec<f32> = weights.iter().zip(&step).map(|(w, s)| w + length * s).collect();
                let (tried_loss, tried_penalty) = (self.loss(&scores), self.penalty(&tried));
                let change = tried_penalty + f64::from(c) * tried_loss - outcome.objective;
                if change <= 0.01 * f64::from(length) * slope {
                    weights.copy_from_slice(&tried);
                    (loss, penalty) = (tried_loss, tried_penalty);
                    // Scores are recomputed, lest rounding add up over the steps.
                    self.scores(weights, &mut scores);
                    break;
                }
                add_scaled(&mut scores, -length, &buffer);
                length *= 0.5;
                if length < 1e-4 {
                    // f32 can tell no better point from this one.
                    return outcome;
                }
            }
        }
    }
}

const CONJUGATE_STEPS: usize = 200;

/// −ln p of the label, one score standing for two classes (0 and it).
pub(crate) fn negative_log_likelihood(scores: &[f32], label: u32) -> f64 {
    if let [score] = scores {
        let margin = f64::from(if label == 1 { *score } else { -score });
        return (-margin.abs()).exp().ln_1p() + (-margin).max(0.0);
    }
    let largest = scores.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
    let sum: f64 = scores.iter().map(|&score| f64::from(score - largest).exp()).sum();
    sum.ln() + f64::from(largest - scores[label as usize])
}

fn softmax(scores: &mut [f32]) {
    if let [score] = scores {
        *score = 1.0 / (1.0 + (-*score).exp());
        return;
    }
    let largest = scores.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = (*score - largest).exp();
        sum += *score;
    }
    scores.iter_mut().for_each(|score| *score /= sum);
}

/// Σ aᵢ bᵢ in f64, by blocks of fixed size whose sums are added in order.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    let blocks = a.par_chunks(DOT_BLOCK).zip(b.par_chunks(DOT_BLOCK));
    let sums: Vec<f64> = blocks.map(|(a, b)| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()).collect();
    sums.iter().sum()
}

/// Σ aᵢ² mᵢ, as [`dot`].
fn dot_scaled(a: &[f32], m: &[f32]) -> f64 {
    let blocks = a.par_chunks(DOT_BLOCK).zip(m.par_chunks(DOT_BLOCK));
    let sums: Vec<f64> = blocks.map(|(a, m)| a.iter().zip(m).map(|(&a, &m)| f64::from(a) * f64::from(a * m)).sum()).collect();
    sums.iter().sum()
}

fn norm(a: &[f32]) -> f64 {
    dot(a, a).sqrt()
}

fn add_scaled(a: &mut [f32], scale: f32, b: &[f32]) {
    let blocks = a.par_chunks_mut(DOT_BLOCK).zip(b.par_chunks(DOT_BLOCK));
    blocks.for_each(|(a, b)| a.iter_mut().zip(b).for_each(|(a, b)| *a += scale * b));
}
