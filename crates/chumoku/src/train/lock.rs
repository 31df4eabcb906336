//! One run at a time in a folder.

use crate::model_folder::{EntryType, LOCK, entry_names};
use crate::model_folder::{has_checkpoints, is_model_folder};
use crate::output::{open_existing_or_new, remove_file};
use crate::{Error, Result, tr};
use chumoku_kernels::system::FileId;
use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The right to write to a folder. It is the system's lock on a file in it, so it ends with the process that holds it,
/// however that ends.
#[derive(Debug)]
pub(super) struct RunLock {
    folder: PathBuf,
    /// Locked while it is open.
    _file: File,
}

impl RunLock {
    /// Takes the lock of a folder.
    ///
    /// # Errors
    /// If another run holds it, or its file cannot be written.
    pub(super) fn take(folder: &Path) -> Result<RunLock> {
        let path = folder.join(LOCK);
        loop {
            if !matches!(EntryType::at(&path), EntryType::Missing | EntryType::File) {
                let problem = tr!(
                    "expected the file that a run locks, found something else; remove it",
                    "学習の実行がロックするファイルではないものがあります。取り除いてください"
                );
                return Err(Error::Output { path, problem });
            }
            let mut file = open_existing_or_new(&path).map_err(Error::write("creating", &path))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(locked_error(folder, &path)),
                // A file system without locks: nobody can be kept out, and training is not impossible for that.
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {}
                Err(TryLockError::Error(error)) => return Err(Error::write("locking", &path)(error)),
            }
            // Whoever held it may have removed it between our opening and our locking it.
            if is_same_file(&file, &path) {
                // For the message of whoever comes second.
                let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
                return Ok(RunLock { folder: folder.to_owned(), _file: file });
            }
        }
    }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        // Beside what else a run leaves before its first checkpoint, it is what says that the folder is a run's; an empty
        // folder anybody may take. Removed before it is unlocked, so never under the feet of the next run.
        let is_alone = || entry_names(&self.folder) == [LOCK];
        if is_model_folder(&self.folder) || has_checkpoints(&self.folder) || is_alone() {
            let _ = remove_file(&self.folder.join(LOCK));
        }
    }
}

/// The error of the second run. Windows lets no process read a locked file, so there the message names no holder.
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

/// Whether the file is the one of this name. True where the file system tells no identity: else no lock would do.
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
    fn there_is_one_holder_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let lock = RunLock::take(folder.path()).unwrap();
        let error = RunLock::take(folder.path()).unwrap_err().to_string();
        let names_process = error.contains(&format!("(process {})", std::process::id()));
        assert!(error.contains("another run"), "{error}");
        // Wine lets a process read what it has locked itself.
        assert!(names_process || cfg!(windows), "{error}");
        drop(lock);
        assert!(entry_names(folder.path()).is_empty(), "a run that leaves nothing leaves no lock");
        // What a run that was killed leaves is no lock.
        fs::write(folder.path().join(LOCK), "1\n").unwrap();
        fs::write(folder.path().join("log.jsonl"), "").unwrap();
        drop(RunLock::take(folder.path()).unwrap());
        assert!(folder.path().join(LOCK).exists(), "what says whose the log is");
        fs::create_dir_all(folder.path().join("checkpoints/step-0000000001")).unwrap();
        drop(RunLock::take(folder.path()).unwrap());
        assert!(!folder.path().join(LOCK).exists(), "a run that is known by its checkpoints leaves no lock");
    }

    #[test]
    fn holders_never_meet_though_each_removes_the_file() {
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
