//! ONNX operators over [`Tensor`]s, following their specification, and export of classifiers to ONNX files.
//!
//! [`attention`] is the operator `Attention` of opset 23 to 25. [`attend`] reads its inputs and attributes from a file.
//! [`export_classifier`] writes a classifier's network with ONNX's standard operators.
//!
//! # Files
//!
//! - `attention`: the operator
//! - `compute`: f32 and f64, with the kernels
//! - `export`: classifiers as ONNX files
//! - `file`: the operator on the tensors of a file
//! - `float`: number types of tensors
//! - `operator_params`: checks of inputs and attributes
//! - `operator_schema`: attributes, inputs and outputs
//! - `stepwise`: f16 and bf16, rounded after every step

mod attention;
mod compute;
mod export;
mod file;
mod float;
mod operator_params;
mod operator_schema;
mod stepwise;
#[cfg(test)]
mod tests;

pub use crate::tensors::Tensor;
pub use attention::attention;
pub use export::{EXPORT_INPUTS, EXPORT_OUTPUTS, ExportedClassifier, OPSET, export_classifier};
pub use file::attend;
pub use operator_schema::{Attributes, Inputs, Outputs, RequestedOutputs};
