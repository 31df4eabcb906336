//! Projections between inputs and the queries, keys and values of the kernel, in both directions. They include head
//! norms, rotary positions and β.

use super::super::{NormCache, array, contiguous, mat_mut, mat_ref, numbers, numbers_mut, zeros};
use super::{AttentionInput, InputGradients, MultiHeadAttention, Offsets, heads_view, heads_view_mut};
use crate::Result;
use crate::params::{ParamId, Params};
use chumoku_kernels::{
    Epilogue, FusedGemm, Heads, OutputInit, Real, Rhs, RotationDirection, add_column_sums, gemm, parallel,
};
use ndarray::{Array2, ArrayView2, Axis, Slice};
use std::ops::Range;

/// The weights of the projections of queries, keys and values.
#[derive(Clone, Debug)]
pub(super) enum ProjectionWeights {
    /// One parameter, because all inputs have one width: the rows of queries, then keys, then values.
    Fused(ParamId),
    /// A parameter each.
    Separate([ParamId; 3]),
}

impl ProjectionWeights {
    /// Returns the parameter of queries (part 0), keys (1) or values (2), and its rows. `part` has the rows of the
    /// fused weight.
    pub(super) fn rows_of(&self, which: usize, part: Range<usize>) -> (ParamId, Range<usize>) {
        match self {
            ProjectionWeights::Fused(weight) => (*weight, part),
            ProjectionWeights::Separate(weights) => (weights[which], 0..part.len()),
        }
    }
}

/// Queries, keys and values in the kernel's layout.
#[derive(Clone, Debug)]
pub(super) struct Projections<T> {
    /// One array (tokens, queries | keys | values) for self-attention, else three arrays.
    pub(super) parts: Vec<Array2<T>>,
    /// The caches of the query and key norms, if there are any.
    head_norms: Option<[HeadNormCache<T>; 2]>,
    /// The queries times β, if β is trained.
    pub(super) scaled_queries: Option<Array2<T>>,
}

/// The input of a head norm, (tokens · heads, width), and its cache.
type HeadNormCache<T> = (Array2<T>, NormCache<T>);

/// Rows per task.
const ROWS_PER_TASK: usize = 64;

impl MultiHeadAttention {
    /// Returns the row ranges of the fused weight for queries, keys and values.
    pub(super) fn projection_ranges(&self) -> [Range<usize>; 3] {
        let c = &self.config;
        let (queries, keys) = (c.num_heads * c.head_dim, c.num_key_heads() * c.head_dim);
        let values = c.num_key_heads() * c.value_dim;
        [0..queries, queries..queries + keys, queries + keys..queries + keys + values]
    }

    /// Projects queries, keys and values. The first token of sequence s has position `starts[s]`, or 0.
    pub(super) fn project<T: Real>(
        &self,
        p: &Params<T>,
        input: &AttentionInput<'_, T>,
        starts: Option<&[usize]>,
    ) -> Result<Projections<T>> {
        let mut parts = match (&self.weights, input.memory) {
            (ProjectionWeights::Fused(weight), None) => {
                vec![self.product(p, input.query, p.transposed_operand(*weight), 0..self.projection_ranges()[2].end)?]
            }
            (_, memory) => {
                let [keys, values] = memory.unwrap_or([input.query; 2]);
                let sources = [input.query, keys, values].into_iter().enumerate();
                sources.map(|(i, source)| self.project_one(p, source, i)).collect::<Result<_>>()?
            }
        };
        let normed = match &mut parts[..] {
            [fused] => [
                self.normalize_heads(p, fused, 0, 0)?,
                self.normalize_heads(p, fused, 1, self.projection_ranges()[1].start)?,
            ],
            apart => [self.normalize_heads(p, &mut apart[0], 0, 0)?, self.normalize_heads(p, &mut apart[1], 1, 0)?],
        };
        if let (Some(rotary), [fused]) = (&self.rotary, &mut parts[..]) {
            // Queries and keys are adjacent and rotated alike.
            let heads = self.config.num_heads + self.config.num_key_heads();
            let rows = heads_view_mut(fused, input.query_offsets, [heads, self.config.head_dim])?;
            rotary.rotate(rows, starts, RotationDirection::Forward)?;
        }
        let scaled = self.scale_queries(p, &parts[0]);
        let [queries, keys] = normed;
        Ok(Projections {
            parts,
            head_norms: queries.zip(keys).map(|(queries, keys)| [queries, keys]),
            scaled_queries: scaled,
        })
    }

    /// Normalizes queries (part 0) or keys (1) per head, starting at column `first`, if the layer has head norms.
    pub(super) fn normalize_heads<T: Real>(
        &self,
        p: &Params<T>,
        x: &mut Array2<T>,
        which: usize,
        first: usize,
    ) -> Result<Option<HeadNormCache<T>>> {
        let Some(norms) = &self.head_norms else { return Ok(None) };
        let (columns, dim) = (first..first + self.projection_ranges()[which].len(), self.config.head_dim);
        let mut part = x.slice_axis_mut(Axis(1), Slice::from(columns));
        let heads: Vec<T> = part.iter().copied().collect();
        let heads = array((heads.len() / dim, dim), heads)?;
        let (y, cache) = norms[which].forward(p, heads.view())?;
        part.iter_mut().zip(&y).for_each(|(x, &y)| *x = y);
        Ok(Some((heads, cache)))
    }

    /// Projects queries (part 0), keys (1) or values (2) alone.
    pub(super) fn project_one<T: Real>(&self, p: &Params<T>, x: ArrayView2<'_, T>, which: usize) -> Result<Array2<T>> {
        let part = self.projection_ranges()[which].clone();
        let weight = match &self.weights {
            // Decoding projects queries in every step, but keys and values only once.
            ProjectionWeights::Fused(weight) if which == 0 => p.transposed_rows_operand(*weight, part.len()),
            ProjectionWeights::Fused(weight) => p.matrix_rows(*weight, part.clone()).t().into(),
            ProjectionWeights::Separate(weights) => p.transposed_operand(weights[which]),
        };
        self.product(p, x, weight, part)
    }

    /// Returns `x Wᵀ + b`, with these rows of the bias.
    fn product<T: Real>(
        &self,
        p: &Params<T>,
        x: ArrayView2<'_, T>,
        b: Rhs<'_, T>,
        rows: Range<usize>,
    ) -> Result<Array2<T>> {
        let x = contiguous(x);
        let (x, precision, outputs) = (x.view(), p.precision(), rows.len());
        let bias = self.bias.map(|bias| &p.slice(bias)[rows]);
        let product = FusedGemm { a: mat_ref(&x)?, b, bias, epilogue: Epilogue::Identity, precision };
        array((x.nrows(), outputs), product.compute()?)
    }

    /// Returns `β_h q` for each head h, if β is trained. The queries are the first columns of `x`.
    pub(super) fn scale_queries<T: Real>(&self, p: &Params<T>, x: &Array2<T>) -> Option<Array2<T>> {
        let beta = p.slice(self.beta?);
        let (queries, width) = (self.projection_ranges()[0].len(), x.ncols());
        let mut scaled = zeros((x.nrows(), queries));
        if scaled.is_empty() {
            return Some(scaled);
        }
        let from = x.as_slice().unwrap_or_default();
        parallel::for_each_chunk(numbers_mut(&mut scaled), ROWS_PER_TASK * queries, |piece, to| {
            let from = &from[piece * ROWS_PER_TASK * width..];
            for (to, from) in to.chunks_exact_mut(queries).zip(from.chunks_exact(width)) {
                let heads = to.chunks_exact_mut(self.config.head_dim).zip(from.chunks_exact(self.config.head_dim));
                for ((to, from), &beta) in heads.zip(beta) {
                    to.iter_mut().zip(from).for_each(|(y, &x)| *y = beta * x);
                }
            }
        });
        Some(scaled)
    }

    /// Returns views of queries, keys and values for the kernel.
    pub(super) fn head_views<'a, T: Real>(
        &self,
        projected: &'a Projections<T>,
        [queries, keys]: [&'a Offsets; 2],
    ) -> Result<[Heads<'a, T>; 3]> {
        let c = &self.config;
        let view = |which: usize, offsets: &'a Offsets, shape: [usize; 2]| match &projected.parts[..] {
            [fused] => heads_view(fused, self.projection_ranges()[which].start, offsets, shape),
            apart => heads_view(&apart[which], 0, offsets, shape),
        };
        let key_heads = c.num_key_heads();
        let query = match &projected.scaled_queries {
            Some(scaled) => heads_view(scaled, 0, queries, [c.num_heads, c.head_dim])?,
            None => view(0, queries, [c.num_heads, c.head_dim])?,
        };
        Ok([query, view(1, keys, [key_heads, c.head_dim])?, view(2, keys, [key_heads, c.value_dim])?])
    }

    /// Returns the gradients of the input and adds those of the parameters. It consumes `d`, the gradients of the
    /// kernel's inputs.
    pub(super) fn project_backward<T: Real>(
        &self,
        p: &Params<T>,
        input: &AttentionInput<'_, T>,
        projected: &Projections<T>,
        mut d: [Array2<T>; 3],
        grads: &mut Params<T>,
    ) -> Result<InputGradients<T>> {
        self.beta_backward(p, projected, &mut d[0], grads);
        // Q, K = rotated(…)
        if let Some(rotary) = &self.rotary {
            let [query, key, _] = d.each_mut();
            let c = &self.config;
            let offsets = [input.query_offsets, input.key_offsets];
            for ((d, offsets), heads) in [query, key].into_iter().zip(offsets).zip([c.num_heads, c.num_key_heads()]) {
                rotary.rotate(heads_view_mut(d, offsets, [heads, c.head_dim])?, None, RotationDirection::Inverse)?;
            }
        }
        // Q, K = normalized(…)
        if let (Some(norms), Some(normed)) = (&self.head_norms, &projected.head_norms) {
            for ((norm, (heads, cache)), d) in norms.iter().zip(normed).zip(&mut d) {
                let shape = d.dim();
                let dy = array(heads.dim(), std::mem::take(d).into_raw_vec_and_offset().0)?;
                let dx = norm.backward(p, heads.view(), cache, dy.view(), None, grads)?;
                *d = array(shape, dx.into_raw_vec_and_offset().0)?;
            }
        }
        // Q = query W_Qᵀ + b_Q; same for K and V
        let [keys, values] = input.memory.unwrap_or([input.query; 2]);
        let sources = [input.query, keys, values];
        let is_self = input.memory.is_none();
        let parts = self.projection_ranges();
        let mut d_sources: Vec<Array2<T>> = Vec::with_capacity(3);
        for i in 0..3 {
            let (source, d) = (contiguous(sources[i]), d[i].view());
            let (d_matrix, part) = (mat_ref(&d)?, parts[i].clone());
            let (id, rows) = self.weights.rows_of(i, part.clone());
            let weight = p.matrix_rows(id, rows.clone());
            grads.add_weight_gradient(p, id, rows, d_matrix, mat_ref(&source.view())?)?;
            if is_self && i > 0 {
                // All three come from one input: its gradients add up.
                gemm(d_matrix, weight, OutputInit::Keep, mat_mut(&mut d_sources[0])?, p.precision())?;
            } else {
                let (b, then, precision) = (weight.into(), Epilogue::Identity, p.precision());
                let product = FusedGemm { a: d_matrix, b, bias: None, epilogue: then, precision };
                d_sources.push(array(source.dim(), product.compute()?)?);
            }
            if let Some(bias) = self.bias.filter(|&bias| grads.is_trained(bias)) {
                add_column_sums(numbers(&d), &mut grads.slice_mut(bias)[part])?;
            }
        }
        d.into_iter().for_each(|d| grads.return_buffer(d.into_raw_vec_and_offset().0));
        let mut d_sources = d_sources.into_iter();
        let first = d_sources.next().expect("there is a gradient for the queries");
        let memory = d_sources.next().zip(d_sources.next()).map(|(keys, values)| [keys, values]);
        Ok((first, memory))
    }

    /// Converts the gradient of `β_h q` into that of q in place, and adds the gradient of β. Since scores are linear in
    /// β, `dβ_h = Σ_tokens q · d(β_h q)`; then `dq = β_h d(β_h q)`.
    fn beta_backward<T: Real>(
        &self,
        p: &Params<T>,
        projected: &Projections<T>,
        d: &mut Array2<T>,
        grads: &mut Params<T>,
    ) {
        let Some(id) = self.beta.filter(|_| !d.is_empty()) else { return };
        let (query, dim) = (&projected.parts[0], self.config.head_dim);
        let (from, of) = (query.as_slice().unwrap_or_default(), query.ncols());
        let (to, width) = (d.as_slice_mut().expect("gradients are contiguous"), self.projection_ranges()[0].len());
        // One task per head: each sum keeps the order of the tokens.
        let head = |h: usize| {
            let mut sum = 0.0;
            for (q, d) in from.chunks_exact(of).zip(to.chunks_exact(width)) {
                let pairs = q[h * dim..][..dim].iter().zip(&d[h * dim..][..dim]);
                sum += pairs.map(|(&q, &d)| q * d).sum::<T>().to_f64();
            }
            sum
        };
        let sums = parallel::map_indices(self.config.num_heads, head);
        if grads.is_trained(id) {
            grads.slice_mut(id).iter_mut().zip(sums).for_each(|(d, sum)| *d += T::round_from(sum));
        }
        let beta = p.slice(id);
        parallel::for_each_chunk(to, ROWS_PER_TASK * width, |_, rows| {
            for (d, &beta) in rows.chunks_exact_mut(dim).zip(beta.iter().cycle()) {
                d.iter_mut().for_each(|d| *d *= beta);
            }
        });
    }
}
