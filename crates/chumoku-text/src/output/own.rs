//! Files and folders of the program's own, which no user names.

#![allow(clippy::disallowed_methods, reason = "this module is where files are opened to be written")]

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// Creates a file that is not there yet, so that nothing is replaced.
///
/// # Errors
/// If there is a file of this name, or the folder cannot be written to.
pub fn create_new(path: &Path) -> io::Result<File> {
    File::create_new(path)
}

/// Opens a file for reading and writing with what it holds; creates it if it is not there.
///
/// # Errors
/// If it cannot be opened or created.
pub fn open_existing_or_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

/// Gives a file or folder another name, and replaces a file that has this name.
///
/// # Errors
/// If the system refuses.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// The lock of a work folder, in which it lies.
const LOCK: &str = "lock";

/// A folder for files that are needed for a while, removed when this is dropped.
///
/// It lies where the results are written, where there is room. The process holds a lock in it, so the next
/// [`WorkFolder::create`] in the same place removes the folder of a process that was killed.
#[derive(Debug)]
pub struct WorkFolder {
    path: PathBuf,
    /// Locked while it is open.
    lock: Option<File>,
}

impl WorkFolder {
    /// What the names of work folders begin with.
    pub const PREFIX: &str = ".chumoku-work-";

    /// Makes a work folder inside `parent`, and removes those that killed processes left there.
    ///
    /// # Errors
    /// If `parent` cannot be written to.
    pub fn create(parent: &Path) -> io::Result<WorkFolder> {
        WorkFolder::remove_left(parent);
        let folder = tempfile::Builder::new().prefix(WorkFolder::PREFIX).tempdir_in(parent)?;
        // It is locked before it has its name: from then on others take a folder without a holder for that of a killed process.
        let [beside, name] = ["lock.new", LOCK].map(|name| folder.path().join(name));
        let lock = create_new(&beside)?;
        // A file system without locks: then folders of killed processes stay.
        let _ = lock.try_lock();
        rename(&beside, &name)?;
        Ok(WorkFolder { path: folder.keep(), lock: Some(lock) })
    }

    /// Removes the work folders in `parent` that no process holds.
    pub fn remove_left(parent: &Path) {
        for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
            let is_folder = entry.file_type().is_ok_and(|found| found.is_dir());
            if is_folder && entry.file_name().to_string_lossy().starts_with(WorkFolder::PREFIX) {
                remove_unless_held(&entry.path());
            }
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        // Elsewhere than on Unix an open file cannot be removed.
        drop(self.lock.take());
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes a work folder whose process has ended.
fn remove_unless_held(folder: &Path) {
    let Ok(lock) = File::open(folder.join(LOCK)) else { return };
    match lock.try_lock() {
        Ok(()) => drop(fs::remove_dir_all(folder)),
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_work_folder_that_nobody_holds_is_removed_by_the_next() {
        let place = tempfile::tempdir().unwrap();
        let mine = place.path().join("mine");
        fs::create_dir(&mine).unwrap();
        let killed = place.path().join(format!("{}killed", WorkFolder::PREFIX));
        fs::create_dir_all(killed.join("checkpoints")).unwrap();
        fs::write(killed.join(LOCK), "").unwrap();
        fs::write(killed.join("checkpoints/state"), "x").unwrap();
        // Without a lock it may be one that is being made, or no work folder at all.
        let unknown = place.path().join(format!("{}unknown", WorkFolder::PREFIX));
        fs::create_dir(&unknown).unwrap();

        let first = WorkFolder::create(place.path()).unwrap();
        assert!(!killed.exists() && mine.exists() && unknown.exists());
        fs::write(first.path().join("x"), "x").unwrap();
        let second = WorkFolder::create(place.path()).unwrap();
        assert!(first.path().exists() && first.path() != second.path());
        let paths = [&first, &second].map(|folder| folder.path().to_owned());
        drop((first, second));
        assert!(paths.iter().all(|path| !path.exists()));
    }
}
