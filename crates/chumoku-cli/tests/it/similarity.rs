//! `explain` with an encoder: the effect of each word on the similarity of two texts, in every format and both
//! languages.

use crate::common::{TestDir, has_fonts};
use serde_json::Value;

const TEXT: &str = "The foods was good, 映画";
const OTHER: &str = "bad film";

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

/// The vector of a text, of length 1.
fn vector(place: &TestDir, text: &str) -> Vec<f64> {
    numbers(&place.run(&["embed", "bert", text]).assert_success().json()["embedding"])
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn a_words_score_is_its_leave_one_out_effect_on_the_cosine() {
    let place = TestDir::with_bert();
    let whole = vector(&place, TEXT);
    for target in [Some(OTHER), None] {
        let flags: Vec<&str> = target.into_iter().flat_map(|target| ["--target", target]).collect();
        let e = place.run(&[&["explain", "bert", TEXT, "--json", "-"], &flags[..]].concat()).assert_success().json();
        assert_eq!((&e["kind"], &e["label"]), (&"encoder".into(), &target.unwrap_or(TEXT).into()));
        let other = target.map_or(whole.clone(), |target| vector(&place, target));
        let with = cosine(&whole, &other);
        assert!((e["similarity"].as_f64().unwrap() - with).abs() < 1e-6);
        let words: Vec<&str> =
            e["words"].as_array().unwrap().iter().map(|word| word["text"].as_str().unwrap()).collect();
        // Two tokens form one word, and so do the two characters of one.
        assert_eq!(words, ["[CLS]", "The", "foods", "was", "good", ",", "映画", "[SEP]"]);
        let scores = numbers(&e["attribution"]["scores"]);
        assert_eq!((scores[0], scores[7]), (0.0, 0.0));
        for (word, score) in words.iter().zip(&scores).take(7).skip(1) {
            let without = TEXT.replacen(word, "", 1);
            let expected = with - cosine(&vector(&place, &without), &other);
            assert!((score - expected).abs() < 2e-6, "{word}: {score} for {expected}");
        }
        let rows = e["attention"].as_array().unwrap().iter().flat_map(|heads| heads.as_array().unwrap());
        for row in rows.flat_map(|head| head.as_array().unwrap()) {
            let row = numbers(row);
            assert!(row.len() == 8 && (row.iter().sum::<f64>() - 1.0).abs() < 1e-5, "{row:?}");
        }
    }
}

#[test]
fn a_disabled_head_changes_the_cosine_as_reported() {
    let place = TestDir::with_bert();
    let json = place.run(&["explain", "bert", TEXT, "--target", OTHER, "--json", "-"]).assert_success().json();
    let without = json["without"].as_array().unwrap();
    assert_eq!(without.len() as u64, json["layers"].as_u64().unwrap() * json["heads"].as_u64().unwrap());
    let changed = without.iter().filter(|head| head["similarity"] != json["similarity"]).count();
    assert_eq!(changed, without.len(), "{json}");
    let of = |layer: u64, head: u64| without.iter().find(|w| w["layer"] == layer && w["head"] == head).unwrap();
    let [before, now] = [&json["similarity"], &of(1, 0)["similarity"]].map(|x| format!("{:.4}", x.as_f64().unwrap()));
    let run = place.run(&["explain", "bert", TEXT, "--target", OTHER, "--without", "2.1"]).assert_success();
    let expected = format!("Without head 2.1: the cosine similarity goes from {before} to {now}.");
    assert!(run.stdout.contains(&expected), "{}", run.stdout);
    let itself = place.run(&["explain", "bert", TEXT, "--without", "2.1", "--lang", "ja"]).assert_success();
    assert!(itself.stdout.contains("元のベクトルとのコサインは"), "{}", itself.stdout);
}

#[test]
fn every_format_shows_both_texts_in_both_languages() {
    let place = TestDir::with_bert();
    let english = place.run(&["explain", "bert", TEXT, "--target", OTHER, "--html", "x.html"]).assert_success().stdout;
    let expected = ["Cosine similarity: ", TEXT, "↔ “bad film”", "Effect of each word on the similarity", "foods"];
    for expected in expected {
        assert!(english.contains(expected), "“{expected}” is missing: {english}");
    }
    assert!(!english.contains("##") && !english.contains("Prediction"), "{english}");
    let japanese = place.run(&["explain", "bert", TEXT, "--target", OTHER, "--lang", "ja"]).assert_success().stdout;
    assert!(japanese.contains("コサイン類似度: ") && japanese.contains("遠ざける語"), "{japanese}");
    let itself = place.run(&["explain", "bert", TEXT]).assert_success().stdout;
    assert!(itself.starts_with("Vector of the text\n"), "{itself}");
    let page = std::fs::read_to_string(place.path("x.html")).unwrap();
    assert!(page.contains("\"kind\":\"encoder\"") && page.contains(OTHER));
    let compared = place.run(&["explain", "bert", TEXT, "--compare-text", "The film was bad, 映画"]).assert_success();
    assert!(compared.stdout.contains("foods/film"), "{}", compared.stdout);
}

/// In English, since not every machine has a font with Japanese letters.
#[test]
fn pictures_show_both_texts() {
    if !has_fonts() {
        return;
    }
    let (place, text) = (TestDir::with_bert(), "The foods was good");
    place
        .run(&["explain", "bert", text, "--target", OTHER, "--svg", "x.svg", "--view", "grid", "--sort", "effect"])
        .assert_success();
    assert!(std::fs::read_to_string(place.path("x.svg")).unwrap().contains("cosine"));
    place.write("texts.txt", format!("{text}\n{OTHER}\n"));
    place.run(&["explain", "bert", "--input", "texts.txt", "--svg", "pictures"]).assert_success();
    assert!(place.path("pictures/002.svg").exists());
}

#[test]
fn the_beginning_of_a_long_text_is_explained() {
    let place = TestDir::with_bert();
    let long = "good ".repeat(30) + "bad";
    let run = place.run(&["explain", "bert", &long, "--target", OTHER, "--json", "-"]).assert_success();
    assert!(run.stderr.contains("longer than the model's maximum of 20 tokens"), "{}", run.stderr);
    let json = run.json();
    assert_eq!(json["cut"], serde_json::json!({ "read": 18, "tokens": 31, "is_end": false }));
    assert_eq!(json["words"].as_array().unwrap().len(), 20);
    let read = "good ".repeat(18);
    let expected = cosine(&vector(&place, &read), &vector(&place, OTHER));
    assert!((json["similarity"].as_f64().unwrap() - expected).abs() < 1e-6);
    // Without a word, the 17 others are left; the truncated part is still not read.
    let without = cosine(&vector(&place, &"good ".repeat(17)), &vector(&place, OTHER));
    let score = json["attribution"]["scores"][18].as_f64().unwrap();
    assert!((score - (expected - without)).abs() < 2e-6, "{score}");
}

#[test]
fn an_encoder_in_a_subfolder_is_found() {
    let place = TestDir::with_bert();
    std::fs::create_dir(place.path("st")).unwrap();
    std::fs::rename(place.path("bert"), place.path("st/0_Transformer")).unwrap();
    let module =
        r#"[{ "idx": 0, "name": "0", "path": "0_Transformer", "type": "sentence_transformers.models.Transformer" }]"#;
    place.write("st/modules.json", module);
    place.run(&["explain", "st", TEXT, "--target", OTHER]).assert_success();
    place.run(&["count", "--model", "st"]).assert_success();
}

#[test]
fn invalid_comparisons_are_rejected_in_one_line() {
    let place = TestDir::with_bert();
    place.train_small("model", &[]);
    for (flags, said) in [
        (&["explain", "model", TEXT, "--target", OTHER][..], "--target"),
        (&["explain", "bert", TEXT, "--target", " "], "the text to compare with is empty"),
        (&["explain", "bert", " ", "--target", OTHER], "the text to explain is empty"),
        (&["explain", "bert", TEXT, "--layer", "9"], "layers 1 to"),
        (&["explain", "bert", TEXT, "--without", "9.1"], "layers 1 to"),
    ] {
        let run = place.run(flags);
        assert!(run.code == 2 && run.stderr.contains(said), "{flags:?}: {}", run.stderr);
        assert!(run.stderr.trim_end().lines().count() == 1, "{}", run.stderr);
    }
}
