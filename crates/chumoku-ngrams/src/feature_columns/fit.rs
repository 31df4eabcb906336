//! Fitting of feature columns: detects the kind of a column from the training rows, or uses the requested kind.

use super::{FeatureColumn, FeatureColumnKind, MAX_VALUES, date, is_missing};
use chumoku_text::data::{PointGroups, parse_number_with_groups, parse_separated_number};
use chumoku_text::lang::lang;
use chumoku_text::lang::wording::quote;
use chumoku_text::row::FeatureRequest;
use chumoku_text::{sorting, tr};
use std::collections::BTreeMap;

/// The maximum share of values that do not match the column's kind. They count as missing.
const MAX_MISFIT_SHARE: f64 = 0.1;
/// Maximum number of steps of a numeric column, and minimum number of training rows per step.
const MAX_STEPS: usize = 10;
const MIN_STEP_ROWS: usize = 5;

/// A fitted feature column with notes for the user.
#[derive(Debug, Default)]
pub struct ColumnFit {
    /// The column, or `None` if it carries no information.
    pub column: Option<FeatureColumn>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// A column whose values do not match its apparent or requested kind.
#[derive(Debug)]
pub struct UnclearColumn {
    /// The first value that does not match.
    pub cell: String,
    /// The problem and its remedy.
    pub problem: String,
}

/// Fits a column to its values in the training rows.
pub fn fit_column(request: &FeatureRequest, cells: &[&str]) -> Result<ColumnFit, UnclearColumn> {
    let filled: Vec<&str> = cells.iter().copied().filter(|cell| !is_missing(cell)).collect();
    let requested = request.kind.as_deref();
    if requested != Some("category") {
        if filled.is_empty() {
            return Ok(unused_column(
                request,
                lang().pick("it has no value in the training rows", "学習データに値がありません"),
            ));
        }
        let dates = DateFormat::detect(&filled);
        let form = DecimalFormat::detect(&filled);
        let numbers = filled.iter().filter(|cell| form.parse(cell).is_some()).count();
        let nearly_all = |found: usize| found as f64 >= (1.0 - MAX_MISFIT_SHARE) * filled.len() as f64;
        if requested == Some("number") || requested.is_none() && nearly_all(numbers) {
            let is_number = |cell: &str| form.parse(cell).is_some();
            let noun = lang().pick("a number", "数値");
            let mut notes = note_misfits(request, noun, &filled, is_number)?;
            return Ok(fit_numbers(request, &filled, form)
                .map(|column| column_fit(column, &mut notes))
                .unwrap_or_else(|| {
                    unused_column(request, lang().pick("all its numbers are the same", "どの行も同じ数値です"))
                }));
        }
        if requested == Some("date") || requested.is_none() && nearly_all(dates.count) {
            let is_date = |cell: &str| date::parse(cell, dates.day_first).is_some();
            let noun = lang().pick("a date", "日付");
            let mut notes = note_misfits(request, noun, &filled, is_date)?;
            if dates.is_ambiguous {
                let name = quote(&request.name);
                notes.push(tr!(
                    "column {name}: dates such as {} are read as month/day/year; write 2024-01-31 to be sure",
                    "列{name}: {} のような日付は「月/日/年」と読みます。2024-01-31 の形で書くと確実です",
                    quote(dates.example)
                ));
            }
            return Ok(fit_dates(request, &filled, dates.day_first)
                .map(|column| column_fit(column, &mut notes))
                .unwrap_or_else(|| {
                    unused_column(request, lang().pick("all its dates are the same", "どの行も同じ日付です"))
                }));
        }
        if requested.is_none() {
            check_numbers(request, &filled, (numbers, form))?;
            if 2 * dates.count >= filled.len() {
                let is_date = |cell: &str| date::parse(cell, dates.day_first).is_some();
                note_misfits(request, lang().pick("a date", "日付"), &filled, is_date)?;
            }
        }
    }
    Ok(fit_categories(request, cells))
}

fn column_fit(column: FeatureColumn, notes: &mut Vec<String>) -> ColumnFit {
    ColumnFit { column: Some(column), notes: std::mem::take(notes) }
}

/// Reports a column that carries no information, with the reason.
fn unused_column(request: &FeatureRequest, why: &str) -> ColumnFit {
    let name = quote(&request.name);
    let note = tr!(
        "column {name} is left out because it carries no information: {why}",
        "列{name}には有用な情報がないため使いません: {why}"
    );
    ColumnFit { column: None, notes: vec![note] }
}

/// Returns a note on values that do not match the kind, if they are few.
///
/// # Errors
/// If there are too many of them.
fn note_misfits(
    request: &FeatureRequest,
    noun: &str,
    filled: &[&str],
    fits: impl Fn(&str) -> bool,
) -> Result<Vec<String>, UnclearColumn> {
    let wrong: Vec<&str> = filled.iter().copied().filter(|cell| !fits(cell)).collect();
    let Some(&first) = wrong.first() else { return Ok(Vec::new()) };
    let (name, n, all, cell) = (quote(&request.name), wrong.len(), filled.len(), quote(first.trim()));
    if n as f64 > MAX_MISFIT_SHARE * all as f64 {
        return Err(UnclearColumn {
            cell: first.to_owned(),
            problem: tr!(
                "column {name}: expected {noun} in each row, found {cell} ({n} of {all} values do not match); leave such fields \
                 empty, or read the column as categories with --columns {}:category",
                "列{name}: 各行に{noun}が必要ですが、{cell} があります（{all} 個中 {n} 個）。空欄にするか、\
                 --columns {}:category で文字列として扱ってください",
                request.name
            ),
        });
    }
    Ok(vec![tr!(
        "column {name}: {n} of {all} training values are not {noun} (such as {cell}) and count as missing",
        "列{name}: 学習データの {all} 個の値のうち {n} 個は{noun}ではなく（{cell} など）、欠損として扱います"
    )])
}

/// Rejects a column in which many values are numbers, or would be without signs, separators or units.
fn check_numbers(
    request: &FeatureRequest,
    filled: &[&str],
    (numbers, form): (usize, DecimalFormat),
) -> Result<(), UnclearColumn> {
    let nearly = |cell: &&&str| form.parse(cell).is_none() && looks_like_number(cell);
    let almost = filled.iter().filter(nearly).count();
    let (name, all) = (quote(&request.name), filled.len());
    if (almost + numbers) as f64 >= (1.0 - MAX_MISFIT_SHARE) * all as f64
        && let Some(first) = filled.iter().find(nearly)
    {
        return Err(UnclearColumn {
            cell: (*first).to_owned(),
            problem: tr!(
                "column {name}: expected plain numbers, found {}; write only digits and a decimal point (1200, 12.5), or read \
                 the column as categories with --columns {}:category",
                "列{name}: 数字と小数点だけの数値が必要ですが、{} があります。1200 や 12.5 のように書くか、\
                 --columns {}:category で文字列として扱ってください",
                quote(first.trim()),
                request.name
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
                "column {name}: only {numbers} of {all} values are numbers, and {n} are not, such as {cell}; leave those fields \
                 empty if the value is missing, or read the column as categories with --columns {}:category",
                "列{name}: {all} 個の値のうち {numbers} 個は数値ですが、{cell} など {n} 個は数値ではありません。値がないという意味なら\
                 空欄にするか、--columns {}:category で文字列として扱ってください",
                request.name
            ),
        });
    }
    Ok(())
}

/// Returns true if a field would be a number without its currency, unit or separators.
fn looks_like_number(cell: &str) -> bool {
    let cell = cell.trim();
    let is_digit = |c: char| c.is_ascii_digit() || ('０'..='９').contains(&c);
    let digits = cell.chars().filter(|&c| is_digit(c)).count();
    let signs = "¥￥$€£%％,，. 　'+-−円元";
    let units = cell.chars().filter(|c| c.is_alphabetic() && *c != '円' && *c != '元').count();
    let has_sign = cell.chars().any(|c| "¥￥$€£%％,，円元".contains(c));
    digits > 0 && has_sign && units <= 3 && cell.chars().all(|c| is_digit(c) || signs.contains(c) || c.is_alphabetic())
}

/// Returns mean and standard deviation, or `None` if all values are equal.
fn mean_and_deviation(values: &[f64]) -> Option<(f64, f64)> {
    // The computed mean of equal values may differ from them by rounding.
    if values.iter().all(|x| *x == values[0]) {
        return None;
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let deviation = (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
    (mean.is_finite() && deviation.is_finite() && deviation > 0.0).then_some((mean, deviation))
}

fn fit_numbers(request: &FeatureRequest, filled: &[&str], form: DecimalFormat) -> Option<FeatureColumn> {
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
    // No step begins at or below the smallest value.
    steps.retain(|&step| step > values[0]);
    let kind = FeatureColumnKind::Number { mean, deviation, steps, has_point_groups: form.has_point_groups };
    Some(FeatureColumn { name: request.name.clone(), kind })
}

/// The number format of a column: a comma has one meaning in all its values.
#[derive(Clone, Copy)]
struct DecimalFormat {
    /// The decimal separator, if a value has one.
    decimal: Option<char>,
    /// True if points separate thousands.
    has_point_groups: bool,
}

impl DecimalFormat {
    fn detect(filled: &[&str]) -> DecimalFormat {
        DecimalFormat {
            decimal: filled.iter().find_map(|cell| parse_separated_number(cell)?.1),
            has_point_groups: PointGroups::of_fields(filled).are_thousands(),
        }
    }

    /// Parses a field if it matches the format.
    fn parse(self, cell: &str) -> Option<f64> {
        let (value, decimal) = parse_separated_number(cell)?;
        let value = if self.has_point_groups { parse_number_with_groups(cell)? } else { value };
        (decimal.is_none() || self.decimal.is_none() || decimal == self.decimal).then_some(value)
    }
}

/// The dates among a column's values, and their format.
struct DateFormat<'a> {
    count: usize,
    day_first: bool,
    /// True if some dates are ambiguous and no value resolves their order.
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

fn fit_dates(request: &FeatureRequest, filled: &[&str], day_first: bool) -> Option<FeatureColumn> {
    let found: Vec<date::DateHour> =
        filled.iter().filter_map(|cell| Some(date::parse(cell, day_first)?.date_hour)).collect();
    let (mean, deviation) = mean_and_deviation(&found.iter().map(date::DateHour::years).collect::<Vec<_>>())?;
    let hours = found.iter().filter_map(|moment| moment.hour).any(|hour| hour != 0);
    Some(FeatureColumn {
        name: request.name.clone(),
        kind: FeatureColumnKind::Date { mean, deviation, day_first, hours },
    })
}

fn fit_categories(request: &FeatureRequest, cells: &[&str]) -> ColumnFit {
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
                "each of its values occurs only once, like identifiers or free text",
                "どの値も 1 回しか現れません（ID や文章のような列です）",
            ),
        };
        return unused_column(request, why);
    }
    if different == 1 && rows == cells.len() {
        let value = quote(values[0].0);
        return unused_column(request, &tr!("all its values are {value}", "どの行も{value}です"));
    }
    sorting::sort_by(&mut values, |a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    values.truncate(MAX_VALUES);
    let mut values: Vec<String> = values.into_iter().map(|(value, _)| value.to_owned()).collect();
    values.sort_unstable();
    let name = quote(&request.name);
    let mut notes = Vec::new();
    if once > values.len() {
        notes.push(tr!(
            "column {name}: {once} of {different} values occur only once in the training rows and count as “other”",
            "列{name}: {different} 種の値のうち {once} 種は学習データに 1 回しか現れず、「その他」として扱います"
        ));
    }
    ColumnFit {
        column: Some(FeatureColumn { name: request.name.clone(), kind: FeatureColumnKind::Category { values } }),
        notes,
    }
}
