//! Feature columns of models: the columns that a file must have, and the values of `--set`.

use crate::UsageError;
use crate::args::SetColumnArgs;
use crate::progress::print_status;
use chumoku::lang::wording::{did_you_mean, join_names, list_names, quote};
use chumoku::row::{FeatureRequest, join};
use chumoku::{FeatureColumn, UnreadableValues, tr};

/// Returns the columns that a file must have for a model of these `columns`: all except those that `--set` gives.
///
/// # Errors
/// If `--set` names a column that the model does not read.
pub(crate) fn required_columns(columns: &[FeatureColumn], set: &SetColumnArgs) -> anyhow::Result<Vec<FeatureRequest>> {
    let values = set_values(columns, set)?;
    let asked = |(column, value): (&FeatureColumn, Option<&str>)| FeatureRequest {
        name: column.name.clone(),
        value: value.map(str::to_owned),
        is_required: true,
        ..FeatureRequest::default()
    };
    Ok(columns.iter().zip(values).map(asked).collect())
}

/// Joins texts with the values of `--set`. Columns without a value count as missing, with a note to the user.
///
/// # Errors
/// As for [`required_columns`].
pub(crate) fn texts_with_values(
    texts: Vec<String>,
    columns: &[FeatureColumn],
    set: &SetColumnArgs,
) -> anyhow::Result<Vec<String>> {
    report_missing(columns, set)?;
    texts.iter().map(|text| text_with_values(text, columns, set)).collect()
}

/// Joins a text with the values of `--set`.
///
/// # Errors
/// As for [`required_columns`].
pub(crate) fn text_with_values(text: &str, columns: &[FeatureColumn], set: &SetColumnArgs) -> anyhow::Result<String> {
    let values = set_values(columns, set)?;
    if columns.is_empty() {
        return Ok(text.to_owned());
    }
    Ok(join(text, &values.into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>()))
}

/// Reports the columns that `--set` does not give.
///
/// # Errors
/// As for [`required_columns`].
pub(crate) fn report_missing(columns: &[FeatureColumn], set: &SetColumnArgs) -> anyhow::Result<()> {
    let values = set_values(columns, set)?;
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

/// Returns the value of `--set` for each column; the last one wins if a column is named twice.
fn set_values<'a>(columns: &[FeatureColumn], set: &'a SetColumnArgs) -> anyhow::Result<Vec<Option<&'a str>>> {
    let mut values = vec![None; columns.len()];
    for (name, value) in &set.values {
        let same = |column: &FeatureColumn| column.name.to_lowercase() == name.to_lowercase();
        let at = columns.iter().position(|column| column.name == *name).or_else(|| columns.iter().position(same));
        let Some(at) = at else { return Err(unknown_column(columns, name).into()) };
        if columns[at].is_unreadable(value) {
            let (text, name) = (columns[at].error_message(value), &columns[at].name);
            return Err(UsageError(tr!(
                "--set {name}=…: {text}: write 1200, 12.5 or 2024-01-31, or leave it out",
                "--set {name}=…: {text}。1200、12.5、2024-01-31 のように書くか、指定を外してください"
            ))
            .into());
        }
        values[at] = Some(value.as_str());
    }
    Ok(values)
}

/// Reports values that could not be read.
pub(crate) fn report_unread(unread: &UnreadableValues<'_>) {
    unread.messages().iter().for_each(|text| print_status(["warning", "警告"], text));
}

fn unknown_column(columns: &[FeatureColumn], name: &str) -> UsageError {
    if columns.is_empty() {
        return UsageError(tr!(
            "--set {name}=…: this model reads no feature columns; leave it out, or train with --columns {name}",
            "--set {name}=…: このモデルはテキストだけを読みます。指定を外すか、--columns {name} を付けて学習してください"
        ));
    }
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let hint = did_you_mean(name, names.iter().copied());
    let known = list_names(&names);
    UsageError(tr!(
        "--set {name}=…: expected one of the columns that the model reads ({known}), found {}{hint}",
        "--set {name}=…: モデルが読む列（{known}）のいずれかが必要ですが、{} です{hint}",
        quote(name)
    ))
}
