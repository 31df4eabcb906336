//! Regression: detected, trained, used, explained, scored, exact, resumable, and rejected if invalid.

use crate::common::{DocPage, TestDir, sha256};
use chumoku::TextClassifier;

/// Texts whose number counts their praise.
fn rows(n: usize, column: &str, measure: bool) -> String {
    let mut state = 7;
    let mut pick = |count: usize| (crate::common::next_random(&mut state) * count as f64) as usize;
    let praise = ["good", "kind", "clean", "quiet"];
    let mut out = format!("id,{column},text\n");
    for i in 0..n {
        let words: Vec<&str> = praise.iter().map(|word| if pick(2) == 0 { *word } else { "plain" }).collect();
        let count = words.iter().filter(|word| **word != "plain").count();
        let number =
            if measure { format!("{:.2}", 10.0 * count as f64 + 0.01 * pick(300) as f64) } else { count.to_string() };
        out += &format!(
            "{i},{number},\"Room {i}: food {}, staff {}, bath {}, street {}.\"\n",
            words[0], words[1], words[2], words[3]
        );
    }
    out
}

fn trained(place: &TestDir, out: &str, more: &[&str]) -> crate::common::Run {
    let all = rows(600, "rating", false);
    let lines: Vec<&str> = all.lines().collect();
    place.write("train.csv", lines[..451].join("\n"));
    place.write("test.csv", [&lines[..1], &lines[451..]].concat().join("\n"));
    let args = ["train", "train.csv", "--test", "test.csv", "--epochs", "3", "--out", out];
    place.run(&[&args[..], more].concat()).assert_success()
}

#[test]
fn texts_get_their_numbers() {
    let place = TestDir::new();
    let run = trained(&place, "model", &[]);
    for part in ["task      score: a number for each text", "numbers   0 to 4, mean", "5 levels"] {
        assert!(run.stderr.contains(part), "{part}: {run:#?}");
    }
    for part in ["RMSE", "Spearman", "baseline: n-grams", "always the median", "The 90 % intervals contain"] {
        assert!(run.stdout.contains(part), "{part}: {run:#?}");
    }
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 80), "{run:#?}");
    let metrics = place.json("model/metrics.json");
    // The weights come from the epoch with the smallest error.
    let figure = |line: &str| line.split_once("mean absolute error")?.1.split_whitespace().next()?.parse().ok();
    let errors: Vec<f64> = run.stderr.lines().filter(|line| line.starts_with("epoch")).filter_map(figure).collect();
    let best = metrics["best_epoch"].as_u64().unwrap() as usize;
    assert!(errors.len() == 3 && errors.iter().all(|error| errors[best - 1] <= *error), "{best} {errors:?}");
    let error = metrics["mean_absolute_error"].as_f64().unwrap();
    assert!(error < 0.35 && metrics["parts"]["median"]["mean_absolute_error"].as_f64().unwrap() > 0.6, "{metrics}");
    let coverage = metrics["coverage"].as_f64().unwrap();
    assert!((0.75..=1.0).contains(&coverage), "{coverage}");
    for part in ["attention", "ngrams"] {
        assert!(metrics["parts"][part]["mean_absolute_error"].is_number(), "{part}");
    }
    let config = place.json("model/config.json");
    assert_eq!(config["problem"]["kind"], "number");
    assert_eq!(config["problem"]["thresholds"], serde_json::json!([0.5, 1.5, 2.5, 3.5]));
    assert!(place.read("model/README.md").contains("between 0 and 4"));

    // The scores are reproduced, with a description of the data.
    let eval = place.run(&["eval", "model", "test.csv", "--json", "--svg", "points.svg"]).assert_success().json();
    assert_eq!((&eval["rows"], &eval["rows_trained_on"]), (&150.into(), &0.into()));
    assert_eq!(eval["scores"], metrics["scores"]);
    // Letters and points are paths.
    assert!(place.read("points.svg").matches("<path").count() >= 150);
    assert!(place.run(&["eval", "model", "test.csv"]).assert_success().stdout.contains("true number"));
    let predicted = place.run(&["predict", "model", "--input", "test.csv", "--json"]).assert_success().json_lines();
    let (mut sum, mut held) = (0.0, 0);
    for row in &predicted {
        let [score, low, high] = ["score", "low", "high"].map(|key| row[key].as_f64().unwrap());
        let truth: f64 = row["input"]["rating"].as_str().unwrap().parse().unwrap();
        sum += (score - truth).abs();
        held += usize::from(low <= truth && truth <= high);
        assert!(low <= score && score <= high && low >= 0.0 && high <= 4.0, "{row}");
    }
    assert!((sum / 150.0 - error).abs() < 0.006, "{} {error}", sum / 150.0);
    assert!((held as f64 / 150.0 - coverage).abs() < 0.03, "{held} {coverage}");
}

#[test]
fn answers_are_available_in_every_format() {
    let place = TestDir::new();
    trained(&place, "model", &[]);
    let [all, none] =
        ["food good, staff kind, bath clean, street quiet.", "food plain, staff plain, bath plain, street plain."];
    let scores = |run: &[serde_json::Value]| run.iter().map(|row| row["score"].as_f64().unwrap()).collect::<Vec<_>>();
    let found = place.run(&["predict", "model", "--json", all, none]).assert_success().json_lines();
    assert!(scores(&found)[0] > 3.0 && scores(&found)[1] < 1.0, "{found:?}");
    let plain = place.run(&["predict", "model", all]).assert_success();
    assert!(plain.stdout.contains(" to 4\t") && plain.stdout.ends_with("street quiet.\n"), "{plain:#?}");
    place.write("in.csv", format!("id,text\n1,\"{all}\"\n2,\n"));
    let columns = place.run(&["predict", "model", "--input", "in.csv"]).assert_success();
    let lines: Vec<&str> = columns.stdout.lines().collect();
    assert_eq!(lines[0], "id,text,score,low,high,error");
    assert!(lines[1].contains(",4.0,") && lines[2].starts_with("2,,,,,"), "{columns:#?}");

    let why = place.run(&["explain", "model", all, "--json", "-", "--html", "why.html"]).assert_success().json();
    assert!(why["number"]["score"].as_f64().unwrap() > 3.0, "{why}");
    let (label, probabilities) = (why["label"].as_str().unwrap(), why["probabilities"].as_array().unwrap());
    let distance = |p: &serde_json::Value| (p["probability"].as_f64().unwrap() - 0.5).abs();
    let nearest = probabilities.iter().min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap();
    assert_eq!(nearest["label"], label, "{why}");
    assert!(place.run(&["explain", "model", all]).assert_success().stdout.starts_with("Prediction: 3"));
    assert!(place.read("why.html").contains("(90 % interval: "));
}

#[test]
fn the_same_bytes_for_any_number_of_threads_and_after_kills() {
    let place = TestDir::new();
    trained(&place, "one", &["--threads", "1"]);
    let args = ["train", "train.csv", "--test", "test.csv", "--epochs", "3", "--out", "killed", "--threads", "2"];
    place.run_despite_kills(&args);
    for name in ["model.safetensors", "config.json", "metrics.json"] {
        assert_eq!(
            sha256(&place.path(&format!("one/{name}"))),
            sha256(&place.path(&format!("killed/{name}"))),
            "{name}"
        );
    }
    let model = TextClassifier::load(&place.path("one")).unwrap();
    let again = place.path("again");
    model.save(&again).unwrap();
    assert_eq!(sha256(&place.path("one/model.safetensors")), sha256(&again.join("model.safetensors")));
}

#[test]
fn measures_are_also_numbers() {
    let place = TestDir::new();
    place.write("hotels.csv", rows(300, "price", true));
    let run =
        place.run(&["train", "hotels.csv", "--label", "price", "--epochs", "2", "--out", "model"]).assert_success();
    assert!(run.stderr.contains("holds a measure") && run.stderr.contains("thresholds"), "{run:#?}");
    assert!(!run.stdout.contains("nearest"), "{run:#?}");
    let metrics = place.json("model/metrics.json");
    assert!(metrics["r2"].as_f64().unwrap() > 0.5, "{metrics}");
    assert!(metrics["scores"]["levels"].as_array().unwrap().is_empty());
    // Ratings as classes, on request.
    place.write("stars.csv", rows(80, "stars", false));
    let classes =
        place.run(&["train", "stars.csv", "--task", "classify", "--epochs", "1", "--out", "classes"]).assert_success();
    assert!(classes.stdout.contains("accuracy"), "{classes:#?}");
    // A changed number is different data, even at the same distance from the others.
    std::fs::remove_file(place.path("model/model.safetensors")).unwrap();
    let mut lines: Vec<String> = place.read("hotels.csv").lines().map(str::to_owned).collect();
    let price = lines[1].split(',').nth(1).unwrap().to_owned();
    lines[1] = lines[1].replacen(&price, &format!("{:.2}", price.parse::<f64>().unwrap() + 0.01), 1);
    place.write("hotels.csv", lines.join("\n"));
    let args = ["train", "hotels.csv", "--label", "price", "--epochs", "2", "--out", "model", "--resume"];
    place.run_rejected(&args, &["other data, settings or seed", "--force"]);
}

/// Number columns are detected without a name, and irregularities are reported.
#[test]
fn number_columns_are_detected() {
    let place = TestDir::new();
    place.write("hotels.csv", rows(300, "price", true).replace("id,price", "no,price"));
    let run = place.run(&["train", "hotels.csv", "--epochs", "1", "--out", "model"]).assert_success();
    assert!(run.stderr.contains("score: a number for each text: column “price” holds a measure"), "{run:#?}");
    place.run(&["eval", "model", "hotels.csv", "--json"]).assert_success();
    // Thresholds in order, with the explained one among them.
    let why = place.run(&["explain", "model", "food good, staff kind, bath clean, street quiet."]).assert_success();
    let explained = why.stdout.lines().find_map(|line| line.strip_prefix("Effect of each word on “")).unwrap();
    let label = explained.trim_end_matches('”');
    assert!(why.stdout.lines().any(|line| line.trim_start().starts_with(label) && line.ends_with('%')), "{why:#?}");
    assert!(why.stdout.contains("more thresholds"), "{why:#?}");
    let why = place.run(&["explain", "model", "--json", "-", "food good"]).assert_success().json();
    let shown = why["probabilities"].as_array().unwrap();
    let threshold = |p: &serde_json::Value| p["label"].as_str().unwrap()[2..].parse::<f64>().unwrap();
    assert!(shown.is_sorted_by(|a, b| threshold(a) < threshold(b)), "{why}");
    // Texts in both files, and texts with two numbers, are reported, also in the model card.
    place.write("both.csv", rows(60, "stars", false) + "98,1,\"Room 3: food twice.\"\n99,4,\"Room 3: food twice.\"\n");
    let run =
        place.run(&["train", "both.csv", "--test", "both.csv", "--epochs", "1", "--out", "both"]).assert_success();
    let leak = "warning: 62 of 62 test rows have a text that is also in the training file";
    let twice = "1 text (2 rows) with more than one number, e.g. “room 3: food twice.” as 1 and 4";
    let card = place.read("both/README.md");
    for note in [leak, twice] {
        assert!(run.stderr.contains(note) && card.contains(note), "{note}: {run:#?} {card}");
    }
    // A rating with a typo is still a rating.
    place.write("slip.csv", rows(60, "総合評価", false).replacen("\n7,", "\n7,★", 1));
    place.run_rejected(&["train", "slip.csv", "--out", "x"], &["slip.csv:9", "a number", "★"]);
    // Numbers that are not a level are distinguished.
    place.write("stars.csv", rows(60, "stars", false));
    place.run(&["train", "stars.csv", "--epochs", "1", "--out", "stars"]).assert_success();
    place.write("half.csv", "stars,text\n2.5,food good\n9,staff kind\n1,bath clean\n");
    let shown = place.run(&["eval", "stars", "half.csv"]).assert_success();
    assert!(shown.stdout.contains("2 rows have other numbers"), "{shown:#?}");
    assert!(!shown.stdout.contains("-0.00 ") && shown.stdout.contains('–'), "{shown:#?}");
    place.run_rejected(&["predict", "stars", "--top", "2", "a text"], &["--top"]);
}

#[test]
fn errors_are_reported() {
    let place = TestDir::new();
    place.write("five.csv", rows(40, "rating", false).replacen("\n7,", "\n7,five", 1));
    place.run_rejected(&["train", "five.csv", "--task", "score", "--out", "x"], &["five.csv:9", "a number", "five"]);
    let args = ["train", "five.csv", "--task", "score", "--skip-bad-rows", "--epochs", "1", "--out", "model"];
    assert!(place.run(&args).assert_success().stderr.contains("skipped"));
    let two = rows(40, "rating", false).replace(",2,", ",1,").replace(",3,", ",1,").replace(",4,", ",0,");
    place.write("two.csv", two);
    let refused = ["two.csv", "3 different numbers", "--task classify"];
    place.run_rejected(&["train", "two.csv", "--task", "score", "--out", "x"], &refused);
    place.run_rejected(&["train", "--task", "score"], &["no built-in data"]);
    place.write("words.csv", "text,label\nfine,good\n");
    place.run_rejected(&["eval", "model", "words.csv"], &["words.csv:2", "a number", "good"]);
    place.write(
        "tags.jsonl",
        "{\"text\": \"a\", \"labels\": [\"x\"]}\n{\"text\": \"b\", \"labels\": [\"x\", \"y\"]}\n".repeat(20),
    );
    place.run(&["train", "tags.jsonl", "--epochs", "1", "--out", "tags"]).assert_success();
    place.run_rejected(&["eval", "tags", "tags.jsonl", "--svg", "x.svg"], &["--svg", "of numbers"]);
    // A folder whose values do not match its thresholds.
    let mut config = place.json("model/config.json");
    config["problem"]["values"].as_array_mut().unwrap().pop();
    place.write("model/config.json", config.to_string());
    place.run_rejected(&["predict", "model", "a text"], &["config.json", "values"]);
}

/// Ratings with units are parsed as numbers.
#[test]
fn numbers_may_have_a_unit() {
    let place = TestDir::new();
    let plain = rows(40, "rating", false);
    // The number is in the second column.
    let with = |unit: &str| {
        let line = |line: &str| {
            let (head, text) = line.split_once(",\"").unwrap_or((line, ""));
            if text.is_empty() { format!("{line}\n") } else { format!("{head}{unit},\"{text}\n") }
        };
        plain.lines().map(line).collect::<String>()
    };
    place.write("plain.csv", &plain);
    place.write("stars.csv", with(" stars"));
    for data in ["plain", "stars"] {
        let file = format!("{data}.csv");
        let output = place.run(&["train", &file, "--epochs", "1", "--out", data]).assert_success().stderr;
        assert_eq!(output.contains("written like") && output.contains(" stars”"), data == "stars", "{output}");
    }
    let model = |data: &str| std::fs::read(place.path(&format!("{data}/model.safetensors"))).unwrap();
    assert!(model("plain") == model("stars"));
    place.write("mixed.csv", with("/5").replacen("/5,\"Room 7", "/10,\"Room 7", 1));
    let refused = ["mixed.csv:9", "in the format of the rows before", "/10"];
    place.run_rejected(&["train", "mixed.csv", "--task", "score", "--out", "x"], &refused);
}

/// A fine-tuned folder has one output per threshold, in a format that other programs read.
#[test]
fn a_pretrained_encoder_learns_numbers() {
    let place = TestDir::with_bert();
    let words = ["bad food", "the food was bad", "the film was", "the film was good", "good film"];
    let row = |i: usize| format!("{}{}\t{}\n", words[i % 5], " was".repeat(i / 5 % 5), i % 5);
    place.write("rows.tsv", format!("text\tstars\n{}", (0..120).map(row).collect::<String>()));
    place.run(&["train", "rows.tsv", "--from", "bert", "--epochs", "1", "--out", "model"]).assert_success();
    let config = place.json("model/config.json");
    assert_eq!(config["problem_type"], "multi_label_classification");
    assert_eq!(config["id2label"]["3"], "> 3.5");
    let found = place.run(&["predict", "model", "--json", "the film was good"]).assert_success().json();
    assert!((0.0..=4.0).contains(&found["score"].as_f64().unwrap()), "{found}");
}

/// Runs the file and the commands of `docs/score.md` as given.
#[test]
fn the_page_is_true() {
    let place = TestDir::new();
    let page = DocPage::read("score.md");
    place.write("rooms.csv", page.code_block("csv"));
    assert_eq!(page.run_commands(&place).len(), 4);
    assert_eq!(place.json("rooms/config.json")["problem"]["range"], serde_json::json!([1.0, 5.0]));
}

/// The effects of words for every row of a file, for numbers and for classes.
#[test]
fn many_texts_are_explained_in_one_run() {
    let place = TestDir::new();
    trained(&place, "model", &[]);
    place.write("in.csv", "id,text\n1,\"food good, staff kind.\"\n2,\n3,bath clean\n");
    let rows = place.run(&["explain", "model", "--input", "in.csv", "--json", "-"]).assert_success().json_lines();
    assert_eq!(rows.len(), 3, "{rows:?}");
    let words: Vec<&str> = rows[0]["words"].as_array().unwrap().iter().map(|w| w["text"].as_str().unwrap()).collect();
    assert_eq!(words, ["food", "good", ",", "staff", "kind", "."]);
    assert!(rows[0]["number"]["score"].is_number() && rows[0]["words"][1]["whole"].is_number(), "{}", rows[0]);
    assert!(rows[1]["words"].is_null() && rows[1]["error"].is_string(), "{}", rows[1]);
    // The same results as one by one.
    let alone = place.run(&["explain", "model", "--json", "-", "bath clean"]).assert_success().json();
    let effects = alone["attribution"]["whole"].as_array().unwrap();
    assert_eq!(rows[2]["words"][0]["whole"], effects[1], "{} {alone}", rows[2]);
    place.write("reviews.csv", crate::common::csv(&crate::common::reviews(40)));
    place.run(&["train", "reviews.csv", "--model", "ngrams", "--out", "classes"]).assert_success();
    let rows = place.run(&["explain", "classes", "--input", "in.csv", "--json", "-"]).assert_success().json_lines();
    assert!(rows[0]["ngrams"].is_array() && rows[0]["probability"].is_number(), "{}", rows[0]);
    place.run_rejected(&["explain", "model", "--input", "in.csv", "--json", "out.json"], &["--json -"]);
}

/// A small file does not show whether `1.500` is 1500, so it is read like the training file.
#[test]
fn points_separate_thousands_as_in_training() {
    let place = TestDir::new();
    let price =
        |i: usize| if i.is_multiple_of(3) { (700 + i).to_string() } else { format!("{}.{:03}", 1 + i % 2, 100 + i) };
    let row = |i: usize| format!("{} room number {i};{}\n", ["plain", "small", "large"][i % 3], price(i));
    place.write("train.csv", format!("text;price\n{}", (0..120).map(row).collect::<String>()));
    place.write("few.csv", "text;price\na small room;1.500\na large room;2.500\n");
    let args = ["train", "train.csv", "--task", "score", "--test", "few.csv", "--model", "ngrams", "--out", "model"];
    place.run(&args).assert_success();
    let metrics = place.json("model/metrics.json");
    assert_eq!(metrics["files"][0]["decimal"], ",", "{metrics}");
    let eval = place.run(&["eval", "model", "few.csv", "--json"]).assert_success().json();
    assert_eq!(eval["scores"], metrics["scores"]);
    let error = eval["mean_absolute_error"].as_f64().unwrap();
    assert!(error < 900.0, "read as 1.5 and 2.5, the error is about 1,400: {error}");
}
