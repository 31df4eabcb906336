//! The prediction target of a model: one class, any number of labels, or a number. Each target computes its answer from
//! the outputs of both ensemble members.

use crate::blend::binary_blend::BinaryBlend;
use crate::blend::number::{Estimate, NumberBlend, NumberLabel, rearrange};
use crate::hierarchy::Hierarchy;
use crate::lang::wording::{did_you_mean, list_names, quote};
use crate::prediction::Prediction;
use crate::prediction::class_thresholds::ClassThresholds;
use crate::scoring::{LabelScores, NumberScores, Rows};
use crate::{Error, Result, tr};
use serde::{Deserialize, Serialize};

/// The prediction target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PredictionTarget {
    /// One of several mutually exclusive classes.
    /// [`TextClassifierConfig::blend`](crate::TextClassifierConfig::blend) combines the ensemble members.
    #[default]
    OneClass,
    /// Any number of labels. The blend combines the ensemble members and holds the label thresholds.
    Labels(BinaryBlend),
    /// A number. The blend combines the members' probabilities of exceeding each threshold, and calibrates the
    /// interval.
    Number(NumberBlend),
}

impl PredictionTarget {
    /// Returns `true` if the classes are mutually exclusive.
    pub fn is_one_class(&self) -> bool {
        matches!(self, PredictionTarget::OneClass)
    }

    /// Returns the blend of a multi-label model.
    pub fn labels(&self) -> Option<&BinaryBlend> {
        match self {
            PredictionTarget::Labels(blend) => Some(blend),
            PredictionTarget::OneClass | PredictionTarget::Number(_) => None,
        }
    }

    /// Returns the blend of a number model.
    pub fn number(&self) -> Option<&NumberBlend> {
        match self {
            PredictionTarget::Number(blend) => Some(blend),
            PredictionTarget::OneClass | PredictionTarget::Labels(_) => None,
        }
    }

    /// Returns the blend of the members' log-odds, for models whose outputs are independent binary questions.
    pub fn binary_blend(&self) -> Option<&BinaryBlend> {
        match self {
            PredictionTarget::OneClass => None,
            PredictionTarget::Labels(blend) => Some(blend),
            PredictionTarget::Number(number) => Some(&number.blend),
        }
    }

    /// Returns probabilities from the log-odds of both members, for models whose outputs are independent binary
    /// questions. If the labels form a tree, no label is more probable than its ancestors.
    pub(crate) fn probabilities(
        &self,
        tree: Option<&Hierarchy>,
        network: &[f32],
        ngrams: Option<&[f32]>,
    ) -> Option<Vec<f32>> {
        let mut probabilities = self.binary_blend()?.probabilities(network, ngrams);
        if self.number().is_some() {
            rearrange(&mut probabilities);
        }
        if let Some(tree) = tree {
            tree.cap_by_ancestors(&mut probabilities);
        }
        Some(probabilities)
    }

    /// Returns the predicted labels, most probable first: the labels above their thresholds, or the predicted class.
    pub(crate) fn predicted_labels(&self, prediction: &Prediction) -> Vec<usize> {
        let Some(blend) = self.binary_blend() else { return vec![prediction.class()] };
        let is_predicted = |&label: &usize| prediction.probabilities[label] >= blend.thresholds[label];
        prediction.ranked().into_iter().filter(is_predicted).collect()
    }

    /// Returns the predicted number and its interval, for number models.
    pub(crate) fn estimate(&self, prediction: &Prediction) -> Option<Estimate> {
        self.number().map(|blend| blend.estimate(&prediction.probabilities))
    }

    /// Returns the class, label or threshold to explain. This is the most probable class or label, or the threshold
    /// whose probability is nearest to ½.
    pub(crate) fn class_to_explain(&self, prediction: &Prediction) -> usize {
        if self.number().is_none() {
            return prediction.class();
        }
        let distance = |&class: &usize| (prediction.probabilities[class] - 0.5).abs();
        let all = 0..prediction.probabilities.len();
        all.min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or_default()
    }

    /// Returns the index of the label to explain, by name.
    ///
    /// # Errors
    /// If the model is not a multi-label model, or there is no label with this name.
    pub(crate) fn label_to_explain(&self, labels: &[String], name: &str) -> Result<usize> {
        if self.labels().is_none() {
            return Err(Error::Setting(tr!(
                "label: expected a multi-label model; this model gives one answer, and explains it without this option",
                "label: 複数のラベルを答えるモデルで使えます。このモデルの答えは 1 つで、指定しなくても説明されます"
            )));
        }
        labels.iter().position(|label| label == name).ok_or_else(|| {
            let hint = did_you_mean(name, labels.iter().map(String::as_str));
            Error::Setting(tr!(
                "label: expected one of {}, found {}{hint}",
                "label: {} のどれかが必要ですが、{} です{hint}",
                list_names(labels),
                quote(name)
            ))
        })
    }

    /// The confidence of the prediction: the probability of the class, of exactly these labels, or of the level nearest
    /// to the number.
    pub(crate) fn confidence(&self, prediction: &Prediction) -> f32 {
        match self {
            PredictionTarget::OneClass => prediction.probabilities[prediction.class()],
            PredictionTarget::Labels(blend) => blend.confidence(&prediction.probabilities),
            PredictionTarget::Number(number) => number.confidence(&prediction.probabilities),
        }
    }

    /// Returns the confidence of each row, and whether exactly the row's labels are predicted.
    pub fn label_confidences(&self, rows: &Rows<Vec<u32>>, predictions: &[Prediction]) -> Vec<(f32, bool)> {
        let Some(blend) = self.labels() else { return Vec::new() };
        let of_row = |(p, truth): (&Prediction, &Vec<u32>)| {
            (blend.confidence(&p.probabilities), blend.predicted_labels(&p.probabilities) == *truth)
        };
        predictions.iter().zip(&rows.labels).map(of_row).collect()
    }

    /// Returns the confidence of each row, and whether the nearest level is the row's number. Empty unless the numbers
    /// are levels.
    pub fn number_confidences(&self, rows: &Rows<NumberLabel>, predictions: &[Prediction]) -> Vec<(f32, bool)> {
        let Some(blend) = self.number().filter(|blend| blend.discretizer.has_levels()) else { return Vec::new() };
        let of_row = |(p, truth): (&Prediction, &NumberLabel)| {
            let score = blend.estimate(&p.probabilities).score;
            (blend.confidence(&p.probabilities), blend.discretizer.is_nearest_level(score, truth.number))
        };
        predictions.iter().zip(&rows.labels).map(of_row).collect()
    }

    /// Scores label predictions, resampled with `seed`.
    ///
    /// # Errors
    /// If the model is not a multi-label model.
    pub fn label_scores(
        &self,
        rows: &Rows<Vec<u32>>,
        predictions: Vec<Prediction>,
        (labels, tree): (&[String], Option<&Hierarchy>),
        seed: u64,
    ) -> Result<LabelScores> {
        let blend = self.require_labels()?;
        let found: Vec<Vec<f32>> = predictions.into_iter().map(|p| p.probabilities).collect();
        let predicted: Vec<Vec<u32>> = found.iter().map(|p| blend.predicted_labels(p)).collect();
        let scores = LabelScores::of(&rows.labels, &predicted, Some(&found), labels, seed);
        Ok(scores.with_levels(tree))
    }

    /// Scores number predictions, resampled with `seed`. Also returns the true and the predicted number of each row.
    ///
    /// # Errors
    /// If the model does not predict numbers.
    pub fn number_scores(
        &self,
        rows: &Rows<NumberLabel>,
        predictions: &[Prediction],
        seed: u64,
    ) -> Result<(NumberScores, Vec<[f64; 2]>)> {
        let blend = self.require_number()?;
        let found: Vec<Estimate> = predictions.iter().map(|p| blend.estimate(&p.probabilities)).collect();
        let truth: Vec<f64> = rows.labels.iter().map(|measured| measured.number).collect();
        let predicted: Vec<f64> = found.iter().map(|estimate| estimate.score).collect();
        let scores = NumberScores::of(&truth, &predicted, Some(&found), &blend.discretizer, seed);
        Ok((scores, truth.into_iter().zip(predicted).map(|(y, p)| [y, p]).collect()))
    }

    /// Returns the blend of a multi-label model.
    ///
    /// # Errors
    /// If the model is not a multi-label model.
    pub fn require_labels(&self) -> Result<&BinaryBlend> {
        self.labels().ok_or_else(|| {
            Error::Setting(tr!(
                "this is not a multi-label model: evaluate it on a file with the target it was trained on",
                "複数のラベルを答えるモデルではありません。学習時と同じ種類のファイルで評価してください"
            ))
        })
    }

    /// Converts a target fitted on the log-odds of n-grams alone: the fitted weight becomes the weight of n-grams.
    pub fn into_ngrams_only(self) -> PredictionTarget {
        match self {
            PredictionTarget::Labels(blend) => PredictionTarget::Labels(blend.into_ngrams_only()),
            PredictionTarget::Number(blend) => PredictionTarget::Number(blend.into_ngrams_only()),
            PredictionTarget::OneClass => PredictionTarget::OneClass,
        }
    }

    /// Returns the number blend.
    ///
    /// # Errors
    /// If the model does not predict numbers.
    pub fn require_number(&self) -> Result<&NumberBlend> {
        self.number().ok_or_else(|| {
            Error::Setting(tr!(
                "this model predicts classes, not numbers: evaluate it on a file with labels",
                "このモデルは数値ではなくクラスを答えます。ラベルの付いたファイルで評価してください"
            ))
        })
    }

    /// Sets the probability thresholds of classes or labels. Entries of `None` keep the current behavior. Returns the
    /// thresholds of classes. Label thresholds are stored in the blend.
    ///
    /// # Errors
    /// If the model predicts numbers, or every class has a threshold, so that a text may have no answer.
    pub(crate) fn set_thresholds(
        &mut self,
        least: &[Option<f32>],
        (classes, tree): (usize, Option<&Hierarchy>),
    ) -> Result<Option<ClassThresholds>> {
        match self {
            PredictionTarget::OneClass => return ClassThresholds::new_checked(least, classes).map(Some),
            PredictionTarget::Labels(blend) => {
                let given = blend.thresholds.iter_mut().zip(least);
                given.for_each(|(threshold, least)| *threshold = least.unwrap_or(*threshold));
                tree.into_iter().for_each(|tree| tree.raise_to_ancestors(&mut blend.thresholds));
            }
            PredictionTarget::Number(_) => {
                return Err(Error::Setting(tr!(
                    "thresholds: this model predicts numbers, not classes",
                    "しきい値: このモデルが答えるのはクラスではなく数値です"
                )));
            }
        }
        Ok(None)
    }

    /// Checks the values for this number of labels and their tree, if any.
    pub(crate) fn check(&self, labels: usize, tree: Option<&Hierarchy>) -> Result<(), String> {
        match self {
            PredictionTarget::OneClass => Ok(()),
            PredictionTarget::Labels(blend) => blend.check(labels).and_then(|()| check_label_nodes(tree)),
            PredictionTarget::Number(number) => number.check(labels),
        }
    }
}

/// Checks the tree of a multi-label model: each node must be a label.
fn check_label_nodes(tree: Option<&Hierarchy>) -> Result<(), String> {
    let Some((nodes, labels)) = tree.map(|tree| (tree.nodes().len(), tree.parents().len())) else { return Ok(()) };
    if nodes == labels {
        return Ok(());
    }
    Err(tr!(
        "hierarchy: expected each of its {nodes} nodes to be a label, found {labels} labels",
        "hierarchy: {nodes} 個の節のすべてがラベルである必要がありますが、ラベルは {labels} 個です"
    ))
}
