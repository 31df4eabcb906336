//! Rows that the writer writes read back the same.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

/// Generates fields with everything that could confuse a format.
fn field() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a\"',;|\t\r\n \u{feff}é注{}\\\\]{0,8}",
        "\"[ab\"\t]{0,4}\"?",
        "__label__a|\\{\\}|0|1\\.5|text|label",
        "[^\0]{0,12}",
    ]
}

fn table() -> impl Strategy<Value = Vec<Vec<String>>> {
    (1..5_usize).prop_flat_map(|width| proptest::collection::vec(proptest::collection::vec(field(), width), 1..8))
}

fn written(layout: &TableLayout, rows: &[Vec<String>], added: &[&str], values: &[Value]) -> Result<Vec<u8>, DataError> {
    let mut writer = RecordWriter::new(Vec::new(), layout, added, OutputFormat::LikeInput)?;
    for fields in rows {
        writer.write(&Record { line: 0, fields: fields.clone(), object: None }, values)?;
    }
    writer.finish()
}

fn layout(format: Format, header: Option<&[String]>, width: usize) -> TableLayout {
    let columns = header.map_or_else(|| (0..width).map(|c| format!("c{c}")).collect(), <[String]>::to_vec);
    TableLayout { path: PathBuf::new(), format, header: header.is_some(), columns }
}

/// Reads bytes in a known form, with the text in the first column.
fn read(bytes: Vec<u8>, format: Format, header: bool) -> (Vec<String>, Vec<Vec<String>>) {
    let options =
        ReadOptions { format: Some(format), header: Some(header), text: Some("1".into()), ..ReadOptions::default() };
    // A column may be named “1”, so the number is not used to select it.
    let bytes = std::io::Cursor::new(bytes);
    let source = RowSource::from_reader(Path::new("x"), bytes, &options).unwrap();
    let columns = source.layout().columns.clone();
    (columns, source.records().map(|record| record.unwrap().fields).collect())
}

proptest! {
    #[test]
    fn csv_round_trip(rows in table(), header: bool, delimiter in prop_oneof![Just(','), Just(';'), Just('\t'), Just('|')]) {
        let format = Format::Csv { delimiter };
        let (names, body) = if header { (Some(rows[0].clone()), &rows[1..]) } else { (None, &rows[..]) };
        prop_assume!(!body.is_empty());
        // A file of white space counts as empty.
        prop_assume!(rows.iter().flatten().any(|field| !field.trim().is_empty()));
        let bytes = written(&layout(format, names.as_deref(), rows[0].len()), body, &[], &[]).unwrap();

        // Other readers agree.
        let mut peer = csv::ReaderBuilder::new().has_headers(false).delimiter(delimiter as u8).from_reader(bytes.as_slice());
        let peer_rows: Vec<Vec<String>> =
            peer.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect();
        prop_assert_eq!(&peer_rows, &rows);

        let (columns, read) = read(bytes, format, header);
        if let Some(names) = names {
            prop_assert_eq!(columns, names);
        }
        prop_assert_eq!(read, body);
    }

    #[test]
    fn tsv_round_trip(rows in table(), header: bool) {
        let (names, body) = if header { (Some(rows[0].clone()), &rows[1..]) } else { (None, &rows[..]) };
        prop_assume!(!body.is_empty());
        prop_assume!(rows.iter().flatten().any(|field| !field.trim().is_empty()));
        // Like `predict`: a column of plain values at the end.
        let result = written(&layout(Format::Tsv, names.as_deref(), rows[0].len()), body, &["p"], &[json!(0.5)]);
        match result {
            // Only line breaks can be refused.
            Err(error) => {
                let refused = matches!(error, DataError::UnwritableRow { .. });
                prop_assert!(refused, "{}", error);
                prop_assert!(rows.iter().flatten().any(|field| field.contains('\n')));
            }
            Ok(bytes) => {
                let (_, read) = read(bytes, Format::Tsv, header);
                let expected: Vec<Vec<String>> =
                    body.iter().map(|row| row.iter().cloned().chain(["0.5".to_owned()]).collect()).collect();
                prop_assert_eq!(read, expected);
            }
        }
    }

    /// A TSV writer can write what a TSV reader has read. The exception is a row with both line breaks and tabs in its
    /// fields, because its first line may have the right number of tabs.
    #[test]
    fn tsv_is_stable(content in "(\"?[ab\"\t]{0,6}\"?[\t\n]){1,12}") {
        let source = |bytes: Vec<u8>| {
            let options = ReadOptions {
                format: Some(Format::Tsv), header: Some(false), text: Some("1".into()), skip_bad_rows: true,
                ..ReadOptions::default()
            };
            RowSource::from_reader(Path::new("x"), std::io::Cursor::new(bytes), &options)
        };
        if let Ok(first) = source(content.into_bytes()) {
            let layout = first.layout().clone();
            let rows: Vec<Vec<String>> = first.records().map(|record| record.unwrap().fields).collect();
            match written(&layout, &rows, &["p"], &["x".into()]) {
                Err(_) => prop_assert!(
                    rows.iter().any(|row| ['\n', '\t'].iter().all(|&c| row.iter().any(|field| field.contains(c))))
                ),
                Ok(bytes) => {
                    let again: Vec<Vec<String>> = source(bytes).unwrap().records().map(|r| r.unwrap().fields).collect();
                    prop_assert_eq!(again.len(), rows.len());
                    for (again, row) in again.iter().zip(&rows) {
                        prop_assert_eq!(&again[..row.len()], &row[..]);
                    }
                }
            }
        }
    }

    #[test]
    fn json_round_trip(objects in proptest::collection::vec(object(), 1..6)) {
        let mut content: String = objects.iter().map(|object| serde_json::to_string(object).unwrap() + "\n").collect();
        content = format!("{{\"text\":\"x\"}}\n{content}");
        let source =
            RowSource::from_reader(Path::new("x.jsonl"), std::io::Cursor::new(content), &ReadOptions::default()).unwrap();
        let mut writer =
            RecordWriter::new(Vec::new(), source.layout(), &["label", "probability"], OutputFormat::LikeInput).unwrap();
        for record in source.records() {
            writer.write(&record.unwrap(), &["a\n".into(), json!(0.5)]).unwrap();
        }
        let bytes = writer.finish().unwrap();
        let lines: Vec<Map<String, Value>> =
            String::from_utf8(bytes).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        prop_assert_eq!(lines.len(), objects.len() + 1);
        for (line, object) in lines[1..].iter().zip(&objects) {
            // All keys in order, then the two new ones.
            let kept: Vec<_> = line.iter().take(object.len()).collect();
            prop_assert_eq!(kept, object.iter().collect::<Vec<_>>());
            prop_assert_eq!(line.len(), object.len() + 2);
            prop_assert_eq!(line.values().nth(object.len()), Some(&json!("a\n")));
        }
    }
}

fn object() -> impl Strategy<Value = Map<String, Value>> {
    let value = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[^\0]{0,8}".prop_map(Value::from),
        proptest::collection::vec("[a-c\"]{0,3}", 0..3).prop_map(Value::from),
    ];
    proptest::collection::vec(("[ab\"é]{1,3}|label|predicted_label", value), 0..5)
        .prop_map(|pairs| pairs.into_iter().collect())
}

/// Copies a whole file through the writer.
fn through(name: &str, content: &str, form: OutputFormat) -> String {
    let input = std::io::Cursor::new(content.to_owned());
    let source = RowSource::from_reader(Path::new(name), input, &ReadOptions::default()).unwrap();
    let mut writer = RecordWriter::new(Vec::new(), source.layout(), &["label", "probability"], form).unwrap();
    for record in source.records() {
        writer.write(&record.unwrap(), &["A".into(), json!(0.25)]).unwrap();
    }
    String::from_utf8(writer.finish().unwrap()).unwrap()
}

#[test]
fn each_format_is_written_like_the_input() {
    let through = |name, content| through(name, content, OutputFormat::LikeInput);
    assert_eq!(
        through("a.csv", "id,text\r\n7,\"a, b\"\r\n8,c d\r\n"),
        "id,text,label,probability\n7,\"a, b\",A,0.25\n8,c d,A,0.25\n"
    );
    assert_eq!(through("a.csv", "Label;text\nx;a b\n"), "Label;text;predicted_label;probability\nx;a b;A;0.25\n");
    assert_eq!(through("a.tsv", "a b\t1\nc d\t1\n"), "a b\t1\tA\t0.25\nc d\t1\tA\t0.25\n");
    assert_eq!(
        through("a.txt", "say \"hi\"\n\"hi\n\n"),
        "text\tlabel\tprobability\nsay \"hi\"\tA\t0.25\n\"\"\"hi\"\tA\t0.25\n\tA\t0.25\n"
    );
    assert_eq!(
        through("a.txt", "__label__x one two\n"),
        "label\ttext\tpredicted_label\tprobability\nx\tone two\tA\t0.25\n"
    );
    assert_eq!(
        through("a.jsonl", "{\"z\":[1, 2],\"text\":\"t\",\"a\":null}\n{\"text\":\"u\",\"label\":3}\n"),
        "{\"z\":[1,2],\"text\":\"t\",\"a\":null,\"predicted_label\":\"A\",\"probability\":0.25}\n\
         {\"text\":\"u\",\"label\":3,\"predicted_label\":\"A\",\"probability\":0.25}\n"
    );
}

#[test]
fn any_format_is_written_as_json_on_request() {
    let through = |name, content| through(name, content, OutputFormat::JsonLines);
    assert_eq!(
        through("a.csv", ",text,text\n7,a b c,d\n"),
        "{\"column_1\":\"7\",\"text\":\"a b c\",\"text_2\":\"d\",\"label\":\"A\",\"probability\":0.25}\n"
    );
    assert_eq!(
        through("a.tsv", "a b\t1\nc d\t1\n"),
        "{\"text\":\"a b\",\"column_2\":\"1\",\"label\":\"A\",\"probability\":0.25}\n\
         {\"text\":\"c d\",\"column_2\":\"1\",\"label\":\"A\",\"probability\":0.25}\n"
    );
    assert_eq!(through("a.txt", "One text.\n"), "{\"text\":\"One text.\",\"label\":\"A\",\"probability\":0.25}\n");
}

#[test]
fn tsv_refuses_unreadable_line_breaks() {
    let rows = vec![vec!["a".to_owned(), "tab\tand\nbreak".to_owned()]];
    let names = ["x".to_owned(), "y".to_owned()];
    let error = written(&layout(Format::Tsv, Some(&names), 2), &rows, &[], &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "writing row 1: expected fields that a TSV file can hold, found a line break that would be read back wrongly; \
         write JSON instead (--json)"
    );
}

/// An output that fails, like a full disk or a closed pipe.
struct Failing(std::io::ErrorKind);

impl Write for Failing {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Err(self.0.into())
    }
}

#[test]
fn failing_outputs_are_errors() {
    for format in [Format::Csv { delimiter: ',' }, Format::Tsv, Format::JsonLines] {
        for (kind, broken) in [(std::io::ErrorKind::BrokenPipe, true), (std::io::ErrorKind::StorageFull, false)] {
            let run = || -> Result<Failing, DataError> {
                let layout = layout(format, None, 1);
                let mut writer = RecordWriter::new(Failing(kind), &layout, &["label"], OutputFormat::LikeInput)?;
                writer.write(&Record { line: 1, fields: vec!["a".into()], object: None }, &["x".into()])?;
                writer.finish()
            };
            let error = run().err().unwrap();
            assert_eq!(error.is_broken_pipe(), broken, "{format}: {error}");
        }
    }
}
