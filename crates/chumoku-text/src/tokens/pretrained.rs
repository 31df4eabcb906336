//! Tokenizers of pretrained models, as published: `tokenizer.json`, or BERT's `vocab.txt`.

use super::error::{TokenizerError as Error, library_error};
use super::pipeline::special_token_entry as special_token;
use super::validated::{ValidatedTokenizer, token_spans};
use crate::tr;
use rayon::prelude::*;
use serde_json::{Map, Value, json};
use std::path::Path;
use tokenizers::PostProcessorWrapper;

/// The tokens of a text for a pretrained model, including special tokens around it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Encoding {
    /// The token ids.
    pub ids: Vec<u32>,
    /// The type of each token: 1 in the second text of a pair, else 0.
    pub type_ids: Vec<u32>,
    /// The byte range of each token in the text. Empty at 0 for special tokens.
    pub spans: Vec<(usize, usize)>,
    /// True for special tokens around the text, such as `[CLS]`.
    pub special_mask: Vec<bool>,
    /// For each token, the number of the word that the pre-tokenizer produced.
    pub word_ids: Vec<u32>,
    /// Number of tokens truncated at the end of the text.
    pub truncated: usize,
}

/// The special tokens around every text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpecialTokens {
    /// Tokens before the text, such as `[CLS]`.
    pub prefix: Vec<u32>,
    /// Tokens after the text, such as `[SEP]`.
    pub suffix: Vec<u32>,
}

impl SpecialTokens {
    /// Number of special tokens.
    pub fn len(&self) -> usize {
        self.prefix.len() + self.suffix.len()
    }

    /// Returns whether there are no special tokens.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds the special tokens to those of a text.
    pub fn wrap(&self, ids: &[u32]) -> Vec<u32> {
        [&self.prefix, ids, &self.suffix].concat()
    }
}

/// A tokenizer that was trained elsewhere.
#[derive(Clone, Debug)]
pub struct PretrainedTokenizer {
    tokenizer: ValidatedTokenizer,
}

/// The options for reading `vocab.txt`.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct WordPieceOptions {
    /// Convert texts to lowercase.
    pub lowercase: bool,
    /// Strip accents from letters. Defaults to the value of `lowercase`.
    pub strip_accents: Option<bool>,
    /// Split off each Chinese character as a word.
    pub split_chinese: bool,
}

impl Default for WordPieceOptions {
    fn default() -> Self {
        WordPieceOptions { lowercase: true, strip_accents: None, split_chinese: true }
    }
}

impl PretrainedTokenizer {
    /// Reads and validates the text of a `tokenizer.json`.
    ///
    /// Its padding and truncation settings are ignored: the model decides about both.
    ///
    /// # Errors
    /// If it is not a tokenizer, or could use all memory or run forever.
    pub(crate) fn from_json(json: &str) -> Result<Self, Error> {
        Ok(PretrainedTokenizer { tokenizer: ValidatedTokenizer::from_json(json)? })
    }

    /// Reads and validates a `tokenizer.json`.
    ///
    /// # Errors
    /// If the file cannot be read, or as for `PretrainedTokenizer::from_json`.
    pub fn read(path: &Path) -> Result<Self, Error> {
        ValidatedTokenizer::read(path, PretrainedTokenizer::from_json, |found| Some(&mut found.tokenizer))
    }

    /// Reads a `vocab.txt`: BERT's word pieces, one per line, with ids from 0.
    ///
    /// # Errors
    /// If the file cannot be read, or lacks `[UNK]`, `[CLS]` or `[SEP]`.
    pub fn read_word_pieces(path: &Path, options: WordPieceOptions) -> Result<Self, Error> {
        ValidatedTokenizer::read(
            path,
            |text| PretrainedTokenizer::from_word_pieces(text, options),
            |found| Some(&mut found.tokenizer),
        )
    }

    fn from_word_pieces(text: &str, options: WordPieceOptions) -> Result<Self, Error> {
        // If a piece occurs twice, its last id counts, as in the program that wrote the file.
        let vocab: Map<String, Value> =
            text.lines().enumerate().map(|(id, piece)| (piece.trim_end().to_owned(), id.into())).collect();
        let special = ["[CLS]", "[SEP]", "[UNK]", "[PAD]", "[MASK]"];
        if let Some(missing) = special[..3].iter().find(|&&token| !vocab.contains_key(token)) {
            return Err(Error::Invalid(tr!(
                "expected a line {missing} among BERT's word pieces, found none",
                "BERT の語彙に {missing} の行が必要ですが、ありません"
            )));
        }
        let added: Vec<Value> = special
            .iter()
            .filter_map(|&token| Some((token, vocab.get(token)?)))
            .map(|(token, id)| special_token(id.as_u64().unwrap_or(0) as usize, token))
            .collect();
        let named = |token: &str, kind: u32| json!({ "SpecialToken": { "id": token, "type_id": kind } });
        let given = |text: &str, kind: u32| json!({ "Sequence": { "id": text, "type_id": kind } });
        let known = |token: &str| json!({ "id": token, "ids": [vocab[token]], "tokens": [token] });
        let file = json!({
            "version": "1.0",
            "added_tokens": added,
            "normalizer": { "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": options.split_chinese,
                            "strip_accents": options.strip_accents, "lowercase": options.lowercase },
            "pre_tokenizer": { "type": "BertPreTokenizer" },
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [named("[CLS]", 0), given("A", 0), named("[SEP]", 0)],
                "pair": [named("[CLS]", 0), given("A", 0), named("[SEP]", 0), given("B", 1), named("[SEP]", 1)],
                "special_tokens": { "[CLS]": known("[CLS]"), "[SEP]": known("[SEP]") }
            },
            "decoder": { "type": "WordPiece", "prefix": "##", "cleanup": true },
            "model": { "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                       "max_input_chars_per_word": 100, "vocab": vocab }
        });
        Ok(PretrainedTokenizer { tokenizer: ValidatedTokenizer::from_json_value(file)? })
    }

    /// Parses special tokens that occur in texts, as transformers does for language models.
    #[must_use]
    pub fn parsing_special_tokens(mut self) -> Self {
        self.tokenizer.inner.set_encode_special_tokens(false);
        self
    }

    /// Removes the special tokens around texts.
    #[must_use]
    pub fn without_special_tokens(mut self) -> Self {
        self.tokenizer.inner.with_post_processor(None::<PostProcessorWrapper>);
        self
    }

    /// Returns the tokenizer as `tokenizer.json`.
    ///
    /// # Errors
    /// If it cannot be written as JSON.
    pub fn to_json(&self) -> Result<String, Error> {
        self.tokenizer.inner.to_string(true).map_err(library_error("writing"))
    }

    /// One more than the largest token id.
    pub fn id_bound(&self) -> usize {
        self.tokenizer.id_bound()
    }

    /// Returns a token for display. A byte-level token is decoded if its bytes are whole characters. Other tokens are
    /// shown as in the vocabulary.
    pub fn display_token(&self, id: u32) -> String {
        self.tokenizer.display_token(id, self.tokenizer.is_byte_level())
    }

    /// Encodes a text with its special tokens and truncates it to at most `max_tokens` tokens. Special tokens are kept.
    ///
    /// # Errors
    /// If the tokenizer cannot encode the text.
    pub fn encode(&self, text: &str, max_tokens: usize) -> Result<Encoding, Error> {
        let whole = self.tokenizer.encode(text, true)?;
        let special: Vec<bool> = whole.get_special_tokens_mask().iter().map(|&mask| mask == 1).collect();
        let cut = special.len().saturating_sub(max_tokens);
        // The special tokens before and after the text are kept.
        let behind = special.iter().rev().take_while(|&&special| special).count();
        let end = special.len() - behind;
        let kept = (0..end.saturating_sub(cut)).chain(end..special.len());
        let spans = token_spans(&whole, text);
        let mut tokens = Encoding { truncated: cut, ..Encoding::default() };
        for i in kept.take(max_tokens) {
            tokens.ids.push(whole.get_ids()[i]);
            tokens.type_ids.push(whole.get_type_ids()[i]);
            tokens.spans.push(if special[i] { (0, 0) } else { spans[i] });
            tokens.special_mask.push(special[i]);
            tokens.word_ids.push(whole.get_word_ids()[i].unwrap_or(0));
        }
        Ok(tokens)
    }

    /// Returns the special tokens around a text.
    ///
    /// # Errors
    /// If the tokenizer cannot encode a text.
    pub(super) fn special_tokens(&self) -> Result<SpecialTokens, Error> {
        let framed = self.encode("a", usize::MAX)?;
        let around = |special: &mut dyn Iterator<Item = &bool>| special.take_while(|&&special| special).count();
        let before = around(&mut framed.special_mask.iter());
        let after = around(&mut framed.special_mask[before..].iter().rev());
        let (before, rest) = framed.ids.split_at(before);
        Ok(SpecialTokens { prefix: before.to_vec(), suffix: rest[rest.len() - after..].to_vec() })
    }

    pub(super) fn into_validated(self) -> ValidatedTokenizer {
        self.tokenizer
    }

    /// Encodes many texts, on all threads.
    ///
    /// # Errors
    /// As for [`PretrainedTokenizer::encode`].
    pub fn encode_all(&self, texts: &[&str], max_tokens: usize) -> Result<Vec<Encoding>, Error> {
        texts.par_iter().map(|text| self.encode(text, max_tokens)).collect()
    }

    /// Decodes token ids. Bytes that are not UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// If the tokenizer cannot decode them.
    pub fn decode(&self, ids: &[u32]) -> Result<String, Error> {
        self.tokenizer.decode(ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECES: &str = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nfilm\n##s\nthe\ngood\n.\n日\n本\n";

    fn of(text: &str, options: WordPieceOptions) -> PretrainedTokenizer {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vocab.txt");
        std::fs::write(&path, text).unwrap();
        PretrainedTokenizer::read_word_pieces(&path, options).unwrap()
    }

    #[test]
    fn word_pieces_match_bert() {
        let tokenizer = of(PIECES, WordPieceOptions::default());
        let tokens = tokenizer.encode("The films 日本, góod.", 512).unwrap();
        assert_eq!(tokens.ids, [2, 7, 5, 6, 10, 11, 1, 8, 9, 3]);
        assert_eq!(tokens.spans[1..4], [(0, 3), (4, 8), (8, 9)]);
        assert_eq!(tokens.special_mask.iter().filter(|&&special| special).count(), 2);
        let cased = WordPieceOptions { lowercase: false, ..WordPieceOptions::default() };
        assert_eq!(of(PIECES, cased).encode("The film", 512).unwrap().ids, [2, 1, 5, 3]);
    }

    #[test]
    fn long_texts_are_truncated_and_keep_special_tokens() {
        let tokenizer = of(PIECES, WordPieceOptions::default());
        let tokens = tokenizer.encode("film the good film", 4).unwrap();
        assert_eq!((tokens.ids, tokens.truncated), (vec![2, 5, 7, 3], 2));
        for most in 0..3 {
            assert!(tokenizer.encode("film the good film", most).unwrap().ids.len() <= most);
        }
        assert_eq!(tokenizer.encode("", 8).unwrap().ids, [2, 3]);
    }

    #[test]
    fn without_special_tokens_only_the_text_is_encoded() {
        let tokenizer = of(PIECES, WordPieceOptions::default()).without_special_tokens();
        assert_eq!(tokenizer.encode("The films", 512).unwrap().ids, [7, 5, 6]);
        assert!(tokenizer.encode("", 512).unwrap().ids.is_empty());
    }

    #[test]
    fn special_tokens_in_texts_are_ordinary_text() {
        let tokenizer = of(PIECES, WordPieceOptions::default());
        assert!(tokenizer.encode("[SEP]", 512).unwrap().ids[1..].iter().rev().skip(1).all(|&id| id != 3));
    }

    #[test]
    fn the_written_file_reads_back() {
        let tokenizer = of(PIECES, WordPieceOptions::default());
        let again = PretrainedTokenizer::from_json(&tokenizer.to_json().unwrap()).unwrap();
        assert_eq!(again.encode("the films", 9).unwrap(), tokenizer.encode("the films", 9).unwrap());
        assert_eq!(again.id_bound(), 12);
        assert_eq!(again.tokenizer.inner.id_to_token(5).as_deref(), Some("film"));
    }

    #[test]
    fn vocabularies_without_special_tokens_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vocab.txt");
        std::fs::write(&path, "[UNK]\n[CLS]\nfilm\n").unwrap();
        let error = PretrainedTokenizer::read_word_pieces(&path, WordPieceOptions::default()).unwrap_err().to_string();
        assert!(error.contains("vocab.txt") && error.contains("[SEP]"), "{error}");
    }
}
