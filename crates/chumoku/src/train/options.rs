//! What the caller decides of a run.

use super::class_weights::ClassWeights;
use super::data_source::DataSource;
use super::plan::Freeze;
use super::setting_overrides::SettingOverrides;
use super::worker_group::WorkerGroup;
use crate::decision_rule::Optimize;
use crate::nn::{BackboneKind, PositionKind};
use crate::text::TokenizationUnit;
use chumoku_kernels::Precision;
use std::path::PathBuf;
use std::time::Duration;

/// What the caller decides of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TrainOptions {
    /// Decides initial weights, order and dropout.
    pub seed: u64,
    /// Epochs at most; chosen from the data if absent.
    pub epochs: Option<u64>,
    /// The network of a classifier that reads the tokens.
    pub network: BackboneKind,
    /// Positional encoding of a classifier's transformer.
    pub position: PositionKind,
    /// The folder of a pretrained encoder, as Hugging Face's library writes it, that a classifier starts from; or of a
    /// language model, published or trained here, that is trained further.
    pub from: Option<PathBuf>,
    /// What stays of it as it was pretrained; chosen from its size if absent.
    pub freeze: Option<Freeze>,
    /// How much the rows of each class count, of a classifier of one class a text; if absent, rare classes count more to the
    /// network where classes are unbalanced.
    pub class_weights: Option<ClassWeights>,
    /// The figure that answers of a classifier of one class a text are chosen for on the validation rows; if absent, the
    /// answer is the most probable class.
    pub optimize: Option<Optimize>,
    /// Settings of a classifier that are otherwise chosen from the data.
    pub set: SettingOverrides,
    /// What tokens are; chosen from the data if absent.
    pub tokens: Option<TokenizationUnit>,
    /// How exact matrix products are.
    pub precision: Precision,
    /// Parts of a batch, from 1 to [`MOST_PARTS`](super::MOST_PARTS), that are learnt from side by side; chosen from the
    /// tokens of a batch if absent.
    pub parts: Option<usize>,
    /// Train so many times more, each time on all training and validation rows but one part, which is judged: the figures are
    /// reported beside those of the test rows (cross-validation: Stone, "Cross-validatory choice and assessment of statistical
    /// predictions", 1974).
    pub folds: Option<usize>,
    /// Continue from the newest checkpoint in the folder.
    pub resume: bool,
    /// Time between checkpoints, beside those after each epoch. Does not change results.
    pub checkpoint_every: Duration,
    /// A text whose attention is recorded before training and after each epoch, in `log.jsonl`; of a translator a source
    /// and its translation with a tab between them. Does not change results.
    pub watch: Option<String>,
    /// The files of the rows, of a translator or a language model, which its folder remembers. Does not change results.
    pub source: Option<DataSource>,
    /// This process's part in a run that several processes share; alone if absent. Does not change results.
    pub crew: Option<WorkerGroup>,
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
            set: SettingOverrides::default(),
            tokens: None,
            // The fastest, and what it loses cannot be told from chance: `docs/training.md` has the figures.
            precision: Precision::Medium,
            parts: None,
            folds: None,
            resume: false,
            checkpoint_every: Duration::from_secs(30),
            watch: None,
            source: None,
            crew: None,
        }
    }
}
