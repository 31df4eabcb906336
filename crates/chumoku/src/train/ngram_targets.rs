//! Training n-gram models without a network, for labels or numbers.

use super::card::{abstain_levels, data_section, reported_rows, risk_coverage, unseen_section, usage_section};
use super::cross_validation::cross_validate;
use super::ensemble::LogOdds;
use super::feature_columns::ColumnBenefit;
use super::label_blend_fit::LabelRows;
use super::memory::{ProcessUsage, upper_bound};
use super::model_changes::compare_ngram_models;
use super::ngrams::{fit_and_report, limits_section, refit, seen_texts_file, training_memory};
use super::number::median_scores;
use super::run::report_memory;
use super::strongest_ngrams::{strongest_ngrams, strongest_section};
use super::target::ClassifierTarget;
use super::training::{Training, write_folder};
use super::{LabelScores, NumberScores, TrainEvent, TrainOptions, TrainingData};
use crate::blend::number::{NumberBlend, NumberLabel};
use crate::lang::wording::format_thousands;
use crate::ngram::NgramModel;
use crate::prediction::abstention::AbstentionCalibration;
use crate::prediction::target::PredictionTarget;
use crate::scoring::Rows;
use crate::text_models::ngrams::{NgramClassifier, NgramClassifierConfig};
use crate::{ModelKind, Result, stages, tr};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// The result of training an n-gram model for labels.
#[derive(Debug)]
#[non_exhaustive]
pub struct NgramLabelsOutcome {
    /// The saved model.
    pub model: NgramClassifier,
    /// The content of `metrics.json`.
    pub metrics: Value,
    /// Scores on the test rows.
    pub test: LabelScores,
    /// Scores on the same rows of always predicting the most frequent label.
    pub most_frequent: LabelScores,
}

/// The result of training an n-gram model for numbers.
#[derive(Debug)]
#[non_exhaustive]
pub struct NgramNumberOutcome {
    /// The saved model.
    pub model: NgramClassifier,
    /// The content of `metrics.json`.
    pub metrics: Value,
    /// Scores on the test rows.
    pub test: NumberScores,
    /// Scores on the same rows of always predicting the median of the training rows.
    pub median: NumberScores,
    /// The true and the predicted number of each of these rows.
    pub points: Vec<[f64; 2]>,
}

/// Trains an n-gram model for any number of labels a text and writes the model folder `out`.
///
/// Its scores are those that [`train_labels`](super::train_labels) reports for the n-grams alone.
///
/// # Errors
/// The same as for [`train_ngram_classifier`](super::train_ngram_classifier).
pub fn train_ngram_labels(data: &TrainingData<Vec<u32>>, training: Training<'_>) -> Result<NgramLabelsOutcome> {
    training.begin(ModelKind::Ngrams)?;
    let Training { options, out, stop, mut observe } = training;
    let (options, observe) = (&options, &mut *observe);
    let folds = cross_validate(data, (options, out, stop), observe, &|data, training| {
        let test = train_ngram_labels(data, training)?.test;
        Ok(vec![("micro_f1", test.micro_f1), ("macro_f1", test.macro_f1)])
    })?;
    let alone = train_ngrams(data, (options, stop), observe, &|log_odds, known| {
        let rows = LabelRows { data, attention: log_odds, ngrams: None };
        let blend = rows.fit();
        let caution = rows.calibrate_abstention(&blend, known);
        (PredictionTarget::Labels(blend.into_ngrams_only()), caution)
    })?;

    let _stage = stages::begin(stages::REPORT);
    let (rows, part) = reported_rows(data);
    let predictions = alone.model.predict(&rows.texts())?;
    let NgramClassifierConfig { target: problem, abstention: caution, .. } = alone.model.config();
    let sure = problem.label_confidences(rows, &predictions);
    let test = problem.label_scores(rows, predictions, (&data.labels, data.hierarchy.as_ref()), options.seed)?;
    let most_frequent = super::labels::most_frequent_scores(data, rows, options.seed);
    let mut metrics = alone.metrics(data, options, folds);
    metrics["task"] = "labels".into();
    metrics["labels"] = json!(data.labels);
    metrics["blend"] = json!(problem.labels());
    metrics["scored_on"] = part.into();
    metrics["micro_f1"] = test.micro_f1.into();
    metrics["macro_f1"] = test.macro_f1.into();
    metrics["scores"] = json!(test);
    metrics["parts"] = json!({ "most_frequent": most_frequent });
    metrics["abstain"] = abstain_levels(caution.as_ref(), (&sure, &[])).into();
    metrics["risk_coverage"] = json!(risk_coverage(&sure));
    metrics["strongest_ngrams"] = strongest_ngrams(Some(&alone.model.ngrams), data);
    if let Some(unseen) = data.unseen_test_rows() {
        let predictions = alone.model.predict(&unseen.texts())?;
        let known = (&data.labels[..], data.hierarchy.as_ref());
        metrics["unseen"] = json!(problem.label_scores(&unseen, predictions, known, options.seed)?);
    }

    let mut card = tr!("# Text classifier, {} labels\n\n", "# テキスト分類モデル（{} ラベル）\n\n", data.labels.len());
    card += &warning_paragraph(test.warning());
    card += &tr!(
        "A linear model over {} n-grams for each label, trained from scratch with Chumoku {}; no network. A text gets any number of \
         {} labels.\n\n",
        "{} 個の n-gram による、ラベルごとの線形モデルです。Chumoku {} でゼロから学習しました。ネットワークは使っていません。テキストには \
         {} 個のラベルのうちいくつでも付きます。\n\n",
        format_thousands(alone.model.num_features()),
        env!("CARGO_PKG_VERSION"),
        data.labels.len()
    );
    let names = [super::labels::this_model_name(), super::labels::most_frequent_name()];
    card += &super::labels::score_table(&names, (&test, std::slice::from_ref(&most_frequent)), part);
    card += &super::labels::label_table(&test, problem.labels());
    card += &data_section(data, options.seed);
    card += &unseen_section(&metrics, "micro_f1");
    card += &limits_section();
    card += &usage_section(data.reads_pairs());
    card += &strongest_section(&metrics["strongest_ngrams"]);
    let TrainedNgrams { model, .. } = alone.write(data, (options, out), &mut metrics, card)?;
    Ok(NgramLabelsOutcome { model, metrics, test, most_frequent })
}

/// Trains an n-gram model for a number per text and writes the model folder `out`.
///
/// Its scores are those that [`train_number`](super::train_number) reports for the n-grams alone.
///
/// # Errors
/// The same as for [`train_ngram_classifier`](super::train_ngram_classifier).
pub fn train_ngram_number(data: &TrainingData<NumberLabel>, training: Training<'_>) -> Result<NgramNumberOutcome> {
    training.begin(ModelKind::Ngrams)?;
    let Training { options, out, stop, mut observe } = training;
    let (options, observe) = (&options, &mut *observe);
    let folds = cross_validate(data, (options, out, stop), observe, &|data, training| {
        let test = train_ngram_number(data, training)?.test;
        Ok(vec![("mean_absolute_error", test.mean_absolute_error), ("spearman", test.spearman)])
    })?;
    let alone = train_ngrams(data, (options, stop), observe, &|log_odds, known| {
        let truth = (&data.valid.labels[..], data.valid.weights.as_deref());
        let (blend, sure) = NumberBlend::fit_with_confidences(&data.scale, log_odds, &[], truth);
        let caution = super::number::calibrate_abstention(data, &sure, known);
        (PredictionTarget::Number(blend.into_ngrams_only()), caution)
    })?;

    let _stage = stages::begin(stages::REPORT);
    let (rows, part) = reported_rows(data);
    let predictions = alone.model.predict(&rows.texts())?;
    let NgramClassifierConfig { target: problem, abstention: caution, .. } = alone.model.config();
    let sure = problem.number_confidences(rows, &predictions);
    let (test, points) = problem.number_scores(rows, &predictions, options.seed)?;
    let numbers: Vec<f64> = points.iter().map(|[truth, _]| *truth).collect();
    let median = median_scores(data, &numbers, options.seed);
    let mut metrics = alone.metrics(data, options, folds);
    metrics["task"] = "score".into();
    metrics["blend"] = json!(problem.number());
    metrics["scored_on"] = part.into();
    metrics["mean_absolute_error"] = test.mean_absolute_error.into();
    metrics["r2"] = test.r2.into();
    metrics["spearman"] = test.spearman.into();
    metrics["coverage"] = json!(test.coverage);
    metrics["scores"] = json!(test);
    metrics["parts"] = json!({ "median": median });
    metrics["abstain"] = abstain_levels(caution.as_ref(), (&sure, &[])).into();
    metrics["risk_coverage"] = json!(risk_coverage(&sure));
    if let Some(unseen) = data.unseen_test_rows() {
        let predictions = alone.model.predict(&unseen.texts())?;
        metrics["unseen"] = json!(problem.number_scores(&unseen, &predictions, options.seed)?.0);
    }

    let mut card = tr!("# Predictor of a number for each text\n\n", "# テキストごとの数値の予測モデル\n\n");
    card += &warning_paragraph(test.warning());
    let [least, most] = data.scale.range;
    card += &tr!(
        "A linear model over {} n-grams for each of {} thresholds, trained from scratch with Chumoku {}; no network. The numbers of the \
         training rows lie between {least} and {most}.\n\n",
        "{} 個の n-gram による、{} 個のしきい値ごとの線形モデルです。Chumoku {} でゼロから学習しました。ネットワークは使っていません。\
         学習データの数値は {least} から {most} までです。\n\n",
        format_thousands(alone.model.num_features()),
        data.scale.thresholds.len(),
        env!("CARGO_PKG_VERSION")
    );
    let names = [super::labels::this_model_name(), super::number::median_name()];
    card += &super::number::score_table(&names, (&test, std::slice::from_ref(&median)), part);
    card += &data_section(data, options.seed);
    card += &unseen_section(&metrics, "mean_absolute_error");
    card += &limits_section();
    card += &usage_section(data.reads_pairs());
    let TrainedNgrams { model, .. } = alone.write(data, (options, out), &mut metrics, card)?;
    Ok(NgramNumberOutcome { model, metrics, test, median, points })
}

/// A trained model, with the figures for its report.
struct TrainedNgrams {
    model: NgramClassifier,
    column_benefit: Option<ColumnBenefit>,
    c: Option<f32>,
    valid_loss: Option<f64>,
}

/// Fits the blend, and the calibration for abstention, on log-odds of the validation rows and their shares of known
/// n-grams.
type FitBlend<'a> = &'a dyn Fn(&LogOdds, &[f32]) -> (PredictionTarget, Option<AbstentionCalibration>);

/// Trains the model with the penalty and blend that are best on the validation rows, then refits it with these rows.
fn train_ngrams<A: ClassifierTarget>(
    data: &TrainingData<A>,
    (options, stop): (&TrainOptions, &AtomicBool),
    observe: &mut dyn FnMut(TrainEvent<'_>),
    fit_blend: FitBlend<'_>,
) -> Result<TrainedNgrams> {
    let settings = (&options.overrides.ngram_config(data), None);
    report_memory(upper_bound(ProcessUsage::measure().current, training_memory(data, settings.0)), observe);
    let chosen = fit_and_report(data, "n-grams", settings, stop, observe)?;
    let (c, valid_loss) = chosen.model.report().map_or((None, None), |report| (Some(report.c), report.valid_loss));
    let (problem, caution) = blend_of_validation(&chosen.model, &data.valid, fit_blend);
    let ngrams = refit(data, (&chosen.model, None), chosen.warm_start, settings, stop, observe)?;
    let config = NgramClassifierConfig {
        model_type: ModelKind::Ngrams.model_type().into(),
        chumoku_version: env!("CARGO_PKG_VERSION").into(),
        labels: data.labels.clone(),
        target: problem,
        hierarchy: data.hierarchy.clone(),
        scale: 1.0,
        abstention: caution,
        decision_rule: None,
        ngrams: ngrams.scheme().clone(),
    };
    let model = NgramClassifier { config, ngrams, thresholds: None };
    Ok(TrainedNgrams { model, column_benefit: chosen.column_benefit, c, valid_loss })
}

fn blend_of_validation<A: ClassifierTarget>(
    model: &NgramModel,
    valid: &Rows<A>,
    told: FitBlend<'_>,
) -> (PredictionTarget, Option<AbstentionCalibration>) {
    let texts = valid.texts();
    let log_odds: LogOdds = model.logits_batch(&texts).chunks_exact(model.num_classes()).map(<[f32]>::to_vec).collect();
    let known: Vec<f32> = texts.iter().map(|text| model.known_share(text)).collect();
    told(&log_odds, &known)
}

impl TrainedNgrams {
    /// The common entries of `metrics.json`.
    fn metrics<A: ClassifierTarget>(
        &self,
        data: &TrainingData<A>,
        options: &TrainOptions,
        folds: Option<Value>,
    ) -> Value {
        json!({
            "chumoku_version": env!("CARGO_PKG_VERSION"),
            "task": null,
            "model": "ngrams",
            "seed": options.seed,
            "interrupted": false,
            "rows": { "train": data.train.len(), "valid": data.valid.len(), "test": data.test.len() },
            "files": data.sources,
            "data_sha256": data.fingerprint(),
            "features": self.model.num_features(),
            "c": self.c,
            "valid": self.valid_loss.map(|loss| json!({ "log_loss": loss })),
            "folds": folds,
            "columns": self.column_benefit.as_ref().map(|worth| worth.to_json(&data.columns)),
            "notes": data.notes,
        })
    }

    /// Writes the model folder.
    fn write<A: ClassifierTarget>(
        self,
        data: &TrainingData<A>,
        (options, out): (&TrainOptions, &Path),
        metrics: &mut Value,
        mut card: String,
    ) -> Result<TrainedNgrams> {
        self.column_benefit.iter().for_each(|worth| card += &worth.section(&data.columns));
        if let Some((figures, section)) = compare_ngram_models(data, &self.model, options)? {
            metrics["further"] = figures;
            card += &section;
        }
        let mut files = self.model.files();
        files.push(seen_texts_file(data));
        let _stage = stages::begin(stages::WRITING);
        write_folder(out, files, metrics, card)?;
        Ok(self)
    }
}

/// The warning that concerns all figures.
fn warning_paragraph(warning: Option<String>) -> String {
    warning.map_or(String::new(), |warning| format!("**{warning}**\n\n"))
}
