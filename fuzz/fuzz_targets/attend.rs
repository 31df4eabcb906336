//! The files of `chumoku attend`: `cargo +nightly fuzz run attend`, in this folder's parent.

#![no_main]

use chumoku::tensors::{TensorFile, TensorFormat};

include!("../attend_bytes.rs");

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| attend_bytes(bytes));
