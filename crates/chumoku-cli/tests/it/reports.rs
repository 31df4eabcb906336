//! Reports: their length, additional figures, cross-validation, and class words.

use crate::common::TestDir;
use unicode_width::UnicodeWidthStr;

fn rows(n: usize) -> String {
    let words = [["soup", "bread", "dinner"], ["train", "ticket", "station"]];
    let mut state = 5;
    let mut pick = |count: usize| (crate::common::next_random(&mut state) * count as f64) as usize;
    let mut out = String::from("label\ttext\n");
    for i in 0..n {
        let class = pick(2);
        let other = if i % 3 == 0 { 1 - class } else { class };
        let (mut a, mut b) = (words[class][pick(3)], words[other][pick(3)]);
        if pick(2) == 0 {
            std::mem::swap(&mut a, &mut b);
        }
        out += &format!("{}\tthe {a} and the {b} in room {i}\n", ["food", "travel"][class]);
    }
    out
}

#[test]
fn each_fold_is_judged_by_a_model_of_the_others() {
    let place = TestDir::new();
    place.write("rows.tsv", rows(400));
    let train = |more: &[&str]| place.run(&[&["train", "rows.tsv"][..], more].concat()).assert_success();
    let run = train(&["--model", "ngrams", "--folds", "4", "--out", "model"]);
    assert!(run.stdout.contains("4-fold cross-validation of the 360 training and validation rows"), "{run:#?}");
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 80 || line.starts_with("Advice")), "{run:#?}");
    let folds = place.json("model/metrics.json")["folds"].clone();
    let accuracy = &folds["figures"]["accuracy"];
    let each: Vec<f64> = accuracy["each"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
    // Shares of 90 rows; a third of the texts lowers them below 1.
    assert_eq!(each.len(), 4);
    assert!(each.iter().all(|x| ((90.0 * x).round() - 90.0 * x).abs() < 1e-9 && (0.5..0.99).contains(x)), "{each:?}");
    let mean = each.iter().sum::<f64>() / 4.0;
    let deviation = (each.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 3.0).sqrt();
    assert!((accuracy["mean"].as_f64().unwrap() - mean).abs() < 1e-12);
    assert!((accuracy["standard_deviation"].as_f64().unwrap() - deviation).abs() < 1e-12);

    // The model is the same, and so are the folds with any number of threads.
    train(&["--model", "ngrams", "--out", "plain", "--threads", "1"]);
    let bytes = |name: &str| std::fs::read(place.path(name)).unwrap();
    assert!(bytes("model/model.safetensors") == bytes("plain/model.safetensors"));
    train(&["--model", "ngrams", "--folds", "4", "--out", "again", "--threads", "1"]);
    assert_eq!(place.json("again/metrics.json")["folds"], folds);
    assert!(place.json("plain/metrics.json")["folds"].is_null());
}

#[test]
fn the_words_that_support_a_class_are_named() {
    let place = TestDir::new();
    place.write("rows.tsv", rows(300));
    for (model, more) in [("ngrams", &["--model", "ngrams"][..]), ("transformer", &["--epochs", "1"])] {
        place.run(&[&["train", "rows.tsv", "--out", model], more].concat()).assert_success();
        let strongest = place.json(&format!("{model}/metrics.json"))["strongest_ngrams"].clone();
        let card = std::fs::read_to_string(place.path(&format!("{model}/README.md"))).unwrap();
        for (class, words, others) in [
            ("food", ["soup", "bread", "dinner"], ["train", "ticket", "station"]),
            ("travel", ["train", "ticket", "station"], ["soup", "bread", "dinner"]),
        ] {
            let found = strongest[class].as_array().unwrap();
            let names: Vec<&str> = found.iter().map(|of| of["ngram"].as_str().unwrap()).collect();
            // Parts of words may be stronger than whole words.
            let is_of = |words: [&str; 3], name: &str| {
                let name = name.trim_matches(['_', ' ']);
                words.iter().any(|word| name.len() >= 3 && (word.contains(name) || name.contains(word)))
            };
            let of_class = names.iter().filter(|name| is_of(words, name)).count();
            assert!(is_of(words, names[0]) && of_class >= 3, "{model}, {class}: {names:?}");
            assert!(!names.iter().any(|name| is_of(others, name)), "{model}, {class}: {names:?}");
            let strengths: Vec<f64> = found.iter().map(|of| of["strength"].as_f64().unwrap()).collect();
            assert!(strengths.is_sorted_by(|a, b| a >= b) && strengths.iter().all(|&x| x > 0.0), "{strengths:?}");
            assert!(card.contains(&format!("| {class} | `{}`", names[0].trim())), "{card}");
        }
    }
}

#[test]
fn networks_labels_and_numbers_support_folds() {
    let place = TestDir::new();
    let rows = rows(90);
    place.write("classes.tsv", &rows);
    let lines = rows.lines().skip(1).map(|line| line.split_once('\t').unwrap());
    let [mut labels, mut scores] = ["labels\ttext\n", "rating\ttext\n"].map(String::from);
    for (i, (label, text)) in lines.enumerate() {
        labels += &format!("{}\t{text}\n", if i % 4 == 0 { "food,travel" } else { label });
        scores += &format!("{}\t{text}\n", if label == "food" { 1 + i % 2 } else { 4 + i % 2 });
    }
    place.write("labels.tsv", labels);
    place.write("scores.tsv", scores);
    for (task, file, names) in [
        ("classify", "classes.tsv", ["accuracy", "macro_f1"]),
        ("labels", "labels.tsv", ["micro_f1", "macro_f1"]),
        ("score", "scores.tsv", ["mean_absolute_error", "spearman"]),
    ] {
        let args = ["train", file, "--task", task, "--folds", "2", "--epochs", "1", "--out", task];
        let more: &[&str] = if task == "labels" { &["--separator", ","] } else { &[] };
        let run = place.run(&[&args[..], more].concat()).assert_success();
        assert!(run.stdout.contains("2-fold cross-validation of the "), "{run:#?}");
        let folds = place.json(&format!("{task}/metrics.json"))["folds"].clone();
        for name in names {
            let each = folds["figures"][name]["each"].as_array().unwrap();
            assert!(each.len() == 2 && each.iter().all(serde_json::Value::is_number), "{task}: {folds}");
        }
    }
}

#[test]
fn invalid_folds_are_rejected() {
    let place = TestDir::new();
    place.write("rows.tsv", rows(40));
    for (flags, expected) in [
        (&["--folds", "1"][..], "expected a whole number from 2 to 100, found 1"),
        (&["--folds", "90", "--model", "ngrams"], "too few different texts among 3"),
        (&["--folds", "3", "--task", "lm"], "only to predict classes, labels or numbers"),
    ] {
        let run = place.run(&[&["train", "rows.tsv", "--out", "model"][..], flags].concat());
        assert!(run.code == 2 && run.stderr.contains(expected), "{flags:?}: {run:#?}");
    }
}

/// Number of lines on a terminal with 80 columns.
fn lines_on_screen(text: &str) -> usize {
    text.lines().map(|line| line.width().div_ceil(80).max(1)).sum()
}

/// The report and the line that names the folder fit on one screen in both languages. One command shows the rest.
#[test]
fn the_report_fits_a_screen_and_names_the_command_for_the_rest() {
    let place = TestDir::new();
    let classes = |n: usize, rows: usize| {
        let row = |i: usize| {
            format!("class {},word{} in room {}\n", i % n, (i + usize::from((i / 3).is_multiple_of(5))) % n, i % 11)
        };
        format!("label,text\n{}", (0..rows).map(row).collect::<String>())
    };
    place.write("many.csv", classes(40, 1200));
    place.write("few.csv", classes(3, 90));
    place.write("labels.csv", classes(12, 600).replace("class ", "a|class "));
    place.write("stars.csv", classes(9, 600).replace("label", "stars").replace("class ", ""));
    for (name, args) in [
        ("chumoku-model", &["--out", "chumoku-model"][..]),
        ("many", &["many.csv", "--out", "many"]),
        ("few", &["few.csv", "--out", "few"]),
        ("labels", &["labels.csv", "--separator", "|", "--out", "labels"]),
        ("stars", &["stars.csv", "--task", "score", "--out", "stars"]),
        ("alone", &["many.csv", "--model", "ngrams", "--out", "alone"]),
    ] {
        let epochs = if name == "alone" { &[][..] } else { &["--epochs", "1"] };
        for lang in ["en", "ja"] {
            let run = place.run(&[&["train", "--lang", lang, "--force"][..], args, epochs].concat()).assert_success();
            // A blank line precedes the line that names the folder.
            let (_, done) = run.stderr.trim_end().rsplit_once("\n\n").unwrap();
            assert!(done.contains(name), "{run:#?}");
            let lines = 1 + lines_on_screen(done) + lines_on_screen(&run.stdout);
            assert!(lines <= 24, "{lines} lines: {run:#?}");
            // In a file, lines that programs search for are not wrapped. The built-in sentences are longer than a line.
            let mut whole = vec!["Advice", "Never predicted"];
            if name == "chumoku-model" {
                whole.extend(["  chumoku predict ", "  chumoku explain "]);
            }
            let is_one = |line: &str| whole.iter().any(|begin| line.starts_with(begin));
            assert!(run.stdout.lines().all(|line| line.width() <= 80 || is_one(line)), "{run:#?}");
            let rest = format!("chumoku info {name} --report");
            assert!(
                run.stdout.contains(&rest) && run.stdout.contains("--html why.html") == (name != "alone"),
                "{run:#?}"
            );
            assert!(!run.stdout.contains("One of them, explained"), "{run:#?}");
        }
        let rest = place.run(&["info", name, "--report"]).assert_success().stdout;
        let parts: &[&str] = match name {
            "labels" => &["this model", "threshold", "most probable label is correct"],
            "stars" => &["this model", "nearest", "The 90 % intervals contain"],
            _ => &["this model", "precision", "Calibration error"],
        };
        assert!(parts.iter().all(|part| rest.contains(part)), "{rest}");
        // In a file, a paragraph is one line.
        let is_one = |line: &str| {
            ["Never predicted", "Chosen", "The transformer's weights"].iter().any(|begin| line.starts_with(begin))
        };
        assert!(rest.lines().all(|line| line.width() <= 80 || is_one(line)), "{rest}");
        assert_eq!(rest.contains("true ↓"), ["chumoku-model", "few"].contains(&name), "{rest}");
    }
    let run = place.run(&["train", "many.csv", "--out", "many", "--epochs", "1", "--force"]).assert_success();
    assert!(run.stdout.contains("worst of 40 classes"), "{run:#?}");
    // A missing or damaged report file is an error.
    std::fs::remove_file(place.path("few/metrics.json")).unwrap();
    place.run_rejected(&["info", "few", "--report"], &["few/metrics.json", "train again"]);
    place.write("few/metrics.json", "{\"scores\": {}}");
    place.run_rejected(&["info", "few", "--report"], &["few/metrics.json"]);
    place.run_rejected(&["info", "--report"], &["MODEL"]);
}

/// Test rows that also occur in training are left out of a second score, for every task.
#[test]
fn the_score_without_leaked_test_rows_is_also_reported() {
    let place = TestDir::new();
    let all = rows(700);
    let lines: Vec<&str> = all.lines().skip(1).collect();
    let number = |line: &str| format!("{}\t{line}", 1 + line.len() % 2 + 3 * usize::from(line.starts_with("food")));
    let [mut train, mut test, mut unseen] = ["stars\tlabel\ttext\n"; 3].map(String::from);
    for (i, line) in lines.iter().enumerate() {
        let line = number(line) + "\n";
        match i {
            0..500 => train += &line,
            // Case and spaces do not make a different text.
            _ if i % 4 == 0 => test += &(number(&lines[i - 400].replace("the ", "THE  ")) + "\n"),
            _ => (test, unseen) = (test + &line, unseen + &line),
        }
    }
    place.write("train.tsv", train);
    place.write("test.tsv", test);
    place.write("unseen.tsv", unseen);
    for (task, label, key) in
        [("classify", "label", "accuracy"), ("labels", "label", "micro_f1"), ("score", "stars", "mean_absolute_error")]
    {
        let how: &[&str] = if task == "labels" { &["--separator", "|"] } else { &[] };
        for model in [&["--model", "ngrams"][..], &["--epochs", "1"]] {
            let files = ["train", "train.tsv", "--test", "test.tsv", "--out", "model", "--force"];
            let run =
                place.run(&[&files[..], &["--task", task, "--label", label], how, model].concat()).assert_success();
            let metrics = place.json("model/metrics.json");
            assert!(run.stderr.contains("50 of 200 test rows"), "{run:#?}");
            assert!(run.stdout.contains("On 200 test rows, 50 of them also in the training data:"), "{run:#?}");
            assert!(run.stdout.contains("  without 50 leaked rows"), "{run:#?}");
            let eval = [&["eval", "model", "unseen.tsv", "--label", label, "--json"], how].concat();
            let eval = place.run(&eval).assert_success().json();
            assert_eq!((&metrics["unseen"]["rows"], &eval["rows"]), (&150.into(), &150.into()));
            assert_eq!(metrics["leaked_rows"], 50);
            assert_eq!(metrics["unseen"][key], eval["scores"][key], "{task}");
            assert!(place.read("model/README.md").contains("The texts of 50 test rows are also in the training data"));
        }
    }
    place
        .run(&["train", "train.tsv", "--test", "unseen.tsv", "--label", "label", "--model", "ngrams", "--out", "clean"])
        .assert_success();
    assert!(place.json("clean/metrics.json")["unseen"].is_null());
    let args = ["train", "train.tsv", "--test", "train.tsv", "--label", "label", "--model", "ngrams", "--out", "same"];
    let run = place.run(&args).assert_success();
    assert!(run.stdout.contains("On 500 test rows, also in the training data (the scores are no estimate"), "{run:#?}");
    assert!(place.json("same/metrics.json")["unseen"].is_null());
}

/// If the test rows break a promise of `--abstain`, the report says so next to the figure.
#[test]
fn promises_broken_by_the_test_rows_are_named() {
    let place = TestDir::new();
    let all = rows(4000);
    let lines: Vec<&str> = all.lines().skip(1).collect();
    let text = |lines: &[&str]| format!("label\ttext\n{}\n", lines.join("\n"));
    let swapped: Vec<String> = lines[3000..]
        .iter()
        .enumerate()
        .map(|(i, line)| match (i % 4, line.strip_prefix("food")) {
            (0, Some(rest)) => format!("travel{rest}"),
            (0, None) => line.replacen("travel", "food", 1),
            _ => (*line).to_owned(),
        })
        .collect();
    place.write("train.tsv", text(&lines[..3000]));
    place.write("like.tsv", text(&lines[3000..]));
    place.write("unlike.tsv", text(&swapped.iter().map(String::as_str).collect::<Vec<_>>()));
    let report = |test: &str| {
        let model = test.replace(".tsv", "");
        let run =
            place.run(&["train", "train.tsv", "--test", test, "--model", "ngrams", "--out", &model]).assert_success();
        let promises = place.json(&format!("{model}/metrics.json"))["abstain"].as_array().unwrap().clone();
        assert!(!promises.is_empty(), "{run:#?}");
        let full = place.run(&["info", &model, "--report"]).assert_success().stdout;
        (run.stdout, full, promises)
    };
    let (short, full, promises) = report("unlike.tsv");
    assert!(promises.iter().all(|promise| promise["broken"] == "unlike"), "{promises:?}");
    let expected = "less than promised: these rows differ from the validation rows";
    let mut lines = short.lines().skip_while(|line| !line.starts_with("Abstaining when unsure"));
    assert!(lines.nth(1).unwrap().contains(expected), "{short}");
    assert_eq!(full.matches(expected).count(), promises.len(), "{full}");
    let (short, full, promises) = report("like.tsv");
    assert!(promises.iter().all(|promise| promise["broken"] != "unlike"), "{promises:?}");
    assert!(!short.contains(expected) && !full.contains(expected), "{full}");
}

/// Near the ceiling, and if half of the rows give the same score, the run suggests n-grams only.
#[test]
fn a_run_suggests_ngrams_if_a_transformer_adds_little() {
    let place = TestDir::new();
    let clear =
        |i: usize| format!("{}\tthe {} in room {}\n", ["food", "travel"][i % 2], ["soup", "train"][i % 2], i / 2);
    place.write("clear.tsv", format!("label\ttext\n{}", (0..2400).map(clear).collect::<String>()));
    let run = place.run(&["train", "clear.tsv", "--epochs", "1", "--out", "clear"]).assert_success();
    let offer = run.stderr.lines().find(|line| line.starts_with("offer ")).unwrap_or_else(|| panic!("{run:#?}"));
    for part in ["right in 100.0 % of the validation rows", "Ctrl-C, then use --model ngrams", "--from FOLDER"] {
        assert!(offer.contains(part), "{offer}");
    }
    // A quarter of the labels is noise, and a few words reveal the rest: more rows do not help.
    let mut state = 4;
    let mut pick = |count: usize| (crate::common::next_random(&mut state) * count as f64) as usize;
    let mut flat = String::from("label\ttext\n");
    for _ in 0..6000 {
        let class = pick(2);
        let word = [["soup", "bread", "dinner", "cook"], ["train", "ticket", "station", "driver"]][class][pick(4)];
        let label = ["food", "travel"][(class + usize::from(pick(4) == 0)) % 2];
        flat += &format!("{label}\tthe {word} by the place{} and the place{}\n", pick(30), pick(30));
    }
    place.write("flat.tsv", flat);
    let run = place.run(&["train", "flat.tsv", "--epochs", "1", "--out", "flat"]).assert_success();
    assert!(run.stderr.contains("n-grams learn as much from half of the rows as from all"), "{run:#?}");
    // Two hundred rows with many words are too few for either.
    let run = place.run(&["train", "--builtin", "reviews", "--epochs", "1", "--out", "reviews"]).assert_success();
    assert!(!run.stderr.contains("offer "), "{run:#?}");
    assert!(run.stdout.lines().last().unwrap().contains("A pretrained encoder (multilingual-e5-small)"), "{run:#?}");
}

/// Rows of a frequent class and a rare one, which is never the most probable.
fn rare(n: usize, seed: u64) -> String {
    let mut state = seed;
    let mut random = || crate::common::next_random(&mut state);
    let row = |i: usize| {
        let word = (10.0 * random()) as usize;
        let chance = word as f64 / 9.0 * 0.4;
        let label = if random() < chance { "rare" } else { "common" };
        format!("{label}\tword{word} in room {i} of {seed}\n")
    };
    format!("label\ttext\n{}", (0..n).map(row).collect::<String>())
}

/// `--optimize macro-f1` predicts rare classes more often, in every command. A run without it reports its expected
/// effect.
#[test]
fn answers_can_be_optimized_for_macro_f1() {
    let place = TestDir::new();
    place.write("train.tsv", rare(2500, 3));
    place.write("test.tsv", rare(1000, 9));
    for (name, model) in [("ngrams", &["--model", "ngrams"][..]), ("both", &["--epochs", "1"])] {
        let args = ["train", "train.tsv", "--test", "test.tsv", "--out", name];
        let plain = place.run(&[&args[..], model].concat()).assert_success();
        let before = place.json(&format!("{name}/metrics.json"));
        let wrong = || {
            let steps = place.json(&format!("{name}/config.json"))["caution"]["steps"].as_array().unwrap().clone();
            steps.last().unwrap()["wrong"].as_u64().unwrap()
        };
        let wrong_before = wrong();
        assert!(plain.stdout.contains("  with --optimize macro-f1 "), "{plain:#?}");
        assert!(place.json(&format!("{name}/config.json"))["decision"].is_null());
        let chosen = place.run(&[&args[..], model, &["--optimize", "macro-f1", "--force"]].concat()).assert_success();
        let after = place.json(&format!("{name}/metrics.json"));
        assert!(chosen.stdout.contains("  without --optimize macro-f1 "), "{chosen:#?}");
        // Each report has the other's scores.
        assert_eq!((&before["optimize"]["applied"], &after["optimize"]["applied"]), (&false.into(), &true.into()));
        for key in ["accuracy", "macro_f1", "confusion"] {
            assert_eq!(before["optimize"]["scores"][key], after["scores"][key], "{key}");
            assert_eq!(after["optimize"]["scores"][key], before["scores"][key], "{key}");
        }
        let figure = |metrics: &serde_json::Value| metrics["macro_f1"].as_f64().unwrap();
        assert!(figure(&after) > figure(&before) + 0.05, "{} {}", figure(&before), figure(&after));
        let recall = |metrics: &serde_json::Value| metrics["scores"]["classes"][1]["recall"].as_f64().unwrap();
        assert!(recall(&after) > recall(&before) + 0.1, "{after}");

        // The folder stores it; eval and predict choose the largest product of probability and factor.
        let factors = place.json(&format!("{name}/config.json"))["decision"]["factors"].clone();
        let factor = |class: usize| factors[class].as_f64().unwrap();
        let eval = place.run(&["eval", name, "test.tsv", "--json"]).assert_success().json();
        assert_eq!(eval["scores"]["confusion"], after["scores"]["confusion"]);
        let predict = ["predict", name, "--input", "test.tsv", "--json"];
        let answered = place.run(&predict).assert_success().json_lines();
        let each = place.run(&[&predict[..], &["--top", "2"]].concat()).assert_success().json_lines();
        let mut rare = 0;
        for (answered, each) in answered.iter().zip(&each) {
            let classes = each["top"].as_array().unwrap();
            let of =
                |label: &str| classes.iter().find(|c| c["label"] == label).unwrap()["probability"].as_f64().unwrap();
            let (common, other) = (of("common") * factor(0), of("rare") * factor(1));
            if (common - other).abs() > 1e-3 {
                assert_eq!(answered["label"], ["common", "rare"][usize::from(other > common)], "{each}");
            }
            rare += usize::from(answered["label"] == "rare" && of("rare") < 0.5);
        }
        assert!(rare > 50, "{rare}");
        // The user's threshold takes precedence.
        let answers = place.run(&[&predict[..], &["--threshold", "rare=0.99"]].concat()).assert_success().json_lines();
        assert!(answers.iter().all(|row| row["label"] == "common"));
        // Promises apply to these predictions. Fewer of them are right.
        let last =
            |metrics: &serde_json::Value| metrics["risk_coverage"].as_array().unwrap().last().unwrap()[2].clone();
        assert_ne!(last(&before), last(&after));
        let right = 1.0 - last(&after).as_f64().unwrap();
        assert!((right - after["accuracy"].as_f64().unwrap()).abs() < 1e-9);
        assert!(wrong() > wrong_before, "{} and {wrong_before} of the validation rows", wrong());
    }
    // A damaged decision is an error.
    let mut config = place.json("ngrams/config.json");
    config["decision"]["factors"] = serde_json::json!([1.0]);
    place.write("ngrams/config.json", config.to_string());
    place.run_rejected(&["predict", "ngrams", "a text"], &["config.json", "decision", "2 factors"]);
    place.write("paths.tsv", rare(300, 3).replace("rare\t", "a/b\t").replace("common\t", "a/c\t"));
    let paths = ["train", "paths.tsv", "--hierarchy", "/", "--optimize", "macro-f1"];
    place.run_rejected(&paths, &["--optimize", "--hierarchy none"]);
    place.run_rejected(
        &["train", "train.tsv", "--optimize", "macro-f1", "--task", "labels"],
        &["--optimize", "one class"],
    );
    assert!(!place.path("chumoku-model").exists());
}
