//! The steps of a worked example in order, each with its matrix.

use crate::program::operation::{Operation, StepId};
use crate::program::quantity::Quantity;
use crate::program::step_kind::StepKind;
use chumoku::memory;
use ndarray::Array2;

/// Estimated bytes of memory for each number: its value, a copy for display, and an interval for checking.
const BYTES_PER_NUMBER: f64 = 64.0;

/// A step: its quantity, its operation, and its matrix.
#[derive(Clone, Debug)]
pub(crate) struct ProgramStep {
    pub(crate) quantity: Quantity,
    /// The head, from 0, if each head has its own.
    pub(crate) head: Option<usize>,
    pub(crate) kind: StepKind,
    /// Qualifier of the symbol: the symbol of another step, or a number.
    pub(crate) qualifier: String,
    pub(crate) operation: Operation,
    pub(crate) value: Array2<f64>,
}

impl ProgramStep {
    /// Returns the symbol with the number of its head.
    pub(crate) fn symbol(&self) -> String {
        let head = self.head.map_or(String::new(), |head| format!("[{}]", head + 1));
        self.kind.symbol(&(self.quantity.symbol().to_owned() + &head), &self.qualifier)
    }
}

/// Steps, each computed from previous ones, in f64.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    steps: Vec<ProgramStep>,
}

impl Program {
    pub(crate) fn steps(&self) -> &[ProgramStep] {
        &self.steps
    }

    pub(crate) fn step(&self, id: StepId) -> &ProgramStep {
        &self.steps[id]
    }

    pub(crate) fn value(&self, id: StepId) -> &Array2<f64> {
        &self.steps[id].value
    }

    /// Returns the step of a quantity, and of a head if each has its own.
    pub(crate) fn find(&self, quantity: Quantity, head: Option<usize>) -> Option<StepId> {
        self.find_kind(StepKind::Value, quantity, head)
    }

    /// Returns the step of a quantity and a kind, and of a head if each has its own.
    pub(crate) fn find_kind(&self, kind: StepKind, quantity: Quantity, head: Option<usize>) -> Option<StepId> {
        let is_it = |step: &ProgramStep| step.kind == kind && step.quantity == quantity && step.head == head;
        self.steps.iter().position(is_it)
    }

    /// Adds a given matrix.
    pub(crate) fn add_given(&mut self, quantity: Quantity, head: Option<usize>, value: Array2<f64>) -> StepId {
        self.add_given_kind(StepKind::Value, quantity, head, value)
    }

    /// Adds a given matrix of another kind than the quantity itself.
    pub(crate) fn add_given_kind(
        &mut self,
        kind: StepKind,
        quantity: Quantity,
        head: Option<usize>,
        value: Array2<f64>,
    ) -> StepId {
        let (through, operation) = (String::new(), Operation::Given);
        self.steps.push(ProgramStep { quantity, head, kind, qualifier: through, operation, value });
        self.steps.len() - 1
    }

    /// Computes and adds a step. The caller ensures that the operands fit.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub(crate) fn add_computed(
        &mut self,
        quantity: Quantity,
        head: Option<usize>,
        operation: Operation,
    ) -> Result<StepId, String> {
        self.add_step(quantity, head, (StepKind::Value, String::new()), operation)
    }

    /// Computes and adds a step that is derived from another, such as its gradient. `qualifier` is added to its symbol.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub(crate) fn add_derived(
        &mut self,
        of: StepId,
        kind: StepKind,
        through: &str,
        operation: Operation,
    ) -> Result<StepId, String> {
        self.add_step(self.steps[of].quantity, self.steps[of].head, (kind, through.to_owned()), operation)
    }

    fn add_step(
        &mut self,
        quantity: Quantity,
        head: Option<usize>,
        (kind, through): (StepKind, String),
        operation: Operation,
    ) -> Result<StepId, String> {
        let (rows, columns) = operation.dim(|id| self.steps[id].value.dim());
        if let Some([needed, free]) = memory::shortage(BYTES_PER_NUMBER * rows as f64 * columns as f64) {
            let name = quantity.name();
            return Err(chumoku::tr!(
                "{name} would be {rows}×{columns}, which takes {needed} of memory, and {free} are free; give smaller matrices",
                "{name} は {rows}×{columns} になり、{needed} のメモリが必要ですが、空きは {free} です。もっと小さい行列を与えてください"
            ));
        }
        let value = operation.apply(|id| self.steps[id].value.view());
        self.steps.push(ProgramStep { quantity, head, kind, qualifier: through, operation, value });
        Ok(self.steps.len() - 1)
    }
}
