//! Attention for the machine you have: layers, models, text, data, training and explanation, on CPUs.
//!
//! Use this crate to train a classifier, a translator or a language model on texts of your own, to use what was
//! trained, and to ask why it said what it said. It trains a transformer (Vaswani et al. 2017), whose heart is scaled
//! dot-product attention, `softmax(Q Kᵀ / √d) V`. A classifier also has a linear model over n-grams, and its prediction
//! blends the two.
//!
//! ```
//! use chumoku::train::{Training, train};
//! use chumoku::{TextClassifier, builtin};
//!
//! // The built-in reviews, a few of them, to be done in seconds.
//! let mut reviews = builtin::reviews();
//! for rows in [&mut reviews.train, &mut reviews.valid, &mut reviews.test] {
//!     rows.texts.truncate(40);
//!     rows.labels.truncate(40);
//! }
//!
//! // Train: the settings are chosen from the data, and those of `options` can be changed.
//! let folder = tempfile::tempdir()?;
//! let mut training = Training::to(folder.path());
//! training.options.epochs = Some(1);
//! let outcome = train(&reviews, training)?;
//! println!("accuracy {:.2} on {} reviews that it never saw", outcome.test.accuracy, outcome.test.rows);
//!
//! // Predict: the folder is a model, which this crate, the command and other programs can read.
//! let model = TextClassifier::load(folder.path())?;
//! let text = "Slow, cold and not worth the money.";
//! let prediction = &model.predict(&[text])?[0];
//! println!("{}", model.labels()[prediction.class()]);
//!
//! // Explain: what each word does to the prediction, and where each head looks.
//! let explanation = model.explain(text, "reviews")?;
//! for (word, score) in explanation.words.iter().zip(&explanation.attribution.scores) {
//!     println!("{score:+.2} {}", word.text);
//! }
//! let weights = explanation.row(0, 0, 1);
//! assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is where
//!
//! | to | see |
//! |---|---|
//! | read files of texts, pairs and documents | [`data`], [`text`] for tokens |
//! | train | [`train`]: [`train::train`], [`train::train_ngram_classifier`], [`train::train_translator`], [`train::train_language_model`] |
//! | use a trained model | [`TextClassifier`], [`NgramClassifier`], [`TextTranslator`], [`TextGenerator`] |
//! | know that classes stand in a tree | [`hierarchy`] |
//! | question it | [`explain`]; the crate `chumoku-view` draws what it finds |
//! | find what is wrong with labelled texts | [`doctor`] |
//! | build networks | [`nn`] (layers, forward and backward), [`models`], [`params`], [`attention`] (hard and soft, as plain functions) |
//! | decode, measure, count | [`decoding`], [`sampling`], [`metrics`], [`mod@count`] |
//! | compute the ONNX operator Attention | [`onnx`] |
//!
//! # Contract
//!
//! * **Determinism:** the same data, seed, options, instruction set and build give the same bytes of
//!   `model.safetensors`, for any number of threads, and after a kill at any moment followed by a resumed run.
//!   Instruction sets agree to rounding, so another one gives a slightly different model.
//! * **Exactness:** layers and kernels run on `f32`, and on `f64` by plain loops that check them; `chumoku_kernels` and
//!   `chumoku_nn` state their limits of error. Training runs at [`Precision::Medium`] unless
//!   [`TrainOptions`](train::TrainOptions) asks for more.
//! * **NaN:** training stops with [`Error::NotFinite`] once a gradient is no longer finite, and keeps its last good
//!   checkpoint. A folder with a weight that is not finite is refused, and a model whose probabilities are not finite
//!   gives that error instead of an answer.
//! * **Files:** whatever a file holds, reading it gives a value or an error, never a panic. A kill at any moment leaves
//!   a folder with the old model or the new one.
//! * Nothing is printed; [`Training::observe`](train::Training::observe) is told what happens. Work runs in the current
//!   `rayon` pool. Messages are English or Japanese ([`set_lang`]).
//!
//! # Files
//!
//! - `answers`: predictions as JSON, and abstention
//! - `blend`: weights of network and n-gram model
//! - `builtin`: built-in reviews; dates in `builtin/dates.rs`
//! - `caution`: abstention calibration
//! - `compare`: a transformer beside recurrent networks
//! - `counted`: sizes of a model folder, checked against formulas
//! - `crf`: the conditional random field of taggers
//! - `decision`: class factors chosen for macro-F1
//! - `doctor`: problems in labelled data
//! - `error`: errors, and which of them are usage errors
//! - `explain`: explanations in numbers
//! - `folds`: folds for cross-validation
//! - `hierarchy`: classes in a tree
//! - `inference`: many texts in parallel batches
//! - `label_blend`: weights, offsets and thresholds of several labels
//! - `logistic`: multinomial logistic regression on dense vectors
//! - `model_folder`: reading and writing model folders
//! - `number`: numbers predicted through thresholds, with conformal intervals
//! - `of_layers`: errors of `chumoku-nn` in both languages
//! - `onnx`: the ONNX operator Attention, and ONNX export
//! - `precision`: names of precision levels in files
//! - `prediction`: the prediction of a classifier
//! - `pretrained`: published model folders
//! - `problem`: the prediction target: class, labels or number
//! - `scoring`: metrics with intervals
//! - `stages`: time of each stage, for `--profile`
//! - `tagger_network`: the encoder of a tagger
//! - `tensors`: files of named arrays
//! - `text_classifier`: a classifier: folder and predictions
//! - `text_embedder`: an encoder that gives vectors
//! - `text_generator`: a language model
//! - `text_ngrams`: a predictor of n-grams alone
//! - `text_tagger`: a tagger
//! - `text_translator`: a translator
//! - `thresholds`: probability thresholds of single classes
//! - `train`: training
//! - `usual_step`: defaults of AdamW

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write files of their own"))]

mod abstention;
pub mod answers;
mod blend;
pub mod builtin;
mod class_thresholds;
pub mod compare;
mod crf;
mod decision_rule;
pub mod doctor;
mod error;
pub mod explain;
mod folds;
pub mod hierarchy;
mod inference;
mod label_blend;
mod layer_errors;
mod logistic;
mod model_folder;
mod model_size;
mod number;
pub mod onnx;
mod optimizer_defaults;
mod precision;
mod prediction;
mod prediction_target;
pub mod pretrained;
mod scoring;
pub mod stages;
mod tagger_network;
pub mod tensors;
mod text_classifier;
mod text_embedder;
mod text_generator;
mod text_ngrams;
mod text_tagger;
mod text_translator;
pub mod train;

/// Compiles the examples of both READMEs.
#[cfg(doctest)]
mod readme {
    #[doc = include_str!("../../../README.md")]
    mod english {}
    #[doc = include_str!("../../../README.ja.md")]
    mod japanese {}
}

pub use abstention::{
    AbstentionCalibration, CoveragePoint, LevelConfidences, PrecisionThreshold, deepest_confident_level,
    risks_by_coverage,
};
pub use chumoku_kernels::{
    Allocator, Isa, Precision, RecurrentCell, active_isa, bf16, f16, isa_named, keep_freed_memory,
};
pub use chumoku_ngrams as ngram;
pub use chumoku_ngrams::feature_columns::{FeatureColumn, FeatureColumnKind, UnreadableValues};
pub(crate) use chumoku_ngrams::{calendar, feature_columns};
pub use chumoku_nn::{Error as NnError, attention, count, decoding, layers as nn, models, params, sampling};
pub(crate) use chumoku_text::checksum;
#[doc(hidden)]
pub use chumoku_text::sorting;
pub use chumoku_text::{
    Lang, data, failpoint, feature_columns as row, lang, memory, metrics, output, pair, set_lang, signals,
    tokens as text, tr,
};
pub use class_thresholds::ClassThresholds;
pub use crf::TaggerBlend;
pub use decision_rule::{DecisionRule, Optimize};
pub use error::{Error, Result};
pub use label_blend::LabelBlend;
pub use model_folder::{ModelKind, has_checkpoints, is_model_folder, model_file, model_fingerprint, read_model_folder};
pub use model_size::ModelSize;
pub use number::{Estimate, NumberBlend, NumberLabel, NumberScale};
pub use prediction::Prediction;
pub use prediction_target::PredictionTarget;
pub use pretrained::ChatMessage;
pub use tagger_network::TaggerNetworkConfig;
pub use text_classifier::{ModelConfig, TextClassifier};
pub use text_embedder::{EmbedOptions, Embeddings, TextEmbedder};
pub use text_generator::{GeneratedPiece, StopReason, TextGenerator, TextGeneratorConfig};
pub use text_ngrams::{NgramClassifier, NgramClassifierConfig, NgramEffect};
pub use text_tagger::{PredictedSpan, TaggerConfig, TextTagger};
pub use text_translator::{TextTranslator, TextTranslatorConfig, TokenAlignment, TranslateOptions, Translation};

/// The best instruction set of this machine, whatever `CHUMOKU_ISA` says.
pub fn best_isa() -> Isa {
    Isa::best()
}
