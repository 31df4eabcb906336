//! Feature columns: the values of other columns of a row, such as a price, a shop or a date.
//!
//! A row travels as one text, like a [pair](crate::pair). After the text, or both texts of a pair, comes U+001E
//! (ASCII's *record separator*) before each value. N-grams, tokenizers and the split take the row apart again. A model
//! keeps the order of the columns, so predictions do not depend on their names.

/// The separator before each value.
pub const SEPARATOR: char = '\u{1e}';

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

/// Joins a text, or a pair, and its values. Separators inside the text become spaces, and so do all four ASCII
/// separators inside values.
///
/// ```
/// use chumoku_text::beside;
///
/// let row = beside::join("Too sweet.", &["1200", "Ginza"]);
/// assert_eq!(beside::text_of(&row), "Too sweet.");
/// assert_eq!(beside::cells(&row).collect::<Vec<_>>(), ["1200", "Ginza"]);
/// assert_eq!(beside::cells("Too sweet.").next(), None);
/// ```
#[must_use]
pub fn join<S: AsRef<str>>(text: &str, cells: &[S]) -> String {
    let mut row = text.replace(SEPARATOR, " ");
    for cell in cells {
        row.push(SEPARATOR);
        row.extend(cell.as_ref().chars().map(|c| if ('\u{1c}'..='\u{1f}').contains(&c) { ' ' } else { c }));
    }
    row
}

/// Returns the text of a row without its feature values.
#[must_use]
pub fn text_of(row: &str) -> &str {
    row.split_once(SEPARATOR).map_or(row, |(text, _)| text)
}

/// Iterates over the feature values of a row, in order.
pub fn values(row: &str) -> impl Iterator<Item = &str> {
    row.split(SEPARATOR).skip(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair;

    #[test]
    fn joined_rows_split_into_their_parts() {
        for (text, values) in [("a", vec!["b", ""]), ("", vec![]), ("x\u{1e}y", vec!["1\u{1e}2", "3\u{1f}4", "\n"])] {
            let row = join(text, &values);
            assert_eq!(text_of(&row), text.replace(SEPARATOR, " "));
            let clean: Vec<String> = values.iter().map(|v| v.replace([SEPARATOR, pair::SEPARATOR], " ")).collect();
            assert_eq!(super::values(&row).collect::<Vec<_>>(), clean);
        }
        let pair = pair::join("one", "two");
        let row = join(&pair, &["", "7"]);
        assert_eq!(pair::split(text_of(&row)), Some(("one", "two")));
        assert_eq!(pair::display(&row), "one | two | 7");
    }
}
