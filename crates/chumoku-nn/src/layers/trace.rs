//! What one attention of a model was given and what it made, and the feed-forward network behind it, in f64, for whoever
//! shows it.

use super::linear::LinearMatrices;
use super::multi_head_attention::AttentionMatrices;
use super::{Norm, NormOrder};
use crate::params::Params;
use chumoku_kernels::{Activation, Real};
use ndarray::Array2;

/// One attention of a layer over one sequence, with the residual connection and the normalisation around it.
#[derive(Clone, Debug)]
pub struct AttentionTrace {
    /// The layer's input, before any normalisation: (queries, d_model).
    pub x: Array2<f64>,
    /// What keys and values are made from, unless it is what queries are made from: (keys, d_model).
    pub memory: Option<Array2<f64>>,
    /// The parameters of the attention.
    pub matrices: AttentionMatrices,
    /// Where the normalisation stands.
    pub order: NormOrder,
    /// The normalisation; none where what comes is normalised already.
    pub norm: Option<NormParameters>,
    /// The model's own queries, keys and values, as the kernel reads them: (tokens, heads · width) each.
    pub projected: [Array2<f64>; 3],
    /// The model's own weights, of each head: (queries, keys).
    pub weights: Vec<Array2<f64>>,
    /// The model's own sum of x and the attention's output: (queries, d_model).
    pub sum: Array2<f64>,
    /// The feed-forward network that follows, up to the layer's output; none where it was not asked for, or where another
    /// attention follows.
    pub feed_forward: Option<FeedForwardTrace>,
}

/// The feed-forward network of a layer, with the residual connection and the normalisation around it.
#[derive(Clone, Debug)]
pub struct FeedForwardTrace {
    /// Where the normalisation stands.
    pub order: NormOrder,
    /// The normalisation.
    pub norm: Option<NormParameters>,
    /// The parameters of the network.
    pub matrices: FeedForwardMatrices,
    /// The model's own output of the layer: (tokens, d_model).
    pub output: Array2<f64>,
}

/// What a feed-forward network computes with: `f(x W_1 + b_1) W_2 + b_2` or, gated,
/// `(f(x W_1 + b_1) ∘ (x W_gate + b_gate)) W_2 + b_2`.
#[derive(Clone, Debug)]
pub struct FeedForwardMatrices {
    /// W_1 and b_1: (d_model, d_ff) and (1, d_ff).
    pub first: LinearMatrices,
    /// W_gate and b_gate, of the same shapes, where it is gated.
    pub gate: Option<LinearMatrices>,
    /// W_2 and b_2: (d_ff, d_model) and (1, d_model).
    pub second: LinearMatrices,
    /// f.
    pub activation: Activation,
}

/// The parameters of a normalisation.
#[derive(Clone, Debug)]
pub struct NormParameters {
    /// γ, a row.
    pub gamma: Array2<f64>,
    /// β, a row; RMS norm has none.
    pub beta: Option<Array2<f64>>,
    /// ε.
    pub epsilon: f64,
}

/// The gradients of a loss in one layer, of a batch of one sequence. Those of parameters lie as the parameters do.
#[derive(Clone, Debug)]
pub struct GradientTrace {
    /// Of what a record ends with, as it arrives from all that lies above: (tokens, d_model).
    pub output: Array2<f64>,
    /// Of the input, before any normalisation: (tokens, d_model).
    pub x: Array2<f64>,
    /// Of the parameters of the attention.
    pub attention: AttentionMatrices,
    /// Of γ and β of the normalisation around it.
    pub norm: Option<NormParameters>,
    /// Of the feed-forward network that follows, where the record has it.
    pub feed_forward: Option<FeedForwardMatrices>,
    /// Of γ and β of the normalisation around that.
    pub feed_forward_norm: Option<NormParameters>,
}

impl Norm {
    /// Its parameters, for whoever shows them.
    pub(super) fn parameters<T: Real>(&self, p: &Params<T>) -> Option<NormParameters> {
        self.parameter_rows(p).map(|(gamma, beta, epsilon)| NormParameters { gamma, beta, epsilon })
    }
}
