//! Effects of feature columns on a prediction.

use crate::feature_columns::{ColumnValue, FeatureColumn};
use crate::row::{Row, RowRef};
use serde::{Deserialize, Serialize};

/// A feature column with the effect of its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnEffect {
    /// The name of the column.
    pub name: String,
    /// The value in the row. Empty if there is none.
    pub value: String,
    /// How the model interprets the value.
    pub read_as: ColumnReading,
    /// The ensemble's log-odds of the answer with the value, minus those with the value missing.
    pub effect: f32,
}

/// How a model interprets the value of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ColumnReading {
    /// As the value itself.
    Itself,
    /// As a rare category, which occurs fewer than two times in the training data.
    Other,
    /// As a missing value.
    Missing,
}

/// Returns copies of the row with each column missing in turn.
pub(super) fn rows_without(columns: &[FeatureColumn], row: RowRef<'_>) -> Vec<Row> {
    let given = column_values(columns, row);
    let without = |at: usize| {
        let mut cells = given.clone();
        cells[at] = "";
        row.with_values(&cells)
    };
    (0..columns.len()).map(without).collect()
}

/// Returns the values of all columns. Missing values are empty.
fn column_values<'a>(columns: &[FeatureColumn], row: RowRef<'a>) -> Vec<&'a str> {
    (0..columns.len()).map(|index| row.value(index)).collect()
}

/// Combines the columns of a row with their `effects`.
pub(super) fn column_effects(
    columns: &[FeatureColumn],
    row: RowRef<'_>,
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
