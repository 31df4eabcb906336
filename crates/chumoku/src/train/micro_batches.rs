//! A batch learnt from in parts, side by side.
//!
//! Sharing every operation of a step among threads wakes them hundreds of times a step; small ones take longer to share
//! than to do. A part of the batch is work enough for a core from the step's beginning to its end, and threads meet once.
//! Threads that find no part left help those that have one with its operations.

use crate::Result;
use crate::params::{ParamLayout, Params};
use chumoku_kernels::{parallel_try_map, weighted_sum};
use std::sync::Arc;

/// The most parts that a batch may have.
pub const MAX_MICRO_BATCHES: usize = 64;

/// Parts of batches of up to so many tokens: the more there are, the less it costs that each part has gradients of its
/// own, to be cleared and added.
///
/// Two and four are shared out evenly.
pub fn default_micro_batches(batch_tokens: usize) -> usize {
    match batch_tokens {
        8192.. => 4,
        512.. => 2,
        _ => 1,
    }
}

/// What was learnt from a batch, or from a part of one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepOutput {
    /// The mean loss.
    pub loss: f64,
    /// What the mean is over: rows, target tokens, or their weights. A whole's loss is the mean of its parts' by this.
    pub weight: f64,
    /// Tokens that were read.
    pub tokens: usize,
}

/// Parts of a batch, where there may be as many as `most`.
pub(super) fn micro_batch_count(most: usize, batch: &[usize]) -> usize {
    most.clamp(1, MAX_MICRO_BATCHES).min(batch.len()).max(1)
}

/// The rows of a part of a batch in `count` parts.
///
/// Rows of a batch lie by length, so every n-th gives parts of about the same size.
pub(super) fn micro_batch_rows(batch: &[usize], part: usize, count: usize) -> Vec<usize> {
    batch.iter().skip(part).step_by(count).copied().collect()
}

/// The share of each part in the whole, and what was learnt from that.
pub(super) fn gradient_shares(learnt: &[StepOutput]) -> (Vec<f32>, StepOutput) {
    let weight: f64 = learnt.iter().map(|part| part.weight).sum();
    let whole = StepOutput {
        loss: learnt.iter().map(|part| part.loss * (part.weight / weight)).sum(),
        weight,
        tokens: learnt.iter().map(|part| part.tokens).sum(),
    };
    (learnt.iter().map(|part| (part.weight / weight) as f32).collect(), whole)
}

/// The gradients of a batch's parts.
///
/// How many parts there are follows from the plan and the batch alone, and they are added in their order, so that results
/// do not depend on the number of threads.
#[derive(Debug)]
pub struct MicroBatchGradients {
    grads: Vec<Params<f32>>,
}

impl MicroBatchGradients {
    /// For batches in so many parts, from 1 to [`MOST_PARTS`].
    pub fn new(layout: &Arc<ParamLayout>, parts: usize) -> MicroBatchGradients {
        MicroBatchGradients { grads: (0..parts.clamp(1, MAX_MICRO_BATCHES)).map(|_| Params::zeros(layout)).collect() }
    }

    /// The gradients of the batch that was learnt from last.
    pub fn grads(&self) -> &Params<f32> {
        &self.grads[0]
    }

    /// How many gradients there are.
    pub fn count(&self) -> usize {
        self.grads.len()
    }

    /// Learns from a batch by learning from its parts: `learn` is given the rows of a part, its number, and its gradients,
    /// all 0, to add to.
    ///
    /// # Errors
    /// If a part cannot be learnt from.
    pub fn train_step(
        &mut self,
        batch: &[usize],
        learn: impl Fn(&[usize], usize, &mut Params<f32>) -> Result<StepOutput> + Sync,
    ) -> Result<StepOutput> {
        let count = micro_batch_count(self.grads.len(), batch);
        let rows: Vec<Vec<usize>> = (0..count).map(|part| micro_batch_rows(batch, part, count)).collect();
        let parts = self.grads[..count].iter_mut().zip(&rows).enumerate();
        let learnt = parallel_try_map(parts, |(part, (grads, rows))| {
            grads.clear();
            learn(rows, part, grads)
        })?;
        let (shares, whole) = gradient_shares(&learnt);
        self.sum_gradients(&shares)?;
        Ok(whole)
    }

    /// The gradients of a batch, to be written by whoever learns from it elsewhere.
    pub(super) fn grads_mut(&mut self) -> &mut Params<f32> {
        &mut self.grads[0]
    }

    /// Adds the first gradients, each times its share, to the first of them.
    fn sum_gradients(&mut self, shares: &[f32]) -> Result<()> {
        let Some((sum, others)) = self.grads[..shares.len()].split_first_mut() else { return Ok(()) };
        if others.is_empty() {
            return Ok(());
        }
        let others: Vec<(f32, &[f32])> = shares[1..].iter().copied().zip(others.iter().map(Params::values)).collect();
        Ok(weighted_sum((shares[0], sum.values_mut()), &others)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::params::{Builder, Init};

    fn layout() -> Arc<ParamLayout> {
        let mut builder = Builder::new();
        builder.add("x", &[40_000], Init::Zeros);
        builder.finish()
    }

    #[test]
    fn as_many_parts_as_the_tokens_are_worth() {
        assert_eq!([0, 511, 512, 8191, 8192, 1 << 20].map(default_micro_batches), [1, 1, 2, 2, 4, 4]);
    }

    #[test]
    fn the_whole_is_the_mean_of_its_parts() {
        // The loss of a row is its number, its weight too, and the gradient of parameter i is row · i.
        let mut parts = MicroBatchGradients::new(&layout(), 4);
        let learn = |rows: &[usize], part: usize, grads: &mut Params<f32>| {
            assert_eq!(rows[0], part + 1);
            let weight: usize = rows.iter().sum();
            let mean = rows.iter().map(|row| row * row).sum::<usize>() as f64 / weight as f64;
            grads.values_mut().iter_mut().enumerate().for_each(|(i, x)| *x += mean as f32 * i as f32);
            Ok(StepOutput { loss: mean, weight: weight as f64, tokens: rows.len() })
        };
        for batch in [vec![1, 2, 3, 4, 5, 6], vec![1, 2], vec![1]] {
            let whole = batch.iter().map(|row| row * row).sum::<usize>() as f64 / batch.iter().sum::<usize>() as f64;
            let learnt = parts.train_step(&batch, learn).unwrap();
            assert!((learnt.loss - whole).abs() < 1e-12);
            assert_eq!((learnt.weight, learnt.tokens), (batch.iter().sum::<usize>() as f64, batch.len()));
            for i in [0, 1, 17, 39_999] {
                let (found, expected) = (parts.grads().values()[i], whole as f32 * i as f32);
                assert!((found - expected).abs() <= 1e-6 * expected.abs(), "{i}: {found} {expected}");
            }
        }
    }

    #[test]
    fn a_part_that_fails_is_told_of() {
        let failing = |_: &[usize], part: usize, _: &mut Params<f32>| match part {
            2 => Err(Error::Setting("part 2".into())),
            _ => Ok(StepOutput { loss: 0.0, weight: 1.0, tokens: 1 }),
        };
        let error = MicroBatchGradients::new(&layout(), 4).train_step(&[1, 2, 3, 4], failing).unwrap_err();
        assert!(error.to_string().contains("part 2"));
    }
}
