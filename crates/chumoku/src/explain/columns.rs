//! What the columns beside a text do to its answer.

use crate::feature_columns::{ColumnValue, FeatureColumn};
use chumoku_text::feature_columns::{join, text_of, values};
use serde::{Deserialize, Serialize};

/// A column beside the text, and what its value does to the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnEffect {
    /// The name of the column.
    pub name: String,
    /// Its value, as it was given; empty if there is none.
    pub value: String,
    /// What the model takes the value for.
    pub read_as: ColumnReading,
    /// The log-odds that the whole predictor gives to the answer with the value, minus those where it is missing.
    pub effect: f32,
}

/// What a model takes the value of a column for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ColumnReading {
    /// Itself.
    Itself,
    /// One of the values of a category that training did not see twice.
    Other,
    /// No value.
    Missing,
}

/// The row with each of its columns missing in turn, one after the other.
pub(super) fn rows_without(columns: &[FeatureColumn], row: &str) -> Vec<String> {
    let given = column_values(columns, row);
    let without = |at: usize| {
        let mut cells = given.clone();
        cells[at] = "";
        join(text_of(row), &cells)
    };
    (0..columns.len()).map(without).collect()
}

/// The values of all columns; empty where a row has none.
fn column_values<'a>(columns: &[FeatureColumn], row: &'a str) -> Vec<&'a str> {
    let mut cells = values(row);
    columns.iter().map(|_| cells.next().unwrap_or_default()).collect()
}

/// The columns of a row with their `effects`.
pub(super) fn column_effects(
    columns: &[FeatureColumn],
    row: &str,
    effects: impl Iterator<Item = f32>,
) -> Vec<ColumnEffect> {
    let found = columns.iter().zip(column_values(columns, row)).zip(effects);
    let of = |((column, cell), effect): ((&FeatureColumn, &str), f32)| ColumnEffect {
        name: column.name.clone(),
        value: cell.trim().to_owned(),
        read_as: match column.parse(cell) {
            ColumnValue::Missing => ColumnReading::Missing,
            ColumnValue::Other(_) => ColumnReading::Other,
            _ => ColumnReading::Itself,
        },
        effect,
    };
    found.map(of).collect()
}
