//! Explanations of predictions: the attention of every layer and head by word, the effect of each word and head on the
//! prediction, and heads that exceed chance. Explanations are numbers and words; `chumoku-view` draws them.
//!
//! Classifiers, language models and encoders give an [`Explanation`], translators an [`Alignment`], taggers a
//! [`TaggedText`]. [`AttentionFrame`]s show the attention to one text during training.
//!
//! # Files
//!
//! - `activation_patching`: activations of one text replaced by those of another
//! - `alignment`: source and translation
//! - `attention`: one attention of a model, number by number
//! - `attention_collector`: layer traces combined into word weights
//! - `attention_frame`: attention at one point in training
//! - `attribution`: effects of words
//! - `beam`: the tree of a beam search
//! - `classifier`: explanation of a class
//! - `columns`: effects of feature columns
//! - `cost`: estimated cost of an explanation
//! - `curves`: deletion and insertion curves
//! - `errors`: most confident wrong classes
//! - `explanation`: the explanation of one text
//! - `faithfulness`: comparison of methods over many texts
//! - `forward_trace`: the computation behind a vector or answer
//! - `highlighted`: words with their effects
//! - `inner_steps`: requests for the logit lens and patching
//! - `integrated_gradients`: integrated gradients
//! - `json`: explanations as JSON
//! - `label_and_number_errors`: most confident wrong labels and numbers
//! - `label_probability`: a class with its probability
//! - `logit_lens`: the answer that the head reads after every layer
//! - `loss`: loss of a text and its gradients
//! - `merges`: segmentation by the tokenizer
//! - `next_token`: explanation of the next token
//! - `ngrams`: effects of n-grams
//! - `patching`: the result of activation patching
//! - `random_heads`: statistics of random heads
//! - `required_text`: the check that there is a text
//! - `residual_norms`: lengths of the vectors that add up to each token's residual stream
//! - `roles`: roles of heads
//! - `similarity`: explanation of a similarity
//! - `spans`: explanation of a span
//! - `statistics`: statistics of a head
//! - `tagged_text`: explained spans of a text
//! - `tagger_attention`: attention of a tagger
//! - `translation`: explanation of a translation

mod activation_patching;
mod alignment;
mod attention;
mod attention_collector;
mod attention_frame;
mod attribution;
mod beam;
mod classifier;
mod columns;
mod cost;
mod curves;
mod errors;
mod explanation;
mod faithfulness;
mod forward_trace;
mod highlighted;
mod inner_steps;
mod integrated_gradients;
mod json;
mod label_and_number_errors;
mod label_probability;
mod logit_lens;
mod loss;
mod merges;
mod next_token;
mod ngrams;
mod patching;
mod random_heads;
mod required_text;
mod residual_norms;
mod roles;
mod similarity;
mod spans;
mod statistics;
mod tagged_text;
mod tagger_attention;
mod translation;

pub use alignment::{AlignedHead, Alignment, TranslationHeadAblation};
pub use attention::{AttentionKind, HeadLocation, HeadSelection, RecordedAttention};
pub use attention_collector::{AttentionCollector, FramedText, word_weights};
pub use attention_frame::FRAME_KEY;
pub use attention_frame::{AttentionFrame, load_frames};
pub use attribution::{Attribution, AttributionMethod, FaithfulnessCurves, OrderCurves, PathIntegral, WordEffect};
pub use beam::{BeamNode, BeamResult, BeamTree};
pub use columns::{ColumnEffect, ColumnReading};
pub use cost::ExplainCost;
pub use errors::{
    ConfidentError, Confusion, ErrorAnalysis, ErrorGroup, ErrorKind, ErrorOptions, LabelErrors, WrongAnswer,
};
pub use explanation::{
    DerivedAttention, EnsembleHeadAblation, EnsembleMembers, Explanation, ExplanationError, ExplanationKind,
    HeadAblation, QueriesAndKeys, Truncation, Word, WordPiece,
};
pub use faithfulness::{Faithfulness, MeanInterval, MethodFaithfulness};
pub use forward_trace::{ForwardTrace, RecordedAnswer, RecordedDense, RecordedVector};
pub use highlighted::HighlightedWord;
pub use inner_steps::InnerSteps;
pub use json::{from_json, json_number, shorten_numbers, to_json};
pub use label_probability::LabelProbability;
pub use logit_lens::{LensAnswer, LogitLens};
pub use loss::{AnswerGradients, LossTarget, RecordedLoss};
pub use merges::merges_of;
pub use patching::{AnswerPosition, DecoderPatching, PatchedSite, Patching, SiteEffects, parse_aligned_tokens};
pub use residual_norms::ResidualNorms;
pub use roles::{HeadRole, HeadStatistics, role_rule};
pub use spans::SpanQuery;
pub use tagged_text::{
    AlternativeSpan, ExplainedSpan, FeatureEffect, LabelComparison, MemberSpanScore, NetworkEffect, TaggedText,
    TransitionEffect,
};
pub use translation::PartialTranslation;
