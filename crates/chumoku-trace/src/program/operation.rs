//! The operations of a worked example, each defined once for numbers and intervals.

use crate::program::printed_number::Scalar;
use crate::program::recurrence::{StateGradient, StateRecurrence, logistic};
use chumoku::nn::Pooling;
use chumoku_kernels::Activation;
use ndarray::{Array2, ArrayView2, Axis, concatenate};
use std::ops::Range;

/// The number of a step in its [`Program`](super::Program).
pub(crate) type StepId = usize;

/// The angles by which one position rotates each pair of a head's numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RotaryAngles {
    /// `base^(−2i/width)`.
    Base(f64),
    /// Given by a step.
    Given(StepId),
}

/// The computation of a step's matrix from those of previous steps.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operation {
    /// A given matrix.
    Given,
    /// `A + B`, entry by entry.
    Sum([StepId; 2]),
    /// `A ∘ B`, entry by entry.
    Hadamard([StepId; 2]),
    /// `A B + b`, with a row `b` that is added to each row.
    Product { factors: [StepId; 2], bias: Option<StepId> },
    /// `A B`, where A holds shares of the rows of B. A share of 0 contributes nothing, whatever the value is.
    WeightedSum([StepId; 2]),
    /// `A Bᵀ`.
    ProductTransposed([StepId; 2]),
    /// `A(i, :) + B(j, :)`: a row for each pair of a row of A and a row of B, those of the first row of A first.
    PairSums([StepId; 2]),
    /// The gradient of one operand of [`Operation::PairSums`]: the sum of the rows of A whose pair has the row. `keys`
    /// is the number of rows of the second operand.
    PairGradient { of: StepId, keys: usize, is_second: bool },
    /// The numbers of A in rows of this many columns.
    Reshape { of: StepId, columns: usize },
    /// `Aᵀ B`.
    TransposedProduct([StepId; 2]),
    /// `A Bᵀ + C Dᵀ + … + E + …`: the sum of the gradient terms of a step.
    ProductsTransposed { pairs: Vec<[StepId; 2]>, added: Vec<StepId> },
    /// `(A − B) / over`.
    Difference { of: [StepId; 2], over: f64 },
    /// `A ∘ (G − Σⱼ A ∘ G)` for shares A and their gradient G: softmax's Jacobian of each row times g.
    SoftmaxGradient { shares: StepId, gradient: StepId },
    /// The single row of A divided by `over`, in each row.
    BroadcastRow { of: StepId, rows: usize, over: f64 },
    /// The sum of each column.
    ColumnSums(StepId),
    /// A range of columns of A: those of a head.
    Columns { of: StepId, range: Range<usize> },
    /// Each pair of columns i and i + half, rotated by its angle times the position (Su et al. 2021). `is_back` rotates
    /// in the opposite direction.
    Rotary { of: StepId, angles: RotaryAngles, is_back: bool },
    /// `factor · A`.
    Scale { of: StepId, factor: f64 },
    /// `A + bias`, with a number for each pair of query and key.
    AddBias { of: StepId, bias: Array2<f64> },
    /// A where `visible`, −∞ elsewhere.
    Mask { of: StepId, visible: Array2<bool> },
    /// The maximum of each row.
    RowMax(StepId),
    /// `exp(A − row max)`, 0 for a row without visible keys; without `largest`, `exp(A)`.
    Exp { of: StepId, largest: Option<StepId> },
    /// The sum of each row.
    RowSums(StepId),
    /// `A / row sum`, 0 where the sum is 0.
    DivideByRowSums { of: StepId, sums: StepId },
    /// 1 at the first maximum of a row, 0 elsewhere.
    OneHot(StepId),
    /// The matrices side by side.
    Concat(Vec<StepId>),
    /// `γ (x − mean)/√(variance + ε) + β` for each row (Ba, Kiros and Hinton 2016).
    LayerNorm { of: StepId, gamma: Option<StepId>, beta: Option<StepId>, epsilon: f64 },
    /// `γ x/√(mean(x²) + ε)` for each row (Zhang and Sennrich 2019).
    RmsNorm { of: StepId, gamma: Option<StepId>, epsilon: f64 },
    /// The rows pooled to one row with each of these methods, side by side.
    Pool { of: StepId, poolings: Vec<Pooling> },
    /// An activation, entry by entry.
    Activation { of: StepId, activation: Activation },
    /// `tanh(A)`.
    Tanh(StepId),
    /// The state that each token receives from the previous one.
    StateRecurrence(StateRecurrence),
    /// `σ(A + B)` or `tanh(A + B)`, for `width` columns of each, from the given index on.
    Gate { terms: [(StepId, usize); 2], width: usize, is_tanh: bool },
    /// `A ∘ B + C ∘ D`, or `(1 − A) ∘ B + C ∘ D`.
    GatedSum { pairs: [[StepId; 2]; 2], is_complement: bool },
    /// The gradient that each token receives from the next one.
    StateGradient(StateGradient),
    /// `G ∘ Y ∘ (1 − Y)`, or `G ∘ (1 − Y²)`: the gradient at the input of a gate Y, σ or tanh, with the gradient G.
    GateGradient { gate: StepId, gradient: StepId, is_tanh: bool },
    /// `(1 − A) ∘ G`.
    ComplementProduct([StepId; 2]),
    /// `G ∘ (A − B)`.
    DifferenceProduct { gradient: StepId, of: [StepId; 2] },
    /// `ln(A)`.
    Log(StepId),
    /// `−Σ T ∘ L / rows` for targets T and log-probabilities L: one number. A share of 0 contributes nothing.
    CrossEntropy { target: StepId, logarithms: StepId },
    /// Each row divided by its length; a zero row stays zero.
    UnitLength(StepId),
    /// The derivative of an entrywise function.
    ActivationDerivative { of: StepId, curve: EntrywiseFunction },
    /// `(G γ − mean(G γ) − x̂ mean(G γ x̂)) / √(variance + ε)` for each row with the normalized row x̂ and the gradient
    /// G of the result. RMS normalization has no first mean, and the mean square instead of the variance.
    NormGradient(NormGradient),
    /// `Σᵢ A ∘ B`: the sum of each column of a product.
    ColumnDotProducts([StepId; 2]),
    /// The single row G in the row that pooling took a column from, 0 elsewhere.
    PoolingGradient { of: StepId, gradient: StepId, pooling: Pooling },
    /// `(G − U Σⱼ U ∘ G) / ‖A‖` for each row of A, where U is A divided by its length.
    UnitGradient { of: StepId, unit: StepId, gradient: StepId },
    /// `diag(a) − a aᵀ` for one row a of shares: softmax's Jacobian.
    SoftmaxJacobian { shares: StepId, row: usize },
    /// `keep · M + (1 − keep) · G`, or the same with G²; M is 0 without `before`.
    Moment { before: Option<StepId>, gradient: StepId, keep: f64, is_square: bool },
    /// `M / (1 − keep^step)`.
    BiasCorrection { of: StepId, keep: f64, step: u32 },
    /// `rate · M / (√V + ε)`.
    AdamUpdate { moments: [StepId; 2], rate: f64, epsilon: f64 },
    /// `(1 − rate · weight_decay) · W − Δ`.
    AdamWStep { of: StepId, update: StepId, rate: f64, weight_decay: f64 },
}

/// Operands of a normalization's gradient.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NormGradient {
    /// The input of the normalization.
    pub(crate) of: StepId,
    /// The normalized input before γ and β.
    pub(crate) plain: StepId,
    pub(crate) gamma: Option<StepId>,
    /// The gradient of the result.
    pub(crate) gradient: StepId,
    pub(crate) epsilon: f64,
    pub(crate) is_rms: bool,
}

/// A function whose derivative is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntrywiseFunction {
    Activation(Activation),
    Tanh,
}

impl Operation {
    /// Returns rows and columns of the result, from those of the operands.
    pub(crate) fn dim(&self, of: impl Fn(StepId) -> (usize, usize)) -> (usize, usize) {
        self.result_dim(&of)
    }

    /// Compiled once, not for each caller.
    fn result_dim(&self, of: &dyn Fn(StepId) -> (usize, usize)) -> (usize, usize) {
        match self {
            Operation::Given => (0, 0),
            Operation::Sum([a, _])
            | Operation::Hadamard([a, _])
            | Operation::Activation { of: a, .. }
            | Operation::Rotary { of: a, .. }
            | Operation::Scale { of: a, .. }
            | Operation::AddBias { of: a, .. }
            | Operation::Mask { of: a, .. }
            | Operation::Exp { of: a, .. }
            | Operation::DivideByRowSums { of: a, .. }
            | Operation::OneHot(a)
            | Operation::Tanh(a)
            | Operation::Log(a)
            | Operation::UnitLength(a)
            | Operation::LayerNorm { of: a, .. }
            | Operation::RmsNorm { of: a, .. }
            | Operation::ActivationDerivative { of: a, .. }
            | Operation::NormGradient(NormGradient { of: a, .. })
            | Operation::PoolingGradient { of: a, .. }
            | Operation::UnitGradient { of: a, .. }
            | Operation::Moment { gradient: a, .. }
            | Operation::BiasCorrection { of: a, .. }
            | Operation::ComplementProduct([a, _])
            | Operation::DifferenceProduct { gradient: a, .. }
            | Operation::GateGradient { gate: a, .. }
            | Operation::StateGradient(StateGradient { gradient: a, .. })
            | Operation::AdamUpdate { moments: [a, _], .. }
            | Operation::AdamWStep { of: a, .. } => of(*a),
            Operation::Product { factors: [a, b], .. } | Operation::WeightedSum([a, b]) => (of(*a).0, of(*b).1),
            Operation::ProductTransposed([a, b]) => (of(*a).0, of(*b).0),
            Operation::PairSums([a, b]) => (of(*a).0 * of(*b).0, of(*a).1),
            Operation::PairGradient { of: a, keys, is_second } => {
                (if *is_second { *keys } else { of(*a).0 / keys }, of(*a).1)
            }
            Operation::Reshape { of: a, columns } => (of(*a).0 * of(*a).1 / columns, *columns),
            Operation::TransposedProduct([a, b]) => (of(*a).1, of(*b).1),
            Operation::ProductsTransposed { pairs, added } => match (pairs.first(), added.first()) {
                (Some([a, b]), _) => (of(*a).0, of(*b).0),
                (None, Some(a)) => of(*a),
                (None, None) => (0, 0),
            },
            Operation::Difference { of: [a, _], .. } | Operation::SoftmaxGradient { shares: a, .. } => of(*a),
            Operation::BroadcastRow { of: a, rows, .. } => (*rows, of(*a).1),
            Operation::ColumnSums(a) | Operation::ColumnDotProducts([a, _]) => (1, of(*a).1),
            Operation::SoftmaxJacobian { shares, .. } => (of(*shares).1, of(*shares).1),
            Operation::Columns { of: a, range } => (of(*a).0, range.len()),
            Operation::CrossEntropy { .. } => (1, 1),
            Operation::Pool { of: a, poolings } => (1, poolings.len() * of(*a).1),
            Operation::RowMax(a) | Operation::RowSums(a) => (of(*a).0, 1),
            Operation::StateRecurrence(before) => (of(before.sums).0, of(before.weight).0),
            Operation::Gate { terms: [(a, _), _], width, .. } => (of(*a).0, *width),
            Operation::GatedSum { pairs: [[_, b], _], .. } => of(*b),
            Operation::Concat(parts) => {
                (parts.first().map_or(0, |a| of(*a).0), parts.iter().map(|part| of(*part).1).sum())
            }
        }
    }

    /// Computes the result from the operands. [`Program`](super::Program) ensures that the shapes fit.
    pub(crate) fn apply<'a, S: Scalar + 'a>(&self, value: impl Fn(StepId) -> ArrayView2<'a, S>) -> Array2<S> {
        self.result(&value)
    }

    /// Compiled once for each kind of number, not for each caller.
    fn result<'a, S: Scalar + 'a>(&self, value: &dyn Fn(StepId) -> ArrayView2<'a, S>) -> Array2<S> {
        match self {
            Operation::Given => unreachable!("what is given is not computed"),
            Operation::Sum([a, b]) => map_entries(value(*a), |(i, j), x| x.add(value(*b)[[i, j]])),
            Operation::Hadamard([a, b]) => map_entries(value(*a), |(i, j), x| x.mul(value(*b)[[i, j]])),
            Operation::Product { factors: [a, b], bias } => {
                let product = product(value(*a), value(*b));
                match bias {
                    Some(bias) => map_entries(product.view(), |(_, j), x| x.add(value(*bias)[[0, j]])),
                    None => product,
                }
            }
            Operation::WeightedSum([a, b]) => weighted_sum(value(*a), value(*b)),
            Operation::ProductTransposed([a, b]) => product(value(*a), value(*b).reversed_axes()),
            Operation::TransposedProduct([a, b]) => product(value(*a).reversed_axes(), value(*b)),
            Operation::ProductsTransposed { pairs, added } => {
                let products = pairs.iter().map(|[a, b]| product(value(*a), value(*b).reversed_axes()));
                let all = products.chain(added.iter().map(|a| value(*a).to_owned()));
                let sum = all.reduce(|sum, next| map_entries(sum.view(), |at, x| x.add(next[at])));
                sum.unwrap_or_else(|| Array2::from_elem((0, 0), S::from_f64(0.0)))
            }
            Operation::PairSums([a, b]) => {
                let (a, b) = (value(*a), value(*b));
                let keys = b.nrows();
                from_entries((a.nrows() * keys, a.ncols()), |(i, j)| a[[i / keys, j]].add(b[[i % keys, j]]))
            }
            Operation::PairGradient { of, keys, is_second } => {
                let a = value(*of);
                from_entries(self.dim(|_| a.dim()), |(i, j)| {
                    let rows = pair_rows(a.nrows(), *keys, i, *is_second);
                    rows.fold(S::from_f64(0.0), |sum, row| sum.add(a[[row, j]]))
                })
            }
            Operation::Reshape { of, columns } => {
                let a = value(*of);
                from_entries(self.dim(|_| a.dim()), |(i, j)| a[reshaped(a.ncols(), i * columns + j)])
            }
            Operation::Difference { of: [a, b], over } => {
                map_entries(value(*a), |at, x| x.sub(value(*b)[at]).div(S::from_f64(*over)))
            }
            Operation::SoftmaxGradient { shares, gradient } => {
                let (shares, gradient) = (value(*shares), value(*gradient));
                map_entries(shares, |(i, j), share| {
                    let terms = shares.row(i).into_iter().zip(gradient.row(i));
                    let mean = terms.fold(S::from_f64(0.0), |sum, (share, g)| sum.add(share.mul_share(*g)));
                    share.mul_share(gradient[[i, j]].sub(mean))
                })
            }
            Operation::BroadcastRow { of, rows, over } => {
                let a = value(*of);
                from_entries((*rows, a.ncols()), |(_, j)| a[[0, j]].div(S::from_f64(*over)))
            }
            Operation::ColumnSums(of) => {
                let a = value(*of);
                from_entries((1, a.ncols()), |(_, j)| a.column(j).iter().fold(S::from_f64(0.0), |sum, x| sum.add(*x)))
            }
            Operation::Columns { of, range } => {
                let a = value(*of);
                from_entries((a.nrows(), range.len()), |(i, j)| a[[i, range.start + j]])
            }
            Operation::Rotary { of, angles, is_back } => {
                let a = value(*of);
                let sign = if *is_back { -1.0 } else { 1.0 };
                let speed = |i: usize| match angles {
                    RotaryAngles::Base(base) => base.powf(-2.0 * i as f64 / a.ncols() as f64),
                    RotaryAngles::Given(speeds) => value(*speeds)[[0, i]].midpoint(),
                };
                rotate_pairs(a, |i| sign * speed(i))
            }
            Operation::Scale { of, factor } => map_entries(value(*of), |_, x| x.mul(S::from_f64(*factor))),
            Operation::AddBias { of, bias } => map_entries(value(*of), |at, x| x.add(S::from_f64(bias[at]))),
            Operation::Mask { of, visible } => {
                map_entries(value(*of), |at, x| if visible[at] { x } else { S::from_f64(f64::NEG_INFINITY) })
            }
            Operation::RowMax(of) => fold_rows(value(*of), S::from_f64(f64::NEG_INFINITY), S::max),
            Operation::Exp { of, largest } => map_entries(value(*of), |(i, _), x| match largest {
                Some(largest) => {
                    let largest = value(*largest)[[i, 0]];
                    if largest.is_negative_infinity() { S::from_f64(0.0) } else { x.sub(largest).exp() }
                }
                None => x.exp(),
            }),
            Operation::RowSums(of) => fold_rows(value(*of), S::from_f64(0.0), S::add),
            Operation::DivideByRowSums { of, sums } => map_entries(value(*of), |(i, _), x| {
                let sum = value(*sums)[[i, 0]];
                if sum.is_zero() { S::from_f64(0.0) } else { x.div(sum) }
            }),
            Operation::OneHot(of) => one_hot(value(*of)),
            Operation::Concat(parts) => {
                let parts: Vec<ArrayView2<'_, S>> = parts.iter().map(|part| value(*part)).collect();
                concatenate(Axis(1), &parts).expect("heads have the same rows")
            }
            Operation::LayerNorm { of, gamma, beta, epsilon } => {
                let a = value(*of);
                let mut y = a.to_owned();
                for mut row in y.rows_mut() {
                    let n = S::from_f64(row.len() as f64);
                    let mean = row.iter().fold(S::from_f64(0.0), |sum, x| sum.add(*x)).div(n);
                    row.mapv_inplace(|x| x.sub(mean));
                    let variance = row.iter().fold(S::from_f64(0.0), |sum, x| sum.add(x.square())).div(n);
                    let deviation = variance.add(S::from_f64(*epsilon)).sqrt();
                    row.mapv_inplace(|x| x.div(deviation));
                }
                let y = gamma.map_or(y.clone(), |gamma| map_entries(y.view(), |(_, j), x| x.mul(value(gamma)[[0, j]])));
                beta.map_or(y.clone(), |beta| map_entries(y.view(), |(_, j), x| x.add(value(beta)[[0, j]])))
            }
            Operation::RmsNorm { of, gamma, epsilon } => {
                let mut y = value(*of).to_owned();
                for mut row in y.rows_mut() {
                    let squares = row.iter().fold(S::from_f64(0.0), |sum, x| sum.add(x.square()));
                    let root = squares.div(S::from_f64(row.len() as f64)).add(S::from_f64(*epsilon)).sqrt();
                    row.mapv_inplace(|x| x.div(root));
                }
                gamma.map_or(y.clone(), |gamma| map_entries(y.view(), |(_, j), x| x.mul(value(gamma)[[0, j]])))
            }
            Operation::Pool { of, poolings } => {
                let a = value(*of);
                let rows: Vec<Array2<S>> = poolings.iter().map(|&pooling| pool_rows(a, pooling)).collect();
                let rows: Vec<ArrayView2<'_, S>> = rows.iter().map(|row| row.view()).collect();
                concatenate(Axis(1), &rows).expect("each is one row")
            }
            Operation::Activation { of, activation } => map_entries(value(*of), |_, x| x.activate(*activation)),
            Operation::Tanh(of) => map_entries(value(*of), |_, x| x.tanh()),
            Operation::Log(of) => map_entries(value(*of), |_, x| x.ln()),
            Operation::StateRecurrence(before) => before.apply(value),
            Operation::Gate { terms: [(a, from), (b, other)], width, is_tanh } => {
                let (a, b) = (value(*a), value(*b));
                from_entries((a.nrows(), *width), |(i, j)| {
                    let sum = a[[i, from + j]].add(b[[i, other + j]]);
                    if *is_tanh { sum.tanh() } else { logistic(sum) }
                })
            }
            Operation::GatedSum { pairs: [[a, b], [c, d]], is_complement } => map_entries(value(*b), |at, x| {
                let a = value(*a)[at];
                let first = if *is_complement { S::from_f64(1.0).sub(a) } else { a };
                first.mul(x).add(value(*c)[at].mul(value(*d)[at]))
            }),
            Operation::StateGradient(later) => later.apply(value),
            Operation::GateGradient { gate, gradient, is_tanh } => map_entries(value(*gate), |at, y| {
                let (g, one) = (value(*gradient)[at], S::from_f64(1.0));
                if *is_tanh { g.mul(one.sub(y.square())) } else { g.mul(y).mul(one.sub(y)) }
            }),
            Operation::ComplementProduct([a, g]) => {
                map_entries(value(*a), |at, x| S::from_f64(1.0).sub(x).mul(value(*g)[at]))
            }
            Operation::DifferenceProduct { gradient, of: [a, b] } => {
                map_entries(value(*gradient), |at, g| g.mul(value(*a)[at].sub(value(*b)[at])))
            }
            Operation::CrossEntropy { target, logarithms } => {
                let (target, logarithms) = (value(*target), value(*logarithms));
                let terms = target.iter().zip(&logarithms);
                let sum = terms.fold(S::from_f64(0.0), |sum, (share, x)| sum.sub(share.mul_share(*x)));
                Array2::from_elem((1, 1), sum.div(S::from_f64(target.nrows() as f64)))
            }
            Operation::UnitLength(of) => {
                let mut y = value(*of).to_owned();
                for mut row in y.rows_mut() {
                    let length = row.iter().fold(S::from_f64(0.0), |sum, x| sum.add(x.square())).sqrt();
                    row.mapv_inplace(|x| if length.is_zero() { S::from_f64(0.0) } else { x.div(length) });
                }
                y
            }
            Operation::ActivationDerivative { of, curve } => map_entries(value(*of), |_, x| match curve {
                EntrywiseFunction::Activation(activation) => x.activation_derivative(*activation),
                EntrywiseFunction::Tanh => S::from_f64(1.0).sub(x.tanh().square()),
            }),
            Operation::NormGradient(NormGradient { of, plain, gamma, gradient, epsilon, is_rms }) => {
                let (of, plain, gradient) = (value(*of), value(*plain), value(*gradient));
                let gamma = gamma.map(&value);
                let scaled = map_entries(gradient, |(_, j), g| gamma.map_or(g, |gamma| g.mul(gamma[[0, j]])));
                let mut found = scaled.clone();
                for (i, mut row) in found.rows_mut().into_iter().enumerate() {
                    let n = S::from_f64(row.len() as f64);
                    let mean = |terms: &mut dyn Iterator<Item = S>| terms.fold(S::from_f64(0.0), S::add).div(n);
                    let own = scaled.row(i);
                    let [center, middle] = match is_rms {
                        true => [S::from_f64(0.0); 2],
                        false => [mean(&mut own.iter().copied()), mean(&mut of.row(i).iter().copied())],
                    };
                    let along = mean(&mut own.iter().zip(plain.row(i)).map(|(g, x)| g.mul(*x)));
                    let spread = mean(&mut of.row(i).iter().map(|x| x.sub(middle).square()));
                    let deviation = spread.add(S::from_f64(*epsilon)).sqrt();
                    for (g, x) in row.iter_mut().zip(plain.row(i)) {
                        *g = g.sub(center).sub(x.mul(along)).div(deviation);
                    }
                }
                found
            }
            Operation::ColumnDotProducts([a, b]) => {
                let (a, b) = (value(*a), value(*b));
                from_entries((1, a.ncols()), |(_, j)| {
                    a.column(j).iter().zip(b.column(j)).fold(S::from_f64(0.0), |sum, (x, y)| sum.add(x.mul(*y)))
                })
            }
            Operation::PoolingGradient { of, gradient, pooling } => {
                let (of, gradient) = (value(*of), value(*gradient));
                let last = of.nrows().saturating_sub(1);
                map_entries(of, |(i, j), _| match pooling {
                    Pooling::First => S::from_f64(f64::from(i == 0)).mul_share(gradient[[0, j]]),
                    Pooling::Last => S::from_f64(f64::from(i == last)).mul_share(gradient[[0, j]]),
                    _ => S::is_argmax(&of.column(j).to_vec(), i).mul_share(gradient[[0, j]]),
                })
            }
            Operation::UnitGradient { of, unit, gradient } => {
                let (of, unit, gradient) = (value(*of), value(*unit), value(*gradient));
                map_entries(of, |(i, j), _| {
                    let length = of.row(i).iter().fold(S::from_f64(0.0), |sum, x| sum.add(x.square())).sqrt();
                    let terms = unit.row(i).into_iter().zip(gradient.row(i));
                    let along = terms.fold(S::from_f64(0.0), |sum, (u, g)| sum.add(u.mul(*g)));
                    let across = gradient[[i, j]].sub(unit[[i, j]].mul(along));
                    if length.is_zero() { S::from_f64(0.0) } else { across.div(length) }
                })
            }
            Operation::SoftmaxJacobian { shares, row } => {
                let shares = value(*shares);
                let own = shares.row(*row);
                from_entries((own.len(), own.len()), |(j, k)| match j == k {
                    true => own[j].mul(S::from_f64(1.0).sub(own[j])),
                    false => S::from_f64(0.0).sub(own[j].mul(own[k])),
                })
            }
            Operation::Moment { before, gradient, keep, is_square } => map_entries(value(*gradient), |at, g| {
                let new = S::from_f64(1.0 - keep).mul(if *is_square { g.square() } else { g });
                before.map_or(new, |before| S::from_f64(*keep).mul(value(before)[at]).add(new))
            }),
            Operation::BiasCorrection { of, keep, step } => {
                let left = S::from_f64(1.0 - keep.powf(f64::from(*step)));
                map_entries(value(*of), |_, x| x.div(left))
            }
            Operation::AdamUpdate { moments: [m, v], rate, epsilon } => map_entries(value(*m), |at, x| {
                S::from_f64(*rate).mul(x).div(value(*v)[at].sqrt().add(S::from_f64(*epsilon)))
            }),
            Operation::AdamWStep { of, update, rate, weight_decay } => {
                let kept = S::from_f64(1.0 - rate * weight_decay);
                map_entries(value(*of), |at, x| kept.mul(x).sub(value(*update)[at]))
            }
        }
    }
}

/// Returns the rows of pairs that have the given row of the first or the second operand.
pub(crate) fn pair_rows(pairs: usize, keys: usize, row: usize, is_second: bool) -> std::iter::StepBy<Range<usize>> {
    if is_second { (row..pairs).step_by(keys) } else { (row * keys..(row + 1) * keys).step_by(1) }
}

/// Returns row and column of a matrix's number by its index in reading order.
pub(crate) fn reshaped(columns: usize, index: usize) -> [usize; 2] {
    [index / columns, index % columns]
}

/// Creates a matrix, without code of its own for each caller.
fn from_entries<S: Scalar>(dim: (usize, usize), f: impl Fn((usize, usize)) -> S) -> Array2<S> {
    fn create<S: Scalar>(dim: (usize, usize), f: &dyn Fn((usize, usize)) -> S) -> Array2<S> {
        Array2::from_shape_fn(dim, f)
    }
    create(dim, &f)
}

fn map_entries<S: Scalar>(a: ArrayView2<'_, S>, f: impl Fn((usize, usize), S) -> S) -> Array2<S> {
    from_entries(a.dim(), |at| f(at, a[at]))
}

/// Reduces each row to one number.
fn fold_rows<S: Scalar>(a: ArrayView2<'_, S>, first: S, f: impl Fn(S, S) -> S) -> Array2<S> {
    from_entries((a.nrows(), 1), |(i, _)| a.row(i).iter().fold(first, |found, x| f(found, *x)))
}

fn product<S: Scalar>(a: ArrayView2<'_, S>, b: ArrayView2<'_, S>) -> Array2<S> {
    from_entries((a.nrows(), b.ncols()), |(i, j)| {
        a.row(i).iter().zip(b.column(j)).fold(S::from_f64(0.0), |sum, (x, y)| sum.add(x.mul(*y)))
    })
}

/// Like [`product`], but skips shares of 0, so that masked values never show.
fn weighted_sum<S: Scalar>(shares: ArrayView2<'_, S>, values: ArrayView2<'_, S>) -> Array2<S> {
    from_entries((shares.nrows(), values.ncols()), |(i, j)| {
        let terms = shares.row(i).into_iter().zip(values.column(j));
        terms.fold(S::from_f64(0.0), |sum, (x, y)| sum.add(x.mul_share(*y)))
    })
}

fn rotate_pairs<S: Scalar>(a: ArrayView2<'_, S>, speed: impl Fn(usize) -> f64) -> Array2<S> {
    let half = a.ncols() / 2;
    from_entries(a.dim(), |(position, j)| {
        let i = j % half.max(1);
        let angle = position as f64 * speed(i);
        let [cos, sin] = [angle.cos(), angle.sin()].map(S::from_f64);
        match j < half {
            true => a[[position, j]].mul(cos).sub(a[[position, j + half]].mul(sin)),
            false => a[[position, j]].mul(cos).add(a[[position, i]].mul(sin)),
        }
    })
}

/// Pools all rows to one; without rows it is 0.
fn pool_rows<S: Scalar>(a: ArrayView2<'_, S>, pooling: Pooling) -> Array2<S> {
    let count = a.nrows() as f64;
    let over =
        |count: f64| move |column: Vec<S>| column.into_iter().fold(S::from_f64(0.0), S::add).div(S::from_f64(count));
    let each = |one: &dyn Fn(Vec<S>) -> S| {
        let column = |j: usize| if a.nrows() == 0 { S::from_f64(0.0) } else { one(a.column(j).to_vec()) };
        from_entries((1, a.ncols()), |(_, j)| column(j))
    };
    match pooling {
        Pooling::First => each(&|column| column[0]),
        Pooling::Last => each(&|column| column[column.len() - 1]),
        Pooling::Max => each(&|column| column.into_iter().fold(S::from_f64(f64::NEG_INFINITY), S::max)),
        Pooling::MeanSqrtLength => each(&over(count.sqrt())),
        Pooling::Mean => each(&over(count)),
    }
}

fn one_hot<S: Scalar>(a: ArrayView2<'_, S>) -> Array2<S> {
    let mut y = Array2::from_elem(a.dim(), S::from_f64(0.0));
    for (from, mut to) in a.rows().into_iter().zip(y.rows_mut()) {
        let row: Vec<S> = from.to_vec();
        to.iter_mut().enumerate().for_each(|(j, x)| *x = S::is_argmax(&row, j));
    }
    y
}
