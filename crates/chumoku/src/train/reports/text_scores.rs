//! Scores of translators and language models.

use crate::Result;
use crate::data::SentencePairs;
use crate::lang::lang;
use crate::lang::wording::edit_distance;
use crate::metrics::{Bleu, BleuTokenizer, Chrf};
use crate::text::unspaced_fraction;
use crate::text_models::autoencoder::TextAutoencoder;
use crate::text_models::translator::{TextTranslator, TranslateOptions};
use chumoku_kernels::parallel;
use serde::Serialize;

/// The quality of translations.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TranslationScores {
    /// The number of pairs.
    pub pairs: usize,
    /// BLEU, from 0 to 100.
    pub bleu: f64,
    /// The signature of the BLEU computation.
    pub bleu_signature: String,
    /// chrF2, from 0 to 100.
    pub chrf: f64,
    /// The signature of the chrF2 computation.
    pub chrf_signature: String,
    /// The share of translations that equal the reference.
    pub exact: f64,
    /// For an autoencoder: 1 minus the edits that turn the reconstructions into their texts, divided by the characters
    /// of the longer of both. `None` for a translator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub character_accuracy: Option<f64>,
    /// The number of sources that were truncated to the model's context.
    pub cut_sources: usize,
}

impl TranslationScores {
    /// Scores translations against references. BLEU counts characters if the references have no spaces.
    ///
    /// # Errors
    /// If there are not as many translations as references.
    pub(crate) fn compare(translations: &[&str], references: &[&str]) -> Result<TranslationScores> {
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
            character_accuracy: None,
            cut_sources: 0,
        })
    }

    /// Translates the sources of pairs and scores the translations against the targets.
    ///
    /// # Errors
    /// If a text cannot be tokenized.
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
        let is_autoencoder = model.config().model.options.bottleneck.is_some();
        let character_accuracy = is_autoencoder.then(|| character_accuracy(&texts, &references));
        Ok(TranslationScores { cut_sources, character_accuracy, ..TranslationScores::compare(&texts, &references)? })
    }
}

impl TranslationScores {
    /// Compares texts with their reconstructions by an autoencoder.
    ///
    /// # Errors
    /// As for [`TranslationScores::measure`].
    pub fn measure_autoencoder(
        model: &TextAutoencoder,
        texts: &SentencePairs,
        options: &TranslateOptions,
    ) -> Result<TranslationScores> {
        TranslationScores::measure(&model.0, texts, options)
    }
}

/// Returns the share of characters that need no edit (Levenshtein 1966), over all texts.
fn character_accuracy(texts: &[&str], references: &[&str]) -> f64 {
    let edits = parallel::map_indices(references.len().min(texts.len()), |i| {
        let [text, reference] = [texts[i], references[i]].map(|text| text.chars().collect::<Vec<char>>());
        [edit_distance(&text, &reference), text.len().max(reference.len())]
    });
    let [edits, characters] = [0, 1].map(|i| edits.iter().map(|counts| counts[i]).sum::<usize>());
    1.0 - edits as f64 / characters.max(1) as f64
}

/// The accuracy of an encoder on masked tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MaskedScores {
    /// The number of masked tokens.
    pub hidden: usize,
    /// The mean −ln p of the masked tokens.
    pub loss: f64,
    /// The share of masked tokens that the most probable prediction matches.
    pub accuracy: f64,
}

/// The quality of a language model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LanguageScores {
    /// The number of predicted tokens, including the ends of documents.
    pub tokens: usize,
    /// The number of unknown tokens. Perplexities count each as one word.
    pub unknown: usize,
    /// The number of words between white space. `None` for scripts written without it.
    pub words: Option<usize>,
    /// The number of characters.
    pub(crate) characters: usize,
    /// The number of bytes in UTF-8.
    pub(crate) bytes: usize,
    /// The mean −ln p of a token.
    pub loss: f64,
    /// e to the power of the mean −ln p of a token.
    pub(crate) perplexity_per_token: f64,
    /// e to the power of the total −ln p divided by the words: comparable between tokenizers. `None` if words are not
    /// counted.
    pub(crate) perplexity_per_word: Option<f64>,
    /// e to the power of the total −ln p divided by the characters: comparable between tokenizers.
    pub(crate) perplexity_per_character: f64,
    /// 2 to the power of the total −log₂ p divided by the bytes.
    pub(crate) perplexity_per_byte: f64,
}

impl LanguageScores {
    /// Perplexities with the names of their units in the user's language: per token, per word (or per character if
    /// words are not counted), and per byte.
    pub fn perplexities(&self) -> [(&'static str, f64); 3] {
        let by_word = self.perplexity_per_word.map(|value| (lang().pick("word", "単語"), value));
        let middle = by_word.unwrap_or((lang().pick("character", "文字"), self.perplexity_per_character));
        let [token, byte] = [lang().pick("token", "トークン"), lang().pick("byte", "バイト")];
        [(token, self.perplexity_per_token), middle, (byte, self.perplexity_per_byte)]
    }

    pub(crate) fn from_total(total: f64, tokens: usize, texts: &[String]) -> LanguageScores {
        // In scripts without spaces between words, white space separates sentences.
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

/// The share of letters of scripts without spaces from which words are not counted.
const UNSPACED_SHARE: f64 = 0.3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn character_accuracy_counts_edits_in_the_longer_text() {
        assert_eq!(character_accuracy(&["abcd", "日本"], &["abcd", "日本"]), 1.0);
        // One replaced, one missing and two surplus characters of 4 + 2 + 3.
        let accuracy = character_accuracy(&["abxd", "a", "abc"], &["abcd", "ab", "a"]);
        assert!((accuracy - (1.0 - 4.0 / 9.0)).abs() < 1e-12, "{accuracy}");
        assert_eq!((character_accuracy(&[""], &["ab"]), character_accuracy(&[], &[])), (0.0, 1.0));
    }

    #[test]
    fn perplexities_share_the_total_loss() {
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
    fn without_word_spacing_perplexity_is_per_character() {
        let scores = LanguageScores::from_total(12.0, 6, &["吾輩は猫である。名前は まだ無い。".to_owned()]);
        assert_eq!((scores.words, scores.characters), (None, 17));
        assert_eq!(scores.perplexities().map(|(name, _)| name), ["token", "character", "byte"]);
        assert!((scores.perplexities()[1].1 - (12.0f64 / 17.0).exp()).abs() < 1e-12);
    }
}
