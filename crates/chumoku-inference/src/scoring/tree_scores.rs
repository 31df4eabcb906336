//! Scores of hierarchical classification: at each level of the tree, and of whole paths.

use super::bootstrap::{Intervals, PredictedRows, intervals};
use super::point_scores::accuracy_and_macro_f1;
use crate::hierarchy::Hierarchy;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Scores of hierarchical predictions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TreeScores {
    /// Scores of each level from the top; at the last level the whole path must be correct.
    pub levels: Vec<TreeLevel>,
    /// Hierarchical precision: the share of the nodes on predicted paths that are on the true ones. Source: Kiritchenko
    /// et al., "Learning and evaluation in the presence of class hierarchies", 2006.
    pub(crate) precision: f64,
    /// Hierarchical recall: the share of the nodes on true paths that are on the predicted ones.
    pub(crate) recall: f64,
    /// Hierarchical F1, the harmonic mean of both.
    pub f1: f64,
}

/// Scores at one level: paths are compared down to this level, and shorter paths as they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TreeLevel {
    /// The level, counted from 1.
    pub level: usize,
    /// Number of nodes at this level, and of paths that end above it.
    pub nodes: usize,
    /// Share of the rows that are correct down to this level.
    pub accuracy: f64,
    /// The middle 95 % of accuracy over resamples of the texts, as in [`Scores`](super::Scores).
    pub(crate) accuracy_interval: [f64; 2],
    /// Mean F1 over the nodes that occur in the rows or in the predictions.
    pub macro_f1: f64,
    /// The middle 95 % of macro-F1.
    pub(crate) macro_f1_interval: [f64; 2],
    /// Number of rows that are correct above this level and wrong at it: the wrong child of the correct parent.
    pub first_wrong: usize,
}

impl TreeScores {
    /// Scores rows, resampling with `seed`.
    pub fn of(tree: &Hierarchy, predictions: &PredictedRows<'_>, seed: u64) -> TreeScores {
        let PredictedRows { truth, predicted, texts } = *predictions;
        let depth = tree.depth();
        let mut first_wrong = vec![0; depth];
        let mut shared_of: HashMap<(u32, u32), usize> = HashMap::new();
        let (mut both, mut of_truth, mut of_predicted) = (0, 0, 0);
        for (&truth, &predicted) in truth.iter().zip(predicted) {
            let count = || tree.shared_levels(truth as usize, predicted as usize);
            let shared = *shared_of.entry((truth, predicted)).or_insert_with(count);
            first_wrong.iter_mut().skip(shared).take(1).for_each(|count| *count += 1);
            let [there, found] = [truth, predicted].map(|class| tree.path(class as usize).len());
            (both, of_truth, of_predicted) =
                (both + shared.min(there).min(found), of_truth + there, of_predicted + found);
        }
        let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
        let of_level = |(at, &first_wrong): (usize, &usize)| {
            let mut numbers: HashMap<usize, u32> = HashMap::new();
            let mut at_level = |classes: &[u32]| -> Vec<u32> {
                let number = |class: &u32| {
                    let next = numbers.len() as u32;
                    *numbers.entry(tree.node_at_level(*class as usize, at + 1)).or_insert(next)
                };
                classes.iter().map(number).collect()
            };
            let [truth, predicted] = [truth, predicted].map(&mut at_level);
            let nodes = numbers.len();
            let (accuracy, macro_f1) = accuracy_and_macro_f1(&truth, &predicted, nodes);
            let found = intervals(&PredictedRows { truth: &truth, predicted: &predicted, texts }, nodes, seed);
            let Intervals { accuracy: accuracy_interval, macro_f1: macro_f1_interval } = found;
            let (level, nodes) = (at + 1, tree.count_at_level(at + 1));
            TreeLevel { level, nodes, accuracy, accuracy_interval, macro_f1, macro_f1_interval, first_wrong }
        };
        TreeScores {
            levels: first_wrong.iter().enumerate().map(of_level).collect(),
            precision: share(both, of_predicted),
            recall: share(both, of_truth),
            f1: share(2 * both, of_truth + of_predicted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hierarchy::HierarchySource;

    #[test]
    fn scores_match_counting_by_hand() {
        let labels = ["a", "a/x", "a/y", "b/x"].map(String::from);
        let tree = HierarchySource::Separator("/".into()).build(&labels).unwrap();
        let truth = [1, 1, 2, 3, 0, 3];
        let predicted = [1, 2, 2, 1, 1, 3];
        let scores = TreeScores::of(&tree, &PredictedRows { truth: &truth, predicted: &predicted, texts: &[] }, 1);
        let [first, second] = &scores.levels[..] else { panic!("{scores:?}") };
        assert_eq!((first.nodes, second.nodes), (2, 4));
        assert!((first.accuracy - 5.0 / 6.0).abs() < 1e-12 && (second.accuracy - 0.5).abs() < 1e-12);
        // a: 4 correct, 4 true, 5 predicted; b: 1, 2, 1.
        assert!((first.macro_f1 - (8.0 / 9.0 + 2.0 / 3.0) / 2.0).abs() < 1e-12);
        assert_eq!((first.first_wrong, second.first_wrong), (1, 2));
        // Shared nodes: 2, 1, 2, 0, 1, 2 of 11 true and 12 predicted ones.
        assert!((scores.precision - 8.0 / 12.0).abs() < 1e-12 && (scores.recall - 8.0 / 11.0).abs() < 1e-12);
        assert!((scores.f1 - 16.0 / 23.0).abs() < 1e-12);
        let nothing = TreeScores::of(&tree, &PredictedRows { truth: &[], predicted: &[], texts: &[] }, 1);
        assert_eq!((nothing.f1, nothing.levels.len()), (0.0, 2));
    }
}
