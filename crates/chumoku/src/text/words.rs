//! From sub-word tokens to the words that a reader knows.

use super::script::is_unspaced;
use super::tokenizer::Encoded;

/// A word of a text, and the tokens that it is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct WordSpan {
    /// Its bytes in the text.
    pub bytes: std::ops::Range<usize>,
    /// Its tokens, by number in the text.
    pub tokens: std::ops::Range<usize>,
}

/// Joins tokens to words. Tokens of one unit (a word of a spaced script, a number, a run of punctuation) are one
/// word; in scripts without spaces each token is a word of its own, but tokens that stand for parts of one character
/// (bytes, or the mark of a word's beginning) are joined.
pub fn words_of(text: &str, encoded: &Encoded) -> Vec<WordSpan> {
    let mut words: Vec<WordSpan> = Vec::new();
    let mut last: Option<(u32, (usize, usize))> = None;
    for (i, (&unit, &(start, end))) in encoded.units.iter().zip(&encoded.spans).enumerate() {
        let part = text.get(start..end).unwrap_or_default();
        let unspaced = part.chars().any(is_unspaced);
        let joins = last.is_some_and(|(last_unit, span)| {
            let same_character = span == (start, end) || start < span.1;
            same_character || (last_unit == unit && !unspaced)
        });
        match words.last_mut().filter(|_| joins) {
            Some(word) => {
                word.bytes.end = word.bytes.end.max(end);
                word.tokens.end = i + 1;
            }
            None => words.push(WordSpan { bytes: start..end, tokens: i..i + 1 }),
        }
        last = Some((unit, (start, end)));
    }
    for word in &mut words {
        let whole = &text[word.bytes.clone()];
        let front = whole.len() - whole.trim_start().len();
        let back = whole.len() - whole.trim_end().len();
        if front < whole.len() {
            word.bytes = word.bytes.start + front..word.bytes.end - back;
        }
    }
    // A space token that stands alone (before a run of an unspaced script) belongs to what follows.
    let mut joined: Vec<WordSpan> = Vec::with_capacity(words.len());
    let mut waiting: Option<usize> = None;
    for mut word in words {
        let empty = text[word.bytes.clone()].trim().is_empty();
        if empty {
            waiting.get_or_insert(word.tokens.start);
            continue;
        }
        if let Some(start) = waiting.take() {
            word.tokens.start = start;
        }
        joined.push(word);
    }
    match (waiting, joined.last_mut()) {
        (Some(_), Some(last)) => last.tokens.end = encoded.ids.len(),
        (Some(start), None) => joined.push(WordSpan { bytes: 0..text.len(), tokens: start..encoded.ids.len() }),
        _ => {}
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::super::{TextForm, TextTokenizer, TokenizerConfig, Unit};
    use super::*;

    #[test]
    fn every_token_belongs_to_one_word() {
        let texts = ["the unbelievable film 良い映画です", "an unbelievable 映画 of 99 days"];
        let tokenizer = TextTokenizer::train(
            &texts,
            &TokenizerConfig { vocab_size: 300, min_frequency: 2, form: TextForm::Folded, unit: Unit::Subwords },
        )
        .unwrap();
        for text in ["Unbelievable!  良い 映画 🎉x", "don't  stop", "映画", "  ", "", "…", "é́ あ゙ ｶﾞ"]
        {
            let encoded = tokenizer.encode(text).unwrap();
            let words = words_of(text, &encoded);
            let mut next = 0;
            for word in &words {
                assert_eq!(word.tokens.start, next, "{text:?} {words:?}");
                next = word.tokens.end;
                assert!(text.get(word.bytes.clone()).is_some());
            }
            assert_eq!(next, encoded.ids.len(), "{text:?}");
            for pair in words.windows(2) {
                assert!(pair[0].bytes.end <= pair[1].bytes.start, "{text:?} {words:?}");
            }
        }
        // A mark of the word's beginning is no word beside its first letter.
        let rare = TextTokenizer::train(
            &["私は猫", "犬は私", "猫と犬"],
            &TokenizerConfig { vocab_size: 300, min_frequency: 9, form: TextForm::Compatible, unit: Unit::Subwords },
        )
        .unwrap();
        let shown = |text: &str| -> Vec<String> {
            words_of(text, &rare.encode(text).unwrap()).iter().map(|word| text[word.bytes.clone()].into()).collect()
        };
        assert_eq!(shown("私は猫"), ["私", "は", "猫"]);
        let text = "Unbelievable film!";
        let words = words_of(text, &tokenizer.encode(text).unwrap());
        let shown: Vec<_> = words.iter().map(|word| &text[word.bytes.clone()]).collect();
        assert_eq!(shown, ["Unbelievable", "film", "!"]);
    }
}
