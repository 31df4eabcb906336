//! Output format of answered rows.

use chumoku::answers::AnswerFormat;
use chumoku::data::{ColumnChoice, DataError, Format, OutputFormat, Record, RecordWriter, TableLayout};
use chumoku::row::RowRef;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

/// Column for the reason why a row has no answer.
const ERROR_COLUMN: &str = "error";

/// A function that answers texts: for each, the values of the added columns, or the object.
pub(crate) type AnswerFn<'a> = Box<dyn FnMut(&[RowRef<'_>]) -> anyhow::Result<Vec<Vec<Value>>> + Send + 'a>;

/// An output format with the function that computes the answers.
pub(crate) struct RowAnswers<'a> {
    pub(crate) form: AnswerFormat,
    pub(crate) answer: AnswerFn<'a>,
}

/// Writes answers.
pub(crate) enum AnswerWriter<W: Write> {
    Columns {
        writer: RecordWriter<W>,
        /// Number of added columns, without that of reasons.
        added: usize,
    },
    Objects {
        out: W,
        unanswered: Map<String, Value>,
        columns: ColumnChoice,
        /// Names of the input columns; `None` if the input has only texts.
        keys: Option<Vec<String>>,
    },
}

impl<W: Write> AnswerWriter<W> {
    pub(crate) fn new(
        out: W,
        layout: &TableLayout,
        columns: &ColumnChoice,
        form: AnswerFormat,
        bom: bool,
    ) -> anyhow::Result<Self> {
        Ok(match form {
            AnswerFormat::Objects(unanswered) => {
                let keys = (layout.format != Format::PlainText).then(|| layout.keys());
                AnswerWriter::Objects { out, unanswered, columns: columns.clone(), keys }
            }
            AnswerFormat::Columns(names) => {
                refuse_if!(
                    bom && matches!(layout.format, Format::JsonLines | Format::Json | Format::Parquet),
                    "--bom: the output is JSON, which has no byte order mark; leave it out",
                    "--bom: 行は JSON で書き出され、JSON に BOM は付きません。--bom を外してください"
                );
                let form = if bom { OutputFormat::LikeInputWithBom } else { OutputFormat::LikeInput };
                let all: Vec<&str> = names.iter().map(String::as_str).chain([ERROR_COLUMN]).collect();
                AnswerWriter::Columns { writer: RecordWriter::new(out, layout, &all, form)?, added: names.len() }
            }
        })
    }

    /// Skips rows that other shards write before the next one.
    pub(crate) fn skip_rows(&mut self, rows: u64) {
        if let AnswerWriter::Columns { writer, .. } = self {
            writer.skip_rows(rows);
        }
    }

    /// Writes a row with its answer or, without one, with the reason.
    pub(crate) fn write(
        &mut self,
        record: &Record,
        answer: Option<Vec<Value>>,
        reason: Option<&str>,
    ) -> Result<(), DataError> {
        let reason = reason.map_or(Value::Null, Value::from);
        match self {
            AnswerWriter::Columns { writer, added } => {
                let mut values = answer.unwrap_or_else(|| vec![Value::Null; *added]);
                values.push(reason);
                writer.write(record, &values)
            }
            AnswerWriter::Objects { out, unanswered, columns, keys } => {
                let mut object = Map::new();
                match answer.and_then(|mut values| values.pop()) {
                    Some(Value::Object(answer)) => object = answer,
                    _ => {
                        chumoku::answers::insert_text(&mut object, columns.row(record));
                        object.extend(unanswered.clone());
                    }
                }
                if let Some(keys) = keys {
                    object.insert("input".into(), record.to_object(keys).into());
                }
                if !reason.is_null() {
                    object.insert(ERROR_COLUMN.into(), reason);
                }
                writeln!(out, "{}", Value::Object(object)).map_err(|source| DataError::Write { source })
            }
        }
    }

    pub(crate) fn flush(&mut self) -> Result<(), DataError> {
        match self {
            AnswerWriter::Columns { writer, .. } => writer.flush(),
            AnswerWriter::Objects { out, .. } => out.flush().map_err(|source| DataError::Write { source }),
        }
    }
}

/// A buffer with shared ownership: one owner writes bytes, another takes them.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedBuffer(Rc<RefCell<Vec<u8>>>);

impl SharedBuffer {
    /// Takes the bytes written since the last call.
    pub(crate) fn take(&self) -> Vec<u8> {
        self.0.take()
    }
}

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
