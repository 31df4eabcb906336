//! What a folder remembers of the files that its model was trained on, so that they can be read again.

use crate::data::{Format, LabelOptions, ReadOptions};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The files of one training, and how they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Source {
    /// The training file, as it was named.
    pub train: String,
    /// The validation file, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid: Option<String>,
    /// The test file, if there was one.
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
    /// Columns that are a label each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    labels: Vec<String>,
    /// What stands between several labels of a column.
    #[serde(skip_serializing_if = "Option::is_none")]
    separator: Option<char>,
}

impl Source {
    /// A training file, and the validation and test files, as they are read with these options.
    pub fn new(train: &Path, [valid, test]: [Option<&Path>; 2], options: &ReadOptions) -> Source {
        let name = |path: &Path| path.to_string_lossy().into_owned();
        Source {
            train: name(train),
            valid: valid.map(name),
            test: test.map(name),
            text: options.text.clone(),
            label: options.label.clone(),
            encoding: options.encoding.clone(),
            sheet: options.sheet.clone(),
            format: options.format,
            find_delimiter: options.find_delimiter,
            skip_bad_rows: options.skip_bad_rows,
            labels: Vec::new(),
            separator: None,
        }
    }

    /// The same files, whose rows have any number of labels, written like this.
    #[must_use]
    pub fn with_labels(self, how: &LabelOptions) -> Source {
        Source { labels: how.columns.clone(), separator: how.separator, ..self }
    }

    /// How the labels of its rows were written, as far as that was said.
    pub fn label_options(&self) -> LabelOptions {
        LabelOptions { columns: self.labels.clone(), separator: self.separator }
    }

    /// How its files were read.
    pub fn options(&self) -> ReadOptions {
        let mut options = ReadOptions::default();
        options.text.clone_from(&self.text);
        options.label.clone_from(&self.label);
        options.encoding.clone_from(&self.encoding);
        options.sheet.clone_from(&self.sheet);
        options.format = self.format;
        options.find_delimiter = self.find_delimiter;
        options.skip_bad_rows = self.skip_bad_rows;
        options.require_text = true;
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_files_were_read_is_remembered() {
        let mut options = ReadOptions::default();
        (options.text, options.label) = (Some("body".into()), Some("2".into()));
        (options.format, options.skip_bad_rows) = (Some(Format::Csv { delimiter: ';' }), true);
        let source = Source::new(Path::new("a.csv"), [None, Some(Path::new("b.csv"))], &options);
        let text = serde_json::to_string(&source).unwrap();
        assert_eq!(
            text,
            r#"{"train":"a.csv","test":"b.csv","text":"body","label":"2","format":{"csv":{"delimiter":";"}},"skip_bad_rows":true}"#
        );
        let again: Source = serde_json::from_str(&text).unwrap();
        assert_eq!(again, source);
        options.require_text = true;
        assert_eq!(again.options(), options);
        let how = LabelOptions { columns: vec!["a".into(), "b".into()], separator: None };
        let labels = again.clone().with_labels(&how);
        let text = serde_json::to_string(&labels).unwrap();
        assert_eq!(serde_json::from_str::<Source>(&text).unwrap().label_options(), how);
        assert_eq!(again.label_options(), LabelOptions::default());
    }
}
