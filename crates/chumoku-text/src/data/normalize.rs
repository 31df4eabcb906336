//! What is left of a text when only what it says counts.

use crate::feature_columns;

/// The text that decides whether two rows say the same: trimmed, in lower case, runs of white space as one space; without what
/// stands [beside](crate::beside) it.
pub fn normalize(text: &str) -> String {
    let lower = feature_columns::text_of(text).to_lowercase();
    let mut out = String::with_capacity(lower.len());
    for word in lower.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}
