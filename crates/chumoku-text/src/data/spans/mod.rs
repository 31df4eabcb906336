//! Loads texts with labeled spans, such as names, terms or parts of speech. CoNLL files (`conll.rs`, with tags in
//! `tags.rs`) and JSONL (`objects.rs`) both become texts with spans in characters.
//!
//! # Files
//!
//! - `conll`: CoNLL files
//! - `objects`: JSONL with spans
//! - `tags`: word tags to spans
//! - `units`: units that get a label: words or characters

mod conll;
mod objects;
mod tags;
mod units;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::dataset::MIN_TRAINING_ROWS;
use super::error::{DataError, SourceLocation};
use super::format::{Format, ReadOptions};
use super::json_lines::JsonLinesReader;
use super::label_variants::FileLabels;
use super::lines::LineReader;
use super::open::{FileContent, open_path};
use super::record::SkippedRows;
use super::row_origins::RowOrigins;
use crate::lang::lang;
use crate::lang::wording::{did_you_mean, format_thousands, list_names, quote};
use crate::tr;
use conll::Sentence;
pub(crate) use conll::looks_like_conll;
pub(crate) use objects::find_span_key;
use tags::{Tag, TaggingScheme, tags_to_spans};
pub use units::SpanUnit;

/// A labeled part of a text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Span {
    /// Its first character, from 0.
    pub start: usize,
    /// The character after its last.
    pub end: usize,
    /// Its label.
    pub label: String,
}

/// A text with its spans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanExample {
    /// The text. For a CoNLL file, its words, joined by spaces if the language uses them.
    pub text: String,
    /// The byte ranges of its words, if the file has words. Else empty.
    pub words: Vec<Range<usize>>,
    /// The spans in order. They do not overlap.
    pub spans: Vec<Span>,
    /// The line on which the row starts.
    pub line: u64,
}

/// The texts of one file, with their spans.
#[derive(Clone, Debug)]
pub struct SpanDataset {
    /// The file, as the user named it.
    pub path: PathBuf,
    /// The examples, in file order.
    pub examples: Vec<SpanExample>,
    /// The skipped rows.
    pub skipped: SkippedRows,
    /// The detected format, with the reason, in one line.
    pub description: String,
    /// True if every word has a label, as with parts of speech.
    pub has_word_labels: bool,
    /// Warnings for the user.
    pub notes: Vec<String>,
    /// The files that the rows come from.
    pub(crate) files: RowOrigins,
}

/// Loads a file of texts with spans: CoNLL or JSONL.
///
/// # Errors
///
/// Any problem with the file, with its line. For example, spans that overlap or lie outside of their text, lines
/// without a tag, and tags of different schemes.
pub fn load_spans(path: &Path, options: &ReadOptions) -> Result<SpanDataset, DataError> {
    let (lines, head) = open_lines(path, options)?;
    let options = &with_training_options(&head, options);
    match is_json(&head, options) {
        true => load_objects(path, lines, options),
        false => load_sentences(path, lines, &head, options),
    }
}

/// Completes the options with the keys or columns of the training file. The first object must have these keys, or the
/// line must have these column numbers.
fn with_training_options(head: &str, options: &ReadOptions) -> ReadOptions {
    let mut filled = options.clone();
    let Some(of) = options.training_options() else { return filled };
    let first = head.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let object = serde_json::from_str::<serde_json::Value>(first).ok();
    let fits = |key: &&String| match &object {
        Some(object) => object.get(key.as_str()).is_some(),
        None => key.trim().parse::<usize>().is_ok_and(|n| n > 0 && n <= first.split_whitespace().count()),
    };
    filled.text = options.text.clone().or_else(|| of.text.as_ref().filter(fits).cloned());
    filled.label = options.label.clone().or_else(|| of.label.as_ref().filter(fits).cloned());
    filled
}

/// Returns whether a file has a word and its tag on each line, by its extension or its first lines.
///
/// # Errors
///
/// If it cannot be opened.
pub fn is_conll(path: &Path, options: &ReadOptions) -> Result<bool, DataError> {
    Ok(conll_reason(path, options)?.is_some())
}

/// Returns why the file has a word and its tag on each line, or `None`.
pub(crate) fn conll_reason(path: &Path, options: &ReadOptions) -> Result<Option<String>, DataError> {
    if options.format.is_some() {
        return Ok(None);
    }
    match open_path(path, options)?.content {
        FileContent::Text { head, .. } if !is_json(&head, options) => Ok(looks_like_conll(path, &head)),
        _ => Ok(None),
    }
}

/// Opens a file as lines, together with its start.
fn open_lines(path: &Path, options: &ReadOptions) -> Result<(LineReader, String), DataError> {
    match (open_path(path, options)?.content, options.format) {
        (FileContent::Text { lines, head, .. }, None | Some(Format::JsonLines)) => Ok((lines, head)),
        _ => Err(DataError::UnsupportedFormat {
            path: path.to_owned(),
            found: lang().pick("a format that has no spans", "スパンを書けない形式"),
            advice: lang().pick(
                "write texts with spans as JSONL, or words with tags as CoNLL",
                "スパン付きのテキストは JSONL で、タグ付きの単語は CoNLL で書いてください",
            ),
        }),
    }
}

fn is_json(head: &str, options: &ReadOptions) -> bool {
    options.format == Some(Format::JsonLines) || head.trim_start().starts_with('{')
}

fn load_objects(path: &Path, lines: LineReader, options: &ReadOptions) -> Result<SpanDataset, DataError> {
    let mut reader = JsonLinesReader::new(lines);
    let (mut rows, mut skipped) = (Vec::new(), SkippedRows::default());
    let mut leave_out = |error: DataError| match error.skippable_row() {
        Some(line) if options.skips_bad_rows() => {
            skipped.add(line, error.to_string());
            Ok(())
        }
        _ => Err(error),
    };
    loop {
        match reader.next_row() {
            Ok(None) => break,
            Ok(Some(row)) => rows.push(row),
            Err(error) => leave_out(error)?,
        }
    }
    let found = find_span_key(rows.iter().filter_map(|row| row.object.as_ref()));
    let key = options.label.as_deref().or(found).unwrap_or("spans");
    let mut examples = Vec::with_capacity(rows.len());
    for row in &rows {
        let object = row.object.as_ref().expect("rows of JSONL are objects");
        match objects::parse_row(object, SourceLocation::line(path, row.line), key, options) {
            Ok(example) => examples.push(example),
            Err(error) => leave_out(error)?,
        }
    }
    let text = options.text.as_deref().unwrap_or("text");
    let (path_shown, text, key) = (path.display(), quote(text), quote(key));
    let description = tr!(
        "{path_shown}: JSONL; text = {text}, spans = {key}, in characters",
        "{path_shown}: JSONL。テキスト = {text}、スパン = {key}（文字単位）"
    );
    ensure_not_empty(
        path,
        SpanDataset {
            path: path.to_owned(),
            examples,
            skipped,
            description,
            has_word_labels: false,
            notes: Vec::new(),
            files: RowOrigins::one(path, false),
        },
    )
}

fn load_sentences(
    path: &Path,
    mut lines: LineReader,
    head: &str,
    options: &ReadOptions,
) -> Result<SpanDataset, DataError> {
    let mut skipped = SkippedRows::default();
    let sentences = conll::read_sentences(path, &mut lines, options)?;
    let sentences = conll::without_faults(sentences, options, &mut skipped)?;
    let all: Vec<Vec<String>> = sentences.iter().map(|sentence| sentence.tags.clone()).collect();
    let scheme = TaggingScheme::detect(&all);
    let sentences = sentences.into_iter().map(|sentence| check_tags(path, sentence, scheme)).collect();
    let sentences = conll::without_faults(sentences, options, &mut skipped)?;
    let unit = SpanUnit::for_texts(sentences.iter().flat_map(|sentence| &sentence.words).map(String::as_str));
    let mut odd = 0;
    let examples: Vec<SpanExample> =
        sentences.iter().map(|sentence| sentence_to_example(sentence, scheme, unit, &mut odd)).collect();
    let mut notes = Vec::new();
    if odd > 0 && scheme == TaggingScheme::Iob2 {
        let [n, spans] = [odd, examples.iter().map(|example| example.spans.len()).sum()].map(format_thousands);
        notes.push(tr!(
            "{}: {n} of {spans} spans begin with I- instead of B-; they are read as separate spans, as in seqeval",
            "{}: スパン {spans} 個のうち {n} 個が B- ではなく I- で始まります。seqeval と同じように、新しいスパンとして読みます",
            path.display()
        ));
    }
    let why = looks_like_conll(path, head).unwrap_or_else(|| tr!("as requested", "指定のとおり"));
    let (path_shown, name) = (path.display(), scheme.name());
    let joined = match unit {
        SpanUnit::Characters => lang().pick(", words joined without spaces", "、単語は空白なしで連結"),
        SpanUnit::Words => "",
    };
    let description =
        tr!("{path_shown}: CoNLL, {name}{joined} ({why})", "{path_shown}: CoNLL、{name}{joined}（{why}）");
    ensure_not_empty(
        path,
        SpanDataset {
            path: path.to_owned(),
            examples,
            skipped,
            description,
            // In units of characters, the words themselves are spans, because their ends must be predicted too.
            has_word_labels: scheme == TaggingScheme::Words && unit == SpanUnit::Words,
            notes,
            files: RowOrigins::one(path, false),
        },
    )
}

/// Adds an error to a sentence if one of its tags is not of the scheme.
fn check_tags(path: &Path, mut sentence: Sentence, scheme: TaggingScheme) -> Sentence {
    let bad = sentence.tags.iter().position(|tag| scheme.parse_tag(tag).is_none());
    sentence.fault = bad.map(|at| DataError::BadLabels {
        place: SourceLocation::line(path, sentence.lines[at]),
        expected: match scheme {
            TaggingScheme::Words | TaggingScheme::Io => {
                lang().pick("a label without B- or I-, as most words have", "ほかの単語と同じく B-・I- のないラベル")
            }
            _ => lang()
                .pick("O, or a tag with B- or I-, as most words have", "ほかの単語と同じく O か B-・I- の付いたタグ"),
        },
        found: quote(&sentence.tags[at]),
    });
    sentence
}

/// Converts a sentence to a text with spans, and counts the spans that start irregularly.
fn sentence_to_example(sentence: &Sentence, scheme: TaggingScheme, unit: SpanUnit, odd: &mut usize) -> SpanExample {
    let mut text = String::new();
    let (mut words, mut characters, mut length) = (Vec::new(), Vec::new(), 0);
    for word in &sentence.words {
        if unit == SpanUnit::Words && !text.is_empty() {
            text.push(' ');
            length += 1;
        }
        let (start, first) = (text.len(), length);
        text.push_str(word);
        length += word.chars().count();
        words.push(start..text.len());
        characters.push(first..length);
    }
    let tags: Vec<Tag<'_>> = sentence.tags.iter().filter_map(|tag| scheme.parse_tag(tag)).collect();
    let (found, odd_here) = tags_to_spans(&tags);
    *odd += odd_here;
    let span = |(range, label): (Range<usize>, &str)| Span {
        start: characters[range.start].start,
        end: characters[range.end - 1].end,
        label: label.to_owned(),
    };
    let spans = found.into_iter().map(span).collect();
    if unit == SpanUnit::Characters {
        words.clear();
    }
    SpanExample { text, words, spans, line: sentence.line }
}

fn ensure_not_empty(path: &Path, texts: SpanDataset) -> Result<SpanDataset, DataError> {
    match texts.examples.is_empty() {
        true => {
            let skipped = texts.skipped.to_string();
            Err(DataError::NoUsableRows { path: path.to_owned(), skipped })
        }
        false => Ok(texts),
    }
}

impl SpanDataset {
    /// Returns the labels of each file, in order.
    pub fn labels_by_file(&self) -> Vec<FileLabels<'_>> {
        self.files.group_labels(self.examples.iter().map(|example| example.spans.iter().map(|span| &span.label)))
    }

    /// Returns the location of an example, counted from 0.
    pub fn location(&self, row: usize) -> SourceLocation {
        self.files.location(row, self.examples.get(row).map_or(0, |example| example.line))
    }

    /// Counts the spans of each kind.
    pub fn kinds(&self) -> BTreeMap<&str, usize> {
        let mut kinds = BTreeMap::new();
        let spans = self.examples.iter().flat_map(|example| &example.spans);
        spans.for_each(|span| *kinds.entry(span.label.as_str()).or_default() += 1);
        kinds
    }

    /// Checks that a model can be trained on these examples.
    ///
    /// # Errors
    ///
    /// Too few rows, or no span in any.
    pub fn check_trainable(&self) -> Result<(), DataError> {
        let (path, rows) = (self.path.clone(), self.examples.len() as u64);
        if rows < MIN_TRAINING_ROWS {
            return Err(DataError::TooFewRows { path, rows, least: MIN_TRAINING_ROWS });
        }
        let kinds = self.kinds();
        match kinds.len() {
            0 => Err(DataError::NoSpans { path, rows: format_thousands(self.examples.len()) }),
            n if n > MAX_KINDS => Err(DataError::TooManyKinds { path, limit: MAX_KINDS, found: n }),
            _ => Ok(()),
        }
    }

    /// Checks that the kinds of spans are among `known`, those of the training data.
    ///
    /// # Errors
    ///
    /// The first kind that is not, with its line.
    pub fn check_known_labels<S: AsRef<str>>(&self, known: &[S]) -> Result<(), DataError> {
        let is_known = |label: &str| known.iter().any(|known| known.as_ref() == label);
        for (row, example) in self.examples.iter().enumerate() {
            if let Some(span) = example.spans.iter().find(|span| !is_known(&span.label)) {
                return Err(DataError::UnknownLabel {
                    place: self.location(row),
                    label: span.label.clone(),
                    known: list_names(known).into(),
                    hint: did_you_mean(&span.label, known.iter().map(AsRef::as_ref)).into(),
                });
            }
        }
        Ok(())
    }
}

/// Most kinds of spans (500). Training time grows with the square of their number.
const MAX_KINDS: usize = 500;
