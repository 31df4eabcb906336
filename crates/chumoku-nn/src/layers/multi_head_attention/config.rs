//! The sizes and options of multi-head attention.

use crate::layers::{PositionKind, Rotary, RotaryScaling};
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
    /// Whether the projections have biases, those that [`AttentionOptions::bias`] leaves them.
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
    /// How these angles were slowed down for longer texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotary_scaling: Option<RotaryScaling>,
    /// Width of a head; d_model / num_heads unless it is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_dim: Option<usize>,
    /// Which projections have biases.
    #[serde(rename = "attention_bias", skip_serializing_if = "has_all_biases")]
    pub bias: AttentionBias,
    /// Queries and keys of each head go through an RMS norm with this ε before they are turned; both norms have a weight
    /// that all heads share (Henry et al. 2020; Qwen3).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_norm_epsilon: Option<f64>,
    /// Where tokens stand: [`PositionKind::Rotary`] and [`PositionKind::Alibi`] work inside self-attention, the others
    /// are nothing to it. Models set it from their own setting, which is the one that is stored.
    #[serde(skip)]
    pub position: PositionKind,
}

/// Which projections of attention have biases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AttentionBias {
    /// All four.
    #[default]
    All,
    /// Those to queries, keys and values.
    Inputs,
    /// None.
    None,
}

fn has_all_biases(bias: &AttentionBias) -> bool {
    *bias == AttentionBias::All
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
        MultiHeadAttentionConfig::self_attention(d_model, num_heads, AttentionOptions::default())
    }

    /// Self-attention with options.
    ///
    /// # Errors
    /// If d_model is not a multiple of num_heads and no head width is given, or as for
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
            site: 0,
            options: AttentionOptions::default(),
        };
        config.with_options(options)
    }

    /// The same with options.
    ///
    /// # Errors
    /// If they do not fit the heads, or a number is out of range.
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

    /// Whether queries, keys and values have biases, and whether the output has one.
    pub(super) fn biases(&self) -> [bool; 2] {
        let [inputs, output] = match self.options.bias {
            AttentionBias::All => [true, true],
            AttentionBias::Inputs => [true, false],
            AttentionBias::None => [false, false],
        };
        [inputs && self.bias, output && self.bias]
    }

    /// Heads of keys and values.
    pub fn num_key_heads(&self) -> usize {
        self.options.num_key_heads.unwrap_or(self.num_heads)
    }

    pub(super) fn rotary(&self) -> Option<Rotary> {
        let rotary = Rotary::new(self.head_dim, self.options.rotary_base.unwrap_or(Rotary::BASE));
        let rotary = self.options.rotary_scaling.map_or_else(|| rotary.clone(), |scaling| rotary.scaled(scaling));
        (self.options.position == PositionKind::Rotary).then_some(rotary)
    }

    /// Whether queries and keys are told apart by where they stand, so that both must be of one sequence.
    pub(super) fn uses_positions(&self) -> bool {
        matches!(self.options.position, PositionKind::Rotary | PositionKind::Alibi)
    }
}
