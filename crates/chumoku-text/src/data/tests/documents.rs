//! Documents from plain text and from tables, and their split.

use std::collections::BTreeSet;

use super::*;

fn load(name: &str, bytes: impl AsRef<[u8]>, breaks: DocumentBreaks) -> Documents {
    let folder = Folder::new();
    load_documents(&folder.file(name, bytes), breaks, &ReadOptions::default()).unwrap()
}

/// The description without the file name.
fn about(documents: &Documents) -> &str {
    documents.description.split_once(": ").unwrap().1
}

#[test]
fn a_text_may_be_one_document() {
    let text = "First line,\nsecond line.\n\n\u{3000}\nThird é\u{1F600}";
    let whole = load("a.txt", text, DocumentBreaks::Whole);
    assert_eq!(whole.texts, [text]);
    assert_eq!(about(&whole), "plain text; 1 document of 36 characters (the file as a whole, as requested)");
    let auto = load("a.txt", text, DocumentBreaks::Auto);
    assert_eq!(auto.texts, [text]);
    assert_eq!(
        about(&auto),
        "plain text; 1 document of 36 characters (the file as a whole: only 16 characters lie between two blank lines on \
         average)"
    );
    let single = load("poem", "rose,\nred,\nviolet,\nblue,\n", DocumentBreaks::Auto);
    assert_eq!(single.texts, ["rose,\nred,\nviolet,\nblue,\n"]);
    assert!(about(&single).ends_with("(the file as a whole: it has no blank lines)"));
    // Windows line ends, a byte order mark and gzip are not part of the text.
    let zipped = load("a.txt.gz", gz("\u{feff}one\r\ntwo\r\n"), DocumentBreaks::Auto);
    assert_eq!(zipped.texts, ["one\ntwo\n"]);
    assert_eq!(
        about(&zipped),
        "plain text, gzip; 1 document of 8 characters (the file as a whole: it has no blank lines)"
    );
}

#[test]
fn a_text_is_split_at_blank_lines() {
    let text = "\n\none\ntwo\n \t\n\nthree\r\n\r\nfour\n\n";
    let cut = load("a.txt", text, DocumentBreaks::BlankLines);
    assert_eq!(cut.texts, ["one\ntwo", "three", "four"]);
    assert_eq!(about(&cut), "plain text; 3 documents of 16 characters (cut at blank lines, as requested)");
    // Pieces of a thousand characters or more are documents.
    for (length, documents) in [(999, 1), (1_000, 2)] {
        let piece = "字".repeat(length);
        let auto = load("a.txt", format!("{piece}\n\n{piece}\n"), DocumentBreaks::Auto);
        assert_eq!(auto.texts.len(), documents);
    }
    let piece = "x".repeat(1_500);
    let auto = load("a.txt", format!("{piece}\n\n{piece}"), DocumentBreaks::Auto);
    assert!(about(&auto).ends_with("(cut at blank lines: 1500 characters lie between two of them on average)"));
}

#[test]
fn rows_are_documents() {
    let lines = "{\"id\":1,\"text\":\"one\\n\\ntwo\"}\n{\"id\":2,\"text\":\"three\"}\n";
    let documents = load("a.jsonl", lines, DocumentBreaks::Auto);
    assert_eq!(documents.texts, ["one\n\ntwo", "three"]);
    assert!(
        about(&documents)
            .ends_with("text = column “text” (its name), no label; not used: column “id”; 2 documents, one per row")
    );
    assert_eq!(load("a.csv", "title,text\na,b c\nd,e f\n", DocumentBreaks::Auto).texts, ["b c", "e f"]);
    // Equal numbers of commas do not make plain text a table, but a CSV extension does.
    let poem = "one,two\nthree,four\n";
    assert_eq!(load("a.txt", poem, DocumentBreaks::Auto).texts, [poem]);
}

#[test]
fn bad_lines_and_rows_are_reported_or_skipped() {
    let folder = Folder::new();
    let message = |path: &Path, options: &ReadOptions| {
        folder.message(&load_documents(path, DocumentBreaks::Auto, options).unwrap_err())
    };
    let long = format!("one\n{}\nthree\n", "x".repeat(MAX_TEXT_BYTES as usize + 1));
    let path = folder.file("a.txt", long);
    assert!(message(&path, &ReadOptions::default()).starts_with("a.txt:2: reading a line: expected at most 16 MiB"));
    let documents = load_documents(&path, DocumentBreaks::Auto, &skipping()).unwrap();
    assert_eq!((documents.texts[0].as_str(), documents.skipped.count), ("one\nthree\n", 1));
    let empty = folder.file("b.txt", "\n \n".repeat(40_000));
    assert!(message(&empty, &skipping()).starts_with("b.txt: reading the data: expected rows, found an empty file"));
    let bad = folder.file("c.txt", b"one\ntw\xff");
    assert!(message(&bad, &skipping()).starts_with("c.txt:2:3: reading text: expected UTF-8"));
    let rows = folder.file("d.jsonl", "{\"text\":\"a b\"}\n{\"text\":\" \"}\n");
    assert!(
        message(&rows, &ReadOptions::default()).starts_with("d.jsonl:2: reading the text: expected some characters")
    );
    assert_eq!(load_documents(&rows, DocumentBreaks::Auto, &skipping()).unwrap().skipped.count, 1);
}

#[test]
fn few_documents_are_split_by_position() {
    let whole = load("a.txt", "語".repeat(1_000) + "\n", DocumentBreaks::Auto);
    let parts = whole.split(1, 0.1, 0.0);
    let chars = |texts: &[String]| texts.iter().map(|text| text.chars().count()).collect::<Vec<_>>();
    assert_eq!((chars(&parts.train), chars(&parts.valid), chars(&parts.test)), (vec![900], vec![101], vec![]));
    assert_eq!(parts.description, "the first 900 characters to train on, the next 101 to validate");
    assert!(parts.valid[0].ends_with("語\n"));
    // Boundaries may be inside documents, so a document may be in several sets.
    let three = load("a.txt", "aaaaaaaaaa\n\nbbbbbbbb\n\ncc", DocumentBreaks::BlankLines);
    let parts = three.split(1, 0.25, 0.25);
    assert_eq!(parts.train, ["aaaaaaaaaa"]);
    assert_eq!(parts.valid, ["bbbbb"]);
    assert_eq!(parts.test, ["bbb", "cc"]);
    assert_eq!(parts.description, "the first 10 characters to train on, the next 5 to validate, the last 5 to test");
}

#[test]
fn many_documents_are_split_one_by_one() {
    let row = |i: usize| format!("document {}\n\n", i % 45);
    let many = load("a.txt", (0..50).map(row).collect::<String>(), DocumentBreaks::BlankLines);
    let parts = many.split(1, 0.2, 0.2);
    assert_eq!(parts.train.len() + parts.valid.len() + parts.test.len(), 50);
    let sets = [&parts.train, &parts.valid, &parts.test].map(|texts| texts.iter().collect::<BTreeSet<_>>());
    assert_eq!(sets.each_ref().map(BTreeSet::len), [27, 9, 9]);
    assert!(sets[0].is_disjoint(&sets[1]) && sets[0].is_disjoint(&sets[2]) && sets[1].is_disjoint(&sets[2]));
    assert_ne!(parts.test, many.split(2, 0.2, 0.2).test);
    assert_eq!(many.split(1, 0.0, 0.0).train, many.texts);
    // Equal documents cannot be split document by document.
    let same = load("a.txt", "the same\n\n".repeat(20), DocumentBreaks::BlankLines);
    assert!(!same.split(1, 0.1, 0.0).valid.is_empty());
}
