//! The building block of encoder and decoder layers: a function with a residual connection and a normalization.

use super::{EncoderConfig, Mode, NormCache, NormOrder, OptionalNorm, add_assign};
use crate::Result;
use crate::params::{Builder, Params};
use chumoku_kernels::{Epilogue, Real};
use ndarray::{Array2, ArrayView2};

/// The residual connection and normalization around a function f. Post-norm computes `norm(x + dropout(f(x)))` as in
/// the original paper, pre-norm `x + dropout(f(norm(x)))` (Vaswani et al. 2017, section 3.1; Xiong et al. 2020).
#[derive(Clone, Debug)]
pub(super) struct Sublayer {
    pub(super) order: NormOrder,
    pub(super) norm: OptionalNorm,
    dropout: f32,
    dropout_site: u32,
}

/// The cache of a [`Sublayer`]'s forward pass, including that of the inner function.
#[derive(Clone, Debug)]
pub(super) struct SublayerCache<T, C> {
    /// The input of the inner function.
    pub(super) input: Array2<T>,
    /// The cache of the inner function.
    pub(super) inner: C,
    /// The input of the normalization.
    pub(super) norm_input: Array2<T>,
    norm: Option<NormCache<T>>,
}

impl Sublayer {
    /// Adds the normalization `name` to the model; `site` is the dropout site.
    pub(super) fn new(builder: &mut Builder, name: &str, config: &EncoderConfig, site: u32) -> Self {
        let norm = OptionalNorm(Some(builder.scope(name, |b| config.new_norm(b))));
        Sublayer { order: config.norm_order, norm, dropout: config.dropout, dropout_site: site }
    }

    /// Builds a sublayer without a normalization.
    pub(super) fn without_norm(config: &EncoderConfig, site: u32) -> Self {
        Sublayer { order: config.norm_order, norm: OptionalNorm(None), dropout: config.dropout, dropout_site: site }
    }

    /// Runs the sublayer. `part(x, epilogue)` computes `epilogue(f(x))` and its cache.
    pub(super) fn forward<T: Real, C>(
        &self,
        p: &Params<T>,
        x: Array2<T>,
        mode: Mode,
        part: impl FnOnce(ArrayView2<'_, T>, Epilogue<'_, T>) -> Result<(Array2<T>, C)>,
    ) -> Result<(Array2<T>, SublayerCache<T, C>)> {
        let dropout = mode.dropout(self.dropout, self.dropout_site);
        match self.order {
            NormOrder::Pre => {
                let (input, norm) = self.norm.forward_view(p, x.view())?;
                let (y, part) =
                    part(input.view(), Epilogue::AddResidual { dropout, residual: contiguous_numbers(&x) })?;
                Ok((y, SublayerCache { input, inner: part, norm_input: x, norm }))
            }
            NormOrder::Post => {
                let (sum, part) = part(x.view(), Epilogue::AddResidual { dropout, residual: contiguous_numbers(&x) })?;
                let (y, norm) = self.norm.forward_view(p, sum.view())?;
                Ok((y, SublayerCache { input: x, inner: part, norm_input: sum, norm }))
            }
        }
    }

    /// Returns the gradient of x. `part(d, grads)` computes the gradient of f's input from that of its output.
    pub(super) fn backward<T: Real, C>(
        &self,
        p: &Params<T>,
        cache: &SublayerCache<T, C>,
        dy: Array2<T>,
        mode: Mode,
        grads: &mut Params<T>,
        part: impl FnOnce(ArrayView2<'_, T>, &mut Params<T>) -> Result<Array2<T>>,
    ) -> Result<Array2<T>> {
        let of_norm = cache.norm.as_ref().map(|norm| (cache.norm_input.view(), norm));
        match self.order {
            NormOrder::Pre => {
                let d = mode.dropout_copy(&dy, self.dropout, self.dropout_site)?;
                let d = part(d.view(), grads)?;
                self.norm.backward(p, of_norm, d, Some(dy.view()), grads)
            }
            NormOrder::Post => {
                let d_sum = self.norm.backward(p, of_norm, dy, None, grads)?;
                let d = mode.dropout_copy(&d_sum, self.dropout, self.dropout_site)?;
                let mut dx = part(d.view(), grads)?;
                add_assign(&mut dx, d_sum.view());
                Ok(dx)
            }
        }
    }
}

fn contiguous_numbers<T>(x: &Array2<T>) -> &[T] {
    x.as_slice().expect("activations are contiguous")
}
