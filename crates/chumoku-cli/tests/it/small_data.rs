//! Small data: cross-validation chooses how a classifier is trained and blended, and the report says so.

use crate::common::{TestDir, csv, sha256, tensors};
use chumoku::{EmbedOptions, TextClassifier, TextEmbedder};
use serde_json::{Value, json};

const CLASS_WORDS: [[&str; 3]; 2] = [["good", "great", "fine"], ["bad", "awful", "poor"]];
const FILLER_WORDS: [&str; 6] = ["film", "food", "room", "the", "was", "here"];

/// Rows of two classes, each with a word that reveals the class, among others.
fn rows(from: usize, count: usize) -> String {
    let of_row = |i: usize| {
        let class = i % 2;
        let other = |k: usize| FILLER_WORDS[(i / 2 * (k + 3) + k * k + i / 5) % 6];
        let text = format!("{} {} {} {} {i}", other(1), CLASS_WORDS[class][i / 2 % 3], other(2), other(3));
        (text, ["pos", "neg"][class].to_owned())
    };
    csv(&(from..from + count).map(of_row).collect::<Vec<_>>())
}

/// Writes small files, and a tiny random encoder `sentences` with sentence-embedding settings.
fn place() -> TestDir {
    let place = TestDir::with_bert();
    std::fs::create_dir_all(place.path("sentences/1_Pooling")).unwrap();
    for entry in std::fs::read_dir(place.path("bert")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), place.path("sentences").join(entry.file_name())).unwrap();
    }
    let words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].into_iter();
    let words = words.chain(CLASS_WORDS.into_iter().flatten()).chain(FILLER_WORDS);
    let words = words.collect::<Vec<_>>().join("\n");
    ["bert", "sentences"].into_iter().for_each(|folder| place.write(&format!("{folder}/vocab.txt"), &words));
    let module = |idx: usize, path: &str, kind: &str| json!({ "idx": idx, "name": idx.to_string(), "path": path, "type": format!("sentence_transformers.models.{kind}") });
    let modules = json!([module(0, "", "Transformer"), module(1, "1_Pooling", "Pooling")]);
    place.write("sentences/modules.json", modules.to_string());
    let pooling = json!({ "word_embedding_dimension": 16, "pooling_mode_mean_tokens": true });
    place.write("sentences/1_Pooling/config.json", pooling.to_string());
    place.write("few.csv", rows(0, 60));
    place.write("test.csv", rows(60, 40));
    place
}

const TRAIN: [&str; 4] = ["train", "few.csv", "--test", "test.csv"];

fn metrics(place: &TestDir, out: &str) -> Value {
    place.json(&format!("{out}/metrics.json"))
}

#[test]
fn ngrams_decide_alone_unless_the_network_clearly_helps() {
    let place = place();
    let run = |out: &str, threads: &str| {
        place.run(&[&TRAIN[..], &["--out", out, "--epochs", "2", "--threads", threads]].concat()).assert_success()
    };
    let output = run("one", "1");
    let text = output.stdout.replace('\n', " ");
    assert!(
        text.contains("the n-grams decide almost alone, by") && text.contains("-fold cross-validation over 60 rows"),
        "{text}"
    );
    let found = metrics(&place, "one");
    let choice = &found["choice"];
    assert_eq!((&choice["taken"], &choice["folds"]), (&json!("from_scratch"), &json!(5)), "{choice}");
    // The report says the same, and names no best epoch if none was compared.
    let report = place.run(&["info", "one", "--report"]).assert_success().stdout.replace('\n', " ");
    for part in
        ["Chosen: the n-grams decide almost alone, by 5-fold", "after epoch 2, the last: there were no held-out rows"]
    {
        assert!(report.contains(part), "{part}: {report}");
    }
    assert_eq!((&found["best_epoch"], &choice["epochs"]), (&Value::Null, &Value::Null), "{found}");
    // All rows were judged, and only those of the test file were left out of training.
    let rows = |part: &str| found["rows"][part].as_u64().unwrap();
    assert_eq!(choice["rows"].as_u64(), Some(rows("train") + rows("valid")));
    let [network, ngrams] = ["attention", "ngrams"].map(|half| found["blend"][half].as_f64().unwrap());
    assert!(network < 0.12 * ngrams, "{}", found["blend"]);
    assert_eq!(found["accuracy"], found["parts"]["ngrams"]["accuracy"]);
    assert!(found["accuracy"].as_f64() > Some(0.9), "{}", found["accuracy"]);
    assert!(found["valid"]["log_loss"].as_f64() < Some(0.6), "{}", found["valid"]);
    run("two", "2");
    for file in ["model.safetensors", "config.json"] {
        assert_eq!(sha256(&place.path("one").join(file)), sha256(&place.path("two").join(file)), "{file}");
    }
    let japanese = [&TRAIN[..], &["--out", "three", "--epochs", "1", "--lang", "ja"]].concat();
    let output = place.run(&japanese).assert_success().stdout;
    let report = place.run(&["info", "three", "--report", "--lang", "ja"]).assert_success().stdout;
    assert!(report.contains("選択: ほぼ n-gram だけで判断します") && report.contains("最後のエポック 1 "), "{report}");
    assert!(output.contains("交差検証") && output.contains("ほぼ n-gram だけで判断します"), "{output}");
}

#[test]
fn a_fully_frozen_encoder_gives_a_solved_regression() {
    let place = place();
    let frozen = |out: &str, more: &[&str]| {
        let run = [&TRAIN[..], &["--from", "sentences", "--freeze", "all", "--out", out], more];
        let run = [&run.concat()[..], &["--precision", "highest"]].concat();
        place.run(&run).assert_success()
    };
    let output = frozen("one", &["--threads", "1"]);
    for part in ["-fold cross-validation over 60 rows", "logistic regression on the encoder's vectors"] {
        assert!(output.stdout.replace('\n', " ").contains(part), "{part}: {}", output.stdout);
    }
    // The regression has no steps, so the number of epochs changes nothing; nor do threads.
    frozen("two", &["--threads", "2", "--epochs", "3"]);
    for file in ["model.safetensors", "config.json", "ngrams.safetensors"] {
        assert_eq!(sha256(&place.path("one").join(file)), sha256(&place.path("two").join(file)), "{file}");
    }
    let (found, config) = (metrics(&place, "one"), place.json("one/config.json"));
    assert_eq!((&found["steps"], &found["choice"]["taken"]), (&json!(0), &json!("regression")));
    assert_eq!((&found["choice"]["accuracy"]["steps"], &config["chumoku"]["pooling"]), (&Value::Null, &json!("mean")));
    let (before, after) =
        (tensors(&place.path("bert/model.safetensors")), tensors(&place.path("one/model.safetensors")));
    let is_kept = |name: &str| after.get(&format!("bert.{name}")) == before.get(name);
    assert!(before.keys().filter(|name| !name.contains("pooler")).all(|name| is_kept(name)));
    assert!(after.keys().all(|name| !name.contains("pooler")));

    // At the solution the gradient of the loss, Σ (p − y) x, is opposite to the weights, whose penalty it balances.
    // Calibration then multiplies all scores by one number; the test recovers it from the direction.
    let embedder = TextEmbedder::load(&place.path("sentences"), None).unwrap();
    let file = std::fs::read_to_string(place.path("few.csv")).unwrap();
    let (texts, labels): (Vec<&str>, Vec<usize>) = file
        .lines()
        .skip(1)
        .map(|line| line.rsplit_once(',').unwrap())
        .map(|(text, label)| (text.trim_matches('"'), usize::from(label == "pos")))
        .unzip();
    let mut options = EmbedOptions::default();
    options.normalize = Some(true);
    // The last layer gets vectors with a mean square of 1: 16 numbers, so length 4.
    let vectors = 4.0_f32 * embedder.embed(&texts, options).unwrap().vectors;
    let model = TextClassifier::load(&place.path("one")).unwrap();
    let named = |name: &str| {
        let param = model.params().layout().iter().find(|param| param.name == name).unwrap();
        model.params().values()[param.range].iter().map(|&x| f64::from(x)).collect::<Vec<f64>>()
    };
    let (weight, bias) = (named("head.weight"), named("head.bias"));
    let width = vectors.ncols();
    let cosine_at = |factor: f64| {
        let mut gradient = vec![0.0; width];
        for (x, &label) in vectors.rows().into_iter().zip(&labels) {
            let z: Vec<f64> = (0..2)
                .map(|k| bias[k] + x.iter().zip(&weight[k * width..]).map(|(&x, w)| f64::from(x) * w).sum::<f64>())
                .collect();
            let residual = 1.0 / (1.0 + (factor * (z[0] - z[1])).exp()) - label as f64;
            gradient.iter_mut().zip(x).for_each(|(g, &x)| *g += residual * f64::from(x));
        }
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let ours = &weight[width..];
        dot(&gradient, ours) / (dot(&gradient, &gradient) * dot(ours, ours)).sqrt()
    };
    let best = (-600..600).map(|i| cosine_at((f64::from(i) * 0.01).exp())).fold(1.0, f64::min);
    assert!(best < -0.99, "{best}");

    // The folder predicts as the model was scored, and can be trained further.
    let scored = place.run(&["eval", "one", "test.csv", "--json"]).assert_success().stdout;
    let scored: Value = serde_json::from_str(&scored).unwrap();
    assert_eq!(scored["accuracy"], found["accuracy"], "{scored}");
    place.write("new.csv", rows(200, 40));
    place.run(&["train", "new.csv", "--from", "one", "--epochs", "1", "--out", "further"]).assert_success();
}

#[test]
fn a_sentence_encoder_is_tried_both_ways() {
    let place = place();
    let run = |from: &str, more: &[&str]| {
        let out = format!("of-{from}{}", more.join(""));
        let args = [&TRAIN[..], &["--from", from, "--out", &out, "--epochs", "2"], more].concat();
        let output = place.run(&args).assert_success();
        (output.stdout, metrics(&place, &out))
    };
    let (said, found) = run("sentences", &[]);
    let choice = &found["choice"];
    let [steps, regression] = ["steps", "regression"].map(|way| choice["accuracy"][way].as_f64().unwrap());
    match choice["taken"].as_str().unwrap() {
        "fine_tuning" => assert!(steps > regression, "{choice}"),
        taken => assert_eq!(taken, "regression"),
    }
    for part in ["-fold cross-validation over 60 rows", "logistic regression", "fine-tuning", "n-grams"] {
        assert!(said.replace('\n', " ").contains(part), "{part}: {said}");
    }
    // A small encoder without sentence settings is fine-tuned, and so is one on request.
    for (from, more) in [("bert", &[][..]), ("sentences", &["--freeze", "none"])] {
        let (said, found) = run(from, more);
        assert_eq!(found["choice"]["taken"], "fine_tuning");
        assert_eq!(found["choice"]["accuracy"]["regression"], Value::Null);
        assert!(said.contains("fine-tuning") && !said.contains("regression"), "{said}");
    }
    // Cross-validation chooses the epochs of a network from scratch unless the caller does.
    place.run(&[&TRAIN[..], &["--out", "chosen"]].concat()).assert_success();
    let (found, report) =
        (metrics(&place, "chosen"), place.run(&["info", "chosen", "--report"]).assert_success().stdout);
    let chosen = found["choice"]["epochs"].as_u64().unwrap();
    assert_eq!(found["epochs"], chosen);
    let expected = format!("after epoch {chosen}, the last: cross-validation chose {chosen} epochs.");
    assert!(report.contains(&expected) && !report.contains(", the best."), "{report}");
}

#[test]
fn the_penalty_of_ngrams_alone_is_chosen_on_all_rows() {
    let place = place();
    for (out, threads) in [("one", "1"), ("two", "2")] {
        place.run(&[&TRAIN[..], &["--model", "ngrams", "--out", out, "--threads", threads]].concat()).assert_success();
    }
    assert_eq!(sha256(&place.path("one/model.safetensors")), sha256(&place.path("two/model.safetensors")));
    let found = metrics(&place, "one");
    assert!([1.0, 4.0, 16.0, 64.0, 256.0].contains(&found["c"].as_f64().unwrap()), "{}", found["c"]);
    // The abstention threshold also uses all rows; the validation rows alone could not support the promise.
    let config = place.json("one/config.json");
    let judged = found["rows"]["train"].as_u64().unwrap() + found["rows"]["valid"].as_u64().unwrap();
    assert_eq!(config["caution"]["rows"].as_u64().unwrap_or(judged), judged);
}
