//! Data that can be read once only, kept so that it can be read again.
//!
//! A command may read its data twice, to recognise it and to load it. What comes through a pipe is gone after the first
//! time, so it is copied to a temporary file beforehand.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::error::DataError;
use super::files::DataFiles;
use super::temporary_copy::to_temporary_file;
use crate::lang::lang;

/// What standard input is called in messages.
#[must_use]
pub fn standard_input() -> &'static str {
    lang().pick("standard input", "標準入力")
}

/// Copies of the pipes that were named as data, each under its name.
///
/// The copies have no names in the file system, so nothing is left of them when the program ends, however it ends.
#[derive(Clone, Debug, Default)]
pub struct StreamCopies {
    copies: Vec<(PathBuf, Arc<Mutex<File>>)>,
}

impl StreamCopies {
    /// Reads what can be read once only to its end: standard input (`-`), pipes and devices.
    ///
    /// Gives the name by which the data is to be opened afterwards, and called in messages; that of a file is its own.
    ///
    /// # Errors
    ///
    /// If the pipe cannot be read, has no end, or there is no room for the copy.
    pub fn capture(&mut self, path: &Path) -> Result<PathBuf, DataError> {
        let is_standard_input = path.as_os_str() == "-";
        let is_pipe = || fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
        if !is_standard_input && !is_pipe() {
            if let DataFiles::Parallel { source, target } = DataFiles::from_argument(path) {
                self.capture(&source)?;
                self.capture(&target)?;
            }
            return Ok(path.to_owned());
        }
        let name = if is_standard_input { PathBuf::from(standard_input()) } else { path.to_owned() };
        if !self.contains(&name) {
            let copy = match is_standard_input {
                true => to_temporary_file(&name, io::stdin().lock())?,
                false => {
                    let pipe = File::open(path).map_err(|source| DataError::Copy { path: name.clone(), source })?;
                    to_temporary_file(&name, pipe)?
                }
            };
            self.copies.push((name.clone(), Arc::new(Mutex::new(copy))));
        }
        Ok(name)
    }

    /// Whether data of this name is kept.
    pub fn contains(&self, name: &Path) -> bool {
        self.copies.iter().any(|(kept, _)| kept == name)
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.copies.is_empty()
    }

    /// The kept data of this name from its beginning, as a stream and as the file it is in.
    pub(crate) fn open(&self, name: &Path) -> Option<io::Result<(CopyReader, File)>> {
        let (_, copy) = self.copies.iter().find(|(kept, _)| kept == name)?;
        let file = copy.lock().unwrap_or_else(PoisonError::into_inner).try_clone();
        Some(file.map(|file| (CopyReader { copy: Arc::clone(copy), at: 0 }, file)))
    }
}

impl PartialEq for StreamCopies {
    fn eq(&self, other: &Self) -> bool {
        let ours = self.copies.iter().map(|(name, copy)| (name, Arc::as_ptr(copy)));
        ours.eq(other.copies.iter().map(|(name, copy)| (name, Arc::as_ptr(copy))))
    }
}

impl Eq for StreamCopies {}

/// A reader with a place of its own in a file that others read too.
pub(crate) struct CopyReader {
    copy: Arc<Mutex<File>>,
    at: u64,
}

impl Read for CopyReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut file = self.copy.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(self.at))?;
        let n = file.read(out)?;
        self.at += n as u64;
        Ok(n)
    }
}
