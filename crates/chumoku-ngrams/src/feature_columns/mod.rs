//! Feature columns of a linear model: columns in addition to the text, and the features of their values.
//!
//! - A number x becomes z = (x − mean) / deviation, clamped to ±3, and 1 for its step. Steps are quantiles of the
//!   training values, so the effect of x may be nonlinear.
//! - A category becomes 1 for its value if training saw it at least twice, else 1 for "other".
//! - A date becomes z of its fractional year, and 1 each for its month, its weekday and, if times are given, its hour.
//! - A missing value becomes 1 for "missing".
//!
//! Each feature is multiplied by one of [`SCALES`]. All statistics of a column come from the training rows.
//!
//! # Files
//!
//! - `date`: parsing of dates and times
//! - `fit`: detection of a column's kind, and its statistics
//! - `unreadable`: warnings about values that cannot be read

mod date;
mod fit;
#[cfg(test)]
mod tests;
mod unreadable;

pub use fit::{UnclearColumn, fit_column};
pub use unreadable::UnreadableValues;

use chumoku_text::data::{parse_number_with_groups, parse_separated_number};
use chumoku_text::lang::lang;
use chumoku_text::lang::wording::quote;
use chumoku_text::row::RowRef;
use chumoku_text::tr;
use date::DateHour;
use serde::{Deserialize, Serialize};

/// Maximum number of columns of a model.
pub const MAX_COLUMNS: usize = 100;
/// Maximum number of distinct values of a category.
const MAX_VALUES: usize = 10_000;
/// Candidates for the scale of column features, relative to text features, whose vector has length 1. The scale with
/// the lowest log-loss on the validation rows is chosen. A small scale suppresses uninformative columns, and a large
/// one lets informative columns count.
pub const SCALES: [f32; 3] = [0.5, 0.15, 0.05];
/// The scale without validation rows.
pub const DEFAULT_SCALE: f32 = 0.15;
/// Maximum distance from the mean in deviations: a single outlier must not decide alone.
const MAX_DEVIATIONS: f64 = 3.0;
const MONTHS: usize = 12;
const WEEKDAYS: usize = 7;
const HOURS: usize = 24;

/// A feature column of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureColumn {
    /// The name, as requested by the user.
    pub name: String,
    /// The kind of values, with their statistics.
    pub(crate) kind: FeatureColumnKind,
}

/// The kind of a feature column, with its training statistics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum FeatureColumnKind {
    /// Numbers.
    Number {
        /// Mean of the training values.
        mean: f64,
        /// Their standard deviation, above 0.
        deviation: f64,
        /// The start of the second step, the third, and so on; ascending.
        steps: Vec<f64>,
        /// True if points separate thousands: 1.234 is more than a thousand.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        has_point_groups: bool,
    },
    /// Names.
    Category {
        /// The distinct values, ascending.
        values: Vec<String>,
    },
    /// Dates, optionally with times.
    Date {
        /// Mean of the fractional years.
        mean: f64,
        /// Their standard deviation, above 0.
        deviation: f64,
        /// True if 01/02/2024 is a day in February.
        day_first: bool,
        /// True if the hour is a feature.
        hours: bool,
    },
}

/// The value of a feature column as the model reads it.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnValue<'a> {
    /// A missing or unreadable value.
    Missing,
    /// A number.
    Number(f64),
    /// The index of a category value that training saw.
    Known(usize),
    /// A category value that training did not see.
    Other(&'a str),
    /// A date, with its hour if the column uses hours.
    Date(DateHour),
}

/// Words for a missing value in columns of numbers or dates.
const MISSING_WORDS: [&str; 12] = ["n/a", "na", "nan", "null", "none", "-", "–", "—", "?", "unknown", "不明", "なし"];

/// Returns true if a field marks a missing number or date.
fn is_missing(cell: &str) -> bool {
    let cell = cell.trim();
    cell.is_empty() || MISSING_WORDS.contains(&cell.to_lowercase().as_str())
}

impl FeatureColumn {
    /// Returns the kind, as `--columns` names it.
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            FeatureColumnKind::Number { .. } => "number",
            FeatureColumnKind::Category { .. } => "category",
            FeatureColumnKind::Date { .. } => "date",
        }
    }

    /// Describes name, kind and statistics in a few words.
    pub fn describe(&self) -> String {
        let name = quote(&self.name);
        match &self.kind {
            FeatureColumnKind::Number { mean, deviation, .. } => {
                let [mean, deviation] = [*mean, *deviation].map(format_short);
                tr!(
                    "{name} number (mean {mean}, deviation {deviation})",
                    "{name} 数値（平均 {mean}、標準偏差 {deviation}）"
                )
            }
            FeatureColumnKind::Category { values } => {
                let n = values.len();
                let values = chumoku_text::lang::wording::format_count(n as u64, "value");
                tr!("{name} category ({values} and others)", "{name} カテゴリ（{n} 種とその他）")
            }
            FeatureColumnKind::Date { hours, .. } => match hours {
                false => tr!("{name} date (year, month, weekday)", "{name} 日付（年、月、曜日）"),
                true => tr!("{name} date (year, month, weekday, hour)", "{name} 日付（年、月、曜日、時）"),
            },
        }
    }

    /// Parses a field.
    pub fn parse<'a>(&self, cell: &'a str) -> ColumnValue<'a> {
        match &self.kind {
            FeatureColumnKind::Number { has_point_groups, .. } => match has_point_groups {
                true => parse_number_with_groups(cell),
                false => parse_separated_number(cell).map(|(number, _)| number),
            }
            .map_or(ColumnValue::Missing, ColumnValue::Number),
            FeatureColumnKind::Category { values } => match cell.trim() {
                "" => ColumnValue::Missing,
                cell => values
                    .binary_search_by(|value| value.as_str().cmp(cell))
                    .map_or(ColumnValue::Other(cell), ColumnValue::Known),
            },
            FeatureColumnKind::Date { day_first, .. } => {
                date::parse(cell, *day_first).map_or(ColumnValue::Missing, |found| ColumnValue::Date(found.date_hour))
            }
        }
    }

    /// Returns true if a field holds a value that is not a number or date as required. It then counts as missing.
    pub fn is_unreadable(&self, cell: &str) -> bool {
        !is_missing(cell) && self.parse(cell) == ColumnValue::Missing
    }

    /// Returns a warning that this column cannot be read in `rows` rows; `cell` is an example.
    pub fn unreadable_message(&self, rows: usize, cell: &str) -> String {
        let (name, cell, noun) = (quote(&self.name), quote(cell.trim()), self.noun());
        match rows {
            1 => tr!(
                "column {name}: {cell} is not a {} and counts as missing",
                "列{name}: {cell} は{}ではないため、欠損として扱います",
                noun.0
            ),
            _ => tr!(
                "column {name}: {rows} values are not {}, such as {cell}, and count as missing",
                "列{name}: {}ではない値が {rows} 個あり（{cell} など）、欠損として扱います",
                noun.1
            ),
        }
    }

    /// Returns the error message for an unreadable value.
    pub fn error_message(&self, cell: &str) -> String {
        let (name, cell, noun) = (quote(&self.name), quote(cell.trim()), self.noun().0);
        tr!("column {name}: expected a {noun}, found {cell}", "列{name}: {noun}が必要ですが、{cell} です")
    }

    /// Returns the noun for a value of this kind, singular and plural.
    fn noun(&self) -> (&'static str, &'static str) {
        match self.kind {
            FeatureColumnKind::Date { .. } => (lang().pick("date", "日付"), lang().pick("dates", "日付")),
            _ => (
                lang().pick("plain number", "数字と小数点だけの数値"),
                lang().pick("plain numbers", "数字と小数点だけの数値"),
            ),
        }
    }

    /// Returns the number of features of the column.
    pub(crate) fn num_features(&self) -> usize {
        1 + match &self.kind {
            FeatureColumnKind::Number { steps, .. } => 2 + steps.len(),
            FeatureColumnKind::Category { values } => values.len() + 1,
            FeatureColumnKind::Date { hours, .. } => 1 + MONTHS + WEEKDAYS + if *hours { HOURS } else { 0 },
        }
    }

    /// Calls `push` with the features of a field, ascending, and their values. "Missing" is the last feature.
    fn for_each_feature(&self, cell: &str, mut push: impl FnMut(usize, f32)) {
        let scaled =
            |x: f64, mean: f64, deviation: f64| ((x - mean) / deviation).clamp(-MAX_DEVIATIONS, MAX_DEVIATIONS) as f32;
        match (self.parse(cell), &self.kind) {
            (ColumnValue::Number(x), FeatureColumnKind::Number { mean, deviation, steps, .. }) => {
                push(0, scaled(x, *mean, *deviation));
                push(1 + steps.partition_point(|&step| step <= x), 1.0);
            }
            (ColumnValue::Known(value), _) => push(value, 1.0),
            (ColumnValue::Other(_), FeatureColumnKind::Category { values }) => push(values.len(), 1.0),
            (ColumnValue::Date(moment), FeatureColumnKind::Date { mean, deviation, hours, .. }) => {
                push(0, scaled(moment.years(), *mean, *deviation));
                push(moment.date.month as usize, 1.0);
                push(1 + MONTHS + moment.date.weekday(), 1.0);
                if let Some(hour) = moment.hour.filter(|_| *hours) {
                    push(1 + MONTHS + WEEKDAYS + hour as usize, 1.0);
                }
            }
            _ => push(self.num_features() - 1, 1.0),
        }
    }

    /// Checks the column, which may come from a file.
    pub fn check(&self) -> Result<(), String> {
        let name = quote(&self.name);
        let rises =
            |steps: &[f64]| steps.windows(2).all(|pair| pair[0] < pair[1]) && steps.iter().all(|x| x.is_finite());
        let is_scale = |mean: f64, deviation: f64| mean.is_finite() && deviation.is_finite() && deviation > 0.0;
        let is_sound = match &self.kind {
            FeatureColumnKind::Number { mean, deviation, steps, .. } => {
                is_scale(*mean, *deviation) && rises(steps) && steps.len() <= MAX_VALUES
            }
            FeatureColumnKind::Category { values } => {
                values.windows(2).all(|pair| pair[0] < pair[1]) && values.len() <= MAX_VALUES
            }
            FeatureColumnKind::Date { mean, deviation, .. } => is_scale(*mean, *deviation),
        };
        match is_sound && !self.name.trim().is_empty() {
            true => Ok(()),
            false => Err(tr!(
                "columns: {name}: expected finite numbers, a deviation above 0, and ascending steps or values",
                "columns: {name}: 有限の数、0 より大きい deviation、昇順の steps または values が必要です"
            )),
        }
    }
}

/// Formats a number with four significant digits.
fn format_short(x: f64) -> String {
    if x == 0.0 || !(1e-4..1e9).contains(&x.abs()) {
        return format!("{x:.3e}").replace("0.000e0", "0");
    }
    let digits = (3 - x.abs().log10().floor() as i64).clamp(0, 8) as usize;
    let text = format!("{x:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Returns the number of features of all columns.
pub(crate) fn num_features(columns: &[FeatureColumn]) -> usize {
    columns.iter().map(FeatureColumn::num_features).sum()
}

/// Appends the features of a row's column values, multiplied by `scale`. Absent values are missing.
pub(crate) fn push_features(
    columns: &[FeatureColumn],
    scale: f32,
    row: RowRef<'_>,
    indices: &mut Vec<u32>,
    values: &mut Vec<f32>,
) {
    let mut cells = row.values();
    let mut first = 0;
    for column in columns {
        column.for_each_feature(cells.next().unwrap_or_default(), |feature, value| {
            indices.push((first + feature) as u32);
            values.push(scale * value);
        });
        first += column.num_features();
    }
}

/// Checks the columns of a model and the scale of their features.
pub fn check(columns: &[FeatureColumn], scale: f32) -> Result<(), String> {
    if !columns.is_empty() && !(1e-6..=1e3).contains(&scale) {
        return Err(tr!(
            "column_scale: expected a number from 1e-6 to 1000, found {scale}",
            "column_scale: 1e-6 から 1000 までの数値が必要ですが、{scale} です"
        ));
    }
    if columns.len() > MAX_COLUMNS {
        let found = columns.len();
        return Err(tr!(
            "columns: expected at most {MAX_COLUMNS}, found {found}",
            "columns: {MAX_COLUMNS} 列以下のはずですが、{found} 列です"
        ));
    }
    columns.iter().try_for_each(FeatureColumn::check)
}
