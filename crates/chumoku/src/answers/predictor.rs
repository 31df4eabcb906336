//! Models that predict classes, labels or numbers, and their answers.

use super::{AnswerDecision, insert_text, rounded_probability};
use crate::data::{MultiLabelExample, ScoreExample};
use crate::explain::json_number;
use crate::hierarchy::Hierarchy;
use crate::scoring::{LabelScores, NumberScores};
use crate::{
    AbstentionCalibration, DecisionRule, Estimate, FeatureColumn, NgramClassifier, Prediction, PredictionTarget,
    Result, TextClassifier,
};
use serde_json::{Map, Value, json};

/// The JSON keys and column names of a predicted number.
pub const NUMBER_KEYS: [&str; 3] = ["score", "low", "high"];

/// A model that predicts classes, labels or numbers.
#[derive(Clone, Copy, Debug)]
pub enum Predictor<'m> {
    /// A classifier with a network.
    Classifier(&'m TextClassifier),
    /// An n-gram model.
    Ngrams(&'m NgramClassifier),
}

impl<'m> Predictor<'m> {
    /// Returns the names of classes, labels or thresholds.
    #[must_use]
    pub fn labels(self) -> &'m [String] {
        match self {
            Predictor::Classifier(model) => model.labels(),
            Predictor::Ngrams(model) => model.labels(),
        }
    }

    /// Returns `true` if the model reads text pairs.
    #[must_use]
    pub fn reads_pairs(self) -> bool {
        match self {
            Predictor::Classifier(model) => model.config().reads_pairs(),
            Predictor::Ngrams(model) => model.config().reads_pairs(),
        }
    }

    /// Returns the feature columns of the model.
    pub fn columns(self) -> &'m [FeatureColumn] {
        match self {
            Predictor::Classifier(model) => model.config().columns(),
            Predictor::Ngrams(model) => model.columns(),
        }
    }

    /// Returns the prediction target.
    #[must_use]
    pub fn target(self) -> &'m PredictionTarget {
        match self {
            Predictor::Classifier(model) => &model.config().target,
            Predictor::Ngrams(model) => &model.config().target,
        }
    }

    /// Returns `true` for multi-label models.
    pub fn is_multi_label(self) -> bool {
        self.target().labels().is_some()
    }

    /// Returns the predicted number, for number models.
    pub fn estimate(self, prediction: &Prediction) -> Option<Estimate> {
        self.target().estimate(prediction)
    }

    /// The confidence of the prediction: the probability of the class, of exactly these labels, or of the level nearest
    /// to the number.
    #[must_use]
    pub fn confidence(self, prediction: &Prediction) -> f32 {
        self.target().confidence(prediction)
    }

    /// Returns the abstention calibration.
    #[must_use]
    pub fn abstention(self) -> Option<&'m AbstentionCalibration> {
        match self {
            Predictor::Classifier(model) => model.config().abstention.as_ref(),
            Predictor::Ngrams(model) => model.config().abstention.as_ref(),
        }
    }

    /// Returns the decision rule. `None` if the model predicts the most probable class or uses a class tree.
    #[must_use]
    pub fn decision_rule(self) -> Option<&'m DecisionRule> {
        match self {
            Predictor::Classifier(model) => model.config().decision_rule.as_ref(),
            Predictor::Ngrams(model) => model.config().decision_rule.as_ref(),
        }
    }

    /// Returns the tree of mutually exclusive classes, if there is one.
    pub fn hierarchy(self) -> Option<&'m Hierarchy> {
        match self {
            Predictor::Classifier(model) => model.config().tree(),
            Predictor::Ngrams(model) => model.config().tree(),
        }
    }

    /// Returns the tree of a multi-label model, if there is one.
    #[must_use]
    pub fn label_hierarchy(self) -> Option<&'m Hierarchy> {
        let tree = match self {
            Predictor::Classifier(model) => model.config().hierarchy.as_ref(),
            Predictor::Ngrams(model) => model.config().hierarchy.as_ref(),
        };
        tree.filter(|_| self.is_multi_label())
    }

    /// Scores label predictions, resampled with `seed`.
    ///
    /// # Errors
    /// As for [`TextClassifier::score_labels`].
    pub fn score_labels(self, examples: &[MultiLabelExample], seed: u64) -> Result<LabelScores> {
        match self {
            Predictor::Classifier(model) => model.score_labels(examples, seed),
            Predictor::Ngrams(model) => model.score_labels(examples, seed),
        }
    }

    /// Scores number predictions, resampled with `seed`. Also returns the true and the predicted number of each text.
    ///
    /// # Errors
    /// As for [`TextClassifier::score_numbers`].
    pub fn score_numbers(self, examples: &[ScoreExample], seed: u64) -> Result<(NumberScores, Vec<[f64; 2]>)> {
        match self {
            Predictor::Classifier(model) => model.score_numbers(examples, seed),
            Predictor::Ngrams(model) => model.score_numbers(examples, seed),
        }
    }

    /// Returns the nodes on the path to the predicted class, down to the last answered level. Empty without a tree.
    pub fn levels(self, prediction: &Prediction, decision: Option<AnswerDecision>) -> Vec<(&'m str, f32)> {
        let Some(tree) = self.hierarchy() else { return Vec::new() };
        let mut levels = tree.levels(&prediction.probabilities, prediction.class());
        match decision {
            Some(AnswerDecision::UpToLevel(level)) => levels.truncate(level),
            Some(AnswerDecision::Abstain(_)) => levels.clear(),
            Some(AnswerDecision::Full) | None => {}
        }
        levels
    }

    /// Returns the answer and its probability: the class, or its ancestor at the last answered level. For an
    /// abstention, the probability is the one that was too low.
    pub fn answered_class(self, prediction: &Prediction, verdict: Option<AnswerDecision>) -> (&'m str, f32) {
        let class = prediction.class();
        let whole = (self.labels()[class].as_str(), prediction.probabilities[class]);
        let level = match (self.hierarchy(), verdict) {
            (Some(_), Some(AnswerDecision::UpToLevel(level))) => level,
            (Some(_), Some(AnswerDecision::Abstain(_))) => 1,
            _ => return whole,
        };
        let Some(tree) = self.hierarchy() else { return whole };
        // Below the end of the path, the answer is the class itself.
        tree.levels(&prediction.probabilities, class).get(level - 1).copied().unwrap_or(whole)
    }

    /// Returns the share of a text's n-grams that the model knows.
    pub fn known_share(self, text: &str) -> Option<f32> {
        match self {
            Predictor::Classifier(model) => model.known_share(text),
            Predictor::Ngrams(model) => Some(model.known_share(text)),
        }
    }

    /// Returns `true` for number models.
    pub fn predicts_numbers(self) -> bool {
        self.target().number().is_some()
    }

    /// Returns the answered classes or labels, most probable first: the predicted ones, or the `top` most probable
    /// ones.
    pub fn answer_labels(self, prediction: &Prediction, top: Option<usize>) -> Vec<(&'m str, f32)> {
        let found = match top {
            Some(n) => prediction.ranked().into_iter().take(n).collect(),
            None => self.target().predicted_labels(prediction),
        };
        found.into_iter().map(|class| (self.labels()[class].as_str(), prediction.probabilities[class])).collect()
    }

    /// Predicts each text.
    ///
    /// # Errors
    /// As for [`TextClassifier::predict`].
    pub fn predict(self, texts: &[&str]) -> Result<Vec<Prediction>> {
        match self {
            Predictor::Classifier(model) => model.predict(texts),
            Predictor::Ngrams(model) => model.predict(texts),
        }
    }

    /// Returns the JSON object of an answer. Both the requested number of classes and the decision under `--abstain`
    /// are optional.
    pub fn answer_json(
        self,
        text: &str,
        prediction: &Prediction,
        (asked, verdict): (Option<usize>, Option<AnswerDecision>),
    ) -> Map<String, Value> {
        let class = |(label, p): (&str, f32)| json!({ "label": label, "probability": rounded_probability(p) });
        let mut object = Map::new();
        insert_text(&mut object, text);
        let objection = verdict.map(AnswerDecision::abstention_reason);
        let is_answered = objection.flatten().is_none();
        if let Some(estimate) = self.estimate(prediction) {
            let told = |x: f64| if is_answered { json!(x) } else { Value::Null };
            object.extend(NUMBER_KEYS.into_iter().zip(estimate.rounded()).map(|(key, x)| (key.to_owned(), told(x))));
        } else if self.is_multi_label() {
            let labels: Value = self.answer_labels(prediction, asked).into_iter().map(class).collect();
            object.insert("labels".into(), if is_answered { labels } else { Value::Null });
        } else {
            let (label, probability) = self.answered_class(prediction, verdict);
            object.insert("label".into(), if is_answered { label.into() } else { Value::Null });
            object.insert("probability".into(), rounded_probability(probability));
            if self.hierarchy().is_some() {
                object.insert("levels".into(), self.levels(prediction, verdict).into_iter().map(class).collect());
            }
        }
        if let Some(objection) = objection {
            object.insert("abstained".into(), objection.is_some().into());
            objection.into_iter().for_each(|why| drop(object.insert("why".into(), why.name().into())));
        }
        if let Some(n) = asked.filter(|_| self.target().is_one_class()) {
            object.insert("top".into(), self.answer_labels(prediction, Some(n)).into_iter().map(class).collect());
        }
        object
    }

    /// Returns the JSON object of a row without an answer, without its text.
    pub fn empty_answer_json(self, asked: Option<usize>) -> Map<String, Value> {
        if self.predicts_numbers() {
            return NUMBER_KEYS.into_iter().map(|key| (key.to_owned(), Value::Null)).collect();
        }
        if self.is_multi_label() {
            return Map::from_iter([("labels".to_owned(), Value::Null)]);
        }
        let keys = ["label", "probability"].into_iter().map(|key| (key.to_owned(), Value::Null));
        let levels = self.hierarchy().map(|_| ("levels".to_owned(), json!([])));
        keys.chain(levels).chain(asked.map(|_| ("top".to_owned(), json!([])))).collect()
    }

    /// Returns every class, label or threshold with its score, in descending order. For number models, returns the
    /// number. A raw score is the log-probability, or the log-odds for multi-label models.
    #[must_use]
    pub fn scores(self, prediction: &Prediction, raw: bool) -> Vec<(&'m str, Value)> {
        if let Some(estimate) = self.estimate(prediction) {
            return vec![(NUMBER_KEYS[0], json!(estimate.rounded()[0]))];
        }
        let score = |p: f32| match (raw, self.is_multi_label()) {
            (false, _) => rounded_probability(p),
            (true, false) => json_number(p.ln()),
            (true, true) => json_number(p.ln() - (-p).ln_1p()),
        };
        let each = prediction.ranked().into_iter();
        each.map(|class| (self.labels()[class].as_str(), score(prediction.probabilities[class]))).collect()
    }
}
