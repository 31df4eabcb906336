//! The results of training: the model folder, the printed output, and default names.

use crate::common::{TestDir, csv, reviews, sha256};

#[test]
fn the_folder_is_complete_and_eval_agrees_with_it() {
    let place = TestDir::new();
    let rows = reviews(200);
    place.write("train.csv", csv(&rows[..140]));
    place.write("test.csv", csv(&rows[140..]));
    let run = place
        .run(&["train", "train.csv", "--test", "test.csv", "--out", "deep/model", "--epochs", "3", "--json"])
        .assert_success();
    let metrics = run.json();
    assert_eq!(metrics, place.json("deep/model/metrics.json"));
    let names = [
        "README.md",
        "checkpoints",
        "config.json",
        "log.jsonl",
        "metrics.json",
        "model.safetensors",
        "tokenizer.json",
        "trained-on.bin",
    ];
    assert_eq!(place.file_names("deep/model"), names);
    assert_eq!(place.file_names("deep/model/checkpoints").len(), 2);

    for name in ["accuracy", "macro_f1"] {
        let value = metrics[name].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&value), "{name} {value}");
        for part in ["attention", "ngrams", "majority"] {
            assert!(metrics["parts"][part][name].is_f64(), "{part} {name}");
        }
    }
    let eval = place.run(&["eval", "deep/model", "test.csv", "--json"]).assert_success().json();
    assert_eq!(eval["rows"], 60);
    assert_eq!(eval["accuracy"], metrics["accuracy"]);
    assert_eq!(eval["macro_f1"], metrics["macro_f1"]);
    assert_eq!(eval["scores"]["confusion"], metrics["scores"]["confusion"]);
    assert_eq!(eval["parts"]["ngrams"]["accuracy"], metrics["parts"]["ngrams"]["accuracy"]);

    // The scores match the predictions.
    let predicted =
        place.run(&["predict", "deep/model", "--input", "test.csv", "--json"]).assert_success().json_lines();
    let right = predicted.iter().filter(|row| row["label"] == row["input"]["label"]).count();
    assert_eq!(right as f64 / 60.0, metrics["accuracy"].as_f64().unwrap());

    let card = place.read("deep/model/README.md");
    let percent = format!("{:.1} %", 100.0 * metrics["accuracy"].as_f64().unwrap());
    for word in ["negative, positive", percent.as_str(), metrics["data_sha256"].as_str().unwrap(), "baseline", "Limits"]
    {
        assert!(card.contains(word), "“{word}” is missing: {card}");
    }
    let log = place.read("deep/model/log.jsonl");
    let epochs: Vec<u64> = log
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter_map(|line| line["valid_macro_f1"].is_f64().then(|| line["epoch"].as_u64().unwrap()))
        .collect();
    assert_eq!(epochs, [1, 2, 3]);
}

#[test]
fn important_information_is_printed_before_and_after() {
    let place = TestDir::new();
    let run = place.train_small("model", &[]);
    for word in
        ["rows ", "classes ", "lengths ", "parameters", "expected time", "memory", "baseline", "epoch   2", "done in"]
    {
        assert!(run.stderr.contains(word), "“{word}” is missing: {run:#?}");
    }
    for word in
        ["this model", "n-grams, linear", "most frequent class", "precision", "95 % interval", "chumoku predict model"]
    {
        assert!(run.stdout.contains(word), "“{word}” is missing: {run:#?}");
    }
    // Without a terminal, there are no progress bars and no colors.
    assert!(!(run.stdout + &run.stderr).contains(['\u{1b}', '\r']));
    let eval = place.run(&["eval", "model", "reviews.csv"]).assert_success();
    assert!(eval.stdout.contains("100 rows") && eval.stdout.contains("transformer alone"), "{eval:#?}");
}

#[test]
fn default_names_are_numbered_and_force_replaces() {
    let place = TestDir::new();
    place.write("reviews.csv", csv(&reviews(80)));
    let train =
        |more: &[&str]| place.run(&[&["train", "reviews.csv", "--epochs", "1"], more].concat()).assert_success();
    let weights = |out: &str| sha256(&place.path(out).join("model.safetensors"));
    train(&[]);
    let run = train(&["--seed", "2"]);
    assert!(run.stderr.contains("the model is in chumoku-model-2"), "{run:#?}");
    assert_eq!(place.file_names("."), ["chumoku-model", "chumoku-model-2", "reviews.csv"]);
    let first = weights("chumoku-model");
    assert_ne!(first, weights("chumoku-model-2"));
    // Replaced on request, and nothing else is left.
    train(&["--seed", "2", "--out", "chumoku-model", "--force"]);
    assert_eq!(weights("chumoku-model"), weights("chumoku-model-2"));
    assert_eq!(place.file_names("."), ["chumoku-model", "chumoku-model-2", "reviews.csv"]);
    // Resuming a finished run changes nothing.
    train(&["--seed", "2", "--resume"]);
    assert_eq!(weights("chumoku-model-2"), weights("chumoku-model"));
    // Works from any directory.
    let inside = place
        .run_shell("cd chumoku-model-2 && chumoku train ../reviews.csv --epochs 1 --out . --force")
        .assert_success();
    assert!(inside.stderr.contains("the model is in ."), "{inside:#?}");
    assert_eq!(weights("chumoku-model-2"), first);
    assert_eq!(place.file_names("."), ["chumoku-model", "chumoku-model-2", "reviews.csv"]);
}

#[test]
fn the_reviews_are_used_by_name() {
    let place = TestDir::new();
    let run = place.run(&["train", "--builtin", "reviews", "--epochs", "2"]).assert_success();
    assert!(
        run.stderr.contains("built-in reviews") && run.stderr.contains("700 to train on, 100 to validate, 200 to test")
    );
    assert!(run.stdout.contains("On 200 test rows"), "{run:#?}");
    for word in ["chumoku train your-file.csv", "chumoku predict chumoku-model", "chumoku explain chumoku-model"] {
        assert!(run.stdout.contains(word), "“{word}” is missing: {run:#?}");
    }
    place.run_rejected(&["train", "--builtin", "reviews", "--task", "lm"], &["--builtin reviews", "--task classify"]);
    // Flags on reading files have no effect on built-in data.
    place.write("rows.csv", "text,label\na,x\nb,y\n");
    let flags = [
        ("--text", "body"),
        ("--label", "stars"),
        ("--encoding", "cp932"),
        ("--sheet", "one"),
        ("--missing", "none"),
        ("--valid", "rows.csv"),
        ("--test", "rows.csv"),
    ];
    for (flag, value) in flags {
        place.run_rejected(&["train", "--builtin", "reviews", flag, value, "--out", "x"], &[flag, "built-in"]);
    }
    place.run_rejected(&["train", "--task", "translate", "--skip-bad-rows"], &["--skip-bad-rows", "built-in"]);
    place.run_rejected(&["compare", "--sheet", "one"], &["--sheet", "built-in"]);
    place
        .run_rejected(&["train", "--builtin", "dates", "--task", "classify"], &["--builtin dates", "--task translate"]);
    place.write("x.csv", "label,text\n");
    place.run_rejected(&["train", "x.csv", "--builtin", "dates"], &["--builtin"]);
    let info = place.run(&["info"]).assert_success();
    assert!(info.stdout.contains("threads") && info.stdout.contains("instructions"), "{info:#?}");
    let report = place.run(&["info", "--json"]).assert_success().json();
    assert!(report["isa"]["active"].is_string());
    // The target triple, which begins with the processor.
    let target = report["target"].as_str().expect("a target");
    assert!(target.starts_with(std::env::consts::ARCH) && target.split('-').count() >= 3, "{target}");
    assert!(info.stdout.contains(&format!("platform      {target}\n")), "{info:#?}");
    let commit = report["commit"].as_str();
    assert_eq!(commit, option_env!("CHUMOKU_COMMIT"));
    assert!(info.stdout.contains(commit.unwrap_or("this build recorded none")), "{info:#?}");
    let says_arm = info.stdout.contains("no SIMD kernels for ARM");
    assert_eq!(says_arm, cfg!(target_arch = "aarch64"), "{info:#?}");
}

#[test]
fn foreign_names_keep_their_line_and_order() {
    let place = TestDir::new();
    let harmful =
        |c: char| c.is_control() && c != '\n' || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let labels = ["good\u{202e}\u{1b}[31m\n# A heading", "bad ![x](http://x.example/y) <b>"];
    let row = |i: usize| {
        let text = format!("{} dish number {i}", ["tasty", "awful"][i % 2]);
        format!("{}\n", serde_json::json!({ "text": text, "label": labels[i % 2] }))
    };
    place.write("rows.jsonl", (0..120).map(row).collect::<String>());
    // Names on Windows have no control characters.
    let folder = if cfg!(windows) { "mo\u{202e}del it's" } else { "mo\u{202e}del\u{1b} it's" };
    for model in [&["--epochs", "1"][..], &["--model", "ngrams"]] {
        let run = place.run(&[&["train", "rows.jsonl", "--force", "--out", folder], model].concat()).assert_success();
        let eval = place.run(&["eval", folder, "rows.jsonl"]).assert_success();
        let info = place.run(&["info", folder]).assert_success();
        let card = place.read(&format!("{folder}/README.md"));
        for shown in [&run.stdout, &run.stderr, &eval.stdout, &eval.stderr, &info.stdout, &info.stderr, &card] {
            assert!(!shown.contains(harmful), "{shown:?}");
        }
        assert!(card.starts_with("# Text classifier: ") && !card.contains("\n# A heading"), "{card}");
        assert!(!card.contains("![x](") && !card.contains("<b>"), "{card}");
        // The printed command works in a shell that supports these quotes.
        if cfg!(unix) {
            assert!(run.stdout.contains("chumoku predict $'mo\\u202edel\\u001b it\\'s' "), "{}", run.stdout);
        }
    }
}
