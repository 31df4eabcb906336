//! Texts with a number each: a rating, a price, a likeness; and how a column of them is told from one of classes.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::dataset::MIN_TRAINING_ROWS;
use super::error::{DataError, Place};
use super::format::ReadOptions;
use super::look::numbers::LEAST_NUMBERS;
use super::look::quantity::{Form, Quantity};
use super::record::Skipped;
use super::row_files::RowFiles;
use super::source::Source;
use crate::beside::Asked;
use crate::lang::lang;
use crate::lang::wording::quoted;

/// A text and its number.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredText {
    /// The text, as the file has it.
    pub text: String,
    /// Its number, which is finite.
    pub score: f64,
    /// The line on which it begins, or its row in Parquet.
    pub line: u64,
}

/// The texts of one file with their numbers.
#[derive(Debug, Clone)]
pub struct ScoredTexts {
    /// The file, as the user named it.
    pub path: PathBuf,
    /// In the order of the file.
    pub examples: Vec<ScoredText>,
    /// The rows that were left out.
    pub skipped: Skipped,
    /// What the file was taken for and why, in one line.
    pub description: String,
    /// The name of the column of numbers.
    pub column: String,
    /// The columns beside the text, as they were asked for.
    pub beside: Vec<Asked>,
    /// How much each row counts in training; all alike if absent.
    pub weights: Option<Vec<f32>>,
    /// The files of the rows.
    pub(crate) files: RowFiles,
    /// How the numbers are written.
    form: Form,
}

/// Reads a file of texts with a number each.
///
/// # Errors
///
/// Whatever is wrong with the file; a label that is no finite number, with its line.
pub fn load_scores(path: &Path, options: &ReadOptions) -> Result<ScoredTexts, DataError> {
    let mut source =
        Source::open(path, &ReadOptions { require_label: true, numbers: true, pairs: true, ..options.clone() })?;
    source.require_text();
    let (layout, columns, description) = (source.layout().clone(), source.columns().clone(), source.describe());
    let column = columns.label.unwrap_or_default();
    let (files, beside) = (RowFiles::one(path, source.place(0).is_row), source.asked_beside());
    let mut records = source.records();
    let (mut examples, mut form) = (Vec::new(), Form::default());
    while let Some(record) = records.next() {
        let record = record?;
        let found = records.source().label_of(&record, column).and_then(|field| {
            let place = records.source().place(record.line);
            match Quantity::of(&field) {
                Some(found) if found.agrees(&mut form) => Ok(found.value),
                found => Err(no_number(place, &field, found.is_some())),
            }
        });
        match found {
            Ok(score) => {
                let text = records.source().text_of(&record).into_owned();
                examples.push(ScoredText { text, score, line: record.line });
            }
            Err(error) => records.leave_out(error)?,
        }
    }
    let (skipped, path) = (records.skipped().clone(), path.to_owned());
    if examples.is_empty() {
        return Err(DataError::NoUsableRows { path, skipped: skipped.to_string() });
    }
    let column = layout.columns.get(column).cloned().unwrap_or_default();
    Ok(ScoredTexts { path, examples, skipped, description, column, beside, weights: None, files, form })
}

impl ScoredTexts {
    /// Whether numbers of both files may stand in one column: three of five are not three of ten.
    #[must_use]
    pub fn is_written_like(&self, other: &ScoredTexts) -> bool {
        self.form.goes_with(&other.form)
    }

    /// The place of an example, counted from 0.
    pub fn place(&self, row: usize) -> Place {
        self.files.place(row, self.examples.get(row).map_or(0, |example| example.line))
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
            found if found < LEAST_NUMBERS => Err(DataError::FewNumbers { path, found }),
            _ => Ok(()),
        }
    }
}

fn no_number(place: Place, field: &str, is_another_form: bool) -> DataError {
    let expected = match is_another_form {
        true => lang().pick("a number written like those of the rows before", "前の行と同じ書き方の数値"),
        false if field.trim().parse::<f64>().is_ok() => {
            lang().pick("a number of at most 1e100", "数値（絶対値 1e100 以下）")
        }
        false => lang().pick("a number", "数値"),
    };
    DataError::BadLabels { place, expected, found: quoted(field) }
}
