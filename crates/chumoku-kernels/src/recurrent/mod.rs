//! Recurrent networks over packed sequences: RNN, LSTM and GRU, forward and backward through time.
//!
//! What does not depend on the step before, the products of all inputs with the input weights, is the caller's: one
//! matrix product over all tokens makes the projections that [`Recurrence::forward`] is given. The gradients of both
//! weights are products over all tokens too, of what [`Recurrence::backward`] returns. In between stands what has to go
//! step by step: `steps` takes the sequences that are alive at a step through one product with the recurrent weights,
//! `cells` turns their sums into gates, state and output.
//!
//! A sequence's result depends on no other sequence and on no number of threads: threads share out whole sequences.

mod cells;
pub(crate) mod reference;
mod steps;

use crate::gemm::{MatMut, MatRef, Operand, Precision};
use crate::number::{Real, Versions};
use crate::{Error, Result};

/// A recurrent network's cell. With σ the logistic function, x the projections of the input (`W_ih x + b_ih`) and s
/// those of the output before (`W_hh h′ + b_hh`), by gate:
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// `h = tanh(x + s)`. Source: Elman, "Finding Structure in Time" (1990).
    Rnn,
    /// Gates i, f, g, o: `i, f, o = σ(x + s)`, `g = tanh(x + s)`, `c = f c′ + i g`, `h = o tanh(c)`. Source: Hochreiter
    /// and Schmidhuber, "Long Short-Term Memory" (1997), with the forget gate of Gers, Schmidhuber and Cummins (2000).
    Lstm,
    /// Gates r, z, n: `r, z = σ(x + s)`, `n = tanh(x + r s)`, `h = (1 − z) n + z h′`. Source: Cho et al., "Learning
    /// Phrase Representations using RNN Encoder–Decoder" (2014), with the reset after the product, as in PyTorch.
    Gru,
}

impl Cell {
    /// Every cell, the simplest first.
    pub const ALL: [Cell; 3] = [Cell::Rnn, Cell::Lstm, Cell::Gru];

    /// Its name on command lines and in files.
    pub fn name(self) -> &'static str {
        match self {
            Cell::Rnn => "rnn",
            Cell::Lstm => "lstm",
            Cell::Gru => "gru",
        }
    }

    /// The cell of a name.
    pub fn named(name: &str) -> Option<Cell> {
        Cell::ALL.into_iter().find(|cell| cell.name() == name)
    }

    /// Gates: projections of a step for each number of its output.
    pub fn gates(self) -> usize {
        match self {
            Cell::Rnn => 1,
            Cell::Lstm => 4,
            Cell::Gru => 3,
        }
    }
}

/// One layer of a recurrent network in one direction, over packed sequences.
#[derive(Clone, Copy, Debug)]
pub struct Recurrence<'a> {
    /// What a step computes.
    pub cell: Cell,
    /// Numbers in the output of a step.
    pub hidden: usize,
    /// Where sequences start, and at the end the number of tokens: `[0, l1, l1 + l2, …]`. A length may be 0.
    pub offsets: &'a [usize],
    /// Whether sequences are read from their ends.
    pub is_reversed: bool,
    /// How exact the products with the recurrent weights are.
    pub precision: Precision,
}

/// What [`Recurrence::forward`] remembers.
#[derive(Clone, Debug)]
pub struct Trace<T> {
    /// (tokens, gates · hidden): the gates.
    pub gates: Vec<T>,
    /// (tokens, hidden): c of the LSTM, s of the GRU's gate n; empty for the RNN.
    pub state: Vec<T>,
    /// (tokens, hidden): h′, the output that each step was given; 0 at a sequence's first.
    pub previous: Vec<T>,
}

/// What [`Recurrence::backward`] finds: the gradients of the projections, from which all others follow by one product.
#[derive(Clone, Debug)]
pub struct Deltas<T> {
    /// Of x: (tokens, gates · hidden).
    pub input: Vec<T>,
    /// Of s, where it is another: for the GRU, whose gate n takes r·s. (tokens, gates · hidden)
    pub hidden: Option<Vec<T>>,
}

impl<T> Deltas<T> {
    /// The gradient of s: (tokens, gates · hidden).
    pub fn hidden(&self) -> &[T] {
        self.hidden.as_deref().unwrap_or(&self.input)
    }
}

impl Recurrence<'_> {
    /// The output of every step.
    ///
    /// # Shapes
    /// `weight` (hidden, gates · hidden) = `W_hhᵀ`; `bias` (gates · hidden,); `projections` (tokens, gates · hidden) =
    /// `W_ih x + b_ih`, which become the gates; `y` (tokens, hidden), written.
    ///
    /// # Errors
    /// If the shapes do not fit, or the offsets do not ascend from 0.
    pub fn forward<T: Real>(
        &self,
        weight: Operand<'_, T>,
        bias: &[T],
        projections: Vec<T>,
        y: MatMut<'_, T>,
    ) -> Result<Trace<T>> {
        let tokens = self.tokens()?;
        let width = self.cell.gates() * self.hidden;
        check_shape("recurrence: weight", (self.hidden, width), (weight.matrix().rows(), weight.matrix().cols()))?;
        Error::check_length("recurrence: bias", width, bias.len())?;
        Error::check_length("recurrence: projections", tokens.saturating_mul(width), projections.len())?;
        check_shape("recurrence: y", (tokens, self.hidden), (y.rows(), y.cols()))?;
        crate::work::count(&[tokens, self.hidden, width]);
        Ok(T::run::<Forward>((self, weight, bias, projections, y)))
    }

    /// The gradients of the projections.
    ///
    /// # Shapes
    /// `weight` (gates · hidden, hidden) = `W_hh`; `trace` of the forward pass; `dy` (tokens, hidden), the gradient of y.
    ///
    /// # Errors
    /// As for [`Recurrence::forward`].
    pub fn backward<T: Real>(&self, weight: Operand<'_, T>, trace: &Trace<T>, dy: MatRef<'_, T>) -> Result<Deltas<T>> {
        let tokens = self.tokens()?;
        let width = self.cell.gates() * self.hidden;
        check_shape("recurrence: weight", (width, self.hidden), (weight.matrix().rows(), weight.matrix().cols()))?;
        Error::check_length("recurrence: gates", tokens.saturating_mul(width), trace.gates.len())?;
        Error::check_length("recurrence: state", self.state_len(), trace.state.len())?;
        Error::check_length("recurrence: previous", tokens.saturating_mul(self.hidden), trace.previous.len())?;
        check_shape("recurrence: dy", (tokens, self.hidden), (dy.rows(), dy.cols()))?;
        if !dy.has_contiguous_rows() {
            return Err(Error::value("recurrence: dy", "expected rows whose numbers lie side by side"));
        }
        Ok(T::run::<Backward>((self, weight, trace, dy)))
    }

    /// Numbers in the state that the backward pass needs beside gates and outputs: c of the LSTM, s of the GRU's gate n.
    pub(crate) fn state_len(&self) -> usize {
        match self.cell {
            Cell::Rnn => 0,
            Cell::Lstm | Cell::Gru => self.offsets[self.offsets.len() - 1] * self.hidden,
        }
    }

    /// Number of tokens, after checking the offsets.
    fn tokens(&self) -> Result<usize> {
        if self.hidden == 0 {
            return Err(Error::value("recurrence: hidden", "expected at least 1, got 0"));
        }
        match self.offsets {
            [0, ..] if self.offsets.is_sorted() => Ok(self.offsets[self.offsets.len() - 1]),
            _ => Err(Error::value("recurrence: offsets", "expected numbers that ascend from 0")),
        }
    }

    /// The token that a sequence is at after `step` steps.
    pub(crate) fn token(&self, sequence: usize, step: usize) -> usize {
        match self.is_reversed {
            false => self.offsets[sequence] + step,
            true => self.offsets[sequence + 1] - 1 - step,
        }
    }

    /// Steps of a sequence.
    pub(crate) fn length(&self, sequence: usize) -> usize {
        self.offsets[sequence + 1] - self.offsets[sequence]
    }
}

/// Both versions of [`Recurrence::forward`].
struct Forward;

impl Versions for Forward {
    type Args<'a, T: Real> = (&'a Recurrence<'a>, Operand<'a, T>, &'a [T], Vec<T>, MatMut<'a, T>);
    type Output<T: Real> = Trace<T>;
    fn fast((r, weight, bias, projections, y): Self::Args<'_, f32>) -> Trace<f32> {
        steps::forward_f32(r, weight, bias, projections, y)
    }
    fn plain((r, weight, bias, projections, y): Self::Args<'_, f64>) -> Trace<f64> {
        reference::recurrent_forward(r, weight, bias, projections, y)
    }
}

/// Both versions of [`Recurrence::backward`].
struct Backward;

impl Versions for Backward {
    type Args<'a, T: Real> = (&'a Recurrence<'a>, Operand<'a, T>, &'a Trace<T>, MatRef<'a, T>);
    type Output<T: Real> = Deltas<T>;
    fn fast((r, weight, trace, dy): Self::Args<'_, f32>) -> Deltas<f32> {
        steps::backward_f32(r, weight, trace, dy)
    }
    fn plain((r, weight, trace, dy): Self::Args<'_, f64>) -> Deltas<f64> {
        reference::recurrent_backward(r, weight, trace, dy)
    }
}

fn check_shape(what: &'static str, expected: (usize, usize), found: (usize, usize)) -> Result<()> {
    if expected == found { Ok(()) } else { Err(Error::shape(what, expected, found)) }
}
