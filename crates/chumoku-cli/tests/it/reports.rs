//! What reports have beside scores: cross-validation, and what speaks for each class.

use crate::common::Place;

fn rows(n: usize) -> String {
    let words = [["soup", "bread", "dinner"], ["train", "ticket", "station"]];
    let mut state = 5;
    let mut pick = |count: usize| (crate::common::random(&mut state) * count as f64) as usize;
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
fn each_part_is_judged_by_a_model_of_the_others() {
    let place = Place::new();
    place.write("rows.tsv", rows(400));
    let train = |more: &[&str]| place.run(&[&["train", "rows.tsv"][..], more].concat()).ok();
    let run = train(&["--model", "ngrams", "--folds", "4", "--out", "model"]);
    assert!(run.stdout.contains("4-fold cross-validation of the 360 training and validation rows"), "{run:#?}");
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 80 || line.starts_with("Advice")), "{run:#?}");
    let folds = place.json("model/metrics.json")["folds"].clone();
    let accuracy = &folds["figures"]["accuracy"];
    let each: Vec<f64> = accuracy["each"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
    // Shares of 90 rows, which a third of the texts makes less than 1.
    assert_eq!(each.len(), 4);
    assert!(each.iter().all(|x| ((90.0 * x).round() - 90.0 * x).abs() < 1e-9 && (0.5..0.99).contains(x)), "{each:?}");
    let mean = each.iter().sum::<f64>() / 4.0;
    let deviation = (each.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 3.0).sqrt();
    assert!((accuracy["mean"].as_f64().unwrap() - mean).abs() < 1e-12);
    assert!((accuracy["standard_deviation"].as_f64().unwrap() - deviation).abs() < 1e-12);

    // The model itself is the same, and so are the folds with any number of threads.
    train(&["--model", "ngrams", "--out", "plain", "--threads", "1"]);
    let bytes = |name: &str| std::fs::read(place.path(name)).unwrap();
    assert!(bytes("model/model.safetensors") == bytes("plain/model.safetensors"));
    train(&["--model", "ngrams", "--folds", "4", "--out", "again", "--threads", "1"]);
    assert_eq!(place.json("again/metrics.json")["folds"], folds);
    assert!(place.json("plain/metrics.json")["folds"].is_null());
}

#[test]
fn the_words_that_speak_for_a_class_are_named() {
    let place = Place::new();
    place.write("rows.tsv", rows(300));
    for (model, more) in [("ngrams", &["--model", "ngrams"][..]), ("transformer", &["--epochs", "1"])] {
        place.run(&[&["train", "rows.tsv", "--out", model], more].concat()).ok();
        let strongest = place.json(&format!("{model}/metrics.json"))["strongest_ngrams"].clone();
        let card = std::fs::read_to_string(place.path(&format!("{model}/README.md"))).unwrap();
        for (class, words, others) in [
            ("food", ["soup", "bread", "dinner"], ["train", "ticket", "station"]),
            ("travel", ["train", "ticket", "station"], ["soup", "bread", "dinner"]),
        ] {
            let found = strongest[class].as_array().unwrap();
            let names: Vec<&str> = found.iter().map(|of| of["ngram"].as_str().unwrap()).collect();
            // Parts of words may speak more than whole ones.
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
fn networks_labels_and_numbers_have_folds_too() {
    let place = Place::new();
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
        let run = place.run(&[&args[..], more].concat()).ok();
        assert!(run.stdout.contains("2-fold cross-validation of the "), "{run:#?}");
        let folds = place.json(&format!("{task}/metrics.json"))["folds"].clone();
        for name in names {
            let each = folds["figures"][name]["each"].as_array().unwrap();
            assert!(each.len() == 2 && each.iter().all(serde_json::Value::is_number), "{task}: {folds}");
        }
    }
}

#[test]
fn folds_that_make_no_sense_are_refused() {
    let place = Place::new();
    place.write("rows.tsv", rows(40));
    for (flags, expected) in [
        (&["--folds", "1"][..], "expected a whole number from 2 to 100, found 1"),
        (&["--folds", "90", "--model", "ngrams"], "too few different texts among 3"),
        (&["--folds", "3", "--task", "lm"], "only for classes, labels and numbers"),
    ] {
        let run = place.run(&[&["train", "rows.tsv", "--out", "model"][..], flags].concat());
        assert!(run.code == 2 && run.stderr.contains(expected), "{flags:?}: {run:#?}");
    }
}
