//! Computes the operator `Attention` with the kernels, and holds what both implementations share.

use super::float::{FloatElement, numbers, room, tensor};
use super::problem::{Place, Problem};
use super::schema::Inputs;
use crate::Result;
use crate::tensors::Tensor;
use chumoku_kernels::{Attention, Causal, Element, HeadsMut, Mask, MaskView, Real, ScoreStage, parallel};
use std::borrow::Cow;

/// Checked inputs, with past and new keys and values concatenated.
#[derive(Clone, Copy)]
pub(super) struct Operands<'a> {
    pub(super) problem: &'a Problem,
    pub(super) inputs: Inputs<'a>,
    /// Layout of all keys.
    pub(super) key: Place,
    pub(super) value: Place,
}

/// Y, and `qk_matmul_output` if requested.
pub(super) type Results = (Tensor, Option<Tensor>);

/// The entries of a mask, flattened.
pub(super) enum Entries<'a, S: Clone> {
    None,
    Boolean(Cow<'a, [bool]>),
    Additive(Cow<'a, [S]>),
}

impl Operands<'_> {
    /// Runs the kernels, with products and sums in `T`.
    pub(super) fn run<T: FloatElement + Real>(&self, wants_scores: bool) -> Result<Results> {
        let problem = self.problem;
        let query = numbers::<T>(self.inputs.query);
        let (key, value) = (numbers::<T>(self.inputs.key), numbers::<T>(self.inputs.value));
        let with_keys = |count| -> Result<Attention<T>> {
            let query = problem.query.heads(&query)?;
            let (key, value) = (self.key.first(count).heads(&key)?, self.value.first(count).heads(&value)?);
            let args = Attention::new(query, key, value).scale(problem.scale);
            Ok(problem.softcap.map_or(args, |cap| args.softcap(cap)))
        };
        let entries = self.entries();
        let masked = self.masked(with_keys(problem.reach)?, &entries)?;
        let place = problem.query.with_dim(problem.value.dim);
        let mut output = room("Y", &place.shape())?;
        masked.forward(HeadsMut::strided(&mut output, place.bhld(), place.strides())?)?;
        let output = tensor::<T>(output, &place.shape(), problem.float);
        if !wants_scores {
            return Ok((output, None));
        }

        let is_masked = problem.stage >= ScoreStage::Masked;
        let args = if is_masked { masked } else { with_keys(problem.total)? };
        let shape = problem.scores_shape();
        let [_, heads, queries, total] = shape;
        let mut all: Vec<T> = room("qk_matmul_output", &shape)?;
        all.fill(T::round_from(problem.unseen()));
        let done = parallel::map_chunks(&mut all, (queries * total).max(1), |pair, all| -> Result<()> {
            let (s, h) = (pair / heads, pair % heads);
            let keys = if is_masked { problem.keys_of(s) } else { total };
            let mut scores: Vec<T> = room("qk_matmul_output", &[queries, keys])?;
            args.scores(problem.stage, s, h, &mut scores)?;
            let rows = all.chunks_exact_mut(total).zip(scores.chunks_exact(keys.max(1)));
            rows.for_each(|(all, scores)| all[..keys].copy_from_slice(scores));
            Ok(())
        });
        done.into_iter().collect::<Result<()>>()?;
        Ok((output, Some(tensor(all, &shape, problem.float))))
    }

    pub(super) fn entries<S: FloatElement>(&self) -> Entries<'_, S> {
        match self.inputs.mask {
            None => Entries::None,
            Some(Tensor::Bool(mask)) => Entries::Boolean(match mask.as_slice() {
                Some(entries) => Cow::Borrowed(entries),
                None => Cow::Owned(mask.iter().copied().collect()),
            }),
            Some(mask) => Entries::Additive(numbers(mask)),
        }
    }

    /// Adds causality, window, key lengths and mask. The mask may end before the keys do; `args` has only the keys that
    /// it covers.
    pub(super) fn masked<'a, T: Element>(
        &'a self,
        mut args: Attention<'a, T>,
        entries: &'a Entries<'_, T::Sum>,
    ) -> Result<Attention<'a, T>> {
        let problem = self.problem;
        // Position of query 0 among the keys.
        let diagonal = match (problem.past, &problem.key_lengths) {
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
            Entries::None => args,
            Entries::Boolean(entries) => args.mask(Mask::Boolean(MaskView::new(entries, shape)?)),
            Entries::Additive(entries) => args.mask(Mask::Additive(MaskView::new(entries, shape)?)),
        })
    }
}
