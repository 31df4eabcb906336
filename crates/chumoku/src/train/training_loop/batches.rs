//! Batches of sequences of similar length, in an order that depends on the seed.

use super::random_streams;
use crate::parallel_batches::batches_in_order;
use crate::sorting;
use chumoku_kernels::Philox;

/// Divides sequences into batches of at most `budget` tokens, or of a single longer sequence.
///
/// Sequences are shuffled, then sorted by length within blocks of about sixteen batches. A batch thus holds similar
/// lengths, but different sequences in every epoch. Finally, the batches are shuffled. There is no padding: similar
/// lengths only keep the number of sequences in a batch steady.
pub(crate) fn batches(lengths: &[usize], budget: usize, seed: u64, epoch: u64) -> Vec<Vec<usize>> {
    let mut order = Philox::new(seed, random_streams::SEQUENCES + epoch).permutation(lengths.len());
    let mean = lengths.iter().sum::<usize>().div_ceil(lengths.len().max(1)).max(1);
    let stretch = (16 * budget).div_ceil(mean).max(1);
    for part in order.chunks_mut(stretch) {
        sorting::sort_by_key(part, |&i| lengths[i]);
    }
    let found = batches_in_order(&order, lengths, budget);
    let shuffled = Philox::new(seed, random_streams::BATCHES + epoch).permutation(found.len());
    shuffled.into_iter().map(|i| found[i].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sequence_is_in_one_batch_within_the_budget() {
        let lengths: Vec<usize> = (0..1000).map(|i| 1 + (i * 37) % 90).collect();
        for epoch in 0..3 {
            let found = batches(&lengths, 512, 7, epoch);
            let mut all: Vec<usize> = found.concat();
            all.sort_unstable();
            assert_eq!(all, (0..1000).collect::<Vec<_>>());
            assert!(found.iter().all(|batch| batch.iter().map(|&i| lengths[i]).sum::<usize>() <= 512));
            assert_eq!(found, batches(&lengths, 512, 7, epoch));
        }
        assert_ne!(batches(&lengths, 512, 7, 0), batches(&lengths, 512, 7, 1));
        assert_ne!(batches(&lengths, 512, 7, 0), batches(&lengths, 512, 8, 0));
        assert_eq!(batches(&[900, 3], 100, 1, 0).len(), 2);
        assert!(batches(&[], 100, 1, 0).is_empty());
    }
}
