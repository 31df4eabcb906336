//! Copies of streams that can be read only once.
//!
//! A command may read its data twice: to detect its format and to load it. A pipe is consumed by the first pass, so it
//! is copied to a temporary file beforehand.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::error::DataError;
use super::files::DataFiles;
use super::temporary_copy::to_temporary_file;
use crate::lang::lang;

/// The name of standard input in messages.
#[must_use]
pub fn standard_input() -> &'static str {
    lang().pick("standard input", "標準入力")
}

/// Copies of the pipes that were named as data, each under its name.
///
/// The copies have no names in the file system, so they disappear when the program ends, even after a crash.
#[derive(Clone, Debug, Default)]
pub struct StreamCopies {
    copies: Vec<(PathBuf, Arc<Mutex<File>>)>,
}

impl StreamCopies {
    /// Copies a stream that can be read only once: standard input (`-`), a pipe or a device.
    ///
    /// Returns the name under which to open the data and mention it in messages. For a regular file, this is its path.
    ///
    /// # Errors
    ///
    /// If the pipe cannot be read, has no end, or does not fit on the disk.
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

    /// Returns whether there is a copy under this name.
    pub fn contains(&self, name: &Path) -> bool {
        self.copies.iter().any(|(kept, _)| kept == name)
    }

    /// Returns whether there are no copies.
    pub fn is_empty(&self) -> bool {
        self.copies.is_empty()
    }

    /// Opens the copy of this name at its start, as a stream and as the underlying file.
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

/// A reader with its own position in a shared file.
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
