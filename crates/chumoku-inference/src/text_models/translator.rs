//! Translators: model folder and translation.

use super::settings::{INPUT_LENGTHS, SMALL_COUNTS, VOCABULARY_SIZES, check_size};
use crate::decoding::{BeamCandidate, BeamSearch, Hypothesis, NextTokenModel};
use crate::error::layer_errors::layer_error_message;
use crate::lang::lang;
use crate::model_folder::{
    CONFIG, ModelKind, SOURCE_TOKENIZER, Snapshot, TOKENIZER, WEIGHTS, check_files, check_kind, check_no_extra_tensors,
    model_file_error, param_tensors, parse_weights, pretrained_kind, read_config, read_params, read_tokenizer,
    serialize_tensors, with_snapshot, write_model,
};
use crate::models::{TranslationBatch, Translator, TranslatorConfig, TranslatorState};
use crate::nn::{Memory, Offsets};
use crate::parallel_batches::{BATCH_TOKENS, batches_by_length, check_head, map_batches};
use crate::params::Params;
use crate::pretrained::{PublishedTranslator, TranslationRules, TranslatorCheckpoint};
use crate::text::TextTokenizer;
use crate::{Error, Result, sorting, tr};
use chumoku_kernels::{Precision, parallel};
use ndarray::{Array2, Array3};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The `config.json` of a translator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TextTranslatorConfig {
    /// "chumoku_translator", "chumoku_autoencoder", or the type of a published model.
    pub model_type: String,
    /// The version of Chumoku that wrote the model.
    pub chumoku_version: String,
    /// The names of source and target.
    pub names: [String; 2],
    /// The precision of matrix products, as in training and scoring.
    #[serde(with = "crate::model_folder::precision", default)]
    pub precision: Precision,
    /// The hashes of the source and target vocabulary, which tie the tokenizer files to the weights.
    pub vocabulary_sha256: [String; 2],
    /// The transformer.
    #[serde(flatten)]
    pub model: TranslatorConfig,
}

/// Translation options.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct TranslateOptions {
    /// The beam width. 1 takes the most probable token at each step.
    pub beam: usize,
    /// α of the length normalization (see [`BeamSearch`]).
    pub length_penalty: f64,
}

impl Default for TranslateOptions {
    fn default() -> Self {
        TranslateOptions { beam: 5, length_penalty: 0.6 }
    }
}

/// The best translations of a text.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Translation {
    /// The texts by descending score, each with its hypothesis. Never empty.
    pub hypotheses: Vec<(String, Hypothesis)>,
    /// The number of source tokens.
    pub(crate) source_tokens: usize,
    /// `true` if the source was truncated to the model's limit.
    pub is_truncated: bool,
}

impl Translation {
    /// Returns the best translation.
    pub fn text(&self) -> &str {
        self.hypotheses.first().map_or("", |(text, _)| text)
    }
}

/// The attention from the tokens of a translation to those of the source.
#[derive(Clone, Debug)]
pub struct TokenAlignment {
    /// The tokens of the source.
    pub source: Vec<String>,
    /// The tokens of the target, including the end token.
    pub target: Vec<String>,
    /// The weights of each decoder layer, (heads, target tokens, source tokens). Rows sum to 1.
    pub layers: Vec<Array3<f32>>,
}

/// A transformer for translation with its tokenizers.
#[derive(Debug)]
pub struct TextTranslator {
    /// The configuration.
    pub config: TextTranslatorConfig,
    /// The network.
    pub model: Translator,
    /// The weights.
    pub params: Params<f32>,
    /// The tokenizers of source and target.
    pub tokenizers: Tokenizers,
    /// Decoding settings of a published model.
    pub writing: Option<TranslationRules>,
}

/// The tokenizers of source and target.
#[derive(Clone, Debug)]
pub struct Tokenizers {
    /// The source tokenizer, unless the target tokenizer is used for both.
    pub source: Option<TextTokenizer>,
    /// The tokenizer of target texts.
    pub target: TextTokenizer,
}

impl Tokenizers {
    /// Returns the tokenizer of source texts.
    pub fn source(&self) -> &TextTokenizer {
        self.source.as_ref().unwrap_or(&self.target)
    }
}

impl TextTranslator {
    /// Sets the precision of matrix products.
    pub fn set_precision(&mut self, precision: Precision) {
        self.config.precision = precision;
        self.params.set_precision(precision);
    }

    /// Returns the parameters.
    pub fn params(&self) -> &Params<f32> {
        &self.params
    }

    /// Returns the configuration.
    pub fn config(&self) -> &TextTranslatorConfig {
        &self.config
    }

    /// Returns the number of parameters.
    pub fn num_parameters(&self) -> usize {
        self.params.values().len()
    }

    /// Returns the tokens that start and end a translation.
    pub(crate) fn start_and_end_tokens(&self) -> [u32; 2] {
        self.writing.as_ref().map_or([self.tokenizers.target.cls_id(); 2], |writing| writing.start_and_end)
    }

    /// Returns the token that ends a source.
    pub(crate) fn end_of_source(&self) -> u32 {
        self.writing.as_ref().map_or_else(|| self.tokenizers.source().cls_id(), |writing| writing.start_and_end[1])
    }

    /// Returns a batch of one source, end token included, and its translation.
    pub(crate) fn pair_batch(&self, source: &[u32], target: &[u32]) -> TranslationBatch {
        let mut pair = TranslationBatch::default();
        pair.push_with_boundaries(source, target, self.start_and_end_tokens());
        pair
    }

    /// Returns the maximum number of tokens in a translation without its end token. The limit allows any real
    /// translation and stops endless output.
    pub(crate) fn max_target_tokens(&self, source: usize) -> usize {
        let most = self.writing.as_ref().map_or(self.config.model.max_length, |writing| writing.max_length);
        (2 * source + 20).min(most - 1)
    }

    /// Returns the tokens of a source, truncated to the model's limit, and whether it was truncated.
    pub(crate) fn encode_source(&self, text: &str) -> Result<(Vec<u32>, bool)> {
        let tokenizer = self.tokenizers.source();
        let mut ids = tokenizer.encode(text)?.ids;
        // One position is for the end token.
        let is_cut = ids.len() > self.config.model.max_length - 1;
        ids.truncate(self.config.model.max_length - 1);
        ids.push(self.end_of_source());
        Ok((ids, is_cut))
    }

    /// Translates each text.
    ///
    /// The translation of a text does not depend on the other texts. Sources longer than the model's limit are
    /// truncated and marked.
    ///
    /// # Errors
    /// If the beam is 0 or wider than the vocabulary, or a text cannot be tokenized.
    pub fn translate(&self, texts: &[&str], options: &TranslateOptions) -> Result<Vec<Translation>> {
        self.translate_with(&self.params, texts, options)
    }

    /// Translates with these cross-attention heads switched off. Each head is (decoder layer, head), counted from 0. A
    /// head that is switched off adds nothing to the output of its layer.
    ///
    /// # Errors
    /// As for [`TextTranslator::translate`], and if there is no such head.
    pub fn translate_without_heads(
        &self,
        texts: &[&str],
        heads: &[[usize; 2]],
        options: &TranslateOptions,
    ) -> Result<Vec<Translation>> {
        self.translate_with(&self.params_without_heads(heads)?, texts, options)
    }

    pub(crate) fn params_without_heads(&self, heads: &[[usize; 2]]) -> Result<Params<f32>> {
        let model = &self.config.model;
        let mut params = self.params.clone();
        for &[layer, head] in heads {
            check_head([layer, head], [model.num_decoder_layers, model.decoder_num_heads()])?;
            self.model.cross_attention(layer).ablate_head(&mut params, head);
        }
        Ok(params)
    }

    pub(crate) fn translate_with(
        &self,
        params: &Params<f32>,
        texts: &[&str],
        options: &TranslateOptions,
    ) -> Result<Vec<Translation>> {
        let sources = parallel::map(texts, |text| self.encode_source(text)).into_iter().collect::<Result<Vec<_>>>()?;
        let lengths: Vec<usize> = sources.iter().map(|(ids, _)| ids.len()).collect();
        let batches = batches_by_length(&lengths, BATCH_TOKENS);
        let translated = map_batches(&batches, |batch| {
            let ids: Vec<u32> = batch.iter().flat_map(|&i| sources[i].0.iter().copied()).collect();
            let offsets = Offsets::from_lengths(batch.iter().map(|&i| lengths[i]));
            let limits: Vec<usize> = batch.iter().map(|&i| self.max_target_tokens(lengths[i])).collect();
            let found = self.search_observed(params, (&ids[..], &offsets), &limits, options, &mut |_| {})?;
            let each = batch.iter().zip(found).map(|(&i, hypotheses)| {
                let texts = hypotheses.into_iter().map(|h| Ok((self.tokenizers.target.decode(&h.ids)?, h)));
                let hypotheses = texts.collect::<Result<_>>()?;
                Ok((i, Translation { hypotheses, source_tokens: lengths[i] - 1, is_truncated: sources[i].1 }))
            });
            each.collect::<Result<Vec<_>>>()
        })?;
        let mut found: Vec<(usize, Translation)> = translated.into_iter().flatten().collect();
        sorting::sort_by_key(&mut found, |(i, _)| *i);
        Ok(found.into_iter().map(|(_, translation)| translation).collect())
    }

    /// Runs the beam search for some sources. `observe` receives the candidates of each step, source by source.
    pub(crate) fn search_observed(
        &self,
        params: &Params<f32>,
        (source, offsets): (&[u32], &Offsets),
        limits: &[usize],
        options: &TranslateOptions,
        observe: &mut dyn FnMut(&[BeamCandidate]),
    ) -> Result<Vec<Vec<Hypothesis>>> {
        let memory = self.model.encode(params, source, offsets)?;
        let longest = limits.iter().copied().max().unwrap_or(0);
        let memory = Memory { output: memory.view(), offsets: &self.model.memory_offsets(offsets) };
        let state = self.model.start_decoding(params, memory, longest + 1)?;
        let never = self.writing.as_ref().map_or(&[][..], |writing| &writing.banned);
        let mut model = TranslatorDecoder { model: &self.model, params, state, banned_tokens: never };
        Ok(self.beam_search(options).search_observed(&mut model, limits, &mut |_, considered| observe(considered))?)
    }

    pub(crate) fn beam_search(&self, options: &TranslateOptions) -> BeamSearch {
        BeamSearch {
            beam: options.beam,
            length_penalty: options.length_penalty,
            boundary_tokens: self.start_and_end_tokens(),
        }
    }

    /// Returns the attention from each target token to the source. Without a target, uses the best translation.
    ///
    /// # Errors
    /// If a text cannot be tokenized, or the target is longer than the model's limit.
    pub fn align(&self, source: &str, target: Option<&str>) -> Result<TokenAlignment> {
        let (source_ids, _) = self.encode_source(source)?;
        let (reader, writer) = (self.tokenizers.source(), &self.tokenizers.target);
        let target_ids = match target {
            Some(text) => writer.encode(text)?.ids,
            None => {
                let translation = self.translate(&[source], &TranslateOptions::default())?.pop();
                let best = translation.and_then(|translation| translation.hypotheses.into_iter().next());
                best.map(|(_, hypothesis)| hypothesis.ids).unwrap_or_default()
            }
        };
        let limit = self.config.model.max_length - 1;
        if target_ids.len() > limit {
            return Err(chumoku_nn::Error::TooLong { limit, found: target_ids.len() }.into());
        }
        let pair = self.pair_batch(&source_ids, &target_ids);
        let tokens = |tokenizer: &TextTokenizer, ids: &[u32]| ids.iter().map(|&id| tokenizer.token(id)).collect();
        Ok(TokenAlignment {
            source: tokens(reader, &source_ids),
            target: tokens(writer, &pair.output),
            layers: self.model.alignment(&self.params, &pair)?,
        })
    }

    /// Writes `config.json`, the tokenizers and `model.safetensors`, replacing those of an earlier model.
    ///
    /// A kill at any moment leaves the folder with the old model or the new one.
    ///
    /// # Errors
    /// If a file cannot be written, a file with one of these names was not written by Chumoku, or the model is a
    /// published one.
    pub fn save(&self, folder: &Path) -> Result<()> {
        if self.writing.is_some() {
            return Err(Error::Setting(tr!(
                "a published translator cannot be saved: copy its folder instead",
                "公開されている翻訳モデルは保存し直せません。フォルダをコピーしてください"
            )));
        }
        std::fs::create_dir_all(folder).map_err(Error::write("creating", folder))?;
        write_model(folder, self.files()?)
    }

    /// Returns the files of the model, by name.
    pub fn files(&self) -> Result<Vec<(&'static str, Vec<u8>)>> {
        let config = serde_json::to_string_pretty(&self.config).expect("a configuration is plain data") + "\n";
        let mut files =
            vec![(CONFIG, config.into_bytes()), (TOKENIZER, self.tokenizers.target.to_json()?.into_bytes())];
        if let Some(source) = &self.tokenizers.source {
            files.push((SOURCE_TOKENIZER, source.to_json()?.into_bytes()));
        }
        files.push((WEIGHTS, serialize_tensors(&param_tensors(&self.params))));
        Ok(files)
    }

    /// Reads a model folder. Input is validated.
    ///
    /// # Errors
    /// If a file is missing, damaged, or inconsistent with the others, or the folder holds another kind of model.
    pub fn load(folder: &Path) -> Result<TextTranslator> {
        with_snapshot(folder, |folder| match pretrained_kind(folder) {
            Some(ModelKind::Translator) => TextTranslator::load_pretrained(folder),
            _ => TextTranslator::from_snapshot(folder, ModelKind::Translator, lang().pick("a translator", "翻訳器")),
        })
    }

    /// Reads a model of this kind, called `expected` in messages: a translator or an autoencoder.
    pub(super) fn from_snapshot(folder: &Snapshot, kind: ModelKind, expected: &str) -> Result<TextTranslator> {
        check_files(folder, &[CONFIG])?;
        check_kind(folder, kind, expected)?;
        check_files(folder, &[TOKENIZER, WEIGHTS])?;
        let config: TextTranslatorConfig = read_config(folder)?;
        config.check().map_err(|problem| model_file_error(folder, CONFIG, problem))?;
        let [of_source, of_target] = &config.vocabulary_sha256;
        let target = read_tokenizer(folder, TOKENIZER, config.model.target_vocab_size, Some(of_target))?;
        let source = if config.model.joint_vocabulary {
            None
        } else {
            check_files(folder, &[SOURCE_TOKENIZER])?;
            Some(read_tokenizer(folder, SOURCE_TOKENIZER, config.model.source_vocab_size, Some(of_source))?)
        };
        let tokenizers = Tokenizers { source, target };
        let bytes = folder.read_weights(WEIGHTS)?;
        let tensors = parse_weights(folder, WEIGHTS, &bytes)?;
        let model = Translator::new(config.model.clone())
            .map_err(|error| model_file_error(folder, CONFIG, error.to_string()))?;
        let params = read_params(folder, &tensors, model.layout(), config.precision)?;
        check_no_extra_tensors(folder, &tensors, Some(model.layout()), &[])?;
        Ok(TextTranslator { config, model, params, tokenizers, writing: None })
    }

    fn load_pretrained(folder: &Snapshot) -> Result<TextTranslator> {
        let found = PublishedTranslator::read(folder)?;
        let TranslatorCheckpoint { model, params, .. } = found.checkpoint;
        let tokenizers = Tokenizers { source: found.source, target: found.target };
        let config = TextTranslatorConfig {
            model_type: found.model_type,
            chumoku_version: env!("CARGO_PKG_VERSION").into(),
            names: found.languages,
            precision: found.precision,
            vocabulary_sha256: [tokenizers.source(), &tokenizers.target].map(TextTokenizer::vocabulary_sha256),
            model: TranslatorConfig { max_length: found.max_length, ..model.config().clone() },
        };
        config.check().map_err(|problem| model_file_error(folder, CONFIG, problem))?;
        Ok(TextTranslator { config, model, params, tokenizers, writing: Some(found.rules) })
    }
}

impl TextTranslatorConfig {
    /// Checks the configuration.
    pub(crate) fn check(&self) -> Result<(), String> {
        let m = &self.model;
        m.encoder.check().map_err(|error| layer_error_message(&error))?;
        check_size("source_vocab_size", m.source_vocab_size, VOCABULARY_SIZES)?;
        check_size("target_vocab_size", m.target_vocab_size, VOCABULARY_SIZES)?;
        check_size("max_length", m.max_length, INPUT_LENGTHS)?;
        check_size("num_decoder_layers", m.num_decoder_layers, SMALL_COUNTS)?;
        m.decoder().check().map_err(|error| layer_error_message(&error))?;
        let is_autoencoder = self.model_type == ModelKind::Autoencoder.model_type();
        match m.options.bottleneck {
            Some(width) if is_autoencoder => check_size("bottleneck", width, SMALL_COUNTS)?,
            None if !is_autoencoder => {}
            _ => {
                return Err(tr!(
                    "bottleneck: expected one in autoencoders and in no other model",
                    "bottleneck: オートエンコーダーには必要で、ほかのモデルにはないはずです"
                ));
            }
        }
        if m.joint_vocabulary && m.source_vocab_size != m.target_vocab_size {
            let [a, b] = [m.source_vocab_size, m.target_vocab_size];
            return Err(tr!(
                "source_vocab_size: expected {b}, as the vocabulary is joint, found {a}",
                "source_vocab_size: 語彙が共通なので {b} のはずですが、{a} です"
            ));
        }
        Ok(())
    }
}

/// A translator during decoding.
struct TranslatorDecoder<'a> {
    model: &'a Translator,
    params: &'a Params<f32>,
    state: TranslatorState<f32>,
    /// Tokens that are never generated.
    banned_tokens: &'a [u32],
}

impl NextTokenModel for TranslatorDecoder<'_> {
    fn step(&mut self, ids: &[u32], of_source: &[usize]) -> chumoku_nn::Result<Array2<f32>> {
        let mut logits = self.model.step(self.params, ids, of_source, &mut self.state)?;
        self.banned_tokens.iter().for_each(|&id| logits.column_mut(id as usize).fill(f32::NEG_INFINITY));
        Ok(logits)
    }

    fn select(&mut self, sequences: &[usize], sources: &[usize]) -> chumoku_nn::Result<()> {
        self.state.select(sequences, sources)
    }
}
