//! The files that a program reads.

use crate::data::DataFiles;
use chumoku_kernels::system::FileId;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The files and folders that this process has read. Files that a command line names to be read come beside these.
static READ_PATHS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Folders inside folders that are searched: a checkpoint of a trial in a model folder lies less deep.
const MAX_FOLDER_DEPTH: usize = 8;

/// The files that a program reads, which no output may replace.
///
/// Files are the same if the system says so, whatever their names: symbolic and hard links are seen through.
#[derive(Clone, Debug, Default)]
pub struct InputFiles {
    paths: Vec<PathBuf>,
}

impl InputFiles {
    /// No input at all.
    #[must_use]
    pub fn empty() -> InputFiles {
        InputFiles::default()
    }

    /// The files of these paths: each a file, two parallel files as `a.ja,a.en`, or a folder with every file in it.
    pub fn from_paths<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> InputFiles {
        let mut inputs = InputFiles::empty();
        paths.into_iter().for_each(|path| inputs.add(path.as_ref()));
        inputs
    }

    /// Notes a file or folder that this process reads, for [`Inputs::with_read`].
    pub fn record_read(path: &Path) {
        let mut read = READ_PATHS.lock().unwrap_or_else(PoisonError::into_inner);
        // Temporary files come and go.
        read.retain(|path| path.exists());
        // The working directory may change.
        read.insert(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    }

    /// The same inputs, and everything that this process has read.
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

    /// Tells whether writing to `output` would replace an input.
    #[must_use]
    pub fn contains(&self, output: &Path) -> bool {
        let Some(output) = file_id(output) else { return false };
        self.paths.iter().any(|path| path_contains(path, &output, MAX_FOLDER_DEPTH))
    }

    /// Returns the input that standard output is written to, as in `chumoku predict … --input a.csv >> a.csv`.
    ///
    /// A file in the folder of a model is no such input: the folder may hold the results of other commands.
    #[must_use]
    pub fn opened_as_stdout(&self) -> Option<&Path> {
        let output = standard_output()?;
        self.paths.iter().map(PathBuf::as_path).find(|path| file_id(path).as_ref() == Some(&output))
    }
}

/// Tells whether a path is the file, or a folder that holds it.
fn path_contains(path: &Path, file: &FileId, deepest: usize) -> bool {
    if path.is_dir() {
        let mut entries = fs::read_dir(path).into_iter().flatten().flatten();
        return deepest > 0 && entries.any(|entry| path_contains(&entry.path(), file, deepest - 1));
    }
    file_id(path).as_ref() == Some(file)
}

/// The file that a path leads to. None where there is none, and for devices and pipes, which writing does not replace.
fn file_id(path: &Path) -> Option<FileId> {
    if !fs::metadata(path).is_ok_and(|found| found.is_file()) {
        return None;
    }
    FileId::from_path(path).ok()
}

/// The file that a shell has opened as standard output. None for terminals, devices and pipes.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_folders_and_pairs_are_known_by_every_name() {
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
            // As the folders of a download cache are: the model's file is a link.
            symlink("../blob", at("model/model.safetensors")).unwrap();
            // Links that lead back end the search nowhere.
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
