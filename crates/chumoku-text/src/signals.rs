//! Signals that ask a process to end, and which of them count.
//!
//! The first one asks to save and end, another one to end at once. `timeout` and service managers send the same signal to a
//! process and to its group, so it comes twice within milliseconds; a key that is held sends many.

use std::time::{Duration, Instant};

/// Signals that come so soon after the first count as one with it.
pub const ONE_SIGNAL: Duration = Duration::from_secs(1);

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To save and end.
    End,
    /// Nothing new: it is the first signal once more.
    Again,
    /// To end at once.
    EndAtOnce,
}

/// The signals of a process so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct EndSignals {
    first: Option<Instant>,
}

impl EndSignals {
    /// None so far.
    #[must_use]
    pub const fn none() -> EndSignals {
        EndSignals { first: None }
    }

    /// Tells what a signal asks for that comes now.
    pub fn count(&mut self, now: Instant) -> Asked {
        match self.first {
            None => {
                self.first = Some(now);
                Asked::End
            }
            Some(first) if now.saturating_duration_since(first) < ONE_SIGNAL => Asked::Again,
            Some(_) => Asked::EndAtOnce,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_within_a_second_are_one() {
        let start = Instant::now();
        let mut signals = EndSignals::none();
        let mut after = |milliseconds| signals.count(start + Duration::from_millis(milliseconds));
        let found = [0, 0, 20, 999, 1000, 5000].map(&mut after);
        use Asked::{Again, End, EndAtOnce};
        assert_eq!(found, [End, Again, Again, Again, EndAtOnce, EndAtOnce]);
    }
}
