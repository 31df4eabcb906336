//! The state of a run, which a checkpoint saves.

use super::schedule::learning_rate;
use super::train_settings::TrainSettings;
use crate::params::ParamView;
use crate::params::Params;
use crate::text_models::optimizer_defaults;
use crate::{Error, Result, tr};
use chumoku_kernels::{AdamW, Precision, adamw_step, parallel, sum_of_squares, update_moving_average};
use std::sync::Arc;

/// The suffix of the parameter names that `embedding_learning_rate_factor` applies to.
const EMBEDDING: &str = "embedding.weight";

/// The prefix of the parameter names that `head_learning_rate_factor` applies to.
const HEAD: &str = "head.";

/// The best evaluation so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BestEvaluation {
    /// The number of epochs before it.
    pub epoch: u64,
    /// The score on the validation rows: more is better.
    pub score: f64,
    /// The loss on the validation rows, which breaks ties between equal scores.
    pub(crate) loss: f64,
}

/// The state of a run.
#[derive(Clone, Debug)]
pub struct TrainState {
    /// Steps taken.
    pub step: u64,
    /// Epochs finished.
    pub(crate) epoch: u64,
    /// Batches finished in the current epoch.
    pub batch: u64,
    /// The weights.
    pub params: Params<f32>,
    /// First moment of AdamW.
    pub(crate) m: Params<f32>,
    /// Second moment of AdamW.
    pub(crate) v: Params<f32>,
    /// Moving average of the weights.
    pub(crate) average: Params<f32>,
    /// The averaged weights of the best evaluation.
    pub(crate) best_params: Params<f32>,
    /// The best evaluation, once there is one.
    pub(crate) best: Option<BestEvaluation>,
    /// Epochs since the best evaluation.
    pub(crate) epochs_without_improvement: u64,
}

impl TrainState {
    /// Starts a run from these weights.
    pub fn new(params: Params<f32>) -> TrainState {
        let layout = Arc::clone(params.layout());
        TrainState {
            step: 0,
            epoch: 0,
            batch: 0,
            m: Params::zeros(&layout),
            v: Params::zeros(&layout),
            average: params.clone(),
            best_params: params.clone(),
            best: None,
            epochs_without_improvement: 0,
            params,
        }
    }

    /// Sets the precision of matrix products with the weights.
    pub fn set_precision(&mut self, precision: Precision) {
        for params in [&mut self.params, &mut self.average, &mut self.best_params] {
            params.set_precision(precision);
        }
    }

    /// Takes one step of AdamW with clipped gradients at the scheduled learning rate, and updates the moving average.
    ///
    /// Returns the norm of the gradients before clipping.
    ///
    /// # Errors
    /// If a gradient is not finite, or the step counter is at its maximum. The state stays unchanged.
    pub fn optimizer_step(&mut self, grads: &Params<f32>, settings: &TrainSettings, steps: u64) -> Result<f64> {
        // Runs on a thread of the pool. From outside, each parameter's pass would wake the pool and wait for it.
        parallel::in_pool(|| self.optimizer_step_in_pool(grads, settings, steps))
    }

    fn optimizer_step_in_pool(&mut self, grads: &Params<f32>, settings: &TrainSettings, steps: u64) -> Result<f64> {
        let norm = sum_of_squares(grads.values()).sqrt();
        let Some(step) = self.step.checked_add(1) else {
            return Err(Error::Setting(tr!(
                "the step counter of the run is {}, the largest possible value; the checkpoint is damaged, start over \
                 with --force",
                "ステップ数 {} は上限に達しています。チェックポイントが破損しています。--force で最初からやり直してください",
                self.step
            )));
        };
        if !norm.is_finite() {
            let bad = |values: &[f32]| values.iter().any(|x| !x.is_finite());
            let found = grads.layout().iter().find(|param| bad(&grads.values()[param.range.clone()]));
            let name = found.map_or_else(|| tr!("a gradient", "いずれかのパラメータ"), |param| param.name.to_owned());
            return Err(Error::NotFinite(tr!(
                "the gradient of {name} is not finite",
                "{name} の勾配が有限ではありません"
            )));
        }
        let warmup = ((steps as f64 * settings.warmup_share) as u64).max(1);
        let rate = learning_rate(settings.learning_rate, step, warmup, steps);
        let layout = Arc::clone(grads.layout());
        for ParamView { name, shape, range } in layout.iter() {
            let embedding_factor =
                if name.ends_with(EMBEDDING) { settings.embedding_learning_rate_factor } else { 1.0 };
            let head_factor = if name.starts_with(HEAD) { settings.head_learning_rate_factor } else { 1.0 };
            let options = AdamW {
                learning_rate: rate * embedding_factor * head_factor,
                beta1: optimizer_defaults::CLASSIFIER.beta1,
                beta2: settings.beta2,
                epsilon: optimizer_defaults::CLASSIFIER.epsilon,
                // No weight decay for biases and norms.
                weight_decay: if shape.len() > 1 { settings.weight_decay } else { 0.0 },
                step,
                grad_scale: (settings.clip_norm / (norm + 1e-6)).min(1.0),
            };
            let moments = [&mut self.m.values_mut()[range.clone()], &mut self.v.values_mut()[range.clone()]];
            adamw_step(&options, &mut self.params.values_mut()[range.clone()], &grads.values()[range], moments)?;
        }
        self.step = step;
        // The decay grows with the step count, so that the average soon forgets the random start.
        let decay = settings.average_decay.min((1.0 + step as f64) / (10.0 + step as f64)) as f32;
        update_moving_average(self.average.values_mut(), self.params.values(), 1.0 - decay)?;
        Ok(norm)
    }

    /// Records an evaluation of the averaged weights. Returns `true` if it is the best so far.
    ///
    /// The score selects nothing unless the rows are held out: otherwise the last weights always count as the best.
    pub(crate) fn record_evaluation(&mut self, score: f64, loss: f64, is_held_out: bool) -> bool {
        let is_best = !is_held_out || self.best.is_none_or(|best| (score, -loss) > (best.score, -best.loss));
        if is_best {
            self.best = Some(BestEvaluation { epoch: self.epoch, score, loss });
            self.best_params.values_mut().copy_from_slice(self.average.values());
            self.epochs_without_improvement = 0;
        } else {
            self.epochs_without_improvement += 1;
        }
        is_best
    }

    /// Begins the next epoch.
    pub(super) fn next_epoch(&mut self) {
        (self.epoch, self.batch) = (self.epoch + 1, 0);
    }

    /// Returns `true` if the run is over.
    pub(crate) fn is_done(&self, settings: &TrainSettings) -> bool {
        self.epoch >= settings.epochs || self.epochs_without_improvement >= settings.patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::{Builder, Init};

    #[test]
    fn the_best_epoch_has_the_highest_score_then_the_lowest_loss() {
        let mut builder = Builder::new();
        builder.add("w", &[1], Init::Normal(1.0));
        let mut state = TrainState::new(Params::init(&builder.finish(), 1));
        let epochs = [(0.5, 0.9, true), (0.5, 0.9, false), (0.5, 0.7, true), (0.4, 0.1, false), (0.6, 2.0, true)];
        for (score, loss, is_best) in epochs {
            state.epoch += 1;
            state.average.values_mut()[0] = state.epoch as f32;
            assert_eq!(state.record_evaluation(score, loss, true), is_best, "{score} {loss}");
            assert_eq!(state.epochs_without_improvement == 0, is_best);
        }
        assert_eq!((state.best.map(|best| best.epoch), state.best_params.values()[0]), (Some(5), 5.0));
        // Training rows select nothing: the last weights count.
        state.epoch += 1;
        assert!(state.record_evaluation(0.1, 3.0, false));
    }
}
