//! Counting the signals that ask a process to stop.
//!
//! The first signal asks to save and stop, a second one to stop at once. `timeout` and service managers send the same
//! signal to a process and to its group, so it arrives twice within milliseconds. A held key sends many.

use std::time::{Duration, Instant};

/// Signals within this time after the first count as repetitions of it.
pub const REPEAT_WINDOW: Duration = Duration::from_secs(1);

/// The shutdown that a signal requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Save and stop.
    Graceful,
    /// Nothing new: a repetition of the first signal.
    Repeated,
    /// Stop at once.
    Immediate,
}

/// The stop signals received so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShutdownSignals {
    first: Option<Instant>,
}

impl ShutdownSignals {
    /// Creates a counter without signals.
    #[must_use]
    pub const fn new() -> ShutdownSignals {
        ShutdownSignals { first: None }
    }

    /// Counts a signal received now and returns the shutdown that it requests.
    pub fn record(&mut self, now: Instant) -> Shutdown {
        match self.first {
            None => {
                self.first = Some(now);
                Shutdown::Graceful
            }
            Some(first) if now.saturating_duration_since(first) < REPEAT_WINDOW => Shutdown::Repeated,
            Some(_) => Shutdown::Immediate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_within_a_second_count_as_one() {
        let start = Instant::now();
        let mut signals = ShutdownSignals::new();
        let mut after = |milliseconds| signals.record(start + Duration::from_millis(milliseconds));
        let found = [0, 0, 20, 999, 1000, 5000].map(&mut after);
        use Shutdown::{Graceful, Immediate, Repeated};
        assert_eq!(found, [Graceful, Repeated, Repeated, Repeated, Immediate, Immediate]);
    }
}
