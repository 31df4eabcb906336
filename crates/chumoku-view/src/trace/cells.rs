//! The formulas of a spreadsheet: how each cell follows from others.

use super::formula::root_of;
use super::grid::odd;
use super::kind::StepKind;
use super::operation::{Angles, Curve, NormGradient, Operation, StepId};
use super::shown::TraceStep;
use chumoku::nn::Pooling;
use chumoku_kernels::Activation;
use std::collections::HashMap;

/// The column of the first number; labels stand before it.
pub(super) const FIRST: u16 = 1;
/// Most terms of a sum that is written out: a formula has at most 8,192 characters.
const TERMS: usize = 100;

/// The name of a cell, rows and columns counted from 0: `B4`.
fn cell(row: u32, column: u16) -> String {
    rust_xlsxwriter::utility::row_col_to_cell(row, column)
}

/// A number as a formula writes it: an f64 as text keeps all its digits.
fn literal(x: f64) -> String {
    match x.abs() {
        _ if !x.is_finite() => format!("\"{}\"", odd(x)),
        size if size == 0.0 || (1e-5..1e15).contains(&size) => x.to_string(),
        _ => format!("{x:E}"),
    }
}

/// Where the numbers of a step stand.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub(super) sheet: usize,
    pub(super) row: u32,
    pub(super) rows: usize,
    pub(super) columns: usize,
}

/// A [`Block`] as the formulas of some sheet name it.
struct Named {
    block: Block,
    /// The name of the sheet, where it is another.
    prefix: String,
}

impl Named {
    fn cell(&self, i: usize, j: usize) -> String {
        cell(self.block.row + i as u32, FIRST + j as u16)
    }

    fn at(&self, i: usize, j: usize) -> String {
        format!("{}{}", self.prefix, self.cell(i, j))
    }

    fn row(&self, i: usize) -> String {
        format!("{}:{}", self.at(i, 0), self.cell(i, self.block.columns - 1))
    }

    fn column(&self, j: usize) -> String {
        format!("{}:{}", self.at(0, j), self.cell(self.block.rows - 1, j))
    }

    fn all(&self) -> String {
        format!("{}:{}", self.at(0, 0), self.cell(self.block.rows - 1, self.block.columns - 1))
    }
}

/// What a cell reads of a step: a number, a row or a column of it.
#[derive(Clone, Copy)]
struct Read {
    id: StepId,
    row: Option<usize>,
    column: Option<usize>,
    /// Whether −∞ is passed over, as what is not seen.
    is_masked: bool,
}

/// Where everything stands, seen from one of the sheets.
pub(super) struct Layout<'a> {
    pub(super) steps: HashMap<StepId, &'a TraceStep>,
    pub(super) blocks: HashMap<StepId, Block>,
    pub(super) names: [&'static str; 2],
    /// The sheet whose formulas are made.
    pub(super) sheet: usize,
}

impl Layout<'_> {
    fn named(&self, id: StepId) -> Option<Named> {
        let block = *self.blocks.get(&id)?;
        let prefix = match block.sheet == self.sheet {
            true => String::new(),
            false => format!("'{}'!", self.names[block.sheet]),
        };
        Some(Named { block, prefix })
    }

    /// What a computed cell says; none of what is given.
    pub(super) fn cell(&self, step: &TraceStep, i: usize, j: usize) -> Option<String> {
        let (formula, truth) = (self.formula(step, i, j)?, step.value[[i, j]]);
        let reads = reads(&step.operation, i, j);
        let all_numbers = reads.iter().all(|read| self.is_number(read));
        Some(match &step.operation {
            // A share of 0 takes nothing, whatever stands there.
            Operation::Mixture([shares, values])
                if !all_numbers && self.is_number(&reads[0]) && step_rows(self, *values) <= TERMS =>
            {
                let (shares, values) = (self.named(*shares)?, self.named(*values)?);
                let term = |k: usize| {
                    let (share, value) = (shares.at(i, k), values.at(k, j));
                    format!("IF({share}=0,0,{share}*{value})")
                };
                let terms: Vec<String> = (0..values.block.rows).map(term).collect();
                // What reads a text takes something of it now, which is not finite.
                let came = if truth.is_finite() { f64::NAN } else { truth };
                format!("IFERROR({},{})", terms.join("+"), literal(came))
            }
            // Says by itself that there is none.
            Operation::Largest(_) | Operation::Logarithms(_) if all_numbers => formula,
            _ if all_numbers && (truth.is_finite() || reads.is_empty()) => formula,
            // Too large for a number, or 0/0.
            _ if all_numbers => format!("IFERROR({formula},{})", literal(truth)),
            _ => {
                let guards = reads.iter().filter_map(|read| self.guard(read)).collect::<Vec<_>>().join(",");
                let formula = format!("IF(AND({guards}),{formula},{})", literal(truth));
                if truth.is_finite() { formula } else { format!("IFERROR({formula},{})", literal(truth)) }
            }
        })
    }

    /// The sum beside a row of weights.
    pub(super) fn row_sum(&self, step: &TraceStep, i: usize, sum: f64) -> String {
        let Some(own) = self.named(step.id) else { return literal(sum) };
        let range = own.row(i);
        match sum.is_finite() {
            true => format!("SUM({range})"),
            false => format!("IF(COUNT({range})={},SUM({range}),{})", own.block.columns, literal(sum)),
        }
    }

    /// Whether all that is read are numbers to a spreadsheet.
    fn is_number(&self, read: &Read) -> bool {
        let Some(step) = self.steps.get(&read.id) else { return true };
        let is_number = |x: &f64| x.is_finite() || (read.is_masked && *x == f64::NEG_INFINITY);
        match (read.row, read.column) {
            (Some(i), Some(j)) => is_number(&step.value[[i, j]]),
            (Some(i), None) => step.value.row(i).iter().all(is_number),
            (None, Some(j)) => step.value.column(j).iter().all(is_number),
            (None, None) => step.value.iter().all(is_number),
        }
    }

    /// What is true once all that is read are numbers.
    fn guard(&self, read: &Read) -> Option<String> {
        let from = self.named(read.id)?;
        let (range, count) = match (read.row, read.column) {
            (Some(i), Some(j)) => (from.at(i, j), 1),
            (Some(i), None) => (from.row(i), from.block.columns),
            (None, Some(j)) => (from.column(j), from.block.rows),
            (None, None) => (from.all(), from.block.rows * from.block.columns),
        };
        Some(match read.is_masked {
            true => format!("COUNT({range})+COUNTIF({range},\"-∞\")={count}"),
            false => format!("COUNT({range})={count}"),
        })
    }

    /// What a cell is computed by, if all that it reads are numbers; none of what is given.
    fn formula(&self, step: &TraceStep, i: usize, j: usize) -> Option<String> {
        let block = |id: &StepId| self.named(*id);
        let bias = |id: &StepId| Some(format!("+{}", block(id)?.at(0, j)));
        Some(match &step.operation {
            Operation::Given => return None,
            Operation::Sum([a, b]) => format!("{}+{}", block(a)?.at(i, j), block(b)?.at(i, j)),
            Operation::Hadamard([a, b]) => format!("{}*{}", block(a)?.at(i, j), block(b)?.at(i, j)),
            Operation::Product { factors: [a, b], bias: offset } => {
                let offset = match offset {
                    Some(id) => bias(id)?,
                    None => String::new(),
                };
                format!("SUMPRODUCT(MMULT({},{})){offset}", block(a)?.row(i), block(b)?.column(j))
            }
            Operation::Mixture([a, b]) => format!("SUMPRODUCT(MMULT({},{}))", block(a)?.row(i), block(b)?.column(j)),
            Operation::ProductTransposed([a, b]) => format!("SUMPRODUCT({},{})", block(a)?.row(i), block(b)?.row(j)),
            Operation::TransposedProduct([a, b]) => {
                format!("SUMPRODUCT({},{})", block(a)?.column(i), block(b)?.column(j))
            }
            Operation::ProductsTransposed { pairs, added } => {
                let product =
                    |[a, b]: &[StepId; 2]| Some(format!("SUMPRODUCT({},{})", block(a)?.row(i), block(b)?.row(j)));
                let terms = pairs.iter().map(product).chain(added.iter().map(|id| Some(block(id)?.at(i, j))));
                terms.collect::<Option<Vec<_>>>()?.join("+")
            }
            Operation::Difference { of: [a, b], over } => {
                format!("({}-{})/{}", block(a)?.at(i, j), block(b)?.at(i, j), literal(*over))
            }
            Operation::SoftmaxGradient { shares, gradient } => {
                let (shares, gradient) = (block(shares)?, block(gradient)?);
                let mean = format!("SUMPRODUCT({},{})", shares.row(i), gradient.row(i));
                format!("{}*({}-{mean})", shares.at(i, j), gradient.at(i, j))
            }
            Operation::Spread { of, over, .. } => format!("{}/{}", block(of)?.at(0, j), literal(*over)),
            Operation::ColumnSums(of) => format!("SUM({})", block(of)?.column(j)),
            Operation::Columns { of, range } => block(of)?.at(i, range.start + j),
            Operation::Turned { of, angles, is_back } => {
                let (width, half) = (step.value.ncols(), step.value.ncols() / 2);
                let (pair, is_first) = (j % half.max(1), j < half);
                let angle = match angles {
                    Angles::Base(base) => literal(i as f64 * base.powf(-2.0 * pair as f64 / width as f64)),
                    Angles::Given(speeds) => format!("{i}*{}", block(speeds)?.at(0, pair)),
                };
                let other = if is_first { j + half } else { pair };
                let sign = if is_first == *is_back { '+' } else { '-' };
                let from = block(of)?;
                format!("{}*COS({angle}){sign}{}*SIN({angle})", from.at(i, j), from.at(i, other))
            }
            Operation::Scaled { of, factor } => match root_of(*factor) {
                Some(n) => format!("{}/SQRT({n})", block(of)?.at(i, j)),
                None => format!("{}*({})", block(of)?.at(i, j), literal(*factor)),
            },
            Operation::Biased { of, bias } if bias[[i, j]].is_finite() => {
                format!("{}+({})", block(of)?.at(i, j), literal(bias[[i, j]]))
            }
            // What is not seen is no number in a spreadsheet, and MAX and SUM pass over it.
            Operation::Biased { .. } => literal(step.value[[i, j]]),
            Operation::Masked { of, seen } if seen[[i, j]] => block(of)?.at(i, j),
            Operation::Masked { .. } => literal(f64::NEG_INFINITY),
            Operation::Largest(of) => {
                let row = block(of)?.row(i);
                format!("IF(COUNT({row})=0,\"-∞\",MAX({row}))")
            }
            Operation::Exponentials { of, largest } => {
                let from = block(of)?.at(i, j);
                let largest = match largest {
                    Some(id) => format!("-{}", block(id)?.at(i, 0)),
                    None => String::new(),
                };
                format!("IF(ISNUMBER({from}),EXP({from}{largest}),0)")
            }
            Operation::RowSums(of) => format!("SUM({})", block(of)?.row(i)),
            Operation::Shares { of, sums } => {
                let sum = block(sums)?.at(i, 0);
                format!("IF({sum}=0,0,{}/{sum})", block(of)?.at(i, j))
            }
            Operation::OneHot(of) => {
                let row = block(of)?.row(i);
                format!("IF(COUNT({row})=0,0,IF({}=MATCH(MAX({row}),{row},0),1,0))", j + 1)
            }
            Operation::Joined(parts) => {
                let width = step.value.ncols() / parts.len().max(1);
                block(parts.get(j / width.max(1))?)?.at(i, j % width)
            }
            Operation::Pooled { of, ways } => {
                let from = block(of)?;
                let width = from.block.columns.max(1);
                let column = from.column(j % width);
                match ways.get(j / width)? {
                    Pooling::First => from.at(0, j % width),
                    Pooling::Last => from.at(from.block.rows - 1, j % width),
                    Pooling::Max => format!("MAX({column})"),
                    Pooling::MeanSqrtLength => format!("SUM({column})/SQRT(COUNT({column}))"),
                    _ => format!("AVERAGE({column})"),
                }
            }
            Operation::Activated { of, activation } => {
                let x = block(of)?.at(i, j);
                match activation {
                    Activation::Relu => format!("MAX(0,{x})"),
                    Activation::Gelu => format!("{x}/2*(1+ERF({x}/SQRT(2)))"),
                    Activation::GeluTanh => format!("{x}/2*(1+TANH(SQRT(2/PI())*({x}+0.044715*{x}^3)))"),
                    // No number is as large as what the exponential of a larger one would be.
                    Activation::Silu => format!("{x}/(1+EXP(MIN(-{x},700)))"),
                    _ => literal(step.value[[i, j]]),
                }
            }
            Operation::Tanh(of) => format!("TANH({})", block(of)?.at(i, j)),
            // The row before of what it is given from, which stands further down.
            Operation::Before(before) => match (i.checked_sub(1), before.first[usize::from(before.is_state)]) {
                (None, None) => literal(0.0),
                (None, Some(id)) => block(&id)?.at(0, j),
                (Some(row), _) => {
                    let is_it = |own: &&&TraceStep| own.kind == step.kind && own.quantity == before.of();
                    block(&self.steps.values().find(is_it)?.id)?.at(row, j)
                }
            },
            // The row after, likewise.
            Operation::Later(_) if i + 1 == step.value.nrows() => literal(0.0),
            Operation::Later(later) => {
                let by = later.before.by();
                let is_it = |own: &&&TraceStep| own.kind == StepKind::Gradient && own.quantity == by;
                block(&self.steps.values().find(is_it)?.id)?.at(i + 1, j)
            }
            Operation::GateGradient { gate, gradient, is_tanh } => {
                let [y, g] = [block(gate)?.at(i, j), block(gradient)?.at(i, j)];
                if *is_tanh { format!("{g}*(1-{y}*{y})") } else { format!("{g}*{y}*(1-{y})") }
            }
            Operation::Complement([a, g]) => format!("(1-{})*{}", block(a)?.at(i, j), block(g)?.at(i, j)),
            Operation::Between { gradient, of: [a, b] } => {
                let [g, a, b] = [block(gradient)?.at(i, j), block(a)?.at(i, j), block(b)?.at(i, j)];
                format!("{g}*({a}-{b})")
            }
            Operation::Gate { terms: [(a, from), (b, other)], is_tanh, .. } => {
                let sum = format!("{}+{}", block(a)?.at(i, from + j), block(b)?.at(i, other + j));
                match is_tanh {
                    true => format!("TANH({sum})"),
                    // No number is as large as what the exponential of a larger one would be.
                    false => format!("1/(1+EXP(MIN(-({sum}),700)))"),
                }
            }
            Operation::Gated { pairs: [[a, b], [c, d]], is_complement } => {
                let [a, b, c, d] = [block(a)?.at(i, j), block(b)?.at(i, j), block(c)?.at(i, j), block(d)?.at(i, j)];
                let first = if *is_complement { format!("(1-{a})") } else { a };
                format!("{first}*{b}+{c}*{d}")
            }
            // Of 0 there is no logarithm in a spreadsheet.
            Operation::Logarithms(of) => {
                let x = block(of)?.at(i, j);
                format!("IF({x}=0,\"-∞\",LN({x}))")
            }
            Operation::CrossEntropy { target, logarithms } => {
                let (target, logarithms) = (block(target)?, block(logarithms)?);
                let Block { rows, columns, .. } = target.block;
                if rows * columns > TERMS {
                    return Some(format!("-SUMPRODUCT({},{})/{rows}", target.all(), logarithms.all()));
                }
                let term = |k: usize| {
                    let (share, x) = (target.at(k / columns, k % columns), logarithms.at(k / columns, k % columns));
                    format!("IF({share}=0,0,{share}*{x})")
                };
                let terms: Vec<String> = (0..rows * columns).map(term).collect();
                // What was to come and had no probability.
                format!("IFERROR(-({})/{rows},{})", terms.join("+"), literal(f64::INFINITY))
            }
            Operation::UnitLength(of) => {
                let from = block(of)?;
                let row = from.row(i);
                let squares = format!("SUMPRODUCT({row},{row})");
                format!("IF({squares}=0,0,{}/SQRT({squares}))", from.at(i, j))
            }
            Operation::RmsNormalised { of, gamma, epsilon } => {
                let from = block(of)?;
                let row = from.row(i);
                let core =
                    format!("{}/SQRT(SUMPRODUCT({row},{row})/COUNT({row})+{})", from.at(i, j), literal(*epsilon));
                match gamma {
                    Some(id) => format!("{core}*{}", block(id)?.at(0, j)),
                    None => core,
                }
            }
            Operation::Normalised { of, gamma, beta, epsilon } => {
                let from = block(of)?;
                let row = from.row(i);
                let core = format!("({}-AVERAGE({row}))/SQRT(VARP({row})+{})", from.at(i, j), literal(*epsilon));
                let core = match gamma {
                    Some(id) => format!("{core}*{}", block(id)?.at(0, j)),
                    None => core,
                };
                match beta {
                    Some(id) => format!("{core}{}", bias(id)?),
                    None => core,
                }
            }
            Operation::Slope { of, curve } => slope(*curve, &block(of)?.at(i, j))?,
            Operation::NormGradient(made) => self.norm_gradient(made, i, j)?,
            Operation::ColumnProducts([a, b]) => {
                format!("SUMPRODUCT({},{})", block(a)?.column(j), block(b)?.column(j))
            }
            Operation::Placed { of, gradient, way } => {
                let (from, g) = (block(of)?, block(gradient)?.at(0, j));
                let is_there = match way {
                    Pooling::First => i == 0,
                    Pooling::Last => i + 1 == from.block.rows,
                    _ => {
                        let column = from.column(j);
                        return Some(format!("IF({}=MATCH(MAX({column}),{column},0),{g},0)", i + 1));
                    }
                };
                if is_there { g } else { "0".into() }
            }
            Operation::UnitGradient { of, unit, gradient } => {
                let (from, unit, g) = (block(of)?.row(i), block(unit)?, block(gradient)?);
                let squares = format!("SUMPRODUCT({from},{from})");
                let along = format!("SUMPRODUCT({},{})", unit.row(i), g.row(i));
                format!("IF({squares}=0,0,({}-{}*{along})/SQRT({squares}))", g.at(i, j), unit.at(i, j))
            }
            Operation::SoftmaxJacobian { shares, row } => {
                let from = block(shares)?;
                let [a, b] = [from.at(*row, i), from.at(*row, j)];
                if i == j { format!("{a}*(1-{a})") } else { format!("0-{a}*{b}") }
            }
            Operation::Moment { before, gradient, keep, is_square } => {
                let g = block(gradient)?.at(i, j);
                let g = if *is_square { format!("{g}*{g}") } else { g };
                let new = format!("(1-{})*{g}", literal(*keep));
                match before {
                    Some(before) => format!("{}*{}+{new}", literal(*keep), block(before)?.at(i, j)),
                    None => new,
                }
            }
            Operation::Corrected { of, keep, step } => {
                format!("{}/(1-{}^{step})", block(of)?.at(i, j), literal(*keep))
            }
            Operation::Update { moments: [m, v], rate, epsilon } => {
                let [m, v] = [block(m)?.at(i, j), block(v)?.at(i, j)];
                format!("{}*{m}/(SQRT({v})+{})", literal(*rate), literal(*epsilon))
            }
            Operation::Stepped { of, update, rate, weight_decay } => {
                let kept = match *weight_decay == 0.0 {
                    true => String::new(),
                    false => format!("(1-{}*{})*", literal(*rate), literal(*weight_decay)),
                };
                format!("{kept}{}-{}", block(of)?.at(i, j), block(update)?.at(i, j))
            }
        })
    }

    /// A cell of the gradient of what was normalised.
    fn norm_gradient(&self, made: &NormGradient, i: usize, j: usize) -> Option<String> {
        let block = |id: StepId| self.named(id);
        let (from, plain, g) = (block(made.of)?.row(i), block(made.plain)?, block(made.gradient)?);
        let (own, row) = (g.at(i, j), g.row(i));
        // The row of what the normalised row was multiplied with, and its number here.
        let [row, own] = match made.gamma {
            Some(gamma) => {
                let gamma = block(gamma)?;
                [format!("{row},{}", gamma.row(0)), format!("{own}*{}", gamma.at(0, j))]
            }
            None => [row, own],
        };
        let along = format!("{}*SUMPRODUCT({row},{})/COUNT({from})", plain.at(i, j), plain.row(i));
        let epsilon = literal(made.epsilon);
        Some(match made.is_rms {
            true => format!("({own}-{along})/SQRT(SUMPRODUCT({from},{from})/COUNT({from})+{epsilon})"),
            false => {
                let mean = format!("SUMPRODUCT({row})/COUNT({from})");
                format!("({own}-{mean}-{along})/SQRT(VARP({from})+{epsilon})")
            }
        })
    }
}

/// The derivative of a function at a cell.
fn slope(curve: Curve, x: &str) -> Option<String> {
    Some(match curve {
        Curve::Tanh => format!("1-TANH({x})^2"),
        Curve::Activation(Activation::Relu) => format!("IF({x}>0,1,0)"),
        Curve::Activation(Activation::Gelu) => {
            format!("(1+ERF({x}/SQRT(2)))/2+{x}*EXP(0-{x}*{x}/2)/SQRT(2*PI())")
        }
        Curve::Activation(Activation::GeluTanh) => {
            let t = format!("TANH(SQRT(2/PI())*({x}+0.044715*{x}^3))");
            format!("(1+{t})/2+{x}/2*(1-{t}^2)*SQRT(2/PI())*(1+0.134145*{x}^2)")
        }
        Curve::Activation(Activation::Silu) => {
            let share = format!("1/(1+EXP(MIN(-{x},700)))");
            format!("{share}*(1+{x}*(1-{share}))")
        }
        Curve::Activation(_) => return None,
    })
}

/// What a cell computes with. These that copy one, whatever it holds, compute with nothing.
fn reads(operation: &Operation, i: usize, j: usize) -> Vec<Read> {
    let numbers = |id: &StepId, row, column| Read { id: *id, row, column, is_masked: false };
    let masked = |id: &StepId, row, column| Read { id: *id, row, column, is_masked: true };
    let (row, column) = (Some(i), Some(j));
    match operation {
        Operation::Given
        | Operation::Columns { .. }
        | Operation::Masked { .. }
        | Operation::Joined(_)
        | Operation::Before(_)
        | Operation::Later(_) => Vec::new(),
        Operation::GateGradient { gate: a, gradient: b, .. } | Operation::Complement([a, b]) => {
            [a, b].map(|id| numbers(id, row, column)).to_vec()
        }
        Operation::Between { gradient, of: [a, b] } => [gradient, a, b].map(|id| numbers(id, row, column)).to_vec(),
        Operation::Gate { terms, .. } => terms.iter().map(|(id, from)| numbers(id, row, Some(from + j))).collect(),
        Operation::Gated { pairs, .. } => pairs.iter().flatten().map(|id| numbers(id, row, column)).collect(),
        Operation::Biased { bias, .. } if !bias[[i, j]].is_finite() => Vec::new(),
        Operation::Sum(pair) | Operation::Hadamard(pair) => pair.iter().map(|id| numbers(id, row, column)).collect(),
        Operation::Product { factors: [a, b], bias } => {
            let offset = bias.iter().map(|id| numbers(id, Some(0), column));
            [numbers(a, row, None), numbers(b, None, column)].into_iter().chain(offset).collect()
        }
        Operation::Mixture([a, b]) => vec![numbers(a, row, None), numbers(b, None, column)],
        Operation::ProductTransposed([a, b]) => vec![numbers(a, row, None), numbers(b, column, None)],
        Operation::TransposedProduct([a, b]) => vec![numbers(a, None, row), numbers(b, None, column)],
        Operation::ProductsTransposed { pairs, added } => {
            let products = pairs.iter().flat_map(|[a, b]| [numbers(a, row, None), numbers(b, column, None)]);
            products.chain(added.iter().map(|id| numbers(id, row, column))).collect()
        }
        Operation::Difference { of, .. } => of.iter().map(|id| numbers(id, row, column)).collect(),
        Operation::SoftmaxGradient { shares, gradient } => {
            vec![numbers(shares, row, None), numbers(gradient, row, None)]
        }
        Operation::Spread { of, .. } => vec![numbers(of, Some(0), column)],
        Operation::ColumnSums(of) => vec![numbers(of, None, column)],
        Operation::Turned { of, angles: Angles::Given(speeds), .. } => {
            vec![numbers(of, row, None), numbers(speeds, Some(0), None)]
        }
        Operation::Turned { of, .. } | Operation::RowSums(of) | Operation::UnitLength(of) => {
            vec![numbers(of, row, None)]
        }
        Operation::Pooled { of, ways } => {
            // Without the width of what is pooled, which is not known here, all of it is read where there are several.
            vec![numbers(of, None, column.filter(|_| ways.len() == 1))]
        }
        Operation::Normalised { of, gamma, beta, .. } => {
            let affine = [gamma, beta].into_iter().flatten().map(|id| numbers(id, Some(0), column));
            std::iter::once(numbers(of, row, None)).chain(affine).collect()
        }
        Operation::RmsNormalised { of, gamma, .. } => {
            let gamma = gamma.iter().map(|id| numbers(id, Some(0), column));
            std::iter::once(numbers(of, row, None)).chain(gamma).collect()
        }
        Operation::Scaled { of, .. }
        | Operation::Biased { of, .. }
        | Operation::Activated { of, .. }
        | Operation::Logarithms(of)
        | Operation::Tanh(of) => vec![numbers(of, row, column)],
        Operation::CrossEntropy { target, logarithms } => {
            vec![numbers(target, None, None), masked(logarithms, None, None)]
        }
        Operation::Largest(of) | Operation::OneHot(of) => vec![masked(of, row, None)],
        Operation::Exponentials { of, largest } => {
            let largest = largest.iter().map(|id| masked(id, row, Some(0)));
            std::iter::once(masked(of, row, column)).chain(largest).collect()
        }
        Operation::Shares { of, sums } => vec![numbers(of, row, column), numbers(sums, row, Some(0))],
        Operation::Slope { of, .. } | Operation::Corrected { of, .. } => vec![numbers(of, row, column)],
        Operation::NormGradient(NormGradient { of, plain, gamma, gradient, .. }) => {
            let gamma = gamma.iter().map(|id| numbers(id, Some(0), None));
            [of, plain, gradient].map(|id| numbers(id, row, None)).into_iter().chain(gamma).collect()
        }
        Operation::ColumnProducts(pair) => pair.iter().map(|id| numbers(id, None, column)).collect(),
        Operation::Placed { of, gradient, way } => {
            let of = (*way == Pooling::Max).then(|| numbers(of, None, column));
            of.into_iter().chain([numbers(gradient, Some(0), column)]).collect()
        }
        Operation::UnitGradient { of, unit, gradient } => {
            [of, unit, gradient].map(|id| numbers(id, row, None)).to_vec()
        }
        Operation::SoftmaxJacobian { shares, row: own } => vec![numbers(shares, Some(*own), None)],
        Operation::Moment { before, gradient, .. } => {
            before.iter().chain([gradient]).map(|id| numbers(id, row, column)).collect()
        }
        Operation::Update { moments: pair, .. } => pair.iter().map(|id| numbers(id, row, column)).collect(),
        Operation::Stepped { of, update, .. } => [of, update].map(|id| numbers(id, row, column)).to_vec(),
    }
}

/// How many rows a step has.
fn step_rows(layout: &Layout<'_>, id: StepId) -> usize {
    layout.blocks.get(&id).map_or(0, |block| block.rows)
}
