//! Attention for the machine you have: layers, models, text, data, training and explanation, on CPUs.
//!
//! Use this crate to train a classifier, a translator or a language model on your own texts, to run the trained model,
//! and to explain its predictions. It trains a transformer (Vaswani et al. 2017), which is built on scaled dot-product
//! attention, `softmax(Q Kᵀ / √d) V`. A classifier also has a linear model over n-grams. Its prediction blends the two.
//!
//! ```
//! use chumoku::train::{Training, train};
//! use chumoku::{TextClassifier, builtin};
//!
//! // A few of the built-in reviews, to finish in seconds.
//! let mut reviews = builtin::reviews();
//! for rows in [&mut reviews.train, &mut reviews.valid, &mut reviews.test] {
//!     rows.texts.truncate(40);
//!     rows.labels.truncate(40);
//! }
//!
//! // Train: settings are chosen from the data, and `options` overrides them.
//! let folder = tempfile::tempdir()?;
//! let mut training = Training::new(folder.path());
//! training.options.epochs = Some(1);
//! let outcome = train(&reviews, training)?;
//! println!("accuracy {:.2} on {} held-out reviews", outcome.test.accuracy, outcome.test.rows);
//!
//! // Predict: this crate, the command and other programs can read the model folder.
//! let model = TextClassifier::load(folder.path())?;
//! let text = "Slow, cold and not worth the money.";
//! let prediction = &model.predict(&[text])?[0];
//! println!("{}", model.labels()[prediction.class()]);
//!
//! // Explain: the effect of each word on the prediction, and the attention of each head.
//! let explanation = model.explain(text, "reviews")?;
//! for (word, score) in explanation.words.iter().zip(&explanation.attribution.scores) {
//!     println!("{score:+.2} {}", word.text);
//! }
//! let weights = explanation.row(0, 0, 1);
//! assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to find things
//!
//! | to | see |
//! |---|---|
//! | read files of texts, pairs and documents | [`data`], [`text`] for tokens |
//! | train | [`train`]: [`train::train`], [`train::train_ngram_classifier`], [`train::train_translator`], [`train::train_language_model`] |
//! | use a trained model | [`TextClassifier`], [`NgramClassifier`], [`TextTranslator`], [`TextGenerator`] |
//! | predict classes in a tree | [`hierarchy`] |
//! | explain a prediction | [`explain`]; the crate `chumoku-view` draws the explanation |
//! | find errors in labeled texts | [`doctor`] |
//! | build networks | [`nn`] (layers, forward and backward), [`models`], [`params`], [`attention`] (hard and soft, as plain functions) |
//! | decode, evaluate, estimate costs | [`decoding`], [`sampling`], [`metrics`], [`mod@count`] |
//! | compute the ONNX operator Attention | [`onnx`] |
//!
//! # Contract
//!
//! * **Determinism:** the same data, seed, options, instruction set and build give the same bytes of
//!   `model.safetensors`. This holds for any number of threads, and for a run that was killed at any moment and resumed.
//!   Instruction sets agree up to rounding, so another one gives a slightly different model.
//! * **Exactness:** layers and kernels run on `f32`. On `f64` they run as plain loops, which check the `f32` code.
//!   `chumoku_kernels` and `chumoku_nn` state their error limits. Training runs at [`Precision::Medium`] unless
//!   [`TrainOptions`](train::TrainOptions) asks for more.
//! * **NaN:** training stops with [`Error::NotFinite`] at the first gradient that is not finite, and keeps its last good
//!   checkpoint. Loading fails if a weight is not finite. A model whose probabilities are not finite returns
//!   [`Error::NotFinite`] instead of an answer.
//! * **Files:** reading any file gives a value or an error, never a panic. A kill at any moment leaves a folder with the
//!   old model or the new one.
//! * Nothing is printed; [`Training::observe`](train::Training::observe) receives all events. Work runs in the current
//!   `rayon` pool. Messages are English or Japanese ([`set_lang`]).
//!
//! # Files
//!
//! - `builtin`: built-in sentences, reviews and dates
//! - `compare`: comparison of a transformer with recurrent networks
//! - `doctor`: problems in labeled data
//! - `film`: attention recorded during training
//! - `onnx`: the ONNX operator Attention, and ONNX export
//! - `train`: training

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write their own files"))]

pub mod builtin;
pub mod compare;
pub mod doctor;
pub mod film;
pub mod onnx;
pub mod train;

/// Compiles the examples of both READMEs.
#[cfg(doctest)]
mod readme {
    #[doc = include_str!("../../../README.md")]
    mod english {}
    #[doc = include_str!("../../../README.ja.md")]
    mod japanese {}
}

pub use chumoku_inference::{
    AbstentionCalibration, BinaryBlend, ChatMessage, CoveragePoint, DecisionRule, EmbedOptions, Embeddings, Error,
    Estimate, GeneratedPiece, LevelConfidences, ModelKind, ModelNetwork, ModelSize, NgramClassifier,
    NgramClassifierConfig, NgramEffect, NumberBlend, NumberDiscretizer, NumberLabel, Optimize, PrecisionThreshold,
    PredictedSpan, Prediction, PredictionTarget, Predictor, Result, StopReason, TaggerBlend, TaggerConfig,
    TaggerNetworkConfig, TextAutoencoder, TextClassifier, TextClassifierConfig, TextEmbedder, TextGenerator,
    TextGeneratorConfig, TextTagger, TextTranslator, TextTranslatorConfig, TokenAlignment, TranslateOptions,
    Translation, WeightSample, answers, explain, has_checkpoints, hierarchy, is_model_folder, model_file,
    model_fingerprint, pretrained, read_model_folder, risks_by_coverage, stage_timer, tensors,
};
pub(crate) use chumoku_inference::{blend, crf, model_folder, parallel_batches, prediction, scoring, text_models};
pub use chumoku_kernels::{
    Allocator, Isa, Precision, RecurrentCell, active_isa, bf16, f16, isa_named, keep_freed_memory,
};
pub use chumoku_ngrams as ngram;
pub use chumoku_ngrams::feature_columns::{FeatureColumn, FeatureColumnKind, UnreadableValues};
pub(crate) use chumoku_ngrams::{calendar, feature_columns};
pub use chumoku_nn::{Error as NnError, attention, count, decoding, layers as nn, models, params, sampling};
pub(crate) use chumoku_text::checksum;
#[doc(hidden)]
pub use chumoku_text::{
    Lang, characters, data, failpoint, lang, memory, metrics, output, row, set_lang, signals, sorting, tokens as text,
    tr, tr_in,
};

/// Returns the best instruction set of this machine, ignoring `CHUMOKU_ISA`.
pub fn best_isa() -> Isa {
    Isa::best()
}
