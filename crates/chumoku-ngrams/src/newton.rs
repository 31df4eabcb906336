//! A truncated Newton method for [`LogisticObjective`].
//!
//! Each step solves H d = −g approximately by conjugate gradients, without forming H. Only the bias is preconditioned.
//! A line search along d then finds a step length with a sufficient decrease (Armijo's rule). The scores of d are
//! known, so trying a length costs no product.
//!
//! Sources: Hsia, Chiang & Lin, "Preconditioned conjugate gradient methods in truncated Newton frameworks for
//! large-scale linear classification", ACML 2018; Galli & Lin, "A study on truncated Newton methods for linear
//! classification", IEEE TNNLS 2021.

use super::objective::{DualVector, LogisticObjective};
use super::vector::{add_scaled, dot, scale_and_add};
use chumoku_kernels::cancel;

/// Stopping criteria and progress.
pub(crate) struct StopCriteria<'a> {
    /// Tolerance: norm of the gradient, relative to its norm at W = 0 and b = b₀.
    pub(crate) tolerance: f64,
    pub(crate) is_cancelled: &'a (dyn Fn() -> bool + Sync),
    /// Called with the number of each step and the relative gradient before it.
    pub(crate) progress: &'a dyn Fn(usize, f64),
}

/// The results of a fit.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SolverOutcome {
    /// Number of products with the Gram matrix.
    pub products: usize,
    pub(crate) relative_gradient: f64,
}

const MAX_STEPS: usize = 100;
const MAX_CONJUGATE_STEPS: usize = 200;
/// The smallest relative gradient that f32 can resolve.
const GRADIENT_NOISE: f64 = 1e-7;
/// Minimum share of the decrease predicted by the slope.
const ARMIJO: f64 = 0.01;
const MIN_STEP_LENGTH: f32 = 1e-4;

/// Minimizes objectives that differ only in C.
pub(crate) struct NewtonSolver<'a> {
    problem: &'a LogisticObjective<'a>,
    /// Norm of the gradient at W = 0 and b = b₀, for C = 1.
    first_norm: f64,
    probabilities: Vec<f32>,
    gradient: DualVector,
    /// Buffers for the sums of products.
    work: Vec<Vec<f32>>,
}

impl<'a> NewtonSolver<'a> {
    pub(crate) fn new(problem: &'a LogisticObjective<'a>) -> Self {
        let gradient = problem.zero();
        let probabilities = gradient.dual.clone();
        let mut solver = NewtonSolver { problem, first_norm: 1.0, probabilities, gradient, work: Vec::new() };
        solver.first_norm = solver.gradient_at(&problem.start(), 1.0).max(f64::MIN_POSITIVE);
        solver
    }

    /// Minimizes the objective, starting from `at`, which becomes the solution.
    pub(crate) fn fit(&mut self, at: &mut DualVector, c: f32, stop: &StopCriteria) -> SolverOutcome {
        let mut outcome = SolverOutcome::default();
        for steps in 0..=MAX_STEPS {
            outcome.relative_gradient = self.gradient_at(at, c) / (f64::from(c) * self.first_norm);
            outcome.products += 1;
            // Take at least one step, because the start may be the solution for another C.
            let tolerance = if steps == 0 { GRADIENT_NOISE } else { stop.tolerance.max(GRADIENT_NOISE) };
            if outcome.relative_gradient <= tolerance || steps == MAX_STEPS || (stop.is_cancelled)() {
                break;
            }
            (stop.progress)(steps, outcome.relative_gradient);
            let accuracy = outcome.relative_gradient.sqrt().clamp(0.01, 0.3);
            let (step, products) = self.newton_step(c, accuracy, stop);
            outcome.products += products;
            let Some(length) = self.step_length(at, &step, c) else {
                break;
            };
            add_scaled(&mut at.dual, length, &step.dual);
            add_scaled(&mut at.scores, length, &step.scores);
            add_scaled(&mut at.bias, length, &step.bias);
        }
        outcome
    }

    /// Computes the scores of a point from its A.
    pub(crate) fn fill_scores(&mut self, of: &mut DualVector) {
        self.problem.fill_scores(of, &mut self.work);
    }

    /// Computes probabilities and gradient; returns the gradient's norm.
    fn gradient_at(&mut self, at: &DualVector, c: f32) -> f64 {
        self.problem.probabilities(at, &mut self.probabilities);
        self.problem.gradient(at, c, &self.probabilities, &mut self.gradient);
        self.problem.fill_scores(&mut self.gradient, &mut self.work);
        self.gradient.dot(&self.gradient).max(0.0).sqrt()
    }

    /// Runs conjugate gradients on H d = −g until the preconditioned norm of the residual is `accuracy` times that of
    /// g. Returns d and the number of products.
    fn newton_step(&mut self, c: f32, accuracy: f64, stop: &StopCriteria) -> (DualVector, usize) {
        let problem = self.problem;
        let preconditioner = problem.preconditioner(&self.probabilities, c);
        let conditioned = |residual: &DualVector| -> Vec<f32> {
            residual.bias.iter().zip(&preconditioner).map(|(r, m)| m * r).collect()
        };
        let along = |residual: &DualVector, bias: &[f32]| -> f64 {
            let bias = residual.bias.iter().zip(bias).map(|(r, z)| f64::from(*r) * f64::from(*z));
            dot(&residual.dual, &residual.scores) + bias.sum::<f64>()
        };
        let mut step = problem.zero();
        // The scores of the product are not needed.
        let mut product = DualVector { scores: Vec::new(), ..problem.zero() };
        let mut residual = self.gradient.clone();
        for part in [&mut residual.dual, &mut residual.scores, &mut residual.bias] {
            part.iter_mut().for_each(|x| *x = -*x);
        }
        let mut direction = DualVector { bias: conditioned(&residual), ..residual.clone() };
        let mut norm = along(&residual, &direction.bias);
        let enough = norm.sqrt() * accuracy;
        for products in 1..=MAX_CONJUGATE_STEPS {
            cancel::check();
            problem.hessian_times(&self.probabilities, c, &direction, &mut product);
            // ⟨d, H d⟩ needs only the scores of d.
            let rate = (norm / product.dot(&direction)) as f32;
            add_scaled(&mut step.dual, rate, &direction.dual);
            add_scaled(&mut step.scores, rate, &direction.scores);
            add_scaled(&mut step.bias, rate, &direction.bias);
            add_scaled(&mut residual.dual, -rate, &product.dual);
            add_scaled(&mut residual.bias, -rate, &product.bias);
            problem.fill_scores(&mut residual, &mut self.work);
            let bias = conditioned(&residual);
            let before = norm;
            norm = along(&residual, &bias).max(0.0);
            if norm.sqrt() <= enough || (stop.is_cancelled)() {
                return (step, products);
            }
            let keep = (norm / before) as f32;
            scale_and_add(&mut direction.dual, keep, &residual.dual);
            scale_and_add(&mut direction.scores, keep, &residual.scores);
            scale_and_add(&mut direction.bias, keep, &bias);
        }
        (step, MAX_CONJUGATE_STEPS)
    }

    /// Returns the first of 1, ½, ¼, … with a sufficient decrease, or `None` if f32 cannot resolve a better point.
    fn step_length(&self, at: &DualVector, step: &DualVector, c: f32) -> Option<f32> {
        let problem = self.problem;
        // The penalty is a parabola along the step.
        let weights = [dot(&step.dual, &at.scores), dot(&step.dual, &step.scores)];
        let before = f64::from(c) * problem.loss(at, 0.0, step);
        let slope = self.gradient.dot(step);
        let mut length = 1.0_f32;
        while length > MIN_STEP_LENGTH {
            let far = f64::from(length);
            let penalty =
                far * weights[0] + 0.5 * far * far * weights[1] + problem.bias_penalty_added(at, length, step);
            let fall = penalty + f64::from(c) * problem.loss(at, length, step) - before;
            if fall <= ARMIJO * far * slope {
                return Some(length);
            }
            length *= 0.5;
        }
        None
    }
}
