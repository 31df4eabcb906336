//! Groups tokens into words for display.

use super::japanese::{is_japanese, word_starts};
use super::script::is_unspaced;
use super::token_sequence::TokenSequence;
use crate::row::{AsRow, RowRef};
use unicode_segmentation::UnicodeSegmentation;

/// A word of a text and its tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct WordSpan {
    /// Its byte range in the text.
    pub bytes: std::ops::Range<usize>,
    /// The range of its tokens.
    pub tokens: std::ops::Range<usize>,
}

/// Groups tokens into words: words of spaced scripts, numbers, runs of punctuation, and dictionary words in Japanese.
///
/// A word's range ends where the next word starts, without white space at its ends. So every visible character belongs
/// to a word.
///
/// Tokens are never split: if one crosses a word boundary, both words become one. In other unspaced scripts (Thai, Lao,
/// Khmer, Burmese) each token is a word. With a character tokenizer each character is. Grapheme clusters, such as a
/// letter with its marks or an emoji sequence, stay together.
///
/// The gap between the texts of a pair is not white space, so that the separator token is a word.
pub fn word_spans(row: impl AsRow, encoded: &TokenSequence) -> Vec<WordSpan> {
    word_spans_of_row(row.as_row(), encoded)
}

fn word_spans_of_row(row: RowRef<'_>, encoded: &TokenSequence) -> Vec<WordSpan> {
    let (text, gap) = (row.text(), row.gap());
    let borders = WordBoundaries::new(text, encoded.is_character_level);
    let mut words: Vec<WordSpan> = Vec::new();
    // The end of the text covered so far, and the word id of the last token.
    let (mut read, mut last) = (0, 0);
    for (i, (&unit, &(start, end))) in encoded.word_ids.iter().zip(&encoded.spans).enumerate() {
        let joins = start < read || !borders.is_boundary(start, last != unit);
        match words.last_mut().filter(|_| joins) {
            Some(word) => word.tokens.end = i + 1,
            None => words.push(WordSpan { bytes: start..start, tokens: i..i + 1 }),
        }
        (read, last) = (read.max(end), unit);
    }
    if let Some(first) = words.first_mut() {
        first.bytes.start = 0;
    }
    let is_gap = |at: usize| gap.as_ref().is_some_and(|gap| gap.start == at);
    let mut end = text.len();
    for word in words.iter_mut().rev() {
        word.bytes.end = end;
        end = word.bytes.start;
        let start = word.bytes.start;
        let is_visible = |(at, c): &(usize, char)| !c.is_whitespace() || is_gap(start + at);
        let mut visible = text[word.bytes.clone()].char_indices().filter(is_visible);
        if let Some((front, first)) = visible.next() {
            let (back, last) = visible.next_back().unwrap_or((front, first));
            word.bytes = start + front..start + back + last.len_utf8();
        }
    }
    // A space token on its own, before a run of an unspaced script, belongs to the next word.
    let mut joined: Vec<WordSpan> = Vec::with_capacity(words.len());
    let mut waiting: Option<usize> = None;
    for mut word in words {
        let empty = text[word.bytes.clone()].trim().is_empty() && !is_gap(word.bytes.start);
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

/// The positions at which a text may be split into words.
struct WordBoundaries {
    /// For each byte, the kind of boundary before it.
    kinds: Vec<BoundaryKind>,
}

#[derive(Clone, Copy, PartialEq)]
enum BoundaryKind {
    /// No boundary: inside a character or a Japanese word.
    Inside,
    /// A word boundary if the pre-tokenizer splits here: in spaced scripts, and at the start of an unspaced run.
    WordStart,
    /// A word boundary if a token starts here.
    TokenStart,
}

impl WordBoundaries {
    fn new(text: &str, is_by_character: bool) -> WordBoundaries {
        let mut kinds = vec![BoundaryKind::Inside; text.len() + 1];
        // True after a character of an unspaced script.
        let mut before = false;
        for (at, grapheme) in text.grapheme_indices(true) {
            let unspaced = grapheme.chars().any(is_unspaced);
            kinds[at] = if is_by_character || (before && unspaced) {
                BoundaryKind::TokenStart
            } else {
                BoundaryKind::WordStart
            };
            before = unspaced;
        }
        kinds[text.len()] = BoundaryKind::WordStart;
        if is_by_character {
            return WordBoundaries { kinds };
        }
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            let run = rest.find(|c| !is_japanese(c)).unwrap_or(rest.len());
            // Inside a Japanese run, only the starts of words stay boundaries.
            let beginnings = word_starts(&rest[..run]);
            let mut next = beginnings.iter().map(|begin| at + begin).peekable();
            for (byte, kind) in kinds.iter_mut().enumerate().take(at + run).skip(at) {
                match next.next_if_eq(&byte) {
                    Some(_) => {}
                    None => *kind = BoundaryKind::Inside,
                }
            }
            at += run;
            at += text[at..].find(is_japanese).unwrap_or(text.len() - at);
        }
        WordBoundaries { kinds }
    }

    /// Returns whether a word may start at this byte, where a token starts. `is_unit` says that the pre-tokenizer
    /// splits here too.
    fn is_boundary(&self, at: usize, is_unit: bool) -> bool {
        match self.kinds.get(at) {
            Some(BoundaryKind::TokenStart) => true,
            Some(BoundaryKind::WordStart) => is_unit,
            Some(BoundaryKind::Inside) | None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NormalizationForm, TextTokenizer, TokenizationUnit, TokenizerConfig};
    use super::*;

    #[test]
    fn every_token_belongs_to_one_word() {
        let texts = ["the unbelievable film 良い映画です", "an unbelievable 映画 of 99 days"];
        let tokenizer = TextTokenizer::train(
            &texts,
            &TokenizerConfig {
                vocab_size: 300,
                min_frequency: 2,
                form: NormalizationForm::NfkcLowercase,
                unit: TokenizationUnit::Subwords,
            },
        )
        .unwrap();
        for text in ["Unbelievable!  良い 映画 🎉x", "don't  stop", "映画", "  ", "", "…", "é́ あ゙ ｶﾞ"]
        {
            let encoded = tokenizer.encode(text).unwrap();
            let words = word_spans(text, &encoded);
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
        // A word-start mark and the first letter after it are one word.
        let rare = TextTokenizer::train(
            &["私は猫", "犬は私", "猫と犬"],
            &TokenizerConfig {
                vocab_size: 300,
                min_frequency: 9,
                form: NormalizationForm::Nfkc,
                unit: TokenizationUnit::Subwords,
            },
        )
        .unwrap();
        let shown = |text: &str| -> Vec<String> {
            word_spans(text, &rare.encode(text).unwrap()).iter().map(|word| text[word.bytes.clone()].into()).collect()
        };
        assert_eq!(shown("私は猫"), ["私", "は", "猫"]);
        let text = "最悪の旅行。ﾊﾟﾝは二度と";
        // Single-character tokens are grouped into words. Half-width voicing marks stay with their letters.
        assert_eq!(shown(text), ["最悪", "の", "旅行", "。", "ﾊﾟﾝ", "は", "二度と"]);
        let text = "Unbelievable film!";
        let words = word_spans(text, &tokenizer.encode(text).unwrap());
        let shown: Vec<_> = words.iter().map(|word| &text[word.bytes.clone()]).collect();
        assert_eq!(shown, ["Unbelievable", "film", "!"]);
    }

    #[test]
    fn text_without_tokens_belongs_to_a_neighboring_word() {
        // Other tokenizers may drop text before, between and after tokens.
        let encoded = |spans: &[(usize, usize)]| TokenSequence {
            ids: vec![7; spans.len()],
            spans: spans.to_vec(),
            word_ids: (0..spans.len() as u32).collect(),
            is_character_level: false,
        };
        let shown = |text: &'static str, spans: &[(usize, usize)]| -> Vec<&str> {
            word_spans(text, &encoded(spans)).into_iter().map(|word| &text[word.bytes]).collect()
        };
        assert_eq!(shown("*a b* c!", &[(1, 2), (3, 4), (6, 7)]), ["*a", "b*", "c!"]);
        assert_eq!(shown(" *a ", &[(2, 3)]), ["*a"]);
    }

    /// The visible characters of a text: everything except white space.
    fn seen(text: &str) -> String {
        text.split_whitespace().collect()
    }

    static TOKENIZERS: std::sync::LazyLock<Vec<TextTokenizer>> = std::sync::LazyLock::new(|| {
        let texts =
            ["the unbelievable film 最悪の映画でした", "an unbelievable 映画は最高 of 99 days", "二度と行きません"];
        let forms = [
            NormalizationForm::NfkcLowercase,
            NormalizationForm::Nfkc,
            NormalizationForm::CollapsedSpaces,
            NormalizationForm::Unchanged,
        ];
        let units = [TokenizationUnit::Subwords, TokenizationUnit::Characters, TokenizationUnit::Words];
        let all = forms.into_iter().flat_map(|form| units.map(|unit| (form, unit)));
        all.map(|(form, unit)| {
            let config = TokenizerConfig { vocab_size: 340, min_frequency: 1, form, unit };
            TextTokenizer::train(&texts, &config).unwrap()
        })
        .collect()
    });

    /// Checks that the words of a text together contain all of it, and that each token belongs to one word.
    fn check(tokenizer: &TextTokenizer, text: &str) {
        let encoded = tokenizer.encode(text).unwrap();
        let words = word_spans(text, &encoded);
        let together: String = words.iter().map(|word| &text[word.bytes.clone()]).collect();
        let expected = if encoded.ids.is_empty() { String::new() } else { seen(text) };
        assert_eq!(seen(&together), expected, "{text:?} {words:?}");
        assert!(words.windows(2).all(|two| two[0].bytes.end <= two[1].bytes.start), "{text:?} {words:?}");
        let tokens: Vec<usize> = words.iter().flat_map(|word| word.tokens.clone()).collect();
        assert_eq!(tokens, Vec::from_iter(0..encoded.ids.len()), "{text:?} {words:?}");
        // No character is split between two words.
        let begins: Vec<usize> = text.grapheme_indices(true).map(|(at, _)| at).collect();
        for word in words.iter().filter(|word| !text[word.bytes.clone()].trim().is_empty()) {
            assert!(begins.binary_search(&word.bytes.start).is_ok(), "{text:?} {words:?}");
        }
    }

    #[test]
    fn no_character_is_lost() {
        let hard = [
            "ﾊﾟｿｺﾝは最悪ﾃﾞｽ",
            "ｶﾞｷﾞｸﾞ ｱｲｳ",
            "ﾟﾞ",
            "e\u{301}tude Zoe\u{308} か\u{3099}く は\u{309A}ん",
            "ﬁne oﬃce ㍿ ㌔ ½ ＡＢＣ１２３",
            "👩‍👩‍👧🇯🇵❤️1️⃣ ok",
            "don't  stop\u{a0}now\u{3000}です",
            "ไทยภาษา မြန်မာ ខ្មែរ",
            "這部電影 这部电影",
            "\u{0}a\u{200d}b\u{feff}",
            "\u{301}x",
            "한국어 שלום مرحبا ﷺ",
            "\r\n a\n\n",
            "",
        ];
        for tokenizer in TOKENIZERS.iter() {
            hard.iter().for_each(|text| check(tokenizer, text));
        }
    }

    proptest::proptest! {
        #[test]
        fn words_together_contain_the_text(text in concat!(
            "([ｦ-ﾟ]|[ぁ-ゖァ-ヶー\u{3099}\u{309A}]|[一-龠々]|[a-zA-Z0-9]|[ａ-ｚ０-９]|[\u{300}-\u{36f}]|",
            "[ﬀ-ﬆ㌀-㍗①-⑳½]|[\u{1F600}-\u{1F64F}\u{200D}\u{FE0F}\u{1F1E6}-\u{1F1FF}]|[ก-๛]|[ \n\u{3000}.,!、。…]|.){0,24}"
        )) {
            for tokenizer in TOKENIZERS.iter() {
                check(tokenizer, &text);
            }
        }
    }
}
