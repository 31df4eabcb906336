//! Scores of predictions: accuracy, F1 and log-loss with bootstrap intervals, and advice on which predictor to use.
//!
//! # Files
//!
//! - `advice`: which predictor to use
//! - `bootstrap`: bootstrap intervals
//! - `clopper_pearson`: Clopper–Pearson intervals
//! - `confidence_scores`: calibration and ranking of probabilities
//! - `label_scores`: multi-label scores
//! - `number_scores`: regression scores
//! - `paired`: comparison of two models on the same rows
//! - `point_scores`: accuracy and macro-F1 without intervals
//! - `ratio_gain`: gain in a ratio of sums
//! - `rows`: texts with their targets
//! - `scores`: accuracy, F1, confusion matrix
//! - `span_scores`: span F1
//! - `tree_scores`: scores by level of a tree

mod advice;
mod bootstrap;
mod clopper_pearson;
mod confidence_scores;
mod label_scores;
mod number_scores;
mod paired;
mod point_scores;
pub mod ratio_gain;
mod rows;
mod scores;
mod span_scores;
mod tree_scores;

pub use advice::Advice;
pub use advice::ngrams_at_chance_note;
pub use advice::ngrams_only_advice;
pub use bootstrap::PredictedRows;
pub use bootstrap::accuracy_gain;
pub use confidence_scores::ConfidenceScores;
pub use label_scores::micro_f1;
pub use label_scores::{LabelLevel, LabelScore, LabelScores};
pub use number_scores::{LevelScore, NumberScores, format_value};
pub use paired::{AccuracyDifference, EQUIVALENCE_MARGIN, SIGNIFICANCE_LEVEL};
pub use point_scores::{accuracy_and_macro_f1, weighted_accuracy_and_macro_f1};
pub use ratio_gain::{RatioTerms, ratio_gain};
pub use rows::Rows;
pub use rows::select_weights;
pub use scores::{ClassScore, Scores};
pub use span_scores::{SpanScore, SpanScores};
pub use tree_scores::{TreeLevel, TreeScores};

use crate::hierarchy::Hierarchy;
use crate::tr;

/// Returns a warning if there are few rows.
pub fn few_rows_warning(rows: usize) -> Option<String> {
    const FEW: usize = 100;
    (rows < FEW).then(|| {
        tr!(
            "Few rows ({rows}): the scores may be off by as much as their intervals say.",
            "評価に使った行が {rows} 行と少ないため、値には区間が示す程度の誤差があります。"
        )
    })
}

/// Returns the index of the largest number; the first in a tie.
pub fn argmax(row: &[f32]) -> u32 {
    (0..row.len()).fold(0, |best, class| if row[class] > row[best] { class } else { best }) as u32
}

/// The weighted mean negative log-probability of the true classes.
pub fn log_loss(log_p: &[Vec<f32>], labels: &[u32], weights: Option<&[f32]>) -> f64 {
    let losses = log_p.iter().zip(labels).map(|(row, &label)| -f64::from(row[label as usize]));
    weighted_mean(losses, weights)
}

/// The weighted mean of values; 0 if there are none.
pub fn weighted_mean(values: impl Iterator<Item = f64>, weights: Option<&[f32]>) -> f64 {
    let (mut sum, mut all) = (0.0, 0.0);
    for (row, value) in values.enumerate() {
        let weight = weights.map_or(1.0, |weights| f64::from(weights[row]));
        sum += weight * value;
        all += weight;
    }
    if all > 0.0 { sum / all } else { 0.0 }
}

/// Scores rows of log-probabilities. Returns the scores and the answered classes: those in `answered` if given,
/// otherwise the most probable ones, or the answers of the class tree.
pub(crate) fn score_log_p(
    log_p: Vec<Vec<f32>>,
    answered: Option<Vec<u32>>,
    rows: &Rows,
    (labels, hierarchy): (&[String], Option<&Hierarchy>),
    seed: u64,
) -> (Scores, Vec<u32>) {
    let answer = |row: &Vec<f32>| match hierarchy {
        None => argmax(row),
        Some(tree) => tree.predict(&row.iter().map(|x| x.exp()).collect::<Vec<f32>>()) as u32,
    };
    let predicted = answered.unwrap_or_else(|| log_p.iter().map(answer).collect());
    let loss = log_loss(&log_p, &rows.labels, None);
    let sureness = ConfidenceScores::of(&log_p, &rows.labels);
    let texts = rows.texts();
    let predictions = rows.predicted_rows(&predicted, &texts);
    let hierarchy = hierarchy.map(|tree| TreeScores::of(tree, &predictions, seed));
    (Scores { confidence: sureness, hierarchy, ..Scores::of(&predictions, labels, Some(loss), seed) }, predicted)
}
