//! Formulas of steps, and one number of a step term by term.
//!
//! # Files
//!
//! - `batch_shape`: shapes in a batch of texts
//! - `equation`: operands and signs of formulas
//! - `expansion`: one number, term by term
//! - `formula`: formulas of steps

pub(crate) mod batch_shape;
pub(crate) mod equation;
pub(crate) mod expansion;
pub(crate) mod formula;
