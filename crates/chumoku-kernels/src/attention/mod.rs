//! Scaled dot-product attention, forward and backward, over strided views and packed sequences:
//! `output = dropout(softmax(score(Q, K))) V` with `score = softcap(scale · Q Kᵀ) + ALiBi + additive mask`. The score
//! is −∞ where a boolean mask, the causal band, a window or a key length masks the key.
//!
//! Source: Vaswani et al., "Attention Is All You Need" (2017), equation 1; computed in blocks so that no query × key
//! array exists (Milakov and Gimelshein 2018; Dao et al., "FlashAttention", 2022).
//!
//! Masked values reach neither outputs nor gradients, even if they are NaN. A NaN that is attended to always
//! propagates. A query with nothing to attend to gets output 0, gradients 0 and log-sum-exp −∞.
//!
//! # Files
//!
//! - `backward`: gradients of queries, keys and values
//! - `bf16_engine`: engine of bf16 terms (AMX tiles or AVX-512 dot products)
//! - `blocks`: partition of the work into units and query blocks
//! - `cache`: keys and values of earlier tokens
//! - `decode`: one query against many keys
//! - `engine`: the trait of block multipliers
//! - `engine_choice`: choice of the engine for a call
//! - `explain`: description of the kernel that a call uses
//! - `finish`: division by row sums; output and log-sum-exp
//! - `forward`: the forward pass in blocks: the attention kernel
//! - `heads`: strided and packed views of heads
//! - `mask`: masks, causality, windows, key lengths
//! - `mask_gradient`: gradient of an additive mask; recomputes the scores
//! - `merge`: partial results merged by log-sum-exp
//! - `operands`: packed queries, keys and values, score tiles, accumulators
//! - `params`: `Attention`, the checked builder
//! - `plan`: the kernel choice as a result
//! - `reference`: the reference implementation, one query at a time: read this first
//! - `register_engine`: engine of f32 vectors
//! - `scores`: scores and weights at each stage, statistics of weights
//! - `softmax`: one row of scores to weights
//! - `softmax_backward`: gradient of the softmax of a block
//! - `staging`: rows converted for an engine; detection of NaN and infinity
//! - `transform`: softcap, ALiBi and masks between product and softmax
//! - `type_erased`: arguments whose dtype is known only at run time

// A file may use the groups above its own, and files to its left:
//
//   heads, mask, params; reference; type_erased                        arguments and reference implementation
//   engine, operands; register_engine, bf16_engine; engine_choice      block multipliers
//   softmax, transform; blocks, staging; finish                        operations on rows
//   plan; decode, forward; explain                                     the forward pass
//   softmax_backward; mask_gradient, backward                          the backward pass
//   cache, merge, scores                                               additional features
mod backward;
#[cfg(target_arch = "x86_64")]
mod bf16_engine;
mod blocks;
mod cache;
mod decode;
mod engine;
mod engine_choice;
mod explain;
mod finish;
mod forward;
mod heads;
mod mask;
mod mask_gradient;
mod merge;
mod operands;
mod params;
mod plan;
pub(crate) mod reference;
mod register_engine;
mod scores;
mod softmax;
mod softmax_backward;
mod staging;
mod transform;
mod type_erased;

pub use cache::KeyValueCache;
pub use heads::{Heads, HeadsMut};
pub use mask::{Causal, Mask, MaskView};
pub use merge::{PartialAttention, merge_attention};
pub use params::{Attention, AttentionDropout, BackwardInputs, Gradients};
pub use plan::AttentionPlan;
pub use scores::{AttentionStatistics, ScoreStage, TopKeys};

use crate::error::{Error, Result};
use crate::number::{DtypeDispatch, DtypeMatch, Element};
use crate::profile::{self, Cost, Operation};
use params::{ForwardOutputs, check_same_shape};
use type_erased::AnyAttention;

impl<T: Element> Attention<'_, T> {
    /// Computes the output.
    ///
    /// # Shapes
    /// `output` (batch, heads, L, value dim).
    ///
    /// # Errors
    /// If shapes, lengths, masks or values are invalid. The error names the argument.
    pub fn forward(&self, output: HeadsMut<'_, T>) -> Result<()> {
        self.forward_into(output, None)
    }

    /// Computes the output and the natural log-sum-exp of each query's scores, which [`Attention::backward`] needs.
    ///
    /// # Shapes
    /// `output` (batch, heads, L, value dim); `log_sum_exp` (batch, heads, L), or (heads, tokens) if sequences are
    /// packed.
    ///
    /// # Errors
    /// Same as [`Attention::forward`].
    pub fn forward_with_log_sum_exp(&self, output: HeadsMut<'_, T>, log_sum_exp: &mut [T::Sum]) -> Result<()> {
        self.forward_into(output, Some(log_sum_exp))
    }

    fn forward_into(&self, output: HeadsMut<'_, T>, log_sum_exp: Option<&mut [T::Sum]>) -> Result<()> {
        self.check()?;
        self.check_like_output("attention: output", output.as_heads())?;
        if let Some(log_sum_exp) = &log_sum_exp {
            self.check_rows("attention: log_sum_exp", log_sum_exp.len())?;
        }
        let widths = self.query.dim() + self.value.dim();
        for s in 0..self.query.sequences() {
            profile::count_multiply_adds(&[self.query.heads(), self.query.length(s), self.key.length(s), widths]);
        }
        let _timed = self.timed("attention", [1, 1], 1);
        match T::match_dtype::<ForwardPass>((self, ForwardOutputs { output, log_sum_exp })) {
            DtypeMatch::F32((args, results)) => forward::f32(args, results),
            DtypeMatch::Bf16((args, results)) => forward::bf16(args, results),
            DtypeMatch::F16((args, results)) => forward::f16(args, results),
            DtypeMatch::F64((args, results)) => reference::attention_forward(args, results),
        }
        Ok(())
    }

    /// Computes the gradients of query, key and value, and optionally of the additive mask and the sinks. Overwrites
    /// the previous contents.
    ///
    /// With P the weights, O the output and ∘ the elementwise product, and without dropout and softcap:
    /// `dV = Pᵀ dO`, `dS = P ∘ (dO Vᵀ − rowsum(dO ∘ O) + d log-sum-exp)`, `dQ = scale · dS K`, `dK = scale · dSᵀ Q`.
    /// The weights are recomputed from the log-sum-exp (Dao et al. 2022, algorithm 4).
    ///
    /// # Errors
    /// If shapes, lengths, masks or values are invalid. The error names the argument.
    pub fn backward(&self, saved: BackwardInputs<'_, T>, gradients: Gradients<'_, T>) -> Result<()> {
        self.check()?;
        self.check_like_output("attention: output", saved.output)?;
        self.check_like_output("attention: d_output", saved.d_output)?;
        self.check_rows("attention: log_sum_exp", saved.log_sum_exp.len())?;
        if let Some(d) = saved.d_log_sum_exp {
            self.check_rows("attention: d_log_sum_exp", d.len())?;
        }
        let like = |what, gradient: &HeadsMut<'_, T>, of: Heads<'_, T>| {
            check_same_shape(what, gradient.as_heads(), of, of.heads(), of.dim())
        };
        like("attention: d_query", &gradients.query, self.query)?;
        like("attention: d_key", &gradients.key, self.key)?;
        like("attention: d_value", &gradients.value, self.value)?;
        if let Some(d) = &gradients.mask {
            let Some(Mask::Additive(view)) = self.params.mask else {
                return Err(Error::value(
                    "attention: d_mask",
                    "expected an additive mask; only additive masks have a gradient",
                ));
            };
            let size = view.shape.iter().try_fold(1usize, |size, &axis| size.checked_mul(axis));
            Error::check_length("attention: d_mask", size.unwrap_or(usize::MAX), d.len())?;
        }
        if let Some(d) = &gradients.sinks {
            let Some(sinks) = self.params.sinks else {
                return Err(Error::value("attention: d_sinks", "expected `Attention::sinks` to be set"));
            };
            Error::check_length("attention: d_sinks", sinks.len(), d.len())?;
        }
        // dQ and dK in addition to the scores, dP and dV.
        let _timed = self.timed("attention, backward", [3, 2], 2);
        match T::match_dtype::<BackwardPass>((self, saved, gradients)) {
            DtypeMatch::F32((args, saved, gradients)) => backward::f32(args, saved, gradients),
            DtypeMatch::Bf16((args, saved, gradients)) => backward::bf16(args, saved, gradients),
            DtypeMatch::F16((args, saved, gradients)) => backward::f16(args, saved, gradients),
            DtypeMatch::F64((args, saved, gradients)) => reference::attention_backward(args, saved, gradients),
        }
        Ok(())
    }

    /// Times a pass with the given number of products of each width, which reads or writes all rows `times` times.
    fn timed(&self, name: &'static str, [of_keys, of_values]: [u64; 2], times: usize) -> profile::OperationGuard {
        profile::operation(|| {
            let (dim, value_dim) = (self.query.dim(), self.value.dim());
            let (mut pairs, mut queries, mut keys) = (0, 0, 0);
            for s in 0..self.query.sequences() {
                let (length, key_length) = (self.query.length(s), self.key.length(s));
                pairs += profile::saturating_product(&[self.query.heads(), length, key_length]);
                queries += length * self.query.heads();
                keys += key_length * self.key.heads();
            }
            let bytes = times * (queries + keys) * (dim + value_dim) * size_of::<T>();
            let multiply_adds = pairs * (of_keys * dim as u64 + of_values * value_dim as u64);
            let terms = self.explain().map_or(0, |plan| plan.terms);
            let cost = Cost::products(multiply_adds, (terms > 0).then_some(terms), bytes);
            (Operation::new(name, [dim, value_dim]), cost)
        })
    }

    /// Describes the kernel that [`Attention::forward`] uses: kernel, instruction set, blocks, scratch memory, and the
    /// reason.
    ///
    /// # Errors
    /// Same as [`Attention::forward`].
    pub fn explain(&self) -> Result<AttentionPlan> {
        self.check()?;
        Ok(match T::match_dtype::<ExplainCall>(self) {
            DtypeMatch::F32(args) => explain::explain(&AnyAttention::new(args)),
            DtypeMatch::Bf16(args) => explain::explain(&AnyAttention::new(args)),
            DtypeMatch::F16(args) => explain::explain(&AnyAttention::new(args)),
            DtypeMatch::F64(_) => AttentionPlan::reference(),
        })
    }
}

/// Checked arguments of the forward pass.
struct ForwardPass;

impl DtypeDispatch for ForwardPass {
    type Args<'a, T: Element> = (&'a Attention<'a, T>, ForwardOutputs<'a, T>);
}

/// Checked arguments of the backward pass.
struct BackwardPass;

impl DtypeDispatch for BackwardPass {
    type Args<'a, T: Element> = (&'a Attention<'a, T>, BackwardInputs<'a, T>, Gradients<'a, T>);
}

/// Arguments of [`Attention::explain`].
struct ExplainCall;

impl DtypeDispatch for ExplainCall {
    type Args<'a, T: Element> = &'a Attention<'a, T>;
}
