//! How large a text, a row and a table may be.

/// Most bytes of one text (16 MiB): far more than any model reads, little enough to hold in memory.
pub const MAX_TEXT_BYTES: u64 = 16 << 20;
/// Most bytes of one row (32 MiB), its other columns and JSON escapes included.
pub const MAX_ROW_BYTES: u64 = 32 << 20;
/// Most columns of a table.
pub(crate) const MAX_COLUMNS: usize = 4096;
