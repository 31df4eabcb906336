//! Cost of a network: parameters, multiply–adds, bytes and memory of every step, by readable formulas.
//!
//! Tests compare the formulas with the kernels' own count, [`chumoku_kernels::multiply_adds`], and with the parameters
//! of the models (`tests/it/count.rs`). They describe a forward pass over every pair of query and key, whatever the
//! mask.
//!
//! Sources: Vaswani et al. (2017), table 1; Dao et al. (2022) for the arrays that a fused kernel does not hold.
//!
//! Every figure is exact. Sizes whose figures reach 2¹²⁸ are an error.
//!
//! # Files
//!
//! - `exact`: checked integer arithmetic
//! - `models`: sizes of a model's configuration
//! - `parameters`: the steps that use each parameter
//! - `steps`: the formulas of each step
//! - `total`: totals of a network

mod exact;
mod models;
mod parameters;
mod steps;
mod total;

use crate::layers::{DenseHeadConfig, NormOrder};
use crate::{Error, Result};
use chumoku_kernels::RecurrentCell;
use serde::Serialize;

pub use parameters::StepParameter;

/// The kind of network to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkKind {
    /// Multi-head attention alone, with an optional embedding and linear head.
    Attention,
    /// Additive attention, `vᵀ tanh(W_Q q + W_K k)` (Bahdanau, Cho and Bengio 2015). Its keys are its values.
    AdditiveAttention,
    /// A transformer encoder: embedding, layers, a linear head.
    Transformer,
    /// A language model: embedding, causal layers, and an output layer that predicts the next token.
    Decoder,
    /// A translator: an encoder, and a decoder that attends to it.
    EncoderDecoder,
    /// A recurrent network instead of transformer layers.
    Recurrent(RecurrentCell),
}

impl NetworkKind {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            NetworkKind::Attention => "attention",
            NetworkKind::AdditiveAttention => "additive-attention",
            NetworkKind::Transformer => "transformer",
            NetworkKind::Decoder => "decoder",
            NetworkKind::EncoderDecoder => "encoder-decoder",
            NetworkKind::Recurrent(cell) => cell.name(),
        }
    }

    /// Finds the network kind with this name.
    pub fn from_name(name: &str) -> Option<NetworkKind> {
        let plain = [
            NetworkKind::Attention,
            NetworkKind::AdditiveAttention,
            NetworkKind::Transformer,
            NetworkKind::Decoder,
            NetworkKind::EncoderDecoder,
        ];
        let plain = plain.into_iter().find(|network| network.name() == name);
        plain.or_else(|| RecurrentCell::from_name(name).map(NetworkKind::Recurrent))
    }
}

/// The sizes of a network whose cost is counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CountConfig {
    /// The network.
    pub network: NetworkKind,
    /// Sequences, B.
    pub batch: usize,
    /// Tokens of a sequence, n; in an encoder–decoder, those of the source.
    pub length: usize,
    /// Keys of a sequence, m, for cross-attention; n by default. An encoder–decoder has its own.
    pub keys: Option<usize>,
    /// Tokens of an encoder–decoder's target, t; n by default.
    pub target_length: Option<usize>,
    /// Width of a token, d.
    pub d_model: usize,
    /// Heads, h.
    pub num_heads: usize,
    /// Heads of keys and values, h_kv; h by default.
    pub num_key_heads: Option<usize>,
    /// Width of a head, k; d / h by default.
    pub head_dim: Option<usize>,
    /// Width inside the feed-forward network, f.
    pub d_ff: usize,
    /// Layers, L; in an encoder–decoder, those of the encoder. Attention alone counts as one layer.
    pub num_layers: usize,
    /// Layers of an encoder–decoder's decoder; L by default.
    pub num_decoder_layers: Option<usize>,
    /// Heads of the decoder; h by default.
    pub decoder_num_heads: Option<usize>,
    /// Width inside the decoder's feed-forward networks; f by default.
    pub decoder_d_ff: Option<usize>,
    /// Vocabulary size; 0 for no embedding.
    pub vocab_size: usize,
    /// Vocabulary size of an encoder–decoder's target if it has its own table. By default both sides share one table.
    pub target_vocab_size: Option<usize>,
    /// Classes; 0 for no head. Decoders predict tokens and have no classes.
    pub num_classes: usize,
    /// True if a decoder's output layer has its own matrix instead of the embedding's.
    pub untied: bool,
    /// True if the output layer of a decoder has a bias.
    pub logit_bias: bool,
    /// Width of the bottleneck of an encoder–decoder, z: all that its decoder sees of the source. None by default.
    pub bottleneck: Option<usize>,
    /// True if linear layers and recurrent layers have biases.
    pub bias: bool,
    /// True if W_Q, W_K and W_V have biases; same as `bias` by default.
    pub qkv_bias: Option<bool>,
    /// True if attention has an output projection.
    pub output_projection: bool,
    /// True if each head trains a factor β for its scores.
    pub trained_beta: bool,
    /// Number of learned positions; 0 for none. An encoder–decoder has them on both sides.
    pub learned_positions: usize,
    /// Number of token types, each with its own vector (BERT's first and second sentence); 0 for none.
    pub token_types: usize,
    /// True if embeddings are normalized before the first layer.
    pub input_norm: bool,
    /// The dense layer of a head before its classification layer, if any.
    pub dense_head: Option<DenseHeadConfig>,
    /// True if normalizations have a β.
    pub norm_bias: bool,
    /// True if the first normalization of the first layer is omitted.
    pub first_norm_left_out: bool,
    /// True if queries and keys of each head are normalized with weights that all heads share.
    pub head_norms: bool,
    /// True if the feed-forward network is gated: a second product is a factor of the first.
    pub gated: bool,
    /// True if the feed-forward network has biases; same as `bias` by default.
    pub feed_forward_bias: Option<bool>,
    /// True if W_O has a bias; same as `bias` by default.
    pub output_bias: Option<bool>,
    /// The position of the normalization in a transformer layer. `Pre` adds one more after the last layer.
    pub norm_order: NormOrder,
    /// Width of a recurrent network's state, or inside the tanh of additive attention; d by default.
    pub hidden_size: Option<usize>,
    /// True if a recurrent network reads in both directions.
    pub bidirectional: bool,
    /// Bias vectors of a recurrent layer's gates if it has biases. PyTorch has two.
    pub gate_biases: usize,
    /// Bytes per number.
    pub bytes: usize,
}

impl Default for CountConfig {
    fn default() -> Self {
        CountConfig {
            network: NetworkKind::Transformer,
            batch: 32,
            length: 128,
            keys: None,
            target_length: None,
            d_model: 256,
            num_heads: 8,
            num_key_heads: None,
            head_dim: None,
            d_ff: 1024,
            num_layers: 4,
            num_decoder_layers: None,
            decoder_num_heads: None,
            decoder_d_ff: None,
            vocab_size: 0,
            target_vocab_size: None,
            num_classes: 0,
            untied: false,
            logit_bias: false,
            bottleneck: None,
            bias: true,
            qkv_bias: None,
            output_projection: true,
            trained_beta: false,
            learned_positions: 0,
            token_types: 0,
            input_norm: false,
            dense_head: None,
            norm_bias: true,
            first_norm_left_out: false,
            head_norms: false,
            gated: false,
            feed_forward_bias: None,
            output_bias: None,
            norm_order: NormOrder::Post,
            hidden_size: None,
            bidirectional: false,
            gate_biases: 2,
            bytes: 4,
        }
    }
}

/// The cost of a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StepCost {
    /// The part of an encoder–decoder: `encoder`, `decoder`, or `cross` (the decoder's attention to the encoder). Empty
    /// in other networks.
    pub part: &'static str,
    /// The name of the step.
    pub name: &'static str,
    /// Shape of the result.
    pub shape: Vec<usize>,
    /// How often the step occurs, usually once per layer.
    pub times: usize,
    /// Parameters of one occurrence.
    pub parameters: u128,
    /// Formula of the parameters; empty for none.
    pub parameters_formula: String,
    /// Multiply–adds of one occurrence.
    pub multiply_adds: u128,
    /// Formula of the multiply–adds; empty for none.
    pub multiply_adds_formula: String,
    /// Growth of the multiply–adds with length and width.
    pub growth: String,
    /// Bytes read and written by one occurrence: operands, parameters and result, each once.
    pub bytes: u128,
    /// Bytes of the result, which an unfused program holds.
    pub held: u128,
    /// True if a fused kernel avoids holding the result.
    pub(crate) is_fused_away: bool,
}

/// The cost of a whole network.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct NetworkCost {
    /// The network's name.
    pub network: &'static str,
    /// The steps, in order.
    pub steps: Vec<StepCost>,
    /// Total parameters.
    pub parameters: u128,
    /// Multiply–adds of a forward pass.
    pub multiply_adds: u128,
    /// Bytes that a forward pass reads and writes, summed over steps.
    pub bytes: u128,
    /// Bytes of a forward pass that training holds for the backward pass, if every result is kept.
    pub held: u128,
    /// Same as `held` with fused attention, which holds no array of queries × keys.
    pub held_fused: u128,
    /// Peak bytes of an unfused forward pass: parameters, the layers' input, operands and result.
    pub peak: u128,
    /// Bytes of the key–value cache of a decoder that writes a text of this length token by token. An encoder–decoder
    /// also caches the keys and values of the source. 0 for networks that write nothing.
    pub key_value_cache: u128,
    /// The length at which the products of queries × keys cost as much as everything that is linear in the length.
    /// `None` without such products, or if the lengths differ.
    pub quadratic_from: Option<f64>,
    /// Same for attention alone: its projections against its products.
    pub attention_quadratic_from: Option<f64>,
    /// Sequential steps: steps that must wait for one another, over all layers.
    pub sequential_steps: u128,
}

/// The largest size that is accepted.
const MAX_SIZE: usize = 1 << 30;

impl CountConfig {
    /// Computes the cost of every step.
    ///
    /// # Errors
    /// If a size is 0 or above 2³⁰, the heads do not divide the width, or a figure reaches 2¹²⁸.
    pub fn count(&self) -> Result<NetworkCost> {
        self.check()?;
        total::total_cost(self, steps::network_steps(self))
    }

    /// Tokens of the target, t.
    pub fn target_length(&self) -> usize {
        self.target_length.unwrap_or(self.length)
    }

    /// Vectors that the decoder attends to: the tokens of the source, or one behind a bottleneck.
    pub(super) fn memory_length(&self) -> usize {
        self.bottleneck.map_or(self.length, |_| 1)
    }

    /// Layers of the decoder.
    pub fn num_decoder_layers(&self) -> usize {
        self.num_decoder_layers.unwrap_or(self.num_layers)
    }

    /// The sizes of the decoder's layers.
    pub(super) fn decoder(&self) -> CountConfig {
        let num_heads = self.decoder_num_heads.unwrap_or(self.num_heads);
        CountConfig { num_heads, d_ff: self.decoder_d_ff.unwrap_or(self.d_ff), ..*self }
    }

    /// Width of a head, k.
    pub fn head_dim(&self) -> usize {
        self.head_dim.unwrap_or(self.d_model / self.num_heads.max(1))
    }

    fn check(&self) -> Result<()> {
        let sizes = [
            ("batch", self.batch, 1),
            ("length", self.length, 1),
            ("target-length", self.target_length(), 1),
            ("d_model", self.d_model, 1),
            ("heads", self.num_heads, 1),
            ("layers", self.num_layers, 1),
            ("decoder-layers", self.num_decoder_layers(), 1),
            ("decoder-heads", self.decoder_num_heads.unwrap_or(1), 1),
            ("decoder-d_ff", self.decoder_d_ff.unwrap_or(1), 1),
            ("keys", self.keys.unwrap_or(1), 1),
            ("kv-heads", self.num_key_heads.unwrap_or(1), 1),
            ("head-dim", self.head_dim.unwrap_or(1), 1),
            ("bottleneck", self.bottleneck.unwrap_or(1), 1),
            ("hidden", self.hidden_size.unwrap_or(1), 1),
            ("d_ff", self.d_ff, 1),
            ("vocab", self.vocab_size, 0),
            ("target-vocab", self.target_vocab_size.unwrap_or(1), 1),
            ("classes", self.num_classes, 0),
            ("positions", self.learned_positions, 0),
            ("gate_biases", self.gate_biases, 0),
            ("bytes", self.bytes, 1),
        ];
        let wrong = sizes.into_iter().find(|&(_, size, least)| !(least..=MAX_SIZE).contains(&size));
        if let Some((name, found, least)) = wrong {
            return Err(Error::CountSize { name, least, most: MAX_SIZE, found });
        }
        if matches!(self.network, NetworkKind::Recurrent(_) | NetworkKind::AdditiveAttention) {
            return Ok(());
        }
        for num_heads in [self.num_heads, self.decoder_num_heads.unwrap_or(self.num_heads)] {
            if self.head_dim.is_none() && !self.d_model.is_multiple_of(num_heads) {
                return Err(Error::HeadCount { d_model: self.d_model, num_heads });
            }
        }
        let (num_heads, found) = (self.num_heads, self.num_key_heads.unwrap_or(1));
        match num_heads.is_multiple_of(found) {
            true => Ok(()),
            false => Err(Error::KeyHeadCount { name: "kv-heads", num_heads, found }),
        }
    }
}
