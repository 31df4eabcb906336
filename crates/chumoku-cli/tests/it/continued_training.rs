//! Continued training of the user's own classifier: what it learns, keeps and forgets, and what is rejected.

use crate::common::{DocPage, TestDir, sha256};
use serde_json::{Value, json};

/// Rows of several classes in turn, with words of their class and `filler`.
fn rows(n: usize, classes: &[&str], filler: [&str; 3], state: &mut u64) -> String {
    let words = |class: &str| match class {
        "food" => ["soup", "bread", "dinner"],
        "travel" => ["train", "ticket", "station"],
        _ => ["goal", "match", "referee"],
    };
    let mut pick = |count: usize| (crate::common::next_random(state) * count as f64) as usize;
    let mut out = String::from("label,text\n");
    for i in 0..n {
        let class = classes[i % classes.len()];
        let [first, second] = [words(class)[pick(3)], words(class)[pick(3)]];
        out += &format!("{class},\"the {first} and the {second} {} {}\"\n", filler[pick(3)], pick(40));
    }
    out
}

/// Trains a model `one` on food and travel, and writes a file of sport and travel.
fn trained(place: &TestDir, more: &[&str]) {
    let mut state = 3;
    place.write("old.csv", rows(400, &["food", "travel"], ["were late", "were fine", "came"], &mut state));
    place.write("new.csv", rows(240, &["sport", "travel"], ["again", "today", "at last"], &mut state));
    place.run(&[&["train", "old.csv", "--out", "one"][..], more].concat()).assert_success();
}

/// The comparison for some rows.
fn change_entry<'a>(metrics: &'a Value, rows_of: &str) -> &'a Value {
    let all = metrics["further"]["changes"].as_array().unwrap();
    all.iter().find(|change| change["rows_of"] == rows_of).unwrap_or(&Value::Null)
}

fn accuracy(metrics: &Value, rows_of: &str) -> [f64; 2] {
    ["before", "after"].map(|when| change_entry(metrics, rows_of)[when]["accuracy"].as_f64().unwrap())
}

#[test]
fn new_classes_are_learned_and_old_ones_kept() {
    let place = TestDir::new();
    trained(&place, &["--epochs", "4"]);
    assert_eq!(place.json("one/metrics.json")["files"], json!([{ "train": "old.csv" }]));
    let args = ["train", "new.csv", "--from", "one", "--epochs", "4", "--threads"];
    let run = place.run(&[&args[..], &["1", "--out", "two"]].concat()).assert_success();
    assert!(
        run.stderr.contains("continued training of one on 400 old rows and 240 new ones; new classes: “sport”"),
        "{run:#?}"
    );
    for part in ["Accuracy before and after", "old test rows", "new test rows", "old validation, network"] {
        assert!(run.stdout.contains(part), "{part}: {run:#?}");
    }
    assert!(!run.stdout.contains("warning: on old rows"), "{run:#?}");
    assert!(run.stdout.lines().all(|line| line.starts_with("Advice") || line.chars().count() <= 80), "{run:#?}");
    let (one, two) = (place.json("one/metrics.json"), place.json("two/metrics.json"));
    assert_eq!(two["labels"], json!(["food", "sport", "travel"]));
    assert_eq!(two["files"], json!([{ "train": "old.csv" }, { "train": "new.csv" }]));
    // It knew nothing about the new class; it still knows the others.
    let ([before, after], [was, is]) = (accuracy(&two, "new_test"), accuracy(&two, "old_test"));
    assert!(before < 0.6 && after > 0.95 && is >= was && is > 0.95, "{two}");
    assert!(two["further"]["forgets"] == false && two["further"]["replays"] == true);
    // The old held-out rows are unchanged.
    for (rows_of, part) in [("old_test", "test"), ("old_valid", "valid")] {
        assert_eq!(change_entry(&two, rows_of)["rows"], one["rows"][part]);
    }
    assert_eq!(Some(was), one["accuracy"].as_f64());
    // On validation rows, the network is measured alone: as in its best epoch.
    let best = one["best_epoch"].as_u64().or(one["epochs"].as_u64()).unwrap();
    let best = format!("\"epoch\":{best},");
    let log = place.read("one/log.jsonl");
    let best = log.lines().find(|line| line.contains(&best) && line.contains("valid_accuracy")).unwrap();
    let best: Value = serde_json::from_str(best).unwrap();
    let [of_network, _] = accuracy(&two, "old_valid");
    assert!((best["valid_accuracy"].as_f64().unwrap() - of_network).abs() < 1e-6, "{best} {of_network}");
    // A smaller learning rate than from scratch.
    let [scratch, further] = [&one, &two].map(|metrics| metrics["plan"]["learning_rate"].as_f64().unwrap());
    assert!((further / scratch - 0.3).abs() < 1e-6, "{further} {scratch}");
    assert!(place.read("two/README.md").contains("## Before and after"));
    assert!(place.read("two/README.md").contains("trained further with Chumoku"));
    // It keeps the tokens, and its weights start from the old values.
    assert_eq!(sha256(&place.path("one/tokenizer.json")), sha256(&place.path("two/tokenizer.json")));
    let log = place.read("two/log.jsonl");
    let first: Value = serde_json::from_str(log.lines().find(|line| line.contains("valid_accuracy")).unwrap()).unwrap();
    assert!(first["valid_accuracy"].as_f64().unwrap() > 0.75, "{first}");
    // The training texts of both runs count as seen.
    let report = place.run(&["eval", "two", "old.csv", "--json"]).assert_success().json();
    assert!(report["rows_trained_on"].as_u64().unwrap() > 300, "{report}");
    // The same model on other threads, with repeated kills.
    place.run_despite_kills(&[&args[..], &["2", "--out", "three"]].concat());
    assert_eq!(sha256(&place.path("two/model.safetensors")), sha256(&place.path("three/model.safetensors")));
    assert_eq!(change_entry(&two, "old_test"), change_entry(&place.json("three/metrics.json"), "old_test"));

    // A second continuation, with the rows of both. Duplicate rows are not counted twice.
    let last =
        [place.read("new.csv"), "sport,a late goal in the last minute\nsport,the referee and the late goal\n".into()];
    place.write("more.csv", last.concat());
    let args = ["train", "more.csv", "--from", "two", "--epochs", "1", "--out", "four", "--lang", "ja"];
    let run = place.run(&args).assert_success();
    assert!(run.stderr.contains("元の 640 行") && run.stderr.contains("240 行は"), "{run:#?}");
    assert!(run.stdout.contains("元のテストデータ") && run.stdout.contains("元の検証（ネットワーク）"), "{run:#?}");
    // The model card is recognized as ours.
    for out in ["two", "four"] {
        let again = ["train", "more.csv", "--from", "one", "--out", out];
        place.run_rejected(&again, &[out, "holds a finished model"]);
    }
    let four = place.json("four/metrics.json");
    assert_eq!(four["files"].as_array().unwrap().len(), 3);
    let rows = |metrics: &Value| metrics["rows"].as_object().unwrap().values().filter_map(Value::as_u64).sum::<u64>();
    assert_eq!(rows(&four), rows(&two) + 2);

    // Without old rows, the report shows what is forgotten.
    let mut state = 8;
    place.write("sport.csv", rows_of_sport(&mut state));
    let run = place
        .run(&["train", "sport.csv", "--from", "one", "--old", "none", "--epochs", "6", "--out", "alone"])
        .assert_success();
    let alone = place.json("alone/metrics.json");
    let [was, is] = accuracy(&alone, "old_test");
    assert!(was > 0.95 && is < 0.6 && alone["further"]["forgets"] == true, "{alone}");
    for part in ["warning: on old rows the model is worse", "predicts new classes for", "Leave --old none out"] {
        assert!(run.stdout.contains(part), "{part}: {run:#?}");
    }
    assert!(run.stderr.contains("no training rows for “food”, “travel”"), "{run:#?}");
    assert_eq!(alone["files"], json!([{ "train": "sport.csv" }]));
    let report = place.run(&["eval", "alone", "old.csv", "--json"]).assert_success().json();
    assert!(report["rows_trained_on"].as_u64().unwrap() > 300, "{report}");
}

fn rows_of_sport(state: &mut u64) -> String {
    rows(120, &["sport"], ["again", "today", "at last"], state)
}

/// N-grams only, which are quick; a network has the same errors.
#[test]
fn missing_inputs_are_reported() {
    let place = TestDir::new();
    trained(&place, &["--model", "ngrams"]);
    let asks =
        |more: &[&'static str]| [&["train", "new.csv", "--from", "one", "--out", "x", "--force"][..], more].concat();
    let run = place.run(&asks(&[])).assert_success();
    assert!(run.stdout.contains("new test rows") && !run.stdout.contains("network"), "{run:#?}");
    let metrics = place.json("x/metrics.json");
    let [before, after] = accuracy(&metrics, "new_test");
    assert!(before < 0.6 && after > 0.95 && metrics["further"]["forgets"] == false, "{metrics}");
    place.run_rejected(&["train", "--from", "one", "--out", "y"], &["--from one", "new rows", "name a file"]);
    for (flag, value) in
        [("--model", "lstm"), ("--freeze", "all"), ("--folds", "3"), ("--tune", "10s"), ("--task", "lm")]
    {
        place.run_rejected(&asks(&[flag, value]), &[flag, "keeps its task", "leave"]);
    }
    place.run_rejected(&asks(&["--settings", "width=64"]), &["--settings width"]);
    place.run_rejected(&["train", "old.csv", "--from", "one", "--out", "y"], &["old.csv", "expected new rows"]);
    place.write("pairs.csv", "premise,hypothesis,label\na man,a person,yes\na dog,a cat,no\n");
    place.run_rejected(
        &["train", "pairs.csv", "--from", "one", "--out", "y"],
        &["pairs.csv", "expected one text per row", "--text"],
    );

    std::fs::rename(place.path("old.csv"), place.path("moved.csv")).unwrap();
    place.run_rejected(&asks(&[]), &["--from one", "old.csv is missing", "--old FILE", "--old none"]);
    place.run_rejected(&[&asks(&[])[..], &["--lang", "ja"]].concat(), &["old.csv がありません", "--old none"]);
    place.run_rejected(&asks(&["--old", "missing.csv"]), &["missing.csv"]);
    place.write("more.csv", place.read("moved.csv"));
    place.run_rejected(&asks(&["--old", "moved.csv", "--old", "more.csv"]), &["--old", "(old.csv)", "found 2"]);
    place.run_rejected(&asks(&["--old", "none", "--old", "more.csv"]), &["--old none", "leave one"]);
    place.run_rejected(&asks(&["--old", "new.csv"]), &["--old new.csv", "also the file of new rows"]);
    // Rows that the old model was trained on do not measure it, although they are held out now.
    let run = place.run(&["train", "more.csv", "--from", "one", "--old", "none", "--out", "again"]).assert_success();
    assert!(run.stderr.contains("the model was already trained on the texts of"), "{run:#?}");
    let run = place.run(&asks(&["--old", "moved.csv"])).assert_success();
    assert!(!run.stderr.contains("differ from those that the model was trained on"), "{run:#?}");
    assert_eq!(accuracy(&place.json("x/metrics.json"), "new_test"), [before, after]);

    // A changed text, or a changed part of the split.
    place.write("old.csv", place.read("moved.csv").replacen("soup", "soups", 1));
    place.run_rejected(&asks(&[]), &["--from one", "old.csv have changed", "--old old.csv"]);
    let run = place.run(&asks(&["--old", "old.csv"])).assert_success();
    assert!(run.stderr.contains("differ from those that the model was trained on"), "{run:#?}");
    let run = place.run(&asks(&["--old", "none"])).assert_success();
    assert!(run.stderr.contains("forgetting cannot be measured"), "{run:#?}");
    assert!(change_entry(&place.json("x/metrics.json"), "old_test").is_null());
    place.run_rejected(
        &["train", "new.csv", "--from", "new.csv", "--old", "old.csv", "--out", "y"],
        &["--old", "leave it out"],
    );
}

/// The reading options of a file are stored with its name.
#[test]
fn unusual_files_are_read_again_with_the_same_options() {
    let place = TestDir::new();
    let mut state = 3;
    let old = rows(200, &["food", "travel"], ["were late", "were fine", "came"], &mut state);
    place.write("old.txt", old.replacen("label,text", "kind,body", 1).replace(',', ";"));
    let args = ["train", "old.txt", "--delimiter", ";", "--text", "body", "--label", "kind"];
    place.run(&[&args[..], &["--model", "ngrams", "--out", "one"]].concat()).assert_success();
    place.write("new.csv", rows(100, &["sport"], ["again", "today", "at last"], &mut state));
    let run = place.run(&["train", "new.csv", "--from", "one", "--out", "two"]).assert_success();
    assert!(run.stderr.contains("200 old rows and 100 new ones"), "{run:#?}");
    // Piped data cannot be read again.
    let run =
        place.run_with_input(old.as_bytes(), &["train", "-", "--model", "ngrams", "--out", "piped"]).assert_success();
    assert!(run.stdout.contains("accuracy"));
    let further = ["train", "new.csv", "--from", "piped", "--out", "three"];
    place.run_rejected(&further, &["--from piped", "does not record its training file", "--old FILE"]);
    place.write("old.csv", old);
    place.run(&[&further[..], &["--old", "old.csv"]].concat()).assert_success();
}

/// Runs the files and commands of `docs/continue.md` as given.
#[test]
fn the_page_is_true() {
    let place = TestDir::new();
    let page = DocPage::read("continue.md");
    place.write("letters.csv", page.code_block("csv"));
    place.write("more.csv", page.code_block("text"));
    assert_eq!(page.run_commands(&place).len(), 3);
    assert_eq!(place.json("letters-2/config.json")["labels"].as_array().unwrap().len(), 3);
}
