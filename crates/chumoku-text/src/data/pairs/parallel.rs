//! Reads two parallel files: line n of one is the translation of line n of the other.

use std::path::{Path, PathBuf};

use super::{SentencePair, empty_side};
use crate::data::detect;
use crate::data::error::{ColumnRole, DataError, SourceLocation};
use crate::data::format::ReadOptions;
use crate::data::limits::MAX_TEXT_BYTES;
use crate::data::lines::{LineReader, TextLine};
use crate::data::open::{FileContent, open_path};
use crate::lang::lang;
use crate::tr;

/// Reads two files line by line.
pub(crate) struct ParallelReader {
    source: LineReader,
    target: LineReader,
    paths: [PathBuf; 2],
    /// Number of lines read from each file.
    lines: u64,
    /// Compression and encoding of the files, for the description.
    how: String,
}

impl ParallelReader {
    pub(crate) fn open(source: &Path, target: &Path, options: &ReadOptions) -> Result<Self, DataError> {
        let mut how = String::new();
        let mut side = |path: &Path| {
            let opened = open_path(path, options)?;
            let parts = [
                opened.gzip.then(|| "gzip".to_owned()),
                opened.encoding.map(|name| tr!("decoded from {name}", "{name} から変換")),
            ];
            let name = path.extension().unwrap_or(path.as_os_str()).display();
            parts.into_iter().flatten().for_each(|part| how += &tr!(", .{name}: {part}", "、.{name}: {part}"));
            match opened.content {
                FileContent::Text { lines, .. } => {
                    Ok(lines.with_limit(MAX_TEXT_BYTES, lang().pick("a text", "テキスト")))
                }
                FileContent::Parquet(_) => Err(DataError::NotParallel { path: path.to_owned(), found: "Parquet" }),
                FileContent::Excel(_) => Err(DataError::NotParallel { path: path.to_owned(), found: "Excel" }),
            }
        };
        let (source_lines, target_lines) = (side(source)?, side(target)?);
        let paths = [source.to_owned(), target.to_owned()];
        Ok(ParallelReader { source: source_lines, target: target_lines, paths, lines: 0, how })
    }

    /// Returns the names of the two sides: the extensions, which usually name the languages.
    pub(crate) fn names(&self) -> [String; 2] {
        let [source, target] = self.paths.each_ref().map(|path| detect::extension(path));
        match source.is_empty() || target.is_empty() || source == target {
            true => ["source".to_owned(), "target".to_owned()],
            false => [source, target],
        }
    }

    pub(crate) fn describe(&self) -> String {
        let [source, target] = self.paths.each_ref().map(|path| path.display());
        let how = &self.how;
        tr!(
            "{source} and {target}: parallel text{how}; each line of one is a source, of the other its target",
            "{source} と {target}: 行ごとに対応するテキスト{how}。前者の各行が原文、後者の同じ行がその訳文"
        )
    }

    /// Returns the location of a line on one side.
    pub(crate) fn location(&self, role: ColumnRole, line: u64) -> SourceLocation {
        SourceLocation::line(&self.paths[usize::from(role == ColumnRole::Target)], line)
    }

    /// Returns the next pair. Lines that are blank in both files are skipped.
    pub(crate) fn next_pair(&mut self) -> Result<Option<SentencePair>, DataError> {
        loop {
            let (source, target) = (self.source.next_line(), self.target.next_line());
            let line = self.lines + 1;
            // Unreadable files are reported before missing counterparts.
            let (source, target) = match (source, target) {
                (Err(error), _) | (_, Err(error)) if !error.is_row_error() => return Err(error),
                (Ok(None), Ok(None)) => return Ok(None),
                (longer, Ok(None)) => return self.check_rest(ColumnRole::Source, longer),
                (Ok(None), longer) => return self.check_rest(ColumnRole::Target, longer),
                (source, target) => {
                    self.lines = line;
                    (source?, target?)
                }
            };
            let text = |line: Option<TextLine>| line.map_or_else(String::new, |line| line.text.trim().to_owned());
            let (source, target) = (text(source), text(target));
            let role = match (source.is_empty(), target.is_empty()) {
                (true, true) => continue,
                (false, false) => return Ok(Some(SentencePair { source, target, line })),
                (true, false) => ColumnRole::Source,
                (false, true) => ColumnRole::Target,
            };
            return Err(DataError::EmptySide { place: self.location(role, line), found: empty_side(role).into() });
        }
    }

    /// Accepts blank lines after the end of the other file, and rejects everything else.
    fn check_rest(
        &mut self,
        role: ColumnRole,
        first: Result<Option<TextLine>, DataError>,
    ) -> Result<Option<SentencePair>, DataError> {
        let is_source = role == ColumnRole::Source;
        let other = self.paths[usize::from(is_source)].clone();
        let unpaired = DataError::Unpaired { place: self.location(role, self.lines + 1), other, lines: self.lines };
        let longer = if is_source { &mut self.source } else { &mut self.target };
        let mut next = first;
        loop {
            match next {
                Ok(None) => return Ok(None),
                Ok(Some(line)) if line.text.trim().is_empty() => next = longer.next_line(),
                Err(error) if !error.is_row_error() => return Err(error),
                Ok(Some(_)) | Err(_) => return Err(unpaired),
            }
        }
    }
}
