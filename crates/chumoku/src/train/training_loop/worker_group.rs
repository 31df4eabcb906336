//! Worker groups: several processes share the steps of a run.
//!
//! One process is the coordinator. It holds the state of the run, writes checkpoints, evaluates, and saves the model.
//! The others are workers, which have read the same data. A worker receives weights and the index of a micro-batch, and
//! returns the gradient.
//!
//! A gradient depends on nothing else, so any worker may compute any micro-batch, even twice. The coordinator sums
//! gradients in the order of the micro-batches, as [`MicroBatchGradients`](crate::train::MicroBatchGradients) does. The
//! bytes of the model depend neither on the number of workers, nor on when workers join or leave.
//!
//! This module does not transfer weights and gradients. [`Coordinator`] and [`Worker`] are the interface of a
//! transport.

use super::micro_batches::{StepOutput, gradient_shares};
use super::trainable::{StepContext, Trainable};
use crate::params::Params;
use crate::{Error, Result, tr};
use chumoku_kernels::weighted_sum;
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// The role of this process in a run that several processes share.
#[derive(Clone, Debug)]
pub enum WorkerGroup {
    /// Owns the run.
    Coordinator(Arc<dyn Coordinator>),
    /// Computes gradients for the coordinator. Training ends with [`Error::WorkerFinished`](crate::Error::WorkerFinished).
    Worker(Arc<dyn Worker>),
}

/// Everything that decides the bits of a gradient besides the weights. It must be equal in all processes of a worker
/// group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GradientTerms {
    /// The version of this library.
    pub version: &'static str,
    /// The instruction set of the kernels.
    pub(crate) instruction_set: String,
    /// The precision of matrix products.
    pub precision: &'static str,
    /// The SHA-256 of data, plan, tokens and seed.
    pub fingerprint: String,
    /// The number of trained parameters.
    #[serde(rename = "numbers")]
    pub(crate) num_parameters: usize,
}

/// The position of a batch in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchPosition {
    /// Epochs finished before it.
    pub epoch: u64,
    /// The index of the batch in its epoch, from 0.
    pub batch: u64,
    /// The number of its step, from 1.
    pub step: u64,
}

/// Transport of a coordinator: sends weights to workers and receives gradients.
pub trait Coordinator: fmt::Debug + Send + Sync {
    /// Announces the terms that workers must agree on, before the first step.
    ///
    /// # Errors
    /// If there are no workers.
    fn start(&self, terms: &GradientTerms) -> Result<()>;

    /// Distributes the micro-batches of a batch to workers, and writes the mean of their gradients, as
    /// [`combine_gradients`] does.
    ///
    /// # Errors
    /// If no workers are left, or a worker fails.
    fn train_step(
        &self,
        params: &[f32],
        at: BatchPosition,
        micro_batches: usize,
        grads: &mut [f32],
    ) -> Result<StepOutput>;

    /// Returns the messages for the user since the last call.
    fn take_messages(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Computes a micro-batch. The arguments are the weights, the batch, the index of the micro-batch, and the output for
/// its gradient.
pub type TrainMicroBatch<'a> = dyn FnMut(&[f32], BatchPosition, usize, &mut [f32]) -> Result<StepOutput> + 'a;

/// Transport of a worker: receives requests and returns gradients.
pub trait Worker: fmt::Debug + Send + Sync {
    /// Answers requests for gradients until the coordinator ends the run.
    ///
    /// # Errors
    /// If the coordinator does not agree to these terms or cannot be reached, or a micro-batch fails.
    fn run(&self, terms: &GradientTerms, train_step: &mut TrainMicroBatch<'_>) -> Result<()>;
}

/// Computes the mean of gradients of micro-batches, or of the same section of each, exactly as one process would.
/// Gradients are added in order, each times its share of the weight. Returns the output of the whole batch.
///
/// # Errors
/// If the lengths differ.
pub fn combine_gradients(outputs: &[StepOutput], grads: &[&[f32]], sum: &mut [f32]) -> Result<StepOutput> {
    let (shares, total) = gradient_shares(outputs);
    if let Some((first, others)) = grads.split_first() {
        if first.len() != sum.len() {
            let problem = tr!(
                "combining gradients: expected {} values, got {}",
                "勾配の加算: 値は {} 個のはずですが、{} 個です",
                sum.len(),
                first.len()
            );
            return Err(Error::Setting(problem));
        }
        sum.copy_from_slice(first);
        let others: Vec<(f32, &[f32])> = shares.iter().copied().skip(1).zip(others.iter().copied()).collect();
        // A single micro-batch is the whole batch.
        if !others.is_empty() {
            weighted_sum((shares[0], sum), &others)?;
        }
    }
    Ok(total)
}

impl WorkerGroup {
    pub(crate) fn is_worker(&self) -> bool {
        matches!(self, WorkerGroup::Worker(_))
    }
}

/// Works for a coordinator from the start of a run to its end.
///
/// # Errors
/// [`Error::WorkerFinished`] at the end of the run, otherwise the error that stopped the worker.
pub(crate) fn run_worker(task: &dyn Trainable, worker: &dyn Worker, terms: &GradientTerms, seed: u64) -> Result<Error> {
    let (mut params, _) = task.start(seed)?;
    params.set_precision(task.settings().precision);
    let mut grads = Params::zeros(params.layout());
    let mut epoch_batches: Option<(u64, Vec<Vec<usize>>)> = None;
    let max_micro_batches = task.settings().micro_batches;
    worker.run(terms, &mut |weights, at, part, into| {
        let expected = params.values().len();
        if weights.len() != expected || into.len() != expected {
            let problem = tr!(
                "training as a worker: expected {expected} weights from the coordinator, got {}",
                "ワーカーの学習: コーディネーターから受け取る重みは {expected} 個のはずですが、{} 個です",
                weights.len()
            );
            return Err(Error::Setting(problem));
        }
        if epoch_batches.as_ref().is_none_or(|(epoch, _)| *epoch != at.epoch) {
            epoch_batches = Some((at.epoch, task.batches(at.epoch, seed)));
        }
        let batches = epoch_batches.as_ref().map_or(&[][..], |(_, batches)| batches);
        let batch = usize::try_from(at.batch).ok().and_then(|batch| batches.get(batch));
        let rows = batch
            .map(|batch| (super::micro_batches::micro_batch_count(max_micro_batches, batch), batch))
            .filter(|(count, _)| part < *count);
        let Some((count, batch)) = rows else {
            let (epoch, batch) = (at.epoch, at.batch);
            let problem = tr!(
                "training as a worker: batch {batch} of epoch {epoch} has no micro-batch {part}",
                "ワーカーの学習: エポック {epoch} のバッチ {batch} にマイクロバッチ {part} はありません"
            );
            return Err(Error::Setting(problem));
        };
        let rows = super::micro_batches::micro_batch_rows(batch, part, count);
        params.values_mut().copy_from_slice(weights);
        params.merge_low_rank();
        grads.clear();
        let output = task.train_step(
            &params,
            &rows,
            StepContext { seed, epoch: at.epoch, step: at.step, micro_batch: part },
            &mut grads,
        )?;
        into.copy_from_slice(grads.values());
        Ok(output)
    })?;
    Ok(Error::WorkerFinished)
}
