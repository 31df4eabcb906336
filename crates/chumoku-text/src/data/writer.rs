//! Writes rows back in their original form with added columns: the output of `predict`.

use std::cell::Cell;
use std::io::{self, Write};

use serde_json::{Map, Value};

use super::error::DataError;
use super::format::Format;
use super::record::{Record, TableLayout, value_to_text};
use super::tsv::reads_back;

/// The format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OutputFormat {
    /// The input format. Plain text and fastText become TSV with a header, Parquet and JSON become JSONL, and Excel
    /// becomes CSV.
    #[default]
    LikeInput,
    /// Like `LikeInput`, with a byte order mark before CSV and TSV, so that Excel recognizes UTF-8.
    LikeInputWithBom,
    /// JSONL for every input format.
    JsonLines,
}

/// Writes the rows of a file with added columns, so that reading them back gives the same fields.
///
/// A header is written if the input had one. The output is UTF-8, with `\n` after each row.
pub struct RecordWriter<W: Write> {
    rows: RowSink<W>,
    /// The column names of the input, made unique for JSON.
    keys: Vec<String>,
    added: Vec<String>,
    /// Number of rows written, without the header.
    row_number: u64,
}

enum RowSink<W: Write> {
    Csv(Box<csv::Writer<BomWriter<W>>>),
    Tsv { out: BomWriter<W>, begun: bool },
    Json(W),
}

impl<W: Write> RecordWriter<W> {
    /// Creates a writer for rows with this layout, followed by the columns `added`, and writes the header.
    ///
    /// An added column is renamed if the input has a column of that name (`label` → `predicted_label`).
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    pub fn new(out: W, layout: &TableLayout, added: &[&str], form: OutputFormat) -> Result<Self, DataError> {
        let mut names: Vec<String> = Vec::new();
        for name in added {
            let name = unused_name(name, |name| {
                let same = |other: &String| other.trim().to_lowercase() == name.to_lowercase();
                layout.columns.iter().any(same) || names.iter().any(same)
            });
            names.push(name);
        }
        let (rows, header) = match (form, layout.format) {
            (OutputFormat::JsonLines, _) | (_, Format::JsonLines | Format::Json | Format::Parquet) => {
                (RowSink::Json(out), false)
            }
            (_, Format::Csv { .. } | Format::Excel) => {
                let delimiter = match layout.format {
                    Format::Csv { delimiter } => u8::try_from(delimiter).unwrap_or(b','),
                    _ => b',',
                };
                let writer = csv::WriterBuilder::new()
                    .delimiter(delimiter)
                    .has_headers(false)
                    .flexible(true)
                    .from_writer(BomWriter::new(out, form)?);
                (RowSink::Csv(Box::new(writer)), layout.header)
            }
            (_, Format::Tsv) => (RowSink::Tsv { out: BomWriter::new(out, form)?, begun: false }, layout.header),
            (_, Format::FastText | Format::PlainText) => {
                (RowSink::Tsv { out: BomWriter::new(out, form)?, begun: false }, true)
            }
        };
        let mut writer = RecordWriter { rows, keys: layout.keys(), added: names, row_number: 0 };
        if header {
            let names: Vec<String> = layout.columns.iter().chain(&writer.added).cloned().collect();
            writer.write_fields(&names)?;
        }
        Ok(writer)
    }

    /// Counts rows that other writers write before the next one, if this writer has only part of a file.
    ///
    /// The next row is written as if those rows were before it.
    pub fn skip_rows(&mut self, rows: u64) {
        self.row_number += rows;
        if rows > 0 {
            match &mut self.rows {
                RowSink::Json(_) => {}
                RowSink::Tsv { out, begun } => {
                    out.has_started.set(true);
                    *begun = true;
                }
                RowSink::Csv(writer) => writer.get_ref().has_started.set(true),
            }
        }
    }

    /// Writes a row. `values` are those of the added columns, in order.
    ///
    /// A null value is left out of an object, and is an empty field in other formats.
    ///
    /// # Errors
    ///
    /// If the output cannot be written, or if a field with a line break would not read back from TSV.
    pub fn write(&mut self, record: &Record, values: &[Value]) -> Result<(), DataError> {
        self.row_number += 1;
        if let RowSink::Json(out) = &mut self.rows {
            let mut object = record.to_object(&self.keys);
            for (name, value) in self.added.iter().zip(values).filter(|(_, value)| !value.is_null()) {
                // A key that first occurs after the sample may have the same name.
                let name = unused_name(name, |name| object.contains_key(name));
                object.insert(name, value.clone());
            }
            return write_object(out, &object).map_err(|source| DataError::Write { source });
        }
        let fields: Vec<String> = record.fields.iter().cloned().chain(values.iter().map(value_to_text)).collect();
        self.write_fields(&fields)
    }

    fn write_fields(&mut self, fields: &[String]) -> Result<(), DataError> {
        match &mut self.rows {
            RowSink::Json(_) => Ok(()),
            RowSink::Csv(writer) => writer.write_record(fields).map_err(|error| {
                // Converting the whole error to `io::Error` would lose the kind that reports a closed pipe.
                let source = match error.into_kind() {
                    csv::ErrorKind::Io(source) => source,
                    other => io::Error::other(format!("{other:?}")),
                };
                DataError::Write { source }
            }),
            RowSink::Tsv { out, begun } => {
                let row = tsv_row(fields);
                if row.contains('\n') && !(*begun && reads_back(&row, fields)) {
                    return Err(DataError::UnwritableRow { row: self.row_number });
                }
                *begun = true;
                out.write_all(format!("{row}\n").as_bytes()).map_err(|source| DataError::Write { source })
            }
        }
    }

    /// Flushes the output.
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    pub fn flush(&mut self) -> Result<(), DataError> {
        let flushed = match &mut self.rows {
            RowSink::Json(out) => out.flush(),
            RowSink::Tsv { out, .. } => out.flush(),
            RowSink::Csv(writer) => writer.flush(),
        };
        flushed.map_err(|source| DataError::Write { source })
    }

    /// Flushes and returns the output.
    ///
    /// # Errors
    ///
    /// If the output cannot be flushed.
    pub fn finish(self) -> Result<W, DataError> {
        let flushed = |mut out: W| out.flush().map(|()| out);
        let result = match self.rows {
            RowSink::Json(out) => flushed(out),
            RowSink::Tsv { out, .. } => flushed(out.out),
            RowSink::Csv(writer) => {
                writer.into_inner().map_err(|error| error.into_error()).and_then(|guard| flushed(guard.out))
            }
        };
        result.map_err(|source| DataError::Write { source })
    }
}

fn write_object(out: &mut impl Write, object: &Map<String, Value>) -> io::Result<()> {
    let mut line = serde_json::to_vec(object)?;
    line.push(b'\n');
    out.write_all(&line)
}

/// Formats a row of TSV. Quotes fields that contain a tab or a line break, or that start with a quote.
fn tsv_row(fields: &[String]) -> String {
    if let [field] = fields
        && field.is_empty()
    {
        return "\"\"".to_owned();
    }
    // Bytes, since decoding characters took 4 % of the time of a prediction with n-grams.
    let is_special = |byte: u8| matches!(byte, b'\t' | b'\n' | b'\r');
    let quoted = |field: &String| match field.starts_with('"') || field.bytes().any(is_special) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.clone(),
    };
    fields.iter().map(quoted).collect::<Vec<_>>().join("\t")
}

/// Returns the first unused name of `name`, `predicted_name`, `predicted_name_2` …
fn unused_name(name: &str, taken: impl Fn(&str) -> bool) -> String {
    let predicted = if name.starts_with("predicted_") { name.to_owned() } else { format!("predicted_{name}") };
    let numbered = (2_u64..).map(|n| format!("{predicted}_{n}"));
    let mut names = [name.to_owned(), predicted.clone()].into_iter().chain(numbered);
    names.find(|name| !taken(name)).unwrap_or(predicted)
}

/// The byte order mark in UTF-8.
const BOM: &[u8] = "\u{feff}".as_bytes();

/// Writes a byte order mark before output that should have one, or that starts with one, because readers remove the
/// first.
struct BomWriter<W> {
    out: W,
    has_started: Cell<bool>,
}

impl<W: Write> BomWriter<W> {
    fn new(mut out: W, form: OutputFormat) -> Result<Self, DataError> {
        let begun = form == OutputFormat::LikeInputWithBom;
        if begun {
            out.write_all(BOM).map_err(|source| DataError::Write { source })?;
        }
        Ok(BomWriter { out, has_started: Cell::new(begun) })
    }
}

impl<W: Write> Write for BomWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.has_started.get() && bytes.starts_with(BOM) {
            self.out.write_all(BOM)?;
        }
        self.has_started.set(self.has_started.get() || !bytes.is_empty());
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Makes a field safe for spreadsheets: adds an apostrophe, which they do not show, before a field that would start a
/// formula. Such fields start with `=`, `+`, `-`, `@`, a tab or a carriage return. Numbers stay unchanged. The page of
/// the service has the same rule.
#[must_use]
pub fn escape_formula(field: &str) -> String {
    let is_number = || field.parse::<f64>().is_ok_and(f64::is_finite);
    match field.starts_with(['=', '+', '-', '@', '\t', '\r']) && !is_number() {
        true => format!("'{field}"),
        false => field.to_owned(),
    }
}
