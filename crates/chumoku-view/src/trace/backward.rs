//! The gradients of the loss, from the loss back to what is given: a rule for each operation.

use super::operation::{Operation, StepId};
use super::program::Program;
use super::quantity::Quantity;
use chumoku::nn::Pooling;
use chumoku::tr;
use std::collections::HashMap;

/// What the gradient of something made of a step adds to the step's own.
#[derive(Clone, Debug)]
enum Part {
    /// `A Bᵀ`.
    Product([StepId; 2]),
    /// The gradient itself.
    Same(StepId),
    /// What stands in the columns from here on: of a step whose columns were shared out to heads.
    Columns(usize, StepId),
    /// Something that nothing else is added to.
    Alone(Operation),
}

impl Program {
    /// Adds the gradient of the loss with respect to every step that it follows from (Rumelhart, Hinton and Williams 1986).
    ///
    /// # Errors
    /// If there is no loss, or it follows by an operation that has no rule here.
    pub(super) fn backward(&mut self) -> Result<(), String> {
        let (Some(_), Some(probabilities), Some(target), Some(logits)) = (
            self.find(Quantity::Loss, None),
            self.find(Quantity::Probabilities, None),
            self.find(Quantity::Target, None),
            self.find(Quantity::Logits, None),
        ) else {
            return Err(tr!(
                "gradients: expected a loss to go back from; give inputs.target and what the logits follow from",
                "勾配: 出発点となる損失が必要です。inputs.target と、ロジットが導ける値を与えてください"
            ));
        };
        let mut parts: HashMap<StepId, Vec<Part>> = HashMap::new();
        // Of softmax and cross-entropy together: (p − y)/n.
        let over = self.value(target).nrows() as f64;
        let first = Operation::Difference { of: [probabilities, target], over };
        parts.insert(logits, vec![Part::Alone(first)]);
        // What a step is made of stands before it.
        for id in (0..=logits).rev() {
            let Some(of_step) = parts.remove(&id) else { continue };
            let operation = self.sum_of(id, of_step)?;
            let gradient = self.gradient(id, operation)?;
            for (source, part) in self.parts(id, gradient)? {
                parts.entry(source).or_default().push(part);
            }
        }
        Ok(())
    }

    /// All parts of a step's gradient together.
    fn sum_of(&self, id: StepId, mut parts: Vec<Part>) -> Result<Operation, String> {
        if let [Part::Alone(operation)] = &parts[..] {
            return Ok(operation.clone());
        }
        // The last that were made of a step come first.
        parts.reverse();
        let (mut pairs, mut added, mut columns) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            match part {
                Part::Product(pair) => pairs.push(pair),
                Part::Same(gradient) => added.push(gradient),
                Part::Columns(start, gradient) => columns.push((start, gradient)),
                Part::Alone(_) => return Err(self.no_rule(id)),
            }
        }
        match columns.is_empty() {
            true => Ok(Operation::ProductsTransposed { pairs, added }),
            false if pairs.is_empty() && added.is_empty() => {
                columns.sort_unstable();
                let width: usize = columns.iter().map(|(_, gradient)| self.value(*gradient).ncols()).sum();
                if width != self.value(id).ncols() {
                    return Err(self.no_rule(id));
                }
                Ok(Operation::Joined(columns.into_iter().map(|(_, gradient)| gradient).collect()))
            }
            false => Err(self.no_rule(id)),
        }
    }

    /// What a step's gradient adds to those of the steps that it is made of.
    fn parts(&self, id: StepId, g: StepId) -> Result<Vec<(StepId, Part)>, String> {
        use Part::{Alone, Product, Same};
        Ok(match &self.step(id).operation {
            Operation::Given => Vec::new(),
            Operation::Sum([a, b]) => vec![(*a, Same(g)), (*b, Same(g))],
            // Y = A B + b: dA = dY Bᵀ, dB = Aᵀ dY, db = Σᵢ dY
            Operation::Product { factors: [a, b], bias } => {
                let bias = bias.iter().map(|bias| (*bias, Alone(Operation::ColumnSums(g))));
                let factors = [(*a, Product([g, *b])), (*b, Alone(Operation::TransposedProduct([*a, g])))];
                factors.into_iter().chain(bias).collect()
            }
            Operation::Mixture([a, b]) => {
                vec![(*a, Product([g, *b])), (*b, Alone(Operation::TransposedProduct([*a, g])))]
            }
            // S = A Bᵀ: dA = dS B, dB = dSᵀ A
            Operation::ProductTransposed([a, b]) => {
                let of_a = Operation::Product { factors: [g, *b], bias: None };
                vec![(*a, Alone(of_a)), (*b, Alone(Operation::TransposedProduct([g, *a])))]
            }
            Operation::Columns { of, range } => vec![(*of, Part::Columns(range.start, g))],
            Operation::Joined(all) => {
                let mut start = 0;
                let part = |id: &StepId| {
                    let range = start..start + self.value(*id).ncols();
                    start = range.end;
                    (*id, Alone(Operation::Columns { of: g, range }))
                };
                all.iter().map(part).collect()
            }
            Operation::Scaled { of, factor } => vec![(*of, Alone(Operation::Scaled { of: g, factor: *factor }))],
            // Where nothing is seen the weight is 0, and so is its gradient.
            Operation::Masked { of, .. } | Operation::Biased { of, .. } => vec![(*of, Same(g))],
            Operation::Shares { of: exponentials, .. } => match &self.step(*exponentials).operation {
                Operation::Exponentials { of, .. } => {
                    vec![(*of, Alone(Operation::SoftmaxGradient { shares: id, gradient: g }))]
                }
                _ => return Err(self.no_rule(id)),
            },
            Operation::Pooled { of, ways } => {
                let rows = self.value(*of).nrows();
                let over = match &ways[..] {
                    [Pooling::Mean] => rows as f64,
                    [Pooling::MeanSqrtLength] => (rows as f64).sqrt(),
                    _ => return Err(self.no_rule(id)),
                };
                vec![(*of, Alone(Operation::Spread { of: g, rows, over }))]
            }
            _ => return Err(self.no_rule(id)),
        })
    }

    fn no_rule(&self, id: StepId) -> String {
        let name = self.step(id).quantity.name();
        tr!(
            "gradients: expected linear layers, attention with softmax and heads of their own keys, residual connections and \
             the mean; {name} is something else",
            "勾配: 求められるのは、線形層、ソフトマックスによるアテンション（キーを共有しないヘッド）、残差接続、平均の計算例だけです。\
             {name} はそのどれでもありません"
        )
    }
}
