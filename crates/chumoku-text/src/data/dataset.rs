//! A labeled file in memory, and the checks before training and evaluation.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use super::error::{ColumnRole, DataError, SourceLocation};
use super::format::{Format, ReadOptions};
use super::label_variants::{FileLabels, merge_labels};
use super::record::{Record, SkippedRows, TableLayout};
use super::row_origins::RowOrigins;
use super::schema_inference::columns::{ColumnChoice, no_column_error};
use super::schema_inference::label_kind::{LabelKind, quote_some_labels};
use super::schema_inference::reasons::label_description;
use super::source::{Records, RowSource};
use crate::lang::wording::{did_you_mean, join_names, list_names};
use crate::row::{FeatureRequest, Row};
use crate::tr;

/// Most classes of a label column (5,000). A column with more holds identifiers.
pub(crate) const MAX_CLASSES: usize = 5_000;
/// Fewest rows to train on (4): two classes with two rows each.
pub(crate) const MIN_TRAINING_ROWS: u64 = 4;

/// A text and its class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// The text, as in the file.
    pub text: Row,
    /// The label, without surrounding white space.
    pub label: String,
    /// The line on which the row starts, or its row number in Parquet.
    pub line: u64,
}

/// The labeled texts of one file.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// The file, as the user named it.
    pub path: PathBuf,
    /// The examples, in file order.
    pub examples: Vec<Example>,
    /// The skipped rows.
    pub skipped: SkippedRows,
    /// The detected format and columns, with reasons, in one line.
    pub description: String,
    /// The format and the column names.
    pub layout: TableLayout,
    /// The chosen columns.
    pub columns: ColumnChoice,
    /// The requested feature columns.
    pub features: Vec<FeatureRequest>,
    /// The weight of each row in training. `None` if all are equal.
    pub weights: Option<Vec<f32>>,
    /// True if the caller named the label column.
    is_label_requested: bool,
    /// Unused columns that could be the label.
    label_candidates: Vec<String>,
    /// The files that the rows come from.
    pub(crate) files: RowOrigins,
}

/// Loads a labeled file.
///
/// # Errors
///
/// Any problem with the file. A file with one class or one row is accepted, because a test file may have only that.
/// [`Dataset::check_trainable`] is stricter.
pub fn load_labeled(path: &Path, options: &ReadOptions) -> Result<Dataset, DataError> {
    let options = ReadOptions { require_label: true, pairs: true, ..options.clone() };
    RowSource::open(path, &options)?.into_dataset()
}

/// Loads a labeled file. Rows with an empty text or label are no errors: they are returned separately, unchanged.
///
/// # Errors
///
/// As for [`load_labeled`].
pub fn load_with_incomplete_rows(path: &Path, options: &ReadOptions) -> Result<(Dataset, Vec<Example>), DataError> {
    let options = ReadOptions { require_label: true, require_text: false, pairs: true, ..options.clone() };
    let mut gaps = Vec::new();
    let dataset = RowSource::open(path, &options)?.collect(Some(&mut gaps))?;
    Ok((dataset, gaps))
}

impl RowSource {
    /// Loads the labeled texts of an opened file.
    ///
    /// # Errors
    ///
    /// As for [`load_labeled`]. Also if the source was opened without requiring a label and has none.
    pub(crate) fn into_dataset(mut self) -> Result<Dataset, DataError> {
        self.require_text();
        self.collect(None)
    }

    /// Collects the labeled texts. Rows with an empty text or label go to `gaps` if it is given.
    fn collect(self, mut gaps: Option<&mut Vec<Example>>) -> Result<Dataset, DataError> {
        let (layout, columns, description) = (self.layout().clone(), self.columns().clone(), self.describe());
        let (files, beside) = (RowOrigins::one(&layout.path, self.location(0).is_row), self.requested_features());
        let (is_label_requested, could_be_labels) = (self.is_label_requested(), self.label_candidates());
        let Some(label_column) = columns.label else {
            let columns = layout.column_title(columns.text);
            return Err(no_column_error(&layout, ColumnRole::Label, label_description(), columns));
        };
        let mut records = self.records();
        let (mut examples, mut classes) = (Vec::new(), HashSet::new());
        while let Some(record) = records.next() {
            let record = record?;
            let lacks_label = records.source().is_label_missing(&record, label_column);
            let lacks_text = record.field(columns.text).trim().is_empty();
            if let Some(gaps) = gaps.as_deref_mut().filter(|_| lacks_text || lacks_label) {
                let text = record.field(columns.text).trim().into();
                let label = if lacks_label { String::new() } else { record.field(label_column).trim().to_owned() };
                gaps.push(Example { text, label, line: record.line });
                continue;
            }
            let example = match labeled_example(&record, &records, label_column) {
                Ok(example) => example,
                Err(error) => {
                    records.skip_row(error)?;
                    continue;
                }
            };
            if !classes.contains(&example.label) {
                if classes.len() == MAX_CLASSES {
                    if let Some(kind) = LabelKind::detect(&labels(&examples), is_label_requested) {
                        return Err(no_classes_error(&layout, label_column, &examples, kind, &could_be_labels));
                    }
                    let place = records.source().location(example.line);
                    let column = layout.column_title(label_column);
                    return Err(DataError::TooManyClasses { place, limit: MAX_CLASSES, column });
                }
                classes.insert(example.label.clone());
            }
            examples.push(example);
        }
        let skipped = records.skipped().clone();
        let path = layout.path.clone();
        if let Some(known) = records.source().merged_labels() {
            merge_labels(examples.iter_mut().map(|example: &mut Example| &mut example.label), known);
        }
        if examples.is_empty() {
            return Err(DataError::NoUsableRows { path, skipped: skipped.to_string() });
        }
        Ok(Dataset {
            path,
            examples,
            skipped,
            description,
            layout,
            columns,
            features: beside,
            weights: None,
            is_label_requested,
            label_candidates: could_be_labels,
            files,
        })
    }
}

fn labels(examples: &[Example]) -> Vec<&str> {
    examples.iter().map(|example| example.label.as_str()).collect()
}

/// The error for a label column that holds no classes. `others` could be the label.
fn no_classes_error(
    layout: &TableLayout,
    column: usize,
    examples: &[Example],
    kind: LabelKind,
    others: &[String],
) -> DataError {
    let others = join_names(&others[..others.len().min(8)]);
    let advice = match others.is_empty() {
        true => tr!("sort the values into a few classes", "値を少数のクラスにまとめてください"),
        false => tr!(
            "name another column with --label (such as {others}), or sort the values into a few classes",
            "--label で別の列（{others} など）を指定するか、値を少数のクラスにまとめてください"
        ),
    };
    let classes: HashSet<&str> = examples.iter().map(|example| example.label.as_str()).collect();
    DataError::NoClasses {
        path: layout.path.clone(),
        column: layout.column_title(column),
        found: [classes.len() as u64, examples.len() as u64],
        examples: quote_some_labels(&labels(examples)).into(),
        looks_like: kind.describe().into(),
        advice: advice.into(),
    }
}

/// Reads the label and the text, which has been checked, of a row.
fn labeled_example(record: &Record, records: &Records, label: usize) -> Result<Example, DataError> {
    let label = records.source().row_label(record, label)?.trim().to_owned();
    let text = records.source().row(record);
    Ok(Example { text, label, line: record.line })
}

impl Dataset {
    /// Returns the labels of each file, in order.
    pub fn labels_by_file(&self) -> Vec<FileLabels<'_>> {
        self.files.group_labels(self.examples.iter().map(|example| [&example.label]))
    }

    /// Returns the location of an example, counted from 0.
    pub fn location(&self, row: usize) -> SourceLocation {
        self.files.location(row, self.examples.get(row).map_or(0, |example| example.line))
    }

    /// Returns the distinct labels, sorted.
    pub fn labels(&self) -> Vec<String> {
        let labels: BTreeSet<&str> = self.examples.iter().map(|example| example.label.as_str()).collect();
        labels.into_iter().map(str::to_owned).collect()
    }

    /// Checks that a classifier can be trained on these examples.
    ///
    /// # Errors
    ///
    /// Too few rows, a single class, or a label column that holds measures, dates, identifiers or texts.
    pub fn check_trainable(&self) -> Result<(), DataError> {
        let (path, rows) = (self.path.clone(), self.examples.len() as u64);
        if rows < MIN_TRAINING_ROWS {
            return Err(DataError::TooFewRows { path, rows, least: MIN_TRAINING_ROWS });
        }
        let label = &self.examples[0].label;
        if self.examples.iter().all(|example| example.label == *label) {
            let column = match self.columns.label {
                Some(column) => self.layout.column_title(column),
                None => tr!("this", "これ"),
            };
            return Err(DataError::OneClass { path, label: label.clone(), rows, column });
        }
        match (LabelKind::detect(&labels(&self.examples), self.is_label_requested), self.columns.label) {
            // fastText has a single label column, so no other can be meant.
            (Some(kind), Some(column)) if self.layout.format != Format::FastText => {
                Err(no_classes_error(&self.layout, column, &self.examples, kind, &self.label_candidates))
            }
            _ => Ok(()),
        }
    }

    /// Checks that every label is among `known`, the labels of the training data.
    ///
    /// # Errors
    ///
    /// The first label that is not, with its line.
    pub fn check_known_labels<S: AsRef<str>>(&self, known: &[S]) -> Result<(), DataError> {
        let names: HashSet<&str> = known.iter().map(AsRef::as_ref).collect();
        match self.examples.iter().enumerate().find(|(_, example)| !names.contains(example.label.as_str())) {
            None => Ok(()),
            Some((row, example)) => Err(DataError::UnknownLabel {
                place: self.location(row),
                label: example.label.clone(),
                known: list_names(known).into(),
                hint: did_you_mean(&example.label, known.iter().map(AsRef::as_ref)).into(),
            }),
        }
    }
}
