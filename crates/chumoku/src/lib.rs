//! Attention for the machine you have: layers, models, text, data, training and explanation, on CPUs.
//!
//! From a file of labelled text to a trained transformer classifier that can be evaluated, used and questioned.
//! [`nn`] holds the layers, each forward and backward; [`models`] what is built of them; [`attention`] hard and soft
//! attention as plain functions. All run on `f32` with fast kernels and on `f64` with the plain reference.

mod blend;
pub mod builtin;
pub mod compare;
mod counted;
mod error;
pub mod explain;
mod inference;
pub mod memory;
mod model_folder;
pub mod ngram;
mod of_layers;
pub mod onnx;
mod precision;
mod scoring;
pub mod tensors;
mod text_classifier;
mod text_generator;
mod text_ngrams;
mod text_translator;
pub mod train;

pub use chumoku_kernels::{Allocator, Cell, Isa, Precision, active_isa, bf16, f16, isa_named, keep_freed_memory};
pub use chumoku_nn::{Error as NnError, attention, count, decoding, layers as nn, models, params, sampling};
pub(crate) use chumoku_text::checksum;
pub use chumoku_text::{Lang, data, lang, metrics, set_lang, tokens as text, tr};
pub use counted::CountedFolder;
pub use error::{Error, Result};
pub use model_folder::{ModelKind, has_checkpoints, is_model_folder};
pub use text_classifier::{ModelConfig, Prediction, TextClassifier};
pub use text_generator::{Stop, TextGenerator, TextGeneratorConfig};
pub use text_ngrams::{NgramClassifier, NgramClassifierConfig, NgramEffect};
pub use text_translator::{TextTranslator, TextTranslatorConfig, TokenAlignment, TranslateOptions, Translation};

/// The best instruction set of this machine, whatever `CHUMOKU_ISA` says.
pub fn best_isa() -> Isa {
    Isa::best()
}
