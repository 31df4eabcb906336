//! Reading of files: the flags shared by all commands, options stored with a model, and several files as one.

use crate::common::TestDir;
use serde_json::json;

const WORDS: [&str; 6] =
    ["kam kaputt an", "nie wieder", "sehr zufrieden damit", "schnelle Lieferung", "ganz in Ordnung", "leider zu klein"];

/// Rows whose text reveals the label.
fn rows(n: usize) -> Vec<[String; 2]> {
    let row = |i: usize| [format!("{} für Größe {i}", WORDS[i % 6]), ["ham", "spam"][i % 2].to_owned()];
    (0..n).map(row).collect()
}

fn table(header: &str, rows: &[[String; 2]], write: impl Fn(&[String; 2]) -> String) -> String {
    header.to_owned() + "\n" + &rows.iter().map(|row| write(row) + "\n").collect::<String>()
}

fn latin(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(c as u32).expect("Latin-1")).collect()
}

const NGRAMS: [&str; 4] = ["--model", "ngrams", "--out", "model"];

#[test]
fn a_model_reads_files_like_its_training_file() {
    let place = TestDir::new();
    let all = rows(60);
    let kaggle = table("v1,v2,,,", &all, |[text, label]| format!("{label},{text},,,"));
    place.write("spam.csv", latin(&kaggle));
    let read = ["--text", "v2", "--label", "v1", "--encoding", "latin-1"];
    place.run(&[&["train", "spam.csv"], &read[..], &NGRAMS[..]].concat()).assert_success();
    let predicted = place.run(&["predict", "model", "--input", "spam.csv", "--json"]).assert_success();
    let lines = predicted.json_lines();
    assert_eq!(lines.len(), 60, "{predicted:#?}");
    assert!(lines[0]["input"]["v2"].as_str().is_some_and(|text| text.ends_with("für Größe 0")), "{:?}", lines[0]);
    assert!(place.run(&["eval", "model", "spam.csv"]).assert_success().stderr.contains("decoded from windows-1252"));
    let explained = place.run(&["explain", "model", "--input", "spam.csv", "--json", "-"]).assert_success();
    assert_eq!(explained.json_lines().len(), 60);
    place.run(&["explain", "model", "--errors", "spam.csv"]).assert_success();
    // Files in another format are also read, and flags take precedence.
    place.write("other.csv", table("text,label", &all, |[text, label]| format!("{text},{label}")));
    assert_eq!(
        place.run(&["predict", "model", "--input", "other.csv", "--json"]).assert_success().json_lines().len(),
        60
    );
    place.run(&["eval", "model", "other.csv"]).assert_success();
    place.run_rejected(&["eval", "model", "spam.csv", "--encoding", "utf-8"], &["spam.csv", "expected UTF-8"]);
    place.run_rejected(&["eval", "model", "other.csv", "--encoding", "latin-1"], &["other.csv", "found UTF-8"]);
    // Rows to predict keep their positions, even if training would skip some.
    place.write("gaps.csv", table("text,label", &all[..4], |[text, label]| format!("{text},{label}")) + ",ham\n");
    place.run(&["train", "other.csv", "--skip-bad-rows", "--model", "ngrams", "--out", "skipping"]).assert_success();
    assert_eq!(
        place.run(&["predict", "skipping", "--input", "gaps.csv", "--json"]).assert_success().json_lines().len(),
        5
    );
}

#[test]
fn headers_are_reported_and_remembered() {
    let place = TestDir::new();
    let all = rows(60);
    place.write("a.tsv", all.iter().map(|[text, label]| format!("{text}\t{label}\n")).collect::<String>());
    place.run(&[&["train", "a.tsv", "--header", "no"], &NGRAMS[..]].concat()).assert_success();
    assert_eq!(place.json("model/metrics.json")["files"][0]["header"], json!(false));
    let one = table("Ihre Nachricht\tArt", &[], |_| String::new());
    place.write("b.tsv", one + &place.read("a.tsv"));
    let with = place.run(&["predict", "model", "--input", "b.tsv", "--header", "yes", "--json"]).assert_success();
    assert_eq!(with.json_lines().len(), 60);
    assert_eq!(place.run(&["predict", "model", "--input", "b.tsv", "--json"]).assert_success().json_lines().len(), 61);
    place.run_rejected(&["train", "a.tsv", "--header", "perhaps"], &["--header", "perhaps"]);
}

#[test]
fn explain_has_the_reading_flags_of_other_commands() {
    let place = TestDir::new();
    let all = rows(60);
    place.write("a.csv", table("text,label", &all, |[text, label]| format!("{text},{label}")));
    place.run(&[&["train", "a.csv"], &NGRAMS[..]].concat()).assert_success();
    let odd = table("Nr;Antwort;Nachricht", &all, |[text, label]| format!("7;{label};{text}"));
    place.write("odd.csv", latin(&odd));
    let read =
        ["--text", "Nachricht", "--label", "Antwort", "--encoding", "latin-1", "--delimiter", ";", "--header", "yes"];
    let explain = |more: &[&str]| place.run(&[&["explain", "model"], more, &read[..]].concat());
    explain(&["--errors", "odd.csv"]).assert_success();
    assert_eq!(explain(&["--input", "odd.csv", "--json", "-"]).assert_success().json_lines().len(), 60);
    let alone = explain(&["some text"]);
    assert!(alone.code == 2 && alone.stderr.contains("--text is for the file of"), "{alone:#?}");
}

#[test]
fn spelling_variants_of_labels_are_named_and_merged() {
    let place = TestDir::new();
    let spelled = |[text, label]: &[String; 2], i: usize| {
        let label = match i % 5 {
            0 => label.to_uppercase(),
            1 => format!("{}{}", label[..1].to_uppercase(), &label[1..]),
            _ => label.clone(),
        };
        format!("{text},{label}\n")
    };
    let content: String = rows(90).iter().enumerate().map(|(i, row)| spelled(row, i)).collect();
    place.write("a.csv", format!("text,label\n{content}"));
    let run = place.run(&[&["train", "a.csv"], &NGRAMS[..]].concat()).assert_success();
    assert!(run.stderr.contains("6 labels look like 2 ") && run.stderr.contains("--merge-labels"), "{run:#?}");
    let merged = ["train", "a.csv", "--merge-labels", "--model", "ngrams", "--out", "merged"];
    let run = place.run(&merged).assert_success();
    assert!(!run.stderr.contains("look like"), "{run:#?}");
    assert_eq!(place.json("merged/metrics.json")["labels"], json!(["ham", "spam"]));
    // Evaluation reads files in the same way.
    place.run(&["eval", "merged", "a.csv"]).assert_success();
    // The doctor names the cause before its findings.
    let output = place.run(&["doctor", "a.csv"]).assert_success().stdout;
    let cause = output.find("6 labels look like 2").unwrap_or_else(|| panic!("{output}"));
    assert!(
        output.find("abel noise").or(output.find("abels are not checked")).is_some_and(|noise| cause < noise),
        "{output}"
    );
    assert!(!place.run(&["doctor", "a.csv", "--merge-labels"]).assert_success().stdout.contains("look like"));
}

#[test]
fn several_training_files_are_read_in_the_given_order() {
    let place = TestDir::new();
    let all = rows(90);
    let of = |rows: &[[String; 2]]| table("text,label", rows, |[text, label]| format!("{text},{label}"));
    place.write("all.csv", of(&all));
    place.write("a.csv", of(&all[..30]));
    place.write("b.csv", of(&all[30..60]));
    place.write("c.csv", table("label,text", &all[60..], |[text, label]| format!("{label},{text}")));
    place.run(&["train", "a.csv", "b.csv", "c.csv", "--model", "ngrams", "--out", "parts"]).assert_success();
    place.run(&["train", "all.csv", "--model", "ngrams", "--out", "whole"]).assert_success();
    let hash = |model: &str| place.json(&format!("{model}/metrics.json"))["data_sha256"].clone();
    assert_eq!(hash("parts"), hash("whole"));
    assert_eq!(place.json("parts/metrics.json")["files"][0]["also"], json!(["b.csv", "c.csv"]));
    // Continued training finds them again.
    place.write(
        "new.csv",
        of(&[["ganz neu und gut".into(), "ham".into()], ["ganz alt und dumm".into(), "spam".into()]]),
    );
    place.run(&["train", "new.csv", "--from", "parts", "--out", "further"]).assert_success();
    // They are inputs that no flag names.
    #[cfg(unix)]
    {
        let before = place.file_hashes();
        let run = place.run_shell("chumoku train new.csv --from parts --out again >> b.csv");
        assert_eq!(run.code, 2, "{run:#?}");
        run.assert_one_error(&["b.csv: the input file is also the output file"]);
        assert_eq!(place.file_hashes(), before);
    }
    place.write("d.csv", table("text,kind", &all[..9], |[text, label]| format!("{text},{label}")));
    place.run_rejected(&["train", "a.csv", "d.csv"], &["d.csv", "expected the columns of a.csv", "“kind”"]);
    place.run_rejected(&["train", "a.csv", "missing.csv"], &["missing.csv"]);
}

#[test]
fn labels_that_training_files_write_differently_are_named() {
    let place = TestDir::new();
    let all = rows(60);
    let of = |rows: &[[String; 2]], written: fn(&str) -> String| {
        table("text,label", rows, |[text, label]| format!("{text},{}", written(label)))
    };
    place.write("a.csv", of(&all[..30], str::to_owned));
    place.write("b.csv", of(&all[30..], str::to_uppercase));
    let files = ["train", "a.csv", "b.csv"];
    let run = place.run(&[&files[..], &NGRAMS[..]].concat()).assert_success();
    let note = "b.csv: labels are written differently than in the files before (“HAM” in b.csv, “ham” in a.csv;";
    assert!(run.stderr.contains(note) && run.stderr.contains("--merge-labels"), "{run:#?}");
    let run = place.run(&[&files[..], &["--merge-labels", "--force"], &NGRAMS[..]].concat()).assert_success();
    assert!(!run.stderr.contains("written differently"), "{run:#?}");
    // A base model is one of the files before.
    place.run(&["train", "a.csv", "--model", "ngrams", "--out", "base"]).assert_success();
    let run = place.run(&["train", "b.csv", "--from", "base", "--out", "further"]).assert_success();
    assert!(run.stderr.contains("(“HAM” in b.csv, “ham” in base;"), "{run:#?}");
    place.write("c.csv", of(&all[30..], |label| (if label == "ham" { "0" } else { "1" }).to_owned()));
    let run = place.run(&[&["train", "a.csv", "c.csv", "--force"], &NGRAMS[..]].concat()).assert_success();
    assert!(run.stderr.contains("c.csv: no label is in the files before: found “0”, “1”"), "{run:#?}");
    // Numbers: one format goes with another only where a file may mix them.
    let ratings = |of: &str| {
        table("text,rating", &all[..30], |[text, _]| format!("{text},{}{of}", text.as_bytes()[text.len() - 1] % 4))
    };
    place.write("five.csv", ratings("/5"));
    place.write("ten.csv", ratings("/10"));
    place.write("plain.csv", ratings(""));
    let score = ["train", "five.csv", "plain.csv", "--task", "score", "--force"];
    place.run(&[&score[..], &NGRAMS[..]].concat()).assert_success();
    let score = ["train", "five.csv", "ten.csv", "--task", "score", "--force"];
    place.run_rejected(&score, &["error: ten.csv: reading the numbers", "five.csv, such as “0/5”, found “0/10”"]);
}

#[test]
fn messages_name_the_right_one_of_several_training_files() {
    let place = TestDir::new();
    let all = rows(60);
    let of = |rows: &[[String; 2]]| table("text,label", rows, |[text, label]| format!("{text},{label}"));
    place.write("a.csv", of(&all[..30]));
    place.write("test.csv", of(&all[40..50]));
    let with_row = |name: &str, row: &str| place.write(name, of(&all[30..40]) + row + "\n" + &of(&all[40..])[11..]);
    // Line 12 comes after the header and ten rows.
    with_row("empty.csv", "some text,");
    place.run_rejected(&["train", "a.csv", "empty.csv", "--out", "x"], &["error: empty.csv:12", "--skip-bad-rows"]);
    with_row("path.csv", "some text,spam//more");
    place.run_rejected(
        &["train", "a.csv", "path.csv", "--hierarchy", "/", "--out", "x"],
        &["error: path.csv:12", "spam//more"],
    );
    place.write("tree.csv", "child,parent\nham,mail\nspam,mail\nmail,\n");
    with_row("child.csv", "some text,other");
    let tree = ["train", "a.csv", "child.csv", "--hierarchy", "tree.csv", "--out", "x"];
    place.run_rejected(&tree, &["error: child.csv:12", "“other”", "tree.csv"]);
    // Rows that are also in the test file.
    with_row("b.csv", "some text,ham");
    let files = ["train", "a.csv", "b.csv", "--test", "test.csv"];
    let run = place.run(&[&files[..], &NGRAMS[..]].concat()).assert_success();
    assert!(run.stderr.contains("(b.csv:13 and test.csv:2)"), "{run:#?}");
    // Spans that end inside a word.
    let spans = |word: &str, end: usize| {
        let row = |i: usize| format!("{{\"text\": \"{word} {i}\", \"spans\": [[0, {end}, \"x\"]]}}\n");
        (0..12).map(row).collect::<String>()
    };
    place.write("one.jsonl", spans("whole", 5));
    place.write("two.jsonl", spans("whole", 4));
    let run = place.run(&["train", "one.jsonl", "two.jsonl", "--task", "tag", "--out", "tags"]).assert_success();
    assert!(run.stderr.contains("“whol” (two.jsonl:1, 0 to 4)"), "{run:#?}");
}

#[test]
fn an_ambiguity_stops_with_the_flags_that_decide() {
    let place = TestDir::new();
    let all = rows(60);
    let flags = table("text,urgent,billing,refund,queue", &all, |[text, label]| {
        let n = text.len() + text.bytes().map(usize::from).sum::<usize>();
        format!("{text},{},{},{},{label}", n % 2, n / 2 % 2, n / 4 % 2)
    });
    place.write("a.csv", flags);
    let goods = table("review,product,price", &all, |[text, label]| {
        let n = text.bytes().map(usize::from).sum::<usize>();
        format!("{text},{label},{}.{:02}", n % 97, n % 89)
    });
    place.write("goods.csv", goods);
    place.run_rejected(&["train", "goods.csv"], &["goods.csv: choosing the label", "“product”", "“price”", "--label"]);
    place.run_rejected(&["doctor", "goods.csv"], &["“product”", "“price”", "--label"]);
    place.run(&["train", "goods.csv", "--label", "product", "--model", "ngrams", "--out", "product"]).assert_success();
    let words = ["a.csv: choosing what to predict", "--label queue", "--labels urgent,billing,refund"];
    place.run_rejected(&["train", "a.csv"], &words);
    place.run(&[&["train", "a.csv", "--label", "queue"], &NGRAMS[..]].concat()).assert_success();
    place.write(
        "b.csv",
        table("ticket_id,channel,category", &all, |[text, label]| {
            let number = text.rsplit(' ').next().unwrap_or_default();
            format!("TKT-{number:0>6},{},{label}", ["Chat", "Mail"][text.len() % 2])
        }),
    );
    place.run_rejected(&["train", "b.csv"], &["b.csv: choosing the text column", "--text"]);
    let output = place.run(&["train", "https://example.org/train.csv"]);
    assert!(output.code == 2 && output.stderr.contains("download it first"), "{output:#?}");
}
