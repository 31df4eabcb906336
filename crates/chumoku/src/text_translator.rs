//! A trained translator as a whole: its folder, and what it is asked.

use crate::decoding::{BeamCandidate, BeamSearch, Hypothesis, NextTokenModel};
use crate::inference::{batches_by_length, check_head, map_batches};
use crate::lang::lang;
use crate::layer_errors::layer_error_message;
use crate::model_folder::{
    CONFIG, ModelKind, ModelTypeConfig, SOURCE_TOKENIZER, Snapshot, TOKENIZER, WEIGHTS, check_files,
    check_no_extra_tensors, model_file_error, param_tensors, parse_weights, pretrained_kind, read_config, read_params,
    read_tokenizer, serialize_tensors, with_snapshot, write_model,
};
use crate::models::{TranslationBatch, Translator, TranslatorConfig, TranslatorState};
use crate::nn::{Memory, Offsets};
use crate::params::Params;
use crate::pretrained::{PublishedTranslator, TranslatorCheckpoint, Writing};
use crate::text::TextTokenizer;
use crate::tr;
use crate::{Error, Result, sorting};
use chumoku_kernels::{Precision, parallel};
use ndarray::{Array2, Array3};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// `config.json`: what kind of model the folder holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TextTranslatorConfig {
    /// "chumoku_translator", or what a published model is called.
    pub model_type: String,
    /// The version that wrote it.
    pub chumoku_version: String,
    /// What source and target are called.
    pub names: [String; 2],
    /// How exact matrix products are: what the model was trained and scored with.
    #[serde(with = "crate::precision", default)]
    pub precision: Precision,
    /// Of the vocabularies of source and target: what ties the tokenizers' files to the weights.
    pub vocabulary_sha256: [String; 2],
    /// The transformer.
    #[serde(flatten)]
    pub model: TranslatorConfig,
}

/// How to translate.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct TranslateOptions {
    /// Hypotheses that are followed at a time; 1 takes the most probable token at each step.
    pub beam: usize,
    /// α of the length normalisation (see [`BeamSearch`]).
    pub length_penalty: f64,
}

impl Default for TranslateOptions {
    fn default() -> Self {
        TranslateOptions { beam: 5, length_penalty: 0.6 }
    }
}

/// A translation of a text, and the next best.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Translation {
    /// The texts by falling score, each with what the search knows of it; at least one.
    pub hypotheses: Vec<(String, Hypothesis)>,
    /// Tokens of the source.
    pub source_tokens: usize,
    /// Whether the source had more tokens than the model reads, so that its end was left out.
    pub is_truncated: bool,
}

impl Translation {
    /// The best text.
    pub fn text(&self) -> &str {
        self.hypotheses.first().map_or("", |(text, _)| text)
    }
}

/// Where a translation's tokens look in the source.
#[derive(Clone, Debug)]
pub struct TokenAlignment {
    /// The source's tokens.
    pub source: Vec<String>,
    /// The target's tokens and its end.
    pub target: Vec<String>,
    /// For each layer of the decoder (heads, target tokens, source tokens), rows summing to 1.
    pub layers: Vec<Array3<f32>>,
}

/// A transformer that translates, and its tokenizers.
#[derive(Debug)]
pub struct TextTranslator {
    pub(crate) config: TextTranslatorConfig,
    pub(crate) model: Translator,
    pub(crate) params: Params<f32>,
    pub(crate) tokenizers: Tokenizers,
    /// Of a published model.
    pub(crate) writing: Option<Writing>,
}

/// The tokenizers of both sides.
#[derive(Clone, Debug)]
pub(crate) struct Tokenizers {
    /// Of the source, unless the target's is for both.
    pub(crate) source: Option<TextTokenizer>,
    pub(crate) target: TextTokenizer,
}

impl Tokenizers {
    pub(crate) fn source(&self) -> &TextTokenizer {
        self.source.as_ref().unwrap_or(&self.target)
    }
}

/// Tokens of the sources that are translated at a time.
const BATCH_TOKENS: usize = 1024;

impl TextTranslator {
    /// Sets how exact matrix products are.
    pub fn set_precision(&mut self, precision: Precision) {
        self.config.precision = precision;
        self.params.set_precision(precision);
    }

    /// Its parameters.
    pub fn params(&self) -> &Params<f32> {
        &self.params
    }

    /// What the model is.
    pub fn config(&self) -> &TextTranslatorConfig {
        &self.config
    }

    /// Numbers that training changed.
    pub fn num_parameters(&self) -> usize {
        self.params.values().len()
    }

    /// The tokens that start and end a translation.
    pub(crate) fn start_and_end_tokens(&self) -> [u32; 2] {
        self.writing.as_ref().map_or([self.tokenizers.target.cls_id(); 2], |writing| writing.bounds)
    }

    /// The token that ends a source.
    pub(crate) fn end_of_source(&self) -> u32 {
        self.writing.as_ref().map_or_else(|| self.tokenizers.source().cls_id(), |writing| writing.bounds[1])
    }

    /// A source, its end included, and its translation.
    pub(crate) fn pair_batch(&self, source: &[u32], target: &[u32]) -> TranslationBatch {
        let mut pair = TranslationBatch::default();
        pair.push_with_boundaries(source, target, self.start_and_end_tokens());
        pair
    }

    /// Tokens that a translation may have without its end: enough for any that is one, and an end to those that are none.
    pub(crate) fn max_target_tokens(&self, source: usize) -> usize {
        let most = self.writing.as_ref().map_or(self.config.model.max_length, |writing| writing.most);
        (2 * source + 20).min(most - 1)
    }

    /// The tokens of a source, as many as the model reads, and whether there were more.
    pub(crate) fn encode_source(&self, text: &str) -> Result<(Vec<u32>, bool)> {
        let tokenizer = self.tokenizers.source();
        let mut ids = tokenizer.encode(text)?.ids;
        // One place is for the end.
        let is_cut = ids.len() > self.config.model.max_length - 1;
        ids.truncate(self.config.model.max_length - 1);
        ids.push(self.end_of_source());
        Ok((ids, is_cut))
    }

    /// Translates each text.
    ///
    /// A text's translation does not depend on the others.
    ///
    /// A source that is longer than the model reads is cut at its end, and marked.
    ///
    /// # Errors
    /// If the beam is 0 or wider than the vocabulary, or a text cannot be read as tokens.
    pub fn translate(&self, texts: &[&str], options: &TranslateOptions) -> Result<Vec<Translation>> {
        self.translate_with(&self.params, texts, options)
    }

    /// Translates with these heads of the cross-attention, (layer of the decoder, head) from 0, switched off: they add
    /// nothing to the output of their layer.
    ///
    /// # Errors
    /// As [`TextTranslator::translate`], and if there is no such head.
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

    /// The search for some sources; `told` is what was considered at each step, source by source.
    pub(crate) fn search_observed(
        &self,
        params: &Params<f32>,
        (source, offsets): (&[u32], &Offsets),
        limits: &[usize],
        options: &TranslateOptions,
        told: &mut dyn FnMut(&[BeamCandidate]),
    ) -> Result<Vec<Vec<Hypothesis>>> {
        let memory = self.model.encode(params, source, offsets)?;
        let longest = limits.iter().copied().max().unwrap_or(0);
        let state = self.model.start_decoding(params, Memory { output: memory.view(), offsets }, longest + 1)?;
        let never = self.writing.as_ref().map_or(&[][..], |writing| &writing.never);
        let mut model = TranslatorDecoder { model: &self.model, params, state, banned_tokens: never };
        Ok(self.beam_search(options).search_observed(&mut model, limits, &mut |_, considered| told(considered))?)
    }

    pub(crate) fn beam_search(&self, options: &TranslateOptions) -> BeamSearch {
        BeamSearch {
            beam: options.beam,
            length_penalty: options.length_penalty,
            boundary_tokens: self.start_and_end_tokens(),
        }
    }

    /// Where each token of a target looks in the source: of the given one or, without, of the best translation.
    ///
    /// # Errors
    /// If a text cannot be read as tokens, or the target is longer than the model writes.
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

    /// Writes `config.json`, the tokenizers and `model.safetensors`, in the place of those of a model that is there.
    ///
    /// Killed at any moment, it leaves the folder with the old model or with the new one.
    ///
    /// # Errors
    /// If a file cannot be written, one of these names is that of a file that Chumoku did not write, or the model is a
    /// published one.
    pub fn save(&self, folder: &Path) -> Result<()> {
        if self.writing.is_some() {
            return Err(Error::Setting(tr!(
                "a published translator is not written again: copy its folder",
                "公開された翻訳モデルは書き直せません。フォルダをコピーしてください"
            )));
        }
        std::fs::create_dir_all(folder).map_err(Error::write("creating", folder))?;
        write_model(folder, self.files()?)
    }

    /// The files that are needed to use it.
    pub(crate) fn files(&self) -> Result<Vec<(&'static str, Vec<u8>)>> {
        let config = serde_json::to_string_pretty(&self.config).expect("a configuration is plain data") + "\n";
        let mut files =
            vec![(CONFIG, config.into_bytes()), (TOKENIZER, self.tokenizers.target.to_json()?.into_bytes())];
        if let Some(source) = &self.tokenizers.source {
            files.push((SOURCE_TOKENIZER, source.to_json()?.into_bytes()));
        }
        files.push((WEIGHTS, serialize_tensors(&param_tensors(&self.params))));
        Ok(files)
    }

    /// Reads a model folder, trusting nothing in it.
    ///
    /// # Errors
    /// If a file is missing, damaged, or does not fit the others, or the folder holds another kind of model.
    pub fn load(folder: &Path) -> Result<TextTranslator> {
        with_snapshot(folder, TextTranslator::from_snapshot)
    }

    fn from_snapshot(folder: &Snapshot) -> Result<TextTranslator> {
        if pretrained_kind(folder) == Some(ModelKind::Translator) {
            return TextTranslator::load_pretrained(folder);
        }
        check_files(folder, &[CONFIG])?;
        let kind: ModelTypeConfig = read_config(folder)?;
        if kind.model_type != ModelKind::Translator.model_type() {
            return Err(model_file_error(folder, CONFIG, kind.kind_mismatch(lang().pick("a translator", "翻訳器"))));
        }
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
            names: found.names,
            precision: found.precision,
            vocabulary_sha256: [tokenizers.source(), &tokenizers.target].map(TextTokenizer::vocabulary_sha256),
            model: TranslatorConfig { max_length: found.max_length, ..model.config().clone() },
        };
        config.check().map_err(|problem| model_file_error(folder, CONFIG, problem))?;
        Ok(TextTranslator { config, model, params, tokenizers, writing: Some(found.writing) })
    }
}

impl TextTranslatorConfig {
    /// What is wrong with it, if anything.
    pub(crate) fn check(&self) -> Result<(), String> {
        let m = &self.model;
        m.encoder.check().map_err(|error| layer_error_message(&error))?;
        let sizes = [
            ("source_vocab_size", m.source_vocab_size, 1, 1 << 24),
            ("target_vocab_size", m.target_vocab_size, 1, 1 << 24),
            ("max_length", m.max_length, 2, 1 << 20),
            ("num_decoder_layers", m.num_decoder_layers, 1, 1 << 10),
        ];
        for (name, size, least, most) in sizes {
            if size < least || size > most {
                return Err(tr!(
                    "{name}: expected {least} to {most}, found {size}",
                    "{name}: {least} から {most} までが必要ですが、{size} です"
                ));
            }
        }
        m.decoder().check().map_err(|error| layer_error_message(&error))?;
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

/// A translator while it writes.
struct TranslatorDecoder<'a> {
    model: &'a Translator,
    params: &'a Params<f32>,
    state: TranslatorState<f32>,
    /// Tokens that are never written.
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
