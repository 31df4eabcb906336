//! Runs in a folder: start, resume, log, checkpoints, and the finished model.
//!
//! # Files
//!
//! - `checkpoint`: checkpoints on disk
//! - `folder_run`: a run in a folder: start, resume, checkpoints
//! - `learning_log`: losses and evaluations, read from the log
//! - `lock`: one run in a folder
//! - `output_folder`: the output folder of a run
//! - `progress`: progress, log and estimates of a run
//! - `run_identity`: run identity, and differences between runs
//! - `run_log`: the log of a run
//! - `run_time`: estimate of the remaining time
//! - `training`: inputs and end of a run

mod checkpoint;
pub(crate) mod folder_run;
pub(crate) mod learning_log;
mod lock;
pub(crate) mod output_folder;
pub(crate) mod progress;
pub(crate) mod run_identity;
mod run_log;
mod run_time;
pub(crate) mod training;
