//! Scores of single-label predictions: accuracy, macro-F1 with a bootstrap interval, per-class scores, and the
//! confusion matrix.

use super::bootstrap::{Intervals, PredictedRows, intervals};
use super::confidence_scores::ConfidenceScores;
use super::point_scores::accuracy_and_macro_f1;
use super::tree_scores::TreeScores;
use crate::lang::sanitize;
use serde::{Deserialize, Serialize};

/// Precision, recall and F1 of one class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClassScore {
    /// The class.
    pub label: String,
    /// Share of the rows with this prediction that are correct; 0 if there are none.
    pub precision: f64,
    /// Share of the rows of this class that are predicted correctly; 0 if there are none.
    pub recall: f64,
    /// The harmonic mean of precision and recall.
    pub f1: f64,
    /// Number of rows of this class.
    pub rows: usize,
}

/// The scores of one set of predictions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// Number of rows.
    pub rows: usize,
    /// Share of the rows that are predicted correctly.
    pub accuracy: f64,
    /// The middle 95 % of accuracy over 1,000 resamples of the texts, none without a class; see `resample.rs`.
    pub accuracy_interval: [f64; 2],
    /// Mean F1 over the classes that occur in the rows or in the predictions.
    pub macro_f1: f64,
    /// The middle 95 % of macro-F1 over the same resamples.
    pub macro_f1_interval: [f64; 2],
    /// Classes with rows that are never predicted.
    #[serde(default)]
    pub never_predicted: Vec<String>,
    /// Mean negative log-probability of the true class, in nats; `None` for predictors without probabilities.
    pub log_loss: Option<f64>,
    /// Calibration and ranking of the probabilities; `None` for predictors without probabilities.
    #[serde(default)]
    #[serde(rename = "sureness")]
    pub confidence: Option<ConfidenceScores>,
    /// Scores of each class.
    pub classes: Vec<ClassScore>,
    /// Rows by true class (outer) and predicted class (inner), in the order of `classes`.
    pub confusion: Vec<Vec<usize>>,
    /// Scores of each level, if the classes form a tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hierarchy: Option<TreeScores>,
}

/// Counts rows by true class and predicted class.
fn confusion(truth: &[u32], predicted: &[u32], classes: usize) -> Vec<Vec<usize>> {
    let mut counts = vec![vec![0; classes]; classes];
    for (&t, &p) in truth.iter().zip(predicted) {
        counts[t as usize][p as usize] += 1;
    }
    counts
}

impl Scores {
    /// Scores rows, resampling with `seed`.
    pub fn of(predictions: &PredictedRows<'_>, labels: &[String], log_loss: Option<f64>, seed: u64) -> Scores {
        let PredictedRows { truth, predicted, .. } = *predictions;
        let classes = labels.len();
        let (accuracy, macro_f1) = accuracy_and_macro_f1(truth, predicted, classes);
        let confusion = confusion(truth, predicted, classes);
        let column = |class: usize| confusion.iter().map(|row| row[class]).sum::<usize>();
        let share = |part: usize, whole: usize| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        let each = (0..classes).map(|class| {
            let (right, rows, predicted) = (confusion[class][class], confusion[class].iter().sum(), column(class));
            ClassScore {
                label: labels[class].clone(),
                precision: share(right, predicted),
                recall: share(right, rows),
                f1: share(2 * right, rows + predicted),
                rows,
            }
        });
        let classes: Vec<ClassScore> = each.collect();
        let is_missed = |class: &usize| classes[*class].rows > 0 && column(*class) == 0;
        let Intervals { accuracy: accuracy_interval, macro_f1: macro_f1_interval } =
            intervals(predictions, classes.len(), seed);
        Scores {
            rows: truth.len(),
            accuracy,
            accuracy_interval,
            macro_f1,
            macro_f1_interval,
            never_predicted: (0..classes.len()).filter(is_missed).map(|class| labels[class].clone()).collect(),
            log_loss,
            confidence: None,
            classes,
            confusion,
            hierarchy: None,
        }
    }

    /// Returns whether a class of the model neither occurs nor is predicted.
    pub fn is_absent(&self, class: usize) -> bool {
        self.classes[class].rows == 0 && self.confusion.iter().all(|row| row[class] == 0)
    }

    /// Returns whether the predictions agree with the truth by more than guessing explains.
    ///
    /// Tests at the 5 % level, one-sided, whether Cohen's κ is above 0 (Fleiss, Cohen and Everitt 1969).
    pub fn is_above_chance(&self) -> bool {
        const CRITICAL_Z: f64 = 1.645;
        let rows = self.rows as f64;
        let margins = (0..self.classes.len()).map(|class| {
            let predicted: usize = self.confusion.iter().map(|row| row[class]).sum();
            (self.classes[class].rows as f64 / rows, predicted as f64 / rows)
        });
        let (agreement, skew) =
            margins.fold((0.0, 0.0), |(agreement, skew), (p, q)| (agreement + p * q, skew + p * q * (p + q)));
        let deviation = (agreement + agreement * agreement - skew).max(0.0).sqrt();
        rows.sqrt() * (self.accuracy - agreement) > CRITICAL_Z * deviation
    }

    /// Returns the class with the lowest recall, if it is below three quarters.
    pub(crate) fn weakest(&self) -> Option<&ClassScore> {
        const OFTEN: f64 = 0.75;
        let missed = self.classes.iter().filter(|class| class.rows > 0 && class.recall < OFTEN);
        missed.min_by(|a, b| a.recall.total_cmp(&b.recall))
    }

    /// Returns a one-line warning to show before the scores, if classes are never predicted.
    pub fn warning(&self) -> Option<String> {
        const MOST: usize = 5;
        let missed = &self.never_predicted;
        if missed.is_empty() {
            return None;
        }
        let rows =
            |label: &String| self.classes.iter().find(|class| class.label == *label).map_or(0, |class| class.rows);
        let each = missed.iter().take(MOST).map(|label| {
            let (name, rows) = (shorten(label), rows(label));
            crate::tr!("“{name}” ({rows} of {} rows)", "「{name}」（{} 行中 {rows} 行）", self.rows)
        });
        let more = match missed.len().saturating_sub(MOST) {
            0 => String::new(),
            more => crate::tr!(" and {more} more", "、ほか {more} クラス"),
        };
        let each: Vec<String> = each.collect();
        let listed = each.join(crate::lang::lang().pick(", ", "、"));
        Some(crate::tr!("Never predicted: {listed}{more}.", "一度も予測されないクラス: {listed}{more}。"))
    }
}

/// Shortens a name for a line and removes control characters.
fn shorten(name: &str) -> String {
    const MOST: usize = 40;
    match name.char_indices().nth(MOST) {
        Some((end, _)) => sanitize(&name[..end]) + "…",
        None => sanitize(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_match_counting_by_hand() {
        let labels = ["a", "b", "c"].map(String::from);
        let predictions = PredictedRows { truth: &[0, 0, 0, 1, 1], predicted: &[0, 0, 1, 1, 0], texts: &[] };
        let scores = Scores::of(&predictions, &labels, None, 1);
        assert_eq!(scores.accuracy, 0.6);
        assert_eq!(scores.confusion, [vec![2, 1, 0], vec![1, 1, 0], vec![0, 0, 0]]);
        // a: precision 2/3, recall 2/3; b: 1/2, 1/2; c does not occur and is ignored.
        assert!((scores.macro_f1 - (2.0 / 3.0 + 0.5) / 2.0).abs() < 1e-12);
        assert_eq!((scores.classes[1].precision, scores.classes[1].recall), (0.5, 0.5));
        let [low, high] = scores.accuracy_interval;
        assert!(low < 0.6 && 0.6 < high);
    }

    #[test]
    fn the_interval_has_the_width_of_a_binomial_interval() {
        let truth: Vec<u32> = vec![0; 1000];
        let predicted: Vec<u32> = (0..1000).map(|i| u32::from(i % 5 == 0)).collect();
        let predictions = PredictedRows { truth: &truth, predicted: &predicted, texts: &[] };
        let scores = Scores::of(&predictions, &["a".into(), "b".into()], None, 3);
        let [low, high] = scores.accuracy_interval;
        // 1.96 · √(0.8 · 0.2 / 1000) = 0.0248
        assert!((low - 0.7752).abs() < 0.006 && (high - 0.8248).abs() < 0.006, "{low} {high}");
    }

    #[test]
    fn guesses_are_not_above_chance() {
        let labels = ["a", "b"].map(String::from);
        let above = |truth: &[u32], predicted: &[u32]| {
            Scores::of(&PredictedRows { truth, predicted, texts: &[] }, &labels, None, 1).is_above_chance()
        };
        let truth: Vec<u32> = (0..200).map(|i| i % 2).collect();
        let right = |count: usize| -> Vec<u32> {
            truth.iter().zip(0..).map(|(&t, i)| if i * 7 % 200 < count { t } else { 1 - t }).collect()
        };
        // A standard deviation of 200 coin flips is 7 rows.
        let found = [60, 100, 108, 115, 200].map(|count| above(&truth, &right(count)));
        assert_eq!(found, [false, false, false, true, true]);
        // One class alone is no better than guessing; the only rare row is no guess.
        let rare: Vec<u32> = (0..50).map(|i| u32::from(i == 7)).collect();
        assert_eq!([above(&rare, &[0; 50]), above(&rare, &rare), above(&[], &[])], [false, true, false]);
    }

    #[test]
    fn no_rows_score_zero() {
        let nothing = PredictedRows { truth: &[], predicted: &[], texts: &[] };
        let scores = Scores::of(&nothing, &["a".into()], None, 1);
        assert_eq!((scores.rows, scores.accuracy, scores.macro_f1), (0, 0.0, 0.0));
    }

    #[test]
    fn classes_that_are_never_predicted_give_a_warning() {
        let labels = ["common", "rare", "absent"].map(String::from);
        let truth: Vec<u32> = (0..100).map(|i| u32::from(i == 7)).collect();
        let scores = Scores::of(&PredictedRows { truth: &truth, predicted: &[0; 100], texts: &[] }, &labels, None, 1);
        assert_eq!(scores.never_predicted, ["rare"]);
        assert_eq!(scores.warning().unwrap(), "Never predicted: “rare” (1 of 100 rows).");
        assert!(scores.is_absent(2) && !scores.is_absent(1));
        let scores = Scores::of(&PredictedRows { truth: &truth, predicted: &truth, texts: &[] }, &labels, None, 1);
        assert_eq!(scores.warning(), None);
    }
}
