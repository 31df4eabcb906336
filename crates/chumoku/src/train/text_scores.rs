//! How good translators and language models are.

use crate::Result;
use crate::data::SentencePairs;
use crate::lang::lang;
use crate::metrics::{Bleu, BleuTokenizer, Chrf};
use crate::text::unspaced_fraction;
use crate::text_translator::{TextTranslator, TranslateOptions};
use serde::Serialize;

/// How good translations are.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TranslationScores {
    /// Pairs.
    pub pairs: usize,
    /// BLEU, from 0 to 100.
    pub bleu: f64,
    /// How BLEU was computed.
    pub bleu_signature: String,
    /// chrF2, from 0 to 100.
    pub chrf: f64,
    /// How chrF2 was computed.
    pub chrf_signature: String,
    /// Share of the translations that are the reference.
    pub exact: f64,
    /// Sources that were longer than the model reads.
    pub cut_sources: usize,
}

impl TranslationScores {
    /// Compares translations with references; BLEU counts characters where the references have no spaces.
    ///
    /// # Errors
    /// If there are not as many of both.
    pub fn compare(translations: &[&str], references: &[&str]) -> Result<TranslationScores> {
        let is_unspaced = unspaced_fraction(references.iter().copied()) > 0.3;
        let bleu = Bleu::new(if is_unspaced { BleuTokenizer::Char } else { BleuTokenizer::V13a });
        let exact = translations.iter().zip(references).filter(|(a, b)| a == b).count();
        Ok(TranslationScores {
            pairs: references.len(),
            bleu: bleu.corpus(translations, &[references])?.score,
            bleu_signature: bleu.signature(1),
            chrf: Chrf.corpus(translations, &[references])?.score,
            chrf_signature: Chrf.signature(1),
            exact: exact as f64 / references.len().max(1) as f64,
            cut_sources: 0,
        })
    }

    /// Translates pairs' sources and compares with their targets.
    ///
    /// # Errors
    /// If a text cannot be read as tokens.
    pub fn measure(
        model: &TextTranslator,
        pairs: &SentencePairs,
        options: &TranslateOptions,
    ) -> Result<TranslationScores> {
        let sources: Vec<&str> = pairs.sources.iter().map(String::as_str).collect();
        let translations = model.translate(&sources, options)?;
        let texts: Vec<&str> = translations.iter().map(|translation| translation.text()).collect();
        let references: Vec<&str> = pairs.targets.iter().map(String::as_str).collect();
        let cut_sources = translations.iter().filter(|translation| translation.is_truncated).count();
        Ok(TranslationScores { cut_sources, ..TranslationScores::compare(&texts, &references)? })
    }
}

/// How well an encoder fills in what is hidden from it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MaskedScores {
    /// Tokens that were hidden.
    pub hidden: usize,
    /// Mean −ln p of what was hidden.
    pub loss: f64,
    /// Share of them that the likeliest guess was.
    pub accuracy: f64,
}

/// How well a model foretells text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LanguageScores {
    /// Tokens foretold, the ends of documents among them.
    pub tokens: usize,
    /// How many of them stand for a word that the tokenizer does not know; perplexities count these as one word.
    pub unknown: usize,
    /// Words between white space; none in scripts written without it.
    pub words: Option<usize>,
    /// Characters.
    pub characters: usize,
    /// Bytes of UTF-8.
    pub bytes: usize,
    /// Mean −ln p of a token.
    pub loss: f64,
    /// e to the mean −ln p of a token.
    pub perplexity_per_token: f64,
    /// e to the whole −ln p by words: comparable between tokenizers. None where there are no words to count.
    pub perplexity_per_word: Option<f64>,
    /// e to the whole −ln p by characters: comparable between tokenizers.
    pub perplexity_per_character: f64,
    /// 2 to the whole −log₂ p by bytes.
    pub perplexity_per_byte: f64,
}

impl LanguageScores {
    /// Perplexities with what they are by in the language of the process, the first by token; by character where there are no words to count.
    pub fn perplexities(&self) -> [(&'static str, f64); 3] {
        let by_word = self.perplexity_per_word.map(|value| (lang().pick("word", "単語"), value));
        let middle = by_word.unwrap_or((lang().pick("character", "文字"), self.perplexity_per_character));
        let [token, byte] = [lang().pick("token", "トークン"), lang().pick("byte", "バイト")];
        [(token, self.perplexity_per_token), middle, (byte, self.perplexity_per_byte)]
    }

    pub(super) fn from_total(total: f64, tokens: usize, texts: &[String]) -> LanguageScores {
        // Where few letters are of a script that sets words off, what stands between white space is a sentence.
        let is_spaced = unspaced_fraction(texts.iter().map(String::as_str)) <= UNSPACED_SHARE;
        let words = is_spaced.then(|| texts.iter().map(|text| text.split_whitespace().count()).sum());
        let characters = texts.iter().map(|text| text.chars().count()).sum();
        let bytes = texts.iter().map(String::len).sum();
        let per = |n: usize| (total / n.max(1) as f64).exp();
        LanguageScores {
            tokens,
            unknown: 0,
            words,
            characters,
            bytes,
            loss: total / tokens.max(1) as f64,
            perplexity_per_token: per(tokens),
            perplexity_per_word: words.map(per),
            perplexity_per_character: per(characters),
            perplexity_per_byte: per(bytes),
        }
    }
}

/// Share of letters of scripts written without spaces from which on words are not counted.
const UNSPACED_SHARE: f64 = 0.3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perplexities_are_of_the_same_whole() {
        let texts = ["two words".to_owned(), "三".to_owned()];
        let scores = LanguageScores::from_total(12.0, 6, &texts);
        assert_eq!((scores.tokens, scores.words, scores.characters, scores.bytes), (6, Some(3), 10, 12));
        assert!((scores.perplexity_per_token - 2f64.exp()).abs() < 1e-12);
        assert!((scores.perplexity_per_word.unwrap() - 4f64.exp()).abs() < 1e-12);
        assert!((scores.perplexity_per_character - 1.2f64.exp()).abs() < 1e-12);
        assert!((scores.perplexity_per_byte - 1f64.exp()).abs() < 1e-12);
        assert_eq!(scores.perplexities().map(|(name, _)| name), ["token", "word", "byte"]);
    }

    #[test]
    fn where_words_are_not_set_off_perplexity_is_by_character() {
        let scores = LanguageScores::from_total(12.0, 6, &["吾輩は猫である。名前は まだ無い。".to_owned()]);
        assert_eq!((scores.words, scores.characters), (None, 17));
        assert_eq!(scores.perplexities().map(|(name, _)| name), ["token", "character", "byte"]);
        assert!((scores.perplexities()[1].1 - (12.0f64 / 17.0).exp()).abs() < 1e-12);
    }
}
