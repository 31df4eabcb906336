//! Trained models of texts: what they predict, when they abstain, and why.
//!
//! A model is read from the folder that training wrote, or from a published one. This crate trains nothing; `chumoku`
//! does, and re-exports what is here.
//!
//! # Files
//!
//! - `answers`: predictions as JSON, and abstention
//! - `blend`: probabilities from network and n-gram model
//! - `crf`: the conditional random field of taggers
//! - `error`: errors, and which of them are usage errors
//! - `explain`: explanations in numbers
//! - `hierarchy`: classes in a tree
//! - `model_folder`: reading and writing model folders
//! - `parallel_batches`: many texts in parallel batches
//! - `prediction`: the prediction of a classifier, its target and its rules
//! - `pretrained`: published model folders
//! - `scoring`: metrics with intervals
//! - `stage_timer`: time of each stage of a command, for `--profile`
//! - `tensors`: files of named arrays
//! - `text_models`: trained models of texts

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write their own files"))]

pub mod answers;
pub mod blend;
pub mod crf;
mod error;
pub mod explain;
pub mod hierarchy;
pub mod model_folder;
pub mod parallel_batches;
pub mod prediction;
pub mod pretrained;
pub mod scoring;
pub mod stage_timer;
pub mod tensors;
pub mod text_models;

pub use blend::binary_blend::BinaryBlend;
pub use blend::number::{Estimate, NumberBlend, NumberDiscretizer, NumberLabel};
pub(crate) use chumoku_kernels::Precision;
pub(crate) use chumoku_ngrams as ngram;
pub(crate) use chumoku_ngrams::feature_columns::FeatureColumn;
pub(crate) use chumoku_ngrams::{calendar, feature_columns};
pub(crate) use chumoku_nn::{count, decoding, layers as nn, models, params, sampling};
pub(crate) use chumoku_text::{
    characters, data, failpoint, lang, memory, metrics, output, row, sorting, tokens as text, tr,
};
pub use crf::TaggerBlend;
pub use error::{Error, Result};
pub use model_folder::{ModelKind, has_checkpoints, is_model_folder, model_file, model_fingerprint, read_model_folder};
pub use prediction::Prediction;
pub use prediction::abstention::CoveragePoint;
pub(crate) use prediction::abstention::deepest_confident_level;
pub use prediction::abstention::{AbstentionCalibration, LevelConfidences, PrecisionThreshold, risks_by_coverage};
pub use prediction::decision_rule::{DecisionRule, Optimize};
pub use prediction::target::PredictionTarget;
pub use pretrained::ChatMessage;
pub use text_models::autoencoder::TextAutoencoder;
pub use text_models::classifier::{TextClassifier, TextClassifierConfig};
pub use text_models::embedder::{EmbedOptions, Embeddings, TextEmbedder};
pub use text_models::generator::{GeneratedPiece, StopReason, TextGenerator, TextGeneratorConfig};
pub use text_models::model_network::ModelNetwork;
pub use text_models::model_size::ModelSize;
pub use text_models::ngrams::{NgramClassifier, NgramClassifierConfig, NgramEffect};
pub use text_models::predictor::Predictor;
pub use text_models::tagger::{PredictedSpan, TaggerConfig, TextTagger};
pub use text_models::tagger_network::TaggerNetworkConfig;
pub use text_models::translator::{
    TextTranslator, TextTranslatorConfig, TokenAlignment, TranslateOptions, Translation,
};
pub use text_models::weight_samples::WeightSample;
