//! `info MODEL`: the content of a folder, for every task, as text and as JSON.

use crate::common::TestDir;
use serde_json::{Value, json};

fn width(line: &str) -> usize {
    line.chars().map(|c| if c as u32 >= 0x2e80 { 2 } else { 1 }).sum()
}

/// Returns the text and the JSON for a folder. Checks that both languages contain the same values.
fn text_and_json(place: &TestDir, folder: &str) -> (String, Value) {
    let text = place.run(&["info", folder]).assert_success().stdout;
    for text in [&text, &place.run(&["info", folder, "--lang", "ja"]).assert_success().stdout] {
        assert!(text.lines().all(|line| width(line) <= 80), "{text}");
    }
    (text, place.run(&["info", folder, "--json"]).assert_success().json())
}

#[test]
fn every_task_is_described_with_its_scores() {
    let place = TestDir::new();
    let row =
        |i: usize| format!("{} no {i},{},{}\n", ["soup", "bill", "cook"][i % 3], ["a/x", "a/y", "b"][i % 3], i % 3);
    place.write("rows.csv", format!("text,label,stars\n{}", (0..90).map(row).collect::<String>()));
    let train = |args: &[&str]| place.run(&[&["train", "rows.csv"][..], args].concat()).assert_success();

    train(&["--label", "label", "--epochs", "1", "--out", "classes"]);
    let (text, about) = text_and_json(&place, "classes");
    for part in [
        "task          one of 3 classes",
        "labels        a/x, a/y, b",
        "a tree of 2 levels",
        "accuracy",
        "on the test rows",
        "seed 42",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let metrics = place.json("classes/metrics.json");
    assert_eq!(
        (&about["task"], &about["labels"], &about["levels"]),
        (&json!("classify"), &json!(["a/x", "a/y", "b"]), &json!(2))
    );
    assert_eq!(about["network"]["parameters"], metrics["parameters"]);
    assert_eq!(about["training"]["accuracy"], metrics["accuracy"]);
    assert_eq!(about["training"]["rows"], metrics["rows"]);
    let bytes = std::fs::metadata(place.path("classes/model.safetensors")).unwrap().len();
    assert_eq!(about["bytes"]["model.safetensors"], bytes);

    train(&["--label", "label", "--model", "ngrams", "--columns", "stars", "--hierarchy", "none", "--out", "ngrams"]);
    let (text, about) = text_and_json(&place, "ngrams");
    assert!(text.contains("n-grams only") && text.contains("columns “stars” number"), "{text}");
    assert_eq!((&about["columns"], &about["network"]), (&json!(["stars"]), &Value::Null));
    assert_eq!(about["features"], place.json("ngrams/metrics.json")["features"]);

    train(&["--label", "stars", "--task", "score", "--epochs", "1", "--out", "score"]);
    let (text, about) = text_and_json(&place, "score");
    assert!(text.contains("a number for each text, from 0 to 2") && text.contains("mean absolute error"), "{text}");
    assert_eq!((&about["task"], &about["range"]), (&json!("score"), &json!([0.0, 2.0])));

    let conll: String = (0..60).map(|i| format!("Ms O\nBell{} B-PER\nleft O\n\n", i % 7)).collect();
    place.write("names.conll", conll);
    place.run(&["train", "names.conll", "--task", "tag", "--out", "names"]).assert_success();
    let (text, about) = text_and_json(&place, "names");
    assert!(text.contains("spans of 1 kind in each text"), "{text}");
    assert!(text.contains("conditional random field") && text.contains("span F1"), "{text}");
    assert_eq!(about["task"], "tag");

    // One document is split between training and validation.
    place.train_language_model();
    assert!(text_and_json(&place, "lm").0.contains("trained on    1 text, 1 to validate, 0 to test; seed 42"));

    // Without the metrics file, only the model's own metadata is shown.
    std::fs::remove_file(place.path("classes/metrics.json")).unwrap();
    let (text, about) = text_and_json(&place, "classes");
    assert!(!text.contains("accuracy") && about["training"].is_null() && text.contains("one of 3 classes"), "{text}");
    place.run_rejected(&["info", "nothing"], &["nothing"]);
    place.run_rejected(&["info", "rows.csv"], &["rows.csv"]);
}
