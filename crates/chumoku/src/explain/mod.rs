//! Why a model said what it said: the attention of every layer and head by word, what each word and each head does to
//! the prediction, and which heads do more than chance. Numbers and words alone; `chumoku-view` draws them.
//!
//! A classifier's text, a language model's and an encoder's are explained by an [`Explanation`], a translator's by an [`Alignment`],
//! a tagger's by a [`TaggedText`], attention to one text as a model learns by [`Frame`]s.

mod alignment;
mod attention;
mod attribution;
mod beam;
mod chance;
mod classifier;
mod columns;
mod cost;
mod curves;
mod errors;
mod explanation;
mod faithfulness;
mod frame;
mod gradients;
mod json;
mod loss;
mod marked;
mod merges;
mod next_token;
mod ngrams;
mod question_errors;
mod recorded;
mod roles;
mod similarity;
mod spans;
mod statistics;
mod tagged_text;
mod tagger_attention;
mod translation;
mod vector;

pub use alignment::{AlignedHead, Alignment, TranslationWithoutHead};
pub use attention::{AttentionPlace, ModelAttention, ModelPlace, RecordedAttention};
pub use attribution::{Attribution, Curve, Curves, Integral, Method, WordEffect};
pub use beam::{BeamNode, BeamTree, FoundText};
pub use columns::{ColumnEffect, ReadAs};
pub use cost::ExplainCost;
pub use errors::{ConfidentError, Confusion, ErrorGroup, ErrorKind, Errors, LabelErrors, Told};
pub use explanation::{
    Depth, Derived, ExplainedKind, Explanation, ExplanationError, Halves, LabelProbability, Piece, TextCut,
    WholeWithoutHead, WithoutHead, Word,
};
pub use faithfulness::{Faith, Faithfulness, Mean};
pub(crate) use frame::WATCHED;
pub use frame::{Frame, load_frames};
pub use json::{from_json, number, shorten, to_json};
pub use loss::{AnswerGradients, LossTarget, RecordedLoss};
pub use marked::MarkedWord;
pub use merges::merges_of;
pub(crate) use recorded::{Look, Reading, by_word};
pub use roles::{HeadStatistics, Role, rule};
pub use spans::AskedSpan;
pub use tagged_text::{
    Against, ExplainedSpan, FeatureEffect, FoundLabel, NetworkEffect, SpanHalf, TaggedText, TransitionEffect,
};
pub use translation::GrowingTranslation;
pub use vector::{Recorded, RecordedAnswer, RecordedDense, RecordedVector};
