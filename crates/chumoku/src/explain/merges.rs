//! How a model's tokenizer cuts a text.

use crate::model_folder::{TOKENIZER, check_files, fault, read};
use crate::text::{MergedWord, merges};
use crate::{ModelKind, Result, tr};
use std::path::Path;

/// The merges by which the tokenizer of a model's folder cuts a text, word by word.
///
/// # Errors
/// If the folder holds no model, or its tokenizer has no merges.
pub fn merges_of(folder: &Path, text: &str) -> Result<Vec<MergedWord>> {
    ModelKind::of(folder)?;
    check_files(folder, &[TOKENIZER])?;
    let bytes = read(folder, TOKENIZER)?;
    let json = std::str::from_utf8(&bytes).map_err(|error| {
        let at = error.valid_up_to();
        fault(folder, TOKENIZER, tr!("not UTF-8 at offset {at}", "オフセット {at} が UTF-8 ではありません"))
    })?;
    merges(json, text).map_err(|error| fault(folder, TOKENIZER, error.to_string()))
}
