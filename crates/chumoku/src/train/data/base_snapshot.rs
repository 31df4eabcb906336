//! The base model in its folder: its identity, and the texts that it was trained on.

use super::training_texts::TrainingTexts;
use crate::model_folder::{ModelIdentity, Snapshot, with_snapshot};
use crate::{Error, Result, tr};
use std::path::Path;

/// The model in a folder that training continues from.
#[derive(Clone, Debug, Default)]
pub(crate) struct BaseSnapshot {
    /// Identifies the model, in case another takes its place.
    pub(crate) identity: ModelIdentity,
    /// The training and validation texts of the model, and of the base models before it.
    pub(crate) training_texts: TrainingTexts,
}

impl BaseSnapshot {
    /// Reads the model's folder again.
    ///
    /// # Errors
    /// If the folder now holds another model, or `read` fails.
    pub(crate) fn read<T>(&self, folder: &Path, mut read: impl FnMut(&Snapshot) -> Result<T>) -> Result<T> {
        with_snapshot(folder, |folder| match *folder.identity() == self.identity {
            true => read(folder),
            false => Err(base_replaced_error(folder)),
        })
    }
}

/// The error of a model that was replaced during continued training.
pub(crate) fn base_replaced_error(folder: &Path) -> Error {
    let problem = tr!(
        "expected the model that training started from, found another model in its place; train again",
        "学習の開始時とは別のモデルに置き換えられています。学習し直してください"
    );
    Error::Model { path: folder.to_owned(), problem }
}
