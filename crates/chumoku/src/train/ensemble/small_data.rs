//! Choices for small data, where a few validation rows are not enough. Cross-validation over all training and
//! validation rows makes them (Stone, "Cross-validatory choice and assessment of statistical predictions", 1974). The
//! model is then trained on all of these rows.
//!
//! A pretrained encoder can be used in two ways: fine-tuned, or frozen with a logistic regression on its vectors. The
//! regression is often better with few rows. With many validation rows, these decide.

use super::classifier_network::ClassifierNetwork;
use super::classifier_task::ClassifierTask;
use super::cross_validation::{fold_data, splits};
use super::logistic::{self, LogisticRegression};
use super::members::TrainedEnsemble;
use super::ngram_folds::{FOLDS, LogP, MIN_VALID_ROWS, NgramCrossValidation, merge_validation, needs_cross_validation};
use crate::blend::Blend;
use crate::lang::lang;
use crate::models::Classifier;
use crate::parallel_batches::{self, InputTemplate};
use crate::prediction::abstention::AbstentionCalibration;
use crate::prediction::decision_rule::DecisionRule;
use crate::scoring::{AccuracyDifference, accuracy_and_macro_f1, argmax, log_loss};
use crate::text_models::optimizer_defaults;
use crate::train::data::training_data::TrainingData;
use crate::train::settings::options::TrainOptions;
use crate::train::settings::plan::Freeze;
use crate::train::training_loop::run::run_in_memory;
use crate::train::training_loop::train_event::{TrainEvent, topic_label};
use crate::{Error, Result, tr};
use chumoku_kernels::parallel;
use chumoku_nn::probability::log_softmax;
use ndarray::{Array2, Axis};
use serde_json::{Value, json};
use std::sync::atomic::AtomicBool;

/// The maximum number of rows for which a regression is tried. With more rows, fine-tuning has always been better.
const MAX_REGRESSION_ROWS: usize = 10_000;
/// The number of folds for networks trained by gradient steps.
const NETWORK_FOLDS: usize = 3;

/// The minimum decrease of the loss for which a second member is used: in standard errors, and in nats over all rows. A
/// dozen rows may agree by chance.
const MIN_STANDARD_ERRORS: f64 = 2.0;
const MIN_NATS: f64 = 5.0;
/// The weight of a network from scratch without a clear benefit.
const MIN_NETWORK_SHARE: f32 = 0.1;

/// The way in which a network is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TrainingMethod {
    /// Gradient steps from random weights.
    Scratch,
    /// Gradient steps from a pretrained encoder.
    FineTuning,
    /// A regression on the vectors of a pretrained encoder.
    Regression,
}

/// Scores of the training methods on held-out rows.
#[derive(Clone, Debug)]
pub(crate) struct MethodChoice {
    pub(super) method: TrainingMethod,
    /// The accuracy of the n-grams alone, if measured.
    ngrams: Option<f64>,
    /// The accuracy of the network trained by gradient steps.
    steps: Option<f64>,
    /// The accuracy of the regression, and its C.
    regression: Option<(f64, f64)>,
    /// The number of held-out rows.
    rows: usize,
    /// The number of folds; 1 if validation rows were used.
    folds: usize,
    /// The maximum number of epochs, for a cross-validated network trained by gradient steps.
    epochs: Option<u64>,
    /// True if cross-validation chose the number of epochs.
    are_epochs_chosen: bool,
    /// The blend of the members, if cross-validation chose it.
    blend: Option<BlendSummary>,
}

/// The blend of the ensemble members, and its scores.
#[derive(Clone, Copy, Debug)]
struct BlendSummary {
    blend: Blend,
    /// True if the second member has a clear benefit.
    are_both_used: bool,
    macro_f1: f64,
    log_loss: f64,
}

/// The choice of cross-validation, and the data to train on.
pub(crate) struct SmallDataChoice {
    pub(crate) choice: MethodChoice,
    /// Training and validation rows, merged into training rows.
    pub(crate) data: TrainingData,
    pub(crate) blend: BlendAndDecision,
    /// The weight of the data against the n-gram model's penalty.
    pub(crate) c: f32,
    /// The network, if it is a regression.
    pub(crate) network: Option<ClassifierNetwork>,
}

/// The blend of the ensemble members, and how probabilities become answers.
pub(crate) struct BlendAndDecision {
    pub(crate) blend: Blend,
    pub(crate) calibration: AbstentionCalibration,
    /// The decision for macro-F1, for the report.
    pub(crate) macro_f1_decision: Option<DecisionRule>,
    /// The same decision, if the caller requested it.
    pub(crate) decision: Option<DecisionRule>,
}

/// A regression on an encoder's vectors that was not compared with other methods yet.
pub(crate) struct RegressionCandidate {
    network: ClassifierNetwork,
    c: f64,
    /// Log-probabilities of the held-out rows, in the order of `validated_rows`.
    log_p: LogP,
    validated_rows: Vec<usize>,
}

/// Returns `true` if a regression on the vectors of a pretrained encoder should be tried.
fn tries_regression(data: &TrainingData, options: &TrainOptions) -> bool {
    let rows = data.train.len() + data.valid.len();
    let is_requested = match options.freeze {
        Some(Freeze::All) => true,
        Some(_) => false,
        None => rows <= MAX_REGRESSION_ROWS,
    };
    options.from.is_some() && data.continued.is_none() && is_requested
}

impl RegressionCandidate {
    /// Fits the regression, if it should be tried. The validation rows choose C, or cross-validation if there are few.
    /// The regression is then fitted on all training rows of `data`.
    pub(crate) fn fit(
        data: &TrainingData,
        options: &TrainOptions,
        stop: &AtomicBool,
        observe: &mut dyn FnMut(TrainEvent<'_>),
    ) -> Result<Option<RegressionCandidate>> {
        if !tries_regression(data, options) {
            return Ok(None);
        }
        let mut network = ClassifierNetwork::with_linear_head(data, options)?;
        let Some(start) = &network.encoder else { return Ok(None) };
        // A small encoder without sentence vectors needs fine-tuning: a linear layer is not enough.
        let is_small = network.plan.model.backbone.transformer().is_none_or(optimizer_defaults::is_small_encoder);
        if options.freeze.is_none() && is_small && !start.pooling.1 {
            return Ok(None);
        }
        let rows = data.train.len() + data.valid.len();
        let working = tr!("the encoder's vectors of {rows} rows", "エンコーダーで {rows} 行をベクトルに変換中");
        observe(TrainEvent::Progress(topic_label("choice"), working));
        let mut tokens = network.rows.clone();
        tokens.extend(network.tokenizer.encode_all(&data.valid.texts())?);
        let model = Classifier::new(network.plan.model.clone())?;
        let mut params = start.params(model.layout(), options.seed)?;
        params.set_precision(network.plan.settings.precision);
        let template =
            InputTemplate { special_tokens: network.tokenizer.special_tokens(), max_tokens: network.plan.max_tokens() };
        let mut vectors = parallel_batches::vectors(&model, &params, template, &tokens)?;
        drop(params);
        // Scales vectors to a mean length of 1, so that C has the same meaning for all encoders.
        let square = vectors.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / vectors.nrows().max(1) as f64;
        if !square.is_finite() || square == 0.0 {
            return Err(Error::NotFinite(tr!(
                "the encoder's vectors are zero or not finite: its weights cannot be used",
                "エンコーダーのベクトルがゼロか有限でない数になります。この重みは使えません"
            )));
        }
        let scale = 1.0 / square.sqrt();
        vectors.mapv_inplace(|x| (f64::from(x) * scale) as f32);
        let labels = [&data.train.labels[..], &data.valid.labels[..]].concat();
        let class_weights = options.class_weights.as_ref().map(|weights| weights.for_data(data)).transpose()?;
        let weights = data.combined_weights(class_weights.as_deref());
        let rows = logistic::RegressionRows {
            vectors: vectors.view(),
            labels: &labels,
            classes: data.labels.len(),
            weights: weights.as_deref(),
        };
        let trained = data.train.len();
        let splits = match data.valid.len() < MIN_VALID_ROWS {
            true => splits(data, FOLDS, options.seed),
            false => vec![[(0..trained).collect(), (trained..labels.len()).collect()]],
        };
        let chosen = LogisticRegression::select_c(&rows, &splits, stop)?;
        let rows = logistic::RegressionRows {
            vectors: vectors.view().split_at(Axis(0), trained).0,
            labels: &labels[..trained],
            weights: weights.as_deref().map(|weights| &weights[..trained]),
            ..rows
        };
        let mut head = LogisticRegression::fit(&rows, chosen.c, stop)?;
        head.weight *= scale * chosen.scale;
        head.bias *= chosen.scale;
        network.head = Some(head);
        let held_out = splits.into_iter().flat_map(|[_, held_out]| held_out).collect();
        Ok(Some(RegressionCandidate {
            network,
            c: chosen.c,
            log_p: chosen.log_probabilities,
            validated_rows: held_out,
        }))
    }

    /// Returns the log-probabilities in row order, if all rows were held out once.
    fn log_p_by_row(&self) -> LogP {
        let mut all = vec![Vec::new(); self.validated_rows.len()];
        self.validated_rows.iter().zip(&self.log_p).for_each(|(&row, log_p)| all[row].clone_from(log_p));
        all
    }

    /// Returns the accuracy and C.
    fn figures(&self, labels: &[u32]) -> (f64, f64) {
        let labels: Vec<u32> = self.validated_rows.iter().map(|&row| labels[row]).collect();
        (accuracy(&self.log_p, &labels), self.c)
    }
}

/// Chooses the training method and the blend by cross-validation. Returns `None` if there are enough validation rows.
pub(crate) fn choose_by_cross_validation(
    data: &TrainingData,
    options: &TrainOptions,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(TrainEvent<'_>),
) -> Result<Option<SmallDataChoice>> {
    if !needs_cross_validation(data) {
        return Ok(None);
    }
    let merged = merge_validation(data);
    let labels = &merged.train.labels;
    let weights = options.class_weights.as_ref().map(|weights| weights.for_data(data)).transpose()?;
    let ngrams = NgramCrossValidation::run(&merged, options, weights.as_deref(), stop, observe)?;
    let candidate = RegressionCandidate::fit(&merged, options, stop, observe)?;
    let is_decided = candidate.is_some() && options.freeze == Some(Freeze::All);
    let steps = match is_decided {
        true => None,
        false => match NetworkCrossValidation::run(&merged, options, stop, observe) {
            // Training on all rows fails as well, with a better error message.
            Err(Error::NotFinite(_)) => return Ok(None),
            steps => Some(steps?),
        },
    };
    let taken = match (&candidate, &steps) {
        (Some(candidate), Some(steps)) => better_method(&steps.log_p, &candidate.log_p_by_row(), labels),
        (Some(_), None) => TrainingMethod::Regression,
        (None, _) if options.from.is_some() => TrainingMethod::FineTuning,
        (None, _) => TrainingMethod::Scratch,
    };
    let log_p = match (&candidate, &steps) {
        (Some(candidate), _) if taken == TrainingMethod::Regression => candidate.log_p_by_row(),
        (_, Some(steps)) => steps.log_p.clone(),
        _ => Vec::new(),
    };
    let counts = merged.train.row_weights(weights.as_deref());
    let (blend, are_both_used) =
        fit_blend([&log_p, &ngrams.log_p], labels, counts.as_deref(), taken != TrainingMethod::Scratch);
    let of_row = |(network, ngrams): (&Vec<f32>, &Vec<f32>)| blend.probabilities(network, Some(ngrams));
    let probabilities: LogP = log_p.iter().zip(&ngrams.log_p).map(of_row).collect();
    let logs: LogP = probabilities.iter().map(|row| row.iter().map(|p| p.max(1e-30).ln()).collect()).collect();
    let predicted: Vec<u32> = probabilities.iter().map(|row| argmax(row)).collect();
    let (_, macro_f1) = accuracy_and_macro_f1(labels, &predicted, data.labels.len());
    let tree = data.hierarchy.as_ref();
    let found = tree.is_none().then(|| DecisionRule::for_macro_f1(&probabilities, labels, data.labels.len()));
    let decision = found.clone().filter(|_| options.optimize.is_some());
    let calibration =
        AbstentionCalibration::fit_classes(&probabilities, labels, &ngrams.known, (decision.as_ref(), tree));
    let joint = BlendAndDecision { blend, calibration, macro_f1_decision: found, decision };
    let choice = MethodChoice {
        method: taken,
        ngrams: Some(accuracy(&ngrams.log_p, labels)),
        steps: steps.as_ref().map(|steps| accuracy(&steps.log_p, labels)),
        regression: candidate.as_ref().map(|candidate| candidate.figures(labels)),
        rows: labels.len(),
        folds: FOLDS,
        epochs: steps.as_ref().map(|steps| steps.epochs).filter(|_| taken != TrainingMethod::Regression),
        are_epochs_chosen: taken != TrainingMethod::Regression
            && steps.as_ref().is_some_and(|steps| steps.are_epochs_chosen),
        blend: Some(BlendSummary { blend, are_both_used, macro_f1, log_loss: log_loss(&logs, labels, None) }),
    };
    let network = candidate.filter(|_| taken == TrainingMethod::Regression).map(|candidate| candidate.network);
    Ok(Some(SmallDataChoice { choice, data: merged, blend: joint, c: ngrams.c, network }))
}

/// Chooses between a fine-tuned network and a regression, both scored on all rows. Fine-tuning must be better by more
/// than its standard error.
fn better_method(steps: &LogP, regression: &LogP, labels: &[u32]) -> TrainingMethod {
    let right = |log_p: &LogP| log_p.iter().zip(labels).map(|(row, &label)| argmax(row) == label).collect::<Vec<_>>();
    let difference = AccuracyDifference::compare(&right(steps), &right(regression));
    let apart = (difference.first_only + difference.second_only) as f64;
    let is_clear = difference.value() > apart.sqrt() / difference.rows.max(1) as f64;
    if is_clear { TrainingMethod::FineTuning } else { TrainingMethod::Regression }
}

/// Replaces the network by the regression if that is better on the validation rows.
pub(crate) fn choose_by_validation(
    whole: TrainedEnsemble,
    candidate: RegressionCandidate,
    data: &TrainingData,
    seed: u64,
) -> Result<(TrainedEnsemble, MethodChoice)> {
    let labels = &data.valid.labels;
    let predictions = whole.classifier.predict(&data.valid.texts())?;
    let steps: LogP = predictions.into_iter().map(|prediction| prediction.network).collect();
    let all = [&data.train.labels[..], labels].concat();
    let (regression, c) = candidate.figures(&all);
    let steps = accuracy(&steps, labels);
    let taken = if regression > steps { TrainingMethod::Regression } else { TrainingMethod::FineTuning };
    let choice = MethodChoice {
        method: taken,
        ngrams: None,
        steps: Some(steps),
        regression: Some((regression, c)),
        rows: labels.len(),
        folds: 1,
        epochs: None,
        are_epochs_chosen: false,
        blend: None,
    };
    let whole =
        if taken == TrainingMethod::Regression { whole.with_network(data, candidate.network, seed)? } else { whole };
    Ok((whole, choice))
}

/// Returns the choice of a regression that the caller requested.
pub(crate) fn requested_regression(
    candidate: RegressionCandidate,
    data: &TrainingData,
) -> (ClassifierNetwork, MethodChoice) {
    let labels = [&data.train.labels[..], &data.valid.labels[..]].concat();
    let folds = if data.valid.len() < MIN_VALID_ROWS { FOLDS } else { 1 };
    let choice = MethodChoice {
        method: TrainingMethod::Regression,
        ngrams: None,
        steps: None,
        regression: Some(candidate.figures(&labels)),
        rows: candidate.validated_rows.len(),
        folds,
        epochs: None,
        are_epochs_chosen: false,
        blend: None,
    };
    (candidate.network, choice)
}

fn accuracy(log_p: &LogP, labels: &[u32]) -> f64 {
    let right = log_p.iter().zip(labels).filter(|(row, label)| argmax(row) == **label).count();
    right as f64 / labels.len().max(1) as f64
}

/// Returns the weights of the members, and whether both are used. A pretrained network alone is the default, or nearly
/// the n-grams alone for a network from scratch. The other member joins only if the loss falls clearly. `weights` are
/// the weights of the rows.
fn fit_blend(
    [network, ngrams]: [&LogP; 2],
    labels: &[u32],
    weights: Option<&[f32]>,
    is_network_first: bool,
) -> (Blend, bool) {
    let both = Blend::fit(network, ngrams, labels, weights);
    let share = if is_network_first { 1.0 } else { MIN_NETWORK_SHARE };
    let of_row = |(a, n): (&Vec<f32>, &Vec<f32>)| -> Vec<f32> {
        log_softmax(&a.iter().zip(n).map(|(a, n)| share * a + (1.0 - share) * n).collect::<Vec<_>>())
    };
    let first: LogP = network.iter().zip(ngrams).map(of_row).collect();
    let scale = Blend::fit(&first, &[], labels, weights).network;
    let alone = Blend { network: scale * share, ngrams: scale * (1.0 - share) };
    let counts = |row: usize| weights.map_or(1.0, |weights| f64::from(weights[row]));
    let gains: Vec<f64> = (0..labels.len())
        .map(|row| {
            let label = labels[row] as usize;
            let p = |blend: &Blend| f64::from(blend.probabilities(&network[row], Some(&ngrams[row]))[label]).max(1e-30);
            counts(row) * (p(&both) / p(&alone)).ln()
        })
        .collect();
    let rows = gains.len().max(1) as f64;
    let mean = gains.iter().sum::<f64>() / rows;
    let variance = gains.iter().map(|gain| (gain - mean).powi(2)).sum::<f64>() / (rows - 1.0).max(1.0);
    let is_clear = mean > MIN_STANDARD_ERRORS * (variance / rows).sqrt() && mean * rows > MIN_NATS;
    if is_clear { (both, true) } else { (alone, false) }
}

/// Out-of-fold predictions of networks trained by gradient steps.
struct NetworkCrossValidation {
    epochs: u64,
    /// True if the loss on held-out rows chose the number of epochs, rather than the caller or the plan.
    are_epochs_chosen: bool,
    log_p: LogP,
}

impl NetworkCrossValidation {
    /// Trains a network for each fold. The epoch with the lowest loss becomes the last one, unless the caller or the
    /// plan fixes the number of epochs.
    fn run(
        data: &TrainingData,
        options: &TrainOptions,
        stop: &AtomicBool,
        observe: &mut dyn FnMut(TrainEvent<'_>),
    ) -> Result<NetworkCrossValidation> {
        let settings = ClassifierNetwork::new(data, options)?.plan.settings;
        let may_stop = options.epochs.is_none() && settings.patience < settings.epochs;
        let kept = if may_stop { settings.epochs as usize } else { 1 };
        let mut by_epoch: Vec<LogP> = vec![vec![Vec::new(); data.train.len()]; kept];
        let options =
            TrainOptions { epochs: Some(settings.epochs), worker_group: None, watch: None, ..options.clone() };
        for (fold, [learned, held_out]) in splits(data, NETWORK_FOLDS, options.seed).into_iter().enumerate() {
            let of_fold = fold_data(data, &[learned, held_out.clone(), Vec::new()]);
            let network = ClassifierNetwork::new(&of_fold, &options)?;
            let model = Classifier::new(network.plan.model.clone())?;
            let task = ClassifierTask::new(&of_fold, &network, &model)?;
            run_in_memory(&task, options.seed, stop, |state| {
                let epoch = state.epoch;
                let (fold, of) = (fold + 1, settings.epochs);
                let message = tr!(
                    "fold {fold} of {NETWORK_FOLDS}: epoch {epoch} of {of}",
                    "{fold}/{NETWORK_FOLDS}: エポック {epoch}/{of}"
                );
                observe(TrainEvent::Progress(topic_label("choice"), message));
                if !may_stop && epoch < settings.epochs {
                    return Ok(());
                }
                let place = if may_stop { epoch as usize - 1 } else { 0 };
                let logits: Array2<f32> = task.held_out_logits(&state.average)?;
                let rows = parallel::map_indices(held_out.len(), |row| log_softmax(&logits.row(row).to_vec()));
                held_out.iter().zip(rows).for_each(|(&row, log_p)| by_epoch[place][row] = log_p);
                Ok(())
            })?;
        }
        let labels = &data.train.labels;
        let weights = data.train.weights.as_deref();
        let losses: Vec<f64> = by_epoch.iter().map(|log_p| log_loss(log_p, labels, weights)).collect();
        let best = (0..losses.len()).fold(0, |best, place| if losses[place] < losses[best] { place } else { best });
        let epochs = if may_stop { best as u64 + 1 } else { settings.epochs };
        Ok(NetworkCrossValidation { epochs, are_epochs_chosen: may_stop, log_p: by_epoch.swap_remove(best) })
    }
}

impl TrainingMethod {
    /// The name in `metrics.json`.
    fn name(self) -> &'static str {
        match self {
            TrainingMethod::Scratch => "from_scratch",
            TrainingMethod::FineTuning => "fine_tuning",
            TrainingMethod::Regression => "regression",
        }
    }
}

/// Describes the training method and the reason for it, from `metrics.json`. Returns `None` if there was no choice.
#[must_use]
pub fn choice_sentence(metrics: &Value) -> Option<String> {
    MethodChoice::of_metrics(metrics).map(|choice| choice.sentence())
}

impl MethodChoice {
    /// Reads the choice from `metrics.json`.
    fn of_metrics(metrics: &Value) -> Option<MethodChoice> {
        let found = &metrics["choice"];
        let ways = [TrainingMethod::Scratch, TrainingMethod::FineTuning, TrainingMethod::Regression];
        let taken = ways.into_iter().find(|way| found["taken"] == way.name())?;
        let share = |way: &str| found["accuracy"][way].as_f64();
        let count = |of: &Value| of.as_u64().and_then(|count| usize::try_from(count).ok());
        let blend: Option<Blend> = serde_json::from_value(metrics["blend"].clone()).ok();
        let figure = |name: &str| metrics["valid"][name].as_f64().unwrap_or(f64::NAN);
        let joined = blend.zip(found["both_halves"].as_bool()).map(|(blend, are_both_used)| BlendSummary {
            blend,
            are_both_used,
            macro_f1: figure("macro_f1"),
            log_loss: figure("log_loss"),
        });
        Some(MethodChoice {
            method: taken,
            ngrams: share("ngrams"),
            steps: share("steps"),
            regression: share("regression").map(|share| (share, found["c"].as_f64().unwrap_or(f64::NAN))),
            rows: count(&found["rows"])?,
            folds: count(&found["folds"]).unwrap_or(1),
            epochs: found["epochs"].as_u64(),
            are_epochs_chosen: !found["epochs"].is_null(),
            blend: joined,
        })
    }

    /// The number of epochs of a cross-validated network.
    pub(crate) fn epochs(&self) -> Option<u64> {
        self.epochs
    }

    /// Describes the training method and the reason for it.
    pub(crate) fn sentence(&self) -> String {
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let how = match self.folds {
            1 => tr!("by {} validation rows", "検証データ {} 行で選択", self.rows),
            folds => {
                tr!("by {folds}-fold cross-validation over {} rows", "{} 行の {folds} 分割交差検証で選択", self.rows)
            }
        };
        let ways = [
            (
                lang()
                    .pick("logistic regression on the encoder's vectors", "エンコーダーのベクトルのロジスティック回帰"),
                self.regression.map(|found| found.0),
            ),
            (
                match self.method {
                    TrainingMethod::Scratch => lang().pick("network", "ネットワーク"),
                    _ => lang().pick("fine-tuning", "ファインチューニング"),
                },
                self.steps,
            ),
            (lang().pick("n-grams", "n-gram"), self.ngrams),
        ];
        let figures = ways.iter().filter_map(|(name, share)| Some(format!("{name} {}", percent((*share)?))));
        let figures = figures.collect::<Vec<_>>().join(lang().pick(", ", "、"));
        let way = match self.method {
            TrainingMethod::Scratch => lang().pick("the network is used", "ネットワークを使います"),
            TrainingMethod::FineTuning => lang().pick("fine-tuning is used", "ファインチューニングを採用しました"),
            TrainingMethod::Regression => lang().pick("the regression is used", "回帰を採用しました"),
        };
        let taken = match self.blend {
            Some(BlendSummary { blend: Blend { network: 0.0, .. }, .. }) => {
                lang().pick("the n-grams decide alone", "n-gram だけで判断します").to_owned()
            }
            Some(BlendSummary { are_both_used: false, .. }) if self.method == TrainingMethod::Scratch => {
                lang().pick("the n-grams decide almost alone", "ほぼ n-gram だけで判断します").to_owned()
            }
            Some(BlendSummary { are_both_used: true, blend: Blend { ngrams, .. }, .. }) if ngrams > 0.0 => {
                tr!("{way} together with the n-grams", "{way}。n-gram も併用します")
            }
            _ => way.to_owned(),
        };
        tr!("{taken}, {how}: {figures}", "{taken}（{how}: {figures}）")
    }

    /// The macro-F1 and the mean loss on held-out rows, if cross-validation chose the blend.
    pub(crate) fn held_out(&self) -> Option<Value> {
        self.blend.map(|joined| json!({ "macro_f1": joined.macro_f1, "log_loss": joined.log_loss }))
    }

    /// The section of the model card.
    pub(crate) fn section(&self) -> String {
        tr!("\n## Choice\n\n{}.\n", "\n## 選択\n\n{}。\n", self.sentence())
    }

    /// The entry `choice` of `metrics.json`.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "taken": self.method.name(),
            "rows": self.rows,
            "folds": (self.folds > 1).then_some(self.folds),
            "accuracy": {
                "ngrams": self.ngrams,
                "steps": self.steps,
                "regression": self.regression.map(|found| found.0),
            },
            "c": self.regression.map(|found| found.1),
            "epochs": self.epochs.filter(|_| self.are_epochs_chosen),
            "both_halves": self.blend.map(|joined| joined.are_both_used),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chumoku_kernels::Philox;

    /// Log-probabilities of three classes that favor the label where `is_right` is true, and otherwise the next class.
    fn leaning(labels: &[u32], is_right: impl Fn(usize) -> bool) -> LogP {
        let of_row = |(row, &label): (usize, &u32)| {
            let class = if is_right(row) { label } else { (label + 1) % 3 };
            log_softmax(&[0, 1, 2].map(|k| if k == class { 1.0 } else { 0.0 }))
        };
        labels.iter().enumerate().map(of_row).collect()
    }

    #[test]
    fn fine_tuning_must_be_clearly_better_than_the_regression() {
        let labels: Vec<u32> = (0..100).map(|row| row % 3).collect();
        let regression = leaning(&labels, |row| row % 10 < 6);
        let better = |share: usize| better_method(&leaning(&labels, |row| row % 10 < share), &regression, &labels);
        assert_eq!(
            [5, 6, 7, 9].map(better),
            [
                TrainingMethod::Regression,
                TrainingMethod::Regression,
                TrainingMethod::FineTuning,
                TrainingMethod::FineTuning
            ]
        );
        // Right on other rows, and on one more row in total: this may be chance.
        let others = leaning(&labels, |row| row % 10 >= 4 || row == 0);
        assert_eq!(super::better_method(&others, &regression, &labels), TrainingMethod::Regression);
    }

    #[test]
    fn a_second_member_is_used_only_if_the_loss_falls_clearly() {
        let labels: Vec<u32> = (0..90).map(|row| row % 3).collect();
        let random = Philox::new(5, 1);
        let noise: LogP = (0..90).map(|row| log_softmax(&[0, 1, 2].map(|k| random.normal(8 * row + k)))).collect();
        let right = leaning(&labels, |row| row % 10 != 0);
        let (of_ngrams, are_both_used) = fit_blend([&noise, &right], &labels, None, false);
        assert!(!are_both_used && of_ngrams.network < 0.12 * of_ngrams.ngrams, "{of_ngrams:?}");
        let (of_network, are_both_used) = fit_blend([&right, &noise], &labels, None, true);
        assert!(!are_both_used && of_network.ngrams == 0.0 && of_network.network > 0.5, "{of_network:?}");
        // Each member knows half of the rows, and is undecided on the others.
        let half = |odd: bool| -> LogP {
            let says = |row: usize| if (row % 2 == 1) == odd { 2.0 } else { 0.0 };
            let of_row = |(row, &label): (usize, &u32)| {
                log_softmax(&[0, 1, 2].map(|k| if k == label { says(row) } else { 0.0 }))
            };
            labels.iter().enumerate().map(of_row).collect()
        };
        for first in [false, true] {
            let (both, are_both_used) = fit_blend([&half(false), &half(true)], &labels, None, first);
            assert!(are_both_used && both.network > 0.5 && both.ngrams > 0.5, "{both:?}");
        }
    }
}
