//! Trains tokenizers on the user's texts: byte-pair encoding (Sennrich, Haddow and Birch 2016) with byte fallback,
//! which leaves no text unknown, or whole words.

use super::error::TokenizerError as Error;
use super::error::library_error;
use super::pipeline::{CLS, NormalizationForm, TokenizationUnit, UNK, add_special_tokens, pipeline};
use super::script::unspaced_fraction;
use super::tokenizer::TextTokenizer;
use crate::sorting;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::str::FromStr;
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::BpeTrainerBuilder;
use tokenizers::{
    NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, Tokenizer,
};

/// The settings of a new tokenizer.
#[derive(Clone, Copy, Debug)]
pub struct TokenizerConfig {
    /// The largest vocabulary, including the 257 fixed tokens (`[CLS]` and all bytes).
    pub vocab_size: usize,
    /// The minimum frequency of a pair that is merged.
    pub min_frequency: u64,
    /// The normalization of texts.
    pub form: NormalizationForm,
    /// The unit of tokens.
    pub unit: TokenizationUnit,
}

/// Returns the `most` most frequent characters of the normalized texts. Ties go to the lower code point. Other
/// characters fall back to bytes. The library's trainer breaks ties differently in every run, so the alphabet is chosen
/// here.
fn frequent_characters(learner: &Tokenizer, texts: &[&str], most: usize) -> HashSet<char> {
    let mut counts: BTreeMap<char, u64> = BTreeMap::new();
    for text in texts {
        let mut normal = NormalizedString::from(*text);
        if let Some(normalizer) = learner.get_normalizer() {
            // The trainer reports texts that cannot be normalized.
            let _ = normalizer.normalize(&mut normal);
        }
        normal.get().chars().for_each(|c| *counts.entry(c).or_default() += 1);
    }
    let mut order: Vec<(char, u64)> = counts.into_iter().collect();
    sorting::sort_by_key(&mut order, |&(c, count)| (std::cmp::Reverse(count), c));
    order.into_iter().take(most).map(|(c, _)| c).collect()
}

/// Returns the `most` most frequent words of the pre-tokenizer. Ties go to the first in alphabetical order.
fn frequent_words(learner: &Tokenizer, texts: &[&str], most: usize, least: u64) -> Result<Vec<String>, Error> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for text in texts {
        let mut normal = NormalizedString::from(*text);
        if let Some(normalizer) = learner.get_normalizer() {
            normalizer.normalize(&mut normal).map_err(library_error("training"))?;
        }
        let mut cut = PreTokenizedString::from(normal);
        if let Some(cutter) = learner.get_pre_tokenizer() {
            cutter.pre_tokenize(&mut cut).map_err(library_error("training"))?;
        }
        for (word, _, _) in cut.get_splits(OffsetReferential::Normalized, OffsetType::None) {
            *counts.entry(word.to_owned()).or_default() += 1;
        }
    }
    let mut order: Vec<(String, u64)> = counts.into_iter().filter(|(_, count)| *count >= least).collect();
    sorting::sort_by_key(&mut order, |(_, count)| std::cmp::Reverse(*count));
    Ok(order.into_iter().take(most).map(|(word, _)| word).collect())
}

impl TextTokenizer {
    /// Trains a tokenizer of whole words.
    fn train_words(texts: &[&str], config: &TokenizerConfig) -> Result<Self, Error> {
        let mut json = pipeline(config.form, config.unit);
        let learner = Tokenizer::from_str(&json.to_string()).map_err(library_error("preparing"))?;
        let words = frequent_words(&learner, texts, config.vocab_size.saturating_sub(2).max(1), config.min_frequency)?;
        let all = [CLS, UNK].map(str::to_owned).into_iter().chain(words);
        let vocab: serde_json::Map<String, Value> = all.enumerate().map(|(id, token)| (token, id.into())).collect();
        json["model"] = json!({ "type": "WordLevel", "vocab": vocab, "unk_token": UNK });
        add_special_tokens(&mut json, &[CLS, UNK], config.form);
        TextTokenizer::from_json(&json.to_string())
    }

    /// Trains a tokenizer on `texts`. The result depends only on the arguments.
    ///
    /// # Errors
    /// If training fails, for example because the texts are empty.
    pub fn train(texts: &[&str], config: &TokenizerConfig) -> Result<Self, Error> {
        if config.unit == TokenizationUnit::Words {
            return TextTokenizer::train_words(texts, config);
        }
        const FIXED: usize = 257;
        let mut learner =
            Tokenizer::from_str(&pipeline(config.form, config.unit).to_string()).map_err(library_error("preparing"))?;
        let target = config.vocab_size.saturating_sub(FIXED).max(1);
        // Characters are never merged, so the whole vocabulary is alphabet.
        let most = if config.unit == TokenizationUnit::Characters { target } else { (target / 2).max(64) };
        let alphabet = frequent_characters(&learner, texts, most);
        let mut trainer: TrainerWrapper = BpeTrainerBuilder::new()
            .vocab_size(target)
            .min_frequency(config.min_frequency)
            .limit_alphabet(alphabet.len())
            .initial_alphabet(alphabet)
            .show_progress(false)
            .build()
            .into();
        learner.train(&mut trainer, texts.iter()).map_err(library_error("training"))?;
        let learned = learner.to_string(false).map_err(library_error("training"))?;
        let mut learned: Value = serde_json::from_str(&learned).map_err(|error| Error::Invalid(error.to_string()))?;

        // Ids: [CLS], the 256 bytes, then the learned tokens in their order.
        let mut tokens: Vec<(String, u64)> = learned["model"]["vocab"]
            .as_object()
            .map(|vocab| vocab.iter().map(|(token, id)| (token.clone(), id.as_u64().unwrap_or(0))).collect())
            .unwrap_or_default();
        sorting::sort_by_key(&mut tokens, |(_, id)| *id);
        let bytes = (0..256).map(|byte| format!("<0x{byte:02X}>"));
        let all = std::iter::once(CLS.to_owned()).chain(bytes).chain(tokens.into_iter().map(|(token, _)| token));
        let vocab: serde_json::Map<String, Value> = all.enumerate().map(|(id, token)| (token, id.into())).collect();
        learned["model"]["vocab"] = vocab.into();
        learned["model"]["byte_fallback"] = true.into();
        add_special_tokens(&mut learned, &[CLS], config.form);
        TextTokenizer::from_json(&learned.to_string())
    }

    /// Suggests a vocabulary size for these texts: one token per 100 characters, or per 60 in scripts without spaces,
    /// within 1,000 to 16,000.
    ///
    /// A few frequent tokens generalize better than many rare ones.
    pub fn suitable_vocab_size(texts: &[&str]) -> usize {
        let characters: usize = texts.iter().map(|text| text.chars().count()).sum();
        let per_token = if unspaced_fraction(texts.iter().copied()) > 0.3 { 60 } else { 100 };
        (characters / per_token).clamp(1_000, 16_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_whole_or_unknown() {
        let texts = ["the cat saw the dog.\nthe dog saw 12 cats.", "猫が寝た。犬が寝た。"];
        let config = TokenizerConfig {
            vocab_size: 100,
            min_frequency: 1,
            form: NormalizationForm::Unchanged,
            unit: TokenizationUnit::Words,
        };
        let tokenizer = TextTokenizer::train(&texts, &config).unwrap();
        let unknown = tokenizer.unknown_id().unwrap();
        for text in texts {
            let ids = tokenizer.encode(text).unwrap().ids;
            assert!(!ids.contains(&unknown));
            assert_eq!(tokenizer.decode(&ids).unwrap(), text);
        }
        let ids = tokenizer.encode("the cow saw the dog.").unwrap().ids;
        assert_eq!((ids.len(), ids[1]), (6, unknown));
        // The most frequent words stay if there is no room for all, and every run gives the same result.
        let small = TextTokenizer::train(&texts, &TokenizerConfig { vocab_size: 5, ..config }).unwrap();
        assert_eq!((small.vocab_size(), small.id_bound()), (5, 5));
        assert_ne!(small.encode("the").unwrap().ids, [unknown]);
        assert_eq!(
            small.to_json().unwrap(),
            TextTokenizer::train(&texts, &TokenizerConfig { vocab_size: 5, ..config }).unwrap().to_json().unwrap()
        );
    }

    #[test]
    fn ties_among_characters_do_not_change_the_vocabulary() {
        // Hundreds of characters occur once each, with room for a few. The choice must not vary.
        let texts: Vec<String> =
            (0..40u32).map(|row| (0..20).filter_map(|i| char::from_u32(0x4E00 + 20 * row + i)).collect()).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let train = || {
            let config = TokenizerConfig {
                vocab_size: 400,
                min_frequency: 2,
                form: NormalizationForm::NfkcLowercase,
                unit: TokenizationUnit::Subwords,
            };
            TextTokenizer::train(&texts, &config).unwrap().to_json().unwrap()
        };
        let first = train();
        assert!((0..8).all(|_| train() == first));
    }
}
