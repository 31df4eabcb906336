//! Functions that all Unix systems share.

use std::fs::{File, Metadata};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

pub(super) fn processor_time() -> Option<Duration> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: getrusage writes the whole struct, or returns a value other than 0.
    let usage = unsafe {
        if libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) != 0 {
            return None;
        }
        usage.assume_init()
    };
    let time = |of: libc::timeval| {
        let [seconds, micros] = [u64::try_from(of.tv_sec).ok()?, u64::try_from(of.tv_usec).ok()?];
        Some(Duration::from_secs(seconds) + Duration::from_micros(micros))
    };
    Some(time(usage.ru_utime)? + time(usage.ru_stime)?)
}

pub(super) fn file_id(file: &File) -> io::Result<[u64; 2]> {
    file.metadata().map(id)
}

pub(super) fn file_id_at(path: &Path) -> io::Result<[u64; 2]> {
    path.metadata().map(id)
}

fn id(of: Metadata) -> [u64; 2] {
    [of.dev(), of.ino()]
}
