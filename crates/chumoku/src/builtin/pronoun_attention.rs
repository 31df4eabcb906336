//! The head of a model of pronouns that attends from the deciding word to the noun that is meant.

use super::pronouns::PronounExample;
use crate::Result;
use crate::explain::Explanation;
use crate::row::AsRow;
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
        Ok(PronounAttention::strongest(&model.explain(&example.text, "")?, example))
    }

    /// Finds the head in an explanation of the sentence.
    fn strongest(explained: &Explanation, example: &PronounExample) -> Option<PronounAttention> {
        let [queries, keys] = [example.quality, example.noun].map(|word| word_indices(explained, word));
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
        found.max_by(|a, b| a.weight.total_cmp(&b.weight))
    }
}

/// Returns the words of an explanation that overlap the last occurrence of `part` in the text.
fn word_indices(explained: &Explanation, part: &str) -> Vec<usize> {
    let text = explained.text.as_row().text();
    let Some(start) = text.rfind(part) else { return Vec::new() };
    let bytes = start..start + part.len();
    let overlaps = |range: &Range<usize>| range.start < bytes.end && bytes.start < range.end;
    let mut at = 0;
    let mut found = Vec::new();
    for (index, word) in explained.words.iter().enumerate().filter(|(_, word)| !word.special) {
        let Some(next) = text[at..].find(word.text.as_str()) else { continue };
        let range = at + next..at + next + word.text.len();
        at = range.end;
        if overlaps(&range) {
            found.push(index);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::{Attribution, DerivedAttention, ExplanationKind, Word};

    /// Returns an explanation of these words after a special token. Weights are 0 except those given as layer, head,
    /// query, key and weight.
    fn explanation(
        text: &str,
        words: &[&str],
        [layers, heads]: [usize; 2],
        weights: &[([usize; 4], f32)],
    ) -> Explanation {
        let special = Word { text: "[CLS]".to_owned(), special: true };
        let plain = words.iter().map(|word| Word { text: (*word).to_owned(), special: false });
        let words: Vec<Word> = std::iter::once(special).chain(plain).collect();
        let n = words.len();
        let mut attention = vec![0.0; layers * heads * n * n];
        for &([layer, head, query, key], weight) in weights {
            attention[((layer * heads + head) * n + query) * n + key] = weight;
        }
        Explanation {
            kind: ExplanationKind::Classifier,
            model: String::new(),
            text: text.into(),
            cut: None,
            label: String::new(),
            similarity: None,
            number: None,
            levels: Vec::new(),
            probabilities: Vec::new(),
            exclusive: true,
            parts: None,
            pieces: Vec::new(),
            words,
            layers,
            heads,
            attention,
            causal: false,
            joining: String::new(),
            derived: DerivedAttention::default(),
            depth: None,
            without: Vec::new(),
            attribution: Attribution::default(),
            columns: Vec::new(),
            prompt_words: None,
            lens: None,
            residual_path: None,
            patching: None,
        }
    }

    #[test]
    fn words_are_found_at_their_last_place() {
        let found = |text: &str, words: &[&str], part: &str| word_indices(&explanation(text, words, [0, 0], &[]), part);
        let text = "The cat stayed near the mat because it was tired.";
        let words = ["The", "cat", "stayed", "near", "the", "mat", "because", "it", "was", "tired", "."];
        assert_eq!(found(text, &words, "cat"), [2]);
        assert_eq!(found(text, &words, "tired"), [10]);
        assert_eq!(found(text, &words, "wet"), [0; 0]);
        assert_eq!(found("cat and cat", &["cat", "and", "cat"], "cat"), [3]);
        // A word of several parts, and one that the explanation spells differently from the text.
        assert_eq!(
            found("門は錆びていた。", &["門", "は", "錆び", "て", "い", "た", "。"], "錆びていた"),
            [3, 4, 5, 6]
        );
        assert_eq!(found("A Cat sat", &["A", "cat", "sat"], "sat"), [3]);
        // The special token is no word of the text, even if the text has its name.
        assert_eq!(found("[CLS] cat", &["[", "CLS", "]", "cat"], "[CLS]"), [1, 2, 3]);
    }

    #[test]
    fn the_strongest_head_is_found() {
        let example = PronounExample { text: "cat tired".to_owned(), noun: "cat", quality: "tired" };
        let strongest = |words: &[&str], shape: [usize; 2], weights: &[([usize; 4], f32)]| {
            let found = PronounAttention::strongest(&explanation(&example.text, words, shape, weights), &example);
            found.map(|found| (found.layer, found.head, (1000.0 * found.weight).round()))
        };
        // The largest weight of a part of the deciding word counts, not the sum. Weights of other words do not count.
        let weights = [
            ([0, 0, 2, 1], 0.2),
            ([0, 0, 1, 1], 0.9),
            ([0, 1, 3, 1], 0.6),
            ([1, 0, 2, 1], 0.1),
            ([1, 0, 3, 1], 0.7),
            ([1, 1, 2, 1], 0.4),
            ([1, 1, 3, 1], 0.65),
            ([1, 1, 2, 0], 0.6),
        ];
        assert_eq!(strongest(&["cat", "ti", "red"], [2, 2], &weights), Some((1, 0, 700.0)));
        // The weights of the parts of the noun are added.
        let weights = [([0, 0, 3, 1], 0.4), ([0, 0, 3, 2], 0.5), ([0, 1, 3, 1], 0.8)];
        assert_eq!(strongest(&["c", "at", "tired"], [1, 2], &weights), Some((0, 0, 900.0)));
        assert_eq!(strongest(&["cat", "tired"], [0, 0], &[]), None);
    }
}
