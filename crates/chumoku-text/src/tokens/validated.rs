//! A stranger's tokenizer, run so that whatever its file says gives an answer or an error.

use super::error::TokenizerError as Error;
use super::pipeline::is_builtin_pattern;
use super::tokenizer_file;
use crate::{panics, tr};
use serde_json::Value;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::{EncodeInput, Encoding, Tokenizer};

/// A tokenizer of the library that runs them, its file vetted.
#[derive(Clone, Debug)]
pub(super) struct ValidatedTokenizer {
    pub(super) inner: Tokenizer,
    /// The file it was read from.
    path: Option<Arc<Path>>,
}

/// What is said where the library that runs tokenizers gave up without a word.
fn inconsistent_tokenizer() -> String {
    tr!("the tokenizer contradicts itself, so that it cannot be used", "トークナイザーの内容が矛盾していて使えません")
}

/// A message of another library as the part of a line.
fn one_line(message: &str) -> String {
    let words: Vec<&str> = message.split_whitespace().collect();
    words.join(" ").chars().take(300).collect()
}

impl ValidatedTokenizer {
    /// The text of a `tokenizer.json`.
    ///
    /// # Errors
    /// If it is not one, or could take all memory or all time.
    pub(super) fn from_json(json: &str) -> Result<Self, Error> {
        let sound = || ValidatedTokenizer::load_value(serde_json::from_str(json).map_err(|error| error.to_string())?);
        ValidatedTokenizer::catch_panics(sound)
    }

    /// The same, parsed.
    pub(super) fn from_json_value(file: Value) -> Result<Self, Error> {
        ValidatedTokenizer::catch_panics(|| ValidatedTokenizer::load_value(file))
    }

    fn load_value(mut file: Value) -> Result<Tokenizer, String> {
        tokenizer_file::validate(&mut file, &is_builtin_pattern)?;
        // By way of the text: parsing a value needs code of its own for every type, half a megabyte of it.
        let text = file.to_string();
        drop(file);
        Tokenizer::from_str(&text).map_err(|error| error.to_string())
    }

    /// What the library does not expect of a file it panics on.
    fn catch_panics(sound: impl FnOnce() -> Result<Tokenizer, String>) -> Result<Self, Error> {
        let read = panics::catch_silently(sound).unwrap_or_else(|_| Err(inconsistent_tokenizer()));
        let mut inner = read.map_err(|problem| Error::Invalid(one_line(&problem)))?;
        // A text that spells "[CLS]" is text.
        inner.set_encode_special_tokens(true);
        Ok(ValidatedTokenizer { inner, path: None })
    }

    /// What `parse` makes of the text of a file; from now on its errors name the file.
    ///
    /// # Errors
    /// If the file cannot be read, or as for `parse`.
    pub(super) fn read<T>(
        path: &Path,
        parse: impl FnOnce(&str) -> Result<T, Error>,
        guarded: impl FnOnce(&mut T) -> Option<&mut ValidatedTokenizer>,
    ) -> Result<T, Error> {
        let unread = |source| Error::Io { path: path.to_owned(), source };
        let bytes = std::fs::metadata(path).map_err(unread)?.len();
        if bytes > tokenizer_file::MAX_FILE_BYTES {
            let problem = tr!(
                "expected a tokenizer of at most {} bytes, found {bytes}",
                "トークナイザーは {} バイトまでですが、{bytes} バイトあります",
                tokenizer_file::MAX_FILE_BYTES
            );
            return Err(Error::File { path: path.to_owned(), problem });
        }
        let text = std::fs::read_to_string(path).map_err(unread)?;
        match parse(&text) {
            Ok(mut parsed) => {
                if let Some(guarded) = guarded(&mut parsed) {
                    guarded.path = Some(path.into());
                }
                Ok(parsed)
            }
            Err(error) => Err(Error::File { path: path.to_owned(), problem: error.to_string() }),
        }
    }

    /// What the library makes of `work` with this tokenizer. What it does not expect of its file it panics on.
    pub(super) fn run<T>(&self, doing: &str, work: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, Error> {
        let answer = panics::catch_silently(work).unwrap_or_else(|_| Err(inconsistent_tokenizer().into()));
        answer.map_err(|error| {
            let problem = format!("{doing}: {}", one_line(&error.to_string()));
            match &self.path {
                Some(path) => Error::File { path: path.to_path_buf(), problem },
                None => Error::Invalid(problem),
            }
        })
    }

    /// The tokens of a text, with or without those that the file puts around it.
    pub(super) fn encode(&self, text: &str, special: bool) -> Result<Encoding, Error> {
        let doing = || tr!("cutting a text into tokens", "文章をトークンに分ける");
        self.run(&doing(), || self.inner.encode(EncodeInput::from(text), special))
    }

    /// The text of tokens. Bytes that are no UTF-8 become U+FFFD.
    pub(super) fn decode(&self, ids: &[u32]) -> Result<String, Error> {
        self.run(&tr!("putting tokens together", "トークンを文章に戻す"), || self.inner.decode(ids, true))
    }

    /// Whether the vocabulary spells bytes with letters of its own: `Ġ` is a space.
    pub(super) fn is_byte_level(&self) -> bool {
        matches!(self.inner.get_decoder(), Some(DecoderWrapper::ByteLevel(_)))
    }

    /// The token of an id, to be shown: its text, where the vocabulary spells bytes and these are whole characters, else as
    /// it stands there.
    pub(super) fn display_token(&self, id: u32, spells_bytes: bool) -> String {
        let text = spells_bytes.then(|| self.decode(&[id]).unwrap_or_default());
        let whole = text.filter(|text| !text.is_empty() && !text.contains('\u{FFFD}'));
        whole.unwrap_or_else(|| self.inner.id_to_token(id).unwrap_or_default())
    }

    /// One more than the largest token id.
    pub(super) fn id_bound(&self) -> usize {
        self.inner.get_vocab(true).into_values().max().map_or(0, |id| id as usize + 1)
    }
}

/// Each token's bytes in the text, at borders of characters. A tokenizer that puts in what the text does not hold counts
/// past its characters, or its end.
pub(super) fn token_spans(encoding: &Encoding, text: &str) -> Vec<(usize, usize)> {
    let is_border = |&at: &usize| text.is_char_boundary(at);
    let whole = |&(start, end): &(usize, usize)| {
        let start = (0..=start.min(text.len())).rev().find(is_border).unwrap_or(0);
        (start, (end.min(text.len())..=text.len()).find(is_border).unwrap_or(text.len()).max(start))
    };
    encoding.get_offsets().iter().map(whole).collect()
}
