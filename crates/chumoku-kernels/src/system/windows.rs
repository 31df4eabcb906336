//! Windows: functions of `kernel32`, and one of the registry.

use super::ProcessMemory;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsRawHandle;
use std::path::Path;
use std::ptr;
use std::time::Duration;
use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::Globalization::{GetUserDefaultUILanguage, LCIDToLocaleName};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_FLAG_BACKUP_SEMANTICS, GetFileInformationByHandle,
};
use windows_sys::Win32::System::Console::{
    ENABLE_VIRTUAL_TERMINAL_PROCESSING, GetConsoleMode, GetStdHandle, STD_OUTPUT_HANDLE, SetConsoleMode,
};
use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::Registry::{HKEY_LOCAL_MACHINE, RRF_RT_REG_SZ, RegGetValueW};
use windows_sys::Win32::System::SystemInformation::{
    GetLogicalProcessorInformationEx, GlobalMemoryStatusEx, MEMORYSTATUSEX, RelationProcessorCore,
};
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, GetCurrentThread, GetProcessTimes, SetThreadPriority, THREAD_PRIORITY_IDLE,
};
use windows_sys::w;

/// Returns free memory, limited by the commit limit (memory plus paging files).
pub(super) fn available_memory() -> Option<u64> {
    let length = size_of::<MEMORYSTATUSEX>() as u32;
    let mut found = MEMORYSTATUSEX { dwLength: length, ..Default::default() };
    // SAFETY: the call writes the struct, whose length field is correct.
    let has_succeeded = unsafe { GlobalMemoryStatusEx(&mut found) } != 0;
    // Wine reports 0 while another thread asks.
    has_succeeded.then_some(found.ullAvailPhys.min(found.ullAvailPageFile)).filter(|&bytes| bytes > 0)
}

pub(super) fn process_memory() -> Option<ProcessMemory> {
    let mut found = PROCESS_MEMORY_COUNTERS::default();
    let size = size_of::<PROCESS_MEMORY_COUNTERS>() as u32;
    // SAFETY: the call writes at most `size` bytes of the struct.
    let has_succeeded = unsafe { K32GetProcessMemoryInfo(GetCurrentProcess(), &mut found, size) } != 0;
    has_succeeded
        .then_some(ProcessMemory { current: found.WorkingSetSize as u64, peak: found.PeakWorkingSetSize as u64 })
}

pub(super) fn processor_time() -> Option<Duration> {
    let mut times = [FILETIME::default(); 4];
    let [start, end, kernel, user] = &mut times;
    // SAFETY: the call writes the four given structs.
    if unsafe { GetProcessTimes(GetCurrentProcess(), start, end, kernel, user) } == 0 {
        return None;
    }
    // In units of 100 ns.
    let units = |time: &FILETIME| (u64::from(time.dwHighDateTime) << 32) | u64::from(time.dwLowDateTime);
    Some(Duration::from_nanos(100 * (units(kernel) + units(user))))
}

pub(super) fn physical_cores() -> Option<usize> {
    let mut size = 0;
    // SAFETY: without a buffer the call writes only the size that it needs.
    unsafe { GetLogicalProcessorInformationEx(RelationProcessorCore, ptr::null_mut(), &mut size) };
    let mut records = vec![0u64; (size as usize).div_ceil(8)];
    // SAFETY: the call writes at most `size` bytes, the size of the buffer, which is aligned for its records.
    let has_succeeded =
        unsafe { GetLogicalProcessorInformationEx(RelationProcessorCore, records.as_mut_ptr().cast(), &mut size) } != 0;
    let bytes: Vec<u8> = records.iter().flat_map(|word| word.to_ne_bytes()).take(size as usize).collect();
    has_succeeded.then(|| count_records(&bytes))
}

/// Counts records. Each record starts with its kind and its size, in four bytes each.
fn count_records(mut bytes: &[u8]) -> usize {
    let mut count = 0;
    while let Some(size) = bytes.get(4..8).and_then(|size| size.try_into().ok()).map(u32::from_ne_bytes) {
        count += 1;
        bytes = bytes.get(size.max(8) as usize..).unwrap_or_default();
    }
    count
}

pub(super) fn processor_name() -> Option<String> {
    let mut name = [0u16; 128];
    let mut size = size_of_val(&name) as u32;
    let [key, value] = [w!(r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"), w!("ProcessorNameString")];
    // SAFETY: the names end with 0. The call writes at most `size` bytes, the size of the array.
    let code = unsafe {
        let at = name.as_mut_ptr().cast();
        RegGetValueW(HKEY_LOCAL_MACHINE, key, value, RRF_RT_REG_SZ, ptr::null_mut(), at, &mut size)
    };
    (code == 0).then(|| text(&name))
}

pub(super) fn user_language() -> Option<String> {
    let mut name = [0u16; 85];
    // SAFETY: the call writes at most the number of letters of the array.
    let letters =
        unsafe { LCIDToLocaleName(u32::from(GetUserDefaultUILanguage()), name.as_mut_ptr(), name.len() as i32, 0) };
    (letters > 0).then(|| text(&name)).filter(|name| !name.is_empty())
}

/// Decodes letters up to the first 0.
fn text(letters: &[u16]) -> String {
    let len = letters.iter().position(|&letter| letter == 0).unwrap_or(letters.len());
    String::from_utf16_lossy(&letters[..len])
}

pub(super) fn enable_escape_sequences() -> bool {
    let mut mode = 0;
    // SAFETY: the calls take a handle, which may be invalid, and write one integer.
    unsafe {
        let console = GetStdHandle(STD_OUTPUT_HANDLE);
        // A terminal that is not a console supports them: those of Cygwin and MSYS are pipes.
        GetConsoleMode(console, &mut mode) == 0
            || SetConsoleMode(console, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING) != 0
    }
}

pub(super) fn lower_thread_priority() {
    // SAFETY: the handle of the calling thread is always valid. A failure changes nothing.
    unsafe {
        SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_IDLE);
    }
}

pub(super) fn file_id(file: &File) -> io::Result<[u64; 2]> {
    let mut found = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the file is open, and the call writes the given struct.
    if unsafe { GetFileInformationByHandle(file.as_raw_handle(), &mut found) } == 0 {
        return Err(io::Error::last_os_error());
    }
    let index = (u64::from(found.nFileIndexHigh) << 32) | u64::from(found.nFileIndexLow);
    Ok([u64::from(found.dwVolumeSerialNumber), index])
}

/// Opens the file without any access, which locks do not refuse. The flag allows directories too.
pub(super) fn file_id_at(path: &Path) -> io::Result<[u64; 2]> {
    #[expect(clippy::disallowed_methods, reason = "nothing is written")]
    let file = OpenOptions::new().access_mode(0).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path)?;
    file_id(&file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_records_of_any_size() {
        let record = |size: u32| [&0u32.to_ne_bytes()[..], &size.to_ne_bytes(), &vec![7; size as usize - 8]].concat();
        assert_eq!(count_records(&[record(48), record(64), record(8)].concat()), 3);
        // Corrupt records end the count.
        assert_eq!((count_records(&[]), count_records(&[1, 2, 3]), count_records(&record(48)[..20])), (0, 0, 1));
        assert_eq!(count_records(&[0; 16]), 2);
    }
}
