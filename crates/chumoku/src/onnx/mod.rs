//! Operators of ONNX, as their text defines them, over [`Tensor`]s.
//!
//! [`attention`] is the operator `Attention` of opset 23 to 25; [`attend`] takes its inputs and attributes from a file.

mod attention;
mod compute;
mod file;
mod float;
mod problem;
mod schema;
mod stepwise;
#[cfg(test)]
mod tests;

pub use crate::tensors::Tensor;
pub use attention::attention;
pub use file::{INPUTS, OUTPUTS, attend};
pub use schema::{Attributes, Inputs, Outputs, Wanted};
