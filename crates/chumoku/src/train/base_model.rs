//! A model of one's own that can be trained further, as its folder describes it.

use super::data_source::read_metrics;
use super::{DataSource, SeenTexts};
use crate::answers::Predictor;
use crate::data::SpanUnit;
use crate::feature_columns::FeatureColumn;
use crate::hierarchy::{Hierarchy, HierarchySource};
use crate::lang::wording::format_thousands;
use crate::model_folder::{self, ModelIdentity, ModelKind, Snapshot, pretrained_kind, with_snapshot};
use crate::nn::BackboneKind;
use crate::number::NumberScale;
use crate::prediction_target::PredictionTarget;
use crate::text_classifier::TextClassifier;
use crate::text_ngrams::NgramClassifier;
use crate::text_tagger::TextTagger;
use crate::{Error, Result, tr};
use chumoku_text::feature_columns::FeatureRequest;
use std::path::Path;

/// What a model tells of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PredictionKind {
    /// One class of several.
    #[default]
    Class,
    /// Any number of labels.
    Labels,
    /// A number.
    Number,
    /// Labels of words.
    Spans,
}

/// A model that can be trained further, as its folder describes it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BaseModel {
    /// What it tells of a text.
    pub tells: PredictionKind,
    /// Its classes, labels or kinds of spans; of numbers, the thresholds.
    pub labels: Vec<String>,
    /// Of numbers, their scale; empty otherwise.
    pub scale: NumberScale,
    /// Of a tagger, what gets a label, and whether each word has one.
    pub spans: Option<(SpanUnit, bool)>,
    /// The columns beside the text that it reads, in order.
    pub columns: Vec<FeatureColumn>,
    /// Its network; none where it is of n-grams alone, or a tagger.
    pub network: Option<BackboneKind>,
    /// Whether its network began as a pretrained encoder.
    pub is_fine_tuned: bool,
    /// Whether its texts are [pairs](crate::pair).
    pub reads_pairs: bool,
    /// The files that it was trained on, one after the other; none where the folder does not say.
    pub sources: Vec<DataSource>,
    /// The tree that its classes or labels stand in.
    hierarchy: Option<Hierarchy>,
    /// How labels say where they stand in it.
    paths: Option<HierarchySource>,
    /// SHA-256 of their rows.
    data_sha256: String,
    base: BaseSnapshot,
}

/// The model in a folder that training continues from.
#[derive(Clone, Debug, Default)]
pub(crate) struct BaseSnapshot {
    /// Tells it from any model that takes its place.
    identity: ModelIdentity,
    /// The texts that it was trained on or chosen by, with those of the model that it was itself trained further from.
    pub(super) seen: SeenTexts,
}

impl BaseSnapshot {
    /// Reads the model's folder again.
    ///
    /// # Errors
    /// If the folder holds another model now; those of `read`.
    pub(super) fn read<T>(&self, folder: &Path, mut read: impl FnMut(&Snapshot) -> Result<T>) -> Result<T> {
        with_snapshot(folder, |folder| match *folder.identity() == self.identity {
            true => read(folder),
            false => Err(base_replaced_error(folder)),
        })
    }
}

/// The error of a model that was replaced while another is trained from it.
pub(super) fn base_replaced_error(folder: &Path) -> Error {
    let problem = tr!(
        "expected the model that training began from, found another that has taken its place; train again",
        "学習の開始時とは別のモデルに置き換えられています。学習し直してください"
    );
    Error::Model { path: folder.to_owned(), problem }
}

/// Whether a folder holds a model that was trained here: a predictor, with or without a network, or a tagger.
fn is_trained_here(folder: &Snapshot) -> bool {
    let is_one = |kind| matches!(kind, ModelKind::Classifier | ModelKind::Ngrams | ModelKind::Tagger);
    model_folder::is_ours(folder) && ModelKind::from_snapshot(folder).is_ok_and(is_one)
}

/// Whether a folder holds such a model in a form of our own, which no other training starts from.
pub(super) fn is_in_chumoku_format(folder: &Snapshot) -> bool {
    pretrained_kind(folder).is_none() && is_trained_here(folder)
}

impl BaseModel {
    /// What a folder holds; none if that is no predictor of classes, labels or numbers and no tagger that was trained here.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(folder: &Path) -> Result<Option<BaseModel>> {
        with_snapshot(folder, BaseModel::from_snapshot)
    }

    fn from_snapshot(folder: &Snapshot) -> Result<Option<BaseModel>> {
        if !is_trained_here(folder) {
            return Ok(None);
        }
        let known = match ModelKind::from_snapshot(folder)? {
            ModelKind::Tagger => {
                let tagger = TextTagger::from_snapshot(folder)?;
                BaseModel {
                    tells: PredictionKind::Spans,
                    labels: tagger.labels().to_vec(),
                    spans: Some((tagger.config().unit, tagger.config().each_word)),
                    is_fine_tuned: tagger.has_network(),
                    ..BaseModel::default()
                }
            }
            ModelKind::Ngrams => {
                let model = NgramClassifier::from_snapshot(folder)?;
                BaseModel::from_predictor(Predictor::Ngrams(&model), model.config().hierarchy.as_ref(), None)
            }
            _ => {
                let model = TextClassifier::from_snapshot(folder)?;
                let (tree, network) = (model.config().hierarchy.as_ref(), model.config().model.body.kind());
                let known = BaseModel::from_predictor(Predictor::Classifier(&model), tree, Some(network));
                BaseModel { is_fine_tuned: model.origin.is_some(), ..known }
            }
        };
        // Whoever deleted the report has to name the rows, no more.
        let metrics = read_metrics(folder);
        let mut sources: Vec<DataSource> = serde_json::from_value(metrics["files"].clone()).unwrap_or_default();
        // Where some rows cannot be found again, no list of the others would do.
        if sources.iter().any(|source| source.is_piped) {
            sources.clear();
        }
        let data_sha256 = metrics["data_sha256"].as_str().unwrap_or_default().to_owned();
        let seen = SeenTexts::from_snapshot(folder)?.unwrap_or_default();
        let base = BaseSnapshot { identity: folder.identity().clone(), seen };
        let paths = known.hierarchy.as_ref().map(|tree| HierarchySource::from_tree(tree, folder));
        Ok(Some(BaseModel { sources, data_sha256, base, paths, ..known }))
    }

    fn from_predictor(model: Predictor<'_>, hierarchy: Option<&Hierarchy>, network: Option<BackboneKind>) -> BaseModel {
        let (tells, scale) = match model.target() {
            PredictionTarget::OneClass => (PredictionKind::Class, NumberScale::default()),
            PredictionTarget::Labels(_) => (PredictionKind::Labels, NumberScale::default()),
            PredictionTarget::Number(number) => (PredictionKind::Number, number.scale.clone()),
        };
        BaseModel {
            tells,
            labels: model.labels().to_vec(),
            scale,
            columns: model.columns().to_vec(),
            network,
            reads_pairs: model.reads_pairs(),
            hierarchy: hierarchy.cloned(),
            ..BaseModel::default()
        }
    }

    /// The columns that it reads beside the text, as they are asked for where files are read.
    #[must_use]
    pub fn column_requests(&self) -> Vec<FeatureRequest> {
        let asked = |column: &FeatureColumn| FeatureRequest {
            name: column.name.clone(),
            kind: Some(column.kind_name().to_owned()),
            is_required: true,
            ..FeatureRequest::default()
        };
        self.columns.iter().map(asked).collect()
    }

    /// The model as later steps of training find it again.
    pub(super) fn snapshot(&self) -> BaseSnapshot {
        self.base.clone()
    }

    /// How labels say where they stand in the tree, if they stand in one.
    pub(super) fn paths(&self) -> Option<&HierarchySource> {
        self.paths.as_ref()
    }

    /// Looks up new labels in a file of children and parents, `asked`, where the tree of the model came from such a file.
    ///
    /// # Errors
    /// If the model has no tree, its labels are paths, the file cannot be read, or it has another parent for a label of the model.
    pub fn set_hierarchy(&mut self, asked: &str) -> Result<()> {
        let is_file = self.hierarchy.as_ref().filter(|tree| tree.separator().is_none());
        let Some(tree) = is_file else {
            return Err(Error::Setting(match &self.hierarchy {
                None => tr!(
                    "--hierarchy: the model's labels do not stand in a tree, and stay as they are where it is trained further; leave it out, \
                     or train anew on the old and the new rows together",
                    "--hierarchy: このモデルのラベルに階層はなく、追加学習でも変わりません。指定を外すか、元のデータと新しいデータを合わせて\
                     学習し直してください"
                ),
                Some(_) => tr!(
                    "--hierarchy: the model's labels are paths already, and so are those of new rows; leave it out",
                    "--hierarchy: このモデルのラベルは既にパスで、新しいラベルもパスとして読みます。指定を外してください"
                ),
            }));
        };
        let paths = HierarchySource::from_file(Path::new(asked))?;
        if let HierarchySource::Parents(parents) = &paths {
            parents.check_extends(tree)?;
        }
        self.paths = Some(paths);
        Ok(())
    }

    /// What must be known of the `texts` of new rows that are held out though the model has learnt from them, as where its old rows are
    /// left out.
    #[must_use]
    pub fn seen_held_out_note(&self, texts: &[&str]) -> Option<String> {
        let seen = self.base.seen.count(texts);
        (seen > 0).then(|| {
            tr!(
                "warning: {} of the {} new rows that are held out have a text that the model was trained on before: their scores say \
                 nothing about new texts",
                "警告: 検証・テストに使う新しい {1} 行のうち {0} 行は、モデルが以前に学習したテキストです。その成績から、未知のテキストについては\
                 何も分かりません",
                format_thousands(seen),
                format_thousands(texts.len())
            )
        })
    }

    /// Whether rows with this SHA-256 are those that it was trained on, in the same parts.
    pub fn was_trained_on(&self, sha256: &str) -> bool {
        sha256 == self.data_sha256
    }
}
