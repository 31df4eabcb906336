//! The decoder: a stack of layers, each attending to the encoder's output.

use super::trace::{AttentionTrace, GradientTrace};
use super::{
    DecoderGradients, DecoderInput, DecoderLayer, DecoderLayerCache, DecoderLayerState, EncoderConfig, Memory, Mode,
    Norm, NormCache, NormOrder, Offsets, to_f64, zeros,
};
use crate::Result;
use crate::params::{Builder, Params};
use chumoku_kernels::Real;
use ndarray::Array2;

/// A stack of [`DecoderLayer`]s (Vaswani et al. 2017, figure 1, right). With pre-norm, a final norm follows.
#[derive(Clone, Debug)]
pub struct Decoder {
    layers: Vec<DecoderLayer>,
    norm: Option<Norm>,
}

/// The cache of a [`Decoder`]'s forward pass.
#[derive(Clone, Debug)]
pub struct DecoderCache<T> {
    layers: Vec<DecoderLayerCache<T>>,
    norm: Option<(Array2<T>, NormCache<T>)>,
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
        Ok(Decoder { layers, norm })
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
        let Some(norm) = &self.norm else { return Ok((x, DecoderCache { layers, norm: None })) };
        let (y, cache) = norm.forward(p, x.view())?;
        Ok((y, DecoderCache { layers, norm: Some((x, cache)) }))
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
        self.backward_observed(p, (cache, input), dy, mode, grads, &mut |_, _, _| {})
    }

    /// Like [`Decoder::backward`]. Calls `observe` with the layer's index and the arguments of
    /// [`DecoderLayer::backward_observed`].
    fn backward_observed<T: Real>(
        &self,
        p: &Params<T>,
        (cache, input): (&DecoderCache<T>, DecoderInput<'_, T>),
        mut dy: Array2<T>,
        mode: Mode,
        grads: &mut Params<T>,
        observe: &mut dyn FnMut(usize, usize, &Array2<T>),
    ) -> Result<[Array2<T>; 2]> {
        let mut d_memory = zeros(input.memory.output.dim());
        if let (Some(norm), Some((x, cached))) = (&self.norm, &cache.norm) {
            dy = norm.backward(p, x.view(), cached, dy.view(), None, grads)?;
        }
        for (index, (layer, cache)) in self.layers.iter().zip(&cache.layers).enumerate().rev() {
            let gradients = DecoderGradients { params: grads, memory: &mut d_memory };
            dy = layer
                .backward_observed(p, cache, input, dy, mode, gradients, &mut |part, d| observe(index, part, d))?;
        }
        Ok([dy, d_memory])
    }

    /// Traces the gradients of one attention of a layer, given the gradient of the decoder's output. With
    /// cross-attention, the trace includes the feed-forward network. The batch must be a single pair in evaluation
    /// mode. The gradients of all parameters are added to `grads`, which must have no frozen parameters.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub(crate) fn trace_gradients<T: Real>(
        &self,
        p: &Params<T>,
        of: (&DecoderCache<T>, DecoderInput<'_, T>),
        dy: Array2<T>,
        (layer, is_cross): (usize, bool),
        grads: &mut Params<T>,
    ) -> Result<GradientTrace> {
        let parts = if is_cross { [1, 3] } else { [0, 1] };
        let mut around = parts.map(|_| Array2::zeros((0, 0)));
        let mut watch = |index: usize, part: usize, d: &Array2<T>| {
            if let Some(at) = parts.iter().position(|own| (index, *own) == (layer, part)) {
                around[at] = to_f64(d.view());
            }
        };
        self.backward_observed(p, of, dy, Mode::Eval, grads, &mut watch)?;
        Ok(self.layers[layer].trace_gradients(grads, is_cross, around))
    }

    /// Starts decoding against a memory, with capacity for `capacity` tokens per sequence; it grows on demand.
    ///
    /// # Errors
    /// If the shapes do not match, or memory cannot be allocated.
    pub fn start_decoding<T: Real>(
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
        match &self.norm {
            Some(norm) => Ok(norm.forward(p, x.view())?.0),
            None => Ok(x),
        }
    }

    /// Traces an attention of a layer for a batch of a single pair: cross-attention with `is_cross`, else
    /// self-attention.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub(crate) fn trace<T: Real>(
        &self,
        p: &Params<T>,
        cache: &DecoderCache<T>,
        input: DecoderInput<'_, T>,
        (layer, is_cross): (usize, bool),
    ) -> Result<AttentionTrace> {
        self.layers[layer].trace(p, &cache.layers[layer], input, is_cross)
    }

    /// Returns the cross-attention weights of one layer, sequence and head: (target tokens, source tokens).
    ///
    /// # Errors
    /// If the sequence or head does not exist.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub fn cross_attention_weights<T: Real>(
        &self,
        cache: &DecoderCache<T>,
        input: DecoderInput<'_, T>,
        [layer, sequence, head]: [usize; 3],
    ) -> Result<Array2<T>> {
        self.layers[layer].cross_attention_weights(&cache.layers[layer], input, sequence, head)
    }
}

impl<T: Real> DecoderState<T> {
    /// Same as [`DecoderLayerState::select`].
    ///
    /// # Errors
    /// If a sequence or source does not exist.
    pub fn select(&mut self, sequences: &[usize], sources: &[usize]) -> Result<()> {
        self.layers.iter_mut().try_for_each(|layer| layer.select(sequences, sources))
    }
}
