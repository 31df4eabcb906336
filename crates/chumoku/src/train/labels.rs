//! Training a classifier of any number of labels a text.

use super::card::{abstain_levels, reported_rows, risk_coverage, training_summary, unseen_section};
use super::cross_validation::cross_validate;
use super::display_names::{network_name, network_sizes};
use super::ensemble::{self, EnsembleOptions, TrainedEnsemble};
use super::feature_columns::ColumnBenefit;
use super::label_blend_fit::{LabelRows, cap_by_parents};
use super::model_changes::compare_classifiers;
use super::run::{RunResult, plan_json};
use super::strongest_ngrams::{strongest_ngrams, strongest_section};
use super::train_state::BestEvaluation;
use super::training::{Training, write_folder};
use super::{LabelScores, Plan, TrainEvent, TrainOptions, TrainingData};
use crate::blend::label_blend::LabelBlend;
use crate::lang::wording::format_thousands;
use crate::lang::{escape_markdown, lang};
use crate::prediction::target::PredictionTarget;
use crate::scoring::Rows;
use crate::text_models::classifier::TextClassifier;
use crate::text_models::predictor::Predictor;
use crate::{ModelKind, Result, stages, tr};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// The result of training a classifier of labels.
#[derive(Debug)]
#[non_exhaustive]
pub struct LabelsOutcome {
    /// The saved model.
    pub model: TextClassifier,
    /// The content of `metrics.json`.
    pub metrics: Value,
    /// Scores of the ensemble on the test rows.
    pub test: LabelScores,
    /// Scores on the test rows of the network alone, the n-grams alone, and the most frequent label for every text.
    pub members: [LabelScores; 3],
    /// The best evaluation.
    pub best: Option<BestEvaluation>,
    /// True if training was interrupted.
    pub interrupted: bool,
}

/// Names of [`LabelsOutcome::members`] in `metrics.json`.
const MEMBER_NAMES: [&str; 3] = ["attention", "ngrams", "most_frequent"];

/// Trains a classifier of any number of labels a text and writes the model folder `out`. It is as reproducible as
/// [`train`](super::train).
///
/// The network and one linear n-gram model per label are trained with the logistic loss of each label (binary
/// relevance). The blend of both, and a threshold for each label, are fitted on the validation rows.
///
/// # Errors
/// If the folder cannot be written, a checkpoint does not fit, or the loss is no longer finite.
pub fn train_labels(data: &TrainingData<Vec<u32>>, training: Training<'_>) -> Result<LabelsOutcome> {
    training.begin(ModelKind::Classifier)?;
    let Training { options, out, stop, mut observe } = training;
    let (options, observe) = (&options, &mut *observe);
    let folds = cross_validate(data, (options, out, stop), observe, &|data, training| {
        let test = train_labels(data, training)?.test;
        Ok(vec![("micro_f1", test.micro_f1), ("macro_f1", test.macro_f1)])
    })?;
    let problem = PredictionTarget::Labels(LabelBlend::network_only(data.labels.len()));
    let whole = ensemble::train_members(data, problem, (options, out, stop), EnsembleOptions::default(), observe)?;
    let TrainedEnsemble { classifier, plan, ended, warm_start: found, column_benefit: worth, base: before, .. } = whole;
    let finished = FinishedLabels { data, options, out, plan: &plan, ended: &ended, stop, before: before.as_ref() };
    finished.write(classifier, (found, worth, folds), observe)
}

/// A run whose steps are finished.
struct FinishedLabels<'a> {
    data: &'a TrainingData<Vec<u32>>,
    options: &'a TrainOptions,
    out: &'a Path,
    plan: &'a Plan,
    ended: &'a RunResult,
    stop: &'a AtomicBool,
    /// The base model, in continued training.
    before: Option<&'a TextClassifier>,
}

impl FinishedLabels<'_> {
    /// Fits the blend and thresholds, scores the model, and writes the folder.
    fn write(
        self,
        mut classifier: TextClassifier,
        (found, worth, folds): (crate::ngram::WarmStart, Option<ColumnBenefit>, Option<Value>),
        observe: &mut dyn FnMut(TrainEvent<'_>),
    ) -> Result<LabelsOutcome> {
        let FinishedLabels { data, options, out, plan, ended, stop, before } = self;
        let [attention, ngrams] = ensemble::log_odds(&classifier, &data.valid)?;
        let tree = data.hierarchy.as_ref();
        let both = LabelRows { data, attention: &attention, ngrams: Some(&ngrams) };
        let blend = both.fit();
        let alone = [&attention, &ngrams].map(|half| LabelRows { data, attention: half, ngrams: None }.fit());
        let known: Vec<f32> = data.valid.texts().iter().filter_map(|text| classifier.known_share(text)).collect();
        classifier.config.abstention = both.calibrate_abstention(&blend, &known);
        classifier.config.target = PredictionTarget::Labels(blend);
        ensemble::refit_ngrams(
            &mut classifier,
            data,
            found,
            (&options.overrides.ngram_config(data), None),
            (ended, stop),
            observe,
        )?;

        let _stage = stages::begin(stages::REPORT);
        let (rows, part) = reported_rows(data);
        let predictions = classifier.predict(&rows.texts())?;
        let problem = &classifier.config.target;
        let sure = problem.label_confidences(rows, &predictions);
        let test = problem.label_scores(rows, predictions, (&data.labels, tree), options.seed)?;
        let log_odds = ensemble::log_odds(&classifier, rows)?;
        let of_half = |half: usize| {
            let p: Vec<Vec<f32>> =
                log_odds[half].iter().map(|z| cap_by_parents(tree, alone[half].probabilities(z, None))).collect();
            let predicted: Vec<Vec<u32>> = p.iter().map(|p| alone[half].predicted_labels(p)).collect();
            LabelScores::of(&rows.labels, &predicted, Some(&p), &data.labels, options.seed).with_levels(tree)
        };
        let parts = [of_half(0), of_half(1), most_frequent_scores(data, rows, options.seed)];
        let mut metrics = metrics(&classifier, data, options, plan, ended, part, &test, &parts);
        metrics["folds"] = folds.into();
        if let Some(unseen) = data.unseen_test_rows() {
            metrics["unseen"] = json!(Predictor::from(&classifier).label_scores(&unseen, options.seed)?);
        }
        metrics["abstain"] = abstain_levels(classifier.config.abstention.as_ref(), (&sure, &[])).into();
        metrics["risk_coverage"] = json!(risk_coverage(&sure));
        metrics["columns"] = worth.as_ref().map(|worth| worth.to_json(&data.columns)).into();
        metrics["strongest_ngrams"] = strongest_ngrams(classifier.ngrams.as_ref(), data);
        let mut card = card(&classifier, data, plan, ended, options, part, &test, &parts)?;
        card += &unseen_section(&metrics, "micro_f1");
        card += &strongest_section(&metrics["strongest_ngrams"]);
        worth.iter().for_each(|worth| card += &worth.section(&data.columns));
        if let Some(before) = before
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
        Ok(LabelsOutcome { model: classifier, metrics, test, members: parts, best, interrupted })
    }
}

/// Scores a classifier that always predicts the most frequent label of the training rows.
pub(super) fn most_frequent_scores(data: &TrainingData<Vec<u32>>, rows: &Rows<Vec<u32>>, seed: u64) -> LabelScores {
    let counts = data.class_rows();
    let most = (0..counts.len()).fold(0, |best, label| if counts[label] > counts[best] { label } else { best });
    let scores = LabelScores::of(&rows.labels, &vec![vec![most as u32]; rows.len()], None, &data.labels, seed);
    scores.with_levels(data.hierarchy.as_ref())
}

#[expect(clippy::too_many_arguments, reason = "all figures of a run")]
fn metrics(
    model: &TextClassifier,
    data: &TrainingData<Vec<u32>>,
    options: &TrainOptions,
    plan: &Plan,
    ended: &RunResult,
    part: &str,
    test: &LabelScores,
    parts: &[LabelScores; 3],
) -> Value {
    let best = ended.state.best;
    let baselines: serde_json::Map<String, Value> =
        MEMBER_NAMES.iter().zip(parts).map(|(name, scores)| ((*name).into(), json!(scores))).collect();
    json!({
        "chumoku_version": env!("CARGO_PKG_VERSION"),
        "task": "labels",
        "seed": options.seed,
        "interrupted": ended.interrupted,
        "rows": { "train": data.train.len(), "valid": data.valid.len(), "test": data.test.len() },
        "labels": data.labels,
        "files": data.sources,
        "data_sha256": data.fingerprint(),
        "parameters": model.num_parameters(),
        "steps": ended.state.step,
        "epochs": ended.state.epoch,
        "best_epoch": best.map(|best| best.epoch),
        "valid": best.map(|best| json!({ "micro_f1": best.score, "log_loss": best.loss })),
        "blend": model.config().target.labels(),
        "scored_on": part,
        "micro_f1": test.micro_f1,
        "macro_f1": test.macro_f1,
        "scores": test,
        "parts": baselines,
        "plan": plan_json(plan),
        "notes": data.notes,
    })
}

/// The row label of the model itself.
pub(super) fn this_model_name() -> &'static str {
    lang().pick("this model", "このモデル")
}

/// The row label of the baseline.
pub(super) fn most_frequent_name() -> &'static str {
    lang().pick("always the most frequent label (baseline)", "最も多いラベル（比較対象）")
}

/// The heading and the table of scores of several predictors.
pub(super) fn score_table(names: &[&str], (test, others): (&LabelScores, &[LabelScores]), part: &str) -> String {
    let mut card = super::card::score_heading(test.rows, part);
    let [micro, macro_, sample] = test.averages().map(|(name, _)| name);
    let _ = writeln!(card, "| | {micro} | {macro_} | {sample} |\n|---|---|---|---|");
    for (name, scores) in names.iter().zip(std::iter::once(test).chain(others)) {
        let [micro, macro_, sample] = scores.averages().map(|(_, x)| 100.0 * x);
        let _ = writeln!(card, "| {name} | {micro:.1} % | {macro_:.1} % | {sample:.1} % |");
    }
    card + &super::hierarchy_report::label_level_section(names, test, others)
}

/// The table of labels with their thresholds and scores.
pub(super) fn label_table(test: &LabelScores, blend: Option<&LabelBlend>) -> String {
    let mut card = tr!(
        "\nProbabilities are calibrated on the validation rows. A label is predicted if its probability reaches its \
         threshold. The thresholds maximize micro-F1 on the validation rows.\n\n",
        "\n確率は検証データで較正されています。ラベルはしきい値以上の確率のときに予測します。しきい値はミクロ F1 が最大になるよう検証\
         データで選びました。\n\n"
    );
    card += &tr!(
        "| label | rows | threshold | precision | recall | F1 |\n|---|---|---|---|---|---|\n",
        "| ラベル | 行数 | しきい値 | 適合率 | 再現率 | F1 |\n|---|---|---|---|---|---|\n"
    );
    let thresholds = blend.map(|blend| &blend.thresholds[..]).unwrap_or_default();
    for (label, threshold) in test.of_labels.iter().zip(thresholds) {
        let [precision, recall, f1] = [label.precision, label.recall, label.f1].map(|x| 100.0 * x);
        let name = escape_markdown(&label.label);
        let _ = writeln!(
            card,
            "| {name} | {} | {threshold:.2} | {precision:.1} % | {recall:.1} % | {f1:.1} % |",
            label.rows
        );
    }
    card
}

/// Writes the model card.
#[expect(clippy::too_many_arguments, reason = "all figures of a run")]
fn card(
    model: &TextClassifier,
    data: &TrainingData<Vec<u32>>,
    plan: &Plan,
    ended: &RunResult,
    options: &TrainOptions,
    part: &str,
    test: &LabelScores,
    parts: &[LabelScores; 3],
) -> Result<String> {
    let body = &model.config().model.backbone;
    let noun = network_name(body.kind());
    let mut card = tr!("# Text classifier, {} labels\n\n", "# テキスト分類モデル（{} ラベル）\n\n", data.labels.len());
    if ended.interrupted {
        card += &super::card::interruption_note(ended.state.epoch);
    }
    if let Some(warning) = test.warning() {
        card += &format!("**{warning}**\n\n");
    }
    card += &tr!(
        "A {noun} ({}, {} parameters) {}, combined with a linear model over n-grams for each label. A text gets any \
         number of {} labels.\n\n",
        "{noun}（{}、パラメータ {}）を {}、ラベルごとの n-gram の線形モデルと組み合わせたものです。テキストには {} 個のラベルのうち\
         いくつでも付きます。\n\n",
        network_sizes(body, lang()),
        format_thousands(model.num_parameters()),
        training_summary(plan, data.continued.is_some()),
        data.labels.len()
    );
    let alone = tr!("{noun} alone", "{noun}単独");
    let ngrams = lang().pick("n-grams alone (baseline)", "n-gram 単独（比較対象）");
    let names = [this_model_name(), &alone, ngrams, most_frequent_name()];
    card += &score_table(&names, (test, parts), part);
    card += &label_table(test, model.config().target.labels());
    card += &super::card::data_section(data, options.seed);
    card += &tr!(
        "\n## Limits\n\nThe labels are known from the training rows alone. Answers for texts in another language, style or subject mean \
         little. Weights of attention show where the model looks, not why it decides.",
        "\n## 限界\n\nラベルについて知って\
         いるのは学習データだけです。言語・文体・話題の異なるテキストへの答えには、ほとんど意味がありません。アテンションの重みが示すのは\
         モデルがどこを見ているかであって、判断の理由ではありません。"
    );
    Ok(card + &super::card::usage_section(data.reads_pairs()))
}
