//! What each word does to an answer, how that was found, and what speaks for it.

use serde::{Deserialize, Serialize};

/// What each word does to the prediction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Attribution {
    /// How the scores were measured, for example "leave-one-out".
    pub method: String,
    /// The class whose prediction the scores are about, or the text whose likeness.
    pub class: String,
    /// What a score is, for example "change in log-odds when the word is removed".
    pub unit: String,
    /// One score a word, 0 for special tokens.
    ///
    /// Above 0 the word speaks for the class: with it the class is that much more likely than without it
    /// (log-odds with the word, less log-odds without it; of an encoder, cosines). Below 0 it speaks against.
    ///
    /// Of a predictor of two halves this is what the network by itself makes of the word.
    pub scores: Vec<f32>,
    /// The same of the whole predictor, with the n-grams, if it has two halves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<Vec<f32>>,
    /// The words after those that are read at a time, of a text that is longer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beyond: Vec<WordEffect>,
    /// Of integrated gradients: what the scores add up to, and how nearly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integral: Option<PathIntegral>,
    /// Whether the answer rests on the words that the scores rank first, if that was measured
    /// ([`TextClassifier::curves`](crate::TextClassifier::curves)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curves: Option<FaithfulnessCurves>,
}

/// What scores of integrated gradients add up to: the log-odds of the text, less those of the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathIntegral {
    /// The log-odds where each token of the text has the mean of all embeddings.
    pub baseline: f32,
    /// The log-odds of the text.
    pub text: f32,
    /// By how much the scores do not add up to their difference, at most: the sum over the parts of the path.
    pub gap: f32,
    /// Points of the path at which the gradient was taken.
    pub nodes: usize,
}

impl PathIntegral {
    /// The gap as a share of the change of the log-odds; none where these do not change.
    #[must_use]
    pub fn gap_share(&self) -> Option<f32> {
        let change = (self.text - self.baseline).abs();
        (change > 0.0).then(|| self.gap / change)
    }
}

/// How the effect of words is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttributionMethod {
    /// The text is read anew without each word (Li, Monroe and Jurafsky 2016).
    #[default]
    LeaveOneOut,
    /// Gradients are added up on the way from a text without content (Sundararajan, Taly and Yan 2017).
    IntegratedGradients,
}

impl AttributionMethod {
    /// As [`Attribution::method`] says it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            AttributionMethod::LeaveOneOut => "leave-one-out",
            AttributionMethod::IntegratedGradients => "integrated gradients",
        }
    }

    /// As [`Attribution::unit`] says it, of log-odds.
    pub(super) fn unit(self) -> &'static str {
        match self {
            AttributionMethod::LeaveOneOut => "change in log-odds when the word is removed",
            AttributionMethod::IntegratedGradients => {
                "share of the change in log-odds from the mean embedding to the text"
            }
        }
    }
}

/// A word of which there is no attention to show, and what it does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WordEffect {
    /// The word as it stands in the text.
    pub text: String,
    /// As [`Attribution::scores`].
    pub score: f32,
    /// As [`Attribution::whole`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<f32>,
}

/// What the network, without the n-grams, says of a text of which more and more words are cut out, and of one into which more
/// and more words are put, the first in an order of words first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FaithfulnessCurves {
    /// Words cut out, or put in, at each step: from 0 to all.
    pub words: Vec<usize>,
    /// The explanation's order first, then those it is held against.
    pub orders: Vec<OrderCurves>,
}

/// The curves of one order of words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderCurves {
    /// Whose order it is: the method of the explanation; `attention` (what a word receives in the last layer, the mean over heads
    /// and queries); `rollout` (the same of rollout up to the last layer); `random`, the mean of five orders.
    pub order: String,
    /// The network's probability of the class at each step, words being cut out.
    pub deletion: Vec<f32>,
    /// The same, words being put in.
    pub insertion: Vec<f32>,
    /// The area under `deletion`, from no word to all as 0 to 1: the smaller, the better the order.
    pub deletion_area: f32,
    /// The area under `insertion`: the larger, the better.
    pub insertion_area: f32,
}
