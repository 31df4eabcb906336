//! Computes the operator `Attention` with the kernels, and holds what both implementations share.

use super::float::{FloatElement, tensor, values, zero_vec};
use super::operator_params::{OperandLayout, OperatorParams};
use super::operator_schema::Inputs;
use crate::Result;
use crate::tensors::Tensor;
use chumoku_kernels::{Attention, Causal, Element, HeadsMut, Mask, MaskView, Real, ScoreStage, parallel};
use std::borrow::Cow;

/// Checked inputs, with past and new keys and values concatenated.
#[derive(Clone, Copy)]
pub(super) struct AttentionOperands<'a> {
    pub(super) params: &'a OperatorParams,
    pub(super) inputs: Inputs<'a>,
    /// Layout of all keys.
    pub(super) key: OperandLayout,
    pub(super) value: OperandLayout,
}

/// Y, and `qk_matmul_output` if requested.
pub(super) type OutputAndScores = (Tensor, Option<Tensor>);

/// The entries of a mask, flattened.
pub(super) enum MaskEntries<'a, S: Clone> {
    None,
    Boolean(Cow<'a, [bool]>),
    Additive(Cow<'a, [S]>),
}

impl AttentionOperands<'_> {
    /// Runs the kernels, with products and sums in `T`.
    pub(super) fn run<T: FloatElement + Real>(&self, wants_scores: bool) -> Result<OutputAndScores> {
        let problem = self.params;
        let query = values::<T>(self.inputs.query);
        let (key, value) = (values::<T>(self.inputs.key), values::<T>(self.inputs.value));
        let with_keys = |count| -> Result<Attention<T>> {
            let query = problem.query.heads(&query)?;
            let (key, value) = (self.key.first_rows(count).heads(&key)?, self.value.first_rows(count).heads(&value)?);
            let args = Attention::new(query, key, value).scale(problem.scale);
            Ok(problem.softcap.map_or(args, |cap| args.softcap(cap)))
        };
        let entries = self.mask_entries();
        let masked = self.with_masks(with_keys(problem.mask_keys)?, &entries)?;
        let place = problem.query.with_dim(problem.value.dim);
        let mut output = zero_vec("Y", &place.shape())?;
        masked.forward(HeadsMut::strided(&mut output, place.bhld(), place.strides())?)?;
        let output = tensor::<T>(output, &place.shape(), problem.float_type);
        if !wants_scores {
            return Ok((output, None));
        }

        let is_masked = problem.stage >= ScoreStage::Masked;
        let args = if is_masked { masked } else { with_keys(problem.total_keys)? };
        let shape = problem.scores_shape();
        let [_, heads, queries, total] = shape;
        let mut all: Vec<T> = zero_vec("qk_matmul_output", &shape)?;
        all.fill(T::round_from(problem.hidden_value()));
        let done = parallel::map_chunks(&mut all, (queries * total).max(1), |pair, all| -> Result<()> {
            let (s, h) = (pair / heads, pair % heads);
            let keys = if is_masked { problem.visible_keys(s) } else { total };
            let mut scores: Vec<T> = zero_vec("qk_matmul_output", &[queries, keys])?;
            args.scores(problem.stage, s, h, &mut scores)?;
            let rows = all.chunks_exact_mut(total).zip(scores.chunks_exact(keys.max(1)));
            rows.for_each(|(all, scores)| all[..keys].copy_from_slice(scores));
            Ok(())
        });
        done.into_iter().collect::<Result<()>>()?;
        Ok((output, Some(tensor(all, &shape, problem.float_type))))
    }

    pub(super) fn mask_entries<S: FloatElement>(&self) -> MaskEntries<'_, S> {
        match self.inputs.mask {
            None => MaskEntries::None,
            Some(Tensor::Bool(mask)) => MaskEntries::Boolean(match mask.as_slice() {
                Some(entries) => Cow::Borrowed(entries),
                None => Cow::Owned(mask.iter().copied().collect()),
            }),
            Some(mask) => MaskEntries::Additive(values(mask)),
        }
    }

    /// Adds causality, window, key lengths and mask. The mask may end before the keys do; `args` has only the keys that
    /// it covers.
    pub(super) fn with_masks<'a, T: Element>(
        &'a self,
        mut args: Attention<'a, T>,
        entries: &'a MaskEntries<'_, T::Sum>,
    ) -> Result<Attention<'a, T>> {
        let problem = self.params;
        // Position of query 0 among the keys.
        let diagonal = match (problem.past_keys, &problem.key_lengths) {
            (Some(past), _) => Causal::Offset(past as i64),
            (None, Some(_)) => Causal::BottomRight,
            (None, None) => Causal::TopLeft,
        };
        if problem.is_causal {
            args = args.causal(diagonal);
        }
        let [left, right] = problem.window;
        if left.is_some() || right.is_some() {
            args = args.window(left, right, diagonal);
        }
        if let Some(lengths) = &problem.key_lengths {
            args = args.key_lengths(lengths);
        }
        let shape = self.inputs.mask.map(Tensor::shape).unwrap_or_default();
        Ok(match entries {
            MaskEntries::None => args,
            MaskEntries::Boolean(entries) => args.mask(Mask::Boolean(MaskView::new(entries, shape)?)),
            MaskEntries::Additive(entries) => args.mask(Mask::Additive(MaskView::new(entries, shape)?)),
        })
    }
}
