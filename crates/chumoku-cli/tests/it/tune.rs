//! Tuning: its trials and report, the same result again by number, after kills and with `--settings`. The test rows are
//! never used, and invalid requests are rejected.

use crate::common::{DocPage, TestDir, csv, next_random, sha256};
use serde_json::Value;

/// Texts whose class depends on the ending of a made-up word: character n-grams inside words are informative, longer
/// ones more so.
fn rows(n: usize, seed: u64) -> Vec<(String, String)> {
    let mut state = seed;
    let mut pick = |count: usize| (next_random(&mut state) * count as f64) as usize;
    let sounds = ["ka", "ne", "mi", "so", "ru", "ti", "po", "la", "ve", "du"];
    let mut word = |end: &str| {
        let stem: String = (0..3).map(|_| sounds[pick(sounds.len())]).collect();
        stem + end
    };
    (0..n)
        .map(|i| {
            let (label, end) = [("verb", "to"), ("noun", "po")][i % 2];
            // Every fifth row is uninformative.
            let end = if i % 5 == 0 { "x" } else { end };
            (format!("{} {} {} {}", word("la"), word(end), word("ka"), word("")), label.to_owned())
        })
        .collect()
}

fn data(place: &TestDir) {
    place.write("train.csv", csv(&rows(260, 1)));
    place.write("valid.csv", csv(&rows(120, 2)));
    place.write("test.csv", csv(&rows(100, 3)));
}

const DATA: [&str; 6] = ["train", "train.csv", "--valid", "valid.csv", "--test", "test.csv"];

fn train(place: &TestDir, out: &str, more: &[&str]) -> crate::common::Run {
    place.run(&[&DATA[..], &["--out", out], more].concat()).assert_success()
}

/// The files that depend on data, seed and settings.
fn bytes(place: &TestDir, out: &str) -> Vec<String> {
    ["model.safetensors", "config.json"].map(|name| sha256(&place.path(out).join(name))).to_vec()
}

/// After the first trial, eleven trials of n-grams follow; then networks.
const TRIALS: &str = "14";

#[test]
fn settings_are_found_and_can_be_given() {
    let place = TestDir::new();
    data(&place);
    let run = train(&place, "tuned", &["--tune", TRIALS, "--epochs", "2"]);
    let trials: Vec<&str> = run.stderr.lines().filter(|line| line.starts_with("trial ")).collect();
    assert!(trials.len() == 15 && trials[0].contains("log-loss accuracy") && trials[1].contains("  0  "), "{run:#?}");
    assert!(trials[2].ends_with("  inside-words=2-5") && trials[2].contains('±'), "{run:#?}");
    let is_table = |line: &&str| !line.starts_with("Settings used") && !line.starts_with("Advice");
    assert!(run.stdout.contains("Settings tried: 14. The best on the 120 validation rows:"), "{run:#?}");
    assert!(
        trials.iter().copied().chain(run.stdout.lines().filter(is_table)).all(|line| line.chars().count() <= 80),
        "{run:#?}"
    );

    let metrics = place.json("tuned/metrics.json");
    let tuning = &metrics["tuning"];
    let tried = tuning["tried"].as_array().unwrap();
    assert_eq!((tried.len(), &tuning["valid_rows"], &tried[0]["set"]), (14, &120.into(), &"".into()));
    // A kept setting is clearly better than the best before it, and a rejected one is not.
    let mut best = tried[0]["log_loss"].as_f64().unwrap();
    for trial in &tried[1..] {
        let number = |key: &str| trial[key].as_f64().unwrap();
        assert!((best - number("log_loss") - number("gain")).abs() < 3e-6, "{trial}");
        assert_eq!(trial["kept"], number("gain") > number("standard_error").max(1e-4), "of the list: {trial}");
        best = if trial["kept"] == true { number("log_loss") } else { best };
    }
    let kept = tried.iter().rfind(|trial| trial["kept"] == true).unwrap();
    let set = tuning["set"].as_str().unwrap();
    assert!(kept["set"] == set && kept["trial"].as_u64().unwrap() > 0, "a better setting is found: {tuning}");
    assert!(run.stdout.contains(&format!("Settings used: --settings {set}.")), "{run:#?}");
    let gain = &tuning["gain"];
    assert_eq!((&gain["rows"], &gain["tuned"]["accuracy"]), (&100.into(), &metrics["accuracy"]));
    assert!(gain["interval"][0].as_f64() <= gain["accuracy_difference"].as_f64(), "{gain}");
    let card = place.read("tuned/README.md");
    assert!(card.contains("## Tuning") && card.contains(&format!("| **{set}** |")), "{card}");

    // The same settings without a search, and no settings.
    train(&place, "given", &["--settings", set, "--epochs", "2"]);
    assert_eq!(bytes(&place, "tuned"), bytes(&place, "given"));
    train(&place, "plain", &["--epochs", "2"]);
    assert_ne!(bytes(&place, "plain")[0], bytes(&place, "given")[0]);
    assert_eq!(place.json("plain/metrics.json")["accuracy"], gain["defaults"]["accuracy"]);
    assert_eq!(place.read("tuned/tune.jsonl").lines().count(), 15);
    let more: Vec<String> = place.file_names("tuned").into_iter().filter(|name| name != "tune.jsonl").collect();
    assert_eq!(more, place.file_names("given"));
}

/// All tunable n-gram settings, so that n-grams cannot use made-up words; and a small network that reads characters.
const CHARACTER_SETTINGS: &str = "words=1,inside-words=none,relevance=0.5,c=4,min-texts=2,tokens=characters,layers=1,pooling=max,\
                       token-dropout=0,width=32,positions=none,min-count=2,dropout=0.1";

#[test]
fn a_network_is_reproduced_by_its_settings_and_after_kills() {
    let place = TestDir::new();
    data(&place);
    let options = ["--tune", "4", "--epochs", "6", "--settings", CHARACTER_SETTINGS];
    train(&place, "tuned", &options);
    let metrics = place.json("tuned/metrics.json");
    let tuning = &metrics["tuning"];
    let set = tuning["set"].as_str().unwrap();
    assert!(set.contains("learning-rate=0.002") && tuning["tried"][1]["kept"] == true, "{tuning}");
    assert_eq!(metrics["plan"]["learning_rate"], 0.002);
    train(&place, "given", &["--epochs", "6", "--settings", set]);
    assert_eq!(bytes(&place, "tuned"), bytes(&place, "given"));

    let args = [&DATA[..], &["--out", "killed"], &options].concat();
    place.run_despite_kills(&args);
    assert_eq!(bytes(&place, "killed"), bytes(&place, "tuned"));
    assert_eq!(place.json("killed/metrics.json"), metrics);
    assert_eq!(place.file_names("killed"), place.file_names("tuned"));
    // A larger number of trials continues from the known ones.
    let more = [&DATA[..], &["--out", "killed", "--tune", "5", "--resume"], &options[2..]].concat();
    let run = place.run(&more).assert_success();
    assert!(run.stderr.contains("4 trials already finished"), "{run:#?}");
    // Trials of another search are not continued.
    let other = [&more[..], &["--seed", "7"]].concat();
    place.run_rejected(&other, &["tune.jsonl", "other data, settings or seed (seed: 42 then, 7 now)", "--force"]);
    // Fewer trials than are known: the network of a later trial is not used.
    place.run(&[&DATA[..], &["--out", "killed", "--tune", "2", "--resume"], &options[2..]].concat()).assert_success();
    place.run(&more).assert_success();
    let tried = |out: &str| chosen_settings(&place, out)[0].as_array().unwrap().clone();
    assert_eq!((tried("killed").len(), &tried("killed")[..4]), (5, &tried("tuned")[..]));
}

/// The trials and the chosen settings.
fn chosen_settings(place: &TestDir, out: &str) -> [Value; 2] {
    let metrics = place.json(&format!("{out}/metrics.json"));
    ["tried", "set"].map(|key| metrics["tuning"][key].clone())
}

#[test]
fn a_time_budget_is_a_number_of_trials_and_test_rows_decide_nothing() {
    let place = TestDir::new();
    data(&place);
    // Time for more than one trial, even on a slow machine.
    let tried = |time: &str| {
        train(&place, "timed", &["--model", "ngrams", "--force", "--tune", time]);
        chosen_settings(&place, "timed")[0].as_array().unwrap().len()
    };
    let number = ["2s", "20s", "200s"].into_iter().map(tried).find(|&tried| tried > 1).unwrap().to_string();
    train(&place, "counted", &["--model", "ngrams", "--tune", &number]);
    assert_eq!(chosen_settings(&place, "timed"), chosen_settings(&place, "counted"));
    assert_eq!(bytes(&place, "timed"), bytes(&place, "counted"));

    // All test labels are swapped.
    let turned: Vec<(String, String)> = rows(100, 3)
        .into_iter()
        .map(|(text, label)| (text, if label == "verb" { "noun" } else { "verb" }.to_owned()))
        .collect();
    place.write("test.csv", csv(&turned));
    train(&place, "turned", &["--model", "ngrams", "--tune", &number]);
    assert_eq!(chosen_settings(&place, "turned"), chosen_settings(&place, "counted"));
    assert_eq!(bytes(&place, "turned")[0], bytes(&place, "counted")[0]);
    let accuracy = |out: &str| place.json(&format!("{out}/metrics.json"))["accuracy"].as_f64().unwrap();
    assert!((accuracy("turned") + accuracy("counted") - 1.0).abs() < 1e-9);

    let mut japanese =
        place.command(&[&DATA[..], &["--out", "ja", "--model", "ngrams", "--tune", "4", "--lang", "ja"]].concat());
    let run = crate::common::Run::from_output(japanese.output().unwrap()).assert_success();
    for part in ["試行", "対数損失", "改善", "試した設定: 4 通り"] {
        assert!((run.stderr.clone() + &run.stdout).contains(part), "{part}: {run:#?}");
    }
}

#[test]
fn invalid_tuning_requests_are_rejected() {
    let place = TestDir::new();
    data(&place);
    let refuses = |more: &[&str], words: &[&str]| place.run_rejected(&[&["train", "train.csv"], more].concat(), words);
    for bad in ["10x", "0", "0m", "m", "-5m", "1.5h"] {
        refuses(&[&format!("--tune={bad}")], &["30s, 10m or 2h", bad]);
    }
    refuses(&["--tune", "3", "--folds", "3"], &["--tune", "--folds", "--settings"]);
    refuses(&["--tune", "3", "--watch", "a word"], &["--tune", "--watch", "--settings"]);
    refuses(&["--tune", "3", "--task", "labels"], &["--tune", "one class"]);
    place.write("tiny.csv", "text,label\nabc,a\nabd,a\nxyz,b\nxyy,b\n");
    place.run_rejected(&["train", "tiny.csv", "--tune", "3"], &["--tune", "expected validation rows", "--valid"]);
    refuses(&["--settings", "depth=3"], &["depth", "dropout", "inside-words"]);
    refuses(&["--settings", "dropout=3"], &["dropout", "from 0 to 0.9", "3"]);
    refuses(&["--settings", "width=64", "--model", "ngrams"], &["--settings width", "no network"]);
    refuses(&["--settings", "epochs=3", "--epochs", "3"], &["--epochs", "--settings epochs"]);
    refuses(&["--settings", "words=2", "--task", "lm"], &["--settings"]);
}

/// A single validation row has no standard error, and incompatible settings do not end a search.
#[test]
fn searches_continue_despite_unusual_data_and_settings() {
    let place = TestDir::new();
    data(&place);
    let one = rows(1, 5);
    place.write("one.csv", csv(&one));
    let args = ["train", "train.csv", "--valid", "one.csv", "--test", "test.csv", "--epochs", "1", "--out", "one"];
    place.run(&[&args[..], &["--tune", "3"]].concat()).assert_success();
    let run = place.run(&[&args[..], &["--tune", "4", "--resume"]].concat()).assert_success();
    assert!(run.stderr.contains("3 trials already finished"), "{run:#?}");

    let run = place.run(&[&DATA[..], &["--out", "three", "--epochs", "1", "--settings", "heads=3"]].concat());
    assert!(
        run.code == 2 && run.stderr.contains("--settings heads=3") && run.stderr.contains("even multiple"),
        "{run:#?}"
    );
    // Rotary positions need heads of an even width, which half of this width is not.
    let odd = CHARACTER_SETTINGS.replace("width=32,positions=none", "width=18,heads=2");
    let run = train(&place, "odd", &["--epochs", "1", "--settings", &odd, "--tune", "20"]);
    let unfit =
        |trial: &Value| trial["log_loss"].is_null() && trial["changed"].as_str().unwrap().contains("positions=");
    let tried = chosen_settings(&place, "odd")[0].as_array().unwrap().clone();
    let at = tried.iter().position(unfit).unwrap_or_else(|| panic!("{run:#?}"));
    assert!(at + 1 < tried.len() && run.stderr.contains("the settings do not fit each other"), "{run:#?}");
}

#[test]
fn the_page_works_as_described() {
    let place = TestDir::new();
    DocPage::read("tune.md").run_commands(&place);
}
