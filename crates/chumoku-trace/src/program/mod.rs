//! Programs: the steps of a computation, their numbers and their gradients.
//!
//! # Files
//!
//! - `backward`: gradient rules of each operation
//! - `operands`: operands of an operation
//! - `operation`: each operation, for numbers and intervals
//! - `printed_number`: printed numbers and their intervals
//! - `quantity`: names and shapes of matrices
//! - `recurrence`: the recurrence of RNN, LSTM and GRU
//! - `step_kind`: quantity, gradient or moment
//! - `steps`: the steps in order

pub(crate) mod backward;
pub(crate) mod operands;
pub(crate) mod operation;
pub(crate) mod printed_number;
pub(crate) mod quantity;
pub(crate) mod recurrence;
pub(crate) mod step_kind;
pub(crate) mod steps;
