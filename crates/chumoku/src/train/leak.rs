//! Columns that tell the label by themselves: they may be the label in other words.

use crate::beside::{Read, SideColumn};
use crate::lang::wording::quoted;
use crate::ngram::Answer;
use crate::{sorting, tr};
use chumoku_text::beside::cells;
use std::collections::HashMap;

/// Fewest rows that show it.
const LEAST_ROWS: usize = 20;
/// The share of rows from which on it is said.
const NEARLY_ALL: f64 = 0.97;
/// How much more than the most frequent answer a column must tell.
const MORE: f64 = 0.05;
/// Pieces of sorted numbers that are looked at, and rows that a piece has at least.
const PIECES: usize = 40;
const PIECE: usize = 5;

/// Says which columns by themselves tell the answer of nearly all rows.
pub(crate) fn leaks<A: Answer>(columns: &[SideColumn], rows: &[String], answers: &[A]) -> Vec<String> {
    if rows.len() < LEAST_ROWS {
        return Vec::new();
    }
    let guessed = right_by_groups(std::iter::repeat_n(0, rows.len()), answers);
    let told = |(at, column): (usize, &SideColumn)| {
        let found: Vec<&str> = rows.iter().map(|row| cells(row).nth(at).unwrap_or_default()).collect();
        let right = share(column, &found, answers)?;
        let (name, percent) = (quoted(&column.name), 100.0 * right);
        (right >= NEARLY_ALL && right >= guessed + MORE).then(|| {
            tr!(
                "warning: column {name} alone tells the answer of {percent:.0} % of the training rows: is it known when you ask?",
                "警告: 列{name}だけで学習データの {percent:.0} % の行の答えが決まります。予測するときにも分かっている値ですか"
            )
        })
    };
    columns.iter().enumerate().filter_map(told).collect()
}

/// The share of rows that are right if each value gets its most frequent answer; none where values hardly repeat.
fn share<A: Answer>(column: &SideColumn, cells: &[&str], answers: &[A]) -> Option<f64> {
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let groups: Vec<usize> = cells
        .iter()
        .map(|cell| {
            let next = numbers.len();
            *numbers.entry(cell.trim().to_owned()).or_insert(next)
        })
        .collect();
    if 4 * numbers.len() <= cells.len() {
        return Some(right_by_groups(groups.into_iter(), answers));
    }
    let value = |cell: &str| match column.read(cell) {
        Read::Number(x) => Some(x),
        Read::Date(moment) => Some(moment.years()),
        _ => None,
    };
    let values: Vec<f64> = cells.iter().map(|cell| value(cell)).collect::<Option<_>>()?;
    let order = sorting::indices(values.len(), &|a, b| values[a].total_cmp(&values[b]));
    let size = (values.len() / PIECES).max(PIECE);
    let mut pieces = vec![0; values.len()];
    order.iter().enumerate().for_each(|(place, &row)| pieces[row] = place / size);
    Some(right_by_groups(pieces.into_iter(), answers))
}

/// The share of rows whose answer is the most frequent one of their group.
fn right_by_groups<A: Answer>(groups: impl Iterator<Item = usize>, answers: &[A]) -> f64 {
    let mut counts: HashMap<usize, HashMap<&[u32], usize>> = HashMap::new();
    for (group, answer) in groups.zip(answers) {
        *counts.entry(group).or_default().entry(answer.numbers()).or_default() += 1;
    }
    let right: usize = counts.values().filter_map(|of| of.values().max()).sum();
    right as f64 / answers.len().max(1) as f64
}
