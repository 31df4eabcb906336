//! Rows: a text or a pair of texts, with the values of feature columns such as a price, a shop or a date.
//!
//! [`Row`] owns a row, and [`RowRef`] borrows one. They pass from readers through the split to tokenizers and n-grams.
//! Functions that read rows take [`AsRow`], because a plain string is the row of a single text.
//!
//! # Representation
//!
//! A row is one string and the byte positions of the boundaries in it:
//!
//! - The [text](RowRef::text) comes first. A pair has a line feed between its texts, so no word spans both, and spans of
//!   tokens are byte ranges of one string. Only the position tells where the second text starts, since texts may have
//!   line feeds.
//! - The values follow, directly one after the other.
//!
//! A row without values needs one allocation, and its parts need none.
//!
//! # Joined form
//!
//! Hashes and explanations in JSON have the parts in one string: text \[U+001F second text\] (U+001E value)…
//!
//! Both separators are ASCII's, and no writing system uses them. They become spaces inside the parts of a [`Row`].
//!
//! This form never changes. Its hash decides the part of a split and identifies the data of a run. Models keep the order
//! of their columns, so predictions do not depend on column names.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::ops::Range;

/// The separator between the two texts of a pair, in the joined form.
const PAIR_SEPARATOR: char = '\u{1f}';
/// The separator before each value, in the joined form.
const COLUMN_SEPARATOR: char = '\u{1e}';
/// The character between the two texts of a pair.
const LINE_FEED: char = '\n';

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

/// A text or a pair of texts, with the values of feature columns.
///
/// ```
/// use chumoku_text::row::{AsRow, Row};
///
/// let row = Row::pair("A man sleeps.", "Nobody sleeps.").as_row().with_values(&["1200", "Ginza"]);
/// assert_eq!(row.as_row().pair(), Some(("A man sleeps.", "Nobody sleeps.")));
/// assert_eq!(row.as_row().values().collect::<Vec<_>>(), ["1200", "Ginza"]);
/// assert_eq!(Row::from("A man sleeps."), "A man sleeps.");
/// ```
#[derive(Debug, Clone, Default, Eq)]
pub struct Row {
    /// The text, then the values.
    content: String,
    /// The start of the second text of a pair.
    second_start: Option<usize>,
    /// The start of each value.
    value_starts: Box<[usize]>,
}

/// A borrowed [`Row`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RowRef<'a> {
    content: &'a str,
    second_start: Option<usize>,
    value_starts: &'a [usize],
}

/// Types that can be borrowed as rows. A string is the row of a single text.
pub trait AsRow {
    /// Borrows the row.
    fn as_row(&self) -> RowRef<'_>;
}

impl AsRow for Row {
    fn as_row(&self) -> RowRef<'_> {
        RowRef { content: &self.content, second_start: self.second_start, value_starts: &self.value_starts }
    }
}

impl AsRow for RowRef<'_> {
    fn as_row(&self) -> RowRef<'_> {
        *self
    }
}

impl AsRow for str {
    fn as_row(&self) -> RowRef<'_> {
        RowRef { content: self, second_start: None, value_starts: &[] }
    }
}

impl AsRow for String {
    fn as_row(&self) -> RowRef<'_> {
        self.as_str().as_row()
    }
}

impl<T: AsRow + ?Sized> AsRow for &T {
    fn as_row(&self) -> RowRef<'_> {
        (**self).as_row()
    }
}

/// Borrows many rows.
#[must_use]
pub fn as_rows<R: AsRow>(rows: &[R]) -> Vec<RowRef<'_>> {
    rows.iter().map(AsRow::as_row).collect()
}

impl<T: AsRow + ?Sized> PartialEq<T> for Row {
    fn eq(&self, other: &T) -> bool {
        self.as_row() == other.as_row()
    }
}

impl Hash for Row {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_row().hash(state);
    }
}

impl From<&str> for Row {
    /// Returns the row of a single text. Separators of the joined form become spaces.
    fn from(text: &str) -> Row {
        Row::from(text.to_owned())
    }
}

impl From<String> for Row {
    /// Returns the row of a single text. Separators of the joined form become spaces.
    fn from(text: String) -> Row {
        let separators = [PAIR_SEPARATOR, COLUMN_SEPARATOR];
        // Two searches for one byte each are faster than one search for either.
        let has_none = !separators.iter().any(|separator| text.contains(*separator));
        Row { content: if has_none { text } else { text.replace(separators, " ") }, ..Row::default() }
    }
}

impl Serialize for Row {
    /// Writes the joined form.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.as_row().joined().collect::<String>())
    }
}

impl<'de> Deserialize<'de> for Row {
    /// Reads the joined form.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Row, D::Error> {
        let joined = String::deserialize(deserializer)?;
        let mut parts = joined.split(COLUMN_SEPARATOR);
        let texts = parts.next().unwrap_or_default();
        let row = texts.split_once(PAIR_SEPARATOR).map_or_else(|| texts.into(), |(a, b)| Row::pair(a, b));
        Ok(row.as_row().with_values(&parts.collect::<Vec<_>>()))
    }
}

impl Row {
    /// Returns the row of two texts. Separators of the joined form become spaces.
    #[must_use]
    pub fn pair(first: &str, second: &str) -> Row {
        let mut row = Row { content: String::with_capacity(first.len() + 1 + second.len()), ..Row::default() };
        row.push_without_separators(first);
        row.content.push(LINE_FEED);
        row.second_start = Some(row.content.len());
        row.push_without_separators(second);
        row
    }

    /// Reads a line: a text or, for pairs, two texts separated by a tab. Returns `None` if the tab is missing.
    #[must_use]
    pub fn from_line(line: &str, reads_pairs: bool) -> Option<Row> {
        match reads_pairs {
            false => Some(line.into()),
            true => line.split_once('\t').map(|(first, second)| Row::pair(first, second)),
        }
    }

    fn push_without_separators(&mut self, text: &str) {
        // A search for one byte is faster than one for several.
        let is_clean = ![PAIR_SEPARATOR, COLUMN_SEPARATOR].iter().any(|separator| text.contains(*separator));
        match is_clean {
            true => self.content.push_str(text),
            false => self.content.push_str(&text.replace([PAIR_SEPARATOR, COLUMN_SEPARATOR], " ")),
        }
    }
}

impl<'a> RowRef<'a> {
    /// Returns the text, without values. A pair has a line feed between its texts.
    #[must_use]
    pub fn text(self) -> &'a str {
        self.value_starts.first().map_or(self.content, |&end| &self.content[..end])
    }

    /// Returns the two texts of a pair, or `None` for a single text.
    #[must_use]
    pub fn pair(self) -> Option<(&'a str, &'a str)> {
        let gap = self.gap()?;
        Some((&self.content[..gap.start], &self.text()[gap.end..]))
    }

    /// Returns whether the row is a pair.
    #[must_use]
    pub fn is_pair(self) -> bool {
        self.second_start.is_some()
    }

    /// Returns the byte range of the text between the two texts of a pair.
    #[must_use]
    pub fn gap(self) -> Option<Range<usize>> {
        self.second_start.map(|start| start - LINE_FEED.len_utf8()..start)
    }

    /// Iterates over the text, or both texts of a pair.
    pub fn texts(self) -> impl Iterator<Item = &'a str> {
        let (first, second) = self.pair().map_or((self.text(), None), |(first, second)| (first, Some(second)));
        std::iter::once(first).chain(second)
    }

    /// Iterates over the feature values, in order.
    pub fn values(self) -> impl Iterator<Item = &'a str> {
        (0..self.value_starts.len()).map(move |index| self.value(index))
    }

    /// Returns the feature value at an index, or an empty one if the row has fewer.
    #[must_use]
    pub fn value(self, index: usize) -> &'a str {
        let Some(&start) = self.value_starts.get(index) else { return "" };
        &self.content[start..self.value_starts.get(index + 1).copied().unwrap_or(self.content.len())]
    }

    /// Returns whether the row has feature values.
    #[must_use]
    pub(crate) fn has_values(self) -> bool {
        !self.value_starts.is_empty()
    }

    /// Returns the row without its feature values.
    #[must_use]
    pub fn without_values(self) -> RowRef<'a> {
        RowRef { content: self.text(), value_starts: &[], ..self }
    }

    /// Returns the text or the pair with other feature values. All four ASCII separators inside them become spaces.
    #[must_use]
    pub fn with_values<S: AsRef<str>>(self, values: &[S]) -> Row {
        let bytes = values.iter().map(|value| value.as_ref().len()).sum::<usize>();
        let mut content = String::with_capacity(self.text().len() + bytes);
        content.push_str(self.text());
        let push = |value: &S| {
            let start = content.len();
            let clean = |c| if ('\u{1c}'..=PAIR_SEPARATOR).contains(&c) { ' ' } else { c };
            content.extend(value.as_ref().chars().map(clean));
            start
        };
        let value_starts = values.iter().map(push).collect();
        Row { content, second_start: self.second_start, value_starts }
    }

    /// Returns the row without a byte range of its text. The line feed between the texts of a pair stays.
    #[must_use]
    pub fn without_range(self, range: Range<usize>) -> Row {
        let kept = self.gap().filter(|gap| range.start <= gap.start && gap.end <= range.end);
        let between = kept.as_ref().map_or("", |gap| &self.content[gap.clone()]);
        let removed = range.len() - between.len();
        let content = [&self.content[..range.start], between, &self.content[range.end..]].concat();
        let second_start = self.second_start.map(|start| match start {
            _ if kept.is_some() => range.start + between.len(),
            _ if start >= range.end => start - removed,
            _ => start,
        });
        Row { content, second_start, value_starts: self.value_starts.iter().map(|start| start - removed).collect() }
    }

    /// Returns the owned row.
    #[must_use]
    pub fn to_row(self) -> Row {
        let RowRef { content, second_start, value_starts } = self;
        Row { content: content.to_owned(), second_start, value_starts: value_starts.into() }
    }

    /// Iterates over the parts of the joined form, whose hash must never change.
    pub fn joined(self) -> impl Iterator<Item = &'a str> {
        let (first, second) = self.pair().map_or((self.text(), None), |(first, second)| (first, Some(second)));
        let second = second.into_iter().flat_map(|second| ["\u{1f}", second]);
        std::iter::once(first).chain(second).chain(self.values().flat_map(|value| ["\u{1e}", value]))
    }

    /// Returns the length of the joined form in bytes.
    #[must_use]
    pub fn joined_len(self) -> usize {
        self.content.len() + self.value_starts.len()
    }

    /// Appends the feature values to the text, so that they count when texts are compared.
    #[must_use]
    pub(crate) fn with_visible_values(self) -> Row {
        let mut row = self.without_values().to_row();
        self.values().for_each(|value| row.content.extend([" | ", value]));
        row
    }

    /// Formats the row for display, with all of its texts and values.
    #[must_use]
    pub fn display(self) -> Cow<'a, str> {
        if !self.is_pair() && !self.has_values() {
            return self.content.into();
        }
        let values = self.values().filter(|value| !value.trim().is_empty());
        self.texts().chain(values).collect::<Vec<_>>().join(" | ").into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_divide_into_their_texts() {
        for (first, second) in [("a", "b"), ("", ""), ("a\u{1f}b", "\u{1f}c\u{1e}"), ("一つ", "two\ttabs\n")] {
            let row = Row::pair(first, second);
            let clean = [first, second].map(|text| text.replace(['\u{1f}', '\u{1e}'], " "));
            assert!(row.as_row().is_pair() && row.as_row().texts().eq(clean.iter().map(String::as_str)));
            assert_eq!(row.as_row().pair(), Some((&*clean[0], &*clean[1])));
            assert_eq!(row.as_row().text(), clean.join("\n"));
            assert_eq!(Row::from(first), clean[0]);
        }
        assert_eq!("alone".as_row().pair(), None);
        assert_eq!("alone".as_row().display(), "alone");
        assert_eq!(Row::pair("a", "b").as_row().display(), "a | b");
    }

    #[test]
    fn rows_divide_into_texts_and_values() {
        for (text, values) in [("a", vec!["b", ""]), ("", vec![]), ("x\u{1e}y", vec!["1\u{1e}2", "3\u{1f}4", "\n"])] {
            let row = Row::from(text).as_row().with_values(&values);
            assert_eq!(row.as_row().text(), text.replace('\u{1e}', " "));
            assert_eq!(row.as_row().has_values(), !values.is_empty());
            let clean: Vec<String> = values.iter().map(|v| v.replace(['\u{1e}', '\u{1f}'], " ")).collect();
            assert_eq!(row.as_row().values().collect::<Vec<_>>(), clean);
        }
        let row = Row::pair("one", "two").as_row().with_values(&["", "7"]);
        assert_eq!(row.as_row().pair(), Some(("one", "two")));
        assert_eq!(row.as_row().without_values(), Row::pair("one", "two").as_row());
        assert_eq!((row.as_row().value(1), row.as_row().value(2)), ("7", ""));
        assert_eq!(row.as_row().display(), "one | two | 7");
    }

    #[test]
    fn removed_ranges_move_the_boundaries() {
        let row = Row::pair("one two", "three four").as_row().with_values(&["5", "6"]);
        let without = |range| row.as_row().without_range(range);
        assert_eq!(without(3..7), Row::pair("one", "three four").as_row().with_values(&["5", "6"]));
        assert_eq!(without(8..14), Row::pair("one two", "four").as_row().with_values(&["5", "6"]));
        assert_eq!(without(4..13), Row::pair("one ", " four").as_row().with_values(&["5", "6"]));
    }

    /// Splits, fingerprints and stored explanations depend on these bytes.
    #[test]
    fn the_joined_form_is_fixed() {
        let row = Row::pair("one", "two").as_row().with_values(&["3", ""]);
        assert_eq!(row.as_row().joined().collect::<String>(), "one\u{1f}two\u{1e}3\u{1e}");
        assert_eq!(row.as_row().joined_len(), 10);
        let visible = row.as_row().with_visible_values();
        assert_eq!(visible.as_row().joined().collect::<String>(), "one\u{1f}two | 3 | ");
        let json = serde_json::to_string(&row).unwrap();
        assert_eq!(json, r#""one\u001ftwo\u001e3\u001e""#);
        assert_eq!(serde_json::from_str::<Row>(&json).unwrap(), row);
    }
}
