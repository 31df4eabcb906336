//! Layer normalisation.

use super::{numbers, numbers_mut, packed, zeros};
use crate::Result;
use crate::params::{Builder, Init, ParamId, Params};
use chumoku_kernels::{Real, layer_norm_backward, layer_norm_forward};
use ndarray::{Array2, ArrayView2};

/// Added to the variance, as in PyTorch.
const EPSILON: f64 = 1e-5;

/// `y = γ (x − mean)/√(variance + ε) + β` over each token (Ba, Kiros and Hinton 2016).
#[derive(Clone, Debug)]
pub struct LayerNorm {
    weight: ParamId,
    bias: ParamId,
}

/// Each token's mean and 1/√(variance + ε).
#[derive(Clone, Debug)]
pub struct LayerNormCache<T> {
    mean: Vec<T>,
    inverse_deviation: Vec<T>,
}

impl LayerNorm {
    /// Adds `weight` (γ, starting at 1) and `bias` (β, starting at 0).
    pub fn new(builder: &mut Builder, width: usize) -> Self {
        let weight = builder.add("weight", &[width], Init::Ones);
        LayerNorm { weight, bias: builder.add("bias", &[width], Init::Zeros) }
    }

    /// # Shapes
    /// `x` (tokens, width) → the same. To be remembered: x and the cache.
    ///
    /// # Errors
    /// If `x` has another width.
    pub fn forward<T: Real>(&self, p: &Params<T>, x: ArrayView2<'_, T>) -> Result<(Array2<T>, LayerNormCache<T>)> {
        let x = packed(x);
        let mut y = zeros(x.dim());
        let (mut mean, mut inverse_deviation) = (vec![T::ZERO; x.nrows()], vec![T::ZERO; x.nrows()]);
        layer_norm_forward(
            numbers(&x.view()),
            [p.slice(self.weight), p.slice(self.bias)],
            T::of(EPSILON),
            numbers_mut(&mut y),
            [&mut mean, &mut inverse_deviation],
        )?;
        Ok((y, LayerNormCache { mean, inverse_deviation }))
    }

    /// # Shapes
    /// `x`, `dy` and the dx returned (tokens, width).
    ///
    /// # Errors
    /// If the shapes do not fit.
    pub fn backward<T: Real>(
        &self,
        p: &Params<T>,
        x: ArrayView2<'_, T>,
        cache: &LayerNormCache<T>,
        dy: ArrayView2<'_, T>,
        grads: &mut Params<T>,
    ) -> Result<Array2<T>> {
        let (x, dy) = (packed(x), packed(dy));
        let mut dx = zeros(x.dim());
        layer_norm_backward(
            numbers(&x.view()),
            p.slice(self.weight),
            [&cache.mean, &cache.inverse_deviation],
            numbers(&dy.view()),
            numbers_mut(&mut dx),
            grads.two_slices_mut(self.weight, self.bias),
        )?;
        Ok(dx)
    }
}
