//! The integration tests of `chumoku-kernels`: one module per subject, linked into a single program.

mod activations;
mod attention;
mod attention_cache;
mod attention_scores;
mod common;
mod every_isa;
mod large_results;
mod norms;
mod recurrent;
