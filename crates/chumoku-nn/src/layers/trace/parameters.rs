//! The parameters of single layers, in f64. Applied to gradients, the functions return those of the parameters.

use super::{DenseParameters, FeedForwardMatrices, LinearMatrices, NormParameters};
use crate::layers::{ClassifierHead, FeedForward, Linear, Norm, NormKind, OptionalNorm, row_f64, to_f64};
use crate::params::Params;
use chumoku_kernels::Real;
use ndarray::{Array2, Axis, Slice};

impl Linear {
    /// Returns the parameters in the form `x W + b`.
    pub(crate) fn matrices<T: Real>(&self, p: &Params<T>) -> LinearMatrices {
        let weight = to_f64(p.view(self.weight).reversed_axes());
        LinearMatrices { weight, bias: self.bias.map(|bias| row_f64(p, bias)) }
    }
}

impl Norm {
    /// Returns γ.
    pub(crate) fn gamma<T: Real>(&self, p: &Params<T>) -> Vec<f64> {
        p.slice(self.weight).iter().map(|x| x.to_f64()).collect()
    }
}

impl OptionalNorm {
    /// Returns γ, β and ε, or `None` without normalization.
    pub(super) fn parameters<T: Real>(&self, p: &Params<T>) -> Option<NormParameters> {
        let norm = self.0.as_ref()?;
        let gamma = row_f64(p, norm.weight);
        let beta = || norm.bias.map_or_else(|| Array2::zeros(gamma.dim()), |bias| row_f64(p, bias));
        Some(NormParameters { beta: (norm.kind != NormKind::Rms).then(beta), epsilon: norm.epsilon, gamma })
    }
}

impl FeedForward {
    /// Returns the parameters.
    pub(crate) fn matrices<T: Real>(&self, p: &Params<T>) -> FeedForwardMatrices {
        let first = self.linear1.matrices(p);
        let half = |columns: Slice| {
            let part = |x: &Array2<f64>| x.slice_axis(Axis(1), columns).to_owned();
            LinearMatrices { weight: part(&first.weight), bias: first.bias.as_ref().map(part) }
        };
        let gate = self.is_gated.then(|| half(Slice::from(self.d_ff..)));
        let first = half(Slice::from(..self.d_ff));
        FeedForwardMatrices { first, gate, second: self.linear2.matrices(p), activation: self.activation }
    }
}

impl ClassifierHead {
    /// Returns the parameters of the dense layer, if any, and of the last layer.
    pub(crate) fn parameters<T: Real>(&self, p: &Params<T>) -> (Option<DenseParameters>, LinearMatrices) {
        let dense = self.dense.as_ref().map(|dense| DenseParameters {
            linear: dense.linear.matrices(p),
            activation: dense.activation,
            norm: dense.norm.parameters(p),
        });
        (dense, self.out.matrices(p))
    }
}
