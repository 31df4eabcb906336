//! Parquet files, written through the low-level writer of the `parquet` crate.

use std::sync::Arc;

use ::parquet::basic::{Compression, Encoding, ZstdLevel};
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use ::parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::parser::parse_message_type;

use super::*;

const SCHEMA: &str = "message m { required int64 id; required binary review (UTF8); optional binary stars (UTF8); \
                      required boolean seen; required double weight; }";

/// Writes a file with this number of rows in two row groups.
fn file(properties: WriterPropertiesBuilder, rows: i64) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties.build())).unwrap();
    for range in [0..rows / 2, rows / 2..rows] {
        let bytes = |text: String| ByteArray::from(text.into_bytes());
        let texts: Vec<ByteArray> = range.clone().map(|i| bytes(format!("good review 良い {i}"))).collect();
        let stars: Vec<ByteArray> =
            range.clone().filter(|i| i % 10 != 9).map(|i| bytes(format!("s{}", i % 3))).collect();
        let levels: Vec<i16> = range.clone().map(|i| i16::from(i % 10 != 9)).collect();
        let ids: Vec<i64> = range.clone().collect();
        let seen: Vec<bool> = range.clone().map(|i| i % 2 == 0).collect();
        let weights: Vec<f64> = range.map(|i| i as f64 / 4.0).collect();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&ids, None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&texts, None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&stars, Some(&levels), None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<BoolType>().write_batch(&seen, None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<DoubleType>().write_batch(&weights, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.into_inner().unwrap()
}

fn plain() -> WriterPropertiesBuilder {
    WriterProperties::builder().set_dictionary_enabled(false).set_encoding(Encoding::PLAIN)
}

fn dictionary() -> WriterPropertiesBuilder {
    WriterProperties::builder().set_dictionary_enabled(true)
}

fn variants() -> Vec<(&'static str, WriterPropertiesBuilder)> {
    vec![
        ("plain", plain()),
        ("dictionary", dictionary()),
        ("snappy", plain().set_compression(Compression::SNAPPY)),
        ("snappy dictionary", dictionary().set_compression(Compression::SNAPPY)),
        ("zstd", dictionary().set_compression(Compression::ZSTD(ZstdLevel::default()))),
        ("gzip", dictionary().set_compression(Compression::GZIP(Default::default()))),
        ("lz4", plain().set_compression(Compression::LZ4_RAW)),
        ("brotli", dictionary().set_compression(Compression::BROTLI(Default::default()))),
    ]
}

#[test]
fn every_encoding_and_compression_is_read() {
    let folder = Folder::new();
    for (name, properties) in variants() {
        let bytes = file(properties, 3000);
        for (file_name, bytes) in [("a.parquet", bytes.clone()), ("a.parquet.gz", gz(&bytes)), ("a.bin", bytes)] {
            let path = folder.file(file_name, bytes);
            let dataset = load_labeled(&path, &skipping()).unwrap();
            let gzip = if file_name.ends_with("gz") { ", gzip" } else { "" };
            assert!(dataset.description.ends_with(&format!(
                ": Parquet, 5 columns{gzip} (its first bytes); text = column “review” (its name), label = column \
                 “stars” (its name); not used: column “id”, column “seen”, column “weight”"
            )));
            assert_eq!((dataset.examples.len(), dataset.skipped.count), (2700, 300), "{name}");
            assert_eq!(dataset.examples[2699].text, "good review 良い 2998");
            assert_eq!(dataset.examples[2699].label, "s1");
            assert_eq!(dataset.examples[2699].line, 2999);
        }
    }
}

#[test]
fn messages_name_rows() {
    assert_eq!(
        message("a.parquet", file(plain(), 50), &labeled()),
        "a.parquet, row 10: reading the label: expected a class name, found null; fill it in, or leave such rows out \
         with --skip-bad-rows"
    );
}

#[test]
fn rows_are_written_as_json() {
    let folder = Folder::new();
    let source = RowSource::open(&folder.file("a.parquet", file(plain(), 20)), &ReadOptions::default()).unwrap();
    let mut writer = RecordWriter::new(Vec::new(), source.layout(), &["label"], OutputFormat::LikeInput).unwrap();
    for record in source.records().skip(9).take(2) {
        writer.write(&record.unwrap(), &["x".into()]).unwrap();
    }
    let written = String::from_utf8(writer.finish().unwrap()).unwrap();
    let expected = "{\"id\":9,\"review\":\"good review 良い 9\",\"stars\":null,\"seen\":false,\"weight\":2.25,\"label\":\"x\"}\n\
                    {\"id\":10,\"review\":\"good review 良い 10\",\"stars\":\"s1\",\"seen\":true,\"weight\":2.5,\"label\":\"x\"}\n";
    assert_eq!(written, expected);
}

#[test]
fn other_files_and_files_without_strings_are_refused() {
    assert_eq!(
        message("a.parquet", "text,label\n", &labeled()),
        "a.parquet: reading Parquet: expected a whole, undamaged file, found: no “PAR1” where the file begins; write or \
         download the file again"
    );
    let whole = file(plain(), 100);
    let cut = message("a.parquet", &whole[..whole.len() / 2], &labeled());
    assert!(cut.starts_with("a.parquet: reading Parquet: expected a whole, undamaged file, found: "), "{cut}");

    let schema = Arc::new(parse_message_type("message m { required int64 id; required double x; }").unwrap());
    let writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(plain().build())).unwrap();
    assert_eq!(
        message("a.parquet", writer.into_inner().unwrap(), &labeled()),
        "a.parquet: reading Parquet: expected a column of strings, found only “id”, “x”; write the texts as a string \
         column"
    );
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(plain().build())).unwrap();
    assert_eq!(
        message("a.parquet", writer.into_inner().unwrap(), &labeled()),
        "a.parquet: reading the data: expected rows below the header (“id”, “review”, “stars”, “seen”, “weight”), found \
         none; check that the file was written whole"
    );
}

/// Damaged files give an error or other rows, never a panic.
#[test]
fn damage_does_not_panic() {
    let folder = Folder::new();
    // Every byte, or every seventh, with different ones in each variant.
    let step = testkit::cases("chumoku-text", 7, 1) as usize;
    for (first, (name, properties)) in variants().into_iter().enumerate() {
        let whole = file(properties, 20);
        let mut errors = 0;
        for at in (first % step..whole.len()).step_by(step) {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            let path = folder.file("a.parquet", damaged);
            errors += usize::from(load_labeled(&path, &skipping()).is_err());
        }
        assert!(errors > 0, "{name}");
    }
}

/// If the `parquet` crate panics while printing a time, only that value is lost.
#[test]
fn times_beyond_the_calendar_are_null() {
    let schema = "message m { required binary text (UTF8); required int64 at (TIMESTAMP_MILLIS); }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(plain().build())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let texts = [ByteArray::from("a"), ByteArray::from("b")];
    column.typed::<ByteArrayType>().write_batch(&texts, None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(&[0, i64::MAX], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    let folder = Folder::new();
    let path = folder.file("a.parquet", writer.into_inner().unwrap());
    let rows = rows(&path, &ReadOptions::default());
    assert!(rows[0][1].starts_with("1970-01-01 00:00:00"), "{rows:?}");
    assert_eq!(rows[1], ["b", ""]);
}

#[test]
fn an_unsupported_compression_is_named() {
    // No writer produces LZO, so the codec in a file without compression is changed.
    let bytes = file(plain(), 100);
    let begin = bytes.len() - 8 - u32::from_le_bytes(bytes[bytes.len() - 8..][..4].try_into().unwrap()) as usize;
    let folder = Folder::new();
    let says_lzo = |bytes: &[u8]| {
        let path = folder.file("a.parquet", bytes);
        let reader =
            panics::catch_silently(|| SerializedFileReader::new(fs::File::open(path).unwrap()).ok()).ok().flatten();
        reader.is_some_and(|reader| {
            let groups = reader.metadata().row_groups();
            groups.iter().any(|group| group.columns().iter().any(|chunk| chunk.compression() == Compression::LZO))
        })
    };
    let made = (begin..bytes.len() - 8).find_map(|at| {
        let mut changed = bytes.clone();
        changed[at] = 6;
        (bytes[at] == 0 && says_lzo(&changed)).then_some(changed)
    });
    assert_eq!(
        message("a.parquet", made.expect("a byte of the footer is the compression"), &labeled()),
        "a.parquet: reading Parquet: expected Snappy, gzip, zstd, LZ4, Brotli or no compression, found LZO; write the file \
         again with one of these"
    );
}

#[cfg(unix)]
#[test]
fn parquet_can_be_read_from_a_pipe() {
    let folder = Folder::new();
    let (pipe, bytes) = (folder.path("pipe"), file(dictionary(), 300));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for bytes in [bytes.clone(), gz(&bytes)] {
        let writer = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::write(pipe, bytes).unwrap()
        });
        let mut kept = StreamCopies::default();
        assert_eq!(kept.capture(&pipe).unwrap(), pipe);
        writer.join().unwrap();
        let options = ReadOptions { copies: kept, ..skipping() };
        // Twice, like `train`.
        assert_eq!(detect_task(&DataFiles::One(pipe.clone()), &options).unwrap().task, TrainingTask::Classify);
        assert_eq!(load_labeled(&pipe, &options).unwrap().examples.len(), 270);
    }
}
