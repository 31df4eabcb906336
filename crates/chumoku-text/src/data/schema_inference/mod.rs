//! Schema inference: which reading of a table is the most likely, how likely it is, and which one is next.
//!
//! The column names and the first thousand rows answer three questions. Is the first row a header (`header.rs`)? Which
//! column holds the text (`columns.rs`)? Which columns hold the label, and in what form (`label.rs`)? Each reading gets
//! a score in bits. One bit more means twice as likely.
//!
//! | lead over the next reading | result |
//! |---|---|
//! | at least [`CLOSE`] | the best reading is chosen |
//! | at least [`MARGIN`] | the best reading is chosen, and the description names the next one with its flags |
//! | less | the command stops with exit status 2 and names both with the flags that select them |
//!
//! An option that names a column decides alone. `profile.rs` has the statistics of each column, `names.rs` the meanings
//! of names, and `missing.rs` the values that count as missing.
//!
//! # Files
//!
//! - `columns`: scores of text and label columns
//! - `dates`: fields that hold dates
//! - `header`: score of a header
//! - `label`: every reading of the label columns
//! - `label_form`: one label, a list, separators, columns, numbers
//! - `label_kind`: measures, dates, identifiers or texts instead of classes
//! - `missing`: values that mean "missing"
//! - `names`: column names and the roles they suggest
//! - `numbers`: numeric columns
//! - `pair_columns`: source and target columns
//! - `profile`: statistics of each column
//! - `quantity`: numbers as people write them
//! - `reasons`: messages about the choice of a column

pub(crate) mod columns;
pub(crate) mod dates;
pub(crate) mod header;
pub(crate) mod label;
pub(crate) mod label_form;
pub(crate) mod label_kind;
pub(crate) mod missing;
pub(crate) mod names;
pub(crate) mod numbers;
pub(crate) mod pair_columns;
pub(crate) mod profile;
pub(crate) mod quantity;
pub(crate) mod reasons;

use crate::sorting;

/// The lead in bits that a reading needs to be chosen: it is twice as likely as the next one.
pub(crate) const MARGIN: f64 = 1.0;
/// The lead in bits below which the next reading is named: the best one is less than eight times as likely.
pub(crate) const CLOSE: f64 = 3.0;

/// Sorts readings by score, best first. Equal ones keep their order.
pub(crate) fn rank<T>(readings: impl IntoIterator<Item = (f64, T)>) -> Vec<(f64, T)> {
    let mut readings: Vec<(f64, T)> = readings.into_iter().filter(|(bits, _)| *bits > f64::NEG_INFINITY).collect();
    sorting::sort_by(&mut readings, |a, b| b.0.total_cmp(&a.0));
    readings
}

/// Returns the [`rank`]ed readings that are about as likely as the best one, including it.
pub(crate) fn tied_readings<T>(ranked: &[(f64, T)]) -> &[(f64, T)] {
    let Some((best, _)) = ranked.first() else { return ranked };
    let end = ranked.iter().position(|(bits, _)| best - bits >= MARGIN).unwrap_or(ranked.len());
    &ranked[..end]
}

/// Returns the second of these [`rank`]ed readings, if it is close to the best.
pub(crate) fn close_runner_up<T>(ranked: &[(f64, T)]) -> Option<&T> {
    match ranked {
        [(best, _), (bits, next), ..] if best - bits < CLOSE => Some(next),
        _ => None,
    }
}
