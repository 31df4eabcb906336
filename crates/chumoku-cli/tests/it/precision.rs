//! `--precision` from training to prediction: each level is stored with the model, reproducible, and close to the
//! others.

use crate::common::{TestDir, csv, reviews, sha256};
use serde_json::Value;

const LEVELS: [&str; 3] = ["highest", "high", "medium"];

fn place() -> TestDir {
    let place = TestDir::new();
    place.write("reviews.csv", csv(&reviews(150)));
    place
}

fn train(place: &TestDir, out: &str, isa: Option<&str>, more: &[&str]) {
    let args = [&["train", "reviews.csv", "--epochs", "2", "--out", out], more].concat();
    let run = match isa {
        Some(isa) => crate::common::Run::from_output(place.command(&args).env("CHUMOKU_ISA", isa).output().unwrap()),
        None => place.run(&args),
    };
    run.assert_success();
}

fn weights(place: &TestDir, out: &str) -> String {
    sha256(&place.path(out).join("model.safetensors"))
}

/// The loss on validation rows after each epoch.
fn losses(place: &TestDir, out: &str) -> Vec<f64> {
    let lines = place.read(&format!("{out}/log.jsonl"));
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter_map(|line| line["valid_loss"].as_f64()).collect()
}

/// The probability of one of the two labels for a few texts.
fn predictions(place: &TestDir, out: &str) -> Vec<f64> {
    let texts = ["a good film", "a bad film", "so dull that I left", "the best of all"];
    let rows = place.run(&[&["predict", out, "--json"], &texts[..]].concat()).assert_success().json_lines();
    assert_eq!(rows.len(), texts.len());
    let probability = |row: &Value| {
        let p = row["probability"].as_f64().unwrap();
        if row["label"] == "positive" { p } else { 1.0 - p }
    };
    rows.iter().map(probability).collect()
}

#[test]
fn a_level_is_stored_with_the_model_and_close_to_the_others() {
    let place = place();
    for level in LEVELS {
        train(&place, level, None, &["--precision", level]);
        assert_eq!(place.json(&format!("{level}/config.json"))["precision"], level);
        assert_eq!(place.json(&format!("{level}/metrics.json"))["plan"]["precision"], level);
    }
    let exact = losses(&place, "highest");
    assert_eq!(exact.len(), 2);
    for (level, most) in [("high", 1e-3), ("medium", 2e-2)] {
        let off = exact.iter().zip(losses(&place, level)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(off < most, "{level}: losses are {off} from those of highest");
        for (a, b) in predictions(&place, "highest").iter().zip(predictions(&place, level)) {
            assert!((a - b).abs() < 10.0 * most, "{level}: {b} where highest says {a}");
        }
    }
}

#[test]
fn each_level_gives_the_same_bytes_with_any_number_of_threads() {
    let place = place();
    for level in LEVELS {
        let outs = ["1", "3"].map(|threads| {
            let out = format!("{level}{threads}");
            train(&place, &out, None, &["--precision", level, "--threads", threads]);
            weights(&place, &out)
        });
        assert!(outs.iter().all(|hash| *hash == outs[0]), "{level}: {outs:?}");
    }
}

#[test]
fn without_tile_instructions_all_levels_are_plain_f32() {
    let place = place();
    let made = LEVELS.map(|level| {
        train(&place, level, Some("avx512"), &["--precision", level]);
        weights(&place, level)
    });
    assert!(made.iter().all(|hash| *hash == made[0]), "{made:?}");
}

#[test]
fn training_uses_medium_by_default() {
    let place = place();
    train(&place, "model", None, &[]);
    train(&place, "medium", None, &["--precision", "medium"]);
    assert_eq!(place.json("model/config.json")["precision"], "medium");
    assert_eq!(weights(&place, "model"), weights(&place, "medium"));
    // The library has the same default.
    assert_eq!(chumoku::train::TrainOptions::default().precision, chumoku::Precision::Medium);
}

/// Every command that runs a model accepts a level, and predicts like a model of that level.
#[test]
fn a_level_can_be_requested() {
    let place = place();
    train(&place, "model", None, &["--precision", "medium"]);
    place.copy_folder(&place.path("model"), "exact");
    let config = place.read("exact/config.json").replace("\"precision\": \"medium\"", "\"precision\": \"highest\"");
    place.write("exact/config.json", config);
    for command in [
        &["predict", "a good film", "--json"][..],
        &["eval", "reviews.csv", "--json"],
        &["explain", "a good film", "--json", "-"],
    ] {
        let run = |model: &str, more: &[&str]| {
            let all = [&[command[0], model], &command[1..], more].concat();
            place.run(&all).assert_success().stdout.replace("\"model\":\"exact\"", "\"model\":\"model\"")
        };
        assert_eq!(run("model", &["--precision", "highest"]), run("exact", &[]), "{command:?}");
        assert_eq!(run("exact", &["--precision", "medium"]), run("model", &[]), "{command:?}");
        place
            .run_rejected(&[&[command[0], "model"], &command[1..], &["--precision", "low"]].concat(), &["--precision"]);
    }
    let trace = |model: &str, more: &[&str]| {
        let args = ["trace", "--model", model, "--text", "good", "--format", "json"];
        let trace = place.run(&[&args[..], more].concat()).assert_success().json();
        let agreements = trace["agreements"].as_array().unwrap();
        agreements.iter().map(|one| one["precision"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(trace("model", &[]), ["highest", "medium"]);
    assert_eq!(trace("model", &["--precision", "high"]), ["highest", "high"]);
    assert_eq!(trace("model", &["--precision", "highest"]), ["highest"]);
    place.run(&["train", "reviews.csv", "--model", "ngrams", "--out", "ngrams"]).assert_success();
    place.run_rejected(&["predict", "ngrams", "good", "--precision", "high"], &["--precision", "leave it out"]);

    place.train_translator();
    for command in [&["translate", "turn", "2"][..], &["explain", "turn", "2"], &["eval", "turn", "pairs.a,pairs.b"]] {
        place.run(&[command, &["--precision", "high"]].concat()).assert_success();
    }
    let bert = TestDir::with_bert();
    bert.run(&["explain", "bert", "good", "--precision", "medium"]).assert_success();
}
