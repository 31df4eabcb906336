//! The units that get a label: words, or characters in scripts without spaces.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::tokens::{is_unspaced, unspaced_fraction};

/// The fraction of letters in unspaced scripts above which texts are labeled by characters.
const MIN_UNSPACED_FRACTION: f64 = 0.3;

/// The unit that gets a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SpanUnit {
    /// Runs of letters and digits, and every other visible character.
    Words,
    /// Characters other than white space.
    Characters,
}

impl SpanUnit {
    /// Returns the unit that suits these texts.
    pub fn for_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> SpanUnit {
        match unspaced_fraction(texts) > MIN_UNSPACED_FRACTION {
            true => SpanUnit::Characters,
            false => SpanUnit::Words,
        }
    }

    /// Splits a text into units. Returns their byte ranges in order.
    pub fn split(self, text: &str) -> Vec<Range<usize>> {
        let mut units: Vec<Range<usize>> = Vec::new();
        let mut is_open = false;
        for (at, c) in text.char_indices() {
            // Combining marks belong to their letter. A joiner inside a word does not split it.
            let is_letter =
                self == SpanUnit::Words && (c.is_alphanumeric() || c == '_' || is_combining_mark(c)) && !is_unspaced(c);
            match units.last_mut() {
                _ if c.is_whitespace() => is_open = false,
                Some(unit) if is_letter && is_open => unit.end = at + c.len_utf8(),
                Some(unit) if is_combining_mark(c) && unit.end == at => unit.end = at + c.len_utf8(),
                _ => {
                    units.push(at..at + c.len_utf8());
                    is_open = is_letter;
                }
            }
        }
        units
    }
}

/// Combining marks, joiners and variation selectors.
fn is_combining_mark(c: char) -> bool {
    matches!(u32::from(c), 0x0300..=0x036F | 0x0483..=0x0489 | 0x0591..=0x05BD | 0x0610..=0x061A | 0x064B..=0x065F
        | 0x0900..=0x0903 | 0x093A..=0x094F | 0x1AB0..=0x1AFF | 0x1DC0..=0x1DFF | 0x20D0..=0x20FF | 0x3099..=0x309A
        | 0x200D | 0xFE00..=0xFE0F | 0xFE20..=0xFE2F)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(unit: SpanUnit, text: &str) -> String {
        unit.split(text).into_iter().map(|range| &text[range]).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn texts_are_split_at_spaces_and_punctuation() {
        assert_eq!(cut(SpanUnit::Words, "I can't  see @U2 in U.S.-Café!"), "I|can|'|t|see|@|U2|in|U|.|S|.|-|Café|!");
        assert_eq!(cut(SpanUnit::Words, "Cafe\u{301}s 東京 is"), "Cafe\u{301}s|東|京|is");
        assert_eq!(cut(SpanUnit::Words, ""), "");
        assert_eq!(cut(SpanUnit::Characters, "東京 Sか\u{3099}"), "東|京|S|か\u{3099}");
        assert_eq!(cut(SpanUnit::Words, "\u{301}a"), "\u{301}a");
    }

    #[test]
    fn japanese_is_split_into_characters() {
        assert_eq!(SpanUnit::for_texts(["私はロンドンに住む"]), SpanUnit::Characters);
        assert_eq!(SpanUnit::for_texts(["I live in 東京"]), SpanUnit::Words);
    }
}
