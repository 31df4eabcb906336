//! The training loop: steps, evaluation, checkpoints, logging.

use super::attention_frames::FrameRecorder;
use super::display_names::topic_label;
use super::memory::{ProcessUsage, RunSizes, peak_memory};
use super::micro_batches::{self, MicroBatchGradients, StepOutput};
use super::run_identity::RunIdentity;
use super::run_time::StepTimer;
use super::trainable::{Evaluation, Metric, StepContext, Trainable};
use super::worker_group::{self, BatchPosition, GradientTerms, WorkerGroup};
use super::{TrainOptions, TrainSettings, TrainState, checkpoint};
use crate::explain::{AttentionFrame, FRAME_KEY};
use crate::lang::wording::format_thousands;
use crate::memory::{available_bytes, format_bytes};
use crate::model_folder::{CHECKPOINTS, EntryType, LOG, has_checkpoint};
use crate::output::open_existing_or_new;
use crate::params::Params;
use crate::{Error, Result, failpoint, stages, tr};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Progress events of a training run.
#[derive(Debug)]
#[non_exhaustive]
pub enum TrainEvent<'a> {
    /// A message for the user: topic and text.
    Message(&'static str, String),
    /// Progress of a slow operation: topic and detail. The next event replaces it.
    Progress(&'static str, String),
    /// Emitted after the first steps, once the run time can be estimated.
    Estimated {
        /// The settings.
        settings: &'a TrainSettings,
        /// Total number of steps, over all epochs.
        steps: u64,
        /// Steps finished before this run, when resuming.
        steps_done: u64,
        /// Estimated time to the end if no epoch is skipped, from the speed of the first steps.
        remaining: Duration,
        /// Estimated peak memory of the process, in bytes.
        peak_bytes: usize,
        /// Estimated multiply–adds of all epochs and evaluations. `None` for tasks that do not count them.
        multiply_adds: Option<u64>,
    },
    /// An optimizer step.
    Step {
        /// Number of the step, from 1.
        step: u64,
        /// Moving average of the training loss.
        loss: f64,
        /// Tokens per second since the run began.
        tokens_per_second: f64,
    },
    /// An evaluation of the averaged weights on the validation rows.
    Evaluated {
        /// Epochs finished.
        epoch: u64,
        /// Moving average of the training loss.
        loss: f64,
        /// The metrics. The last one is the metric to watch.
        metrics: &'a [Metric],
        /// True for the best evaluation so far.
        is_best: bool,
        /// True if the rows are held out. Without validation rows, the training rows are evaluated.
        is_held_out: bool,
    },
}

/// The SHA-256 of rows of tokens, each preceded by its length.
pub(crate) fn sha256_of_rows<'a>(rows: impl IntoIterator<Item = &'a Vec<u32>>) -> String {
    let mut hash = Sha256::new();
    for ids in rows {
        hash.update((ids.len() as u64).to_le_bytes());
        ids.iter().for_each(|id| hash.update(id.to_le_bytes()));
    }
    crate::checksum::hex(hash.finalize())
}

/// Returns the pause until the next checkpoint. Writing the state of a large model takes seconds, so the pause limits
/// checkpoints to a twentieth of the time.
fn checkpoint_pause(every: Duration, took: Duration) -> Duration {
    if every.is_zero() { every } else { every.max(20 * took) }
}

/// The SHA-256 of numbers.
pub(crate) fn sha256_of_numbers(numbers: &[f32]) -> String {
    let mut hash = Sha256::new();
    for piece in numbers.chunks(1 << 14) {
        hash.update(piece.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>());
    }
    crate::checksum::hex(hash.finalize())
}

/// Converts a plan to JSON through text, so that 0.3 stays 0.3. A direct conversion would give the f64 nearest to the
/// f32.
pub(crate) fn plan_json(plan: &impl Serialize) -> Value {
    serde_json::to_vec(plan).and_then(|plan| serde_json::from_slice(&plan)).expect("a plan is plain data")
}

/// The result of a run.
pub(crate) struct RunResult {
    pub(crate) state: TrainState,
    /// True if training was interrupted.
    pub(crate) interrupted: bool,
}

impl RunResult {
    /// Returns the weights to keep: the best ones, or the average if training was interrupted before the first
    /// evaluation.
    pub(crate) fn params(&self) -> Params<f32> {
        if self.state.best.is_some() { self.state.best_params.clone() } else { self.state.average.clone() }
    }
}

/// `log.jsonl`: one line for each evaluation and for every 50th step.
struct RunLog {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl RunLog {
    /// Opens the log and truncates it to the `bytes` written before the resumed checkpoint.
    fn open(path: &Path, bytes: u64) -> Result<RunLog> {
        if !matches!(EntryType::at(path), EntryType::Missing | EntryType::File) {
            let problem = tr!(
                "expected the log file of the run, found something else; move it away",
                "学習のログがあるべきところに、ファイルではないものがあります。別の場所に移してください"
            );
            return Err(Error::Output { path: path.to_owned(), problem });
        }
        let file = open_existing_or_new(path).map_err(Error::write("opening", path))?;
        let length = file.metadata().map_err(Error::io("reading", path))?.len();
        let bytes = bytes.min(length);
        file.set_len(bytes).map_err(Error::write("shortening", path))?;
        let mut log = RunLog { path: path.to_owned(), file, bytes };
        std::io::Seek::seek(&mut log.file, std::io::SeekFrom::End(0)).map_err(Error::write("writing", path))?;
        Ok(log)
    }

    fn write(&mut self, line: Value) -> Result<()> {
        let line = format!("{line}\n");
        self.file.write_all(line.as_bytes()).map_err(Error::write("writing", &self.path))?;
        self.bytes += line.len() as u64;
        Ok(())
    }
}

/// The multiply–adds of a batch, or 1 for tasks that do not count them.
fn batch_work(task: &dyn Trainable, batch: &[usize]) -> f64 {
    task.multiply_adds(batch).map_or(1.0, |work| work as f64)
}

struct Run<'a> {
    task: &'a dyn Trainable,
    seed: u64,
    log: RunLog,
    checkpoints: PathBuf,
    identity: RunIdentity,
    /// Moving average of the training loss.
    smoothed_loss: Option<f64>,
    micro_batches: MicroBatchGradients,
    watch: Option<FrameRecorder<'a>>,
    /// Set if several processes share the run, and this one is the coordinator.
    worker_group: Option<&'a WorkerGroup>,
}

/// Trains in the folder `out`, from its newest checkpoint if `options.resume` is set.
///
/// # Errors
/// If the folder cannot be written, a checkpoint does not fit, or the loss is no longer finite.
pub(crate) fn run(
    task: &dyn Trainable,
    options: &TrainOptions,
    watch: Option<FrameRecorder<'_>>,
    out: &Path,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(TrainEvent<'_>),
) -> Result<RunResult> {
    let (start, of_start) = task.start(options.seed)?;
    let [data, plan, tokens] = task.fingerprint();
    let fingerprint = format!("{data} {plan} {tokens} {}{of_start}", options.seed);
    let identity = RunIdentity::new(crate::checksum::hex(Sha256::digest(fingerprint)));
    let identity = identity.with_data(&data).with_tokens(&tokens).with_start(&of_start).with_plan(&plan);
    let identity = identity.with("seed", options.seed);
    let terms = GradientTerms {
        version: env!("CARGO_PKG_VERSION"),
        instruction_set: chumoku_kernels::active_isa().to_string(),
        precision: task.settings().precision.name(),
        fingerprint: identity.fingerprint.clone(),
        num_parameters: start.values().len(),
    };
    if let Some(WorkerGroup::Worker(helper)) = &options.worker_group {
        return Err(worker_group::run_worker(task, &**helper, &terms, options.seed)?);
    }
    let checkpoints = out.join(CHECKPOINTS);
    let mut log_bytes = 0;
    let (trained, all) = (start.layout().len(), task.layout().len());
    if trained != all {
        let (trained, all) = (format_thousands(trained), format_thousands(all));
        let text =
            tr!("{trained} of {all} parameters are trained", "全 {all} 個のパラメータのうち {trained} 個を学習します");
        observe(TrainEvent::Message(topic_label("model"), text));
    }
    let mut state = TrainState::new(start);
    if options.resume {
        match checkpoint::load(&checkpoints, &state.params, &identity)? {
            Some(loaded) => {
                for problem in &loaded.damaged {
                    let text = tr!(
                        "skipped a damaged checkpoint: {problem}",
                        "破損したチェックポイントをスキップしました: {problem}"
                    );
                    observe(TrainEvent::Message(topic_label("note"), text));
                }
                let text = tr!("resuming after step {}", "ステップ {} の後から再開します", loaded.state.step);
                observe(TrainEvent::Message(topic_label("note"), text));
                (state, log_bytes) = (loaded.state, loaded.log_bytes);
            }
            None => {
                let text = tr!(
                    "no checkpoint yet: starting from the first step",
                    "チェックポイントはまだありません。最初のステップから始めます"
                );
                observe(TrainEvent::Message(topic_label("note"), text));
            }
        }
    }
    state.set_precision(task.settings().precision);
    let mut run = Run {
        task,
        seed: options.seed,
        log: RunLog::open(&out.join(LOG), log_bytes)?,
        checkpoints,
        identity,
        smoothed_loss: None,
        // Workers have their own gradients.
        micro_batches: MicroBatchGradients::new(
            state.params.layout(),
            if options.worker_group.is_some() { 1 } else { task.settings().parts },
        ),
        watch,
        worker_group: options.worker_group.as_ref(),
    };
    if let Some(WorkerGroup::Coordinator(leader)) = &options.worker_group {
        leader.start(&terms)?;
    }
    if state.step == 0 {
        run.record_attention(&state, &state.params)?;
    }
    let interrupted = run.run_steps(&mut state, options, stop, observe)?;
    Ok(RunResult { state, interrupted })
}

/// Reports the estimated peak memory, with a warning if the machine has less.
pub(super) fn report_memory(bytes: usize, observe: &mut dyn FnMut(TrainEvent<'_>)) {
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
pub(super) fn estimated_peak_memory<T: Trainable + ?Sized>(task: &T) -> usize {
    let sizes =
        RunSizes { parameters: task.layout().len(), gradients: task.settings().parts, activations: task.activations() };
    peak_memory(&task.memory_estimate(), &sizes, ProcessUsage::measure())
}

impl Run<'_> {
    /// Reports the estimates of time and memory, from the steps that `pace` has timed.
    fn report_estimate(
        &self,
        state: &TrainState,
        batches: &[Vec<usize>],
        pace: &StepTimer,
        observe: &mut dyn FnMut(TrainEvent<'_>),
    ) {
        let (task, settings) = (self.task, self.task.settings());
        let epoch: f64 = batches.iter().map(|batch| batch_work(task, batch)).sum();
        let epochs = settings.epochs as f64;
        let evaluations = epochs - state.epoch as f64;
        let done: f64 = batches.iter().take(state.batch as usize).map(|batch| batch_work(task, batch)).sum();
        let (each, last) = (1.0 + task.evaluation_share(), task.scoring_share());
        let left = epoch * (evaluations * each + last) - done;
        let steps = batches.len() as u64 * settings.epochs;
        let is_counted = batches.first().is_some_and(|batch| task.multiply_adds(batch).is_some());
        observe(TrainEvent::Estimated {
            settings,
            steps,
            steps_done: state.step,
            remaining: Duration::from_secs_f64((left / pace.rate()).clamp(0.0, 1e9)) + task.time_after_steps(),
            peak_bytes: estimated_peak_memory(task),
            multiply_adds: is_counted.then_some((epoch * (epochs * each + last)) as u64),
        });
    }

    /// Runs the remaining steps. Returns `true` if training was interrupted.
    fn run_steps(
        &mut self,
        state: &mut TrainState,
        options: &TrainOptions,
        stop: &AtomicBool,
        observe: &mut dyn FnMut(TrainEvent<'_>),
    ) -> Result<bool> {
        let (mut last_save, began) = (Instant::now(), Instant::now());
        let mut pause = options.checkpoint_every;
        let mut tokens = 0;
        let mut pace = Some(StepTimer::new());
        // Uses the batch count of epoch 0 for the schedule: later epochs may have one batch more, and a resumed run
        // must follow the same schedule.
        let steps = self.task.batches(0, self.seed).len() as u64 * self.task.settings().epochs;
        while !state.is_done(self.task.settings()) {
            let batches = self.task.batches(state.epoch, self.seed);
            for batch in batches.iter().skip(state.batch as usize) {
                if stop.load(Ordering::Relaxed) {
                    self.save_checkpoint(state)?;
                    return Ok(true);
                }
                let step = state.step.saturating_add(1);
                let StepOutput { loss, tokens: count, .. } = self.train_step(state, batch, step)?;
                self.report_worker_messages(observe);
                if !loss.is_finite() {
                    return Err(self.not_finite_error(
                        state,
                        batch,
                        &tr!("the loss is {loss}", "損失が {loss} になりました"),
                    ));
                }
                let applying = stages::begin(stages::STEPS);
                match state.optimizer_step(self.micro_batches.grads(), self.task.settings(), steps) {
                    Err(Error::NotFinite(problem)) => return Err(self.not_finite_error(state, batch, &problem)),
                    applied => applied?,
                };
                drop(applying);
                state.batch += 1;
                tokens += count;
                let smoothed_loss = self.smoothed_loss.map_or(loss, |before| before + 0.05 * (loss - before));
                self.smoothed_loss = Some(smoothed_loss);
                let seconds = began.elapsed().as_secs_f64();
                if let Some(timer) = &mut pace {
                    timer.add_step(batch_work(self.task, batch));
                    if timer.is_enough() || state.batch as usize == batches.len() {
                        self.report_estimate(state, &batches, timer, observe);
                        pace = None;
                    }
                }
                observe(TrainEvent::Step { step, loss: smoothed_loss, tokens_per_second: tokens as f64 / seconds });
                failpoint::hit("step");
                if step.is_multiple_of(50) {
                    self.log.write(json!({ "step": step, "epoch": state.epoch, "loss": smoothed_loss }))?;
                }
                if last_save.elapsed() >= pause {
                    last_save = Instant::now();
                    self.save_checkpoint(state)?;
                    pause = checkpoint_pause(options.checkpoint_every, last_save.elapsed());
                    last_save = Instant::now();
                }
            }
            state.epoch += 1;
            state.batch = 0;
            self.evaluate(state, observe)?;
            self.save_checkpoint(state)?;
            last_save = Instant::now();
        }
        Ok(false)
    }

    /// Computes loss and gradients for one batch.
    fn train_step(&mut self, state: &TrainState, batch: &[usize], step: u64) -> Result<StepOutput> {
        let _stage = stages::begin(stages::STEPS);
        let (task, seed, epoch) = (self.task, self.seed, state.epoch);
        if let Some(WorkerGroup::Coordinator(leader)) = self.worker_group {
            let at = BatchPosition { epoch, batch: state.batch, step };
            let count = micro_batches::micro_batch_count(task.settings().parts, batch);
            let output =
                leader.train_step(state.params.values(), at, count, self.micro_batches.grads_mut().values_mut());
            if output.is_err() {
                // Saves the progress before the error of the workers ends the run.
                self.save_checkpoint(state)?;
            }
            return output;
        }
        state.params.merge_low_rank();
        self.micro_batches.train_step(batch, |rows, part, grads| {
            task.train_step(&state.params, rows, StepContext { seed, epoch, step, micro_batch: part }, grads)
        })
    }

    /// Reports the messages of the worker group.
    fn report_worker_messages(&self, observe: &mut dyn FnMut(TrainEvent<'_>)) {
        if let Some(WorkerGroup::Coordinator(leader)) = self.worker_group {
            leader
                .take_messages()
                .into_iter()
                .for_each(|text| observe(TrainEvent::Message(topic_label("workers"), text)));
        }
    }

    fn save_checkpoint(&mut self, state: &TrainState) -> Result<()> {
        let _stage = stages::begin(stages::CHECKPOINTS);
        checkpoint::save(&self.checkpoints, state, &self.identity, self.log.bytes)
    }

    fn evaluate(&mut self, state: &mut TrainState, observe: &mut dyn FnMut(TrainEvent<'_>)) -> Result<()> {
        let _stage = stages::begin(stages::NETWORK);
        let Evaluation { score, loss: valid_loss, metrics, is_held_out } = self.task.evaluate(&state.average)?;
        let is_best = state.record_evaluation(score, valid_loss, is_held_out);
        let (epoch, loss) = (state.epoch, self.smoothed_loss.unwrap_or(f64::NAN));
        let mut line = json!({ "step": state.step, "epoch": epoch, "loss": loss, "valid_loss": valid_loss });
        for metric in &metrics {
            line[format!("valid_{}", metric.key)] = metric.value.into();
        }
        line["best"] = is_best.into();
        self.log.write(line)?;
        self.record_attention(state, &state.average)?;
        observe(TrainEvent::Evaluated { epoch, loss, metrics: &metrics, is_best, is_held_out });
        failpoint::hit("evaluated");
        Ok(())
    }

    /// Logs the attention on the watched text, if there is one.
    fn record_attention(&mut self, state: &TrainState, params: &Params<f32>) -> Result<()> {
        let Some(watch) = &self.watch else { return Ok(()) };
        let frame = AttentionFrame { step: state.step, epoch: state.epoch, ..watch(params)? };
        self.log.write(json!({ "step": state.step, "epoch": state.epoch, FRAME_KEY: frame.to_json() }))
    }

    /// Builds the error for a value that is not finite. It names the cause and the last good checkpoint.
    fn not_finite_error(&self, state: &TrainState, batch: &[usize], problem: &str) -> Error {
        let bad = |params: &Params<f32>| {
            let found = params
                .layout()
                .iter()
                .find(|param| params.values()[param.range.clone()].iter().any(|x| !x.is_finite()));
            found.map(|param| param.name.to_owned())
        };
        let cause = match bad(&state.params) {
            Some(name) => tr!(
                "the weights of {name} were no longer finite before the step",
                "ステップの前から {name} の重みが有限ではありません"
            ),
            None => tr!(
                "the weights were finite, so the step itself overflowed (batch of {} rows, largest weight {:e}): the \
                 learning rate {} is too high for this data",
                "重みは有限なので、このステップ自体で桁あふれが起きました（バッチ {} 行、最大の重み {:e}）。学習率 {} はこの\
                 データには高すぎます",
                batch.len(),
                state.params.values().iter().fold(0.0f32, |most, x| most.max(x.abs())),
                self.task.settings().learning_rate
            ),
        };
        let kept = match has_checkpoint(&self.checkpoints) {
            true => tr!(
                "the last good checkpoint is kept in {}",
                "最後の正常なチェックポイントは {} にあります",
                self.checkpoints.display()
            ),
            false => tr!("no checkpoint had been written yet", "チェックポイントはまだ書かれていません"),
        };
        let (step, epoch) = (state.step.saturating_add(1), state.epoch.saturating_add(1));
        Error::NotFinite(tr!(
            "training stopped at step {step} (epoch {epoch}): {problem}; {cause}; {kept}",
            "学習がステップ {step}（エポック {epoch}）で止まりました。{problem}。{cause}。{kept}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_take_no_more_than_a_twentieth_of_the_time() {
        let seconds = Duration::from_secs;
        for (every, took, pause) in [(30, 0, 30), (30, 1, 30), (30, 2, 40), (30, 80, 1600), (0, 80, 0)] {
            assert_eq!(checkpoint_pause(seconds(every), seconds(took)), seconds(pause));
        }
    }
}
