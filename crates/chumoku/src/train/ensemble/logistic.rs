//! Multinomial logistic regression on dense vectors with an L2 penalty, solved to convergence.
//!
//! f(W, b) = C Σᵢ cᵢ · (−ln pᵢ,yᵢ) + ½ ρ ‖W‖² + ½ ε ‖b‖²,   pᵢ = softmax(W xᵢ + b)
//!
//! C has the same meaning as in scikit-learn's `LogisticRegression`. ρ is 2 for two classes, since scikit-learn
//! penalizes only the difference of their weights, and 1 otherwise. A tiny ε keeps the bias of a class without rows
//! finite.
//!
//! The minimum is found by L-BFGS (Liu & Nocedal, "On the limited memory BFGS method for large scale optimization",
//! 1989) in double precision. Rows are summed in blocks whose borders depend only on the number of rows. The same rows
//! therefore give the same bits for any number of threads.

use crate::scoring::select_weights;
use crate::{Error, Result};
use chumoku_kernels::parallel;
use chumoku_nn::probability::log_softmax;
use ndarray::{Array1, Array2, ArrayView2, Axis, Slice};
use std::sync::atomic::{AtomicBool, Ordering};

/// The bias penalty ε.
const BIAS_RIDGE: f64 = 1e-6;
/// Norm of the gradient at convergence, relative to the norm at zero weights.
const TOLERANCE: f64 = 1e-6;
/// The tolerance used while comparing values of C.
const ROUGH_TOLERANCE: f64 = 1e-4;
/// The number of larger values of C tried without improvement before the search stops.
const PATIENCE: usize = 2;
const MAX_STEPS: usize = 2000;
/// Past steps stored by L-BFGS.
const HISTORY: usize = 20;
/// The share of the predicted decrease that a step must achieve (Armijo's rule).
const ARMIJO: f64 = 1e-4;
const MAX_HALVINGS: usize = 40;
/// The maximum number of row blocks. Each block stores a gradient during summation.
const MAX_BLOCKS: usize = 32;
const ROWS_PER_BLOCK: usize = 128;

/// Candidate values of C, as in scikit-learn's `LogisticRegressionCV`: ten values from 10⁻⁴ to 10⁴ at equal logarithmic
/// distances.
const C_GRID: [f64; 10] = [
    1e-4,
    7.742_636_826_811_27e-4,
    5.994_842_503_189_41e-3,
    4.641_588_833_612_78e-2,
    3.593_813_663_804_63e-1,
    2.782_559_402_207_13,
    2.154_434_690_031_88e1,
    1.668_100_537_200_06e2,
    1.291_549_665_014_88e3,
    1e4,
];

/// The default C for vectors of length 1.
const DEFAULT_C: f64 = 3.0;
/// The log-likelihood, in nats, that held-out rows must gain to justify a C ten times larger or smaller. This value and
/// [`DEFAULT_C`] were chosen on draws of 8 to 64 rows per class from four data sets.
const C_PRIOR_STRENGTH: f64 = 3.0;
/// Logarithms of the smallest and largest calibration factor.
const LOG_SCALE_RANGE: [f64; 2] = [-3.0, 5.0];

/// Training rows.
#[derive(Clone, Copy)]
pub(crate) struct RegressionRows<'a> {
    /// (rows, width)
    pub(crate) vectors: ArrayView2<'a, f32>,
    pub(crate) labels: &'a [u32],
    pub(crate) classes: usize,
    /// Row weights; 1 if absent.
    pub(crate) weights: Option<&'a [f32]>,
}

/// The weights and bias of a solution.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LogisticRegression {
    /// W: (classes, width).
    pub(crate) weight: Array2<f64>,
    /// b: (classes,).
    pub(crate) bias: Array1<f64>,
}

/// A value of C chosen on held-out rows.
pub(crate) struct PenaltyChoice {
    pub(crate) c: f64,
    /// The score factor that calibrates the probabilities of the held-out rows.
    pub(crate) scale: f64,
    /// The class log-probabilities of each held-out row.
    pub(crate) log_probabilities: Vec<Vec<f32>>,
}

impl LogisticRegression {
    fn zero(rows: &RegressionRows<'_>) -> LogisticRegression {
        let (classes, width) = (rows.classes, rows.vectors.ncols());
        LogisticRegression { weight: Array2::zeros((classes, width)), bias: Array1::zeros(classes) }
    }

    /// Minimizes the objective.
    ///
    /// # Errors
    /// [`Error::Interrupted`] once `stop` is set.
    pub(crate) fn fit(rows: &RegressionRows<'_>, c: f64, stop: &AtomicBool) -> Result<LogisticRegression> {
        LogisticRegression::solve(rows, c, None, (TOLERANCE, stop))
    }

    /// Minimizes the objective from `start`, or from 0, down to this relative gradient norm.
    fn solve(
        rows: &RegressionRows<'_>,
        c: f64,
        start: Option<&LogisticRegression>,
        (tolerance, stop): (f64, &AtomicBool),
    ) -> Result<LogisticRegression> {
        let zero = LogisticRegression::zero(rows);
        let enough = tolerance * norm(&rows.objective(&zero.to_flat(), c).1);
        let mut at = start.unwrap_or(&zero).to_flat();
        let (mut value, mut gradient) = rows.objective(&at, c);
        let mut past: Vec<LbfgsStep> = Vec::new();
        for _ in 0..MAX_STEPS {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            if norm(&gradient) <= enough {
                break;
            }
            let mut direction = LbfgsStep::direction(&past, &gradient);
            let mut slope = direction.dot(&gradient);
            if slope >= 0.0 {
                past.clear();
                direction = -&gradient;
                slope = direction.dot(&gradient);
            }
            // Without past curvature, the first step length is a guess.
            let mut length = if past.is_empty() { (1.0 / norm(&gradient)).min(1.0) } else { 1.0 };
            let mut next = None;
            for _ in 0..MAX_HALVINGS {
                let tried = &at + &(length * &direction);
                let (new_value, new_gradient) = rows.objective(&tried, c);
                if new_value <= value + ARMIJO * length * slope {
                    next = Some((tried, new_value, new_gradient));
                    break;
                }
                length *= 0.5;
            }
            // No better point exists at double precision.
            let Some((moved, new_value, new_gradient)) = next else { break };
            past.extend(LbfgsStep::new(&moved - &at, &new_gradient - &gradient));
            if past.len() > HISTORY {
                past.remove(0);
            }
            (at, value, gradient) = (moved, new_value, new_gradient);
        }
        Ok(LogisticRegression::from_flat(&at, rows.classes))
    }

    /// Chooses C by the log-loss on held-out rows. Each split consists of training rows and evaluation rows.
    ///
    /// The loss uses calibrated probabilities. Otherwise a weak penalty would win because of its larger scores. A prior
    /// around [`DEFAULT_C`] decides if there are too few rows. The result contains the log-probabilities of the
    /// evaluation rows, in the order of the splits.
    ///
    /// # Errors
    /// [`Error::Interrupted`] once `stop` is set.
    pub(crate) fn select_c(
        rows: &RegressionRows<'_>,
        splits: &[[Vec<usize>; 2]],
        stop: &AtomicBool,
    ) -> Result<PenaltyChoice> {
        let parts: Vec<_> = splits
            .iter()
            .map(|[learned, held_out]| {
                let labels: Vec<u32> = learned.iter().map(|&row| rows.labels[row]).collect();
                let weights = select_weights(rows.weights, learned);
                (rows.vectors.select(Axis(0), learned), labels, weights, rows.vectors.select(Axis(0), held_out))
            })
            .collect();
        let held_out: Vec<usize> = splits.iter().flat_map(|[_, held_out]| held_out).copied().collect();
        let labels: Vec<u32> = held_out.iter().map(|&row| rows.labels[row]).collect();
        let weights = select_weights(rows.weights, &held_out);
        let mut at: Vec<Option<LogisticRegression>> = vec![None; splits.len()];
        let mut best: Option<(f64, PenaltyChoice)> = None;
        let mut worse = 0;
        for c in C_GRID {
            // Each split starts from its solution for the previous C.
            let found = parallel::map_indices(parts.len(), |split| -> Result<(Vec<Vec<f32>>, LogisticRegression)> {
                let (vectors, labels, weights, held_out) = &parts[split];
                let part = RegressionRows { vectors: vectors.view(), labels, weights: weights.as_deref(), ..*rows };
                let found = LogisticRegression::solve(&part, c, at[split].as_ref(), (ROUGH_TOLERANCE, stop))?;
                Ok((found.log_probabilities(held_out.view()), found))
            });
            let mut log_p = Vec::new();
            for (split, found) in found.into_iter().enumerate() {
                let (of_split, found) = found?;
                log_p.extend(of_split);
                at[split] = Some(found);
            }
            let (scale, loss) = fit_scale(&log_p, &labels, weights.as_deref());
            let loss = loss + C_PRIOR_STRENGTH * (c / DEFAULT_C).log10().powi(2);
            if best.as_ref().is_none_or(|(least, _)| loss < *least) {
                (best, worse) = (Some((loss, PenaltyChoice { c, scale, log_probabilities: log_p })), 0);
            } else {
                worse += 1;
            }
            if worse == PATIENCE {
                break;
            }
        }
        let mut chosen = best.expect("the grid is not empty").1;
        chosen.log_probabilities.iter_mut().for_each(|row| *row = scale_log_probabilities(row, chosen.scale));
        Ok(chosen)
    }

    /// Returns the class log-probabilities of each row.
    pub(crate) fn log_probabilities(&self, vectors: ArrayView2<'_, f32>) -> Vec<Vec<f32>> {
        let logits = vectors.mapv(f64::from).dot(&self.weight.t()) + &self.bias;
        logits.rows().into_iter().map(|row| log_softmax(&row.mapv(|z| z as f32).to_vec())).collect()
    }

    fn to_flat(&self) -> Array1<f64> {
        self.weight.iter().chain(&self.bias).copied().collect()
    }

    fn from_flat(flat: &Array1<f64>, classes: usize) -> LogisticRegression {
        let width = flat.len() / classes - 1;
        let (weight, bias) = flat.view().split_at(Axis(0), classes * width);
        let weight = weight.to_owned().into_shape_with_order((classes, width)).expect("as many numbers as weights");
        LogisticRegression { weight, bias: bias.to_owned() }
    }
}

/// Returns the score factor with the lowest loss on these rows, and this loss.
fn fit_scale(log_p: &[Vec<f32>], labels: &[u32], weights: Option<&[f32]>) -> (f64, f64) {
    let loss = |log_scale: f64| -> f64 {
        let of_row = |(row, (log_p, &label)): (usize, (&Vec<f32>, &u32))| {
            let counts = weights.map_or(1.0, |weights| f64::from(weights[row]));
            -counts * f64::from(scale_log_probabilities(log_p, log_scale.exp())[label as usize])
        };
        log_p.iter().zip(labels).enumerate().map(of_row).sum()
    };
    // Golden-section search. The loss is unimodal.
    let golden = 0.5 * (5.0_f64.sqrt() - 1.0);
    let [mut low, mut high] = LOG_SCALE_RANGE;
    let mut inner = [high - golden * (high - low), low + golden * (high - low)];
    let mut losses = inner.map(loss);
    while high - low > 1e-3 {
        if losses[0] <= losses[1] {
            high = inner[1];
            inner = [high - golden * (high - low), inner[0]];
            losses = [loss(inner[0]), losses[0]];
        } else {
            low = inner[0];
            inner = [inner[1], low + golden * (high - low)];
            losses = [losses[1], loss(inner[1])];
        }
    }
    let middle = 0.5 * (low + high);
    (middle.exp(), loss(middle))
}

impl RegressionRows<'_> {
    fn row_weight(&self, row: usize) -> f64 {
        self.weights.map_or(1.0, |weights| f64::from(weights[row]))
    }

    /// The objective and its gradient at W and b, which are stored one after the other.
    fn objective(&self, at: &Array1<f64>, c: f64) -> (f64, Array1<f64>) {
        let (rows, width, classes) = (self.vectors.nrows(), self.vectors.ncols(), self.classes);
        let LogisticRegression { weight, bias } = LogisticRegression::from_flat(at, classes);
        let size = rows.div_ceil(MAX_BLOCKS).max(ROWS_PER_BLOCK);
        let parts = parallel::map_indices(rows.div_ceil(size), |block| {
            let range = block * size..rows.min((block + 1) * size);
            let x = self.vectors.slice_axis(Axis(0), Slice::from(range.clone())).mapv(f64::from);
            let mut scores = x.dot(&weight.t()) + &bias;
            let mut loss = 0.0;
            let labels = range.clone().zip(&self.labels[range]);
            for (mut row, (number, &label)) in scores.rows_mut().into_iter().zip(labels) {
                let counts = self.row_weight(number);
                let largest = row.fold(f64::NEG_INFINITY, |most, &z| most.max(z));
                let right = row[label as usize];
                row.mapv_inplace(|z| (z - largest).exp());
                let sum = row.sum();
                loss += counts * (largest + sum.ln() - right);
                row.mapv_inplace(|e| counts * e / sum);
                row[label as usize] -= counts;
            }
            (loss, scores.t().dot(&x), scores.sum_axis(Axis(0)))
        });
        let ridge = if classes == 2 { 2.0 } else { 1.0 };
        let mut value = 0.5 * ridge * weight.iter().map(|w| w * w).sum::<f64>()
            + 0.5 * BIAS_RIDGE * bias.iter().map(|b| b * b).sum::<f64>();
        let mut of_weight = ridge * weight;
        let mut of_bias = BIAS_RIDGE * bias;
        for (loss, weight, bias) in parts {
            value += c * loss;
            of_weight.scaled_add(c, &weight);
            of_bias.scaled_add(c, &bias);
        }
        debug_assert_eq!(of_weight.dim(), (classes, width));
        (value, of_weight.into_iter().chain(of_bias).collect())
    }
}

/// Returns log-probabilities after multiplying the scores by `scale`.
fn scale_log_probabilities(log_p: &[f32], scale: f64) -> Vec<f32> {
    log_softmax(&log_p.iter().map(|&x| (scale * f64::from(x)) as f32).collect::<Vec<_>>())
}

fn norm(of: &Array1<f64>) -> f64 {
    of.dot(of).sqrt()
}

/// A step, with the change of the gradient along it.
struct LbfgsStep {
    delta: Array1<f64>,
    gradient_delta: Array1<f64>,
    /// 1 / ⟨delta, gradient_delta⟩.
    inverse: f64,
}

impl LbfgsStep {
    /// Returns `None` if double precision cannot resolve any curvature along the step.
    fn new(moved: Array1<f64>, turned: Array1<f64>) -> Option<LbfgsStep> {
        let curvature = moved.dot(&turned);
        (curvature > 1e-14 * norm(&moved) * norm(&turned)).then(|| LbfgsStep {
            delta: moved,
            gradient_delta: turned,
            inverse: 1.0 / curvature,
        })
    }

    /// The direction −H g, where H approximates the inverse Hessian from past steps.
    fn direction(past: &[LbfgsStep], gradient: &Array1<f64>) -> Array1<f64> {
        let mut direction = -gradient;
        let mut shares = vec![0.0; past.len()];
        for (step, share) in past.iter().zip(&mut shares).rev() {
            *share = step.inverse * step.delta.dot(&direction);
            direction.scaled_add(-*share, &step.gradient_delta);
        }
        if let Some(last) = past.last() {
            direction *= 1.0 / (last.inverse * last.gradient_delta.dot(&last.gradient_delta));
        }
        for (step, share) in past.iter().zip(shares) {
            let back = step.inverse * step.gradient_delta.dot(&direction);
            direction.scaled_add(share - back, &step.delta);
        }
        direction
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chumoku_kernels::Philox;

    static NEVER: AtomicBool = AtomicBool::new(false);

    /// Vectors around one center per class; the classes alternate.
    fn drawn(rows: usize, width: usize, classes: usize) -> (Array2<f32>, Vec<u32>) {
        let random = Philox::new(3, 1);
        let labels: Vec<u32> = (0..rows).map(|row| (row % classes) as u32).collect();
        let center = |class: u32, column: usize| random.normal((1 << 40) + u64::from(class) * 1000 + column as u64);
        let vectors = Array2::from_shape_fn((rows, width), |(row, column)| {
            0.4 * center(labels[row], column) + random.normal((row * width + column) as u64)
        });
        (vectors, labels)
    }

    /// The gradient, computed element by element from the formula.
    fn plain_gradient(
        vectors: &Array2<f32>,
        labels: &[u32],
        classes: usize,
        c: f64,
        at: &LogisticRegression,
    ) -> Vec<f64> {
        let width = vectors.ncols();
        let ridge = if classes == 2 { 2.0 } else { 1.0 };
        let mut gradient: Vec<f64> = at.weight.iter().map(|w| ridge * w).collect();
        gradient.extend(at.bias.iter().map(|b| BIAS_RIDGE * b));
        for (x, &label) in vectors.rows().into_iter().zip(labels) {
            let score = |k: usize| at.bias[k] + (0..width).map(|j| at.weight[[k, j]] * f64::from(x[j])).sum::<f64>();
            let scores: Vec<f64> = (0..classes).map(score).collect();
            let total: f64 = scores.iter().map(|z| z.exp()).sum();
            for k in 0..classes {
                let residual = c * (scores[k].exp() / total - f64::from(u8::from(k == label as usize)));
                (0..width).for_each(|j| gradient[k * width + j] += residual * f64::from(x[j]));
                gradient[classes * width + k] += residual;
            }
        }
        gradient
    }

    #[test]
    fn the_gradient_vanishes_at_the_solution() {
        for (rows, width, classes, c) in [(60, 8, 3, 1.0), (60, 8, 2, 100.0), (300, 5, 4, 1e-3), (12, 40, 3, 1e4)] {
            let (vectors, labels) = drawn(rows, width, classes);
            let data = RegressionRows { vectors: vectors.view(), labels: &labels, classes, weights: None };
            let found = LogisticRegression::fit(&data, c, &NEVER).unwrap();
            let size = |of: Vec<f64>| of.iter().map(|x| x * x).sum::<f64>().sqrt();
            let start = size(plain_gradient(&vectors, &labels, classes, c, &LogisticRegression::zero(&data)));
            let end = size(plain_gradient(&vectors, &labels, classes, c, &found));
            assert!(end <= 2.0 * TOLERANCE * start, "{rows} rows, {classes} classes, C {c}: {end} of {start}");
        }
    }

    /// `LogisticRegression(C=0.5, tol=1e-12).fit(x, y)` of scikit-learn gives these weights for the same rows.
    #[test]
    fn c_has_the_meaning_of_scikit_learn() {
        let x = [[1.0, 0.5], [2.0, -1.0], [-1.0, 0.25], [-0.5, -2.0], [0.75, 1.5], [-2.0, 1.0_f32]];
        let vectors = Array2::from(x.to_vec());
        let fit = |labels: &[u32], classes: usize| {
            let data = RegressionRows { vectors: vectors.view(), labels, classes, weights: None };
            LogisticRegression::fit(&data, 0.5, &NEVER).unwrap()
        };
        let two = fit(&[1, 1, 0, 0, 1, 0], 2);
        let difference: Vec<f64> = (0..2).map(|j| two.weight[[1, j]] - two.weight[[0, j]]).collect();
        let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        close(difference[0], TWO_WEIGHTS[0]);
        close(difference[1], TWO_WEIGHTS[1]);
        close(two.bias[1] - two.bias[0], TWO_BIAS);
        let three = fit(&[0, 1, 2, 2, 0, 1], 3);
        three.weight.iter().zip(THREE_WEIGHTS).for_each(|(found, expected)| close(*found, expected));
    }

    const TWO_WEIGHTS: [f64; 2] = [0.849_311_19, 0.291_263_38];
    const TWO_BIAS: f64 = -0.052_027_69;
    const THREE_WEIGHTS: [f64; 6] =
        [0.371_409_84, 0.504_191_04, -0.020_728_52, -0.045_503_15, -0.350_681_32, -0.458_687_89];

    #[test]
    fn c_is_chosen_on_held_out_rows() {
        let (vectors, mut labels) = drawn(120, 30, 3);
        let splits: Vec<[Vec<usize>; 2]> = (0..4)
            .map(|fold| [0, 1].map(|side| (0..120).filter(|row| (row / 3 % 4 == fold) == (side == 1)).collect()))
            .collect();
        let choose = |labels: &[u32]| {
            let data = RegressionRows { vectors: vectors.view(), labels, classes: 3, weights: None };
            LogisticRegression::select_c(&data, &splits, &NEVER).unwrap()
        };
        let right = |found: &PenaltyChoice, labels: &[u32]| {
            let held_out = splits.iter().flat_map(|[_, held_out]| held_out);
            let is_right =
                |(row, log_p): &(&usize, &Vec<f32>)| (0..3).all(|k| log_p[k] <= log_p[labels[**row] as usize]);
            held_out.zip(&found.log_probabilities).filter(is_right).count()
        };
        let clear = choose(&labels);
        assert!(right(&clear, &labels) > 80, "{}", right(&clear, &labels));
        assert!((1e-2..1e2).contains(&clear.c) && clear.scale > 0.5, "C {}, scale {}", clear.c, clear.scale);
        // Labels unrelated to the vectors: the probabilities are nearly uniform.
        let random = Philox::new(9, 2);
        labels.iter_mut().enumerate().for_each(|(i, label)| *label = (random.uniform(i as u64) * 3.0) as u32);
        let unclear = choose(&labels);
        assert!(right(&unclear, &labels) < 60 && unclear.scale < 0.5, "scale {}", unclear.scale);
        assert!(unclear.log_probabilities.iter().flatten().all(|log_p| (log_p.exp() - 1.0 / 3.0).abs() < 0.2));
    }

    #[test]
    fn the_number_of_threads_changes_no_bit() {
        let (vectors, labels) = drawn(700, 12, 3);
        let of_classes = |labels: &[u32], of: [f32; 3]| labels.iter().map(|&k| of[k as usize]).collect::<Vec<_>>();
        let weights = of_classes(&labels, [1.0, 2.0, 0.5]);
        let data = RegressionRows { vectors: vectors.view(), labels: &labels, classes: 3, weights: Some(&weights) };
        let of_threads = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| LogisticRegression::fit(&data, 10.0, &NEVER).unwrap())
        };
        let one = of_threads(1);
        assert_eq!(one, of_threads(3));
        // A row of weight 2 equals two copies of the row.
        let again: Vec<usize> = (0..700).chain((0..700).filter(|&row| labels[row] == 1)).collect();
        let twice = vectors.select(Axis(0), &again);
        let labels: Vec<u32> = again.iter().map(|&row| labels[row]).collect();
        let weights = of_classes(&labels, [1.0, 1.0, 0.5]);
        let twice = RegressionRows { vectors: twice.view(), labels: &labels, classes: 3, weights: Some(&weights) };
        let twice = LogisticRegression::fit(&twice, 10.0, &NEVER).unwrap();
        assert!(one.weight.iter().zip(&twice.weight).all(|(a, b)| (a - b).abs() < 1e-4));
    }

    /// Rows of weight 2 lead to the same C and scale as two copies of each row. Weights of 1 change no bit.
    #[test]
    fn the_choice_of_c_uses_row_weights() {
        let (vectors, labels) = drawn(90, 6, 3);
        let split = |rows: usize, is_held_out: &dyn Fn(usize) -> bool| {
            let (held_out, learned): (Vec<usize>, Vec<usize>) = (0..rows).partition(|&row| is_held_out(row));
            [learned, held_out]
        };
        let choose = |vectors: &Array2<f32>, labels: &[u32], weights: Option<&[f32]>, splits: &[[Vec<usize>; 2]]| {
            let data = RegressionRows { vectors: vectors.view(), labels, classes: 3, weights };
            LogisticRegression::select_c(&data, splits, &NEVER).unwrap()
        };
        let weights: Vec<f32> = (0..90).map(|row| if row % 5 == 0 { 2.0 } else { 1.0 }).collect();
        let again: Vec<usize> = (0..90).chain((0..90).filter(|row| row % 5 == 0)).collect();
        let own: Vec<_> = (0..3).map(|fold| split(90, &|row| row % 3 == fold)).collect();
        let of_again: Vec<_> = (0..3).map(|fold| split(again.len(), &|row| again[row] % 3 == fold)).collect();
        let weighted = choose(&vectors, &labels, Some(&weights), &own);
        let twice: Vec<u32> = again.iter().map(|&row| labels[row]).collect();
        let twice = choose(&vectors.select(Axis(0), &again), &twice, None, &of_again);
        assert_eq!(weighted.c, twice.c);
        assert!((weighted.scale / twice.scale - 1.0).abs() < 0.01, "{} {}", weighted.scale, twice.scale);
        let plain = choose(&vectors, &labels, None, &own);
        let ones = choose(&vectors, &labels, Some(&[1.0; 90]), &own);
        assert_eq!((plain.c, plain.scale, &plain.log_probabilities), (ones.c, ones.scale, &ones.log_probabilities));
        assert!((plain.scale, &plain.log_probabilities) != (weighted.scale, &weighted.log_probabilities));
    }

    #[test]
    fn a_fit_stops_on_request() {
        let (vectors, labels) = drawn(60, 8, 3);
        let data = RegressionRows { vectors: vectors.view(), labels: &labels, classes: 3, weights: None };
        let found = LogisticRegression::fit(&data, 1.0, &AtomicBool::new(true));
        assert!(matches!(found, Err(Error::Interrupted)));
    }
}
