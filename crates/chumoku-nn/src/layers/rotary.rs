//! Rotary positions of queries and keys, counted from 0 in each sequence.

use crate::Result;
use chumoku_kernels::{HeadsMut, Real, RotaryTable, Turn};
use std::sync::{Arc, PoisonError, RwLock};

/// Turns pairs of a head's numbers by angles that grow with the position (Su et al. 2021), the pairs being half the
/// width apart as in GPT-NeoX and Llama: see [`RotaryTable`]. The table takes 12 · dim bytes a position.
#[derive(Clone, Debug)]
pub struct Rotary {
    dim: usize,
    base: f64,
    /// The angles of as many positions as were needed so far.
    table: Arc<RwLock<Option<Arc<RotaryTable>>>>,
}

impl Rotary {
    /// The angles that GPT-NeoX, Llama and the paper use: `position · 10000^(−2i/dim)`.
    pub const BASE: f64 = 10000.0;

    /// For heads of width `dim`, which must be even, with angles `position · base^(−2i/dim)`.
    pub fn new(dim: usize, base: f64) -> Self {
        Rotary { dim, base, table: Arc::default() }
    }

    /// Turns the rows of each sequence, in place; the first of sequence s stands at `starts[s]`, or at 0.
    ///
    /// # Shapes
    /// `x` (sequences, heads, length, dim); `starts` (sequences,).
    ///
    /// # Errors
    /// If the shapes do not fit, or the width is odd.
    pub fn rotate<T: Real>(&self, x: HeadsMut<'_, T>, starts: Option<&[usize]>, turn: Turn) -> Result<()> {
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
        let table = Arc::new(RotaryTable::new(room, self.dim, self.base)?);
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&table));
        Ok(table)
    }
}
