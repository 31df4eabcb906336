//! Number prediction by ordered binary questions: is the number above each threshold?
//!
//! K thresholds divide a rating or measure into K + 1 bins. Each threshold is a label "> t", which holds for larger
//! numbers. See Frank and Hall, "A simple approach to ordinal classification", 2001, and for measures, distribution
//! regression by Foresi and Peracchi 1995. The probabilities P(y > t) determine the distribution of the number, and
//! thus its center and spread. The prediction interval is conformal: its width is calibrated on held-out rows.

use crate::blend::binary_blend::BinaryBlend;
use crate::ngram::NgramTarget;
use crate::{sorting, tr};
use serde::{Deserialize, Serialize};

/// A number, and the thresholds below it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NumberLabel {
    /// The number.
    pub number: f64,
    /// Indices of the thresholds below it, ascending.
    pub above: Vec<u32>,
}

impl NgramTarget for NumberLabel {
    const IS_SET: bool = true;

    fn label_ids(&self) -> &[u32] {
        &self.above
    }

    fn regression_value(&self) -> Option<f64> {
        Some(self.number)
    }
}

/// Thresholds, and the distribution of training numbers between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NumberDiscretizer {
    /// The thresholds t₁ < … < t_K.
    pub thresholds: Vec<f64>,
    /// The mean of the training numbers in each of the K + 1 bins.
    pub values: Vec<f64>,
    /// The variance of the training numbers in each bin.
    pub(crate) variances: Vec<f64>,
    /// The smallest and largest training number.
    pub range: [f64; 2],
}

/// The largest number of distinct values for which each gets its own bin.
const MAX_LEVELS: usize = 24;
/// The number of bins otherwise, with equally many rows each.
const MAX_BINS: usize = 20;

impl NumberDiscretizer {
    /// Fits the bins to numbers with at least two distinct values.
    pub fn fit(numbers: &[f64]) -> NumberDiscretizer {
        let mut sorted = numbers.to_vec();
        sorted.sort_by(f64::total_cmp);
        let mut different = sorted.clone();
        different.dedup();
        let thresholds: Vec<f64> = match different.len() <= MAX_LEVELS {
            true => different.windows(2).map(|pair| short_decimal_between(pair[0], pair[1])).collect(),
            false => {
                let cut = |bin: usize| {
                    let at = sorted[(bin * sorted.len() / MAX_BINS).min(sorted.len() - 1)];
                    let next = different.partition_point(|&x| x <= at);
                    different.get(next).map(|&next| short_decimal_between(at, next))
                };
                let mut cuts: Vec<f64> = (1..MAX_BINS).filter_map(cut).collect();
                cuts.dedup();
                cuts
            }
        };
        let mut discretizer = NumberDiscretizer { thresholds, ..NumberDiscretizer::default() };
        let mut bins = vec![Vec::new(); discretizer.thresholds.len() + 1];
        sorted.iter().for_each(|&x| bins[discretizer.bin(x)].push(x));
        // For equal numbers, use the number itself: a sum of many is not exact.
        let mean = |bin: &Vec<f64>| match (bin.first(), bin.last()) {
            (Some(first), Some(last)) if first < last => bin.iter().sum::<f64>() / bin.len() as f64,
            (first, _) => first.copied().unwrap_or_default(),
        };
        discretizer.values = bins.iter().map(mean).collect();
        let variance = |(bin, mean): (&Vec<f64>, &f64)| {
            bin.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / bin.len().max(1) as f64
        };
        discretizer.variances = bins.iter().zip(&discretizer.values).map(variance).collect();
        discretizer.range = [sorted.first(), sorted.last()].map(|x| x.copied().unwrap_or_default());
        discretizer
    }

    /// Returns the bin of a number, which is the number of thresholds below it.
    pub fn bin(&self, number: f64) -> usize {
        self.thresholds.partition_point(|&t| t < number)
    }

    /// Returns a number as a label for all threshold questions.
    pub fn label(&self, number: f64) -> NumberLabel {
        NumberLabel { number, above: (0..self.bin(number) as u32).collect() }
    }

    /// Returns the labels of the thresholds, such as "> 2.5".
    pub fn threshold_labels(&self) -> Vec<String> {
        self.thresholds.iter().map(|t| format!("> {t}")).collect()
    }

    /// Returns `true` if each bin holds only one distinct number, as for a rating.
    pub fn has_levels(&self) -> bool {
        self.variances.iter().all(|&variance| variance == 0.0)
    }

    /// Returns the index of the level nearest to a number.
    pub(crate) fn nearest_level(&self, number: f64) -> usize {
        let distance = |bin: &usize| (self.values[*bin] - number).abs();
        (0..self.values.len()).min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or_default()
    }

    /// Returns `true` if the level nearest to the predicted number is the true one.
    pub(crate) fn is_nearest_level(&self, predicted: f64, truth: f64) -> bool {
        self.values.get(self.nearest_level(predicted)) == Some(&truth)
    }

    /// Returns bin probabilities, from the probabilities of exceeding each threshold.
    fn bin_probabilities(&self, above: &[f32]) -> Vec<f64> {
        let mut falling = above.to_vec();
        rearrange(&mut falling);
        let falling: Vec<f64> = falling.into_iter().map(f64::from).collect();
        let upper = falling.iter().copied().chain([0.0]);
        [1.0].into_iter().chain(falling.iter().copied()).zip(upper).map(|(p, q)| p - q).collect()
    }

    /// The mean and standard deviation of the number.
    fn mean_and_deviation(&self, bins: &[f64]) -> [f64; 2] {
        let mean: f64 = bins.iter().zip(&self.values).map(|(p, v)| p * v).sum();
        let of_bin = |((p, v), w): ((&f64, &f64), &f64)| p * (w + (v - mean) * (v - mean));
        let variance: f64 = bins.iter().zip(&self.values).zip(&self.variances).map(of_bin).sum();
        [mean, variance.max(0.0).sqrt()]
    }

    /// The mid-quantile at one half (Ma, Genton and Parzen, "Asymptotic properties of sample quantiles of discrete
    /// distributions", 2011). It interpolates between the points (value, probability below the value plus half the
    /// probability at the value). For many bins, it equals the median. For few bins, it changes continuously with the
    /// probabilities instead of jumping.
    fn median(&self, bins: &[f64]) -> f64 {
        let mut below = 0.0;
        let mut last: Option<[f64; 2]> = None;
        for (&p, &value) in bins.iter().zip(&self.values) {
            let mid = below + 0.5 * p;
            if mid >= 0.5 {
                let Some([x, y]) = last.filter(|[_, y]| *y < mid) else { return value };
                return x + (value - x) * (0.5 - y) / (mid - y);
            }
            below += p;
            last = Some([value, mid]);
        }
        self.values.last().copied().unwrap_or_default()
    }

    /// Checks that thresholds, values and variances are consistent.
    fn check(&self) -> Result<(), String> {
        let NumberDiscretizer { thresholds, values, variances, range } = self;
        let rises = |numbers: &[f64]| numbers.windows(2).all(|pair| pair[0] < pair[1]);
        let finite = [&thresholds[..], values, variances, range].iter().all(|all| all.iter().all(|x| x.is_finite()));
        let fits = values.len() == thresholds.len() + 1 && variances.len() == values.len();
        if fits && finite && rises(thresholds) && rises(values) && variances.iter().all(|&v| v >= 0.0) {
            return Ok(());
        }
        Err(tr!(
            "problem: expected finite ascending thresholds, and one more ascending value and variance than thresholds; found \
             {} thresholds, {} values and {} variances",
            "problem: 小さい順の有限の thresholds と、それより 1 つ多い values と variances が必要ですが、それぞれ {} 個、{} 個、{} 個\
             です",
            thresholds.len(),
            values.len(),
            variances.len()
        ))
    }
}

/// Sorts the probabilities of exceeding rising thresholds in descending order.
///
/// A number above a threshold is above all lower ones, but separately predicted probabilities may contradict this.
/// Rearrangement into descending order never makes the estimate worse (Chernozhukov, Fernández-Val and Galichon 2010).
pub(crate) fn rearrange(above: &mut [f32]) {
    sorting::sort_by(above, |a, b| b.total_cmp(a));
}

/// Returns the shortest decimal in the middle half between two numbers.
fn short_decimal_between(low: f64, high: f64) -> f64 {
    let middle = low + 0.5 * (high - low);
    let quarter = 0.25 * (high - low);
    let rounded = |digits: i32| {
        let unit = 10f64.powi(-digits);
        // Division by a power of ten gives the double nearest to the decimal. Multiplication by a fraction might not.
        if digits > 0 {
            (middle * 10f64.powi(digits)).round() / 10f64.powi(digits)
        } else {
            (middle / unit).round() * unit
        }
    };
    (-15..16).map(rounded).find(|x| *x >= low + quarter && *x <= high - quarter && *x < high).unwrap_or(low)
}

/// Combines both ensemble members into a predicted number with an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NumberBlend {
    /// The thresholds and bin values.
    #[serde(flatten)]
    pub discretizer: NumberDiscretizer,
    /// Calibrated probabilities of exceeding each threshold.
    pub blend: BinaryBlend,
    /// The half-width of the 90 % interval, in units of the predicted standard deviation plus `floor`. `None` if there
    /// were too few held-out rows, in which case the interval is the whole range.
    pub(crate) margin: Option<f64>,
    /// The constant that is added to the predicted standard deviation, which may be 0.
    pub(crate) floor: f64,
}

/// A predicted number with its 90 % prediction interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Estimate {
    /// The predicted number.
    pub score: f64,
    /// The lower end of the interval.
    pub(crate) low: f64,
    /// The upper end of the interval.
    pub(crate) high: f64,
}

impl Estimate {
    /// Returns the number and the ends of the interval, rounded to three significant digits of the interval's width.
    #[must_use]
    pub fn rounded(self) -> [f64; 3] {
        let digits = 2 - (self.high - self.low).max(1e-300).log10().floor() as i32;
        let unit = 10f64.powi(digits.clamp(-12, 12).abs());
        let of = |x: f64| if digits < 0 { (x / unit).round() * unit } else { (x * unit).round() / unit };
        // Avoid negative zero.
        [self.score, self.low, self.high].map(|x| of(x) + 0.0)
    }
}

/// The target coverage of the intervals.
pub(crate) const COVERAGE: f64 = 0.9;
/// The floor as a share of the standard deviation of the values.
const SPREAD_FLOOR: f64 = 0.1;
/// The number of cross-validation folds of the validation rows.
const FOLDS: usize = 5;

impl NumberBlend {
    /// Uses the network alone, without scaling.
    pub fn network_only(discretizer: NumberDiscretizer) -> NumberBlend {
        let blend = BinaryBlend::network_only(discretizer.thresholds.len());
        NumberBlend { discretizer, blend, margin: None, floor: 0.0 }
    }

    /// Fits the blend and the margin on rows of log-odds with their numbers. The margin is chosen by cross-conformal
    /// prediction (Vovk 2015). Residuals are divided by the predicted spread (Lei et al., "Distribution-free predictive
    /// inference for regression", 2018). Each fifth of the rows is evaluated by a blend of the other four. With empty
    /// `ngrams`, uses only one member. Row weights apply to the blend, not to the margin.
    ///
    /// Also returns, for each row, the confidence in the nearest level and whether it is right, from a blend of the other
    /// rows.
    pub fn fit(
        discretizer: &NumberDiscretizer,
        network: &[Vec<f32>],
        ngrams: &[Vec<f32>],
        (truth, weights): (&[NumberLabel], Option<&[f32]>),
    ) -> (NumberBlend, Vec<(f32, bool)>) {
        let spread = discretizer
            .mean_and_deviation(&vec![1.0 / discretizer.values.len().max(1) as f64; discretizer.values.len()])[1];
        let floor = SPREAD_FLOOR * spread;
        let labels = discretizer.thresholds.len();
        let of_rows = |is_in: &dyn Fn(usize) -> bool| {
            let rows: Vec<usize> = (0..truth.len()).filter(|&row| is_in(row)).collect();
            let pick = |all: &[Vec<f32>]| rows.iter().filter_map(|&row| all.get(row).cloned()).collect::<Vec<_>>();
            let sets: Vec<Vec<u32>> = rows.iter().map(|&row| truth[row].above.clone()).collect();
            let weights: Option<Vec<f32>> = weights.map(|weights| rows.iter().map(|&row| weights[row]).collect());
            let blend = BinaryBlend::fit(&pick(network), &pick(ngrams), &sets, weights.as_deref(), labels);
            // Label thresholds do not matter for numbers.
            let blend = BinaryBlend { thresholds: vec![0.5; labels], ..blend };
            NumberBlend { discretizer: discretizer.clone(), blend, margin: None, floor }
        };
        let (mut residuals, mut sure) = (Vec::with_capacity(truth.len()), Vec::with_capacity(truth.len()));
        for part in 0..FOLDS {
            let others = of_rows(&|row| row % FOLDS != part);
            for row in (part..truth.len()).step_by(FOLDS) {
                let above = others.blend.probabilities(&network[row], ngrams.get(row).map(Vec::as_slice));
                let [score, spread] = others.center_and_spread(&above);
                residuals.push((truth[row].number - score).abs() / spread.max(f64::MIN_POSITIVE));
                sure.push((others.confidence(&above), discretizer.is_nearest_level(score, truth[row].number)));
            }
        }
        (NumberBlend { margin: conformal_margin(residuals), ..of_rows(&|_| true) }, sure)
    }

    /// Converts a blend fitted on n-gram log-odds alone.
    pub(crate) fn into_ngrams_only(self) -> NumberBlend {
        NumberBlend { blend: self.blend.into_ngrams_only(), ..self }
    }

    /// The confidence in the level nearest to the predicted number: the probability of its bin.
    pub(crate) fn confidence(&self, above: &[f32]) -> f32 {
        let [score, _] = self.center_and_spread(above);
        self.discretizer.bin_probabilities(above)[self.discretizer.nearest_level(score)] as f32
    }

    /// Returns the predicted number, and the spread that scales its interval.
    fn center_and_spread(&self, above: &[f32]) -> [f64; 2] {
        let bins = self.discretizer.bin_probabilities(above);
        let [_, deviation] = self.discretizer.mean_and_deviation(&bins);
        [self.discretizer.median(&bins), deviation + self.floor]
    }

    /// Returns the number and its interval, from the probabilities of exceeding each threshold.
    pub fn estimate(&self, above: &[f32]) -> Estimate {
        let [score, spread] = self.center_and_spread(above);
        let [least, most] = self.discretizer.range;
        let half = self.margin.map_or(f64::INFINITY, |margin| margin * spread);
        Estimate { score, low: (score - half).max(least).min(score), high: (score + half).min(most).max(score) }
    }

    /// Checks the values for this number of labels.
    pub(crate) fn check(&self, labels: usize) -> Result<(), String> {
        self.discretizer.check()?;
        self.blend.check(labels)?;
        if self.discretizer.thresholds.len() != labels {
            return Err(tr!(
                "problem: expected {labels} thresholds, one for each label, found {}",
                "problem: ラベルと同じ {labels} 個の thresholds が必要ですが、{} 個です",
                self.discretizer.thresholds.len()
            ));
        }
        let numbers = [self.floor, self.margin.unwrap_or_default()];
        match numbers.iter().all(|x| x.is_finite() && *x >= 0.0) {
            true => Ok(()),
            false => Err(tr!(
                "problem: expected a margin and a floor of at least 0, found {numbers:?}",
                "problem: 0 以上の margin と floor が必要ですが、{numbers:?} です"
            )),
        }
    }
}

/// Returns the ⌈(n + 1) · 90 %⌉-th smallest residual, if there are enough. A new residual is no larger with a
/// probability of at least 90 %.
fn conformal_margin(mut residuals: Vec<f64>) -> Option<f64> {
    residuals.sort_by(f64::total_cmp);
    let rank = ((residuals.len() + 1) as f64 * COVERAGE).ceil() as usize;
    residuals.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use chumoku_kernels::Philox;

    #[test]
    fn few_numbers_are_levels_and_many_share_bins_of_equal_size() {
        let stars: Vec<f64> = (0..100).map(|i| f64::from(i % 5 + 1)).collect();
        let discretizer = NumberDiscretizer::fit(&stars);
        assert_eq!(
            (&discretizer.thresholds[..], &discretizer.values[..]),
            (&[1.5, 2.5, 3.5, 4.5][..], &[1.0, 2.0, 3.0, 4.0, 5.0][..])
        );
        assert!(discretizer.has_levels() && discretizer.range == [1.0, 5.0]);
        assert_eq!(discretizer.threshold_labels()[0], "> 1.5");
        assert_eq!(discretizer.label(3.0).above, [0, 1]);
        assert_eq!((discretizer.nearest_level(2.4), discretizer.nearest_level(9.0)), (1, 4));

        let prices: Vec<f64> = (0..1000).map(|i| f64::from(i * i) * 0.01).collect();
        let discretizer = NumberDiscretizer::fit(&prices);
        assert_eq!((discretizer.values.len(), discretizer.has_levels()), (MAX_BINS, false));
        let mut rows = vec![0; MAX_BINS];
        prices.iter().for_each(|&x| rows[discretizer.bin(x)] += 1);
        assert!(rows.iter().all(|n| (49..=51).contains(n)), "{rows:?}");
        discretizer.check().unwrap();
        // Decimals are levels too, even if no sum of equal ones is exact.
        let tenths: Vec<f64> = (0..3000).map(|i| f64::from(i % 3 + 1) / 10.0).collect();
        let discretizer = NumberDiscretizer::fit(&tenths);
        assert!(discretizer.has_levels() && discretizer.values == [0.1, 0.2, 0.3], "{discretizer:?}");
        // A number shared by nearly all rows is a bin, and no bin is empty.
        let mut zeros = vec![0.0; 900];
        zeros.extend((1..=100).map(f64::from));
        let discretizer = NumberDiscretizer::fit(&zeros);
        assert!(discretizer.thresholds[0] > 0.0 && discretizer.values[0] == 0.0, "{discretizer:?}");
        discretizer.check().unwrap();
    }

    #[test]
    fn thresholds_are_short_and_lie_between_the_numbers() {
        for (low, high, expected) in [(1.0, 2.0, 1.5), (3.1, 3.2, 3.15), (0.0, 1000.0, 500.0), (-2.0, -1.0, -1.5)] {
            assert_eq!(short_decimal_between(low, high), expected, "{low} {high}");
        }
        for (low, high) in [(1.0, 1.0 + f64::EPSILON), (1e99, 2e99), (-1e-300, 1e-300), (0.1, 0.1 + 1e-12)] {
            let found = short_decimal_between(low, high);
            assert!(low <= found && found < high, "{low} {high} {found}");
        }
    }

    #[test]
    fn centers_follow_from_the_distribution() {
        let discretizer = NumberDiscretizer::fit(&[1.0, 2.0, 3.0]);
        // All probability at 2, or half on each side.
        let bins = discretizer.bin_probabilities(&[1.0, 0.0]);
        assert_eq!(
            (&bins[..], discretizer.mean_and_deviation(&bins), discretizer.median(&bins)),
            (&[0.0, 1.0, 0.0][..], [2.0, 0.0], 2.0)
        );
        let bins = discretizer.bin_probabilities(&[0.5, 0.5]);
        let [mean, deviation] = discretizer.mean_and_deviation(&bins);
        assert_eq!((mean, discretizer.median(&bins)), (2.0, 2.0));
        assert!((deviation - 1.0).abs() < 1e-12);
        // Contradictory probabilities are rearranged.
        assert_eq!(discretizer.bin_probabilities(&[0.2, 0.6]), discretizer.bin_probabilities(&[0.6, 0.2]));
        // The center rises with each probability.
        let medians: Vec<f64> =
            (0..=20).map(|i| discretizer.median(&discretizer.bin_probabilities(&[i as f32 / 20.0, 0.0]))).collect();
        assert!(medians.is_sorted() && medians[0] == 1.0 && medians[20] == 2.0 && medians[9] < medians[10]);
    }

    /// Log-odds for a number that is `z` plus noise, with the number.
    fn rows(discretizer: &NumberDiscretizer, n: usize, stream: u64) -> (Vec<Vec<f32>>, Vec<NumberLabel>) {
        let random = Philox::new(1, stream);
        let row = |i: usize| {
            let z = 2.0 * random.normal(2 * i as u64) + 3.0;
            let number = f64::from(z + random.normal(2 * i as u64 + 1)).round().clamp(1.0, 5.0);
            // The logistic distribution nearest to this normal distribution.
            (discretizer.thresholds.iter().map(|&t| 1.7 * (z - t as f32)).collect(), discretizer.label(number))
        };
        (0..n).map(row).unzip()
    }

    #[test]
    fn intervals_reach_their_coverage() {
        let discretizer = NumberDiscretizer::fit(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        let (z, truth) = rows(&discretizer, 1000, 1);
        let blend = NumberBlend::fit(&discretizer, &z, &[], (&truth, None)).0;
        blend.check(4).unwrap();
        let (z, truth) = rows(&discretizer, 10_000, 2);
        let estimates: Vec<Estimate> = z.iter().map(|z| blend.estimate(&blend.blend.probabilities(z, None))).collect();
        let held = estimates.iter().zip(&truth).filter(|(e, y)| e.low <= y.number && y.number <= e.high).count();
        assert!((8_800..=9_300).contains(&held), "{held}");
        for Estimate { score, low, high } in &estimates {
            assert!(1.0 <= *low && low <= score && score <= high && *high <= 5.0, "{low} {score} {high}");
        }
        // Too few rows for a guarantee: the whole range.
        let few = NumberBlend::fit(&discretizer, &z[..8], &[], (&truth[..8], None)).0;
        assert_eq!(few.margin, None);
        let estimate = few.estimate(&few.blend.probabilities(&z[0], None));
        assert_eq!([estimate.low, estimate.high], [1.0, 5.0]);
    }

    /// Answers above a confidence threshold chosen on other rows reach the guaranteed accuracy.
    #[test]
    fn guarantees_hold_for_levels() {
        let discretizer = NumberDiscretizer::fit(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        let (mut kept, mut answered, runs) = (0, 0, 100);
        for run in 0..runs {
            let (z, truth) = rows(&discretizer, 500, 1_000 + run);
            let (blend, sure) = NumberBlend::fit(&discretizer, &z, &[], (&truth, None));
            assert_eq!(
                (sure.len(), blend.margin),
                (500, NumberBlend::fit(&discretizer, &z, &[], (&truth, None)).0.margin)
            );
            let step = crate::AbstentionCalibration::fit(&sure, &[]).threshold_for(0.8).unwrap();
            let (z, truth) = rows(&discretizer, 4_000, 10_000 + run);
            let of_row = |(z, y): (&Vec<f32>, &NumberLabel)| {
                let above = blend.blend.probabilities(z, None);
                let is_right = discretizer.is_nearest_level(blend.estimate(&above).score, y.number);
                (blend.confidence(&above) >= step.confidence).then_some(is_right)
            };
            let outcomes: Vec<bool> = z.iter().zip(&truth).filter_map(of_row).collect();
            answered += outcomes.len();
            kept += u64::from(outcomes.iter().filter(|right| **right).count() as f64 >= 0.8 * outcomes.len() as f64);
        }
        assert!(kept as f64 >= 0.95 * runs as f64, "{kept} of {runs}");
        // Fewer answers than all right ones, and more than none.
        assert!((0.1..0.5).contains(&(answered as f64 / (4_000.0 * runs as f64))), "{answered}");
    }

    #[test]
    fn the_confidence_of_the_nearest_level_is_its_bin_probability() {
        let blend = NumberBlend::network_only(NumberDiscretizer::fit(&[1.0, 2.0, 3.0]));
        // 2 with 0.6, 1 with 0.3 and 3 with 0.1.
        assert!((blend.confidence(&[0.7, 0.1]) - 0.6).abs() < 1e-6);
        assert!(
            blend.discretizer.is_nearest_level(2.4, 2.0)
                && !blend.discretizer.is_nearest_level(2.6, 2.0)
                && !blend.discretizer.is_nearest_level(2.4, 2.4)
        );
    }

    #[test]
    fn rows_are_evaluated_by_a_blend_of_other_rows() {
        let discretizer = NumberDiscretizer::fit(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        let (mut held_out, mut in_sample) = (0.0, 0.0);
        for stream in 0..40 {
            let (z, truth) = rows(&discretizer, 20, 100 + stream);
            let blend = NumberBlend::fit(&discretizer, &z, &[], (&truth, None)).0;
            let residual = |(z, y): (&Vec<f32>, &NumberLabel)| {
                let [score, spread] = blend.center_and_spread(&blend.blend.probabilities(z, None));
                (y.number - score).abs() / spread
            };
            held_out += blend.margin.unwrap();
            in_sample += conformal_margin(z.iter().zip(&truth).map(residual).collect()).unwrap();
        }
        // Rows used in the fit lie nearer to the blend than others do.
        assert!(held_out > 1.03 * in_sample, "{held_out} {in_sample}");
    }

    #[test]
    fn numbers_are_rounded_to_significant_digits() {
        let estimate = |score, low, high| Estimate { score, low, high }.rounded();
        assert_eq!(estimate(2.34567, 1.23456, 3.45678), [2.35, 1.23, 3.46]);
        assert_eq!(estimate(1234.567, 1000.0, 2000.0), [1230.0, 1000.0, 2000.0]);
        assert_eq!(estimate(0.001_234_5, 0.001, 0.002), [0.001_23, 0.001, 0.002]);
        assert_eq!(estimate(1.5, 1.5, 1.5)[0], 1.5);
    }

    #[test]
    fn damaged_discretizers_are_rejected() {
        let good = NumberBlend::network_only(NumberDiscretizer::fit(&[1.0, 2.0, 3.0]));
        good.check(2).unwrap();
        assert!(good.check(3).is_err());
        let broken: [&dyn Fn(&mut NumberBlend); 5] = [
            &|b| b.discretizer.thresholds.swap(0, 1),
            &|b| b.discretizer.values[1] = f64::NAN,
            &|b| b.discretizer.variances.truncate(2),
            &|b| b.margin = Some(-1.0),
            &|b| b.blend.offsets.clear(),
        ];
        for (i, damage) in broken.iter().enumerate() {
            let mut blend = good.clone();
            damage(&mut blend);
            assert!(blend.check(2).is_err(), "{i}");
        }
    }
}
