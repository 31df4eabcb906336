//! The position-wise feed-forward network.

use super::{Linear, Mode, numbers, numbers_mut, packed, zeros};
use crate::Result;
use crate::params::{Builder, Params};
use chumoku_kernels::{Activation, Real, activation_backward, activation_forward};
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

/// Before the activation, and after it and dropout: (tokens, d_ff) both.
#[derive(Clone, Debug)]
pub struct FeedForwardCache<T> {
    before: Array2<T>,
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

    /// # Shapes
    /// `x` (tokens, d_model) → the same. To be remembered: x and the cache.
    ///
    /// # Errors
    /// If `x` has another width.
    pub fn forward<T: Real>(
        &self,
        p: &Params<T>,
        x: ArrayView2<'_, T>,
        mode: Mode,
    ) -> Result<(Array2<T>, FeedForwardCache<T>)> {
        let before = self.linear1.forward(p, x)?;
        let mut after = zeros(before.dim());
        activation_forward(self.activation, numbers(&before.view()), numbers_mut(&mut after))?;
        mode.drop(&mut after, self.dropout, self.site)?;
        let y = self.linear2.forward(p, after.view())?;
        Ok((y, FeedForwardCache { before, after }))
    }

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
        let dy = packed(dy);
        // y = linear2(after)
        let mut d_after = self.linear2.backward(p, cache.after.view(), dy.view(), grads)?;
        // after = dropout(f(before))
        mode.drop(&mut d_after, self.dropout, self.site)?;
        let mut d_before = zeros(cache.before.dim());
        let (before, d_after) = (cache.before.view(), d_after.view());
        activation_backward(self.activation, numbers(&before), numbers(&d_after), numbers_mut(&mut d_before))?;
        // before = linear1(x)
        self.linear1.backward(p, x, d_before.view(), grads)
    }
}
