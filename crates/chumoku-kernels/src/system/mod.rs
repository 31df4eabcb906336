//! The operating system: how much memory and time the process has, the machine's cores, the user's language.
//!
//! For programs; no operation calls it. Each system has a file with the same functions. `None` means that the system does
//! not tell, or that this crate does not know how to ask it.
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

/// The memory of this process, in bytes, as the system counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Now.
    pub current: u64,
    /// The peak so far.
    pub peak: u64,
}

/// A file, whatever name it goes by: two names with the same id are the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId([u64; 2]);

#[cfg(any(unix, windows))]
impl FileId {
    /// The id of an open file.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn from_file(file: &std::fs::File) -> std::io::Result<FileId> {
        family::file_id(file).map(FileId)
    }

    /// The id of the file that a path leads to; links are followed, and a file that others have locked has an id too.
    ///
    /// # Errors
    /// If there is no file, or the system refuses.
    pub fn from_path(path: &Path) -> std::io::Result<FileId> {
        family::file_id_at(path).map(FileId)
    }
}

/// Bytes of memory that the process may still take: free memory, and the limit of its control group on Linux.
#[must_use]
pub fn available_memory() -> Option<u64> {
    platform::available_memory()
}

/// The memory of this process.
#[must_use]
pub fn process_memory() -> Option<ProcessMemory> {
    platform::process_memory()
}

/// Processor time of all threads of this process, those that have ended included.
#[must_use]
pub fn processor_time() -> Option<Duration> {
    #[cfg(any(unix, windows))]
    return family::processor_time();
    #[cfg(not(any(unix, windows)))]
    None
}

/// The machine's physical cores: hyper-threads of one core count once. On Macs with cores of two speeds, the fast ones.
#[must_use]
pub fn physical_cores() -> Option<usize> {
    platform::physical_cores().filter(|&cores| cores > 0)
}

/// The processor's name, for people.
#[must_use]
pub fn processor_name() -> Option<String> {
    platform::processor_name().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// The user's language as the system's settings have it, such as `ja-JP`. Linux has no other settings than the variables of
/// the environment, so there it is `None`.
#[must_use]
pub fn user_language() -> Option<String> {
    platform::user_language()
}

/// Makes the terminal of standard output understand escape sequences, and tells whether it does. Only consoles of Windows
/// before Windows 10 do not.
#[must_use]
pub fn enable_escape_sequences() -> bool {
    #[cfg(windows)]
    return windows::enable_escape_sequences();
    #[cfg(not(windows))]
    true
}

/// Gives the calling thread the lowest priority, for work that others of the machine must not wait for.
///
/// It runs where no other thread wants the core, and little where one does. Linux and Windows have priorities of threads;
/// elsewhere nothing happens. On Linux the priority cannot be raised again without rights of an administrator.
pub fn lower_thread_priority() {
    platform::lower_thread_priority();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The systems that every function below asks.
    const IS_KNOWN: bool = cfg!(any(target_os = "linux", target_os = "macos", windows));

    #[test]
    fn memory_is_told() {
        let free = available_memory();
        assert_eq!(free.is_some(), IS_KNOWN);
        if let Some(free) = free {
            // More than a megabyte, and less than any machine has.
            assert!((1 << 20..1 << 50).contains(&free), "{free}");
        }
    }

    /// Alone: others free memory of the same process.
    #[test]
    fn memory_that_is_written_counts() {
        testkit::in_own_process("system::tests::memory_that_is_written_counts", || {
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
    fn time_that_is_spent_counts() {
        let start = processor_time();
        assert_eq!(start.is_some(), cfg!(any(unix, windows)));
        let Some(start) = start else { return };
        let busy = move || {
            while processor_time().is_some_and(|now| now < start + Duration::from_millis(50)) {
                std::hint::spin_loop();
            }
        };
        // That of threads that have ended too.
        std::thread::spawn(busy).join().unwrap();
        assert!(processor_time().unwrap() >= start + Duration::from_millis(50));
    }

    #[test]
    fn the_processor_is_told() {
        let cores = physical_cores();
        assert_eq!(cores.is_some(), IS_KNOWN);
        // No more than there are logical processors, unless the process is kept to some of them.
        assert!(cores.is_none_or(|cores| (1..=4096).contains(&cores)), "{cores:?}");
        if cfg!(all(target_arch = "x86_64", any(target_os = "linux", windows))) {
            assert!(processor_name().is_some_and(|name| name.len() > 2), "{:?}", processor_name());
        }
    }

    #[test]
    fn the_language_has_the_form_of_a_locale() {
        if let Some(language) = user_language() {
            let is_plain = language.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-');
            assert!(is_plain && language.len() >= 2, "{language}");
        }
        assert_eq!(user_language().is_some(), cfg!(any(windows, target_os = "macos")));
    }

    #[cfg(any(unix, windows))]
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test's own files")]
    fn a_file_keeps_its_id_under_every_name() {
        let folder = std::env::temp_dir().join(format!("chumoku-file-id-{}", std::process::id()));
        // A run that was killed may have left one.
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
    fn a_lowered_priority_is_that_of_one_thread() {
        let of = |folder: &str| {
            let stat = std::fs::read_to_string(format!("/proc/{folder}/stat")).ok()?;
            // Behind the name, which may hold spaces.
            stat.rsplit_once(')')?.1.split_whitespace().nth(16)?.parse::<i32>().ok()
        };
        let Some(before) = of("thread-self") else {
            println!("SKIPPED: the system tells no priorities of threads");
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
