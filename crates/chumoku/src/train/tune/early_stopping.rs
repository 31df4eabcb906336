//! When a network in training is so far behind the best one that the rest of its epochs is not worth the time.

use crate::model_folder::LOG;
use serde_json::Value;
use std::path::Path;

/// The accuracies of a run's evaluations, the first epoch's first, and the epoch of the best weights.
struct AccuracyCurve {
    accuracies: Vec<f64>,
    best: usize,
}

impl AccuracyCurve {
    /// As the log in a folder has it; empty where there is none.
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

    /// The best accuracy up to an epoch.
    fn best_until(&self, epoch: usize) -> f64 {
        self.accuracies.iter().take(epoch).copied().fold(0.0, f64::max)
    }
}

/// The first epoch, if there is one, after which a run in `folder` is behind that in `rival` by more than two standard errors
/// of the accuracy on so many validation rows, each at its best up to then. It has half the epochs that the rival took to
/// its best weights to come near it.
///
/// All of the run's epochs are looked at, so that one that is continued ends where it would have ended.
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
    fn runs_that_are_far_behind_are_given_up_and_others_are_not() {
        let rival = run(&[0.5, 0.7, 0.8, 0.8, 0.79, 0.8], 4);
        let after = |accuracies: &[f64]| early_stop_epoch(run(accuracies, 1).path(), rival.path(), 400);
        // Two standard errors at 80 % of 400 rows are four points; at first it may lag.
        assert_eq!(after(&[0.2, 0.67, 0.77, 0.77, 0.5, 0.5, 0.5]), None);
        assert_eq!(after(&[0.2, 0.6]), Some(2));
        assert_eq!(after(&[0.5, 0.7, 0.75, 0.9, 0.9]), Some(3));
        assert_eq!(after(&[0.2]), None);
        let none = tempfile::tempdir().unwrap();
        assert_eq!(early_stop_epoch(rival.path(), none.path(), 400), None);
    }
}
