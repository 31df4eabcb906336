//! Two texts as one: what a reader of pairs is given.
//!
//! The two are joined by U+001F, the character that ASCII has for this (*unit separator*), which no writing uses. Whoever
//! reads pairs looks for it: tokenizers put a token of their own in its place, n-grams say which text they come from.

use crate::feature_columns;
use std::borrow::Cow;

/// What stands between the two texts of a pair.
pub const SEPARATOR: char = '\u{1f}';

/// The two texts of a pair as one. A separator inside them becomes a space.
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

/// A text that is no pair, and beside which nothing stands: the separators of both become spaces.
#[must_use]
pub fn remove_separators(text: &str) -> Cow<'_, str> {
    let separators = [SEPARATOR, feature_columns::SEPARATOR];
    // Two searches for one byte are faster than one for either.
    match separators.iter().any(|separator| text.contains(*separator)) {
        false => text.into(),
        true => text.replace(separators, " ").into(),
    }
}

/// The two texts of a pair; none if it is a single text.
#[must_use]
pub fn split(text: &str) -> Option<(&str, &str)> {
    text.split_once(SEPARATOR)
}

/// A line as it is read: a text or, where pairs are read, two with a tab between them. None if that is missing.
#[must_use]
pub fn from_line(line: &str, reads_pairs: bool) -> Option<Cow<'_, str>> {
    match reads_pairs {
        false => Some(remove_separators(line)),
        true => line.split_once('\t').map(|(first, second)| join(first, second).into()),
    }
}

/// A text, or both texts of a pair, and what stands beside them ([`crate::beside`]), as people read them.
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
    fn a_pair_has_two_texts_whatever_they_hold() {
        for (first, second) in [("a", "b"), ("", ""), ("a\u{1f}b", "\u{1f}c"), ("一つ", "two\ttabs\n")] {
            let joined = join(first, second);
            let (a, b) = split(&joined).unwrap();
            assert_eq!((a, b), (&*first.replace('\u{1f}', " "), &*second.replace('\u{1f}', " ")));
        }
        assert_eq!((display("alone"), display(&join("a", "b"))), ("alone".into(), "a | b".into()));
    }
}
