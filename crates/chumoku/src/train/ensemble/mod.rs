//! The ensemble of a classifier: its network, its n-gram model, and the choices between them.
//!
//! # Files
//!
//! - `classifier_network`: tokenizer, plan and start of a network
//! - `classifier_task`: the `Trainable` of a classifier
//! - `cross_validation`: the same training once per fold
//! - `feature_columns`: feature columns in training, and their benefit
//! - `finished_report`: the end of every report
//! - `logistic`: multinomial logistic regression on dense vectors
//! - `members`: ensemble members: network and n-gram model
//! - `multi_label_fit`: blend of several labels
//! - `ngram_folds`: penalty of the n-gram model by cross-validation
//! - `ngrams`: training the n-gram model
//! - `ngrams_suggestion`: the suggestion to stop at the n-grams
//! - `small_data`: choices by cross-validation when rows are few
//! - `target`: prediction targets

pub(crate) mod classifier_network;
pub(crate) mod classifier_task;
pub(crate) mod cross_validation;
mod feature_columns;
pub(crate) mod finished_report;
mod logistic;
pub(crate) mod members;
pub(crate) mod multi_label_fit;
pub(crate) mod ngram_folds;
pub(crate) mod ngrams;
mod ngrams_suggestion;
pub(crate) mod small_data;
pub(crate) mod target;
