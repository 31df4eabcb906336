//! How much memory a run will hold at its peak, at the most: by formula for what is still to come, and by what the system
//! says for what has been.

use crate::nn::EncoderConfig;
use chumoku_kernels::num_threads;
use chumoku_kernels::system::{ProcessMemory, process_memory};

/// Memory of this process, in bytes; 0 where the system does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessUsage {
    /// Now.
    pub(crate) now: usize,
    /// The peak so far.
    pub(crate) most: usize,
}

impl ProcessUsage {
    pub(crate) fn measure() -> ProcessUsage {
        let ProcessMemory { current: now, peak } = process_memory().unwrap_or_default();
        ProcessUsage { now: now as usize, most: peak as usize }
    }
}

/// Bounds the memory of a process that holds `base` bytes and makes `made` bytes more by formula.
///
/// The bound includes overhead of the allocator, stacks and scratch memory of threads.
pub(crate) fn upper_bound(base: usize, allocated: usize) -> usize {
    const PROGRAM_BYTES: usize = 20 << 20;
    const BYTES_PER_THREAD: usize = 8 << 20;
    base + allocated + allocated / 4 + PROGRAM_BYTES + num_threads() * BYTES_PER_THREAD
}

/// The share of a step's work that is its forward pass; backward is twice that.
pub(crate) const FORWARD_SHARE: f64 = 1.0 / 3.0;

/// The work of reading `valid` tokens, or the `train` tokens where there are none to validate, as a share of that of an epoch's
/// learning.
pub(crate) fn evaluation_share(train: usize, valid: usize) -> f64 {
    let read = if valid == 0 { train } else { valid };
    FORWARD_SHARE * read as f64 / train.max(1) as f64
}

/// Numbers that a step over so many tokens remembers, about: of layers like these, counted in halves (a decoder's are three),
/// and of an output layer over a vocabulary.
pub(crate) fn activations(encoder: &EncoderConfig, half_layers: usize, tokens: usize, vocabulary: usize) -> usize {
    let per_token = half_layers * (22 * encoder.d_model + 6 * encoder.d_ff) / 2 + 6 * encoder.d_model;
    tokens * per_token + 2 * 1024 * vocabulary
}

/// Bytes of rows of tokens.
pub(crate) fn bytes_of(rows: &[Vec<u32>]) -> usize {
    rows.iter().map(|row| size_of::<Vec<u32>>() + ALLOCATOR_OVERHEAD + 4 * row.capacity()).sum()
}

/// What the allocator adds to a block, about.
const ALLOCATOR_OVERHEAD: usize = 16;

/// What a run holds beside its state, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryEstimate {
    /// What was held before any training: the program and the data.
    pub(crate) base: usize,
    /// What is made before the steps and stays: tokens, the n-gram model.
    pub(crate) resident: usize,
    /// What is needed for a while before the steps or after them: to train the n-gram model, to score.
    pub(crate) temporary: usize,
}

/// The sizes of what a run makes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunSizes {
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
pub(crate) fn peak_memory(footing: &MemoryEstimate, sizes: &RunSizes, held: ProcessUsage) -> usize {
    const NUMBER: usize = 4;
    let state = 5 * NUMBER * sizes.parameters;
    let checkpoint = 2 * state;
    let resting = footing.resident + state;
    let learning = resting + NUMBER * sizes.gradients * sizes.parameters + checkpoint.max(NUMBER * sizes.activations);
    let last = resting + footing.temporary;
    upper_bound(footing.base, learning.max(last)).max(held.most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_where_most_is_held() {
        let sizes = RunSizes { parameters: 1000, gradients: 2, activations: 5000 };
        let footing = MemoryEstimate { base: 100_000, resident: 50_000, temporary: 0 };
        // State 20,000, gradients 8,000, a checkpoint 40,000.
        assert_eq!(peak_memory(&footing, &sizes, ProcessUsage::default()), upper_bound(100_000, 118_000));
        let many = RunSizes { activations: 20_000, ..sizes };
        assert_eq!(peak_memory(&footing, &many, ProcessUsage::default()), upper_bound(100_000, 158_000));
        let last = MemoryEstimate { temporary: 500_000, ..footing };
        assert_eq!(peak_memory(&last, &sizes, ProcessUsage::default()), upper_bound(100_000, 570_000));
        assert_eq!(peak_memory(&footing, &sizes, ProcessUsage { now: 0, most: 1 << 30 }), 1 << 30);
    }
}
