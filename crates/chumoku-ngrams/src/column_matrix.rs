//! The training rows by column, and the product with their Gram matrix, which dominates fitting.
//!
//! Fitting needs X only as G = X Xᵀ. A step of the solver is a matrix A (rows, outputs) that represents the weights W =
//! Xᵀ A, and their scores are X W = G A. With xⱼ the column of feature j,
//!
//! G A = Σⱼ xⱼ (xⱼᵀ A),
//!
//! so one pass over the columns is enough. Each column is read twice while it is in the first-level cache. The operands
//! have one row per text and fit the second-level cache; an array of weights, with one row per n-gram, would not.
//!
//! Columns are divided into chunks by the data alone. Each chunk has its own sum, and the sums are added in order, so
//! results do not depend on the number of threads.

use super::packed::PackedColumns;
use super::vector::ROW_BLOCK;
use super::vocabulary::term_frequency;
use chumoku_kernels::parallel;
use std::ops::Range;

/// A sparse matrix by columns.
#[derive(Debug, Clone)]
pub(crate) struct ColumnMatrix {
    storage: ColumnStorage,
    num_rows: usize,
    /// Ranges of columns or, for packed storage, of column groups.
    chunks: Vec<Range<usize>>,
}

/// The storage of the columns.
#[derive(Debug, Clone)]
enum ColumnStorage {
    Plain(PlainColumns),
    Packed(WeightedPackedColumns),
}

/// Column j has `values[starts[j]..starts[j + 1]]` in `rows`, ascending.
#[derive(Debug, Clone)]
pub(crate) struct PlainColumns {
    starts: Vec<usize>,
    rows: Vec<u32>,
    values: Vec<f32>,
}

/// Packed columns of counts, whose values are computed on each read. Columns that are not counts come last.
#[derive(Debug, Clone)]
struct WeightedPackedColumns {
    /// Column groups, and the weight of each column.
    parts: Vec<(PackedColumns, Vec<f32>)>,
    /// The factor of each row's values, per block.
    scales: Vec<[f32; 2]>,
    others: PlainColumns,
}

/// Maximum number of entries with stored values, 8 bytes each. Tests use a small limit, so that some columns are
/// packed.
pub(crate) const MAX_PLAIN: usize = if cfg!(test) { 1 << 12 } else { 1 << 26 };
/// Maximum number of chunks, and so of threads that share a product.
const MAX_CHUNKS: usize = 16;
/// Minimum number of stored values per row in a chunk, so that adding the chunks' sums is the smaller part of the work.
const VALUES_PER_ROW: usize = 8;

impl Default for PlainColumns {
    fn default() -> Self {
        PlainColumns { starts: vec![0], rows: Vec::new(), values: Vec::new() }
    }
}

impl PlainColumns {
    fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Adds a column.
    pub(crate) fn push(&mut self, rows: &[u32], values: &[f32]) {
        self.rows.extend_from_slice(rows);
        self.values.extend_from_slice(values);
        self.starts.push(self.rows.len());
    }

    fn column(&self, column: usize) -> (&[u32], &[f32]) {
        let range = self.starts[column]..self.starts[column + 1];
        (&self.rows[range.clone()], &self.values[range])
    }
}

impl WeightedPackedColumns {
    /// Calls `each` with each column of a group, or with the columns that are not counts.
    fn for_each(&self, part: usize, mut each: impl FnMut(&[u32], &[f32])) {
        let Some((columns, weights)) = self.parts.get(part) else {
            return (0..self.others.len()).map(|j| self.others.column(j)).for_each(|(rows, values)| each(rows, values));
        };
        let (mut values, mut weights) = (Vec::new(), weights.iter());
        columns.for_each(|block, rows, counts| {
            let weight = weights.next().copied().unwrap_or_default();
            values.clear();
            let each_row = rows.iter().zip(counts);
            values.extend(
                each_row.map(|(&row, &count)| term_frequency(count) * weight * self.scales[row as usize][block]),
            );
            each(rows, &values);
        });
    }

    /// Returns all columns with their values. The groups have `stored` entries.
    fn unpack(&self, stored: usize) -> PlainColumns {
        let (mut rows, mut values) = (vec![0; stored], vec![0.0; stored]);
        let (mut rows_left, mut values_left) = (&mut rows[..], &mut values[..]);
        let mut parts = Vec::with_capacity(self.parts.len());
        for (columns, _) in &self.parts {
            let (rows, values);
            (rows, rows_left) = rows_left.split_at_mut(columns.num_entries());
            (values, values_left) = values_left.split_at_mut(columns.num_entries());
            parts.push((rows, values));
        }
        let lengths = parallel::map_chunks(&mut parts, 1, |part, place| {
            let (rows, values) = &mut place[0];
            let (mut at, mut lengths) = (0, Vec::with_capacity(self.part_len(part)));
            self.for_each(part, |of_column, weighted| {
                let range = at..at + of_column.len();
                rows[range.clone()].copy_from_slice(of_column);
                values[range.clone()].copy_from_slice(weighted);
                at = range.end;
                lengths.push(of_column.len());
            });
            lengths
        });
        let mut starts = vec![0];
        let mut end = 0;
        starts.extend(lengths.into_iter().flatten().map(|length| {
            end += length;
            end
        }));
        let mut plain = PlainColumns { starts, rows, values };
        self.for_each(self.parts.len(), |rows, values| plain.push(rows, values));
        plain
    }

    /// Returns the number of columns of a group, or of those that are not counts.
    fn part_len(&self, part: usize) -> usize {
        self.parts.get(part).map_or(self.others.len(), |(columns, _)| columns.len())
    }
}

/// Returns the number of chunks for `values` stored values.
fn num_chunks(values: usize, num_rows: usize) -> usize {
    (values / (VALUES_PER_ROW * num_rows.max(1))).clamp(2, MAX_CHUNKS)
}

impl ColumnMatrix {
    /// Builds columns from counts: each value is term frequency · weight of the column · scale of the row in the
    /// column's block. `others` follow. There is one scale per row.
    pub(crate) fn from_counts(
        parts: Vec<(PackedColumns, Vec<f32>)>,
        scales: Vec<[f32; 2]>,
        others: PlainColumns,
    ) -> Self {
        let num_rows = scales.len();
        let stored: usize = parts.iter().map(|(columns, _)| columns.num_entries()).sum();
        let packed = WeightedPackedColumns { parts, scales, others };
        let count = packed.parts.len();
        if stored <= MAX_PLAIN {
            return ColumnMatrix::from_plain(packed.unpack(stored), num_rows);
        }
        let pieces = num_chunks(stored, num_rows);
        let mut pieces_of_parts = vec![0..0; pieces];
        let (mut before, mut piece) = (0, 0);
        for (part, (columns, _)) in packed.parts.iter().enumerate() {
            while piece + 1 < pieces && before >= stored / pieces * (piece + 1) {
                piece += 1;
                pieces_of_parts[piece] = part..part;
            }
            pieces_of_parts[piece].end = part + 1;
            before += columns.num_entries();
        }
        pieces_of_parts[piece + 1..].fill(count..count);
        pieces_of_parts[pieces - 1].end = count + 1;
        ColumnMatrix { storage: ColumnStorage::Packed(packed), num_rows, chunks: pieces_of_parts }
    }

    /// Builds columns from compressed sparse arrays.
    ///
    /// # Panics
    /// If a row is not below `num_rows`, or `starts` do not match the lengths of `rows` and `values`.
    #[cfg(test)]
    pub(crate) fn new(starts: Vec<usize>, rows: Vec<u32>, values: Vec<f32>, num_rows: usize) -> Self {
        assert!(rows.iter().all(|&row| (row as usize) < num_rows), "rows lie within the matrix");
        assert!(rows.len() == values.len() && starts.last() == Some(&rows.len()), "a row for each value");
        ColumnMatrix::from_plain(PlainColumns { starts, rows, values }, num_rows)
    }

    fn from_plain(plain: PlainColumns, num_rows: usize) -> Self {
        let (starts, columns, values) = (&plain.starts, plain.len(), plain.values.len());
        let count = num_chunks(values, num_rows);
        let border = |piece: usize| match piece {
            0 => 0,
            _ if piece == count => columns,
            _ => starts.partition_point(|&start| start < values / count * piece).min(columns),
        };
        let pieces = (0..count).map(|piece| border(piece)..border(piece + 1)).collect();
        ColumnMatrix { storage: ColumnStorage::Plain(plain), num_rows, chunks: pieces }
    }

    pub(crate) fn num_rows(&self) -> usize {
        self.num_rows
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        match &self.storage {
            ColumnStorage::Plain(plain) => plain.len(),
            ColumnStorage::Packed(packed) => (0..=packed.parts.len()).map(|part| packed.part_len(part)).sum(),
        }
    }

    /// Returns true if the columns are packed.
    #[cfg(test)]
    pub(crate) fn is_packed(&self) -> bool {
        matches!(self.storage, ColumnStorage::Packed(_))
    }

    /// Calls `each` with each column of a chunk.
    fn for_each(&self, piece: Range<usize>, mut each: impl FnMut(&[u32], &[f32])) {
        match &self.storage {
            ColumnStorage::Plain(plain) => piece.map(|j| plain.column(j)).for_each(|(rows, values)| each(rows, values)),
            ColumnStorage::Packed(packed) => piece.for_each(|part| packed.for_each(part, &mut each)),
        }
    }

    /// Computes `out` = X Xᵀ `a`, both (rows, `width`), where `width` comes from [`padded_width`]. `work` is reused by
    /// the next product.
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
        work.resize_with(self.chunks.len(), Vec::new);
        let mut panel = Vec::new();
        for first in (0..width).step_by(LANES) {
            // Wide matrices are processed as panels of a few columns, packed to stay in the cache.
            let a = if width == LANES {
                a.as_chunks::<LANES>().0
            } else {
                panel.clear();
                panel.extend(
                    a.chunks_exact(width).map(|row| *row[first..].first_chunk::<LANES>().expect("rows are padded")),
                );
                &panel
            };
            parallel::for_each_chunk(work, 1, |piece, sums| {
                let sums = &mut sums[0];
                sums.clear();
                sums.resize(self.num_rows * LANES, 0.0);
                self.add_gram(self.chunks[piece].clone(), a, sums.as_chunks_mut::<LANES>().0);
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

    fn add_gram<const LANES: usize>(&self, piece: Range<usize>, a: &[[f32; LANES]], sums: &mut [[f32; LANES]]) {
        self.for_each(piece, |rows, values| {
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
        });
    }

    /// Returns W = Xᵀ `a`, (columns, `outputs`), for `a` (rows, `width`).
    pub(crate) fn weights(&self, a: &[f32], width: usize, outputs: usize) -> Vec<f32> {
        let add = |(rows, values): (&[u32], &[f32]), weights: &mut [f32]| {
            for (&row, &value) in rows.iter().zip(values) {
                let a = &a[row as usize * width..][..outputs];
                weights.iter_mut().zip(a).for_each(|(weight, a)| *weight += value * a);
            }
        };
        match &self.storage {
            ColumnStorage::Plain(plain) => {
                let mut weights = vec![0.0; plain.len() * outputs];
                parallel::for_each_chunk(&mut weights, COLUMN_BLOCK * outputs, |block, weights| {
                    for (column, weights) in weights.chunks_exact_mut(outputs).enumerate() {
                        add(plain.column(block * COLUMN_BLOCK + column), weights);
                    }
                });
                weights
            }
            ColumnStorage::Packed(packed) => {
                let of_part = |part: usize| {
                    let mut weights = vec![0.0; packed.part_len(part) * outputs];
                    let mut columns = weights.chunks_exact_mut(outputs);
                    packed.for_each(part, |rows, values| {
                        if let Some(weights) = columns.next() {
                            add((rows, values), weights);
                        }
                    });
                    weights
                };
                parallel::map_indices(packed.parts.len() + 1, of_part).concat()
            }
        }
    }
}

/// Columns whose weights one task computes.
const COLUMN_BLOCK: usize = 1 << 10;

/// Returns the numbers per row that one pass over the columns processes.
const fn lanes(width: usize) -> usize {
    match width {
        0..=1 => 1,
        2..=4 => 4,
        5..=8 => 8,
        9..=12 => 12,
        _ => 16,
    }
}

/// Returns the approximate bytes that fitting holds: fifteen matrices of the solver, and the sums of products.
pub(crate) fn fitting_bytes(rows: usize, outputs: usize) -> f64 {
    const MATRICES: f64 = 15.0;
    let (width, sums) = (padded_width(outputs) as f64, (MAX_CHUNKS * lanes(outputs)) as f64);
    size_of::<f32>() as f64 * rows as f64 * (MATRICES * width + sums)
}

/// Returns the row length of a matrix with `outputs` outputs; zeros follow the outputs.
pub(crate) fn padded_width(outputs: usize) -> usize {
    outputs.next_multiple_of(lanes(outputs))
}
