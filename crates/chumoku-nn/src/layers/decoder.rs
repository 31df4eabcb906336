//! The decoder: a stack of layers, each attending to the encoder's output.

use super::norm::{OptionalNorm, OptionalNormCache, borrowed};
use super::{
    ActivationHook, ActivationSite, DecoderGradients, DecoderInput, DecoderLayer, DecoderLayerCache, DecoderLayerState,
    EncoderConfig, Memory, Mode, NormOrder, Offsets, zeros,
};
use crate::Result;
use crate::params::{Builder, Params};
use chumoku_kernels::Real;
use ndarray::Array2;

/// A stack of [`DecoderLayer`]s (Vaswani et al. 2017, figure 1, right). With pre-norm, a final norm follows.
#[derive(Clone, Debug)]
pub struct Decoder {
    pub(super) layers: Vec<DecoderLayer>,
    pub(super) norm: OptionalNorm,
}

/// The cache of a [`Decoder`]'s forward pass.
#[derive(Clone, Debug)]
pub struct DecoderCache<T> {
    pub(super) layers: Vec<DecoderLayerCache<T>>,
    pub(super) norm: OptionalNormCache<T>,
}

/// The state of a [`Decoder`] during step-by-step decoding.
#[derive(Clone, Debug)]
pub struct DecoderState<T: Real> {
    layers: Vec<DecoderLayerState<T>>,
}

impl Decoder {
    /// Adds `layers.0`, …, and `norm` for pre-norm.
    ///
    /// A decoder is always causal; the configuration's `causal` is ignored.
    ///
    /// # Errors
    /// If the heads do not divide d_model.
    pub fn new(builder: &mut Builder, config: &EncoderConfig) -> Result<Self> {
        let layers = (0..config.num_layers)
            .map(|i| builder.scope(&format!("layers.{i}"), |b| DecoderLayer::new(b, config, i)))
            .collect::<Result<_>>()?;
        let norm = (config.norm_order == NormOrder::Pre).then(|| builder.scope("norm", |b| config.new_norm(b)));
        Ok(Decoder { layers, norm: OptionalNorm(norm) })
    }

    /// The layers, first to last.
    pub fn layers(&self) -> &[DecoderLayer] {
        &self.layers
    }

    /// Returns the output of the last layer, and the cache for `backward`.
    ///
    /// # Shapes
    /// `x` (target tokens, d_model) → the same.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn forward<T: Real>(
        &self,
        p: &Params<T>,
        mut x: Array2<T>,
        input: DecoderInput<'_, T>,
        mode: Mode,
    ) -> Result<(Array2<T>, DecoderCache<T>)> {
        let mut layers = Vec::with_capacity(self.layers.len());
        for layer in &self.layers {
            let (y, cache) = layer.forward(p, x, input, mode)?;
            layers.push(cache);
            x = y;
        }
        let (y, norm) = self.norm.forward(p, x)?;
        Ok((y, DecoderCache { layers, norm }))
    }

    /// Runs the layers from `first` on over the residual stream `x` in evaluation mode. `hook` sees the values at every
    /// site, and may change them. Returns the residual stream after the last layer, before the final norm.
    ///
    /// # Shapes
    /// `x` (target tokens, d_model) → the same. All its sequences attend to the one source of the memory.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub(crate) fn run_with_hook<T: Real>(
        &self,
        p: &Params<T>,
        mut x: Array2<T>,
        input: DecoderInput<'_, T>,
        first: usize,
        hook: ActivationHook<'_, T>,
    ) -> Result<Array2<T>> {
        for (index, layer) in self.layers.iter().enumerate().skip(first) {
            hook(ActivationSite::Residual(index), &mut x);
            x = layer.forward_with_hook(p, x, input, index, hook)?;
        }
        hook(ActivationSite::Residual(self.layers.len()), &mut x);
        Ok(x)
    }

    /// Returns the residual stream after the final norm, if the decoder has one.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub(crate) fn normalize<T: Real>(&self, p: &Params<T>, x: Array2<T>) -> Result<Array2<T>> {
        Ok(self.norm.forward(p, x)?.0)
    }

    /// Returns the gradients of x and of the memory.
    ///
    /// # Shapes
    /// `dy` and dx (target tokens, d_model), the memory's gradient (source tokens, d_model).
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn backward<T: Real>(
        &self,
        p: &Params<T>,
        cache: &DecoderCache<T>,
        input: DecoderInput<'_, T>,
        dy: Array2<T>,
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<[Array2<T>; 2]> {
        let mut d_memory = zeros(input.memory.output.dim());
        let mut d = self.norm.backward(p, borrowed(&cache.norm), dy, None, grads)?;
        for (layer, cache) in self.layers.iter().zip(&cache.layers).rev() {
            let gradients = DecoderGradients { params: grads, memory: &mut d_memory };
            d = layer.backward(p, cache, input, d, mode, gradients)?;
        }
        Ok([d, d_memory])
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
    ) -> Result<DecoderState<T>> {
        let layers =
            self.layers.iter().map(|layer| layer.start_decoding(p, memory, capacity)).collect::<Result<_>>()?;
        Ok(DecoderState { layers })
    }

    /// Decodes new tokens that follow those in the state. The result equals that of [`Decoder::forward`] over all
    /// tokens.
    ///
    /// # Shapes
    /// Same as in [`DecoderLayer::step`].
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn step<T: Real>(
        &self,
        p: &Params<T>,
        mut x: Array2<T>,
        offsets: [&Offsets; 2],
        state: &mut DecoderState<T>,
    ) -> Result<Array2<T>> {
        for (layer, state) in self.layers.iter().zip(&mut state.layers) {
            x = layer.step(p, x, offsets, state)?;
        }
        Ok(self.norm.forward(p, x)?.0)
    }
}

impl<T: Real> DecoderState<T> {
    /// Same as [`DecoderLayerState::select`].
    ///
    /// # Errors
    /// If a sequence or source does not exist.
    pub(crate) fn select(&mut self, sequences: &[usize], sources: &[usize]) -> Result<()> {
        self.layers.iter_mut().try_for_each(|layer| layer.select(sequences, sources))
    }
}
