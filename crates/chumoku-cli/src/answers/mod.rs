//! Rows through a model: reading ahead, answering, writing, and shards.
//!
//! # Files
//!
//! - `row_output`: output formats of rows
//! - `shard`: `--shard`
//! - `stream`: rows through a model

pub(crate) mod row_output;
pub(crate) mod shard;
pub(crate) mod stream;
