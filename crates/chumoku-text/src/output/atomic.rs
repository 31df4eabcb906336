//! Files that appear whole or not at all.

#![allow(clippy::disallowed_methods, reason = "this module is where files are opened to be written")]

#[cfg(unix)]
use std::fs;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::{InputFiles, rename};
use crate::data::DataError;

/// A file in the making: written beside its destination under a temporary name, flushed to disk and renamed by
/// [`AtomicOutput::commit`]. Dropped without that, or killed, it leaves what was there before.
///
/// A file keeps its permissions, and a link goes on pointing to it. A device or a pipe is written to as it is: there is
/// nothing to replace. On Windows a file that is read-only is not replaced, and one that another program has open may not be.
pub struct AtomicOutput {
    /// As the user named it.
    path: PathBuf,
    /// The file that it leads to.
    destination: PathBuf,
    file: OutputTarget,
}

/// What is written to.
enum OutputTarget {
    /// A file that takes the place of the other when it is whole.
    Temporary(BufWriter<NamedTempFile>),
    /// A device or a pipe.
    Stream(BufWriter<File>),
}

impl AtomicOutput {
    /// Begins a file that is to replace `path`, in a program that reads `inputs`.
    ///
    /// # Errors
    ///
    /// If `path` is one of `inputs` or a folder, or its folder cannot be written to.
    pub fn create(path: &Path, inputs: &InputFiles) -> Result<Self, DataError> {
        if path.is_dir() {
            return Err(write_error(path, io::ErrorKind::IsADirectory.into()));
        }
        if inputs.contains(path) {
            return Err(DataError::OverwritesInput { path: path.to_owned() });
        }
        let there = std::fs::metadata(path).ok();
        if there.as_ref().is_some_and(|there| !there.is_file()) {
            let file = File::options().write(true).open(path).map_err(|source| write_error(path, source))?;
            let [path, place] = [path.to_owned(), PathBuf::new()];
            return Ok(AtomicOutput { path, destination: place, file: OutputTarget::Stream(BufWriter::new(file)) });
        }
        if cfg!(windows) && there.as_ref().is_some_and(|there| there.permissions().readonly()) {
            return Err(write_error(path, io::ErrorKind::PermissionDenied.into()));
        }
        // Replaces the file that a link leads to, not the link.
        let is_link = path.symlink_metadata().is_ok_and(|there| there.is_symlink());
        let place = if is_link { path.canonicalize().ok() } else { None }.unwrap_or_else(|| path.to_owned());
        let folder = folder_of(&place);
        let mut builder = tempfile::Builder::new();
        builder.prefix(".chumoku-").suffix(".tmp");
        // An ordinary file, as the umask has it: temporary files of the crate are private, and marked as such on Windows.
        let file =
            builder.make_in(folder, |path| File::create_new(path)).map_err(|source| write_error(path, source))?;
        if let Some(there) = there {
            // Not every file system knows permissions; the content counts more.
            let _ = file.as_file().set_permissions(there.permissions());
        }
        Ok(AtomicOutput {
            path: path.to_owned(),
            destination: place,
            file: OutputTarget::Temporary(BufWriter::new(file)),
        })
    }

    /// Checks that [`AtomicOutput::create`] would open the file, and leaves everything as it was.
    ///
    /// # Errors
    ///
    /// As [`AtomicOutput::create`]. A device or a pipe is not opened, because its reader would see it end.
    pub fn check(path: &Path, inputs: &InputFiles) -> Result<(), DataError> {
        let is_stream = std::fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir());
        if is_stream { Ok(()) } else { AtomicOutput::create(path, inputs).map(drop) }
    }

    /// Writes a whole file, in a program that reads `inputs`.
    ///
    /// # Errors
    ///
    /// As [`AtomicOutput::create`] and [`AtomicOutput::commit`].
    pub fn write_file(path: &Path, inputs: &InputFiles, bytes: &[u8]) -> Result<(), DataError> {
        AtomicOutput::create(path, inputs)?.commit_with(bytes)
    }

    /// Writes this to the file, and puts it in its place.
    ///
    /// # Errors
    ///
    /// As [`AtomicOutput::commit`].
    pub fn commit_with(mut self, bytes: &[u8]) -> Result<(), DataError> {
        self.write_all(bytes).map_err(|source| write_error(&self.path, source))?;
        self.commit()
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    ///
    /// If it cannot be written out or renamed; what was there before is then still there.
    pub fn commit(self) -> Result<(), DataError> {
        let AtomicOutput { path, destination: place, file } = self;
        let finish = || -> io::Result<()> {
            let file = match file {
                OutputTarget::Temporary(file) => file,
                OutputTarget::Stream(mut file) => return file.flush(),
            };
            let (file, mut temporary) = file.into_inner().map_err(io::IntoInnerError::into_error)?.into_parts();
            file.sync_all()?;
            // Elsewhere than on Unix a file that is open gets no other name.
            drop(file);
            rename(&temporary, &place)?;
            temporary.disable_cleanup(true);
            // The new name is on disk only when the folder is.
            #[cfg(unix)]
            fs::File::open(folder_of(&place))?.sync_all()?;
            Ok(())
        };
        finish().map_err(|source| write_error(&path, source))
    }
}

/// Checks that files can be written into a folder, which need not be there yet, and leaves everything as it was.
///
/// # Errors
///
/// If it is a file, or neither it nor the folder in which it would be made can be written to.
pub fn check_folder_writable(path: &Path) -> Result<(), DataError> {
    let mut parents = path.ancestors().filter(|parent| !parent.as_os_str().is_empty());
    let there = parents.find(|parent| parent.exists()).unwrap_or(Path::new("."));
    tempfile::tempfile_in(there).map(drop).map_err(|source| DataError::Output {
        path: path.to_owned(),
        doing: "creating the folder",
        source: without_path(source),
    })
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn write_error(path: &Path, source: io::Error) -> DataError {
    DataError::Output { path: path.to_owned(), doing: "writing the file", source: without_path(source) }
}

/// The error without the name of the file that `tempfile` adds, which says nothing to a user.
fn without_path(source: io::Error) -> io::Error {
    let said = source.to_string();
    match said.split_once(" at path ") {
        Some((cause, _)) => io::Error::new(source.kind(), cause),
        None => source,
    }
}

impl Write for AtomicOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.file {
            OutputTarget::Temporary(file) => file.write(bytes),
            OutputTarget::Stream(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.file {
            OutputTarget::Temporary(file) => file.flush(),
            OutputTarget::Stream(file) => file.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.csv");
        std::fs::write(&path, "before").unwrap();
        let create = || AtomicOutput::create(&path, &InputFiles::empty()).unwrap();
        let mut output = create();
        output.write_all(b"after").unwrap();
        drop(output);
        AtomicOutput::check(&path, &InputFiles::empty()).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"before");
        let mut output = create();
        output.write_all(b"after").unwrap();
        output.commit().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"after");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(AtomicOutput::create(&folder.path().join("no/such/folder.csv"), &InputFiles::empty()).is_err());
    }

    #[test]
    fn a_file_that_only_may_be_read_keeps_its_permissions_or_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.csv");
        std::fs::write(&path, "before").unwrap();
        let set = |is_read_only: bool| {
            let mut permissions = std::fs::metadata(&path).unwrap().permissions();
            permissions.set_readonly(is_read_only);
            std::fs::set_permissions(&path, permissions).unwrap();
        };
        set(true);
        let written = AtomicOutput::write_file(&path, &InputFiles::empty(), b"after");
        // On Unix the folder decides what may be replaced, on Windows the file.
        assert_eq!(written.is_err(), cfg!(windows), "{written:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), if cfg!(windows) { "before" } else { "after" });
        assert!(std::fs::metadata(&path).unwrap().permissions().readonly());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        set(false);
    }

    #[test]
    fn errors_name_the_file_as_the_user_did() {
        let folder = tempfile::tempdir().unwrap();
        // A part that no system takes for a folder.
        std::fs::write(folder.path().join("file"), "x").unwrap();
        let path = folder.path().join("file").join("out.csv");
        let error = AtomicOutput::create(&path, &InputFiles::empty()).err().unwrap().to_string();
        assert!(error.starts_with(&path.display().to_string()), "{error}");
    }

    #[test]
    fn paths_longer_than_old_limits_are_written_to() {
        let folder = tempfile::tempdir().unwrap();
        // Windows takes no more than 260 letters unless a program asks for more.
        let deep = (0..6).fold(folder.path().to_owned(), |path, n| path.join(format!("{n}").repeat(60)));
        std::fs::create_dir_all(&deep).unwrap();
        let path = deep.join("表.csv");
        for content in ["one", "two"] {
            AtomicOutput::write_file(&path, &InputFiles::empty(), content.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
        assert!(
            InputFiles::from_paths([&path]).contains(&path) && InputFiles::from_paths([folder.path()]).contains(&path)
        );
    }

    #[test]
    fn an_input_is_not_replaced_and_a_folder_must_be_writable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.csv");
        std::fs::write(&path, "mine").unwrap();
        let inputs = InputFiles::from_paths([&path]);
        for refused in [AtomicOutput::check(&path, &inputs), AtomicOutput::write_file(&path, &inputs, b"x")] {
            assert!(matches!(refused, Err(DataError::OverwritesInput { .. })), "{refused:?}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
        let below = |name: &str| check_folder_writable(&folder.path().join(name));
        assert!(below("").is_ok() && below("new/and/deeper").is_ok());
        assert!(below("table.csv").is_err() && below("table.csv/x").is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
