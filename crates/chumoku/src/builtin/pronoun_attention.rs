//! The head of a model of pronouns that attends from the deciding word to the noun that is meant.

use super::pronouns::PronounExample;
use crate::Result;
use crate::explain::Explanation;
use crate::text_models::classifier::TextClassifier;
use std::ops::Range;

/// The head with the most attention from the deciding word of a sentence to the noun that is meant.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PronounAttention {
    /// The layer of the head, from 0.
    pub layer: usize,
    /// The head in its layer, from 0.
    pub head: usize,
    /// The attention from the deciding word to the noun.
    pub weight: f32,
}

impl PronounAttention {
    /// Finds the head. `None` for a network without attention.
    ///
    /// # Errors
    /// If the model cannot read the sentence.
    pub fn measure(model: &TextClassifier, example: &PronounExample) -> Result<Option<PronounAttention>> {
        let explained = model.explain(&example.text, "")?;
        let [queries, keys] = [example.quality, example.noun].map(|word| word_indices(&explained, word));
        // If the deciding word has several parts, the largest weight counts.
        let weight = |layer, head| {
            let of_query = |&query: &usize| -> f32 {
                let row = explained.row(layer, head, query);
                keys.iter().map(|&key| row[key]).sum()
            };
            queries.iter().map(of_query).fold(0.0, f32::max)
        };
        let all = (0..explained.layers).flat_map(|layer| (0..explained.heads).map(move |head| (layer, head)));
        let found = all.map(|(layer, head)| PronounAttention { layer, head, weight: weight(layer, head) });
        Ok(found.max_by(|a, b| a.weight.total_cmp(&b.weight)))
    }
}

/// Returns the words of an explanation that overlap the last occurrence of `part` in the text.
fn word_indices(explained: &Explanation, part: &str) -> Vec<usize> {
    let Some(start) = explained.text.rfind(part) else { return Vec::new() };
    let bytes = start..start + part.len();
    let overlaps = |range: &Range<usize>| range.start < bytes.end && bytes.start < range.end;
    let mut at = 0;
    let mut found = Vec::new();
    for (index, word) in explained.words.iter().enumerate().filter(|(_, word)| !word.special) {
        let Some(next) = explained.text[at..].find(word.text.as_str()) else { continue };
        let range = at + next..at + next + word.text.len();
        at = range.end;
        if overlaps(&range) {
            found.push(index);
        }
    }
    found
}
