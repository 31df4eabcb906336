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

    /// Rows per task, so that a task is long enough to be worth handing to a thread.
    fn rows_per_task(&self, width: usize) -> usize {
        let per_row = (self.values.len() / self.rows().max(1) + 1) * width;
        (VALUES_PER_TASK / per_row).max(1)
    }

    /// Calls `work(row, out)` for every row, where `out` is the row's part of `outputs` (rows, width).
    pub(crate) fn each_row(&self, width: usize, outputs: &mut [f32], work: impl Fn(usize, &mut [f32]) + Sync) {
        let per_task = self.rows_per_task(width);
        outputs.par_chunks_mut(per_task * width).enumerate().for_each(|(task, outputs)| {
            for (row, out) in outputs.chunks_exact_mut(width).enumerate() {
                work(task * per_task + row, out);
            }
        });
    }

    /// `outputs` += self · `dense`.
    ///
    /// # Shapes
    ///
    /// self (rows, columns); `dense` (columns, width); `outputs` (rows, width).
    pub(crate) fn multiply_add(&self, dense: &[f32], width: usize, outputs: &mut [f32]) {
        self.each_row(width, outputs, |row, out| {
            let (columns, values) = self.row(row);
            multiply_row(columns, values, dense, out);
        });
    }
}

/// `out` += Σⱼ `values`ⱼ · `dense`[`columns`ⱼ], four sums at a time where a row of `dense` is one number.
pub(crate) fn multiply_row(columns: &[u32], values: &[f32], dense: &[f32], out: &mut [f32]) {
    if let [out] = out {
        let mut sums = [0.0; 4];
        let (mut four_columns, mut four_values) = (columns.chunks_exact(4), values.chunks_exact(4));
        for (columns, values) in (&mut four_columns).zip(&mut four_values) {
            for lane in 0..4 {
                sums[lane] += values[lane] * dense[columns[lane] as usize];
            }
        }
        for (&column, value) in four_columns.remainder().iter().zip(four_values.remainder()) {
            sums[0] += value * dense[column as usize];
        }
        *out += (sums[0] + sums[1]) + (sums[2] + sums[3]);
        return;
    }
    let width = out.len();
    for (&column, &value) in columns.iter().zip(values) {
        let start = column as usize * width;
        for (out, weight) in out.iter_mut().zip(&dense[start..start + width]) {
            *out += value * weight;
        }
    }
}
