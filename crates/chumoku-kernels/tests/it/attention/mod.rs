//! Attention on every instruction set this machine has, at every level of precision and for every type of number,
//! against its definition in double precision.
//!
//! Inputs lie between pages that must not be touched, with NaN in the gaps between rows and in keys that do not count;
//! outputs start as NaN between guard bands.

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
