//! Training files and their read options, as a model folder stores them, so that the files can be read again.

use crate::data::{Format, LabelOptions, ReadOptions};
use crate::model_folder::{METRICS, current_path};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The files of one training run, and how they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct DataSource {
    /// The path of the training file, as the user gave it.
    pub train: String,
    /// Additional training files, whose rows follow those of the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// True if the training rows came through a pipe and cannot be read again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_piped: bool,
    /// The validation file, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid: Option<String>,
    /// The test file, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sheet: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Format>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    find_delimiter: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    skip_bad_rows: bool,
    /// True if the first row holds the column names.
    #[serde(skip_serializing_if = "Option::is_none")]
    header: Option<bool>,
    /// The values that mark a missing value.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<Vec<String>>,
    /// The decimal separator of the numbers to predict.
    #[serde(skip_serializing_if = "Option::is_none")]
    decimal: Option<char>,
    /// True if different spellings of a label were merged.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    merge_labels: bool,
    /// The columns that each hold one label.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    labels: Vec<String>,
    /// The separator of several labels in a column.
    #[serde(skip_serializing_if = "Option::is_none")]
    separator: Option<char>,
}

impl DataSource {
    /// Describes a training file, and the validation and test files, read with these options.
    pub fn new(train: &Path, [valid, test]: [Option<&Path>; 2], options: &ReadOptions) -> DataSource {
        let name = |path: &Path| path.to_string_lossy().into_owned();
        DataSource {
            train: name(train),
            also: Vec::new(),
            is_piped: !options.copies.is_empty(),
            valid: valid.map(name),
            test: test.map(name),
            text: options.text.clone(),
            label: options.label.clone(),
            encoding: options.encoding.clone(),
            sheet: options.sheet.clone(),
            format: options.format,
            find_delimiter: options.find_delimiter,
            skip_bad_rows: options.skip_bad_rows,
            header: options.header,
            missing: options.missing.clone(),
            decimal: options.decimal,
            merge_labels: options.merge_labels.is_some(),
            labels: Vec::new(),
            separator: None,
        }
    }

    /// Names the text column and the label column, or the text column alone.
    pub fn of_columns(names: &[String]) -> DataSource {
        DataSource { text: names.first().cloned(), label: names.get(1).cloned(), ..DataSource::default() }
    }

    /// Adds further training files.
    #[must_use]
    pub fn with_files(self, also: &[PathBuf]) -> DataSource {
        DataSource { also: also.iter().map(|path| path.to_string_lossy().into_owned()).collect(), ..self }
    }

    /// Returns the newest training file of a model. `None` if its folder does not record one.
    pub fn newest_of_model(folder: &Path) -> Option<DataSource> {
        let metrics = read_metrics(folder);
        let files: Vec<DataSource> = serde_json::from_value(metrics["files"].clone()).unwrap_or_default();
        files.into_iter().reduce(|before, source| source.with_defaults(&before))
    }

    /// Fills unset read options from `defaults`.
    #[must_use]
    pub fn with_defaults(self, defaults: &DataSource) -> DataSource {
        DataSource {
            text: self.text.or_else(|| defaults.text.clone()),
            label: self.label.or_else(|| defaults.label.clone()),
            encoding: self.encoding.or_else(|| defaults.encoding.clone()),
            sheet: self.sheet.or_else(|| defaults.sheet.clone()),
            find_delimiter: if self.format.is_some() { self.find_delimiter } else { defaults.find_delimiter },
            format: self.format.or(defaults.format),
            skip_bad_rows: self.skip_bad_rows || defaults.skip_bad_rows,
            header: self.header.or(defaults.header),
            missing: self.missing.or_else(|| defaults.missing.clone()),
            decimal: self.decimal.or(defaults.decimal),
            merge_labels: self.merge_labels || defaults.merge_labels,
            ..self
        }
    }

    /// Sets how several labels per row are written.
    #[must_use]
    pub fn with_labels(self, how: &LabelOptions) -> DataSource {
        DataSource { labels: how.columns.clone(), separator: how.separator, ..self }
    }

    /// Returns how several labels per row are written, if recorded.
    pub fn label_options(&self) -> LabelOptions {
        LabelOptions { columns: self.labels.clone(), separator: self.separator }
    }

    /// Returns the options to read its files with.
    pub fn options(&self) -> ReadOptions {
        let mut options = ReadOptions::default();
        options.text.clone_from(&self.text);
        options.label.clone_from(&self.label);
        options.encoding.clone_from(&self.encoding);
        options.sheet.clone_from(&self.sheet);
        options.format = self.format;
        options.find_delimiter = self.find_delimiter;
        options.skip_bad_rows = self.skip_bad_rows;
        options.header = self.header;
        options.missing.clone_from(&self.missing);
        options.decimal = self.decimal;
        options.merge_labels = self.merge_labels.then(Vec::new);
        options.require_text = true;
        options
    }
}

/// Reads `metrics.json` of a folder. Null if there is none.
pub(crate) fn read_metrics(folder: &Path) -> Value {
    let bytes = std::fs::read(current_path(folder, METRICS)).ok();
    bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_options_survive_json() {
        let mut options = ReadOptions::default();
        (options.text, options.label) = (Some("body".into()), Some("2".into()));
        (options.format, options.skip_bad_rows) = (Some(Format::Csv { delimiter: ';' }), true);
        let source = DataSource::new(Path::new("a.csv"), [None, Some(Path::new("b.csv"))], &options);
        let text = serde_json::to_string(&source).unwrap();
        assert_eq!(
            text,
            r#"{"train":"a.csv","test":"b.csv","text":"body","label":"2","format":{"csv":{"delimiter":";"}},"skip_bad_rows":true}"#
        );
        let again: DataSource = serde_json::from_str(&text).unwrap();
        assert_eq!(again, source);
        options.require_text = true;
        assert_eq!(again.options(), options);
        let how = LabelOptions { columns: vec!["a".into(), "b".into()], separator: None };
        let labels = again.clone().with_labels(&how);
        let text = serde_json::to_string(&labels).unwrap();
        assert_eq!(serde_json::from_str::<DataSource>(&text).unwrap().label_options(), how);
        assert_eq!(again.label_options(), LabelOptions::default());
    }
}
