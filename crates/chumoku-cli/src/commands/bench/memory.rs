//! How much memory there is, and how much this process holds. The system tells on Linux only.

use crate::Usage;
use chumoku::memory;
use std::fs;

/// Refuses work that needs more bytes than are free, which would end in a killed process; `what` needs them.
pub(super) fn check(what: &str, needed: f64) -> anyhow::Result<()> {
    memory::lacking(needed).map_or(Ok(()), |[needed, free]| {
        Err(Usage(chumoku::tr!(
            "bench: {what} needs {needed} of memory, and {free} are free; take smaller sizes",
            "bench: {what} には {needed} のメモリが必要ですが、空きは {free} です。サイズを小さくしてください"
        ))
        .into())
    })
}

/// What is in memory of this process.
pub(super) fn resident() -> Option<u64> {
    field("VmRSS:")
}

/// The most that was since the start, or since [`forget_peak`].
pub(super) fn peak() -> Option<u64> {
    field("VmHWM:")
}

/// Lets the peak count from here. Where that is not allowed the peak stays that since the start.
pub(super) fn forget_peak() {
    #[expect(clippy::disallowed_methods, reason = "a switch of the system's, and no file")]
    let _ = fs::write("/proc/self/clear_refs", "5");
}

fn field(name: &str) -> Option<u64> {
    memory::field(&fs::read_to_string("/proc/self/status").ok()?, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_peak_is_seen() {
        forget_peak();
        let before = resident().unwrap();
        let size = 32 << 20;
        std::hint::black_box(vec![1u8; size]);
        assert!(peak().unwrap() >= before + size as u64 / 2, "{:?} after {before}", peak());
    }
}
