//! Implements `chumoku embed`: text embeddings with a pretrained encoder or a trained classifier.

use crate::answers::stream::{CommandInput, StreamOptions, stream};
use crate::args::{EmbedArgs, EmbeddingFormat};
use crate::models::embedding;
use crate::models::embedding::{VectorModel, embed_texts, read_texts};
use crate::output::{self, OutputPath};
use crate::{ExitCode, UsageError, threads};
use chumoku::answers::{self, AnswerFormat};
use chumoku::tensors::{Tensor, TensorFile};
use chumoku::{EmbedOptions, tr};
use serde_json::{Map, Value};
use std::io::{IsTerminal, Write, stdout};

pub(crate) fn run(args: &EmbedArgs) -> anyhow::Result<ExitCode> {
    threads::start_pool(args.threads)?;
    let out = output::output_file(&args.out);
    let format = match args.format {
        Some(format) => format,
        None => out.map_or(Ok(EmbeddingFormat::Jsonl), EmbeddingFormat::from_path)?,
    };
    refuse_if!(
        out.is_none() && format != EmbeddingFormat::Jsonl && stdout().is_terminal(),
        "--format: this format is binary and cannot be shown in a terminal; name a file with --out",
        "--format: この形式は文字ではありません。--out でファイルを指定してください"
    );
    let model = VectorModel::load(&args.model, args.precision)?;
    let mut options = EmbedOptions::default();
    options.prompt = args.prompt.as_deref();
    options.normalize = args.no_normalize.then_some(false);
    let given = CommandInput::open("embed", args.input.as_deref(), &args.texts, &args.reading, false)?;
    let texts: Vec<String> = match given {
        CommandInput::Rows(source) if format == EmbeddingFormat::Jsonl && out.is_none() => {
            let mut cut = 0;
            let format = AnswerFormat::objects(&["embedding"]);
            let rows = StreamOptions { strict: args.strict, ..StreamOptions::new(format) };
            let code = stream(*source, rows, |rows| {
                let texts: Vec<&str> = rows.iter().map(|row| row.text()).collect();
                let found = model.embed(&texts, options)?;
                cut += found.truncated;
                let rows = texts.iter().zip(found.vectors.rows());
                Ok(rows.map(|(text, vector)| vec![json_line(text, vector.iter()).into()]).collect())
            })?;
            embedding::report_truncation(model, cut);
            return Ok(code);
        }
        CommandInput::Rows(source) => read_texts(*source)?,
        CommandInput::Texts(texts) => texts.into_iter().map(String::from).collect(),
    };
    let vectors = embed_texts(model, &texts, options)?.vectors;
    let bytes = match format {
        EmbeddingFormat::Jsonl => {
            let lines = texts
                .iter()
                .zip(vectors.rows())
                .map(|(text, row)| format!("{}\n", Value::from(json_line(text, row.iter()))));
            lines.collect::<String>().into_bytes()
        }
        EmbeddingFormat::Npy => Tensor::F32(vectors.into_dyn()).to_npy(),
        EmbeddingFormat::Safetensors => {
            let mut file = TensorFile::default();
            file.tensors.insert("embeddings".into(), Tensor::F32(vectors.into_dyn()));
            file.to_safetensors()
        }
    };
    match out {
        None => stdout().lock().write_all(&bytes)?,
        Some(path) => {
            path.write(&bytes)?;
            let rows = texts.len();
            say!(
                "{}",
                tr!(
                    "wrote {rows} × {} numbers to {}",
                    "{1} に {rows} × {0} 個の数を書き出しました",
                    model.embedding_dim(),
                    path.display()
                )
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the JSON line of a text. Numbers have enough digits to identify each f32.
fn json_line<'a>(text: &str, vector: impl Iterator<Item = &'a f32>) -> Map<String, Value> {
    Map::from_iter([("text".to_owned(), text.into()), ("embedding".to_owned(), answers::vector(vector))])
}

impl EmbeddingFormat {
    /// Returns the format of a file name. Refuses a name of another format, such as `vectors.csv`.
    fn from_path(out: &OutputPath) -> Result<Self, UsageError> {
        match out.extension().as_deref() {
            Some("npy") => Ok(EmbeddingFormat::Npy),
            Some("safetensors") => Ok(EmbeddingFormat::Safetensors),
            _ => {
                let known = ["jsonl", "ndjson", "json", "txt"];
                out.check_extension(&known, &[".jsonl", ".npy", ".safetensors"]).map(|()| EmbeddingFormat::Jsonl)
            }
        }
    }
}
