//! What a folder remembers of the files that its model was trained on, so that it can be trained further.

use crate::data::{Format, ReadOptions};
use crate::model_folder::{METRICS, ModelKind, pretrained_kind};
use crate::nn::Network;
use crate::text_classifier::TextClassifier;
use crate::text_ngrams::NgramClassifier;
use crate::{Error, Result, builtin, tr};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;

use super::TrainingData;

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
        }
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

/// A classifier that can be trained further, as its folder describes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Known {
    /// Its classes.
    pub labels: Vec<String>,
    /// Its network; none where it is of n-grams alone.
    pub network: Option<Network>,
    /// Whether its texts are [pairs](crate::pair).
    pub reads_pairs: bool,
    /// The files that it was trained on, one after the other; none where the folder does not say.
    pub sources: Vec<Source>,
    /// [`TrainingData::fingerprint`] of their rows.
    data_sha256: String,
}

/// Whether a folder holds a classifier that was trained here from scratch, with or without a network.
pub(super) fn is_own(folder: &Path) -> bool {
    let kind = || ModelKind::of(folder).is_ok_and(|kind| matches!(kind, ModelKind::Classifier | ModelKind::Ngrams));
    pretrained_kind(folder).is_none() && kind()
}

impl Known {
    /// What a folder holds; none if that is no classifier that was trained here from scratch.
    ///
    /// # Errors
    /// If it cannot be read, or holds a classifier that cannot be trained further: with several labels a text, numbers, a
    /// tree of classes, or columns beside the text.
    pub fn of(folder: &Path) -> Result<Option<Known>> {
        if !is_own(folder) {
            return Ok(None);
        }
        let (labels, network, reads_pairs, is_plain) = match ModelKind::of(folder)? {
            ModelKind::Ngrams => {
                let model = NgramClassifier::load(folder)?;
                let config = model.config();
                let is_plain = config.hierarchy.is_none() && config.columns().is_empty();
                (model.labels().to_vec(), None, config.reads_pairs(), is_plain)
            }
            _ => {
                let model = TextClassifier::load(folder)?;
                let config = model.config();
                let is_plain =
                    config.problem.is_one_class() && config.hierarchy.is_none() && config.columns().is_empty();
                (model.labels().to_vec(), Some(config.model.body.network()), config.reads_pairs(), is_plain)
            }
        };
        if !is_plain {
            return Err(Error::Setting(tr!(
                "--from {}: expected a classifier of one class a text, without a tree of classes and without columns beside the text: \
                 only such are trained further; train anew on the old and the new rows together",
                "--from {}: 追加学習できるのは、階層も追加の列もない、1 テキスト 1 クラスの分類器だけです。元のデータと新しいデータを\
                 合わせて、学習し直してください",
                folder.display()
            )));
        }
        // Whoever deleted the report has to name the rows, no more.
        let metrics: Value = std::fs::read(folder.join(METRICS))
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        let sources = serde_json::from_value(metrics["files"].clone()).unwrap_or_default();
        let data_sha256 = metrics["data_sha256"].as_str().unwrap_or_default().to_owned();
        Ok(Some(Known { labels, network, reads_pairs, sources, data_sha256 }))
    }

    /// Whether these are the rows that it was trained on, in the same parts.
    pub fn was_trained_on(&self, data: &TrainingData) -> bool {
        data.fingerprint() == self.data_sha256
    }

    /// The built-in reviews, if it was trained on them.
    pub fn reviews(&self) -> Option<TrainingData> {
        Some(builtin::reviews()).filter(|data| self.sources.is_empty() && self.was_trained_on(data))
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
    }
}
