//! Inputs of all training functions, and the files of the finished model. The folder gets all of them or none.

use crate::model_folder::{CARD, METRICS, write_model};
use crate::train::settings::options::TrainOptions;
use crate::train::training_loop::train_event::TrainEvent;
use crate::train::training_loop::train_state::BestEvaluation;
use crate::{Error, ModelKind, Result};
use serde_json::Value;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Options, output folder, cancellation and progress of a training run.
///
/// ```
/// use chumoku::train::Training;
///
/// let folder = std::path::Path::new("model");
/// let mut training = Training::new(folder);
/// training.options.epochs = Some(3);
/// assert_eq!(training.out, folder);
/// ```
#[non_exhaustive]
pub struct Training<'a> {
    /// Settings that override those chosen from the data.
    pub options: TrainOptions,
    /// The model folder to be written.
    pub out: &'a Path,
    /// Cancels training once it is `true`. The best weights so far then become the model.
    pub stop: &'a AtomicBool,
    /// Called for every [`TrainEvent`](crate::train::TrainEvent).
    pub observe: Box<dyn FnMut(TrainEvent<'_>) + 'a>,
}

/// Receives the events of a run.
type Observe<'a> = &'a mut dyn FnMut(TrainEvent<'_>);

/// Options, output folder and cancellation of a run.
#[derive(Clone, Copy)]
pub(crate) struct RunContext<'a> {
    pub(crate) options: &'a TrainOptions,
    pub(crate) out: &'a Path,
    pub(crate) stop: &'a AtomicBool,
}

impl<'a> Training<'a> {
    /// Trains with the default options, without progress output or cancellation.
    #[must_use]
    pub fn new(out: &'a Path) -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Training { options: TrainOptions::default(), out, stop: &NEVER, observe: Box::new(|_| {}) }
    }

    /// Rejects options that this kind of model does not support, and creates the folder.
    pub(crate) fn prepare(&self, kind: ModelKind) -> Result<()> {
        self.options.check_watch(kind)?;
        std::fs::create_dir_all(self.out).map_err(Error::write("creating", self.out))
    }

    /// Prepares, and returns the parts of the training.
    pub(crate) fn begin(&mut self, kind: ModelKind) -> Result<(RunContext<'_>, Observe<'_>)> {
        self.prepare(kind)?;
        Ok((RunContext { options: &self.options, out: self.out, stop: self.stop }, &mut *self.observe))
    }
}

/// The result of training a classifier or a predictor of numbers: a model `M` with scores `S`.
#[derive(Debug)]
#[non_exhaustive]
pub struct TrainOutcome<M, S> {
    /// The saved model.
    pub model: M,
    /// The content of `metrics.json`.
    pub metrics: Value,
    /// Scores of the model on the test rows.
    pub test: S,
    /// Scores on the same rows of the ensemble members alone and of baselines, by their name in `metrics.json`.
    pub parts: Vec<(&'static str, S)>,
    /// For numbers, the true and the predicted number of each of these rows. Otherwise empty.
    pub points: Vec<[f64; 2]>,
    /// Advice from the scores, in one line, for classifiers of one class a text.
    pub advice: Option<String>,
    /// The training method and the reason for it, in one line, if there was a choice.
    pub choice: Option<String>,
    /// The best evaluation of the network.
    pub best: Option<BestEvaluation>,
    /// True if training was interrupted.
    pub interrupted: bool,
}

/// Returns the part for the scores: the test part, else the validation part, else the training part.
pub(crate) fn held_out_part<P>([train, valid, test]: [&P; 3], is_empty: impl Fn(&P) -> bool) -> (&P, &'static str) {
    match (is_empty(test), is_empty(valid)) {
        (false, _) => (test, "test"),
        (true, false) => (valid, "valid"),
        (true, true) => (train, "train"),
    }
}

/// Writes the model folder: the model's own files, `metrics.json` and the card.
pub(crate) fn write_folder(
    out: &Path,
    mut files: Vec<(&'static str, Vec<u8>)>,
    metrics: &Value,
    card: String,
) -> Result<()> {
    let pretty = serde_json::to_string_pretty(metrics).expect("metrics are plain data") + "\n";
    files.extend([(METRICS, pretty.into_bytes()), (CARD, card.into_bytes())]);
    write_model(out, files)
}
