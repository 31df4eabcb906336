//! Estimates the cost of an explanation before it is computed, so that a service can refuse expensive ones.

use super::attention_collector::FramedText;
use super::attribution::AttributionMethod;
use crate::count::CountConfig;
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
/// The beam width for translations that the caller does not provide.
const BEAM_HYPOTHESES: usize = 5;

/// Multiply-adds of `count` passes over `tokens` tokens each. 0 for a network without layers, which has no explanation.
fn multiply_adds_of_passes(of: CountConfig, count: usize, tokens: usize) -> u128 {
    let sizes = CountConfig { batch: count.max(1), length: tokens.max(1), ..of };
    sizes.count().map_or(0, |counted| counted.multiply_adds)
}

/// Returns the cost of patching: a pass over the text for each site, and one over each text. `tokens` are those of both
/// texts.
fn patching_cost(of: CountConfig, [layers, heads]: [usize; 2], tokens: [usize; 2]) -> ExplainCost {
    let sites = layers * heads + (2 * layers + 1) * tokens[0];
    let multiply_adds = multiply_adds_of_passes(of, sites + 1, tokens[0]) + multiply_adds_of_passes(of, 1, tokens[1]);
    ExplainCost { multiply_adds, numbers: sites as u128 }
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
    pub fn explain_cost(&self, text: &str, method: AttributionMethod) -> Result<ExplainCost> {
        let own = self.text_without_columns(text);
        let encoded = self.tokenizer.encode(own)?;
        let words = word_spans(own, &encoded).len();
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
        let of_ngrams = if self.has_ngrams() { ngram_cost(words + whole, own.len()) } else { 0 };
        let shown_words = words.min(longest) + self.tokenizer.special_tokens().len();
        let of_heads = 2 * (layers * heads * self.labels().len()) as u128;
        let numbers = numbers_in_explanation([layers, heads], shown_words, [longest, width]) + of_heads + words as u128;
        Ok(ExplainCost { multiply_adds: multiply_adds + of_ngrams, numbers })
    }

    /// Estimates the cost of [`TextClassifier::patch`].
    ///
    /// # Errors
    /// If a text cannot be tokenized.
    pub fn patch_cost(&self, text: &str, other: &str) -> Result<ExplainCost> {
        let read = |text: &str| -> Result<usize> {
            let text = self.text_without_columns(text);
            Ok(FramedText::read(text, &self.tokenizer, self.config.max_tokens())?.ids.len())
        };
        let sizes = self.config.model.backbone.transformer().map_or([0; 2], |c| [c.num_layers, c.num_heads]);
        Ok(patching_cost(CountConfig::for_classifier(&self.config.model), sizes, [read(text)?, read(other)?]))
    }
}

impl NgramClassifier {
    /// Estimates the cost of [`NgramClassifier::explain`].
    #[must_use]
    pub fn explain_cost(&self, text: &str) -> ExplainCost {
        let words = crate::ngram::words(self.ngrams.scheme().text_of(text)).len();
        ExplainCost { multiply_adds: ngram_cost(words + self.columns().len(), text.len()), numbers: words as u128 }
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
    pub fn patch_cost(&self, text: &str, other: &str) -> Result<ExplainCost> {
        let model = &self.config.model;
        let read = |text: &str| -> Result<usize> { Ok(self.encode_prompt(text)?.len().min(model.max_length)) };
        let sizes = [model.encoder.num_layers, model.encoder.num_heads];
        Ok(patching_cost(CountConfig::for_language_model(model), sizes, [read(text)?, read(other)?]))
    }
}

impl TextEmbedder {
    /// Estimates the cost of [`TextEmbedder::explain`].
    ///
    /// # Errors
    /// If the text cannot be tokenized.
    pub fn explain_cost(&self, text: &str) -> Result<ExplainCost> {
        let tokens = self.tokenizer().encode(&self.preprocess_with_default_prompt(text)?, self.limit())?.ids.len();
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

    /// Estimates the cost of [`TextTranslator::patch`].
    ///
    /// # Errors
    /// If a text cannot be tokenized.
    pub fn patch_cost(&self, source: &str, other: &str, target: Option<&str>) -> Result<ExplainCost> {
        let model = &self.config.model;
        let tokens = [self.encode_source(source)?.0.len(), self.encode_source(other)?.0.len()];
        let written = match target {
            Some(target) => self.tokenizers.target.encode(target)?.ids.len().min(model.max_length),
            None => self.max_target_tokens(tokens[0]),
        };
        // The tokens before the first difference, and a beam search for each text.
        let length = written.max(self.max_target_tokens(tokens[1])) + 1;
        let sizes = CountConfig { target_length: Some(length), ..CountConfig::for_translator(model) };
        let mut cost = patching_cost(sizes, [model.encoder.num_layers, model.encoder.num_heads], tokens);
        // The sites of the decoder: self-attention, cross-attention, and each token of the target.
        let [layers, heads] = [model.num_decoder_layers, model.decoder_num_heads()];
        let sites = 2 * layers * heads + (2 * layers + 1) * length;
        cost += ExplainCost { multiply_adds: multiply_adds_of_passes(sizes, sites, tokens[0]), numbers: sites as u128 };
        cost.multiply_adds += multiply_adds_of_passes(sizes, 2 * BEAM_HYPOTHESES, tokens[0].max(tokens[1]));
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
    pub fn patch_cost(&self, text: &str, other: &str) -> Result<ExplainCost> {
        let Some(network) = &self.network else { return Ok(ExplainCost::default()) };
        let read = |text: &str| -> Result<usize> {
            Ok(FramedText::read(text, &network.tokenizer, network.config.max_tokens)?.ids.len())
        };
        let encoder = &network.config.model.encoder;
        let sizes = [encoder.encoder.num_layers, encoder.encoder.num_heads];
        Ok(patching_cost(CountConfig::for_text_encoder(encoder), sizes, [read(text)?, read(other)?]))
    }
}
