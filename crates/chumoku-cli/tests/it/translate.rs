//! Translators on the command line: trained on pairs, exact, used, and rejected for other tasks.

use crate::common::{TestDir, next_random, sha256};
use std::fs;

/// Lines of numbers as words, and the same in digits.
fn write_parallel_lines(place: &TestDir, lines: usize) {
    const WORDS: [&str; 10] = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
    let digits = |i: usize| [i / 100 % 10, i / 10 % 10, i % 10];
    let numbers = || (0..lines).map(|i| digits(i * 37 + 11));
    let words = numbers().map(|d| d.map(|d| WORDS[d]).join(" ") + "\n").collect::<String>();
    let figures = numbers().map(|d| d.map(|d| d.to_string()).join("") + "\n").collect::<String>();
    place.write("train.words", words);
    place.write("train.digits", figures);
}

const TRAIN: [&str; 2] = ["train", "train.words,train.digits"];

#[test]
fn parallel_files_are_detected_learned_and_translated() {
    let place = TestDir::new();
    write_parallel_lines(&place, 900);
    let run = place.run(&[&TRAIN[..], &["--out", "model", "--epochs", "25"]].concat()).assert_success();
    assert!(run.stderr.contains("translate: two parallel files"), "{}", run.stderr);
    for part in ["BLEU", "tok:13a", "chrF2", "exact", "chumoku translate"] {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
    let metrics = place.json("model/metrics.json");
    let exact = metrics["scores"]["exact"].as_f64().unwrap();
    assert!(exact > 0.9, "{exact} of the unseen numbers are right");

    // The search tree ends with the printed translation.
    let tree = place.run(&["trace", "--model", "model", "--beam", "3", "--text", "four two nine", "--format", "json"]);
    let tree = tree.assert_success().json();
    assert_eq!(tree["found"][0]["text"], "429", "{tree}");
    let nodes = tree["nodes"].as_array().unwrap();
    let number = |node: &serde_json::Value, key: &str| node[key].as_f64().unwrap();
    for node in nodes {
        let before = node["parent"].as_u64().map_or(0.0, |parent| number(&nodes[parent as usize], "log_probability"));
        let sum = before + number(node, "probability").ln();
        assert!((sum - number(node, "log_probability")).abs() < 1e-3, "{node}");
    }
    for step in 1..=nodes.last().unwrap()["step"].as_u64().unwrap() {
        let own = || nodes.iter().filter(|node| node["step"] == step);
        assert!(own().count() <= 6 && own().filter(|node| node["fate"] == "followed").count() <= 3, "{step}: {tree}");
    }
    let args = ["trace", "--model", "model", "--beam", "2", "--text", "four two nine", "--lang", "ja"];
    let shown = place.run(&args).assert_success().stdout;
    assert!(shown.contains("★ [END]") && shown.contains("ビーム幅 2") && shown.contains("1. 429"), "{shown}");
    place.run_rejected(&[&args[..], &["--steps", "3"]].concat(), &["--steps"]);
    place.run_rejected(&[&args[..], &["--format", "latex"]].concat(), &["--format"]);
    if crate::common::has_fonts() {
        place.run(&[&args[..5], &["--text", "one", "--svg", "tree.svg"]].concat()).assert_success();
        assert!(place.read("tree.svg").contains("beam search with 2"));
    }
    // From arguments, a file and a pipe: the same translations in order.
    let run = place.run(&["translate", "model", "four two nine", "one one one"]).assert_success();
    assert_eq!(run.stdout, "429\n111\n");
    place.write("new.txt", "four two nine\none one one\n");
    let run = place.run(&["translate", "model", "--input", "new.txt"]).assert_success();
    let second = |line: &str| line.split('\t').nth(1).unwrap().to_owned();
    assert_eq!(run.stdout.lines().map(second).collect::<Vec<_>>(), ["translation", "429", "111"]);
    let piped = place.run_with_input(b"four two nine\none one one\n", &["translate", "model"]).assert_success();
    assert_eq!(piped.stdout, run.stdout);
    // A row that cannot be translated keeps its position; the JSON schema is that of a text argument.
    let piped = place.run_with_input(b"four two nine\n\none one one\n", &["translate", "model"]).assert_success();
    assert_eq!(piped.stdout.lines().map(second).collect::<Vec<_>>(), ["translation", "429", "", "111"]);
    assert!(piped.stdout.lines().nth(2).unwrap().contains("empty text"), "{piped:#?}");
    let strict = place.run_with_input(b"four two nine\n\none one one\n", &["translate", "model", "--strict"]);
    assert_eq!((strict.code, strict.stdout.lines().count()), (2, 2), "{strict:#?}");
    place.write("new.csv", "id,source\n7,four two nine\n");
    let given = place.run(&["translate", "model", "four two nine", "--json", "--n-best", "2"]).assert_success().json();
    let args = ["translate", "model", "--input", "new.csv", "--text", "source", "--json", "--n-best", "2"];
    let mut row = place.run(&args).assert_success().json();
    let input = row.as_object_mut().unwrap().remove("input");
    assert_eq!(input, Some(serde_json::json!({ "id": "7", "source": "four two nine" })));
    assert_eq!(row, given);
    // Columns with the names of the model's sides are recognized in any order, by both commands.
    let remark = "a remark that is longer and more varied than any number in words";
    place
        .write("sides.csv", format!("digits,remark,words\n429,{remark} 1,four two nine\n111,{remark} 2,one one one\n"));
    let run = place.run(&["translate", "model", "--input", "sides.csv"]).assert_success();
    assert!(run.stderr.contains("text = column “words” (as in training)"), "{}", run.stderr);
    assert!(
        run.stdout.lines().nth(1).unwrap().starts_with("429,") && run.stdout.contains("one one one,111,"),
        "{run:#?}"
    );
    let run = place.run(&["eval", "model", "sides.csv", "--json"]).assert_success();
    assert!(run.stderr.contains("target = column “digits” (as in training)"), "{}", run.stderr);
    assert_eq!(run.json()["exact"], 1.0);

    let json =
        place.run(&["translate", "model", "four two nine", "--json", "--n-best", "3", "--alignment"]).assert_success();
    let value: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&value["text"], &value["translation"]), (&"four two nine".into(), &"429".into()));
    let n_best = value["n_best"].as_array().unwrap();
    assert_eq!((n_best.len(), &n_best[0]["text"]), (3, &"429".into()));
    assert!(n_best.windows(2).all(|pair| pair[0]["score"].as_f64() >= pair[1]["score"].as_f64()));
    let alignment = &value["alignment"];
    let [source, target] = ["source", "target"].map(|side| alignment[side].as_array().unwrap().len());
    for head in alignment["layers"].as_array().unwrap().iter().flat_map(|layer| layer.as_array().unwrap()) {
        let rows = head.as_array().unwrap();
        assert_eq!(rows.len(), target);
        for row in rows {
            let row: Vec<f64> = row.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
            assert_eq!(row.len(), source);
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-4);
        }
    }
    // Digits by word: each digit needs its word, and some head attends to it.
    let shown =
        place.run(&["explain", "model", "four two nine", "--html", "page.html", "--json", "all.json"]).assert_success();
    assert!(shown.stdout.contains("Translation: 429"), "{}", shown.stdout);
    assert!(shown.stdout.lines().all(|line| line.chars().count() <= 80), "{}", shown.stdout);
    let all = place.json("all.json");
    let texts = |side: &str| {
        let words = all[side].as_array().unwrap().iter();
        words.map(|word| word["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(texts("target_words"), ["4", "2", "9", "[END]"]);
    let letters: String = texts("source_words").concat();
    assert_eq!(letters, "fourtwonine[END]");
    let [layers, heads] = ["layers", "heads"].map(|name| all[name].as_u64().unwrap());
    assert_eq!(all["ranking"].as_array().unwrap().len() as u64, layers * heads);
    for row in all["attention"].as_array().unwrap().iter().flat_map(|l| l.as_array().unwrap()[0].as_array().unwrap()) {
        let sum: f64 = row.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-4, "{sum}");
    }
    // Without a letter of "two" the 2 is less probable; without one of "nine" it hardly changes.
    let effects = |row: usize| all["effects"][row].as_array().unwrap().iter().filter_map(|x| x.as_f64());
    let most = |row: usize| effects(row).enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap().0;
    let words = texts("source_words");
    let at = |row: usize| words[..most(row)].concat().len();
    assert!((0..4).contains(&at(0)) && (4..7).contains(&at(1)) && (7..11).contains(&at(2)), "{all}");
    assert!(place.read("page.html").contains("data-name=\"weights\""));
    let given =
        place.run(&["explain", "model", "four two nine", "--target", "428", "--json", "-"]).assert_success().json();
    assert!(given["is_given"] == true && given["target"] == "428");
    assert!(given["log_probabilities"][2].as_f64() < all["log_probabilities"][2].as_f64());
    let japanese = place
        .run(&["explain", "model", "four two nine", "--lang", "ja", "--layer", "1", "--head", "2"])
        .assert_success();
    assert!(japanese.stdout.contains("第 1 層") && japanese.stdout.contains("ヘッド 2"), "{}", japanese.stdout);
    // A long text is truncated with a message. The rest does not move up when a word is removed.
    let long = place.run(&["explain", "model", &"nine ".repeat(300), "--target", "9", "--json", "-"]).assert_success();
    assert!(long.stderr.contains("longer than the"), "{}", long.stderr);
    let long = long.json();
    let words = long["source_words"].as_array().unwrap().len();
    assert!(long["is_cut"] == true && (2..300).contains(&words) && all["is_cut"] == false);
    let short = place.run(&["explain", "model", "9", "--target", "9", "--json", "-"]).assert_success().json();
    assert!(short["effects"][0][0].is_number() && short["effects"][0][1].is_null(), "{short}");
    place.run_rejected(&["explain", "model", "four", "--head", "99"], &["--head 99", "heads 1 to"]);
    place.run_rejected(&["explain", "model", " "], &["empty"]);

    // Scores of a file.
    place.write("test.words", "four two nine\none one one\n");
    place.write("test.digits", "429\n112\n");
    let scores = place.run(&["eval", "model", "test.words,test.digits", "--json"]).assert_success().json();
    assert_eq!((&scores["pairs"], &scores["exact"]), (&2.into(), &0.5.into()));
    assert!(
        place.run(&["eval", "model", "test.words,test.digits"]).assert_success().stdout.contains("exact     50.0 %")
    );
    let card = place.read("model/README.md");
    for part in ["# Translator: words to digits", "| BLEU |", "SHA-256", "chumoku translate"] {
        assert!(card.contains(part), "{part}: {card}");
    }

    // Greedy search gives the same result for confident translations.
    let greedy = place.run(&["translate", "model", "four two nine", "--beam", "1"]).assert_success();
    assert_eq!(greedy.stdout, "429\n");
}

#[test]
fn a_killed_run_ends_with_the_same_bytes_on_any_number_of_threads() {
    let place = TestDir::new();
    write_parallel_lines(&place, 300);
    let args = |more: &[&'static str]| [&TRAIN[..], &["--epochs", "4"], more].concat();
    place.run(&args(&["--out", "whole", "--threads", "1"])).assert_success();
    place.run_despite_kills(&args(&["--out", "killed", "--threads", "2"]));
    let [whole, killed] = ["whole", "killed"].map(|out| sha256(&place.path(out).join("model.safetensors")));
    assert_eq!(whole, killed);
}

#[test]
fn invalid_requests_are_rejected() {
    let place = TestDir::new();
    place.train_translator();
    fs::rename(place.path("turn"), place.path("model")).unwrap();
    place.train_small("classifier", &[]);
    let refuses = |args: &[&str], words: &[&str]| drop(place.run_rejected(args, words));
    refuses(&["translate", "classifier", "x"], &["config.json", "expected a translator", "text classifier", "predict"]);
    refuses(&["predict", "model", "x"], &["config.json", "expected a text classifier", "translator", "translate"]);
    refuses(&["generate", "model", "x"], &["expected a language model", "chumoku translate"]);
    refuses(&["translate", "model", "x", "--n-best", "9"], &["--n-best", "at most 5", "found 9"]);
    refuses(&["translate", "model", "x", "--beam", "100000"], &["beam", "expected 1 to", "got 100000"]);
    refuses(&["translate", "model", " "], &["text 1 of 1 is empty"]);
    refuses(&["translate", "nowhere", "x"], &["nowhere", "no such folder"]);
    assert_eq!(place.run(&["translate", "model", "x", "--beam", "0"]).code, 2);

    place.write("short.words", "one two three\nfour five six\n");
    place.write("short.digits", "123\n456\n789\n");
    refuses(&["train", "short.words,short.digits", "--out", "o"], &["short.digits:3", "partner"]);
    place.write("gap.words", "one\ntwo\nthree\n".repeat(20));
    place.write("gap.digits", format!("1\n\n3\n{}", "1\n2\n3\n".repeat(19)));
    refuses(&["train", "gap.words,gap.digits", "--out", "o"], &["gap.digits:2", "empty"]);

    // A source longer than the model reads is truncated with a message.
    let long = "123 ".repeat(1000);
    let run = place.run(&["translate", "model", &long, "--beam", "1"]).assert_success();
    assert!(run.stderr.contains("cut       source texts truncated: 1"), "{}", run.stderr);
    // A damaged configuration.
    let mut config = place.json("model/config.json");
    config["source_vocab_size"] = 3.into();
    config["target_vocab_size"] = 3.into();
    place.write("model/config.json", config.to_string());
    refuses(&["translate", "model", "x"], &["tokenizer.json", "belongs to another model"]);
}

/// By default training ends because the validation loss no longer falls, not because the plan does. Here the pairs have
/// no rule, so nothing can be learned for the validation pairs.
#[test]
fn training_goes_on_until_the_validation_loss_stops_falling() {
    let place = TestDir::new();
    let mut state = 7;
    let mut word = || (0..6).map(|_| char::from(b'a' + (26.0 * next_random(&mut state)) as u8)).collect::<String>();
    let pairs: String = (0..300).map(|_| format!("{}\t{}\n", word(), word())).collect();
    place.write("pairs.tsv", format!("from\tto\n{pairs}"));
    let run = place.run(&["train", "pairs.tsv", "--task", "translate", "--out", "model"]).assert_success();
    let metrics = place.json("model/metrics.json");
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    let (epochs, best) = (number(&metrics["epochs"]), number(&metrics["best_epoch"]));
    let [planned, patience] = ["epochs", "patience"].map(|key| number(&metrics["plan"][key]));
    assert!(planned > 60 && epochs < planned && epochs == best + patience, "{epochs} {best} {planned} {patience}");
    assert!(!run.stderr.contains("was the best: the model was still improving"), "{run:#?}");
    // Two epochs are too few: the last one is the best, and the run says how to go on.
    let args = ["train", "pairs.tsv", "--task", "translate", "--epochs", "2", "--out", "short"];
    let run = place.run(&args).assert_success();
    assert_eq!(place.json("short/metrics.json")["best_epoch"], 2);
    assert!(run.stderr.contains("the last epoch, 2, was the best") && run.stderr.contains("--epochs 4"), "{run:#?}");
}
