//! Pairs from parallel files and from columns, in realistic and in damaged files.

use std::sync::Arc;

use ::parquet::data_type::{ByteArray, ByteArrayType};
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::parser::parse_message_type;

use super::*;

fn parallel(folder: &Folder, ja: impl AsRef<[u8]>, en: impl AsRef<[u8]>) -> DataFiles {
    DataFiles::Parallel { source: folder.file("a.ja", ja), target: folder.file("a.en", en) }
}

fn read(files: &DataFiles, options: &ReadOptions) -> Vec<SentencePair> {
    load_pairs(files, options).unwrap().pairs
}

fn one(folder: &Folder, name: &str, bytes: impl AsRef<[u8]>) -> DataFiles {
    DataFiles::One(folder.file(name, bytes))
}

fn failure(folder: &Folder, files: &DataFiles, options: &ReadOptions) -> String {
    folder.message(&load_pairs(files, options).unwrap_err())
}

fn pair(source: &str, target: &str, line: u64) -> SentencePair {
    SentencePair { source: source.to_owned(), target: target.to_owned(), line }
}

fn asking(source: Option<&str>, target: Option<&str>) -> ReadOptions {
    ReadOptions { text: source.map(str::to_owned), label: target.map(str::to_owned), ..ReadOptions::default() }
}

/// Returns the columns chosen, as in the description.
fn columns(files: &DataFiles, options: &ReadOptions) -> String {
    let description = PairRecords::open(files, options).unwrap().describe();
    description.split("; ").find(|part| part.starts_with("source = ")).unwrap().to_owned()
}

#[test]
fn parallel_files_in_common_formats_are_read() {
    let folder = Folder::new();
    let expected = [pair("猫がいる。", "There is a cat.", 1), pair("犬も、いる。", "\"And a dog, too.\"", 2)];
    let ja = "猫がいる。\n犬も、いる。\n";
    let en = "There is a cat.\n\"And a dog, too.\"\n";
    // White space around lines, line ends of Windows and old Macintosh, and a byte order mark. The last line may have
    // no line end, and one file may end with blank lines.
    let variants: [(Vec<u8>, Vec<u8>); 6] = [
        (ja.into(), en.into()),
        (format!("\u{feff}{}", ja.replace('\n', "\r\n")).into(), en.into()),
        (ja.replace('\n', "\r").into(), en.trim_end().into()),
        (ja.replace('\n', " \u{3000}\n").into(), format!("  {en}").into()),
        (format!("{ja}\n \r\n\n").into(), en.into()),
        (gz(ja), format!("{en}\n").into()),
    ];
    for (ja, en) in variants {
        let files = parallel(&folder, ja, en);
        assert_eq!(read(&files, &ReadOptions::default()), expected);
    }
    let (sjis, ..) = encoding_rs::SHIFT_JIS.encode(ja);
    let options = ReadOptions { encoding: Some("shift_jis".into()), ..ReadOptions::default() };
    let files = parallel(&folder, &sjis, en);
    assert_eq!(read(&files, &options), expected);
    let data = load_pairs(&files, &options).unwrap();
    assert_eq!(data.names, ["ja", "en"]);
    assert!(
        data.description.ends_with(
            "a.en: parallel text, .ja: decoded from Shift_JIS, .en: decoded from Shift_JIS; each line of one is a source, \
             of the other its target"
        ),
        "{}",
        data.description
    );
    // A blank line in both files is not a row. Later lines keep their numbers.
    let files = parallel(&folder, "a\n\nb\n", "c\n \nd\n");
    assert_eq!(read(&files, &ReadOptions::default()), [pair("a", "c", 1), pair("b", "d", 3)]);
}

#[test]
fn a_comma_separates_two_existing_files() {
    let folder = Folder::new();
    let (ja, en) = (folder.file("a.ja", "x"), folder.file("a,b.en", "y"));
    let both = format!("{},{}", ja.display(), en.display());
    let parallel = DataFiles::Parallel { source: ja, target: en.clone() };
    assert_eq!(DataFiles::from_argument(Path::new(&both)), parallel);
    assert_eq!(parallel.to_string(), both);
    // A comma may be part of a file name.
    assert_eq!(DataFiles::from_argument(&en), DataFiles::One(en));
    assert_eq!(DataFiles::from_argument(Path::new("no,file")), DataFiles::One("no,file".into()));
    let slip = DataFiles::from_argument(Path::new(&both.replace("a,b.en", "ab.en")));
    assert_eq!(
        failure(&folder, &slip, &ReadOptions::default()),
        "ab.en: opening the data: expected a file, found nothing of that name; did you mean “a,b.en”?"
    );
}

#[test]
fn sides_of_different_lengths_are_refused() {
    let folder = Folder::new();
    let check = "check that both files are complete and aligned";
    for options in [ReadOptions::default(), skipping()] {
        let files = parallel(&folder, "a\nb\nc\n\nd\n", "A\nB\n");
        assert_eq!(
            failure(&folder, &files, &options),
            format!(
                "a.ja:3: reading pairs: expected a partner for each line, found the end of a.en after 2 lines; this is \
                 the first line without one: {check}"
            )
        );
        // The first line without a counterpart is blank, but a later one is not.
        let files = parallel(&folder, "a", "A\n\nC\n");
        assert_eq!(
            failure(&folder, &files, &options),
            format!(
                "a.en:2: reading pairs: expected a partner for each line, found the end of a.ja after 1 line; this is the \
                 first line without one: {check}"
            )
        );
    }
}

#[test]
fn empty_sides_are_reported() {
    let folder = Folder::new();
    let files = parallel(&folder, "a\n \t\nc\n", "A\nB\n\n");
    assert_eq!(
        failure(&folder, &files, &ReadOptions::default()),
        "a.ja:2: reading pairs: expected a source and its target, found an empty source; fill it in, or leave such rows \
         out with --skip-bad-rows"
    );
    let data = load_pairs(&files, &skipping()).unwrap();
    assert_eq!((data.pairs.len(), data.skipped.count), (1, 2));
    let message = folder.message(&DataError::NoUsablePairs { path: "x".into(), skipped: data.skipped.to_string() });
    assert!(message.contains("2 rows left out, the first because: a.ja:2: reading pairs"), "{message}");
    assert!(data.skipped.rows[1].reason.contains("a.en:3: ") && data.skipped.rows[1].reason.contains("empty target"));
    let files = parallel(&folder, "a\n\n", " \nB\n");
    assert!(failure(&folder, &files, &skipping()).starts_with("a.ja: reading pairs: expected rows, found none"));
    let files = parallel(&folder, "a\n", "");
    assert!(failure(&folder, &files, &skipping()).starts_with("a.en: reading the data: expected rows, found an empty"));
}

#[test]
fn unreadable_sides_are_reported() {
    let folder = Folder::new();
    let bad = parallel(&folder, "a\nb\n", b"A\n\xff\n");
    assert!(failure(&folder, &bad, &skipping()).starts_with("a.en:2:1: reading text: expected UTF-8"));
    let nul = parallel(&folder, "a\0\nb\n", "A\nB\n");
    assert!(
        failure(&folder, &nul, &skipping()).starts_with("a.ja:1:2: reading text: expected characters, found a NUL")
    );
    let parquet = parallel(&folder, "a\n", b"PAR1xxxxPAR1");
    assert_eq!(
        failure(&folder, &parquet, &skipping()),
        "a.en: reading one of two parallel files: expected lines of text, found Parquet; name it alone, or write each side \
         as a text file"
    );
    // A line that is too long is a row error.
    let long = "x".repeat(MAX_TEXT_BYTES as usize + 1);
    let files = parallel(&folder, "a\nb\nc\n", format!("A\n{long}\nC\n"));
    assert!(
        failure(&folder, &files, &ReadOptions::default())
            .starts_with("a.en:2: reading a text: expected at most 16 MiB")
    );
    assert_eq!(read(&files, &skipping()), [pair("a", "A", 1), pair("c", "C", 3)]);
}

#[test]
fn columns_are_chosen_by_name() {
    let folder = Folder::new();
    let options = ReadOptions::default();
    let its_name = |source: &str, target: &str, why: &str| {
        format!("source = column “{source}” ({why}), target = column “{target}” ({why})")
    };
    for (header, source, target, why) in [
        ("id,source,target", "source", "target", "its name"),
        ("tgt,note,src", "src", "tgt", "its name"),
        ("Target_Text,n,Source-Text", "Source-Text", "Target_Text", "its name"),
        ("x,訳文,原文", "原文", "訳文", "its name"),
        ("id,ja,en", "ja", "en", "its language"),
        ("English,Japanese,x", "English", "Japanese", "its language"),
        ("en-US,ja_JP,x", "en-US", "ja_JP", "its language"),
        ("text_en,score,text_de", "text_en", "text_de", "its language"),
        ("日本語,英語,出典", "日本語", "英語", "its language"),
    ] {
        let files = one(&folder, "a.csv", format!("{header}\n1 a,2 b,3 c\n4 d,5 e,6 f\n"));
        assert_eq!(columns(&files, &options), its_name(source, target, why), "{header}");
        assert_eq!(read(&files, &options).len(), 2);
    }
    // A data row is not a header.
    let files = one(&folder, "a.tsv", "Go.\t行け。\nHi.\tやあ。\n");
    assert_eq!(read(&files, &options), [pair("Go.", "行け。", 1), pair("Hi.", "やあ。", 2)]);
    assert_eq!(
        columns(&files, &options),
        "source = column 1 (one of only two columns), target = column 2 (one of only two columns)"
    );
    assert_eq!(load_pairs(&files, &options).unwrap().names, ["source", "target"]);
    let files = one(&folder, "b.tsv.gz", gz("en\tja\r\nGo.\t行け。\r\n"));
    assert_eq!(read(&files, &options), [pair("Go.", "行け。", 2)]);
    assert_eq!(load_pairs(&files, &options).unwrap().names, ["en", "ja"]);
}

#[test]
fn columns_are_chosen_by_options() {
    let folder = Folder::new();
    let files = one(&folder, "a.csv", "id,ja,en\n1,猫 です,a cat\n2,犬 です,a dog\n");
    let one_side = "source = column “en” (as requested), target = column “ja” (its language)";
    assert_eq!(columns(&files, &asking(Some("en"), None)), one_side);
    let other_side = "source = column “en” (its language), target = column “ja” (as requested)";
    assert_eq!(columns(&files, &asking(None, Some("JA"))), other_side);
    let both = "source = column “en” (as requested), target = column “id” (as requested)";
    assert_eq!(columns(&files, &asking(Some("3"), Some("1"))), both);
    assert_eq!(
        failure(&folder, &files, &asking(Some("en"), Some("en"))),
        "a.csv: choosing the columns: expected the source and the target in two columns, found “en” named for both; \
         change --text or --label"
    );
    assert_eq!(
        failure(&folder, &files, &asking(Some("eng"), None)),
        "a.csv: choosing the source column: expected “eng”, found no such column among “id”, “ja”, “en”; did you mean \
         “en”?"
    );
}

#[test]
fn ambiguous_columns_are_reported() {
    let folder = Folder::new();
    let row = |i: usize| format!("{{\"a\":\"one text {i}\",\"b\":\"two text {i}\",\"c\":\"three text {i}\"}}\n");
    let files = one(&folder, "a.jsonl", (0..5).map(row).collect::<String>());
    assert_eq!(
        failure(&folder, &files, &ReadOptions::default()),
        "a.jsonl: choosing the source column: expected one clear candidate, found 3 equally likely: column “a”, column \
         “b”, column “c”; name one with --text NAME"
    );
    assert_eq!(
        failure(&folder, &files, &asking(Some("b"), None)),
        "a.jsonl: choosing the target column: expected one clear candidate, found 2 equally likely: column “a”, column \
         “c”; name one with --label NAME"
    );
    let files = one(&folder, "a.txt", "one line\nanother\n");
    assert_eq!(
        failure(&folder, &files, &ReadOptions::default()),
        "a.txt: choosing the target column: expected two columns of text, found only plain text; give two files of as \
         many lines, as train.ja,train.en"
    );
    // Identifiers and numbers are not texts.
    let row = |i: usize| format!("{{\"id\":{i},\"a\":\"one text {i}\",\"hash\":\"{i:08x}\",\"b\":\"two text {i}\"}}\n");
    let files = one(&folder, "b.jsonl", (0..5).map(row).collect::<String>());
    assert_eq!(
        columns(&files, &ReadOptions::default()),
        "source = column “a” (one of only two text columns), target = column “b” (one of only two text columns)"
    );
}

#[test]
fn bad_rows_of_a_table_are_reported() {
    let folder = Folder::new();
    let lines = "{\"ja\":\"猫\",\"en\":\"cat\"}\n{\"ja\":\"犬\"}\n{\"ja\":\"鳥\",\"en\":[\"bird\"]}\n{\"ja\":\"\",\"en\":\"x\"}\n\
                 {\"ja\":\"魚\",\"en\":\"fish\"}\n";
    let files = one(&folder, "a.jsonl", lines);
    assert_eq!(
        failure(&folder, &files, &ReadOptions::default()),
        "a.jsonl:2: reading pairs: expected a source and its target, found no key “en”; fill it in, or leave such rows \
         out with --skip-bad-rows"
    );
    let data = load_pairs(&files, &skipping()).unwrap();
    assert_eq!((data.pairs.len(), data.skipped.count), (2, 3));
    assert_eq!(
        data.skipped.rows[1].reason.split_once("a.jsonl").unwrap().1,
        ":3: reading the target: expected a string, number or true/false in “en”, found a list; flatten it, or choose \
         another column with --label"
    );
    let files = one(&folder, "a.csv", "ja,en\n猫,cat,x\n");
    assert!(failure(&folder, &files, &skipping()).starts_with("a.csv: reading pairs: expected rows, found none"));
}

#[test]
fn hugging_face_translations_are_unpacked() {
    let folder = Folder::new();
    let lines = "{\"id\":\"1\",\"translation\":{\"ja\":\"猫\",\"en\":\"cat\"}}\n\
                 {\"id\":\"2\",\"translation\":{\"ja\":\"犬\",\"en\":\"dog\"}}\n{\"id\":\"3\",\"translation\":null}\n";
    let files = one(&folder, "a.jsonl", lines);
    let expected = [pair("猫", "cat", 1), pair("犬", "dog", 2)];
    assert_eq!(read(&files, &skipping()), expected);
    assert_eq!(
        columns(&files, &skipping()),
        "source = column “ja” (its language), target = column “en” (its language)"
    );
    assert_eq!(read(&files, &ReadOptions { text: Some("en".into()), ..skipping() })[0].source, "cat");
    assert!(
        failure(&folder, &files, &ReadOptions::default()).starts_with("a.jsonl:3: reading pairs: expected a source")
    );

    let schema = "message m { required group translation { required binary ja (UTF8); required binary en (UTF8); } }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer =
        SerializedFileWriter::new(Vec::new(), schema, Arc::new(WriterProperties::builder().build())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for texts in [["猫", "犬"], ["cat", "dog"]] {
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&texts.map(ByteArray::from), None, None).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    let files = one(&folder, "a.parquet", writer.into_inner().unwrap());
    assert_eq!(read(&files, &ReadOptions::default()), expected);
}

#[test]
fn sets_share_no_source() {
    let folder = Folder::new();
    // Each source occurs twice, in different case, with two translations.
    let mut lines = String::new();
    for i in 0..100 {
        lines += &format!("source {i}\ttarget {i}\nSource  {i}\tanother {i}\n");
    }
    let data = load_pairs(&one(&folder, "a.tsv", lines), &ReadOptions::default()).unwrap();
    let parts = PairSplit::new(&data, None, None).unwrap();
    assert_eq!([parts.train.len(), parts.valid.len(), parts.test.len()], [160, 20, 20]);
    let sources = |pairs: &SentencePairs| pairs.sources.iter().map(normalize).collect::<std::collections::HashSet<_>>();
    let [train, valid, test] = [&parts.train, &parts.valid, &parts.test].map(sources);
    assert!(train.is_disjoint(&valid) && train.is_disjoint(&test) && valid.is_disjoint(&test));
    for (source, target) in parts.train.sources.iter().zip(&parts.train.targets) {
        assert_eq!(source.split_whitespace().last(), target.split_whitespace().last());
    }
    // Separate files are used completely, and sources shared with training are reported.
    let test = load_pairs(&one(&folder, "b.tsv", "SOURCE 7\tx\nnew one\ty\n"), &ReadOptions::default()).unwrap();
    let parts = PairSplit::new(&data, None, Some(&test)).unwrap();
    assert_eq!([parts.train.len(), parts.valid.len(), parts.test.len()], [180, 20, 2]);
    let [note] = &parts.notes[..] else { panic!("{:?}", parts.notes) };
    let expected = "warning: 1 of 2 test pairs have a source that is also in the training file, e.g. “SOURCE 7” (";
    assert!(
        note.starts_with(expected) && note.contains(":15 and ") && note.contains("b.tsv:1): their score says"),
        "{note}"
    );
    let few = load_pairs(&one(&folder, "c.tsv", "a b\tc\nd e\tf\n"), &ReadOptions::default()).unwrap();
    assert_eq!(
        folder.message(&PairSplit::new(&few, None, None).unwrap_err()),
        "c.tsv: checking the data: expected at least 4 rows, found 2 rows; add more examples"
    );
}
