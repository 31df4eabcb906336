//! Significance of an improvement on the validation rows.

/// A comparison of two predictors on the same rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LossComparison {
    /// The mean decrease of the loss from the first to the second.
    pub(super) gain: f64,
    /// The standard error of the gain over rows.
    pub(super) standard_error: f64,
}

/// The minimum gain for listed changes, which often help, in standard errors.
const LISTED_ERRORS: f64 = 1.0;

/// The minimum gain for random changes, in standard errors. There is no end of random changes, and most are worse. Of
/// twenty that differ by chance alone, the luckiest looks better by nearly two standard errors.
const DRAWN_ERRORS: f64 = 2.0;

/// Gains up to this size are never worth other settings: no user would notice them.
const MIN_GAIN: f64 = 1e-4;

impl LossComparison {
    /// Compares losses row by row. Differences between hard and easy rows cancel out.
    pub(super) fn new(first: &[f64], second: &[f64]) -> LossComparison {
        let differences: Vec<f64> = first.iter().zip(second).map(|(a, b)| a - b).collect();
        let rows = differences.len() as f64;
        let gain = differences.iter().sum::<f64>() / rows.max(1.0);
        let squares: f64 = differences.iter().map(|d| (d - gain).powi(2)).sum();
        // A single row gives no estimate.
        let variance = if rows > 1.0 { squares / (rows - 1.0) } else { f64::INFINITY };
        LossComparison { gain, standard_error: (variance / rows.max(1.0)).sqrt() }
    }

    /// Returns `true` if the gain is significant. `is_drawn` is true for random changes.
    pub(super) fn is_clear(&self, is_drawn: bool) -> bool {
        let errors = if is_drawn { DRAWN_ERRORS } else { LISTED_ERRORS };
        self.gain > MIN_GAIN && self.gain > errors * self.standard_error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chumoku_kernels::Philox;

    #[test]
    fn losses_are_compared_row_by_row() {
        // Hard and easy rows, all slightly better: significant, although losses vary far more than they differ.
        let before: Vec<f64> = (0..100).map(|row| f64::from(row % 10)).collect();
        let after: Vec<f64> =
            before.iter().enumerate().map(|(row, loss)| loss - 0.01 - 0.001 * (row % 2) as f64).collect();
        let found = LossComparison::new(&before, &after);
        assert!((found.gain - 0.0105).abs() < 1e-12 && found.standard_error < 1e-4 && found.is_clear(false));
        assert!(!LossComparison::new(&after, &before).is_clear(false));
        assert!(!LossComparison::new(&before, &before).is_clear(false));
        assert!(!LossComparison::new(&[2.0], &[1.0]).is_clear(false) && !LossComparison::new(&[], &[]).is_clear(false));
        // A certain gain that is too small to matter.
        let hardly: Vec<f64> = before.iter().map(|loss| loss - 1e-5).collect();
        assert!(!LossComparison::new(&before, &hardly).is_clear(false));
        // A single row is much better: this may be chance.
        let mut lucky = before.clone();
        (lucky[8], lucky[9]) = (9.0, 0.0);
        let found = LossComparison::new(&before, &lucky);
        assert!(found.gain > 0.05 && !found.is_clear(false), "{found:?}");
    }

    #[test]
    fn worse_settings_are_rarely_accepted() {
        let taken = |truth: f64| {
            let is_taken = |draw: &u64, is_drawn: bool| {
                let random = Philox::new(3, *draw);
                let before = vec![0.5; 400];
                let after: Vec<f64> = (0..400).map(|row| 0.5 - truth - 0.2 * f64::from(random.normal(row))).collect();
                LossComparison::new(&before, &after).is_clear(is_drawn)
            };
            [false, true].map(|drawn| (0..2000).filter(|draw| is_taken(draw, drawn)).count() as f64 / 2000.0)
        };
        // Worse by one standard error (0.01), equal, and better by three.
        let [worse, equal, better] = [-0.01, 0.0, 0.03].map(taken);
        assert!(
            worse[0] < 0.04 && (0.12..0.20).contains(&equal[0]) && better[0] > 0.95,
            "{worse:?} {equal:?} {better:?}"
        );
        assert!(
            worse[1] < 0.005 && (0.01..0.04).contains(&equal[1]) && better[1] > 0.75,
            "{worse:?} {equal:?} {better:?}"
        );
    }
}
