//! Rows of a file, the layout that they share, and the record of skipped rows.

use std::fmt;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::error::without_advice;
use super::format::Format;
use crate::lang::wording::{format_count, join_names};

/// Most columns that a description names.
const MAX_NAMED_COLUMNS: usize = 8;

/// A row with all its columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The line on which the row starts, or its row number in Parquet, from 1.
    pub line: u64,
    /// The value of each column as text. Empty if the row has none.
    pub fields: Vec<String>,
    /// For JSONL, JSON objects and Parquet: the row with every key in order, including keys outside the layout.
    pub object: Option<Map<String, Value>>,
}

impl Record {
    pub(crate) fn from_fields(line: u64, fields: Vec<String>) -> Self {
        Record { line, fields, object: None }
    }

    pub(crate) fn from_object(line: u64, object: Map<String, Value>) -> Self {
        Record { line, fields: Vec::new(), object: Some(object) }
    }

    /// Returns the field of a column. Empty if there is none.
    pub fn field(&self, column: usize) -> &str {
        self.fields.get(column).map_or("", String::as_str)
    }

    /// Returns the row as an object: its own, or its fields under `keys` ([`TableLayout::keys`]).
    pub fn to_object(&self, keys: &[String]) -> Map<String, Value> {
        match &self.object {
            Some(object) => object.clone(),
            None => keys.iter().cloned().zip(self.fields.iter().cloned().map(Value::String)).collect(),
        }
    }

    /// Sets the fields of an object row to the values of these keys.
    pub(crate) fn set_fields(&mut self, columns: &[String]) {
        if self.object.is_some() {
            self.fields = columns.iter().map(|key| self.value(key).map_or_else(String::new, value_to_text)).collect();
        }
    }

    /// Returns the value under a key, or at a path such as `message.body`. Rows that are not objects have none.
    pub(crate) fn value(&self, key: &str) -> Option<&Value> {
        let object = self.object.as_ref()?;
        object.get(key).or_else(|| value_at_path(object, key))
    }

    /// Estimates the memory of the row, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let strings = self.fields.iter().map(|field| field.len() + size_of::<String>()).sum::<usize>();
        let object = self.object.as_ref().map_or(0, |object| object.values().map(value_memory_bytes).sum());
        size_of::<Self>() + strings + object
    }
}

/// Returns the value at a path.
fn value_at_path<'a>(object: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    // A key may contain points.
    path.match_indices('.').find_map(|(at, _)| {
        let inner = object.get(&path[..at])?.as_object()?;
        inner.get(&path[at + 1..]).or_else(|| value_at_path(inner, &path[at + 1..]))
    })
}

/// Converts a JSON value to the text of a field: strings unchanged, null as nothing, everything else as JSON.
pub(crate) fn value_to_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Estimates the memory of a value and its key.
fn value_memory_bytes(value: &Value) -> usize {
    64 + match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(value_memory_bytes).sum(),
        Value::Object(object) => object.values().map(value_memory_bytes).sum(),
        _ => 0,
    }
}

/// The properties that all rows of a file share. They suffice to write rows in the same form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableLayout {
    /// The file, as the user named it.
    pub path: PathBuf,
    /// Its format.
    pub format: Format,
    /// True if the first row holds the column names (CSV, TSV and Excel). For a JSON array, true if the columns have
    /// names.
    pub header: bool,
    /// The column names. In files without names: `text`, `label`, and `column_1`, `column_2` … by position.
    pub columns: Vec<String>,
}

impl TableLayout {
    /// Names a column for messages: `column “review”`, or `column 2` if the file gives no name.
    pub(crate) fn column_title(&self, column: usize) -> String {
        match self.columns.get(column) {
            Some(name) if self.has_names() && !name.trim().is_empty() => {
                crate::tr!("column {}", "列{}", crate::lang::wording::quote(name))
            }
            _ => crate::tr!("column {}", "{} 列目", column + 1),
        }
    }

    /// Returns whether a column may be a path into an object.
    pub(crate) fn is_path(&self, column: usize) -> bool {
        matches!(self.format, Format::JsonLines | Format::Json)
            && self.columns.get(column).is_some_and(|name| name.contains('.'))
    }

    /// Lists the columns outside `used`, to end a description: `; not used: column “id”`. Empty if there are none.
    pub(crate) fn describe_unused(&self, used: &[Option<usize>]) -> String {
        let left = (0..self.columns.len()).filter(|column| !used.contains(&Some(*column)));
        let titles: Vec<String> = left.map(|column| self.column_title(column)).collect();
        let shown = &titles[..titles.len().min(MAX_NAMED_COLUMNS)];
        match titles.len() - shown.len() {
            _ if titles.is_empty() => String::new(),
            0 => crate::tr!("; not used: {}", "。使わない列: {}", join_names(shown)),
            more => {
                crate::tr!("; not used: {} and {more} more", "。使わない列: {} ほか {more} 列", join_names(shown))
            }
        }
    }

    /// Returns the column names as unique, non-empty keys of an object.
    pub fn keys(&self) -> Vec<String> {
        let mut seen = std::collections::HashSet::new();
        let columns = self.columns.iter().enumerate();
        columns
            .map(|(c, name)| {
                let name = if name.trim().is_empty() { format!("column_{}", c + 1) } else { name.clone() };
                let numbered = (2_u64..).map(|n| format!("{name}_{n}"));
                let mut names = std::iter::once(name.clone()).chain(numbered);
                let key = names.find(|name| !seen.contains(name)).unwrap_or(name);
                seen.insert(key.clone());
                key
            })
            .collect()
    }

    /// Creates a row of empty fields, for a row that cannot be read.
    pub(crate) fn empty_record(&self, line: u64) -> Record {
        let object = matches!(self.format, Format::JsonLines | Format::Json | Format::Parquet).then(Map::new);
        Record { line, fields: vec![String::new(); self.columns.len()], object }
    }

    /// Returns whether the file names its columns.
    pub(crate) fn has_names(&self) -> bool {
        match self.format {
            Format::Csv { .. } | Format::Tsv | Format::Excel | Format::Json => self.header,
            Format::JsonLines | Format::Parquet => true,
            Format::FastText | Format::PlainText => false,
        }
    }
}

/// A skipped row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedRow {
    /// The line on which the row starts.
    pub(crate) line: u64,
    /// The error that would have stopped reading without `skip_bad_rows`.
    pub(crate) reason: String,
}

/// The rows that were skipped because they could not be used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkippedRows {
    /// Number of skipped rows.
    pub count: u64,
    /// The first hundred of them.
    pub rows: Vec<SkippedRow>,
}

impl SkippedRows {
    /// Most rows that are described, to keep memory constant.
    pub(crate) const MAX_DESCRIBED: usize = 100;

    pub(crate) fn add(&mut self, line: u64, reason: String) {
        self.count += 1;
        // Errors are not always found in row order.
        let at = self.rows.partition_point(|row| row.line <= line);
        if at < Self::MAX_DESCRIBED {
            self.rows.insert(at, SkippedRow { line, reason });
            self.rows.truncate(Self::MAX_DESCRIBED);
        }
    }
}

impl fmt::Display for SkippedRows {
    /// `2 rows left out, the first because: train.csv:17: …`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rows.first() {
            None => f.write_str(&crate::tr!("no rows left out", "除いた行はありません")),
            Some(first) => {
                // The advice to skip rows has been followed.
                let (n, rows, reason) = (self.count, format_count(self.count, "row"), without_advice(&first.reason));
                f.write_str(&crate::tr!(
                    "{rows} left out, the first because: {reason}",
                    "{n} 行を除きました。最初の理由: {reason}"
                ))
            }
        }
    }
}
