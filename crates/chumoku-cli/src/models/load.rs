//! Loads models at the requested precision.
//!
//! Models are never freed: freeing a vocabulary of 250,000 tokens one by one takes 0.2 s at exit.

use crate::UsageError;
use crate::args::Precision;
use crate::progress::print_status;
use chumoku::answers::{PredictOptions, load_ngrams, load_predictor, load_tagger};
use chumoku::{
    ModelKind, NgramClassifier, Predictor, Result, TextAutoencoder, TextClassifier, TextEmbedder, TextGenerator,
    TextTagger, TextTranslator, tr,
};
use std::path::Path;

pub(crate) fn classifier(folder: &Path, precision: Option<Precision>) -> Result<&'static TextClassifier> {
    let mut model = TextClassifier::load(folder)?;
    precision.into_iter().for_each(|precision| model.set_precision(precision.into()));
    Ok(Box::leak(Box::new(model)))
}

/// Reports a threshold that was chosen on the validation rows.
pub(crate) fn report_threshold(text: &str) {
    print_status(["threshold", "しきい値"], text);
}

fn with_precision(precision: Option<Precision>) -> PredictOptions {
    PredictOptions { precision: precision.map(Into::into), ..PredictOptions::default() }
}

/// Loads a model of classes, labels or numbers. Loading fails with a message for a folder of another kind.
pub(crate) fn predictor(folder: &Path, precision: Option<Precision>) -> Result<Predictor<'static>> {
    load_predictor(folder, &with_precision(precision), &mut report_threshold)
}

/// Loads an n-gram model, which has no matrix products.
pub(crate) fn ngrams(folder: &Path, precision: Option<Precision>) -> Result<&'static NgramClassifier> {
    load_ngrams(folder, &with_precision(precision), &mut report_threshold)
}

/// Loads a tagger. Without a network it has no matrix products.
pub(crate) fn tagger(folder: &Path, precision: Option<Precision>) -> Result<&'static TextTagger> {
    load_tagger(folder, &with_precision(precision))
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

pub(crate) fn autoencoder(folder: &Path, precision: Option<Precision>) -> Result<&'static TextAutoencoder> {
    let mut model = TextAutoencoder::load(folder)?;
    precision.into_iter().for_each(|precision| model.set_precision(precision.into()));
    Ok(Box::leak(Box::new(model)))
}

pub(crate) fn embedder(folder: &Path, precision: Option<Precision>) -> Result<&'static TextEmbedder> {
    Ok(Box::leak(Box::new(TextEmbedder::load(folder, precision.map(Into::into))?)))
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
            "{folder}: this is an n-gram model, which has no attention; name a model with a transformer, as \
             `chumoku train` without --model ngrams makes them",
            "{folder}: n-gram モデルにはアテンションがありません。トランスフォーマーのモデル（--model ngrams なしの \
             `chumoku train` で作ったもの）を指定してください"
        ),
        ModelKind::Tagger | ModelKind::Autoencoder => {
            tr!("{folder}: this is {}", "{folder}: このモデルは{}です", kind.describe())
        }
        _ => return Ok(kind),
    };
    Err(UsageError(problem).into())
}
