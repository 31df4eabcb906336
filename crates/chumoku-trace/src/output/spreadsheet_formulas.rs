//! Spreadsheet formulas: how each cell follows from others.

use crate::formulas::formula::inverse_sqrt_of;
use crate::output::grid::format_non_finite;
use crate::program::operation::{
    EntrywiseFunction, NormGradient, Operation, RotaryAngles, StepId, pair_rows, reshaped,
};
use crate::program::step_kind::StepKind;
use crate::traces::trace_steps::TraceStep;
use chumoku::nn::Pooling;
use chumoku_kernels::Activation;
use std::collections::HashMap;

/// The column of the first number; labels come before it.
pub(crate) const FIRST_COLUMN: u16 = 1;
/// Maximum number of terms of a written-out sum: a formula has at most 8,192 characters.
const MAX_TERMS: usize = 100;

/// Returns the name of a cell, such as `B4`; rows and columns count from 0.
fn cell(row: u32, column: u16) -> String {
    rust_xlsxwriter::utility::row_col_to_cell(row, column)
}

/// Writes a number in a formula. An f64 as text keeps all its digits.
fn number_literal(x: f64) -> String {
    match x.abs() {
        _ if !x.is_finite() => format!("\"{}\"", format_non_finite(x)),
        size if size == 0.0 || (1e-5..1e15).contains(&size) => x.to_string(),
        _ => format!("{x:E}"),
    }
}

/// Position of the numbers of a step.
#[derive(Clone, Copy)]
pub(crate) struct CellBlock {
    pub(crate) sheet: usize,
    pub(crate) row: u32,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

/// A [`CellBlock`] with the sheet prefix that formulas of the current sheet need.
struct BlockReference {
    block: CellBlock,
    /// Prefix with the name of the sheet; empty for the current sheet.
    prefix: String,
}

impl BlockReference {
    fn cell(&self, i: usize, j: usize) -> String {
        cell(self.block.row + i as u32, FIRST_COLUMN + j as u16)
    }

    fn qualified_cell(&self, i: usize, j: usize) -> String {
        format!("{}{}", self.prefix, self.cell(i, j))
    }

    fn row_range(&self, i: usize) -> String {
        format!("{}:{}", self.qualified_cell(i, 0), self.cell(i, self.block.columns - 1))
    }

    fn column_range(&self, j: usize) -> String {
        format!("{}:{}", self.qualified_cell(0, j), self.cell(self.block.rows - 1, j))
    }

    fn full_range(&self) -> String {
        format!("{}:{}", self.qualified_cell(0, 0), self.cell(self.block.rows - 1, self.block.columns - 1))
    }
}

/// An input of a cell: a number, a row, a column or all of a step.
#[derive(Clone, Copy)]
struct CellInput {
    id: StepId,
    row: Option<usize>,
    column: Option<usize>,
    /// True if −∞ is skipped as a masked key.
    is_masked: bool,
}

/// The positions of all steps, seen from one of the sheets.
pub(crate) struct SheetLayout<'a> {
    pub(crate) steps: HashMap<StepId, &'a TraceStep>,
    pub(crate) blocks: HashMap<StepId, CellBlock>,
    pub(crate) names: [&'static str; 2],
    /// The sheet whose formulas are written.
    pub(crate) sheet: usize,
}

impl SheetLayout<'_> {
    fn reference(&self, id: StepId) -> Option<BlockReference> {
        let block = *self.blocks.get(&id)?;
        let prefix = match block.sheet == self.sheet {
            true => String::new(),
            false => format!("'{}'!", self.names[block.sheet]),
        };
        Some(BlockReference { block, prefix })
    }

    /// Returns the formula of a computed cell, with a fallback for inputs that are texts; `None` for a given number.
    pub(crate) fn guarded_formula(&self, step: &TraceStep, i: usize, j: usize) -> Option<String> {
        let (formula, truth) = (self.formula(step, i, j)?, step.value[[i, j]]);
        let reads = cell_inputs(&step.operation, i, j);
        let all_numbers = reads.iter().all(|read| self.is_number(read));
        Some(match &step.operation {
            // A share of 0 contributes nothing, whatever its value is.
            Operation::WeightedSum([shares, values])
                if !all_numbers && self.is_number(&reads[0]) && step_rows(self, *values) <= MAX_TERMS =>
            {
                let (shares, values) = (self.reference(*shares)?, self.reference(*values)?);
                let term = |k: usize| {
                    let (share, value) = (shares.qualified_cell(i, k), values.qualified_cell(k, j));
                    format!("IF({share}=0,0,{share}*{value})")
                };
                let terms: Vec<String> = (0..values.block.rows).map(term).collect();
                // A share of a value that is text contributes a number that is not finite.
                let came = if truth.is_finite() { f64::NAN } else { truth };
                format!("IFERROR({},{})", terms.join("+"), number_literal(came))
            }
            // These formulas handle missing values themselves.
            Operation::RowMax(_) | Operation::Log(_) if all_numbers => formula,
            _ if all_numbers && (truth.is_finite() || reads.is_empty()) => formula,
            // Overflow, or 0/0.
            _ if all_numbers => format!("IFERROR({formula},{})", number_literal(truth)),
            _ => {
                let guards = reads.iter().filter_map(|read| self.input_condition(read)).collect::<Vec<_>>().join(",");
                let formula = format!("IF(AND({guards}),{formula},{})", number_literal(truth));
                if truth.is_finite() { formula } else { format!("IFERROR({formula},{})", number_literal(truth)) }
            }
        })
    }

    /// Returns the formula of the sum next to a row of weights.
    pub(crate) fn row_sum_formula(&self, step: &TraceStep, i: usize, sum: f64) -> String {
        let Some(own) = self.reference(step.id) else { return number_literal(sum) };
        let range = own.row_range(i);
        match sum.is_finite() {
            true => format!("SUM({range})"),
            false => format!("IF(COUNT({range})={},SUM({range}),{})", own.block.columns, number_literal(sum)),
        }
    }

    /// Returns whether all inputs are numbers in a spreadsheet.
    fn is_number(&self, read: &CellInput) -> bool {
        let Some(step) = self.steps.get(&read.id) else { return true };
        let is_number = |x: &f64| x.is_finite() || (read.is_masked && *x == f64::NEG_INFINITY);
        match (read.row, read.column) {
            (Some(i), Some(j)) => is_number(&step.value[[i, j]]),
            (Some(i), None) => step.value.row(i).iter().all(is_number),
            (None, Some(j)) => step.value.column(j).iter().all(is_number),
            (None, None) => step.value.iter().all(is_number),
        }
    }

    /// Returns the condition that all inputs are numbers.
    fn input_condition(&self, read: &CellInput) -> Option<String> {
        let from = self.reference(read.id)?;
        let (range, count) = match (read.row, read.column) {
            (Some(i), Some(j)) => (from.qualified_cell(i, j), 1),
            (Some(i), None) => (from.row_range(i), from.block.columns),
            (None, Some(j)) => (from.column_range(j), from.block.rows),
            (None, None) => (from.full_range(), from.block.rows * from.block.columns),
        };
        Some(match read.is_masked {
            true => format!("COUNT({range})+COUNTIF({range},\"-∞\")={count}"),
            false => format!("COUNT({range})={count}"),
        })
    }

    /// Returns the formula of a cell whose inputs are numbers; `None` for a given number.
    fn formula(&self, step: &TraceStep, i: usize, j: usize) -> Option<String> {
        let block = |id: &StepId| self.reference(*id);
        let entry = |id: &StepId| Some(block(id)?.qualified_cell(i, j));
        let top = |id: &StepId| Some(block(id)?.qualified_cell(0, j));
        let row_of = |id: &StepId| Some(block(id)?.row_range(i));
        let column_of = |id: &StepId| Some(block(id)?.column_range(j));
        // An operand that is left out adds nothing.
        let optional = |sign: char, id: &Option<StepId>| match id {
            Some(id) => Some(format!("{sign}{}", top(id)?)),
            None => Some(String::new()),
        };
        Some(match &step.operation {
            Operation::Given => return None,
            Operation::Sum([a, b]) => format!("{}+{}", entry(a)?, entry(b)?),
            Operation::Hadamard([a, b]) => {
                format!("{}*{}", entry(a)?, entry(b)?)
            }
            Operation::Product { factors: [a, b], bias: offset } => {
                format!("SUMPRODUCT(MMULT({},{})){}", row_of(a)?, column_of(b)?, optional('+', offset)?)
            }
            Operation::WeightedSum([a, b]) => {
                format!("SUMPRODUCT(MMULT({},{}))", row_of(a)?, column_of(b)?)
            }
            Operation::ProductTransposed([a, b]) => {
                format!("SUMPRODUCT({},{})", row_of(a)?, block(b)?.row_range(j))
            }
            Operation::TransposedProduct([a, b]) => {
                format!("SUMPRODUCT({},{})", block(a)?.column_range(i), column_of(b)?)
            }
            Operation::ProductsTransposed { pairs, added } => {
                let product =
                    |[a, b]: &[StepId; 2]| Some(format!("SUMPRODUCT({},{})", row_of(a)?, block(b)?.row_range(j)));
                let terms = pairs.iter().map(product).chain(added.iter().map(entry));
                terms.collect::<Option<Vec<_>>>()?.join("+")
            }
            Operation::PairSums([a, b]) => {
                let keys = block(b)?;
                let rows = keys.block.rows;
                format!("{}+{}", block(a)?.qualified_cell(i / rows, j), keys.qualified_cell(i % rows, j))
            }
            Operation::PairGradient { of, keys, is_second } => {
                let from = block(of)?;
                let rows: Vec<usize> = pair_rows(from.block.rows, *keys, i, *is_second).collect();
                if rows.len() > MAX_TERMS {
                    return Some(number_literal(step.value[[i, j]]));
                }
                rows.into_iter().map(|row| from.qualified_cell(row, j)).collect::<Vec<_>>().join("+")
            }
            Operation::Reshape { of, columns } => {
                let from = block(of)?;
                let [row, column] = reshaped(from.block.columns, i * columns + j);
                from.qualified_cell(row, column)
            }
            Operation::Difference { of: [a, b], over } => {
                format!("({}-{})/{}", entry(a)?, entry(b)?, number_literal(*over))
            }
            Operation::SoftmaxGradient { shares, gradient } => {
                let (shares, gradient) = (block(shares)?, block(gradient)?);
                let mean = format!("SUMPRODUCT({},{})", shares.row_range(i), gradient.row_range(i));
                format!("{}*({}-{mean})", shares.qualified_cell(i, j), gradient.qualified_cell(i, j))
            }
            Operation::BroadcastRow { of, over, .. } => {
                format!("{}/{}", top(of)?, number_literal(*over))
            }
            Operation::ColumnSums(of) => format!("SUM({})", column_of(of)?),
            Operation::Columns { of, range } => block(of)?.qualified_cell(i, range.start + j),
            Operation::Rotary { of, angles, is_back } => {
                let (width, half) = (step.value.ncols(), step.value.ncols() / 2);
                let (pair, is_first) = (j % half.max(1), j < half);
                let angle = match angles {
                    RotaryAngles::Base(base) => number_literal(i as f64 * base.powf(-2.0 * pair as f64 / width as f64)),
                    RotaryAngles::Given(speeds) => format!("{i}*{}", block(speeds)?.qualified_cell(0, pair)),
                };
                let other = if is_first { j + half } else { pair };
                let sign = if is_first == *is_back { '+' } else { '-' };
                let from = block(of)?;
                format!(
                    "{}*COS({angle}){sign}{}*SIN({angle})",
                    from.qualified_cell(i, j),
                    from.qualified_cell(i, other)
                )
            }
            Operation::Scale { of, factor } => match inverse_sqrt_of(*factor) {
                Some(1) => entry(of)?,
                Some(n) => format!("{}/SQRT({n})", entry(of)?),
                None => format!("{}*({})", entry(of)?, number_literal(*factor)),
            },
            Operation::AddBias { of, bias } if bias[[i, j]].is_finite() => {
                format!("{}+({})", entry(of)?, number_literal(bias[[i, j]]))
            }
            // A masked key is text in a spreadsheet, and MAX and SUM skip it.
            Operation::AddBias { .. } => number_literal(step.value[[i, j]]),
            Operation::Mask { of, visible } if visible[[i, j]] => entry(of)?,
            Operation::Mask { .. } => number_literal(f64::NEG_INFINITY),
            Operation::RowMax(of) => {
                let row = row_of(of)?;
                format!("IF(COUNT({row})=0,\"-∞\",MAX({row}))")
            }
            Operation::Exp { of, largest } => {
                let from = entry(of)?;
                let largest = match largest {
                    Some(id) => format!("-{}", block(id)?.qualified_cell(i, 0)),
                    None => String::new(),
                };
                format!("IF(ISNUMBER({from}),EXP({from}{largest}),0)")
            }
            Operation::RowSums(of) => format!("SUM({})", row_of(of)?),
            Operation::DivideByRowSums { of, sums } => {
                let sum = block(sums)?.qualified_cell(i, 0);
                format!("IF({sum}=0,0,{}/{sum})", entry(of)?)
            }
            Operation::OneHot(of) => {
                let row = row_of(of)?;
                format!("IF(COUNT({row})=0,0,IF({}=MATCH(MAX({row}),{row},0),1,0))", j + 1)
            }
            Operation::Concat(parts) => {
                let width = step.value.ncols() / parts.len().max(1);
                block(parts.get(j / width.max(1))?)?.qualified_cell(i, j % width)
            }
            Operation::Pool { of, poolings } => {
                let from = block(of)?;
                let width = from.block.columns.max(1);
                let column = from.column_range(j % width);
                match poolings.get(j / width)? {
                    Pooling::First => from.qualified_cell(0, j % width),
                    Pooling::Last => from.qualified_cell(from.block.rows - 1, j % width),
                    Pooling::Max => format!("MAX({column})"),
                    Pooling::MeanSqrtLength => format!("SUM({column})/SQRT(COUNT({column}))"),
                    Pooling::Mean => format!("AVERAGE({column})"),
                }
            }
            Operation::Activation { of, activation } => {
                let x = entry(of)?;
                match activation {
                    Activation::Relu => format!("MAX(0,{x})"),
                    Activation::Gelu => format!("{x}/2*(1+ERF({x}/SQRT(2)))"),
                    Activation::GeluTanh => format!("{x}/2*(1+TANH(SQRT(2/PI())*({x}+0.044715*{x}^3)))"),
                    // The exponential of a larger number would overflow.
                    Activation::Silu => format!("{x}/(1+EXP(MIN(-{x},700)))"),
                    _ => number_literal(step.value[[i, j]]),
                }
            }
            Operation::Tanh(of) => format!("TANH({})", entry(of)?),
            // The previous row of its source, which is a step further down.
            Operation::StateRecurrence(before) => {
                match (i.checked_sub(1), before.first[usize::from(before.is_state)]) {
                    (None, None) => number_literal(0.0),
                    (None, Some(id)) => block(&id)?.qualified_cell(0, j),
                    (Some(row), _) => {
                        let is_it =
                            |own: &&&TraceStep| own.kind == step.kind && own.quantity == before.source_quantity();
                        block(&self.steps.values().find(is_it)?.id)?.qualified_cell(row, j)
                    }
                }
            }
            // The next row, likewise.
            Operation::StateGradient(_) if i + 1 == step.value.nrows() => number_literal(0.0),
            Operation::StateGradient(later) => {
                let by = later.recurrence.result_quantity();
                let is_it = |own: &&&TraceStep| own.kind == StepKind::Gradient && own.quantity == by;
                block(&self.steps.values().find(is_it)?.id)?.qualified_cell(i + 1, j)
            }
            Operation::GateGradient { gate, gradient, is_tanh } => {
                let [y, g] = [entry(gate)?, entry(gradient)?];
                if *is_tanh { format!("{g}*(1-{y}*{y})") } else { format!("{g}*{y}*(1-{y})") }
            }
            Operation::ComplementProduct([a, g]) => {
                format!("(1-{})*{}", entry(a)?, entry(g)?)
            }
            Operation::DifferenceProduct { gradient, of: [a, b] } => {
                let [g, a, b] = [entry(gradient)?, entry(a)?, entry(b)?];
                format!("{g}*({a}-{b})")
            }
            Operation::Gate { terms: [(a, from), (b, other)], is_tanh, .. } => {
                let sum =
                    format!("{}+{}", block(a)?.qualified_cell(i, from + j), block(b)?.qualified_cell(i, other + j));
                match is_tanh {
                    true => format!("TANH({sum})"),
                    // The exponential of a larger number would overflow.
                    false => format!("1/(1+EXP(MIN(-({sum}),700)))"),
                }
            }
            Operation::GatedSum { pairs: [[a, b], [c, d]], is_complement } => {
                let [a, b, c, d] = [entry(a)?, entry(b)?, entry(c)?, entry(d)?];
                let first = if *is_complement { format!("(1-{a})") } else { a };
                format!("{first}*{b}+{c}*{d}")
            }
            // A spreadsheet has no logarithm of 0.
            Operation::Log(of) => {
                let x = entry(of)?;
                format!("IF({x}=0,\"-∞\",LN({x}))")
            }
            Operation::CrossEntropy { target, logarithms } => {
                let (target, logarithms) = (block(target)?, block(logarithms)?);
                let CellBlock { rows, columns, .. } = target.block;
                if rows * columns > MAX_TERMS {
                    return Some(format!("-SUMPRODUCT({},{})/{rows}", target.full_range(), logarithms.full_range()));
                }
                let term = |k: usize| {
                    let (share, x) = (
                        target.qualified_cell(k / columns, k % columns),
                        logarithms.qualified_cell(k / columns, k % columns),
                    );
                    format!("IF({share}=0,0,{share}*{x})")
                };
                let terms: Vec<String> = (0..rows * columns).map(term).collect();
                // A target class had the probability 0.
                format!("IFERROR(-({})/{rows},{})", terms.join("+"), number_literal(f64::INFINITY))
            }
            Operation::UnitLength(of) => {
                let from = block(of)?;
                let row = from.row_range(i);
                let squares = format!("SUMPRODUCT({row},{row})");
                format!("IF({squares}=0,0,{}/SQRT({squares}))", from.qualified_cell(i, j))
            }
            Operation::RmsNorm { of, gamma, epsilon } => {
                let from = block(of)?;
                let row = from.row_range(i);
                let core = format!(
                    "{}/SQRT(SUMPRODUCT({row},{row})/COUNT({row})+{})",
                    from.qualified_cell(i, j),
                    number_literal(*epsilon)
                );
                core + &optional('*', gamma)?
            }
            Operation::LayerNorm { of, gamma, beta, epsilon } => {
                let from = block(of)?;
                let row = from.row_range(i);
                let core = format!(
                    "({}-AVERAGE({row}))/SQRT(VARP({row})+{})",
                    from.qualified_cell(i, j),
                    number_literal(*epsilon)
                );
                core + &optional('*', gamma)? + &optional('+', beta)?
            }
            Operation::ActivationDerivative { of, curve } => derivative_formula(*curve, &entry(of)?)?,
            Operation::NormGradient(made) => self.norm_gradient_formula(made, i, j)?,
            Operation::ColumnDotProducts([a, b]) => {
                format!("SUMPRODUCT({},{})", column_of(a)?, column_of(b)?)
            }
            Operation::PoolingGradient { of, gradient, pooling } => {
                let (from, g) = (block(of)?, top(gradient)?);
                let is_there = match pooling {
                    Pooling::First => i == 0,
                    Pooling::Last => i + 1 == from.block.rows,
                    _ => {
                        let column = from.column_range(j);
                        return Some(format!("IF({}=MATCH(MAX({column}),{column},0),{g},0)", i + 1));
                    }
                };
                if is_there { g } else { "0".into() }
            }
            Operation::UnitGradient { of, unit, gradient } => {
                let (from, unit, g) = (row_of(of)?, block(unit)?, block(gradient)?);
                let squares = format!("SUMPRODUCT({from},{from})");
                let along = format!("SUMPRODUCT({},{})", unit.row_range(i), g.row_range(i));
                format!(
                    "IF({squares}=0,0,({}-{}*{along})/SQRT({squares}))",
                    g.qualified_cell(i, j),
                    unit.qualified_cell(i, j)
                )
            }
            Operation::SoftmaxJacobian { shares, row } => {
                let from = block(shares)?;
                let [a, b] = [from.qualified_cell(*row, i), from.qualified_cell(*row, j)];
                if i == j { format!("{a}*(1-{a})") } else { format!("0-{a}*{b}") }
            }
            Operation::Moment { before, gradient, keep, is_square } => {
                let g = entry(gradient)?;
                let g = if *is_square { format!("{g}*{g}") } else { g };
                let new = format!("(1-{})*{g}", number_literal(*keep));
                match before {
                    Some(before) => format!("{}*{}+{new}", number_literal(*keep), entry(before)?),
                    None => new,
                }
            }
            Operation::BiasCorrection { of, keep, step } => {
                format!("{}/(1-{}^{step})", entry(of)?, number_literal(*keep))
            }
            Operation::AdamUpdate { moments: [m, v], rate, epsilon } => {
                let [m, v] = [entry(m)?, entry(v)?];
                format!("{}*{m}/(SQRT({v})+{})", number_literal(*rate), number_literal(*epsilon))
            }
            Operation::AdamWStep { of, update, rate, weight_decay } => {
                let kept = match *weight_decay == 0.0 {
                    true => String::new(),
                    false => format!("(1-{}*{})*", number_literal(*rate), number_literal(*weight_decay)),
                };
                format!("{kept}{}-{}", entry(of)?, entry(update)?)
            }
        })
    }

    /// Returns the formula of a cell of a normalization's gradient.
    fn norm_gradient_formula(&self, made: &NormGradient, i: usize, j: usize) -> Option<String> {
        let block = |id: StepId| self.reference(id);
        let (from, plain, g) = (block(made.of)?.row_range(i), block(made.plain)?, block(made.gradient)?);
        let (own, row) = (g.qualified_cell(i, j), g.row_range(i));
        // The row of factors that the normalized row was multiplied by, and the factor of this cell.
        let [row, own] = match made.gamma {
            Some(gamma) => {
                let gamma = block(gamma)?;
                [format!("{row},{}", gamma.row_range(0)), format!("{own}*{}", gamma.qualified_cell(0, j))]
            }
            None => [row, own],
        };
        let along = format!("{}*SUMPRODUCT({row},{})/COUNT({from})", plain.qualified_cell(i, j), plain.row_range(i));
        let epsilon = number_literal(made.epsilon);
        Some(match made.is_rms {
            true => format!("({own}-{along})/SQRT(SUMPRODUCT({from},{from})/COUNT({from})+{epsilon})"),
            false => {
                let mean = format!("SUMPRODUCT({row})/COUNT({from})");
                format!("({own}-{mean}-{along})/SQRT(VARP({from})+{epsilon})")
            }
        })
    }
}

/// Returns the formula of a function's derivative.
fn derivative_formula(curve: EntrywiseFunction, x: &str) -> Option<String> {
    Some(match curve {
        EntrywiseFunction::Tanh => format!("1-TANH({x})^2"),
        EntrywiseFunction::Activation(Activation::Relu) => format!("IF({x}>0,1,0)"),
        EntrywiseFunction::Activation(Activation::Gelu) => {
            format!("(1+ERF({x}/SQRT(2)))/2+{x}*EXP(0-{x}*{x}/2)/SQRT(2*PI())")
        }
        EntrywiseFunction::Activation(Activation::GeluTanh) => {
            let t = format!("TANH(SQRT(2/PI())*({x}+0.044715*{x}^3))");
            format!("(1+{t})/2+{x}/2*(1-{t}^2)*SQRT(2/PI())*(1+0.134145*{x}^2)")
        }
        EntrywiseFunction::Activation(Activation::Silu) => {
            let share = format!("1/(1+EXP(MIN(-{x},700)))");
            format!("{share}*(1+{x}*(1-{share}))")
        }
        EntrywiseFunction::Activation(_) => return None,
    })
}

/// Returns the inputs that a cell computes with. Operations that only copy a cell have none.
fn cell_inputs(operation: &Operation, i: usize, j: usize) -> Vec<CellInput> {
    let numbers = |id: &StepId, row, column| CellInput { id: *id, row, column, is_masked: false };
    let masked = |id: &StepId, row, column| CellInput { id: *id, row, column, is_masked: true };
    let (row, column) = (Some(i), Some(j));
    // The same cell, or the whole row, of each of these steps.
    let cells = |ids: &[&StepId]| ids.iter().map(|id| numbers(id, row, column)).collect::<Vec<_>>();
    let whole_rows = |ids: &[&StepId]| ids.iter().map(|id| numbers(id, row, None)).collect::<Vec<_>>();
    // The number above the column in a step with a single row.
    let top = |id: &StepId| numbers(id, Some(0), column);
    match operation {
        Operation::Given
        | Operation::Columns { .. }
        | Operation::Reshape { .. }
        | Operation::Mask { .. }
        | Operation::Concat(_)
        | Operation::StateRecurrence(_)
        | Operation::StateGradient(_) => Vec::new(),
        Operation::AddBias { bias, .. } if !bias[[i, j]].is_finite() => Vec::new(),
        Operation::Sum([a, b])
        | Operation::Hadamard([a, b])
        | Operation::Difference { of: [a, b], .. }
        | Operation::GateGradient { gate: a, gradient: b, .. }
        | Operation::ComplementProduct([a, b])
        | Operation::AdamUpdate { moments: [a, b], .. }
        | Operation::AdamWStep { of: a, update: b, .. } => cells(&[a, b]),
        Operation::DifferenceProduct { gradient, of: [a, b] } => cells(&[gradient, a, b]),
        Operation::Gate { terms, .. } => terms.iter().map(|(id, from)| numbers(id, row, Some(from + j))).collect(),
        Operation::GatedSum { pairs, .. } => pairs.iter().flatten().map(|id| numbers(id, row, column)).collect(),
        Operation::Product { factors: [a, b], bias } => {
            [numbers(a, row, None), numbers(b, None, column)].into_iter().chain(bias.iter().map(top)).collect()
        }
        Operation::WeightedSum([a, b]) => vec![numbers(a, row, None), numbers(b, None, column)],
        Operation::ProductTransposed([a, b]) => vec![numbers(a, row, None), numbers(b, column, None)],
        Operation::TransposedProduct([a, b]) => vec![numbers(a, None, row), numbers(b, None, column)],
        Operation::ProductsTransposed { pairs, added } => {
            let products = pairs.iter().flat_map(|[a, b]| [numbers(a, row, None), numbers(b, column, None)]);
            products.chain(added.iter().map(|id| numbers(id, row, column))).collect()
        }
        Operation::SoftmaxGradient { shares, gradient } => whole_rows(&[shares, gradient]),
        // The row of a key depends on their number, which is not known here, so the whole columns count as inputs.
        Operation::PairSums([a, b]) => [a, b].map(|id| numbers(id, None, column)).to_vec(),
        Operation::BroadcastRow { of, .. } => vec![top(of)],
        Operation::ColumnSums(of) | Operation::PairGradient { of, .. } => vec![numbers(of, None, column)],
        Operation::Rotary { of, angles: RotaryAngles::Given(speeds), .. } => {
            vec![numbers(of, row, None), numbers(speeds, Some(0), None)]
        }
        Operation::Rotary { of, .. } | Operation::RowSums(of) | Operation::UnitLength(of) => whole_rows(&[of]),
        Operation::Pool { of, poolings } => {
            // With several poolings the column depends on their width, which is not known here, so everything counts as
            // input.
            vec![numbers(of, None, column.filter(|_| poolings.len() == 1))]
        }
        Operation::LayerNorm { of, gamma, beta, .. } => {
            whole_rows(&[of]).into_iter().chain([gamma, beta].into_iter().flatten().map(top)).collect()
        }
        Operation::RmsNorm { of, gamma, .. } => whole_rows(&[of]).into_iter().chain(gamma.iter().map(top)).collect(),
        Operation::Scale { of, .. }
        | Operation::AddBias { of, .. }
        | Operation::Activation { of, .. }
        | Operation::ActivationDerivative { of, .. }
        | Operation::BiasCorrection { of, .. }
        | Operation::Log(of)
        | Operation::Tanh(of) => cells(&[of]),
        Operation::CrossEntropy { target, logarithms } => {
            vec![numbers(target, None, None), masked(logarithms, None, None)]
        }
        Operation::RowMax(of) | Operation::OneHot(of) => vec![masked(of, row, None)],
        Operation::Exp { of, largest } => {
            let largest = largest.iter().map(|id| masked(id, row, Some(0)));
            std::iter::once(masked(of, row, column)).chain(largest).collect()
        }
        Operation::DivideByRowSums { of, sums } => vec![numbers(of, row, column), numbers(sums, row, Some(0))],
        Operation::NormGradient(NormGradient { of, plain, gamma, gradient, .. }) => {
            let gamma = gamma.iter().map(|id| numbers(id, Some(0), None));
            whole_rows(&[of, plain, gradient]).into_iter().chain(gamma).collect()
        }
        Operation::ColumnDotProducts(pair) => pair.iter().map(|id| numbers(id, None, column)).collect(),
        Operation::PoolingGradient { of, gradient, pooling } => {
            let of = (*pooling == Pooling::Max).then(|| numbers(of, None, column));
            of.into_iter().chain([top(gradient)]).collect()
        }
        Operation::UnitGradient { of, unit, gradient } => whole_rows(&[of, unit, gradient]),
        Operation::SoftmaxJacobian { shares, row: own } => vec![numbers(shares, Some(*own), None)],
        Operation::Moment { before, gradient, .. } => {
            before.iter().chain([gradient]).map(|id| numbers(id, row, column)).collect()
        }
    }
}

/// Returns the number of rows of a step.
fn step_rows(layout: &SheetLayout<'_>, id: StepId) -> usize {
    layout.blocks.get(&id).map_or(0, |block| block.rows)
}
