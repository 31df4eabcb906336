//! The logit lens: the answer that the model's own head reads after every layer (nostalgebraist 2020, "interpreting
//! GPT: the logit lens").
//!
//! The head was trained for the last layer. Its earlier answers are hints, not beliefs of the model.

use super::residual_norms::{EmbeddedTokens, ResidualNorms};
use crate::Result;
use crate::blend::binary_blend::sigmoid;
use crate::models::{ResidualRecording, TranslationBatch};
use crate::nn::{InputEmbeddingsOptions, Offsets};
use crate::scoring::argmax;
use crate::text_models::classifier::TextClassifier;
use crate::text_models::generator::TextGenerator;
use crate::text_models::tagger::TextTagger;
use crate::text_models::translator::TextTranslator;
use chumoku_nn::probability::log_softmax;
use ndarray::{Array2, Axis, Slice};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The displayed name of the token that starts a translation.
pub(super) const START_NAME: &str = "[START]";

/// The displayed name of the token that ends a source or a translation.
pub(super) const END_NAME: &str = "[END]";

/// The largest number of multiply–adds of the output layer in a lens. Longer texts show their last tokens.
const MAX_COST: f64 = 2e10;

/// The largest number of logits of a lens that are in memory, unless one token has more.
const LENS_LOGITS: usize = 1 << 22;

/// The answers that the head of a model reads at each depth.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LogitLens {
    /// The tokens at which answers are read. Empty if there is one answer for the whole text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<String>,
    /// The answers at each depth, from the embeddings to the last layer: (layers + 1, positions).
    pub depths: Vec<Vec<LensAnswer>>,
}

/// The answer at one depth and position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LensAnswer {
    /// The most probable answer. For labels and numbers, the label or threshold that is explained.
    pub label: String,
    /// Its probability.
    pub probability: f32,
    /// The probability of the answer that the last layer gives at this position.
    #[serde(rename = "of_last")]
    pub last_layer_probability: f32,
    /// The probabilities of all classes of a classifier, in the order of
    /// [`Explanation::probabilities`](super::Explanation::probabilities).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probabilities: Vec<f32>,
}

/// Returns the probabilities of logits: a softmax over classes, or a sigmoid for each label.
pub(super) fn answer_probabilities(logits: &[f32], is_one_class: bool) -> Vec<f32> {
    match is_one_class {
        true => log_softmax(logits).into_iter().map(f32::exp).collect(),
        false => logits.iter().map(|&z| sigmoid(z)).collect(),
    }
}

impl LogitLens {
    /// Builds a lens over tokens after each of `layers`. `logits` computes those at one depth for some of the tokens:
    /// (tokens, answers). A vocabulary may have 100,000 answers, so only few tokens are read at a time.
    pub(super) fn over_tokens(
        tokens: Vec<String>,
        [layers, answers]: [usize; 2],
        logits: impl Fn(usize, Range<usize>) -> Result<Array2<f32>>,
        label: impl Fn(usize) -> String,
    ) -> Result<LogitLens> {
        let mut depths = vec![Vec::with_capacity(tokens.len()); layers + 1];
        let together = (LENS_LOGITS / answers.max(1)).max(1);
        for start in (0..tokens.len()).step_by(together) {
            let range = start..(start + together).min(tokens.len());
            let logits_after_last = logits(layers, range.clone())?;
            let last: Vec<usize> = logits_after_last.outer_iter().map(|row| argmax(&row.to_vec()) as usize).collect();
            let mut logits_after_last = Some(logits_after_last);
            for depth in (0..=layers).rev() {
                let logits = logits_after_last.take().map_or_else(|| logits(depth, range.clone()), Ok)?;
                depths[depth].extend(logits.outer_iter().zip(&last).map(|(row, &last)| {
                    let p = answer_probabilities(&row.to_vec(), true);
                    let most = argmax(&p) as usize;
                    LensAnswer {
                        label: label(most),
                        probability: p[most],
                        last_layer_probability: p[last],
                        probabilities: Vec::new(),
                    }
                }));
            }
        }
        Ok(LogitLens { tokens, depths })
    }

    /// Checks that every depth has as many answers.
    pub(super) fn is_consistent(&self, layers: usize, classes: usize) -> bool {
        let positions = self.tokens.len().max(1);
        let mut answers = self.depths.iter().flatten();
        self.depths.len() == layers + 1
            && self.depths.iter().all(|depth| depth.len() == positions)
            && answers.all(|answer| [0, classes].contains(&answer.probabilities.len()))
    }
}

/// The factor of the embeddings.
fn embedding_scale(options: &InputEmbeddingsOptions, d_model: usize) -> f32 {
    if options.is_scaled() { (d_model as f32).sqrt() } else { 1.0 }
}

impl TextClassifier {
    /// Records what the network computes for one window of tokens. `None` for a recurrent network.
    pub(super) fn record_residual(&self, ids: &[u32]) -> Result<Option<ResidualRecording<f32>>> {
        let Some(reader) = self.model.residual_reader(&self.params) else { return Ok(None) };
        Ok(Some(reader.record(self.model.embed(&self.params, ids)?)?))
    }

    /// Returns the answers that the head reads from the embeddings and after each layer, pooled as after the last layer.
    /// For ensembles, these are answers of the network alone.
    ///
    /// `class` is the label or threshold that is explained, and `order` the order of the classes.
    pub(super) fn logit_lens(
        &self,
        recording: &ResidualRecording<f32>,
        class: usize,
        order: &[usize],
    ) -> Result<LogitLens> {
        let reader = self.model.residual_reader(&self.params).expect("a recording is of a transformer");
        let is_one_class = self.config.target.is_one_class();
        let read = |depth: usize| -> Result<Vec<f32>> {
            let logits = reader.logits_at(recording, depth, 0..recording.residual[depth].nrows())?;
            Ok(answer_probabilities(&logits.row(0).to_vec(), is_one_class))
        };
        let depths: Vec<Vec<f32>> = (0..recording.residual.len()).map(read).collect::<Result<_>>()?;
        let best = |p: &[f32]| match is_one_class {
            true => argmax(p) as usize,
            false => class,
        };
        let last = depths.last().map_or(class, |p| best(p));
        let answer = |p: &Vec<f32>| LensAnswer {
            label: self.config.labels[best(p)].clone(),
            probability: p[best(p)],
            last_layer_probability: p[last],
            probabilities: order.iter().map(|&class| p[class]).collect(),
        };
        Ok(LogitLens { tokens: Vec::new(), depths: depths.iter().map(|p| vec![answer(p)]).collect() })
    }

    /// Returns the contributions to the residual stream of each token.
    pub(super) fn residual_norms(&self, ids: &[u32], recording: &ResidualRecording<f32>) -> Result<ResidualNorms> {
        let (model, params) = (&self.model, &self.params);
        let (vectors, positions) = model.token_and_position_vectors(params, ids)?;
        let scale = embedding_scale(&self.config.model.embeddings, vectors.ncols());
        let tokens = EmbeddedTokens { ids, scale, vectors, positions };
        Ok(ResidualNorms::measure(tokens, recording, params, |layer| {
            model.attention(layer).expect("a model with a residual stream has attention")
        }))
    }
}

impl TextGenerator {
    /// Records what the network computes for tokens.
    pub(super) fn record_residual(&self, ids: &[u32]) -> Result<ResidualRecording<f32>> {
        Ok(self.model.residual_reader(&self.params).record(self.model.embed(&self.params, ids)?)?)
    }

    /// Returns the next token that the output layer reads at each token and depth. Long texts are truncated to their last
    /// tokens.
    pub(super) fn logit_lens(&self, ids: &[u32], recording: &ResidualRecording<f32>) -> Result<LogitLens> {
        let (reader, config) = (self.model.residual_reader(&self.params), &self.config.model);
        let depths = recording.residual.len();
        let per_token = (config.vocab_size * config.encoder.d_model * depths) as f64;
        let shown = ((MAX_COST / per_token.max(1.0)) as usize).clamp(1, ids.len().max(1)).min(ids.len());
        let first = ids.len() - shown;
        let logits = |depth: usize, tokens: Range<usize>| -> Result<Array2<f32>> {
            let mut logits = reader.logits_at(recording, depth, first + tokens.start..first + tokens.end)?;
            // The unknown token is never generated.
            if let Some(id) = self.tokenizer.unknown_id() {
                logits.column_mut(id as usize).fill(f32::NEG_INFINITY);
            }
            Ok(logits)
        };
        let tokens = ids[first..].iter().map(|&id| self.tokenizer.token(id)).collect();
        LogitLens::over_tokens(tokens, [depths - 1, config.vocab_size], logits, |id| self.tokenizer.token(id as u32))
    }

    /// Returns the contributions to the residual stream of each token.
    pub(super) fn residual_norms(&self, ids: &[u32], recording: &ResidualRecording<f32>) -> Result<ResidualNorms> {
        let (model, params) = (&self.model, &self.params);
        let (vectors, positions) = model.token_and_position_vectors(params, ids)?;
        let scale = embedding_scale(&self.config.model.embeddings, vectors.ncols());
        let tokens = EmbeddedTokens { ids, scale, vectors, positions };
        Ok(ResidualNorms::measure(tokens, recording, params, |layer| model.attention(layer)))
    }
}

impl TextTagger {
    /// Returns the tag that the network's head reads for each unit at each depth, in the first window of a text. `None`
    /// without a network or without tokens.
    pub(super) fn logit_lens(&self, text: &str, units: &[Range<usize>]) -> Result<Option<LogitLens>> {
        let Some(network) = &self.network else { return Ok(None) };
        let Some((window, shown)) = network.first_window(text, units)? else { return Ok(None) };
        let reader = network.model.residual_reader(&network.params, window.units());
        let recording = reader.record(network.model.embed(&network.params, window.tokens())?)?;
        // A unit reads one of the tokens; all units are read, because there are few tags.
        let logits = |depth: usize, words: Range<usize>| -> Result<Array2<f32>> {
            let logits = reader.logits_at(&recording, depth, 0..recording.residual[depth].nrows())?;
            Ok(logits.slice_axis(Axis(0), Slice::from(words)).to_owned())
        };
        let words = units[shown].iter().map(|unit| text[unit.clone()].to_owned()).collect();
        let sizes = [recording.residual.len() - 1, network.config.model.num_tags];
        Ok(Some(LogitLens::over_tokens(words, sizes, logits, |tag| self.tag_name(tag))?))
    }
}

/// Returns the displayed name of the token that starts or ends a translation. One token may do both: written, it ends.
fn boundary_name(id: u32, [start, end]: [u32; 2]) -> Option<&'static str> {
    match id {
        _ if id == end => Some(END_NAME),
        _ if id == start => Some(START_NAME),
        _ => None,
    }
}

impl TextTranslator {
    /// Returns the token that the output layer reads at each target token and depth of the decoder. The columns are named
    /// after the tokens that the translation has there, of which the last is `[END]`.
    pub(super) fn logit_lens(&self, pair: &TranslationBatch) -> Result<LogitLens> {
        let (model, params) = (&self.model, &self.params);
        let [source, target] = [&pair.source, &pair.input].map(|ids| Offsets::from_lengths([ids.len()]));
        let reader = model.decoder_reader(params, model.encode(params, &pair.source, &source)?);
        let recording = reader.record(model.embed_target(params, &pair.input, &target)?)?;
        let tokens = pair.output.iter().map(|&id| self.target_token_name(id as usize)).collect();
        let sizes = [recording.residual.len() - 1, self.config.model.target_vocab_size];
        let logits = |depth: usize, tokens: Range<usize>| Ok(reader.logits_at(&recording, depth, tokens)?);
        LogitLens::over_tokens(tokens, sizes, logits, |id| self.target_token_name(id))
    }

    /// Returns the displayed name of a target token.
    pub(super) fn target_token_name(&self, id: usize) -> String {
        let id = id as u32;
        let boundary = boundary_name(id, self.start_and_end_tokens());
        boundary.map_or_else(|| self.tokenizers.target.token(id), str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn the_ends_of_a_translation_have_names() {
        assert_eq!([3, 4, 5].map(|id| boundary_name(id, [3, 5])), [Some("[START]"), None, Some("[END]")]);
        assert_eq!(boundary_name(0, [0, 0]), Some("[END]"));
    }

    #[test]
    fn each_depth_has_its_best_answer_and_the_probability_of_the_last() {
        let depths = [array![[1.0f32, 0.0, 0.0], [0.0, 0.0, 2.0]], array![[0.0f32, 1.0, 0.0], [0.0, 0.0, 3.0]]];
        let names = ["a", "b", "c"];
        let logits = |depth: usize, tokens: Range<usize>| {
            assert_eq!(tokens, 0..2);
            Ok(depths[depth].clone())
        };
        let lens = LogitLens::over_tokens(vec!["x".into(), "y".into()], [1, 3], logits, |id| names[id].into()).unwrap();
        assert!(lens.is_consistent(1, 3) && !lens.is_consistent(2, 3));
        let e = 1f32.exp();
        let first = &lens.depths[0][0];
        assert_eq!(first.label, "a");
        assert!(
            (first.probability - e / (e + 2.0)).abs() < 1e-6
                && (first.last_layer_probability - 1.0 / (e + 2.0)).abs() < 1e-6
        );
        let last = &lens.depths[1][1];
        assert_eq!((last.label.as_str(), last.probability), ("c", last.last_layer_probability));
    }

    /// Five tokens with two million answers are read two at a time, at one depth after the other.
    #[test]
    fn a_lens_over_a_large_vocabulary_reads_few_tokens_at_a_time() {
        let answers = LENS_LOGITS / 2;
        let best = |depth: usize, token: usize| 10 * depth + token;
        let most = std::cell::Cell::new(0);
        let logits = |depth: usize, tokens: Range<usize>| {
            most.set(most.get().max(tokens.len() * answers));
            let row = |token| (0..answers).map(move |id| if id == best(depth, token) { 40.0 } else { 0.0 });
            Ok(Array2::from_shape_vec((tokens.len(), answers), tokens.flat_map(row).collect()).unwrap())
        };
        let lens = LogitLens::over_tokens(vec![String::new(); 5], [1, answers], logits, |id| id.to_string()).unwrap();
        assert_eq!(most.get(), LENS_LOGITS);
        assert!(lens.is_consistent(1, 3));
        for (depth, answers) in lens.depths.iter().enumerate() {
            for (token, answer) in answers.iter().enumerate() {
                assert_eq!(answer.label, best(depth, token).to_string());
                assert_eq!(answer.last_layer_probability > 0.9, depth == 1, "{answer:?}");
            }
        }
    }
}
