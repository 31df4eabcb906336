//! From which probability on a class is the answer, where somebody asked for that.

use crate::{Error, Result, tr};

/// The least probability at which each class is the answer, for the classes that have one.
///
/// With probabilities that are right, the answer that costs least is a matter of a threshold: to take one error for so bad as
/// another is the case of ½ (Elkan, "The foundations of cost-sensitive learning", 2001).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassThresholds(Vec<Option<f32>>);

impl ClassThresholds {
    /// Of each class, in the order of their numbers.
    #[must_use]
    pub fn new(least: Vec<Option<f32>>) -> ClassThresholds {
        ClassThresholds(least)
    }

    /// The same of so many classes that exclude each other, of which one at least has none.
    pub(crate) fn new_checked(least: &[Option<f32>], classes: usize) -> Result<ClassThresholds> {
        if least.len() != classes || least.iter().all(Option::is_some) {
            return Err(Error::Setting(tr!(
                "thresholds: every class has one, so a text may have no answer: leave at least one class without",
                "しきい値: すべてのクラスに指定されているため、答えのないテキストが出ます。少なくとも 1 つのクラスは指定を外してください"
            )));
        }
        Ok(ClassThresholds::new(least.to_vec()))
    }

    /// The answer: of the classes that reach their thresholds the most probable one; where none does, the most probable of the
    /// classes without. None if there is no such class either.
    #[must_use]
    pub fn class(&self, probabilities: &[f32]) -> Option<usize> {
        let least = |class: usize| self.0.get(class).copied().flatten();
        let best = |is_wanted: &dyn Fn(usize) -> bool| {
            let wanted = (0..probabilities.len()).filter(|&class| is_wanted(class));
            wanted.reduce(|best, class| if probabilities[class] > probabilities[best] { class } else { best })
        };
        let reaches = |class: usize| least(class).is_some_and(|least| probabilities[class] >= least);
        best(&reaches).or_else(|| best(&|class| least(class).is_none()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_answered_from_its_threshold_on() {
        let answer = |least: [Option<f32>; 3], p: [f32; 3]| ClassThresholds::new(least.to_vec()).class(&p);
        let (p, none) = ([0.3, 0.5, 0.2], None);
        assert_eq!(answer([none; 3], p), Some(1));
        assert_eq!(answer([Some(0.3), none, none], p), Some(0));
        assert_eq!(answer([Some(0.31), none, none], p), Some(1));
        assert_eq!(answer([none, Some(0.6), none], p), Some(0));
        // Of two that reach theirs the more probable.
        assert_eq!(answer([Some(0.2), none, Some(0.2)], p), Some(0));
        assert_eq!(answer([Some(0.9); 3], p), None);
    }
}
