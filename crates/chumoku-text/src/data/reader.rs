//! One interface to the readers of all formats.

use super::delimited::CsvReader;
use super::error::DataError;
use super::excel::ExcelReader;
use super::fasttext::{FastTextReader, PlainReader};
use super::format::Format;
use super::json_array::JsonArrayReader;
use super::json_lines::JsonLinesReader;
use super::lines::LineReader;
use super::parquet::ParquetReader;
use super::record::Record;
use super::tsv::TsvReader;

/// A reader of rows in one of the formats.
pub(crate) enum FormatReader {
    Csv(CsvReader),
    Tsv(TsvReader),
    Json(JsonLinesReader),
    JsonArray(JsonArrayReader),
    FastText(FastTextReader),
    Plain(PlainReader),
    Parquet(Box<ParquetReader>),
    Excel(ExcelReader),
}

impl FormatReader {
    /// Creates the reader for lines in this format. `several_labels` allows several labels on a line of fastText.
    pub(crate) fn for_lines(format: Format, lines: LineReader, several_labels: bool) -> Self {
        match format {
            Format::Csv { delimiter } => FormatReader::Csv(CsvReader::new(lines, delimiter)),
            Format::Tsv => FormatReader::Tsv(TsvReader::new(lines)),
            Format::JsonLines => FormatReader::Json(JsonLinesReader::new(lines)),
            Format::Json => FormatReader::JsonArray(JsonArrayReader::new(lines)),
            Format::FastText => FormatReader::FastText(FastTextReader::new(lines, several_labels)),
            // Parquet and Excel have no lines, and `open` has already refused other files with their extensions.
            Format::PlainText | Format::Parquet | Format::Excel => FormatReader::Plain(PlainReader::new(lines)),
        }
    }

    /// Number of lines started so far; 0 for formats without lines.
    pub(crate) fn lines_begun(&self) -> u64 {
        match self {
            FormatReader::Csv(reader) => reader.lines.lines_begun(),
            FormatReader::Tsv(reader) => reader.lines.lines_begun(),
            FormatReader::Json(reader) => reader.lines.lines_begun(),
            FormatReader::JsonArray(reader) => reader.lines_begun(),
            FormatReader::FastText(reader) => reader.lines.lines_begun(),
            FormatReader::Plain(reader) => reader.lines.lines_begun(),
            FormatReader::Parquet(_) | FormatReader::Excel(_) => 0,
        }
    }

    /// Returns the next row, or `None` at the end. Reading may continue after a row error, but not after any other
    /// error.
    pub(crate) fn next_row(&mut self) -> Result<Option<Record>, DataError> {
        match self {
            FormatReader::Csv(reader) => reader.next_row(),
            FormatReader::Tsv(reader) => reader.next_row(),
            FormatReader::Json(reader) => reader.next_row(),
            FormatReader::JsonArray(reader) => reader.next_row(),
            FormatReader::FastText(reader) => reader.next_row(),
            FormatReader::Plain(reader) => reader.next_row(),
            FormatReader::Parquet(reader) => reader.next_row(),
            FormatReader::Excel(reader) => reader.next_row(),
        }
    }
}
