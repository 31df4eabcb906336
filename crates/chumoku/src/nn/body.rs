//! What the tokens of a text go through: a transformer encoder or a recurrent network.

use super::{Encoder, EncoderCache, EncoderConfig, Mode, Offsets, Recurrent, RecurrentCache, RecurrentConfig};
use crate::lang::Lang;
use crate::params::{Builder, Params};
use crate::tr;
use crate::{Error, Result};
use chumoku_kernels::{Cell, Real};
use ndarray::Array2;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

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

impl<'de> Deserialize<'de> for BodyConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // By hand, because of an untagged enum serde says no more than that nothing fits.
        let fields = Map::<String, Value>::deserialize(deserializer)?;
        let body = match fields.contains_key("cell") {
            true => serde_json::from_value(Value::Object(fields)).map(BodyConfig::Recurrent),
            false => serde_json::from_value(Value::Object(fields)).map(BodyConfig::Transformer),
        };
        body.map_err(D::Error::custom)
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

    /// Its sizes in a few words of English, e.g. `2 layers, width 128, 4 heads`, as files have them.
    pub fn sizes(&self) -> String {
        self.sizes_in(Lang::En)
    }

    /// Its sizes in a few words.
    pub fn sizes_in(&self, lang: Lang) -> String {
        let layers = |n: usize| match (lang, n) {
            (Lang::En, 1) => "1 layer".to_owned(),
            (Lang::En, _) => format!("{n} layers"),
            (Lang::Ja, _) => format!("{n} 層"),
        };
        match self {
            BodyConfig::Transformer(c) => match lang {
                Lang::En => format!("{}, width {}, {} heads", layers(c.num_layers), c.d_model, c.num_heads),
                Lang::Ja => format!("{}、幅 {}、ヘッド {}", layers(c.num_layers), c.d_model, c.num_heads),
            },
            BodyConfig::Recurrent(c) => {
                let directions = match c.bidirectional {
                    true => lang.pick("both ways", "両方向"),
                    false => lang.pick("one way", "一方向"),
                };
                match lang {
                    Lang::En => format!("{}, width {}, {directions}", layers(c.num_layers), c.hidden_size),
                    Lang::Ja => format!("{}、幅 {}、{directions}", layers(c.num_layers), c.hidden_size),
                }
            }
        }
    }

    /// Numbers that training remembers of each token, about.
    pub(crate) fn numbers_per_token(&self) -> usize {
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
    pub(crate) fn check(&self) -> Result<(), String> {
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
            Some((name, size, most)) => Err(tr!(
                "{name}: expected 1 to {most}, found {size}",
                "{name}: 1 から {most} までが必要ですが、{size} です"
            )),
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
            _ => Err(Error::Setting(tr!(
                "backward: expected what this network remembers, got another's",
                "backward: このネットワークの記憶が必要ですが、別のネットワークのものです"
            ))),
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
            _ => Err(Error::Setting(tr!(
                "attention weights: a recurrent network has none",
                "再帰型ネットワークにアテンションの重みはありません"
            ))),
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
