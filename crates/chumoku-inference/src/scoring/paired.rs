//! Compares two models on the same rows: the difference of their accuracies with an exact interval.

use super::clopper_pearson::clopper_pearson;
use serde::Serialize;

/// Probability that an interval misses the truth.
pub const SIGNIFICANCE_LEVEL: f64 = 0.05;

/// Largest difference of accuracies that count as equal: two points.
pub const EQUIVALENCE_MARGIN: f64 = 0.02;

/// Most rows to recommend.
const MAX_ROWS: usize = 10_000_000;

/// The difference of accuracy between two models on the same rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AccuracyDifference {
    /// Number of rows.
    pub rows: usize,
    /// Number of rows that only the first model gets right.
    pub first_only: usize,
    /// Number of rows that only the second model gets right.
    pub second_only: usize,
}

impl AccuracyDifference {
    /// Compares two models, given whether each row is correct.
    pub fn compare(first: &[bool], second: &[bool]) -> AccuracyDifference {
        let count = |outcome| first.iter().zip(second).filter(|pair| *pair == outcome).count();
        let rows = first.len().min(second.len());
        AccuracyDifference { rows, first_only: count((&true, &false)), second_only: count((&false, &true)) }
    }

    /// Returns the first model's accuracy minus the second's.
    pub fn value(&self) -> f64 {
        (self.first_only as f64 - self.second_only as f64) / self.rows.max(1) as f64
    }

    /// Returns an interval that misses the true difference in at most 5 of 100 samples of rows, for any two models.
    ///
    /// The difference is u · (2 p − 1). Here u is the share of rows on which exactly one model is right, and p the
    /// first model's share of those. Given their number, p has its exact interval (Clopper and Pearson 1934; at p = ½
    /// this is McNemar's exact test). It uses four fifths of the error probability, and the interval of u uses the
    /// rest.
    pub fn interval(&self) -> [f64; 2] {
        if self.rows == 0 {
            return [-1.0, 1.0];
        }
        let apart = self.first_only + self.second_only;
        let shares = clopper_pearson(apart, self.rows, 0.2 * SIGNIFICANCE_LEVEL);
        let leads = clopper_pearson(self.first_only, apart, 0.8 * SIGNIFICANCE_LEVEL).map(|p| 2.0 * p - 1.0);
        let least = shares.map(|u| u * leads[0]).into_iter().fold(1.0, f64::min);
        let most = shares.map(|u| u * leads[1]).into_iter().fold(-1.0, f64::max);
        [least, most]
    }

    /// Estimates how many rows `is_decided` needs if further rows are like these. Returns `None` if even a very large
    /// number does not suffice.
    pub fn rows_until(&self, is_decided: impl Fn(&AccuracyDifference) -> bool) -> Option<usize> {
        let at = |rows: usize| {
            let scaled = |n: usize| (n as f64 * rows as f64 / self.rows.max(1) as f64).round() as usize;
            AccuracyDifference { rows, first_only: scaled(self.first_only), second_only: scaled(self.second_only) }
        };
        let mut rows = self.rows.max(10);
        while rows <= MAX_ROWS {
            if is_decided(&at(rows)) {
                return Some(round_up_two_digits(rows));
            }
            rows += rows.div_ceil(20);
        }
        None
    }
}

/// Rounds up to two significant digits.
fn round_up_two_digits(n: usize) -> usize {
    let unit = 10usize.pow(n.max(1).ilog10().saturating_sub(1));
    n.div_ceil(unit) * unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use chumoku_kernels::Philox;

    #[test]
    fn a_difference_counts_rows_that_only_one_model_gets_right() {
        let found = AccuracyDifference::compare(&[true, true, false, false, true], &[true, false, true, false, false]);
        assert_eq!(found, AccuracyDifference { rows: 5, first_only: 2, second_only: 1 });
        assert!((found.value() - 0.2).abs() < 1e-12);
    }

    #[test]
    fn intervals_narrow_with_more_rows() {
        // The models agree on every row: 20 rows prove little, very many prove much.
        let none = |rows| AccuracyDifference { rows, first_only: 0, second_only: 0 }.interval();
        assert!(none(20)[1] > 0.2 && none(20)[0] == -none(20)[1]);
        assert!(none(100_000)[1] < 1e-4);
        assert_eq!(none(0), [-1.0, 1.0]);
        // As in McNemar's exact test, 0 of 5 is not enough at 4 %, 0 of 6 is.
        let of = |first_only| AccuracyDifference { rows: 100, first_only, second_only: 0 }.interval();
        assert!(of(5)[0] < 0.0 && of(6)[0] > 0.0, "{:?} {:?}", of(5), of(6));
        // 13 of 17 have a p-value of 4.9 %: not enough at 4 %.
        let [low, _] = AccuracyDifference { rows: 100, first_only: 13, second_only: 4 }.interval();
        assert!(low < 0.0, "{low}");
        let [low, high] = AccuracyDifference { rows: 10_000, first_only: 900, second_only: 500 }.interval();
        assert!(low < 0.04 && 0.04 < high && high - low < 0.025, "{low} {high}");
        let [back, forth] = AccuracyDifference { rows: 10_000, first_only: 500, second_only: 900 }.interval();
        assert!((back + high).abs() < 1e-9 && (forth + low).abs() < 1e-9);
    }

    #[test]
    fn the_recommended_number_of_rows_decides() {
        let seen = AccuracyDifference { rows: 100, first_only: 9, second_only: 5 };
        let is_apart = |d: &AccuracyDifference| d.interval()[0] > 0.0;
        assert!(!is_apart(&seen));
        let rows = seen.rows_until(is_apart).unwrap();
        let at = |rows: usize| AccuracyDifference { rows, first_only: rows * 9 / 100, second_only: rows * 5 / 100 };
        assert!(is_apart(&at(rows)) && !is_apart(&at(rows * 8 / 10)), "{rows}");
        assert_eq!(AccuracyDifference { rows: 100, first_only: 5, second_only: 5 }.rows_until(is_apart), None);
        assert_eq!([1, 99, 101, 1234].map(round_up_two_digits), [1, 99, 110, 1300]);
    }

    /// Simulates samples in which the models differ with these shares. Returns the rates of intervals above 0, below 0
    /// and within the margin.
    fn rates(rows: usize, shares: [f64; 2], stream: u64) -> [f64; 3] {
        let (draws, mut found) = (2000, [0; 3]);
        for draw in 0..draws {
            let random = Philox::new(7, (stream << 32) + draw);
            let mut d = AccuracyDifference { rows, first_only: 0, second_only: 0 };
            for row in 0..rows {
                let x = f64::from(random.uniform(row as u64));
                d.first_only += usize::from(x < shares[0]);
                d.second_only += usize::from((shares[0]..shares[0] + shares[1]).contains(&x));
            }
            let [low, high] = d.interval();
            found[0] += usize::from(low > 0.0);
            found[1] += usize::from(high < 0.0);
            found[2] += usize::from(low >= -EQUIVALENCE_MARGIN && high <= EQUIVALENCE_MARGIN);
        }
        found.map(|n| n as f64 / draws as f64)
    }

    #[test]
    fn false_verdicts_are_no_more_frequent_than_the_level() {
        for (i, (rows, share)) in [(20, 0.2), (100, 0.05), (100, 0.2), (400, 0.1)].into_iter().enumerate() {
            // Equal models: a difference is found in at most 5 of 100 samples.
            let [more, less, _] = rates(rows, [share / 2.0; 2], i as u64);
            assert!(more + less <= SIGNIFICANCE_LEVEL, "{rows} rows, {share}: {more} + {less}");
            // Models at the margin: called equal in at most 5 of 100 samples.
            let [_, _, equal] = rates(
                rows,
                [share / 2.0 + EQUIVALENCE_MARGIN / 2.0, share / 2.0 - EQUIVALENCE_MARGIN / 2.0],
                10 + i as u64,
            );
            assert!(equal <= SIGNIFICANCE_LEVEL, "{rows} rows, {share}: {equal}");
        }
        let [_, _, equal] = rates(3000, [0.03, 0.01], 20);
        assert!(equal <= SIGNIFICANCE_LEVEL, "{equal}");
        // Clear cases are decided.
        assert!(rates(3000, [0.01, 0.01], 21)[2] > 0.9);
        assert!(rates(400, [0.15, 0.02], 22)[0] > 0.9);
    }
}
