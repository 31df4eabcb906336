//! Timing of a command by stage: the duration of each stage, and how many threads were busy.
//!
//! A command is in one stage at a time, the innermost open one. Stages follow each other, such as reading, tokenizing
//! and training steps. Work that many threads do at the same time is one stage.

use chumoku_kernels::system::processor_time;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The name of a stage in English and Japanese.
pub(crate) type StageName = [&'static str; 2];

/// Time outside of all other stages.
pub(crate) const REST: StageName = ["the rest", "その他"];

/// The time of a stage.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct StageTime {
    /// The name of the stage.
    pub name: StageName,
    /// How many times the stage began.
    pub(crate) times: u64,
    /// How long the command was in the stage.
    pub duration: Duration,
    /// The processor time of the whole process during the stage. `None` if the system does not report it.
    pub processor: Option<Duration>,
}

/// Reading rows from files.
pub const READING: StageName = ["reading rows", "行の読み込み"];
/// Tokenizing texts, including training of the vocabulary.
pub const TOKENS: StageName = ["tokens", "トークン"];
/// Training or running the n-gram model.
pub const NGRAMS: StageName = ["n-grams", "n-gram"];
/// Training steps.
pub const STEPS: StageName = ["training steps", "学習ステップ"];
/// Running the network.
pub const NETWORK: StageName = ["network", "ネットワーク"];
/// Reading and writing checkpoints.
pub const CHECKPOINTS: StageName = ["checkpoints", "チェックポイント"];
/// Computing and reporting scores.
pub const REPORT: StageName = ["report", "報告"];
/// Writing predictions or model files.
pub const WRITING: StageName = ["writing", "書き込み"];

static IS_RECORDING: AtomicBool = AtomicBool::new(false);
static RECORDER: Mutex<Option<StageRecorder>> = Mutex::new(None);

/// The stages recorded so far.
struct StageRecorder {
    /// The stages in the order in which they first began.
    times: Vec<StageTime>,
    /// Indices into `times` of the stages that are open, the innermost last.
    open: Vec<usize>,
    since: Instant,
    processor_since: Option<Duration>,
}

impl StageRecorder {
    /// Adds the time since the last change to the innermost stage.
    fn account_time(&mut self) {
        let (now, processor) = (Instant::now(), processor_time());
        if let Some(stage) = self.open.last().map(|&at| &mut self.times[at]) {
            stage.duration += now - self.since;
            let both = processor.zip(self.processor_since);
            stage.processor = stage.processor.zip(both).map(|(sum, (now, since))| sum + now.saturating_sub(since));
        }
        (self.since, self.processor_since) = (now, processor);
    }

    fn begin(&mut self, name: StageName) {
        self.account_time();
        let at = self.times.iter().position(|stage| stage.name == name).unwrap_or_else(|| {
            let processor = Some(Duration::ZERO);
            self.times.push(StageTime { name, times: 0, duration: Duration::ZERO, processor });
            self.times.len() - 1
        });
        self.times[at].times += 1;
        self.open.push(at);
    }
}

/// Runs `work` and returns the time of each stage. Only one call records at a time: a nested or concurrent call returns
/// no times.
pub fn record_stages<R>(work: impl FnOnce() -> R) -> (R, Vec<StageTime>) {
    /// Stops recording even if `work` panics.
    struct StopOnDrop;
    impl Drop for StopOnDrop {
        fn drop(&mut self) {
            IS_RECORDING.store(false, Ordering::SeqCst);
            *recorder() = None;
        }
    }
    if recorder().is_some() {
        return (work(), Vec::new());
    }
    let mut watch = StageRecorder { times: Vec::new(), open: Vec::new(), since: Instant::now(), processor_since: None };
    watch.begin(REST);
    *recorder() = Some(watch);
    IS_RECORDING.store(true, Ordering::SeqCst);
    let _off = StopOnDrop;
    let result = work();
    let found = recorder().as_mut().map(|watch| {
        watch.account_time();
        std::mem::take(&mut watch.times)
    });
    (result, found.unwrap_or_default())
}

fn recorder() -> std::sync::MutexGuard<'static, Option<StageRecorder>> {
    RECORDER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The command is in a stage until this guard is dropped.
#[derive(Debug)]
#[must_use]
pub struct StageGuard {
    is_on: bool,
}

/// Begins a stage inside the current one. Costs almost nothing while nothing is recorded.
pub fn begin(name: StageName) -> StageGuard {
    if !IS_RECORDING.load(Ordering::Relaxed) {
        return StageGuard { is_on: false };
    }
    let is_on = recorder().as_mut().map(|watch| watch.begin(name)).is_some();
    StageGuard { is_on }
}

impl Drop for StageGuard {
    fn drop(&mut self) {
        if self.is_on
            && let Some(watch) = recorder().as_mut()
        {
            watch.account_time();
            // The outermost stage ends with the recording.
            if watch.open.len() > 1 {
                watch.open.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::sleep;

    const OUTER: StageName = ["outer", "外"];
    const INNER: StageName = ["inner", "内"];
    const TIME: Duration = Duration::from_millis(10);

    /// Measures how long some work takes.
    fn timed(work: impl FnOnce()) -> Duration {
        let start = Instant::now();
        work();
        start.elapsed()
    }

    /// One test, since only one recording is possible at a time.
    #[test]
    fn each_stage_has_its_own_time() {
        drop(super::begin(OUTER));
        // Threads may be delayed anywhere. Each stage therefore lasts at least the time measured inside it, and at most
        // the time measured around it.
        let (mut least, mut most) = ([Duration::ZERO; 3], [Duration::ZERO; 3]);
        let start = Instant::now();
        let (nothing, found) = record_stages(|| {
            least[0] += timed(|| sleep(TIME));
            let outer_start = Instant::now();
            let outer = super::begin(OUTER);
            for _ in 0..2 {
                least[1] += timed(|| sleep(TIME));
                most[2] += timed(|| {
                    let _inner = super::begin(INNER);
                    least[2] += timed(|| sleep(TIME));
                });
            }
            // The second recording is empty. Its stages count for the first.
            let mut nothing = Vec::new();
            most[2] += timed(|| nothing = record_stages(|| drop(super::begin(INNER))).1);
            drop(outer);
            most[1] = outer_start.elapsed() - least[2];
            nothing
        });
        let all = start.elapsed();
        most[0] = all - least[1] - least[2];
        assert!(nothing.is_empty());
        assert_eq!(
            found.iter().map(|stage| (stage.name, stage.times)).collect::<Vec<_>>(),
            [(REST, 1), (OUTER, 1), (INNER, 3)]
        );
        for (stage, (least, most)) in found.iter().zip(least.into_iter().zip(most)) {
            assert!(stage.duration >= least && stage.duration <= most, "{least:?} to {most:?}: {stage:?}");
        }
        let sum: Duration = found.iter().map(|stage| stage.duration).sum();
        assert!(sum <= all && sum >= least.into_iter().sum(), "{sum:?} of {all:?}");

        // Busy threads are counted, including those that have ended.
        let clock = || processor_time().unwrap_or_default();
        let begun = clock();
        let busy = || {
            let start = clock();
            while processor_time().is_some_and(|now| now < start + 5 * TIME) {
                std::hint::spin_loop();
            }
        };
        let ((), found) = record_stages(|| {
            let _stage = super::begin(OUTER);
            std::thread::scope(|scope| [scope.spawn(busy), scope.spawn(busy)].map(|thread| thread.join().unwrap()));
        });
        if processor_time().is_some() {
            let processor = found[1].processor.unwrap();
            assert!(processor >= 5 * TIME && processor <= clock() - begun, "{found:?}");
        }

        // Recording stops, also after a panic.
        let panicked = std::panic::catch_unwind(|| record_stages(|| panic!("on purpose")));
        assert!(panicked.is_err());
        assert!(!super::begin(OUTER).is_on);
        assert_eq!(record_stages(|| ()).1.len(), 1);
    }
}
