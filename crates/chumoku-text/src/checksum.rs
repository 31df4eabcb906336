//! Checksums as files and reports have them.

/// A checksum in the usual hexadecimal form.
pub fn hex(digest: impl AsRef<[u8]>) -> String {
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
