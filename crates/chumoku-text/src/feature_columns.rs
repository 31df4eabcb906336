//! A text and the values of columns that stand beside it in its row: a price, a shop, a date.
//!
//! They travel as one text, like a [pair](crate::pair): behind the text, or both texts of a pair, stands U+001E for each value (ASCII's
//! *record separator*), then the value. Whoever reads columns takes them apart: n-grams, tokenizers, the split of rows.
//! What a text is told by does not hang on the names of columns but on their order, which a model keeps.

/// What stands in front of each value.
pub const SEPARATOR: char = '\u{1e}';

/// A column beside the text, as somebody names it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FeatureRequest {
    /// Its name in the file.
    pub name: String,
    /// What it holds, if that was said: `number`, `category` or `date`.
    pub kind: Option<String>,
    /// Its value in every row, where that was given in place of a column of the file.
    pub value: Option<String>,
    /// Whether a model reads it, so that a file must have it.
    pub is_required: bool,
}

/// A text, or a pair, with the values beside it. Separators inside them (in values all four of ASCII) become spaces.
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

/// The text of a row, without what stands beside it.
#[must_use]
pub fn text_of(row: &str) -> &str {
    row.split_once(SEPARATOR).map_or(row, |(text, _)| text)
}

/// The values beside the text, in order.
pub fn values(row: &str) -> impl Iterator<Item = &str> {
    row.split(SEPARATOR).skip(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair;

    #[test]
    fn a_row_gives_back_what_was_joined_whatever_it_holds() {
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
