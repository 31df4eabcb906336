//! N-gram models for labels and numbers. They match the n-gram member of an ensemble, work like any other model, and
//! reject invalid requests.

use crate::common::{TestDir, sha256};
use chumoku::NgramClassifier;
use serde_json::{Value, json};

const TOPICS: [(&str, [&str; 3]); 3] = [
    ("food", ["soup", "bread", "dinner"]),
    ("staff", ["waiter", "cook", "manager"]),
    ("price", ["bill", "cost", "fee"]),
];

/// Texts about zero, one or two topics. Every sixth has a label that nothing in the text reveals.
fn labeled_rows(n: usize) -> String {
    let mut state = 7;
    let mut pick = |count: usize| (crate::common::next_random(&mut state) * count as f64) as usize;
    let mut out = String::new();
    for i in 0..n {
        let mut topics: Vec<usize> = (0..pick(3)).map(|_| pick(3)).collect();
        topics.sort_unstable();
        topics.dedup();
        let words: Vec<&str> = topics.iter().map(|&topic| TOPICS[topic].1[pick(3)]).collect();
        let mut labels: Vec<&str> = topics.iter().map(|&topic| TOPICS[topic].0).collect();
        if pick(6) == 0 {
            labels = vec![TOPICS[pick(3)].0];
        }
        let text = format!("Visit {i}: a {} day, the {}.", ["long", "warm"][pick(2)], words.join(" and the "));
        out += &format!("{}\n", json!({ "text": text, "labels": labels, "cost": pick(90) }));
    }
    out
}

/// Texts whose number counts their praise, exactly or nearly.
fn rated_rows(n: usize, is_measure: bool) -> String {
    let mut state = 9;
    let mut pick = |count: usize| (crate::common::next_random(&mut state) * count as f64) as usize;
    let mut out = "rating,text\n".to_owned();
    for i in 0..n {
        let words: Vec<&str> =
            ["good", "kind", "clean", "quiet"].iter().map(|word| [*word, "plain"][pick(2)]).collect();
        let mut count = words.iter().filter(|word| **word != "plain").count();
        if pick(10) == 0 {
            count = pick(5);
        }
        let number = if is_measure { 10.0 * count as f64 + 0.01 * pick(300) as f64 } else { count as f64 };
        out += &format!("{number},\"Room {i}: {}, {}, {}, {}.\"\n", words[0], words[1], words[2], words[3]);
    }
    out
}

const NGRAMS: [&str; 2] = ["--model", "ngrams"];

fn trained(place: &TestDir, file: &str, out: &str, more: &[&str]) -> crate::common::Run {
    place.run(&[&["train", file, "--out", out], more].concat()).assert_success()
}

#[test]
fn labels_match_the_ngram_member_of_an_ensemble() {
    let place = TestDir::new();
    place.write("rows.jsonl", labeled_rows(600));
    trained(&place, "rows.jsonl", "whole", &["--epochs", "1"]);
    let run = trained(&place, "rows.jsonl", "model", &NGRAMS);
    for part in ["micro-F1", "baseline: commonest label", "threshold", "this model"] {
        assert!(run.stdout.contains(part) && !run.stdout.contains("transformer"), "{part}: {run:#?}");
    }
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 80), "{run:#?}");
    let [whole, own] = ["whole", "model"].map(|folder| place.json(&format!("{folder}/metrics.json")));
    // The ensemble's report scores n-grams before the refit that includes the validation rows.
    assert_eq!(own["scores"], whole["parts"]["ngrams"]);
    assert_eq!((&own["model"], &own["task"]), (&json!("ngrams"), &json!("labels")));
    assert!(own["micro_f1"].as_f64().unwrap() > 0.8, "{own}");
    assert!(own["parts"]["most_frequent"]["micro_f1"].as_f64().unwrap() < 0.7, "{own}");
    let names = own["strongest_ngrams"]["staff"].to_string();
    assert!(names.contains("waiter") || names.contains("cook"), "{names}");
    let config = place.json("model/config.json");
    assert_eq!((&config["problem"]["attention"], &config["scale"]), (&json!(0.0), &json!(1.0)));
    let card = place.read("model/README.md");
    assert!(card.contains("3 labels") && card.contains("no network") && card.contains("| food |"), "{card}");
    assert_eq!(
        place.file_names("model"),
        ["README.md", "config.json", "metrics.json", "model.safetensors", "trained-on.bin"]
    );

    // It works like any other model.
    let text = "Visit 7: a warm day, the soup and the bill.";
    let found = place.run(&["predict", "model", "--json", text]).assert_success().json();
    let names = |found: &Value| -> Vec<String> {
        let mut names: Vec<String> =
            found["labels"].as_array().unwrap().iter().map(|l| l["label"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&found), ["food", "price"], "{found}");
    assert_eq!(
        names(&place.run(&["predict", "model", "--json", "--threshold", "0.999", text]).assert_success().json()).len(),
        0
    );
    let eval = place.run(&["eval", "model", "rows.jsonl", "--json"]).assert_success().json();
    assert_eq!(eval["rows"], 600);
    assert!(place.run(&["eval", "model", "rows.jsonl"]).assert_success().stdout.contains("sample-F1"));
    let why = place.run(&["explain", "model", text, "--json", "-"]).assert_success().json();
    let sum: f64 = why["probabilities"].as_array().unwrap().iter().map(|p| p["probability"].as_f64().unwrap()).sum();
    assert!(sum > 1.3 && why["kind"] == "ngrams", "labels do not share a probability: {why}");
    // The effects of n-grams sum to the log-odds minus the label's bias.
    let p = why["probabilities"].as_array().unwrap().iter().find(|p| p["label"] == why["label"]).unwrap();
    let p = p["probability"].as_f64().unwrap();
    let effects: f64 = why["ngrams"].as_array().unwrap().iter().map(|of| of["effect"].as_f64().unwrap()).sum();
    let label = config["labels"].as_array().unwrap().iter().position(|label| *label == why["label"]).unwrap();
    let bias = crate::common::tensors(&place.path("model/model.safetensors"))["ngrams.bias"].1.clone();
    let bias = f64::from(f32::from_le_bytes(bias[4 * label..][..4].try_into().unwrap()));
    let offset = config["problem"]["offsets"][label].as_f64().unwrap();
    let expected = (p / (1.0 - p)).ln() - offset - config["problem"]["ngrams"].as_f64().unwrap() * bias;
    assert!((effects - expected).abs() < 1e-3, "{effects} {expected}");
    let info = place.run(&["info", "model"]).assert_success().stdout;
    assert!(info.contains("any of 3 labels for each text, n-grams only"), "{info}");

    // The same bytes for any number of threads, and saving and loading preserve the model.
    trained(&place, "rows.jsonl", "again", &["--model", "ngrams", "--threads", "1"]);
    let model = NgramClassifier::load(&place.path("model")).unwrap();
    model.save(&place.path("saved")).unwrap();
    for other in ["again", "saved"] {
        for name in ["model.safetensors", "config.json"] {
            let [one, two] = ["model", other].map(|folder| sha256(&place.path(&format!("{folder}/{name}"))));
            assert_eq!(one, two, "{other} {name}");
        }
    }
}

#[test]
fn numbers_match_the_ngram_member_of_an_ensemble() {
    let place = TestDir::new();
    place.write("rows.csv", rated_rows(600, false));
    trained(&place, "rows.csv", "whole", &["--epochs", "1"]);
    let run = trained(&place, "rows.csv", "model", &NGRAMS);
    assert!(run.stdout.contains("always the median") && !run.stdout.contains("transformer"), "{run:#?}");
    let [whole, own] = ["whole", "model"].map(|folder| place.json(&format!("{folder}/metrics.json")));
    for key in ["mean_absolute_error", "r2", "spearman", "exact"] {
        assert!(own["scores"][key].is_number(), "{key}: {own}");
        assert_eq!(own["scores"][key], whole["parts"]["ngrams"][key], "{key}");
    }
    assert!(
        own["mean_absolute_error"].as_f64().unwrap() < own["parts"]["median"]["mean_absolute_error"].as_f64().unwrap()
    );
    let coverage = own["coverage"].as_f64().unwrap();
    assert!((0.7..=1.0).contains(&coverage), "{own}");
    let [all, none] = ["Room 1: good, kind, clean, quiet.", "Room 1: plain, plain, plain, plain."];
    let found = place.run(&["predict", "model", "--json", all, none]).assert_success().json_lines();
    assert!(found[0]["score"].as_f64().unwrap() > 3.0 && found[1]["score"].as_f64().unwrap() < 1.0, "{found:?}");
    assert!(found[0]["low"].as_f64().unwrap() <= found[0]["score"].as_f64().unwrap());
    let eval = place.run(&["eval", "model", "rows.csv", "--json", "--svg", "points.svg"]).assert_success().json();
    assert!(eval["mean_absolute_error"].is_number() && place.read("points.svg").contains("<path"));
    let why = place.run(&["explain", "model", all, "--json", "-"]).assert_success().json();
    assert!(
        why["number"]["score"].as_f64().unwrap() > 3.0 && why["label"].as_str().unwrap().starts_with("> "),
        "{why}"
    );
    let rows = place.run(&["explain", "model", "--input", "rows.csv", "--json", "-"]).assert_success().json_lines();
    assert!(rows.len() == 600 && rows[0]["number"]["high"].is_number(), "{}", rows[0]);
    let info = place.run(&["info", "model", "--json"]).assert_success().json();
    assert_eq!((&info["task"], &info["range"]), (&json!("score"), &json!([0.0, 4.0])));
    place.run_rejected(&["predict", "model", "--top", "2", all], &["--top", "a number"]);
    place.run_rejected(&["predict", "model", "--threshold", "0.5", all], &["--threshold", "a number"]);
}

/// With feature columns, pairs, folds and a label tree.
#[test]
fn labels_and_numbers_support_all_inputs_of_ngrams() {
    let place = TestDir::new();
    place.write("rows.jsonl", labeled_rows(400));
    let run = trained(&place, "rows.jsonl", "columns", &["--model", "ngrams", "--columns", "cost", "--folds", "2"]);
    assert!(run.stderr.contains("micro-F1"), "{run:#?}");
    let metrics = place.json("columns/metrics.json");
    assert_eq!((&metrics["folds"]["folds"], &metrics["columns"]["figure"]), (&json!(2), &json!("micro_f1")));
    let text = "Visit 7: a warm day, the soup.";
    let why = place.run(&["explain", "columns", text, "--set", "cost=12", "--json", "-"]).assert_success().json();
    assert_eq!((&why["columns"][0]["name"], &why["columns"][0]["value"]), (&json!("cost"), &json!("12")));

    let pairs: String = rated_rows(300, false)
        .lines()
        .map(|line| {
            line.replace("rating,text", "rating,first,second")
                .replace(", clean", "\",\"clean")
                .replace(", plain.", "\",\"plain.")
        })
        .filter(|line| line.matches("\",\"").count() == 1 || line.starts_with("rating"))
        .map(|line| line + "\n")
        .collect();
    place.write("pairs.csv", &pairs);
    trained(&place, "pairs.csv", "pairs", &["--model", "ngrams", "--text", "first,second", "--task", "score"]);
    let found =
        place.run(&["predict", "pairs", "--json", "Room 1: good, kind", "clean, quiet."]).assert_success().json();
    assert!(found["score"].is_number() && found["texts"].is_array(), "{found}");
    place.run_rejected(&["predict", "pairs", "one text"], &["pairs of texts", "found 1"]);

    let tree = labeled_rows(400).replace("\"food\"", "\"visit/food\"").replace("\"price\"", "\"visit/price\"");
    place.write("tree.jsonl", tree);
    trained(&place, "tree.jsonl", "tree", &NGRAMS);
    let metrics = place.json("tree/metrics.json");
    assert_eq!(metrics["labels"], json!(["staff", "visit", "visit/food", "visit/price"]));
    assert_eq!(metrics["scores"]["levels"].as_array().unwrap().len(), 2);
    for least in ["0.01", "0.5", "0.9"] {
        let found = place.run(&["predict", "tree", "--json", "--threshold", least, text]).assert_success().json();
        let labels: Vec<(&str, f64)> = found["labels"]
            .as_array()
            .unwrap()
            .iter()
            .map(|l| (l["label"].as_str().unwrap(), l["probability"].as_f64().unwrap()))
            .collect();
        for (label, p) in labels.iter().filter(|(label, _)| label.contains('/')) {
            let above = labels.iter().find(|(other, _)| *other == "visit");
            assert!(above.is_some_and(|above| above.1 >= *p), "{label} {p}: {found}");
        }
    }
    assert_eq!(place.run(&["eval", "tree", "tree.jsonl", "--json"]).assert_success().json()["rows"], 400);
}

#[test]
fn errors_are_reported() {
    let place = TestDir::new();
    place.write("rows.jsonl", labeled_rows(200));
    place.write("rows.csv", rated_rows(200, false));
    trained(&place, "rows.jsonl", "labels", &NGRAMS);
    trained(&place, "rows.csv", "numbers", &NGRAMS);
    for (file, flags) in
        [("rows.jsonl", ["--epochs", "2"]), ("rows.csv", ["--parts", "2"]), ("rows.csv", ["--tune", "3"])]
    {
        place.run_rejected(&[&["train", file, "--out", "x"], &NGRAMS[..], &flags].concat(), &[flags[0]]);
    }
    let lm = ["train", "rows.jsonl", "--task", "lm", "--model", "ngrams", "--out", "x"];
    place.run_rejected(&lm, &["--model ngrams", "--task labels"]);
    for model in ["labels", "numbers"] {
        place.run_rejected(&["export", model, "--out", "x.onnx"], &["n-gram model", "ONNX"]);
        place.run_rejected(
            &["train", "rows.csv", "--task", "classify", "--from", model, "--out", "x"],
            &["--task", "keeps its task"],
        );
        place.run_rejected(&["explain", model, "a text", "--without", "1.1"], &["--without", "no attention"]);
    }
    place.run_rejected(&["eval", "labels", "rows.csv"], &["rows.csv"]);
    let sound = place.read("labels/config.json");
    for (pointer, value, part) in [
        ("/problem/attention", json!(0.5), "a network weight of 0"),
        ("/problem/offsets", json!([0.0]), "labels"),
        ("/problem/kind", json!("ranks"), "config.json"),
        ("/scale", json!(-1.0), "scale"),
    ] {
        let mut config: Value = serde_json::from_str(&sound).unwrap();
        *config.pointer_mut(pointer).unwrap() = value;
        place.write("labels/config.json", config.to_string());
        place.run_rejected(&["predict", "labels", "a text"], &["config.json", part]);
    }
}
