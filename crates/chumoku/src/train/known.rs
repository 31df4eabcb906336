//! A classifier of one's own that can be trained further, as its folder describes it.

use super::further::{NEW_TEST, NEW_VALID};
use super::{SeenTexts, Source, TrainingData};
use crate::lang::wording::thousands;
use crate::model_folder::{METRICS, ModelKind, pretrained_kind};
use crate::nn::Network;
use crate::text_classifier::TextClassifier;
use crate::text_ngrams::NgramClassifier;
use crate::{Error, Result, tr};
use serde_json::Value;
use std::path::Path;

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
    /// What it was trained on or chosen by, with what it was itself trained further from.
    seen: SeenTexts,
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
                let is_plain =
                    config.problem.is_one_class() && config.hierarchy.is_none() && config.columns().is_empty();
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
        let seen = SeenTexts::load(folder)?.unwrap_or_default();
        Ok(Some(Known { labels, network, reads_pairs, sources, data_sha256, seen }))
    }

    /// What must be known of new rows that are held out though the model has learnt from them, as where its old rows are left out.
    #[must_use]
    pub fn held_out_again(&self, data: &TrainingData) -> Option<String> {
        let compared = data.further.iter().flat_map(|further| &further.compared);
        let new = compared.filter(|(name, _)| [NEW_VALID, NEW_TEST].contains(name));
        let texts: Vec<&str> = new.flat_map(|(_, rows)| rows.texts()).collect();
        let seen = self.seen.count(&texts);
        (seen > 0).then(|| {
            tr!(
                "warning: {} of the {} new rows that are held out have a text that the model was trained on before: their scores say \
                 nothing about new texts",
                "警告: 検証・テストに使う新しい {1} 行のうち {0} 行は、モデルが以前に学習したテキストです。その成績から、未知のテキストについては\
                 何も分かりません",
                thousands(seen),
                thousands(texts.len())
            )
        })
    }

    /// Whether these are the rows that it was trained on, in the same parts.
    pub fn was_trained_on(&self, data: &TrainingData) -> bool {
        data.fingerprint() == self.data_sha256
    }
}
