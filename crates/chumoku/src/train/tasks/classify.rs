//! Training a classifier of one class a text: both ensemble members, their blend, and the report.

use crate::blend::Blend;
use crate::models::Classifier;
use crate::output::WorkFolder;
use crate::prediction::abstention::AbstentionCalibration;
use crate::prediction::decision_rule::{DecisionRule, Optimize};
use crate::prediction::target::PredictionTarget;
use crate::scoring::Scores;
use crate::text_models::classifier::{TextClassifier, TextClassifierConfig};
use crate::text_models::predictor::Predictor;
use crate::train::data::training_data::TrainingData;
use crate::train::ensemble::classifier_network::ClassifierNetwork;
use crate::train::ensemble::classifier_task::ClassifierTask;
use crate::train::ensemble::cross_validation::cross_validate;
use crate::train::ensemble::finished_report::finish_report;
use crate::train::ensemble::members::{self, EnsembleOptions, TrainedEnsemble};
use crate::train::ensemble::ngram_folds::needs_cross_validation;
use crate::train::ensemble::small_data;
use crate::train::ensemble::small_data::{BlendAndDecision, MethodChoice, RegressionCandidate, SmallDataChoice};
use crate::train::reports::card::{self, decision_json, most_frequent_class, reported_rows, unseen_section};
use crate::train::reports::display_names::network_name;
use crate::train::reports::recorded_accuracies::add_encoder_advice;
use crate::train::reports::strongest_ngrams::{strongest_ngrams, strongest_section};
use crate::train::reports::tuning_report::{ReportedScores, TuningReport};
use crate::train::run_folder::folder_run::run_in_folder;
use crate::train::run_folder::training::{RunContext, TrainOutcome, Training, write_folder};
use crate::train::settings::options::TrainOptions;
use crate::train::settings::plan::Freeze;
use crate::train::training_loop::train_event::{TrainEvent, topic_label};
use crate::train::training_loop::worker_group::WorkerGroup;
use crate::{Error, ModelKind, Result, stage_timer, tr};
use serde_json::{Value, json};

/// Trains a classifier and writes the model folder `out`.
///
/// The bytes of `model.safetensors` depend only on the data, the options, the instruction set and the build. The number
/// of threads does not change them, nor does interrupting and resuming.
///
/// # Errors
/// If the folder cannot be written, a checkpoint does not fit, or the loss is no longer finite.
pub fn train(data: &TrainingData, training: Training<'_>) -> Result<TrainOutcome<TextClassifier, Scores>> {
    train_tuned(data, training, None)
}

/// Trains with the settings of a search, whose report becomes part of the model's. See [`train`].
pub(crate) fn train_tuned(
    data: &TrainingData,
    mut training: Training<'_>,
    tuned: Option<TuningReport>,
) -> Result<TrainOutcome<TextClassifier, Scores>> {
    data.check_weights()?;
    let (context, observe) = training.begin(ModelKind::Classifier)?;
    let options = context.options;
    data.check_optimize(options.optimize)?;
    let folds = cross_validate(data, context, observe, &|data, training| {
        let test = train(data, training)?.test;
        Ok(vec![("accuracy", test.accuracy), ("macro_f1", test.macro_f1)])
    })?;
    let TrainedClassifier { ensemble: whole, blend: few, choice } =
        train_ensemble(data, context, tuned.is_some(), observe)?;
    let is_new = whole.classifier.origin.is_some() && whole.base.is_none();
    let from_scratch = match is_new && !whole.ended.interrupted {
        true => from_scratch(data, context, observe)?,
        false => None,
    };
    let beside = ReportExtras { from_scratch, folds, tuned, choice };
    write_model(data, context, (whole, few), beside, observe)
}

/// Scores a transformer from scratch, to show the gain of the pretrained encoder. Returns `None` if training was
/// interrupted.
fn from_scratch(
    data: &TrainingData,
    context: RunContext<'_>,
    observe: &mut dyn FnMut(TrainEvent<'_>),
) -> Result<Option<Scores>> {
    let RunContext { options, out, stop } = context;
    let options = TrainOptions {
        folds: None,
        from: None,
        freeze: None,
        epochs: None,
        resume: false,
        watch: None,
        worker_group: None,
        ..options.clone()
    };
    let network = ClassifierNetwork::new(data, &options)?;
    let model = Classifier::new(network.plan.model.clone())?;
    let task = ClassifierTask::new(data, &network, &model)?;
    // Its checkpoints are discarded: training is fast and reproducible.
    let folder = WorkFolder::create(out).map_err(Error::write("creating a folder in", out))?;
    let mut shown = |event: TrainEvent<'_>| {
        if let TrainEvent::Evaluated { epoch, .. } = event {
            let of = network.plan.settings.epochs;
            let text = tr!(
                "a transformer, for comparison: {epoch} of {of} epochs",
                "比較のためのトランスフォーマー: {epoch}/{of} エポック"
            );
            observe(TrainEvent::Progress(topic_label("baseline"), text));
        }
    };
    let context = RunContext { options: &options, out: folder.path(), stop };
    let ended = run_in_folder(&task, context, None, &mut shown)?;
    drop(task);
    if ended.interrupted {
        return Ok(None);
    }
    let config = TextClassifierConfig {
        model_type: ModelKind::Classifier.model_type().into(),
        chumoku_version: env!("CARGO_PKG_VERSION").into(),
        labels: data.labels.clone(),
        target: PredictionTarget::OneClass,
        hierarchy: data.hierarchy.clone(),
        blend: Blend::NETWORK_ONLY,
        ngrams: None,
        precision: network.plan.settings.precision,
        max_tokens: None,
        abstention: None,
        decision_rule: None,
        model: network.plan.model,
    };
    let params = ended.params();
    let scratch = TextClassifier {
        config,
        model,
        params,
        tokenizer: network.tokenizer,
        ngrams: None,
        origin: None,
        thresholds: None,
    };
    Ok(Some(scratch.scores(reported_rows(data).0, options.seed)?.ensemble))
}

/// Additional parts of the report.
struct ReportExtras {
    from_scratch: Option<Scores>,
    folds: Option<Value>,
    tuned: Option<TuningReport>,
    choice: Option<MethodChoice>,
}

/// An ensemble whose members are trained, but not blended.
struct TrainedClassifier {
    ensemble: TrainedEnsemble,
    /// The blend, if cross-validation chose it.
    blend: Option<BlendAndDecision>,
    choice: Option<MethodChoice>,
}

/// Trains both ensemble members, with the method that is best on held-out rows.
///
/// A search (`is_tuning`) needs checkpoints and scores validation rows, so it does not use cross-validation.
fn train_ensemble(
    data: &TrainingData,
    context: RunContext<'_>,
    is_tuning: bool,
    observe: &mut dyn FnMut(TrainEvent<'_>),
) -> Result<TrainedClassifier> {
    let say = |choice: &MethodChoice, observe: &mut dyn FnMut(TrainEvent<'_>)| {
        observe(TrainEvent::Message(topic_label("choice"), choice.sentence()));
    };
    if is_tuning {
        let whole =
            members::train_members(data, PredictionTarget::OneClass, context, EnsembleOptions::default(), observe)?;
        return Ok(TrainedClassifier { ensemble: whole, blend: None, choice: None });
    }
    let alone = without_worker_group(data, context.options, observe)?;
    let options = alone.as_ref().unwrap_or(context.options);
    let context = RunContext { options, ..context };
    let stop = context.stop;
    if let Some(few) = small_data::choose_by_cross_validation(data, options, stop, observe)? {
        let SmallDataChoice { choice, data: all, blend: joint, c, network } = few;
        say(&choice, observe);
        let options = TrainOptions { epochs: choice.epochs().or(options.epochs), ..options.clone() };
        let given = EnsembleOptions { c: Some(c), network, evaluation_rows: Some(&data.valid) };
        let whole = members::train_members(
            &all,
            PredictionTarget::OneClass,
            RunContext { options: &options, ..context },
            given,
            observe,
        )?;
        return Ok(TrainedClassifier { ensemble: whole, blend: Some(joint), choice: Some(choice) });
    }
    // A worker only computes gradients. The coordinator compares the network with the regression.
    let is_compared = options.freeze != Some(Freeze::All);
    let candidate = match options.worker_group.as_ref().is_some_and(WorkerGroup::is_worker) && is_compared {
        true => None,
        false => RegressionCandidate::fit(data, options, stop, observe)?,
    };
    if let (Some(Freeze::All), Some(_)) = (options.freeze, &candidate) {
        let requested = candidate.map(|candidate| small_data::requested_regression(candidate, data));
        let (network, choice) = requested.unzip();
        choice.iter().for_each(|choice| say(choice, observe));
        let given = EnsembleOptions { network, ..EnsembleOptions::default() };
        let whole = members::train_members(data, PredictionTarget::OneClass, context, given, observe)?;
        return Ok(TrainedClassifier { ensemble: whole, blend: None, choice });
    }
    let whole = members::train_members(data, PredictionTarget::OneClass, context, EnsembleOptions::default(), observe)?;
    let Some(candidate) = candidate.filter(|_| !whole.ended.interrupted && !data.valid.is_empty()) else {
        return Ok(TrainedClassifier { ensemble: whole, blend: None, choice: None });
    };
    let (whole, choice) = small_data::choose_by_validation(whole, candidate, data, options.seed)?;
    say(&choice, observe);
    Ok(TrainedClassifier { ensemble: whole, blend: None, choice: Some(choice) })
}

/// Returns the options without the worker group if there are few rows. Cross-validation then takes most of the time,
/// and it is not shared.
///
/// # Errors
/// [`Error::WorkerFinished`] in a worker, which has nothing to do.
fn without_worker_group(
    data: &TrainingData,
    options: &TrainOptions,
    observe: &mut dyn FnMut(TrainEvent<'_>),
) -> Result<Option<TrainOptions>> {
    let Some(workers) = options.worker_group.as_ref().filter(|_| needs_cross_validation(data)) else { return Ok(None) };
    if workers.is_worker() {
        return Err(Error::WorkerFinished);
    }
    let rows = data.train.len() + data.valid.len();
    let text = tr!(
        "{rows} rows are too few to share the work: this process trains alone",
        "{rows} 行なので、このプロセスだけで学習します。分担しても速くなりません"
    );
    observe(TrainEvent::Message(topic_label("workers"), text));
    Ok(Some(TrainOptions { worker_group: None, ..options.clone() }))
}

/// Blends both members with the blend of cross-validation, or fits it on the validation rows. The n-grams are then
/// refitted with the validation rows, unless they are already. Returns the decision for macro-F1, for the report.
fn blend_and_refit(
    data: &TrainingData,
    ensemble: &mut TrainedEnsemble,
    few: Option<BlendAndDecision>,
    context: RunContext<'_>,
    observe: &mut dyn FnMut(TrainEvent<'_>),
) -> Result<Option<DecisionRule>> {
    if let Some(BlendAndDecision { blend, calibration, macro_f1_decision: found, decision }) = few {
        let config = &mut ensemble.classifier.config;
        (config.blend, config.abstention, config.decision_rule) = (blend, Some(calibration), decision);
        return Ok(found);
    }
    let RunContext { options, stop, .. } = context;
    let TrainedEnsemble { classifier, ended, weights, warm_start, .. } = ensemble;
    let weights = weights.as_deref();
    let decision = blend_members(classifier, data, weights, options.optimize)?;
    let settings = (&options.overrides.ngram_config(data), weights);
    members::refit_ngrams(classifier, data, std::mem::take(warm_start), settings, (ended, stop), observe)?;
    Ok(decision)
}

/// Fits the blend on the validation rows, and the decision for the requested figure. Returns the decision for macro-F1,
/// for the report.
fn blend_members(
    classifier: &mut TextClassifier,
    data: &TrainingData,
    weights: Option<&[f32]>,
    optimize: Option<Optimize>,
) -> Result<Option<DecisionRule>> {
    let valid = classifier.predict(&data.valid.texts())?;
    let network: Vec<Vec<f32>> = valid.iter().map(|p| p.network.clone()).collect();
    let ngrams: Vec<Vec<f32>> = valid.iter().filter_map(|p| p.ngrams.clone()).collect();
    classifier.config.blend =
        Blend::fit(&network, &ngrams, &data.valid.labels, data.valid.row_weights(weights).as_deref());
    let mut found = None;
    if !data.valid.is_empty() {
        let blend = classifier.config.blend;
        let of_row = |(network, ngrams): (&Vec<f32>, &Vec<f32>)| blend.probabilities(network, Some(ngrams));
        let probabilities: Vec<Vec<f32>> = network.iter().zip(&ngrams).map(of_row).collect();
        let known: Vec<f32> = data.valid.texts().iter().filter_map(|text| classifier.known_share(text)).collect();
        let tree = data.hierarchy.as_ref();
        let labels = &data.valid.labels;
        found = tree.is_none().then(|| DecisionRule::for_macro_f1(&probabilities, labels, data.labels.len()));
        classifier.config.decision_rule = found.clone().filter(|_| optimize.is_some());
        let decision = classifier.config.decision_rule.as_ref();
        classifier.config.abstention =
            Some(AbstentionCalibration::fit_classes(&probabilities, labels, &known, (decision, tree)));
    }
    Ok(found)
}

/// Trains the model of [`train`] without writing anything but checkpoints.
pub(crate) fn train_predictor(
    data: &TrainingData,
    context: RunContext<'_>,
    observe: &mut dyn FnMut(TrainEvent<'_>),
) -> Result<TextClassifier> {
    let TrainedClassifier { mut ensemble, blend, .. } = train_ensemble(data, context, true, observe)?;
    blend_and_refit(data, &mut ensemble, blend, context, observe)?;
    if ensemble.ended.interrupted { Err(Error::Interrupted) } else { Ok(ensemble.classifier) }
}

/// Scores the model with the decision for macro-F1, or without it if the model applies it. The result is the entry
/// `optimize` of `metrics.json`.
fn macro_f1_report(
    decision: DecisionRule,
    classifier: &mut TextClassifier,
    data: &TrainingData,
    options: &TrainOptions,
) -> Result<Value> {
    let is_applied = classifier.config.decision_rule.is_some();
    let factors = decision.factors.clone();
    let own = std::mem::replace(&mut classifier.config.decision_rule, (!is_applied).then_some(decision));
    let scores = classifier.scores(reported_rows(data).0, options.seed);
    classifier.config.decision_rule = own;
    Ok(decision_json(is_applied, &factors, &scores?.ensemble))
}

/// Fits the blend, scores the model, and writes the folder.
fn write_model(
    data: &TrainingData,
    context: RunContext<'_>,
    (mut whole, few): (TrainedEnsemble, Option<BlendAndDecision>),
    ReportExtras { from_scratch, folds, tuned, choice }: ReportExtras,
    observe: &mut dyn FnMut(TrainEvent<'_>),
) -> Result<TrainOutcome<TextClassifier, Scores>> {
    let RunContext { options, out, .. } = context;
    // Without validation rows, no epoch is the best.
    let best = whole.ended.state.best.filter(|_| few.is_none() && !data.valid.is_empty());
    let decision = blend_and_refit(data, &mut whole, few, context, observe)?;
    let (state, interrupted, seconds) = (&whole.ended.state, whole.ended.interrupted, whole.seconds);
    let (mut classifier, plan) = (whole.classifier, whole.plan);

    let _stage = stage_timer::begin(stage_timer::REPORT);
    let report = card::evaluate(&classifier, data, from_scratch, options.seed)?;
    let mut metrics = card::metrics(&classifier, data, options, &plan, state, &report, interrupted);
    metrics["folds"] = folds.into();
    metrics["best_epoch"] = best.map(|best| best.epoch).into();
    metrics["choice"] = choice.as_ref().map(MethodChoice::to_json).into();
    if let Some(figures) = choice.as_ref().and_then(MethodChoice::held_out) {
        metrics["valid"] = figures;
    }
    metrics["optimize"] =
        decision.map_or(Ok(Value::Null), |decision| macro_f1_report(decision, &mut classifier, data, options))?;
    data.add_unseen(&mut metrics, |unseen| Ok(json!(classifier.scores(unseen, options.seed)?.ensemble)))?;
    metrics["columns"] = whole.column_benefit.as_ref().map(|worth| worth.to_json(&data.columns)).into();
    metrics["strongest_ngrams"] = strongest_ngrams(classifier.ngrams.as_ref(), data);
    let mut card = card::model_card(&classifier, data, &plan, state, &report, options, interrupted);
    choice.iter().for_each(|choice| card += &choice.section());
    card += &unseen_section(&metrics, "accuracy");
    card += &strongest_section(&metrics["strongest_ngrams"]);
    let (model, benefit) = (Predictor::Classifier(&classifier), whole.column_benefit.as_ref());
    let mut files = finish_report(data, options, model, whole.base.as_ref(), benefit, &mut metrics, &mut card)?;
    if let Some(tuned) = tuned.filter(|_| !interrupted) {
        let (_, part) = reported_rows(data);
        let scores = ReportedScores { scores: &report.ensemble, confidences: &report.confidences, part };
        tuned.add_to_report(scores, &mut metrics, &mut card, &mut files);
    }
    let writing = stage_timer::begin(stage_timer::WRITING);
    write_folder(out, files, &metrics, card)?;
    drop(writing);
    let parts = report.named_parts();
    let card::ClassifierReport { ensemble: test, advice, .. } = report;
    let majority = &data.labels[most_frequent_class(data)];
    let sentence = advice.sentence(network_name(classifier.config.model.backbone.kind()), seconds, majority);
    let choice = choice.map(|choice| choice.sentence());
    let advice = match advice.predictor {
        Some(_) => add_encoder_advice(sentence, (options, 1.0 - test.accuracy), &data.train.texts),
        None => sentence,
    };
    Ok(TrainOutcome {
        model: classifier,
        metrics,
        test,
        parts,
        points: Vec::new(),
        advice: Some(advice),
        choice,
        best,
        interrupted,
    })
}
