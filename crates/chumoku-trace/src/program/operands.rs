//! Operands of operations.

use crate::program::operation::{NormGradient, Operation, RotaryAngles, StepId};
use crate::program::recurrence::{StateGradient, StateRecurrence};

impl Operation {
    /// Returns the same operation with other operands.
    pub(crate) fn map_operands(&self, other: impl Fn(StepId) -> StepId) -> Operation {
        let mut own = self.clone();
        own.operands_mut().into_iter().for_each(|id| *id = other(*id));
        own
    }

    /// Returns the operands.
    pub(crate) fn operands_mut(&mut self) -> Vec<&mut StepId> {
        match self {
            Operation::Given => Vec::new(),
            Operation::Sum(pair)
            | Operation::Hadamard(pair)
            | Operation::WeightedSum(pair)
            | Operation::ProductTransposed(pair)
            | Operation::TransposedProduct(pair)
            | Operation::PairSums(pair)
            | Operation::Difference { of: pair, .. }
            | Operation::ColumnDotProducts(pair)
            | Operation::ComplementProduct(pair)
            | Operation::AdamUpdate { moments: pair, .. } => pair.iter_mut().collect(),
            Operation::Product { factors, bias } => factors.iter_mut().chain(bias).collect(),
            Operation::ProductsTransposed { pairs, added } => pairs.iter_mut().flatten().chain(added).collect(),
            Operation::ColumnSums(of)
            | Operation::RowMax(of)
            | Operation::RowSums(of)
            | Operation::OneHot(of)
            | Operation::Tanh(of)
            | Operation::Log(of)
            | Operation::UnitLength(of)
            | Operation::BroadcastRow { of, .. }
            | Operation::PairGradient { of, .. }
            | Operation::Reshape { of, .. }
            | Operation::Columns { of, .. }
            | Operation::Scale { of, .. }
            | Operation::AddBias { of, .. }
            | Operation::Mask { of, .. }
            | Operation::Pool { of, .. }
            | Operation::Activation { of, .. }
            | Operation::ActivationDerivative { of, .. }
            | Operation::SoftmaxJacobian { shares: of, .. }
            | Operation::BiasCorrection { of, .. }
            | Operation::Rotary { of, angles: RotaryAngles::Base(_), .. } => vec![of],
            Operation::SoftmaxGradient { shares: a, gradient: b }
            | Operation::DivideByRowSums { of: a, sums: b }
            | Operation::CrossEntropy { target: a, logarithms: b }
            | Operation::PoolingGradient { of: a, gradient: b, .. }
            | Operation::GateGradient { gate: a, gradient: b, .. }
            | Operation::AdamWStep { of: a, update: b, .. }
            | Operation::Rotary { of: a, angles: RotaryAngles::Given(b), .. } => vec![a, b],
            Operation::Exp { of, largest } => [of].into_iter().chain(largest).collect(),
            Operation::Concat(parts) => parts.iter_mut().collect(),
            Operation::LayerNorm { of, gamma, beta, .. } => [of].into_iter().chain(gamma).chain(beta).collect(),
            Operation::RmsNorm { of, gamma, .. } => [of].into_iter().chain(gamma).collect(),
            Operation::NormGradient(NormGradient { of, plain, gamma, gradient, .. }) => {
                [of, plain, gradient].into_iter().chain(gamma).collect()
            }
            Operation::StateRecurrence(before) => recurrence_operands(before),
            Operation::StateGradient(StateGradient { recurrence: before, gradient }) => {
                [gradient].into_iter().chain(recurrence_operands(before)).collect()
            }
            Operation::DifferenceProduct { gradient, of: [a, b] } => vec![gradient, a, b],
            Operation::Gate { terms, .. } => terms.iter_mut().map(|(id, _)| id).collect(),
            Operation::GatedSum { pairs, .. } => pairs.iter_mut().flatten().collect(),
            Operation::UnitGradient { of, unit, gradient } => vec![of, unit, gradient],
            Operation::Moment { before, gradient, .. } => [gradient].into_iter().chain(before).collect(),
        }
    }
}

fn recurrence_operands(StateRecurrence { sums, weight, bias, first, .. }: &mut StateRecurrence) -> Vec<&mut StepId> {
    [sums, weight].into_iter().chain(bias).chain(first.iter_mut().flatten()).collect()
}
