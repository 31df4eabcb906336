//! Trained models of texts: model folders and predictions.
//!
//! # Files
//!
//! - `autoencoder`: an autoencoder
//! - `classifier`: a text classifier
//! - `embedder`: an encoder that computes text vectors
//! - `generator`: a language model
//! - `model_network`: the network of a model of any kind, with its positional encoding
//! - `model_size`: the size of a model, checked against formulas
//! - `ngrams`: an n-gram model without a network
//! - `optimizer_defaults`: AdamW settings with which these models are trained
//! - `predictor`: classifiers and n-gram models with one interface
//! - `settings`: settings that several models share, and their checks
//! - `tagger`: a tagger
//! - `tagger_network`: the encoder of a tagger
//! - `translator`: a translator
//! - `weight_samples`: statistics and first rows of a model's weights

pub mod autoencoder;
pub mod classifier;
pub(crate) mod embedder;
pub mod generator;
pub(crate) mod model_network;
pub(crate) mod model_size;
pub mod ngrams;
pub mod optimizer_defaults;
pub mod predictor;
pub(crate) mod settings;
pub mod tagger;
pub mod tagger_network;
pub mod translator;
pub(crate) mod weight_samples;
