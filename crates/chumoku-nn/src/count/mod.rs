//! What a network costs: parameters, multiply–adds, bytes and memory of every step, by formulas that can be read.
//!
//! The formulas are held against the kernels' own count, [`chumoku_kernels::multiply_adds`], and against the parameters
//! of the models (`tests/it/count.rs`). They are those of a forward pass, with every pair of query and key, whatever a mask
//! leaves out. Sources: Vaswani et al. (2017), table 1; Dao et al. (2022) for what a fused kernel does not hold.
//!
//! Every figure is exact: sizes whose figures would reach 2¹²⁸ are refused.
//!
//! # Files
//!
//! - `exact`: integers that never wrap
//! - `models`: sizes of a model's configuration
//! - `steps`: the formulas of each step
//! - `total`: totals of a network

mod exact;
mod models;
mod steps;
mod total;

use crate::layers::{DenseHeadConfig, NormOrder};
use crate::{Error, Result};
use chumoku_kernels::RecurrentCell;
use serde::Serialize;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkKind {
    /// Multi-head attention alone, with an embedding and a linear head where they are asked for.
    Attention,
    /// A transformer encoder: embedding, layers, a linear head.
    Transformer,
    /// A language model: embedding, causal layers, and an output layer that tells the next token.
    Decoder,
    /// A translator: an encoder, and a decoder that attends to it.
    EncoderDecoder,
    /// A recurrent network in place of the layers.
    Recurrent(RecurrentCell),
}

impl NetworkKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            NetworkKind::Attention => "attention",
            NetworkKind::Transformer => "transformer",
            NetworkKind::Decoder => "decoder",
            NetworkKind::EncoderDecoder => "encoder-decoder",
            NetworkKind::Recurrent(cell) => cell.name(),
        }
    }

    /// The one of a name.
    pub fn from_name(name: &str) -> Option<NetworkKind> {
        let plain =
            [NetworkKind::Attention, NetworkKind::Transformer, NetworkKind::Decoder, NetworkKind::EncoderDecoder];
        let plain = plain.into_iter().find(|network| network.name() == name);
        plain.or_else(|| RecurrentCell::from_name(name).map(NetworkKind::Recurrent))
    }
}

/// The sizes of what is counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CountConfig {
    /// The network.
    pub network: NetworkKind,
    /// Sequences, B.
    pub batch: usize,
    /// Tokens of a sequence, n; of an encoder–decoder those of the source.
    pub length: usize,
    /// Keys of a sequence, m; n unless it is set (cross-attention). An encoder–decoder has its own.
    pub keys: Option<usize>,
    /// Tokens of an encoder–decoder's target, t; n unless it is set.
    pub target_length: Option<usize>,
    /// Width of a token, d.
    pub d_model: usize,
    /// Heads, h.
    pub num_heads: usize,
    /// Heads of keys and values, h_kv; h unless it is set.
    pub num_key_heads: Option<usize>,
    /// Width of a head, k; d / h unless it is set.
    pub head_dim: Option<usize>,
    /// Width inside the feed-forward network, f.
    pub d_ff: usize,
    /// Layers, L; of an encoder–decoder those of the encoder. Attention alone is one.
    pub num_layers: usize,
    /// Layers of an encoder–decoder's decoder; L unless it is set.
    pub num_decoder_layers: Option<usize>,
    /// Heads of that decoder; h unless it is set.
    pub decoder_num_heads: Option<usize>,
    /// Width inside that decoder's feed-forward networks; f unless it is set.
    pub decoder_d_ff: Option<usize>,
    /// Different tokens; 0 for no embedding.
    pub vocab_size: usize,
    /// Different tokens of an encoder–decoder's target, with a table of their own; unless it is set, both sides have one
    /// table.
    pub target_vocab_size: Option<usize>,
    /// Classes; 0 for no head. Decoders tell tokens and have none.
    pub num_classes: usize,
    /// Whether a decoder's output layer has a matrix of its own, rather than the embedding's.
    pub untied: bool,
    /// Whether the output layer of a decoder has a bias.
    pub logit_bias: bool,
    /// Whether linear layers and recurrent layers have biases.
    pub bias: bool,
    /// Whether W_Q, W_K and W_V have them; as `bias` says unless it is set.
    pub qkv_bias: Option<bool>,
    /// Whether attention has an output projection.
    pub output_projection: bool,
    /// Whether each head trains a factor β of its scores.
    pub trained_beta: bool,
    /// Learned positions, so many; 0 for none. An encoder–decoder has them on both sides.
    pub learned_positions: usize,
    /// Kinds of tokens with a vector each (BERT's first and second sentence); 0 for none.
    pub token_types: usize,
    /// Whether embeddings are normalised before the first layer.
    pub input_norm: bool,
    /// The layer of the model's width that a head has before the one that tells classes, if it has one.
    pub dense_head: Option<DenseHeadConfig>,
    /// Whether normalisations have a β.
    pub norm_bias: bool,
    /// Whether the first layer's first normalisation is left out.
    pub first_norm_left_out: bool,
    /// Whether queries and keys of each head are normalised, by weights that all heads share.
    pub head_norms: bool,
    /// Whether the feed-forward network has a second product inside, as a factor.
    pub gated: bool,
    /// Whether the feed-forward network has biases; as `bias` says unless it is set.
    pub feed_forward_bias: Option<bool>,
    /// Whether W_O has one; as `bias` says unless it is set.
    pub output_bias: Option<bool>,
    /// Where a transformer's normalisation stands: with `Pre`, one more comes after the last layer.
    pub norm_order: NormOrder,
    /// Width of a recurrent network's state; d unless it is set.
    pub hidden_size: Option<usize>,
    /// Whether a recurrent network reads in both directions.
    pub bidirectional: bool,
    /// Bias vectors of a recurrent layer's gates, where there are biases: PyTorch has two.
    pub gate_biases: usize,
    /// Bytes of a number.
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
    /// Which part of an encoder–decoder it belongs to: `encoder`, `decoder`, or `cross` (the decoder's attention to the
    /// encoder); empty in other networks.
    pub part: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Shape of the result.
    pub shape: Vec<usize>,
    /// How many such steps there are: layers, as a rule.
    pub times: usize,
    /// Parameters of one.
    pub parameters: u128,
    /// Their formula; empty for none.
    pub parameters_formula: String,
    /// Multiply–adds of one.
    pub multiply_adds: u128,
    /// Their formula; empty for none.
    pub multiply_adds_formula: String,
    /// How they grow with the length and the width.
    pub growth: String,
    /// Bytes that one reads and writes: operands, parameters and result, each once.
    pub bytes: u128,
    /// Bytes of the result, which a plain program holds.
    pub held: u128,
    /// Whether a fused kernel does without holding the result.
    pub is_fused_away: bool,
}

/// The cost of a whole network.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct NetworkCost {
    /// The network's name.
    pub network: &'static str,
    /// Its steps, in order.
    pub steps: Vec<StepCost>,
    /// Parameters.
    pub parameters: u128,
    /// Multiply–adds of a forward pass.
    pub multiply_adds: u128,
    /// Bytes that a forward pass reads and writes, step by step.
    pub bytes: u128,
    /// Bytes that training holds of a forward pass for the backward pass, if every result is kept.
    pub held: u128,
    /// The same where attention is fused and holds no array of queries × keys.
    pub held_fused: u128,
    /// The most bytes that a plain forward pass holds at a time: parameters, the layers' input, operands and result.
    pub peak: u128,
    /// Bytes of the keys and values that a decoder keeps while it writes a text of this length, a token at a time; an
    /// encoder–decoder keeps those of the source too. 0 where nothing is written.
    pub key_value_cache: u128,
    /// The length at which the products of queries × keys cost as much as all that grows with the length alone, where
    /// there are such, and all lengths are one.
    pub quadratic_from: Option<f64>,
    /// The same of attention alone: its projections against its products.
    pub attention_quadratic_from: Option<f64>,
    /// Steps that have to wait for one another, in all layers.
    pub sequential_steps: u128,
}

/// The largest size that is counted.
const MAX_SIZE: usize = 1 << 30;

impl CountConfig {
    /// Counts every step.
    ///
    /// # Errors
    /// If a size is 0 or above 2³⁰, the heads do not divide the width, or a figure would be 2¹²⁸ or more.
    pub fn count(&self) -> Result<NetworkCost> {
        self.check()?;
        total::total_cost(self, steps::network_steps(self))
    }

    /// Tokens of the target, t.
    pub fn target_length(&self) -> usize {
        self.target_length.unwrap_or(self.length)
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
        if matches!(self.network, NetworkKind::Recurrent(_)) {
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
