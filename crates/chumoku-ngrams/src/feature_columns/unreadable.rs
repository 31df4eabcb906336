//! Values of columns that a model cannot read, as they are met in rows.

use super::FeatureColumn;
use chumoku_text::feature_columns::values;

/// Counts the values of columns that a model cannot read, and so takes for missing.
#[derive(Clone, Debug)]
pub struct UnreadableValues<'a> {
    columns: &'a [FeatureColumn],
    /// Of each column how many, and the first.
    found: Vec<(usize, String)>,
}

impl<'a> UnreadableValues<'a> {
    /// Of a model that reads these columns.
    #[must_use]
    pub fn new(columns: &'a [FeatureColumn]) -> Self {
        UnreadableValues { columns, found: vec![(0, String::new()); columns.len()] }
    }

    /// Looks at rows: texts with the values beside them.
    pub fn count<S: AsRef<str>>(&mut self, rows: &[S]) {
        for row in rows {
            for ((column, cell), (count, first)) in self.columns.iter().zip(values(row.as_ref())).zip(&mut self.found) {
                if column.is_unreadable(cell) {
                    if *count == 0 {
                        *first = cell.to_owned();
                    }
                    *count += 1;
                }
            }
        }
    }

    /// What there was: a sentence for each column.
    #[must_use]
    pub fn messages(&self) -> Vec<String> {
        let found = self.columns.iter().zip(&self.found).filter(|(_, (count, _))| *count > 0);
        found.map(|(column, (count, first))| column.unreadable_message(*count, first)).collect()
    }
}
