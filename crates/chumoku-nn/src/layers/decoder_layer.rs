//! A decoder layer: causal self-attention, cross-attention to the encoder's output, and feed-forward, each with a
//! residual connection and layer normalization.

use super::activation_hook::add_residual;
use super::sublayer::{Sublayer, SublayerCache};
use super::{
    ActivationHook, ActivationSite, AttentionInput, AttentionOptions, EncoderConfig, FeedForward, FeedForwardCache,
    Mode, MultiHeadAttention, MultiHeadAttentionCache, MultiHeadAttentionConfig, Offsets, PositionKind,
    ProjectedMemory, add_assign,
};
use crate::Result;
use crate::params::{Builder, Params};
use chumoku_kernels::{KeyValueCache, Real};
use ndarray::{Array2, ArrayView2};

/// First dropout site of decoders, beyond those of encoders.
const FIRST_DROPOUT_SITE: u32 = 1 << 16;

/// The encoder's output that a decoder attends to, with its sequences.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'a, T> {
    /// The encoder's output: (source tokens, d_model).
    pub output: ArrayView2<'a, T>,
    /// The sequences of the source, as many as those of the target.
    pub offsets: &'a Offsets,
}

/// The inputs of a decoder besides the target's activations.
#[derive(Clone, Copy, Debug)]
pub struct DecoderInput<'a, T> {
    /// Where each sequence of the target starts.
    pub offsets: &'a Offsets,
    /// The memory that the target attends to.
    pub memory: Memory<'a, T>,
}

/// Destinations of the gradients in the backward pass of a [`DecoderLayer`].
#[derive(Debug)]
pub struct DecoderGradients<'a, T: Real> {
    /// Gradients of the parameters.
    pub params: &'a mut Params<T>,
    /// Gradient of the memory: (source tokens, d_model).
    pub memory: &'a mut Array2<T>,
}

/// Causal self-attention, cross-attention and feed-forward (Vaswani et al. 2017, section 3.1).
#[derive(Clone, Debug)]
pub struct DecoderLayer {
    pub(super) self_attention: MultiHeadAttention,
    pub(super) cross_attention: MultiHeadAttention,
    pub(super) feed_forward: FeedForward,
    pub(super) sublayers: [Sublayer; 3],
}

/// The cache of a [`DecoderLayer`]'s forward pass.
#[derive(Clone, Debug)]
pub struct DecoderLayerCache<T> {
    pub(super) self_attention: SublayerCache<T, MultiHeadAttentionCache<T>>,
    pub(super) cross_attention: SublayerCache<T, MultiHeadAttentionCache<T>>,
    pub(super) feed_forward: SublayerCache<T, FeedForwardCache<T>>,
}

/// The state of a [`DecoderLayer`] during decoding: keys and values of the tokens so far, and those of the memory.
#[derive(Clone, Debug)]
pub struct DecoderLayerState<T: Real> {
    key_value_cache: KeyValueCache<T>,
    memory: ProjectedMemory<T>,
}

impl DecoderLayer {
    /// Adds the layer to the model, with the parameter names of PyTorch's `TransformerDecoderLayer`. `index` is the
    /// layer's index from 0.
    ///
    /// # Errors
    /// If the heads do not divide d_model.
    pub fn new(builder: &mut Builder, config: &EncoderConfig, index: usize) -> Result<Self> {
        let site = FIRST_DROPOUT_SITE + 8 * (index as u32 + 1);
        let to_self = MultiHeadAttentionConfig { causal: true, ..config.self_attention_config(index, site)? };
        // Positions in the target and in the source are unrelated.
        let options = AttentionOptions { window: None, position: PositionKind::None, ..config.attention };
        let across = MultiHeadAttentionConfig {
            dropout: config.attention_dropout,
            dropout_site: site + 1,
            ..MultiHeadAttentionConfig::self_attention(config.d_model, config.num_heads, options)?
        };
        Ok(DecoderLayer {
            self_attention: builder.scope("self_attn", |b| MultiHeadAttention::new(b, to_self)),
            cross_attention: builder.scope("multihead_attn", |b| MultiHeadAttention::new(b, across)),
            feed_forward: FeedForward::from_config(builder, config, site + 2),
            sublayers: [("norm1", site + 3), ("norm2", site + 4), ("norm3", site + 5)]
                .map(|(name, site)| Sublayer::new(builder, name, config, site)),
        })
    }

    /// Runs self-attention, cross-attention and feed-forward. Returns the output and the cache for `backward`.
    ///
    /// # Shapes
    /// `x` (target tokens, d_model) → the same.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn forward<T: Real>(
        &self,
        p: &Params<T>,
        x: Array2<T>,
        DecoderInput { offsets, memory }: DecoderInput<'_, T>,
        mode: Mode,
    ) -> Result<(Array2<T>, DecoderLayerCache<T>)> {
        // The caller's array may have any memory layout.
        let x = if x.is_standard_layout() { x } else { x.as_standard_layout().into_owned() };
        let (x, self_attention) = self.sublayers[0].forward(p, x, mode, |x, then| {
            self.self_attention.forward_with_epilogue(p, &AttentionInput::self_attention(x, offsets), then, mode)
        })?;
        let (x, cross_attention) = self.sublayers[1].forward(p, x, mode, |x, then| {
            self.cross_attention.forward_with_epilogue(p, &cross_attention_input(&x, offsets, &memory), then, mode)
        })?;
        let (y, feed_forward) = self.sublayers[2]
            .forward(p, x, mode, |x, then| self.feed_forward.forward_with_epilogue(p, x, then, mode))?;
        Ok((y, DecoderLayerCache { self_attention, cross_attention, feed_forward }))
    }

    /// Returns the output in evaluation mode; `hook` sees what layer `index` computes, and may change it. All sequences
    /// of `x` attend to the one source of the memory.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub(super) fn forward_with_hook<T: Real>(
        &self,
        p: &Params<T>,
        x: Array2<T>,
        DecoderInput { offsets, memory }: DecoderInput<'_, T>,
        index: usize,
        hook: ActivationHook<'_, T>,
    ) -> Result<Array2<T>> {
        let mode = Mode::Eval;
        let (x, _) = self.sublayers[0].forward(p, x, mode, |x, then| {
            let input = AttentionInput::self_attention(x, offsets);
            let mut y =
                self.self_attention.forward_with_hook(p, &input, |heads| hook(ActivationSite::Heads(index), heads))?;
            hook(ActivationSite::Attention(index), &mut y);
            add_residual(&mut y, &then)?;
            Ok((y, ()))
        })?;
        // Queries of all sequences read the same keys, so that these are computed once.
        let all = Offsets::from_lengths([x.nrows()]);
        let (x, _) = self.sublayers[1].forward(p, x, mode, |x, then| {
            let input = cross_attention_input(&x, &all, &memory);
            let change = |heads: &mut Array2<T>| hook(ActivationSite::CrossHeads(index), heads);
            let mut y = self.cross_attention.forward_with_hook(p, &input, change)?;
            add_residual(&mut y, &then)?;
            Ok((y, ()))
        })?;
        let (y, _) = self.sublayers[2].forward(p, x, mode, |x, then| {
            let (mut y, _) = self.feed_forward.forward(p, x, mode)?;
            hook(ActivationSite::FeedForward(index), &mut y);
            add_residual(&mut y, &then)?;
            Ok((y, ()))
        })?;
        Ok(y)
    }

    /// Returns the gradient of x. Adds the gradients of the parameters and of the memory to `gradients`.
    ///
    /// # Shapes
    /// `dy` and the returned dx (target tokens, d_model).
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn backward<T: Real>(
        &self,
        p: &Params<T>,
        cache: &DecoderLayerCache<T>,
        input: DecoderInput<'_, T>,
        dy: Array2<T>,
        mode: Mode,
        mut gradients: DecoderGradients<'_, T>,
    ) -> Result<Array2<T>> {
        let d = self.feed_forward_backward(p, cache, dy, mode, gradients.params)?;
        let d = self.cross_attention_backward(p, cache, input, d, mode, &mut gradients)?;
        self.self_attention_backward(p, cache, input.offsets, d, mode, gradients.params)
    }

    /// The backward pass of the feed-forward network.
    pub(super) fn feed_forward_backward<T: Real>(
        &self,
        p: &Params<T>,
        cache: &DecoderLayerCache<T>,
        dy: Array2<T>,
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<Array2<T>> {
        let part = &cache.feed_forward;
        self.sublayers[2].backward(p, part, dy, mode, grads, |d, grads| {
            self.feed_forward.backward(p, part.input.view(), &part.inner, d, mode, grads)
        })
    }

    /// The backward pass of cross-attention.
    pub(super) fn cross_attention_backward<T: Real>(
        &self,
        p: &Params<T>,
        cache: &DecoderLayerCache<T>,
        DecoderInput { offsets, memory }: DecoderInput<'_, T>,
        dy: Array2<T>,
        mode: Mode,
        gradients: &mut DecoderGradients<'_, T>,
    ) -> Result<Array2<T>> {
        let (part, d_memory) = (&cache.cross_attention, &mut *gradients.memory);
        self.sublayers[1].backward(p, part, dy, mode, gradients.params, |d, grads| {
            let x = part.input.view();
            let input = cross_attention_input(&x, offsets, &memory);
            let (dx, of_memory) = self.cross_attention.backward(p, &input, &part.inner, d, mode, grads)?;
            // Keys and values both come from the memory.
            of_memory.iter().flatten().for_each(|d| add_assign(d_memory, d.view()));
            Ok(dx)
        })
    }

    /// The backward pass of self-attention.
    pub(super) fn self_attention_backward<T: Real>(
        &self,
        p: &Params<T>,
        cache: &DecoderLayerCache<T>,
        offsets: &Offsets,
        dy: Array2<T>,
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<Array2<T>> {
        let part = &cache.self_attention;
        self.sublayers[0].backward(p, part, dy, mode, grads, |d, grads| {
            let input = AttentionInput::self_attention(part.input.view(), offsets);
            Ok(self.self_attention.backward(p, &input, &part.inner, d, mode, grads)?.0)
        })
    }

    /// Starts decoding against a memory, with capacity for `capacity` tokens per sequence; it grows on demand.
    ///
    /// # Errors
    /// If the shapes do not match, or memory cannot be allocated.
    pub(crate) fn start_decoding<T: Real>(
        &self,
        p: &Params<T>,
        memory: Memory<'_, T>,
        capacity: usize,
    ) -> Result<DecoderLayerState<T>> {
        Ok(DecoderLayerState {
            key_value_cache: self.self_attention.key_value_cache(memory.offsets.sequences(), capacity)?,
            memory: self.cross_attention.project_memory(p, [memory.output; 2], memory.offsets)?,
        })
    }

    /// Decodes new tokens that follow those in the state. The result equals that of [`DecoderLayer::forward`] over all
    /// tokens.
    ///
    /// # Shapes
    /// `x` (new tokens, d_model) → the same. `offsets` group the tokens by sequence, `sources` by the memory's
    /// sequence. Both are equal unless several sequences share a source.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn step<T: Real>(
        &self,
        p: &Params<T>,
        x: Array2<T>,
        [offsets, sources]: [&Offsets; 2],
        state: &mut DecoderLayerState<T>,
    ) -> Result<Array2<T>> {
        let DecoderLayerState { key_value_cache: keys_and_values, memory } = state;
        let mode = Mode::Eval;
        let x = self.sublayers[0].forward(p, x, mode, |x, then| {
            Ok((self.self_attention.step_with_epilogue(p, x, offsets, keys_and_values, then)?, ()))
        })?;
        let x = self.sublayers[1].forward(p, x.0, mode, |x, then| {
            Ok((self.cross_attention.step_cross_attention_with_epilogue(p, x, sources, memory, then)?, ()))
        })?;
        let y = self.sublayers[2]
            .forward(p, x.0, mode, |x, then| self.feed_forward.forward_with_epilogue(p, x, then, mode))?;
        Ok(y.0)
    }

    /// The number of heads of each attention.
    pub(crate) fn num_heads(&self) -> usize {
        self.self_attention.config().num_heads
    }

    /// The attention to the memory.
    pub(crate) fn cross_attention(&self) -> &MultiHeadAttention {
        &self.cross_attention
    }
}

impl<T: Real> DecoderLayerState<T> {
    /// Reorders the state: sequence `sequences[i]` becomes sequence i, and source `sources[i]` becomes source i. An
    /// index may occur more than once; missing ones are dropped.
    ///
    /// # Errors
    /// If a sequence or source does not exist.
    pub(crate) fn select(&mut self, sequences: &[usize], sources: &[usize]) -> Result<()> {
        self.key_value_cache.select(sequences)?;
        self.memory.select(sources)
    }
}

/// The attention input with queries from the target, and keys and values from the memory.
pub(super) fn cross_attention_input<'a, T: Real>(
    x: &'a ArrayView2<'_, T>,
    offsets: &'a Offsets,
    memory: &'a Memory<'_, T>,
) -> AttentionInput<'a, T> {
    AttentionInput {
        query: x.view(),
        query_offsets: offsets,
        memory: Some([memory.output.view(), memory.output.view()]),
        key_offsets: memory.offsets,
        mask: None,
    }
}
