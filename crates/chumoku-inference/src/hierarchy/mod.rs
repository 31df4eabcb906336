//! Class trees: probabilities of nodes, predictions, and scores by level.
//!
//! The model predicts mutually exclusive classes. Each class is a path from the top. Rows may stop at an inner node,
//! which is then also a class. The probability of a node is the sum over all classes at it or below it. A child is
//! therefore never more probable than its parent.
//!
//! # Files
//!
//! - `source`: labels that are paths, and files of parents

mod source;

pub use source::{HierarchySource, ParentTable};

use crate::tr;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// A node of the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HierarchyNode {
    /// The name: the path to the node, or the plain name if parents came from a file.
    pub(crate) name: String,
    /// The parent, which precedes the node. `None` at the top.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<usize>,
}

/// A tree of classes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hierarchy {
    /// The separator between the names of a path. `None` if parents came from a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    separator: Option<String>,
    /// The nodes, parents before children.
    nodes: Vec<HierarchyNode>,
    /// The node of each class.
    classes: Vec<usize>,
}

impl Hierarchy {
    /// Builds the tree of these classes. `path` returns the names of the nodes down to a label, including the label.
    fn from_paths(labels: &[String], separator: Option<String>, path: impl Fn(&str) -> Vec<String>) -> Hierarchy {
        let mut numbers: HashMap<String, usize> = HashMap::new();
        let mut tree = Hierarchy { separator, ..Hierarchy::default() };
        for label in labels {
            let mut parent = None;
            for name in path(label) {
                let number = *numbers.entry(name.clone()).or_insert_with(|| {
                    tree.nodes.push(HierarchyNode { name, parent });
                    tree.nodes.len() - 1
                });
                parent = Some(number);
            }
            tree.classes.extend(parent);
        }
        tree
    }

    /// Returns the separator between the names of a path. `None` if parents came from a file.
    pub fn separator(&self) -> Option<&str> {
        self.separator.as_deref()
    }

    /// Returns the nodes, parents before children.
    pub fn nodes(&self) -> &[HierarchyNode] {
        &self.nodes
    }

    /// Returns the number of levels, which is the length of the longest path.
    pub fn depth(&self) -> usize {
        self.classes.iter().map(|&node| self.ancestors(node).count()).max().unwrap_or(0)
    }

    /// Iterates over a node and its ancestors, the top last.
    fn ancestors(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(node), |&node| self.nodes[node].parent)
    }

    /// Returns the nodes on the path to a class, from the top.
    pub fn path(&self, class: usize) -> Vec<usize> {
        let mut path: Vec<usize> = self.ancestors(self.classes[class]).collect();
        path.reverse();
        path
    }

    /// Returns the node of a class at a level, counted from 1. If the path is shorter, returns its last node.
    pub(crate) fn node_at_level(&self, class: usize, level: usize) -> usize {
        let path = self.path(class);
        path[level.clamp(1, path.len()) - 1]
    }

    /// Returns the number of nodes at a level. Shorter paths count with their last node.
    pub fn count_at_level(&self, level: usize) -> usize {
        let found: HashSet<usize> = (0..self.classes.len()).map(|class| self.node_at_level(class, level)).collect();
        found.len()
    }

    /// Returns the probability of each node: the sum over the classes at it and below it.
    pub(crate) fn probabilities(&self, of_classes: &[f32]) -> Vec<f32> {
        let mut all = vec![0.0f64; self.nodes.len()];
        for (&node, &p) in self.classes.iter().zip(of_classes) {
            all[node] += f64::from(p);
        }
        for node in (0..self.nodes.len()).rev() {
            if let Some(parent) = self.nodes[node].parent {
                all[parent] += all[node];
            }
        }
        all.into_iter().map(|p| p.min(1.0) as f32).collect()
    }

    /// Returns the predicted class by top-down prediction. Descends from the top to the most probable child, until
    /// there is none or stopping is at least as probable. See Koller and Sahami, "Hierarchically classifying documents
    /// using very few words", 1997.
    pub fn predict(&self, of_classes: &[f32]) -> usize {
        let probabilities = self.probabilities(of_classes);
        let (mut at, mut class) = (None, 0);
        loop {
            let stop = at.and_then(|node| self.classes.iter().position(|of| *of == node));
            let mut best = stop.map(|class| (of_classes[class], None));
            for (node, _) in self.nodes.iter().enumerate().filter(|(_, of)| of.parent == at) {
                if best.is_none_or(|(most, _)| probabilities[node] > most) {
                    best = Some((probabilities[node], Some(node)));
                }
            }
            class = stop.unwrap_or(class);
            match best {
                Some((_, Some(node))) => at = Some(node),
                _ => return class,
            }
        }
    }

    /// Returns the nodes on the path to a class with their probabilities, from the top.
    pub(crate) fn levels(&self, of_classes: &[f32], class: usize) -> Vec<(&str, f32)> {
        let all = self.probabilities(of_classes);
        self.path(class).into_iter().map(|node| (self.nodes[node].name.as_str(), all[node])).collect()
    }

    /// Caps the probability of each label at the minimum on the path to it. For multi-label trees, in which each node
    /// is a label.
    pub fn cap_by_ancestors(&self, of_labels: &mut [f32]) {
        self.propagate_down(of_labels, f32::min);
    }

    /// Raises the threshold of each label to those of its ancestors. With capped
    /// probabilities, a label above its threshold then has all its ancestors above theirs.
    pub fn raise_to_ancestors(&self, thresholds: &mut [f32]) {
        self.propagate_down(thresholds, f32::max);
    }

    /// Combines the value of each label with those of its ancestors.
    fn propagate_down(&self, of_labels: &mut [f32], join: impl Fn(f32, f32) -> f32) {
        let mut of_nodes = vec![None; self.nodes.len()];
        self.classes.iter().zip(of_labels.iter()).for_each(|(&node, &x)| of_nodes[node] = Some(x));
        for node in 0..self.nodes.len() {
            let above = self.nodes[node].parent.and_then(|parent| of_nodes[parent]);
            of_nodes[node] = match (of_nodes[node], above) {
                (Some(own), Some(above)) => Some(join(own, above)),
                (own, above) => own.or(above),
            };
        }
        for (&node, x) in self.classes.iter().zip(of_labels) {
            *x = of_nodes[node].unwrap_or(*x);
        }
    }

    /// Returns the parent of each label, or the label itself at the top. For multi-label trees, in which each node is a
    /// label.
    pub fn parents(&self) -> Vec<usize> {
        let label_of = |node: usize| self.classes.iter().position(|of| *of == node);
        let parent = |(label, &node): (usize, &usize)| self.nodes[node].parent.and_then(label_of).unwrap_or(label);
        self.classes.iter().enumerate().map(parent).collect()
    }

    /// Returns label indices with all their ancestors, in ascending order.
    pub(crate) fn with_ancestors(&self, labels: &[u32]) -> Vec<u32> {
        let label_of = |node: usize| self.classes.iter().position(|of| *of == node).map(|label| label as u32);
        let above = labels.iter().flat_map(|&label| self.ancestors(self.classes[label as usize]));
        let all: std::collections::BTreeSet<u32> = above.filter_map(label_of).collect();
        all.into_iter().collect()
    }

    /// Returns the confidence of a class at each level: the probability that the true class has the same node there.
    pub(crate) fn level_confidences(&self, of_classes: &[f32], class: usize) -> Vec<f32> {
        let found = self.levels(of_classes, class);
        // Below the end of its path, a class is right only if the true path ends there too.
        let below = |level: usize| found.get(level).map_or(of_classes[class], |(_, p)| *p);
        (0..self.depth()).map(below).collect()
    }

    /// Returns the number of levels, from the top, at which two classes have the same node.
    pub(crate) fn shared_levels(&self, class: usize, other: usize) -> usize {
        (1..=self.depth())
            .take_while(|&level| self.node_at_level(class, level) == self.node_at_level(other, level))
            .count()
    }

    /// Returns labels with all their ancestors, without duplicates. Unknown labels stay as they are.
    pub fn complete_labels(&self, labels: &[String]) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for label in labels.iter().map(|label| self.normalize_label(label)) {
            let node = self.nodes.iter().position(|node| node.name == label);
            let above = node.into_iter().flat_map(|node| self.ancestors(node));
            let names = above.map(|node| self.nodes[node].name.clone()).chain([label]);
            for name in names {
                if !found.contains(&name) {
                    found.push(name);
                }
            }
        }
        found
    }

    /// Returns a label in the form of the model's classes, without white space around the names of a path.
    pub fn normalize_label(&self, label: &str) -> String {
        let tidied = self.separator.as_deref().and_then(|separator| source::normalize_path(label, separator));
        tidied.unwrap_or_else(|| label.to_owned())
    }

    /// Checks the tree against these classes.
    pub(crate) fn check(&self, labels: &[String]) -> Result<(), String> {
        let is_below = |(at, node): (usize, &HierarchyNode)| node.parent.is_none_or(|parent| parent < at);
        let is_named = |(&node, label): (&usize, &String)| self.nodes.get(node).is_some_and(|node| node.name == *label);
        let mut children = vec![0usize; self.nodes.len()];
        let is_tree = self.nodes.iter().enumerate().all(is_below);
        if is_tree {
            self.nodes.iter().filter_map(|node| node.parent).for_each(|parent| children[parent] += 1);
            self.classes.iter().filter(|node| **node < self.nodes.len()).for_each(|&node| children[node] += 1);
        }
        if is_tree
            && self.classes.len() == labels.len()
            && self.classes.iter().zip(labels).all(is_named)
            && children.iter().all(|count| *count > 0)
        {
            return Ok(());
        }
        Err(tr!(
            "hierarchy: expected a tree with parents before their children and no node without one of the {} classes, found another tree",
            "hierarchy: 親が子より前にあり、{} クラスのそれぞれに節があり、余分な節のない木が必要ですが、そうなっていません",
            labels.len()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chumoku_kernels::Philox;

    fn tree(labels: &[&str]) -> (Hierarchy, Vec<String>) {
        let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        (HierarchySource::Separator("/".into()).build(&labels).unwrap(), labels)
    }

    #[test]
    fn node_probabilities_are_sums_over_their_classes() {
        let (tree, labels) = tree(&["a", "a/x", "a/y/z", "b/x"]);
        tree.check(&labels).unwrap();
        let names: Vec<&str> = tree.nodes().iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["a", "a/x", "a/y", "a/y/z", "b", "b/x"]);
        assert_eq!((tree.depth(), [1, 2, 3].map(|level| tree.count_at_level(level))), (3, [2, 4, 4]));
        let p = [0.125, 0.25, 0.25, 0.375];
        assert_eq!(tree.probabilities(&p), [0.625, 0.25, 0.25, 0.25, 0.375, 0.375]);
        // The most probable path is that of b, and the most probable top node is a.
        assert_eq!(labels[tree.predict(&p)], "a/x");
        assert_eq!(tree.levels(&p, 1), [("a", 0.625), ("a/x", 0.25)]);
        assert_eq!(tree.level_confidences(&p, 1), [0.625, 0.25, 0.25]);
        // Stopping at a is right only if the true path stops there.
        assert_eq!(tree.level_confidences(&p, 0), [0.625, 0.125, 0.125]);
        assert_eq!(labels[tree.predict(&[0.5, 0.25, 0.25, 0.0])], "a");
        assert_eq!(
            [tree.shared_levels(1, 2), tree.shared_levels(0, 1), tree.shared_levels(1, 3), tree.shared_levels(2, 2)],
            [1, 1, 0, 3]
        );
    }

    /// Random trees and probabilities. No child is more probable than its parent, and neither is the sum of all
    /// children. The answer is the most probable child at each level.
    #[test]
    fn no_child_is_more_probable_than_its_parent() {
        for set in 0..200 {
            let random = Philox::new(11, set);
            let pick = |i: u64, n: usize| ((random.uniform(i) * n as f32) as usize).min(n - 1);
            let mut labels: Vec<String> = (0..24)
                .map(|i| {
                    let parts: Vec<String> =
                        (0..=pick(10 * i, 4) as u64).map(|d| pick(10 * i + 1 + d, 3).to_string()).collect();
                    parts.join("/")
                })
                .collect();
            labels.sort();
            labels.dedup();
            let tree = HierarchySource::Separator("/".into()).build(&labels).unwrap();
            tree.check(&labels).unwrap();
            let drawn: Vec<f32> = (0..labels.len()).map(|i| random.uniform(1000 + i as u64).powi(3)).collect();
            let sum: f32 = drawn.iter().sum();
            let p: Vec<f32> = drawn.iter().map(|x| x / sum).collect();
            let all = tree.probabilities(&p);
            for (at, parent) in all.iter().enumerate() {
                let below = tree.nodes().iter().zip(&all).filter(|(node, _)| node.parent == Some(at));
                let below: Vec<f32> = below.map(|(_, p)| *p).collect();
                assert!(below.iter().sum::<f32>() <= parent + 1e-6 && below.iter().all(|p| p <= parent), "{labels:?}");
            }
            let class = tree.predict(&p);
            let path = tree.path(class);
            assert_eq!(tree.nodes()[*path.last().unwrap()].name, labels[class]);
            for (level, node) in path.iter().enumerate() {
                let parent = tree.nodes()[*node].parent;
                assert_eq!(parent, level.checked_sub(1).map(|above| path[above]));
                let rivals = tree.nodes().iter().zip(&all).filter(|(rival, _)| rival.parent == parent);
                assert!(rivals.into_iter().all(|(_, p)| *p <= all[*node]), "{labels:?} {p:?}");
            }
            let sure = tree.level_confidences(&p, class);
            assert!(sure.is_sorted_by(|above, below| above >= below) && sure.len() == tree.depth());
        }
    }

    #[test]
    fn labels_are_no_more_probable_than_their_ancestors() {
        let (tree, labels) = tree(&["a/x", "a", "b", "a/x/y", "b/z"]);
        tree.check(&labels).unwrap();
        assert_eq!(tree.parents(), [1, 1, 2, 0, 2]);
        let mut p = [0.5, 0.25, 0.75, 0.375, 0.5];
        tree.cap_by_ancestors(&mut p);
        assert_eq!(p, [0.25, 0.25, 0.75, 0.25, 0.5]);
        let mut thresholds = [0.125, 0.25, 0.5, 0.375, 0.625];
        tree.raise_to_ancestors(&mut thresholds);
        assert_eq!(thresholds, [0.25, 0.25, 0.5, 0.375, 0.625]);
        assert_eq!(tree.with_ancestors(&[3]), [0, 1, 3]);
        assert_eq!(tree.with_ancestors(&[4, 1]), [1, 2, 4]);
        assert_eq!(tree.with_ancestors(&[]), [0u32; 0]);
        let complete =
            |labels: &[&str]| tree.complete_labels(&labels.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>());
        assert_eq!(complete(&["b / z", "b", "new"]), ["b/z", "b", "new"]);
        assert_eq!(complete(&["a/x/y", "a/x"]), ["a/x/y", "a/x", "a"]);
    }

    #[test]
    fn damaged_trees_are_rejected() {
        let (tree, labels) = tree(&["a/x", "a/y", "b"]);
        let damaged = |change: &dyn Fn(&mut Hierarchy)| {
            let mut tree = tree.clone();
            change(&mut tree);
            tree.check(&labels).is_err()
        };
        assert!(damaged(&|tree| tree.nodes[1].parent = Some(1)));
        assert!(damaged(&|tree| tree.nodes[0].parent = Some(2)));
        assert!(damaged(&|tree| tree.classes[0] = 77));
        assert!(damaged(&|tree| tree.classes.truncate(2)));
        assert!(damaged(&|tree| tree.classes.swap(0, 1)));
        assert!(damaged(&|tree| tree.nodes.push(HierarchyNode { name: "c".into(), parent: None })));
        assert!(tree.check(&labels).is_ok());
    }
}
