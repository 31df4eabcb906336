//! A truncated Newton method for [`Problem`].
//!
//! Each step solves H d = −g roughly by conjugate gradients, preconditioned by the diagonal of H, without ever forming H.
//! It then goes along d as far as the objective falls enough (Armijo's rule); X d is known, so to try a length costs no
//! product. Sources: Hsia, Chiang & Lin, "Preconditioned conjugate gradient methods in truncated Newton frameworks for
//! large-scale linear classification", ACML 2018; Galli & Lin, "A study on truncated Newton methods for linear
//! classification", IEEE TNNLS 2021.

use super::problem::Problem;
use super::vector::{BLOCK, add_scaled, dot, norm, subtract_scaled};
use rayon::prelude::*;

/// When to stop.
pub(crate) struct Stop<'a> {
    /// Norm of the gradient, relative to its norm where W = 0 and b = b₀.
    pub(crate) tolerance: f64,
    pub(crate) is_cancelled: &'a (dyn Fn() -> bool + Sync),
    /// Told the number of each step and the relative gradient before it.
    pub(crate) progress: &'a dyn Fn(usize, f64),
}

/// What a fit ended with.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Outcome {
    /// Products with the Hessian.
    pub(crate) products: usize,
    pub(crate) relative_gradient: f64,
}

const MOST_STEPS: usize = 100;
const MOST_CONJUGATE_STEPS: usize = 200;
/// A relative gradient that f32 cannot make smaller.
const NOISE: f64 = 1e-7;
/// Share of the fall which the slope promises that a step must keep.
const ARMIJO: f64 = 0.01;
const SHORTEST: f32 = 1e-4;

/// Minimises the objective from `weights` on, which end as the solution.
pub(crate) fn fit(problem: &Problem, weights: &mut [f32], c: f32, stop: &Stop) -> Outcome {
    let mut outcome = Outcome::default();
    let mut at = Point::new(problem, c);
    at.move_to(&problem.start());
    let first_norm = norm(&at.gradient).max(f64::MIN_POSITIVE);
    at.move_to(weights);
    let mut step = vec![0.0; weights.len()];
    for steps in 0..=MOST_STEPS {
        outcome.relative_gradient = norm(&at.gradient) / first_norm;
        // One step at least, for the start may be the solution of another C.
        let tolerance = if steps == 0 { NOISE } else { stop.tolerance.max(NOISE) };
        if outcome.relative_gradient <= tolerance || steps == MOST_STEPS || (stop.is_cancelled)() {
            break;
        }
        (stop.progress)(steps, outcome.relative_gradient);
        let accuracy = outcome.relative_gradient.sqrt().clamp(0.01, 0.3);
        outcome.products += at.newton_step(accuracy, stop, &mut step);
        let Some(length) = at.step_length(weights, &step) else {
            break;
        };
        add_scaled(weights, length, &step);
        at.move_to(weights);
    }
    outcome
}

/// All that is known about the objective at one point.
struct Point<'a> {
    problem: &'a Problem<'a>,
    c: f32,
    scores: Vec<f32>,
    probabilities: Vec<f32>,
    gradient: Vec<f32>,
    objective: f64,
}

impl<'a> Point<'a> {
    fn new(problem: &'a Problem<'a>, c: f32) -> Self {
        let cells = problem.x.rows() * problem.outputs;
        let gradient = vec![0.0; problem.parameters()];
        Point { problem, c, scores: vec![0.0; cells], probabilities: vec![0.0; cells], gradient, objective: 0.0 }
    }

    fn move_to(&mut self, weights: &[f32]) {
        self.problem.scores(weights, &mut self.scores);
        self.objective = self.problem.penalty(weights) + f64::from(self.c) * self.problem.loss(&self.scores);
        self.probabilities.copy_from_slice(&self.scores);
        self.problem.probabilities(&mut self.probabilities);
        self.problem.gradient_at(weights, self.c, &self.probabilities, &mut self.gradient);
    }

    /// Conjugate gradients on H `step` = −g until the preconditioned norm of the residual is `accuracy` times that of g.
    /// Returns the number of products with H.
    fn newton_step(&self, accuracy: f64, stop: &Stop, step: &mut [f32]) -> usize {
        let mut preconditioner = vec![0.0; step.len()];
        self.problem.preconditioner(&self.probabilities, self.c, &mut preconditioner);
        let mut buffer = vec![0.0; self.scores.len()];
        let mut product = vec![0.0; step.len()];
        step.fill(0.0);
        let mut residual: Vec<f32> = self.gradient.iter().map(|g| -g).collect();
        let mut direction: Vec<f32> = residual.iter().zip(&preconditioner).map(|(r, m)| m * r).collect();
        let mut along = dot(&residual, &direction);
        let enough = along.sqrt() * accuracy;
        for products in 1..=MOST_CONJUGATE_STEPS {
            self.problem.hessian_times(&self.probabilities, self.c, &direction, &mut buffer, &mut product);
            let rate = (along / dot(&direction, &product)) as f32;
            add_scaled(step, rate, &direction);
            let before = along;
            along = subtract_scaled(&mut residual, rate, &product, &preconditioner);
            if along.sqrt() <= enough || (stop.is_cancelled)() {
                return products;
            }
            let keep = (along / before) as f32;
            let parts = direction.par_chunks_mut(BLOCK).zip(residual.par_chunks(BLOCK));
            parts.zip(preconditioner.par_chunks(BLOCK)).for_each(|((direction, residual), preconditioner)| {
                for ((d, r), m) in direction.iter_mut().zip(residual).zip(preconditioner) {
                    *d = keep * *d + m * r;
                }
            });
        }
        MOST_CONJUGATE_STEPS
    }

    /// The first of 1, ½, ¼, … at which the objective falls enough; none if f32 can tell no better point from this one.
    fn step_length(&self, weights: &[f32], step: &[f32]) -> Option<f32> {
        let mut scores_step = self.scores.clone();
        self.problem.scores(step, &mut scores_step);
        let slope = dot(&self.gradient, step);
        let mut length = 1.0;
        while length > SHORTEST {
            let (mut tried, mut scores) = (weights.to_vec(), self.scores.clone());
            add_scaled(&mut tried, length, step);
            add_scaled(&mut scores, length, &scores_step);
            let objective = self.problem.penalty(&tried) + f64::from(self.c) * self.problem.loss(&scores);
            if objective - self.objective <= ARMIJO * f64::from(length) * slope {
                return Some(length);
            }
            length *= 0.5;
        }
        None
    }
}
