//! Encodes many texts word by word: each distinct word once.
//!
//! Some tokenizers write white space as one `▁` before each word, and no token crosses it. Then the tokens of a text
//! are those of its words in order. Texts repeat their words, and encoding a word costs a hundred times as much as
//! looking it up.

use super::error::TokenizerError as Error;
use super::pipeline::{NormalizationForm, TokenizationUnit, pipeline};
use chumoku_kernels::SharedCache;
use rayon::prelude::*;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Most words kept between calls.
const MAX_CACHED_WORDS: usize = 1 << 16;
/// Longest word that is kept, in bytes. Longer ones, such as sentences without spaces, rarely repeat.
const MAX_CACHED_WORD_BYTES: usize = 64;

type CachedWords = HashMap<Box<str>, Box<[u32]>>;

/// A cache of the token ids of words.
#[derive(Debug, Default)]
pub(super) struct WordCache {
    words: SharedCache<CachedWords>,
}

impl WordCache {
    /// Creates a cache for a tokenizer with these parts of its `tokenizer.json`. Returns `None` if its tokens might
    /// cross white space or depend on the text beyond it.
    pub(super) fn for_pipeline(normalizer: &Value, pre_tokenizer: &Value) -> Option<WordCache> {
        let forms = [NormalizationForm::NfkcLowercase, NormalizationForm::Nfkc, NormalizationForm::CollapsedSpaces];
        let ours = forms
            .iter()
            .flat_map(|&form| [TokenizationUnit::Subwords, TokenizationUnit::Words].map(|unit| pipeline(form, unit)));
        let is_one = |ours: Value| ours["normalizer"] == *normalizer && ours["pre_tokenizer"] == *pre_tokenizer;
        ours.into_iter().any(is_one).then(WordCache::default)
    }

    /// Returns the token ids of texts, on all threads. `encode` encodes a single word.
    ///
    /// # Errors
    /// If a word cannot be encoded.
    pub(super) fn encode_all(
        &self,
        texts: &[&str],
        encode: impl Fn(&str) -> Result<Vec<u32>, Error> + Sync,
    ) -> Result<Vec<Vec<u32>>, Error> {
        let known = self.words.get().unwrap_or_default();
        let each = texts.par_iter().fold(HashSet::new, |mut new, text| {
            let is_new = |word: &&str| word.len() <= MAX_CACHED_WORD_BYTES && !known.contains_key(*word);
            new.extend(text.split_whitespace().filter(is_new));
            new
        });
        let both = |mut some: HashSet<_>, others| {
            some.extend(others);
            some
        };
        let new: Vec<&str> = each.reduce(HashSet::new, both).into_iter().collect();
        let cut = new.par_iter().map(|&word| Ok((Box::from(word), encode(word)?.into())));
        let cut: CachedWords = cut.collect::<Result<_, Error>>()?;
        let joined = texts.par_iter().map(|text| {
            let mut ids = Vec::new();
            for word in text.split_whitespace() {
                match known.get(word).or_else(|| cut.get(word)) {
                    Some(found) => ids.extend_from_slice(found),
                    None => ids.extend(encode(word)?),
                }
            }
            Ok(ids)
        });
        let ids = joined.collect();
        drop(known);
        if !cut.is_empty() {
            self.words.update(|words| {
                let words = words.get_or_insert_default();
                if words.len() + cut.len() > MAX_CACHED_WORDS {
                    *words = Arc::default();
                }
                if cut.len() <= MAX_CACHED_WORDS {
                    Arc::make_mut(words).extend(cut);
                }
            });
        }
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::super::tokenizer::TextTokenizer;
    use super::super::training::TokenizerConfig;
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// One tokenizer for each configuration that encodes by words.
    fn tokenizers() -> Vec<TextTokenizer> {
        let texts = ["the film was good, don't you think? 2026", "a\u{a8}b ガラス 日本語 the films", "x ▁ y ▁▁z"];
        let units = [(TokenizationUnit::Subwords, 300), (TokenizationUnit::Words, 20)];
        let forms = [NormalizationForm::NfkcLowercase, NormalizationForm::Nfkc, NormalizationForm::CollapsedSpaces];
        let each = forms.iter().flat_map(|&form| units.map(|(unit, size)| (form, unit, size)));
        let train = |(form, unit, size)| {
            let config = TokenizerConfig { vocab_size: size, min_frequency: 1, form, unit };
            TextTokenizer::train(&texts, &config).unwrap()
        };
        each.map(train).collect()
    }

    fn expect_equal(tokenizer: &TextTokenizer, texts: &[&str]) {
        // Two rounds: new words, then cached words.
        for _ in 0..2 {
            let found = tokenizer.encode_all(texts).unwrap();
            for (text, ids) in texts.iter().zip(found) {
                assert_eq!(ids, tokenizer.encode(text).unwrap().ids, "{text:?}");
            }
        }
    }

    #[test]
    fn texts_have_the_tokens_of_their_words() {
        let texts = [
            "",
            " ",
            "\u{3000}\u{a0}",
            "the film",
            " the\t\nfilm ",
            "x ▁ y▁ ▁▁z",
            "a\u{a8}b \u{a8} c\u{a8} \u{308}d",
            "\u{fdfa} \u{2002}\u{308}e",
            "ΟΔΟΣ ΟΔΟΣ, İSTANBUL",
            "[CLS] [UNK] <0x41>",
            "日本語の film ｶﾞｷﾞ e\u{301}\u{323} 12345 ㍿ ½",
            "don't you\u{2019}ll 'tis",
            "\u{0}\u{1c}\u{85}\u{200b}\u{feff}a\u{180e}b",
            "🎉👨\u{200d}👩 \u{1f468}\u{200d} x",
        ];
        for tokenizer in tokenizers() {
            assert!(tokenizer.has_word_cache());
            expect_equal(&tokenizer, &texts);
            expect_equal(&tokenizer, &texts);
        }
    }

    #[test]
    fn other_tokenizers_encode_whole_texts() {
        for (form, unit) in [
            (NormalizationForm::Unchanged, TokenizationUnit::Subwords),
            (NormalizationForm::NfkcLowercase, TokenizationUnit::Characters),
        ] {
            let config = TokenizerConfig { vocab_size: 300, min_frequency: 1, form, unit };
            let tokenizer = TextTokenizer::train(&["the film", " was  good"], &config).unwrap();
            assert!(!tokenizer.has_word_cache());
            expect_equal(&tokenizer, &[" the  film ", "日本"]);
        }
        // A token that was added by hand may cross white space.
        let mut file: Value = serde_json::from_str(&tokenizers()[0].to_json().unwrap()).unwrap();
        let id = file["model"]["vocab"].as_object().unwrap().len();
        file["added_tokens"].as_array_mut().unwrap().push(json!({
            "id": id, "content": "the film", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            "special": false
        }));
        let tokenizer = TextTokenizer::from_json(&file.to_string()).unwrap();
        assert!(!tokenizer.has_word_cache());
        expect_equal(&tokenizer, &["see the film now"]);
        // One step that looks beyond a word rules out the cache.
        let mut ours = pipeline(NormalizationForm::NfkcLowercase, TokenizationUnit::Words);
        assert!(WordCache::for_pipeline(&ours["normalizer"], &ours["pre_tokenizer"]).is_some());
        ours["normalizer"]["normalizers"].as_array_mut().unwrap().push(json!({ "type": "NFD" }));
        assert!(WordCache::for_pipeline(&ours["normalizer"], &ours["pre_tokenizer"]).is_none());
    }

    #[test]
    fn a_call_never_waits_for_the_cache() {
        let cache = WordCache::default();
        let ids = |word: &str| Ok(vec![word.len() as u32]);
        let expected = cache.encode_all(&["one three"], ids).unwrap();
        // As in a process that was forked while another thread added words.
        cache.words.update(|_| assert_eq!(cache.encode_all(&["one three"], ids).unwrap(), expected));
        assert_eq!(cache.encode_all(&["one three"], |_| unreachable!("both words are cached")).unwrap(), expected);
    }

    #[test]
    fn the_cache_is_bounded() {
        let by_word = WordCache::default();
        let texts: Vec<String> = (0..MAX_CACHED_WORDS + 1).map(|i| format!("w{i} w")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let ids = |word: &str| Ok(vec![word.len() as u32]);
        let found = by_word.encode_all(&texts[..10], ids).unwrap();
        assert_eq!((found[3].as_slice(), by_word.words.get().unwrap().len()), (&[2, 1][..], 11));
        assert_eq!(by_word.encode_all(&texts, ids).unwrap()[10_000], [6, 1]);
        assert!(by_word.words.get().unwrap().len() <= MAX_CACHED_WORDS);
        let long = "x".repeat(MAX_CACHED_WORD_BYTES + 1);
        let before = by_word.words.get().unwrap().len();
        assert_eq!(by_word.encode_all(&[&long], ids).unwrap(), [[MAX_CACHED_WORD_BYTES as u32 + 1]]);
        assert_eq!(by_word.words.get().unwrap().len(), before);
        let fails = |_: &str| Err(Error::Invalid("this word".into()));
        assert!(by_word.encode_all(&texts[..1], fails).is_err());
    }

    proptest! {
        #[test]
        fn any_text_has_the_tokens_of_its_words(texts in prop::collection::vec("([\\p{any}]|[ \u{a8}▁'a-zA-Z0-9\u{300}-\u{310}\u{3000}]){0,12}", 1..6)) {
            thread_local! { static TOKENIZERS: Vec<TextTokenizer> = tokenizers(); }
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            TOKENIZERS.with(|tokenizers| tokenizers.iter().for_each(|tokenizer| expect_equal(tokenizer, &texts)));
        }
    }
}
