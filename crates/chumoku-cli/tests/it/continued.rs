//! A classifier of one's own, trained further on new rows: what it learns, what it keeps, what it forgets, and what is refused.

use crate::common::{Page, Place, sha256};
use serde_json::{Value, json};

/// Rows of some classes in turn, with words of theirs and `filler`.
fn rows(n: usize, classes: &[&str], filler: [&str; 3], state: &mut u64) -> String {
    let words = |class: &str| match class {
        "food" => ["soup", "bread", "dinner"],
        "travel" => ["train", "ticket", "station"],
        _ => ["goal", "match", "referee"],
    };
    let mut pick = |count: usize| (crate::common::random(state) * count as f64) as usize;
    let mut out = String::from("label,text\n");
    for i in 0..n {
        let class = classes[i % classes.len()];
        let [first, second] = [words(class)[pick(3)], words(class)[pick(3)]];
        out += &format!("{class},\"the {first} and the {second} {} {}\"\n", filler[pick(3)], pick(40));
    }
    out
}

/// A model of food and travel, `one`, and a file of sport and travel.
fn trained(place: &Place, more: &[&str]) {
    let mut state = 3;
    place.write("old.csv", rows(400, &["food", "travel"], ["were late", "were fine", "came"], &mut state));
    place.write("new.csv", rows(240, &["sport", "travel"], ["again", "today", "at last"], &mut state));
    place.run(&[&["train", "old.csv", "--out", "one"][..], more].concat()).ok();
}

/// The figures of some rows.
fn change<'a>(metrics: &'a Value, rows_of: &str) -> &'a Value {
    let all = metrics["further"]["changes"].as_array().unwrap();
    all.iter().find(|change| change["rows_of"] == rows_of).unwrap_or(&Value::Null)
}

fn accuracy(metrics: &Value, rows_of: &str) -> [f64; 2] {
    ["before", "after"].map(|when| change(metrics, rows_of)[when]["accuracy"].as_f64().unwrap())
}

#[test]
fn new_classes_are_learnt_and_old_ones_kept() {
    let place = Place::new();
    trained(&place, &["--epochs", "4"]);
    assert_eq!(place.json("one/metrics.json")["files"], json!([{ "train": "old.csv" }]));
    let args = ["train", "new.csv", "--from", "one", "--epochs", "4", "--threads"];
    let run = place.run(&[&args[..], &["1", "--out", "two"]].concat()).ok();
    assert!(
        run.stderr.contains("one is trained further on 400 old rows and 240 new ones; new classes: “sport”"),
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
    // Of the new class it knew nothing; of the others it knows all.
    let ([before, after], [was, is]) = (accuracy(&two, "new_test"), accuracy(&two, "old_test"));
    assert!(before < 0.6 && after > 0.95 && is >= was && is > 0.95, "{two}");
    assert!(two["further"]["forgets"] == false && two["further"]["replays"] == true);
    // The old held-out rows are those of before.
    for (rows_of, part) in [("old_test", "test"), ("old_valid", "valid")] {
        assert_eq!(change(&two, rows_of)["rows"], one["rows"][part]);
    }
    assert_eq!(Some(was), one["accuracy"].as_f64());
    // On validation rows the network is told alone: as it was at its best epoch.
    let best = one["best_epoch"].as_u64().or(one["epochs"].as_u64()).unwrap();
    let best = format!("\"epoch\":{best},");
    let log = place.read("one/log.jsonl");
    let best = log.lines().find(|line| line.contains(&best) && line.contains("valid_accuracy")).unwrap();
    let best: Value = serde_json::from_str(best).unwrap();
    let [of_network, _] = accuracy(&two, "old_valid");
    assert!((best["valid_accuracy"].as_f64().unwrap() - of_network).abs() < 1e-6, "{best} {of_network}");
    // Smaller steps than from scratch.
    let [scratch, further] = [&one, &two].map(|metrics| metrics["plan"]["learning_rate"].as_f64().unwrap());
    assert!((further / scratch - 0.3).abs() < 1e-6, "{further} {scratch}");
    assert!(place.read("two/README.md").contains("## Before and after"));
    assert!(place.read("two/README.md").contains("trained further with Chumoku"));
    // Its tokens are those of before, and its weights begin where they were.
    assert_eq!(sha256(&place.path("one/tokenizer.json")), sha256(&place.path("two/tokenizer.json")));
    let log = place.read("two/log.jsonl");
    let first: Value = serde_json::from_str(log.lines().find(|line| line.contains("valid_accuracy")).unwrap()).unwrap();
    assert!(first["valid_accuracy"].as_f64().unwrap() > 0.75, "{first}");
    // What it has seen is what both runs have.
    let seen = place.run(&["eval", "two", "old.csv", "--json"]).ok().json();
    assert!(seen["rows_trained_on"].as_u64().unwrap() > 300, "{seen}");
    // The same again on other threads, killed over and over.
    place.run_in_spite_of_kills(&[&args[..], &["2", "--out", "three"]].concat());
    assert_eq!(sha256(&place.path("two/model.safetensors")), sha256(&place.path("three/model.safetensors")));
    assert_eq!(change(&two, "old_test"), change(&place.json("three/metrics.json"), "old_test"));

    // And further from there, with the rows of both; those that are there already are not counted twice.
    let last =
        [place.read("new.csv"), "sport,a late goal in the last minute\nsport,the referee and the late goal\n".into()];
    place.write("more.csv", last.concat());
    let args = ["train", "more.csv", "--from", "two", "--epochs", "1", "--out", "four", "--lang", "ja"];
    let run = place.run(&args).ok();
    assert!(run.stderr.contains("元の 640 行") && run.stderr.contains("240 行は"), "{run:#?}");
    assert!(run.stdout.contains("元のテストデータ") && run.stdout.contains("元の検証（ネットワーク）"), "{run:#?}");
    // Its card is known as one of ours.
    for out in ["two", "four"] {
        let again = ["train", "more.csv", "--from", "one", "--out", out];
        place.refuses(&again, &[out, "holds a finished model"]);
    }
    let four = place.json("four/metrics.json");
    assert_eq!(four["files"].as_array().unwrap().len(), 3);
    let rows = |metrics: &Value| metrics["rows"].as_object().unwrap().values().filter_map(Value::as_u64).sum::<u64>();
    assert_eq!(rows(&four), rows(&two) + 2);

    // Alone, and what is forgotten is seen.
    let mut state = 8;
    place.write("sport.csv", rows_of_sport(&mut state));
    let run =
        place.run(&["train", "sport.csv", "--from", "one", "--old", "none", "--epochs", "6", "--out", "alone"]).ok();
    let alone = place.json("alone/metrics.json");
    let [was, is] = accuracy(&alone, "old_test");
    assert!(was > 0.95 && is < 0.6 && alone["further"]["forgets"] == true, "{alone}");
    for part in ["warning: on old rows the model is worse", "of them for new classes", "Without --old none"] {
        assert!(run.stdout.contains(part), "{part}: {run:#?}");
    }
    assert!(run.stderr.contains("no row to train on of “food”, “travel”"), "{run:#?}");
    assert_eq!(alone["files"], json!([{ "train": "sport.csv" }]));
    let seen = place.run(&["eval", "alone", "old.csv", "--json"]).ok().json();
    assert!(seen["rows_trained_on"].as_u64().unwrap() > 300, "{seen}");
}

fn rows_of_sport(state: &mut u64) -> String {
    rows(120, &["sport"], ["again", "today", "at last"], state)
}

/// N-grams alone, which are quick; what is refused is the same with a network.
#[test]
fn what_is_missing_is_said() {
    let place = Place::new();
    trained(&place, &["--model", "ngrams"]);
    let asks =
        |more: &[&'static str]| [&["train", "new.csv", "--from", "one", "--out", "x", "--force"][..], more].concat();
    let run = place.run(&asks(&[])).ok();
    assert!(run.stdout.contains("new test rows") && !run.stdout.contains("network"), "{run:#?}");
    let metrics = place.json("x/metrics.json");
    let [before, after] = accuracy(&metrics, "new_test");
    assert!(before < 0.6 && after > 0.95 && metrics["further"]["forgets"] == false, "{metrics}");
    place.refuses(&["train", "--from", "one", "--out", "y"], &["--from one", "new rows", "give a file"]);
    for (flag, value) in
        [("--model", "lstm"), ("--freeze", "all"), ("--folds", "3"), ("--tune", "10s"), ("--task", "lm")]
    {
        place.refuses(&asks(&[flag, value]), &[flag, "trained further as it is", "leave"]);
    }
    place.refuses(&asks(&["--settings", "width=64"]), &["--settings width"]);
    place.refuses(&["train", "old.csv", "--from", "one", "--out", "y"], &["old.csv", "expected new rows"]);
    place.write("pairs.csv", "premise,hypothesis,label\na man,a person,yes\na dog,a cat,no\n");
    place.refuses(
        &["train", "pairs.csv", "--from", "one", "--out", "y"],
        &["pairs.csv", "expected one text a row", "--text"],
    );

    std::fs::rename(place.path("old.csv"), place.path("moved.csv")).unwrap();
    place.refuses(
        &asks(&[]),
        &["--from one", "old.csv, which it was trained on, is not there", "--old FILE", "--old none"],
    );
    place.refuses(&[&asks(&[])[..], &["--lang", "ja"]].concat(), &["old.csv がありません", "--old none"]);
    place.refuses(&asks(&["--old", "missing.csv"]), &["missing.csv"]);
    place.write("more.csv", place.read("moved.csv"));
    place.refuses(&asks(&["--old", "moved.csv", "--old", "more.csv"]), &["--old", "(old.csv)", "found 2"]);
    place.refuses(&asks(&["--old", "none", "--old", "more.csv"]), &["--old none", "leave one"]);
    place.refuses(&asks(&["--old", "new.csv"]), &["--old new.csv", "the file of new rows too"]);
    // What the old model has learnt tells nothing of it, though it is held out now.
    let run = place.run(&["train", "more.csv", "--from", "one", "--old", "none", "--out", "again"]).ok();
    assert!(run.stderr.contains("have a text that the model was trained on before"), "{run:#?}");
    let run = place.run(&asks(&["--old", "moved.csv"])).ok();
    assert!(!run.stderr.contains("not those that the model was trained on"), "{run:#?}");
    assert_eq!(accuracy(&place.json("x/metrics.json"), "new_test"), [before, after]);

    // Another text, or another part for one.
    place.write("old.csv", place.read("moved.csv").replacen("soup", "soups", 1));
    place.refuses(&asks(&[]), &["--from one", "old.csv are no longer those", "--old old.csv"]);
    let run = place.run(&asks(&["--old", "old.csv"])).ok();
    assert!(run.stderr.contains("not those that the model was trained on"), "{run:#?}");
    let run = place.run(&asks(&["--old", "none"])).ok();
    assert!(run.stderr.contains("what the model forgets cannot be seen"), "{run:#?}");
    assert!(change(&place.json("x/metrics.json"), "old_test").is_null());
    place.refuses(
        &["train", "new.csv", "--from", "new.csv", "--old", "old.csv", "--out", "y"],
        &["--old", "leave it out"],
    );
}

/// How a file was read is remembered with its name.
#[test]
fn odd_files_are_read_again_as_they_were() {
    let place = Place::new();
    let mut state = 3;
    let old = rows(200, &["food", "travel"], ["were late", "were fine", "came"], &mut state);
    place.write("old.txt", old.replacen("label,text", "kind,body", 1).replace(',', ";"));
    let args = ["train", "old.txt", "--delimiter", ";", "--text", "body", "--label", "kind"];
    place.run(&[&args[..], &["--model", "ngrams", "--out", "one"]].concat()).ok();
    place.write("new.csv", rows(100, &["sport"], ["again", "today", "at last"], &mut state));
    let run = place.run(&["train", "new.csv", "--from", "one", "--out", "two"]).ok();
    assert!(run.stderr.contains("200 old rows and 100 new ones"), "{run:#?}");
    // What came through a pipe cannot be.
    let run = place.run_on(old.as_bytes(), &["train", "-", "--model", "ngrams", "--out", "piped"]).ok();
    assert!(run.stdout.contains("accuracy"));
    let further = ["train", "new.csv", "--from", "piped", "--out", "three"];
    place.refuses(&further, &["--from piped", "does not say which file", "--old FILE"]);
    place.write("old.csv", old);
    place.run(&[&further[..], &["--old", "old.csv"]].concat()).ok();
}

/// The files and the commands of `docs/continue.md`, as a reader pastes them.
#[test]
fn the_page_is_true() {
    let place = Place::new();
    let page = Page::of("continue.md");
    place.write("letters.csv", page.block("csv"));
    place.write("more.csv", page.block("text"));
    assert_eq!(page.follow(&place).len(), 3);
    assert_eq!(place.json("letters-2/config.json")["labels"].as_array().unwrap().len(), 3);
}
