//! The input files of a program.

use crate::data::DataFiles;
use chumoku_kernels::system::FileId;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The files and folders that this process has read. Inputs on the command line are added to these.
static READ_PATHS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The depth of subfolders that are searched. The deepest case is a checkpoint of a trial in a model folder.
const MAX_FOLDER_DEPTH: usize = 8;

/// The files that a program reads, which no output may replace.
///
/// Files are compared by their identity in the system, so symbolic and hard links count as the same file.
#[derive(Clone, Debug, Default)]
pub struct InputFiles {
    paths: Vec<PathBuf>,
}

impl InputFiles {
    /// Creates an empty list.
    #[must_use]
    pub fn empty() -> InputFiles {
        InputFiles::default()
    }

    /// Creates a list from paths. Each is a file, two parallel files such as `a.ja,a.en`, or a folder with all its
    /// files.
    pub fn from_paths<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> InputFiles {
        let mut inputs = InputFiles::empty();
        paths.into_iter().for_each(|path| inputs.add(path.as_ref()));
        inputs
    }

    /// Records a file or folder that this process reads, for [`InputFiles::with_recorded`].
    pub fn record_read(path: &Path) {
        let mut read = READ_PATHS.lock().unwrap_or_else(PoisonError::into_inner);
        // Temporary files may be gone by now.
        read.retain(|path| path.exists());
        // The working directory may change.
        read.insert(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    }

    /// Adds everything that this process has read.
    #[must_use]
    pub fn with_recorded(mut self) -> InputFiles {
        self.paths.extend(READ_PATHS.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned());
        self
    }

    /// Adds the files of a path.
    pub fn add(&mut self, path: &Path) {
        match DataFiles::from_argument(path) {
            DataFiles::One(path) => self.paths.push(path),
            DataFiles::Parallel { source, target } => self.paths.extend([source, target]),
        }
    }

    /// Returns whether writing to `output` would replace an input.
    #[must_use]
    pub fn contains(&self, output: &Path) -> bool {
        let Some(output) = file_id(output) else { return false };
        self.paths.iter().any(|path| path_contains(path, &output, MAX_FOLDER_DEPTH))
    }

    /// Returns the input that is also standard output, as in `chumoku predict … --input a.csv >> a.csv`.
    ///
    /// Files in a model folder do not count: the folder may hold results of other commands.
    #[must_use]
    pub fn opened_as_stdout(&self) -> Option<&Path> {
        let output = standard_output()?;
        self.paths.iter().map(PathBuf::as_path).find(|path| file_id(path).as_ref() == Some(&output))
    }
}

/// Returns whether a path is the file, or a folder that contains it.
fn path_contains(path: &Path, file: &FileId, deepest: usize) -> bool {
    if path.is_dir() {
        let mut entries = fs::read_dir(path).into_iter().flatten().flatten();
        return deepest > 0 && entries.any(|entry| path_contains(&entry.path(), file, deepest - 1));
    }
    file_id(path).as_ref() == Some(file)
}

/// Returns the identity of the file at a path. `None` if there is no file, and for devices and pipes, which writing
/// does not replace.
fn file_id(path: &Path) -> Option<FileId> {
    if !fs::metadata(path).is_ok_and(|found| found.is_file()) {
        return None;
    }
    FileId::from_path(path).ok()
}

/// Returns the identity of the file behind standard output. `None` for terminals, devices and pipes.
#[cfg(any(unix, windows))]
fn standard_output() -> Option<FileId> {
    #[cfg(unix)]
    use std::os::fd::AsFd;
    #[cfg(unix)]
    let output = std::io::stdout().as_fd().try_clone_to_owned().ok()?;
    #[cfg(windows)]
    use std::os::windows::io::AsHandle;
    #[cfg(windows)]
    let output = std::io::stdout().as_handle().try_clone_to_owned().ok()?;
    let output = fs::File::from(output);
    if !output.metadata().is_ok_and(|found| found.is_file()) {
        return None;
    }
    FileId::from_file(&output).ok()
}

/// Other systems have no identity for it.
#[cfg(not(any(unix, windows)))]
fn standard_output() -> Option<FileId> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_folders_and_pairs_are_recognized_by_every_name() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("model/checkpoints/step-1")).unwrap();
        for name in
            ["table.csv", "a.ja", "a.en", "other", "model/config.json", "model/checkpoints/step-1/state", "blob"]
        {
            fs::write(at(name), "x").unwrap();
        }
        fs::hard_link(at("table.csv"), at("hard")).unwrap();
        fs::hard_link(at("model/config.json"), at("outside.json")).unwrap();
        let mut expected = vec!["table.csv", "hard", "a.ja", "a.en", "model/config.json", "outside.json"];
        expected.extend(["model/../table.csv", "model/checkpoints/step-1/state"]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::symlink;
            symlink("table.csv", at("soft")).unwrap();
            // As in a download cache: the model's file is a link.
            symlink("../blob", at("model/model.safetensors")).unwrap();
            // Cyclic and dangling links do not stop the search.
            symlink(".", at("model/again")).unwrap();
            symlink("nowhere", at("dangling")).unwrap();
            expected.extend(["soft", "blob"]);
        }
        let pair = format!("{},{}", at("a.ja").display(), at("a.en").display());
        let inputs = InputFiles::from_paths([at("table.csv"), at("model"), pair.into(), at("missing")]);
        for name in expected {
            assert!(inputs.contains(&at(name)), "{name}");
        }
        for name in ["other", "missing", "new", "model/new", "model", "dangling"] {
            assert!(!inputs.contains(&at(name)), "{name}");
        }
        assert!(!inputs.contains(Path::new("/dev/null")) && !InputFiles::empty().contains(&at("table.csv")));
        InputFiles::record_read(&at("other"));
        assert!(
            InputFiles::empty().with_recorded().contains(&at("other"))
                && !InputFiles::empty().with_recorded().contains(&at("table.csv"))
        );
    }
}
