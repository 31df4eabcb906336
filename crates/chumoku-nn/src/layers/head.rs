//! The head of a classifier: from the vector of a sequence to its logits.

use super::{Linear, Mode, Norm, NormCache, NormKind, OptionalNorm, array, numbers, zeros};
use crate::Result;
use crate::params::{Builder, Init, Params};
use chumoku_kernels::{Activation, Real, activation_backward, activation_forward};
use ndarray::{Array2, ArrayView2};
use serde::{Deserialize, Serialize};

/// The activation between the two linear layers of a `ClassifierHead`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HeadActivation {
    /// tanh, as in BERT's pooler (Devlin et al. 2019).
    Tanh,
    /// `max(0, x)`, as in DistilBERT (Sanh et al. 2019).
    Relu,
    /// `x · Φ(x)`, as in ModernBERT (Warner et al. 2024).
    Gelu,
}

impl HeadActivation {
    /// Returns the kernel's activation, or `None` for tanh.
    pub fn activation(self) -> Option<Activation> {
        match self {
            HeadActivation::Tanh => None,
            HeadActivation::Relu => Some(Activation::Relu),
            HeadActivation::Gelu => Some(Activation::Gelu),
        }
    }

    fn forward<T: Real>(self, x: &Array2<T>) -> Result<Array2<T>> {
        let Some(kernel) = self.activation() else { return Ok(x.mapv(|x| T::round_from(x.to_f64().tanh()))) };
        let mut y = vec![T::ZERO; x.len()];
        activation_forward(kernel, numbers(&x.view()), &mut y)?;
        array(x.dim(), y)
    }

    /// Returns the gradient of x, given y = f(x).
    fn backward<T: Real>(self, [x, y]: [&Array2<T>; 2], dy: &Array2<T>) -> Result<Array2<T>> {
        let mut dx = zeros(x.dim());
        match self.activation() {
            None => ndarray::Zip::from(&mut dx).and(y).and(dy).for_each(|dx, &y, &dy| *dx = dy * (T::ONE - y * y)),
            Some(kernel) => {
                let dx = dx.as_slice_mut().expect("new arrays are contiguous");
                activation_backward(kernel, numbers(&x.view()), numbers(&dy.view()), dx)?;
            }
        }
        Ok(dx)
    }
}

/// The part of a `ClassifierHead` before its last layer: `norm(f(x Vᵀ + c))`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DenseHeadConfig {
    /// The activation f.
    pub activation: HeadActivation,
    /// True if the bias c exists.
    pub bias: bool,
    /// The kind of normalization and its ε, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub norm: Option<(NormKind, f64)>,
}

impl DenseHeadConfig {
    /// Builds a configuration with a bias and without normalization.
    pub fn new(activation: HeadActivation) -> Self {
        DenseHeadConfig { activation, bias: true, norm: None }
    }
}

/// `logits = dropout(x) Wᵀ + b`, or with a dense layer before it, `dropout(norm(f(x Vᵀ + c))) Wᵀ + b`.
#[derive(Clone, Debug)]
pub(crate) struct ClassifierHead {
    pub(super) dense: Option<DenseLayer>,
    pub(super) out: Linear,
    dropout: f32,
    dropout_site: u32,
}

#[derive(Clone, Debug)]
pub(super) struct DenseLayer {
    pub(super) linear: Linear,
    pub(super) activation: HeadActivation,
    pub(super) norm: OptionalNorm,
}

/// The input of the dense layer, its output, the activation of that, and the norm's cache.
type DenseCache<T> = ([Array2<T>; 3], Option<NormCache<T>>);

/// The cache of a [`ClassifierHead`]'s forward pass.
#[derive(Clone, Debug)]
pub(crate) struct ClassifierHeadCache<T> {
    /// The cache of the dense layer, if there is one.
    dense: Option<DenseCache<T>>,
    /// The input of the last layer.
    last_input: Array2<T>,
}

impl ClassifierHead {
    /// Adds `weight` and `bias`. With a dense layer it also adds `dense.weight`, `dense.bias` and the parameters of
    /// `norm`. `site` is the dropout site.
    pub(crate) fn new(
        builder: &mut Builder,
        [width, classes]: [usize; 2],
        dense: Option<DenseHeadConfig>,
        dropout: f32,
        site: u32,
    ) -> Self {
        let init = Init::Normal(0.02);
        let dense = dense.map(|DenseHeadConfig { activation, bias, norm }| {
            let linear = builder.scope("dense", |b| Linear::with_init(b, width, width, bias, init));
            let norm = norm.map(|(kind, epsilon)| builder.scope("norm", |b| Norm::new(b, kind, width, epsilon)));
            DenseLayer { linear, activation, norm: OptionalNorm(norm) }
        });
        ClassifierHead {
            dense,
            out: Linear::with_init(builder, width, classes, true, init),
            dropout,
            dropout_site: site,
        }
    }

    /// Returns the logits and the cache for `backward`.
    ///
    /// # Shapes
    /// `x` (sequences, width) → (sequences, classes).
    ///
    /// # Errors
    /// If `x` has another width.
    pub(crate) fn forward<T: Real>(
        &self,
        p: &Params<T>,
        x: Array2<T>,
        mode: Mode,
    ) -> Result<(Array2<T>, ClassifierHeadCache<T>)> {
        let (mut dropped, dense) = self.forward_dense(p, x)?;
        mode.apply_dropout(&mut dropped, self.dropout, self.dropout_site)?;
        let logits = self.out.forward(p, dropped.view())?;
        Ok((logits, ClassifierHeadCache { dense, last_input: dropped }))
    }

    /// Returns the input of the last layer, without dropout.
    ///
    /// # Shapes
    /// `x` (sequences, width) → the same.
    pub(crate) fn last_layer_input<T: Real>(&self, p: &Params<T>, x: Array2<T>) -> Result<Array2<T>> {
        Ok(self.forward_dense(p, x)?.0)
    }

    fn forward_dense<T: Real>(&self, p: &Params<T>, x: Array2<T>) -> Result<(Array2<T>, Option<DenseCache<T>>)> {
        let Some(DenseLayer { linear, activation, norm }) = &self.dense else { return Ok((x, None)) };
        let h = linear.forward(p, x.view())?;
        let a = activation.forward(&h)?;
        let (y, of_norm) = norm.forward_view(p, a.view())?;
        Ok((y, Some(([x, h, a], of_norm))))
    }

    /// Returns the gradient of x and adds the parameter gradients to `grads`.
    ///
    /// # Shapes
    /// `dy` (sequences, classes) → dx (sequences, width).
    ///
    /// # Errors
    /// If the shapes do not match.
    pub(crate) fn backward<T: Real>(
        &self,
        p: &Params<T>,
        cache: &ClassifierHeadCache<T>,
        dy: ArrayView2<'_, T>,
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<Array2<T>> {
        let mut d = self.out.backward(p, cache.last_input.view(), dy, grads)?;
        mode.apply_dropout(&mut d, self.dropout, self.dropout_site)?;
        let (Some(DenseLayer { linear, activation, norm }), Some(([x, h, a], of_norm))) = (&self.dense, &cache.dense)
        else {
            return Ok(d);
        };
        // y = norm(a)
        let da = norm.backward(p, of_norm.as_ref().map(|of_norm| (a.view(), of_norm)), d, None, grads)?;
        // a = f(h)
        let dh = activation.backward([h, a], &da)?;
        // h = x Vᵀ + c
        linear.backward(p, x.view(), dh.view(), grads)
    }
}
