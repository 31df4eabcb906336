//! Attention on every instruction set of this machine, at every level of precision and for every dtype, compared with
//! its definition in double precision.
//!
//! Inputs are between inaccessible pages, with NaN in the gaps between rows and in keys beyond the key lengths. Outputs
//! start as NaN between guard bytes.

mod accuracy;
mod case;
mod check;
mod decode;
mod determinism;
mod errors;
mod explain;
mod fence;
mod grid;
mod large_scores;
mod options;
mod oracle;
mod place;
mod plain;
mod poison;
mod random;
