//! Data-parallel micro-batches.
//!
//! Splitting every operation of a step among threads would wake the threads hundreds of times a step, and small
//! operations take longer to split than to run. A micro-batch keeps one core busy for the whole step, so threads
//! synchronize once. Threads that find no micro-batch left help the others with their operations.

use crate::Result;
use crate::params::{ParamLayout, Params};
use chumoku_kernels::{parallel_try_map, weighted_sum};
use std::sync::Arc;

/// The largest number of micro-batches in a batch.
pub const MAX_MICRO_BATCHES: usize = 64;

/// Returns the number of micro-batches for batches of up to `batch_tokens` tokens. Each micro-batch has its own
/// gradients to clear and to add, which large batches amortize.
///
/// Two and four micro-batches divide the work evenly.
pub fn default_micro_batches(batch_tokens: usize) -> usize {
    match batch_tokens {
        8192.. => 4,
        512.. => 2,
        _ => 1,
    }
}

/// The output of a training step, for a batch or a micro-batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepOutput {
    /// The mean loss.
    pub loss: f64,
    /// The sum of the weights behind the mean: rows, target tokens, or their weights. The loss of a batch is the mean
    /// of the losses of its micro-batches by this weight.
    pub weight: f64,
    /// The number of tokens read.
    pub tokens: usize,
}

/// Returns the number of micro-batches of a batch, at most `most`.
pub(super) fn micro_batch_count(most: usize, batch: &[usize]) -> usize {
    most.clamp(1, MAX_MICRO_BATCHES).min(batch.len()).max(1)
}

/// Returns the rows of one of `count` micro-batches.
///
/// Rows of a batch are sorted by length, so taking every `count`-th row gives micro-batches of similar size.
pub(super) fn micro_batch_rows(batch: &[usize], part: usize, count: usize) -> Vec<usize> {
    batch.iter().skip(part).step_by(count).copied().collect()
}

/// Returns the share of each micro-batch in the batch, and the output of the batch. Without any weight, all are 0.
pub(super) fn gradient_shares(learnt: &[StepOutput]) -> (Vec<f32>, StepOutput) {
    let weight: f64 = learnt.iter().map(|part| part.weight).sum();
    let share = |part: &StepOutput| if part.weight == 0.0 { 0.0 } else { part.weight / weight };
    let whole = StepOutput {
        loss: learnt.iter().map(|part| part.loss * share(part)).sum(),
        weight,
        tokens: learnt.iter().map(|part| part.tokens).sum(),
    };
    (learnt.iter().map(|part| share(part) as f32).collect(), whole)
}

/// The gradients of the micro-batches of a batch.
///
/// The number of micro-batches follows from the plan and the batch alone, and gradients are added in order. Results do
/// not depend on the number of threads.
#[derive(Debug)]
pub struct MicroBatchGradients {
    grads: Vec<Params<f32>>,
}

impl MicroBatchGradients {
    /// Allocates gradients for 1 to [`MAX_MICRO_BATCHES`] micro-batches.
    pub fn new(layout: &Arc<ParamLayout>, parts: usize) -> MicroBatchGradients {
        MicroBatchGradients { grads: (0..parts.clamp(1, MAX_MICRO_BATCHES)).map(|_| Params::zeros(layout)).collect() }
    }

    /// The gradients of the last batch.
    pub fn grads(&self) -> &Params<f32> {
        &self.grads[0]
    }

    /// The number of micro-batches that gradients are allocated for.
    pub fn count(&self) -> usize {
        self.grads.len()
    }

    /// Runs a training step on each micro-batch of a batch. `learn` receives its rows, its index, and its gradients,
    /// all 0, to add to.
    ///
    /// # Errors
    /// If a micro-batch fails.
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

    /// The output for the gradients of a batch that a worker group computes.
    pub(super) fn grads_mut(&mut self) -> &mut Params<f32> {
        &mut self.grads[0]
    }

    /// Sums the gradients of the micro-batches, each times its share, into the first.
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
    fn larger_batches_have_more_micro_batches() {
        assert_eq!([0, 511, 512, 8191, 8192, 1 << 20].map(default_micro_batches), [1, 1, 2, 2, 4, 4]);
    }

    #[test]
    fn a_batch_is_the_mean_of_its_micro_batches() {
        // The loss and the weight of row n are n, and the gradient of parameter i is n · i.
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
    fn micro_batches_without_weight_have_no_share() {
        let output = |weight: f64| StepOutput { loss: 2.0, weight, tokens: 1 };
        let (shares, whole) = gradient_shares(&[output(0.0), output(3.0), output(1.0)]);
        assert_eq!((shares, whole.loss), (vec![0.0, 0.75, 0.25], 2.0));
        let (shares, whole) = gradient_shares(&[output(0.0); 2]);
        assert_eq!((shares, whole.loss, whole.tokens), (vec![0.0; 2], 0.0, 2));
    }

    #[test]
    fn the_error_of_a_micro_batch_is_returned() {
        let failing = |_: &[usize], part: usize, _: &mut Params<f32>| match part {
            2 => Err(Error::Setting("part 2".into())),
            _ => Ok(StepOutput { loss: 0.0, weight: 1.0, tokens: 1 }),
        };
        let error = MicroBatchGradients::new(&layout(), 4).train_step(&[1, 2, 3, 4], failing).unwrap_err();
        assert!(error.to_string().contains("part 2"));
    }
}
