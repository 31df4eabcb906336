//! Probability thresholds of classes, set by the caller.

use crate::{Error, Result, tr};

/// The lowest probability at which each class is predicted, for classes with a threshold.
///
/// With calibrated probabilities, the prediction with the lowest expected cost follows from a threshold. Equal costs of
/// both errors correspond to ½ (Elkan, "The foundations of cost-sensitive learning", 2001).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassThresholds(Vec<Option<f32>>);

impl ClassThresholds {
    /// Creates thresholds, one entry per class.
    #[must_use]
    pub(crate) fn new(least: Vec<Option<f32>>) -> ClassThresholds {
        ClassThresholds(least)
    }

    /// Creates thresholds for mutually exclusive classes. At least one class must have no threshold.
    pub(crate) fn new_checked(least: &[Option<f32>], classes: usize) -> Result<ClassThresholds> {
        if least.len() != classes || least.iter().all(Option::is_some) {
            return Err(Error::Setting(tr!(
                "thresholds: every class has one, so a text may get no answer: leave at least one class without a threshold",
                "しきい値: すべてのクラスに指定されているため、答えのないテキストが出ます。少なくとも 1 つのクラスは指定を外してください"
            )));
        }
        Ok(ClassThresholds::new(least.to_vec()))
    }

    /// Returns the most probable of the classes that reach their thresholds. If there is none, returns the most
    /// probable class without a threshold. `None` if there is no such class either.
    #[must_use]
    pub(crate) fn class(&self, probabilities: &[f32]) -> Option<usize> {
        let least = |class: usize| self.0.get(class).copied().flatten();
        let best = |is_wanted: &dyn Fn(usize) -> bool| {
            let classes = (0..probabilities.len()).filter(|&class| is_wanted(class));
            classes.reduce(|best, class| if probabilities[class] > probabilities[best] { class } else { best })
        };
        let reaches = |class: usize| least(class).is_some_and(|least| probabilities[class] >= least);
        best(&reaches).or_else(|| best(&|class| least(class).is_none()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_predicted_from_its_threshold() {
        let answer = |least: [Option<f32>; 3], p: [f32; 3]| ClassThresholds::new(least.to_vec()).class(&p);
        let (p, none) = ([0.3, 0.5, 0.2], None);
        assert_eq!(answer([none; 3], p), Some(1));
        assert_eq!(answer([Some(0.3), none, none], p), Some(0));
        assert_eq!(answer([Some(0.31), none, none], p), Some(1));
        assert_eq!(answer([none, Some(0.6), none], p), Some(0));
        // The more probable of two classes that reach their thresholds.
        assert_eq!(answer([Some(0.2), none, Some(0.2)], p), Some(0));
        assert_eq!(answer([Some(0.9); 3], p), None);
    }
}
