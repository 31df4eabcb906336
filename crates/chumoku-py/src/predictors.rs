//! Trained models that predict from a text: a class, labels, a number, or spans.

use crate::addresses::Array;
use crate::explanations::{InnerStepOptions, Page};
use crate::models::{as_strs, output_rows, run_fallible};
use crate::outputs::ReadPath;
use crate::row::RowArgument;
use chumoku::answers::{AbstentionThresholds, Answer, AnswerDecision, AnswerOptions};
use chumoku::data::Span;
use chumoku::explain::{AttributionMethod, SpanQuery};
use chumoku::hierarchy::Hierarchy;
use chumoku::onnx::export_classifier;
use chumoku::row::as_rows;
use chumoku::train::SpanScores;
use chumoku::{ModelKind, NgramClassifier, Predictor, TextClassifier, TextTagger, UnreadableValues, read_model_folder};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

enum ClassifierModel {
    Network(Box<TextClassifier>),
    Ngrams(Box<NgramClassifier>),
}

/// A trained model that predicts a class, labels or a number from texts or pairs of texts.
#[pyclass(frozen, module = "chumoku._chumoku")]
pub(crate) struct Classifier(ClassifierModel);

/// A span: start (first character), end (one past the last character), label, text, probability.
type SpanTuples = Vec<(usize, usize, String, String, f64)>;

impl Classifier {
    fn predictor(&self) -> Predictor<'_> {
        match &self.0 {
            ClassifierModel::Network(model) => Predictor::Classifier(model),
            ClassifierModel::Ngrams(model) => Predictor::Ngrams(model),
        }
    }

    fn network(&self) -> Option<&TextClassifier> {
        match &self.0 {
            ClassifierModel::Network(model) => Some(model),
            ClassifierModel::Ngrams(_) => None,
        }
    }
}

#[pymethods]
impl Classifier {
    /// Reads a model folder.
    #[staticmethod]
    fn load(py: Python<'_>, folder: ReadPath) -> PyResult<Self> {
        run_fallible(py, || {
            let load = || match ModelKind::from_folder(&folder) {
                Ok(ModelKind::Ngrams) => Ok(ClassifierModel::Ngrams(Box::new(NgramClassifier::load(&folder)?))),
                // Loading reports the error for a folder of another kind.
                _ => Ok(ClassifierModel::Network(Box::new(TextClassifier::load(&folder)?))),
            };
            read_model_folder(&folder, load).map(Classifier)
        })
    }

    /// The names of the feature columns that the model reads, in order.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.predictor().columns().iter().map(|column| column.name.clone()).collect()
    }

    /// Returns one sentence per feature column with values that cannot be parsed and count as missing.
    fn unread(&self, texts: Vec<RowArgument>) -> Vec<String> {
        let mut unread = UnreadableValues::new(self.predictor().columns());
        unread.count(&texts);
        unread.messages()
    }

    /// The kind of prediction: "class", "labels" or "number".
    #[getter]
    fn task(&self) -> &'static str {
        match self.predictor() {
            predictor if predictor.is_multi_label() => "labels",
            predictor if predictor.predicts_numbers() => "number",
            _ => "class",
        }
    }

    /// Returns `true` if the model reads pairs of texts.
    #[getter]
    fn reads_pairs(&self) -> bool {
        self.predictor().reads_pairs()
    }

    /// The classes, in the order of the columns of `predict`.
    #[getter]
    fn labels(&self) -> Vec<String> {
        self.predictor().labels().to_vec()
    }

    /// The probability threshold of each label of a multi-label model; None for other models.
    #[getter]
    fn thresholds(&self) -> Option<Vec<f32>> {
        self.predictor().target().labels().map(|blend| blend.thresholds.clone())
    }

    /// The smallest probability and the smallest share of known n-grams at which this share of the answers is right.
    /// Returns None if the validation rows do not support the target.
    fn bounds(&self, level: f64) -> Option<(f32, f32)> {
        let calibration = self.predictor().abstention()?;
        Some((calibration.threshold_for(level)?.confidence, calibration.least_known.unwrap_or(f32::NEG_INFINITY)))
    }

    /// Returns, for each text, whether the model answers at this target share of right answers. For labels, all labels
    /// of a text must be right; for ratings, the level nearest to the number.
    fn answered(&self, py: Python<'_>, texts: Vec<RowArgument>, level: f64) -> PyResult<Vec<bool>> {
        let model = self.predictor();
        let bounds = AbstentionThresholds::for_accuracy(model, level)
            .map_err(|problem| PyValueError::new_err(format!("abstain: {problem}")))?;
        let options = AnswerOptions::new(None, Some(bounds));
        let is_full = |answer: &Answer<'_>| answer.decision == Some(AnswerDecision::Full);
        run_fallible(py, || Ok(options.answers(model, &as_rows(&texts))?.iter().map(is_full).collect()))
    }

    /// The lowest probability of a class above which this share of the validation rows belongs to it. Returns None if
    /// there is no such probability.
    #[pyo3(signature = (class_, level))]
    fn precise(&self, class_: usize, level: f64) -> Option<f32> {
        let calibration = self.predictor().abstention().filter(|calibration| class_ < calibration.classes.len())?;
        Some(calibration.precision_threshold(class_, level)?.point.confidence)
    }

    /// The share of each text's n-grams that the model knows; 1 for a text without n-grams.
    fn known(&self, py: Python<'_>, texts: Vec<RowArgument>) -> PyResult<Vec<f32>> {
        run_fallible(py, || Ok(texts.iter().map(|text| self.predictor().known_share(text).unwrap_or(1.0)).collect()))
    }

    /// Returns the class index for each row of probabilities if the model does not simply choose the largest; else
    /// None.
    fn answers(&self, probabilities: Vec<Vec<f32>>) -> Option<Vec<usize>> {
        if let Some(decision) = self.predictor().decision_rule() {
            return Some(probabilities.iter().map(|row| decision.class(row)).collect());
        }
        let tree = self.predictor().hierarchy();
        tree.map(|tree| probabilities.iter().map(|row| tree.predict(row)).collect())
    }

    /// Returns `true` for a single-label model whose classes form a tree.
    fn has_tree(&self) -> bool {
        self.predictor().hierarchy().is_some()
    }

    /// Normalizes the label list of each text to the model's label tree; returns None without a tree.
    fn tidied(&self, labels: Vec<Vec<String>>) -> Option<Vec<Vec<String>>> {
        let of_labels = self.predictor().label_hierarchy();
        let tree = of_labels.or(self.predictor().hierarchy());
        let of_row = |tree: &Hierarchy, labels: &Vec<String>| match of_labels.is_some() {
            true => tree.complete_labels(labels),
            false => labels.iter().map(|label| tree.normalize_label(label)).collect(),
        };
        tree.map(|tree| labels.iter().map(|row| of_row(tree, row)).collect())
    }

    /// Raises thresholds in a label tree so that no label is below its parent.
    fn raised(&self, mut thresholds: Vec<f32>) -> Vec<f32> {
        if let Some(tree) = self.predictor().label_hierarchy() {
            tree.raise_to_ancestors(&mut thresholds);
        }
        thresholds
    }

    /// Explains the answer for a text; `name` is the displayed name of the model.
    fn explain(&self, py: Python<'_>, text: RowArgument, name: String, steps: InnerStepOptions) -> PyResult<Page> {
        let steps = steps.check(match &self.0 {
            ClassifierModel::Network(model) => model.config().model.backbone.transformer().is_some(),
            ClassifierModel::Ngrams(_) => false,
        })?;
        run_fallible(py, || match &self.0 {
            ClassifierModel::Network(model) => {
                let requested = (AttributionMethod::LeaveOneOut, None);
                let explanation = model.explain_label(&text, &name, requested, &steps.requested(), &mut |_, _| {})?;
                Ok(Page::from_explanation(explanation))
            }
            ClassifierModel::Ngrams(model) => {
                let effects = serde_json::to_value(model.ngram_effects(&text)?).unwrap_or_default();
                Ok(Page::from_ngrams(model.explain(&text, &name)?, effects))
            }
        })
    }

    /// Writes the class probabilities of each text: float32 of shape (texts, classes).
    fn predict(&self, py: Python<'_>, texts: Vec<RowArgument>, probabilities: Array) -> PyResult<()> {
        let classes = self.labels().len();
        let out = output_rows(&probabilities, texts.len(), classes)?;
        let found = run_fallible(py, || self.predictor().predict(&texts))?;
        for (out, prediction) in out.chunks_exact_mut(classes).zip(found) {
            out.copy_from_slice(&prediction.probabilities);
        }
        Ok(())
    }

    /// The number predicted for each text, and the lower and upper end of its interval.
    fn numbers(&self, py: Python<'_>, texts: Vec<RowArgument>) -> PyResult<Vec<[f64; 3]>> {
        let model = self.predictor();
        if !model.predicts_numbers() {
            return Err(PyValueError::new_err("expected a regression model, got a classifier"));
        }
        let found = run_fallible(py, || model.predict(&texts))?;
        Ok(found
            .iter()
            .filter_map(|prediction| model.estimate(prediction))
            .map(|estimate| estimate.rounded())
            .collect())
    }

    /// Returns the network as an ONNX file, whether the model also has n-grams (which the file lacks), and the
    /// metadata.
    #[allow(clippy::type_complexity)]
    fn export<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, bool, Vec<(String, String)>)> {
        let Some(model) = self.network() else {
            return Err(PyValueError::new_err("expected a model with a network, got n-grams only"));
        };
        let exported = run_fallible(py, || export_classifier(model))?;
        let metadata = exported.metadata.into_iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        Ok((PyBytes::new(py, &exported.bytes), exported.lacks_ngrams, metadata))
    }
}

/// A trained tagger.
#[pyclass(frozen, module = "chumoku._chumoku")]
pub(crate) struct Tagger(TextTagger);

#[pymethods]
impl Tagger {
    /// Reads a model folder.
    #[staticmethod]
    fn load(py: Python<'_>, folder: ReadPath) -> PyResult<Self> {
        run_fallible(py, || TextTagger::load(&folder).map(Tagger))
    }

    /// The span labels.
    #[getter]
    fn labels(&self) -> Vec<String> {
        self.0.labels().to_vec()
    }

    /// The spans of each text.
    fn predict(&self, py: Python<'_>, texts: Vec<String>) -> PyResult<Vec<SpanTuples>> {
        let found = run_fallible(py, || self.0.predict(&as_strs(&texts)))?;
        let each = |spans: Vec<chumoku::PredictedSpan>| {
            spans.into_iter().map(|found| {
                let Span { start, end, label } = found.span;
                (start, end, label, found.text, found.probability)
            })
        };
        Ok(found.into_iter().map(|spans| each(spans).collect()).collect())
    }

    /// Explains the spans of a text, or one requested span (start, end, label). `name` is the displayed name of the
    /// model.
    fn explain(
        &self,
        py: Python<'_>,
        text: String,
        span: Option<(usize, usize, Option<String>)>,
        name: String,
        steps: InnerStepOptions,
    ) -> PyResult<Page> {
        let steps = steps.check(self.0.has_network())?;
        let query = span.map(|(start, end, label)| SpanQuery { start, end, label });
        run_fallible(py, || {
            let (query, steps) = (query.as_ref(), steps.requested());
            let tagged = self.0.explain_with_steps(&text, &name, query, &steps, &mut |_, _| {})?;
            Ok(Page::from_spans(tagged, self.0.attention(&text, &name)?))
        })
    }
}

/// F1 of predicted spans (start, end, label) against the true ones, over all texts, as conlleval and seqeval compute
/// it.
#[pyfunction]
pub(crate) fn span_f1(truth: Vec<Vec<(usize, usize, String)>>, found: Vec<Vec<(usize, usize, String)>>) -> f64 {
    let spans = |rows: Vec<Vec<(usize, usize, String)>>| -> Vec<Vec<Span>> {
        let span = |(start, end, label)| Span { start, end, label };
        rows.into_iter().map(|row| row.into_iter().map(span).collect()).collect()
    };
    let (truth, found) = (spans(truth), spans(found));
    let rows = truth.iter().map(Vec::as_slice).zip(found.iter().map(Vec::as_slice));
    SpanScores::of(rows, 0).all.f1
}
