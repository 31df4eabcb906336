//! Type-erased arguments of attention: the dtype is known only at run time.
//!
//! The element type matters only where rows are read ([`super::staging`], [`super::decode`],
//! [`super::softmax_backward`]) and where results are written ([`super::finish`]). Everything in between works on f32
//! and takes the arguments of this file, so it is compiled once instead of once per dtype.

use super::heads::{Heads, HeadsLayout, QueryIndex};
use super::params::{Attention, AttentionParams, BackwardInputs};
use super::reference::{self, RowGradients};
use crate::low_precision::{DtypeSlice, F32Compute};
use crate::number::Element;
use half::{bf16, f16};
use std::ops::Deref;

/// [`Heads`] of a dtype that is known only at run time.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnyHeads<'a> {
    pub(super) data: DtypeSlice<'a>,
    pub(super) layout: HeadsLayout<'a>,
}

impl<'a> AnyHeads<'a> {
    pub(super) fn new<T: F32Compute>(heads: Heads<'a, T>) -> Self {
        AnyHeads { data: T::erase(heads.data), layout: heads.layout }
    }

    /// Returns the width of a row.
    #[inline(always)]
    pub(super) fn dim(&self) -> usize {
        self.layout.dim
    }

    /// Converts row `i` of sequence `s` and head `h` to f32 and writes it to `to`, which has the same length.
    ///
    /// # Panics
    /// If the row does not exist.
    #[inline(always)]
    pub(super) fn read_row(&self, QueryIndex { sequence: s, head: h, query: i }: QueryIndex, to: &mut [f32]) {
        let (at, dim) = (self.layout.row_offset(s, h, i), self.layout.dim);
        match self.data {
            DtypeSlice::F32(data) => f32::widen(&data[at..][..dim], to),
            DtypeSlice::Bf16(data) => bf16::widen(&data[at..][..dim], to),
            DtypeSlice::F16(data) => f16::widen(&data[at..][..dim], to),
        }
    }
}

/// [`Attention`] of a dtype that is known only at run time; queries, keys and values share the dtype.
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

/// [`AnyAttention`] with the additional inputs of the backward pass.
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

/// Type-erased access to the reference backward pass, one query at a time.
pub(super) trait ReferenceBackward: Sync {
    /// Calls [`reference::attention_row_backward`].
    fn row(&self, s: usize, h: usize, i: usize) -> RowGradients;
    /// Calls [`RowGradients::add_to_key`].
    fn add_to_key(&self, row: &RowGradients, query: QueryIndex, j: usize, d_key: &mut [f32], d_value: &mut [f32]);
}

impl<T: Element> ReferenceBackward for (&Attention<'_, T>, BackwardInputs<'_, T>) {
    fn row(&self, s: usize, h: usize, i: usize) -> RowGradients {
        reference::attention_row_backward(self.0, self.1, s, h, i)
    }
    fn add_to_key(&self, row: &RowGradients, query: QueryIndex, j: usize, d_key: &mut [f32], d_value: &mut [f32]) {
        row.add_to_key(self.0, self.1, query, j, d_key, d_value);
    }
}
