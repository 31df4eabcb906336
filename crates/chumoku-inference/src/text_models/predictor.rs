//! Classifiers and n-gram models with one interface.

use super::classifier::TextClassifier;
use super::ngrams::NgramClassifier;
use super::settings::AnswerSettings;
use crate::Result;
use crate::blend::number::{Estimate, NumberLabel};
use crate::data::{Example, MultiLabelExample, ScoreExample};
use crate::feature_columns::FeatureColumn;
use crate::hierarchy::Hierarchy;
use crate::nn::BackboneKind;
use crate::prediction::Prediction;
use crate::prediction::abstention::AbstentionCalibration;
use crate::prediction::decision_rule::DecisionRule;
use crate::prediction::target::PredictionTarget;
use crate::row::AsRow;
use crate::scoring::{LabelScores, NumberScores, Rows, Scores};

/// A model that predicts classes, labels or numbers.
#[derive(Clone, Copy, Debug)]
pub enum Predictor<'m> {
    /// A classifier with a network.
    Classifier(&'m TextClassifier),
    /// A linear model over n-grams.
    Ngrams(&'m NgramClassifier),
}

impl<'m> Predictor<'m> {
    pub(crate) fn settings(self) -> AnswerSettings<'m> {
        match self {
            Predictor::Classifier(model) => model.config().settings(),
            Predictor::Ngrams(model) => model.config().settings(),
        }
    }

    /// Returns the kind of network, if there is one.
    #[must_use]
    pub fn network_kind(self) -> Option<BackboneKind> {
        match self {
            Predictor::Classifier(model) => Some(model.config().model.backbone.kind()),
            Predictor::Ngrams(_) => None,
        }
    }

    /// Returns `true` if the model has a network and an n-gram model.
    #[must_use]
    pub fn is_ensemble(self) -> bool {
        matches!(self, Predictor::Classifier(model) if model.has_ngrams())
    }

    /// Predicts each text.
    ///
    /// # Errors
    /// As for [`TextClassifier::predict`].
    pub fn predict<R: AsRow>(self, texts: &[R]) -> Result<Vec<Prediction>> {
        match self {
            Predictor::Classifier(model) => model.predict(texts),
            Predictor::Ngrams(model) => model.predict(texts),
        }
    }

    /// Returns the share of a text's n-grams that the model knows.
    pub fn known_share(self, text: impl AsRow) -> Option<f32> {
        match self {
            Predictor::Classifier(model) => model.known_share(text),
            Predictor::Ngrams(model) => Some(model.known_share(text)),
        }
    }

    /// Scores class predictions, resampled with `seed`. With a network, also returns the scores of the network and of
    /// the n-gram model alone. Examples whose label the model does not know are ignored.
    ///
    /// # Errors
    /// If a text cannot be tokenized.
    pub fn score(self, examples: &[Example], seed: u64) -> Result<(Scores, Option<[Scores; 2]>)> {
        match self {
            Predictor::Classifier(model) => model.score(examples, seed).map(|(whole, parts)| (whole, Some(parts))),
            Predictor::Ngrams(model) => model.score(examples, seed).map(|scores| (scores, None)),
        }
    }

    /// Returns the names of classes, labels or thresholds.
    #[must_use]
    pub fn labels(self) -> &'m [String] {
        self.settings().labels
    }

    /// Returns `true` if the model reads text pairs.
    #[must_use]
    pub fn reads_pairs(self) -> bool {
        self.settings().reads_pairs
    }

    /// Returns the feature columns of the model.
    pub fn columns(self) -> &'m [FeatureColumn] {
        self.settings().columns()
    }

    /// Returns the prediction target.
    #[must_use]
    pub fn target(self) -> &'m PredictionTarget {
        self.settings().target
    }

    /// Returns `true` for multi-label models.
    pub fn is_multi_label(self) -> bool {
        self.target().labels().is_some()
    }

    /// Returns `true` for number models.
    pub fn predicts_numbers(self) -> bool {
        self.target().number().is_some()
    }

    /// Returns the predicted number and its interval, for number models.
    pub fn estimate(self, prediction: &Prediction) -> Option<Estimate> {
        self.target().estimate(prediction)
    }

    /// The confidence of the prediction: the probability of the class, of exactly these labels, or of the level nearest
    /// to the number.
    #[must_use]
    pub(crate) fn confidence(self, prediction: &Prediction) -> f32 {
        self.target().confidence(prediction)
    }

    /// Returns the abstention calibration.
    #[must_use]
    pub fn abstention(self) -> Option<&'m AbstentionCalibration> {
        self.settings().abstention
    }

    /// Returns the decision rule. `None` if the model predicts the most probable class or uses a class tree.
    #[must_use]
    pub fn decision_rule(self) -> Option<&'m DecisionRule> {
        self.settings().decision_rule
    }

    /// Returns the tree of mutually exclusive classes, if there is one.
    pub fn hierarchy(self) -> Option<&'m Hierarchy> {
        self.settings().class_hierarchy()
    }

    /// Returns the tree of a multi-label model, if there is one.
    #[must_use]
    pub fn label_hierarchy(self) -> Option<&'m Hierarchy> {
        self.any_hierarchy().filter(|_| self.is_multi_label())
    }

    /// Returns the tree of classes or labels, if there is one.
    #[must_use]
    pub fn any_hierarchy(self) -> Option<&'m Hierarchy> {
        self.settings().hierarchy
    }

    /// Scores label predictions, resampled with `seed`. Labels that the model does not know are ignored.
    ///
    /// # Errors
    /// If a text cannot be tokenized, or the model is not a multi-label model.
    pub fn score_labels(self, examples: &[MultiLabelExample], seed: u64) -> Result<LabelScores> {
        let AnswerSettings { labels, hierarchy, .. } = self.settings();
        self.label_scores(&Rows::from_label_sets(examples, labels).with_ancestors(hierarchy), seed)
    }

    pub(crate) fn label_scores(self, rows: &Rows<Vec<u32>>, seed: u64) -> Result<LabelScores> {
        let AnswerSettings { labels, hierarchy, target, .. } = self.settings();
        target.label_scores(rows, self.predict(&rows.texts())?, (labels, hierarchy), seed)
    }

    /// Scores number predictions, resampled with `seed`. Also returns the true and the predicted number of each text.
    ///
    /// # Errors
    /// If a text cannot be tokenized, or the model does not predict numbers.
    pub fn score_numbers(self, examples: &[ScoreExample], seed: u64) -> Result<(NumberScores, Vec<[f64; 2]>)> {
        let discretizer = &self.target().require_number()?.discretizer;
        self.number_scores(&Rows::from_scores(examples, discretizer), seed)
    }

    pub(crate) fn number_scores(self, rows: &Rows<NumberLabel>, seed: u64) -> Result<(NumberScores, Vec<[f64; 2]>)> {
        self.target().number_scores(rows, &self.predict(&rows.texts())?, seed)
    }
}

impl<'m> From<&'m TextClassifier> for Predictor<'m> {
    fn from(model: &'m TextClassifier) -> Predictor<'m> {
        Predictor::Classifier(model)
    }
}

impl<'m> From<&'m NgramClassifier> for Predictor<'m> {
    fn from(model: &'m NgramClassifier) -> Predictor<'m> {
        Predictor::Ngrams(model)
    }
}
