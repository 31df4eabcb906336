//! Attention of numbers whose type is known only when it runs.
//!
//! An element type matters where rows are read ([`super::rows`], [`super::decode`]) and where results are written
//! ([`super::finish`]). What lies between works on f32 and is compiled once, not for every type: it takes arguments of this file.

use super::heads::{Heads, Layout};
use super::problem::{Attention, Problem, Saved};
use super::reference::{self, RowGradients};
use crate::narrow::{Narrow, Numbers};
use crate::number::Element;
use half::{bf16, f16};
use std::ops::Deref;

/// As [`Heads`], of numbers whose type is known only when it runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnyHeads<'a> {
    pub(super) numbers: Numbers<'a>,
    pub(super) layout: Layout<'a>,
}

impl<'a> AnyHeads<'a> {
    pub(super) fn new<T: Narrow>(heads: Heads<'a, T>) -> Self {
        AnyHeads { numbers: T::numbers(heads.data), layout: heads.layout }
    }

    /// Width of a row.
    #[inline(always)]
    pub(super) fn dim(&self) -> usize {
        self.layout.dim
    }

    /// Row `i` of sequence `s` and head `h` as f32: where it lies, or in `buffer`, which is as long.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline(always)]
    pub(super) fn row<'b>(&self, (s, h, i): (usize, usize, usize), buffer: &'b mut [f32]) -> &'b [f32]
    where
        'a: 'b,
    {
        if let Numbers::F32(data) = self.numbers {
            return &data[self.layout.at(s, h, i)..][..self.layout.dim];
        }
        self.widen((s, h, i), buffer);
        buffer
    }

    /// Writes row `i` of sequence `s` and head `h` to `to`, which is as long, as f32.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline(always)]
    pub(super) fn widen(&self, (s, h, i): (usize, usize, usize), to: &mut [f32]) {
        let (at, dim) = (self.layout.at(s, h, i), self.layout.dim);
        match self.numbers {
            Numbers::F32(data) => f32::widen(&data[at..][..dim], to),
            Numbers::Bf16(data) => bf16::widen(&data[at..][..dim], to),
            Numbers::F16(data) => f16::widen(&data[at..][..dim], to),
        }
    }
}

/// As [`Attention`]; queries, keys and values are of one type.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnyAttention<'a> {
    pub(super) query: AnyHeads<'a>,
    pub(super) key: AnyHeads<'a>,
    pub(super) value: AnyHeads<'a>,
    problem: Problem<'a, f32>,
}

impl<'a> AnyAttention<'a> {
    pub(super) fn new<T: Narrow>(args: &Attention<'a, T>) -> Self {
        let [query, key, value] = [args.query, args.key, args.value].map(AnyHeads::new);
        AnyAttention { query, key, value, problem: args.problem }
    }
}

impl<'a> Deref for AnyAttention<'a> {
    type Target = Problem<'a, f32>;
    #[inline(always)]
    fn deref(&self) -> &Problem<'a, f32> {
        &self.problem
    }
}

/// As [`AnyAttention`], with what the backward pass is given beside.
#[derive(Clone, Copy)]
pub(super) struct AnySaved<'a> {
    pub(super) args: &'a AnyAttention<'a>,
    pub(super) output: AnyHeads<'a>,
    pub(super) log_sum_exp: &'a [f32],
    pub(super) d_output: AnyHeads<'a>,
    pub(super) d_log_sum_exp: Option<&'a [f32]>,
    pub(super) plain: &'a dyn PlainBackward,
}

impl<'a> AnySaved<'a> {
    pub(super) fn new<T: Narrow>(
        args: &'a AnyAttention<'a>,
        saved: Saved<'a, T>,
        plain: &'a dyn PlainBackward,
    ) -> Self {
        let Saved { output, log_sum_exp, d_output, d_log_sum_exp } = saved;
        let [output, d_output] = [output, d_output].map(AnyHeads::new);
        AnySaved { args, output, log_sum_exp, d_output, d_log_sum_exp, plain }
    }
}

/// The plain backward pass of a call, a query at a time, for what does not know the type of its numbers.
pub(super) trait PlainBackward: Sync {
    /// As [`reference::attention_row_backward`].
    fn row(&self, s: usize, h: usize, i: usize) -> RowGradients;
    /// As [`RowGradients::add_to_key`].
    fn add_to_key(
        &self,
        row: &RowGradients,
        place: (usize, usize, usize),
        j: usize,
        d_key: &mut [f32],
        d_value: &mut [f32],
    );
}

impl<T: Element> PlainBackward for (&Attention<'_, T>, Saved<'_, T>) {
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
