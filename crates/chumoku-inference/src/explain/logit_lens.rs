//! The logit lens: the answer that the model's own head reads after every layer (nostalgebraist 2020, "interpreting
//! GPT: the logit lens").
//!
//! The head was trained for the last layer. Its earlier answers are hints, not beliefs of the model.

use super::residual_norms::{EmbeddedTokens, ResidualNorms};
use crate::Result;
use crate::blend::label_blend::sigmoid;
use crate::models::TranslationBatch;
use crate::nn::InputEmbeddingsOptions;
use crate::scoring::argmax;
use crate::text_models::classifier::TextClassifier;
use crate::text_models::generator::TextGenerator;
use crate::text_models::tagger::TextTagger;
use crate::text_models::translator::TextTranslator;
use chumoku_nn::probability::log_softmax;
use ndarray::{Array2, ArrayView1, Axis, Slice};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The displayed names of the tokens that start and end a translation.
pub(super) const START_NAME: &str = "[START]";
pub(super) const END_NAME: &str = "[END]";

/// The largest number of multiply–adds of the output layer in a lens. Longer texts show their last tokens.
const MAX_COST: f64 = 2e10;

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
    /// Builds a lens over tokens from the logits at each depth, (positions, answers). The names of answers come from
    /// `label`.
    pub(super) fn over_tokens(
        tokens: Vec<String>,
        depths: &[Array2<f32>],
        label: impl Fn(usize) -> String,
    ) -> LogitLens {
        let last: Vec<usize> = depths
            .last()
            .map_or_else(Vec::new, |logits| logits.outer_iter().map(|row| argmax(&row.to_vec()) as usize).collect());
        let of_depth = |logits: &Array2<f32>| {
            let answer = |(position, row): (usize, ArrayView1<'_, f32>)| {
                let p = answer_probabilities(&row.to_vec(), true);
                let most = argmax(&p) as usize;
                LensAnswer {
                    label: label(most),
                    probability: p[most],
                    last_layer_probability: p[last[position]],
                    probabilities: Vec::new(),
                }
            };
            logits.outer_iter().enumerate().map(answer).collect()
        };
        LogitLens { tokens, depths: depths.iter().map(of_depth).collect() }
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
    /// Returns the answers that the head reads from the embeddings and after each layer, pooled as after the last
    /// layer. Also returns the contributions to the residual stream of each token. For ensembles, these are answers of
    /// the network alone. `None` for a recurrent network.
    ///
    /// `class` is the label or threshold that is explained, and `order` the order of the classes.
    pub(super) fn inner_steps(
        &self,
        ids: &[u32],
        class: usize,
        order: &[usize],
    ) -> Result<Option<(LogitLens, ResidualNorms)>> {
        let (model, params) = (&self.model, &self.params);
        let Some(reader) = model.residual_reader(params) else { return Ok(None) };
        let recording = reader.record(model.embed(params, ids)?)?;
        let is_one_class = self.config.target.is_one_class();
        let depths: Vec<Vec<f32>> = reader
            .logit_lens(&recording)?
            .iter()
            .map(|logits| answer_probabilities(&logits.row(0).to_vec(), is_one_class))
            .collect();
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
        let lens = LogitLens { tokens: Vec::new(), depths: depths.iter().map(|p| vec![answer(p)]).collect() };
        let (vectors, positions) = model.token_and_position_vectors(params, ids)?;
        let scale = embedding_scale(&self.config.model.embeddings, vectors.ncols());
        let tokens = EmbeddedTokens { ids, scale, vectors, positions };
        let path = ResidualNorms::measure(tokens, &recording, params, |layer| {
            model.attention(layer).expect("a model with a residual stream has attention")
        });
        Ok(Some((lens, path)))
    }
}

impl TextGenerator {
    /// Returns the next token that the output layer reads at each token and depth, and the contributions to the
    /// residual stream of each token. Long texts are truncated to their last tokens for the lens.
    pub(super) fn inner_steps(&self, ids: &[u32]) -> Result<(LogitLens, ResidualNorms)> {
        let (model, params, config) = (&self.model, &self.params, &self.config.model);
        let reader = model.residual_reader(params);
        let mut recording = reader.record(model.embed(params, ids)?)?;
        let (vectors, positions) = model.token_and_position_vectors(params, ids)?;
        let scale = embedding_scale(&config.embeddings, vectors.ncols());
        let tokens = EmbeddedTokens { ids, scale, vectors, positions };
        let path = ResidualNorms::measure(tokens, &recording, params, |layer| model.attention(layer));
        let per_token = (config.vocab_size * config.encoder.d_model * recording.residual.len()) as f64;
        let shown = ((MAX_COST / per_token.max(1.0)) as usize).clamp(1, ids.len().max(1)).min(ids.len());
        let first = ids.len() - shown;
        for x in &mut recording.residual {
            *x = x.slice_axis(Axis(0), Slice::from(first..)).to_owned();
        }
        let tokens = ids[first..].iter().map(|&id| self.tokenizer.token(id)).collect();
        let mut depths = reader.logit_lens(&recording)?;
        // The unknown token is never generated.
        if let Some(id) = self.tokenizer.unknown_id() {
            depths.iter_mut().for_each(|logits| logits.column_mut(id as usize).fill(f32::NEG_INFINITY));
        }
        Ok((LogitLens::over_tokens(tokens, &depths, |id| self.tokenizer.token(id as u32)), path))
    }
}

impl TextTagger {
    /// Returns the tag that the network's head reads for each unit at each depth, in the first window of a text. `None`
    /// without a network or without tokens.
    pub(super) fn logit_lens(&self, text: &str, units: &[Range<usize>]) -> Result<Option<LogitLens>> {
        let Some(network) = &self.network else { return Ok(None) };
        let Some((window, shown)) = network.first_window(text, units)? else { return Ok(None) };
        let reader = network.model.residual_reader(&network.params, window.units());
        let depths = reader.logit_lens(&reader.record(network.model.embed(&network.params, window.tokens())?)?)?;
        let words = units[shown].iter().map(|unit| text[unit.clone()].to_owned()).collect();
        Ok(Some(LogitLens::over_tokens(words, &depths, |tag| self.tag_name(tag))))
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
        let depths = self.model.logit_lens(&self.params, pair)?;
        let tokens = pair.output.iter().map(|&id| self.target_token_name(id as usize)).collect();
        Ok(LogitLens::over_tokens(tokens, &depths, |id| self.target_token_name(id)))
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
        let lens = LogitLens::over_tokens(vec!["x".into(), "y".into()], &depths, |id| names[id].into());
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
}
