//! The explained spans of a text: words, features, and their contributions.

use super::highlighted::HighlightedWord;
use super::logit_lens::LogitLens;
use super::patching::Patching;
use crate::crf::TaggerBlend;
use crate::data::Span;
use crate::text_models::tagger::PredictedSpan;
use serde::Serialize;

/// The spans of a text, with their explanations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaggedText {
    /// Name of the model's folder, without its path.
    pub model: String,
    /// The text.
    pub text: String,
    /// The attribution method: "leave-one-out".
    pub method: String,
    /// The unit of an effect.
    pub unit: String,
    /// With a network: the token that replaces each token of a masked word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden_by: Option<String>,
    /// With a network: the weights of the network and the random field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blend: Option<TaggerBlend>,
    /// With a network: the tags that its head reads for each word after each layer. Long texts are truncated to the
    /// first window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lens: Option<LogitLens>,
    /// How far the tag of a word moves when values inside the network are those of another text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patching: Option<Patching>,
    /// The predicted spans in order, or the requested span.
    pub spans: Vec<ExplainedSpan>,
}

/// A span with its explanation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExplainedSpan {
    /// The position, label and probability of the span.
    #[serde(flatten)]
    pub span: PredictedSpan,
    /// `true` if the model predicts the span. A requested span may not be predicted.
    pub is_found: bool,
    /// The words of the text, each with the log-odds of exactly this span minus those with the word masked.
    pub words: Vec<HighlightedWord>,
    /// The explanation by the network alone, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<MemberSpanScore>,
    /// The explanation by the random field alone, if there is a network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crf: Option<MemberSpanScore>,
    /// A comparison of the most probable labels that contain the span with alternative labels. `None` if there are no
    /// alternatives.
    pub against: Option<LabelComparison>,
}

/// The explanation of a span by one member of the ensemble.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemberSpanScore {
    /// The member's probability of the span.
    pub probability: f64,
    /// The effects of words on this member alone, as in [`ExplainedSpan::words`].
    pub effects: Vec<f32>,
}

/// The score of the most probable labels that contain a span, minus that of alternative labels. The difference is the
/// logarithm of their probability ratio, and the sum of the parts below.
///
/// For a predicted span, the alternative is the most probable labeling in which none of its words has its kind.
/// Otherwise it is the model's prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LabelComparison {
    /// Spans of the alternative that the first labeling does not have. Empty if there are none.
    pub spans: Vec<AlternativeSpan>,
    /// The score with the span.
    pub score: f64,
    /// The score of the alternative.
    pub other_score: f64,
    /// `score` minus `other_score`.
    pub difference: f64,
    /// The part of the random field's features: the sum of [`LabelComparison::features`].
    pub from_features: f64,
    /// The part of the random field's transitions.
    pub from_transitions: f64,
    /// The part of the network. 0 without a network.
    pub from_network: f64,
    /// The known features of words whose labels differ, strongest first.
    pub features: Vec<FeatureEffect>,
    /// The transitions that differ, in order.
    pub transitions: Vec<TransitionEffect>,
    /// The network's part at each word whose labels differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<NetworkEffect>,
}

/// A span without a probability.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AlternativeSpan {
    /// Its position and label.
    #[serde(flatten)]
    pub span: Span,
    /// The text of the span.
    pub text: String,
}

/// The effect of a feature of the random field.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FeatureEffect {
    /// The word or character with the feature.
    pub word: String,
    /// The index of its first character.
    pub start: usize,
    /// Its label with the span: `O`, or `B-` or `I-` with a kind, or the kind alone if every word has a label.
    pub label: String,
    /// Its label in the alternative.
    pub other: String,
    /// The kind of feature.
    pub feature: String,
    /// The position of the feature's first and last unit, in words or characters relative to this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<[isize; 2]>,
    /// The value of the feature.
    pub value: String,
    /// The feature's weight for `label`.
    pub weight: f32,
    /// Its weight for `other`.
    pub other_weight: f32,
    /// `weight` minus `other_weight`, multiplied by the random field's weight in the blend.
    pub effect: f64,
}

/// The effect of two consecutive labels.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TransitionEffect {
    /// The word or character with the second label.
    pub word: String,
    /// The labels with the span. The first is `None` at the start of the text.
    pub labels: [Option<String>; 2],
    /// The labels in the alternative.
    pub others: [Option<String>; 2],
    /// The transition weight of `labels` minus that of `others`, multiplied by the random field's weight in the blend.
    pub effect: f64,
}

/// The effect of the network at a word.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NetworkEffect {
    /// The word or character.
    pub word: String,
    /// Its label with the span.
    pub label: String,
    /// Its label in the alternative.
    pub other: String,
    /// The log-probability of `label` minus that of `other`, multiplied by the network's weight in the blend.
    pub effect: f64,
}
