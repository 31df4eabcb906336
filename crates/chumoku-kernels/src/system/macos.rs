//! macOS: the kernel's statistics, through `libc`.

use super::ProcessMemory;
use std::ffi::{CStr, c_int};
use std::mem::MaybeUninit;
use std::process::Command;
use std::ptr;

/// Returns free pages, and pages that the system can reclaim without writing them to disk.
pub(super) fn available_memory() -> Option<u64> {
    let mut found = MaybeUninit::<libc::vm_statistics64>::zeroed();
    let mut count = libc::HOST_VM_INFO64_COUNT;
    // SAFETY: host_statistics64 writes at most `count` integers, the size of the struct. Fields that it does not write
    // are 0, which is a valid value. mach_host_self and sysconf take no pointers.
    let (found, page) = unsafe {
        #[expect(deprecated, reason = "one call is no reason for another crate")]
        let host = libc::mach_host_self();
        if libc::host_statistics64(host, libc::HOST_VM_INFO64, found.as_mut_ptr().cast(), &mut count) != 0 {
            return None;
        }
        (found.assume_init(), libc::sysconf(libc::_SC_PAGESIZE))
    };
    let pages = u64::from(found.free_count) + u64::from(found.inactive_count);
    Some(pages * u64::try_from(page).ok()?)
}

pub(super) fn process_memory() -> Option<ProcessMemory> {
    let mut found = MaybeUninit::<libc::rusage_info_v4>::zeroed();
    let own = c_int::try_from(std::process::id()).ok()?;
    // SAFETY: with this flavor, proc_pid_rusage writes the given struct. Fields that it does not write are 0.
    let found = unsafe {
        if libc::proc_pid_rusage(own, libc::RUSAGE_INFO_V4, found.as_mut_ptr().cast()) != 0 {
            return None;
        }
        found.assume_init()
    };
    let now = found.ri_phys_footprint;
    Some(ProcessMemory { current: now, peak: found.ri_lifetime_max_phys_footprint.max(now) })
}

/// Counts only the fast cores if there are two kinds, so that no thread waits for one on a slow core.
pub(super) fn physical_cores() -> Option<usize> {
    [c"hw.perflevel0.physicalcpu", c"hw.physicalcpu"].into_iter().find_map(|name| {
        let mut cores: c_int = 0;
        let mut size = size_of::<c_int>();
        // SAFETY: sysctlbyname writes at most `size` bytes, the size of the integer, and sets nothing.
        let failed =
            unsafe { libc::sysctlbyname(name.as_ptr(), (&raw mut cores).cast(), &mut size, ptr::null_mut(), 0) };
        usize::try_from(cores).ok().filter(|&cores| failed == 0 && cores > 0)
    })
}

pub(super) fn processor_name() -> Option<String> {
    let mut name = [0u8; 256];
    let mut size = name.len();
    // SAFETY: sysctlbyname writes at most `size` bytes, the size of the array, and sets nothing.
    let failed = unsafe {
        let at = name.as_mut_ptr().cast();
        libc::sysctlbyname(c"machdep.cpu.brand_string".as_ptr(), at, &mut size, ptr::null_mut(), 0)
    };
    let name = CStr::from_bytes_until_nul(&name).ok()?;
    Some(name.to_string_lossy().into_owned()).filter(|_| failed == 0)
}

/// Returns the first of the user's preferred languages.
pub(super) fn user_language() -> Option<String> {
    let output = Command::new("/usr/bin/defaults").args(["read", "-g", "AppleLanguages"]).output().ok()?;
    // The output is an array: `(`, then a line `"ja-JP",` for each language.
    let text = String::from_utf8(output.stdout).ok()?;
    text.split(['(', ')', ',', '"', ' ', '\n']).find(|word| !word.is_empty()).map(str::to_owned)
}

pub(super) fn lower_thread_priority() {}
