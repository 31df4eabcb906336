//! The operations of a worked example, each defined once, for numbers and for intervals of numbers.

use super::number::Scalar;
use super::recurrence::{Before, Later, logistic};
use chumoku::nn::Pooling;
use chumoku_kernels::Activation;
use ndarray::{Array2, ArrayView2, Axis, concatenate};
use std::ops::Range;

/// The number of a step in its [`Program`](super::Program).
pub(crate) type StepId = usize;

/// What a step of position turns each pair of a head's numbers by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Angles {
    /// `base^(−2i/width)`.
    Base(f64),
    /// As a step says.
    Given(StepId),
}

/// How a step's matrix follows from those of steps before it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operation {
    /// It is given.
    Given,
    /// `A + B`, entry by entry.
    Sum([StepId; 2]),
    /// `A ∘ B`, entry by entry.
    Hadamard([StepId; 2]),
    /// `A B + b`, with a row `b` that is added to each row.
    Product { factors: [StepId; 2], bias: Option<StepId> },
    /// `A B` with the shares A of the rows of B; a share of 0 takes nothing, whatever stands there.
    Mixture([StepId; 2]),
    /// `A Bᵀ`.
    ProductTransposed([StepId; 2]),
    /// `Aᵀ B`.
    TransposedProduct([StepId; 2]),
    /// `A Bᵀ + C Dᵀ + … + E + …`: what the gradients of all that was made of a step come to.
    ProductsTransposed { pairs: Vec<[StepId; 2]>, added: Vec<StepId> },
    /// `(A − B) / over`.
    Difference { of: [StepId; 2], over: f64 },
    /// `A ∘ (G − Σⱼ A ∘ G)` of shares A and their gradient G: of each row, softmax's Jacobian times g.
    SoftmaxGradient { shares: StepId, gradient: StepId },
    /// The one row of A divided by `over`, in each row.
    Spread { of: StepId, rows: usize, over: f64 },
    /// The sum of each column.
    ColumnSums(StepId),
    /// Some columns of A: those of a head.
    Columns { of: StepId, range: Range<usize> },
    /// Each pair of columns i and i + half turned by its angle, once for each position (Su et al. 2021); `is_back` turns
    /// the other way.
    Turned { of: StepId, angles: Angles, is_back: bool },
    /// `factor · A`.
    Scaled { of: StepId, factor: f64 },
    /// `A + bias`, a number for each pair of query and key.
    Biased { of: StepId, bias: Array2<f64> },
    /// A where `seen`, −∞ elsewhere.
    Masked { of: StepId, seen: Array2<bool> },
    /// The largest number of each row.
    Largest(StepId),
    /// `exp(A − row's largest)`, 0 throughout where nothing is seen; without `largest`, `exp(A)`.
    Exponentials { of: StepId, largest: Option<StepId> },
    /// The sum of each row.
    RowSums(StepId),
    /// `A / row's sum`, 0 where the sum is.
    Shares { of: StepId, sums: StepId },
    /// 1 at the first largest number of a row, 0 elsewhere.
    OneHot(StepId),
    /// Side by side.
    Joined(Vec<StepId>),
    /// `γ (x − mean)/√(variance + ε) + β` for each row (Ba, Kiros and Hinton 2016).
    Normalised { of: StepId, gamma: Option<StepId>, beta: Option<StepId>, epsilon: f64 },
    /// `γ x/√(mean(x²) + ε)` for each row (Zhang and Sennrich 2019).
    RmsNormalised { of: StepId, gamma: Option<StepId>, epsilon: f64 },
    /// One row of all rows, in each of these ways, side by side.
    Pooled { of: StepId, ways: Vec<Pooling> },
    /// An activation of each entry.
    Activated { of: StepId, activation: Activation },
    /// `tanh(A)`.
    Tanh(StepId),
    /// What each token is given by the one before it.
    Before(Before),
    /// `σ(A + B)` or `tanh(A + B)`, of so many columns of both from these on.
    Gate { terms: [(StepId, usize); 2], width: usize, is_tanh: bool },
    /// `A ∘ B + C ∘ D`, or `(1 − A) ∘ B + C ∘ D`.
    Gated { pairs: [[StepId; 2]; 2], is_complement: bool },
    /// What gradient each token is handed by the one after it.
    Later(Later),
    /// `G ∘ Y ∘ (1 − Y)`, or `G ∘ (1 − Y²)`: of what is inside a gate Y, σ or tanh, with its gradient G.
    GateGradient { gate: StepId, gradient: StepId, is_tanh: bool },
    /// `(1 − A) ∘ G`.
    Complement([StepId; 2]),
    /// `G ∘ (A − B)`.
    Between { gradient: StepId, of: [StepId; 2] },
    /// `ln(A)`.
    Logarithms(StepId),
    /// `−Σ T ∘ L / rows` of targets T and the logarithms L of probabilities, one number; a share of 0 takes nothing.
    CrossEntropy { target: StepId, logarithms: StepId },
    /// Each row divided by its length; a row of nothing stays one.
    UnitLength(StepId),
    /// The derivative of an activation at each entry.
    Slope { of: StepId, curve: Curve },
    /// `(G γ − mean(G γ) − x̂ mean(G γ x̂)) / √(variance + ε)` for each row of what is normalised to x̂, with the gradient G
    /// of the result; of RMS normalisation without the first mean, and with the mean square for the variance.
    NormGradient(NormGradient),
    /// `Σᵢ A ∘ B`: the sum of each column of a product.
    ColumnProducts([StepId; 2]),
    /// The one row G in the row that pooling took a column from, 0 elsewhere.
    Placed { of: StepId, gradient: StepId, way: Pooling },
    /// `(G − U Σⱼ U ∘ G) / ‖A‖` for each row of A, which is U when divided by its length.
    UnitGradient { of: StepId, unit: StepId, gradient: StepId },
    /// `diag(a) − a aᵀ` of one row a of shares: softmax's Jacobian.
    SoftmaxJacobian { shares: StepId, row: usize },
    /// `keep · M + (1 − keep) · G`, or of G², with nothing for M where there is none.
    Moment { before: Option<StepId>, gradient: StepId, keep: f64, is_square: bool },
    /// `M / (1 − keep^step)`.
    Corrected { of: StepId, keep: f64, step: u32 },
    /// `rate · M / (√V + ε)`.
    Update { moments: [StepId; 2], rate: f64, epsilon: f64 },
    /// `(1 − rate · weight_decay) · W − Δ`.
    Stepped { of: StepId, update: StepId, rate: f64, weight_decay: f64 },
}

/// What a normalisation's gradient is made of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NormGradient {
    /// What was normalised.
    pub(crate) of: StepId,
    /// What it became before γ and β.
    pub(crate) plain: StepId,
    pub(crate) gamma: Option<StepId>,
    /// Of what came of it.
    pub(crate) gradient: StepId,
    pub(crate) epsilon: f64,
    pub(crate) is_rms: bool,
}

/// A function whose derivative is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Curve {
    Activation(Activation),
    Tanh,
}

impl Operation {
    /// Rows and columns of the result, from those of the operands.
    pub(crate) fn dim(&self, of: impl Fn(StepId) -> (usize, usize)) -> (usize, usize) {
        match self {
            Operation::Given => (0, 0),
            Operation::Sum([a, _])
            | Operation::Hadamard([a, _])
            | Operation::Activated { of: a, .. }
            | Operation::Turned { of: a, .. }
            | Operation::Scaled { of: a, .. }
            | Operation::Biased { of: a, .. }
            | Operation::Masked { of: a, .. }
            | Operation::Exponentials { of: a, .. }
            | Operation::Shares { of: a, .. }
            | Operation::OneHot(a)
            | Operation::Tanh(a)
            | Operation::Logarithms(a)
            | Operation::UnitLength(a)
            | Operation::Normalised { of: a, .. }
            | Operation::RmsNormalised { of: a, .. }
            | Operation::Slope { of: a, .. }
            | Operation::NormGradient(NormGradient { of: a, .. })
            | Operation::Placed { of: a, .. }
            | Operation::UnitGradient { of: a, .. }
            | Operation::Moment { gradient: a, .. }
            | Operation::Corrected { of: a, .. }
            | Operation::Complement([a, _])
            | Operation::Between { gradient: a, .. }
            | Operation::GateGradient { gate: a, .. }
            | Operation::Later(Later { gradient: a, .. })
            | Operation::Update { moments: [a, _], .. }
            | Operation::Stepped { of: a, .. } => of(*a),
            Operation::Product { factors: [a, b], .. } | Operation::Mixture([a, b]) => (of(*a).0, of(*b).1),
            Operation::ProductTransposed([a, b]) => (of(*a).0, of(*b).0),
            Operation::TransposedProduct([a, b]) => (of(*a).1, of(*b).1),
            Operation::ProductsTransposed { pairs, added } => match (pairs.first(), added.first()) {
                (Some([a, b]), _) => (of(*a).0, of(*b).0),
                (None, Some(a)) => of(*a),
                (None, None) => (0, 0),
            },
            Operation::Difference { of: [a, _], .. } | Operation::SoftmaxGradient { shares: a, .. } => of(*a),
            Operation::Spread { of: a, rows, .. } => (*rows, of(*a).1),
            Operation::ColumnSums(a) | Operation::ColumnProducts([a, _]) => (1, of(*a).1),
            Operation::SoftmaxJacobian { shares, .. } => (of(*shares).1, of(*shares).1),
            Operation::Columns { of: a, range } => (of(*a).0, range.len()),
            Operation::CrossEntropy { .. } => (1, 1),
            Operation::Pooled { of: a, ways } => (1, ways.len() * of(*a).1),
            Operation::Largest(a) | Operation::RowSums(a) => (of(*a).0, 1),
            Operation::Before(before) => (of(before.sums).0, of(before.weight).0),
            Operation::Gate { terms: [(a, _), _], width, .. } => (of(*a).0, *width),
            Operation::Gated { pairs: [[_, b], _], .. } => of(*b),
            Operation::Joined(parts) => {
                (parts.first().map_or(0, |a| of(*a).0), parts.iter().map(|part| of(*part).1).sum())
            }
        }
    }

    /// The result, from what the operands are. The shapes fit: [`Program`](super::Program) sees to that.
    pub(crate) fn apply<'a, S: Scalar + 'a>(&self, value: impl Fn(StepId) -> ArrayView2<'a, S>) -> Array2<S> {
        match self {
            Operation::Given => unreachable!("what is given is not computed"),
            Operation::Sum([a, b]) => each(value(*a), |(i, j), x| x.add(value(*b)[[i, j]])),
            Operation::Hadamard([a, b]) => each(value(*a), |(i, j), x| x.mul(value(*b)[[i, j]])),
            Operation::Product { factors: [a, b], bias } => {
                let product = product(value(*a), value(*b));
                match bias {
                    Some(bias) => each(product.view(), |(_, j), x| x.add(value(*bias)[[0, j]])),
                    None => product,
                }
            }
            Operation::Mixture([a, b]) => mixture(value(*a), value(*b)),
            Operation::ProductTransposed([a, b]) => product(value(*a), value(*b).reversed_axes()),
            Operation::TransposedProduct([a, b]) => product(value(*a).reversed_axes(), value(*b)),
            Operation::ProductsTransposed { pairs, added } => {
                let products = pairs.iter().map(|[a, b]| product(value(*a), value(*b).reversed_axes()));
                let all = products.chain(added.iter().map(|a| value(*a).to_owned()));
                let sum = all.reduce(|sum, next| each(sum.view(), |at, x| x.add(next[at])));
                sum.unwrap_or_else(|| Array2::from_elem((0, 0), S::of(0.0)))
            }
            Operation::Difference { of: [a, b], over } => {
                each(value(*a), |at, x| x.sub(value(*b)[at]).div(S::of(*over)))
            }
            Operation::SoftmaxGradient { shares, gradient } => {
                let (shares, gradient) = (value(*shares), value(*gradient));
                each(shares, |(i, j), share| {
                    let terms = shares.row(i).into_iter().zip(gradient.row(i));
                    let mean = terms.fold(S::of(0.0), |sum, (share, g)| sum.add(share.share_of(*g)));
                    share.share_of(gradient[[i, j]].sub(mean))
                })
            }
            Operation::Spread { of, rows, over } => {
                let a = value(*of);
                Array2::from_shape_fn((*rows, a.ncols()), |(_, j)| a[[0, j]].div(S::of(*over)))
            }
            Operation::ColumnSums(of) => {
                let a = value(*of);
                Array2::from_shape_fn((1, a.ncols()), |(_, j)| {
                    a.column(j).iter().fold(S::of(0.0), |sum, x| sum.add(*x))
                })
            }
            Operation::Columns { of, range } => {
                let a = value(*of);
                Array2::from_shape_fn((a.nrows(), range.len()), |(i, j)| a[[i, range.start + j]])
            }
            Operation::Turned { of, angles, is_back } => {
                let a = value(*of);
                let sign = if *is_back { -1.0 } else { 1.0 };
                let speed = |i: usize| match angles {
                    Angles::Base(base) => base.powf(-2.0 * i as f64 / a.ncols() as f64),
                    Angles::Given(speeds) => value(*speeds)[[0, i]].middle(),
                };
                turned(a, |i| sign * speed(i))
            }
            Operation::Scaled { of, factor } => each(value(*of), |_, x| x.mul(S::of(*factor))),
            Operation::Biased { of, bias } => each(value(*of), |at, x| x.add(S::of(bias[at]))),
            Operation::Masked { of, seen } => {
                each(value(*of), |at, x| if seen[at] { x } else { S::of(f64::NEG_INFINITY) })
            }
            Operation::Largest(of) => rows(value(*of), S::of(f64::NEG_INFINITY), S::max),
            Operation::Exponentials { of, largest } => each(value(*of), |(i, _), x| match largest {
                Some(largest) => {
                    let largest = value(*largest)[[i, 0]];
                    if largest.is_nothing() { S::of(0.0) } else { x.sub(largest).exp() }
                }
                None => x.exp(),
            }),
            Operation::RowSums(of) => rows(value(*of), S::of(0.0), S::add),
            Operation::Shares { of, sums } => each(value(*of), |(i, _), x| {
                let sum = value(*sums)[[i, 0]];
                if sum.is_zero() { S::of(0.0) } else { x.div(sum) }
            }),
            Operation::OneHot(of) => one_hot(value(*of)),
            Operation::Joined(parts) => {
                let parts: Vec<ArrayView2<'_, S>> = parts.iter().map(|part| value(*part)).collect();
                concatenate(Axis(1), &parts).expect("heads have the same rows")
            }
            Operation::Normalised { of, gamma, beta, epsilon } => {
                let a = value(*of);
                let mut y = a.to_owned();
                for mut row in y.rows_mut() {
                    let n = S::of(row.len() as f64);
                    let mean = row.iter().fold(S::of(0.0), |sum, x| sum.add(*x)).div(n);
                    row.mapv_inplace(|x| x.sub(mean));
                    let variance = row.iter().fold(S::of(0.0), |sum, x| sum.add(x.square())).div(n);
                    let deviation = variance.add(S::of(*epsilon)).sqrt();
                    row.mapv_inplace(|x| x.div(deviation));
                }
                let y = gamma.map_or(y.clone(), |gamma| each(y.view(), |(_, j), x| x.mul(value(gamma)[[0, j]])));
                beta.map_or(y.clone(), |beta| each(y.view(), |(_, j), x| x.add(value(beta)[[0, j]])))
            }
            Operation::RmsNormalised { of, gamma, epsilon } => {
                let mut y = value(*of).to_owned();
                for mut row in y.rows_mut() {
                    let squares = row.iter().fold(S::of(0.0), |sum, x| sum.add(x.square()));
                    let root = squares.div(S::of(row.len() as f64)).add(S::of(*epsilon)).sqrt();
                    row.mapv_inplace(|x| x.div(root));
                }
                gamma.map_or(y.clone(), |gamma| each(y.view(), |(_, j), x| x.mul(value(gamma)[[0, j]])))
            }
            Operation::Pooled { of, ways } => {
                let a = value(*of);
                let rows: Vec<Array2<S>> = ways.iter().map(|&way| pooled(a, way)).collect();
                let rows: Vec<ArrayView2<'_, S>> = rows.iter().map(|row| row.view()).collect();
                concatenate(Axis(1), &rows).expect("each is one row")
            }
            Operation::Activated { of, activation } => each(value(*of), |_, x| x.activated(*activation)),
            Operation::Tanh(of) => each(value(*of), |_, x| x.tanh()),
            Operation::Logarithms(of) => each(value(*of), |_, x| x.ln()),
            Operation::Before(before) => before.apply(value),
            Operation::Gate { terms: [(a, from), (b, other)], width, is_tanh } => {
                let (a, b) = (value(*a), value(*b));
                Array2::from_shape_fn((a.nrows(), *width), |(i, j)| {
                    let sum = a[[i, from + j]].add(b[[i, other + j]]);
                    if *is_tanh { sum.tanh() } else { logistic(sum) }
                })
            }
            Operation::Gated { pairs: [[a, b], [c, d]], is_complement } => each(value(*b), |at, x| {
                let a = value(*a)[at];
                let first = if *is_complement { S::of(1.0).sub(a) } else { a };
                first.mul(x).add(value(*c)[at].mul(value(*d)[at]))
            }),
            Operation::Later(later) => later.apply(value),
            Operation::GateGradient { gate, gradient, is_tanh } => each(value(*gate), |at, y| {
                let (g, one) = (value(*gradient)[at], S::of(1.0));
                if *is_tanh { g.mul(one.sub(y.square())) } else { g.mul(y).mul(one.sub(y)) }
            }),
            Operation::Complement([a, g]) => each(value(*a), |at, x| S::of(1.0).sub(x).mul(value(*g)[at])),
            Operation::Between { gradient, of: [a, b] } => {
                each(value(*gradient), |at, g| g.mul(value(*a)[at].sub(value(*b)[at])))
            }
            Operation::CrossEntropy { target, logarithms } => {
                let (target, logarithms) = (value(*target), value(*logarithms));
                let terms = target.iter().zip(&logarithms);
                let sum = terms.fold(S::of(0.0), |sum, (share, x)| sum.sub(share.share_of(*x)));
                Array2::from_elem((1, 1), sum.div(S::of(target.nrows() as f64)))
            }
            Operation::UnitLength(of) => {
                let mut y = value(*of).to_owned();
                for mut row in y.rows_mut() {
                    let length = row.iter().fold(S::of(0.0), |sum, x| sum.add(x.square())).sqrt();
                    row.mapv_inplace(|x| if length.is_zero() { S::of(0.0) } else { x.div(length) });
                }
                y
            }
            Operation::Slope { of, curve } => each(value(*of), |_, x| match curve {
                Curve::Activation(activation) => x.slope(*activation),
                Curve::Tanh => S::of(1.0).sub(x.tanh().square()),
            }),
            Operation::NormGradient(NormGradient { of, plain, gamma, gradient, epsilon, is_rms }) => {
                let (of, plain, gradient) = (value(*of), value(*plain), value(*gradient));
                let gamma = gamma.map(&value);
                let scaled = each(gradient, |(_, j), g| gamma.map_or(g, |gamma| g.mul(gamma[[0, j]])));
                let mut found = scaled.clone();
                for (i, mut row) in found.rows_mut().into_iter().enumerate() {
                    let n = S::of(row.len() as f64);
                    let mean = |terms: &mut dyn Iterator<Item = S>| terms.fold(S::of(0.0), S::add).div(n);
                    let own = scaled.row(i);
                    let [centre, middle] = match is_rms {
                        true => [S::of(0.0); 2],
                        false => [mean(&mut own.iter().copied()), mean(&mut of.row(i).iter().copied())],
                    };
                    let along = mean(&mut own.iter().zip(plain.row(i)).map(|(g, x)| g.mul(*x)));
                    let spread = mean(&mut of.row(i).iter().map(|x| x.sub(middle).square()));
                    let deviation = spread.add(S::of(*epsilon)).sqrt();
                    for (g, x) in row.iter_mut().zip(plain.row(i)) {
                        *g = g.sub(centre).sub(x.mul(along)).div(deviation);
                    }
                }
                found
            }
            Operation::ColumnProducts([a, b]) => {
                let (a, b) = (value(*a), value(*b));
                Array2::from_shape_fn((1, a.ncols()), |(_, j)| {
                    a.column(j).iter().zip(b.column(j)).fold(S::of(0.0), |sum, (x, y)| sum.add(x.mul(*y)))
                })
            }
            Operation::Placed { of, gradient, way } => {
                let (of, gradient) = (value(*of), value(*gradient));
                let last = of.nrows().saturating_sub(1);
                each(of, |(i, j), _| match way {
                    Pooling::First => S::of(f64::from(i == 0)).share_of(gradient[[0, j]]),
                    Pooling::Last => S::of(f64::from(i == last)).share_of(gradient[[0, j]]),
                    _ => S::is_first_largest(&of.column(j).to_vec(), i).share_of(gradient[[0, j]]),
                })
            }
            Operation::UnitGradient { of, unit, gradient } => {
                let (of, unit, gradient) = (value(*of), value(*unit), value(*gradient));
                each(of, |(i, j), _| {
                    let length = of.row(i).iter().fold(S::of(0.0), |sum, x| sum.add(x.square())).sqrt();
                    let terms = unit.row(i).into_iter().zip(gradient.row(i));
                    let along = terms.fold(S::of(0.0), |sum, (u, g)| sum.add(u.mul(*g)));
                    let across = gradient[[i, j]].sub(unit[[i, j]].mul(along));
                    if length.is_zero() { S::of(0.0) } else { across.div(length) }
                })
            }
            Operation::SoftmaxJacobian { shares, row } => {
                let shares = value(*shares);
                let own = shares.row(*row);
                Array2::from_shape_fn((own.len(), own.len()), |(j, k)| match j == k {
                    true => own[j].mul(S::of(1.0).sub(own[j])),
                    false => S::of(0.0).sub(own[j].mul(own[k])),
                })
            }
            Operation::Moment { before, gradient, keep, is_square } => each(value(*gradient), |at, g| {
                let new = S::of(1.0 - keep).mul(if *is_square { g.square() } else { g });
                before.map_or(new, |before| S::of(*keep).mul(value(before)[at]).add(new))
            }),
            Operation::Corrected { of, keep, step } => {
                let left = S::of(1.0 - keep.powf(f64::from(*step)));
                each(value(*of), |_, x| x.div(left))
            }
            Operation::Update { moments: [m, v], rate, epsilon } => {
                each(value(*m), |at, x| S::of(*rate).mul(x).div(value(*v)[at].sqrt().add(S::of(*epsilon))))
            }
            Operation::Stepped { of, update, rate, weight_decay } => {
                let kept = S::of(1.0 - rate * weight_decay);
                each(value(*of), |at, x| kept.mul(x).sub(value(*update)[at]))
            }
        }
    }
}

fn each<S: Scalar>(a: ArrayView2<'_, S>, f: impl Fn((usize, usize), S) -> S) -> Array2<S> {
    Array2::from_shape_fn(a.dim(), |at| f(at, a[at]))
}

/// One number from each row.
fn rows<S: Scalar>(a: ArrayView2<'_, S>, first: S, f: impl Fn(S, S) -> S) -> Array2<S> {
    Array2::from_shape_fn((a.nrows(), 1), |(i, _)| a.row(i).iter().fold(first, |found, x| f(found, *x)))
}

fn product<S: Scalar>(a: ArrayView2<'_, S>, b: ArrayView2<'_, S>) -> Array2<S> {
    Array2::from_shape_fn((a.nrows(), b.ncols()), |(i, j)| {
        a.row(i).iter().zip(b.column(j)).fold(S::of(0.0), |sum, (x, y)| sum.add(x.mul(*y)))
    })
}

/// As [`product`], without what has a share of 0: what is masked never shows.
fn mixture<S: Scalar>(shares: ArrayView2<'_, S>, values: ArrayView2<'_, S>) -> Array2<S> {
    Array2::from_shape_fn((shares.nrows(), values.ncols()), |(i, j)| {
        let terms = shares.row(i).into_iter().zip(values.column(j));
        terms.fold(S::of(0.0), |sum, (x, y)| sum.add(x.share_of(*y)))
    })
}

fn turned<S: Scalar>(a: ArrayView2<'_, S>, speed: impl Fn(usize) -> f64) -> Array2<S> {
    let half = a.ncols() / 2;
    Array2::from_shape_fn(a.dim(), |(position, j)| {
        let i = j % half.max(1);
        let angle = position as f64 * speed(i);
        let [cos, sin] = [angle.cos(), angle.sin()].map(S::of);
        match j < half {
            true => a[[position, j]].mul(cos).sub(a[[position, j + half]].mul(sin)),
            false => a[[position, j]].mul(cos).add(a[[position, i]].mul(sin)),
        }
    })
}

/// One row of all rows; of none it is 0.
fn pooled<S: Scalar>(a: ArrayView2<'_, S>, way: Pooling) -> Array2<S> {
    let count = a.nrows() as f64;
    let over = |count: f64| move |column: Vec<S>| column.into_iter().fold(S::of(0.0), S::add).div(S::of(count));
    let each = |one: &dyn Fn(Vec<S>) -> S| {
        let column = |j: usize| if a.nrows() == 0 { S::of(0.0) } else { one(a.column(j).to_vec()) };
        Array2::from_shape_fn((1, a.ncols()), |(_, j)| column(j))
    };
    match way {
        Pooling::First => each(&|column| column[0]),
        Pooling::Last => each(&|column| column[column.len() - 1]),
        Pooling::Max => each(&|column| column.into_iter().fold(S::of(f64::NEG_INFINITY), S::max)),
        Pooling::MeanSqrtLength => each(&over(count.sqrt())),
        _ => each(&over(count)),
    }
}

fn one_hot<S: Scalar>(a: ArrayView2<'_, S>) -> Array2<S> {
    let mut y = Array2::from_elem(a.dim(), S::of(0.0));
    for (from, mut to) in a.rows().into_iter().zip(y.rows_mut()) {
        let row: Vec<S> = from.to_vec();
        to.iter_mut().enumerate().for_each(|(j, x)| *x = S::is_first_largest(&row, j));
    }
    y
}
