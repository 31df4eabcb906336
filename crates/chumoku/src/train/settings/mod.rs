//! Settings of a run: the plan, chosen from the data, and the options of the caller.
//!
//! # Files
//!
//! - `class_weights`: weights of classes
//! - `options`: options of the caller
//! - `plan`: all settings, chosen from the data
//! - `setting_overrides`: settings by name

pub(crate) mod class_weights;
pub(crate) mod options;
pub(crate) mod plan;
pub(crate) mod setting_overrides;
