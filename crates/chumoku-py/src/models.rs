//! Trained models that produce texts or vectors. The models in `predictors` predict from a text.

use crate::addresses::{Array, OutputArrays};
use crate::explanations::{InnerStepOptions, Page};
use crate::messages::to_py_err;
use crate::outputs::ReadPath;
use crate::pool;
use crate::training::{REPORT_INTERVAL, parse_precision};
use chumoku::data::SentencePairs;
use chumoku::explain::HeadSelection;
use chumoku::models::TranslatorAttention;
use chumoku::row::RowRef;
use chumoku::sampling::Sampling;
use chumoku::train::{LanguageScores, TranslationScores};
use chumoku::{
    ChatMessage, EmbedOptions, Embeddings, Error, ModelKind, Precision, StopReason, TextAutoencoder, TextClassifier,
    TextEmbedder, TextGenerator, TextTranslator, TranslateOptions, Translation,
};
use chumoku_trace::Trace;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Runs work on the pool that can fail and can take long.
pub(crate) fn run_fallible<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, Error> + Send) -> PyResult<T> {
    pool::run_long(py, work)?.map_err(|failed| to_py_err(&failed))
}

fn parse_optional_precision(name: Option<&str>) -> PyResult<Option<Precision>> {
    name.map(parse_precision).transpose()
}

/// Returns the kind of model in a folder: "classifier", "ngrams", "tagger", "translator", "autoencoder",
/// "language_model" or "encoder".
#[pyfunction]
pub(crate) fn model_kind(folder: ReadPath) -> PyResult<&'static str> {
    Ok(match ModelKind::from_folder(&folder).map_err(|failed| to_py_err(&failed))? {
        ModelKind::Classifier => "classifier",
        ModelKind::Ngrams => "ngrams",
        ModelKind::Tagger => "tagger",
        ModelKind::Translator => "translator",
        ModelKind::Autoencoder => "autoencoder",
        ModelKind::LanguageModel => "language_model",
        _ => "encoder",
    })
}

/// Returns the elements of a dense array of shape (rows, columns) that Python allocated, for writing row by row.
pub(crate) fn output_rows(array: &Array, rows: usize, columns: usize) -> PyResult<&mut [f32]> {
    let is_dense = array.strides.iter().zip([columns, 1]).zip(&array.shape).all(|((a, b), &n)| n <= 1 || *a == b);
    if array.shape != [rows, columns] || !is_dense {
        return Err(PyValueError::new_err(format!("expected a float32 array of shape ({rows}, {columns})")));
    }
    OutputArrays::new(vec![array], &[])?.next::<f32>("numbers")
}

pub(crate) fn as_strs(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

/// Translations of a text with their scores, best first, and whether the text was truncated.
type ScoredHypotheses = (Vec<(String, f64)>, bool);

fn scored_hypotheses(found: Translation) -> ScoredHypotheses {
    (found.hypotheses.into_iter().map(|(text, found)| (text, found.score)).collect(), found.is_truncated)
}

/// A trained translator.
#[pyclass(frozen, module = "chumoku._chumoku")]
pub(crate) struct Translator(TextTranslator);

#[pymethods]
impl Translator {
    /// Reads a model folder.
    #[staticmethod]
    fn load(py: Python<'_>, folder: ReadPath) -> PyResult<Self> {
        run_fallible(py, || TextTranslator::load(&folder).map(Translator))
    }

    /// Returns, for each text, its best translations with their scores, best first, and whether the text was truncated.
    fn translate(
        &self,
        py: Python<'_>,
        texts: Vec<String>,
        beam: usize,
        length_penalty: f64,
    ) -> PyResult<Vec<ScoredHypotheses>> {
        let mut options = TranslateOptions::default();
        (options.beam, options.length_penalty) = (beam, length_penalty);
        let found = run_fallible(py, || self.0.translate(&as_strs(&texts), &options))?;
        Ok(found.into_iter().map(scored_hypotheses).collect())
    }

    /// Scores the model on these pairs. Returns the JSON of `chumoku eval --json`.
    fn score(&self, py: Python<'_>, sources: Vec<String>, targets: Vec<String>) -> PyResult<String> {
        let pairs = SentencePairs { sources, targets };
        let scores = run_fallible(py, || TranslationScores::measure(&self.0, &pairs, &TranslateOptions::default()))?;
        Ok(serde_json::json!(scores).to_string())
    }

    /// Explains a translation: the given one, or the model's own without `target`.
    fn explain(
        &self,
        py: Python<'_>,
        text: String,
        target: Option<String>,
        name: String,
        steps: InnerStepOptions,
    ) -> PyResult<Page> {
        let steps = steps.check(true)?;
        run_fallible(py, || {
            let alignment = self.0.explain_with_steps(&text, target.as_deref(), &name, &steps.requested())?;
            Ok(Page::from_alignment(alignment))
        })
    }
}

/// A trained or published language model.
#[pyclass(frozen, module = "chumoku._chumoku")]
pub(crate) struct Generator(Arc<TextGenerator>);

#[pymethods]
impl Generator {
    /// Reads a model folder.
    #[staticmethod]
    fn load(py: Python<'_>, folder: ReadPath, precision: Option<&str>) -> PyResult<Self> {
        let precision = parse_optional_precision(precision)?;
        run_fallible(py, || {
            let mut model = TextGenerator::load(&folder)?;
            precision.into_iter().for_each(|precision| model.set_precision(precision));
            Ok(Generator(Arc::new(model)))
        })
    }

    /// Returns `true` if the model has a chat template and can reply to messages.
    #[getter]
    fn has_chat_template(&self) -> bool {
        self.0.has_chat_template()
    }

    /// Generates text in pieces: a continuation of `prompt` or, with messages (role, content), a reply to them.
    #[allow(clippy::too_many_arguments)]
    fn generate(
        &self,
        prompt: String,
        messages: Option<Vec<(String, String)>>,
        max_tokens: usize,
        temperature: f64,
        top_k: usize,
        top_p: f64,
        seed: u64,
    ) -> PyResult<TextStream> {
        let mut sampling = Sampling::default();
        (sampling.temperature, sampling.top_k, sampling.top_p, sampling.seed) = (temperature, top_k, top_p, seed);
        sampling.check().map_err(|failed| to_py_err(&failed.into()))?;
        let messages: Option<Vec<ChatMessage>> = messages
            .map(|messages| messages.into_iter().map(|(role, content)| ChatMessage::new(role, content)).collect());
        let (model, pool) = (Arc::clone(&self.0), pool::own_pool()?);
        // A buffer of one piece: generation stops if nobody reads the text.
        let (sender, pieces) = sync_channel(1);
        std::thread::spawn(move || {
            pool.install(|| {
                let mut write = |piece: &str| match sender.send(StreamItem::Text(piece.into())) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                };
                let ended = match &messages {
                    Some(messages) => model.reply(messages, max_tokens, &sampling, &mut write),
                    None => model.generate(&prompt, max_tokens, &sampling, &mut write),
                };
                // The receiver may be gone.
                let _ = sender.send(StreamItem::End(ended));
            });
        });
        Ok(TextStream { process: std::process::id(), pieces: Mutex::new(Some(pieces)), stop: Mutex::new(None) })
    }

    /// Scores the model on these documents. Returns the JSON of `chumoku eval --json`.
    fn score(&self, py: Python<'_>, texts: Vec<String>) -> PyResult<String> {
        let scores = run_fallible(py, || LanguageScores::measure(&self.0, &texts))?;
        Ok(serde_json::json!(scores).to_string())
    }

    /// Explains the next token of a text.
    fn explain(&self, py: Python<'_>, text: String, name: String, steps: InnerStepOptions) -> PyResult<Page> {
        let steps = steps.check(true)?;
        run_fallible(py, || Ok(Page::from_explanation(self.0.explain_with_steps(&text, &name, &steps.requested())?)))
    }
}

enum StreamItem {
    Text(String),
    End(Result<StopReason, Error>),
}

/// A text that is generated piece by piece. Dropping it stops generation.
#[pyclass(frozen, module = "chumoku._chumoku")]
pub(crate) struct TextStream {
    process: u32,
    /// None after the text has ended.
    pieces: Mutex<Option<Receiver<StreamItem>>>,
    stop: Mutex<Option<&'static str>>,
}

#[pymethods]
impl TextStream {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<String>> {
        if self.process != std::process::id() {
            return Err(PyRuntimeError::new_err(
                "the parent process generates this text; call generate again in this process",
            ));
        }
        loop {
            let next = py.detach(|| {
                let pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
                pieces.as_ref().map(|pieces| pieces.recv_timeout(REPORT_INTERVAL))
            });
            let ended = match next {
                None => return Ok(None),
                Some(Ok(StreamItem::Text(text))) => return Ok(Some(text)),
                Some(Ok(StreamItem::End(ended))) => ended.map_err(|failed| to_py_err(&failed)),
                Some(Err(RecvTimeoutError::Timeout)) => {
                    py.check_signals()?;
                    continue;
                }
                Some(Err(RecvTimeoutError::Disconnected)) => {
                    Err(PyRuntimeError::new_err("generation stopped because of an internal error"))
                }
            };
            *self.pieces.lock().unwrap_or_else(PoisonError::into_inner) = None;
            let stop = if ended? == StopReason::End { "end" } else { "max_tokens" };
            *self.stop.lock().unwrap_or_else(PoisonError::into_inner) = Some(stop);
            return Ok(None);
        }
    }

    /// The reason why the text ended: "end" if the model ended it, "max_tokens" if it reached the limit; None until
    /// then.
    #[getter]
    fn stop(&self) -> Option<&'static str> {
        *self.stop.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes vectors of shape (texts, width) into an array of Python. Returns the number of truncated texts.
fn write_vectors(
    py: Python<'_>,
    array: &Array,
    [rows, width]: [usize; 2],
    embed: impl FnOnce() -> Result<Embeddings, Error> + Send,
) -> PyResult<usize> {
    let out = output_rows(array, rows, width)?;
    let found = run_fallible(py, embed)?;
    for (out, x) in out.iter_mut().zip(&found.vectors) {
        *out = *x;
    }
    Ok(found.truncated)
}

/// A trained autoencoder.
#[pyclass(frozen, module = "chumoku._chumoku")]
pub(crate) struct Autoencoder(TextAutoencoder);

#[pymethods]
impl Autoencoder {
    /// Reads a model folder.
    #[staticmethod]
    fn load(py: Python<'_>, folder: ReadPath, precision: Option<&str>) -> PyResult<Self> {
        let precision = parse_optional_precision(precision)?;
        run_fallible(py, || {
            let mut model = TextAutoencoder::load(&folder)?;
            precision.into_iter().for_each(|precision| model.set_precision(precision));
            Ok(Autoencoder(model))
        })
    }

    /// The width of the bottleneck.
    #[getter]
    fn width(&self) -> usize {
        self.0.embedding_dim()
    }

    /// The maximum number of tokens in a text.
    #[getter]
    fn limit(&self) -> usize {
        self.0.max_tokens()
    }

    /// The names of prompts: none.
    #[getter]
    fn prompts(&self) -> Vec<String> {
        Vec::new()
    }

    /// Writes the code of each text: float32 of shape (texts, width). Returns the number of truncated texts.
    fn embed(
        &self,
        py: Python<'_>,
        texts: Vec<String>,
        prompt: Option<String>,
        normalize: Option<bool>,
        vectors: Array,
    ) -> PyResult<usize> {
        let rows = texts.len();
        let mut options = EmbedOptions::default();
        (options.prompt, options.normalize) = (prompt.as_deref(), normalize);
        write_vectors(py, &vectors, [rows, self.0.embedding_dim()], || self.0.embed(&as_strs(&texts), options))
    }

    /// Returns, for each text, its best reconstructions with their scores, best first, and whether it was truncated.
    fn reconstruct(&self, py: Python<'_>, texts: Vec<String>, beam: usize) -> PyResult<Vec<ScoredHypotheses>> {
        let mut options = TranslateOptions::default();
        options.beam = beam;
        let found = run_fallible(py, || self.0.reconstruct(&as_strs(&texts), &options))?;
        Ok(found.into_iter().map(scored_hypotheses).collect())
    }
}

/// A pretrained encoder.
#[pyclass(frozen, module = "chumoku._chumoku")]
pub(crate) struct Embedder(TextEmbedder);

#[pymethods]
impl Embedder {
    /// Reads a folder in the format of transformers or sentence-transformers.
    #[staticmethod]
    fn load(py: Python<'_>, folder: ReadPath, precision: Option<&str>) -> PyResult<Self> {
        let precision = parse_optional_precision(precision)?;
        run_fallible(py, || TextEmbedder::load(&folder, precision).map(Embedder))
    }

    /// The number of dimensions of a vector.
    #[getter]
    fn width(&self) -> usize {
        self.0.embedding_dim()
    }

    /// The maximum number of tokens that the encoder reads of a text.
    #[getter]
    fn limit(&self) -> usize {
        self.0.max_tokens()
    }

    /// The names of the prompts that can be put before each text.
    #[getter]
    fn prompts(&self) -> Vec<String> {
        self.0.prompts().map(String::from).collect()
    }

    /// Writes the vector of each text: float32 of shape (texts, width). Returns the number of truncated texts.
    fn embed(
        &self,
        py: Python<'_>,
        texts: Vec<String>,
        prompt: Option<String>,
        normalize: Option<bool>,
        vectors: Array,
    ) -> PyResult<usize> {
        let rows = texts.len();
        let mut options = EmbedOptions::default();
        (options.prompt, options.normalize) = (prompt.as_deref(), normalize);
        write_vectors(py, &vectors, [rows, self.0.embedding_dim()], || self.0.embed(&as_strs(&texts), options))
    }

    /// Explains the similarity of two texts or, without `target`, the vector of one.
    fn explain(&self, py: Python<'_>, text: String, target: Option<String>, name: String) -> PyResult<Page> {
        run_fallible(py, || self.0.explain(&text, target.as_deref(), &name).map(Page::from_explanation))
    }
}

/// Selects what to trace: the layer and head, both counted from 0, and whether to add the gradients of the loss.
pub(crate) struct TraceTarget {
    /// The part of a translator: "encoder", "decoder", or else its cross-attention.
    pub(crate) part: String,
    pub(crate) position: HeadSelection,
    pub(crate) backward: bool,
}

/// Traces the model in a folder on one text. `target` is the translation for a translator. For a classifier it is the
/// class whose loss is traced backward.
pub(crate) fn trace_model(
    folder: &Path,
    row: RowRef<'_>,
    target: Option<&str>,
    traced: &TraceTarget,
) -> Result<Trace, Error> {
    let TraceTarget { part, position: place, backward } = traced;
    let text = row.text();
    let kind = ModelKind::from_folder(folder)?;
    let refused = match kind {
        ModelKind::Translator => None,
        ModelKind::Encoder if *backward => {
            Some(("backward", "a classifier, a language model or a translator, which have a loss"))
        }
        ModelKind::Classifier if target.is_some() && !backward => {
            Some(("target", "backward=True, which shows the gradients of a class"))
        }
        ModelKind::Classifier => None,
        _ => target.map(|_| ("target", "a translator or a classifier")),
    };
    if let Some((option, expected)) = refused {
        let problem = format!("{option}: expected {expected}; this model is {}", kind.describe());
        return Err(Error::Setting(problem));
    }
    let attention = match kind {
        ModelKind::LanguageModel => {
            let model = TextGenerator::load(folder)?;
            if *backward { model.record_backward(text, *place)? } else { model.record(text, *place)? }
        }
        ModelKind::Encoder => TextEmbedder::load(folder, None)?.record(text, *place)?,
        ModelKind::Translator => {
            let part = match part.as_str() {
                "encoder" => TranslatorAttention::Encoder,
                "decoder" => TranslatorAttention::Decoder,
                _ => TranslatorAttention::Cross,
            };
            let model = TextTranslator::load(folder)?;
            match backward {
                true => model.record_backward(text, target, part, *place)?,
                false => model.record(text, target, part, *place)?,
            }
        }
        // Loading reports the error for a model of another kind.
        _ => {
            let model = TextClassifier::load(folder)?;
            let expected = match (row.is_pair(), model.config().reads_pairs()) {
                (false, true) => "two texts: give both, as (\"first\", \"second\")",
                (true, false) => "one text: give that alone",
                _ => "",
            };
            if !expected.is_empty() {
                return Err(Error::Setting(format!("text: this model reads {expected}")));
            }
            if *backward { model.record_backward(row, *place, target)? } else { model.record(row, *place)? }
        }
    };
    let name = folder.file_name().map_or_else(|| "model".into(), |name| name.to_string_lossy().into_owned());
    Trace::from_model(attention, &name)
}
