//! The sizes and options of an encoder.

use super::{AttentionOptions, MultiHeadAttentionConfig, Norm, NormKind, NormOrder};
use crate::params::Builder;
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
    /// "gelu", "gelu_tanh", "relu" or "silu".
    pub activation: String,
    /// Position of the normalization. With `pre`, a final norm follows the last layer.
    pub norm_order: NormOrder,
    /// Dropout of each sublayer's output and inside the feed-forward network.
    pub dropout: f32,
    /// Dropout of attention weights.
    pub attention_dropout: f32,
    /// Causal attention: tokens see only earlier tokens and themselves.
    pub causal: bool,
    /// Variants of attention.
    #[serde(flatten)]
    pub attention: AttentionOptions,
    /// Variants of all other layers.
    #[serde(flatten)]
    pub options: LayerOptions,
}

/// Variants of layers other than attention, in model configurations. Omitted options follow the original paper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LayerOptions {
    /// The kind of normalization.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub norm: NormKind,
    /// ε of every normalization; [`Norm::EPSILON`] by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub norm_epsilon: Option<f64>,
    /// The kind of feed-forward network.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub feed_forward: FeedForwardKind,
    /// Omits the norm before the first layer's attention, because its input is already normalized (Warner et al. 2024).
    #[serde(skip_serializing_if = "crate::is_default")]
    pub first_norm_left_out: bool,
    /// Local attention in most layers; global attention in all layers by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_layers: Option<LocalLayers>,
}

/// Layers with local attention between layers with global attention (Beltagy et al. 2020; ModernBERT, Warner et al.
/// 2024).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LocalLayers {
    /// The interval of layers with global attention, starting with the first layer.
    pub global_every: usize,
    /// The window of local attention, in tokens to either side.
    pub window: usize,
    /// The base of rotary positions in local layers.
    pub rotary_base: f64,
}

/// The kind of a feed-forward network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FeedForwardKind {
    /// `W₂ f(W₁ x + b₁) + b₂` (Vaswani et al. 2017, equation 2).
    #[default]
    Plain,
    /// `W₂ (f(W x) ∘ V x)`, without biases (Shazeer 2020, equation 6). With SiLU it is SwiGLU.
    Gated,
    /// Gated, with a bias for each of the three products.
    GatedWithBias,
}

impl FeedForwardKind {
    /// Returns true if a second product multiplies the activation.
    pub(crate) fn is_gated(self) -> bool {
        self != FeedForwardKind::Plain
    }

    /// Returns true if the linear layers have biases.
    pub(crate) fn has_bias(self) -> bool {
        self != FeedForwardKind::Gated
    }
}

impl EncoderConfig {
    /// Creates the configuration of a pre-norm encoder with GELU, full attention and no dropout.
    pub fn new(num_layers: usize, d_model: usize, num_heads: usize, d_ff: usize) -> EncoderConfig {
        EncoderConfig {
            num_layers,
            d_model,
            num_heads,
            d_ff,
            activation: "gelu".into(),
            norm_order: NormOrder::Pre,
            dropout: 0.0,
            attention_dropout: 0.0,
            causal: false,
            attention: AttentionOptions::default(),
            options: LayerOptions::default(),
        }
    }

    /// Checks the sizes, which may come from a file.
    ///
    /// # Errors
    /// If a size or setting is out of range.
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
        if find_activation(&self.activation).is_none() {
            return Err(Error::Activation(self.activation.clone()));
        }
        if let Some(epsilon) = self.options.norm_epsilon.filter(|epsilon| !(epsilon.is_finite() && *epsilon > 0.0)) {
            return Err(Error::NormEpsilon(epsilon));
        }
        if let Some(LocalLayers { global_every: 0, .. }) = self.options.local_layers {
            return Err(Error::Size { name: "global_every", most: 1 << 10, found: 0 });
        }
        Ok(())
    }

    /// Adds a normalization of this width to the model under construction.
    pub(super) fn new_norm(&self, builder: &mut Builder) -> Norm {
        let epsilon = self.options.norm_epsilon.unwrap_or(Norm::EPSILON);
        Norm::new(builder, self.options.norm, self.d_model, epsilon)
    }

    /// Returns the self-attention of layer `index`; `site` is its dropout site.
    pub(super) fn self_attention_config(&self, index: usize, site: u32) -> Result<MultiHeadAttentionConfig> {
        let mut options = self.attention;
        if let Some(local) = self.options.local_layers.filter(|local| !index.is_multiple_of(local.global_every.max(1)))
        {
            (options.window, options.rotary_base) = (Some(local.window), Some(local.rotary_base));
        }
        let attention = MultiHeadAttentionConfig::self_attention(self.d_model, self.num_heads, options)?;
        Ok(MultiHeadAttentionConfig {
            dropout: self.attention_dropout,
            causal: self.causal,
            dropout_site: site,
            ..attention
        })
    }

    /// Returns the activation with the configured name.
    pub(crate) fn activation(&self) -> Activation {
        find_activation(&self.activation).unwrap_or(Activation::Gelu)
    }
}

/// The activations of feed-forward networks, with their names in configurations.
pub const ACTIVATIONS: [(&str, Activation); 4] = [
    ("gelu", Activation::Gelu),
    ("gelu_tanh", Activation::GeluTanh),
    ("relu", Activation::Relu),
    ("silu", Activation::Silu),
];

/// Finds the activation with this name.
fn find_activation(name: &str) -> Option<Activation> {
    ACTIVATIONS.into_iter().find(|(known, _)| *known == name).map(|(_, activation)| activation)
}
