//! How sure answers are: promises that are kept, those that cannot be made, and the answers that were wrong.

mod common;

use common::Place;
use serde_json::Value;

/// Texts of two classes, every fifth of which has words of both.
fn rows(n: usize, state: &mut u64) -> String {
    let words = [["soup", "bread", "dinner", "cook"], ["train", "ticket", "station", "driver"]];
    let mut pick = |count: usize| (common::random(state) * count as f64) as usize;
    let mut out = String::new();
    for i in 0..n {
        let class = pick(2);
        let other = if i % 5 == 0 { 1 - class } else { class };
        let [first, second] = [words[class][pick(4)], words[other][pick(4)]];
        // In a doubtful text nothing tells what it is about.
        let [first, second] = if pick(2) == 0 { [first, second] } else { [second, first] };
        let filler = ["today", "again", "at noon", "as ever"][pick(4)];
        out += &format!("{}\tthe {first} and the {second} were late {filler}\n", ["food", "travel"][class]);
    }
    out
}

fn trained(place: &Place, more: &[&str]) {
    let mut state = 3;
    place.write("train.tsv", format!("label\ttext\n{}", rows(3000, &mut state)));
    place.write("test.tsv", format!("label\ttext\n{}", rows(500, &mut state)));
    place.run(&[&["train", "train.tsv", "--test", "test.tsv", "--out", "model"][..], more].concat()).ok();
}

#[test]
fn what_is_answered_is_right_as_often_as_promised() {
    let place = Place::new();
    trained(&place, &["--model", "ngrams"]);
    let all = place.run(&["predict", "model", "--input", "test.tsv", "--json"]).ok().json_lines();
    let run = place.run(&["predict", "model", "--input", "test.tsv", "--json", "--abstain", "0.95"]).ok();
    assert!(run.stderr.contains("of the 283 validation rows"), "{run:#?}");
    let sure = run.json_lines();
    let (mut answered, mut right, mut wrong_before) = (0, 0, 0);
    for (before, row) in all.iter().zip(&sure) {
        let truth = &row["input"]["label"];
        assert_eq!(before["probability"], row["probability"]);
        wrong_before += usize::from(before["label"] != *truth);
        match row["label"] {
            Value::Null => assert_eq!((&row["abstained"], &row["why"]), (&true.into(), &"unsure".into())),
            ref label => {
                assert_eq!((label, &row["abstained"]), (&before["label"], &false.into()));
                answered += 1;
                right += usize::from(label == truth);
            }
        }
    }
    assert!(wrong_before >= 25, "{wrong_before}");
    assert!(answered > 300 && right as f64 >= 0.95 * answered as f64, "{right} of {answered}");

    // The report says the same of the same rows.
    let metrics = place.json("model/metrics.json");
    let promise = metrics["abstain"].as_array().unwrap().iter().find(|promise| promise["level"] == 0.95).unwrap();
    assert!((promise["covers"].as_f64().unwrap() - answered as f64 / 500.0).abs() < 1e-9, "{promise}");
    assert!((promise["right"].as_f64().unwrap() - right as f64 / answered as f64).abs() < 1e-9, "{promise}");
    let curve = metrics["risk_coverage"].as_array().unwrap();
    let last = curve.last().unwrap();
    assert_eq!((&last[1], last[2].as_f64().unwrap()), (&1.0.into(), wrong_before as f64 / 500.0));

    // The picture of it.
    place.run(&["eval", "model", "test.tsv", "--svg", "curve.svg", "--lang", "ja"]).ok();
    let picture = place.read("curve.svg");
    assert!(picture.contains("リスク・カバレッジ曲線") && picture.contains("500 行"), "{}", &picture[..400]);
    place.refuses(&["eval", "model", "test.tsv", "--svg", "test.tsv"], &["--svg", "name another"]);

    // Columns and lines.
    let columns = place.run(&["predict", "model", "--input", "test.tsv", "--abstain", "0.95"]).ok();
    let lines: Vec<Vec<&str>> = columns.stdout.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(lines[0][2..], ["predicted_label", "probability", "abstained", "error"]);
    let unsure = lines[1..].iter().filter(|line| line[2].is_empty() && line[4] == "unsure").count();
    assert_eq!(unsure, 500 - answered);
    let texts =
        ["the soup and the dinner were late today", "the soup and the train were late today", "quux blorf zzgl"];
    let shown = place.run(&[&["predict", "model", "--abstain", "0.95"][..], &texts].concat()).ok();
    let said: Vec<&str> = shown.stdout.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(said, ["food", "(not sure)", "(unlike the training texts)"]);
}

#[test]
fn rows_that_are_answered_wrongly_are_a_table() {
    let place = Place::new();
    trained(&place, &["--model", "ngrams"]);
    place.write("odd.tsv", place.read("test.tsv") + "travel\t=the soup and the bread\n");
    let run = place.run(&["eval", "model", "odd.tsv", "--json", "--errors", "errors.csv"]).ok();
    assert!(run.stderr.contains("wrote errors.csv"), "{run:#?}");
    let scores = run.json();
    let wrong = (1.0 - scores["accuracy"].as_f64().unwrap()) * 501.0;
    let text = place.read("errors.csv");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines[0], ["line", "text", "label", "predicted", "probability", "probability_of_label"]);
    assert_eq!((lines.len() - 1) as f64, wrong.round());
    let sure: Vec<f64> = lines[1..].iter().map(|line| line[4].parse().unwrap()).collect();
    assert!(sure.is_sorted_by(|a, b| a >= b) && sure.len() > 20);
    assert!(lines[1..].iter().all(|line| line[2] != line[3] && line[4] >= line[5]));
    // The surest error is the one that was made; no spreadsheet runs it.
    assert_eq!(lines[1][..4], ["502", "'=the soup and the bread", "travel", "food"]);

    // How good the probabilities are stands in the scores.
    let sureness = &scores["scores"]["sureness"];
    let [error, roc, recall] =
        ["calibration_error", "roc_area", "precision_recall_area"].map(|key| sureness[key].as_f64().unwrap());
    assert!(error < 0.1 && roc > 0.9 && recall > 0.9, "{sureness}");
    assert!(place.run(&["eval", "model", "odd.tsv"]).ok().stdout.contains("Calibration error"));
    place.write("scores.csv", format!("stars,text\n{}", "1,bad\n2,so so\n3,good\n".repeat(20)));
    place.run(&["train", "scores.csv", "--epochs", "1", "--out", "scores"]).ok();
    place.refuses(&["eval", "scores", "scores.csv", "--errors", "x.csv"], &["--errors", "one class"]);
}

#[test]
fn promises_that_cannot_be_made_are_refused() {
    let place = Place::new();
    trained(&place, &["--epochs", "1"]);
    place.run(&["predict", "model", "--abstain", "0.9", "the soup and the dinner were late today"]).ok();
    place.refuses(&["predict", "model", "--abstain", "0.9999", "a text"], &["0.9999", "283 validation rows"]);
    for level in ["0", "1", "95", "x"] {
        place.refuses(&["predict", "model", "--abstain", level, "a text"], &["--abstain", "0.95"]);
    }
    place.refuses(&["predict", "model", "--abstain", "0.9", "--top", "2", "a text"], &["--top"]);
    // As folders were before.
    let mut config = place.json("model/config.json");
    let caution = config.as_object_mut().unwrap().remove("caution").unwrap();
    place.write("model/config.json", config.to_string());
    place.refuses(&["predict", "model", "--abstain", "0.9", "a text"], &["train it again"]);
    config["caution"] = caution;
    config["caution"]["steps"][0]["wrong"] = 1_000_000.into();
    place.write("model/config.json", config.to_string());
    place.refuses(&["predict", "model", "a text"], &["config.json", "caution"]);
    place.write("scores.csv", format!("stars,text\n{}", "1,bad\n2,so so\n3,good\n".repeat(20)));
    place.run(&["train", "scores.csv", "--epochs", "1", "--out", "scores"]).ok();
    place.refuses(&["predict", "scores", "--abstain", "0.9", "a text"], &["one class"]);
}
