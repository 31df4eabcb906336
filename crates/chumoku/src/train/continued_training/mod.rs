//! Continued training: a base model, old and new rows, and the comparison of two models.
//!
//! # Files
//!
//! - `base_model`: the base model of continued training
//! - `combined_rows`: old and new rows combined, plan and weights to start from
//! - `comparison`: an old and a new model on the same rows
//! - `model_changes`: metrics before and after continued training
//! - `replay`: old rows in continued training
//! - `replay_target`: task-specific parts of continued training

pub(crate) mod base_model;
pub(crate) mod combined_rows;
pub(crate) mod comparison;
pub(crate) mod model_changes;
pub(crate) mod replay;
pub(crate) mod replay_target;
