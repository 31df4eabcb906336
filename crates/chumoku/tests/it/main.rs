//! Integration tests of `chumoku`: one module per subject, linked into one program.

#![allow(clippy::disallowed_methods, reason = "tests write files of their own")]

mod attend_files;
mod estimate;
mod marian;
mod pretrained;
mod static_vectors;
mod tokens;
mod worker_group;
