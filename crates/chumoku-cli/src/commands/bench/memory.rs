//! Memory of the machine and of this process.

use crate::UsageError;
use chumoku::memory;
use chumoku_kernels::system::process_memory;

/// Refuses a benchmark `what` that needs more memory than is free and would get the process killed.
pub(super) fn check(what: &str, needed: f64) -> anyhow::Result<()> {
    memory::shortage(needed).map_or(Ok(()), |[needed, free]| {
        Err(UsageError(chumoku::tr!(
            "bench: {what} needs {needed} of memory, and {free} are free; choose smaller sizes",
            "bench: {what} には {needed} のメモリが必要ですが、空きは {free} です。サイズを小さくしてください"
        ))
        .into())
    })
}

/// Returns the resident memory of this process in bytes.
pub(super) fn resident() -> Option<u64> {
    process_memory().map(|memory| memory.current)
}

/// Returns the peak since the start, or since [`reset_peak`].
pub(super) fn peak() -> Option<u64> {
    process_memory().map(|memory| memory.peak)
}

/// Resets the peak. Only Linux supports this; elsewhere, or without permission, the peak counts from the start.
pub(super) fn reset_peak() {
    #[expect(clippy::disallowed_methods, reason = "a kernel switch, not a file")]
    #[cfg(target_os = "linux")]
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_includes_freed_memory() {
        reset_peak();
        let before = resident().unwrap();
        let size = 32 << 20;
        std::hint::black_box(vec![1u8; size]);
        assert!(peak().unwrap() >= before + size as u64 / 2, "{:?} after {before}", peak());
    }
}
