//! Feature columns of models: the columns that a file must have, and the values of `--set`.

use crate::args::SetColumnArgs;
use crate::progress::print_status;
use chumoku::answers::{self, feature_values};
use chumoku::lang::wording::{join_names, quote};
use chumoku::row::{AsRow, FeatureRequest, Row};
use chumoku::{FeatureColumn, UnreadableValues, tr};

/// Returns the columns that a file must have for a model of these `columns`: all except those that `--set` gives.
///
/// # Errors
/// As for [`feature_values`].
pub(crate) fn required_columns(columns: &[FeatureColumn], set: &SetColumnArgs) -> chumoku::Result<Vec<FeatureRequest>> {
    answers::required_columns(columns, &set.values)
}

/// Joins texts with the values of `--set`. Columns without a value count as missing, with a note to the user.
///
/// # Errors
/// As for [`feature_values`].
pub(crate) fn rows_with_values(
    rows: Vec<Row>,
    columns: &[FeatureColumn],
    set: &SetColumnArgs,
) -> anyhow::Result<Vec<Row>> {
    report_missing(columns, set)?;
    rows.into_iter().map(|row| row_with_values(row, columns, set)).collect()
}

/// Joins a text with the values of `--set`.
///
/// # Errors
/// As for [`feature_values`].
pub(crate) fn row_with_values(row: Row, columns: &[FeatureColumn], set: &SetColumnArgs) -> anyhow::Result<Row> {
    let values = feature_values(columns, &set.values)?;
    if columns.is_empty() {
        return Ok(row);
    }
    Ok(row.as_row().with_values(&values.into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>()))
}

/// Reports the columns that `--set` does not give.
///
/// # Errors
/// As for [`feature_values`].
pub(crate) fn report_missing(columns: &[FeatureColumn], set: &SetColumnArgs) -> anyhow::Result<()> {
    let values = feature_values(columns, &set.values)?;
    let missing: Vec<&str> = columns
        .iter()
        .zip(&values)
        .filter(|(_, value)| value.is_none())
        .map(|(column, _)| column.name.as_str())
        .collect();
    if let Some(first) = missing.first() {
        let names = join_names(&missing.iter().map(|name| quote(name)).collect::<Vec<_>>());
        let text = tr!(
            "note: no value for {names}: treated as missing; set one with --set {first}=VALUE",
            "注: 列{names}の値がないため、欠損として扱います。値は --set {first}=値 で指定できます"
        );
        say!("{}", crate::report::paragraph(&text));
    }
    Ok(())
}

/// Reports values that could not be read.
pub(crate) fn report_unread(unread: &UnreadableValues<'_>) {
    unread.messages().iter().for_each(|text| print_status(["warning", "警告"], text));
}
