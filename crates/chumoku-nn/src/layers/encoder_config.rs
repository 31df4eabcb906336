//! The sizes and options of an encoder.

use super::{AttentionOptions, NormOrder};
use crate::{Error, Result};
use chumoku_kernels::Activation;
use serde::{Deserialize, Serialize};

/// The sizes and options of an [`Encoder`](super::Encoder).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EncoderConfig {
    /// Number of layers.
    pub num_layers: usize,
    /// Width of activations.
    pub d_model: usize,
    /// Heads of each layer's attention.
    pub num_heads: usize,
    /// Width inside the feed-forward network.
    pub d_ff: usize,
    /// "gelu" or "relu".
    pub activation: String,
    /// Where layer normalisation stands; with `pre`, one more normalises the encoder's output.
    pub norm_order: NormOrder,
    /// Dropout of each part's output and inside the feed-forward network.
    pub dropout: f32,
    /// Dropout of attention weights.
    pub attention_dropout: f32,
    /// Tokens see only those before them.
    pub causal: bool,
    /// Variants of attention.
    #[serde(flatten)]
    pub attention: AttentionOptions,
}

impl EncoderConfig {
    /// What is wrong with it, if anything: sizes that come from a file.
    pub fn check(&self) -> Result<()> {
        let sizes = [
            ("num_layers", self.num_layers, 1 << 10),
            ("d_model", self.d_model, 1 << 16),
            ("num_heads", self.num_heads, 1 << 12),
            ("d_ff", self.d_ff, 1 << 20),
        ];
        for (name, found, most) in sizes {
            if found == 0 || found > most {
                return Err(Error::Size { name, most, found });
            }
        }
        if !["gelu", "relu"].contains(&self.activation.as_str()) {
            return Err(Error::Activation(self.activation.clone()));
        }
        Ok(())
    }

    /// The activation that the name stands for.
    pub fn activation(&self) -> Activation {
        if self.activation == "relu" { Activation::Relu } else { Activation::Gelu }
    }
}
