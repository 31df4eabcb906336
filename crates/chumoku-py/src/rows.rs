//! Predictions of rows, with the command's results: of texts from Python, and of files that one process reads and others
//! answer.

use crate::pool::run_long;
use crate::row::{Row, RowArgument};
use chumoku::answers::{
    AnswerFormat, LabelThreshold, ModelInputs, PredictOptions, RowPredictor as Rows, ThresholdOptions, load_predictor,
    load_tagger, required_columns, span_format, span_values,
};
use chumoku::lang::{lang, sanitize};
use chumoku::row::{RowRef, as_rows};
use chumoku::{Error, ModelKind, Precision, TextTagger, read_model_folder, tr};
use chumoku_cli::{ChunkAnswerer, ChunkReader, CommandError};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Maps retryable and permanent failures to different exceptions.
fn command_error(failed: CommandError) -> PyErr {
    match failed.is_usage {
        true => PyValueError::new_err(failed.message),
        false => PyRuntimeError::new_err(failed.message),
    }
}

/// Reads the rows of `predict MODEL FILE` chunk by chunk.
#[pyclass(frozen, module = "chumoku._chumoku")]
pub(crate) struct RowReader(Mutex<ChunkReader>);

impl RowReader {
    fn with_reader<R>(&self, work: impl FnOnce(&mut ChunkReader) -> R) -> R {
        // A panic poisons the lock only while a row is read; that row is not read again.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl RowReader {
    /// Opens the file of a command line. `args` starts with the name of the command.
    #[staticmethod]
    fn open(py: Python<'_>, args: Vec<OsString>) -> PyResult<Self> {
        let reader = run_long(py, || ChunkReader::open(args))?.map_err(command_error)?;
        Ok(RowReader(Mutex::new(reader)))
    }

    /// Describes how the file is read, and why.
    #[getter]
    fn description(&self) -> String {
        self.with_reader(|reader| reader.description().to_owned())
    }

    /// The language of messages: "en" or "ja".
    #[getter]
    fn lang(&self) -> &'static str {
        chumoku::lang::lang().pick("en", "ja")
    }

    /// Describes the skipped rows in a sentence; None if no row was skipped.
    fn skipped(&self) -> Option<String> {
        self.with_reader(|reader| reader.skipped())
    }

    /// Returns the next chunk, of at most `most` rows; None at the end.
    fn part<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let part = py.detach(|| self.with_reader(|reader| reader.next_chunk(most))).map_err(command_error)?;
        Ok(part.map(|part| PyBytes::new(py, &part)))
    }
}

/// Answers rows as `predict` and `explain` do.
#[pyclass(frozen, module = "chumoku._chumoku")]
pub(crate) struct RowAnswerer(Mutex<ChunkAnswerer>);

/// The written bytes, the number of rows, how many are unanswered, and the reason for the first of them.
type ChunkTuple<'py> = (Bound<'py, PyBytes>, usize, usize, Option<String>);

impl RowAnswerer {
    fn with_answerer<R>(&self, work: impl FnOnce(&mut ChunkAnswerer) -> R) -> R {
        // The answerer holds no state that a panic could corrupt.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl RowAnswerer {
    /// Reads the model of a command line. `args` starts with the name of the command. With `each_label`, a multi-label
    /// answer is an object with the probability of each label.
    #[staticmethod]
    fn load(py: Python<'_>, args: Vec<OsString>, each_label: bool) -> PyResult<Self> {
        let answerer = run_long(py, || ChunkAnswerer::load(args, each_label))?.map_err(command_error)?;
        Ok(RowAnswerer(Mutex::new(answerer)))
    }

    /// Returns `true` if the model reads pairs of texts.
    #[getter]
    fn reads_pairs(&self) -> bool {
        self.with_answerer(|answerer| answerer.reads_pairs())
    }

    /// The feature columns that the model reads.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.with_answerer(|answerer| answerer.feature_columns())
    }

    /// The names of the answer columns; None if an answer is an object.
    #[getter]
    fn names(&self) -> Option<Vec<String>> {
        self.with_answerer(|answerer| answerer.column_names().map(<[String]>::to_vec))
    }

    /// Joins a text with the values of its feature columns.
    fn beside(&self, text: RowArgument, cells: Vec<String>) -> Row {
        Row(self.with_answerer(|answerer| answerer.with_columns(text, &cells)))
    }

    /// Returns the answers to texts as one JSON list: of lists of column values, or of objects.
    fn answer(&self, py: Python<'_>, texts: Vec<RowArgument>) -> PyResult<String> {
        let found = run_long(py, || self.with_answerer(|answerer| answerer.answer(&as_rows(&texts))))?
            .map_err(command_error)?;
        Ok(format!("[{}]", found.join(",")))
    }

    /// Returns the command's output for a chunk of a `RowReader`.
    fn write<'py>(&self, py: Python<'py>, part: &[u8]) -> PyResult<ChunkTuple<'py>> {
        let found =
            run_long(py, || self.with_answerer(|answerer| answerer.answer_chunk(part)))?.map_err(command_error)?;
        Ok((PyBytes::new(py, &found.bytes), found.rows, found.unanswered, found.reason))
    }
}

/// A model that predicts rows.
enum RowModel {
    Predictor(Rows<'static>),
    Tagger(&'static TextTagger),
}

/// Predicts texts as `chumoku predict` does.
#[pyclass(frozen, module = "chumoku._chumoku")]
pub(crate) struct RowPredictor {
    model: RowModel,
    inputs: ModelInputs,
    format: AnswerFormat,
}

/// Thresholds from Python: labels, or None for all labels, with values.
type Thresholds = Vec<(Option<String>, f64)>;

/// Reports a model's thresholds on standard error, as the command does.
fn report(topic: [&str; 2], text: &str) {
    eprintln!("{:<9} {}", lang().pick(topic[0], topic[1]), sanitize(text));
}

impl RowPredictor {
    fn new(folder: &Path, mut options: PredictOptions) -> chumoku::Result<RowPredictor> {
        if ModelKind::from_folder(folder)? == ModelKind::Tagger {
            required_columns(&[], &options.feature_values)?;
            let model = RowModel::Tagger(load_tagger(folder, &options)?);
            return Ok(RowPredictor { model, inputs: ModelInputs::default(), format: span_format(false) });
        }
        let mut report_threshold = |text: &str| report(["threshold", "しきい値"], text);
        let model = read_model_folder(folder, || load_predictor(folder, &options, &mut report_threshold))?;
        // The columns of the command have no probabilities of labels.
        options.as_objects = model.is_multi_label();
        let rows = Rows::new(model, &options)?;
        if let Some(thresholds) = rows.thresholds() {
            report(["answers", "回答"], thresholds.describe());
        }
        Ok(RowPredictor { inputs: rows.inputs().clone(), format: rows.format(), model: RowModel::Predictor(rows) })
    }

    fn values(&self, rows: &[RowRef<'_>]) -> chumoku::Result<Vec<Vec<Value>>> {
        match &self.model {
            RowModel::Predictor(model) => model.values(rows),
            RowModel::Tagger(model) => {
                let texts: Vec<&str> = rows.iter().map(|row| row.text()).collect();
                let found = model.predict(&texts)?;
                Ok(texts.iter().zip(&found).map(|(text, spans)| span_values(text, spans, false)).collect())
            }
        }
    }
}

/// Converts options from Python, and refuses values that no model supports.
fn predict_options(
    top: Option<i64>,
    abstain: Option<f64>,
    thresholds: ThresholdOptions,
    precision: Option<&str>,
) -> Result<PredictOptions, String> {
    let top = top.map(|n| usize::try_from(n).ok().filter(|&n| n > 0).ok_or(n)).transpose();
    let top = top.map_err(|n| {
        tr!("top: expected a whole number from 1, found {n}", "top: 1 以上の整数が必要ですが、{n} です")
    })?;
    let all = [("threshold", &thresholds.thresholds), ("precision_at_least", &thresholds.precisions)];
    let shares = all.into_iter().flat_map(|(name, all)| all.iter().map(move |given| (name, given.value)));
    for (name, x) in abstain.map(|x| ("abstain", x)).into_iter().chain(shares) {
        if !(x > 0.0 && x < 1.0) {
            return Err(tr!(
                "{name}: expected a number between 0 and 1, such as 0.95, found {x}",
                "{name}: 0 と 1 の間の数（0.95 など）が必要ですが、{x} です"
            ));
        }
    }
    let others = [("top", top.is_some()), all_given("threshold", all[0].1), all_given("precision_at_least", all[1].1)];
    if let (Some(_), Some((name, _))) = (abstain, others.into_iter().find(|(_, is_given)| *is_given)) {
        return Err(tr!("the argument 'abstain' cannot be used with '{name}'", "abstain は {name} と同時に使えません"));
    }
    let precision = precision.map(|name| {
        Precision::from_name(name).ok_or_else(|| {
            tr!(
                "precision: expected one of highest, high, medium, got {name}",
                "precision: highest、high、medium のいずれかが必要ですが、{name} です"
            )
        })
    });
    let mut options = PredictOptions::default();
    (options.top, options.abstain) = (top, abstain);
    (options.thresholds, options.precision) = (thresholds, precision.transpose()?);
    Ok(options)
}

fn all_given(name: &'static str, thresholds: &[LabelThreshold]) -> (&'static str, bool) {
    (name, !thresholds.is_empty())
}

/// Keeps the flags in messages: the caller knows which of its arguments they are.
fn library_error(error: &Error) -> PyErr {
    match error.is_usage() {
        true => PyValueError::new_err(error.to_string()),
        false => PyRuntimeError::new_err(error.to_string()),
    }
}

#[pymethods]
impl RowPredictor {
    /// Reads a model folder. `set` has values of feature columns for all texts.
    #[staticmethod]
    #[pyo3(signature = (folder, *, top, abstain, threshold, precision_at_least, set, precision))]
    #[allow(clippy::too_many_arguments)]
    fn load(
        py: Python<'_>,
        folder: PathBuf,
        top: Option<i64>,
        abstain: Option<f64>,
        threshold: Thresholds,
        precision_at_least: Thresholds,
        set: Vec<(String, String)>,
        precision: Option<&str>,
    ) -> PyResult<Self> {
        let all = |given: Thresholds| given.into_iter().map(|(label, value)| LabelThreshold { label, value }).collect();
        let thresholds = ThresholdOptions { thresholds: all(threshold), precisions: all(precision_at_least) };
        let mut options = predict_options(top, abstain, thresholds, precision).map_err(PyValueError::new_err)?;
        options.feature_values = set;
        run_long(py, || RowPredictor::new(&folder, options))?.map_err(|error| library_error(&error))
    }

    /// Returns `true` if the model reads pairs of texts.
    #[getter]
    fn reads_pairs(&self) -> bool {
        self.inputs.pairs
    }

    /// The feature columns that rows must have.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.inputs.column_names()
    }

    /// The names of the answer columns; None if an answer is an object.
    #[getter]
    fn names(&self) -> Option<Vec<String>> {
        match &self.format {
            AnswerFormat::Columns(names) => Some(names.clone()),
            AnswerFormat::Objects(_) => None,
        }
    }

    /// Joins a text with the values of its feature columns.
    fn beside(&self, text: RowArgument, cells: Vec<String>) -> Row {
        Row(self.inputs.with_columns(text, &cells))
    }

    /// Returns the answers to texts as one JSON list: of lists of column values, or of objects.
    fn answer(&self, py: Python<'_>, texts: Vec<RowArgument>) -> PyResult<String> {
        let found = run_long(py, || self.values(&as_rows(&texts)))?.map_err(|error| library_error(&error))?;
        let is_columns = matches!(self.format, AnswerFormat::Columns(_));
        let answer = |mut values: Vec<Value>| if is_columns { values.into() } else { values.pop().unwrap_or_default() };
        Ok(found.into_iter().map(answer).collect::<Value>().to_string())
    }
}

/// Describes in a sentence how many rows are unanswered, and why the first one is.
#[pyfunction]
pub(crate) fn unanswered(n: usize, first: &str) -> String {
    chumoku_cli::unanswered(n, first)
}
