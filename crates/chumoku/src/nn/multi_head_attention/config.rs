//! The sizes and options of multi-head attention.

use crate::{Error, Result};

/// The sizes of a [`MultiHeadAttention`] layer.
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
    /// Dropout of the attention weights.
    pub dropout: f32,
    /// Query i sees only the keys 0..=i.
    pub causal: bool,
    /// Number of its dropout among those of the model.
    pub site: u32,
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
        })
    }
}
