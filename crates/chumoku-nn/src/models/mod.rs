//! Models, one in a file, each reading top to bottom.

mod classifier;
mod language_model;
mod masked_language_model;
mod tagger;
mod text_encoder;
mod translator;

pub use classifier::{AnswerRecord, Classifier, ClassifierCache, ClassifierConfig, LossRecord};
pub use language_model::{LanguageModel, LanguageModelConfig, LanguageModelState};
pub use masked_language_model::MaskedLanguageModel;
pub use tagger::{TokenTagger, TokenTaggerCache, TokenTaggerConfig, Units};
pub use text_encoder::{TextEncoder, TextEncoderCache, TextEncoderConfig};
pub use translator::{
    PairBatch, Translator, TranslatorCache, TranslatorConfig, TranslatorOptions, TranslatorPart, TranslatorState,
};
