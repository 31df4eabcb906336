//! A CSV reader for RFC 4180 that reports the place of every error.
//!
//! The `csv` crate does not read the files: it takes an unclosed quote for the end of the file and holds fields of any
//! length in memory. It also does not count columns in characters. It is used for writing (`writer.rs`), and the tests
//! compare this reader with it.
//!
//! - A quoted field ends at the next quote that is not doubled, and may span several lines. After the closing quote,
//!   anything except a delimiter or the end of the line is an error.
//! - In an unquoted field a quote is an ordinary character.
//! - In a file with quoted fields after spaces, as in `a, "b, c"`, spaces after a delimiter are left out.
//! - These are not rows: empty lines, `sep=;` in the first line (Excel's), and white space alone if there are several
//!   columns.

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
    /// True if spaces after a delimiter are left out.
    pub(crate) skips_spaces: bool,
    delimiter: char,
    width: RowWidth,
}

/// The fields of a row, and their number, which may be larger than the number kept.
struct CsvFields {
    kept: Vec<String>,
    count: usize,
    /// Line and column of the first extra field, or of the end of the row.
    position: (u64, u64),
}

impl CsvReader {
    pub(crate) fn new(lines: LineReader, delimiter: char) -> Self {
        CsvReader { lines, skips_spaces: false, delimiter, width: RowWidth::default() }
    }

    pub(crate) fn next_row(&mut self) -> Result<Option<Record>, DataError> {
        let first = loop {
            match self.lines.next_line()? {
                None => return Ok(None),
                Some(line) if self.width.is_blank(&line.text, self.delimiter) => {}
                // Excel's line that names the delimiter is not a row.
                Some(line) if line.number == 1 && named_delimiter(&line.text) == Some(self.delimiter) => {}
                Some(line) => break line,
            }
        };
        let number = first.number;
        let mut row = vec![first];
        let fields = match self.read_fields(&mut row) {
            Ok(fields) => fields,
            Err(error) => {
                // The unclosed quote may have swallowed good rows, so only its own line is lost.
                self.lines.push_back(row.drain(1..));
                return Err(error);
            }
        };
        let (line, column) = fields.position;
        let place = || self.lines.location(line).at_column(column);
        self.width.check("CSV", place, number, fields.count)?;
        Ok(Some(Record::from_fields(number, fields.kept)))
    }

    /// Splits a row into fields. Appends the lines that it spans to `row`.
    fn read_fields(&mut self, row: &mut Vec<TextLine>) -> Result<CsvFields, DataError> {
        let most = self.width.expected.map_or(MAX_COLUMNS, |(columns, _)| columns);
        let mut fields = CsvFields { kept: Vec::new(), count: 0, position: (0, 0) };
        let (mut at, mut total) = (0, 0);
        loop {
            let line = last_line(row);
            if self.skips_spaces {
                at = line.text.len() - line.text[at..].trim_start_matches(' ').len();
            }
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

    /// Reads the field whose opening quote is at `at`, and moves `at` past the delimiter. Returns the value, and
    /// whether the row ends here.
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
                // The lines are held so that they can be given back. Short lines cost more than their text.
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
                    // The opening quote is as likely to be the mistake, so the error points there.
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

/// Returns the last line that a row has reached. A row has at least one.
fn last_line(row: &[TextLine]) -> &TextLine {
    &row[row.len() - 1]
}

/// Parses a first line such as `sep=;`, with which Excel names the delimiter.
pub(crate) fn named_delimiter(line: &str) -> Option<char> {
    let mut named = line.strip_prefix("sep=")?.chars();
    let delimiter = named.next().filter(|c| c.is_ascii() && !c.is_alphanumeric() && *c != '"')?;
    named.next().is_none().then_some(delimiter)
}
