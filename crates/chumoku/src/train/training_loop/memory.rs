//! An upper bound on the memory of a run: a formula for future allocations, and the system's figures for past ones.

use crate::nn::EncoderConfig;
use chumoku_kernels::num_threads;
use chumoku_kernels::system::{ProcessMemory, process_memory};

/// Memory of this process, in bytes; 0 where the system does not report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessUsage {
    /// The current use.
    pub(crate) current: usize,
    /// The peak so far.
    pub(crate) peak: usize,
}

impl ProcessUsage {
    pub(crate) fn measure() -> ProcessUsage {
        let ProcessMemory { current: now, peak } = process_memory().unwrap_or_default();
        ProcessUsage { current: now as usize, peak: peak as usize }
    }
}

/// Bounds the memory of a process that holds `base` bytes and will allocate `allocated` more.
///
/// The bound includes overhead of the allocator, stacks and scratch memory of threads.
pub(crate) fn upper_bound(base: usize, allocated: usize) -> usize {
    const PROGRAM_BYTES: usize = 20 << 20;
    const BYTES_PER_THREAD: usize = 8 << 20;
    base + allocated + allocated / 4 + PROGRAM_BYTES + num_threads() * BYTES_PER_THREAD
}

/// The share of the forward pass in a training step. The backward pass costs twice as much.
pub(crate) const FORWARD_SHARE: f64 = 1.0 / 3.0;

/// The cost of an evaluation on `valid` tokens, relative to that of a training epoch. Without validation tokens, the
/// `train` tokens are evaluated.
pub(crate) fn evaluation_share(train: usize, valid: usize) -> f64 {
    let read = if valid == 0 { train } else { valid };
    FORWARD_SHARE * read as f64 / train.max(1) as f64
}

/// Estimates the number of values that a step over `tokens` tokens stores. Layers count in halves, since a decoder
/// layer is worth three. The output layer is over a vocabulary.
pub(crate) fn activations(encoder: &EncoderConfig, half_layers: usize, tokens: usize, vocabulary: usize) -> usize {
    let per_token = half_layers * (22 * encoder.d_model + 6 * encoder.d_ff) / 2 + 6 * encoder.d_model;
    tokens * per_token + 2 * 1024 * vocabulary
}

/// The bytes of rows of tokens.
pub(crate) fn bytes_of(rows: &[Vec<u32>]) -> usize {
    rows.iter().map(|row| size_of::<Vec<u32>>() + ALLOCATOR_OVERHEAD + 4 * row.capacity()).sum()
}

/// The estimated overhead of the allocator for a block.
const ALLOCATOR_OVERHEAD: usize = 16;

/// The memory of a run besides its state, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryEstimate {
    /// Memory in use before training: the program and the data.
    pub(crate) base: usize,
    /// Memory allocated before the steps and kept: tokens, the n-gram model.
    pub(crate) resident: usize,
    /// Memory needed temporarily, before or after the steps: for training the n-gram model and for scoring.
    pub(crate) temporary: usize,
}

/// Sizes of the allocations of a run, in values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunSizes {
    /// The number of model parameters.
    pub(crate) parameters: usize,
    /// The number of gradients of the whole model held at a time.
    pub(crate) gradients: usize,
    /// The number of values that a step stores.
    pub(crate) activations: usize,
}

/// Bounds the peak memory of a run: before the steps, during a step or a checkpoint, or after the steps.
///
/// Weights, both moments, average and best weights are five times the parameters. A checkpoint is written from copies:
/// their bytes, and the file's. It is written between steps, when no activations are stored. The peak that the process
/// already reached, `held.peak`, is a lower bound.
pub(crate) fn peak_memory(footing: &MemoryEstimate, sizes: &RunSizes, held: ProcessUsage) -> usize {
    const NUMBER: usize = 4;
    let state = 5 * NUMBER * sizes.parameters;
    let checkpoint = 2 * state;
    let resting = footing.resident + state;
    let learning = resting + NUMBER * sizes.gradients * sizes.parameters + checkpoint.max(NUMBER * sizes.activations);
    let last = resting + footing.temporary;
    upper_bound(footing.base, learning.max(last)).max(held.peak)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_the_largest_phase() {
        let sizes = RunSizes { parameters: 1000, gradients: 2, activations: 5000 };
        let footing = MemoryEstimate { base: 100_000, resident: 50_000, temporary: 0 };
        // State 20,000, gradients 8,000, a checkpoint 40,000.
        assert_eq!(peak_memory(&footing, &sizes, ProcessUsage::default()), upper_bound(100_000, 118_000));
        let many = RunSizes { activations: 20_000, ..sizes };
        assert_eq!(peak_memory(&footing, &many, ProcessUsage::default()), upper_bound(100_000, 158_000));
        let last = MemoryEstimate { temporary: 500_000, ..footing };
        assert_eq!(peak_memory(&last, &sizes, ProcessUsage::default()), upper_bound(100_000, 570_000));
        assert_eq!(peak_memory(&footing, &sizes, ProcessUsage { current: 0, peak: 1 << 30 }), 1 << 30);
    }
}
