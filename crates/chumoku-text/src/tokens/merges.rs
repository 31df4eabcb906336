//! The merges of byte-pair encoding, one by one (Sennrich, Haddow and Birch 2016).

use super::error::TokenizerError as Error;
use super::validated::ValidatedTokenizer;
use crate::tr;
use serde::Serialize;
use std::collections::HashMap;
use tokenizers::{
    Model, NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
};

/// A word and the merges that produce its tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MergedWord {
    /// The word after normalization.
    pub text: String,
    /// The initial symbols: characters, or the bytes of characters outside the vocabulary.
    pub symbols: Vec<String>,
    /// The merges, in order.
    pub merges: Vec<Merge>,
    /// The tokens after the last merge.
    pub tokens: Vec<String>,
}

/// A merge of two adjacent symbols.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Merge {
    /// The position of the left symbol among the current symbols, from 0.
    pub at: usize,
    /// The two symbols.
    pub pair: [String; 2],
    /// The merged symbol.
    pub joined: String,
    /// The rank of the merge in training, from 1. The lowest rank that applies is taken first.
    pub rank: usize,
}

/// A byte-pair encoding model, as read from a file.
struct BpeModel {
    ranks: HashMap<(String, String), usize>,
    vocabulary: HashMap<String, u32>,
    prefix: String,
    suffix: String,
    unknown: Option<String>,
    /// True if a word that is in the vocabulary becomes one token without merges.
    ignore_merges: bool,
    byte_fallback: bool,
}

impl BpeModel {
    fn read(model: &serde_json::Value) -> Option<BpeModel> {
        if model["type"].as_str().is_some_and(|kind| kind != "BPE") || !model["merges"].is_array() {
            return None;
        }
        let pair = |merge: &serde_json::Value| match merge {
            serde_json::Value::String(both) => both.split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned())),
            both => Some((both[0].as_str()?.to_owned(), both[1].as_str()?.to_owned())),
        };
        let text = |key: &str| model[key].as_str().map(str::to_owned);
        let ranks = model["merges"].as_array()?.iter().zip(1..).filter_map(|(merge, rank)| Some((pair(merge)?, rank)));
        let vocabulary = model["vocab"].as_object()?.iter();
        Some(BpeModel {
            ranks: ranks.collect(),
            vocabulary: vocabulary.filter_map(|(token, id)| Some((token.clone(), id.as_u64()? as u32))).collect(),
            prefix: text("continuing_subword_prefix").unwrap_or_default(),
            suffix: text("end_of_word_suffix").unwrap_or_default(),
            unknown: text("unk_token"),
            ignore_merges: model["ignore_merges"] == true,
            byte_fallback: model["byte_fallback"] == true,
        })
    }

    /// Splits a word into its initial symbols.
    fn initial_symbols(&self, word: &str) -> Vec<String> {
        let count = word.chars().count();
        let mut found = Vec::new();
        for (i, c) in word.chars().enumerate() {
            let [before, after] = [(i > 0, &self.prefix), (i + 1 == count, &self.suffix)]
                .map(|(is, text)| if is { text.as_str() } else { "" });
            let symbol = format!("{before}{c}{after}");
            if self.vocabulary.contains_key(&symbol) {
                found.push(symbol);
                continue;
            }
            let bytes: Vec<String> = symbol.bytes().map(|b| format!("<{b:#04X}>")).collect();
            match &self.unknown {
                _ if self.byte_fallback && bytes.iter().all(|byte| self.vocabulary.contains_key(byte)) => {
                    found.extend(bytes)
                }
                Some(unknown) => found.push(unknown.clone()),
                None => {}
            }
        }
        found
    }

    fn merge_word(&self, text: &str) -> MergedWord {
        if self.ignore_merges && self.vocabulary.contains_key(text) {
            let whole = vec![text.to_owned()];
            return MergedWord { text: text.into(), symbols: whole.clone(), merges: Vec::new(), tokens: whole };
        }
        let symbols = self.initial_symbols(text);
        let (mut tokens, mut merges) = (symbols.clone(), Vec::new());
        loop {
            let ranked = tokens.windows(2).enumerate().filter_map(|(at, two)| {
                let rank = self.ranks.get(&(two[0].clone(), two[1].clone()))?;
                Some((*rank, at))
            });
            let Some((rank, at)) = ranked.min() else { break };
            let right = tokens.remove(at + 1);
            // The prefix of continuing symbols occurs only once in the merged symbol.
            let joined = format!("{}{}", tokens[at], right.strip_prefix(&self.prefix).unwrap_or(&right));
            let left = std::mem::replace(&mut tokens[at], joined.clone());
            merges.push(Merge { at, pair: [left, right], joined, rank });
        }
        MergedWord { text: text.into(), symbols, merges, tokens }
    }
}

/// Returns the merges with which a `tokenizer.json` encodes a text, word by word.
///
/// # Errors
/// If the file is not a tokenizer, or does not use byte-pair encoding.
pub fn merges(json: &str, text: &str) -> Result<Vec<MergedWord>, Error> {
    let guarded = ValidatedTokenizer::from_json(json)?;
    let inner = &guarded.inner;
    let file: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let model = &file["model"];
    let Some(merges) = BpeModel::read(model) else {
        let kind = model["type"].as_str().unwrap_or("another").to_owned();
        return Err(Error::Invalid(tr!(
            "expected byte-pair encoding, which has merges, found {kind}",
            "マージのあるバイト対符号化（BPE）が必要ですが、{kind} です"
        )));
    };
    let doing = tr!("splitting a text into words", "テキストの単語分割");
    let words = guarded.run(&doing, || {
        let mut normalised = NormalizedString::from(text);
        if let Some(normalizer) = inner.get_normalizer() {
            normalizer.normalize(&mut normalised)?;
        }
        let mut cut = PreTokenizedString::from(normalised);
        if let Some(cutter) = inner.get_pre_tokenizer() {
            cutter.pre_tokenize(&mut cut)?;
        }
        let splits = cut.get_splits(OffsetReferential::Original, OffsetType::Byte);
        Ok(splits.into_iter().map(|(word, ..)| word.to_owned()).collect::<Vec<String>>())
    })?;
    let found: Vec<MergedWord> =
        words.iter().filter(|word| !word.is_empty()).map(|word| merges.merge_word(word)).collect();
    for word in &found {
        let own = guarded.run(&doing, || inner.get_model().tokenize(&word.text))?;
        // Several unknown characters may be one token.
        let is_same = own.iter().map(|token| &token.value).eq(&word.tokens);
        if !is_same && !own.iter().any(|token| Some(&token.value) == merges.unknown.as_ref()) {
            return Err(Error::Invalid(tr!(
                "the tokens of {:?} are not those of its merges: the tokenizer splits texts differently",
                "{:?} のトークンがマージの結果と一致しません。このトークナイザーは別の方法で分割します",
                word.text
            )));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::pipeline::{NormalizationForm, TokenizationUnit};
    use super::super::tokenizer::TextTokenizer;
    use super::super::training::TokenizerConfig;
    use super::*;

    fn trained(unit: TokenizationUnit) -> TextTokenizer {
        let texts = [
            "The film was great, really great!",
            "the food was not good, the film was slow.",
            "この映画は良かったです。",
        ];
        let config =
            TokenizerConfig { vocab_size: 380, min_frequency: 1, form: NormalizationForm::NfkcLowercase, unit };
        TextTokenizer::train(&texts, &config).unwrap()
    }

    #[test]
    fn merges_end_with_the_tokens_of_the_text() {
        let tokenizer = trained(TokenizationUnit::Subwords);
        let json = tokenizer.to_json().unwrap();
        for text in ["the film was greatest", "この映画 xyz 🎉", "", "a"] {
            let words = merges(&json, text).unwrap();
            let tokens: Vec<String> = words.iter().flat_map(|word| word.tokens.clone()).collect();
            let own: Vec<String> = tokenizer.encode(text).unwrap().ids.iter().map(|&id| tokenizer.token(id)).collect();
            assert_eq!(tokens, own, "{text}");
            for word in &words {
                // Each merge joins two adjacent symbols.
                let mut symbols = word.symbols.clone();
                for merge in &word.merges {
                    assert_eq!(symbols[merge.at..merge.at + 2], merge.pair);
                    symbols.splice(merge.at..merge.at + 2, [merge.joined.clone()]);
                }
                assert_eq!(symbols, word.tokens);
            }
        }
        let film = merges(&json, "film").unwrap().remove(0);
        assert!(film.merges.len() >= 3 && film.tokens.len() <= 2, "{film:?}");
        // Ranks count from 1.
        let ranks: Vec<usize> = film.merges.iter().map(|merge| merge.rank).collect();
        assert!(ranks.iter().all(|&rank| rank >= 1), "{ranks:?}");
    }

    #[test]
    fn tokenizers_without_merges_are_refused() {
        let json = trained(TokenizationUnit::Words).to_json().unwrap();
        assert!(merges(&json, "the film").unwrap_err().to_string().contains("byte-pair"));
        assert!(merges("{}", "the film").is_err());
    }
}
