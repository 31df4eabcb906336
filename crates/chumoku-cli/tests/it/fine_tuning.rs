//! `train --from`: a pretrained encoder becomes a classifier in its published format.

use crate::common::{TestDir, csv, sha256, tensors};
use chumoku::TextClassifier;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::exhaustive;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/pretrained").join(name)
}

const WORDS: [&str; 8] = ["good", "great", "bad", "awful", "film", "food", "room", "the"];

/// Tiny random encoders with words as tokens, and rows of two classes.
fn place() -> TestDir {
    let place = TestDir::new();
    for name in ["bert", "distilbert_classifier", "roberta_classifier"] {
        std::fs::create_dir(place.path(name)).unwrap();
        for file in ["config.json", "model.safetensors"] {
            std::fs::copy(golden(name).join(file), place.path(name).join(file)).unwrap();
        }
        // RoBERTa's padding token has id 1.
        let special = match name {
            "roberta_classifier" => ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"],
            _ => ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        };
        let words = special.into_iter().chain(WORDS);
        place.write(&format!("{name}/vocab.txt"), words.collect::<Vec<_>>().join("\n"));
    }
    let of_row = |i: usize| {
        let word = WORDS[i % 4];
        let other = |k: usize| WORDS[4 + (i * (k + 3) / 7 + k) % 4];
        let text = format!("{} {word} {} {} {i}", other(1), other(2), other(3));
        (text, if i % 4 < 2 { "pos" } else { "neg" }.to_owned())
    };
    place.write("data.csv", csv(&(0..240).map(of_row).collect::<Vec<_>>()));
    place
}

fn train(place: &TestDir, from: &str, out: &str, more: &[&str]) {
    place.run(&[&["train", "data.csv", "--from", from, "--out", out, "--epochs", "2"], more].concat()).assert_success();
}

/// RoBERTa's first two rows are for padding.
#[test]
fn learned_positions_begin_at_the_first_token() {
    let place = place();
    for (name, prefix, first) in [("bert", "", 0), ("roberta_classifier", "roberta.", 2)] {
        let shown = place.run(&["position", "--model", name, "--json", "-"]).assert_success().json();
        let shown = shown["map"]["values"].as_array().unwrap();
        let weights = tensors(&place.path(name).join("model.safetensors"));
        let (shape, bytes) = &weights[&format!("{prefix}embeddings.position_embeddings.weight")];
        assert_eq!(shown.len(), shape[0] - first, "{name}");
        for (row, weights) in shown.iter().zip(bytes.chunks_exact(4 * shape[1]).skip(first)) {
            let weights = weights.chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().unwrap()));
            assert!(row.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).eq(weights), "{name}");
        }
    }
}

#[test]
fn the_output_has_the_published_format() {
    let place = place();
    for (from, architecture, head) in [
        ("bert", "BertForSequenceClassification", ["bert.pooler.dense.weight", "classifier.weight"]),
        (
            "distilbert_classifier",
            "DistilBertForSequenceClassification",
            ["pre_classifier.weight", "classifier.weight"],
        ),
        (
            "roberta_classifier",
            "RobertaForSequenceClassification",
            ["classifier.dense.weight", "classifier.out_proj.weight"],
        ),
    ] {
        let out = format!("from-{from}");
        train(&place, from, &out, &[]);
        let (before, after) = (place.json(&format!("{from}/config.json")), place.json(&format!("{out}/config.json")));
        assert_eq!(after["architectures"], json!([architecture]));
        assert_eq!(after["id2label"], json!({ "0": "neg", "1": "pos" }));
        assert_eq!(after["label2id"], json!({ "neg": 0, "pos": 1 }));
        let same = |key: &str| assert_eq!(before[key], after[key], "{key}");
        ["model_type", "vocab_size", "layer_norm_eps", "pad_token_id"].into_iter().for_each(same);
        let names = |folder: &str| tensors(&place.path(folder).join("model.safetensors"));
        let written = names(&out);
        assert_eq!(written[head[0]].0, [16, 16], "{from}");
        assert_eq!(written[head[1]].0, [2, 16], "{from}");
        // All tensors of the encoder have their old names and new values.
        let prefix = format!("{}.", before["model_type"].as_str().unwrap());
        let is_of_head = |name: &str| name.contains("classifier") || name.contains("pooler");
        for (name, (shape, bytes)) in names(from).iter().filter(|(name, _)| !is_of_head(name)) {
            let name = if name.starts_with(&prefix) { name.clone() } else { format!("{prefix}{name}") };
            let (found, changed) = &written[&name];
            assert_eq!(found, shape, "{name}");
            assert_ne!(changed, bytes, "{name}");
        }
        assert!(place.path(&out).join("ngrams.safetensors").is_file());
        // The model in the folder is the one that was scored.
        let scored = place.json(&format!("{out}/metrics.json"));
        let again = place.run(&["predict", &out, "the good film", "--json"]).assert_success();
        assert!(again.stdout.contains("\"label\""), "{}", again.stdout);
        assert_eq!(scored["plan"]["fine_tuning"]["model_type"], before["model_type"]);
    }
}

#[test]
fn threads_and_kills_change_nothing_and_the_seed_does() {
    let place = place();
    let weights = |out: &str| {
        ["model.safetensors", "ngrams.safetensors", "config.json"].map(|name| sha256(&place.path(out).join(name)))
    };
    train(&place, "bert", "a", &[]);
    train(&place, "bert", "c", &["--seed", "7"]);
    assert_ne!(weights("a")[0], weights("c")[0]);
    let freezes: &[&str] = if exhaustive("chumoku-cli") { &["none", "embeddings"] } else { &["none"] };
    for &freeze in freezes {
        let settings = ["train", "data.csv", "--from", "bert", "--epochs", "4", "--freeze", freeze];
        let (whole, killed) = (format!("whole-{freeze}"), format!("killed-{freeze}"));
        place.run(&[&settings[..], &["--out", &whole, "--threads", "1"]].concat()).assert_success();
        place.run_despite_kills(&[&settings[..], &["--out", &killed, "--threads", "2"]].concat());
        assert_eq!(weights(&whole), weights(&killed));
    }
    // Another encoder is another run.
    std::fs::remove_dir_all(place.path("a")).unwrap();
    train(&place, "bert", "a", &[]);
    std::fs::copy(golden("bert_classifier").join("model.safetensors"), place.path("bert/model.safetensors")).unwrap();
    std::fs::remove_file(place.path("a/model.safetensors")).unwrap();
    let words = ["other data, settings or seed"];
    place.run_rejected(&["train", "data.csv", "--from", "bert", "--out", "a", "--epochs", "2", "--resume"], &words);
}

#[test]
fn frozen_weights_stay_as_published() {
    let place = place();
    let published = tensors(&golden("bert").join("model.safetensors"));
    for (freeze, frozen) in [("none", 0), ("embeddings", 5), ("1", 5 + 16), ("2", 5 + 32), ("all", 5 + 32)] {
        let out = format!("freeze-{freeze}");
        train(&place, "bert", &out, &["--freeze", freeze]);
        let written = tensors(&place.path(&out).join("model.safetensors"));
        let is_same = |name: &&String| written.get(&format!("bert.{name}")) == published.get(*name);
        let same: Vec<&String> = published.keys().filter(|name| !name.contains("pooler")).filter(is_same).collect();
        assert_eq!(same.len(), frozen, "{freeze}: {same:?}");
        assert_ne!(written["classifier.weight"].1, vec![0; 2 * 16 * 4]);
    }
    place.run_rejected(
        &["train", "data.csv", "--from", "bert", "--freeze", "some", "--out", "x"],
        &["--freeze", "embeddings"],
    );
    place.run_rejected(&["train", "data.csv", "--freeze", "all", "--out", "x"], &["--from"]);
}

#[test]
fn lora_changes_only_the_matrices_of_layers() {
    let place = place();
    let published = tensors(&golden("bert").join("model.safetensors"));
    let run = ["train", "data.csv", "--from", "bert", "--lora", "2", "--epochs", "4"];
    let output = place.run(&[&run[..], &["--out", "whole", "--threads", "1"]].concat()).assert_success().stderr;
    assert!(output.contains("parameters are trained"), "{output}");
    let written = tensors(&place.path("whole/model.safetensors"));
    for (name, found) in published.iter().filter(|(name, _)| !name.contains("pooler")) {
        let is_updated = name.starts_with("encoder.") && found.0.len() == 2;
        assert_eq!(written[&format!("bert.{name}")] != *found, is_updated, "{name}");
    }
    // The change of each matrix has this rank: all of its 3 × 3 minors vanish.
    let numbers = |bytes: &[u8]| bytes.as_chunks::<4>().0.iter().map(|x| f64::from(f32::from_le_bytes(*x))).collect();
    let name = "encoder.layer.1.intermediate.dense.weight";
    let [before, after]: [Vec<f64>; 2] = [&published[name].1, &written[&format!("bert.{name}")].1].map(|x| numbers(x));
    let columns = published[name].0[1];
    let change: Vec<f64> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
    let size = change.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    let at = |i: usize, j: usize| change[i * columns + j];
    for i in 0..8 {
        let [a, b, c] = [i, i + 3, i + 7];
        let [x, y, z] = [i % 5, 6 + i % 3, 10 + i % 4];
        let minor = at(a, x) * (at(b, y) * at(c, z) - at(b, z) * at(c, y))
            - at(a, y) * (at(b, x) * at(c, z) - at(b, z) * at(c, x))
            + at(a, z) * (at(b, x) * at(c, y) - at(b, y) * at(c, x));
        assert!(minor.abs() < 1e-4 * size.powi(3), "{minor} {size}");
    }
    place.run_despite_kills(&[&run[..], &["--out", "killed", "--threads", "2"]].concat());
    let [whole, killed] = ["whole", "killed"].map(|out| sha256(&place.path(out).join("model.safetensors")));
    assert_eq!(whole, killed);
    let refused = |more: &[&str], words: &[&str]| {
        place.run_rejected(&[&["train", "data.csv", "--out", "x"], more].concat(), words);
    };
    refused(&["--lora", "2"], &["--from"]);
    refused(&["--from", "bert", "--lora", "2", "--freeze", "1"], &["--freeze"]);
    refused(&["--from", "bert", "--lora", "0"], &["from 1 to 1024"]);
}

#[test]
fn encoders_that_cannot_be_fine_tuned_are_rejected_before_anything_is_written() {
    let place = place();
    place.run_rejected(&["train", "data.csv", "--from", "nowhere", "--out", "x"], &["nowhere", "no such folder"]);
    place.run_rejected(&["train", "data.csv", "--from", "bert", "--model", "lstm", "--out", "x"], &["--from"]);
    let config = place.json("bert/config.json");
    let with = |key: &str, value: Value| {
        let mut config = config.clone();
        config[key] = value;
        place.write("bert/config.json", config.to_string());
    };
    with("num_hidden_layers", 1_000_000_000.into());
    place.run_rejected(&["train", "data.csv", "--from", "bert", "--out", "x"], &["num_layers"]);
    with("model_type", "t5".into());
    place.run_rejected(&["train", "data.csv", "--from", "bert", "--out", "x"], &["\"t5\""]);
    with("num_hidden_layers", 3.into());
    place.run_rejected(&["train", "data.csv", "--from", "bert", "--out", "x"], &["encoder.layer.2"]);
    // An encoder without classes cannot predict.
    place.write("bert/config.json", config.to_string());
    place.run_rejected(&["predict", "bert", "the film"], &["embed"]);
}

#[test]
fn a_modified_fine_tuned_folder_is_rejected() {
    let place = place();
    train(&place, "bert", "model", &[]);
    let config = place.json("model/config.json");
    for (change, words) in [
        (json!({ "id2label": { "0": "neg", "2": "pos" } }), "id2label"),
        (json!({ "id2label": { "0": "neg", "1": "neg" } }), "labels"),
        (json!({ "problem_type": "regression" }), "problem_type"),
        (json!({ "chumoku": { "blend": 3 } }), "chumoku"),
        (json!({ "num_hidden_layers": 1 }), "encoder.layer.1"),
    ] {
        let mut changed = config.clone();
        let change = change.as_object().unwrap();
        change.iter().for_each(|(key, value)| changed[key] = value.clone());
        place.write("model/config.json", changed.to_string());
        place.run_rejected(&["predict", "model", "the film"], &[words]);
    }
    place.write("model/config.json", config.to_string());
    let tokenizer = place.read("model/tokenizer.json");
    place.write("model/tokenizer.json", tokenizer.replace("\"good\"", "\"goods\""));
    place.run_rejected(&["predict", "model", "the film"], &["tokenizer.json", "SHA-256"]);
    place.write("model/tokenizer.json", &tokenizer);
    std::fs::remove_file(place.path("model/ngrams.safetensors")).unwrap();
    place.run_rejected(&["predict", "model", "the film"], &["ngrams.safetensors"]);
}

/// Prints the log-probabilities that transformers computes from a folder for each text, one per line.
const TRANSFORMERS: &str = r#"
import json, sys, torch
from transformers import AutoModelForSequenceClassification, PreTrainedTokenizerFast
folder, *texts = sys.argv[1:]
model, loading = AutoModelForSequenceClassification.from_pretrained(folder, output_loading_info=True)
assert not any(loading.values()), loading
tokenizer = PreTrainedTokenizerFast(tokenizer_file=folder + "/tokenizer.json")
with torch.no_grad():
    for text in texts:
        logits = model.eval()(input_ids=tokenizer(text, return_tensors="pt")["input_ids"]).logits[0]
        print(json.dumps({"log_p": logits.double().log_softmax(-1).tolist(), "labels": model.config.id2label}))
"#;

#[test]
fn transformers_loads_fine_tuned_folders() {
    let Some(python) = testkit::python("torch, transformers") else { return };
    let place = place();
    let texts = ["the good film", "awful food, bad room", "unknown", ""];
    for from in ["bert", "distilbert_classifier", "roberta_classifier"] {
        train(&place, from, &format!("out-{from}"), &["--precision", "highest"]);
        let folder = place.path(&format!("out-{from}"));
        let output = Command::new(&python).args(["-c", TRANSFORMERS]).arg(&folder).args(texts).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let lines: Vec<Value> =
            String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let found = TextClassifier::load(&folder).unwrap().predict(&texts).unwrap();
        assert_eq!(lines.len(), texts.len());
        for (line, prediction) in lines.iter().zip(&found) {
            assert_eq!(line["labels"], json!({ "0": "neg", "1": "pos" }));
            for (expected, found) in line["log_p"].as_array().unwrap().iter().zip(&prediction.network) {
                let off = expected.as_f64().unwrap() - f64::from(*found);
                assert!(off.abs() < 1e-5, "{from}: {line} {prediction:?}");
            }
        }
    }
}
