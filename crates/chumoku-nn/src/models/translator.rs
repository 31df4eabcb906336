//! The transformer as published: an encoder reads the source, a decoder writes the target (Vaswani et al. 2017).

use crate::Result;
use crate::layers::{
    AttentionRecord, Decoder, DecoderInput, DecoderState, Embedding, Encoder, EncoderConfig, Memory, Mode,
    MultiHeadAttention, Offsets, Position, PositionKind,
};
use crate::params::{Builder, Layout, Params};
use chumoku_kernels::Real;
use ndarray::{Array2, Array3, Axis};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The sizes and options of a [`Translator`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TranslatorConfig {
    /// Number of the source's token ids.
    pub source_vocab_size: usize,
    /// Number of the target's token ids.
    pub target_vocab_size: usize,
    /// Whether both sides have one vocabulary, embedded by one table.
    pub joint_vocabulary: bool,
    /// The encoder; the decoder has the same sizes and options.
    #[serde(flatten)]
    pub encoder: EncoderConfig,
    /// Number of the decoder's layers.
    pub num_decoder_layers: usize,
    /// Positional encoding of both sides.
    pub position: PositionKind,
    /// The longest source and target, in tokens.
    pub max_length: usize,
    /// Dropout of the embeddings.
    pub embedding_dropout: f32,
}

/// An attention of a [`Translator`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TranslatorPart {
    /// The encoder's, over the source.
    Encoder,
    /// The decoder's, over the target so far.
    Decoder,
    /// The decoder's, over the source.
    Cross,
}

/// Sentences and their translations as tokens, packed.
#[derive(Clone, Debug, Default)]
pub struct PairBatch {
    /// The sources' tokens.
    pub source: Vec<u32>,
    /// Tokens of each source.
    pub source_lengths: Vec<usize>,
    /// What the decoder is given: each target after the token that starts it.
    pub input: Vec<u32>,
    /// What it is to say: each target before the token that ends it.
    pub output: Vec<u32>,
    /// Tokens of each target, its end included.
    pub target_lengths: Vec<usize>,
}

impl PairBatch {
    /// Adds a pair; `boundary` starts and ends the target.
    pub fn push(&mut self, source: &[u32], target: &[u32], boundary: u32) {
        self.source.extend(source);
        self.source_lengths.push(source.len());
        self.input.push(boundary);
        self.input.extend(target);
        self.output.extend(target);
        self.output.push(boundary);
        self.target_lengths.push(target.len() + 1);
    }
}

/// The model: its parts, and where their parameters lie. The output layer's weight is the target's embedding.
#[derive(Clone, Debug)]
pub struct Translator {
    config: TranslatorConfig,
    layout: Arc<Layout>,
    source_embedding: Embedding,
    target_embedding: Embedding,
    source_position: Position,
    target_position: Position,
    encoder: Encoder,
    decoder: Decoder,
}

/// What a [`Translator`] keeps from step to step.
#[derive(Clone, Debug)]
pub struct TranslatorState<T: Real> {
    decoder: DecoderState<T>,
    /// Tokens of each sequence so far.
    lengths: Vec<usize>,
}

const SOURCE_SITE: u32 = 0;
const TARGET_SITE: u32 = 1;

impl Translator {
    /// The model of a configuration; its parameters are made by [`Params::init`] from its [`Translator::layout`].
    ///
    /// # Errors
    /// If the heads do not divide d_model.
    pub fn new(config: TranslatorConfig) -> Result<Self> {
        let mut builder = Builder::new();
        let (d_model, length) = (config.encoder.d_model, config.max_length);
        let target = builder.scope("embedding", |b| Embedding::new(b, config.target_vocab_size, d_model));
        let source = match config.joint_vocabulary {
            true => target.clone(),
            false => builder.scope("source_embedding", |b| Embedding::new(b, config.source_vocab_size, d_model)),
        };
        let source_position = builder.scope("source_position", |b| Position::new(b, config.position, length, d_model));
        let target_position = builder.scope("position", |b| Position::new(b, config.position, length, d_model));
        let mut layers = config.encoder.clone();
        layers.attention.position = config.position;
        let encoder = builder.scope("encoder", |b| Encoder::new(b, &layers))?;
        layers.num_layers = config.num_decoder_layers;
        let decoder = builder.scope("decoder", |b| Decoder::new(b, &layers))?;
        Ok(Translator {
            config,
            layout: builder.finish(),
            source_embedding: source,
            target_embedding: target,
            source_position,
            target_position,
            encoder,
            decoder,
        })
    }

    /// The configuration.
    pub fn config(&self) -> &TranslatorConfig {
        &self.config
    }

    /// Names and places of the parameters.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The mean loss of a batch's target tokens and, in training, its gradient, which is added to `grads`.
    ///
    /// # Errors
    /// If the batch is empty, an id or a length is beyond the model's, or the shapes do not fit.
    pub fn loss<T: Real>(
        &self,
        p: &Params<T>,
        batch: &PairBatch,
        label_smoothing: T,
        mode: Mode,
        grads: Option<&mut Params<T>>,
    ) -> Result<f64> {
        let rate = self.config.embedding_dropout;
        let source_offsets = Offsets::of_lengths(batch.source_lengths.iter().copied());
        let target_offsets = Offsets::of_lengths(batch.target_lengths.iter().copied());

        let mut x = self.source_embedding.forward(p, &batch.source)?;
        self.source_position.forward(p, &mut x, &source_offsets)?;
        mode.drop(&mut x, rate, SOURCE_SITE)?;
        let (memory, of_encoder) = self.encoder.forward(p, x, &source_offsets, mode)?;
        let memory = Memory { output: memory.view(), offsets: &source_offsets };
        let input = DecoderInput { offsets: &target_offsets, memory };

        let mut x = self.target_embedding.forward(p, &batch.input)?;
        self.target_position.forward(p, &mut x, &target_offsets)?;
        mode.drop(&mut x, rate, TARGET_SITE)?;
        let (y, of_decoder) = self.decoder.forward(p, x, input, mode)?;
        let Some(grads) = grads else {
            return Ok(self.target_embedding.loss(p, y.view(), &batch.output, label_smoothing, None)?.0);
        };
        let (loss, dy) = self.target_embedding.loss(p, y.view(), &batch.output, label_smoothing, Some(&mut *grads))?;

        let [mut dx, d_memory] = self.decoder.backward(p, &of_decoder, input, dy, mode, grads)?;
        mode.drop(&mut dx, rate, TARGET_SITE)?;
        self.target_position.backward(dx.view(), &target_offsets, grads);
        self.target_embedding.backward(&batch.input, dx.view(), grads)?;

        let mut dx = self.encoder.backward(p, &of_encoder, &source_offsets, d_memory, mode, grads)?;
        mode.drop(&mut dx, rate, SOURCE_SITE)?;
        self.source_position.backward(dx.view(), &source_offsets, grads);
        self.source_embedding.backward(&batch.source, dx.view(), grads)?;
        Ok(loss)
    }

    /// What the decoder attends to: (source tokens, d_model).
    ///
    /// # Errors
    /// If an id or a length is beyond the model's.
    pub fn encode<T: Real>(&self, p: &Params<T>, source: &[u32], offsets: &Offsets) -> Result<Array2<T>> {
        let mut x = self.source_embedding.forward(p, source)?;
        self.source_position.forward(p, &mut x, offsets)?;
        self.encoder.apply(p, x, offsets)
    }

    /// The start of decoding against what [`Translator::encode`] made, with room for `capacity` tokens of each target.
    ///
    /// # Errors
    /// If the shapes do not fit, or the memory cannot be had.
    pub fn start<T: Real>(&self, p: &Params<T>, memory: Memory<'_, T>, capacity: usize) -> Result<TranslatorState<T>> {
        let lengths = vec![0; memory.offsets.sequences()];
        Ok(TranslatorState { decoder: self.decoder.start(p, memory, capacity)?, lengths })
    }

    /// The logits of the token after each of `ids`, one new token of each sequence; `of_source` counts the sequences of
    /// each source, which lie side by side.
    ///
    /// # Shapes
    /// `ids` (sequences,) → (sequences, target vocabulary).
    ///
    /// # Errors
    /// If an id or a length is beyond the model's, or the counts do not fit.
    pub fn step<T: Real>(
        &self,
        p: &Params<T>,
        ids: &[u32],
        of_source: &[usize],
        state: &mut TranslatorState<T>,
    ) -> Result<Array2<T>> {
        let offsets = Offsets::of_lengths(ids.iter().map(|_| 1));
        let sources = Offsets::of_lengths(of_source.iter().copied());
        let mut x = self.target_embedding.forward(p, ids)?;
        self.target_position.forward_at(p, &mut x, &offsets, &state.lengths)?;
        let y = self.decoder.step(p, x, [&offsets, &sources], &mut state.decoder)?;
        state.lengths.iter_mut().for_each(|length| *length += 1);
        self.target_embedding.logits(p, y.view())
    }

    /// The logits of every target token of a batch, with all tokens at once: (target tokens, target vocabulary).
    ///
    /// # Errors
    /// If an id or a length is beyond the model's, or the shapes do not fit.
    pub fn logits<T: Real>(&self, p: &Params<T>, batch: &PairBatch) -> Result<Array2<T>> {
        let source_offsets = Offsets::of_lengths(batch.source_lengths.iter().copied());
        let target_offsets = Offsets::of_lengths(batch.target_lengths.iter().copied());
        let memory = self.encode(p, &batch.source, &source_offsets)?;
        let memory = Memory { output: memory.view(), offsets: &source_offsets };
        let input = DecoderInput { offsets: &target_offsets, memory };
        let mut x = self.target_embedding.forward(p, &batch.input)?;
        self.target_position.forward(p, &mut x, &target_offsets)?;
        let (y, _) = self.decoder.forward(p, x, input, Mode::Eval)?;
        self.target_embedding.logits(p, y.view())
    }

    /// What an attention of a layer is given and makes when the model reads one pair.
    ///
    /// # Errors
    /// If an id or a length is beyond the model's.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn record<T: Real>(
        &self,
        p: &Params<T>,
        pair: &PairBatch,
        part: TranslatorPart,
        layer: usize,
    ) -> Result<AttentionRecord> {
        let source_offsets = Offsets::of_lengths(pair.source_lengths.iter().copied());
        let target_offsets = Offsets::of_lengths(pair.target_lengths.iter().copied());
        let mut x = self.source_embedding.forward(p, &pair.source)?;
        self.source_position.forward(p, &mut x, &source_offsets)?;
        let (memory, cache) = self.encoder.forward(p, x, &source_offsets, Mode::Eval)?;
        if part == TranslatorPart::Encoder {
            return self.encoder.record(p, &cache, &source_offsets, layer);
        }
        let memory = Memory { output: memory.view(), offsets: &source_offsets };
        let input = DecoderInput { offsets: &target_offsets, memory };
        let mut x = self.target_embedding.forward(p, &pair.input)?;
        self.target_position.forward(p, &mut x, &target_offsets)?;
        let (_, cache) = self.decoder.forward(p, x, input, Mode::Eval)?;
        self.decoder.record(p, &cache, input, (layer, part == TranslatorPart::Cross))
    }

    /// The attention of a decoder's layer to the source.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn cross_attention(&self, layer: usize) -> &MultiHeadAttention {
        self.decoder.layers()[layer].cross_attention()
    }

    /// Where each target token of one pair looks in the source, for each layer of the decoder: (heads, target tokens,
    /// source tokens) each, rows summing to 1.
    ///
    /// # Errors
    /// If an id or a length is beyond the model's.
    pub fn alignment<T: Real>(&self, p: &Params<T>, pair: &PairBatch) -> Result<Vec<Array3<T>>> {
        let source_offsets = Offsets::of_lengths(pair.source_lengths.iter().copied());
        let target_offsets = Offsets::of_lengths(pair.target_lengths.iter().copied());
        let memory = self.encode(p, &pair.source, &source_offsets)?;
        let memory = Memory { output: memory.view(), offsets: &source_offsets };
        let input = DecoderInput { offsets: &target_offsets, memory };
        let mut x = self.target_embedding.forward(p, &pair.input)?;
        self.target_position.forward(p, &mut x, &target_offsets)?;
        let (_, cache) = self.decoder.forward(p, x, input, Mode::Eval)?;
        let of_layer = |layer: usize| {
            let heads = (0..self.config.encoder.num_heads)
                .map(|head| self.decoder.weights(&cache, input, [layer, 0, head]))
                .collect::<Result<Vec<_>>>()?;
            let views: Vec<_> = heads.iter().map(|head| head.view()).collect();
            Ok(ndarray::stack(Axis(0), &views).expect("the heads of a layer have one shape"))
        };
        (0..self.config.num_decoder_layers).map(of_layer).collect()
    }
}

impl<T: Real> TranslatorState<T> {
    /// Sequence `sequences[i]` becomes sequence i, and source `sources[i]` source i; one may be named more than once, and
    /// those not named are dropped.
    ///
    /// # Errors
    /// If there is no such sequence or source.
    pub fn select(&mut self, sequences: &[usize], sources: &[usize]) -> Result<()> {
        self.decoder.select(sequences, sources)?;
        self.lengths = sequences.iter().map(|&s| self.lengths[s]).collect();
        Ok(())
    }
}
