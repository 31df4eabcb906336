//! Traces of layers for display: inputs, parameters, results and gradients in f64. The layers themselves record nothing.
//!
//! # Files
//!
//! - `decoder`: traces of the decoder's attentions
//! - `embeddings`: the vectors that add up to the input of the first layer
//! - `encoder`: traces of the encoder's layers
//! - `parameters`: the parameters of single layers

mod decoder;
mod embeddings;
mod encoder;
mod parameters;

pub use embeddings::{EmbeddingGradients, EmbeddingTrace, TokenTypeTrace};

use super::multi_head_attention::AttentionMatrices;
use super::sublayer::{Sublayer, SublayerCache};
use super::{FeedForward, FeedForwardCache, HeadActivation, Mode, NormOrder, to_f64};
use crate::Result;
use crate::params::Params;
use chumoku_kernels::{Activation, Real};
use ndarray::Array2;

/// A trace of one attention of a layer over one sequence, with its residual connection and normalization.
#[derive(Clone, Debug)]
pub struct AttentionTrace {
    /// The layer's input before any normalization: (queries, d_model).
    pub x: Array2<f64>,
    /// The input of keys and values, if it is not the input of queries: (keys, d_model).
    pub memory: Option<Array2<f64>>,
    /// The parameters of the attention.
    pub matrices: AttentionMatrices,
    /// The position of the normalization.
    pub order: NormOrder,
    /// The normalization, if any.
    pub norm: Option<NormParameters>,
    /// The model's own queries, keys and values in the kernel's layout: (tokens, heads · width) each.
    pub projected: [Array2<f64>; 3],
    /// The model's own attention weights of each head: (queries, keys).
    pub weights: Vec<Array2<f64>>,
    /// The model's own sum of x and the attention output: (queries, d_model).
    pub sum: Array2<f64>,
    /// The feed-forward network that follows, up to the layer's output. `None` if it was not requested or another
    /// attention follows.
    pub feed_forward: Option<FeedForwardTrace>,
}

/// A trace of the feed-forward network of a layer, with its residual connection and normalization.
#[derive(Clone, Debug)]
pub struct FeedForwardTrace {
    /// The position of the normalization.
    pub order: NormOrder,
    /// The normalization.
    pub norm: Option<NormParameters>,
    /// The parameters of the network.
    pub matrices: FeedForwardMatrices,
    /// The model's own output of the layer: (tokens, d_model).
    pub output: Array2<f64>,
}

/// The parameters of a feed-forward network: `f(x W_1 + b_1) W_2 + b_2` or, gated,
/// `(f(x W_1 + b_1) ∘ (x W_gate + b_gate)) W_2 + b_2`.
#[derive(Clone, Debug)]
pub struct FeedForwardMatrices {
    /// W_1 and b_1: (d_model, d_ff) and (1, d_ff).
    pub first: LinearMatrices,
    /// W_gate and b_gate of the same shapes, if the network is gated.
    pub gate: Option<LinearMatrices>,
    /// W_2 and b_2: (d_ff, d_model) and (1, d_model).
    pub second: LinearMatrices,
    /// The activation f.
    pub activation: Activation,
}

/// The parameters of a normalization.
#[derive(Clone, Debug)]
pub struct NormParameters {
    /// γ as a row.
    pub gamma: Array2<f64>,
    /// β as a row; `None` for RMS norm.
    pub beta: Option<Array2<f64>>,
    /// ε.
    pub epsilon: f64,
}

/// The gradients of a loss in one layer, for a batch of one sequence. Those of parameters have the parameters' layout.
#[derive(Clone, Debug)]
pub struct GradientTrace {
    /// The gradient of the traced output, as it arrives from the layers above: (tokens, d_model).
    pub output: Array2<f64>,
    /// The gradient of the input, before any normalization: (tokens, d_model).
    pub x: Array2<f64>,
    /// The gradients of the attention's parameters.
    pub attention: AttentionMatrices,
    /// The gradients of γ and β of the normalization around the attention.
    pub norm: Option<NormParameters>,
    /// The gradients of the feed-forward network that follows, if the trace includes it.
    pub feed_forward: Option<FeedForwardMatrices>,
    /// The gradients of γ and β of the normalization around the feed-forward network.
    pub feed_forward_norm: Option<NormParameters>,
}

/// The parameters of a linear layer in the form `x W + b`.
#[derive(Clone, Debug)]
pub struct LinearMatrices {
    /// W: (inputs, outputs).
    pub weight: Array2<f64>,
    /// b: (1, outputs).
    pub bias: Option<Array2<f64>>,
}

/// The parameters of the part of a head before its last layer: `norm(f(x W + b))`.
#[derive(Clone, Debug)]
pub struct DenseParameters {
    /// W and b.
    pub linear: LinearMatrices,
    /// The activation f.
    pub activation: HeadActivation,
    /// The normalization, if any.
    pub norm: Option<NormParameters>,
}

/// A trace of one attention, and the loss and its gradients in that layer.
#[derive(Clone, Debug)]
pub struct BackwardTrace {
    /// The attention.
    pub attention: AttentionTrace,
    /// The loss.
    pub loss: f64,
    /// The gradients of the loss.
    pub gradients: GradientTrace,
}

impl<T, C> SublayerCache<T, C> {
    /// Returns the input of the sublayer.
    fn sublayer_input(&self, order: NormOrder) -> &Array2<T> {
        match order {
            NormOrder::Pre => &self.norm_input,
            NormOrder::Post => &self.input,
        }
    }

    /// Returns the input of the sublayer and the sum `x + f(…)`, given the cache of the next sublayer.
    fn input_and_sum<'a, D>(&'a self, next: &'a SublayerCache<T, D>, order: NormOrder) -> [&'a Array2<T>; 2] {
        let sum = match order {
            NormOrder::Pre => next.sublayer_input(order),
            NormOrder::Post => &self.norm_input,
        };
        [self.sublayer_input(order), sum]
    }
}

impl Sublayer {
    /// Traces a feed-forward network: its parameters, and its output computed again.
    fn trace_feed_forward<T: Real>(
        &self,
        p: &Params<T>,
        network: &FeedForward,
        cache: &SublayerCache<T, FeedForwardCache<T>>,
    ) -> Result<FeedForwardTrace> {
        let (x, mode) = (cache.sublayer_input(self.order).clone(), Mode::Eval);
        let (output, _) = self.forward(p, x, mode, |x, then| network.forward_with_epilogue(p, x, then, mode))?;
        Ok(FeedForwardTrace {
            order: self.order,
            norm: self.norm.parameters(p),
            matrices: network.matrices(p),
            output: to_f64(output.view()),
        })
    }
}
