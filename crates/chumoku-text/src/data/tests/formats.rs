//! Every format, plain and gzipped, and what is detected in it.

use super::*;
use std::path::MAIN_SEPARATOR;

const EXPECTED: [(&str, &str); 4] =
    [("great food, really", "pos"), ("bad \"service\"", "neg"), ("とても良い", "pos"), ("so so", "neg")];

fn expected() -> Vec<(String, String)> {
    EXPECTED.iter().map(|&(text, label)| (text.to_owned(), label.to_owned())).collect()
}

/// The same four rows in each format.
fn files() -> Vec<(&'static str, String)> {
    let rows = |write: &dyn Fn(&str, &str) -> String| {
        EXPECTED.iter().map(|(text, label)| write(text, label) + "\n").collect::<String>()
    };
    let csv = rows(&|text, label| format!("\"{}\",{label}", text.replace('"', "\"\"")));
    let tsv = rows(&|text, label| format!("{text}\t{label}"));
    let semicolons = rows(&|text, label| format!("{label};\"{}\"", text.replace('"', "\"\"")));
    let json = rows(&|text, label| serde_json::json!({"id": 7, "text": text, "label": label}).to_string());
    let fast = rows(&|text, label| format!("__label__{label} {text}"));
    vec![
        ("a.csv", format!("review,stars\n{csv}")),
        ("b.csv", csv.clone()),
        ("c.tsv", format!("text\tlabel\n{tsv}")),
        ("d.tsv", tsv.clone()),
        ("e.jsonl", json.clone()),
        ("f.txt", fast.clone()),
        ("g.fasttext", fast),
        ("h.dat", tsv),
        ("i.txt", json),
        ("j.csv", format!("感情;本文\n{semicolons}")),
        ("k", semicolons),
        ("l.txt", csv),
    ]
}

#[test]
fn each_format_is_read_plain_and_gzipped() {
    let folder = Folder::new();
    for (name, content) in files() {
        assert_eq!(pairs(&folder.file(name, &content), &labeled()), expected(), "{name}");
        let zipped = folder.file(&format!("{name}.gz"), gz(&content));
        assert_eq!(pairs(&zipped, &labeled()), expected(), "{name}.gz");
        // Gzip is recognized by its first bytes, whatever the name.
        let disguised = folder.file(name, gz(&content));
        assert_eq!(pairs(&disguised, &labeled()), expected(), "{name}, gzipped");
    }
}

#[test]
fn each_format_is_described() {
    let folder = Folder::new();
    let descriptions = files().into_iter().map(|(name, content)| {
        let source = RowSource::open(&folder.file(name, content), &labeled()).unwrap();
        source.describe().replace(&format!("{}{MAIN_SEPARATOR}", folder.0.path().display()), "")
    });
    let expected = [
        "a.csv: CSV with a header, 2 columns (the file's name); text = column “review” (its name), label = column “stars” (its name)",
        "b.csv: CSV without a header, 2 columns (the file's name); text = column 1 (the longest and most varied), label = column 2 (the only other)",
        "c.tsv: TSV with a header, 2 columns (the file's name); text = column “text” (its name), label = column “label” (its name)",
        "d.tsv: TSV without a header, 2 columns (the file's name); text = column 1 (the longest and most varied), label = column 2 (the only other)",
        "e.jsonl: JSONL, 3 keys (the file's name); text = column “text” (its name), label = column “label” (its name); not used: column “id”",
        "f.txt: fastText (its lines begin with __label__); the label is in front of each text",
        "g.fasttext: fastText (the file's name); the label is in front of each text",
        "h.dat: TSV without a header, 2 columns (each line has the same number of tabs); text = column 1 (the longest and most varied), label = column 2 (the only other)",
        "i.txt: JSONL, 3 keys (its lines are JSON objects); text = column “text” (its name), label = column “label” (its name); not used: column “id”",
        "j.csv: CSV (; between fields) with a header, 2 columns (the file's name); text = column “本文” (its name), label = column “感情” (its name)",
        "k: CSV (; between fields) without a header, 2 columns (each line has the same number of fields); text = column 2 (the longest and most varied), label = column 1 (the only other)",
        "l.txt: CSV without a header, 2 columns (each line has the same number of fields); text = column 1 (the longest and most varied), label = column 2 (the only other)",
    ];
    assert_eq!(descriptions.collect::<Vec<_>>(), expected);
}

#[test]
fn byte_order_marks_and_line_ends_do_not_matter() {
    let folder = Folder::new();
    for (name, content) in files() {
        let crlf = content.replace('\n', "\r\n");
        assert_eq!(pairs(&folder.file(name, &crlf), &labeled()), expected(), "{name}, CRLF");
        let mac = content.replace('\n', "\r");
        assert_eq!(pairs(&folder.file(name, &mac), &labeled()), expected(), "{name}, CR");
        let marked = format!("\u{feff}{content}");
        assert_eq!(pairs(&folder.file(name, &marked), &labeled()), expected(), "{name}, UTF-8 mark");
        let open_end = content.trim_end();
        assert_eq!(pairs(&folder.file(name, open_end), &labeled()), expected(), "{name}, open end");
        for (order, mark) in [("le", [0xff, 0xfe]), ("be", [0xfe, 0xff])] {
            let units = content.encode_utf16();
            let bytes = units.flat_map(|unit| if order == "le" { unit.to_le_bytes() } else { unit.to_be_bytes() });
            let utf16: Vec<u8> = mark.into_iter().chain(bytes).collect();
            assert_eq!(pairs(&folder.file(name, &utf16), &labeled()), expected(), "{name}, UTF-16{order}");
            assert_eq!(pairs(&folder.file(name, gz(&utf16)), &labeled()), expected(), "{name}, UTF-16{order}, gzip");
        }
    }
}

#[test]
fn encodings_are_decoded_as_named() {
    let folder = Folder::new();
    for (name, content) in files() {
        for (label, encoding) in [("shift_jis", encoding_rs::SHIFT_JIS), ("EUC-JP", encoding_rs::EUC_JP)] {
            // Long enough that characters straddle the ends of all buffers, at every offset.
            let japanese = content.lines().find(|line| line.contains("とても")).unwrap();
            let long = format!("{content}{}", format!("{japanese}\n").repeat(10_000));
            let (bytes, _, lost) = encoding.encode(&long);
            assert!(!lost);
            let options = ReadOptions { encoding: Some(label.into()), ..labeled() };
            let source = RowSource::open(&folder.file(name, &bytes), &options).unwrap();
            let decoded = format!(", decoded from {} (", encoding.name());
            assert!(source.describe().contains(&decoded), "{}", source.describe());
            let examples = source.into_dataset().unwrap().examples;
            assert_eq!(examples.len(), 10_004, "{name}");
            for example in &examples[4..] {
                assert_eq!((example.text.as_row().text(), example.label.as_str()), EXPECTED[2], "{name}");
            }
        }
    }
}

#[test]
fn plain_text_has_one_text_per_line() {
    let folder = Folder::new();
    let prose = "Well, this is prose.\nNo table, that is.\n\nEnd, at last.\n";
    let path = folder.file("a.txt", prose);
    let source = RowSource::open(&path, &ReadOptions::default()).unwrap();
    assert_eq!(source.layout().format, Format::PlainText);
    assert_eq!(
        rows(&path, &ReadOptions::default()),
        [["Well, this is prose."], ["No table, that is."], [""], ["End, at last."]]
    );
    assert!(source.describe().ends_with("a.txt: plain text (no field delimiter fits all lines); each line is a text"));
}

#[test]
fn blank_lines_are_not_rows() {
    let folder = Folder::new();
    for (name, content) in
        [("a.csv", "\ntext,label\n\n \na,x\n\t\nb,y\n \n"), ("a.tsv", "\ntext\tlabel\n \na\tx\n\nb\ty\n  \n")]
    {
        let path = folder.file(name, content);
        assert_eq!(rows(&path, &labeled()), [["a", "x"], ["b", "y"]], "{name}");
    }
}

#[test]
fn csv_fields_may_span_lines() {
    let folder = Folder::new();
    let path = folder.file("a.csv", "text,label\r\n\"one\r\ntwo\n\nthree, \"\"four\"\"\",x\r\n\r\nfive\"5,y\r\n");
    let dataset = load_labeled(&path, &labeled()).unwrap();
    let lines: Vec<u64> = dataset.examples.iter().map(|example| example.line).collect();
    assert_eq!(lines, [2, 7]);
    assert_eq!(dataset.examples[0].text, "one\r\ntwo\n\nthree, \"four\"");
    assert_eq!(dataset.examples[1].text, "five\"5");
}

#[test]
fn tsv_quotes_are_read_so_that_the_row_fits() {
    let folder = Folder::new();
    let content = "text\tlabel\n\"unbalanced\t0\nsay \"hi\"\t1\n\"in quotes\"\t0\n\"a \"\"b\"\" c\"\t1\n\"tab\tinside\"\t0\n\
                   \"two\nlines\"\t1\n\"lone\"word\t0\n\"x\t\"1\"\n";
    let texts: Vec<String> = pairs(&folder.file("a.tsv", content), &labeled()).into_iter().map(|pair| pair.0).collect();
    let expected =
        ["\"unbalanced", "say \"hi\"", "in quotes", "a \"b\" c", "tab\tinside", "two\nlines", "\"lone\"word", "\"x"];
    assert_eq!(texts, expected);
    // Quotes that would join two fields are ordinary characters if the row then fits.
    let path = folder.file("b.tsv", "text\tlabel\n\"a\tb\"\nc\td\n");
    assert_eq!(rows(&path, &labeled()), [["\"a", "b\""], ["c", "d"]]);
}

#[test]
fn fasttext_labels_may_follow_the_text() {
    let folder = Folder::new();
    let path = folder.file("a.ft", "__label__a  one two \n\nthree four __label__b\n");
    assert_eq!(pairs(&path, &labeled()), [("one two".into(), "a".into()), ("three four".into(), "b".into())]);
    // Prediction does not need labels.
    let path = folder.file("b.ft", "__label__a one\ntwo\n");
    assert_eq!(rows(&path, &ReadOptions::default()), [["a", "one"], ["", "two"]]);
}

#[test]
fn json_labels_may_be_strings_numbers_or_booleans() {
    let folder = Folder::new();
    let content = "{\"text\":\"a\",\"label\":\"x\"}\n{\"label\":1,\"text\":\"b\"}\n\n{\"text\":3,\"label\":true,\"more\":[1]}\n\
                   {\"text\":\"d\",\"label\":-1.5}\n";
    let path = folder.file("a.jsonl", content);
    let expected = [("a", "x"), ("b", "1"), ("3", "true"), ("d", "-1.5")];
    assert_eq!(pairs(&path, &labeled()), expected.map(|(text, label)| (text.to_owned(), label.to_owned())));
    let record = RowSource::open(&path, &labeled()).unwrap().records().nth(2).unwrap().unwrap();
    assert_eq!(record.line, 4);
    assert_eq!(serde_json::to_string(&record.object).unwrap(), "{\"text\":3,\"label\":true,\"more\":[1]}");
}

#[test]
fn streams_are_read_like_files() {
    let input = std::io::Cursor::new("text\tlabel\nA\tx\n\nB\ty\n");
    let source = RowSource::from_reader(Path::new("standard input"), input, &labeled()).unwrap();
    assert_eq!(source.layout().format, Format::Tsv);
    let dataset = source.into_dataset().unwrap();
    assert_eq!(dataset.location(1).to_string(), "standard input:4");
}

/// Returns the part of the description that names the format.
fn taken_for(name: &str, content: &str, options: &ReadOptions) -> String {
    let source = RowSource::from_reader(Path::new(name), std::io::Cursor::new(content.to_owned()), options).unwrap();
    let layout = source.layout();
    format!("{}{}, {}", layout.format, if layout.header { " with a header" } else { "" }, layout.columns.len())
}

#[test]
fn a_table_without_an_extension_is_detected_by_quotes_and_header() {
    let reading = |content: &str| taken_for("standard input", content, &ReadOptions::default());
    // Many quoted commas and line breaks.
    for quoted in 0..=20 {
        let row = |i: usize| match i < quoted {
            true => format!("{i},\"good, cheap,\n and near {i}\",x\n"),
            false => format!("{i},dear and far away {i},x\n"),
        };
        let rows: String = (0..20).map(row).collect();
        assert_eq!(reading(&format!("id,text,label\n{rows}")), "CSV with a header, 3", "{quoted}");
        assert_eq!(reading(&rows), "CSV, 3", "{quoted}");
        assert_eq!(
            reading(&format!("id,text,label\n{rows}").replace(',', ";")),
            "CSV (; between fields) with a header, 3"
        );
        let tabs = format!("id,text,label\n{rows}").replace("good, cheap,", "good").replace(',', "\t");
        assert_eq!(reading(&tabs), "TSV with a header, 3", "{quoted}");
    }
    // A space after each comma, under known column names.
    assert_eq!(reading("text, label\na fine day, good\na bad day, bad\n"), "CSV with a header, 2");
    // Under a known header, one row in ten may be bad.
    let rows = "fine,good\n".repeat(20);
    assert_eq!(
        taken_for(
            "x",
            &format!("text,label\n{rows}a,b,c\n"),
            &ReadOptions { faults_in_place: true, ..ReadOptions::default() }
        ),
        "CSV with a header, 2"
    );
    // Prose is not a table.
    for prose in [
        "Good, cheap\nBad, dear\n",
        "\"Good,\" she said, smiling.\n\"Bad,\" said he.\n",
        "He wrote: the text, the label.\nAnd more, and more, and more.\n",
        "\"An open quote\nand no end\n",
        "a line; and another\nand a third; yes\n",
    ] {
        assert_eq!(reading(prose), "plain text, 1", "{prose}");
    }
}

#[test]
fn the_delimiter_fits_most_rows_and_the_header() {
    let reading = |content: &str| taken_for("x.csv", content, &ReadOptions::default());
    assert_eq!(
        reading("id;text, raw;label\n1;good, cheap;x\n2;\"bad; dear\";y\n"),
        "CSV (; between fields) with a header, 3"
    );
    assert_eq!(reading("sep=;\ntext;label\ngood;x\nbad;y\n"), "CSV (; between fields) with a header, 2");
    assert_eq!(reading("text;label\n\"good\n;\";x\n\"bad,\n,\";y\n"), "CSV (; between fields) with a header, 2");
    assert_eq!(reading("\"first\nname\",text\n\"a\",b\n"), "CSV with a header, 2");
    let find = |find_delimiter| ReadOptions {
        format: Some(Format::Csv { delimiter: '|' }),
        find_delimiter,
        ..ReadOptions::default()
    };
    assert_eq!(taken_for("x.txt", "a text,good\nb text,bad\n", &find(true)), "CSV, 2");
    assert_eq!(taken_for("x.txt", "a text,good\nb text,bad\n", &find(false)), "CSV (| between fields), 1");
    let rows: Vec<String> =
        RowSource::from_reader(Path::new("x.csv"), "sep=;\ntext;n\ngood;1\n".as_bytes(), &ReadOptions::default())
            .unwrap()
            .records()
            .map(|row| row.unwrap().fields.join("/"))
            .collect();
    assert_eq!(rows, ["good/1"]);
    // A delimiter at the end of each line makes a last column without a name or values.
    assert_eq!(reading("day,mood,\n1,a fine day,\n2,a bad day,\n"), "CSV with a header, 3");
}

#[test]
fn quotes_after_spaces_are_read_as_quotes() {
    let folder = Folder::new();
    let read = |name: &str, content: &str| {
        let path = folder.file(name, content);
        (pairs(&path, &labeled()), RowSource::open(&path, &labeled()).unwrap().describe())
    };
    let two = |rows: &[(&str, &str)]| rows.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>();
    let spaced = "label, text\ngood, \"fine, really\"\nbad,  \"two\nlines, \"\"so\"\"\"\ngood, plain\n";
    for name in ["a.csv", "a.dat"] {
        let (rows, described) = read(name, spaced);
        assert_eq!(rows, two(&[("fine, really", "good"), ("two\nlines, \"so\"", "bad"), ("plain", "good")]));
        assert!(described.contains("spaces after delimiters left out"), "{described}");
    }
    // If text follows a quote, quotes are kept, and the description says where.
    let (rows, described) = read("b.csv", "label,text\ngood, \"fine\"\nbad, \"not\" fine\n");
    assert_eq!(rows, two(&[(" \"fine\"", "good"), (" \"not\" fine", "bad")]));
    assert!(described.contains("quotes after spaces kept: in line 3"), "{described}");
    // Other files stay as they are.
    let (rows, described) = read("c.csv", "label,text\ngood, fine\nbad, \"not\" fine\n");
    assert_eq!(rows, two(&[(" fine", "good"), (" \"not\" fine", "bad")]));
    assert!(!described.contains("spaces"), "{described}");
}
