//! Multi-head attention, for self- and cross-attention alike.

mod config;
mod step;

pub use config::MultiHeadAttentionConfig;
pub use step::ProjectedMemory;

use super::{Linear, Mode, Offsets, array, matrix, matrix_mut, numbers, numbers_mut, packed, zeros};
use crate::Result;
use crate::params::{Builder, Init, ParamId, Params};
use chumoku_kernels::{
    Attention, Causal, Gradients, Heads, HeadsMut, Mask, Operand, Precision, Product, Real, Saved, Start, Then,
    add_column_sums, gemm,
};
use ndarray::{Array2, ArrayView2};
use std::ops::Range;

/// `concat(head_1, …, head_h) W_O` with `head_i = Attention(Q W_Qᵢ, K W_Kᵢ, V W_Vᵢ)` (Vaswani et al. 2017,
/// section 3.2.2).
///
/// Where queries, keys and values come from inputs of one width, their weights are one parameter
/// (`in_proj_weight`: queries, then keys, then values), and self-attention makes all three with one product.
#[derive(Clone, Debug)]
pub struct MultiHeadAttention {
    config: MultiHeadAttentionConfig,
    /// One fused weight, or three.
    weights: Result<ParamId, [ParamId; 3]>,
    bias: Option<ParamId>,
    output: Linear,
}

/// What attention reads.
#[derive(Clone, Copy, Debug)]
pub struct AttentionInput<'a, T> {
    /// Queries are made from this: (query tokens, d_model).
    pub query: ArrayView2<'a, T>,
    /// The sequences of `query`.
    pub query_offsets: &'a Offsets,
    /// Keys and values are made from these: (key tokens, key_width) and (key tokens, value_width);
    /// `None` is self-attention.
    pub memory: Option<[ArrayView2<'a, T>; 2]>,
    /// The sequences of `memory`; those of the queries for self-attention.
    pub key_offsets: &'a Offsets,
    /// A mask by position, beside causality.
    pub mask: Option<Mask<'a, T>>,
}

impl<'a, T> AttentionInput<'a, T> {
    /// Self-attention over `x`.
    pub fn of_self(x: ArrayView2<'a, T>, offsets: &'a Offsets) -> Self {
        AttentionInput { query: x, query_offsets: offsets, memory: None, key_offsets: offsets, mask: None }
    }
}

/// Heads side by side in the rows of `x`, from column `first` on.
fn heads_of<'a, T: Real>(
    x: &'a Array2<T>,
    first: usize,
    offsets: &'a Offsets,
    [heads, dim]: [usize; 2],
) -> Result<Heads<'a, T>> {
    // An empty batch has no column to start from.
    let data = x.as_slice().unwrap_or_default().get(first..).unwrap_or_default();
    Ok(Heads::packed(data, offsets.as_slice(), heads, dim, x.ncols())?)
}

/// The gradients of an [`AttentionInput`]: of `query`, and of `memory` where it was given.
pub type InputGradients<T> = (Array2<T>, Option<[Array2<T>; 2]>);

/// Projected queries, keys and values side by side or apart, the heads' output and their log-sum-exp.
#[derive(Clone, Debug)]
pub struct MultiHeadAttentionCache<T> {
    /// One array (tokens, queries | keys | values) for self-attention, else three.
    projected: Vec<Array2<T>>,
    heads: Array2<T>,
    log_sum_exp: Vec<T>,
}

impl MultiHeadAttention {
    /// Adds the projections to the model, named as in PyTorch.
    pub fn new(builder: &mut Builder, config: MultiHeadAttentionConfig) -> Self {
        let MultiHeadAttentionConfig { d_model, key_width, value_width, num_heads, .. } = config;
        let (keys, values) = (num_heads * config.head_dim, num_heads * config.value_dim);
        let weights = if key_width == d_model && value_width == d_model {
            // Each of the three parts starts as a square projection of its own would.
            let init = Init::glorot(d_model, keys);
            Ok(builder.add("in_proj_weight", &[2 * keys + values, d_model], init))
        } else {
            Err([
                builder.add("q_proj_weight", &[keys, d_model], Init::glorot(d_model, keys)),
                builder.add("k_proj_weight", &[keys, key_width], Init::glorot(key_width, keys)),
                builder.add("v_proj_weight", &[values, value_width], Init::glorot(value_width, values)),
            ])
        };
        let bias = config.bias.then(|| builder.add("in_proj_bias", &[2 * keys + values], Init::Zeros));
        let output = builder.scope("out_proj", |b| Linear::new(b, values, d_model, config.bias));
        MultiHeadAttention { config, weights, bias, output }
    }

    /// The sizes it was made with.
    pub fn config(&self) -> &MultiHeadAttentionConfig {
        &self.config
    }

    /// Rows of the fused weight that make queries, keys and values.
    fn parts(&self) -> [Range<usize>; 3] {
        let keys = self.config.num_heads * self.config.head_dim;
        let values = self.config.num_heads * self.config.value_dim;
        [0..keys, keys..2 * keys, 2 * keys..2 * keys + values]
    }

    /// What was projected, as the kernel reads it: queries, keys and values.
    fn views<'a, T: Real>(
        &self,
        projected: &'a [Array2<T>],
        [queries, keys]: [&'a Offsets; 2],
    ) -> Result<[Heads<'a, T>; 3]> {
        let c = &self.config;
        let view = |which: usize, offsets: &'a Offsets, dim: usize| match projected {
            [fused] => heads_of(fused, self.parts()[which].start, offsets, [c.num_heads, dim]),
            apart => heads_of(&apart[which], 0, offsets, [c.num_heads, dim]),
        };
        Ok([view(0, queries, c.head_dim)?, view(1, keys, c.head_dim)?, view(2, keys, c.value_dim)?])
    }

    /// The kernel's arguments; `diagonal` is where causality counts from.
    fn attention<'a, T: Real>(
        &'a self,
        [query, key, value]: [Heads<'a, T>; 3],
        diagonal: Causal,
        mode: Mode,
        precision: Precision,
    ) -> Attention<'a, T> {
        let c = &self.config;
        let mut attention = Attention::new(query, key, value).precision(precision);
        if c.causal {
            attention = attention.causal(diagonal);
        }
        match mode.attention(c.dropout, c.site) {
            Some(dropout) => attention.dropout(dropout),
            None => attention,
        }
    }

    /// The arguments of the kernel, over what was projected.
    fn kernel<'a, T: Real>(
        &'a self,
        input: &'a AttentionInput<'_, T>,
        projected: &'a [Array2<T>],
        mode: Mode,
        precision: Precision,
    ) -> Result<Attention<'a, T>> {
        let views = self.views(projected, [input.query_offsets, input.key_offsets])?;
        let attention = self.attention(views, Causal::TopLeft, mode, precision);
        Ok(match input.mask {
            Some(mask) => attention.mask(mask),
            None => attention,
        })
    }

    /// # Shapes
    /// The output is (query tokens, d_model). To be remembered: the input and the cache.
    ///
    /// # Errors
    /// If the shapes do not fit.
    pub fn forward<T: Real>(
        &self,
        p: &Params<T>,
        input: &AttentionInput<'_, T>,
        mode: Mode,
    ) -> Result<(Array2<T>, MultiHeadAttentionCache<T>)> {
        self.forward_then(p, input, Then::Nothing, mode)
    }

    /// As [`MultiHeadAttention::forward`], and what follows the output.
    pub(crate) fn forward_then<T: Real>(
        &self,
        p: &Params<T>,
        input: &AttentionInput<'_, T>,
        then: Then<'_, T>,
        mode: Mode,
    ) -> Result<(Array2<T>, MultiHeadAttentionCache<T>)> {
        let projected = self.project(p, input)?;
        let tokens = input.query.nrows();
        let width = self.config.num_heads * self.config.value_dim;
        let mut heads = zeros((tokens, width));
        let mut log_sum_exp = vec![T::ZERO; self.config.num_heads * tokens];
        let output = self.heads_mut(&mut heads, input.query_offsets, self.config.value_dim)?;
        self.kernel(input, &projected, mode, p.precision())?.forward_with_log_sum_exp(output, &mut log_sum_exp)?;
        let y = self.output.forward_then(p, heads.view(), then)?;
        Ok((y, MultiHeadAttentionCache { projected, heads, log_sum_exp }))
    }

    /// Rows of all heads side by side, to be written.
    fn heads_mut<'a, T: Real>(
        &self,
        x: &'a mut Array2<T>,
        offsets: &'a Offsets,
        dim: usize,
    ) -> Result<HeadsMut<'a, T>> {
        let stride = x.ncols();
        Ok(HeadsMut::packed(numbers_mut(x), offsets.as_slice(), self.config.num_heads, dim, stride)?)
    }

    fn project<T: Real>(&self, p: &Params<T>, input: &AttentionInput<'_, T>) -> Result<Vec<Array2<T>>> {
        if let (Ok(weight), None) = (&self.weights, input.memory) {
            return Ok(vec![self.product(p, input.query, p.transposed(*weight), 0..self.parts()[2].end)?]);
        }
        let [keys, values] = input.memory.unwrap_or([input.query; 2]);
        [input.query, keys, values].into_iter().enumerate().map(|(i, source)| self.project_part(p, source, i)).collect()
    }

    /// Queries (part 0), keys (1) or values (2) alone.
    fn project_part<T: Real>(&self, p: &Params<T>, x: ArrayView2<'_, T>, which: usize) -> Result<Array2<T>> {
        let part = self.parts()[which].clone();
        let weight = match &self.weights {
            Ok(weight) => p.matrix_rows(*weight, part.clone()),
            Err(weights) => p.matrix(weights[which]),
        };
        self.product(p, x, weight.t().into(), part)
    }

    /// `x Wᵀ + b`, with these rows of the bias.
    fn product<T: Real>(
        &self,
        p: &Params<T>,
        x: ArrayView2<'_, T>,
        b: Operand<'_, T>,
        rows: Range<usize>,
    ) -> Result<Array2<T>> {
        let x = packed(x);
        let (x, precision, outputs) = (x.view(), p.precision(), rows.len());
        let bias = self.bias.map(|bias| &p.slice(bias)[rows]);
        let product = Product { a: matrix(&x)?, b, bias, then: Then::Nothing, precision };
        array((x.nrows(), outputs), product.compute()?)
    }

    /// The gradients of the input: of the queries' and, unless it is self-attention, of the keys' and values' source.
    ///
    /// # Errors
    /// If the shapes do not fit.
    pub fn backward<T: Real>(
        &self,
        p: &Params<T>,
        input: &AttentionInput<'_, T>,
        cache: &MultiHeadAttentionCache<T>,
        dy: ArrayView2<'_, T>,
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<InputGradients<T>> {
        // y = heads W_Oᵀ
        let d_heads = self.output.backward(p, cache.heads.view(), dy, grads)?;
        // heads = attention(Q, K, V)
        let parts = self.parts();
        let rows = [input.query_offsets.tokens(), input.key_offsets.tokens(), input.key_offsets.tokens()];
        let shapes: [_; 3] = std::array::from_fn(|i| (rows[i], parts[i].len()));
        // Attention writes all of these and reads none of what they held.
        let mut d = shapes.map(|shape| {
            let numbers = grads.take_working(shape.0 * shape.1);
            Array2::from_shape_vec(shape, numbers).expect("as many as asked for")
        });
        let c = &self.config;
        let [query, key, value] = d.each_mut();
        let gradients = Gradients {
            query: self.heads_mut(query, input.query_offsets, c.head_dim)?,
            key: self.heads_mut(key, input.key_offsets, c.head_dim)?,
            value: self.heads_mut(value, input.key_offsets, c.value_dim)?,
            mask: None,
            sinks: None,
        };
        let (queries, width) = (input.query_offsets.as_slice(), parts[2].len());
        let (heads, d_heads) = (cache.heads.view(), d_heads.view());
        let read = |x| Heads::packed(x, queries, c.num_heads, c.value_dim, width);
        let saved = Saved {
            output: read(numbers(&heads))?,
            log_sum_exp: &cache.log_sum_exp,
            d_output: read(numbers(&d_heads))?,
            d_log_sum_exp: None,
        };
        self.kernel(input, &cache.projected, mode, p.precision())?.backward(saved, gradients)?;
        // Q = query W_Qᵀ + b_Q, and so for K and V
        let [keys, values] = input.memory.unwrap_or([input.query; 2]);
        let sources = [input.query, keys, values];
        let is_self = input.memory.is_none();
        let mut d_sources: Vec<Array2<T>> = Vec::with_capacity(3);
        for i in 0..3 {
            let (source, d) = (packed(sources[i]), d[i].view());
            let (d_matrix, part) = (matrix(&d)?, parts[i].clone());
            let (weight, d_weight) = match &self.weights {
                Ok(id) => (p.matrix_rows(*id, part.clone()), grads.matrix_rows_mut(*id, part.clone())),
                Err(ids) => (p.matrix(ids[i]), grads.matrix_mut(ids[i])),
            };
            gemm(d_matrix.t(), matrix(&source.view())?, Start::Keep, d_weight, p.precision())?;
            if is_self && i > 0 {
                // One input made all three: its gradients add up.
                gemm(d_matrix, weight, Start::Keep, matrix_mut(&mut d_sources[0])?, p.precision())?;
            } else {
                let (b, then, precision) = (weight.into(), Then::Nothing, p.precision());
                let product = Product { a: d_matrix, b, bias: None, then, precision };
                d_sources.push(array(source.dim(), product.compute()?)?);
            }
            if let Some(bias) = self.bias {
                add_column_sums(numbers(&d), &mut grads.slice_mut(bias)[part])?;
            }
        }
        d.into_iter().for_each(|d| grads.give_working(d.into_raw_vec_and_offset().0));
        let mut d_sources = d_sources.into_iter();
        let first = d_sources.next().expect("there is a gradient for the queries");
        let memory = d_sources.next().zip(d_sources.next()).map(|(keys, values)| [keys, values]);
        Ok((first, memory))
    }

    /// The attention weights of one sequence and head: (queries, keys), rows summing to 1.
    ///
    /// # Errors
    /// If there is no such sequence or head.
    pub fn weights<T: Real>(
        &self,
        input: &AttentionInput<'_, T>,
        cache: &MultiHeadAttentionCache<T>,
        sequence: usize,
        head: usize,
    ) -> Result<Array2<T>> {
        let args = self.kernel(input, &cache.projected, Mode::Eval, Precision::Highest)?;
        let weights = args.weights(sequence, head)?;
        let shape = (input.query_offsets.range(sequence).len(), input.key_offsets.range(sequence).len());
        Ok(Array2::from_shape_vec(shape, weights).expect("the kernel returns queries × keys weights"))
    }
}
