//! Training the n-gram model: as half of a classifier, and alone.

use super::beside::Worth;
use super::card::{
    class_table, data_section, decision_json, heading, majority, most_frequent, most_frequent_class, promises,
    report_rows, risk_coverage, score_table, this_model, unseen_section, use_section,
};
use super::changes::changes_of_ngrams;
use super::folds::cross_validate;
use super::memory::{Held, at_most};
use super::names::label;
use super::ngram_folds::{self, Calibration, train};
use super::recorded::with_encoder;
use super::run::tell_memory;
use super::strongest::{section, strongest};
use super::target::Target;
use super::training::{Training, write_folder};
use super::tuned::Tuned;
use super::{Event, Scores, TrainOptions, TrainingData};
use crate::beside::{SCALES, USUAL_SCALE};
use crate::lang::wording::thousands;
use crate::model_folder::TRAINED_ON;
use crate::ngram::{Answer, NgramConfig, NgramData, NgramModel, WarmStart};
use crate::problem::Problem;
use crate::scoring::of_ngrams_alone;
use crate::text_classifier::sure_levels;
use crate::text_ngrams::{NgramClassifier, NgramClassifierConfig};
use crate::{ModelKind, Result, stages, tr};
use chumoku_nn::probability::log_softmax;
use serde_json::{Value, json};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// How the training of an n-gram model ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct NgramOutcome {
    /// The model, as it was saved.
    pub model: NgramClassifier,
    /// What `metrics.json` holds.
    pub metrics: Value,
    /// Scores on the test rows.
    pub test: Scores,
    /// Scores on the same rows of always predicting the most frequent class.
    pub majority: Scores,
    /// What the figures advise, in one line.
    pub advice: String,
}

/// Trains a classifier of n-grams alone and writes the model folder `out`.
///
/// The bytes of `model.safetensors` follow from the data and the build; there is nothing random in it.
///
/// # Errors
/// If the folder cannot be written; [`Error::Ngram`](crate::Error::Ngram) with [`Cancelled`](crate::ngram::NgramError::Cancelled) when `stop`
/// was set: nothing has been written then.
pub fn train_ngram_classifier(data: &TrainingData, training: Training<'_>) -> Result<NgramOutcome> {
    train_tuned(data, training, None)
}

/// [`train_ngram_classifier`] with settings that a search has found, whose report stands beside the model's.
pub(super) fn train_tuned(data: &TrainingData, training: Training<'_>, tuned: Option<Tuned>) -> Result<NgramOutcome> {
    training.begin(ModelKind::Ngrams)?;
    let Training { options, out, stop, mut observe } = training;
    let (options, observe) = (&options, &mut *observe);
    data.check_optimize(options.optimize)?;
    let folds = cross_validate(data, (options, out, stop), observe, &|data, training| {
        let test = train_ngram_classifier(data, training)?.test;
        Ok(vec![("accuracy", test.accuracy), ("macro_f1", test.macro_f1)])
    })?;
    let weights = options.class_weights.as_ref().map(|weights| weights.of(data)).transpose()?;
    let settings = (&options.set.ngrams(data), weights.as_deref());
    tell_memory(at_most(Held::measure().now, memory_of(data, settings.0)), observe);
    let Chosen { model: chosen, found, worth, .. } = fit(data, "n-grams", settings, stop, observe)?;
    let few = match &tuned {
        None => ngram_folds::of_ngrams(data, options, weights.as_deref(), stop, observe)?,
        // The search judged by validation rows.
        Some(_) => None,
    };
    if let Some(weights) = &options.class_weights {
        observe(Event::Said(label("weights"), weights.said()));
    }
    let (c, valid_loss) = chosen.report().map_or((None, None), |report| (Some(report.c), report.valid_loss));
    let c = few.as_ref().map(|few| few.c).or(c);
    let Calibration { scale, caution, found: found_decision, decision } = match &few {
        Some(few) => few.calibrated(data, options, weights.as_deref()),
        None => by_valid(data, &chosen, options, weights.as_deref()),
    };
    let ngrams = refit(data, (&chosen, c), found, settings, stop, observe)?;
    let config = NgramClassifierConfig {
        model_type: ModelKind::Ngrams.model_type().into(),
        chumoku_version: env!("CARGO_PKG_VERSION").into(),
        labels: data.labels.clone(),
        problem: Problem::OneClass,
        hierarchy: data.hierarchy.clone(),
        scale,
        caution,
        decision,
        ngrams: ngrams.scheme().clone(),
    };
    let mut model = NgramClassifier { config, ngrams, thresholds: None };
    let (rows, scored_on) = report_rows(data);
    let test = model.scores(rows, options.seed)?;
    let predictions = model.predict(&rows.texts())?;
    let sure: Vec<(f32, bool)> = predictions.iter().zip(&rows.labels).map(|(p, &label)| p.sure(label)).collect();
    let tree = data.hierarchy.as_ref();
    let levels = tree.map_or_else(Vec::new, |tree| sure_levels(tree, &predictions, &rows.labels));
    let majority = majority(data, rows, options.seed);
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
        "abstain": promises(model.config().caution.as_ref(), (&sure, &levels)),
        "risk_coverage": risk_coverage(&sure),
        "folds": folds,
        "strongest_ngrams": strongest(Some(&model.ngrams), data),
        "columns": worth.as_ref().map(|worth| worth.to_json(&data.columns)),
        "notes": data.notes,
    });
    if let Some(found) = found_decision {
        let (is_applied, factors) = (model.config.decision.is_some(), found.factors.clone());
        let own = std::mem::replace(&mut model.config.decision, (!is_applied).then_some(found));
        let scores = model.scores(rows, options.seed);
        model.config.decision = own;
        metrics["optimize"] = decision_json(is_applied, &factors, &scores?);
    }
    if let Some(unseen) = data.unseen_test_rows() {
        metrics["unseen"] = json!(model.scores(&unseen, options.seed)?);
    }
    let mut card = card(&model, data, [&test, &majority], options.seed);
    card += &unseen_section(&metrics, "accuracy");
    card += &section(&metrics["strongest_ngrams"]);
    worth.iter().for_each(|worth| card += &worth.section(&data.columns));
    if let Some((figures, section)) = changes_of_ngrams(data, &model, options)? {
        metrics["further"] = figures;
        card += &section;
    }
    let mut files = model.files();
    files.push(seen(data));
    if let Some(tuned) = tuned {
        tuned.report((&test, &sure, scored_on), &mut metrics, &mut card, &mut files);
    }
    write_folder(out, files, &metrics, card)?;
    let advice = of_ngrams_alone(&test, &majority, &data.labels[most_frequent_class(data)]);
    let advice = with_encoder(advice, (options, 1.0 - test.accuracy), &data.train.texts);
    Ok(NgramOutcome { model, metrics, test, majority, advice })
}

/// The calibration on the validation rows.
fn by_valid(
    data: &TrainingData,
    chosen: &NgramModel,
    options: &TrainOptions,
    class_weights: Option<&[f32]>,
) -> Calibration {
    let logits = chosen.logits_of(&data.valid.texts());
    let log_p: Vec<Vec<f32>> = logits.chunks_exact(data.labels.len()).map(log_softmax).collect();
    let known: Vec<f32> = data.valid.texts().iter().map(|text| chosen.known_share(text)).collect();
    let rows = (&data.valid.labels[..], data.valid.counted(class_weights));
    Calibration::of((&log_p, &known), rows, data, options)
}

/// The model card.
fn card(model: &NgramClassifier, data: &TrainingData, [test, majority]: [&Scores; 2], seed: u64) -> String {
    let (rows, part) = report_rows(data);
    let mut card = heading(data, test);
    card += &tr!(
        "A linear model over {} n-grams, trained from scratch with Chumoku {}; no network. It sorts texts into {} \
         classes.\n\n",
        "{} 個の n-gram による線形モデルです。Chumoku {} でゼロから学習しました。ネットワークは使っていません。テキストを {} クラスに\
         分類します。\n\n",
        thousands(model.num_features()),
        env!("CARGO_PKG_VERSION"),
        data.labels.len()
    );
    let all = [(this_model(), test), (most_frequent(), majority)];
    card += &score_table(rows.len(), part, &all);
    card += &super::levels::section(&all);
    card += &tr!(
        "\nScores are multiplied by {:.2}, which was fitted on held-out rows, so the probabilities are calibrated on them.\n\n",
        "\nスコアには、学習から除いた行で求めた係数 {:.2} を掛けます。確率はその行で較正されています。\n\n",
        model.config().scale
    );
    card += &class_table(test);
    card += &data_section(data, seed);
    card + &limits() + &use_section(data.reads_pairs())
}

/// What a model of n-grams alone cannot do.
pub(super) fn limits() -> String {
    tr!(
        "\n## Limits\n\nThe model knows nothing but its training rows. Answers for texts in another language, style or \
         subject mean little. It sees word order only among adjacent words.",
        "\n## 限界\n\nこのモデルが知っているのは学習データだけです。言語・文体・話題の異なるテキストへの答えには、ほとんど意味がありません。\
         語順は、隣り合う並びのほかは見ていません。"
    )
}

/// A model of the training rows, its penalty chosen on the validation rows.
pub(super) struct Chosen {
    pub(super) model: NgramModel,
    /// What [`refit`] begins from.
    pub(super) found: WarmStart,
    pub(super) seconds: f64,
    /// What columns beside the text are worth, if there are any.
    pub(super) worth: Option<Worth>,
}

/// Fits the model on the training rows, its penalty chosen on the validation rows. `what` it is called in talk.
pub(super) fn fit<A: Target>(
    data: &TrainingData<A>,
    what: &'static str,
    (config, class_weights): (&NgramConfig, Option<&[f32]>),
    stop: &AtomicBool,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Chosen> {
    let _stage = stages::begin(stages::NGRAMS);
    let start = Instant::now();
    let (ngrams, found) = model_of(data, (config, class_weights), stop, observe)?;
    let valid_texts = data.valid.texts();
    let score = (!valid_texts.is_empty()).then(|| {
        let logits = ngrams.logits_of(&valid_texts);
        let rows: Vec<&[f32]> = logits.chunks_exact(data.labels.len()).collect();
        A::said(&rows, &data.valid.labels, data)
    });
    let score = score.unwrap_or_default();
    let (seconds, features) = (start.elapsed().as_secs_f64(), thousands(ngrams.num_features()));
    observe(Event::Said(
        label(what),
        tr!(
            "{features} n-grams and a linear model in {seconds:.1} s{score}",
            "n-gram {features} 個の線形モデル、{seconds:.1} 秒{score}"
        ),
    ));
    let mut again = |data: &TrainingData<A>| -> Result<NgramModel> {
        Ok(model_of(data, (config, class_weights), stop, observe)?.0)
    };
    let worth = Worth::measure(data, &ngrams, &mut again)?;
    worth.iter().for_each(|worth| worth.tell(observe));
    Ok(Chosen { model: ngrams, found, seconds, worth })
}

/// The model of the training rows, with what stands beside their texts; its penalty is chosen on the validation rows.
pub(super) fn model_of<A: Target>(
    data: &TrainingData<A>,
    (config, class_weights): (&NgramConfig, Option<&[f32]>),
    stop: &AtomicBool,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<(NgramModel, WarmStart)> {
    let (texts, valid_texts) = (data.train.texts(), data.valid.texts());
    let valid = (!valid_texts.is_empty()).then_some((&valid_texts[..], &data.valid.labels[..]));
    let [weights, valid_weights] = [&data.train, &data.valid].map(|rows| rows.counted(class_weights));
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
    let scales = if valid.is_some() { &SCALES[..] } else { &[USUAL_SCALE] };
    let mut best: Option<(f64, (NgramModel, WarmStart))> = None;
    for &scale in scales {
        config.scheme.column_scale = scale;
        let mut trial = train(&ngram_data, &config, WarmStart::default(), stop, observe)?;
        // Two of them would be held at a time.
        trial.1.forget_texts();
        let loss = trial.0.report().and_then(|report| report.valid_loss).unwrap_or_default();
        if best.as_ref().is_none_or(|(least, _)| loss < *least) {
            best = Some((loss, trial));
        }
    }
    Ok(best.expect("there is a scale to try").1)
}

/// How the model is trained, with the columns of the data.
fn with_columns<A>(config: &NgramConfig, data: &TrainingData<A>) -> NgramConfig {
    let mut config = config.clone();
    config.scheme.columns.clone_from(&data.columns);
    config
}

/// The bytes that training the model takes at the most, on the training rows and once more on the validation rows too.
pub(super) fn memory_of<A: Answer>(data: &TrainingData<A>, config: &NgramConfig) -> usize {
    let config = with_columns(config, data);
    let (train, valid) = (data.train.texts(), data.valid.texts());
    let all = [&train[..], &valid].concat();
    let of = |texts: [&[&str]; 2]| config.memory_of_training(texts, data.labels.len(), A::IS_SET);
    // What columns are worth is measured on copies of the rows, once without columns and once without texts.
    let rows = [&data.train, &data.valid, &data.test].into_iter().flat_map(|rows| &rows.texts);
    let copies: usize = if data.columns.is_empty() { 0 } else { rows.map(|row| 2 * row.len()).sum() };
    of([&train, &valid]).max(of([&all, &[]])) as usize + copies
}

/// The model once more, with the given C or the one that was chosen, on training and validation rows.
pub(super) fn refit<A: Target>(
    data: &TrainingData<A>,
    (chosen, c): (&NgramModel, Option<f32>),
    found: WarmStart,
    (config, class_weights): (&NgramConfig, Option<&[f32]>),
    stop: &AtomicBool,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<NgramModel> {
    let _stage = stages::begin(stages::NGRAMS);
    let mut config = with_columns(config, data);
    config.scheme.column_scale = chosen.scheme().column_scale;
    let c = c.or(chosen.report().map(|report| report.c)).unwrap_or(config.c_without_validation);
    let texts = [data.train.texts(), data.valid.texts()].concat();
    let labels = [&data.train.labels[..], &data.valid.labels[..]].concat();
    let (num_classes, weights) = (data.labels.len(), data.counted(class_weights));
    let weights = weights.as_deref();
    let data = NgramData { texts: &texts, labels: &labels, num_classes, valid: None, weights, valid_weights: None };
    (config.c_grid, config.c_without_validation) = (vec![c], c);
    Ok(train(&data, &config, found, stop, observe)?.0)
}

/// The file that tells which texts were trained on or chosen by.
///
/// What a model has learnt from before it was trained further counts, whether or not it is learnt again.
pub(super) fn seen<A: Answer>(data: &TrainingData<A>) -> (&'static str, Vec<u8>) {
    let before = data.further.as_ref().map(|further| further.base.seen.clone()).unwrap_or_default();
    (TRAINED_ON, before.with(&[data.train.texts(), data.valid.texts()].concat()).to_bytes())
}
