//! Published language models for text generation: model, tokenizer, end tokens and chat template. Also writes
//! fine-tuned models in the published form.

use super::chat::ChatTemplate;
use super::classifier::config_text;
use super::config::{FolderConfig, own_settings, pretrained_decoder};
use super::tokenizer::read_tokenizer;
use super::weights::published_tensors;
use super::{DecoderCheckpoint, files};
use crate::Result;
use crate::model_folder::{
    CHAT_TEMPLATE, CONFIG, GENERATION, SPECIAL_TOKENS, Snapshot, TOKENIZER, TOKENIZER_CONFIG, WEIGHTS,
    serialize_tensors,
};
use crate::params::Params;
use crate::text::TextTokenizer;
use chumoku_kernels::Precision;
use chumoku_nn::pretrained::TensorSource;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A language model read from a folder.
#[derive(Debug)]
pub(crate) struct PublishedGenerator {
    pub(crate) origin: DecoderOrigin,
    pub(crate) precision: Precision,
    /// True if Chumoku fine-tuned it, on documents that each end with one of `end_tokens`.
    pub(crate) is_fine_tuned: bool,
    pub(crate) decoder: DecoderCheckpoint,
    pub(crate) tokenizer: TextTokenizer,
    /// The token to begin with if the prompt is empty.
    pub(crate) start_token: u32,
    /// Tokens that end a text.
    pub(crate) end_tokens: Vec<u32>,
    pub(crate) chat: Option<ChatTemplate>,
}

/// The published form of a language model, in which it is written again.
#[derive(Clone, Debug)]
pub struct DecoderOrigin {
    config: Map<String, Value>,
    tensors: Vec<(String, TensorSource)>,
    /// Files of the folder that are copied unchanged.
    copied_files: Vec<(&'static str, Vec<u8>)>,
}

/// Chumoku's own settings in the `config.json` of a fine-tuned model.
#[derive(Deserialize, Serialize)]
struct OwnSettings {
    chumoku_version: String,
    /// Precision of training and of the scores.
    #[serde(with = "crate::model_folder::precision")]
    precision: Precision,
}

impl DecoderOrigin {
    /// Returns the folder's `model_type`.
    pub(crate) fn model_type(&self) -> &str {
        self.config.get("model_type").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the files of a folder with these parameters, in the published form.
    pub(crate) fn files(&self, params: &Params<f32>, precision: Precision) -> Vec<(&'static str, Vec<u8>)> {
        let ours = OwnSettings { chumoku_version: env!("CARGO_PKG_VERSION").into(), precision };
        let weights = serialize_tensors(&published_tensors(params, &self.tensors));
        let mut files = self.copied_files.clone();
        files.extend([(CONFIG, config_text(self.config.clone(), &ours).into_bytes()), (WEIGHTS, weights)]);
        files
    }
}

/// The settings read from `generation_config.json`, or from `config.json` if they are missing there.
#[derive(Default, Deserialize)]
struct BoundaryTokens {
    bos_token_id: Option<TokenIds>,
    eos_token_id: Option<TokenIds>,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum TokenIds {
    One(u32),
    Several(Vec<u32>),
}

impl TokenIds {
    pub(super) fn into_vec(self) -> Vec<u32> {
        match self {
            TokenIds::One(id) => vec![id],
            TokenIds::Several(ids) => ids,
        }
    }
}

impl PublishedGenerator {
    /// Reads a folder and validates everything in it.
    ///
    /// # Errors
    /// If a file is missing or damaged, does not fit the others, or needs an unsupported feature.
    pub(crate) fn read(folder: &Snapshot) -> Result<PublishedGenerator> {
        let config = FolderConfig::read(folder)?;
        // The small files first: their errors are reported before the large one is read.
        let vocab_size = pretrained_decoder(folder, &config)?.config.vocab_size;
        let pretrained = read_tokenizer(folder, vocab_size)?.parsing_special_tokens();
        let tokenizer = TextTokenizer::from_pretrained(pretrained)?;
        let chat = ChatTemplate::read(folder)?;
        let of_generation: BoundaryTokens = files::optional_json(folder, GENERATION)?.unwrap_or_default();
        let of_model: BoundaryTokens = config.parse(folder)?;
        let known = |ids: Option<TokenIds>| ids.map(TokenIds::into_vec).unwrap_or_default().into_iter();
        let known = |ids| known(ids).filter(|&id| (id as usize) < vocab_size).collect::<Vec<u32>>();
        let either = |ids: Vec<u32>, others: Vec<u32>| if ids.is_empty() { others } else { ids };
        let ends = either(known(of_generation.eos_token_id), known(of_model.eos_token_id));
        let begins = either(known(of_generation.bos_token_id), known(of_model.bos_token_id));
        let first = begins.first().or(ends.first()).copied().unwrap_or(0);
        let values = config.object(folder)?.clone();
        let ours: Option<OwnSettings> = own_settings(folder, &values)?;
        let precision = ours.as_ref().map_or(config.precision(), |ours| ours.precision);
        let decoder = DecoderCheckpoint::from_snapshot(folder, Some(precision))?;
        let mut files =
            files::read_existing(folder, &[TOKENIZER, TOKENIZER_CONFIG, SPECIAL_TOKENS, CHAT_TEMPLATE, GENERATION])?;
        if !files::exists(folder, TOKENIZER) {
            files.push((TOKENIZER, tokenizer.to_json()?.into_bytes()));
        }
        let origin = DecoderOrigin { config: values, tensors: decoder.source.tensors.clone(), copied_files: files };
        let is_trained_here = ours.is_some();
        Ok(PublishedGenerator {
            origin,
            precision,
            is_fine_tuned: is_trained_here,
            decoder,
            tokenizer,
            start_token: first,
            end_tokens: ends,
            chat,
        })
    }
}
