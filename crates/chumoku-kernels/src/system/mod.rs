//! Operating system: memory and processor time of the process, the machine's cores, and the user's language.
//!
//! These functions are for programs; no operation calls them. Each system has a file with the same functions. `None`
//! means that the system does not provide the information, or that this crate does not support the system.
//!
//! # Files
//!
//! - `linux`: Linux
//! - `macos`: macOS
//! - `other`: systems without support
//! - `unix`: code that Unix systems share
//! - `windows`: Windows

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
mod other;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "linux")]
use linux as platform;
#[cfg(target_os = "macos")]
use macos as platform;
#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
use other as platform;
#[cfg(unix)]
use unix as family;
#[cfg(windows)]
use windows as family;
#[cfg(windows)]
use windows as platform;

#[cfg(any(unix, windows))]
use std::path::Path;
use std::time::Duration;

/// The memory of this process in bytes, as the system reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Current memory.
    pub current: u64,
    /// Peak memory so far.
    pub peak: u64,
}

/// The identity of a file, independent of its name: two names with the same id refer to the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId([u64; 2]);

#[cfg(any(unix, windows))]
impl FileId {
    /// Returns the id of an open file.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn from_file(file: &std::fs::File) -> std::io::Result<FileId> {
        family::file_id(file).map(FileId)
    }

    /// Returns the id of the file at a path. Links are followed, and locked files have an id too.
    ///
    /// # Errors
    /// If the file does not exist, or the system refuses.
    pub fn from_path(path: &Path) -> std::io::Result<FileId> {
        family::file_id_at(path).map(FileId)
    }
}

/// Returns the bytes of memory that the process may still allocate: free memory, limited on Linux by the control group.
#[must_use]
pub fn available_memory() -> Option<u64> {
    platform::available_memory()
}

/// Returns the memory of this process.
#[must_use]
pub fn process_memory() -> Option<ProcessMemory> {
    platform::process_memory()
}

/// Returns the processor time of all threads of this process, including those that have ended.
#[must_use]
pub fn processor_time() -> Option<Duration> {
    #[cfg(any(unix, windows))]
    return family::processor_time();
    #[cfg(not(any(unix, windows)))]
    None
}

/// Returns the number of physical cores: hyper-threads of one core count once. On Macs with two kinds of cores, only
/// fast ones count.
#[must_use]
pub fn physical_cores() -> Option<usize> {
    platform::physical_cores().filter(|&cores| cores > 0)
}

/// Returns the processor's name, for display.
#[must_use]
pub fn processor_name() -> Option<String> {
    platform::processor_name().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Returns the user's language from the system settings, such as `ja-JP`. On Linux it is `None`, because the only such
/// settings are environment variables.
#[must_use]
pub fn user_language() -> Option<String> {
    platform::user_language()
}

/// Enables escape sequences in the terminal of standard output, and returns whether they work. They fail only in
/// Windows consoles before Windows 10.
#[must_use]
pub fn enable_escape_sequences() -> bool {
    #[cfg(windows)]
    return windows::enable_escape_sequences();
    #[cfg(not(windows))]
    true
}

/// Gives the calling thread the lowest priority, for background work.
///
/// The thread runs mainly on cores that no other thread needs. Linux and Windows have thread priorities; on other
/// systems this does nothing. On Linux, raising the priority again requires administrator rights.
pub fn lower_thread_priority() {
    platform::lower_thread_priority();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The systems that the functions of this module support.
    const IS_KNOWN: bool = cfg!(any(target_os = "linux", target_os = "macos", windows));

    #[test]
    fn available_memory_is_reported() {
        let free = available_memory();
        assert_eq!(free.is_some(), IS_KNOWN);
        if let Some(free) = free {
            // More than a megabyte, and less than any machine has.
            assert!((1 << 20..1 << 50).contains(&free), "{free}");
        }
    }

    #[test]
    fn threads_that_ask_at_once_get_no_zero() {
        let ask = || (0..200).for_each(|_| assert_ne!(available_memory(), Some(0)));
        std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(ask))));
    }

    /// Runs in its own process, because other tests free memory too.
    #[test]
    fn written_memory_counts() {
        testkit::in_own_process("system::tests::written_memory_counts", || {
            let before = process_memory();
            assert_eq!(before.is_some(), IS_KNOWN);
            let Some(before) = before else { return };
            assert!(before.current > 0 && before.peak >= before.current / 2, "{before:?}");
            let size = 64 << 20;
            let block = std::hint::black_box(vec![1u8; size]);
            let with = process_memory().unwrap();
            assert!(with.current >= before.current / 2 + size as u64 / 2, "{with:?} after {before:?}");
            drop(block);
            let after = process_memory().unwrap();
            assert!(after.peak >= size as u64 && after.peak >= before.peak, "{after:?} after {before:?}");
        });
    }

    #[test]
    fn busy_time_counts() {
        let start = processor_time();
        assert_eq!(start.is_some(), cfg!(any(unix, windows)));
        let Some(start) = start else { return };
        let busy = move || {
            while processor_time().is_some_and(|now| now < start + Duration::from_millis(50)) {
                std::hint::spin_loop();
            }
        };
        // Includes threads that have ended.
        std::thread::spawn(busy).join().unwrap();
        assert!(processor_time().unwrap() >= start + Duration::from_millis(50));
    }

    #[test]
    fn processor_is_reported() {
        let cores = physical_cores();
        assert_eq!(cores.is_some(), IS_KNOWN);
        // No more than the logical processors, unless the process is restricted to some of them.
        assert!(cores.is_none_or(|cores| (1..=4096).contains(&cores)), "{cores:?}");
        if cfg!(all(target_arch = "x86_64", any(target_os = "linux", windows))) {
            assert!(processor_name().is_some_and(|name| name.len() > 2), "{:?}", processor_name());
        }
    }

    #[test]
    fn language_has_the_form_of_a_locale() {
        if let Some(language) = user_language() {
            let is_plain = language.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-');
            assert!(is_plain && language.len() >= 2, "{language}");
        }
        assert_eq!(user_language().is_some(), cfg!(any(windows, target_os = "macos")));
    }

    #[cfg(any(unix, windows))]
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test's own files")]
    fn file_id_is_the_same_for_every_name() {
        let folder = std::env::temp_dir().join(format!("chumoku-file-id-{}", std::process::id()));
        // A killed run may have left the directory.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        let [one, two, other] = ["one", "two", "other"].map(|name| folder.join(name));
        std::fs::write(&one, "x").unwrap();
        std::fs::write(&other, "x").unwrap();
        std::fs::hard_link(&one, &two).unwrap();
        let file = std::fs::File::open(&one).unwrap();
        file.lock().unwrap();
        let ids =
            [FileId::from_file(&file), FileId::from_path(&one), FileId::from_path(&two), FileId::from_path(&other)]
                .map(Result::unwrap);
        assert!(ids[0] == ids[1] && ids[1] == ids[2] && ids[2] != ids[3], "{ids:?}");
        assert!(FileId::from_path(&folder.join("none")).is_err());
        drop(file);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn lowered_priority_applies_to_one_thread() {
        let of = |folder: &str| {
            let stat = std::fs::read_to_string(format!("/proc/{folder}/stat")).ok()?;
            // After the name, which may contain spaces.
            stat.rsplit_once(')')?.1.split_whitespace().nth(16)?.parse::<i32>().ok()
        };
        let Some(before) = of("thread-self") else {
            println!("SKIPPED: the system does not report thread priorities");
            return;
        };
        let lowered = std::thread::spawn(move || {
            lower_thread_priority();
            of("thread-self")
        });
        assert_eq!(lowered.join().unwrap(), Some(19));
        assert_eq!(of("thread-self"), Some(before));
    }
}
