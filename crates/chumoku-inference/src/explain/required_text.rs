//! The check that there is a text to explain.

use crate::{Error, Result, tr};

/// The error for an empty text.
pub(super) fn empty_text_error() -> Error {
    Error::Setting(tr!("the text to explain is empty", "説明するテキストが空です"))
}

/// Checks that there is a text to explain.
pub(super) fn require_text(text: &str) -> Result<()> {
    if text.trim().is_empty() { Err(empty_text_error()) } else { Ok(()) }
}
