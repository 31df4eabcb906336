//! Reads lines of bounded length and checks that they are text.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::decode::{find_iso_2022_jp, guess_encoding};
use super::error::{DataError, SourceLocation};
use super::gzip::StreamFault;
use super::limits::MAX_ROW_BYTES;
use crate::lang::lang;
use crate::tr;

/// The length after which a line counts as endless.
pub(super) const MAX_LINE_SCAN: u64 = 1 << 30;

/// A line of a text file, without its line ending.
#[derive(Debug)]
pub(crate) struct TextLine {
    /// The line number, from 1.
    pub(crate) number: u64,
    pub(crate) text: String,
    /// The line ending: `"\n"`, `"\r\n"`, `"\r"`, or nothing at the end of the file.
    pub(crate) ending: &'static str,
}

impl TextLine {
    /// Returns the column of the byte at `at`, in characters counted from 1.
    pub(crate) fn column(&self, at: usize) -> u64 {
        column_at(&self.text, at)
    }
}

/// The position of a byte in a file.
pub(crate) struct BytePosition {
    /// The line, from 1.
    pub(crate) line: u64,
    /// The character in the line, from 1.
    pub(crate) column: u64,
    /// The number of bytes before it.
    pub(crate) offset: u64,
}

/// Returns the column of the byte at `at` in `line`, in characters counted from 1. A byte inside a character counts as
/// that character.
pub(crate) fn column_at(line: &str, at: usize) -> u64 {
    line.char_indices().take_while(|&(start, c)| start + c.len_utf8() <= at).count() as u64 + 1
}

/// Reads lines that end with `\n` or `\r\n`, or with `\r` in files without any `\n` (old Macintosh).
///
/// Memory is bounded: for a line over the limit, only the length is kept.
pub(crate) struct LineReader {
    input: BufReader<Box<dyn Read + Send>>,
    path: PathBuf,
    /// Most bytes of a line.
    limit: u64,
    /// The subject of the limit, for the message.
    limit_subject: &'static str,
    terminator: u8,
    /// Number of lines started so far.
    number: u64,
    /// Number of bytes consumed, including a byte order mark.
    offset: u64,
    /// Number of characters consumed in the current line, when reading byte by byte.
    column: u64,
    /// True after the end, or after an error that ends reading.
    is_finished: bool,
    /// Lines that were read ahead and given back.
    pending: VecDeque<TextLine>,
}

impl LineReader {
    pub(crate) fn new(path: &Path, input: Box<dyn Read + Send>, offset: u64, carriage_returns: bool) -> Self {
        LineReader {
            input: BufReader::with_capacity(1 << 16, input),
            path: path.to_owned(),
            limit: MAX_ROW_BYTES,
            limit_subject: lang().pick("a line", "行"),
            terminator: if carriage_returns { b'\r' } else { b'\n' },
            number: 0,
            offset,
            column: 0,
            is_finished: false,
            pending: VecDeque::new(),
        }
    }

    /// Sets a lower limit, for lines that are one text each.
    pub(crate) fn with_limit(self, limit: u64, limited: &'static str) -> Self {
        LineReader { limit, limit_subject: limited, ..self }
    }

    /// Number of lines started so far, including those given back.
    pub(crate) fn lines_begun(&self) -> u64 {
        self.number
    }

    pub(crate) fn location(&self, line: u64) -> SourceLocation {
        SourceLocation::line(&self.path, line)
    }

    /// Returns the next line, or `None` at the end. No lines follow an error other than a row error.
    pub(crate) fn next_line(&mut self) -> Result<Option<TextLine>, DataError> {
        if let Some(line) = self.pending.pop_front() {
            return Ok(Some(line));
        }
        if self.is_finished {
            return Ok(None);
        }
        let result = self.read_line();
        self.is_finished = matches!(&result, Err(error) if !error.is_row_error()) || matches!(result, Ok(None));
        result
    }

    /// Gives back lines that were read ahead. They are returned again before all others.
    pub(crate) fn push_back(&mut self, lines: impl DoubleEndedIterator<Item = TextLine>) {
        for line in lines.rev() {
            self.pending.push_front(line);
        }
    }

    /// Returns the next byte without consuming it, for formats that ignore lines. `None` at the end.
    pub(crate) fn peek_byte(&mut self) -> Result<Option<u8>, DataError> {
        loop {
            match self.input.fill_buf() {
                Ok(bytes) => return Ok(bytes.first().copied()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.number += 1;
                    return Err(self.read_error(error));
                }
            }
        }
    }

    /// Skips white space and returns the next byte without consuming it.
    pub(crate) fn peek_non_space(&mut self) -> Result<Option<u8>, DataError> {
        while self.peek_byte()?.is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.skip_byte();
        }
        self.peek_byte()
    }

    /// Consumes the next byte.
    pub(crate) fn skip_byte(&mut self) {
        let Some(&byte) = self.input.buffer().first() else { return };
        self.input.consume(1);
        self.offset += 1;
        match byte {
            b'\n' => (self.number, self.column) = (self.number + 1, 0),
            // Only the first byte of a character counts.
            _ if byte & 0xc0 != 0x80 => self.column += 1,
            _ => {}
        }
    }

    /// Returns the position of the next byte.
    pub(crate) fn position(&self) -> BytePosition {
        BytePosition { line: self.number + 1, column: self.column + 1, offset: self.offset }
    }

    /// The file, as the user named it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn read_line(&mut self) -> Result<Option<TextLine>, DataError> {
        let mut bytes = Vec::new();
        let (mut length, mut ended) = (0_u64, false);
        self.number += 1;
        while !ended {
            let chunk = match self.input.fill_buf() {
                Ok([]) => break,
                Ok(chunk) => chunk,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.read_error(error)),
            };
            let end = chunk.iter().position(|&byte| byte == self.terminator);
            let piece = &chunk[..end.unwrap_or(chunk.len())];
            // One byte more than the limit leaves room for the `\r` before a `\n`.
            let room = (self.limit + 1).saturating_sub(bytes.len() as u64).min(piece.len() as u64) as usize;
            bytes.extend_from_slice(&piece[..room]);
            length += piece.len() as u64;
            ended = end.is_some();
            let taken = piece.len() + usize::from(ended);
            self.input.consume(taken);
            if length > MAX_LINE_SCAN {
                return Err(DataError::EndlessLine { place: self.location(self.number), bytes: MAX_LINE_SCAN });
            }
        }
        if length == 0 && !ended {
            return Ok(None);
        }
        let start = self.offset;
        self.offset += length + u64::from(ended);
        let mut ending = match (ended, self.terminator) {
            (false, _) => "",
            (true, b'\r') => "\r",
            (true, _) => "\n",
        };
        if ending == "\n" && length == bytes.len() as u64 && bytes.last() == Some(&b'\r') {
            bytes.pop();
            length -= 1;
            ending = "\r\n";
        }
        let place = self.location(self.number);
        if length > self.limit {
            return Err(DataError::TooLong { place, what: self.limit_subject, limit: self.limit, bytes: length });
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let line = error.as_bytes();
            let column = String::from_utf8_lossy(&line[..at]).chars().count() as u64 + 1;
            DataError::NotUtf8 {
                place: place.clone().at_column(column),
                offset: start + at as u64,
                guess: guess_encoding(line),
            }
        })?;
        if let Some(at) = find_iso_2022_jp(&text) {
            let (place, offset) = (place.at_column(column_at(&text, at)), start + at as u64);
            return Err(DataError::NotUtf8 { place, offset, guess: "iso-2022-jp" });
        }
        match text.find('\0') {
            Some(at) => Err(DataError::NulByte { place: place.at_column(column_at(&text, at)) }),
            None => Ok(Some(TextLine { number: self.number, text, ending })),
        }
    }

    /// Converts a failed read to an error with a location.
    fn read_error(&self, error: io::Error) -> DataError {
        let place = self.location(self.number);
        match error.get_ref().and_then(|inner| inner.downcast_ref::<StreamFault>()) {
            Some(StreamFault::Gzip(found)) => DataError::Gzip {
                path: self.path.clone(),
                found: found.clone(),
                after: if self.number > 1 {
                    tr!(" after line {}", "（{} 行目の後）", self.number - 1)
                } else {
                    String::new()
                },
            },
            Some(StreamFault::Encoding { encoding, offset }) => {
                DataError::NotInEncoding { place, offset: *offset, encoding }
            }
            Some(StreamFault::Utf8 { encoding }) => DataError::IsUtf8 { path: self.path.clone(), encoding },
            None => DataError::Io { path: self.path.clone(), doing: "reading the data", source: error },
        }
    }
}
