//! What the first rows of a file show of each of its columns.

use std::collections::HashSet;

use serde_json::Value;

use super::record::{Layout, Record};

/// What the first rows show of a column.
pub(crate) struct Profile {
    pub(crate) mean_chars: f64,
    pub(crate) distinct: usize,
    /// Rows with a value.
    pub(crate) filled: usize,
    /// Share of values with a letter in them.
    worded: f64,
    /// Share of values with white space or characters beyond ASCII: identifiers and addresses have neither.
    spaced: f64,
    /// Whether every value is a number.
    numeric: bool,
    pub(crate) nested: bool,
}

impl Profile {
    pub(crate) fn of(layout: &Layout, rows: &[&Record], column: usize) -> Self {
        let values: Vec<&str> =
            rows.iter().map(|row| row.field(column)).filter(|value| !value.trim().is_empty()).collect();
        let filled = values.len();
        let share =
            |has: &dyn Fn(&str) -> bool| values.iter().filter(|value| has(value)).count() as f64 / filled.max(1) as f64;
        Profile {
            mean_chars: values.iter().map(|value| value.chars().count()).sum::<usize>() as f64 / filled.max(1) as f64,
            distinct: values.iter().collect::<HashSet<_>>().len(),
            filled,
            worded: share(&|value| value.chars().any(char::is_alphabetic)),
            spaced: share(&|value| value.chars().any(|c| c.is_whitespace() || !c.is_ascii())),
            numeric: values.iter().all(|value| is_number(value)),
            nested: rows.iter().any(|row| nested_value(layout, row, column).is_some()),
        }
    }

    /// How much a column looks like text: long, and different in each row.
    pub(crate) fn text_score(&self) -> f64 {
        if self.nested || self.worded < 0.5 {
            return 0.0;
        }
        let like_identifiers = if self.spaced < 0.1 { 0.1 } else { 1.0 };
        self.mean_chars * self.distinct as f64 / self.filled.max(1) as f64 * like_identifiers
    }

    /// Whether a column looks like one side of pairs: words or numbers with something between, mostly different.
    pub(crate) fn is_sentence_like(&self) -> bool {
        self.text_score() > 0.0 && self.spaced >= 0.5 && self.distinct * 2 > self.filled
    }

    /// Whether a column holds numbers alone.
    pub(crate) fn is_numbers(&self) -> bool {
        self.filled > 0 && self.numeric
    }

    /// Whether a column looks like labels: short values, each twice or more on average.
    pub(crate) fn is_label_like(&self) -> bool {
        !self.nested && self.filled > 0 && self.mean_chars <= 40.0 && self.distinct * 2 <= self.filled
    }
}

/// The value of a column if it is a list or an object, which no text or label can be.
pub(crate) fn nested_value<'a>(layout: &Layout, row: &'a Record, column: usize) -> Option<&'a Value> {
    let value = row.object.as_ref()?.get(layout.columns.get(column)?)?;
    (value.is_array() || value.is_object()).then_some(value)
}

/// Whether a field is a number as files write them.
pub(crate) fn is_number(field: &str) -> bool {
    let field = field.trim();
    field.bytes().any(|b| b.is_ascii_digit()) && field.parse::<f64>().is_ok()
}
