//! The encoder: a stack of layers.

use super::trace::{AttentionTrace, GradientTrace, NormParameters};
use super::{EncoderConfig, EncoderLayer, EncoderLayerCache, Mode, Norm, NormCache, NormOrder, Offsets, to_f64};
use crate::Result;
use crate::params::{Builder, Params};
use chumoku_kernels::{KeyValueCache, Real};
use ndarray::Array2;

/// A stack of [`EncoderLayer`]s (Vaswani et al. 2017, figure 1, left).
#[derive(Clone, Debug)]
pub struct Encoder {
    layers: Vec<EncoderLayer>,
    norm: Option<Norm>,
}

/// The cache of an [`Encoder`]'s forward pass.
#[derive(Clone, Debug)]
pub struct EncoderCache<T> {
    layers: Vec<EncoderLayerCache<T>>,
    norm: Option<(Array2<T>, NormCache<T>)>,
}

impl Encoder {
    /// Adds `layers.0`, …, and `norm` for pre-norm.
    ///
    /// # Errors
    /// If the heads do not divide d_model.
    pub fn new(builder: &mut Builder, config: &EncoderConfig) -> Result<Self> {
        let layers = (0..config.num_layers)
            .map(|i| builder.scope(&format!("layers.{i}"), |b| EncoderLayer::new(b, config, i)))
            .collect::<Result<_>>()?;
        let norm = (config.norm_order == NormOrder::Pre).then(|| builder.scope("norm", |b| config.new_norm(b)));
        Ok(Encoder { layers, norm })
    }

    /// The layers, first to last.
    pub fn layers(&self) -> &[EncoderLayer] {
        &self.layers
    }

    /// Returns the output of the last layer, and the cache for `backward`.
    ///
    /// # Shapes
    /// `x` (tokens, d_model) → the same.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn forward<T: Real>(
        &self,
        p: &Params<T>,
        mut x: Array2<T>,
        offsets: &Offsets,
        mode: Mode,
    ) -> Result<(Array2<T>, EncoderCache<T>)> {
        let mut layers = Vec::with_capacity(self.layers.len());
        for layer in &self.layers {
            let (y, cache) = layer.forward(p, x, offsets, mode)?;
            layers.push(cache);
            x = y;
        }
        let Some(norm) = &self.norm else { return Ok((x, EncoderCache { layers, norm: None })) };
        let (y, cache) = norm.forward(p, x.view())?;
        Ok((y, EncoderCache { layers, norm: Some((x, cache)) }))
    }

    /// Like [`Encoder::forward`] in evaluation mode, without a cache.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn infer<T: Real>(&self, p: &Params<T>, mut x: Array2<T>, offsets: &Offsets) -> Result<Array2<T>> {
        for layer in &self.layers {
            x = layer.forward(p, x, offsets, Mode::Eval)?.0;
        }
        match &self.norm {
            Some(norm) => Ok(norm.forward(p, x.view())?.0),
            None => Ok(x),
        }
    }

    /// Returns the input of the first layer and the output of each layer, in evaluation mode. The final norm applies to
    /// the last one.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn hidden_states<T: Real>(&self, p: &Params<T>, x: Array2<T>, offsets: &Offsets) -> Result<Vec<Array2<T>>> {
        let mut states = vec![x];
        for layer in &self.layers {
            let last = states[states.len() - 1].clone();
            states.push(layer.forward(p, last, offsets, Mode::Eval)?.0);
        }
        if let (Some(norm), Some(last)) = (&self.norm, states.last_mut()) {
            *last = norm.forward(p, last.view())?.0;
        }
        Ok(states)
    }

    /// Returns empty caches for [`Encoder::step`], one per layer: see [`super::MultiHeadAttention::key_value_cache`].
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn key_value_caches<T: Real>(&self, sequences: usize, capacity: usize) -> Result<Vec<KeyValueCache<T>>> {
        self.layers.iter().map(|layer| layer.key_value_cache(sequences, capacity)).collect()
    }

    /// Decodes new tokens that follow those in the caches. The result equals that of [`Encoder::forward`] over all
    /// tokens.
    ///
    /// See [`super::MultiHeadAttention::step`].
    ///
    /// # Shapes
    /// `x` (new tokens, d_model) → the same; a cache for each layer.
    ///
    /// # Errors
    /// If the encoder is not causal, the shapes do not match, or a cache is full.
    pub fn step<T: Real>(
        &self,
        p: &Params<T>,
        mut x: Array2<T>,
        offsets: &Offsets,
        caches: &mut [KeyValueCache<T>],
    ) -> Result<Array2<T>> {
        if caches.len() != self.layers.len() {
            let (what, expected) = ("encoder: caches", self.layers.len());
            return Err(chumoku_kernels::Error::Length { what, expected, found: caches.len() }.into());
        }
        for (layer, cache) in self.layers.iter().zip(caches) {
            x = layer.step(p, x, offsets, cache)?;
        }
        match &self.norm {
            Some(norm) => Ok(norm.forward(p, x.view())?.0),
            None => Ok(x),
        }
    }

    /// Returns the gradient of x and adds the parameter gradients to `grads`. It stops early at a layer below which
    /// everything is frozen, and then returns the gradient of that layer's output.
    ///
    /// # Shapes
    /// `dy` and the returned dx (tokens, d_model).
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn backward<T: Real>(
        &self,
        p: &Params<T>,
        cache: &EncoderCache<T>,
        offsets: &Offsets,
        dy: Array2<T>,
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<Array2<T>> {
        self.backward_observed(p, (cache, offsets), dy, mode, grads, &mut |_, _| {})
    }

    /// Like [`Encoder::backward`]. Calls `observe` with the index of each layer and the gradient of its input, last
    /// layer first. Before that, it passes the gradient of the last layer's output, with the number of layers as index.
    fn backward_observed<T: Real>(
        &self,
        p: &Params<T>,
        (cache, offsets): (&EncoderCache<T>, &Offsets),
        mut dy: Array2<T>,
        mode: Mode,
        grads: &mut Params<T>,
        observe: &mut dyn FnMut(usize, &Array2<T>),
    ) -> Result<Array2<T>> {
        if let (Some(norm), Some((x, cached))) = (&self.norm, &cache.norm) {
            dy = norm.backward(p, x.view(), cached, dy.view(), None, grads)?;
        }
        observe(self.layers.len(), &dy);
        for (index, (layer, cache)) in self.layers.iter().zip(&cache.layers).enumerate().rev() {
            // Everything below is frozen and needs no gradients.
            if !grads.has_trained_before(layer.params_end()) {
                return Ok(dy);
            }
            dy = layer.backward(p, cache, offsets, dy, mode, grads)?;
            observe(index, &dy);
        }
        Ok(dy)
    }

    /// Traces the gradients of one layer, given the gradient of the encoder's output. The batch must be a single
    /// sequence in evaluation mode. The gradients of all parameters are added to `grads`, which must have no frozen
    /// parameters.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub(crate) fn trace_gradients<T: Real>(
        &self,
        p: &Params<T>,
        cache: (&EncoderCache<T>, &Offsets),
        dy: Array2<T>,
        layer: usize,
        grads: &mut Params<T>,
    ) -> Result<GradientTrace> {
        let mut around = [layer, layer + 1].map(|_| Array2::zeros((0, 0)));
        let mut watch = |index: usize, d: &Array2<T>| {
            if let Some(own) = index.checked_sub(layer).and_then(|at| around.get_mut(at)) {
                *own = to_f64(d.view());
            }
        };
        self.backward_observed(p, cache, dy, Mode::Eval, grads, &mut watch)?;
        Ok(self.layers[layer].trace_gradients(grads, around))
    }

    /// Traces the attention and the feed-forward network of a layer, for a batch of a single sequence.
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
        let feed_forward = Some(layer.trace_feed_forward(p, cache)?);
        Ok(AttentionTrace { feed_forward, ..layer.trace(p, cache, offsets)? })
    }

    /// Returns the parameters of the final norm.
    pub(crate) fn norm_parameters<T: Real>(&self, p: &Params<T>) -> Option<NormParameters> {
        self.norm.as_ref().and_then(|norm| norm.parameters(p))
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
        layers.try_for_each(|(layer, cache)| layer.trace(p, cache, offsets).map(|record| each(&record)))
    }

    /// Returns the attention weights of one layer, sequence and head: (tokens, tokens).
    ///
    /// # Errors
    /// If the sequence or head does not exist.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub fn attention_weights<T: Real>(
        &self,
        cache: &EncoderCache<T>,
        offsets: &Offsets,
        layer: usize,
        sequence: usize,
        head: usize,
    ) -> Result<Array2<T>> {
        self.layers[layer].attention_weights(&cache.layers[layer], offsets, sequence, head)
    }
}
