//! Sparse products and the solver, compared with plain arithmetic in f64.

use super::super::column_matrix::{ColumnMatrix, padded_width};
use super::super::label_ids_of;
use super::super::newton::{NewtonSolver, StopCriteria};
use super::super::objective::{DualVector, LogisticObjective};
use super::noise;

/// Returns a matrix of small numbers, a third of them stored, by column, and all of its numbers by row.
fn random_columns(rows: usize, columns: usize, seed: u64) -> (ColumnMatrix, Vec<Vec<f64>>) {
    let mut random = noise(seed);
    let mut plain = vec![vec![0.0; columns]; rows];
    let (mut starts, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    for column in 0..columns {
        for (row, plain) in plain.iter_mut().enumerate() {
            if random.next().unwrap().is_multiple_of(3) {
                let value = (random.next().unwrap() % 1000) as f32 / 500.0;
                indices.push(row as u32);
                values.push(value);
                plain[column] = f64::from(value);
            }
        }
        starts.push(indices.len());
    }
    (ColumnMatrix::new(starts, indices, values, rows), plain)
}

fn random_dense(length: usize, seed: u64) -> Vec<f32> {
    noise(seed).take(length).map(|x| (x % 2001) as f32 / 1000.0 - 1.0).collect()
}

#[test]
fn products_match_plain_loops() {
    for (rows, columns) in [(1, 1), (7, 3), (3, 0), (40, 90), (300, 60)] {
        let (x, plain) = random_columns(rows, columns, 1);
        // Numbers of outputs on both sides of every panel boundary.
        for outputs in [1, 2, 3, 4, 5, 8, 9, 12, 13, 15, 16, 17, 33] {
            let width = padded_width(outputs);
            let mut a = random_dense(rows * width, 2);
            a.chunks_exact_mut(width).for_each(|row| row[outputs..].fill(0.0));
            let weight = |column: usize, k: usize| -> f64 {
                (0..rows).map(|row| plain[row][column] * f64::from(a[row * width + k])).sum()
            };
            let weights = x.weights(&a, width, outputs);
            assert_eq!(weights.len(), columns * outputs);
            for (at, fast) in weights.iter().enumerate() {
                let plain = weight(at / outputs, at % outputs);
                assert!((f64::from(*fast) - plain).abs() < 1e-4 * (1.0 + plain.abs()), "{outputs}: {fast} for {plain}");
            }
            let mut fast = vec![f32::NAN; rows * width];
            x.gram_times(&a, width, &mut fast, &mut vec![vec![f32::NAN; 3]]);
            for row in 0..rows {
                for k in 0..width {
                    let plain: f64 = (0..columns).map(|column| plain[row][column] * weight(column, k)).sum();
                    let fast = f64::from(fast[row * width + k]);
                    assert!((fast - plain).abs() < 1e-4 * (1.0 + plain.abs()), "{outputs}: {fast} for {plain}");
                }
            }
        }
    }
}

/// Calls `test` with problems of 50 random rows with `classes` classes: one with fewer features than rows, one with
/// more.
fn with_problem(classes: usize, test: impl Fn(&LogisticObjective)) {
    for features in [12, 80] {
        with_features(classes, features, &test);
    }
}

fn with_features(classes: usize, features: usize, test: &impl Fn(&LogisticObjective)) {
    let (x, _) = random_columns(50, features, 4);
    let labels: Vec<u32> = noise(5).take(50).map(|n| (n % classes as u64) as u32).collect();
    let row_weights: Vec<f32> = noise(6).take(50).map(|n| (n % 4) as f32 * 0.5).collect();
    let outputs = if classes == 2 { 1 } else { classes };
    let prior = random_dense(outputs, 7);
    test(&LogisticObjective {
        x: &x,
        labels: &label_ids_of(&labels),
        is_multi_label: false,
        row_weights: &row_weights,
        outputs,
        prior: &prior,
    });
}

/// A random point or direction, with its scores.
fn random_vector(problem: &LogisticObjective, seed: u64) -> DualVector {
    let rows = problem.x.num_rows();
    let mut vector = problem.zero();
    let dual: Vec<f32> = random_dense(rows * problem.outputs, seed).iter().map(|x| 0.1 * x).collect();
    problem.set_point(&dual, &random_dense(problem.outputs, seed + 100), &mut vector);
    problem.fill_scores(&mut vector, &mut Vec::new());
    vector
}

fn moved(from: &DualVector, by: &DualVector, length: f32) -> DualVector {
    let add = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a + length * b).collect();
    DualVector {
        dual: add(&from.dual, &by.dual),
        scores: add(&from.scores, &by.scores),
        bias: add(&from.bias, &by.bias),
    }
}

fn gradient(problem: &LogisticObjective, at: &DualVector, c: f32) -> DualVector {
    let mut probabilities = at.dual.clone();
    problem.probabilities(at, &mut probabilities);
    let mut gradient = problem.zero();
    problem.gradient(at, c, &probabilities, &mut gradient);
    problem.fill_scores(&mut gradient, &mut Vec::new());
    gradient
}

#[test]
fn the_gradient_matches_central_differences() {
    for classes in [2, 3, 5] {
        with_problem(classes, |problem| {
            let at = random_vector(problem, 8);
            let gradient = gradient(problem, &at, 0.7);
            // Each weight that a single text would change, and each bias.
            for cell in 0..at.dual.len() + problem.outputs {
                let mut aside = problem.zero();
                if cell < at.dual.len() {
                    if cell % problem.width() >= problem.outputs {
                        continue;
                    }
                    aside.dual[cell] = 1.0;
                    problem.fill_scores(&mut aside, &mut Vec::new());
                } else {
                    aside.bias[cell - at.dual.len()] = 1.0;
                }
                let objective = |length: f32| problem.value(&moved(&at, &aside, length), 0.7);
                let difference = (objective(0.003) - objective(-0.003)) / 0.006;
                let slope = gradient.dot(&aside);
                assert!(
                    (slope - difference).abs() < 5e-3 * (1.0 + difference.abs()),
                    "{cell}: {slope} for {difference}"
                );
            }
        });
    }
}

#[test]
fn the_bias_penalty_of_a_step_matches_the_objectives() {
    with_problem(3, |problem| {
        let (mut at, mut step) = (random_vector(problem, 8), random_vector(problem, 9));
        let zero = problem.zero();
        (at.dual, at.scores) = (zero.dual.clone(), zero.scores.clone());
        (step.dual, step.scores) = (zero.dual, zero.scores);
        let end = moved(&at, &step, 0.5);
        let losses = problem.loss(&end, 0.0, &step) - problem.loss(&at, 0.0, &step);
        let difference = problem.value(&end, 1.0) - problem.value(&at, 1.0) - losses;
        assert!((problem.bias_penalty_added(&at, 0.5, &step) - difference).abs() < 1e-6);
        assert!((problem.loss(&at, 0.5, &step) - problem.loss(&end, 0.0, &step)).abs() < 1e-4);
    });
}

#[test]
fn the_hessian_matches_differences_of_the_gradient() {
    for classes in [2, 3, 5] {
        with_problem(classes, |problem| {
            let (at, v) = (random_vector(problem, 8), random_vector(problem, 9));
            let mut probabilities = at.dual.clone();
            problem.probabilities(&at, &mut probabilities);
            let mut product = problem.zero();
            problem.hessian_times(&probabilities, 0.7, &v, &mut product);
            problem.fill_scores(&mut product, &mut Vec::new());
            let [up, down] = [0.01, -0.01].map(|length| gradient(problem, &moved(&at, &v, length), 0.7));
            let difference = |up: &[f32], down: &[f32], product: &[f32]| {
                for ((up, down), product) in up.iter().zip(down).zip(product) {
                    let difference = (up - down) / 0.02;
                    assert!(
                        (product - difference).abs() < 1e-2 * (1.0 + difference.abs()),
                        "{product} for {difference}"
                    );
                }
            };
            difference(&up.dual, &down.dual, &product.dual);
            difference(&up.scores, &down.scores, &product.scores);
            difference(&up.bias, &down.bias, &product.bias);
            // The preconditioner is the inverse of the bias's part of the diagonal, obtained from H e for every unit
            // vector e.
            let preconditioner = problem.preconditioner(&probabilities, 0.7);
            for (output, factor) in preconditioner.iter().enumerate() {
                let mut unit = problem.zero();
                unit.bias[output] = 1.0;
                problem.hessian_times(&probabilities, 0.7, &unit, &mut product);
                assert!((product.bias[output] * factor - 1.0).abs() < 1e-4, "{output}");
            }
        });
    }
}

const TIGHT: StopCriteria<'static> = StopCriteria { tolerance: 1e-5, is_cancelled: &|| false, progress: &|_, _| () };

#[test]
fn the_solution_is_a_local_minimum() {
    for classes in [2, 4] {
        with_problem(classes, |problem| {
            for c in [0.1, 1.0, 100.0] {
                let mut at = problem.start();
                let outcome = NewtonSolver::new(problem).fit(&mut at, c, &TIGHT);
                // With few features, many A represent the same weights, and rounding shows earlier.
                let noise = if problem.x.len() < problem.x.num_rows() { 1e-3 } else { 1e-4 };
                assert!(outcome.relative_gradient < noise, "{classes} classes, C {c}: {outcome:?}");
                let least = problem.value(&at, c);
                for seed in 10..20 {
                    let aside = random_vector(problem, seed);
                    assert!(problem.value(&moved(&at, &aside, 0.05), c) > least);
                }
            }
        });
    }
}

#[test]
fn every_start_leads_to_the_same_solution() {
    with_problem(4, |problem| {
        let scores = [None, Some(30), Some(31)].map(|seed| {
            let mut at = seed.map_or(problem.start(), |seed| random_vector(problem, seed));
            NewtonSolver::new(problem).fit(&mut at, 5.0, &TIGHT);
            // The accumulated scores still match their A.
            let mut again = at.clone();
            problem.fill_scores(&mut again, &mut Vec::new());
            for (kept, made) in at.scores.iter().zip(&again.scores) {
                assert!((kept - made).abs() < 1e-3, "{kept} {made}");
            }
            again.scores
        });
        for other in &scores[1..] {
            assert!(scores[0].iter().zip(other).all(|(a, b)| (a - b).abs() < 0.01));
        }
    });
}

#[test]
fn two_classes_give_the_same_result_with_one_output_or_two() {
    // With two outputs, each holds half of the weight vector: W = (−w/2, w/2), ‖W‖² = ‖w‖²/2, so C counts half.
    let (x, _) = random_columns(60, 10, 11);
    let labels: Vec<u32> = noise(12).take(60).map(|n| (n % 2) as u32).collect();
    let solve = |outputs: usize, c: f32| {
        let prior = vec![0.0; outputs];
        let row_weights = &[1.0; 60];
        let problem = LogisticObjective {
            x: &x,
            labels: &label_ids_of(&labels),
            is_multi_label: false,
            row_weights,
            outputs,
            prior: &prior,
        };
        let mut at = problem.start();
        NewtonSolver::new(&problem).fit(&mut at, c, &TIGHT);
        let scores = problem.unpadded(&at.scores);
        scores.chunks_exact(outputs).flat_map(|row| row.iter().zip(&at.bias).map(|(x, b)| x + b)).collect::<Vec<f32>>()
    };
    let (one, two) = (solve(1, 2.0), solve(2, 1.0));
    for (one, two) in one.iter().zip(two.chunks_exact(2)) {
        assert!((one - (two[1] - two[0])).abs() < 0.02, "{one} {two:?}");
    }
}

/// A row of weight k gives the same solution as k copies of the row, to the solver's precision.
#[test]
fn a_row_weight_equals_repeated_rows() {
    let (x, plain) = random_columns(50, 30, 4);
    let labels: Vec<Vec<u32>> = noise(5).take(50).map(|n| vec![(n % 3) as u32]).collect();
    let row_weights: Vec<f32> = noise(6).take(50).map(|n| (n % 4) as f32).collect();
    let again: Vec<usize> = (0..50).flat_map(|row| vec![row; row_weights[row] as usize]).collect();
    let (mut starts, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    let value = |row: usize, column: usize| plain[row][column] as f32;
    for column in 0..30 {
        for (row, &of) in again.iter().enumerate().filter(|(_, of)| value(**of, column) != 0.0) {
            indices.push(row as u32);
            values.push(value(of, column));
        }
        starts.push(indices.len());
    }
    let repeated = ColumnMatrix::new(starts, indices, values, again.len());
    let of_again: Vec<Vec<u32>> = again.iter().map(|&row| labels[row].clone()).collect();
    let prior = [-0.3, 0.2, -1.0];
    let stop = StopCriteria { tolerance: 1e-6, is_cancelled: &|| false, progress: &|_, _| () };
    for is_set in [false, true] {
        let solve = |x: &ColumnMatrix, labels: &[Vec<u32>], row_weights: &[f32]| {
            let labels = label_ids_of(labels);
            let problem = LogisticObjective {
                x,
                labels: &labels,
                is_multi_label: is_set,
                row_weights,
                outputs: 3,
                prior: &prior,
            };
            let mut at = problem.start();
            NewtonSolver::new(&problem).fit(&mut at, 2.0, &stop);
            (problem.weights(&at), problem.value(&at, 2.0))
        };
        let (weighted, value) = solve(&x, &labels, &row_weights);
        let (twice, value_of_twice) = solve(&repeated, &of_again, &vec![1.0; again.len()]);
        assert!((value - value_of_twice).abs() < 1e-4 * value, "{value} {value_of_twice}");
        for (weighted, twice) in weighted.iter().zip(&twice) {
            assert!((weighted - twice).abs() < 2e-3 * (1.0 + twice.abs()), "{weighted} {twice}");
        }
        let (plain, _) = solve(&x, &labels, &[1.0; 50]);
        assert!(plain.iter().zip(&weighted).any(|(a, b)| (a - b).abs() > 0.05));
    }
}

/// Multi-label targets are independent binary problems: solved together, each has its own solution.
#[test]
fn labels_are_independent_binary_problems() {
    let (x, _) = random_columns(60, 30, 14);
    let labels: Vec<Vec<u32>> =
        (0..60).map(|i| (0..3).filter(|k| (i / (k + 1) + i % 7) % (2 + k) == 0).collect()).collect();
    let row_weights = vec![1.0; 60];
    let prior = [-0.3, 0.2, -1.0];
    let together = LogisticObjective {
        x: &x,
        labels: &label_ids_of(&labels),
        is_multi_label: true,
        row_weights: &row_weights,
        outputs: 3,
        prior: &prior,
    };
    let stop = StopCriteria { tolerance: 1e-6, is_cancelled: &|| false, progress: &|_, _| () };
    let mut at = together.start();
    NewtonSolver::new(&together).fit(&mut at, 2.0, &stop);
    let weights = together.weights(&at);
    let mut total = 0.0;
    for label in 0..3 {
        let holds: Vec<u32> = labels.iter().map(|labels| u32::from(labels.contains(&(label as u32)))).collect();
        let prior = [prior[label]];
        let alone = LogisticObjective {
            x: &x,
            labels: &label_ids_of(&holds),
            is_multi_label: false,
            row_weights: &row_weights,
            outputs: 1,
            prior: &prior,
        };
        let mut own = alone.start();
        NewtonSolver::new(&alone).fit(&mut own, 2.0, &stop);
        for (feature, weight) in alone.weights(&own).iter().enumerate() {
            let found = weights[feature * 3 + label];
            assert!(
                (weight - found).abs() < 2e-3 * (1.0 + weight.abs()),
                "label {label}, {feature}: {found} for {weight}"
            );
        }
        total += alone.value(&own, 2.0);
    }
    let objective = together.value(&at, 2.0);
    assert!((objective - total).abs() < 1e-4 * total, "{objective} for {total}");
}
