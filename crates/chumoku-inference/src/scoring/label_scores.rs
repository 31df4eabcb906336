//! Scores of multi-label predictions.

use super::bootstrap::{bootstrap_interval, drawn_rows, exact_interval};
use crate::hierarchy::Hierarchy;
use crate::lang::lang;
use crate::sorting;
use serde::{Deserialize, Serialize};

/// Scores of predicted label sets.
///
/// Sources: Tsoumakas, Katakis and Vlahavas, "Mining multi-label data", 2010, for the averages; Efron, "Better
/// bootstrap confidence intervals", 1987, for percentile intervals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LabelScores {
    /// Number of rows.
    pub rows: usize,
    /// Mean number of labels per row.
    pub(crate) labels_per_row: f64,
    /// Micro-averaged F1 over all pairs of row and label.
    pub micro_f1: f64,
    /// Its 95 % bootstrap interval over rows.
    pub micro_f1_interval: [f64; 2],
    /// Mean F1 over the labels that occur or are predicted.
    pub macro_f1: f64,
    /// Mean F1 over the rows. A row without true and predicted labels counts as 1.
    pub(crate) sample_f1: f64,
    /// Share of the predicted labels that are correct.
    pub(crate) precision: f64,
    /// Share of the true labels that are predicted.
    pub(crate) recall: f64,
    /// Share of the rows whose label set is predicted exactly.
    pub exact: f64,
    /// Share of the rows whose most probable label is correct; `None` without probabilities.
    pub precision_at_1: Option<f64>,
    /// Mean share of correct labels among the three most probable.
    pub precision_at_3: Option<f64>,
    /// Mean −ln p over rows and labels.
    pub(crate) log_loss: Option<f64>,
    /// Scores of each label, in the order of the model.
    pub of_labels: Vec<LabelScore>,
    /// Scores of each level from the top, if the labels form a tree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<LabelLevel>,
}

/// Scores of the labels at one level of a tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LabelLevel {
    /// The level, counted from 1 at the top.
    pub level: usize,
    /// Number of labels at this level.
    pub labels: usize,
    /// Micro-averaged F1 over these labels.
    pub micro_f1: f64,
    /// Mean F1 over those of these labels that occur or are predicted.
    pub macro_f1: f64,
}

/// Scores of one label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LabelScore {
    /// The label.
    pub label: String,
    /// Number of rows with the label.
    pub rows: usize,
    /// Number of rows with the label predicted.
    pub(crate) predicted: usize,
    /// Share of the predictions that are correct.
    pub precision: f64,
    /// Share of the rows with the label for which it is predicted.
    pub recall: f64,
    /// The harmonic mean of precision and recall.
    pub f1: f64,
}

/// Numbers of correct, predicted and true labels.
#[derive(Clone, Copy, Default)]
struct LabelCounts {
    right: usize,
    predicted: usize,
    actual: usize,
}

impl LabelCounts {
    fn compare(truth: &[u32], predicted: &[u32]) -> LabelCounts {
        let right = truth.iter().filter(|label| predicted.contains(label)).count();
        LabelCounts { right, predicted: predicted.len(), actual: truth.len() }
    }

    fn add(&mut self, other: LabelCounts) {
        self.right += other.right;
        self.predicted += other.predicted;
        self.actual += other.actual;
    }

    fn f1(self) -> f64 {
        2.0 * self.right as f64 / (self.predicted + self.actual).max(1) as f64
    }
}

/// The micro-averaged F1 of predicted label sets, with optional row weights.
pub fn micro_f1(truth: &[Vec<u32>], predicted: &[Vec<u32>], weights: Option<&[f32]>) -> f64 {
    let (mut right, mut all) = (0.0, 0.0);
    for (row, (truth, predicted)) in truth.iter().zip(predicted).enumerate() {
        let weight = weights.map_or(1.0, |weights| f64::from(weights[row]));
        let counts = LabelCounts::compare(truth, predicted);
        right += weight * counts.right as f64;
        all += weight * (counts.predicted + counts.actual) as f64;
    }
    if all > 0.0 { 2.0 * right / all } else { 0.0 }
}

impl LabelScores {
    /// Compares predicted with true label sets. `probabilities` are in the order of `labels`.
    pub fn of(
        truth: &[Vec<u32>],
        predicted: &[Vec<u32>],
        probabilities: Option<&[Vec<f32>]>,
        labels: &[String],
        seed: u64,
    ) -> LabelScores {
        let rows: Vec<LabelCounts> =
            truth.iter().zip(predicted).map(|(truth, found)| LabelCounts::compare(truth, found)).collect();
        let mut all = LabelCounts::default();
        rows.iter().for_each(|&row| all.add(row));
        let mut of_labels = vec![LabelCounts::default(); labels.len()];
        for (truth, predicted) in truth.iter().zip(predicted) {
            truth.iter().for_each(|&label| of_labels[label as usize].actual += 1);
            for label in predicted {
                let counts = &mut of_labels[*label as usize];
                counts.predicted += 1;
                counts.right += usize::from(truth.contains(label));
            }
        }
        let share = |a: usize, b: usize| a as f64 / b.max(1) as f64;
        let of_label = |(counts, label): (&LabelCounts, &String)| LabelScore {
            label: label.clone(),
            rows: counts.actual,
            predicted: counts.predicted,
            precision: share(counts.right, counts.predicted),
            recall: share(counts.right, counts.actual),
            f1: counts.f1(),
        };
        let occurring = of_labels.iter().filter(|counts| counts.actual + counts.predicted > 0);
        let (count, sum) = occurring.fold((0, 0.0), |(count, sum), counts| (count + 1, sum + counts.f1()));
        let of_row = |row: &LabelCounts| if row.predicted + row.actual == 0 { 1.0 } else { row.f1() };
        let is_exact = |row: &&LabelCounts| row.right == row.actual && row.right == row.predicted;
        let n = rows.len().max(1) as f64;
        LabelScores {
            rows: rows.len(),
            labels_per_row: all.actual as f64 / n,
            micro_f1: all.f1(),
            micro_f1_interval: micro_f1_interval(&rows, seed),
            macro_f1: sum / f64::from(count.max(1)),
            sample_f1: rows.iter().map(of_row).sum::<f64>() / n,
            precision: share(all.right, all.predicted),
            recall: share(all.right, all.actual),
            exact: rows.iter().filter(is_exact).count() as f64 / n,
            precision_at_1: probabilities.map(|p| precision_at(p, truth, 1)),
            precision_at_3: probabilities.filter(|_| labels.len() >= 3).map(|p| precision_at(p, truth, 3)),
            log_loss: probabilities.map(|p| log_loss(p, truth)),
            of_labels: of_labels.iter().zip(labels).map(of_label).collect(),
            levels: Vec::new(),
        }
    }

    /// Adds the scores of each level, if the labels form a tree.
    pub fn with_levels(mut self, tree: Option<&Hierarchy>) -> LabelScores {
        let Some(tree) = tree else { return self };
        self.levels = (1..=tree.depth())
            .map(|level| {
                let here = (0..self.of_labels.len()).filter(|&label| tree.path(label).len() == level);
                let here: Vec<&LabelScore> = here.map(|label| &self.of_labels[label]).collect();
                let mut all = LabelCounts::default();
                let (mut sum, mut count) = (0.0, 0u32);
                for label in &here {
                    let right = (label.recall * label.rows as f64).round() as usize;
                    all.add(LabelCounts { right, predicted: label.predicted, actual: label.rows });
                    if label.rows + label.predicted > 0 {
                        (sum, count) = (sum + label.f1, count + 1);
                    }
                }
                let macro_f1 = sum / f64::from(count.max(1));
                LabelLevel { level, labels: here.len(), micro_f1: all.f1(), macro_f1 }
            })
            .collect();
        self
    }

    /// Returns a warning to show before the scores, if there is one.
    pub fn warning(&self) -> Option<String> {
        super::few_rows_warning(self.rows)
    }

    /// Returns the averages of F1 with their names in the language of the process.
    pub fn averages(&self) -> [(&'static str, f64); 3] {
        let name = |en, ja| lang().pick(en, ja);
        [
            (name("micro-F1", "ミクロ F1"), self.micro_f1),
            (name("macro-F1", "マクロ F1"), self.macro_f1),
            (name("sample-F1", "行別 F1"), self.sample_f1),
        ]
    }
}

/// The 95 % bootstrap interval of micro-F1 over rows.
fn micro_f1_interval(rows: &[LabelCounts], seed: u64) -> [f64; 2] {
    if rows.is_empty() {
        return [0.0; 2];
    }
    // If all rows are correct, or all are wrong, resamples do not differ.
    let counted: Vec<&LabelCounts> = rows.iter().filter(|row| row.predicted + row.actual > 0).collect();
    let right = counted.iter().filter(|row| row.right == row.predicted && row.right == row.actual).count();
    let is_uniform = right == counted.len() || counted.iter().all(|row| row.right == 0);
    if let Some(exact) = exact_interval(right, counted.len()).filter(|_| is_uniform) {
        return exact;
    }
    bootstrap_interval(seed, |random| {
        let mut all = LabelCounts::default();
        drawn_rows(random, rows.len()).for_each(|row| all.add(rows[row]));
        all.f1()
    })
}

fn precision_at(probabilities: &[Vec<f32>], truth: &[Vec<u32>], count: usize) -> f64 {
    let of_row = |(p, truth): (&Vec<f32>, &Vec<u32>)| {
        let right = sorting::argsort_descending(p)
            .into_iter()
            .take(count)
            .filter(|&label| truth.contains(&(label as u32)))
            .count();
        right as f64 / count as f64
    };
    probabilities.iter().zip(truth).map(of_row).sum::<f64>() / truth.len().max(1) as f64
}

/// Mean −ln p over rows and labels.
fn log_loss(probabilities: &[Vec<f32>], truth: &[Vec<u32>]) -> f64 {
    let (mut sum, mut count) = (0.0, 0);
    for (p, truth) in probabilities.iter().zip(truth) {
        for (label, &p) in (0..).zip(p) {
            let p = f64::from(if truth.contains(&label) { p } else { 1.0 - p });
            sum -= p.max(1e-30).ln();
            count += 1;
        }
    }
    sum / f64::from(count.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_is_scored_separately() {
        let labels = ["a", "a/x", "a/y", "b"].map(String::from);
        let tree = crate::hierarchy::HierarchySource::Separator("/".into()).build(&labels).unwrap();
        let truth = [vec![0, 1], vec![0, 2], vec![3], vec![0, 1]];
        let predicted = [vec![0, 1], vec![0, 1], vec![], vec![0, 3]];
        let scores = LabelScores::of(&truth, &predicted, None, &labels, 1).with_levels(Some(&tree));
        let [first, second] = &scores.levels[..] else { panic!("{scores:?}") };
        // a: 3 of 3 correct; b: one true, one predicted, none correct.
        assert_eq!((first.level, first.labels, first.micro_f1, first.macro_f1), (1, 2, 0.75, 0.5));
        // a/x: 2 true, 2 predicted, 1 correct; a/y: 1 true, none predicted.
        assert_eq!((second.labels, second.micro_f1, second.macro_f1), (2, 0.4, 0.25));
        assert!(LabelScores::of(&truth, &predicted, None, &labels, 1).with_levels(None).levels.is_empty());
    }

    fn named(count: usize) -> Vec<String> {
        (0..count).map(|i| format!("label {i}")).collect()
    }

    #[test]
    fn averages_match_their_definitions() {
        let truth = [vec![0, 1], vec![1], vec![], vec![2]];
        let predicted = [vec![0], vec![1, 2], vec![], vec![]];
        let p = [vec![0.9, 0.3, 0.1], vec![0.2, 0.8, 0.6], vec![0.1, 0.1, 0.2], vec![0.3, 0.2, 0.4]];
        let found = LabelScores::of(&truth, &predicted, Some(&p), &named(3), 1);
        // Correct: label 0 of the first row, label 1 of the second. Three are predicted, four are true.
        assert!((found.micro_f1 - 4.0 / 7.0).abs() < 1e-12);
        assert!((found.precision - 2.0 / 3.0).abs() < 1e-12 && (found.recall - 0.5).abs() < 1e-12);
        // Labels: 1, 2/3, 0. Rows: 2/3, 2/3, 1, 0.
        assert!((found.macro_f1 - (1.0 + 2.0 / 3.0) / 3.0).abs() < 1e-12);
        assert!((found.sample_f1 - (2.0 / 3.0 + 2.0 / 3.0 + 1.0) / 4.0).abs() < 1e-12);
        assert_eq!((found.exact, found.labels_per_row), (0.25, 1.0));
        assert_eq!(found.precision_at_1, Some(0.75));
        assert!((found.precision_at_3.unwrap() - 4.0 / 12.0).abs() < 1e-12);
        let loss = -(0.9f64 * 0.3 * 0.9 * 0.8 * 0.8 * 0.4 * 0.9 * 0.9 * 0.8 * 0.7 * 0.8 * 0.4).ln() / 12.0;
        assert!((found.log_loss.unwrap() - loss).abs() < 1e-6, "{:?} {loss}", found.log_loss);
        let [low, high] = found.micro_f1_interval;
        assert!(low < found.micro_f1 && found.micro_f1 < high);
        assert_eq!(found.of_labels[1].f1, 2.0 / 3.0);
        assert_eq!(micro_f1(&truth, &predicted, None), found.micro_f1);
    }

    #[test]
    fn few_correct_rows_leave_a_wide_interval() {
        let rows: Vec<Vec<u32>> = (0..20).map(|i| vec![i % 2]).collect();
        let wrong: Vec<Vec<u32>> = (0..20).map(|i| vec![1 - i % 2]).collect();
        let low = 0.025f64.powf(1.0 / 20.0);
        let [right, none] = [&rows, &wrong].map(|found| LabelScores::of(&rows, found, None, &named(2), 1));
        assert!((right.micro_f1_interval[0] - low).abs() < 1e-9 && right.micro_f1_interval[1] == 1.0);
        assert!((none.micro_f1_interval[1] - (1.0 - low)).abs() < 1e-9 && none.micro_f1_interval[0] == 0.0);
    }

    #[test]
    fn absent_labels_do_not_count() {
        let truth = vec![vec![0]; 200];
        let found = LabelScores::of(&truth, &truth, None, &named(5), 1);
        assert_eq!((found.micro_f1, found.macro_f1), (1.0, 1.0));
        let [low, high] = found.micro_f1_interval;
        assert!(low > 0.98 && low < 1.0 && high == 1.0, "{low} {high}");
        assert!(found.warning().is_none() && found.precision_at_1.is_none());
        let none = LabelScores::of(&[], &[], None, &named(2), 1);
        assert_eq!((none.rows, none.micro_f1), (0, 0.0));
    }
}
