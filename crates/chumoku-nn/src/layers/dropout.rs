//! Whether a pass trains, and with which noise.

use crate::Result;
use chumoku_kernels::{AttentionDropout, Dropout, Philox, Real};
use ndarray::{Array2, CowArray, Ix2};

/// Where the random numbers of a training step come from: every place that drops has a stream of its own.
#[derive(Clone, Copy, Debug)]
pub struct DropoutSeed {
    /// The run's seed.
    pub seed: u64,
    /// Number of the step.
    pub step: u64,
}

/// What a forward or backward pass is for.
#[derive(Clone, Copy, Debug)]
pub enum Mode {
    /// Using the model: nothing is dropped.
    Eval,
    /// Training: dropout draws from this noise. The backward pass must be given the same.
    Train(DropoutSeed),
}

impl Mode {
    /// The random stream of place `site` of the model.
    fn stream(&self, site: u32) -> Option<Philox> {
        match self {
            Mode::Eval => None,
            // Parameters' initial values use streams that are hashes of names; these have the top bit pattern of
            // a small number, so the two do not meet but by a chance of 2⁻⁴⁰ or so.
            Mode::Train(noise) => Some(Philox::new(noise.seed, noise.step << 20 | u64::from(site))),
        }
    }

    /// Dropout in place; the backward pass is the same call on the gradient.
    pub(crate) fn apply_dropout<T: Real>(&self, x: &mut Array2<T>, rate: f32, site: u32) -> Result<()> {
        if let Some(random) = self.stream(site)
            && rate > 0.0
        {
            chumoku_kernels::dropout(super::numbers_mut(x), rate, random)?;
        }
        Ok(())
    }

    /// Dropout of a copy; of nothing, no copy.
    pub(crate) fn dropout_copy<'a, T: Real>(
        &self,
        x: &'a Array2<T>,
        rate: f32,
        site: u32,
    ) -> Result<CowArray<'a, T, Ix2>> {
        let Some(dropout) = self.dropout(rate, site) else { return Ok(x.into()) };
        let x = super::contiguous(x.view());
        let y = chumoku_kernels::dropout_copy(super::numbers(&x.view()), dropout)?;
        Ok(super::array(x.dim(), y)?.into())
    }

    /// Dropout as an argument of an operation.
    pub(crate) fn dropout(&self, rate: f32, site: u32) -> Option<Dropout> {
        self.stream(site).filter(|_| rate > 0.0).map(|random| Dropout { rate, random })
    }

    /// Whether a backward pass will follow.
    pub(crate) fn is_training(&self) -> bool {
        matches!(self, Mode::Train(_))
    }

    /// Dropout of attention weights.
    pub(crate) fn attention_dropout(&self, rate: f32, site: u32) -> Option<AttentionDropout> {
        self.stream(site).filter(|_| rate > 0.0).map(|random| AttentionDropout { rate, random })
    }
}
