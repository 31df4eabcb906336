//! Gradients of the loss with respect to every step back to the inputs: one rule for each operation.

use crate::program::operation::{EntrywiseFunction, NormGradient, Operation, StepId};
use crate::program::quantity::Quantity;
use crate::program::recurrence::StateGradient;
use crate::program::step_kind::StepKind;
use crate::program::steps::{Program, ProgramStep};
use chumoku::nn::Pooling;
use chumoku::tr;
use ndarray::Array2;
use std::collections::HashMap;

/// A term of a step's gradient, from one operation that reads the step.
#[derive(Clone, Debug)]
enum GradientTerm {
    /// `A Bᵀ`.
    Product([StepId; 2]),
    /// The gradient of the result itself.
    Same(StepId),
    /// The columns of the gradient from this index on, for a step whose columns are split among heads.
    Columns(usize, StepId),
    /// Any other operation. It becomes a step of its own if there are other terms.
    Other(Operation),
}

impl Program {
    /// Adds the gradient of the loss with respect to every step that the loss depends on (Rumelhart, Hinton and
    /// Williams 1986).
    ///
    /// If the path from a step to the loss is not part of the program, `arriving` gives that step and its gradient.
    ///
    /// # Errors
    /// If there is no loss and no arriving gradient, or an operation on the path has no rule.
    pub(crate) fn add_gradients(&mut self, arriving: Option<(StepId, &Array2<f64>)>) -> Result<(), String> {
        let mut parts: HashMap<StepId, Vec<(StepId, GradientTerm)>> = HashMap::new();
        let mut last = arriving.map(|(id, _)| id);
        if let (Some(_), Some(probabilities), Some(target), Some(logits)) = (
            self.find(Quantity::Loss, None),
            self.find(Quantity::Probabilities, None),
            self.find(Quantity::Target, None),
            self.find(Quantity::Logits, None),
        ) {
            // The gradient of softmax and cross-entropy together: (p − y)/n.
            let over = self.value(target).nrows() as f64;
            let first = Operation::Difference { of: [probabilities, target], over };
            parts.insert(logits, vec![(probabilities, GradientTerm::Other(first))]);
            last = last.max(Some(logits));
        }
        let Some(last) = last else {
            return Err(tr!(
                "gradients: expected a loss; give inputs.target and the inputs of the logits",
                "勾配: 出発点となる損失が必要です。inputs.target と、ロジットを計算できる入力を与えてください"
            ));
        };
        // The gradient of a recurrent network's output without the contribution of later tokens.
        let mut above = None;
        // Operands precede the steps that read them.
        for id in (0..=last).rev() {
            let gradient = match arriving.filter(|(at, _)| *at == id) {
                Some((_, matrix)) => {
                    let (quantity, head) = (self.step(id).quantity, self.step(id).head);
                    self.add_given_kind(StepKind::Gradient, quantity, head, matrix.clone())
                }
                None => {
                    let Some(of_step) = parts.remove(&id) else { continue };
                    let of_step = self.add_recurrent_terms(id, of_step, &mut above)?;
                    let operation = self.sum_terms(id, of_step)?;
                    self.add_derived(id, StepKind::Gradient, "", operation)?
                }
            };
            for (source, part) in self.gradient_terms(id, gradient)? {
                parts.entry(source).or_default().push((id, part));
            }
        }
        Ok(())
    }

    /// Adds the contribution of later tokens to the gradient terms of a recurrent network's output or cell state.
    /// `above` is the gradient of the output without that contribution.
    fn add_recurrent_terms(
        &mut self,
        id: StepId,
        mut parts: Vec<(StepId, GradientTerm)>,
        above: &mut Option<StepId>,
    ) -> Result<Vec<(StepId, GradientTerm)>, String> {
        let ProgramStep { quantity, kind: StepKind::Value, .. } = *self.step(id) else { return Ok(parts) };
        let is_it = |step: &ProgramStep| matches!(&step.operation, Operation::StateRecurrence(before) if before.source_quantity() == quantity);
        let Some(by) = self.steps().iter().position(is_it) else { return Ok(parts) };
        let Operation::StateRecurrence(before) = self.step(by).operation.clone() else { return Ok(parts) };
        if !before.is_state {
            let through = parts.first().map_or_else(String::new, |(through, _)| self.step(*through).symbol());
            let operation = self.sum_terms(id, parts)?;
            let own = self.add_derived(id, StepKind::GradientPart, &through, operation)?;
            *above = Some(own);
            parts = vec![(id, GradientTerm::Same(own))];
        }
        // H depends on C, so its gradient is computed first.
        let Some(gradient) = *above else { return Err(self.no_rule_error(id)) };
        parts.insert(
            0,
            (by, GradientTerm::Other(Operation::StateGradient(StateGradient { recurrence: before, gradient }))),
        );
        Ok(parts)
    }

    /// Combines the terms of a step's gradient, each with the step that it comes from.
    fn sum_terms(&mut self, id: StepId, mut parts: Vec<(StepId, GradientTerm)>) -> Result<Operation, String> {
        if let [(_, GradientTerm::Other(operation))] = &parts[..] {
            return Ok(operation.clone());
        }
        // The last readers come first.
        parts.reverse();
        let (mut pairs, mut added, mut columns) = (Vec::new(), Vec::new(), Vec::new());
        for (through, part) in parts {
            match part {
                GradientTerm::Product(pair) => pairs.push(pair),
                GradientTerm::Same(gradient) => added.push(gradient),
                GradientTerm::Columns(start, gradient) => columns.push((start, gradient)),
                GradientTerm::Other(operation) => {
                    let symbol = self.step(through).symbol();
                    added.push(self.add_derived(id, StepKind::GradientPart, &symbol, operation)?);
                }
            }
        }
        match columns.is_empty() {
            true => Ok(Operation::ProductsTransposed { pairs, added }),
            false if pairs.is_empty() && added.is_empty() => {
                columns.sort_unstable();
                let width: usize = columns.iter().map(|(_, gradient)| self.value(*gradient).ncols()).sum();
                if width != self.value(id).ncols() {
                    return Err(self.no_rule_error(id));
                }
                Ok(Operation::Concat(columns.into_iter().map(|(_, gradient)| gradient).collect()))
            }
            false => Err(self.no_rule_error(id)),
        }
    }

    /// Returns the gradient terms of the operands of a step with gradient `g`.
    fn gradient_terms(&mut self, id: StepId, g: StepId) -> Result<Vec<(StepId, GradientTerm)>, String> {
        use GradientTerm::{Other, Product, Same};
        Ok(match &self.step(id).operation.clone() {
            Operation::Given => Vec::new(),
            Operation::Sum([a, b]) => vec![(*a, Same(g)), (*b, Same(g))],
            // Y = A B + b: dA = dY Bᵀ, dB = Aᵀ dY, db = Σᵢ dY
            Operation::Product { factors: [a, b], bias } => {
                let bias = bias.iter().map(|bias| (*bias, Other(Operation::ColumnSums(g))));
                let factors = [(*a, Product([g, *b])), (*b, Other(Operation::TransposedProduct([*a, g])))];
                factors.into_iter().chain(bias).collect()
            }
            Operation::WeightedSum([a, b]) => {
                vec![(*a, Product([g, *b])), (*b, Other(Operation::TransposedProduct([*a, g])))]
            }
            // S = A Bᵀ: dA = dS B, dB = dSᵀ A
            Operation::ProductTransposed([a, b]) => {
                let of_a = Operation::Product { factors: [g, *b], bias: None };
                vec![(*a, Other(of_a)), (*b, Other(Operation::TransposedProduct([g, *a])))]
            }
            // Row (i, j) of the sums is A(i) + B(j), so dA(i) sums over j and dB(j) over i.
            Operation::PairSums([a, b]) => {
                let keys = self.value(*b).nrows();
                let part = |is_second| Other(Operation::PairGradient { of: g, keys, is_second });
                vec![(*a, part(false)), (*b, part(true))]
            }
            Operation::Reshape { of, .. } => {
                vec![(*of, Other(Operation::Reshape { of: g, columns: self.value(*of).ncols() }))]
            }
            Operation::Columns { of, range } => vec![(*of, GradientTerm::Columns(range.start, g))],
            Operation::Concat(all) => {
                let mut start = 0;
                let part = |id: &StepId| {
                    let range = start..start + self.value(*id).ncols();
                    start = range.end;
                    (*id, Other(Operation::Columns { of: g, range }))
                };
                all.iter().map(part).collect()
            }
            Operation::Scale { of, factor } => vec![(*of, Other(Operation::Scale { of: g, factor: *factor }))],
            // Masked keys have the weight 0 and the gradient 0.
            Operation::Mask { of, .. } | Operation::AddBias { of, .. } => vec![(*of, Same(g))],
            Operation::DivideByRowSums { of: exponentials, .. } => match &self.step(*exponentials).operation {
                Operation::Exp { of, .. } => {
                    let of = *of;
                    if self.step(id).quantity == Quantity::Weights {
                        self.add_jacobian(id)?;
                    }
                    vec![(of, Other(Operation::SoftmaxGradient { shares: id, gradient: g }))]
                }
                _ => return Err(self.no_rule_error(id)),
            },
            Operation::Pool { of, poolings } => {
                let rows = self.value(*of).nrows();
                let spread = |over| Operation::BroadcastRow { of: g, rows, over };
                let operation = match poolings[..] {
                    [Pooling::Mean] => spread(rows as f64),
                    [Pooling::MeanSqrtLength] => spread((rows as f64).sqrt()),
                    [pooling @ (Pooling::First | Pooling::Last | Pooling::Max)] => {
                        Operation::PoolingGradient { of: *of, gradient: g, pooling }
                    }
                    _ => return Err(self.no_rule_error(id)),
                };
                vec![(*of, Other(operation))]
            }
            Operation::UnitLength(of) => {
                vec![(*of, Other(Operation::UnitGradient { of: *of, unit: id, gradient: g }))]
            }
            // Rotates in the opposite direction.
            Operation::Rotary { of, angles, is_back } => {
                vec![(*of, Other(Operation::Rotary { of: g, angles: *angles, is_back: !is_back }))]
            }
            // Y = A ∘ B: dA = dY ∘ B, dB = dY ∘ A
            Operation::Hadamard([a, b]) => {
                vec![(*a, Other(Operation::Hadamard([g, *b]))), (*b, Other(Operation::Hadamard([g, *a])))]
            }
            // Y = f(A): dA = dY ∘ f′(A)
            Operation::Activation { of, activation } => {
                self.curve_terms(id, *of, g, EntrywiseFunction::Activation(*activation))?
            }
            Operation::Tanh(of) => self.curve_terms(id, *of, g, EntrywiseFunction::Tanh)?,
            // Y = σ(A + B) or tanh(A + B), over a range of columns of both.
            Operation::Gate { terms, width, is_tanh } => {
                let inside = Operation::GateGradient { gate: id, gradient: g, is_tanh: *is_tanh };
                let inside = self.add_derived(id, StepKind::GateInputGradient, "", inside)?;
                let part = |(of, from): (StepId, usize)| match self.value(of).ncols() == *width {
                    true => (of, Same(inside)),
                    false => (of, GradientTerm::Columns(from, inside)),
                };
                terms.map(part).to_vec()
            }
            // Y = (1 − Z) ∘ B + Z ∘ D: dZ = dY ∘ (D − B), dB = (1 − Z) ∘ dY, dD = dY ∘ Z
            Operation::GatedSum { pairs: [[a, b], [c, d]], is_complement: true } if a == c => vec![
                (*a, Other(Operation::DifferenceProduct { gradient: g, of: [*d, *b] })),
                (*b, Other(Operation::ComplementProduct([*a, g]))),
                (*d, Other(Operation::Hadamard([g, *c]))),
            ],
            // Y = A ∘ B + C ∘ D
            Operation::GatedSum { pairs, is_complement: false } => {
                let both = |[a, b]: [StepId; 2]| [(a, b), (b, a)];
                let parts = pairs.iter().copied().flat_map(both);
                parts.map(|(of, other)| (of, Other(Operation::Hadamard([g, other])))).collect()
            }
            // Row t of H′ is row t − 1 of H, whose gradient is already complete; the first row is h_0.
            Operation::StateRecurrence(before) => {
                let first = Operation::Pool { of: g, poolings: vec![Pooling::First] };
                before.first[usize::from(before.is_state)].iter().map(|id| (*id, Other(first.clone()))).collect()
            }
            Operation::LayerNorm { of, gamma, beta, epsilon } => {
                let bare = Operation::LayerNorm { of: *of, gamma: None, beta: None, epsilon: *epsilon };
                let made =
                    NormGradient { of: *of, plain: id, gamma: *gamma, gradient: g, epsilon: *epsilon, is_rms: false };
                self.norm_terms(id, bare, made, *beta)?
            }
            Operation::RmsNorm { of, gamma, epsilon } => {
                let bare = Operation::RmsNorm { of: *of, gamma: None, epsilon: *epsilon };
                let made =
                    NormGradient { of: *of, plain: id, gamma: *gamma, gradient: g, epsilon: *epsilon, is_rms: true };
                self.norm_terms(id, bare, made, None)?
            }
            _ => return Err(self.no_rule_error(id)),
        })
    }

    /// Returns the gradient terms of an entrywise function.
    fn curve_terms(
        &mut self,
        id: StepId,
        of: StepId,
        g: StepId,
        curve: EntrywiseFunction,
    ) -> Result<Vec<(StepId, GradientTerm)>, String> {
        let symbol = self.step(of).symbol();
        let slope =
            self.add_derived(id, StepKind::Derivative, &symbol, Operation::ActivationDerivative { of, curve })?;
        Ok(vec![(of, GradientTerm::Other(Operation::Hadamard([g, slope])))])
    }

    /// Returns the gradient terms of a normalized step and of γ and β: Y = γ ∘ X̂ + β, where the operation `bare`
    /// computes the rows X̂. Then dβ = Σᵢ dY and dγ = Σᵢ dY ∘ X̂ (Ba, Kiros and Hinton 2016; Zhang and Sennrich 2019).
    fn norm_terms(
        &mut self,
        id: StepId,
        bare: Operation,
        made: NormGradient,
        beta: Option<StepId>,
    ) -> Result<Vec<(StepId, GradientTerm)>, String> {
        let plain = match self.step(id).operation == bare {
            true => id,
            false => self.add_derived(id, StepKind::BeforeAffine, "", bare)?,
        };
        let g = made.gradient;
        let of_beta = beta.map(|beta| (beta, GradientTerm::Other(Operation::ColumnSums(g))));
        let of_gamma = made.gamma.map(|gamma| (gamma, GradientTerm::Other(Operation::ColumnDotProducts([g, plain]))));
        let of = (made.of, GradientTerm::Other(Operation::NormGradient(NormGradient { plain, ..made })));
        Ok(of_beta.into_iter().chain(of_gamma).chain([of]).collect())
    }

    /// Adds the Jacobian of softmax for the row with the most visible keys, the first of several.
    fn add_jacobian(&mut self, shares: StepId) -> Result<(), String> {
        let rows = self.value(shares).rows();
        let counts = rows.into_iter().map(|row| row.iter().filter(|x| **x != 0.0).count()).enumerate();
        let Some((row, _)) = counts.reduce(|best, next| if next.1 > best.1 { next } else { best }) else {
            return Ok(());
        };
        let operation = Operation::SoftmaxJacobian { shares, row };
        self.add_derived(shares, StepKind::Jacobian, &(row + 1).to_string(), operation).map(drop)
    }

    fn no_rule_error(&self, id: StepId) -> String {
        let name = self.step(id).quantity.name();
        tr!(
            "gradients: {name} is computed by an operation without a gradient rule (hard attention, or several \
             poolings); show the forward pass alone, without --backward, or use soft attention and one pooling",
            "勾配: {name} の計算（ハードアテンション、または複数のプーリング）には、勾配を求める規則がありません。--backward を外して\
             順伝播だけを表示するか、ソフトアテンションと一つのプーリングにしてください"
        )
    }
}
