//! Unusable files give one clear error line, exit code 2, and no output. Unusual but valid files work.

use crate::common::{Run, TestDir, csv, reviews, shared_model};
use std::fmt::Write;

const TRAIN: &str = "train";
const EVAL: &str = "eval";
const PREDICT: &str = "predict";

/// Checks that each of these commands rejects the file, in one line that contains all of `words`.
#[track_caller]
fn check_rejected(commands: &[&str], name: &str, bytes: impl AsRef<[u8]>, words: &[&str]) {
    let place = TestDir::new();
    place.write(name, bytes);
    for command in commands {
        match *command {
            TRAIN => place.run_rejected(&["train", name, "--out", "new"], words),
            EVAL => place.run_rejected(&["eval", shared_model(), name], words),
            _ => place.run_rejected(&["predict", shared_model(), "--input", name], words),
        };
    }
}

const ALL_COMMANDS: &[&str] = &[TRAIN, EVAL, PREDICT];
/// The commands that need a label.
const LABELED_COMMANDS: &[&str] = &[TRAIN, EVAL];

/// A valid file of 40 rows.
fn valid_rows() -> String {
    csv(&reviews(40))
}

/// Trains on a file and predicts its rows.
#[track_caller]
fn check_accepted(name: &str, bytes: impl AsRef<[u8]>, more: &[&str]) -> (Run, Run) {
    let place = TestDir::new();
    place.write(name, bytes);
    let trained = place.run(&[&["train", name, "--out", "new", "--epochs", "1"], more].concat()).assert_success();
    let predicted = place.run(&[&["predict", "new", "--input", name], more].concat()).assert_success();
    (trained, predicted)
}

#[test]
fn a_missing_file_is_named_with_a_suggestion() {
    let place = TestDir::new();
    place.write("reviews.csv", valid_rows());
    place.write("a folder.csv", "");
    let words = ["review.csv", "did you mean", "reviews.csv"];
    place.run_rejected(&["train", "review.csv", "--out", "new"], &words);
    place.run_rejected(&["eval", shared_model(), "review.csv"], &words);
    place.run_rejected(&["predict", shared_model(), "--input", "review.csv"], &words);
    place.run_rejected(
        &["train", "reviews.csv", "--test", "test.csv", "--out", "new"],
        &["test.csv", "nothing of that name"],
    );
    place.run_rejected(&["train", "reviews.csv", "--valid", "valid.csv", "--out", "new"], &["valid.csv"]);
    place.run_rejected(&["train", ".", "--out", "new"], &["found a folder", "reviews.csv"]);
}

#[test]
fn empty_files() {
    check_rejected(ALL_COMMANDS, "none.csv", "", &["none.csv", "empty file"]);
    check_rejected(ALL_COMMANDS, "none.jsonl", "\n\n", &["none.jsonl", "empty file"]);
    check_rejected(ALL_COMMANDS, "only.csv", "text,label\n", &["only.csv", "below the header", "text", "label"]);
    let run = TestDir::new().run(&["predict", shared_model()]);
    assert_eq!(run.code, 2, "{run:#?}");
    run.assert_one_error(&["standard input", "empty file"]);
}

/// `valid_rows()` in Japanese, encoded as Shift JIS.
fn shift_jis() -> Vec<u8> {
    let (good, bad) = ([0x97, 0xc7, 0x82, 0xa2], [0x88, 0xab, 0x82, 0xa2]);
    let mut bytes = b"text,label\n".to_vec();
    for i in 0..40 {
        let (word, label) = if i % 2 == 0 { (good, "positive") } else { (bad, "negative") };
        bytes.extend(word);
        bytes.extend(format!("{i},{label}\n").into_bytes());
    }
    bytes
}

#[test]
fn other_encodings_are_suggested_and_read() {
    check_rejected(ALL_COMMANDS, "sjis.csv", shift_jis(), &["sjis.csv:2:1", "UTF-8", "--encoding shift_jis"]);
    check_rejected(
        ALL_COMMANDS,
        "latin.csv",
        b"text,label\nca\xe9 noir,a\n",
        &["latin.csv:2:3", "--encoding windows-1252"],
    );
    let (trained, predicted) = check_accepted("sjis.csv", shift_jis(), &["--encoding", "shift_jis"]);
    assert!(trained.stderr.contains("Shift_JIS"), "{trained:#?}");
    assert!(predicted.stdout.contains("良い0,positive,"), "{predicted:#?}");
    let place = TestDir::new();
    place.write("sjis.csv", shift_jis());
    place.run_rejected(&["train", "sjis.csv", "--encoding", "shift_jos"], &["--encoding", "did you mean", "shift_jis"]);
    place.run_rejected(&["train", "sjis.csv", "--encoding", "euc-jp"], &["sjis.csv", "EUC-JP", "another --encoding"]);

    let utf16: Vec<u8> = format!("\u{feff}{}", valid_rows()).encode_utf16().flat_map(u16::to_le_bytes).collect();
    check_accepted("wide.csv", utf16, &[]);
}

#[test]
fn byte_order_marks_and_crlf_change_nothing() {
    let rows = reviews(60);
    let plain = check_accepted("x.csv", csv(&rows), &[]).1;
    let marked = check_accepted("x.csv", format!("\u{feff}{}", csv(&rows)), &[]).1;
    let crlf = check_accepted("x.csv", csv(&rows).replace('\n', "\r\n"), &[]).1;
    assert_eq!(marked.stdout, plain.stdout);
    assert_eq!(crlf.stdout, plain.stdout);
    assert!(plain.stdout.starts_with("text,label,predicted_label,probability,error\n"), "{plain:#?}");
}

#[test]
fn nul_bytes() {
    check_rejected(ALL_COMMANDS, "zero.csv", "text,label\na fine\0day,x\n", &["zero.csv:2:7", "NUL"]);
}

#[test]
fn ragged_rows_and_quotes_are_reported_with_line_and_column() {
    let advice = "--skip-bad-rows";
    check_rejected(
        LABELED_COMMANDS,
        "more.csv",
        "text,label\na b,x\nc, d,x\n",
        &["more.csv:3:", "2 columns", "found 3", advice],
    );
    check_rejected(
        LABELED_COMMANDS,
        "less.csv",
        "text,label\na b,x\nc d\n",
        &["less.csv:3:", "2 columns", "found 1", advice],
    );
    check_rejected(LABELED_COMMANDS, "tabs.tsv", "text\tlabel\na b\tx\nc\td\tx\n", &["tabs.tsv:3:", "found 3", advice]);
    check_rejected(
        LABELED_COMMANDS,
        "open.csv",
        "text,label\na b,x\n \"c\",\"d e\n",
        &["open.csv:3:", "closing quote", advice],
    );
    check_rejected(
        LABELED_COMMANDS,
        "stray.csv",
        "text,label\na b,x\n\"c\" d,x\n",
        &["stray.csv:3:", "after its closing quote", advice],
    );
    check_rejected(
        LABELED_COMMANDS,
        "broken.jsonl",
        "{\"text\":\"a\",\"label\":\"x\"}\n{\"text\":\n",
        &["broken.jsonl:2", "JSON", advice],
    );

    // Skipped on request, and counted.
    let place = TestDir::new();
    place.write("x.csv", format!("{}a,b,c\n\"open\n", valid_rows()));
    let run = place.run(&["train", "x.csv", "--out", "new", "--epochs", "1", "--skip-bad-rows"]).assert_success();
    assert!(run.stderr.contains("2 rows left out, the first because: x.csv:42:"), "{run:#?}");
}

#[test]
fn an_error_late_in_the_file_is_found_before_anything_is_written() {
    let mut rows: String = "text,label\n".into();
    (0..3_000).for_each(|i| writeln!(rows, "row number {i},{}", i % 2).unwrap());
    check_rejected(LABELED_COMMANDS, "late.csv", format!("{rows}a,b,c\n"), &["late.csv:3002:", "found 3"]);
    // A stream has already answered the rows before an unrecoverable error.
    let place = TestDir::new();
    place.write("late.csv", [rows.as_bytes(), b"caf\xe9,1\nrow,1\n"].concat());
    let run = place.run(&["predict", shared_model(), "--input", "late.csv"]);
    assert_eq!((run.code, run.stdout.lines().count()), (2, 3_001));
    run.assert_one_error(&["late.csv:3002:"]);
}

#[test]
fn missing_and_ambiguous_columns_are_listed() {
    let three = "day,mood,place\nMonday,a fine day,here\nTuesday,a bad day,there\nMonday,a day,here\n";
    check_rejected(LABELED_COMMANDS, "three.csv", three, &["three.csv", "“day”", "“mood”", "--label"]);
    let place = TestDir::new();
    place.write("x.csv", valid_rows());
    for (flag, role) in [("--text", "text"), ("--label", "label")] {
        let words = ["x.csv", role, "“nope”", "“text”", "“label”"];
        place.run_rejected(&["train", "x.csv", "--out", "new", flag, "nope"], &words);
        place.run_rejected(&["eval", shared_model(), "x.csv", flag, "nope"], &words);
    }
    place.run_rejected(&["predict", shared_model(), "--input", "x.csv", "--text", "9"], &["“9”", "“text”"]);
    place
        .run_rejected(&["train", "x.csv", "--out", "new", "--text", "label", "--label", "label"], &["“label”", "both"]);
    let mut two: String = "review,comment,label\n".into();
    (0..40).for_each(|i| writeln!(two, "it was good {i} times,it was bad {i} times,{}", i % 2).unwrap());
    check_rejected(ALL_COMMANDS, "two.csv", two, &["two.csv", "“review”", "“comment”", "--text"]);
    check_rejected(
        LABELED_COMMANDS,
        "prose.txt",
        "just some words\nand some more of them\n",
        &["prose.txt", "plain text", "CSV"],
    );
}

#[test]
fn too_few_rows_or_classes() {
    let one_class = "text,label\n".to_owned() + &(0..9).map(|i| format!("text {i},same\n")).collect::<String>();
    check_rejected(&[TRAIN], "one.csv", one_class, &["one.csv", "two or more classes", "“same”", "--label"]);
    check_rejected(&[TRAIN], "row.csv", "text,label\nonly one,a\n", &["row.csv", "at least 4 rows", "found 1 row"]);
}

#[test]
fn a_table_with_two_texts_and_a_price_does_not_count_as_pairs() {
    let mut table = "title,description,price\n".to_owned();
    (0..40).for_each(|i| writeln!(table, "A thing {i},A few words about thing {i},{}.50", 3 * i).unwrap());
    check_rejected(
        &[TRAIN],
        "price.csv",
        &table,
        &["price.csv", "choosing the task", "column “title”, column “description”", "column “price”", "--task"],
    );
    let place = TestDir::new();
    place.write("price.csv", table);
    let japanese = place.run(&["train", "price.csv", "--out", "new", "--lang", "ja"]);
    assert!(japanese.code == 2 && japanese.stderr.contains("タスクを選べません"), "{japanese:#?}");
}

#[test]
fn an_empty_text_is_reported_with_its_line() {
    let rows = format!("{}\"  \",positive\n", valid_rows());
    check_rejected(LABELED_COMMANDS, "x.csv", &rows, &["x.csv:42", "empty text", "--skip-bad-rows"]);
    check_rejected(
        LABELED_COMMANDS,
        "x.csv",
        format!("{}a fine day,\n", valid_rows()),
        &["x.csv:42", "label", "empty field"],
    );
    let place = TestDir::new();
    place.write("x.csv", rows);
    let run = place.run(&["predict", shared_model(), "--input", "x.csv", "--skip-bad-rows"]).assert_success();
    assert_eq!(run.stdout.lines().count(), 41);
    assert!(run.stderr.contains("1 row left out, the first because: x.csv:42"), "{run:#?}");
    for args in
        [["predict", shared_model(), ""], ["explain", shared_model(), ""], ["explain", shared_model(), " \u{3000}\n"]]
    {
        place.run_rejected(&args, &["empty"]);
    }
    let run = place.run_with_input(b"fine\n\nbad\n", &["predict", shared_model(), "--strict"]);
    assert_eq!((run.code, run.stdout.lines().count()), (2, 2));
    run.assert_one_error(&["standard input:2", "empty text"]);
}

#[test]
fn a_label_that_was_not_in_training() {
    let place = TestDir::new();
    place.write("x.csv", valid_rows());
    place.write("test.csv", "text,label\nfine,positive\nfair,postive\n");
    let words = ["test.csv:3", "“postive”", "did you mean “positive”"];
    place.run_rejected(&["train", "x.csv", "--test", "test.csv", "--out", "new"], &words);
    place.run_rejected(&["train", "x.csv", "--valid", "test.csv", "--out", "new"], &words);
    place.run_rejected(&["eval", shared_model(), "test.csv"], &words);
}

#[test]
fn ten_thousand_classes() {
    let mut rows: String = "text,label\n".into();
    (0..20_000).for_each(|i| writeln!(rows, "a text about {i},{}", i % 10_000).unwrap());
    check_rejected(
        &[TRAIN],
        "x.csv",
        rows,
        &["x.csv", "5000 different values", "identifier", "sort the values into a few classes"],
    );
}

#[test]
fn a_document_of_100_mb() {
    let document = "a good day and a bad night ".repeat(100_000_000 / 27 + 1);
    let place = TestDir::new();
    place.write("x.csv", format!("text,label\nfine,a\n\"{document}\",b\n"));
    place.write("x.txt", &document);
    let before = place.file_hashes();
    let commands: [&[&str]; 3] = [
        &["train", "x.csv", "--out", "new"],
        &["eval", shared_model(), "x.csv"],
        &["predict", shared_model(), "--input", "x.txt"],
    ];
    for args in commands {
        let run = place.run_with_peak_memory(args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:#?}");
        run.assert_one_error(&["MiB", "shorter texts", "--skip-bad-rows"]);
        match run.peak_bytes {
            Some(peak) => assert!(peak < 200 << 20, "{args:?} held {} MiB", peak >> 20),
            None => eprintln!("SKIPPED: this system does not tell the peak memory"),
        }
    }
    // If there are rows before it, only its own answer is missing.
    let run = place.run_with_peak_memory(&["predict", shared_model(), "--input", "x.csv"]).assert_success();
    assert_eq!(run.stdout.lines().count(), 3);
    assert!(run.stdout.contains("MiB") && run.peak_bytes.is_none_or(|peak| peak < 200 << 20), "{:?}", run.peak_bytes);
    assert_eq!(place.file_hashes(), before);
}

/// A file with `rows` rows; `label` maps the row number to the label.
fn labelled(rows: usize, label: impl Fn(usize) -> String) -> String {
    let row = |i: usize| format!("a text about {i},{},other {}\n", label(i), i % 3);
    "text,label,kind\n".to_owned() + &(0..rows).map(row).collect::<String>()
}

#[test]
fn a_column_without_classes_is_described() {
    for (label, looks_like) in [
        (&(|i: usize| (i * i % 1_931).to_string()) as &dyn Fn(usize) -> String, "a measure"),
        (&|i| format!("user-{i:05}"), "an identifier"),
        (&|i| format!("2026-{:02}-{:02}", 1 + i % 12, 1 + i % 28), "dates"),
        (&|i| format!("This is what somebody wrote about visit number {i}"), "free text"),
    ] {
        let words = ["x.csv", looks_like, "--label", "“kind”", "different values in 2000 rows"];
        check_rejected(&[TRAIN], "x.csv", labelled(2_000, label), &words);
    }
    check_accepted("x.csv", labelled(60, |i| (1 + i % 5).to_string()), &[]);
    check_accepted("x.csv", labelled(60, |i| (i % 2).to_string()), &[]);
}

#[test]
fn encoding_names_of_python_are_accepted() {
    for name in ["cp932", "ms932", "sjis", "s-jis", "windows_31j"] {
        let place = TestDir::new();
        place.write("sjis.csv", shift_jis());
        let run = place.run(&["predict", shared_model(), "--input", "sjis.csv", "--encoding", name]).assert_success();
        assert!(run.stdout.contains("良い0,positive,"), "{name}: {run:#?}");
        place.run_rejected(
            &["train", "sjis.csv", "--encoding", "shift_jis_2004"],
            &["shift_jis_2004", "nearest", "iconv"],
        );
    }
}

#[test]
fn emoji_combining_marks_and_half_width_kana_work() {
    let kinds =
        ["🎉 great 👨‍👩‍👧", "e\u{301}tude tre\u{300}s belle", "ﾊﾝｶｸ ｶﾞｲｲ", "العربية جيدة", "a\u{200d}b \u{202e}c", "𝔉𝔲𝔫 ㌔"];
    let mut rows: String = "text,label\n".into();
    for i in 0..60 {
        writeln!(rows, "{} {i},{}", kinds[i % kinds.len()], if i % 2 == 0 { "良い 👍" } else { "ﾀﾞﾒ" }).unwrap();
    }
    let (trained, predicted) = check_accepted("x.csv", &rows, &[]);
    assert!(trained.stderr.contains("良い 👍 24"), "{trained:#?}");
    // Texts are returned unchanged, without normalization.
    for (given, got) in rows.lines().zip(predicted.stdout.lines()).skip(1) {
        assert!(got.starts_with(given), "{got}");
    }
    let place = TestDir::new();
    for text in kinds {
        place.run(&["explain", shared_model(), text]).assert_success();
    }
}

#[test]
fn unsupported_file_types_are_named() {
    check_rejected(ALL_COMMANDS, "x.csv", b"PK\x03\x04rest", &["x.csv", "a zip archive", "unpack it"]);
    check_rejected(ALL_COMMANDS, "x.xlsx", b"PK\x03\x04xl/workbook.xml", &["x.xlsx", "Excel", "save the sheet as CSV"]);
    check_rejected(ALL_COMMANDS, "x.json", "[{\"text\": \"a\"", &["x.json:1:14", "JSON array", "written whole"]);
    check_rejected(ALL_COMMANDS, "x.parquet", "text,label\n", &["x.parquet", "Parquet"]);
    check_rejected(ALL_COMMANDS, "x.csv.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03half", &["x.csv.gz", "gzip"]);
}
