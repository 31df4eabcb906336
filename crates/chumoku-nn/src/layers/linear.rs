//! The linear layer `y = x Wᵀ + b`.

use super::{array, contiguous, mat_ref, numbers};
use crate::Result;
use crate::params::{Builder, Init, ParamId, Params};
use chumoku_kernels::{Epilogue, FusedGemm, Real, add_column_sums};
use ndarray::{Array2, ArrayView2};

/// `y = x Wᵀ + b`, with W of shape (outputs, inputs) as in PyTorch.
#[derive(Clone, Debug)]
pub struct Linear {
    pub(super) weight: ParamId,
    pub(super) bias: Option<ParamId>,
    outputs: usize,
}

impl Linear {
    /// Adds `weight` and, if requested, `bias` to the model.
    pub fn new(builder: &mut Builder, inputs: usize, outputs: usize, bias: bool) -> Self {
        Linear::with_init(builder, inputs, outputs, bias, Init::glorot(inputs, outputs))
    }

    /// Like [`Linear::new`], with another initialization of the weight.
    pub(crate) fn with_init(builder: &mut Builder, inputs: usize, outputs: usize, bias: bool, init: Init) -> Self {
        let weight = builder.add("weight", &[outputs, inputs], init);
        let bias = bias.then(|| builder.add("bias", &[outputs], Init::Zeros));
        Linear { weight, bias, outputs }
    }

    /// Returns `y = x Wᵀ + b`; `backward` needs the same x.
    ///
    /// # Shapes
    /// `x` (tokens, inputs) → (tokens, outputs).
    ///
    /// # Errors
    /// If `x` has another width.
    pub fn forward<T: Real>(&self, p: &Params<T>, x: ArrayView2<'_, T>) -> Result<Array2<T>> {
        self.forward_with_epilogue(p, x, Epilogue::Identity)
    }

    /// Returns `y = epilogue(x Wᵀ + b)`.
    pub(crate) fn forward_with_epilogue<T: Real>(
        &self,
        p: &Params<T>,
        x: ArrayView2<'_, T>,
        epilogue: Epilogue<'_, T>,
    ) -> Result<Array2<T>> {
        let x = contiguous(x);
        let bias = self.bias.map(|bias| p.slice(bias));
        let x = x.view();
        let product = FusedGemm {
            a: mat_ref(&x)?,
            b: p.transposed_operand(self.weight),
            bias,
            epilogue,
            precision: p.precision(),
        };
        array((x.nrows(), self.outputs), product.compute()?)
    }

    /// Returns the gradient of x and adds the gradients of weight and bias to `grads`.
    ///
    /// # Shapes
    /// `x` is the input of `forward`; `dy` (tokens, outputs) → dx (tokens, inputs).
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn backward<T: Real>(
        &self,
        p: &Params<T>,
        x: ArrayView2<'_, T>,
        dy: ArrayView2<'_, T>,
        grads: &mut Params<T>,
    ) -> Result<Array2<T>> {
        self.backward_with_epilogue(p, x, dy, Epilogue::Identity, grads)
    }

    /// Like [`Linear::backward`], with an epilogue applied to dx.
    pub(crate) fn backward_with_epilogue<T: Real>(
        &self,
        p: &Params<T>,
        x: ArrayView2<'_, T>,
        dy: ArrayView2<'_, T>,
        epilogue: Epilogue<'_, T>,
        grads: &mut Params<T>,
    ) -> Result<Array2<T>> {
        let (x, dy) = (contiguous(x), contiguous(dy));
        let (dy, precision) = (dy.view(), p.precision());
        // y = x Wᵀ  →  dx = dy W, dW = dyᵀ x
        let product = FusedGemm { a: mat_ref(&dy)?, b: p.operand(self.weight), bias: None, epilogue, precision };
        let dx = array(x.dim(), product.compute()?)?;
        grads.add_weight_gradient(p, self.weight, 0..self.outputs, mat_ref(&dy)?, mat_ref(&x.view())?)?;
        // y = … + b  →  db = Σ_tokens dy
        if let Some(bias) = self.bias.filter(|&bias| grads.is_trained(bias)) {
            add_column_sums(numbers(&dy), grads.slice_mut(bias))?;
        }
        Ok(dx)
    }
}
