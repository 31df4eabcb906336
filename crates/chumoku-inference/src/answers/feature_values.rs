//! Values of feature columns for all texts, for `--set`.

use crate::lang::wording::{did_you_mean, list_names, quote};
use crate::row::{AsRow, FeatureRequest, Row};
use crate::{Error, FeatureColumn, Result, tr};

/// The inputs that a model reads from a row.
#[derive(Clone, Debug, Default)]
pub struct ModelInputs {
    /// `true` if texts are pairs.
    pub pairs: bool,
    /// The feature columns.
    pub feature_columns: Vec<FeatureRequest>,
}

impl ModelInputs {
    /// Returns the names of the columns that rows must have: those without a value for all rows.
    #[must_use]
    pub fn column_names(&self) -> Vec<String> {
        let columns = self.feature_columns.iter().filter(|column| column.value.is_none());
        columns.map(|column| column.name.clone()).collect()
    }

    /// Joins a text with the values of its [columns](Self::column_names), as the model reads it.
    #[must_use]
    pub fn with_columns(&self, text: impl AsRow, cells: &[String]) -> Row {
        if self.feature_columns.is_empty() {
            return text.as_row().to_row();
        }
        let mut cells = cells.iter();
        let each = self.feature_columns.iter().map(|column| match &column.value {
            Some(value) => value.clone(),
            None => cells.next().cloned().unwrap_or_default(),
        });
        text.as_row().with_values(&each.collect::<Vec<_>>())
    }
}

/// Returns the columns that a file must have for a model of these `columns`: all except those that `--set` gives.
///
/// # Errors
/// As for [`feature_values`].
pub fn required_columns(columns: &[FeatureColumn], set: &[(String, String)]) -> Result<Vec<FeatureRequest>> {
    let values = feature_values(columns, set)?;
    let request = |(column, value): (&FeatureColumn, Option<&str>)| FeatureRequest {
        name: column.name.clone(),
        value: value.map(str::to_owned),
        is_required: true,
        ..FeatureRequest::default()
    };
    Ok(columns.iter().zip(values).map(request).collect())
}

/// Returns the value of `--set` for each column; the last one wins if a column is named twice.
///
/// # Errors
/// If a name is no column of the model, or a value cannot be read.
pub fn feature_values<'a>(columns: &[FeatureColumn], set: &'a [(String, String)]) -> Result<Vec<Option<&'a str>>> {
    let mut values = vec![None; columns.len()];
    for (name, value) in set {
        let same = |column: &FeatureColumn| column.name.to_lowercase() == name.to_lowercase();
        let at = columns.iter().position(|column| column.name == *name).or_else(|| columns.iter().position(same));
        let Some(at) = at else { return Err(unknown_column(columns, name)) };
        if columns[at].is_unreadable(value) {
            let (text, name) = (columns[at].error_message(value), &columns[at].name);
            return Err(Error::Setting(tr!(
                "--set {name}=…: {text}: write 1200, 12.5 or 2024-01-31, or leave it out",
                "--set {name}=…: {text}。1200、12.5、2024-01-31 のように書くか、指定を外してください"
            )));
        }
        values[at] = Some(value.as_str());
    }
    Ok(values)
}

fn unknown_column(columns: &[FeatureColumn], name: &str) -> Error {
    if columns.is_empty() {
        return Error::Setting(tr!(
            "--set {name}=…: this model reads no feature columns; leave it out, or train with --columns {name}",
            "--set {name}=…: このモデルはテキストだけを読みます。指定を外すか、--columns {name} を付けて学習してください"
        ));
    }
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let hint = did_you_mean(name, names.iter().copied());
    let known = list_names(&names);
    Error::Setting(tr!(
        "--set {name}=…: expected one of the columns that the model reads ({known}), found {}{hint}",
        "--set {name}=…: モデルが読む列（{known}）のいずれかが必要ですが、{} です{hint}",
        quote(name)
    ))
}
