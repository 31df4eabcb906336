//! Shared test support: strict comparators, seeded data, poisoned buffers, central differences, golden files, the
//! extent of tests, and tests that need their own process.
//!
//! # Files
//!
//! - `alone`: tests in their own process
//! - `compare`: comparators
//! - `exhaustive`: number of cases
//! - `golden`: golden files
//! - `gradient`: central differences
//! - `poison`: NaN-filled buffers with guard bands
//! - `python`: the Python interpreter for tests

mod alone;
mod compare;
mod exhaustive;
mod golden;
mod gradient;
mod poison;
mod python;

pub use alone::in_own_process;
pub use compare::{Tolerance, compare};
pub use exhaustive::{cases, exhaustive};
pub use golden::GoldenFile;
pub use gradient::central_difference;
pub use poison::GuardedBuffer;
pub use python::python;

/// A small seeded generator for test data (SplitMix64; Steele, Lea and Flood 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Builds a generator with this seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number in −1..1.
    pub fn number(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// Returns an integer below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    /// Returns `n` numbers in −1..1, each exactly an f32.
    pub fn numbers(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.number() as f32).collect()
    }
}

/// Converts `f32` numbers to double precision.
pub fn to_f64(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}
