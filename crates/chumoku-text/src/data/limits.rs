//! Limits on the size of a text, a row and a table.

/// Largest text, in bytes (16 MiB): far more than any model reads, but small enough for memory.
pub(crate) const MAX_TEXT_BYTES: u64 = 16 << 20;
/// Largest row, in bytes (32 MiB), including its other columns and JSON escapes.
pub(crate) const MAX_ROW_BYTES: u64 = 32 << 20;
/// Most columns of a table.
pub(crate) const MAX_COLUMNS: usize = 4096;
