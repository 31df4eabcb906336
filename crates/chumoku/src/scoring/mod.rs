//! How good predictions are: accuracy, F1 and log-loss with bootstrap intervals, and advice on which predictor to use.
//!
//! # Files
//!
//! - `advice`: which predictor to use
//! - `beta`: Clopper–Pearson limits
//! - `label_scores`: scores of several labels
//! - `number_scores`: scores of numbers
//! - `paired`: two models on the same rows
//! - `quick`: accuracy and macro-F1 without intervals
//! - `ratio_gain`: gain in a ratio of sums
//! - `resample`: bootstrap intervals
//! - `rows`: texts with their labels
//! - `scores`: accuracy, F1, confusion matrix
//! - `span_scores`: span F1
//! - `sureness`: calibration and ranking of confidences
//! - `tree_scores`: scores by level of a tree

mod advice;
mod beta;
mod label_scores;
mod number_scores;
mod paired;
mod quick;
mod ratio_gain;
mod resample;
mod rows;
mod scores;
mod span_scores;
mod sureness;
mod tree_scores;

pub(crate) use advice::of_ngrams_alone;
pub use advice::{Advice, Gain, Predictor};
pub(crate) use label_scores::micro_f1;
pub use label_scores::{LabelLevel, LabelScore, LabelScores};
pub use number_scores::{LevelScore, NumberScores, figure};
pub use paired::Difference;
pub(crate) use paired::{LEVEL, MARGIN};
pub use quick::quick_scores;
pub(crate) use quick::weighted_scores;
pub(crate) use ratio_gain::{Parts, ratio_gain};
pub use resample::Judged;
pub(crate) use resample::accuracy_gain;
pub use rows::Rows;
pub(crate) use rows::picked;
pub use scores::{ClassScore, Scores};
pub use span_scores::{SpanScore, SpanScores};
pub use sureness::Sureness;
pub use tree_scores::{TreeLevel, TreeScores};

use crate::hierarchy::Hierarchy;
use crate::tr;

/// What must be known before the figures of so few rows.
fn few_rows(rows: usize) -> Option<String> {
    const FEW: usize = 100;
    (rows < FEW).then(|| {
        tr!(
            "{rows} rows are few: the figures may be off by as much as their interval says.",
            "{rows} 行では少ないため、値は区間の幅ほどずれているかもしれません。"
        )
    })
}

/// The class of the largest number, the first of equals.
pub(crate) fn largest(row: &[f32]) -> u32 {
    (0..row.len()).fold(0, |best, class| if row[class] > row[best] { class } else { best }) as u32
}

/// Mean negative log-probability of the right classes, of rows that count as their weights say.
pub(crate) fn mean_loss(log_p: &[Vec<f32>], labels: &[u32], weights: Option<&[f32]>) -> f64 {
    let losses = log_p.iter().zip(labels).map(|(row, &label)| -f64::from(row[label as usize]));
    weighted_mean(losses, weights)
}

/// The mean of values that count as their weights say; 0 if there are none.
pub(crate) fn weighted_mean(values: impl Iterator<Item = f64>, weights: Option<&[f32]>) -> f64 {
    let (mut sum, mut all) = (0.0, 0.0);
    for (row, value) in values.enumerate() {
        let weight = weights.map_or(1.0, |weights| f64::from(weights[row]));
        sum += weight * value;
        all += weight;
    }
    if all > 0.0 { sum / all } else { 0.0 }
}

/// Scores of rows of log-probabilities, and the classes that are the answers: the most probable ones, or those that the tree of
/// the classes answers, unless they are given.
pub(crate) fn of_log_p(
    log_p: Vec<Vec<f32>>,
    answered: Option<Vec<u32>>,
    rows: &Rows,
    (texts, labels, hierarchy): (&[&str], &[String], Option<&Hierarchy>),
    seed: u64,
) -> (Scores, Vec<u32>) {
    let answer = |row: &Vec<f32>| match hierarchy {
        None => largest(row),
        Some(tree) => tree.predict(&row.iter().map(|x| x.exp()).collect::<Vec<f32>>()) as u32,
    };
    let predicted = answered.unwrap_or_else(|| log_p.iter().map(answer).collect());
    let loss = mean_loss(&log_p, &rows.labels, None);
    let sureness = Sureness::of(&log_p, &rows.labels);
    let judged = rows.judged(&predicted, texts);
    let hierarchy = hierarchy.map(|tree| TreeScores::of(tree, &judged, seed));
    (Scores { sureness, hierarchy, ..Scores::of(&judged, labels, Some(loss), seed) }, predicted)
}
