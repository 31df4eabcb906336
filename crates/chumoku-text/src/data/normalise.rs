//! What is left of a text when only what it says counts.

use crate::beside;

/// The text that decides whether two rows say the same: trimmed, in lower case, runs of white space as one space; without what
/// stands [beside](crate::beside) it.
pub fn normalise(text: &str) -> String {
    let lower = beside::text_of(text).to_lowercase();
    let mut out = String::with_capacity(lower.len());
    for word in lower.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}
