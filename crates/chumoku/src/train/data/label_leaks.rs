//! Detection of columns that determine the label on their own: they may be another form of the label.

use crate::feature_columns::{ColumnValue, FeatureColumn};
use crate::lang::wording::quote;
use crate::ngram::NgramTarget;
use crate::row::{AsRow, Row};
use crate::{sorting, tr};
use std::collections::HashMap;

/// The minimum number of rows for a warning.
const MIN_ROWS: usize = 20;
/// The share of correct rows from which a column is reported.
const MIN_ACCURACY: f64 = 0.97;
/// The minimum gain over the most frequent answer.
const MIN_GAIN: f64 = 0.05;
/// The number of bins for sorted numbers, and the minimum number of rows in a bin.
const NUM_BINS: usize = 40;
const MIN_BIN_ROWS: usize = 5;

/// Warns about columns that determine the answer of nearly all rows on their own.
pub(crate) fn label_leak_notes<A: NgramTarget>(columns: &[FeatureColumn], rows: &[Row], answers: &[A]) -> Vec<String> {
    if rows.len() < MIN_ROWS {
        return Vec::new();
    }
    let guessed = majority_accuracy_by_group(std::iter::repeat_n(0, rows.len()), answers);
    let warning = |(at, column): (usize, &FeatureColumn)| {
        let found: Vec<&str> = rows.iter().map(|row| row.as_row().value(at)).collect();
        let right = correct_share(column, &found, answers)?;
        let (name, percent) = (quote(&column.name), 100.0 * right);
        (right >= MIN_ACCURACY && right >= guessed + MIN_GAIN).then(|| {
            tr!(
                "warning: column {name} alone determines the answer of {percent:.0} % of the training rows: is its \
                 value known before the answer?",
                "警告: 列{name}だけで、学習データの {percent:.0} % の行の答えが決まります。予測する時点で分かっている値か確認してください"
            )
        })
    };
    columns.iter().enumerate().filter_map(warning).collect()
}

/// Returns the accuracy of predicting the most frequent answer for each value, with numbers in bins. `None` if values
/// rarely repeat and are not all numbers or dates.
fn correct_share<A: NgramTarget>(column: &FeatureColumn, cells: &[&str], answers: &[A]) -> Option<f64> {
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let groups: Vec<usize> = cells
        .iter()
        .map(|cell| {
            let next = numbers.len();
            *numbers.entry(cell.trim().to_owned()).or_insert(next)
        })
        .collect();
    if 4 * numbers.len() <= cells.len() {
        return Some(majority_accuracy_by_group(groups.into_iter(), answers));
    }
    let value = |cell: &str| match column.parse(cell) {
        ColumnValue::Number(x) => Some(x),
        ColumnValue::Date(moment) => Some(moment.years()),
        _ => None,
    };
    let values: Vec<f64> = cells.iter().map(|cell| value(cell)).collect::<Option<_>>()?;
    let order = sorting::argsort_by(values.len(), &|a, b| values[a].total_cmp(&values[b]));
    let size = (values.len() / NUM_BINS).max(MIN_BIN_ROWS);
    let mut pieces = vec![0; values.len()];
    order.iter().enumerate().for_each(|(place, &row)| pieces[row] = place / size);
    Some(majority_accuracy_by_group(pieces.into_iter(), answers))
}

/// Returns the accuracy of predicting the most frequent answer of each group.
fn majority_accuracy_by_group<A: NgramTarget>(groups: impl Iterator<Item = usize>, answers: &[A]) -> f64 {
    let mut counts: HashMap<usize, HashMap<&[u32], usize>> = HashMap::new();
    for (group, answer) in groups.zip(answers) {
        *counts.entry(group).or_default().entry(answer.label_ids()).or_default() += 1;
    }
    let right: usize = counts.values().filter_map(|of| of.values().max()).sum();
    right as f64 / answers.len().max(1) as f64
}
