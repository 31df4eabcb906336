//! `chumoku train` without data: sentences in which only attention decides what "it" means, and coin flips.

use crate::common::{Run, TestDir};
use std::path::Path;

/// The default output folder.
const MODEL: &str = "chumoku-model";

/// Trains on the sentences of a language with the default settings and returns the folder and what the run printed.
/// `CHUMOKU_FIRST_COMMAND` names a folder in which `.ci/run` has done this in English.
fn train(lang: &str) -> (TestDir, Run) {
    let place = TestDir::new();
    if let Some(folder) = std::env::var_os("CHUMOKU_FIRST_COMMAND").filter(|_| lang == "en") {
        let folder = Path::new(&folder);
        let [stdout, stderr] = ["stdout", "stderr"].map(|name| {
            let text = std::fs::read_to_string(folder.join(name));
            text.unwrap_or_else(|error| panic!("CHUMOKU_FIRST_COMMAND: {}: {error}", folder.display()))
        });
        place.copy_folder(&folder.join(MODEL), MODEL);
        return (place, Run { code: 0, stdout, stderr, peak_bytes: None });
    }
    let run = place.run(&["train", "--lang", lang, "--out", MODEL]).assert_success();
    (place, run)
}

/// N-grams are near chance on pairs of nouns that training never showed, and the transformer is right. The report says
/// so, and names the head that looks from the deciding word to the noun.
#[test]
fn only_the_transformer_knows_what_it_means() {
    let (place, run) = train("en");
    assert!(run.stderr.contains("2,560 to train on, 320 to validate, 320 to test"), "{run:#?}");
    assert!(run.stderr.contains("no validation or test row has a pair of nouns that occurs in training"), "{run:#?}");
    let parts = place.json("chumoku-model/metrics.json")["parts"].clone();
    let accuracy = |part: &str| parts[part]["accuracy"].as_f64().unwrap();
    assert!((0.4..0.6).contains(&accuracy("ngrams")), "{parts}");
    assert!(accuracy("attention") >= 0.99, "{parts}");
    assert!(run.stdout.contains("N-grams are at chance: no word or phrase decides."), "{run:#?}");
    let looks = run.stdout.contains("“tired” looks at “cat” (");
    assert_eq!(looks, run.stdout.contains(" --layer "), "{run:#?}");
    // Networks of other instruction sets may let the noun look at the deciding word instead.
    match [", avx2", ", avx512"].iter().any(|isa| run.stderr.contains(isa)) {
        true => assert!(looks, "{run:#?}"),
        false => eprintln!("SKIPPED: the head that looks at the noun is known for AVX2 and AVX-512 only"),
    }
    // The commands that the report lists, on the same sentence with both endings.
    let listed = run.stdout.lines().find(|line| line.contains("chumoku predict")).unwrap().trim();
    let answers = place.run_shell(listed).assert_success().stdout;
    let labels: Vec<&str> = answers.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(labels, ["first", "second"], "{answers}");
    // The accuracy in training is printed and logged for every epoch.
    let epochs = || run.stderr.lines().filter(|line| line.starts_with("epoch "));
    assert!(epochs().count() > 10 && epochs().all(|line| line.contains("  accuracy ") && line.contains("  valid ")));
    let log = place.read("chumoku-model/log.jsonl");
    let evaluations = log.lines().filter(|line| line.contains("valid_loss"));
    assert!(
        evaluations.clone().count() == epochs().count()
            && evaluations.clone().all(|line| line.contains("train_accuracy"))
    );
    // Two lines show how loss and score went.
    let line = |label: &str| run.stderr.lines().rfind(|line| line.starts_with(label)).unwrap_or_default().to_owned();
    assert!(line("loss  ").contains('█') && line("score ").contains("validation macro-F1"), "{run:#?}");
}

/// N-grams at chance say nothing about what a transformer or an encoder would add.
#[test]
fn no_gain_is_promised_at_chance() {
    let place = TestDir::new();
    let run = place.run(&["train", "--epochs", "1", "--out", "it"]).assert_success();
    assert!(!run.stderr.contains("offer ") && !run.stdout.contains("--from FOLDER"), "{run:#?}");
    let run = place.run(&["train", "--model", "ngrams", "--out", "ngrams"]).assert_success();
    let advice = run.stdout.lines().last().unwrap();
    assert!(advice.contains("better than guessing") && !advice.contains("--from FOLDER"), "{run:#?}");
}

/// The learning curves of every kind of network are drawn from its log. Without an epoch there is nothing to draw.
#[test]
fn learning_curves_are_drawn_for_every_task() {
    let place = TestDir::new();
    place.write("rows.csv", crate::common::csv(&crate::common::reviews(60)));
    let line = |i: usize| format!("{}\t{}\n", "ab".repeat(1 + i % 5), "ba".repeat(1 + i % 5));
    place.write("pairs.tsv", format!("a\tb\n{}", (0..40).map(line).collect::<String>()));
    place.write("book.txt", "the cat sat on the mat and looked at the rain\n".repeat(60));
    let tasks: [(&[&str], usize); 3] = [
        (&["rows.csv", "--epochs", "4"], 2),
        (&["pairs.tsv", "--task", "translate", "--epochs", "2"], 1),
        (&["book.txt", "--task", "lm", "--epochs", "1"], 1),
    ];
    for (args, panels) in tasks {
        place.run(&[&["train", "--out", "model", "--force"], args].concat()).assert_success();
        let run = place.run(&["film", "model", "--curves", "--html", "curves.html", "--json", "-"]).assert_success();
        let drawn = run.json()["panels"].as_array().map_or(0, Vec::len);
        assert_eq!(drawn, panels, "{args:?}: {}", run.stdout);
        let page = place.read("curves.html");
        assert!(page.contains("model: learning curves") && page.contains("model: 学習曲線"), "{args:?}");
        std::fs::remove_file(place.path("curves.html")).unwrap();
    }
    place.run(&["train", "rows.csv", "--model", "ngrams", "--out", "ngrams"]).assert_success();
    place.run_rejected(&["film", "ngrams", "--curves"], &["ngrams", "log.jsonl"]);
    place.run_rejected(&["film", "model", "--curves", "--head", "1"], &["--curves", "--head"]);
}

/// Japanese leaves the subject out. The test trains the n-grams alone, which takes a second, unless it is exhaustive.
#[test]
fn japanese_sentences_need_attention_too() {
    let place = TestDir::new();
    let accuracy = |scores: &serde_json::Value| scores["accuracy"].as_f64().unwrap();
    place.run(&["train", "--lang", "ja", "--model", "ngrams", "--out", "ngrams"]).assert_success();
    let scores = place.json("ngrams/metrics.json")["scores"].clone();
    assert!((0.4..0.6).contains(&accuracy(&scores)), "{scores}");
    if !testkit::exhaustive("chumoku-cli") {
        return;
    }
    let (place, run) = train("ja");
    let parts = place.json("chumoku-model/metrics.json")["parts"].clone();
    assert!((0.4..0.6).contains(&accuracy(&parts["ngrams"])) && accuracy(&parts["attention"]) >= 0.99, "{parts}");
    assert!(run.stdout.contains("n-gram は当て推量と同じです"), "{run:#?}");
    for line in run.stdout.lines().filter(|line| line.contains("chumoku predict")) {
        let answers = place.run_shell(line.trim()).assert_success().stdout;
        let labels: Vec<&str> = answers.lines().map(|line| line.split('\t').next().unwrap()).collect();
        assert_eq!(labels, ["先", "後"], "{answers}");
    }
}

/// Random labels are memorized: accuracy rises on training rows only.
#[test]
fn coin_flips_are_memorized_and_not_predicted() {
    let place = TestDir::new();
    let settings = ["--model", "transformer", "--settings", "layers=1,width=32,dropout=0", "--epochs", "10"];
    let run = place.run(&[&["train", "--builtin", "coin-flips", "--out", "coin"][..], &settings].concat());
    let run = run.assert_success();
    assert!(run.stderr.contains("from which nothing can be learned"));
    let log = place.read("coin/log.jsonl");
    let last = log.lines().rfind(|line| line.contains("train_accuracy")).unwrap();
    let last: serde_json::Value = serde_json::from_str(last).unwrap();
    let [train, valid] = ["train_accuracy", "valid_accuracy"].map(|name| last[name].as_f64().unwrap());
    assert!(train > 0.6 && train > valid + 0.1, "{last}");
    // Four standard deviations of 200 coin flips.
    assert!((0.36..0.64).contains(&valid), "{last}");
    let test = place.json("coin/metrics.json")["scores"]["accuracy"].as_f64().unwrap();
    assert!((0.36..0.64).contains(&test), "{test}");
    assert!(!run.stdout.contains("--from FOLDER"), "{run:#?}");
}
