//! How much memory there is: work that cannot fit is refused before it starts, and not killed when it is half done.

use chumoku_kernels::system;

/// Bytes of memory that the process may still take.
///
/// Returns 4.4 TB, more than any usual machine has, if the system does not tell.
#[must_use]
pub fn available_bytes() -> u64 {
    system::available_memory().unwrap_or(1 << 42)
}

/// A size as people read it: `512 MB`, `22.1 GB`, `4.0 TB`.
#[must_use]
pub fn format_bytes(bytes: f64) -> String {
    match bytes {
        _ if bytes < 1e9 => format!("{:.0} MB", bytes / 1e6),
        _ if bytes < 1e12 => format!("{:.1} GB", bytes / 1e9),
        _ if bytes < 1e16 => format!("{:.1} TB", bytes / 1e12),
        _ => format!("{:.1e} TB", bytes / 1e12),
    }
}

/// The bytes that are needed and those that are free, as people read them, if the first are more.
#[must_use]
pub fn shortage(needed: f64) -> Option<[String; 2]> {
    let free = available_bytes() as f64;
    (needed > free).then(|| [needed, free].map(format_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        assert_eq!([5.12e8, 2.21e10, 4e12, 1e30].map(format_bytes), ["512 MB", "22.1 GB", "4.0 TB", "1.0e18 TB"]);
    }

    #[test]
    fn what_is_needed_is_compared_with_what_is_free() {
        assert!((1 << 20..=1 << 60).contains(&available_bytes()));
        assert_eq!(shortage(1.0), None);
        assert_eq!(shortage(1e30).unwrap()[0], "1.0e18 TB");
        assert!(shortage(f64::INFINITY).is_some());
    }
}
