//! Training or evaluation mode, and the random streams of dropout.

use crate::Result;
use chumoku_kernels::{AttentionDropout, Dropout, Philox, Real};
use ndarray::{Array2, CowArray, Ix2};

/// The seed of a training step's dropout. Every place in the model with dropout has its own random stream.
#[derive(Clone, Copy, Debug)]
pub struct DropoutSeed {
    /// The run's seed.
    pub seed: u64,
    /// The number of the step.
    pub step: u64,
}

/// The mode of a forward or backward pass.
#[derive(Clone, Copy, Debug)]
pub enum Mode {
    /// Evaluation: no dropout.
    Eval,
    /// Training: dropout draws from this seed. The backward pass needs the same seed as the forward pass.
    Train(DropoutSeed),
}

impl Mode {
    /// Returns the random stream of dropout site `site`.
    fn stream(&self, site: u32) -> Option<Philox> {
        match self {
            Mode::Eval => None,
            // Initial parameters use streams that are hashes of names. Dropout streams have the high bits of a small
            // number, so a collision has a probability of about 2⁻⁴⁰.
            Mode::Train(noise) => Some(Philox::new(noise.seed, noise.step << 20 | u64::from(site))),
        }
    }

    /// Applies dropout in place. The backward pass is the same call on the gradient.
    pub(crate) fn apply_dropout<T: Real>(&self, x: &mut Array2<T>, rate: f32, site: u32) -> Result<()> {
        if let Some(random) = self.stream(site)
            && rate > 0.0
        {
            chumoku_kernels::dropout(super::numbers_mut(x), rate, random)?;
        }
        Ok(())
    }

    /// Returns a copy with dropout, or the original if there is none to apply.
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

    /// Returns dropout as an argument of a kernel.
    pub(crate) fn dropout(&self, rate: f32, site: u32) -> Option<Dropout> {
        self.stream(site).filter(|_| rate > 0.0).map(|random| Dropout { rate, random })
    }

    /// Returns true if a backward pass follows.
    pub(crate) fn is_training(&self) -> bool {
        matches!(self, Mode::Train(_))
    }

    /// Returns dropout of attention weights as an argument of the kernel.
    pub(crate) fn attention_dropout(&self, rate: f32, site: u32) -> Option<AttentionDropout> {
        self.stream(site).filter(|_| rate > 0.0).map(|random| AttentionDropout { rate, random })
    }
}
