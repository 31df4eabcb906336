//! Whether settings are better than others, by the validation rows.

/// What a comparison of two predictors on the same rows says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LossComparison {
    /// By how much the mean loss of the second is below that of the first.
    pub(super) gain: f64,
    /// The standard error of this, as rows go.
    pub(super) standard_error: f64,
}

/// Standard errors by which settings of the list, whose changes often help, must be better than the best before.
const LISTED_ERRORS: f64 = 1.0;

/// The same of settings that were drawn. There is no end of them, most are worse, and of twenty that differ by nothing but chance
/// the luckiest looks better by nearly two standard errors.
const DRAWN_ERRORS: f64 = 2.0;

/// A gain that is not worth another setting, however sure it is: nobody would see it.
const MIN_GAIN: f64 = 1e-4;

impl LossComparison {
    /// Compares the losses of the same rows, row by row: what makes a row hard is hard for both, and falls out.
    pub(super) fn new(first: &[f64], second: &[f64]) -> LossComparison {
        let differences: Vec<f64> = first.iter().zip(second).map(|(a, b)| a - b).collect();
        let rows = differences.len() as f64;
        let gain = differences.iter().sum::<f64>() / rows.max(1.0);
        let squares: f64 = differences.iter().map(|d| (d - gain).powi(2)).sum();
        // Of a single row nothing is known.
        let variance = if rows > 1.0 { squares / (rows - 1.0) } else { f64::INFINITY };
        LossComparison { gain, standard_error: (variance / rows.max(1.0)).sqrt() }
    }

    /// Whether the second is to be taken, which was drawn at random or is of the list.
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
    fn rows_are_compared_one_by_one() {
        // Hard and easy rows, each better by a little: no doubt, though losses vary far more than they differ.
        let before: Vec<f64> = (0..100).map(|row| f64::from(row % 10)).collect();
        let after: Vec<f64> =
            before.iter().enumerate().map(|(row, loss)| loss - 0.01 - 0.001 * (row % 2) as f64).collect();
        let found = LossComparison::new(&before, &after);
        assert!((found.gain - 0.0105).abs() < 1e-12 && found.standard_error < 1e-4 && found.is_clear(false));
        assert!(!LossComparison::new(&after, &before).is_clear(false));
        assert!(!LossComparison::new(&before, &before).is_clear(false));
        assert!(!LossComparison::new(&[2.0], &[1.0]).is_clear(false) && !LossComparison::new(&[], &[]).is_clear(false));
        // A gain that is sure and cannot be seen.
        let hardly: Vec<f64> = before.iter().map(|loss| loss - 1e-5).collect();
        assert!(!LossComparison::new(&before, &hardly).is_clear(false));
        // One row is much better, and nothing else: that is chance.
        let mut lucky = before.clone();
        (lucky[8], lucky[9]) = (9.0, 0.0);
        let found = LossComparison::new(&before, &lucky);
        assert!(found.gain > 0.05 && !found.is_clear(false), "{found:?}");
    }

    #[test]
    fn settings_that_are_worse_are_hardly_ever_taken() {
        let taken = |truth: f64| {
            let is_taken = |draw: &u64, is_drawn: bool| {
                let random = Philox::new(3, *draw);
                let before = vec![0.5; 400];
                let after: Vec<f64> = (0..400).map(|row| 0.5 - truth - 0.2 * f64::from(random.normal(row))).collect();
                LossComparison::new(&before, &after).is_clear(is_drawn)
            };
            [false, true].map(|drawn| (0..2000).filter(|draw| is_taken(draw, drawn)).count() as f64 / 2000.0)
        };
        // By one standard error (0.01) worse, equal, and by three better.
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
