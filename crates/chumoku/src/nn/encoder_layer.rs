//! An encoder layer: self-attention and feed-forward, each with a residual connection and layer normalisation.

use super::{
    AttentionInput, FeedForward, FeedForwardCache, LayerNorm, LayerNormCache, Mode, MultiHeadAttention,
    MultiHeadAttentionCache, MultiHeadAttentionConfig, Offsets, add_assign,
};
use crate::Result;
use crate::nn::EncoderConfig;
use crate::params::{Builder, Params};
use chumoku_kernels::{KeyValueCache, Real, Then};
use ndarray::Array2;
use serde::{Deserialize, Serialize};

/// Where layer normalisation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormOrder {
    /// After each residual sum, as published: `x = norm(x + f(x))`.
    Post,
    /// Before each part, which trains more steadily: `x = x + f(norm(x))` (Xiong et al. 2020).
    Pre,
}

/// Self-attention and feed-forward (Vaswani et al. 2017, section 3.1).
#[derive(Clone, Debug)]
pub struct EncoderLayer {
    order: NormOrder,
    attention: MultiHeadAttention,
    feed_forward: FeedForward,
    norm1: LayerNorm,
    norm2: LayerNorm,
    dropout: f32,
    site: u32,
}

/// What an [`EncoderLayer`] remembers.
#[derive(Clone, Debug)]
pub struct EncoderLayerCache<T> {
    /// What the first normalisation was given, and made.
    norm1_input: Array2<T>,
    norm1_output: Array2<T>,
    norm1: LayerNormCache<T>,
    /// What attention was given, if it is not the first normalisation's output.
    input: Option<Array2<T>>,
    attention: MultiHeadAttentionCache<T>,
    norm2_input: Array2<T>,
    norm2_output: Option<Array2<T>>,
    norm2: LayerNormCache<T>,
    feed_forward: FeedForwardCache<T>,
}

impl EncoderLayer {
    /// Adds the layer to the model; `index` counts layers from 0.
    ///
    /// # Errors
    /// If the heads do not divide d_model.
    pub fn new(builder: &mut Builder, config: &EncoderConfig, index: usize) -> Result<Self> {
        let site = 8 * (index as u32 + 1);
        let attention = MultiHeadAttentionConfig {
            dropout: config.attention_dropout,
            causal: config.causal,
            site,
            ..MultiHeadAttentionConfig::new(config.d_model, config.num_heads)?.with_options(config.attention)?
        };
        let widths = [config.d_model, config.d_ff];
        Ok(EncoderLayer {
            order: config.norm_order,
            attention: builder.scope("self_attn", |b| MultiHeadAttention::new(b, attention)),
            feed_forward: FeedForward::new(builder, widths, config.activation(), config.dropout, site + 1),
            norm1: builder.scope("norm1", |b| LayerNorm::new(b, config.d_model)),
            norm2: builder.scope("norm2", |b| LayerNorm::new(b, config.d_model)),
            dropout: config.dropout,
            site: site + 2,
        })
    }

    /// What follows part 0 or 1: `residual + dropout(…)`.
    fn add<'a, T: Real>(&self, residual: &'a Array2<T>, part: u32, mode: Mode) -> Then<'a, T> {
        let residual = residual.as_slice().expect("activations are packed");
        Then::Add { dropout: mode.dropout(self.dropout, self.site + part), residual }
    }

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
        match self.order {
            NormOrder::Pre => {
                let (norm1_output, norm1) = self.norm1.forward(p, x.view())?;
                let input = AttentionInput::of_self(norm1_output.view(), offsets);
                let (middle, attention) = self.attention.forward_then(p, &input, self.add(&x, 0, mode), mode)?;
                let (norm2_output, norm2) = self.norm2.forward(p, middle.view())?;
                let then = self.add(&middle, 1, mode);
                let (y, feed_forward) = self.feed_forward.forward_then(p, norm2_output.view(), then, mode)?;
                let cache = EncoderLayerCache {
                    norm1_input: x,
                    norm1_output,
                    norm1,
                    input: None,
                    attention,
                    norm2_input: middle,
                    norm2_output: Some(norm2_output),
                    norm2,
                    feed_forward,
                };
                Ok((y, cache))
            }
            NormOrder::Post => {
                let input = AttentionInput::of_self(x.view(), offsets);
                let (sum1, attention) = self.attention.forward_then(p, &input, self.add(&x, 0, mode), mode)?;
                let (norm1_output, norm1) = self.norm1.forward(p, sum1.view())?;
                let then = self.add(&norm1_output, 1, mode);
                let (sum2, feed_forward) = self.feed_forward.forward_then(p, norm1_output.view(), then, mode)?;
                let (y, norm2) = self.norm2.forward(p, sum2.view())?;
                let cache = EncoderLayerCache {
                    norm1_input: sum1,
                    norm1_output,
                    norm1,
                    input: Some(x),
                    attention,
                    norm2_input: sum2,
                    norm2_output: None,
                    norm2,
                    feed_forward,
                };
                Ok((y, cache))
            }
        }
    }

    /// An empty cache for [`EncoderLayer::step`]: see [`MultiHeadAttention::key_value_cache`].
    ///
    /// # Errors
    /// If the memory cannot be had.
    pub fn key_value_cache<T: Real>(&self, sequences: usize, capacity: usize) -> Result<KeyValueCache<T>> {
        self.attention.key_value_cache(sequences, capacity)
    }

    /// New tokens that follow those in the cache, in use: see [`MultiHeadAttention::step`].
    ///
    /// # Shapes
    /// `x` (new tokens, d_model) → the same.
    ///
    /// # Errors
    /// If the layer is not causal, the shapes do not fit, or the cache cannot hold more.
    pub fn step<T: Real>(
        &self,
        p: &Params<T>,
        x: Array2<T>,
        offsets: &Offsets,
        cache: &mut KeyValueCache<T>,
    ) -> Result<Array2<T>> {
        let x = if x.is_standard_layout() { x } else { x.as_standard_layout().into_owned() };
        match self.order {
            NormOrder::Pre => {
                let (normal, _) = self.norm1.forward(p, x.view())?;
                let then = self.add(&x, 0, Mode::Eval);
                let middle = self.attention.step_then(p, normal.view(), offsets, cache, then)?;
                let (normal, _) = self.norm2.forward(p, middle.view())?;
                let then = self.add(&middle, 1, Mode::Eval);
                Ok(self.feed_forward.forward_then(p, normal.view(), then, Mode::Eval)?.0)
            }
            NormOrder::Post => {
                let then = self.add(&x, 0, Mode::Eval);
                let sum = self.attention.step_then(p, x.view(), offsets, cache, then)?;
                let (middle, _) = self.norm1.forward(p, sum.view())?;
                let then = self.add(&middle, 1, Mode::Eval);
                let (sum, _) = self.feed_forward.forward_then(p, middle.view(), then, Mode::Eval)?;
                Ok(self.norm2.forward(p, sum.view())?.0)
            }
        }
    }

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
        match self.order {
            NormOrder::Pre => {
                let norm2_output = cache.norm2_output.as_ref().expect("pre-norm remembers it");
                // y = middle + dropout(feed_forward(norm2(middle)))
                let d = mode.dropped(&dy, self.dropout, self.site + 1)?;
                let (x, cached) = (norm2_output.view(), &cache.feed_forward);
                let d = self.feed_forward.backward(p, x, cached, d.view(), mode, grads)?;
                let (x, dy) = (cache.norm2_input.view(), Some(dy.view()));
                let d_middle = self.norm2.backward(p, x, &cache.norm2, d.view(), dy, grads)?;
                // middle = x + dropout(attention(norm1(x)))
                let d = mode.dropped(&d_middle, self.dropout, self.site)?;
                let input = AttentionInput::of_self(cache.norm1_output.view(), offsets);
                let (d, _) = self.attention.backward(p, &input, &cache.attention, d.view(), mode, grads)?;
                let (x, d_middle) = (cache.norm1_input.view(), Some(d_middle.view()));
                self.norm1.backward(p, x, &cache.norm1, d.view(), d_middle, grads)
            }
            NormOrder::Post => {
                // y = norm2(sum2), sum2 = middle + dropout(feed_forward(middle)), middle = norm1(sum1)
                let d_sum2 = self.norm2.backward(p, cache.norm2_input.view(), &cache.norm2, dy.view(), None, grads)?;
                let d = mode.dropped(&d_sum2, self.dropout, self.site + 1)?;
                let (x, cached) = (cache.norm1_output.view(), &cache.feed_forward);
                let mut d_middle = self.feed_forward.backward(p, x, cached, d.view(), mode, grads)?;
                add_assign(&mut d_middle, d_sum2.view());
                let x = cache.norm1_input.view();
                let d_sum1 = self.norm1.backward(p, x, &cache.norm1, d_middle.view(), None, grads)?;
                // sum1 = x + dropout(attention(x))
                let d = mode.dropped(&d_sum1, self.dropout, self.site)?;
                let x = cache.input.as_ref().expect("post-norm remembers it");
                let input = AttentionInput::of_self(x.view(), offsets);
                let (mut dx, _) = self.attention.backward(p, &input, &cache.attention, d.view(), mode, grads)?;
                add_assign(&mut dx, d_sum1.view());
                Ok(dx)
            }
        }
    }

    /// The attention weights of one sequence and head: (tokens, tokens).
    ///
    /// # Errors
    /// If there is no such sequence or head.
    pub fn weights<T: Real>(
        &self,
        cache: &EncoderLayerCache<T>,
        offsets: &Offsets,
        sequence: usize,
        head: usize,
    ) -> Result<Array2<T>> {
        let x = cache.input.as_ref().unwrap_or(&cache.norm1_output);
        let input = AttentionInput::of_self(x.view(), offsets);
        self.attention.weights(&input, &cache.attention, sequence, head)
    }
}
