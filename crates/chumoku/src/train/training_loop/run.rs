//! The training loop: batch, training step, optimizer step, evaluation, checkpoint.
//!
//! Everything around it is a [`LoopObserver`]: [`run_in_folder`](crate::train::run_folder::folder_run::run_in_folder)
//! has progress, log and checkpoints, [`run_in_memory`] has none of them.

use super::micro_batches::{MicroBatchGradients, StepOutput, micro_batch_count};
use super::train_state::TrainState;
use super::trainable::{StepContext, Trainable};
use super::worker_group::{BatchPosition, Coordinator};
use crate::params::Params;
use crate::{Error, Result, stage_timer, tr};
use std::sync::atomic::{AtomicBool, Ordering};

/// Acts at fixed points of the training loop.
pub(crate) trait LoopObserver {
    /// After a step, the last of these batches of its epoch.
    fn after_step(&mut self, _state: &TrainState, _batches: &[Vec<usize>], _output: StepOutput) -> Result<()> {
        Ok(())
    }

    /// After an epoch: evaluates the averaged weights.
    fn after_epoch(&mut self, state: &mut TrainState) -> Result<()>;

    /// Saves the state: after an epoch, and before the loop ends early.
    fn save_checkpoint(&mut self, _state: &TrainState) -> Result<()> {
        Ok(())
    }

    /// Shows messages of the workers.
    fn report_workers(&mut self, _messages: Vec<String>) {}

    /// Builds the error for a value that is not finite, in the step after `state`.
    fn not_finite_error(&self, _state: &TrainState, _batch: &[usize], problem: String) -> Error {
        Error::NotFinite(problem)
    }
}

/// The training loop of every task.
pub(crate) struct TrainingLoop<'a> {
    task: &'a dyn Trainable,
    seed: u64,
    /// The number of steps over all epochs, for the schedule.
    steps: u64,
    micro_batches: MicroBatchGradients,
    /// Set if several processes share the run, and this one is the coordinator.
    coordinator: Option<&'a dyn Coordinator>,
}

impl<'a> TrainingLoop<'a> {
    /// Prepares the loop for these parameters.
    pub(crate) fn new(
        task: &'a dyn Trainable,
        seed: u64,
        params: &Params<f32>,
        coordinator: Option<&'a dyn Coordinator>,
    ) -> TrainingLoop<'a> {
        // Uses the batch count of epoch 0 for the schedule: later epochs may have one batch more, and a resumed run
        // must follow the same schedule.
        let steps = task.batches(0, seed).len() as u64 * task.settings().epochs;
        // Workers have their own gradients.
        let micro_batches = if coordinator.is_some() { 1 } else { task.settings().micro_batches };
        TrainingLoop {
            task,
            seed,
            steps,
            micro_batches: MicroBatchGradients::new(params.layout(), micro_batches),
            coordinator,
        }
    }

    /// Runs the remaining steps. Returns `true` if training was interrupted.
    pub(crate) fn run(
        &mut self,
        state: &mut TrainState,
        stop: &AtomicBool,
        observer: &mut dyn LoopObserver,
    ) -> Result<bool> {
        while !state.is_done(self.task.settings()) {
            let batches = self.task.batches(state.epoch, self.seed);
            for batch in batches.iter().skip(state.batch as usize) {
                if stop.load(Ordering::Relaxed) {
                    observer.save_checkpoint(state)?;
                    return Ok(true);
                }
                let output = self.train_step(state, batch, observer)?;
                self.optimizer_step(state, batch, observer)?;
                observer.after_step(state, &batches, output)?;
            }
            state.next_epoch();
            observer.after_epoch(state)?;
            observer.save_checkpoint(state)?;
        }
        Ok(false)
    }

    /// Computes loss and gradients for one batch, here or in the workers.
    fn train_step(
        &mut self,
        state: &TrainState,
        batch: &[usize],
        observer: &mut dyn LoopObserver,
    ) -> Result<StepOutput> {
        let _stage = stage_timer::begin(stage_timer::STEPS);
        let (task, seed, epoch, step) = (self.task, self.seed, state.epoch, state.step.saturating_add(1));
        let output = match self.coordinator {
            Some(coordinator) => {
                let at = BatchPosition { epoch, batch: state.batch, step };
                let count = micro_batch_count(task.settings().micro_batches, batch);
                let grads = self.micro_batches.grads_mut().values_mut();
                let output = coordinator.train_step(state.params.values(), at, count, grads);
                if output.is_err() {
                    // Saves the progress before the error of the workers ends the run.
                    observer.save_checkpoint(state)?;
                }
                let output = output?;
                observer.report_workers(coordinator.take_messages());
                output
            }
            None => {
                state.params.merge_low_rank();
                self.micro_batches.train_step(batch, |rows, micro_batch, grads| {
                    task.train_step(&state.params, rows, StepContext { seed, epoch, step, micro_batch }, grads)
                })?
            }
        };
        let loss = output.loss;
        match loss.is_finite() {
            true => Ok(output),
            false => {
                let problem = tr!("the loss is {loss}", "損失が {loss} になりました");
                Err(observer.not_finite_error(state, batch, problem))
            }
        }
    }

    /// Updates the weights with the gradients of the batch.
    fn optimizer_step(&self, state: &mut TrainState, batch: &[usize], observer: &dyn LoopObserver) -> Result<()> {
        let _stage = stage_timer::begin(stage_timer::STEPS);
        match state.optimizer_step(self.micro_batches.grads(), self.task.settings(), self.steps) {
            Err(Error::NotFinite(problem)) => return Err(observer.not_finite_error(state, batch, problem)),
            applied => applied?,
        };
        state.batch += 1;
        Ok(())
    }
}

impl<F: FnMut(&TrainState) -> Result<()>> LoopObserver for F {
    fn after_epoch(&mut self, state: &mut TrainState) -> Result<()> {
        self(state)
    }
}

/// Trains in memory, without a log or checkpoints. `after_epoch` receives the state after each epoch.
///
/// # Errors
/// [`Error::Interrupted`] if training is interrupted, or the error of a step or of `after_epoch`.
pub(crate) fn run_in_memory(
    task: &dyn Trainable,
    seed: u64,
    stop: &AtomicBool,
    mut after_epoch: impl FnMut(&TrainState) -> Result<()>,
) -> Result<()> {
    let mut state = TrainState::new(task.start(seed)?.0);
    state.set_precision(task.settings().precision);
    let mut training = TrainingLoop::new(task, seed, &state.params, None);
    match training.run(&mut state, stop, &mut after_epoch)? {
        true => Err(Error::Interrupted),
        false => Ok(()),
    }
}
