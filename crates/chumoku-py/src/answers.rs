//! Trained models that answer of a text: a class, labels, a number, or the spans in it.

use crate::addresses::Array;
use crate::models::{borrowed, on_pool, room};
use crate::pages::Page;
use chumoku::data::Span;
use chumoku::explain::AskedSpan;
use chumoku::hierarchy::Hierarchy;
use chumoku::onnx::export_classifier;
use chumoku::train::SpanScores;
use chumoku::{Caution, ModelKind, NgramClassifier, Prediction, TextClassifier, TextTagger, pair, row};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;

enum Model {
    Network(Box<TextClassifier>),
    Ngrams(Box<NgramClassifier>),
}

/// A trained predictor of a class, of labels or of a number, for texts or for pairs of texts.
#[pyclass(frozen, module = "chumoku._chumoku")]
pub(crate) struct Classifier(Model);

/// A span: its first character, the one behind its last, its label, its text, and its probability.
type Spans = Vec<(usize, usize, String, String, f64)>;

impl Classifier {
    fn predicted(&self, texts: &[&str]) -> chumoku::Result<Vec<Prediction>> {
        match &self.0 {
            Model::Network(model) => model.predict(texts),
            Model::Ngrams(model) => model.predict(texts),
        }
    }

    fn caution(&self) -> Option<&Caution> {
        match &self.0 {
            Model::Network(model) => model.config().caution.as_ref(),
            Model::Ngrams(model) => model.config().caution.as_ref(),
        }
    }

    fn network(&self) -> Option<&TextClassifier> {
        match &self.0 {
            Model::Network(model) => Some(model),
            Model::Ngrams(_) => None,
        }
    }
}

#[pymethods]
impl Classifier {
    /// Reads a model folder.
    #[staticmethod]
    fn load(py: Python<'_>, folder: PathBuf) -> PyResult<Self> {
        on_pool(py, || {
            let model = match ModelKind::of(&folder) {
                Ok(ModelKind::Ngrams) => Model::Ngrams(Box::new(NgramClassifier::load(&folder)?)),
                // Says what is wrong with a folder of another kind.
                _ => Model::Network(Box::new(TextClassifier::load(&folder)?)),
            };
            Ok(Classifier(model))
        })
    }

    /// The names of the columns that it reads beside the text, in order.
    #[getter]
    fn columns(&self) -> Vec<String> {
        let columns = match &self.0 {
            Model::Network(model) => model.config().columns(),
            Model::Ngrams(model) => model.columns(),
        };
        columns.iter().map(|column| column.name.clone()).collect()
    }

    /// What it tells of a text: "class", "labels" or "number".
    #[getter]
    fn task(&self) -> &'static str {
        match self.network().map(|model| &model.config().problem) {
            Some(problem) if problem.labels().is_some() => "labels",
            Some(problem) if problem.number().is_some() => "number",
            _ => "class",
        }
    }

    /// Whether it reads pairs of texts.
    #[getter]
    fn reads_pairs(&self) -> bool {
        match &self.0 {
            Model::Network(model) => model.config().reads_pairs(),
            Model::Ngrams(model) => model.config().reads_pairs(),
        }
    }

    /// The classes, in the order of the columns of `predict`.
    #[getter]
    fn labels(&self) -> Vec<String> {
        match &self.0 {
            Model::Network(model) => model.labels().to_vec(),
            Model::Ngrams(model) => model.labels().to_vec(),
        }
    }

    /// The least probability at which each label is predicted, where texts may have several; else None.
    #[getter]
    fn thresholds(&self) -> Option<Vec<f32>> {
        self.network().and_then(|model| model.config().problem.labels().map(|blend| blend.thresholds.clone()))
    }

    /// The least probability, and the least share of known n-grams, at which this share of the answers is right; None where the
    /// validation rows allow no such promise.
    fn bounds(&self, level: f64) -> Option<(f32, f32)> {
        let caution = self.caution()?;
        Some((caution.step(level)?.confidence, caution.least_known.unwrap_or(f32::NEG_INFINITY)))
    }

    /// From which probability of a class on this share of the validation rows is of it; None where there is no such probability.
    #[pyo3(signature = (class_, level))]
    fn precise(&self, class_: usize, level: f64) -> Option<f32> {
        let caution = self.caution().filter(|caution| class_ < caution.classes.len())?;
        Some(caution.cut(class_, level)?.step.confidence)
    }

    /// The share of each text's n-grams that the model knows: 1 where there are no n-grams to judge by.
    fn known(&self, py: Python<'_>, texts: Vec<String>) -> PyResult<Vec<f32>> {
        on_pool(py, || {
            let known = |text: &String| match &self.0 {
                Model::Network(model) => model.known_share(text).unwrap_or(1.0),
                Model::Ngrams(model) => model.known_share(text),
            };
            Ok(texts.iter().map(known).collect())
        })
    }

    /// The answer to each row of probabilities, a class number, where classes stand in a tree and the answer goes by its nodes; else
    /// None: the most probable class.
    fn answers(&self, probabilities: Vec<Vec<f32>>) -> Option<Vec<usize>> {
        let tree = match &self.0 {
            Model::Network(model) => model.config().tree(),
            Model::Ngrams(model) => model.config().hierarchy.as_ref(),
        };
        tree.map(|tree| probabilities.iter().map(|row| tree.answer(row)).collect())
    }

    /// Labels, a list for each text, as the model tells them where they stand in a tree; else None.
    fn tidied(&self, labels: Vec<Vec<String>>) -> Option<Vec<Vec<String>>> {
        let (tree, several) = match &self.0 {
            Model::Network(model) => (model.config().hierarchy.as_ref(), !model.config().problem.is_one_class()),
            Model::Ngrams(model) => (model.config().hierarchy.as_ref(), false),
        };
        let of_row = |tree: &Hierarchy, labels: &Vec<String>| match several {
            true => tree.complete(labels),
            false => labels.iter().map(|label| tree.tidy(label)).collect(),
        };
        tree.map(|tree| labels.iter().map(|row| of_row(tree, row)).collect())
    }

    /// Thresholds of labels, none below those above it where they stand in a tree.
    fn raised(&self, mut thresholds: Vec<f32>) -> Vec<f32> {
        if let Some(tree) = self.network().and_then(|model| model.config().hierarchy.as_ref()) {
            tree.raise(&mut thresholds);
        }
        thresholds
    }

    /// Why this text gets its answer; `name` is what the model is called.
    fn explain(&self, py: Python<'_>, text: String, name: String) -> PyResult<Page> {
        on_pool(py, || match &self.0 {
            Model::Network(model) => model.explain(&text, &name).map(Page::of_text),
            Model::Ngrams(model) => {
                let effects = serde_json::to_value(model.ngram_effects(&text)?).unwrap_or_default();
                Ok(Page::of_ngrams(model.explain(&text, &name)?, effects))
            }
        })
    }

    /// Writes the probabilities of the classes for each text: float32 of shape (texts, classes).
    fn predict(&self, py: Python<'_>, texts: Vec<String>, probabilities: Array) -> PyResult<()> {
        let classes = self.labels().len();
        let out = room(&probabilities, texts.len(), classes)?;
        let found = on_pool(py, || self.predicted(&borrowed(&texts)))?;
        for (out, prediction) in out.chunks_exact_mut(classes).zip(found) {
            out.copy_from_slice(&prediction.probabilities);
        }
        Ok(())
    }

    /// The number of each text, and where its interval begins and ends.
    fn numbers(&self, py: Python<'_>, texts: Vec<String>) -> PyResult<Vec<[f64; 3]>> {
        let Some(model) = self.network().filter(|model| model.config().problem.number().is_some()) else {
            return Err(PyValueError::new_err("expected a model of numbers, got one of classes"));
        };
        let found = on_pool(py, || model.predict(&borrowed(&texts)))?;
        Ok(found.iter().filter_map(|prediction| model.estimate(prediction)).map(|told| told.rounded()).collect())
    }

    /// The network as an ONNX file; whether n-grams stand beside it, which the file lacks; and what is said of it.
    #[allow(clippy::type_complexity)]
    fn export<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, bool, Vec<(String, String)>)> {
        let Some(model) = self.network() else {
            return Err(PyValueError::new_err("expected a model with a network, got n-grams alone"));
        };
        let exported = on_pool(py, || export_classifier(model))?;
        let metadata = exported.metadata.into_iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        Ok((PyBytes::new(py, &exported.bytes), exported.lacks_ngrams, metadata))
    }
}

/// Two texts as one, as models of pairs read them.
#[pyfunction]
pub(crate) fn joined(first: &str, second: &str) -> String {
    pair::join(first, second)
}

/// A text, or two that are one, with the values beside it, as models of columns read them.
#[pyfunction]
pub(crate) fn beside(text: &str, cells: Vec<String>) -> String {
    row::join(text, &cells)
}

/// A trained tagger of words.
#[pyclass(frozen, module = "chumoku._chumoku")]
pub(crate) struct Tagger(TextTagger);

#[pymethods]
impl Tagger {
    /// Reads a model folder.
    #[staticmethod]
    fn load(py: Python<'_>, folder: PathBuf) -> PyResult<Self> {
        on_pool(py, || TextTagger::load(&folder).map(Tagger))
    }

    /// The kinds of spans.
    #[getter]
    fn labels(&self) -> Vec<String> {
        self.0.labels().to_vec()
    }

    /// The spans of each text.
    fn predict(&self, py: Python<'_>, texts: Vec<String>) -> PyResult<Vec<Spans>> {
        let found = on_pool(py, || self.0.predict(&borrowed(&texts)))?;
        let each = |spans: Vec<chumoku::FoundSpan>| {
            spans.into_iter().map(|found| {
                let Span { start, end, label } = found.span;
                (start, end, label, found.text, found.probability)
            })
        };
        Ok(found.into_iter().map(|spans| each(spans).collect()).collect())
    }

    /// Why the spans of a text are marked, or the one that is asked for (its first character, the one behind its last, its label);
    /// `name` is what the model is called.
    fn explain(
        &self,
        py: Python<'_>,
        text: String,
        span: Option<(usize, usize, Option<String>)>,
        name: String,
    ) -> PyResult<Page> {
        let asked = span.map(|(start, end, label)| AskedSpan { start, end, label });
        on_pool(py, || {
            let tagged = self.0.explain(&text, &name, asked.as_ref(), &mut |_, _| {})?;
            Ok(Page::of_spans(tagged, self.0.attention(&text, &name)?))
        })
    }
}

/// F1 of spans (start, end, label) that were found, against the true ones, over all texts: as conlleval and seqeval compute it.
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
