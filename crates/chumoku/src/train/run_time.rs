//! How fast a run goes, to say how long it will take.

use std::time::{Duration, Instant};

/// How fast the first steps are.
pub(super) struct StepTimer {
    steps: usize,
    since: Instant,
    /// Time of the first step.
    first: Duration,
    /// Of the first step or, once there are more, of those after it.
    work: f64,
}

impl StepTimer {
    /// Steps that are looked at, at the most.
    const MAX_STEPS: usize = 8;
    /// Time for which they are looked at, once there are two.
    const MIN_TIME: Duration = Duration::from_secs(2);

    pub(super) fn new() -> StepTimer {
        StepTimer { steps: 0, since: Instant::now(), first: Duration::ZERO, work: 0.0 }
    }

    /// A step has been taken.
    pub(super) fn add_step(&mut self, work: f64) {
        self.steps += 1;
        // The first also fills caches and scratch memory: the clock starts after it, if there is a second.
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

    /// Work a second.
    pub(super) fn rate(&self) -> f64 {
        let time = if self.steps > 1 { self.since.elapsed() } else { self.first };
        self.work / time.as_secs_f64().max(1e-9)
    }
}
