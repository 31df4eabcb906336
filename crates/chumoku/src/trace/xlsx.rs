//! A trace as a spreadsheet whose formulas are live: change a number that is given, and everything follows.

use super::formula::root_of;
use super::operation::{Operation, StepId};
use super::shown::{Trace, TraceStep};
use super::text::TraceOptions;
use super::words;
use crate::view::clean_text;
use crate::{Error, Result};
use rust_xlsxwriter::{Format, FormatAlign, Formula, Workbook, Worksheet, XlsxError};
use std::collections::HashMap;

/// The column of the first number; labels stand before it.
const FIRST: u16 = 1;
/// Columns that a sheet can have.
const COLUMNS: usize = 16_384;
/// Rows that a sheet can have.
const ROWS: usize = 1_048_576;

/// The name of a cell, rows and columns counted from 0: `B4`.
fn cell(row: u32, column: u16) -> String {
    rust_xlsxwriter::utility::row_col_to_cell(row, column)
}

/// Where the numbers of a step stand.
#[derive(Clone, Copy)]
struct Block {
    row: u32,
    rows: usize,
    columns: usize,
}

impl Block {
    fn at(&self, i: usize, j: usize) -> String {
        cell(self.row + i as u32, FIRST + j as u16)
    }

    fn row(&self, i: usize) -> String {
        format!("{}:{}", self.at(i, 0), self.at(i, self.columns - 1))
    }

    fn column(&self, j: usize) -> String {
        format!("{}:{}", self.at(0, j), self.at(self.rows - 1, j))
    }
}

impl Trace {
    /// The trace as an .xlsx file: given numbers as numbers, all others as formulas of them with their results.
    ///
    /// Of several heads the one shown is live; the output of the others stands there as numbers. A spreadsheet knows
    /// neither NaN nor the infinities: they stand there as texts, and what is computed from them as what it is, without
    /// a formula.
    ///
    /// # Errors
    /// If a matrix is larger than a sheet.
    pub fn to_xlsx(&self, options: &TraceOptions) -> Result<Vec<u8>> {
        let rows: usize = self.steps.iter().map(|step| step.value.nrows() + 6).sum();
        let widest = self.steps.iter().map(|step| step.value.ncols() + 2).max().unwrap_or(0);
        if rows >= ROWS || widest >= COLUMNS {
            let problem = format!(
                "a spreadsheet holds {ROWS} rows and {COLUMNS} columns, but {rows} and {widest} are needed; use --format json"
            );
            return Err(Error::Setting(problem));
        }
        self.workbook(options).map_err(|error| Error::Setting(format!("writing the spreadsheet: {error}")))
    }

    fn workbook(&self, options: &TraceOptions) -> Result<Vec<u8>, XlsxError> {
        let lang = options.lang;
        let mut workbook = Workbook::new();
        let sheet = workbook.add_worksheet();
        sheet.set_name(lang.pick("Trace", "計算の手順"))?;
        sheet.set_column_width(0, 24)?;
        let strong = Format::new().set_bold();
        let quiet = Format::new().set_font_color("#666666");
        let decimals = format!("0.{}", "0".repeat(options.digits.max(1)));
        let given = Format::new().set_background_color("#FFF4CC").set_num_format("General");
        let whole = Format::new();
        let computed = Format::new().set_num_format(&decimals);
        let heading = Format::new().set_align(FormatAlign::Right).set_font_color("#666666");
        sheet.write_with_format(0, 0, clean_text(&self.heading(lang)), &strong)?;
        sheet.write_with_format(1, 0, clean_text(&self.source), &quiet)?;
        let note = lang.pick(
            "Yellow cells are given: change one, and all that follows from it changes.",
            "黄色のセルは与えられた値。書き換えると、そこから先の値がすべて変わる。",
        );
        let cut = self.cut.map_or(String::new(), |cut| cut.to_text(lang) + " ");
        sheet.write_with_format(2, 0, cut + note, &quiet)?;
        let mut blocks: HashMap<StepId, Block> = HashMap::new();
        let mut row = 4;
        for (index, step) in self.steps.iter().enumerate() {
            let [rows, columns] = [step.value.nrows(), step.value.ncols()];
            sheet.write_with_format(row, 0, format!("{}. {}", index + 1, step.title(lang)), &strong)?;
            let formula = step.formula.as_ref().map_or(words::given(lang), |formula| &formula.text);
            sheet.write_with_format(row + 1, 0, format!("{}: {}", step.symbol, step.shape()), &quiet)?;
            sheet.write_with_format(row + 1, FIRST, formula, &quiet)?;
            let block = Block { row: row + 3, rows, columns };
            let is_whole = step.is_whole();
            for j in 0..columns {
                sheet.write_with_format(
                    row + 2,
                    FIRST + j as u16,
                    super::grid::label(self, step.axes()[1], j),
                    &heading,
                )?;
            }
            for i in 0..rows {
                let label = super::grid::label(self, step.axes()[0], i);
                sheet.write_with_format(block.row + i as u32, 0, label, &quiet)?;
                for j in 0..columns {
                    let at = (block.row + i as u32, FIRST + j as u16);
                    let format = match (&step.operation, step.value[[i, j]].fract() == 0.0) {
                        (Operation::Given, _) => &given,
                        (_, true) if is_whole => &whole,
                        _ => &computed,
                    };
                    match self.formula(step, &blocks, i, j).filter(|_| self.is_live(step, i, j)) {
                        Some(formula) => write_formula(sheet, at, &formula, step.value[[i, j]], format)?,
                        None => write_number(sheet, at, step.value[[i, j]], format)?,
                    }
                }
                if step.name() == "weights" {
                    let at = (block.row + i as u32, FIRST + columns as u16);
                    let sum = step.value.row(i).sum();
                    match sum.is_finite() {
                        true => write_formula(sheet, at, &format!("SUM({})", block.row(i)), sum, &quiet)?,
                        false => write_number(sheet, at, sum, &quiet)?,
                    }
                }
            }
            if step.name() == "weights" {
                sheet.write_with_format(row + 2, FIRST + columns as u16, lang.pick("sum", "和"), &heading)?;
            }
            blocks.insert(step.id, block);
            row = block.row + rows as u32 + 1;
        }
        workbook.save_to_buffer()
    }

    /// Whether a spreadsheet comes to the same number: all that it reads for it are numbers to it.
    fn is_live(&self, step: &TraceStep, i: usize, j: usize) -> bool {
        let value = |id: &StepId| self.steps.iter().find(|step| step.id == *id).map(|step| &step.value);
        let all = |id: &StepId, is_number: &dyn Fn(f64) -> bool, [row, column]: [Option<usize>; 2]| {
            value(id).is_none_or(|matrix| match (row, column) {
                (Some(i), Some(j)) => is_number(matrix[[i, j]]),
                (Some(i), None) => matrix.row(i).iter().all(|x| is_number(*x)),
                (None, Some(j)) => matrix.column(j).iter().all(|x| is_number(*x)),
                (None, None) => matrix.iter().all(|x| is_number(*x)),
            })
        };
        let finite: &dyn Fn(f64) -> bool = &f64::is_finite;
        // What is not seen is passed over.
        let masked: &dyn Fn(f64) -> bool = &|x| x.is_finite() || x == f64::NEG_INFINITY;
        let [at, row, column] = [[Some(i), Some(j)], [Some(i), None], [None, Some(j)]];
        match &step.operation {
            // These copy a cell, whatever it holds.
            Operation::Given | Operation::Columns { .. } | Operation::Masked { .. } | Operation::Joined(_) => true,
            Operation::Sum(pair) => pair.iter().all(|id| all(id, finite, at)),
            Operation::Product { factors: [a, b], bias } => {
                all(a, finite, row)
                    && all(b, finite, column)
                    && bias.iter().all(|id| all(id, finite, [Some(0), Some(j)]))
            }
            Operation::Mixture([a, b]) => all(a, finite, row) && all(b, finite, column),
            Operation::ProductTransposed([a, b]) => all(a, finite, row) && all(b, finite, [Some(j), None]),
            Operation::Turned { of, .. } | Operation::RowSums(of) => all(of, finite, row),
            Operation::Normalised { of, gamma, beta, .. } => {
                all(of, finite, row)
                    && [gamma, beta].into_iter().flatten().all(|id| all(id, finite, [Some(0), Some(j)]))
            }
            Operation::Scaled { of, .. } | Operation::Biased { of, .. } => all(of, finite, at),
            Operation::Largest(of) | Operation::OneHot(of) => all(of, masked, row),
            Operation::Exponentials { of, largest } => {
                all(of, masked, at) && largest.iter().all(|id| all(id, masked, [Some(i), Some(0)]))
            }
            Operation::Shares { of, sums } => all(of, finite, at) && all(sums, finite, [Some(i), Some(0)]),
        }
    }

    /// What a cell is computed by; none for a number.
    fn formula(&self, step: &TraceStep, blocks: &HashMap<StepId, Block>, i: usize, j: usize) -> Option<String> {
        let block = |id: &StepId| blocks.get(id);
        let bias = |id: &StepId| Some(format!("+{}", block(id)?.at(0, j)));
        Some(match &step.operation {
            Operation::Given => return None,
            Operation::Sum([a, b]) => format!("{}+{}", block(a)?.at(i, j), block(b)?.at(i, j)),
            Operation::Product { factors: [a, b], bias: offset } => {
                let offset = match offset {
                    Some(id) => bias(id)?,
                    None => String::new(),
                };
                format!("SUMPRODUCT(MMULT({},{})){offset}", block(a)?.row(i), block(b)?.column(j))
            }
            Operation::Mixture([a, b]) => format!("SUMPRODUCT(MMULT({},{}))", block(a)?.row(i), block(b)?.column(j)),
            Operation::ProductTransposed([a, b]) => format!("SUMPRODUCT({},{})", block(a)?.row(i), block(b)?.row(j)),
            Operation::Columns { of, range } => block(of)?.at(i, range.start + j),
            Operation::Turned { of, base } => {
                let (width, half) = (step.value.ncols(), step.value.ncols() / 2);
                let (pair, is_first) = (j % half.max(1), j < half);
                let angle = i as f64 * base.powf(-2.0 * pair as f64 / width as f64);
                let (sign, other) = if is_first { ('-', j + half) } else { ('+', pair) };
                let from = block(of)?;
                format!("{}*COS({angle}){sign}{}*SIN({angle})", from.at(i, j), from.at(i, other))
            }
            Operation::Scaled { of, factor } => match root_of(*factor) {
                Some(n) => format!("{}/SQRT({n})", block(of)?.at(i, j)),
                None => format!("{}*({factor})", block(of)?.at(i, j)),
            },
            Operation::Biased { of, bias } if bias[[i, j]].is_finite() => {
                format!("{}+({})", block(of)?.at(i, j), bias[[i, j]])
            }
            // What is not seen is no number in a spreadsheet, and MAX and SUM pass over it.
            Operation::Biased { .. } => return None,
            Operation::Masked { of, seen } if seen[[i, j]] => block(of)?.at(i, j),
            Operation::Masked { .. } => return None,
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
            Operation::Normalised { of, gamma, beta, epsilon } => {
                let from = block(of)?;
                let row = from.row(i);
                let core = format!("({}-AVERAGE({row}))/SQRT(VARP({row})+{epsilon})", from.at(i, j));
                let core = match gamma {
                    Some(id) => format!("{core}*{}", block(id)?.at(0, j)),
                    None => core,
                };
                match beta {
                    Some(id) => format!("{core}{}", bias(id)?),
                    None => core,
                }
            }
        })
    }
}

impl TraceStep {
    /// Whether all its numbers are whole, as given ones often are.
    fn is_whole(&self) -> bool {
        self.value.iter().all(|x| !x.is_finite() || x.fract() == 0.0)
    }
}

fn write_number(sheet: &mut Worksheet, (row, column): (u32, u16), x: f64, format: &Format) -> Result<(), XlsxError> {
    match x.is_finite() {
        true => sheet.write_with_format(row, column, x, format)?,
        false => sheet.write_with_format(row, column, super::grid::odd(x), format)?,
    };
    Ok(())
}

fn write_formula(
    sheet: &mut Worksheet,
    (row, column): (u32, u16),
    formula: &str,
    result: f64,
    format: &Format,
) -> Result<(), XlsxError> {
    // An f64 as text keeps all its digits.
    let result = if result.is_finite() { result.to_string() } else { super::grid::odd(result) };
    sheet.write_formula_with_format(row, column, Formula::new(format!("={formula}")).set_result(result), format)?;
    Ok(())
}
