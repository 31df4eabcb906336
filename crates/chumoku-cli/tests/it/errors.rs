//! `explain --errors`: the most confident wrong answers, grouped by the words that caused them.

use crate::common::TestDir;
use serde_json::Value;

/// Rows whose class depends on one word, and others whose words contradict their labels.
fn trained(place: &TestDir) {
    let train: String = (0..60)
        .map(|i| match i % 2 {
            0 => format!("The room on floor {i} was clean,positive\n"),
            _ => format!("The waiter on floor {i} was rude,negative\n"),
        })
        .collect();
    place.write("train.csv", format!("text,label\n{train}"));
    let test = "text,label\nThe room was not clean,negative\nA bed clean as never,negative\nA rude awakening,positive\n\
                So clean a lie,negative\nThe kitchen was clean,positive\nThe man was rude,negative\n";
    place.write("test.csv", test);
    place.run(&["train", "train.csv", "--model", "ngrams", "--out", "model"]).assert_success();
}

#[test]
fn errors_are_grouped_by_the_words_that_caused_them() {
    let place = TestDir::new();
    trained(&place);
    let found = place.run(&["explain", "model", "--errors", "test.csv", "--json", "-"]).assert_success().json();
    assert_eq!((&found["rows"], &found["wrong"]), (&6.into(), &4.into()), "{found}");
    let test = place.read("test.csv");
    let piped = place.run_with_input(test.as_bytes(), &["explain", "model", "--errors", "-", "--json", "-"]);
    assert_eq!(piped.assert_success().json()["errors"], found["errors"]);
    let errors = found["errors"].as_array().unwrap();
    let p: Vec<f64> = errors.iter().map(|error| error["probability"].as_f64().unwrap()).collect();
    assert!(p.len() == 4 && p.is_sorted_by(|a, b| a >= b) && p[3] > 0.5, "{p:?}");
    assert_eq!(found["groups"][0]["word"], "clean");
    let lines = |places: &Value| {
        let places = places.as_array().unwrap().iter();
        let mut lines: Vec<u64> =
            places.map(|i| errors[i.as_u64().unwrap() as usize]["line"].as_u64().unwrap()).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(lines(&found["groups"][0]["errors"]), [2, 3, 5]);
    assert_eq!(lines(&found["alone"]), [4]);
    let confused = &found["confusions"][0];
    assert_eq!((&confused["truth"], &confused["answer"]), (&"negative".into(), &"positive".into()));
    assert_eq!((&confused["rows"], &confused["of"]), (&3.into(), &4.into()));
    // The effect of a word matches `explain`.
    let error = &errors.iter().find(|error| error["line"] == 2).unwrap();
    let why = place.run(&["explain", "model", "The room was not clean", "--json", "-"]).assert_success().json();
    for (word, score) in error["words"].as_array().unwrap().iter().zip(why["attribution"]["scores"].as_array().unwrap())
    {
        assert_eq!(word["effect"], *score, "{word}");
    }
    assert_eq!(error["answer"], why["attribution"]["class"]);

    let run = place
        .run(&["explain", "model", "--errors", "test.csv", "--html", "errors.html", "--lang", "ja"])
        .assert_success();
    assert!(run.stdout.contains("6 行中 4 行が誤り") && run.stdout.contains("「clean」：3 件"), "{run:#?}");
    assert!(place.read("errors.html").contains("clean</span>"));
    let few = place.run(&["explain", "model", "--errors", "test.csv", "--top", "1"]).assert_success().stdout;
    assert!(few.contains("4 of 6 rows are wrong") && few.matches(". line ").count() == 1, "{few}");
    // Columns with other names.
    place.write("named.csv", place.read("test.csv").replace("text,label", "a,b"));
    let named = ["explain", "model", "--errors", "named.csv", "--text", "a", "--label", "b", "--json", "-"];
    assert_eq!(place.run(&named).assert_success().json(), found);
}

#[test]
fn a_network_is_explained_with_or_without_ngrams() {
    let place = TestDir::new();
    trained(&place);
    place.run(&["train", "train.csv", "--out", "network", "--epochs", "2", "--model", "gru"]).assert_success();
    // Swapped labels: all right answers become wrong.
    let turned =
        place.read("test.csv").replace("positive", "x").replace("negative", "positive").replace(",x", ",negative");
    place.write("turned.csv", turned);
    let of = |method: &str| {
        let args = ["explain", "network", "--errors", "turned.csv", "--json", "-", "--method", method];
        place.run(&args).assert_success().json()
    };
    let (whole, own) = (of("leave-one-out"), of("integrated-gradients"));
    assert!(whole["wrong"].as_u64().unwrap() > 0, "{whole}");
    assert_eq!((&whole["is_network_alone"], &own["is_network_alone"]), (&false.into(), &true.into()));
    for (found, key) in [(&whole, "whole"), (&own, "scores")] {
        let error = &found["errors"][0];
        let method = if key == "whole" { "leave-one-out" } else { "integrated-gradients" };
        let text = error["text"].as_str().unwrap();
        let why = place.run(&["explain", "network", text, "--json", "-", "--method", method]).assert_success().json();
        let effect = |value: &Value| value.as_f64().unwrap();
        let expected: Vec<f64> = why["attribution"][key].as_array().unwrap().iter().map(effect).collect();
        let special = |i: usize| why["words"][i]["special"] == true;
        let expected: Vec<f64> = expected.iter().enumerate().filter(|(i, _)| !special(*i)).map(|(_, x)| *x).collect();
        let shown: Vec<f64> = error["words"].as_array().unwrap().iter().map(|word| effect(&word["effect"])).collect();
        assert_eq!(shown, expected, "{key}");
    }
}

#[test]
fn files_without_explainable_errors_are_rejected() {
    let place = TestDir::new();
    trained(&place);
    place.run_rejected(&["explain", "model", "--errors"], &["--errors test.csv", "a model folder does not contain"]);
    place.run_rejected(&["explain", "model", "--errors", "none.csv"], &["none.csv"]);
    place.run_rejected(&["explain", "model", "a text", "--errors", "test.csv"], &["--errors"]);
    place.run_rejected(&["explain", "model", "--errors", "test.csv", "--top", "0"], &["--top"]);
    place.run_rejected(&["explain", "model", "a text", "--top", "3"], &["--errors"]);
    place.run_rejected(&["explain", "model", "--errors", "test.csv", "--png", "a.png"], &["--png"]);
    place.write("other.csv", "text,label\nThe room was clean,purple\nA rude man,positive\n");
    place.run_rejected(&["explain", "model", "--errors", "other.csv"], &["purple"]);
    place.train_language_model();
    place
        .run_rejected(&["explain", "lm", "--errors", "test.csv"], &["--errors", "labels or numbers", "language model"]);
    place.run_rejected(&["explain", "model", "a text", "--separator", "|"], &["--errors", "--separator"]);
}

/// Missed labels and extra labels, with the words that caused them.
#[test]
fn missed_and_extra_labels_are_errors() {
    let place = TestDir::new();
    let row = |i: usize| match i % 4 {
        0 => format!("The room on floor {i} was clean,room\n"),
        1 => format!("The waiter on floor {i} was rude,staff\n"),
        2 => format!("A clean room and a rude waiter on floor {i},room|staff\n"),
        _ => format!("Nothing to tell of floor {i},\n"),
    };
    place.write("train.csv", format!("text,labels\n{}", (0..160).map(row).collect::<String>()));
    // Line 2 is predicted an extra label, and line 3 misses one.
    let test = "text,labels\nThe clean room was none of ours,\nNothing to tell of them,staff\nA rude waiter,staff\n\
                A clean room and a rude waiter,room|staff\n";
    place.write("test.csv", test);
    let separator = ["--separator", "|"];
    for (model, more) in [("ngrams", &["--model", "ngrams"][..]), ("network", &["--model", "gru", "--epochs", "3"])] {
        place.run(&[&["train", "train.csv", "--out", model], &separator[..], more].concat()).assert_success();
        let args = ["explain", model, "--errors", "test.csv", "--separator", "|"];
        let found = place.run(&[&args[..], &["--json", "-"]].concat()).assert_success().json();
        assert_eq!(
            (&found["kind"], &found["rows"], &found["wrong"]),
            (&"labels".into(), &4.into(), &2.into()),
            "{found}"
        );
        assert_eq!(found["accuracy"], 0.5);
        let error = |line: u64| found["errors"].as_array().unwrap().iter().find(|error| error["line"] == line).unwrap();
        let (extra, missed) = (error(2), error(3));
        assert_eq!((&extra["label"], &extra["missed"]), (&"room".into(), &false.into()));
        assert_eq!((&missed["label"], &missed["missed"]), (&"staff".into(), &true.into()));
        assert!(extra["probability"].as_f64().unwrap() > 0.5 && missed["probability"].as_f64().unwrap() > 0.5);
        let effect = |error: &Value, word: &str| {
            let words = error["words"].as_array().unwrap();
            words.iter().find(|w| w["text"] == word).unwrap()["effect"].as_f64().unwrap()
        };
        // Words that support the label caused the first error; words that oppose it caused the second.
        assert!(effect(extra, "clean") + effect(extra, "room") > 0.5, "{extra}");
        assert!(effect(missed, "Nothing") + effect(missed, "tell") > 0.0, "{missed}");
        let of = |label: &str| found["labels"].as_array().unwrap().iter().find(|of| of["label"] == label).unwrap();
        assert_eq!(*of("room"), serde_json::json!({"label": "room", "missed": 0, "of": 1, "extra": 1, "of_others": 3}));
        assert_eq!(
            *of("staff"),
            serde_json::json!({"label": "staff", "missed": 1, "of": 3, "extra": 0, "of_others": 1})
        );
        let shown =
            place.run(&[&args[..], &["--html", "errors.html", "--lang", "ja"]].concat()).assert_success().stdout;
        assert!(shown.contains("4 行中 2 行でラベルが一致しません") && shown.contains("付け忘れ"), "{shown}");
        assert!(place.read("errors.html").contains("extra"));
        let shown = place.run(&args).assert_success().stdout;
        assert!(shown.contains("room: extra") && shown.contains("staff: missed"), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    }
    // For the first error, the words have the effects that `explain` shows for the label.
    let found = place
        .run(&["explain", "ngrams", "--errors", "test.csv", "--separator", "|", "--json", "-"])
        .assert_success()
        .json();
    let extra = found["errors"].as_array().unwrap().iter().find(|error| error["label"] == "room").unwrap();
    let why = place.run(&["explain", "ngrams", extra["text"].as_str().unwrap(), "--json", "-"]).assert_success().json();
    assert_eq!(why["label"], "room");
    let scores: Vec<&Value> = extra["words"].as_array().unwrap().iter().map(|word| &word["effect"]).collect();
    assert_eq!(scores, why["attribution"]["scores"].as_array().unwrap().iter().collect::<Vec<_>>());
    place.write("other.csv", "text,labels\na room,purple|room\na hall,room\n");
    place.run_rejected(&["explain", "ngrams", "--errors", "other.csv", "--separator", "|"], &["purple"]);
    // Without errors, the output says so.
    place.write("right.csv", "text,labels\nA rude waiter,staff\nA clean room and a rude waiter,room|staff\n");
    let args = ["explain", "ngrams", "--errors", "right.csv", "--separator", "|", "--html", "right.html"];
    assert!(place.run(&args).assert_success().stdout.contains("0 of 2 rows"));
}

/// Numbers outside their intervals, with the words that moved them away from the true ones.
#[test]
fn numbers_outside_their_intervals_are_errors() {
    let place = TestDir::new();
    let mut state = 3;
    let mut pick = |count: usize| (crate::common::next_random(&mut state) * count as f64) as usize;
    let rows: String = (0..400)
        .map(|i| {
            let words: Vec<&str> = ["good", "kind", "clean"].iter().map(|word| [*word, "plain"][pick(2)]).collect();
            let count = words.iter().filter(|word| **word != "plain").count();
            format!("{count},\"Room {i}: {}\"\n", words.join(", "))
        })
        .collect();
    place.write("train.csv", format!("rating,text\n{rows}"));
    place.write(
        "test.csv",
        "rating,text\n0,\"Room 1: good, kind, clean\"\n3,\"Room 2: plain, plain, plain\"\n3,\"Room 3: good, kind, clean\"\n",
    );
    for (model, more) in [("ngrams", &["--model", "ngrams"][..]), ("network", &["--model", "gru", "--epochs", "6"])] {
        place.run(&[&["train", "train.csv", "--out", model], more].concat()).assert_success();
        let args = ["explain", model, "--errors", "test.csv"];
        let found = place.run(&[&args[..], &["--json", "-"]].concat()).assert_success().json();
        assert_eq!(
            (&found["kind"], &found["rows"], &found["wrong"]),
            (&"numbers".into(), &3.into(), &2.into()),
            "{found}"
        );
        let errors = found["errors"].as_array().unwrap();
        let off: Vec<f64> = errors.iter().map(|error| error["off"].as_f64().unwrap()).collect();
        assert!(off.len() == 2 && off[0] >= off[1] && off[1] > 1.0, "{off:?}");
        let error = |line: u64| errors.iter().find(|error| error["line"] == line).unwrap();
        let (high, low) = (error(2), error(3));
        assert!(high["score"].as_f64().unwrap() > 2.0 && high["truth"] == 0.0, "{high}");
        assert!(low["score"].as_f64().unwrap() < 1.0 && low["truth"] == 3.0, "{low}");
        for error in [high, low] {
            let side = (error["high"].as_f64().unwrap() - error["score"].as_f64().unwrap())
                .max(error["score"].as_f64().unwrap() - error["low"].as_f64().unwrap());
            let truth = error["truth"].as_f64().unwrap();
            let expected = (truth - error["score"].as_f64().unwrap()).abs() / side;
            assert!((error["off"].as_f64().unwrap() / expected - 1.0).abs() < 0.05, "{error}");
        }
        let effect = |error: &Value, word: &str| {
            let words = error["words"].as_array().unwrap().iter().filter(|w| w["text"] == word);
            words.map(|w| w["effect"].as_f64().unwrap()).sum::<f64>()
        };
        // Praise made one prediction too high; its absence made the other too low.
        let praise = ["good", "kind", "clean"].map(|word| effect(high, word));
        assert!(praise.iter().all(|effect| *effect > 0.0), "{high}");
        assert!(effect(low, "plain") > 0.0, "{low}");
        assert_eq!(found["points"].as_array().unwrap().len(), 3);
        let shown = place.run(&[&args[..], &["--html", "errors.html"]].concat()).assert_success().stdout;
        assert!(shown.contains("2 of 3 true numbers lie outside") && shown.contains("× the longer side"), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        let page = place.read("errors.html");
        assert!(page.contains("区間の外") && page.contains("away from it"));
    }
    let of = ["explain", "network", "--errors", "test.csv", "--method", "integrated-gradients", "--json", "-"];
    let found = place.run(&of).assert_success().json();
    assert_eq!((&found["is_network_alone"], &found["method"]), (&true.into(), &"integrated gradients".into()));
}

/// Feature columns are used, and input files are never overwritten.
#[test]
fn columns_are_read_and_files_are_kept() {
    let place = TestDir::new();
    let row = |i: usize| format!("meal number {i},{},{}\n", [5, 90][i * 7 % 3 % 2], ["cheap", "dear"][i * 7 % 3 % 2]);
    let rows = format!("text,price,label\n{}", (0..120).map(row).collect::<String>());
    place.write("rows.csv", &rows);
    place
        .run(&["train", "rows.csv", "--columns", "price", "--label", "label", "--model", "ngrams", "--out", "model"])
        .assert_success();
    let accuracy =
        place.run(&["eval", "model", "rows.csv", "--json"]).assert_success().json()["accuracy"].as_f64().unwrap();
    let found = place.run(&["explain", "model", "--errors", "rows.csv", "--json", "-"]).assert_success().json();
    assert!(accuracy > 0.95 && (found["accuracy"].as_f64().unwrap() - accuracy).abs() < 1e-9, "{found}");
    // With the same price for all rows, half of the answers are wrong. The words come only from the text.
    let found = place
        .run(&["explain", "model", "--errors", "rows.csv", "--set", "price=5", "--json", "-"])
        .assert_success()
        .json();
    assert!(found["accuracy"].as_f64().unwrap() < 0.8, "{found}");
    let text = found["errors"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("meal number") && !text.contains('\u{1e}'), "{found}");
    for out in ["rows.csv", "model/config.json"] {
        place.run_rejected(
            &["explain", "model", "--errors", "rows.csv", "--html", out],
            &["--html", out, "an input file"],
        );
        place.run_rejected(
            &["explain", "model", "--errors", "rows.csv", "--json", out],
            &["--json", out, "an input file"],
        );
        place.run_rejected(&["eval", "model", "rows.csv", "--errors", out], &["--errors", out, "an input file"]);
    }
    assert_eq!(place.read("rows.csv"), rows);
}
