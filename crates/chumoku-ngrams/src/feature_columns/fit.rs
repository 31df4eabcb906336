//! What a column beside the text holds: found from the training rows, or as it was said.

use super::{FeatureColumn, FeatureColumnKind, MAX_VALUES, date, is_missing};
use chumoku_text::data::parse_separated_number;
use chumoku_text::feature_columns::FeatureRequest;
use chumoku_text::lang::lang;
use chumoku_text::lang::wording::quote;
use chumoku_text::{sorting, tr};
use std::collections::BTreeMap;

/// The share of values that may be none of the column's kind: they count as missing.
const MAX_MISFIT_SHARE: f64 = 0.1;
/// Steps of a number at most, and training rows that a step has at least.
const MAX_STEPS: usize = 10;
const MIN_STEP_ROWS: usize = 5;

/// A feature column as it is read, and notes on it.
#[derive(Debug, Default)]
pub struct ColumnFit {
    /// None if it is of no use.
    pub column: Option<FeatureColumn>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// A column that cannot be read as what it looks like, or is said to be.
#[derive(Debug)]
pub struct UnclearColumn {
    /// The first value that does not fit.
    pub cell: String,
    /// What is wrong, and what to do.
    pub problem: String,
}

/// Learns a column from its fields in the training rows.
pub fn fit_column(asked: &FeatureRequest, cells: &[&str]) -> Result<ColumnFit, UnclearColumn> {
    let filled: Vec<&str> = cells.iter().copied().filter(|cell| !is_missing(cell)).collect();
    let wanted = asked.kind.as_deref();
    if wanted != Some("category") {
        if filled.is_empty() {
            return Ok(unused_column(
                asked,
                lang().pick("it has no value in the training rows", "学習データに値がありません"),
            ));
        }
        let dates = DateFormat::detect(&filled);
        let form = DecimalFormat::detect(&filled);
        let numbers = filled.iter().filter(|cell| form.parse(cell).is_some()).count();
        let nearly_all = |found: usize| found as f64 >= (1.0 - MAX_MISFIT_SHARE) * filled.len() as f64;
        if wanted == Some("number") || wanted.is_none() && nearly_all(numbers) {
            let is_number = |cell: &str| form.parse(cell).is_some();
            let noun = lang().pick("a number", "数値");
            let mut notes = note_misfits(asked, noun, &filled, is_number)?;
            return Ok(fit_numbers(asked, &filled, form).map(|column| column_fit(column, &mut notes)).unwrap_or_else(
                || unused_column(asked, lang().pick("all its numbers are the same", "どの行も同じ数値です")),
            ));
        }
        if wanted == Some("date") || wanted.is_none() && nearly_all(dates.count) {
            let is_date = |cell: &str| date::parse(cell, dates.day_first).is_some();
            let noun = lang().pick("a date", "日付");
            let mut notes = note_misfits(asked, noun, &filled, is_date)?;
            if dates.is_ambiguous {
                let name = quote(&asked.name);
                notes.push(tr!(
                    "column {name}: dates such as {} are read as month/day/year; write 2024-01-31 to be sure",
                    "列{name}: {} のような日付は「月/日/年」と読みます。2024-01-31 の形で書くと確実です",
                    quote(dates.example)
                ));
            }
            return Ok(fit_dates(asked, &filled, dates.day_first)
                .map(|column| column_fit(column, &mut notes))
                .unwrap_or_else(|| {
                    unused_column(asked, lang().pick("all its dates are the same", "どの行も同じ日付です"))
                }));
        }
        if wanted.is_none() {
            check_numbers(asked, &filled, (numbers, form))?;
            if 2 * dates.count >= filled.len() {
                let is_date = |cell: &str| date::parse(cell, dates.day_first).is_some();
                note_misfits(asked, lang().pick("a date", "日付"), &filled, is_date)?;
            }
        }
    }
    Ok(fit_categories(asked, cells))
}

fn column_fit(column: FeatureColumn, notes: &mut Vec<String>) -> ColumnFit {
    ColumnFit { column: Some(column), notes: std::mem::take(notes) }
}

/// A column that nothing can be learnt from, and why.
fn unused_column(asked: &FeatureRequest, why: &str) -> ColumnFit {
    let name = quote(&asked.name);
    let note = tr!("column {name} is of no use and is left out: {why}", "列{name}は役に立たないため使いません: {why}");
    ColumnFit { column: None, notes: vec![note] }
}

/// Says which values are none of the kind, if they are few.
///
/// # Errors
/// If they are many.
fn note_misfits(
    asked: &FeatureRequest,
    noun: &str,
    filled: &[&str],
    fits: impl Fn(&str) -> bool,
) -> Result<Vec<String>, UnclearColumn> {
    let wrong: Vec<&str> = filled.iter().copied().filter(|cell| !fits(cell)).collect();
    let Some(&first) = wrong.first() else { return Ok(Vec::new()) };
    let (name, n, all, cell) = (quote(&asked.name), wrong.len(), filled.len(), quote(first.trim()));
    if n as f64 > MAX_MISFIT_SHARE * all as f64 {
        return Err(UnclearColumn {
            cell: first.to_owned(),
            problem: tr!(
                "column {name}: expected {noun} in each row, found {cell} ({n} of {all} values are none); leave such fields \
                 empty, or take the column as names with --columns {}:category",
                "列{name}: 各行に{noun}が必要ですが、{cell} があります（{all} 個中 {n} 個）。空欄にするか、\
                 --columns {}:category で文字列として扱ってください",
                asked.name
            ),
        });
    }
    Ok(vec![tr!(
        "column {name}: {n} of {all} training values are not {noun} (such as {cell}) and count as missing",
        "列{name}: 学習データの {all} 個の値のうち {n} 個は{noun}ではなく（{cell} など）、欠損として扱います"
    )])
}

/// Refuses a column of which many values are numbers, or would be without signs, points or units.
fn check_numbers(
    asked: &FeatureRequest,
    filled: &[&str],
    (numbers, form): (usize, DecimalFormat),
) -> Result<(), UnclearColumn> {
    let nearly = |cell: &&&str| form.parse(cell).is_none() && looks_like_number(cell);
    let almost = filled.iter().filter(nearly).count();
    let (name, all) = (quote(&asked.name), filled.len());
    if (almost + numbers) as f64 >= (1.0 - MAX_MISFIT_SHARE) * all as f64
        && let Some(first) = filled.iter().find(nearly)
    {
        return Err(UnclearColumn {
            cell: (*first).to_owned(),
            problem: tr!(
                "column {name}: expected plain numbers, found {}; write them with digits and a decimal point alone (1200, \
                 12.5), or take the column as names with --columns {}:category",
                "列{name}: 数字と小数点だけの数値が必要ですが、{} があります。1200 や 12.5 のように書くか、\
                 --columns {}:category で文字列として扱ってください",
                quote(first.trim()),
                asked.name
            ),
        });
    }
    if 2 * numbers >= all
        && let Some(first) = filled.iter().find(|cell| form.parse(cell).is_none())
    {
        let (n, cell) = (all - numbers, quote(first.trim()));
        return Err(UnclearColumn {
            cell: (*first).to_owned(),
            problem: tr!(
                "column {name}: {numbers} of {all} values are numbers, and {n} are not, such as {cell}; leave such fields empty \
                 if they mean that there is none, or take the column as names with --columns {}:category",
                "列{name}: {all} 個の値のうち {numbers} 個は数値ですが、{cell} など {n} 個は数値ではありません。値がないという意味なら\
                 空欄にするか、--columns {}:category で文字列として扱ってください",
                asked.name
            ),
        });
    }
    Ok(())
}

/// Whether a field is a number but for a currency, a unit, or commas.
fn looks_like_number(cell: &str) -> bool {
    let cell = cell.trim();
    let is_digit = |c: char| c.is_ascii_digit() || ('０'..='９').contains(&c);
    let digits = cell.chars().filter(|&c| is_digit(c)).count();
    let signs = "¥￥$€£%％,，. 　'+-−円元";
    let units = cell.chars().filter(|c| c.is_alphabetic() && *c != '円' && *c != '元').count();
    let has_sign = cell.chars().any(|c| "¥￥$€£%％,，円元".contains(c));
    digits > 0 && has_sign && units <= 3 && cell.chars().all(|c| is_digit(c) || signs.contains(c) || c.is_alphabetic())
}

/// Mean and standard deviation; none of values that are all the same.
fn mean_and_deviation(values: &[f64]) -> Option<(f64, f64)> {
    // The mean of tenths is not always a tenth.
    if values.iter().all(|x| *x == values[0]) {
        return None;
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let deviation = (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
    (mean.is_finite() && deviation.is_finite() && deviation > 0.0).then_some((mean, deviation))
}

fn fit_numbers(asked: &FeatureRequest, filled: &[&str], form: DecimalFormat) -> Option<FeatureColumn> {
    let mut values: Vec<f64> = filled.iter().filter_map(|cell| form.parse(cell)).collect();
    let (mean, deviation) = mean_and_deviation(&values)?;
    values.sort_by(f64::total_cmp);
    let mut different = values.clone();
    different.dedup();
    let most = (values.len() / MIN_STEP_ROWS).min(MAX_STEPS);
    let mut steps: Vec<f64> = match different.len() <= most {
        true => different[1..].to_vec(),
        false => (1..most).map(|step| values[values.len() * step / most]).collect(),
    };
    steps.dedup();
    // Below the least value there is no step.
    steps.retain(|&step| step > values[0]);
    Some(FeatureColumn { name: asked.name.clone(), kind: FeatureColumnKind::Number { mean, deviation, steps } })
}

/// How the numbers of a column are written: a comma is one thing in all of them.
#[derive(Clone, Copy)]
struct DecimalFormat {
    /// The decimal sign, if some number has one.
    decimal: Option<char>,
}

impl DecimalFormat {
    fn detect(filled: &[&str]) -> DecimalFormat {
        DecimalFormat { decimal: filled.iter().find_map(|cell| parse_separated_number(cell)?.1) }
    }

    /// The number of a field, if it is written like the others.
    fn parse(self, cell: &str) -> Option<f64> {
        let (value, decimal) = parse_separated_number(cell)?;
        (decimal.is_none() || self.decimal.is_none() || decimal == self.decimal).then_some(value)
    }
}

/// The dates among values.
struct DateFormat<'a> {
    count: usize,
    day_first: bool,
    /// Whether some could be read in two ways, and none says in which.
    is_ambiguous: bool,
    example: &'a str,
}

impl<'a> DateFormat<'a> {
    fn detect(filled: &[&'a str]) -> DateFormat<'a> {
        let count = |day_first: bool| filled.iter().filter(|cell| date::parse(cell, day_first).is_some()).count();
        let [month_first, day_first] = [false, true].map(count);
        let open = |cell: &&&str| {
            let found = date::parse(cell, false).and_then(|found| found.ambiguous);
            found.is_some_and(|[a, b]| a <= 12 && b <= 12 && a != b)
        };
        let example = filled.iter().find(open).copied();
        let is_open = month_first == day_first && example.is_some();
        let (found, example) = (month_first.max(day_first), example.unwrap_or_default());
        DateFormat { count: found, day_first: day_first > month_first, is_ambiguous: is_open, example }
    }
}

fn fit_dates(asked: &FeatureRequest, filled: &[&str], day_first: bool) -> Option<FeatureColumn> {
    let found: Vec<date::DateHour> =
        filled.iter().filter_map(|cell| Some(date::parse(cell, day_first)?.date_hour)).collect();
    let (mean, deviation) = mean_and_deviation(&found.iter().map(date::DateHour::years).collect::<Vec<_>>())?;
    let hours = found.iter().filter_map(|moment| moment.hour).any(|hour| hour != 0);
    Some(FeatureColumn {
        name: asked.name.clone(),
        kind: FeatureColumnKind::Date { mean, deviation, day_first, hours },
    })
}

fn fit_categories(asked: &FeatureRequest, cells: &[&str]) -> ColumnFit {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let filled = cells.iter().map(|cell| cell.trim()).filter(|cell| !cell.is_empty());
    filled.clone().for_each(|cell| *counts.entry(cell).or_default() += 1);
    let (rows, different) = (filled.count(), counts.len());
    let mut values: Vec<(&str, usize)> = counts.into_iter().filter(|(_, count)| *count > 1).collect();
    let once = different - values.len();
    if values.is_empty() {
        let why = match rows {
            0 => lang().pick("it has no value in the training rows", "学習データに値がありません"),
            _ => lang().pick(
                "each of its values occurs once, as of an identifier or a text",
                "どの値も 1 回しか現れません（ID や文章のような列です）",
            ),
        };
        return unused_column(asked, why);
    }
    if different == 1 && rows == cells.len() {
        let value = quote(values[0].0);
        return unused_column(asked, &tr!("all its values are {value}", "どの行も{value}です"));
    }
    sorting::sort_by(&mut values, |a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    values.truncate(MAX_VALUES);
    let mut values: Vec<String> = values.into_iter().map(|(value, _)| value.to_owned()).collect();
    values.sort_unstable();
    let name = quote(&asked.name);
    let mut notes = Vec::new();
    if once > values.len() {
        notes.push(tr!(
            "column {name}: {once} of {different} values occur once in the training rows and count as “other”",
            "列{name}: {different} 種の値のうち {once} 種は学習データに 1 回しか現れず、「その他」として扱います"
        ));
    }
    ColumnFit {
        column: Some(FeatureColumn { name: asked.name.clone(), kind: FeatureColumnKind::Category { values } }),
        notes,
    }
}
