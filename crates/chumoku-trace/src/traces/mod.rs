//! Traces of examples and models, independent of their form.
//!
//! # Files
//!
//! - `attention_controls`: options that a page changes
//! - `model`: traces of models
//! - `model_loss`: gradients of a model's loss
//! - `trace_steps`: traces, independent of their form
//! - `traced_loss`: descriptions of gradients

pub(crate) mod attention_controls;
pub(crate) mod model;
pub(crate) mod model_loss;
pub(crate) mod trace_steps;
pub(crate) mod traced_loss;
