//! Folders with static embeddings: one vector per token and no network.

use super::config::FolderConfig;
use super::files;
use super::weights::WeightFiles;
use crate::error::layer_errors::layer_error_message;
use crate::model_folder::{CONFIG, MODEL2VEC, Snapshot, WEIGHTS, model_file_error};
use crate::{Error, Result, tr};
use chumoku_nn::pretrained::{PretrainedEncoder, StaticEmbeddingConfig};

/// Names of the table in sentence-transformers and in model2vec.
const TABLE_NAMES: [&str; 2] = ["embedding.weight", "embeddings"];

/// The error for inspecting a model without layers.
pub(crate) fn no_layers_error() -> Error {
    Error::Setting(tr!(
        "the model is a table of static vectors: it has no layers and no attention; use it with \
         `chumoku embed` and `nearest`",
        "このモデルは静的なベクトルの表で、層もアテンションもありません。`chumoku embed` と `nearest` で使えます"
    ))
}

/// Returns the folder's static embeddings as an encoder without layers, or `None` for other folders.
///
/// # Errors
/// If files cannot be read, or contain no table.
pub(crate) fn static_vectors(folder: &Snapshot) -> Result<Option<PretrainedEncoder>> {
    let (has_config, has_weights) = (files::exists(folder, CONFIG), files::exists(folder, WEIGHTS));
    if !has_weights || (has_config && FolderConfig::read(folder)?.model_type() != MODEL2VEC) {
        return Ok(None);
    }
    let weights = WeightFiles::read(folder)?;
    let table = TABLE_NAMES.into_iter().find_map(|name| match weights.shape(name) {
        Some(&[rows, width]) => Some(StaticEmbeddingConfig::new(name, [rows, width])),
        _ => None,
    });
    match table {
        Some(table) => {
            table.encoder().map(Some).map_err(|error| model_file_error(folder, WEIGHTS, layer_error_message(&error)))
        }
        None if !has_config => Ok(None),
        None => Err(model_file_error(
            folder,
            WEIGHTS,
            tr!(
                "expected a table of vectors, {} or {}, found none",
                "ベクトルの表（{} または {}）が必要ですが、ありません",
                TABLE_NAMES[0],
                TABLE_NAMES[1]
            ),
        )),
    }
}
