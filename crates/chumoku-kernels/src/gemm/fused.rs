//! A product as it is asked for.

use super::epilogue::Epilogue;
use super::matrix::{MatRef, OutputInit, Precision};
use super::packed::Rhs;

/// A product into memory of its own: `C = then(bias + A·B)`.
#[derive(Debug)]
pub struct FusedGemm<'a, T> {
    /// (m, k)
    pub a: MatRef<'a, T>,
    /// (k, n)
    pub b: Rhs<'a, T>,
    /// (n,)
    pub bias: Option<&'a [T]>,
    /// What is done with the sums.
    pub epilogue: Epilogue<'a, T>,
    /// How exact the products are.
    pub precision: Precision,
}

impl<'a, T> FusedGemm<'a, T> {
    pub(super) fn init(&self) -> OutputInit<'a, T> {
        self.bias.map_or(OutputInit::Zero, OutputInit::Bias)
    }
}
