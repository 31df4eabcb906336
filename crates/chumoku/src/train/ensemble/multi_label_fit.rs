//! The blend of the ensemble members for labels, fitted on validation rows, and its calibration for abstention.

use super::members::LogOdds;
use crate::blend::binary_blend::{BinaryBlend, fit_thresholds};
use crate::hierarchy::Hierarchy;
use crate::prediction::abstention::AbstentionCalibration;
use crate::scoring::select_weights;
use crate::train::data::training_data::TrainingData;

/// The number of folds of the validation rows. Each fold is scored by a blend that was fitted on the others.
const BLEND_FOLDS: usize = 5;

/// The log-odds of both members for the labels of validation rows. Without n-grams, those of one member alone.
#[derive(Clone, Copy)]
pub(crate) struct LabelRows<'a> {
    pub(crate) data: &'a TrainingData<Vec<u32>>,
    pub(crate) network: &'a LogOdds,
    pub(crate) ngrams: Option<&'a LogOdds>,
}

impl LabelRows<'_> {
    fn label_hierarchy(&self) -> Option<&Hierarchy> {
        self.data.hierarchy.as_ref()
    }

    /// Fits the blend on a subset of the rows.
    fn fit_on(&self, is_in: &dyn Fn(usize) -> bool) -> BinaryBlend {
        let rows: Vec<usize> = (0..self.network.len()).filter(|&row| is_in(row)).collect();
        let pick = |all: &LogOdds| rows.iter().map(|&row| all[row].clone()).collect::<LogOdds>();
        let (network, ngrams) = (pick(self.network), self.ngrams.map(pick).unwrap_or_default());
        let truth: Vec<Vec<u32>> = rows.iter().map(|&row| self.data.valid.labels[row].clone()).collect();
        let weights = select_weights(self.data.valid.weights.as_deref(), &rows);
        let labels = self.data.labels.len();
        let mut blend = BinaryBlend::fit(&network, &ngrams, &truth, weights.as_deref(), labels);
        if let (Some(tree), false) = (self.label_hierarchy(), truth.is_empty()) {
            let probabilities: Vec<Vec<f32>> = rows.iter().map(|&row| self.probabilities(&blend, row)).collect();
            blend.thresholds = fit_thresholds(&probabilities, &truth, weights.as_deref(), labels);
            tree.raise_to_ancestors(&mut blend.thresholds);
        }
        blend
    }

    /// Fits the blend on all rows.
    pub(crate) fn fit(&self) -> BinaryBlend {
        self.fit_on(&|_| true)
    }

    /// Returns the probabilities of a row.
    fn probabilities(&self, blend: &BinaryBlend, row: usize) -> Vec<f32> {
        let ngrams = self.ngrams.map(|ngrams| &ngrams[row][..]);
        cap_by_parents(self.label_hierarchy(), blend.probabilities(&self.network[row], ngrams))
    }

    /// Calibrates abstention on the validation rows. Confidences for sets of labels come from blends fitted on the
    /// other folds, because thresholds are fitted on the rows themselves. Those for single labels come from `blend`.
    /// `known` holds the shares of known n-grams, if any.
    pub(crate) fn calibrate_abstention(&self, blend: &BinaryBlend, known: &[f32]) -> Option<AbstentionCalibration> {
        let truth = &self.data.valid.labels;
        if truth.is_empty() {
            return None;
        }
        let mut sure = Vec::with_capacity(truth.len());
        for part in 0..BLEND_FOLDS {
            let others = self.fit_on(&|row| row % BLEND_FOLDS != part);
            for row in (part..truth.len()).step_by(BLEND_FOLDS) {
                let probabilities = self.probabilities(&others, row);
                sure.push((others.confidence(&probabilities), others.predicted_labels(&probabilities) == truth[row]));
            }
        }
        let probabilities: Vec<Vec<f32>> = (0..truth.len()).map(|row| self.probabilities(blend, row)).collect();
        Some(AbstentionCalibration::fit(&sure, known).with_class_curves(&probabilities, truth))
    }
}

/// Caps the probability of each label by those above it in the tree, if there is one.
pub(crate) fn cap_by_parents(tree: Option<&Hierarchy>, mut probabilities: Vec<f32>) -> Vec<f32> {
    tree.into_iter().for_each(|tree| tree.cap_by_ancestors(&mut probabilities));
    probabilities
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blend::binary_blend::sigmoid;
    use crate::scoring::Rows;
    use chumoku_kernels::Philox;

    const LABELS: usize = 3;

    /// Log-odds of rows, twice too large, and their labels.
    fn rows(n: usize, stream: u64) -> (LogOdds, Vec<Vec<u32>>) {
        let random = Philox::new(1, stream);
        let row = |i: usize| {
            let z: Vec<f32> = (0..LABELS).map(|k| 8.0 * random.normal((i * 16 + k) as u64) - 4.0).collect();
            let holds =
                |k: &u32| random.uniform((1 << 40) + (i * 16) as u64 + u64::from(*k)) < sigmoid(0.5 * z[*k as usize]);
            let truth = (0..LABELS as u32).filter(holds).collect();
            (z, truth)
        };
        (0..n).map(row).unzip()
    }

    fn data(truth: Vec<Vec<u32>>) -> TrainingData<Vec<u32>> {
        let texts = vec!["".into(); truth.len()];
        let labels = (0..LABELS).map(|label| label.to_string()).collect();
        TrainingData { labels, valid: Rows { texts, labels: truth, weights: None }, ..TrainingData::default() }
    }

    /// Predicted sets of labels are as accurate as promised, although the thresholds are fitted on the same rows.
    #[test]
    fn sets_of_labels_are_as_accurate_as_promised() {
        let (mut kept, mut answered, mut promised, runs) = (0, 0, 0, 100);
        for run in 0..runs {
            let (network, truth) = rows(400, 2 * run);
            let data = data(truth);
            let valid = LabelRows { data: &data, network: &network, ngrams: None };
            let blend = valid.fit();
            let calibration = valid.calibrate_abstention(&blend, &[]).unwrap();
            calibration.check().unwrap();
            assert_eq!((calibration.rows, calibration.classes.len()), (400, LABELS));
            let Some(step) = calibration.threshold_for(0.8) else { continue };
            promised += 1;
            let (z, truth) = rows(3_000, 2 * run + 1);
            let of_row = |(z, truth): (&Vec<f32>, &Vec<u32>)| {
                let p = blend.probabilities(z, None);
                (blend.confidence(&p) >= step.confidence).then(|| blend.predicted_labels(&p) == *truth)
            };
            let answers: Vec<bool> = z.iter().zip(&truth).filter_map(of_row).collect();
            answered += answers.len();
            kept += u64::from(answers.iter().filter(|right| **right).count() as f64 >= 0.8 * answers.len() as f64);
        }
        assert!(promised > 50 && kept as f64 >= 0.95 * promised as f64, "{kept} of {promised}");
        assert!(answered as f64 > 0.2 * 3_000.0 * promised as f64, "{answered}");
    }

    /// Thresholds look too good on the rows that they were fitted on.
    #[test]
    fn rows_are_scored_by_a_blend_fitted_on_others() {
        let (mut own, mut others) = (0, 0);
        for run in 0..40 {
            let (network, truth) = rows(40, 1_000 + run);
            let data = data(truth);
            let valid = LabelRows { data: &data, network: &network, ngrams: None };
            let blend = valid.fit();
            let last = *valid.calibrate_abstention(&blend, &[]).unwrap().risk_coverage_curve.last().unwrap();
            others += last.wrong;
            let is_wrong =
                |(z, truth): (&Vec<f32>, &Vec<u32>)| blend.predicted_labels(&blend.probabilities(z, None)) != *truth;
            own += network.iter().zip(&data.valid.labels).filter(|row| is_wrong(*row)).count();
        }
        assert!(others > own, "{others} {own}");
    }
}
