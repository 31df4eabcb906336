//! Rotary positions of queries and keys. Positions count from 0 in each sequence.

use crate::{Error, Result};
use chumoku_kernels::{HeadsMut, Real, RotaryTable, RotationDirection, SharedCache, rotary_frequencies};
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;
use std::sync::Arc;

/// Rotates pairs of a head's numbers by angles that grow with the position (Su et al. 2021). As in GPT-NeoX and Llama,
/// the numbers of a pair are half the width apart: see [`RotaryTable`]. The table takes 12 · dim bytes per position.
#[derive(Clone, Debug)]
pub struct Rotary {
    /// The rotation angle of each pair per step of position.
    speeds: Arc<[f64]>,
    /// The angles of the positions needed so far.
    table: Arc<SharedCache<RotaryTable>>,
}

/// Scaling of a model's rotary angles for sequences longer than in its original training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RotaryScaling {
    /// Divides positions by the factor (Chen et al. 2023).
    Linear {
        /// The factor.
        factor: f64,
    },
    /// Divides low-frequency angles by the factor, keeps high-frequency angles, and interpolates in between (Llama 3.1:
    /// Grattafiori et al. 2024). The frequency is the number of turns within the original positions.
    Llama3 {
        /// The factor.
        factor: f64,
        /// Angles below this frequency are divided.
        low_freq_factor: f64,
        /// Angles above this frequency are kept.
        high_freq_factor: f64,
        /// Number of positions in the original training.
        original_positions: f64,
    },
}

impl RotaryScaling {
    /// Checks that the numbers are usable.
    ///
    /// # Errors
    /// If a number is not finite and above 0, or the high factor is not above the low one.
    pub fn check(&self) -> Result<()> {
        let (numbers, are_apart) = match *self {
            RotaryScaling::Linear { factor } => (vec![("factor", factor)], true),
            RotaryScaling::Llama3 { factor, low_freq_factor: low, high_freq_factor: high, original_positions } => {
                let all = vec![
                    ("factor", factor),
                    ("low_freq_factor", low),
                    ("high_freq_factor", high),
                    ("original_positions", original_positions),
                ];
                (all, high > low)
            }
        };
        if are_apart && numbers.iter().all(|(_, x)| x.is_finite() && *x > 0.0) {
            return Ok(());
        }
        let found: Vec<String> = numbers.iter().map(|(name, x)| format!("{name} {x}")).collect();
        Err(Error::RotaryScaling(found.join(", ")))
    }

    /// Returns the scaled speed.
    fn scale_speed(&self, speed: f64) -> f64 {
        match *self {
            RotaryScaling::Linear { factor } => speed / factor,
            RotaryScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_positions } => {
                let turns = original_positions * speed / TAU;
                let kept = ((turns - low_freq_factor) / (high_freq_factor - low_freq_factor)).clamp(0.0, 1.0);
                (1.0 - kept) * speed / factor + kept * speed
            }
        }
    }
}

impl Rotary {
    /// The base in GPT-NeoX, Llama and the paper: angles are `position · 10000^(−2i/dim)`.
    pub const BASE: f64 = 10000.0;

    /// Builds rotations for heads of width `dim`, which must be even, with angles `position · base^(−2i/dim)`.
    pub fn new(dim: usize, base: f64) -> Self {
        Rotary { speeds: rotary_frequencies(dim, base).into(), table: Arc::default() }
    }

    /// Returns a copy with scaled angles.
    #[must_use]
    pub fn scaled(&self, scaling: RotaryScaling) -> Self {
        let speeds = self.speeds.iter().map(|&speed| scaling.scale_speed(speed)).collect();
        Rotary { speeds, table: Arc::default() }
    }

    /// The rotation angle of each pair of a head per step of position.
    pub fn speeds(&self) -> &[f64] {
        &self.speeds
    }

    /// Rotates the rows of each sequence in place. The first row of sequence s has position `starts[s]`, or 0.
    ///
    /// # Shapes
    /// `x` (sequences, heads, length, dim); `starts` (sequences,).
    ///
    /// # Errors
    /// If the shapes do not match, or the width is odd.
    pub fn rotate<T: Real>(&self, x: HeadsMut<'_, T>, starts: Option<&[usize]>, turn: RotationDirection) -> Result<()> {
        let start = |s: usize| starts.and_then(|starts| starts.get(s)).copied().unwrap_or(0);
        let positions = (0..x.sequences()).map(|s| start(s).saturating_add(x.length(s))).max().unwrap_or(0);
        Ok(self.table(positions)?.rotate(x, starts, turn)?)
    }

    /// Returns a table of at least `positions` positions.
    fn table(&self, positions: usize) -> Result<Arc<RotaryTable>> {
        if let Some(table) = self.table.get().filter(|table| table.positions() >= positions) {
            return Ok(table);
        }
        // Double the capacity each time: sequences that grow token by token need few tables.
        let room = positions.checked_next_power_of_two().unwrap_or(positions);
        let table = Arc::new(RotaryTable::with_frequencies(room, &self.speeds)?);
        self.table.set(Arc::clone(&table));
        Ok(table)
    }
}
