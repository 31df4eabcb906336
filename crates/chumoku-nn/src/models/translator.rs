//! The transformer of the original paper: an encoder reads the source, a decoder writes the target (Vaswani et al.
//! 2017).

use super::language_model::last_rows;
use super::residual_reader::{LayerStack, ReadOut, ResidualReader};
use crate::Result;
use crate::layers::{
    AttentionTrace, BackwardTrace, Decoder, DecoderCache, DecoderInput, DecoderState, Embedding, EmbeddingTrace,
    Encoder, EncoderCache, EncoderConfig, Linear, Memory, Mode, MultiHeadAttention, Offsets, Pooling, PoolingCache,
    PositionEncoding, PositionKind,
};
use crate::params::{Builder, ParamLayout, Params};
use chumoku_kernels::Real;
use chumoku_kernels::parallel::in_pool;
use ndarray::{Array2, Array3, ArrayView2, Axis};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The sizes and options of a [`Translator`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TranslatorConfig {
    /// Size of the source vocabulary.
    pub source_vocab_size: usize,
    /// Size of the target vocabulary.
    pub target_vocab_size: usize,
    /// True if both sides share one vocabulary and one embedding table.
    pub joint_vocabulary: bool,
    /// The encoder. The decoder has the same sizes and options unless `options` says otherwise.
    #[serde(flatten)]
    pub encoder: EncoderConfig,
    /// Number of the decoder's layers.
    pub num_decoder_layers: usize,
    /// Positional encoding on both sides.
    pub position: PositionKind,
    /// The longest source and target, in tokens.
    pub max_length: usize,
    /// Dropout of the embeddings.
    pub embedding_dropout: f32,
    /// Options of the decoder and the output layer.
    #[serde(flatten)]
    pub options: TranslatorOptions,
}

/// Variants of a [`Translator`], in its configuration. Omitted options follow the original paper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TranslatorOptions {
    /// Heads of each attention of the decoder; same as in the encoder by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decoder_num_heads: Option<usize>,
    /// Width inside the decoder's feed-forward networks; same as in the encoder by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decoder_d_ff: Option<usize>,
    /// Adds a trained bias to the logit of each token.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub output_bias: bool,
    /// Width of the bottleneck of an autoencoder: all that the decoder sees of a source. None by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<usize>,
    /// Adds sinusoidal positions to the embeddings of both sides if the model's positions act only inside
    /// self-attention, as rotary ones do. Cross-attention can then find a token by its position.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub absolute_positions: bool,
}

impl TranslatorConfig {
    /// Returns the sizes and options of the decoder's layers.
    pub fn decoder(&self) -> EncoderConfig {
        EncoderConfig {
            num_layers: self.num_decoder_layers,
            num_heads: self.decoder_num_heads(),
            d_ff: self.options.decoder_d_ff.unwrap_or(self.encoder.d_ff),
            ..self.encoder.clone()
        }
    }

    /// Returns the positional encoding that is added to the embeddings.
    fn embedding_position(&self) -> PositionKind {
        match self.options.absolute_positions && !self.position.is_added() {
            true => PositionKind::Sinusoidal,
            false => self.position,
        }
    }

    /// Returns the number of heads of each attention of the decoder.
    pub fn decoder_num_heads(&self) -> usize {
        self.options.decoder_num_heads.unwrap_or(self.encoder.num_heads)
    }
}

/// One of the attentions of a [`Translator`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TranslatorAttention {
    /// The encoder's self-attention over the source.
    Encoder,
    /// The decoder's self-attention over the target so far.
    Decoder,
    /// The decoder's cross-attention over the source.
    Cross,
}

/// A batch of sentences and their translations as packed tokens.
#[derive(Clone, Debug, Default)]
pub struct TranslationBatch {
    /// The source tokens.
    pub source: Vec<u32>,
    /// Number of tokens of each source.
    pub source_lengths: Vec<usize>,
    /// The decoder's input: each target after its start token.
    pub input: Vec<u32>,
    /// The decoder's expected output: each target followed by its end token.
    pub output: Vec<u32>,
    /// Number of tokens of each target, including its end token.
    pub target_lengths: Vec<usize>,
}

impl TranslationBatch {
    /// Adds a pair; `boundary` is both the start and the end token of the target.
    pub fn push(&mut self, source: &[u32], target: &[u32], boundary: u32) {
        self.push_with_boundaries(source, target, [boundary; 2]);
    }

    /// Adds a pair whose target has separate start and end tokens.
    pub fn push_with_boundaries(&mut self, source: &[u32], target: &[u32], [start, end]: [u32; 2]) {
        self.source.extend(source);
        self.source_lengths.push(source.len());
        self.input.push(start);
        self.input.extend(target);
        self.output.extend(target);
        self.output.push(end);
        self.target_lengths.push(target.len() + 1);
    }

    /// Returns the offsets of the sources and of the targets.
    fn offsets(&self) -> [Offsets; 2] {
        [&self.source_lengths, &self.target_lengths].map(|lengths| Offsets::from_lengths(lengths.iter().copied()))
    }
}

/// The model: its layers, and the layout of their parameters. The output layer's weight is the target embedding.
#[derive(Clone, Debug)]
pub struct Translator {
    config: TranslatorConfig,
    layout: Arc<ParamLayout>,
    source_embedding: Embedding,
    target_embedding: Embedding,
    source_position: PositionEncoding,
    target_position: PositionEncoding,
    encoder: Encoder,
    bottleneck: Option<Bottleneck>,
    decoder: Decoder,
}

/// The cache of a [`Translator`]'s forward pass.
#[derive(Clone, Debug)]
pub struct TranslatorCache<T> {
    /// The decoder's memory: the output of the encoder, or of the bottleneck.
    memory: Array2<T>,
    encoder: EncoderCache<T>,
    bottleneck: Option<BottleneckCache<T>>,
    decoder: DecoderCache<T>,
}

/// The bottleneck of an autoencoder: the mean of the encoder's output, an affine map to the code, and one back to
/// d_model.
#[derive(Clone, Debug)]
struct Bottleneck {
    down: Linear,
    up: Linear,
}

/// The cache of a [`Bottleneck`]'s forward pass.
#[derive(Clone, Debug)]
struct BottleneckCache<T> {
    pooling: PoolingCache,
    /// The mean over the tokens of each source.
    mean: Array2<T>,
    /// The code of each source.
    code: Array2<T>,
}

impl Bottleneck {
    const POOLING: Pooling = Pooling::Mean;

    fn new(builder: &mut Builder, d_model: usize, width: usize) -> Bottleneck {
        let down = builder.scope("down", |b| Linear::new(b, d_model, width, true));
        Bottleneck { down, up: builder.scope("up", |b| Linear::new(b, width, d_model, true)) }
    }

    /// Returns one vector per source, and the cache for `backward`.
    ///
    /// # Shapes
    /// `x` (source tokens, d_model) → (sources, d_model).
    fn forward<T: Real>(
        &self,
        p: &Params<T>,
        x: ArrayView2<'_, T>,
        offsets: &Offsets,
    ) -> Result<(Array2<T>, BottleneckCache<T>)> {
        let (mean, pooling) = Bottleneck::POOLING.forward(x, offsets);
        let code = self.down.forward(p, mean.view())?;
        let y = self.up.forward(p, code.view())?;
        Ok((y, BottleneckCache { pooling, mean, code }))
    }

    /// Returns the gradient of x and adds those of the parameters to `grads`.
    fn backward<T: Real>(
        &self,
        p: &Params<T>,
        cache: &BottleneckCache<T>,
        offsets: &Offsets,
        dy: ArrayView2<'_, T>,
        grads: &mut Params<T>,
    ) -> Result<Array2<T>> {
        // y = up(code), code = down(mean)
        let d_code = self.up.backward(p, cache.code.view(), dy, grads)?;
        let d_mean = self.down.backward(p, cache.mean.view(), d_code.view(), grads)?;
        Ok(Bottleneck::POOLING.backward(&cache.pooling, offsets, d_mean.view()))
    }
}

/// The memory of the decoder, with the sequences that attend to it.
struct DecoderContext<'a, T> {
    memory: Array2<T>,
    memory_offsets: Offsets,
    target_offsets: &'a Offsets,
}

impl<T> DecoderContext<'_, T> {
    fn input(&self) -> DecoderInput<'_, T> {
        let memory = Memory { output: self.memory.view(), offsets: &self.memory_offsets };
        DecoderInput { offsets: self.target_offsets, memory }
    }
}

/// The state of a [`Translator`] during step-by-step decoding.
#[derive(Clone, Debug)]
pub struct TranslatorState<T: Real> {
    decoder: DecoderState<T>,
    /// Number of tokens of each sequence so far.
    lengths: Vec<usize>,
}

const SOURCE_DROPOUT_SITE: u32 = 0;
const TARGET_DROPOUT_SITE: u32 = 1;

impl Translator {
    /// Builds the model of a configuration. Its parameters come from [`Params::init`] from its [`Translator::layout`].
    ///
    /// # Errors
    /// If the heads do not divide d_model.
    pub fn new(config: TranslatorConfig) -> Result<Self> {
        let mut builder = Builder::new();
        let (d_model, length) = (config.encoder.d_model, config.max_length);
        let mut target = builder.scope("embedding", |b| Embedding::new(b, config.target_vocab_size, d_model));
        if config.options.output_bias {
            target = target.with_output_bias(&mut builder, config.target_vocab_size);
        }
        let source = match config.joint_vocabulary {
            true => target.clone(),
            false => builder.scope("source_embedding", |b| Embedding::new(b, config.source_vocab_size, d_model)),
        };
        let position = config.embedding_position();
        let source_position = builder.scope("source_position", |b| PositionEncoding::new(b, position, length, d_model));
        let target_position = builder.scope("position", |b| PositionEncoding::new(b, position, length, d_model));
        let mut layers = config.encoder.clone();
        layers.attention.position = config.position;
        let encoder = builder.scope("encoder", |b| Encoder::new(b, &layers))?;
        let new_bottleneck = |width| builder.scope("bottleneck", |b| Bottleneck::new(b, d_model, width));
        let bottleneck = config.options.bottleneck.map(new_bottleneck);
        layers = EncoderConfig { attention: layers.attention, ..config.decoder() };
        let decoder = builder.scope("decoder", |b| Decoder::new(b, &layers))?;
        Ok(Translator {
            config,
            layout: builder.finish(),
            source_embedding: source,
            target_embedding: target,
            source_position,
            target_position,
            encoder,
            bottleneck,
            decoder,
        })
    }

    /// The configuration.
    pub fn config(&self) -> &TranslatorConfig {
        &self.config
    }

    /// The names, shapes and offsets of the parameters.
    pub fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }

    /// Returns the mean loss of a batch's target tokens. In training, adds its gradient to `grads`.
    ///
    /// # Errors
    /// If the batch is empty, an id or a length exceeds the model's limits, or the shapes do not match.
    pub fn loss<T: Real>(
        &self,
        p: &Params<T>,
        batch: &TranslationBatch,
        label_smoothing: T,
        mode: Mode,
        grads: Option<&mut Params<T>>,
    ) -> Result<f64> {
        let (y, cache) = self.forward(p, batch, mode)?;
        let Some(grads) = grads else {
            return Ok(self.target_embedding.loss(p, y.view(), &batch.output, label_smoothing, None)?.0);
        };
        let (loss, dy) = self.target_embedding.loss(p, y.view(), &batch.output, label_smoothing, Some(&mut *grads))?;
        self.backward(p, batch, &cache, dy, mode, grads)?;
        Ok(loss)
    }

    /// Returns the decoder's output for each target token, from which the logits follow, and the cache for `backward`.
    ///
    /// # Shapes
    /// → (target tokens, d_model).
    ///
    /// # Errors
    /// If an id or a length exceeds the model's limits, or the shapes do not match.
    pub fn forward<T: Real>(
        &self,
        p: &Params<T>,
        batch: &TranslationBatch,
        mode: Mode,
    ) -> Result<(Array2<T>, TranslatorCache<T>)> {
        let rate = self.config.embedding_dropout;
        let [source_offsets, target_offsets] = batch.offsets();
        let mut x = self.embed_source(p, &batch.source, &source_offsets)?;
        mode.apply_dropout(&mut x, rate, SOURCE_DROPOUT_SITE)?;
        let (x, encoder) = self.encoder.forward(p, x, &source_offsets, mode)?;
        let (memory, bottleneck) = self.memory(p, x, &source_offsets)?;
        let context = self.decoder_context(memory, [&source_offsets, &target_offsets]);
        let mut x = self.embed_target(p, &batch.input, &target_offsets)?;
        mode.apply_dropout(&mut x, rate, TARGET_DROPOUT_SITE)?;
        let (y, decoder) = self.decoder.forward(p, x, context.input(), mode)?;
        Ok((y, TranslatorCache { memory: context.memory, encoder, bottleneck, decoder }))
    }

    /// Returns the memory of the decoder, given the encoder's output, and the cache of the bottleneck, if there is one.
    fn memory<T: Real>(
        &self,
        p: &Params<T>,
        encoded: Array2<T>,
        offsets: &Offsets,
    ) -> Result<(Array2<T>, Option<BottleneckCache<T>>)> {
        let Some(bottleneck) = &self.bottleneck else { return Ok((encoded, None)) };
        let (memory, cache) = bottleneck.forward(p, encoded.view(), offsets)?;
        Ok((memory, Some(cache)))
    }

    /// Returns the offsets of the decoder's memory: those of the sources, or one vector each after a bottleneck.
    pub fn memory_offsets(&self, sources: &Offsets) -> Offsets {
        match self.bottleneck {
            None => sources.clone(),
            Some(_) => Offsets::from_lengths((0..sources.sequences()).map(|_| 1)),
        }
    }

    /// Adds the gradients of all parameters except those of the output layer to `grads`.
    ///
    /// # Shapes
    /// `dy` (target tokens, d_model).
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn backward<T: Real>(
        &self,
        p: &Params<T>,
        batch: &TranslationBatch,
        cache: &TranslatorCache<T>,
        dy: Array2<T>,
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<()> {
        let rate = self.config.embedding_dropout;
        let [source_offsets, target_offsets] = batch.offsets();
        let memory_offsets = self.memory_offsets(&source_offsets);
        let memory = Memory { output: cache.memory.view(), offsets: &memory_offsets };
        let input = DecoderInput { offsets: &target_offsets, memory };
        let [mut dx, d_memory] = self.decoder.backward(p, &cache.decoder, input, dy, mode, grads)?;
        mode.apply_dropout(&mut dx, rate, TARGET_DROPOUT_SITE)?;
        self.target_position.backward(dx.view(), &target_offsets, grads);
        self.target_embedding.backward(&batch.input, dx.view(), grads)?;

        let d_encoded = self.memory_backward(p, cache, &source_offsets, d_memory, grads)?;
        let mut dx = self.encoder.backward(p, &cache.encoder, &source_offsets, d_encoded, mode, grads)?;
        mode.apply_dropout(&mut dx, rate, SOURCE_DROPOUT_SITE)?;
        self.source_position.backward(dx.view(), &source_offsets, grads);
        self.source_embedding.backward(&batch.source, dx.view(), grads)
    }

    /// Returns the gradient of the encoder's output, given that of the decoder's memory.
    fn memory_backward<T: Real>(
        &self,
        p: &Params<T>,
        cache: &TranslatorCache<T>,
        offsets: &Offsets,
        d_memory: Array2<T>,
        grads: &mut Params<T>,
    ) -> Result<Array2<T>> {
        match (&self.bottleneck, &cache.bottleneck) {
            (Some(bottleneck), Some(cache)) => bottleneck.backward(p, cache, offsets, d_memory.view(), grads),
            _ => Ok(d_memory),
        }
    }

    /// Returns the input of each layer of the encoder and of the decoder, followed by the output of each side.
    ///
    /// # Shapes
    /// (source tokens, d_model) each, and (target tokens, d_model) each.
    ///
    /// # Errors
    /// If an id or a length exceeds the model's limits, or the shapes do not match.
    pub fn hidden_states<T: Real>(&self, p: &Params<T>, batch: &TranslationBatch) -> Result<[Vec<Array2<T>>; 2]> {
        let [source_offsets, target_offsets] = batch.offsets();
        let x = self.embed_source(p, &batch.source, &source_offsets)?;
        let of_encoder = self.encoder.hidden_states(p, x, &source_offsets)?;
        let context = self.context_of_batch(p, batch, [&source_offsets, &target_offsets])?;
        let mut x = self.embed_target(p, &batch.input, &target_offsets)?;
        let mut of_decoder = vec![x.clone()];
        for layer in self.decoder.layers() {
            x = layer.forward(p, x, context.input(), Mode::Eval)?.0;
            of_decoder.push(x.clone());
        }
        if let Some(last) = of_decoder.last_mut() {
            *last = self.forward(p, batch, Mode::Eval)?.0;
        }
        Ok([of_encoder, of_decoder])
    }

    /// Returns the memory of the decoder: the encoder's output, (source tokens, d_model), or after a bottleneck one
    /// vector per source, (sources, d_model). [`Translator::memory_offsets`] returns its offsets.
    ///
    /// # Errors
    /// If an id or a length exceeds the model's limits.
    pub fn encode<T: Real>(&self, p: &Params<T>, source: &[u32], offsets: &Offsets) -> Result<Array2<T>> {
        in_pool(|| Ok(self.memory(p, self.infer_encoder(p, source, offsets)?, offsets)?.0))
    }

    /// Returns the embeddings of the source, with positions: (source tokens, d_model).
    ///
    /// # Errors
    /// If an id or a length exceeds the model's limits.
    pub fn embed_source<T: Real>(&self, p: &Params<T>, source: &[u32], offsets: &Offsets) -> Result<Array2<T>> {
        let mut x = self.source_embedding.forward(p, source)?;
        self.source_position.forward(p, &mut x, offsets)?;
        Ok(x)
    }

    /// Returns the embeddings of the decoder's input, with positions: (target tokens, d_model).
    ///
    /// # Errors
    /// If an id or a length exceeds the model's limits.
    pub fn embed_target<T: Real>(&self, p: &Params<T>, input: &[u32], offsets: &Offsets) -> Result<Array2<T>> {
        let mut x = self.target_embedding.forward(p, input)?;
        self.target_position.forward(p, &mut x, offsets)?;
        Ok(x)
    }

    /// Returns what the decoder attends to, given its memory and the sequences of source and target.
    fn decoder_context<'a, T>(&self, memory: Array2<T>, [source, target]: [&'a Offsets; 2]) -> DecoderContext<'a, T> {
        DecoderContext { memory, memory_offsets: self.memory_offsets(source), target_offsets: target }
    }

    /// Returns what the decoder attends to, in evaluation mode.
    fn context_of_batch<'a, T: Real>(
        &self,
        p: &Params<T>,
        batch: &TranslationBatch,
        offsets: [&'a Offsets; 2],
    ) -> Result<DecoderContext<'a, T>> {
        Ok(self.decoder_context(self.encode(p, &batch.source, offsets[0])?, offsets))
    }

    /// Returns a reader of the encoder's residual stream, with the logits of the target token after `prefix`:
    /// (sequences, target vocabulary). The prefix starts with the start token.
    pub fn next_token_reader<'a, T: Real>(&'a self, p: &'a Params<T>, prefix: &'a [u32]) -> ResidualReader<'a, T> {
        let read_out = ReadOut::new(self.config.target_vocab_size, move |x, source_offsets| {
            let (memory, _) = self.memory(p, self.encoder.normalize(p, x)?, source_offsets)?;
            let sequences = source_offsets.sequences();
            let offsets = Offsets::from_lengths((0..sequences).map(|_| prefix.len()));
            let context = self.decoder_context(memory, [source_offsets, &offsets]);
            let x = self.embed_target(p, &prefix.repeat(sequences), &offsets)?;
            let (y, _) = self.decoder.forward(p, x, context.input(), Mode::Eval)?;
            self.target_embedding.logits(p, last_rows(&y, &offsets).view())
        });
        let read_out = read_out.with_decoded_tokens(prefix.len());
        ResidualReader::new(LayerStack::Encoder(&self.encoder), p, read_out)
    }

    /// Returns a reader of the decoder's residual stream against the memory of one source, with the logits of the token
    /// after each target token: (target tokens, target vocabulary). The memory comes from [`Translator::encode`].
    pub fn decoder_reader<'a, T: Real>(&'a self, p: &'a Params<T>, memory: Array2<T>) -> ResidualReader<'a, T> {
        let read = move |x, _: &Offsets| self.target_embedding.logits(p, self.decoder.normalize(p, x)?.view());
        let read_out = ReadOut::new(self.config.target_vocab_size, read);
        ResidualReader::new(LayerStack::Decoder(&self.decoder, memory), p, read_out)
    }

    /// Like [`Translator::decoder_reader`], with the logits of the token after each sequence: (sequences, target
    /// vocabulary).
    pub fn next_token_decoder_reader<'a, T: Real>(
        &'a self,
        p: &'a Params<T>,
        memory: Array2<T>,
    ) -> ResidualReader<'a, T> {
        let read_out = ReadOut::new(self.config.target_vocab_size, move |x, offsets| {
            let x = self.decoder.normalize(p, last_rows(&x, offsets))?;
            self.target_embedding.logits(p, x.view())
        });
        ResidualReader::new(LayerStack::Decoder(&self.decoder, memory), p, read_out)
    }

    /// Returns the numbers that pass the bottleneck, or `None` without one.
    ///
    /// # Shapes
    /// → (sources, bottleneck).
    ///
    /// # Errors
    /// If an id or a length exceeds the model's limits.
    pub fn codes<T: Real>(&self, p: &Params<T>, source: &[u32], offsets: &Offsets) -> Result<Option<Array2<T>>> {
        in_pool(|| Ok(self.memory(p, self.infer_encoder(p, source, offsets)?, offsets)?.1.map(|cache| cache.code)))
    }

    fn infer_encoder<T: Real>(&self, p: &Params<T>, source: &[u32], offsets: &Offsets) -> Result<Array2<T>> {
        self.encoder.infer(p, self.embed_source(p, source, offsets)?, offsets)
    }

    /// Starts decoding against the memory of [`Translator::encode`], with capacity for `capacity` tokens per target.
    ///
    /// # Errors
    /// If the shapes do not match, or memory cannot be allocated.
    pub fn start_decoding<T: Real>(
        &self,
        p: &Params<T>,
        memory: Memory<'_, T>,
        capacity: usize,
    ) -> Result<TranslatorState<T>> {
        let lengths = vec![0; memory.offsets.sequences()];
        Ok(TranslatorState { decoder: self.decoder.start_decoding(p, memory, capacity)?, lengths })
    }

    /// Returns the logits after appending `ids`, one new token per sequence. `sequences_per_source` holds the number of
    /// sequences of each source; the sequences of a source are adjacent.
    ///
    /// # Shapes
    /// `ids` (sequences,) → (sequences, target vocabulary).
    ///
    /// # Errors
    /// If an id or a length exceeds the model's limits, or the counts do not match.
    pub fn step<T: Real>(
        &self,
        p: &Params<T>,
        ids: &[u32],
        sequences_per_source: &[usize],
        state: &mut TranslatorState<T>,
    ) -> Result<Array2<T>> {
        let offsets = Offsets::from_lengths(ids.iter().map(|_| 1));
        let sources = Offsets::from_lengths(sequences_per_source.iter().copied());
        in_pool(|| {
            let mut x = self.target_embedding.forward(p, ids)?;
            self.target_position.forward_at(p, &mut x, &offsets, &state.lengths)?;
            let y = self.decoder.step(p, x, [&offsets, &sources], &mut state.decoder)?;
            state.lengths.iter_mut().for_each(|length| *length += 1);
            self.target_embedding.logits(p, y.view())
        })
    }

    /// Returns the logits of every target token of a batch, with all tokens at once: (target tokens, target
    /// vocabulary).
    ///
    /// # Errors
    /// If an id or a length exceeds the model's limits, or the shapes do not match.
    pub fn logits<T: Real>(&self, p: &Params<T>, batch: &TranslationBatch) -> Result<Array2<T>> {
        let [source_offsets, target_offsets] = batch.offsets();
        let context = self.context_of_batch(p, batch, [&source_offsets, &target_offsets])?;
        let x = self.embed_target(p, &batch.input, &target_offsets)?;
        let (y, _) = self.decoder.forward(p, x, context.input(), Mode::Eval)?;
        self.target_embedding.logits(p, y.view())
    }

    /// Traces one attention of a layer while the model reads one pair.
    ///
    /// # Errors
    /// If an id or a length exceeds the model's limits.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub fn trace<T: Real>(
        &self,
        p: &Params<T>,
        pair: &TranslationBatch,
        part: TranslatorAttention,
        layer: usize,
    ) -> Result<AttentionTrace> {
        let [source_offsets, target_offsets] = pair.offsets();
        let x = self.embed_source(p, &pair.source, &source_offsets)?;
        let (x, cache) = self.encoder.forward(p, x, &source_offsets, Mode::Eval)?;
        if part == TranslatorAttention::Encoder {
            return self.encoder.trace(p, &cache, &source_offsets, layer);
        }
        let (memory, _) = self.memory(p, x, &source_offsets)?;
        let context = self.decoder_context(memory, [&source_offsets, &target_offsets]);
        let x = self.embed_target(p, &pair.input, &target_offsets)?;
        let (_, cache) = self.decoder.forward(p, x, context.input(), Mode::Eval)?;
        self.decoder.trace(p, &cache, context.input(), (layer, part == TranslatorAttention::Cross))
    }

    /// Traces the embeddings of one pair's source, whose sum is the input of the encoder, or of its target, the input of
    /// the decoder.
    ///
    /// # Errors
    /// If an id or a length exceeds the model's limits.
    pub fn trace_embeddings<T: Real>(
        &self,
        p: &Params<T>,
        pair: &TranslationBatch,
        part: TranslatorAttention,
    ) -> Result<EmbeddingTrace> {
        match part {
            TranslatorAttention::Encoder => {
                EmbeddingTrace::new(p, &pair.source, &self.source_embedding, &self.source_position)
            }
            _ => EmbeddingTrace::new(p, &pair.input, &self.target_embedding, &self.target_position),
        }
    }

    /// Like [`Translator::trace`], with the mean loss of the pair's target tokens and its gradients in the layer.
    /// Gradients are those of the whole network, without dropout and label smoothing.
    ///
    /// # Errors
    /// If an id or a length exceeds the model's limits.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub fn trace_backward<T: Real>(
        &self,
        p: &Params<T>,
        pair: &TranslationBatch,
        part: TranslatorAttention,
        layer: usize,
    ) -> Result<BackwardTrace> {
        let attention = self.trace(p, pair, part, layer)?;
        let mut grads = Params::zeros(&self.layout);
        let (y, cache) = self.forward(p, pair, Mode::Eval)?;
        let (loss, dy) = self.target_embedding.loss(p, y.view(), &pair.output, T::ZERO, Some(&mut grads))?;
        let [source_offsets, target_offsets] = pair.offsets();
        let memory_offsets = self.memory_offsets(&source_offsets);
        let memory = Memory { output: cache.memory.view(), offsets: &memory_offsets };
        let input = DecoderInput { offsets: &target_offsets, memory };
        let gradients = match part {
            TranslatorAttention::Encoder => {
                let [_, d_memory] = self.decoder.backward(p, &cache.decoder, input, dy, Mode::Eval, &mut grads)?;
                let dy = self.memory_backward(p, &cache, &source_offsets, d_memory, &mut grads)?;
                self.encoder.trace_gradients(p, (&cache.encoder, &source_offsets), dy, layer, &mut grads)?
            }
            _ => {
                let place = (layer, part == TranslatorAttention::Cross);
                self.decoder.trace_gradients(p, (&cache.decoder, input), dy, place, &mut grads)?
            }
        };
        Ok(BackwardTrace { attention, loss, gradients })
    }

    /// The cross-attention of a decoder layer.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub fn cross_attention(&self, layer: usize) -> &MultiHeadAttention {
        self.decoder.layers()[layer].cross_attention()
    }

    /// Returns the alignment of one pair: the cross-attention weights of each decoder layer. Each array is (heads,
    /// target tokens, source tokens), with rows summing to 1. After a bottleneck, there is one column.
    ///
    /// # Errors
    /// If an id or a length exceeds the model's limits.
    pub fn alignment<T: Real>(&self, p: &Params<T>, pair: &TranslationBatch) -> Result<Vec<Array3<T>>> {
        let [source_offsets, target_offsets] = pair.offsets();
        let context = self.context_of_batch(p, pair, [&source_offsets, &target_offsets])?;
        let x = self.embed_target(p, &pair.input, &target_offsets)?;
        let (_, cache) = self.decoder.forward(p, x, context.input(), Mode::Eval)?;
        let of_layer = |layer: usize| {
            let heads = (0..self.config.decoder_num_heads())
                .map(|head| self.decoder.cross_attention_weights(&cache, context.input(), [layer, 0, head]))
                .collect::<Result<Vec<_>>>()?;
            let views: Vec<_> = heads.iter().map(|head| head.view()).collect();
            Ok(ndarray::stack(Axis(0), &views).expect("all heads of a layer have the same shape"))
        };
        (0..self.config.num_decoder_layers).map(of_layer).collect()
    }
}

impl<T: Real> TranslatorState<T> {
    /// Reorders the state: sequence `sequences[i]` becomes sequence i, and source `sources[i]` becomes source i. An
    /// index may occur more than once; missing ones are dropped.
    ///
    /// # Errors
    /// If a sequence or source does not exist.
    pub fn select(&mut self, sequences: &[usize], sources: &[usize]) -> Result<()> {
        self.decoder.select(sequences, sources)?;
        self.lengths = sequences.iter().map(|&s| self.lengths[s]).collect();
        Ok(())
    }
}
