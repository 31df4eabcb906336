//! Decision rules other than the most probable class: class factors chosen for a metric.

use crate::scoring::{accuracy_and_macro_f1, argmax};
use crate::{sorting, tr};
use serde::{Deserialize, Serialize};

/// The metric that the class factors optimize.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Optimize {
    /// The mean F1 of the classes, in which rare and frequent classes count equally.
    MacroF1,
}

/// A rule that predicts the class with the largest product of probability and class factor.
///
/// The most probable class maximizes expected accuracy. The best F1 requires thresholds that depend on the data
/// (Lipton, Elkan and Naryanaswamy, "Optimal thresholding of classifiers to maximize F1 measure", 2014). For mutually
/// exclusive classes, the factors act as these thresholds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DecisionRule {
    /// The metric that the factors were chosen for.
    pub(crate) optimizes: Optimize,
    /// The factor of each class, by class index.
    pub factors: Vec<f32>,
}

/// The largest factor. Its inverse is the smallest. A few rows of a rare class do not justify more.
const MAX_FACTOR: f64 = 16.0;
/// The maximum number of passes over the classes.
const MAX_PASSES: usize = 5;
/// The smallest gain in the metric for which a factor moves.
const MIN_GAIN: f64 = 1e-9;

impl DecisionRule {
    /// Returns the predicted class. Ties go to the first class.
    #[must_use]
    pub fn class(&self, probabilities: &[f32]) -> usize {
        let products: Vec<f32> = probabilities.iter().zip(&self.factors).map(|(p, factor)| p * factor).collect();
        argmax(&products) as usize
    }

    /// Chooses factors that maximize macro-F1 on rows with these probabilities and labels.
    ///
    /// Uses coordinate ascent. One factor at a time moves to the best point among those where a prediction changes.
    /// Each class gets one additional imaginary row with a wrong answer. A class of two rows therefore does not
    /// dominate the result.
    #[must_use]
    pub fn for_macro_f1(probabilities: &[Vec<f32>], labels: &[u32], classes: usize) -> DecisionRule {
        let log_p: Vec<Vec<f64>> =
            probabilities.iter().map(|p| p.iter().map(|&p| f64::from(p.max(1e-30)).ln()).collect()).collect();
        let mut offsets = vec![0.0; classes];
        for _ in 0..MAX_PASSES {
            let before = offsets.clone();
            for class in 0..classes {
                move_offset(class, &mut offsets, &log_p, labels);
            }
            if offsets == before {
                break;
            }
        }
        let factors = offsets.iter().map(|offset| offset.exp() as f32).collect();
        let found = DecisionRule { optimizes: Optimize::MacroF1, factors };
        let answers =
            |decision: &DecisionRule| probabilities.iter().map(|p| decision.class(p) as u32).collect::<Vec<_>>();
        let plain = DecisionRule { optimizes: Optimize::MacroF1, factors: vec![1.0; classes] };
        let figure = |decision: &DecisionRule| accuracy_and_macro_f1(labels, &answers(decision), classes).1;
        // The best factors with imaginary rows may be worse on the real rows.
        if figure(&found) > figure(&plain) { found } else { plain }
    }

    /// Checks the factors against the number of classes.
    pub(crate) fn check(&self, classes: usize) -> Result<(), String> {
        let is_factor = |factor: &f32| factor.is_finite() && *factor > 0.0;
        if self.factors.len() == classes && self.factors.iter().all(is_factor) {
            return Ok(());
        }
        Err(tr!(
            "decision: expected {classes} factors above 0, found {:?}",
            "decision: 0 より大きい factors が {classes} 個必要ですが、{:?} です",
            self.factors
        ))
    }
}

/// Counts of one class: correct predictions, all predictions and rows.
#[derive(Clone, Copy, Default)]
struct ClassCounts {
    correct: f64,
    predicted: f64,
    rows: f64,
}

impl ClassCounts {
    /// F1 with one imaginary row that is answered wrongly. 0 for a class without rows and predictions.
    fn f1(self) -> f64 {
        let all = self.predicted + self.rows;
        if all > 0.0 { 2.0 * self.correct / (all + 1.0) } else { 0.0 }
    }
}

/// Moves the offset of one class to the best macro-F1. Ties go to the smallest offset.
fn move_offset(class: usize, offsets: &mut [f64], log_p: &[Vec<f64>], labels: &[u32]) {
    let mut counts = vec![ClassCounts::default(); offsets.len()];
    // For each row: the offset from which `class` wins, the winner below that offset, and the label.
    let mut rows: Vec<(f64, usize, usize)> = Vec::with_capacity(labels.len());
    for (log_p, &label) in log_p.iter().zip(labels) {
        let others = (0..offsets.len()).filter(|&other| other != class);
        let score = |other: usize| log_p[other] + offsets[other];
        let Some(other) = others.reduce(|best, other| if score(other) > score(best) { other } else { best }) else {
            return;
        };
        let label = label as usize;
        counts[label].rows += 1.0;
        counts[other].predicted += 1.0;
        counts[other].correct += f64::from(u8::from(other == label));
        rows.push((score(other) - log_p[class], other, label));
    }
    sorting::sort_by(&mut rows, |a, b| a.0.total_cmp(&b.0));
    let limit = MAX_FACTOR.ln();
    let mut sum: f64 = counts.iter().map(|counts| counts.f1()).sum();
    let mut best: Option<(f64, f64)> = None;
    let mut consider = |offset: f64, sum: f64| {
        let is_better = best
            .is_none_or(|(at, most)| sum > most + MIN_GAIN || (sum >= most - MIN_GAIN && offset.abs() < f64::abs(at)));
        if offset.abs() <= limit && is_better {
            best = Some((offset, sum));
        }
    };
    let mut at = 0;
    let mut current = sum;
    while at <= rows.len() {
        // Midway between the last row that predicts the class and the first that does not. 0 if it lies in this
        // interval.
        let low = if at == 0 { -limit } else { rows[at - 1].0 };
        let high = rows.get(at).map_or(limit, |row| row.0);
        let middle = if low < 0.0 && high > 0.0 { 0.0 } else { 0.5 * (low.max(-limit) + high.min(limit)) };
        if low < high {
            consider(middle, sum);
            if low < offsets[class] && offsets[class] <= high {
                current = sum;
            }
        }
        let Some(&(_, other, label)) = rows.get(at) else { break };
        for (of, change) in [(other, -1.0), (class, 1.0)] {
            sum -= counts[of].f1();
            counts[of].predicted += change;
            counts[of].correct += if of == label { change } else { 0.0 };
            sum += counts[of].f1();
        }
        at += 1;
    }
    if let Some((offset, most)) = best
        && most > current + MIN_GAIN
    {
        offsets[class] = offset;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chumoku_kernels::Philox;

    /// Rows of a frequent and a rare class, with calibrated probabilities of the rare class.
    fn rows(n: u64, stream: u64) -> (Vec<Vec<f32>>, Vec<u32>) {
        let random = Philox::new(5, stream);
        let row = |i: u64| {
            let p = 0.6 * random.uniform(2 * i).powi(4);
            (vec![1.0 - p, p], u32::from(random.uniform(2 * i + 1) < p))
        };
        (0..n).map(row).unzip()
    }

    #[test]
    fn predicting_the_rare_class_more_often_raises_macro_f1() {
        let (p, labels) = rows(2000, 1);
        let decision = DecisionRule::for_macro_f1(&p, &labels, 2);
        decision.check(2).unwrap();
        assert!(decision.factors[1] > 1.3 * decision.factors[0], "{decision:?}");
        // Held-out rows.
        let (p, labels) = rows(20_000, 2);
        let figures = |answers: Vec<u32>| accuracy_and_macro_f1(&labels, &answers, 2);
        let plain = figures(p.iter().map(|p| argmax(p)).collect());
        let chosen = figures(p.iter().map(|p| decision.class(p) as u32).collect());
        assert!(chosen.1 > plain.1 + 0.03 && chosen.0 <= plain.0, "{plain:?} {chosen:?}");
    }

    /// No other pair of factors on a grid has a better score on these rows.
    #[test]
    fn two_classes_get_the_best_threshold() {
        let (p, labels) = rows(300, 3);
        let smoothed = |decision: &DecisionRule| {
            let mut counts = [ClassCounts::default(); 2];
            for (p, &label) in p.iter().zip(&labels) {
                let class = decision.class(p);
                counts[class].predicted += 1.0;
                counts[label as usize].rows += 1.0;
                counts[class].correct += f64::from(u8::from(class == label as usize));
            }
            counts.map(ClassCounts::f1).iter().sum::<f64>()
        };
        let found = smoothed(&DecisionRule::for_macro_f1(&p, &labels, 2));
        for step in 0..160 {
            let factors = vec![1.0, (f64::from(step - 80) / 30.0).exp() as f32];
            assert!(smoothed(&DecisionRule { optimizes: Optimize::MacroF1, factors }) <= found + 1e-9, "{step}");
        }
    }

    #[test]
    fn the_most_probable_class_stays_if_factors_gain_nothing() {
        let p = vec![vec![0.9, 0.05, 0.05], vec![0.1, 0.8, 0.1], vec![0.2, 0.2, 0.6]];
        let decision = DecisionRule::for_macro_f1(&p, &[0, 1, 2], 3);
        let is_argmax = |rule: &DecisionRule| rule.factors.windows(2).all(|pair| pair[0] == pair[1]);
        assert!(is_argmax(&decision), "{decision:?}");
        assert!(is_argmax(&DecisionRule::for_macro_f1(&[], &[], 3)));
        let damaged = |factors: Vec<f32>| DecisionRule { optimizes: Optimize::MacroF1, factors }.check(2).is_err();
        assert!(damaged(vec![1.0]) && damaged(vec![1.0, 0.0]) && damaged(vec![1.0, f32::NAN]));
    }
}
