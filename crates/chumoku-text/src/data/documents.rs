//! Documents for language models: plain text, whole or split at blank lines, and tables with one document per row.

use std::path::{Path, PathBuf};

use super::detect;
use super::error::DataError;
use super::format::{Format, ReadOptions};
use super::limits::MAX_TEXT_BYTES;
use super::lines::LineReader;
use super::open::{FileContent, open_path};
use super::record::SkippedRows;
use super::source::RowSource;
use super::split::split_texts;
use super::table::skip_or_fail;
use crate::lang::lang;
use crate::lang::wording::format_count;
use crate::tr;

/// The mean length, in characters, from which pieces between blank lines count as documents. Shorter pieces are
/// paragraphs, verses or speeches of one text.
const MIN_MEAN_CHARACTERS: usize = 1_000;
/// Fewer documents than this are split by position, not document by document.
const MIN_SPLIT_DOCUMENTS: usize = 10;

/// Fewest characters to train on.
pub const MIN_CHARACTERS: usize = 1_000;

/// The fraction of documents held out for validation, unless the caller gives validation documents.
pub const VALIDATION_FRACTION: f64 = 0.1;

/// The boundaries of the documents in plain text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DocumentBreaks {
    /// At blank lines if the pieces have 1,000 characters or more on average, else none.
    #[default]
    Auto,
    /// At blank lines.
    BlankLines,
    /// None: the file is one document.
    Whole,
}

/// The documents of one file.
#[derive(Debug, Clone)]
pub struct Documents {
    /// The file, as the user named it.
    pub path: PathBuf,
    /// The documents, in file order. Line ends are `\n`.
    pub texts: Vec<String>,
    /// The skipped lines or rows.
    pub skipped: SkippedRows,
    /// The detected format and columns, with reasons, in one line.
    pub description: String,
}

/// Documents for training, validation and testing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DocumentSplit {
    /// Training documents.
    pub train: Vec<String>,
    /// Validation documents.
    pub valid: Vec<String>,
    /// Test documents.
    pub test: Vec<String>,
    /// A summary of the split, in one line.
    pub description: String,
}

/// Loads the documents of a file. Plain text is split according to `breaks`. In a table, each row of the text column is
/// a document.
///
/// # Errors
///
/// Any problem with the file.
pub fn load_documents(path: &Path, breaks: DocumentBreaks, options: &ReadOptions) -> Result<Documents, DataError> {
    let opened = open_path(path, options)?;
    let format = match &opened.content {
        FileContent::Parquet(_) => Format::Parquet,
        FileContent::Excel(_) => Format::Excel,
        FileContent::Text { head, whole, .. } => {
            let found = detect::detect(path, head, *whole, options);
            // Prose may have a comma in every line.
            match found.format {
                Format::Csv { .. } if !found.is_certain && options.text.is_none() => Format::PlainText,
                other => other,
            }
        }
    };
    match opened.content {
        FileContent::Text { lines, .. } if format == Format::PlainText => {
            let how = [
                opened.gzip.then(|| tr!(", gzip", "、gzip")),
                opened.encoding.map(|name| tr!(", decoded from {name}", "、{name} から変換")),
            ];
            let how: String = how.into_iter().flatten().collect();
            documents_from_text(
                path,
                lines.with_limit(MAX_TEXT_BYTES, lang().pick("a line", "行")),
                breaks,
                options,
                &how,
            )
        }
        _ => {
            let options = ReadOptions { require_label: false, require_text: true, ..options.clone() };
            let source = RowSource::from_opened(path, opened, &options)?;
            documents_from_rows(source)
        }
    }
}

/// Reads one document per row.
fn documents_from_rows(source: RowSource) -> Result<Documents, DataError> {
    let (path, column, about) = (source.layout().path.clone(), source.columns().text, source.describe());
    let mut records = source.records();
    let mut texts = Vec::new();
    for record in records.by_ref() {
        texts.push(std::mem::take(&mut record?.fields[column]));
    }
    let skipped = records.skipped().clone();
    if texts.is_empty() {
        return Err(DataError::NoUsableRows { path, skipped: skipped.to_string() });
    }
    let documents = format_count(texts.len() as u64, "document");
    let n = texts.len();
    let description = tr!("{about}; {documents}, one per row", "{about}。1 行が 1 文書、{n} 文書");
    Ok(Documents { path, texts, skipped, description })
}

/// Reads plain text and splits it if requested.
fn documents_from_text(
    path: &Path,
    mut lines: LineReader,
    breaks: DocumentBreaks,
    options: &ReadOptions,
    how: &str,
) -> Result<Documents, DataError> {
    let (mut text, mut skipped) = (String::new(), SkippedRows::default());
    // The start and end of each piece between blank lines.
    let mut pieces: Vec<(usize, usize)> = Vec::new();
    let mut inside = false;
    loop {
        let line = match lines.next_line() {
            Ok(Some(line)) => line,
            Ok(None) => break,
            Err(error) => {
                skip_or_fail(error, options, &mut skipped)?;
                continue;
            }
        };
        let start = text.len();
        text.push_str(&line.text);
        let is_blank = line.text.trim().is_empty();
        match pieces.last_mut() {
            _ if is_blank => {}
            Some(piece) if inside => piece.1 = text.len(),
            _ => pieces.push((start, text.len())),
        }
        inside = !is_blank;
        if !line.ending.is_empty() {
            text.push('\n');
        }
    }
    if pieces.is_empty() {
        return Err(match skipped.count {
            0 => DataError::Empty { path: path.to_owned() },
            _ => DataError::NoUsableRows { path: path.to_owned(), skipped: skipped.to_string() },
        });
    }
    let mean = pieces.iter().map(|&(start, end)| text[start..end].chars().count()).sum::<usize>() / pieces.len();
    let (is_cut, why) = match breaks {
        DocumentBreaks::BlankLines => (true, tr!("cut at blank lines, as requested", "指定により空行で分割")),
        DocumentBreaks::Whole => (false, tr!("the file as a whole, as requested", "指定によりファイル全体で 1 文書")),
        DocumentBreaks::Auto if pieces.len() == 1 => {
            (false, tr!("the file as a whole: it has no blank lines", "空行がないためファイル全体で 1 文書"))
        }
        DocumentBreaks::Auto if mean >= MIN_MEAN_CHARACTERS => {
            let why = tr!(
                "cut at blank lines: {mean} characters lie between two of them on average",
                "空行で分割: 空行の間は平均 {mean} 文字"
            );
            (true, why)
        }
        DocumentBreaks::Auto => {
            let why = tr!(
                "the file as a whole: only {mean} characters lie between two blank lines on average",
                "空行の間が平均 {mean} 文字しかないためファイル全体で 1 文書"
            );
            (false, why)
        }
    };
    let texts: Vec<String> =
        if is_cut { pieces.iter().map(|&(start, end)| text[start..end].to_owned()).collect() } else { vec![text] };
    let chars: usize = texts.iter().map(|text| text.chars().count()).sum();
    let (documents, characters) =
        (format_count(texts.len() as u64, "document"), format_count(chars as u64, "character"));
    let (n, path_shown) = (texts.len(), path.display());
    let description = tr!(
        "{path_shown}: plain text{how}; {documents} of {characters} ({why})",
        "{path_shown}: プレーンテキスト{how}。{n} 文書、{chars} 文字（{why}）"
    );
    Ok(Documents { path: path.to_owned(), texts, skipped, description })
}

impl Documents {
    /// Splits the documents into training, validation and test sets.
    ///
    /// Ten or more documents are split one by one, with equal ones together, as in `split_texts`. Fewer documents
    /// would make the split too coarse. Then the last characters of the file are for testing and those before them for
    /// validation, as in nanoGPT.
    pub fn split(&self, seed: u64, valid_fraction: f64, test_fraction: f64) -> DocumentSplit {
        let split = split_texts(&self.texts, seed, valid_fraction, test_fraction);
        let is_requested = |fraction: f64| fraction > 0.0;
        let is_missing = is_requested(valid_fraction) && split.valid.is_empty()
            || is_requested(test_fraction) && split.test.is_empty();
        if self.texts.len() < MIN_SPLIT_DOCUMENTS || is_missing {
            return self.split_by_position(valid_fraction, test_fraction);
        }
        let [train, valid, test] = [&split.train, &split.valid, &split.test]
            .map(|rows| rows.iter().map(|&row| self.texts[row].clone()).collect::<Vec<String>>());
        let description = tr!(
            "{} documents to train on, {} to validate, {} to test",
            "学習 {} 文書、検証 {} 文書、テスト {} 文書",
            train.len(),
            valid.len(),
            test.len()
        );
        DocumentSplit { train, valid, test, description }
    }

    fn split_by_position(&self, valid_fraction: f64, test_fraction: f64) -> DocumentSplit {
        let fraction = |requested: f64| if requested > 0.0 { requested.min(1.0) } else { 0.0 };
        let (valid, test) = (fraction(valid_fraction), fraction(test_fraction));
        let total: usize = self.texts.iter().map(|text| text.chars().count()).sum();
        let at = |share: f64| (total as f64 * share.max(0.0)) as usize;
        let ends = [at(1.0 - valid - test), at(1.0 - test), total];
        let mut parts: [Vec<String>; 3] = Default::default();
        let mut begin = 0;
        for text in &self.texts {
            let end = begin + text.chars().count();
            let mut rest = text.as_str();
            for (part, &part_end) in parts.iter_mut().zip(&ends) {
                let chars = part_end.min(end).saturating_sub(begin);
                let cut = rest.char_indices().nth(chars).map_or(rest.len(), |(at, _)| at);
                let (piece, behind) = rest.split_at(cut);
                if !piece.is_empty() {
                    part.push(piece.to_owned());
                }
                (rest, begin) = (behind, begin + chars);
            }
        }
        let [train, valid, test] = parts;
        let chars = |part: &[String]| part.iter().map(|text| text.chars().count()).sum::<usize>();
        let mut description = tr!("the first {} characters to train on", "先頭の {} 文字を学習用", chars(&train));
        if !valid.is_empty() {
            description += &tr!(", the next {} to validate", "、次の {} 文字を検証用", chars(&valid));
        }
        if !test.is_empty() {
            description += &tr!(", the last {} to test", "、最後の {} 文字をテスト用", chars(&test));
        }
        DocumentSplit { train, valid, test, description }
    }
}
