//! The recurrence of RNN, LSTM and GRU, for numbers and intervals. Each token receives a state from the previous token
//! and a gradient from the next.

use crate::program::printed_number::Scalar;
use crate::program::quantity::Quantity;
use chumoku_kernels::RecurrentCell;
use ndarray::{Array2, ArrayView2};

/// The state that each token receives from the previous one; fields hold step numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StateRecurrence {
    pub(crate) cell: RecurrentCell,
    /// The sums of the inputs by gate: X W_x + b_x.
    pub(crate) sums: usize,
    /// The recurrent weights and their bias.
    pub(crate) weight: usize,
    pub(crate) bias: Option<usize>,
    /// h_0 and c_0, which default to 0.
    pub(crate) first: [Option<usize>; 2],
    /// True if the result is C′ instead of H′.
    pub(crate) is_state: bool,
}

/// `1 / (1 + exp(−x))`.
pub(crate) fn logistic<S: Scalar>(x: S) -> S {
    let one = S::from_f64(1.0);
    one.div(one.add(S::from_f64(0.0).sub(x).exp()))
}

impl StateRecurrence {
    /// Returns the quantity whose rows are shifted by one token.
    pub(crate) fn source_quantity(&self) -> Quantity {
        if self.is_state { Quantity::CellState } else { Quantity::StepOutput }
    }

    /// Returns the quantity of the result: H′ or C′.
    pub(crate) fn result_quantity(&self) -> Quantity {
        if self.is_state { Quantity::PreviousState } else { Quantity::PreviousOutput }
    }

    /// Computes the state that each token receives.
    pub(crate) fn apply<'a, S: Scalar + 'a>(&self, value: impl Fn(usize) -> ArrayView2<'a, S>) -> Array2<S> {
        let which = usize::from(self.is_state);
        let hidden = value(self.weight).nrows();
        rows(self.tokens(value).iter().map(|token| &token.previous[which]), hidden)
    }

    /// Runs the recurrence that `chumoku_kernels::Cell` describes.
    fn tokens<'a, S: Scalar + 'a>(&self, value: impl Fn(usize) -> ArrayView2<'a, S>) -> Vec<TokenState<S>> {
        let (sums, weight) = (value(self.sums), value(self.weight));
        let hidden = weight.nrows();
        let first = |which: usize| match self.first[which] {
            Some(id) => value(id).row(0).to_vec(),
            None => vec![S::from_f64(0.0); hidden],
        };
        let mut before = [first(0), first(1)];
        let mut found = Vec::with_capacity(sums.nrows());
        for t in 0..sums.nrows() {
            let of_state = |column: usize| {
                let bias = self.bias.map_or(S::from_f64(0.0), |bias| value(bias)[[0, column]]);
                before[0].iter().zip(weight.column(column)).fold(bias, |sum, (h, w)| sum.add(h.mul(*w)))
            };
            let own: Vec<S> = (0..weight.ncols()).map(of_state).collect();
            let terms = |gate: usize, j: usize| [sums[[t, gate * hidden + j]], own[gate * hidden + j]];
            let all = |of_gate: &dyn Fn(usize) -> S| (0..hidden).map(of_gate).collect::<Vec<S>>();
            let sum = |gate: usize, j: usize| {
                let [x, s] = terms(gate, j);
                x.add(s)
            };
            let (gates, after) = match self.cell {
                RecurrentCell::Rnn => {
                    let h = all(&|j| sum(0, j).tanh());
                    (vec![h.clone()], [h, before[1].clone()])
                }
                RecurrentCell::Lstm => {
                    let [i, f, o] = [0, 1, 3].map(|which| all(&|j| logistic(sum(which, j))));
                    let g = all(&|j| sum(2, j).tanh());
                    let c = all(&|j| f[j].mul(before[1][j]).add(i[j].mul(g[j])));
                    let h = all(&|j| o[j].mul(c[j].tanh()));
                    (vec![i, f, g, o], [h, c])
                }
                RecurrentCell::Gru => {
                    let [r, z] = [0, 1].map(|which| all(&|j| logistic(sum(which, j))));
                    let n = all(&|j| {
                        let [x, s] = terms(2, j);
                        x.add(r[j].mul(s)).tanh()
                    });
                    let h = all(&|j| S::from_f64(1.0).sub(z[j]).mul(n[j]).add(z[j].mul(before[0][j])));
                    (vec![r, z, n], [h, before[1].clone()])
                }
            };
            found.push(TokenState {
                previous: std::mem::replace(&mut before, after.clone()),
                recurrent_sums: own,
                gates,
                next: after,
            });
        }
        found
    }
}

/// The computation of a recurrent network at one token.
struct TokenState<S> {
    /// h and c of the previous token.
    previous: [Vec<S>; 2],
    /// The contribution of h to each gate: h W_h + b_h.
    recurrent_sums: Vec<S>,
    /// The gates, in PyTorch's order.
    gates: Vec<Vec<S>>,
    /// h and c.
    next: [Vec<S>; 2],
}

impl<S: Scalar> TokenState<S> {
    /// Returns the gradients of the previous h and c, from the gradient of h and the part of c's gradient that does not
    /// come through h.
    fn backward(&self, cell: RecurrentCell, weight: ArrayView2<'_, S>, dh: &[S], later: &[S]) -> [Vec<S>; 2] {
        let hidden = dh.len();
        let one = S::from_f64(1.0);
        let of_tanh = |y: S, d: S| d.mul(one.sub(y.square()));
        let of_logistic = |y: S, d: S| d.mul(y).mul(one.sub(y));
        // The gradients at the inputs of the gates, split by their origin in h and elsewhere.
        let mut inside = vec![S::from_f64(0.0); weight.ncols()];
        let [mut straight, mut of_state] = [vec![S::from_f64(0.0); hidden], vec![S::from_f64(0.0); hidden]];
        for (j, &d) in dh.iter().enumerate() {
            match (cell, &self.gates[..]) {
                (RecurrentCell::Lstm, [i, f, g, o]) => {
                    let tanh = self.next[1][j].tanh();
                    let dc = of_tanh(tanh, d.mul(o[j])).add(later[j]);
                    inside[j] = of_logistic(i[j], dc.mul(g[j]));
                    inside[hidden + j] = of_logistic(f[j], dc.mul(self.previous[1][j]));
                    inside[2 * hidden + j] = of_tanh(g[j], dc.mul(i[j]));
                    inside[3 * hidden + j] = of_logistic(o[j], d.mul(tanh));
                    of_state[j] = dc.mul(f[j]);
                }
                (RecurrentCell::Gru, [r, z, n]) => {
                    let new = of_tanh(n[j], d.mul(one.sub(z[j])));
                    inside[j] = of_logistic(r[j], new.mul(self.recurrent_sums[2 * hidden + j]));
                    inside[hidden + j] = of_logistic(z[j], d.mul(self.previous[0][j].sub(n[j])));
                    inside[2 * hidden + j] = new.mul(r[j]);
                    straight[j] = d.mul(z[j]);
                }
                _ => inside[j] = of_tanh(self.next[0][j], d),
            }
        }
        let back = weight
            .rows()
            .into_iter()
            .zip(straight)
            .map(|(row, straight)| row.iter().zip(&inside).fold(straight, |sum, (w, d)| sum.add(w.mul(*d))));
        [back.collect(), of_state]
    }
}

/// The gradient of each token's H or C that comes from the next token; 0 for the last token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StateGradient {
    /// The recurrence that passed H or C on.
    pub(crate) recurrence: StateRecurrence,
    /// The gradient of H without the contribution of later tokens.
    pub(crate) gradient: usize,
}

impl StateGradient {
    /// Backpropagation through time (Werbos 1990), from the last token to the first.
    pub(crate) fn apply<'a, S: Scalar + 'a>(&self, value: impl Fn(usize) -> ArrayView2<'a, S>) -> Array2<S> {
        let (given, weight) = (value(self.gradient), value(self.recurrence.weight));
        let hidden = weight.nrows();
        let mut handed = [vec![S::from_f64(0.0); hidden], vec![S::from_f64(0.0); hidden]];
        let mut found = Vec::new();
        for (t, token) in self.recurrence.tokens(&value).iter().enumerate().rev() {
            let dh: Vec<S> = given.row(t).iter().zip(&handed[0]).map(|(own, later)| own.add(*later)).collect();
            let before = token.backward(self.recurrence.cell, weight, &dh, &handed[1]);
            found.push(std::mem::replace(&mut handed, before)[usize::from(self.recurrence.is_state)].clone());
        }
        rows(found.iter().rev(), hidden)
    }
}

/// Returns a matrix with these rows.
fn rows<'a, S: Scalar + 'a>(rows: impl ExactSizeIterator<Item = &'a Vec<S>>, width: usize) -> Array2<S> {
    let mut found = Array2::from_elem((rows.len(), width), S::from_f64(0.0));
    found
        .rows_mut()
        .into_iter()
        .zip(rows)
        .for_each(|(mut to, from)| to.iter_mut().zip(from).for_each(|(to, x)| *to = *x));
    found
}
