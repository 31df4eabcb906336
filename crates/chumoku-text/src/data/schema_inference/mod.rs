//! The first look at a table: which reading of it is likely, how likely, and which one comes next.
//!
//! The names of the columns and the first thousand rows answer three questions. Is the first row a header (`header.rs`)?
//! Which column holds the text (`columns.rs`)? Which columns hold the label, and in what form (`label.rs`)? Each possible
//! answer gets a score in bits: one bit more means that it is twice as likely.
//!
//! | difference to the next answer | what happens |
//! |---|---|
//! | at least [`CLOSE`] | the answer is taken |
//! | at least [`MARGIN`] | the answer is taken, and the description names the next one with its flags |
//! | less | the command stops with exit code 2 and names both with the flags that decide |
//!
//! An option that names a column decides by itself. `profile.rs` says what the rows show of each column, `names.rs` what
//! names promise, `missing.rs` which values mean that there is none.
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

/// The bits by which a reading must lead to be taken: it is twice as likely as the next one.
pub(crate) const MARGIN: f64 = 1.0;
/// The bits below which the next reading is named: the best one is less than eight times as likely.
pub(crate) const CLOSE: f64 = 3.0;

/// Readings with their scores, the best first; equal ones keep their order.
pub(crate) fn rank<T>(readings: impl IntoIterator<Item = (f64, T)>) -> Vec<(f64, T)> {
    let mut readings: Vec<(f64, T)> = readings.into_iter().filter(|(bits, _)| *bits > f64::NEG_INFINITY).collect();
    sorting::sort_by(&mut readings, |a, b| b.0.total_cmp(&a.0));
    readings
}

/// The readings that are about as likely as the best of these [`ranked`] ones, itself included.
pub(crate) fn tied_readings<T>(ranked: &[(f64, T)]) -> &[(f64, T)] {
    let Some((best, _)) = ranked.first() else { return ranked };
    let end = ranked.iter().position(|(bits, _)| best - bits >= MARGIN).unwrap_or(ranked.len());
    &ranked[..end]
}

/// The reading that comes next to the best of these [`ranked`] ones, if it is close.
pub(crate) fn close_runner_up<T>(ranked: &[(f64, T)]) -> Option<&T> {
    match ranked {
        [(best, _), (bits, next), ..] if best - bits < CLOSE => Some(next),
        _ => None,
    }
}
