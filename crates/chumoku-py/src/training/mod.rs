//! Training from Python. It runs `chumoku train` on a separate thread, while the calling thread checks for Ctrl-C and
//! reports progress.
//!
//! # Files
//!
//! - `continued`: continued training

mod further;

use crate::outputs::ReadPath;
use crate::pool;
use crate::wording::{error, of_python};
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
pub(crate) const OFTEN: Duration = Duration::from_millis(250);

/// Parses the precision of matrix products.
pub(crate) fn precision(name: &str) -> PyResult<Precision> {
    Precision::from_name(name).ok_or_else(|| unknown("precision", name, &Precision::ALL.map(|known| known.name())))
}

fn unknown(what: &str, found: &str, known: &[&str]) -> PyErr {
    PyValueError::new_err(format!("{what}: expected one of {}, got {found:?}", known.join(", ")))
}

/// The parameters of a training run, as Python passes them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Run {
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
    class_weight: Option<Weights>,
    /// The weight of each row of the file; equal weights if absent.
    sample_weight: Option<Vec<f64>>,
    optimize: Option<String>,
    hierarchy: Option<String>,
    /// If set, spelling variants of a label are merged.
    merge_labels: bool,
    /// The feature columns, each with its type if given.
    columns: Vec<(String, Option<String>)>,
    tune: Option<Budget>,
    folds: Option<usize>,
    settings: Option<String>,
    resume: bool,
}

/// The budget for the settings search: trials or seconds.
#[derive(FromPyObject)]
enum Budget {
    #[pyo3(transparent)]
    Trials(u64),
    #[pyo3(transparent)]
    Seconds(f64),
}

/// Class weights.
#[derive(FromPyObject)]
enum Weights {
    Named(String),
    Times(Vec<(String, f32)>),
}

/// The kind of model to train.
#[derive(Clone, Copy)]
enum Kind {
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

impl Run {
    /// Returns the kind of model to train. A base classifier determines its own kind.
    fn kind(&self, known: Option<&BaseModel>) -> PyResult<Kind> {
        let kind = match known.map_or(self.model.as_str(), |known| further::model_of(known)) {
            "transformer" => Kind::Classifier(BackboneKind::Transformer),
            "rnn" => Kind::Classifier(BackboneKind::Recurrent(RecurrentCell::Rnn)),
            "lstm" => Kind::Classifier(BackboneKind::Recurrent(RecurrentCell::Lstm)),
            "gru" => Kind::Classifier(BackboneKind::Recurrent(RecurrentCell::Gru)),
            "ngrams" => Kind::Ngrams,
            "translator" => Kind::Translator,
            "language_model" => Kind::LanguageModel,
            "tagger" => Kind::Tagger,
            other => return Err(unknown("model", other, &["transformer", "rnn", "lstm", "gru", "ngrams"])),
        };
        if self.tune.is_some() && self.task != "class" {
            return Err(PyValueError::new_err("tune: expected one class per text, got labels, numbers or spans"));
        }
        match (kind, self.task.as_str()) {
            (Kind::Classifier(network), "labels") => Ok(Kind::Labels(Some(network))),
            (Kind::Classifier(network), "number") => Ok(Kind::Number(Some(network))),
            (Kind::Ngrams, "labels") => Ok(Kind::Labels(None)),
            (Kind::Ngrams, "number") => Ok(Kind::Number(None)),
            (kind, _) => Ok(kind),
        }
    }

    fn options(&self, kind: Kind) -> PyResult<TrainOptions> {
        let mut options = TrainOptions::default();
        options.epochs = self.epochs;
        options.seed = self.seed;
        if let Some(name) = &self.precision {
            options.precision = precision(name)?;
        }
        options.from = self.from_pretrained.as_deref().map(Path::to_owned);
        options.resume = self.resume;
        if let Kind::Classifier(network) | Kind::Labels(Some(network)) | Kind::Number(Some(network)) = kind {
            options.network = network;
        }
        options.folds = self.folds;
        options.set = self.set(kind)?;
        options.class_weights = match &self.class_weight {
            None => None,
            Some(Weights::Times(times)) => Some(ClassWeights::Times(times.clone())),
            Some(Weights::Named(name)) if name == "balanced" => Some(ClassWeights::Balanced),
            Some(Weights::Named(name)) if name == "equal" => Some(ClassWeights::Equal),
            Some(Weights::Named(name)) => {
                return Err(unknown("class_weight", name, &["balanced", "equal", "a dictionary"]));
            }
        };
        options.optimize = match self.optimize.as_deref() {
            None => None,
            Some("macro_f1") if self.task == "class" => Some(Optimize::MacroF1),
            Some("macro_f1") => {
                return Err(PyValueError::new_err("optimize: expected one class per text, got labels or numbers"));
            }
            Some(other) => return Err(unknown("optimize", other, &["macro_f1"])),
        };
        options.tokens = match self.tokens.as_deref() {
            None => None,
            Some("subwords") => Some(TokenizationUnit::Subwords),
            Some("characters") => Some(TokenizationUnit::Characters),
            Some("words") => Some(TokenizationUnit::Words),
            Some(other) => return Err(unknown("tokens", other, &["subwords", "characters", "words"])),
        };
        let freeze = match self.freeze.as_deref() {
            None => None,
            Some("none") => Some(Freeze::Nothing),
            Some("embeddings") => Some(Freeze::Embeddings),
            Some("all") => Some(Freeze::All),
            Some(layers) => Some(Freeze::Layers(
                layers
                    .parse()
                    .map_err(|_| unknown("freeze", layers, &["none", "embeddings", "all", "a number of layers"]))?,
            )),
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
    fn set(&self, kind: Kind) -> PyResult<SettingOverrides> {
        let Some(settings) = &self.settings else { return Ok(SettingOverrides::default()) };
        let set: SettingOverrides =
            settings.parse().map_err(|problem: String| PyValueError::new_err(format!("settings: {problem}")))?;
        let has_network = !matches!(kind, Kind::Ngrams | Kind::Labels(None) | Kind::Number(None));
        set.check(has_network, self.from_pretrained.is_some()).map_err(|failed| error(&failed))?;
        let twice = [(Setting::Epochs, self.epochs.is_some()), (Setting::Tokens, self.tokens.is_some())];
        let said_twice = set.settings().find(|setting| twice.contains(&(*setting, true)));
        match said_twice {
            None => Ok(set),
            Some(setting) => {
                let name = setting.name();
                Err(PyValueError::new_err(format!("{name}, settings: both set the same option; give one of them")))
            }
        }
    }

    /// The sample weights for a file, if it is the file of new rows.
    fn weights_of(&self, file: &Path, rows: usize) -> Result<Option<Vec<f32>>, Error> {
        match &self.sample_weight {
            Some(weights) if *file == self.file => row_weights(weights, rows),
            _ => Ok(None),
        }
    }

    /// Reads the rows and trains. Returns the content of `metrics.json`.
    fn work(&self, kind: Kind, known: Option<&BaseModel>, mut training: Training<'_>) -> Result<String, Error> {
        let mut read = ReadOptions::default();
        read.text = Some(if self.pairs { "text_1,text_2" } else { "text" }.into());
        // Python has already handled missing labels.
        read.missing = Some(Vec::new());
        read.merge_labels = self.merge_labels.then(|| known.map(|known| known.labels.clone()).unwrap_or_default());
        let asked = |(name, kind): &(String, Option<String>)| FeatureRequest {
            name: name.clone(),
            kind: kind.clone(),
            ..FeatureRequest::default()
        };
        read.features = self.columns.iter().map(asked).collect();
        let budget = match self.tune {
            None => None,
            Some(Budget::Trials(trials)) => Some(TuneBudget::Trials(trials)),
            Some(Budget::Seconds(seconds)) => {
                let wrong = |_| Error::Setting(format!("tune: expected a time, got {seconds} s"));
                Some(TuneBudget::Time(Duration::try_from_secs_f64(seconds).map_err(wrong)?))
            }
        };
        Ok(match kind {
            Kind::Classifier(_) | Kind::Ngrams => {
                read.label = Some("label".into());
                let data = match known {
                    Some(known) => {
                        let load = |file: &Path, read: &ReadOptions, name: &str| {
                            let mut rows = load_labeled(file, read)?.with_path(Path::new(name));
                            rows.weights = self.weights_of(file, rows.examples.len())?;
                            Ok(rows)
                        };
                        further::data(self, known, read, load, &mut training)?
                    }
                    None => {
                        let mut rows = load_labeled(&self.file, &read)?;
                        rows.weights = self.weights_of(&self.file, rows.examples.len())?;
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
                    (Kind::Ngrams, None) => train_ngram_classifier(&data, training)?.metrics,
                    (Kind::Ngrams, Some(budget)) => tune_ngrams(&data, budget, training)?.metrics,
                    (_, None) => chumoku::train::train(&data, training)?.metrics,
                    (_, Some(budget)) => tune(&data, budget, training)?.metrics,
                }
            }
            Kind::Labels(network) => {
                read.label = Some("labels".into());
                let data = match known {
                    Some(known) => {
                        let load = |file: &Path, read: &ReadOptions, name: &str| {
                            let sets = load_multi_label(file, read, &LabelOptions::default())?;
                            let mut sets = sets.with_path(Path::new(name));
                            sets.weights = self.weights_of(file, sets.examples.len())?;
                            Ok(sets)
                        };
                        further::data(self, known, read, load, &mut training)?
                    }
                    None => {
                        let mut sets = load_multi_label(&self.file, &read, &LabelOptions::default())?;
                        sets.weights = self.weights_of(&self.file, sets.examples.len())?;
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
            Kind::Number(network) => {
                read.label = Some("number".into());
                let data = match known {
                    Some(known) => {
                        let load = |file: &Path, read: &ReadOptions, name: &str| {
                            let mut scores = load_scores(file, read)?.with_path(Path::new(name));
                            scores.weights = self.weights_of(file, scores.examples.len())?;
                            Ok(scores)
                        };
                        further::data(self, known, read, load, &mut training)?
                    }
                    None => {
                        let mut scores = load_scores(&self.file, &read)?;
                        scores.weights = self.weights_of(&self.file, scores.examples.len())?;
                        TrainingData::from_scores(&scores, None, None)?
                    }
                };
                match network {
                    Some(_) => train_number(&data, training)?.metrics,
                    None => train_ngram_number(&data, training)?.metrics,
                }
            }
            Kind::Tagger => {
                read.label = Some("spans".into());
                let data = match known {
                    Some(known) => {
                        let load = |file: &Path, read: &ReadOptions, name: &str| {
                            Ok(load_spans(file, read)?.with_path(Path::new(name)))
                        };
                        further::data(self, known, read, load, &mut training)?
                    }
                    None => TaggerData::new(&load_spans(&self.file, &read)?, None, None)?,
                };
                train_tagger(&data, training)?.metrics
            }
            Kind::Translator => {
                let pairs = load_pairs(&DataFiles::One(self.file.clone()), &ReadOptions::default())?;
                let names = pairs.names.clone();
                train_translator(&PairSplit::new(&pairs, None, None)?, names, training)?.metrics
            }
            Kind::LanguageModel => {
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
enum Told {
    Said(&'static str, String),
    Ready { steps: u64, done: u64, seconds: f64 },
    Step { step: u64, loss: f64, tokens_per_second: f64 },
    Evaluated { epoch: u64, loss: f64, metrics: Vec<(&'static str, f64)>, is_best: bool },
}

impl Told {
    fn of(event: &TrainEvent<'_>, last: &mut Option<Instant>) -> Option<Told> {
        Some(match event {
            TrainEvent::Message(about, text) | TrainEvent::Progress(about, text) => Told::Said(about, of_python(text)),
            TrainEvent::Estimated { steps, steps_done: done, remaining: expected, .. } => {
                Told::Ready { steps: *steps, done: *done, seconds: expected.as_secs_f64() }
            }
            TrainEvent::Step { step, loss, tokens_per_second } => {
                if last.is_some_and(|last| last.elapsed() < OFTEN) {
                    return None;
                }
                *last = Some(Instant::now());
                Told::Step { step: *step, loss: *loss, tokens_per_second: *tokens_per_second }
            }
            TrainEvent::Evaluated { epoch, loss, metrics, is_best, .. } => {
                let metrics = metrics.iter().map(|metric| (metric.key, metric.value)).collect();
                Told::Evaluated { epoch: *epoch, loss: *loss, metrics, is_best: *is_best }
            }
            _ => return None,
        })
    }

    /// Converts the event to a dictionary, whose key `event` holds its kind.
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let told = PyDict::new(py);
        match self {
            Told::Said(about, text) => {
                told.set_item("event", "said")?;
                told.set_item("about", *about)?;
                told.set_item("text", text)?;
            }
            Told::Ready { steps, done, seconds } => {
                told.set_item("event", "ready")?;
                told.set_item("steps", steps)?;
                told.set_item("done", done)?;
                told.set_item("expected_seconds", seconds)?;
            }
            Told::Step { step, loss, tokens_per_second } => {
                told.set_item("event", "step")?;
                told.set_item("step", step)?;
                told.set_item("loss", loss)?;
                told.set_item("tokens_per_second", tokens_per_second)?;
            }
            Told::Evaluated { epoch, loss, metrics, is_best } => {
                told.set_item("event", "evaluated")?;
                told.set_item("epoch", epoch)?;
                told.set_item("loss", loss)?;
                told.set_item("is_best", is_best)?;
                for (key, value) in metrics {
                    told.set_item(*key, value)?;
                }
            }
        }
        Ok(told)
    }
}

/// Trains a model and writes its folder. Returns the content of `metrics.json`. `run` is a dictionary, described by the
/// types of this module; `progress` is called with a dictionary for each event.
///
/// Ctrl-C, or an exception raised by `progress`, stops the run after the current step. The best model so far is then
/// written, and the exception is raised.
#[pyfunction]
pub(crate) fn train(py: Python<'_>, run: &Bound<'_, PyDict>, progress: Option<Py<PyAny>>) -> PyResult<String> {
    let run: Run = run.extract()?;
    let known = pool::run_long(py, || further::known(&run))?.map_err(|failed| error(&failed))?;
    let kind = run.kind(known.as_ref())?;
    let options = run.options(kind)?;
    let pool = pool::own_pool()?;
    let stop = AtomicBool::new(false);
    let (halt, out): (_, &Path) = (&stop, &run.out);
    let (sender, told) = mpsc::channel();
    let work = |sender: Sender<Told>| {
        let mut last = None;
        let mut training = Training::new(out);
        training.options = options;
        training.stop = halt;
        training.observe = Box::new(|event| {
            if let Some(event) = Told::of(&event, &mut last) {
                // The receiver is gone after Python has raised.
                let _ = sender.send(event);
            }
        });
        run.work(kind, known.as_ref(), training)
    };
    // Training runs on another thread. Signals arrive only on this one, so it checks for them.
    let mut raised = None;
    let first = &mut raised;
    let result = py.detach(move || {
        std::thread::scope(move |scope| {
            // The sender moves into the thread, so the channel closes when training ends.
            let work = scope.spawn(move || pool.install(|| work(sender)));
            loop {
                let event = match told.recv_timeout(OFTEN) {
                    Ok(event) => Some(event),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                let tell = |py: Python<'_>| -> PyResult<()> {
                    py.check_signals()?;
                    if let (Some(event), Some(progress)) = (&event, &progress) {
                        progress.call1(py, (event.to_python(py)?,))?;
                    }
                    Ok(())
                };
                if first.is_none()
                    && let Err(error) = Python::attach(tell)
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
        (None, Err(failed)) => Err(error(&failed)),
        (Some(raised), _) => Err(raised),
    }
}
