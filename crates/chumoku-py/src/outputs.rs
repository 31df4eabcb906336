//! Files that Python writes. They use the same module as the command and never replace a file that this process has
//! read.

use crate::messages::to_py_err;
use chumoku::data::DataError;
use chumoku::output::{AtomicOutput, InputFiles};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::io::Write;
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// A file or folder that a call reads. Later writes of the process never replace it.
#[derive(Clone, Debug)]
pub(crate) struct ReadPath(PathBuf);

impl ReadPath {
    pub(crate) fn new(path: PathBuf) -> ReadPath {
        InputFiles::record_read(&path);
        ReadPath(path)
    }
}

impl Deref for ReadPath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for ReadPath {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(ReadPath::new(object.extract::<PathBuf>()?))
    }
}

/// Converts a system error to Python's own exception (`FileNotFoundError`, …) and any other error to a `ValueError`.
fn data_error(failed: DataError) -> PyErr {
    match failed.system_error() {
        Some(system) => std::io::Error::new(system.kind(), failed.to_string()).into(),
        None => to_py_err(&failed.into()),
    }
}

/// Returns `true` if a path refers to one of these files, or to a file in one of these folders.
#[pyfunction]
pub(crate) fn is_one_of(path: PathBuf, paths: Vec<PathBuf>) -> bool {
    InputFiles::from_paths(paths).contains(&path)
}

/// Writes a file atomically. It replaces no file that was read, unless the file belongs to a model's folder (`own`).
#[pyfunction]
pub(crate) fn write_file(path: PathBuf, content: &[u8], own: bool) -> PyResult<()> {
    let inputs = match own {
        true => InputFiles::empty(),
        false => InputFiles::empty().with_recorded(),
    };
    AtomicOutput::write_file(&path, &inputs, content).map_err(data_error)
}

/// An output file that appears in full on commit, or not at all. It never replaces an input.
#[pyclass(module = "chumoku._chumoku")]
pub(crate) struct Output(Option<AtomicOutput>);

impl Output {
    fn open_file(&mut self) -> PyResult<&mut AtomicOutput> {
        self.0.as_mut().ok_or_else(|| PyValueError::new_err("the file is closed"))
    }
}

#[pymethods]
impl Output {
    #[new]
    fn new(path: PathBuf, read: Vec<PathBuf>) -> PyResult<Self> {
        AtomicOutput::create(&path, &InputFiles::from_paths(read)).map(|file| Output(Some(file))).map_err(data_error)
    }

    /// Appends bytes.
    fn write(&mut self, content: &[u8]) -> PyResult<()> {
        Ok(self.open_file()?.write_all(content)?)
    }

    /// Moves the finished file to its path.
    fn commit(&mut self) -> PyResult<()> {
        self.open_file()?;
        self.0.take().map_or(Ok(()), AtomicOutput::commit).map_err(data_error)
    }

    /// Discards the file unless it was committed.
    fn close(&mut self) {
        self.0 = None;
    }
}
