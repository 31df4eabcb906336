//! Decoding: new tokens attend to cached keys and values, or to a memory that was projected once.
//!
//! The results equal those of `forward` over all tokens, except for rounding: the kernels for few and for many queries
//! sum in different orders. At [`Precision::Highest`](chumoku_kernels::Precision::Highest) the difference is rounding
//! of f32. At lower levels it is the rounding of the factors in `forward`.

use super::super::zeros;
use super::{ArgmaxKeys, AttentionInput, Mode, MultiHeadAttention, Offsets, heads_view, heads_view_mut};
use crate::params::Params;
use crate::{Error, Result};
use chumoku_kernels::{Causal, Epilogue, Heads, KeyValueCache, Real};
use ndarray::{Array2, ArrayView2, Axis, concatenate};

/// The keys and values of cross-attention, projected once and used in every step.
#[derive(Clone, Debug)]
pub struct ProjectedMemory<T> {
    key: Array2<T>,
    value: Array2<T>,
    offsets: Offsets,
}

impl<T: Real> ProjectedMemory<T> {
    /// The sequences of the memory.
    pub fn offsets(&self) -> &Offsets {
        &self.offsets
    }

    /// Reorders the memory: sequence `sequences[i]` becomes sequence i; missing ones are dropped.
    ///
    /// # Errors
    /// If a sequence does not exist. The memory is then unchanged.
    pub fn select(&mut self, sequences: &[usize]) -> Result<()> {
        let count = self.offsets.sequences();
        if let Some(bad) = sequences.iter().find(|&&s| s >= count) {
            return Err(Error::UnknownSequence { count, found: *bad });
        }
        if sequences.iter().copied().eq(0..count) {
            return Ok(());
        }
        let gather = |x: &Array2<T>| {
            let rows: Vec<_> = sequences.iter().map(|&s| x.slice_axis(Axis(0), self.offsets.range(s).into())).collect();
            concatenate(Axis(0), &rows).unwrap_or_else(|_| zeros((0, x.ncols())))
        };
        (self.key, self.value) = (gather(&self.key), gather(&self.value));
        self.offsets = Offsets::from_lengths(sequences.iter().map(|&s| self.offsets.range(s).len()));
        Ok(())
    }
}

/// Checks that `x` has one row per token of `offsets`.
fn check_rows<T>(what: &'static str, x: &ArrayView2<'_, T>, offsets: &Offsets) -> Result<()> {
    match x.nrows() {
        found if found == offsets.tokens() => Ok(()),
        found => Err(chumoku_kernels::Error::Length { what, expected: offsets.tokens(), found }.into()),
    }
}

impl MultiHeadAttention {
    /// Returns an empty cache for [`MultiHeadAttention::step`] with capacity for `capacity` tokens per sequence; it
    /// grows on demand. With a window it holds at most about twice as many tokens as the window.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn key_value_cache<T: Real>(&self, sequences: usize, capacity: usize) -> Result<KeyValueCache<T>> {
        let c = &self.config;
        let cache = KeyValueCache::new(sequences, c.num_key_heads(), [c.head_dim, c.value_dim], capacity)?;
        Ok(match c.options.window {
            Some(window) => cache.window(window),
            None => cache,
        })
    }

    /// Computes causal self-attention of new tokens and appends them to the cache. The result equals that of `forward`
    /// over all tokens.
    ///
    /// # Shapes
    /// `x` (new tokens, d_model) in the sequences of `offsets`, the same as in the cache. A sequence may bring any
    /// number of tokens, including none. The output is (new tokens, d_model).
    ///
    /// # Errors
    /// If the layer is not causal, the shapes do not match, or the cache is full.
    pub fn step<T: Real>(
        &self,
        p: &Params<T>,
        x: ArrayView2<'_, T>,
        offsets: &Offsets,
        cache: &mut KeyValueCache<T>,
    ) -> Result<Array2<T>> {
        self.step_with_epilogue(p, x, offsets, cache, Epilogue::Identity)
    }

    /// Like [`MultiHeadAttention::step`], with an epilogue applied to the output.
    pub(crate) fn step_with_epilogue<T: Real>(
        &self,
        p: &Params<T>,
        x: ArrayView2<'_, T>,
        offsets: &Offsets,
        cache: &mut KeyValueCache<T>,
        epilogue: Epilogue<'_, T>,
    ) -> Result<Array2<T>> {
        if !self.config.causal {
            return Err(Error::NotCausal);
        }
        check_rows("attention: new tokens", &x, offsets)?;
        let projected = self.project(p, &AttentionInput::self_attention(x, offsets), Some(&cache.positions()))?;
        let [query, key, value] = self.head_views(&projected, [offsets; 2])?;
        cache.append(key, value)?;
        let views = [query, cache.key(), cache.value()];
        self.finish_step(p, views, Some(cache.lengths()), offsets, epilogue)
    }

    /// Projects the keys and values of cross-attention for [`MultiHeadAttention::step_cross_attention`].
    ///
    /// # Shapes
    /// `memory`: the inputs of keys and values, (key tokens, key_width) and (key tokens, value_width).
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn project_memory<T: Real>(
        &self,
        p: &Params<T>,
        [keys, values]: [ArrayView2<'_, T>; 2],
        offsets: &Offsets,
    ) -> Result<ProjectedMemory<T>> {
        check_rows("attention: keys", &keys, offsets)?;
        check_rows("attention: values", &values, offsets)?;
        let (mut key, value) = (self.project_one(p, keys, 1)?, self.project_one(p, values, 2)?);
        self.normalize_heads(p, &mut key, 1, 0)?;
        Ok(ProjectedMemory { key, value, offsets: offsets.clone() })
    }

    /// Computes cross-attention of new tokens to a projected memory. The result equals that of `forward`.
    ///
    /// Queries do not see each other, so several hypotheses of a beam search are simply several rows of one sequence.
    /// The memory is neither copied nor reordered for them.
    ///
    /// # Shapes
    /// `x` (new tokens, d_model) in the sequences of `offsets`, as many as in the memory. The output is (new tokens,
    /// d_model).
    ///
    /// # Errors
    /// If the layer is causal, or has windows or positions (the position of a query is unknown here), or the shapes do
    /// not match.
    pub fn step_cross_attention<T: Real>(
        &self,
        p: &Params<T>,
        x: ArrayView2<'_, T>,
        offsets: &Offsets,
        memory: &ProjectedMemory<T>,
    ) -> Result<Array2<T>> {
        self.step_cross_attention_with_epilogue(p, x, offsets, memory, Epilogue::Identity)
    }

    /// Like [`MultiHeadAttention::step_cross_attention`], with an epilogue applied to the output.
    pub(crate) fn step_cross_attention_with_epilogue<T: Real>(
        &self,
        p: &Params<T>,
        x: ArrayView2<'_, T>,
        offsets: &Offsets,
        memory: &ProjectedMemory<T>,
        then: Epilogue<'_, T>,
    ) -> Result<Array2<T>> {
        let c = &self.config;
        if c.causal || c.options.window.is_some() || c.uses_positions() {
            return Err(Error::PositionsInMemory);
        }
        check_rows("attention: new tokens", &x, offsets)?;
        let mut query = self.project_one(p, x, 0)?;
        self.normalize_heads(p, &mut query, 0, 0)?;
        let query = self.scale_queries(p, &query).unwrap_or(query);
        let key_heads = c.num_key_heads();
        let views = [
            heads_view(&query, 0, offsets, [c.num_heads, c.head_dim])?,
            heads_view(&memory.key, 0, &memory.offsets, [key_heads, c.head_dim])?,
            heads_view(&memory.value, 0, &memory.offsets, [key_heads, c.value_dim])?,
        ];
        self.finish_step(p, views, None, offsets, then)
    }

    /// Returns `epilogue(attention W_Oᵀ + b)`.
    fn finish_step<T: Real>(
        &self,
        p: &Params<T>,
        views: [Heads<'_, T>; 3],
        key_lengths: Option<&[usize]>,
        offsets: &Offsets,
        epilogue: Epilogue<'_, T>,
    ) -> Result<Array2<T>> {
        let c = &self.config;
        let mut attention = self.kernel_with_options(views, Causal::BottomRight, Mode::Eval, p.precision());
        if let Some(lengths) = key_lengths {
            attention = attention.key_lengths(lengths);
        }
        let heads = if c.options.hard_attention {
            ArgmaxKeys::compute(&attention, c.num_heads)?.gather_values(views[2], offsets)
        } else {
            let mut heads = zeros((offsets.tokens(), c.num_heads * c.value_dim));
            attention.forward(heads_view_mut(&mut heads, offsets, [c.num_heads, c.value_dim])?)?;
            heads
        };
        self.output.forward_with_epilogue(p, heads.view(), epilogue)
    }
}
