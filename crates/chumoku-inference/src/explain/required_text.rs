//! The check that there is a text to explain.

use crate::row::{AsRow, RowRef};
use crate::{Error, Result, tr};

/// The error for an empty text.
pub(super) fn empty_text_error() -> Error {
    Error::Setting(tr!("the text to explain is empty", "説明するテキストが空です"))
}

/// Checks that there is a text to explain.
pub(super) fn require_text(row: impl AsRow) -> Result<()> {
    if is_empty(row.as_row()) { Err(empty_text_error()) } else { Ok(()) }
}

/// Returns whether a row is a single text of white space.
pub(super) fn is_empty(row: RowRef<'_>) -> bool {
    !row.is_pair() && row.text().trim().is_empty()
}
