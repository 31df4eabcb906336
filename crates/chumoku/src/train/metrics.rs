//! Scores of predictions: accuracy, macro-F1 with a bootstrap interval, per-class figures, the confusion matrix.

use chumoku_kernels::Philox;
use serde::{Deserialize, Serialize};

/// Precision, recall and F1 of one class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassScore {
    /// The class.
    pub label: String,
    /// Of the rows predicted so, the share that is; 0 if none was predicted so.
    pub precision: f64,
    /// Of the rows that are so, the share predicted so; 0 if there is none.
    pub recall: f64,
    /// Their harmonic mean.
    pub f1: f64,
    /// Rows that are so.
    pub rows: usize,
}

/// The scores of one set of predictions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// Rows.
    pub rows: usize,
    /// Share predicted right.
    pub accuracy: f64,
    /// The middle 95 % of accuracy over 1,000 resamples of the rows (Efron 1979, percentile method).
    pub accuracy_interval: [f64; 2],
    /// Mean F1 of the classes that occur, in the rows or in the predictions.
    pub macro_f1: f64,
    /// The middle 95 % of macro-F1 over the same resamples.
    pub macro_f1_interval: [f64; 2],
    /// Mean negative log-probability of the right class, in nats; absent for predictors without probabilities.
    pub log_loss: Option<f64>,
    /// Each class.
    pub classes: Vec<ClassScore>,
    /// Rows by true class (outer) and predicted class (inner), in the order of `classes`.
    pub confusion: Vec<Vec<usize>>,
}

const RESAMPLES: u64 = 1000;

/// Rows by true class and predicted class.
fn confusion(truth: &[u32], predicted: &[u32], classes: usize) -> Vec<Vec<usize>> {
    let mut counts = vec![vec![0; classes]; classes];
    for (&t, &p) in truth.iter().zip(predicted) {
        counts[t as usize][p as usize] += 1;
    }
    counts
}

/// Right, true and predicted rows of each class → (accuracy, macro-F1).
fn figures(right: &[usize], truth: &[usize], predicted: &[usize]) -> (f64, f64) {
    let rows: usize = truth.iter().sum();
    let (mut f1, mut occurring) = (0.0, 0);
    for ((&right, &truth), &predicted) in right.iter().zip(truth).zip(predicted) {
        if truth + predicted > 0 {
            f1 += 2.0 * right as f64 / (truth + predicted) as f64;
            occurring += 1;
        }
    }
    (right.iter().sum::<usize>() as f64 / rows.max(1) as f64, f1 / f64::from(occurring.max(1)))
}

fn tally(rows: impl Iterator<Item = (u32, u32)>, classes: usize) -> (f64, f64) {
    let mut counts = [vec![0; classes], vec![0; classes], vec![0; classes]];
    for (t, p) in rows {
        counts[0][t as usize] += usize::from(t == p);
        counts[1][t as usize] += 1;
        counts[2][p as usize] += 1;
    }
    figures(&counts[0], &counts[1], &counts[2])
}

/// Accuracy and macro-F1 alone, as training needs them after every epoch.
pub fn quick_scores(truth: &[u32], predicted: &[u32], classes: usize) -> (f64, f64) {
    tally(truth.iter().copied().zip(predicted.iter().copied()), classes)
}

impl Scores {
    /// Scores `predicted` against `truth` (class numbers), resampling with `seed`.
    pub fn of(truth: &[u32], predicted: &[u32], labels: &[String], log_loss: Option<f64>, seed: u64) -> Scores {
        let classes = labels.len();
        let (accuracy, macro_f1) = quick_scores(truth, predicted, classes);
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
        let rows = truth.len();
        let (mut accuracies, mut f1s) = (Vec::new(), Vec::new());
        for resample in 0..if rows == 0 { 0 } else { RESAMPLES } {
            let random = Philox::new(seed, (1 << 61) + resample);
            let drawn = (0..rows.div_ceil(4)).flat_map(|block| random.block(block as u64)).take(rows);
            let rows = drawn.map(|word| {
                let row = ((u64::from(word) * rows as u64) >> 32) as usize;
                (truth[row], predicted[row])
            });
            let (accuracy, f1) = tally(rows, classes);
            accuracies.push(accuracy);
            f1s.push(f1);
        }
        Scores {
            rows,
            accuracy,
            accuracy_interval: middle(&mut accuracies),
            macro_f1,
            macro_f1_interval: middle(&mut f1s),
            log_loss,
            classes: each.collect(),
            confusion,
        }
    }
}

/// The 2.5th and 97.5th percentile.
fn middle(values: &mut [f64]) -> [f64; 2] {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values.get((share * values.len() as f64) as usize).copied().unwrap_or(0.0);
    [at(0.025), at(0.975)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_by_hand() {
        let labels = ["a", "b", "c"].map(String::from);
        let scores = Scores::of(&[0, 0, 0, 1, 1], &[0, 0, 1, 1, 0], &labels, None, 1);
        assert_eq!(scores.accuracy, 0.6);
        assert_eq!(scores.confusion, [vec![2, 1, 0], vec![1, 1, 0], vec![0, 0, 0]]);
        // a: precision 2/3, recall 2/3; b: 1/2, 1/2; c does not occur and does not count.
        assert!((scores.macro_f1 - (2.0 / 3.0 + 0.5) / 2.0).abs() < 1e-12);
        assert_eq!((scores.classes[1].precision, scores.classes[1].recall), (0.5, 0.5));
        let [low, high] = scores.accuracy_interval;
        assert!(low < 0.6 && 0.6 < high);
    }

    #[test]
    fn the_interval_has_the_width_of_the_binomial() {
        let truth: Vec<u32> = vec![0; 1000];
        let predicted: Vec<u32> = (0..1000).map(|i| u32::from(i % 5 == 0)).collect();
        let scores = Scores::of(&truth, &predicted, &["a".into(), "b".into()], None, 3);
        let [low, high] = scores.accuracy_interval;
        // 1.96 · √(0.8 · 0.2 / 1000) = 0.0248
        assert!((low - 0.7752).abs() < 0.006 && (high - 0.8248).abs() < 0.006, "{low} {high}");
    }

    #[test]
    fn nothing_to_score() {
        let scores = Scores::of(&[], &[], &["a".into()], None, 1);
        assert_eq!((scores.rows, scores.accuracy, scores.macro_f1), (0, 0.0, 0.0));
    }
}
