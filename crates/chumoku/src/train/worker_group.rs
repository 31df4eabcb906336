//! A run whose steps several processes share.
//!
//! One process leads: it has the state of the run, writes checkpoints, evaluates, and makes the model. The others help: they have
//! read the same data, and are given weights and the number of a part of a batch, of which they return the gradient. A part's
//! gradient depends on nothing else, so any helper may compute any part, as often as it takes; the leader's sum is that of
//! [`PartGradients`](super::PartGradients), in the order of the parts. So the bytes of the model depend neither on how many help,
//! nor on who comes and goes.
//!
//! How weights and gradients travel is not decided here: [`Leader`] and [`Helper`] are what a transport has to do.

use super::micro_batches::{StepOutput, gradient_shares};
use super::trainable::{StepContext, Trainable};
use crate::params::Params;
use crate::{Error, Result, tr};
use chumoku_kernels::weighted_sum;
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// This process's part in a run that several share.
#[derive(Clone, Debug)]
pub enum WorkerGroup {
    /// It has the run.
    Coordinator(Arc<dyn Coordinator>),
    /// It computes gradients for another. Training ends with [`Error::Helped`](crate::Error::Helped).
    Worker(Arc<dyn Worker>),
}

/// What decides the bits of a gradient beside the weights: of all processes of a crew alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GradientTerms {
    /// Of this library.
    pub version: &'static str,
    /// The kernels that run.
    pub instruction_set: String,
    /// How exact matrix products are.
    pub precision: &'static str,
    /// SHA-256 of data, plan, tokens and seed.
    pub fingerprint: String,
    /// How many numbers are trained.
    #[serde(rename = "numbers")]
    pub num_parameters: usize,
}

/// Which batch of a run is learnt from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchPosition {
    /// Epochs finished before it.
    pub epoch: u64,
    /// Its place among the epoch's batches, from 0.
    pub batch: u64,
    /// Its step, from 1.
    pub step: u64,
}

/// What brings weights to helpers, and back what they have learnt.
pub trait Coordinator: fmt::Debug + Send + Sync {
    /// Says what helpers must agree on, before the first step.
    ///
    /// # Errors
    /// If there is nobody to help.
    fn start(&self, terms: &GradientTerms) -> Result<()>;

    /// Has the parts of a batch learnt from with these weights, and writes the mean of their gradients, as [`joined`] has it.
    ///
    /// # Errors
    /// If there is nobody left to help, or a helper's work fails.
    fn train_step(&self, params: &[f32], at: BatchPosition, parts: usize, grads: &mut [f32]) -> Result<StepOutput>;

    /// What has happened since this was asked last that the user should know.
    fn take_messages(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What is asked to learn from a part of a batch: the weights, the batch, the part, and where its gradient is written.
pub type TrainMicroBatch<'a> = dyn FnMut(&[f32], BatchPosition, usize, &mut [f32]) -> Result<StepOutput> + 'a;

/// What brings a helper its work.
pub trait Worker: fmt::Debug + Send + Sync {
    /// Learns from parts as they are asked for, until the leader asks for no more.
    ///
    /// # Errors
    /// If the leader does not agree to these terms or cannot be heard, or a part cannot be learnt from.
    fn run(&self, terms: &GradientTerms, train_step: &mut TrainMicroBatch<'_>) -> Result<()>;
}

/// The mean of gradients of parts, or of the same piece of each, as one process adds them: each times its part's share in
/// `learnt`, in their order; and what was learnt from the whole.
///
/// # Errors
/// If the lengths differ.
pub fn combine_gradients(learnt: &[StepOutput], grads: &[&[f32]], sum: &mut [f32]) -> Result<StepOutput> {
    let (shares, total) = gradient_shares(learnt);
    if let Some((first, others)) = grads.split_first() {
        if first.len() != sum.len() {
            let problem = tr!(
                "adding gradients: expected {} numbers, got {}",
                "勾配の加算: 値は {} 個のはずですが、{} 個です",
                sum.len(),
                first.len()
            );
            return Err(Error::Setting(problem));
        }
        sum.copy_from_slice(first);
        let others: Vec<(f32, &[f32])> = shares.iter().copied().skip(1).zip(others.iter().copied()).collect();
        // A part alone is the whole.
        if !others.is_empty() {
            weighted_sum((shares[0], sum), &others)?;
        }
    }
    Ok(total)
}

impl WorkerGroup {
    pub(super) fn is_worker(&self) -> bool {
        matches!(self, WorkerGroup::Worker(_))
    }
}

/// Helps with a run, from its start to its end.
///
/// # Errors
/// [`Error::Helped`] at its end, else what went wrong.
pub(super) fn run_worker(task: &dyn Trainable, helper: &dyn Worker, terms: &GradientTerms, seed: u64) -> Result<Error> {
    let (mut params, _) = task.start(seed)?;
    params.set_precision(task.settings().precision);
    let mut grads = Params::zeros(params.layout());
    let mut epoch_batches: Option<(u64, Vec<Vec<usize>>)> = None;
    let max_micro_batches = task.settings().parts;
    helper.run(terms, &mut |weights, at, part, into| {
        let wanted = params.values().len();
        if weights.len() != wanted || into.len() != wanted {
            let problem = tr!(
                "helping to train: expected {wanted} weights, got {}",
                "学習の手伝い: 重みは {wanted} 個のはずですが、{} 個です",
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
                "helping to train: there is no part {part} of batch {batch} in epoch {epoch}",
                "学習の手伝い: エポック {epoch} のバッチ {batch} に部分 {part} はありません"
            );
            return Err(Error::Setting(problem));
        };
        let rows = super::micro_batches::micro_batch_rows(batch, part, count);
        params.values_mut().copy_from_slice(weights);
        params.merge_low_rank();
        grads.clear();
        let learnt = task.train_step(
            &params,
            &rows,
            StepContext { seed, epoch: at.epoch, step: at.step, micro_batch: part },
            &mut grads,
        )?;
        into.copy_from_slice(grads.values());
        Ok(learnt)
    })?;
    Ok(Error::WorkerFinished)
}
