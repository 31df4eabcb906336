//! A conditional random field that labels each unit of a text from its features and the previous label (Lafferty,
//! McCallum and Pereira 2001).
//!
//! # Files
//!
//! - `blend`: weights of random field and network
//! - `chain`: probabilities, gradient and best labels
//! - `features`: hashed features of units
//! - `fit`: training
//! - `tags`: labels and spans

mod blend;
mod chain;
mod features;
mod fit;
mod tags;

use crate::data::SpanUnit;
pub use blend::{MemberEmissions, TaggerBlend};
pub(crate) use chain::viterbi_allowed;
pub use chain::{ForwardBackward, Transitions, viterbi};
pub use features::features;
pub(crate) use features::{FeatureDescription, describe_features};
pub use fit::{Corpus, CrfSentence, CrfSettings, CrfTrainer};
use std::ops::Range;
pub use tags::TagScheme;

/// A trained conditional random field.
#[derive(Clone, Debug)]
pub struct Crf {
    /// Feature hashes in strictly ascending order.
    pub(crate) hashes: Vec<u64>,
    /// (features, labels).
    pub(crate) weights: Vec<f32>,
    /// (labels + 1, labels), with the start in the last row. Forbidden transitions are 0.
    pub(crate) transitions: Vec<f32>,
}

impl Crf {
    /// Returns the indices of the known features of each unit.
    pub(crate) fn known_features(&self, text: &str, units: &[Range<usize>], unit: SpanUnit) -> Vec<Vec<u32>> {
        let number = |hash: u64| self.feature_number(hash);
        features(text, units, unit).into_iter().map(|seen| seen.into_iter().filter_map(number).collect()).collect()
    }

    /// Returns the index of a feature, if it is known.
    pub(crate) fn feature_number(&self, hash: u64) -> Option<u32> {
        self.hashes.binary_search(&hash).ok().map(|at| at as u32)
    }

    /// Returns the weights of a feature, one per label.
    pub(crate) fn feature_weights(&self, number: u32, labels: usize) -> &[f32] {
        &self.weights[number as usize * labels..][..labels]
    }

    /// Returns the score of each label at each unit.
    pub(crate) fn emissions(&self, known: &[Vec<u32>], labels: usize) -> Vec<f32> {
        fit::emissions(&self.weights, known, labels)
    }
}
