//! Paths and names of checkpoints.

use super::entry_type::EntryType;
use crate::{Error, Result, failpoint, output};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The folder of checkpoints in a model folder.
pub const CHECKPOINTS: &str = "checkpoints";
/// The file of a checkpoint that describes it, written last.
pub const MANIFEST: &str = "manifest.json";
/// The file of a checkpoint with weights and moments of the optimizer.
pub const STATE: &str = "state.safetensors";

/// The files of a checkpoint folder.
pub(crate) const CHECKPOINT_FILES: [&str; 2] = [MANIFEST, STATE];

/// Returns `true` if the name is that of a checkpoint folder.
pub(crate) fn is_checkpoint_name(name: &str) -> bool {
    name.strip_prefix("step-")
        .is_some_and(|number| number.len() >= 10 && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Removes a checkpoint, if it exists. Other files in its folder stay and cause an error.
pub fn remove_checkpoint(path: &Path) -> Result<()> {
    for name in CHECKPOINT_FILES {
        let file = path.join(name);
        if EntryType::at(&file) == EntryType::File {
            failpoint::hit("remove");
            output::remove_file(&file).map_err(Error::write("removing", &file))?;
        }
    }
    match output::remove_folder(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::write("removing", path)(error)),
        _ => Ok(()),
    }
}

/// Returns the checkpoints in a folder, newest first.
pub fn checkpoints(folder: &Path) -> Vec<PathBuf> {
    if EntryType::at(folder) != EntryType::Folder {
        return Vec::new();
    }
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_str().is_some_and(is_checkpoint_name)))
        // Skip links, which could lead anywhere.
        .filter(|path| EntryType::at(path) == EntryType::Folder)
        .collect();
    // Numbers have a fixed width, so names sort like numbers.
    found.sort();
    found.reverse();
    found
}

/// Returns `true` if a folder holds any checkpoint, valid or not.
pub fn has_checkpoint(folder: &Path) -> bool {
    !checkpoints(folder).is_empty()
}

/// Returns `true` if the folder belongs to an unfinished run.
pub fn has_checkpoints(folder: &Path) -> bool {
    has_checkpoint(&folder.join(CHECKPOINTS))
}
