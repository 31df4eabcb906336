//! `check` and `trace` as they are called.

mod common;

use common::Place;
use serde_json::Value;

const RIGHT: &str = r#"{"title": "t", "inputs": {"Q": [[1, 0], [0, 2]], "K": [[1, 0], [0, 1], [1, 1]],
    "V": [[1, 2, 3], [4, 5, 6], [7, 8, 9]]},
    "claims": {"scores": [[1, 0, 1], [0, 2, 2]], "scaled": [["0.71", 0, "0.71"], [0, "1.41", "1.41"]]}}"#;

#[test]
fn check_says_what_holds_and_ends_with_the_code_for_it() {
    let place = Place::new();
    place.write("right.json", RIGHT);
    place.write("wrong.json", RIGHT.replace("[0, 2, 2]", "[0, 2, 3]"));
    place.write("broken.json", "{");
    let right = place.run(&["check", "right.json", "--json"]).ok();
    let json: Value = serde_json::from_str(&right.stdout).unwrap();
    assert_eq!(json["file"], "right.json");
    assert_eq!(json["ok"], true);
    assert_eq!(json["steps"][1]["name"], "scaled");
    assert_eq!(json["steps"][1]["verdict"], "holds");
    let both = place.run(&["check", "right.json", "wrong.json", "--json"]);
    assert_eq!(both.code, 1, "{both:?}");
    let lines: Vec<Value> = both.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    let step = &lines[1]["steps"][0];
    assert_eq!(step["verdict"], "wrong");
    assert_eq!(step["worst"]["index"], serde_json::json!([1, 2]));
    assert_eq!(step["worst"]["claimed"], "3");
    assert_eq!(step["worst"]["true"], 2.0);
    let text = place.run(&["check", "wrong.json"]);
    assert_eq!(text.code, 1);
    for said in ["scores", "wrong here", "1 of 6 numbers", "row 2, column 3: claimed 3, true 2"] {
        assert!(text.stdout.contains(said), "{said}: {}", text.stdout);
    }
    // The others are checked all the same.
    let all = place.run(&["check", "broken.json", "nowhere.json", "wrong.json", "--json"]);
    assert_eq!(all.code, 2, "{all:?}");
    assert_eq!(all.stdout.lines().count(), 1);
    for said in ["error: broken.json: not JSON as a worked example is written: ", "error: reading nowhere.json: "] {
        assert!(all.stderr.contains(said), "{said}: {}", all.stderr);
    }
    place.refuses(&["check"], &["<FILE>"]);
}

#[test]
fn count_shows_every_step_and_what_it_costs() {
    let place = Place::new();
    let text = place.run(&["count", "--network", "attention", "--d-model", "512", "--heads", "8"]).ok().stdout;
    for said in ["W_Q", "262,656", "1,050,624", "From length 1024 on", "n²·d", "lstm"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let args = ["count", "--vocab", "10000", "--classes", "2", "--layers", "1", "--json"];
    let json = place.run(&args).ok().json();
    assert_eq!(json["count"]["parameters"], 3_350_274);
    let steps = json["count"]["steps"].as_array().unwrap();
    let sum: u64 = steps.iter().map(|s| s["parameters"].as_u64().unwrap() * s["times"].as_u64().unwrap()).sum();
    assert_eq!(sum, 3_350_274);
    let names: Vec<&str> =
        json["side_by_side"].as_array().unwrap().iter().map(|n| n["network"].as_str().unwrap()).collect();
    assert_eq!(names, ["transformer", "rnn", "lstm", "gru"]);
    place.refuses(&["count", "--heads", "3"], &["multiple of num_heads"]);
    place.refuses(&["count", "--kv-heads", "3"], &["kv-heads: expected a divisor of the 8 heads, got 3"]);
    place.refuses(&["count", "--length", "0"], &["at least 1"]);
}

#[test]
fn figures_are_checked_too() {
    let place = Place::new();
    let file = |claims: &str| {
        format!(r#"{{"count": {{"network": "attention", "d_model": 512, "heads": 8}}, "claims": {claims}}}"#)
    };
    place.write("a.json", file(r#"{"W_Q": 262656, "parameters": "1050624"}"#));
    place.run(&["check", "a.json"]).ok();
    place.write("b.json", file(r#"{"parameters": 1048576}"#));
    let found = place.run(&["check", "b.json", "--json"]);
    assert_eq!(found.code, 1);
    let json: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(json["steps"][0]["worst"]["true"], 1_050_624.0);
    place.write("c.json", file(r#"{"W_q": 1}"#));
    place.refuses(&["check", "c.json"], &["unknown key “W_q” in claims; did you mean “W_Q”?"]);
    place.write("d.json", r#"{"positions": {"d_model": 512}, "claims": {"wavelength_256": "62832"}}"#);
    place.refuses(&["check", "d.json"], &["unknown key “wavelength_256”", "wavelength_0 to wavelength_255"]);
    place.write("e.json", r#"{"positions": {"d_model": 4}, "inputs": {}, "claims": {}}"#);
    place.refuses(&["check", "e.json"], &["found several"]);
    place.write("f.json", file("{}"));
    place.refuses(&["check", "f.json"], &["no claims"]);
    place.refuses(&["trace", "--input", "a.json"], &["about sizes"]);
}

#[test]
fn trace_shows_an_example_in_every_form() {
    let place = Place::new();
    place.write("right.json", RIGHT);
    let text = place.run(&["trace", "--input", "right.json"]).ok().stdout;
    for said in ["4. Scores", "S = Q Kᵀ", "S(2,2) = 0·0 + 2·1 = 2", "n × m = 2 × 3", "each row sums to 1"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let japanese = place.run(&["trace", "--example", "book", "--lang", "ja"]).ok().stdout;
    assert!(japanese.contains("彼が最もよく見ているのは本を"), "{japanese}");
    let shapes = place.run(&["trace", "--example", "heads", "--depth", "shapes"]).ok().stdout;
    assert!(shapes.contains("h·d_k = 3 × 4") && !shapes.contains("2.4000"), "{shapes}");
    for (format, said) in [("md", "# t\n"), ("html", "<!doctype html>"), ("latex", "\\begin{document}"), ("json", "{")]
    {
        let shown = place.run(&["trace", "--input", "right.json", "--format", format]).ok().stdout;
        assert!(shown.starts_with(said) || shown.contains(said), "{format}: {shown}");
        place.run(&["trace", "--input", "right.json", "--format", format, "--out", "shown"]).ok();
        assert_eq!(place.read("shown"), shown);
    }
    place.run(&["trace", "--example", "book", "--format", "xlsx", "--out", "book.xlsx"]).ok();
    assert!(std::fs::read(place.path("book.xlsx")).unwrap().starts_with(b"PK"));
}

#[test]
fn what_cannot_be_traced_is_said() {
    let place = Place::new();
    place.write("right.json", RIGHT);
    place.refuses(&["trace"], &["--example", "--input", "--model"]);
    place.refuses(&["trace", "--example", "bok"], &["no example is called bok", "did you mean “book”", "two-tokens"]);
    place.refuses(&["trace", "--example", "book", "--head", "2"], &["head 2: expected 1 to 1"]);
    place.refuses(&["trace", "--example", "book", "--layer", "2"], &["--model"]);
    place.refuses(&["trace", "--input", "none.json"], &["reading none.json"]);
    place.refuses(&["trace", "--model", "none"], &["--text"]);
    place.refuses(&["trace", "--model", "none", "--text", "x"], &["none"]);
    place.write("misfit.json", r#"{"inputs": {"Q": [[1, 2]], "K": [[1]]}}"#);
    place.refuses(&["trace", "--input", "misfit.json"], &["misfit.json: Q is 1×2 and K 1×1"]);
}

#[cfg(unix)]
#[test]
fn what_is_written_to_stays_what_it_is() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let place = Place::new();
    let args = |out: &'static str| ["trace", "--example", "by-hand", "--depth", "steps", "--out", out];
    place.write("real", "old");
    std::fs::set_permissions(place.path("real"), std::fs::Permissions::from_mode(0o600)).unwrap();
    symlink("real", place.path("link")).unwrap();
    place.run(&args("link")).ok();
    assert!(std::fs::symlink_metadata(place.path("link")).unwrap().is_symlink());
    assert!(place.read("real").contains("S = Q Kᵀ"));
    assert_eq!(std::fs::metadata(place.path("real")).unwrap().permissions().mode() & 0o777, 0o600);
    let shown = place.run(&args("/dev/stdout")).ok();
    assert!(shown.stdout.contains("S = Q Kᵀ"), "{shown:?}");
    place.write("mine.json", RIGHT);
    place.refuses(&["trace", "--input", "mine.json", "--out", "mine.json"], &["the file that was read"]);
    assert_eq!(place.read("mine.json"), RIGHT);
}

/// The largest difference at precision highest from what the model computed.
fn difference(trace: &Value) -> f64 {
    let agreement = &trace["agreements"][0];
    assert_eq!(agreement["precision"], "highest");
    let differences = agreement["largest_differences"].as_object().unwrap();
    assert_eq!(differences.len(), 2);
    differences.values().map(|x| x.as_f64().unwrap()).fold(0.0, f64::max)
}

#[test]
fn a_trace_of_a_model_adds_up() {
    let place = Place::new();
    let mut rows = String::from("text,label\n");
    for i in 0..60 {
        rows.push_str(&format!("good film number {i},pos\nbad film number {i},neg\n"));
    }
    place.write("films.csv", rows);
    place.run(&["train", "films.csv", "--epochs", "1", "--out", "films"]).ok();
    let trace = place.run(&["trace", "--model", "films", "--text", "a good film", "--format", "json"]).ok().json();
    assert!(difference(&trace) < 1e-5, "{}", trace["agreements"]);
    let step = trace["steps"].as_array().unwrap().iter().find(|step| step["name"] == "weights").unwrap();
    let tokens = trace["tokens"].as_array().unwrap().len();
    assert_eq!(step["shape"], serde_json::json!([tokens, tokens]));
    place.refuses(
        &["trace", "--model", "films", "--text", "x", "--layer", "9"],
        &["layer 9: this model has layers 1 to"],
    );
    place.refuses(
        &["trace", "--model", "films", "--text", "x", "--head", "99"],
        &["head 99: this model has heads 1 to"],
    );
    place.refuses(&["trace", "--model", "films", "--text", " "], &["empty"]);
    place.refuses(&["trace", "--model", "films", "--text", "x", "--part", "cross"], &["--part", "classifier"]);

    place.run(&["train", "films.csv", "--epochs", "1", "--out", "gru", "--model", "gru"]).ok();
    place.refuses(&["trace", "--model", "gru", "--text", "x"], &["recurrent network"]);

    let pairs: Vec<String> = (100..400).map(|i| i.to_string()).collect();
    place.write("pairs.a", pairs.join("\n"));
    place.write("pairs.b", pairs.iter().map(|p| p.chars().rev().collect::<String>()).collect::<Vec<_>>().join("\n"));
    place.run(&["train", "pairs.a,pairs.b", "--task", "translate", "--epochs", "1", "--out", "turn"]).ok();
    for part in ["encoder", "decoder", "cross"] {
        let args = ["trace", "--model", "turn", "--text", "123", "--target", "32", "--part", part, "--format", "json"];
        let trace = place.run(&args).ok().json();
        assert!(difference(&trace) < 1e-5, "{part}: {}", trace["agreements"]);
        let names: Vec<&str> = trace["steps"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
        assert_eq!(names.contains(&"rotated_Q"), part != "cross", "{names:?}");
        assert_eq!(names.contains(&"masked"), part == "decoder", "{names:?}");
        let weights = trace["steps"].as_array().unwrap().iter().find(|step| step["name"] == "weights").unwrap();
        let expected = match part {
            "encoder" => [4, 4],
            "decoder" => [3, 3],
            _ => [3, 4],
        };
        assert_eq!(weights["shape"], serde_json::json!(expected), "{part}");
    }

    place.write("plays.txt", "to be or not to be, that is the question\n".repeat(200));
    place.run(&["train", "plays.txt", "--task", "lm", "--epochs", "1", "--out", "lm"]).ok();
    let trace = place.run(&["trace", "--model", "lm", "--text", "to be or", "--format", "json"]).ok().json();
    assert!(difference(&trace) < 1e-5, "{}", trace["agreements"]);
    let long = "to be or not to be ".repeat(40);
    let cut = place.run(&["trace", "--model", "lm", "--text", &long, "--depth", "steps"]).ok().stdout;
    assert!(cut.contains("the last 64 of 7"), "{cut}");
    // Of a long text the beginning stands in the heading, not pages of it.
    assert!(cut.lines().position(|line| line.contains("given")).unwrap() < 10, "{cut}");
    assert!(trace["cut"].is_null());
    // Nothing looks ahead.
    let weights = trace["steps"].as_array().unwrap().iter().find(|step| step["name"] == "weights").unwrap();
    for (i, row) in weights["matrix"].as_array().unwrap().iter().enumerate() {
        assert!(row.as_array().unwrap().iter().skip(i + 1).all(|x| x == 0.0), "{row}");
    }
}
