//! The n-gram model alone: training, prediction, explanation, and requests that need attention.

use crate::common::{HoldPoint, TestDir, csv, next_random, reviews};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

fn trained(place: &TestDir) -> crate::common::Run {
    let rows = reviews(400);
    place.write("train.csv", csv(&rows[..300]));
    place.write("test.csv", csv(&rows[300..]));
    place.run(&["train", "train.csv", "--test", "test.csv", "--model", "ngrams", "--out", "model"]).assert_success()
}

/// The tensors of a folder's n-gram model.
fn ngram_tensors(place: &TestDir, folder: &str) -> Vec<(String, Vec<u8>)> {
    let bytes = std::fs::read(place.path(folder).join("model.safetensors")).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let mut found: Vec<(String, Vec<u8>)> = tensors
        .iter()
        .filter(|(name, _)| name.starts_with("ngrams."))
        .map(|(name, tensor)| (name.to_owned(), tensor.data().to_vec()))
        .collect();
    found.sort();
    assert!(found.len() >= 4, "{folder}");
    found
}

#[test]
fn an_ngram_model_works_like_any_other() {
    let place = TestDir::new();
    let run = trained(&place);
    assert!(run.stdout.contains("On 100 test rows"), "{run:#?}");
    assert!(run.stdout.lines().last().unwrap().starts_with("Advice: "), "{run:#?}");
    assert!(!run.stdout.contains("transformer alone") && !run.stdout.contains("--html"), "{run:#?}");
    let names = ["README.md", "config.json", "metrics.json", "model.safetensors", "trained-on.bin"];
    assert_eq!(place.file_names("model"), names);
    let metrics = place.json("model/metrics.json");
    assert_eq!(place.json("model/config.json")["model_type"], "chumoku_ngram_classifier");

    let eval = place.run(&["eval", "model", "test.csv", "--json"]).assert_success().json();
    assert_eq!((&eval["rows"], &eval["rows_trained_on"]), (&100.into(), &0.into()));
    for name in ["accuracy", "macro_f1", "scores"] {
        assert_eq!(eval[name], metrics[name], "{name}");
    }
    let predicted = place.run(&["predict", "model", "--input", "test.csv", "--json"]).assert_success().json_lines();
    let right = predicted.iter().filter(|row| row["label"] == row["input"]["label"]).count();
    assert_eq!(right as f64 / 100.0, metrics["accuracy"].as_f64().unwrap());
    let one =
        place.run(&["predict", "model", "--json", predicted[0]["text"].as_str().unwrap()]).assert_success().json();
    assert_eq!((&one["label"], &one["probability"]), (&predicted[0]["label"], &predicted[0]["probability"]));
    let card = place.read("model/README.md");
    assert!(card.contains("n-grams") && !card.contains("ransformer") && !card.contains("ttention"), "{card}");

    // The bytes depend only on the data.
    place
        .run(&["train", "train.csv", "--test", "test.csv", "--model", "ngrams", "--out", "b", "--threads", "1"])
        .assert_success();
    assert_eq!(
        crate::common::sha256(&place.path("model/model.safetensors")),
        crate::common::sha256(&place.path("b/model.safetensors"))
    );
    // Together with a transformer it is the same model, refitted with the validation rows. For small data the solver
    // starts elsewhere.
    let all = reviews(1000);
    place.write("many.csv", csv(&all[..800]));
    place.write("held.csv", csv(&all[800..]));
    let many = |out: &str, more: &[&str]| {
        let args = ["train", "many.csv", "--valid", "held.csv", "--test", "test.csv", "--out", out];
        place.run(&[&args[..], more].concat()).assert_success();
        ngram_tensors(&place, out)
    };
    assert_eq!(many("alone", &["--model", "ngrams"]), many("beside", &["--epochs", "1"]));
}

#[test]
fn words_and_ngrams_are_explained() {
    let place = TestDir::new();
    trained(&place);
    let text = "The room was not clean at all, 汚い。";
    let run = place.run(&["explain", "model", text]).assert_success();
    for part in ["Prediction: ", "clean", "汚", "only n-grams", "N-grams, strongest first"] {
        assert!(run.stdout.contains(part), "{part}: {run:#?}");
    }
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 80), "{run:#?}");
    let value = place.run(&["explain", "model", text, "--json", "-"]).assert_success().json();
    assert_eq!((&value["layers"], &value["kind"]), (&0.into(), &"ngrams".into()));
    let words: Vec<&str> =
        value["words"].as_array().unwrap().iter().map(|word| word["text"].as_str().unwrap()).collect();
    assert_eq!(words, ["The", "room", "was", "not", "clean", "at", "all", ",", "汚", "い", "。"]);
    let effects = value["ngrams"].as_array().unwrap();
    let effect = |ngram: &str| effects.iter().find(|e| e["ngram"] == ngram).map(|e| e["effect"].as_f64().unwrap());
    assert!(effect("not").is_some() && effect("[START] the").is_some(), "{value}");
    // For two classes the effects sum to the log-odds except for the bias, which is small for balanced classes.
    let sum: f64 = effects.iter().map(|e| e["effect"].as_f64().unwrap()).sum();
    let p = value["probabilities"][0]["probability"].as_f64().unwrap();
    assert!((sum - (p / (1.0 - p)).ln()).abs() < 0.5, "{sum} {p}");
    let japanese = place.run(&["explain", "model", text, "--lang", "ja"]).assert_success();
    assert!(japanese.stdout.contains("効果の大きい順"), "{japanese:#?}");
    // Colored text, and a page without attention.
    let shown =
        place.run(&["explain", "model", text, "--view", "effects", "--html", "why.html"]).assert_success().stdout;
    assert!(shown.contains("Effect of each word on") && !shown.contains("N-grams"), "{shown}");
    assert!(place.read("why.html").contains("Content-Security-Policy"));
    let drawn = place.run(&["explain", "model", text, "--svg", "why.svg"]);
    if !drawn.is_missing_font() {
        drawn.assert_success();
        assert!(place.read("why.svg").contains("Effect of each word"), "its description");
        place.write("texts.txt", "a clean room\n");
        place.run(&["explain", "model", "--input", "texts.txt", "--svg", "many"]).assert_success();
        assert!(place.read("many/001.svg").contains("Effect of each word"));
    }
}

#[test]
fn requests_that_need_attention_or_a_network_are_rejected() {
    let place = TestDir::new();
    trained(&place);
    place.train_small("network", &[]);
    for flags in [&["--layer", "1"][..], &["--view", "lines"], &["--without", "1.1"]] {
        place.run_rejected(
            &[&["explain", "model", "a text"][..], flags].concat(),
            &[flags[0], "n-gram model", "no attention"],
        );
    }
    place.write("texts.txt", "a text\n");
    let args = ["explain", "model", "--input", "texts.txt", "--png", "out", "--view", "lines"];
    place.run_rejected(&args, &["--view", "n-gram model", "no attention"]);
    place.run_rejected(&["explain", "model", "a text", "--view", "curves"], &["--view curves", "--view effects"]);
    place.run_rejected(&["explain", "network", "a text", "--compare-model", "model"], &["model", "no attention"]);
    place.run_rejected(&["trace", "--model", "model", "--text", "a text"], &["n-gram model", "no attention"]);
    place.run_rejected(&["film", "model"], &["n-gram model", "no attention"]);
    place.run_rejected(&["position", "--model", "model"], &["n-gram model"]);
    let train = ["train", "train.csv", "--model", "ngrams", "--out", "other"];
    place.run_rejected(&[&train[..], &["--epochs", "3"]].concat(), &["--epochs", "n-gram model"]);
    place.run_rejected(&[&train[..], &["--parts", "3"]].concat(), &["--parts", "n-gram model"]);
    place.run_rejected(&[&train[..], &["--watch", "a text"]].concat(), &["n-gram model"]);
    place.write("book.txt", "one line of text\n".repeat(200));
    place.run_rejected(&["train", "book.txt", "--task", "lm", "--model", "ngrams"], &["--model ngrams", "classes"]);
    place.run_rejected(&["train", "book.txt", "--task", "lm", "--model", "gru"], &["--model gru", "classes"]);
}

#[test]
fn damaged_folders_are_reported() {
    let place = TestDir::new();
    trained(&place);
    let config = place.read("model/config.json");
    for (from, to, words) in [
        ("\"scale\": ", "\"scale\": -", &["config.json", "scale"][..]),
        ("\"positive\"", "\"negative\"", &["config.json", "twice"]),
        ("\"words\": 3", "\"words\": 300", &["lengths from 1 to 8"]),
    ] {
        place.write("model/config.json", config.replacen(from, to, 1));
        place.run_rejected(&["predict", "model", "a text"], words);
    }
    place.write("model/config.json", &config);
    place.write("model/trained-on.bin", [1u8; 9]);
    place.run_rejected(&["eval", "model", "test.csv"], &["trained-on.bin", "may be deleted"]);
    std::fs::remove_file(place.path("model/trained-on.bin")).unwrap();
    assert!(place.run(&["eval", "model", "test.csv", "--json"]).assert_success().json()["rows_trained_on"].is_null());
}

#[test]
fn overlap_with_the_training_rows_is_reported() {
    let place = TestDir::new();
    place.train_small("network", &[]);
    trained(&place);
    for (model, known) in [("network", 90), ("model", 100)] {
        // The network held out a tenth of the rows of its file.
        let run = place.run(&["eval", model, "reviews.csv"]).assert_success();
        let expected = format!("{known} of 100 rows have a text that the model was trained or selected on");
        assert!(run.stderr.contains(&expected), "{run:#?}");
        assert_eq!(
            place.run(&["eval", model, "reviews.csv", "--json"]).assert_success().json()["rows_trained_on"],
            known
        );
    }
    let new = place.run(&["eval", "model", "test.csv"]).assert_success();
    assert!(!new.stderr.contains("trained on"), "{new:#?}");
}

#[test]
fn a_class_that_is_never_predicted_is_reported_first() {
    let place = TestDir::new();
    let mut state = 3;
    let words = ["red", "blue", "green", "round", "large", "small"];
    let mut rows: Vec<(String, String)> = (0..600)
        .map(|i| {
            let text: Vec<&str> = (0..4).map(|_| words[(next_random(&mut state) * 5.99) as usize]).collect();
            (text.join(" "), if i % 60 == 0 { "rare" } else { "common" }.to_owned())
        })
        .collect();
    rows.sort();
    place.write("x.csv", csv(&rows));
    for model in ["ngrams", "transformer"] {
        let more: &[&str] = if model == "ngrams" { &[] } else { &["--epochs", "1"] };
        let train = [&["train", "x.csv", "--out", model, "--model", model][..], more].concat();
        let run = place.run(&train).assert_success();
        assert!(run.stdout.starts_with("Never predicted: “rare” (1 of "), "{run:#?}");
        let advice = run.stdout.lines().last().unwrap();
        assert!(advice.contains("always answering “common”") && !advice.contains("--model"), "{run:#?}");
        if model == "transformer" {
            assert!(place.json("transformer/metrics.json")["advice"]["use"].is_null());
        }
        assert_eq!(
            place.json(&format!("{model}/metrics.json"))["scores"]["never_predicted"],
            serde_json::json!(["rare"])
        );
        assert!(place.read(&format!("{model}/README.md")).lines().nth(2).unwrap().contains("Never predicted: “rare”"));
        let eval = place.run(&["eval", model, "x.csv"]).assert_success();
        assert!(eval.stdout.starts_with("Never predicted: “rare” (10 of 600 rows)."), "{eval:#?}");
        let scores = place.run(&["eval", model, "x.csv", "--json"]).assert_success().json()["scores"].clone();
        assert_eq!(scores["never_predicted"], serde_json::json!(["rare"]));
        let interval = scores["macro_f1_interval"].as_array().unwrap();
        assert!(interval[1].as_f64().unwrap() < 0.9, "{scores}");
    }
}

#[test]
#[cfg_attr(windows, ignore = "sends a signal of Unix")]
fn ngram_training_can_be_interrupted() {
    let place = TestDir::new();
    let mut state = 1;
    let mut word = || format!("w{}", (next_random(&mut state).powi(2) * 20_000.0) as u32);
    let rows: Vec<(String, String)> = (0..400)
        .map(|i| ((0..30).map(|_| word()).collect::<Vec<_>>().join(" "), format!("class {}", i % 20)))
        .collect();
    place.write("x.csv", csv(&rows));
    for model in ["ngrams", "transformer"] {
        let args = ["train", "x.csv", "--out", model, "--model", model];
        // N-grams are counted at this point, but their weights are not fitted.
        let hold = HoldPoint::at("ngrams");
        let mut command = place.command(&args);
        command.envs([hold.environment()]).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        assert!(hold.wait_until_reached_by(&mut child));
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let heard = lines.find(|line| line.starts_with("stopping")).unwrap();
        hold.release();
        let rest: Vec<String> = [heard].into_iter().chain(lines).collect();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
        assert!(
            rest.iter().any(|line| {
                line.starts_with("interrupted: nothing was trained yet; start again with  chumoku train x.csv")
            }),
            "{rest:?}"
        );
        assert!(rest.iter().any(|line| line.starts_with("stopping: nothing was trained yet")), "{rest:?}");
        assert!(!rest.iter().any(|line| line.contains("saved and evaluated")), "{rest:?}");
        assert!(!rest.iter().any(|line| line.contains("error:")), "{rest:?}");
        let left = place.file_names(model);
        assert!(left.is_empty(), "{left:?}");
    }
    // The same command starts again, as does --resume; with fewer classes here to finish quickly.
    place.write("x.csv", csv(&reviews(100)));
    place.run(&["train", "x.csv", "--out", "transformer", "--model", "ngrams"]).assert_success();
    place.run(&["train", "x.csv", "--out", "ngrams", "--model", "ngrams", "--resume"]).assert_success();
    assert!(place.path("ngrams/model.safetensors").exists());
}
