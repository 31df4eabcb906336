//! The sizes and options of multi-head attention.

use crate::layers::{PositionKind, Rotary, RotaryScaling};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// The sizes of a [`MultiHeadAttention`](super::MultiHeadAttention) layer.
#[derive(Clone, Copy, Debug)]
pub struct MultiHeadAttentionConfig {
    /// Width of the input of queries, and of the output.
    pub d_model: usize,
    /// Width of the input of keys.
    pub key_width: usize,
    /// Width of the input of values.
    pub value_width: usize,
    /// Number of heads.
    pub num_heads: usize,
    /// Width of a head's queries and keys, d_k.
    pub head_dim: usize,
    /// Width of a head's values, d_v.
    pub value_dim: usize,
    /// True if the projections have biases, restricted by [`AttentionOptions::bias`].
    pub bias: bool,
    /// Dropout of the attention weights; hard attention ignores it.
    pub dropout: f32,
    /// Causal attention: query i sees only the keys 0..=i.
    pub causal: bool,
    /// The dropout site of the layer.
    pub dropout_site: u32,
    /// Other options.
    pub options: AttentionOptions,
}

/// Variants of attention, in model configurations. Omitted options follow the original paper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AttentionOptions {
    /// Number of key–value heads, a divisor of the number of heads, which share them. This is grouped-query attention
    /// (Ainslie et al. 2023), or multi-query attention (Shazeer 2019) for 1. By default every head has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_key_heads: Option<usize>,
    /// The attention window: the number of earlier tokens that a token sees and, if not causal, of later ones.
    #[serde(rename = "attention_window", skip_serializing_if = "Option::is_none")]
    pub window: Option<usize>,
    /// The inverse temperature β of `softmax(β Q Kᵀ)`; 1/√d_k by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta: Option<f64>,
    /// Trains β: the parameter `beta`, one number per head starting at 1, multiplies the fixed β.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub train_beta: bool,
    /// Hard attention: each query takes the value of its best key, in training and evaluation. Gradients use the
    /// straight-through estimator (Bengio, Léonard and Courville 2013): weights count as
    /// `hard + soft − constant(soft)`. This is exact for values; queries and keys get the gradients of soft attention.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub hard_attention: bool,
    /// The base of the angles of rotary positions; 10000 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotary_base: Option<f64>,
    /// The scaling of these angles for longer texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotary_scaling: Option<RotaryScaling>,
    /// Width of a head; d_model / num_heads by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_dim: Option<usize>,
    /// The projections that have biases.
    #[serde(rename = "attention_bias", skip_serializing_if = "crate::is_default")]
    pub bias: AttentionBias,
    /// Normalizes the queries and keys of each head by an RMS norm with this ε, before the rotation. Each norm has one
    /// weight that all heads share (Henry et al. 2020; Qwen3).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_norm_epsilon: Option<f64>,
    /// The kind of positions. [`PositionKind::Rotary`] and [`PositionKind::Alibi`] act inside self-attention; it
    /// ignores the others. Models copy it from their own setting, which is the one in the file.
    #[serde(skip)]
    pub position: PositionKind,
}

/// The projections of attention that have biases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AttentionBias {
    /// All four projections.
    #[default]
    All,
    /// The projections of queries, keys and values.
    Inputs,
    /// None.
    None,
}

impl MultiHeadAttentionConfig {
    /// Self-attention as in the original paper: all widths d_model, head width d_model / num_heads.
    ///
    /// # Errors
    /// If d_model is not a multiple of num_heads.
    pub fn new(d_model: usize, num_heads: usize) -> Result<Self> {
        MultiHeadAttentionConfig::self_attention(d_model, num_heads, AttentionOptions::default())
    }

    /// Builds self-attention with options.
    ///
    /// # Errors
    /// If d_model is not a multiple of num_heads and no head width is given. Also the errors of
    /// [`MultiHeadAttentionConfig::with_options`].
    pub fn self_attention(d_model: usize, num_heads: usize, options: AttentionOptions) -> Result<Self> {
        let divides = num_heads > 0 && (options.head_dim.is_some() || d_model.is_multiple_of(num_heads));
        if d_model == 0 || !divides {
            return Err(Error::HeadCount { d_model, num_heads });
        }
        let head_dim = d_model / num_heads;
        let config = MultiHeadAttentionConfig {
            d_model,
            key_width: d_model,
            value_width: d_model,
            num_heads,
            head_dim,
            value_dim: head_dim,
            bias: true,
            dropout: 0.0,
            causal: false,
            dropout_site: 0,
            options: AttentionOptions::default(),
        };
        config.with_options(options)
    }

    /// Replaces the options.
    ///
    /// # Errors
    /// If the options do not match the heads, or a number is out of range.
    pub fn with_options(self, options: AttentionOptions) -> Result<Self> {
        const WIDEST: usize = 1 << 12;
        let mut config = MultiHeadAttentionConfig { options, ..self };
        if let Some(width) = options.head_dim {
            if width == 0 || width > WIDEST {
                return Err(Error::Size { name: "head_dim", most: WIDEST, found: width });
            }
            (config.head_dim, config.value_dim) = (width, width);
        }
        let (heads, key_heads) = (self.num_heads, config.num_key_heads());
        if key_heads == 0 || !heads.is_multiple_of(key_heads) {
            return Err(Error::KeyHeadCount { name: "num_key_heads", num_heads: heads, found: key_heads });
        }
        if options.position == PositionKind::Rotary && !config.head_dim.is_multiple_of(2) {
            return Err(Error::OddHeadWidth(config.head_dim));
        }
        if let Some(beta) = options.beta.filter(|beta| !beta.is_finite()) {
            return Err(Error::Beta(beta));
        }
        if let Some(base) = options.rotary_base.filter(|base| !(base.is_finite() && *base > 0.0)) {
            return Err(Error::RotaryBase(base));
        }
        if let Some(epsilon) = options.head_norm_epsilon.filter(|epsilon| !(epsilon.is_finite() && *epsilon > 0.0)) {
            return Err(Error::NormEpsilon(epsilon));
        }
        options.rotary_scaling.map_or(Ok(()), |scaling| scaling.check())?;
        Ok(config)
    }

    /// Returns whether queries, keys and values have biases, and whether the output has one.
    pub(super) fn biases(&self) -> [bool; 2] {
        let [inputs, output] = match self.options.bias {
            AttentionBias::All => [true, true],
            AttentionBias::Inputs => [true, false],
            AttentionBias::None => [false, false],
        };
        [inputs && self.bias, output && self.bias]
    }

    /// Returns the number of key–value heads.
    pub(crate) fn num_key_heads(&self) -> usize {
        self.options.num_key_heads.unwrap_or(self.num_heads)
    }

    pub(super) fn rotary(&self) -> Option<Rotary> {
        let rotary = Rotary::new(self.head_dim, self.options.rotary_base.unwrap_or(Rotary::BASE));
        let rotary = self.options.rotary_scaling.map_or_else(|| rotary.clone(), |scaling| rotary.scaled(scaling));
        (self.options.position == PositionKind::Rotary).then_some(rotary)
    }

    /// Returns true if attention depends on positions, which requires queries and keys of one sequence.
    pub(super) fn uses_positions(&self) -> bool {
        matches!(self.options.position, PositionKind::Rotary | PositionKind::Alibi)
    }
}
