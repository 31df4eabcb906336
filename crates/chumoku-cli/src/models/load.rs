//! Loads models at the requested precision.
//!
//! Models are never freed: freeing a vocabulary of 250,000 tokens one by one takes 0.2 s at exit.

use super::thresholds::ThresholdClasses;
use crate::UsageError;
use crate::args::{Precision, ThresholdArgs};
use chumoku::answers::Predictor;
use chumoku::{
    ModelKind, NgramClassifier, Result, TextClassifier, TextEmbedder, TextGenerator, TextTagger, TextTranslator, tr,
};
use std::path::Path;

pub(crate) fn classifier(folder: &Path, precision: Option<Precision>) -> Result<&'static TextClassifier> {
    let mut model = TextClassifier::load(folder)?;
    precision.into_iter().for_each(|precision| model.set_precision(precision.into()));
    Ok(Box::leak(Box::new(model)))
}

/// Loads a classifier, with the thresholds of the command line if there are any.
pub(crate) fn classifier_with_thresholds(
    folder: &Path,
    precision: Option<Precision>,
    asked: &ThresholdArgs,
) -> anyhow::Result<&'static TextClassifier> {
    let mut model = TextClassifier::load(folder)?;
    precision.into_iter().for_each(|precision| model.set_precision(precision.into()));
    if asked.is_given() {
        let least = ThresholdClasses::of_model(Predictor::Classifier(&model))?.thresholds(asked)?;
        model.set_thresholds(&least)?;
    }
    Ok(Box::leak(Box::new(model)))
}

/// Loads an n-gram model, with the thresholds of the command line if there are any.
pub(crate) fn ngrams_with_thresholds(
    folder: &Path,
    precision: Option<Precision>,
    asked: &ThresholdArgs,
) -> anyhow::Result<&'static NgramClassifier> {
    refuse_precision(precision)?;
    let mut model = NgramClassifier::load(folder)?;
    if asked.is_given() {
        let least = ThresholdClasses::of_model(Predictor::Ngrams(&model))?.thresholds(asked)?;
        model.set_thresholds(&least)?;
    }
    Ok(Box::leak(Box::new(model)))
}

pub(crate) fn generator(folder: &Path, precision: Option<Precision>) -> Result<&'static TextGenerator> {
    let mut model = TextGenerator::load(folder)?;
    precision.into_iter().for_each(|precision| model.set_precision(precision.into()));
    Ok(Box::leak(Box::new(model)))
}

pub(crate) fn translator(folder: &Path, precision: Option<Precision>) -> Result<&'static TextTranslator> {
    let mut model = TextTranslator::load(folder)?;
    precision.into_iter().for_each(|precision| model.set_precision(precision.into()));
    Ok(Box::leak(Box::new(model)))
}

pub(crate) fn embedder(folder: &Path, precision: Option<Precision>) -> Result<&'static TextEmbedder> {
    Ok(Box::leak(Box::new(TextEmbedder::load(folder, precision.map(Into::into))?)))
}

/// Loads a tagger. Without a network it has no matrix products.
pub(crate) fn tagger(folder: &Path, precision: Option<Precision>) -> anyhow::Result<&'static TextTagger> {
    let mut model = TextTagger::load(folder)?;
    if precision.is_some() && !model.has_network() {
        let problem = tr!(
            "--precision: this tagger has no matrix products; leave it out",
            "--precision: このモデルには行列積がありません。指定を外してください"
        );
        return Err(UsageError(problem).into());
    }
    precision.into_iter().for_each(|precision| model.set_precision(precision.into()));
    Ok(Box::leak(Box::new(model)))
}

/// Loads an n-gram model, which has no matrix products.
pub(crate) fn ngrams(folder: &Path, precision: Option<Precision>) -> anyhow::Result<&'static NgramClassifier> {
    ngrams_with_thresholds(folder, precision, &ThresholdArgs::default())
}

fn refuse_precision(precision: Option<Precision>) -> anyhow::Result<()> {
    if precision.is_some() {
        let problem = tr!(
            "--precision: an n-gram model has no matrix products; leave it out",
            "--precision: n-gram モデルには行列積がありません。指定を外してください"
        );
        return Err(UsageError(problem).into());
    }
    Ok(())
}

/// Returns the display name of a model: the name of its folder.
pub(crate) fn model_name(folder: &Path) -> String {
    let full = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    full.file_name().map_or_else(|| chumoku::tr!("model", "モデル"), |name| name.to_string_lossy().into_owned())
}

/// Returns the kind of a model that has attention.
///
/// # Errors
/// If the model has no attention, or the folder holds no model.
pub(crate) fn require_attention(folder: &Path) -> anyhow::Result<ModelKind> {
    let kind = ModelKind::from_folder(folder)?;
    let folder = folder.display();
    let problem = match kind {
        ModelKind::Ngrams => tr!(
            "{folder}: this is an n-gram model, which has no attention; name a model with a transformer, such as `chumoku train` \
             without --model ngrams makes it",
            "{folder}: n-gram モデルにはアテンションがありません。トランスフォーマーのモデル（--model ngrams なしの \
             `chumoku train` で作ったもの）を指定してください"
        ),
        ModelKind::Tagger => tr!("{folder}: this is {}", "{folder}: このモデルは{}です", kind.describe()),
        _ => return Ok(kind),
    };
    Err(UsageError(problem).into())
}
