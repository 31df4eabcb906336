//! The backbone of pretrained models: embeddings and a transformer encoder, with a vector per token as output (Devlin
//! et al. 2019).

use crate::Result;
use crate::layers::map_groups;
use crate::layers::{
    AttentionTrace, BackwardTrace, Embedding, EmbeddingTrace, Encoder, EncoderCache, EncoderConfig, InputEmbeddings,
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

/// The model: its layers, and the layout of their parameters.
#[derive(Clone, Debug)]
pub struct TextEncoder {
    config: TextEncoderConfig,
    layout: Arc<ParamLayout>,
    embeddings: InputEmbeddings,
    encoder: Encoder,
}

/// The cache of a [`TextEncoder`]'s forward pass.
#[derive(Clone, Debug)]
pub struct TextEncoderCache<T> {
    embeddings: InputEmbeddingsCache<T>,
    encoder: EncoderCache<T>,
}

/// Tokens per group of sequences. A group goes through all layers together and stays in a core's cache.
const TOKENS_PER_GROUP: usize = 256;

impl TextEncoder {
    /// Builds the model of a configuration. Its parameters come from [`Params::init`] from its [`TextEncoder::layout`].
    ///
    /// # Errors
    /// If the heads do not divide d_model.
    pub fn new(config: TextEncoderConfig) -> Result<Self> {
        let mut builder = Builder::new();
        let encoder = TextEncoder::add_to(&mut builder, config)?;
        Ok(TextEncoder { layout: builder.finish(), ..encoder })
    }

    /// Adds the encoder to a model under construction, which holds the layout.
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

    /// The stack of layers.
    pub(super) fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// The token embedding.
    pub(super) fn token_embedding(&self) -> &Embedding {
        self.embeddings.embedding()
    }

    /// The configuration.
    pub fn config(&self) -> &TextEncoderConfig {
        &self.config
    }

    /// The names, shapes and offsets of the parameters.
    pub fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }

    /// Returns the vector of each token, and the cache for `backward`.
    ///
    /// # Shapes
    /// (tokens,) → (tokens, d_model).
    ///
    /// # Errors
    /// If an id or a length exceeds the model's limits.
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

    /// Adds the parameter gradients to `grads`; `dy` is the gradient of the output of `forward`.
    ///
    /// # Errors
    /// If the shapes do not match.
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

    /// Returns the vectors after the embeddings and after each layer, in evaluation mode: (tokens, d_model) each. The
    /// final norm, if any, applies to the last ones.
    ///
    /// # Errors
    /// If an id or a length exceeds the model's limits.
    pub fn hidden_states<T: Real>(&self, p: &Params<T>, tokens: Tokens<'_>) -> Result<Vec<Array2<T>>> {
        let (x, _) = self.embeddings.forward(p, tokens, Mode::Eval)?;
        self.encoder.hidden_states(p, x, tokens.offsets)
    }

    /// Returns the embeddings of tokens, the input of the first layer: (tokens, d_model).
    ///
    /// # Errors
    /// If an id or a length exceeds the model's limits.
    pub(super) fn embed<T: Real>(&self, p: &Params<T>, tokens: Tokens<'_>) -> Result<Array2<T>> {
        Ok(self.embeddings.forward(p, tokens, Mode::Eval)?.0)
    }

    /// Returns the scaled vectors of the embedding table, and the vectors of the positions.
    pub(super) fn token_and_position_vectors<T: Real>(
        &self,
        p: &Params<T>,
        tokens: Tokens<'_>,
    ) -> Result<(Array2<T>, Array2<T>)> {
        self.embeddings.token_and_position_vectors(p, tokens)
    }

    /// Traces the embeddings of one sequence, whose sum is the input of the first layer.
    ///
    /// # Errors
    /// If an id, a token type or the length exceeds the model's limits.
    pub fn trace_embeddings<T: Real>(&self, p: &Params<T>, tokens: Tokens<'_>) -> Result<EmbeddingTrace> {
        self.embeddings.trace(p, tokens)
    }

    /// Like [`TextEncoder::forward`] in evaluation mode, without a cache.
    ///
    /// # Errors
    /// If an id or a length exceeds the model's limits.
    pub(super) fn infer<T: Real>(&self, p: &Params<T>, tokens: Tokens<'_>) -> Result<Array2<T>> {
        let (x, _) = self.embeddings.forward(p, tokens, Mode::Eval)?;
        self.encoder.infer(p, x, tokens.offsets)
    }

    /// Decodes tokens that follow `starts` earlier tokens of each sequence, whose keys and values are in the caches.
    ///
    /// # Errors
    /// If an id or a length exceeds the model's limits, or the encoder is not causal.
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

    /// Traces the attention of a layer while the model reads one sequence. Also returns the vectors of its tokens:
    /// (tokens, d_model).
    ///
    /// # Errors
    /// If an id or the length exceeds the model's limits.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub fn trace<T: Real>(
        &self,
        p: &Params<T>,
        tokens: Tokens<'_>,
        layer: usize,
    ) -> Result<(AttentionTrace, Array2<T>)> {
        let (y, cache) = self.forward(p, tokens, Mode::Eval)?;
        Ok((self.encoder.trace(p, &cache.encoder, tokens.offsets, layer)?, y))
    }

    /// Like [`TextEncoder::trace`], with the gradients of a loss in the layer, without dropout. `loss` maps the token
    /// vectors to the loss and their gradient, and adds its own parameter gradients to `grads`. No parameter of `grads`
    /// may be frozen.
    pub(super) fn trace_backward<T: Real>(
        &self,
        p: &Params<T>,
        tokens: Tokens<'_>,
        layer: usize,
        grads: &mut Params<T>,
        loss: impl FnOnce(&Array2<T>, &mut Params<T>) -> Result<(f64, Array2<T>)>,
    ) -> Result<BackwardTrace> {
        let (y, cache) = self.forward(p, tokens, Mode::Eval)?;
        let attention = self.encoder.trace(p, &cache.encoder, tokens.offsets, layer)?;
        let (loss, dy) = loss(&y, grads)?;
        let gradients = self.encoder.trace_gradients(p, (&cache.encoder, tokens.offsets), dy, layer, grads)?;
        Ok(BackwardTrace { attention, loss, gradients })
    }

    /// Traces the attention of every layer in turn, in a single forward pass over one sequence.
    ///
    /// # Errors
    /// If an id or the length exceeds the model's limits.
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
    /// If the layer does not exist.
    pub fn attention(&self, layer: usize) -> &MultiHeadAttention {
        self.encoder.layers()[layer].attention()
    }

    /// Calls `each` with the token vectors of groups of sequences, and returns the results in order. The vectors equal
    /// those of [`TextEncoder::forward`] in evaluation mode. A group goes through all layers together.
    ///
    /// # Errors
    /// If an id or a length exceeds the model's limits, or the lengths contradict each other.
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
