//! An encoder layer: self-attention and feed-forward, each with a residual connection and layer normalisation.

use super::sublayer::{Sublayer, SublayerCache};
use super::trace::{AttentionTrace, FeedForwardTrace, GradientTrace};
use super::{
    AttentionInput, EncoderConfig, FeedForward, FeedForwardCache, Mode, MultiHeadAttention, MultiHeadAttentionCache,
    Offsets, to_f64,
};
use crate::Result;
use crate::params::{Builder, ParamMark, Params};
use chumoku_kernels::{KeyValueCache, Real};
use ndarray::Array2;

/// Self-attention and feed-forward (Vaswani et al. 2017, section 3.1).
#[derive(Clone, Debug)]
pub struct EncoderLayer {
    attention: MultiHeadAttention,
    feed_forward: FeedForward,
    sublayers: [Sublayer; 2],
    end: ParamMark,
}

/// What an [`EncoderLayer`] remembers.
#[derive(Clone, Debug)]
pub struct EncoderLayerCache<T> {
    attention: SublayerCache<T, MultiHeadAttentionCache<T>>,
    feed_forward: SublayerCache<T, FeedForwardCache<T>>,
}

impl EncoderLayer {
    /// Adds the layer to the model; `index` counts layers from 0.
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
        Ok(EncoderLayer { attention, feed_forward, sublayers, end: builder.mark() })
    }

    /// The end of its parameters among those of the model.
    pub(super) fn params_end(&self) -> ParamMark {
        self.end
    }

    /// Self-attention and feed-forward, each with its residual and norm, and what `backward` needs of the computation.
    ///
    /// # Shapes
    /// `x` (tokens, d_model) → the same.
    ///
    /// # Errors
    /// If the shapes do not fit.
    pub fn forward<T: Real>(
        &self,
        p: &Params<T>,
        x: Array2<T>,
        offsets: &Offsets,
        mode: Mode,
    ) -> Result<(Array2<T>, EncoderLayerCache<T>)> {
        // A caller's array may lie any way.
        let x = if x.is_standard_layout() { x } else { x.as_standard_layout().into_owned() };
        let (x, attention) = self.sublayers[0].forward(p, x, mode, |x, then| {
            self.attention.forward_then(p, &AttentionInput::self_attention(x, offsets), then, mode)
        })?;
        let (y, feed_forward) =
            self.sublayers[1].forward(p, x, mode, |x, then| self.feed_forward.forward_then(p, x, then, mode))?;
        Ok((y, EncoderLayerCache { attention, feed_forward }))
    }

    /// The gradient of x; those of the parameters are added to `grads`.
    ///
    /// # Shapes
    /// `dy` and the dx returned (tokens, d_model).
    ///
    /// # Errors
    /// If the shapes do not fit.
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

    /// An empty cache for [`EncoderLayer::step`], with room for `capacity` tokens of each sequence; it grows.
    ///
    /// # Errors
    /// If the memory cannot be had.
    pub fn key_value_cache<T: Real>(&self, sequences: usize, capacity: usize) -> Result<KeyValueCache<T>> {
        self.attention.key_value_cache(sequences, capacity)
    }

    /// New tokens, which follow those in the cache: what [`EncoderLayer::forward`] over all tokens gives for them.
    ///
    /// # Shapes
    /// `x` (new tokens, d_model) → the same.
    ///
    /// # Errors
    /// If the layer is not causal, or the shapes do not fit.
    pub fn step<T: Real>(
        &self,
        p: &Params<T>,
        x: Array2<T>,
        offsets: &Offsets,
        cache: &mut KeyValueCache<T>,
    ) -> Result<Array2<T>> {
        let mode = Mode::Eval;
        let (x, _) = self.sublayers[0]
            .forward(p, x, mode, |x, then| Ok((self.attention.step_then(p, x, offsets, cache, then)?, ())))?;
        let (y, _) =
            self.sublayers[1].forward(p, x, mode, |x, then| self.feed_forward.forward_then(p, x, then, mode))?;
        Ok(y)
    }

    /// Its attention.
    pub(crate) fn attention(&self) -> &MultiHeadAttention {
        &self.attention
    }

    /// What its attention was given and made, of a batch of one sequence.
    pub(super) fn trace<T: Real>(
        &self,
        p: &Params<T>,
        cache: &EncoderLayerCache<T>,
        offsets: &Offsets,
    ) -> Result<AttentionTrace> {
        let order = self.sublayers[0].order();
        let [x, sum] = cache.attention.input_and_sum(&cache.feed_forward, order).map(|x| to_f64(x.view()));
        let heads = 0..self.attention.config().num_heads;
        let weights = heads.map(|head| Ok(to_f64(self.attention_weights(cache, offsets, 0, head)?.view())));
        Ok(AttentionTrace {
            x,
            memory: None,
            matrices: self.attention.matrices(p),
            order,
            norm: self.sublayers[0].norm().parameters(p),
            projected: self.attention.kernel_inputs(&cache.attention.inner),
            weights: weights.collect::<Result<_>>()?,
            sum,
            feed_forward: None,
        })
    }

    /// Its feed-forward network, and what the layer came to.
    pub(super) fn trace_feed_forward<T: Real>(
        &self,
        p: &Params<T>,
        cache: &EncoderLayerCache<T>,
    ) -> Result<FeedForwardTrace> {
        self.sublayers[1].trace_feed_forward(p, &self.feed_forward, &cache.feed_forward)
    }

    /// The gradients of its parameters, and those of its input and its output.
    pub(super) fn trace_gradients<T: Real>(&self, grads: &Params<T>, [x, output]: [Array2<f64>; 2]) -> GradientTrace {
        GradientTrace {
            output,
            x,
            attention: self.attention.matrices(grads),
            norm: self.sublayers[0].norm().parameters(grads),
            feed_forward: Some(self.feed_forward.matrices(grads)),
            feed_forward_norm: self.sublayers[1].norm().parameters(grads),
        }
    }

    /// The attention weights of one sequence and head: (tokens, tokens).
    ///
    /// # Errors
    /// If there is no such sequence or head.
    pub fn attention_weights<T: Real>(
        &self,
        cache: &EncoderLayerCache<T>,
        offsets: &Offsets,
        sequence: usize,
        head: usize,
    ) -> Result<Array2<T>> {
        let input = AttentionInput::self_attention(cache.attention.input.view(), offsets);
        self.attention.attention_weights(&input, &cache.attention.inner, sequence, head)
    }
}
