//! Segmentation of a text by a model's tokenizer.

use crate::model_folder::{ModelKind, Snapshot, TOKENIZER, check_files, model_file_error, read_file, with_snapshot};
use crate::text::{MergedWord, merges};
use crate::{Result, tr};
use std::path::Path;

/// Returns the merges with which the tokenizer of a model folder segments a text, word by word.
///
/// # Errors
/// If the folder holds no model, or its tokenizer has no merges.
pub fn merges_of(folder: &Path, text: &str) -> Result<Vec<MergedWord>> {
    with_snapshot(folder, |folder| merges_of_snapshot(folder, text))
}

fn merges_of_snapshot(folder: &Snapshot, text: &str) -> Result<Vec<MergedWord>> {
    ModelKind::from_snapshot(folder)?;
    check_files(folder, &[TOKENIZER])?;
    let bytes = read_file(folder, TOKENIZER)?;
    let json = std::str::from_utf8(&bytes).map_err(|error| {
        let at = error.valid_up_to();
        model_file_error(folder, TOKENIZER, tr!("not UTF-8 at offset {at}", "オフセット {at} が UTF-8 ではありません"))
    })?;
    merges(json, text).map_err(|error| model_file_error(folder, TOKENIZER, error.to_string()))
}
