//! Why a model said what it said: the attention of every layer and head by word, what each word and each head does to
//! the prediction, and which heads do more than chance. Numbers and words alone; `view` draws them.
//!
//! A classifier's text and a language model's are explained by an [`Explanation`], a translator's by an [`Alignment`],
//! attention to one text as a model learns by [`Frame`]s.

mod alignment;
mod chance;
mod classifier;
mod explanation;
mod frame;
mod json;
mod next_token;
mod recorded;
mod roles;
mod translation;

#[cfg(test)]
pub(crate) use alignment::tests::example as alignment_example;
pub use alignment::{AlignedHead, Alignment, TranslationWithoutHead};
pub(crate) use classifier::JOINING;
pub use explanation::{
    Attribution, Depth, Derived, ExplainedKind, Explanation, ExplanationError, LabelProbability, Parts, Piece, TextCut,
    WholeWithoutHead, WithoutHead, Word, WordEffect,
};
pub use frame::Frame;
pub(crate) use frame::WATCHED;
pub(crate) use json::{fields, number, shorten};
pub use json::{from_json, to_json};
pub(crate) use recorded::{Look, Reading, by_word, check_head};
pub use roles::{HeadStatistics, Role};
pub(crate) use roles::{measure, rule};
