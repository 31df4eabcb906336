//! Normalizes texts for comparison.

use crate::row;

/// Normalizes a text to decide whether two rows are equal: trimmed, in lowercase, with runs of white space as one
/// space, and without [feature columns](crate::row).
pub fn normalize(text: &str) -> String {
    let lower = row::without_columns(text).to_lowercase();
    let mut out = String::with_capacity(lower.len());
    for word in lower.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}
