//! A language model: a causal encoder that predicts the next token (Radford et al. 2018).

use super::residual_reader::{LayerStack, ReadOut, ResidualReader};
use super::text_encoder::{TextEncoder, TextEncoderConfig};
use crate::Result;
use crate::layers::{
    AttentionTrace, BackwardTrace, Embedding, EmbeddingTrace, EncoderConfig, InputEmbeddingsOptions, Mode,
    MultiHeadAttention, Offsets, PositionKind, Tokens,
};
use crate::params::{Builder, ParamLayout, Params};
use chumoku_kernels::parallel::in_pool;
use chumoku_kernels::{KeyValueCache, Real};
use ndarray::{Array2, Axis, Slice};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The sizes and options of a [`LanguageModel`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LanguageModelConfig {
    /// Number of token ids.
    pub vocab_size: usize,
    /// The encoder, which is always causal.
    #[serde(flatten)]
    pub encoder: EncoderConfig,
    /// Positional encoding.
    pub position: PositionKind,
    /// The context length, in tokens.
    pub max_length: usize,
    /// Dropout of the embeddings.
    pub embedding_dropout: f32,
    /// Variants of the embeddings.
    #[serde(flatten)]
    pub embeddings: InputEmbeddingsOptions,
    /// True if the output layer has its own matrix instead of the embedding's.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub untied_output: bool,
}

/// The model: a backbone that computes a vector per token, and an output layer. The output layer's weight is the
/// embedding table or its own matrix.
#[derive(Clone, Debug)]
pub struct LanguageModel {
    config: LanguageModelConfig,
    layout: Arc<ParamLayout>,
    backbone: TextEncoder,
    output: Option<Embedding>,
}

/// The state of a [`LanguageModel`] during step-by-step decoding.
#[derive(Clone, Debug)]
pub struct LanguageModelState<T: Real> {
    /// One cache per layer.
    key_value_caches: Vec<KeyValueCache<T>>,
    /// Number of tokens of each sequence so far.
    lengths: Vec<usize>,
}

/// Initial capacity of the caches in tokens. Caches grow, and few texts are as long as the model allows.
const INITIAL_CAPACITY: usize = 256;

impl LanguageModel {
    /// Builds the model of a configuration. Its parameters come from [`Params::init`] from its
    /// [`LanguageModel::layout`].
    ///
    /// # Errors
    /// If the heads do not divide d_model.
    pub fn new(mut config: LanguageModelConfig) -> Result<Self> {
        config.encoder.causal = true;
        let mut builder = Builder::new();
        let body = TextEncoderConfig {
            vocab_size: config.vocab_size,
            encoder: config.encoder.clone(),
            position: config.position,
            max_length: config.max_length,
            embedding_dropout: config.embedding_dropout,
            embeddings: config.embeddings,
        };
        let body = TextEncoder::add_to(&mut builder, body)?;
        let (vocabulary, width) = (config.vocab_size, config.encoder.d_model);
        let output =
            config.untied_output.then(|| builder.scope("output", |b| Embedding::unscaled(b, vocabulary, width)));
        Ok(LanguageModel { config, layout: builder.finish(), backbone: body, output })
    }

    /// The configuration.
    pub fn config(&self) -> &LanguageModelConfig {
        &self.config
    }

    /// The names, shapes and offsets of the parameters.
    pub fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }

    /// Everything but the output layer. It shares the model's parameters.
    pub fn backbone(&self) -> &TextEncoder {
        &self.backbone
    }

    /// The embedding that holds the output layer's weight.
    fn output_layer(&self) -> &Embedding {
        self.output.as_ref().unwrap_or(self.backbone.token_embedding())
    }

    /// Returns the mean loss of the tokens `next`, where `next[i]` follows `ids[i]`. In training, adds its gradient to
    /// `grads`.
    ///
    /// Sequences do not see each other.
    ///
    /// # Shapes
    /// `ids`, `next` (tokens,).
    ///
    /// # Errors
    /// If there are no tokens, or an id or a length exceeds the model's limits.
    pub fn loss<T: Real>(
        &self,
        p: &Params<T>,
        [ids, next]: [&[u32]; 2],
        offsets: &Offsets,
        mode: Mode,
        grads: Option<&mut Params<T>>,
    ) -> Result<f64> {
        let tokens = Tokens::new(ids, offsets);
        let (y, cache) = self.backbone.forward(p, tokens, mode)?;
        let Some(grads) = grads else { return Ok(self.output_layer().loss(p, y.view(), next, T::ZERO, None)?.0) };
        let (loss, dy) = self.output_layer().loss(p, y.view(), next, T::ZERO, Some(&mut *grads))?;
        self.backbone.backward(p, tokens, &cache, dy, mode, grads)?;
        Ok(loss)
    }

    /// Returns the logits of the token after each of `ids`, with all tokens at once: (tokens, vocabulary).
    ///
    /// # Errors
    /// If an id or a length exceeds the model's limits.
    pub fn logits<T: Real>(&self, p: &Params<T>, ids: &[u32], offsets: &Offsets) -> Result<Array2<T>> {
        in_pool(|| {
            let y = self.backbone.infer(p, Tokens::new(ids, offsets))?;
            self.output_layer().logits(p, y.view())
        })
    }

    /// Traces the attention of a layer while the model reads one sequence.
    ///
    /// # Errors
    /// If an id or the length exceeds the model's limits.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub fn trace<T: Real>(&self, p: &Params<T>, ids: &[u32], layer: usize) -> Result<AttentionTrace> {
        let offsets = Offsets::from_lengths([ids.len()]);
        Ok(self.backbone.trace(p, Tokens::new(ids, &offsets), layer)?.0)
    }

    /// Like [`LanguageModel::trace`], with the mean loss of all tokens after the first and its gradients in the layer.
    /// Gradients are those of the whole network, without dropout. The prediction after the last token has no known
    /// target and is left out.
    ///
    /// # Errors
    /// If there are fewer than two tokens, or an id or the length is beyond the model's.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub fn trace_backward<T: Real>(&self, p: &Params<T>, ids: &[u32], layer: usize) -> Result<BackwardTrace> {
        let offsets = Offsets::from_lengths([ids.len()]);
        let next = ids.get(1..).unwrap_or_default();
        let mut grads = Params::zeros(&self.layout);
        self.backbone.trace_backward(p, Tokens::new(ids, &offsets), layer, &mut grads, |y, grads| {
            let known = y.slice_axis(Axis(0), Slice::from(..next.len()));
            let (loss, of_known) = self.output_layer().loss(p, known, next, T::ZERO, Some(grads))?;
            let mut dy = Array2::from_elem(y.dim(), T::ZERO);
            dy.slice_axis_mut(Axis(0), Slice::from(..next.len())).assign(&of_known);
            Ok((loss, dy))
        })
    }

    /// Traces the attention of every layer in turn, in a single forward pass.
    ///
    /// # Errors
    /// If an id or the length exceeds the model's limits.
    pub fn trace_layers<T: Real>(
        &self,
        p: &Params<T>,
        ids: &[u32],
        each: &mut dyn FnMut(&AttentionTrace),
    ) -> Result<()> {
        let offsets = Offsets::from_lengths([ids.len()]);
        self.backbone.trace_layers(p, Tokens::new(ids, &offsets), each)
    }

    /// Returns the embeddings of one sequence, with positions: (tokens, d_model).
    ///
    /// # Errors
    /// If an id or the length exceeds the model's limits.
    pub fn embed<T: Real>(&self, p: &Params<T>, ids: &[u32]) -> Result<Array2<T>> {
        self.backbone.embed(p, Tokens::new(ids, &Offsets::from_lengths([ids.len()])))
    }

    /// Traces the embeddings of one sequence, whose sum is the input of the first layer.
    ///
    /// # Errors
    /// If an id or the length exceeds the model's limits.
    pub fn trace_embeddings<T: Real>(&self, p: &Params<T>, ids: &[u32]) -> Result<EmbeddingTrace> {
        let offsets = Offsets::from_lengths([ids.len()]);
        self.backbone.trace_embeddings(p, Tokens::new(ids, &offsets))
    }

    /// Returns the scaled vectors of the embedding table for one sequence, and the vectors of its positions: (tokens,
    /// d_model) each. The latter are 0 if positions act inside attention.
    ///
    /// # Errors
    /// If an id or the length exceeds the model's limits.
    pub fn token_and_position_vectors<T: Real>(&self, p: &Params<T>, ids: &[u32]) -> Result<(Array2<T>, Array2<T>)> {
        let offsets = Offsets::from_lengths([ids.len()]);
        self.backbone.token_and_position_vectors(p, Tokens::new(ids, &offsets))
    }

    /// Returns a reader of the residual stream, with the logits of the token after each token: (tokens, vocabulary).
    pub fn residual_reader<'a, T: Real>(&'a self, p: &'a Params<T>) -> ResidualReader<'a, T> {
        let encoder = self.backbone.encoder();
        let read = move |x, _: &Offsets| self.output_layer().logits(p, encoder.normalize(p, x)?.view());
        ResidualReader::new(LayerStack::Encoder(encoder), p, ReadOut::new(self.config.vocab_size, read))
    }

    /// Returns a reader of the residual stream, with the logits of the token after each sequence: (sequences,
    /// vocabulary).
    pub fn next_token_reader<'a, T: Real>(&'a self, p: &'a Params<T>) -> ResidualReader<'a, T> {
        let encoder = self.backbone.encoder();
        let read_out = ReadOut::new(self.config.vocab_size, move |x, offsets| {
            let x = encoder.normalize(p, last_rows(&x, offsets))?;
            self.output_layer().logits(p, x.view())
        });
        ResidualReader::new(LayerStack::Encoder(encoder), p, read_out)
    }

    /// The attention of a layer.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub fn attention(&self, layer: usize) -> &MultiHeadAttention {
        self.backbone.attention(layer)
    }

    /// Returns the logits of the token after each sequence: (sequences, vocabulary).
    ///
    /// # Errors
    /// If an id or a length exceeds the model's limits, or a sequence is empty.
    pub fn next_logits<T: Real>(&self, p: &Params<T>, ids: &[u32], offsets: &Offsets) -> Result<Array2<T>> {
        let y = self.backbone.infer(p, Tokens::new(ids, offsets))?;
        self.output_layer().logits(p, last_rows(&y, offsets).view())
    }

    /// Starts decoding of `sequences` sequences.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn start_decoding<T: Real>(&self, sequences: usize) -> Result<LanguageModelState<T>> {
        let keys_and_values =
            self.backbone.encoder().key_value_caches(sequences, self.config.max_length.min(INITIAL_CAPACITY))?;
        Ok(LanguageModelState { key_value_caches: keys_and_values, lengths: vec![0; sequences] })
    }

    /// Returns the logits of the token after each of `ids`, which follow the tokens in the state.
    ///
    /// # Shapes
    /// `ids` (new tokens,) in the sequences of `offsets` → (new tokens, vocabulary).
    ///
    /// # Errors
    /// If an id or a length exceeds the model's limits.
    pub fn step<T: Real>(
        &self,
        p: &Params<T>,
        ids: &[u32],
        offsets: &Offsets,
        state: &mut LanguageModelState<T>,
    ) -> Result<Array2<T>> {
        in_pool(|| {
            let y = self.step_vectors(p, ids, offsets, state)?;
            self.output_layer().logits(p, y.view())
        })
    }

    /// Like [`LanguageModel::step`], but only for the last new token of each sequence: (sequences with new tokens,
    /// vocabulary).
    ///
    /// # Errors
    /// If an id or a length exceeds the model's limits.
    pub fn step_last<T: Real>(
        &self,
        p: &Params<T>,
        ids: &[u32],
        offsets: &Offsets,
        state: &mut LanguageModelState<T>,
    ) -> Result<Array2<T>> {
        in_pool(|| {
            let y = self.step_vectors(p, ids, offsets, state)?;
            self.output_layer().logits(p, last_rows(&y, offsets).view())
        })
    }

    fn step_vectors<T: Real>(
        &self,
        p: &Params<T>,
        ids: &[u32],
        offsets: &Offsets,
        LanguageModelState { key_value_caches: keys_and_values, lengths }: &mut LanguageModelState<T>,
    ) -> Result<Array2<T>> {
        let y = self.backbone.step(p, Tokens::new(ids, offsets), lengths, keys_and_values)?;
        lengths.iter_mut().zip(offsets.ranges()).for_each(|(length, range)| *length += range.len());
        Ok(y)
    }
}

/// Returns the last row of each non-empty sequence.
pub(super) fn last_rows<T: Real>(x: &Array2<T>, offsets: &Offsets) -> Array2<T> {
    let last: Vec<usize> = offsets.ranges().filter(|range| !range.is_empty()).map(|range| range.end - 1).collect();
    x.select(Axis(0), &last)
}
