//! The steps of a recurrent network: RNN, LSTM and GRU, every token a row of each matrix.
//!
//! The state that a token receives from the previous one has a matrix of its own. H′ holds the rows of H shifted by one
//! token, and C′ those of an LSTM's C. The whole recurrence computes it first. Every gate then follows for all tokens
//! at once, and finally H.

use crate::layers::feed_forward::ATTENTION_INPUTS;
use crate::layers::program_builder::{ProgramBuilder, shape_error};
use crate::program::operation::{Operation, StepId};
use crate::program::quantity::Quantity;
use crate::program::recurrence::StateRecurrence;
use chumoku::tr;
use chumoku_kernels::RecurrentCell;

impl ProgramBuilder<'_> {
    /// Adds a recurrent network over the tokens, if the example has one. Returns the step of its outputs (Elman 1990;
    /// Hochreiter and Schmidhuber 1997; Cho et al. 2014).
    pub(crate) fn add_recurrent(&mut self, x: Option<StepId>) -> Result<Option<StepId>, String> {
        use Quantity::{
            FirstHidden, FirstState, HiddenB, HiddenSums, HiddenW, InputB, InputSums, InputW, PreviousOutput,
        };
        let has = |quantity: &Quantity| self.example.inputs.contains_key(quantity);
        let Some(cell) = self.example.options.cell else {
            let own = [InputW, InputB, InputSums, HiddenW, HiddenB, FirstHidden, FirstState];
            return match own.iter().find(|quantity| has(quantity)) {
                None => Ok(None),
                Some(found) => Err(tr!(
                    "inputs.{}: expected options.cell, such as \"lstm\", for the kind of recurrent network",
                    "inputs.{}: 再帰型ネットワークの種類を示す options.cell（\"lstm\" など）が必要です",
                    found.name()
                )),
            };
        };
        let name = cell.name();
        let other = ATTENTION_INPUTS
            .iter()
            .chain(&[Quantity::W1])
            .find(|quantity| has(quantity))
            .map(|quantity| format!("inputs.{}", quantity.name()));
        let options = &self.example.options;
        let said =
            [("residual", options.residual), ("norm", options.norm.is_some()), ("norm_2", options.norm_2.is_some())];
        let other = other.or(said.into_iter().find(|(_, is_set)| *is_set).map(|(name, _)| format!("options.{name}")));
        if let Some(other) = other {
            return Err(tr!(
                "options.cell is \"{name}\": expected a recurrent network alone, found {other} too",
                "options.cell が \"{name}\" です。再帰型ネットワークだけの計算例が必要ですが、{other} もあります"
            ));
        }
        if cell != RecurrentCell::Lstm && has(&FirstState) {
            return Err(tr!(
                "inputs.{}: only an LSTM has a cell state, and options.cell is \"{name}\"",
                "inputs.{}: セル状態があるのは LSTM だけですが、options.cell は \"{name}\" です",
                FirstState.name()
            ));
        }
        let sums = match (self.whole_input(InputSums)?, x) {
            (Some(sums), _) => Some(sums),
            (None, Some(x)) => self.project(x, [InputW, InputB, InputSums])?,
            (None, None) => None,
        };
        let (Some(sums), Some(weight)) = (sums, self.whole_input(HiddenW)?) else {
            return Err(tr!(
                "options.cell: expected X, W_x and W_h (the weights of the inputs and of the previous output)",
                "options.cell: X、W_x、W_h（入力の重み行列と、一つ前の出力の重み行列）が必要です"
            ));
        };
        let (hidden, width) = (self.shape(weight).0, cell.gates() * self.shape(weight).0);
        if self.shape(weight).1 != width {
            let expected = tr!("{} columns", "{} 列", width);
            let (rows, columns) = self.shape(weight);
            return Err(tr!(
                "inputs.W_h is {rows}×{columns}: expected {expected}, {} for each of the gates of \"{name}\"",
                "inputs.W_h は {rows}×{columns} ですが、\"{name}\" の各ゲートに {} 列、全部で {expected}が必要です",
                hidden
            ));
        }
        if self.shape(sums).1 != width {
            let step = self.program.step(sums).quantity;
            let source = if has(&InputSums) { step } else { InputW };
            let shape = self.shape(weight);
            let matrix = self.program.find(source, None).map_or(self.program.value(sums), |id| self.program.value(id));
            return Err(shape_error(source.name(), matrix, &tr!("{} columns", "{} 列", width), "W_h", shape));
        }
        let bias = self.row_input(HiddenB, width, HiddenW.name())?;
        let first = [self.row_input(FirstHidden, hidden, "h")?, self.row_input(FirstState, hidden, "c")?];
        let before = StateRecurrence { cell, sums, weight, bias, first, is_state: false };
        let previous = self.program.add_computed(PreviousOutput, None, Operation::StateRecurrence(before.clone()))?;
        let product = Operation::Product { factors: [previous, weight], bias };
        let of_state = self.program.add_computed(HiddenSums, None, product)?;
        let both = |gate: usize| [(sums, gate * hidden), (of_state, gate * hidden)];
        let gate = |gate: usize, is_tanh: bool| Operation::Gate { terms: both(gate), width: hidden, is_tanh };
        match cell {
            RecurrentCell::Rnn => self.program.add_computed(Quantity::StepOutput, None, gate(0, true)),
            RecurrentCell::Lstm => self.add_lstm(before, gate),
            RecurrentCell::Gru => self.add_gru([sums, of_state, previous], hidden, gate),
        }
        .map(Some)
    }

    /// Adds the gates of an LSTM, its cell state and its output.
    fn add_lstm(&mut self, before: StateRecurrence, gate: impl Fn(usize, bool) -> Operation) -> Result<StepId, String> {
        use Quantity::{CellState, CellTanh, ForgetGate, InputGate, NewContent, OutputGate, PreviousState, StepOutput};
        let input = self.program.add_computed(InputGate, None, gate(0, false))?;
        let forget = self.program.add_computed(ForgetGate, None, gate(1, false))?;
        let content = self.program.add_computed(NewContent, None, gate(2, true))?;
        let output = self.program.add_computed(OutputGate, None, gate(3, false))?;
        let previous = self.program.add_computed(
            PreviousState,
            None,
            Operation::StateRecurrence(StateRecurrence { is_state: true, ..before }),
        )?;
        let pairs = [[forget, previous], [input, content]];
        let state = self.program.add_computed(CellState, None, Operation::GatedSum { pairs, is_complement: false })?;
        let tanh = self.program.add_computed(CellTanh, None, Operation::Tanh(state))?;
        self.program.add_computed(StepOutput, None, Operation::Hadamard([output, tanh]))
    }

    /// Adds the gates of a GRU and its output.
    fn add_gru(
        &mut self,
        [sums, of_state, previous]: [StepId; 3],
        hidden: usize,
        gate: impl Fn(usize, bool) -> Operation,
    ) -> Result<StepId, String> {
        use Quantity::{Candidate, CandidateSums, ResetGate, ResetSums, StepOutput, UpdateGate};
        let reset = self.program.add_computed(ResetGate, None, gate(0, false))?;
        let update = self.program.add_computed(UpdateGate, None, gate(1, false))?;
        let range = 2 * hidden..3 * hidden;
        let own = self.program.add_computed(CandidateSums, None, Operation::Columns { of: of_state, range })?;
        let kept = self.program.add_computed(ResetSums, None, Operation::Hadamard([reset, own]))?;
        let terms = [(sums, 2 * hidden), (kept, 0)];
        let candidate =
            self.program.add_computed(Candidate, None, Operation::Gate { terms, width: hidden, is_tanh: true })?;
        let pairs = [[update, candidate], [update, previous]];
        self.program.add_computed(StepOutput, None, Operation::GatedSum { pairs, is_complement: true })
    }
}
