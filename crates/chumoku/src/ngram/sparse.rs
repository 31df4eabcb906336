//! Sparse matrices by rows, and their two products with dense ones.
//!
//! Each element of a product is one sum in a fixed order, made by one thread, so results do not depend on how many
//! threads there are.

use rayon::prelude::*;

/// A sparse matrix in compressed rows: row i holds `indices[starts[i]..starts[i + 1]]`, ascending, with their `values`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sparse {
    pub(crate) starts: Vec<usize>,
    pub(crate) indices: Vec<u32>,
    pub(crate) values: Vec<f32>,
    pub(crate) columns: usize,
}

/// Rows that one task works on, about this many stored values.
const VALUES_PER_TASK: usize = 1 << 14;

impl Sparse {
    pub(crate) fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    pub(crate) fn row(&self, row: usize) -> (&[u32], &[f32]) {
        let range = self.starts[row]..self.starts[row + 1];
        (&self.indices[range.clone()], &self.values[range])
    }

    /// The transposed matrix.
    pub(crate) fn transposed(&self) -> Sparse {
        let mut starts = vec![0; self.columns + 1];
        for &column in &self.indices {
            starts[column as usize + 1] += 1;
        }
        for column in 0..self.columns {
            starts[column + 1] += starts[column];
        }
        let mut next = starts.clone();
        let mut indices = vec![0; self.indices.len()];
        let mut values = vec![0.0; self.values.len()];
        for row in 0..self.rows() {
            let (columns, row_values) = self.row(row);
            for (&column, &value) in columns.iter().zip(row_values) {
                let at = &mut next[column as usize];
                indices[*at] = row as u32;
                values[*at] = value;
                *at += 1;
            }
        }
        Sparse { starts, indices, values, columns: self.rows() }
    }

    /// `outputs` += f(self) · `dense`, where f (`map`) is applied to each stored value.
    ///
    /// Wide rows of `dense` are taken a panel of a few columns at a time, packed, so that the panel stays in the cache
    /// while the stored values pass.
    ///
    /// # Shapes
    ///
    /// self (rows, columns); `dense` (columns, width); `outputs` (rows, width).
    pub(crate) fn multiply_add(
        &self,
        map: impl Fn(f32) -> f32 + Sync,
        dense: &[f32],
        width: usize,
        outputs: &mut [f32],
    ) {
        match width {
            0 => {}
            1 => self.each_row(1, outputs, |row, out| {
                let (columns, values) = self.row(row);
                out[0] += sum_products(columns, values, dense, &map);
            }),
            2..=4 => self.multiply_panels::<4>(map, dense, width, outputs),
            5..=8 => self.multiply_panels::<8>(map, dense, width, outputs),
            _ => self.multiply_panels::<16>(map, dense, width, outputs),
        }
    }

    fn multiply_panels<const PANEL: usize>(
        &self,
        map: impl Fn(f32) -> f32 + Sync,
        dense: &[f32],
        width: usize,
        outputs: &mut [f32],
    ) {
        let mut panel = vec![[0.0; PANEL]; self.columns];
        for start in (0..width).step_by(PANEL) {
            let taken = PANEL.min(width - start);
            panel.par_iter_mut().zip(dense.par_chunks_exact(width)).with_min_len(PACK).for_each(|(to, from)| {
                to[..taken].copy_from_slice(&from[start..start + taken]);
                to[taken..].fill(0.0);
            });
            self.each_row(width, outputs, |row, out| {
                let (columns, values) = self.row(row);
                let mut sums = [0.0; PANEL];
                for (&column, &value) in columns.iter().zip(values) {
                    let (value, weights) = (map(value), &panel[column as usize]);
                    for lane in 0..PANEL {
                        sums[lane] += value * weights[lane];
                    }
                }
                let out = &mut out[start..start + taken];
                out.iter_mut().zip(sums).for_each(|(out, sum)| *out += sum);
            });
        }
    }

    /// Calls `work(row, out)` for every row, where `out` is the row's part of `outputs` (rows, width).
    fn each_row(&self, width: usize, outputs: &mut [f32], work: impl Fn(usize, &mut [f32]) + Sync) {
        let per_row = self.values.len() / self.rows().max(1) + 1;
        let per_task = (VALUES_PER_TASK / per_row).max(1);
        outputs.par_chunks_mut(per_task * width).enumerate().for_each(|(task, outputs)| {
            for (row, out) in outputs.chunks_exact_mut(width).enumerate() {
                work(task * per_task + row, out);
            }
        });
    }
}

/// Rows of a panel that one task packs.
const PACK: usize = 1 << 12;

/// A row, f applied to its values, times the single column `dense`; four sums at a time.
fn sum_products(columns: &[u32], values: &[f32], dense: &[f32], map: impl Fn(f32) -> f32) -> f32 {
    let mut sums = [0.0; 4];
    let (four_columns, last_columns) = columns.as_chunks::<4>();
    let (four_values, last_values) = values.as_chunks::<4>();
    for (columns, values) in four_columns.iter().zip(four_values) {
        for lane in 0..4 {
            sums[lane] += map(values[lane]) * dense[columns[lane] as usize];
        }
    }
    for (&column, &value) in last_columns.iter().zip(last_values) {
        sums[0] += map(value) * dense[column as usize];
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3])
}

/// `out` += the row of a text (`columns` and their `values`) times W (`dense`).
pub(crate) fn multiply_row(columns: &[u32], values: &[f32], dense: &[f32], out: &mut [f32]) {
    let width = out.len();
    for (&column, &value) in columns.iter().zip(values) {
        let weights = &dense[column as usize * width..][..width];
        out.iter_mut().zip(weights).for_each(|(out, weight)| *out += value * weight);
    }
}
