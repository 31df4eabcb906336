//! The integration tests of `chumoku-nn`: one module per subject, in a single program that is linked once.

mod classifier;
mod count;
mod decoding;
mod golden_layers;
mod gradients;
mod language_model;
mod pieces;
mod properties;
mod residual_readers;
mod translator;
