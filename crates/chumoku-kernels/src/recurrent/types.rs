//! Recurrent cells and their formulas, and the arguments and results of both passes.

use crate::error::{Error, Result};
use crate::gemm::Precision;

/// The cell of a recurrent network. In the formulas, σ is the sigmoid function, x the projections of the input
/// (`W_ih x + b_ih`), and s those of the previous output (`W_hh h′ + b_hh`), by gate:
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecurrentCell {
    /// `h = tanh(x + s)`. Source: Elman, "Finding Structure in Time" (1990).
    Rnn,
    /// Gates i, f, g, o: `i, f, o = σ(x + s)`, `g = tanh(x + s)`, `c = f c′ + i g`, `h = o tanh(c)`. Source: Hochreiter
    /// and Schmidhuber, "Long Short-Term Memory" (1997), with the forget gate of Gers, Schmidhuber and Cummins (2000).
    Lstm,
    /// Gates r, z, n: `r, z = σ(x + s)`, `n = tanh(x + r s)`, `h = (1 − z) n + z h′`. Source: Cho et al., "Learning
    /// Phrase Representations using RNN Encoder–Decoder" (2014), with the reset gate applied after the product, as in
    /// PyTorch.
    Gru,
}

impl RecurrentCell {
    /// All cells, the simplest first.
    pub const ALL: [RecurrentCell; 3] = [RecurrentCell::Rnn, RecurrentCell::Lstm, RecurrentCell::Gru];

    /// Returns its name on command lines and in files.
    pub fn name(self) -> &'static str {
        match self {
            RecurrentCell::Rnn => "rnn",
            RecurrentCell::Lstm => "lstm",
            RecurrentCell::Gru => "gru",
        }
    }

    /// Returns the cell with this name.
    pub fn from_name(name: &str) -> Option<RecurrentCell> {
        RecurrentCell::ALL.into_iter().find(|cell| cell.name() == name)
    }

    /// Returns the number of gates: projections per hidden unit in a step.
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
    /// The cell.
    pub cell: RecurrentCell,
    /// Hidden units: values in the output of a step.
    pub hidden: usize,
    /// Offsets of the sequences, and finally the number of tokens: `[0, l1, l1 + l2, …]`. A length may be 0.
    pub offsets: &'a [usize],
    /// True if sequences are read from the end.
    pub is_reversed: bool,
    /// Precision of the products with the recurrent weights.
    pub precision: Precision,
}

/// Activations of [`Recurrence::forward`] that the backward pass needs.
#[derive(Clone, Debug)]
pub struct RecurrentActivations<T> {
    /// (tokens, gates · hidden): the gates.
    pub gates: Vec<T>,
    /// (tokens, hidden): c of the LSTM, or s of the GRU's gate n; empty for the RNN.
    pub state: Vec<T>,
    /// (tokens, hidden): h′, the input of each step; 0 at the first step of a sequence.
    pub previous_outputs: Vec<T>,
}

/// Result of [`Recurrence::backward`]: the gradients of the projections, from which all others follow by one product.
#[derive(Clone, Debug)]
pub struct ProjectionGradients<T> {
    /// Gradients of x: (tokens, gates · hidden).
    pub input: Vec<T>,
    /// Gradients of s, if they differ: for the GRU, whose gate n uses r·s. (tokens, gates · hidden)
    pub hidden: Option<Vec<T>>,
}

impl<T> ProjectionGradients<T> {
    /// Returns the gradients of s: (tokens, gates · hidden).
    pub fn hidden(&self) -> &[T] {
        self.hidden.as_deref().unwrap_or(&self.input)
    }
}

impl Recurrence<'_> {
    /// Returns the size of the state that the backward pass needs besides gates and outputs: c of the LSTM, or s of the
    /// GRU's gate n.
    pub(super) fn state_len(&self) -> usize {
        match self.cell {
            RecurrentCell::Rnn => 0,
            RecurrentCell::Lstm | RecurrentCell::Gru => self.offsets[self.offsets.len() - 1] * self.hidden,
        }
    }

    /// Returns the number of tokens, after checking the offsets.
    pub(super) fn tokens(&self) -> Result<usize> {
        if self.hidden == 0 {
            return Err(Error::value("recurrence: hidden", "expected at least 1, got 0"));
        }
        match self.offsets {
            [0, ..] if self.offsets.is_sorted() => Ok(self.offsets[self.offsets.len() - 1]),
            _ => Err(Error::value("recurrence: offsets", "expected ascending numbers that start with 0")),
        }
    }

    /// Returns the token of a sequence at step `step`.
    pub(super) fn token(&self, sequence: usize, step: usize) -> usize {
        match self.is_reversed {
            false => self.offsets[sequence] + step,
            true => self.offsets[sequence + 1] - 1 - step,
        }
    }

    /// Returns the number of steps of a sequence.
    pub(super) fn length(&self, sequence: usize) -> usize {
        self.offsets[sequence + 1] - self.offsets[sequence]
    }
}
