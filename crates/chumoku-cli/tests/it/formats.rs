//! Every format of labeled texts trains a model, and the command reports the detected format.

use crate::common::{TestDir, csv, reviews};
use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;

const ROWS: usize = 60;

fn lines(write: impl Fn(&str, &str) -> String) -> String {
    reviews(ROWS).iter().map(|(text, label)| write(text, label) + "\n").collect()
}

fn gz(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// A workbook with these rows below a header, in the second of two sheets if `behind`.
fn excel(behind: bool) -> Vec<u8> {
    let mut book = rust_xlsxwriter::Workbook::new();
    if behind {
        book.add_worksheet().set_name("Notes").unwrap().write_string(0, 0, "see the other sheet").unwrap();
    }
    let sheet = book.add_worksheet().set_name("Reviews").unwrap();
    for (column, name) in ["number", "text", "label"].iter().enumerate() {
        sheet.write_string(0, column as u16, *name).unwrap();
    }
    for (row, (text, label)) in reviews(ROWS).iter().enumerate() {
        let at = row as u32 + 1;
        sheet.write_number(at, 0, row as f64).unwrap();
        sheet.write_string(at, 1, text).unwrap().write_string(at, 2, label.as_str()).unwrap();
    }
    book.save_to_buffer().unwrap()
}

/// Trains on the file. Checks that the messages contain all of `words` and that the metrics match the rows.
#[track_caller]
fn check_trains(name: &str, bytes: impl AsRef<[u8]>, more: &[&str], words: &[&str]) -> Value {
    let place = TestDir::new();
    place.write(name, bytes);
    let run =
        place.run(&[&["train", name, "--out", "model", "--epochs", "1", "--json"], more].concat()).assert_success();
    for word in [words, &["task      classify"]].concat() {
        assert!(run.stderr.contains(word), "“{word}” is missing: {run:#?}");
    }
    let metrics = run.json();
    let rows: u64 = ["train", "valid", "test"].map(|part| metrics["rows"][part].as_u64().unwrap()).iter().sum();
    assert_eq!(rows, ROWS as u64, "{run:#?}");
    assert_eq!(metrics["labels"], json!(["negative", "positive"]));
    // Other commands accept the same file.
    place.run(&[&["eval", "model", name][..], more].concat()).assert_success();
    metrics["data_sha256"].clone()
}

#[test]
fn each_format_is_detected_and_gives_the_same_rows() {
    let comma = csv(&reviews(ROWS));
    let tabs = lines(|text, label| format!("{label}\t{text}"));
    let objects = lines(|text, label| json!({ "id": text.len(), "text": text, "label": label }).to_string());
    let fast = lines(|text, label| format!("__label__{label} {text}"));
    let semicolons =
        "label;text\n".to_owned() + &lines(|text, label| format!("{label};\"{}\"", text.replace('"', "\"\"")));
    let made = [
        check_trains("x.csv", &comma, &[], &["x.csv: CSV with a header, 2 columns", "text = column “text”"]),
        check_trains("x.csv.gz", gz(&comma), &[], &["CSV with a header", "gzip"]),
        check_trains("y.csv", semicolons, &[], &["CSV (; between fields) with a header"]),
        check_trains("x.tsv", format!("label\ttext\n{tabs}"), &[], &["TSV with a header", "label = column “label”"]),
        check_trains("bare.tsv", &tabs, &[], &["TSV without a header", "text = column 2", "label = column 1"]),
        check_trains("bare.tsv.gz", gz(&tabs), &[], &["TSV without a header", "gzip"]),
        check_trains("x.jsonl", &objects, &[], &["JSONL, 3 keys", "text = column “text” (its name)"]),
        check_trains("x.jsonl.gz", gz(&objects), &[], &["JSONL", "gzip"]),
        check_trains(
            "x.json",
            format!("[{}]", objects.trim_end().replace('\n', ", ")),
            &[],
            &["JSON, an array of objects, 3 keys"],
        ),
        check_trains("x.txt", &fast, &[], &["fastText", "the label is in front"]),
        check_trains("x.ft.gz", gz(&fast), &[], &["fastText", "gzip"]),
        check_trains("x.xlsx", excel(false), &[], &["Excel, sheet “Reviews”, with a header, 3 columns", "not used"]),
        check_trains(
            "y.xlsx",
            excel(true),
            &["--sheet", "Reviews"],
            &["sheet “Reviews” (one of 2; choose another with"],
        ),
        // The content decides, not the file name.
        check_trains(
            "data",
            &tabs,
            &[],
            &["TSV without a header (each line has the same number of tabs)"]
                .map(|words| words.split(" (").next().unwrap()),
        ),
    ];
    assert!(made.iter().all(|sha256| *sha256 == made[0] && sha256.is_string()), "{made:?}");
}

#[test]
fn workbook_rows_are_answered_as_csv_and_json_rows_as_jsonl() {
    let place = TestDir::new();
    place.write("x.csv", csv(&reviews(ROWS)));
    place.run(&["train", "x.csv", "--out", "model", "--epochs", "1"]).assert_success();
    place.write("new.xlsx", excel(false));
    let run = place.run(&["predict", "model", "--input", "new.xlsx"]).assert_success();
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(lines.len(), ROWS + 1, "{run:#?}");
    assert_eq!(lines[0], "number,text,label,predicted_label,probability,error");
    assert!(lines[1].starts_with("0,"), "{run:#?}");
    place.write("texts.json", "{\"data\": [\"Good food\", \"\"]}");
    let run = place.run(&["predict", "model", "--input", "texts.json"]).assert_success();
    let lines: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines[0]["text"] == "Good food" && lines[0]["probability"].is_number(), "{run:#?}");
    assert!(lines[1]["error"].as_str().unwrap().contains("texts.json, row 2: reading the text"), "{run:#?}");
    place.run_rejected(&["predict", "model", "--input", "new.xlsx", "--sheet", "Review"], &["new.xlsx", "“Reviews”"]);
}

#[test]
fn columns_are_found_by_name_by_content_and_by_flag() {
    let mut table = "id,評価,レビュー,店\n".to_owned();
    for (i, (text, label)) in reviews(ROWS).iter().enumerate() {
        writeln!(table, "{i},{label},\"{}\",{}", text.replace('"', "\"\""), i % 2).unwrap();
    }
    let words = ["4 columns", "text = column “レビュー”", "label = column “評価”"];
    let args = ["--text", "レビュー", "--label", "評価"];
    check_trains("x.csv", &table, &args, &[&words[..], &["(as requested)"]].concat());
    check_trains("x.csv", &table, &["--text", "3", "--label", "2"], &words);
    let unknown = table.replacen("レビュー", "そのほか", 1).replacen("評価", "よしあし", 1);
    check_trains("x.csv", unknown, &["--label", "よしあし"], &["text = column “そのほか” (the longest"]);
}

#[test]
fn validation_and_test_files_are_used_and_leaks_are_reported() {
    let place = TestDir::new();
    let rows = reviews(120);
    place.write("train.csv", csv(&rows[..80]));
    place.write("valid.jsonl", json!({ "text": "A fine day.", "label": "positive" }).to_string() + "\n");
    // Twenty new rows, and two from the training file.
    place.write("test.csv", csv(&[&rows[80..100], &rows[..2]].concat()));
    let args = ["--valid", "valid.jsonl", "--test", "test.csv", "--out", "model", "--epochs", "1", "--json"];
    let run = place.run(&[&["train", "train.csv"], &args[..]].concat()).assert_success();
    assert_eq!(run.json()["rows"], json!({ "train": 80, "valid": 1, "test": 22 }));
    assert!(
        run.stderr.contains("warning: 2 of 22 test rows have a text that is also in the training file"),
        "{run:#?}"
    );
    assert!(place.read("model/README.md").contains("2 of 22 test rows"));
}

#[test]
fn unbalanced_and_conflicting_labels_are_reported() {
    let place = TestDir::new();
    let mut rows = reviews(60);
    rows.iter_mut().enumerate().for_each(|(i, row)| row.1 = if i % 10 == 0 { "rare" } else { "common" }.into());
    rows.push((rows[0].0.clone(), "common".into()));
    place.write("x.csv", csv(&rows));
    let run = place.run(&["train", "x.csv", "--out", "model", "--epochs", "1"]).assert_success();
    assert!(run.stderr.contains("classes are unbalanced"), "{run:#?}");
    assert!(run.stderr.contains("1 text (2 rows) with more than one label"), "{run:#?}");
}

#[test]
fn long_texts_are_counted_and_read_in_full() {
    let place = TestDir::new();
    let mut rows = reviews(40);
    rows[0].0 = reviews(90).iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>().join(" ");
    rows[1].0 = rows[0].0.replace(' ', "\n");
    place.write("x.csv", csv(&rows));
    let run = place.run(&["train", "x.csv", "--out", "model", "--epochs", "1"]).assert_success();
    assert!(run.stderr.contains("no text is truncated"), "{run:#?}");
    // The end of a long text matters.
    let whole = place.run(&["predict", "model", "--json", &rows[0].0]).assert_success().json();
    let changed =
        place.run(&["predict", "model", "--json", &format!("{} Awful, awful!", rows[0].0)]).assert_success().json();
    assert_ne!(whole["probability"], changed["probability"]);
}
