//! The integration tests of `chumoku`, one module a subject, in one program that is linked once.

mod attend_files;
mod crew;
mod estimate;
mod marian;
mod pretrained;
mod static_vectors;
mod tokens;
