//! The parameters, inputs and weights of attention for display, and ablation of heads.

use super::{AttentionInput, AttentionOptions, Mode, MultiHeadAttention, MultiHeadAttentionCache};
use crate::Result;
use crate::layers::{row_f64, to_f64};
use crate::params::Params;
use chumoku_kernels::{Precision, Real};
use ndarray::{Array2, Axis, Slice};

/// The parameters of attention: `Q = x W_Q + b_Q`, and so on; biases are rows.
#[derive(Clone, Debug)]
pub struct AttentionMatrices {
    /// W_Q, W_K, W_V: (in, out).
    pub weights: [Array2<f64>; 3],
    /// b_Q, b_K, b_V: (1, out).
    pub biases: Option<[Array2<f64>; 3]>,
    /// W_O: (heads · value dim, d_model).
    pub output: Array2<f64>,
    /// b_O: (1, d_model).
    pub output_bias: Option<Array2<f64>>,
    /// γ of the query and key norms of each head, and their ε.
    pub head_norms: Option<([Vec<f64>; 2], f64)>,
    /// The trained factors β of the queries, one per head.
    pub betas: Option<Vec<f64>>,
    /// The ALiBi slope of each head, subtracted from the score per step of distance.
    pub slopes: Option<Vec<f64>>,
    /// The base of rotary positions.
    pub rotary_base: Option<f64>,
    /// The rotation angle of each pair of a head per step of position.
    pub rotary_speeds: Option<Vec<f64>>,
    /// Number of query heads.
    pub num_heads: usize,
    /// Number of key–value heads.
    pub num_key_heads: usize,
    /// True if query i sees only the keys 0..=i.
    pub causal: bool,
    /// Variants of attention.
    pub options: AttentionOptions,
}

impl MultiHeadAttention {
    /// Returns the parameters in f64.
    pub fn matrices<T: Real>(&self, p: &Params<T>) -> AttentionMatrices {
        let (c, parts) = (&self.config, self.projection_ranges());
        let weights = [0, 1, 2].map(|i| {
            let (id, rows) = self.weights.rows_of(i, parts[i].clone());
            to_f64(p.view(id).slice_axis(Axis(0), Slice::from(rows)).reversed_axes())
        });
        let biases = self.bias.map(|bias| {
            let whole = row_f64(p, bias);
            parts.map(|columns| whole.slice_axis(Axis(1), Slice::from(columns)).to_owned())
        });
        let output = self.output.matrices(p);
        AttentionMatrices {
            weights,
            biases,
            output: output.weight,
            output_bias: output.bias,
            head_norms: self.head_norms.as_ref().zip(c.options.head_norm_epsilon).map(|(norms, epsilon)| {
                let [queries, keys] = norms;
                ([queries.gamma(p), keys.gamma(p)], epsilon)
            }),
            betas: self.beta.map(|beta| p.slice(beta).iter().map(|x| x.to_f64()).collect()),
            slopes: self.slopes.as_ref().map(|slopes| slopes.iter().map(|&x| x.into()).collect()),
            rotary_base: self.rotary.as_ref().map(|_| c.options.rotary_base.unwrap_or(super::Rotary::BASE)),
            rotary_speeds: self.rotary.as_ref().map(|rotary| rotary.speeds().to_vec()),
            num_heads: c.num_heads,
            num_key_heads: c.num_key_heads(),
            causal: c.causal,
            options: c.options,
        }
    }

    /// Returns queries, keys and values as the kernel reads them, with β and rotary positions: (tokens, heads · width)
    /// each.
    pub(crate) fn kernel_inputs<T: Real>(&self, cache: &MultiHeadAttentionCache<T>) -> [Array2<f64>; 3] {
        let projected = &cache.projected;
        let mut each = self.projection_ranges().map(|columns| match &projected.parts[..] {
            [fused] => to_f64(fused.slice_axis(Axis(1), Slice::from(columns))),
            _ => Array2::zeros((0, 0)),
        });
        if let apart @ [_, _, _] = &projected.parts[..] {
            each.iter_mut().zip(apart).for_each(|(to, from)| *to = to_f64(from.view()));
        }
        if let Some(scaled) = &projected.scaled_queries {
            each[0] = to_f64(scaled.view());
        }
        each
    }

    /// Returns the attention weights of one sequence and head: (queries, keys), rows summing to 1.
    ///
    /// # Errors
    /// If the sequence or head does not exist.
    pub fn attention_weights<T: Real>(
        &self,
        input: &AttentionInput<'_, T>,
        cache: &MultiHeadAttentionCache<T>,
        sequence: usize,
        head: usize,
    ) -> Result<Array2<T>> {
        let args = self.kernel(input, &cache.projected, Mode::Eval, Precision::Highest)?;
        let mut weights = args.weights(sequence, head)?;
        if let Some((choice, _)) = &cache.hard {
            let keys = input.key_offsets.range(sequence).len().max(1);
            for (token, row) in input.query_offsets.range(sequence).zip(weights.chunks_exact_mut(keys)) {
                row.fill(T::ZERO);
                choice.key(head, token).into_iter().for_each(|key| row[key] = T::ONE);
            }
        }
        let shape = (input.query_offsets.range(sequence).len(), input.key_offsets.range(sequence).len());
        Ok(Array2::from_shape_vec(shape, weights).expect("the kernel returns queries × keys weights"))
    }

    /// Returns the result of `work` on the parameters with this head ablated, and restores the parameters. Only the
    /// packed copy of this layer's output projection is rebuilt.
    pub fn with_head_ablated<T: Real, R>(
        &self,
        p: &mut Params<T>,
        head: usize,
        work: impl FnOnce(&Params<T>) -> R,
    ) -> R {
        let kept = p.slice(self.output.weight).to_vec();
        self.ablate_head(p, head);
        let result = work(p);
        p.slice_mut(self.output.weight).copy_from_slice(&kept);
        result
    }

    /// Ablates the head: the rows of W_O that read it become 0.
    pub fn ablate_head<T: Real>(&self, p: &mut Params<T>, head: usize) {
        let (width, heads) = (self.config.value_dim, self.config.num_heads);
        let rows = p.slice_mut(self.output.weight).chunks_exact_mut((heads * width).max(1));
        rows.for_each(|row| row[head * width..][..width].fill(T::ZERO));
    }
}
