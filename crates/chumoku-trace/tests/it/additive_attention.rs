//! Additive attention (Bahdanau et al. 2014): compared with plain loops, with planted mistakes, and its error messages.

use crate::common::draw::Draw;
use chumoku_trace::{CheckReport, ClaimVerdict, MistakeKind, StepKind, Trace, TraceOptions, WorkedExample, builtin};
use serde_json::{Value, json};

type Matrix = Vec<Vec<f64>>;

fn matrix(draw: &mut Draw, rows: usize, columns: usize) -> Matrix {
    let mut number = || (draw.unit() * 12.0).round() / 4.0 - 1.5;
    (0..rows).map(|_| (0..columns).map(|_| number()).collect()).collect()
}

fn times(a: &Matrix, b: &Matrix) -> Matrix {
    let cell = |row: &Vec<f64>, j: usize| row.iter().zip(b).map(|(x, of)| x * of[j]).sum();
    a.iter().map(|row| (0..b[0].len()).map(|j| cell(row, j)).collect()).collect()
}

fn softmax(scores: &Matrix) -> Matrix {
    let row = |row: &Vec<f64>| {
        let all: Vec<f64> = row.iter().map(|x| x.exp()).collect();
        let sum: f64 = all.iter().sum();
        all.iter().map(|x| x / sum).collect()
    };
    scores.iter().map(row).collect()
}

/// An example, and its score by loops over queries, keys and widths.
struct Drawn {
    inputs: Value,
    pairs: Matrix,
    scores: Matrix,
    memory: Matrix,
}

impl Drawn {
    fn new(draw: &mut Draw, function: fn(f64) -> f64) -> Drawn {
        let [n, m, width, of_memory, inner] = [(); 5].map(|()| 2 + draw.below(3));
        let (x, memory) = (matrix(draw, n, width), matrix(draw, m, of_memory));
        let (of_query, of_key) = (matrix(draw, width, inner), matrix(draw, of_memory, inner));
        let vector: Vec<f64> = (0..inner).map(|k| 0.5 + 0.25 * (k + draw.below(5)) as f64).collect();
        let (q, k) = (times(&x, &of_query), times(&memory, &of_key));
        let mut pairs = Vec::new();
        let mut scores = Vec::new();
        for query in &q {
            let mut row = Vec::new();
            for key in &k {
                let inside: Vec<f64> = query.iter().zip(key).map(|(a, b)| function(a + b)).collect();
                row.push(inside.iter().zip(&vector).map(|(a, v)| a * v).sum());
                pairs.push(inside);
            }
            scores.push(row);
        }
        let inputs = json!({ "X": x, "memory": memory, "W_Q": of_query, "W_K": of_key, "v_a": vector });
        Drawn { inputs, pairs, scores, memory }
    }

    fn example(&self, options: Value, claims: Value) -> WorkedExample {
        let file = json!({ "inputs": self.inputs, "options": options, "claims": claims });
        WorkedExample::parse(&file.to_string()).unwrap_or_else(|problem| panic!("{problem}: {file}"))
    }
}

fn assert_close(trace: &Trace, name: &str, expected: &Matrix) {
    let step = trace.steps.iter().find(|step| step.name() == name && step.kind == StepKind::Value);
    let step = step.unwrap_or_else(|| panic!("no {name}"));
    assert_eq!(step.value.dim(), (expected.len(), expected[0].len()), "{name}");
    for ((i, j), x) in step.value.indexed_iter() {
        assert!((x - expected[i][j]).abs() < 1e-12, "{name}[{i}, {j}]: {x}, {}", expected[i][j]);
    }
}

#[test]
fn numbers_equal_those_of_plain_loops() {
    let mut draw = Draw::new(460);
    for trial in 0..200 {
        let drawn = Drawn::new(&mut draw, f64::tanh);
        let beta = [1.0, 0.5, 2.0][trial % 3];
        let options = match beta == 1.0 {
            true => json!({ "score": "additive" }),
            false => json!({ "score": "additive", "beta": beta }),
        };
        let trace = drawn.example(options, json!({})).trace(0).unwrap();
        assert_close(&trace, "pair_tanh", &drawn.pairs);
        assert_close(&trace, "scores", &drawn.scores);
        let scaled = drawn.scores.iter().map(|row| row.iter().map(|x| x * beta).collect()).collect();
        let weights = softmax(&scaled);
        assert_close(&trace, "weights", &weights);
        assert_close(&trace, "output", &times(&weights, &drawn.memory));
        // Without β there is no scale, and no step for one.
        assert_eq!(trace.steps.iter().any(|step| step.name() == "scaled"), beta != 1.0);
    }
}

fn rounded(numbers: &Matrix) -> Value {
    numbers.iter().map(|row| row.iter().map(|x| format!("{x:.4}")).collect::<Value>()).collect()
}

fn check(drawn: &Drawn, claims: Value) -> CheckReport {
    drawn.example(json!({ "score": "additive" }), claims).check().unwrap()
}

#[test]
fn planted_mistakes_are_named_and_correct_numbers_hold() {
    let mut draw = Draw::new(461);
    for _ in 0..60 {
        // A correct calculation, whose weights follow from the rounded scores.
        let drawn = Drawn::new(&mut draw, f64::tanh);
        let claims = json!({ "pair_tanh": rounded(&drawn.pairs), "scores": rounded(&drawn.scores),
            "weights": rounded(&softmax(&drawn.scores)) });
        let checked = check(&drawn, claims);
        assert!(checked.ok && checked.steps.iter().all(|step| step.mistake.is_none()), "{checked:#?}");
        // Without tanh; only the scores are stated, and the weights follow from them.
        let linear = Drawn::new(&mut draw, |x| x);
        let claims = json!({ "scores": rounded(&linear.scores), "weights": rounded(&softmax(&linear.scores)) });
        let checked = check(&linear, claims);
        let mistake = checked.steps[0].mistake.as_ref().unwrap_or_else(|| panic!("{checked:#?}: {}", linear.inputs));
        assert_eq!(mistake.kind, MistakeKind::ActivationLeftOut, "{checked:#?}: {}", linear.inputs);
        assert_eq!(mistake.step.as_deref(), Some("pair_tanh"));
        assert_eq!(checked.steps[1].verdict, ClaimVerdict::Inherited);
    }
}

#[test]
fn unfit_inputs_are_named() {
    let fault = |inputs: Value, options: Value| {
        let file = json!({ "inputs": inputs, "options": options }).to_string();
        WorkedExample::parse(&file).and_then(|example| example.trace(0)).unwrap_err()
    };
    let additive = json!({ "score": "additive" });
    let base = json!({ "Q": [[1, 2]], "K": [[1, 1], [0, 1]], "v_a": [1, 2] });
    let with = |name: &str, value: Value| {
        let mut inputs = base.clone();
        inputs[name] = value;
        inputs
    };
    let without = json!({ "Q": [[1, 2]], "K": [[1, 1]] });
    assert!(fault(without.clone(), additive.clone()).contains("expected inputs.v_a, the vector"));
    assert!(fault(with("v_a", json!([1, 2, 3])), additive.clone()).contains("inputs.v_a is 3×1: expected 2×1"));
    assert!(fault(with("K", json!([[1, 1, 1]])), additive.clone()).contains("expected the same number of columns"));
    assert!(fault(base.clone(), json!({})).contains("expected options.score as \"additive\""));
    assert!(fault(base.clone(), json!({ "score": "cosine" })).contains("expected \"dot\" or \"additive\""));
    assert!(fault(json!({ "Q": [[1, 2]], "v_a": [1, 2] }), additive.clone()).contains("give K"));
    let several = json!({ "Q": [[1, 2]], "K": [[1, 1]], "v_a": [[[1]], [[2]], [[3]]] });
    assert!(fault(several, json!({ "score": "additive", "num_heads": 2 })).contains("expected 2 matrices"));
}

#[test]
fn the_built_in_example_finds_its_source_words() {
    let trace = builtin("additive").unwrap().trace_backward(0).unwrap();
    let value = |symbol: &str| &trace.steps.iter().find(|step| step.symbol == symbol).unwrap().value;
    let weights = value("A");
    assert!(weights[[0, 0]] > 0.9 && weights[[1, 1]] > 0.9, "{weights}");
    let formula = |symbol: &str| {
        let step = trace.steps.iter().find(|step| step.symbol == symbol).unwrap_or_else(|| panic!("no {symbol}"));
        step.formula.as_ref().unwrap().text.clone()
    };
    assert_eq!(
        ["B_qk", "T_qk", "e", "S", "O", "dT_qk", "dv_a", "dQ", "dK", "dW_Q", "dW_K"].map(formula),
        [
            "B_qk = Q(i, :) + K(j, :)",
            "T_qk = tanh(B_qk)",
            "e = T_qk v_a",
            "S = reshape(e)",
            "O = A X_KV",
            "dT_qk = de v_aᵀ",
            "dv_a = T_qkᵀ de",
            "dQ = Σⱼ dB_qk(i, j)",
            "dK = Σᵢ dB_qk(i, j)",
            "dW_Q = Xᵀ dQ",
            "dW_K = X_KVᵀ dK",
        ]
    );
    let options = TraceOptions::default();
    let text = trace.to_text(&options);
    assert!(text.contains("1 the → 2 chat"), "{text}");
    assert!(trace.to_latex(&options).contains("S = \\mathrm{reshape}(e)"));
    // Every step has a place on the page, and the page computes with every operation.
    let page = trace.to_html(&options);
    for name in ["PairSums", "PairGradient", "Reshaped"] {
        assert!(page.contains(&format!("\"op\":\"{name}\"")), "{name}");
    }
}
