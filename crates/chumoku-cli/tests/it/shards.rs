//! Shards: `predict --shard` with `join` gives the same bytes as one `predict`. Missing, duplicate and foreign shards
//! are named.

use crate::common::{TestDir, csv, reviews};
use serde_json::json;
use std::fs;
use std::sync::OnceLock;

/// Models of all kinds, and files of rows for each.
fn place() -> &'static TestDir {
    static PLACE: OnceLock<TestDir> = OnceLock::new();
    PLACE.get_or_init(|| {
        let place = TestDir::shared_by_file("shards");
        place.write("reviews.csv", csv(&reviews(120)));
        place.run(&["train", "reviews.csv", "--out", "classes", "--model", "ngrams"]).assert_success();
        let words = ["soup", "bill", "soup and bill"];
        let row = |i: usize| format!("{} number {i}\t{}\n", words[i % 3], ["food", "price", "food|price"][i % 3]);
        place.write("labels.tsv", format!("text\tlabels\n{}", (0..90).map(row).collect::<String>()));
        place.run(&["train", "labels.tsv", "--separator", "|", "--epochs", "1", "--out", "labels"]).assert_success();
        let row = |i: usize| format!("{} night {i},{}.{}\n", ["bad", "fair", "good"][i % 3], 1 + 2 * (i % 3), i % 7);
        place.write("scores.csv", format!("text,score\n{}", (0..90).map(row).collect::<String>()));
        place.run(&["train", "scores.csv", "--task", "score", "--epochs", "1", "--out", "numbers"]).assert_success();
        let row = |i: usize| format!("{} B-person\nwaits O\n\n", ["Anna", "Ben", "Clara"][i % 3]);
        place.write("names.conll", (0..60).map(row).collect::<String>());
        place.run(&["train", "names.conll", "--out", "spans"]).assert_success();
        let row =
            |i: usize| format!("A dog runs on day {i}.,A dog {}.,{}\n", ["runs", "eats"][i % 2], ["yes", "no"][i % 2]);
        place.write("train-pairs.csv", format!("premise,hypothesis,label\n{}", (0..120).map(row).collect::<String>()));
        place.run(&["train", "train-pairs.csv", "--out", "pairs", "--model", "ngrams"]).assert_success();

        // Files with difficult rows: line breaks in fields, byte order marks, rows without a text.
        let texts: Vec<(String, String)> = reviews(40);
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let row = |(i, (text, _)): (usize, &(String, String))| match i {
            7 => format!("{i},\n"),
            9 => format!("{i},{}\n", quoted(&format!("{text}\nand a second line"))),
            _ => format!("{i},{}\n", quoted(text)),
        };
        place.write("rows.csv", format!("id,text\n{}", texts.iter().enumerate().map(row).collect::<String>()));
        let row = |(i, (text, _)): (usize, &(String, String))| match i {
            1 => format!("\u{feff}{i};{text}\n"),
            _ => format!("{i};{}\n", quoted(text)),
        };
        place.write("bare.csv", texts.iter().enumerate().map(row).collect::<String>());
        let row = |(i, (text, _)): (usize, &(String, String))| match i {
            5 => format!("{i}\t\"{text}\nand more\"\n"),
            _ => format!("{i}\t{text}\n"),
        };
        place.write("rows.tsv", format!("id\ttext\n{}", texts.iter().enumerate().map(row).collect::<String>()));
        let row = |(i, (text, _)): (usize, &(String, String))| match i {
            3 => format!("{}\n", json!({ "id": i, "text": null })),
            4 => "{ broken\n".to_owned(),
            _ => format!("{}\n", json!({ "id": i, "text": text, "more": [1.5, { "a": 0.1 }] })),
        };
        place.write("rows.jsonl", texts.iter().enumerate().map(row).collect::<String>());
        let row = |(i, (text, _)): (usize, &(String, String))| json!({ "id": i, "text": text });
        place.write("rows.json", json!(texts.iter().enumerate().map(row).collect::<Vec<_>>()).to_string());
        place.write("rows.txt", texts.iter().map(|(text, _)| format!("{text}\n")).collect::<String>());
        place.write("few.csv", "text\na good film\nbad\n");
        let row = |i: usize| format!("A dog runs on day {i}.,{}\n", if i == 2 { "" } else { "A dog runs." });
        place.write("pairs.csv", format!("premise,hypothesis\n{}", (0..9).map(row).collect::<String>()));
        let row = |i: usize| format!("{} waits\n", ["Anna", "Ben", "Nobody"][i % 3]);
        place.write("names.txt", (0..20).map(row).collect::<String>());
        place
    })
}

/// Writes shard `index` of `count` to a file of this name.
fn shard(place: &TestDir, args: &[&str], index: usize, count: usize, name: &str) {
    let piece = format!("{index}/{count}");
    let run = place.run(&[&["predict"], args, &["--shard", &piece]].concat()).assert_success();
    place.write(name, run.stdout);
}

#[track_caller]
fn check_joined(args: &[&str], counts: &[usize]) {
    let place = place();
    let whole = place.run(&[&["predict"], args].concat()).assert_success();
    assert!(!whole.stdout.is_empty());
    let own = TestDir::new();
    for &of in counts {
        let names: Vec<String> = (1..=of).map(|at| own.path(&format!("{at}")).display().to_string()).collect();
        for at in 1..=of {
            shard(place, args, at, of, &names[at - 1]);
        }
        // In any order.
        let mut given: Vec<&str> = names.iter().rev().map(String::as_str).collect();
        let middle = given.len() / 2;
        given.swap(0, middle);
        let out = own.path("out").display().to_string();
        let joined = place.run(&[&["join"], &given[..], &["--out", &out]].concat()).assert_success();
        assert_eq!(own.read("out"), whole.stdout, "{args:?} in {of}");
        assert!(joined.stdout.is_empty() && joined.stderr.contains(&format!("{of} shard")), "{joined:#?}");
        assert_eq!(
            place.run(&[&["join"], &given[..]].concat()).assert_success().stdout,
            whole.stdout,
            "{args:?} in {of}"
        );
    }
}

#[test]
fn joined_shards_equal_the_whole_in_every_format() {
    check_joined(&["classes", "--input", "rows.csv"], &[1, 2, 3, 7, 41]);
    check_joined(&["classes", "--input", "rows.csv", "--bom"], &[1, 3]);
    check_joined(&["classes", "--input", "bare.csv"], &[2, 3]);
    check_joined(&["classes", "--input", "bare.csv", "--bom"], &[2]);
    check_joined(&["classes", "--input", "rows.tsv"], &[1, 2, 5]);
    check_joined(&["classes", "--input", "rows.jsonl"], &[2, 3]);
    check_joined(&["classes", "--input", "rows.json"], &[3]);
    check_joined(&["classes", "--input", "rows.txt"], &[2]);
    check_joined(&["classes", "--input", "few.csv"], &[1, 2, 3, 7]);
    check_joined(&["classes", "--input", "rows.jsonl", "--skip-bad-rows"], &[3]);
}

#[test]
fn joined_shards_equal_the_whole_for_every_kind_of_answer() {
    for json in [&[][..], &["--json"]] {
        check_joined(&[&["classes", "--input", "rows.csv", "--top", "2"], json].concat(), &[3]);
        check_joined(&[&["labels", "--input", "rows.csv"], json].concat(), &[1, 2, 3, 7]);
        check_joined(&[&["numbers", "--input", "rows.csv"], json].concat(), &[1, 2, 3, 7]);
        check_joined(&[&["spans", "--input", "names.txt"], json].concat(), &[1, 2, 3, 7]);
        check_joined(&[&["pairs", "--input", "pairs.csv"], json].concat(), &[2, 7]);
    }
}

#[test]
fn rows_may_come_through_a_pipe() {
    let (place, own) = (place(), TestDir::new());
    let rows = fs::read(place.path("rows.csv")).unwrap();
    let whole = place.run_with_input(&rows, &["predict", "classes"]).assert_success();
    for at in ["1", "2"] {
        own.write(
            at,
            place.run_with_input(&rows, &["predict", "classes", "--shard", &format!("{at}/2")]).assert_success().stdout,
        );
    }
    assert_eq!(own.run(&["join", "1", "2"]).assert_success().stdout, whole.stdout);
}

/// A folder with shards 1 to 3 of 3.
fn three_shards() -> TestDir {
    let own = TestDir::new();
    for at in 1..=3 {
        shard(place(), &["classes", "--input", "rows.csv"], at, 3, &own.path(&at.to_string()).display().to_string());
    }
    own
}

#[test]
fn missing_and_duplicate_shards_are_named() {
    let own = three_shards();
    own.run_rejected(&["join", "1", "3"], &["missing: 2/3", "--shard 2/3"]);
    own.run_rejected(&["join", "2", "--out", "out"], &["missing: 1/3, 3/3"]);
    fs::copy(own.path("2"), own.path("again")).unwrap();
    own.run_rejected(&["join", "1", "2", "again", "3"], &["duplicate: 2/3", "again", "leave one"]);
    own.run_rejected(&["join", "1", "2", "again"], &["missing: 3/3", "duplicate: 2/3"]);
    let run = own.run(&["join", "1", "3", "--lang", "ja"]);
    assert!(run.code == 2 && run.assert_one_error(&["足りない分割: 2/3"]).starts_with("エラー"), "{run:#?}");
    shard(place(), &["classes", "--input", "rows.csv"], 1, 2, &own.path("half").display().to_string());
    own.run_rejected(&["join", "half", "1", "2", "3"], &["1/3", "1/2", "one run"]);
}

#[test]
fn shards_of_other_runs_are_rejected() {
    let (place, own) = (place(), three_shards());
    let other = |name: &str, args: &[&str]| shard(place, args, 2, 3, &own.path(name).display().to_string());
    other("model", &["pairs", "--input", "pairs.csv"]);
    own.run_rejected(&["join", "1", "model", "3"], &["from different runs", "model folders differ", "--shard 2/3"]);
    other("flags", &["classes", "--input", "rows.csv", "--top", "1"]);
    own.run_rejected(&["join", "1", "flags", "3"], &["from different runs", "flags: none and --top 1"]);
    other("fewer", &["classes", "--input", "few.csv"]);
    own.run_rejected(&["join", "1", "fewer", "3"], &["from different runs", "40 and 2 rows"]);
    let rows = place.read("rows.csv").replacen("0,\"", "0,\"x", 1);
    own.write("rows.csv", rows);
    let changed = own.path("rows.csv").display().to_string();
    other("changed", &["classes", "--input", &changed]);
    own.run_rejected(&["join", "1", "changed", "3"], &["from different runs", "input rows differ"]);
    other("ja", &["classes", "--input", "rows.csv", "--lang", "ja"]);
    own.run_rejected(&["join", "1", "ja", "3"], &["from different runs", "language en and ja"]);
    // The same data under another name, and with other threads, is the same run.
    fs::copy(place.path("rows.csv"), own.path("copy.csv")).unwrap();
    let copy = own.path("copy.csv").display().to_string();
    other("copy", &["classes", "--input", &copy, "--threads", "1"]);
    own.run(&["join", "1", "copy", "3"]).assert_success();
}

#[test]
fn incomplete_shards_are_rejected() {
    let own = three_shards();
    let whole = own.read("2");
    // Cut off anywhere: after the first line, in a row, before the last line, in the last line.
    let lines: Vec<usize> = whole.match_indices('\n').map(|(at, _)| at + 1).collect();
    let last = lines[lines.len() - 2];
    for end in [lines[0], lines[1] + 5, last, last + 10, whole.len() - 1] {
        own.write("cut", &whole[..end]);
        own.run_rejected(&["join", "1", "cut", "3"], &["cut", "shard 2/3 is incomplete", "--shard 2/3"]);
    }
    own.write("damaged", whole.replacen("positive", "negative", 1));
    own.write("longer", format!("{whole}more"));
    assert_ne!(own.read("damaged"), whole);
    own.run_rejected(&["join", "1", "damaged", "3", "--out", "out"], &["damaged", "shard 2/3"]);
    own.run_rejected(&["join", "1", "longer", "3"], &["longer", "is incomplete"]);
    // Altered in transit with other lengths, but complete.
    own.write("longer-words", whole.replacen("positive", "very positive", 1));
    own.write("windows", whole.replace('\n', "\r\n"));
    for changed in ["longer-words", "windows"] {
        own.run_rejected(&["join", "1", changed, "3"], &[changed, "shard 2/3 is damaged"]);
    }
    own.write("other", "text,label\n");
    own.run_rejected(&["join", "1", "other", "3"], &["other", "chumoku predict", "--shard I/N"]);
    own.write("new", whole.replacen("\"shard\":2", "\"part\":2", 1));
    own.run_rejected(&["join", "new"], &["new", "form", "version"]);
    own.run_rejected(&["join", "nowhere"], &["nowhere"]);
    own.run_rejected(&["join", "1", "2", "3", "--out", "2"], &["--out", "2"]);
}

#[test]
fn flags_are_checked() {
    let place = place();
    for wrong in ["0/3", "4/3", "3", "a/b", "1/0", "1/1000000"] {
        place.run_rejected(&["predict", "classes", "--input", "rows.csv", "--shard", wrong], &["--shard", "I/N"]);
    }
    place.run_rejected(&["predict", "classes", "a text", "--shard", "1/2"], &["--shard"]);
    place.run_rejected(&["predict", "spans", "--input", "names.conll", "--shard", "1/2"], &["names.conll", "CoNLL"]);
}

#[test]
fn with_strict_an_invalid_row_ends_every_shard() {
    let (place, own) = (place(), TestDir::new());
    for at in 1..=3 {
        let run = place.run(&["predict", "classes", "--input", "rows.csv", "--strict", "--shard", &format!("{at}/3")]);
        assert_eq!(run.code, 2, "{run:#?}");
        run.assert_one_error(&["rows.csv", "empty"]);
        own.write(&at.to_string(), run.stdout);
    }
    own.run_rejected(&["join", "1", "2", "3"], &["is incomplete"]);
}

#[test]
fn memory_does_not_grow_with_the_rows() {
    let (place, own) = (place(), TestDir::new());
    let rows = reviews(100);
    let line = |i: usize| format!("\"{} {}\",{i}\n", rows[i % 100].0.replace('"', "'"), "and so on ".repeat(30));
    own.write("small.csv", format!("text,id\n{}", (0..3_000).map(line).collect::<String>()));
    own.write("large.csv", format!("text,id\n{}", (0..60_000).map(line).collect::<String>()));
    let model = place.path("classes").display().to_string();
    let peak = |input: &str| {
        let run = own.run_with_peak_memory(&["predict", &model, "--input", input, "--shard", "1/2"]);
        assert_eq!(run.code, 0);
        run.peak_bytes
    };
    if let (Some(small), Some(large)) = (peak("small.csv"), peak("large.csv")) {
        assert!(large < small + (24 << 20), "{small} and {large} bytes");
    }
}
