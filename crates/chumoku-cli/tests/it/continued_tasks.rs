//! Continued training of multi-label models, regressors, trees and models with feature columns: what they learn, keep,
//! and reject.

use crate::common::{TestDir, key_metrics, sha256};
use serde_json::{Value, json};

/// Words of a topic.
fn words(topic: &str) -> [&'static str; 3] {
    match topic {
        "food" => ["soup", "bread", "dinner"],
        "staff" => ["waiter", "manager", "cook"],
        "noise" => ["music", "shouting", "traffic"],
        _ => ["bill", "cost", "fee"],
    }
}

/// Texts about zero, one or two topics, as JSON Lines with their labels. `named` maps topics to labels.
fn sets(n: usize, topics: &[&str], filler: &str, named: &dyn Fn(&str) -> String, state: &mut u64) -> String {
    let mut pick = |count: usize| (crate::common::next_random(state) * count as f64) as usize;
    let row = |i: usize| {
        let mut labels: Vec<usize> = (0..pick(3)).map(|_| pick(topics.len())).collect();
        labels.sort_unstable();
        labels.dedup();
        let topic_words: Vec<&str> = labels.iter().map(|&topic| words(topics[topic])[pick(3)]).collect();
        let text = format!("{filler} {i}: the {} of that day", topic_words.join(" and the "));
        let labels: Vec<String> = labels.iter().map(|&topic| named(topics[topic])).collect();
        format!("{}\n", json!({ "text": text.replace("the  of", "mood of"), "labels": labels }))
    };
    (0..n).map(row).collect()
}

fn plain(topic: &str) -> String {
    topic.to_owned()
}

/// A metric of the best epoch on the validation rows, from the training log.
fn best(place: &TestDir, folder: &str, key: &str) -> f64 {
    let metrics = place.json(&format!("{folder}/metrics.json"));
    let best = metrics["best_epoch"].as_u64().or(metrics["epochs"].as_u64()).unwrap();
    let best = format!("\"epoch\":{best},");
    let log = place.read(&format!("{folder}/log.jsonl"));
    let line = log.lines().find(|line| line.contains(&best) && line.contains(key)).unwrap();
    serde_json::from_str::<Value>(line).unwrap()[key].as_f64().unwrap()
}

#[test]
fn new_labels_are_learned_and_old_ones_kept() {
    let place = TestDir::new();
    let mut state = 3;
    place.write("old.jsonl", sets(400, &["food", "staff"], "Visit", &plain, &mut state));
    place.write("new.jsonl", sets(240, &["noise", "staff"], "Again", &plain, &mut state));
    place.run(&["train", "old.jsonl", "--out", "one", "--epochs", "4"]).assert_success();
    assert_eq!(place.json("one/metrics.json")["files"], json!([{ "train": "old.jsonl" }]));
    let args = ["train", "new.jsonl", "--from", "one", "--epochs", "4", "--threads"];
    let run = place.run(&[&args[..], &["1", "--out", "two"]].concat()).assert_success();
    assert!(run.stderr.contains("400 old rows and 240 new ones; new labels: “noise”"), "{run:#?}");
    for part in ["Micro-F1 before and after", "old test rows", "new test rows", "old validation, network"] {
        assert!(run.stdout.contains(part), "{part}: {run:#?}");
    }
    assert!(!run.stdout.contains("warning: on old rows"), "{run:#?}");
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 80), "{run:#?}");
    let (one, two) = (place.json("one/metrics.json"), place.json("two/metrics.json"));
    assert_eq!(two["labels"], json!(["food", "noise", "staff"]));
    assert_eq!(two["files"], json!([{ "train": "old.jsonl" }, { "train": "new.jsonl" }]));
    assert_eq!(place.json("two/config.json")["problem"]["thresholds"].as_array().unwrap().len(), 3);
    let ([before, after], [was, is]) = (key_metrics(&two, "new_test"), key_metrics(&two, "old_test"));
    assert!(before < 0.75 && after > 0.95 && is > was - 0.02 && is > 0.95, "{two}");
    assert!(two["further"]["forgets"] == false && two["further"]["replays"] == true);
    assert_eq!(Some(was), one["micro_f1"].as_f64());
    // The network is measured as in its best epoch, and starts from its old weights.
    assert!((key_metrics(&two, "old_valid")[0] - best(&place, "one", "valid_micro_f1")).abs() < 1e-6, "{two}");
    let log = place.read("two/log.jsonl");
    let first: Value = serde_json::from_str(log.lines().find(|line| line.contains("valid_micro_f1")).unwrap()).unwrap();
    assert!(first["valid_micro_f1"].as_f64().unwrap() > 0.7, "{first}");
    let card = place.read("two/README.md");
    assert!(card.contains("## Before and after") && card.contains("compares the micro-F1 of both"), "{card}");
    assert!(card.contains("trained further with Chumoku"), "{card}");
    assert_eq!(sha256(&place.path("one/tokenizer.json")), sha256(&place.path("two/tokenizer.json")));
    let report = place.run(&["eval", "two", "old.jsonl", "--json"]).assert_success().json();
    assert!(report["rows_trained_on"].as_u64().unwrap() > 300, "{report}");
    // The same model on other threads, with repeated kills.
    place.run_despite_kills(&[&args[..], &["2", "--out", "three"]].concat());
    assert_eq!(sha256(&place.path("two/model.safetensors")), sha256(&place.path("three/model.safetensors")));
    assert_eq!(place.json("three/metrics.json")["further"], two["further"]);

    // Without old rows, the report shows what is forgotten.
    place.write("noise.jsonl", sets(160, &["noise"], "Again", &plain, &mut state));
    let args = ["train", "noise.jsonl", "--from", "one", "--old", "none", "--epochs", "8", "--out", "alone"];
    let run = place.run(&args).assert_success();
    let alone = place.json("alone/metrics.json");
    let [was, is] = key_metrics(&alone, "old_test");
    assert!(was > 0.95 && is < 0.8 && alone["further"]["forgets"] == true, "{alone}");
    assert!(run.stdout.contains("warning: on old rows the model is worse"), "{run:#?}");
    assert!(run.stderr.contains("no training rows for “food”, “staff”"), "{run:#?}");
    let run = place.run(&[&args[..9], &["again", "--lang", "ja", "--force"]].concat()).assert_success();
    assert!(run.stdout.contains("元のデータでの成績が、偶然では"), "{run:#?}");
}

/// N-grams only, which are quick. The format of labels is remembered.
#[test]
fn labels_are_read_again_in_their_old_format() {
    let place = TestDir::new();
    let mut state = 5;
    let csv = |lines: String, separator: &str| {
        let row = |line: &str| {
            let row: Value = serde_json::from_str(line).unwrap();
            let labels: Vec<&str> = row["labels"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            format!("{},{}\n", labels.join(separator), row["text"].as_str().unwrap())
        };
        format!("tags,text\n{}", lines.lines().map(row).collect::<String>())
    };
    place.write("old.csv", csv(sets(300, &["food", "staff"], "Visit", &plain, &mut state), "+"));
    place.write("new.csv", csv(sets(200, &["noise", "food"], "Again", &plain, &mut state), "|"));
    let args = ["train", "old.csv", "--task", "labels", "--label", "tags", "--separator", "+", "--model", "ngrams"];
    place.run(&[&args[..], &["--out", "one"]].concat()).assert_success();
    let further =
        ["train", "new.csv", "--from", "one", "--label", "tags", "--separator", "|", "--out", "two", "--force"];
    let run = place.run(&further).assert_success();
    assert!(run.stderr.contains("300 old rows and 200 new ones; new labels: “noise”"), "{run:#?}");
    assert!(run.stdout.contains("new test rows") && !run.stdout.contains("network"), "{run:#?}");
    let two = place.json("two/metrics.json");
    assert_eq!(two["labels"], json!(["food", "noise", "staff"]));
    let ([before, after], [was, is]) = (key_metrics(&two, "new_test"), key_metrics(&two, "old_test"));
    assert!(before < 0.75 && after > 0.95 && is > was - 0.02, "{two}");
    assert_eq!(Some(was), place.json("one/metrics.json")["micro_f1"].as_f64());
    // A second continuation: the rows of both files, each in its own format.
    place.write("more.csv", csv(sets(60, &["noise", "food"], "Once more", &plain, &mut state), "|"));
    let run = place
        .run(&["train", "more.csv", "--from", "two", "--separator", "|", "--label", "tags", "--out", "three"])
        .assert_success();
    assert!(run.stderr.contains("500 old rows and 60 new ones; no new label"), "{run:#?}");
    assert!(!run.stderr.contains("differ from those that the model was trained on"), "{run:#?}");
    assert_eq!(place.json("three/metrics.json")["files"].as_array().unwrap().len(), 3);
    for (flag, value) in [("--task", "classify"), ("--model", "lstm"), ("--folds", "3"), ("--columns", "tags")] {
        let args = [&further[..], &[flag, value]].concat();
        place.run_rejected(&args, &[flag, "any number of labels per text", "leave"]);
    }
    place.run_rejected(
        &[&further[..], &["--hierarchy", "/"]].concat(),
        &["--hierarchy", "have no hierarchy", "leave it out"],
    );
    place.write("old.csv", place.read("old.csv").replacen("soup", "soups", 1));
    place.run_rejected(&further, &["--from one", "old.csv have changed", "--old old.csv"]);
}

/// Texts whose number counts their praise, with the first `praise` of four words. A measure has an added fraction.
fn scores(n: usize, praise: usize, filler: &str, is_measure: bool, state: &mut u64) -> String {
    let mut pick = |count: usize| (crate::common::next_random(state) * count as f64) as usize;
    let mut out = String::from("rating,text\n");
    for i in 0..n {
        let praise_word = |(at, word): (usize, &&'static str)| (at < praise && pick(2) == 0).then_some(*word);
        let words: Vec<Option<&str>> = ["good", "kind", "clean", "quiet"].iter().enumerate().map(praise_word).collect();
        let count = words.iter().flatten().count();
        let number = match is_measure {
            true => format!("{:.2}", 10.0 * count as f64 + 0.01 * pick(300) as f64),
            false => count.to_string(),
        };
        let [food, staff, bath, street] = [0, 1, 2, 3].map(|at| words[at].unwrap_or("plain"));
        out += &format!("{number},\"{filler} {i}: food {food}, staff {staff}, bath {bath}, street {street}.\"\n");
    }
    out
}

#[test]
fn numbers_extend_the_scale_and_old_ones_stay() {
    for (is_measure, least) in [(false, 0.4), (true, 4.0)] {
        let place = TestDir::new();
        let mut state = 3;
        place.write("old.csv", scores(450, 2, "Room", is_measure, &mut state));
        place.write("new.csv", scores(300, 4, "Suite", is_measure, &mut state));
        place.run(&["train", "old.csv", "--task", "score", "--out", "one", "--epochs", "4"]).assert_success();
        let file = match is_measure {
            true => json!({ "train": "old.csv", "decimal": "." }),
            false => json!({ "train": "old.csv" }),
        };
        assert_eq!(place.json("one/metrics.json")["files"], json!([file]));
        let args = ["train", "new.csv", "--from", "one", "--epochs", "6", "--threads"];
        let run = place.run(&[&args[..], &["1", "--out", "two"]].concat()).assert_success();
        assert!(run.stderr.contains("450 old rows and 300 new ones; numbers from 0"), "{run:#?}");
        for part in ["Mean error before and after", "a decrease of the error", "old test rows", "new test rows"] {
            assert!(run.stdout.contains(part), "{part}: {run:#?}");
        }
        assert!(!run.stdout.contains("warning: on old rows"), "{run:#?}");
        assert!(run.stdout.lines().all(|line| line.chars().count() <= 80), "{run:#?}");
        let (one, two) = (place.json("one/metrics.json"), place.json("two/metrics.json"));
        let ([before, after], [was, is]) = (key_metrics(&two, "new_test"), key_metrics(&two, "old_test"));
        assert!(before - after > least && is < was + 0.3 * least, "{before} {after} {was} {is}");
        assert!(two["further"]["forgets"] == false, "{two}");
        assert_eq!(Some(was), one["mean_absolute_error"].as_f64());
        let of_network = key_metrics(&two, "old_valid")[0];
        assert!((of_network - best(&place, "one", "valid_mean_absolute_error")).abs() < 1e-6, "{two}");
        // Intervals come from validation rows again, and the scale covers all rows.
        let problem = &place.json("two/config.json")["problem"];
        assert!(problem["margin"].as_f64().unwrap() > 0.0, "{problem}");
        assert!(problem["range"][1].as_f64().unwrap() > 3.5, "{problem}");
        let coverage = two["coverage"].as_f64().unwrap();
        assert!((0.75..=1.0).contains(&coverage), "{coverage}");
        if !is_measure {
            assert_eq!(problem["thresholds"], json!([0.5, 1.5, 2.5, 3.5]));
            place.run_despite_kills(&[&args[..], &["2", "--out", "three"]].concat());
            assert_eq!(sha256(&place.path("two/model.safetensors")), sha256(&place.path("three/model.safetensors")));
        }
        assert!(place.read("two/README.md").contains("A gain is a decrease of the error"));

        // Training on new rows only forgets the predictions for other numbers, but not that they exist.
        let lines: Vec<String> = scores(300, 4, "Suite", is_measure, &mut state).lines().map(str::to_owned).collect();
        let is_high = |line: &&String| {
            line.split(',').next().unwrap().parse::<f64>().map_or(true, |x| x >= if is_measure { 20.0 } else { 2.0 })
        };
        let high: Vec<&str> = lines.iter().filter(is_high).map(String::as_str).collect();
        place.write("high.csv", high.join("\n"));
        let args = ["train", "high.csv", "--from", "one", "--old", "none", "--epochs", "8", "--out", "alone"];
        let run = place.run(&args).assert_success();
        let alone = place.json("alone/metrics.json");
        let [was, is] = key_metrics(&alone, "old_test");
        assert!(is > was + least && alone["further"]["forgets"] == true, "{alone}");
        assert!(run.stdout.contains("warning: on old rows the model is worse"), "{run:#?}");
        assert!(place.json("alone/config.json")["problem"]["range"][0].as_f64().unwrap() < 1.0);
        // A second continuation: the rows are found again, on the scale that they were trained on.
        let run =
            place.run(&["train", "new.csv", "--from", "alone", "--epochs", "1", "--out", "four"]).assert_success();
        assert!(!run.stderr.contains("differ from those that the model was trained on"), "{run:#?}");
    }
}

#[test]
fn inconsistent_numbers_are_rejected() {
    let place = TestDir::new();
    let mut state = 3;
    let of_ten = |text: String, of: usize| -> String {
        let row = |line: &str| match line.split_once(',') {
            Some((number, rest)) if number != "rating" => format!("{number}/{of},{rest}\n"),
            _ => format!("{line}\n"),
        };
        text.lines().map(row).collect()
    };
    place.write("old.csv", of_ten(scores(120, 4, "Room", false, &mut state), 5));
    place.write("new.csv", of_ten(scores(60, 4, "Suite", false, &mut state), 10));
    place.run(&["train", "old.csv", "--task", "score", "--model", "ngrams", "--out", "one"]).assert_success();
    let further = ["train", "new.csv", "--from", "one", "--out", "x"];
    place.run_rejected(
        &further,
        &["new.csv: reading the numbers: expected the same format as in old.csv", "in the same way"],
    );
    place.write("new.csv", of_ten(scores(60, 4, "Suite", false, &mut state), 5));
    let run = place.run(&further).assert_success();
    assert!(run.stderr.contains("numbers from 0 to 4, as before"), "{run:#?}");
    assert!(run.stdout.contains("new test rows") && !run.stdout.contains("network"), "{run:#?}");
    let other = [&further[..], &["--task", "labels", "--force"]].concat();
    place.run_rejected(&other, &["--task", "a number per text", "leave"]);
}

/// Rows of classes in a tree, with words of each class.
fn tree_rows(n: usize, classes: &[&str], filler: &str, state: &mut u64) -> String {
    let mut pick = |count: usize| (crate::common::next_random(state) * count as f64) as usize;
    let mut out = String::from("label,text\n");
    for i in 0..n {
        let class = classes[i % classes.len()];
        let topic = class.rsplit('/').next().unwrap();
        out += &format!("{class},\"the {} and the {} {filler} {i}\"\n", words(topic)[pick(3)], words(topic)[pick(3)]);
    }
    out
}

#[test]
fn trees_can_grow() {
    let place = TestDir::new();
    let mut state = 3;
    place.write("old.csv", tree_rows(400, &["room/food", "room/staff"], "came", &mut state));
    place.write("new.csv", tree_rows(240, &["street/noise", " room / staff "], "went", &mut state));
    place.run(&["train", "old.csv", "--hierarchy", "/", "--out", "one", "--epochs", "4"]).assert_success();
    let args = ["train", "new.csv", "--from", "one", "--epochs", "4"];
    let run = place.run(&[&args[..], &["--out", "two"]].concat()).assert_success();
    assert!(run.stderr.contains("new classes: “street/noise”"), "{run:#?}");
    let two = place.json("two/metrics.json");
    assert_eq!(two["labels"], json!(["room/food", "room/staff", "street/noise"]));
    let ([before, after], [was, is]) = (key_metrics(&two, "new_test"), key_metrics(&two, "old_test"));
    assert!(before < 0.7 && after > 0.95 && is > was - 0.02 && is > 0.95, "{two}");
    let names: Vec<Value> = place.json("two/config.json")["hierarchy"]["nodes"].as_array().unwrap().clone();
    let names: Vec<&str> = names.iter().filter_map(|node| node["name"].as_str()).collect();
    assert_eq!(names, ["room", "room/food", "room/staff", "street", "street/noise"]);
    // Levels are calibrated and scored again.
    assert_eq!(two["scores"]["hierarchy"]["levels"].as_array().unwrap().len(), 2, "{two}");
    let answer = place.run(&["predict", "two", "the music and the traffic went 900", "--json"]).assert_success().json();
    assert_eq!(answer["levels"][0]["label"], "street", "{answer}");
    place.run_rejected(
        &[&args[..], &["--out", "x", "--hierarchy", "/"]].concat(),
        &["--hierarchy", "labels are paths", "leave it out"],
    );
    place.write("bad.csv", place.read("new.csv").replacen("street/noise", "street/", 1));
    place
        .run_rejected(&["train", "bad.csv", "--from", "one", "--out", "x"], &["bad.csv", "street/", "expected a name"]);
}

#[test]
fn parents_of_new_labels_come_from_a_file() {
    let place = TestDir::new();
    let mut state = 3;
    place.write("old.csv", tree_rows(200, &["food", "staff", "cost"], "came", &mut state));
    place.write("new.csv", tree_rows(120, &["noise", "staff"], "went", &mut state));
    let parents = "child,parent\nfood,room\nstaff,room\nroom,\ncost,\n";
    place.write("parents.csv", parents);
    place
        .run(&["train", "old.csv", "--hierarchy", "parents.csv", "--model", "ngrams", "--out", "one"])
        .assert_success();
    let args = ["train", "new.csv", "--from", "one", "--out", "two"];
    place.run_rejected(&args, &["new.csv", "“noise”", "tree of one does not contain it", "--hierarchy FILE"]);
    let with = [&args[..], &["--hierarchy", "more.csv"]].concat();
    place.write("more.csv", format!("{parents}noise,street\n"));
    let run = place.run(&with).assert_success();
    assert!(run.stderr.contains("new classes: “noise”"), "{run:#?}");
    let two = place.json("two/metrics.json");
    let [was, is] = key_metrics(&two, "old_test");
    assert!(is > was - 0.02 && key_metrics(&two, "new_test")[1] > 0.95, "{two}");
    let with = [&with[..], &["--force"]].concat();
    place.write("more.csv", parents.replace("staff,room", "staff,\nnoise,street"));
    place.run_rejected(&with, &["more.csv", "“staff”", "“room”", "cannot move"]);
    place.write("more.csv", "child,parent\nnoise,street\n");
    place.run_rejected(&with, &["more.csv", "every label of the model", "add one"]);
}

/// Multi-label trees: each row also has the parents of its labels.
#[test]
fn multi_label_trees_can_grow() {
    let place = TestDir::new();
    let mut state = 3;
    let path = |topic: &str| format!("{}/{topic}", if topic == "noise" { "street" } else { "room" });
    place.write("old.jsonl", sets(400, &["food", "staff"], "Visit", &path, &mut state));
    place.write("new.jsonl", sets(240, &["noise", "staff"], "Again", &path, &mut state));
    place.run(&["train", "old.jsonl", "--hierarchy", "/", "--model", "ngrams", "--out", "one"]).assert_success();
    place.run(&["train", "new.jsonl", "--from", "one", "--out", "two"]).assert_success();
    let two = place.json("two/metrics.json");
    assert_eq!(two["labels"], json!(["room", "room/food", "room/staff", "street", "street/noise"]));
    let ([before, after], [was, is]) = (key_metrics(&two, "new_test"), key_metrics(&two, "old_test"));
    assert!(before < 0.8 && after > 0.95 && is > was - 0.02, "{two}");
    let answer = place.run(&["predict", "two", "Again 900: the music of that day", "--json"]).assert_success().json();
    let labels: Vec<&str> = answer["labels"].as_array().unwrap().iter().filter_map(|l| l["label"].as_str()).collect();
    assert!(labels.contains(&"street") && labels.contains(&"street/noise"), "{answer}");
}

/// Rows whose class depends only on a price and a shop; `shops` names the shops.
fn priced(n: usize, shops: &[&str], first: usize, state: &mut u64) -> String {
    let mut pick = |count: usize| (crate::common::next_random(state) * count as f64) as usize;
    let mut out = String::from("label,text,price,shop\n");
    for i in first..first + n {
        let (price, shop) = (pick(100), shops[pick(shops.len())]);
        let class = if shop == "Ueno" {
            "far"
        } else if price < 50 {
            "cheap"
        } else {
            "dear"
        };
        out += &format!("{class},\"the {} of day {i}\",{price},{shop}\n", words("food")[pick(3)]);
    }
    out
}

#[test]
fn feature_columns_are_trained_on_again() {
    let place = TestDir::new();
    let mut state = 3;
    place.write("old.csv", priced(500, &["Ginza", "Shibuya"], 0, &mut state));
    place.write("new.csv", priced(300, &["Ueno", "Ginza"], 1000, &mut state));
    let columns = ["--columns", "price,shop"];
    let args = ["train", "old.csv", "--label", "label", "--text", "text", "--epochs", "2", "--out", "one"];
    place.run(&[&args[..], &columns].concat()).assert_success();
    let args = ["train", "new.csv", "--label", "label", "--text", "text", "--from", "one", "--epochs", "2"];
    let run = place.run(&[&args[..], &["--out", "two"]].concat()).assert_success();
    assert!(run.stderr.contains("new classes: “far”") && run.stderr.contains("“shop” category (3 values"), "{run:#?}");
    let (one, two) = (place.json("one/metrics.json"), place.json("two/metrics.json"));
    let ([before, after], [was, is]) = (key_metrics(&two, "new_test"), key_metrics(&two, "old_test"));
    assert!(before < 0.7 && after > 0.9 && is > was - 0.03 && is > 0.9, "{two}");
    assert_eq!(Some(was), one["accuracy"].as_f64());
    let columns = &place.json("two/config.json")["ngrams"]["columns"];
    assert_eq!(columns[1]["kind"]["category"]["values"], json!(["Ginza", "Shibuya", "Ueno"]), "{columns}");
    // A second continuation with the rows of both. Then only new rows, where one column no longer carries information.
    place.write("more.csv", priced(60, &["Ueno"], 2000, &mut state));
    let more = ["train", "more.csv", "--label", "label", "--text", "text", "--from", "two", "--epochs", "1"];
    let run = place.run(&[&more[..], &["--out", "three"]].concat()).assert_success();
    assert!(run.stderr.contains("800 old rows and 60 new ones"), "{run:#?}");
    assert!(!run.stderr.contains("differ from those that the model was trained on"), "{run:#?}");
    let constant: String =
        place.read("more.csv").lines().map(|line| format!("{line}\n").replace(",Ueno", ",")).collect();
    place.write("bare.csv", constant);
    let bare = ["train", "bare.csv", "--label", "label", "--text", "text", "--from", "two", "--old", "none"];
    place.run(&[&bare[..], &["--epochs", "1", "--out", "four"]].concat()).assert_success();
    let columns = &place.json("four/config.json")["ngrams"]["columns"];
    assert_eq!(columns.as_array().unwrap().len(), 2, "{columns}");
    assert!(!key_metrics(&place.json("four/metrics.json"), "old_test").contains(&f64::NAN));
    // Missing columns, and pointless requests.
    place.write("without.csv", "label,text,price\ncheap,a soup,3\ndear,a bread,90\n");
    let run = place.run(&["train", "without.csv", "--from", "one", "--out", "x"]);
    assert!(run.code == 2 && run.stderr.contains("the model reads it: add the column"), "{run:#?}");
    assert!(
        run.stderr.contains("“shop”") && !run.stderr.contains("--set") && !run.stderr.contains("--columns"),
        "{run:#?}"
    );
    place.run_rejected(
        &[&args[..], &["--columns", "price", "--out", "x"]].concat(),
        &["--columns", "its columns", "leave"],
    );
    let words = place.read("new.csv").replace("\",", "\",x");
    place.write("words.csv", words);
    let run = place.run(&["train", "words.csv", "--label", "label", "--text", "text", "--from", "one", "--out", "x"]);
    assert!(run.code == 2 && run.stderr.contains("column “price”: expected a number"), "{run:#?}");
}

/// Sentences that contain one of several names, as JSON Lines with its span.
fn named(n: usize, names: &[&str], kind: &str, state: &mut u64) -> String {
    let mut pick = |count: usize| (crate::common::next_random(state) * count as f64) as usize;
    let row = |i: usize| {
        let name = names[pick(names.len())];
        let start = ["We met", "They saw", "It was"][pick(3)];
        let from = start.len() + 1;
        let text = format!("{start} {name} on day {i}.");
        format!("{}\n", json!({ "text": text, "spans": [[from, from + name.len(), kind]] }))
    };
    (0..n).map(row).collect()
}

#[test]
fn taggers_learn_new_labels_and_keep_the_old_ones() {
    let place = TestDir::new();
    let mut state = 3;
    place.write("old.jsonl", named(240, &["Anna", "Ben", "Clara", "David", "Emma"], "person", &mut state));
    place.write("new.jsonl", named(160, &["Oslo", "Rome", "Lima", "Kyoto"], "place", &mut state));
    place.run(&["train", "old.jsonl", "--task", "tag", "--out", "one"]).assert_success();
    assert_eq!(place.json("one/metrics.json")["files"], json!([{ "train": "old.jsonl" }]));
    let args = ["train", "new.jsonl", "--from", "one", "--threads"];
    let run = place.run(&[&args[..], &["1", "--out", "two"]].concat()).assert_success();
    assert!(run.stderr.contains("240 old rows and 160 new ones; new labels: “place”"), "{run:#?}");
    for part in ["Span F1 before and after", "old test rows", "new test rows"] {
        assert!(run.stdout.contains(part), "{part}: {run:#?}");
    }
    let (one, two) = (place.json("one/metrics.json"), place.json("two/metrics.json"));
    assert_eq!(two["labels"], json!(["person", "place"]));
    let ([before, after], [was, is]) = (key_metrics(&two, "new_test"), key_metrics(&two, "old_test"));
    assert!(before < 0.1 && after > 0.95 && is > was - 0.02 && is > 0.95, "{two}");
    assert_eq!(Some(was), one["span_f1"].as_f64());
    assert!(two["further"]["changes"].as_array().unwrap().len() == 2 && two["further"]["forgets"] == false, "{two}");
    assert!(place.read("two/README.md").contains("compares the span F1 of both"));
    // The same model on other threads, and a second continuation with the rows of both.
    place.run(&[&args[..], &["2", "--out", "three"]].concat()).assert_success();
    assert_eq!(sha256(&place.path("two/model.safetensors")), sha256(&place.path("three/model.safetensors")));
    place.write("more.jsonl", named(40, &["Quito"], "place", &mut state));
    let run = place.run(&["train", "more.jsonl", "--from", "two", "--out", "four"]).assert_success();
    assert!(run.stderr.contains("400 old rows and 40 new ones; no new label"), "{run:#?}");
    assert!(!run.stderr.contains("differ from those that the model was trained on"), "{run:#?}");
    let report = place.run(&["eval", "four", "old.jsonl", "--json"]).assert_success().json();
    assert!(report["rows_trained_on"].as_u64().unwrap() > 180, "{report}");
    // Without old rows, the report shows what is forgotten.
    let run = place.run(&["train", "new.jsonl", "--from", "one", "--old", "none", "--out", "alone"]).assert_success();
    let alone = place.json("alone/metrics.json");
    let [was, is] = key_metrics(&alone, "old_test");
    assert!(was > 0.95 && is < 0.5 && alone["further"]["forgets"] == true, "{alone}");
    assert!(run.stdout.contains("warning: on old rows the model is worse"), "{run:#?}");
    assert!(run.stderr.contains("no training rows for “person”"), "{run:#?}");
    // Rejected requests.
    for (flag, value) in [("--task", "classify"), ("--freeze", "all"), ("--columns", "x")] {
        place.run_rejected(
            &[&args[..], &["1", "--out", "x", flag, value]].concat(),
            &[flag, "labels of words", "leave"],
        );
    }
    place.run_rejected(&[&args[..], &["1", "--out", "x", "--resume"]].concat(), &["--resume", "no checkpoints"]);
    place.write("words.conll", "Anna\tNOUN\ncame\tVERB\n.\tSIGN\n\n".repeat(20));
    place.run_rejected(
        &["train", "words.conll", "--from", "one", "--out", "x"],
        &["words.conll", "a label for each word"],
    );
}

/// The similarity of two texts as a number: pairs support the same tasks.
#[test]
fn pairs_can_be_continued() {
    let place = TestDir::new();
    let mut state = 3;
    let mut pairs = |n: usize, topics: [&str; 2], first: usize| {
        let mut pick = |count: usize| (crate::common::next_random(&mut state) * count as f64) as usize;
        let row = |i: usize| {
            let [a, b] = [0, 1].map(|_| topics[pick(2)]);
            let [one, two] = [a, b].map(|topic| words(topic)[pick(3)]);
            let likeness = if a == b { 2 + usize::from(one == two) } else { pick(2) };
            format!("the {one} {i},a {two} {i},{likeness}\n")
        };
        format!("first,second,likeness\n{}", (first..first + n).map(row).collect::<String>())
    };
    place.write("old.csv", pairs(300, ["food", "staff"], 0));
    place.write("new.csv", pairs(200, ["noise", "food"], 1000));
    let how = ["--text", "first,second", "--label", "likeness"];
    let train = |file: &str, more: &[&str]| place.run(&[&["train", file][..], &how, more].concat()).assert_success();
    train("old.csv", &["--task", "score", "--model", "ngrams", "--out", "one"]);
    let run = train("new.csv", &["--from", "one", "--out", "two"]);
    assert!(run.stderr.contains("300 old rows and 200 new ones; numbers from 0 to 3, as before"), "{run:#?}");
    let two = place.json("two/metrics.json");
    let ([before, after], [was, is]) = (key_metrics(&two, "new_test"), key_metrics(&two, "old_test"));
    assert!(after < before && is < was + 0.15, "{two}");
    assert_eq!(Some(was), place.json("one/metrics.json")["mean_absolute_error"].as_f64());
    let single = ["train", "new.csv", "--text", "first", "--label", "likeness", "--from", "one", "--out", "x"];
    place.run_rejected(&single, &["new.csv", "expected two texts per row", "--text a,b"]);
}
