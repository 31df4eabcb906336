//! Autoencoders: translators from a text to itself, whose decoder sees a vector of few numbers.

use super::embedder::{EmbedOptions, Embeddings, finish_vectors};
use super::translator::{TextTranslator, TextTranslatorConfig, TranslateOptions, Translation};
use crate::lang::lang;
use crate::model_folder::{ModelKind, with_snapshot};
use crate::nn::Offsets;
use crate::parallel_batches::{BATCH_TOKENS, batches_by_length, map_batches};
use crate::{Error, Result, tr};
use chumoku_kernels::{Precision, parallel};
use ndarray::Array2;
use std::path::Path;

/// A transformer that writes a text again from its code, the numbers that pass the bottleneck.
#[derive(Debug)]
pub struct TextAutoencoder(
    /// The model, as a translator of a text to itself.
    pub TextTranslator,
);

impl TextAutoencoder {
    /// Reads a model folder. Input is validated.
    ///
    /// # Errors
    /// If a file is missing, damaged, or inconsistent with the others, or the folder holds another kind of model.
    pub fn load(folder: &Path) -> Result<TextAutoencoder> {
        let expected = lang().pick("an autoencoder", "オートエンコーダー");
        with_snapshot(folder, |folder| TextTranslator::from_snapshot(folder, ModelKind::Autoencoder, expected))
            .map(TextAutoencoder)
    }

    /// Sets the precision of matrix products.
    pub fn set_precision(&mut self, precision: Precision) {
        self.0.set_precision(precision);
    }

    /// Returns the configuration.
    pub fn config(&self) -> &TextTranslatorConfig {
        &self.0.config
    }

    /// Returns the number of parameters.
    pub fn num_parameters(&self) -> usize {
        self.0.num_parameters()
    }

    /// Returns the width of the bottleneck.
    pub fn embedding_dim(&self) -> usize {
        self.0.config.model.options.bottleneck.unwrap_or_default()
    }

    /// Returns the maximum number of tokens in a text.
    pub fn max_tokens(&self) -> usize {
        self.0.config.model.max_length - 1
    }

    /// Writes each text again from its code.
    ///
    /// # Errors
    /// As for [`TextTranslator::translate`].
    pub fn reconstruct(&self, texts: &[&str], options: &TranslateOptions) -> Result<Vec<Translation>> {
        self.0.translate(texts, options)
    }

    /// Returns the code of each text. Codes are not normalized by default.
    ///
    /// # Errors
    /// If a prompt is given, a text cannot be tokenized, or a number is not finite.
    pub fn embed(&self, texts: &[&str], options: EmbedOptions<'_>) -> Result<Embeddings> {
        if let Some(name) = options.prompt {
            return Err(Error::Setting(tr!(
                "prompt {name}: an autoencoder has no prompts; leave it out",
                "プロンプト {name}: オートエンコーダーにプロンプトはありません。指定を外してください"
            )));
        }
        let (model, params) = (&self.0.model, &self.0.params);
        let sources =
            parallel::map(texts, |text| self.0.encode_source(text)).into_iter().collect::<Result<Vec<_>>>()?;
        let lengths: Vec<usize> = sources.iter().map(|(ids, _)| ids.len()).collect();
        let batches = batches_by_length(&lengths, BATCH_TOKENS);
        let codes = map_batches(&batches, |batch| {
            let ids: Vec<u32> = batch.iter().flat_map(|&i| sources[i].0.iter().copied()).collect();
            Ok(model.codes(params, &ids, &Offsets::from_lengths(batch.iter().map(|&i| lengths[i])))?)
        })?;
        let mut vectors = Array2::zeros((texts.len(), self.embedding_dim()));
        for (batch, codes) in batches.iter().zip(codes.iter().flatten()) {
            batch.iter().zip(codes.rows()).for_each(|(&i, code)| vectors.row_mut(i).assign(&code));
        }
        let truncated = sources.iter().filter(|(_, is_cut)| *is_cut).count();
        Ok(Embeddings { vectors: finish_vectors(vectors, options.normalize.unwrap_or(false))?, truncated })
    }

    /// Writes `config.json`, the tokenizer and `model.safetensors`, as [`TextTranslator::save`] does.
    ///
    /// # Errors
    /// As for [`TextTranslator::save`].
    pub fn save(&self, folder: &Path) -> Result<()> {
        self.0.save(folder)
    }
}
