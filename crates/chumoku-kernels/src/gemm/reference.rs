//! The plain version: one number after another.

use super::finish::Then;
use super::matrix::{MatMut, MatRef, Start};
use super::product::Product;
use crate::activation::reference::{activation_backward, activation_forward};
use crate::dropout::{self, Dropout, Keep};
use crate::number::Real;

/// The matrix product, `c[i][j] = start + Σ_p a[i][p] · b[p][j]`.
pub fn gemm<T: Real>(a: MatRef<T>, b: MatRef<T>, start: Start<T>, mut c: MatMut<T>) {
    for i in 0..a.rows() {
        let row = c.row_mut(i);
        for (j, c) in row.iter_mut().enumerate() {
            let first = match start {
                Start::Zero => T::ZERO,
                Start::Keep => *c,
                Start::Bias(bias) => bias[j],
            };
            *c = first + (0..a.cols()).map(|p| a.at(i, p) * b.at(p, j)).sum();
        }
    }
}

/// The matrix product and what follows it, `then(bias + A·B)`.
pub fn product<T: Real>(p: Product<T>) -> Vec<T> {
    let shape = (p.a.rows(), p.b.matrix().cols());
    let start = p.start();
    let drop = |c: &mut [T], dropout: Option<Dropout>| {
        if let Some(keep) = dropout.and_then(Keep::of) {
            dropout::reference::dropout(c, keep);
        }
    };
    let mut c = vec![T::ZERO; shape.0 * shape.1];
    gemm(p.a, p.b.matrix(), start, MatMut::new(&mut c, shape.0, shape.1).expect("made so"));
    match p.then {
        Then::Nothing => {}
        Then::Activate { activation, dropout, slope } => {
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
        Then::Add { dropout, residual } => {
            drop(&mut c, dropout);
            c.iter_mut().zip(residual).for_each(|(c, &x)| *c += x);
        }
        Then::Multiply { by } => {
            c.iter_mut().zip(by).for_each(|(c, &x)| *c = if x == T::ZERO { T::ZERO } else { *c * x });
        }
    }
    c
}
