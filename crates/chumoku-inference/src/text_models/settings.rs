//! The settings that classifiers and n-gram models share.

use crate::feature_columns::{self, FeatureColumn};
use crate::hierarchy::Hierarchy;
use crate::ngram::NgramScheme;
use crate::prediction::Prediction;
use crate::prediction::abstention::AbstentionCalibration;
use crate::prediction::class_thresholds::ClassThresholds;
use crate::prediction::decision_rule::DecisionRule;
use crate::prediction::target::PredictionTarget;
use crate::{Error, Result, tr};
use std::collections::HashSet;
use std::ops::RangeInclusive;

/// The part of a configuration that turns scores into answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerSettings<'m> {
    /// The classes or labels, ordered by index.
    pub(crate) labels: &'m [String],
    pub(crate) target: &'m PredictionTarget,
    /// The tree of classes or labels, if they form one.
    pub(crate) hierarchy: Option<&'m Hierarchy>,
    pub(crate) abstention: Option<&'m AbstentionCalibration>,
    /// The decision rule. `None` predicts the most probable class.
    pub(crate) decision_rule: Option<&'m DecisionRule>,
    pub(crate) ngrams: Option<&'m NgramScheme>,
    /// `true` if the model reads text pairs.
    pub(crate) reads_pairs: bool,
}

impl<'m> AnswerSettings<'m> {
    /// Returns the feature columns, in order.
    pub(crate) fn columns(self) -> &'m [FeatureColumn] {
        self.ngrams.map_or(&[][..], |scheme| &scheme.columns)
    }

    /// Returns the tree of mutually exclusive classes.
    pub(crate) fn class_hierarchy(self) -> Option<&'m Hierarchy> {
        self.hierarchy.filter(|_| self.target.is_one_class())
    }

    /// Returns the predicted class by the caller's thresholds, the decision rule or the class tree, in this order.
    /// `None` if the most probable class is the answer.
    pub(crate) fn decide_class(self, thresholds: Option<&ClassThresholds>, probabilities: &[f32]) -> Option<usize> {
        match (thresholds, self.decision_rule) {
            (Some(thresholds), _) => thresholds.class(probabilities),
            (None, Some(decision)) => Some(decision.class(probabilities)),
            (None, None) => self.class_hierarchy().map(|tree| tree.predict(probabilities)),
        }
    }

    /// Returns the class, label or threshold to explain. Defaults to that of the prediction.
    ///
    /// # Errors
    /// If a label is given and the model is not a multi-label model or has no label with this name.
    pub(crate) fn class_to_explain(self, prediction: &Prediction, label: Option<&str>) -> Result<usize> {
        match label {
            Some(label) => self.target.label_to_explain(self.labels, label),
            None => Ok(self.target.class_to_explain(prediction)),
        }
    }

    /// Checks the settings.
    pub(crate) fn check(self) -> Result<(), String> {
        check_labels(self.labels)?;
        self.abstention.map_or(Ok(()), AbstentionCalibration::check)?;
        self.check_hierarchy()?;
        self.decision_rule.map_or(Ok(()), |decision| decision.check(self.labels.len()))?;
        self.ngrams.map_or(Ok(()), |scheme| feature_columns::check(&scheme.columns, scheme.column_scale))?;
        self.target.check(self.labels.len(), self.hierarchy)
    }

    fn check_hierarchy(self) -> Result<(), String> {
        let Some(tree) = self.hierarchy else { return Ok(()) };
        tree.check(self.labels)?;
        let rows = self.abstention.map_or(&[][..], |calibration| &calibration.levels);
        let (depth, found) = (tree.depth(), rows.first().map_or(tree.depth(), |row| row.0.len()));
        if depth == found {
            return Ok(());
        }
        Err(tr!(
            "caution: expected {depth} levels, as the hierarchy has, found {found}",
            "caution: hierarchy と同じ {depth} 段の levels が必要ですが、{found} 段です"
        ))
    }
}

/// Checks the names of classes.
pub(crate) fn check_labels(labels: &[String]) -> Result<(), String> {
    if labels.len() < 2 {
        return Err(tr!(
            "labels: expected at least 2, found {}",
            "labels: 2 個以上が必要ですが、{} 個です",
            labels.len()
        ));
    }
    if let Some(label) = labels.iter().find(|label| label.trim().is_empty()) {
        return Err(tr!(
            "labels: expected a name for each class, found \"{label}\"",
            "labels: クラスごとに名前が必要ですが、\"{label}\" があります"
        ));
    }
    let mut seen = HashSet::new();
    if let Some(label) = labels.iter().find(|label| !seen.insert(label.as_str())) {
        return Err(tr!(
            "labels: expected each label once, found \"{label}\" twice",
            "labels: 同じ名前 \"{label}\" が二つあります"
        ));
    }
    Ok(())
}

/// The sizes of a vocabulary that a configuration may ask for.
pub(crate) const VOCABULARY_SIZES: RangeInclusive<usize> = 1..=1 << 24;

/// The numbers of tokens in one input that a configuration may ask for.
pub(crate) const INPUT_LENGTHS: RangeInclusive<usize> = 2..=1 << 20;

/// The numbers of layers or positions that a configuration may ask for.
pub(crate) const SMALL_COUNTS: RangeInclusive<usize> = 1..=1 << 10;

/// Checks a size of a configuration.
pub(crate) fn check_size(name: &str, size: usize, limits: RangeInclusive<usize>) -> Result<(), String> {
    if limits.contains(&size) {
        return Ok(());
    }
    let (least, most) = limits.into_inner();
    Err(tr!(
        "{name}: expected {least} to {most}, found {size}",
        "{name}: {least} から {most} までが必要ですが、{size} です"
    ))
}

/// The error for a probability that is not a number.
pub(crate) fn not_finite_error() -> Error {
    Error::NotFinite(tr!(
        "the model gives a probability that is not a number: its weights are too large to use",
        "モデルの確率が数値になりません。重みが大きすぎて使えません"
    ))
}
