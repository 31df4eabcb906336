//! Classifiers after a layer: logits, probabilities and loss, compared with the cross-entropy of the kernels.

use crate::common::expansions::Evaluate as _;
use chumoku_kernels::{CrossEntropy, cross_entropy};
use chumoku_trace::{ClaimVerdict, Trace, WorkedExample, builtin};
use ndarray::Array2;

fn example(text: &str) -> Result<WorkedExample, String> {
    WorkedExample::parse(text)
}

fn value<'a>(trace: &'a Trace, name: &str) -> &'a Array2<f64> {
    &trace.steps.iter().find(|step| step.name() == name).unwrap_or_else(|| panic!("no {name}")).value
}

#[test]
fn loss_matches_the_kernels() {
    // Labels 2 and 0 of three classes, for each of two tokens.
    let text = r#"{"classes": ["a", "b", "c"], "inputs": {"X": [[1, -2], [0.5, 3]], "W_Q": [[1, 2], [0, 1]],
        "W_K": [[1, 0], [1, 1]], "W_V": [[1, 0], [0, 1]], "W_class": [[1, -1, 0], [0.25, 0.5, 2]], "b_class": [0, 0.5, -1],
        "target": [[0, 0, 1], [1, 0, 0]]}}"#;
    let trace = example(text).unwrap().trace(0).unwrap();
    let logits = value(&trace, "logits").as_standard_layout().to_owned();
    let mut gradient = vec![0.0; logits.len()];
    let options = CrossEntropy { label_smoothing: 0.0, class_weights: None, row_weights: None };
    let loss = cross_entropy(logits.as_slice().unwrap(), &[2, 0], &options, &mut gradient).unwrap();
    let own = value(&trace, "loss")[[0, 0]];
    assert!((own - loss).abs() < 1e-12, "{own} {loss}");
    // The gradient is (p − y)/n, so the probabilities also equal those of the kernels.
    let (p, y) = (value(&trace, "probabilities"), value(&trace, "target"));
    for ((p, y), g) in p.iter().zip(y).zip(gradient) {
        assert!(((p - y) / 2.0 - g).abs() < 1e-12, "{p} {y} {g}");
    }
    for step in &trace.steps {
        assert!(step.expansion.as_ref().is_none_or(|e| (e.evaluate() - e.result).abs() < 1e-12), "{}", step.name());
    }
}

#[test]
fn wrong_losses_are_found_and_rounded_ones_are_not_wrong() {
    assert!(builtin("review-loss").unwrap().check().unwrap().ok);
    let verdict = |claim: &str| {
        let text = format!(
            r#"{{"inputs": {{"logits": [[1, 2]], "target": [[0, 1]]}}, "claims": {{"probabilities": [["0.27", "0.73"]],
            "loss": [["{claim}"]]}}}}"#
        );
        example(&text).unwrap().check().unwrap().steps[1].verdict
    };
    // −ln 0.7311 = 0.3133, and −ln 0.73 = 0.3147.
    assert_eq!(verdict("0.3133"), ClaimVerdict::Holds);
    assert_eq!(verdict("0.3147"), ClaimVerdict::Rounded);
    assert_eq!(verdict("0.4133"), ClaimVerdict::Wrong);
}

#[test]
fn classifier_head_matches_hand_computed_numbers() {
    // The dense layer doubles the first entry of (6, 8)/√50. relu keeps the first of (1.697, −1.131), and the mean
    // square of the result is half its square.
    let file = |claims: &str| {
        format!(
            r#"{{"inputs": {{"weights": [[1]], "V": [[6, 8]], "gamma_last": [1, 1], "W_dense": [[2, 0], [0, -1]],
            "gamma_dense": [1, 1], "W_class": [[1, 0], [0, 1]]}}, "options": {{"last_norm": "rms", "epsilon_last": 0,
            "pooling": "mean", "dense_activation": "relu", "dense_norm": "rms", "epsilon_dense": 0}}, "claims": {{{claims}}}}}"#
        )
    };
    let claims = r#""last_norm": [["0.8485", "1.1314"]], "dense": [["1.6971", "-1.1314"]],
        "dense_activated": [["1.6971", "0.0000"]], "dense_norm": [["1.4142", "0.0000"]], "logits": [["1.4142", "0.0000"]],
        "probabilities": [["0.8044", "0.1956"]]"#;
    let checked = example(&file(claims)).unwrap().check().unwrap();
    assert!(checked.steps.iter().all(|step| step.verdict == ClaimVerdict::Holds), "{checked:?}");
    assert_eq!(checked.steps.len(), 6);
    let checked =
        example(&file(&claims.replace("1.4142\", \"0.0000\"]], \"logits", "1.5142\", \"0.0000\"]], \"logits")))
            .unwrap();
    let checked = checked.check().unwrap();
    let wrong = checked.steps.iter().find(|step| step.verdict == ClaimVerdict::Wrong).unwrap();
    assert_eq!(wrong.name, "dense_norm");
}

#[test]
fn inconsistent_inputs_are_reported() {
    let cases = [
        (r#""b_class": [1]"#, "", "inputs.b_class: expected inputs.W_class too"),
        (r#""W_class": [[1]], "target": [[1, 0]]"#, "", "inputs.target is 1×2: expected 1×1, as logits is 1×1"),
        (
            r#""W_class": [[1]]"#,
            r#""classes": ["a", "b"], "#,
            "classes: expected 1, one for each column of the logits, found 2",
        ),
        (r#""target": [[1]]"#, "", "inputs.target: expected inputs.W_class or inputs.logits"),
        (r#""logits": [[1, 2]], "target": [[1, 1]]"#, "", "inputs.target, row 1: expected the share of each class"),
        (
            r#""logits": [[1, 2]], "target": [[-1, 2]]"#,
            "",
            "a sum of 1 (1 for the right class and 0 for the others, say), found -1, 2",
        ),
        (r#""logits": [[1, 2], [2, 1]], "target": [[0.5, 0.5], [0, 0]]"#, "", "inputs.target, row 2: "),
        (r#""W_class": [[1]], "logits": [[1]]"#, "", "inputs.logits and inputs.W_class: expected only one of the two"),
    ];
    for (inputs, keys, said) in cases {
        let text = format!(r#"{{{keys}"inputs": {{"weights": [[1]], "V": [[2]], {inputs}}}}}"#);
        let problem = example(&text).and_then(|example| example.trace(0)).unwrap_err();
        assert!(problem.contains(said), "{text}: {problem}");
    }
    for (options, inputs, said) in [
        (r#""dense_norm": "rms""#, "", "options.dense_norm: expected inputs.W_dense too"),
        (r#""dense_norm": "batch""#, "", "options.dense_norm: expected \"layer\" or \"rms\", found"),
        (r#""dense_activation": "tanh""#, "", "options.dense_activation: expected \"relu\", "),
        (r#""dense_tanh": true, "dense_activation": "relu""#, r#", "W_dense": [[1]]"#, "expected only one of the two"),
        (r#""num_heads": 1"#, r#", "gamma_last": [1]"#, "gamma_last and norm_beta_last: expected options.last_norm"),
        (r#""last_norm": "rms""#, r#", "norm_beta_last": [1]"#, "options.last_norm: expected no norm_beta_last"),
    ] {
        let text = format!(
            r#"{{"inputs": {{"weights": [[1]], "V": [[2]]{inputs}}}, "options": {{"pooling": "mean", {options}}}}}"#
        );
        let problem = example(&text).and_then(|example| example.trace(0)).unwrap_err();
        assert!(problem.contains(said), "{text}: {problem}");
    }
    for (claim, said) in [("last_norm", "options.last_norm"), ("dense_norm", "W_dense and options.dense_norm")] {
        let text = format!(
            r#"{{"inputs": {{"weights": [[1]], "V": [[2]]}}, "options": {{"pooling": "mean"}}, "claims": {{"{claim}": [[1]]}}}}"#
        );
        let problem = example(&text).unwrap().check().unwrap_err();
        assert!(problem.ends_with(&format!("give {said}")), "{problem}");
    }
    // Thirds have the digits that they were printed with.
    let thirds = r#"{"inputs": {"logits": [[1, 2, 3]], "target": [["0.333", "0.333", "0.333"]]}}"#;
    assert!(example(thirds).unwrap().trace(0).is_ok());
    let claim = r#"{"inputs": {"weights": [[1]], "V": [[2]], "W_class": [[1]]}, "claims": {"loss": [[1]]}}"#;
    assert!(example(claim).unwrap().check().unwrap_err().ends_with("give target"));
}
