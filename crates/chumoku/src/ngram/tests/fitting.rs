//! Sparse products and the solver, against plain arithmetic in f64.

use super::super::newton::{Stop, fit};
use super::super::problem::Problem;
use super::super::sparse::Sparse;
use super::noise;

fn random_sparse(rows: usize, columns: usize, seed: u64) -> Sparse {
    let mut random = noise(seed);
    let mut sparse = Sparse { starts: vec![0], columns, ..Sparse::default() };
    for _ in 0..rows {
        for column in 0..columns as u32 {
            if random.next().unwrap().is_multiple_of(3) {
                sparse.indices.push(column);
                sparse.values.push((random.next().unwrap() % 1000) as f32 / 500.0);
            }
        }
        sparse.starts.push(sparse.indices.len());
    }
    sparse
}

fn random_dense(length: usize, seed: u64) -> Vec<f32> {
    noise(seed).take(length).map(|x| (x % 2001) as f32 / 1000.0 - 1.0).collect()
}

#[test]
fn products_are_those_of_a_triple_loop() {
    for (rows, columns) in [(1, 1), (7, 3), (40, 90)] {
        let sparse = random_sparse(rows, columns, 1);
        let transposed = sparse.transposed();
        assert_eq!((transposed.rows(), transposed.columns), (columns, rows));
        // Widths on both sides of every panel's edge.
        for width in [1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 33] {
            for (matrix, transpose) in [(&sparse, false), (&transposed, true)] {
                let dense = random_dense(matrix.columns * width, 2);
                let start = random_dense(matrix.rows() * width, 3);
                let mut fast = start.clone();
                matrix.multiply_add(|value| value * value, &dense, width, &mut fast);
                let mut plain: Vec<f64> = start.iter().map(|&x| f64::from(x)).collect();
                for row in 0..rows {
                    let (indices, values) = sparse.row(row);
                    for (&column, &value) in indices.iter().zip(values) {
                        let column = column as usize;
                        let (to, from) = if transpose { (column, row) } else { (row, column) };
                        for k in 0..width {
                            let factor = f64::from(dense[from * width + k]);
                            plain[to * width + k] += f64::from(value * value) * factor;
                        }
                    }
                }
                for (fast, plain) in fast.iter().zip(&plain) {
                    assert!((f64::from(*fast) - plain).abs() < 1e-4, "width {width}: {fast} for {plain}");
                }
            }
        }
    }
}

/// A problem of random rows with `classes` classes, handed to `test`.
fn with_problem(classes: usize, test: impl Fn(&Problem)) {
    let x = random_sparse(50, 12, 4);
    let xt = x.transposed();
    let labels: Vec<u32> = noise(5).take(50).map(|n| (n % classes as u64) as u32).collect();
    let row_weights: Vec<f32> = noise(6).take(50).map(|n| (n % 4) as f32 * 0.5).collect();
    let outputs = if classes == 2 { 1 } else { classes };
    let prior = random_dense(outputs, 7);
    test(&Problem { x: &x, xt: &xt, labels: &labels, row_weights: &row_weights, outputs, prior: &prior });
}

#[test]
fn the_gradient_is_that_of_central_differences() {
    for classes in [2, 3, 5] {
        with_problem(classes, |problem| {
            let weights = random_dense(problem.parameters(), 8);
            let gradient = problem.gradient(&weights, 0.7);
            for at in 0..weights.len() {
                let objective = |change: f32| {
                    let mut moved = weights.clone();
                    moved[at] += change;
                    (problem.objective(&moved, 0.7), f64::from(moved[at]))
                };
                let ((up, high), (down, low)) = (objective(0.01), objective(-0.01));
                let difference = (up - down) / (high - low);
                let error = (f64::from(gradient[at]) - difference).abs();
                assert!(error < 1e-3 * (1.0 + difference.abs()), "{at}: {} for {difference}", gradient[at]);
            }
        });
    }
}

#[test]
fn the_hessian_is_that_of_differences_of_the_gradient() {
    for classes in [2, 3, 5] {
        with_problem(classes, |problem| {
            let weights = random_dense(problem.parameters(), 8);
            let v = random_dense(problem.parameters(), 9);
            let mut probabilities = problem.scores_of(problem.x, &weights);
            problem.probabilities(&mut probabilities);
            let (mut buffer, mut product) = (probabilities.clone(), v.clone());
            problem.hessian_times(&probabilities, 0.7, &v, &mut buffer, &mut product);
            let moved = |change: f32| -> Vec<f32> {
                let weights: Vec<f32> = weights.iter().zip(&v).map(|(w, v)| w + change * v).collect();
                problem.gradient(&weights, 0.7)
            };
            let (up, down) = (moved(0.01), moved(-0.01));
            for at in 0..v.len() {
                let difference = (up[at] - down[at]) / 0.02;
                let error = (product[at] - difference).abs();
                assert!(error < 5e-3 * (1.0 + difference.abs()), "{at}: {} for {difference}", product[at]);
            }
            // The preconditioner is one over the diagonal: H e for every unit vector e.
            let mut preconditioner = vec![0.0; v.len()];
            problem.preconditioner(&probabilities, 0.7, &mut preconditioner);
            for at in 0..v.len() {
                let mut unit = vec![0.0; v.len()];
                unit[at] = 1.0;
                problem.hessian_times(&probabilities, 0.7, &unit, &mut buffer, &mut product);
                assert!((product[at] * preconditioner[at] - 1.0).abs() < 1e-4, "{at}");
            }
        });
    }
}

#[test]
fn the_solution_has_no_slope_and_no_better_neighbour() {
    for classes in [2, 4] {
        with_problem(classes, |problem| {
            for c in [0.1, 1.0, 100.0] {
                let mut weights = problem.start();
                let stop = Stop { tolerance: 1e-5, is_cancelled: &|| false, progress: &|_, _| () };
                let outcome = fit(problem, &mut weights, c, &stop);
                assert!(outcome.relative_gradient < 1e-4, "{classes} classes, C {c}: {outcome:?}");
                let least = problem.objective(&weights, c);
                for seed in 10..20 {
                    let aside = random_dense(weights.len(), seed);
                    let moved: Vec<f32> = weights.iter().zip(&aside).map(|(w, a)| w + 0.05 * a).collect();
                    assert!(problem.objective(&moved, c) > least);
                }
            }
        });
    }
}

#[test]
fn two_classes_as_one_output_or_two_agree() {
    // With two outputs each carries half of the weight vector: W = (−w/2, w/2), ‖W‖² = ‖w‖²/2, so C counts half.
    let x = random_sparse(60, 10, 11);
    let xt = x.transposed();
    let labels: Vec<u32> = noise(12).take(60).map(|n| (n % 2) as u32).collect();
    let solve = |outputs: usize, c: f32| {
        let prior = vec![0.0; outputs];
        let row_weights = &[1.0; 60];
        let problem = Problem { x: &x, xt: &xt, labels: &labels, row_weights, outputs, prior: &prior };
        let mut weights = problem.start();
        fit(&problem, &mut weights, c, &Stop { tolerance: 1e-6, is_cancelled: &|| false, progress: &|_, _| () });
        problem.scores_of(&x, &weights)
    };
    let (one, two) = (solve(1, 2.0), solve(2, 1.0));
    for (one, two) in one.iter().zip(two.chunks_exact(2)) {
        assert!((one - (two[1] - two[0])).abs() < 0.02, "{one} {two:?}");
    }
}
