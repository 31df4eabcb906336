//! Abstention: promises that hold, promises that cannot be made, and the wrong answers.

use crate::common::TestDir;
use serde_json::Value;

/// Texts of two classes. Every fifth contains words of both.
fn rows(n: usize, state: &mut u64) -> String {
    let words = [["soup", "bread", "dinner", "cook"], ["train", "ticket", "station", "driver"]];
    let mut pick = |count: usize| (crate::common::next_random(state) * count as f64) as usize;
    let mut out = String::new();
    for i in 0..n {
        let class = pick(2);
        let other = if i % 5 == 0 { 1 - class } else { class };
        let [first, second] = [words[class][pick(4)], words[other][pick(4)]];
        // Nothing in a doubtful text reveals its topic.
        let [first, second] = if pick(2) == 0 { [first, second] } else { [second, first] };
        let filler = ["today", "again", "at noon", "as ever"][pick(4)];
        out += &format!("{}\tthe {first} and the {second} were late {filler}\n", ["food", "travel"][class]);
    }
    out
}

fn trained(place: &TestDir, more: &[&str]) {
    let mut state = 3;
    place.write("train.tsv", format!("label\ttext\n{}", rows(3000, &mut state)));
    place.write("test.tsv", format!("label\ttext\n{}", rows(500, &mut state)));
    place.run(&[&["train", "train.tsv", "--test", "test.tsv", "--out", "model"][..], more].concat()).assert_success();
}

#[test]
fn answered_rows_are_right_as_often_as_promised() {
    let place = TestDir::new();
    trained(&place, &["--model", "ngrams"]);
    let all = place.run(&["predict", "model", "--input", "test.tsv", "--json"]).assert_success().json_lines();
    let run = place.run(&["predict", "model", "--input", "test.tsv", "--json", "--abstain", "0.95"]).assert_success();
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

    // The report gives the same figures for the same rows.
    let metrics = place.json("model/metrics.json");
    let promise = metrics["abstain"].as_array().unwrap().iter().find(|promise| promise["level"] == 0.95).unwrap();
    assert!((promise["covers"].as_f64().unwrap() - answered as f64 / 500.0).abs() < 1e-9, "{promise}");
    assert!((promise["right"].as_f64().unwrap() - right as f64 / answered as f64).abs() < 1e-9, "{promise}");
    let curve = metrics["risk_coverage"].as_array().unwrap();
    let last = curve.last().unwrap();
    assert_eq!((&last[1], last[2].as_f64().unwrap()), (&1.0.into(), wrong_before as f64 / 500.0));

    // The accuracy–coverage curve as a picture.
    let run = place.run(&["eval", "model", "test.tsv", "--svg", "curve.svg", "--lang", "ja"]);
    if !run.is_missing_font() {
        run.assert_success();
        let picture = place.read("curve.svg");
        assert!(picture.contains("リスク・カバレッジ曲線") && picture.contains("500 行"), "{}", &picture[..400]);
    }
    place.run_rejected(&["eval", "model", "test.tsv", "--svg", "test.tsv"], &["--svg", "choose another output"]);

    // Columns and lines.
    let columns = place.run(&["predict", "model", "--input", "test.tsv", "--abstain", "0.95"]).assert_success();
    let lines: Vec<Vec<&str>> = columns.stdout.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(lines[0][2..], ["predicted_label", "probability", "abstained", "error"]);
    let unsure = lines[1..].iter().filter(|line| line[2].is_empty() && line[4] == "unsure").count();
    assert_eq!(unsure, 500 - answered);
    let texts =
        ["the soup and the dinner were late today", "the soup and the train were late today", "quux blorf zzgl"];
    let shown = place.run(&[&["predict", "model", "--abstain", "0.95"][..], &texts].concat()).assert_success();
    let answers: Vec<&str> = shown.stdout.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(answers, ["food", "(not sure)", "(unlike the training texts)"]);
}

#[test]
fn wrong_answers_are_written_as_a_table() {
    let place = TestDir::new();
    trained(&place, &["--model", "ngrams"]);
    place.write("odd.tsv", place.read("test.tsv") + "travel\t=the soup and the bread\n");
    let run = place.run(&["eval", "model", "odd.tsv", "--json", "--errors", "errors.csv"]).assert_success();
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
    // The most confident error is the planted one; a spreadsheet does not run it as a formula.
    assert_eq!(lines[1][..4], ["502", "'=the soup and the bread", "travel", "food"]);

    // The scores include the quality of the probabilities.
    let sureness = &scores["scores"]["sureness"];
    let [error, roc, recall] =
        ["calibration_error", "roc_area", "precision_recall_area"].map(|key| sureness[key].as_f64().unwrap());
    assert!(error < 0.1 && roc > 0.9 && recall > 0.9, "{sureness}");
    assert!(place.run(&["eval", "model", "odd.tsv"]).assert_success().stdout.contains("Calibration error"));
    place.write("scores.csv", format!("stars,text\n{}", "1,bad\n2,so so\n3,good\n".repeat(20)));
    place.run(&["train", "scores.csv", "--epochs", "1", "--out", "scores"]).assert_success();
    place.run_rejected(&["eval", "scores", "scores.csv", "--errors", "x.csv"], &["--errors", "one class"]);
}

#[test]
fn impossible_promises_are_rejected() {
    let place = TestDir::new();
    trained(&place, &["--epochs", "1"]);
    place.run(&["predict", "model", "--abstain", "0.9", "the soup and the dinner were late today"]).assert_success();
    place.run_rejected(&["predict", "model", "--abstain", "0.9999", "a text"], &["0.9999", "283 validation rows"]);
    for level in ["0", "1", "95", "x"] {
        place.run_rejected(&["predict", "model", "--abstain", level, "a text"], &["--abstain", "0.95"]);
    }
    place.run_rejected(&["predict", "model", "--abstain", "0.9", "--top", "2", "a text"], &["--top"]);
    // A folder of an older version.
    let mut config = place.json("model/config.json");
    let caution = config.as_object_mut().unwrap().remove("caution").unwrap();
    place.write("model/config.json", config.to_string());
    place.run_rejected(&["predict", "model", "--abstain", "0.9", "a text"], &["train it again"]);
    config["caution"] = caution;
    config["caution"]["steps"][0]["wrong"] = 1_000_000.into();
    place.write("model/config.json", config.to_string());
    place.run_rejected(&["predict", "model", "a text"], &["config.json", "caution"]);
    // No prediction of a measure is right to the digit, and few rows support no promise for ratings.
    let rows: String =
        (0..90).map(|i| format!("{},a {} night {i}\n", 1 + i % 3, ["bad", "fair", "good"][i % 3])).collect();
    place.write("scores.csv", format!("stars,text\n{rows}"));
    place.run(&["train", "scores.csv", "--model", "ngrams", "--out", "scores"]).assert_success();
    place.run_rejected(&["predict", "scores", "--abstain", "0.9999", "a text"], &["validation rows", "ask for less"]);
    let rows: String = (0..200).map(|i| format!("{},a room of size {}\n", f64::from(i) * 1.25, i / 20)).collect();
    place.write("sizes.csv", format!("size,text\n{rows}"));
    let args = ["train", "sizes.csv", "--task", "score", "--label", "size", "--model", "ngrams", "--out", "sizes"];
    place.run(&args).assert_success();
    assert!(place.json("sizes/metrics.json")["abstain"].as_array().unwrap().is_empty());
    place.run_rejected(&["predict", "sizes", "--abstain", "0.9", "a text"], &["a measure", "low and high"]);
}

/// For an answered text, all labels are right, or the nearest rating is, as often as promised, in every form of answer.
#[test]
fn labels_and_ratings_are_right_as_often_as_promised() {
    let place = TestDir::new();
    let mut state = 5;
    let text = rows(3500, &mut state);
    let lines: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once('\t')).collect();
    // A text about one thing has one label, a doubtful one has both or either.
    let labels = |(i, (class, text)): (usize, &(&str, &str))| {
        let other = ["soup", "bread", "dinner", "cook"].iter().any(|word| text.contains(word));
        let both = other && ["train", "ticket", "station", "driver"].iter().any(|word| text.contains(word));
        let label = if both && i % 3 == 0 { "food|travel" } else { class };
        format!("{label}\t{text}\n")
    };
    let stars = |(i, (class, text)): (usize, &(&str, &str))| {
        let number = if *class == "food" { 5 } else { 1 };
        // In every fifth text, nothing reveals which of three levels it has.
        format!("{}\t{text}\n", if i % 5 == 0 { 1 + i % 3 * 2 } else { number })
    };
    for (name, head, of_row) in
        [("labels", "labels", &labels as &dyn Fn((usize, &(&str, &str))) -> String), ("stars", "stars", &stars)]
    {
        let all: Vec<String> = lines.iter().enumerate().map(of_row).collect();
        place.write(&format!("{name}.tsv"), format!("{head}\ttext\n{}", all[..3000].concat()));
        place.write(&format!("{name}-test.tsv"), format!("{head}\ttext\n{}", all[3000..].concat()));
        let (train, test) = (format!("{name}.tsv"), format!("{name}-test.tsv"));
        let more: &[&str] = if name == "labels" { &["--separator", "|"] } else { &[] };
        let args = ["train", &train, "--test", &test, "--model", "ngrams", "--out", name];
        let run = place.run(&[&args[..], more].concat()).assert_success();
        assert!(run.stdout.contains("Abstaining when unsure"), "{run:#?}");
        let level = "0.9";
        let all = place.run(&["predict", name, "--input", &test, "--json"]).assert_success().json_lines();
        let sure =
            place.run(&["predict", name, "--input", &test, "--json", "--abstain", level]).assert_success().json_lines();
        let key = if name == "labels" { "labels" } else { "score" };
        let is_right = |row: &Value| {
            let truth = row["input"][head].as_str().unwrap();
            match name {
                "labels" => {
                    let mut labels: Vec<&str> =
                        row[key].as_array().unwrap().iter().map(|l| l["label"].as_str().unwrap()).collect();
                    labels.sort_unstable();
                    labels.join("|") == truth
                }
                _ => {
                    let nearest = [1.0, 3.0, 5.0].into_iter().min_by(|a, b| {
                        let off = |x: &f64| (row[key].as_f64().unwrap() - x).abs();
                        off(a).total_cmp(&off(b))
                    });
                    nearest == truth.parse().ok()
                }
            }
        };
        let wrong_before = all.iter().filter(|row| !is_right(row)).count();
        let (mut answered, mut right) = (0, 0);
        for (before, row) in all.iter().zip(&sure) {
            match row[key] {
                Value::Null => assert_eq!((&row["abstained"], &row["why"]), (&true.into(), &"unsure".into()), "{row}"),
                ref told => {
                    assert_eq!((told, &row["abstained"]), (&before[key], &false.into()));
                    answered += 1;
                    right += usize::from(is_right(row));
                }
            }
        }
        assert!(wrong_before >= 40, "{name}: {wrong_before}");
        assert!(answered > 150 && right as f64 >= 0.9 * answered as f64, "{name}: {right} of {answered}");
        // The report gives the same figures for the same rows.
        let metrics = place.json(&format!("{name}/metrics.json"));
        let promise = metrics["abstain"].as_array().unwrap().iter().find(|of| of["level"] == 0.9).unwrap();
        assert!((promise["covers"].as_f64().unwrap() - f64::from(answered) / 500.0).abs() < 1e-9, "{promise}");
        assert!((promise["right"].as_f64().unwrap() - right as f64 / f64::from(answered)).abs() < 1e-9, "{promise}");
        assert!(place.run(&["info", name]).assert_success().stdout.contains("can be promised"));

        let columns = place.run(&["predict", name, "--input", &test, "--abstain", level]).assert_success();
        let heading = columns.stdout.lines().next().unwrap();
        let added = if name == "labels" { "predicted_labels\tabstained" } else { "score\tlow\thigh\tabstained" };
        assert!(heading.ends_with(&format!("{added}\terror")), "{heading}");
        let unsure = columns.stdout.lines().filter(|line| line.contains("\tunsure\t")).count();
        assert_eq!(unsure, 500 - answered as usize, "{name}");
        let shown = place.run(&["predict", name, "--abstain", level, "quux blorf zzgl"]).assert_success().stdout;
        assert!(shown.starts_with("(unlike the training texts)\t"), "{shown}");
    }
}
