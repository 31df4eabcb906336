//! The settings of a run, chosen from the data so that defaults do well.

use crate::Result;
use crate::models::ClassifierConfig;
use crate::nn::{BackboneKind, EncoderConfig, InputEmbeddingsOptions, Pooling, PositionKind};
use crate::params::{LowRankConfig, Params};
use crate::text_models::optimizer_defaults;
use crate::train::training_loop::micro_batches::default_micro_batches;
use crate::train::training_loop::train_settings::TrainSettings;
use chumoku_kernels::Precision;
use serde::{Deserialize, Serialize};

/// The parameters that fine-tuning freezes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Freeze {
    /// Nothing.
    Nothing,
    /// The embeddings of tokens and positions.
    Embeddings,
    /// The embeddings and this many layers above them.
    Layers(usize),
    /// Everything but the head.
    All,
    /// Everything but the head; in addition, low-rank updates of this rank are trained for the matrices of all layers
    /// (LoRA).
    LowRank(usize),
}

impl Freeze {
    /// Returns `true` if a parameter of a classifier or a language model is frozen.
    pub(crate) fn freezes(self, name: &str) -> bool {
        let is_of_head = name.starts_with("head.") || name == "output.weight";
        let layer = name.strip_prefix("encoder.layers.").and_then(|rest| rest.split('.').next()?.parse::<usize>().ok());
        match self {
            Freeze::Nothing => false,
            Freeze::Embeddings => !is_of_head && !name.starts_with("encoder."),
            Freeze::Layers(count) => layer.map_or(!is_of_head && !name.starts_with("encoder."), |layer| layer < count),
            Freeze::All => !is_of_head,
            Freeze::LowRank(_) => !name.starts_with("head."),
        }
    }

    /// Returns the parameters to train.
    pub(crate) fn apply(self, params: &Params<f32>, seed: u64) -> Params<f32> {
        /// With a rank of 8, the factor on each update is 2.
        const ALPHA: f64 = 16.0;
        let params = params.freeze(|name| self.freezes(name));
        match self {
            Freeze::LowRank(rank) => {
                let update = LowRankConfig { rank, alpha: ALPHA };
                params.with_low_rank(update, |name| name.starts_with("encoder.layers."), seed)
            }
            _ => params,
        }
    }

    /// Adapts the learning rates of a recipe for full fine-tuning. Low-rank updates use ten times the learning rate
    /// (Schulman and Thinking Machines Lab, "LoRA Without Regret", 2025). The head's learning rate stays as it was.
    pub(crate) fn adjust_learning_rates(self, settings: &mut TrainSettings) {
        const TIMES: f64 = 10.0;
        if matches!(self, Freeze::LowRank(_)) {
            settings.learning_rate *= TIMES;
            settings.head_learning_rate_factor /= TIMES;
        }
    }
}

/// Everything that decides the training of a classifier, besides the data and the seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Plan {
    /// The model.
    pub model: ClassifierConfig,
    /// The training settings.
    #[serde(flatten)]
    pub settings: TrainSettings,
    /// Share of tokens dropped from each training sequence.
    pub(crate) token_dropout: f32,
    /// A weight for each class. `None` if classes are balanced.
    pub(crate) class_weights: Option<Vec<f32>>,
    /// How a pretrained encoder is fine-tuned. `None` for a network from scratch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fine_tuning: Option<FineTuning>,
}

/// Additional settings for a pretrained encoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub(crate) struct FineTuning {
    /// The model type in the encoder's `config.json`.
    pub(crate) model_type: String,
    /// The frozen parameters.
    pub(crate) freeze: Freeze,
    /// The maximum number of tokens in a window, including special tokens.
    pub(crate) max_tokens: usize,
}

/// The size of the tokenized data.
#[derive(Clone, Copy, Debug)]
pub struct DataShape<'a> {
    /// The number of tokens of each training row.
    pub lengths: &'a [usize],
    /// The number of training rows of each class.
    pub class_rows: &'a [usize],
    /// The size of the vocabulary.
    pub vocab_size: usize,
}

/// Ratio of the largest to the smallest class from which classes are weighted.
const UNBALANCED_RATIO: usize = 3;

/// The longest window, in tokens. Longer rows are read in several windows.
const MAX_WINDOW: usize = 512;

/// The longest window for large data. The cost of attention grows with the square of a window's length.
const MAX_WINDOW_LARGE_DATA: usize = 256;

/// The number of training tokens from which data is large.
const LARGE_DATA_TOKENS: usize = 2_000_000;

/// Vocabulary size from which embeddings are frozen: updating them would cost more than all other parameters.
const LARGE_VOCABULARY: usize = 60_000;

/// Returns the number of tokens in a batch, about 32 rows. Small data sets have smaller batches, so that an epoch has
/// more than a few steps.
fn fine_tuning_batch_tokens(rows: usize, tokens: usize) -> usize {
    let batch_rows = (rows / 32).clamp(4, 32);
    (batch_rows * tokens / rows.max(1)).clamp(16 * batch_rows, 4096)
}

impl DataShape<'_> {
    /// Returns a weight for each class if classes are unbalanced.
    fn class_weights(&self) -> Option<Vec<f32>> {
        let largest = self.class_rows.iter().copied().max().unwrap_or(1);
        let smallest = self.class_rows.iter().copied().min().unwrap_or(1).max(1);
        (largest >= UNBALANCED_RATIO * smallest).then(|| {
            // The square root of the balancing weight: rare classes count more, but less than if they were frequent.
            let mean = self.lengths.len() as f64 / self.class_rows.len() as f64;
            self.class_rows.iter().map(|&n| (mean / n.max(1) as f64).sqrt() as f32).collect()
        })
    }
}

impl Plan {
    /// Replaces the network: a transformer with this positional encoding, or a recurrent network of the same size.
    ///
    /// # Errors
    /// If the plan's own network cannot be made.
    pub(crate) fn with_network(mut self, network: BackboneKind, position: PositionKind) -> Result<Plan> {
        match network {
            BackboneKind::Transformer => self.model.position = position,
            BackboneKind::Recurrent(cell) => self.model = self.model.with_cell(cell)?,
        }
        Ok(self)
    }

    /// Chooses the plan for data of this size.
    pub fn new(shape: &DataShape<'_>) -> Plan {
        let longest = shape.lengths.iter().copied().max().unwrap_or(0);
        let limit =
            if shape.lengths.iter().sum::<usize>() > LARGE_DATA_TOKENS { MAX_WINDOW_LARGE_DATA } else { MAX_WINDOW };
        // Twice the longest row, so that a somewhat longer text still fits one window.
        let max_length = (2 * (longest + 1)).clamp(128, limit);
        let tokens: usize = shape.lengths.iter().map(|&length| length.min(max_length)).sum();
        let model = ClassifierConfig {
            vocab_size: shape.vocab_size,
            num_classes: shape.class_rows.len(),
            backbone: EncoderConfig { dropout: 0.3, attention_dropout: 0.1, ..EncoderConfig::new(2, 128, 4, 256) }
                .into(),
            position: PositionKind::Sinusoidal,
            max_length,
            pooling: Pooling::Mean,
            embedding_dropout: 0.3,
            head_dropout: 0.3,
            head_dense: None,
            embeddings: InputEmbeddingsOptions::default(),
        };
        // About 150 steps an epoch: a compromise between noisy and slow batches.
        let batch_tokens = (tokens / 150).clamp(512, 4096).max(max_length);
        // Small data needs many epochs, large data few.
        let epochs = (3_000_000 / tokens.max(1)).clamp(4, 60) as u64;
        let settings = TrainSettings {
            epochs,
            patience: (epochs / 3).max(6),
            batch_tokens,
            micro_batches: default_micro_batches(batch_tokens),
            learning_rate: optimizer_defaults::CLASSIFIER.learning_rate,
            embedding_learning_rate_factor: 0.3,
            head_learning_rate_factor: 1.0,
            warmup_share: 0.05,
            weight_decay: optimizer_defaults::CLASSIFIER.weight_decay,
            beta2: optimizer_defaults::CLASSIFIER.beta2,
            clip_norm: 1.0,
            label_smoothing: 0.1,
            average_decay: 0.995,
            precision: Precision::default(),
        };
        Plan { model, settings, token_dropout: 0.1, class_weights: shape.class_weights(), fine_tuning: None }
    }

    /// Chooses the plan for fine-tuning a pretrained encoder with a new head, `model`. The lengths in `shape` include
    /// special tokens. `limit` is the maximum number of tokens that the encoder reads at a time.
    ///
    /// The learning rate is from Devlin et al. (2019). The number of epochs is from Mosbach et al., "On the Stability
    /// of Fine-tuning BERT" (2021), for few rows.
    pub(crate) fn fine_tuning(shape: &DataShape<'_>, model: ClassifierConfig, model_type: &str, limit: usize) -> Plan {
        let (settings, fine_tuning) = FineTuning::for_encoder(shape, model.backbone.transformer(), model_type, limit);
        let class_weights = shape.class_weights();
        Plan { model, settings, token_dropout: 0.0, class_weights, fine_tuning: Some(fine_tuning) }
    }

    /// Sets the frozen parameters of a pretrained encoder, if the caller chose them.
    pub(crate) fn with_freeze(mut self, requested: Option<Freeze>) -> Plan {
        if let Some(fine_tuning) = &mut self.fine_tuning {
            fine_tuning.freeze = requested.unwrap_or(fine_tuning.freeze);
            fine_tuning.freeze.adjust_learning_rates(&mut self.settings);
        }
        self
    }

    /// The maximum number of tokens in a window, including special tokens.
    pub(crate) fn max_tokens(&self) -> usize {
        self.fine_tuning.as_ref().map_or(self.model.max_length, |fine_tuning| fine_tuning.max_tokens)
    }
}

impl FineTuning {
    /// Chooses the settings to fine-tune an encoder, given its body, the tokens that it reads, and the size of the
    /// data.
    pub(crate) fn for_encoder(
        shape: &DataShape<'_>,
        body: Option<&EncoderConfig>,
        model_type: &str,
        limit: usize,
    ) -> (TrainSettings, FineTuning) {
        let (rows, classes) = (shape.lengths.len(), shape.class_rows.len());
        let longest = shape.lengths.iter().copied().max().unwrap_or(0);
        let whole: usize = shape.lengths.iter().sum();
        let most = if whole > LARGE_DATA_TOKENS { MAX_WINDOW_LARGE_DATA } else { MAX_WINDOW };
        let max_tokens = (2 * longest).clamp(128, most).min(limit);
        let tokens: usize = shape.lengths.iter().map(|&length| length.min(max_tokens)).sum();
        let batch_tokens = fine_tuning_batch_tokens(rows, tokens).max(max_tokens);
        let step = body.map_or(optimizer_defaults::CLASSIFIER, optimizer_defaults::fine_tuning);
        // Small encoders need more epochs.
        let is_small = body.is_none_or(optimizer_defaults::is_small_encoder);
        let epochs = (30_000usize.div_ceil(rows.max(1)) + classes / 10).clamp(if is_small { 6 } else { 3 }, 20) as u64;
        let settings = TrainSettings {
            epochs,
            patience: epochs,
            batch_tokens,
            micro_batches: default_micro_batches(batch_tokens),
            learning_rate: step.learning_rate,
            embedding_learning_rate_factor: 1.0,
            head_learning_rate_factor: if is_small { 3.0 } else { 20.0 },
            warmup_share: 0.06,
            weight_decay: step.weight_decay,
            beta2: step.beta2,
            clip_norm: 1.0,
            label_smoothing: 0.1,
            average_decay: 0.995,
            precision: Precision::default(),
        };
        let freeze = if shape.vocab_size > LARGE_VOCABULARY { Freeze::Embeddings } else { Freeze::Nothing };
        (settings, FineTuning { model_type: model_type.to_owned(), freeze, max_tokens })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fine_tuning_batches_are_smaller_for_few_rows() {
        // 4, 8 and 32 rows of 25 tokens.
        let of_rows = [58, 256, 1_024, 6_920].map(|rows| fine_tuning_batch_tokens(rows, 25 * rows));
        assert_eq!(of_rows, [100, 200, 800, 800]);
        // Very short rows, very long ones, and none.
        assert_eq!(
            [
                fine_tuning_batch_tokens(6_920, 6_920),
                fine_tuning_batch_tokens(6_920, 6_920 * 500),
                fine_tuning_batch_tokens(0, 0)
            ],
            [512, 4096, 64]
        );
    }
}
