//! `explain --method`: integrated gradients compared with leave-one-out.

use crate::common::{TestDir, shared_model};
use serde_json::Value;

fn gradients(place: &TestDir, model: &str, text: &str) -> Value {
    place.run(&["explain", model, text, "--method", "integrated-gradients", "--json", "-"]).assert_success().json()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("expected a number, found {value}"))
}

/// The score of every word, including those after the first window.
fn scores(explanation: &Value) -> Vec<f64> {
    let of = &explanation["attribution"];
    let read = of["scores"].as_array().unwrap().iter().map(number);
    read.chain(of["beyond"].as_array().into_iter().flatten().map(|word| number(&word["score"]))).collect()
}

/// Checks that the scores sum to the change of the network's log-odds.
fn check_sums(explanation: &Value) {
    let integral = &explanation["attribution"]["integral"];
    let [baseline, text, gap] = ["baseline", "text", "gap"].map(|name| number(&integral[name]));
    let change = text - baseline;
    assert!(gap >= 0.0 && gap <= (0.01 * change.abs()).max(1e-3), "{integral}");
    let sum: f64 = scores(explanation).iter().sum();
    assert!((sum - change).abs() <= gap + 1e-4, "{sum} and {integral}");
    let class = &explanation["attribution"]["class"];
    let network = explanation["parts"]["attention"].as_array().or(explanation["probabilities"].as_array()).unwrap();
    let p = number(&network.iter().find(|one| one["label"] == *class).unwrap()["probability"]);
    // The network may round its products.
    assert!((text - (p / (1.0 - p)).ln()).abs() < 0.02, "{integral}: {p}");
}

#[test]
fn integrated_gradients_sum_to_the_change_and_name_their_method() {
    let place = TestDir::new();
    let text = "The room was not clean, and the staff was rude.";
    let value = gradients(&place, shared_model(), text);
    check_sums(&value);
    let attribution = &value["attribution"];
    assert_eq!(attribution["method"], "integrated gradients");
    assert!(attribution["unit"].as_str().unwrap().contains("mean embedding"), "{attribution}");
    // [CLS] is also in the baseline, and n-grams have no gradients.
    assert_eq!(attribution["scores"][0], 0.0);
    assert!(attribution["whole"].is_null());
    let other = place.run(&["explain", shared_model(), text, "--json", "-"]).assert_success().json();
    assert_eq!(other["attribution"]["method"], "leave-one-out");
    assert!(other["attribution"]["integral"].is_null());
    assert_ne!(scores(&value), scores(&other));
    // Everything else is unchanged.
    assert_eq!([&value["attention"], &value["without"]], [&other["attention"], &other["without"]]);
    // Results do not depend on the number of threads.
    let flags = ["--method", "integrated-gradients", "--json", "-", "--threads", "1"];
    let alone = place.run(&[&["explain", shared_model(), text], &flags[..]].concat()).assert_success().json();
    assert_eq!(alone, value);

    let shown = |lang: &str| {
        let flags = ["--method", "integrated-gradients", "--lang", lang, "--html", "why.html"];
        place.run(&[&["explain", shared_model(), text], &flags[..]].concat()).assert_success().stdout
    };
    let (english, japanese) = (shown("en"), shown("ja"));
    assert!(english.contains("integrated gradients") && english.contains("Completeness gap"), "{english}");
    assert!(japanese.contains("積分勾配") && japanese.contains("完全性のずれ"), "{japanese}");
    assert!(place.read("why.html").contains("Completeness gap"));
}

#[test]
fn a_single_word_accounts_for_the_whole_change() {
    let place = TestDir::new();
    let value = gradients(&place, shared_model(), "clean");
    check_sums(&value);
    let found = scores(&value);
    assert_eq!(found.len(), 2, "{value}");
    assert!(found[1] != 0.0);
}

#[test]
fn all_windows_of_a_long_text_are_attributed() {
    let place = TestDir::new();
    let long = "The room was not clean but cheap ".repeat(60);
    let value = gradients(&place, shared_model(), &long);
    check_sums(&value);
    let beyond = value["attribution"]["beyond"].as_array().unwrap();
    assert!(beyond.len() > 200 && beyond.iter().all(|word| word["whole"].is_null()), "{}", beyond.len());
    // The last windows count as much as the first.
    let of = |range: std::ops::Range<usize>| scores(&value)[range].iter().map(|x| x.abs()).sum::<f64>();
    let (first, last) = (of(1..101), of(301..401));
    assert!(first > 0.0 && last > 0.2 * first && last < 5.0 * first, "{first} {last}");
}

#[test]
fn rows_of_a_file_can_be_explained() {
    let place = TestDir::new();
    place.write("texts.txt", "The room was clean\nThe staff was rude\n");
    let flags = ["--input", "texts.txt", "--method", "integrated-gradients", "--json", "-"];
    let lines = place.run(&[&["explain", shared_model()], &flags[..]].concat()).assert_success().stdout;
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 2, "{lines}");
    for row in rows {
        assert_eq!(row["method"], "integrated gradients");
        let [baseline, text, gap] = ["baseline", "text", "gap"].map(|name| number(&row["integral"][name]));
        let sum: f64 = row["words"].as_array().unwrap().iter().map(|word| number(&word["effect"])).sum();
        assert!((sum - (text - baseline)).abs() <= gap + 1e-4, "{row}");
    }
}

#[test]
fn recurrent_networks_support_the_method_and_ngrams_do_not() {
    let place = TestDir::new();
    place.train_small("lstm", &["--epochs", "2", "--model", "lstm"]);
    check_sums(&gradients(&place, "lstm", "The room was not clean"));
    place.run(&["train", "reviews.csv", "--out", "ngrams", "--model", "ngrams"]).assert_success();
    let run = place.run(&["explain", "ngrams", "The room", "--method", "integrated-gradients"]);
    assert!(run.code == 2 && run.stderr.contains("leave --method out"), "{run:?}");
}

/// The log-odds of a class from the network alone.
fn network(explanation: &Value, class: &Value) -> f64 {
    let network = explanation["parts"]["attention"].as_array().unwrap();
    number(&network.iter().find(|one| one["label"] == *class).unwrap()["probability"])
}

#[test]
fn curves_remove_the_strongest_words_first() {
    let place = TestDir::new();
    let text = "The room was clean";
    let value = place.run(&["explain", shared_model(), text, "--json", "-"]).assert_success().json();
    let (curves, class) = (&value["attribution"]["curves"], &value["attribution"]["class"]);
    assert_eq!(curves["words"], serde_json::json!([0, 1, 2, 3, 4]));
    let names: Vec<&str> =
        curves["orders"].as_array().unwrap().iter().map(|curve| curve["order"].as_str().unwrap()).collect();
    assert_eq!(names, ["leave-one-out", "attention", "rollout", "random"]);
    let mut order: Vec<usize> = (0..4).collect();
    let found = scores(&value);
    order.sort_by(|&a, &b| found[b + 1].total_cmp(&found[a + 1]));
    let words: Vec<&str> = text.split(' ').collect();
    let alone = |is_left: &dyn Fn(usize) -> bool| {
        let left: Vec<&str> = (0..4).filter(|word| is_left(*word)).map(|word| words[word]).collect();
        network(&place.run(&["explain", shared_model(), &left.join(" "), "--json", "-"]).assert_success().json(), class)
    };
    let of = |name: &str, step: usize| number(&curves["orders"][0][name][step]);
    for step in 0..4 {
        let expected = alone(&|word| !order[..step].contains(&word));
        assert!((of("deletion", step) - expected).abs() < 1e-4, "{step} cut out of {order:?}: {curves}");
        let expected = alone(&|word| order[..4 - step].contains(&word));
        assert!((of("insertion", 4 - step) - expected).abs() < 1e-4, "all but {step} put in of {order:?}: {curves}");
    }
    for curve in curves["orders"].as_array().unwrap() {
        // All orders begin and end with the same values.
        assert_eq!([&curve["deletion"][0], &curve["insertion"][4]], [&curves["orders"][0]["deletion"][0]; 2]);
        assert_eq!([&curve["deletion"][4], &curve["insertion"][0]], [&curves["orders"][0]["deletion"][4]; 2]);
        for name in ["deletion", "insertion"] {
            let p: Vec<f64> = curve[name].as_array().unwrap().iter().map(number).collect();
            let area: f64 = p.windows(2).map(|p| 0.125 * (p[0] + p[1])).sum();
            assert!((area - number(&curve[&format!("{name}_area")])).abs() < 1e-5, "{curve}");
        }
    }
    let shown = place.run(&["explain", shared_model(), text]).assert_success().stdout;
    assert!(shown.contains("while words are removed") && shown.contains("at random"), "{shown}");
    // A text with many words has twenty steps.
    let long = "The room was not clean but cheap ".repeat(20);
    let value = gradients(&place, shared_model(), &long);
    let curves = &value["attribution"]["curves"];
    assert_eq!(curves["words"], Value::from((0..=20).map(|step| 7 * step).collect::<Vec<_>>()));
    // A one-word text is either present or removed.
    let value = gradients(&place, shared_model(), "clean");
    assert_eq!(value["attribution"]["curves"]["words"], serde_json::json!([0, 1]));
}

#[test]
fn methods_are_compared_over_the_rows_of_a_file() {
    let place = TestDir::new();
    // A text like the training texts, and a one-word text.
    let rows =
        ["The room was clean and quiet", "The staff was rude", "Nice", "Not clean, not quiet, not cheap", "I liked it"];
    place.write("texts.txt", rows.repeat(3).join("\n"));
    let run = |more: &[&str]| place.run(&[&["explain", shared_model(), "--faithfulness", "texts.txt"], more].concat());
    let found = run(&["--json", "-"]).assert_success().json();
    assert_eq!([&found["rows"], &found["of"], &found["unfit"], &found["seed"]].map(number), [12.0, 15.0, 3.0, 1.0]);
    let orders = found["orders"].as_array().unwrap();
    let names: Vec<&str> = orders.iter().map(|of| of["order"].as_str().unwrap()).collect();
    assert_eq!(names, ["leave-one-out", "integrated gradients", "attention", "rollout", "random"]);
    for of in orders {
        for name in ["deletion", "insertion", "gain"] {
            let [mean, low, high] = ["mean", "low", "high"].map(|end| number(&of[name][end]));
            assert!(low <= mean + 1e-6 && mean <= high + 1e-6, "{of}");
        }
        let of_random = &orders[4];
        let difference = |of: &Value| number(&of["insertion"]["mean"]) - number(&of["deletion"]["mean"]);
        assert!((number(&of["gain"]["mean"]) - (difference(of) - difference(of_random))).abs() < 1e-5, "{of}");
    }
    // The means match the curves of the individual texts.
    let own = |method: &str| -> f64 {
        let texts: Vec<&&str> = rows.iter().filter(|text| text.contains(' ')).collect();
        let areas = texts.iter().map(|text| {
            let value = place
                .run(&["explain", shared_model(), text, "--method", method, "--json", "-"])
                .assert_success()
                .json();
            number(&value["attribution"]["curves"]["orders"][0]["deletion_area"])
        });
        areas.sum::<f64>() / texts.len() as f64
    };
    for (i, method) in ["leave-one-out", "integrated-gradients"].into_iter().enumerate() {
        let mean = number(&orders[i]["deletion"]["mean"]);
        assert!((mean - own(method)).abs() < 1e-4, "{method}: {mean} and {}", own(method));
    }
    let (english, japanese) = (run(&[]).assert_success().stdout, run(&["--lang", "ja"]).assert_success().stdout);
    let said = english.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("12 of 15 rows") && said.contains("3 rows of the sample"), "{english}");
    assert!(japanese.contains("95 % 区間") && !japanese.contains("The network"), "{japanese}");
    assert!(english.lines().all(|line| line.chars().count() <= 80), "{english}");
    let refused = run(&["--method", "leave-one-out"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    place.write("one.txt", "Nice\n");
    let refused = place.run(&["explain", shared_model(), "--faithfulness", "one.txt"]);
    assert!(refused.code != 0 && refused.stderr.contains("two words"), "{refused:?}");
}
