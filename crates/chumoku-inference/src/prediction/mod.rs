//! The prediction of a classifier: the prediction target, and the rules that turn probabilities into an answer.
//!
//! # Files
//!
//! - `abstention`: abstention calibration
//! - `class_thresholds`: probability thresholds of single classes
//! - `decision_rule`: class factors chosen for macro-F1
//! - `target`: the prediction target: class, labels or number

pub mod abstention;
pub(crate) mod class_thresholds;
pub mod decision_rule;
pub mod target;

use crate::scoring::argmax;
use crate::sorting;

/// Predicted probabilities: of mutually exclusive classes, which sum to 1, or of the labels of a multi-label model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Prediction {
    /// Calibrated probabilities of the ensemble, by class number.
    pub probabilities: Vec<f32>,
    /// The log-probabilities of the network alone. Empty without a network.
    pub network: Vec<f32>,
    /// The log-probabilities of the n-gram model.
    pub ngrams: Option<Vec<f32>>,
    /// The number of windows in which the text was read.
    pub windows: usize,
    /// The predicted class by the caller's thresholds, if any.
    pub(crate) answer: Option<usize>,
}

impl Prediction {
    /// Returns the predicted class: the most probable one, with ties going to the first, or the one chosen by
    /// thresholds.
    pub fn class(&self) -> usize {
        if let Some(class) = self.answer {
            return class;
        }
        argmax(&self.probabilities) as usize
    }

    /// Returns the confidence, and whether the prediction is right.
    pub fn confidence_and_correctness(&self, label: u32) -> (f32, bool) {
        let class = self.class();
        (self.probabilities[class], class as u32 == label)
    }

    /// Returns the confidences of the ensemble, the network and the n-gram model, with whether each predicts this
    /// label. Absent members give `None`.
    #[must_use]
    pub fn member_confidences(&self, label: usize) -> [Option<(f32, bool)>; 3] {
        let of_member = |log_p: &[f32]| {
            let most = (0..log_p.len()).reduce(|best, class| if log_p[class] > log_p[best] { class } else { best })?;
            Some((log_p[most].exp(), most == label))
        };
        let members = [of_member(&self.network), self.ngrams.as_deref().and_then(of_member)];
        let whole = self.confidence_and_correctness(label as u32);
        [Some(whole), members[0], members[1]]
    }

    /// Returns the most probable class of the network alone. Ties go to the first class.
    pub fn network_class(&self) -> usize {
        argmax(&self.network) as usize
    }

    /// Returns the classes by descending probability.
    pub(crate) fn ranked(&self) -> Vec<usize> {
        sorting::argsort_descending(&self.probabilities)
    }
}
