//! Scores of predicted probabilities: calibration, and how well they rank rows.

use crate::sorting;
use serde::{Deserialize, Serialize};

/// Calibration and ranking scores of class probabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ConfidenceScores {
    /// Expected calibration error: the mean difference between confidence and accuracy over 15 bins with equal numbers
    /// of rows. Sources: Guo et al., "On calibration of modern neural networks", 2017; for bins of equal mass, Nguyen
    /// and O'Connor 2015.
    pub calibration_error: f64,
    /// Area under the ROC curve: how often a row of a class has a larger probability of it than a row of another class
    /// (Hanley and McNeil 1982). The mean over the classes with both kinds of rows.
    pub roc_area: f64,
    /// Area under the precision–recall curve, as average precision: the mean precision at the rows of a class, ordered
    /// by its probability. The mean over the same classes.
    pub precision_recall_area: f64,
}

/// Number of bins of the calibration error.
const BINS: usize = 15;

impl ConfidenceScores {
    /// Scores rows of log-probabilities against their true classes; `None` if no class has both kinds of rows.
    pub(crate) fn of(log_p: &[Vec<f32>], truth: &[u32]) -> Option<ConfidenceScores> {
        let classes = log_p.first()?.len();
        let mut areas = Vec::new();
        for class in 0..classes {
            let mut rows: Vec<(f32, bool)> =
                log_p.iter().zip(truth).map(|(p, &t)| (p[class], t as usize == class)).collect();
            sorting::sort_by(&mut rows, |a, b| b.0.total_cmp(&a.0));
            areas.extend(curve_areas(&rows));
        }
        if areas.is_empty() {
            return None;
        }
        let mean = |i: usize| areas.iter().map(|area: &[f64; 2]| area[i]).sum::<f64>() / areas.len() as f64;
        Some(ConfidenceScores {
            calibration_error: calibration_error(log_p, truth),
            roc_area: mean(0),
            precision_recall_area: mean(1),
        })
    }
}

/// Returns both areas for rows in descending order; ties are handled together.
fn curve_areas(rows: &[(f32, bool)]) -> Option<[f64; 2]> {
    let there = rows.iter().filter(|row| row.1).count() as f64;
    let absent = rows.len() as f64 - there;
    if there == 0.0 || absent == 0.0 {
        return None;
    }
    let (mut right, mut wrong, mut roc, mut precision) = (0.0, 0.0, 0.0, 0.0);
    for equal in rows.chunk_by(|a, b| a.0 == b.0) {
        let hits = equal.iter().filter(|row| row.1).count() as f64;
        let misses = equal.len() as f64 - hits;
        roc += misses * (right + 0.5 * hits);
        (right, wrong) = (right + hits, wrong + misses);
        precision += hits * right / (right + wrong);
    }
    Some([roc / (there * absent), precision / there])
}

fn calibration_error(log_p: &[Vec<f32>], truth: &[u32]) -> f64 {
    let of_row = |(p, &t): (&Vec<f32>, &u32)| {
        let class = super::argmax(p);
        (f64::from(p[class as usize]).exp(), class == t)
    };
    let mut rows: Vec<(f64, bool)> = log_p.iter().zip(truth).map(of_row).collect();
    sorting::sort_by(&mut rows, |a, b| a.0.total_cmp(&b.0));
    let bin = |i: usize| &rows[i * rows.len() / BINS..(i + 1) * rows.len() / BINS];
    let gap = |rows: &[(f64, bool)]| rows.iter().map(|&(p, right)| p - f64::from(u8::from(right))).sum::<f64>().abs();
    (0..BINS).map(|i| gap(bin(i))).sum::<f64>() / rows.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs(p: &[f32]) -> Vec<Vec<f32>> {
        p.iter().map(|p| vec![(1.0 - p).ln(), p.ln()]).collect()
    }

    #[test]
    fn areas_match_their_definitions() {
        // As in scikit-learn: roc_auc_score and average_precision_score of class 1, and of class 0 with 1 − p.
        let found = ConfidenceScores::of(&logs(&[0.9, 0.8, 0.7, 0.4, 0.3, 0.2]), &[1, 0, 1, 1, 0, 0]).unwrap();
        assert!((found.roc_area - 7.0 / 9.0).abs() < 1e-12, "{found:?}");
        let of_one = (1.0 + 2.0 / 3.0 + 3.0 / 4.0) / 3.0;
        let of_none = (1.0 + 1.0 + 3.0 / 5.0) / 3.0;
        assert!((found.precision_recall_area - 0.5 * (of_one + of_none)).abs() < 1e-12, "{found:?}");
        // Equal probabilities rank nothing.
        let found = ConfidenceScores::of(&logs(&[0.5; 4]), &[1, 0, 1, 0]).unwrap();
        assert_eq!((found.roc_area, found.precision_recall_area), (0.5, 0.5));
        assert_eq!(ConfidenceScores::of(&logs(&[0.5; 4]), &[1; 4]), None);
        assert_eq!(ConfidenceScores::of(&[], &[]), None);
    }

    #[test]
    fn calibration_error_is_averaged_over_bins() {
        // 60 rows with p = 0.8, 80 % of them correct, and 60 rows with p = 0.6, none of them correct.
        let p: Vec<f32> = [0.8; 60].into_iter().chain([0.6; 60]).collect();
        let truth: Vec<u32> = (0..60).map(|i| u32::from(i % 5 != 0)).chain([0; 60]).collect();
        let found = ConfidenceScores::of(&logs(&p), &truth).unwrap();
        // Each bin has eight rows: 6 or 7 are correct, and 6.4 are expected.
        assert!((found.calibration_error - 0.33).abs() < 0.03, "{found:?}");
        let right = ConfidenceScores::of(&logs(&p[..60]), &truth[..60]).unwrap();
        assert!(right.calibration_error < 0.12, "{right:?}");
    }
}
