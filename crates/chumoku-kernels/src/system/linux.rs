//! Linux: most information comes from files of `/proc` and `/sys`.

use super::ProcessMemory;
use std::collections::BTreeSet;
use std::fs;

pub(super) fn available_memory() -> Option<u64> {
    let free = kilobyte_field(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")?;
    let most = fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    Some(free.min(most.unwrap_or(u64::MAX)))
}

pub(super) fn process_memory() -> Option<ProcessMemory> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    Some(ProcessMemory { current: kilobyte_field(&status, "VmRSS:")?, peak: kilobyte_field(&status, "VmHWM:")? })
}

/// Parses a line `name: n kB` of a system file, and returns bytes.
fn kilobyte_field(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

pub(super) fn physical_cores() -> Option<usize> {
    let folders = fs::read_dir("/sys/devices/system/cpu").into_iter().flatten().flatten();
    let cores: BTreeSet<String> =
        folders.filter_map(|entry| fs::read_to_string(entry.path().join("topology/core_cpus_list")).ok()).collect();
    // Containers and emulators may hide the directory.
    Some(cores.len()).filter(|&cores| cores > 0).or_else(|| std::thread::available_parallelism().ok().map(Into::into))
}

pub(super) fn processor_name() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    text.lines().find_map(|line| Some(line.strip_prefix("model name")?.split_once(':')?.1.to_owned()))
}

pub(super) fn user_language() -> Option<String> {
    None
}

pub(super) fn lower_thread_priority() {
    // SAFETY: setpriority takes three integers. On Linux, 0 with PRIO_PROCESS is the calling thread. A failure changes
    // nothing.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS as _, 0, 19);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_a_proc_line() {
        let text = "MemTotal:       24000000 kB\nMemAvailable:   1024 kB\n";
        assert_eq!(kilobyte_field(text, "MemAvailable:"), Some(1 << 20));
        assert_eq!(
            (kilobyte_field(text, "MemFree:"), kilobyte_field("MemAvailable: 7\n", "MemAvailable:")),
            (None, None)
        );
    }
}
