//! The embeddings of a trace: those of published models against their own first hidden states, and by hand.

use crate::common::expansions::Evaluate as _;
use crate::common::layers::bert_embeddings;
use crate::common::traces::published_folder;
use chumoku::models::TranslatorAttention;
use chumoku::{TextClassifier, TextEmbedder, TextGenerator, TextTranslator};
use chumoku_trace::{HeadSelection, StepKind, Trace, TraceOptions, TraceStep, WorkedExample};
use chumoku_view::Lang;
use ndarray::{Array2, Axis, Slice};
use serde_json::{Value, json};
use testkit::GoldenFile;

const FIRST: HeadSelection = HeadSelection { layer: Some(0), head: 1 };

/// Returns a text of the golden file, and the numbers of the first hidden state that belong to it.
fn golden(name: &str, side: &str, hidden: &str) -> (String, Array2<f64>) {
    let expected = GoldenFile::read(&format!("pretrained/{name}/expected"));
    let (ids, ends) = (expected.integers(&format!("in.{side}ids")), expected.integers(&format!("in.{side}offsets")));
    let all = expected.tensor(hidden);
    let width = all.len() / ids.len();
    let first = Array2::from_shape_vec((ends[1], width), all[..ends[1] * width].to_vec()).unwrap();
    (ids[..ends[1]].iter().map(|id| format!("t{id}")).collect::<Vec<_>>().join(" "), first)
}

fn step<'a>(trace: &'a Trace, name: &str) -> Option<&'a TraceStep> {
    trace.steps.iter().find(|step| step.kind == StepKind::Value && step.name() == name)
}

/// The formulas of the input: every computed step up to X.
fn formulas(trace: &Trace) -> Vec<&str> {
    let end = trace.steps.iter().position(|step| step.name() == "X").unwrap();
    trace.steps[..=end].iter().filter_map(|step| step.formula.as_ref()).map(|formula| &formula.text[..]).collect()
}

/// Checks that the first rows of a step equal those that the published model computes, and that the ids are the text's.
fn assert_equal(what: &str, trace: &Trace, name: &str, text: &str, expected: &Array2<f64>) {
    let all = &step(trace, name).unwrap_or_else(|| panic!("{what}: no {name}")).value;
    assert_eq!(all.nrows(), text.split(' ').count(), "{what}");
    let found = all.slice_axis(Axis(0), Slice::from(..expected.nrows()));
    let largest = expected.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    let difference = (&found - expected).iter().fold(0.0f64, |most, x| most.max(x.abs()));
    assert!(difference < 1e-5 * largest, "{what}: {difference} of {largest}");
    let ids: Vec<String> = step(trace, "ids").unwrap().value.iter().map(|id| format!("t{id}")).collect();
    assert_eq!(ids.join(" "), text, "{what}");
    for (name, difference) in &trace.agreements[0].largest_differences {
        assert!(*difference < 1e-5, "{what}: {name} {difference}");
    }
    assert!(trace.steps.iter().flat_map(|step| &step.checks).all(|check| check.holds), "{what}");
    for step in &trace.steps {
        let is_right = step.expansion.as_ref().is_none_or(|e| (e.evaluate() - e.result).abs() < 1e-9);
        assert!(is_right, "{what}, {}: {:?}", step.symbol, step.expansion);
    }
}

/// The formulas of BERT's input.
const BERT: [&str; 3] = ["X_P = X_E + P", "X_S = X_P + E_T", "X = γ_E · (X_S − μ) / √(σ² + ε) + β_E"];

#[test]
fn encoders_begin_with_their_embeddings() {
    let cases: [(&str, &[&str]); 7] = [
        ("bert_classifier", &BERT),
        ("roberta_classifier", &BERT),
        ("distilbert_classifier", &["X_S = X_E + P", "X = γ_E · (X_S − μ) / √(σ² + ε) + β_E"]),
        ("modernbert_classifier", &["X = γ_E · (X_E − μ) / √(σ² + ε) + β_E"]),
        ("bert", &BERT),
        ("xlm_roberta", &BERT),
        ("gpt2", &["X = X_E + P"]),
    ];
    for (name, expected) in cases {
        let (text, first) = golden(name, "", "out.hidden.0");
        let folder = published_folder(name);
        let record = match name {
            "gpt2" => TextGenerator::load(folder.path()).unwrap().record(&text, FIRST),
            "bert" | "xlm_roberta" => TextEmbedder::load(folder.path(), None).unwrap().record(&text, FIRST),
            _ => TextClassifier::load(folder.path()).unwrap().record(&text, FIRST),
        };
        let trace = Trace::from_model(record.unwrap(), name).unwrap();
        assert_eq!(formulas(&trace), expected, "{name}");
        assert_equal(name, &trace, "X", &text, &first);
        assert_eq!(trace.agreements[0].largest_differences[0].0, "X", "{name}");
        let types = step(&trace, "type_ids").map(|step| step.value.iter().all(|x| *x == 0.0));
        assert_eq!(types, expected.iter().any(|text| text.contains("E_T")).then_some(true), "{name}");
    }
    // Llama's vectors are X themselves: only their ids are new.
    let folder = published_folder("llama");
    let record = TextGenerator::load(folder.path()).unwrap().record("t5 t7 t9", FIRST).unwrap();
    let trace = Trace::from_model(record, "llama").unwrap();
    assert_eq!(step(&trace, "ids").unwrap().value.iter().copied().collect::<Vec<_>>(), [5.0, 7.0, 9.0]);
    assert!(step(&trace, "X").unwrap().formula.is_none());
}

#[test]
fn gradients_of_embeddings_match_the_model() {
    for name in ["bert_classifier", "distilbert_classifier", "modernbert_classifier"] {
        let model = TextClassifier::load(published_folder(name).path()).unwrap();
        let record = model.record_backward("t5 t7 t9 t5", FIRST, None).unwrap();
        let trace = Trace::from_model(record, name).unwrap();
        let sum = if name == "modernbert_classifier" { "embeddings" } else { "embedding_sum" };
        let differences = &trace.agreements[0].largest_gradient_differences;
        for expected in ["X", sum, "gamma_embedding"] {
            let found = differences.iter().find(|(name, _)| *name == expected);
            let (_, difference) = found.unwrap_or_else(|| panic!("{name}: no {expected} in {differences:?}"));
            assert!(*difference < 1e-4, "{name}, {expected}: {difference}");
        }
    }
}

#[test]
fn translators_begin_with_the_embeddings_of_their_side() {
    let folder = published_folder("marian");
    let model = TextTranslator::load(folder.path()).unwrap();
    let (source, encoded) = golden("marian", "", "out.encoder.hidden.0");
    let (target, decoded) = golden("marian", "target_", "out.hidden.0");
    // The golden source has no end token, which the model adds; the golden target begins with the start token.
    let (source_text, target_text) = (&source[..], target.strip_prefix("t49 ").unwrap());
    let source = format!("{source_text} t0");
    let record = |part| {
        let record = model.record(source_text, Some(target_text), part, FIRST).unwrap();
        let backward = model.record_backward(source_text, Some(target_text), part, FIRST).unwrap();
        let backward = Trace::from_model(backward, "marian").unwrap();
        let gradients = &backward.agreements[0].largest_gradient_differences;
        assert!(gradients.iter().any(|(name, _)| *name == "X"), "{gradients:?}");
        assert!(gradients.iter().all(|(_, difference)| *difference < 1e-4), "{gradients:?}");
        (Trace::from_model(record, "marian").unwrap(), backward)
    };
    let gradient_of = |trace: &Trace, name: &str| {
        trace.steps.iter().any(|step| step.kind == StepKind::Gradient && step.name() == name)
    };
    let sums = ["X_E = √16 · E", "X = X_E + P"];
    for (part, text, expected) in
        [(TranslatorAttention::Encoder, &source, &encoded), (TranslatorAttention::Decoder, &target, &decoded)]
    {
        let (trace, backward) = record(part);
        assert_eq!(formulas(&trace), sums);
        assert_equal("marian", &trace, "X", text, expected);
        assert!(gradient_of(&backward, "token_vectors") && gradient_of(&backward, "positions"));
    }
    // Cross-attention reads the output of self-attention.
    let (trace, backward) = record(TranslatorAttention::Cross);
    assert_eq!(formulas(&trace), ["X_E = √16 · E", "X_S = X_E + P"]);
    assert_equal("marian", &trace, "embedding_sum", &target, &decoded);
    let (below, x) = (record(TranslatorAttention::Decoder).0, step(&trace, "X").unwrap());
    let difference = (&below.steps.iter().rev().find(|step| step.name() == "final_norm").unwrap().value - &x.value)
        .iter()
        .fold(0.0f64, |most, x| most.max(x.abs()));
    assert!(x.formula.is_none() && difference < 1e-5, "{difference}");
    assert!(!gradient_of(&backward, "token_vectors") && gradient_of(&backward, "X"));
    let mut options = TraceOptions::default();
    for (lang, said) in [(Lang::En, "this layer’s self-attention reads it"), (Lang::Ja, "この層のセルフアテンション")]
    {
        options.lang = lang;
        for form in [trace.to_text(&options), trace.to_markdown(&options), trace.to_latex(&options)] {
            assert_eq!(form.split_whitespace().collect::<Vec<_>>().join(" ").matches(said).count(), 1, "{form}");
        }
        assert!(trace.to_html(&options).contains(said) && !below.to_html(&options).contains(said));
    }
    // Another layer has no embeddings.
    let record =
        model.record(source_text, None, TranslatorAttention::Encoder, HeadSelection { layer: Some(1), head: 0 });
    assert!(step(&Trace::from_model(record.unwrap(), "marian").unwrap(), "ids").is_none());
}

/// BERT's embeddings of two tokens by hand: 1 + 2 + 3 and so on, whose normalized rows are ±1.
fn by_hand() -> Value {
    json!({
        "inputs": {
            "ids": [7, 9], "embeddings": [[1, 2], [0, 4]], "positions": [[2, 0], [1, -1]], "type_ids": [0, 1],
            "type_vectors": [[3, 0], [0, 0.5]], "gamma_embedding": [2, 1], "norm_beta_embedding": [0.5, -0.5],
            "W_Q": [[1, 0], [0, 1]], "W_K": [[1, 0], [0, 1]], "W_V": [[1, 0], [0, 1]],
        },
        "options": { "embedding_norm": "layer", "epsilon_embedding": 0 },
        "claims": {
            "embeddings_positions": [["3.0", "2.0"], ["1.0", "3.0"]],
            "embedding_sum": [["6.0", "2.0"], ["1.0", "3.5"]],
            "X": [["2.5", "-1.5"], ["-1.5", "0.5"]],
        },
    })
}

fn parse(file: &Value) -> WorkedExample {
    WorkedExample::parse(&file.to_string()).unwrap_or_else(|problem| panic!("{problem}: {file}"))
}

#[test]
fn embeddings_by_hand_are_checked() {
    let report = parse(&by_hand()).check().unwrap();
    assert!(report.ok && report.steps.len() == 3, "{report:?}");
    let mut file = by_hand();
    file["claims"]["embedding_sum"][1][1] = "4.5".into();
    let report = parse(&file).check().unwrap();
    let wrong: Vec<&str> =
        report.steps.iter().filter(|step| !step.name.is_empty()).map(|step| &step.name[..]).collect();
    assert!(!report.ok && wrong.contains(&"embedding_sum"), "{report:?}");
    // An RMS norm has no mean.
    let mut file = by_hand();
    file["options"]["embedding_norm"] = "rms".into();
    file["inputs"].as_object_mut().unwrap().remove("norm_beta_embedding");
    let trace = parse(&file).trace(0).unwrap();
    let mean_square: f64 = (36.0 + 4.0) / 2.0;
    assert!((step(&trace, "X").unwrap().value[[0, 0]] - 2.0 * 6.0 / mean_square.sqrt()).abs() < 1e-12);
}

#[test]
fn embeddings_that_do_not_fit_are_refused() {
    let change = |key: &str, name: &str, value: Value| {
        let mut file = by_hand();
        file["claims"] = json!({});
        match value.is_null() {
            true => drop(file[key].as_object_mut().unwrap().remove(name)),
            false => file[key][name] = value,
        }
        parse(&file).trace(0).map(drop).unwrap_err()
    };
    let rows = json!([[1, 2, 3], [4, 5, 6]]);
    for (key, name, value, said) in [
        ("inputs", "type_vectors", rows.clone(), "inputs.type_vectors is 2×3: expected 2×2"),
        ("inputs", "positions", rows, "inputs.positions is 2×3: expected 2×2"),
        ("inputs", "type_ids", json!([0]), "inputs.type_ids is 1×1: expected 2×1"),
        ("inputs", "ids", json!([0, 1, 2]), "inputs.ids is 3×1: expected 2×1"),
        ("inputs", "gamma_embedding", json!([1]), "inputs.gamma_embedding is 1×1"),
        (
            "options",
            "embedding_norm",
            Value::Null,
            "gamma_embedding and norm_beta_embedding: expected options.embedding_norm",
        ),
        ("options", "embedding_norm", json!("rms"), "options.embedding_norm: expected no norm_beta_embedding"),
        ("inputs", "X", json!([[1, 2], [3, 4]]), "options.embedding_norm: expected token_vectors or embeddings"),
        ("inputs", "embeddings", Value::Null, "options.embedding_norm: expected token_vectors or embeddings"),
    ] {
        let problem = change(key, name, value);
        assert!(problem.contains(said), "{name}: {problem}");
    }
    // A claim about a sum that does not follow says what is missing.
    let mut file = by_hand();
    file["inputs"].as_object_mut().unwrap().remove("type_vectors");
    file["claims"] = json!({ "embeddings_positions": [[3, 2], [1, 3]] });
    let problem = parse(&file).check().map(drop).unwrap_err();
    assert!(problem.contains("type_vectors"), "{problem}");
    // The ids of X that is given are checked too.
    let problem =
        parse(&json!({ "inputs": { "X": [[1], [2]], "ids": [1], "W_Q": [[1]], "W_K": [[1]], "W_V": [[1]] } }))
            .trace(0)
            .map(drop)
            .unwrap_err();
    assert!(problem.contains("inputs.ids is 1×1: expected 2×1"), "{problem}");
}

#[test]
fn the_embeddings_of_an_example_are_labeled_in_both_languages() {
    let trace = parse(&bert_embeddings()).trace_backward(0).unwrap();
    for (lang, titles) in [
        (Lang::En, ["Embeddings with positions", "Token types", "Sum of the embeddings"]),
        (Lang::Ja, ["位置を加えた埋め込み", "トークンの種別", "埋め込みの和"]),
    ] {
        let mut options = TraceOptions::default();
        options.lang = lang;
        let (text, page) = (trace.to_text(&options), trace.to_html(&options));
        for title in titles {
            assert!(text.contains(title) && page.contains(title), "{title}: {text}");
        }
    }
    let json = trace.to_json(Lang::En);
    let of = |name: &str| {
        let mut steps = json["steps"].as_array().unwrap().iter();
        steps.find(|step| step["name"] == name && step["kind"] == "value").unwrap().clone()
    };
    assert_eq!(
        (&of("embedding_sum")["formula"], &of("type_ids")["shape"]),
        (&"X_S = X_P + E_T".into(), &json!([3, 1]))
    );
    assert_eq!(
        (&of("type_ids")["batch_letters"], &of("X")["batch_letters"]),
        (&json!(["B", "n"]), &json!(["B", "n", "d_model"]))
    );
}
