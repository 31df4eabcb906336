//! Language models on the command line: training, exactness and generation.

use crate::common::{TestDir, sha256};

/// A text with a learnable order and a given number of lines.
fn text(lines: usize) -> String {
    let people = ["the cat", "a dog", "my friend", "the old man"];
    let deeds = ["saw", "likes", "never met", "heard"];
    let mut out = String::new();
    for i in 0..lines {
        let (who, did, whom) = (people[i * 7 % 4], deeds[i * 5 / 4 % 4], people[(i * 3 + i / 9) % 4]);
        out.push_str(&format!("{who} {did} {whom}.\n"));
    }
    out
}

#[test]
fn a_text_is_learned_and_continued() {
    let place = TestDir::new();
    place.write("book.txt", text(300));
    let run = place.run(&["train", "book.txt", "--out", "model", "--epochs", "12"]).assert_success();
    assert!(run.stderr.contains("task      lm"), "{}", run.stderr);
    assert!(run.stderr.contains("characters:"), "{}", run.stderr);
    for part in ["loss", "perplexity per token", "perplexity per word", "perplexity per byte", "chumoku generate"] {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
    let args = ["trace", "--model", "model", "--beam", "2", "--text", "the cat", "--steps", "3", "--format", "json"];
    let tree = place.run(&args).assert_success().json();
    let steps = tree["nodes"].as_array().unwrap().iter().map(|node| node["step"].as_u64().unwrap());
    assert_eq!(steps.max(), Some(3), "{tree}");
    assert!(tree["found"].as_array().unwrap().len() <= 2 && tree["found"][0]["text"].is_string(), "{tree}");
    let scores = place.json("model/metrics.json")["scores"].clone();
    let number = |name: &str| scores[name].as_f64().unwrap();
    assert!(number("loss") < 0.7, "{scores}");
    // The same total, by tokens, words and bytes.
    let whole = number("loss") * number("tokens");
    for (name, count) in [("token", "tokens"), ("word", "words"), ("byte", "bytes")] {
        let found = number(&format!("perplexity_per_{name}")).ln() * number(count);
        assert!((found - whole).abs() < 1e-6 * whole, "{name}: {found} {whole}");
    }
    place.write("new.txt", "the cat saw a dog.\nmy friend likes the old man.\n");
    let again = place.run(&["eval", "model", "new.txt", "--json"]).assert_success().json();
    assert!(again["loss"].as_f64().unwrap() < 0.9 && again["bytes"] == 48, "{again}");
    assert!(place.run(&["eval", "model", "new.txt"]).assert_success().stdout.contains("perplexity per word"));
    let card = place.read("model/README.md");
    for part in ["# Language model", "characters", "| perplexity per byte |", "chumoku generate"] {
        assert!(card.contains(part), "{part}: {card}");
    }
    let run = place.run(&["generate", "model", "the cat", "--max-tokens", "400", "--seed", "3"]).assert_success();
    assert!(run.stdout.starts_with("the cat"), "{}", run.stdout);
    assert!(run.stdout.chars().count() > 300 && run.stdout.contains(".\n"), "{}", run.stdout);
    // Longer than the context. The model drops half of the context at a time.
    let again = place.run(&["generate", "model", "the cat", "--max-tokens", "400", "--seed", "3", "--threads", "1"]);
    assert_eq!(again.assert_success().stdout, run.stdout);
    let other = place.run(&["generate", "model", "the cat", "--max-tokens", "400", "--seed", "4"]).assert_success();
    assert_ne!(other.stdout, run.stdout);
    let greedy = ["generate", "model", "the cat", "--temperature", "0", "--max-tokens", "60"];
    let first = place.run(&greedy).assert_success().stdout;
    assert_eq!(place.run(&[&greedy[..], &["--seed", "9"]].concat()).assert_success().stdout, first);
    let top = place.run(&["generate", "model", "the cat", "--top-k", "1", "--max-tokens", "60"]).assert_success();
    assert_eq!(top.stdout, first);
    let json = place.run(&["generate", "model", "a", "--max-tokens", "30", "--json"]).assert_success();
    let value: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&value["prompt"], &value["stop"]), (&"a".into(), &"max_tokens".into()));
    assert_eq!(value["text"].as_str().unwrap().chars().count(), 30);
}

#[test]
fn a_killed_run_ends_with_the_same_bytes_on_any_number_of_threads() {
    let place = TestDir::new();
    place.write("book.txt", text(200));
    let args = |more: &[&'static str]| [&["train", "book.txt", "--task", "lm", "--epochs", "3"][..], more].concat();
    place.run(&args(&["--out", "whole", "--threads", "1"])).assert_success();
    place.run_despite_kills(&args(&["--out", "killed", "--threads", "2"]));
    let [whole, killed] = ["whole", "killed"].map(|out| sha256(&place.path(out).join("model.safetensors")));
    assert_eq!(whole, killed);
}

#[test]
fn tokens_follow_the_flag() {
    let place = TestDir::new();
    place.write("book.txt", text(300));
    let args = ["train", "book.txt", "--task", "lm", "--epochs", "1", "--tokens", "subwords", "--out", "model"];
    let run = place.run(&args).assert_success();
    assert!(run.stderr.contains("subwords:"), "{}", run.stderr);
    assert_eq!(place.json("model/metrics.json")["plan"]["tokens"], "subwords");
    let written = place.run(&["generate", "model", "the cat", "--max-tokens", "20"]).assert_success();
    assert!(written.stdout.chars().count() > 30, "{}", written.stdout);
}

#[test]
fn invalid_requests_are_rejected() {
    let place = TestDir::new();
    place.train_language_model();
    let refuses = |args: &[&str], words: &[&str]| drop(place.run_rejected(args, words));
    refuses(&["generate", "lm", "x", "--temperature", "-1"], &["temperature", "got -1"]);
    refuses(&["generate", "lm", "x", "--top-p", "1.5"], &["top-p", "got 1.5"]);
    refuses(&["translate", "lm", "x"], &["expected a translator", "chumoku generate"]);
    refuses(&["predict", "lm", "x"], &["expected a text classifier", "chumoku generate"]);
    refuses(&["train", "--task", "lm", "--out", "o"], &["no built-in data", "book.txt"]);
    place.write("empty.txt", "");
    assert_eq!(place.run(&["train", "empty.txt", "--task", "lm", "--out", "o"]).code, 2);
    // A prompt longer than the context.
    let long = "the cat saw a dog. ".repeat(50);
    place.run(&["generate", "lm", &long, "--max-tokens", "5"]).assert_success();
}

#[cfg(unix)]
#[test]
fn a_prompt_must_be_text() {
    use std::os::unix::ffi::OsStrExt;
    let place = TestDir::new();
    place.train_language_model();
    let mut command = place.command(&["generate", "lm"]);
    let output = command.arg(std::ffi::OsStr::from_bytes(b"a\xFFb")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("UTF-8"), "{output:?}");
}
