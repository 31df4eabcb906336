//! A linear text classifier on TF-IDF n-grams: the baseline that every transformer must beat.
//!
//! For a text with count nⱼ of the n-gram j,
//!
//! xⱼ = (1 + ln nⱼ) · idfⱼ · √sⱼ,   idfⱼ = 1 + ln((1 + N) / (1 + dfⱼ)),   x ← x / ‖x‖,   p = softmax(x W + b)
//!
//! - N texts, dfⱼ of which contain j: inverse document frequency (Spärck Jones, "A statistical interpretation of term
//!   specificity and its application in retrieval", 1972), smoothed as in scikit-learn's `TfidfVectorizer`.
//! - sⱼ = maxₖ |ln(P(j | class k) / P(j | other classes))|, with one added to every count: how much the n-gram tells the
//!   classes apart (Wang & Manning, "Baselines and bigrams: simple, good sentiment and topic classification", 2012).
//! - Words and characters are two blocks; each is scaled to the same length before the whole is.
//! - W and b are fitted by multinomial logistic regression with an L2 penalty; C, the weight of the data against the
//!   penalty, is the one of a short grid with the least log-loss on the validation texts.
//!
//! Labels that do not exclude each other have such a model each, with p = 1 / (1 + e⁻ᶻ), on the same features.
//!
//! The same texts give the same bits for any number of threads: work is cut by the data alone, sums have a fixed order.
//!
//! # Files
//!
//! - `amount`: estimates of n-gram counts and memory
//! - `answer`: the prediction targets
//! - `beside`: feature columns
//! - `calendar`: dates, weekdays and Japanese eras
//! - `columns`: training rows by column, and products with their Gram matrix
//! - `error`: errors
//! - `features`: selection and weights of n-grams
//! - `hash`: hashes of n-grams, part of the file format
//! - `loss`: probabilities and log-loss of a row
//! - `model`: the trained model: text to class scores
//! - `newton`: the truncated Newton solver
//! - `packed`: sparse columns of counts in few bytes
//! - `pairs`: features of two texts
//! - `problem`: the objective of logistic regression
//! - `select`: training, and the choice of C
//! - `sparse`: sparse matrices by row
//! - `tensors`: the model as named arrays
//! - `tokens`: text to hashes of n-grams
//! - `vector`: sums of long vectors in a fixed order
//! - `vocabulary`: the features, and the TF-IDF row of a text

pub mod calendar;
mod column_matrix;
mod error;
pub mod feature_columns;
mod features;
pub mod hash;
mod loss;
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
pub use target::NgramTarget;
pub use target::{label_ids_of, log_loss as loss_of};
pub use tensors::NgramTensors;
pub use tokens::NgramScheme;
pub use tokens::words;
pub use train::NgramData;
pub use train::WarmStart;

use serde::{Deserialize, Serialize};

/// How a model is trained. The defaults, which are for single texts, were chosen on held-out training texts of five data
/// sets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct NgramConfig {
    /// Which n-grams are read.
    pub scheme: NgramScheme,
    /// Runs of characters inside words are left out where a training text has more words than this on average. On film
    /// reviews cut to 40 words they gave 0.4 points of validation accuracy, on reviews cut to 80 words they took 0.4.
    pub inside_words_up_to: f64,
    /// Texts that must contain an n-gram for it to be a feature; if absent, 2 from 1,000 texts on and 1 below.
    pub min_document_frequency: Option<u32>,
    /// The power of sⱼ by which an n-gram counts: 0.5 is the root.
    pub relevance: f64,
    /// Most features · outputs; where there are more, the n-grams of the most texts are kept. Training holds one
    /// such array of f32, and the best one so far.
    pub max_weights: usize,
    /// Values of C to try, ascending. The second is tried first.
    pub c_grid: Vec<f32>,
    /// C where there are no validation texts.
    pub c_without_validation: f32,
    /// Norm of the gradient at the solution, relative to its norm where all weights are 0.
    pub tolerance: f64,
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
    /// The defaults for single texts, or for [pairs](chumoku_text::pair) of them.
    ///
    /// In a pair, which of the texts has an n-gram mostly says more than how unevenly classes have it, and short runs of
    /// characters show an overlap better than long ones. Both were chosen by cross-validation within the training rows of two
    /// Japanese data sets.
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
