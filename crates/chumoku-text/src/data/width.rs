//! The width of a table: every row has as many columns as the first.

use super::error::{DataError, SourceLocation};
use super::limits::MAX_COLUMNS;
use crate::lang::lang;

/// The number of columns, which the first row sets for all others.
#[derive(Default)]
pub(crate) struct RowWidth {
    /// The number, and the line that set it.
    pub(crate) expected: Option<(usize, u64)>,
}

impl RowWidth {
    /// Returns whether a line is not a row: it is empty, or white space in a table with several columns.
    pub(crate) fn is_blank(&self, line: &str, delimiter: char) -> bool {
        let several = self.expected.is_some_and(|(columns, _)| columns > 1);
        line.is_empty() || (several && !line.contains(delimiter) && line.trim().is_empty())
    }

    /// Checks the number of columns in a row. The first row sets it.
    pub(crate) fn check(
        &mut self,
        format: &'static str,
        place: impl FnOnce() -> SourceLocation,
        line: u64,
        found: usize,
    ) -> Result<(), DataError> {
        match self.expected {
            Some((expected, _)) if found == expected => Ok(()),
            Some((expected, model)) => Err(DataError::Ragged {
                place: place(),
                format,
                expected: expected as u64,
                found: found as u64,
                model,
                advice: match (format, found > expected) {
                    ("CSV", true) => lang().pick(
                        "put a text that holds the delimiter in quotes",
                        "区切り文字を含むテキストは引用符で囲んでください",
                    ),
                    ("JSON", true) => lang().pick("remove the extra values", "余分な値を取り除いてください"),
                    (_, true) => lang().pick("take the tabs out of the text", "テキストからタブを取り除いてください"),
                    (_, false) => lang().pick("add the missing values", "足りない値を補ってください"),
                },
            }),
            None if found > MAX_COLUMNS => Err(DataError::TooManyColumns { place: place(), limit: MAX_COLUMNS, found }),
            None => {
                self.expected = Some((found, line));
                Ok(())
            }
        }
    }
}
