//! The body of models as they come pretrained: embeddings and a transformer encoder, a vector for each token (Devlin et
//! al. 2019).

use crate::Result;
use crate::layers::map_groups;
use crate::layers::{
    AttentionTrace, Embedding, Encoder, EncoderCache, EncoderConfig, GradientTrace, InputEmbeddings,
    InputEmbeddingsCache, InputEmbeddingsConfig, InputEmbeddingsOptions, Mode, MultiHeadAttention, Offsets,
    PositionKind, Tokens,
};
use crate::params::{Builder, ParamLayout, Params};
use chumoku_kernels::{KeyValueCache, Real};
use ndarray::Array2;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The sizes and options of a [`TextEncoder`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TextEncoderConfig {
    /// Number of token ids.
    pub vocab_size: usize,
    /// The encoder.
    #[serde(flatten)]
    pub encoder: EncoderConfig,
    /// Positional encoding.
    pub position: PositionKind,
    /// The longest sequence, in tokens.
    pub max_length: usize,
    /// Dropout of the embeddings.
    pub embedding_dropout: f32,
    /// Variants of the embeddings.
    #[serde(flatten)]
    pub embeddings: InputEmbeddingsOptions,
}

/// The model: its parts, and where their parameters lie.
#[derive(Clone, Debug)]
pub struct TextEncoder {
    config: TextEncoderConfig,
    layout: Arc<ParamLayout>,
    embeddings: InputEmbeddings,
    encoder: Encoder,
}

/// What a [`TextEncoder`] remembers.
#[derive(Clone, Debug)]
pub struct TextEncoderCache<T> {
    embeddings: InputEmbeddingsCache<T>,
    encoder: EncoderCache<T>,
}

/// Tokens that go through all layers together: few enough to stay in a core's cache.
const TOKENS_PER_GROUP: usize = 256;

impl TextEncoder {
    /// The model of a configuration; its parameters are made by [`Params::init`] from its [`TextEncoder::layout`].
    ///
    /// # Errors
    /// If the heads do not divide d_model.
    pub fn new(config: TextEncoderConfig) -> Result<Self> {
        let mut builder = Builder::new();
        let encoder = TextEncoder::add_to(&mut builder, config)?;
        Ok(TextEncoder { layout: builder.finish(), ..encoder })
    }

    /// The encoder as a part of the model under construction, which has the layout.
    pub(super) fn add_to(builder: &mut Builder, config: TextEncoderConfig) -> Result<Self> {
        let input = InputEmbeddingsConfig {
            vocab_size: config.vocab_size,
            d_model: config.encoder.d_model,
            position: config.position,
            max_length: config.max_length,
            dropout: config.embedding_dropout,
            options: config.embeddings,
        };
        let input = InputEmbeddings::new(builder, &input);
        let mut layers = config.encoder.clone();
        layers.attention.position = config.position;
        let encoder = builder.scope("encoder", |b| Encoder::new(b, &layers))?;
        Ok(TextEncoder { config, layout: Arc::default(), embeddings: input, encoder })
    }

    /// Its layers.
    pub(super) fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// The table of token embeddings.
    pub(super) fn token_embedding(&self) -> &Embedding {
        self.embeddings.embedding()
    }

    /// The configuration.
    pub fn config(&self) -> &TextEncoderConfig {
        &self.config
    }

    /// Names and places of the parameters.
    pub fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }

    /// The vector of each token, and what `backward` needs of the computation.
    ///
    /// # Shapes
    /// (tokens,) → (tokens, d_model).
    ///
    /// # Errors
    /// If an id or a length is beyond the model's.
    pub fn forward<T: Real>(
        &self,
        p: &Params<T>,
        tokens: Tokens<'_>,
        mode: Mode,
    ) -> Result<(Array2<T>, TextEncoderCache<T>)> {
        let (x, input) = self.embeddings.forward(p, tokens, mode)?;
        let (y, encoder) = self.encoder.forward(p, x, tokens.offsets, mode)?;
        Ok((y, TextEncoderCache { embeddings: input, encoder }))
    }

    /// Adds to `grads`; `dy` is the gradient of what `forward` returned.
    ///
    /// # Errors
    /// If the shapes do not fit.
    pub fn backward<T: Real>(
        &self,
        p: &Params<T>,
        tokens: Tokens<'_>,
        cache: &TextEncoderCache<T>,
        dy: Array2<T>,
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<()> {
        let dx = self.encoder.backward(p, &cache.encoder, tokens.offsets, dy, mode, grads)?;
        self.embeddings.backward(p, tokens, &cache.embeddings, dx, mode, grads)
    }

    /// The vectors after the embeddings and after each layer, in use: (tokens, d_model) each. The last are normalised
    /// where the encoder's output is.
    ///
    /// # Errors
    /// If an id or a length is beyond the model's.
    pub fn hidden_states<T: Real>(&self, p: &Params<T>, tokens: Tokens<'_>) -> Result<Vec<Array2<T>>> {
        let (x, _) = self.embeddings.forward(p, tokens, Mode::Eval)?;
        self.encoder.hidden_states(p, x, tokens.offsets)
    }

    /// The vector of each token, as [`TextEncoder::forward`] makes it in use, remembering nothing.
    ///
    /// # Errors
    /// If an id or a length is beyond the model's.
    pub(super) fn infer<T: Real>(&self, p: &Params<T>, tokens: Tokens<'_>) -> Result<Array2<T>> {
        let (x, _) = self.embeddings.forward(p, tokens, Mode::Eval)?;
        self.encoder.infer(p, x, tokens.offsets)
    }

    /// The same of tokens that follow `starts` others of each sequence, whose keys and values are in the caches.
    ///
    /// # Errors
    /// If an id or a length is beyond the model's, or the encoder is not causal.
    pub(super) fn step<T: Real>(
        &self,
        p: &Params<T>,
        tokens: Tokens<'_>,
        starts: &[usize],
        caches: &mut [KeyValueCache<T>],
    ) -> Result<Array2<T>> {
        let (x, _) = self.embeddings.forward_at(p, tokens, starts, Mode::Eval)?;
        self.encoder.step(p, x, tokens.offsets, caches)
    }

    /// What the attention of a layer is given and makes when the model reads one sequence, and the vectors of its tokens:
    /// (tokens, d_model).
    ///
    /// # Errors
    /// If an id or the length is beyond the model's.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn trace<T: Real>(
        &self,
        p: &Params<T>,
        tokens: Tokens<'_>,
        layer: usize,
    ) -> Result<(AttentionTrace, Array2<T>)> {
        let (y, cache) = self.forward(p, tokens, Mode::Eval)?;
        Ok((self.encoder.trace(p, &cache.encoder, tokens.offsets, layer)?, y))
    }

    /// As [`TextEncoder::record`], and the gradients of a loss in the layer, without dropout: `loss` is of the vectors, gives
    /// their gradient, and adds those of the parameters behind them to `grads`, in which none may be frozen.
    pub(super) fn trace_backward<T: Real>(
        &self,
        p: &Params<T>,
        tokens: Tokens<'_>,
        layer: usize,
        grads: &mut Params<T>,
        loss: impl FnOnce(&Array2<T>, &mut Params<T>) -> Result<(f64, Array2<T>)>,
    ) -> Result<(AttentionTrace, f64, GradientTrace)> {
        let (y, cache) = self.forward(p, tokens, Mode::Eval)?;
        let attention = self.encoder.trace(p, &cache.encoder, tokens.offsets, layer)?;
        let (loss, dy) = loss(&y, grads)?;
        let gradients = self.encoder.trace_gradients(p, (&cache.encoder, tokens.offsets), dy, layer, grads)?;
        Ok((attention, loss, gradients))
    }

    /// What the attention of every layer in turn is given and makes, the model reading one sequence once.
    ///
    /// # Errors
    /// If an id or the length is beyond the model's.
    pub fn trace_layers<T: Real>(
        &self,
        p: &Params<T>,
        tokens: Tokens<'_>,
        each: &mut dyn FnMut(&AttentionTrace),
    ) -> Result<()> {
        let (_, cache) = self.forward(p, tokens, Mode::Eval)?;
        self.encoder.trace_layers(p, &cache.encoder, tokens.offsets, each)
    }

    /// The attention of a layer.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn attention(&self, layer: usize) -> &MultiHeadAttention {
        self.encoder.layers()[layer].attention()
    }

    /// What `each` makes of the vectors of the tokens of some sequences, in use: as [`TextEncoder::forward`] makes them,
    /// for groups of sequences that go through all layers together, in their order.
    ///
    /// # Errors
    /// If an id or a length is beyond the model's, or the lengths contradict each other.
    pub fn map_groups<T: Real, R: Send>(
        &self,
        p: &Params<T>,
        tokens: Tokens<'_>,
        each: impl Fn(Array2<T>, &Offsets) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        map_groups(("text encoder: ids", tokens.ids.len()), tokens.offsets, TOKENS_PER_GROUP, |range, offsets| {
            let types = tokens.types.map(|types| &types[range.clone()]);
            let tokens = Tokens { ids: &tokens.ids[range], offsets, types };
            let (x, _) = self.embeddings.forward(p, tokens, Mode::Eval)?;
            each(self.encoder.infer(p, x, offsets)?, offsets)
        })
    }
}
