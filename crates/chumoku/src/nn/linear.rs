//! The linear layer `y = x Wᵀ + b`.

use super::{matrix, matrix_mut, numbers, packed, zeros};
use crate::Result;
use crate::params::{Builder, Init, ParamId, Params};
use chumoku_kernels::{Real, Start, add_column_sums, gemm};
use ndarray::{Array2, ArrayView2};

/// `y = x Wᵀ + b`, with W of shape (outputs, inputs) as in PyTorch.
#[derive(Clone, Debug)]
pub struct Linear {
    weight: ParamId,
    bias: Option<ParamId>,
    outputs: usize,
}

impl Linear {
    /// Adds `weight` and, if wanted, `bias` to the model.
    pub fn new(builder: &mut Builder, inputs: usize, outputs: usize, bias: bool) -> Self {
        Linear::with_init(builder, inputs, outputs, bias, Init::glorot(inputs, outputs))
    }

    /// As [`Linear::new`], with another start for the weight.
    pub fn with_init(builder: &mut Builder, inputs: usize, outputs: usize, bias: bool, init: Init) -> Self {
        let weight = builder.add("weight", &[outputs, inputs], init);
        let bias = bias.then(|| builder.add("bias", &[outputs], Init::Zeros));
        Linear { weight, bias, outputs }
    }

    /// # Shapes
    /// `x` (tokens, inputs) → (tokens, outputs). To be remembered for `backward`: x.
    ///
    /// # Errors
    /// If `x` has another width.
    pub fn forward<T: Real>(&self, p: &Params<T>, x: ArrayView2<'_, T>) -> Result<Array2<T>> {
        let x = packed(x);
        let mut y = zeros((x.nrows(), self.outputs));
        let start = self.bias.map_or(Start::Zero, |bias| Start::Bias(p.slice(bias)));
        gemm(matrix(&x.view())?, p.matrix(self.weight).t(), start, matrix_mut(&mut y)?, p.precision)?;
        Ok(y)
    }

    /// # Shapes
    /// `x` as given to `forward`, `dy` (tokens, outputs) → dx (tokens, inputs).
    ///
    /// # Errors
    /// If the shapes do not fit.
    pub fn backward<T: Real>(
        &self,
        p: &Params<T>,
        x: ArrayView2<'_, T>,
        dy: ArrayView2<'_, T>,
        grads: &mut Params<T>,
    ) -> Result<Array2<T>> {
        let (x, dy) = (packed(x), packed(dy));
        let mut dx = zeros(x.dim());
        // y = x Wᵀ  →  dx = dy W, dW = dyᵀ x
        gemm(matrix(&dy.view())?, p.matrix(self.weight), Start::Zero, matrix_mut(&mut dx)?, p.precision)?;
        gemm(matrix(&dy.view())?.t(), matrix(&x.view())?, Start::Keep, grads.matrix_mut(self.weight), p.precision)?;
        // y = … + b  →  db = Σ_tokens dy
        if let Some(bias) = self.bias {
            add_column_sums(numbers(&dy.view()), grads.slice_mut(bias))?;
        }
        Ok(dx)
    }
}
