//! Equations of steps: the operands of a formula, in its order, and the signs between them.

use crate::formulas::formula::formula_template;
use crate::program::operation::{Operation, StepId};
use crate::program::steps::Program;

/// A part of the right side of a formula.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EquationPart {
    /// Signs, numbers, and symbols of matrices that are not shown as such.
    Text(String),
    /// A matrix.
    Operand { id: StepId, is_transposed: bool },
}

/// Returns the right side of a step's formula with its operands; an operand that occurs twice is a symbol the second
/// time. An input has none.
pub(crate) fn equation(program: &Program, id: StepId) -> Vec<EquationPart> {
    let mut operation = program.step(id).operation.clone();
    let operands: Vec<StepId> = operation.operands_mut().into_iter().map(|id| *id).collect();
    if let Operation::Concat(parts) = &operation {
        let parts = parts.iter().map(|id| EquationPart::Operand { id: *id, is_transposed: false });
        return [text("[")].into_iter().chain(parts).chain([text("]")]).collect();
    }
    let Some(template) = formula_template(program, id) else { return Vec::new() };
    // An activation has a name and a definition; the name is enough.
    let pattern = match operation {
        Operation::Activation { .. } => template.text.split(" = ").next().unwrap_or(&template.text),
        _ => &template.text,
    };
    let (mut parts, mut signs) = (Vec::new(), String::new());
    let mut rest = pattern;
    while let Some((before, digit, after)) = next_symbol(rest) {
        // Factors side by side have a sign on paper.
        signs.push_str(if before == " " && !(parts.is_empty() && signs.is_empty()) { " · " } else { before });
        let symbol = template.symbols.get(digit).map_or("", String::as_str);
        let operand = operands.iter().copied().find(|&id| program.step(id).symbol() == symbol);
        let is_new = |id: &StepId| {
            !parts.iter().any(|part| matches!(part, EquationPart::Operand { id: known, .. } if known == id))
        };
        rest = after;
        match operand.filter(is_new) {
            Some(id) => {
                parts.extend(Some(text(&signs)).filter(|_| !signs.trim().is_empty()));
                signs.clear();
                let stripped = after.strip_prefix('ᵀ');
                rest = stripped.unwrap_or(after);
                parts.push(EquationPart::Operand { id, is_transposed: stripped.is_some() });
            }
            None => signs.push_str(symbol),
        }
    }
    signs.push_str(rest);
    parts.extend(Some(text(&signs)).filter(|_| !signs.trim().is_empty()));
    parts
}

fn text(signs: &str) -> EquationPart {
    EquationPart::Text(signs.trim().to_owned())
}

/// Splits a template at its first symbol: the text before it, its number, and the text after it.
fn next_symbol(pattern: &str) -> Option<(&str, usize, &str)> {
    let (at, digit) = pattern.char_indices().find_map(|(at, c)| {
        let digit = pattern[at..].strip_prefix('{')?.chars().next()?.to_digit(10)?;
        (c == '{' && pattern[at + 2..].starts_with('}')).then_some((at, digit as usize))
    })?;
    Some((&pattern[..at], digit, &pattern[at + 3..]))
}
