//! Rows: a text or a pair of texts, with the values of feature columns such as a price, a shop or a date.
//!
//! # Representation
//!
//! A row is one string, its joined form. It passes from readers through the split to tokenizers and n-grams:
//!
//! text [U+001F second text] (U+001E value)…
//!
//! The separators are ASCII's unit and record separator, which no writing system uses. Only this module knows them.
//!
//! - [`single`], [`pair`] and [`with_columns`] build rows. They replace separators inside the parts by spaces, so a row
//!   always divides into the parts that it was built from.
//! - [`texts`], [`without_columns`] and [`column_values`] take rows apart without copying. Both texts of a pair lie in
//!   one string, so spans of tokens are byte ranges of the row.
//! - [`display`] and `with_visible_columns` format rows for users and messages.
//!
//! A row needs one allocation, and its parts need none. Functions that read no pairs and no feature columns take a
//! `&str`, because the joined form of a single text is the text itself.
//!
//! The joined form never changes. Its hash decides the part of a split and identifies the data of a run, and
//! explanations store it. Models keep the order of their columns, so predictions do not depend on column names.

use std::borrow::Cow;

/// The separator between the two texts of a pair.
const PAIR_SEPARATOR: char = '\u{1f}';
/// The separator before each value.
const COLUMN_SEPARATOR: char = '\u{1e}';

/// A feature column that the caller asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FeatureRequest {
    /// The name of the column in the file.
    pub name: String,
    /// The type of the values, if the caller gave one: `number`, `category` or `date`.
    pub kind: Option<String>,
    /// One value for all rows, used instead of a column of the file.
    pub value: Option<String>,
    /// True if a model reads the column, so that the file must have it.
    pub is_required: bool,
}

/// Returns the row of a single text. Separators inside it become spaces.
#[must_use]
pub fn single(text: &str) -> Cow<'_, str> {
    let separators = [PAIR_SEPARATOR, COLUMN_SEPARATOR];
    // Two searches for one byte each are faster than one search for either.
    match separators.iter().any(|separator| text.contains(*separator)) {
        false => text.into(),
        true => text.replace(separators, " ").into(),
    }
}

/// Returns the row of two texts. Separators inside them become spaces.
///
/// ```
/// use chumoku_text::row;
///
/// let pair = row::pair("A man sleeps.", "Nobody sleeps.");
/// assert_eq!(row::texts(&pair).collect::<Vec<_>>(), ["A man sleeps.", "Nobody sleeps."]);
/// assert!(row::is_pair(&pair) && !row::is_pair("A man sleeps."));
/// ```
#[must_use]
pub fn pair(first: &str, second: &str) -> String {
    format!("{}{PAIR_SEPARATOR}{}", single(first), single(second))
}

/// Adds values to a text or a pair without any. All four ASCII separators inside values become spaces.
///
/// ```
/// use chumoku_text::row;
///
/// let row = row::with_columns("Too sweet.", &["1200", "Ginza"]);
/// assert_eq!(row::without_columns(&row), "Too sweet.");
/// assert_eq!(row::column_values(&row).collect::<Vec<_>>(), ["1200", "Ginza"]);
/// assert_eq!(row::column_values("Too sweet.").next(), None);
/// ```
#[must_use]
pub fn with_columns<S: AsRef<str>>(texts: &str, values: &[S]) -> String {
    let mut row = texts.replace(COLUMN_SEPARATOR, " ");
    for value in values {
        row.push(COLUMN_SEPARATOR);
        row.extend(value.as_ref().chars().map(|c| if ('\u{1c}'..='\u{1f}').contains(&c) { ' ' } else { c }));
    }
    row
}

/// Reads a line: a text or, for pairs, two texts separated by a tab. Returns `None` if the tab is missing.
#[must_use]
pub fn from_line(line: &str, reads_pairs: bool) -> Option<Cow<'_, str>> {
    match reads_pairs {
        false => Some(single(line)),
        true => line.split_once('\t').map(|(first, second)| pair(first, second).into()),
    }
}

/// Returns the two texts of a pair without feature columns, or `None` for a single text.
#[must_use]
pub fn split_pair(row: &str) -> Option<(&str, &str)> {
    row.split_once(PAIR_SEPARATOR)
}

/// Returns whether a row is a pair.
#[must_use]
pub fn is_pair(row: &str) -> bool {
    row.contains(PAIR_SEPARATOR)
}

/// Returns whether a part of a row is the separator of a pair, which tokenizers replace by a token.
#[must_use]
pub fn is_pair_separator(part: &str) -> bool {
    part.chars().eq([PAIR_SEPARATOR])
}

/// Iterates over the text, or both texts of a pair, of a row without feature columns.
pub fn texts(row: &str) -> impl Iterator<Item = &str> {
    row.split(PAIR_SEPARATOR)
}

/// Returns the text or the pair of a row, without its feature values.
#[must_use]
pub fn without_columns(row: &str) -> &str {
    row.split_once(COLUMN_SEPARATOR).map_or(row, |(texts, _)| texts)
}

/// Returns whether a row has feature values.
#[must_use]
pub(crate) fn has_columns(row: &str) -> bool {
    row.contains(COLUMN_SEPARATOR)
}

/// Iterates over the feature values of a row, in order.
pub fn column_values(row: &str) -> impl Iterator<Item = &str> {
    row.split(COLUMN_SEPARATOR).skip(1)
}

/// Returns the feature value at an index, or an empty one if the row has fewer.
#[must_use]
pub fn column_value(row: &str, index: usize) -> &str {
    column_values(row).nth(index).unwrap_or_default()
}

/// Converts the feature values of a row to a part of its text, so that they count when texts are compared.
#[must_use]
pub(crate) fn with_visible_columns(row: &str) -> String {
    row.replace(COLUMN_SEPARATOR, " | ")
}

/// Formats a row for display, with all of its texts and values.
#[must_use]
pub fn display(row: &str) -> Cow<'_, str> {
    if !is_pair(row) && !has_columns(row) {
        return row.into();
    }
    let own = without_columns(row);
    let own = split_pair(own).map_or_else(|| own.to_owned(), |(first, second)| format!("{first} | {second}"));
    let values = column_values(row).filter(|value| !value.trim().is_empty());
    values.fold(own, |shown, value| shown + " | " + value).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_divide_into_their_texts() {
        for (first, second) in [("a", "b"), ("", ""), ("a\u{1f}b", "\u{1f}c\u{1e}"), ("一つ", "two\ttabs\n")] {
            let row = pair(first, second);
            let clean = [first, second].map(|text| text.replace(['\u{1f}', '\u{1e}'], " "));
            assert!(is_pair(&row) && texts(&row).eq(clean.iter().map(String::as_str)));
            assert_eq!(split_pair(&row), Some((&*clean[0], &*clean[1])));
            assert_eq!(single(first), clean[0]);
        }
        assert_eq!(split_pair("alone"), None);
        assert_eq!(display("alone"), "alone");
        assert_eq!(display(&pair("a", "b")), "a | b");
    }

    #[test]
    fn rows_divide_into_texts_and_values() {
        for (text, values) in [("a", vec!["b", ""]), ("", vec![]), ("x\u{1e}y", vec!["1\u{1e}2", "3\u{1f}4", "\n"])] {
            let row = with_columns(text, &values);
            assert_eq!(without_columns(&row), text.replace('\u{1e}', " "));
            assert_eq!(has_columns(&row), !values.is_empty());
            let clean: Vec<String> = values.iter().map(|v| v.replace(['\u{1e}', '\u{1f}'], " ")).collect();
            assert_eq!(column_values(&row).collect::<Vec<_>>(), clean);
        }
        let row = with_columns(&pair("one", "two"), &["", "7"]);
        assert_eq!(split_pair(without_columns(&row)), Some(("one", "two")));
        assert_eq!((column_value(&row, 1), column_value(&row, 2)), ("7", ""));
        assert_eq!(display(&row), "one | two | 7");
    }

    /// Splits, fingerprints and stored explanations depend on these bytes.
    #[test]
    fn the_joined_form_is_fixed() {
        assert_eq!(with_columns(&pair("one", "two"), &["3", ""]), "one\u{1f}two\u{1e}3\u{1e}");
        assert_eq!(with_visible_columns("one\u{1f}two\u{1e}3\u{1e}"), "one\u{1f}two | 3 | ");
    }
}
