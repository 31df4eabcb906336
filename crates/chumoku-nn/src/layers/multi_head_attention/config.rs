//! The sizes and options of multi-head attention.

use crate::layers::{PositionKind, Rotary};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// The sizes of a [`MultiHeadAttention`](super::MultiHeadAttention) layer.
#[derive(Clone, Copy, Debug)]
pub struct MultiHeadAttentionConfig {
    /// Width of what queries are made from, and of the output.
    pub d_model: usize,
    /// Width of what keys are made from.
    pub key_width: usize,
    /// Width of what values are made from.
    pub value_width: usize,
    /// Number of heads.
    pub num_heads: usize,
    /// Width of a head's queries and keys, d_k.
    pub head_dim: usize,
    /// Width of a head's values, d_v.
    pub value_dim: usize,
    /// Whether the projections have biases.
    pub bias: bool,
    /// Dropout of the attention weights; hard attention has none.
    pub dropout: f32,
    /// Query i sees only the keys 0..=i.
    pub causal: bool,
    /// Number of its dropout among those of the model.
    pub site: u32,
    /// Whatever else attention can be told.
    pub options: AttentionOptions,
}

/// Variants of attention, in models' configurations: what is left out there is as in the paper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AttentionOptions {
    /// Heads of keys and values, a divisor of the heads, which share them: grouped queries (Ainslie et al. 2023), or
    /// multi-query attention (Shazeer 2019) where it is 1. All heads have their own unless it is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_key_heads: Option<usize>,
    /// A token sees at most so many tokens before it, and, if not causal, after it.
    #[serde(rename = "attention_window", skip_serializing_if = "Option::is_none")]
    pub window: Option<usize>,
    /// The inverse temperature β of `softmax(β Q Kᵀ)`; 1/√d_k unless it is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta: Option<f64>,
    /// β is trained: the parameter `beta`, a number for each head that starts at 1, is a factor of the fixed β.
    #[serde(skip_serializing_if = "is_false")]
    pub train_beta: bool,
    /// Each query takes the value of the one key that it matches best, in training and in use. Gradients are those of
    /// the straight-through estimator (Bengio, Léonard and Courville 2013): of `hard + soft − constant(soft)` for the
    /// weights, which is exact for values, and for queries and keys what soft attention would get.
    #[serde(skip_serializing_if = "is_false")]
    pub hard_attention: bool,
    /// The base of rotary positions' angles; 10000 unless it is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotary_base: Option<f64>,
    /// Where tokens stand: [`PositionKind::Rotary`] and [`PositionKind::Alibi`] work inside self-attention, the others
    /// are nothing to it. Models set it from their own setting, which is the one that is stored.
    #[serde(skip)]
    pub position: PositionKind,
}

fn is_false(x: &bool) -> bool {
    !x
}

impl MultiHeadAttentionConfig {
    /// Self-attention of the paper: all widths d_model, head width d_model / num_heads.
    ///
    /// # Errors
    /// If d_model is not a multiple of num_heads.
    pub fn new(d_model: usize, num_heads: usize) -> Result<Self> {
        if num_heads == 0 || d_model == 0 || !d_model.is_multiple_of(num_heads) {
            return Err(Error::Heads { d_model, num_heads });
        }
        let head_dim = d_model / num_heads;
        Ok(MultiHeadAttentionConfig {
            d_model,
            key_width: d_model,
            value_width: d_model,
            num_heads,
            head_dim,
            value_dim: head_dim,
            bias: true,
            dropout: 0.0,
            causal: false,
            site: 0,
            options: AttentionOptions::default(),
        })
    }

    /// The same with options.
    ///
    /// # Errors
    /// If they do not fit the heads, or a number is out of range.
    pub fn with_options(self, options: AttentionOptions) -> Result<Self> {
        let config = MultiHeadAttentionConfig { options, ..self };
        let (heads, key_heads) = (self.num_heads, config.num_key_heads());
        if key_heads == 0 || !heads.is_multiple_of(key_heads) {
            return Err(Error::KeyHeads { name: "num_key_heads", num_heads: heads, found: key_heads });
        }
        if options.position == PositionKind::Rotary && !self.head_dim.is_multiple_of(2) {
            return Err(Error::OddHeads(self.head_dim));
        }
        if let Some(beta) = options.beta.filter(|beta| !beta.is_finite()) {
            return Err(Error::Beta(beta));
        }
        if let Some(base) = options.rotary_base.filter(|base| !(base.is_finite() && *base > 0.0)) {
            return Err(Error::RotaryBase(base));
        }
        Ok(config)
    }

    /// Heads of keys and values.
    pub fn num_key_heads(&self) -> usize {
        self.options.num_key_heads.unwrap_or(self.num_heads)
    }

    pub(super) fn rotary(&self) -> Option<Rotary> {
        let base = self.options.rotary_base.unwrap_or(Rotary::BASE);
        (self.options.position == PositionKind::Rotary).then(|| Rotary::new(self.head_dim, base))
    }

    /// Whether queries and keys are told apart by where they stand, so that both must be of one sequence.
    pub(super) fn has_places(&self) -> bool {
        matches!(self.options.position, PositionKind::Rotary | PositionKind::Alibi)
    }
}
