//! The reference implementation: one element at a time.

use super::epilogue::Epilogue;
use super::fused::FusedGemm;
use super::matrix::{MatMut, MatRef, OutputInit};
use crate::activation::reference::{activation_backward, activation_forward};
use crate::dropout::{self, Dropout, DropoutMask};
use crate::number::Real;

/// Computes the matrix product, `c[i][j] = init + Σ_p a[i][p] · b[p][j]`.
pub fn gemm<T: Real>(a: MatRef<T>, b: MatRef<T>, start: OutputInit<T>, mut c: MatMut<T>) {
    for i in 0..a.rows() {
        let row = c.row_mut(i);
        for (j, c) in row.iter_mut().enumerate() {
            let first = match start {
                OutputInit::Zero => T::ZERO,
                OutputInit::Keep => *c,
                OutputInit::Bias(bias) => bias[j],
            };
            *c = first + (0..a.cols()).map(|p| a.at(i, p) * b.at(p, j)).sum();
        }
    }
}

/// Computes the matrix product and its epilogue, `epilogue(bias + A·B)`.
pub(crate) fn fused_gemm<T: Real>(p: FusedGemm<T>) -> Vec<T> {
    let shape = (p.a.rows(), p.b.matrix().cols());
    let start = p.init();
    let drop = |c: &mut [T], dropout: Option<Dropout>| {
        if let Some(keep) = dropout.and_then(DropoutMask::from_dropout) {
            dropout::reference::dropout(c, keep);
        }
    };
    let mut c = vec![T::ZERO; shape.0 * shape.1];
    gemm(p.a, p.b.matrix(), start, MatMut::new(&mut c, shape.0, shape.1).expect("made so"));
    match p.epilogue {
        Epilogue::Identity => {}
        Epilogue::Activate { activation, dropout, slope } => {
            if let Some(slope) = slope {
                *slope = vec![T::ZERO; c.len()];
                activation_backward(activation, &c, &vec![T::ONE; c.len()], slope);
                drop(slope, dropout);
            }
            let mut y = vec![T::ZERO; c.len()];
            activation_forward(activation, &c, &mut y);
            drop(&mut y, dropout);
            c = y;
        }
        Epilogue::AddResidual { dropout, residual } => {
            drop(&mut c, dropout);
            c.iter_mut().zip(residual).for_each(|(c, &x)| *c += x);
        }
        Epilogue::Multiply { factors: by } => {
            c.iter_mut().zip(by).for_each(|(c, &x)| *c = if x == T::ZERO { T::ZERO } else { *c * x });
        }
    }
    c
}
