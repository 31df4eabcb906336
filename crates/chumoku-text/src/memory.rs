//! Free memory: work that does not fit is refused before it starts, instead of being killed halfway.

use chumoku_kernels::system;

/// Returns the memory that the process may still allocate, in bytes.
///
/// Returns 4.4 TB, more than ordinary machines have, if the system does not report it.
#[must_use]
pub fn available_bytes() -> u64 {
    system::available_memory().unwrap_or(1 << 42)
}

/// Formats a size with its unit: `512 MB`, `22.1 GB`, `4.0 TB`.
#[must_use]
pub fn format_bytes(bytes: f64) -> String {
    match bytes {
        _ if bytes < 1e9 => format!("{:.0} MB", bytes / 1e6),
        _ if bytes < 1e12 => format!("{:.1} GB", bytes / 1e9),
        _ if bytes < 1e16 => format!("{:.1} TB", bytes / 1e12),
        _ => format!("{:.1e} TB", bytes / 1e12),
    }
}

/// Returns the needed and the free memory, formatted, if less is free than needed.
#[must_use]
pub fn shortage(needed: f64) -> Option<[String; 2]> {
    let free = available_bytes() as f64;
    (needed > free).then(|| [needed, free].map(format_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!([5.12e8, 2.21e10, 4e12, 1e30].map(format_bytes), ["512 MB", "22.1 GB", "4.0 TB", "1.0e18 TB"]);
    }

    #[test]
    fn needed_memory_is_compared_with_free_memory() {
        assert!((1 << 20..=1 << 60).contains(&available_bytes()));
        assert_eq!(shortage(1.0), None);
        assert_eq!(shortage(1e30).unwrap()[0], "1.0e18 TB");
        assert!(shortage(f64::INFINITY).is_some());
    }
}
