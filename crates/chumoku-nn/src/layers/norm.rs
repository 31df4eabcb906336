//! Normalization of tokens: layer norm or RMS norm, and its position in a layer.

use super::{array, contiguous, numbers};
use crate::params::{Builder, Init, ParamId, Params};
use crate::{Error, Result};
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
    /// Layer norm: `y = γ (x − mean)/√(variance + ε) + β` (Ba, Kiros and Hinton 2016).
    #[default]
    Layer,
    /// Layer norm without β.
    LayerWithoutBias,
    /// RMS norm: `y = γ · x/√(mean(x²) + ε)` (Zhang and Sennrich 2019, equation 4).
    Rms,
}

/// A normalization that a model may lack.
#[derive(Clone, Debug)]
pub(crate) struct OptionalNorm(pub(super) Option<Norm>);

/// The input of an [`OptionalNorm`] and the cache of its forward pass, if the model has it.
pub(super) type OptionalNormCache<T> = Option<(Array2<T>, NormCache<T>)>;

impl OptionalNorm {
    /// Normalizes each row of `x`, or returns it as it is.
    pub(super) fn forward<T: Real>(&self, p: &Params<T>, x: Array2<T>) -> Result<(Array2<T>, OptionalNormCache<T>)> {
        let Some(norm) = &self.0 else { return Ok((x, None)) };
        let (y, cache) = norm.forward(p, x.view())?;
        Ok((y, Some((x, cache))))
    }

    /// Like [`OptionalNorm::forward`], for a caller that keeps x.
    pub(super) fn forward_view<T: Real>(
        &self,
        p: &Params<T>,
        x: ArrayView2<'_, T>,
    ) -> Result<(Array2<T>, Option<NormCache<T>>)> {
        let Some(norm) = &self.0 else { return Ok((contiguous(x).into_owned(), None)) };
        let (y, cache) = norm.forward(p, x)?;
        Ok((y, Some(cache)))
    }

    /// Returns the gradient of x plus `residual`, the gradient from the residual connection. Adds the parameter
    /// gradients to `grads`. `cache` is what `forward` returned; its x may be borrowed.
    pub(super) fn backward<T: Real>(
        &self,
        p: &Params<T>,
        cache: Option<(ArrayView2<'_, T>, &NormCache<T>)>,
        dy: Array2<T>,
        residual: Option<ArrayView2<'_, T>>,
        grads: &mut Params<T>,
    ) -> Result<Array2<T>> {
        match (&self.0, cache) {
            (Some(norm), Some((x, cache))) => norm.backward(p, x, cache, dy.view(), residual, grads),
            (None, None) => {
                let mut dx = dy;
                residual.into_iter().for_each(|residual| dx += &residual);
                Ok(dx)
            }
            _ => Err(Error::CacheMismatch),
        }
    }
}

/// Borrows the input and the cache of an [`OptionalNorm`].
pub(super) fn borrowed<T>(cache: &OptionalNormCache<T>) -> Option<(ArrayView2<'_, T>, &NormCache<T>)> {
    cache.as_ref().map(|(x, cache)| (x.view(), cache))
}

/// A normalization of each token: layer norm, with or without β, or RMS norm. See [`NormKind`].
#[derive(Clone, Debug)]
pub struct Norm {
    pub(super) kind: NormKind,
    pub(super) weight: ParamId,
    pub(super) bias: Option<ParamId>,
    pub(super) epsilon: f64,
}

/// The mean and 1/√(variance + ε) of each token. RMS norm has no mean, and 1/√(mean(x²) + ε).
#[derive(Clone, Debug)]
pub struct NormCache<T> {
    mean: Vec<T>,
    inverse_deviation: Vec<T>,
}

impl Norm {
    /// Default ε, added to the variance, as in PyTorch.
    pub const EPSILON: f64 = 1e-5;

    /// Adds `weight` (γ, starting at 1) and, if this kind has it, `bias` (β, starting at 0).
    pub fn new(builder: &mut Builder, kind: NormKind, width: usize, epsilon: f64) -> Self {
        let weight = builder.add("weight", &[width], Init::Ones);
        let bias = (kind == NormKind::Layer).then(|| builder.add("bias", &[width], Init::Zeros));
        Norm { kind, weight, bias, epsilon }
    }

    /// Normalizes each row, then scales it by γ and shifts it by β; `backward` needs x and the cache.
    ///
    /// # Shapes
    /// `x` (tokens, width) → the same.
    ///
    /// # Errors
    /// If `x` has another width.
    pub fn forward<T: Real>(&self, p: &Params<T>, x: ArrayView2<'_, T>) -> Result<(Array2<T>, NormCache<T>)> {
        let x = contiguous(x);
        let (gamma, epsilon) = (p.slice(self.weight), T::round_from(self.epsilon));
        if self.kind == NormKind::Rms {
            let RmsNormOutput { y, inverse_rms } = rms_norm_forward(numbers(&x.view()), gamma, epsilon)?;
            return Ok((array(x.dim(), y)?, NormCache { mean: Vec::new(), inverse_deviation: inverse_rms }));
        }
        let LayerNormOutput { y, mean, inverse_deviation } = match self.bias {
            Some(bias) => layer_norm_forward(numbers(&x.view()), [gamma, p.slice(bias)], epsilon)?,
            None => layer_norm_forward_without_bias(numbers(&x.view()), gamma, epsilon)?,
        };
        Ok((array(x.dim(), y)?, NormCache { mean, inverse_deviation }))
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
        cache: &NormCache<T>,
        dy: ArrayView2<'_, T>,
        residual: Option<ArrayView2<'_, T>>,
        grads: &mut Params<T>,
    ) -> Result<Array2<T>> {
        let (x, dy, residual) = (contiguous(x), contiguous(dy), residual.map(contiguous));
        let (x, dy, residual) = (x.view(), dy.view(), residual.as_ref().map(|residual| residual.view()));
        let (gamma, residual) = (p.slice(self.weight), residual.as_ref().map(numbers));
        // The gradients of frozen parameters are not needed.
        let mut unused = [vec![T::ZERO; x.ncols()], vec![T::ZERO; x.ncols()]];
        let is_trained = grads.is_trained(self.weight) && self.bias.is_none_or(|bias| grads.is_trained(bias));
        if self.kind == NormKind::Rms {
            if !cache.mean.is_empty() {
                return Err(Error::CacheMismatch);
            }
            let inverse_rms = &cache.inverse_deviation;
            let backward = RmsNormBackward { x: numbers(&x), gamma, inverse_rms, dy: numbers(&dy), residual };
            let d_gamma = if is_trained { grads.slice_mut(self.weight) } else { &mut unused[0] };
            return array(x.dim(), backward.compute(d_gamma)?);
        }
        let NormCache { mean, inverse_deviation } = cache;
        let backward = LayerNormBackward { x: numbers(&x), gamma, mean, inverse_deviation, dy: numbers(&dy), residual };
        let dx = match self.bias {
            Some(bias) if is_trained => backward.compute(grads.two_slices_mut(self.weight, bias))?,
            None if is_trained => backward.compute_without_bias(grads.slice_mut(self.weight))?,
            _ => backward.compute(unused.each_mut().map(|d| &mut d[..]))?,
        };
        array(x.dim(), dx)
    }
}
