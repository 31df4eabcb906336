//! Signals that ask a process to end, and which of them count.
//!
//! The first one asks to save and end, another one to end at once. `timeout` and service managers send the same signal to a
//! process and to its group, so it comes twice within milliseconds; a key that is held sends many.

use std::time::{Duration, Instant};

/// Signals that come so soon after the first count as one with it.
pub const REPEAT_WINDOW: Duration = Duration::from_secs(1);

/// The shutdown that a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Save and end.
    Graceful,
    /// Nothing new: the first signal came once more.
    Repeated,
    /// End at once.
    Immediate,
}

/// The signals of a process so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShutdownSignals {
    first: Option<Instant>,
}

impl ShutdownSignals {
    /// None so far.
    #[must_use]
    pub const fn new() -> ShutdownSignals {
        ShutdownSignals { first: None }
    }

    /// Counts a signal that comes now, and tells which shutdown it asks for.
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
    fn signals_within_a_second_are_one() {
        let start = Instant::now();
        let mut signals = ShutdownSignals::new();
        let mut after = |milliseconds| signals.record(start + Duration::from_millis(milliseconds));
        let found = [0, 0, 20, 999, 1000, 5000].map(&mut after);
        use Shutdown::{Graceful, Immediate, Repeated};
        assert_eq!(found, [Graceful, Repeated, Repeated, Repeated, Immediate, Immediate]);
    }
}
