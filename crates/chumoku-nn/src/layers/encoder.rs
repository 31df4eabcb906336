//! The encoder: layers one after another.

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

/// What an [`Encoder`] remembers.
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

    /// The output of the last layer, and what `backward` needs of the computation.
    ///
    /// # Shapes
    /// `x` (tokens, d_model) → the same.
    ///
    /// # Errors
    /// If the shapes do not fit.
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

    /// As [`Encoder::forward`] in use, remembering nothing.
    ///
    /// # Errors
    /// If the shapes do not fit.
    pub fn infer<T: Real>(&self, p: &Params<T>, mut x: Array2<T>, offsets: &Offsets) -> Result<Array2<T>> {
        for layer in &self.layers {
            x = layer.forward(p, x, offsets, Mode::Eval)?.0;
        }
        match &self.norm {
            Some(norm) => Ok(norm.forward(p, x.view())?.0),
            None => Ok(x),
        }
    }

    /// What the first layer is given and what each layer makes of it, in use; the last normalised if the output is.
    ///
    /// # Errors
    /// If the shapes do not fit.
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

    /// Empty caches for [`Encoder::step`], one a layer: see [`super::MultiHeadAttention::key_value_cache`].
    ///
    /// # Errors
    /// If the memory cannot be had.
    pub fn key_value_caches<T: Real>(&self, sequences: usize, capacity: usize) -> Result<Vec<KeyValueCache<T>>> {
        self.layers.iter().map(|layer| layer.key_value_cache(sequences, capacity)).collect()
    }

    /// New tokens that follow those in the caches, in use: what [`Encoder::forward`] over all tokens gives for them.
    ///
    /// See [`super::MultiHeadAttention::step`].
    ///
    /// # Shapes
    /// `x` (new tokens, d_model) → the same; a cache for each layer.
    ///
    /// # Errors
    /// If the encoder is not causal, the shapes do not fit, or a cache cannot hold more.
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

    /// The gradient of x; those of the parameters are added to `grads`. Where a layer and all that was added to the model
    /// before it are frozen, it is the gradient of that layer's output.
    ///
    /// # Shapes
    /// `dy` and the dx returned (tokens, d_model).
    ///
    /// # Errors
    /// If the shapes do not fit.
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

    /// As [`Encoder::backward`]; `watch` sees the gradient of what each layer is given, by its number, after that of what the
    /// last one comes to, by the number of all.
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
            // Frozen from here down: nobody asks for these gradients.
            if !grads.has_trained_before(layer.params_end()) {
                return Ok(dy);
            }
            dy = layer.backward(p, cache, offsets, dy, mode, grads)?;
            observe(index, &dy);
        }
        Ok(dy)
    }

    /// The gradients in one layer, from that of the encoder's output: of a batch of one sequence, in use. Those of all
    /// parameters are added to `grads`, in which none may be frozen.
    ///
    /// # Panics
    /// If there is no such layer.
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

    /// What the attention of a layer was given and made, of a batch of one sequence, with the feed-forward network.
    ///
    /// # Panics
    /// If there is no such layer.
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

    /// The parameters of the normalisation behind the last layer.
    pub(crate) fn norm_parameters<T: Real>(&self, p: &Params<T>) -> Option<NormParameters> {
        self.norm.as_ref().and_then(|norm| norm.parameters(p))
    }

    /// What the attention of every layer in turn was given and made, without the feed-forward networks.
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

    /// The attention weights of one layer, sequence and head: (tokens, tokens).
    ///
    /// # Errors
    /// If there is no such sequence or head.
    ///
    /// # Panics
    /// If there is no such layer.
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
