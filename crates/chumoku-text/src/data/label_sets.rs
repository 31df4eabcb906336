//! Texts with any number of labels each: how files write them, and how that is recognised.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use super::dataset::{MAX_CLASSES, MIN_TRAINING_ROWS};
use super::error::{DataError, Place, Role};
use super::format::{Format, ReadOptions};
use super::label_variants::merge_labels;
use super::look::columns::{Chooser, FeatureSource};
use super::look::label::Candidate;
use super::look::label_form::{Form, LabelOptions, flag, list, lists, separated};
use super::look::missing::Missing;
use super::look::reasons::as_asked;
use super::record::{Layout, Record, Skipped};
use super::row_files::RowFiles;
use super::source::{Source, next_best};
use crate::beside::Asked;
use crate::lang::lang;
use crate::lang::wording::{did_you_mean, joined, listed, quoted};
use crate::tr;

/// A text and its labels: none, one or several, each once, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelledText {
    /// The text, as the file has it.
    pub text: String,
    /// Its labels.
    pub labels: Vec<String>,
    /// The line on which it begins, or its row in Parquet.
    pub line: u64,
}

/// The texts of one file with their labels.
#[derive(Debug, Clone)]
pub struct LabelSets {
    /// The file, as the user named it.
    pub path: PathBuf,
    /// In the order of the file.
    pub examples: Vec<LabelledText>,
    /// The rows that were left out.
    pub skipped: Skipped,
    /// What the file was taken for and why, in one line.
    pub description: String,
    /// The columns beside the text, as they were asked for.
    pub beside: Vec<Asked>,
    /// How much each row counts in training; all alike if absent.
    pub weights: Option<Vec<f32>>,
    /// The files of the rows.
    pub(crate) files: RowFiles,
}

/// Reads a file of texts with any number of labels each.
///
/// # Errors
///
/// Whatever is wrong with the file; if nothing in it looks like several labels and nobody says how they are written.
pub fn load_label_sets(path: &Path, options: &ReadOptions, how: &LabelOptions) -> Result<LabelSets, DataError> {
    let source = open(path, options)?;
    let Some(Found { form, why, next }) = find(&source, options, how, true)? else {
        let columns =
            joined(&(0..source.layout().columns.len()).map(|c| source.layout().column_title(c)).collect::<Vec<_>>());
        return Err(DataError::NoLabelSets { path: path.to_owned(), columns });
    };
    let layout = source.layout().clone();
    let description = describe(&source, &form, &why) + &next_best(&next);
    let (beside, missing) = (source.asked_beside(), source.missing());
    let files = RowFiles::one(&layout.path, source.place(0).is_row);
    let mut records = source.records();
    let (mut examples, mut known) = (Vec::new(), HashSet::new());
    while let Some(record) = records.next() {
        let record = record?;
        let place = records.source().place(record.line);
        let labels = match labels_of(&form, &layout, &record, (place, &missing)) {
            Ok(labels) => labels,
            Err(error) => {
                records.leave_out(error)?;
                continue;
            }
        };
        for label in &labels {
            if known.insert(label.clone()) && known.len() > MAX_CLASSES {
                let place = records.source().place(record.line);
                return Err(DataError::TooManyClasses { place, limit: MAX_CLASSES, column: title(&layout, &form) });
            }
        }
        let text = records.source().text_of(&record).into_owned();
        examples.push(LabelledText { text, labels, line: record.line });
    }
    let skipped = records.skipped().clone();
    if let Some(known) = records.source().merges() {
        merge(&mut examples, known);
    }
    let path = path.to_owned();
    if examples.is_empty() {
        return Err(DataError::NoUsableRows { path, skipped: skipped.to_string() });
    }
    Ok(LabelSets { path, examples, skipped, description, beside, weights: None, files })
}

/// Why a file looks as if its texts had several labels each; nothing if it does not.
///
/// # Errors
///
/// Whatever keeps the file from being read.
pub fn looks_like_label_sets(path: &Path, options: &ReadOptions) -> Result<Option<String>, DataError> {
    // What is wrong with columns is told by whoever reads it as something else.
    let Ok(source) = open(path, options) else { return Ok(None) };
    if source.layout().format == Format::PlainText {
        return Ok(None);
    }
    Ok(find(&source, options, &LabelOptions::default(), false)?.map(|found| found.why))
}

fn open(path: &Path, options: &ReadOptions) -> Result<Source, DataError> {
    let options =
        ReadOptions { require_label: false, require_text: true, several_labels: true, pairs: true, ..options.clone() };
    Source::open(path, &options)
}

fn title(layout: &Layout, form: &Form) -> String {
    match form {
        Form::FastText => lang().pick("the labels in front of the texts", "テキストの前のラベル").into(),
        Form::Class(column) | Form::Number(column) | Form::Separated(column, _) | Form::List(column) => {
            layout.column_title(*column)
        }
        Form::Columns(columns) => {
            joined(&columns.iter().map(|&column| layout.column_title(column)).collect::<Vec<_>>())
        }
    }
}

fn describe(source: &Source, form: &Form, why: &str) -> String {
    let layout = source.layout();
    let labels = title(layout, form);
    let title = |column: usize| layout.column_title(column);
    let columns = source.columns();
    let text = [Some(columns.text), columns.second].into_iter().flatten().map(title).collect::<Vec<_>>();
    let text = joined(&text);
    let about = source.describe_table();
    match form {
        Form::FastText => {
            tr!("{about}; labels in front of each text ({why})", "{about}。各テキストの前にラベル（{why}）")
        }
        _ => tr!(
            "{about}; text = {text}, labels = {labels} ({why})",
            "{about}。テキスト = {text}、ラベル = {labels}（{why}）"
        ),
    }
}

/// How the labels are written, why it looks so, and the readings that come next.
struct Found {
    form: Form,
    why: String,
    next: Vec<String>,
}

/// Finds how the labels are written. `is_certain` if every text may have several labels whatever the rows look like.
fn find(
    source: &Source,
    options: &ReadOptions,
    how: &LabelOptions,
    is_certain: bool,
) -> Result<Option<Found>, DataError> {
    let layout = source.layout();
    let rows: Vec<&Record> = source.sample().iter().collect();
    let found = |form: Form, why: String| Ok(Some(Found { form, why, next: Vec::new() }));
    if layout.format == Format::FastText {
        let several = rows.iter().filter(|row| row.field(0).contains(' ')).count();
        if several == 0 && how.separator.is_none() {
            return Ok(None);
        }
        let (n, of) = (several, rows.len());
        return found(
            Form::FastText,
            tr!("{n} of the first {of} lines have several", "先頭 {of} 行のうち {n} 行に複数"),
        );
    }
    let chooser = Chooser::new(layout, &rows, options);
    let filled = chooser.with_remembered(options);
    let options = filled.as_ref().unwrap_or(options);
    if !how.columns.is_empty() {
        let columns = how.columns.iter().map(|name| chooser.asked(Role::Label, name)).collect::<Result<Vec<_>, _>>()?;
        return found(Form::Columns(columns), as_asked().to_owned());
    }
    let beside = source.columns().beside.iter().map(FeatureSource::column);
    let texts = [Some(source.columns().text), source.columns().second].into_iter().chain(beside);
    let texts: Vec<usize> = texts.flatten().collect();
    let asked = options.label.as_deref().map(|wanted| chooser.asked(Role::Label, wanted)).transpose()?;
    let asked = asked.or(source.columns().label);
    if let Some(separator) = how.separator {
        // The column that is named, or whose name says so, or that looks like one of labels.
        let readings = chooser.view(asked).readings(&texts);
        let column = readings.iter().find_map(|(_, reading)| reading.form.column());
        if let Some(column) = column {
            return found(Form::Separated(column, separator), as_asked().to_owned());
        }
    }
    if is_certain {
        let readings = chooser.view(asked).readings(&texts);
        let several = readings.into_iter().map(|(_, reading)| reading).find_map(|reading| match reading.form {
            // Where several may stand, lists of one are lists.
            Form::Class(column) if lists(layout, &rows, column, true).is_some() => {
                Some(Candidate { form: Form::List(column), ..reading })
            }
            _ => reading.form.is_several().then_some(reading),
        });
        return Ok(several.map(|Candidate { form, why }| Found { form, why, next: Vec::new() }));
    }
    let reading = chooser.label_reading(&texts, asked)?;
    let several = reading.filter(|(reading, _)| reading.form.is_several());
    Ok(several.map(|(Candidate { form, why }, next)| Found { form, why, next: next.into_iter().collect() }))
}

/// The labels of a row.
fn labels_of(
    form: &Form,
    layout: &Layout,
    record: &Record,
    (place, missing): (Place, &Missing),
) -> Result<Vec<String>, DataError> {
    let wrong =
        |expected: &'static str, found: String| Err(DataError::BadLabels { place: place.clone(), expected, found });
    let found: Vec<String> = match form {
        Form::Class(column) | Form::Number(column) => vec![record.field(*column).trim().to_owned()],
        Form::FastText => record.field(0).split(' ').map(str::to_owned).filter(|label| !label.is_empty()).collect(),
        Form::Separated(column, separator) => {
            let field = record.field(*column);
            if missing.is_none(field) {
                return Ok(Vec::new());
            }
            let parts: Vec<String> = separated(field, *separator).into_iter().map(str::to_owned).collect();
            if parts.iter().any(String::is_empty) {
                let expected = lang().pick("names with the separator between them", "区切り文字で区切られたラベル");
                return wrong(expected, quoted(field));
            }
            parts
        }
        Form::List(column) => {
            let field = record.field(*column);
            match list(layout, record, *column) {
                Some(labels) => labels,
                None if missing.is_none(field) => Vec::new(),
                None => {
                    return wrong(
                        lang().pick("a list of texts or of whole numbers", "文字列だけか整数だけのリスト"),
                        quoted(field),
                    );
                }
            }
        }
        Form::Columns(columns) => {
            let mut labels = Vec::new();
            for &column in columns {
                let field = record.field(column);
                match flag(field) {
                    Some(true) => labels.push(layout.columns[column].trim().to_owned()),
                    Some(false) => {}
                    None => {
                        let name = layout.column_title(column);
                        let found = tr!("{} in {name}", "{name}の {}", quoted(field));
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
    if matches!(form, Form::FastText) && found.is_empty() {
        let found = lang().pick("no __label__ on the line", "__label__ のない行").to_owned();
        return Err(DataError::EmptyLabel { place, found: found.into() });
    }
    let mut seen = HashSet::new();
    Ok(found.into_iter().filter(|label| seen.insert(label.clone())).collect())
}

/// Merges spellings, so that no text has a label twice.
fn merge(examples: &mut [LabelledText], known: &[String]) {
    merge_labels(examples.iter_mut().flat_map(|example| &mut example.labels), known);
    for example in examples {
        let mut seen = HashSet::new();
        example.labels.retain(|label| seen.insert(label.clone()));
    }
}

impl LabelSets {
    /// Writes labels in several spellings as `known` has them, else in their most frequent spelling.
    pub fn merge_labels(&mut self, known: &[String]) {
        merge(&mut self.examples, known);
    }

    /// The place of an example, counted from 0.
    pub fn place(&self, row: usize) -> Place {
        self.files.place(row, self.examples.get(row).map_or(0, |example| example.line))
    }

    /// The distinct labels, sorted.
    pub fn labels(&self) -> Vec<String> {
        let labels: BTreeSet<&str> =
            self.examples.iter().flat_map(|example| &example.labels).map(String::as_str).collect();
        labels.into_iter().map(str::to_owned).collect()
    }

    /// Checks that there is something to train on.
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

    /// Checks that every label is among `known`, those of the training data.
    ///
    /// # Errors
    ///
    /// The first label that is not, with its line.
    pub fn check_known_labels<S: AsRef<str>>(&self, known: &[S]) -> Result<(), DataError> {
        let names: HashSet<&str> = known.iter().map(AsRef::as_ref).collect();
        for (row, example) in self.examples.iter().enumerate() {
            if let Some(label) = example.labels.iter().find(|label| !names.contains(label.as_str())) {
                return Err(DataError::UnknownLabel {
                    place: self.place(row),
                    label: label.clone(),
                    known: listed(known).into(),
                    hint: did_you_mean(label, known.iter().map(AsRef::as_ref)).into(),
                });
            }
        }
        Ok(())
    }
}
