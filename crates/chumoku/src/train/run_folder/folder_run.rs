//! A run in a folder: it starts or resumes, logs, and writes checkpoints.

use super::checkpoint;
use super::progress::RunProgress;
use super::run_identity::RunIdentity;
use super::run_log::RunLog;
use super::training::RunContext;
use crate::lang::wording::format_thousands;
use crate::model_folder::{CHECKPOINTS, LOG, has_checkpoint};
use crate::params::Params;
use crate::train::settings::options::TrainOptions;
use crate::train::training_loop::micro_batches::StepOutput;
use crate::train::training_loop::run::{LoopObserver, TrainingLoop};
use crate::train::training_loop::train_event::{TrainEvent, topic_label};
use crate::train::training_loop::train_state::TrainState;
use crate::train::training_loop::trainable::Trainable;
use crate::train::training_loop::weights_observer::LogWeights;
use crate::train::training_loop::worker_group::{Coordinator, GradientTerms, WorkerGroup, run_worker};
use crate::{Error, Result, stage_timer, tr};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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

/// Trains in the folder of the context, from its newest checkpoint if the options say so. `weights` logs the weights.
///
/// # Errors
/// If the folder cannot be written, a checkpoint does not fit, or the loss is no longer finite.
pub(crate) fn run_in_folder(
    task: &dyn Trainable,
    context: RunContext<'_>,
    weights: Option<LogWeights<'_>>,
    observe: &mut dyn FnMut(TrainEvent<'_>),
) -> Result<RunResult> {
    let RunContext { options, out, stop } = context;
    let (start, sha256_of_start) = task.start(options.seed)?;
    let identity = run_identity(task, options, &sha256_of_start);
    let terms = GradientTerms {
        version: env!("CARGO_PKG_VERSION"),
        instruction_set: chumoku_kernels::active_isa().to_string(),
        precision: task.settings().precision.name(),
        fingerprint: identity.fingerprint.clone(),
        num_parameters: start.values().len(),
    };
    let coordinator: Option<&dyn Coordinator> = match &options.worker_group {
        Some(WorkerGroup::Worker(worker)) => return Err(run_worker(task, &**worker, &terms, options.seed)?),
        Some(WorkerGroup::Coordinator(coordinator)) => Some(&**coordinator),
        None => None,
    };
    let (trained, all) = (start.layout().len(), task.layout().len());
    if trained != all {
        let (trained, all) = (format_thousands(trained), format_thousands(all));
        let text =
            tr!("{trained} of {all} parameters are trained", "全 {all} 個のパラメータのうち {trained} 個を学習します");
        observe(TrainEvent::Message(topic_label("model"), text));
    }
    let folder = out.join(CHECKPOINTS);
    let (mut state, log_bytes) = match options.resume {
        true => resume(start, &folder, &identity, observe)?,
        false => (TrainState::new(start), 0),
    };
    state.set_precision(task.settings().precision);
    let log = RunLog::open(&out.join(LOG), log_bytes)?;
    let mut training = TrainingLoop::new(task, options.seed, &state.params, coordinator);
    if let Some(coordinator) = coordinator {
        coordinator.start(&terms)?;
    }
    let mut observer = FolderObserver {
        task,
        progress: RunProgress::new((task, options.seed), log, weights, observe),
        folder,
        identity,
        every: options.checkpoint_every,
        pause: options.checkpoint_every,
        last: Instant::now(),
    };
    observer.progress.start(&state)?;
    let interrupted = training.run(&mut state, stop, &mut observer)?;
    Ok(RunResult { state, interrupted })
}

/// Builds the identity of a run from what decides its weights.
fn run_identity(task: &dyn Trainable, options: &TrainOptions, sha256_of_start: &str) -> RunIdentity {
    let [data, plan, tokens] = task.fingerprint();
    let fingerprint = format!("{data} {plan} {tokens} {}{sha256_of_start}", options.seed);
    let identity = RunIdentity::new(crate::checksum::hex(Sha256::digest(fingerprint)));
    let identity = identity.with_data(&data).with_tokens(&tokens).with_start(sha256_of_start).with_plan(&plan);
    identity.with("seed", options.seed)
}

/// Reads the newest checkpoint. Returns its state, or the start of the run, and the length of the log.
fn resume(
    start: Params<f32>,
    folder: &Path,
    identity: &RunIdentity,
    observe: &mut dyn FnMut(TrainEvent<'_>),
) -> Result<(TrainState, u64)> {
    let mut note = |text: String| observe(TrainEvent::Message(topic_label("note"), text));
    match checkpoint::load(folder, &start, identity)? {
        Some(loaded) => {
            for problem in &loaded.damaged {
                note(tr!(
                    "skipped a damaged checkpoint: {problem}",
                    "破損したチェックポイントをスキップしました: {problem}"
                ));
            }
            note(tr!("resuming after step {}", "ステップ {} の後から再開します", loaded.state.step));
            Ok((loaded.state, loaded.log_bytes))
        }
        None => {
            note(tr!(
                "no checkpoint yet: starting from the first step",
                "チェックポイントはまだありません。最初のステップから始めます"
            ));
            Ok((TrainState::new(start), 0))
        }
    }
}

/// Returns the pause until the next checkpoint. Writing the state of a large model takes seconds, so the pause limits
/// checkpoints to a twentieth of the time.
fn checkpoint_pause(every: Duration, took: Duration) -> Duration {
    if every.is_zero() { every } else { every.max(20 * took) }
}

/// Shows progress, evaluates, and writes checkpoints.
struct FolderObserver<'a> {
    task: &'a dyn Trainable,
    progress: RunProgress<'a>,
    /// The folder of the checkpoints.
    folder: PathBuf,
    identity: RunIdentity,
    /// The requested time between checkpoints.
    every: Duration,
    /// The time between the last checkpoint and the next.
    pause: Duration,
    last: Instant,
}

impl LoopObserver for FolderObserver<'_> {
    fn after_step(&mut self, state: &TrainState, batches: &[Vec<usize>], output: StepOutput) -> Result<()> {
        self.progress.after_step(state, batches, output)?;
        if self.last.elapsed() >= self.pause { self.save_checkpoint(state) } else { Ok(()) }
    }

    fn after_epoch(&mut self, state: &mut TrainState) -> Result<()> {
        let _stage = stage_timer::begin(stage_timer::NETWORK);
        let evaluation = self.task.evaluate(&state.average)?;
        let is_best = state.record_evaluation(evaluation.score, evaluation.loss, evaluation.is_held_out);
        self.progress.after_epoch(state, &evaluation, is_best)
    }

    fn save_checkpoint(&mut self, state: &TrainState) -> Result<()> {
        let _stage = stage_timer::begin(stage_timer::CHECKPOINTS);
        let start = Instant::now();
        checkpoint::save(&self.folder, state, &self.identity, self.progress.log.bytes)?;
        self.last = Instant::now();
        self.pause = checkpoint_pause(self.every, start.elapsed());
        Ok(())
    }

    fn report_workers(&mut self, messages: Vec<String>) {
        self.progress.report(topic_label("workers"), messages);
    }

    /// Names the cause and the last good checkpoint.
    fn not_finite_error(&self, state: &TrainState, batch: &[usize], problem: String) -> Error {
        let bad = |params: &Params<f32>| {
            let is_bad = |range: &std::ops::Range<usize>| params.values()[range.clone()].iter().any(|x| !x.is_finite());
            params.layout().iter().find(|param| is_bad(&param.range)).map(|param| param.name.to_owned())
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
        let kept = match has_checkpoint(&self.folder) {
            true => tr!(
                "the last good checkpoint is kept in {}",
                "最後の正常なチェックポイントは {} にあります",
                self.folder.display()
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
