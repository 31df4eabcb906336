//! Reads model folders in Hugging Face's format and validates everything. They contain `config.json`, weights as
//! safetensors (one file, or shards with an index), and `tokenizer.json`, `vocab.txt` or SentencePiece files.
//! sentence-transformers adds `modules.json`, pooling, normalization and prompts.
//!
//! # Files
//!
//! - `chat`: chat templates
//! - `classifier`: sequence classifiers
//! - `config`: `config.json`
//! - `files`: files of a published folder
//! - `generator`: language models
//! - `masked_language_model`: masked language models
//! - `sentence_settings`: pooling and prompts of sentence-transformers
//! - `static_vectors`: static embeddings
//! - `tokenizer`: the tokenizer of a folder
//! - `translator`: translators
//! - `weights`: safetensors and shards

mod chat;
mod classifier;
mod config;
mod files;
mod generator;
mod masked_language_model;
mod sentence_settings;
mod static_vectors;
mod tokenizer;
mod translator;
mod weights;

pub use chat::ChatMessage;
pub(crate) use chat::ChatTemplate;
pub(crate) use classifier::PublishedClassifier;
pub use classifier::{ClassifierOrigin, FineTuningBase};
pub use generator::DecoderOrigin;
pub(crate) use generator::PublishedGenerator;
pub use masked_language_model::{MASK, PAD, masked_model_files};
pub(crate) use sentence_settings::{DenseProjection, SentenceSettings, encoder_folder};
pub(crate) use tokenizer::{read_max_tokens, read_tokenizer};
pub(crate) use translator::{PublishedTranslator, TranslationRules};

use crate::Result;
use crate::error::layer_errors::layer_error_message;
use crate::model_folder::{CONFIG, Snapshot, model_file_error, with_snapshot};
use crate::models::{LanguageModel, TextEncoder, Translator};
use crate::params::Params;
use crate::text::PretrainedTokenizer;
use chumoku_kernels::Precision;
use chumoku_nn::pretrained::{PretrainedDecoder, PretrainedEncoder, PretrainedTranslator};
use config::{FolderConfig, pretrained_decoder, pretrained_encoder, pretrained_translator};
pub(crate) use static_vectors::no_layers_error;
use static_vectors::static_vectors;
use std::path::Path;
use tokenizer::read_with_tokenizer;
use weights::{TensorNames, WeightFiles};

/// A pretrained encoder, read from its folder.
#[derive(Debug)]
#[non_exhaustive]
pub struct EncoderCheckpoint {
    /// The model.
    pub model: TextEncoder,
    /// Its parameters.
    pub params: Params<f32>,
    /// The published architecture and the names of the folder's tensors.
    pub source: PretrainedEncoder,
}

impl EncoderCheckpoint {
    /// Reads a folder and validates everything in it. `precision` is that of matrix products; by default the folder's
    /// own.
    ///
    /// # Errors
    /// If a file is missing or damaged, does not fit the others, or needs an unsupported feature.
    pub fn read(folder: &Path, precision: Option<Precision>) -> Result<EncoderCheckpoint> {
        with_snapshot(folder, |folder| EncoderCheckpoint::from_snapshot(folder, precision))
    }

    pub(crate) fn from_snapshot(folder: &Snapshot, precision: Option<Precision>) -> Result<EncoderCheckpoint> {
        let (source, precision) = EncoderCheckpoint::read_config(folder, precision)?;
        let model = EncoderCheckpoint::model(folder, &source)?;
        let params = EncoderCheckpoint::read_params(folder, &model, &source, precision)?;
        Ok(EncoderCheckpoint { model, params, source })
    }

    /// Reads a folder together with its tokenizer.
    pub(crate) fn read_with_tokenizer(
        folder: &Snapshot,
        precision: Option<Precision>,
    ) -> Result<(EncoderCheckpoint, PretrainedTokenizer)> {
        let (source, precision) = EncoderCheckpoint::read_config(folder, precision)?;
        let model = EncoderCheckpoint::model(folder, &source)?;
        let weights = || EncoderCheckpoint::read_params(folder, &model, &source, precision);
        let (params, mut tokenizer) = read_with_tokenizer(folder, model.config().vocab_size, weights)?;
        if source.is_static() {
            tokenizer = tokenizer.without_special_tokens();
        }
        Ok((EncoderCheckpoint { model, params, source }, tokenizer))
    }

    /// Reads the published architecture, and the precision of matrix products.
    fn read_config(folder: &Snapshot, precision: Option<Precision>) -> Result<(PretrainedEncoder, Precision)> {
        let (source, stored) = match static_vectors(folder)? {
            Some(source) => (source, Precision::default()),
            None => {
                let config = FolderConfig::read(folder)?;
                (pretrained_encoder(folder, &config)?, config.precision())
            }
        };
        Ok((source, precision.unwrap_or(stored)))
    }

    /// Returns the model of a published architecture.
    fn model(folder: &Snapshot, source: &PretrainedEncoder) -> Result<TextEncoder> {
        TextEncoder::new(source.config.clone())
            .map_err(|error| model_file_error(folder, CONFIG, layer_error_message(&error)))
    }

    fn read_params(
        folder: &Snapshot,
        model: &TextEncoder,
        source: &PretrainedEncoder,
        precision: Precision,
    ) -> Result<Params<f32>> {
        let tensors = source.classifier_tensors();
        let names = TensorNames { tensors: &tensors, prefix: source.prefix };
        WeightFiles::read(folder)?.params(names, model.layout(), precision)
    }
}

/// A pretrained language model, read from its folder.
#[derive(Debug)]
#[non_exhaustive]
pub struct DecoderCheckpoint {
    /// The model.
    pub model: LanguageModel,
    /// Its parameters.
    pub params: Params<f32>,
    /// The published architecture and the names of the folder's tensors.
    pub source: PretrainedDecoder,
}

impl DecoderCheckpoint {
    /// Reads a folder and validates everything in it. `precision` is that of matrix products; by default the folder's
    /// own.
    ///
    /// # Errors
    /// If a file is missing or damaged, does not fit the others, or needs an unsupported feature.
    pub fn read(folder: &Path, precision: Option<Precision>) -> Result<DecoderCheckpoint> {
        with_snapshot(folder, |folder| DecoderCheckpoint::from_snapshot(folder, precision))
    }

    pub(crate) fn from_snapshot(folder: &Snapshot, precision: Option<Precision>) -> Result<DecoderCheckpoint> {
        let config = FolderConfig::read(folder)?;
        let source = pretrained_decoder(folder, &config)?;
        let model = LanguageModel::new(source.config.clone())
            .map_err(|error| model_file_error(folder, CONFIG, layer_error_message(&error)))?;
        let precision = precision.unwrap_or_else(|| config.precision());
        let names = TensorNames { tensors: &source.tensors, prefix: source.prefix };
        let params = WeightFiles::read(folder)?.params(names, model.layout(), precision)?;
        Ok(DecoderCheckpoint { model, params, source })
    }
}

/// A pretrained translator, read from its folder.
#[derive(Debug)]
#[non_exhaustive]
pub struct TranslatorCheckpoint {
    /// The model.
    pub model: Translator,
    /// Its parameters.
    pub params: Params<f32>,
    /// The published architecture and the names of the folder's tensors.
    pub source: PretrainedTranslator,
}

impl TranslatorCheckpoint {
    /// Reads a folder and validates everything in it. `precision` is that of matrix products; by default the folder's
    /// own.
    ///
    /// # Errors
    /// If a file is missing or damaged, does not fit the others, or needs an unsupported feature.
    pub fn read(folder: &Path, precision: Option<Precision>) -> Result<TranslatorCheckpoint> {
        with_snapshot(folder, |folder| TranslatorCheckpoint::from_snapshot(folder, precision))
    }

    pub(crate) fn from_snapshot(folder: &Snapshot, precision: Option<Precision>) -> Result<TranslatorCheckpoint> {
        let config = FolderConfig::read(folder)?;
        let source = pretrained_translator(folder, &config)?;
        let model = Translator::new(source.config.clone())
            .map_err(|error| model_file_error(folder, CONFIG, layer_error_message(&error)))?;
        let precision = precision.unwrap_or_else(|| config.precision());
        let names = TensorNames { tensors: &source.tensors, prefix: "" };
        let params = WeightFiles::read(folder)?.params(names, model.layout(), precision)?;
        Ok(TranslatorCheckpoint { model, params, source })
    }
}
