//! What one attention of a model was given and what it made, in f64, for whoever shows it.

use super::NormOrder;
use super::multi_head_attention::AttentionMatrices;
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
    /// γ and β of the normalisation, rows.
    pub norm: [Array2<f64>; 2],
    /// The model's own queries, keys and values, as the kernel reads them: (tokens, heads · width) each.
    pub projected: [Array2<f64>; 3],
    /// The model's own weights, of each head: (queries, keys).
    pub weights: Vec<Array2<f64>>,
    /// The model's own sum of x and the attention's output: (queries, d_model).
    pub sum: Array2<f64>,
}
