//! The log of a run.

use crate::model_folder::EntryType;
use crate::output::open_existing_or_new;
use crate::{Error, Result, tr};
use serde_json::Value;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// `log.jsonl`: one line for each evaluation and for every 50th step.
pub(super) struct RunLog {
    path: PathBuf,
    file: File,
    /// The bytes written so far.
    pub(super) bytes: u64,
}

impl RunLog {
    /// Opens the log and truncates it to the `bytes` written before the resumed checkpoint.
    pub(super) fn open(path: &Path, bytes: u64) -> Result<RunLog> {
        if !matches!(EntryType::at(path), EntryType::Missing | EntryType::File) {
            let problem = tr!(
                "expected the log file of the run, found something else; move it away",
                "学習のログがあるべきところに、ファイルではないものがあります。別の場所に移してください"
            );
            return Err(Error::Output { path: path.to_owned(), problem });
        }
        let file = open_existing_or_new(path).map_err(Error::write("opening", path))?;
        let length = file.metadata().map_err(Error::io("reading", path))?.len();
        let bytes = bytes.min(length);
        file.set_len(bytes).map_err(Error::write("shortening", path))?;
        let mut log = RunLog { path: path.to_owned(), file, bytes };
        std::io::Seek::seek(&mut log.file, std::io::SeekFrom::End(0)).map_err(Error::write("writing", path))?;
        Ok(log)
    }

    pub(super) fn write(&mut self, line: Value) -> Result<()> {
        let line = format!("{line}\n");
        self.file.write_all(line.as_bytes()).map_err(Error::write("writing", &self.path))?;
        self.bytes += line.len() as u64;
        Ok(())
    }
}
