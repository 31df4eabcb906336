//! What an operation is made of.

use super::operation::{Angles, NormGradient, Operation, StepId};
use super::recurrence::{Before, Later};

impl Operation {
    /// The same operation of other steps.
    pub(super) fn of_others(&self, other: impl Fn(StepId) -> StepId) -> Operation {
        let mut own = self.clone();
        own.operands_mut().into_iter().for_each(|id| *id = other(*id));
        own
    }

    /// The steps that it is made of.
    pub(super) fn operands_mut(&mut self) -> Vec<&mut StepId> {
        match self {
            Operation::Given => Vec::new(),
            Operation::Sum(pair)
            | Operation::Hadamard(pair)
            | Operation::Mixture(pair)
            | Operation::ProductTransposed(pair)
            | Operation::TransposedProduct(pair)
            | Operation::Difference { of: pair, .. }
            | Operation::ColumnProducts(pair)
            | Operation::Complement(pair)
            | Operation::Update { moments: pair, .. } => pair.iter_mut().collect(),
            Operation::Product { factors, bias } => factors.iter_mut().chain(bias).collect(),
            Operation::ProductsTransposed { pairs, added } => pairs.iter_mut().flatten().chain(added).collect(),
            Operation::ColumnSums(of)
            | Operation::Largest(of)
            | Operation::RowSums(of)
            | Operation::OneHot(of)
            | Operation::Tanh(of)
            | Operation::Logarithms(of)
            | Operation::UnitLength(of)
            | Operation::Spread { of, .. }
            | Operation::Columns { of, .. }
            | Operation::Scaled { of, .. }
            | Operation::Biased { of, .. }
            | Operation::Masked { of, .. }
            | Operation::Pooled { of, .. }
            | Operation::Activated { of, .. }
            | Operation::Slope { of, .. }
            | Operation::SoftmaxJacobian { shares: of, .. }
            | Operation::Corrected { of, .. }
            | Operation::Turned { of, angles: Angles::Base(_), .. } => vec![of],
            Operation::SoftmaxGradient { shares: a, gradient: b }
            | Operation::Shares { of: a, sums: b }
            | Operation::CrossEntropy { target: a, logarithms: b }
            | Operation::Placed { of: a, gradient: b, .. }
            | Operation::GateGradient { gate: a, gradient: b, .. }
            | Operation::Stepped { of: a, update: b, .. }
            | Operation::Turned { of: a, angles: Angles::Given(b), .. } => vec![a, b],
            Operation::Exponentials { of, largest } => [of].into_iter().chain(largest).collect(),
            Operation::Joined(parts) => parts.iter_mut().collect(),
            Operation::Normalised { of, gamma, beta, .. } => [of].into_iter().chain(gamma).chain(beta).collect(),
            Operation::RmsNormalised { of, gamma, .. } => [of].into_iter().chain(gamma).collect(),
            Operation::NormGradient(NormGradient { of, plain, gamma, gradient, .. }) => {
                [of, plain, gradient].into_iter().chain(gamma).collect()
            }
            Operation::Before(before) => of_recurrence(before),
            Operation::Later(Later { before, gradient }) => {
                [gradient].into_iter().chain(of_recurrence(before)).collect()
            }
            Operation::Between { gradient, of: [a, b] } => vec![gradient, a, b],
            Operation::Gate { terms, .. } => terms.iter_mut().map(|(id, _)| id).collect(),
            Operation::Gated { pairs, .. } => pairs.iter_mut().flatten().collect(),
            Operation::UnitGradient { of, unit, gradient } => vec![of, unit, gradient],
            Operation::Moment { before, gradient, .. } => [gradient].into_iter().chain(before).collect(),
        }
    }
}

fn of_recurrence(Before { sums, weight, bias, first, .. }: &mut Before) -> Vec<&mut StepId> {
    [sums, weight].into_iter().chain(bias).chain(first.iter_mut().flatten()).collect()
}
