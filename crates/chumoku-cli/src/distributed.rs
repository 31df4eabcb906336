//! Distributed prediction for `chumoku.ray`: one process reads the rows, other processes answer them.
//!
//! A [`ChunkReader`] reads the file of a command line as the command would, and returns its rows in serialized chunks.
//! A [`ChunkAnswerer`] of the same command line writes for each chunk what the command would have written. Concatenated
//! in order, the answered chunks equal the output of the command.

use crate::answers::row_output::{AnswerWriter, RowAnswers, SharedBuffer};
use crate::answers::stream::{open_rows, unanswered_message};
use crate::args::{Cli, Command, PredictArgs, ReadArgs};
use crate::commands::{explain, predict};
use crate::data::read_options;
use crate::usage::{UsageError, is_usage_error, one_line};
use chumoku::answers::{AnswerFormat, ModelInputs};
use chumoku::data::{ColumnChoice, FeatureSource, Format, Record, Records, TableLayout, is_conll};
use chumoku::row::{AsRow, Row, RowRef, as_rows};
use chumoku::tr;
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::path::PathBuf;

/// Size of the rows in bytes from which a chunk is full.
const MAX_CHUNK_BYTES: usize = 4 << 20;

/// An error as a single line.
#[derive(Clone, Debug)]
pub struct CommandError {
    /// The error message.
    pub message: String,
    /// True if the input or the command line is at fault, rather than the work.
    pub is_usage: bool,
}

impl CommandError {
    fn from_error(error: anyhow::Error) -> CommandError {
        CommandError { message: one_line(&error), is_usage: is_usage_error(&error) }
    }
}

/// Parses a command line that starts with the program's name. `--lang` sets the language of all later messages.
fn parse_command(args: Vec<OsString>) -> Result<Command, CommandError> {
    match Cli::parse_args(args) {
        Ok(args) => {
            args.lang.into_iter().for_each(|lang| chumoku::set_lang(lang.into()));
            Ok(args.command)
        }
        Err(error) => Err(CommandError { message: crate::usage::error_line(&error), is_usage: true }),
    }
}

/// Reads the rows of `predict --input FILE` in chunks.
pub struct ChunkReader {
    records: Records,
    is_strict: bool,
    description: String,
    /// Number of rows returned so far.
    rows_read: u64,
    /// The error that ends the rows early, reported after the rows before it.
    pending_error: Option<CommandError>,
    has_ended: bool,
}

impl ChunkReader {
    /// Opens the file of a command line (`["chumoku", "predict", MODEL, FILE, …]`, or with `--input FILE`). Messages
    /// are in the language that the command would use.
    ///
    /// # Errors
    /// If the command line, the model or the file cannot be used.
    pub fn open(args: Vec<OsString>) -> Result<ChunkReader, CommandError> {
        crate::usage::choose_lang(args.iter().skip(1).cloned());
        let Command::Predict(mut args) = parse_command(args)? else {
            return Err(CommandError::from_error(UsageError(tr!("expected predict", "predict が必要です")).into()));
        };
        if let ([file], None) = (args.texts.as_slice(), &args.input) {
            args.input = Some(PathBuf::from(file));
            args.texts.clear();
        }
        args.reading.use_training_source(&args.model);
        let open = || {
            check_flags(&args)?;
            let (_, reads) = predict::row_predictor(&args, false)?;
            let reading = ReadArgs { feature_columns: reads.feature_columns, ..args.reading.clone() };
            let path = args
                .input
                .as_deref()
                .filter(|path| path.as_os_str() != "-" && path.is_file())
                .ok_or_else(|| missing_file(&args))?;
            let options = read_options(&reading, false)?;
            if is_conll(path, &options)? {
                return Err(predict::cannot_divide_conll(path).into());
            }
            open_rows(path, &reading, reads.pairs)
        };
        let source = open().map_err(CommandError::from_error)?;
        let description = source.describe();
        let records = source.records();
        Ok(ChunkReader {
            records,
            is_strict: args.strict,
            description,
            rows_read: 0,
            pending_error: None,
            has_ended: false,
        })
    }

    /// Returns how the file is read, and why.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns a sentence about skipped rows, if there are any.
    #[must_use]
    pub fn skipped(&self) -> Option<String> {
        let skipped = self.records.skipped();
        (skipped.count > 0).then(|| skipped.to_string())
    }

    /// Returns the next chunk of at most `most` rows, or `None` at the end. The first chunk exists even without rows,
    /// because it writes the header.
    ///
    /// # Errors
    /// If a row cannot be read. The rows before it come first.
    pub fn next_chunk(&mut self, most: usize) -> Result<Option<Vec<u8>>, CommandError> {
        if let Some(fault) = self.pending_error.take() {
            self.has_ended = true;
            return Err(fault);
        }
        if self.has_ended {
            return Ok(None);
        }
        let (first, mut rows, mut bytes) = (self.rows_read, Vec::new(), 0);
        while rows.len() < most && bytes < MAX_CHUNK_BYTES {
            match self.records.next_with_fault() {
                Ok(None) => {
                    self.has_ended = true;
                    break;
                }
                Ok(Some((_, Some(fault)))) if self.is_strict => {
                    self.pending_error = Some(CommandError::from_error(fault.into()))
                }
                Err(fault) => self.pending_error = Some(CommandError::from_error(fault.into())),
                Ok(Some((record, fault))) => {
                    bytes += record.fields.iter().map(String::len).sum::<usize>();
                    rows.push(serialize_row(record, fault.map(|fault| fault.reason())));
                    continue;
                }
            }
            break;
        }
        self.rows_read += rows.len() as u64;
        if rows.is_empty() && first > 0 {
            return if self.pending_error.is_some() { self.next_chunk(most) } else { Ok(None) };
        }
        let source = self.records.source();
        let (layout, columns) = (source.layout(), source.columns());
        let part =
            json!({ "first": first, "layout": layout_json(layout), "columns": columns_json(columns), "rows": rows });
        Ok(Some(part.to_string().into_bytes()))
    }
}

/// Answers rows as `predict` and `explain` do.
pub struct ChunkAnswerer {
    answers: RowAnswers<'static>,
    inputs: ModelInputs,
    /// Start the output with a byte order mark.
    bom: bool,
}

/// The output for a chunk.
#[derive(Clone, Debug, Default)]
pub struct AnsweredChunk {
    /// The bytes as the command writes them; the first chunk includes the header.
    pub bytes: Vec<u8>,
    /// Number of rows.
    pub rows: usize,
    /// Number of rows without an answer.
    pub unanswered: usize,
    /// The reason for the first row without an answer.
    pub reason: Option<String>,
}

impl ChunkAnswerer {
    /// Loads the model of a command line (`["chumoku", "predict", MODEL, …]`, or `explain`).
    ///
    /// If `each_label` is set, multi-label models answer with objects that hold the probability of each label.
    ///
    /// # Errors
    /// If the command line or the model cannot be used.
    pub fn load(args: Vec<OsString>, each_label: bool) -> Result<ChunkAnswerer, CommandError> {
        let command = parse_command(args)?;
        let bom = matches!(&command, Command::Predict(args) if args.bom);
        let found = match command {
            Command::Predict(args) => predict::row_predictor(&args, each_label),
            Command::Explain(args) => explain::row_explainer(&args),
            _ => Err(UsageError(tr!("expected predict or explain", "predict か explain が必要です")).into()),
        };
        let (answering, reads) = found.map_err(CommandError::from_error)?;
        Ok(ChunkAnswerer { answers: answering, inputs: reads, bom })
    }

    /// Returns true if the model reads text pairs.
    #[must_use]
    pub fn reads_pairs(&self) -> bool {
        self.inputs.pairs
    }

    /// Returns the names of the feature columns that the model reads, except those given by `--set`.
    #[must_use]
    pub fn feature_columns(&self) -> Vec<String> {
        self.inputs.column_names()
    }

    /// Returns the names of the answer columns, or `None` if an answer is an object.
    #[must_use]
    pub fn column_names(&self) -> Option<&[String]> {
        match &self.answers.form {
            AnswerFormat::Columns(names) => Some(names),
            AnswerFormat::Objects(_) => None,
        }
    }

    /// Joins a text with the values of its [feature columns](Self::feature_columns), as the model reads it.
    #[must_use]
    pub fn with_columns(&self, text: impl AsRow, cells: &[String]) -> Row {
        self.inputs.with_columns(text, cells)
    }

    /// Answers texts. Each answer is JSON: a list of column values, or an object.
    ///
    /// # Errors
    /// If the model cannot answer.
    pub fn answer(&mut self, texts: &[RowRef<'_>]) -> Result<Vec<String>, CommandError> {
        let is_columns = self.column_names().is_some();
        let found = (self.answers.answer)(texts).map_err(CommandError::from_error)?;
        let one = |mut values: Vec<Value>| match is_columns {
            true => Value::from(values).to_string(),
            false => values.pop().unwrap_or_default().to_string(),
        };
        Ok(found.into_iter().map(one).collect())
    }

    /// Writes the answers to a chunk of a [`ChunkReader`].
    ///
    /// # Errors
    /// If the chunk is invalid, the model cannot answer, or a row cannot be written in this format.
    pub fn answer_chunk(&mut self, part: &[u8]) -> Result<AnsweredChunk, CommandError> {
        let part: Value = serde_json::from_slice(part).map_err(|_| not_a_chunk())?;
        let chunk = parse_chunk(part).ok_or_else(not_a_chunk)?;
        self.answer_rows(&chunk).map_err(CommandError::from_error)
    }

    fn answer_rows(&mut self, chunk: &RowChunk) -> anyhow::Result<AnsweredChunk> {
        let RowChunk { first, layout, columns, rows } = chunk;
        let portion = SharedBuffer::default();
        let mut answers = AnswerWriter::new(portion.clone(), layout, columns, self.answers.form.clone(), self.bom)?;
        if *first > 0 {
            // The first chunk has written the header.
            answers.flush()?;
            portion.take();
            answers.skip_rows(*first);
        }
        let texts = rows.iter().filter(|(_, fault)| fault.is_none()).map(|(record, _)| columns.row(record));
        let texts: Vec<Row> = texts.collect();
        let found = if texts.is_empty() { Vec::new() } else { (self.answers.answer)(&as_rows(&texts))? };
        let mut found = found.into_iter();
        let mut written = AnsweredChunk { rows: rows.len(), ..AnsweredChunk::default() };
        for (record, fault) in rows {
            match fault {
                None => answers.write(record, found.next(), None)?,
                Some(reason) => {
                    answers.write(record, None, Some(reason))?;
                    written.unanswered += 1;
                    written.reason.get_or_insert_with(|| reason.clone());
                }
            }
        }
        answers.flush()?;
        drop(answers);
        written.bytes = portion.take();
        Ok(written)
    }
}

/// Describes rows without an answer: their number, and the reason for the first.
#[must_use]
pub fn unanswered(n: usize, first: &str) -> String {
    unanswered_message(n, first)
}

/// Refuses flags that need a single process.
fn check_flags(args: &PredictArgs) -> Result<(), UsageError> {
    let flags = [("--html", args.html.is_some()), ("--shard", args.shard.is_some()), ("--profile", args.profile)];
    match flags.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((flag, _)) => Err(UsageError(tr!(
            "{flag}: only `chumoku predict`, which has no workers, supports it; leave it out",
            "{flag}: ワーカーのない `chumoku predict` だけで使えます。指定を外してください"
        ))),
    }
}

fn missing_file(args: &PredictArgs) -> UsageError {
    match &args.input {
        Some(path) => UsageError(tr!(
            "{}: expected a file, because it is read again if a worker is lost",
            "{}: ファイルが必要です。ワーカーが失われたときに読み直せなければなりません",
            path.display()
        )),
        None => UsageError(tr!(
            "expected one file with the texts, found {} of them",
            "テキストの入ったファイルが 1 つ必要ですが、{} 個です",
            args.texts.len()
        )),
    }
}

fn not_a_chunk() -> CommandError {
    let message = tr!(
        "expected a chunk from a reader of the same version",
        "同じバージョンの Reader が読み出したものではありません"
    );
    CommandError { message, is_usage: true }
}

fn serialize_row(record: Record, fault: Option<String>) -> Value {
    let Record { line, fields, object } = record;
    json!([line, fields, object, fault])
}

fn layout_json(layout: &TableLayout) -> Value {
    let path = layout.path.to_string_lossy();
    json!({ "path": path, "format": layout.format, "header": layout.header, "columns": layout.columns })
}

fn columns_json(columns: &ColumnChoice) -> Value {
    let beside = columns.features.iter().map(|of| match of {
        FeatureSource::Column(column) => json!(column),
        FeatureSource::Value(value) => json!(value),
    });
    json!({ "text": columns.text, "second": columns.second, "beside": beside.collect::<Value>() })
}

/// A chunk of rows.
struct RowChunk {
    /// Number of rows before it.
    first: u64,
    layout: TableLayout,
    columns: ColumnChoice,
    /// Records, and why they cannot be answered.
    rows: Vec<(Record, Option<String>)>,
}

/// Parses a chunk.
fn parse_chunk(mut part: Value) -> Option<RowChunk> {
    let first = part["first"].as_u64()?;
    let (layout, columns) = (&part["layout"], &part["columns"]);
    let layout = TableLayout {
        path: PathBuf::from(layout["path"].as_str()?),
        format: serde_json::from_value::<Format>(layout["format"].clone()).ok()?,
        header: layout["header"].as_bool()?,
        columns: serde_json::from_value(layout["columns"].clone()).ok()?,
    };
    let place = |value: &Value| usize::try_from(value.as_u64()?).ok();
    let beside = columns["beside"].as_array()?.iter().map(|of| match of {
        Value::String(value) => Some(FeatureSource::Value(value.clone())),
        other => place(other).map(FeatureSource::Column),
    });
    let beside = beside.collect::<Option<Vec<_>>>()?;
    let (text, second) = (place(&columns["text"])?, place(&columns["second"]));
    let columns = ColumnChoice {
        text,
        second,
        label: None,
        text_why: "",
        label_why: "",
        features: beside,
        alternatives: Vec::new(),
    };
    let Value::Array(rows) = part["rows"].take() else { return None };
    let rows = rows.into_iter().map(deserialize_row).collect::<Option<_>>()?;
    Some(RowChunk { first, layout, columns, rows })
}

/// A serialized row: line, fields, object, and error.
type SerializedRow = (u64, Vec<String>, Option<Map<String, Value>>, Option<String>);

fn deserialize_row(row: Value) -> Option<(Record, Option<String>)> {
    let (line, fields, object, fault): SerializedRow = serde_json::from_value(row).ok()?;
    Some((Record { line, fields, object }, fault))
}
