//! Folders that hold one vector for each token and no network.

use super::config::Config;
use super::files;
use super::weights::Weights;
use crate::layer_errors::layer_error_message;
use crate::model_folder::{CONFIG, MODEL2VEC, Snapshot, WEIGHTS, model_file_error};
use crate::{Error, Result, tr};
use chumoku_nn::pretrained::{PretrainedEncoder, StaticEmbeddingConfig};

/// What the table is called, by sentence-transformers and by model2vec.
const TABLES: [&str; 2] = ["embedding.weight", "embeddings"];

/// That there is nothing in a table to look into.
pub(crate) fn no_layers() -> Error {
    Error::Setting(tr!(
        "the model is a table of static vectors: it has no layers and no attention; `chumoku embed` and `nearest` are for \
         it",
        "このモデルは静的なベクトルの表で、層もアテンションもありません。`chumoku embed` と `nearest` で使えます"
    ))
}

/// The table of static vectors that a folder holds, as an encoder of no layers; none if it holds something else.
///
/// # Errors
/// If files cannot be read, or there is no table in them.
pub(crate) fn static_vectors(folder: &Snapshot) -> Result<Option<PretrainedEncoder>> {
    let (has_config, has_weights) = (files::has(folder, CONFIG), files::has(folder, WEIGHTS));
    if !has_weights || (has_config && Config::read(folder)?.model_type() != MODEL2VEC) {
        return Ok(None);
    }
    let weights = Weights::read(folder)?;
    let table = TABLES.into_iter().find_map(|name| match weights.shape(name) {
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
                TABLES[0],
                TABLES[1]
            ),
        )),
    }
}
