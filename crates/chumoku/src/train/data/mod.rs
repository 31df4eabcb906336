//! Rows of texts with their answers, in three parts, and the files that they come from.
//!
//! # Files
//!
//! - `base_snapshot`: the base model in its folder, and its training texts
//! - `data_source`: training files, as a folder remembers them
//! - `folds`: folds for cross-validation
//! - `label_leaks`: columns that contain the label
//! - `row_weights`: weights of rows
//! - `training_data`: training, validation and test rows
//! - `training_texts`: hashes of training texts

pub(crate) mod base_snapshot;
pub(crate) mod data_source;
pub(crate) mod folds;
pub(crate) mod label_leaks;
pub(crate) mod row_weights;
pub(crate) mod training_data;
pub(crate) mod training_texts;
