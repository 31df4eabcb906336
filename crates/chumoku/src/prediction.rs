//! What a classifier says of a text.

use crate::sorting;

/// Predicted probabilities of the classes, which sum to 1, or of labels that do not exclude each other.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Prediction {
    /// Calibrated probabilities of the whole predictor, by class number.
    pub probabilities: Vec<f32>,
    /// The network's own log-probabilities; empty where there is no network.
    pub attention: Vec<f32>,
    /// The n-gram model's log-probabilities.
    pub ngrams: Option<Vec<f32>>,
    /// Windows that the text was read in.
    pub windows: usize,
    /// The class by thresholds that were asked for, if any.
    pub(crate) answer: Option<usize>,
}

impl Prediction {
    /// The answer: the most probable class (the first of equals), or the one by [thresholds](crate::Thresholds).
    pub fn class(&self) -> usize {
        if let Some(class) = self.answer {
            return class;
        }
        let p = &self.probabilities;
        (0..p.len()).fold(0, |best, class| if p[class] > p[best] { class } else { best })
    }

    /// The confidence, and whether the answer is right.
    pub(crate) fn confidence_and_correctness(&self, label: u32) -> (f32, bool) {
        let class = self.class();
        (self.probabilities[class], class as u32 == label)
    }

    /// The confidences of the whole predictor, of its network and of its n-grams, as far as there are these, each with whether its answer is
    /// this label.
    #[must_use]
    pub fn member_confidences(&self, label: usize) -> [Option<(f32, bool)>; 3] {
        let of_half = |log_p: &[f32]| {
            let most = (0..log_p.len()).reduce(|best, class| if log_p[class] > log_p[best] { class } else { best })?;
            Some((log_p[most].exp(), most == label))
        };
        let halves = [of_half(&self.attention), self.ngrams.as_deref().and_then(of_half)];
        let whole = self.confidence_and_correctness(label as u32);
        [Some(whole), halves[0], halves[1]]
    }

    /// The class that the network by itself finds most probable (the first of equals).
    pub fn network_class(&self) -> usize {
        let p = &self.attention;
        (0..p.len()).fold(0, |best, class| if p[class] > p[best] { class } else { best })
    }

    /// Classes by falling probability.
    pub fn ranked(&self) -> Vec<usize> {
        sorting::argsort_descending(&self.probabilities)
    }
}
