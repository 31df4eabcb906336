//! The answer of a predictor to one text: abstention, and the forms in which the answer is written.

use super::{AbstentionReason, AbstentionThresholds, AnswerDecision, insert_text, rounded_probability};
use crate::explain::json_number;
use crate::row::RowRef;
use crate::{Prediction, Predictor, Result};
use serde_json::{Map, Value, json};

/// The JSON keys and column names of a predicted number.
pub(crate) const NUMBER_KEYS: [&str; 3] = ["score", "low", "high"];

/// Separator of the labels of a row in a column: `chumoku train --separator` accepts it.
const SEPARATOR: &str = "|";

/// Options of each answer.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AnswerOptions {
    /// The number of most probable classes or labels to give. `None` gives the predicted ones.
    pub(crate) top: Option<usize>,
    /// The thresholds below which a text gets no answer.
    pub(crate) thresholds: Option<AbstentionThresholds>,
}

/// The answer to a text.
#[derive(Clone, Debug)]
pub struct Answer<'a> {
    model: Predictor<'a>,
    text: RowRef<'a>,
    prediction: Prediction,
    top: Option<usize>,
    /// How far the text is answered. `None` without thresholds.
    pub decision: Option<AnswerDecision>,
}

fn labeled((label, p): (&str, f32)) -> Value {
    json!({ "label": label, "probability": rounded_probability(p) })
}

impl AnswerOptions {
    /// Options with this number of most probable classes, or with these thresholds.
    #[must_use]
    pub fn new(top: Option<usize>, thresholds: Option<AbstentionThresholds>) -> AnswerOptions {
        AnswerOptions { top, thresholds }
    }

    /// Predicts and answers each text.
    ///
    /// # Errors
    /// As for [`Predictor::predict`].
    pub fn answers<'a>(&self, model: Predictor<'a>, texts: &[RowRef<'a>]) -> Result<Vec<Answer<'a>>> {
        let predictions = model.predict(texts)?.into_iter();
        Ok(texts.iter().zip(predictions).map(|(text, prediction)| self.answer(model, *text, prediction)).collect())
    }

    /// Answers a text from its prediction.
    pub fn answer<'a>(&self, model: Predictor<'a>, text: RowRef<'a>, prediction: Prediction) -> Answer<'a> {
        let decision = self.thresholds.as_ref().map(|thresholds| thresholds.decide(model, text, &prediction));
        Answer { model, text, prediction, top: self.top, decision }
    }

    /// Returns the JSON object of a row without an answer, without its text.
    pub(crate) fn empty_json(&self, model: Predictor<'_>) -> Map<String, Value> {
        if model.predicts_numbers() {
            return NUMBER_KEYS.into_iter().map(|key| (key.to_owned(), Value::Null)).collect();
        }
        if model.is_multi_label() {
            return Map::from_iter([("labels".to_owned(), Value::Null)]);
        }
        let keys = ["label", "probability"].into_iter().map(|key| (key.to_owned(), Value::Null));
        let levels = model.hierarchy().map(|_| ("levels".to_owned(), json!([])));
        keys.chain(levels).chain(self.top.map(|_| ("top".to_owned(), json!([])))).collect()
    }

    /// Returns the names of the columns in which [`Answer::cells`] are written.
    pub(crate) fn column_names(&self, model: Predictor<'_>) -> Vec<String> {
        let abstained = self.thresholds.iter().map(|_| "abstained".to_owned());
        if model.predicts_numbers() {
            return NUMBER_KEYS.into_iter().map(str::to_owned).chain(abstained).collect();
        }
        if model.is_multi_label() && self.top.is_none() {
            return std::iter::once("labels".to_owned()).chain(abstained).collect();
        }
        let count = match self.thresholds {
            Some(_) => 1,
            None => self.top.unwrap_or(1).min(model.labels().len()),
        };
        let names = (1..=count).flat_map(|i| {
            let suffix = if i == 1 { String::new() } else { format!("_{i}") };
            [format!("label{suffix}"), format!("probability{suffix}")]
        });
        names.chain(abstained).collect()
    }
}

impl<'a> Answer<'a> {
    /// Returns the text.
    pub fn text(&self) -> RowRef<'a> {
        self.text
    }

    /// Returns the abstention reason, if no answer is given.
    pub fn abstention_reason(&self) -> Option<AbstentionReason> {
        self.decision.and_then(AnswerDecision::abstention_reason)
    }

    /// Returns the predicted number with its interval, rounded, for number models.
    pub fn number(&self) -> Option<[f64; 3]> {
        self.model.estimate(&self.prediction).map(crate::Estimate::rounded)
    }

    /// Returns the confidence to show for an abstention: the probability of the answered class, or the confidence in
    /// all labels or in the number.
    pub fn confidence(&self) -> f32 {
        match self.model.target().is_one_class() {
            true => self.class().1,
            false => self.model.confidence(&self.prediction),
        }
    }

    /// Returns the nodes on the path to the predicted class, down to the last answered level. Empty without a tree.
    fn levels(&self) -> Vec<(&'a str, f32)> {
        let Some(tree) = self.model.hierarchy() else { return Vec::new() };
        let mut levels = tree.levels(&self.prediction.probabilities, self.prediction.class());
        match self.decision {
            Some(AnswerDecision::UpToLevel(level)) => levels.truncate(level),
            Some(AnswerDecision::Abstain(_)) => levels.clear(),
            Some(AnswerDecision::Full) | None => {}
        }
        levels
    }

    /// Returns the answered class and its probability: the predicted class, or its ancestor at the last answered level.
    /// For an abstention, the probability is the one that was too low.
    pub fn class(&self) -> (&'a str, f32) {
        let class = self.prediction.class();
        let whole = (self.model.labels()[class].as_str(), self.prediction.probabilities[class]);
        let level = match self.decision {
            Some(AnswerDecision::UpToLevel(level)) => level,
            Some(AnswerDecision::Abstain(_)) => 1,
            _ => return whole,
        };
        let Some(tree) = self.model.hierarchy() else { return whole };
        // Below the end of the path, the answer is the class itself.
        tree.levels(&self.prediction.probabilities, class).get(level - 1).copied().unwrap_or(whole)
    }

    /// Returns the answered classes or labels, most probable first: the predicted ones, or as many as
    /// `AnswerOptions::top` requests.
    pub fn labels(&self) -> Vec<(&'a str, f32)> {
        let found = match self.top {
            Some(n) => self.prediction.ranked().into_iter().take(n).collect(),
            None => self.model.target().predicted_labels(&self.prediction),
        };
        let labels = self.model.labels();
        found.into_iter().map(|class| (labels[class].as_str(), self.prediction.probabilities[class])).collect()
    }

    /// Returns the JSON object of the answer.
    pub fn json(&self) -> Map<String, Value> {
        let mut object = Map::new();
        insert_text(&mut object, self.text);
        let reason = self.abstention_reason();
        let unless_abstained = |value: Value| if reason.is_none() { value } else { Value::Null };
        if let Some(numbers) = self.number() {
            let values = NUMBER_KEYS.into_iter().zip(numbers);
            object.extend(values.map(|(key, x)| (key.to_owned(), unless_abstained(json!(x)))));
        } else if self.model.is_multi_label() {
            object.insert("labels".into(), unless_abstained(self.labels().into_iter().map(labeled).collect()));
        } else {
            let (label, probability) = self.class();
            object.insert("label".into(), unless_abstained(label.into()));
            object.insert("probability".into(), rounded_probability(probability));
            if self.model.hierarchy().is_some() {
                object.insert("levels".into(), self.levels().into_iter().map(labeled).collect());
            }
        }
        if self.decision.is_some() {
            object.insert("abstained".into(), reason.is_some().into());
            reason.into_iter().for_each(|reason| drop(object.insert("why".into(), reason.name().into())));
        }
        if self.top.is_some() && self.model.target().is_one_class() {
            object.insert("top".into(), self.labels().into_iter().map(labeled).collect());
        }
        object
    }

    /// Returns the cells of the answer, in the order of [`AnswerOptions::column_names`].
    pub(crate) fn cells(&self) -> Vec<Value> {
        let reason = self.abstention_reason();
        let mut cells = if let Some(numbers) = self.number() {
            numbers.map(|x| if reason.is_none() { Value::from(x) } else { Value::from("") }).to_vec()
        } else if self.model.is_multi_label() && self.top.is_none() {
            let names: Vec<&str> = self.labels().into_iter().map(|(label, _)| label).collect();
            vec![Value::from(if reason.is_none() { names.join(SEPARATOR) } else { String::new() })]
        } else if self.decision.is_some() {
            let (label, probability) = self.class();
            vec![Value::from(if reason.is_none() { label } else { "" }), rounded_probability(probability)]
        } else {
            self.labels().into_iter().flat_map(|(label, p)| [Value::from(label), rounded_probability(p)]).collect()
        };
        cells.extend(self.decision.map(|_| Value::from(reason.map_or("", AbstentionReason::name))));
        cells
    }
}

impl<'m> Predictor<'m> {
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
