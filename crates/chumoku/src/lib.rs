//! Chumoku.
