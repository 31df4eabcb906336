//! A product as it is asked for.

use super::finish::Then;
use super::matrix::{MatRef, Precision, Start};
use super::packed::Operand;

/// A product into memory of its own: `C = then(bias + A·B)`.
#[derive(Debug)]
pub struct Product<'a, T> {
    /// (m, k)
    pub a: MatRef<'a, T>,
    /// (k, n)
    pub b: Operand<'a, T>,
    /// (n,)
    pub bias: Option<&'a [T]>,
    /// What is done with the sums.
    pub then: Then<'a, T>,
    /// How exact the products are.
    pub precision: Precision,
}

impl<'a, T> Product<'a, T> {
    pub(super) fn start(&self) -> Start<'a, T> {
        self.bias.map_or(Start::Zero, Start::Bias)
    }
}
