//! Tests with real files: in the folder `CHUMOKU_SHARED_DATA`, or `shared/data` next to the workspace. The files are
//! not part of the project. Without them, the tests are skipped with a message.

use super::*;

fn shared_data() -> Option<PathBuf> {
    let found = match std::env::var_os("CHUMOKU_SHARED_DATA") {
        Some(path) => Some(PathBuf::from(path)),
        None => Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .map(|folder| folder.join("shared").join("data"))
            .find(|folder| folder.join("INDEX.md").is_file()),
    };
    let found = found.filter(|folder| folder.is_dir());
    if found.is_none() {
        println!("SKIPPED: shared data not found; set CHUMOKU_SHARED_DATA to its folder to run this test");
    }
    found
}

fn check(file: &str, rows: usize, classes: usize, described: &str) {
    let Some(folder) = shared_data() else { return };
    let path = folder.join(file);
    let dataset = load_labeled(&path, &ReadOptions::default()).unwrap();
    let name = path.display().to_string();
    assert_eq!(dataset.description.replace(&name, "FILE"), described, "{file}");
    assert_eq!(dataset.examples.len(), rows, "{file}");
    assert_eq!(dataset.labels().len(), classes, "{file}: {:?}", dataset.labels());
    assert_eq!(dataset.skipped.count, 0);
    dataset.check_trainable().unwrap();
}

#[test]
fn sst2() {
    let described = "FILE: TSV without a header, 2 columns (the file's name); \
                     text = column 1 (the longest and most varied), label = column 2 (few distinct values)";
    for (file, rows) in [("train", 6920), ("dev", 872), ("test", 1821)] {
        check(&format!("sst2/{file}.tsv"), rows, 2, described);
    }
}

#[test]
fn trec() {
    let described = "FILE: fastText (its lines begin with __label__); the label is in front of each text";
    check("trec/train.txt", 5452, 6, described);
    check("trec/test.txt", 500, 6, described);
}

#[test]
fn banking77() {
    let described = "FILE: CSV with a header, 2 columns (the file's name); \
                     text = column “text” (its name), label = column “category” (its name)";
    check("banking77/train.csv", 10003, 77, described);
    check("banking77/test.csv", 3080, 77, described);
}

#[test]
fn ja_jrte_sentiment() {
    let described = "FILE: TSV with a header, 2 columns (the file's name); \
                     text = column “text” (its name), label = column “label” (its name)";
    for (file, rows) in [("train", 3888), ("dev", 1112), ("test", 553)] {
        check(&format!("ja_jrte_sentiment/{file}.tsv"), rows, 3, described);
    }
}

#[test]
fn imdb() {
    let described = "FILE: JSONL, 2 keys, gzip (the file's name); \
                     text = column “text” (its name), label = column “label” (its name)";
    check("imdb/train.jsonl.gz", 25000, 2, described);
    check("imdb/test.jsonl.gz", 25000, 2, described);
}

#[test]
fn plain_texts() {
    let Some(folder) = shared_data() else { return };
    let files = [("enja/dev.en", 500), ("enja/train.ja", 50_000), ("tinyshakespeare/input.txt", 40_000)];
    for (file, rows) in files {
        let source = RowSource::open(&folder.join(file), &ReadOptions::default()).unwrap();
        assert_eq!(source.layout().format, Format::PlainText, "{file}");
        assert_eq!(source.records().map(Result::unwrap).count(), rows, "{file}");
    }
}

/// Every row of the real files is the same after it is written and read back.
#[test]
fn real_rows_round_trip() {
    let Some(folder) = shared_data() else { return };
    for file in ["sst2/dev.tsv", "banking77/test.csv", "ja_jrte_sentiment/test.tsv", "trec/test.txt"] {
        let source = RowSource::open(&folder.join(file), &ReadOptions::default()).unwrap();
        let layout = source.layout().clone();
        let mut writer = RecordWriter::new(Vec::new(), &layout, &["probability"], OutputFormat::LikeInput).unwrap();
        let mut expected = Vec::new();
        for record in source.records() {
            let record = record.unwrap();
            writer.write(&record, &[serde_json::json!(0.25)]).unwrap();
            expected.push(record.fields);
            expected.last_mut().unwrap().push("0.25".to_owned());
        }
        let copies = Folder::new();
        let name = if file.ends_with("csv") { "out.csv" } else { "out.tsv" };
        let path = copies.file(name, writer.finish().unwrap());
        assert_eq!(rows(&path, &ReadOptions::default()), expected, "{file}");
    }
}

/// Finds leaks and label conflicts in real data sets, and checks the properties of the split.
#[test]
fn real_sets_split() {
    let Some(folder) = shared_data() else { return };
    let load = |file: &str| load_labeled(&folder.join(file), &ReadOptions::default()).unwrap().examples;
    let train = load("banking77/train.csv");
    let parts = split(&train, 7, 0.1, 0.1);
    let take = |rows: &[usize]| rows.iter().map(|&row| train[row].clone()).collect::<Vec<_>>();
    let (a, b, c) = (take(&parts.train), take(&parts.valid), take(&parts.test));
    assert_eq!(a.len() + b.len() + c.len(), train.len());
    for part in [&a, &b, &c] {
        assert_eq!(part.iter().map(|example| &example.label).collect::<std::collections::HashSet<_>>().len(), 77);
    }
    for (one, other) in [(&a, &b), (&a, &c), (&b, &c)] {
        assert_eq!(shared_texts(one, other).count, 0);
    }
    let shared = shared_texts(&train, &load("banking77/test.csv"));
    println!("banking77: {} test texts are in train, {:?}", shared.count, parts.conflicts);
}

#[test]
fn parallel_files() {
    let Some(folder) = shared_data() else { return };
    let argument = format!("{},{}", folder.join("enja/train.ja").display(), folder.join("enja/train.en").display());
    let data = load_pairs(&DataFiles::from_argument(Path::new(&argument)), &ReadOptions::default()).unwrap();
    assert_eq!((data.pairs.len(), data.skipped.count), (50_000, 0));
    assert_eq!(data.names, ["ja", "en"]);
    let parts = PairSplit::new(&data, None, None).unwrap();
    assert_eq!(parts.train.len() + parts.valid.len() + parts.test.len(), 50_000);
    assert!((900..1_200).contains(&parts.valid.len()) && (900..1_200).contains(&parts.test.len()));
}

#[test]
fn one_long_text() {
    let Some(folder) = shared_data() else { return };
    let path = folder.join("tinyshakespeare/input.txt");
    let documents = load_documents(&path, DocumentBreaks::Auto, &ReadOptions::default()).unwrap();
    assert_eq!(documents.texts, [fs::read_to_string(&path).unwrap()]);
    let parts = documents.split(1, 0.1, 0.0);
    // The same split as nanoGPT.
    assert_eq!(parts.description, "the first 1003854 characters to train on, the next 111540 to validate");
    assert_eq!(format!("{}{}", parts.train[0], parts.valid[0]), documents.texts[0]);
    let cut = load_documents(&path, DocumentBreaks::BlankLines, &ReadOptions::default()).unwrap();
    assert!(cut.texts.len() > 7_000, "{}", cut.texts.len());
}
