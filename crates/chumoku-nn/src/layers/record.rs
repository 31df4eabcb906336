//! What one attention of a model was given and what it made, in f64, for whoever shows it.

use super::NormOrder;
use super::multi_head_attention::AttentionMatrices;
use crate::params::{ParamId, Params};
use chumoku_kernels::Real;
use ndarray::{Array2, ArrayView2};

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
    /// γ and β of the normalisation, rows.
    pub norm: [Array2<f64>; 2],
    /// The model's own queries, keys and values, as the kernel reads them: (tokens, heads · width) each.
    pub projected: [Array2<f64>; 3],
    /// The model's own weights, of each head: (queries, keys).
    pub weights: Vec<Array2<f64>>,
    /// The model's own sum of x and the attention's output: (queries, d_model).
    pub sum: Array2<f64>,
}

/// Numbers in f64.
pub(super) fn wide<T: Real>(x: ArrayView2<'_, T>) -> Array2<f64> {
    x.mapv(|x| x.to_f64())
}

/// A parameter of one axis as a row, in f64.
pub(super) fn row<T: Real>(p: &Params<T>, id: ParamId) -> Array2<f64> {
    let numbers: Vec<f64> = p.slice(id).iter().map(|x| x.to_f64()).collect();
    Array2::from_shape_vec((1, numbers.len()), numbers).expect("a row of all numbers")
}
