//! The encoder: a stack of layers.

use super::norm::{OptionalNorm, OptionalNormCache, borrowed};
use super::{ActivationHook, ActivationSite, EncoderConfig, EncoderLayer, EncoderLayerCache, Mode, NormOrder, Offsets};
use crate::Result;
use crate::params::{Builder, Params};
use chumoku_kernels::{KeyValueCache, Real};
use ndarray::Array2;

/// A stack of [`EncoderLayer`]s (Vaswani et al. 2017, figure 1, left).
#[derive(Clone, Debug)]
pub struct Encoder {
    pub(super) layers: Vec<EncoderLayer>,
    pub(super) norm: OptionalNorm,
}

/// The cache of an [`Encoder`]'s forward pass.
#[derive(Clone, Debug)]
pub struct EncoderCache<T> {
    pub(super) layers: Vec<EncoderLayerCache<T>>,
    pub(super) norm: OptionalNormCache<T>,
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
        Ok(Encoder { layers, norm: OptionalNorm(norm) })
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
        let (y, norm) = self.norm.forward(p, x)?;
        Ok((y, EncoderCache { layers, norm }))
    }

    /// Like [`Encoder::forward`] in evaluation mode, without a cache.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub(crate) fn infer<T: Real>(&self, p: &Params<T>, mut x: Array2<T>, offsets: &Offsets) -> Result<Array2<T>> {
        for layer in &self.layers {
            x = layer.forward(p, x, offsets, Mode::Eval)?.0;
        }
        Ok(self.norm.forward(p, x)?.0)
    }

    /// Runs the layers from `first` on over the residual stream `x` in evaluation mode. `hook` sees the values at every
    /// site, and may change them. Returns the residual stream after the last layer, before the final norm.
    ///
    /// # Shapes
    /// `x` (tokens, d_model) → the same.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub(crate) fn run_with_hook<T: Real>(
        &self,
        p: &Params<T>,
        mut x: Array2<T>,
        offsets: &Offsets,
        first: usize,
        hook: ActivationHook<'_, T>,
    ) -> Result<Array2<T>> {
        for (index, layer) in self.layers.iter().enumerate().skip(first) {
            hook(ActivationSite::Residual(index), &mut x);
            x = layer.forward_with_hook(p, x, offsets, index, hook)?;
        }
        hook(ActivationSite::Residual(self.layers.len()), &mut x);
        Ok(x)
    }

    /// Returns the residual stream after the final norm, if the encoder has one.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub(crate) fn normalize<T: Real>(&self, p: &Params<T>, x: Array2<T>) -> Result<Array2<T>> {
        Ok(self.norm.forward(p, x)?.0)
    }

    /// Returns the input of the first layer and the output of each layer, in evaluation mode. The final norm applies to
    /// the last one.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub(crate) fn hidden_states<T: Real>(
        &self,
        p: &Params<T>,
        x: Array2<T>,
        offsets: &Offsets,
    ) -> Result<Vec<Array2<T>>> {
        let mut states = vec![x];
        for layer in &self.layers {
            let last = states[states.len() - 1].clone();
            states.push(layer.forward(p, last, offsets, Mode::Eval)?.0);
        }
        if let Some(last) = states.pop() {
            states.push(self.norm.forward(p, last)?.0);
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
        Ok(self.norm.forward(p, x)?.0)
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
        let mut d = self.norm.backward(p, borrowed(&cache.norm), dy, None, grads)?;
        for (layer, cache) in self.layers.iter().zip(&cache.layers).rev() {
            // Everything below is frozen and needs no gradients.
            if !grads.has_trained_before(layer.params_end()) {
                return Ok(d);
            }
            d = layer.backward(p, cache, offsets, d, mode, grads)?;
        }
        Ok(d)
    }
}
