//! Rows through a model: reading ahead, answering, writing, and shards.
//!
//! # Files
//!
//! - `row_output`: output formats of rows
//! - `row_queue`: the queue between reading and answering
//! - `shard`: `--shard`
//! - `stream`: rows through a model

pub(crate) mod row_output;
mod row_queue;
pub(crate) mod shard;
pub(crate) mod stream;
