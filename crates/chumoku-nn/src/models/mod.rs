//! Models, one per file. Each file reads top to bottom.
//!
//! # Files
//!
//! - `classifier`: text classifier; traces in `classifier/trace.rs`
//! - `language_model`: causal encoder with an output layer
//! - `masked_language_model`: encoder that predicts masked tokens
//! - `residual_reader`: values of a stack of layers, recorded and patched, and the answers read from them
//! - `tagger`: encoder with a tag for each unit (word or character) of a text
//! - `text_encoder`: the encoder of pretrained models
//! - `translator`: encoder and decoder

mod classifier;
mod language_model;
mod masked_language_model;
mod residual_reader;
mod tagger;
mod text_encoder;
mod translator;

pub use classifier::{Classifier, ClassifierCache, ClassifierConfig, ClassifierTrace, HeadTrace, LossTrace};
pub use language_model::{LanguageModel, LanguageModelConfig, LanguageModelState};
pub use masked_language_model::MaskedLanguageModel;
pub use residual_reader::{PatchedSites, PatchingSizes, PatchingWork, ResidualReader, ResidualRecording};
pub use tagger::{TaggedUnits, TokenTagger, TokenTaggerCache, TokenTaggerConfig};
pub use text_encoder::{TextEncoder, TextEncoderCache, TextEncoderConfig};
pub use translator::{
    TranslationBatch, Translator, TranslatorAttention, TranslatorCache, TranslatorConfig, TranslatorOptions,
    TranslatorState,
};
