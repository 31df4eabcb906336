//! Models, loaded at the precision that was asked for.

use crate::Usage;
use crate::args::Precision;
use chumoku::{NgramClassifier, Result, TextClassifier, TextEmbedder, TextGenerator, TextTranslator, tr};
use std::path::Path;

pub(super) fn classifier(folder: &Path, precision: Option<Precision>) -> Result<TextClassifier> {
    let mut model = TextClassifier::load(folder)?;
    precision.into_iter().for_each(|precision| model.set_precision(precision.into()));
    Ok(model)
}

pub(super) fn generator(folder: &Path, precision: Option<Precision>) -> Result<TextGenerator> {
    let mut model = TextGenerator::load(folder)?;
    precision.into_iter().for_each(|precision| model.set_precision(precision.into()));
    Ok(model)
}

pub(super) fn translator(folder: &Path, precision: Option<Precision>) -> Result<TextTranslator> {
    let mut model = TextTranslator::load(folder)?;
    precision.into_iter().for_each(|precision| model.set_precision(precision.into()));
    Ok(model)
}

pub(super) fn embedder(folder: &Path, precision: Option<Precision>) -> Result<TextEmbedder> {
    TextEmbedder::load(folder, precision.map(Into::into))
}

/// An n-gram model, which has no products of matrices.
pub(super) fn ngrams(folder: &Path, precision: Option<Precision>) -> anyhow::Result<NgramClassifier> {
    if precision.is_some() {
        let problem = tr!(
            "--precision: an n-gram model has no matrix products; leave it out",
            "--precision: n-gram モデルには行列積がありません。指定を外してください"
        );
        return Err(Usage(problem).into());
    }
    Ok(NgramClassifier::load(folder)?)
}
