//! Traces of a decoder's attentions, for a batch of a single pair in evaluation mode. A trace of cross-attention includes
//! the feed-forward network that follows it.

use super::super::norm::borrowed;
use super::{AttentionTrace, GradientTrace};
use crate::Result;
use crate::layers::decoder_layer::cross_attention_input;
use crate::layers::{AttentionInput, Decoder, DecoderCache, DecoderGradients, DecoderInput, Mode, to_f64, zeros};
use crate::params::Params;
use chumoku_kernels::Real;
use ndarray::Array2;

impl Decoder {
    /// Traces an attention of a layer: cross-attention with `is_cross`, else self-attention.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub(crate) fn trace<T: Real>(
        &self,
        p: &Params<T>,
        cache: &DecoderCache<T>,
        DecoderInput { offsets, memory }: DecoderInput<'_, T>,
        (layer, is_cross): (usize, bool),
    ) -> Result<AttentionTrace> {
        let (layer, cache) = (&self.layers[layer], &cache.layers[layer]);
        let (attention, part) = match is_cross {
            true => (&layer.cross_attention, &cache.cross_attention),
            false => (&layer.self_attention, &cache.self_attention),
        };
        let sublayer = &layer.sublayers[usize::from(is_cross)];
        let order = sublayer.order;
        let around = match is_cross {
            true => cache.cross_attention.input_and_sum(&cache.feed_forward, order),
            false => cache.self_attention.input_and_sum(&cache.cross_attention, order),
        };
        let [x, sum] = around.map(|x| to_f64(x.view()));
        let query = part.input.view();
        let input = match is_cross {
            true => cross_attention_input(&query, offsets, &memory),
            false => AttentionInput::self_attention(query.view(), offsets),
        };
        let of_head =
            |head| -> Result<_> { Ok(to_f64(attention.attention_weights(&input, &part.inner, 0, head)?.view())) };
        Ok(AttentionTrace {
            x,
            memory: is_cross.then(|| to_f64(memory.output)),
            matrices: attention.matrices(p),
            order,
            norm: sublayer.norm.parameters(p),
            projected: attention.kernel_inputs(&part.inner),
            weights: (0..attention.config().num_heads).map(of_head).collect::<Result<_>>()?,
            sum,
            feed_forward: match is_cross {
                true => Some(layer.sublayers[2].trace_feed_forward(p, &layer.feed_forward, &cache.feed_forward)?),
                false => None,
            },
        })
    }

    /// Returns the cross-attention weights of one layer, sequence and head: (target tokens, source tokens).
    ///
    /// # Errors
    /// If the sequence or head does not exist.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub(crate) fn cross_attention_weights<T: Real>(
        &self,
        cache: &DecoderCache<T>,
        DecoderInput { offsets, memory }: DecoderInput<'_, T>,
        [layer, sequence, head]: [usize; 3],
    ) -> Result<Array2<T>> {
        let part = &cache.layers[layer].cross_attention;
        let query = part.input.view();
        let input = cross_attention_input(&query, offsets, &memory);
        self.layers[layer].cross_attention.attention_weights(&input, &part.inner, sequence, head)
    }

    /// Traces the gradients of one attention of a layer, given the gradient of the decoder's output. The gradients of
    /// all parameters are added to `grads`, which must have no frozen parameters.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub(crate) fn trace_gradients<T: Real>(
        &self,
        p: &Params<T>,
        (cache, input): (&DecoderCache<T>, DecoderInput<'_, T>),
        dy: Array2<T>,
        (layer, is_cross): (usize, bool),
        grads: &mut Params<T>,
    ) -> Result<GradientTrace> {
        let mut d_memory = zeros(input.memory.output.dim());
        let mut around = None;
        let mut d = self.norm.backward(p, borrowed(&cache.norm), dy, None, grads)?;
        for (index, (own, cache)) in self.layers.iter().zip(&cache.layers).enumerate().rev() {
            let output = to_f64(d.view());
            d = own.feed_forward_backward(p, cache, d, Mode::Eval, grads)?;
            let mut gradients = DecoderGradients { params: grads, memory: &mut d_memory };
            d = own.cross_attention_backward(p, cache, input, d, Mode::Eval, &mut gradients)?;
            let between = to_f64(d.view());
            d = own.self_attention_backward(p, cache, input.offsets, d, Mode::Eval, grads)?;
            if index == layer {
                around = Some(if is_cross { [between, output] } else { [to_f64(d.view()), between] });
            }
        }
        let ([x, output], layer) = (around.expect("the layer exists"), &self.layers[layer]);
        let attention = if is_cross { &layer.cross_attention } else { &layer.self_attention };
        Ok(GradientTrace {
            output,
            x,
            attention: attention.matrices(grads),
            norm: layer.sublayers[usize::from(is_cross)].norm.parameters(grads),
            feed_forward: is_cross.then(|| layer.feed_forward.matrices(grads)),
            feed_forward_norm: layer.sublayers[2].norm.parameters(grads).filter(|_| is_cross),
        })
    }
}
