//! Loads models at the requested precision.
//!
//! Models are never freed: freeing a vocabulary of 250,000 tokens one by one takes 0.2 s at exit.

use super::thresholds::ThresholdClasses;
use crate::UsageError;
use crate::args::{Precision, ThresholdArgs};
use chumoku::{
    ModelKind, NgramClassifier, Predictor, Result, TextClassifier, TextEmbedder, TextGenerator, TextTagger,
    TextTranslator, tr,
};
use std::path::Path;

pub(super) fn classifier(folder: &Path, precision: Option<Precision>) -> Result<&'static TextClassifier> {
    let mut model = TextClassifier::load(folder)?;
    precision.into_iter().for_each(|precision| model.set_precision(precision.into()));
    Ok(Box::leak(Box::new(model)))
}

/// Loads a model of classes, labels or numbers, with the thresholds of the command line if there are any. Loading fails
/// with a message for a folder of another kind.
pub(super) fn predictor(
    folder: &Path,
    precision: Option<Precision>,
    asked: &ThresholdArgs,
) -> anyhow::Result<Predictor<'static>> {
    let thresholds = |model: Predictor<'_>| {
        asked.is_given().then(|| ThresholdClasses::of_model(model)?.thresholds(asked)).transpose()
    };
    if ModelKind::from_folder(folder)? != ModelKind::Ngrams {
        let mut model = TextClassifier::load(folder)?;
        precision.into_iter().for_each(|precision| model.set_precision(precision.into()));
        thresholds((&model).into())?.map_or(Ok(()), |least| model.set_thresholds(&least))?;
        return Ok(Predictor::Classifier(Box::leak(Box::new(model))));
    }
    refuse_precision(precision)?;
    let mut model = NgramClassifier::load(folder)?;
    thresholds((&model).into())?.map_or(Ok(()), |least| model.set_thresholds(&least))?;
    Ok(Predictor::Ngrams(Box::leak(Box::new(model))))
}

pub(super) fn generator(folder: &Path, precision: Option<Precision>) -> Result<&'static TextGenerator> {
    let mut model = TextGenerator::load(folder)?;
    precision.into_iter().for_each(|precision| model.set_precision(precision.into()));
    Ok(Box::leak(Box::new(model)))
}

pub(super) fn translator(folder: &Path, precision: Option<Precision>) -> Result<&'static TextTranslator> {
    let mut model = TextTranslator::load(folder)?;
    precision.into_iter().for_each(|precision| model.set_precision(precision.into()));
    Ok(Box::leak(Box::new(model)))
}

pub(super) fn embedder(folder: &Path, precision: Option<Precision>) -> Result<&'static TextEmbedder> {
    Ok(Box::leak(Box::new(TextEmbedder::load(folder, precision.map(Into::into))?)))
}

/// Loads a tagger. Without a network it has no matrix products.
pub(super) fn tagger(folder: &Path, precision: Option<Precision>) -> anyhow::Result<&'static TextTagger> {
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
pub(super) fn ngrams(folder: &Path, precision: Option<Precision>) -> anyhow::Result<&'static NgramClassifier> {
    refuse_precision(precision)?;
    Ok(Box::leak(Box::new(NgramClassifier::load(folder)?)))
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
