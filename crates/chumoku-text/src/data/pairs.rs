//! Sentence pairs from two columns of a table, or from two parallel files.

use std::path::Path;

mod parallel;

use super::dataset::MIN_TRAINING_ROWS;
use super::error::{ColumnRole, DataError, SourceLocation};
use super::files::DataFiles;
use super::format::ReadOptions;
use super::open::open_path;
use super::record::{Record, SkippedRows};
use super::row_origins::RowOrigins;
use super::schema_inference::pair_columns::{PairColumns, choose_pair};
use super::source::RowSource;
use super::table::{DataTable, skip_or_fail};
use crate::tr;
use parallel::ParallelReader;

/// A text and its translation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentencePair {
    /// The text to translate, without surrounding white space.
    pub(crate) source: String,
    /// Its translation, also trimmed.
    pub(crate) target: String,
    /// The line of both texts, or the line on which their row starts. In Parquet, the row.
    pub(crate) line: u64,
}

/// Streams the pairs of one file, or of two parallel ones. Ends after the first error.
pub(crate) struct PairRecords {
    reader: PairReader,
    options: ReadOptions,
    skipped: SkippedRows,
    done: bool,
}

enum PairReader {
    Table(Box<DataTable>, PairColumns),
    Parallel(Box<ParallelReader>),
}

impl PairRecords {
    /// Opens the files and, in a table, chooses the columns. `options.text` names the source, `options.label` the
    /// target. Otherwise names such as source and target, or ja and en, decide. Without such names, there must be only
    /// two columns, or only two of text.
    ///
    /// # Errors
    ///
    /// Any problem with the files or the options that shows in the first rows.
    pub(crate) fn open(files: &DataFiles, options: &ReadOptions) -> Result<Self, DataError> {
        let (reader, skipped) = match files {
            DataFiles::One(path) => {
                let mut table = open_pair_table(path, options)?;
                let columns = choose_pair(&table.layout, &table.sample.iter().collect::<Vec<_>>(), options)?;
                let skipped = std::mem::take(&mut table.skipped);
                (PairReader::Table(Box::new(table), columns), skipped)
            }
            DataFiles::Parallel { source, target } => {
                (PairReader::Parallel(Box::new(ParallelReader::open(source, target, options)?)), SkippedRows::default())
            }
        };
        Ok(PairRecords { reader, options: options.clone(), skipped, done: false })
    }

    /// Describes the detected format and columns, with reasons, in one line.
    pub(crate) fn describe(&self) -> String {
        match &self.reader {
            PairReader::Table(table, columns) => {
                let rest = table.layout.describe_unused(&[Some(columns.source), Some(columns.target)]);
                tr!("{}; {}{rest}", "{}。{}{rest}", table.describe(), columns.describe(&table.layout))
            }
            PairReader::Parallel(reader) => reader.describe(),
        }
    }

    /// Returns the names of source and target: the column names, or the extensions of parallel files, which usually
    /// name the languages. Otherwise `source` and `target`.
    pub(crate) fn names(&self) -> [String; 2] {
        match &self.reader {
            PairReader::Table(table, columns) if table.layout.has_names() => {
                [columns.source, columns.target].map(|column| table.layout.columns[column].clone())
            }
            PairReader::Table(..) => ["source".to_owned(), "target".to_owned()],
            PairReader::Parallel(reader) => reader.names(),
        }
    }

    /// Returns the location of one side of the pair on this line.
    pub(crate) fn location(&self, role: ColumnRole, line: u64) -> SourceLocation {
        match &self.reader {
            PairReader::Table(table, _) => table.location(line),
            PairReader::Parallel(reader) => reader.location(role, line),
        }
    }

    fn next_pair(&mut self) -> Result<Option<SentencePair>, DataError> {
        match &mut self.reader {
            PairReader::Parallel(reader) => reader.next_pair(),
            PairReader::Table(table, columns) => match table.next_row()? {
                Some(row) => row_to_pair(table, *columns, row).map(Some),
                None => Ok(None),
            },
        }
    }
}

impl Iterator for PairRecords {
    type Item = Result<SentencePair, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.done {
            match self.next_pair() {
                Ok(Some(pair)) => return Some(Ok(pair)),
                Ok(None) => self.done = true,
                Err(error) => {
                    if let Err(error) = skip_or_fail(error, &self.options, &mut self.skipped) {
                        self.done = true;
                        return Some(Err(error));
                    }
                }
            }
        }
        None
    }
}

/// Opens a table for pairs and unpacks objects such as `{"translation": {"ja": "…", "en": "…"}}`.
pub(crate) fn open_pair_table(path: &Path, options: &ReadOptions) -> Result<DataTable, DataError> {
    let mut table = DataTable::from_file(path, open_path(path, options)?, options).map_err(|error| match error {
        DataError::NoUsableRows { path, skipped } => DataError::NoUsablePairs { path, skipped },
        other => other,
    })?;
    if !table.unpack_translations() {
        table.flatten();
    }
    Ok(table)
}

/// Describes a missing side of a pair, for messages.
fn empty_side(role: ColumnRole) -> String {
    tr!("an empty {role}", "空の{role}")
}

/// Reads source and target of a row.
fn row_to_pair(table: &DataTable, columns: PairColumns, record: Record) -> Result<SentencePair, DataError> {
    let side = |role: ColumnRole, column: usize| {
        table.check_text(&record, role, column)?;
        match record.field(column).trim() {
            "" => {
                let found = table.describe_missing(&record, column, empty_side(role));
                Err(DataError::EmptySide { place: table.location(record.line), found })
            }
            text => Ok(text.to_owned()),
        }
    };
    let (source, target) = (side(ColumnRole::Source, columns.source)?, side(ColumnRole::Target, columns.target)?);
    Ok(SentencePair { source, target, line: record.line })
}

/// The pairs of one file, or of two parallel ones, in memory.
#[derive(Debug, Clone)]
pub struct PairDataset {
    /// The files, as the user named them.
    pub(crate) files: DataFiles,
    /// The pairs, in file order.
    pub pairs: Vec<SentencePair>,
    /// The skipped rows.
    pub skipped: SkippedRows,
    /// The detected format and columns, with reasons, in one line.
    pub description: String,
    /// The names of source and target, as in `PairRecords::names`.
    pub names: [String; 2],
    /// The files that the sources come from.
    pub(crate) origins: RowOrigins,
}

/// Loads all pairs.
///
/// # Errors
///
/// Any problem with the files. Parallel files of different lengths are an error at the first line without a
/// counterpart. Empty sides are errors unless bad rows are skipped.
pub fn load_pairs(files: &DataFiles, options: &ReadOptions) -> Result<PairDataset, DataError> {
    let mut records = PairRecords::open(files, options)?;
    let (description, names) = (records.describe(), records.names());
    let first = records.location(ColumnRole::Source, 0);
    let places = RowOrigins::one(&first.path, first.is_row);
    let pairs = records.by_ref().collect::<Result<Vec<SentencePair>, DataError>>()?;
    let skipped = records.skipped;
    if pairs.is_empty() {
        return Err(DataError::NoUsablePairs { path: files.first().to_owned(), skipped: skipped.to_string() });
    }
    Ok(PairDataset { files: files.clone(), pairs, skipped, description, names, origins: places })
}

/// Loads the texts of a file, each paired with itself: the rows of an autoencoder.
///
/// # Errors
///
/// Any problem with the file.
pub fn load_texts_as_pairs(path: &Path, options: &ReadOptions) -> Result<PairDataset, DataError> {
    let options = ReadOptions { require_label: false, require_text: true, ..options.clone() };
    let source = RowSource::open(path, &options)?;
    let (description, column) = (source.describe(), source.columns().text);
    let name = source.layout().columns[column].clone();
    let first = source.location(0);
    let mut records = source.records();
    let mut pairs = Vec::new();
    for record in records.by_ref() {
        let record = record?;
        let text = record.field(column).trim().to_owned();
        pairs.push(SentencePair { source: text.clone(), target: text, line: record.line });
    }
    let skipped = records.skipped().clone();
    if pairs.is_empty() {
        return Err(DataError::NoUsableRows { path: path.to_owned(), skipped: skipped.to_string() });
    }
    Ok(PairDataset {
        files: DataFiles::One(path.to_owned()),
        pairs,
        skipped,
        description,
        names: [name.clone(), name],
        origins: RowOrigins::one(&first.path, first.is_row),
    })
}

impl PairDataset {
    /// Returns the location of a source, counted from 0.
    pub(crate) fn location(&self, row: usize) -> SourceLocation {
        self.origins.location(row, self.pairs.get(row).map_or(0, |pair| pair.line))
    }

    /// Checks that there are enough pairs to train on.
    ///
    /// # Errors
    ///
    /// Too few rows.
    pub(crate) fn check_trainable(&self) -> Result<(), DataError> {
        let rows = self.pairs.len() as u64;
        match rows < MIN_TRAINING_ROWS {
            true => Err(DataError::TooFewRows { path: self.files.first().to_owned(), rows, least: MIN_TRAINING_ROWS }),
            false => Ok(()),
        }
    }
}
