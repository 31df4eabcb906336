//! Output files that appear complete or not at all.

#![allow(clippy::disallowed_methods, reason = "this module is where files are opened to be written")]

#[cfg(unix)]
use std::fs;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::{InputFiles, rename};
use crate::data::DataError;

/// An output file that replaces its destination in one step. It is written under a temporary name in the same folder,
/// flushed to disk and renamed by [`AtomicOutput::commit`]. If it is dropped before that, or the process is killed, the
/// old file stays.
///
/// The new file keeps the permissions of the old one, and symbolic links keep pointing to it. A device or a pipe is
/// written to directly, because there is nothing to replace. On Windows, read-only files are not replaced, and files
/// that another program has open may not be.
pub struct AtomicOutput {
    /// The path, as the user gave it.
    path: PathBuf,
    /// The file to replace, with symbolic links resolved.
    destination: PathBuf,
    target: OutputTarget,
}

/// The file or stream that receives the bytes.
enum OutputTarget {
    /// A temporary file that replaces the destination on commit.
    Temporary(BufWriter<NamedTempFile>),
    /// A device or a pipe, written to directly.
    Stream(BufWriter<File>),
}

impl AtomicOutput {
    /// Starts a file that will replace `path`, in a program that reads `inputs`.
    ///
    /// # Errors
    ///
    /// If `path` is a folder or one of `inputs`, or if its folder is not writable.
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
            return Ok(AtomicOutput { path, destination: place, target: OutputTarget::Stream(BufWriter::new(file)) });
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
        // Creates an ordinary file that follows the umask. The temporary files of `tempfile` are private and marked as
        // such on Windows.
        let file =
            builder.make_in(folder, |path| File::create_new(path)).map_err(|source| write_error(path, source))?;
        if let Some(there) = there {
            // Some file systems have no permissions. The content matters more.
            let _ = file.as_file().set_permissions(there.permissions());
        }
        Ok(AtomicOutput {
            path: path.to_owned(),
            destination: place,
            target: OutputTarget::Temporary(BufWriter::new(file)),
        })
    }

    /// Checks that [`AtomicOutput::create`] would succeed, without changing anything.
    ///
    /// # Errors
    ///
    /// As [`AtomicOutput::create`]. A device or a pipe is not opened, because its reader would see the stream end.
    pub fn check(path: &Path, inputs: &InputFiles) -> Result<(), DataError> {
        let is_stream = std::fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir());
        if is_stream { Ok(()) } else { AtomicOutput::create(path, inputs).map(drop) }
    }

    /// Writes a complete file, in a program that reads `inputs`.
    ///
    /// # Errors
    ///
    /// As [`AtomicOutput::create`] and [`AtomicOutput::commit`].
    pub fn write_file(path: &Path, inputs: &InputFiles, bytes: &[u8]) -> Result<(), DataError> {
        AtomicOutput::create(path, inputs)?.commit_with(bytes)
    }

    /// Writes the bytes and commits the file.
    ///
    /// # Errors
    ///
    /// As [`AtomicOutput::commit`].
    pub fn commit_with(mut self, bytes: &[u8]) -> Result<(), DataError> {
        self.write_all(bytes).map_err(|source| write_error(&self.path, source))?;
        self.commit()
    }

    /// Moves the file to its destination.
    ///
    /// # Errors
    ///
    /// If it cannot be written or renamed. The old file stays in that case.
    pub fn commit(self) -> Result<(), DataError> {
        let AtomicOutput { path, destination: place, target: file } = self;
        let finish = || -> io::Result<()> {
            let file = match file {
                OutputTarget::Temporary(file) => file,
                OutputTarget::Stream(mut file) => return file.flush(),
            };
            let (file, mut temporary) = file.into_inner().map_err(io::IntoInnerError::into_error)?.into_parts();
            file.sync_all()?;
            // Outside Unix, an open file cannot be renamed.
            drop(file);
            rename(&temporary, &place)?;
            temporary.disable_cleanup(true);
            // The rename is durable only once the folder is synced.
            #[cfg(unix)]
            fs::File::open(folder_of(&place))?.sync_all()?;
            Ok(())
        };
        finish().map_err(|source| write_error(&path, source))
    }
}

/// Checks that files can be written into a folder, without changing anything. The folder need not exist yet.
///
/// # Errors
///
/// If the path is a file, or if neither the folder nor its nearest existing parent is writable.
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

/// Removes the path that `tempfile` adds to an error: users do not know the temporary file.
fn without_path(source: io::Error) -> io::Error {
    let message = source.to_string();
    match message.split_once(" at path ") {
        Some((cause, _)) => io::Error::new(source.kind(), cause),
        None => source,
    }
}

impl Write for AtomicOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.target {
            OutputTarget::Temporary(file) => file.write(bytes),
            OutputTarget::Stream(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.target {
            OutputTarget::Temporary(file) => file.flush(),
            OutputTarget::Stream(file) => file.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_appears_complete_or_not_at_all() {
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
    fn a_read_only_file_keeps_its_permissions_or_its_content() {
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
        // On Unix the folder's permissions decide about replacing, on Windows the file's.
        assert_eq!(written.is_err(), cfg!(windows), "{written:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), if cfg!(windows) { "before" } else { "after" });
        assert!(std::fs::metadata(&path).unwrap().permissions().readonly());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        set(false);
    }

    #[test]
    fn errors_name_the_file_as_the_user_gave_it() {
        let folder = tempfile::tempdir().unwrap();
        // A file cannot be a parent folder on any system.
        std::fs::write(folder.path().join("file"), "x").unwrap();
        let path = folder.path().join("file").join("out.csv");
        let error = AtomicOutput::create(&path, &InputFiles::empty()).err().unwrap().to_string();
        assert!(error.starts_with(&path.display().to_string()), "{error}");
    }

    #[test]
    fn long_paths_are_written() {
        let folder = tempfile::tempdir().unwrap();
        // Windows limits paths to 260 characters unless a program opts out.
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
    fn inputs_are_not_replaced_and_folders_must_be_writable() {
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
