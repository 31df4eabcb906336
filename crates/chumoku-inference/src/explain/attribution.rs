//! The effects of words on an answer, their method, and evidence for their faithfulness.

use serde::{Deserialize, Serialize};

/// The effect of each word on the prediction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Attribution {
    /// The attribution method, for example "leave-one-out".
    pub method: String,
    /// The class that the scores explain, or the text of a similarity.
    pub class: String,
    /// The unit of a score, for example "change in log-odds when the word is removed".
    pub unit: String,
    /// The score of each word. 0 for special tokens.
    ///
    /// A positive score means that the word supports the class. It is the log-odds with the word minus those without
    /// it, or the difference of cosines for encoders. A negative score means that the word opposes the class.
    ///
    /// For ensembles, this is the effect on the network alone.
    pub scores: Vec<f32>,
    /// The scores of the ensemble, including the n-gram model, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<Vec<f32>>,
    /// The words after the first window of a longer text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beyond: Vec<WordEffect>,
    /// For integrated gradients: the sum of the scores and its error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integral: Option<PathIntegral>,
    /// Deletion and insertion curves, if they were computed
    /// ([`TextClassifier::curves`](crate::TextClassifier::curves)). They show whether the prediction depends on the
    /// highest-ranked words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curves: Option<FaithfulnessCurves>,
}

/// The completeness of integrated gradients: scores should sum to the log-odds of the text minus those of the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathIntegral {
    /// The log-odds at the baseline, where each text token is the mean of all embeddings.
    pub baseline: f32,
    /// The log-odds of the text.
    pub text: f32,
    /// An upper bound of the completeness gap: the sum over the parts of the path.
    pub gap: f32,
    /// The number of points on the path at which gradients were computed.
    pub nodes: usize,
}

impl PathIntegral {
    /// Returns the gap as a share of the change in log-odds. `None` if the log-odds do not change.
    #[must_use]
    pub fn gap_share(&self) -> Option<f32> {
        let change = (self.text - self.baseline).abs();
        (change > 0.0).then(|| self.gap / change)
    }
}

/// The attribution method for words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttributionMethod {
    /// Predicts the text again without each word (Li, Monroe and Jurafsky 2016).
    #[default]
    LeaveOneOut,
    /// Integrates gradients along a path from a neutral baseline to the text (Sundararajan, Taly and Yan 2017).
    IntegratedGradients,
}

impl AttributionMethod {
    /// The name used in [`Attribution::method`].
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            AttributionMethod::LeaveOneOut => "leave-one-out",
            AttributionMethod::IntegratedGradients => "integrated gradients",
        }
    }

    /// The unit used in [`Attribution::unit`], for log-odds.
    pub(super) fn unit(self) -> &'static str {
        match self {
            AttributionMethod::LeaveOneOut => "change in log-odds when the word is removed",
            AttributionMethod::IntegratedGradients => {
                "share of the change in log-odds from the mean embedding to the text"
            }
        }
    }
}

/// A word outside the displayed attention, with its effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WordEffect {
    /// The word as in the text.
    pub text: String,
    /// The score, as in [`Attribution::scores`].
    pub score: f32,
    /// The score of the ensemble, as in [`Attribution::whole`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<f32>,
}

/// Deletion and insertion curves: the network's prediction, without the n-gram model, as words are removed from or
/// added to a text in a given order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FaithfulnessCurves {
    /// The number of removed or added words at each step, from 0 to all.
    pub words: Vec<usize>,
    /// The order of the explanation, followed by the orders for comparison.
    pub orders: Vec<OrderCurves>,
}

/// The curves of one word order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderCurves {
    /// The name of the order: the attribution method, `attention`, `rollout` or `random`. `attention` orders words by
    /// the attention they receive in the last layer, averaged over heads and queries. `rollout` does the same with
    /// rollout up to the last layer. `random` is the mean of five random orders.
    pub order: String,
    /// The network's probability of the class at each step of deletion.
    pub deletion: Vec<f32>,
    /// The network's probability of the class at each step of insertion.
    pub insertion: Vec<f32>,
    /// The area under `deletion`, with the share of removed words from 0 to 1. Smaller is better.
    pub deletion_area: f32,
    /// The area under `insertion`. Larger is better.
    pub insertion_area: f32,
}
