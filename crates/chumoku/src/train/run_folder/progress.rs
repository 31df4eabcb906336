//! Output of a run: progress, the log, estimates of time and memory, and the observer of its weights.

use super::run_log::RunLog;
use super::run_time::StepTimer;
use crate::lang::wording::format_thousands;
use crate::memory::{available_bytes, format_bytes};
use crate::params::Params;
use crate::train::training_loop::memory::{ProcessUsage, RunSizes, peak_memory};
use crate::train::training_loop::micro_batches::{AnswerCount, StepOutput};
use crate::train::training_loop::train_event::{TrainEvent, topic_label};
use crate::train::training_loop::train_state::TrainState;
use crate::train::training_loop::trainable::{Evaluation, Trainable};
use crate::train::training_loop::weights_observer::LogWeights;
use crate::{Result, failpoint, tr};
use serde_json::json;
use std::time::{Duration, Instant};

/// The multiply–adds of a batch, or 1 for tasks that do not count them.
fn batch_work(task: &dyn Trainable, batch: &[usize]) -> f64 {
    task.multiply_adds(batch).map_or(1.0, |work| work as f64)
}

/// Counts the steps of all epochs. Batches are drawn anew in each epoch, so their number may differ by a few. For many
/// rows, the number is an estimate from the `current` epoch.
fn count_steps(epochs: u64, current: &[Vec<usize>], batches: impl Fn(u64) -> Vec<Vec<usize>>) -> u64 {
    /// Rows of all epochs whose batches take well below a second.
    const MAX_COUNTED_ROWS: u64 = 1 << 22;
    let rows: usize = current.iter().map(Vec::len).sum();
    match epochs.saturating_mul(rows as u64) <= MAX_COUNTED_ROWS {
        true => (0..epochs).map(|epoch| batches(epoch).len() as u64).sum(),
        false => epochs.saturating_mul(current.len() as u64),
    }
}

/// Reports the estimated peak memory, with a warning if the machine has less.
pub(crate) fn report_memory(bytes: usize, observe: &mut dyn FnMut(TrainEvent<'_>)) {
    let free = available_bytes();
    let shortage = match bytes as u64 > free {
        false => String::new(),
        true => {
            let free = format_bytes(free as f64);
            tr!(", more than the {free} available", "（空きは {free} で、足りないおそれがあります）")
        }
    };
    let mebibytes = format_thousands(bytes.div_ceil(1 << 20));
    observe(TrainEvent::Message(
        topic_label("memory"),
        tr!("at most {mebibytes} MiB{shortage}", "最大 {mebibytes} MiB{shortage}"),
    ));
}

/// Estimates the peak memory of the process over the whole task, in bytes.
pub(crate) fn estimated_peak_memory<T: Trainable + ?Sized>(task: &T) -> usize {
    let sizes = RunSizes {
        parameters: task.layout().len(),
        gradients: task.settings().micro_batches,
        activations: task.activations(),
    };
    peak_memory(&task.memory_estimate(), &sizes, ProcessUsage::measure())
}

/// Shows the progress of a run: events, `log.jsonl`, the time estimate, and the observer of its weights.
pub(super) struct RunProgress<'a> {
    task: &'a dyn Trainable,
    seed: u64,
    pub(super) log: RunLog,
    weights: Option<LogWeights<'a>>,
    observe: &'a mut dyn FnMut(TrainEvent<'_>),
    began: Instant,
    /// Tokens read since the run began.
    tokens: usize,
    /// Moving average of the training loss.
    smoothed_loss: Option<f64>,
    /// The answers since the start of this epoch, or since the run was resumed in it.
    answers: AnswerCount,
    /// Times the first steps, until the run time is estimated.
    timer: Option<StepTimer>,
}

impl<'a> RunProgress<'a> {
    pub(super) fn new(
        (task, seed): (&'a dyn Trainable, u64),
        log: RunLog,
        weights: Option<LogWeights<'a>>,
        observe: &'a mut dyn FnMut(TrainEvent<'_>),
    ) -> RunProgress<'a> {
        let (began, timer) = (Instant::now(), Some(StepTimer::new()));
        RunProgress {
            task,
            seed,
            log,
            weights,
            observe,
            began,
            tokens: 0,
            smoothed_loss: None,
            answers: AnswerCount::default(),
            timer,
        }
    }

    /// Sends messages to the user.
    pub(super) fn report(&mut self, topic: &'static str, messages: impl IntoIterator<Item = String>) {
        messages.into_iter().for_each(|text| (self.observe)(TrainEvent::Message(topic, text)));
    }

    /// Starts the clocks, and logs the initial weights unless the run is resumed.
    pub(super) fn start(&mut self, state: &TrainState) -> Result<()> {
        if state.step == 0 {
            self.log_weights(state, &state.params)?;
        }
        (self.began, self.timer) = (Instant::now(), Some(StepTimer::new()));
        Ok(())
    }

    /// Shows and logs a step, the last of these batches of its epoch.
    pub(super) fn after_step(&mut self, state: &TrainState, batches: &[Vec<usize>], output: StepOutput) -> Result<()> {
        self.tokens += output.tokens;
        self.answers.add(output.answers);
        let loss = self.smoothed_loss.map_or(output.loss, |before| before + 0.05 * (output.loss - before));
        self.smoothed_loss = Some(loss);
        let seconds = self.began.elapsed().as_secs_f64();
        self.time_step(state, batches);
        let (step, tokens_per_second) = (state.step, self.tokens as f64 / seconds);
        (self.observe)(TrainEvent::Step { step, loss, tokens_per_second });
        failpoint::hit("step");
        if step.is_multiple_of(50) {
            self.log.write(json!({ "step": step, "epoch": state.epoch, "loss": loss }))?;
        }
        Ok(())
    }

    /// Shows and logs the evaluation after an epoch.
    pub(super) fn after_epoch(&mut self, state: &TrainState, evaluation: &Evaluation, is_best: bool) -> Result<()> {
        let Evaluation { loss: valid_loss, metrics, is_held_out, .. } = evaluation;
        let (epoch, loss) = (state.epoch, self.smoothed_loss.unwrap_or(f64::NAN));
        let mut line = json!({ "step": state.step, "epoch": epoch, "loss": loss, "valid_loss": valid_loss });
        let train_accuracy = std::mem::take(&mut self.answers).accuracy();
        if let Some(accuracy) = train_accuracy {
            line["train_accuracy"] = accuracy.into();
        }
        for metric in metrics {
            line[format!("valid_{}", metric.key)] = metric.value.into();
        }
        line["best"] = is_best.into();
        if !is_held_out {
            line["held_out"] = false.into();
        }
        self.log.write(line)?;
        self.log_weights(state, &state.average)?;
        (self.observe)(TrainEvent::Evaluated {
            epoch,
            loss,
            train_accuracy,
            metrics,
            is_best,
            is_held_out: *is_held_out,
        });
        failpoint::hit("evaluated");
        Ok(())
    }

    /// Logs what the observer of the weights returns, if there is one.
    fn log_weights(&mut self, state: &TrainState, params: &Params<f32>) -> Result<()> {
        let Some(weights) = &self.weights else { return Ok(()) };
        self.log.write(weights(params, state.step, state.epoch)?)
    }

    /// Times the step just taken. Once enough steps are timed, the run time is estimated.
    fn time_step(&mut self, state: &TrainState, batches: &[Vec<usize>]) {
        let (Some(timer), batch) = (&mut self.timer, state.batch as usize) else { return };
        timer.add_step(batch_work(self.task, &batches[batch - 1]));
        if timer.is_enough() || batch == batches.len() {
            let rate = timer.rate();
            self.timer = None;
            self.report_estimate(state, batches, rate);
        }
    }

    /// Reports the estimates of time and memory, for a rate of work per second.
    fn report_estimate(&mut self, state: &TrainState, batches: &[Vec<usize>], rate: f64) {
        let (task, settings) = (self.task, self.task.settings());
        let epoch: f64 = batches.iter().map(|batch| batch_work(task, batch)).sum();
        let epochs = settings.epochs as f64;
        let evaluations = epochs - state.epoch as f64;
        let done: f64 = batches.iter().take(state.batch as usize).map(|batch| batch_work(task, batch)).sum();
        let (each, last) = (1.0 + task.evaluation_share(), task.scoring_share());
        let left = epoch * (evaluations * each + last) - done;
        let steps = count_steps(settings.epochs, batches, |epoch| task.batches(epoch, self.seed));
        let is_counted = batches.first().is_some_and(|batch| task.multiply_adds(batch).is_some());
        (self.observe)(TrainEvent::Estimated {
            settings,
            steps,
            steps_done: state.step,
            remaining: Duration::from_secs_f64((left / rate).clamp(0.0, 1e9)) + task.time_after_steps(),
            peak_bytes: estimated_peak_memory(task),
            multiply_adds: is_counted.then_some((epoch * (epochs * each + last)) as u64),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_counts_the_batches_of_each_epoch() {
        let batches = |epoch: u64| vec![vec![0, 1]; if epoch == 1 { 4 } else { 3 }];
        assert_eq!(count_steps(3, &batches(0), batches), 10);
        assert_eq!(count_steps(1, &batches(0), batches), 3);
        // Too many rows to count: an estimate.
        assert_eq!(count_steps(1 << 40, &batches(0), batches), 3 << 40);
    }
}
