//! Traces as spreadsheets with formulas: a changed input changes everything that follows from it.

use crate::output::grid::{format_non_finite, needs_exponent};
use crate::output::spreadsheet_formulas::{CellBlock, FIRST_COLUMN, SheetLayout};
use crate::output::text::TraceOptions;
use crate::program::operation::Operation;
use crate::program::quantity::Quantity;
use crate::program::step_kind::StepKind;
use crate::traces::trace_steps::{Trace, TraceStep};
use chumoku::lang::Lang;
use chumoku::lang::show_controls_in_text;
use chumoku::{Error, Result};
use rust_xlsxwriter::{Format, FormatAlign, Formula, Workbook, Worksheet, XlsxError};
use std::collections::HashMap;

/// Row of the first step's title.
const FIRST_STEP_ROW: u32 = 4;
/// Maximum number of columns of a sheet.
const MAX_COLUMNS: usize = 16_384;
/// Maximum number of rows of a sheet.
const MAX_ROWS: usize = 1_048_576;
/// Maximum count of numbers of a spreadsheet. Each takes about half a kilobyte while the file is written, and several
/// times that in the program that opens it.
const MAX_CELLS: usize = 8_000_000;
/// With more numbers, the weights of the feed-forward network, which are most of them, are left out: writing the file
/// would take more than ten seconds.
const MAX_CELLS_WITH_WEIGHTS: usize = 4_000_000;

/// Returns the names of the sheet of the displayed head, and of the sheet of the other heads or hidden steps.
fn sheet_names(lang: Lang, others: &[TraceStep]) -> [&'static str; 2] {
    let rest = match others.iter().any(|step| step.kind == StepKind::AfterStep) {
        true => lang.pick("Other steps", "ほかのステップ"),
        false => lang.pick("Other heads", "ほかのヘッド"),
    };
    [lang.pick("Trace", "計算のステップ"), rest]
}

impl Trace {
    /// Returns the trace as an .xlsx file: inputs as numbers, all others as formulas with their results.
    ///
    /// The displayed head is on the first sheet, the others on a second. Spreadsheets have no NaN and no infinities, so
    /// these are texts. A formula that reads one shows the result from the time of writing until the text is replaced
    /// by a number. For large layers the weights of the feed-forward network are left out; their products are then
    /// constant numbers, and the sheet says so.
    ///
    /// # Errors
    /// If there are more numbers than a sheet, or a spreadsheet program, can hold.
    pub fn to_xlsx(&self, options: &TraceOptions) -> Result<Vec<u8>> {
        let is_there = self.included_steps();
        for steps in [&self.steps, &self.hidden_steps] {
            let there = || steps.iter().filter(|step| is_there(step));
            let rows =
                FIRST_STEP_ROW as usize + 4 * steps.len() + there().map(|step| step.value.nrows()).sum::<usize>();
            let widest = there().map(|step| step.value.ncols() + 2).max().unwrap_or(0);
            if rows >= MAX_ROWS || widest >= MAX_COLUMNS {
                return Err(Error::Setting(chumoku::tr!(
                    "a spreadsheet holds {MAX_ROWS} rows and {MAX_COLUMNS} columns, but {rows} and {widest} are needed; use --format json",
                    "スプレッドシートに入るのは {MAX_ROWS} 行 {MAX_COLUMNS} 列までですが、{rows} 行 {widest} 列が必要です。--format json を使ってください"
                )));
            }
        }
        let all = self.steps.iter().chain(&self.hidden_steps);
        let cells: usize = all.filter(|step| is_there(step)).map(|step| step.value.len()).sum();
        if cells > MAX_CELLS {
            let heads = if self.hidden_steps.is_empty() {
                String::new()
            } else {
                chumoku::tr!(" of all heads", "全ヘッドの")
            };
            return Err(Error::Setting(chumoku::tr!(
                "a spreadsheet of the {cells} numbers{heads} is larger than programs open (at most {MAX_CELLS}); give a shorter \
                 text, or use --format json",
                "{heads}数値 {cells} 個のスプレッドシートは大きすぎて開けません（上限 {MAX_CELLS} 個）。短い文を与えるか、--format \
                 json を使ってください"
            )));
        }
        self.workbook(options).map_err(|error| {
            Error::Setting(chumoku::tr!("writing the spreadsheet: {error}", "スプレッドシートの書き込み: {error}"))
        })
    }

    /// Returns which steps the spreadsheet includes.
    fn included_steps(&self) -> impl Fn(&TraceStep) -> bool + use<> {
        let all: usize = self.steps.iter().chain(&self.hidden_steps).map(|step| step.value.len()).sum();
        move |step| {
            let is_weight = matches!(step.quantity, Quantity::W1 | Quantity::WGate | Quantity::W2);
            all <= MAX_CELLS_WITH_WEIGHTS || !is_weight
        }
    }

    fn workbook(&self, options: &TraceOptions) -> Result<Vec<u8>, XlsxError> {
        let lang = options.lang;
        let names = sheet_names(lang, &self.hidden_steps);
        let mut layout = SheetLayout { steps: HashMap::new(), blocks: HashMap::new(), names, sheet: 0 };
        let is_there = self.included_steps();
        let mut tops = HashMap::new();
        for (sheet, steps) in [&self.steps, &self.hidden_steps].into_iter().enumerate() {
            let mut row = FIRST_STEP_ROW;
            for step in steps {
                tops.insert(step.id, row);
                let (rows, columns) = step.value.dim();
                if is_there(step) {
                    layout.steps.insert(step.id, step);
                    layout.blocks.insert(step.id, CellBlock { sheet, row: row + 3, rows, columns });
                    row += rows as u32;
                }
                row += 4;
            }
        }
        let quiet = Format::new().set_font_color("#666666");
        let strong = Format::new().set_bold();
        let mut workbook = Workbook::new();
        for (index, steps) in [&self.steps, &self.hidden_steps].into_iter().enumerate() {
            if index > 0 && steps.is_empty() {
                continue;
            }
            layout.sheet = index;
            let sheet = workbook.add_worksheet();
            sheet.set_name(names[index])?;
            sheet.set_column_width(0, 24)?;
            sheet.write_with_format(0, 0, show_controls_in_text(self.heading(lang)), &strong)?;
            sheet.write_with_format(1, 0, show_controls_in_text(self.source.in_lang(lang)), &quiet)?;
            sheet.write_with_format(2, 0, self.sheet_note(lang, index), &quiet)?;
            for (i, step) in steps.iter().enumerate() {
                // Steps that other forms hide have no number.
                let number = if index == 0 { format!("{}. ", i + 1) } else { String::new() };
                let (title, top) = (format!("{number}{}", step.title(lang)), tops[&step.id]);
                sheet.write_with_format(top, 0, title, &strong)?;
                sheet.write_with_format(top + 1, 0, format!("{}: {}", step.symbol, step.shape()), &quiet)?;
                match is_there(step) {
                    true => self.write_block(sheet, &layout, step, options)?,
                    false => {
                        let said = match step.kind {
                            StepKind::Value => lang.pick("given, and left out here", "入力（ここでは省略）"),
                            _ => lang.pick("left out here", "ここでは省略"),
                        };
                        sheet.write_with_format(top + 1, FIRST_COLUMN, said, &quiet)?;
                    }
                }
            }
        }
        workbook.save_to_buffer()
    }

    /// Returns the note at the top of a sheet.
    fn sheet_note(&self, lang: Lang, sheet: usize) -> String {
        let cut = self.truncation.map_or(String::new(), |cut| cut.describe(lang) + " ");
        let given = lang.pick(
            "Yellow cells are inputs: change one, and everything that follows from it changes.",
            "黄色のセルは入力。書き換えると、そこから先の値がすべて変わる。",
        );
        let is_of_heads = self.hidden_steps.iter().all(|step| step.kind != StepKind::AfterStep);
        let [shown, others] = sheet_names(lang, &self.hidden_steps);
        let other = match (sheet, self.hidden_steps.is_empty()) {
            (_, true) => String::new(),
            (0, _) if !is_of_heads => match lang {
                Lang::En => format!(" The rest of the steps is on the sheet “{others}”."),
                Lang::Ja => format!("残りのステップはシート「{others}」にある。"),
            },
            _ if !is_of_heads => match lang {
                Lang::En => format!(" The steps before these are on the sheet “{shown}”."),
                Lang::Ja => format!("ここより前のステップはシート「{shown}」にある。"),
            },
            (0, _) => match lang {
                Lang::En => format!(" The other heads are on the sheet “{others}”."),
                Lang::Ja => format!("ほかのヘッドのステップはシート「{others}」にある。"),
            },
            _ => match lang {
                Lang::En => format!(" These are the steps of the other heads; the rest is on the sheet “{shown}”."),
                Lang::Ja => format!("ここにはほかのヘッドのステップを示す。残りはシート「{shown}」にある。"),
            },
        };
        let is_whole = self.steps.iter().all(self.included_steps());
        let left_out = lang.pick(
            " The weights of the feed-forward network are left out, because there are too many: their products are \
             constant numbers here.",
            "フィードフォワードネットワークの重みは多すぎるので省略し、それとの積は変化しない数値として示す。",
        );
        let loss = self.loss.as_ref().map_or(String::new(), |loss| loss.to_text(lang) + lang.pick(" ", ""));
        cut + &loss + given + &other + if is_whole { "" } else { left_out }
    }

    /// Writes a step: its formula, its labels and its numbers.
    fn write_block(
        &self,
        sheet: &mut Worksheet,
        layout: &SheetLayout<'_>,
        step: &TraceStep,
        options: &TraceOptions,
    ) -> Result<(), XlsxError> {
        let lang = options.lang;
        let quiet = Format::new().set_font_color("#666666");
        let heading = Format::new().set_align(FormatAlign::Right).set_font_color("#666666");
        let power = if needs_exponent(&step.value, options.digits) { "E+00" } else { "" };
        let decimals = format!("0.{}{power}", "0".repeat(options.digits.max(1)));
        let given = Format::new().set_background_color("#FFF4CC").set_num_format("General");
        let (whole, computed) = (Format::new(), Format::new().set_num_format(&decimals));
        let (rows, columns) = step.value.dim();
        let first = layout.blocks[&step.id].row;
        let formula = step.formula.as_ref().map_or(step.given_text(lang), |formula| &formula.text);
        sheet.write_with_format(first - 2, FIRST_COLUMN, formula, &quiet)?;
        for j in 0..columns {
            let label = crate::output::grid::label(self, step.axes()[1], j);
            sheet.write_with_format(first - 1, FIRST_COLUMN + j as u16, label, &heading)?;
        }
        let is_whole = step.is_whole();
        for i in 0..rows {
            let label = crate::output::grid::label(self, step.axes()[0], i);
            sheet.write_with_format(first + i as u32, 0, label, &quiet)?;
            for j in 0..columns {
                let at = (first + i as u32, FIRST_COLUMN + j as u16);
                let format = match (&step.operation, step.value[[i, j]].fract() == 0.0) {
                    (Operation::Given, _) => &given,
                    (_, true) if is_whole => &whole,
                    _ => &computed,
                };
                match layout.guarded_formula(step, i, j) {
                    Some(formula) => write_formula(sheet, at, &formula, step.value[[i, j]], format)?,
                    None => write_number(sheet, at, step.value[[i, j]], format)?,
                }
            }
            if step.is_weights() {
                let sum = step.value.row(i).sum();
                let (formula, at) =
                    (layout.row_sum_formula(step, i, sum), (first + i as u32, FIRST_COLUMN + columns as u16));
                write_formula(sheet, at, &formula, sum, &quiet)?;
            }
        }
        if step.is_weights() {
            sheet.write_with_format(first - 1, FIRST_COLUMN + columns as u16, lang.pick("sum", "和"), &heading)?;
        }
        Ok(())
    }
}

impl TraceStep {
    /// Returns whether all numbers are whole, as inputs often are.
    fn is_whole(&self) -> bool {
        self.value.iter().all(|x| !x.is_finite() || x.fract() == 0.0)
    }
}

fn write_number(sheet: &mut Worksheet, (row, column): (u32, u16), x: f64, format: &Format) -> Result<(), XlsxError> {
    match x.is_finite() {
        true => sheet.write_with_format(row, column, x, format)?,
        false => sheet.write_with_format(row, column, format_non_finite(x), format)?,
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
    let result = if result.is_finite() { result.to_string() } else { format_non_finite(result) };
    sheet.write_formula_with_format(row, column, Formula::new(format!("={formula}")).set_result(result), format)?;
    Ok(())
}
