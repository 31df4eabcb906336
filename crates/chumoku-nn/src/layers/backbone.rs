//! The backbone of a model: a transformer encoder or a recurrent network.

use super::recurrent::CellName;
use super::{
    AttentionOptions, Encoder, EncoderCache, EncoderConfig, LayerOptions, Mode, NormOrder, Offsets, Recurrent,
    RecurrentCache, RecurrentConfig,
};
use crate::params::{Builder, Params};
use crate::{Error, Result};
use chumoku_kernels::{Real, RecurrentCell};
use ndarray::Array2;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The kind of a model's backbone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackboneKind {
    /// Self-attention in every layer.
    #[default]
    Transformer,
    /// A recurrent network.
    Recurrent(RecurrentCell),
}

impl BackboneKind {
    /// Returns the name for command lines.
    pub(crate) fn name(self) -> &'static str {
        match self {
            BackboneKind::Transformer => "transformer",
            BackboneKind::Recurrent(cell) => cell.name(),
        }
    }

    /// Returns the name for prose.
    pub fn display_name(self) -> &'static str {
        match self {
            BackboneKind::Transformer => "transformer",
            BackboneKind::Recurrent(RecurrentCell::Rnn) => "RNN",
            BackboneKind::Recurrent(RecurrentCell::Lstm) => "LSTM",
            BackboneKind::Recurrent(RecurrentCell::Gru) => "GRU",
        }
    }
}

/// Serialized as its name.
impl Serialize for BackboneKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The sizes and options of a `Backbone`. In files, a configuration with a `cell` is recurrent.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[allow(clippy::large_enum_variant, reason = "a model has only one")]
pub enum BackboneConfig {
    /// An encoder.
    Transformer(EncoderConfig),
    /// A recurrent network.
    Recurrent(RecurrentConfig),
}

impl From<EncoderConfig> for BackboneConfig {
    fn from(config: EncoderConfig) -> Self {
        BackboneConfig::Transformer(config)
    }
}

impl From<RecurrentConfig> for BackboneConfig {
    fn from(config: RecurrentConfig) -> Self {
        BackboneConfig::Recurrent(config)
    }
}

/// The fields of either backbone in a file.
#[derive(Deserialize)]
struct BackboneFields {
    cell: Option<CellName>,
    num_layers: Option<usize>,
    d_model: Option<usize>,
    num_heads: Option<usize>,
    d_ff: Option<usize>,
    activation: Option<String>,
    norm_order: Option<NormOrder>,
    dropout: Option<f32>,
    attention_dropout: Option<f32>,
    causal: Option<bool>,
    hidden_size: Option<usize>,
    bidirectional: Option<bool>,
    #[serde(flatten)]
    attention: AttentionOptions,
    #[serde(flatten)]
    options: LayerOptions,
}

impl<'de> Deserialize<'de> for BackboneConfig {
    // Written by hand, because serde reports an untagged enum without naming the field that is missing.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        fn required<T, E: serde::de::Error>(field: Option<T>, name: &'static str) -> Result<T, E> {
            field.ok_or_else(|| E::missing_field(name))
        }
        let f = BackboneFields::deserialize(deserializer)?;
        Ok(match f.cell {
            Some(cell) => BackboneConfig::Recurrent(RecurrentConfig {
                cell: cell.0,
                num_layers: required(f.num_layers, "num_layers")?,
                d_model: required(f.d_model, "d_model")?,
                hidden_size: required(f.hidden_size, "hidden_size")?,
                bidirectional: required(f.bidirectional, "bidirectional")?,
                dropout: required(f.dropout, "dropout")?,
            }),
            None => BackboneConfig::Transformer(EncoderConfig {
                num_layers: required(f.num_layers, "num_layers")?,
                d_model: required(f.d_model, "d_model")?,
                num_heads: required(f.num_heads, "num_heads")?,
                d_ff: required(f.d_ff, "d_ff")?,
                activation: required(f.activation, "activation")?,
                norm_order: required(f.norm_order, "norm_order")?,
                dropout: required(f.dropout, "dropout")?,
                attention_dropout: required(f.attention_dropout, "attention_dropout")?,
                causal: required(f.causal, "causal")?,
                attention: f.attention,
                options: f.options,
            }),
        })
    }
}

impl BackboneConfig {
    /// Returns the kind of backbone.
    pub fn kind(&self) -> BackboneKind {
        match self {
            BackboneConfig::Transformer(_) => BackboneKind::Transformer,
            BackboneConfig::Recurrent(config) => BackboneKind::Recurrent(config.cell),
        }
    }

    /// Returns the encoder's configuration, or `None` for a recurrent network.
    pub fn transformer(&self) -> Option<&EncoderConfig> {
        match self {
            BackboneConfig::Transformer(config) => Some(config),
            BackboneConfig::Recurrent(_) => None,
        }
    }

    /// The width of the input embeddings.
    pub fn d_model(&self) -> usize {
        match self {
            BackboneConfig::Transformer(config) => config.d_model,
            BackboneConfig::Recurrent(config) => config.d_model,
        }
    }

    /// The width of the output for each token.
    pub fn width(&self) -> usize {
        match self {
            BackboneConfig::Transformer(config) => config.d_model,
            BackboneConfig::Recurrent(config) => config.width(),
        }
    }

    /// Describes the sizes in a few words, e.g. `2 layers, width 128, 4 heads`.
    pub fn describe(&self) -> String {
        let layers = |n: usize| format!("{n} layer{}", if n == 1 { "" } else { "s" });
        match self {
            BackboneConfig::Transformer(c) => {
                format!("{}, width {}, {} heads", layers(c.num_layers), c.d_model, c.num_heads)
            }
            BackboneConfig::Recurrent(c) => {
                let directions = if c.bidirectional { "both ways" } else { "one way" };
                format!("{}, width {}, {directions}", layers(c.num_layers), c.hidden_size)
            }
        }
    }

    /// The approximate number of activations that training keeps per token.
    pub fn activations_per_token(&self) -> usize {
        match self {
            // Per layer, about eleven arrays of d_model (twice that with gradients) and four of d_ff.
            BackboneConfig::Transformer(c) => c.num_layers * (22 * c.d_model + 6 * c.d_ff),
            // Per layer, the gates with their gradients, the state, the output and the input.
            BackboneConfig::Recurrent(c) => c.num_layers * (2 * (c.cell.gates() + 3) * c.width() + 2 * c.d_model),
        }
    }

    /// Returns the multiply–adds of a forward pass: per token, and per pair of query and key.
    pub(crate) fn multiply_adds(&self) -> (f64, f64) {
        match self {
            // Queries, keys, values and output; the two feed-forward products. Scores and weighted sums.
            BackboneConfig::Transformer(c) => {
                let per_token = c.num_layers * (4 * c.d_model * c.d_model + 2 * c.d_model * c.d_ff);
                (per_token as f64, (2 * c.num_layers * c.d_model) as f64)
            }
            // Each gate multiplies the input and the state, in each direction.
            BackboneConfig::Recurrent(c) => {
                let gates = c.cell.gates() * c.width();
                ((c.num_layers * gates * (c.d_model + c.hidden_size)) as f64, 0.0)
            }
        }
    }

    /// Checks the sizes.
    ///
    /// # Errors
    /// If a size is out of range.
    pub fn check(&self) -> Result<()> {
        let c = match self {
            BackboneConfig::Transformer(c) => return c.check(),
            BackboneConfig::Recurrent(c) => c,
        };
        let sizes = [
            ("num_layers", c.num_layers, 1 << 10),
            ("d_model", c.d_model, 1 << 16),
            ("hidden_size", c.hidden_size, 1 << 16),
        ];
        match sizes.into_iter().find(|&(_, size, most)| size == 0 || size > most) {
            Some((name, found, most)) => Err(Error::Size { name, most, found }),
            None => Ok(()),
        }
    }
}

/// The network between embeddings and pooling.
#[derive(Clone, Debug)]
pub(crate) enum Backbone {
    /// A transformer encoder.
    Transformer(Encoder),
    /// A recurrent network.
    Recurrent(Recurrent),
}

/// The cache of a [`Backbone`]'s forward pass.
#[derive(Clone, Debug)]
pub(crate) enum BackboneCache<T> {
    /// The cache of a transformer encoder.
    Transformer(EncoderCache<T>),
    /// The cache of a recurrent network.
    Recurrent(RecurrentCache<T>),
}

impl Backbone {
    /// Adds the parameters of an encoder under `encoder`, or those of a recurrent network under `recurrent`.
    ///
    /// # Errors
    /// If heads do not divide d_model.
    pub(crate) fn new(builder: &mut Builder, config: &BackboneConfig) -> Result<Self> {
        Ok(match config {
            BackboneConfig::Transformer(c) => Backbone::Transformer(builder.scope("encoder", |b| Encoder::new(b, c))?),
            BackboneConfig::Recurrent(c) => Backbone::Recurrent(builder.scope("recurrent", |b| Recurrent::new(b, c))),
        })
    }

    /// Returns the output at each token, and the cache for `backward`.
    ///
    /// # Shapes
    /// `x` (tokens, d_model) → (tokens, width).
    ///
    /// # Errors
    /// If the shapes do not match.
    pub(crate) fn forward<T: Real>(
        &self,
        p: &Params<T>,
        x: Array2<T>,
        offsets: &Offsets,
        mode: Mode,
    ) -> Result<(Array2<T>, BackboneCache<T>)> {
        match self {
            Backbone::Transformer(encoder) => {
                let (y, cache) = encoder.forward(p, x, offsets, mode)?;
                Ok((y, BackboneCache::Transformer(cache)))
            }
            Backbone::Recurrent(recurrent) => {
                let (y, cache) = recurrent.forward(p, x, offsets, mode)?;
                Ok((y, BackboneCache::Recurrent(cache)))
            }
        }
    }

    /// Like [`Backbone::forward`] in evaluation mode, without a cache.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub(crate) fn infer<T: Real>(&self, p: &Params<T>, x: Array2<T>, offsets: &Offsets) -> Result<Array2<T>> {
        match self {
            Backbone::Transformer(encoder) => encoder.infer(p, x, offsets),
            Backbone::Recurrent(recurrent) => recurrent.infer(p, x, offsets),
        }
    }

    /// Returns the gradient of x and adds the parameter gradients to `grads`.
    ///
    /// # Shapes
    /// `dy` (tokens, width) → dx (tokens, d_model).
    ///
    /// # Errors
    /// If the shapes do not match, or the cache belongs to another kind of network.
    pub(crate) fn backward<T: Real>(
        &self,
        p: &Params<T>,
        cache: &BackboneCache<T>,
        offsets: &Offsets,
        dy: Array2<T>,
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<Array2<T>> {
        match (self, cache) {
            (Backbone::Transformer(encoder), BackboneCache::Transformer(c)) => {
                encoder.backward(p, c, offsets, dy, mode, grads)
            }
            (Backbone::Recurrent(network), BackboneCache::Recurrent(c)) => {
                network.backward(p, c, offsets, dy, mode, grads)
            }
            _ => Err(Error::CacheMismatch),
        }
    }

    /// The minimum number of tokens per group of sequences. A group goes through all layers together, so its
    /// activations stay in the second-level cache.
    pub(crate) fn tokens_per_group(&self) -> usize {
        match self {
            Backbone::Transformer(_) => 256,
            // Each step of a recurrent network is one product for all sequences, so large groups are faster.
            Backbone::Recurrent(_) => usize::MAX,
        }
    }
}
