//! Worked examples: their files, options and inputs.
//!
//! # Files
//!
//! - `builtin`: built-in examples
//! - `caption`: titles and sources of examples
//! - `example`: files of examples
//! - `matrices`: matrices in files
//! - `missing`: missing inputs
//! - `object`: JSON objects with known keys
//! - `optimizer`: a step of AdamW
//! - `options`: options of an example
//! - `size_claims`: claims about sizes

pub(crate) mod builtin;
pub(crate) mod caption;
pub(crate) mod example;
pub(crate) mod matrices;
pub(crate) mod missing;
pub(crate) mod object;
pub(crate) mod optimizer;
pub(crate) mod options;
pub(crate) mod size_claims;
