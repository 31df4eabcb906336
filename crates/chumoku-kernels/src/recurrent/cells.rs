//! Elementwise part of a recurrent step, forward and backward: all gates of all active sequences, in one pass over
//! memory.

use super::types::{Recurrence, RecurrentActivations, RecurrentCell};
use crate::gemm::MatRef;
use crate::isa::{Simd, SimdOp};
use crate::math::{sigmoid, tanh};
use crate::threads::SharedMut;
use std::mem::MaybeUninit;

/// A forward step of the active sequences, one row each.
pub(super) struct CellForward<'a> {
    pub(super) recurrence: &'a Recurrence<'a>,
    pub(super) sequences: &'a [usize],
    pub(super) step: usize,
    /// (rows, gates · hidden): s.
    pub(super) sums: &'a [f32],
    /// (rows, hidden): h′, overwritten by h.
    pub(super) h: &'a mut [f32],
    /// (rows, hidden): c′, overwritten by c; for the LSTM.
    pub(super) c: &'a mut [f32],
    /// (tokens, gates · hidden): x, overwritten by the gates. Only this task accesses the rows of its sequences, here
    /// and in the fields below.
    pub(super) gates: SharedMut<f32>,
    /// (tokens, hidden)
    pub(super) state: SharedMut<f32>,
    /// (tokens, hidden): h′ is stored here.
    pub(super) previous: SharedMut<f32>,
    /// (tokens, hidden), rows `y_stride` apart.
    pub(super) y: SharedMut<f32>,
    pub(super) y_stride: usize,
}

impl SimdOp for CellForward<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let n = self.recurrence.hidden;
        let width = self.recurrence.cell.gates() * n;
        for (row, &sequence) in self.sequences.iter().enumerate() {
            let token = self.recurrence.token(sequence, self.step);
            let s = &self.sums[row * width..][..width];
            let h = &mut self.h[row * n..][..n];
            // SAFETY: only this task accesses the rows of this token. They live until all tasks are done, and they hold
            // the projections.
            let x = unsafe { self.gates.slice(token * width, width) };
            // SAFETY: only this task accesses the row of this token, which lives until all tasks are done.
            unsafe { self.previous.copy_from(token * n, h) };
            match self.recurrence.cell {
                RecurrentCell::Rnn => rnn(simd, x, s, h),
                RecurrentCell::Lstm => {
                    let c = &mut self.c[row * n..][..n];
                    lstm(simd, x, s, c, h);
                    // SAFETY: only this task accesses the row of this token, which lives until all tasks are done.
                    unsafe { self.state.copy_from(token * n, c) };
                }
                RecurrentCell::Gru => {
                    gru(simd, x, s, h);
                    // SAFETY: only this task accesses the row of this token, which lives until all tasks are done.
                    unsafe { self.state.copy_from(token * n, &s[2 * n..]) };
                }
            }
            // SAFETY: only this task accesses the row of this token, which lives until all tasks are done.
            unsafe { self.y.copy_from(token * self.y_stride, h) };
        }
    }
}

/// Returns the sum of a vector of `x` and one of `s`.
#[inline(always)]
fn load_sum<S: Simd>(simd: S, x: &[f32], s: &[f32]) -> S::V {
    simd.add(simd.load_up_to(x, 0.0), simd.load_up_to(s, 0.0))
}

#[inline(always)]
fn rnn<S: Simd>(simd: S, x: &mut [f32], s: &[f32], h: &mut [f32]) {
    let n = h.len();
    for j in (0..n).step_by(S::LANES) {
        let to = n.min(j + S::LANES);
        let y = tanh(simd, load_sum(simd, &x[j..to], &s[j..to]));
        simd.store_up_to(&mut x[j..to], y);
        simd.store_up_to(&mut h[j..to], y);
    }
}

#[inline(always)]
fn lstm<S: Simd>(simd: S, x: &mut [f32], s: &[f32], c: &mut [f32], h: &mut [f32]) {
    let n = h.len();
    for j in (0..n).step_by(S::LANES) {
        let to = n.min(j + S::LANES);
        let i = sigmoid(simd, load_sum(simd, &x[j..to], &s[j..to]));
        let f = sigmoid(simd, load_sum(simd, &x[n + j..n + to], &s[n + j..n + to]));
        let g = tanh(simd, load_sum(simd, &x[2 * n + j..2 * n + to], &s[2 * n + j..2 * n + to]));
        let o = sigmoid(simd, load_sum(simd, &x[3 * n + j..3 * n + to], &s[3 * n + j..3 * n + to]));
        let new = simd.mul_add(f, simd.load_up_to(&c[j..to], 0.0), simd.mul(i, g));
        simd.store_up_to(&mut x[j..to], i);
        simd.store_up_to(&mut x[n + j..n + to], f);
        simd.store_up_to(&mut x[2 * n + j..2 * n + to], g);
        simd.store_up_to(&mut x[3 * n + j..3 * n + to], o);
        simd.store_up_to(&mut c[j..to], new);
        simd.store_up_to(&mut h[j..to], simd.mul(o, tanh(simd, new)));
    }
}

#[inline(always)]
fn gru<S: Simd>(simd: S, x: &mut [f32], s: &[f32], h: &mut [f32]) {
    let n = h.len();
    for j in (0..n).step_by(S::LANES) {
        let to = n.min(j + S::LANES);
        let r = sigmoid(simd, load_sum(simd, &x[j..to], &s[j..to]));
        let z = sigmoid(simd, load_sum(simd, &x[n + j..n + to], &s[n + j..n + to]));
        let s = simd.load_up_to(&s[2 * n + j..2 * n + to], 0.0);
        let new = tanh(simd, simd.mul_add(r, s, simd.load_up_to(&x[2 * n + j..2 * n + to], 0.0)));
        simd.store_up_to(&mut x[j..to], r);
        simd.store_up_to(&mut x[n + j..n + to], z);
        simd.store_up_to(&mut x[2 * n + j..2 * n + to], new);
        // (1 − z) n + z h′ = n + z (h′ − n)
        let change = simd.sub(simd.load_up_to(&h[j..to], 0.0), new);
        simd.store_up_to(&mut h[j..to], simd.mul_add(z, change, new));
    }
}

/// A backward step of the active sequences, one row each.
pub(super) struct CellBackward<'a> {
    pub(super) recurrence: &'a Recurrence<'a>,
    pub(super) sequences: &'a [usize],
    pub(super) step: usize,
    pub(super) trace: &'a RecurrentActivations<f32>,
    /// (tokens, hidden)
    pub(super) dy: MatRef<'a, f32>,
    /// (hidden,): zeros, in place of the c before the first step.
    pub(super) zeros: &'a [f32],
    /// (rows, hidden): the gradient of h from the next step. Overwritten by the part of the GRU's gradient that does
    /// not go through ds·W.
    pub(super) dh: &'a mut [f32],
    /// (rows, hidden): the gradient of c from the next step, overwritten by that of c′; for the LSTM.
    pub(super) dc: &'a mut [f32],
    /// (rows, gates · hidden): the gradients of s, output.
    pub(super) ds: &'a mut [f32],
    /// (tokens, gates · hidden): the gradients of x, output. Only this task accesses the rows of its sequences, here
    /// and in the field below.
    pub(super) input: SharedMut<f32>,
    /// (tokens, gates · hidden): a copy of the gradients of s, for the GRU.
    pub(super) hidden: Option<SharedMut<f32>>,
}

impl SimdOp for CellBackward<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let n = self.recurrence.hidden;
        let width = self.recurrence.cell.gates() * n;
        for (row, &sequence) in self.sequences.iter().enumerate() {
            let token = self.recurrence.token(sequence, self.step);
            let gates = &self.trace.gates[token * width..][..width];
            let dy = self.dy.row(token);
            let dh = &mut self.dh[row * n..][..n];
            let ds = &mut self.ds[row * width..][..width];
            match self.recurrence.cell {
                RecurrentCell::Rnn => rnn_backward(simd, gates, dy, dh, ds),
                RecurrentCell::Lstm => {
                    let before = match self.step {
                        0 => self.zeros,
                        step => &self.trace.state[self.recurrence.token(sequence, step - 1) * n..][..n],
                    };
                    let state = &self.trace.state[token * n..][..n];
                    let dc = &mut self.dc[row * n..][..n];
                    lstm_backward(simd, gates, [before, state, dy], dh, dc, ds);
                }
                RecurrentCell::Gru => {
                    let before = &self.trace.previous_outputs[token * n..][..n];
                    let state = &self.trace.state[token * n..][..n];
                    // SAFETY: only this task accesses the rows of this token, which live until all tasks are done.
                    let input = unsafe { self.input.slice_uninit(token * width, width) };
                    gru_backward(simd, gates, [before, state, dy], dh, ds, input);
                }
            }
            // SAFETY: only this task accesses the rows of this token, which live until all tasks are done.
            unsafe { self.hidden.unwrap_or(self.input).copy_from(token * width, ds) };
        }
    }
}

/// Computes `g (1 − g)`, the slope of a sigmoid gate, times `d`.
#[inline(always)]
fn sigmoid_slope<S: Simd>(simd: S, d: S::V, g: S::V) -> S::V {
    simd.mul(d, simd.mul(g, simd.sub(simd.splat(1.0), g)))
}

/// Computes `1 − t²`, the slope of a tanh gate, times `d`.
#[inline(always)]
fn tanh_slope<S: Simd>(simd: S, d: S::V, t: S::V) -> S::V {
    // (1 − t)(1 + t) keeps its digits where t is near 1.
    let one = simd.splat(1.0);
    simd.mul(d, simd.mul(simd.sub(one, t), simd.add(one, t)))
}

#[inline(always)]
fn rnn_backward<S: Simd>(simd: S, y: &[f32], dy: &[f32], dh: &[f32], ds: &mut [f32]) {
    let n = dh.len();
    for j in (0..n).step_by(S::LANES) {
        let to = n.min(j + S::LANES);
        // h = tanh(x + s)
        let d = tanh_slope(simd, load_sum(simd, &dy[j..to], &dh[j..to]), simd.load_up_to(&y[j..to], 0.0));
        simd.store_up_to(&mut ds[j..to], d);
    }
}

#[inline(always)]
fn lstm_backward<S: Simd>(
    simd: S,
    gates: &[f32],
    [before, state, dy]: [&[f32]; 3],
    dh: &[f32],
    dc: &mut [f32],
    ds: &mut [f32],
) {
    let n = dh.len();
    for j in (0..n).step_by(S::LANES) {
        let to = n.min(j + S::LANES);
        let i = simd.load_up_to(&gates[j..to], 0.0);
        let f = simd.load_up_to(&gates[n + j..n + to], 0.0);
        let g = simd.load_up_to(&gates[2 * n + j..2 * n + to], 0.0);
        let o = simd.load_up_to(&gates[3 * n + j..3 * n + to], 0.0);
        // h = o tanh(c)
        let d = load_sum(simd, &dy[j..to], &dh[j..to]);
        let t = tanh(simd, simd.load_up_to(&state[j..to], 0.0));
        let d_o = sigmoid_slope(simd, simd.mul(d, t), o);
        let d_c = simd.add(simd.load_up_to(&dc[j..to], 0.0), tanh_slope(simd, simd.mul(d, o), t));
        // c = f c′ + i g
        let d_f = sigmoid_slope(simd, simd.mul(d_c, simd.load_up_to(&before[j..to], 0.0)), f);
        simd.store_up_to(&mut ds[j..to], sigmoid_slope(simd, simd.mul(d_c, g), i));
        simd.store_up_to(&mut ds[n + j..n + to], d_f);
        simd.store_up_to(&mut ds[2 * n + j..2 * n + to], tanh_slope(simd, simd.mul(d_c, i), g));
        simd.store_up_to(&mut ds[3 * n + j..3 * n + to], d_o);
        simd.store_up_to(&mut dc[j..to], simd.mul(d_c, f));
    }
}

#[inline(always)]
fn gru_backward<S: Simd>(
    simd: S,
    gates: &[f32],
    [before, state, dy]: [&[f32]; 3],
    dh: &mut [f32],
    ds: &mut [f32],
    dx: &mut [MaybeUninit<f32>],
) {
    let n = dh.len();
    for j in (0..n).step_by(S::LANES) {
        let to = n.min(j + S::LANES);
        let r = simd.load_up_to(&gates[j..to], 0.0);
        let z = simd.load_up_to(&gates[n + j..n + to], 0.0);
        let new = simd.load_up_to(&gates[2 * n + j..2 * n + to], 0.0);
        // h = (1 − z) n + z h′
        let d = load_sum(simd, &dy[j..to], &dh[j..to]);
        let d_z = sigmoid_slope(simd, simd.mul(d, simd.sub(simd.load_up_to(&before[j..to], 0.0), new)), z);
        let d_n = tanh_slope(simd, simd.mul(d, simd.sub(simd.splat(1.0), z)), new);
        // n = tanh(x + r s)
        let d_r = sigmoid_slope(simd, simd.mul(d_n, simd.load_up_to(&state[j..to], 0.0)), r);
        simd.store_up_to(&mut ds[j..to], d_r);
        simd.store_up_to(&mut ds[n + j..n + to], d_z);
        simd.write_up_to(&mut dx[j..to], d_r);
        simd.write_up_to(&mut dx[n + j..n + to], d_z);
        simd.write_up_to(&mut dx[2 * n + j..2 * n + to], d_n);
        simd.store_up_to(&mut ds[2 * n + j..2 * n + to], simd.mul(d_n, r));
        simd.store_up_to(&mut dh[j..to], simd.mul(d, z));
    }
}
