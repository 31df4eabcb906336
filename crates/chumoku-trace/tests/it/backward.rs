//! Gradients of traces: compared with finite differences of the loss, with hand-computed numbers, and in every form.

use crate::common::expansions::Evaluate as _;
use crate::common::layers::{layers, recurrents, stepped};
use chumoku_kernels::{AdamW, adamw_step};
use chumoku_trace::{ClaimVerdict, StepKind, Trace, TraceOptions, TraceStep, WorkedExample};
use chumoku_view::Lang;
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

fn review() -> Value {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/worked/review-loss.json");
    let mut file: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    file.as_object_mut().unwrap().remove("claims");
    file
}

/// Examples for the first rules: heads, biases, masks, W_O, residual sums, positions, and losses of texts and of
/// tokens.
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
    // Rows of an embedding table, which are multiplied by √d_model.
    let rows = text["inputs"].as_object_mut().unwrap().remove("embeddings").unwrap();
    text["inputs"]["token_vectors"] = rows;
    text["inputs"]["ids"] = json!([5, 0, 7]);
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
fn gradients_match_finite_differences() {
    for file in files().into_iter().chain(layers()).chain(recurrents()) {
        let trace = trace(&file, 0);
        let mut compared = 0;
        for (name, matrix) in file["inputs"]
            .as_object()
            .unwrap()
            .iter()
            .filter(|(name, _)| !["target", "ids", "type_ids"].contains(&&name[..]))
        {
            let is_of_heads = matrix[0][0].is_array();
            let is_own = |step: &&TraceStep| step.kind == StepKind::Gradient && step.name() == name;
            let own = trace.steps.iter().find(is_own).unwrap_or_else(|| panic!("no gradient of {name}"));
            for ((i, j), g) in own.value.indexed_iter() {
                let at = |by: f64| {
                    let mut file = file.clone();
                    let mut rows = &mut file["inputs"][name];
                    if is_of_heads {
                        rows = &mut rows[0];
                    }
                    let x = if matrix[0].is_array() { &mut rows[i][j] } else { &mut rows[j] };
                    *x = json!(x.as_f64().unwrap() + by);
                    loss(&file)
                };
                let difference = (at(1e-5) - at(-1e-5)) / 2e-5;
                assert!((difference - g).abs() < 1e-7 * (1.0 + g.abs()), "{name}[{i}, {j}]: {g}, {difference}: {file}");
                compared += 1;
            }
        }
        assert!(compared > 12, "{compared}");
        for step in &trace.steps {
            let is_gradient = step.kind == StepKind::Gradient;
            assert!(!is_gradient || step.formula.is_some(), "{}", step.symbol);
            let expanded = step.expansion.as_ref().is_none_or(|e| (e.evaluate() - e.result).abs() < 1e-12);
            assert!(expanded, "{}: {:?}", step.symbol, step.expansion);
            assert!(step.checks.iter().all(|check| check.holds), "{}", step.symbol);
        }
    }
}

#[test]
fn gradients_are_named_after_their_quantity_in_every_form() {
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
    // The subscript ends before the transposition sign.
    assert!(html.contains("dp = dZ W<sub>C</sub><sup>T</sup>") && html.contains("− Σ<sub>j</sub> A ∘ dA"), "{html}");
    // Few fonts have these letters.
    let painted = html.split_once("<script type=\"application/json\"").unwrap().0;
    assert!(!painted.contains(['ᵀ', 'ᵢ', 'ⱼ']), "{painted}");
    let all = trace.to_json(Lang::En);
    let last = all["steps"].as_array().unwrap().last().unwrap();
    assert_eq!([&last["name"], &last["kind"], &last["symbol"]], ["X", "gradient", "dX"]);
    assert_eq!((&all["steps"][0]["kind"], &last["title"]), (&json!("value"), &json!("Gradient: Input")));
}

#[test]
fn gradient_formulas_use_standard_notation() {
    let formulas = |file: &Value| -> Vec<String> {
        let trace = trace(file, 0);
        trace.steps.iter().filter_map(|s| s.formula.as_ref().map(|formula| formula.text.clone())).collect()
    };
    let has = |file: &Value, expected: &[&str]| {
        let found = formulas(file);
        let missing: Vec<_> = expected.iter().filter(|text| !found.iter().any(|own| own == *text)).collect();
        assert!(missing.is_empty(), "{missing:?}: {found:#?}");
    };
    let files = layers();
    has(
        &files[0],
        &[
            "N\u{302}_2 = (R − μ) / √(σ² + ε)",
            "dβ_2 = Σᵢ dN_2",
            "dγ_2 = Σᵢ dN_2 ∘ N\u{302}_2",
            "dR|N_2 = (dN_2 ∘ γ_2 − mean(dN_2 ∘ γ_2) − N\u{302}_2 · mean(dN_2 ∘ γ_2 ∘ N\u{302}_2)) / √(σ² + ε)",
            "dR = dR|N_2 + dR_2",
            "f′(U) = Φ(U) + U · φ(U)",
            "dU = dU′ ∘ f′(U)",
            "dQ[1] = rotate(dQ′[1]; −position · 100^(−2i/d_k))",
            "J_3(A[1]) = diag(a) − aᵀ a, a = A[1](3, :)",
        ],
    );
    has(&files[1], &["f′(D) = 1 − tanh²(D)", "dY_2 = dp · [i = 1]", "f′(U) = [U > 0]"]);
    has(&files[1], &["dD′ = (dv − v Σⱼ v ∘ dv) / ‖D′‖"]);
    has(
        &files[2],
        &[
            "dU′ = dU_gated ∘ G",
            "dG = dU_gated ∘ U′",
            "dY_L = dp · [i = argmaxᵢ Y_L]",
            "dK′[1] = dK′[1]|S[1] + dK′[1]|S[2]",
            "dγ_Q = dγ_Q|Q_n[1] + dγ_Q|Q_n[2]",
        ],
    );
    has(&files[5], &["X_P = X_E + P", "X_S = X_P + E_T", "dγ_E = Σᵢ dX ∘ X\u{302}", "dE_T = dX_S", "dX_E = dX_P"]);
}

#[test]
fn softmax_jacobian_times_gradient_is_score_gradient() {
    let trace = trace(&review(), 0);
    let of = |kind: StepKind, name: &str| {
        let step = trace.steps.iter().find(|s| s.kind == kind && s.name() == name);
        step.unwrap_or_else(|| panic!("no {kind:?} of {name}"))
    };
    let jacobian = of(StepKind::Jacobian, "weights");
    assert_eq!(jacobian.symbol, "J_1(A)");
    let product = jacobian.value.dot(&of(StepKind::Gradient, "weights").value.row(0));
    for (a, b) in product.iter().zip(of(StepKind::Gradient, "scaled").value.row(0)) {
        assert!((a - b).abs() < 1e-14, "{a} {b}");
    }
}

#[test]
fn adamw_step_matches_the_kernels_and_reduces_the_loss() {
    let file = stepped();
    let trace = trace(&file, 0);
    let of = |kind: StepKind, name: &str| trace.steps.iter().find(|s| s.kind == kind && s.name() == name);
    let flat = |step: &TraceStep| step.value.iter().copied().collect::<Vec<f64>>();
    let mut compared = 0;
    for (name, _) in
        file["inputs"].as_object().unwrap().iter().filter(|(name, _)| !["X", "target"].contains(&&name[..]))
    {
        let gradient = flat(of(StepKind::Gradient, name).unwrap());
        let mut param = flat(of(StepKind::Value, name).unwrap());
        let mut moments = [StepKind::FirstMomentBefore, StepKind::SecondMomentBefore]
            .map(|kind| of(kind, name).map_or_else(|| vec![0.0; param.len()], flat));
        assert_eq!(moments[0].iter().any(|x| *x != 0.0), name == "b_class");
        let options = AdamW {
            learning_rate: 0.05,
            beta1: 0.9,
            beta2: 0.99,
            epsilon: 1e-8,
            weight_decay: if name.starts_with('W') { 0.1 } else { 0.0 },
            step: 3,
            grad_scale: 1.0,
        };
        let [m, v] = &mut moments;
        adamw_step(&options, &mut param[..], &gradient[..], [&mut m[..], &mut v[..]]).unwrap();
        let [first, second] = moments;
        for (kind, expected) in
            [(StepKind::FirstMoment, first), (StepKind::SecondMoment, second), (StepKind::AfterStep, param)]
        {
            let found = flat(of(kind, name).unwrap());
            let off = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(off < 1e-14, "{name}, {kind:?}: {found:?} {expected:?}");
            compared += 1;
        }
    }
    assert_eq!(compared, 3 * (file["inputs"].as_object().unwrap().len() - 2));
    // The loss after the step is that of the new parameters.
    let mut new = file.clone();
    for (name, own) in new["inputs"].as_object_mut().unwrap() {
        if let Some(step) = of(StepKind::AfterStep, name) {
            let rows: Vec<Vec<f64>> = step.value.rows().into_iter().map(|row| row.to_vec()).collect();
            *own = json!(rows);
        }
    }
    let [before, after] = [StepKind::Value, StepKind::AfterStep].map(|kind| of(kind, "loss").unwrap().value[[0, 0]]);
    assert!((loss(&new) - after).abs() < 1e-14 && after < before, "{} {before} {after}", loss(&new));
    assert_eq!(trace.steps.last().unwrap().symbol, "ℒ⁺");
    let all: Vec<&str> = trace.steps.iter().filter_map(|s| s.formula.as_ref().map(|f| &f.text[..])).collect();
    for expected in [
        "m(b_C) = 0.9 · m₀(b_C) + (1 − 0.9) · db_C",
        "v(W_C) = (1 − 0.99) · dW_C²",
        "v\u{302}(W_C) = v(W_C) / (1 − 0.99^3)",
        "Δ(W_C) = 0.05 · m\u{302}(W_C) / (√v\u{302}(W_C) + 1e-8)",
        "W_C⁺ = (1 − 0.05 · 0.1) · W_C − Δ(W_C)",
        "b_C⁺ = b_C − Δ(b_C)",
    ] {
        assert!(all.contains(&expected), "{expected}: {all:#?}");
    }
    let latex = trace.to_latex(&TraceOptions::default());
    assert!(latex.contains("{W_{C}}^{+} = (1 - 0.05\\cdot 0.1)\\,W_{C} - \\Delta(W_{C})"), "{latex}");
    assert!(latex.contains("\\hat{v}(W_{C}) = v(W_{C}) / (1 - 0.99^{3})"), "{latex}");
}

#[test]
fn invalid_optimizer_settings_are_reported() {
    let said = |optimizer: Value| {
        let mut file = review();
        file["optimizer"] = optimizer;
        WorkedExample::parse(&file.to_string()).and_then(|e| e.trace_backward(0)).unwrap_err()
    };
    let cases = [
        (json!({ "beta1": 1 }), "optimizer.beta1: expected 0 or more and less than 1, found 1"),
        (json!({ "learning_rate": 0 }), "optimizer.learning_rate: expected a number above 0, found 0"),
        (json!({ "weight_decay": -1 }), "optimizer.weight_decay: expected 0 or more, found -1"),
        (json!({ "step": 0 }), "optimizer.step: expected a whole number from 1, found 0"),
        (json!({ "momentum": 0 }), "unknown key “momentum” in optimizer"),
        (json!({ "m": { "X": [[1]] } }), "unknown key “X” in optimizer.m"),
        (json!({ "m": { "W_Q": [[1]] } }), "optimizer.m.W_Q is 1×1: expected 2×2, as W_Q is"),
        (json!({ "m": { "W_1": [[1]] } }), "optimizer.m.W_1: expected inputs.W_1 too"),
        (json!({ "v": { "W_Q": [[1, 1], [1, -1]] } }), "expected means of squares, 0 or more, found -1"),
    ];
    for (optimizer, expected) in cases {
        let found = said(optimizer.clone());
        assert!(found.contains(expected), "{optimizer}: {found}");
    }
}

/// Claims every printed number of a step, with one of them altered.
#[test]
fn claims_about_gradients_and_steps_are_checked() {
    let file = stepped();
    let trace = trace(&file, 0);
    let names = [
        (StepKind::Gradient, "d"),
        (StepKind::FirstMoment, "m_"),
        (StepKind::SecondMoment, "v_"),
        (StepKind::CorrectedFirst, "m_hat_"),
        (StepKind::CorrectedSecond, "v_hat_"),
        (StepKind::Update, "update_"),
        (StepKind::AfterStep, "new_"),
    ];
    let mut claimed = 0;
    for (kind, prefix) in names {
        for step in trace.steps.iter().filter(|step| step.kind == kind && step.head.is_none()) {
            // One file with all claims is computed in a moment; a file for each claim takes longer.
            if claimed > 12 && !["W_1", "X", "loss"].contains(&step.name()) {
                continue;
            }
            let printed = |x: f64| format!("{x:.6}");
            let rows: Vec<Vec<String>> =
                step.value.rows().into_iter().map(|row| row.iter().map(|x| printed(*x)).collect()).collect();
            let name = format!("{prefix}{}", step.name());
            let verdict = |claim: &Vec<Vec<String>>| {
                let mut file = file.clone();
                file["claims"] = json!({ name.clone(): claim });
                let checked = WorkedExample::parse(&file.to_string()).and_then(|e| e.check());
                let checked = checked.unwrap_or_else(|problem| panic!("{problem}"));
                assert_eq!(checked.steps.len(), 1);
                assert_eq!(checked.steps[0].name, name);
                (checked.ok, checked.steps[0].verdict)
            };
            assert_eq!(verdict(&rows), (true, ClaimVerdict::Holds), "{name}");
            let mut wrong = rows.clone();
            wrong[0][0] = printed(step.value[[0, 0]] + 0.001);
            assert_eq!(verdict(&wrong), (false, ClaimVerdict::Wrong), "{name}");
            claimed += 1;
        }
    }
    assert!(claimed > 18, "{claimed}");
}

#[test]
fn wrong_and_rounded_gradients_affect_later_verdicts() {
    let mut file = review();
    file["optimizer"] = json!({ "learning_rate": 0.1, "weight_decay": 0 });
    // P_C − T is (0.22427, −0.22427), and pᵀ multiplies it by 0.8302 and 1.8395: 0.18618, 0.41255.
    let verdicts = |claims: Value| -> Vec<(String, ClaimVerdict)> {
        let mut file = file.clone();
        file["claims"] = claims;
        let checked = WorkedExample::parse(&file.to_string()).and_then(|e| e.check()).unwrap();
        checked.steps.into_iter().map(|step| (step.name, step.verdict)).collect()
    };
    let of = |second: &str| {
        let rows = json!([["0.186", "-0.186"], [second, format!("-{second}")]]);
        verdicts(json!({ "dlogits": [["0.22", "-0.22"]], "dW_class": rows }))
    };
    let named = |a: ClaimVerdict, b: ClaimVerdict| vec![("dlogits".to_owned(), a), ("dW_class".to_owned(), b)];
    assert_eq!(of("0.413"), named(ClaimVerdict::Holds, ClaimVerdict::Holds));
    // 1.8395 · 0.22 is 0.4047.
    assert_eq!(of("0.405"), named(ClaimVerdict::Holds, ClaimVerdict::Rounded));
    assert_eq!(of("0.505"), named(ClaimVerdict::Holds, ClaimVerdict::Wrong));
    // The wrong sign, and its consequences.
    let inherited =
        verdicts(json!({ "dlogits": [["-0.22", "0.22"]], "dW_class": [["-0.183", "0.183"], ["-0.405", "0.405"]],
        "new_W_class": [["-0.9", "0.9"], ["0.6", "-0.1"]] }));
    let found: Vec<ClaimVerdict> = inherited.into_iter().map(|(_, verdict)| verdict).collect();
    assert_eq!(found, [ClaimVerdict::Wrong, ClaimVerdict::Inherited, ClaimVerdict::Inherited]);
    let said = |claims: Value, optimizer: bool| {
        let mut file = file.clone();
        file["claims"] = claims;
        if !optimizer {
            file.as_object_mut().unwrap().remove("optimizer");
        }
        WorkedExample::parse(&file.to_string()).and_then(|e| e.check()).unwrap_err()
    };
    assert!(
        said(json!({ "new_W_Q": [[1, 1], [1, 1]] }), false).contains("claims.new_W_Q: expected the key “optimizer”")
    );
    assert!(
        said(json!({ "dsums": [[1], [1]] }), true)
            .contains("claims.dsums: expected a quantity whose gradient the trace has")
    );
    assert!(said(json!({ "m_X": [[1, 1], [1, 1]] }), true).contains("claims.m_X: expected a quantity"));
    assert!(said(json!({ "dW_Q": [[1, 1]] }), true).contains("claims.dW_Q: expected 2×2 numbers"));
}

#[test]
fn missing_gradients_are_reported() {
    let said = |file: &Value| WorkedExample::parse(&file.to_string()).unwrap().trace_backward(0).unwrap_err();
    let mut file = review();
    file["options"]["hard"] = json!(true);
    assert!(said(&file).contains("weights is computed by an operation without a gradient rule"), "{}", said(&file));
    assert!(said(&file).contains("without --backward, or use soft attention"), "{}", said(&file));
    file["inputs"].as_object_mut().unwrap().remove("target");
    assert!(said(&file).contains("give inputs.target"), "{}", said(&file));
}

#[test]
fn recurrent_gradient_formulas_use_standard_notation() {
    let has = |file: &Value, expected: &[&str]| {
        let trace = trace(file, 0);
        let found: Vec<&str> = trace.steps.iter().filter_map(|s| s.formula.as_ref().map(|f| &f.text[..])).collect();
        let missing: Vec<_> = expected.iter().filter(|text| !found.contains(text)).collect();
        assert!(missing.is_empty(), "{missing:?}: {found:#?}");
    };
    let all = recurrents();
    has(
        &all[0],
        &[
            "dH|p = dp · [i = n]",
            "dH|H′ = [dH′(2…n, :); 0]",
            "dH = dH|p + dH|H′",
            "ds(H) = dH ∘ (1 − H²)",
            "dA_h = ds(H)",
            "dH′ = dA_h W_hᵀ",
            "dW_h = H′ᵀ dA_h",
            "db_h = Σᵢ dA_h",
            "dW_x = Xᵀ dA_x",
        ],
    );
    has(&all[1], &["dH|Z = dZ W_Cᵀ", "dh_0 = dH′(1, :)"]);
    has(
        &all[2],
        &[
            "do = dH ∘ C_tanh",
            "dC = dC|C_tanh + dC|C′",
            "dC|C′ = [dC′(2…n, :); 0]",
            "dC′ = dC ∘ f",
            "df = dC ∘ C′",
            "ds(i) = di ∘ i ∘ (1 − i)",
            "ds(g) = dg ∘ (1 − g²)",
            "dA_h = [ds(i) … ds(o)]",
            "dc_0 = dC′(1, :)",
        ],
    );
    has(
        &all[4],
        &[
            "dz = dH ∘ (H′ − n)",
            "dn = (1 − z) ∘ dH",
            "dA_r = ds(n)",
            "dr = dA_r ∘ A_n",
            "dA_n = dA_r ∘ r",
            "dA_h = [ds(r) … dA_n]",
            "dH′ = dA_h W_hᵀ + dH′|H",
        ],
    );
    // The AdamW step continues with the new parameters, from token to token.
    has(&all[3], &["W_h⁺ = (1 − 0.1 · 0.1) · W_h − Δ(W_h)", "b_h⁺ = b_h − Δ(b_h)"]);
    let after = trace(&all[3], 0);
    let of = |kind: StepKind, name: &str| after.steps.iter().find(|s| s.kind == kind && s.name() == name).unwrap();
    let mut new = all[3].clone();
    for (name, own) in new["inputs"].as_object_mut().unwrap() {
        if let Some(step) = after.steps.iter().find(|s| s.kind == StepKind::AfterStep && s.name() == name) {
            *own = json!(step.value.rows().into_iter().map(|row| row.to_vec()).collect::<Vec<_>>());
        }
    }
    let [before, found] = [StepKind::Value, StepKind::AfterStep].map(|kind| of(kind, "loss").value[[0, 0]]);
    assert!((loss(&new) - found).abs() < 1e-14 && found < before, "{} {before} {found}", loss(&new));
    let latex = trace(&all[2], 0).to_latex(&TraceOptions::default());
    for said in [
        "\\mathrm{d}H|_{H'} = [\\,\\left(\\mathrm{d}H'\\right)_{2\\ldots n,:};\\ 0\\,]",
        "\\mathrm{d}s(g) = \\mathrm{d}g\\odot\\,(1-{g}^2)",
    ] {
        assert!(latex.contains(said), "{said}: {latex}");
    }
}

/// Truncation at any token would give other gradients.
#[test]
fn gradients_flow_from_each_token_to_the_previous() {
    for file in recurrents() {
        let trace = trace(&file, 0);
        let of = |kind: StepKind, name: &str| {
            trace.steps.iter().find(|s| s.kind == kind && s.name() == name).map(|step| &step.value)
        };
        let parts: Vec<_> =
            trace.steps.iter().filter(|s| s.kind == StepKind::GradientPart && s.name() == "h").collect();
        let [_, later] = &parts[..] else { panic!("two parts of dH: {}", parts.len()) };
        let handed = of(StepKind::Gradient, "h_previous").unwrap();
        for ((t, j), x) in later.value.indexed_iter() {
            let expected = if t + 1 < handed.nrows() { handed[[t + 1, j]] } else { 0.0 };
            assert!((x - expected).abs() < 1e-14, "{t} {j}: {x} {expected}");
        }
        assert!(later.value.row(0).iter().any(|x| x.abs() > 1e-6), "{file}");
        if let Some(states) = of(StepKind::Gradient, "c_previous") {
            let later = trace.steps.iter().rfind(|s| s.kind == StepKind::GradientPart && s.name() == "c");
            let later = &later.unwrap().value;
            assert!(later.indexed_iter().all(|((t, j), x)| {
                let expected = if t + 1 < states.nrows() { states[[t + 1, j]] } else { 0.0 };
                (x - expected).abs() < 1e-14
            }));
        }
    }
}

#[test]
fn claims_about_recurrent_gradients_are_checked() {
    let mut claimed = 0;
    for file in recurrents() {
        let trace = trace(&file, 0);
        let rows = |value: &ndarray::Array2<f64>| -> Vec<Vec<String>> {
            value.rows().into_iter().map(|row| row.iter().map(|x| format!("{x:.6}")).collect()).collect()
        };
        let all: Vec<(String, &TraceStep)> = trace
            .steps
            .iter()
            .filter_map(|step| {
                let prefix = match step.kind {
                    StepKind::Gradient => "d",
                    StepKind::GateInputGradient => "ds_",
                    _ => return None,
                };
                Some((format!("{prefix}{}", step.name()), step))
            })
            .collect();
        let verdicts = |claims: Value| {
            let mut file = file.clone();
            file["claims"] = claims;
            let checked = WorkedExample::parse(&file.to_string()).and_then(|e| e.check());
            let checked = checked.unwrap_or_else(|problem| panic!("{problem}"));
            (checked.ok, checked.steps.into_iter().map(|step| (step.name, step.verdict)).collect::<Vec<_>>())
        };
        // All claims together hold.
        let claims: serde_json::Map<String, Value> =
            all.iter().map(|(name, step)| (name.clone(), json!(rows(&step.value)))).collect();
        let (ok, found) = verdicts(Value::Object(claims.clone()));
        assert!(ok && found.len() == all.len(), "{found:?}");
        claimed += found.len();
        // A single altered claim is wrong.
        for name in ["dW_h", "dh_previous", "dh"] {
            let (_, step) = all.iter().find(|(own, _)| own == name).unwrap();
            let mut wrong = rows(&step.value);
            wrong[0][0] = format!("{:.6}", step.value[[0, 0]] + 0.01);
            let (ok, found) = verdicts(json!({ name: wrong }));
            assert!(!ok && found == [(name.to_owned(), ClaimVerdict::Wrong)], "{found:?}");
        }
    }
    assert!(claimed > 60, "{claimed}");
}
