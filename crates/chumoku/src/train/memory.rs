//! How much memory a run will hold at its peak, at the most: by formula for what is still to come, and by what the system
//! says for what has been.

use crate::nn::EncoderConfig;
use chumoku_kernels::num_threads;
use chumoku_kernels::system::{ProcessMemory, process_memory};

/// Memory of this process, in bytes; 0 where the system does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// Now.
    pub(crate) now: usize,
    /// The peak so far.
    pub(crate) most: usize,
}

impl Held {
    pub(crate) fn measure() -> Held {
        let ProcessMemory { now, peak } = process_memory().unwrap_or_default();
        Held { now: now as usize, most: peak as usize }
    }
}

/// Bounds the memory of a process that holds `base` bytes and makes `made` bytes more by formula.
///
/// The bound includes overhead of the allocator, stacks and scratch memory of threads.
pub(crate) fn at_most(base: usize, made: usize) -> usize {
    const OF_THE_PROGRAM: usize = 20 << 20;
    const OF_A_THREAD: usize = 8 << 20;
    base + made + made / 4 + OF_THE_PROGRAM + num_threads() * OF_A_THREAD
}

/// The share of a step's work that is its forward pass; backward is twice that.
pub(crate) const FORWARD: f64 = 1.0 / 3.0;

/// The work of reading `valid` tokens, or the `train` tokens where there are none to validate, as a share of that of an epoch's
/// learning.
pub(crate) fn evaluation_share(train: usize, valid: usize) -> f64 {
    let read = if valid == 0 { train } else { valid };
    FORWARD * read as f64 / train.max(1) as f64
}

/// Numbers that a step over so many tokens remembers, about: of layers like these, counted in halves (a decoder's are three),
/// and of an output layer over a vocabulary.
pub(crate) fn activations(encoder: &EncoderConfig, half_layers: usize, tokens: usize, vocabulary: usize) -> usize {
    let per_token = half_layers * (22 * encoder.d_model + 6 * encoder.d_ff) / 2 + 6 * encoder.d_model;
    tokens * per_token + 2 * 1024 * vocabulary
}

/// Bytes of rows of tokens.
pub(crate) fn bytes_of(rows: &[Vec<u32>]) -> usize {
    rows.iter().map(|row| size_of::<Vec<u32>>() + BLOCK + 4 * row.capacity()).sum()
}

/// What the allocator adds to a block, about.
const BLOCK: usize = 16;

/// What a run holds beside its state, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Footing {
    /// What was held before any training: the program and the data.
    pub(crate) base: usize,
    /// What is made before the steps and stays: tokens, the n-gram model.
    pub(crate) kept: usize,
    /// What is needed for a while before the steps or after them: to train the n-gram model, to score.
    pub(crate) later: usize,
}

/// The sizes of what a run makes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Numbers in the model.
    pub(crate) parameters: usize,
    /// Gradients of the whole model that are held at a time.
    pub(crate) gradients: usize,
    /// Numbers that a step remembers.
    pub(crate) activations: usize,
}

/// The most that the process will have held when the run is over: before the steps, at them, where a checkpoint is written,
/// or after them.
///
/// Weights, both moments, average and best weights are five times the parameters. A checkpoint is written from copies: their
/// bytes, and the file's. It is written between steps, when nothing else is remembered. What the process `held` so far, some
/// steps included, is the least that it can be.
pub(crate) fn peak(footing: &Footing, sizes: &Sizes, held: Held) -> usize {
    const NUMBER: usize = 4;
    let state = 5 * NUMBER * sizes.parameters;
    let checkpoint = 2 * state;
    let resting = footing.kept + state;
    let learning = resting + NUMBER * sizes.gradients * sizes.parameters + checkpoint.max(NUMBER * sizes.activations);
    let last = resting + footing.later;
    at_most(footing.base, learning.max(last)).max(held.most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_where_most_is_held() {
        let sizes = Sizes { parameters: 1000, gradients: 2, activations: 5000 };
        let footing = Footing { base: 100_000, kept: 50_000, later: 0 };
        // State 20,000, gradients 8,000, a checkpoint 40,000.
        assert_eq!(peak(&footing, &sizes, Held::default()), at_most(100_000, 118_000));
        let many = Sizes { activations: 20_000, ..sizes };
        assert_eq!(peak(&footing, &many, Held::default()), at_most(100_000, 158_000));
        let last = Footing { later: 500_000, ..footing };
        assert_eq!(peak(&last, &sizes, Held::default()), at_most(100_000, 570_000));
        assert_eq!(peak(&footing, &sizes, Held { now: 0, most: 1 << 30 }), 1 << 30);
    }
}
