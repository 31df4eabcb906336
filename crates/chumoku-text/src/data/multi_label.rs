//! Loads texts with any number of labels, and detects how a file writes the labels.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use super::dataset::{MAX_CLASSES, MIN_TRAINING_ROWS};
use super::error::{ColumnRole, DataError, SourceLocation};
use super::format::{Format, ReadOptions};
use super::label_variants::{FileLabels, merge_labels};
use super::record::{Record, SkippedRows, TableLayout};
use super::row_origins::RowOrigins;
use super::schema_inference::columns::{ColumnChooser, FeatureSource};
use super::schema_inference::label::LabelCandidate;
use super::schema_inference::label_form::{
    LabelForm, LabelOptions, list_size, parse_flag, read_label_list, split_labels,
};
use super::schema_inference::missing::MissingValues;
use super::schema_inference::reasons::as_requested;
use super::source::{RowSource, describe_alternatives};
use crate::lang::lang;
use crate::lang::wording::{did_you_mean, join_names, list_names, quote};
use crate::row::{FeatureRequest, Row};
use crate::tr;

/// A text and its distinct labels, in file order. There may be none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MultiLabelExample {
    /// The text, as in the file.
    pub text: Row,
    /// The labels of the text.
    pub labels: Vec<String>,
    /// The line on which the row starts, or its row number in Parquet.
    pub line: u64,
}

/// The texts of one file, with their labels.
#[derive(Debug, Clone)]
pub struct MultiLabelDataset {
    /// The file, as the user named it.
    pub path: PathBuf,
    /// The examples, in file order.
    pub examples: Vec<MultiLabelExample>,
    /// The skipped rows.
    pub skipped: SkippedRows,
    /// The detected format and columns, with reasons, in one line.
    pub description: String,
    /// The requested feature columns.
    pub features: Vec<FeatureRequest>,
    /// The weight of each row in training. `None` if all are equal.
    pub weights: Option<Vec<f32>>,
    /// The files that the rows come from.
    pub(crate) files: RowOrigins,
}

/// Loads a file of texts with any number of labels each.
///
/// # Errors
///
/// Any problem with the file. Also if no reading with several labels is found and the caller does not say how they are
/// written.
pub fn load_multi_label(
    path: &Path,
    options: &ReadOptions,
    how: &LabelOptions,
) -> Result<MultiLabelDataset, DataError> {
    let source = open(path, options)?;
    let Some(LabelReading { form, why, alternatives: next }) = find_labels(&source, options, how, true)? else {
        let columns = join_names(
            &(0..source.layout().columns.len()).map(|c| source.layout().column_title(c)).collect::<Vec<_>>(),
        );
        return Err(DataError::NoMultipleLabels { path: path.to_owned(), columns });
    };
    let layout = source.layout().clone();
    let description = describe(&source, &form, &why) + &describe_alternatives(&next);
    let (beside, missing) = (source.requested_features(), source.missing_values().clone());
    let files = RowOrigins::one(&layout.path, source.location(0).is_row);
    let mut records = source.records();
    let (mut examples, mut known) = (Vec::new(), HashSet::new());
    while let Some(record) = records.next() {
        let record = record?;
        let place = records.source().location(record.line);
        let labels = match row_labels(&form, &layout, &record, (place, &missing)) {
            Ok(labels) => labels,
            Err(error) => {
                records.skip_row(error)?;
                continue;
            }
        };
        for label in &labels {
            if known.insert(label.clone()) && known.len() > MAX_CLASSES {
                let place = records.source().location(record.line);
                return Err(DataError::TooManyClasses {
                    place,
                    limit: MAX_CLASSES,
                    column: labels_title(&layout, &form),
                });
            }
        }
        let text = records.source().row(&record);
        examples.push(MultiLabelExample { text, labels, line: record.line });
    }
    let skipped = records.skipped().clone();
    if let Some(known) = records.source().merged_labels() {
        merge_spellings(&mut examples, known);
    }
    let path = path.to_owned();
    if examples.is_empty() {
        return Err(DataError::NoUsableRows { path, skipped: skipped.to_string() });
    }
    Ok(MultiLabelDataset { path, examples, skipped, description, features: beside, weights: None, files })
}

/// Returns why a file looks like one with several labels per text, or `None` if it does not.
///
/// # Errors
///
/// Errors that keep the file from being read.
pub fn looks_multi_label(path: &Path, options: &ReadOptions) -> Result<Option<String>, DataError> {
    // The caller reads the file for another task next and reports its column errors.
    let Ok(source) = open(path, options) else { return Ok(None) };
    if source.layout().format == Format::PlainText {
        return Ok(None);
    }
    Ok(find_labels(&source, options, &LabelOptions::default(), false)?.map(|found| found.why))
}

fn open(path: &Path, options: &ReadOptions) -> Result<RowSource, DataError> {
    let options =
        ReadOptions { require_label: false, require_text: true, several_labels: true, pairs: true, ..options.clone() };
    RowSource::open(path, &options)
}

fn labels_title(layout: &TableLayout, form: &LabelForm) -> String {
    match form {
        LabelForm::FastText => lang().pick("the labels in front of the texts", "テキストの前のラベル").into(),
        LabelForm::Class(column)
        | LabelForm::Number(column)
        | LabelForm::Separated(column, _)
        | LabelForm::List(column) => layout.column_title(*column),
        LabelForm::Columns(columns) => {
            join_names(&columns.iter().map(|&column| layout.column_title(column)).collect::<Vec<_>>())
        }
    }
}

fn describe(source: &RowSource, form: &LabelForm, why: &str) -> String {
    let layout = source.layout();
    let labels = labels_title(layout, form);
    let title = |column: usize| layout.column_title(column);
    let columns = source.columns();
    let text = [Some(columns.text), columns.second].into_iter().flatten().map(title).collect::<Vec<_>>();
    let text = join_names(&text);
    let about = source.describe_table();
    match form {
        LabelForm::FastText => {
            tr!("{about}; labels in front of each text ({why})", "{about}。各テキストの前にラベル（{why}）")
        }
        _ => tr!(
            "{about}; text = {text}, labels = {labels} ({why})",
            "{about}。テキスト = {text}、ラベル = {labels}（{why}）"
        ),
    }
}

/// The detected form of the labels, the reason, and the alternatives.
struct LabelReading {
    form: LabelForm,
    why: String,
    alternatives: Vec<String>,
}

/// Finds how the labels are written. `is_certain` says that texts may have several labels even if the first rows do
/// not.
fn find_labels(
    source: &RowSource,
    options: &ReadOptions,
    how: &LabelOptions,
    is_certain: bool,
) -> Result<Option<LabelReading>, DataError> {
    let layout = source.layout();
    let rows: Vec<&Record> = source.sample().iter().collect();
    let found = |form: LabelForm, why: String| Ok(Some(LabelReading { form, why, alternatives: Vec::new() }));
    if layout.format == Format::FastText {
        let several = rows.iter().filter(|row| row.field(0).contains(' ')).count();
        if several == 0 && how.separator.is_none() {
            return Ok(None);
        }
        let (n, of) = (several, rows.len());
        return found(
            LabelForm::FastText,
            tr!("{n} of the first {of} lines have several", "先頭 {of} 行のうち {n} 行に複数"),
        );
    }
    let chooser = ColumnChooser::new(layout, &rows, options);
    let filled = chooser.with_training_options(options);
    let options = filled.as_ref().unwrap_or(options);
    if !how.columns.is_empty() {
        let columns = how
            .columns
            .iter()
            .map(|name| chooser.requested_column(ColumnRole::Label, name))
            .collect::<Result<Vec<_>, _>>()?;
        return found(LabelForm::Columns(columns), as_requested().to_owned());
    }
    let beside = source.columns().features.iter().map(FeatureSource::column);
    let texts = [Some(source.columns().text), source.columns().second].into_iter().chain(beside);
    let texts: Vec<usize> = texts.flatten().collect();
    let requested =
        options.label.as_deref().map(|requested| chooser.requested_column(ColumnRole::Label, requested)).transpose()?;
    let requested = requested.or(source.columns().label);
    if let Some(separator) = how.separator {
        // The named column, the one whose name means label, or the one that looks like labels.
        let readings = chooser.table_view(requested).readings(&texts);
        let column = readings.iter().find_map(|(_, reading)| reading.form.column());
        if let Some(column) = column {
            return found(LabelForm::Separated(column, separator), as_requested().to_owned());
        }
    }
    if is_certain {
        let readings = chooser.table_view(requested).readings(&texts);
        let several = readings.into_iter().map(|(_, reading)| reading).find_map(|reading| match reading.form {
            // For multi-label tasks, lists with one item are lists.
            LabelForm::Class(column) if list_size(layout, &rows, column, true).is_some() => {
                Some(LabelCandidate { form: LabelForm::List(column), ..reading })
            }
            _ => reading.form.is_multi_label().then_some(reading),
        });
        return Ok(several.map(|LabelCandidate { form, why }| LabelReading { form, why, alternatives: Vec::new() }));
    }
    let reading = chooser.choose_label_reading(&texts, requested)?;
    let several = reading.filter(|(reading, _)| reading.form.is_multi_label());
    Ok(several.map(|(LabelCandidate { form, why }, next)| LabelReading {
        form,
        why,
        alternatives: next.into_iter().collect(),
    }))
}

/// Reads the labels of a row.
fn row_labels(
    form: &LabelForm,
    layout: &TableLayout,
    record: &Record,
    (place, missing): (SourceLocation, &MissingValues),
) -> Result<Vec<String>, DataError> {
    let wrong =
        |expected: &'static str, found: String| Err(DataError::BadLabels { place: place.clone(), expected, found });
    let found: Vec<String> = match form {
        LabelForm::Class(column) | LabelForm::Number(column) => vec![record.field(*column).trim().to_owned()],
        LabelForm::FastText => {
            record.field(0).split(' ').map(str::to_owned).filter(|label| !label.is_empty()).collect()
        }
        LabelForm::Separated(column, separator) => {
            let field = record.field(*column);
            if missing.is_missing(field) {
                return Ok(Vec::new());
            }
            let parts: Vec<String> = split_labels(field, *separator).into_iter().map(str::to_owned).collect();
            if parts.iter().any(String::is_empty) {
                let expected = lang().pick("names with the separator between them", "区切り文字で区切られたラベル");
                return wrong(expected, quote(field));
            }
            parts
        }
        LabelForm::List(column) => {
            let field = record.field(*column);
            match read_label_list(layout, record, *column) {
                Some(labels) => labels,
                None if missing.is_missing(field) => Vec::new(),
                None => {
                    return wrong(
                        lang().pick("a list of texts or of whole numbers", "文字列だけか整数だけのリスト"),
                        quote(field),
                    );
                }
            }
        }
        LabelForm::Columns(columns) => {
            let mut labels = Vec::new();
            for &column in columns {
                let field = record.field(column);
                match parse_flag(field) {
                    Some(true) => labels.push(layout.columns[column].trim().to_owned()),
                    Some(false) => {}
                    None => {
                        let name = layout.column_title(column);
                        let found = tr!("{} in {name}", "{name}の {}", quote(field));
                        return wrong(
                            lang().pick("0 or 1 in each column of a label", "ラベルの列にはどれも 0 か 1"),
                            found,
                        );
                    }
                }
            }
            labels
        }
    };
    if matches!(form, LabelForm::FastText) && found.is_empty() {
        let found = lang().pick("no __label__ on the line", "__label__ のない行").to_owned();
        return Err(DataError::EmptyLabel { place, found: found.into() });
    }
    let mut seen = HashSet::new();
    Ok(found.into_iter().filter(|label| seen.insert(label.clone())).collect())
}

/// Merges spellings and removes duplicate labels.
fn merge_spellings(examples: &mut [MultiLabelExample], known: &[String]) {
    merge_labels(examples.iter_mut().flat_map(|example| &mut example.labels), known);
    for example in examples {
        let mut seen = HashSet::new();
        example.labels.retain(|label| seen.insert(label.clone()));
    }
}

impl MultiLabelDataset {
    /// Returns the labels of each file, in order.
    pub fn labels_by_file(&self) -> Vec<FileLabels<'_>> {
        self.files.group_labels(self.examples.iter().map(|example| &example.labels))
    }

    /// Merges the spellings of labels: to the one in `known`, else to the most frequent one.
    pub fn merge_labels(&mut self, known: &[String]) {
        merge_spellings(&mut self.examples, known);
    }

    /// Returns the location of an example, counted from 0.
    pub fn location(&self, row: usize) -> SourceLocation {
        self.files.location(row, self.examples.get(row).map_or(0, |example| example.line))
    }

    /// Returns the distinct labels, sorted.
    pub fn labels(&self) -> Vec<String> {
        let labels: BTreeSet<&str> =
            self.examples.iter().flat_map(|example| &example.labels).map(String::as_str).collect();
        labels.into_iter().map(str::to_owned).collect()
    }

    /// Checks that a model can be trained on these examples.
    ///
    /// # Errors
    ///
    /// Too few rows, or fewer than two labels.
    pub fn check_trainable(&self) -> Result<(), DataError> {
        let (path, rows) = (self.path.clone(), self.examples.len() as u64);
        if rows < MIN_TRAINING_ROWS {
            return Err(DataError::TooFewRows { path, rows, least: MIN_TRAINING_ROWS });
        }
        match self.labels().as_slice() {
            [] | [_] => {
                let label = self.labels().pop().unwrap_or_default();
                Err(DataError::OneClass { path, label, rows, column: tr!("this", "これ") })
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
        for (row, example) in self.examples.iter().enumerate() {
            if let Some(label) = example.labels.iter().find(|label| !names.contains(label.as_str())) {
                return Err(DataError::UnknownLabel {
                    place: self.location(row),
                    label: label.clone(),
                    known: list_names(known).into(),
                    hint: did_you_mean(label, known.iter().map(AsRef::as_ref)).into(),
                });
            }
        }
        Ok(())
    }
}
