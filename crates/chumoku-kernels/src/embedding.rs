//! Embedding lookup: scaled rows of a table, `y_t = scale · table[id_t]`, with scale √d_model in the transformer paper
//! (section 3.4).

use crate::memory::fill_uninit;
use crate::number::{Real, implementations};
use crate::profile;
use crate::threads::{SharedMut, for_each};
use crate::{Error, Result};

fn check<T>(ids: &[u32], table: &[T], width: usize, len: usize) -> Result<()> {
    if width == 0 || !table.len().is_multiple_of(width) {
        let problem = format!("expected rows of {width} values, got {} values", table.len());
        return Err(Error::value("embedding: table", problem));
    }
    let rows = table.len() / width;
    if let Some((at, id)) = ids.iter().enumerate().find(|&(_, &id)| id as usize >= rows) {
        return Err(Error::value("embedding: ids", format!("expected below {rows}, got {id} at position {at}")));
    }
    Error::check_length("embedding: y", ids.len() * width, len)
}

/// Looks up the rows of `ids`, times `scale`.
///
/// # Shapes
/// `table` (vocabulary, width), `ids` (tokens,) → (tokens, width).
///
/// # Errors
/// If an id is not a row of the table, or the lengths do not match.
pub fn embedding_forward<T: Real>(ids: &[u32], table: &[T], width: usize, scale: T) -> Result<Vec<T>> {
    check(ids, table, width, ids.len() * width)?;
    let _timed = profile::memory_bound::<T>("embedding", 2 * ids.len() * width);
    let len = ids.len() * width;
    let fill = |y: SharedMut<T>| {
        for_each(ids.len().div_ceil(ROWS), len, |piece| {
            for (at, &id) in ids.iter().enumerate().skip(piece * ROWS).take(ROWS) {
                let row = &table[id as usize * width..][..width];
                for (part, row) in row.chunks(COLS).enumerate() {
                    let mut scaled = [T::ZERO; COLS];
                    scaled.iter_mut().zip(row).for_each(|(y, &x)| *y = x * scale);
                    // SAFETY: each row belongs to only one piece.
                    unsafe { y.copy_from(at * width + part * COLS, &scaled[..row.len()]) };
                }
            }
        });
    };
    // SAFETY: the pieces cover all rows.
    Ok(unsafe { fill_uninit(len, fill) })
}

/// Adds the gradient `d_table[id_t] += scale · dy_t`, in the order of the tokens.
///
/// # Shapes
/// Same as in [`embedding_forward`].
///
/// # Errors
/// If an id is not a row of the table, or the lengths do not match.
pub fn embedding_backward<T: Real>(ids: &[u32], dy: &[T], width: usize, scale: T, d_table: &mut [T]) -> Result<()> {
    check(ids, d_table, width, dy.len())?;
    // A row of the table is read and written for each token.
    let _timed = profile::memory_bound::<T>("embedding, backward", 3 * dy.len());
    T::run::<EmbeddingBackward>((ids, dy, width, scale, d_table));
    Ok(())
}

implementations! {
    /// Both implementations of [`embedding_backward`].
    EmbeddingBackward<'a, T>(ids: &'a [u32], dy: &'a [T], width: usize, scale: T, d_table: &'a mut [T]) -> () {
        fast: backward_f32,
        reference: reference::embedding_backward,
    }
}

/// Tokens in a piece of work.
const ROWS: usize = 64;
/// Columns in a piece of work: a multiple of a cache line, so that threads do not write to the same line.
const COLS: usize = 64;

fn backward_f32(ids: &[u32], dy: &[f32], width: usize, scale: f32, d_table: &mut [f32]) {
    let shared = SharedMut::new(d_table);
    // Split by columns: ids may repeat but columns do not, and every sum keeps the order of the tokens.
    for_each(width.div_ceil(COLS), dy.len() * 2, |piece| {
        let first = piece * COLS;
        let count = COLS.min(width - first);
        for (&id, dy) in ids.iter().zip(dy.chunks_exact(width)) {
            // SAFETY: these columns belong to only this piece.
            let row = unsafe { shared.slice(id as usize * width + first, count) };
            row.iter_mut().zip(&dy[first..first + count]).for_each(|(d, &x)| *d += scale * x);
        }
    });
}

/// The reference implementation.
pub(crate) mod reference {
    use crate::number::Real;

    /// Adds the gradient of an embedding table, `d_table[id_t] += scale · dy_t`.
    pub(crate) fn embedding_backward<T: Real>(ids: &[u32], dy: &[T], width: usize, scale: T, d_table: &mut [T]) {
        for (t, &id) in ids.iter().enumerate() {
            for i in 0..width {
                d_table[id as usize * width + i] += scale * dy[t * width + i];
            }
        }
    }
}
