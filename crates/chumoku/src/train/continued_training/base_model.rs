//! The base model of continued training, as its folder describes it.

use crate::blend::number::NumberDiscretizer;
use crate::data::SpanUnit;
use crate::feature_columns::FeatureColumn;
use crate::hierarchy::{Hierarchy, HierarchySource};
use crate::lang::wording::format_thousands;
use crate::model_folder::{self, ModelKind, Snapshot, pretrained_kind, with_snapshot};
use crate::nn::BackboneKind;
use crate::prediction::target::PredictionTarget;
use crate::text_models::classifier::TextClassifier;
use crate::text_models::ngrams::NgramClassifier;
use crate::text_models::predictor::Predictor;
use crate::text_models::tagger::TextTagger;
use crate::train::data::base_snapshot::BaseSnapshot;
use crate::train::data::data_source::{DataSource, read_metrics};
use crate::train::data::training_texts::TrainingTexts;
use crate::{Error, Result, tr};
use chumoku_text::row::{FeatureRequest, RowRef};
use std::path::Path;

/// The kind of prediction that a model makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PredictionKind {
    /// One of several classes.
    #[default]
    Class,
    /// Any number of labels.
    Labels,
    /// A number.
    Number,
    /// Labels of words.
    Spans,
}

/// The description of a base model, read from its folder.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BaseModel {
    /// The kind of prediction.
    pub predicts: PredictionKind,
    /// The classes, labels or kinds of spans. For numbers, the thresholds.
    pub labels: Vec<String>,
    /// The bins of a predictor of numbers; empty for other models.
    pub discretizer: NumberDiscretizer,
    /// For a tagger: the unit that gets a label, and whether every unit has one.
    pub(crate) spans: Option<(SpanUnit, bool)>,
    /// The feature columns, in order.
    pub columns: Vec<FeatureColumn>,
    /// The kind of network. `None` for taggers and for n-grams alone.
    pub network: Option<BackboneKind>,
    /// True if the network was fine-tuned from a pretrained encoder.
    pub is_fine_tuned: bool,
    /// True if the texts are [pairs](crate::row).
    pub reads_pairs: bool,
    /// The training files, in order. Empty if the folder does not record them.
    pub sources: Vec<DataSource>,
    /// The hierarchy of the classes or labels, if any.
    hierarchy: Option<Hierarchy>,
    /// The format of labels in a hierarchy.
    paths: Option<HierarchySource>,
    /// The SHA-256 of the training rows.
    data_sha256: String,
    base: BaseSnapshot,
}

/// Returns `true` if a folder holds a model trained here: a predictor or a tagger.
fn is_trained_here(folder: &Snapshot) -> bool {
    let is_one = |kind| matches!(kind, ModelKind::Classifier | ModelKind::Ngrams | ModelKind::Tagger);
    model_folder::is_chumoku_model(folder) && ModelKind::from_snapshot(folder).is_ok_and(is_one)
}

/// Returns `true` for such a model in our own file format. Other training cannot start from it.
pub(crate) fn is_in_chumoku_format(folder: &Snapshot) -> bool {
    pretrained_kind(folder).is_none() && is_trained_here(folder)
}

impl BaseModel {
    /// Reads the description of a model folder. `None` if the folder holds no predictor and no tagger that was trained
    /// here.
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
                    predicts: PredictionKind::Spans,
                    labels: tagger.labels().to_vec(),
                    spans: Some((tagger.config().unit, tagger.config().each_word)),
                    is_fine_tuned: tagger.has_network(),
                    ..BaseModel::default()
                }
            }
            ModelKind::Ngrams => {
                let model = NgramClassifier::from_snapshot(folder)?;
                BaseModel::from_predictor((&model).into())
            }
            _ => {
                let model = TextClassifier::from_snapshot(folder)?;
                BaseModel { is_fine_tuned: model.origin.is_some(), ..BaseModel::from_predictor((&model).into()) }
            }
        };
        // A missing report only means that the user must name the training files.
        let metrics = read_metrics(folder);
        let mut sources: Vec<DataSource> = serde_json::from_value(metrics["files"].clone()).unwrap_or_default();
        // If some rows cannot be read again, a list of the others would be incomplete.
        if sources.iter().any(|source| source.is_piped) {
            sources.clear();
        }
        let data_sha256 = metrics["data_sha256"].as_str().unwrap_or_default().to_owned();
        let training_texts = TrainingTexts::from_snapshot(folder)?.unwrap_or_default();
        let base = BaseSnapshot { identity: folder.identity().clone(), training_texts };
        let paths = known.hierarchy.as_ref().map(|tree| HierarchySource::from_tree(tree, folder));
        Ok(Some(BaseModel { sources, data_sha256, base, paths, ..known }))
    }

    fn from_predictor(model: Predictor<'_>) -> BaseModel {
        let (tells, discretizer) = match model.target() {
            PredictionTarget::OneClass => (PredictionKind::Class, NumberDiscretizer::default()),
            PredictionTarget::Labels(_) => (PredictionKind::Labels, NumberDiscretizer::default()),
            PredictionTarget::Number(number) => (PredictionKind::Number, number.discretizer.clone()),
        };
        BaseModel {
            predicts: tells,
            labels: model.labels().to_vec(),
            discretizer,
            columns: model.columns().to_vec(),
            network: model.network_kind(),
            reads_pairs: model.reads_pairs(),
            hierarchy: model.any_hierarchy().cloned(),
            ..BaseModel::default()
        }
    }

    /// The feature columns, as a request to the reader of new files.
    #[must_use]
    pub fn column_requests(&self) -> Vec<FeatureRequest> {
        let request = |column: &FeatureColumn| FeatureRequest {
            name: column.name.clone(),
            kind: Some(column.kind_name().to_owned()),
            is_required: true,
            ..FeatureRequest::default()
        };
        self.columns.iter().map(request).collect()
    }

    /// The model, to be read again in later steps of training.
    pub(crate) fn snapshot(&self) -> BaseSnapshot {
        self.base.clone()
    }

    /// The format of labels in a hierarchy, if there is one.
    pub(crate) fn paths(&self) -> Option<&HierarchySource> {
        self.paths.as_ref()
    }

    /// Looks up new labels in a file of children and parents, `requested`. The hierarchy of the model must come from such a
    /// file.
    ///
    /// # Errors
    /// If the model has no hierarchy, its labels are paths, the file cannot be read, or a label of the model has
    /// another parent in it.
    pub fn set_hierarchy(&mut self, requested: &str) -> Result<()> {
        let is_file = self.hierarchy.as_ref().filter(|tree| tree.separator().is_none());
        let Some(tree) = is_file else {
            return Err(Error::Setting(match &self.hierarchy {
                None => tr!(
                    "--hierarchy: the model's labels have no hierarchy, and continued training cannot add one; leave \
                     it out, or train a new model on old and new rows together",
                    "--hierarchy: このモデルのラベルには階層がなく、追加学習では付けられません。指定を外すか、元のデータと新しいデータを合わせて新しいモデルを学習してください"
                ),
                Some(_) => tr!(
                    "--hierarchy: the model's labels are paths, so new labels are read as paths too; leave it out",
                    "--hierarchy: このモデルのラベルは既にパスで、新しいラベルもパスとして読みます。指定を外してください"
                ),
            }));
        };
        let paths = HierarchySource::from_file(Path::new(requested))?;
        if let HierarchySource::Parents(parents) = &paths {
            parents.check_extends(tree)?;
        }
        self.paths = Some(paths);
        Ok(())
    }

    /// Returns a warning if some of the new held-out `texts` were trained on before. This happens if old rows are not
    /// replayed.
    #[must_use]
    pub fn seen_held_out_note(&self, texts: &[RowRef<'_>]) -> Option<String> {
        let count = self.base.training_texts.count(texts);
        (count > 0).then(|| {
            tr!(
                "warning: the model was already trained on the texts of {} of the {} new held-out rows: their scores \
                 say nothing about new texts",
                "警告: 検証・テストに使う新しい {1} 行のうち {0} 行は、モデルが以前に学習したテキストです。その成績から、未知のテキストについては\
                 何も分かりません",
                format_thousands(count),
                format_thousands(texts.len())
            )
        })
    }

    /// Returns a warning if the model was trained on other old rows than those with this SHA-256.
    #[must_use]
    pub fn changed_rows_note(&self, sha256: &str) -> Option<String> {
        (!self.was_trained_on(sha256)).then(|| {
            tr!(
                "warning: the old rows differ from those that the model was trained on, or are split differently: the \
                 model may have been trained on some of the held-out rows",
                "警告: 元のデータが、モデルの学習に使ったものと同じではありません。いま検証やテストに使う行を、モデルは学習した\
                 かもしれません"
            )
        })
    }

    /// Returns `true` if the model was trained on rows with this SHA-256, in the same parts.
    pub fn was_trained_on(&self, sha256: &str) -> bool {
        sha256 == self.data_sha256
    }
}
