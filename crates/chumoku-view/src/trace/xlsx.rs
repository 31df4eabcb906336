//! A trace as a spreadsheet whose formulas are live: change a number that is given, and everything follows.

use super::formula::root_of;
use super::grid::odd;
use super::operation::{Angles, Operation, StepId};
use super::program::StepKind;
use super::quantity::Quantity;
use super::shown::{Trace, TraceStep};
use super::text::TraceOptions;
use super::words;
use chumoku::lang::Lang;
use chumoku::lang::clean_text;
use chumoku::nn::Pooling;
use chumoku::{Error, Result};
use chumoku_kernels::Activation;
use rust_xlsxwriter::{Format, FormatAlign, Formula, Workbook, Worksheet, XlsxError};
use std::collections::HashMap;

/// The column of the first number; labels stand before it.
const FIRST: u16 = 1;
/// The row of the first step's title.
const TOP: u32 = 4;
/// Columns that a sheet can have.
const COLUMNS: usize = 16_384;
/// Rows that a sheet can have.
const ROWS: usize = 1_048_576;
/// Most numbers of a spreadsheet. Each takes about half a kilobyte while the file is made, and several times that in
/// the program that opens it.
const CELLS: usize = 8_000_000;
/// With more numbers than this the weights of the feed-forward network, most of them, are left out: the file would take
/// more than ten seconds to make.
const WITH_WEIGHTS: usize = 4_000_000;
/// Most terms of a sum that is written out: a formula has at most 8,192 characters.
const TERMS: usize = 100;

/// The sheet of the head that is shown, and that of the others.
fn sheet_names(lang: Lang) -> [&'static str; 2] {
    [lang.pick("Trace", "計算の手順"), lang.pick("Other heads", "ほかのヘッド")]
}

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
struct Block {
    sheet: usize,
    row: u32,
    rows: usize,
    columns: usize,
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

impl Trace {
    /// The trace as an .xlsx file: given numbers as numbers, all others as formulas of them with their results.
    ///
    /// The head that is shown stands on the first sheet, the others on a second. A spreadsheet knows neither NaN nor
    /// the infinities: they stand there as texts, and a formula that reads one says what came of it when the file was
    /// made, until there is a number in its place. Of a large layer the weights of the feed-forward network are left out;
    /// what they make stands there as numbers then, and the sheet says so.
    ///
    /// # Errors
    /// If there are more numbers than a sheet, or a program that opens it, can hold.
    pub fn to_xlsx(&self, options: &TraceOptions) -> Result<Vec<u8>> {
        let is_there = self.is_there();
        for steps in [&self.steps, &self.others] {
            let there = || steps.iter().filter(|step| is_there(step));
            let rows = TOP as usize + 4 * steps.len() + there().map(|step| step.value.nrows()).sum::<usize>();
            let widest = there().map(|step| step.value.ncols() + 2).max().unwrap_or(0);
            if rows >= ROWS || widest >= COLUMNS {
                return Err(Error::Setting(chumoku::tr!(
                    "a spreadsheet holds {ROWS} rows and {COLUMNS} columns, but {rows} and {widest} are needed; use --format json",
                    "スプレッドシートに入るのは {ROWS} 行 {COLUMNS} 列までですが、{rows} 行 {widest} 列が必要です。--format json を使ってください"
                )));
            }
        }
        let all = self.steps.iter().chain(&self.others);
        let cells: usize = all.filter(|step| is_there(step)).map(|step| step.value.len()).sum();
        if cells > CELLS {
            let heads =
                if self.others.is_empty() { String::new() } else { chumoku::tr!(" of all heads", "全ヘッドの") };
            return Err(Error::Setting(chumoku::tr!(
                "a spreadsheet of the {cells} numbers{heads} is larger than programs open (at most {CELLS}); give a shorter \
                 text, or use --format json",
                "{heads}数値 {cells} 個のスプレッドシートは大きすぎて開けません（上限 {CELLS} 個）。短い文を与えるか、--format \
                 json を使ってください"
            )));
        }
        self.workbook(options).map_err(|error| {
            Error::Setting(chumoku::tr!("writing the spreadsheet: {error}", "スプレッドシートの書き込み: {error}"))
        })
    }

    /// Which steps have their numbers in the spreadsheet.
    fn is_there(&self) -> impl Fn(&TraceStep) -> bool + use<> {
        let all: usize = self.steps.iter().chain(&self.others).map(|step| step.value.len()).sum();
        move |step| {
            let is_weight = matches!(step.quantity, Quantity::W1 | Quantity::WGate | Quantity::W2);
            all <= WITH_WEIGHTS || !is_weight
        }
    }

    fn workbook(&self, options: &TraceOptions) -> Result<Vec<u8>, XlsxError> {
        let lang = options.lang;
        let names = sheet_names(lang);
        let mut layout = Layout { steps: HashMap::new(), blocks: HashMap::new(), names, sheet: 0 };
        let is_there = self.is_there();
        let mut tops = HashMap::new();
        for (sheet, steps) in [&self.steps, &self.others].into_iter().enumerate() {
            let mut row = TOP;
            for step in steps {
                tops.insert(step.id, row);
                let (rows, columns) = step.value.dim();
                if is_there(step) {
                    layout.steps.insert(step.id, step);
                    layout.blocks.insert(step.id, Block { sheet, row: row + 3, rows, columns });
                    row += rows as u32;
                }
                row += 4;
            }
        }
        let quiet = Format::new().set_font_color("#666666");
        let strong = Format::new().set_bold();
        let mut workbook = Workbook::new();
        for (index, steps) in [&self.steps, &self.others].into_iter().enumerate() {
            if index > 0 && steps.is_empty() {
                continue;
            }
            layout.sheet = index;
            let sheet = workbook.add_worksheet();
            sheet.set_name(names[index])?;
            sheet.set_column_width(0, 24)?;
            sheet.write_with_format(0, 0, clean_text(&self.heading(lang)), &strong)?;
            sheet.write_with_format(1, 0, clean_text(&self.source), &quiet)?;
            sheet.write_with_format(2, 0, self.note(lang, index), &quiet)?;
            for (i, step) in steps.iter().enumerate() {
                // Of what no other form shows there are no numbers to go by.
                let number = if index == 0 { format!("{}. ", i + 1) } else { String::new() };
                let (title, top) = (format!("{number}{}", step.title(lang)), tops[&step.id]);
                sheet.write_with_format(top, 0, title, &strong)?;
                sheet.write_with_format(top + 1, 0, format!("{}: {}", step.symbol, step.shape()), &quiet)?;
                match is_there(step) {
                    true => self.block(sheet, &layout, step, options)?,
                    false => {
                        let said = lang.pick("given, and left out here", "与えられた値（ここでは省略）");
                        sheet.write_with_format(top + 1, FIRST, said, &quiet)?;
                    }
                }
            }
        }
        workbook.save_to_buffer()
    }

    /// What is said at the top of a sheet.
    fn note(&self, lang: Lang, sheet: usize) -> String {
        let cut = self.cut.map_or(String::new(), |cut| cut.to_text(lang) + " ");
        let given = lang.pick(
            "Yellow cells are given: change one, and all that follows from it changes.",
            "黄色のセルは与えられた値。書き換えると、そこから先の値がすべて変わる。",
        );
        let [shown, others] = sheet_names(lang);
        let other = match (sheet, self.others.is_empty()) {
            (_, true) => String::new(),
            (0, _) => match lang {
                Lang::En => format!(" The other heads are on the sheet “{others}”."),
                Lang::Ja => format!("ほかのヘッドの手順はシート「{others}」にある。"),
            },
            _ => match lang {
                Lang::En => format!(" These are the steps of the other heads; the rest is on the sheet “{shown}”."),
                Lang::Ja => format!("ここにはほかのヘッドの手順を示す。残りはシート「{shown}」にある。"),
            },
        };
        let is_whole = self.steps.iter().all(self.is_there());
        let left_out = lang.pick(
            " The weights of the feed-forward network are left out, because there are too many: what they make stands \
             here as numbers, which do not change.",
            "フィードフォワードネットワークの重みは多すぎるので省略し、それとの積は変化しない数値として示す。",
        );
        cut + given + &other + if is_whole { "" } else { left_out }
    }

    /// A step: its formula, its labels and its numbers.
    fn block(
        &self,
        sheet: &mut Worksheet,
        layout: &Layout<'_>,
        step: &TraceStep,
        options: &TraceOptions,
    ) -> Result<(), XlsxError> {
        let lang = options.lang;
        let quiet = Format::new().set_font_color("#666666");
        let heading = Format::new().set_align(FormatAlign::Right).set_font_color("#666666");
        let decimals = format!("0.{}", "0".repeat(options.digits.max(1)));
        let given = Format::new().set_background_color("#FFF4CC").set_num_format("General");
        let (whole, computed) = (Format::new(), Format::new().set_num_format(&decimals));
        let (rows, columns) = step.value.dim();
        let first = layout.blocks[&step.id].row;
        let formula = step.formula.as_ref().map_or(words::given(lang), |formula| &formula.text);
        sheet.write_with_format(first - 2, FIRST, formula, &quiet)?;
        for j in 0..columns {
            let label = super::grid::label(self, step.axes()[1], j);
            sheet.write_with_format(first - 1, FIRST + j as u16, label, &heading)?;
        }
        let is_whole = step.is_whole();
        for i in 0..rows {
            let label = super::grid::label(self, step.axes()[0], i);
            sheet.write_with_format(first + i as u32, 0, label, &quiet)?;
            for j in 0..columns {
                let at = (first + i as u32, FIRST + j as u16);
                let format = match (&step.operation, step.value[[i, j]].fract() == 0.0) {
                    (Operation::Given, _) => &given,
                    (_, true) if is_whole => &whole,
                    _ => &computed,
                };
                match layout.cell(step, i, j) {
                    Some(formula) => write_formula(sheet, at, &formula, step.value[[i, j]], format)?,
                    None => write_number(sheet, at, step.value[[i, j]], format)?,
                }
            }
            if step.is_weights() {
                let sum = step.value.row(i).sum();
                let (formula, at) = (layout.row_sum(step, i, sum), (first + i as u32, FIRST + columns as u16));
                write_formula(sheet, at, &formula, sum, &quiet)?;
            }
        }
        if step.is_weights() {
            sheet.write_with_format(first - 1, FIRST + columns as u16, lang.pick("sum", "和"), &heading)?;
        }
        Ok(())
    }
}

/// Where everything stands, seen from one of the sheets.
struct Layout<'a> {
    steps: HashMap<StepId, &'a TraceStep>,
    blocks: HashMap<StepId, Block>,
    names: [&'static str; 2],
    /// The sheet whose formulas are made.
    sheet: usize,
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
    fn cell(&self, step: &TraceStep, i: usize, j: usize) -> Option<String> {
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
    fn row_sum(&self, step: &TraceStep, i: usize, sum: f64) -> String {
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
            Operation::Turned { of, angles } => {
                let (width, half) = (step.value.ncols(), step.value.ncols() / 2);
                let (pair, is_first) = (j % half.max(1), j < half);
                let angle = match angles {
                    Angles::Base(base) => literal(i as f64 * base.powf(-2.0 * pair as f64 / width as f64)),
                    Angles::Given(speeds) => format!("{i}*{}", block(speeds)?.at(0, pair)),
                };
                let (sign, other) = if is_first { ('-', j + half) } else { ('+', pair) };
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
                    let is_it = |step: &&&TraceStep| step.kind == StepKind::Value && step.quantity == before.of();
                    block(&self.steps.values().find(is_it)?.id)?.at(row, j)
                }
            },
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
        })
    }
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
        | Operation::Before(_) => Vec::new(),
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
        Operation::Turned { of, angles: Angles::Given(speeds) } => {
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
    }
}

/// How many rows a step has.
fn step_rows(layout: &Layout<'_>, id: StepId) -> usize {
    layout.blocks.get(&id).map_or(0, |block| block.rows)
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
        false => sheet.write_with_format(row, column, odd(x), format)?,
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
    let result = if result.is_finite() { result.to_string() } else { odd(result) };
    sheet.write_formula_with_format(row, column, Formula::new(format!("={formula}")).set_result(result), format)?;
    Ok(())
}
