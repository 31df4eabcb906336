//! The tokenizers of Marian's translators: SentencePiece cuts a text (`source.spm`, `target.spm`), and `vocab.json` numbers
//! the pieces of both sides.

use super::encoded::Encoded;
use super::error::TokenizerError as Error;
use super::sentence_pieces::{Cut, SentencePieces, begins_word, joined};
use super::tokenizer_file::{END_OF_IDS, LARGEST_FILE};
use crate::tr;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::path::Path;

const UNKNOWN: &str = "<unk>";
/// What is not written in a text.
const SPECIAL: [&str; 3] = [UNKNOWN, "</s>", "<pad>"];

/// Such a tokenizer.
#[derive(Clone, Debug)]
pub(super) struct MarianTokenizer {
    pieces: SentencePieces,
    ids: HashMap<String, u32>,
    tokens: HashMap<u32, String>,
    unknown: u32,
}

impl MarianTokenizer {
    /// Reads both files, trusting nothing in them.
    ///
    /// # Errors
    /// If a file cannot be read or is damaged, or the vocabulary has no `<unk>`.
    pub(super) fn read(pieces: &Path, vocabulary: &Path) -> Result<MarianTokenizer, Error> {
        let pieces = SentencePieces::read(pieces)?;
        let unread = |source| Error::Io { path: vocabulary.to_owned(), source };
        let wrong = |problem| Error::File { path: vocabulary.to_owned(), problem };
        let bytes = std::fs::metadata(vocabulary).map_err(unread)?.len();
        if bytes > LARGEST_FILE {
            return Err(wrong(tr!(
                "expected at most {LARGEST_FILE} bytes, found {bytes}",
                "{LARGEST_FILE} バイトまでですが、{bytes} バイトあります"
            )));
        }
        let text = std::fs::read(vocabulary).map_err(unread)?;
        let (ids, tokens) = numbered(&text).map_err(wrong)?;
        let unknown = *ids.get(UNKNOWN).ok_or_else(|| {
            wrong(tr!("expected a token {UNKNOWN}, found none", "トークン {UNKNOWN} が必要ですが、ありません"))
        })?;
        Ok(MarianTokenizer { pieces, ids, tokens, unknown })
    }

    pub(super) fn ids(&self) -> &HashMap<String, u32> {
        &self.ids
    }

    pub(super) fn token(&self, id: u32) -> String {
        self.tokens.get(&id).cloned().unwrap_or_default()
    }

    /// The tokens of a text. What it begins with between `>>` and `<<` is one token: the language to translate into.
    pub(super) fn encode(&self, text: &str) -> Encoded {
        let code = match text.starts_with(">>") {
            true => text.find("<<").map_or(0, |at| at + 2),
            false => 0,
        };
        let mut encoded = Encoded::default();
        let mut unit = 0;
        let mut push = |piece: &str, span: (usize, usize)| {
            if begins_word(piece) {
                unit += 1;
            }
            encoded.ids.push(self.ids.get(piece).copied().unwrap_or(self.unknown));
            encoded.spans.push(span);
            encoded.units.push(unit);
        };
        if code > 0 {
            push(&text[..code], (0, code));
        }
        for Cut { piece, span: (start, end) } in self.pieces.cut(&text[code..]) {
            push(&piece, (code + start, code + end));
        }
        encoded
    }

    /// The text of tokens.
    pub(super) fn decode(&self, ids: &[u32]) -> String {
        let pieces = ids.iter().filter_map(|id| self.tokens.get(id)).map(String::as_str);
        joined(pieces.filter(|piece| !SPECIAL.contains(piece)))
    }
}

/// The tokens of a `vocab.json` by text, and by number.
type Numbered = (HashMap<String, u32>, HashMap<u32, String>);

fn numbered(json: &[u8]) -> Result<Numbered, String> {
    let vocabulary: Map<String, Value> = serde_json::from_slice(json).map_err(|error| {
        tr!(
            "expected an object of tokens and their numbers: {error}",
            "トークンと番号のオブジェクトが必要です: {error}"
        )
    })?;
    let (mut ids, mut tokens) = (HashMap::new(), HashMap::new());
    for (token, id) in vocabulary {
        let shown: String = token.chars().take(30).collect();
        let Some(id) = id.as_u64().filter(|&id| id < END_OF_IDS) else {
            return Err(tr!(
                "token “{shown}” has number {id}, expected 0 to {}",
                "トークン「{shown}」の番号が {id} です。0 から {} までの数が必要です",
                END_OF_IDS - 1
            ));
        };
        let id = id as u32;
        if tokens.insert(id, token.clone()).is_some() {
            return Err(tr!(
                "token “{shown}” has number {id}, as another has",
                "トークン「{shown}」の番号 {id} は別のトークンと同じです"
            ));
        }
        ids.insert(token, id);
    }
    Ok((ids, tokens))
}
