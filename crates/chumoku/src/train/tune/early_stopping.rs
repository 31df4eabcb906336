//! Early stopping of trials whose network is far behind the best one.

use crate::model_folder::LOG;
use serde_json::Value;
use std::path::Path;

/// The accuracies of a run's evaluations, from the first epoch on, and the epoch of the best weights.
struct AccuracyCurve {
    accuracies: Vec<f64>,
    best: usize,
}

impl AccuracyCurve {
    /// Reads the log of a run. Empty if there is none.
    fn read(folder: &Path) -> AccuracyCurve {
        let text = std::fs::read_to_string(folder.join(LOG)).unwrap_or_default();
        let mut course = AccuracyCurve { accuracies: Vec::new(), best: 0 };
        for line in text.lines().filter_map(|line| serde_json::from_slice::<Value>(line.as_bytes()).ok()) {
            if let Some(accuracy) = line["valid_accuracy"].as_f64() {
                course.accuracies.push(accuracy);
                course.best = if line["best"] == true { course.accuracies.len() } else { course.best };
            }
        }
        course
    }

    /// Returns the best accuracy up to an epoch.
    fn best_until(&self, epoch: usize) -> f64 {
        self.accuracies.iter().take(epoch).copied().fold(0.0, f64::max)
    }
}

/// Returns the first epoch after which a run in `folder` is hopelessly behind the run in `rival`. The best accuracies
/// so far must differ by more than two standard errors. `rows` is the number of validation rows. The run has at least
/// half the epochs of the rival's best weights to catch up.
///
/// All epochs of the run are checked, so that a resumed run stops at the same epoch.
pub(super) fn early_stop_epoch(folder: &Path, rival: &Path, rows: usize) -> Option<usize> {
    const ERRORS: f64 = 2.0;
    let [run, rival] = [folder, rival].map(AccuracyCurve::read);
    let is_behind = |epoch: &usize| {
        let best = rival.best_until(*epoch);
        best - run.best_until(*epoch) > ERRORS * (best * (1.0 - best) / rows.max(1) as f64).sqrt()
    };
    (rival.best.div_ceil(2).max(1)..=run.accuracies.len()).find(is_behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(accuracies: &[f64], best: usize) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let line = |(i, accuracy): (usize, &f64)| {
            format!("{{\"step\":{i},\"epoch\":{i},\"valid_accuracy\":{accuracy},\"best\":{}}}\n", i + 1 == best)
        };
        let text: String = accuracies.iter().enumerate().map(line).collect();
        std::fs::write(folder.path().join(LOG), "{\"step\":50,\"epoch\":0,\"loss\":1.0}\n".to_owned() + &text).unwrap();
        folder
    }

    #[test]
    fn only_runs_that_are_far_behind_are_stopped() {
        let rival = run(&[0.5, 0.7, 0.8, 0.8, 0.79, 0.8], 4);
        let after = |accuracies: &[f64]| early_stop_epoch(run(accuracies, 1).path(), rival.path(), 400);
        // Two standard errors at 80 % of 400 rows are four points. Early epochs may lag.
        assert_eq!(after(&[0.2, 0.67, 0.77, 0.77, 0.5, 0.5, 0.5]), None);
        assert_eq!(after(&[0.2, 0.6]), Some(2));
        assert_eq!(after(&[0.5, 0.7, 0.75, 0.9, 0.9]), Some(3));
        assert_eq!(after(&[0.2]), None);
        let none = tempfile::tempdir().unwrap();
        assert_eq!(early_stop_epoch(rival.path(), none.path(), 400), None);
    }
}
