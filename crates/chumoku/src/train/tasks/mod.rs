//! The training functions of each task, from its data to a model folder.
//!
//! # Files
//!
//! - `classify`: training a classifier of one class
//! - `labels`: training for several labels
//! - `language_model`: training a language model
//! - `logistic_targets`: the pipeline for labels and numbers
//! - `masked_language_model`: pretraining an encoder
//! - `number`: training for numbers
//! - `tag`: training a tagger; its parts are in `tag/`
//! - `token_windows`: windows of documents
//! - `translator`: training a translator or an autoencoder

pub(crate) mod classify;
pub(crate) mod labels;
pub(crate) mod language_model;
mod logistic_targets;
pub(crate) mod masked_language_model;
pub(crate) mod number;
pub(crate) mod tag;
mod token_windows;
pub(crate) mod translator;
