//! A linear text classifier on TF-IDF n-grams: the baseline that every transformer must beat.
//!
//! For a text with count nⱼ of the n-gram j,
//!
//! xⱼ = (1 + ln nⱼ) · idfⱼ · √sⱼ,   idfⱼ = 1 + ln((1 + N) / (1 + dfⱼ)),   x ← x / ‖x‖,   p = softmax(x W + b)
//!
//! - N is the number of texts, of which dfⱼ contain j. The inverse document frequency (Spärck Jones, "A statistical
//!   interpretation of term specificity and its application in retrieval", 1972) is smoothed as in scikit-learn's
//!   `TfidfVectorizer`.
//! - sⱼ = maxₖ |ln(P(j | class k) / P(j | other classes))|, with add-one smoothing of every count, measures how well
//!   the n-gram separates the classes (Wang & Manning, "Baselines and bigrams: simple, good sentiment and topic
//!   classification", 2012).
//! - Words and characters are two blocks. Each is scaled to the same length before the whole row is normalized.
//! - W and b are fitted by multinomial logistic regression with an L2 penalty. C, the weight of the data relative to
//!   the penalty, comes from a short grid: the value with the lowest log-loss on the validation texts.
//!
//! In multi-label models, each label has its own binary model on the same features, with p = 1 / (1 + e⁻ᶻ).
//!
//! The same texts give the same bits for any number of threads: work is divided by the data alone, and sums have a
//! fixed order.
//!
//! # Files
//!
//! - `calendar`: dates, weekdays and Japanese eras
//! - `column_matrix`: training rows by column, and products with their Gram matrix
//! - `error`: errors
//! - `feature_columns`: columns of numbers, categories and dates
//! - `features`: selection and weights of n-grams
//! - `hash`: hashes of n-grams, part of the file format
//! - `memory_estimate`: estimates of n-gram counts and memory
//! - `model`: the trained model: text to class scores
//! - `newton`: the truncated Newton solver
//! - `objective`: the objective of logistic regression
//! - `packed`: sparse columns of counts in few bytes
//! - `pairs`: features of text pairs
//! - `sparse`: sparse matrices by row
//! - `target`: the prediction targets, their probabilities and log-loss
//! - `tensors`: the model as named arrays
//! - `tokens`: text to hashes of n-grams
//! - `train`: training, and the choice of C
//! - `vector`: sums of long vectors in a fixed order
//! - `vocabulary`: the features, and the TF-IDF row of a text

pub mod calendar;
mod column_matrix;
mod error;
pub mod feature_columns;
mod features;
pub mod hash;
mod memory_estimate;
mod model;
mod newton;
mod objective;
mod packed;
mod pairs;
mod sparse;
mod target;
mod tensors;
mod tokens;
mod train;
mod vector;
mod vocabulary;

#[cfg(test)]
mod tests;

pub use error::NgramError;
pub use model::{NgramModel, NgramReport};
pub use target::{NgramTarget, label_ids_of, log_loss};
pub use tensors::NgramTensors;
pub use tokens::{NgramScheme, words};
pub use train::{NgramData, WarmStart};

use serde::{Deserialize, Serialize};

/// Training settings of an n-gram model. The defaults, which are for single texts, were chosen on held-out training
/// texts of five data sets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct NgramConfig {
    /// The n-grams that are read.
    pub scheme: NgramScheme,
    /// Maximum average number of words per training text for character n-grams inside words. On film reviews truncated
    /// to 40 words these raised validation accuracy by 0.4 points; at 80 words they lowered it by 0.4.
    pub inside_words_up_to: f64,
    /// Minimum number of texts that contain a feature. By default 2 for at least 1,000 texts, else 1.
    pub min_document_frequency: Option<u32>,
    /// The exponent of sⱼ in an n-gram's weight; 0.5 is the square root.
    pub relevance: f64,
    /// Maximum number of features · outputs. If there are more, the most frequent n-grams are kept. Training holds one
    /// such array of f32, and another for the best solution so far.
    pub(crate) max_weights: usize,
    /// Values of C to try, ascending. The search starts with the second.
    pub c_grid: Vec<f32>,
    /// C without validation texts.
    pub c_without_validation: f32,
    /// Tolerance of the solver: the norm of the gradient at the solution, relative to its norm at zero weights.
    pub(crate) tolerance: f64,
}

impl Default for NgramConfig {
    fn default() -> Self {
        NgramConfig {
            scheme: NgramScheme::default(),
            inside_words_up_to: 60.0,
            min_document_frequency: None,
            relevance: 0.5,
            max_weights: 1 << 25,
            c_grid: vec![1.0, 4.0, 16.0, 64.0, 256.0],
            c_without_validation: 16.0,
            tolerance: 1e-2,
        }
    }
}

impl NgramConfig {
    /// Returns the defaults for single texts or for [pairs](chumoku_text::row).
    ///
    /// In a pair, the text that contains an n-gram mostly matters more than the distribution over classes. Short
    /// character n-grams also show an overlap better than long ones. Both settings were chosen by cross-validation
    /// within the training rows of two Japanese data sets.
    #[must_use]
    pub fn default_for(are_pairs: bool) -> NgramConfig {
        let mut config = NgramConfig::default();
        if are_pairs {
            config.relevance = 0.0;
            config.scheme.characters = 3;
        }
        config
    }
}
