//! The recurrence of an RNN, LSTM or GRU, for numbers and for intervals: what each token is given by the one before it.

use super::number::Scalar;
use super::quantity::Quantity;
use chumoku_kernels::Cell;
use ndarray::{Array2, ArrayView2};

/// What each token is given by the one before it; steps by their number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Before {
    pub(crate) cell: Cell,
    /// Those of the inputs, by gate: X W_x + b_x.
    pub(crate) sums: usize,
    /// The recurrent weights and their bias.
    pub(crate) weight: usize,
    pub(crate) bias: Option<usize>,
    /// h_0 and c_0; 0 where they are not given.
    pub(crate) first: [Option<usize>; 2],
    /// Whether it is C′ and not H′.
    pub(crate) is_state: bool,
}

/// `1 / (1 + exp(−x))`.
pub(super) fn logistic<S: Scalar>(x: S) -> S {
    let one = S::of(1.0);
    one.div(one.add(S::of(0.0).sub(x).exp()))
}

impl Before {
    /// The quantity whose rows it has, one later.
    pub(super) fn of(&self) -> Quantity {
        if self.is_state { Quantity::CellState } else { Quantity::StepOutput }
    }

    /// The recurrence as `chumoku_kernels::Cell` describes it.
    pub(super) fn apply<'a, S: Scalar + 'a>(&self, value: impl Fn(usize) -> ArrayView2<'a, S>) -> Array2<S> {
        let (sums, weight) = (value(self.sums), value(self.weight));
        let hidden = weight.nrows();
        let first = |which: usize| match self.first[which] {
            Some(id) => value(id).row(0).to_vec(),
            None => vec![S::of(0.0); hidden],
        };
        let (mut h, mut c) = (first(0), first(1));
        let mut found = Array2::from_elem((sums.nrows(), hidden), S::of(0.0));
        for (t, mut row) in found.rows_mut().into_iter().enumerate() {
            row.iter_mut().zip(if self.is_state { &c } else { &h }).for_each(|(to, x)| *to = *x);
            let of_state = |column: usize| {
                let bias = self.bias.map_or(S::of(0.0), |bias| value(bias)[[0, column]]);
                h.iter().zip(weight.column(column)).fold(bias, |sum, (h, w)| sum.add(h.mul(*w)))
            };
            let gate = |gate: usize, j: usize| [sums[[t, gate * hidden + j]], of_state(gate * hidden + j)];
            let sum = |which: usize, j: usize| {
                let [x, s] = gate(which, j);
                x.add(s)
            };
            let next: Vec<[S; 2]> = (0..hidden)
                .map(|j| match self.cell {
                    Cell::Rnn => [sum(0, j).tanh(), c[j]],
                    Cell::Lstm => {
                        let [i, f, o] = [0, 1, 3].map(|which| logistic(sum(which, j)));
                        let state = f.mul(c[j]).add(i.mul(sum(2, j).tanh()));
                        [o.mul(state.tanh()), state]
                    }
                    Cell::Gru => {
                        let [r, z] = [0, 1].map(|which| logistic(sum(which, j)));
                        let [x, s] = gate(2, j);
                        let n = x.add(r.mul(s)).tanh();
                        [S::of(1.0).sub(z).mul(n).add(z.mul(h[j])), c[j]]
                    }
                })
                .collect();
            h = next.iter().map(|both| both[0]).collect();
            c = next.iter().map(|both| both[1]).collect();
        }
        found
    }
}
