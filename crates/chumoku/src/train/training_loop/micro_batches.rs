//! Data-parallel micro-batches.
//!
//! Splitting every operation of a step among threads would wake the threads hundreds of times a step, and small
//! operations take longer to split than to run. A micro-batch keeps one core busy for the whole step, so threads
//! synchronize once. Threads that find no micro-batch left help the others with their operations.

use crate::Result;
use crate::params::{ParamLayout, Params};
use chumoku_kernels::{parallel_try_map, weighted_sum};
use ndarray::{Array2, ArrayView1};
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
    /// The answers, counted before the step. Empty for tasks that do not count answers.
    pub(crate) answers: AnswerCount,
}

/// The number of answers that a network gave in training, and how many of them were right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) struct AnswerCount {
    /// The right answers.
    pub(crate) right: u64,
    /// All answers.
    pub all: u64,
}

impl AnswerCount {
    /// Counts the rows of `logits`, (rows, classes), whose largest logit is that of the label.
    pub(crate) fn of_logits(logits: &Array2<f32>, labels: &[u32]) -> AnswerCount {
        let is_right = |(row, &label): (ArrayView1<'_, f32>, &u32)| {
            row.get(label as usize).is_some_and(|own| row.iter().zip(0..).all(|(z, class)| z < own || class == label))
        };
        let right = logits.rows().into_iter().zip(labels).filter(|&(row, label)| is_right((row, label))).count();
        AnswerCount { right: right as u64, all: labels.len() as u64 }
    }

    /// Adds the answers of another batch.
    pub(crate) fn add(&mut self, other: AnswerCount) {
        self.right += other.right;
        self.all += other.all;
    }

    /// Returns the share of right answers, if there are answers.
    pub(crate) fn accuracy(self) -> Option<f64> {
        (self.all > 0).then(|| self.right as f64 / self.all as f64)
    }
}

impl StepOutput {
    /// Builds an output without answers.
    pub fn new(loss: f64, weight: f64, tokens: usize) -> StepOutput {
        StepOutput { loss, weight, tokens, answers: AnswerCount::default() }
    }

    /// Sets the answers.
    pub(crate) fn with_answers(self, answers: AnswerCount) -> StepOutput {
        StepOutput { answers, ..self }
    }
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
pub(super) fn gradient_shares(outputs: &[StepOutput]) -> (Vec<f32>, StepOutput) {
    let weight: f64 = outputs.iter().map(|part| part.weight).sum();
    let share = |part: &StepOutput| if part.weight == 0.0 { 0.0 } else { part.weight / weight };
    let loss = outputs.iter().map(|part| part.loss * share(part)).sum();
    let mut whole = StepOutput::new(loss, weight, outputs.iter().map(|part| part.tokens).sum());
    outputs.iter().for_each(|part| whole.answers.add(part.answers));
    (outputs.iter().map(|part| share(part) as f32).collect(), whole)
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
    pub fn new(layout: &Arc<ParamLayout>, micro_batches: usize) -> MicroBatchGradients {
        MicroBatchGradients {
            grads: (0..micro_batches.clamp(1, MAX_MICRO_BATCHES)).map(|_| Params::zeros(layout)).collect(),
        }
    }

    /// The gradients of the last batch.
    pub fn grads(&self) -> &Params<f32> {
        &self.grads[0]
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
        let rows: Vec<Vec<usize>> = (0..count).map(|index| micro_batch_rows(batch, index, count)).collect();
        let micro_batches = self.grads[..count].iter_mut().zip(&rows).enumerate();
        let outputs = parallel_try_map(micro_batches, |(index, (grads, rows))| {
            grads.clear();
            learn(rows, index, grads)
        })?;
        let (shares, whole) = gradient_shares(&outputs);
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
        let mut gradients = MicroBatchGradients::new(&layout(), 4);
        let learn = |rows: &[usize], part: usize, grads: &mut Params<f32>| {
            assert_eq!(rows[0], part + 1);
            let weight: usize = rows.iter().sum();
            let mean = rows.iter().map(|row| row * row).sum::<usize>() as f64 / weight as f64;
            grads.values_mut().iter_mut().enumerate().for_each(|(i, x)| *x += mean as f32 * i as f32);
            let answers = AnswerCount { right: rows[0] as u64, all: rows.len() as u64 };
            Ok(StepOutput::new(mean, weight as f64, rows.len()).with_answers(answers))
        };
        for batch in [vec![1, 2, 3, 4, 5, 6], vec![1, 2], vec![1]] {
            let whole = batch.iter().map(|row| row * row).sum::<usize>() as f64 / batch.iter().sum::<usize>() as f64;
            let output = gradients.train_step(&batch, learn).unwrap();
            assert!((output.loss - whole).abs() < 1e-12);
            assert_eq!((output.weight, output.tokens), (batch.iter().sum::<usize>() as f64, batch.len()));
            // Each part counted its first row: 1, 2, …
            let first: usize = batch.iter().take(4).sum();
            assert_eq!(output.answers, AnswerCount { right: first as u64, all: batch.len() as u64 });
            for i in [0, 1, 17, 39_999] {
                let (found, expected) = (gradients.grads().values()[i], whole as f32 * i as f32);
                assert!((found - expected).abs() <= 1e-6 * expected.abs(), "{i}: {found} {expected}");
            }
        }
    }

    #[test]
    fn micro_batches_without_weight_have_no_share() {
        let output = |weight: f64| StepOutput::new(2.0, weight, 1);
        let (shares, whole) = gradient_shares(&[output(0.0), output(3.0), output(1.0)]);
        assert_eq!((shares, whole.loss), (vec![0.0, 0.75, 0.25], 2.0));
        let (shares, whole) = gradient_shares(&[output(0.0); 2]);
        assert_eq!((shares, whole.loss, whole.tokens), (vec![0.0; 2], 0.0, 2));
    }

    #[test]
    fn an_answer_is_right_if_its_logit_is_the_only_largest() {
        let logits = ndarray::array![[1.0, 2.0], [2.0, 1.0], [3.0, 3.0], [f32::NAN, 1.0]];
        let count = AnswerCount::of_logits(&logits, &[1, 1, 0, 1]);
        assert_eq!((count, count.accuracy()), (AnswerCount { right: 1, all: 4 }, Some(0.25)));
        assert_eq!(AnswerCount::default().accuracy(), None);
    }

    #[test]
    fn the_error_of_a_micro_batch_is_returned() {
        let failing = |_: &[usize], part: usize, _: &mut Params<f32>| match part {
            2 => Err(Error::Setting("part 2".into())),
            _ => Ok(StepOutput::new(0.0, 1.0, 1)),
        };
        let error = MicroBatchGradients::new(&layout(), 4).train_step(&[1, 2, 3, 4], failing).unwrap_err();
        assert!(error.to_string().contains("part 2"));
    }
}
