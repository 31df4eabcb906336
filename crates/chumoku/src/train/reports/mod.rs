//! Scores, figures and model cards of finished runs.
//!
//! # Files
//!
//! - `card`: report, `metrics.json` and model card
//! - `display_names`: names of things in both languages
//! - `hierarchy_report`: report by level of a tree
//! - `recorded_accuracies`: accuracies on record
//! - `strongest_ngrams`: strongest n-grams of each class
//! - `text_cards`: model cards of translators, autoencoders and language models
//! - `text_scores`: scores of translators and language models
//! - `tuning_report`: results of a search

pub(crate) mod card;
pub(crate) mod display_names;
pub(crate) mod hierarchy_report;
pub(crate) mod recorded_accuracies;
pub(crate) mod strongest_ngrams;
pub(crate) mod text_cards;
pub(crate) mod text_scores;
pub(crate) mod tuning_report;
