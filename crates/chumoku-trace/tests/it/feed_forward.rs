//! The feed-forward network of a trace: compared with hand-computed numbers, with the kernels, and with the hidden
//! states of published models.

use crate::common::expansions::Evaluate as _;
use crate::common::traces::published_folder;
use chumoku::{TextClassifier, TextGenerator};
use chumoku_kernels::{Activation, activation_forward, gated_forward};
use chumoku_trace::{CheckReport, ClaimVerdict, HeadSelection, Trace, TraceStep, WorkedExample};
use ndarray::{Array2, Axis};
use serde_json::{Value, json};
use testkit::{GoldenFile, Random};

fn check(file: &Value) -> CheckReport {
    WorkedExample::parse(&file.to_string())
        .and_then(|example| example.check())
        .unwrap_or_else(|e| panic!("{e}: {file}"))
}

fn wrong(checked: &CheckReport) -> Vec<&str> {
    checked.steps.iter().filter(|step| step.verdict == ClaimVerdict::Wrong).map(|step| step.name.as_str()).collect()
}

/// Two tokens through a gated network with every bias, a residual connection and an RMS norm after it.
fn by_hand() -> Value {
    json!({
        "inputs": {
            "X": [[1, 2], [0, -1]],
            "W_1": [[1, 0, -1], [0, 1, 1]], "b_1": [0, -1, 0],
            "W_gate": [[2, 0, 0], [0, 1, 0]], "b_gate": [0, 0, 3],
            "W_2": [[1, 0], [0, 1], [1, 1]], "b_2": [0.5, -0.5],
            "gamma_2": [2, 1],
        },
        "options": { "activation": "relu", "norm_2": "post", "rms_norm_2": true, "epsilon_2": 0 },
        "claims": {
            // (1, 2) W_1 = (1, 2, 1), and (0, −1) W_1 = (0, −1, −1).
            "inner": [["1.00", "1.00", "1.00"], ["0.00", "-2.00", "-1.00"]],
            "activated": [["1.00", "1.00", "1.00"], ["0.00", "0.00", "0.00"]],
            "gate": [["2.00", "2.00", "3.00"], ["0.00", "-1.00", "3.00"]],
            "gated": [["2.00", "2.00", "3.00"], ["0.00", "0.00", "0.00"]],
            // (2, 2, 3) W_2 = (5, 5).
            "feed_forward": [["5.50", "4.50"], ["0.50", "-0.50"]],
            "residual_2": [["6.50", "6.50"], ["0.50", "-1.50"]],
            // The roots of the mean squares are 6.5 and √1.25.
            "final_norm_2": [["2.0000", "1.0000"], ["0.8944", "-1.3416"]],
        },
    })
}

#[test]
fn feed_forward_matches_hand_computed_numbers() {
    let right = check(&by_hand());
    assert!(right.ok && right.steps.iter().all(|step| step.verdict == ClaimVerdict::Holds), "{right:?}");
    let names: Vec<&str> = right.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["inner", "activated", "gate", "gated", "feed_forward", "residual_2", "final_norm_2"]);
    // An error is found in its step and in no other.
    for name in names {
        for [i, j] in [[0, 0], [1, 1]] {
            let mut file = by_hand();
            let claimed = &mut file["claims"][name][i][j];
            *claimed = format!("{:.4}", claimed.as_str().unwrap().parse::<f64>().unwrap() + 0.75).into();
            assert_eq!(wrong(&check(&file)), [name], "{file}");
        }
    }
    // The second norm has an ε of its own or uses the first one's: 6.5/√(42.25 + 42.25) is √½.
    for option in ["epsilon", "epsilon_2"] {
        let mut file = by_hand();
        file["options"].as_object_mut().unwrap().remove("epsilon_2");
        file["options"][option] = json!(42.25);
        file["claims"]["final_norm_2"] = json!([["1.4142", "0.7071"], [null, null]]);
        assert!(check(&file).ok, "{option}: {file}");
    }
    // An earlier error is not counted again: −0.17 is gelu of a wrong −0.75.
    let gelu = json!({ "inputs": { "X": [[1]], "W_1": [[1]] }, "options": { "activation": "gelu" },
        "claims": { "inner": [["-0.75"]], "activated": [["-0.17"]] } });
    let checked = check(&gelu);
    assert_eq!((wrong(&checked), checked.steps[1].verdict), (vec!["inner"], ClaimVerdict::Inherited));
    // 1.156 printed as 1.2 may be any number for which max(0, x) W_2 rounds to 3.6.
    let rounded = json!({ "inputs": { "X": [["1.156"]], "W_1": [[1]], "W_2": [[3]] }, "options": { "activation": "relu" },
        "claims": { "inner": [["1.2"]], "feed_forward": [["3.6"]] } });
    assert_eq!(check(&rounded).steps[1].verdict, ClaimVerdict::Rounded);
}

#[test]
fn activations_match_their_names() {
    for (name, expected) in [
        ("relu", ["0.0000", "0.0000", "0.0000", "1.0000"]),
        ("gelu", ["-0.0455", "-0.1587", "0.0000", "0.8413"]),
        ("gelu_tanh", ["-0.0454", "-0.1588", "0.0000", "0.8412"]),
        ("silu", ["-0.2384", "-0.2689", "0.0000", "0.7311"]),
    ] {
        let file = json!({ "inputs": { "X": [[-2, -1, 0, 1]], "W_1": [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]] },
            "options": { "activation": name }, "claims": { "activated": [expected] } });
        assert!(check(&file).steps[0].verdict == ClaimVerdict::Holds, "{name}");
    }
}

#[test]
fn feed_forward_after_attention_has_its_own_norm() {
    // One token attends to itself: (3, 4) + (3, 4). The mean square of (6, 8) is 50.
    let file = |options: Value| {
        json!({ "inputs": { "X": [[3, 4]], "W_Q": [[1, 0], [0, 1]], "W_K": [[1, 0], [0, 1]], "W_V": [[1, 0], [0, 1]],
            "W_1": [[1], [1]], "W_2": [[1, -1]] }, "options": options })
    };
    let with = |options: Value, claims: Value| {
        let mut file = file(options);
        file["claims"] = claims;
        let checked = check(&file);
        assert!(checked.steps.iter().all(|step| step.verdict == ClaimVerdict::Holds), "{checked:?}");
    };
    with(
        json!({ "residual": true, "norm_2": "pre", "rms_norm_2": true, "epsilon_2": 0, "activation": "relu" }),
        json!({ "residual": [[6, 8]], "norm_2": [["0.8485", "1.1314"]], "inner": [["1.9799"]],
            "residual_2": [["7.9799", "6.0201"]] }),
    );
    // A layer norm turns it into (−1, 1), whatever the first norm is, and the activation keeps 0 at 0.
    with(
        json!({ "norm": "post", "rms_norm": true, "epsilon": 0, "norm_2": "pre", "activation": "silu" }),
        json!({ "final_norm": [["0.8485", "1.1314"]], "norm_2": [["-1.0000", "1.0000"]], "inner": [["0.0000"]],
            "feed_forward": [["0.0000", "0.0000"]], "residual_2": [["0.8485", "1.1314"]] }),
    );
    // Without a norm and a residual connection only the network remains, and its rows are pooled.
    with(
        json!({ "activation": "relu", "pooling": "mean" }),
        json!({ "output": [[3, 4]], "inner": [[7]], "feed_forward": [[7, -7]], "pooled": [[7, -7]] }),
    );
    let trace = WorkedExample::parse(&file(json!({ "activation": "gelu" })).to_string()).unwrap().trace(0).unwrap();
    let inner = trace.steps.iter().find(|step| step.name() == "inner").unwrap();
    assert_eq!(
        (&inner.shape_letters[..], inner.formula.as_ref().unwrap().text.as_str()),
        (&["n".into(), "d_ff".into()][..], "U = O W_1")
    );
}

#[test]
fn inconsistent_inputs_are_reported() {
    let cases = [
        (r#"{"X": [[1]], "W_1": [[1]]}"#, "{}", "inputs.W_1: expected options.activation"),
        (r#"{"W_1": [[1]]}"#, r#"{"activation": "relu"}"#, "inputs.W_1: expected an input of the feed-forward network"),
        (
            r#"{"X": [[1]], "W_Q": [[1]], "W_1": [[1]]}"#,
            r#"{"activation": "relu"}"#,
            "expected an input of the feed-forward network: an output of attention, or X alone",
        ),
        (
            r#"{"X": [[1]]}"#,
            r#"{"activation": "swish"}"#,
            "options.activation: expected \"relu\", \"gelu\", \"gelu_tanh\" or \"silu\", found “swish”",
        ),
        (r#"{"X": [[1]]}"#, r#"{"activation": 3}"#, "options.activation: expected \"relu\""),
        (r#"{"X": [[1]]}"#, r#"{"norm_2": "both"}"#, "options.norm_2: expected \"pre\" or \"post\""),
        (r#"{"X": [[1]]}"#, r#"{"epsilon_2": -1}"#, "options.epsilon_2: expected 0 or more"),
        (r#"{"X": [[1]]}"#, r#"{"activation": "relu"}"#, "options.activation: expected inputs.W_1 too"),
        (r#"{"X": [[1]], "b_2": [1]}"#, "{}", "inputs.b_2: expected inputs.W_1 too"),
        (r#"{"X": [[1]], "gamma_2": [1]}"#, "{}", "gamma_2 and norm_beta_2: expected options.norm_2"),
        (
            r#"{"X": [[1]], "W_1": [[1]], "norm_beta_2": [1]}"#,
            r#"{"activation": "relu", "norm_2": "pre", "rms_norm_2": true}"#,
            "options.rms_norm_2: expected options.norm_2, \"pre\" or \"post\", for its position, and no norm_beta_2",
        ),
        (
            r#"{"X": [[1]], "W_1": [[1], [2]]}"#,
            r#"{"activation": "relu"}"#,
            "inputs.W_1 is 2×1: expected 1 rows, as X is 1×1",
        ),
        (
            r#"{"X": [[1]], "W_1": [[1, 2]], "W_gate": [[1]]}"#,
            r#"{"activation": "relu"}"#,
            "inputs.W_gate: expected 2 columns, as W_1 has, found 1",
        ),
        (
            r#"{"X": [[1]], "W_1": [[1]], "b_gate": [1]}"#,
            r#"{"activation": "relu"}"#,
            "inputs.b_gate: expected inputs.W_gate too",
        ),
        (
            r#"{"X": [[1]], "W_1": [[1]], "b_1": [1, 2]}"#,
            r#"{"activation": "relu"}"#,
            "inputs.b_1 is 1×2: expected 1×1, as W_1 has 1 columns",
        ),
        (
            r#"{"X": [[1]], "W_1": [[1]], "b_2": [1]}"#,
            r#"{"activation": "relu"}"#,
            "inputs.W_2: expected the weights of the second",
        ),
        (
            r#"{"X": [[1]], "W_1": [[1]]}"#,
            r#"{"activation": "relu", "norm_2": "post"}"#,
            "inputs.W_2: expected the weights",
        ),
        (
            r#"{"X": [[1]], "W_1": [[1]], "W_2": [[1, 2]]}"#,
            r#"{"activation": "relu", "norm_2": "post"}"#,
            "residual_2: X is 1×1 and feed_forward 1×2: expected equal shapes, to add them",
        ),
        (r#"{"X": [[1]], "W_3": [[1]]}"#, "{}", "unknown key “W_3” in inputs"),
        (
            r#"{"X": [[1]]}"#,
            r#"{"activations": "relu"}"#,
            "unknown key “activations” in options; did you mean “activation”?",
        ),
    ];
    for (inputs, options, said) in cases {
        let file = format!(r#"{{"inputs": {inputs}, "options": {options}, "claims": {{"inner": [[1]]}}}}"#);
        let problem = WorkedExample::parse(&file).and_then(|example| example.check()).unwrap_err();
        assert!(problem.contains(said), "{file}: {problem}");
    }
    for (claim, inputs, options, said) in [
        ("inner", r#"{"X": [[1]]}"#, "{}", "give W_1 and options.activation"),
        ("inner", r#"{"Q": [[1]]}"#, "{}", "give X and W_1 and options.activation"),
        ("gated", r#"{"X": [[1]], "W_1": [[1]]}"#, r#"{"activation": "relu"}"#, "give W_gate"),
        ("residual_2", r#"{"X": [[1]], "W_1": [[1]]}"#, r#"{"activation": "relu"}"#, "give W_2"),
        ("norm_2", r#"{"X": [[1]], "W_1": [[1]]}"#, r#"{"activation": "relu"}"#, "give options.norm_2 as \"pre\""),
        (
            "final_norm_2",
            r#"{"X": [[1]], "W_1": [[1]], "W_2": [[1]]}"#,
            r#"{"activation": "relu", "norm_2": "pre"}"#,
            "give options.norm_2 as \"post\"",
        ),
        ("W_2", r#"{"X": [[1]], "W_1": [[1]]}"#, r#"{"activation": "relu"}"#, "it is an input, not a result"),
    ] {
        let file = format!(r#"{{"inputs": {inputs}, "options": {options}, "claims": {{"{claim}": [[1]]}}}}"#);
        let problem = WorkedExample::parse(&file).and_then(|example| example.check()).unwrap_err();
        assert!(problem.contains(&format!("claims.{claim} does not follow from the inputs: ")), "{problem}");
        assert!(problem.ends_with(said), "{file}: {problem}");
    }
}

fn value<'a>(trace: &'a Trace, name: &str) -> &'a Array2<f64> {
    &step(trace, name).value
}

fn step<'a>(trace: &'a Trace, name: &str) -> &'a TraceStep {
    let found = trace.steps.iter().find(|step| step.name() == name);
    found.unwrap_or_else(|| {
        panic!("{name} is not among {:?}", trace.steps.iter().map(TraceStep::name).collect::<Vec<_>>())
    })
}

#[test]
fn steps_match_the_kernels() {
    let mut random = Random::new(5);
    let mut matrix = |rows: usize, columns: usize| -> Vec<Vec<f64>> {
        (0..rows).map(|_| (0..columns).map(|_| 3.0 * random.number()).collect()).collect()
    };
    let (x, first, gate, second) = (matrix(5, 4), matrix(4, 7), matrix(4, 7), matrix(7, 4));
    for (name, activation) in chumoku::nn::ACTIVATIONS {
        let file = json!({ "inputs": { "X": x, "W_1": first, "W_gate": gate, "W_2": second }, "options": { "activation": name } });
        let trace = WorkedExample::parse(&file.to_string()).unwrap().trace(0).unwrap();
        let [inner, gate] = ["inner", "gate"].map(|name| value(&trace, name));
        let both = ndarray::concatenate(Axis(1), &[inner.view(), gate.view()]).unwrap();
        let mut activated = vec![f64::NAN; inner.len()];
        let plain = inner.as_standard_layout();
        activation_forward(activation, plain.as_slice().unwrap(), &mut activated).unwrap();
        assert_eq!(value(&trace, "activated").iter().copied().collect::<Vec<f64>>(), activated, "{name}");
        let (mut gated, both) = (vec![f64::NAN; inner.len()], both.as_standard_layout());
        gated_forward(activation, both.as_slice().unwrap(), 7, &mut gated).unwrap();
        assert_eq!(value(&trace, "gated").iter().copied().collect::<Vec<f64>>(), gated, "{name}");
        let second = Array2::from_shape_fn((7, 4), |(i, j)| second[i][j]);
        let expected = Array2::from_shape_vec((5, 7), gated).unwrap().dot(&second);
        let difference = (value(&trace, "feed_forward") - &expected).mapv(f64::abs).fold(0.0, |a: f64, b| a.max(*b));
        assert!(difference < 1e-12, "{name}: {difference}");
        assert!(
            trace
                .steps
                .iter()
                .all(|step| step.expansion.as_ref().is_none_or(|e| (e.evaluate() - e.result).abs() < 1e-12))
        );
    }
    assert_eq!(chumoku::nn::ACTIVATIONS[0].1, Activation::Gelu);
}

#[test]
fn layers_of_published_models_match_their_hidden_states() {
    // The activation, and whether the network is gated.
    let cases = [
        ("bert_classifier", "gelu(U) = U/2 · (1 + erf(U/√2))", false),
        ("distilbert_classifier", "gelu(U) = ", false),
        ("roberta_classifier", "gelu(U) = ", false),
        ("modernbert_classifier", "gelu(U) = ", true),
        ("llama", "silu(U) = U / (1 + exp(−U))", true),
        ("mistral", "silu(U) = ", true),
        ("qwen2", "silu(U) = ", true),
        ("qwen3", "silu(U) = ", true),
        ("gpt2", "U/2 · (1 + tanh(√(2/π)(U + 0.044715 U³)))", false),
    ];
    for (name, activation, is_gated) in cases {
        let expected = GoldenFile::read(&format!("pretrained/{name}/expected"));
        let (ids, ends) = (expected.integers("in.ids"), expected.integers("in.offsets"));
        let text = ids[..ends[1]].iter().map(|id| format!("t{id}")).collect::<Vec<_>>().join(" ");
        let hidden = |layer: usize| {
            let all = expected.tensor(&format!("out.hidden.{layer}"));
            let width = all.len() / ids.len();
            Array2::from_shape_vec((ends[1], width), all[..ends[1] * width].to_vec()).unwrap()
        };
        let folder = published_folder(name);
        let record = |layer: usize| {
            let place = HeadSelection { layer: Some(layer), head: 1 };
            match is_causal(name) {
                true => TextGenerator::load(folder.path()).unwrap().record(&text, place).unwrap(),
                false => TextClassifier::load(folder.path()).unwrap().record(&text, place).unwrap(),
            }
        };
        let mut before: Option<Array2<f64>> = None;
        let layers = (0..).take_while(|layer| expected.has(&format!("out.hidden.{layer}"))).count() - 1;
        assert!(layers > 1, "{name}");
        for layer in 0..layers {
            let record = record(layer);
            // The output of a layer is the input of the next, to the last bit.
            let own = &record.exact.attention;
            assert!(before.is_none_or(|before| before == own.x), "{name}, layer {layer}");
            before = own.feed_forward.as_ref().map(|network| network.output.clone());
            let trace = Trace::from_model(record, name).unwrap();
            // The model's answer follows the last layer.
            let of_layer = |step: &&TraceStep| ["residual_2", "final_norm_2"].contains(&step.name());
            let last = trace.steps.iter().rev().find(of_layer).unwrap();
            let is_post = last.name() == "final_norm_2";
            let has_answer = !is_causal(name);
            assert_eq!(
                trace.steps.last().unwrap().name(),
                if has_answer { "probabilities" } else { last.name() },
                "{name}"
            );
            // In pre-norm models one more norm follows the last layer, and the hidden states include it.
            if is_post || layer + 1 < layers {
                let hidden = hidden(layer + 1);
                let largest = hidden.iter().fold(0.0f64, |most, x| most.max(x.abs()));
                let difference = (&last.value - &hidden).iter().fold(0.0f64, |most, x| most.max(x.abs()));
                assert!(difference < 1e-5 * largest, "{name}, layer {layer}: {difference} of {largest}");
            }
            let names: Vec<&str> = trace.agreements[0].largest_differences.iter().map(|(name, _)| *name).collect();
            let answer: &[&str] = if has_answer { &["probabilities"] } else { &[] };
            // The embeddings add up to X. Llama's are X themselves.
            let is_llama = ["llama", "mistral", "qwen2", "qwen3"].contains(&name);
            let x: &[&str] = if layer == 0 && !is_llama { &["X"] } else { &[] };
            assert_eq!(names, [x, &["weights", "residual", last.name()], answer].concat(), "{name}");
            for (of, difference) in &trace.agreements[0].largest_differences {
                assert!(*difference < 1e-5, "{name}, layer {layer}: {of} {difference}");
            }
            if has_answer {
                let model = TextClassifier::load(folder.path()).unwrap();
                let own = &model.predict(&[&text]).unwrap()[0].network;
                let (found, labels) = (value(&trace, "probabilities"), model.labels());
                assert_eq!((found.dim(), &trace.classes[..]), ((1, labels.len()), labels), "{name}");
                for (p, own) in found.iter().zip(own) {
                    assert!((p.ln() - f64::from(*own)).abs() < 1e-5, "{name}, layer {layer}: {p}, ln {own}");
                }
                // The last layer's norm gives the hidden states; the input of a following layer is given.
                let is_behind = layer + 1 == layers;
                let last = if is_post { last.name() } else { "last_norm" };
                let row = step(&trace, "pooled").formula.as_ref().unwrap();
                let of = step(&trace, if is_behind { last } else { "hidden" });
                assert!(row.text.contains(&of.symbol), "{name}, layer {layer}: {}", row.text);
                let all = hidden(layers);
                let difference = (&of.value - &all).iter().fold(0.0f64, |most, x| most.max(x.abs()));
                assert!(difference < 1e-4, "{name}, layer {layer}: {difference}");
            }
            let formula = &step(&trace, "activated").formula.as_ref().unwrap().text;
            assert!(formula.starts_with(&format!("U′ = {activation}")), "{name}: {formula}");
            assert_eq!(trace.steps.iter().any(|step| step.name() == "gated"), is_gated, "{name}");
            assert_eq!(trace.steps.iter().any(|step| step.name() == "norm_2"), !is_post, "{name}");
            assert!(trace.steps.iter().flat_map(|step| &step.checks).all(|check| check.holds), "{name}");
            // The first layer of ModernBERT has only the second norm.
            let has_first = trace.steps.iter().any(|step| step.name() == "norm" || step.name() == "final_norm");
            assert_eq!(has_first, !(name == "modernbert_classifier" && layer == 0), "{name}");
        }
    }
}

fn is_causal(name: &str) -> bool {
    !name.ends_with("_classifier")
}
