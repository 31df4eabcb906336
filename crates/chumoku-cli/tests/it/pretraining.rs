//! `train --task mlm` and `train --unlabelled`: an encoder is pretrained on texts without labels, and classifiers start
//! from it.

use crate::common::{TestDir, csv, sha256};
use serde_json::{Value, json};
use std::process::Command;
use testkit::exhaustive;

const SUBJECTS: [&str; 4] = ["the film", "the food", "this room", "その料理"];
const VERDICTS: [(&str, &str); 4] = [
    ("was really great", "pos"),
    ("was good and cheap", "pos"),
    ("was bad and slow", "neg"),
    ("was an awful mess", "neg"),
];

/// Texts without labels, one per row, and rows of two classes.
fn place() -> TestDir {
    place_of(240, 160)
}

fn place_of(texts: usize, rows: usize) -> TestDir {
    let place = TestDir::new();
    let text = |i: usize| format!("{} {} on day {}", SUBJECTS[i % 4], VERDICTS[i / 4 % 4].0, i % 7);
    let texts: Vec<String> = (0..texts).map(|i| json!({ "text": text(i) }).to_string()).collect();
    place.write("texts.jsonl", texts.join("\n"));
    place.write("data.csv", csv(&(0..rows).map(|i| (text(i), VERDICTS[i / 4 % 4].1.to_owned())).collect::<Vec<_>>()));
    place
}

fn pretrain(place: &TestDir, out: &str, epochs: &str, more: &[&str]) -> String {
    let args = ["train", "texts.jsonl", "--task", "mlm", "--text", "text", "--out", out, "--epochs", epochs];
    place.run(&[&args, more].concat()).assert_success().stdout
}

fn weights(place: &TestDir, out: &str) -> [String; 3] {
    ["model.safetensors", "tokenizer.json", "config.json"].map(|name| sha256(&place.path(out).join(name)))
}

#[test]
fn an_encoder_is_pretrained_and_a_classifier_starts_from_it() {
    let place = place();
    let output = pretrain(&place, "base", "12", &[]);
    let filled = output.lines().find(|line| line.starts_with("accuracy")).unwrap();
    let right: f64 = filled.split_whitespace().nth_back(1).unwrap().parse().unwrap();
    // The texts consist of few words, so most masked tokens follow from the rest.
    assert!(right > 30.0, "{output}");
    assert!(output.contains("chumoku train data.csv --from base"), "{output}");
    let config = place.json("base/config.json");
    assert_eq!(config["architectures"], json!(["ModernBertForMaskedLM"]));
    let bytes = std::fs::read(place.path("base/model.safetensors")).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let vocab_size = config["vocab_size"].as_u64().unwrap() as usize;
    for (name, shape) in [
        ("model.embeddings.tok_embeddings.weight", vec![vocab_size, 256]),
        ("model.layers.3.attn.Wqkv.weight", vec![768, 256]),
        ("model.layers.3.mlp.Wi.weight", vec![1024, 256]),
        ("head.dense.weight", vec![256, 256]),
        ("head.norm.weight", vec![256]),
        ("decoder.bias", vec![vocab_size]),
    ] {
        assert_eq!(tensors.tensor(name).unwrap().shape(), shape, "{name}");
    }
    assert!(tensors.tensor("model.layers.0.attn_norm.weight").is_err());
    assert_eq!(place.json("base/tokenizer_config.json")["model_max_length"], config["max_position_embeddings"]);
    let metrics = place.json("base/metrics.json");
    assert!((metrics["scores"]["accuracy"].as_f64().unwrap() * 100.0 - right).abs() < 0.06);
    assert!(place.read("base/README.md").contains("--from"));

    let counted = place.run(&["count", "--model", "base", "--json"]).assert_success().stdout;
    let counted: Value = serde_json::from_str(&counted).unwrap();
    let published = metrics["parameters"].as_u64().unwrap();
    let of_head = 256 * 256 + 256;
    assert_eq!(counted["model"]["parameters"].as_u64(), Some(published - of_head));
    assert_eq!(counted["model"]["kind"], "encoder");

    place.run(&["embed", "base", "the film was great"]).assert_success();
    place.run(&["train", "data.csv", "--from", "base", "--out", "model", "--epochs", "3"]).assert_success();
    assert_eq!(place.json("model/config.json")["architectures"], json!(["ModernBertForSequenceClassification"]));
    let answer = place.run(&["predict", "model", "this room was an awful mess"]).assert_success().stdout;
    assert!(answer.starts_with("neg"), "{answer}");
    place.run(&["explain", "model", "this room was an awful mess"]).assert_success();
    // The first layer has no norm before its attention, the second has one.
    for layer in ["1", "2"] {
        let shown = place
            .run(&["trace", "--model", "model", "--text", "this room was great", "--layer", layer, "--format", "json"])
            .assert_success();
        let trace: Value = serde_json::from_str(&shown.stdout).unwrap();
        let largest = trace["agreements"][0]["largest_differences"]["residual"].as_f64().unwrap();
        assert!(largest < 1e-4, "{largest}");
    }
    place.run_rejected(&["predict", "base", "the film"], &["--from", "embed"]);
}

#[test]
fn threads_and_kills_change_nothing_and_the_seed_does() {
    let place = place();
    pretrain(&place, "a", "2", &["--threads", "1"]);
    pretrain(&place, "c", "2", &["--seed", "7"]);
    assert_ne!(weights(&place, "a")[0], weights(&place, "c")[0]);
    place.run_despite_kills(&[
        "train",
        "texts.jsonl",
        "--task",
        "mlm",
        "--text",
        "text",
        "--out",
        "killed",
        "--epochs",
        "2",
        "--threads",
        "4",
    ]);
    assert_eq!(weights(&place, "a"), weights(&place, "killed"));
}

#[test]
#[cfg_attr(windows, ignore = "runs a shell of Unix")]
fn one_command_runs_both_steps() {
    // Few texts, as pretraining on so little data takes a hundred epochs.
    let place = place_of(24, 32);
    let args = ["train", "data.csv", "--unlabelled", "texts.jsonl", "--epochs", "2", "--out"];
    // The encoder already exists when the run is killed in the second step.
    assert!(place.run_killed_at("step:101", &[&args[..], &["whole"]].concat()));
    assert!(place.path("whole-base/tokenizer.json").is_file());
    place.run(&[&args[..], &["whole", "--resume"]].concat()).assert_success();
    // The encoder next to the model is its base.
    assert_eq!(place.json("whole-base/config.json")["architectures"], json!(["ModernBertForMaskedLM"]));
    assert_eq!(sha256(&place.path("whole-base/tokenizer.json")), sha256(&place.path("whole/tokenizer.json")));
    assert_eq!(place.json("whole/metrics.json")["plan"]["fine_tuning"]["model_type"], "modernbert");
    // The texts without labels except those held out, and the training rows.
    assert!(place.json("whole-base/metrics.json")["documents"]["train"].as_u64().unwrap() > 24);
    if exhaustive("chumoku-cli") {
        place.run_despite_kills(&[&args[..], &["killed"]].concat());
        for (one, other) in [("whole", "killed"), ("whole-base", "killed-base")] {
            assert_eq!(weights(&place, one), weights(&place, other), "{one}");
        }
    }
    place.run_rejected(
        &["train", "data.csv", "--unlabelled", "texts.jsonl", "--from", "whole-base", "--out", "x"],
        &["--unlabelled", "--from"],
    );
    place.run_rejected(
        &["train", "texts.jsonl", "--task", "lm", "--unlabelled", "texts.jsonl", "--out", "x"],
        &["--unlabelled"],
    );
    place.run_rejected(&["train", "data.csv", "--unlabelled", "nowhere.txt", "--out", "x"], &["nowhere.txt"]);
    // An existing encoder is not replaced, and no empty model folder is left.
    std::fs::rename(place.path("whole-base"), place.path("x-base")).unwrap();
    place.run_rejected(&["train", "data.csv", "--unlabelled", "texts.jsonl", "--out", "x"], &["x-base", "--force"]);
    // For “.”, the encoder is next to the folder, not inside it.
    std::fs::create_dir(place.path("here")).unwrap();
    let pair = |i: usize| format!("{},{} again,{}\n", SUBJECTS[i % 4], SUBJECTS[i / 4 % 4], i % 2);
    place.write("pairs.csv", format!("premise,hypothesis,label\n{}", (0..20).map(pair).collect::<String>()));
    let command = "chumoku train ../pairs.csv --unlabelled ../texts.jsonl --epochs 1 --out .";
    let run = place.run_shell(&format!("cd here; (export CHUMOKU_FAILPOINT=step:1=abort; {command}); ls -a .. ."));
    assert!(run.stdout.contains("here-base") && !run.stdout.contains("\n-base"), "{run:#?}");
    if !exhaustive("chumoku-cli") {
        return;
    }
    place.run_shell(&format!("cd here && {command} --resume && mv ../here-base ../seen")).assert_success();
    // For pairs each text separately, with the texts without labels that are not held out.
    let documents =
        |folder: &str| place.json(&format!("{folder}/metrics.json"))["documents"]["train"].as_u64().unwrap();
    let rows = |folder: &str| place.json(&format!("{folder}/metrics.json"))["rows"]["train"].as_u64().unwrap();
    assert_eq!(documents("seen") - 2 * rows("here"), documents("x-base") - rows("whole"));
}

#[test]
fn unusable_texts_are_rejected() {
    let place = place();
    place.write("short.txt", "too short");
    place.run_rejected(&["train", "short.txt", "--task", "mlm", "--out", "x"], &["short.txt", "1,000"]);
    place.run_rejected(&["train", "--task", "mlm", "--out", "x"], &["file"]);
    place.run_rejected(
        &["train", "texts.jsonl", "--task", "mlm", "--watch", "the film", "--out", "x"],
        &["watch", "pretrained"],
    );
}

/// Checks that transformers loads the whole folder, and prints the share of right predictions over all tokens of the
/// texts.
const TRANSFORMERS: &str = r#"
import sys, torch
from transformers import AutoModelForMaskedLM, AutoTokenizer
folder, *texts = sys.argv[1:]
model, loading = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
assert not any(loading.values()), loading
tokenizer = AutoTokenizer.from_pretrained(folder)
right = count = 0
with torch.no_grad():
    for text in texts:
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        for place in range(1, ids.shape[1]):
            asked = ids.clone()
            asked[0, place] = tokenizer.mask_token_id
            right += int(model.eval()(input_ids=asked).logits[0, place].argmax() == ids[0, place])
            count += 1
print(right / count)
"#;

#[test]
fn transformers_predicts_masked_tokens_with_the_encoder() {
    let Some(python) = testkit::python("torch, transformers") else { return };
    let place = place();
    pretrain(&place, "base", "12", &[]);
    let texts = ["the film was really great on day 3", "this room was an awful mess on day 5"];
    let output = Command::new(&python).args(["-c", TRANSFORMERS]).arg(place.path("base")).args(texts).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let right: f64 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    // Chance would give about 0 with a vocabulary of hundreds.
    assert!(right > 0.4, "{right}");
}
