//! Text generation by a language model, trained here or published.

use super::settings::{INPUT_LENGTHS, VOCABULARY_SIZES, check_size};
use crate::error::layer_errors::layer_error_message;
use crate::lang::lang;
use crate::model_folder::{
    CONFIG, ModelKind, Snapshot, TOKENIZER, WEIGHTS, check_files, check_kind, check_no_extra_tensors, model_file_error,
    param_tensors, parse_weights, pretrained_kind, read_config, read_params, read_tokenizer, serialize_tensors,
    with_snapshot,
};
use crate::models::{LanguageModel, LanguageModelConfig};
use crate::nn::Offsets;
use crate::params::Params;
use crate::pretrained::{ChatMessage, ChatTemplate, DecoderCheckpoint, DecoderOrigin, PublishedGenerator};
use crate::sampling::Sampling;
use crate::text::TextTokenizer;
use crate::tr;
use crate::{Error, Result};
use chumoku_kernels::Precision;
use chumoku_nn::probability::log_sum_exp;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::path::Path;

/// The `config.json` of a language model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TextGeneratorConfig {
    /// "chumoku_language_model", or the type of a published model.
    pub model_type: String,
    /// The version of Chumoku that wrote the model.
    pub chumoku_version: String,
    /// The precision of matrix products, as in training and scoring.
    #[serde(with = "crate::model_folder::precision", default)]
    pub precision: Precision,
    /// The hash of the vocabulary, which ties `tokenizer.json` to the weights.
    pub vocabulary_sha256: String,
    /// The transformer.
    #[serde(flatten)]
    pub model: LanguageModelConfig,
}

/// A language model and its tokenizer.
#[derive(Debug)]
pub struct TextGenerator {
    /// The configuration.
    pub config: TextGeneratorConfig,
    /// The network.
    pub model: LanguageModel,
    /// The weights.
    pub params: Params<f32>,
    /// The tokenizer.
    pub tokenizer: TextTokenizer,
    /// Tokens around a text.
    pub boundaries: TextBoundaries,
    /// The original format of a published model.
    pub origin: Option<DecoderOrigin>,
}

/// The tokens at the start and end of a text, and the chat template.
#[derive(Clone, Debug)]
pub struct TextBoundaries {
    /// The input token for an empty prompt.
    start_token: u32,
    /// Generation ends at each of these tokens.
    end_tokens: Vec<u32>,
    /// The token at the end of a document, if the model was trained with one.
    pub document_end: Option<u32>,
    /// The chat template of a published model.
    chat_template: Option<ChatTemplate>,
}

impl TextBoundaries {
    /// Returns the boundaries of a model trained here: the same token precedes and follows a text.
    pub fn from_tokenizer(tokenizer: &TextTokenizer) -> TextBoundaries {
        TextBoundaries {
            start_token: tokenizer.cls_id(),
            end_tokens: vec![tokenizer.cls_id()],
            document_end: Some(tokenizer.cls_id()),
            chat_template: None,
        }
    }

    /// Marks the first end token as the end of documents, after training on documents that end with it.
    pub fn with_end(self) -> TextBoundaries {
        TextBoundaries { document_end: self.end_tokens.first().copied(), ..self }
    }
}

/// The reason why generation stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The model ended the document.
    End,
    /// The requested number of tokens was reached.
    MaxTokens,
    /// The caller stopped the generation.
    Caller,
}

/// A piece of generated text.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct GeneratedPiece<'a> {
    /// One or more complete characters.
    pub text: &'a str,
    /// The probability of its tokens, each given the tokens before it. It is the model's probability, independent of
    /// the temperature. Most pieces are one token. If a character takes several tokens, their probabilities are
    /// multiplied.
    pub probability: f64,
}

impl TextGenerator {
    /// Returns the parameters.
    pub fn params(&self) -> &Params<f32> {
        &self.params
    }

    /// Returns the configuration.
    pub fn config(&self) -> &TextGeneratorConfig {
        &self.config
    }

    /// Returns the number of parameters.
    pub fn num_parameters(&self) -> usize {
        self.params.values().len()
    }

    /// Returns `true` if the published model has a chat template, which [`TextGenerator::reply`] requires.
    pub fn has_chat_template(&self) -> bool {
        self.boundaries.chat_template.is_some()
    }

    /// Sets the precision of matrix products.
    pub fn set_precision(&mut self, precision: Precision) {
        self.config.precision = precision;
        self.params.set_precision(precision);
    }

    /// Returns the tokens of a text, after the special tokens at the start. Never empty.
    pub(crate) fn encode_prompt(&self, text: &str) -> Result<Vec<u32>> {
        let mut ids = self.tokenizer.special_tokens().prefix.clone();
        ids.extend(self.tokenizer.encode(text)?.ids);
        if ids.is_empty() {
            ids.push(self.boundaries.start_token);
        }
        Ok(ids)
    }

    /// Returns the input token for an empty prompt.
    pub(crate) fn start_token(&self) -> u32 {
        self.boundaries.start_token
    }

    /// Returns the first of the end tokens.
    pub(crate) fn end_token(&self) -> u32 {
        self.boundaries.end_tokens.first().copied().unwrap_or(self.boundaries.start_token)
    }

    /// Continues `prompt` by at most `max_tokens` tokens. Calls `write` with each piece of text as soon as its
    /// characters are complete.
    ///
    /// Memory does not grow with the text. Once the context is full, its older half is dropped and the rest is read
    /// again. The same seed, model and instruction set give the same text.
    ///
    /// The return value of `write` decides whether generation continues.
    ///
    /// # Errors
    /// If an option is out of its range, or the prompt cannot be tokenized.
    pub fn generate(
        &self,
        prompt: &str,
        max_tokens: usize,
        sampling: &Sampling,
        write: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<StopReason> {
        self.generate_pieces(prompt, max_tokens, sampling, &mut |piece| write(piece.text))
    }

    /// Generates text like [`TextGenerator::generate`], and passes each piece with its probability.
    ///
    /// # Errors
    /// As for [`TextGenerator::generate`].
    pub fn generate_pieces(
        &self,
        prompt: &str,
        max_tokens: usize,
        sampling: &Sampling,
        write: &mut dyn FnMut(GeneratedPiece<'_>) -> ControlFlow<()>,
    ) -> Result<StopReason> {
        let prompt = self.encode_prompt(prompt)?;
        let written = StreamDecoder::with_context(&self.tokenizer, &prompt)?;
        self.generate_from(prompt, written, max_tokens, sampling, write)
    }

    /// Replies to chat messages. The model's chat template turns them into a prompt, which is continued as by
    /// [`TextGenerator::generate`].
    ///
    /// # Errors
    /// If the model has no chat template, or the template rejects the messages. Otherwise as for
    /// [`TextGenerator::generate`].
    pub fn reply(
        &self,
        messages: &[ChatMessage],
        max_tokens: usize,
        sampling: &Sampling,
        write: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<StopReason> {
        self.reply_pieces(messages, max_tokens, sampling, &mut |piece| write(piece.text))
    }

    /// Replies like [`TextGenerator::reply`], and passes each piece with its probability.
    ///
    /// # Errors
    /// As for [`TextGenerator::reply`].
    pub fn reply_pieces(
        &self,
        messages: &[ChatMessage],
        max_tokens: usize,
        sampling: &Sampling,
        write: &mut dyn FnMut(GeneratedPiece<'_>) -> ControlFlow<()>,
    ) -> Result<StopReason> {
        let Some(chat) = &self.boundaries.chat_template else {
            return Err(Error::Setting(tr!(
                "this model has no chat template: it can continue texts, but not answer messages",
                "このモデルにはチャットテンプレートがありません。文章の続きは書けますが、メッセージには答えられません"
            )));
        };
        // The template already includes the special tokens at the start.
        let mut prompt = self.tokenizer.encode(&chat.render(messages)?)?.ids;
        if prompt.is_empty() {
            prompt.push(self.boundaries.start_token);
        }
        self.generate_from(prompt, StreamDecoder::default(), max_tokens, sampling, write)
    }

    fn generate_from(
        &self,
        prompt: Vec<u32>,
        mut written: StreamDecoder,
        max_tokens: usize,
        sampling: &Sampling,
        write: &mut dyn FnMut(GeneratedPiece<'_>) -> ControlFlow<()>,
    ) -> Result<StopReason> {
        sampling.check()?;
        let context = self.config.model.max_length;
        // `seen` is the current context, and `new` its unread part.
        let mut seen = prompt;
        seen.drain(..seen.len().saturating_sub(context));
        let mut new = seen.clone();
        let mut state = self.model.start_decoding::<f32>(1)?;
        // The log-probability of the tokens that `write` has not received yet.
        let mut log_probability = 0.0;
        let mut hand_out = |text: &str, log_probability: &mut f64| match text.is_empty() {
            true => ControlFlow::Continue(()),
            false => write(GeneratedPiece { text, probability: std::mem::take(log_probability).exp() }),
        };
        for index in 0..max_tokens as u64 {
            let logits = self.model.step_last(&self.params, &new, &Offsets::from_lengths([new.len()]), &mut state)?;
            let mut last = logits.into_raw_vec_and_offset().0;
            // The unknown token is never generated.
            self.tokenizer.unknown_id().into_iter().for_each(|id| last[id as usize] = f32::NEG_INFINITY);
            let token = sampling.sample(&last, index)?;
            if self.boundaries.end_tokens.contains(&token) {
                let _ = hand_out(&written.finish(&self.tokenizer)?, &mut log_probability);
                return Ok(StopReason::End);
            }
            log_probability += f64::from(last[token as usize] - log_sum_exp(&last));
            if hand_out(&written.push(&self.tokenizer, token)?, &mut log_probability).is_break() {
                return Ok(StopReason::Caller);
            }
            seen.push(token);
            new = vec![token];
            if seen.len() > context {
                seen.drain(..seen.len() - context / 2);
                new.clone_from(&seen);
                state = self.model.start_decoding(1)?;
            }
        }
        let _ = hand_out(&written.finish(&self.tokenizer)?, &mut log_probability);
        Ok(StopReason::MaxTokens)
    }

    /// Returns the files of the model, by name.
    pub fn files(&self) -> Result<Vec<(&'static str, Vec<u8>)>> {
        if let Some(origin) = &self.origin {
            return Ok(origin.files(&self.params, self.config.precision));
        }
        let config = serde_json::to_string_pretty(&self.config).expect("a configuration is plain data") + "\n";
        let tokenizer = self.tokenizer.to_json()?;
        let weights = serialize_tensors(&param_tensors(&self.params));
        Ok(vec![(CONFIG, config.into_bytes()), (TOKENIZER, tokenizer.into_bytes()), (WEIGHTS, weights)])
    }

    /// Reads a model folder. Input is validated.
    ///
    /// # Errors
    /// If a file is missing, damaged, or inconsistent with the others, or the folder holds another kind of model.
    pub fn load(folder: &Path) -> Result<TextGenerator> {
        with_snapshot(folder, TextGenerator::from_snapshot)
    }

    /// Reads a model from a snapshot of its folder.
    ///
    /// # Errors
    /// If a file is missing, damaged or of another model.
    pub fn from_snapshot(folder: &Snapshot) -> Result<TextGenerator> {
        if pretrained_kind(folder) == Some(ModelKind::LanguageModel) {
            return TextGenerator::load_pretrained(folder);
        }
        check_files(folder, &[CONFIG])?;
        check_kind(folder, ModelKind::LanguageModel, lang().pick("a language model", "言語モデル"))?;
        check_files(folder, &[TOKENIZER, WEIGHTS])?;
        let config: TextGeneratorConfig = read_config(folder)?;
        config.check().map_err(|problem| model_file_error(folder, CONFIG, problem))?;
        let (size, sha256) = (config.model.vocab_size, Some(&*config.vocabulary_sha256));
        let tokenizer = read_tokenizer(folder, TOKENIZER, size, sha256)?;
        let bytes = folder.read_weights(WEIGHTS)?;
        let tensors = parse_weights(folder, WEIGHTS, &bytes)?;
        let model = LanguageModel::new(config.model.clone())
            .map_err(|error| model_file_error(folder, CONFIG, error.to_string()))?;
        let params = read_params(folder, &tensors, model.layout(), config.precision)?;
        check_no_extra_tensors(folder, &tensors, Some(model.layout()), &[])?;
        let bounds = TextBoundaries::from_tokenizer(&tokenizer);
        Ok(TextGenerator { config, model, params, tokenizer, boundaries: bounds, origin: None })
    }

    fn load_pretrained(folder: &Snapshot) -> Result<TextGenerator> {
        let found = PublishedGenerator::read(folder)?;
        let DecoderCheckpoint { model, params, .. } = found.decoder;
        let config = TextGeneratorConfig {
            model_type: found.origin.model_type().into(),
            chumoku_version: env!("CARGO_PKG_VERSION").into(),
            precision: found.precision,
            vocabulary_sha256: found.tokenizer.vocabulary_sha256(),
            model: model.config().clone(),
        };
        config.check().map_err(|problem| model_file_error(folder, CONFIG, problem))?;
        let bounds = TextBoundaries {
            start_token: found.start_token,
            end_tokens: found.end_tokens,
            document_end: None,
            chat_template: found.chat,
        };
        let bounds = if found.is_fine_tuned { bounds.with_end() } else { bounds };
        Ok(TextGenerator {
            config,
            model,
            params,
            tokenizer: found.tokenizer,
            boundaries: bounds,
            origin: Some(found.origin),
        })
    }
}

/// Decodes a stream of tokens incrementally. The text of a token may depend on the tokens before it. The first piece of
/// a word, for example, starts with a space, except at the start of a text. A character may take several tokens.
#[derive(Debug, Default)]
struct StreamDecoder {
    /// The tokens that are decoded again with each new token.
    tokens: Vec<u32>,
    /// The number of bytes of their text that have been emitted.
    emitted_bytes: usize,
}

impl StreamDecoder {
    /// The minimum number of context tokens. Earlier tokens do not change the text of later ones.
    const CONTEXT_TOKENS: usize = 4;
    /// The maximum number of buffered tokens, even if their text ends with an incomplete character.
    const MAX_TOKENS: usize = 16;

    /// Starts after tokens whose text is not emitted.
    fn with_context(tokenizer: &TextTokenizer, tokens: &[u32]) -> Result<StreamDecoder> {
        let tokens = tokens[tokens.len().saturating_sub(Self::CONTEXT_TOKENS)..].to_vec();
        let bytes = tokenizer.decode(&tokens)?.len();
        Ok(StreamDecoder { tokens, emitted_bytes: bytes })
    }

    /// Adds a token and returns the new complete characters.
    fn push(&mut self, tokenizer: &TextTokenizer, token: u32) -> Result<String> {
        self.tokens.push(token);
        let text = tokenizer.decode(&self.tokens)?;
        let is_whole = !text.ends_with('\u{FFFD}') || self.tokens.len() >= Self::MAX_TOKENS;
        let whole = if is_whole { &text[..] } else { text.trim_end_matches('\u{FFFD}') };
        let new = whole.get(self.emitted_bytes..).unwrap_or_default().to_owned();
        self.emitted_bytes = self.emitted_bytes.max(whole.len());
        if is_whole && self.tokens.len() > 2 * Self::CONTEXT_TOKENS {
            *self = StreamDecoder::with_context(tokenizer, &self.tokens)?;
        }
        Ok(new)
    }

    /// Returns the remaining text.
    fn finish(&self, tokenizer: &TextTokenizer) -> Result<String> {
        Ok(tokenizer.decode(&self.tokens)?.get(self.emitted_bytes..).unwrap_or_default().to_owned())
    }
}

impl TextGeneratorConfig {
    /// Checks the configuration.
    pub(crate) fn check(&self) -> Result<(), String> {
        let m = &self.model;
        m.encoder.check().map_err(|error| layer_error_message(&error))?;
        check_size("vocab_size", m.vocab_size, VOCABULARY_SIZES)?;
        check_size("max_length", m.max_length, INPUT_LENGTHS)?;
        Ok(())
    }
}
