//! Texts with a number each: a rating, a price, a likeness; and how a column of them is told from one of classes.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::dataset::MIN_TRAINING_ROWS;
use super::error::{DataError, SourceLocation};
use super::format::ReadOptions;
use super::record::SkippedRows;
use super::row_origins::RowOrigins;
use super::schema_inference::numbers::MIN_DISTINCT_NUMBERS;
use super::schema_inference::quantity::{Quantity, QuantityFormat};
use super::source::RowSource;
use crate::feature_columns::FeatureRequest;
use crate::lang::lang;
use crate::lang::wording::quote;

/// A text and its number.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoreExample {
    /// The text, as the file has it.
    pub text: String,
    /// Its number, which is finite.
    pub score: f64,
    /// The line on which it begins, or its row in Parquet.
    pub line: u64,
}

/// The texts of one file with their numbers.
#[derive(Debug, Clone)]
pub struct ScoreDataset {
    /// The file, as the user named it.
    pub path: PathBuf,
    /// In the order of the file.
    pub examples: Vec<ScoreExample>,
    /// The rows that were left out.
    pub skipped: SkippedRows,
    /// What the file was taken for and why, in one line.
    pub description: String,
    /// The name of the column of numbers.
    pub column: String,
    /// The columns beside the text, as they were asked for.
    pub features: Vec<FeatureRequest>,
    /// How much each row counts in training; all alike if absent.
    pub weights: Option<Vec<f32>>,
    /// The files of the rows.
    pub(crate) files: RowOrigins,
    /// How the numbers are written.
    number_format: QuantityFormat,
}

/// Reads a file of texts with a number each.
///
/// # Errors
///
/// Whatever is wrong with the file; a label that is no finite number, with its line.
pub fn load_scores(path: &Path, options: &ReadOptions) -> Result<ScoreDataset, DataError> {
    let mut source =
        RowSource::open(path, &ReadOptions { require_label: true, numbers: true, pairs: true, ..options.clone() })?;
    source.require_text();
    let (layout, columns, description) = (source.layout().clone(), source.columns().clone(), source.describe());
    let column = columns.label.unwrap_or_default();
    let (files, beside) = (RowOrigins::one(path, source.location(0).is_row), source.requested_features());
    let mut records = source.records();
    let (mut examples, mut form) = (Vec::new(), QuantityFormat::default());
    while let Some(record) = records.next() {
        let record = record?;
        let found = records.source().row_label(&record, column).and_then(|kilobyte_field| {
            let place = records.source().location(record.line);
            match Quantity::parse(&kilobyte_field) {
                Some(found) if found.fits_column(&mut form) => Ok(found.value),
                found => Err(not_a_number(place, &kilobyte_field, found.is_some())),
            }
        });
        match found {
            Ok(score) => {
                let text = records.source().row_text(&record).into_owned();
                examples.push(ScoreExample { text, score, line: record.line });
            }
            Err(error) => records.skip_row(error)?,
        }
    }
    let (skipped, path) = (records.skipped().clone(), path.to_owned());
    if examples.is_empty() {
        return Err(DataError::NoUsableRows { path, skipped: skipped.to_string() });
    }
    let column = layout.columns.get(column).cloned().unwrap_or_default();
    Ok(ScoreDataset {
        path,
        examples,
        skipped,
        description,
        column,
        features: beside,
        weights: None,
        files,
        number_format: form,
    })
}

impl ScoreDataset {
    /// Whether numbers of both files may stand in one column: three of five are not three of ten.
    #[must_use]
    pub fn has_same_number_format(&self, other: &ScoreDataset) -> bool {
        self.number_format.is_compatible_with(&other.number_format)
    }

    /// The place of an example, counted from 0.
    pub fn location(&self, row: usize) -> SourceLocation {
        self.files.location(row, self.examples.get(row).map_or(0, |example| example.line))
    }

    /// Checks that there is something to train on.
    ///
    /// # Errors
    ///
    /// Too few rows, or fewer than three different numbers.
    pub fn check_trainable(&self) -> Result<(), DataError> {
        let (path, rows) = (self.path.clone(), self.examples.len() as u64);
        if rows < MIN_TRAINING_ROWS {
            return Err(DataError::TooFewRows { path, rows, least: MIN_TRAINING_ROWS });
        }
        let different: HashSet<u64> = self.examples.iter().map(|example| example.score.to_bits()).collect();
        match different.len() {
            found if found < MIN_DISTINCT_NUMBERS => Err(DataError::TooFewNumbers { path, found }),
            _ => Ok(()),
        }
    }
}

fn not_a_number(place: SourceLocation, field: &str, is_another_form: bool) -> DataError {
    let expected = match is_another_form {
        true => lang().pick("a number written like those of the rows before", "前の行と同じ書き方の数値"),
        false if field.trim().parse::<f64>().is_ok() => {
            lang().pick("a number of at most 1e100", "数値（絶対値 1e100 以下）")
        }
        false => lang().pick("a number", "数値"),
    };
    DataError::BadLabels { place, expected, found: quote(field) }
}
