//! Random choices of the generators.

use chumoku_kernels::Philox;

/// A sequence of random choices.
pub(super) struct RandomChoices {
    random: Philox,
    at: u64,
}

impl RandomChoices {
    /// Starts the sequence of a stream.
    pub(super) fn new(seed: u64, stream: u64) -> RandomChoices {
        RandomChoices { random: Philox::new(seed, stream), at: 0 }
    }

    /// Draws a number below `n`.
    pub(super) fn below(&mut self, n: usize) -> usize {
        let [word, ..] = self.random.block(self.at);
        self.at += 1;
        ((u64::from(word) * n as u64) >> 32) as usize
    }

    /// Returns `true` with probability 1 / `n`.
    pub(super) fn chance(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Draws one of the choices.
    pub(super) fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Shuffles items: each order is equally likely.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}
