//! Normalizes texts for comparison.

use crate::row::{AsRow, Row, RowRef};

/// Normalizes a row to decide whether two rows are equal: trimmed, in lowercase, with runs of white space as one
/// space, and without feature columns.
pub fn normalize(row: impl AsRow) -> Row {
    normalize_row(row.as_row())
}

fn normalize_row(row: RowRef<'_>) -> Row {
    let Some((first, second)) = row.pair() else { return normalize_text(row.text()).into() };
    let [mut start, mut end] = [first, second].map(normalize_text);
    // White space where the texts meet counts, unless its text is empty: hashes of pairs depend on it.
    if !start.is_empty() && first.ends_with(char::is_whitespace) {
        start.push(' ');
    }
    if !end.is_empty() && second.starts_with(char::is_whitespace) {
        end.insert(0, ' ');
    }
    Row::pair(&start, &end)
}

/// Normalizes a single text, like [`normalize`].
pub(crate) fn normalize_text(text: &str) -> String {
    let lower = text.to_lowercase();
    let mut out = String::with_capacity(lower.len());
    for word in lower.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}
