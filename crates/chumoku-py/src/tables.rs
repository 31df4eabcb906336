//! Reads files of labeled texts as the command does: with the same detection of format, columns and task.

use crate::messages::{READING, to_reading_error, with_parameter_names};
use crate::outputs::ReadPath;
use crate::pool;
use chumoku::Error;
use chumoku::data::{
    DataFiles, Format, LabelOptions, ReadOptions, TrainingTask, describe_variants, detect_task, label_variants,
    load_labeled, load_multi_label, load_scores, merge_labels,
};
use chumoku::row::{AsRow, Row};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::path::Path;

/// Parameters of reading; `None` means that the value is detected from the file.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct ReadParams {
    text: Option<String>,
    label: Option<String>,
    header: Option<bool>,
    encoding: Option<String>,
    delimiter: Option<char>,
    sheet: Option<String>,
    missing: Option<Vec<String>>,
    separator: Option<char>,
    task: Option<String>,
    merge_labels: bool,
    skip_bad_rows: bool,
}

/// The labels of the rows.
enum TableLabels {
    Classes(Vec<String>),
    LabelSets(Vec<Vec<String>>),
    Numbers(Vec<f64>),
}

/// The texts of a file with their labels, and a description of how it was read.
struct LabeledTable {
    task: &'static str,
    texts: Vec<Row>,
    labels: TableLabels,
    description: String,
}

impl ReadParams {
    fn options(&self) -> ReadOptions {
        let mut options = ReadOptions::default();
        options.text.clone_from(&self.text);
        options.label.clone_from(&self.label);
        options.encoding.clone_from(&self.encoding);
        options.sheet.clone_from(&self.sheet);
        options.missing.clone_from(&self.missing);
        options.header = self.header;
        options.merge_labels = self.merge_labels.then(Vec::new);
        options.skip_bad_rows = self.skip_bad_rows;
        options.require_text = true;
        options.format = self.delimiter.map(|delimiter| match delimiter {
            '\t' => Format::Tsv,
            delimiter => Format::Csv { delimiter },
        });
        options
    }

    fn read(&self, file: &Path) -> Result<LabeledTable, Error> {
        let options = self.options();
        let task = match self.task.as_deref() {
            Some("classify") => TrainingTask::Classify,
            Some("labels") => TrainingTask::Labels,
            Some("score") => TrainingTask::Score,
            _ if self.separator.is_some() => TrainingTask::Labels,
            _ => detect_task(&DataFiles::One(file.to_owned()), &options)?.task,
        };
        Ok(match task {
            TrainingTask::Labels => {
                let how = LabelOptions { separator: self.separator, ..LabelOptions::default() };
                let sets = load_multi_label(file, &options, &how)?;
                let (texts, labels) = sets.examples.into_iter().map(|example| (example.text, example.labels)).unzip();
                LabeledTable {
                    task: "labels",
                    texts,
                    labels: TableLabels::LabelSets(labels),
                    description: sets.description,
                }
            }
            TrainingTask::Score => {
                let scores = load_scores(file, &options)?;
                let (texts, numbers) = scores.examples.into_iter().map(|example| (example.text, example.score)).unzip();
                LabeledTable {
                    task: "score",
                    texts,
                    labels: TableLabels::Numbers(numbers),
                    description: scores.description,
                }
            }
            // Files for other tasks have no labels; this reports the missing column.
            _ => {
                let rows = load_labeled(file, &options)?;
                let (texts, labels) = rows.examples.into_iter().map(|example| (example.text, example.label)).unzip();
                LabeledTable {
                    task: "classify",
                    texts,
                    labels: TableLabels::Classes(labels),
                    description: rows.description,
                }
            }
        })
    }
}

/// Reads a file as `chumoku train` does. Returns its task, its texts (or pairs), its labels, and how it was read.
#[pyfunction]
pub(crate) fn read_table<'py>(
    py: Python<'py>,
    file: ReadPath,
    reading: &Bound<'py, PyAny>,
) -> PyResult<(&'static str, Bound<'py, PyList>, Bound<'py, PyAny>, String)> {
    let reading: ReadParams = reading.extract()?;
    if let Some(task) = reading.task.as_deref().filter(|task| !["classify", "labels", "score"].contains(task)) {
        return Err(PyValueError::new_err(format!("task: expected classify, labels or score, got {task:?}")));
    }
    let table = pool::run_long(py, || reading.read(&file))?.map_err(|failed| to_reading_error(&failed))?;
    let texts = PyList::empty(py);
    for text in &table.texts {
        match text.as_row().pair() {
            Some(both) => texts.append(both)?,
            None => texts.append(text.as_row().text())?,
        }
    }
    let labels = match table.labels {
        TableLabels::Classes(labels) => labels.into_pyobject(py)?.into_any(),
        TableLabels::LabelSets(labels) => labels.into_pyobject(py)?.into_any(),
        TableLabels::Numbers(numbers) => numbers.into_pyobject(py)?.into_any(),
    };
    Ok((table.task, texts, labels, READING.rename(&table.description)))
}

/// Normalizes labels as if they came from a file: trims white space and returns `None` for each missing label.
#[pyfunction]
pub(crate) fn read_labels(labels: Vec<String>, missing: Option<Vec<String>>) -> Vec<Option<String>> {
    chumoku::data::read_labels(&labels, missing.as_deref())
}

/// Replaces each label by the first of `known` that it is a spelling variant of.
#[pyfunction]
pub(crate) fn merged_labels(mut labels: Vec<String>, known: Vec<String>) -> Vec<String> {
    merge_labels(&mut labels, &known);
    labels
}

/// Returns a note about labels with several spellings; None if there are none.
#[pyfunction]
pub(crate) fn label_note(labels: Vec<String>) -> Option<String> {
    describe_variants(&label_variants(labels.iter().map(String::as_str))).map(|note| with_parameter_names(&note))
}
