//! Rows of a pair of texts or with feature columns, which Python passes to models.

use chumoku::row::{self, AsRow, RowRef};
use pyo3::prelude::*;

/// A pair of texts, or a text with the values of feature columns, as models read it.
#[pyclass(frozen, module = "chumoku._chumoku")]
pub(crate) struct Row(pub(crate) row::Row);

#[pymethods]
impl Row {
    /// The number of characters.
    fn __len__(&self) -> usize {
        self.0.as_row().joined().map(|part| part.chars().count()).sum()
    }
}

/// A row that Python passes: a single text without feature columns, or a [`Row`].
#[derive(FromPyObject)]
pub(crate) enum RowArgument {
    Text(String),
    Row(Py<Row>),
}

impl AsRow for RowArgument {
    fn as_row(&self) -> RowRef<'_> {
        match self {
            RowArgument::Text(text) => text.as_row(),
            RowArgument::Row(row) => row.get().0.as_row(),
        }
    }
}

/// Returns the row of two texts, which pair models read.
#[pyfunction]
pub(crate) fn joined(first: &str, second: &str) -> Row {
    Row(row::Row::pair(first, second))
}

/// Returns a text or a pair with the values of its feature columns.
#[pyfunction]
pub(crate) fn beside(text: RowArgument, cells: Vec<String>) -> Row {
    Row(text.as_row().with_values(&cells))
}
