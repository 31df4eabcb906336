//! The decoder: layers one after another, each attending to the encoder's output.

use super::trace::{AttentionTrace, GradientTrace};
use super::{
    DecoderGradients, DecoderInput, DecoderLayer, DecoderLayerCache, DecoderLayerState, EncoderConfig, Memory, Mode,
    Norm, NormCache, NormOrder, Offsets, to_f64, zeros,
};
use crate::Result;
use crate::params::{Builder, Params};
use chumoku_kernels::Real;
use ndarray::Array2;

/// A stack of [`DecoderLayer`]s (Vaswani et al. 2017, figure 1, right); with pre-norm, one more normalises the output.
#[derive(Clone, Debug)]
pub struct Decoder {
    layers: Vec<DecoderLayer>,
    norm: Option<Norm>,
}

/// What a [`Decoder`] remembers.
#[derive(Clone, Debug)]
pub struct DecoderCache<T> {
    layers: Vec<DecoderLayerCache<T>>,
    norm: Option<(Array2<T>, NormCache<T>)>,
}

/// What a [`Decoder`] keeps from step to step.
#[derive(Clone, Debug)]
pub struct DecoderState<T: Real> {
    layers: Vec<DecoderLayerState<T>>,
}

impl Decoder {
    /// Adds `layers.0`, …, and `norm` for pre-norm.
    ///
    /// A decoder is causal, whatever the configuration says.
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

    /// The output of the last layer, and what `backward` needs of the computation.
    ///
    /// # Shapes
    /// `x` (target tokens, d_model) → the same.
    ///
    /// # Errors
    /// If the shapes do not fit.
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

    /// The gradients of x and of the memory.
    ///
    /// # Shapes
    /// `dy` and dx (target tokens, d_model), the memory's gradient (source tokens, d_model).
    ///
    /// # Errors
    /// If the shapes do not fit.
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

    /// As [`Decoder::backward`]; `watch` sees what [`DecoderLayer::backward_watched`] shows of each layer, after its number.
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

    /// The gradients in one attention of a layer, and in the feed-forward network with the attention to the memory, from that
    /// of the decoder's output: of a batch of one pair, in use. Those of all parameters are added to `grads`, in which none
    /// may be frozen.
    ///
    /// # Panics
    /// If there is no such layer.
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

    /// The start of decoding against a memory, with room for `capacity` tokens of each sequence; it grows.
    ///
    /// # Errors
    /// If the shapes do not fit, or the memory cannot be had.
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

    /// New tokens, which follow those that the state has seen: what [`Decoder::forward`] over all tokens gives for them.
    ///
    /// # Shapes
    /// As in [`DecoderLayer::step`].
    ///
    /// # Errors
    /// If the shapes do not fit.
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

    /// What an attention of a layer was given and made, of a batch of one pair: to the memory with `is_cross`, else to
    /// the target itself.
    ///
    /// # Panics
    /// If there is no such layer.
    pub(crate) fn trace<T: Real>(
        &self,
        p: &Params<T>,
        cache: &DecoderCache<T>,
        input: DecoderInput<'_, T>,
        (layer, is_cross): (usize, bool),
    ) -> Result<AttentionTrace> {
        self.layers[layer].trace(p, &cache.layers[layer], input, is_cross)
    }

    /// The cross-attention weights of one layer, sequence and head: (target tokens, source tokens).
    ///
    /// # Errors
    /// If there is no such sequence or head.
    ///
    /// # Panics
    /// If there is no such layer.
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
    /// As [`DecoderLayerState::select`].
    ///
    /// # Errors
    /// If there is no such sequence or source.
    pub fn select(&mut self, sequences: &[usize], sources: &[usize]) -> Result<()> {
        self.layers.iter_mut().try_for_each(|layer| layer.select(sequences, sources))
    }
}
