//! The two formats with one text per line: fastText, with labels, and plain text.

use super::error::DataError;
use super::limits::MAX_TEXT_BYTES;
use super::lines::LineReader;
use super::record::Record;
use crate::lang::lang;
use crate::lang::wording::list_names;

/// The prefix that fastText puts before a label.
pub(crate) const LABEL_PREFIX: &str = "__label__";

/// The columns of a fastText file.
pub(crate) const FAST_TEXT_COLUMNS: [&str; 2] = ["label", "text"];

/// Reads `__label__x text`. A line without a label has an empty one. Labels may also follow the text.
///
/// Several labels on a line are an error unless `several_labels` is set: a single-label classifier would learn only the
/// first. With `several_labels`, they are one field separated by spaces, which labels do not contain.
pub(crate) struct FastTextReader {
    pub(crate) lines: LineReader,
    several_labels: bool,
}

impl FastTextReader {
    pub(crate) fn new(lines: LineReader, several_labels: bool) -> Self {
        FastTextReader {
            several_labels, lines: lines.with_limit(MAX_TEXT_BYTES, lang().pick("a text", "テキスト"))
        }
    }

    pub(crate) fn next_row(&mut self) -> Result<Option<Record>, DataError> {
        let line = loop {
            match self.lines.next_line()? {
                None => return Ok(None),
                Some(line) if line.text.trim().is_empty() => {}
                Some(line) => break line,
            }
        };
        let mut labels = Vec::new();
        let mut text = line.text.trim();
        while let Some(behind) = text.strip_prefix(LABEL_PREFIX) {
            let (label, rest) = behind.split_once(char::is_whitespace).unwrap_or((behind, ""));
            labels.push(label);
            text = rest.trim_start();
        }
        loop {
            let (before, word) = text.rsplit_once(char::is_whitespace).unwrap_or(("", text));
            let Some(label) = word.strip_prefix(LABEL_PREFIX) else {
                break;
            };
            labels.push(label);
            text = before.trim_end();
        }
        if labels.len() > 1 && !self.several_labels {
            let place = self.lines.location(line.number);
            return Err(DataError::SeveralLabels { place, found: labels.len(), labels: list_names(&labels) });
        }
        Ok(Some(Record::from_fields(line.number, vec![labels.join(" "), text.to_owned()])))
    }
}

/// Reads one text per line. An empty line is an empty text, so that output lines match input lines.
pub(crate) struct PlainReader {
    pub(crate) lines: LineReader,
}

impl PlainReader {
    pub(crate) fn new(lines: LineReader) -> Self {
        PlainReader { lines: lines.with_limit(MAX_TEXT_BYTES, lang().pick("a text", "テキスト")) }
    }

    pub(crate) fn next_row(&mut self) -> Result<Option<Record>, DataError> {
        Ok(self.lines.next_line()?.map(|line| Record::from_fields(line.number, vec![line.text])))
    }
}
