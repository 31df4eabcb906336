//! Rows of files that are read in one process and answered in others, as the command reads and answers them.

use crate::pool::run_long;
use chumoku_cli::{ChunkAnswerer, ChunkReader, CommandError};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::OsString;
use std::sync::{Mutex, PoisonError};

/// What was being done may be done again, or cannot be done at all.
fn raised(failed: CommandError) -> PyErr {
    match failed.is_usage {
        true => PyValueError::new_err(failed.message),
        false => PyRuntimeError::new_err(failed.message),
    }
}

/// The rows of `predict MODEL FILE`, part by part.
#[pyclass(frozen, module = "chumoku._chumoku")]
pub(crate) struct RowReader(Mutex<ChunkReader>);

impl RowReader {
    fn with<R>(&self, work: impl FnOnce(&mut ChunkReader) -> R) -> R {
        // Whoever panicked while it was held read a row, which is then read no more.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl RowReader {
    /// Opens the file of a command line, the command's own name first.
    #[staticmethod]
    fn open(py: Python<'_>, args: Vec<OsString>) -> PyResult<Self> {
        let reader = run_long(py, || ChunkReader::open(args))?.map_err(raised)?;
        Ok(RowReader(Mutex::new(reader)))
    }

    /// How the file is read, and why.
    #[getter]
    fn description(&self) -> String {
        self.with(|reader| reader.description().to_owned())
    }

    /// The language of what it says: "en" or "ja".
    #[getter]
    fn lang(&self) -> &'static str {
        chumoku::lang::lang().pick("en", "ja")
    }

    /// The rows that were left out, in a sentence; None if there are none.
    fn skipped(&self) -> Option<String> {
        self.with(|reader| reader.skipped())
    }

    /// The next part, of at most so many rows; None at the end.
    fn part<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let part = py.detach(|| self.with(|reader| reader.next_chunk(most))).map_err(raised)?;
        Ok(part.map(|part| PyBytes::new(py, &part)))
    }
}

/// What answers rows as `predict` and `explain` do.
#[pyclass(frozen, module = "chumoku._chumoku")]
pub(crate) struct RowAnswerer(Mutex<ChunkAnswerer>);

/// Bytes, rows, how many of them have no answer, and why the first has none.
type Written<'py> = (Bound<'py, PyBytes>, usize, usize, Option<String>);

impl RowAnswerer {
    fn with<R>(&self, work: impl FnOnce(&mut ChunkAnswerer) -> R) -> R {
        // Nothing of it changes while it answers.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl RowAnswerer {
    /// Reads the model of a command line, the command's own name first. If `each_label` is set, several labels are answered by an
    /// object, in which each has its probability.
    #[staticmethod]
    fn load(py: Python<'_>, args: Vec<OsString>, each_label: bool) -> PyResult<Self> {
        let answerer = run_long(py, || ChunkAnswerer::load(args, each_label))?.map_err(raised)?;
        Ok(RowAnswerer(Mutex::new(answerer)))
    }

    /// Whether it reads pairs of texts.
    #[getter]
    fn reads_pairs(&self) -> bool {
        self.with(|answerer| answerer.reads_pairs())
    }

    /// The columns beside the text that it reads.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.with(|answerer| answerer.feature_columns())
    }

    /// The names of the columns that answers have; None where an answer is an object.
    #[getter]
    fn names(&self) -> Option<Vec<String>> {
        self.with(|answerer| answerer.column_names().map(<[String]>::to_vec))
    }

    /// A text with the values of the columns beside it.
    fn beside(&self, text: &str, cells: Vec<String>) -> String {
        self.with(|answerer| answerer.with_columns(text, &cells))
    }

    /// The answers to texts as one list in JSON: of lists of the columns' values, or of objects.
    fn answer(&self, py: Python<'_>, texts: Vec<String>) -> PyResult<String> {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let found = run_long(py, || self.with(|answerer| answerer.answer(&texts)))?.map_err(raised)?;
        Ok(format!("[{}]", found.join(",")))
    }

    /// What the command writes for a part that a reader gave.
    fn write<'py>(&self, py: Python<'py>, part: &[u8]) -> PyResult<Written<'py>> {
        let found = run_long(py, || self.with(|answerer| answerer.answer_chunk(part)))?.map_err(raised)?;
        Ok((PyBytes::new(py, &found.bytes), found.rows, found.unanswered, found.reason))
    }
}

/// How many rows have no answer, and why the first has none, in a sentence.
#[pyfunction]
pub(crate) fn unanswered(n: usize, first: &str) -> String {
    chumoku_cli::unanswered(n, first)
}
