//! A language model: a causal encoder that says which token comes next (Radford et al. 2018).

use crate::Result;
use crate::layers::{
    AttentionRecord, Embedding, Encoder, EncoderConfig, Mode, MultiHeadAttention, Offsets, Position, PositionKind,
};
use crate::params::{Builder, Layout, Params};
use chumoku_kernels::{KeyValueCache, Real};
use ndarray::{Array2, Axis};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The sizes and options of a [`LanguageModel`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LanguageModelConfig {
    /// Number of token ids.
    pub vocab_size: usize,
    /// The encoder; it is causal.
    #[serde(flatten)]
    pub encoder: EncoderConfig,
    /// Positional encoding.
    pub position: PositionKind,
    /// The context: tokens that are seen at a time.
    pub max_length: usize,
    /// Dropout of the embeddings.
    pub embedding_dropout: f32,
}

/// The model: its parts, and where their parameters lie. The output layer's weight is the embedding.
#[derive(Clone, Debug)]
pub struct LanguageModel {
    config: LanguageModelConfig,
    layout: Arc<Layout>,
    embedding: Embedding,
    position: Position,
    encoder: Encoder,
}

/// What a [`LanguageModel`] keeps from step to step.
#[derive(Clone, Debug)]
pub struct LanguageModelState<T: Real> {
    /// Of each layer.
    keys_and_values: Vec<KeyValueCache<T>>,
    /// Tokens of each sequence so far.
    lengths: Vec<usize>,
}

const EMBEDDING_SITE: u32 = 0;

impl LanguageModel {
    /// The model of a configuration; its parameters are made by [`Params::init`] from its [`LanguageModel::layout`].
    ///
    /// # Errors
    /// If the heads do not divide d_model.
    pub fn new(mut config: LanguageModelConfig) -> Result<Self> {
        config.encoder.causal = true;
        let mut builder = Builder::new();
        let d_model = config.encoder.d_model;
        let embedding = builder.scope("embedding", |b| Embedding::new(b, config.vocab_size, d_model));
        let position = builder.scope("position", |b| Position::new(b, config.position, config.max_length, d_model));
        let mut encoder = config.encoder.clone();
        encoder.attention.position = config.position;
        let encoder = builder.scope("encoder", |b| Encoder::new(b, &encoder))?;
        Ok(LanguageModel { config, layout: builder.finish(), embedding, position, encoder })
    }

    /// The configuration.
    pub fn config(&self) -> &LanguageModelConfig {
        &self.config
    }

    /// Names and places of the parameters.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The mean loss of the tokens `next`, each following the one of `ids` at its place, and, in training, its
    /// gradient, which is added to `grads`.
    ///
    /// The sequences of `offsets` do not see each other.
    ///
    /// # Shapes
    /// `ids`, `next` (tokens,).
    ///
    /// # Errors
    /// If there are no tokens, or an id or a length is beyond the model's.
    pub fn loss<T: Real>(
        &self,
        p: &Params<T>,
        [ids, next]: [&[u32]; 2],
        offsets: &Offsets,
        mode: Mode,
        grads: Option<&mut Params<T>>,
    ) -> Result<f64> {
        let rate = self.config.embedding_dropout;
        let mut x = self.embedding.forward(p, ids)?;
        self.position.forward(p, &mut x, offsets)?;
        mode.drop(&mut x, rate, EMBEDDING_SITE)?;
        let (y, of_encoder) = self.encoder.forward(p, x, offsets, mode)?;
        let Some(grads) = grads else { return Ok(self.embedding.loss(p, y.view(), next, T::ZERO, None)?.0) };
        let (loss, dy) = self.embedding.loss(p, y.view(), next, T::ZERO, Some(&mut *grads))?;
        let mut dx = self.encoder.backward(p, &of_encoder, offsets, dy, mode, grads)?;
        mode.drop(&mut dx, rate, EMBEDDING_SITE)?;
        self.position.backward(dx.view(), offsets, grads);
        self.embedding.backward(ids, dx.view(), grads)?;
        Ok(loss)
    }

    /// The logits of the token after each of `ids`, with all tokens at once: (tokens, vocabulary).
    ///
    /// # Errors
    /// If an id or a length is beyond the model's.
    pub fn logits<T: Real>(&self, p: &Params<T>, ids: &[u32], offsets: &Offsets) -> Result<Array2<T>> {
        let mut x = self.embedding.forward(p, ids)?;
        self.position.forward(p, &mut x, offsets)?;
        let y = self.encoder.apply(p, x, offsets)?;
        self.embedding.logits(p, y.view())
    }

    /// What the attention of a layer is given and makes when the model reads one sequence.
    ///
    /// # Errors
    /// If an id or the length is beyond the model's.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn record<T: Real>(&self, p: &Params<T>, ids: &[u32], layer: usize) -> Result<AttentionRecord> {
        let offsets = Offsets::of_lengths([ids.len()]);
        let mut x = self.embedding.forward(p, ids)?;
        self.position.forward(p, &mut x, &offsets)?;
        let (_, cache) = self.encoder.forward(p, x, &offsets, Mode::Eval)?;
        self.encoder.record(p, &cache, &offsets, layer)
    }

    /// The same for every layer in turn, the model reading once.
    ///
    /// # Errors
    /// If an id or the length is beyond the model's.
    pub fn each_record<T: Real>(
        &self,
        p: &Params<T>,
        ids: &[u32],
        each: &mut dyn FnMut(&AttentionRecord),
    ) -> Result<()> {
        let offsets = Offsets::of_lengths([ids.len()]);
        let mut x = self.embedding.forward(p, ids)?;
        self.position.forward(p, &mut x, &offsets)?;
        let (_, cache) = self.encoder.forward(p, x, &offsets, Mode::Eval)?;
        self.encoder.each_record(p, &cache, &offsets, each)
    }

    /// The attention of a layer.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn attention(&self, layer: usize) -> &MultiHeadAttention {
        self.encoder.layers()[layer].attention()
    }

    /// The logits of the token after each sequence: (sequences, vocabulary).
    ///
    /// # Errors
    /// If an id or a length is beyond the model's, or a sequence is empty.
    pub fn next_logits<T: Real>(&self, p: &Params<T>, ids: &[u32], offsets: &Offsets) -> Result<Array2<T>> {
        let mut x = self.embedding.forward(p, ids)?;
        self.position.forward(p, &mut x, offsets)?;
        let y = self.encoder.apply(p, x, offsets)?;
        let last: Vec<usize> = offsets.ranges().filter(|range| !range.is_empty()).map(|range| range.end - 1).collect();
        self.embedding.logits(p, y.select(Axis(0), &last).view())
    }

    /// The start of so many sequences.
    ///
    /// # Errors
    /// If the memory cannot be had.
    pub fn start<T: Real>(&self, sequences: usize) -> Result<LanguageModelState<T>> {
        let keys_and_values = self.encoder.key_value_caches(sequences, self.config.max_length)?;
        Ok(LanguageModelState { keys_and_values, lengths: vec![0; sequences] })
    }

    /// The logits of the token after each of `ids`, which follow those that the state has seen.
    ///
    /// # Shapes
    /// `ids` (new tokens,) in the sequences of `offsets` → (new tokens, vocabulary).
    ///
    /// # Errors
    /// If an id or a length is beyond the model's.
    pub fn step<T: Real>(
        &self,
        p: &Params<T>,
        ids: &[u32],
        offsets: &Offsets,
        state: &mut LanguageModelState<T>,
    ) -> Result<Array2<T>> {
        let mut x = self.embedding.forward(p, ids)?;
        self.position.forward_at(p, &mut x, offsets, &state.lengths)?;
        let y = self.encoder.step(p, x, offsets, &mut state.keys_and_values)?;
        state.lengths.iter_mut().zip(offsets.ranges()).for_each(|(length, range)| *length += range.len());
        self.embedding.logits(p, y.view())
    }
}
