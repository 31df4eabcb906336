//! What there is to say of the spans that a tagger marks in a text: words, features, and sums of them.

use super::highlighted::HighlightedWord;
use crate::crf::TaggerBlend;
use crate::data::Span;
use crate::text_tagger::PredictedSpan;
use serde::Serialize;

/// The spans of a text, and why a tagger marked them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaggedText {
    /// Name of the model's folder, without its path.
    pub model: String,
    /// The text as it was given.
    pub text: String,
    /// How effects were found: "leave-one-out".
    pub method: String,
    /// What an effect is.
    pub unit: String,
    /// With a network: the token that it reads in the place of each token of a hidden word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden_by: Option<String>,
    /// With a network: how much it and the random field count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blend: Option<TaggerBlend>,
    /// The spans that were found, in their order, or the one that was asked for.
    pub spans: Vec<ExplainedSpan>,
}

/// A span, and what speaks for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExplainedSpan {
    /// Where it is, what, and how probable.
    #[serde(flatten)]
    pub span: PredictedSpan,
    /// Whether it is among those that the model marks; one that was asked for may not be.
    pub is_found: bool,
    /// The words of the text, each with the log-odds of just this span minus those with the word hidden.
    pub words: Vec<HighlightedWord>,
    /// What the network says by itself, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<MemberSpanScore>,
    /// What the random field then says by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crf: Option<MemberSpanScore>,
    /// The likeliest labels with the span, held against others; none where there are no others.
    pub against: Option<LabelComparison>,
}

/// What one half of a tagger says of a span.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemberSpanScore {
    /// The probability that it gives to the span.
    pub probability: f64,
    /// As in [`ExplainedSpan::words`], of this half alone.
    pub effects: Vec<f32>,
}

/// The score of the likeliest labels of a text that have a span, minus that of others: ln of how much likelier they are. It is the sum of
/// what follows.
///
/// The others are, of a span that is marked, the likeliest labels in which none of its words has its kind; of one that is not, those
/// that the model gives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LabelComparison {
    /// What the others mark that the first do not; empty for nothing.
    pub spans: Vec<AlternativeSpan>,
    /// The score with the span.
    pub score: f64,
    /// The score of the others.
    pub other_score: f64,
    /// The first minus the second.
    pub difference: f64,
    /// The part of the random field's features: the sum of [`Against::features`].
    pub from_features: f64,
    /// The part of its transitions.
    pub from_transitions: f64,
    /// The part of the network; 0 without one.
    pub from_network: f64,
    /// The features that the model knows, of words whose labels differ, the strongest first.
    pub features: Vec<FeatureEffect>,
    /// The transitions that differ, in their order.
    pub transitions: Vec<TransitionEffect>,
    /// What the network says of the words whose labels differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<NetworkEffect>,
}

/// A span without a probability.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AlternativeSpan {
    /// Where it is, and what.
    #[serde(flatten)]
    pub span: Span,
    /// Its text.
    pub text: String,
}

/// What a feature of the random field does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FeatureEffect {
    /// The word or character that has it.
    pub word: String,
    /// The first character of that, from 0.
    pub start: usize,
    /// Its label with the span: `O`, or `B-` or `I-` and a kind; where each word has a label, that.
    pub label: String,
    /// Its label in the others.
    pub other: String,
    /// What kind of thing is seen.
    pub feature: String,
    /// Where that lies, in words or characters from this one: the first and the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<[isize; 2]>,
    /// What is seen there.
    pub value: String,
    /// The feature's weight for `label`.
    pub weight: f32,
    /// Its weight for `other`.
    pub other_weight: f32,
    /// The first minus the second, times the random field's share of the blend.
    pub effect: f64,
}

/// What two labels in a row do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TransitionEffect {
    /// The word or character that has the second label.
    pub word: String,
    /// The labels with the span; the first is none at the beginning of the text.
    pub labels: [Option<String>; 2],
    /// The others' labels.
    pub others: [Option<String>; 2],
    /// The weight of the first minus that of the second, times the random field's share of the blend.
    pub effect: f64,
}

/// What the network does at a word.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NetworkEffect {
    /// The word or character.
    pub word: String,
    /// Its label with the span.
    pub label: String,
    /// Its label in the others.
    pub other: String,
    /// The log-probability of the first minus that of the second, times the network's share of the blend.
    pub effect: f64,
}
