//! TSV. Real files come with two customs: quotes as plain characters (corpora, `cut`, `awk`), and quotes as in CSV
//! (spreadsheets, pandas). The number of columns, which the first row fixes, decides row by row:
//!
//! 1. Fields that begin with a quote and close before a tab or the end of the line are taken out of their quotes, as
//!    in CSV; all other quotes are plain characters. If the row then has the right number of columns, that is it.
//! 2. Else, if plain tabs give the right number, every quote is a plain character.
//! 3. Else, if columns are missing and a quote was left open, the row goes on through the next lines until the quote
//!    closes with the right number of columns (a text with line breaks, as pandas writes it).
//! 4. Else the row is an error.
//!
//! So an unbalanced quote never swallows rows, and the first row is always one line.

use std::io::Cursor;
use std::path::Path;

use super::error::DataError;
use super::limits::MAX_COLUMNS;
use super::lines::{LineReader, TextLine};
use super::record::Record;
use super::width::RowWidth;

/// Lines a row may go on for.
const MAX_JOINED_LINES: usize = 500;
/// Bytes it may have then.
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
            // The tab in front of the first field too many, or the end of the line.
            let extra = expected.and_then(|expected| line.text.match_indices('\t').nth(expected - 1));
            let at = extra.map_or(line.text.len(), |(at, _)| at + 1);
            self.lines.location(line.number).at_column(line.column(at))
        };
        self.width.check("TSV", place, line.number, count)?;
        Ok(Some(Record::from_fields(line.number, fields)))
    }

    /// Tries rule 3; gives the lines back if it does not work out.
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

/// A row cut into fields.
pub(crate) struct QuotedRow {
    pub(crate) fields: Vec<String>,
    /// How many there are; of many more than expected only the first are kept in `fields`.
    pub(crate) count: usize,
    /// Whether one begins with a quote that does not close.
    has_open_quote: bool,
}

/// Cuts a row by rule 1.
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

/// The value of a field from behind its opening quote, and what follows its closing one; `None` if no quote closes it.
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

/// Whether a row with line breaks in it, below others of as many columns, reads back as these fields.
pub(crate) fn reads_back(row: &str, fields: &[String]) -> bool {
    let input = Box::new(Cursor::new(row.as_bytes().to_vec()));
    let mut reader = TsvReader::new(LineReader::new(Path::new(""), input, 0, false));
    reader.width.expected = Some((fields.len(), 1));
    matches!(reader.next_row(), Ok(Some(record)) if record.fields == fields) && matches!(reader.next_row(), Ok(None))
}
