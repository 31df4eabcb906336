//! Answers of models to rows, as columns or objects, for `chumoku predict` and the Python package.

use super::{
    AbstentionReason, AbstentionThresholds, AnswerDecision, ModelInputs, NUMBER_KEYS, Predictor, ThresholdOptions,
    required_columns, rounded_probability, spans_json, tagged_text_json,
};
use crate::{
    Error, ModelKind, NgramClassifier, Precision, PredictedSpan, Prediction, Result, TextClassifier, TextTagger, tr,
};
use serde_json::{Map, Value};
use std::path::Path;

/// Separator of the labels of a row in a column: `chumoku train --separator` accepts it.
const LABEL_SEPARATOR: &str = "|";

/// Format of the answers to rows.
#[derive(Clone, Debug)]
pub enum AnswerFormat {
    /// Values of columns with these names.
    Columns(Vec<String>),
    /// JSON objects. A row without an answer has these values.
    Objects(Map<String, Value>),
}

impl AnswerFormat {
    /// Returns the format of columns with these names.
    #[must_use]
    pub fn columns(names: &[&str]) -> AnswerFormat {
        AnswerFormat::Columns(names.iter().map(|name| (*name).to_owned()).collect())
    }

    /// Returns the format of objects. These keys are null in a row without an answer.
    #[must_use]
    pub fn objects(keys: &[&str]) -> AnswerFormat {
        AnswerFormat::Objects(keys.iter().map(|key| ((*key).to_owned(), Value::Null)).collect())
    }
}

/// How rows are predicted.
#[derive(Clone, Debug, Default)]
pub struct PredictOptions {
    /// The number of classes to answer; `None` for the predicted ones.
    pub top: Option<usize>,
    /// The share of the given answers that must be right. Unsure answers are left out.
    pub abstain: Option<f64>,
    /// Thresholds at which a class is predicted.
    pub thresholds: ThresholdOptions,
    /// Values of feature columns for all rows: names with values.
    pub feature_values: Vec<(String, String)>,
    /// The precision of matrix products; `None` for the model's own.
    pub precision: Option<Precision>,
    /// Answers are objects instead of columns.
    pub as_objects: bool,
}

/// Loads a network with its precision and thresholds. `report` gets a sentence for each chosen threshold. The model is
/// never freed, because freeing a large vocabulary takes long.
///
/// # Errors
/// If the model cannot be read, or a threshold cannot be used.
pub fn load_classifier(
    folder: &Path,
    options: &PredictOptions,
    report: &mut dyn FnMut(&str),
) -> Result<&'static TextClassifier> {
    let mut model = TextClassifier::load(folder)?;
    options.precision.into_iter().for_each(|precision| model.set_precision(precision));
    if options.thresholds.is_given() {
        let least = options.thresholds.resolve(Predictor::Classifier(&model), report)?;
        model.set_thresholds(&least)?;
    }
    Ok(Box::leak(Box::new(model)))
}

/// Loads an n-gram model with its thresholds, as [`load_classifier`] does.
///
/// # Errors
/// As for [`load_classifier`], or if a precision was given.
pub fn load_ngrams(
    folder: &Path,
    options: &PredictOptions,
    report: &mut dyn FnMut(&str),
) -> Result<&'static NgramClassifier> {
    if options.precision.is_some() {
        return Err(Error::Setting(tr!(
            "--precision: an n-gram model has no matrix products; leave it out",
            "--precision: n-gram モデルには行列積がありません。指定を外してください"
        )));
    }
    let mut model = NgramClassifier::load(folder)?;
    if options.thresholds.is_given() {
        let least = options.thresholds.resolve(Predictor::Ngrams(&model), report)?;
        model.set_thresholds(&least)?;
    }
    Ok(Box::leak(Box::new(model)))
}

/// Loads a tagger, as [`load_classifier`] does.
///
/// # Errors
/// If the model cannot be read, or does not support an option.
pub fn load_tagger(folder: &Path, options: &PredictOptions) -> Result<&'static TextTagger> {
    let flags = [
        ("--top", options.top.is_some()),
        ("--abstain", options.abstain.is_some()),
        ("--threshold, --precision-at-least", options.thresholds.is_given()),
    ];
    if let Some((flag, _)) = flags.into_iter().find(|(_, is_given)| *is_given) {
        return Err(Error::Setting(tr!(
            "{flag}: this model marks spans in texts and predicts no classes; leave it out",
            "{flag}: このモデルはテキストの中のスパンを示すもので、テキストのクラスは答えません。指定を外してください"
        )));
    }
    let mut model = TextTagger::load(folder)?;
    if options.precision.is_some() && !model.has_network() {
        return Err(Error::Setting(tr!(
            "--precision: this tagger has no matrix products; leave it out",
            "--precision: このモデルには行列積がありません。指定を外してください"
        )));
    }
    options.precision.into_iter().for_each(|precision| model.set_precision(precision));
    Ok(Box::leak(Box::new(model)))
}

/// Loads a classifier or an n-gram model, as [`load_classifier`] does.
///
/// # Errors
/// As for [`load_classifier`].
pub fn load_predictor(
    folder: &Path,
    options: &PredictOptions,
    report: &mut dyn FnMut(&str),
) -> Result<Predictor<'static>> {
    Ok(match ModelKind::from_folder(folder)? {
        ModelKind::Ngrams => Predictor::Ngrams(load_ngrams(folder, options, report)?),
        // Loading fails with a message for any other kind of model.
        _ => Predictor::Classifier(load_classifier(folder, options, report)?),
    })
}

/// Predicts classes, labels or numbers of rows.
#[derive(Clone, Debug)]
pub struct RowPredictor<'m> {
    model: Predictor<'m>,
    thresholds: Option<AbstentionThresholds>,
    inputs: ModelInputs,
    top: Option<usize>,
    as_objects: bool,
}

impl<'m> RowPredictor<'m> {
    /// Combines a model with options.
    ///
    /// # Errors
    /// If the model does not support an option.
    pub fn new(model: Predictor<'m>, options: &PredictOptions) -> Result<Self> {
        if options.top.is_some() && model.predicts_numbers() {
            return Err(Error::Setting(tr!(
                "--top: this model predicts a number, not classes; leave it out",
                "--top: このモデルが答えるのはクラスではなく数値です。指定を外してください"
            )));
        }
        let thresholds = |level| {
            AbstentionThresholds::for_accuracy(model, level)
                .map_err(|problem| Error::Setting(format!("--abstain {level}: {problem}")))
        };
        Ok(RowPredictor {
            model,
            thresholds: options.abstain.map(thresholds).transpose()?,
            inputs: ModelInputs {
                pairs: model.reads_pairs(),
                feature_columns: required_columns(model.columns(), &options.feature_values)?,
            },
            top: options.top,
            as_objects: options.as_objects,
        })
    }

    /// Returns the model.
    #[must_use]
    pub fn model(&self) -> Predictor<'m> {
        self.model
    }

    /// Returns the abstention thresholds, if unsure answers are left out.
    #[must_use]
    pub fn thresholds(&self) -> Option<&AbstentionThresholds> {
        self.thresholds.as_ref()
    }

    /// Returns the inputs that the model reads from a row.
    #[must_use]
    pub fn inputs(&self) -> &ModelInputs {
        &self.inputs
    }

    /// Decides whether a text is answered, if unsure answers are left out.
    #[must_use]
    pub fn decide(&self, text: &str, prediction: &Prediction) -> Option<AnswerDecision> {
        self.thresholds.as_ref().map(|thresholds| thresholds.decide(self.model, text, prediction))
    }

    /// Returns the format of the answers.
    #[must_use]
    pub fn format(&self) -> AnswerFormat {
        if self.as_objects {
            return AnswerFormat::Objects(self.model.empty_answer_json(self.top));
        }
        let abstained = self.thresholds.as_ref().map(|_| "abstained");
        let with_reason =
            |names: &[&'static str]| -> Vec<&'static str> { names.iter().copied().chain(abstained).collect() };
        if self.model.predicts_numbers() {
            return AnswerFormat::columns(&with_reason(&NUMBER_KEYS));
        }
        if self.model.is_multi_label() && self.top.is_none() {
            return AnswerFormat::columns(&with_reason(&["labels"]));
        }
        if abstained.is_some() {
            return AnswerFormat::columns(&with_reason(&["label", "probability"]));
        }
        let n = self.top.unwrap_or(1).min(self.model.labels().len());
        let names = (1..=n).flat_map(|i| {
            let suffix = if i == 1 { String::new() } else { format!("_{i}") };
            [format!("label{suffix}"), format!("probability{suffix}")]
        });
        AnswerFormat::Columns(names.collect())
    }

    /// Answers texts: for each, the values of the columns, or the object.
    ///
    /// # Errors
    /// As for [`Predictor::predict`].
    pub fn answer(&self, texts: &[&str]) -> Result<Vec<Vec<Value>>> {
        let predictions = self.model.predict(texts)?;
        Ok(texts.iter().zip(&predictions).map(|(text, prediction)| self.values(text, prediction)).collect())
    }

    /// Returns the JSON object of an answer.
    #[must_use]
    pub fn object(&self, text: &str, prediction: &Prediction) -> Map<String, Value> {
        self.model.answer_json(text, prediction, (self.top, self.decide(text, prediction)))
    }

    fn values(&self, text: &str, prediction: &Prediction) -> Vec<Value> {
        if self.as_objects {
            return vec![self.object(text, prediction).into()];
        }
        let decision = self.decide(text, prediction);
        let reason = decision.and_then(AnswerDecision::abstention_reason);
        let mut values = if self.model.predicts_numbers() || self.model.is_multi_label() && self.top.is_none() {
            let mut values = self.number_or_labels(prediction);
            if reason.is_some() {
                values.fill("".into());
            }
            values
        } else if decision.is_some() {
            let (label, probability) = self.model.answered_class(prediction, decision);
            let label = if reason.is_some() { "" } else { label };
            vec![label.into(), rounded_probability(probability)]
        } else {
            let top = self.model.answer_labels(prediction, self.top).into_iter();
            top.flat_map(|(label, p)| [Value::from(label), rounded_probability(p)]).collect()
        };
        if decision.is_some() {
            values.push(reason.map_or("", AbstentionReason::name).into());
        }
        values
    }

    /// Returns a number with its interval, or the labels, as values of columns.
    fn number_or_labels(&self, prediction: &Prediction) -> Vec<Value> {
        if let Some(estimate) = self.model.estimate(prediction) {
            return estimate.rounded().map(Value::from).to_vec();
        }
        let labels = self.model.answer_labels(prediction, None);
        let names: Vec<&str> = labels.into_iter().map(|(label, _)| label).collect();
        vec![names.join(LABEL_SEPARATOR).into()]
    }
}

/// Returns the format of the spans of rows.
#[must_use]
pub fn span_format(as_objects: bool) -> AnswerFormat {
    if as_objects { AnswerFormat::objects(&["spans"]) } else { AnswerFormat::columns(&["spans"]) }
}

/// Returns the value of a row's column of spans, or its object.
#[must_use]
pub fn span_values(text: &str, spans: &[PredictedSpan], as_objects: bool) -> Vec<Value> {
    vec![if as_objects { tagged_text_json(text, spans) } else { spans_json(spans) }]
}
