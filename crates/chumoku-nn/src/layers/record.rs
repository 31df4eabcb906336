//! What one attention of a model was given and what it made, in f64, for whoever shows it.

use super::multi_head_attention::AttentionMatrices;
use super::{Norm, NormOrder};
use crate::params::Params;
use chumoku_kernels::Real;
use ndarray::Array2;

/// One attention of a layer over one sequence, with the residual connection and the normalisation around it.
#[derive(Clone, Debug)]
pub struct AttentionRecord {
    /// The layer's input, before any normalisation: (queries, d_model).
    pub x: Array2<f64>,
    /// What keys and values are made from, unless it is what queries are made from: (keys, d_model).
    pub memory: Option<Array2<f64>>,
    /// The parameters of the attention.
    pub matrices: AttentionMatrices,
    /// Where the normalisation stands.
    pub order: NormOrder,
    /// The normalisation; none where what comes is normalised already.
    pub norm: Option<NormRecord>,
    /// The model's own queries, keys and values, as the kernel reads them: (tokens, heads · width) each.
    pub projected: [Array2<f64>; 3],
    /// The model's own weights, of each head: (queries, keys).
    pub weights: Vec<Array2<f64>>,
    /// The model's own sum of x and the attention's output: (queries, d_model).
    pub sum: Array2<f64>,
}

/// The parameters of a normalisation.
#[derive(Clone, Debug)]
pub struct NormRecord {
    /// γ, a row.
    pub gamma: Array2<f64>,
    /// β, a row; RMS norm has none.
    pub beta: Option<Array2<f64>>,
    /// ε.
    pub epsilon: f64,
}

impl Norm {
    /// Its parameters, for whoever shows them.
    pub(super) fn record<T: Real>(&self, p: &Params<T>) -> Option<NormRecord> {
        self.rows(p).map(|(gamma, beta, epsilon)| NormRecord { gamma, beta, epsilon })
    }
}
