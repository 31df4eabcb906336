//! Attention of numbers whose type is known only when it runs.
//!
//! An element type matters where rows are read ([`super::rows`], [`super::decode`], [`super::differentiate`]) and where
//! results are written ([`super::finish`]). What lies between works on f32 and is compiled once, not for every type: it
//! takes arguments of this file.

use super::heads::{Heads, HeadsLayout};
use super::params::{Attention, AttentionParams, BackwardInputs};
use super::reference::{self, RowGradients};
use crate::low_precision::{DtypeSlice, F32Compute};
use crate::number::Element;
use half::{bf16, f16};
use std::ops::Deref;

/// As [`Heads`], of numbers whose type is known only when it runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnyHeads<'a> {
    pub(super) data: DtypeSlice<'a>,
    pub(super) layout: HeadsLayout<'a>,
}

impl<'a> AnyHeads<'a> {
    pub(super) fn new<T: F32Compute>(heads: Heads<'a, T>) -> Self {
        AnyHeads { data: T::erase(heads.data), layout: heads.layout }
    }

    /// Width of a row.
    #[inline(always)]
    pub(super) fn dim(&self) -> usize {
        self.layout.dim
    }

    /// Writes row `i` of sequence `s` and head `h` to `to`, which is as long, as f32.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline(always)]
    pub(super) fn read_row(&self, (s, h, i): (usize, usize, usize), to: &mut [f32]) {
        let (at, dim) = (self.layout.row_offset(s, h, i), self.layout.dim);
        match self.data {
            DtypeSlice::F32(data) => f32::widen(&data[at..][..dim], to),
            DtypeSlice::Bf16(data) => bf16::widen(&data[at..][..dim], to),
            DtypeSlice::F16(data) => f16::widen(&data[at..][..dim], to),
        }
    }
}

/// As [`Attention`]; queries, keys and values are of one type.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnyAttention<'a> {
    pub(super) query: AnyHeads<'a>,
    pub(super) key: AnyHeads<'a>,
    pub(super) value: AnyHeads<'a>,
    params: AttentionParams<'a, f32>,
}

impl<'a> AnyAttention<'a> {
    pub(super) fn new<T: F32Compute>(args: &Attention<'a, T>) -> Self {
        let [query, key, value] = [args.query, args.key, args.value].map(AnyHeads::new);
        AnyAttention { query, key, value, params: args.params }
    }
}

impl<'a> Deref for AnyAttention<'a> {
    type Target = AttentionParams<'a, f32>;
    #[inline(always)]
    fn deref(&self) -> &AttentionParams<'a, f32> {
        &self.params
    }
}

/// As [`AnyAttention`], with what the backward pass is given beside.
#[derive(Clone, Copy)]
pub(super) struct AnyBackwardInputs<'a> {
    pub(super) args: &'a AnyAttention<'a>,
    pub(super) output: AnyHeads<'a>,
    pub(super) log_sum_exp: &'a [f32],
    pub(super) d_output: AnyHeads<'a>,
    pub(super) d_log_sum_exp: Option<&'a [f32]>,
    pub(super) reference: &'a dyn ReferenceBackward,
}

impl<'a> AnyBackwardInputs<'a> {
    pub(super) fn new<T: F32Compute>(
        args: &'a AnyAttention<'a>,
        saved: BackwardInputs<'a, T>,
        plain: &'a dyn ReferenceBackward,
    ) -> Self {
        let BackwardInputs { output, log_sum_exp, d_output, d_log_sum_exp } = saved;
        let [output, d_output] = [output, d_output].map(AnyHeads::new);
        AnyBackwardInputs { args, output, log_sum_exp, d_output, d_log_sum_exp, reference: plain }
    }
}

/// The plain backward pass of a call, a query at a time, for what does not know the type of its numbers.
pub(super) trait ReferenceBackward: Sync {
    /// As [`reference::attention_row_backward`].
    fn row(&self, s: usize, h: usize, i: usize) -> RowGradients;
    /// As [`RowGradients::add_to_key`].
    fn add_to_key(
        &self,
        row: &RowGradients,
        query: (usize, usize, usize),
        j: usize,
        d_key: &mut [f32],
        d_value: &mut [f32],
    );
}

impl<T: Element> ReferenceBackward for (&Attention<'_, T>, BackwardInputs<'_, T>) {
    fn row(&self, s: usize, h: usize, i: usize) -> RowGradients {
        reference::attention_row_backward(self.0, self.1, s, h, i)
    }
    fn add_to_key(
        &self,
        row: &RowGradients,
        place: (usize, usize, usize),
        j: usize,
        d_key: &mut [f32],
        d_value: &mut [f32],
    ) {
        row.add_to_key(self.0, self.1, place, j, d_key, d_value);
    }
}
