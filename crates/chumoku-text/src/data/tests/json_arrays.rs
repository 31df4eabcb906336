//! JSON arrays: objects, texts or lists, on one line or on many.

use super::*;

fn about(name: &str, content: &str) -> (Vec<Vec<String>>, String) {
    let folder = Folder::new();
    let path = folder.file(name, content);
    let source = RowSource::open(&path, &ReadOptions::default()).unwrap();
    let description = source.describe().replace(&*path.display().to_string(), name);
    (source.records().map(|record| record.unwrap().fields).collect(), description)
}

#[test]
fn objects_are_rows_in_any_formatting() {
    let one = "[{\"text\":\"a, ] \\\" 日本\",\"label\":1},{\"label\":\"x\",\"text\":\"b\\nc\"}]";
    let pretty = "\u{feff}[\n  {\n    \"text\": \"a, ] \\\" 日本\",\n    \"label\": 1\n  } ,\r\n {\"label\":\"x\",\"text\":\"b\\nc\"}\n]\n\n";
    let key = format!("{{\"data\": {one}}}");
    let spread = format!("{{ \"data\" :\n{pretty} }}").replace('\u{feff}', "");
    let version = format!("{{\"version\": 1, \"name\": \"x\", \"data\": {one}}}\n");
    for content in [one, pretty, &key, &spread, &version] {
        for name in ["a.json", "a.jsonl", "a", "a.txt"] {
            let (rows, description) = about(name, content);
            assert_eq!(rows, [["a, ] \" 日本", "1"], ["b\nc", "x"]], "{name}: {content}");
            let expected =
                format!("{name}: JSON, an array of objects, 2 keys (it is one JSON array); text = column “text”");
            assert!(description.starts_with(&expected), "{description}");
        }
    }
}

#[test]
fn texts_and_lists_are_rows_too() {
    let (rows, description) = about("a.json", "[\"one\", \"two\\t\", \"\"]");
    assert_eq!(rows, [["one"], ["two\t"], [""]]);
    assert!(description.starts_with("a.json: JSON, an array of strings (it is one JSON array)"), "{description}");
    let (rows, description) = about("a.json", "[[\"text\",\"label\"],[\"a\",1],[\"b\",null],[\"c\",[\"x\",\"y\"]]]");
    assert_eq!(rows, [["a", "1"], ["b", ""], ["c", "[\"x\",\"y\"]"]]);
    assert!(description.starts_with("a.json: JSON, an array of lists, with a header, 2 columns"), "{description}");
    let (rows, description) = about("a.json", "[[\"a film of war\",\"x\"],[\"a film of love\",\"x\"]]");
    assert_eq!(rows.len(), 2);
    assert!(description.contains("without a header"), "{description}");
}

#[test]
fn other_json_is_not_read_as_an_array() {
    let jsonl = "{\"labels\":[\"a\"],\"text\":\"x\"}\n{\"labels\":[\"b\"],\"text\":\"y\"}\n";
    let row = "{\"text\":\"東京です\",\"spans\":[{\"start\":0,\"end\":2,\"label\":\"place\"}]}\n";
    for name in ["a.json", "a.jsonl", "a"] {
        for content in [jsonl, row, &row.replace("text", "Text")] {
            assert!(about(name, content).1.starts_with(&format!("{name}: JSONL")), "{name}: {content}");
        }
    }
    for text in ["[Chorus] la la\n[Verse] lo lo\n", "[1] a note\n", "[\"quoted\" words]\n"] {
        assert!(about("a.txt", text).1.starts_with("a.txt: plain text"), "{text}");
    }
    let options = ReadOptions { format: Some(Format::Json), ..labeled() };
    let message = message("a.txt", "text,label\na,b\n", &options);
    assert!(
        message.starts_with("a.txt:1:1: reading a JSON array: expected an array of rows ([…]), found “t”"),
        "{message}"
    );
}

#[test]
fn lists_may_hold_several_labels() {
    let folder = Folder::new();
    let rows = |of: fn(usize) -> String| format!("[{}]", (0..12).map(of).collect::<Vec<_>>().join(",\n"));
    let objects = rows(|i| format!("{{\"text\":\"text {i}\",\"labels\":[\"a\",\"b{}\"]}}", i % 2));
    let lists = format!("[[\"text\",\"labels\"],{}", &rows(|i| format!("[\"text {i}\",[\"a\",\"b{}\"]]", i % 2))[1..]);
    for content in [objects, lists] {
        let path = folder.file("a.json", content);
        let sets = load_multi_label(&path, &ReadOptions::default(), &LabelOptions::default()).unwrap();
        assert_eq!(sets.examples[1].labels, ["a", "b1"]);
    }
}

#[test]
fn errors_have_a_location() {
    let rows = "[{\"text\":\"a\",\"label\":1},\n {\"text\":\"日本\" \"label\":1},\n {\"text\":\"b\",\"label\":2}, 7, {\"text\":\"\",\"label\":3}]";
    let advice = "or leave such rows out with --skip-bad-rows";
    assert_eq!(
        message("a.json", rows, &labeled()),
        format!(
            "a.json:2:15: reading JSON: expected a valid element (number 2 of the array), found: expected `,` or `}}`; correct it, {advice}"
        )
    );
    let error = message("a.json", rows.replace("\"日本\" ", "\"日本\","), &labeled());
    assert!(error.starts_with("a.json, row 4: reading JSON: expected an object, found a number; "), "{error}");
    let empty = message("a.json", "[{\"text\":\"a\",\"label\":1},{\"text\":\" \",\"label\":1}]", &labeled());
    assert!(empty.starts_with("a.json, row 2: reading the text: expected some characters"), "{empty}");
    let folder = Folder::new();
    let dataset =
        load_labeled(&folder.file("a.json", rows), &ReadOptions { require_text: true, ..skipping() }).unwrap();
    assert_eq!((dataset.examples.len(), dataset.skipped.count), (2, 3));
    assert_eq!(dataset.skipped.rows.iter().map(|row| row.line).collect::<Vec<_>>(), [2, 4, 5]);
    let ragged = message("a.json", "[[\"text\",\"label\"],[\"a\",1],[\"b\",1,2]]", &labeled());
    assert!(ragged.contains("row 3: reading a JSON row: expected 2 columns, as in row 1, found 3"), "{ragged}");
}

#[test]
fn errors_that_end_reading_are_reported_even_if_rows_are_skipped() {
    let cases = [
        (
            "[{\"text\":\"a\",\"label\":1}",
            "a.json:1:24: reading a JSON array: expected a comma or ], found the end of the file",
        ),
        ("[{\"text\":\"a\",\"label\":1} {\"text\":\"b\"}]", "expected a comma or ], found “{” (elements before it: 1)"),
        (
            "[{\"text\":\"a\",\"label\":1},\n{\"text\":\"b",
            "a.json:2:11: reading a JSON array: expected the end of a string",
        ),
        (
            "[{\"text\":\"a\",\n\"label\":1}]\n[]",
            "a.json:3:1: reading a JSON array: expected the end of the file, found “[”",
        ),
        (
            "{\"data\":\n[{\"text\":\"a\",\"label\":1}], 7}",
            "expected a colon after a key that holds an array, found “7”",
        ),
    ];
    for (content, expected) in cases {
        let message = message("a.json", content, &skipping());
        assert!(message.contains(expected) && message.contains("written whole"), "{message}");
    }
    let message = message("a.json", b"[{\"text\":\"\x83\x65\",\"label\":1}, 2]", &labeled());
    assert!(message.contains("expected UTF-8, found other bytes at byte 10 of the file"), "{message}");
}

#[test]
fn rows_are_bounded_and_their_number_is_not() {
    let folder = Folder::new();
    let long = format!("[{{\"text\":\"{}\",\"label\":1}},{{\"text\":\"a\",\"label\":1}}]", "a".repeat(33 << 20));
    let path = folder.file("a.json", long);
    let message = folder.message(&load_labeled(&path, &labeled()).unwrap_err());
    assert!(message.starts_with("a.json:1: reading a row: expected at most 32"), "{message}");
    assert_eq!(load_labeled(&path, &skipping()).unwrap().examples.len(), 1);
    // More than the head used for detection, on one line.
    let rows: Vec<String> = (0..5_000).map(|i| format!("{{\"text\":\"text {i}\",\"label\":\"x{}\"}}", i % 2)).collect();
    let path = folder.file("b", format!("{{\"rows\":[{}]}}", rows.join(",")));
    assert_eq!(load_labeled(&path, &labeled()).unwrap().examples.len(), 5_000);
}
