//! The gradients of a trace: against differences of the loss, in numbers worked by hand, and in every form.

use chumoku_view::Lang;
use chumoku_view::trace::{StepKind, Trace, TraceOptions, TraceStep, WorkedExample};
use serde_json::{Value, json};

fn trace(file: &Value, head: usize) -> Trace {
    WorkedExample::parse(&file.to_string())
        .and_then(|e| e.trace_backward(head))
        .unwrap_or_else(|e| panic!("{e}: {file}"))
}

fn loss(file: &Value) -> f64 {
    let trace = WorkedExample::parse(&file.to_string()).unwrap().trace(0).unwrap();
    let last = trace.steps.last().unwrap();
    assert_eq!(last.name(), "loss");
    last.value[[0, 0]]
}

fn gradient<'a>(trace: &'a Trace, name: &str) -> Option<&'a TraceStep> {
    trace.steps.iter().find(|step| step.kind == StepKind::Gradient && step.name() == name && step.head.is_none())
}

fn review() -> Value {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/worked/review-loss.json");
    let mut file: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    file.as_object_mut().unwrap().remove("claims");
    file
}

/// Every rule: heads, biases, masks, W_O, residual sums, positions, and losses of texts and of tokens.
fn files() -> Vec<Value> {
    let heads = json!({
        "inputs": {
            "embeddings": [[1, 0.5, -1, 2], [0, 1, 0.25, -0.5], [1, 1, 0, 0.5]],
            "positions": [[0, 0.1, 0, 0.2], [0.1, 0, 0.3, 0], [0.2, -0.1, 0, 0.1]],
            "W_Q": [[1, 0, 0.5, 1], [0, 1, -1, 0], [0.5, 0.25, 1, 0], [0, -1, 0, 1]], "b_Q": [0.1, 0, -0.1, 0.2],
            "W_K": [[0, 1, 0.5, 1], [1, 1, -1, 0], [0.5, 0.25, 0, 0], [0, 1, 0, 1]], "b_K": [0.3, 0, 0.1, 0.2],
            "W_V": [[1, 0, 0, 1], [0, 1, 1, 0], [0.5, 0, 1, 0], [0, -1, 0.25, 1]], "b_V": [0, 0.5, 0, 1],
            "W_O": [[1, 0, 0, 0.5], [0, 1, 0, 0], [0, 0.5, 1, 0], [0.25, 0, 0, 1]], "b_O": [0, 0, 1, 0],
            "W_class": [[1, 0, -1], [0, 1, 0.5], [0.5, 0.5, 0], [1, -1, 0]], "b_class": [0, 0.1, 0.2],
            "target": [[0, 1, 0], [0.5, 0.25, 0.25], [1, 0, 0]]
        },
        "options": { "num_heads": 2, "causal": true, "residual": true, "alibi_slopes": [0.5, 0.25] }
    });
    let mut text = heads.clone();
    text["inputs"]["target"] = json!([[0, 0, 1]]);
    text["options"]["pooling"] = json!("mean_sqrt_length");
    let memory = json!({
        "inputs": { "X": [[1, -2], [0.5, 1]], "memory": [[1, 0, 2], [0, 1, -1], [0.5, 0.5, 0]], "W_Q": [[1, 0], [0.5, 1]],
            "W_K": [[1, 0], [0, 1], [0.5, -1]], "W_V": [[1, 0], [0, 1], [1, 1]], "W_class": [[1, 0], [0, 1]],
            "target": [[1, 0]] },
        "options": { "pooling": "mean", "subtract_max": false }
    });
    vec![review(), heads, text, memory]
}

#[test]
fn gradients_are_what_differences_of_the_loss_come_to() {
    for file in files() {
        let trace = trace(&file, 0);
        let mut compared = 0;
        for (name, matrix) in file["inputs"].as_object().unwrap().iter().filter(|(name, _)| *name != "target") {
            let own = gradient(&trace, name).unwrap_or_else(|| panic!("no gradient of {name}"));
            for ((i, j), g) in own.value.indexed_iter() {
                let at = |by: f64| {
                    let mut file = file.clone();
                    let rows = &mut file["inputs"][name];
                    let x = if matrix[0].is_array() { &mut rows[i][j] } else { &mut rows[j] };
                    *x = json!(x.as_f64().unwrap() + by);
                    loss(&file)
                };
                let difference = (at(1e-5) - at(-1e-5)) / 2e-5;
                assert!((difference - g).abs() < 1e-8 * (1.0 + g.abs()), "{name}[{i}, {j}]: {g}, {difference}: {file}");
                compared += 1;
            }
        }
        assert!(compared > 12, "{compared}");
        for step in &trace.steps {
            let is_gradient = step.kind == StepKind::Gradient;
            assert!(!is_gradient || step.formula.is_some(), "{}", step.symbol);
            let expanded = step.expansion.as_ref().is_none_or(|e| (e.value() - e.result).abs() < 1e-12);
            assert!(expanded, "{}: {:?}", step.symbol, step.expansion);
            assert!(step.checks.iter().all(|check| check.holds), "{}", step.symbol);
        }
    }
}

#[test]
fn a_gradient_is_named_after_what_it_is_of_in_every_form() {
    let trace = trace(&review(), 0);
    let formulas: Vec<&str> = trace
        .steps
        .iter()
        .filter(|s| s.kind == StepKind::Gradient)
        .map(|s| &s.formula.as_ref().unwrap().text[..])
        .collect();
    assert_eq!(
        formulas,
        [
            "dZ = P_C − T",
            "db_C = Σᵢ dZ",
            "dW_C = pᵀ dZ",
            "dp = dZ W_Cᵀ",
            "dR = dp / n",
            "dO = dR",
            "dA = dO Vᵀ",
            "dS_scaled = A ∘ (dA − Σⱼ A ∘ dA)",
            "dS = dS_scaled / √2",
            "dV = Aᵀ dO",
            "dW_V = Xᵀ dV",
            "dK = dSᵀ Q",
            "dW_K = Xᵀ dK",
            "dQ = dS K",
            "dW_Q = Xᵀ dQ",
            "dX = dQ W_Qᵀ + dK W_Kᵀ + dV W_Vᵀ + dR",
        ]
    );
    let options = TraceOptions::default();
    assert!(trace.to_text(&options).contains("dX = dQ W_Qᵀ + dK W_Kᵀ + dV W_Vᵀ + dR"));
    assert!(
        trace.to_latex(&options).contains("\\mathrm{d}W_{Q} = {X}^{\\top} \\mathrm{d}Q"),
        "{}",
        trace.to_latex(&options)
    );
    let html = trace.to_html(&options);
    assert_eq!(html.matches("id=\"d-W_Q\"").count(), 1);
    assert_eq!(html.matches("id=\"W_Q\"").count(), 1);
    // The index ends before the sign of the transposed.
    assert!(html.contains("dp = dZ W<sub>C</sub>") && !html.contains("ᵀ</sub>"), "{html}");
    let all = trace.to_json(Lang::En);
    let last = all["steps"].as_array().unwrap().last().unwrap();
    assert_eq!([&last["name"], &last["kind"], &last["symbol"]], ["X", "gradient", "dX"]);
    assert_eq!((&all["steps"][0]["kind"], &last["title"]), (&json!("value"), &json!("Gradient: Input")));
}

#[test]
fn what_has_no_gradient_here_is_said() {
    let said = |file: &Value| WorkedExample::parse(&file.to_string()).unwrap().trace_backward(0).unwrap_err();
    let mut file = review();
    file["options"]["norm"] = json!("post");
    assert!(said(&file).ends_with("final_norm is something else"), "{}", said(&file));
    let mut file = review();
    file["options"]["pooling"] = json!("max");
    assert!(said(&file).ends_with("pooled is something else"), "{}", said(&file));
    file["inputs"].as_object_mut().unwrap().remove("target");
    assert!(said(&file).contains("give inputs.target"), "{}", said(&file));
}
