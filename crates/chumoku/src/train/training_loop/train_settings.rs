//! Settings of a training run, for any model.

use chumoku_kernels::Precision;
use serde::{Deserialize, Serialize};

/// Settings of a training run, for any model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TrainSettings {
    /// The maximum number of epochs.
    pub epochs: u64,
    /// Epochs without a better score on the validation rows before training stops.
    pub patience: u64,
    /// The maximum number of tokens in a batch.
    pub batch_tokens: usize,
    /// The number of micro-batches in a batch, which run in parallel. Results depend on it, so the plan decides it, not
    /// the number of threads.
    #[serde(rename = "parts")]
    pub micro_batches: usize,
    /// The highest learning rate.
    pub(crate) learning_rate: f64,
    /// Factor on the learning rate of the token embeddings. They are multiplied by √d_model, which makes each step
    /// count that much more.
    #[serde(rename = "embedding_rate")]
    pub(crate) embedding_learning_rate_factor: f64,
    /// Factor on the learning rate of a classifier's head. With a pretrained encoder, only the head is new.
    #[serde(rename = "head_rate", skip_serializing_if = "is_one")]
    pub(crate) head_learning_rate_factor: f64,
    /// Share of the steps in which the learning rate rises.
    pub(crate) warmup_share: f64,
    /// Weight decay of matrices.
    pub(crate) weight_decay: f64,
    /// β₂ of AdamW; β₁ is 0.9.
    pub(crate) beta2: f64,
    /// The norm that gradients are clipped to.
    pub(crate) clip_norm: f64,
    /// Share of the target spread over all classes or tokens.
    pub(crate) label_smoothing: f32,
    /// Decay of the moving average of the weights, which is evaluated and saved.
    pub(crate) average_decay: f64,
    /// The precision of matrix products.
    #[serde(with = "crate::model_folder::precision")]
    pub(crate) precision: Precision,
}

fn is_one(rate: &f64) -> bool {
    *rate == 1.0
}
