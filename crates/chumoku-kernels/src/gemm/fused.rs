//! The description of a product with its epilogue.

use super::epilogue::Epilogue;
use super::matrix::{MatRef, OutputInit, Precision};
use super::packed::Rhs;

/// A product into newly allocated memory: `C = epilogue(bias + A·B)`.
#[derive(Debug)]
pub struct FusedGemm<'a, T> {
    /// (m, k)
    pub a: MatRef<'a, T>,
    /// (k, n)
    pub b: Rhs<'a, T>,
    /// (n,)
    pub bias: Option<&'a [T]>,
    /// Operation on the sums.
    pub epilogue: Epilogue<'a, T>,
    /// Precision of the products.
    pub precision: Precision,
}

impl<'a, T> FusedGemm<'a, T> {
    pub(super) fn init(&self) -> OutputInit<'a, T> {
        self.bias.map_or(OutputInit::Zero, OutputInit::Bias)
    }
}
