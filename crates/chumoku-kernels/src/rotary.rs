//! Rotary position embeddings (RoPE): pairs of a head's values are rotated by angles that grow with the token's
//! position, so that the product of a query and a key depends only on their distance.
//!
//! With half the width h = dim/2 and angles `θ_i = position · base^(−i/h)`, i < h, the values i and i + h of a row form
//! a pair, as in GPT-NeoX and Llama. (The paper pairs neighbors, which is a permutation of the columns.)
//! `y_i = x_i cos θ_i − x_{i+h} sin θ_i`, `y_{i+h} = x_{i+h} cos θ_i + x_i sin θ_i`.
//!
//! Source: Su, Lu, Pan, Murtadha, Wen and Liu, "RoFormer: Enhanced Transformer with Rotary Position Embedding" (2021),
//! equation 34.

use crate::attention::HeadsMut;
use crate::isa::{self, Simd, SimdOp};
use crate::number::{Real, implementations};
use crate::profile;
use crate::threads::{SharedMut, for_each};
use crate::{Error, Result};

/// The direction of [`RotaryTable::rotate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotationDirection {
    /// Rotation by the angles: the forward pass.
    Forward,
    /// Rotation by the negative angles, which inverts the forward pass. This is also the backward pass, since the
    /// inverse of a rotation is its transpose.
    Inverse,
}

/// Returns the rotation angle of each pair per position step, for rows of `dim` values: `base^(−i/h)`, i < h = dim/2.
pub fn rotary_frequencies(dim: usize, base: f64) -> Vec<f64> {
    let half = dim / 2;
    (0..half).map(|i| base.powf(-(i as f64) / half as f64)).collect()
}

/// The cosines and sines of the angles of all positions, precomputed in double precision.
#[derive(Clone, Debug)]
pub struct RotaryTable {
    dim: usize,
    positions: usize,
    /// (positions, dim): each row contains the cosines, then the sines.
    table_f64: Vec<f64>,
    /// The same values, rounded to f32.
    table_f32: Vec<f32>,
}

impl RotaryTable {
    /// Creates the table of positions `0..positions` for rows of `dim` values.
    ///
    /// # Errors
    /// If `dim` is odd or 0, `base` is not a finite number above 0, or memory allocation fails.
    pub fn new(positions: usize, dim: usize, base: f64) -> Result<RotaryTable> {
        if dim == 0 || !dim.is_multiple_of(2) {
            return Err(Error::value("rotary: dim", format!("expected an even width, got {dim}")));
        }
        if !(base.is_finite() && base > 0.0) {
            return Err(Error::value("rotary: base", format!("expected a finite number above 0, got {base}")));
        }
        RotaryTable::with_frequencies(positions, &rotary_frequencies(dim, base))
    }

    /// Creates a table for other angles: pair i of a row at position p is rotated by `θ_i = p · frequencies[i]`.
    ///
    /// # Errors
    /// If there are no frequencies, one is not finite, or memory allocation fails.
    pub fn with_frequencies(positions: usize, speeds: &[f64]) -> Result<RotaryTable> {
        if speeds.is_empty() || !speeds.iter().all(|speed| speed.is_finite()) {
            return Err(Error::value("rotary: frequencies", "expected at least one number, and only finite ones"));
        }
        let dim = 2 * speeds.len();
        let mut double: Vec<f64> = Vec::new();
        let size = positions.checked_mul(dim).filter(|&size| double.try_reserve_exact(size).is_ok());
        if size.is_none() {
            return Err(Error::value("rotary: positions", format!("no memory for {positions} positions of {dim}")));
        }
        for position in 0..positions {
            let angles = || speeds.iter().map(|speed| position as f64 * speed);
            double.extend(angles().map(f64::cos));
            double.extend(angles().map(f64::sin));
        }
        let single = double.iter().map(|&x| x as f32).collect();
        Ok(RotaryTable { dim, positions, table_f64: double, table_f32: single })
    }

    /// Returns the number of positions.
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// Rotates each row of `x` by the angles of its position, in place. Row i of sequence s is at position
    /// `starts[s] + i`, or i without `starts`.
    ///
    /// Maximum error in f32: 2e-7 of the larger value of a pair.
    ///
    /// # Shapes
    /// `x` (batch, heads, length, dim), dense or packed; `starts` (batch,).
    ///
    /// # Errors
    /// If the shapes do not match, or a position is beyond the table.
    pub fn rotate<T: Real>(&self, x: HeadsMut<'_, T>, starts: Option<&[usize]>, turn: RotationDirection) -> Result<()> {
        if x.dim() != self.dim {
            return Err(Error::value("rotary: x", format!("expected rows of {}, got {}", self.dim, x.dim())));
        }
        if let Some(starts) = starts {
            Error::check_length("rotary: starts", x.sequences(), starts.len())?;
        }
        let mut rows = Vec::new();
        for sequence in 0..x.sequences() {
            let (start, length) = (starts.map_or(0, |starts| starts[sequence]), x.length(sequence));
            if length > self.positions.saturating_sub(start) && length > 0 {
                let problem = format!("expected below {}, got {length} from {start} on", self.positions);
                return Err(Error::value("rotary: positions", problem));
            }
            rows.extend((0..length).map(|row| RotaryRow { sequence, row, position: start + row }));
        }
        let _timed = profile::memory_bound::<T>("rotary positions", 2 * rows.len() * x.heads() * x.dim());
        T::run::<Rotation>((RotateArgs { table: self, x, rows: &rows, direction: turn },));
        Ok(())
    }
}

/// A row of all heads, and the position that determines its angles.
#[derive(Clone, Copy, Debug)]
struct RotaryRow {
    sequence: usize,
    row: usize,
    position: usize,
}

#[doc(hidden)]
#[derive(Debug)]
pub(crate) struct RotateArgs<'a, T> {
    table: &'a RotaryTable,
    x: HeadsMut<'a, T>,
    rows: &'a [RotaryRow],
    direction: RotationDirection,
}

impl RotaryTable {
    /// Returns the cosines and the sines of a position.
    fn cos_sin<'a, T>(&self, table: &'a [T], position: usize) -> (&'a [T], &'a [T]) {
        table[position * self.dim..][..self.dim].split_at(self.dim / 2)
    }
}

implementations! {
    /// Both implementations of [`RotaryTable::rotate`].
    Rotation<'a, T>(args: RotateArgs<'a, T>) -> () { fast: rotate_f32, reference: reference::rotate }
}

/// Rows in a piece of work.
const PIECE: usize = 32;

/// Some rows of all heads.
struct RotaryRows<'a, 'b> {
    args: &'a RotateArgs<'b, f32>,
    data: SharedMut<f32>,
    rows: &'a [RotaryRow],
}

impl SimdOp for RotaryRows<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let RotateArgs { table, x, direction: turn, .. } = self.args;
        let sign = simd.splat(if *turn == RotationDirection::Forward { 1.0 } else { -1.0 });
        for place in self.rows {
            let (cos, sin) = table.cos_sin(&table.table_f32, place.position);
            for head in 0..x.heads() {
                // SAFETY: rows do not overlap, as the constructor of the view has checked, and each belongs to one
                // task.
                let row = unsafe { self.data.slice(x.layout.row_offset(place.sequence, head, place.row), table.dim) };
                let (first, second) = row.split_at_mut(table.dim / 2);
                rotate_row(simd, first, second, (cos, sin), sign);
            }
        }
    }
}

/// Computes `a, b = a cos − b sin, b cos + a sin`, with `sign` times the sine.
#[inline(always)]
fn rotate_row<S: Simd>(simd: S, a: &mut [f32], b: &mut [f32], (cos, sin): (&[f32], &[f32]), sign: S::V) {
    let mut at = 0;
    while at < cos.len() {
        let (x, y) = (simd.load_up_to(&a[at..], 0.0), simd.load_up_to(&b[at..], 0.0));
        let (c, s) = (simd.load_up_to(&cos[at..], 0.0), simd.mul(simd.load_up_to(&sin[at..], 0.0), sign));
        simd.store_up_to(&mut a[at..], simd.sub(simd.mul(x, c), simd.mul(y, s)));
        simd.store_up_to(&mut b[at..], simd.mul_add(x, s, simd.mul(y, c)));
        at += S::LANES;
    }
}

fn rotate_f32(mut args: RotateArgs<f32>) {
    let data = SharedMut::new(args.x.reborrow().data);
    let args = &args;
    let work = args.rows.len() * args.x.heads() * args.table.dim * 4;
    for_each(args.rows.len().div_ceil(PIECE), work, |piece| {
        let rows = &args.rows[piece * PIECE..args.rows.len().min((piece + 1) * PIECE)];
        isa::dispatch(RotaryRows { args, data, rows });
    });
}

/// The reference implementation.
pub(crate) mod reference {
    use super::{RotateArgs, RotationDirection};
    use crate::number::Real;

    /// Computes `y_i = x_i cos θ_i − x_{i+h} sin θ_i` and `y_{i+h} = x_{i+h} cos θ_i + x_i sin θ_i`, where h is half
    /// the width.
    #[doc(hidden)]
    pub(crate) fn rotate<T: Real>(mut args: RotateArgs<T>) {
        let half = args.x.dim() / 2;
        for place in args.rows {
            let (cos, sin) = args.table.cos_sin(&args.table.table_f64, place.position);
            for head in 0..args.x.heads() {
                let row = args.x.row_mut(place.sequence, head, place.row);
                for i in 0..half {
                    let (x, y) = (row[i].to_f64(), row[i + half].to_f64());
                    let sin = if args.direction == RotationDirection::Forward { sin[i] } else { -sin[i] };
                    (row[i], row[i + half]) =
                        (T::round_from(x * cos[i] - y * sin), T::round_from(y * cos[i] + x * sin));
                }
            }
        }
    }
}
