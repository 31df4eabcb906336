//! `chumoku train` without data: sentences in which only attention decides what "it" means.

use crate::common::TestDir;

/// Trains on the sentences of a language with the default settings and returns the folder and what the run said.
fn train(lang: &str) -> (TestDir, crate::common::Run) {
    let place = TestDir::new();
    let run = place.run(&["train", "--lang", lang, "--out", "it"]).assert_success();
    (place, run)
}

/// N-grams are near chance on pairs of nouns that training never showed, the transformer is right, and one of its heads
/// looks from the deciding word to the noun. The report says all of it.
#[test]
fn only_the_transformer_knows_what_it_means() {
    let (place, run) = train("en");
    assert!(run.stderr.contains("2,560 to train on, 320 to validate, 320 to test"), "{run:#?}");
    assert!(run.stderr.contains("no validation or test row has a pair of nouns that occurs in training"), "{run:#?}");
    let parts = place.json("it/metrics.json")["parts"].clone();
    let accuracy = |part: &str| parts[part]["accuracy"].as_f64().unwrap();
    assert!((0.4..0.6).contains(&accuracy("ngrams")), "{parts}");
    assert!(accuracy("attention") >= 0.99, "{parts}");
    assert!(run.stdout.contains("N-grams are at chance: no run of words decides."), "{run:#?}");
    // Networks of other instruction sets may let the noun look at the deciding word instead.
    let looks = run.stdout.contains("\"tired\" looks at \"cat\" (");
    assert_eq!(looks, run.stdout.contains(" --layer "), "{run:#?}");
    // The commands that the report lists, on the same sentence with both endings.
    let listed = run.stdout.lines().find(|line| line.contains("chumoku predict")).unwrap().trim();
    let answers = place.run_shell(listed).assert_success().stdout;
    let labels: Vec<&str> = answers.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(labels, ["first", "second"], "{answers}");
    // The accuracy in training is printed and logged for every epoch.
    let epochs = || run.stderr.lines().filter(|line| line.starts_with("epoch "));
    assert!(epochs().count() > 10 && epochs().all(|line| line.contains("  accuracy ") && line.contains("  valid ")));
    let log = place.read("it/log.jsonl");
    let evaluations = log.lines().filter(|line| line.contains("valid_loss"));
    assert!(
        evaluations.clone().count() == epochs().count()
            && evaluations.clone().all(|line| line.contains("train_accuracy"))
    );
    // Two lines show how loss and score went.
    let line = |label: &str| run.stderr.lines().rfind(|line| line.starts_with(label)).unwrap_or_default().to_owned();
    assert!(line("loss  ").contains('█') && line("score ").contains("validation macro-F1"), "{run:#?}");
}

/// Japanese leaves the subject out. By default only the n-grams are trained, which takes a second.
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
    let parts = place.json("it/metrics.json")["parts"].clone();
    assert!((0.4..0.6).contains(&accuracy(&parts["ngrams"])) && accuracy(&parts["attention"]) >= 0.99, "{parts}");
    assert!(run.stdout.contains("n-gram は当て推量と同じです"), "{run:#?}");
    for line in run.stdout.lines().filter(|line| line.contains("chumoku predict")) {
        let answers = place.run_shell(line.trim()).assert_success().stdout;
        let labels: Vec<&str> = answers.lines().map(|line| line.split('\t').next().unwrap()).collect();
        assert_eq!(labels, ["先", "後"], "{answers}");
    }
}
