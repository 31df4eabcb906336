//! Reads TSV. Files follow two conventions: quotes as ordinary characters (corpora, `cut`, `awk`), and quotes as in CSV
//! (spreadsheets, pandas). The first row sets the number of columns, which decides for each row:
//!
//! 1. Fields that start with a quote and close it before a tab or the end of the line are unquoted, as in CSV. All
//!    other quotes are ordinary characters. If the row then has the right number of columns, it is accepted.
//! 2. Otherwise, if plain tabs give the right number, every quote is an ordinary character.
//! 3. Otherwise, if columns are missing and a quote is open, the row continues on the next lines. It ends where the
//!    quote closes with the right number of columns (a text with line breaks, as pandas writes it).
//! 4. Otherwise the row is an error.
//!
//! So an unbalanced quote never swallows rows, and the first row is always one line.

use std::io::Cursor;
use std::path::Path;

use super::error::DataError;
use super::limits::MAX_COLUMNS;
use super::lines::{LineReader, TextLine};
use super::record::Record;
use super::width::RowWidth;

/// Most lines of a row.
const MAX_JOINED_LINES: usize = 500;
/// Most bytes of a row that spans several lines.
const MAX_JOINED_BYTES: usize = 1 << 20;

/// Reads the rows of a TSV file.
pub(crate) struct TsvReader {
    pub(crate) lines: LineReader,
    width: RowWidth,
}

impl TsvReader {
    pub(crate) fn new(lines: LineReader) -> Self {
        TsvReader { lines, width: RowWidth::default() }
    }

    pub(crate) fn next_row(&mut self) -> Result<Option<Record>, DataError> {
        let line = loop {
            match self.lines.next_line()? {
                None => return Ok(None),
                Some(line) if self.width.is_blank(&line.text, '\t') => {}
                Some(line) => break line,
            }
        };
        let expected = self.width.expected.map(|(columns, _)| columns);
        let QuotedRow { mut fields, mut count, has_open_quote: open } = split_quoted(&line.text, expected);
        if let Some(expected) = expected.filter(|&expected| count != expected) {
            let plain = line.text.split('\t').count();
            let fitting = if plain == expected {
                Some(line.text.split('\t').map(str::to_owned).collect())
            } else if open && count < expected {
                self.join_lines(&line, expected)?
            } else {
                None
            };
            if let Some(fitting) = fitting {
                (fields, count) = (fitting, expected);
            }
        }
        let place = || {
            // The tab before the first extra field, or the end of the line.
            let extra = expected.and_then(|expected| line.text.match_indices('\t').nth(expected - 1));
            let at = extra.map_or(line.text.len(), |(at, _)| at + 1);
            self.lines.location(line.number).at_column(line.column(at))
        };
        self.width.check("TSV", place, line.number, count)?;
        Ok(Some(Record::from_fields(line.number, fields)))
    }

    /// Tries rule 3. Gives the lines back if it fails.
    fn join_lines(&mut self, first: &TextLine, expected: usize) -> Result<Option<Vec<String>>, DataError> {
        let mut joined = format!("{}{}", first.text, first.ending);
        let mut taken: Vec<TextLine> = Vec::new();
        while taken.len() < MAX_JOINED_LINES && joined.len() < MAX_JOINED_BYTES {
            let Some(line) = self.lines.next_line()? else {
                break;
            };
            joined.push_str(&line.text);
            let closes = line.text.contains('"');
            let ending = line.ending;
            taken.push(line);
            if closes {
                let cut = split_quoted(&joined, Some(expected));
                if cut.count == expected && !cut.has_open_quote {
                    return Ok(Some(cut.fields));
                }
            }
            joined.push_str(ending);
        }
        self.lines.push_back(taken.into_iter());
        Ok(None)
    }
}

/// A row split into fields.
pub(crate) struct QuotedRow {
    pub(crate) fields: Vec<String>,
    /// Number of fields. Extra fields are counted but not kept in `fields`.
    pub(crate) count: usize,
    /// True if a field starts with a quote that does not close.
    has_open_quote: bool,
}

/// Splits a row by rule 1.
pub(crate) fn split_quoted(row: &str, expected: Option<usize>) -> QuotedRow {
    let kept = expected.unwrap_or(MAX_COLUMNS);
    let mut cut = QuotedRow { fields: Vec::new(), count: 0, has_open_quote: false };
    let mut rest = row;
    loop {
        let closed = rest.strip_prefix('"').and_then(unquote);
        cut.has_open_quote |= closed.is_none() && rest.starts_with('"');
        let (field, behind) = match closed {
            Some((field, behind)) => (field, behind.strip_prefix('\t')),
            None => match rest.split_once('\t') {
                Some((field, behind)) => (field.to_owned(), Some(behind)),
                None => (rest.to_owned(), None),
            },
        };
        if cut.count < kept {
            cut.fields.push(field);
        }
        cut.count += 1;
        match behind {
            Some(behind) => rest = behind,
            None => return cut,
        }
    }
}

/// Returns the value after an opening quote and the text after the closing one. `None` if the quote does not close.
fn unquote(rest: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = rest;
    loop {
        let (before, behind) = rest.split_once('"')?;
        value.push_str(before);
        match behind.strip_prefix('"') {
            Some(behind) => {
                value.push('"');
                rest = behind;
            }
            None if behind.is_empty() || behind.starts_with('\t') => return Some((value, behind)),
            None => return None,
        }
    }
}

/// Returns whether a row with line breaks reads back as these fields, below other rows with the same number of columns.
pub(crate) fn reads_back(row: &str, fields: &[String]) -> bool {
    let input = Box::new(Cursor::new(row.as_bytes().to_vec()));
    let mut reader = TsvReader::new(LineReader::new(Path::new(""), input, 0, false));
    reader.width.expected = Some((fields.len(), 1));
    matches!(reader.next_row(), Ok(Some(record)) if record.fields == fields) && matches!(reader.next_row(), Ok(None))
}
