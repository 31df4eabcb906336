//! The steps of a worked example, in order, each with its matrix.

use super::operation::{Operation, StepId};
use super::quantity::Quantity;
use super::step_kind::StepKind;
use chumoku::memory;
use ndarray::Array2;

/// What a number of a step takes in the end: itself, once more where it is shown, and its interval where it is checked.
const BYTES_PER_NUMBER: f64 = 64.0;

/// A step: what it is, how it follows, and its matrix.
#[derive(Clone, Debug)]
pub(crate) struct ProgramStep {
    pub(crate) quantity: Quantity,
    /// The head, from 0, where each has its own.
    pub(crate) head: Option<usize>,
    pub(crate) kind: StepKind,
    /// What else its letter names: the letter of another step, or a number.
    pub(crate) qualifier: String,
    pub(crate) operation: Operation,
    pub(crate) value: Array2<f64>,
}

impl ProgramStep {
    /// Its letter, with the number of its head.
    pub(crate) fn symbol(&self) -> String {
        let head = self.head.map_or(String::new(), |head| format!("[{}]", head + 1));
        self.kind.symbol(&(self.quantity.symbol().to_owned() + &head), &self.qualifier)
    }
}

/// Steps, each computed from those before it, in f64.
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

    /// The step of a quantity, of a head where each has its own.
    pub(crate) fn find(&self, quantity: Quantity, head: Option<usize>) -> Option<StepId> {
        self.find_kind(StepKind::Value, quantity, head)
    }

    /// The step that is this of a quantity, of a head where each has its own.
    pub(super) fn find_kind(&self, kind: StepKind, quantity: Quantity, head: Option<usize>) -> Option<StepId> {
        let is_it = |step: &ProgramStep| step.kind == kind && step.quantity == quantity && step.head == head;
        self.steps.iter().position(is_it)
    }

    /// What is given.
    pub(crate) fn add_given(&mut self, quantity: Quantity, head: Option<usize>, value: Array2<f64>) -> StepId {
        self.add_given_kind(StepKind::Value, quantity, head, value)
    }

    /// What is given, and is this of a quantity.
    pub(super) fn add_given_kind(
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

    /// Computes a step. The operands must fit: who builds a program checks what it is given.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(crate) fn add_computed(
        &mut self,
        quantity: Quantity,
        head: Option<usize>,
        operation: Operation,
    ) -> Result<StepId, String> {
        self.add_step(quantity, head, (StepKind::Value, String::new()), operation)
    }

    /// Computes something of a step: its gradient, say. Its letter may name something else too.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(super) fn add_derived(
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
