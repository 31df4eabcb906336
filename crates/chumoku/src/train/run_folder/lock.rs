//! One run at a time in a folder.

use crate::model_folder::{EntryType, LOCK, entry_names};
use crate::model_folder::{has_checkpoints, is_model_folder};
use crate::output::{open_existing_or_new, remove_file};
use crate::{Error, Result, tr};
use chumoku_kernels::system::FileId;
use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// An exclusive lock on a folder: the operating system's lock on a file in it. It ends with the process that holds it,
/// even if that process is killed.
#[derive(Debug)]
pub(super) struct RunLock {
    folder: PathBuf,
    /// Locked while it is open.
    _file: File,
}

impl RunLock {
    /// Locks a folder.
    ///
    /// # Errors
    /// If another run holds it, or its file cannot be written.
    pub(super) fn take(folder: &Path) -> Result<RunLock> {
        let path = folder.join(LOCK);
        loop {
            if !matches!(EntryType::at(&path), EntryType::Missing | EntryType::File) {
                let problem = tr!(
                    "expected a lock file, found something else; remove it",
                    "ロックファイルではないものがあります。取り除いてください"
                );
                return Err(Error::Output { path, problem });
            }
            let mut file = open_existing_or_new(&path).map_err(Error::write("creating", &path))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(locked_error(folder, &path)),
                // A file system without locks cannot exclude other runs, but training is still possible.
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {}
                Err(TryLockError::Error(error)) => return Err(Error::write("locking", &path)(error)),
            }
            // The previous holder may have removed the file between opening and locking.
            if is_same_file(&file, &path) {
                // For the error message of a second run.
                let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
                return Ok(RunLock { folder: folder.to_owned(), _file: file });
            }
        }
    }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        // The lock file marks a folder without checkpoints as a run's folder, so it stays beside other files of the
        // run. If nothing else is there, any run may take the folder. The file is removed while it is still locked, so
        // never under the next run.
        let is_alone = || entry_names(&self.folder) == [LOCK];
        if is_model_folder(&self.folder) || has_checkpoints(&self.folder) || is_alone() {
            let _ = remove_file(&self.folder.join(LOCK));
        }
    }
}

/// Returns the error for a folder that is in use. Windows cannot read a locked file, so the message names no process
/// there.
fn locked_error(folder: &Path, lock: &Path) -> Error {
    let holder = fs::read_to_string(lock).unwrap_or_default();
    let problem = match holder.trim().parse::<u32>() {
        Ok(process) => tr!(
            "another run is writing to it (process {process}); wait for it or stop it, or choose another --out",
            "別の学習（プロセス {process}）が書き込んでいます。終わるのを待つか止めるか、別の --out を選んでください"
        ),
        Err(_) => tr!(
            "another run is writing to it; wait for it or stop it, or choose another --out",
            "別の学習が書き込んでいます。終わるのを待つか止めるか、別の --out を選んでください"
        ),
    };
    Error::Output { path: folder.to_owned(), problem }
}

/// Returns `true` if `path` still names the open file. File systems without file ids count as `true`: otherwise no lock
/// would be possible.
fn is_same_file(file: &File, path: &Path) -> bool {
    let Ok(id) = FileId::from_file(file) else { return true };
    match FileId::from_path(path) {
        Ok(there) => there == id,
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_run_holds_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let lock = RunLock::take(folder.path()).unwrap();
        let error = RunLock::take(folder.path()).unwrap_err().to_string();
        let names_process = error.contains(&format!("(process {})", std::process::id()));
        assert!(error.contains("another run"), "{error}");
        // Wine lets a process read a file that it has locked.
        assert!(names_process || cfg!(windows), "{error}");
        drop(lock);
        assert!(entry_names(folder.path()).is_empty(), "a run without files leaves no lock file");
        // A leftover file of a killed run is not a lock.
        fs::write(folder.path().join(LOCK), "1\n").unwrap();
        fs::write(folder.path().join("log.jsonl"), "").unwrap();
        drop(RunLock::take(folder.path()).unwrap());
        assert!(folder.path().join(LOCK).exists(), "marks the log as a run's");
        fs::create_dir_all(folder.path().join("checkpoints/step-0000000001")).unwrap();
        drop(RunLock::take(folder.path()).unwrap());
        assert!(!folder.path().join(LOCK).exists(), "a run with checkpoints leaves no lock file");
    }

    #[test]
    fn removing_the_lock_file_lets_no_second_run_in() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("checkpoints/step-0000000001")).unwrap();
        let inside = std::sync::atomic::AtomicUsize::new(0);
        let held = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let Ok(lock) = RunLock::take(folder.path()) else { continue };
                        use std::sync::atomic::Ordering::SeqCst;
                        assert_eq!(inside.fetch_add(1, SeqCst), 0, "two runs in one folder");
                        held.fetch_add(1, SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, SeqCst);
                        drop(lock);
                    }
                });
            }
        });
        assert!(held.into_inner() > 10);
    }
}
