//! Training a classifier of one class a text: its two halves, what they are worth together, and the report.

use super::card::{decision_json, most_frequent_class, report_rows, unseen_section};
use super::changes::changes_of;
use super::classifier_task::Classify;
use super::crew::Crew;
use super::few_rows::{self, Candidate, Choice, Few, Joint};
use super::folds::cross_validate;
use super::halves::{self, Given, Whole};
use super::names::{label, network_name};
use super::network::Network;
use super::ngram_folds::is_few;
use super::recorded::with_encoder;
use super::run::{Ended, run};
use super::state::Best;
use super::strongest::{section, strongest};
use super::training::{Training, write_folder};
use super::tuned::Tuned;
use super::{Blend, Event, Freeze, Scores, TrainOptions, TrainingData};
use crate::caution::Caution;
use crate::decision::{Decision, Optimize};
use crate::models::Classifier;
use crate::ngram::WarmStart;
use crate::output::WorkFolder;
use crate::problem::Problem;
use crate::text_classifier::{ModelConfig, TextClassifier};
use crate::{Error, ModelKind, Result, stages, tr};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// How a run ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The model, as it was saved.
    pub model: TextClassifier,
    /// What `metrics.json` holds.
    pub metrics: Value,
    /// Scores on the test rows: the whole predictor.
    pub test: Scores,
    /// Scores on the test rows of the transformer alone, the n-grams alone, and the most frequent class.
    pub parts: [Scores; 3],
    /// Scores on the test rows of the transformer that would have been trained from scratch, where the network came
    /// pretrained and the run was not stopped.
    pub from_scratch: Option<Scores>,
    /// Which of the three predictors the figures advise to use, in one line.
    pub advice: String,
    /// Which way of training was taken and why, in one line, where there was a choice.
    pub choice: Option<String>,
    /// The best evaluation.
    pub best: Option<Best>,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
}

/// Trains a classifier and writes the model folder `out`.
///
/// The bytes of `model.safetensors` follow from the data, the options, the instruction set and the build: not from
/// the number of threads, nor from where the run was killed and resumed.
///
/// # Errors
/// If the folder cannot be written, a checkpoint does not fit, or the loss is no longer finite.
pub fn train(data: &TrainingData, training: Training<'_>) -> Result<Outcome> {
    train_tuned(data, training, None)
}

/// [`train`] with settings that a search has found, whose report stands beside the model's.
pub(super) fn train_tuned(data: &TrainingData, training: Training<'_>, tuned: Option<Tuned>) -> Result<Outcome> {
    training.begin(ModelKind::Classifier)?;
    let Training { options, out, stop, mut observe } = training;
    let (options, observe) = (&options, &mut *observe);
    data.check_optimize(options.optimize)?;
    let folds = cross_validate(data, (options, out, stop), observe, &|data, training| {
        let test = train(data, training)?.test;
        Ok(vec![("accuracy", test.accuracy), ("macro_f1", test.macro_f1)])
    })?;
    let Trained { whole, few, choice } = trained(data, (options, out, stop), tuned.is_some(), observe)?;
    let is_new = whole.classifier.origin.is_some() && whole.before.is_none();
    let from_scratch = match is_new && !whole.ended.interrupted {
        true => from_scratch(data, (options, out, stop), observe)?,
        false => None,
    };
    let beside = Beside { from_scratch, folds, tuned, choice };
    finish(data, (options, out, stop), (whole, few), beside, observe)
}

/// Scores of the transformer that would have been trained from scratch, which shows what the pretrained encoder brought.
/// None if it was stopped.
fn from_scratch(
    data: &TrainingData,
    (options, out, stop): (&TrainOptions, &Path, &AtomicBool),
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Option<Scores>> {
    let options = TrainOptions {
        folds: None,
        from: None,
        freeze: None,
        epochs: None,
        resume: false,
        watch: None,
        crew: None,
        ..options.clone()
    };
    let network = Network::new(data, &options)?;
    let model = Classifier::new(network.plan.model.clone())?;
    let task = Classify::new(data, &network, &model)?;
    // Its checkpoints are for nobody: it is quick, and killed it comes out the same when it is trained again.
    let folder = WorkFolder::create(out).map_err(Error::writing("creating a folder in", out))?;
    let mut shown = |event: Event<'_>| {
        if let Event::Evaluated { epoch, .. } = event {
            let of = network.plan.settings.epochs;
            let text = tr!(
                "a transformer, for comparison: {epoch} of {of} epochs",
                "比較のためのトランスフォーマー: {epoch}/{of} エポック"
            );
            observe(Event::Working(label("baseline"), text));
        }
    };
    let ended = run(&task, &options, None, folder.path(), stop, &mut shown)?;
    drop(task);
    if ended.interrupted {
        return Ok(None);
    }
    let config = ModelConfig {
        model_type: ModelKind::Classifier.model_type().into(),
        chumoku_version: env!("CARGO_PKG_VERSION").into(),
        labels: data.labels.clone(),
        problem: Problem::OneClass,
        hierarchy: data.hierarchy.clone(),
        blend: Blend::ATTENTION,
        ngrams: None,
        precision: network.plan.settings.precision,
        max_tokens: None,
        caution: None,
        decision: None,
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
    Ok(Some(scratch.scores(report_rows(data).0, options.seed)?.whole))
}

/// What is reported beside the model.
struct Beside {
    from_scratch: Option<Scores>,
    folds: Option<Value>,
    tuned: Option<Tuned>,
    choice: Option<Choice>,
}

/// A predictor whose halves are trained, but not joined.
struct Trained {
    whole: Whole,
    /// How they are joined, where cross-validation decided that.
    few: Option<Joint>,
    choice: Option<Choice>,
}

/// Trains both halves, in the way that is best on rows that had no part in the weights.
///
/// A search (`is_tuning`) judges by validation rows and goes on from checkpoints, so cross-validation has no part in it.
fn trained(
    data: &TrainingData,
    (options, out, stop): (&TrainOptions, &Path, &AtomicBool),
    is_tuning: bool,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Trained> {
    let say = |choice: &Choice, observe: &mut dyn FnMut(Event<'_>)| {
        observe(Event::Said(label("choice"), choice.sentence()));
    };
    if is_tuning {
        let whole = halves::train(data, Problem::OneClass, (options, out, stop), Given::default(), observe)?;
        return Ok(Trained { whole, few: None, choice: None });
    }
    let alone = alone_with_few_rows(data, options, observe)?;
    let options = alone.as_ref().unwrap_or(options);
    if let Some(few) = few_rows::choose(data, options, stop, observe)? {
        let Few { choice, data: all, joint, c, network } = few;
        say(&choice, observe);
        let options = TrainOptions { epochs: choice.epochs().or(options.epochs), ..options.clone() };
        let given = Given { c: Some(c), network, watched: Some(&data.valid) };
        let whole = halves::train(&all, Problem::OneClass, (&options, out, stop), given, observe)?;
        return Ok(Trained { whole, few: Some(joint), choice: Some(choice) });
    }
    // A helper only takes steps; the leader compares them with the regression.
    let is_compared = options.freeze != Some(Freeze::All);
    let candidate = match options.crew.as_ref().is_some_and(Crew::is_helper) && is_compared {
        true => None,
        false => Candidate::of(data, options, stop, observe)?,
    };
    if let (Some(Freeze::All), Some(_)) = (options.freeze, &candidate) {
        let asked = candidate.map(|candidate| few_rows::asked(candidate, data));
        let (network, choice) = asked.unzip();
        choice.iter().for_each(|choice| say(choice, observe));
        let given = Given { network, ..Given::default() };
        let whole = halves::train(data, Problem::OneClass, (options, out, stop), given, observe)?;
        return Ok(Trained { whole, few: None, choice });
    }
    let whole = halves::train(data, Problem::OneClass, (options, out, stop), Given::default(), observe)?;
    let Some(candidate) = candidate.filter(|_| !whole.ended.interrupted && !data.valid.is_empty()) else {
        return Ok(Trained { whole, few: None, choice: None });
    };
    let (whole, choice) = few_rows::compare(whole, candidate, data, options.seed)?;
    say(&choice, observe);
    Ok(Trained { whole, few: None, choice: Some(choice) })
}

/// Returns the options without the crew where there are few rows: cross-validation takes most of the time then, and it is not
/// shared.
///
/// # Errors
/// [`Error::Helped`] in a helper, which has nothing to do.
fn alone_with_few_rows(
    data: &TrainingData,
    options: &TrainOptions,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Option<TrainOptions>> {
    let Some(crew) = options.crew.as_ref().filter(|_| is_few(data)) else { return Ok(None) };
    if crew.is_helper() {
        return Err(Error::Helped);
    }
    let rows = data.train.len() + data.valid.len();
    let text = tr!(
        "with {rows} rows this process trains alone: helpers would gain nothing",
        "{rows} 行なので、このプロセスだけで学習します。分担しても速くなりません"
    );
    observe(Event::Said(label("crew"), text));
    Ok(Some(TrainOptions { crew: None, ..options.clone() }))
}

/// Joins the two halves, as cross-validation found or else by the validation rows. The n-grams then learn from the
/// validation rows too, if they have not yet. Returns the decision for macro-F1, for the report.
fn join_and_refit(
    data: &TrainingData,
    (classifier, few): (&mut TextClassifier, Option<Joint>),
    (ended, found, weights): (&Ended, WarmStart, Option<&[f32]>),
    (options, stop): (&TrainOptions, &AtomicBool),
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Option<Decision>> {
    if let Some(Joint { blend, caution, found, decision }) = few {
        let config = &mut classifier.config;
        (config.blend, config.caution, config.decision) = (blend, Some(caution), decision);
        return Ok(found);
    }
    let decision = join(classifier, data, weights, options.optimize)?;
    let settings = (&options.set.ngrams(data), weights);
    halves::refit(classifier, data, found, settings, (ended, stop), observe)?;
    Ok(decision)
}

/// Joins the two halves, by the validation rows, and decides for the figure that was asked for. Returns the decision for
/// macro-F1, for the report.
fn join(
    classifier: &mut TextClassifier,
    data: &TrainingData,
    weights: Option<&[f32]>,
    optimize: Option<Optimize>,
) -> Result<Option<Decision>> {
    let valid = classifier.predict(&data.valid.texts())?;
    let attention: Vec<Vec<f32>> = valid.iter().map(|p| p.attention.clone()).collect();
    let ngrams: Vec<Vec<f32>> = valid.iter().filter_map(|p| p.ngrams.clone()).collect();
    classifier.config.blend =
        Blend::fit(&attention, &ngrams, &data.valid.labels, data.valid.counted(weights).as_deref());
    let mut found = None;
    if !data.valid.is_empty() {
        let blend = classifier.config.blend;
        let of_row = |(attention, ngrams): (&Vec<f32>, &Vec<f32>)| blend.probabilities(attention, Some(ngrams));
        let probabilities: Vec<Vec<f32>> = attention.iter().zip(&ngrams).map(of_row).collect();
        let known: Vec<f32> = data.valid.texts().iter().filter_map(|text| classifier.known_share(text)).collect();
        let tree = data.hierarchy.as_ref();
        let labels = &data.valid.labels;
        found = tree.is_none().then(|| Decision::for_macro_f1(&probabilities, labels, data.labels.len()));
        classifier.config.decision = found.clone().filter(|_| optimize.is_some());
        let decision = classifier.config.decision.as_ref();
        classifier.config.caution = Some(Caution::of_classes(&probabilities, labels, &known, (decision, tree)));
    }
    Ok(found)
}

/// The model that [`train`] would make, not written anywhere but for checkpoints.
pub(super) fn predictor(
    data: &TrainingData,
    run: (&TrainOptions, &Path, &AtomicBool),
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<TextClassifier> {
    let (options, _, stop) = run;
    let Trained { whole, few, .. } = trained(data, run, true, observe)?;
    let Whole { mut classifier, ended, weights, found, .. } = whole;
    let of_ngrams = (&ended, found, weights.as_deref());
    join_and_refit(data, (&mut classifier, few), of_ngrams, (options, stop), observe)?;
    if ended.interrupted { Err(Error::Interrupted) } else { Ok(classifier) }
}

/// Scores the model with the decision for macro-F1, or without it where it is the model's: the entry `optimize` of
/// `metrics.json`.
fn optimized(
    decision: Decision,
    classifier: &mut TextClassifier,
    data: &TrainingData,
    options: &TrainOptions,
) -> Result<Value> {
    let is_applied = classifier.config.decision.is_some();
    let factors = decision.factors.clone();
    let own = std::mem::replace(&mut classifier.config.decision, (!is_applied).then_some(decision));
    let scores = classifier.scores(report_rows(data).0, options.seed);
    classifier.config.decision = own;
    Ok(decision_json(is_applied, &factors, &scores?.whole))
}

/// Blend, scores, and the folder's files.
fn finish(
    data: &TrainingData,
    (options, out, stop): (&TrainOptions, &Path, &AtomicBool),
    (whole, few): (Whole, Option<Joint>),
    Beside { from_scratch, folds, tuned, choice }: Beside,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Outcome> {
    let Whole { mut classifier, plan, ended, weights, found, seconds, worth, before } = whole;
    let (state, interrupted) = (&ended.state, ended.interrupted);
    let of_ngrams = (&ended, found, weights.as_deref());
    // Without validation rows no epoch is known to be the best.
    let best = state.best.filter(|_| few.is_none() && !data.valid.is_empty());
    let decision = join_and_refit(data, (&mut classifier, few), of_ngrams, (options, stop), observe)?;

    let _stage = stages::begin(stages::REPORT);
    let report = super::card::evaluate(&classifier, data, from_scratch, options.seed)?;
    let mut metrics = super::card::metrics(&classifier, data, options, &plan, state, &report, interrupted);
    metrics["folds"] = folds.into();
    metrics["best_epoch"] = best.map(|best| best.epoch).into();
    metrics["choice"] = choice.as_ref().map(Choice::to_json).into();
    if let Some(figures) = choice.as_ref().and_then(Choice::held_out) {
        metrics["valid"] = figures;
    }
    metrics["optimize"] =
        decision.map_or(Ok(Value::Null), |decision| optimized(decision, &mut classifier, data, options))?;
    if let Some(unseen) = data.unseen_test_rows() {
        metrics["unseen"] = json!(classifier.scores(&unseen, options.seed)?.whole);
    }
    metrics["columns"] = worth.as_ref().map(|worth| worth.to_json(&data.columns)).into();
    metrics["strongest_ngrams"] = strongest(classifier.ngrams.as_ref(), data);
    let mut card = super::card::model_card(&classifier, data, &plan, state, &report, options, interrupted);
    choice.iter().for_each(|choice| card += &choice.section());
    card += &unseen_section(&metrics, "accuracy");
    card += &section(&metrics["strongest_ngrams"]);
    worth.iter().for_each(|worth| card += &worth.section(&data.columns));
    if let Some(before) = &before
        && let Some((figures, section)) = changes_of(data, [before, &classifier], options)?
    {
        metrics["further"] = figures;
        card += &section;
    }
    let mut files = classifier.files()?;
    files.push(super::ngrams::seen(data));
    if let Some(tuned) = tuned.filter(|_| !interrupted) {
        let (_, part) = report_rows(data);
        tuned.report((&report.whole, &report.sure, part), &mut metrics, &mut card, &mut files);
    }
    let writing = stages::begin(stages::WRITING);
    write_folder(out, files, &metrics, card)?;
    drop(writing);
    let super::card::Report { whole, parts, from_scratch, advice, .. } = report;
    let majority = &data.labels[most_frequent_class(data)];
    let advice = advice.sentence(network_name(classifier.config.model.body.network()), seconds, majority);
    let choice = choice.map(|choice| choice.sentence());
    let advice = with_encoder(advice, (options, 1.0 - whole.accuracy), &data.train.texts);
    Ok(Outcome { model: classifier, metrics, test: whole, parts, from_scratch, advice, choice, best, interrupted })
}
