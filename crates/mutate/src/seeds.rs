//! Valid inputs of every kind, from which damaged ones are derived.

use crate::published;
use flate2::Compression;
use flate2::write::GzEncoder;
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use safetensors::{Dtype, tensor::TensorView};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// A file with its name and contents.
#[derive(Clone, Debug)]
pub(crate) struct SeedFile {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// The kind of a model folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeedModelKind {
    Classifier,
    Recurrent,
    Translator,
    LanguageModel,
    /// A tagger of words.
    Tagger,
    /// A pretrained encoder in a published format.
    PublishedEncoder,
    /// A language model in a published format.
    PublishedLanguageModel,
    /// A translator in a published format.
    PublishedTranslator,
}

pub(crate) struct SeedModel {
    pub(crate) kind: SeedModelKind,
    pub(crate) files: Vec<SeedFile>,
}

pub(crate) struct Seeds {
    /// Labeled texts in every format.
    pub(crate) labelled: Vec<SeedFile>,
    /// Pairs in tables; `parallel` holds two parallel files.
    pub(crate) pairs: Vec<SeedFile>,
    pub(crate) parallel: [SeedFile; 2],
    /// Texts with labeled words.
    pub(crate) spans: Vec<SeedFile>,
    pub(crate) plain: Vec<SeedFile>,
    pub(crate) models: Vec<SeedModel>,
    pub(crate) worked_examples: Vec<SeedFile>,
    pub(crate) tensors: Vec<SeedFile>,
}

const ENGLISH: [&str; 10] = [
    "Good food and kind people, we will come again.",
    "The room was cold, and nobody answered the phone.",
    "I liked it a lot!",
    "Never again: it broke after two days.",
    "Quick delivery, works as it should.",
    "He said \"no\", and that was all; what a waste.",
    "A fine day by the sea.",
    "Too loud, too dear, too far away.",
    "Friendly staff, clean rooms, fair price.",
    "It does not do what the box says.",
];
const JAPANESE: [&str; 10] = [
    "料理がおいしく、また来たいです。",
    "部屋が寒くて、電話にも出ませんでした。",
    "とても気に入りました！",
    "二日で壊れました。もう買いません。",
    "すぐ届いて、問題なく使えています。",
    "「できません」と言われただけでした。",
    "海辺の良い一日。",
    "うるさくて、高くて、遠い。",
    "スタッフが親切で、部屋もきれいでした。",
    "箱に書いてあることができません。",
];

/// Texts with their classes; even indices are good.
fn reviews() -> Vec<(String, &'static str)> {
    let of = |i: usize| {
        let text = if i % 4 < 2 { ENGLISH[i % 10] } else { JAPANESE[i % 10] };
        (format!("{text} ({i})"), if i.is_multiple_of(2) { "good" } else { "bad" })
    };
    (0..40).map(of).collect()
}

fn csv(separator: &str, rows: &[(String, &str)]) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let rows = rows.iter().map(|(text, label)| format!("{}{separator}{label}\n", quoted(text)));
    format!("text{separator}label\n{}", rows.collect::<String>())
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes).and_then(|()| out.finish()).expect("bytes are compressed in memory")
}

fn parquet(rows: &[(String, &str)]) -> Vec<u8> {
    let schema = "message m { required binary text (UTF8); required binary label (UTF8); }";
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, properties).expect("a writer");
    let columns: [Vec<&str>; 2] =
        [rows.iter().map(|(text, _)| text.as_str()).collect(), rows.iter().map(|(_, label)| *label).collect()];
    let mut group = writer.next_row_group().expect("a row group");
    for values in columns {
        let values: Vec<ByteArray> = values.into_iter().map(ByteArray::from).collect();
        let mut column = group.next_column().expect("a column").expect("one more column");
        column.typed::<ByteArrayType>().write_batch(&values, None, None).expect("values are written");
        column.close().expect("a column is written");
    }
    group.close().expect("a row group is written");
    writer.into_inner().expect("a file")
}

fn excel(rows: &[(String, &str)]) -> Vec<u8> {
    let mut book = rust_xlsxwriter::Workbook::new();
    let sheet = book.add_worksheet();
    let header = ("text".to_owned(), "label");
    for (at, (text, label)) in std::iter::once(&header).chain(rows).enumerate() {
        let at = u32::try_from(at).expect("few rows");
        sheet.write_string(at, 0, text).and_then(|sheet| sheet.write_string(at, 1, *label)).expect("a cell is written");
    }
    book.save_to_buffer().expect("a workbook")
}

fn labelled() -> Vec<SeedFile> {
    let rows = reviews();
    let table = csv(",", &rows);
    let tsv: String = rows.iter().map(|(text, label)| format!("{label}\t{text}\n")).collect();
    let jsonl: String =
        rows.iter().map(|(text, label)| format!("{}\n", serde_json::json!({ "text": text, "label": label }))).collect();
    let fasttext: String = rows.iter().map(|(text, label)| format!("__label__{label} {text}\n")).collect();
    let utf16: Vec<u8> = [0xff, 0xfe].into_iter().chain(table.encode_utf16().flat_map(u16::to_le_bytes)).collect();
    let shift_jis = encoding_rs::SHIFT_JIS.encode(&table).0.into_owned();
    let file = |name: &str, bytes: &[u8]| SeedFile { name: name.into(), bytes: bytes.to_vec() };
    vec![
        file("a.csv", table.as_bytes()),
        file("semicolons.csv", csv(";", &rows).as_bytes()),
        file("a.tsv", format!("label\ttext\n{tsv}").as_bytes()),
        file("a.jsonl", jsonl.as_bytes()),
        file("array.json", format!("[\n{}\n]\n", jsonl.trim_end().replace('\n', ",\n")).as_bytes()),
        file("fasttext.txt", fasttext.as_bytes()),
        file("a.parquet", &parquet(&rows)),
        file("a.xlsx", &excel(&rows)),
        file("a.csv.gz", &gzip(table.as_bytes())),
        file("a.parquet.gz", &gzip(&parquet(&rows))),
        file("utf16.csv", &utf16),
        file("shift_jis.csv", &shift_jis),
    ]
}

/// Names of people and places: as words with tags, and as objects with spans.
fn spans() -> Vec<SeedFile> {
    let names = ["Anna", "Ben", "Clara", "Émile", "田中"];
    let places = ["London", "Oslo", "Rome", "東京"];
    let (mut conll, mut objects) = (String::new(), String::new());
    for i in 0..40 {
        let (name, place) = (names[i % names.len()], places[i % places.len()]);
        conll += &format!("{name}\tB-person\nMoore\tI-person\nlives\tO\nin\tO\n{place}\tB-place\n\n");
        let text = format!("{name} Moore lives in {place}");
        let [n, p, all] = [name, place, &text].map(|text| text.chars().count());
        let spans = serde_json::json!([[0, n + 6, "person"], [all - p, all, "place"]]);
        objects += &format!("{}\n", serde_json::json!({ "text": text, "spans": spans }));
    }
    let file = |name: &str, text: String| SeedFile { name: name.into(), bytes: text.into_bytes() };
    vec![file("names.conll", conll), file("spans.jsonl", objects)]
}

fn pairs() -> (Vec<SeedFile>, [SeedFile; 2]) {
    let numbers: Vec<(String, String)> =
        (0..60).map(|i| (format!("{i} and {}", i + 1), format!("{}と{}", i, i + 1))).collect();
    let side =
        |of: fn(&(String, String)) -> &String| numbers.iter().map(|pair| format!("{}\n", of(pair))).collect::<String>();
    let table: String = numbers.iter().map(|(a, b)| format!("{a}\t{b}\n")).collect();
    let jsonl: String =
        numbers.iter().map(|(a, b)| format!("{}\n", serde_json::json!({ "source": a, "target": b }))).collect();
    let file = |name: &str, text: String| SeedFile { name: name.into(), bytes: text.into_bytes() };
    let tables = vec![file("pairs.tsv", format!("source\ttarget\n{table}")), file("pairs.jsonl", jsonl)];
    (tables, [file("p.en", side(|pair| &pair.0)), file("p.ja", side(|pair| &pair.1))])
}

fn plain() -> Vec<SeedFile> {
    let text: String = ENGLISH.iter().chain(&JAPANESE).map(|line| format!("{line}\n")).collect();
    let long = format!("{text}\n").repeat(6);
    vec![
        SeedFile { name: "plain.txt".into(), bytes: long.clone().into_bytes() },
        SeedFile { name: "plain.txt.gz".into(), bytes: gzip(long.as_bytes()) },
    ]
}

/// Q, K and V of shape (1, 2, 3, 4), with a mask.
fn tensors() -> Vec<u8> {
    let numbers: Vec<u8> = (0..24).flat_map(|i| (i as f32 / 7.0 - 1.0).to_le_bytes()).collect();
    let mask: Vec<u8> = (0..9).flat_map(|i| (if i % 4 == 1 { f32::NEG_INFINITY } else { 0.0 }).to_le_bytes()).collect();
    let view = |shape: &[usize], bytes| TensorView::new(Dtype::F32, shape.to_vec(), bytes).expect("bytes of the shape");
    let all = ["Q", "K", "V"].map(|name| (name, view(&[1, 2, 3, 4], &numbers)));
    let all = all.into_iter().chain([("attn_mask", view(&[3, 3], &mask))]);
    safetensors::serialize(all, None).expect("plain arrays")
}

/// Reads the files of a folder, without its subfolders.
fn files(folder: &Path) -> Result<Vec<SeedFile>, String> {
    let problem = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(problem)? {
        let path = entry.map_err(problem)?.path();
        if path.is_file() {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.push(SeedFile { name, bytes: fs::read(&path).map_err(problem)? });
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

impl Seeds {
    /// Creates all inputs in a folder. The command itself trains the models.
    pub(crate) fn create(program: &Path, folder: &Path) -> Result<Seeds, String> {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let (labelled, (pairs, parallel), plain, spans) = (labelled(), pairs(), plain(), spans());
        let mut tensors = vec![SeedFile { name: "in.safetensors".into(), bytes: tensors() }];
        for file in labelled.iter().chain(&pairs).chain(&plain).chain(&spans).chain(&tensors) {
            fs::write(folder.join(&file.name), &file.bytes).map_err(|error| format!("{}: {error}", file.name))?;
        }
        let run = |args: &[&str]| -> Result<(), String> {
            let output = Command::new(program).args(args).current_dir(folder).output().map_err(|e| e.to_string())?;
            match output.status.success() {
                true => Ok(()),
                false => Err(format!("chumoku {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr))),
            }
        };
        run(&["attend", "in.safetensors", "--qk-matmul-output-mode", "3", "-o", "out.npz"])?;
        // Its Y has the shape of K, V and Q, so it is a valid input in the other format.
        let npz = fs::read(folder.join("out.npz")).map_err(|error| error.to_string())?;
        tensors.push(SeedFile { name: "out.npz".into(), bytes: npz });
        let watched = ["--watch", "A fine day"];
        let trained: [(SeedModelKind, &str, &[&str]); 5] = [
            (SeedModelKind::Classifier, "a.csv", &watched),
            (SeedModelKind::Recurrent, "a.csv", &["--model", "gru"]),
            (SeedModelKind::Translator, "pairs.tsv", &["--task", "translate"]),
            (SeedModelKind::LanguageModel, "plain.txt", &["--task", "lm"]),
            (SeedModelKind::Tagger, "names.conll", &["--task", "tag"]),
        ];
        let mut models = Vec::new();
        for (kind, data, more) in &trained {
            let out = format!("{kind:?}");
            run(&[&["train", data, "--epochs", "1", "--threads", "2", "--out", &out], *more].concat())?;
            models.push(SeedModel { kind: *kind, files: files(&folder.join(&out))? });
        }
        models.push(SeedModel { kind: SeedModelKind::PublishedEncoder, files: published::encoder() });
        models.push(SeedModel { kind: SeedModelKind::PublishedLanguageModel, files: published::language_model() });
        models.push(SeedModel { kind: SeedModelKind::PublishedTranslator, files: published::translator() });
        // Check that the command accepts the valid folders.
        for SeedModel { kind, files } in &models[trained.len()..] {
            let name = format!("{kind:?}");
            for file in files {
                let path = folder.join(&name).join(&file.name);
                let made =
                    path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, &file.bytes));
                made.map_err(|error| format!("{}: {error}", path.display()))?;
            }
            run(&["explain", &name, "a fine day"])?;
        }
        let examples: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "chumoku-trace", "worked"].iter().collect();
        Ok(Seeds { labelled, pairs, parallel, spans, plain, models, worked_examples: files(&examples)?, tensors })
    }
}
