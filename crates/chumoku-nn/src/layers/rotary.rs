//! Rotary positions of queries and keys, counted from 0 in each sequence.

use crate::{Error, Result};
use chumoku_kernels::{HeadsMut, Real, RotaryTable, RotationDirection, rotary_frequencies};
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;
use std::sync::{Arc, PoisonError, RwLock};

/// Turns pairs of a head's numbers by angles that grow with the position (Su et al. 2021), the pairs being half the
/// width apart as in GPT-NeoX and Llama: see [`RotaryTable`]. The table takes 12 · dim bytes a position.
#[derive(Clone, Debug)]
pub struct Rotary {
    /// What a step of position turns each pair by.
    speeds: Arc<[f64]>,
    /// The angles of as many positions as were needed so far.
    table: Arc<RwLock<Option<Arc<RotaryTable>>>>,
}

/// How a model's angles were slowed down, so that it reads more tokens than it was first trained on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RotaryScaling {
    /// Positions are divided by the factor (Chen et al. 2023).
    Linear {
        /// The factor.
        factor: f64,
    },
    /// Angles that go round rarely within the positions of the first training are divided by the factor, those that go
    /// round often stay, and those between are mixed (Llama 3.1: Grattafiori et al. 2024).
    Llama3 {
        /// The factor.
        factor: f64,
        /// Angles that go round less often than this are divided.
        low_freq_factor: f64,
        /// Angles that go round more often than this stay.
        high_freq_factor: f64,
        /// Positions of the first training.
        original_positions: f64,
    },
}

impl RotaryScaling {
    /// That its numbers can be used.
    ///
    /// # Errors
    /// If one is no finite number above 0, or the bounds are not apart.
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

    /// The speed that becomes of one.
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
    /// The angles that GPT-NeoX, Llama and the paper use: `position · 10000^(−2i/dim)`.
    pub const BASE: f64 = 10000.0;

    /// For heads of width `dim`, which must be even, with angles `position · base^(−2i/dim)`.
    pub fn new(dim: usize, base: f64) -> Self {
        Rotary { speeds: rotary_frequencies(dim, base).into(), table: Arc::default() }
    }

    /// The same with these angles slowed down.
    #[must_use]
    pub fn scaled(&self, scaling: RotaryScaling) -> Self {
        let speeds = self.speeds.iter().map(|&speed| scaling.scale_speed(speed)).collect();
        Rotary { speeds, table: Arc::default() }
    }

    /// What a step of position turns each pair of a head by.
    pub fn speeds(&self) -> &[f64] {
        &self.speeds
    }

    /// Turns the rows of each sequence, in place; the first of sequence s stands at `starts[s]`, or at 0.
    ///
    /// # Shapes
    /// `x` (sequences, heads, length, dim); `starts` (sequences,).
    ///
    /// # Errors
    /// If the shapes do not fit, or the width is odd.
    pub fn rotate<T: Real>(&self, x: HeadsMut<'_, T>, starts: Option<&[usize]>, turn: RotationDirection) -> Result<()> {
        let start = |s: usize| starts.and_then(|starts| starts.get(s)).copied().unwrap_or(0);
        let positions = (0..x.sequences()).map(|s| start(s).saturating_add(x.length(s))).max().unwrap_or(0);
        Ok(self.table(positions)?.rotate(x, starts, turn)?)
    }

    /// The table of at least so many positions.
    fn table(&self, positions: usize) -> Result<Arc<RotaryTable>> {
        // A panic elsewhere leaves a whole table, so a poisoned lock does not matter.
        if let Some(table) = &*self.table.read().unwrap_or_else(PoisonError::into_inner)
            && table.positions() >= positions
        {
            return Ok(Arc::clone(table));
        }
        // Twice the room each time: sequences that grow token by token need few tables.
        let room = positions.checked_next_power_of_two().unwrap_or(positions);
        let table = Arc::new(RotaryTable::with_frequencies(room, &self.speeds)?);
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&table));
        Ok(table)
    }
}
