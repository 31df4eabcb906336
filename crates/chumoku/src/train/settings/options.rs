//! Options of a training run.

use super::class_weights::ClassWeights;
use super::plan::Freeze;
use super::setting_overrides::SettingOverrides;
use crate::nn::{BackboneKind, PositionKind};
use crate::prediction::decision_rule::Optimize;
use crate::text::TokenizationUnit;
use crate::train::data::data_source::DataSource;
use crate::train::training_loop::train_settings::TrainSettings;
use crate::train::training_loop::weights_observer::{LogWeights, ObservedNetwork, WeightsObserver};
use crate::train::training_loop::worker_group::WorkerGroup;
use crate::{ModelKind, Result};
use chumoku_kernels::Precision;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Options of a training run that the caller sets.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TrainOptions {
    /// Seeds the initial weights, the order of the rows, and dropout.
    pub seed: u64,
    /// The maximum number of epochs. Chosen from the data if absent.
    pub epochs: Option<u64>,
    /// The kind of network of a classifier.
    pub network: BackboneKind,
    /// The positional encoding of a classifier's transformer.
    pub position: PositionKind,
    /// The folder of the model to start from. A classifier starts from a pretrained encoder in Hugging Face format; a
    /// language model from a published one, or from one trained here.
    pub from: Option<PathBuf>,
    /// The frozen parameters of the pretrained model. Chosen from its size if absent.
    pub freeze: Option<Freeze>,
    /// Weights of the classes, for a classifier of one class a text. If absent, and classes are unbalanced, the network
    /// weights rare classes more.
    pub class_weights: Option<ClassWeights>,
    /// The figure to optimize by choosing answers on the validation rows, for a classifier of one class a text. If
    /// absent, the answer is the most probable class.
    pub optimize: Option<Optimize>,
    /// Overrides of settings that are otherwise chosen from the data, for a classifier.
    pub overrides: SettingOverrides,
    /// The kind of tokens. Chosen from the data if absent.
    pub tokens: Option<TokenizationUnit>,
    /// The precision of matrix products.
    pub precision: Precision,
    /// The number of micro-batches in a batch, from 1 to [`MAX_MICRO_BATCHES`](crate::train::MAX_MICRO_BATCHES), which
    /// run in parallel. Chosen from the tokens of a batch if absent.
    pub micro_batches: Option<usize>,
    /// The number of folds for cross-validation. Each fold trains one more model on all training and validation rows
    /// outside the fold, and scores it on the fold. The figures are reported with those of the test rows (Stone,
    /// "Cross-validatory choice and assessment of statistical predictions", 1974).
    pub folds: Option<usize>,
    /// Resumes from the newest checkpoint in the folder.
    pub resume: bool,
    /// The time between checkpoints, besides those after each epoch. Does not change results.
    pub(crate) checkpoint_every: Duration,
    /// An observer of the weights, whose records go into `log.jsonl`. [`WatchedText`](crate::film::WatchedText) records
    /// attention. Does not change results.
    pub watch: Option<Arc<dyn WeightsObserver>>,
    /// The files of the rows of a translator or a language model, to be recorded in its folder. Does not change
    /// results.
    pub source: Option<DataSource>,
    /// The role of this process in a run that several processes share. If absent, the process trains alone. Does not
    /// change results.
    pub worker_group: Option<WorkerGroup>,
}

impl TrainOptions {
    /// Checks whether the observer of the weights supports a model of this kind, if there is an observer.
    ///
    /// # Errors
    /// If it does not.
    pub fn check_watch(&self, kind: ModelKind) -> Result<()> {
        self.watch.as_ref().map_or(Ok(()), |watch| watch.check(kind, self.network))
    }

    /// Overrides the settings that every task has.
    pub(crate) fn apply_to(&self, settings: &mut TrainSettings) {
        settings.epochs = self.epochs.unwrap_or(settings.epochs);
        settings.precision = self.precision;
        settings.micro_batches = self.micro_batches.unwrap_or(settings.micro_batches);
    }

    /// Prepares the observer of the weights, if there is one.
    pub(crate) fn observer_of<'a>(&self, network: ObservedNetwork<'a>) -> Result<Option<LogWeights<'a>>> {
        self.watch.as_ref().map(|watch| watch.observe(network)).transpose()
    }
}

impl Default for TrainOptions {
    fn default() -> Self {
        TrainOptions {
            seed: 42,
            epochs: None,
            network: BackboneKind::Transformer,
            position: PositionKind::Sinusoidal,
            from: None,
            freeze: None,
            class_weights: None,
            optimize: None,
            overrides: SettingOverrides::default(),
            tokens: None,
            // The fastest precision. Its loss of accuracy is within chance: see the figures in `docs/training.md`.
            precision: Precision::Medium,
            micro_batches: None,
            folds: None,
            resume: false,
            checkpoint_every: Duration::from_secs(30),
            watch: None,
            source: None,
            worker_group: None,
        }
    }
}
