//! Why a model said what it said: the attention of every layer and head by word, what each word and each head does to
//! the prediction, and which heads do more than chance. Numbers and words alone; `chumoku-view` draws them.
//!
//! A classifier's text, a language model's and an encoder's are explained by an [`Explanation`], a translator's by an [`Alignment`],
//! a tagger's by a [`TaggedText`], attention to one text as a model learns by [`Frame`]s.
//!
//! # Files
//!
//! - `alignment`: source and translation
//! - `attention`: one attention of a model, number by number
//! - `attribution`: effects of words
//! - `beam`: the tree of a beam search
//! - `chance`: random heads
//! - `classifier`: explanation of a class
//! - `columns`: effects of feature columns
//! - `cost`: estimated cost of an explanation
//! - `curves`: deletion and insertion curves
//! - `errors`: most confident wrong classes
//! - `explanation`: the explanation of one text
//! - `faithfulness`: comparison of methods over many texts
//! - `frame`: attention at one time of training
//! - `gradients`: integrated gradients
//! - `json`: explanations as JSON
//! - `loss`: loss of a text and its gradients
//! - `marked`: words with their effects
//! - `merges`: segmentation by the tokenizer
//! - `next_token`: explanation of the next token
//! - `ngrams`: effects of n-grams
//! - `question_errors`: most confident wrong labels and numbers
//! - `recorded`: recorded layer values to weights by word
//! - `roles`: roles of heads
//! - `similarity`: explanation of a similarity
//! - `spans`: explanation of a span
//! - `statistics`: statistics of a head
//! - `tagged_text`: explained spans of a text
//! - `tagger_attention`: attention of a tagger
//! - `translation`: explanation of a translation
//! - `vector`: the computation behind a vector

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
