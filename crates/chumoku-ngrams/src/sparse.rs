//! Sparse matrices by row, and their product with dense ones.
//!
//! One thread computes each element of a product as one sum in a fixed order, so results do not depend on the number of
//! threads.

use chumoku_kernels::parallel;

/// A sparse matrix in compressed rows: row i holds `indices[starts[i]..starts[i + 1]]`, ascending, with their `values`.
#[derive(Debug, Clone, Default)]
pub(crate) struct SparseRows {
    pub(crate) starts: Vec<usize>,
    pub(crate) indices: Vec<u32>,
    pub values: Vec<f32>,
}

impl SparseRows {
    pub(crate) fn num_rows(&self) -> usize {
        self.starts.len() - 1
    }

    pub(crate) fn row(&self, row: usize) -> (&[u32], &[f32]) {
        let range = self.starts[row]..self.starts[row + 1];
        (&self.indices[range.clone()], &self.values[range])
    }

    /// Returns self · `dense` + `bias` in every row. `dense` has as many columns as `bias` is long.
    pub(crate) fn matmul_plus(&self, dense: &[f32], bias: &[f32]) -> Vec<f32> {
        let mut out = bias.repeat(self.num_rows());
        parallel::for_each_chunk(&mut out, ROWS_PER_TASK * bias.len(), |task, out| {
            for (row, out) in (task * ROWS_PER_TASK..).zip(out.chunks_exact_mut(bias.len())) {
                let (columns, values) = self.row(row);
                multiply_row(columns, values, dense, out);
            }
        });
        out
    }
}

/// Rows per task.
const ROWS_PER_TASK: usize = 16;

/// Computes `out` += the row of a text (`columns` and their `values`) times W (`dense`).
pub(crate) fn multiply_row(columns: &[u32], values: &[f32], dense: &[f32], out: &mut [f32]) {
    let width = out.len();
    for (&column, &value) in columns.iter().zip(values) {
        let weights = &dense[column as usize * width..][..width];
        out.iter_mut().zip(weights).for_each(|(out, weight)| *out += value * weight);
    }
}
