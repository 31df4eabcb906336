//! What a run trains: a model with the data of its task.

use super::Settings;
use super::memory::MemoryEstimate;
use super::micro_batches::StepOutput;
use crate::Result;
use crate::lang::lang;
use crate::nn::{DropoutSeed, Mode};
use crate::params::{ParamLayout, Params};
use std::sync::Arc;
use std::time::Duration;

/// A number by which an evaluation judges weights: a loss, or a share of right answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// Its name for people.
    pub name: &'static str,
    /// Its name in the log.
    pub key: &'static str,
    /// The number.
    pub value: f64,
    /// Whether it is a share, shown in per cent.
    pub is_share: bool,
}

/// What an evaluation found.
pub(crate) struct Evaluation {
    /// By this the best weights are chosen: more is better.
    pub(crate) score: f64,
    /// Decides between equal scores.
    pub(crate) loss: f64,
    pub(crate) metrics: Vec<Metric>,
    pub(crate) is_held_out: bool,
}

impl Evaluation {
    /// Of tokens that a model foretold with this mean −ln p.
    pub(crate) fn from_token_loss(loss: f64, is_held_out: bool) -> Evaluation {
        let metric = |key, japanese, value| Metric { name: lang().pick(key, japanese), key, value, is_share: false };
        let metrics = vec![metric("loss", "損失", loss), metric("perplexity", "パープレキシティ", loss.exp())];
        Evaluation { score: -loss, loss, metrics, is_held_out }
    }
}

/// A model with the data of its task ([`crate::data::Task`]), as [`run`] trains it.
pub(crate) trait Trainable: Sync {
    /// The model's parameters.
    fn layout(&self) -> &Arc<ParamLayout>;
    /// The weights that training starts from, and what tells them from others beside the seed.
    fn start(&self, seed: u64) -> Result<(Params<f32>, String)> {
        Ok((Params::init(self.layout(), seed), String::new()))
    }
    /// How it is trained.
    fn settings(&self) -> &Settings;
    /// What decides the weights beside the seed: the checksum of the data, the plan as JSON, and the vocabulary or its checksum.
    fn fingerprint(&self) -> [String; 3];
    /// The rows of each batch of an epoch, in their order.
    fn batches(&self, epoch: u64, seed: u64) -> Vec<Vec<usize>>;
    /// The loss of a part of a batch; its gradient is added to `grads`, where it is finite.
    fn train_step(
        &self,
        params: &Params<f32>,
        rows: &[usize],
        at: StepContext,
        grads: &mut Params<f32>,
    ) -> Result<StepOutput>;
    /// Evaluates weights.
    fn evaluate(&self, params: &Params<f32>) -> Result<Evaluation>;
    /// Numbers that a step remembers, about.
    fn activations(&self) -> usize;
    /// Multiply–adds of learning from a batch, about; where they are not counted, all batches are taken to be alike.
    fn multiply_adds(&self, _batch: &[usize]) -> Option<u64> {
        None
    }
    /// The work of an evaluation as a share of that of an epoch's learning.
    fn evaluation_share(&self) -> f64;
    /// The work of scoring after the steps as a share of that of an epoch's learning, where it is counted.
    fn scoring_share(&self) -> f64 {
        0.0
    }
    /// Memory beside the state of the run.
    fn memory_estimate(&self) -> MemoryEstimate;
    /// Time that is needed after the steps.
    fn time_after_steps(&self) -> Duration {
        Duration::ZERO
    }
}

/// Where in a run a batch is learnt from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepContext {
    pub(crate) seed: u64,
    pub(crate) epoch: u64,
    pub(crate) step: u64,
    /// The part of the batch.
    pub(crate) micro_batch: usize,
}

impl StepContext {
    /// Training here: each part of each batch drops other numbers.
    pub(crate) fn mode(&self) -> Mode {
        // In the low bits what runs with few parts need; the rest far above any step's number.
        const FEW: u64 = 8;
        let part = self.micro_batch as u64;
        Mode::Train(DropoutSeed { seed: self.seed, step: (self.step * FEW + part % FEW) | (part / FEW) << 40 })
    }
}

#[cfg(test)]
mod tests {
    use super::super::MAX_MICRO_BATCHES;
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_two_parts_of_a_run_drop_the_same_numbers() {
        let mut seen = HashSet::new();
        // Also of long runs, whose numbers reach into the bits of the parts if these are too low.
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
