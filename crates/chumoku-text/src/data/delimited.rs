//! CSV, as RFC 4180 has it, with the place of every mistake.
//!
//! A reader of our own, because the `csv` crate takes an unclosed quote for the end of the file, holds a field of any
//! length in memory and does not count columns of characters. The `csv` crate writes (see `writer.rs`), and the tests
//! hold this reader against it.
//!
//! - A field that begins with a quote ends at the next quote that is not doubled, and may run over several lines.
//!   Anything but a delimiter or the end of the line behind that quote is an error.
//! - In any other field a quote is a plain character.
//! - Empty lines are no rows, nor is `sep=;` in the first line (Excel's), nor is white space alone where there are several columns.

use super::error::DataError;
use super::limits::{MAX_COLUMNS, MAX_ROW_BYTES, MAX_TEXT_BYTES};
use super::lines::{LineReader, TextLine};
use super::record::Record;
use super::width::RowWidth;
use crate::lang::lang;
use crate::lang::wording::{MAX_QUOTED_CHARS, format_size};
use crate::tr;

/// Reads the rows of a CSV file.
pub(crate) struct CsvReader {
    pub(crate) lines: LineReader,
    delimiter: char,
    width: RowWidth,
}

/// The fields of a row, and how many there were, should there be too many to keep.
struct CsvFields {
    kept: Vec<String>,
    count: usize,
    /// Line and column where the first field too many begins, or else where the row ends.
    position: (u64, u64),
}

impl CsvReader {
    pub(crate) fn new(lines: LineReader, delimiter: char) -> Self {
        CsvReader { lines, delimiter, width: RowWidth::default() }
    }

    pub(crate) fn next_row(&mut self) -> Result<Option<Record>, DataError> {
        let first = loop {
            match self.lines.next_line()? {
                None => return Ok(None),
                Some(line) if self.width.is_blank(&line.text, self.delimiter) => {}
                // Excel's way of naming the delimiter is no row.
                Some(line) if line.number == 1 && named_delimiter(&line.text) == Some(self.delimiter) => {}
                Some(line) => break line,
            }
        };
        let number = first.number;
        let mut row = vec![first];
        let fields = match self.read_fields(&mut row) {
            Ok(fields) => fields,
            Err(error) => {
                // The quote that was left open may have swallowed good rows: only its own line is lost.
                self.lines.push_back(row.drain(1..));
                return Err(error);
            }
        };
        let (line, column) = fields.position;
        let place = || self.lines.location(line).at_column(column);
        self.width.check("CSV", place, number, fields.count)?;
        Ok(Some(Record::from_fields(number, fields.kept)))
    }

    /// Cuts a row into fields, adding to `row` the lines it runs over.
    fn read_fields(&mut self, row: &mut Vec<TextLine>) -> Result<CsvFields, DataError> {
        let most = self.width.expected.map_or(MAX_COLUMNS, |(columns, _)| columns);
        let mut fields = CsvFields { kept: Vec::new(), count: 0, position: (0, 0) };
        let (mut at, mut total) = (0, 0);
        loop {
            let line = last_line(row);
            let begins = (line.number, line.column(at));
            let (value, last_one) = if line.text[at..].starts_with('"') {
                self.read_quoted_field(row, &mut at)?
            } else {
                let rest = &line.text[at..];
                let end = rest.find(self.delimiter);
                let value = rest[..end.unwrap_or(rest.len())].to_owned();
                at += value.len() + end.map_or(0, |_| self.delimiter.len_utf8());
                (value, end.is_none())
            };
            total += value.len() as u64;
            if total > MAX_ROW_BYTES {
                let place = self.lines.location(row[0].number);
                return Err(DataError::TooLong {
                    place,
                    what: lang().pick("a row", "行"),
                    limit: MAX_ROW_BYTES,
                    bytes: total,
                });
            }
            if fields.count == most {
                fields.position = begins;
            }
            if fields.count < most {
                fields.kept.push(value);
            }
            fields.count += 1;
            if last_one {
                if fields.count <= most {
                    let line = last_line(row);
                    fields.position = (line.number, line.column(line.text.len()));
                }
                return Ok(fields);
            }
        }
    }

    /// Reads the field whose opening quote is at `at`, moves `at` behind the delimiter that follows, and says whether
    /// the row ends instead.
    fn read_quoted_field(&mut self, row: &mut Vec<TextLine>, at: &mut usize) -> Result<(String, bool), DataError> {
        let opened = (last_line(row).number, last_line(row).column(*at));
        let mut value = String::new();
        *at += 1;
        loop {
            let line = last_line(row);
            let rest = &line.text[*at..];
            let Some(quote) = rest.find('"') else {
                value.push_str(rest);
                value.push_str(line.ending);
                let place = self.lines.location(opened.0).at_column(opened.1);
                let unclosed = |found| DataError::UnclosedQuote { place, found };
                // The lines are kept, to be given back; short ones cost more than their text.
                let held = value.len() + size_of_val(row.as_slice());
                if held as u64 > MAX_TEXT_BYTES {
                    return Err(unclosed(tr!("none within {}", "{} を超えるところ", format_size(MAX_TEXT_BYTES))));
                }
                let end = line.number;
                match self.lines.next_line()? {
                    Some(line) => row.push(line),
                    None => {
                        return Err(unclosed(tr!(
                            "the end of the file after line {end}",
                            "ファイルの終わり（{end} 行目の後）"
                        )));
                    }
                }
                *at = 0;
                continue;
            };
            value.push_str(&rest[..quote]);
            *at += quote + 1;
            match rest[quote + 1..].chars().next() {
                Some('"') => {
                    value.push('"');
                    *at += 1;
                }
                None => return Ok((value, true)),
                Some(c) if c == self.delimiter => {
                    *at += c.len_utf8();
                    return Ok((value, false));
                }
                Some(_) => {
                    // Its opening quote is as likely the mistake, so that is the place.
                    return Err(DataError::StrayQuote {
                        place: self.lines.location(opened.0).at_column(opened.1),
                        found_at: format!("{}:{}", line.number, line.column(*at)),
                        expected: match self.delimiter {
                            ',' => lang().pick("a comma or the end of the line", "コンマか行末"),
                            ';' => lang().pick("a semicolon or the end of the line", "セミコロンか行末"),
                            _ => lang().pick("the delimiter or the end of the line", "区切り文字か行末"),
                        },
                        found: rest[quote + 1..].chars().take(MAX_QUOTED_CHARS + 1).collect(),
                    });
                }
            }
        }
    }
}

/// The line a row has reached; a row has at least one.
fn last_line(row: &[TextLine]) -> &TextLine {
    &row[row.len() - 1]
}

/// The delimiter that Excel reads in a first line such as `sep=;`.
pub(crate) fn named_delimiter(line: &str) -> Option<char> {
    let mut named = line.strip_prefix("sep=")?.chars();
    let delimiter = named.next().filter(|c| c.is_ascii() && !c.is_alphanumeric() && *c != '"')?;
    named.next().is_none().then_some(delimiter)
}
