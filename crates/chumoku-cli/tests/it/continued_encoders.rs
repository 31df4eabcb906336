//! Continued training of models that started from a pretrained encoder: classifiers, regressors, taggers.

use crate::common::{TestDir, csv, key_metrics, sha256, tensors};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const TOPICS: [(&str, [&str; 3]); 3] = [
    ("food", ["soup", "bread", "dinner"]),
    ("sport", ["goal", "match", "referee"]),
    ("travel", ["train", "ticket", "station"]),
];
const FILLERS: [&str; 9] = ["the", "and", "was", "late", "fine", "again", "today", "in", "it"];

/// A tiny encoder with random weights whose tokens are the words of these files.
fn place() -> TestDir {
    let place = TestDir::with_bert();
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
    let words = TOPICS.iter().flat_map(|(_, words)| *words).chain(FILLERS).chain(NAMES);
    place.write("bert/vocab.txt", special.into_iter().chain(words).collect::<Vec<_>>().join("\n"));
    place
}

/// Texts about several topics in turn.
fn rows(n: usize, topics: &[usize], state: &mut u64) -> Vec<(String, String)> {
    let mut pick = |count: usize| (crate::common::next_random(state) * count as f64) as usize;
    let row = |i: usize| {
        let (label, words) = TOPICS[topics[i % topics.len()]];
        let text =
            format!("the {} and the {} {} {}", words[pick(3)], words[pick(3)], FILLERS[2 + pick(7)], i + pick(40));
        (text, label.to_owned())
    };
    (0..n).map(row).collect()
}

type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

fn weights(place: &TestDir, folder: &str) -> Tensors {
    let floats =
        |bytes: Vec<u8>| bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect::<Vec<_>>();
    let of = |(name, (shape, bytes)): (String, (Vec<usize>, Vec<u8>))| (name, (shape, floats(bytes)));
    tensors(&place.path(folder).join("model.safetensors")).into_iter().map(of).collect()
}

#[test]
fn classes_are_learned_and_old_ones_kept() {
    let place = place();
    let mut state = 3;
    place.write("old.csv", csv(&rows(400, &[0, 2], &mut state)));
    place.write("new.csv", csv(&rows(240, &[1, 2], &mut state)));
    // A larger learning rate than usual, for a tiny untrained network.
    let steps = ["--epochs", "12", "--settings", "learning-rate=0.003"];
    place.run(&[&["train", "old.csv", "--from", "bert", "--out", "one"][..], &steps].concat()).assert_success();
    let args = [&["train", "new.csv", "--from", "one"][..], &steps, &["--threads"]].concat();
    let run = place.run(&[&args[..], &["1", "--out", "two"]].concat()).assert_success();
    assert!(
        run.stderr.contains("continued training of one on 400 old rows and 240 new ones; new classes: “sport”"),
        "{run:#?}"
    );
    for part in ["Accuracy before and after", "old test rows", "new test rows", "old validation, network"] {
        assert!(run.stdout.contains(part), "{part}: {run:#?}");
    }
    // It is compared with itself, not with a transformer from scratch.
    assert!(!run.stdout.contains("from scratch"), "{run:#?}");
    let two = place.json("two/metrics.json");
    let ([before, after], [was, is]) = (key_metrics(&two, "new_test"), key_metrics(&two, "old_test"));
    assert!(before < 0.6 && after > 0.95 && is >= was && is > 0.95 && two["further"]["forgets"] == false, "{two}");
    // The network alone learns too.
    let ([before, after], [was, is]) = (key_metrics(&two, "new_valid"), key_metrics(&two, "old_valid"));
    assert!(before < 0.6 && after > 0.9 && was > 0.9 && is > 0.9, "{two}");
    // It keeps the published format.
    let config = place.json("two/config.json");
    assert_eq!(config["architectures"], json!(["BertForSequenceClassification"]));
    assert_eq!(config["id2label"], json!({ "0": "food", "1": "sport", "2": "travel" }));
    assert!(place.read("two/README.md").contains("trained further with Chumoku"));
    assert!(place.read("two/README.md").contains("## Before and after"));
    // The same model on other threads, with repeated kills.
    place.run_despite_kills(&[&args[..], &["2", "--out", "three"]].concat());
    assert_eq!(sha256(&place.path("two/model.safetensors")), sha256(&place.path("three/model.safetensors")));
    // A second continuation.
    place.write("more.csv", csv(&rows(30, &[1], &mut state)));
    let run = place.run(&["train", "more.csv", "--from", "two", "--epochs", "1", "--out", "four"]).assert_success();
    assert!(run.stderr.contains("640 old rows and 30 new ones; no new class"), "{run:#?}");
}

/// With a tiny learning rate, the saved weights equal the initial ones.
#[test]
fn weights_start_from_the_old_values() {
    let place = place();
    let mut state = 3;
    place.write("old.csv", csv(&rows(200, &[0, 2], &mut state)));
    place.write("new.csv", csv(&rows(100, &[1, 2], &mut state)));
    place.run(&["train", "old.csv", "--from", "bert", "--out", "one", "--epochs", "2"]).assert_success();
    let args = ["train", "new.csv", "--from", "one", "--settings", "learning-rate=1e-7", "--epochs", "1", "--out"];
    for (out, more) in [("two", &[][..]), ("frozen", &["--freeze", "embeddings"]), ("products", &["--lora", "2"])] {
        place.run(&[&args[..], &[out], more].concat()).assert_success();
        let [before, after] = ["one", out].map(|folder| weights(&place, folder));
        let mut compared = 0;
        for (name, (shape, values)) in &after {
            // N-grams are fitted again.
            let Some((_, was)) = before.get(name).filter(|_| !name.contains("ngram")) else { continue };
            let rows: Vec<(&[f32], &[f32])> = match name.as_str() {
                // Food and travel stay, with sport between them.
                "classifier.weight" | "classifier.bias" => {
                    let width = values.len() / 3;
                    assert_eq!((shape[0], was.len()), (3, 2 * width));
                    vec![(&values[..width], &was[..width]), (&values[2 * width..], &was[width..])]
                }
                _ => vec![(values, was)],
            };
            for (values, was) in rows {
                let far = values.iter().zip(was).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(values.len() == was.len() && far < 1e-5, "{out} {name}: {far}");
                compared += 1;
            }
        }
        assert!(compared > 30, "{compared}");
    }
    // Frozen weights stay bit-identical, and the others change.
    let args = ["train", "new.csv", "--from", "one", "--freeze", "embeddings", "--epochs", "1", "--out", "stays"];
    place.run(&args).assert_success();
    let [before, after] = ["one", "stays"].map(|folder| weights(&place, folder));
    let names = ["embeddings.word_embeddings.weight", "encoder.layer.1.output.dense.weight"];
    let stays = names.map(|name| before[&format!("bert.{name}")].1 == after[&format!("bert.{name}")].1);
    assert_eq!(stays, [true, false]);
}

/// A fine-tuned model can also serve only as an encoder to start from.
#[test]
fn the_encoder_alone_can_be_the_start() {
    let place = place();
    let mut state = 3;
    place.write("old.csv", csv(&rows(100, &[0, 2], &mut state)));
    place.write("new.csv", csv(&rows(100, &[1, 2], &mut state)));
    place.run(&["train", "old.csv", "--from", "bert", "--out", "one", "--epochs", "1"]).assert_success();
    let args = ["train", "new.csv", "--from", "one", "--epochs", "1", "--out"];
    let run = place.run(&[&args[..], &["two", "--old", "encoder"]].concat()).assert_success();
    assert!(!run.stderr.contains("continued training"), "{run:#?}");
    assert!(place.json("two/metrics.json")["further"].is_null());
    assert_eq!(place.json("two/config.json")["id2label"], json!({ "0": "sport", "1": "travel" }));
    // For another task.
    let ratings: String = rows(60, &[0, 2], &mut state)
        .iter()
        .map(|(text, label)| format!("{text},{}\n", if label == "food" { 4 } else { 1 } + text.len() % 2))
        .collect();
    place.write("ratings.csv", format!("text,rating\n{ratings}"));
    let score = ["train", "ratings.csv", "--task", "score", "--from", "one", "--epochs", "1", "--out", "rated"];
    let run = place.run(&score).assert_success();
    assert!(run.stderr.contains("one was trained for another task: starting from its encoder only"), "{run:#?}");
    // A regressor is continued as a regressor.
    let run = place.run(&["train", "ratings.csv", "--from", "rated", "--epochs", "1", "--out", "x"]);
    assert!(run.code == 2 && run.stderr.contains("expected new rows"), "{run:#?}");
    place.write("more.csv", "text,rating\nthe soup was fine today,5\nthe train was late again,2\nthe bread in it,4\n");
    let run =
        place.run(&["train", "more.csv", "--from", "rated", "--epochs", "1", "--out", "rated-2"]).assert_success();
    assert!(run.stderr.contains("60 old rows and 3 new ones; numbers from 1 to 5, as before"), "{run:#?}");
    let rates = ["rated", "rated-2"].map(|folder| place.json(&format!("{folder}/metrics.json"))["plan"].clone());
    let [first, further] = rates.map(|plan| plan["learning_rate"].as_f64().unwrap());
    assert!((further / first - 0.5).abs() < 1e-6, "{further} {first}");
    // Rejected requests.
    place.run_rejected(&[&args[..], &["x", "--folds", "3"]].concat(), &["--folds", "keeps its task", "--old encoder"]);
    place.run_rejected(&[&args[..], &["x", "--folds", "3", "--lang", "ja"]].concat(), &["--folds", "--old encoder"]);
    let both = ["x", "--old", "encoder", "--old", "old.csv"];
    place.run_rejected(&[&args[..], &both].concat(), &["--old encoder", "only by itself"]);
    place.run(&["train", "old.csv", "--model", "ngrams", "--out", "own"]).assert_success();
    place.run_rejected(
        &["train", "new.csv", "--from", "own", "--old", "encoder", "--out", "x"],
        &["--old encoder", "fine-tuned from a pretrained"],
    );
    std::fs::remove_file(place.path("old.csv")).unwrap();
    place.run_rejected(&[&args[..], &["x"]].concat(), &["old.csv is missing", "--old none"]);
}

const NAMES: [&str; 6] = ["anna", "ben", "clara", "oslo", "rome", "lima"];

/// Sentences that contain a name, as JSON Lines with its span.
fn named(n: usize, names: &[&str], kind: &str, state: &mut u64) -> String {
    let mut pick = |count: usize| (crate::common::next_random(state) * count as f64) as usize;
    let row = |i: usize| {
        let name = names[pick(names.len())];
        let start = ["it was", "today it was", "the match was in", "again the"][pick(4)];
        let from = start.len() + 1;
        let text = format!("{start} {name} {} {i}", FILLERS[2 + pick(7)]);
        format!("{}\n", json!({ "text": text, "spans": [[from, from + name.len(), kind]] }))
    };
    (0..n).map(row).collect()
}

#[test]
fn taggers_learn_new_labels_and_keep_the_old_ones() {
    let place = place();
    let mut state = 3;
    place.write("old.jsonl", named(240, &NAMES[3..], "place", &mut state));
    place.write("new.jsonl", named(160, &NAMES[..3], "person", &mut state));
    place
        .run(&["train", "old.jsonl", "--task", "tag", "--from", "bert", "--epochs", "60", "--out", "one"])
        .assert_success();
    let args = ["train", "new.jsonl", "--from", "one", "--epochs", "60", "--threads"];
    let run = place.run(&[&args[..], &["1", "--out", "two"]].concat()).assert_success();
    assert!(run.stderr.contains("240 old rows and 160 new ones; new labels: “person”"), "{run:#?}");
    for part in ["Span F1 before and after", "old test rows", "new test rows", "network alone"] {
        assert!(run.stdout.contains(part), "{part}: {run:#?}");
    }
    let (one, two) = (place.json("one/metrics.json"), place.json("two/metrics.json"));
    assert_eq!(two["labels"], json!(["person", "place"]));
    let ([before, after], [was, is]) = (key_metrics(&two, "new_test"), key_metrics(&two, "old_test"));
    assert!(before < 0.1 && after > 0.95 && is > was - 0.02 && is > 0.95, "{two}");
    assert_eq!(Some(was), one["span_f1"].as_f64());
    assert!(two["parts"]["network"]["f1"].as_f64().unwrap() > 0.9, "{two}");
    let plans = [&one, &two].map(|metrics| &metrics["network"]["plan"]);
    let [first, further] = plans.map(|plan| plan["learning_rate"].as_f64().unwrap());
    assert!((further / first - 0.5).abs() < 1e-6, "{further} {first}");
    assert_eq!(plans[1]["fine_tuning"]["model_type"], "bert");
    let card = place.read("two/README.md");
    assert!(card.contains("trained further with Chumoku") && card.contains("compares the span F1 of both"), "{card}");
    // The network continues from its old weights: after one epoch, the old label is still known.
    let one_pass = ["train", "new.jsonl", "--from", "one", "--epochs", "1", "--out", "pass"];
    place.run(&one_pass).assert_success();
    let log = place.read("pass/log.jsonl");
    let first: Value = serde_json::from_str(log.lines().find(|line| line.contains("valid_span_f1")).unwrap()).unwrap();
    assert!(first["valid_span_f1"].as_f64().unwrap() > 0.5, "{first}");
    // The same model on other threads, with repeated kills.
    place.run_despite_kills(&[&args[..], &["2", "--out", "three"]].concat());
    assert_eq!(sha256(&place.path("two/model.safetensors")), sha256(&place.path("three/model.safetensors")));
    // Rejected requests.
    place.run_rejected(&[&args[..], &["1", "--out", "x", "--old", "encoder"]].concat(), &["--old encoder"]);
    place.run_rejected(
        &[&args[..], &["1", "--out", "x", "--task", "classify"]].concat(),
        &["--task", "labels of words"],
    );
    // A deleted report does not change what the network was fine-tuned from.
    std::fs::remove_file(place.path("one/metrics.json")).unwrap();
    place
        .run(&["train", "new.jsonl", "--from", "one", "--old", "old.jsonl", "--epochs", "1", "--out", "bare"])
        .assert_success();
    assert_eq!(place.json("bare/metrics.json")["network"]["plan"]["fine_tuning"]["model_type"], "bert");
}
