//! The integration tests of `chumoku`, one module a subject, in one program that is linked once.

#![allow(clippy::disallowed_methods, reason = "tests write files of their own")]

mod attend_files;
mod crew;
mod estimate;
mod marian;
mod pretrained;
mod static_vectors;
mod tokens;
