//! Built-in examples that show claims of the articles: what must be equal is equal, and what must differ differs.

use chumoku::nn::sinusoidal;
use chumoku_trace::{Trace, builtin};
use ndarray::Array2;

fn traced(name: &str) -> Trace {
    builtin(name).unwrap().trace(0).unwrap()
}

fn value<'a>(trace: &'a Trace, symbol: &str) -> &'a Array2<f64> {
    &trace.steps.iter().find(|step| step.symbol == symbol).unwrap_or_else(|| panic!("no {symbol}")).value
}

fn distance(a: &Array2<f64>, b: &Array2<f64>) -> f64 {
    assert_eq!(a.dim(), b.dim());
    a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max)
}

#[test]
fn without_positions_both_orders_have_one_vector() {
    let [forward, backward] = ["cat-sat-mat", "mat-sat-cat"].map(traced);
    assert!(distance(value(&forward, "p"), value(&backward, "p")) < 1e-12);
    // Each word has its own vector in both orders; the rows change places with the words.
    let [a, b] = [value(&forward, "O"), value(&backward, "O")];
    for row in 0..3 {
        let difference = a.row(row).iter().zip(b.row(2 - row)).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
        assert!(difference < 1e-12);
    }
    assert!(distance(a, b) > 0.1);
}

#[test]
fn one_logit_with_binary_cross_entropy_has_the_same_gradients() {
    let [two, one] = ["review-loss", "binary-loss"].map(|name| builtin(name).unwrap().trace_backward(0).unwrap());
    for symbol in ["P_C", "ℒ", "dZ", "dp", "dX", "dW_Q", "dW_K", "dW_V", "dW_C"] {
        assert!(distance(value(&two, symbol), value(&one, symbol)) < 1e-12, "{symbol}");
    }
    // The loss is −ln σ(z), and its gradient σ(z) − 1.
    let z = value(&one, "Z")[[0, 1]];
    let sigmoid = 1.0 / (1.0 + (-z).exp());
    assert_eq!(value(&one, "Z")[[0, 0]], 0.0);
    assert!((value(&one, "ℒ")[[0, 0]] + sigmoid.ln()).abs() < 1e-12);
    assert!((value(&one, "dZ")[[0, 1]] - (sigmoid - 1.0)).abs() < 1e-12);
    assert!(distance(value(&two, "Z"), value(&one, "Z")) > 0.05, "the logits themselves differ");
}

#[test]
fn a_shift_of_positions_is_a_linear_map() {
    let shifted = traced("position-shift");
    let encoding: Array2<f64> = sinusoidal(8, 4);
    for position in 0..5 {
        for j in 0..4 {
            let (found, expected) = (value(&shifted, "Q")[[position, j]], encoding[[position + 3, j]]);
            assert!((found - expected).abs() < 1e-9, "{position}, {j}: {found} {expected}");
        }
    }
}

#[test]
fn hard_retrieval_returns_one_recipe_and_soft_retrieval_a_mix() {
    let [soft, hard] = ["recipe-book", "recipe-book-hard"].map(traced);
    let recipes = value(&soft, "V");
    assert_eq!(value(&hard, "O").row(0), recipes.row(0), "lasagne");
    let weights = value(&soft, "A").row(0).to_vec();
    assert!(weights[0] > weights[3] && weights[3] > weights[2] && weights[2] > weights[1], "{weights:?}");
    assert!(distance(value(&soft, "O"), value(&hard, "O")) > 50.0);
}

#[test]
fn a_row_without_visible_keys_is_zero_or_uniform() {
    let [none, numbers] = ["masked-row", "masked-row-with-numbers"].map(traced);
    assert!(value(&none, "A").row(1).iter().chain(value(&none, "O").row(1)).all(|x| *x == 0.0));
    assert!(value(&numbers, "A").row(1).iter().all(|x| (x - 1.0 / 3.0).abs() < 1e-12));
    // In the first row, exp(−10⁹ − 2) is 0, as for a key that is not visible.
    for symbol in ["A", "O"] {
        let [a, b] = [&none, &numbers].map(|trace| value(trace, symbol).row(0).to_vec());
        assert_eq!(a.len(), b.len(), "{symbol}");
        assert!(a.iter().zip(&b).all(|(x, y)| (x - y).abs() < 1e-12), "{symbol}: {a:?} {b:?}");
    }
}

#[test]
fn rows_that_fit_the_bottleneck_come_back() {
    let trace = traced("autoencoder");
    let (x, back) = (value(&trace, "X"), value(&trace, "F"));
    assert_eq!(value(&trace, "U′").ncols(), 2);
    for row in 0..4 {
        assert_eq!(x.row(row) == back.row(row), row < 3, "row {row}");
    }
}
