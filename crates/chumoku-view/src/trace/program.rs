//! The steps of a worked example, in order, each with its matrix.

use super::operation::{Operation, StepId};
use super::quantity::Quantity;
use chumoku::memory;
use ndarray::Array2;

/// What a number of a step takes in the end: itself, once more where it is shown, and its interval where it is checked.
const BYTES: f64 = 64.0;

/// What a step's matrix is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepKind {
    /// The quantity itself.
    Value,
    /// The gradient of the loss with respect to it, of the same shape.
    Gradient,
}

/// A step: what it is, how it follows, and its matrix.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) quantity: Quantity,
    /// The head, from 0, where each has its own.
    pub(crate) head: Option<usize>,
    pub(crate) kind: StepKind,
    pub(crate) operation: Operation,
    pub(crate) value: Array2<f64>,
}

impl Step {
    /// Its letter, with the number of its head.
    pub(crate) fn symbol(&self) -> String {
        let (symbol, head) =
            (self.quantity.symbol(), self.head.map_or(String::new(), |head| format!("[{}]", head + 1)));
        match self.kind {
            StepKind::Value => format!("{symbol}{head}"),
            StepKind::Gradient => format!("d{symbol}{head}"),
        }
    }
}

/// Steps, each computed from those before it, in f64.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    steps: Vec<Step>,
}

impl Program {
    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub(crate) fn step(&self, id: StepId) -> &Step {
        &self.steps[id]
    }

    pub(crate) fn value(&self, id: StepId) -> &Array2<f64> {
        &self.steps[id].value
    }

    /// The step of a quantity, of a head where each has its own.
    pub(crate) fn find(&self, quantity: Quantity, head: Option<usize>) -> Option<StepId> {
        let is_it = |step: &Step| step.kind == StepKind::Value && step.quantity == quantity && step.head == head;
        self.steps.iter().position(is_it)
    }

    /// What is given.
    pub(crate) fn give(&mut self, quantity: Quantity, head: Option<usize>, value: Array2<f64>) -> StepId {
        self.steps.push(Step { quantity, head, kind: StepKind::Value, operation: Operation::Given, value });
        self.steps.len() - 1
    }

    /// Computes a step. The operands must fit: who builds a program checks what it is given.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(crate) fn compute(
        &mut self,
        quantity: Quantity,
        head: Option<usize>,
        operation: Operation,
    ) -> Result<StepId, String> {
        self.add(quantity, head, StepKind::Value, operation)
    }

    /// Computes the gradient of the loss with respect to a step.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(super) fn gradient(&mut self, of: StepId, operation: Operation) -> Result<StepId, String> {
        self.add(self.steps[of].quantity, self.steps[of].head, StepKind::Gradient, operation)
    }

    fn add(
        &mut self,
        quantity: Quantity,
        head: Option<usize>,
        kind: StepKind,
        operation: Operation,
    ) -> Result<StepId, String> {
        let (rows, columns) = operation.dim(|id| self.steps[id].value.dim());
        if let Some([needed, free]) = memory::lacking(BYTES * rows as f64 * columns as f64) {
            let name = quantity.name();
            return Err(chumoku::tr!(
                "{name} would be {rows}×{columns}, which takes {needed} of memory, and {free} are free; give smaller matrices",
                "{name} は {rows}×{columns} になり、{needed} のメモリが必要ですが、空きは {free} です。もっと小さい行列を与えてください"
            ));
        }
        let value = operation.apply(|id| self.steps[id].value.view());
        self.steps.push(Step { quantity, head, kind, operation, value });
        Ok(self.steps.len() - 1)
    }
}
