//! Training the n-gram model, as an ensemble member and without a network.

use super::cross_validation::cross_validate;
use super::feature_columns::ColumnBenefit;
use super::finished_report::finish_report;
use super::ngram_folds::{self, NgramCalibration, train};
use super::target::ClassifierTarget;
use crate::feature_columns::{DEFAULT_SCALE, SCALES};
use crate::lang::wording::format_thousands;
use crate::ngram::{NgramConfig, NgramData, NgramModel, NgramTarget, WarmStart};
use crate::prediction::target::PredictionTarget;
use crate::row::AsRow;
use crate::scoring::{Scores, ngrams_only_advice};
use crate::text_models::classifier::level_confidences;
use crate::text_models::ngrams::{NgramClassifier, NgramClassifierConfig};
use crate::text_models::predictor::Predictor;
use crate::train::data::training_data::TrainingData;
use crate::train::reports::card::{
    abstain_levels, class_table, data_section, decision_json, heading, majority_name, majority_scores,
    most_frequent_class, reported_rows, risk_coverage, score_table, this_model_name, unseen_section, usage_section,
};
use crate::train::reports::hierarchy_report::class_level_section;
use crate::train::reports::recorded_accuracies::add_encoder_advice;
use crate::train::reports::strongest_ngrams::{strongest_ngrams, strongest_section};
use crate::train::reports::tuning_report::{ReportedScores, TuningReport};
use crate::train::run_folder::progress::report_memory;
use crate::train::run_folder::training::{RunContext, TrainOutcome, Training, write_folder};
use crate::train::settings::options::TrainOptions;
use crate::train::training_loop::memory::{ProcessUsage, upper_bound};
use crate::train::training_loop::train_event::{TrainEvent, topic_label};
use crate::{ModelKind, Result, stage_timer, tr};
use chumoku_nn::probability::log_softmax;
use serde_json::json;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Trains an n-gram classifier without a network and writes the model folder `out`.
///
/// The bytes of `model.safetensors` depend only on the data and the build; nothing in the training is random.
///
/// # Errors
/// If the folder cannot be written. If `stop` was set, [`Error::Ngram`](crate::Error::Ngram) with
/// [`Cancelled`](crate::ngram::NgramError::Cancelled); nothing has been written then.
pub fn train_ngram_classifier(
    data: &TrainingData,
    training: Training<'_>,
) -> Result<TrainOutcome<NgramClassifier, Scores>> {
    train_tuned(data, training, None)
}

/// Trains with the settings of a search, whose report becomes part of the model's. See [`train_ngram_classifier`].
pub(crate) fn train_tuned(
    data: &TrainingData,
    mut training: Training<'_>,
    tuned: Option<TuningReport>,
) -> Result<TrainOutcome<NgramClassifier, Scores>> {
    data.check_weights()?;
    let (context, observe) = training.begin(ModelKind::Ngrams)?;
    let RunContext { options, out, stop } = context;
    data.check_optimize(options.optimize)?;
    let folds = cross_validate(data, context, observe, &|data, training| {
        let test = train_ngram_classifier(data, training)?.test;
        Ok(vec![("accuracy", test.accuracy), ("macro_f1", test.macro_f1)])
    })?;
    let weights = options.class_weights.as_ref().map(|weights| weights.for_data(data)).transpose()?;
    let settings = (&options.overrides.ngram_config(data), weights.as_deref());
    report_memory(upper_bound(ProcessUsage::measure().current, training_memory(data, settings.0)), observe);
    let FittedNgrams { model: chosen, warm_start: found, column_benefit: worth, .. } =
        fit_and_report(data, "n-grams", settings, stop, observe)?;
    let few = match &tuned {
        None => ngram_folds::cross_validate_ngrams(data, options, weights.as_deref(), stop, observe)?,
        // The search used the validation rows.
        Some(_) => None,
    };
    if let Some(weights) = &options.class_weights {
        observe(TrainEvent::Message(topic_label("weights"), weights.sentence()));
    }
    let (c, valid_loss) = chosen.report().map_or((None, None), |report| (Some(report.c), report.valid_loss));
    let c = few.as_ref().map(|few| few.c).or(c);
    let NgramCalibration { scale, abstention: calibration, macro_f1_decision: found_decision, decision } = match &few {
        Some(few) => few.calibrate(data, options, weights.as_deref()),
        None => calibrate_on_validation(data, &chosen, options, weights.as_deref()),
    };
    let ngrams = refit(data, (&chosen, c), found, settings, stop, observe)?;
    let config = NgramClassifierConfig {
        model_type: ModelKind::Ngrams.model_type().into(),
        chumoku_version: env!("CARGO_PKG_VERSION").into(),
        labels: data.labels.clone(),
        target: PredictionTarget::OneClass,
        hierarchy: data.hierarchy.clone(),
        scale,
        abstention: calibration,
        decision_rule: decision,
        ngrams: ngrams.scheme().clone(),
    };
    let mut model = NgramClassifier { config, ngrams, thresholds: None };
    let (rows, scored_on) = reported_rows(data);
    let test = model.scores(rows, options.seed)?;
    let predictions = model.predict(&rows.texts())?;
    let sure: Vec<(f32, bool)> =
        predictions.iter().zip(&rows.labels).map(|(p, &label)| p.confidence_and_correctness(label)).collect();
    let tree = data.hierarchy.as_ref();
    let levels = tree.map_or_else(Vec::new, |tree| level_confidences(tree, &predictions, &rows.labels));
    let majority = majority_scores(data, rows, options.seed);
    let mut metrics = json!({
        "chumoku_version": env!("CARGO_PKG_VERSION"),
        "model": "ngrams",
        "seed": options.seed,
        "interrupted": false,
        "rows": { "train": data.train.len(), "valid": data.valid.len(), "test": data.test.len() },
        "labels": data.labels,
        "files": data.sources,
        "data_sha256": data.fingerprint(),
        "features": model.num_features(),
        "c": c,
        "scale": scale,
        "class_weights": weights,
        "valid": valid_loss.map(|loss| json!({ "log_loss": loss })),
        "scored_on": scored_on,
        "accuracy": test.accuracy,
        "macro_f1": test.macro_f1,
        "scores": test,
        "parts": { "majority": majority },
        "abstain": abstain_levels(model.config().abstention.as_ref(), (&sure, &levels)),
        "risk_coverage": risk_coverage(&sure),
        "folds": folds,
        "strongest_ngrams": strongest_ngrams(Some(&model.ngrams), data),
        "columns": worth.as_ref().map(|worth| worth.to_json(&data.columns)),
        "notes": data.notes,
    });
    if let Some(found) = found_decision {
        let (is_applied, factors) = (model.config.decision_rule.is_some(), found.factors.clone());
        let own = std::mem::replace(&mut model.config.decision_rule, (!is_applied).then_some(found));
        let scores = model.scores(rows, options.seed);
        model.config.decision_rule = own;
        metrics["optimize"] = decision_json(is_applied, &factors, &scores?);
    }
    data.add_unseen(&mut metrics, |unseen| Ok(json!(model.scores(unseen, options.seed)?)))?;
    let mut card = card(&model, data, [&test, &majority], options.seed);
    card += &unseen_section(&metrics, "accuracy");
    card += &strongest_section(&metrics["strongest_ngrams"]);
    let mut files =
        finish_report(data, options, Predictor::Ngrams(&model), None, worth.as_ref(), &mut metrics, &mut card)?;
    if let Some(tuned) = tuned {
        let scores = ReportedScores { scores: &test, confidences: &sure, part: scored_on };
        tuned.add_to_report(scores, &mut metrics, &mut card, &mut files);
    }
    write_folder(out, files, &metrics, card)?;
    let advice = ngrams_only_advice(&test, &majority, &data.labels[most_frequent_class(data)]);
    let advice = match test.is_above_chance() {
        true => add_encoder_advice(advice, (options, 1.0 - test.accuracy), &data.train.texts),
        false => advice,
    };
    Ok(TrainOutcome {
        model,
        metrics,
        test,
        parts: vec![("majority", majority)],
        points: Vec::new(),
        advice: Some(advice),
        choice: None,
        best: None,
        interrupted: false,
    })
}

/// Fits the calibration on the validation rows.
fn calibrate_on_validation(
    data: &TrainingData,
    chosen: &NgramModel,
    options: &TrainOptions,
    class_weights: Option<&[f32]>,
) -> NgramCalibration {
    let logits = chosen.logits_batch(&data.valid.texts());
    let log_p: Vec<Vec<f32>> = logits.chunks_exact(data.labels.len()).map(log_softmax).collect();
    let known: Vec<f32> = data.valid.texts().iter().map(|text| chosen.known_share(text)).collect();
    let rows = (&data.valid.labels[..], data.valid.row_weights(class_weights));
    NgramCalibration::fit((&log_p, &known), rows, data, options)
}

/// Writes the model card.
fn card(model: &NgramClassifier, data: &TrainingData, [test, majority]: [&Scores; 2], seed: u64) -> String {
    let (rows, part) = reported_rows(data);
    let mut card = heading(data, test);
    card += &tr!(
        "A linear model over {} n-grams, trained from scratch with Chumoku {}; no network. It classifies texts into \
         {} classes.\n\n",
        "{} 個の n-gram による線形モデルです。Chumoku {} でゼロから学習しました。ネットワークは使っていません。テキストを {} クラスに\
         分類します。\n\n",
        format_thousands(model.num_features()),
        env!("CARGO_PKG_VERSION"),
        data.labels.len()
    );
    let all = [(this_model_name(), test), (majority_name(), majority)];
    card += &score_table(rows.len(), part, &all);
    card += &class_level_section(&all);
    card += &tr!(
        "\nScores are multiplied by {:.2}, which was fitted on held-out rows, so the probabilities are calibrated on them.\n\n",
        "\nスコアには、学習から除いた行で求めた係数 {:.2} を掛けます。確率はその行で較正されています。\n\n",
        model.config().scale
    );
    card += &class_table(test);
    card += &data_section(data, seed);
    card + &limits_section() + &usage_section(data.reads_pairs())
}

/// The section on the limits of n-gram models.
pub(crate) fn limits_section() -> String {
    tr!(
        "\n## Limits\n\nThe model knows nothing but its training rows. Answers for texts in another language, style or \
         subject mean little. It sees word order only among adjacent words.",
        "\n## 限界\n\nこのモデルが知っているのは学習データだけです。言語・文体・話題の異なるテキストへの答えには、ほとんど意味がありません。\
         語順は、隣り合う並びのほかは見ていません。"
    )
}

/// A model of the training rows, with the penalty that is best on the validation rows.
pub(crate) struct FittedNgrams {
    pub(crate) model: NgramModel,
    /// The starting point of [`refit`].
    pub(crate) warm_start: WarmStart,
    pub(crate) seconds: f64,
    /// The benefit of feature columns, if there are any.
    pub(crate) column_benefit: Option<ColumnBenefit>,
}

/// Fits the model on the training rows, with the penalty that is best on the validation rows, and reports it. `what` is
/// the topic of the message.
pub(crate) fn fit_and_report<A: ClassifierTarget>(
    data: &TrainingData<A>,
    what: &'static str,
    (config, class_weights): (&NgramConfig, Option<&[f32]>),
    stop: &AtomicBool,
    observe: &mut dyn FnMut(TrainEvent<'_>),
) -> Result<FittedNgrams> {
    let _stage = stage_timer::begin(stage_timer::NGRAMS);
    let start = Instant::now();
    let (ngrams, found) = train_on_rows(data, (config, class_weights), stop, observe)?;
    let valid_texts = data.valid.texts();
    let score = (!valid_texts.is_empty()).then(|| {
        let logits = ngrams.logits_batch(&valid_texts);
        let rows: Vec<&[f32]> = logits.chunks_exact(data.labels.len()).collect();
        A::validation_summary(&rows, &data.valid.labels, data)
    });
    let score = score.unwrap_or_default();
    let (seconds, features) = (start.elapsed().as_secs_f64(), format_thousands(ngrams.num_features()));
    observe(TrainEvent::Message(
        topic_label(what),
        tr!(
            "{features} n-grams and a linear model in {seconds:.1} s{score}",
            "n-gram {features} 個の線形モデル、{seconds:.1} 秒{score}"
        ),
    ));
    let mut again = |data: &TrainingData<A>| -> Result<NgramModel> {
        Ok(train_on_rows(data, (config, class_weights), stop, observe)?.0)
    };
    let worth = ColumnBenefit::measure(data, &ngrams, &mut again)?;
    worth.iter().for_each(|worth| worth.report(observe));
    Ok(FittedNgrams { model: ngrams, warm_start: found, seconds, column_benefit: worth })
}

/// Fits the model on the training rows and their feature columns, with the penalty and column scale that are best on
/// the validation rows.
pub(crate) fn train_on_rows<A: ClassifierTarget>(
    data: &TrainingData<A>,
    (config, class_weights): (&NgramConfig, Option<&[f32]>),
    stop: &AtomicBool,
    observe: &mut dyn FnMut(TrainEvent<'_>),
) -> Result<(NgramModel, WarmStart)> {
    let (texts, valid_texts) = (data.train.texts(), data.valid.texts());
    let valid = (!valid_texts.is_empty()).then_some((&valid_texts[..], &data.valid.labels[..]));
    let [weights, valid_weights] = [&data.train, &data.valid].map(|rows| rows.row_weights(class_weights));
    let ngram_data = NgramData {
        texts: &texts,
        labels: &data.train.labels,
        num_classes: data.labels.len(),
        valid,
        weights: weights.as_deref(),
        valid_weights: valid_weights.as_deref().filter(|_| valid.is_some()),
    };
    if data.columns.is_empty() {
        return train(&ngram_data, config, WarmStart::default(), stop, observe);
    }
    let mut config = with_columns(config, data);
    let scales = if valid.is_some() { &SCALES[..] } else { &[DEFAULT_SCALE] };
    let mut best: Option<(f64, (NgramModel, WarmStart))> = None;
    for &scale in scales {
        config.scheme.column_scale = scale;
        let mut trial = train(&ngram_data, &config, WarmStart::default(), stop, observe)?;
        // Otherwise two copies of the texts would be in memory.
        trial.1.drop_ngrams();
        let loss = trial.0.report().and_then(|report| report.valid_loss).unwrap_or_default();
        if best.as_ref().is_none_or(|(least, _)| loss < *least) {
            best = Some((loss, trial));
        }
    }
    Ok(best.expect("there is a scale to try").1)
}

/// Adds the feature columns of the data to the configuration.
fn with_columns<A>(config: &NgramConfig, data: &TrainingData<A>) -> NgramConfig {
    let mut config = config.clone();
    config.scheme.columns.clone_from(&data.columns);
    config
}

/// Estimates the peak memory of fitting the model, in bytes: on the training rows, and on training and validation rows.
pub(crate) fn training_memory<A: NgramTarget>(data: &TrainingData<A>, config: &NgramConfig) -> usize {
    let config = with_columns(config, data);
    let (train, valid) = (data.train.texts(), data.valid.texts());
    // The benefit of columns is measured on copies of the rows, once without columns and once without texts.
    let rows = [&data.train, &data.valid, &data.test].into_iter().flat_map(|rows| &rows.texts);
    let copies: usize = if data.columns.is_empty() { 0 } else { rows.map(|row| 2 * row.as_row().joined_len()).sum() };
    config.training_memory(&train, &valid, data.labels.len(), A::IS_SET) as usize + copies
}

/// Refits the model on training and validation rows, with the given C or the chosen one.
pub(crate) fn refit<A: ClassifierTarget>(
    data: &TrainingData<A>,
    (chosen, c): (&NgramModel, Option<f32>),
    found: WarmStart,
    (config, class_weights): (&NgramConfig, Option<&[f32]>),
    stop: &AtomicBool,
    observe: &mut dyn FnMut(TrainEvent<'_>),
) -> Result<NgramModel> {
    let _stage = stage_timer::begin(stage_timer::NGRAMS);
    let mut config = with_columns(config, data);
    config.scheme.column_scale = chosen.scheme().column_scale;
    let c = c.or(chosen.report().map(|report| report.c)).unwrap_or(config.c_without_validation);
    let texts = [data.train.texts(), data.valid.texts()].concat();
    let labels = [&data.train.labels[..], &data.valid.labels[..]].concat();
    let (num_classes, weights) = (data.labels.len(), data.combined_weights(class_weights));
    let weights = weights.as_deref();
    let data = NgramData { texts: &texts, labels: &labels, num_classes, valid: None, weights, valid_weights: None };
    (config.c_grid, config.c_without_validation) = (vec![c], c);
    Ok(train(&data, &config, found, stop, observe)?.0)
}
