//! Training from Python. It runs `chumoku train` on a separate thread, while the calling thread checks for Ctrl-C and
//! reports progress.
//!
//! # Files
//!
//! - `continued`: continued training

mod continued;

use crate::messages::{to_py_err, with_parameter_names};
use crate::outputs::ReadPath;
use crate::pool;
use chumoku::data::PairSplit;
use chumoku::data::{
    DataFiles, DocumentBreaks, LabelOptions, MIN_CHARACTERS, ReadOptions, VALIDATION_FRACTION, load_documents,
    load_labeled, load_multi_label, load_pairs, load_scores, load_spans,
};
use chumoku::hierarchy::HierarchySource;
use chumoku::nn::BackboneKind;
use chumoku::row::FeatureRequest;
use chumoku::text::TokenizationUnit;
use chumoku::train::{
    BaseModel, ClassWeights, Freeze, Setting, SettingOverrides, TaggerData, TrainEvent, TrainOptions, Training,
    TrainingData, TuneBudget, row_weights, train_labels, train_language_model, train_ngram_classifier,
    train_ngram_labels, train_ngram_number, train_number, train_tagger, train_translator, tune, tune_ngrams,
};
use chumoku::{Error, Optimize, Precision, RecurrentCell};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// Interval between progress events, and between checks for Ctrl-C.
pub(crate) const REPORT_INTERVAL: Duration = Duration::from_millis(250);

/// Parses the precision of matrix products.
pub(crate) fn parse_precision(name: &str) -> PyResult<Precision> {
    Precision::from_name(name)
        .ok_or_else(|| unknown_value("precision", name, &Precision::ALL.map(|known| known.name())))
}

fn unknown_value(what: &str, found: &str, known: &[&str]) -> PyErr {
    PyValueError::new_err(format!("{what}: expected one of {}, got {found:?}", known.join(", ")))
}

/// The parameters of a training run, as Python passes them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct TrainParams {
    /// The model: "transformer", "rnn", "lstm", "gru", "ngrams", "tagger", "translator" or "language_model".
    model: String,
    /// The prediction target for the first five: "class", "labels" or "number".
    task: String,
    /// For the first five, whether each row has two texts.
    pairs: bool,
    /// The rows as JSON Lines: `text` (or `text_1` and `text_2`) and `label`, `labels` (a list) or `number`; `text` and
    /// `spans`; `source` and `target`; or `text`.
    file: PathBuf,
    /// For a base model of the user's own: a file of its old rows in the same format, or "none".
    old: Option<PathBuf>,
    /// The model folder to write.
    out: PathBuf,
    epochs: Option<u64>,
    seed: u64,
    precision: Option<String>,
    tokens: Option<String>,
    from_pretrained: Option<ReadPath>,
    freeze: Option<String>,
    lora: Option<usize>,
    class_weight: Option<ClassWeightParam>,
    /// The weight of each row of the file; equal weights if absent.
    sample_weight: Option<Vec<f64>>,
    optimize: Option<String>,
    hierarchy: Option<String>,
    /// If set, spelling variants of a label are merged.
    merge_labels: bool,
    /// The feature columns, each with its type if given.
    columns: Vec<(String, Option<String>)>,
    tune: Option<TuneParam>,
    folds: Option<usize>,
    settings: Option<String>,
    resume: bool,
}

/// The budget for the settings search: trials or seconds.
#[derive(FromPyObject)]
enum TuneParam {
    #[pyo3(transparent)]
    Trials(u64),
    #[pyo3(transparent)]
    Seconds(f64),
}

/// Class weights.
#[derive(FromPyObject)]
enum ClassWeightParam {
    Mode(String),
    Factors(Vec<(String, f32)>),
}

/// The kind of model to train.
#[derive(Clone, Copy)]
enum TrainKind {
    Classifier(BackboneKind),
    /// A network together with n-grams, or n-grams only.
    Labels(Option<BackboneKind>),
    /// As for `Labels`.
    Number(Option<BackboneKind>),
    Ngrams,
    Tagger,
    Translator,
    LanguageModel,
}

impl TrainParams {
    /// Returns the kind of model to train. A base classifier determines its own kind.
    fn train_kind(&self, known: Option<&BaseModel>) -> PyResult<TrainKind> {
        let kind = match known.map_or(self.model.as_str(), |known| continued::architecture_name(known)) {
            "transformer" => TrainKind::Classifier(BackboneKind::Transformer),
            "rnn" => TrainKind::Classifier(BackboneKind::Recurrent(RecurrentCell::Rnn)),
            "lstm" => TrainKind::Classifier(BackboneKind::Recurrent(RecurrentCell::Lstm)),
            "gru" => TrainKind::Classifier(BackboneKind::Recurrent(RecurrentCell::Gru)),
            "ngrams" => TrainKind::Ngrams,
            "translator" => TrainKind::Translator,
            "language_model" => TrainKind::LanguageModel,
            "tagger" => TrainKind::Tagger,
            other => return Err(unknown_value("model", other, &["transformer", "rnn", "lstm", "gru", "ngrams"])),
        };
        if self.tune.is_some() && self.task != "class" {
            return Err(PyValueError::new_err("tune: expected one class per text, got labels, numbers or spans"));
        }
        match (kind, self.task.as_str()) {
            (TrainKind::Classifier(network), "labels") => Ok(TrainKind::Labels(Some(network))),
            (TrainKind::Classifier(network), "number") => Ok(TrainKind::Number(Some(network))),
            (TrainKind::Ngrams, "labels") => Ok(TrainKind::Labels(None)),
            (TrainKind::Ngrams, "number") => Ok(TrainKind::Number(None)),
            (kind, _) => Ok(kind),
        }
    }

    fn train_options(&self, kind: TrainKind) -> PyResult<TrainOptions> {
        let mut options = TrainOptions::default();
        options.epochs = self.epochs;
        options.seed = self.seed;
        if let Some(name) = &self.precision {
            options.precision = parse_precision(name)?;
        }
        options.from = self.from_pretrained.as_deref().map(Path::to_owned);
        options.resume = self.resume;
        if let TrainKind::Classifier(network) | TrainKind::Labels(Some(network)) | TrainKind::Number(Some(network)) =
            kind
        {
            options.network = network;
        }
        options.folds = self.folds;
        options.overrides = self.parse_settings(kind)?;
        options.class_weights = match &self.class_weight {
            None => None,
            Some(ClassWeightParam::Factors(times)) => Some(ClassWeights::Times(times.clone())),
            Some(ClassWeightParam::Mode(name)) if name == "balanced" => Some(ClassWeights::Balanced),
            Some(ClassWeightParam::Mode(name)) if name == "equal" => Some(ClassWeights::Equal),
            Some(ClassWeightParam::Mode(name)) => {
                return Err(unknown_value("class_weight", name, &["balanced", "equal", "a dictionary"]));
            }
        };
        options.optimize = match self.optimize.as_deref() {
            None => None,
            Some("macro_f1") if self.task == "class" => Some(Optimize::MacroF1),
            Some("macro_f1") => {
                return Err(PyValueError::new_err("optimize: expected one class per text, got labels or numbers"));
            }
            Some(other) => return Err(unknown_value("optimize", other, &["macro_f1"])),
        };
        options.tokens = match self.tokens.as_deref() {
            None => None,
            Some("subwords") => Some(TokenizationUnit::Subwords),
            Some("characters") => Some(TokenizationUnit::Characters),
            Some("words") => Some(TokenizationUnit::Words),
            Some(other) => return Err(unknown_value("tokens", other, &["subwords", "characters", "words"])),
        };
        let freeze =
            match self.freeze.as_deref() {
                None => None,
                Some("none") => Some(Freeze::Nothing),
                Some("embeddings") => Some(Freeze::Embeddings),
                Some("all") => Some(Freeze::All),
                Some(layers) => Some(Freeze::Layers(layers.parse().map_err(|_| {
                    unknown_value("freeze", layers, &["none", "embeddings", "all", "a number of layers"])
                })?)),
            };
        if (freeze.is_some() || self.lora.is_some()) && self.from_pretrained.is_none() {
            let problem = "freeze, lora: expected from_pretrained too, of whose model they say what stays as it is";
            return Err(PyValueError::new_err(problem));
        }
        options.freeze = match (freeze, self.lora) {
            (Some(_), Some(_)) => return Err(PyValueError::new_err("expected freeze or lora, not both")),
            (freeze, lora) => lora.map(Freeze::LowRank).or(freeze),
        };
        Ok(options)
    }

    /// Parses the settings.
    fn parse_settings(&self, kind: TrainKind) -> PyResult<SettingOverrides> {
        let Some(settings) = &self.settings else { return Ok(SettingOverrides::default()) };
        let set: SettingOverrides =
            settings.parse().map_err(|problem: String| PyValueError::new_err(format!("settings: {problem}")))?;
        let has_network = !matches!(kind, TrainKind::Ngrams | TrainKind::Labels(None) | TrainKind::Number(None));
        set.check(has_network, self.from_pretrained.is_some()).map_err(|failed| to_py_err(&failed))?;
        let twice = [(Setting::Epochs, self.epochs.is_some()), (Setting::Tokens, self.tokens.is_some())];
        let duplicate = set.settings().find(|setting| twice.contains(&(*setting, true)));
        match duplicate {
            None => Ok(set),
            Some(setting) => {
                let name = setting.name();
                Err(PyValueError::new_err(format!("{name}, settings: both set the same option; give one of them")))
            }
        }
    }

    /// The sample weights for a file, if it is the file of new rows.
    fn sample_weights_for(&self, file: &Path, rows: usize) -> Result<Option<Vec<f32>>, Error> {
        match &self.sample_weight {
            Some(weights) if *file == self.file => row_weights(weights, rows),
            _ => Ok(None),
        }
    }

    /// Reads the rows and trains. Returns the content of `metrics.json`.
    fn read_and_train(
        &self,
        kind: TrainKind,
        known: Option<&BaseModel>,
        mut training: Training<'_>,
    ) -> Result<String, Error> {
        let mut read = ReadOptions::default();
        read.text = Some(if self.pairs { "text_1,text_2" } else { "text" }.into());
        // Python has already handled missing labels.
        read.missing = Some(Vec::new());
        read.merge_labels = self.merge_labels.then(|| known.map(|known| known.labels.clone()).unwrap_or_default());
        let request = |(name, kind): &(String, Option<String>)| FeatureRequest {
            name: name.clone(),
            kind: kind.clone(),
            ..FeatureRequest::default()
        };
        read.features = self.columns.iter().map(request).collect();
        let budget = match self.tune {
            None => None,
            Some(TuneParam::Trials(trials)) => Some(TuneBudget::Trials(trials)),
            Some(TuneParam::Seconds(seconds)) => {
                let wrong = |_| Error::Setting(format!("tune: expected a time, got {seconds} s"));
                Some(TuneBudget::Time(Duration::try_from_secs_f64(seconds).map_err(wrong)?))
            }
        };
        Ok(match kind {
            TrainKind::Classifier(_) | TrainKind::Ngrams => {
                read.label = Some("label".into());
                let data = match known {
                    Some(known) => {
                        let load = |file: &Path, read: &ReadOptions, name: &str| {
                            let mut rows = load_labeled(file, read)?.with_path(Path::new(name));
                            rows.weights = self.sample_weights_for(file, rows.examples.len())?;
                            Ok(rows)
                        };
                        continued::continued_data(self, known, read, load, &mut training)?
                    }
                    None => {
                        let mut rows = load_labeled(&self.file, &read)?;
                        rows.weights = self.sample_weights_for(&self.file, rows.examples.len())?;
                        let tree = HierarchySource::build_class_tree(
                            self.hierarchy.as_deref(),
                            &mut rows,
                            [&mut None, &mut None],
                        )?;
                        let mut data = TrainingData::new(&rows, None, None)?;
                        data.hierarchy = tree.map(|(tree, _)| tree);
                        data
                    }
                };
                match (kind, budget) {
                    (TrainKind::Ngrams, None) => train_ngram_classifier(&data, training)?.metrics,
                    (TrainKind::Ngrams, Some(budget)) => tune_ngrams(&data, budget, training)?.metrics,
                    (_, None) => chumoku::train::train(&data, training)?.metrics,
                    (_, Some(budget)) => tune(&data, budget, training)?.metrics,
                }
            }
            TrainKind::Labels(network) => {
                read.label = Some("labels".into());
                let data = match known {
                    Some(known) => {
                        let load = |file: &Path, read: &ReadOptions, name: &str| {
                            let sets = load_multi_label(file, read, &LabelOptions::default())?;
                            let mut sets = sets.with_path(Path::new(name));
                            sets.weights = self.sample_weights_for(file, sets.examples.len())?;
                            Ok(sets)
                        };
                        continued::continued_data(self, known, read, load, &mut training)?
                    }
                    None => {
                        let mut sets = load_multi_label(&self.file, &read, &LabelOptions::default())?;
                        sets.weights = self.sample_weights_for(&self.file, sets.examples.len())?;
                        let tree = HierarchySource::build_label_tree(
                            self.hierarchy.as_deref(),
                            &mut sets,
                            [&mut None, &mut None],
                        )?;
                        let mut data = TrainingData::from_label_sets(&sets, None, None)?;
                        data.hierarchy = tree.map(|(tree, _)| tree);
                        data
                    }
                };
                match network {
                    Some(_) => train_labels(&data, training)?.metrics,
                    None => train_ngram_labels(&data, training)?.metrics,
                }
            }
            TrainKind::Number(network) => {
                read.label = Some("number".into());
                let data = match known {
                    Some(known) => {
                        let load = |file: &Path, read: &ReadOptions, name: &str| {
                            let mut scores = load_scores(file, read)?.with_path(Path::new(name));
                            scores.weights = self.sample_weights_for(file, scores.examples.len())?;
                            Ok(scores)
                        };
                        continued::continued_data(self, known, read, load, &mut training)?
                    }
                    None => {
                        let mut scores = load_scores(&self.file, &read)?;
                        scores.weights = self.sample_weights_for(&self.file, scores.examples.len())?;
                        TrainingData::from_scores(&scores, None, None)?
                    }
                };
                match network {
                    Some(_) => train_number(&data, training)?.metrics,
                    None => train_ngram_number(&data, training)?.metrics,
                }
            }
            TrainKind::Tagger => {
                read.label = Some("spans".into());
                let data = match known {
                    Some(known) => {
                        let load = |file: &Path, read: &ReadOptions, name: &str| {
                            Ok(load_spans(file, read)?.with_path(Path::new(name)))
                        };
                        continued::continued_data(self, known, read, load, &mut training)?
                    }
                    None => TaggerData::new(&load_spans(&self.file, &read)?, None, None)?,
                };
                train_tagger(&data, training)?.metrics
            }
            TrainKind::Translator => {
                let pairs = load_pairs(&DataFiles::One(self.file.clone()), &ReadOptions::default())?;
                let names = pairs.names.clone();
                train_translator(&PairSplit::new(&pairs, None, None)?, names, training)?.metrics
            }
            TrainKind::LanguageModel => {
                let documents = load_documents(&self.file, DocumentBreaks::Auto, &read)?;
                let found: usize = documents.texts.iter().map(|text| text.chars().count()).sum();
                if found < MIN_CHARACTERS {
                    let path = self.file.display();
                    return Err(Error::Setting(format!(
                        "{path}: expected at least {MIN_CHARACTERS} characters to learn from, found {found}"
                    )));
                }
                train_language_model(&documents.split(0, VALIDATION_FRACTION, 0.0), training)?.metrics
            }
        }
        .to_string())
    }
}

/// Progress events of a training run.
enum ProgressEvent {
    Message(&'static str, String),
    Estimated { steps: u64, done: u64, seconds: f64 },
    Step { step: u64, loss: f64, tokens_per_second: f64 },
    Evaluated { epoch: u64, loss: f64, metrics: Vec<(&'static str, f64)>, is_best: bool },
}

impl ProgressEvent {
    fn from_event(event: &TrainEvent<'_>, last: &mut Option<Instant>) -> Option<ProgressEvent> {
        Some(match event {
            TrainEvent::Message(about, text) | TrainEvent::Progress(about, text) => {
                ProgressEvent::Message(about, with_parameter_names(text))
            }
            TrainEvent::Estimated { steps, steps_done: done, remaining: expected, .. } => {
                ProgressEvent::Estimated { steps: *steps, done: *done, seconds: expected.as_secs_f64() }
            }
            TrainEvent::Step { step, loss, tokens_per_second } => {
                if last.is_some_and(|last| last.elapsed() < REPORT_INTERVAL) {
                    return None;
                }
                *last = Some(Instant::now());
                ProgressEvent::Step { step: *step, loss: *loss, tokens_per_second: *tokens_per_second }
            }
            TrainEvent::Evaluated { epoch, loss, train_accuracy, metrics, is_best, .. } => {
                let metrics = metrics.iter().map(|metric| (metric.key, metric.value));
                let metrics =
                    train_accuracy.map(|value| ("train_accuracy", value)).into_iter().chain(metrics).collect();
                ProgressEvent::Evaluated { epoch: *epoch, loss: *loss, metrics, is_best: *is_best }
            }
            _ => return None,
        })
    }

    /// Converts the event to a dictionary, whose key `event` holds its kind.
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        match self {
            ProgressEvent::Message(about, text) => {
                fields.set_item("event", "message")?;
                fields.set_item("about", *about)?;
                fields.set_item("text", text)?;
            }
            ProgressEvent::Estimated { steps, done, seconds } => {
                fields.set_item("event", "ready")?;
                fields.set_item("steps", steps)?;
                fields.set_item("done", done)?;
                fields.set_item("expected_seconds", seconds)?;
            }
            ProgressEvent::Step { step, loss, tokens_per_second } => {
                fields.set_item("event", "step")?;
                fields.set_item("step", step)?;
                fields.set_item("loss", loss)?;
                fields.set_item("tokens_per_second", tokens_per_second)?;
            }
            ProgressEvent::Evaluated { epoch, loss, metrics, is_best } => {
                fields.set_item("event", "evaluated")?;
                fields.set_item("epoch", epoch)?;
                fields.set_item("loss", loss)?;
                fields.set_item("is_best", is_best)?;
                for (key, value) in metrics {
                    fields.set_item(*key, value)?;
                }
            }
        }
        Ok(fields)
    }
}

/// Trains a model and writes its folder. Returns the content of `metrics.json`. `run` is a dictionary, described by the
/// types of this module; `progress` is called with a dictionary for each event.
///
/// Ctrl-C, or an exception raised by `progress`, stops the run after the current step. The best model so far is then
/// written, and the exception is raised.
#[pyfunction]
pub(crate) fn train(py: Python<'_>, run: &Bound<'_, PyDict>, progress: Option<Py<PyAny>>) -> PyResult<String> {
    let run: TrainParams = run.extract()?;
    let known = pool::run_long(py, || continued::base_model(&run))?.map_err(|failed| to_py_err(&failed))?;
    let kind = run.train_kind(known.as_ref())?;
    let options = run.train_options(kind)?;
    let pool = pool::own_pool()?;
    let stop = AtomicBool::new(false);
    let (halt, out): (_, &Path) = (&stop, &run.out);
    let (sender, receiver) = mpsc::channel();
    let work = |sender: Sender<ProgressEvent>| {
        let mut last = None;
        let mut training = Training::new(out);
        training.options = options;
        training.stop = halt;
        training.observe = Box::new(|event| {
            if let Some(event) = ProgressEvent::from_event(&event, &mut last) {
                // The receiver is gone after Python has raised.
                let _ = sender.send(event);
            }
        });
        run.read_and_train(kind, known.as_ref(), training)
    };
    // Training runs on another thread. Signals arrive only on this one, so it checks for them.
    let mut raised = None;
    let first = &mut raised;
    let result = py.detach(move || {
        std::thread::scope(move |scope| {
            // The sender moves into the thread, so the channel closes when training ends.
            let work = scope.spawn(move || pool.install(|| work(sender)));
            loop {
                let event = match receiver.recv_timeout(REPORT_INTERVAL) {
                    Ok(event) => Some(event),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                let report = |py: Python<'_>| -> PyResult<()> {
                    py.check_signals()?;
                    if let (Some(event), Some(progress)) = (&event, &progress) {
                        progress.call1(py, (event.to_python(py)?,))?;
                    }
                    Ok(())
                };
                if first.is_none()
                    && let Err(error) = Python::attach(report)
                {
                    *first = Some(error);
                    halt.store(true, Ordering::Relaxed);
                }
            }
            work.join()
        })
    });
    let result = result.map_err(|_| PyRuntimeError::new_err("training stopped because of an internal error"))?;
    match (raised, result) {
        (None, Ok(found)) => Ok(found),
        (None, Err(failed)) => Err(to_py_err(&failed)),
        (Some(raised), _) => Err(raised),
    }
}
