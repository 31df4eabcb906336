//! Pairs of texts: detected, trained, used, explained, and rejected if invalid.

use crate::common::{DocPage, SMALL, TestDir, csv, next_random, reviews, sha256};
use serde_json::json;

/// Pairs whose second text repeats the first, or says something else.
fn rows(n: usize, header: &str) -> String {
    let mut state = 3;
    let mut pick = |count: usize| (next_random(&mut state) * count as f64) as usize;
    let (who, does) = (["man", "woman", "child", "dog"], ["sleeps", "eats", "runs", "sings"]);
    let mut out = format!("{header}\n");
    for i in 0..n {
        let (subject, verb) = (who[pick(4)], pick(4));
        let follows = pick(2) == 0;
        let other = if follows { verb } else { (verb + 1 + pick(3)) % 4 };
        let label = ["no", "yes"][usize::from(follows)];
        out += &format!("\"A {subject} {} on day {i}.\",A {subject} {}.,{label}\n", does[verb], does[other]);
    }
    out
}

fn trained(place: &TestDir, out: &str, more: &[&str]) -> crate::common::Run {
    place.write("train.csv", rows(400, "premise,hypothesis,label"));
    let epochs = if more.contains(&"ngrams") { &[][..] } else { &["--epochs", "6"] };
    place.run(&[&["train", "train.csv", "--out", out], epochs, more].concat()).assert_success()
}

#[test]
fn pairs_are_trained_and_used_like_single_texts() {
    let place = TestDir::new();
    let run = trained(&place, "model", &[]);
    assert!(run.stderr.contains("two texts = column “premise” and column “hypothesis” (their names)"), "{run:#?}");
    assert!(run.stdout.contains("predict model \"first text\" \"second text\""), "{run:#?}");
    assert!(place.read("model/README.md").contains("--target \"second text\""));
    // Neither text alone reveals the class, but n-grams of both do.
    let metrics = place.json("model/metrics.json");
    assert!(metrics["parts"]["ngrams"]["accuracy"].as_f64().unwrap() > 0.9, "{metrics}");
    let config = place.json("model/config.json");
    let ngrams = &config["ngrams"];
    assert_eq!((&config["token_types"], &ngrams["pairs"]), (&json!(2), &json!(true)));
    // Pairs use shorter n-grams than single texts.
    assert_eq!(ngrams["characters"], 3);
    let tokenizer = place.json("model/tokenizer.json");
    let separator = &tokenizer["model"]["vocab"]["[SEP]"];
    assert!(separator.is_u64() && config["separator"] == *separator, "{}", config["separator"]);

    let ask =
        |first: &str, second: &str| place.run(&["predict", "model", "--json", first, second]).assert_success().json();
    let found = ask("A dog runs on day 3.", "A dog runs.");
    assert_eq!((&found["label"], &found["texts"]), (&json!("yes"), &json!(["A dog runs on day 3.", "A dog runs."])));
    assert_eq!(found.get("text"), None);
    assert_eq!(ask("A dog runs on day 3.", "A dog eats.")["label"], "no");
    let two =
        place.run(&["predict", "model", "A dog runs.", "A dog runs.", "A man eats.", "A man runs."]).assert_success();
    assert_eq!(two.stdout.lines().count(), 2);
    assert!(two.stdout.contains("A man eats. | A man runs."), "{two:#?}");

    // From a file, by names or by numbers, with the same predictions.
    place.write("new.csv", "first,second\nA dog runs on day 3.,A dog runs.\n,A dog eats.\n");
    let rows = place
        .run(&["predict", "model", "--input", "new.csv", "--text", "first,second", "--json"])
        .assert_success()
        .json_lines();
    assert_eq!((&rows[0]["probability"], &rows[0]["texts"]), (&found["probability"], &found["texts"]));
    assert!(rows[1]["label"].is_null() && rows[1]["error"].as_str().unwrap().contains("column “first”"), "{}", rows[1]);
    place.write("plain.csv", "A dog runs on day 3.,A dog runs.\nA man eats on day 3.,A man eats.\n");
    let rows = place.run(&["predict", "model", "--input", "plain.csv", "--json"]).assert_success().json_lines();
    assert_eq!((rows.len(), &rows[0]["probability"]), (2, &found["probability"]));
    let eval = place.run(&["eval", "model", "train.csv", "--json"]).assert_success().json();
    assert!(eval["accuracy"].as_f64().unwrap() > 0.9 && eval["rows_trained_on"].as_u64().unwrap() > 300, "{eval}");

    // The order of the two matters to the network.
    let turned = ask("A dog runs.", "A dog runs on day 3.");
    assert_ne!(turned["probability"], found["probability"]);
}

#[test]
fn a_file_with_only_two_text_columns_has_a_header() {
    let place = TestDir::new();
    trained(&place, "pairs", &["--model", "ngrams"]);
    let row = "A man eats at home.,A man eats.\n";
    for names in ["premise,hypothesis", "sentence1,sentence2", "text_a,text_b", "前提,仮説"] {
        place.write("new.csv", format!("{names}\n{row}"));
        let run = place.run(&["predict", "pairs", "--input", "new.csv"]).assert_success();
        assert_eq!(run.stdout.lines().count(), 2, "{run:#?}");
        assert!(run.stdout.starts_with(names) && run.stderr.contains("with a header"), "{run:#?}");
    }
}

#[test]
fn both_texts_are_traced() {
    let place = TestDir::new();
    trained(&place, "model", &[]);
    let trace = |text: &str| place.run(&["trace", "--model", "model", "--text", text, "--format", "json"]);
    let report = trace("A man eats.\tA man sleeps.").assert_success().json();
    assert!(report["tokens"].as_array().unwrap().contains(&json!("[SEP]")), "{}", report["tokens"]);
    place.run_rejected(&["trace", "--model", "model", "--text", "A man eats."], &["--text", "pairs of texts", "tab"]);
}

#[test]
fn both_texts_are_explained() {
    let place = TestDir::new();
    trained(&place, "model", &[]);
    trained(&place, "ngrams", &["--model", "ngrams"]);
    let [first, second] = ["A dog runs on day 3.", "A dog eats."];
    let why = place.run(&["explain", "model", first, "--target", second, "--json", "-"]).assert_success().json();
    let words: Vec<&str> = why["words"].as_array().unwrap().iter().map(|word| word["text"].as_str().unwrap()).collect();
    let at = words.iter().position(|word| *word == "[SEP]").unwrap();
    assert!(words[..at].contains(&"runs") && words[at..].contains(&"eats"), "{words:?}");
    assert!(why["words"][at]["special"] == true && why["attribution"]["scores"][at] == 0.0, "{why}");
    let shown = place.run(&["explain", "model", first, "--target", second]).assert_success();
    assert!(shown.stdout.contains("“A dog runs on day 3. | A dog eats.”"), "{shown:#?}");
    assert!(shown.stdout.lines().all(|line| line.chars().count() <= 80), "{shown:#?}");
    let shown = place.run(&["explain", "ngrams", first, "--target", second]).assert_success();
    assert!(shown.stdout.contains("text 2 alone: eats"), "{shown:#?}");
    let all =
        place.run(&["explain", "ngrams", first, "--target", second, "--json", "-"]).assert_success().json()["ngrams"]
            .to_string();
    assert!(all.contains("overlap: 10 % of text 2, words") && !all.contains("overlap: 100 % of text 2"), "{all}");
    let many = place.run(&["explain", "model", "--input", "train.csv", "--json", "-"]).assert_success().json_lines();
    assert!(many.len() == 400 && many[0]["texts"].is_array(), "{}", many[0]);
    place.write("lines.txt", format!("{first}\t{second}\n"));
    place.run(&["explain", "model", "--input", "lines.txt", "--svg", "pictures"]).assert_success();
    assert!(place.read("pictures/001.svg").contains("<svg"));
    for model in ["model", "ngrams"] {
        let shown =
            place.run(&["explain", model, first, "--target", second, "--view", "effects"]).assert_success().stdout;
        let plain: String = shown.split(['(', ')']).step_by(2).collect();
        let text = plain.lines().skip_while(|line| !line.contains("dog")).take(2).collect::<Vec<_>>().join(" ");
        assert!(text.contains(" | ") && text.contains("runs") && text.contains("eats"), "{shown}");
    }
}

#[test]
fn the_same_bytes_for_any_number_of_threads_and_after_kills() {
    let place = TestDir::new();
    trained(&place, "one", &[&["--threads", "1"], &SMALL[..]].concat());
    let args = ["train", "train.csv", "--out", "killed", "--epochs", "6", "--threads", "2"];
    place.run_despite_kills(&[&args, &SMALL[..]].concat());
    for name in ["model.safetensors", "config.json", "metrics.json"] {
        let of = |folder: &str| sha256(&place.path(folder).join(name));
        assert_eq!(of("one"), of("killed"), "{name}");
    }
}

#[test]
fn labels_numbers_and_pretrained_encoders_support_pairs() {
    let place = TestDir::with_bert();
    let words = ["the food was bad", "the film was good", "good film", "bad food"];
    let row = |i: usize| {
        format!("{}\t{}\t{}", words[i % 4], words[i / 4 % 4], if i % 4 == i / 4 % 4 { "same" } else { "other" })
    };
    let rows: Vec<String> = (0..120).map(row).collect();
    place.write("rows.tsv", format!("sentence1\tsentence2\tlabel\n{}", rows.join("\n")));
    place.run(&["train", "rows.tsv", "--from", "bert", "--epochs", "1", "--out", "model"]).assert_success();
    assert_eq!(place.json("model/config.json")["chumoku"]["pairs"], true);
    let ask = |texts: [&str; 2]| place.run(&["predict", "model", "--json", texts[0], texts[1]]).assert_success().json();
    assert_ne!(ask(["good film", "bad food"])["probability"], ask(["bad food", "good film"])["probability"]);
    let numbers = rows.iter().enumerate().map(|(i, row)| format!("{}\t{}\n", row.rsplit_once('\t').unwrap().0, i % 4));
    place.write("numbers.tsv", format!("text1\ttext2\tscore\n{}", numbers.collect::<String>()));
    place.run(&["train", "numbers.tsv", "--epochs", "1", "--out", "numbers"]).assert_success();
    let found = place.run(&["predict", "numbers", "--json", "good film", "bad food"]).assert_success().json();
    assert!(found["score"].is_number() && found["texts"].is_array(), "{found}");
    let several = rows.iter().map(|row| format!("{}\n", row.replace("\tsame", "\tsame|food")));
    place.write("several.tsv", format!("text1\ttext2\tlabels\n{}", several.collect::<String>()));
    place.run(&["train", "several.tsv", "--separator", "|", "--epochs", "1", "--out", "several"]).assert_success();
    let found = place.run(&["predict", "several", "--json", "good film", "good film"]).assert_success().json();
    assert!(found["labels"].is_array(), "{found}");
}

/// Recurrent networks, encoders pretrained by Chumoku, and a watched text.
#[test]
fn other_kinds_of_training_support_pairs() {
    let place = TestDir::new();
    place.write("train.csv", rows(40, "premise,hypothesis,label"));
    place.write("texts.txt", "A man sleeps. A dog eats. ".repeat(60));
    place.run(&["train", "train.csv", "--model", "gru", "--epochs", "1", "--out", "gru"]).assert_success();
    place.run(&["predict", "gru", "A dog runs.", "A dog eats."]).assert_success();
    place.run(&["train", "texts.txt", "--task", "mlm", "--epochs", "1", "--out", "base"]).assert_success();
    place.run(&["train", "train.csv", "--from", "base", "--epochs", "1", "--out", "model"]).assert_success();
    // The separator is the encoder's only token for the beginning of a text.
    assert_eq!(place.json("model/config.json")["chumoku"]["pairs"], true);
    place.run(&["explain", "model", "A dog runs.", "--target", "A dog eats."]).assert_success();
    let watch = "A dog runs.\tA dog eats.";
    place.run(&["train", "train.csv", "--epochs", "1", "--watch", watch, "--out", "watched"]).assert_success();
    let film = place.read("watched/log.jsonl");
    assert!(film.contains("[SEP]") && !film.contains("\\u001f"), "{film}");
    let args = ["train", "train.csv", "--epochs", "1", "--watch", "alone", "--out", "x"];
    place.run_rejected(&args, &["--watch", "tab"]);
}

/// The separator character has no meaning inside a single text.
#[test]
fn a_separator_in_single_texts_creates_no_pairs() {
    let place = TestDir::new();
    let row = |i: usize| format!("good\u{1f}film {i},pos\nbad film {i},neg\n");
    place.write("odd.csv", format!("text,label\n{}", (0..40).map(row).collect::<String>()));
    let all = place.read("odd.csv").replace("bad film", "bad\u{1f}film");
    place.write("all.csv", all);
    for file in ["odd.csv", "all.csv"] {
        let run =
            place.run(&["train", file, "--model", "ngrams", "--out", file.trim_end_matches(".csv")]).assert_success();
        assert!(run.stdout.contains("\"some text\""), "{run:#?}");
    }
    assert!(place.run(&["predict", "odd", "good\u{1f}film"]).assert_success().stdout.starts_with("pos"));
}

#[test]
fn errors_are_reported() {
    let place = TestDir::new();
    trained(&place, "pairs", &["--model", "ngrams"]);
    place.run_rejected(&["explain", "pairs", "A man.", "--target", " "], &["--target", "second text", "empty"]);
    place.write("reviews.csv", csv(&reviews(60)));
    place.run(&["train", "reviews.csv", "--model", "ngrams", "--out", "single"]).assert_success();
    place.run_rejected(&["predict", "pairs", "alone"], &["reads pairs of texts", "\"second text\""]);
    place.run_rejected(&["explain", "pairs", "alone"], &["reads two texts", "--target"]);
    place.run_rejected(&["explain", "single", "a", "--target", "b"], &["--target", "leave --target out"]);
    place.run_rejected(&["predict", "pairs", "--input", "reviews.csv"], &["one text per row", "--text 1,2"]);
    place.run_rejected(&["eval", "pairs", "reviews.csv"], &["one text per row"]);
    place.run_rejected(&["eval", "single", "train.csv"], &["single texts", "two texts per row"]);
    place.write("valid.csv", "text,label\nA man sleeps.,yes\nA dog eats.,no\n");
    for flag in ["--valid", "--test"] {
        let args = ["train", "train.csv", flag, "valid.csv", "--epochs", "1", "--out", "x"];
        place.run_rejected(&args, &["two texts a row", "found one text a row"]);
    }
    place.write("gap.csv", "premise,hypothesis,label\nA man.,A dog.,yes\nA man.,,no\n");
    place.run_rejected(&["train", "gap.csv", "--out", "x"], &["gap.csv:3", "hypothesis"]);
    place.run_rejected(&["train", "train.csv", "--text", "premise,premise", "--out", "x"], &["premise"]);
    place
        .run_rejected(&["train", "train.csv", "--text", "premise,label", "--label", "label", "--out", "x"], &["label"]);
    place.run_rejected(
        &["train", "train.csv", "--text", "premise,hypotesis", "--out", "x"],
        &["hypotesis", "hypothesis"],
    );
    place.run(&["train", "train.csv", "--epochs", "1", "--out", "network"]).assert_success();
    let compare = ["explain", "network", "a b", "--target", "c", "--compare-text"];
    place.run_rejected(&[&compare[..], &["alone"]].concat(), &["--compare-text", "tab"]);
    place.run(&[&compare[..], &["a b\td"]].concat()).assert_success();
    let exported = place.run(&["export", "network", "--out", "m.onnx", "--json"]).assert_success().json();
    assert!(exported["metadata"]["pairs"].as_str().unwrap().contains("first text, "), "{exported}");
    let mut config = place.json("network/config.json");
    config["separator"] = 1.into();
    place.write("network/config.json", config.to_string());
    place.run_rejected(&["predict", "network", "a", "b"], &["config.json", "separator"]);
}

/// Runs the file and the commands of `docs/pairs.md` as given.
#[test]
fn the_page_is_true() {
    let place = TestDir::new();
    let page = DocPage::read("pairs.md");
    place.write("follows.csv", page.code_block("csv"));
    assert_eq!(page.run_commands(&place).len(), 4);
}
