//! The training loop that all tasks share, and what it asks of a task. Start with `run`.
//!
//! # Files
//!
//! - `batches`: batches of similar lengths
//! - `memory`: estimate of peak memory
//! - `micro_batches`: micro-batches and their gradients
//! - `random_streams`: the random streams of a run
//! - `run`: the training loop
//! - `schedule`: the learning rate
//! - `train_event`: progress events
//! - `train_settings`: settings of a run, for any model
//! - `train_state`: AdamW, averaged and best weights
//! - `trainable`: the trait of a trainable task
//! - `weights_observer`: observers of the weights of a run
//! - `worker_group`: coordinator and workers of a shared run

pub(crate) mod batches;
pub(crate) mod memory;
pub(crate) mod micro_batches;
pub(crate) mod random_streams;
pub(crate) mod run;
mod schedule;
pub(crate) mod train_event;
pub(crate) mod train_settings;
pub(crate) mod train_state;
pub(crate) mod trainable;
pub(crate) mod weights_observer;
pub(crate) mod worker_group;
