//! A trained language model as a whole: its folder, and the text that it writes.

use crate::lang::lang;
use crate::model_folder::{
    CONFIG, ModelKind, ModelType, TOKENIZER, WEIGHTS, check_files, check_no_others, fault, parse_weights, read,
    read_config, read_params, read_tokenizer, serialize, tensors_of, write_model,
};
use crate::models::{LanguageModel, LanguageModelConfig};
use crate::nn::Offsets;
use crate::of_layers::of_layers;
use crate::params::Params;
use crate::sampling::Sampling;
use crate::text::TextTokenizer;
use crate::tr;
use crate::{Error, Result};
use chumoku_kernels::Precision;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::path::Path;

/// `config.json`: what kind of model the folder holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TextGeneratorConfig {
    /// Always "chumoku_language_model".
    pub model_type: String,
    /// The version that wrote it.
    pub chumoku_version: String,
    /// How exact matrix products are: what the model was trained and scored with.
    #[serde(with = "crate::precision", default)]
    pub precision: Precision,
    /// Of the vocabulary: what ties `tokenizer.json` to the weights.
    pub vocabulary_sha256: String,
    /// The transformer.
    #[serde(flatten)]
    pub model: LanguageModelConfig,
}

/// A language model and its tokenizer.
#[derive(Debug)]
pub struct TextGenerator {
    pub(crate) config: TextGeneratorConfig,
    pub(crate) model: LanguageModel,
    pub(crate) params: Params<f32>,
    pub(crate) tokenizer: TextTokenizer,
}

/// Why a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// The model ended the document.
    End,
    /// As many tokens as asked for.
    Enough,
    /// Whoever reads it had enough.
    Asked,
}

impl TextGenerator {
    /// Its parameters.
    pub fn params(&self) -> &Params<f32> {
        &self.params
    }

    /// What the model is.
    pub fn config(&self) -> &TextGeneratorConfig {
        &self.config
    }

    /// Numbers that training changed.
    pub fn num_parameters(&self) -> usize {
        self.params.values().len()
    }

    /// Continues `prompt` by at most `max_tokens` tokens, handing out the new text piece by piece, each as soon as it is
    /// known to be whole characters.
    ///
    /// Memory does not grow with what is written: once the context is full, its older half is forgotten and the rest read
    /// again. The same seed, model and instruction set give the same text.
    ///
    /// `write` says whether to go on.
    ///
    /// # Errors
    /// If an option is out of its range, or the prompt cannot be read as tokens.
    pub fn generate(
        &self,
        prompt: &str,
        max_tokens: usize,
        sampling: &Sampling,
        write: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Stop> {
        sampling.check()?;
        let context = self.config.model.max_length;
        let boundary = self.tokenizer.cls();
        // What the model has in view, and what it has not seen yet.
        let mut seen = vec![boundary];
        seen.extend(self.tokenizer.encode(prompt)?.ids);
        seen.drain(..seen.len().saturating_sub(context));
        let mut new = seen.clone();
        let mut state = self.model.start::<f32>(1)?;
        // Tokens whose text has not been handed out.
        let mut pending = Vec::new();
        for index in 0..max_tokens as u64 {
            let logits = self.model.step(&self.params, &new, &Offsets::of_lengths([new.len()]), &mut state)?;
            let mut last = logits.row(logits.nrows() - 1).to_vec();
            // A word that is unknown cannot be written.
            self.tokenizer.unknown().into_iter().for_each(|id| last[id as usize] = f32::NEG_INFINITY);
            let token = sampling.choose(&last, index)?;
            if token == boundary {
                let _ = self.flush(&mut pending, true, write)?;
                return Ok(Stop::End);
            }
            pending.push(token);
            if self.flush(&mut pending, false, write)?.is_break() {
                return Ok(Stop::Asked);
            }
            seen.push(token);
            new = vec![token];
            if seen.len() > context {
                seen.drain(..seen.len() - context / 2);
                new.clone_from(&seen);
                state = self.model.start(1)?;
            }
        }
        let _ = self.flush(&mut pending, true, write)?;
        Ok(Stop::Enough)
    }

    /// Hands out the text of `pending`, unless more tokens may complete its last character.
    fn flush(
        &self,
        pending: &mut Vec<u32>,
        is_last: bool,
        write: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        /// Bytes of a character at most.
        const CHARACTER: usize = 4;
        let text = self.tokenizer.decode(pending)?;
        if is_last || pending.len() >= CHARACTER || !text.ends_with('\u{FFFD}') {
            pending.clear();
            if !text.is_empty() {
                return Ok(write(&text));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Writes `config.json`, `tokenizer.json` and `model.safetensors`, in the place of those of a model that is there.
    ///
    /// Killed at any moment, it leaves the folder with the old model or with the new one.
    ///
    /// # Errors
    /// If a file cannot be written, or one of these names is that of a file that Chumoku did not write.
    pub fn save(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(Error::writing("creating", folder))?;
        write_model(folder, &self.files()?)
    }

    /// The files that are needed to use it.
    pub(crate) fn files(&self) -> Result<Vec<(&'static str, Vec<u8>)>> {
        let config = serde_json::to_string_pretty(&self.config).expect("a configuration is plain data") + "\n";
        let tokenizer = self.tokenizer.to_json()?;
        let weights = serialize(&tensors_of(&self.params));
        Ok(vec![(CONFIG, config.into_bytes()), (TOKENIZER, tokenizer.into_bytes()), (WEIGHTS, weights)])
    }

    /// Reads a model folder, trusting nothing in it.
    ///
    /// # Errors
    /// If a file is missing, damaged, or does not fit the others, or the folder holds another kind of model.
    pub fn load(folder: &Path) -> Result<TextGenerator> {
        check_files(folder, &[CONFIG, TOKENIZER, WEIGHTS])?;
        let kind: ModelType = read_config(folder)?;
        if kind.model_type != ModelKind::LanguageModel.model_type() {
            return Err(fault(folder, CONFIG, kind.is_not(lang().pick("a language model", "言語モデル"))));
        }
        let config: TextGeneratorConfig = read_config(folder)?;
        config.check().map_err(|problem| fault(folder, CONFIG, problem))?;
        let (size, sha256) = (config.model.vocab_size, Some(&*config.vocabulary_sha256));
        let tokenizer = read_tokenizer(folder, TOKENIZER, size, sha256)?;
        let bytes = read(folder, WEIGHTS)?;
        let tensors = parse_weights(folder, &bytes)?;
        let model =
            LanguageModel::new(config.model.clone()).map_err(|error| fault(folder, CONFIG, error.to_string()))?;
        let params = read_params(folder, &tensors, model.layout(), config.precision)?;
        check_no_others(folder, &tensors, Some(model.layout()), &[])?;
        Ok(TextGenerator { config, model, params, tokenizer })
    }
}

impl TextGeneratorConfig {
    /// What is wrong with it, if anything.
    pub(crate) fn check(&self) -> Result<(), String> {
        let m = &self.model;
        m.encoder.check().map_err(|error| of_layers(&error))?;
        for (name, size, least, most) in
            [("vocab_size", m.vocab_size, 1, 1 << 24), ("max_length", m.max_length, 2, 1 << 20)]
        {
            if size < least || size > most {
                return Err(tr!(
                    "{name}: expected {least} to {most}, found {size}",
                    "{name}: {least} から {most} までが必要ですが、{size} です"
                ));
            }
        }
        Ok(())
    }
}
