//! Traces of an encoder's layers, for a batch of a single sequence in evaluation mode.

use super::super::norm::borrowed;
use super::{AttentionTrace, GradientTrace, NormParameters};
use crate::Result;
use crate::layers::{AttentionInput, Encoder, EncoderCache, EncoderLayer, EncoderLayerCache, Mode, Offsets, to_f64};
use crate::params::Params;
use chumoku_kernels::Real;
use ndarray::Array2;

impl EncoderLayer {
    /// Returns the attention weights of one sequence and head: (tokens, tokens).
    fn attention_weights<T: Real>(
        &self,
        cache: &EncoderLayerCache<T>,
        offsets: &Offsets,
        sequence: usize,
        head: usize,
    ) -> Result<Array2<T>> {
        let input = AttentionInput::self_attention(cache.attention.input.view(), offsets);
        self.attention.attention_weights(&input, &cache.attention.inner, sequence, head)
    }

    /// Traces the attention, without the feed-forward network.
    fn trace<T: Real>(&self, p: &Params<T>, cache: &EncoderLayerCache<T>, offsets: &Offsets) -> Result<AttentionTrace> {
        let order = self.sublayers[0].order;
        let [x, sum] = cache.attention.input_and_sum(&cache.feed_forward, order).map(|x| to_f64(x.view()));
        let heads = 0..self.attention.config().num_heads;
        let weights = heads.map(|head| Ok(to_f64(self.attention_weights(cache, offsets, 0, head)?.view())));
        Ok(AttentionTrace {
            x,
            memory: None,
            matrices: self.attention.matrices(p),
            order,
            norm: self.sublayers[0].norm.parameters(p),
            projected: self.attention.kernel_inputs(&cache.attention.inner),
            weights: weights.collect::<Result<_>>()?,
            sum,
            feed_forward: None,
        })
    }
}

impl Encoder {
    /// Traces the attention and the feed-forward network of a layer.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub(crate) fn trace<T: Real>(
        &self,
        p: &Params<T>,
        cache: &EncoderCache<T>,
        offsets: &Offsets,
        layer: usize,
    ) -> Result<AttentionTrace> {
        let (layer, cache) = (&self.layers[layer], &cache.layers[layer]);
        let feed_forward = layer.sublayers[1].trace_feed_forward(p, &layer.feed_forward, &cache.feed_forward)?;
        Ok(AttentionTrace { feed_forward: Some(feed_forward), ..layer.trace(p, cache, offsets)? })
    }

    /// Traces the attention of every layer in turn, without the feed-forward networks.
    pub(crate) fn trace_layers<T: Real>(
        &self,
        p: &Params<T>,
        cache: &EncoderCache<T>,
        offsets: &Offsets,
        each: &mut dyn FnMut(&AttentionTrace),
    ) -> Result<()> {
        let mut layers = self.layers.iter().zip(&cache.layers);
        layers.try_for_each(|(layer, cache)| layer.trace(p, cache, offsets).map(|trace| each(&trace)))
    }

    /// Traces the gradients of one layer, given the gradient of the encoder's output. The gradients of all parameters
    /// are added to `grads`, which must have no frozen parameters.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub(crate) fn trace_gradients<T: Real>(
        &self,
        p: &Params<T>,
        (cache, offsets): (&EncoderCache<T>, &Offsets),
        dy: Array2<T>,
        layer: usize,
        grads: &mut Params<T>,
    ) -> Result<GradientTrace> {
        let mut around = None;
        let mut d = self.norm.backward(p, borrowed(&cache.norm), dy, None, grads)?;
        for (index, (own, cache)) in self.layers.iter().zip(&cache.layers).enumerate().rev() {
            let output = to_f64(d.view());
            d = own.backward(p, cache, offsets, d, Mode::Eval, grads)?;
            if index == layer {
                around = Some([to_f64(d.view()), output]);
            }
        }
        let ([x, output], layer) = (around.expect("the layer exists"), &self.layers[layer]);
        Ok(GradientTrace {
            output,
            x,
            attention: layer.attention.matrices(grads),
            norm: layer.sublayers[0].norm.parameters(grads),
            feed_forward: Some(layer.feed_forward.matrices(grads)),
            feed_forward_norm: layer.sublayers[1].norm.parameters(grads),
        })
    }

    /// Returns the attention weights of one layer, sequence and head: (tokens, tokens).
    ///
    /// # Errors
    /// If the sequence or head does not exist.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub(crate) fn attention_weights<T: Real>(
        &self,
        cache: &EncoderCache<T>,
        offsets: &Offsets,
        layer: usize,
        sequence: usize,
        head: usize,
    ) -> Result<Array2<T>> {
        self.layers[layer].attention_weights(&cache.layers[layer], offsets, sequence, head)
    }

    /// Returns the parameters of the final norm.
    pub(crate) fn norm_parameters<T: Real>(&self, p: &Params<T>) -> Option<NormParameters> {
        self.norm.parameters(p)
    }
}
