//! Observers of the weights of a run, such as the film of its attention.

use crate::models::{Classifier, LanguageModel, Translator};
use crate::nn::BackboneKind;
use crate::params::Params;
use crate::text::TextTokenizer;
use crate::{ModelKind, Result};
use serde_json::Value;
use std::fmt;

/// A network in training, with its tokenizers.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ObservedNetwork<'a> {
    /// The network of a classifier.
    Classifier {
        /// The network.
        model: &'a Classifier,
        /// Its tokenizer.
        tokenizer: &'a TextTokenizer,
        /// The maximum number of tokens that it reads.
        max_tokens: usize,
        /// True if its rows are pairs of texts.
        reads_pairs: bool,
    },
    /// A language model.
    LanguageModel {
        /// The network.
        model: &'a LanguageModel,
        /// Its tokenizer.
        tokenizer: &'a TextTokenizer,
    },
    /// A translator.
    Translator {
        /// The network.
        model: &'a Translator,
        /// The tokenizer of sources.
        source: &'a TextTokenizer,
        /// The tokenizer of translations.
        target: &'a TextTokenizer,
    },
}

/// Computes a line of `log.jsonl` from weights, the number of completed steps, and that of completed epochs.
pub(crate) type LogWeights<'a> = Box<dyn Fn(&Params<f32>, u64, u64) -> Result<Value> + 'a>;

/// Observes the weights of a run: before the first step, and the averaged ones after each epoch.
/// [`WatchedText`](crate::film::WatchedText) records attention.
pub trait WeightsObserver: fmt::Debug + Send + Sync {
    /// Checks whether networks of this kind can be observed.
    ///
    /// # Errors
    /// If they cannot.
    fn check(&self, kind: ModelKind, network: BackboneKind) -> Result<()>;

    /// Prepares to observe a network.
    ///
    /// # Errors
    /// If this network cannot be observed.
    fn observe<'a>(&self, network: ObservedNetwork<'a>) -> Result<LogWeights<'a>>;
}
