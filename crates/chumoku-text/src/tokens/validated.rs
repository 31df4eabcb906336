//! Tokenizers made by others. Any file gives a result or an error, never a panic.

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

/// A tokenizer of the `tokenizers` library whose file has been validated.
#[derive(Clone, Debug)]
pub(super) struct ValidatedTokenizer {
    pub(super) inner: Tokenizer,
    /// The file that it was read from.
    path: Option<Arc<Path>>,
}

/// The message if the `tokenizers` library panicked.
fn inconsistent_tokenizer() -> String {
    tr!("the tokenizer file is inconsistent and cannot be used", "トークナイザーの内容が矛盾していて使えません")
}

/// Shortens a message of another library to part of a line.
fn one_line(message: &str) -> String {
    let words: Vec<&str> = message.split_whitespace().collect();
    words.join(" ").chars().take(300).collect()
}

impl ValidatedTokenizer {
    /// Reads the text of a `tokenizer.json`.
    ///
    /// # Errors
    /// If it is not a tokenizer, or could use all memory or run forever.
    pub(super) fn from_json(json: &str) -> Result<Self, Error> {
        let sound = || ValidatedTokenizer::load_value(serde_json::from_str(json).map_err(|error| error.to_string())?);
        ValidatedTokenizer::catch_panics(sound)
    }

    /// [`ValidatedTokenizer::from_json`] for parsed JSON.
    pub(super) fn from_json_value(file: Value) -> Result<Self, Error> {
        ValidatedTokenizer::catch_panics(|| ValidatedTokenizer::load_value(file))
    }

    fn load_value(mut file: Value) -> Result<Tokenizer, String> {
        tokenizer_file::validate(&mut file, &is_builtin_pattern)?;
        // Converts back to text first: parsing from a `Value` would instantiate code for every type, half a megabyte in
        // all.
        let text = file.to_string();
        drop(file);
        Tokenizer::from_str(&text).map_err(|error| error.to_string())
    }

    /// Runs the library and turns its panics on unexpected files into errors.
    fn catch_panics(sound: impl FnOnce() -> Result<Tokenizer, String>) -> Result<Self, Error> {
        let read = panics::catch_silently(sound).unwrap_or_else(|_| Err(inconsistent_tokenizer()));
        let mut inner = read.map_err(|problem| Error::Invalid(one_line(&problem)))?;
        // A text that contains "[CLS]" is ordinary text.
        inner.set_encode_special_tokens(true);
        Ok(ValidatedTokenizer { inner, path: None })
    }

    /// Reads a file and parses its text. Later errors of the tokenizer name the file.
    ///
    /// # Errors
    /// If the file cannot be read, or if `parse` fails.
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

    /// Runs `work` with the library. A panic, which the library answers unexpected files with, becomes an error.
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

    /// Encodes a text, with or without the special tokens that the file adds around it.
    pub(super) fn encode(&self, text: &str, special: bool) -> Result<Encoding, Error> {
        let doing = || tr!("encoding a text", "テキストのエンコード");
        self.run(&doing(), || self.inner.encode(EncodeInput::from(text), special))
    }

    /// Decodes token ids. Bytes that are not UTF-8 become U+FFFD.
    pub(super) fn decode(&self, ids: &[u32]) -> Result<String, Error> {
        self.run(&tr!("decoding tokens", "トークンのデコード"), || self.inner.decode(ids, true))
    }

    /// Returns whether the vocabulary writes bytes as letters, such as `Ġ` for a space.
    pub(super) fn is_byte_level(&self) -> bool {
        matches!(self.inner.get_decoder(), Some(DecoderWrapper::ByteLevel(_)))
    }

    /// Returns a token for display. A byte-level token is decoded if its bytes are whole characters. Other tokens are
    /// shown as in the vocabulary.
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

/// Returns the byte range of each token in the text, at character boundaries. A tokenizer that inserts characters may
/// report offsets that are inside characters or past the end.
pub(super) fn token_spans(encoding: &Encoding, text: &str) -> Vec<(usize, usize)> {
    let is_border = |&at: &usize| text.is_char_boundary(at);
    let whole = |&(start, end): &(usize, usize)| {
        let start = (0..=start.min(text.len())).rev().find(is_border).unwrap_or(0);
        (start, (end.min(text.len())..=text.len()).find(is_border).unwrap_or(text.len()).max(start))
    };
    encoding.get_offsets().iter().map(whole).collect()
}
