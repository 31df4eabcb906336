//! Checksums for files and reports.

/// Formats a checksum in lowercase hexadecimal.
pub fn hex(digest: impl AsRef<[u8]>) -> String {
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
