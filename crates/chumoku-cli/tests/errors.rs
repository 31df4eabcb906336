//! `explain --errors`: the surest wrong answers, by the words that caused them.

mod common;

use common::Place;
use serde_json::Value;

/// Rows in which a word decides, and others whose words say the opposite of their labels.
fn trained(place: &Place) {
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
    place.run(&["train", "train.csv", "--model", "ngrams", "--out", "model"]).ok();
}

#[test]
fn errors_are_grouped_by_the_words_that_caused_them() {
    let place = Place::new();
    trained(&place);
    let found = place.run(&["explain", "model", "--errors", "test.csv", "--json", "-"]).ok().json();
    assert_eq!((&found["rows"], &found["wrong"]), (&6.into(), &4.into()), "{found}");
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
    // What a word does is what `explain` says it does.
    let error = &errors.iter().find(|error| error["line"] == 2).unwrap();
    let why = place.run(&["explain", "model", "The room was not clean", "--json", "-"]).ok().json();
    for (word, score) in error["words"].as_array().unwrap().iter().zip(why["attribution"]["scores"].as_array().unwrap())
    {
        assert_eq!(word["effect"], *score, "{word}");
    }
    assert_eq!(error["answer"], why["attribution"]["class"]);

    let run = place.run(&["explain", "model", "--errors", "test.csv", "--html", "errors.html", "--lang", "ja"]).ok();
    assert!(run.stdout.contains("6 行中 4 行が誤り") && run.stdout.contains("「clean」：3 件"), "{run:#?}");
    assert!(place.read("errors.html").contains("clean</span>"));
    let few = place.run(&["explain", "model", "--errors", "test.csv", "--top", "1"]).ok().stdout;
    assert!(few.contains("4 of 6 rows are wrong") && few.matches(". line ").count() == 1, "{few}");
    // Columns of other names.
    place.write("named.csv", place.read("test.csv").replace("text,label", "a,b"));
    let named = ["explain", "model", "--errors", "named.csv", "--text", "a", "--label", "b", "--json", "-"];
    assert_eq!(place.run(&named).ok().json(), found);
}

#[test]
fn a_network_explains_the_whole_or_itself() {
    let place = Place::new();
    trained(&place);
    place.run(&["train", "train.csv", "--out", "network", "--epochs", "2", "--model", "gru"]).ok();
    // Labels turned around: all that is right is wrong.
    let turned =
        place.read("test.csv").replace("positive", "x").replace("negative", "positive").replace(",x", ",negative");
    place.write("turned.csv", turned);
    let of = |method: &str| {
        let args = ["explain", "network", "--errors", "turned.csv", "--json", "-", "--method", method];
        place.run(&args).ok().json()
    };
    let (whole, own) = (of("leave-one-out"), of("integrated-gradients"));
    assert!(whole["wrong"].as_u64().unwrap() > 0, "{whole}");
    assert_eq!((&whole["is_network_alone"], &own["is_network_alone"]), (&false.into(), &true.into()));
    for (found, key) in [(&whole, "whole"), (&own, "scores")] {
        let error = &found["errors"][0];
        let method = if key == "whole" { "leave-one-out" } else { "integrated-gradients" };
        let text = error["text"].as_str().unwrap();
        let why = place.run(&["explain", "network", text, "--json", "-", "--method", method]).ok().json();
        let effect = |value: &Value| value.as_f64().unwrap();
        let expected: Vec<f64> = why["attribution"][key].as_array().unwrap().iter().map(effect).collect();
        let special = |i: usize| why["words"][i]["special"] == true;
        let expected: Vec<f64> = expected.iter().enumerate().filter(|(i, _)| !special(*i)).map(|(_, x)| *x).collect();
        let shown: Vec<f64> = error["words"].as_array().unwrap().iter().map(|word| effect(&word["effect"])).collect();
        assert_eq!(shown, expected, "{key}");
    }
}

#[test]
fn what_has_no_errors_of_this_kind_is_refused() {
    let place = Place::new();
    trained(&place);
    place.refuses(&["explain", "model", "--errors"], &["--errors test.csv", "folder does not hold"]);
    place.refuses(&["explain", "model", "--errors", "none.csv"], &["none.csv"]);
    place.refuses(&["explain", "model", "a text", "--errors", "test.csv"], &["--errors"]);
    place.refuses(&["explain", "model", "--errors", "test.csv", "--top", "0"], &["--top"]);
    place.refuses(&["explain", "model", "a text", "--top", "3"], &["--errors"]);
    place.refuses(&["explain", "model", "--errors", "test.csv", "--png", "a.png"], &["--png"]);
    place.write("other.csv", "text,label\nThe room was clean,purple\nA rude man,positive\n");
    place.refuses(&["explain", "model", "--errors", "other.csv"], &["purple"]);
    let rows: String = (0..60).map(|i| format!("Room {i} was {},{}\n", ["clean", "fine"][i % 2], i % 10)).collect();
    place.write("numbers.csv", format!("text,score\n{rows}"));
    place
        .run(&["train", "numbers.csv", "--task", "score", "--label", "score", "--out", "numbers", "--epochs", "1"])
        .ok();
    place.refuses(&["explain", "numbers", "--errors", "numbers.csv"], &["--errors", "a predictor of numbers"]);
}

/// A model that reads columns is asked with them, and what is read is never written over.
#[test]
fn columns_are_read_and_files_are_kept() {
    let place = Place::new();
    let row = |i: usize| format!("meal number {i},{},{}\n", [5, 90][i * 7 % 3 % 2], ["cheap", "dear"][i * 7 % 3 % 2]);
    let rows = format!("text,price,label\n{}", (0..120).map(row).collect::<String>());
    place.write("rows.csv", &rows);
    place
        .run(&["train", "rows.csv", "--columns", "price", "--label", "label", "--model", "ngrams", "--out", "model"])
        .ok();
    let accuracy = place.run(&["eval", "model", "rows.csv", "--json"]).ok().json()["accuracy"].as_f64().unwrap();
    let found = place.run(&["explain", "model", "--errors", "rows.csv", "--json", "-"]).ok().json();
    assert!(accuracy > 0.95 && (found["accuracy"].as_f64().unwrap() - accuracy).abs() < 1e-9, "{found}");
    // One price for all: half of the answers are wrong, with words of the text alone.
    let found = place.run(&["explain", "model", "--errors", "rows.csv", "--set", "price=5", "--json", "-"]).ok().json();
    assert!(found["accuracy"].as_f64().unwrap() < 0.8, "{found}");
    let text = found["errors"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("meal number") && !text.contains('\u{1e}'), "{found}");
    for out in ["rows.csv", "model/config.json"] {
        place.refuses(&["explain", "model", "--errors", "rows.csv", "--html", out], &["--html", out, "is read"]);
        place.refuses(&["explain", "model", "--errors", "rows.csv", "--json", out], &["--json", out, "is read"]);
        place.refuses(&["eval", "model", "rows.csv", "--errors", out], &["--errors", out, "is read"]);
    }
    assert_eq!(place.read("rows.csv"), rows);
}
