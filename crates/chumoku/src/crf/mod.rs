//! A conditional random field: a label for each unit of a text, by what is seen of it and by the label before
//! (Lafferty, McCallum and Pereira 2001).
//!
//! # Files
//!
//! - `chain`: probabilities, gradient and best labels
//! - `features`: hashed features of units
//! - `fit`: training
//! - `joined`: weight of the random field beside a network
//! - `tags`: labels and spans

mod blend;
mod chain;
mod features;
mod fit;
mod tags;

use crate::data::SpanUnit;
pub(crate) use blend::MemberEmissions;
pub use blend::TaggerBlend;
pub(crate) use chain::{ForwardBackward, Transitions, viterbi, viterbi_allowed};
pub(crate) use features::{FeatureDescription, describe_features, features};
pub(crate) use fit::{Corpus, CrfSentence, CrfSettings, CrfTrainer};
use std::ops::Range;
pub(crate) use tags::TagScheme;

/// A trained model.
#[derive(Clone, Debug)]
pub(crate) struct Crf {
    /// Strictly ascending.
    pub(crate) hashes: Vec<u64>,
    /// (features, labels).
    pub(crate) weights: Vec<f32>,
    /// (labels + 1, labels), the last row that of the start; what is forbidden is 0.
    pub(crate) transitions: Vec<f32>,
}

impl Crf {
    /// The features of each unit that the model knows, by number.
    pub(crate) fn known_features(&self, text: &str, units: &[Range<usize>], unit: SpanUnit) -> Vec<Vec<u32>> {
        let number = |hash: u64| self.feature_number(hash);
        features(text, units, unit).into_iter().map(|seen| seen.into_iter().filter_map(number).collect()).collect()
    }

    /// The number of a feature, if the model knows it.
    pub(crate) fn feature_number(&self, hash: u64) -> Option<u32> {
        self.hashes.binary_search(&hash).ok().map(|at| at as u32)
    }

    /// The weights of a feature, one for each label.
    pub(crate) fn feature_weights(&self, number: u32, labels: usize) -> &[f32] {
        &self.weights[number as usize * labels..][..labels]
    }

    /// Scores of each label at each unit.
    pub(crate) fn emissions(&self, known: &[Vec<u32>], labels: usize) -> Vec<f32> {
        fit::emissions(&self.weights, known, labels)
    }
}
