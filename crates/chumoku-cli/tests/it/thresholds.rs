//! Unequal error costs: the probability threshold of a class, and the weight of its rows.

use crate::common::TestDir;
use serde_json::Value;

/// Texts of three classes; every fourth has a word of another class.
fn rows(n: usize, state: &mut u64) -> String {
    let words = [["soup", "bread", "dinner"], ["train", "ticket", "station"], ["goal", "team", "match"]];
    let mut pick = |count: usize| (crate::common::next_random(state) * count as f64) as usize;
    let mut out = String::new();
    for i in 0..n {
        let class = pick(3);
        let other = if i % 4 == 0 { pick(3) } else { class };
        let mut both = [words[class][pick(3)], words[other][pick(3)]];
        both.rotate_left(pick(2));
        out += &format!("{}\tthe {} and the {} again\n", ["food", "travel", "sport"][class], both[0], both[1]);
    }
    out
}

fn trained(place: &TestDir, more: &[&str]) {
    let mut state = 5;
    place.write("train.tsv", format!("label\ttext\n{}", rows(2000, &mut state)));
    place.write("test.tsv", format!("label\ttext\n{}", rows(600, &mut state)));
    place.run(&[&["train", "train.tsv", "--test", "test.tsv", "--out", "model"][..], more].concat()).assert_success();
}

fn probability(row: &Value, class: &str) -> f64 {
    let top = row["top"].as_array().unwrap();
    top.iter().find(|of| of["label"] == class).unwrap()["probability"].as_f64().unwrap()
}

/// Precision and recall of a class among answered rows.
fn figures(rows: &[Value], class: &str) -> [f64; 2] {
    let [mut right, mut answered, mut there] = [0.0; 3];
    for row in rows {
        let (said, is) = (row["label"] == class, row["input"]["label"] == class);
        right += f64::from(u8::from(said && is));
        answered += f64::from(u8::from(said));
        there += f64::from(u8::from(is));
    }
    [right / answered, right / there]
}

#[test]
fn a_class_is_predicted_exactly_above_its_threshold() {
    let place = TestDir::new();
    trained(&place, &["--model", "ngrams"]);
    let predict = ["predict", "model", "--input", "test.tsv", "--json", "--top", "3"];
    let usual = place.run(&predict).assert_success().json_lines();
    for threshold in [0.05, 0.9] {
        let flag = format!("travel={threshold}");
        let rows = place.run(&[&predict[..], &["--threshold", &flag]].concat()).assert_success().json_lines();
        let mut changed = 0;
        for (before, row) in usual.iter().zip(&rows) {
            assert_eq!(before["top"], row["top"]);
            let p = probability(row, "travel");
            // The output is rounded.
            if (p - threshold).abs() > 1e-5 {
                assert_eq!(row["label"] == "travel", p >= threshold, "{row}");
            }
            if row["label"] != "travel" && before["label"] != "travel" {
                assert_eq!(row["label"], before["label"]);
            }
            let label = row["label"].as_str().unwrap();
            assert_eq!(row["probability"].as_f64().unwrap(), probability(row, label));
            changed += usize::from(row["label"] != before["label"]);
        }
        assert!(changed >= 10, "{threshold}: {changed}");
        // Columns and scores have the same predictions.
        let columns = place.run(&["predict", "model", "--input", "test.tsv", "--threshold", &flag]).assert_success();
        let labels: Vec<&str> = columns.stdout.lines().skip(1).map(|line| line.split('\t').nth(2).unwrap()).collect();
        assert_eq!(labels, rows.iter().map(|row| row["label"].as_str().unwrap()).collect::<Vec<_>>());
        let run = place.run(&["eval", "model", "test.tsv", "--json", "--threshold", &flag]).assert_success();
        let scores: Value = serde_json::from_str(&run.stdout).unwrap();
        let classes = scores["scores"]["classes"].as_array().unwrap();
        let of = classes.iter().find(|of| of["label"] == "travel").unwrap();
        let [precision, recall] = figures(&rows, "travel");
        assert!((of["precision"].as_f64().unwrap() - precision).abs() < 1e-9, "{of} {precision}");
        assert!((of["recall"].as_f64().unwrap() - recall).abs() < 1e-9, "{of} {recall}");
    }
}

#[test]
fn a_requested_precision_is_reached() {
    let place = TestDir::new();
    trained(&place, &["--epochs", "2"]);
    let predict = ["predict", "model", "--input", "test.tsv", "--json"];
    let before = figures(&place.run(&predict).assert_success().json_lines(), "sport");
    let run = place.run(&[&predict[..], &["--precision-at-least", "sport=0.93"]].concat()).assert_success();
    assert!(run.stderr.contains("“sport” at a probability of"), "{run:#?}");
    let after = figures(&run.json_lines(), "sport");
    assert!(before[0] < 0.93 && after[0] >= 0.93 && after[1] > 0.3, "{before:?} {after:?}");
    // A precision beyond what the rows can show is reported.
    let run = place.run(&[&predict[..], &["--precision-at-least", "sport=0.999"]].concat());
    assert!(
        run.stderr.contains("too few rows to promise 99.9 %") || run.stderr.contains("choose a lower value"),
        "{run:#?}"
    );
}

#[test]
fn labels_have_their_own_thresholds() {
    let place = TestDir::new();
    let mut state = 9;
    let mut rows = String::from("text\tlabels\n");
    for i in 0..900 {
        let mut pick = |count: usize| (crate::common::next_random(&mut state) * count as f64) as usize;
        let [a, b, doubt] = [pick(2), pick(2), pick(5)];
        let says = |holds: usize, word: &'static str| if holds == usize::from(doubt > 0) { word } else { "nothing" };
        let labels = [(a, "loud"), (b, "late")].map(|(holds, label)| (holds == 1).then_some(label));
        let labels: Vec<&str> = labels.into_iter().flatten().collect();
        rows += &format!("{} and {} in room {}\t{}\n", says(a, "noise"), says(b, "delay"), i % 7, labels.join(","));
    }
    place.write("rows.tsv", rows);
    place
        .run(&["train", "rows.tsv", "--task", "labels", "--separator", ",", "--out", "model", "--epochs", "2"])
        .assert_success();
    let labels = |more: &[&str]| {
        let text = ["predict", "model", "noise and delay in room 3", "--json"];
        let run = place.run(&[&text[..], more].concat()).assert_success();
        let found = run.json_lines()[0]["labels"].as_array().unwrap().clone();
        (found.iter().map(|of| of["label"].as_str().unwrap().to_owned()).collect::<Vec<_>>(), run.stderr)
    };
    assert_eq!(labels(&[]).0.len(), 2);
    assert_eq!(labels(&["--threshold", "0.999"]).0, [""; 0]);
    assert_eq!(labels(&["--threshold", "late=0.999"]).0, ["loud"]);
    let (_, said) = labels(&["--precision-at-least", "0.7"]);
    assert!(said.contains("“late” at a probability of") && said.contains("“loud” at a probability of"), "{said}");
}

#[test]
fn invalid_thresholds_are_rejected() {
    let place = TestDir::new();
    trained(&place, &["--model", "ngrams"]);
    let output = |more: &[&str]| {
        let run = place.run(&[&["predict", "model", "a text"][..], more].concat());
        assert_eq!(run.code, 2, "{run:#?}");
        run.stderr
    };
    for (flags, expected) in [
        (&["--threshold", "0.5"][..], "expected the class of the threshold"),
        (&["--threshold", "news=0.5"], "the model has no class “news”; expected one of"),
        (&["--threshold", "food=1.5"], "expected a number between 0 and 1"),
        (&["--threshold", "food=0.5", "--precision-at-least", "food=0.9"], "“food” is given twice"),
        (
            &["--threshold", "food=0.5", "--threshold", "sport=0.5", "--threshold", "travel=0.5"],
            "every class has a threshold",
        ),
        (&["--threshold", "food=0.5", "--abstain", "0.9"], "cannot be used with"),
    ] {
        let output = output(flags);
        assert!(output.contains(expected), "{flags:?}: {output}");
    }
    // A folder from a version without thresholds.
    let mut config = place.json("model/config.json");
    config["caution"].as_object_mut().unwrap().remove("classes").unwrap();
    place.write("model/config.json", config.to_string());
    assert!(output(&["--precision-at-least", "food=0.9"]).contains("train it again"));
}

#[test]
fn classes_with_more_weight_are_predicted_more_often() {
    for (model, more) in [("ngrams", &["--model", "ngrams"][..]), ("transformer", &["--epochs", "2"])] {
        let place = TestDir::new();
        let mut recalls = Vec::new();
        for weights in ["sport=0.2", "equal", "sport=20"] {
            trained(&place, &[more, &["--class-weights", weights, "--force"]].concat());
            let rows = place.run(&["predict", "model", "--input", "test.tsv", "--json"]).assert_success().json_lines();
            recalls.push(figures(&rows, "sport")[1]);
            // The weights in the losses of the network and of the n-grams.
            let metrics = place.json("model/metrics.json");
            let report = if model == "ngrams" { &metrics["class_weights"] } else { &metrics["plan"]["class_weights"] };
            let [food, sport, travel] = [0, 1, 2].map(|class| report[class].as_f64().unwrap());
            let times = weights.strip_prefix("sport=").map_or(1.0, |times| times.parse().unwrap());
            assert!((sport / food - times).abs() < 1e-5 * times && food == travel, "{model}, {weights}: {report}");
        }
        assert!(recalls[0] + 0.01 < recalls[1] && recalls[1] + 0.01 < recalls[2], "{model}: {recalls:?}");
    }
}

#[test]
fn invalid_weights_are_rejected() {
    let place = TestDir::new();
    let mut state = 5;
    place.write("train.tsv", format!("label\ttext\n{}", rows(100, &mut state)));
    for (weights, expected) in [
        ("news=2", "no class “news”; expected one of food, sport, travel"),
        ("food=0", "expected a number from"),
        ("food=2,food=3", "given twice"),
        ("food", "expected balanced, equal, or classes with numbers"),
        ("food=two", "expected a number, found two"),
    ] {
        let run = place.run(&["train", "train.tsv", "--class-weights", weights, "--out", "model"]);
        assert!(run.code == 2 && run.stderr.contains(expected), "{weights}: {run:#?}");
        assert!(!place.path("model").exists());
    }
    let run = place.run(&["train", "train.tsv", "--task", "lm", "--class-weights", "balanced"]);
    assert!(run.code == 2 && run.stderr.contains("only for data with one class per text"), "{run:#?}");
}
