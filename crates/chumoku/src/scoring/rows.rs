//! Texts and their answers.

use super::Judged;
use crate::data::{Example, LabelledText, ScoredText};
use crate::hierarchy::Hierarchy;
use crate::ngram::Answer;
use crate::number::{Measured, NumberScale};
use std::collections::HashMap;

/// Texts and their answers: a class each, any number of labels each (`A = Vec<u32>`), or a number each
/// (`A = Measured`).
#[derive(Clone, Debug)]
pub struct Rows<A = u32> {
    /// The texts.
    pub texts: Vec<String>,
    /// Each text's class, as an index into the labels; or its labels, ascending; or its number.
    pub labels: Vec<A>,
}

impl<A> Default for Rows<A> {
    fn default() -> Self {
        Rows { texts: Vec::new(), labels: Vec::new() }
    }
}

impl<A: Answer> Rows<A> {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The texts, borrowed.
    pub fn texts(&self) -> Vec<&str> {
        self.texts.iter().map(String::as_str).collect()
    }
}

fn numbers(labels: &[String]) -> HashMap<&str, u32> {
    labels.iter().map(String::as_str).zip(0..).collect()
}

impl Rows {
    /// These rows as they were `predicted`; `texts` are theirs.
    pub(crate) fn judged<'a>(&'a self, predicted: &'a [u32], texts: &'a [&'a str]) -> Judged<'a> {
        Judged { truth: &self.labels, predicted, texts }
    }

    /// Rows of examples whose labels are in `labels`; others are left out.
    pub fn of<'a>(examples: impl IntoIterator<Item = &'a Example>, labels: &[String]) -> Rows {
        let numbers = numbers(labels);
        let known = examples.into_iter().filter_map(|example| {
            let label = *numbers.get(example.label.as_str())?;
            Some((example.text.clone(), label))
        });
        let (texts, labels) = known.unzip();
        Rows { texts, labels }
    }
}

impl Rows<Vec<u32>> {
    /// Rows of examples; labels that are not in `labels` are left out.
    pub fn of_sets<'a>(examples: impl IntoIterator<Item = &'a LabelledText>, labels: &[String]) -> Rows<Vec<u32>> {
        let numbers = numbers(labels);
        let row = |example: &LabelledText| {
            let mut found: Vec<u32> =
                example.labels.iter().filter_map(|label| numbers.get(label.as_str()).copied()).collect();
            found.sort_unstable();
            found.dedup();
            (example.text.clone(), found)
        };
        let (texts, labels) = examples.into_iter().map(row).unzip();
        Rows { texts, labels }
    }

    /// The same with the labels above theirs, where labels stand in a tree.
    pub(crate) fn closed(mut self, tree: Option<&Hierarchy>) -> Self {
        if let Some(tree) = tree {
            self.labels.iter_mut().for_each(|labels| *labels = tree.closed(labels));
        }
        self
    }
}

impl Rows<Measured> {
    /// Rows of examples on a scale.
    pub fn of_scores<'a>(examples: impl IntoIterator<Item = &'a ScoredText>, scale: &NumberScale) -> Rows<Measured> {
        let row = |example: &ScoredText| (example.text.clone(), scale.measured(example.score));
        let (texts, labels) = examples.into_iter().map(row).unzip();
        Rows { texts, labels }
    }
}
