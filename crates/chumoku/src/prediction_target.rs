//! What a text is told: one class, any number of labels, or a number; and how that follows from what the halves of a predictor say.

use crate::class_thresholds::ClassThresholds;
use crate::hierarchy::Hierarchy;
use crate::label_blend::LabelBlend;
use crate::lang::wording::{did_you_mean, list_names, quote};
use crate::number::{Estimate, NumberBlend, NumberLabel, rearrange};
use crate::prediction::Prediction;
use crate::scoring::{LabelScores, NumberScores, Rows};
use crate::{Error, Result, tr};
use serde::{Deserialize, Serialize};

/// What a text is told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum PredictionTarget {
    /// One class of several that exclude each other; [`ModelConfig::blend`](crate::ModelConfig::blend) joins the two halves.
    #[default]
    OneClass,
    /// Any number of labels; this joins the two halves, and says from which probability on a label is predicted.
    Labels(LabelBlend),
    /// A number; this joins the two halves' answers to whether it lies above each threshold, and says how far it may be off.
    Number(NumberBlend),
}

impl PredictionTarget {
    /// Whether classes exclude each other.
    pub fn is_one_class(&self) -> bool {
        matches!(self, PredictionTarget::OneClass)
    }

    /// How labels are told, if there may be several.
    pub fn labels(&self) -> Option<&LabelBlend> {
        match self {
            PredictionTarget::Labels(blend) => Some(blend),
            PredictionTarget::OneClass | PredictionTarget::Number(_) => None,
        }
    }

    /// How a number is told, if it is one.
    pub fn number(&self) -> Option<&NumberBlend> {
        match self {
            PredictionTarget::Number(blend) => Some(blend),
            PredictionTarget::OneClass | PredictionTarget::Labels(_) => None,
        }
    }

    /// What joins the log-odds of the two halves, if each output is a question of its own.
    pub(crate) fn binary_blend(&self) -> Option<&LabelBlend> {
        match self {
            PredictionTarget::OneClass => None,
            PredictionTarget::Labels(blend) => Some(blend),
            PredictionTarget::Number(number) => Some(&number.blend),
        }
    }

    /// Probabilities from the log-odds of the network and of the n-grams, if each output is a question of its own; labels may stand
    /// in a tree.
    pub(crate) fn probabilities(
        &self,
        tree: Option<&Hierarchy>,
        attention: &[f32],
        ngrams: Option<&[f32]>,
    ) -> Option<Vec<f32>> {
        let mut probabilities = self.binary_blend()?.probabilities(attention, ngrams);
        if self.number().is_some() {
            rearrange(&mut probabilities);
        }
        if let Some(tree) = tree {
            tree.cap_by_ancestors(&mut probabilities);
        }
        Some(probabilities)
    }

    /// The labels that are predicted, the most probable first: those above their thresholds, or the class.
    pub(crate) fn predicted_labels(&self, prediction: &Prediction) -> Vec<usize> {
        let Some(blend) = self.binary_blend() else { return vec![prediction.class()] };
        let is_predicted = |&label: &usize| prediction.probabilities[label] >= blend.thresholds[label];
        prediction.ranked().into_iter().filter(is_predicted).collect()
    }

    /// The number that a prediction stands for, and its interval, if it is one.
    pub(crate) fn estimate(&self, prediction: &Prediction) -> Option<Estimate> {
        self.number().map(|blend| blend.estimate(&prediction.probabilities))
    }

    /// The class, label or threshold that is to be explained: the most probable, or the threshold that a number is least certain
    /// to lie above.
    pub(crate) fn class_to_explain(&self, prediction: &Prediction) -> usize {
        if self.number().is_none() {
            return prediction.class();
        }
        let distance = |&class: &usize| (prediction.probabilities[class] - 0.5).abs();
        let all = 0..prediction.probabilities.len();
        all.min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or_default()
    }

    /// The number of the label that is to be explained instead of the most probable one.
    ///
    /// # Errors
    /// If labels exclude each other, or none has this name.
    pub(crate) fn label_to_explain(&self, labels: &[String], asked: &str) -> Result<usize> {
        if self.labels().is_none() {
            return Err(Error::Setting(tr!(
                "label: expected a model that gives a text any number of labels; this one gives one answer, which is explained",
                "label: 複数のラベルを答えるモデルで使えます。このモデルの答えは 1 つで、それが説明されます"
            )));
        }
        labels.iter().position(|label| label == asked).ok_or_else(|| {
            let hint = did_you_mean(asked, labels.iter().map(String::as_str));
            Error::Setting(tr!(
                "label: expected one of {}, found {}{hint}",
                "label: {} のどれかが必要ですが、{} です{hint}",
                list_names(labels),
                quote(asked)
            ))
        })
    }

    /// How sure the answer is: the probability of the class, of these labels and no others, or of the level nearest to the number.
    pub(crate) fn confidence(&self, prediction: &Prediction) -> f32 {
        match self {
            PredictionTarget::OneClass => prediction.probabilities[prediction.class()],
            PredictionTarget::Labels(blend) => blend.confidence(&prediction.probabilities),
            PredictionTarget::Number(number) => number.confidence(&prediction.probabilities),
        }
    }

    /// Of each row how sure the answer is, and whether it is right: exactly the row's labels.
    pub(crate) fn label_confidences(&self, rows: &Rows<Vec<u32>>, predictions: &[Prediction]) -> Vec<(f32, bool)> {
        let Some(blend) = self.labels() else { return Vec::new() };
        let of_row = |(p, truth): (&Prediction, &Vec<u32>)| {
            (blend.confidence(&p.probabilities), blend.predicted_labels(&p.probabilities) == *truth)
        };
        predictions.iter().zip(&rows.labels).map(of_row).collect()
    }

    /// The same of numbers that are levels: whether the nearest level is the row's number. Nothing of other numbers.
    pub(crate) fn number_confidences(&self, rows: &Rows<NumberLabel>, predictions: &[Prediction]) -> Vec<(f32, bool)> {
        let Some(blend) = self.number().filter(|blend| blend.scale.has_levels()) else { return Vec::new() };
        let of_row = |(p, truth): (&Prediction, &NumberLabel)| {
            let told = blend.estimate(&p.probabilities).score;
            (blend.confidence(&p.probabilities), blend.scale.is_nearest_level(told, truth.number))
        };
        predictions.iter().zip(&rows.labels).map(of_row).collect()
    }

    /// How good the labels are that are told of rows with these predictions, resampled with `seed`.
    ///
    /// # Errors
    /// If no labels are told.
    pub(crate) fn label_scores(
        &self,
        rows: &Rows<Vec<u32>>,
        predictions: Vec<Prediction>,
        (labels, tree): (&[String], Option<&Hierarchy>),
        seed: u64,
    ) -> Result<LabelScores> {
        let PredictionTarget::Labels(blend) = self else {
            return Err(Error::Setting(tr!(
                "this model does not give labels: score it on a file of what it was trained to tell",
                "このモデルが答えるのは複数のラベルではありません。学習したものと同じ種類のファイルで評価してください"
            )));
        };
        let found: Vec<Vec<f32>> = predictions.into_iter().map(|p| p.probabilities).collect();
        let predicted: Vec<Vec<u32>> = found.iter().map(|p| blend.predicted_labels(p)).collect();
        let scores = LabelScores::of(&rows.labels, &predicted, Some(&found), labels, seed);
        Ok(scores.at_levels(tree))
    }

    /// How good the numbers are that are told of rows with these predictions, and the true and the predicted number of each row.
    ///
    /// # Errors
    /// If no numbers are told.
    pub(crate) fn number_scores(
        &self,
        rows: &Rows<NumberLabel>,
        predictions: &[Prediction],
        seed: u64,
    ) -> Result<(NumberScores, Vec<[f64; 2]>)> {
        let blend = self.require_number()?;
        let found: Vec<Estimate> = predictions.iter().map(|p| blend.estimate(&p.probabilities)).collect();
        let truth: Vec<f64> = rows.labels.iter().map(|measured| measured.number).collect();
        let predicted: Vec<f64> = found.iter().map(|estimate| estimate.score).collect();
        let scores = NumberScores::of(&truth, &predicted, Some(&found), &blend.scale, seed);
        Ok((scores, truth.into_iter().zip(predicted).map(|(y, p)| [y, p]).collect()))
    }

    /// How a number is told.
    ///
    /// # Errors
    /// If none is.
    pub(crate) fn require_number(&self) -> Result<&NumberBlend> {
        self.number().ok_or_else(|| {
            Error::Setting(tr!(
                "this model gives classes and no numbers: score it on a file of labels",
                "このモデルは数値ではなくクラスを答えます。ラベルの付いたファイルで評価してください"
            ))
        })
    }

    /// Sets from which probability on each class is the answer, or of labels that do not exclude each other, each label; those
    /// without one stay as they are. Thresholds of classes are returned, those of labels are its own.
    ///
    /// # Errors
    /// If numbers are told, or every class has a threshold, so that there may be no answer.
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
                    "thresholds: this model gives each text a number and no classes",
                    "しきい値: このモデルが答えるのはクラスではなく数値です"
                )));
            }
        }
        Ok(None)
    }

    /// What is wrong with it for so many labels that may stand in a tree, if anything.
    pub(crate) fn check(&self, labels: usize, tree: Option<&Hierarchy>) -> Result<(), String> {
        match self {
            PredictionTarget::OneClass => Ok(()),
            PredictionTarget::Labels(blend) => blend.check(labels).and_then(|()| check_label_nodes(tree)),
            PredictionTarget::Number(number) => number.check(labels),
        }
    }
}

/// What is wrong with the tree of labels that do not exclude each other, if anything: each node is one.
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
