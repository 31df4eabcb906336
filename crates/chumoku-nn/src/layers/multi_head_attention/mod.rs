//! Multi-head self- and cross-attention with its variants.
//!
//! # Files
//!
//! - `config`: sizes and variants
//! - `hard`: argmax attention and its straight-through gradient; replaces the kernel's output and dV
//! - `matrices`: parameters, kernel inputs and weights for display; ablation of heads
//! - `project`: projections of queries, keys, values and output; the inverse temperature β
//! - `step`: decoding with a cache

mod config;
mod hard;
mod matrices;
mod project;
mod step;

pub use config::{AttentionBias, AttentionOptions, MultiHeadAttentionConfig};
pub use matrices::AttentionMatrices;
pub use step::ProjectedMemory;

use super::{Linear, Mode, Norm, NormKind, Offsets, Rotary, alibi_slopes, numbers_mut, zeros};
use crate::params::{Builder, Init, ParamId, Params};
use crate::{Error, Result};
use chumoku_kernels::{Attention, BackwardInputs, Causal, Epilogue, Gradients, Heads, HeadsMut, Mask, Precision, Real};
use hard::ArgmaxKeys;
use ndarray::{Array2, ArrayView2};
use project::{ProjectionWeights, Projections};

/// `concat(head_1, …, head_h) W_O` with `head_i = Attention(Q W_Qᵢ, K W_Kᵢ, V W_Vᵢ)` (Vaswani et al. 2017,
/// section 3.2.2).
///
/// If queries, keys and values have inputs of one width, their weights are one parameter (`in_proj_weight`: queries,
/// then keys, then values). Self-attention then computes all three with one product.
///
/// [`AttentionOptions`] lists the variants: fewer key–value heads, heads of another width, normalized queries and keys,
/// windows, positions inside attention, another or a trained temperature, and hard attention.
#[derive(Clone, Debug)]
pub struct MultiHeadAttention {
    config: MultiHeadAttentionConfig,
    weights: ProjectionWeights,
    bias: Option<ParamId>,
    /// Factors β of the queries, one per head.
    beta: Option<ParamId>,
    output: Linear,
    /// The norms of each head's queries and keys.
    head_norms: Option<[Norm; 2]>,
    rotary: Option<Rotary>,
    /// The ALiBi slopes.
    slopes: Option<Vec<f32>>,
}

/// The input of attention.
///
/// Start from [`AttentionInput::self_attention`] and set the fields that differ, so that new fields do not break the
/// code: `AttentionInput { mask: Some(mask), ..AttentionInput::self_attention(x, &offsets) }`.
#[derive(Clone, Copy, Debug)]
pub struct AttentionInput<'a, T> {
    /// The input of queries: (query tokens, d_model).
    pub query: ArrayView2<'a, T>,
    /// The sequences of `query`.
    pub query_offsets: &'a Offsets,
    /// The inputs of keys and values: (key tokens, key_width) and (key tokens, value_width). `None` means
    /// self-attention.
    pub memory: Option<[ArrayView2<'a, T>; 2]>,
    /// The sequences of `memory`; for self-attention, those of the queries.
    pub key_offsets: &'a Offsets,
    /// A mask by position, in addition to causality.
    pub mask: Option<Mask<'a, T>>,
}

impl<'a, T> AttentionInput<'a, T> {
    /// Builds the input of self-attention over `x`.
    pub fn self_attention(x: ArrayView2<'a, T>, offsets: &'a Offsets) -> Self {
        AttentionInput { query: x, query_offsets: offsets, memory: None, key_offsets: offsets, mask: None }
    }
}

/// A view of heads side by side in the rows of `x`, from column `first` on.
fn heads_view<'a, T: Real>(
    x: &'a Array2<T>,
    first: usize,
    offsets: &'a Offsets,
    [heads, dim]: [usize; 2],
) -> Result<Heads<'a, T>> {
    // An empty batch has no column to start from.
    let data = x.as_slice().unwrap_or_default().get(first..).unwrap_or_default();
    Ok(Heads::packed(data, offsets.as_slice(), heads, dim, x.ncols())?)
}

/// The mutable counterpart of [`heads_view`].
fn heads_view_mut<'a, T: Real>(
    x: &'a mut Array2<T>,
    offsets: &'a Offsets,
    [heads, dim]: [usize; 2],
) -> Result<HeadsMut<'a, T>> {
    let stride = x.ncols();
    Ok(HeadsMut::packed(numbers_mut(x), offsets.as_slice(), heads, dim, stride)?)
}

/// The gradients of an [`AttentionInput`]: of `query`, and of `memory` if it was given.
pub(crate) type InputGradients<T> = (Array2<T>, Option<[Array2<T>; 2]>);

/// The cache of a [`MultiHeadAttention`] layer's forward pass.
#[derive(Clone, Debug)]
pub struct MultiHeadAttentionCache<T> {
    projected: Projections<T>,
    /// The output of soft attention with heads side by side, and its log-sum-exp.
    heads: Array2<T>,
    log_sum_exp: Vec<T>,
    /// In hard attention, the chosen keys and the output of the heads.
    hard: Option<(ArgmaxKeys, Array2<T>)>,
}

impl<T> MultiHeadAttentionCache<T> {
    /// Returns the outputs of the heads side by side, as W_O reads them.
    fn head_outputs(&self) -> &Array2<T> {
        self.hard.as_ref().map_or(&self.heads, |(_, chosen)| chosen)
    }
}

impl MultiHeadAttention {
    /// Adds the projections to the model, named as in PyTorch.
    pub fn new(builder: &mut Builder, config: MultiHeadAttentionConfig) -> Self {
        let MultiHeadAttentionConfig { d_model, key_width, value_width, num_heads, .. } = config;
        let (queries, keys) = (num_heads * config.head_dim, config.num_key_heads() * config.head_dim);
        let values = config.num_key_heads() * config.value_dim;
        let weights = if key_width == d_model && value_width == d_model {
            // Each of the three parts is initialized like a separate square projection.
            let init = Init::glorot(d_model, queries);
            ProjectionWeights::Fused(builder.add("in_proj_weight", &[queries + keys + values, d_model], init))
        } else {
            ProjectionWeights::Separate([
                builder.add("q_proj_weight", &[queries, d_model], Init::glorot(d_model, queries)),
                builder.add("k_proj_weight", &[keys, key_width], Init::glorot(key_width, keys)),
                builder.add("v_proj_weight", &[values, value_width], Init::glorot(value_width, values)),
            ])
        };
        let [has_bias, has_output_bias] = config.biases();
        let bias = has_bias.then(|| builder.add("in_proj_bias", &[queries + keys + values], Init::Zeros));
        let beta = config.options.train_beta.then(|| builder.add("beta", &[num_heads], Init::Ones));
        let heads = num_heads * config.value_dim;
        let output = builder.scope("out_proj", |b| Linear::new(b, heads, d_model, has_output_bias));
        let head_norms = config.options.head_norm_epsilon.map(|epsilon| {
            ["q_norm", "k_norm"]
                .map(|name| builder.scope(name, |b| Norm::new(b, NormKind::Rms, config.head_dim, epsilon)))
        });
        let slopes = (config.options.position == super::PositionKind::Alibi).then(|| alibi_slopes(num_heads));
        MultiHeadAttention { rotary: config.rotary(), config, weights, bias, beta, output, head_norms, slopes }
    }

    /// The sizes of the layer.
    pub(crate) fn config(&self) -> &MultiHeadAttentionConfig {
        &self.config
    }

    /// Builds the kernel's arguments. `diagonal` is the corner from which causality counts.
    fn kernel_with_options<'a, T: Real>(
        &'a self,
        [query, key, value]: [Heads<'a, T>; 3],
        diagonal: Causal,
        mode: Mode,
        precision: Precision,
    ) -> Attention<'a, T> {
        let c = &self.config;
        let mut attention = Attention::new(query, key, value).precision(precision);
        if let Some(beta) = c.options.beta {
            attention = attention.scale(beta);
        }
        if c.causal {
            attention = attention.causal(diagonal);
        }
        if let Some(window) = c.options.window {
            attention = attention.window(Some(window), Some(window), diagonal);
        }
        if let Some(slopes) = &self.slopes {
            attention = attention.alibi(slopes);
        }
        match mode.attention_dropout(c.dropout, c.dropout_site) {
            Some(dropout) if !c.options.hard_attention => attention.dropout(dropout),
            _ => attention,
        }
    }

    /// Builds the kernel's arguments for the projections of an input.
    fn kernel<'a, T: Real>(
        &'a self,
        input: &'a AttentionInput<'_, T>,
        projected: &'a Projections<T>,
        mode: Mode,
        precision: Precision,
    ) -> Result<Attention<'a, T>> {
        let views = self.head_views(projected, [input.query_offsets, input.key_offsets])?;
        let attention = self.kernel_with_options(views, Causal::TopLeft, mode, precision);
        Ok(match input.mask {
            Some(mask) => attention.mask(mask),
            None => attention,
        })
    }

    /// Computes attention of every head and projects it back to the width of the model. Returns the output and the
    /// cache for `backward`.
    ///
    /// # Shapes
    /// The output is (query tokens, d_model).
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn forward<T: Real>(
        &self,
        p: &Params<T>,
        input: &AttentionInput<'_, T>,
        mode: Mode,
    ) -> Result<(Array2<T>, MultiHeadAttentionCache<T>)> {
        self.forward_with_epilogue(p, input, Epilogue::Identity, mode)
    }

    /// Like [`MultiHeadAttention::forward`], with an epilogue applied to the output.
    pub(crate) fn forward_with_epilogue<T: Real>(
        &self,
        p: &Params<T>,
        input: &AttentionInput<'_, T>,
        epilogue: Epilogue<'_, T>,
        mode: Mode,
    ) -> Result<(Array2<T>, MultiHeadAttentionCache<T>)> {
        let cache = self.attend(p, input, mode)?;
        let y = self.output.forward_with_epilogue(p, cache.head_outputs().view(), epilogue)?;
        Ok((y, cache))
    }

    /// Returns the output in evaluation mode. `hook` may change the outputs of the heads, (tokens,
    /// heads · value width).
    pub(crate) fn forward_with_hook<T: Real>(
        &self,
        p: &Params<T>,
        input: &AttentionInput<'_, T>,
        hook: impl FnOnce(&mut Array2<T>),
    ) -> Result<Array2<T>> {
        let mut heads = self.attend(p, input, Mode::Eval)?.head_outputs().clone();
        hook(&mut heads);
        self.output.forward_with_epilogue(p, heads.view(), Epilogue::Identity)
    }

    /// Computes the outputs of all heads.
    fn attend<T: Real>(
        &self,
        p: &Params<T>,
        input: &AttentionInput<'_, T>,
        mode: Mode,
    ) -> Result<MultiHeadAttentionCache<T>> {
        if input.memory.is_some() && self.config.uses_positions() {
            return Err(Error::PositionsInCrossAttention);
        }
        let projected = self.project(p, input, None)?;
        let tokens = input.query.nrows();
        let c = &self.config;
        let mut heads = zeros((tokens, c.num_heads * c.value_dim));
        let mut log_sum_exp = vec![T::ZERO; c.num_heads * tokens];
        let output = heads_view_mut(&mut heads, input.query_offsets, [c.num_heads, c.value_dim])?;
        let attention = self.kernel(input, &projected, mode, p.precision())?;
        attention.forward_with_log_sum_exp(output, &mut log_sum_exp)?;
        let mut hard = None;
        if c.options.hard_attention {
            let [_, _, value] = self.head_views(&projected, [input.query_offsets, input.key_offsets])?;
            let choice = ArgmaxKeys::compute(&attention, c.num_heads)?;
            let chosen = choice.gather_values(value, input.query_offsets);
            hard = Some((choice, chosen));
        }
        Ok(MultiHeadAttentionCache { projected, heads, log_sum_exp, hard })
    }

    /// Returns the gradient of the query input and, in cross-attention, those of the key and value inputs.
    ///
    /// # Errors
    /// If the shapes do not match.
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
        let d_heads = self.output.backward(p, cache.head_outputs().view(), dy, grads)?;
        // heads = attention(Q, K, V)
        let (c, parts) = (&self.config, self.projection_ranges());
        let rows = [input.query_offsets.tokens(), input.key_offsets.tokens(), input.key_offsets.tokens()];
        let shapes: [_; 3] = std::array::from_fn(|i| (rows[i], parts[i].len()));
        // Attention overwrites all of these buffers.
        let mut d = shapes.map(|shape| {
            let numbers = grads.take_buffer(shape.0 * shape.1);
            Array2::from_shape_vec(shape, numbers).expect("the buffer has the requested length")
        });
        let key_heads = c.num_key_heads();
        let [query, key, value] = d.each_mut();
        let gradients = Gradients {
            query: heads_view_mut(query, input.query_offsets, [c.num_heads, c.head_dim])?,
            key: heads_view_mut(key, input.key_offsets, [key_heads, c.head_dim])?,
            value: heads_view_mut(value, input.key_offsets, [key_heads, c.value_dim])?,
            mask: None,
            sinks: None,
        };
        let shape = [c.num_heads, c.value_dim];
        let saved = BackwardInputs {
            output: heads_view(&cache.heads, 0, input.query_offsets, shape)?,
            log_sum_exp: &cache.log_sum_exp,
            d_output: heads_view(&d_heads, 0, input.query_offsets, shape)?,
            d_log_sum_exp: None,
        };
        self.kernel(input, &cache.projected, mode, p.precision())?.backward(saved, gradients)?;
        if let Some((choice, _)) = &cache.hard {
            // heads = H V: the kernel's gradient of the values is that of soft weights.
            let offsets = [input.query_offsets, input.key_offsets];
            choice.scatter_values_gradient(&d_heads, &mut d[2], offsets, c.value_dim);
        }
        self.project_backward(p, input, &cache.projected, d, grads)
    }
}
