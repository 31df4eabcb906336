//! Recurrent networks in numbers, compared with the kernels.

use crate::common::expansions::Evaluate as _;
use chumoku_kernels::{MatMut, MatRef, Precision, Recurrence, RecurrentCell};
use chumoku_trace::{ClaimVerdict, Trace, TraceOptions, WorkedExample, builtin};
use ndarray::Array2;

fn value<'a>(trace: &'a Trace, name: &str) -> &'a Array2<f64> {
    &trace.steps.iter().find(|step| step.name() == name).unwrap_or_else(|| panic!("no {name}")).value
}

fn matrix(rows: usize, columns: usize, seed: f64) -> Array2<f64> {
    Array2::from_shape_fn((rows, columns), |(i, j)| (1.7 * (i * columns + j) as f64 + seed).sin())
}

fn json(matrix: &Array2<f64>) -> String {
    let rows = matrix.rows().into_iter().map(|row| format!("{:?}", row.to_vec()));
    format!("[{}]", rows.collect::<Vec<_>>().join(", "))
}

/// Four tokens of width 3 through a network of two hidden units.
fn traced(cell: RecurrentCell) -> (Trace, [Array2<f64>; 5]) {
    let width = 2 * cell.gates();
    let given =
        [matrix(4, 3, 0.3), matrix(3, width, 1.1), matrix(1, width, 2.2), matrix(2, width, 0.7), matrix(1, width, 3.1)];
    let [x, w_x, b_x, w_h, b_h] = given.each_ref().map(json);
    let text = format!(
        r#"{{"inputs": {{"X": {x}, "W_x": {w_x}, "b_x": {b_x}, "W_h": {w_h}, "b_h": {b_h}}}, "options": {{"cell": "{}"}}}}"#,
        cell.name()
    );
    (WorkedExample::parse(&text).unwrap().trace(0).unwrap(), given)
}

#[test]
fn gates_match_the_kernels() {
    for cell in RecurrentCell::ALL {
        let (trace, [x, w_x, b_x, w_h, b_h]) = traced(cell);
        let width = 2 * cell.gates();
        let projections: Vec<f64> = (x.dot(&w_x) + &b_x).iter().copied().collect();
        let recurrence =
            Recurrence { cell, hidden: 2, offsets: &[0, 4], is_reversed: false, precision: Precision::Highest };
        let mut y = vec![f64::NAN; 8];
        let (weight, bias): (Vec<f64>, Vec<f64>) = (w_h.iter().copied().collect(), b_h.iter().copied().collect());
        let found = recurrence
            .forward(
                MatRef::new(&weight, 2, width).unwrap().into(),
                &bias,
                projections,
                MatMut::new(&mut y, 4, 2).unwrap(),
            )
            .unwrap();
        let near = |name: &str, expected: &dyn Fn(usize, usize) -> f64| {
            for ((t, j), own) in value(&trace, name).indexed_iter() {
                let expected = expected(t, j);
                assert!((own - expected).abs() < 1e-12, "{cell:?} {name} {t} {j}: {own}, {expected}");
            }
        };
        near("h", &|t, j| y[2 * t + j]);
        near("h_previous", &|t, j| found.previous_outputs[2 * t + j]);
        let gates: &[&str] = match cell {
            RecurrentCell::Rnn => &["h"],
            RecurrentCell::Lstm => &["i", "f", "g", "o"],
            RecurrentCell::Gru => &["r", "z", "n"],
        };
        for (at, name) in gates.iter().enumerate() {
            near(name, &|t, j| found.gates[t * width + 2 * at + j]);
        }
        match cell {
            RecurrentCell::Rnn => {}
            RecurrentCell::Lstm => near("c", &|t, j| found.state[2 * t + j]),
            RecurrentCell::Gru => near("n_sums", &|t, j| found.state[2 * t + j]),
        }
        for step in &trace.steps {
            assert!(step.expansion.as_ref().is_none_or(|e| (e.evaluate() - e.result).abs() < 1e-12), "{}", step.name());
        }
    }
}

#[test]
fn every_form_shows_the_gates() {
    let trace = builtin("lstm-steps").unwrap().trace(0).unwrap();
    let text = trace.to_text(&TraceOptions::default());
    for expected in
        ["i = σ(A_x(:, 1…2) + A_h(:, 1…2))", "C = f ∘ C′ + i ∘ g", "H′ = [0; H(1…n−1, :)]", "4·d_h", "1 good"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let latex = trace.to_latex(&TraceOptions::default());
    assert!(latex.contains("C = f\\odot\\,C'+i\\odot\\,g") && latex.contains("\\sigma("), "{latex}");
    let gru = builtin("gru-steps").unwrap().trace(0).unwrap().to_text(&TraceOptions::default());
    for expected in ["H = (1 − z) ∘ n + z ∘ H′", "n = tanh(A_x(:, 5…6) + A_r)", "H′ = [h_0; H(1…n−1, :)]"]
    {
        assert!(gru.contains(expected), "{expected}: {gru}");
    }
}

#[test]
fn wrong_gates_are_found() {
    for name in ["rnn-steps", "lstm-steps", "gru-steps"] {
        assert!(builtin(name).unwrap().check().unwrap().ok, "{name}");
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/worked/lstm-steps.json");
    let text = std::fs::read_to_string(file).unwrap();
    let forget = value(&builtin("lstm-steps").unwrap().trace(0).unwrap(), "f")[[1, 0]];
    let wrong = text.replacen(&format!("\"{forget:.4}\""), "\"0.5000\"", 1);
    assert_ne!(wrong, text);
    let checked = WorkedExample::parse(&wrong).unwrap().check().unwrap();
    assert_eq!(checked.first_wrong().unwrap().name, "f");
    // The following numbers were printed correctly.
    assert_eq!(checked.steps.iter().filter(|step| step.verdict == ClaimVerdict::Wrong).count(), 1);
}

/// A token follows from the claims about the previous one: neither their rounding nor their errors are errors here.
#[test]
fn tokens_follow_from_claims_about_previous_tokens() {
    let verdicts = |text: &str| -> Vec<ClaimVerdict> {
        let checked = WorkedExample::parse(text).unwrap().check().unwrap();
        checked.steps.iter().map(|step| step.verdict).collect()
    };
    // By hand, rounded to two digits after each token.
    let rounded = r#"{"inputs": {"X": [[0.1], [0.1], [0.1], [-0.3]], "W_x": [[1]], "W_h": [[1.9]]},
        "options": {"cell": "rnn"}, "claims": {"h": [["0.10"], ["0.28"], ["0.56"], ["0.64"]]}}"#;
    assert_eq!(verdicts(rounded), [ClaimVerdict::Rounded]);
    assert_eq!(verdicts(&rounded.replace("0.64", "0.46")), [ClaimVerdict::Wrong]);
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/worked/lstm-steps.json");
    let mut example: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    // One gate of the first token is wrong, and all following numbers are computed with it.
    example["claims"] = serde_json::json!({
        "i": [["0.1000", "0.5000"], ["0.5075", "0.7311"]],
        "f": [["0.8176", "0.5000"], ["0.9526", "0.8263"]],
        "g": [["0.9640", "0.0000"], ["-0.7856", "0.7616"]],
        "o": [["0.6225", "0.7311"], ["0.5000", "0.7369"]],
        "c": [["0.0964", "0.0000"], ["-0.3069", "0.5568"]],
        "h": [["0.0598", "0.0000"], ["-0.1488", "0.3726"]],
    });
    let inherited = [ClaimVerdict::Inherited; 5];
    assert_eq!(verdicts(&example.to_string()), [&[ClaimVerdict::Wrong][..], &inherited].concat());
}

#[test]
fn inconsistent_inputs_are_reported() {
    let x = r#""X": [[1, 2]]"#;
    for (inputs, options, said) in [
        (r#", "W_h": [[1]]"#, r#""pooling": "last""#, "inputs.W_h: expected options.cell"),
        ("", r#""cell": "lstm""#, "options.cell: expected X, W_x and W_h"),
        ("", r#""cell": "elman""#, "options.cell: expected \"rnn\", \"lstm\" or \"gru\", found"),
        (r#", "W_x": [[1], [1]], "W_h": [[1]]"#, r#""cell": "lstm""#, "inputs.W_h is 1×1: expected 4 columns"),
        (
            r#", "W_x": [[1], [1]], "W_h": [[1, 1], [1, 1]]"#,
            r#""cell": "rnn""#,
            "inputs.W_x is 2×1: expected 2 columns",
        ),
        (r#", "W_x": [[1], [1]], "W_h": [[1]], "c_0": [1]"#, r#""cell": "rnn""#, "inputs.c_0: only an LSTM"),
        (r#", "W_x": [[1], [1]], "W_h": [[1]], "h_0": [1, 2]"#, r#""cell": "rnn""#, "inputs.h_0 is 1×2: expected 1×1"),
        (r#", "W_Q": [[1], [1]], "W_h": [[1]]"#, r#""cell": "rnn""#, "found inputs.W_Q too"),
    ] {
        let text = format!(r#"{{"inputs": {{{x}{inputs}}}, "options": {{{options}}}}}"#);
        let problem = WorkedExample::parse(&text).and_then(|example| example.trace(0)).unwrap_err();
        assert!(problem.contains(said), "{text}: {problem}");
    }
}
