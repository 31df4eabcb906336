//! Models that read columns beside the text: what a file must have, and what `--set` gives.

use crate::Usage;
use crate::args::SetColumns;
use crate::progress::tell;
use chumoku::lang::wording::{did_you_mean, joined, listed, quoted};
use chumoku::row::{Asked, join};
use chumoku::{SideColumn, Unread, tr};

/// The columns that a file must have for a model of these `columns`: all but those that `--set` gives.
///
/// # Errors
/// If `--set` names a column that the model does not read.
pub(super) fn asked_of(columns: &[SideColumn], set: &SetColumns) -> anyhow::Result<Vec<Asked>> {
    let values = values_of(columns, set)?;
    let asked = |(column, value): (&SideColumn, Option<&str>)| Asked {
        name: column.name.clone(),
        value: value.map(str::to_owned),
        is_of_model: true,
        ..Asked::default()
    };
    Ok(columns.iter().zip(values).map(asked).collect())
}

/// Texts with what `--set` says beside them; what it does not say is missing, which is told.
///
/// # Errors
/// As for [`asked_of`].
pub(super) fn beside(texts: Vec<String>, columns: &[SideColumn], set: &SetColumns) -> anyhow::Result<Vec<String>> {
    tell_of_missing(columns, set)?;
    texts.iter().map(|text| with_values(text, columns, set)).collect()
}

/// A text with what `--set` says beside it.
///
/// # Errors
/// As for [`asked_of`].
pub(super) fn with_values(text: &str, columns: &[SideColumn], set: &SetColumns) -> anyhow::Result<String> {
    let values = values_of(columns, set)?;
    if columns.is_empty() {
        return Ok(text.to_owned());
    }
    Ok(join(text, &values.into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>()))
}

/// Says which columns `--set` does not give.
///
/// # Errors
/// As for [`asked_of`].
pub(super) fn tell_of_missing(columns: &[SideColumn], set: &SetColumns) -> anyhow::Result<()> {
    let values = values_of(columns, set)?;
    let missing: Vec<&str> = columns
        .iter()
        .zip(&values)
        .filter(|(_, value)| value.is_none())
        .map(|(column, _)| column.name.as_str())
        .collect();
    if let Some(first) = missing.first() {
        let names = joined(&missing.iter().map(|name| quoted(name)).collect::<Vec<_>>());
        let text = tr!(
            "note: no value given for {names}: counted as missing; give one with --set {first}=VALUE",
            "注: 列{names}の値がないため、欠損として扱います。値は --set {first}=値 で指定できます"
        );
        say!("{}", crate::report::filled(&text));
    }
    Ok(())
}

/// What `--set` gives to each column, the last where it names one twice.
fn values_of<'a>(columns: &[SideColumn], set: &'a SetColumns) -> anyhow::Result<Vec<Option<&'a str>>> {
    let mut values = vec![None; columns.len()];
    for (name, value) in &set.values {
        let same = |column: &SideColumn| column.name.to_lowercase() == name.to_lowercase();
        let at = columns.iter().position(|column| column.name == *name).or_else(|| columns.iter().position(same));
        let Some(at) = at else { return Err(unknown(columns, name).into()) };
        if columns[at].is_unread(value) {
            let (text, name) = (columns[at].refused(value), &columns[at].name);
            return Err(Usage(tr!(
                "--set {name}=…: {text}: write 1200, 12.5 or 2024-01-31, or leave it out",
                "--set {name}=…: {text}。1200、12.5、2024-01-31 のように書くか、指定を外してください"
            ))
            .into());
        }
        values[at] = Some(value.as_str());
    }
    Ok(values)
}

/// Says which values were not read.
pub(super) fn tell_of(unread: &Unread<'_>) {
    unread.said().iter().for_each(|text| tell(["warning", "警告"], text));
}

fn unknown(columns: &[SideColumn], name: &str) -> Usage {
    if columns.is_empty() {
        return Usage(tr!(
            "--set {name}=…: this model reads texts alone; leave it out, or train with --columns {name}",
            "--set {name}=…: このモデルはテキストだけを読みます。指定を外すか、--columns {name} を付けて学習してください"
        ));
    }
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let hint = did_you_mean(name, names.iter().copied());
    let known = listed(&names);
    Usage(tr!(
        "--set {name}=…: expected one of the columns that the model reads ({known}), found {}{hint}",
        "--set {name}=…: モデルが読む列（{known}）のいずれかが必要ですが、{} です{hint}",
        quoted(name)
    ))
}
