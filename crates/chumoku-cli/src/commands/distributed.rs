//! Rows that are read in one process and answered in others: what `chumoku.ray` is made of.
//!
//! A [`Reader`] reads the file of a command line as the command would, and gives its rows in parts that can be sent anywhere; an
//! [`Answerer`] of the same command line writes for each part what the command would have written. So the parts one after
//! the other are the command's output, whoever answered them.

use super::predict::{self, ModelInputs};
use super::row_output::{AnswerFormat, AnswerWriter, RowAnswers, SharedBuffer};
use super::stream::unanswered_message;
use super::{explain, tagger};
use crate::args::{Cli, Command, PredictArgs, ReadArgs};
use crate::{UsageError, is_usage_error, one_line};
use chumoku::data::{ColumnChoice, FeatureSource, Format, Record, Records, TableLayout, is_conll};
use chumoku::tr;
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::path::PathBuf;

/// Bytes of rows from which a part takes no further one.
const MAX_CHUNK_BYTES: usize = 4 << 20;

/// What went wrong, in a line.
#[derive(Clone, Debug)]
pub struct CommandError {
    /// What was being done, what was expected, what came.
    pub message: String,
    /// Whether the input or the use is at fault, rather than the work.
    pub is_usage: bool,
}

impl CommandError {
    fn from_error(error: anyhow::Error) -> CommandError {
        CommandError { message: one_line(&error), is_usage: is_usage_error(&error) }
    }
}

/// The command of a command line, its own name first. Where `--lang` is given, messages are in that language from here on.
fn parse_command(args: Vec<OsString>) -> Result<Command, CommandError> {
    match Cli::parse_args(args) {
        Ok(args) => {
            args.lang.into_iter().for_each(|lang| chumoku::set_lang(lang.into()));
            Ok(args.command)
        }
        Err(error) => Err(CommandError { message: crate::usage::error_line(&error), is_usage: true }),
    }
}

/// Reads the rows of `predict --input FILE`.
pub struct ChunkReader {
    records: Records,
    is_strict: bool,
    description: String,
    /// Rows that have been given out.
    given: u64,
    /// What ends the rows before their end, told behind those before it.
    fault: Option<CommandError>,
    has_ended: bool,
}

impl ChunkReader {
    /// Opens the file of a command line (`["chumoku", "predict", MODEL, FILE, …]`, or with `--input FILE`). What it says is in the
    /// language that the command would have.
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
            let path = args.input.as_deref().filter(|path| path.is_file()).ok_or_else(|| missing_file(&args))?;
            let options = super::read_options(&reading, false)?;
            if is_conll(path, &options)? {
                return Err(tagger::cannot_divide_conll(path).into());
            }
            super::stream::open_rows(path, &reading, reads.pairs)
        };
        let source = open().map_err(CommandError::from_error)?;
        let description = source.describe();
        let records = source.records();
        Ok(ChunkReader { records, is_strict: args.strict, description, given: 0, fault: None, has_ended: false })
    }

    /// How the file is read, and why.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The rows that were left out, if any were, in a sentence.
    #[must_use]
    pub fn skipped(&self) -> Option<String> {
        let skipped = self.records.skipped();
        (skipped.count > 0).then(|| skipped.to_string())
    }

    /// The next part, of at most so many rows; nothing at the end. The first part is there also where there are no rows: it
    /// has what stands before them.
    ///
    /// # Errors
    /// What cannot be read past, behind the rows before it.
    pub fn next_chunk(&mut self, most: usize) -> Result<Option<Vec<u8>>, CommandError> {
        if let Some(fault) = self.fault.take() {
            self.has_ended = true;
            return Err(fault);
        }
        if self.has_ended {
            return Ok(None);
        }
        let (first, mut rows, mut bytes) = (self.given, Vec::new(), 0);
        while rows.len() < most && bytes < MAX_CHUNK_BYTES {
            match self.records.next_with_fault() {
                Ok(None) => {
                    self.has_ended = true;
                    break;
                }
                Ok(Some((_, Some(fault)))) if self.is_strict => {
                    self.fault = Some(CommandError::from_error(fault.into()))
                }
                Err(fault) => self.fault = Some(CommandError::from_error(fault.into())),
                Ok(Some((record, fault))) => {
                    bytes += record.fields.iter().map(String::len).sum::<usize>();
                    rows.push(serialize_row(record, fault.map(|fault| fault.reason())));
                    continue;
                }
            }
            break;
        }
        self.given += rows.len() as u64;
        if rows.is_empty() && first > 0 {
            return if self.fault.is_some() { self.next_chunk(most) } else { Ok(None) };
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
}

/// What was written for a part.
#[derive(Clone, Debug, Default)]
pub struct AnsweredChunk {
    /// As the command writes it; in front of the first rows with what stands before them.
    pub bytes: Vec<u8>,
    /// How many rows there were.
    pub rows: usize,
    /// How many of them have no answer.
    pub unanswered: usize,
    /// Why the first of these has none.
    pub reason: Option<String>,
}

impl ChunkAnswerer {
    /// Reads the model of a command line (`["chumoku", "predict", MODEL, …]`, or `explain`).
    ///
    /// If `each_label` is set, the answers of a model of several labels are objects, in which each label has its probability.
    ///
    /// # Errors
    /// If the command line or the model cannot be used.
    pub fn load(args: Vec<OsString>, each_label: bool) -> Result<ChunkAnswerer, CommandError> {
        let found = match parse_command(args)? {
            Command::Predict(args) => predict::row_predictor(&args, each_label),
            Command::Explain(args) => explain::row_explainer(&args),
            _ => Err(UsageError(tr!("expected predict or explain", "predict か explain が必要です")).into()),
        };
        let (answering, reads) = found.map_err(CommandError::from_error)?;
        Ok(ChunkAnswerer { answers: answering, inputs: reads })
    }

    /// Whether texts are pairs.
    #[must_use]
    pub fn reads_pairs(&self) -> bool {
        self.inputs.pairs
    }

    /// The names of the columns beside the text that the model reads, but those that `--set` gives.
    #[must_use]
    pub fn feature_columns(&self) -> Vec<String> {
        let beside = self.inputs.feature_columns.iter().filter(|of| of.value.is_none());
        beside.map(|of| of.name.clone()).collect()
    }

    /// The names of the columns that answers have; nothing where an answer is an object.
    #[must_use]
    pub fn column_names(&self) -> Option<&[String]> {
        match &self.answers.form {
            AnswerFormat::Columns { names, .. } => Some(names),
            AnswerFormat::Objects { .. } => None,
        }
    }

    /// A text with the values of the [columns](Self::columns) beside it, as the model reads it.
    #[must_use]
    pub fn with_columns(&self, text: &str, cells: &[String]) -> String {
        if self.inputs.feature_columns.is_empty() {
            return text.to_owned();
        }
        let mut cells = cells.iter();
        let each = self.inputs.feature_columns.iter().map(|of| match &of.value {
            Some(value) => value.clone(),
            None => cells.next().cloned().unwrap_or_default(),
        });
        chumoku::row::join(text, &each.collect::<Vec<_>>())
    }

    /// The answers to texts, each as JSON: a list of the values of the columns, or an object.
    ///
    /// # Errors
    /// If the model cannot answer.
    pub fn answer(&mut self, texts: &[&str]) -> Result<Vec<String>, CommandError> {
        let is_columns = self.column_names().is_some();
        let found = (self.answers.answer)(texts).map_err(CommandError::from_error)?;
        let one = |mut values: Vec<Value>| match is_columns {
            true => Value::from(values).to_string(),
            false => values.pop().unwrap_or_default().to_string(),
        };
        Ok(found.into_iter().map(one).collect())
    }

    /// Writes a part that a [`Reader`] gave.
    ///
    /// # Errors
    /// If it is none, the model cannot answer, or a row cannot be written in this form.
    pub fn answer_chunk(&mut self, part: &[u8]) -> Result<AnsweredChunk, CommandError> {
        let part: Value = serde_json::from_slice(part).map_err(|_| not_a_chunk())?;
        let (first, layout, columns, rows) = parse_chunk(part).ok_or_else(not_a_chunk)?;
        self.answer_rows(first, &layout, &columns, &rows).map_err(CommandError::from_error)
    }

    fn answer_rows(
        &mut self,
        first: u64,
        layout: &TableLayout,
        columns: &ColumnChoice,
        rows: &[(Record, Option<String>)],
    ) -> anyhow::Result<AnsweredChunk> {
        let portion = SharedBuffer::default();
        let mut answers = AnswerWriter::new(portion.clone(), layout, columns, self.answers.form.clone())?;
        if first > 0 {
            // What stands before all rows is the first part's.
            answers.flush()?;
            portion.take();
            answers.skip_rows(first);
        }
        let texts = rows.iter().filter(|(_, fault)| fault.is_none()).map(|(record, _)| columns.row_text(record));
        let texts: Vec<_> = texts.collect();
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let found = if texts.is_empty() { Vec::new() } else { (self.answers.answer)(&texts)? };
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

/// How many rows have no answer, and why the first has none, in a sentence.
#[must_use]
pub fn unanswered(n: usize, first: &str) -> String {
    unanswered_message(n, first)
}

/// Refuses what is of one process.
fn check_flags(args: &PredictArgs) -> Result<(), UsageError> {
    let flags = [("--html", args.html.is_some()), ("--shard", args.shard.is_some()), ("--profile", args.profile)];
    match flags.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((flag, _)) => Err(UsageError(tr!(
            "{flag}: only of `chumoku predict`, which has no workers; leave it out",
            "{flag}: ワーカーのない `chumoku predict` だけで使えます。指定を外してください"
        ))),
    }
}

fn missing_file(args: &PredictArgs) -> UsageError {
    match &args.input {
        Some(path) => UsageError(tr!(
            "{}: expected a file, which workers can read again when one of them is lost",
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
    let message =
        tr!("expected a part that a reader of the same version gave", "同じ版の Reader が渡した部分ではありません");
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

type ParsedChunk = (u64, TableLayout, ColumnChoice, Vec<(Record, Option<String>)>);

/// The same, read back.
fn parse_chunk(mut part: Value) -> Option<ParsedChunk> {
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
    Some((first, layout, columns, rows.into_iter().map(deserialize_row).collect::<Option<_>>()?))
}

/// A row as it travels: line, fields, object, and what is wrong with it.
type SerializedRow = (u64, Vec<String>, Option<Map<String, Value>>, Option<String>);

fn deserialize_row(row: Value) -> Option<(Record, Option<String>)> {
    let (line, fields, object, fault): SerializedRow = serde_json::from_value(row).ok()?;
    Some((Record { line, fields, object }, fault))
}
