//! Classifiers of text: training, which is that of `chumoku train`, and what a trained one is asked.

use crate::addresses::{Array, Written};
use crate::pool::{self, Place};
use chumoku::data::{ReadOptions, load_labelled};
use chumoku::train::{Event, Training, TrainingData, train};
use chumoku::{Error, Precision, TextClassifier};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often steps are told, and how often Ctrl-C is looked for.
const OFTEN: Duration = Duration::from_millis(250);

fn error(error: &Error) -> PyErr {
    let message = error.to_string();
    if error.is_usage() { PyValueError::new_err(message) } else { PyOSError::new_err(message) }
}

/// What happens in a run, as it is told.
enum Told {
    Said(&'static str, String),
    Ready { steps: u64, done: u64, seconds: f64 },
    Step { step: u64, loss: f64, tokens_per_second: f64 },
    Evaluated { epoch: u64, loss: f64, metrics: Vec<(&'static str, f64)>, is_best: bool },
}

impl Told {
    fn of(event: &Event<'_>, last: &mut Option<Instant>) -> Option<Told> {
        Some(match event {
            Event::Said(about, text) | Event::Working(about, text) => Told::Said(about, text.clone()),
            Event::Ready { steps, done, expected, .. } => {
                Told::Ready { steps: *steps, done: *done, seconds: expected.as_secs_f64() }
            }
            Event::Step { step, loss, tokens_per_second } => {
                if last.is_some_and(|last| last.elapsed() < OFTEN) {
                    return None;
                }
                *last = Some(Instant::now());
                Told::Step { step: *step, loss: *loss, tokens_per_second: *tokens_per_second }
            }
            Event::Evaluated { epoch, loss, metrics, is_best, .. } => {
                let metrics = metrics.iter().map(|metric| (metric.key, metric.value)).collect();
                Told::Evaluated { epoch: *epoch, loss: *loss, metrics, is_best: *is_best }
            }
            _ => return None,
        })
    }

    /// As a dictionary, whose `event` says what it is.
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

/// Trains a classifier on a file of rows `{"text": …, "label": …}`, and writes the model folder `out`. Returns what
/// `metrics.json` holds, and whether Ctrl-C ended it; then what was best so far is the model.
///
/// `progress` is called with a dictionary for each event.
#[pyfunction]
#[pyo3(signature = (file, out, *, epochs, seed, precision, from_pretrained, resume, progress))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn train_classifier(
    py: Python<'_>,
    file: PathBuf,
    out: PathBuf,
    epochs: Option<u64>,
    seed: u64,
    precision: &str,
    from_pretrained: Option<PathBuf>,
    resume: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, bool)> {
    let precision = Precision::named(precision).ok_or_else(|| {
        let known = Precision::ALL.map(|known| known.name()).join(", ");
        PyValueError::new_err(format!("precision: expected one of {known}, got {precision:?}"))
    })?;
    let mut read = ReadOptions::default();
    (read.text, read.label) = (Some("text".into()), Some("label".into()));
    let pool = pool::the_pool()?;
    let stop = AtomicBool::new(false);
    let (sender, told) = mpsc::channel();
    let halt = &stop;
    let run = move |sender: mpsc::Sender<Told>| -> Result<_, Error> {
        let dataset = load_labelled(&file, &read)?;
        let data = TrainingData::new(&dataset, None, None)?;
        drop(dataset);
        let mut last = None;
        let mut training = Training::to(&out);
        training.options.epochs = epochs;
        training.options.seed = seed;
        training.options.precision = precision;
        training.options.from = from_pretrained;
        training.options.resume = resume;
        training.stop = halt;
        training.observe = Box::new(|event| {
            if let Some(event) = Told::of(&event, &mut last) {
                // Nobody listens any more once Python has raised.
                let _ = sender.send(event);
            }
        });
        let outcome = train(&data, training)?;
        Ok((outcome.metrics.to_string(), outcome.interrupted))
    };
    // Training runs on another thread: signals come to this one alone, and are looked for here.
    let mut raised = None;
    let first = &mut raised;
    let result = py.detach(move || {
        std::thread::scope(move |scope| {
            // The sender goes with it, so that its end is heard here.
            let run = scope.spawn(move || pool.install(|| run(sender)));
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
            run.join()
        })
    });
    let result = result.map_err(|_| PyRuntimeError::new_err("training ended by a fault of the program"))?;
    match (raised, result) {
        (None, Ok(found)) => Ok(found),
        (None, Err(failed)) => Err(error(&failed)),
        (Some(raised), _) => Err(raised),
    }
}

/// A trained classifier of text.
#[pyclass(frozen, module = "chumoku._chumoku")]
pub(crate) struct Classifier(TextClassifier);

#[pymethods]
impl Classifier {
    /// Reads a model folder.
    #[staticmethod]
    fn load(py: Python<'_>, folder: PathBuf) -> PyResult<Self> {
        let loaded = pool::run(py, Place::Pool, || TextClassifier::load(&folder))?;
        loaded.map(Classifier).map_err(|failed| error(&failed))
    }

    /// The classes, in the order of the columns of `predict`.
    #[getter]
    fn labels(&self) -> Vec<String> {
        self.0.labels().to_vec()
    }

    /// Why this text gets its class; `name` is what the model is called.
    fn explain(&self, py: Python<'_>, text: String, name: String) -> PyResult<Explanation> {
        let found = pool::run(py, Place::Pool, || self.0.explain(&text, &name))?;
        found.map(Explanation).map_err(|failed| error(&failed))
    }

    /// Writes the probabilities of the classes for each text: float32 of shape (texts, classes).
    fn predict(&self, py: Python<'_>, texts: Vec<String>, probabilities: Array) -> PyResult<()> {
        let classes = self.0.labels().len();
        let is_dense = probabilities
            .strides
            .iter()
            .zip([classes, 1])
            .zip(&probabilities.shape)
            .all(|((a, b), &n)| n <= 1 || *a == b);
        if probabilities.shape != [texts.len(), classes] || !is_dense {
            return Err(PyValueError::new_err(format!("expected room for ({}, {classes})", texts.len())));
        }
        let out = Written::new(vec![&probabilities], &[])?.next::<f32>("probabilities")?;
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let found = pool::run(py, Place::Pool, || self.0.predict(&texts))?.map_err(|failed| error(&failed))?;
        for (out, prediction) in out.chunks_exact_mut(classes).zip(found) {
            out.copy_from_slice(&prediction.probabilities);
        }
        Ok(())
    }
}

/// Why a text got its class: the effect of each word, and the attention of every head.
#[pyclass(frozen, module = "chumoku._chumoku")]
pub(crate) struct Explanation(chumoku_view::Explanation);

#[pymethods]
impl Explanation {
    /// What `chumoku explain --json` writes.
    fn json(&self) -> String {
        chumoku_view::to_json(&self.0).to_string()
    }

    /// The page that `chumoku explain --html` writes, in English ("en") or Japanese ("ja").
    fn page(&self, lang: &str) -> PyResult<String> {
        let lang = lang
            .parse()
            .map_err(|_| PyValueError::new_err(format!("lang: expected \"en\" or \"ja\", got {lang:?}")))?;
        let layers = chumoku_view::to_json(&self.0)["layers"].as_u64().unwrap_or(0) as usize;
        let Some(last) = layers.checked_sub(1) else {
            return Err(PyValueError::new_err(
                "this model is a recurrent network: it has no attention to show on a page",
            ));
        };
        Ok(chumoku_view::to_html(&self.0, [last, 0], lang))
    }
}
