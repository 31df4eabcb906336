//! Encoding and decoding with a `tokenizer.json`, trained by [`super::training`] or made elsewhere for Hugging Face's
//! library.

use super::error::{TokenizerError as Error, library_error};
use super::marian::MarianTokenizer;
use super::pipeline::{CLS, SEP, TokenizationUnit, UNK, special_token_entry, splits_into_characters};
use super::pretrained::{PretrainedTokenizer, SpecialTokens};
use super::token_sequence::TokenSequence;
use super::validated::{ValidatedTokenizer, token_spans};
use super::word_cache::WordCache;
use crate::row::{AsRow, RowRef, as_rows};
use crate::tr;
use rayon::prelude::*;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use tokenizers::Model;
use tokenizers::models::ModelWrapper;

/// A tokenizer: trained here, a [`PretrainedTokenizer`], or that of a Marian translator.
#[derive(Clone, Debug)]
pub struct TextTokenizer {
    engine: TokenizerEngine,
    special_tokens: SpecialTokens,
    is_character_level: bool,
    /// True if the vocabulary writes bytes as letters, such as `Ġ` for a space.
    is_byte_level: bool,
    /// The cache for encoding by words, if the tokenizer allows it.
    word_cache: Option<Arc<WordCache>>,
    /// The token between the two texts of a pair. `None` if only single texts are read.
    pair_separator: Option<u32>,
}

/// The implementation behind a tokenizer.
#[derive(Clone, Debug)]
enum TokenizerEngine {
    /// The `tokenizers` library, which reads a `tokenizer.json`.
    Library(Box<ValidatedTokenizer>),
    /// SentencePiece with Marian's vocabulary.
    SentencePiece(Arc<MarianTokenizer>),
}

impl TokenizerEngine {
    fn library(&self) -> Option<&ValidatedTokenizer> {
        match self {
            TokenizerEngine::Library(guarded) => Some(guarded),
            TokenizerEngine::SentencePiece(_) => None,
        }
    }

    fn library_mut(&mut self) -> Option<&mut ValidatedTokenizer> {
        match self {
            TokenizerEngine::Library(guarded) => Some(guarded),
            TokenizerEngine::SentencePiece(_) => None,
        }
    }

    fn vocabulary(&self) -> Cow<'_, HashMap<String, u32>> {
        match self {
            TokenizerEngine::Library(guarded) => Cow::Owned(guarded.inner.get_vocab(true)),
            TokenizerEngine::SentencePiece(pieces) => Cow::Borrowed(pieces.ids()),
        }
    }
}

impl TextTokenizer {
    /// The unit of the tokens, for a tokenizer that was trained here.
    pub fn unit(&self) -> TokenizationUnit {
        match (self.is_character_level, self.unknown_id()) {
            (true, _) => TokenizationUnit::Characters,
            (false, Some(_)) => TokenizationUnit::Words,
            (false, None) => TokenizationUnit::Subwords,
        }
    }

    /// Reads and validates the text of a `tokenizer.json`.
    ///
    /// # Errors
    /// If it is not a tokenizer, has no `[CLS]`, or could use all memory or run forever.
    pub fn from_json(json: &str) -> Result<Self, Error> {
        let guarded = ValidatedTokenizer::from_json(json)?;
        let inner = &guarded.inner;
        let Some(cls) = inner.token_to_id(CLS) else {
            return Err(Error::Invalid(tr!(
                "expected a token {CLS} in the vocabulary, found none",
                "語彙にトークン {CLS} が必要ですが、ありません"
            )));
        };
        let cutter = serde_json::to_value(inner.get_pre_tokenizer()).unwrap_or_default();
        let pattern = cutter["pattern"]["Regex"].as_str();
        let is_by_character = pattern.is_some_and(splits_into_characters);
        let normalizer = serde_json::to_value(inner.get_normalizer()).unwrap_or_default();
        // Added tokens that are not special may contain white space.
        let are_special = inner.get_added_tokens_decoder().values().all(|token| token.special);
        let by_word = WordCache::for_pipeline(&normalizer, &cutter).filter(|_| are_special).map(Arc::new);
        let frame = SpecialTokens { prefix: vec![cls], suffix: Vec::new() };
        let engine = TokenizerEngine::Library(Box::new(guarded));
        Ok(TextTokenizer {
            engine,
            special_tokens: frame,
            is_character_level: is_by_character,
            is_byte_level: false,
            word_cache: by_word,
            pair_separator: None,
        })
    }

    /// Wraps a pretrained tokenizer.
    ///
    /// # Errors
    /// If it cannot encode a text.
    pub fn from_pretrained(pretrained: PretrainedTokenizer) -> Result<Self, Error> {
        let frame = pretrained.special_tokens()?;
        let guarded = pretrained.into_validated();
        let spells_bytes = guarded.is_byte_level();
        let engine = TokenizerEngine::Library(Box::new(guarded));
        Ok(TextTokenizer {
            engine,
            special_tokens: frame,
            is_character_level: false,
            is_byte_level: spells_bytes,
            word_cache: None,
            pair_separator: None,
        })
    }

    /// Reads the tokenizer of one side of a Marian translator from its SentencePiece file and the ids of all pieces
    /// (`vocab.json`). It adds no special tokens around a text.
    ///
    /// # Errors
    /// If a file cannot be read, is damaged, or has a kind that this version does not support.
    pub fn read_marian(pieces: &Path, vocabulary: &Path) -> Result<Self, Error> {
        let engine = TokenizerEngine::SentencePiece(Arc::new(MarianTokenizer::read(pieces, vocabulary)?));
        let frame = SpecialTokens::default();
        Ok(TextTokenizer {
            engine,
            special_tokens: frame,
            is_character_level: false,
            is_byte_level: false,
            word_cache: None,
            pair_separator: None,
        })
    }

    /// Reads and validates a `tokenizer.json`.
    ///
    /// # Errors
    /// If the file cannot be read, or as for [`TextTokenizer::from_json`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        ValidatedTokenizer::read(path, TextTokenizer::from_json, |found| found.engine.library_mut())
    }

    /// Returns the tokenizer with additional special tokens, whose ids follow the last one. Texts are never encoded
    /// into them.
    ///
    /// # Errors
    /// If it cannot be written as JSON.
    pub fn with_special(&self, tokens: &[&str]) -> Result<Self, Error> {
        let mut file: Value =
            serde_json::from_str(&self.to_json()?).map_err(|error| Error::Invalid(error.to_string()))?;
        for (id, &token) in (self.id_bound()..).zip(tokens) {
            file["model"]["vocab"][token] = id.into();
            if let Some(added) = file["added_tokens"].as_array_mut() {
                added.push(special_token_entry(id, token));
            }
        }
        TextTokenizer::from_json(&file.to_string())
    }

    /// Returns the id of a token, spelled as in the vocabulary.
    pub fn id(&self, token: &str) -> Option<u32> {
        match &self.engine {
            TokenizerEngine::Library(guarded) => guarded.inner.token_to_id(token),
            TokenizerEngine::SentencePiece(pieces) => pieces.ids().get(token).copied(),
        }
    }

    /// Returns the tokenizer as `tokenizer.json`.
    ///
    /// # Errors
    /// If it cannot be written as JSON.
    pub fn to_json(&self) -> Result<String, Error> {
        let library = self.engine.library().ok_or_else(|| {
            Error::Invalid(tr!(
                "SentencePiece's tokenizers are not written as tokenizer.json",
                "SentencePiece のトークナイザーは tokenizer.json としては書けません"
            ))
        })?;
        library.inner.to_string(true).map_err(library_error("writing"))
    }

    /// Number of token ids.
    pub fn vocab_size(&self) -> usize {
        self.engine.vocabulary().len()
    }

    /// One more than the largest token id.
    pub fn id_bound(&self) -> usize {
        self.engine.vocabulary().values().max().map_or(0, |&id| id as usize + 1)
    }

    /// The SHA-256 of the tokens in the order of their ids, in hexadecimal.
    pub fn vocabulary_sha256(&self) -> String {
        let vocabulary = self.engine.vocabulary();
        let mut tokens: Vec<(u32, &str)> = vocabulary.iter().map(|(token, &id)| (id, token.as_str())).collect();
        tokens.sort_unstable();
        let mut hash = Sha256::new();
        for (id, token) in tokens {
            hash.update(id.to_le_bytes());
            hash.update((token.len() as u64).to_le_bytes());
            hash.update(token);
        }
        crate::checksum::hex(hash.finalize())
    }

    /// The id for unknown words, if the tokens are words.
    pub fn unknown_id(&self) -> Option<u32> {
        match self.engine.library()?.inner.get_model() {
            ModelWrapper::WordLevel(words) => words.token_to_id(UNK),
            _ => None,
        }
    }

    /// The id of `[CLS]`, or of another token before every text; 0 if there is none.
    pub fn cls_id(&self) -> u32 {
        self.special_tokens.prefix.first().copied().unwrap_or(0)
    }

    /// The special tokens around every text.
    pub fn special_tokens(&self) -> &SpecialTokens {
        &self.special_tokens
    }

    /// Returns the tokenizer for [pairs](crate::row). The separator between the two texts is the token after a text,
    /// if there is one. Otherwise it is `[SEP]`, if the vocabulary has it. Otherwise it is the token before a text,
    /// which then starts both.
    pub fn with_pair_separator(mut self) -> Self {
        let behind = self.special_tokens.suffix.first().copied();
        self.pair_separator = behind.or_else(|| self.id(SEP)).or_else(|| self.special_tokens.prefix.first().copied());
        self
    }

    /// The token between the two texts of a pair, if the tokenizer reads pairs.
    pub fn pair_separator(&self) -> Option<u32> {
        self.pair_separator
    }

    /// Encodes the text of a row, or both texts of a pair with the separator token between them.
    ///
    /// # Errors
    /// If the tokenizer cannot encode the text. A tokenizer that was trained here never fails.
    pub fn encode(&self, row: impl AsRow) -> Result<TokenSequence, Error> {
        self.encode_row(row.as_row())
    }

    fn encode_row(&self, row: RowRef<'_>) -> Result<TokenSequence, Error> {
        let (Some(between), Some((first, second))) = (self.pair_separator, row.pair()) else {
            return self.encode_one(row.text());
        };
        let start = row.text().len() - second.len();
        let (mut tokens, second) = (self.encode_one(first)?, self.encode_one(second)?);
        let unit = tokens.word_ids.last().map_or(0, |unit| unit + 1);
        tokens.ids.push(between);
        tokens.spans.push((first.len(), start));
        tokens.word_ids.push(unit);
        tokens.ids.extend(second.ids);
        tokens.spans.extend(second.spans.into_iter().map(|(from, to)| (start + from, start + to)));
        tokens.word_ids.extend(second.word_ids.into_iter().map(|u| unit + 1 + u));
        Ok(tokens)
    }

    fn encode_one(&self, text: &str) -> Result<TokenSequence, Error> {
        let encoding = match &self.engine {
            TokenizerEngine::Library(guarded) => guarded.encode(text, false)?,
            TokenizerEngine::SentencePiece(pieces) => return Ok(pieces.encode(text)),
        };
        Ok(TokenSequence {
            ids: encoding.get_ids().to_vec(),
            spans: token_spans(&encoding, text),
            word_ids: encoding.get_word_ids().iter().map(|unit| unit.unwrap_or(0)).collect(),
            is_character_level: self.is_character_level,
        })
    }

    /// Returns the token ids of many rows, on all threads.
    ///
    /// # Errors
    /// As for [`TextTokenizer::encode`].
    pub fn encode_all<R: AsRow>(&self, rows: &[R]) -> Result<Vec<Vec<u32>>, Error> {
        self.encode_rows(&as_rows(rows))
    }

    fn encode_rows(&self, rows: &[RowRef<'_>]) -> Result<Vec<Vec<u32>>, Error> {
        match self.word_cache.as_ref().filter(|_| self.pair_separator.is_none()) {
            Some(by_word) => {
                let texts: Vec<&str> = rows.iter().map(|row| row.text()).collect();
                by_word.encode_all(&texts, |word| Ok(self.encode_one(word)?.ids))
            }
            None => rows.par_iter().map(|row| Ok(self.encode_row(*row)?.ids)).collect(),
        }
    }

    /// Returns whether many texts are encoded by words.
    #[cfg(test)]
    pub(super) fn has_word_cache(&self) -> bool {
        self.word_cache.is_some()
    }

    /// Decodes token ids.
    ///
    /// Bytes that are not UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// If the tokenizer cannot decode them. A tokenizer that was trained here never fails.
    pub fn decode(&self, ids: &[u32]) -> Result<String, Error> {
        match &self.engine {
            TokenizerEngine::Library(guarded) => guarded.decode(ids),
            TokenizerEngine::SentencePiece(pieces) => Ok(pieces.decode(ids)),
        }
    }

    /// Returns a token for display. A byte-level token is decoded if its bytes are whole characters. Other tokens are
    /// shown as in the vocabulary.
    pub fn token(&self, id: u32) -> String {
        match &self.engine {
            TokenizerEngine::Library(guarded) => guarded.display_token(id, self.is_byte_level),
            TokenizerEngine::SentencePiece(pieces) => pieces.token(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::pipeline::{NormalizationForm, TokenizationUnit};
    use super::super::training::TokenizerConfig;
    use super::*;
    use crate::row::Row;
    use serde_json::json;
    use tokenizers::EncodeInput;

    fn trained() -> TextTokenizer {
        let texts = [
            "The film was great, really great! I didn't expect it.",
            "the food was not good and the film was slow.",
            "この映画はとても良かったです。また見たい！",
            "この店の料理はあまり美味しくなかったです。",
        ];
        TextTokenizer::train(
            &texts,
            &TokenizerConfig {
                vocab_size: 400,
                min_frequency: 2,
                form: NormalizationForm::NfkcLowercase,
                unit: TokenizationUnit::Subwords,
            },
        )
        .unwrap()
    }

    #[test]
    fn pairs_are_joined_by_the_separator_token() {
        let tokenizer = trained().with_special(&[SEP]).unwrap().with_pair_separator();
        let (first, second) = ("the food was good", "この映画");
        let pair = Row::pair(first, second);
        let [a, b, both] = [first.as_row(), second.as_row(), pair.as_row()].map(|row| tokenizer.encode(row).unwrap());
        let separator = tokenizer.pair_separator().unwrap();
        assert_eq!(tokenizer.id(SEP), Some(separator));
        assert_eq!(both.ids, [&a.ids[..], &[separator], &b.ids[..]].concat());
        assert_eq!(both.spans[a.ids.len()], (first.len(), first.len() + 1));
        assert!(both.word_ids.is_sorted() && both.word_ids.len() == both.ids.len());
        let start = first.len() + 1;
        let shifted: Vec<_> = b.spans.iter().map(|&(from, to)| (start + from, start + to)).collect();
        assert_eq!(both.spans[a.ids.len() + 1..], shifted);
        assert_eq!(tokenizer.encode_all(&[pair.as_row(), first.as_row()]).unwrap(), [both.ids.clone(), a.ids]);
        // After reading the file again, no further token is added.
        let again = TextTokenizer::from_json(&tokenizer.to_json().unwrap()).unwrap().with_pair_separator();
        assert_eq!((again.vocab_size(), again.encode(&pair).unwrap()), (tokenizer.vocab_size(), both));
        // Without `[SEP]`, the second text starts like the first.
        assert_eq!(trained().with_pair_separator().pair_separator(), Some(trained().cls_id()));
        // A tokenizer of single texts reads no separator.
        assert_eq!(trained().encode(&pair).unwrap().ids.iter().filter(|&&id| id == separator).count(), 0);
    }

    #[test]
    fn feature_columns_are_ignored() {
        let row = "the food was good".as_row().with_values(&["good", "x"]);
        let plain = trained().encode("the food was good").unwrap();
        assert_eq!(trained().encode(&row).unwrap(), plain);
        assert_eq!(trained().encode_all(&[&row]).unwrap(), std::slice::from_ref(&plain.ids));
    }

    #[test]
    fn no_text_is_unknown_and_spans_lie_in_the_text() {
        let tokenizer = trained();
        assert_eq!(tokenizer.unknown_id(), None);
        let hard = [
            "",
            " ",
            "\u{0}",
            "zzz 🎉👨‍👩‍👧 e\u{301} ｶﾞｷﾞｸﾞ",
            "[CLS] <0x41>",
            "鬱陶しい",
            "\t a \n b ",
            "المطار",
            "a\u{200d}b",
            "９９９",
        ];
        for text in hard {
            let encoded = tokenizer.encode(text).unwrap();
            assert_eq!(encoded.ids.len(), encoded.spans.len());
            assert_eq!(encoded.ids.len(), encoded.word_ids.len());
            assert!(encoded.ids.iter().all(|&id| id != tokenizer.cls_id() && (id as usize) < tokenizer.vocab_size()));
            assert!(encoded.spans.iter().all(|&(a, b)| a <= b && text.get(a..b).is_some()), "{text:?} {encoded:?}");
            if text.chars().any(char::is_alphanumeric) {
                assert!(!encoded.ids.is_empty(), "{text:?}");
            }
        }
    }

    #[test]
    fn byte_level_tokens_are_shown_as_text() {
        let vocab = json!({ "<s>": 0, "ĠParis": 1, "æĹ¥": 2, "æĹ": 3 });
        let file = json!({
            "version": "1.0", "normalizer": null, "post_processor": null,
            "added_tokens": [{ "id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
                               "normalized": false, "special": true }],
            "pre_tokenizer": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true },
            "decoder": { "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true },
            "model": { "type": "BPE", "vocab": vocab, "merges": [] }
        });
        let tokenizer = PretrainedTokenizer::from_json(&file.to_string()).unwrap();
        let tokenizer = TextTokenizer::from_pretrained(tokenizer).unwrap();
        // Partial characters, and tokens that decoding leaves out, are shown as in the vocabulary.
        assert_eq!([0, 1, 2, 3].map(|id| tokenizer.token(id)), ["<s>", " Paris", "日", "æĹ"]);
    }

    #[test]
    fn case_width_and_white_space_do_not_matter() {
        let tokenizer = trained();
        let ids = |text| tokenizer.encode(text).unwrap().ids;
        assert_eq!(ids("The  FILM"), ids(" the film\n"));
        assert_eq!(ids("ｶﾞ"), ids("ガ"));
        assert_ne!(ids("thefilm"), ids("the film"));
    }

    #[test]
    fn training_is_reproducible_and_json_reads_back() {
        let (a, b) = (trained(), trained());
        let json = a.to_json().unwrap();
        assert_eq!(json, b.to_json().unwrap());
        let again = TextTokenizer::from_json(&json).unwrap();
        let text = "この映画 was great 🎉";
        assert_eq!(again.encode(text).unwrap(), a.encode(text).unwrap());
        assert!(TextTokenizer::from_json("{}").is_err());
    }

    #[test]
    fn added_special_tokens_change_no_text() {
        let tokenizer = trained();
        let added = tokenizer.with_special(&["[MASK]", "[PAD]"]).unwrap();
        let end = tokenizer.id_bound() as u32;
        assert_eq!(
            (added.id("[MASK]"), added.id("[PAD]"), added.id_bound()),
            (Some(end), Some(end + 1), end as usize + 2)
        );
        for text in ["The film [MASK] [PAD]", "この映画はとても [CLS]"] {
            assert_eq!(added.encode(text).unwrap(), tokenizer.encode(text).unwrap());
        }
        assert_eq!((added.special_tokens(), added.token(end).as_str()), (tokenizer.special_tokens(), "[MASK]"));
    }

    #[test]
    fn an_endless_word_is_encoded() {
        let tokenizer = trained();
        let long = "あ".repeat(200_000);
        assert!(tokenizer.encode(&long).unwrap().ids.len() > 1_000);
    }

    /// A tokenizer for each normalization form and unit.
    fn every_kind() -> Vec<(TokenizerConfig, TextTokenizer)> {
        let texts = ["the film was 12 great,\nthe film.", "この映画はとても良かった。この映画。"];
        let units = [TokenizationUnit::Subwords, TokenizationUnit::Characters, TokenizationUnit::Words];
        let all = NormalizationForm::ALL.into_iter().flat_map(|form| units.map(|unit| (form, unit)));
        let train = |(form, unit)| {
            let config = TokenizerConfig { vocab_size: 330, min_frequency: 1, form, unit };
            let tokenizer = TextTokenizer::train(&texts, &config).unwrap();
            (config, tokenizer)
        };
        all.map(train).collect()
    }

    /// Collects all regular expressions of a file.
    fn regexes(value: &Value) -> Vec<String> {
        match value {
            Value::Array(values) => values.iter().flat_map(regexes).collect(),
            Value::Object(values) => {
                let own = values.get("Regex").and_then(Value::as_str).map(str::to_owned);
                own.into_iter().chain(values.values().flat_map(regexes)).collect()
            }
            _ => Vec::new(),
        }
    }

    #[test]
    fn regexes_mean_the_same_in_oniguruma() {
        for (TokenizerConfig { form, unit, .. }, tokenizer) in every_kind() {
            let file: Value = serde_json::from_str(&tokenizer.to_json().unwrap()).unwrap();
            let found = regexes(&file);
            assert!(!found.is_empty(), "{form:?} {unit:?}");
            for regex in found {
                // Both engines read alike: groups without names or flags, classes without set operations, Unicode
                // properties, white space, and counts.
                let mut rest = regex.as_str();
                while let Some(at) = rest.find("(?") {
                    rest = &rest[at + 2..];
                    assert!(rest.starts_with([':', '!']), "{regex}");
                }
                assert!(!regex.contains("&&") && !regex.contains("[[") && !regex.contains("--"), "{regex}");
                let mut rest = regex.as_str();
                while let Some(at) = rest.find('\\') {
                    rest = &rest[at + 1..];
                    assert!(["p{", "s", "S"].iter().any(|class| rest.starts_with(class)), "{regex}");
                }
            }
        }
    }

    #[test]
    fn the_template_matches_the_input_of_models() {
        for (TokenizerConfig { form, unit, .. }, tokenizer) in every_kind() {
            // As the Python package does, with special tokens.
            let requested = tokenizer
                .engine
                .library()
                .unwrap()
                .inner
                .encode(EncodeInput::from("the film 映画"), true)
                .unwrap()
                .get_ids()
                .to_vec();
            let (ids, cls) = (tokenizer.encode("the film 映画").unwrap().ids, [tokenizer.cls_id()]);
            let fed = match form {
                // Classifiers and language models get `[CLS]` first (`inference::pack`). Sources of translators get it
                // last (`TextTranslator::read`), and targets end with it (`PairBatch::push`).
                NormalizationForm::NfkcLowercase | NormalizationForm::Unchanged => [&cls[..], &ids].concat(),
                NormalizationForm::Nfkc | NormalizationForm::CollapsedSpaces => [&ids[..], &cls].concat(),
            };
            assert_eq!(requested, fed, "{form:?} {unit:?}");
            let pair =
                tokenizer.engine.library().unwrap().inner.encode(EncodeInput::from(("the", "film")), true).unwrap();
            assert!(pair.get_ids().contains(&tokenizer.cls_id()), "{form:?} {unit:?}");
        }
    }

    #[test]
    fn files_of_earlier_versions_are_read() {
        for (TokenizerConfig { form, unit, .. }, tokenizer) in every_kind() {
            let mut file: Value = serde_json::from_str(&tokenizer.to_json().unwrap()).unwrap();
            if unit == TokenizationUnit::Characters {
                file["pre_tokenizer"]["pattern"]["Regex"] = r"(?s:.)".into();
            }
            let cls = json!({ "SpecialToken": { "id": CLS, "type_id": 0 } });
            file["post_processor"]["single"] = json!([cls, { "Sequence": { "id": "A", "type_id": 0 } }]);
            let earlier = TextTokenizer::from_json(&file.to_string()).unwrap();
            for text in ["the film\n was", "この映画 x", "\r\n", ""] {
                assert_eq!(earlier.encode(text).unwrap(), tokenizer.encode(text).unwrap(), "{form:?} {unit:?}");
            }
        }
    }
}
