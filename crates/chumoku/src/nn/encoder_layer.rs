//! An encoder layer: self-attention and feed-forward, each with a residual connection and layer normalisation.

use super::{
    AttentionInput, FeedForward, FeedForwardCache, LayerNorm, LayerNormCache, Mode, MultiHeadAttention,
    MultiHeadAttentionCache, MultiHeadAttentionConfig, Offsets, add_assign,
};
use crate::Result;
use crate::nn::EncoderConfig;
use crate::params::{Builder, Params};
use chumoku_kernels::Real;
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
            ..MultiHeadAttentionConfig::new(config.d_model, config.num_heads)?
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
        match self.order {
            NormOrder::Pre => {
                let (norm1_output, norm1) = self.norm1.forward(p, x.view())?;
                let input = AttentionInput::of_self(norm1_output.view(), offsets);
                let (mut attended, attention) = self.attention.forward(p, &input, mode)?;
                mode.drop(&mut attended, self.dropout, self.site)?;
                add_assign(&mut attended, x.view());
                let middle = attended;
                let (norm2_output, norm2) = self.norm2.forward(p, middle.view())?;
                let (mut y, feed_forward) = self.feed_forward.forward(p, norm2_output.view(), mode)?;
                mode.drop(&mut y, self.dropout, self.site + 1)?;
                add_assign(&mut y, middle.view());
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
                let (mut sum1, attention) = self.attention.forward(p, &input, mode)?;
                mode.drop(&mut sum1, self.dropout, self.site)?;
                add_assign(&mut sum1, x.view());
                let (norm1_output, norm1) = self.norm1.forward(p, sum1.view())?;
                let (mut sum2, feed_forward) = self.feed_forward.forward(p, norm1_output.view(), mode)?;
                mode.drop(&mut sum2, self.dropout, self.site + 1)?;
                add_assign(&mut sum2, norm1_output.view());
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
                let mut d = dy.clone();
                mode.drop(&mut d, self.dropout, self.site + 1)?;
                let (x, cached) = (norm2_output.view(), &cache.feed_forward);
                let d = self.feed_forward.backward(p, x, cached, d.view(), mode, grads)?;
                let mut d_middle = self.norm2.backward(p, cache.norm2_input.view(), &cache.norm2, d.view(), grads)?;
                add_assign(&mut d_middle, dy.view());
                // middle = x + dropout(attention(norm1(x)))
                let mut d = d_middle.clone();
                mode.drop(&mut d, self.dropout, self.site)?;
                let input = AttentionInput::of_self(cache.norm1_output.view(), offsets);
                let (d, _) = self.attention.backward(p, &input, &cache.attention, d.view(), mode, grads)?;
                let mut dx = self.norm1.backward(p, cache.norm1_input.view(), &cache.norm1, d.view(), grads)?;
                add_assign(&mut dx, d_middle.view());
                Ok(dx)
            }
            NormOrder::Post => {
                // y = norm2(sum2), sum2 = middle + dropout(feed_forward(middle)), middle = norm1(sum1)
                let d_sum2 = self.norm2.backward(p, cache.norm2_input.view(), &cache.norm2, dy.view(), grads)?;
                let mut d = d_sum2.clone();
                mode.drop(&mut d, self.dropout, self.site + 1)?;
                let (x, cached) = (cache.norm1_output.view(), &cache.feed_forward);
                let mut d_middle = self.feed_forward.backward(p, x, cached, d.view(), mode, grads)?;
                add_assign(&mut d_middle, d_sum2.view());
                let d_sum1 = self.norm1.backward(p, cache.norm1_input.view(), &cache.norm1, d_middle.view(), grads)?;
                // sum1 = x + dropout(attention(x))
                let mut d = d_sum1.clone();
                mode.drop(&mut d, self.dropout, self.site)?;
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
