//! Training a predictor of numbers.

use super::card::{abstain_levels, reported_rows, risk_coverage, training_summary, unseen_section};
use super::cross_validation::cross_validate;
use super::display_names::network_name;
use super::ensemble::{self, EnsembleOptions, TrainedEnsemble};
use super::labels::this_model_name;
use super::model_changes::compare_classifiers;
use super::run::{RunResult, plan_json};
use super::train_state::BestEvaluation;
use super::training::{Training, write_folder};
use super::{NumberScores, Plan, TrainOptions, TrainingData};
use crate::blend::number::{NumberBlend, NumberLabel};
use crate::lang::lang;
use crate::lang::wording::format_thousands;
use crate::prediction::abstention::AbstentionCalibration;
use crate::prediction::target::PredictionTarget;
use crate::scoring::{Rows, format_value};
use crate::text_models::classifier::TextClassifier;
use crate::text_models::predictor::Predictor;
use crate::train::network_sizes;
use crate::{ModelKind, Result, stages, tr};
use serde_json::{Value, json};
use std::fmt::Write;

/// The result of training a predictor of numbers.
#[derive(Debug)]
#[non_exhaustive]
pub struct NumberOutcome {
    /// The saved model.
    pub model: TextClassifier,
    /// The content of `metrics.json`.
    pub metrics: Value,
    /// Scores of the ensemble on the test rows.
    pub test: NumberScores,
    /// Scores on the test rows of the network alone, the n-grams alone, and the median of the training rows for every
    /// text.
    pub members: [NumberScores; 3],
    /// The true and the predicted number of each of these rows.
    pub points: Vec<[f64; 2]>,
    /// The best evaluation.
    pub best: Option<BestEvaluation>,
    /// True if training was interrupted.
    pub interrupted: bool,
}

/// Names of [`NumberOutcome::members`] in `metrics.json`.
const MEMBER_NAMES: [&str; 3] = ["attention", "ngrams", "median"];

/// Trains a predictor of a number for each text and writes the model folder `out`. It is as reproducible as
/// [`train`](super::train).
///
/// The network and one linear n-gram model per threshold predict whether the number is above each threshold. The blend
/// of both, and the width of the intervals, are fitted on the validation rows (see [`NumberBlend`]).
///
/// # Errors
/// If the folder cannot be written, a checkpoint does not fit, or the loss is no longer finite.
pub fn train_number(data: &TrainingData<NumberLabel>, training: Training<'_>) -> Result<NumberOutcome> {
    training.begin(ModelKind::Classifier)?;
    let Training { options, out, stop, mut observe } = training;
    let (options, observe) = (&options, &mut *observe);
    let folds = cross_validate(data, (options, out, stop), observe, &|data, training| {
        let test = train_number(data, training)?.test;
        Ok(vec![("mean_absolute_error", test.mean_absolute_error), ("spearman", test.spearman)])
    })?;
    let plain = PredictionTarget::Number(NumberBlend::network_only(data.scale.clone()));
    let whole = ensemble::train_members(data, plain, (options, out, stop), EnsembleOptions::default(), observe)?;
    let TrainedEnsemble { mut classifier, plan, ended, warm_start: found, column_benefit: worth, base: before, .. } =
        whole;
    let [attention, ngrams] = ensemble::log_odds(&classifier, &data.valid)?;
    let truth = (&data.valid.labels[..], data.valid.weights.as_deref());
    let (blend, sure) = NumberBlend::fit_with_confidences(&data.scale, &attention, &ngrams, truth);
    let known: Vec<f32> = data.valid.texts().iter().filter_map(|text| classifier.known_share(text)).collect();
    classifier.config.abstention = calibrate_abstention(data, &sure, &known);
    classifier.config.target = PredictionTarget::Number(blend);
    let alone = [&attention, &ngrams].map(|half| NumberBlend::fit(&data.scale, half, &[], truth));
    ensemble::refit_ngrams(
        &mut classifier,
        data,
        found,
        (&options.overrides.ngram_config(data), None),
        (&ended, stop),
        observe,
    )?;

    let _stage = stages::begin(stages::REPORT);
    let (rows, part) = reported_rows(data);
    let predictions = classifier.predict(&rows.texts())?;
    let problem = &classifier.config.target;
    let sure = problem.number_confidences(rows, &predictions);
    let (test, points) = problem.number_scores(rows, &predictions, options.seed)?;
    let numbers: Vec<f64> = points.iter().map(|[truth, _]| *truth).collect();
    let log_odds = ensemble::log_odds(&classifier, rows)?;
    let of_half = |half: usize| {
        let score = |z: &Vec<f32>| alone[half].estimate(&alone[half].blend.probabilities(z, None)).score;
        let predicted: Vec<f64> = log_odds[half].iter().map(score).collect();
        NumberScores::of(&numbers, &predicted, None, &data.scale, options.seed)
    };
    let parts = [of_half(0), of_half(1), median_scores(data, &numbers, options.seed)];
    let report = NumberReport { data, options, plan: &plan, ended: &ended, part, test: &test, parts: &parts };
    let (mut metrics, mut card) = (report.metrics(&classifier), report.card(&classifier));
    metrics["folds"] = folds.into();
    if let Some(unseen) = data.unseen_test_rows() {
        metrics["unseen"] = json!(Predictor::from(&classifier).number_scores(&unseen, options.seed)?.0);
    }
    card += &unseen_section(&metrics, "mean_absolute_error");
    metrics["abstain"] = abstain_levels(classifier.config.abstention.as_ref(), (&sure, &[])).into();
    metrics["risk_coverage"] = json!(risk_coverage(&sure));
    metrics["columns"] = worth.as_ref().map(|worth| worth.to_json(&data.columns)).into();
    worth.iter().for_each(|worth| card += &worth.section(&data.columns));
    if let Some(before) = &before
        && let Some((figures, section)) = compare_classifiers(data, [before, &classifier], options)?
    {
        metrics["further"] = figures;
        card += &section;
    }
    let mut files = classifier.files()?;
    files.push(super::ngrams::seen_texts_file(data));
    let writing = stages::begin(stages::WRITING);
    write_folder(out, files, &metrics, card)?;
    drop(writing);
    let (best, interrupted) = (ended.state.best, ended.interrupted);
    Ok(NumberOutcome { model: classifier, metrics, test, members: parts, points, best, interrupted })
}

/// The median, which is the best constant prediction.
fn median(rows: &Rows<NumberLabel>) -> f64 {
    let mut numbers: Vec<f64> = rows.labels.iter().map(|measured| measured.number).collect();
    numbers.sort_by(f64::total_cmp);
    let at = |i: usize| numbers.get(i).copied().unwrap_or_default();
    0.5 * (at(numbers.len().saturating_sub(1) / 2) + at(numbers.len() / 2))
}

/// Scores a model that always predicts the median of the training rows, on rows with these numbers.
pub(super) fn median_scores(data: &TrainingData<NumberLabel>, numbers: &[f64], seed: u64) -> NumberScores {
    NumberScores::of(numbers, &vec![median(&data.train); numbers.len()], None, &data.scale, seed)
}

/// Calibrates abstention by the confidences of the validation rows for the nearest level, and their shares of known
/// n-grams. `None` unless numbers have levels: an answer on a continuous scale is never exactly right.
pub(super) fn calibrate_abstention(
    data: &TrainingData<NumberLabel>,
    sure: &[(f32, bool)],
    known: &[f32],
) -> Option<AbstentionCalibration> {
    (data.scale.has_levels() && !sure.is_empty()).then(|| AbstentionCalibration::fit(sure, known))
}

/// The figures of a run, for its report.
struct NumberReport<'a> {
    data: &'a TrainingData<NumberLabel>,
    options: &'a TrainOptions,
    plan: &'a Plan,
    ended: &'a RunResult,
    part: &'a str,
    test: &'a NumberScores,
    parts: &'a [NumberScores; 3],
}

impl NumberReport<'_> {
    fn metrics(&self, model: &TextClassifier) -> Value {
        let NumberReport { data, options, plan, ended, part, test, parts } = self;
        let best = ended.state.best;
        let baselines: serde_json::Map<String, Value> =
            MEMBER_NAMES.iter().zip(*parts).map(|(name, scores)| ((*name).into(), json!(scores))).collect();
        json!({
            "chumoku_version": env!("CARGO_PKG_VERSION"),
            "task": "score",
            "seed": options.seed,
            "interrupted": ended.interrupted,
            "rows": { "train": data.train.len(), "valid": data.valid.len(), "test": data.test.len() },
            "files": data.sources,
            "data_sha256": data.fingerprint(),
            "parameters": model.num_parameters(),
            "steps": ended.state.step,
            "epochs": ended.state.epoch,
            "best_epoch": best.map(|best| best.epoch),
            "valid": best.map(|best| json!({ "mean_absolute_error": -best.score, "log_loss": best.loss })),
            "blend": model.config().target.number(),
            "scored_on": part,
            "mean_absolute_error": test.mean_absolute_error,
            "r2": test.r2,
            "spearman": test.spearman,
            "coverage": test.coverage,
            "scores": test,
            "parts": baselines,
            "plan": plan_json(plan),
            "notes": data.notes,
        })
    }

    /// Writes the model card.
    fn card(&self, model: &TextClassifier) -> String {
        let NumberReport { data, options, plan, ended, part, test, parts } = self;
        let body = &model.config().model.backbone;
        let noun = network_name(body.kind());
        let mut card = tr!("# Predictor of a number for each text\n\n", "# テキストごとの数値の予測モデル\n\n");
        if ended.interrupted {
            card += &super::card::interruption_note(ended.state.epoch);
        }
        if let Some(warning) = test.warning() {
            card += &format!("**{warning}**\n\n");
        }
        let [least, most] = data.scale.range;
        card += &tr!(
            "A {noun} ({}, {} parameters) {}, combined with a linear model over n-grams for each of {} thresholds. \
             The numbers of the training rows lie between {least} and {most}.\n\n",
            "{noun}（{}、パラメータ {}）を {}、{} 個のしきい値ごとの n-gram の線形モデルと組み合わせたものです。学習データの数値は \
             {least} から {most} までです。\n\n",
            network_sizes(body, lang()),
            format_thousands(model.num_parameters()),
            training_summary(plan, data.continued.is_some()),
            data.scale.thresholds.len()
        );
        let alone = tr!("{noun} alone", "{noun}単独");
        let ngrams = lang().pick("n-grams alone (baseline)", "n-gram 単独（比較対象）");
        let names = [this_model_name(), &alone, ngrams, median_name()];
        card += &score_table(&names, (test, *parts), part);
        card += &super::card::data_section(data, options.seed);
        card += &tr!(
            "\n## Limits\n\nThe model knows numbers from its training rows alone, and never goes beyond their range. The promise of \
             the intervals holds for texts like those of the validation rows. Answers for texts in another language, style or \
             subject mean little.",
            "\n## 限界\n\n数値について知っているの\
             は学習データだけで、その範囲を超える値は答えません。区間の保証は、検証データと似たテキストについてのものです。言語・文体・話題の\
             異なるテキストへの答えには、ほとんど意味がありません。"
        );
        card + &super::card::usage_section(data.reads_pairs())
    }
}

/// The row label of the baseline.
pub(super) fn median_name() -> &'static str {
    lang().pick("always the median (baseline)", "常に中央値（比較対象）")
}

/// The table of scores of several predictors, with the interval coverage and levels of the first.
pub(super) fn score_table(names: &[&str], (test, others): (&NumberScores, &[NumberScores]), part: &str) -> String {
    let mut card = super::card::score_heading(test.rows, part);
    let _ = writeln!(card, "| | {} |\n|---|---|---|---|---|", test.named_figures().map(|(name, _)| name).join(" | "));
    for (name, scores) in names.iter().zip(std::iter::once(test).chain(others)) {
        let figures = scores.named_figures().map(|(_, x)| format_value(x));
        let _ = writeln!(card, "| {name} | {} |", figures.join(" | "));
    }
    if let (Some(coverage), Some(width)) = (test.coverage, test.mean_width) {
        let (coverage, width) = (100.0 * coverage, format_value(width));
        card += &tr!(
            "\nEach prediction has an interval meant to contain the true number in 90 % of the cases. Its width was \
             fitted on the validation rows. Here {coverage:.1} % of the intervals contain it; their mean width is \
             {width}.\n\n",
            "\n予測には、真の値が 90 % の割合で入るはずの区間が付きます。区間の幅は検証データで決めました。ここでは {coverage:.1} % の区間に\
             真の値が入り、幅の平均は {width} です。\n\n"
        );
    }
    if !test.levels.is_empty() {
        card += &tr!(
            "| true | rows | mean prediction | error | nearest is right |\n|---|---|---|---|---|\n",
            "| 真の値 | 行数 | 予測の平均 | 絶対誤差 | 丸めて一致 |\n|---|---|---|---|---|\n"
        );
        for of in &test.levels {
            let (level, rows) = (of.level, of.rows);
            let [mean, error] =
                [of.mean_prediction, of.mean_absolute_error].map(|x| x.map_or("–".into(), format_value));
            let exact = of.exact.map_or("–".into(), |x| format!("{:.1} %", 100.0 * x));
            let _ = writeln!(card, "| {level} | {rows} | {mean} | {error} | {exact} |");
        }
    }
    card
}
