//! The head of a classifier: from a sequence's vector to its logits.

use super::{Linear, Mode};
use crate::Result;
use crate::params::{Builder, Init, Params};
use chumoku_kernels::Real;
use ndarray::{Array2, ArrayView2};
use serde::{Deserialize, Serialize};

/// The function between the two linear layers of a [`Head`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HeadActivation {
    /// tanh, as in BERT's pooler (Devlin et al. 2019).
    Tanh,
    /// `max(0, x)`, as in DistilBERT (Sanh et al. 2019).
    Relu,
}

impl HeadActivation {
    fn of<T: Real>(self, x: T) -> T {
        match self {
            HeadActivation::Tanh => T::of(x.to_f64().tanh()),
            HeadActivation::Relu => x.max(T::ZERO),
        }
    }

    /// The derivative, from the function's value.
    fn slope<T: Real>(self, y: T) -> T {
        match self {
            HeadActivation::Tanh => T::ONE - y * y,
            HeadActivation::Relu => {
                if y > T::ZERO {
                    T::ONE
                } else {
                    T::ZERO
                }
            }
        }
    }
}

/// `logits = dropout(x) Wᵀ + b`, or with another linear layer before it `dropout(f(x Vᵀ + c)) Wᵀ + b`.
#[derive(Clone, Debug)]
pub struct Head {
    dense: Option<(Linear, HeadActivation)>,
    out: Linear,
    dropout: f32,
    site: u32,
}

/// What a [`Head`] remembers.
#[derive(Clone, Debug)]
pub struct HeadCache<T> {
    /// What the first layer was given and what f made, where there is one.
    dense: Option<[Array2<T>; 2]>,
    /// What the last layer was given.
    dropped: Array2<T>,
}

impl Head {
    /// Adds `weight` and `bias`, and `dense.weight` and `dense.bias` where there is an activation; `site` numbers its
    /// dropout among those of the model.
    pub fn new(
        builder: &mut Builder,
        [width, classes]: [usize; 2],
        activation: Option<HeadActivation>,
        dropout: f32,
        site: u32,
    ) -> Self {
        let init = Init::Normal(0.02);
        let dense = |activation| {
            let dense = builder.scope("dense", |b| Linear::with_init(b, width, width, true, init));
            (dense, activation)
        };
        let dense = activation.map(dense);
        Head { dense, out: Linear::with_init(builder, width, classes, true, init), dropout, site }
    }

    /// The logits, and what `backward` needs of the computation.
    ///
    /// # Shapes
    /// `x` (sequences, width) → (sequences, classes).
    ///
    /// # Errors
    /// If `x` has another width.
    pub fn forward<T: Real>(&self, p: &Params<T>, x: Array2<T>, mode: Mode) -> Result<(Array2<T>, HeadCache<T>)> {
        let (dense, mut dropped) = match &self.dense {
            None => (None, x),
            Some((dense, activation)) => {
                let y = dense.forward(p, x.view())?.mapv(|x| activation.of(x));
                (Some([x, y.clone()]), y)
            }
        };
        mode.drop(&mut dropped, self.dropout, self.site)?;
        let logits = self.out.forward(p, dropped.view())?;
        Ok((logits, HeadCache { dense, dropped }))
    }

    /// The gradient of x; those of the parameters are added to `grads`.
    ///
    /// # Shapes
    /// `dy` (sequences, classes) → dx (sequences, width).
    ///
    /// # Errors
    /// If the shapes do not fit.
    pub fn backward<T: Real>(
        &self,
        p: &Params<T>,
        cache: &HeadCache<T>,
        dy: ArrayView2<'_, T>,
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<Array2<T>> {
        let mut d = self.out.backward(p, cache.dropped.view(), dy, grads)?;
        mode.drop(&mut d, self.dropout, self.site)?;
        match (&self.dense, &cache.dense) {
            // y = f(x Vᵀ + c)
            (Some((dense, activation)), Some([x, y])) => {
                d.zip_mut_with(y, |d, &y| *d *= activation.slope(y));
                dense.backward(p, x.view(), d.view(), grads)
            }
            _ => Ok(d),
        }
    }
}
