//! Texts with their targets.

use super::PredictedRows;
use crate::blend::number::{NumberDiscretizer, NumberLabel};
use crate::data::{Example, MultiLabelExample, ScoreExample};
use crate::hierarchy::Hierarchy;
use crate::ngram::NgramTarget;
use crate::row::{Row, RowRef, as_rows};
use std::collections::HashMap;

/// Texts with their targets: one class each, any number of labels (`A = Vec<u32>`), or a number (`A = NumberLabel`).
#[derive(Clone, Debug)]
pub struct Rows<A = u32> {
    /// The texts.
    pub texts: Vec<Row>,
    /// Each text's class as an index into the labels, its labels in ascending order, or its number.
    pub labels: Vec<A>,
    /// Weight of each row in training, and in choices by validation rows; `None` for equal weights. Training requires
    /// one number from 1e-30 to 1e20 for each row, as `chumoku::train::row_weights` returns them.
    pub weights: Option<Vec<f32>>,
}

impl<A> Default for Rows<A> {
    fn default() -> Self {
        Rows { texts: Vec::new(), labels: Vec::new(), weights: None }
    }
}

impl<A: NgramTarget> Rows<A> {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Returns the texts, borrowed.
    pub fn texts(&self) -> Vec<RowRef<'_>> {
        as_rows(&self.texts)
    }

    /// Selects rows by index, in the given order.
    pub fn select(&self, rows: &[usize]) -> Rows<A> {
        Rows {
            texts: rows.iter().map(|&row| self.texts[row].clone()).collect(),
            labels: rows.iter().map(|&row| self.labels[row].clone()).collect(),
            weights: select_weights(self.weights.as_deref(), rows),
        }
    }

    /// Appends the other rows.
    pub fn concat(mut self, others: Rows<A>) -> Rows<A> {
        if self.weights.is_some() || others.weights.is_some() {
            let of = |rows: &Rows<A>| rows.weights.clone().unwrap_or_else(|| vec![1.0; rows.len()]);
            self.weights = Some([of(&self), of(&others)].concat());
        }
        self.texts.extend(others.texts);
        self.labels.extend(others.labels);
        self
    }

    /// Returns the product of each row's weight and its class weight; `None` for equal weights.
    pub fn row_weights(&self, class_weights: Option<&[f32]>) -> Option<Vec<f32>> {
        let class_weights = class_weights.filter(|_| !A::IS_SET);
        if class_weights.is_none() && self.weights.is_none() {
            return None;
        }
        let of_class = |answer: &A| match (class_weights, answer.label_ids()) {
            (Some(weights), &[label]) => weights[label as usize],
            _ => 1.0,
        };
        let of_row = |row: usize| self.weights.as_ref().map_or(1.0, |weights| weights[row]);
        Some(self.labels.iter().enumerate().map(|(row, answer)| of_row(row) * of_class(answer)).collect())
    }
}

/// Selects weights by row index.
pub fn select_weights(weights: Option<&[f32]>, rows: &[usize]) -> Option<Vec<f32>> {
    weights.map(|weights| rows.iter().map(|&row| weights[row]).collect())
}

fn label_ids(labels: &[String]) -> HashMap<&str, u32> {
    labels.iter().map(String::as_str).zip(0..).collect()
}

impl Rows {
    /// Pairs these rows with their predictions; `texts` are the rows' texts.
    pub fn predicted_rows<'a>(&'a self, predicted: &'a [u32], texts: &'a [RowRef<'a>]) -> PredictedRows<'a> {
        PredictedRows { truth: &self.labels, predicted, texts }
    }

    /// Converts examples whose labels are in `labels`; skips the others.
    pub fn from_examples<'a>(examples: impl IntoIterator<Item = &'a Example>, labels: &[String]) -> Rows {
        let numbers = label_ids(labels);
        let known = examples.into_iter().filter_map(|example| {
            let label = *numbers.get(example.label.as_str())?;
            Some((example.text.clone(), label))
        });
        let (texts, labels) = known.unzip();
        Rows { texts, labels, weights: None }
    }
}

impl Rows<Vec<u32>> {
    /// Converts examples; drops labels that are not in `labels`.
    pub fn from_label_sets<'a>(
        examples: impl IntoIterator<Item = &'a MultiLabelExample>,
        labels: &[String],
    ) -> Rows<Vec<u32>> {
        let numbers = label_ids(labels);
        let row = |example: &MultiLabelExample| {
            let mut found: Vec<u32> =
                example.labels.iter().filter_map(|label| numbers.get(label.as_str()).copied()).collect();
            found.sort_unstable();
            found.dedup();
            (example.text.clone(), found)
        };
        let (texts, labels) = examples.into_iter().map(row).unzip();
        Rows { texts, labels, weights: None }
    }

    /// Adds the ancestors of each label, if the labels form a tree.
    pub(crate) fn with_ancestors(mut self, tree: Option<&Hierarchy>) -> Self {
        if let Some(tree) = tree {
            self.labels.iter_mut().for_each(|labels| *labels = tree.with_ancestors(labels));
        }
        self
    }
}

impl Rows<NumberLabel> {
    /// Converts examples, with each number as a label for the threshold questions.
    pub fn from_scores<'a>(
        examples: impl IntoIterator<Item = &'a ScoreExample>,
        discretizer: &NumberDiscretizer,
    ) -> Rows<NumberLabel> {
        let row = |example: &ScoreExample| (example.text.clone(), discretizer.label(example.score));
        let (texts, labels) = examples.into_iter().map(row).unzip();
        Rows { texts, labels, weights: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(labels: &[u32], weights: Option<&[f32]>) -> Rows {
        let texts = (0..labels.len()).map(|row| format!("text {row}").into()).collect();
        Rows { texts, labels: labels.to_vec(), weights: weights.map(<[f32]>::to_vec) }
    }

    #[test]
    fn weights_stay_with_their_rows() {
        let weighted = rows(&[0, 1, 1], Some(&[1.0, 2.0, 3.0]));
        let some = weighted.select(&[2, 0]);
        assert_eq!(some.texts[0], "text 2");
        assert_eq!(some.labels, [1, 0]);
        assert_eq!(some.weights, Some(vec![3.0, 1.0]));
        // Rows without weights get weight 1 when appended to rows with weights.
        let plain = rows(&[0], None);
        assert_eq!(plain.clone().concat(some.clone()).weights, Some(vec![1.0, 3.0, 1.0]));
        assert_eq!(some.concat(plain.clone()).weights, Some(vec![3.0, 1.0, 1.0]));
        assert_eq!(plain.clone().concat(plain).weights, None);
    }

    #[test]
    fn a_row_counts_with_its_weight_times_its_class_weight() {
        let of_classes = Some(&[0.5, 4.0][..]);
        let (plain, weighted) = (rows(&[0, 1, 1], None), rows(&[0, 1, 1], Some(&[1.0, 2.0, 3.0])));
        assert_eq!(plain.row_weights(None), None);
        assert_eq!(plain.row_weights(of_classes), Some(vec![0.5, 4.0, 4.0]));
        assert_eq!(weighted.row_weights(None), Some(vec![1.0, 2.0, 3.0]));
        assert_eq!(weighted.row_weights(of_classes), Some(vec![0.5, 8.0, 12.0]));
        // Multi-label targets have no class weights.
        let sets = Rows { texts: vec![Row::default()], labels: vec![vec![1]], weights: Some(vec![2.0]) };
        assert_eq!(sets.row_weights(of_classes), Some(vec![2.0]));
    }
}
