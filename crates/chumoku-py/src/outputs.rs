//! Files that Python writes: opened by the same module as the command's, and never over what this process has read.

use crate::wording::error;
use chumoku::data::DataError;
use chumoku::output::{AtomicOutput, InputFiles};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::io::Write;
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// A file or folder that a call reads. No file that is written afterwards replaces it.
#[derive(Clone, Debug)]
pub(crate) struct ReadPath(PathBuf);

impl ReadPath {
    pub(crate) fn of(path: PathBuf) -> ReadPath {
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
        Ok(ReadPath::of(object.extract::<PathBuf>()?))
    }
}

/// Turns an error of the system into Python's own (`FileNotFoundError`, …), and any other into a `ValueError`.
fn raised(failed: DataError) -> PyErr {
    match failed.system_error() {
        Some(system) => std::io::Error::new(system.kind(), failed.to_string()).into(),
        None => error(&failed.into()),
    }
}

/// Tells whether a path leads to a file of these paths, or of a folder among them.
#[pyfunction]
pub(crate) fn is_one_of(path: PathBuf, paths: Vec<PathBuf>) -> bool {
    InputFiles::from_paths(paths).contains(&path)
}

/// Writes a file, whole or not at all. It replaces no file that was read, unless it is of a model's folder (`own`).
#[pyfunction]
pub(crate) fn write_file(path: PathBuf, content: &[u8], own: bool) -> PyResult<()> {
    let inputs = match own {
        true => InputFiles::empty(),
        false => InputFiles::empty().with_recorded(),
    };
    AtomicOutput::write_file(&path, &inputs, content).map_err(raised)
}

/// A file that appears whole when it is committed, or not at all. It replaces none of what is read.
#[pyclass(module = "chumoku._chumoku")]
pub(crate) struct Output(Option<AtomicOutput>);

impl Output {
    fn file(&mut self) -> PyResult<&mut AtomicOutput> {
        self.0.as_mut().ok_or_else(|| PyValueError::new_err("the file is closed"))
    }
}

#[pymethods]
impl Output {
    #[new]
    fn new(path: PathBuf, read: Vec<PathBuf>) -> PyResult<Self> {
        AtomicOutput::create(&path, &InputFiles::from_paths(read)).map(|file| Output(Some(file))).map_err(raised)
    }

    /// Writes to it.
    fn write(&mut self, content: &[u8]) -> PyResult<()> {
        Ok(self.file()?.write_all(content)?)
    }

    /// Puts it in its place.
    fn commit(&mut self) -> PyResult<()> {
        self.file()?;
        self.0.take().map_or(Ok(()), AtomicOutput::commit).map_err(raised)
    }

    /// Gives it up, unless it is in its place.
    fn close(&mut self) {
        self.0 = None;
    }
}
