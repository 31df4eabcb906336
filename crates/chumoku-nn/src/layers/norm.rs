//! Normalization of tokens: layer norm or RMS norm, and its position in a layer.

use super::{array, contiguous, numbers};
use crate::Result;
use crate::params::{Builder, Init, ParamId, Params};
use chumoku_kernels::{
    LayerNormBackward, LayerNormOutput, Real, RmsNormBackward, RmsNormOutput, layer_norm_forward,
    layer_norm_forward_without_bias, rms_norm_forward,
};
use ndarray::{Array2, ArrayView2};
use serde::{Deserialize, Serialize};

/// The position of the normalization in a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormOrder {
    /// After each residual sum, as in the original paper: `x = norm(x + f(x))`.
    Post,
    /// Before each sublayer, which makes training more stable: `x = x + f(norm(x))` (Xiong et al. 2020).
    Pre,
}

/// The kind of normalization.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NormKind {
    /// [`LayerNorm`].
    #[default]
    Layer,
    /// [`LayerNorm`] without β.
    LayerWithoutBias,
    /// [`RmsNorm`].
    Rms,
}

/// The normalization of a layer.
#[derive(Clone, Debug)]
pub(crate) enum Norm {
    /// Layer norm, with mean and deviation.
    Layer(LayerNorm),
    /// RMS norm, with the root mean square.
    Rms(RmsNorm),
    /// No normalization, because the input is already normalized.
    Identity,
}

/// The cache of a [`Norm`]'s forward pass.
#[derive(Clone, Debug)]
pub(crate) enum NormCache<T> {
    /// The cache of layer norm.
    Layer(LayerNormCache<T>),
    /// The cache of RMS norm.
    Rms(RmsNormCache<T>),
    /// No cache.
    Identity,
}

/// A normalization that a model may lack.
#[derive(Clone, Debug)]
pub(super) struct OptionalNorm(pub(super) Option<Norm>);

/// The input of an [`OptionalNorm`] and the cache of its forward pass, if the model has it.
pub(super) type OptionalNormCache<T> = Option<(Array2<T>, NormCache<T>)>;

impl OptionalNorm {
    /// Normalizes each row of `x`, or returns it as it is.
    pub(super) fn forward<T: Real>(&self, p: &Params<T>, x: Array2<T>) -> Result<(Array2<T>, OptionalNormCache<T>)> {
        let Some(norm) = &self.0 else { return Ok((x, None)) };
        let (y, cache) = norm.forward(p, x.view())?;
        Ok((y, Some((x, cache))))
    }

    /// Returns the gradient of x and adds the parameter gradients to `grads`.
    pub(super) fn backward<T: Real>(
        &self,
        p: &Params<T>,
        cache: &OptionalNormCache<T>,
        dy: Array2<T>,
        grads: &mut Params<T>,
    ) -> Result<Array2<T>> {
        match (&self.0, cache) {
            (Some(norm), Some((x, cache))) => norm.backward(p, x.view(), cache, dy.view(), None, grads),
            _ => Ok(dy),
        }
    }
}

impl Norm {
    /// Adds the parameters of a normalization to the model.
    pub(crate) fn new(builder: &mut Builder, kind: NormKind, width: usize, epsilon: f64) -> Self {
        match kind {
            NormKind::Layer => Norm::Layer(LayerNorm::with_epsilon(builder, width, epsilon)),
            NormKind::LayerWithoutBias => Norm::Layer(LayerNorm::without_bias(builder, width, epsilon)),
            NormKind::Rms => Norm::Rms(RmsNorm::new(builder, width, epsilon)),
        }
    }

    /// Normalizes each row; `backward` needs x and the cache.
    ///
    /// # Shapes
    /// `x` (tokens, width) → the same.
    ///
    /// # Errors
    /// If `x` has another width.
    pub(crate) fn forward<T: Real>(&self, p: &Params<T>, x: ArrayView2<'_, T>) -> Result<(Array2<T>, NormCache<T>)> {
        Ok(match self {
            Norm::Layer(norm) => {
                let (y, cache) = norm.forward(p, x)?;
                (y, NormCache::Layer(cache))
            }
            Norm::Rms(norm) => {
                let (y, cache) = norm.forward(p, x)?;
                (y, NormCache::Rms(cache))
            }
            Norm::Identity => (contiguous(x).into_owned(), NormCache::Identity),
        })
    }

    /// Returns the gradient of x plus `residual`, the gradient from the residual connection.
    ///
    /// # Shapes
    /// `x`, `dy`, `residual` and the returned dx (tokens, width).
    ///
    /// # Errors
    /// If the shapes do not match, or the cache belongs to another kind of norm.
    pub(crate) fn backward<T: Real>(
        &self,
        p: &Params<T>,
        x: ArrayView2<'_, T>,
        cache: &NormCache<T>,
        dy: ArrayView2<'_, T>,
        residual: Option<ArrayView2<'_, T>>,
        grads: &mut Params<T>,
    ) -> Result<Array2<T>> {
        match (self, cache) {
            (Norm::Layer(norm), NormCache::Layer(cache)) => norm.backward(p, x, cache, dy, residual, grads),
            (Norm::Rms(norm), NormCache::Rms(cache)) => norm.backward(p, x, cache, dy, residual, grads),
            (Norm::Identity, NormCache::Identity) => {
                let mut dx = contiguous(dy).into_owned();
                residual.into_iter().for_each(|residual| dx += &residual);
                Ok(dx)
            }
            _ => Err(crate::Error::CacheMismatch),
        }
    }
}

/// `y = γ (x − mean)/√(variance + ε) + β` for each token (Ba, Kiros and Hinton 2016), or the same without β.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    pub(super) weight: ParamId,
    pub(super) bias: Option<ParamId>,
    pub(super) epsilon: f64,
}

/// The mean and 1/√(variance + ε) of each token.
#[derive(Clone, Debug)]
pub struct LayerNormCache<T> {
    mean: Vec<T>,
    inverse_deviation: Vec<T>,
}

impl LayerNorm {
    /// Default ε, added to the variance, as in PyTorch.
    pub const EPSILON: f64 = 1e-5;

    /// Adds `weight` (γ, starting at 1) and `bias` (β, starting at 0).
    pub fn new(builder: &mut Builder, width: usize) -> Self {
        LayerNorm::with_epsilon(builder, width, Self::EPSILON)
    }

    /// Like [`LayerNorm::new`], with another ε.
    pub(crate) fn with_epsilon(builder: &mut Builder, width: usize, epsilon: f64) -> Self {
        let weight = builder.add("weight", &[width], Init::Ones);
        LayerNorm { weight, bias: Some(builder.add("bias", &[width], Init::Zeros)), epsilon }
    }

    /// Adds `weight` only.
    pub(crate) fn without_bias(builder: &mut Builder, width: usize, epsilon: f64) -> Self {
        LayerNorm { weight: builder.add("weight", &[width], Init::Ones), bias: None, epsilon }
    }

    /// Normalizes each row, then scales it by γ and shifts it by β; `backward` needs x and the cache.
    ///
    /// # Shapes
    /// `x` (tokens, width) → the same.
    ///
    /// # Errors
    /// If `x` has another width.
    pub fn forward<T: Real>(&self, p: &Params<T>, x: ArrayView2<'_, T>) -> Result<(Array2<T>, LayerNormCache<T>)> {
        let x = contiguous(x);
        let (gamma, epsilon) = (p.slice(self.weight), T::round_from(self.epsilon));
        let LayerNormOutput { y, mean, inverse_deviation } = match self.bias {
            Some(bias) => layer_norm_forward(numbers(&x.view()), [gamma, p.slice(bias)], epsilon)?,
            None => layer_norm_forward_without_bias(numbers(&x.view()), gamma, epsilon)?,
        };
        Ok((array(x.dim(), y)?, LayerNormCache { mean, inverse_deviation }))
    }

    /// Returns the gradient of x plus `residual`, the gradient from the residual connection.
    ///
    /// # Shapes
    /// `x`, `dy`, `residual` and the returned dx (tokens, width).
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn backward<T: Real>(
        &self,
        p: &Params<T>,
        x: ArrayView2<'_, T>,
        cache: &LayerNormCache<T>,
        dy: ArrayView2<'_, T>,
        residual: Option<ArrayView2<'_, T>>,
        grads: &mut Params<T>,
    ) -> Result<Array2<T>> {
        let (x, dy, residual) = (contiguous(x), contiguous(dy), residual.map(contiguous));
        let (x, dy, residual) = (x.view(), dy.view(), residual.as_ref().map(|residual| residual.view()));
        let backward = LayerNormBackward {
            x: numbers(&x),
            gamma: p.slice(self.weight),
            mean: &cache.mean,
            inverse_deviation: &cache.inverse_deviation,
            dy: numbers(&dy),
            residual: residual.as_ref().map(numbers),
        };
        let dx = match self.bias {
            Some(bias) if grads.is_trained(self.weight) && grads.is_trained(bias) => {
                backward.compute(grads.two_slices_mut(self.weight, bias))?
            }
            None if grads.is_trained(self.weight) => backward.compute_without_bias(grads.slice_mut(self.weight))?,
            // Frozen parameters: these gradients are not needed.
            _ => {
                let mut d = [vec![T::ZERO; x.ncols()], vec![T::ZERO; x.ncols()]];
                backward.compute(d.each_mut().map(|d| &mut d[..]))?
            }
        };
        array(x.dim(), dx)
    }
}

/// `y = γ · x/√(mean(x²) + ε)` for each token (Zhang and Sennrich 2019, equation 4).
#[derive(Clone, Debug)]
pub struct RmsNorm {
    pub(super) weight: ParamId,
    pub(super) epsilon: f64,
}

/// 1/√(mean(x²) + ε) of each token.
#[derive(Clone, Debug)]
pub struct RmsNormCache<T> {
    inverse_rms: Vec<T>,
}

impl RmsNorm {
    /// Adds `weight` (γ, starting at 1).
    pub fn new(builder: &mut Builder, width: usize, epsilon: f64) -> Self {
        RmsNorm { weight: builder.add("weight", &[width], Init::Ones), epsilon }
    }

    /// Divides each row by its root mean square, then scales it by γ; `backward` needs x and the cache.
    ///
    /// # Shapes
    /// `x` (tokens, width) → the same.
    ///
    /// # Errors
    /// If `x` has another width.
    pub fn forward<T: Real>(&self, p: &Params<T>, x: ArrayView2<'_, T>) -> Result<(Array2<T>, RmsNormCache<T>)> {
        let x = contiguous(x);
        let RmsNormOutput { y, inverse_rms } =
            rms_norm_forward(numbers(&x.view()), p.slice(self.weight), T::round_from(self.epsilon))?;
        Ok((array(x.dim(), y)?, RmsNormCache { inverse_rms }))
    }

    /// Returns the gradient of x plus `residual`, the gradient from the residual connection.
    ///
    /// # Shapes
    /// `x`, `dy`, `residual` and the returned dx (tokens, width).
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn backward<T: Real>(
        &self,
        p: &Params<T>,
        x: ArrayView2<'_, T>,
        cache: &RmsNormCache<T>,
        dy: ArrayView2<'_, T>,
        residual: Option<ArrayView2<'_, T>>,
        grads: &mut Params<T>,
    ) -> Result<Array2<T>> {
        let (x, dy, residual) = (contiguous(x), contiguous(dy), residual.map(contiguous));
        let (x, dy, residual) = (x.view(), dy.view(), residual.as_ref().map(|residual| residual.view()));
        let backward = RmsNormBackward {
            x: numbers(&x),
            gamma: p.slice(self.weight),
            inverse_rms: &cache.inverse_rms,
            dy: numbers(&dy),
            residual: residual.as_ref().map(numbers),
        };
        if grads.is_trained(self.weight) {
            return array(x.dim(), backward.compute(grads.slice_mut(self.weight))?);
        }
        // Frozen parameter: its gradient is not needed.
        array(x.dim(), backward.compute(&mut vec![T::ZERO; x.ncols()])?)
    }
}
