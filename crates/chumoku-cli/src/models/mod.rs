//! Models: loading, embeddings, and the overlap of their training texts with a file.
//!
//! # Files
//!
//! - `embedding`: embeddings of many texts
//! - `load`: loading models
//! - `training_overlap`: test rows that a model was trained on

pub(crate) mod embedding;
pub(crate) mod load;
mod training_overlap;

pub(crate) use load::{model_name, require_attention};
pub(crate) use training_overlap::{load_with_training_texts, report_training_overlap};
