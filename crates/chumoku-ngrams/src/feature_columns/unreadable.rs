//! Counters of unreadable column values.

use super::FeatureColumn;
use chumoku_text::row::AsRow;

/// Counts column values that a model cannot read and treats as missing.
#[derive(Clone, Debug)]
pub struct UnreadableValues<'a> {
    columns: &'a [FeatureColumn],
    /// The number of unreadable values of each column, and the first one.
    found: Vec<(usize, String)>,
}

impl<'a> UnreadableValues<'a> {
    /// Starts counting for a model that reads these columns.
    #[must_use]
    pub fn new(columns: &'a [FeatureColumn]) -> Self {
        UnreadableValues { columns, found: vec![(0, String::new()); columns.len()] }
    }

    /// Counts unreadable values in rows: texts with their column values.
    pub fn count<R: AsRow>(&mut self, rows: &[R]) {
        for row in rows {
            for ((column, cell), (count, first)) in self.columns.iter().zip(row.as_row().values()).zip(&mut self.found)
            {
                if column.is_unreadable(cell) {
                    if *count == 0 {
                        *first = cell.to_owned();
                    }
                    *count += 1;
                }
            }
        }
    }

    /// Returns one warning per column with unreadable values.
    #[must_use]
    pub fn messages(&self) -> Vec<String> {
        let found = self.columns.iter().zip(&self.found).filter(|(_, (count, _))| *count > 0);
        found.map(|(column, (count, first))| column.unreadable_message(*count, first)).collect()
    }
}
