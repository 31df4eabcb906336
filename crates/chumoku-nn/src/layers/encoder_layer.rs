//! An encoder layer: self-attention and feed-forward, each with a residual connection and layer normalization.

use super::activation_hook::add_residual;
use super::sublayer::{Sublayer, SublayerCache};
use super::{
    ActivationHook, ActivationSite, AttentionInput, EncoderConfig, FeedForward, FeedForwardCache, Mode,
    MultiHeadAttention, MultiHeadAttentionCache, Offsets,
};
use crate::Result;
use crate::params::{Builder, ParamMark, Params};
use chumoku_kernels::{KeyValueCache, Real};
use ndarray::Array2;

/// Self-attention and feed-forward (Vaswani et al. 2017, section 3.1).
#[derive(Clone, Debug)]
pub struct EncoderLayer {
    pub(super) attention: MultiHeadAttention,
    pub(super) feed_forward: FeedForward,
    pub(super) sublayers: [Sublayer; 2],
    params_end: ParamMark,
}

/// The cache of an [`EncoderLayer`]'s forward pass.
#[derive(Clone, Debug)]
pub struct EncoderLayerCache<T> {
    pub(super) attention: SublayerCache<T, MultiHeadAttentionCache<T>>,
    pub(super) feed_forward: SublayerCache<T, FeedForwardCache<T>>,
}

impl EncoderLayer {
    /// Adds the layer to the model. `index` is the layer's index from 0.
    ///
    /// # Errors
    /// If the heads do not divide d_model.
    pub fn new(builder: &mut Builder, config: &EncoderConfig, index: usize) -> Result<Self> {
        let site = 8 * (index as u32 + 1);
        let attention = config.self_attention_config(index, site)?;
        let attention = builder.scope("self_attn", |b| MultiHeadAttention::new(b, attention));
        let feed_forward = FeedForward::from_config(builder, config, site + 1);
        let is_normalised = config.options.first_norm_left_out && index == 0;
        let first = match is_normalised {
            true => Sublayer::without_norm(config, site + 2),
            false => Sublayer::new(builder, "norm1", config, site + 2),
        };
        let sublayers = [first, Sublayer::new(builder, "norm2", config, site + 3)];
        Ok(EncoderLayer { attention, feed_forward, sublayers, params_end: builder.mark() })
    }

    /// The end of the layer's parameters among those of the model.
    pub(super) fn params_end(&self) -> ParamMark {
        self.params_end
    }

    /// Runs self-attention and feed-forward, each with its residual connection and norm. Returns the output and the
    /// cache for `backward`.
    ///
    /// # Shapes
    /// `x` (tokens, d_model) → the same.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn forward<T: Real>(
        &self,
        p: &Params<T>,
        x: Array2<T>,
        offsets: &Offsets,
        mode: Mode,
    ) -> Result<(Array2<T>, EncoderLayerCache<T>)> {
        // The caller's array may have any memory layout.
        let x = if x.is_standard_layout() { x } else { x.as_standard_layout().into_owned() };
        let (x, attention) = self.sublayers[0].forward(p, x, mode, |x, then| {
            self.attention.forward_with_epilogue(p, &AttentionInput::self_attention(x, offsets), then, mode)
        })?;
        let (y, feed_forward) = self.sublayers[1]
            .forward(p, x, mode, |x, then| self.feed_forward.forward_with_epilogue(p, x, then, mode))?;
        Ok((y, EncoderLayerCache { attention, feed_forward }))
    }

    /// Returns the output in evaluation mode; `hook` sees what layer `index` computes, and may change it.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub(super) fn forward_with_hook<T: Real>(
        &self,
        p: &Params<T>,
        x: Array2<T>,
        offsets: &Offsets,
        index: usize,
        hook: ActivationHook<'_, T>,
    ) -> Result<Array2<T>> {
        let mode = Mode::Eval;
        let (x, _) = self.sublayers[0].forward(p, x, mode, |x, then| {
            let input = AttentionInput::self_attention(x, offsets);
            let mut y =
                self.attention.forward_with_hook(p, &input, |heads| hook(ActivationSite::Heads(index), heads))?;
            hook(ActivationSite::Attention(index), &mut y);
            add_residual(&mut y, &then)?;
            Ok((y, ()))
        })?;
        let (y, _) = self.sublayers[1].forward(p, x, mode, |x, then| {
            let (mut y, _) = self.feed_forward.forward(p, x, mode)?;
            hook(ActivationSite::FeedForward(index), &mut y);
            add_residual(&mut y, &then)?;
            Ok((y, ()))
        })?;
        Ok(y)
    }

    /// Returns the gradient of x and adds the parameter gradients to `grads`.
    ///
    /// # Shapes
    /// `dy` and the returned dx (tokens, d_model).
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn backward<T: Real>(
        &self,
        p: &Params<T>,
        cache: &EncoderLayerCache<T>,
        offsets: &Offsets,
        dy: Array2<T>,
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<Array2<T>> {
        let part = &cache.feed_forward;
        let d = self.sublayers[1].backward(p, part, dy, mode, grads, |d, grads| {
            self.feed_forward.backward(p, part.input.view(), &part.inner, d, mode, grads)
        })?;
        let part = &cache.attention;
        self.sublayers[0].backward(p, part, d, mode, grads, |d, grads| {
            let input = AttentionInput::self_attention(part.input.view(), offsets);
            Ok(self.attention.backward(p, &input, &part.inner, d, mode, grads)?.0)
        })
    }

    /// Returns an empty cache for [`EncoderLayer::step`] with capacity for `capacity` tokens per sequence; it grows on
    /// demand.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub(crate) fn key_value_cache<T: Real>(&self, sequences: usize, capacity: usize) -> Result<KeyValueCache<T>> {
        self.attention.key_value_cache(sequences, capacity)
    }

    /// Decodes new tokens that follow those in the cache. The result equals that of [`EncoderLayer::forward`] over all
    /// tokens.
    ///
    /// # Shapes
    /// `x` (new tokens, d_model) → the same.
    ///
    /// # Errors
    /// If the layer is not causal, or the shapes do not match.
    pub fn step<T: Real>(
        &self,
        p: &Params<T>,
        x: Array2<T>,
        offsets: &Offsets,
        cache: &mut KeyValueCache<T>,
    ) -> Result<Array2<T>> {
        let mode = Mode::Eval;
        let (x, _) = self.sublayers[0]
            .forward(p, x, mode, |x, then| Ok((self.attention.step_with_epilogue(p, x, offsets, cache, then)?, ())))?;
        let (y, _) = self.sublayers[1]
            .forward(p, x, mode, |x, then| self.feed_forward.forward_with_epilogue(p, x, then, mode))?;
        Ok(y)
    }

    /// The number of attention heads.
    pub(crate) fn num_heads(&self) -> usize {
        self.attention.config().num_heads
    }

    /// The self-attention of the layer.
    pub fn attention(&self) -> &MultiHeadAttention {
        &self.attention
    }
}
