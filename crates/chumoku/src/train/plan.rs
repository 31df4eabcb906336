//! The settings of a run, chosen from the data so that defaults do well.

use super::micro_batches::default_micro_batches;
use crate::Result;
use crate::models::ClassifierConfig;
use crate::nn::{
    AttentionOptions, BackboneKind, EncoderConfig, InputEmbeddingsOptions, LayerOptions, NormOrder, Pooling,
    PositionKind,
};
use crate::optimizer_defaults;
use crate::params::{LowRankConfig, Params};
use chumoku_kernels::Precision;
use serde::{Deserialize, Serialize};

/// How any model is trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Settings {
    /// Epochs at most.
    pub epochs: u64,
    /// Epochs without a better score on the validation rows before training stops.
    pub patience: u64,
    /// Tokens in a batch, at most.
    pub batch_tokens: usize,
    /// Parts that a batch is learnt from in, side by side. The results depend on it, and so it is decided here and not by
    /// the number of threads.
    pub parts: usize,
    /// The highest learning rate.
    pub learning_rate: f64,
    /// Factor on the learning rate of the token embeddings, whose scale √d_model makes each step count that much more.
    pub embedding_rate: f64,
    /// Factor on the learning rate of a classifier's head, which is new where the encoder is pretrained.
    #[serde(skip_serializing_if = "is_one")]
    pub head_rate: f64,
    /// Share of the steps in which the learning rate rises.
    pub warmup_share: f64,
    /// Weight decay of matrices.
    pub weight_decay: f64,
    /// β₂ of AdamW; β₁ is 0.9.
    pub beta2: f64,
    /// Gradients are scaled down to this norm.
    pub clip_norm: f64,
    /// Share of the target spread over all classes or tokens.
    pub label_smoothing: f32,
    /// Decay of the moving average of the weights that is evaluated and kept.
    pub average_decay: f64,
    /// How exact matrix products are.
    #[serde(with = "crate::precision")]
    pub precision: Precision,
}

fn is_one(rate: &f64) -> bool {
    *rate == 1.0
}

/// What fine-tuning leaves as it was pretrained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Freeze {
    /// Nothing.
    Nothing,
    /// The embeddings of tokens and positions.
    Embeddings,
    /// The embeddings and so many layers above them.
    Layers(usize),
    /// Everything but the head.
    All,
    /// The same, while products of matrices of this rank are trained and added to the matrices of all layers.
    LowRank(usize),
}

impl Freeze {
    /// Whether a parameter of a classifier or a language model stays as it is.
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

    /// What a run trains of these parameters.
    pub(crate) fn apply(self, params: &Params<f32>, seed: u64) -> Params<f32> {
        /// With a rank of 8, each product counts twice.
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

    /// The settings of a recipe that is for whole matrices: products of low rank take ten times the steps (Schulman and
    /// Thinking Machines Lab, "LoRA Without Regret", 2025), and the head as large ones as before.
    pub(crate) fn adjust_learning_rates(self, settings: &mut Settings) {
        const TIMES: f64 = 10.0;
        if matches!(self, Freeze::LowRank(_)) {
            settings.learning_rate *= TIMES;
            settings.head_rate /= TIMES;
        }
    }
}

/// Everything that decides the training of a classifier beside the data and the seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Plan {
    /// The model.
    pub model: ClassifierConfig,
    /// How it is trained.
    #[serde(flatten)]
    pub settings: Settings,
    /// Share of tokens left out of each training sequence.
    pub token_dropout: f32,
    /// A weight for each class, if classes are unbalanced.
    pub class_weights: Option<Vec<f32>>,
    /// How a pretrained encoder is fine-tuned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fine_tuning: Option<FineTuning>,
}

/// What a plan has beside, where the encoder is pretrained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FineTuning {
    /// The kind of encoder, as its `config.json` has it.
    pub model_type: String,
    /// What stays as it is.
    pub freeze: Freeze,
    /// Tokens that a text is read by at a time, those around it included.
    pub max_tokens: usize,
}

/// What the data look like once they are tokens.
#[derive(Clone, Copy, Debug)]
pub struct DataShape<'a> {
    /// Tokens of each training row.
    pub lengths: &'a [usize],
    /// Training rows of each class.
    pub class_rows: &'a [usize],
    /// Token ids.
    pub vocab_size: usize,
}

/// Where the largest class has this many times the rows of the smallest, classes get weights.
const UNBALANCED_RATIO: usize = 3;

/// Rows longer than this many tokens are read in windows.
const MAX_WINDOW: usize = 512;

/// Windows of data that are large: shorter, because attention's cost grows with a window's square.
const MAX_WINDOW_LARGE_DATA: usize = 256;

/// Training tokens from which data are large.
const LARGE_DATA_TOKENS: usize = 2_000_000;

/// Token ids from which embeddings stay as they were pretrained: to change them would cost more than all the rest.
const LARGE_VOCABULARY: usize = 60_000;

/// Tokens of a batch: some 32 rows; of few rows fewer, or there would be hardly a step in an epoch.
fn fine_tuning_batch_tokens(rows: usize, tokens: usize) -> usize {
    let batch_rows = (rows / 32).clamp(4, 32);
    (batch_rows * tokens / rows.max(1)).clamp(16 * batch_rows, 4096)
}

impl DataShape<'_> {
    /// A weight for each class, where they are unbalanced.
    fn class_weights(&self) -> Option<Vec<f32>> {
        let largest = self.class_rows.iter().copied().max().unwrap_or(1);
        let smallest = self.class_rows.iter().copied().min().unwrap_or(1).max(1);
        (largest >= UNBALANCED_RATIO * smallest).then(|| {
            // The root of the balancing weight: a rare class counts more, but not as if it were as frequent.
            let mean = self.lengths.len() as f64 / self.class_rows.len() as f64;
            self.class_rows.iter().map(|&n| (mean / n.max(1) as f64).sqrt() as f32).collect()
        })
    }
}

impl Plan {
    /// The same plan with this network: a transformer with this positional encoding, or a recurrent network of the same
    /// size.
    ///
    /// # Errors
    /// If the plan's own network cannot be made.
    pub fn with_network(mut self, network: BackboneKind, position: PositionKind) -> Result<Plan> {
        match network {
            BackboneKind::Transformer => self.model.position = position,
            BackboneKind::Recurrent(cell) => self.model = self.model.with_cell(cell)?,
        }
        Ok(self)
    }

    /// The plan for data of this shape.
    pub fn new(shape: &DataShape<'_>) -> Plan {
        let longest = shape.lengths.iter().copied().max().unwrap_or(0);
        let limit =
            if shape.lengths.iter().sum::<usize>() > LARGE_DATA_TOKENS { MAX_WINDOW_LARGE_DATA } else { MAX_WINDOW };
        // Twice the longest row, so that a somewhat longer text is still read in one piece.
        let max_length = (2 * (longest + 1)).clamp(128, limit);
        let tokens: usize = shape.lengths.iter().map(|&length| length.min(max_length)).sum();
        let model = ClassifierConfig {
            vocab_size: shape.vocab_size,
            num_classes: shape.class_rows.len(),
            body: EncoderConfig {
                num_layers: 2,
                d_model: 128,
                num_heads: 4,
                d_ff: 256,
                activation: "gelu".into(),
                norm_order: NormOrder::Pre,
                dropout: 0.3,
                attention_dropout: 0.1,
                causal: false,
                attention: AttentionOptions::default(),
                options: LayerOptions::default(),
            }
            .into(),
            position: PositionKind::Sinusoidal,
            max_length,
            pooling: Pooling::Mean,
            embedding_dropout: 0.3,
            head_dropout: 0.3,
            head_dense: None,
            embeddings: InputEmbeddingsOptions::default(),
        };
        // About 150 steps an epoch, between small noisy batches and large slow ones.
        let batch_tokens = (tokens / 150).clamp(512, 4096).max(max_length);
        // Small data need many passes, large ones few.
        let epochs = (3_000_000 / tokens.max(1)).clamp(4, 60) as u64;
        let settings = Settings {
            epochs,
            patience: (epochs / 3).max(6),
            batch_tokens,
            parts: default_micro_batches(batch_tokens),
            learning_rate: optimizer_defaults::CLASSIFIER.learning_rate,
            embedding_rate: 0.3,
            head_rate: 1.0,
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

    /// The plan for fine-tuning a pretrained encoder with a new head, `model`, on data of this shape, whose lengths count
    /// what stands around texts; `limit` is the most tokens that the encoder reads at a time.
    ///
    /// The learning rate is Devlin et al.'s (2019), the number of epochs that of Mosbach et al., "On the Stability of
    /// Fine-tuning BERT" (2021), for few rows.
    pub(crate) fn fine_tuning(shape: &DataShape<'_>, model: ClassifierConfig, model_type: &str, limit: usize) -> Plan {
        let (settings, fine_tuning) = FineTuning::for_encoder(shape, model.body.transformer(), model_type, limit);
        let class_weights = shape.class_weights();
        Plan { model, settings, token_dropout: 0.0, class_weights, fine_tuning: Some(fine_tuning) }
    }

    /// The same plan with what stays as it is, where a pretrained encoder is fine-tuned and that is asked for.
    pub(super) fn with_freeze(mut self, requested: Option<Freeze>) -> Plan {
        if let Some(fine_tuning) = &mut self.fine_tuning {
            fine_tuning.freeze = requested.unwrap_or(fine_tuning.freeze);
            fine_tuning.freeze.adjust_learning_rates(&mut self.settings);
        }
        self
    }

    /// Tokens that a text is read by at a time, those around it included.
    pub(crate) fn max_tokens(&self) -> usize {
        self.fine_tuning.as_ref().map_or(self.model.max_length, |fine_tuning| fine_tuning.max_tokens)
    }
}

impl FineTuning {
    /// How an encoder with this body, which reads `limit` tokens, is fine-tuned on rows of this shape.
    pub(super) fn for_encoder(
        shape: &DataShape<'_>,
        body: Option<&EncoderConfig>,
        model_type: &str,
        limit: usize,
    ) -> (Settings, FineTuning) {
        let (rows, classes) = (shape.lengths.len(), shape.class_rows.len());
        let longest = shape.lengths.iter().copied().max().unwrap_or(0);
        let whole: usize = shape.lengths.iter().sum();
        let most = if whole > LARGE_DATA_TOKENS { MAX_WINDOW_LARGE_DATA } else { MAX_WINDOW };
        let max_tokens = (2 * longest).clamp(128, most).min(limit);
        let tokens: usize = shape.lengths.iter().map(|&length| length.min(max_tokens)).sum();
        let batch_tokens = fine_tuning_batch_tokens(rows, tokens).max(max_tokens);
        let step = body.map_or(optimizer_defaults::CLASSIFIER, optimizer_defaults::fine_tuning);
        // A small encoder has more to learn yet.
        let is_small = body.is_none_or(optimizer_defaults::is_small_encoder);
        let epochs = (30_000usize.div_ceil(rows.max(1)) + classes / 10).clamp(if is_small { 6 } else { 3 }, 20) as u64;
        let settings = Settings {
            epochs,
            patience: epochs,
            batch_tokens,
            parts: default_micro_batches(batch_tokens),
            learning_rate: step.learning_rate,
            embedding_rate: 1.0,
            head_rate: if is_small { 3.0 } else { 20.0 },
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
    fn batches_of_fine_tuning_are_smaller_for_few_rows() {
        // Of 25 tokens a row: 4, 8 and 32 rows.
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
