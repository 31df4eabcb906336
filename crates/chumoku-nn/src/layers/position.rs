//! Sinusoidal and learned positional encodings, added to the embeddings. Positions count from 0 in each sequence.
//!
//! Rotary positions and ALiBi act inside attention and add nothing here.

use super::Offsets;
use crate::params::{Builder, Init, ParamId, Params};
use crate::{Error, Result};
use chumoku_kernels::{Real, SharedCache};
use ndarray::{Array2, ArrayView2, Axis};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The kind of positional encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PositionKind {
    /// No positions: the model sees the order of its tokens only through causality.
    #[default]
    None,
    /// Fixed sines and cosines.
    Sinusoidal,
    /// Fixed sines and cosines, all sines before all cosines: [`sinusoidal_halves`].
    SinusoidalHalves,
    /// A trained vector for each position.
    Learned,
    /// Rotates queries and keys by angles that grow with the position: [`super::Rotary`].
    Rotary,
    /// Lowers scores with the distance: [`super::alibi_slopes`].
    Alibi,
}

impl PositionKind {
    /// Returns whether the encoding is added to the embeddings; others act inside attention.
    pub(crate) fn is_added(self) -> bool {
        !matches!(self, PositionKind::None | PositionKind::Rotary | PositionKind::Alibi)
    }
}

/// Returns the sinusoidal encoding of positions `0..length`: `PE[pos][2i] = sin(pos / 10000^(2i/d))`,
/// `PE[pos][2i + 1] = cos(pos / 10000^(2i/d))`.
///
/// Source: Vaswani et al. 2017, section 3.5.
///
/// ```
/// let encoding = chumoku_nn::layers::sinusoidal::<f64>(2, 4);
/// assert_eq!(encoding.row(0).to_vec(), [0.0, 1.0, 0.0, 1.0]);
/// assert!((encoding[[1, 2]] - 0.01f64.sin()).abs() < 1e-12);
/// ```
pub fn sinusoidal<T: Real>(length: usize, d_model: usize) -> Array2<T> {
    let wavelengths: Vec<f64> =
        (0..d_model).map(|column| 10000f64.powf((column / 2 * 2) as f64 / d_model as f64)).collect();
    Array2::from_shape_fn((length, d_model), |(position, column)| {
        let angle = position as f64 / wavelengths[column];
        T::round_from(if column % 2 == 0 { angle.sin() } else { angle.cos() })
    })
}

/// Returns the numbers of [`sinusoidal`], with the sines in the first half of each row and the cosines in the second.
pub fn sinusoidal_halves<T: Real>(length: usize, d_model: usize) -> Array2<T> {
    let whole = sinusoidal(length, d_model);
    let half = d_model.div_ceil(2);
    let columns: Vec<usize> =
        (0..d_model).map(|column| if column < half { 2 * column } else { 2 * (column - half) + 1 }).collect();
    whole.select(Axis(1), &columns)
}

/// Adds the table row of its position to each token. Each sequence starts at its position in `starts`.
fn add_rows<T: Real, U: Real>(
    x: &mut Array2<T>,
    offsets: &Offsets,
    starts: impl Iterator<Item = usize>,
    table: ArrayView2<'_, U>,
) {
    for (range, start) in offsets.ranges().zip(starts) {
        for (position, token) in range.enumerate() {
            x.row_mut(token).zip_mut_with(&table.row(start + position), |x, &e| *x += T::round_from(e.to_f64()));
        }
    }
}

/// The positional encoding of a model.
#[derive(Clone, Debug)]
pub struct PositionEncoding {
    kind: PositionKind,
    weight: Option<ParamId>,
    max_length: usize,
    /// The row of a learned encoding for the first token of a sequence.
    first_row: usize,
    width: usize,
    /// The sinusoidal encoding of the positions needed so far.
    table: Arc<SharedCache<Array2<f64>>>,
}

impl PositionEncoding {
    /// Builds an encoding for sequences of at most `length` tokens. A learned one adds `weight` (length, d_model) to
    /// the model.
    pub fn new(builder: &mut Builder, kind: PositionKind, length: usize, d_model: usize) -> Self {
        PositionEncoding::with_first_position(builder, kind, 0, [length, d_model])
    }

    /// Like [`PositionEncoding::new`], with `first` extra rows of a learned encoding before the row of the first token.
    /// `weight` has the shape (first + length, d_model). RoBERTa reserves such rows for padding.
    pub(crate) fn with_first_position(
        builder: &mut Builder,
        kind: PositionKind,
        first: usize,
        [length, d_model]: [usize; 2],
    ) -> Self {
        let learned = kind == PositionKind::Learned;
        let weight = learned.then(|| builder.add("weight", &[first + length, d_model], Init::Normal(0.02)));
        PositionEncoding { kind, weight, max_length: length, first_row: first, width: d_model, table: Arc::default() }
    }

    /// Returns whether the encoding is added to the embeddings; others act inside attention.
    pub(super) fn is_added(&self) -> bool {
        self.kind.is_added()
    }

    /// Adds the encoding to `x` (tokens, d_model), in place.
    ///
    /// `backward` needs no cache.
    ///
    /// # Errors
    /// If a sequence is longer than the encoding.
    pub fn forward<T: Real>(&self, p: &Params<T>, x: &mut Array2<T>, offsets: &Offsets) -> Result<()> {
        self.forward_at(p, x, offsets, &[])
    }

    /// Like [`PositionEncoding::forward`], for tokens that follow `starts` earlier tokens of each sequence (0 if
    /// empty).
    ///
    /// # Errors
    /// If a sequence is longer than the encoding.
    pub fn forward_at<T: Real>(
        &self,
        p: &Params<T>,
        x: &mut Array2<T>,
        offsets: &Offsets,
        starts: &[usize],
    ) -> Result<()> {
        let starts = || starts.iter().copied().chain(std::iter::repeat(0));
        let longest = offsets.ranges().zip(starts()).map(|(range, start)| start + range.len()).max().unwrap_or(0);
        match (self.kind, self.weight) {
            (PositionKind::None | PositionKind::Rotary | PositionKind::Alibi, _) => {}
            (PositionKind::Sinusoidal | PositionKind::SinusoidalHalves, _) => {
                add_rows(x, offsets, starts(), self.sinusoidal(longest).view());
            }
            (PositionKind::Learned, Some(weight)) if longest <= self.max_length => {
                add_rows(x, offsets, starts().map(|start| self.first_row + start), p.view(weight));
            }
            _ => return Err(Error::TooLong { limit: self.max_length, found: longest }),
        }
        Ok(())
    }

    /// Returns a table of at least `length` positions, computed once.
    fn sinusoidal(&self, length: usize) -> Arc<Array2<f64>> {
        if let Some(table) = self.table.get().filter(|table| table.nrows() >= length) {
            return table;
        }
        // Double the capacity each time: sequences that grow token by token need few tables.
        let room = length.checked_next_power_of_two().unwrap_or(length);
        let table = Arc::new(match self.kind {
            PositionKind::SinusoidalHalves => sinusoidal_halves(room, self.width),
            _ => sinusoidal(room, self.width),
        });
        self.table.set(Arc::clone(&table));
        table
    }

    /// Adds the gradient of a learned encoding, `dtable[position] += dy`. The gradient of x is dy itself.
    pub fn backward<T: Real>(&self, dy: ArrayView2<'_, T>, offsets: &Offsets, grads: &mut Params<T>) {
        let Some(weight) = self.weight.filter(|&weight| grads.is_trained(weight)) else { return };
        let table = grads.slice_mut(weight);
        for range in offsets.ranges() {
            for (position, token) in range.enumerate() {
                let row = &mut table[(self.first_row + position) * self.width..][..self.width];
                row.iter_mut().zip(dy.row(token)).for_each(|(d, &g)| *d += g);
            }
        }
    }
}
