//! The classifier after a layer: logits, probabilities, and the loss of a target.

use crate::layers::program_builder::{ProgramBuilder, shape_error};
use crate::program::operation::{Operation, StepId};
use crate::program::quantity::Quantity;
use chumoku::tr;
use ndarray::ArrayView1;

impl ProgramBuilder<'_> {
    /// Adds a linear layer to the classes, softmax and cross-entropy, as far as the example has them. Their input is
    /// the text's single row or the row of each token.
    pub(crate) fn add_classes(&mut self, of: Option<StepId>) -> Result<(), String> {
        use Quantity::{
            ClassB, ClassExponentials, ClassMax, ClassSums, ClassW, LogProbabilities, Logits, Loss, Probabilities,
            Target,
        };
        let has = |quantity| self.example.inputs.contains_key(&quantity);
        if has(ClassB) && !has(ClassW) {
            return Err(tr!(
                "inputs.b_class: expected inputs.W_class too",
                "inputs.b_class: inputs.W_class も必要です"
            ));
        }
        if has(Logits) && has(ClassW) {
            return Err(tr!(
                "inputs.logits and inputs.W_class: expected only one of the two",
                "inputs.logits と inputs.W_class: どちらか一つだけが必要です"
            ));
        }
        let has_weights = has(ClassW);
        let has_target = has(Target);
        let logits = match (self.whole_input(Logits)?, of) {
            (Some(logits), _) => logits,
            (None, Some(of)) if has_weights => match self.project(of, [ClassW, ClassB, Logits])? {
                Some(logits) => logits,
                None => return Ok(()),
            },
            _ if has_weights => {
                return Err(tr!(
                    "inputs.W_class: expected an input to multiply: an output, pooled or not, or hidden with \
                     options.pooling",
                    "inputs.W_class: 掛ける相手（出力、それをプーリングした値、または hidden と options.pooling）が必要です"
                ));
            }
            _ if has_target => {
                return Err(tr!(
                    "inputs.target: expected inputs.W_class or inputs.logits, to predict it",
                    "inputs.target: 予測のために inputs.W_class か inputs.logits が必要です"
                ));
            }
            _ => return Ok(()),
        };
        let largest = self.program.add_computed(ClassMax, None, Operation::RowMax(logits))?;
        let of = Operation::Exp { of: logits, largest: Some(largest) };
        let exponentials = self.program.add_computed(ClassExponentials, None, of)?;
        let sums = self.program.add_computed(ClassSums, None, Operation::RowSums(exponentials))?;
        let shares = Operation::DivideByRowSums { of: exponentials, sums };
        let probabilities = self.program.add_computed(Probabilities, None, shares)?;
        let shape = self.shape(probabilities);
        let (expected, found) = (shape.1, self.example.classes.len());
        if found != 0 && found != expected {
            return Err(tr!(
                "classes: expected {expected}, one for each column of the logits, found {found}",
                "classes: ロジットの列ごとに一つ、全部で {expected} 個必要ですが、{found} 個です"
            ));
        }
        let Some(target) = self.whole_input(Target)? else { return Ok(()) };
        let matrix = self.program.value(target);
        if matrix.dim() != shape {
            let expected = tr!("{}×{}", "{}×{} ", shape.0, shape.1);
            return Err(shape_error("target", matrix, &expected, Logits.name(), shape));
        }
        // The target shares have the digits that they were printed with.
        let is_shared = |row: ArrayView1<'_, f64>| row.iter().all(|&x| x >= 0.0) && (row.sum() - 1.0).abs() <= 5e-3;
        if let Some((i, row)) = matrix.rows().into_iter().enumerate().find(|(_, row)| !is_shared(*row)) {
            let found: Vec<String> = row.iter().map(f64::to_string).collect();
            let (row, found) = (i + 1, found.join(", "));
            return Err(tr!(
                "inputs.target, row {row}: expected the share of each class, 0 or more, with a sum of 1 (1 for the right class \
                 and 0 for the others, say), found {found}",
                "inputs.target の {row} 行目: 各クラスの割合（0 以上、和が 1。正解のクラスが 1、ほかが 0 など）が必要ですが、\
                 {found} です"
            ));
        }
        let logarithms = self.program.add_computed(LogProbabilities, None, Operation::Log(probabilities))?;
        self.program.add_computed(Loss, None, Operation::CrossEntropy { target, logarithms })?;
        Ok(())
    }
}
