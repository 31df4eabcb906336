//! The readers of all formats behind one face.

use super::delimited::CsvReader;
use super::error::DataError;
use super::excel::ExcelReader;
use super::fasttext::{FastTextReader, PlainReader};
use super::format::Format;
use super::json_array::JsonArrayReader;
use super::json_lines::JsonReader;
use super::lines::LineReader;
use super::parquet::ParquetReader;
use super::record::Record;
use super::tsv::TsvReader;

/// A reader of rows in one of the formats.
pub(crate) enum Reader {
    Csv(CsvReader),
    Tsv(TsvReader),
    Json(JsonReader),
    JsonArray(JsonArrayReader),
    FastText(FastTextReader),
    Plain(PlainReader),
    Parquet(Box<ParquetReader>),
    Excel(ExcelReader),
}

impl Reader {
    /// The reader for lines in this format; `several_labels` if a line of fastText may have several.
    pub(crate) fn of_lines(format: Format, lines: LineReader, several_labels: bool) -> Self {
        match format {
            Format::Csv { delimiter } => Reader::Csv(CsvReader::new(lines, delimiter)),
            Format::Tsv => Reader::Tsv(TsvReader::new(lines)),
            Format::JsonLines => Reader::Json(JsonReader::new(lines)),
            Format::Json => Reader::JsonArray(JsonArrayReader::new(lines)),
            Format::FastText => Reader::FastText(FastTextReader::new(lines, several_labels)),
            // These have no lines; `open` has declined what calls itself so.
            Format::PlainText | Format::Parquet | Format::Excel => Reader::Plain(PlainReader::new(lines)),
        }
    }

    /// Lines begun so far; 0 where there are none.
    pub(crate) fn lines(&self) -> u64 {
        match self {
            Reader::Csv(reader) => reader.lines.begun(),
            Reader::Tsv(reader) => reader.lines.begun(),
            Reader::Json(reader) => reader.lines.begun(),
            Reader::JsonArray(reader) => reader.begun(),
            Reader::FastText(reader) => reader.lines.begun(),
            Reader::Plain(reader) => reader.lines.begun(),
            Reader::Parquet(_) | Reader::Excel(_) => 0,
        }
    }

    /// The next row, or `None` at the end. After a row error reading may go on; after any other it must not.
    pub(crate) fn next_row(&mut self) -> Result<Option<Record>, DataError> {
        match self {
            Reader::Csv(reader) => reader.next_row(),
            Reader::Tsv(reader) => reader.next_row(),
            Reader::Json(reader) => reader.next_row(),
            Reader::JsonArray(reader) => reader.next_row(),
            Reader::FastText(reader) => reader.next_row(),
            Reader::Plain(reader) => reader.next_row(),
            Reader::Parquet(reader) => reader.next_row(),
            Reader::Excel(reader) => reader.next_row(),
        }
    }
}
