//! Answers of models to rows, as columns or objects, for `chumoku predict` and the Python package.

use super::{
    AbstentionThresholds, Answer, AnswerOptions, ModelInputs, ThresholdOptions, required_columns, spans_json,
    tagged_text_json,
};
use crate::row::RowRef;
use crate::{
    Error, ModelKind, NgramClassifier, Precision, PredictedSpan, Predictor, Result, TextClassifier, TextTagger, tr,
};
use serde_json::{Map, Value};
use std::path::Path;

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

/// Options for predicting rows.
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

/// Loads a model of classes, labels or numbers with its precision and thresholds. `report` gets a sentence for each
/// chosen threshold. The model is never freed, because freeing a large vocabulary takes long.
///
/// # Errors
/// If the model cannot be read or is of another kind, or a precision or threshold cannot be used.
pub fn load_predictor(
    folder: &Path,
    options: &PredictOptions,
    report: &mut dyn FnMut(&str),
) -> Result<Predictor<'static>> {
    if ModelKind::from_folder(folder)? == ModelKind::Ngrams {
        return load_ngrams(folder, options, report).map(Predictor::Ngrams);
    }
    let mut model = TextClassifier::load(folder)?;
    options.precision.into_iter().for_each(|precision| model.set_precision(precision));
    if options.thresholds.is_given() {
        let least = options.thresholds.resolve((&model).into(), report)?;
        model.set_thresholds(&least)?;
    }
    Ok(Predictor::Classifier(Box::leak(Box::new(model))))
}

/// Loads an n-gram model with its thresholds, as [`load_predictor`] does.
///
/// # Errors
/// As for [`load_predictor`], or if a precision was given.
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
        let least = options.thresholds.resolve((&model).into(), report)?;
        model.set_thresholds(&least)?;
    }
    Ok(Box::leak(Box::new(model)))
}

/// Loads a tagger, as [`load_predictor`] does.
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

/// Predicts classes, labels or numbers of rows.
#[derive(Clone, Debug)]
pub struct RowPredictor<'m> {
    model: Predictor<'m>,
    options: AnswerOptions,
    inputs: ModelInputs,
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
            options: AnswerOptions::new(options.top, options.abstain.map(thresholds).transpose()?),
            inputs: ModelInputs {
                pairs: model.reads_pairs(),
                feature_columns: required_columns(model.columns(), &options.feature_values)?,
            },
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
        self.options.thresholds.as_ref()
    }

    /// Returns the inputs that the model reads from a row.
    #[must_use]
    pub fn inputs(&self) -> &ModelInputs {
        &self.inputs
    }

    /// Returns the format of the answers.
    #[must_use]
    pub fn format(&self) -> AnswerFormat {
        match self.as_objects {
            true => AnswerFormat::Objects(self.options.empty_json(self.model)),
            false => AnswerFormat::Columns(self.options.column_names(self.model)),
        }
    }

    /// Answers texts.
    ///
    /// # Errors
    /// As for [`Predictor::predict`].
    pub fn answers<'a>(&self, texts: &[RowRef<'a>]) -> Result<Vec<Answer<'a>>>
    where
        'm: 'a,
    {
        self.options.answers(self.model, texts)
    }

    /// Answers texts: for each, the values of the columns, or the object.
    ///
    /// # Errors
    /// As for [`Predictor::predict`].
    pub fn values(&self, texts: &[RowRef<'_>]) -> Result<Vec<Vec<Value>>> {
        let values = |answer: &Answer<'_>| if self.as_objects { vec![answer.json().into()] } else { answer.cells() };
        Ok(self.answers(texts)?.iter().map(values).collect())
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
