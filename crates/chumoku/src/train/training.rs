//! What every way of training is given, how it begins, and how it ends: the folder's files, each whole or none.

use super::options::TrainOptions;
use super::run::TrainEvent;
use crate::model_folder::{CARD, METRICS, write_model};
use crate::{Error, ModelKind, Result};
use serde_json::Value;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// How a model is trained, and where to.
///
/// ```
/// use chumoku::train::Training;
///
/// let folder = std::path::Path::new("model");
/// let mut training = Training::to(folder);
/// training.options.epochs = Some(3);
/// assert_eq!(training.out, folder);
/// ```
#[non_exhaustive]
pub struct Training<'a> {
    /// The settings that are not chosen from the data.
    pub options: TrainOptions,
    /// The model folder to be written.
    pub out: &'a Path,
    /// Ends training early once it is set: what is best so far is then the model.
    pub stop: &'a AtomicBool,
    /// Told of everything that happens.
    pub observe: Box<dyn FnMut(TrainEvent<'_>) + 'a>,
}

impl<'a> Training<'a> {
    /// Trains with the default settings to a folder, silently, to its end.
    #[must_use]
    pub fn new(out: &'a Path) -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Training { options: TrainOptions::default(), out, stop: &NEVER, observe: Box::new(|_| {}) }
    }

    /// Refuses options that this kind of model does not have, and makes the folder.
    pub(super) fn begin(&self, kind: ModelKind) -> Result<()> {
        self.options.check_watch(kind)?;
        std::fs::create_dir_all(self.out).map_err(Error::write("creating", self.out))
    }
}

/// The part that scores are reported on: the test part or, where there is none, the validation or the training part.
pub(super) fn held_out_part<P>([train, valid, test]: [&P; 3], is_empty: impl Fn(&P) -> bool) -> (&P, &'static str) {
    match (is_empty(test), is_empty(valid)) {
        (false, _) => (test, "test"),
        (true, false) => (valid, "valid"),
        (true, true) => (train, "train"),
    }
}

/// Puts a trained model in its folder: its own files, `metrics.json` and the card.
pub(super) fn write_folder(
    out: &Path,
    mut files: Vec<(&'static str, Vec<u8>)>,
    metrics: &Value,
    card: String,
) -> Result<()> {
    let pretty = serde_json::to_string_pretty(metrics).expect("metrics are plain data") + "\n";
    files.extend([(METRICS, pretty.into_bytes()), (CARD, card.into_bytes())]);
    write_model(out, files)
}
