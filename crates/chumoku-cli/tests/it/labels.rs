//! Multi-label classification: detected, trained, used, explained, scored, exact, resumable, and rejected if invalid.

use crate::common::{DocPage, SMALL, TestDir, sha256};
use crate::service::Server;
use chumoku::TextClassifier;

const TOPICS: [(&str, [&str; 4]); 4] = [
    ("food", ["soup", "bread", "dinner", "coffee"]),
    ("staff", ["waiter", "staff", "manager", "cook"]),
    ("price", ["price", "bill", "cost", "fee"]),
    ("noise", ["noise", "music", "shouting", "traffic"]),
];

/// Texts about zero, one or two topics, each revealed by a word.
fn rows(n: usize) -> Vec<(String, Vec<&'static str>)> {
    let mut state = 7;
    let mut pick = |count: usize| (crate::common::next_random(&mut state) * count as f64) as usize;
    let row = |i: usize| {
        let mut labels: Vec<usize> = (0..pick(3)).map(|_| pick(4)).collect();
        labels.sort_unstable();
        labels.dedup();
        let words: Vec<&str> = labels.iter().map(|&topic| TOPICS[topic].1[pick(4)]).collect();
        let text = format!(
            "Visit {i}: we remember the {} of that {} day.",
            words.join(" and the "),
            ["long", "short", "warm"][i % 3]
        );
        (text.replace("the  of", "mood of"), labels.into_iter().map(|topic| TOPICS[topic].0).collect())
    };
    (0..n).map(row).collect()
}

fn json_lines(rows: &[(String, Vec<&str>)]) -> String {
    rows.iter().map(|(text, labels)| format!("{}\n", serde_json::json!({ "text": text, "labels": labels }))).collect()
}

fn trained(place: &TestDir, out: &str, more: &[&str]) -> crate::common::Run {
    let rows = rows(500);
    place.write("train.jsonl", json_lines(&rows[..400]));
    place.write("test.jsonl", json_lines(&rows[400..]));
    let args = ["train", "train.jsonl", "--test", "test.jsonl", "--epochs", "3", "--out", out];
    place.run(&[&args[..], more].concat()).assert_success()
}

#[test]
fn texts_get_their_labels() {
    let place = TestDir::new();
    let run = trained(&place, "model", &[]);
    for part in ["task      labels: several labels per text: it holds lists", "labels    4, ", "rows without labels"] {
        assert!(run.stderr.contains(part), "{part}: {run:#?}");
    }
    for part in ["On 100 test rows", "micro-F1", "baseline: n-grams", "commonest label", "threshold"] {
        assert!(run.stdout.contains(part), "{part}: {run:#?}");
    }
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 80), "{run:#?}");
    let metrics = place.json("model/metrics.json");
    assert!(metrics["micro_f1"].as_f64().unwrap() > 0.95, "{metrics}");
    assert_eq!(metrics["labels"], serde_json::json!(["food", "noise", "price", "staff"]));
    for part in ["attention", "ngrams", "most_frequent"] {
        assert!(metrics["parts"][part]["micro_f1"].is_number(), "{part}");
    }
    let config = place.json("model/config.json");
    assert_eq!(config["problem"]["kind"], "labels");
    assert_eq!(config["problem"]["thresholds"].as_array().unwrap().len(), 4);
    assert!(place.read("model/README.md").contains("4 labels"));

    let both =
        place.run(&["train", "test.jsonl", "--test", "test.jsonl", "--epochs", "1", "--out", "both"]).assert_success();
    assert!(both.stderr.contains("100 of 100 test rows have a text that is also in the training file"), "{both:#?}");

    // The scores are reproduced, with a description of the data.
    let eval = place.run(&["eval", "model", "test.jsonl", "--json"]).assert_success().json();
    assert_eq!(
        (&eval["rows"], &eval["rows_trained_on"], &eval["micro_f1"]),
        (&100.into(), &0.into(), &metrics["micro_f1"])
    );
    assert_eq!(eval["scores"], metrics["scores"]);
    let shown = place.run(&["eval", "model", "test.jsonl"]).assert_success();
    assert!(shown.stdout.contains("sample-F1") && shown.stdout.contains("food"), "{shown:#?}");
    let predicted = place.run(&["predict", "model", "--input", "test.jsonl", "--json"]).assert_success().json_lines();
    let (mut right, mut said, mut there) = (0, 0, 0);
    for row in &predicted {
        let found: Vec<&str> = row["labels"].as_array().unwrap().iter().map(|l| l["label"].as_str().unwrap()).collect();
        let truth: Vec<&str> = row["input"]["labels"].as_array().unwrap().iter().map(|l| l.as_str().unwrap()).collect();
        right += found.iter().filter(|label| truth.contains(label)).count();
        said += found.len();
        there += truth.len();
        let p: Vec<f64> =
            row["labels"].as_array().unwrap().iter().map(|l| l["probability"].as_f64().unwrap()).collect();
        assert!(p.is_sorted_by(|a, b| a >= b), "{row}");
    }
    assert!((2.0 * right as f64 / (said + there) as f64 - metrics["micro_f1"].as_f64().unwrap()).abs() < 1e-9);
}

#[test]
fn answers_are_available_in_every_format() {
    let place = TestDir::new();
    trained(&place, "model", &[]);
    let both = "we remember the soup and the bill of that day.";
    let one = place.run(&["predict", "model", "--json", both]).assert_success().json();
    let names = |row: &serde_json::Value| -> Vec<String> {
        let labels = row["labels"].as_array().unwrap();
        let mut names: Vec<String> = labels.iter().map(|l| l["label"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&one), ["food", "price"], "{one}");
    let top = place.run(&["predict", "model", "--json", "--top", "4", both]).assert_success().json();
    assert_eq!(names(&top), ["food", "noise", "price", "staff"]);
    let none = place.run(&["predict", "model", "we remember the mood of that warm day."]).assert_success();
    assert!(none.stdout.starts_with("(no label)\t"), "{none:#?}");
    let plain = place.run(&["predict", "model", both]).assert_success();
    assert!(plain.stdout.contains("food\t") && plain.stdout.contains("price\t"), "{plain:#?}");
    // A column of labels, in the format that training reads.
    place.write("in.csv", format!("id,text\n1,\"{both}\"\n2,we remember the mood of that warm day.\n"));
    let columns = place.run(&["predict", "model", "--input", "in.csv"]).assert_success();
    let lines: Vec<&str> = columns.stdout.lines().collect();
    assert_eq!(lines[0], "id,text,labels,error");
    assert!(lines[1].ends_with(",food|price,") || lines[1].ends_with(",price|food,"), "{columns:#?}");
    assert!(lines[2].ends_with(",,"), "{columns:#?}");
    // Predictions of different texts are independent.
    let others = "we remember the traffic. ".repeat(40);
    let among = place.run(&["predict", "model", "--json", &others, both, "the cook"]).assert_success().json_lines();
    assert_eq!(among[1]["labels"], one["labels"]);

    let why = place.run(&["explain", "model", both, "--json", "-", "--html", "why.html"]).assert_success().json();
    why["probabilities"].as_array().unwrap().iter().for_each(|p| assert!(p["probability"].as_f64().unwrap() <= 1.0));
    let sum: f64 = why["probabilities"].as_array().unwrap().iter().map(|p| p["probability"].as_f64().unwrap()).sum();
    assert!(sum > 1.3, "labels do not share a probability: {why}");
    let word = |name: &str| why["words"].as_array().unwrap().iter().position(|w| w["text"] == name).unwrap();
    let effects = why["attribution"]["whole"].as_array().unwrap();
    let [soup, bill] = ["soup", "bill"].map(|name| effects[word(name)].as_f64().unwrap());
    let own = if why["label"] == "food" { soup } else { bill };
    assert!(own > 1.0 && own == soup.max(bill), "{soup} {bill}: {why}");
    assert!(place.read("why.html").contains("food"));
}

#[test]
fn each_label_can_be_explained() {
    let place = TestDir::new();
    trained(&place, "model", &[]);
    place
        .run(&["train", "train.jsonl", "--test", "test.jsonl", "--model", "ngrams", "--out", "ngrams"])
        .assert_success();
    let both = "we remember the soup and the bill of that day.";
    let server = Server::start(&place, &["model", "ngrams"]);
    for model in ["model", "ngrams"] {
        let effect = |e: &serde_json::Value, name: &str| {
            let at = e["words"].as_array().unwrap().iter().position(|word| word["text"] == name).unwrap();
            let of = &e["attribution"];
            let whole = if of["whole"].is_null() { &of["scores"] } else { &of["whole"] };
            whole[at].as_f64().unwrap()
        };
        for (label, own, other) in [("food", "soup", "bill"), ("price", "bill", "soup")] {
            let e = place.run(&["explain", model, both, "--of-label", label, "--json", "-"]).assert_success().json();
            assert_eq!([&e["label"], &e["attribution"]["class"]], [label, label]);
            assert!(effect(&e, own) > 1.0 && effect(&e, own) > effect(&e, other), "{model} {label}: {e}");
            let body = serde_json::json!({ "inputs": both, "label": label, "model": model });
            assert_eq!(server.post_json("/explain", &body), e);
            place.write("in.txt", format!("{both}\n"));
            let rows = place
                .run(&["explain", model, "--input", "in.txt", "--json", "-", "--of-label", label])
                .assert_success();
            assert_eq!(rows.json()["label"], label);
            assert!(place.run(&["explain", model, both, "--of-label", label]).assert_success().stdout.contains(label));
        }
        place.run_rejected(
            &["explain", model, both, "--of-label", "prise"],
            &["label", "food", "did you mean “price”?"],
        );
        server.post_rejected(
            "/explain",
            &serde_json::json!({ "inputs": both, "label": "prise", "model": model }),
            422,
            "Validation",
        );
    }
    // A single-label model has one answer to explain.
    place.train_small("reviews", &["--epochs", "1"]);
    place.run_rejected(
        &["explain", "reviews", "good", "--of-label", "positive"],
        &["label", "expected a multi-label model"],
    );
}

#[test]
fn the_same_bytes_for_any_number_of_threads_and_after_kills() {
    let place = TestDir::new();
    trained(&place, "one", &[&["--threads", "1"], &SMALL[..]].concat());
    let args = ["train", "train.jsonl", "--test", "test.jsonl", "--epochs", "3", "--out", "killed", "--threads", "2"];
    place.run_despite_kills(&[&args, &SMALL[..]].concat());
    for name in ["model.safetensors", "config.json", "metrics.json"] {
        let [one, killed] = ["one", "killed"].map(|out| sha256(&place.path(&format!("{out}/{name}"))));
        assert_eq!(one, killed, "{name}");
    }
    // Saving and loading preserve the model.
    let model = TextClassifier::load(&place.path("one")).unwrap();
    model.save(&place.path("again")).unwrap();
    assert_eq!(sha256(&place.path("one/model.safetensors")), sha256(&place.path("again/model.safetensors")));
    assert_eq!(place.json("one/config.json"), place.json("again/config.json"));
}

#[test]
fn fasttext_lines_and_separated_columns_are_requested_or_detected() {
    let place = TestDir::new();
    let rows = rows(200);
    let with: Vec<_> = rows.iter().filter(|(_, labels)| !labels.is_empty()).collect();
    let fast: String = with
        .iter()
        .map(|(text, labels)| labels.iter().map(|label| format!("__label__{label} ")).collect::<String>() + text + "\n")
        .collect();
    place.write("train.txt", fast);
    let run = place.run(&["train", "train.txt", "--epochs", "1", "--out", "fast", "--model", "gru"]).assert_success();
    assert!(run.stderr.contains("labels in front of each text"), "{run:#?}");
    let slashed: String = with.iter().map(|(text, labels)| format!("{text}\t{}\n", labels.join("/"))).collect();
    place.write("train.tsv", format!("text\ttopics\n{slashed}"));
    let words = ["train", "train.tsv", "--separator", "/", "--label", "topics", "--epochs", "1", "--out", "slashed"];
    place.run(&words).assert_success();
    assert_eq!(place.json("slashed/metrics.json")["labels"], place.json("fast/metrics.json")["labels"]);
    // Single-label on request.
    let refused = place.run_rejected(&["train", "train.txt", "--task", "classify", "--out", "x"], &["--task labels"]);
    assert!(refused.stderr.contains("train.txt:"), "{refused:#?}");
}

#[test]
fn errors_are_reported() {
    let place = TestDir::new();
    trained(&place, "model", &[]);
    place.train_small("classes", &[]);
    place.write("half.jsonl", json_lines(&rows(40)) + "{\"text\": \"one more\", \"labels\": [\"food\", 3]}\n");
    place.run_rejected(&["train", "half.jsonl", "--out", "x"], &["half.jsonl:41", "a list of texts"]);
    place
        .write("empty-name.jsonl", json_lines(&rows(40)) + "{\"text\": \"one more\", \"labels\": [\"food\", \" \"]}\n");
    place.run_rejected(&["train", "empty-name.jsonl", "--out", "x"], &["empty-name.jsonl:41", "a list of texts"]);
    place.write("latin.tsv", b"text\tlabels\none\ta|b\ncaf\xe9\tb\ntwo\ta\nthree\tb\n");
    place.run_rejected(&["train", "latin.tsv", "--separator", "|", "--out", "x"], &["latin.tsv:3", "--encoding"]);
    place.write("nothing.tsv", "");
    place.run_rejected(&["train", "nothing.tsv", "--task", "labels", "--out", "x"], &["nothing.tsv"]);
    place.write("few.tsv", "text\tlabels\none\ta|b\n");
    place.run_rejected(&["train", "few.tsv", "--separator", "|", "--out", "x"], &["few.tsv", "at least 4 rows"]);
    place.run_rejected(&["train", "train.jsonl", "--labels", "food,price", "--out", "x"], &["food"]);
    place.run_rejected(&["train", "--task", "labels"], &["no built-in multi-label data"]);
    place.run_rejected(&["train", "train.jsonl", "--task", "lm", "--separator", ",", "--out", "x"], &["--separator"]);
    place.write(
        "new.jsonl",
        "{\"text\": \"a text\", \"labels\": [\"food\", \"weather\"]}\n{\"text\": \"b\", \"labels\": []}\n",
    );
    place.run_rejected(&["eval", "model", "new.jsonl"], &["new.jsonl:1", "weather"]);
    place.run_rejected(&["eval", "classes", "test.jsonl"], &["labels"]);
    // A folder whose thresholds do not match its labels.
    let config = place.read("model/config.json");
    let mut value: serde_json::Value = serde_json::from_str(&config).unwrap();
    value["problem"]["thresholds"].as_array_mut().unwrap().pop();
    place.write("model/config.json", value.to_string());
    place.run_rejected(&["predict", "model", "a text"], &["config.json", "threshold"]);
}

/// A fine-tuned folder can be read by other programs, and a folder written by them can be read here.
#[test]
fn a_pretrained_encoder_learns_labels() {
    let place = TestDir::with_bert();
    let words = ["good film", "bad food", "the film was good", "the food was bad", "good food", "bad film"];
    let row = |i: usize| {
        let text = words[i % 6];
        let labels: Vec<&str> =
            ["good", "bad", "film", "food"].into_iter().filter(|word| text.contains(word)).collect();
        format!("{text}{}\t{}\n", " was".repeat(i / 6 % 5), labels.join("|"))
    };
    place.write("rows.tsv", format!("text\tlabels\n{}", (0..120).map(row).collect::<String>()));
    let args = ["train", "rows.tsv", "--separator", "|", "--from", "bert", "--epochs", "1", "--out"];
    place.run(&[&args[..], &["model"]].concat()).assert_success();
    place.run(&[&args[..], &["again", "--threads", "1"]].concat()).assert_success();
    assert_eq!(sha256(&place.path("model/model.safetensors")), sha256(&place.path("again/model.safetensors")));
    let mut config = place.json("model/config.json");
    assert_eq!(config["problem_type"], "multi_label_classification");
    assert_eq!(config["id2label"]["0"], "bad");
    let all = place.run(&["predict", "model", "--json", "--top", "4", "the film was good"]).assert_success().json();
    assert_eq!(all["labels"].as_array().unwrap().len(), 4);
    let network = place.run(&["explain", "model", "the film was good", "--json", "-"]).assert_success().json();
    // As another program would have written it: the network alone, with thresholds of 0.5.
    let ours = config.as_object_mut().unwrap().remove("chumoku").expect("settings of our own");
    assert_eq!(ours["problem"]["kind"], "labels");
    place.write("model/config.json", config.to_string());
    let alone = place.run(&["predict", "model", "--json", "--top", "4", "the film was good"]).assert_success().json();
    for label in alone["labels"].as_array().unwrap() {
        let of_half = network["parts"]["attention"].as_array().unwrap();
        let expected = of_half.iter().find(|p| p["label"] == label["label"]).unwrap();
        let [found, expected] = [label, expected].map(|p| p["probability"].as_f64().unwrap());
        // The folder's own precision differs from that of training.
        assert!((found - expected).abs() < 0.02, "{label} {expected}");
    }
    let predicted = place.run(&["predict", "model", "--json", "the film was good"]).assert_success().json();
    let above = |label: &&serde_json::Value| label["probability"].as_f64().unwrap() >= 0.5;
    let expected: Vec<&serde_json::Value> = alone["labels"].as_array().unwrap().iter().filter(above).collect();
    assert_eq!(predicted["labels"].as_array().unwrap().iter().collect::<Vec<_>>(), expected);
    config["problem_type"] = "regression".into();
    place.write("model/config.json", config.to_string());
    place.run_rejected(&["predict", "model", "a film"], &["config.json", "problem_type", "regression"]);
}

/// Runs the file and the commands of `docs/labels.md` as given.
#[test]
fn the_page_is_true() {
    let place = TestDir::new();
    let page = DocPage::read("labels.md");
    place.write("visits.csv", page.code_block("csv"));
    assert_eq!(page.run_commands(&place).len(), 3);
    assert_eq!(place.json("visits/metrics.json")["labels"], serde_json::json!(["food", "noise", "price", "staff"]));
}
