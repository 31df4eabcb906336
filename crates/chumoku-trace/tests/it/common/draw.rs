//! A stream of random numbers for generated calculations.

use chumoku_kernels::Philox;

/// A stream of random numbers.
pub(crate) struct Draw {
    random: Philox,
    count: u64,
}

impl Draw {
    pub(crate) fn new(seed: u64) -> Draw {
        Draw { random: Philox::new(seed, 1), count: 0 }
    }

    /// Returns a number from 0 to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        self.count += 1;
        f64::from(self.random.uniform(self.count))
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((self.unit() * n as f64) as usize).min(n - 1)
    }

    /// Returns true with this probability.
    pub(crate) fn is(&mut self, share: f64) -> bool {
        self.unit() < share
    }
}
