//! The readers of all formats behind one face, and the limits they keep.

use super::delimited::CsvReader;
use super::error::{DataError, Place};
use super::fasttext::{FastTextReader, PlainReader};
use super::format::Format;
use super::json_lines::JsonReader;
use super::lines::LineReader;
use super::parquet::ParquetReader;
use super::record::Record;
use super::tsv::TsvReader;
use crate::lang::lang;

/// Most bytes of one text (16 MiB): far more than any model reads, little enough to hold in memory.
pub const MAX_TEXT_BYTES: u64 = 16 << 20;
/// Most bytes of one row (32 MiB), its other columns and JSON escapes included.
pub const MAX_ROW_BYTES: u64 = 32 << 20;
/// Most columns of a table.
pub(crate) const MAX_COLUMNS: usize = 4096;

/// A reader of rows in one of the formats.
pub(crate) enum Reader {
    Csv(CsvReader),
    Tsv(TsvReader),
    Json(JsonReader),
    FastText(FastTextReader),
    Plain(PlainReader),
    Parquet(Box<ParquetReader>),
}

impl Reader {
    /// The reader for lines in this format.
    pub(crate) fn of_lines(format: Format, lines: LineReader) -> Self {
        match format {
            Format::Csv { delimiter } => Reader::Csv(CsvReader::new(lines, delimiter)),
            Format::Tsv => Reader::Tsv(TsvReader::new(lines)),
            Format::JsonLines => Reader::Json(JsonReader::new(lines)),
            Format::FastText => Reader::FastText(FastTextReader::new(lines)),
            // Parquet has no lines; `open` has declined what calls itself so.
            Format::PlainText | Format::Parquet => Reader::Plain(PlainReader::new(lines)),
        }
    }

    /// Lines begun so far; 0 where there are none.
    pub(crate) fn lines(&self) -> u64 {
        match self {
            Reader::Csv(reader) => reader.lines.begun(),
            Reader::Tsv(reader) => reader.lines.begun(),
            Reader::Json(reader) => reader.lines.begun(),
            Reader::FastText(reader) => reader.lines.begun(),
            Reader::Plain(reader) => reader.lines.begun(),
            Reader::Parquet(_) => 0,
        }
    }

    /// The next row, or `None` at the end. After a row error reading may go on; after any other it must not.
    pub(crate) fn next_row(&mut self) -> Result<Option<Record>, DataError> {
        match self {
            Reader::Csv(reader) => reader.next_row(),
            Reader::Tsv(reader) => reader.next_row(),
            Reader::Json(reader) => reader.next_row(),
            Reader::FastText(reader) => reader.next_row(),
            Reader::Plain(reader) => reader.next_row(),
            Reader::Parquet(reader) => reader.next_row(),
        }
    }
}

/// The number of columns, which the first row of a table fixes for all others.
#[derive(Default)]
pub(crate) struct Width {
    /// The number, and the line that fixed it.
    pub(crate) fixed: Option<(usize, u64)>,
}

impl Width {
    /// Whether a line is no row: empty, or white space where there are several columns.
    pub(crate) fn is_blank(&self, line: &str, delimiter: char) -> bool {
        let several = self.fixed.is_some_and(|(columns, _)| columns > 1);
        line.is_empty() || (several && !line.contains(delimiter) && line.trim().is_empty())
    }

    /// Checks a row of `found` columns, or takes it as the model if it is the first.
    pub(crate) fn check(
        &mut self,
        format: &'static str,
        place: impl FnOnce() -> Place,
        line: u64,
        found: usize,
    ) -> Result<(), DataError> {
        match self.fixed {
            Some((expected, _)) if found == expected => Ok(()),
            Some((expected, model)) => Err(DataError::Ragged {
                place: place(),
                format,
                expected: expected as u64,
                found: found as u64,
                model,
                advice: match (format, found > expected) {
                    ("CSV", true) => lang().pick(
                        "put a text that holds the delimiter in quotes",
                        "区切り文字を含むテキストは引用符で囲んでください",
                    ),
                    (_, true) => lang().pick("take the tabs out of the text", "テキストからタブを取り除いてください"),
                    (_, false) => lang().pick("add what is missing", "足りない値を補ってください"),
                },
            }),
            None if found > MAX_COLUMNS => Err(DataError::TooManyColumns { place: place(), limit: MAX_COLUMNS, found }),
            None => {
                self.fixed = Some((found, line));
                Ok(())
            }
        }
    }
}
