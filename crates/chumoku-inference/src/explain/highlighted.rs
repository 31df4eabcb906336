//! A text word by word, with the effect of each word on the answer.

use super::explanation::Explanation;
use crate::row::{AsRow, RowRef};
use serde::Serialize;
use std::ops::Range;

/// A word of a text, with its effect on the answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HighlightedWord {
    /// The word as in the text.
    pub text: String,
    /// The effect on the answer. `None` for the bar between the two texts of a pair.
    pub effect: Option<f32>,
    /// `true` if white space precedes the word.
    #[serde(skip)]
    pub is_spaced: bool,
}

/// Returns the words of a text with their effects. `words` are byte ranges in ascending order.
pub(super) fn highlight(row: RowRef<'_>, words: impl Iterator<Item = (Range<usize>, f32)>) -> Vec<HighlightedWord> {
    let (text, between) = (row.text(), row.gap());
    let mut found: Vec<HighlightedWord> = Vec::new();
    let mut end = 0;
    for (bytes, effect) in words {
        let gap = text.get(end..bytes.start).unwrap_or_default();
        let is_pair = between.as_ref().is_some_and(|between| (end..bytes.start).contains(&between.start));
        if is_pair {
            found.push(HighlightedWord { text: "|".into(), effect: None, is_spaced: true });
        }
        let is_spaced = is_pair || !found.is_empty() && gap.contains(char::is_whitespace);
        end = bytes.end;
        found.push(HighlightedWord { text: text[bytes].into(), effect: Some(effect), is_spaced });
    }
    found
}

impl Explanation {
    /// Returns the words of the text that was read, including all windows, with their effects on the answer. For
    /// ensembles, these are the effects on the ensemble, if known.
    #[must_use]
    pub fn highlighted_words(&self) -> Vec<HighlightedWord> {
        let of = &self.attribution;
        let own = of.whole.as_ref().filter(|whole| whole.len() == self.words.len()).unwrap_or(&of.scores);
        let read = self.words.iter().zip(own).filter(|(word, _)| !word.special).map(|(word, &x)| (&word.text, x));
        let beyond = of.beyond.iter().map(|word| (&word.text, word.whole.unwrap_or(word.score)));
        let words: Vec<(&String, f32)> = read.chain(beyond).collect();
        let text = self.text.as_row().text();
        let mut places: Vec<Range<usize>> = Vec::with_capacity(words.len());
        // If the end of the text was read, words are located from there.
        if self.cut.is_some_and(|cut| cut.is_end) {
            let mut end = text.len();
            for (word, _) in words.iter().rev() {
                let start = text[..end].rfind(word.as_str()).unwrap_or(end);
                places.push(start..(start + word.len()).min(end));
                end = start;
            }
            places.reverse();
        } else {
            let mut start = 0;
            for (word, _) in &words {
                let found = text[start..].find(word.as_str());
                let place = found.map_or(start..start, |at| start + at..start + at + word.len());
                start = place.end;
                places.push(place);
            }
        }
        let mut found = highlight(self.text.as_row(), places.into_iter().zip(words.iter().map(|(_, x)| *x)));
        // A word that is displayed differently from the text.
        let shown = found.iter_mut().filter(|word| word.effect.is_some());
        shown
            .zip(&words)
            .filter(|(word, _)| word.text.is_empty())
            .for_each(|(word, (text, _))| word.text = (*text).clone());
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Row;

    #[test]
    fn words_keep_their_spaces_and_pairs_their_separator() {
        let row = Row::pair(" so good,they", "said");
        let words = [(1..3, 1.0), (4..8, -2.0), (8..9, 0.0), (9..13, 0.5), (14..18, 3.0)];
        let found = highlight(row.as_row(), words.into_iter());
        let shown: String =
            found.iter().map(|word| format!("{}{}", if word.is_spaced { " " } else { "" }, word.text)).collect();
        assert_eq!(shown, "so good,they | said");
        let effects: Vec<Option<f32>> = found.iter().map(|word| word.effect).collect();
        assert_eq!(effects, [Some(1.0), Some(-2.0), Some(0.0), Some(0.5), None, Some(3.0)]);
    }
}
