//! Scores of predicted numbers (regression).

use super::bootstrap::{bootstrap_interval, drawn_rows};
use crate::blend::number::{Estimate, NumberDiscretizer};
use crate::lang::lang;
use crate::sorting;
use chumoku_kernels::Philox;
use serde::{Deserialize, Serialize};

/// Scores of predicted numbers.
///
/// R² compares with predicting the mean of these rows. Spearman's ρ (1904) is Pearson's r of ranks, where equal numbers
/// share their mean rank. R², r and ρ are 0 if all numbers are equal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NumberScores {
    /// Number of rows.
    pub rows: usize,
    /// Mean |predicted − true|.
    pub mean_absolute_error: f64,
    /// Its 95 % interval from resampling rows (percentile bootstrap).
    pub mean_absolute_error_interval: [f64; 2],
    /// √ mean (predicted − true)².
    pub(crate) root_mean_squared_error: f64,
    /// 1 − Σ (predicted − true)² / Σ (mean − true)².
    pub r2: f64,
    /// Pearson's r.
    pub(crate) pearson: f64,
    /// Spearman's ρ.
    pub spearman: f64,
    /// Share of true numbers inside their 90 % intervals; `None` without intervals.
    pub coverage: Option<f64>,
    /// Mean width of the intervals.
    pub mean_width: Option<f64>,
    /// For ratings, the share of rows whose prediction is correct after rounding to the nearest level.
    pub(crate) exact: Option<f64>,
    /// Number of rows whose number is not a level of the training rows. They are in none of `levels`.
    pub elsewhere: usize,
    /// Scores of each level of a rating.
    pub levels: Vec<LevelScore>,
}

/// Scores of the rows of one level; means are `None` if there are no such rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LevelScore {
    /// The level.
    pub level: f64,
    /// Number of rows of this level.
    pub rows: usize,
    /// Mean prediction.
    pub mean_prediction: Option<f64>,
    /// Mean |predicted − true|.
    pub mean_absolute_error: Option<f64>,
    /// Share of the rows whose prediction is correct after rounding to the nearest level.
    pub exact: Option<f64>,
}

/// Formats a score with enough digits to compare: three decimals, four significant digits above 10, and scientific
/// notation for very large or small numbers.
#[must_use]
pub fn format_value(x: f64) -> String {
    let size = x.abs();
    if size == 0.0 || !x.is_finite() {
        return if x.is_finite() { "0.000".into() } else { "–".into() };
    }
    if !(1e-3..1e6).contains(&size) {
        return format!("{x:.2e}");
    }
    let digits = if size < 10.0 { 3 } else { (3 - size.log10().floor() as i32).max(0) };
    format!("{x:.*}", digits as usize)
}

impl NumberScores {
    /// Compares predictions with the true numbers; `estimates` are given if predictions have intervals.
    pub fn of(
        truth: &[f64],
        predicted: &[f64],
        estimates: Option<&[Estimate]>,
        discretizer: &NumberDiscretizer,
        seed: u64,
    ) -> NumberScores {
        let n = truth.len().max(1) as f64;
        let errors: Vec<f64> = truth.iter().zip(predicted).map(|(y, p)| (p - y).abs()).collect();
        let squares: f64 = errors.iter().map(|e| e * e).sum();
        let mean = truth.iter().sum::<f64>() / n;
        let around: f64 = truth.iter().map(|y| (y - mean) * (y - mean)).sum();
        let share = |estimates: &[Estimate]| {
            let holds = |(e, y): &(&Estimate, &f64)| e.low <= **y && **y <= e.high;
            estimates.iter().zip(truth).filter(holds).count() as f64 / n
        };
        let levels = if discretizer.has_levels() { level_scores(truth, predicted, discretizer) } else { Vec::new() };
        let right: f64 = levels.iter().filter_map(|level| level.exact.map(|exact| exact * level.rows as f64)).sum();
        let at_levels = levels.iter().map(|level| level.rows).sum::<usize>();
        NumberScores {
            rows: truth.len(),
            mean_absolute_error: errors.iter().sum::<f64>() / n,
            mean_absolute_error_interval: error_interval(&errors, seed),
            root_mean_squared_error: (squares / n).sqrt(),
            r2: if around > 0.0 { 1.0 - squares / around } else { 0.0 },
            pearson: pearson(truth, predicted),
            spearman: pearson(&ranks(truth), &ranks(predicted)),
            coverage: estimates.map(share),
            mean_width: estimates.map(|all| all.iter().map(|e| e.high - e.low).sum::<f64>() / n),
            exact: (at_levels > 0).then(|| right / at_levels as f64),
            elsewhere: if levels.is_empty() { 0 } else { truth.len() - at_levels },
            levels,
        }
    }

    /// Returns a warning to show before the scores, if there is one.
    pub fn warning(&self) -> Option<String> {
        super::few_rows_warning(self.rows)
    }

    /// Returns the smallest and the largest level.
    pub fn level_range(&self) -> [f64; 2] {
        [self.levels.first(), self.levels.last()].map(|level| level.map_or(0.0, |level| level.level))
    }

    /// Returns the main scores with their names in the language of the process.
    pub fn named_figures(&self) -> [(&'static str, f64); 4] {
        let name = |en, ja| lang().pick(en, ja);
        [
            (name("error", "絶対誤差"), self.mean_absolute_error),
            (name("RMSE", "RMSE"), self.root_mean_squared_error),
            (name("R²", "R²"), self.r2),
            (name("Spearman", "順位相関"), self.spearman),
        ]
    }
}

fn level_scores(truth: &[f64], predicted: &[f64], discretizer: &NumberDiscretizer) -> Vec<LevelScore> {
    let of_level = |(bin, &level): (usize, &f64)| {
        let of: Vec<f64> = truth.iter().zip(predicted).filter(|(y, _)| **y == level).map(|(_, &p)| p).collect();
        let mean = |of_row: &dyn Fn(f64) -> f64| {
            (!of.is_empty()).then(|| of.iter().map(|&p| of_row(p)).sum::<f64>() / of.len() as f64)
        };
        LevelScore {
            level,
            rows: of.len(),
            mean_prediction: mean(&|p| p),
            mean_absolute_error: mean(&|p| (p - level).abs()),
            exact: mean(&|p| f64::from(u8::from(discretizer.nearest_level(p) == bin))),
        }
    };
    discretizer.values.iter().enumerate().map(of_level).collect()
}

/// Pearson's r; 0 if one of the two is constant.
pub(crate) fn pearson(a: &[f64], b: &[f64]) -> f64 {
    let n = a.len().max(1) as f64;
    let mean = |x: &[f64]| x.iter().sum::<f64>() / n;
    let (of_a, of_b) = (mean(a), mean(b));
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (x, y) in a.iter().zip(b) {
        let (x, y) = (x - of_a, y - of_b);
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    let product = aa.sqrt() * bb.sqrt();
    if product > 0.0 { (ab / product).clamp(-1.0, 1.0) } else { 0.0 }
}

/// Returns the rank of each number from 0; equal numbers share their mean rank.
fn ranks(numbers: &[f64]) -> Vec<f64> {
    let order = sorting::argsort_by(numbers.len(), &|a, b| numbers[a].total_cmp(&numbers[b]));
    let mut ranks = vec![0.0; numbers.len()];
    let mut at = 0;
    for run in order.chunk_by(|&a, &b| numbers[a] == numbers[b]) {
        let rank = at as f64 + (run.len() - 1) as f64 / 2.0;
        run.iter().for_each(|&i| ranks[i] = rank);
        at += run.len();
    }
    ranks
}

/// The 95 % bootstrap interval of the mean over rows.
fn error_interval(errors: &[f64], seed: u64) -> [f64; 2] {
    if errors.is_empty() {
        return [0.0; 2];
    }
    let mean =
        |random: &Philox| drawn_rows(random, errors.len()).map(|row| errors[row]).sum::<f64>() / errors.len() as f64;
    bootstrap_interval(seed, mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_match_their_definitions() {
        let truth = [1.0, 2.0, 3.0, 4.0, 4.0];
        let predicted = [1.5, 1.0, 3.25, 4.0, 5.0];
        let discretizer = NumberDiscretizer::fit(&truth);
        let estimate = |p: f64, half: f64| Estimate { score: p, low: p - half, high: p + half };
        let estimates = [0.5, 0.5, 0.5, 0.0, 2.0];
        let estimates: Vec<Estimate> = predicted.iter().zip(estimates).map(|(&p, half)| estimate(p, half)).collect();
        let found = NumberScores::of(&truth, &predicted, Some(&estimates), &discretizer, 1);
        assert!((found.mean_absolute_error - 0.55).abs() < 1e-12);
        assert!((found.root_mean_squared_error - (2.3125f64 / 5.0).sqrt()).abs() < 1e-12);
        assert!((found.r2 - (1.0 - 2.3125 / 6.8)).abs() < 1e-12);
        // Reference values from numpy and scipy.
        assert!((found.pearson - 0.906_929_337).abs() < 1e-9, "{}", found.pearson);
        assert!((found.spearman - 0.872_081_599).abs() < 1e-9, "{}", found.spearman);
        assert_eq!((found.coverage, found.exact), (Some(0.8), Some(0.8)));
        assert!((found.mean_width.unwrap() - 1.4).abs() < 1e-12);
        let [low, high] = found.mean_absolute_error_interval;
        assert!(low < 0.55 && 0.55 < high, "{low} {high}");
        assert_eq!(found.levels.iter().map(|level| level.rows).collect::<Vec<_>>(), [1, 1, 1, 2]);
        assert_eq!((found.levels[3].mean_prediction, found.levels[3].mean_absolute_error), (Some(4.5), Some(0.5)));
    }

    #[test]
    fn scores_are_formatted_briefly() {
        let cases = [
            (0.7365, "0.737"),
            (-0.002, "-0.002"),
            (540.02, "540.0"),
            (1.5e-6, "1.50e-6"),
            (5.27e8, "5.27e8"),
            (0.0, "0.000"),
        ];
        cases.iter().for_each(|(x, expected)| assert_eq!(format_value(*x), *expected));
    }

    #[test]
    fn empty_and_constant_rows_give_finite_scores() {
        let discretizer = NumberDiscretizer::fit(&[1.0, 2.0]);
        let none = NumberScores::of(&[], &[], Some(&[]), &discretizer, 1);
        assert_eq!((none.mean_absolute_error, none.r2, none.pearson, none.coverage), (0.0, 0.0, 0.0, Some(0.0)));
        // A number that is not a level belongs to none.
        let odd = NumberScores::of(&[2.5, 1.0], &[2.0, 1.0], None, &discretizer, 1);
        assert_eq!((odd.elsewhere, odd.levels[0].rows, odd.levels[1].rows, odd.levels[1].exact), (1, 1, 0, None));
        let constant = NumberScores::of(&[1.0, 1.0], &[2.0, 2.0], None, &discretizer, 1);
        assert_eq!((constant.r2, constant.spearman, constant.coverage), (0.0, 0.0, None));
    }
}
