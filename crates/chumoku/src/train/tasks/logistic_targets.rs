//! Training for targets whose outputs each have a logistic loss: labels, and the thresholds of a number. The pipeline
//! is the same for all of them; a [`LogisticTarget`] adds its blend, scores and words.

use crate::lang::lang;
use crate::lang::wording::format_thousands;
use crate::ngram::NgramModel;
use crate::prediction::Prediction;
use crate::prediction::abstention::AbstentionCalibration;
use crate::prediction::target::PredictionTarget;
use crate::scoring::{Rows, few_rows_warning};
use crate::text_models::classifier::TextClassifier;
use crate::text_models::ngrams::{NgramClassifier, NgramClassifierConfig};
use crate::text_models::predictor::Predictor;
use crate::train::data::training_data::TrainingData;
use crate::train::ensemble::cross_validation::cross_validate;
use crate::train::ensemble::finished_report::finish_report;
use crate::train::ensemble::members::{self, EnsembleOptions, LogOdds, TrainedEnsemble};
use crate::train::ensemble::ngrams::{fit_and_report, limits_section, refit, training_memory};
use crate::train::ensemble::target::ClassifierTarget;
use crate::train::reports::card::{
    abstain_levels, data_section, interruption_note, reported_rows, risk_coverage, training_summary, unseen_section,
    usage_section,
};
use crate::train::reports::display_names::{network_name, network_sizes};
use crate::train::reports::strongest_ngrams::{strongest_ngrams, strongest_section};
use crate::train::run_folder::progress::report_memory;
use crate::train::run_folder::run_identity::plan_json;
use crate::train::run_folder::training::{RunContext, TrainOutcome, Training, write_folder};
use crate::train::training_loop::memory::{ProcessUsage, upper_bound};
use crate::{ModelKind, Result, stage_timer, tr};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// A target whose outputs each have a logistic loss.
pub(super) trait LogisticTarget: ClassifierTarget {
    /// Scores of predictions.
    type Scores: Serialize;

    /// The name of the task in `metrics.json`.
    const TASK: &'static str;

    /// The name of the baseline in `metrics.json`.
    const BASELINE: &'static str;

    /// True if the outputs have names.
    const HAS_LABELS: bool;

    /// The figures that cross-validation reports.
    const FOLD_FIGURES: [&'static str; 2];

    /// The sign of the compared figure in the score of an
    /// [evaluation](crate::train::training_loop::trainable::Evaluation).
    const SIGN: f64 = 1.0;

    /// Returns the prediction target of a network that is not blended.
    fn network_only(data: &TrainingData<Self>) -> PredictionTarget;

    /// Fits the blend of members. With the shares of `known` n-grams of the rows, also calibrates abstention.
    fn fit(
        data: &TrainingData<Self>,
        members: &MemberLogOdds<'_>,
        known: Option<&[f32]>,
    ) -> (PredictionTarget, Option<AbstentionCalibration>);

    /// Returns the confidence of each prediction, and whether it is correct.
    fn confidences(target: &PredictionTarget, rows: &Rows<Self>, predictions: &[Prediction]) -> Vec<(f32, bool)>;

    /// Scores predictions. For numbers, also returns the true and the predicted number of each row.
    ///
    /// # Errors
    /// If the target is of another kind.
    fn scores(of: &ScoredRows<'_, Self>, target: &PredictionTarget, predictions: Vec<Prediction>) -> Scored<Self>;

    /// Scores one member alone, by its log-odds.
    ///
    /// # Errors
    /// If the target is of another kind.
    fn member_scores(of: &ScoredRows<'_, Self>, target: &PredictionTarget, log_odds: &LogOdds) -> Result<Self::Scores>;

    /// Scores the best constant prediction.
    fn baseline_scores(of: &ScoredRows<'_, Self>) -> Self::Scores;

    /// The figures of scores for `metrics.json`.
    fn figures(scores: &Self::Scores) -> Vec<(&'static str, Value)>;

    /// The heading of the model card.
    fn heading(data: &TrainingData<Self>) -> String;

    /// The paragraph of the model card on a network with n-grams.
    fn network_summary(data: &TrainingData<Self>, network: &NetworkWords<'_>) -> String;

    /// The paragraph of the model card on this number of n-grams alone.
    fn ngram_summary(data: &TrainingData<Self>, features: &str) -> String;

    /// The name of the baseline in tables.
    fn baseline_name() -> &'static str;

    /// The tables of scores for the model card. The first scores are those of the model.
    fn score_section(target: &PredictionTarget, scores: &[(&str, &Self::Scores)], part: &str) -> String;

    /// The section of the model card on the limits of a network.
    fn limits() -> String;
}

/// Scores and points, or the error of a target of another kind.
pub(super) type Scored<A> = Result<(<A as LogisticTarget>::Scores, Vec<[f64; 2]>)>;

/// Rows to score, with the data that they are from. Intervals are resampled with `seed`.
pub(super) struct ScoredRows<'a, A> {
    pub(super) data: &'a TrainingData<A>,
    pub(super) rows: &'a Rows<A>,
    pub(super) seed: u64,
}

/// The log-odds of the ensemble members for the validation rows: two members, or one alone.
pub(super) struct MemberLogOdds<'a> {
    pub(super) first: &'a LogOdds,
    pub(super) second: Option<&'a LogOdds>,
}

/// Words on a network, for the model card.
pub(super) struct NetworkWords<'a> {
    pub(super) noun: &'a str,
    pub(super) sizes: String,
    pub(super) parameters: String,
    /// How it was trained.
    pub(super) training: String,
}

/// The row label of the model itself.
fn this_model_name() -> &'static str {
    lang().pick("this model", "このモデル")
}

/// Trains a network and an n-gram model, and writes the model folder.
pub(super) fn train_ensemble<A: LogisticTarget>(
    data: &TrainingData<A>,
    mut training: Training<'_>,
) -> Result<TrainOutcome<TextClassifier, A::Scores>> {
    data.check_weights()?;
    let (context, observe) = training.begin(ModelKind::Classifier)?;
    let RunContext { options, out, stop } = context;
    let folds = cross_validate(data, context, observe, &|data, training| {
        Ok(fold_figures::<A>(&train_ensemble(data, training)?.test))
    })?;
    let untrained = A::network_only(data);
    let trained = members::train_members(data, untrained, context, EnsembleOptions::default(), observe)?;
    let TrainedEnsemble { mut classifier, plan, ended, warm_start, column_benefit, base, .. } = trained;
    let members = members::log_odds(&classifier, &data.valid)?;
    let known: Vec<f32> = data.valid.texts().iter().filter_map(|text| classifier.known_share(text)).collect();
    let both = MemberLogOdds { first: &members[0], second: Some(&members[1]) };
    (classifier.config.target, classifier.config.abstention) = A::fit(data, &both, Some(&known));
    let alone = members.map(|first| A::fit(data, &MemberLogOdds { first: &first, second: None }, None).0);
    let settings = (&options.overrides.ngram_config(data), None);
    members::refit_ngrams(&mut classifier, data, warm_start, settings, (&ended, stop), observe)?;

    let _stage = stage_timer::begin(stage_timer::REPORT);
    let report = TargetReport::new(data, Predictor::Classifier(&classifier), options.seed)?;
    let (rows, _) = reported_rows(data);
    let log_odds = members::log_odds(&classifier, rows)?;
    let scored = ScoredRows { data, rows, seed: options.seed };
    let member = |index: usize| A::member_scores(&scored, &alone[index], &log_odds[index]);
    let parts = vec![("attention", member(0)?), ("ngrams", member(1)?), (A::BASELINE, A::baseline_scores(&scored))];
    let best = ended.state.best;
    let valid = best.map(|best| json!({ (A::FIGURE): A::SIGN * best.score, "log_loss": best.loss }));
    let mut metrics = json!({
        "chumoku_version": env!("CARGO_PKG_VERSION"),
        "task": A::TASK,
        "seed": options.seed,
        "interrupted": ended.interrupted,
        "rows": { "train": data.train.len(), "valid": data.valid.len(), "test": data.test.len() },
        "labels": data.labels,
        "files": data.sources,
        "data_sha256": data.fingerprint(),
        "parameters": classifier.num_parameters(),
        "steps": ended.state.step,
        "epochs": ended.state.epoch,
        "best_epoch": best.map(|best| best.epoch),
        "valid": valid,
    });
    if let (Some(metrics), false) = (metrics.as_object_mut(), A::HAS_LABELS) {
        metrics.shift_remove("labels");
    }
    report.add_scores(&mut metrics, &classifier.config.target, &parts);
    metrics["plan"] = plan_json(&plan);
    metrics["notes"] = json!(data.notes);
    metrics["folds"] = folds.into();
    TargetReport::add_unseen(data, Predictor::Classifier(&classifier), options.seed, &mut metrics)?;
    report.add_abstention(&mut metrics, classifier.config.abstention.as_ref());
    metrics["columns"] = column_benefit.as_ref().map(|benefit| benefit.to_json(&data.columns)).into();
    if A::HAS_LABELS {
        metrics["strongest_ngrams"] = strongest_ngrams(classifier.ngrams.as_ref(), data);
    }

    let backbone = &classifier.config.model.backbone;
    let noun = network_name(backbone.kind());
    let mut card = A::heading(data);
    if ended.interrupted {
        card += &interruption_note(ended.state.epoch);
    }
    card += &report.warning();
    let words = NetworkWords {
        noun,
        sizes: network_sizes(backbone, lang()),
        parameters: format_thousands(classifier.num_parameters()),
        training: training_summary(&plan, data.continued.is_some()),
    };
    card += &A::network_summary(data, &words);
    let network_alone = tr!("{noun} alone", "{noun}単独");
    let ngrams_alone = lang().pick("n-grams alone (baseline)", "n-gram 単独（比較対象）");
    let names = [&network_alone, ngrams_alone, A::baseline_name()];
    card += &report.score_section(&classifier.config.target, &names, &parts);
    card += &data_section(data, options.seed);
    card += &A::limits();
    card += &usage_section(data.reads_pairs());
    card += &unseen_section(&metrics, A::FIGURE);
    card += &strongest_section(&metrics["strongest_ngrams"]);
    let (model, benefit) = (Predictor::Classifier(&classifier), column_benefit.as_ref());
    let files = finish_report(data, options, model, base.as_ref(), benefit, &mut metrics, &mut card)?;
    let writing = stage_timer::begin(stage_timer::WRITING);
    write_folder(out, files, &metrics, card)?;
    drop(writing);
    let TargetReport { test, points, .. } = report;
    let interrupted = ended.interrupted;
    Ok(TrainOutcome { model: classifier, metrics, test, parts, points, advice: None, choice: None, best, interrupted })
}

/// Trains an n-gram model without a network, and writes the model folder.
pub(super) fn train_ngrams<A: LogisticTarget>(
    data: &TrainingData<A>,
    mut training: Training<'_>,
) -> Result<TrainOutcome<NgramClassifier, A::Scores>> {
    data.check_weights()?;
    let (context, observe) = training.begin(ModelKind::Ngrams)?;
    let RunContext { options, out, stop } = context;
    let folds = cross_validate(data, context, observe, &|data, training| {
        Ok(fold_figures::<A>(&train_ngrams(data, training)?.test))
    })?;
    let settings = (&options.overrides.ngram_config(data), None);
    report_memory(upper_bound(ProcessUsage::measure().current, training_memory(data, settings.0)), observe);
    let chosen = fit_and_report(data, "n-grams", settings, stop, observe)?;
    let (target, abstention) = fit_on_validation(data, &chosen.model);
    let ngrams = refit(data, (&chosen.model, None), chosen.warm_start, settings, stop, observe)?;
    let config = NgramClassifierConfig {
        model_type: ModelKind::Ngrams.model_type().into(),
        chumoku_version: env!("CARGO_PKG_VERSION").into(),
        labels: data.labels.clone(),
        target,
        hierarchy: data.hierarchy.clone(),
        scale: 1.0,
        abstention,
        decision_rule: None,
        ngrams: ngrams.scheme().clone(),
    };
    let model = NgramClassifier { config, ngrams, thresholds: None };

    let _stage = stage_timer::begin(stage_timer::REPORT);
    let report = TargetReport::new(data, Predictor::Ngrams(&model), options.seed)?;
    let (rows, _) = reported_rows(data);
    let parts = vec![(A::BASELINE, A::baseline_scores(&ScoredRows { data, rows, seed: options.seed }))];
    let (found, benefit) = (chosen.model.report(), chosen.column_benefit.as_ref());
    let valid_loss = found.and_then(|report| report.valid_loss);
    let mut metrics = json!({
        "chumoku_version": env!("CARGO_PKG_VERSION"),
        "task": A::TASK,
        "model": "ngrams",
        "seed": options.seed,
        "interrupted": false,
        "rows": { "train": data.train.len(), "valid": data.valid.len(), "test": data.test.len() },
        "files": data.sources,
        "data_sha256": data.fingerprint(),
        "features": model.num_features(),
        "c": found.map(|report| report.c),
        "valid": valid_loss.map(|loss| json!({ "log_loss": loss })),
        "folds": folds,
        "columns": benefit.map(|benefit| benefit.to_json(&data.columns)),
        "notes": data.notes,
    });
    if A::HAS_LABELS {
        metrics["labels"] = json!(data.labels);
    }
    report.add_scores(&mut metrics, &model.config.target, &parts);
    report.add_abstention(&mut metrics, model.config.abstention.as_ref());
    if A::HAS_LABELS {
        metrics["strongest_ngrams"] = strongest_ngrams(Some(&model.ngrams), data);
    }
    TargetReport::add_unseen(data, Predictor::Ngrams(&model), options.seed, &mut metrics)?;

    let mut card = A::heading(data);
    card += &report.warning();
    card += &A::ngram_summary(data, &format_thousands(model.num_features()));
    card += &report.score_section(&model.config.target, &[A::baseline_name()], &parts);
    card += &data_section(data, options.seed);
    card += &unseen_section(&metrics, A::FIGURE);
    card += &limits_section();
    card += &usage_section(data.reads_pairs());
    card += &strongest_section(&metrics["strongest_ngrams"]);
    let files = finish_report(data, options, Predictor::Ngrams(&model), None, benefit, &mut metrics, &mut card)?;
    let writing = stage_timer::begin(stage_timer::WRITING);
    write_folder(out, files, &metrics, card)?;
    drop(writing);
    let TargetReport { test, points, .. } = report;
    let [advice, choice] = [None, None];
    Ok(TrainOutcome { model, metrics, test, parts, points, advice, choice, best: None, interrupted: false })
}

/// Fits the target of an n-gram model and the calibration for abstention on the validation rows.
fn fit_on_validation<A: LogisticTarget>(
    data: &TrainingData<A>,
    model: &NgramModel,
) -> (PredictionTarget, Option<AbstentionCalibration>) {
    let texts = data.valid.texts();
    let log_odds: LogOdds = model.logits_batch(&texts).chunks_exact(model.num_classes()).map(<[f32]>::to_vec).collect();
    let known: Vec<f32> = texts.iter().map(|text| model.known_share(text)).collect();
    let (target, abstention) = A::fit(data, &MemberLogOdds { first: &log_odds, second: None }, Some(&known));
    (target.into_ngrams_only(), abstention)
}

/// The figures of a fold.
fn fold_figures<A: LogisticTarget>(test: &A::Scores) -> Vec<(&'static str, f64)> {
    let figures = A::figures(test).into_iter().filter(|(name, _)| A::FOLD_FIGURES.contains(name));
    figures.map(|(name, value)| (name, value.as_f64().unwrap_or(f64::NAN))).collect()
}

/// Scores of a model for its report.
struct TargetReport<A: LogisticTarget> {
    /// The part of the data that is scored, and its number of rows.
    part: &'static str,
    rows: usize,
    test: A::Scores,
    /// For numbers, the true and the predicted number of each row.
    points: Vec<[f64; 2]>,
    confidences: Vec<(f32, bool)>,
}

impl<A: LogisticTarget> TargetReport<A> {
    fn new(data: &TrainingData<A>, model: Predictor<'_>, seed: u64) -> Result<TargetReport<A>> {
        let (rows, part) = reported_rows(data);
        let predictions = model.predict(&rows.texts())?;
        let confidences = A::confidences(model.target(), rows, &predictions);
        let (test, points) = A::scores(&ScoredRows { data, rows, seed }, model.target(), predictions)?;
        Ok(TargetReport { part, rows: rows.len(), test, points, confidences })
    }

    fn add_scores(&self, metrics: &mut Value, target: &PredictionTarget, parts: &[(&'static str, A::Scores)]) {
        metrics["blend"] = match target {
            PredictionTarget::Labels(blend) => json!(blend),
            PredictionTarget::Number(blend) => json!(blend),
            PredictionTarget::OneClass => Value::Null,
        };
        metrics["scored_on"] = self.part.into();
        A::figures(&self.test).into_iter().for_each(|(name, value)| metrics[name] = value);
        metrics["scores"] = json!(self.test);
        metrics["parts"] =
            parts.iter().map(|(name, scores)| ((*name).to_owned(), json!(scores))).collect::<Map<_, _>>().into();
    }

    /// Adds the scores on test rows whose texts are not in the training data, if others are.
    fn add_unseen(data: &TrainingData<A>, model: Predictor<'_>, seed: u64, metrics: &mut Value) -> Result<()> {
        data.add_unseen(metrics, |rows| {
            let predictions = model.predict(&rows.texts())?;
            Ok(json!(A::scores(&ScoredRows { data, rows, seed }, model.target(), predictions)?.0))
        })
    }

    fn add_abstention(&self, metrics: &mut Value, abstention: Option<&AbstentionCalibration>) {
        metrics["abstain"] = abstain_levels(abstention, (&self.confidences, &[])).into();
        metrics["risk_coverage"] = json!(risk_coverage(&self.confidences));
    }

    /// The warning that concerns all figures.
    fn warning(&self) -> String {
        few_rows_warning(self.rows).map_or(String::new(), |warning| format!("**{warning}**\n\n"))
    }

    /// The tables of scores. `names` are those of `parts`.
    fn score_section(&self, target: &PredictionTarget, names: &[&str], parts: &[(&'static str, A::Scores)]) -> String {
        let others = names.iter().copied().zip(parts.iter().map(|(_, scores)| scores));
        let all: Vec<_> = std::iter::once((this_model_name(), &self.test)).chain(others).collect();
        A::score_section(target, &all, self.part)
    }
}
