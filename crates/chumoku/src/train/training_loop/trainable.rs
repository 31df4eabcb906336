//! The interface between the training loop and a task.

use super::memory::MemoryEstimate;
use super::micro_batches::StepOutput;
use super::train_settings::TrainSettings;
use crate::Result;
use crate::lang::lang;
use crate::nn::{DropoutSeed, Mode};
use crate::params::{ParamLayout, Params};
use std::sync::Arc;
use std::time::Duration;

/// A metric of an evaluation: a loss, or a share of correct answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// The name for display, in the user's language.
    pub name: &'static str,
    /// The name in the log.
    pub key: &'static str,
    /// The value.
    pub value: f64,
    /// True for a share, shown in percent.
    pub is_share: bool,
}

/// The result of an evaluation.
pub(crate) struct Evaluation {
    /// Selects the best weights: more is better.
    pub(crate) score: f64,
    /// Breaks ties between equal scores.
    pub(crate) loss: f64,
    pub(crate) metrics: Vec<Metric>,
    pub(crate) is_held_out: bool,
}

impl Evaluation {
    /// Builds the evaluation of a language model from the mean −ln p of the tokens.
    pub(crate) fn from_token_loss(loss: f64, is_held_out: bool) -> Evaluation {
        let metric = |key, japanese, value| Metric { name: lang().pick(key, japanese), key, value, is_share: false };
        let metrics = vec![metric("loss", "損失", loss), metric("perplexity", "パープレキシティ", loss.exp())];
        Evaluation { score: -loss, loss, metrics, is_held_out }
    }
}

/// A model with the data of its task ([`crate::data::Task`]), as [`run`](super::run) trains it.
pub(crate) trait Trainable: Sync {
    /// The layout of the model's parameters.
    fn layout(&self) -> &Arc<ParamLayout>;
    /// Returns the initial weights, and a checksum of them if they depend on more than the seed.
    fn start(&self, seed: u64) -> Result<(Params<f32>, String)> {
        Ok((Params::init(self.layout(), seed), String::new()))
    }
    /// The training settings.
    fn settings(&self) -> &TrainSettings;
    /// Returns what decides the weights, besides the seed: the checksum of the data, the plan as JSON, and the
    /// vocabulary or its checksum.
    fn fingerprint(&self) -> [String; 3];
    /// Returns the batches of an epoch, in order, each as row indices.
    fn batches(&self, epoch: u64, seed: u64) -> Vec<Vec<usize>>;
    /// Computes the loss of a micro-batch. If the loss is finite, its gradient is added to `grads`.
    fn train_step(
        &self,
        params: &Params<f32>,
        rows: &[usize],
        at: StepContext,
        grads: &mut Params<f32>,
    ) -> Result<StepOutput>;
    /// Evaluates weights on the validation rows.
    fn evaluate(&self, params: &Params<f32>) -> Result<Evaluation>;
    /// Estimates how many values the forward pass of a step stores for the backward pass.
    fn activations(&self) -> usize;
    /// Estimates the multiply–adds of a training step on a batch. `None` if they are not counted; all batches then
    /// count as equal.
    fn multiply_adds(&self, _batch: &[usize]) -> Option<u64> {
        None
    }
    /// The multiply–adds of an evaluation, relative to those of a training epoch.
    fn evaluation_share(&self) -> f64;
    /// The multiply–adds of scoring after the steps, relative to those of a training epoch. 0 if they are not counted.
    fn scoring_share(&self) -> f64 {
        0.0
    }
    /// Estimates the memory needed besides the state of the run.
    fn memory_estimate(&self) -> MemoryEstimate;
    /// Estimates the time needed after the steps.
    fn time_after_steps(&self) -> Duration {
        Duration::ZERO
    }
}

/// The position of a micro-batch in a run. It seeds dropout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepContext {
    pub(crate) seed: u64,
    pub(crate) epoch: u64,
    pub(crate) step: u64,
    /// The index of the micro-batch in its batch.
    pub(crate) micro_batch: usize,
}

impl StepContext {
    /// The training mode here. Each micro-batch of each step drops different values.
    pub(crate) fn mode(&self) -> Mode {
        // The low bits hold up to eight micro-batches, as in most runs. Higher ones go far above any step number.
        const FEW: u64 = 8;
        let part = self.micro_batch as u64;
        Mode::Train(DropoutSeed { seed: self.seed, step: (self.step * FEW + part % FEW) | (part / FEW) << 40 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::training_loop::micro_batches::MAX_MICRO_BATCHES;
    use std::collections::HashSet;

    #[test]
    fn every_micro_batch_has_its_own_dropout_stream() {
        let mut seen = HashSet::new();
        // Long runs too: their step numbers would reach the bits of the micro-batches if these were too low.
        let steps = (0..200).chain((1 << 30)..(1 << 30) + 50);
        for (step, part) in steps.flat_map(|step| (0..MAX_MICRO_BATCHES).map(move |part| (step, part))) {
            let Mode::Train(noise) = (StepContext { seed: 7, epoch: 0, step, micro_batch: part }).mode() else {
                panic!("not training")
            };
            assert_eq!(noise.seed, 7);
            assert!(seen.insert(noise.step), "step {step}, part {part}");
        }
    }
}
