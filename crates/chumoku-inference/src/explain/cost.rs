//! Estimates the cost of an explanation before it is computed, so that a service can refuse expensive ones.

use super::attention_collector::FramedText;
use super::attribution::AttributionMethod;
use crate::count::{CountConfig, NetworkKind, StepCost};
use crate::models::{PatchingSizes, TranslatorConfig};
use crate::row::{AsRow, RowRef};
use crate::text::{windows, word_spans};
use crate::{NgramClassifier, Result, TextClassifier, TextEmbedder, TextGenerator, TextTagger, TextTranslator};
use std::ops::AddAssign;

/// Estimated cost of an explanation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExplainCost {
    /// Multiply-adds of all forward passes. N-gram features count as multiply-adds of equal duration.
    pub multiply_adds: u128,
    /// Values in the explanation, mainly attention weights.
    pub numbers: u128,
}

impl AddAssign for ExplainCost {
    fn add_assign(&mut self, more: ExplainCost) {
        self.multiply_adds += more.multiply_adds;
        self.numbers += more.numbers;
    }
}

/// The cost of the n-grams of one byte, in multiply-adds of equal duration.
const NGRAM_COST_PER_BYTE: u128 = 1000;
/// Passes for deletion and insertion curves: eight orders, twenty steps, two curves, half of the text on average.
const CURVE_PASSES: usize = 8 * 20;
/// Passes for integrated gradients: eight points in each of 32 parts of the path. The backward pass costs two forward
/// passes.
const INTEGRATED_GRADIENT_PASSES: usize = 8 * 32 * 3;
/// The beam width for translations that the caller does not give.
const BEAM_HYPOTHESES: usize = 5;

/// Multiply-adds of `count` passes over `tokens` tokens each. 0 for a network without layers, which has no explanation.
fn multiply_adds_of_passes(of: CountConfig, count: usize, tokens: usize) -> u128 {
    let sizes = CountConfig { batch: count.max(1), length: tokens.max(1), ..of };
    sizes.count().map_or(0, |counted| counted.multiply_adds)
}

/// Returns the multiply-adds of one encoder layer, or of one layer of a language model, that reads `tokens` tokens.
fn multiply_adds_of_layer(of: CountConfig, tokens: usize) -> u128 {
    let layer = CountConfig {
        network: NetworkKind::Transformer,
        num_layers: 1,
        vocab_size: 0,
        num_classes: 0,
        dense_head: None,
        ..of
    };
    multiply_adds_of_passes(layer, 1, tokens)
}

/// Returns the multiply-adds of everything but the layers that reads one vector: the head, or the logits of one token.
fn multiply_adds_of_read_out(of: CountConfig) -> u128 {
    let whole = CountConfig { num_layers: 1, ..of };
    multiply_adds_of_passes(whole, 1, 1).saturating_sub(multiply_adds_of_layer(of, 1))
}

/// The multiply-adds of one decoder layer of a translator.
#[derive(Clone, Copy)]
struct DecoderLayerCost {
    /// Keys and values of the memory, in cross-attention.
    memory: u128,
    /// Everything that is computed for the target.
    target: u128,
}

impl DecoderLayerCost {
    /// Returns the cost for a source and a target of these lengths.
    fn new(of: CountConfig, source: usize, target: usize) -> DecoderLayerCost {
        let layer = CountConfig {
            batch: 1,
            length: source.max(1),
            target_length: Some(target.max(1)),
            num_layers: 1,
            num_decoder_layers: Some(1),
            vocab_size: 0,
            target_vocab_size: None,
            ..of
        };
        let steps = layer.count().map(|counted| counted.steps).unwrap_or_default();
        let sum = |is_counted: &dyn Fn(&StepCost) -> bool| {
            steps.iter().filter(|step| is_counted(step)).map(|step| step.multiply_adds).sum::<u128>()
        };
        let is_of_memory = |step: &StepCost| step.part == "cross" && ["W_K", "W_V"].contains(&step.name);
        let memory = sum(&is_of_memory);
        DecoderLayerCost { memory, target: sum(&|step| step.part != "encoder" && !is_of_memory(step)) }
    }

    fn total(self) -> u128 {
        self.memory + self.target
    }
}

/// Returns the number of patched positions of a text of `tokens` tokens.
fn patched_positions(aligned: Option<&[[usize; 2]]>, tokens: usize) -> usize {
    aligned.filter(|aligned| !aligned.is_empty()).map_or(tokens, |aligned| aligned.len().min(tokens))
}

/// Returns the cost of patching a network with one stack of layers. `tokens` are those of both texts. Each text is
/// read once, and again from the layer of each site on.
fn patching_cost(
    of: CountConfig,
    [layers, heads]: [usize; 2],
    tokens: [usize; 2],
    aligned: Option<&[[usize; 2]]>,
) -> ExplainCost {
    let positions = patched_positions(aligned, tokens[0]);
    let answers = if of.num_classes > 0 { of.num_classes } else { of.vocab_size };
    let has_cross_attention = false;
    let sizes =
        PatchingSizes { layers, heads, has_cross_attention, tokens: tokens[0], positions, decoded_tokens: 0, answers };
    let (work, read_out) = (sizes.work(), multiply_adds_of_read_out(of));
    let of_layers = tokens.map(|tokens| multiply_adds_of_layer(of, tokens));
    let recorded = layers as u128 * of_layers.iter().sum::<u128>() + 2 * read_out;
    let patched = work.layers as u128 * of_layers[0] + work.sites as u128 * read_out;
    ExplainCost { multiply_adds: recorded + patched, numbers: work.sites as u128 }
}

/// The numbers of tokens that decide the cost of patching a translator.
#[derive(Clone, Copy, Debug)]
struct PatchedTranslation {
    /// The tokens of both sources, with their end tokens.
    sources: [usize; 2],
    /// The number of patched positions of the source.
    positions: usize,
    /// The tokens that the decoder reads: its start token, and those before the first difference.
    prefix: usize,
}

impl PatchedTranslation {
    /// Returns the cost without that of the translations.
    fn cost(self, model: &TranslatorConfig) -> ExplainCost {
        let of = CountConfig::for_translator(model);
        let PatchedTranslation { sources, positions, prefix } = self;
        let [layers, heads] = [model.encoder.num_layers, model.encoder.num_heads];
        let [decoder_layers, decoder_heads] = [model.num_decoder_layers, model.decoder_num_heads()];
        let of_layers = sources.map(|source| multiply_adds_of_layer(of, source));
        let of_decoder_layers = sources.map(|source| DecoderLayerCost::new(of, source, prefix));
        let logits = logits_of_token(model);
        // After a site of the encoder, the decoder reads the prefix.
        let read_outs = of_decoder_layers.map(|layer| decoder_layers as u128 * layer.total() + logits);
        let answers = model.target_vocab_size;
        let sizes = PatchingSizes {
            layers,
            heads,
            has_cross_attention: false,
            tokens: sources[0],
            positions,
            decoded_tokens: prefix,
            answers,
        };
        let work = sizes.work();
        let of_encoder = work.layers as u128 * of_layers[0] + work.sites as u128 * read_outs[0];
        let sizes = PatchingSizes {
            layers: decoder_layers,
            heads: decoder_heads,
            has_cross_attention: true,
            tokens: prefix,
            positions: prefix,
            decoded_tokens: 0,
            answers,
        };
        let work_of_decoder = sizes.work();
        let of_decoder = work_of_decoder.layers as u128 * of_decoder_layers[0].target
            + work_of_decoder.layers_of_batches as u128 * of_decoder_layers[0].memory
            + work_of_decoder.sites as u128 * logits;
        // Each text is read once by the encoder and its decoder, and once more by each for the sites of the decoder.
        let of_texts = of_layers.iter().zip(of_decoder_layers).zip(read_outs).map(|((layer, decoder), read_out)| {
            2 * layers as u128 * layer + read_out + decoder_layers as u128 * decoder.total()
        });
        ExplainCost {
            multiply_adds: of_texts.sum::<u128>() + of_encoder + of_decoder,
            numbers: (work.sites + work_of_decoder.sites) as u128,
        }
    }
}

/// Returns the multiply-adds of the logits of one target token.
fn logits_of_token(model: &TranslatorConfig) -> u128 {
    model.encoder.d_model as u128 * model.target_vocab_size as u128
}

/// Returns the largest cost of a beam search for a source whose translation has up to `written` tokens.
fn beam_search_cost(model: &TranslatorConfig, source: usize, written: usize) -> u128 {
    let of = CountConfig::for_translator(model);
    let steps = written + 1;
    let layer = DecoderLayerCost::new(of, source, steps);
    let hypothesis = model.num_decoder_layers as u128 * layer.target + steps as u128 * logits_of_token(model);
    model.encoder.num_layers as u128 * multiply_adds_of_layer(of, source)
        + model.num_decoder_layers as u128 * layer.memory
        + BEAM_HYPOTHESES as u128 * hypothesis
}

/// Returns the number of values in an explanation: word attention, derived arrays, and token queries and keys.
fn numbers_in_explanation([layers, heads]: [usize; 2], words: usize, [tokens, width]: [usize; 2]) -> u128 {
    let [layers, heads, words, tokens, width] = [layers, heads, words, tokens, width].map(|size| size as u128);
    layers * (2 * heads + 1) * words * words + 2 * layers * tokens * width
}

/// Returns the cost of computing a text's n-grams once per word.
fn ngram_cost(words: usize, bytes: usize) -> u128 {
    NGRAM_COST_PER_BYTE * (words + 1) as u128 * bytes as u128
}

impl TextClassifier {
    /// Estimates the cost of `TextClassifier::explain_with_method` and [`TextClassifier::curves`].
    ///
    /// # Errors
    /// If the text cannot be tokenized.
    pub fn explain_cost(&self, text: impl AsRow, method: AttributionMethod) -> Result<ExplainCost> {
        self.explain_cost_of_row(text.as_row(), method)
    }

    fn explain_cost_of_row(&self, row: RowRef<'_>, method: AttributionMethod) -> Result<ExplainCost> {
        let encoded = self.tokenizer.encode(row)?;
        let words = word_spans(row, &encoded).len();
        let windows = windows(encoded.ids.len(), self.window());
        let longest =
            windows.iter().map(|window| window.len()).max().unwrap_or(0) + self.tokenizer.special_tokens().len();
        let [layers, heads, width] =
            self.config.model.backbone.transformer().map_or([0; 3], |c| [c.num_layers, c.num_heads, c.d_model]);
        let of_words = match method {
            AttributionMethod::LeaveOneOut => words + windows.len(),
            AttributionMethod::IntegratedGradients => INTEGRATED_GRADIENT_PASSES * windows.len(),
        };
        // Passes over the whole text.
        let whole = 2 + self.config.columns().len() + layers * heads + CURVE_PASSES;
        let of_network = CountConfig::for_classifier(&self.config.model);
        let multiply_adds = multiply_adds_of_passes(of_network, of_words + whole * windows.len(), longest);
        let of_ngrams = if self.has_ngrams() { ngram_cost(words + whole, row.text().len()) } else { 0 };
        let shown_words = words.min(longest) + self.tokenizer.special_tokens().len();
        let of_heads = 2 * (layers * heads * self.labels().len()) as u128;
        let numbers = numbers_in_explanation([layers, heads], shown_words, [longest, width]) + of_heads + words as u128;
        Ok(ExplainCost { multiply_adds: multiply_adds + of_ngrams, numbers })
    }

    /// Estimates the cost of [`TextClassifier::patch`].
    ///
    /// # Errors
    /// If a text cannot be tokenized.
    pub fn patch_cost(
        &self,
        text: impl AsRow,
        other: impl AsRow,
        aligned: Option<&[[usize; 2]]>,
    ) -> Result<ExplainCost> {
        self.patch_cost_of_rows([text.as_row(), other.as_row()], aligned)
    }

    fn patch_cost_of_rows(
        &self,
        [text, other]: [RowRef<'_>; 2],
        aligned: Option<&[[usize; 2]]>,
    ) -> Result<ExplainCost> {
        let read = |text: RowRef<'_>| -> Result<usize> {
            Ok(FramedText::read(text, &self.tokenizer, self.config.max_tokens())?.ids.len())
        };
        let Some(encoder) = self.config.model.backbone.transformer() else { return Ok(ExplainCost::default()) };
        let sizes = [encoder.num_layers, encoder.num_heads];
        let of = CountConfig::for_classifier(&self.config.model);
        Ok(patching_cost(of, sizes, [read(text)?, read(other)?], aligned))
    }
}

impl NgramClassifier {
    /// Estimates the cost of [`NgramClassifier::explain`].
    #[must_use]
    pub fn explain_cost(&self, text: impl AsRow) -> ExplainCost {
        let row = text.as_row();
        let words = crate::ngram::words(row.text()).len();
        let multiply_adds = ngram_cost(words + self.columns().len(), row.joined_len());
        ExplainCost { multiply_adds, numbers: words as u128 }
    }
}

impl TextGenerator {
    /// Estimates the cost of [`TextGenerator::explain`].
    ///
    /// # Errors
    /// If the text cannot be tokenized.
    pub fn explain_cost(&self, text: &str) -> Result<ExplainCost> {
        let encoded = self.tokenizer.encode(text)?;
        let encoder = &self.config.model.encoder;
        let [layers, heads, width] = [encoder.num_layers, encoder.num_heads, encoder.d_model];
        let tokens = encoded.ids.len().min(self.config.model.max_length);
        let words = word_spans(text, &encoded).len().min(tokens);
        let count = words + layers * heads + 2;
        let multiply_adds = multiply_adds_of_passes(CountConfig::for_language_model(&self.config.model), count, tokens);
        Ok(ExplainCost { multiply_adds, numbers: numbers_in_explanation([layers, heads], words + 1, [tokens, width]) })
    }

    /// Estimates the cost of [`TextGenerator::patch`].
    ///
    /// # Errors
    /// If a text cannot be tokenized.
    pub fn patch_cost(&self, text: &str, other: &str, aligned: Option<&[[usize; 2]]>) -> Result<ExplainCost> {
        let model = &self.config.model;
        let read = |text: &str| -> Result<usize> { Ok(self.encode_prompt(text)?.len().min(model.max_length)) };
        let sizes = [model.encoder.num_layers, model.encoder.num_heads];
        Ok(patching_cost(CountConfig::for_language_model(model), sizes, [read(text)?, read(other)?], aligned))
    }
}

impl TextEmbedder {
    /// Estimates the cost of [`TextEmbedder::explain`].
    ///
    /// # Errors
    /// If the text cannot be tokenized.
    pub fn explain_cost(&self, text: &str) -> Result<ExplainCost> {
        let tokens = self.tokenizer().encode(&self.preprocess_with_default_prompt(text)?, self.max_tokens())?.ids.len();
        let encoder = &self.model().config().encoder;
        let [layers, heads, width] = [encoder.num_layers, encoder.num_heads, encoder.d_model];
        // A word has at least one token.
        let count = tokens + layers * heads + 3;
        let multiply_adds =
            multiply_adds_of_passes(CountConfig::for_text_encoder(self.model().config()), count, tokens);
        Ok(ExplainCost { multiply_adds, numbers: numbers_in_explanation([layers, heads], tokens, [tokens, width]) })
    }
}

impl TextTranslator {
    /// Estimates the cost of [`TextTranslator::explain`].
    ///
    /// # Errors
    /// If a text cannot be tokenized.
    pub fn explain_cost(&self, source: &str, target: Option<&str>) -> Result<ExplainCost> {
        let (ids, _) = self.encode_source(source)?;
        let written = match target {
            Some(target) => self.tokenizers.target.encode(target)?.ids.len().min(self.config.model.max_length),
            None => self.max_target_tokens(ids.len()),
        };
        let [layers, heads] = [self.config.model.num_decoder_layers, self.config.model.decoder_num_heads()];
        // One pass for each word and head, and a beam search for each head.
        let count = ids.len() + (layers * heads + 1) * (1 + BEAM_HYPOTHESES);
        let sizes = CountConfig::for_translator(&self.config.model);
        let sizes = CountConfig { target_length: Some(written + 1), ..sizes };
        let pairs = (ids.len() * (written + 1)) as u128;
        let numbers = ((layers * heads + 1) as u128) * pairs + (layers * heads * (written + 1)) as u128;
        Ok(ExplainCost { multiply_adds: multiply_adds_of_passes(sizes, count, ids.len()), numbers })
    }

    /// Estimates the cost of [`TextTranslator::patch`]. Translations that are not given are assumed to be as long as
    /// possible, and to differ only at their ends.
    ///
    /// # Errors
    /// If a text cannot be tokenized.
    pub fn patch_cost(
        &self,
        source: &str,
        other: &str,
        target: Option<&str>,
        aligned: Option<&[[usize; 2]]>,
    ) -> Result<ExplainCost> {
        let model = &self.config.model;
        let sources = [self.encode_source(source)?.0.len(), self.encode_source(other)?.0.len()];
        let mut written = sources.map(|source| self.max_target_tokens(source));
        let mut translations = beam_search_cost(model, sources[1], written[1]);
        match target {
            Some(target) => written[0] = self.tokenizers.target.encode(target)?.ids.len().min(model.max_length - 1),
            None => translations += beam_search_cost(model, sources[0], written[0]),
        }
        // The shorter translation ends where the other one goes on.
        let prefix = 1 + written[0].min(written[1]);
        let positions = patched_positions(aligned, sources[0]);
        let mut cost = PatchedTranslation { sources, positions, prefix }.cost(model);
        cost.multiply_adds += translations;
        Ok(cost)
    }
}

impl TextTagger {
    /// Estimates the cost of [`TextTagger::explain`].
    ///
    /// # Errors
    /// If the text cannot be tokenized.
    pub fn explain_cost(&self, text: &str) -> Result<ExplainCost> {
        /// The approximate number of features of a unit.
        const FEATURES: u128 = 40;
        let units = self.config.unit.split(text).len() as u128;
        let labels = self.tags().count() as u128;
        // Each masked word costs the label scores of all units, and forward–backward sums over label pairs.
        let of_crf = units * units * labels * (FEATURES + 4 * labels) * if self.has_network() { 3 } else { 1 };
        let of_network = match &self.network {
            None => 0,
            Some(network) => {
                let read = FramedText::read(text, &network.tokenizer, network.config.max_tokens)?;
                let windows = read.tokens_of_text.div_ceil(network.config.max_tokens.div_ceil(2)).max(1);
                // Windows overlap by half, so each word is in two of them.
                let count = windows + read.tokens_of_text * if windows > 1 { 2 } else { 1 };
                multiply_adds_of_passes(
                    CountConfig::for_text_encoder(&network.config.model.encoder),
                    count,
                    read.ids.len(),
                )
            }
        };
        Ok(ExplainCost { multiply_adds: of_crf + of_network, numbers: units })
    }

    /// Estimates the cost of [`TextTagger::patch`].
    ///
    /// # Errors
    /// If a text cannot be tokenized.
    pub fn patch_cost(&self, text: &str, other: &str, aligned: Option<&[[usize; 2]]>) -> Result<ExplainCost> {
        let Some(network) = &self.network else { return Ok(ExplainCost::default()) };
        let read = |text: &str| -> Result<usize> {
            Ok(FramedText::read(text, &network.tokenizer, network.config.max_tokens)?.ids.len())
        };
        let model = &network.config.model;
        let sizes = [model.encoder.encoder.num_layers, model.encoder.encoder.num_heads];
        let of = CountConfig {
            num_classes: model.num_tags,
            dense_head: model.head_dense,
            ..CountConfig::for_text_encoder(&model.encoder)
        };
        Ok(patching_cost(of, sizes, [read(text)?, read(other)?], aligned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::{Translator, TranslatorOptions};
    use crate::nn::{EncoderConfig, PositionKind};
    use crate::params::Params;
    use crate::text::{NormalizationForm, TextTokenizer, TokenizationUnit, TokenizerConfig};
    use crate::text_models::translator::{TextTranslatorConfig, Tokenizers, TranslateOptions};
    use chumoku_kernels::{Precision, multiply_adds};
    use testkit::Random;

    /// A translator of characters with random weights.
    fn translator() -> TextTranslator {
        let config = TokenizerConfig {
            vocab_size: 40,
            min_frequency: 1,
            form: NormalizationForm::CollapsedSpaces,
            unit: TokenizationUnit::Characters,
        };
        let tokenizer = TextTokenizer::train(&["abcdefgh"], &config).unwrap();
        let encoder = EncoderConfig::new(3, 16, 2, 24);
        let model = TranslatorConfig {
            source_vocab_size: tokenizer.vocab_size(),
            target_vocab_size: tokenizer.vocab_size(),
            joint_vocabulary: true,
            encoder,
            num_decoder_layers: 2,
            position: PositionKind::Sinusoidal,
            max_length: 300,
            embedding_dropout: 0.0,
            options: TranslatorOptions { decoder_num_heads: Some(4), ..TranslatorOptions::default() },
        };
        let config = TextTranslatorConfig {
            model_type: String::new(),
            chumoku_version: String::new(),
            names: ["a".into(), "b".into()],
            precision: Precision::default(),
            vocabulary_sha256: Default::default(),
            model,
        };
        let network = Translator::new(config.model.clone()).unwrap();
        let mut params = Params::zeros(network.layout());
        let mut random = Random::new(5);
        params.values_mut().iter_mut().for_each(|value| *value = 0.8 * random.number() as f32);
        let tokenizers = Tokenizers { source: None, target: tokenizer };
        TextTranslator { config, model: network, params, tokenizers, writing: None }
    }

    #[test]
    fn the_work_of_patching_a_translator_is_estimated() {
        let name = "explain::cost::tests::the_work_of_patching_a_translator_is_estimated";
        testkit::in_own_process(name, check_patching);
    }

    fn check_patching() {
        let model = translator();
        let counted = |work: &dyn Fn()| {
            let before = multiply_adds();
            work();
            u128::from(multiply_adds() - before)
        };
        let translate = |text: &str| counted(&|| drop(model.translate(&[text], &TranslateOptions::default()).unwrap()));
        // Long texts are patched in several batches.
        let long = ["abcdefgh".repeat(20), "hgfedcba".repeat(20)];
        // The random network may translate texts alike, which cannot be patched.
        let (others, first_two) = (["ab", "h", "abcdefgh", "hgfe", "dbga"], Some(&[[0, 0], [1, 1]][..]));
        let is_patched = |other: &&str| model.patch("abcd", other, None, first_two).is_ok();
        let other = others.into_iter().find(is_patched).expect("a text with another translation");
        for (text, other, target, aligned) in [
            ("abcd", other, None, first_two),
            ("abcd", "hgfe", Some("hhhh"), None),
            ("abcd", "ab", Some("a"), Some(&[[0, 0], [3, 1]][..])),
            (long[0].as_str(), long[1].as_str(), Some("abcabc"), None),
        ] {
            let patch = || model.patch(text, other, target, aligned).unwrap();
            let found = patch();
            let work = counted(&|| drop(patch()));
            let sources = [found.tokens.len(), found.other_tokens.len()];
            let decoder = found.decoder.as_ref().unwrap();
            let (positions, prefix) = (found.aligned.len(), decoder.tokens.len());
            let cost = PatchedTranslation { sources, positions, prefix }.cost(&model.config.model);
            // The cost without the translations is exact.
            let mut translations = translate(other);
            if target.is_none() {
                translations += translate(text);
            }
            assert_eq!(cost.multiply_adds + translations, work, "{text}, {other}, {target:?}");
            let numbers = [&found.residual, &found.heads, &found.feed_forward, &decoder.residual, &decoder.heads];
            let numbers =
                numbers.map(Vec::len).iter().sum::<usize>() + decoder.cross_heads.len() + decoder.feed_forward.len();
            assert_eq!(cost.numbers, numbers as u128);
            // The estimate before the translations is a bound, which is close if the target is given.
            let bound = model.patch_cost(text, other, target, aligned).unwrap();
            assert!(bound.multiply_adds >= work && bound.numbers >= cost.numbers, "{bound:?}, {work}");
            assert!(target.is_none() || bound.multiply_adds < 2 * work, "{bound:?}, {work}");
        }
    }
}
