//! What the tokens of a text go through: a transformer encoder or a recurrent network.

use super::recurrent::CellName;
use super::{
    AttentionOptions, Encoder, EncoderCache, EncoderConfig, LayerOptions, Mode, NormOrder, Offsets, Recurrent,
    RecurrentCache, RecurrentConfig,
};
use crate::params::{Builder, Params};
use crate::{Error, Result};
use chumoku_kernels::{Cell, Real};
use ndarray::Array2;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The network of a model, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// Self-attention in every layer.
    #[default]
    Transformer,
    /// A recurrent network.
    Recurrent(Cell),
}

impl Network {
    /// Its name on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Network::Transformer => "transformer",
            Network::Recurrent(cell) => cell.name(),
        }
    }

    /// Its name in sentences.
    pub fn noun(self) -> &'static str {
        match self {
            Network::Transformer => "transformer",
            Network::Recurrent(Cell::Rnn) => "RNN",
            Network::Recurrent(Cell::Lstm) => "LSTM",
            Network::Recurrent(Cell::Gru) => "GRU",
        }
    }
}

/// In files it is its name.
impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The sizes and options of a [`Body`]. In files the one that has a `cell` is recurrent.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[allow(clippy::large_enum_variant, reason = "a model has one")]
pub enum BodyConfig {
    /// An encoder.
    Transformer(EncoderConfig),
    /// A recurrent network.
    Recurrent(RecurrentConfig),
}

impl From<EncoderConfig> for BodyConfig {
    fn from(config: EncoderConfig) -> Self {
        BodyConfig::Transformer(config)
    }
}

impl From<RecurrentConfig> for BodyConfig {
    fn from(config: RecurrentConfig) -> Self {
        BodyConfig::Recurrent(config)
    }
}

/// The fields of either network, as a file has them.
#[derive(Deserialize)]
struct Fields {
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

impl<'de> Deserialize<'de> for BodyConfig {
    // By hand: of an untagged enum serde says no more than that nothing fits.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        fn given<T, E: serde::de::Error>(field: Option<T>, name: &'static str) -> Result<T, E> {
            field.ok_or_else(|| E::missing_field(name))
        }
        let f = Fields::deserialize(deserializer)?;
        Ok(match f.cell {
            Some(cell) => BodyConfig::Recurrent(RecurrentConfig {
                cell: cell.0,
                num_layers: given(f.num_layers, "num_layers")?,
                d_model: given(f.d_model, "d_model")?,
                hidden_size: given(f.hidden_size, "hidden_size")?,
                bidirectional: given(f.bidirectional, "bidirectional")?,
                dropout: given(f.dropout, "dropout")?,
            }),
            None => BodyConfig::Transformer(EncoderConfig {
                num_layers: given(f.num_layers, "num_layers")?,
                d_model: given(f.d_model, "d_model")?,
                num_heads: given(f.num_heads, "num_heads")?,
                d_ff: given(f.d_ff, "d_ff")?,
                activation: given(f.activation, "activation")?,
                norm_order: given(f.norm_order, "norm_order")?,
                dropout: given(f.dropout, "dropout")?,
                attention_dropout: given(f.attention_dropout, "attention_dropout")?,
                causal: given(f.causal, "causal")?,
                attention: f.attention,
                options: f.options,
            }),
        })
    }
}

impl BodyConfig {
    /// Which network it is.
    pub fn network(&self) -> Network {
        match self {
            BodyConfig::Transformer(_) => Network::Transformer,
            BodyConfig::Recurrent(config) => Network::Recurrent(config.cell),
        }
    }

    /// The encoder's, if it is one.
    pub fn transformer(&self) -> Option<&EncoderConfig> {
        match self {
            BodyConfig::Transformer(config) => Some(config),
            BodyConfig::Recurrent(_) => None,
        }
    }

    /// Width of the embeddings that it is given.
    pub fn d_model(&self) -> usize {
        match self {
            BodyConfig::Transformer(config) => config.d_model,
            BodyConfig::Recurrent(config) => config.d_model,
        }
    }

    /// Width of what it makes of each token.
    pub fn width(&self) -> usize {
        match self {
            BodyConfig::Transformer(config) => config.d_model,
            BodyConfig::Recurrent(config) => config.width(),
        }
    }

    /// Its sizes in a few words, e.g. `2 layers, width 128, 4 heads`.
    pub fn sizes(&self) -> String {
        let layers = |n: usize| format!("{n} layer{}", if n == 1 { "" } else { "s" });
        match self {
            BodyConfig::Transformer(c) => {
                format!("{}, width {}, {} heads", layers(c.num_layers), c.d_model, c.num_heads)
            }
            BodyConfig::Recurrent(c) => {
                let directions = if c.bidirectional { "both ways" } else { "one way" };
                format!("{}, width {}, {directions}", layers(c.num_layers), c.hidden_size)
            }
        }
    }

    /// Numbers that training remembers of each token, about.
    pub fn numbers_per_token(&self) -> usize {
        match self {
            // Each layer about eleven arrays of d_model (with gradients twice that), four of d_ff.
            BodyConfig::Transformer(c) => c.num_layers * (22 * c.d_model + 6 * c.d_ff),
            // Each layer the gates with their gradients, state, output and what was given.
            BodyConfig::Recurrent(c) => c.num_layers * (2 * (c.cell.gates() + 3) * c.width() + 2 * c.d_model),
        }
    }

    /// Multiply–adds of a forward pass: for each token, and for each pair of query and key.
    pub(crate) fn multiply_adds(&self) -> (f64, f64) {
        match self {
            // Queries, keys, values and the output; two of the feed-forward part. Scores and sums of values.
            BodyConfig::Transformer(c) => {
                let per_token = c.num_layers * (4 * c.d_model * c.d_model + 2 * c.d_model * c.d_ff);
                (per_token as f64, (2 * c.num_layers * c.d_model) as f64)
            }
            // Each gate of inputs and of the state, in each direction.
            BodyConfig::Recurrent(c) => {
                let gates = c.cell.gates() * c.width();
                ((c.num_layers * gates * (c.d_model + c.hidden_size)) as f64, 0.0)
            }
        }
    }

    /// What is wrong with the sizes, if anything.
    pub fn check(&self) -> Result<()> {
        let c = match self {
            BodyConfig::Transformer(c) => return c.check(),
            BodyConfig::Recurrent(c) => c,
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

/// The network between embedding and pooling.
#[derive(Clone, Debug)]
pub enum Body {
    /// A transformer encoder.
    Transformer(Encoder),
    /// A recurrent network.
    Recurrent(Recurrent),
}

/// What a [`Body`] remembers.
#[derive(Clone, Debug)]
pub enum BodyCache<T> {
    /// Of a transformer encoder.
    Transformer(EncoderCache<T>),
    /// Of a recurrent network.
    Recurrent(RecurrentCache<T>),
}

impl Body {
    /// Adds the parameters of an encoder under `encoder`, or those of a recurrent network under `recurrent`.
    ///
    /// # Errors
    /// If heads do not divide d_model.
    pub fn new(builder: &mut Builder, config: &BodyConfig) -> Result<Self> {
        Ok(match config {
            BodyConfig::Transformer(c) => Body::Transformer(builder.scope("encoder", |b| Encoder::new(b, c))?),
            BodyConfig::Recurrent(c) => Body::Recurrent(builder.scope("recurrent", |b| Recurrent::new(b, c))),
        })
    }

    /// The output at each token, and what `backward` needs of the computation.
    ///
    /// # Shapes
    /// `x` (tokens, d_model) → (tokens, width).
    ///
    /// # Errors
    /// If the shapes do not fit.
    pub fn forward<T: Real>(
        &self,
        p: &Params<T>,
        x: Array2<T>,
        offsets: &Offsets,
        mode: Mode,
    ) -> Result<(Array2<T>, BodyCache<T>)> {
        match self {
            Body::Transformer(encoder) => {
                let (y, cache) = encoder.forward(p, x, offsets, mode)?;
                Ok((y, BodyCache::Transformer(cache)))
            }
            Body::Recurrent(recurrent) => {
                let (y, cache) = recurrent.forward(p, x, offsets, mode)?;
                Ok((y, BodyCache::Recurrent(cache)))
            }
        }
    }

    /// As [`Body::forward`] in use, remembering nothing.
    ///
    /// # Errors
    /// If the shapes do not fit.
    pub fn apply<T: Real>(&self, p: &Params<T>, x: Array2<T>, offsets: &Offsets) -> Result<Array2<T>> {
        match self {
            Body::Transformer(encoder) => encoder.apply(p, x, offsets),
            Body::Recurrent(recurrent) => recurrent.apply(p, x, offsets),
        }
    }

    /// The gradient of x; those of the parameters are added to `grads`.
    ///
    /// # Shapes
    /// `dy` (tokens, width) → dx (tokens, d_model).
    ///
    /// # Errors
    /// If the shapes do not fit, or the cache is another network's.
    pub fn backward<T: Real>(
        &self,
        p: &Params<T>,
        cache: &BodyCache<T>,
        offsets: &Offsets,
        dy: Array2<T>,
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<Array2<T>> {
        match (self, cache) {
            (Body::Transformer(encoder), BodyCache::Transformer(c)) => encoder.backward(p, c, offsets, dy, mode, grads),
            (Body::Recurrent(network), BodyCache::Recurrent(c)) => network.backward(p, c, offsets, dy, mode, grads),
            _ => Err(Error::OtherNetwork),
        }
    }

    /// The attention weights of one layer, sequence and head: (tokens, tokens).
    ///
    /// # Errors
    /// If there is no such sequence or head, or no attention at all.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn weights<T: Real>(
        &self,
        cache: &BodyCache<T>,
        offsets: &Offsets,
        layer: usize,
        sequence: usize,
        head: usize,
    ) -> Result<Array2<T>> {
        match (self, cache) {
            (Body::Transformer(encoder), BodyCache::Transformer(cache)) => {
                encoder.weights(cache, offsets, layer, sequence, head)
            }
            _ => Err(Error::NoAttention),
        }
    }

    /// Tokens from which sequences go through all layers in groups: their activations fit the second-level cache.
    pub(crate) fn group_tokens(&self) -> usize {
        match self {
            Body::Transformer(_) => 256,
            // Each step's product is worth the more, the more sequences it takes along.
            Body::Recurrent(_) => usize::MAX,
        }
    }
}
