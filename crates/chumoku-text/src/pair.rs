//! Text pairs: two texts joined into one row, for models that read pairs.
//!
//! U+001F (ASCII's *unit separator*), which no writing system uses, separates the two. Tokenizers replace it by a
//! token, and n-grams record which text they come from.

use crate::feature_columns;
use std::borrow::Cow;

/// The separator between the two texts of a pair.
pub const SEPARATOR: char = '\u{1f}';

/// Joins two texts into a pair. Separators inside them become spaces.
///
/// ```
/// use chumoku_text::pair;
///
/// let pair = pair::join("A man sleeps.", "Nobody sleeps.");
/// assert_eq!(pair::parts(&pair), Some(("A man sleeps.", "Nobody sleeps.")));
/// assert_eq!(pair::parts("A man sleeps."), None);
/// ```
#[must_use]
pub fn join(first: &str, second: &str) -> String {
    format!("{}{SEPARATOR}{}", remove_separators(first), remove_separators(second))
}

/// Replaces the separators of pairs and feature columns by spaces, so that the text is a single one.
#[must_use]
pub fn remove_separators(text: &str) -> Cow<'_, str> {
    let separators = [SEPARATOR, feature_columns::SEPARATOR];
    // Two searches for one byte each are faster than one search for either.
    match separators.iter().any(|separator| text.contains(*separator)) {
        false => text.into(),
        true => text.replace(separators, " ").into(),
    }
}

/// Returns the two texts of a pair, or `None` for a single text.
#[must_use]
pub fn split(text: &str) -> Option<(&str, &str)> {
    text.split_once(SEPARATOR)
}

/// Reads a line: a text or, for pairs, two texts separated by a tab. Returns `None` if the tab is missing.
#[must_use]
pub fn from_line(line: &str, reads_pairs: bool) -> Option<Cow<'_, str>> {
    match reads_pairs {
        false => Some(remove_separators(line)),
        true => line.split_once('\t').map(|(first, second)| join(first, second).into()),
    }
}

/// Formats a text or a pair, with its feature values ([`crate::feature_columns`]), for display.
#[must_use]
pub fn display(text: &str) -> Cow<'_, str> {
    if !text.contains([SEPARATOR, feature_columns::SEPARATOR]) {
        return text.into();
    }
    let own = feature_columns::text_of(text);
    let own = split(own).map_or_else(|| own.to_owned(), |(first, second)| format!("{first} | {second}"));
    let cells = feature_columns::values(text).filter(|cell| !cell.trim().is_empty());
    cells.fold(own, |shown, cell| shown + " | " + cell).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_pairs_split_into_their_texts() {
        for (first, second) in [("a", "b"), ("", ""), ("a\u{1f}b", "\u{1f}c"), ("一つ", "two\ttabs\n")] {
            let joined = join(first, second);
            let (a, b) = split(&joined).unwrap();
            assert_eq!((a, b), (&*first.replace('\u{1f}', " "), &*second.replace('\u{1f}', " ")));
        }
        assert_eq!((display("alone"), display(&join("a", "b"))), ("alone".into(), "a | b".into()));
    }
}
