//! Hard attention: each query takes the value of the key with the largest weight (the first of equal keys).
//!
//! Training uses the straight-through estimator. The forward pass uses the one-hot weights H; the backward pass treats
//! them as `H + P − constant(P)`, where P are the soft weights. Values get `dV = Hᵀ dO`, which is exact. Queries and
//! keys get the gradients of soft attention for the same dO. No query × key array is held.
//!
//! Source: Bengio, Léonard and Courville, "Estimating or Propagating Gradients Through Stochastic Neurons" (2013).

use super::super::zeros;
use crate::Result;
use chumoku_kernels::{Attention, AttentionStatistics, Heads, Real, TopKeys};
use ndarray::Array2;

use super::Offsets;

/// The best key of each query within its sequence: (heads, query tokens). `None` if a query sees no key.
#[derive(Clone, Debug)]
pub(super) struct ArgmaxKeys {
    keys: Vec<Option<usize>>,
    heads: usize,
}

impl ArgmaxKeys {
    /// Finds the best key of each query.
    pub(super) fn compute<T: Real>(attention: &Attention<'_, T>, heads: usize) -> Result<ArgmaxKeys> {
        let (mut keys, mut weights) = (vec![None; attention.rows()], vec![T::ZERO; attention.rows()]);
        let top = TopKeys { count: 1, keys: &mut keys, weights: &mut weights };
        attention.statistics(AttentionStatistics { top: Some(top), ..AttentionStatistics::default() })?;
        Ok(ArgmaxKeys { keys, heads })
    }

    /// Returns the best key of a query; `token` counts over all sequences.
    pub(super) fn key(&self, head: usize, token: usize) -> Option<usize> {
        let tokens = self.keys.len() / self.heads;
        self.keys[head * tokens + token]
    }

    /// Returns the number of query heads that share a value head.
    fn heads_per_value_head(&self, value_heads: usize) -> usize {
        self.heads / value_heads.max(1)
    }

    /// Gathers the chosen values, with heads side by side and 0 without a key: (query tokens, heads · value dim).
    pub(super) fn gather_values<T: Real>(&self, value: Heads<'_, T>, offsets: &Offsets) -> Array2<T> {
        let (dim, group) = (value.dim(), self.heads_per_value_head(value.heads()));
        let mut y = zeros((offsets.tokens(), self.heads * dim));
        for (s, range) in offsets.ranges().enumerate() {
            for token in range {
                let mut row = y.row_mut(token);
                let row = row.as_slice_mut().expect("new arrays are contiguous");
                for (head, to) in row.chunks_exact_mut(dim).enumerate() {
                    if let Some(key) = self.key(head, token) {
                        to.copy_from_slice(value.row(s, head / group, key));
                    }
                }
            }
        }
        y
    }

    /// Computes `dV = Hᵀ dO` and overwrites `d_value` (key tokens, value heads · value dim).
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
