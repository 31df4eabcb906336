//! Files and folders that the program creates for itself.

#![allow(clippy::disallowed_methods, reason = "this module is where files are opened to be written")]

use crate::tr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Creates a new file. It never replaces an existing one.
///
/// # Errors
/// If a file of this name exists, or the folder is not writable.
pub fn create_new(path: &Path) -> io::Result<File> {
    File::create_new(path)
}

/// Opens a file for reading and writing and keeps its content. Creates it if it does not exist.
///
/// # Errors
/// If it cannot be opened or created.
pub fn open_existing_or_new(path: &Path) -> io::Result<File> {
    retry_while_in_use(|| OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path))
}

/// Renames a file or folder, replacing a file of the new name.
///
/// # Errors
/// If the system refuses.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    retry_while_in_use(|| fs::rename(from, to))
}

/// Removes a file.
///
/// # Errors
/// If the system refuses.
pub fn remove_file(path: &Path) -> io::Result<()> {
    retry_while_in_use(|| fs::remove_file(path))
}

/// Removes an empty folder.
///
/// # Errors
/// If the system refuses.
pub fn remove_folder(path: &Path) -> io::Result<()> {
    retry_while_in_use(|| fs::remove_dir(path))
}

/// Returns whether the system may have refused because another program has the file open.
///
/// Windows neither replaces nor removes open files. Virus scanners and indexers open files for a moment.
fn is_in_use(error: &io::Error) -> bool {
    const ACCESS_DENIED: i32 = 5;
    const SHARING_VIOLATION: i32 = 32;
    const LOCK_VIOLATION: i32 = 33;
    /// A removed file stays in its folder while it is open.
    const DIR_NOT_EMPTY: i32 = 145;
    const USER_MAPPED_FILE: i32 = 1224;
    let codes = [ACCESS_DENIED, SHARING_VIOLATION, LOCK_VIOLATION, DIR_NOT_EMPTY, USER_MAPPED_FILE];
    cfg!(windows) && error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

/// Repeats an action for about a second while another program has a file open.
fn retry_while_in_use<T>(act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    retry_while(is_in_use, std::thread::sleep, act)
}

/// Repeats an action while `is_in_use` accepts its error, with pauses that double. The last error tells the user what
/// to do.
fn retry_while<T>(
    is_in_use: impl Fn(&io::Error) -> bool,
    mut pause: impl FnMut(Duration),
    mut act: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    const PAUSES: u32 = 10;
    for n in 0..PAUSES {
        match act() {
            Err(error) if is_in_use(&error) => pause(Duration::from_millis(1 << n)),
            done => return done,
        }
    }
    act().map_err(|error| match error.kind() {
        // The folder may hold files of other programs.
        io::ErrorKind::DirectoryNotEmpty => error,
        _ if is_in_use(&error) => io::Error::new(
            io::ErrorKind::ResourceBusy,
            tr!(
                "{error}; another program may have it open: close it there and repeat, and check its permissions",
                "{error}。別のプログラムが開いている可能性があります。閉じてからもう一度実行し、アクセス権も確認してください"
            ),
        ),
        _ => error,
    })
}

/// The name of the lock file inside a work folder.
const LOCK_FILE: &str = "lock";

/// A folder for temporary files, removed on drop.
///
/// It lies in the output folder, where there is enough space. The process holds a lock inside it. The next
/// [`WorkFolder::create`] in the same place removes folders whose process was killed.
#[derive(Debug)]
pub struct WorkFolder {
    path: PathBuf,
    /// Locked while open.
    lock: Option<File>,
}

impl WorkFolder {
    /// The prefix of the names of work folders.
    pub const PREFIX: &str = ".chumoku-work-";

    /// Creates a work folder inside `parent` and removes those of killed processes.
    ///
    /// # Errors
    /// If `parent` is not writable.
    pub fn create(parent: &Path) -> io::Result<WorkFolder> {
        WorkFolder::remove_stale(parent);
        let folder = tempfile::Builder::new().prefix(WorkFolder::PREFIX).tempdir_in(parent)?;
        // The lock is taken before the file gets its final name. From then on, other processes treat an unlocked folder
        // as stale.
        let [beside, name] = ["lock.new", LOCK_FILE].map(|name| folder.path().join(name));
        let lock = create_new(&beside)?;
        // If the file system has no locks, folders of killed processes stay.
        let _ = lock.try_lock();
        rename(&beside, &name)?;
        Ok(WorkFolder { path: folder.keep(), lock: Some(lock) })
    }

    /// Removes the work folders in `parent` that no process has locked.
    pub fn remove_stale(parent: &Path) {
        for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
            let is_folder = entry.file_type().is_ok_and(|found| found.is_dir());
            if is_folder && entry.file_name().to_string_lossy().starts_with(WorkFolder::PREFIX) {
                remove_if_stale(&entry.path());
            }
        }
    }

    /// The path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        // Outside Unix, an open file cannot be removed.
        drop(self.lock.take());
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes a work folder if its process has ended.
fn remove_if_stale(folder: &Path) {
    let Ok(lock) = File::open(folder.join(LOCK_FILE)) else { return };
    match lock.try_lock() {
        Ok(()) => {
            // No process locks another's folder. Windows does not remove a folder that contains an open file.
            drop(lock);
            drop(fs::remove_dir_all(folder));
        }
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_on_open_files_are_retried() {
        use std::cell::Cell;
        let busy = |error: &io::Error| error.raw_os_error() == Some(32);
        // Fails `failures` times. Returns the result, the number of attempts and the total pause.
        let tried = |failures: u32, code: i32| {
            let (times, paused) = (Cell::new(0), Cell::new(Duration::ZERO));
            let act = || {
                times.set(times.get() + 1);
                if times.get() <= failures { Err(io::Error::from_raw_os_error(code)) } else { Ok(()) }
            };
            let result = retry_while(busy, |pause| paused.set(paused.get() + pause), act);
            (result, times.get(), paused.get())
        };
        let milliseconds = |pauses: u64| Duration::from_millis(pauses);
        assert!(matches!(tried(0, 32), (Ok(()), 1, Duration::ZERO)));
        assert!(matches!(tried(3, 32), (Ok(()), 4, paused) if paused == milliseconds(7)));
        assert!(matches!(tried(10, 32), (Ok(()), 11, paused) if paused == milliseconds(1023)));
        let (result, times, _) = tried(11, 32);
        let error = result.unwrap_err();
        assert!(times == 11 && error.to_string().contains("another program may have it open"), "{error}");
        // Other errors are not retried.
        let (result, times, paused) = tried(1, 2);
        assert_eq!((result.unwrap_err().raw_os_error(), times, paused), (Some(2), 1, Duration::ZERO));
    }

    #[test]
    fn an_open_file_is_replaced_or_stays() {
        let place = tempfile::tempdir().unwrap();
        let [old, new] = ["old", "new"].map(|name| place.path().join(name));
        fs::write(&old, "old").unwrap();
        fs::write(&new, "new").unwrap();
        let reader = File::open(&old).unwrap();
        // Windows may refuse, depending on its version and the file system. If it does, nothing has changed.
        let replaced = rename(&new, &old);
        match &replaced {
            Ok(()) => assert_eq!(fs::read_to_string(&old).unwrap(), "new"),
            Err(error) => {
                assert!(cfg!(windows) && error.to_string().contains("another program"), "{error}");
                assert_eq!(
                    ["old", "new"].map(|name| fs::read_to_string(place.path().join(name)).unwrap()),
                    ["old", "new"]
                );
            }
        }
        drop(reader);
        if replaced.is_err() {
            rename(&new, &old).unwrap();
        }
        assert_eq!(fs::read_to_string(&old).unwrap(), "new");
        remove_file(&old).unwrap();
        assert_eq!(remove_file(&old).unwrap_err().kind(), io::ErrorKind::NotFound);
        remove_folder(place.path()).unwrap();
    }

    #[test]
    fn stale_work_folders_are_removed_by_the_next_one() {
        let place = tempfile::tempdir().unwrap();
        let mine = place.path().join("mine");
        fs::create_dir(&mine).unwrap();
        let killed = place.path().join(format!("{}killed", WorkFolder::PREFIX));
        fs::create_dir_all(killed.join("checkpoints")).unwrap();
        fs::write(killed.join(LOCK_FILE), "").unwrap();
        fs::write(killed.join("checkpoints/state"), "x").unwrap();
        // Without a lock file, the folder may still be under construction, or may not be a work folder.
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
