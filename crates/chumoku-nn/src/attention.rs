//! Hard and soft attention as free functions: a query is compared with keys and returns values.
//!
//! With scores `s = K q`, soft attention is `softargmax_β(s) = softmax(β s)`. Hard attention is the one-hot vector of
//! the largest score, the limit for a growing inverse temperature β. The transformer uses β = 1/√d.
//!
//! Sources: Bahdanau, Cho and Bengio (2015) for soft attention; Xu et al., "Show, Attend and Tell" (2015) for hard
//! attention; Vaswani et al. (2017) for the scale.
//!
//! ```
//! use chumoku_nn::attention::{hard_attention, soft_attention};
//! use ndarray::array;
//!
//! // A book of three recipes: keys describe the dish, values its ingredients.
//! let keys = array![[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]];
//! let values = array![[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
//! let query = array![[0.9, 0.1]];
//! let found = hard_attention(query.view(), keys.view(), values.view())?;
//! assert_eq!(found.output, array![[1.0, 0.0, 0.0]]);
//! let blend = soft_attention(query.view(), keys.view(), values.view(), 5.0)?;
//! assert!(blend.weights[[0, 0]] > blend.weights[[0, 2]] && blend.weights[[0, 2]] > blend.weights[[0, 1]]);
//! # Ok::<(), chumoku_nn::Error>(())
//! ```

use crate::Result;
use crate::layers::{contiguous, mat_mut, mat_ref, numbers, numbers_mut, zeros};
use chumoku_kernels::{MatRef, OutputInit, Precision, Real, gemm, softmax_backward, softmax_forward};
use ndarray::{Array2, ArrayView2};

/// The result of an attention lookup.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionOutput<T> {
    /// The attention weights: (queries, keys), rows summing to 1.
    pub weights: Array2<T>,
    /// The weighted mean of the values: (queries, value width).
    pub output: Array2<T>,
}

fn matmul<T: Real>(a: MatRef<'_, T>, b: MatRef<'_, T>) -> Result<Array2<T>> {
    let mut c = zeros((a.rows(), b.cols()));
    gemm(a, b, OutputInit::Zero, mat_mut(&mut c)?, Precision::Highest)?;
    Ok(c)
}

/// Soft attention, `weights = softmax(β Q Kᵀ)` and `output = weights V`.
///
/// # Shapes
/// `query` (queries, d), `key` (keys, d), `value` (keys, d_v).
///
/// # Errors
/// If the shapes do not match.
pub fn soft_attention<T: Real>(
    query: ArrayView2<'_, T>,
    key: ArrayView2<'_, T>,
    value: ArrayView2<'_, T>,
    beta: T,
) -> Result<AttentionOutput<T>> {
    let (query, key, value) = (contiguous(query), contiguous(key), contiguous(value));
    let scores = matmul(mat_ref(&query.view())?, mat_ref(&key.view())?.t())?.mapv_into(|s| s * beta);
    let mut weights = zeros(scores.dim());
    if !scores.is_empty() {
        softmax_forward(numbers(&scores.view()), scores.ncols(), numbers_mut(&mut weights))?;
    }
    let output = matmul(mat_ref(&weights.view())?, mat_ref(&value.view())?)?;
    Ok(AttentionOutput { weights, output })
}

/// Returns the gradients of query, key and value of [`soft_attention`].
///
/// # Shapes
/// Same as for the forward pass; `d_output` (queries, d_v).
///
/// # Errors
/// If the shapes do not match.
pub fn soft_attention_backward<T: Real>(
    [query, key, value]: [ArrayView2<'_, T>; 3],
    beta: T,
    attended: &AttentionOutput<T>,
    d_output: ArrayView2<'_, T>,
) -> Result<[Array2<T>; 3]> {
    let (query, key, value, d_output) = (contiguous(query), contiguous(key), contiguous(value), contiguous(d_output));
    let weights = attended.weights.view();
    // output = weights V  →  dV = weightsᵀ d_output, d_weights = d_output Vᵀ
    let d_value = matmul(mat_ref(&weights)?.t(), mat_ref(&d_output.view())?)?;
    let d_weights = matmul(mat_ref(&d_output.view())?, mat_ref(&value.view())?.t())?;
    // weights = softmax(β s)
    let mut d_scores = zeros(weights.dim());
    if !weights.is_empty() {
        let d = numbers_mut(&mut d_scores);
        softmax_backward(numbers(&weights), weights.ncols(), numbers(&d_weights.view()), d)?;
    }
    let d_scores = d_scores.mapv_into(|d| d * beta);
    // s = Q Kᵀ  →  dQ = ds K, dK = dsᵀ Q
    let d_query = matmul(mat_ref(&d_scores.view())?, mat_ref(&key.view())?)?;
    let d_key = matmul(mat_ref(&d_scores.view())?.t(), mat_ref(&query.view())?)?;
    Ok([d_query, d_key, d_value])
}

/// Hard attention: each query takes the value of its best key. Weights are one-hot; the first of equal keys wins.
///
/// The choice is piecewise constant, so only the values have a gradient: [`hard_attention_backward`].
///
/// # Shapes
/// Same as for [`soft_attention`].
///
/// # Errors
/// If the shapes do not match.
pub fn hard_attention<T: Real>(
    query: ArrayView2<'_, T>,
    key: ArrayView2<'_, T>,
    value: ArrayView2<'_, T>,
) -> Result<AttentionOutput<T>> {
    let (query, key, value) = (contiguous(query), contiguous(key), contiguous(value));
    let scores = matmul(mat_ref(&query.view())?, mat_ref(&key.view())?.t())?;
    let mut weights = zeros(scores.dim());
    for (scores, mut weights) in scores.rows().into_iter().zip(weights.rows_mut()) {
        let best = (0..scores.len()).reduce(|best, j| if scores[j] > scores[best] { j } else { best });
        if let Some(best) = best {
            weights[best] = T::ONE;
        }
    }
    let output = matmul(mat_ref(&weights.view())?, mat_ref(&value.view())?)?;
    Ok(AttentionOutput { weights, output })
}

/// Returns the gradient of the values of [`hard_attention`]: each key gets the gradients of the queries that chose it.
///
/// # Errors
/// If the shapes do not match.
pub fn hard_attention_backward<T: Real>(
    attended: &AttentionOutput<T>,
    d_output: ArrayView2<'_, T>,
) -> Result<Array2<T>> {
    let d_output = contiguous(d_output);
    matmul(mat_ref(&attended.weights.view())?.t(), mat_ref(&d_output.view())?)
}
