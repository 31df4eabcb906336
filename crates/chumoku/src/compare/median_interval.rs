//! Distribution-free confidence intervals of the median of repeated measurements.

use serde::Serialize;

/// A median with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MedianInterval {
    /// Lower limit of the true median.
    pub low: f64,
    /// The sample median.
    pub median: f64,
    /// Upper limit of the true median.
    pub high: f64,
}

impl MedianInterval {
    /// Computes the interval from independent measurements. It misses the true median with probability `level` at most.
    /// Its limits are two of the measurements, from the binomial distribution of the number below the median (Hahn and
    /// Meeker 1991, section 5.2).
    ///
    /// The limits are infinite if there are too few measurements.
    pub(crate) fn from_samples(mut values: Vec<f64>, level: f64) -> MedianInterval {
        values.sort_by(f64::total_cmp);
        let n = values.len();
        let median = match n {
            0 => f64::NAN,
            _ => 0.5 * (values[(n - 1) / 2] + values[n / 2]),
        };
        // Leave out as many on each side as the level allows: twice the chance that this many or fewer lie below the
        // median.
        let (mut left_out, mut chance, mut term) = (0, 0.0, 0.5f64.powi(n as i32));
        while left_out < n.div_ceil(2) && 2.0 * (chance + term) <= level {
            chance += term;
            term *= (n - left_out) as f64 / (left_out + 1) as f64;
            left_out += 1;
        }
        match left_out.checked_sub(1) {
            None => MedianInterval { low: f64::NEG_INFINITY, median, high: f64::INFINITY },
            Some(k) => MedianInterval { low: values[k], median, high: values[n - 1 - k] },
        }
    }

    /// Returns whether the true median is above (`true`) or below (`false`) a value; `None` if neither is certain.
    pub(super) fn is_above(&self, value: f64) -> Option<bool> {
        match (self.low > value, self.high < value) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chumoku_kernels::Philox;

    #[test]
    fn limits_follow_the_binomial_distribution() {
        let of = |n: usize, level| MedianInterval::from_samples((1..=n).rev().map(|x| x as f64).collect(), level);
        // For 11 values the second and the tenth: twice (1 + 11) / 2048 = 1.2 %; the third would give 6.5 %.
        assert_eq!(of(11, 0.05), MedianInterval { low: 2.0, median: 6.0, high: 10.0 });
        assert_eq!(of(11, 0.07), MedianInterval { low: 3.0, median: 6.0, high: 9.0 });
        assert_eq!(of(6, 0.05), MedianInterval { low: 1.0, median: 3.5, high: 6.0 });
        // Five values decide nothing at 5 %: all lie on one side in 2 of 32 draws.
        assert_eq!((of(5, 0.05).low, of(5, 0.05).high), (f64::NEG_INFINITY, f64::INFINITY));
        assert!(MedianInterval::from_samples(vec![], 0.05).median.is_nan());
        assert_eq!([1.9, 5.0, 10.1].map(|x| of(11, 0.05).is_above(x)), [Some(true), None, Some(false)]);
    }

    #[test]
    fn limits_miss_the_median_at_most_at_the_stated_level() {
        for (n, level) in [(6, 0.05), (11, 0.0125), (11, 0.05), (15, 0.05)] {
            let draws = 4000;
            let misses = (0..draws).filter(|&draw| {
                let random = Philox::new(3, draw);
                // Skewed, as times are: most are near the minimum, a few far above. The median of u² is ¼.
                let values = (0..n).map(|i| f64::from(random.uniform(i)).powi(2)).collect();
                MedianInterval::from_samples(values, level).is_above(0.25).is_some()
            });
            let rate = misses.count() as f64 / draws as f64;
            // The level plus three standard errors.
            assert!(rate <= level + 3.0 * (level / draws as f64).sqrt(), "{n} at {level}: {rate}");
        }
    }
}
