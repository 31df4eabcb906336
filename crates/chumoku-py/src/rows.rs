//! Distributed prediction: one process reads the rows of a file, others answer them, with the command's results.

use crate::pool::run_long;
use chumoku_cli::{ChunkAnswerer, ChunkReader, CommandError};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::OsString;
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
    fn beside(&self, text: &str, cells: Vec<String>) -> String {
        self.with_answerer(|answerer| answerer.with_columns(text, &cells))
    }

    /// Returns the answers to texts as one JSON list: of lists of column values, or of objects.
    fn answer(&self, py: Python<'_>, texts: Vec<String>) -> PyResult<String> {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let found = run_long(py, || self.with_answerer(|answerer| answerer.answer(&texts)))?.map_err(command_error)?;
        Ok(format!("[{}]", found.join(",")))
    }

    /// Returns the command's output for a chunk of a `RowReader`.
    fn write<'py>(&self, py: Python<'py>, part: &[u8]) -> PyResult<ChunkTuple<'py>> {
        let found =
            run_long(py, || self.with_answerer(|answerer| answerer.answer_chunk(part)))?.map_err(command_error)?;
        Ok((PyBytes::new(py, &found.bytes), found.rows, found.unanswered, found.reason))
    }
}

/// Describes in a sentence how many rows are unanswered, and why the first one is.
#[pyfunction]
pub(crate) fn unanswered(n: usize, first: &str) -> String {
    chumoku_cli::unanswered(n, first)
}
