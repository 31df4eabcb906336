//! Checks of printed numbers against the true ones, and likely mistakes behind wrong ones.
//!
//! # Files
//!
//! - `check`: claims against true numbers
//! - `implications`: implications of printed numbers
//! - `mistakes`: likely mistakes behind wrong claims
//! - `report`: results of a check in words

pub(crate) mod check;
pub(crate) mod implications;
pub(crate) mod mistakes;
pub(crate) mod report;
