//! Cross-validation of the n-gram model, for data with too few validation rows to choose its penalty.

use super::cross_validation::{fold_data, splits};
use super::target::ClassifierTarget;
use crate::Result;
use crate::blend::Blend;
use crate::ngram::{NgramConfig, NgramData, NgramModel, WarmStart};
use crate::prediction::abstention::AbstentionCalibration;
use crate::prediction::decision_rule::DecisionRule;
use crate::row::AsRow;
use crate::scoring::select_weights;
use crate::train::data::training_data::TrainingData;
use crate::train::settings::options::TrainOptions;
use crate::train::training_loop::train_event::{TrainEvent, topic_label};
use chumoku_nn::probability::log_softmax;
use std::cell::RefCell;
use std::sync::atomic::AtomicBool;

/// The maximum number of training and validation rows for which cross-validation makes the choices.
pub(super) const MAX_FEW_ROWS: usize = 1000;
/// The number of validation rows that is enough for choices.
pub(super) const MIN_VALID_ROWS: usize = 100;
/// The number of folds for models that are fitted quickly.
pub(super) const FOLDS: usize = 5;
/// Log-probabilities of the classes for each row.
pub(crate) type LogP = Vec<Vec<f32>>;

/// Returns `true` if there are too few validation rows for choices.
pub(crate) fn needs_cross_validation(data: &TrainingData) -> bool {
    let rows = data.train.len() + data.valid.len();
    // Without test rows, the validation rows are used for the scores, so training must not use them.
    let has_test_rows = !data.test.is_empty();
    has_test_rows
        && rows <= MAX_FEW_ROWS
        && data.valid.len() < MIN_VALID_ROWS
        && data.columns.is_empty()
        && data.continued.is_none()
        && splits(data, FOLDS, 0).iter().flatten().all(|part| part.len() >= 2)
}

/// Merges training and validation rows into training rows.
pub(super) fn merge_validation(data: &TrainingData) -> TrainingData {
    let all = (0..data.train.len() + data.valid.len()).collect();
    TrainingData { test: data.test.clone(), ..fold_data(data, &[all, Vec::new(), Vec::new()]) }
}

/// Out-of-fold predictions of the n-gram model.
pub(super) struct NgramCrossValidation {
    pub(super) c: f32,
    /// Log-probabilities of each row.
    pub(super) log_p: LogP,
    /// The share of each row's n-grams that the model knows.
    pub(super) known: Vec<f32>,
}

impl NgramCrossValidation {
    /// Chooses the penalty of the n-gram model by the log-loss of held-out rows.
    pub(super) fn run(
        data: &TrainingData,
        options: &TrainOptions,
        class_weights: Option<&[f32]>,
        stop: &AtomicBool,
        observe: &mut dyn FnMut(TrainEvent<'_>),
    ) -> Result<NgramCrossValidation> {
        let config = options.overrides.ngram_config(data);
        let (rows, classes) = (data.train.len(), data.labels.len());
        let counts = data.train.row_weights(class_weights);
        let mut log_p: Vec<LogP> = vec![vec![Vec::new(); rows]; config.c_grid.len()];
        let mut known = vec![0.0; rows];
        for [learned, held_out_rows] in splits(data, FOLDS, options.seed) {
            let texts = |rows: &[usize]| rows.iter().map(|&row| data.train.texts[row].as_row()).collect::<Vec<_>>();
            let labels: Vec<u32> = learned.iter().map(|&row| data.train.labels[row]).collect();
            let weights = select_weights(counts.as_deref(), &learned);
            let (learned, held_out) = (texts(&learned), texts(&held_out_rows));
            let of_fold = NgramData {
                texts: &learned,
                labels: &labels,
                num_classes: classes,
                valid: None,
                weights: weights.as_deref(),
                valid_weights: None,
            };
            let mut found = WarmStart::default();
            for (&c, log_p) in config.c_grid.iter().zip(&mut log_p) {
                let mut config = config.clone();
                (config.c_grid, config.c_without_validation) = (vec![c], c);
                let (model, next) = train(&of_fold, &config, found, stop, observe)?;
                found = next;
                let logits = model.logits_batch(&held_out);
                let of_rows = held_out_rows.iter().zip(logits.chunks_exact(classes)).zip(&held_out);
                for ((&row, logits), text) in of_rows {
                    log_p[row] = log_softmax(logits);
                    known[row] = model.known_share(*text);
                }
            }
        }
        let labels = &data.train.labels;
        let of_row = |row: usize| counts.as_ref().map_or(1.0, |counts| counts[row]);
        let loss = |log_p: &LogP| -> f64 {
            let rows = log_p.iter().zip(labels).enumerate();
            rows.map(|(row, (log_p, &label))| -f64::from(of_row(row) * log_p[label as usize])).sum()
        };
        let losses: Vec<f64> = log_p.iter().map(loss).collect();
        let best = (0..losses.len()).fold(0, |best, place| if losses[place] < losses[best] { place } else { best });
        Ok(NgramCrossValidation { c: config.c_grid[best], log_p: log_p.swap_remove(best), known })
    }

    /// Fits the calibration on all rows.
    pub(super) fn calibrate(
        &self,
        data: &TrainingData,
        options: &TrainOptions,
        class_weights: Option<&[f32]>,
    ) -> NgramCalibration {
        let labels = [&data.train.labels[..], &data.valid.labels[..]].concat();
        let rows = (&labels[..], data.combined_weights(class_weights));
        NgramCalibration::fit((&self.log_p, &self.known), rows, data, options)
    }
}

/// Cross-validates an n-gram model without a network. Returns `None` if there are enough validation rows.
pub(super) fn cross_validate_ngrams(
    data: &TrainingData,
    options: &TrainOptions,
    class_weights: Option<&[f32]>,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(TrainEvent<'_>),
) -> Result<Option<NgramCrossValidation>> {
    needs_cross_validation(data)
        .then(|| NgramCrossValidation::run(&merge_validation(data), options, class_weights, stop, observe))
        .transpose()
}

/// The calibration of scores into probabilities and answers.
pub(super) struct NgramCalibration {
    /// The factor on the scores.
    pub(super) scale: f32,
    /// The calibration for abstention.
    pub(super) abstention: Option<AbstentionCalibration>,
    /// The decision for macro-F1, for the report.
    pub(super) macro_f1_decision: Option<DecisionRule>,
    /// The same decision, if the caller requested it.
    pub(super) decision: Option<DecisionRule>,
}

impl NgramCalibration {
    /// Fits the calibration on held-out rows, given the share of known n-grams of each. `weights` apply to the fit of
    /// the factor.
    pub(super) fn fit(
        (log_p, known): (&[Vec<f32>], &[f32]),
        (labels, weights): (&[u32], Option<Vec<f32>>),
        data: &TrainingData,
        options: &TrainOptions,
    ) -> NgramCalibration {
        let scale = Blend::fit(log_p, &[], labels, weights.as_deref()).network;
        if labels.is_empty() {
            return NgramCalibration { scale, abstention: None, macro_f1_decision: None, decision: None };
        }
        let of_row = |log_p: &Vec<f32>| {
            let scaled: Vec<f32> = log_p.iter().map(|x| scale * x).collect();
            log_softmax(&scaled).iter().map(|x| x.exp()).collect()
        };
        let probabilities: Vec<Vec<f32>> = log_p.iter().map(of_row).collect();
        let tree = data.hierarchy.as_ref();
        let found = tree.is_none().then(|| DecisionRule::for_macro_f1(&probabilities, labels, data.labels.len()));
        let decision = found.clone().filter(|_| options.optimize.is_some());
        let calibration =
            Some(AbstentionCalibration::fit_classes(&probabilities, labels, known, (decision.as_ref(), tree)));
        NgramCalibration { scale, abstention: calibration, macro_f1_decision: found, decision }
    }
}

/// Trains an n-gram model from a warm start.
pub(crate) fn train<A: ClassifierTarget>(
    data: &NgramData<'_, A>,
    config: &NgramConfig,
    found: WarmStart,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(TrainEvent<'_>),
) -> Result<(NgramModel, WarmStart)> {
    let observe = RefCell::new(observe);
    let progress = |line: &str| (observe.borrow_mut())(TrainEvent::Progress(topic_label("n-grams"), line.into()));
    Ok(NgramModel::train_warm(data, config, found, stop, &progress)?)
}
