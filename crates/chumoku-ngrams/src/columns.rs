//! The training rows by columns, and the product with their Gram matrix that fitting consists of.
//!
//! Fitting needs X only as G = X Xᵀ: a step of the solver is a matrix A (rows, outputs) that stands for the weights
//! W = Xᵀ A, and their scores are X W = G A. With xⱼ the column of the feature j,
//!
//! G A = Σⱼ xⱼ (xⱼᵀ A),
//!
//! so one pass over the columns is enough, each column being read twice while it is in the first cache. What it reads and
//! adds to has a row for each text and fits the second cache, where an array of weights (a row for each n-gram) would
//! not.
//!
//! Columns are cut into pieces by the data alone. Each piece adds up its own part and the parts are added in order, so
//! results do not depend on the number of threads.

use super::vector::ROW_BLOCK;
use chumoku_kernels::parallel;
use std::ops::Range;

/// A sparse matrix by columns: column j has `values[starts[j]..starts[j + 1]]` in `rows`, ascending.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    starts: Vec<usize>,
    rows: Vec<u32>,
    values: Vec<f32>,
    num_rows: usize,
    pieces: Vec<Range<usize>>,
}

/// Most pieces that columns are cut into: that many threads can share a product.
const MOST_PIECES: usize = 16;
/// A piece has at least this many stored values for each row, so that adding up the pieces is the smaller work.
const VALUES_PER_ROW: usize = 8;

impl Columns {
    /// # Panics
    /// If a row is not below `num_rows`, or `starts` are not those of as many rows and values.
    pub(crate) fn new(starts: Vec<usize>, rows: Vec<u32>, values: Vec<f32>, num_rows: usize) -> Self {
        assert!(rows.iter().all(|&row| (row as usize) < num_rows), "rows lie within the matrix");
        assert!(rows.len() == values.len() && starts.last() == Some(&rows.len()), "a row for each value");
        let columns = starts.len() - 1;
        let count = (values.len() / (VALUES_PER_ROW * num_rows.max(1))).clamp(2, MOST_PIECES);
        let border = |piece: usize| match piece {
            0 => 0,
            _ if piece == count => columns,
            _ => starts.partition_point(|&start| start < values.len() / count * piece).min(columns),
        };
        let pieces = (0..count).map(|piece| border(piece)..border(piece + 1)).collect();
        Columns { starts, rows, values, num_rows, pieces }
    }

    pub(crate) fn num_rows(&self) -> usize {
        self.num_rows
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    fn column(&self, column: usize) -> (&[u32], &[f32]) {
        let range = self.starts[column]..self.starts[column + 1];
        (&self.rows[range.clone()], &self.values[range])
    }

    /// `out` = X Xᵀ `a`, both (rows, `width`), where `width` is one that [`padded`] gives. `work` is kept for the next
    /// product.
    pub(crate) fn gram_times(&self, a: &[f32], width: usize, out: &mut [f32], work: &mut Vec<Vec<f32>>) {
        match lanes(width) {
            1 => self.gram_panels::<1>(a, width, out, work),
            4 => self.gram_panels::<4>(a, width, out, work),
            8 => self.gram_panels::<8>(a, width, out, work),
            12 => self.gram_panels::<12>(a, width, out, work),
            _ => self.gram_panels::<16>(a, width, out, work),
        }
    }

    fn gram_panels<const LANES: usize>(&self, a: &[f32], width: usize, out: &mut [f32], work: &mut Vec<Vec<f32>>) {
        work.resize_with(self.pieces.len(), Vec::new);
        let mut panel = Vec::new();
        for first in (0..width).step_by(LANES) {
            // Wide matrices are taken a few columns at a time, packed, so that they stay in the cache.
            let a = if width == LANES {
                a.as_chunks::<LANES>().0
            } else {
                panel.clear();
                panel.extend(a.chunks_exact(width).map(|row| *row[first..].first_chunk::<LANES>().expect("padded")));
                &panel
            };
            parallel::for_each_chunk(work, 1, |piece, sums| {
                let sums = &mut sums[0];
                sums.clear();
                sums.resize(self.num_rows * LANES, 0.0);
                self.add_gram(self.pieces[piece].clone(), a, sums.as_chunks_mut::<LANES>().0);
            });
            parallel::for_each_chunk(out, ROW_BLOCK * width, |block, out| {
                for (row, out) in out.chunks_exact_mut(width).enumerate() {
                    let at = (block * ROW_BLOCK + row) * LANES;
                    let mut sum = [0.0; LANES];
                    for part in &*work {
                        sum.iter_mut().zip(&part[at..at + LANES]).for_each(|(sum, part)| *sum += part);
                    }
                    out[first..first + LANES].copy_from_slice(&sum);
                }
            });
        }
    }

    fn add_gram<const LANES: usize>(&self, columns: Range<usize>, a: &[[f32; LANES]], sums: &mut [[f32; LANES]]) {
        for column in columns {
            let (rows, values) = self.column(column);
            let mut weights = [0.0; LANES];
            for (&row, &value) in rows.iter().zip(values) {
                let a = &a[row as usize];
                for lane in 0..LANES {
                    weights[lane] += value * a[lane];
                }
            }
            for (&row, &value) in rows.iter().zip(values) {
                let sum = &mut sums[row as usize];
                for lane in 0..LANES {
                    sum[lane] += value * weights[lane];
                }
            }
        }
    }

    /// W = Xᵀ `a`, (columns, `outputs`), of `a` (rows, `width`).
    pub(crate) fn weights(&self, a: &[f32], width: usize, outputs: usize) -> Vec<f32> {
        let mut weights = vec![0.0; self.len() * outputs];
        parallel::for_each_chunk(&mut weights, COLUMN_BLOCK * outputs, |block, weights| {
            for (column, weights) in weights.chunks_exact_mut(outputs).enumerate() {
                let (rows, values) = self.column(block * COLUMN_BLOCK + column);
                for (&row, &value) in rows.iter().zip(values) {
                    let a = &a[row as usize * width..][..outputs];
                    weights.iter_mut().zip(a).for_each(|(weight, a)| *weight += value * a);
                }
            }
        });
        weights
    }
}

/// Columns whose weights one task makes.
const COLUMN_BLOCK: usize = 1 << 10;

/// Numbers that one pass over the columns takes of each row.
const fn lanes(width: usize) -> usize {
    match width {
        0..=1 => 1,
        2..=4 => 4,
        5..=8 => 8,
        9..=12 => 12,
        _ => 16,
    }
}

/// Bytes that fitting holds for so many rows and outputs, about: fifteen matrices of the solver, and what products are added up in.
pub(crate) fn bytes_of_fitting(rows: usize, outputs: usize) -> f64 {
    const MATRICES: f64 = 15.0;
    let (width, sums) = (padded(outputs) as f64, (MOST_PIECES * lanes(outputs)) as f64);
    size_of::<f32>() as f64 * rows as f64 * (MATRICES * width + sums)
}

/// Numbers for each row of a matrix with that many outputs: zeros follow the outputs.
pub(crate) fn padded(outputs: usize) -> usize {
    outputs.next_multiple_of(lanes(outputs))
}
