//! Reads CoNLL files: a word and its tag on each line, and an empty line between sentences.

use std::path::Path;

use super::super::detect::extension;
use super::super::error::{ColumnRole, DataError};
use super::super::format::ReadOptions;
use super::super::lines::{LineReader, TextLine};
use super::super::record::SkippedRows;
use super::tags::Tag;
use crate::lang::lang;
use crate::tr;

/// The extensions of such files.
const CONLL_EXTENSIONS: [&str; 8] = ["conll", "conllu", "conll2003", "iob", "iob2", "bio", "bioes", "bmes"];

/// Columns of a CoNLL-U file.
const CONLLU_COLUMNS: usize = 10;

/// A sentence, as in the file.
#[derive(Debug, Default)]
pub(super) struct Sentence {
    /// The line of the first word.
    pub(super) line: u64,
    pub(super) words: Vec<String>,
    pub(super) tags: Vec<String>,
    /// The line of each word.
    pub(super) lines: Vec<u64>,
    /// The error in the sentence, if there is one.
    pub(super) fault: Option<DataError>,
}

/// Returns whether a text has no visible characters.
fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || matches!(c, '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}'))
}

/// Splits a line into fields, at tabs if it has any, else at spaces.
fn fields(line: &str) -> Vec<&str> {
    match line.contains('\t') {
        true => line.split('\t').map(str::trim).collect(),
        false => line.split(' ').filter(|field| !field.is_empty()).collect(),
    }
}

fn is_document_start(line: &str) -> bool {
    line.starts_with("-DOCSTART-")
}

/// Returns why a file is in this format, or `None` if it is not. The reason is its extension, or that most lines end
/// with prefixed tags and some are empty.
pub(crate) fn looks_like_conll(path: &Path, head: &str) -> Option<String> {
    if CONLL_EXTENSIONS.contains(&extension(path).as_str()) {
        return Some(tr!("the file's name", "ファイル名から"));
    }
    let end = head.rfind('\n').unwrap_or(head.len());
    let lines: Vec<Vec<&str>> =
        head[..end].lines().take(500).filter(|line| !is_document_start(line)).map(fields).collect();
    let words: Vec<&Vec<&str>> = lines.iter().filter(|fields| fields.iter().any(|field| !is_blank(field))).collect();
    let width = words.first().map_or(0, |fields| fields.len());
    let ends_with_tag = |fields: &&&Vec<&str>| {
        let tag = fields.last().copied().unwrap_or("");
        fields.len() == width && (tag == "O" || tag.contains('-') && Tag::parse_prefixed(tag).is_some())
    };
    let tagged = words.iter().filter(ends_with_tag).count();
    let has_spans =
        words.iter().any(|fields| fields.last().is_some_and(|tag| tag.starts_with("B-") || tag.starts_with("I-")));
    let is_conll = width >= 2 && has_spans && words.len() < lines.len() && 10 * tagged >= 9 * words.len();
    is_conll.then(|| tr!("a word and its tag on each line", "各行に単語とタグ"))
}

/// The columns of the words and the tags.
struct ConllColumns {
    word: usize,
    tag: usize,
    width: usize,
    /// The line that the others must match.
    line: u64,
    is_universal: bool,
}

impl ConllColumns {
    fn choose(
        path: &Path,
        options: &ReadOptions,
        line: &TextLine,
        fields: &[&str],
        place: &LineReader,
    ) -> Result<ConllColumns, DataError> {
        let width = fields.len();
        let is_universal = width == CONLLU_COLUMNS && fields[0].starts_with(|c: char| c.is_ascii_digit());
        let (word, tag) = if is_universal { (2, 4) } else { (1, width) };
        let number = |role: ColumnRole, requested: Option<&String>, default: usize| match requested {
            None => Ok(default),
            Some(requested) => {
                requested.parse().ok().filter(|n| (1..=width).contains(n)).ok_or_else(|| DataError::NoSuchColumn {
                    path: path.to_owned(),
                    role,
                    requested: requested.clone(),
                    columns: tr!("the numbers 1 to {width}", "番号 1〜{width}"),
                    hint: String::new(),
                })
            }
        };
        let word = number(ColumnRole::Text, options.text.as_ref(), word)?;
        let tag = number(ColumnRole::Label, options.label.as_ref(), tag)?;
        if word == tag {
            return Err(DataError::BadLabels {
                place: place.location(line.number),
                expected: lang().pick("a word and its tag on the line", "行に単語とそのタグ"),
                found: tr!("one column", "1 列"),
            });
        }
        Ok(ConllColumns { word: word - 1, tag: tag - 1, width, line: line.number, is_universal })
    }
}

/// Reads the sentences of a file, including those with errors.
pub(super) fn read_sentences(
    path: &Path,
    lines: &mut LineReader,
    options: &ReadOptions,
) -> Result<Vec<Sentence>, DataError> {
    let mut columns: Option<ConllColumns> = None;
    let (mut found, mut sentence) = (Vec::new(), Sentence::default());
    let has_notes = extension(path) == "conllu";
    loop {
        let line = match lines.next_line() {
            Ok(Some(line)) => line,
            Ok(None) => break,
            Err(error) if error.skippable_row().is_some() => {
                sentence.fault.get_or_insert(error);
                continue;
            }
            Err(error) => return Err(error),
        };
        if is_blank(&line.text) || is_document_start(&line.text) {
            end_sentence(&mut found, &mut sentence);
            continue;
        }
        // Comments on a sentence precede it.
        let is_note = |width: usize| {
            line.text.starts_with("# ") && sentence.words.is_empty() && fields(&line.text).len() != width
        };
        let is_universal = has_notes || columns.as_ref().is_some_and(|columns| columns.is_universal);
        let width = columns.as_ref().map_or(2, |columns| columns.width);
        if is_universal && line.text.starts_with('#') || is_note(width) {
            continue;
        }
        let fields = fields(&line.text);
        let columns = match &mut columns {
            Some(columns) => columns,
            none => none.insert(ConllColumns::choose(path, options, &line, &fields, lines)?),
        };
        // Multi-word tokens and empty nodes.
        if columns.is_universal && fields[0].contains(['-', '.']) {
            continue;
        }
        if sentence.words.is_empty() {
            sentence.line = line.number;
        }
        let place = || lines.location(line.number);
        if fields.len() != columns.width {
            let advice = lang().pick(
                "give each word its tag, and separate sentences by empty lines",
                "各単語にタグを付け、文は空行で区切ってください",
            );
            let [expected, found, model] = [columns.width as u64, fields.len() as u64, columns.line];
            sentence.fault.get_or_insert(DataError::Ragged {
                place: place(),
                format: "CoNLL",
                expected,
                found,
                model,
                advice,
            });
        } else if fields[columns.word].is_empty() || fields[columns.tag].is_empty() {
            let expected = lang().pick("a word and its tag on the line", "行に単語とそのタグ");
            let found = tr!("an empty field", "空欄");
            sentence.fault.get_or_insert(DataError::BadLabels { place: place(), expected, found });
        } else {
            sentence.words.push(fields[columns.word].to_owned());
            sentence.tags.push(fields[columns.tag].to_owned());
            sentence.lines.push(line.number);
        }
    }
    end_sentence(&mut found, &mut sentence);
    Ok(found)
}

fn end_sentence(found: &mut Vec<Sentence>, sentence: &mut Sentence) {
    let sentence = std::mem::take(sentence);
    if !sentence.words.is_empty() || sentence.fault.is_some() {
        found.push(sentence);
    }
}

/// Removes the sentences with errors. Counts them if bad rows are skipped, else returns the first error.
pub(super) fn without_faults(
    sentences: Vec<Sentence>,
    options: &ReadOptions,
    skipped: &mut SkippedRows,
) -> Result<Vec<Sentence>, DataError> {
    let mut kept = Vec::with_capacity(sentences.len());
    for mut sentence in sentences {
        match sentence.fault.take() {
            None => kept.push(sentence),
            Some(fault) if options.skips_bad_rows() => skipped.add(sentence.line, fault.to_string()),
            Some(fault) => return Err(fault),
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::super::super::load_spans;
    use super::*;

    #[test]
    fn remembered_options_skip_bad_sentences() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.conll");
        std::fs::write(&path, "Tokyo B-place\nrains O\n\nOsaka\n\nKyoto B-place\nshines O\n").unwrap();
        assert!(matches!(load_spans(&path, &ReadOptions::default()), Err(DataError::Ragged { .. })));
        let remembered = Box::new(ReadOptions { skip_bad_rows: true, ..ReadOptions::default() });
        let options = ReadOptions { training_options: Some(remembered), ..ReadOptions::default() };
        let found = load_spans(&path, &options).unwrap();
        assert_eq!((found.examples.len(), found.skipped.count), (2, 1));
    }
}
