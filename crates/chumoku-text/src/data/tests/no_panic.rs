//! Arbitrary bytes, names and options give rows or a one-line error, never a panic.

use crate::row::FeatureRequest;
use std::io::Cursor;

use proptest::prelude::*;

use super::*;

const NAMES: [&str; 10] =
    ["x.csv", "x.tsv", "x.json", "x.jsonl", "x.txt", "x.ft", "x.parquet", "x.xlsx", "x", "x.csv.gz"];

/// Generates bytes that look enough like data to get far.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"text,label\n".to_vec()),
        Just(b"__label__a ".to_vec()),
        Just(b"ja\ten\n".to_vec()),
        Just(b"{\"translation\":{\"ja\":\"a\",\"en\":\"b\"}".to_vec()),
        Just(b"{\"text\":\"a\",\"label\":".to_vec()),
        Just(b"}\n".to_vec()),
        Just(b"[".to_vec()),
        Just(b"]".to_vec()),
        Just(b"\"".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\t".to_vec()),
        Just(b",".to_vec()),
        Just(vec![0xef, 0xbb, 0xbf]),
        Just(vec![0xff, 0xfe]),
        Just("とても".as_bytes().to_vec()),
        Just(b"PAR1".to_vec()),
        "[a-c ]{0,6}".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..6),
    ];
    proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn options() -> impl Strategy<Value = ReadOptions> {
    let encoding = prop_oneof![Just(None), Just(Some("shift_jis")), Just(Some("utf-16le")), Just(Some("iso-2022-jp"))];
    let column = prop_oneof![Just(None), Just(Some("1".to_owned())), Just(Some("text".to_owned()))];
    let format = prop_oneof![
        4 => Just(None),
        1 => Just(Some(Format::Csv { delimiter: ';' })),
        1 => Just(Some(Format::Csv { delimiter: '、' })),
        1 => Just(Some(Format::Tsv)),
        1 => Just(Some(Format::JsonLines)),
        1 => Just(Some(Format::FastText)),
        1 => Just(Some(Format::PlainText)),
        1 => Just(Some(Format::Parquet)),
        1 => Just(Some(Format::Excel)),
        1 => Just(Some(Format::Json)),
    ];
    (encoding, column, any::<bool>(), any::<bool>(), any::<Option<bool>>(), format).prop_map(
        |(encoding, text, skip_bad_rows, require_label, header, format)| ReadOptions {
            pairs: skip_bad_rows,
            features: match require_label && header.is_none() {
                true => vec![FeatureRequest {
                    name: "label".into(),
                    is_required: skip_bad_rows,
                    ..FeatureRequest::default()
                }],
                false => Vec::new(),
            },
            several_labels: skip_bad_rows,
            encoding: encoding.map(str::to_owned),
            text,
            label: None,
            skip_bad_rows,
            require_label,
            numbers: require_label && skip_bad_rows,
            require_text: require_label,
            header,
            format,
            sheet: None,
            decimal: header.map(|given| if given { ',' } else { '.' }),
            faults_in_place: header.is_none(),
            find_delimiter: skip_bad_rows,
            missing: header.map(|given| if given { Vec::new() } else { vec!["b".to_owned()] }),
            merge_labels: skip_bad_rows.then(Vec::new),
            training_options: header.map(|_| {
                Box::new(ReadOptions {
                    text: Some("2".into()),
                    label: Some("1".into()),
                    encoding: Some("latin-1".into()),
                    format: Some(Format::Csv { delimiter: ';' }),
                    ..ReadOptions::default()
                })
            }),
            copies: StreamCopies::default(),
            rows_read: RowCounter::default(),
        },
    )
}

fn check(name: &str, bytes: Vec<u8>, options: &ReadOptions) {
    let one_line = |error: &DataError| assert!(!error.to_string().contains(['\n', '\r']), "{error}");
    match RowSource::from_reader(Path::new(name), Cursor::new(bytes.clone()), options) {
        Err(error) => one_line(&error),
        Ok(source) => {
            assert!(!source.describe().contains('\n'));
            let layout = source.layout().clone();
            let mut writer = RecordWriter::new(Vec::new(), &layout, &["label"], OutputFormat::LikeInput).unwrap();
            let mut json = RecordWriter::new(Vec::new(), &layout, &["label"], OutputFormat::JsonLines).unwrap();
            for record in source.records() {
                match record {
                    Ok(record) => {
                        assert_eq!(record.fields.len(), layout.columns.len());
                        if let Err(error) = writer.write(&record, &["x".into()]) {
                            assert!(matches!(error, DataError::UnwritableRow { .. }), "{error}");
                        }
                        json.write(&record, &["x".into()]).unwrap();
                    }
                    Err(error) => one_line(&error),
                }
            }
            writer.finish().unwrap();
            json.finish().unwrap();
        }
    }
    for is_live in [false, true] {
        let input = Cursor::new(bytes.clone());
        let source = match is_live {
            true => RowSource::from_live_stream(Path::new(name), input, options),
            false => RowSource::from_reader(Path::new(name), input, options),
        };
        let Ok(source) = source else { continue };
        let (width, mut records) = (source.layout().columns.len(), source.records());
        while let Ok(Some((record, fault))) = records.next_with_fault() {
            assert_eq!(record.fields.len(), width);
            fault.iter().for_each(one_line);
        }
    }
    if let Ok(source) = RowSource::from_reader(Path::new(name), Cursor::new(bytes), options) {
        match source.into_dataset() {
            Err(error) => one_line(&error),
            Ok(dataset) => {
                let _ = dataset.check_trainable();
                let _ = split(&dataset.examples, 0, 0.2, 0.2);
            }
        }
    }
}

/// Reads the same bytes as pairs, as one side of pairs, and as documents.
fn check_pairs_and_documents(name: &str, bytes: &[u8], options: &ReadOptions) {
    let folder = Folder::new();
    let path = folder.file(name, bytes);
    let parallel = DataFiles::Parallel { source: folder.file("other", "a\nb\n\nc"), target: path.clone() };
    for files in [DataFiles::One(path.clone()), parallel] {
        match load_pairs(&files, options) {
            Err(error) => drop(folder.message(&error)),
            Ok(data) => {
                assert!(!data.description.contains('\n'));
                let _ = PairSplit::new(&data, Some(&data), None);
                assert!(data.pairs.iter().all(|pair| !pair.source.is_empty() && !pair.target.is_empty()));
            }
        }
        match detect_task(&files, options) {
            Err(error) => drop(folder.message(&error)),
            Ok(found) => assert!(!found.why.contains('\n')),
        }
    }
    for breaks in [DocumentBreaks::Auto, DocumentBreaks::BlankLines, DocumentBreaks::Whole] {
        match load_documents(&path, breaks, options) {
            Err(error) => drop(folder.message(&error)),
            Ok(documents) => {
                assert!(!documents.texts.is_empty() && !documents.description.contains('\n'));
                for (valid, test) in [(0.1, 0.0), (0.5, 0.9), (f64::NAN, -1.0)] {
                    let parts = documents.split(1, valid, test);
                    let chars = |texts: &[String]| texts.iter().map(|text| text.chars().count()).sum::<usize>();
                    let sum = chars(&parts.train) + chars(&parts.valid) + chars(&parts.test);
                    assert_eq!(sum, chars(&documents.texts));
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_bytes_as_pairs(bytes in bytes(), name in 0..NAMES.len(), options in options(), zip: bool) {
        let bytes = if zip { gz(&bytes) } else { bytes };
        check_pairs_and_documents(NAMES[name], &bytes, &options);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes(bytes in bytes(), name in 0..NAMES.len(), options in options(), zip: bool) {
        let bytes = if zip { gz(&bytes) } else { bytes };
        check(NAMES[name], bytes, &options);
    }

    #[test]
    fn any_noise(bytes in proptest::collection::vec(any::<u8>(), 0..200), name in 0..NAMES.len(), options in options()) {
        check(NAMES[name], bytes, &options);
    }
}
