//! A `tokenizer.json` at work: from texts to tokens and back. The file is one that [`super::learn`] made, or any other that
//! Hugging Face's library reads.

use super::error::TokenizerError as Error;
use super::pipeline::{CLS, UNK, cuts_into_characters, is_ours};
use super::tokenizer_file;
use crate::{quiet, tr};
use rayon::prelude::*;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use tokenizers::models::ModelWrapper;
use tokenizers::{EncodeInput, Model, Tokenizer};

/// A text as tokens, without the leading `[CLS]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Encoded {
    /// The token ids.
    pub ids: Vec<u32>,
    /// Each token's bytes in the text.
    pub spans: Vec<(usize, usize)>,
    /// For each token the number of the unit that the text was cut into before merging.
    pub units: Vec<u32>,
    /// Whether each character is a token, by the tokenizer's design.
    pub is_by_character: bool,
}

/// A trained tokenizer.
#[derive(Clone, Debug)]
pub struct TextTokenizer {
    inner: Tokenizer,
    cls: u32,
    /// The file it was read from.
    path: Option<Arc<Path>>,
    is_by_character: bool,
}

/// What is said if the library that runs tokenizers fails at `doing` something.
pub(super) fn problem(doing: &str) -> impl Fn(tokenizers::Error) -> Error + '_ {
    move |error| Error::Unusable(format!("{doing}: {error}"))
}

/// What is said where the library that runs tokenizers gave up without a word.
fn contradiction() -> String {
    tr!("the tokenizer contradicts itself, so that it cannot be used", "トークナイザーの内容が矛盾していて使えません")
}

/// A message of another library as the part of a line.
fn one_line(message: &str) -> String {
    let words: Vec<&str> = message.split_whitespace().collect();
    words.join(" ").chars().take(300).collect()
}

impl TextTokenizer {
    /// Reads the text of a `tokenizer.json`, trusting nothing in it.
    ///
    /// # Errors
    /// If it is not one, has no `[CLS]`, or could take all memory or all time.
    pub fn from_json(json: &str) -> Result<Self, Error> {
        let sound = || {
            let mut file: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
            tokenizer_file::check(&mut file, &is_ours)?;
            Tokenizer::from_str(&file.to_string()).map_err(|error| error.to_string())
        };
        // What the library does not expect of a file it panics on.
        let read = quiet::catch(sound).unwrap_or_else(|_| Err(contradiction()));
        let mut inner = read.map_err(|problem| Error::Unusable(one_line(&problem)))?;
        let Some(cls) = inner.token_to_id(CLS) else {
            return Err(Error::Unusable(tr!(
                "expected a token {CLS} in the vocabulary, found none",
                "語彙にトークン {CLS} が必要ですが、ありません"
            )));
        };
        // A text that spells "[CLS]" is text.
        inner.set_encode_special_tokens(true);
        let cutter = serde_json::to_value(inner.get_pre_tokenizer()).unwrap_or_default();
        let pattern = cutter["pattern"]["Regex"].as_str();
        let is_by_character = pattern.is_some_and(cuts_into_characters);
        Ok(TextTokenizer { inner, cls, path: None, is_by_character })
    }

    /// Reads a `tokenizer.json`, trusting nothing in it.
    ///
    /// # Errors
    /// If the file cannot be read, or as for [`TextTokenizer::from_json`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        let unread = |source| Error::Io { path: path.to_owned(), source };
        let bytes = std::fs::metadata(path).map_err(unread)?.len();
        if bytes > tokenizer_file::LARGEST_FILE {
            let problem = tr!(
                "expected a tokenizer of at most {} bytes, found {bytes}",
                "トークナイザーは {} バイトまでですが、{bytes} バイトあります",
                tokenizer_file::LARGEST_FILE
            );
            return Err(Error::File { path: path.to_owned(), problem });
        }
        let json = std::fs::read_to_string(path).map_err(unread)?;
        match TextTokenizer::from_json(&json) {
            Ok(tokenizer) => Ok(TextTokenizer { path: Some(path.into()), ..tokenizer }),
            Err(error) => Err(Error::File { path: path.to_owned(), problem: error.to_string() }),
        }
    }

    /// What the library makes of `work` with this tokenizer. What it does not expect of its file it panics on.
    fn ask<T>(&self, doing: &str, work: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, Error> {
        let answer = quiet::catch(work).unwrap_or_else(|_| Err(contradiction().into()));
        answer.map_err(|error| {
            let problem = format!("{doing}: {}", one_line(&error.to_string()));
            match &self.path {
                Some(path) => Error::File { path: path.to_path_buf(), problem },
                None => Error::Unusable(problem),
            }
        })
    }

    /// The text of its `tokenizer.json`.
    ///
    /// # Errors
    /// If it cannot be written as JSON.
    pub fn to_json(&self) -> Result<String, Error> {
        self.inner.to_string(true).map_err(problem("writing"))
    }

    /// Number of token ids.
    pub fn vocab_size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// One more than the largest token id.
    pub fn end_of_ids(&self) -> usize {
        self.inner.get_vocab(true).into_values().max().map_or(0, |id| id as usize + 1)
    }

    /// SHA-256 of the tokens in the order of their ids, in hexadecimal digits.
    pub fn vocabulary_sha256(&self) -> String {
        let mut tokens: Vec<(u32, String)> = self.inner.get_vocab(true).into_iter().map(|(t, id)| (id, t)).collect();
        tokens.sort_unstable();
        let mut hash = Sha256::new();
        for (id, token) in tokens {
            hash.update(id.to_le_bytes());
            hash.update((token.len() as u64).to_le_bytes());
            hash.update(token);
        }
        crate::checksum::hex(hash.finalize())
    }

    /// The id of the words that it does not know, if it is one of words.
    pub fn unknown(&self) -> Option<u32> {
        match self.inner.get_model() {
            ModelWrapper::WordLevel(words) => words.token_to_id(UNK),
            _ => None,
        }
    }

    /// The id of `[CLS]`.
    pub fn cls(&self) -> u32 {
        self.cls
    }

    /// The tokens of a text.
    ///
    /// # Errors
    /// If the tokenizer cannot cut the text (never for one that was trained here).
    pub fn encode(&self, text: &str) -> Result<Encoded, Error> {
        let doing = || tr!("cutting a text into tokens", "文章をトークンに分ける");
        let encoding = self.ask(&doing(), || self.inner.encode(EncodeInput::from(text), false))?;
        // A tokenizer that puts in what the text does not hold counts past its characters, or its end.
        let whole = |&(start, end): &(usize, usize)| {
            let is_border = |&at: &usize| text.is_char_boundary(at);
            let start = (0..=start.min(text.len())).rev().find(is_border).unwrap_or(0);
            (start, (end.min(text.len())..=text.len()).find(is_border).unwrap_or(text.len()).max(start))
        };
        Ok(Encoded {
            ids: encoding.get_ids().to_vec(),
            spans: encoding.get_offsets().iter().map(whole).collect(),
            units: encoding.get_word_ids().iter().map(|unit| unit.unwrap_or(0)).collect(),
            is_by_character: self.is_by_character,
        })
    }

    /// The token ids of many texts, on all threads.
    ///
    /// # Errors
    /// As for [`TextTokenizer::encode`].
    pub fn encode_all(&self, texts: &[&str]) -> Result<Vec<Vec<u32>>, Error> {
        texts.par_iter().map(|text| Ok(self.encode(text)?.ids)).collect()
    }

    /// The text of tokens.
    ///
    /// Bytes that are no UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// If the tokenizer cannot put them together (never for one that was trained here).
    pub fn decode(&self, ids: &[u32]) -> Result<String, Error> {
        self.ask(&tr!("putting tokens together", "トークンを文章に戻す"), || self.inner.decode(ids, true))
    }

    /// The token of an id, as it stands in the vocabulary.
    pub fn token(&self, id: u32) -> String {
        self.inner.id_to_token(id).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::learn::TokenizerConfig;
    use super::super::pipeline::{TextForm, Unit};
    use super::*;
    use serde_json::json;

    fn trained() -> TextTokenizer {
        let texts = [
            "The film was great, really great! I didn't expect it.",
            "the food was not good and the film was slow.",
            "この映画はとても良かったです。また見たい！",
            "この店の料理はあまり美味しくなかったです。",
        ];
        TextTokenizer::train(
            &texts,
            &TokenizerConfig { vocab_size: 400, min_frequency: 2, form: TextForm::Folded, unit: Unit::Subwords },
        )
        .unwrap()
    }

    #[test]
    fn nothing_is_unknown_and_spans_lie_in_the_text() {
        let tokenizer = trained();
        assert_eq!(tokenizer.unknown(), None);
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
            assert_eq!(encoded.ids.len(), encoded.units.len());
            assert!(encoded.ids.iter().all(|&id| id != tokenizer.cls() && (id as usize) < tokenizer.vocab_size()));
            assert!(encoded.spans.iter().all(|&(a, b)| a <= b && text.get(a..b).is_some()), "{text:?} {encoded:?}");
            if text.chars().any(char::is_alphanumeric) {
                assert!(!encoded.ids.is_empty(), "{text:?}");
            }
        }
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
    fn training_is_repeatable_and_json_reads_back() {
        let (a, b) = (trained(), trained());
        let json = a.to_json().unwrap();
        assert_eq!(json, b.to_json().unwrap());
        let again = TextTokenizer::from_json(&json).unwrap();
        let text = "この映画 was great 🎉";
        assert_eq!(again.encode(text).unwrap(), a.encode(text).unwrap());
        assert!(TextTokenizer::from_json("{}").is_err());
    }

    #[test]
    fn a_text_that_is_one_endless_word_is_cut() {
        let tokenizer = trained();
        let long = "あ".repeat(200_000);
        assert!(tokenizer.encode(&long).unwrap().ids.len() > 1_000);
    }

    /// Every form of text with every unit that can be trained.
    fn every_kind() -> Vec<(TextForm, Unit, TextTokenizer)> {
        let texts = ["the film was 12 great,\nthe film.", "この映画はとても良かった。この映画。"];
        let units = [Unit::Subwords, Unit::Characters, Unit::Words];
        let all = TextForm::ALL.into_iter().flat_map(|form| units.map(|unit| (form, unit)));
        let train = |(form, unit)| {
            let config = TokenizerConfig { vocab_size: 330, min_frequency: 1, form, unit };
            (form, unit, TextTokenizer::train(&texts, &config).unwrap())
        };
        all.map(train).collect()
    }

    /// All regular expressions of a file.
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
        for (form, unit, tokenizer) in every_kind() {
            let file: Value = serde_json::from_str(&tokenizer.to_json().unwrap()).unwrap();
            let found = regexes(&file);
            assert!(!found.is_empty(), "{form:?} {unit:?}");
            for regex in found {
                // What both engines read alike: groups without a name or flags, classes without set operations,
                // properties of Unicode, white space, counts.
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
    fn the_template_gives_what_models_are_fed() {
        for (form, unit, tokenizer) in every_kind() {
            // As the Python package would be asked: with special tokens.
            let asked = tokenizer.inner.encode(EncodeInput::from("the film 映画"), true).unwrap().get_ids().to_vec();
            let (ids, cls) = (tokenizer.encode("the film 映画").unwrap().ids, [tokenizer.cls()]);
            let fed = match form {
                // Classifiers and language models are given `[CLS]` first (`inference::pack`), sources of translators
                // `[CLS]` last (`TextTranslator::read`), targets end with it (`PairBatch::push`).
                TextForm::Folded | TextForm::Exact => [&cls[..], &ids].concat(),
                TextForm::Compatible | TextForm::Kept => [&ids[..], &cls].concat(),
            };
            assert_eq!(asked, fed, "{form:?} {unit:?}");
            let pair = tokenizer.inner.encode(EncodeInput::from(("the", "film")), true).unwrap();
            assert!(pair.get_ids().contains(&tokenizer.cls()), "{form:?} {unit:?}");
        }
    }

    #[test]
    fn folders_of_earlier_versions_are_read() {
        for (form, unit, tokenizer) in every_kind() {
            let mut file: Value = serde_json::from_str(&tokenizer.to_json().unwrap()).unwrap();
            if unit == Unit::Characters {
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
