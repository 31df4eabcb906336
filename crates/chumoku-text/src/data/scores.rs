//! Texts with a number each, such as a rating, a price or a similarity.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::dataset::MIN_TRAINING_ROWS;
use super::error::{DataError, SourceLocation};
use super::format::ReadOptions;
use super::record::SkippedRows;
use super::row_origins::RowOrigins;
use super::schema_inference::numbers::MIN_DISTINCT_NUMBERS;
use super::schema_inference::quantity::{PointGroups, Quantity, QuantityFormat};
use super::source::RowSource;
use crate::lang::lang;
use crate::lang::wording::quote;
use crate::row::{FeatureRequest, Row};

/// A text and its number.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoreExample {
    /// The text, as in the file.
    pub text: Row,
    /// The number. It is finite.
    pub score: f64,
    /// The line on which the row starts, or its row number in Parquet.
    pub line: u64,
}

/// The texts of one file, with their numbers.
#[derive(Debug, Clone)]
pub struct ScoreDataset {
    /// The file, as the user named it.
    pub path: PathBuf,
    /// The examples, in file order.
    pub examples: Vec<ScoreExample>,
    /// The skipped rows.
    pub skipped: SkippedRows,
    /// The detected format and columns, with reasons, in one line.
    pub description: String,
    /// The name of the numeric column.
    pub column: String,
    /// The requested feature columns.
    pub features: Vec<FeatureRequest>,
    /// The weight of each row in training. `None` if all are equal.
    pub weights: Option<Vec<f32>>,
    /// The files that the rows come from.
    pub(crate) files: RowOrigins,
    /// The format of the numbers.
    number_format: QuantityFormat,
    /// A number that shows the format, as in the file.
    number_example: String,
}

/// Loads a file of texts with a number each.
///
/// # Errors
///
/// Any problem with the file, such as a label that is not a finite number.
pub fn load_scores(path: &Path, options: &ReadOptions) -> Result<ScoreDataset, DataError> {
    let mut source =
        RowSource::open(path, &ReadOptions { require_label: true, numbers: true, pairs: true, ..options.clone() })?;
    source.require_text();
    let (layout, columns, description) = (source.layout().clone(), source.columns().clone(), source.describe());
    let column = columns.label.unwrap_or_default();
    let (files, beside) = (RowOrigins::one(path, source.location(0).is_row), source.requested_features());
    let mut records = source.records();
    let (mut examples, mut form, mut number_example) = (Vec::new(), QuantityFormat::default(), String::new());
    let (mut points, mut with_groups) = (PointGroups::default(), Vec::new());
    while let Some(record) = records.next() {
        let record = record?;
        let found = records.source().row_label(&record, column).and_then(|field| {
            let (place, before) = (records.source().location(record.line), form.clone());
            match Quantity::parse(&field) {
                Some(found) if found.fits_column(&mut form) => {
                    if form != before {
                        number_example = field.trim().to_owned();
                    }
                    points.add(&found);
                    Ok(found)
                }
                found => Err(not_a_number(place, &field, found.is_some())),
            }
        });
        match found {
            Ok(number) => {
                let text = records.source().row(&record);
                examples.push(ScoreExample { text, score: number.value, line: record.line });
                with_groups.push(number.value_with_groups);
            }
            Err(error) => records.skip_row(error)?,
        }
    }
    let are_thousands = points.are_thousands_given(options.decimal());
    form.set_decimal(&points, are_thousands);
    if are_thousands {
        for (example, value) in examples.iter_mut().zip(with_groups) {
            example.score = value.unwrap_or(example.score);
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
        number_example,
    })
}

impl ScoreDataset {
    /// Checks that the numbers of both files may be in one column. For example, three out of five differs from three
    /// out of ten.
    ///
    /// # Errors
    ///
    /// If the formats differ. The error shows a number of each file.
    pub fn check_number_format(&self, first: &ScoreDataset) -> Result<(), DataError> {
        if self.number_format.is_compatible_with(&first.number_format) {
            return Ok(());
        }
        Err(DataError::NumbersDiffer {
            path: self.path.clone(),
            first: first.path.clone(),
            expected: quote(&first.number_example).into(),
            found: quote(&self.number_example).into(),
        })
    }

    /// Returns the decimal separator of the numbers, if they show it.
    pub fn decimal(&self) -> Option<char> {
        self.number_format.decimal()
    }

    /// Adds the number format of the next file.
    pub(super) fn merge_number_format(&mut self, next: &ScoreDataset) -> Result<(), DataError> {
        next.check_number_format(self)?;
        if self.number_format.merge(&next.number_format) {
            self.number_example.clone_from(&next.number_example);
        }
        Ok(())
    }

    /// Returns the location of an example, counted from 0.
    pub fn location(&self, row: usize) -> SourceLocation {
        self.files.location(row, self.examples.get(row).map_or(0, |example| example.line))
    }

    /// Checks that a model can be trained on these examples.
    ///
    /// # Errors
    ///
    /// Too few rows, or fewer than three distinct numbers.
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
        true => lang().pick("a number in the format of the rows before", "前の行と同じ書き方の数値"),
        false if field.trim().parse::<f64>().is_ok() => {
            lang().pick("a number of at most 1e100", "数値（絶対値 1e100 以下）")
        }
        false => lang().pick("a number", "数値"),
    };
    DataError::BadLabels { place, expected, found: quote(field) }
}
