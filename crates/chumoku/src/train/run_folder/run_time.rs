//! The speed of a run, for the estimate of its remaining time.

use std::time::{Duration, Instant};

/// Times the first steps of a run.
pub(super) struct StepTimer {
    steps: usize,
    since: Instant,
    /// The duration of the first step.
    first: Duration,
    /// The work of the first step; once there are more, the work of the steps after it.
    work: f64,
}

impl StepTimer {
    /// The maximum number of timed steps.
    const MAX_STEPS: usize = 8;
    /// The time after which two steps are enough.
    const MIN_TIME: Duration = Duration::from_secs(2);

    pub(super) fn new() -> StepTimer {
        StepTimer { steps: 0, since: Instant::now(), first: Duration::ZERO, work: 0.0 }
    }

    /// Records a step.
    pub(super) fn add_step(&mut self, work: f64) {
        self.steps += 1;
        // The first step also fills caches and scratch memory, so later steps are timed without it.
        if self.steps == 2 {
            self.work = 0.0;
        }
        self.work += work;
        if self.steps == 1 {
            self.first = self.since.elapsed();
            self.since = Instant::now();
        }
    }

    pub(super) fn is_enough(&self) -> bool {
        self.steps >= StepTimer::MAX_STEPS || self.steps > 1 && self.since.elapsed() >= StepTimer::MIN_TIME
    }

    /// Returns the work per second.
    pub(super) fn rate(&self) -> f64 {
        let time = if self.steps > 1 { self.since.elapsed() } else { self.first };
        self.work / time.as_secs_f64().max(1e-9)
    }
}
