//! One row of a file, the layout all rows share, and the account of rows left out.

use std::fmt;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::format::Format;
use super::wording::count;

/// One row, with all its columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The line on which the row begins, or the number of the row in Parquet; from 1.
    pub line: u64,
    /// The value of each column of the layout as text; empty where the row has none.
    pub fields: Vec<String>,
    /// JSONL and Parquet: the row itself with every key, in order, also those outside the layout.
    pub object: Option<Map<String, Value>>,
}

impl Record {
    pub(crate) fn of_fields(line: u64, fields: Vec<String>) -> Self {
        Record { line, fields, object: None }
    }

    pub(crate) fn of_object(line: u64, object: Map<String, Value>) -> Self {
        Record { line, fields: Vec::new(), object: Some(object) }
    }

    /// The field of a column; empty if there is none.
    pub fn field(&self, column: usize) -> &str {
        self.fields.get(column).map_or("", String::as_str)
    }

    /// Sets the fields of an object to the values of these keys.
    pub(crate) fn fill(&mut self, columns: &[String]) {
        if let Some(object) = &self.object {
            self.fields = columns.iter().map(|key| object.get(key).map_or_else(String::new, as_text)).collect();
        }
    }

    /// Roughly the memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        let strings = self.fields.iter().map(|field| field.len() + size_of::<String>()).sum::<usize>();
        let object = self.object.as_ref().map_or(0, |object| object.values().map(value_bytes).sum());
        size_of::<Self>() + strings + object
    }
}

/// A JSON value as the text of a field: strings as they are, null as nothing, the rest as JSON writes it.
pub(crate) fn as_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Roughly the memory of a value, its key included.
fn value_bytes(value: &Value) -> usize {
    64 + match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(value_bytes).sum(),
        Value::Object(object) => object.values().map(value_bytes).sum(),
        _ => 0,
    }
}

/// What all rows of a file have in common; enough to write rows like them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The file, as the user named it.
    pub path: PathBuf,
    /// Its format.
    pub format: Format,
    /// Whether its first row holds the names of the columns (CSV and TSV only).
    pub header: bool,
    /// The names of the columns; where the file has none: `text`, `label`, and `column_1`, `column_2` … by position.
    pub columns: Vec<String>,
}

impl Layout {
    /// A column as a message names it: `column “review”`, or `column 2` where the file gives no name.
    pub fn column_title(&self, column: usize) -> String {
        match self.columns.get(column) {
            Some(name) if self.has_names() && !name.trim().is_empty() => {
                format!("column {}", super::wording::quoted(name))
            }
            _ => format!("column {}", column + 1),
        }
    }

    /// Whether the file itself names its columns.
    pub fn has_names(&self) -> bool {
        match self.format {
            Format::Csv { .. } | Format::Tsv => self.header,
            Format::JsonLines | Format::Parquet => true,
            Format::FastText | Format::PlainText => false,
        }
    }
}

/// A row that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedRow {
    /// The line on which it begins.
    pub line: u64,
    /// The error that reading it without `skip_bad_rows` would have ended with.
    pub reason: String,
}

/// The rows that were left out because they could not be used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped {
    /// How many there are.
    pub count: u64,
    /// The first hundred of them.
    pub rows: Vec<SkippedRow>,
}

impl Skipped {
    /// Rows described at most, to keep memory constant.
    const DESCRIBED: usize = 100;

    pub(crate) fn add(&mut self, line: u64, reason: String) {
        self.count += 1;
        if self.rows.len() < Self::DESCRIBED {
            self.rows.push(SkippedRow { line, reason });
        }
    }
}

impl fmt::Display for Skipped {
    /// `2 rows left out, the first because: train.csv:17: …`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rows.first() {
            None => write!(f, "no rows left out"),
            Some(first) => {
                // The advice behind the last semicolon has been taken.
                let reason = first.reason.rsplit_once("; ").map_or(&*first.reason, |(reason, _)| reason);
                write!(f, "{} left out, the first because: {reason}", count(self.count, "row"))
            }
        }
    }
}
