//! What is asked for, and what comes of it: cells and their formulas, sequences, and what a pass leaves.

use crate::error::{Error, Result};
use crate::gemm::Precision;

/// A recurrent network's cell. With σ the logistic function, x the projections of the input (`W_ih x + b_ih`) and s
/// those of the output before (`W_hh h′ + b_hh`), by gate:
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecurrentCell {
    /// `h = tanh(x + s)`. Source: Elman, "Finding Structure in Time" (1990).
    Rnn,
    /// Gates i, f, g, o: `i, f, o = σ(x + s)`, `g = tanh(x + s)`, `c = f c′ + i g`, `h = o tanh(c)`. Source: Hochreiter
    /// and Schmidhuber, "Long Short-Term Memory" (1997), with the forget gate of Gers, Schmidhuber and Cummins (2000).
    Lstm,
    /// Gates r, z, n: `r, z = σ(x + s)`, `n = tanh(x + r s)`, `h = (1 − z) n + z h′`. Source: Cho et al., "Learning
    /// Phrase Representations using RNN Encoder–Decoder" (2014), with the reset after the product, as in PyTorch.
    Gru,
}

impl RecurrentCell {
    /// Every cell, the simplest first.
    pub const ALL: [RecurrentCell; 3] = [RecurrentCell::Rnn, RecurrentCell::Lstm, RecurrentCell::Gru];

    /// Its name on command lines and in files.
    pub fn name(self) -> &'static str {
        match self {
            RecurrentCell::Rnn => "rnn",
            RecurrentCell::Lstm => "lstm",
            RecurrentCell::Gru => "gru",
        }
    }

    /// The cell of a name.
    pub fn from_name(name: &str) -> Option<RecurrentCell> {
        RecurrentCell::ALL.into_iter().find(|cell| cell.name() == name)
    }

    /// Gates: projections of a step for each number of its output.
    pub fn gates(self) -> usize {
        match self {
            RecurrentCell::Rnn => 1,
            RecurrentCell::Lstm => 4,
            RecurrentCell::Gru => 3,
        }
    }
}

/// One layer of a recurrent network in one direction, over packed sequences.
#[derive(Clone, Copy, Debug)]
pub struct Recurrence<'a> {
    /// What a step computes.
    pub cell: RecurrentCell,
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
pub struct RecurrentActivations<T> {
    /// (tokens, gates · hidden): the gates.
    pub gates: Vec<T>,
    /// (tokens, hidden): c of the LSTM, s of the GRU's gate n; empty for the RNN.
    pub state: Vec<T>,
    /// (tokens, hidden): h′, the output that each step was given; 0 at a sequence's first.
    pub previous_outputs: Vec<T>,
}

/// What [`Recurrence::backward`] finds: the gradients of the projections, from which all others follow by one product.
#[derive(Clone, Debug)]
pub struct ProjectionGradients<T> {
    /// Of x: (tokens, gates · hidden).
    pub input: Vec<T>,
    /// Of s, where it is another: for the GRU, whose gate n takes r·s. (tokens, gates · hidden)
    pub hidden: Option<Vec<T>>,
}

impl<T> ProjectionGradients<T> {
    /// The gradient of s: (tokens, gates · hidden).
    pub fn hidden(&self) -> &[T] {
        self.hidden.as_deref().unwrap_or(&self.input)
    }
}

impl Recurrence<'_> {
    /// Numbers in the state that the backward pass needs beside gates and outputs: c of the LSTM, s of the GRU's gate n.
    pub(super) fn state_len(&self) -> usize {
        match self.cell {
            RecurrentCell::Rnn => 0,
            RecurrentCell::Lstm | RecurrentCell::Gru => self.offsets[self.offsets.len() - 1] * self.hidden,
        }
    }

    /// Number of tokens, after checking the offsets.
    pub(super) fn tokens(&self) -> Result<usize> {
        if self.hidden == 0 {
            return Err(Error::value("recurrence: hidden", "expected at least 1, got 0"));
        }
        match self.offsets {
            [0, ..] if self.offsets.is_sorted() => Ok(self.offsets[self.offsets.len() - 1]),
            _ => Err(Error::value("recurrence: offsets", "expected numbers that ascend from 0")),
        }
    }

    /// The token that a sequence is at after `step` steps.
    pub(super) fn token(&self, sequence: usize, step: usize) -> usize {
        match self.is_reversed {
            false => self.offsets[sequence] + step,
            true => self.offsets[sequence + 1] - 1 - step,
        }
    }

    /// Steps of a sequence.
    pub(super) fn length(&self, sequence: usize) -> usize {
        self.offsets[sequence + 1] - self.offsets[sequence]
    }
}
