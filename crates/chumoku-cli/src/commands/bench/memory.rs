//! How much memory there is, and how much this process holds.

use crate::UsageError;
use chumoku::memory;
use chumoku_kernels::system::process_memory;

/// Refuses work that needs more bytes than are free, which would end in a killed process; `what` needs them.
pub(super) fn check(what: &str, needed: f64) -> anyhow::Result<()> {
    memory::shortage(needed).map_or(Ok(()), |[needed, free]| {
        Err(UsageError(chumoku::tr!(
            "bench: {what} needs {needed} of memory, and {free} are free; take smaller sizes",
            "bench: {what} には {needed} のメモリが必要ですが、空きは {free} です。サイズを小さくしてください"
        ))
        .into())
    })
}

/// Bytes of memory that this process holds.
pub(super) fn resident() -> Option<u64> {
    process_memory().map(|memory| memory.current)
}

/// The peak since the start, or since [`forget_peak`].
pub(super) fn peak() -> Option<u64> {
    process_memory().map(|memory| memory.peak)
}

/// Lets the peak count from here. Only Linux can; elsewhere, and where that is not allowed, it stays that since the start.
pub(super) fn reset_peak() {
    #[expect(clippy::disallowed_methods, reason = "a switch of the system's, and no file")]
    #[cfg(target_os = "linux")]
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_seen() {
        reset_peak();
        let before = resident().unwrap();
        let size = 32 << 20;
        std::hint::black_box(vec![1u8; size]);
        assert!(peak().unwrap() >= before + size as u64 / 2, "{:?} after {before}", peak());
    }
}
