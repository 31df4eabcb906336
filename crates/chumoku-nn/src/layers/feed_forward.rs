//! The position-wise feed-forward network.

use super::{Linear, Mode};
use crate::Result;
use crate::params::{Builder, Params};
use chumoku_kernels::{Activation, Real, Then};
use ndarray::{Array2, ArrayView2};

/// `y = W₂ f(W₁ x + b₁) + b₂` for each token (Vaswani et al. 2017, equation 2), with dropout after the activation f.
#[derive(Clone, Debug)]
pub struct FeedForward {
    linear1: Linear,
    linear2: Linear,
    activation: Activation,
    dropout: f32,
    site: u32,
}

/// What the activation and dropout made, and in training their slope: (tokens, d_ff) both.
#[derive(Clone, Debug)]
pub struct FeedForwardCache<T> {
    slope: Option<Vec<T>>,
    after: Array2<T>,
}

impl FeedForward {
    /// Adds `linear1` and `linear2`; `site` numbers its dropout among those of the model.
    pub fn new(
        builder: &mut Builder,
        [d_model, d_ff]: [usize; 2],
        activation: Activation,
        dropout: f32,
        site: u32,
    ) -> Self {
        FeedForward {
            linear1: builder.scope("linear1", |b| Linear::new(b, d_model, d_ff, true)),
            linear2: builder.scope("linear2", |b| Linear::new(b, d_ff, d_model, true)),
            activation,
            dropout,
            site,
        }
    }

    /// `linear2(dropout(f(linear1(x))))`, and the cache that `backward` needs beside x.
    ///
    /// # Shapes
    /// `x` (tokens, d_model) → the same.
    ///
    /// # Errors
    /// If `x` has another width.
    pub fn forward<T: Real>(
        &self,
        p: &Params<T>,
        x: ArrayView2<'_, T>,
        mode: Mode,
    ) -> Result<(Array2<T>, FeedForwardCache<T>)> {
        self.forward_then(p, x, Then::Nothing, mode)
    }

    /// As [`FeedForward::forward`], and what follows y.
    pub(crate) fn forward_then<T: Real>(
        &self,
        p: &Params<T>,
        x: ArrayView2<'_, T>,
        then: Then<'_, T>,
        mode: Mode,
    ) -> Result<(Array2<T>, FeedForwardCache<T>)> {
        let mut slope = mode.is_training().then(Vec::new);
        let after = self.inner(p, x, slope.as_mut(), mode)?;
        let y = self.linear2.forward_then(p, after.view(), then)?;
        Ok((y, FeedForwardCache { slope, after }))
    }

    /// `dropout(f(linear1(x)))`, and its slope with respect to linear1(x) if wanted.
    fn inner<T: Real>(
        &self,
        p: &Params<T>,
        x: ArrayView2<'_, T>,
        slope: Option<&mut Vec<T>>,
        mode: Mode,
    ) -> Result<Array2<T>> {
        let (activation, dropout) = (self.activation, mode.dropout(self.dropout, self.site));
        self.linear1.forward_then(p, x, Then::Activate { activation, dropout, slope })
    }

    /// The gradient of x; those of the parameters are added to `grads`.
    ///
    /// # Shapes
    /// `x`, `dy` and the dx returned (tokens, d_model).
    ///
    /// # Errors
    /// If the shapes do not fit.
    pub fn backward<T: Real>(
        &self,
        p: &Params<T>,
        x: ArrayView2<'_, T>,
        cache: &FeedForwardCache<T>,
        dy: ArrayView2<'_, T>,
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<Array2<T>> {
        let mut again = Vec::new();
        let slope = match &cache.slope {
            Some(slope) => slope,
            None => {
                self.inner(p, x, Some(&mut again), mode)?;
                &again
            }
        };
        // y = linear2(after), after = dropout(f(before))
        let d_before = self.linear2.backward_then(p, cache.after.view(), dy, Then::Multiply { by: slope }, grads)?;
        // before = linear1(x)
        self.linear1.backward(p, x, d_before.view(), grads)
    }
}
