//! `trace --backward --model`: the displayed gradients equal those of training, and finite differences of the loss.

use crate::common::TestDir;
use chumoku::models::{Classifier, LanguageModel, TranslationBatch, Translator};
use chumoku::nn::{Mode, Offsets};
use chumoku::params::{ParamLayout, ParamView, Params};
use chumoku::text::TextTokenizer;
use chumoku::{TextClassifier, TextGenerator, TextTranslator};
use chumoku_kernels::{AdamW, CrossEntropy, adamw_step};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// The tolerance between a gradient and the model's own, relative to its largest element.
const TOLERANCE: f64 = 1e-5;

/// The parameters of a model in double precision.
fn to_f64(params: &Params<f32>, layout: &Arc<ParamLayout>) -> Params<f64> {
    let mut exact = Params::zeros(layout);
    assert_eq!(exact.values().len(), params.values().len());
    exact.values_mut().iter_mut().zip(params.values()).for_each(|(to, x)| *to = f64::from(*x));
    exact
}

/// The ids of a trace's tokens.
fn ids(place: &TestDir, file: &str, tokens: &Value) -> Vec<u32> {
    let tokenizer = TextTokenizer::from_json(&place.read(file)).unwrap();
    let mut known: HashMap<String, u32> =
        (0..tokenizer.vocab_size() as u32).map(|id| (tokenizer.token(id), id)).collect();
    // A translator begins its output and ends its input with one token.
    known.extend(["[START]", "[END]"].map(|name| (name.to_owned(), tokenizer.cls_id())));
    tokens.as_array().unwrap().iter().map(|token| known[token.as_str().unwrap()]).collect()
}

fn step<'a>(trace: &'a Value, kind: &str, name: &str) -> &'a Value {
    let steps = trace["steps"].as_array().unwrap();
    let found = steps.iter().find(|step| step["kind"] == kind && step["name"] == name && step["head"].is_null());
    found.unwrap_or_else(|| panic!("no {kind} of {name}"))
}

fn matrix(step: &Value) -> Vec<Vec<f64>> {
    let rows = step["matrix"].as_array().unwrap().iter();
    rows.map(|row| row.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()).collect()
}

/// A model under comparison.
struct GradientCheck<'a> {
    layout: &'a Arc<ParamLayout>,
    params: Params<f64>,
    /// Computes the loss, and adds its gradient to the second argument, as in training.
    loss: &'a dyn Fn(&Params<f64>, &mut Params<f64>) -> f64,
}

impl GradientCheck<'_> {
    /// Compares each gradient of a trace with the model's own and with finite differences of its loss. Each quantity
    /// has its name, its parameter, and the parameter's first row.
    fn compare_gradients(&self, trace: &Value, quantities: &[(&str, String, usize)]) {
        let mut grads = Params::zeros(self.layout);
        let loss = (self.loss)(&self.params, &mut grads);
        let said = trace["loss"]["value"].as_f64().unwrap();
        assert!((said - loss).abs() < 1e-5 * (1.0 + loss), "{said} {loss}");
        let mut scratch = Params::zeros(self.layout);
        for (name, parameter, start) in quantities {
            let found = self.layout.iter().find(|param| param.name == *parameter);
            let ParamView { shape, range, .. } = found.unwrap_or_else(|| panic!("no {parameter}"));
            let shown = matrix(step(trace, "gradient", name));
            let rows = if shape.len() == 2 { shown.len() } else { 1 };
            let place = |i: usize, j: usize| range.start + (start + j) * rows + i;
            let places = || (0..shown.len()).flat_map(|i| (0..shown[i].len()).map(move |j| (i, j)));
            let largest = places().map(|(i, j)| grads.values()[place(i, j)].abs()).fold(0.0, f64::max);
            assert!(largest > 0.0, "{name}");
            for (i, j) in places() {
                let (own, found) = (grads.values()[place(i, j)], shown[i][j]);
                assert!(
                    (own - found).abs() <= TOLERANCE * largest,
                    "{name}[{i}, {j}]: shown {found}, {own}; {largest}"
                );
            }
            // The largest of them, and some others.
            let (_, best) = places()
                .map(|at| (shown[at.0][at.1].abs(), at))
                .fold((-1.0, (0, 0)), |best, next| if next.0 > best.0 { next } else { best });
            for (i, j) in [best, (0, 0), (shown.len() - 1, shown[0].len() / 2)] {
                let mut at = |by: f64| {
                    let mut params = self.params.clone();
                    params.values_mut()[place(i, j)] += by;
                    (self.loss)(&params, &mut scratch)
                };
                let difference = (at(1e-5) - at(-1e-5)) / 2e-5;
                let off = (difference - shown[i][j]).abs();
                assert!(off <= TOLERANCE * largest + 1e-9, "{name}[{i}, {j}]: shown {}, {difference}", shown[i][j]);
            }
        }
        // And as reported by the model itself.
        for agreement in trace["agreements"].as_array().unwrap().iter().filter(|own| own["precision"] == "highest") {
            let off = agreement["largest_gradient_differences"].as_object().unwrap();
            assert!(off.len() > 4 && off.values().all(|x| x.as_f64().unwrap() < TOLERANCE), "{off:?}");
        }
    }
}

/// The quantities of one layer. The attention is identified by the names of its scope and of its norm.
fn layer_quantities(layer: &str, attention: &str, norm: &str, width: usize) -> Vec<(&'static str, String, usize)> {
    let own = |name: &str| format!("{layer}.{attention}.{name}");
    vec![
        ("W_Q", own("in_proj_weight"), 0),
        ("W_K", own("in_proj_weight"), width),
        ("W_V", own("in_proj_weight"), 2 * width),
        ("b_Q", own("in_proj_bias"), 0),
        ("b_V", own("in_proj_bias"), 2 * width),
        ("W_O", own("out_proj.weight"), 0),
        ("b_O", own("out_proj.bias"), 0),
        ("gamma", format!("{layer}.{norm}.weight"), 0),
        ("norm_beta", format!("{layer}.{norm}.bias"), 0),
    ]
}

/// The quantities of its feed-forward network.
fn network_quantities(layer: &str, norm: &str) -> Vec<(&'static str, String, usize)> {
    let all = [
        ("W_1", "linear1.weight"),
        ("b_1", "linear1.bias"),
        ("W_2", "linear2.weight"),
        ("b_2", "linear2.bias"),
        ("gamma_2", &format!("{norm}.weight")),
        ("norm_beta_2", &format!("{norm}.bias")),
    ];
    all.map(|(name, own)| (name, format!("{layer}.{own}"), 0)).to_vec()
}

fn films() -> TestDir {
    let place = TestDir::new();
    let rows: String =
        (0..60).map(|i| format!("good film number {i},pos\nbad film number {i},neg\nso so {i},mixed\n")).collect();
    place.write("films.csv", format!("text,label\n{rows}"));
    place
        .run(&["train", "films.csv", "--epochs", "1", "--out", "films", "--settings", "layers=2,width=32"])
        .assert_success();
    place
}

#[test]
fn gradients_of_a_classifier_equal_those_of_training() {
    let place = films();
    let model = TextClassifier::load(&place.path("films")).unwrap();
    let network = Classifier::new(model.config().model.clone()).unwrap();
    let text = "a good film number 3";
    let trace = |layer: usize, more: &[&str]| {
        let layer = layer.to_string();
        let args = ["trace", "--model", "films", "--text", text, "--backward", "--format", "json", "--layer", &layer];
        place.run(&[&args[..], more].concat()).assert_success().json()
    };
    let width = network.config().backbone.d_model();
    for (layer, class) in [(1, 1), (2, 0), (2, 2)] {
        let name = &model.labels()[class];
        let trace = trace(layer, &["--target", name]);
        assert_eq!((&trace["loss"]["of"], &trace["loss"]["class"]), (&json!("class"), &json!(name)));
        let ids = ids(&place, "films/tokenizer.json", &trace["tokens"]);
        let offsets = Offsets::from_lengths([ids.len()]);
        let loss = |p: &Params<f64>, grads: &mut Params<f64>| {
            let options = CrossEntropy { label_smoothing: 0.0, class_weights: None, row_weights: None };
            network.loss(p, (&ids, &offsets), &[class as u32], &options, Mode::Eval, grads).unwrap()
        };
        let own =
            GradientCheck { layout: network.layout(), params: to_f64(model.params(), network.layout()), loss: &loss };
        let scope = format!("encoder.layers.{}", layer - 1);
        let mut all =
            [layer_quantities(&scope, "self_attn", "norm1", width), network_quantities(&scope, "norm2")].concat();
        all.extend([("W_class", "head.weight".into(), 0), ("b_class", "head.bias".into(), 0)]);
        if layer == 2 {
            all.push(("gamma_last", "encoder.norm.weight".into(), 0));
        }
        own.compare_gradients(&trace, &all);
        // A gradient that arrives from untraced layers is marked as given.
        assert_eq!(trace["loss"]["arriving"].is_string(), layer == 1, "{}", trace["loss"]);
        assert_eq!(step(&trace, "gradient", "residual_2")["formula"].is_null(), layer == 1);
    }
    // Without a class, the most probable one is used.
    let usual = trace(2, &[]);
    let shares = &matrix(step(&usual, "value", "probabilities"))[0];
    let best = (0..shares.len()).fold(0, |best, k| if shares[k] > shares[best] { k } else { best });
    assert_eq!(usual["loss"]["class"], json!(model.labels()[best]));
    assert_eq!(matrix(step(&usual, "value", "target"))[0][best], 1.0);
}

#[test]
fn the_step_is_the_first_step_of_training_with_defaults() {
    let place = films();
    let args = ["trace", "--model", "films", "--text", "a bad film", "--backward", "--format", "json", "--layer", "1"];
    let trace = place.run(&args).assert_success().json();
    let said = &trace["loss"]["step"];
    // The settings that training recorded.
    let plan = place.read("films/metrics.json");
    let plan: Value = serde_json::from_str(&plan).unwrap();
    let plan = &plan["plan"];
    for key in ["learning_rate", "weight_decay", "beta2"] {
        assert!(plan[key].is_number() && said[key] == plan[key], "{key}: {said} {plan}");
    }
    let flat = |kind: &str| matrix(step(&trace, kind, "W_Q")).concat();
    let (mut param, gradient) = (flat("value"), flat("gradient"));
    let number = |key: &str| said[key].as_f64().unwrap();
    let options = AdamW {
        learning_rate: number("learning_rate"),
        beta1: number("beta1"),
        beta2: number("beta2"),
        epsilon: number("epsilon"),
        weight_decay: number("weight_decay"),
        step: 1,
        grad_scale: 1.0,
    };
    let [mut m, mut v] = [vec![0.0; param.len()], vec![0.0; param.len()]];
    adamw_step(&options, &mut param[..], &gradient[..], [&mut m[..], &mut v[..]]).unwrap();
    for (kind, expected) in [("first_moment", m), ("second_moment", v), ("after", param)] {
        let found = flat(kind);
        assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-14), "{kind}");
    }
    let kinds = trace["steps"].as_array().unwrap().iter().filter(|step| step["kind"] == "after").count();
    assert_eq!(kinds, 1, "one matrix takes the step");
}

/// A pretrained model uses a smaller learning rate and other settings.
#[test]
fn the_step_of_a_fine_tuned_classifier_equals_that_of_fine_tuning() {
    let place = TestDir::with_bert();
    let rows: String = (0..40).map(|i| format!("good film {i},pos\nbad film {i},neg\n")).collect();
    place.write("films.csv", format!("text,label\n{rows}"));
    place.run(&["train", "films.csv", "--from", "bert", "--epochs", "1", "--out", "films"]).assert_success();
    let args = ["trace", "--model", "films", "--text", "a bad film", "--backward", "--format", "json"];
    let trace = place.run(&args).assert_success().json();
    let metrics: Value = serde_json::from_str(&place.read("films/metrics.json")).unwrap();
    for key in ["learning_rate", "weight_decay", "beta2"] {
        let (said, plan) = (&trace["loss"]["step"][key], &metrics["plan"][key]);
        assert!(plan.is_number() && said == plan, "{key}: {said} {plan}");
    }
    assert_eq!(trace["loss"]["step"]["weight_decay"], 0.01);
    let agreements = trace["agreements"].as_array().unwrap();
    for agreement in agreements.iter().filter(|own| own["precision"] == "highest") {
        let off = agreement["largest_gradient_differences"].as_object().unwrap();
        assert!(off.contains_key("W_class") && off.values().all(|x| x.as_f64().unwrap() < TOLERANCE), "{off:?}");
    }
}

#[test]
fn gradients_of_a_language_model_equal_those_of_training() {
    let place = TestDir::new();
    place.train_language_model();
    let model = TextGenerator::load(&place.path("lm")).unwrap();
    let network = LanguageModel::new(model.config().model.clone()).unwrap();
    let encoder = &network.config().encoder;
    for layer in [1, encoder.num_layers] {
        let number = layer.to_string();
        let args =
            ["trace", "--model", "lm", "--text", "to be or", "--backward", "--format", "json", "--layer", &number];
        let trace = place.run(&args).assert_success().json();
        assert_eq!(trace["loss"]["of"], "next_tokens");
        let ids = ids(&place, "lm/tokenizer.json", &trace["tokens"]);
        let (known, next) = (&ids[..ids.len() - 1], &ids[1..]);
        let offsets = Offsets::from_lengths([known.len()]);
        let loss = |p: &Params<f64>, grads: &mut Params<f64>| {
            network.loss(p, [known, next], &offsets, Mode::Eval, Some(grads)).unwrap()
        };
        let own =
            GradientCheck { layout: network.layout(), params: to_f64(model.params(), network.layout()), loss: &loss };
        let scope = format!("encoder.layers.{}", layer - 1);
        own.compare_gradients(
            &trace,
            &[layer_quantities(&scope, "self_attn", "norm1", encoder.d_model), network_quantities(&scope, "norm2")]
                .concat(),
        );
        assert!(trace["loss"]["arriving"].is_string());
    }
    // With one token before the predicted one, attention has no choice: the gradient of its queries is 0 or close to
    // it.
    let trace =
        place.run(&["trace", "--model", "lm", "--text", "t", "--backward", "--format", "json"]).assert_success().json();
    let largest = matrix(step(&trace, "gradient", "W_Q")).concat().iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    let off = trace["agreements"][0]["largest_gradient_differences"]["W_Q"].as_f64();
    assert!(largest < 1e-12 && off.is_some_and(|off| off < 1e-5), "{largest} {}", trace["agreements"]);
    place.run_rejected(
        &["trace", "--model", "lm", "--text", "to", "--target", "x", "--backward"],
        &["--target", "translators"],
    );
}

#[test]
fn gradients_of_a_translator_equal_those_of_training() {
    let place = TestDir::new();
    place.train_translator();
    let model = TextTranslator::load(&place.path("turn")).unwrap();
    let network = Translator::new(model.config().model.clone()).unwrap();
    let trace = |part: &str| {
        let args = ["trace", "--model", "turn", "--text", "123", "--target", "32", "--part", part, "--layer", "1"];
        place.run(&[&args[..], &["--backward", "--format", "json"]].concat()).assert_success().json()
    };
    let source = ids(&place, "turn/tokenizer.json", &trace("encoder")["tokens"]);
    let target = ids(&place, "turn/tokenizer.json", &trace("decoder")["tokens"]);
    let mut pair = TranslationBatch::default();
    pair.push(&source, &target[1..], target[0]);
    let loss = |p: &Params<f64>, grads: &mut Params<f64>| network.loss(p, &pair, 0.0, Mode::Eval, Some(grads)).unwrap();
    let own = GradientCheck { layout: network.layout(), params: to_f64(model.params(), network.layout()), loss: &loss };
    let width = network.config().encoder.d_model;
    let [encoder, decoder] = ["encoder.layers.0", "decoder.layers.0"];
    let all = [layer_quantities(encoder, "self_attn", "norm1", width), network_quantities(encoder, "norm2")].concat();
    own.compare_gradients(&trace("encoder"), &all);
    own.compare_gradients(&trace("decoder"), &layer_quantities(decoder, "self_attn", "norm1", width));
    let cross = trace("cross");
    own.compare_gradients(
        &cross,
        &[layer_quantities(decoder, "multihead_attn", "norm2", width), network_quantities(decoder, "norm3")].concat(),
    );
    assert_eq!(cross["loss"]["partial"], "dX_KV");
    assert_eq!(cross["loss"]["of"], "translation");
}

#[test]
fn every_format_has_the_gradients_and_names_the_loss() {
    let place = films();
    let run = |more: &[&str]| {
        let args =
            ["trace", "--model", "films", "--text", "a good film", "--layer", "1", "--target", "pos", "--backward"];
        place.run(&[&args[..], more].concat()).assert_success().stdout
    };
    for (format, formula) in [
        ("text", "dW_Q = Nᵀ dQ"),
        ("md", "\\mathrm{d}W_{Q} = {N}^{\\top} \\mathrm{d}Q"),
        ("latex", "\\mathrm{d}W_{Q} = {N}^{\\top} \\mathrm{d}Q"),
        ("html", "dW<sub>Q</sub> = N<sup>"),
        ("json", "dW_Q = Nᵀ dQ"),
    ] {
        let shown = run(&["--format", format]);
        let plain = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_there = plain.contains(formula) || (format == "html" && plain.contains("dW<sub>Q</sub> = N"));
        assert!(is_there, "{format}: {formula}: {shown}");
        for said in ["cross-entropy of the class", "pos", "as computed by the model’s own backward pass"] {
            assert!(plain.contains(said), "{format}: {said}: {shown}");
        }
        let numbers =
            if format == "latex" { "0.001" } else { "η = 0.001, β₁ = 0.9, β₂ = 0.98, ε = 1e-8, λ = 0.1" };
        assert!(plain.contains(numbers), "{format}: {shown}");
        // Fonts of LaTeX have no small digits.
        assert!(format != "latex" || shown.contains("$\\beta$$_1$") && !shown.contains('₁'), "{shown}");
        let japanese = run(&["--format", format, "--lang", "ja"]);
        assert!(japanese.contains("交差エントロピー"), "{format}: {japanese}");
    }
    // A sentence may be wrapped anywhere.
    let text = run(&["--depth", "steps"]).split_whitespace().collect::<Vec<_>>().join(" ");
    for said in ["dR_2 given: arrives from above", "J_", "W_Q⁺ = (1 − 0.001 · 0.1) · W_Q − Δ(W_Q)", "of gradients"]
    {
        assert!(text.contains(said), "{said}: {text}");
    }
    run(&["--format", "xlsx", "--out", "films.xlsx"]);
    assert!(std::fs::read(place.path("films.xlsx")).unwrap().starts_with(b"PK"));
}

#[test]
fn models_without_gradients_are_rejected() {
    let place = films();
    let args = ["trace", "--model", "films", "--text", "a good film"];
    let with = |more: &[&'static str]| [&args[..], more].concat();
    place.run_rejected(&with(&["--backward", "--target", "poss"]), &["no class “poss”", "did you mean “pos”?", "neg"]);
    place.run_rejected(&with(&["--target", "pos"]), &["--target", "add --backward"]);
    place.run_rejected(&with(&["--backward", "--part", "cross"]), &["--part: only for translators"]);
    place.run_rejected(&with(&["--backward", "--tokens"]), &["--backward", "--tokens"]);
    place.run_rejected(&with(&["--backward", "--beam", "2"]), &["--backward", "--beam"]);
    let rows: String = (0..60).map(|i| format!("good film number {i},4.{i}\nbad film number {i},1.{i}\n")).collect();
    place.write("ratings.csv", format!("text,rating\n{rows}"));
    place.run(&["train", "ratings.csv", "--task", "score", "--epochs", "1", "--out", "ratings"]).assert_success();
    place.run_rejected(
        &["trace", "--model", "ratings", "--text", "a good film", "--backward"],
        &["gradients: expected a model of mutually exclusive classes"],
    );
    let place = TestDir::with_bert();
    place.run_rejected(
        &["trace", "--model", "bert", "--text", "x", "--backward"],
        &["--backward: expected a model with a loss", "a pretrained encoder"],
    );
}
