//! The end of every report of a classifier: feature columns, the comparison with the base model, and the files.

use super::feature_columns::ColumnBenefit;
use super::target::ClassifierTarget;
use crate::Result;
use crate::model_folder::TRAINED_ON;
use crate::text_models::classifier::TextClassifier;
use crate::text_models::ngrams::NgramClassifier;
use crate::text_models::predictor::Predictor;
use crate::train::continued_training::model_changes::compare_models;
use crate::train::data::training_data::TrainingData;
use crate::train::settings::options::TrainOptions;
use serde_json::Value;

/// Adds the benefit of feature columns and, in continued training, the comparison with the base model to the report.
/// Returns the files of the model.
///
/// `base` is the base model of a network. That of an n-gram model is read again.
pub(crate) fn finish_report<A: ClassifierTarget>(
    data: &TrainingData<A>,
    options: &TrainOptions,
    model: Predictor<'_>,
    base: Option<&TextClassifier>,
    column_benefit: Option<&ColumnBenefit>,
    metrics: &mut Value,
    card: &mut String,
) -> Result<Vec<(&'static str, Vec<u8>)>> {
    column_benefit.iter().for_each(|benefit| *card += &benefit.section(&data.columns));
    let ngram_base = match (model, &options.from, &data.continued) {
        (Predictor::Ngrams(_), Some(folder), Some(continued)) => {
            Some(continued.base.read(folder, NgramClassifier::from_snapshot)?)
        }
        _ => None,
    };
    let base = ngram_base.as_ref().map(Predictor::Ngrams).or(base.map(Predictor::Classifier));
    if let Some(base) = base
        && let Some((figures, section)) = compare_models(data, [base, model], options.seed)?
    {
        metrics["further"] = figures;
        *card += &section;
    }
    let mut files = match model {
        Predictor::Classifier(model) => model.files()?,
        Predictor::Ngrams(model) => model.files(),
    };
    // They include the texts of the base model, even if they are not replayed.
    let known = data.continued.as_ref().map(|continued| continued.base.training_texts.clone()).unwrap_or_default();
    files.push((TRAINED_ON, known.with(&[data.train.texts(), data.valid.texts()].concat()).to_bytes()));
    Ok(files)
}
