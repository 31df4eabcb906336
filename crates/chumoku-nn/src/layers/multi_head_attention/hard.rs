//! Hard attention: each query takes the value of the key with the largest weight (the first of equals).
//!
//! Trained with the straight-through estimator: the forward pass uses the one-hot weights H, the backward pass takes
//! them for `H + P − constant(P)` with P the soft weights. So values get `dV = Hᵀ dO`, which is exact, and queries and
//! keys what soft attention would give them for the same dO. No query × key array is held.
//!
//! Source: Bengio, Léonard and Courville, "Estimating or Propagating Gradients Through Stochastic Neurons" (2013).

use super::super::zeros;
use crate::Result;
use chumoku_kernels::{Attention, AttentionStatistics, Heads, Real, TopKeys};
use ndarray::Array2;

use super::Offsets;

/// The key that each query chose, in its sequence: (heads, query tokens). `None` where there was none to see.
#[derive(Clone, Debug)]
pub(super) struct ArgmaxKeys {
    keys: Vec<Option<usize>>,
    heads: usize,
}

impl ArgmaxKeys {
    /// What the queries choose.
    pub(super) fn compute<T: Real>(attention: &Attention<'_, T>, heads: usize) -> Result<ArgmaxKeys> {
        let (mut keys, mut weights) = (vec![None; attention.rows()], vec![T::ZERO; attention.rows()]);
        let top = TopKeys { count: 1, keys: &mut keys, weights: &mut weights };
        attention.statistics(AttentionStatistics { top: Some(top), ..AttentionStatistics::default() })?;
        Ok(ArgmaxKeys { keys, heads })
    }

    /// The key that a query chose; `token` counts in all sequences.
    pub(super) fn key(&self, head: usize, token: usize) -> Option<usize> {
        let tokens = self.keys.len() / self.heads;
        self.keys[head * tokens + token]
    }

    /// Heads of values that so many heads share.
    fn heads_per_value_head(&self, value_heads: usize) -> usize {
        self.heads / value_heads.max(1)
    }

    /// The chosen values, heads side by side, 0 where there was none: (query tokens, heads · value dim).
    pub(super) fn gather_values<T: Real>(&self, value: Heads<'_, T>, offsets: &Offsets) -> Array2<T> {
        let (dim, group) = (value.dim(), self.heads_per_value_head(value.heads()));
        let mut y = zeros((offsets.tokens(), self.heads * dim));
        for (s, range) in offsets.ranges().enumerate() {
            for token in range {
                let mut row = y.row_mut(token);
                let row = row.as_slice_mut().expect("arrays made here are packed");
                for (head, to) in row.chunks_exact_mut(dim).enumerate() {
                    if let Some(key) = self.key(head, token) {
                        to.copy_from_slice(value.row(s, head / group, key));
                    }
                }
            }
        }
        y
    }

    /// `dV = Hᵀ dO`: overwrites `d_value` (key tokens, value heads · value dim).
    pub(super) fn scatter_values_gradient<T: Real>(
        &self,
        d_heads: &Array2<T>,
        d_value: &mut Array2<T>,
        [queries, keys]: [&Offsets; 2],
        dim: usize,
    ) {
        let group = self.heads_per_value_head(d_value.ncols() / dim.max(1));
        d_value.fill(T::ZERO);
        for (queries, keys) in queries.ranges().zip(keys.ranges()) {
            for token in queries {
                for head in 0..self.heads {
                    let Some(key) = self.key(head, token) else { continue };
                    let mut to = d_value.row_mut(keys.start + key);
                    for i in 0..dim {
                        to[head / group * dim + i] += d_heads[[token, head * dim + i]];
                    }
                }
            }
        }
    }
}
