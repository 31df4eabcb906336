//! The reference implementation, compared with the definition and with central differences.

use crate::attention::case::{Case, CaseLayout, Data, MaskForm, Results, run};
use crate::attention::check::{self, compare};
use crate::attention::options::combinations;
use crate::attention::poison;
use chumoku_kernels::*;
use testkit::{Tolerance, central_difference};

#[test]
fn reference_matches_the_definition() {
    let near = check::Tolerance { output: 1e-13, gradient: 1e-13, smallest: 1e-300, score: 1e-15 };
    for case in combinations().into_iter().chain(poison::cases()) {
        let data = Data::new(&case).rounded::<f32>();
        let found = run::<f64>(&case, &data, Precision::Highest);
        compare(&|| format!("{case:?}"), &found, &case.truth(&data), near);
    }
}

/// Returns small cases that cover everything with a gradient.
fn small_cases() -> Vec<Case> {
    let base = Case { d_log_sum_exp: true, ..Case::of(&[(3, 4), (3, 4)], [4, 2], [3, 2]) };
    let form = MaskForm { ones: [true, false, false, false], ..MaskForm::full(true) };
    vec![
        base.clone(),
        Case { softcap: Some(0.8), alibi: true, sinks: true, ..base.clone() },
        Case { mask: Some(form), dropout: 0.4, sinks: true, ..base.clone() },
        Case { layout: CaseLayout::Packed, causal: Some(Causal::BottomRight), scale: Some(-0.7), ..base },
    ]
}

/// Returns the inputs that have gradients, in the order of the gradients in [`Results`].
fn inputs(data: &mut Data) -> [&mut Vec<f64>; 3] {
    [&mut data.query, &mut data.key, &mut data.value]
}

#[test]
fn reference_gradients_match_central_differences() {
    for case in small_cases() {
        let data = Data::new(&case);
        // The gradients are those of this sum.
        let loss = |data: &Data| {
            let Results { output, log_sum_exp, .. } = run::<f64>(&case, data, Precision::Highest);
            let products = output.iter().zip(&data.d_output).chain(log_sum_exp.iter().zip(&data.d_log_sum_exp));
            products.filter(|(y, _)| y.is_finite()).map(|(y, d)| y * d).sum::<f64>()
        };
        let found = run::<f64>(&case, &data, Precision::Highest);
        let near = Tolerance { relative: 1e-7, absolute: 1e-7 };
        let check = |name: &str, gradient: &[f64], expected: &[f64], tolerance: Tolerance| {
            testkit::compare(name, gradient, expected, tolerance).unwrap_or_else(|error| panic!("{error}: {case:?}"));
        };
        for which in 0..3 {
            let at = |x: &[f64]| {
                let mut data = data.clone();
                inputs(&mut data)[which].copy_from_slice(x);
                loss(&data)
            };
            let expected = central_difference(inputs(&mut data.clone())[which], 1e-5, at);
            check(Results::NAMES[2 + which], found.parts()[2 + which], &expected, near);
        }
        // Masks and sinks are f32 in a case, so f32 must be able to represent the steps.
        let (step, rough) = (0.5f64.powi(9), Tolerance { relative: 1e-4, absolute: 1e-4 });
        if case.mask.is_some() {
            let bias: Vec<f64> = data.bias.iter().map(|&x| f64::from(x)).collect();
            let at = |x: &[f64]| loss(&Data { bias: x.iter().map(|&x| x as f32).collect(), ..data.clone() });
            let expected = central_difference(&bias, step, at);
            // A bias of −∞ has no gradient.
            let expected: Vec<f64> =
                expected.iter().zip(&bias).map(|(d, bias)| if bias.is_finite() { *d } else { 0.0 }).collect();
            check("d_mask", &found.d_mask, &expected, rough);
        }
        if case.sinks {
            let sinks: Vec<f64> = data.sinks.iter().map(|&x| f64::from(x)).collect();
            let at = |x: &[f64]| loss(&Data { sinks: x.iter().map(|&x| x as f32).collect(), ..data.clone() });
            check("d_sinks", &found.d_sinks, &central_difference(&sinks, step, at), rough);
        }
    }
}

#[test]
fn weights_match_the_output() {
    // With unit vectors as values, each row of the output is a row of weights.
    let keys = 7;
    let causal = Some(Causal::BottomRight);
    for case in [
        Case::of(&[(5, keys); 2], [4, 2], [3, keys]),
        Case { causal, sinks: true, ..Case::of(&[(9, keys)], [2, 1], [4, keys]) },
    ] {
        let mut data = Data::new(&case);
        data.value =
            (0..case.value().rows() * keys).map(|at| f64::from(u8::from(at / keys % keys == at % keys))).collect();
        let truth = case.truth(&data).results.output;
        let narrow = |x: &[f64]| x.iter().map(|&x| x as f32).collect::<Vec<_>>();
        let (query, key, value) = (narrow(&data.query), narrow(&data.key), narrow(&data.value));
        let (batch, queries) = (case.lengths.len(), case.lengths[0].0);
        let mut args = Attention::new(
            Heads::bhld(&query, [batch, case.heads, queries, case.dim]).unwrap(),
            Heads::bhld(&key, [batch, case.key_heads, keys, case.dim]).unwrap(),
            Heads::bhld(&value, [batch, case.key_heads, keys, keys]).unwrap(),
        );
        if let Some(diagonal) = causal.filter(|_| case.sinks) {
            args = args.causal(diagonal).sinks(&data.sinks);
        }
        for s in 0..batch {
            for h in 0..case.heads {
                let expected = &truth[(s * case.heads + h) * queries * keys..][..queries * keys];
                let weights = args.weights(s, h).unwrap();
                testkit::compare("weights", &weights, expected, Tolerance::relative(1e-6)).unwrap();
            }
        }
    }
}
